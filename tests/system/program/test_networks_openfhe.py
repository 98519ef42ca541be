"""The networks encrypted for real, and rotation keys on disk.

They are narrow here: `test_networks_native.py` has one of full width.
"""

from __future__ import annotations

from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

from penstock.errors import PenstockError
from penstock.program import workloads
from penstock.program.openfhe.evaluator import OpenFheContext, OpenFheEvaluator
from penstock.program.running.clear import run_clear
from penstock.program.running.openfhe import record_openfhe
from penstock.program.running.reading import Run
from penstock.program.running.trace import trace_workload
from penstock.scheme.params.ckks import CkksParameters, Scaling
from penstock.scheme.traces.inspect import differences, problems
from support.narrow_networks import narrow_network
from support.toy import toy, toy_bootstrap

X = np.linspace(-0.5, 0.5, 64)
STEPS = [1, 2, 5, -3]


def key_bytes(folder: Path) -> list[int]:
    return [p.stat().st_size for p in sorted(folder.iterdir())]


@pytest.mark.parametrize("name", ["resnet20-multiplexed", "cryptoracle-resnet20"])
@pytest.mark.usefixtures("openfhe")
def test_a_network_encrypted_equals_clear_and_its_trace_equals_the_trace_reading(
    name: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    _equals_clear(name, *narrow_network(name, monkeypatch))


@pytest.mark.usefixtures("openfhe")
def test_resnet20_with_its_keys_on_disk_equals_clear_and_leaves_the_same_trace(monkeypatch: pytest.MonkeyPatch) -> None:
    params, data = narrow_network("resnet20", monkeypatch)
    done, max_abs_error = _equals_clear("resnet20", params, data, key_budget_bytes=5 * params.key_bytes())
    assert max_abs_error < 1e-5
    steps = {s for s in done.trace.view(composites=True).operations["step"].to_pylist() if s}
    assert done.num_key_loads > len(steps), "five keys do not hold the working set of a layer: some are loaded again"


def _equals_clear(
    name: str, params: CkksParameters, data: Any, key_budget_bytes: int | None = None
) -> tuple[Run, float]:
    """The run, and its largest error."""
    workload = workloads.get(name)
    clear = run_clear(name, params, "ci", 1, data)
    done = record_openfhe(name, params, "ci", 1, data, threads=1, key_budget_bytes=key_budget_bytes)
    check = workload.check(clear, done.result, data, workload.SIZES["ci"])
    assert check.passed, check.rules
    assert list(differences(done.trace, trace_workload(name, params, "ci", 1, data))) == []
    assert list(problems(done.trace)) == []
    assert done.wall_s > 0
    return done, check.max_abs_error


@pytest.mark.usefixtures("openfhe")
def test_paged_rotations_equal_those_from_memory_within_the_budget(tmp_path: Path) -> None:
    params = toy()
    context = OpenFheContext.create(params, rotation_steps=STEPS, key_folder=tmp_path, key_budget_bytes=1)
    try:
        assert len(key_bytes(tmp_path)) == len(STEPS)
        paged = context.paged
        assert paged is not None
        assert abs(sum(key_bytes(tmp_path)) / (len(STEPS) * params.key_bytes()) - 1) < 0.05
        ev = OpenFheEvaluator(context)
        a = ev.encrypt(X)
        for _ in range(2):
            for step, got in zip(STEPS, ev.rotate_many(a, STEPS), strict=True):
                assert np.allclose(ev.decrypt(got), np.roll(X, -step), atol=1e-8)
                assert paged.resident_bytes == key_bytes(tmp_path)[0], "the key in use, and no other"
        assert paged.num_loads == 2 * len(STEPS)
        assert np.allclose(ev.decrypt(ev.rotate(ev.rotate(a, -3), -3)), np.roll(X, 6), atol=1e-8)
        assert paged.num_loads == 2 * len(STEPS), "the last key was still there"
        with pytest.raises(PenstockError, match="no key for automorphism"):
            ev.rotate(a, 7)
    finally:
        context.release()
    assert key_bytes(tmp_path) == []


@pytest.mark.usefixtures("openfhe")
def test_bootstrapping_and_paged_rotations_take_turns(tmp_path: Path) -> None:
    params = toy_bootstrap(Scaling.FLEXIBLE_AUTO, 64)
    budget = 10 * params.key_bytes()
    context = OpenFheContext.create(
        params, rotation_steps=STEPS, bootstrap=(params.slots,), key_folder=tmp_path, key_budget_bytes=budget
    )
    try:
        ev = OpenFheEvaluator(context)
        a = ev.encrypt(X)
        for _ in range(2):
            hoisted = ev.rotate_many(a, STEPS)
            a = ev.bootstrap(ev.mod_drop(hoisted[0], 2))
        assert np.allclose(ev.decrypt(a), np.roll(X, -2), atol=1e-5)
        assert context.paged is not None
        assert context.paged.num_loads == len(STEPS)
    finally:
        context.release()


@pytest.mark.usefixtures("openfhe")
def test_keys_that_do_not_fit_on_the_disk_are_refused_after_the_first(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    size = toy().key_bytes()
    monkeypatch.setattr("shutil.disk_usage", lambda path: SimpleNamespace(free=2 * size))
    with pytest.raises(PenstockError, match="set TMPDIR to a folder with more room"):
        OpenFheContext.create(toy(), rotation_steps=STEPS, key_folder=tmp_path, key_budget_bytes=1)
    assert len(key_bytes(tmp_path)) == 1


@pytest.mark.usefixtures("openfhe")
def test_a_key_file_that_vanished_is_an_error_with_its_name(tmp_path: Path) -> None:
    context = OpenFheContext.create(toy(), rotation_steps=STEPS, key_folder=tmp_path, key_budget_bytes=1)
    try:
        ev = OpenFheEvaluator(context)
        a = ev.encrypt(X)
        for path in tmp_path.iterdir():
            path.write_bytes(b"")
        with pytest.raises(PenstockError, match=r"rot-\d+\.key cannot be read"):
            ev.rotate(a, 1)
    finally:
        context.release()
