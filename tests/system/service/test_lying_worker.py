"""Workers that hostile packages have taken over: what they say costs them, and nobody else."""

from __future__ import annotations

import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

pytest.importorskip("sqlalchemy")

from penstock.service.http.config import embedded
from penstock.service.http.logs import Log
from penstock.service.http.service import ServiceFront
from penstock.service.state.problems import Problem
from penstock.service.work import process, said
from penstock.service.work.messages import JobSpec, WorkerSettings
from penstock.service.work.pool import Isolation, WorkerPool
from support import lying_worker
from support.fake_computing import FakeComputing
from support.serve_site import eventually
from support.service_jobs import Told


@pytest.fixture(autouse=True)
def lying(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(process, "python_module", lambda _: [sys.executable, lying_worker.__file__])


@contextmanager
def opened(folder: Path, isolation: Isolation = Isolation.PROCESS) -> Iterator[tuple[WorkerPool, Told]]:
    (folder / "workers").mkdir()
    settings = WorkerSettings(
        store=folder, budget_bytes=1 << 20, abreast=4, writable=(folder / "workers",), readable=(folder,)
    )
    told = Told()
    pool = WorkerPool(settings, isolation=isolation, max_workers=4, **told.callbacks())
    pool.start()
    try:
        yield pool, told
    finally:
        pool.close()


def spec(folder: Path, tenant: str, program: str, number: int = 0, **more: object) -> JobSpec:
    fields = {"package": folder / f"{program}.pkg", "store": folder, "secret_tag": None, "inputs": {}, **more}
    outputs = {"y": folder / f"{tenant}-{number}"}
    return JobSpec(job=f"{tenant}-{number}", tenant=tenant, program=program, outputs=outputs, **fields)  # type: ignore[arg-type]


@pytest.mark.parametrize("lie", sorted({*lying_worker.LIES} - {"half"}))
def test_a_worker_that_lies_is_killed_and_others_compute_beside_it(tmp_path: Path, lie: str) -> None:
    with opened(tmp_path) as (pool, told):
        troubles: list[object] = []
        pool.on_trouble = lambda **what: troubles.append(what)
        pool.submit(spec(tmp_path, "hostile", lie))
        for number in range(3):
            pool.submit(spec(tmp_path, "alice", "honest", number))
        pool.drain(20)
        assert sorted(told.done) == ["alice-0", "alice-1", "alice-2"]
        assert said.SAID_WRONG in told.failed["hostile-0"][0]
        assert pool.is_alive
        assert len(troubles) == pool.snapshot()["workers_killed"] == 3
        assert "victim" not in pool.snapshot()["key_bytes"]


def test_a_lie_in_a_shared_worker_ends_and_the_jobs_beside_it_start_again(tmp_path: Path) -> None:
    with opened(tmp_path, Isolation.SHARED) as (pool, told):
        pool.submit(spec(tmp_path, "hostile", "no-job"))
        pool.submit(spec(tmp_path, "alice", "honest"))
        pool.drain(20)
        assert list(told.done) == ["alice-0"]
        assert list(told.failed) == ["hostile-0"]


@pytest.mark.parametrize("lie", ["half", "deaf"])
def test_half_a_message_and_a_worker_that_does_not_read_hold_nobody_up(
    tmp_path: Path, lie: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(said, "STUCK_S", 3.0)
    with opened(tmp_path) as (pool, told):
        pool.submit(spec(tmp_path, "hostile", lie))
        eventually(lambda: told.started)
        began_s = time.monotonic()
        with pool._lock:
            for _ in range(20_000):  # more than the socket takes
                pool._workers["hostile"].channel.tell("forget", tenant="x" * 100)
        pool.submit(spec(tmp_path, "alice", "honest"))
        eventually(lambda: "alice-0" in told.done)
        assert time.monotonic() - began_s < 15
        if lie == "deaf":
            eventually(lambda: pool.snapshot()["workers_killed"])


def test_what_a_worker_says_of_time_is_no_more_than_the_front_measured(tmp_path: Path) -> None:
    with opened(tmp_path) as (pool, told):
        before_s = time.monotonic()
        pool.submit(spec(tmp_path, "hostile", "hasty"))
        eventually(lambda: told.done)
        (record,) = pool.recorded().jobs
        assert record.times is not None
        moments = record.times.begun_s, record.times.ran_s, record.times.ended_s
        assert before_s < record.started_s <= min(moments) <= max(moments) <= time.monotonic()
        assert 0.2 < told.done["hostile-0"].compute_s <= time.monotonic() - before_s
        # Its tenant's share of the machine is by the front's clock.
        assert 0.2 < pool._queue._shares._had_s["hostile"] <= time.monotonic() - before_s


def test_an_error_in_the_pools_own_thread_is_told_and_the_pool_goes_on(tmp_path: Path) -> None:
    with opened(tmp_path) as (pool, told):
        troubles: list[dict[str, str]] = []
        pool.on_trouble = lambda **what: troubles.append(what)

        def broken(job: str) -> None:
            raise RuntimeError(f"about {job}")

        pool._on_started = broken
        pool.submit(spec(tmp_path, "alice", "honest"))
        pool.submit(spec(tmp_path, "bob", "honest"))
        eventually(lambda: len(told.done) == 2)
        assert "about alice-0" in "".join(each["trace"] for each in troubles)
        assert pool.is_alive


def test_a_worker_that_dies_again_and_again_pauses_its_own_tenant_alone(tmp_path: Path) -> None:
    with opened(tmp_path) as (pool, told):
        for number in range(4):
            pool.submit(spec(tmp_path, "hostile", "no-job", number))
        eventually(lambda: len(told.failed) >= 2)
        began_s = time.monotonic()
        pool.submit(spec(tmp_path, "alice", "honest"))
        eventually(lambda: "alice-0" in told.done)
        assert time.monotonic() - began_s < 2


@pytest.mark.filterwarnings("ignore::pytest.PytestUnhandledThreadExceptionWarning")
def test_a_server_whose_pool_has_no_thread_is_not_ready(tmp_path: Path) -> None:
    with opened(tmp_path) as (pool, _):

        def ends() -> None:
            raise SystemExit

        pool._turn = ends  # type: ignore[method-assign]
        eventually(lambda: not pool.is_alive)
    service = ServiceFront(embedded(tmp_path / "state"), Log(), lambda _, jobs: FakeComputing(jobs))  # type: ignore[arg-type, return-value]
    service.check_ready()
    service.jobs.pool.is_alive = False  # type: ignore[misc]
    with pytest.raises(Problem, match="computes nothing") as refused:
        service.check_ready()
    assert refused.value.status == 503
    service.close()
