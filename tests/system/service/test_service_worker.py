"""Jobs on packages in real workers: real keys, files in and out, deaths, damage, cancellation, admission."""

from __future__ import annotations

import os
import random
import signal
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from penstock.base.types import Row
from penstock.errors import PenstockError, UsageError
from penstock.program.package.builder import PackageBuilder
from penstock.program.package.content import ConstantsInMemory, Input, Output, Verb
from penstock.program.package.file import write_package
from penstock.runtime.keystore import parameter_digest
from penstock.runtime.native.engine import make_context
from penstock.scheme.params import catalogue
from penstock.scheme.params.ckks import CkksParameters
from penstock.service.work.admission import Limits
from penstock.service.work.messages import AdmissionRefused, JobSpec, WorkerSettings
from penstock.service.work.order import Order
from penstock.service.work.pool import Isolation, WorkerPool
from penstock.service.work.process import WorkerProcess
from penstock.service.work.programs import plan_program
from support.service_jobs import BUDGET, Site, Told, package, refreshed


@pytest.fixture(scope="module")
def site(tmp_path_factory: pytest.TempPathFactory) -> Site:
    made = Site(tmp_path_factory.mktemp("site"))
    short, other, long = (made.deploy(package(made.params, *each)) for each in ((2, 3), (3, 5), (120, 3)))
    for tenant in ("alice", "bob"):
        made.join(tenant, short, other, long)
    return made


SHORT, OTHER, LONG = "turns-2-3", "turns-3-5", "turns-120-3"


@contextmanager
def opened(site: Site, **options: Any) -> Iterator[tuple[WorkerPool, Told]]:
    told = Told()
    fields = {
        name: options.pop(name)
        for name in ("abreast", "budget_bytes", "floor_bytes", "policy", "kept_bytes", "tenants")
        if name in options
    }
    (site.folder / "workers").mkdir(exist_ok=True)
    settings = WorkerSettings(
        **{"store": site.store.folder, "budget_bytes": BUDGET, **fields},
        readable=(site.folder / "packages", site.folder / "inputs"),
        writable=(site.folder / "workers",),
    )
    pool = WorkerPool(settings, **told.callbacks(), **options)
    pool.start()
    try:
        yield pool, told
    finally:
        pool.close()


def until(true: Callable[[], object], seconds: float = 30.0) -> None:
    ending = time.monotonic() + seconds
    while not true():
        assert time.monotonic() < ending, "it took too long"
        time.sleep(0.005)


def pid(pool: WorkerPool) -> int:
    until(lambda: pool.snapshot()["workers"])
    return int(pool.snapshot()["workers"][0]["pid"])


def test_jobs_of_two_tenants_interleave_under_one_budget_and_each_gets_its_own_keys(site: Site) -> None:
    needs = sum(site.params.key_bytes(limbs, key=key) for key, limbs in site.packages[OTHER][1].keys.items())
    # Less than both tenants' keys: rows leave and come back.
    budget = int(1.2 * needs)
    with opened(site, abreast=2, budget_bytes=budget) as (pool, told):
        pairs = [(tenant, program) for tenant in ("alice", "bob") for program in (SHORT, OTHER)] * 3
        jobs = [site.job(tenant, program) for tenant, program in pairs]
        for spec, _ in jobs:
            pool.submit(spec)
        pool.drain(30)
        assert told.failed == {}
        for spec, clear in jobs:
            site.check(spec, clear)
            figures = told.done[spec.job]
            switches = len(site.packages[spec.program][1].instructions)
            assert 0 < figures.hits + figures.misses <= switches
            assert figures.peak_bytes > 0
            assert figures.compute_s > figures.key_wait_s >= 0
        seen = pool.snapshot()
        assert seen["queue"] == seen["running"] == []
        assert 0 < sum(seen["key_bytes"].values()) <= budget
        assert seen["evictions"] > 0
        assert sum(each.hits for each in told.done.values()) == seen["hits"]
        assert site.leftovers() == []


