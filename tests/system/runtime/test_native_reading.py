"""The workloads on the native reading, with keys in memory and with keys on disk, at their ci size."""

from __future__ import annotations

import json
import os
import re
import shutil
import stat
import subprocess
import sys
import time
from pathlib import Path

import numpy as np
import pytest

from penstock.errors import PenstockError
from penstock.front.cli.main import main
from penstock.program import workloads
from penstock.program.evaluator.circuits.bootstrap import with_few_keys
from penstock.program.running.clear import run_clear
from penstock.program.running.reading import resolve
from penstock.program.running.trace import trace_workload
from penstock.runtime.keystore import BudgetTooSmall, KeyStore
from penstock.runtime.keystore.pairs import PAIRS
from penstock.runtime.native.budgets import computing, key_accesses, play_budget, study_budgets
from penstock.runtime.native.prepared import ClientPlace, KeyPlace, key_uses
from penstock.runtime.native.reading import prepared_native
from penstock.scheme.traces.inspect import differences, problems
from support.narrow_networks import FEW_VALUES, quarter
from support.native_runs import record_native

pytestmark = pytest.mark.usefixtures("encrypting")
NAME = "inner-product"
INSIDE = ClientPlace.INSIDE
MINUTES = {"resnet20", "resnet20-multiplexed", "cryptoracle-resnet20"}
"""Some twenty bootstrappings and 25,000 operations each, at the smallest size."""


REFUSED = {"cryptoracle-chi-square", "fetch-by-similarity"}
"""Refused by name: one multiplies products that were not relinearized; one begins in a smaller ring, and is run by
`penstock.runtime.similarity`."""


