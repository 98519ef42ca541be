"""Queues of several tenants on real ciphertexts: results, isolation, failures, interruption."""

from __future__ import annotations

import json
import os
import shutil
import signal
import sqlite3
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from penstock.cli.main import main
from penstock.errors import PenstockError
from penstock.keystore import KeyName, KeyRefused, KeyStore, parameter_digest
from penstock.native.prepared import ClientPlace, KeyPlace, key_uses
from penstock.native.reading import record_native
from penstock.params.ckks import Scaling
from penstock.program.circuits.bootstrap import with_few_keys
from penstock.running.reading import resolve
from penstock.running.trace import trace_workload
from penstock.service import run as run_module
from penstock.service.client import Clients, PreparedJob, TenantClient
from penstock.service.queue import Job, Policy
from penstock.service.run import JobResult, QueueRunner, admit

pytestmark = pytest.mark.usefixtures("encrypting")
WORKLOAD = "inner-product"
PARAMS = resolve(WORKLOAD, None, "ci")[2]
DIGEST = parameter_digest(PARAMS)


def job(number: int, tenant: str) -> Job:
    return Job(number=number, tenant=tenant, workload=WORKLOAD, size="ci", seed=number)


@pytest.fixture(scope="module")
def made(
    tmp_path_factory: pytest.TempPathFactory, encrypting: str
) -> Iterator[tuple[Path, Clients, list[PreparedJob]]]:
    """A store of two tenants, and three jobs."""
    folder = tmp_path_factory.mktemp("tenants") / "keys"
    clients = Clients(folder)
    jobs = [job(0, "alice"), job(1, "bob"), job(2, "alice")]
    yield folder, clients, clients.prepare(jobs)
    clients.release()


@pytest.fixture
def store(made: Any, tmp_path: Path) -> Path:
    """A copy of the store, to be damaged."""
    folder = tmp_path / "keys"
    shutil.copytree(made[0], folder)
    return folder


def run(folder: Path, jobs: list[PreparedJob], policy: Policy = Policy.FUTURE, keys: int = 4) -> list[JobResult]:
    return list(QueueRunner(KeyStore(folder), keys * PARAMS.key_bytes(), policy, threads=1).run(jobs))


def passed(clients: Clients, result: JobResult) -> bool:
    if result.error is not None:
        return False
    each = result.prepared
    return bool(clients.of(each.job).check(each.job, each.size, result.outputs).passed)


def segment(folder: Path, tenant: str, key: str) -> Path:
    return folder / tenant / DIGEST / f"{key.replace(':', '-')}.pkey"


@pytest.mark.smoke
@pytest.mark.parametrize("policy", list(Policy))
def test_jobs_of_two_tenants_compute_what_they_do_in_the_clear(made: Any, policy: Policy) -> None:
    folder, clients, jobs = made
    results = run(folder, jobs, policy)
    assert [passed(clients, each) for each in results] == [True] * 3
    for each in results:
        assert each.hits + each.misses == len(each.prepared.uses)
    assert results[0].wait_s <= results[1].wait_s <= results[2].wait_s
    runner = QueueRunner(KeyStore(folder), 4 * PARAMS.key_bytes(), policy, threads=1)
    list(runner.run(jobs))
    assert runner.cache.stats().peak_resident_bytes <= 4 * PARAMS.key_bytes()