def test_the_bounds_of_a_worker_are_in_force_and_reported(site: Site, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("SOME_PASSWORD", "hunter2")
    with opened(site) as (pool, told):
        spec, clear = site.job("alice", SHORT)
        pool.submit(spec)
        until(lambda: spec.job in told.done)
        site.check(spec, clear)
        (worker,) = pool.snapshot()["workers"]
        assert worker["isolation"]["limits"].startswith("in force")
        status = Path(f"/proc/{worker['pid']}/status").read_text()
        if worker["isolation"]["seccomp"].startswith("in force"):
            assert "Seccomp:\t2" in status
        if worker["isolation"]["no_new_privs"] == "in force":
            assert "NoNewPrivs:\t1" in status
        if worker["isolation"]["user"].startswith("in force"):
            assert "Uid:\t0" not in status
            assert "CapBnd:\t0000000000000000" in status
            assert "CapPrm:\t0000000000000004" in status  # to read, which Landlock bounds
        environment = Path(f"/proc/{worker['pid']}/environ").read_bytes()
        assert b"SOME_PASSWORD" not in environment
        if worker["isolation"]["landlock"].startswith("in force"):
            (site.folder / "elsewhere").mkdir(exist_ok=True)
            secret, (again, _) = site.folder / "elsewhere" / "x", site.job("bob", SHORT)
            secret.write_bytes(again.inputs["x"].read_bytes())
            pool.submit(replace(again, inputs={**again.inputs, "x": secret}))
            pool.drain(30)
            assert "permission denied" in told.failed[again.job][0]


def test_a_process_of_one_tenant_reads_that_tenants_files_alone(site: Site) -> None:
    tenants = site.folder / "tenants"
    settings: dict[str, Any] = {"tenants": tenants, "isolation": Isolation.PROCESS, "max_workers": 2}
    for tenant in ("alice", "bob"):
        (tenants / tenant).mkdir(parents=True, exist_ok=True)
    with opened(site, **settings) as (pool, told):
        jobs = {}
        for whose, input_of in (("alice", "alice"), ("bob", "alice")):
            spec, _ = site.job(whose, SHORT)
            (tenants / input_of / spec.job).write_bytes(spec.inputs["x"].read_bytes())
            jobs[whose] = replace(spec, inputs={**spec.inputs, "x": tenants / input_of / spec.job})
            pool.submit(jobs[whose])
        pool.drain(30)
        workers = pool.snapshot()["workers"]
        assert jobs["alice"].job in told.done
        if all(worker["isolation"]["landlock"].startswith("in force") for worker in workers):
            assert "permission denied" in told.failed[jobs["bob"].job][0]


@pytest.mark.parametrize("kind", ["link", "two names", "too large", "missing", "folder"])
def test_a_result_that_is_no_plain_file_of_its_size_is_refused_and_removed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, kind: str
) -> None:
    class Never:
        pid = 1

        def wait(self, _: float) -> int:
            return 0

    monkeypatch.setattr("subprocess.Popen", lambda *_, **__: Never())
    (tmp_path / "workers").mkdir()
    (tmp_path / "secret").write_bytes(b"s")
    target = tmp_path / "result"
    spec = JobSpec(
        job="j", tenant="t", program="p", package=tmp_path, store=tmp_path, secret_tag=None, inputs={},
        outputs={"y": target}, most_output_bytes=10,
    )  # fmt: skip
    worker = WorkerProcess(WorkerSettings(store=tmp_path, budget_bytes=1, writable=(tmp_path / "workers",)), "")
    try:
        worker.run(spec)
        (made,) = (tmp_path / "workers").glob("worker-*/0")
        if kind == "link":
            (made / "0").symlink_to(tmp_path / "secret")
        elif kind == "two names":
            (made / "0").hardlink_to(tmp_path / "secret")
        elif kind == "folder":
            (made / "0").mkdir()
        elif kind == "too large":
            (made / "0").write_bytes(b"1" * 11)
        assert worker.ended("j", spec)
        assert not target.exists()
        assert not target.is_symlink()
        assert (tmp_path / "secret").read_bytes() == b"s"
        worker.run(spec)
        (made,) = (tmp_path / "workers").glob("worker-*/1")
        (made / "0").write_bytes(b"1" * 10)
        assert worker.ended("j", spec) == ""
        assert target.read_bytes() == b"1" * 10
        assert target.stat().st_uid == os.geteuid()
    finally:
        worker.end()
    assert list((tmp_path / "workers").iterdir()) == []