@pytest.mark.parametrize("name", [name for name in workloads.names() if name not in MINUTES | REFUSED])
def test_a_workload_computes_what_it_does_in_the_clear_and_leaves_the_trace_readings_trace(name: str) -> None:
    workload, size_name, params = resolve(name, None, "ci")
    if name in FEW_VALUES:
        params = quarter(params)
    size = workload.SIZES[size_name]
    data = workload.data(size, params.slots, 1)
    # A tenth of the keys in memory, and room for the one in use.
    expected = trace_workload(name, with_few_keys(params), size_name)
    budget = max(params.key_bytes(), len(expected.view().key_ids()) * params.key_bytes() // 10)
    place = KeyPlace(budget_bytes=budget, input_budget_bytes=0)
    done = record_native(name, params, size_name, 1, data, threads=1, keys=place, client=INSIDE)
    expected = trace_workload(name, done.trace.parameters(), size_name)  # with the plan that the run chose
    check = workload.check(run_clear(name, params, size_name, 1, data), done.result, data, size)
    assert check.passed, check.rules
    assert list(differences(done.trace, expected.view())) == []
    assert list(problems(done.trace)) == []
    traffic = done.traffic
    assert traffic.peak_resident_bytes <= budget
    uses = key_uses(expected)
    assert traffic.hits + traffic.misses == len(uses)
    assert traffic.requested_bytes == sum(params.key_bytes(limbs, key=key) for key, limbs in uses)


@pytest.mark.smoke
def test_keys_in_memory_and_under_any_budget_give_the_same_values(tmp_path: Path) -> None:
    place = KeyPlace(store=tmp_path / "keys")
    _, _, params = resolve(NAME, None, "ci")
    read_bytes = []
    with prepared_native(NAME, size="ci", threads=1, keys=place) as run:
        for keys in (20, 4, 1):
            done = run(budget_bytes=keys * params.key_bytes())
            read_bytes.append(done.traffic.read_bytes)
            clear = run_clear(NAME, params, "ci")
            assert float(np.max(np.abs(done.result - clear))) < 1e-4
    # Everything once where all fits, more and more where it does not.
    assert read_bytes[0] <= done.traffic.key_bytes
    assert read_bytes[0] < read_bytes[1] < read_bytes[2]


def test_uses_of_keys_in_memory_are_counted_run_by_run() -> None:
    _, _, params = resolve(NAME, None, "ci")
    uses = key_uses(trace_workload(NAME, params, "ci"))
    with prepared_native(NAME, size="ci", threads=1) as run:
        for _ in range(2):
            done = run()
            assert (done.traffic.hits, done.traffic.misses, done.traffic.read_bytes) == (len(uses), 0, 0)
            assert done.traffic.requested_bytes == sum(params.key_bytes(limbs) for _, limbs in uses)
            assert done.key_waits_s == (0.0,) * len(uses)


def test_a_kept_store_serves_the_next_run_with_its_client_keys_beside_it(tmp_path: Path, encrypting: str) -> None:
    secret = PAIRS[encrypting].secret
    missing = rf"{re.escape(secret)} is missing, .* put the right file back; or remove"
    store = tmp_path / "keys"
    first = record_native(NAME, size="ci", threads=1, keys=KeyPlace(store=store), client=INSIDE)
    # Another process, the same key pair.
    second = record_native(NAME, size="ci", threads=1, keys=KeyPlace(store=store))
    assert first.made_keys == len(KeyStore(store).list_keys()) > 0
    assert second.made_keys == 0
    secrets = list((tmp_path / "keys.client").rglob(secret))
    assert len(secrets) == 1
    assert stat.S_IMODE(secrets[0].stat().st_mode) == 0o600
    assert not list(store.rglob(secret))
    # The pair is missing: no other takes its place, so that it can be put back.
    away = (tmp_path / "keys.client").rename(tmp_path / "away")
    for client in (INSIDE, ClientPlace.PROCESS):
        with pytest.raises(PenstockError, match="the secret key they were made from is not in"):
            record_native(NAME, size="ci", threads=1, keys=KeyPlace(store=store), client=client)
        assert not (tmp_path / "keys.client").exists()
    away.rename(tmp_path / "keys.client")
    assert record_native(NAME, size="ci", threads=1, keys=KeyPlace(store=store), client=INSIDE).made_keys == 0
    # Half a pair, or another one: the stored keys are of no use, and they are not silently made anew.
    secrets[0].unlink()
    for _ in range(2):
        with pytest.raises(PenstockError, match=missing):
            record_native(NAME, size="ci", threads=1, keys=KeyPlace(store=store))
    shutil.rmtree(secrets[0].parent)
    record_native(NAME, size="ci", threads=1, keys=KeyPlace(store=tmp_path / "more"), client=INSIDE)
    (other,) = (tmp_path / "more.client").iterdir()
    other.rename(secrets[0].parent)
    with pytest.raises(PenstockError, match="made from another secret key"):
        record_native(NAME, size="ci", threads=1, keys=KeyPlace(store=store))


def test_a_budget_below_one_key_is_refused_with_the_remedy() -> None:
    with pytest.raises(BudgetTooSmall, match="raise it"):
        record_native(NAME, size="ci", threads=1, keys=KeyPlace(budget_bytes=1 << 20), client=INSIDE)


def test_the_verb_prints_what_the_keys_did(capsys: pytest.CaptureFixture[str]) -> None:
    arguments = ["run", NAME, "--size", "ci", "--reading", "native", "--threads", "1", "-q", "--format", "json"]
    assert main([*arguments, "--key-budget", "8 MiB", "--input-budget", "0 B"]) == 0
    found = json.loads(capsys.readouterr().out)
    assert found["reading"] == "native"
    assert found["passed"]
    assert found["key_read_bytes"] > found["key_budget_bytes"] == 8 << 20
    assert found["key_peak_resident_bytes"] <= 8 << 20
    # Each input is read when it is used, and one operation has two of them at most.
    assert found["input_read_bytes"] >= found["input_bytes"] > 2 * found["input_peak_resident_bytes"] / 3 > 0
    assert found["standing_rss_bytes"] > found["client_peak_rss_bytes"] > 20e6
    assert main(["run", NAME, "--reading", "openfhe", "--keys", "somewhere"]) == 2
    assert "--reading native" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("place", "said"),
    [
        (["--keys", "keys", "--tenant", "../../evil"], "--tenant: tenant is '../../evil': letters, digits"),
        (["--keys", "keys", "--tenant", "/tmp/evil"], "--tenant: tenant is '/tmp/evil'"),
        (["--keys", "s3://bucket/x"], "--keys 's3://bucket/x': name a folder of this machine"),
    ],
)
def test_a_place_that_no_keys_can_have_is_refused_before_anything_is_written(
    place: list[str], said: str, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    folder = tmp_path / "deep" / "below"
    folder.mkdir(parents=True)
    monkeypatch.chdir(folder)
    assert main(["run", NAME, "--size", "ci", "--reading", "native", "-q", *place]) == 2
    assert said in capsys.readouterr().err
    assert [each for each in tmp_path.rglob("*") if each not in (folder, folder.parent)] == []


@pytest.mark.parametrize("place", [["--client", "process"], ["--client", "inside"], ["--keys"]])
@pytest.mark.parametrize("moment", ["penstock-*", "**/*.pkey"])
def test_sigterm_leaves_no_temporary_keys(place: list[str], moment: str, tmp_path: Path) -> None:
    place = [*place, str(tmp_path / "kept")] if place == ["--keys"] else place
    temporary = tmp_path / "temporary"
    temporary.mkdir()
    arguments = ["run", NAME, "--size", "ci", "--reading", "native", "--key-budget", "8 MiB", "--threads", "1", *place]
    program = "import sys; from penstock.front.cli.main import main; sys.exit(main(sys.argv[1:]))"
    with subprocess.Popen(
        [sys.executable, "-c", program, *arguments],
        env={**os.environ, "TMPDIR": str(temporary)},
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    ) as process:
        try:
            places = [temporary, tmp_path / "kept"]
            while process.poll() is None and not any(list(place.glob(moment)) for place in places):
                time.sleep(0.005)
            process.terminate()
            _, said = process.communicate(timeout=60)
        finally:
            process.kill()
    assert list(temporary.rglob("*")) == []
    assert (process.returncode, said.splitlines()[-1]) == (130, "penstock: interrupted")


def test_kernels_that_this_machine_has_not_and_an_empty_tenant_are_refused(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    arguments = ["run", NAME, "--size", "ci", "--reading", "native", "-q"]
    assert main([*arguments, "--keys", str(tmp_path / "keys"), "--tenant", ""]) == 2
    assert "tenant is ''" in capsys.readouterr().err
    monkeypatch.setenv("PENSTOCK_CPU", "scalar")
    assert main(arguments) == 2
    assert "PENSTOCK_CPU: kernels 'scalar': this machine has" in capsys.readouterr().err


def test_budgets_measured_and_simulated_read_the_same_where_all_keys_fit(tmp_path: Path) -> None:
    rows = study_budgets(NAME, "ci", threads=1, shares=(1.0, 0.4), folder=tmp_path / "keys")
    whole, small = rows
    # Every key once: all are exact.
    assert whole["measured_read_bytes"] == whole["simulated_read_bytes"] == whole["belady_read_bytes"]
    assert whole["belady_read_bytes"] <= whole["key_bytes"]
    assert small["belady_read_bytes"] > whole["belady_read_bytes"]
    # Rows leave limb by limb in the store, key by key under Belady's rule in the simulator.
    assert small["measured_read_bytes"] >= 0.8 * small["belady_read_bytes"]
    assert small["simulated_read_bytes"] == pytest.approx(small["measured_read_bytes"], rel=0.2)
    assert all(row["peak_resident_bytes"] <= row["budget_bytes"] for row in rows)
    assert all(row["measured_s"] > 0 and row["simulated_s"] > 0 for row in rows)


def test_a_machine_that_was_fitted_to_a_run_prices_a_study_and_the_report_shows_it(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    timings, machine, folder = tmp_path / "native.json", tmp_path / "native.toml", tmp_path / "run"
    run = ["run", "logistic-regression", "--size", "ci", "--reading", "native", "--threads", "1"]
    run += ["--client", "inside", "-q"]
    assert main([*run, "--timings", str(timings)]) == 0
    assert main([*run, "--timings", str(timings)]) != 0  # never overwritten unasked
    assert main(["predict", "fit", str(timings), "-o", str(machine), "-q"]) == 0
    capsys.readouterr()
    study = ["keys", "study", NAME, "--size", "ci", "--budgets", "100,40", "-q", "--format", "json"]
    assert main([*study, "--machine", str(machine), "-o", str(folder)]) == 0
    whole, small = json.loads(capsys.readouterr().out)
    assert whole["machine"] == small["machine"] == "native"
    # Seconds rest on a reading rate that was measured for each budget apart; bytes rest on the program alone.
    assert 0 < whole["simulated_read_bytes"] < small["simulated_read_bytes"]
    assert min(whole["simulated_s"], small["simulated_s"]) > 0
    page = (folder / "report.html").read_text(encoding="utf-8")
    assert "<h2>Budgets, measured and simulated</h2>" in page
    assert "priced by the machine native" in page
    assert main(["report", str(folder)]) == 0
    assert main([*study[:-3], "-o", str(folder)]) == 2  # a run that is there stays
    assert "--force" in capsys.readouterr().err


def test_a_simulated_run_waits_for_a_slow_disk_and_not_for_a_fast_one(tmp_path: Path) -> None:
    done = record_native(NAME, size="ci", threads=1, keys=KeyPlace(store=tmp_path / "keys"), client=INSIDE)
    params = resolve(NAME, None, "ci")[2]
    compute_s, accesses = computing(done), key_accesses(done, params)
    budget = 2 * params.key_bytes()
    fast, slow = (play_budget(compute_s, accesses, budget, rate) for rate in (1e12, 1e7))
    assert fast.total_s == pytest.approx(compute_s.sum(), rel=0.01)
    assert slow.total_s >= slow.io_bytes / 1e7


@pytest.mark.usefixtures("openfhe")
@pytest.mark.parametrize("form", ["full", "seeded"])
def test_the_bench_compares_three_ways_with_openfhe_word_for_word(
    capsys: pytest.CaptureFixture[str], form: str
) -> None:
    arguments = [
        "keys",
        "bench",
        "--params",
        "insecure-small",
        "--rounds",
        "1",
        "--num-keys",
        "5",
        "-q",
        "--form",
        form,
    ]
    code = main([*arguments, "--threads", "1", "--format", "json"])
    captured = capsys.readouterr()
    if code and "page cache" in captured.err:
        pytest.skip(captured.err)
    found = json.loads(captured.out)
    assert list(found) == [
        "openfhe_ram_s",
        "native_ram_s",
        "native_disk_s",
        "disk_bytes_per_s",
        "least_s",
        "ratio",
        "reserve_s",
        "form",
        "key_bytes",
        "stored_bytes",
        "bit_identical",
    ]
    assert found["bit_identical"] is True
    # With one round a median is the round itself.
    assert found["least_s"] == max(found["native_ram_s"], found["stored_bytes"] / found["disk_bytes_per_s"])
    assert found["ratio"] == found["native_disk_s"] / found["least_s"]
    assert found["key_bytes"] == resolve(NAME, "insecure-small", "ci")[2].key_bytes()
    assert (found["form"], found["stored_bytes"]) == (form, found["key_bytes"] // (2 if form == "seeded" else 1))
    assert min(value for name, value in found.items() if name not in ("bit_identical", "form")) > 0
    assert main([*arguments, "--threads", "4096"]) == 2
    assert "processors" in capsys.readouterr().err