def test_sets_that_differ_in_scaling_alone_share_keys_and_no_evaluator(
    made: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    folder, _, jobs = made
    others = [scaling for scaling in Scaling if scaling is not PARAMS.scaling]
    sets = [PARAMS, replace(PARAMS, name="renamed"), *(replace(PARAMS, scaling=each) for each in others)]
    of_one_digest = [each for each in sets if parameter_digest(each) == DIGEST]
    assert len(of_one_digest) > 2
    asked: list[Scaling] = []
    monkeypatch.setattr(run_module, "make_context", lambda params, *_, **__: asked.append(params.scaling))
    runner = QueueRunner(KeyStore(folder), 4 * PARAMS.key_bytes(), Policy.FUTURE, threads=1)
    runner.prepare([replace(jobs[0], params=params) for params in of_one_digest])
    assert asked == list(dict.fromkeys(params.scaling for params in of_one_digest))


def test_swapped_segments_stop_both_tenants_jobs_and_compute_nothing(made: Any, store: Path) -> None:
    """The files of one key, exchanged between two tenants."""
    ours, theirs = (segment(store, tenant, "relin") for tenant in ("alice", "bob"))
    aside = ours.with_suffix(".aside")
    ours.rename(aside)
    theirs.rename(ours)
    aside.rename(theirs)
    results = run(store, made[2])
    assert all(each.error is not None and not each.outputs for each in results)


def test_swapped_keys_of_one_tenant_stop_its_jobs_alone(made: Any, store: Path) -> None:
    keys = [key for key, _ in made[2][0].uses if key.startswith("rot:")]
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
    others = Clients(tmp_path / "others")
    newer = others.of(job(3, "alice")).prepare(job(3, "alice"))
    # All keys stay in memory, and the third job is of a key pair whose keys are gone by then.
    runner = QueueRunner(KeyStore(store), 64 * PARAMS.key_bytes(), Policy.LRU, threads=1)
    results = []
    for result in runner.run([made[2][0], newer, made[2][2]]):
        results.append(result)
        if len(results) == 1:
            KeyStore(store).gc(tenant="alice")
            shutil.copytree(tmp_path / "others" / "alice", store / "alice", dirs_exist_ok=True)
            assert KeyStore(store).opening.adopted
    assert passed(made[1], results[0])
    assert passed(others, results[1])
    assert "another secret key" in (results[2].error or "")
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
    folder, _, jobs = made
    foreign = replace(jobs[0], key_tag=jobs[1].key_tag)
    with pytest.raises(KeyRefused, match="another secret key"):
        admit(KeyStore(folder), foreign, DIGEST)
    results = run(folder, [foreign, jobs[1]])
    assert "another secret key" in (results[0].error or "")
    assert not results[0].outputs
    assert passed(made[1], results[1])


def test_anothers_inputs_are_refused(made: Any) -> None:
    folder, _, jobs = made
    mixed = replace(jobs[0], inputs=jobs[1].inputs)
    assert "is encrypted with key pair" in (run(folder, [mixed])[0].error or "")
    # A job of alice's that says it is bob's.
    claimed = replace(jobs[0], job=replace(jobs[0].job, tenant="bob"))
    assert "another secret key" in (run(folder, [claimed])[0].error or "")


@pytest.mark.parametrize("fault", ["flip", "truncate", "remove"])
def test_a_failed_read_stops_that_job_alone(made: Any, store: Path, fault: str) -> None:
    opened = KeyStore(store)
    target = segment(store, "bob", made[2][1].uses[-1][0])
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
    runner = QueueRunner(opened, 4 * PARAMS.key_bytes(), Policy.FUTURE, threads=1)
    results = list(runner.run(made[2]))
    assert [each.error is None for each in results] == [True, False, True]
    assert passed(made[1], results[0])
    assert passed(made[1], results[2])


def test_an_interruption_keeps_what_has_ended(made: Any) -> None:
    folder, clients, jobs = made
    queue = QueueRunner(KeyStore(folder), 4 * PARAMS.key_bytes(), Policy.FUTURE, threads=1).run(jobs)
    first = next(queue)
    queue.close()
    assert passed(clients, first)


def test_a_program_that_encrypts_after_decrypting_is_no_job(monkeypatch: pytest.MonkeyPatch, made: Any) -> None:
    from penstock.workloads import inner_product

    def dialogue(ev: Any, data: Any, size: Any) -> Any:
        return ev.decrypt(ev.encrypt(ev.decrypt(ev.encrypt(data.query))))

    monkeypatch.setattr(inner_product, "program", dialogue)
    client: TenantClient = made[1].of(made[2][0].job)
    with pytest.raises(PenstockError, match="after it has decrypted"):
        client.prepare(job(0, "alice"))


def test_a_tenants_process_that_was_killed_is_told_and_another_one_takes_its_place(made: Any) -> None:
    first = made[2][0].job
    client = made[1].of(first)
    client.prepare(first)
    assert client.pid is not None
    os.kill(client.pid, signal.SIGKILL)
    with pytest.raises(PenstockError, match=r"signal 9.*a smaller budget") as told:
        client.prepare(first)
    assert "--client" not in str(told.value)
    assert client.prepare(first).key_tag == made[2][0].key_tag


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
    whole = QueueRunner._run_one

    def interrupted(self: QueueRunner, prepared: Any, position: int, *rest: Any) -> JobResult:
        if position == 1:
            raise KeyboardInterrupt
        return whole(self, prepared, position, *rest)

    monkeypatch.setattr(QueueRunner, "_run_one", interrupted)
    assert main(["run", "--tenants", str(tenants), "--jobs", str(jobs), "-q", "--format", "json"]) == 130
    found = json.loads(capsys.readouterr().out)
    assert [row["passed"] for row in found["jobs"]] == [True]
    assert found["queue"]["interrupted"]


def test_keys_that_nobody_has_made_are_named(made: Any, store: Path) -> None:
    shutil.rmtree(store / "bob")
    results = run(store, made[2])
    assert [each.error is None for each in results] == [True, False, True]
    assert "keys import" in (results[1].error or "")
    assert KeyStore(store).list_keys(tenant="bob") == []
    assert KeyName("bob", DIGEST, "relin") not in [key.name for key in KeyStore(store).list_keys()]


def test_a_job_that_bootstraps_takes_the_keys_of_the_native_reading_or_the_librarys(tmp_path: Path) -> None:
    folder, name = tmp_path / "keys", "bootstrapping"
    each = Job(number=0, tenant="alice", workload=name, size="ci")
    params = resolve(name, None, "ci")[2]
    num_keys = []
    for few_keys, plan in ((True, with_few_keys(params)), (False, params)):
        clients = Clients(folder, few_keys=few_keys)
        try:
            prepared = clients.of(each).prepare(each)
            assert list(prepared.uses) == key_uses(trace_workload(name, plan, "ci"))
            runner = QueueRunner(KeyStore(folder), 8 * params.key_bytes(), Policy.FUTURE, threads=1)
            assert [passed(clients, result) for result in runner.run([prepared])] == [True]
        finally:
            clients.release()
        num_keys.append(len({key for key, _ in prepared.uses}))
        if few_keys:
            # Its keys serve a run of the tenant alone.
            place = KeyPlace(store=folder, tenant="alice")
            alone = record_native(name, size="ci", threads=1, keys=place, client=ClientPlace.INSIDE)
            assert alone.made_keys == 0
    assert num_keys[0] < num_keys[1]