@pytest.mark.smoke
def test_a_killed_worker_is_replaced_and_its_job_ends_whole_and_once(site: Site) -> None:
    rng = random.Random(5)
    with opened(site, abreast=2) as (pool, told):
        jobs = [site.job(tenant, LONG) for tenant in ("alice", "bob")]
        for spec, _ in jobs:
            pool.submit(spec)
        for _ in range(2):
            until(lambda: pool.snapshot()["running"] and pool.snapshot()["workers"])
            time.sleep(rng.uniform(0.0, 0.5))
            died = pool.snapshot()["worker_deaths"]
            os.kill(pid(pool), signal.SIGKILL)
            until(lambda died=died: pool.snapshot()["worker_deaths"] > died)  # type: ignore[misc]
        begun = time.monotonic()
        pool.drain(40)
        assert time.monotonic() - begun < 30
        assert set(told.done) | set(told.failed) == {spec.job for spec, _ in jobs}
        assert told.failed == {}
        for spec, clear in jobs:
            site.check(spec, clear)
        assert max(map(told.started.count, told.done)) > 1
    # The unfinished files of the dead are gone with the next write beside them.
    assert site.leftovers() == []


def test_a_job_that_takes_three_workers_with_it_fails_and_spares_the_others(site: Site) -> None:
    with opened(site) as (pool, told):
        bad, _ = site.job("alice", LONG)
        good, clear = site.job("bob", SHORT)
        pool.submit(bad)
        until(lambda: told.started == [bad.job])
        pool.submit(good)
        while bad.job not in told.failed:
            if any(each["job"] == bad.job for each in pool.snapshot()["running"]):
                os.kill(pid(pool), signal.SIGKILL)
            time.sleep(0.05)
        assert "the worker died 3 times" in told.failed[bad.job][0]
        assert told.failed[bad.job][1] is False
        pool.drain(30)
        site.check(good, clear)


def test_damage_fails_one_job_and_leaves_the_worker_alive(site: Site) -> None:
    with opened(site) as (pool, told):
        before = pid(pool)
        cut, _ = site.job("alice", SHORT)
        cut.inputs["x"].write_bytes(cut.inputs["x"].read_bytes()[:5000])
        large, _ = site.job("alice", SHORT)
        large.inputs["y"].write_bytes(large.inputs["y"].read_bytes() + bytes(1 << 20))
        foreign, _ = site.job("alice", SHORT)
        foreign.inputs["x"].write_bytes(site.job("bob", SHORT)[0].inputs["x"].read_bytes())
        gone, _ = site.job("alice", SHORT)
        gone.inputs["x"].unlink()
        unnamed, _ = site.job("alice", SHORT)
        unnamed = replace(unnamed, inputs={"x": unnamed.inputs["x"]})
        broken, _ = site.job("alice", SHORT)
        place = site.folder / "packages" / "broken.pkg"
        place.write_bytes(broken.package.read_bytes()[:-40])
        broken = replace(broken, package=place)
        good, clear = site.job("alice", SHORT)
        for spec in (cut, large, foreign, gone, unnamed, broken, good):
            pool.submit(spec)
        pool.drain(30)
        site.check(good, clear)
        expected = {
            large.job: "input 'y' is larger",
            foreign.job: "input 'x' is encrypted with key pair",
            gone.job: "it does not exist",
            unnamed.job: "has the inputs x, y",
            broken.job: "broken.pkg",
        }
        for job, words in expected.items():
            assert words in told.failed[job][0]
        assert told.failed[cut.job]
        assert pid(pool) == before
        assert pool.snapshot()["worker_deaths"] == 0


def test_a_missing_key_is_named_and_a_damaged_one_fails_its_job_alone(tmp_path: Path) -> None:
    site = Site(tmp_path)
    program = site.deploy(package(site.params))
    site.join("carol", program)
    site.join("dave", program, without="relin")
    with opened(site) as (pool, told):
        whole, clear = site.job("carol", program)
        lacking, _ = site.job("dave", program)
        pool.submit(whole)
        pool.submit(lacking)
        pool.drain(30)
        site.check(whole, clear)
        assert "'dave' lacks 1 keys" in told.failed[lacking.job][0]
        assert "relin" in told.failed[lacking.job][0]
    segment = next(path for path in (tmp_path / "keys").glob("carol/*/*.pkey") if "relin" in path.name)
    content = bytearray(segment.read_bytes())
    content[-2000:-1900] = bytes(byte ^ 255 for byte in content[-2000:-1900])
    segment.write_bytes(content)
    with opened(site) as (pool, told):
        site.join("erin", program)
        damaged, _ = site.job("carol", program)
        other, clear = site.job("erin", program)
        pool.submit(damaged)
        pool.submit(other)
        pool.drain(30)
        assert "relin" in told.failed[damaged.job][0]
        assert not damaged.outputs["total"].exists()
        site.check(other, clear)


