"""Queues of several tenants on real ciphertexts: results, isolation, failures, interruption."""

from __future__ import annotations

import json
import os
import re
import shutil
import signal
import sqlite3
import sys
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from queue import SimpleQueue
from typing import Any

import pytest

from penstock.errors import PenstockError
from penstock.front.cli.main import main
from penstock.front.hall import queueing
from penstock.front.hall.queueing import Ended, QueueRun
from penstock.program.evaluator.circuits.bootstrap import with_few_keys
from penstock.program.package.capture import NotOblivious
from penstock.program.running.reading import resolve
from penstock.program.running.trace import trace_workload
from penstock.runtime.keystore import KeyName, KeyStore, parameter_digest
from penstock.runtime.native.prepared import ClientPlace, KeyPlace, key_uses
from penstock.service.owners import Owners, PreparedJob
from penstock.service.tenants import Job
from penstock.service.work.messages import WorkerSettings
from penstock.service.work.order import Order
from penstock.service.work.pool import WorkerPool
from support.native_runs import record_native

pytestmark = pytest.mark.usefixtures("encrypting")
WORKLOAD = "inner-product"
PARAMS = resolve(WORKLOAD, None, "ci")[2]
DIGEST = parameter_digest(PARAMS)


def job(seed: int, tenant: str) -> Job:
    return Job(tenant=tenant, workload=WORKLOAD, size="ci", seed=seed)


@pytest.fixture(scope="module")
def made(tmp_path_factory: pytest.TempPathFactory, encrypting: str) -> Iterator[tuple[Path, Owners, list[PreparedJob]]]:
    """A store of two tenants, and three jobs."""
    folder = tmp_path_factory.mktemp("tenants") / "keys"
    owners = Owners(folder)
    yield folder, owners, owners.prepare([job(0, "alice"), job(1, "bob"), job(2, "alice")])
    owners.release()


@pytest.fixture
def store(made: Any, tmp_path: Path) -> Path:
    """A copy of the store, to be damaged."""
    folder = tmp_path / "keys"
    shutil.copytree(made[0], folder)
    return folder


def settings_of(folder: Path, jobs: list[PreparedJob], policy: str = "future", keys: int = 4) -> WorkerSettings:
    place = (jobs[0].program.path.parent,)
    budget = keys * jobs[0].program.params.key_bytes()
    return WorkerSettings(store=folder, budget_bytes=budget, policy=policy, readable=place, writable=place)


def in_store(folder: Path, job: PreparedJob, /, **changes: Any) -> PreparedJob:
    """The job with the keys of a store."""
    return replace(job, spec=replace(job.spec, store=folder, **changes))


def run(folder: Path, jobs: list[PreparedJob], policy: str = "future", keys: int = 4) -> list[Ended]:
    for path in (path for each in jobs for path in each.spec.outputs.values()):
        path.unlink(missing_ok=True)
    return QueueRun(settings_of(folder, jobs, policy, keys), [in_store(folder, each) for each in jobs]).ended


def passed(owners: Owners, ended: Ended) -> bool:
    return ended.error is None and bool(owners.check(ended.prepared).passed)


def computed(ended: Ended) -> list[Path]:
    return [path for path in ended.prepared.spec.outputs.values() if path.exists()]


def segment(folder: Path, tenant: str, key: str) -> Path:
    return folder / tenant / DIGEST / f"{key.replace(':', '-')}.pkey"


@pytest.mark.smoke
@pytest.mark.parametrize("policy", ["lru", "future"])
def test_jobs_of_two_tenants_compute_what_they_do_in_the_clear(made: Any, policy: str) -> None:
    folder, owners, jobs = made
    done = QueueRun(settings_of(folder, jobs, policy), jobs)
    assert [each.position for each in done.ended] == [0, 1, 2]
    assert [passed(owners, each) for each in done.ended] == [True] * 3
    for each in done.ended:
        assert each.figures["hits"] + each.figures["misses"] == len(each.prepared.program.uses)
    assert done.ended[0].begun_s <= done.ended[1].begun_s <= done.ended[2].begun_s
    assert sum(each.read_bytes for each in done.ended) == done.figures["read_bytes"] > 0
    assert 0 < done.figures["peak_resident_bytes"] <= 4 * PARAMS.key_bytes()


