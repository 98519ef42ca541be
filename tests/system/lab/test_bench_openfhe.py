"""The benchmark suite on real ciphertexts, on the smallest rings."""

from __future__ import annotations

import json
import time
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest

from penstock.base.runs.folder import RunFolder
from penstock.lab.measure.bench.catalogue import PRIMITIVES
from penstock.lab.measure.bench.primitives import TOLERANCE, prepare
from penstock.lab.measure.bench.results import load_results
from penstock.lab.measure.bench.spec import BenchPoint, parse_suite, plan
from penstock.lab.measure.bench.store import MANIFEST, StoredSet
from penstock.lab.measure.bench.suite import Options, config_of, run_plan
from penstock.scheme.params.ckks import CkksParameters

pytestmark = pytest.mark.usefixtures("openfhe")

SUITE = """
[timing]
min_time = "1 ms"
runs = 3
[[primitives]]
ring_dim = "2^11"
depth = 6
limbs = ["fresh", "last"]
chebyshev_degree = 5
[[primitives]]
items = ["rotate", "key_load"]
ring_dim = "2^11"
depth = 6
conditions = ["cold", "cold-keys"]
[[primitives]]
items = [
    "recorded_add", "recorded_mult_plain", "recorded_rotate", "recorded_mult", "recorded_decrypt",
    "recorded_chebyshev_series",
]
ring_dim = "2^11"
depth = 6
chebyshev_degree = 5
[[micro]]
workload = "matrix-multiplication"
threads = 1
"""


def points() -> list[BenchPoint]:
    return plan(parse_suite(SUITE, "toy", "toy.toml")).points


@pytest.fixture(scope="module")
def measured(tmp_path_factory: pytest.TempPathFactory) -> RunFolder:
    folder = tmp_path_factory.mktemp("bench")
    wanted, options = plan(parse_suite(SUITE, "toy", "toy.toml")), Options(store=folder / "store")
    with pytest.MonkeyPatch.context() as patch, RunFolder.create(folder / "run", config_of(wanted, options)) as run:
        quick(patch)
        run_plan(wanted, run, options)
    return run


def quick(patch: pytest.MonkeyPatch) -> None:
    """No more runs where some disagree, short looks at the noise, and little to push out of the caches."""
    patch.setattr("penstock.lab.measure.bench.primitive_runs.REPEATS", 1)
    patch.setattr("penstock.lab.measure.bench.timing.PROBE_POINT_S", 1e-3)
    patch.setattr("penstock.lab.measure.bench.timing.last_level_cache_bytes", lambda: 1 << 20)


def test_every_primitive_but_bootstrap_is_measured_and_meets_clear(measured: RunFolder) -> None:
    rows = [row for row in load_results(measured.path).to_pylist() if row["group"] == "primitives"]
    assert {row["item"] for row in rows} == set(PRIMITIVES) - {"bootstrap"}
    assert {row["item"] for row in rows if row["passed"] is None} == {"decompose", "key_load"}
    assert not [row["item"] for row in rows if row["passed"] is False]
    assert {row["condition"] for row in rows} == {"warm", "cold", "cold-keys"}
    whole = [row for row in rows if PRIMITIVES[row["item"]].records is None]
    assert all(row["total_s"] >= 1e-3 or row["calls"] == 1 for row in whole)


def test_the_record_of_a_call_takes_microseconds_whatever_the_library_takes(measured: RunFolder) -> None:
    rows = load_results(measured.path).to_pylist()
    fastest = {
        (row["item"], row["limbs"]): min(row["samples_s"])
        for row in rows
        if row["condition"] == "warm" and row["across"] == 1 and row["group"] == "primitives"
    }
    for item in ("mult", "rotate"):
        assert 0 < fastest[f"recorded_{item}", 7] < 0.5 * fastest[item, 7]
    # The rows of the expansion, and the slots that are read, are part of the record.
    assert fastest["recorded_chebyshev_series", 7] > 3 * fastest["recorded_add", 7]
    assert fastest["recorded_decrypt", 7] > fastest["recorded_add", 7]


def test_a_microbenchmark_is_checked_and_leaves_its_trace(measured: RunFolder) -> None:
    (row,) = [row for row in load_results(measured.path).to_pylist() if row["group"] == "micro"]
    assert (row["passed"], row["calls"]) == (True, 1)
    assert (measured.path / "traces" / f"{row['point']}.parquet").is_file()


def test_a_key_load_reads_the_whole_key(measured: RunFolder) -> None:
    rows = [row for row in load_results(measured.path).to_pylist() if row["item"] == "key_load"]
    params = points()[0].params
    assert {row["key_bytes"] for row in rows} == {rows[0]["key_bytes"]}
    assert params.key_bytes() < rows[0]["key_bytes"] < 1.1 * params.key_bytes()


def test_a_rotation_with_few_limbs_costs_less_than_a_fresh_one(measured: RunFolder) -> None:
    rows = load_results(measured.path).to_pylist()
    fastest = {
        limbs: min(
            min(r["samples_s"]) for r in rows if (r["item"], r["condition"], r["limbs"]) == ("rotate", "warm", limbs)
        )
        for limbs in (1, 7)
    }
    assert fastest[1] < 0.7 * fastest[7]