def test_a_cancelled_job_ends_without_results_and_a_forgotten_tenant_has_no_keys(site: Site) -> None:
    with opened(site) as (pool, told):
        runs, _ = site.job("alice", LONG)
        waits, _ = site.job("alice", SHORT)
        after, clear = site.job("bob", SHORT)
        for spec in (runs, waits, after):
            pool.submit(spec)
        until(lambda: told.started == [runs.job])
        time.sleep(0.2)
        assert pool.cancel(waits.job)
        assert pool.cancel(runs.job)
        assert not pool.cancel(runs.job)
        assert not pool.cancel("no such job")
        pool.drain(30)
        assert list(told.done) == [after.job]
        assert told.failed == {}
        site.check(after, clear)
        assert not runs.outputs["total"].exists()
    with opened(site) as (pool, told):
        jobs = [site.job("alice", SHORT)[0], site.job("bob", SHORT)[0]]
        for spec in jobs:
            pool.submit(spec)
        until(lambda: len(told.done) == 2)
        assert pool.snapshot()["key_bytes"].keys() == {"alice", "bob"}
        pool.forget_tenant("alice")
        again, _ = site.job("bob", SHORT)
        pool.submit(again)
        until(lambda: again.job in told.done)
        assert pool.snapshot()["key_bytes"].keys() == {"bob"}


def test_a_worker_drops_the_programs_that_only_a_forgotten_tenant_has_run(site: Site) -> None:
    with opened(site) as (pool, told):
        jobs = [site.job(*each)[0] for each in (("alice", SHORT), ("bob", SHORT), ("alice", OTHER))]
        for spec in jobs:
            pool.submit(spec)
        until(lambda: len(told.done) == 3)
        shared, own = jobs[0].package, jobs[2].package

        def held() -> set[str]:
            links = list(Path(f"/proc/{pid(pool)}/fd").iterdir())
            return {str(link.readlink()) for link in links if link.is_symlink()}

        assert {str(shared), str(own)} <= held()
        pool.forget_tenant("alice")
        until(lambda: str(own) not in held())
        assert str(shared) in held()
        pool.forget_tenant("bob")
        until(lambda: str(shared) not in held())
        again, clear = site.job("bob", SHORT)
        pool.submit(again)
        until(lambda: again.job in told.done)
        site.check(again, clear)


def test_admission_refuses_early_with_a_time_to_come_back(site: Site) -> None:
    with opened(site, limits=Limits(jobs=2, backlog_s=10.0, memory_bytes=1 << 30)) as (pool, _):
        first, _ = site.job("alice", LONG, compute_s=6.0)
        pool.submit(first)
        with pytest.raises(UsageError, match="its own identity"):
            pool.submit(first)
        with pytest.raises(AdmissionRefused, match="they would exceed") as refused:
            pool.submit(replace(first, job="b", compute_s=5.0))
        assert 0.5 <= refused.value.retry_after_s <= 10
        with pytest.raises(UsageError, match="needs 2147483648 bytes"):
            pool.submit(replace(first, job="c", memory_bytes=2 << 30))
        pool.submit(replace(first, job="d", compute_s=1.0))
        with pytest.raises(AdmissionRefused, match="2 jobs of this tenant wait"):
            pool.submit(replace(first, job="e", compute_s=0.0))
        pool.drain(0.0)
        with pytest.raises(AdmissionRefused, match="about to stop"):
            pool.submit(replace(first, job="f"))