def test_every_job_of_a_long_queue_keeps_its_figures(made: Any, store: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A pool remembers the latest jobs; a queue may have more of them."""
    monkeypatch.setitem(WorkerPool.__init__.__kwdefaults__, "remembered", 1)
    assert all(each.figures and each.ended_s > each.begun_s for each in run(store, made[2]))


def test_swapped_segments_stop_both_tenants_jobs_and_compute_nothing(made: Any, store: Path) -> None:
    """The files of one key, exchanged between two tenants."""
    ours, theirs = (segment(store, tenant, "relin") for tenant in ("alice", "bob"))
    aside = ours.with_suffix(".aside")
    ours.rename(aside)
    theirs.rename(ours)
    aside.rename(theirs)
    results = run(store, made[2])
    assert all(each.error is not None and not computed(each) for each in results)


def test_swapped_keys_of_one_tenant_stop_its_jobs_alone(made: Any, store: Path) -> None:
    keys = [key for key, _ in made[2][0].program.uses if key.startswith("rot:")]
    first, second = (segment(store, "alice", key) for key in (keys[0], keys[1]))
    aside = first.with_suffix(".aside")
    first.rename(aside)
    second.rename(first)
    aside.rename(second)
    results = run(store, made[2])
    assert [each.error is None for each in results] == [False, True, False]
    assert passed(made[1], results[1])


def test_keys_that_are_replaced_between_two_jobs_are_those_that_the_second_one_reads(
    made: Any, store: Path, tmp_path: Path
) -> None:
    others = Owners(tmp_path / "others")
    (newer,) = others.prepare([job(3, "alice")])
    first, gone = (in_store(store, each) for each in (made[2][0], made[2][2]))
    newer = in_store(store, newer, job="newer")
    folders, told = (made[1].folder, others.folder), SimpleQueue[tuple[str, str]]()
    # All keys stay in memory, and the third job is of a key pair whose keys are gone by then.
    settings = replace(settings_of(store, [first], "lru", 64), readable=folders, writable=folders)
    pool = WorkerPool(
        settings,
        on_done=lambda job, _: told.put((job, "")),
        on_failed=lambda job, reason, _: told.put((job, reason)),
        order=Order.FCFS,
    )
    pool.start()
    try:
        pool.submit(first.spec)
        assert told.get(timeout=60) == (first.spec.job, "")
        assert made[1].check(first).passed
        KeyStore(store).gc(tenant="alice")
        shutil.copytree(tmp_path / "others" / "alice", store / "alice", dirs_exist_ok=True)
        assert KeyStore(store).opening.adopted
        pool.submit(newer.spec)
        pool.submit(gone.spec)
        assert told.get(timeout=60) == ("newer", "")
        assert others.check(newer).passed
        assert "another secret key" in told.get(timeout=60)[1]
    finally:
        pool.close()
    others.release()


def test_a_swapped_index_never_gives_a_tenant_anothers_key(made: Any, store: Path) -> None:
    with sqlite3.connect(store / "index.sqlite") as index:
        table = next(name for (name,) in index.execute("select name from sqlite_master where type = 'table'"))
        index.execute(f"update {table} set tenant = 'swap' where tenant = 'alice'")
        index.execute(f"update {table} set tenant = 'alice' where tenant = 'bob'")
        index.execute(f"update {table} set tenant = 'bob' where tenant = 'swap'")
    index.close()
    for result in run(store, made[2]):
        # The store may refuse, or heal its index from the segments; a job that ends has the right result.
        assert result.error is not None or passed(made[1], result)


def test_a_swapped_tag_of_a_key_pair_is_refused_before_anything_runs(made: Any) -> None:
    folder, owners, jobs = made
    foreign = in_store(folder, jobs[0], secret_tag=jobs[1].spec.secret_tag)
    results = run(folder, [foreign, jobs[1]])
    assert "another secret key" in (results[0].error or "")
    assert not computed(results[0])
    assert passed(owners, results[1])


def test_anothers_inputs_are_refused(made: Any) -> None:
    folder, _, jobs = made
    mixed = in_store(folder, jobs[0], inputs=jobs[1].spec.inputs)
    assert "is encrypted with key pair" in (run(folder, [mixed])[0].error or "")
    # A job of alice's that says it is bob's.
    claimed = in_store(folder, jobs[0], tenant="bob")
    assert "another secret key" in (run(folder, [claimed])[0].error or "")


@pytest.mark.parametrize("fault", ["flip", "truncate", "remove"])
def test_a_failed_read_stops_that_job_alone(made: Any, store: Path, fault: str) -> None:
    opened = KeyStore(store)
    target = segment(store, "bob", made[2][1].program.uses[-1][0])
    if fault == "remove":
        target.unlink()
    elif fault == "truncate":
        with target.open("r+b") as file:
            file.truncate(8192)
    else:
        with target.open("r+b") as file:
            file.seek(4096 + 64)
            byte = file.read(1)
            file.seek(-1, 1)
            file.write(bytes([byte[0] ^ 1]))
    results = run(opened.folder, made[2])
    assert [each.error is None for each in results] == [True, False, True]
    assert passed(made[1], results[0])
    assert passed(made[1], results[2])


def test_a_program_that_encrypts_what_it_decrypted_is_no_job(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    from penstock.program.workloads import inner_product

    def dialogue(ev: Any, data: Any, size: Any) -> Any:
        return ev.decrypt(ev.encrypt(ev.decrypt(ev.encrypt(data.query))))

    monkeypatch.setattr(inner_product, "program", dialogue)
    owners = Owners(tmp_path / "keys")
    with pytest.raises(NotOblivious, match=r"input .input.1.. depends on values that the program decrypted"):
        owners.prepare([job(0, "alice")])
    owners.release()


def test_a_tenants_process_that_was_killed_is_told_and_another_one_takes_its_place(made: Any) -> None:
    folder, owners, jobs = made
    results = run(folder, jobs[:1])
    process = owners.processes[jobs[0].key_pair]
    process.ready()
    os.kill(process.pid, signal.SIGKILL)
    with pytest.raises(PenstockError, match=r"signal 9.*a smaller budget") as told:
        owners.check(results[0].prepared)
    assert "--client" not in str(told.value)
    assert passed(owners, results[0])


def test_a_worker_that_dies_at_its_start_again_and_again_ends_the_queue(
    made: Any, store: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    stillborn = tmp_path / "stillborn.py"
    stillborn.write_text("raise SystemExit(9)")
    monkeypatch.setattr("penstock.service.work.process.python_module", lambda name: [sys.executable, str(stillborn)])
    before = len(list(Path("/proc/self/fd").iterdir()))
    with pytest.raises(PenstockError, match="died at its start, three times"):
        run(store, made[2])
    assert len(list(Path("/proc/self/fd").iterdir())) == before


def test_a_worker_that_dies_computes_its_job_again(made: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    folder, owners, jobs = made
    pools: list[Any] = []

    class Watched(queueing.WorkerPool):
        def __init__(self, *args: Any, **options: Any) -> None:
            super().__init__(*args, **options)
            pools.append(self)

    def kill_once() -> None:
        if pools:
            os.kill(pools.pop().snapshot(0)["workers"][0]["pid"], signal.SIGKILL)

    monkeypatch.setattr(queueing, "WorkerPool", Watched)
    done = QueueRun(settings_of(folder, jobs), jobs, kill_once)
    assert [passed(owners, each) for each in done.ended] == [True] * 3
    assert done.figures["worker_deaths"] == 1


def test_the_command_reports_each_job_and_the_bound(made: Any, capsys: pytest.CaptureFixture[str]) -> None:
    folder: Path = made[0]
    tenants, jobs = folder.with_name("tenants.toml"), folder.with_name("jobs.toml")
    tenants.write_text(f'store = "{folder.name}"\nbudget = "50%"\ntenants = ["alice", "bob"]\n')
    text = '[[job]]\ntenant = "{}"\nworkload = "inner-product"\nsize = "ci"\n'
    jobs.write_text("".join(text.format(tenant) for tenant in ("alice", "bob", "alice")))
    arguments = ["run", "--tenants", str(tenants), "--jobs", str(jobs), "--threads", "1", "-q", "--format", "json"]
    assert main(arguments) == 0
    found = json.loads(capsys.readouterr().out)
    assert [row["job"] for row in found["jobs"]] == [0, 2, 1]
    assert all(row["passed"] and row["key_bytes"] > 0 for row in found["jobs"])
    assert found["queue"]["measured_over_bound"] >= 1
    loaded = found["queue"]["key_read_bytes"] + found["queue"]["key_expanded_bytes"]
    assert 0 < found["queue"]["simulated_read_bytes"] <= loaded
    assert main(["run", "--tenants", str(tenants)]) == 2
    assert main(["run", WORKLOAD, "--tenants", str(tenants), "--jobs", str(jobs)]) == 2
    assert main(["run"]) == 2
    # What would be passed over in silence is refused.
    capsys.readouterr()
    for option in (["--key-budget", "1 GiB"], ["--seed", "3"], ["--reading", "native"], ["--client", "inside"]):
        assert main([*arguments, *option]) == 2
        assert f"a queue takes no {option[0]}" in capsys.readouterr().err
    assert main(["run", WORKLOAD, "--scheduling", "fifo"]) == 2
    assert "--tenants" in capsys.readouterr().err


def test_ctrl_c_prints_the_jobs_that_have_ended(
    made: Any, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    folder: Path = made[0]
    tenants, jobs = folder.with_name("t2.toml"), folder.with_name("j2.toml")
    tenants.write_text(f'store = "{folder.name}"\nbudget = "50%"\ntenants = ["alice"]\n')
    jobs.write_text('[[job]]\ntenant = "alice"\nworkload = "inner-product"\nsize = "ci"\n' * 3)
    begun = queueing.QueueRun.__init__

    def interrupted(self: QueueRun, settings: Any, jobs: Any, on_job: Any) -> None:
        def end() -> None:
            raise KeyboardInterrupt

        begun(self, settings, jobs, end)

    monkeypatch.setattr(queueing.QueueRun, "__init__", interrupted)
    assert main(["run", "--tenants", str(tenants), "--jobs", str(jobs), "-q", "--format", "json"]) == 130
    found = json.loads(capsys.readouterr().out)
    assert [row["passed"] for row in found["jobs"]] == [True]
    assert found["queue"]["interrupted"]


def test_keys_that_nobody_has_made_are_named(made: Any, store: Path) -> None:
    shutil.rmtree(store / "bob")
    results = run(store, made[2])
    assert [each.error is None for each in results] == [True, False, True]
    assert re.search("tenant 'bob' lacks .* keys of 'inner-product': .*relin.*make", results[1].error or "")
    assert KeyStore(store).list_keys(tenant="bob") == []
    assert KeyName("bob", DIGEST, "relin") not in [key.name for key in KeyStore(store).list_keys()]


def test_a_job_that_bootstraps_takes_the_keys_of_the_native_reading(tmp_path: Path) -> None:
    folder, name = tmp_path / "keys", "bootstrapping"
    params = with_few_keys(resolve(name, None, "ci")[2])
    owners = Owners(folder)
    try:
        (prepared,) = owners.prepare([Job(tenant="alice", workload=name, size="ci")])
        assert list(prepared.program.uses) == key_uses(trace_workload(name, params, "ci"))
        (ended,) = run(folder, [prepared], keys=8)
        assert passed(owners, ended)
    finally:
        owners.release()
    # Its keys serve a run of the tenant alone.
    place = KeyPlace(store=folder, tenant="alice")
    assert record_native(name, size="ci", threads=1, keys=place, client=ClientPlace.INSIDE).made_keys == 0


def test_the_known_future_does_not_read_keys_for_coming_jobs_in_the_place_of_the_next_ones(made: Any) -> None:
    folder, _, jobs = made
    # Memory holds the keys of one tenant, and jobs of both follow each other.
    alternating = [in_store(folder, jobs[at % 2], job=f"again-{at}") for at in range(8)]
    read = {
        policy: QueueRun(settings_of(folder, alternating, policy, 9), alternating).figures["read_bytes"]
        for policy in ("lru", "future")
    }
    assert read["future"] <= 1.15 * read["lru"]
