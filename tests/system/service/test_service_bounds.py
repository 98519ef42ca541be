"""Bounds of jobs in real workers: compiling and computing that takes too long, memory, places, and shares of both."""

from __future__ import annotations

import os
import signal
import time
from pathlib import Path
from typing import Any

import pytest

from penstock.program.package.builder import PackageBuilder
from penstock.program.package.content import ConstantsInMemory, Input, Output, Package, Verb
from penstock.service.work import bounds
from penstock.service.work.admission import Limits
from penstock.service.work.bounds import JobBounds
from support.service_jobs import LENGTH, PARAMS, Site, package
from support.worker_memory import over_operations, over_sets, watched
from system.service.test_service_worker import opened, pid, until

SHORT, LONG, LONGER = "turns-2-3", "turns-120-3", "turns-1500-3"
ENDLESS = 150_000
"""Operations that take seconds to compile."""


def chain(operations: int) -> Package:
    """x, negated again and again: no key."""
    builder = PackageBuilder(ConstantsInMemory())
    x = builder.encrypt(Input("x", LENGTH))
    for _ in range(operations):
        x = builder.add(Verb.NEGATE, [x])
    builder.output(x, Output("y", LENGTH))
    return builder.finish(f"chain-{operations}", PARAMS, ConstantsInMemory())


def wide(values: int) -> Package:
    """So many values at once."""
    builder = PackageBuilder(ConstantsInMemory())
    x = builder.encrypt(Input("x", LENGTH))
    made = [builder.add(Verb.ADD_SCALAR, [x], number=1.0 + number) for number in range(values)]
    total = made[0]
    for value in made[1:]:
        total = builder.add(Verb.ADD, [total, value])
    builder.output(total, Output("y", LENGTH))
    return builder.finish(f"wide-{values}", PARAMS, ConstantsInMemory())


@pytest.fixture(scope="module")
def site(tmp_path_factory: pytest.TempPathFactory) -> Site:
    made = Site(tmp_path_factory.mktemp("bounds"))
    for each in (chain(ENDLESS), chain(500), wide(2500)):
        made.deploy(each)
    programs = [made.deploy(package(made.params, repeats, 3)) for repeats in (2, 120, 1500)]
    for tenant in ("alice", "bob"):
        made.join(tenant, *programs)
    return made


def running(pool: Any, job: str) -> dict[str, Any]:
    return next((each for each in pool.snapshot()["running"] if each["job"] == job), {})


def known(pool: Any, told: Any, site: Site, tenant: str, program: str) -> None:
    """The worker has compiled it."""
    spec, clear = site.job(tenant, program)
    pool.submit(spec)
    until(lambda: spec.job in told.ended)
    site.check(spec, clear)


def test_a_deadline_ends_compiling_and_its_worker_goes_on(site: Site) -> None:
    with opened(site, abreast=2) as (pool, told):
        known(pool, told, site, "bob", SHORT)
        before = pid(pool)
        late, _ = site.job("alice", f"chain-{ENDLESS}", deadline_s=0.6)
        begun = time.monotonic()
        pool.submit(late)
        until(lambda: late.job in told.failed)
        assert time.monotonic() - begun < 3.0
        assert told.failed[late.job] == ("expired: its deadline of 0.6 s was over while it compiled", False)
        until(lambda: not pool.snapshot()["running"], 4.0)
        known(pool, told, site, "bob", SHORT)
        assert pid(pool) == before


def test_a_job_of_a_known_program_does_not_wait_while_another_is_compiled(site: Site) -> None:
    with opened(site, abreast=2) as (pool, told):
        known(pool, told, site, "bob", SHORT)
        slow, _ = site.job("alice", f"chain-{ENDLESS}")
        pool.submit(slow)
        until(lambda: running(pool, slow.job))
        for _ in range(3):
            known(pool, told, site, "bob", SHORT)
        assert running(pool, slow.job)["computing_s"] is None
        assert pool.cancel(slow.job)


def test_two_jobs_of_a_new_program_compile_it_once(site: Site) -> None:
    with opened(site, abreast=4) as (pool, _):
        jobs = [site.job("alice", "chain-500") for _ in range(2)] + [site.job("bob", "chain-500") for _ in range(2)]
        for spec, _ in jobs:
            pool.submit(spec)
        pool.drain(30)
        for spec, clear in jobs:
            site.check(spec, clear)
        until(lambda: pool.snapshot()["workers"][0]["kept"].get("programs") == 1)


def test_compiling_and_computing_that_take_too_long_end_with_the_bound(site: Site) -> None:
    with opened(site, abreast=2, bounds=JobBounds(compile_s=0.5, least_s=60.0)) as (pool, told):
        until(lambda: pool.snapshot()["workers"][0]["isolation"])
        slow, _ = site.job("alice", f"chain-{ENDLESS}")
        pool.submit(slow)
        until(lambda: slow.job in told.failed)
        assert "s, the bound is 0.5 s: split the program" in told.failed[slow.job][0]
    with opened(site, abreast=2, bounds=JobBounds(most_over=2.0, least_s=0.2)) as (pool, told):
        before = pid(pool)
        longer, _ = site.job("alice", LONGER, compute_s=0.01)
        fitting, clear = site.job("bob", LONGER, compute_s=100.0)
        pool.submit(longer)
        pool.submit(fitting)
        until(lambda: len(told.ended) == 2)
        assert "predicted 0.01 s, the bound is 0.2 s" in told.failed[longer.job][0]
        site.check(fitting, clear)
        assert pid(pool) == before