def test_a_deadline_that_is_over_fails_a_waiting_job(site: Site) -> None:
    with opened(site) as (pool, told):
        long, _ = site.job("alice", LONG)
        late, _ = site.job("bob", SHORT, deadline_s=0.3)
        pool.submit(long)
        until(lambda: told.started)
        pool.submit(late)
        until(lambda: late.job in told.failed)
        assert told.failed[late.job] == ("expired: its deadline of 0.3 s was over before it began", False)


def test_a_job_that_computes_beyond_its_deadline_expires_and_its_worker_goes_on(site: Site) -> None:
    with opened(site) as (pool, told):
        before = pid(pool)
        program = site.deploy(package(site.params, 1500, 3))
        site.join("alice", program)
        late, _ = site.job("alice", program, deadline_s=1000.0)
        pool.submit(late)
        until(lambda: any(each["computing_s"] for each in pool.snapshot()["running"]))
        begun = time.monotonic()
        late = pool._queue.get(late.job)
        late.spec = replace(late.spec, deadline_s=0.05)
        job = late.spec.job
        until(lambda: job in told.failed)
        assert time.monotonic() - begun < 2.0
        assert told.failed[job] == ("expired: its deadline of 0.05 s was over while it computed", False)
        after, clear = site.job("bob", SHORT)
        pool.submit(after)
        pool.drain(30)
        site.check(after, clear)
        assert told.ended == [job, after.job]
        assert not late.spec.outputs["total"].exists()
        assert pid(pool) == before


def test_a_worker_writes_nothing_to_the_key_store(site: Site) -> None:
    def state() -> dict[str, tuple[int, int]]:
        found = [path for path in site.store.folder.rglob("*") if path.is_file()]
        return {str(path): (path.stat().st_mtime_ns, path.stat().st_size) for path in found}

    before = state()
    with opened(site) as (pool, told):
        for tenant in ("alice", "bob"):
            pool.submit(site.job(tenant, SHORT)[0])
        pool.drain(30)
        assert len(told.done) == 2
    assert state() == before


def test_a_worker_sees_keys_that_come_while_it_runs(tmp_path: Path) -> None:
    site = Site(tmp_path)
    program = site.deploy(package(site.params))
    site.join("carol", program)
    with opened(site) as (pool, told):
        pool.submit(site.job("carol", program)[0])
        pool.drain(0.0)
        until(lambda: told.done)
    with opened(site) as (pool, told):
        pid(pool)
        until(lambda: pool.snapshot()["workers"][0]["isolation"])
        site.join("dave", program)
        spec, clear = site.job("dave", program)
        pool.submit(spec)
        pool.drain(30)
        assert told.failed == {}
        site.check(spec, clear)


def test_each_tenant_may_have_a_process_of_its_own_that_stops_when_idle(site: Site) -> None:
    with opened(site, abreast=2, isolation=Isolation.PROCESS, max_workers=2, idle_s=1.0) as (pool, told):
        assert pool.snapshot()["workers"] == []
        jobs = [site.job(tenant, SHORT) for tenant in ("alice", "bob", "alice")]
        for spec, _ in jobs:
            pool.submit(spec)
        seen: set[str] = set()

        def all_done() -> bool:
            # A worker may be idle, and gone, before the last job has ended.
            seen.update(each["tenant"] for each in pool.snapshot()["workers"])
            return len(told.done) == 3

        until(all_done)
        assert seen == {"alice", "bob"}
        for spec, clear in jobs:
            site.check(spec, clear)
        until(lambda: pool.snapshot()["workers"] == [])
        assert pool.snapshot()["worker_deaths"] == 0


def test_first_come_first_served_keeps_the_order_of_arrival(site: Site) -> None:
    with opened(site, order=Order.FCFS) as (pool, told):
        jobs = [site.job(tenant, SHORT)[0] for tenant in ("alice", "bob", "alice", "bob")]
        for spec in jobs:
            pool.submit(spec)
        pool.drain(30)
        assert told.started == [spec.job for spec in jobs]