def toy() -> CkksParameters:
    return points()[0].params


def error_of(stored: StoredSet, item: str) -> float:
    fresh = next(p for p in points() if p.item == item and p.limbs == p.params.num_q and p.condition == "warm")
    found = prepare(fresh, stored).max_abs_error()
    assert found is not None
    return found


def test_keys_are_made_once_and_used_again(tmp_path: Path) -> None:
    seen = []
    for _ in range(2):
        with StoredSet(tmp_path, toy()) as stored:
            assert error_of(stored, "rotate") < TOLERANCE
            assert error_of(stored, "mult") < TOLERANCE
            seen.append({p.name: p.stat().st_mtime_ns for p in stored.folder.glob("*.bin")})
    assert seen[0] == seen[1]
    assert set(seen[0]) == {"context.bin", "public.bin", "secret.bin", "relin.bin", "rotation-5.bin"}


@pytest.mark.parametrize("victim", ["relin", "rotation-5", "public", "secret", "context"])
@pytest.mark.parametrize("damage", ["flip", "cut", "gone"])
def test_a_damaged_file_is_seen_made_again_and_reported(tmp_path: Path, victim: str, damage: str) -> None:
    warnings: list[str] = []
    with StoredSet(tmp_path, toy()) as stored:
        error_of(stored, "rotate")
        error_of(stored, "mult")
        path = stored.path(victim)
    if damage == "gone":
        path.unlink()
    else:
        content = bytearray(path.read_bytes())
        content[len(content) // 2] ^= 1
        path.write_bytes(content if damage == "flip" else content[: len(content) // 2])
    with StoredSet(tmp_path, toy(), warn=lambda what, remedy: warnings.append(what)) as stored:
        assert error_of(stored, "rotate") < TOLERANCE
        assert error_of(stored, "mult") < TOLERANCE
    assert len(warnings) == 1
    assert victim in warnings[0]


def test_a_damaged_manifest_means_that_nothing_is_trusted(tmp_path: Path) -> None:
    warnings: list[str] = []
    with StoredSet(tmp_path, toy()) as stored:
        error_of(stored, "mult")
        manifest = stored.folder / MANIFEST
    manifest.write_text(manifest.read_text()[:-20])
    with StoredSet(tmp_path, toy(), warn=lambda what, remedy: warnings.append(what)) as stored:
        assert error_of(stored, "mult") < TOLERANCE
        assert "relin" in json.loads(manifest.read_text())["files"]
    assert "manifest" in warnings[0]


def test_only_the_owner_may_read_the_stored_keys(tmp_path: Path) -> None:
    with StoredSet(tmp_path, toy()) as stored:
        assert stored.folder.stat().st_mode & 0o077 == 0


def test_inputs_are_the_same_values_every_time_and_have_the_limbs_asked_for(tmp_path: Path) -> None:
    with StoredSet(tmp_path, toy()) as stored:
        ciphertext = stored.ciphertext("a", 2)
        assert toy().num_q - ciphertext.GetLevel() == 2
        plain = stored.context.Decrypt(ciphertext, stored.secret_key)
        plain.SetLength(toy().slots)
        np.testing.assert_allclose(plain.GetRealPackedValue(), stored.values("a"), atol=1e-8)


def test_two_operations_side_by_side_give_right_answers(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    quick(monkeypatch)
    text = SUITE.partition("[[micro]]")[0]
    wanted = plan(parse_suite(text, "toy", "toy.toml"), only=("rotate", "key_load"), across=(2,))
    options = Options(store=tmp_path / "store")
    with RunFolder.create(tmp_path / "run", config_of(wanted, options)) as run:
        outcome = run_plan(wanted, run, options)
    assert outcome.failed == []
    assert set(load_results(run.path)["across"].to_pylist()) == {2}


def test_the_number_of_threads_is_the_one_asked_for(tmp_path: Path) -> None:
    """OpenFHE ignores `omp_set_num_threads`: what counts is how many threads have really worked."""
    from penstock.program.openfhe.evaluator import set_threads

    def working(threads: int, call: Callable[[], object]) -> int:
        set_threads(threads)
        before = _processor_ns()
        deadline = time.monotonic() + 0.3
        while time.monotonic() < deadline:
            call()
        after = _processor_ns()
        return sum(after[task] - before.get(task, 0) > 10_000_000 for task in after)

    with StoredSet(tmp_path, toy()) as stored:
        prepared = prepare(next(p for p in points() if p.item == "rotate" and p.limbs == p.params.num_q), stored)
        assert [working(threads, prepared.call) for threads in (1, 2, 1)] == [1, 2, 1]
    set_threads(1)


def _processor_ns() -> dict[str, int]:
    """Nanoseconds that each thread of this process has run."""
    return {task.name: int((task / "schedstat").read_text().split()[0]) for task in Path("/proc/self/task").iterdir()}