def test_a_worker_whose_job_does_not_end_is_killed_and_the_others_start_again_without_blame(site: Site) -> None:
    with opened(site, abreast=2, bounds=JobBounds(grace_s=0.3)) as (pool, told):
        known(pool, told, site, "bob", SHORT)
        before = pid(pool)
        late, _ = site.job("alice", LONG, deadline_s=0.5)
        other, clear = site.job("bob", LONG)
        pool.submit(late)
        pool.submit(other)
        until(lambda: told.started.count(other.job) == 1 and late.job in told.started)
        os.kill(before, signal.SIGSTOP)
        until(lambda: told.started.count(other.job) == 2)
        assert told.failed.keys() == {late.job}
        assert running(pool, other.job).get("deaths", 0) == 0
        until(lambda: other.job in told.done)
        site.check(other, clear)
        assert pid(pool) != before
        assert pool.snapshot()["workers_killed"] == 1


def test_a_worker_above_its_stated_memory_is_killed_and_the_job_that_does_it_fails_alone(
    site: Site, monkeypatch: pytest.MonkeyPatch
) -> None:
    # 2,500 values take 900 MB; the job says that it needs nothing.
    monkeypatch.setattr(bounds, "PROCESS_BYTES", 200 << 20)
    with opened(site, abreast=2, limits=Limits(memory_bytes=64 << 20), kept_bytes=32 << 20) as (pool, told):
        hog, _ = site.job("alice", "wide-2500")
        honest, clear = site.job("bob", LONG)
        pool.submit(hog)
        pool.submit(honest)
        until(lambda: len(told.ended) == 2, 60.0)
        site.check(honest, clear)
        assert "more than its stated memory of" in told.failed[hog.job][0]
        stated = pool.snapshot()["stated_memory_bytes"]
        assert stated == (200 << 20) + (64 << 20) + (64 << 20) + (32 << 20)
        until(lambda: pool.snapshot()["workers"] and pool.snapshot()["workers"][0]["isolation"])
        (worker,) = pool.snapshot()["workers"]
        assert worker["isolation"]["memory"].startswith("in force")


def test_one_tenant_never_has_the_last_place(site: Site) -> None:
    with opened(site, abreast=4) as (pool, told):
        jobs = [site.job("alice", LONG)[0] for _ in range(4)]
        for spec in jobs:
            pool.submit(spec)
        until(lambda: len(pool.snapshot()["running"]) == 2)
        known(pool, told, site, "bob", SHORT)
        most = 0
        while len(told.done) < 5:
            most = max(most, len(pool.snapshot()["running"]))
            time.sleep(0.01)
        assert most == 2


def test_one_tenant_never_holds_the_last_quarter_of_memory(site: Site) -> None:
    with opened(site, abreast=8, limits=Limits(memory_bytes=1000 << 20)) as (pool, told):
        with pytest.raises(Exception, match="one tenant's jobs have 786432000"):
            pool.submit(site.job("alice", SHORT, memory_bytes=760 << 20)[0])
        first, second = (site.job("alice", LONG, memory_bytes=400 << 20)[0] for _ in range(2))
        other, _ = site.job("bob", LONG, memory_bytes=250 << 20)
        for spec in (first, second, other):
            pool.submit(spec)
        until(lambda: len(told.started) >= 2)
        assert told.started[:2] == [first.job, other.job]
        assert [each["waits_for"] for each in pool.snapshot()["queue"]] == ["memory"]
        pool.drain(30)
        assert len(told.done) == 3


def test_a_long_job_yields_the_processor_to_short_ones(site: Site) -> None:
    with opened(site, abreast=2) as (pool, _):
        spec, clear = site.job("alice", LONGER, compute_s=50.0)
        pool.submit(spec)
        until(lambda: running(pool, spec.job).get("computing_s"))
        own = os.getpriority(os.PRIO_PROCESS, 0)
        until(lambda: niceness(pid(pool)) == {own, min(19, own + 9)})
        pool.drain(30)
        site.check(spec, clear)


def niceness(process: int) -> set[int]:
    """Of its threads."""
    found = set()
    for place in Path(f"/proc/{process}/task").iterdir():
        found.add(int((place / "stat").read_text().rpartition(")")[2].split()[16]))
    return found


def test_a_worker_stays_below_its_stated_memory_over_many_sets(tmp_path: Path) -> None:
    with watched(tmp_path, kept_bytes=16 << 20, memory_bytes=64 << 20) as watch:
        over_sets(watch, 12)
        settled = watch.look()
        over_sets(watch, 60)
    held = watch.held
    assert watch.told.failed == {}
    assert held.deaths == 0
    assert 0 < held.kept <= 16 << 20
    assert held.most < held.stated
    # 60 further sets of 1.4 MB and more each.
    assert held.most - settled < 40 << 20


def test_a_worker_stays_below_its_stated_memory_over_many_operations(tmp_path: Path) -> None:
    with watched(tmp_path, kept_bytes=8 << 20, memory_bytes=64 << 20) as watch:
        over_operations(watch, 2, 20_000)
        settled = watch.look()
        over_operations(watch, 4, 20_010)
    held = watch.held
    assert watch.told.failed == {}
    assert held.deaths == 0
    assert 0 < held.kept <= 8 << 20
    assert held.most - settled < 40 << 20