def test_a_package_that_refreshes_runs_by_the_plan_of_least_cost(tmp_path: Path) -> None:
    params = catalogue.get("insecure-resnet20")
    site = Site(tmp_path, params)
    program = site.deploy(refreshed(params))
    path, made = site.packages[program]
    largest = max(params.key_bytes(limbs, key=key) for key, limbs in made.keys.items())
    assert plan_program(path, 100 * largest).keys
    site.join("alice", program, budget_bytes=100 * largest)
    with opened(site, budget_bytes=100 * largest) as (pool, told):
        spec, clear = site.job("alice", program)
        # The plan is that of the deployment, whatever the worker's budget is now.
        other, _ = site.job("alice", program, planned_key_bytes=largest // 4)
        pool.submit(spec)
        pool.submit(other)
        pool.drain(60)
        assert told.failed.keys() == {other.job}
        site.check(spec, clear, tolerance=1e-3)
        assert "does not hold one key" in told.failed[other.job][0]


def test_a_paused_pool_takes_jobs_and_begins_none(site: Site) -> None:
    with opened(site) as (pool, told):
        pool.pause(True)
        spec, clear = site.job("alice", SHORT)
        pool.submit(spec)
        time.sleep(0.6)  # two rounds of its thread
        assert pool.snapshot()["paused"]
        assert told.started == []
        assert len(pool.snapshot()["queue"]) == 1
        pool.pause(False)
        until(lambda: told.ended)
        site.check(spec, clear)


def test_first_come_first_served_with_lru_computes_the_same(site: Site) -> None:
    with opened(site, order="fcfs", policy="lru") as (pool, told):
        pool.pause(True)
        jobs = [site.job(tenant, program) for tenant, program in (("bob", OTHER), ("alice", SHORT), ("bob", SHORT))]
        for spec, _ in jobs:
            pool.submit(spec)
        pool.pause(False)
        until(lambda: len(told.ended) == len(jobs))
        assert told.started == [spec.job for spec, _ in jobs]
        for spec, clear in jobs:
            site.check(spec, clear)


@pytest.mark.parametrize("budget", [10_000_000, 1_000_000_000])
def test_a_deployment_states_the_keys_and_seconds_that_workers_plan_with(tmp_path: Path, budget: int) -> None:
    examine = pytest.importorskip("penstock.service.http.examine")
    made = refreshed(catalogue.get("insecure-resnet20"))
    path = tmp_path / "refreshed.pkg"
    write_package(made, path)
    found, planned = examine.describe(path, budget), plan_program(path, budget)
    assert {each["key"]: each["limbs"] for each in found["keys"]} == planned.keys
    assert {each["key"]: each["bytes"] for each in found["keys"]} == planned.needs
    assert found["predicted"]["key_bytes"] == planned.key_bytes
    assert found["predicted"]["seconds"] == planned.compute_s
    assert CkksParameters.from_dict(found["params"]) == planned.params != made.params
    assert found["planned_key_bytes"] == budget


def examined(path: Path, params: CkksParameters, name: str = "x", *, outputs: int = 1) -> Row:
    """What the examination of a small package says."""
    constants = ConstantsInMemory()
    builder = PackageBuilder(constants)
    x = builder.encrypt(Input(name, 8))
    for number in range(outputs):
        builder.output(builder.add(Verb.MOD_DROP, [x], argument=number + 1), Output(f"y{number}", 8))
    write_package(builder.finish("small", params, constants), path, force=True)
    examiner = pytest.importorskip("penstock.service.http.examiner").Examiner(
        most_bytes=4 << 30, seconds=60, key_bytes=BUDGET, machine="", user="nobody"
    )
    try:
        verdict: Row = examiner.examine("a", path).result(60)
    finally:
        examiner.close()
    return verdict


@pytest.mark.parametrize("name", ["sharp", "heap", "lattigo-logn14-qp438"])
def test_a_set_that_every_submission_refuses_is_refused_at_the_deployment(tmp_path: Path, name: str) -> None:
    params = catalogue.get(name)
    for check in (parameter_digest, make_context):  # of a submission; of a worker
        with pytest.raises(PenstockError) as refused:
            check(params)
        assert str(refused.value) == examined(tmp_path / "small.pkg", params)["refused"]
    assert "found" in examined(tmp_path / "small.pkg", catalogue.get("insecure-small"))


def test_the_examination_predicts_the_bytes_of_results_by_their_limbs(tmp_path: Path) -> None:
    params = catalogue.get("insecure-small")
    found = examined(tmp_path / "small.pkg", params, outputs=2)["found"]
    words = params.ciphertext_bytes(1) + params.ciphertext_bytes(2)
    assert words < found["output_bytes"] <= words + 2 * 4096
