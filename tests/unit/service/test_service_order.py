"""The order of waiting jobs: a slow twin, nobody waits without end, priorities, deadlines, shares, admission."""

from __future__ import annotations

import importlib
import json
import socket
import sys
import time
from contextlib import closing
from dataclasses import replace
from functools import partial
from itertools import pairwise
from pathlib import Path
from types import FrameType, ModuleType, SimpleNamespace

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from penstock.errors import UsageError
from penstock.service.work.admission import Limits
from penstock.service.work.messages import AdmissionRefused, Channel, JobFigures, JobSpec, Message, WorkerSettings
from penstock.service.work.order import Order, OrderRule, Shares, Standing, WaitingJob, choose, coming
from penstock.service.work.pool import _CALLS_S, WorkerPool
from penstock.service.work.process import WorkerProcess
from penstock.service.work.simulated import JobArrival, ProgramCost, play
from penstock.service.work.waiting import Entry, Queue
from support.examples import at_most

RULE = OrderRule()
SETTINGS = WorkerSettings(store=Path("s"), budget_bytes=1)
MB = 10**6


def comes_before(a: WaitingJob, b: WaitingJob, standings: dict[str, Standing], oldest: dict[str, int]) -> bool:
    """The rule once more, as a person would say it."""

    def seconds(each: WaitingJob) -> float:
        return each.missing_bytes / RULE.read_bytes_per_s

    def spare(each: WaitingJob) -> float | None:
        service = each.compute_s if each.compute_s > seconds(each) else seconds(each)
        fits = each.left_s is not None and 0 <= each.left_s - service <= max(1.0, service)
        return each.left_s - service if fits and each.left_s is not None else None

    def price(each: WaitingJob) -> float:
        has = standings.get(each.tenant, Standing())
        pays = min(2.0, 8 * each.missing_bytes / RULE.read_bytes_per_s)
        return has.ahead_s + (pays - has.saved_s if pays > has.saved_s else 0.0)

    if a.tenant != b.tenant:
        if price(a) != price(b):
            return price(a) < price(b)
        turns = [standings.get(each.tenant, Standing()).last_turn for each in (a, b)]
        return turns[0] < turns[1] if turns[0] != turns[1] else oldest[a.tenant] < oldest[b.tenant]
    if a.priority != b.priority:
        return a.priority > b.priority
    spare_a, spare_b = spare(a), spare(b)
    if (spare_a is None) != (spare_b is None):
        return spare_a is not None
    if spare_a is not None and spare_b is not None and spare_a != spare_b:
        return spare_a < spare_b
    costs = [seconds(each) - 0.2 * each.waited_s for each in (a, b)]
    return costs[0] < costs[1] if spare_a is None and costs[0] != costs[1] else a.number < b.number


def slow(candidates: list[WaitingJob], standings: dict[str, Standing]) -> int:
    def first(some: list[WaitingJob]) -> WaitingJob:
        (found,) = [a for a in some if not any(comes_before(b, a, standings, oldest) for b in some if b is not a)]
        return found

    oldest = {each.tenant: each.number for each in reversed(candidates)}
    heads = []
    for tenant in {each.tenant for each in candidates}:
        own = [each for each in candidates if each.tenant == tenant]
        overdue = [each for each in own if each.overtaken >= 64]
        is_due = overdue and standings.get(tenant, Standing()).since_overdue >= 3
        heads.append(min(overdue, key=lambda each: each.number) if is_due else first(own))
    return candidates.index(first(heads))


some_job = st.builds(
    WaitingJob,
    number=st.just(0),
    tenant=st.sampled_from("abc"),
    waited_s=st.integers(0, 40).map(float),
    missing_bytes=st.integers(0, 40).map(lambda each: each * 50 * MB),
    key_bytes=st.integers(0, 40).map(lambda each: each * 50 * MB),
    compute_s=st.integers(0, 8).map(lambda each: each / 4),
    priority=st.integers(0, 2),
    left_s=st.none() | st.integers(0, 16).map(lambda each: each / 2),
    overtaken=st.integers(60, 66),
)


some_standing = st.builds(
    Standing,
    ahead_s=st.integers(0, 12).map(lambda each: each / 4),
    saved_s=st.integers(0, 4).map(lambda each: each / 2),
    last_turn=st.integers(-1, 2),
    since_overdue=st.integers(0, 5),
)


@given(
    st.lists(some_job, min_size=1, max_size=12),
    st.dictionaries(st.sampled_from("abc"), some_standing),
)
def test_the_choice_is_the_one_that_no_other_comes_before(
    jobs: list[WaitingJob], standings: dict[str, Standing]
) -> None:
    numbered = [replace(each, number=number) for number, each in enumerate(jobs)]
    assert choose(numbered, standings, RULE) == slow(numbered, standings)
    order = coming(numbered, standings, RULE, Order.WEIGHED, len(jobs))
    assert order[0] == choose(numbered, standings, RULE)
    assert sorted(order) == list(range(len(jobs)))


def spec(number: int, tenant: str = "a", **rest: object) -> JobSpec:
    fields = {"program": "p", "package": Path("p.pkg"), "store": Path("s"), "secret_tag": None}
    return JobSpec(job=str(number), tenant=tenant, inputs={}, outputs={}, **{**fields, **rest})  # type: ignore[arg-type]


def run_queue(specs: list[JobSpec], rule: OrderRule = RULE, seconds: float = 1.0) -> list[int]:
    """All jobs at once, one after another; a tenant's keys leave when another one runs."""
    queue, order, now = Queue(Order.WEIGHED, rule), [], 0.0
    for each in specs:
        queue.add(each, now)
    queue.learn("p.pkg", {"k": 300 * MB})
    residents: dict[str, dict[str, int]] = {}
    while (entry := queue.next(residents, lambda each: True, now)) is not None:
        queue.started(entry, now)
        now += seconds
        residents = {entry.spec.tenant: {"k": 300 * MB}}
        queue.remove(entry.spec.job, now)
        queue.measured(entry, figures(seconds))
        order.append(int(entry.spec.job))
    return order


def figures(compute_s: float) -> JobFigures:
    return JobFigures(queue_s=0.0, key_wait_s=0.0, compute_s=compute_s, read_bytes=0, hits=0, misses=0, peak_bytes=0)


def test_an_overdue_job_of_a_higher_priority_does_not_take_the_turn_of_the_oldest():
    rule = replace(RULE, max_overtaken=5, overdue_every=3)
    priorities = [0, 0, 1, 1, 1, 1, 1, 2, 2, 2, 2, 0, 1, 2]
    order = run_queue([spec(n, "a", priority=each) for n, each in enumerate(priorities)], rule)
    assert order.index(1) <= 9


@at_most(40)
@given(st.lists(st.tuples(st.sampled_from("abcd"), st.integers(0, 9)), min_size=1, max_size=60))
def test_all_jobs_run_once_and_none_is_overtaken_without_end(jobs: list[tuple[str, int]]) -> None:
    rule = replace(RULE, max_overtaken=5, overdue_every=3)
    order = run_queue([spec(n, tenant, priority=priority) for n, (tenant, priority) in enumerate(jobs)], rule)
    assert sorted(order) == list(range(len(jobs)))
    place = {job: at for at, job in enumerate(order)}
    for tenant in "abcd":
        own = [job for job, (owner, _) in enumerate(jobs) if owner == tenant]
        for before, job in enumerate(own):
            overtaken = sum(1 for later in own[before + 1 :] if place[later] < place[job])
            # Once overdue, each job before it in the order of arrival goes at most `overdue_every` choices earlier.
            assert overtaken <= rule.max_overtaken + rule.overdue_every * (before + 1)


@at_most(40)
@given(st.lists(st.tuples(st.sampled_from("abcd"), st.integers(0, 9)), min_size=1, max_size=40))
def test_a_higher_priority_goes_first_among_the_jobs_of_its_tenant(jobs: list[tuple[str, int]]) -> None:
    rule = replace(RULE, max_overtaken=10**9)
    order = run_queue([spec(n, tenant, priority=priority) for n, (tenant, priority) in enumerate(jobs)], rule)
    for tenant in "abcd":
        own = [jobs[each][1] for each in order if jobs[each][0] == tenant]
        assert own == sorted(own, reverse=True)


@at_most(40)
@given(st.lists(st.tuples(st.sampled_from("abc"), st.integers(0, 9)), min_size=1, max_size=30))
def test_no_priority_of_one_tenant_changes_when_another_has_its_turn(jobs: list[tuple[str, int]]) -> None:
    def turns(priorities: list[int]) -> list[str]:
        order = run_queue([spec(n, jobs[n][0], priority=each) for n, each in enumerate(priorities)])
        return [jobs[each][0] for each in order]

    assert turns([priority for _, priority in jobs]) == turns([0] * len(jobs))


some_arrival = st.builds(
    lambda tenant, program, priority, deadline_s: (tenant, program, priority, deadline_s),
    st.sampled_from("abc"),
    st.sampled_from(["p.pkg", "q.pkg"]),
    st.integers(0, 2),
    st.none() | st.integers(1, 12).map(float),
)


@at_most(60)
@given(
    st.lists(some_arrival | st.sampled_from(["begin", "begin", "die", "end", "cancel"]), max_size=80),
    st.sampled_from([Order.WEIGHED, Order.FCFS, Order.LOCALITY]),
)
def test_a_queue_in_lines_chooses_what_a_look_at_every_job_does(steps: list[object], order: Order) -> None:
    rule = replace(RULE, max_overtaken=3, overdue_every=2)
    queue, now, residents = Queue(order, rule), 0.0, {"a": {"k": 300 * MB}}
    queue.learn("p.pkg", {"k": 300 * MB})
    overtaken: dict[str, int] = {}
    for number, step in enumerate(steps):
        now += 0.37
        waiting = queue.waiting()
        if isinstance(step, tuple):
            tenant, package, priority, deadline_s = step
            more = {"package": Path(package), "priority": priority, "deadline_s": deadline_s, "compute_s": 1.5}
            queue.add(spec(number, tenant, **more), now)
            overtaken[str(number)] = 0
        elif step == "begin" and waiting:
            candidates = [queue.candidate(entry, residents, now) for entry in waiting]
            expected = 0 if order is Order.FCFS else choose(candidates, queue._standings(now), rule, order)
            entry = queue.next(residents, lambda each: True, now)
            assert entry is not None
            assert entry is (min(waiting, key=lambda e: e.number) if order is Order.FCFS else waiting[expected])
            planned = [each.spec.job for each in queue.coming(residents, now, 3)]
            assert planned[0] == entry.spec.job
            queue.started(entry, now)
            for each in waiting:
                is_own = order.group(each.spec.tenant) == order.group(entry.spec.tenant)
                overtaken[each.spec.job] += is_own and each.number < entry.number
        elif step == "cancel" and waiting:
            queue.remove(waiting[number % len(waiting)].spec.job, now)
        elif step in ("die", "end") and queue.running():
            entry = queue.running()[number % len(queue.running())]
            if step == "end":
                queue.remove(entry.spec.job, now)
            else:
                entry.deaths += number % 2
                queue.waits_again(entry, now)
        waiting = queue.waiting()
        assert {each.spec.job: queue.overtaken(each) for each in waiting} == {
            each.spec.job: overtaken[each.spec.job] for each in waiting
        }
        assert queue.most_overtaken() == max((queue.overtaken(each) for each in waiting), default=0)
        late = [each for each in waiting if each.deadline_at_s is not None and now > each.deadline_at_s]
        assert sorted(each.number for each in queue.late(now)) == [each.number for each in late]
        for tenant in "abc":
            own = [each for each in [*waiting, *queue.running()] if each.spec.tenant == tenant]
            assert queue.backlog_of(tenant) == (len(own), 1.5 * len(own))
            assert {each.number for each in queue.of_tenant(tenant)} == {each.number for each in own}


@pytest.mark.parametrize("fields", [{}, {"deadline_s": 1e6}], ids=["plain", "deadlines"])
def test_no_step_of_a_pool_takes_longer_with_more_jobs_that_wait(fields: dict[str, object]) -> None:
    def lines(jobs: int) -> int:
        """Lines of code that run for one more job, from its submission to its end."""
        with closing(WorkerPool(SETTINGS, limits=Limits(jobs=10**6, backlog_s=1e9))) as pool:
            for number in range(jobs):
                pool.submit(spec(number, "ab"[number % 2], **fields))
            queue, count = pool._queue, 0

            def trace(frame: FrameType, event: str, _: object) -> object:
                nonlocal count
                count += event in ("line", "call")
                return trace

            sys.settrace(trace)
            pool.submit(spec(jobs, **fields))
            entry = queue.next({}, lambda each: True, 1.0)
            assert entry is not None
            queue.started(entry, 1.0)
            pool._expire()
            queue.coming({}, 1.0, 4)
            queue.remove(entry.spec.job, 2.0)
            pool.cancel(str(jobs))
            sys.settrace(None)
            return count

    assert lines(2000) < 1.2 * lines(20)


def test_a_job_that_just_meets_its_deadline_goes_first_among_those_of_its_tenant() -> None:
    queue = Queue(Order.WEIGHED, RULE)
    queue.learn("p.pkg", {"k": 300 * MB})
    for number in range(5):
        queue.add(spec(number), 0.0)
    queue.add(spec(5, deadline_s=10.0, compute_s=0.2), 0.0)
    residents = {"a": {"k": 300 * MB}}

    def first(now: float) -> str:
        entry = queue.next(residents, lambda each: True, now)
        assert entry is not None
        return entry.spec.job

    assert first(5.0) == "0"
    assert first(9.2) == "5"
    assert first(9.99) == "0", "too late: it would not meet it"
    queue.add(spec(6, "b", deadline_s=1.5), 9.0)
    assert first(9.2) == "5", "a deadline of another tenant is its own affair"


def test_a_tenant_with_many_jobs_leaves_the_machine_to_another() -> None:
    order = run_queue([spec(n, "a") for n in range(40)] + [spec(40, "b")], RULE)
    # Keys of 0.2 s pay for 1.6 s ahead.
    assert 1 <= order.index(40) <= 2


def test_a_tenant_that_comes_back_has_saved_up_the_reading_of_its_keys_and_nothing_else() -> None:
    shares = Shares(2.0)
    shares.arrives("a")
    shares.arrives("b")
    shares.had("a", 100.0)
    assert {name: each.ahead_s for name, each in shares.standings({}).items()} == {"a": 100.0, "b": 0.0}
    shares.leaves("b")
    shares.had("a", 50.0)
    shares.arrives("c")
    shares.arrives("b")
    assert shares.standings({}) == {
        name: Standing(ahead_s=0.0, saved_s=0.0 if name == "a" else 2.0) for name in ("a", "b", "c")
    }
    shares.began("b")
    assert shares.standings({"b": 3.0})["b"] == Standing(ahead_s=3.0, last_turn=1, since_overdue=1)
    shares.had("b", 7.0)
    shares.leaves("b")
    shares.forget("b")
    shares.arrives("b")
    assert shares.standings({})["b"].ahead_s == 7.0, "a name that is given again has had what it has had"


HOSTILE: dict[str, dict[str, object]] = {
    "priority 9": {"priority": 9, "compute_s": 1.0},
    "deadlines that are just met": {"deadline_s": 1.5, "compute_s": 1.0},
    "short jobs": {"compute_s": 0.2},
    "long jobs": {"compute_s": 20.0},
    "jobs that take longer than predicted": {"compute_s": 0.001},
}


@pytest.mark.parametrize("attack", HOSTILE)
@pytest.mark.parametrize("keys_mb", [0, 300])
def test_honest_jobs_wait_for_the_one_that_runs_whatever_a_hostile_tenant_sends(attack: str, keys_mb: int) -> None:
    queue, fields = Queue(Order.WEIGHED, RULE), HOSTILE[attack]
    took_s = 20.0 if attack.startswith("jobs that take") else float(str(fields["compute_s"]))
    queue.learn("p.pkg", {"k": keys_mb * MB})
    for number in range(100 if "deadline_s" in fields else 1000):
        queue.add(spec(number, "hostile", **fields), 0.0)
    arrivals = sorted((3.0 + 7.3 * n + 2.1 * (name == "bob"), name) for n in range(30) for name in ("ann", "bob"))
    now, number, waits, had_s = 0.0, 1000, list[float](), 0.0
    while arrivals:
        # The hostile one's keys are always there, and the honest ones' never.
        entry = queue.next({"hostile": {"k": keys_mb * MB}}, lambda each: True, now)
        assert entry is not None
        queue.started(entry, now)
        is_honest = entry.spec.tenant != "hostile"
        if is_honest:
            waits.append(now - entry.submitted_s)
        now += 0.5 if is_honest else took_s
        had_s += 0.0 if is_honest else took_s
        while arrivals and arrivals[0][0] <= now:
            at, name = arrivals.pop(0)
            queue.add(spec(number, name, compute_s=0.5), at)
            number += 1
        if "deadline_s" in fields:  # a new one for each that has gone
            queue.add(spec(number, "hostile", **fields), now)
            number += 1
        queue.remove(entry.spec.job, now)
    # The job that runs, what came while it did, and at first what the hostile tenant's keys in memory are worth.
    assert max(waits[4:]) <= took_s + 0.5 * (1 + 2 * took_s // 7.3) + 0.01
    assert max(waits[:4]) <= took_s + RULE.turn_s + 1.0
    assert had_s > 20.0, "what nobody else wants it has"


@pytest.mark.parametrize("many_s", [0.01, 10.0])
def test_a_flood_has_its_equal_share_and_no_more_while_others_wait(many_s: float) -> None:
    queue, had = Queue(Order.WEIGHED, RULE), {"hostile": 0.0, "ann": 0.0, "bob": 0.0}
    for number in range(3000):
        queue.add(spec(number, "hostile", compute_s=many_s, priority=9, deadline_s=1e4 + number), 0.0)
        queue.add(spec(3000 + 2 * number, "ann", compute_s=0.3), 0.0)
        queue.add(spec(3001 + 2 * number, "bob", compute_s=0.5), 0.0)
    now = 0.0
    while now < 30.0 + 3 * many_s:
        entry = queue.next({}, lambda each: True, now)
        assert entry is not None
        queue.started(entry, now)
        now += entry.spec.compute_s
        had[entry.spec.tenant] += entry.spec.compute_s
        queue.remove(entry.spec.job, now)
    assert max(had.values()) - min(had.values()) <= max(many_s, 0.5) + 0.01


def test_a_job_yields_whose_tenant_had_much_more_of_the_machine_of_late() -> None:
    queue = Queue(Order.WEIGHED, RULE)

    def has(tenant: str, number: int, begun_s: float, ended_s: float) -> bool:
        queue.add(spec(number, tenant), begun_s)
        entry = queue.next({}, lambda each: True, begun_s)
        assert entry is not None
        yields = queue.yields(entry, begun_s)
        queue.started(entry, begun_s)
        queue.remove(str(number), ended_s)
        return yields

    assert not has("a", 0, 0.0, 5.0)
    assert not has("a", 1, 5.0, 10.0), "nobody else is here"
    assert not has("b", 2, 10.0, 11.0)
    assert has("a", 3, 11.0, 11.5)
    assert not has("b", 4, 12.0, 12.5)
    assert not has("a", 5, 100.0, 101.0), "it was long ago"


def test_callbacks_keep_the_workers_waiting_for_no_longer_than_their_time(monkeypatch: pytest.MonkeyPatch) -> None:
    steps: list[str] = []
    with closing(WorkerPool(SETTINGS)) as pool:
        monkeypatch.setattr(pool, "_expire", lambda: steps.append("turn"))

        def called(name: str) -> None:
            time.sleep(_CALLS_S)
            steps.append(name)

        pool._expiries.extend(partial(called, "late") for _ in range(3))
        pool._calls.extend(partial(called, "done") for _ in range(3))
        for _ in range(7):
            pool._turn()
    assert [step for step in steps if step != "turn"] == ["done"] * 3 + ["late"] * 3
    assert not any(one != "turn" != other for one, other in pairwise(steps))


def test_a_job_counts_from_its_start_however_it_ends() -> None:
    queue = Queue(Order.WEIGHED, RULE)
    for number in range(4):
        queue.add(spec(number, "ab"[number % 2], compute_s=5.0), 0.0)

    def begin(now: float) -> Entry:
        entry = queue.next({}, lambda each: True, now)
        assert entry is not None
        queue.started(entry, now)
        return entry

    first = begin(0.0)
    assert begin(0.0).spec.tenant == "b", "a job that runs counts"
    queue.remove("1", 1.0)  # it failed after a second
    queue.waits_again(first, 8.0)  # its worker died after eight
    assert begin(8.0).spec.tenant == "b"
    queue.remove("3", 20.0)
    assert begin(20.0).spec.tenant == "a"


KINDS = {
    "one": ProgramCost(compute_s=0.03, key_bytes={f"k{number}": 10 * MB for number in range(8)}),
    "two": ProgramCost(compute_s=0.06, key_bytes={f"k{number}": 10 * MB for number in range(4, 20)}),
}


@pytest.fixture
def drawn_jobs(monkeypatch: pytest.MonkeyPatch) -> ModuleType:
    """The draws of the benchmarks."""
    monkeypatch.syspath_prepend(str(Path(__file__).parents[3] / "benchmarks"))
    return importlib.import_module("drawn_jobs")


@pytest.mark.parametrize("seed", [1, 2])
def test_simulated_backlogs_and_arrivals_gain_by_the_order_and_the_plan(seed: int, drawn_jobs: ModuleType) -> None:
    rng = np.random.default_rng(seed)
    budget = 800 * MB
    backlog = drawn_jobs.draw(rng, 400, 30, 1.0, list(KINDS), None)
    ours = play(backlog, KINDS, budget, order=Order.WEIGHED, known_plan=True, rule=RULE)
    lru = play(backlog, KINDS, budget, order=Order.FCFS, known_plan=False, rule=RULE)
    assert sorted(ours.order) == sorted(lru.order) == list(range(400))
    assert lru.order == list(range(400))
    assert ours.total_s >= drawn_jobs.clairvoyant_s(backlog, KINDS, RULE)
    assert lru.total_s > 1.3 * ours.total_s
    assert ours.read_bytes < lru.read_bytes
    poisson = drawn_jobs.draw(rng, 1500, 30, 1.0, list(KINDS), 0.8 * 400 / ours.total_s)
    ours, lru = (
        play(poisson, KINDS, budget, order=order, known_plan=known, rule=RULE)
        for order, known in ((Order.WEIGHED, True), (Order.FCFS, False))
    )
    assert np.percentile(ours.latencies_s, 99) < 0.5 * np.percentile(lru.latencies_s, 99)


def test_the_busy_tenants_wait_and_not_the_others(drawn_jobs: ModuleType) -> None:
    arrivals = drawn_jobs.draw(np.random.default_rng(2), 1500, 30, 1.0, list(KINDS), 21.0)

    def means(order: Order) -> list[float]:
        played = play(arrivals, KINDS, 800 * MB, order=order, known_plan=True, rule=RULE)
        waits: dict[str, list[float]] = {}
        for each, latency_s in zip(arrivals, played.latencies_s, strict=True):
            waits.setdefault(each.tenant, []).append(latency_s)
        return [float(np.mean(waits[name])) for name in sorted(waits, key=lambda name: len(waits[name]))]

    ours, arrived = means(Order.WEIGHED), means(Order.FCFS)
    assert np.mean(ours[:20]) < 0.5 * np.mean(arrived[:20])


def test_one_job_on_paper_takes_its_reading_and_computing() -> None:
    arrivals = [JobArrival(at_s=2.0, tenant="a", kind="two"), JobArrival(at_s=2.0, tenant="a", kind="two")]
    read_s = 160 * MB / RULE.read_bytes_per_s
    lru = play(arrivals, KINDS, 10**9, order=Order.FCFS, known_plan=False, rule=RULE)
    assert lru.latencies_s == pytest.approx([0.06 + read_s, 0.12 + read_s])
    ours = play(arrivals, KINDS, 10**9, order=Order.WEIGHED, known_plan=True, rule=RULE)
    assert ours.latencies_s == pytest.approx([max(0.06, read_s), max(0.06, read_s) + 0.06])
    # A budget of half the keys: all of them are read again.
    tight = play(arrivals, KINDS, 80 * MB, order=Order.FCFS, known_plan=False, rule=RULE)
    assert tight.read_bytes == 2 * 160 * MB
    both = [*arrivals, JobArrival(at_s=2.0, tenant="b", kind="two"), arrivals[0]]
    assert play(both, KINDS, 160 * MB, order=Order.FCFS, known_plan=False, rule=RULE).read_bytes == 3 * 160 * MB


@given(
    st.integers(0, 30), st.integers(0, 100).map(float), st.integers(0, 100).map(float), st.sampled_from([1, 2, 20, 200])
)
def test_a_refusal_says_when_to_come_back(jobs: int, backlog_s: float, job_s: float, tenants: int) -> None:
    limits, backlog_s = Limits(jobs=20, backlog_s=60.0), backlog_s if jobs else 0.0
    most = max(1, 20 // tenants)
    if jobs == 0 or (jobs < most and backlog_s + job_s <= 60.0 / tenants):
        limits.admit(jobs, backlog_s, job_s, 0, tenants=tenants)
        return
    with pytest.raises(AdmissionRefused, match=r"of this tenant.* come again in") as refused:
        limits.admit(jobs, backlog_s, job_s, 0, tenants=tenants)
    assert refused.value.retry_after_s > 0
    if jobs < most:
        # The tenant has a share of the machine.
        later_s = max(0.0, backlog_s - refused.value.retry_after_s / tenants)
        if later_s:
            limits.admit(jobs, later_s - 1e-9, job_s, 0, tenants=tenants)
    with pytest.raises(UsageError, match="take a smaller program"):
        replace(limits, memory_bytes=10).admit(jobs, backlog_s, job_s, 11)


@pytest.mark.parametrize("honest", [1, 19, 199])
def test_a_full_backlog_of_one_tenant_refuses_no_other_one(honest: int) -> None:
    with closing(WorkerPool(SETTINGS, limits=Limits(jobs=1000, backlog_s=600.0))) as pool:

        def fill(tenant: str, most: int, **fields: object) -> int:
            for number in range(most):
                try:
                    pool.submit(replace(spec(0, tenant, **fields), job=f"{tenant}-{number}"))
                except AdmissionRefused:
                    return number
            return most

        assert fill("hostile", 2000, compute_s=1.0) == 600
        took = [fill(f"honest-{n}", 5, compute_s=0.5) for n in range(honest)]
        assert took == [5] * honest
        with pytest.raises(AdmissionRefused, match=r"600\.0 s of this tenant|600 jobs of this tenant"):
            pool.submit(spec(1, "hostile", compute_s=0.1))
        assert fill("long", 5, compute_s=1e4) == 1, "the first one, however long it is"
        accepted = replace(spec(2, "hostile", compute_s=1e4, memory_bytes=1 << 60), job="of an earlier server")
        pool.submit(accepted, is_accepted=True)
        assert pool.snapshot(0)["waiting"] == 602 + 5 * honest


def test_workers_hear_of_jobs_that_come_without_their_files() -> None:
    told: list[JobSpec] = []
    channel = SimpleNamespace(tell=lambda kind, jobs: told.extend(jobs))
    worker = SimpleNamespace(coming=[], channel=channel, _tenants=set())
    files = {f"x{number}": Path("x") for number in range(600)}
    coming = replace(spec(1, "b"), inputs=files, outputs={"y": Path("y")})
    WorkerProcess.plan(worker, [coming])  # type: ignore[arg-type]
    assert told == [replace(coming, inputs={}, outputs={})]
    WorkerProcess.plan(worker, [coming])  # type: ignore[arg-type]
    assert len(told) == 1, "nothing has changed"


def test_messages_survive_the_channel() -> None:
    ends = [Channel(end.detach()) for end in socket.socketpair()]

    def carried(message: Message) -> Message:
        ends[0].tell("run", content=message)
        content = json.loads(ends[1].recv_bytes())
        assert content["kind"] == "run"
        return type(message).of(content["content"])

    job = spec(3, priority=4, deadline_s=2.5)
    job = replace(job, inputs={"x": Path("/a/x")}, outputs={"y": Path("/b/y")})
    assert carried(job) == job
    told = WorkerSettings(store=Path("s"), budget_bytes=5, readable=(Path("r"),), writable=(Path("w"),))
    assert carried(told) == told
    ends[0].close()
    with pytest.raises((EOFError, OSError)):
        ends[1].recv_bytes()
    ends[1].tell("done")  # to nobody: who hears next finds out
    ends[1].close()


def test_the_costs_of_a_package_are_known_for_every_tenant_that_has_it():
    digest = "0123456789abcdef" * 4
    fields = {"program": "p", "store": Path("s"), "secret_tag": None, "inputs": {}, "outputs": {}}
    one, other = (
        JobSpec(job=tenant, tenant=tenant, package=Path(tenant) / "blobs" / digest, **fields) for tenant in "ab"
    )
    queue = Queue(Order.WEIGHED, RULE)
    queue.learn(str(one.package), {"d/relin": 5})
    queue.add(one, 0.0)
    queue.add(other, 0.0)
    assert {queue.candidate(each, {"b": {"d/relin": 3}}, 1.0).missing_bytes for each in queue.waiting()} == {5, 2}
    renamed = replace(one, job="c", package=Path("a/blobs/model.pkg"), key_bytes=7)
    queue.add(renamed, 0.0)
    assert queue.candidate(queue.waiting()[-1], {}, 1.0).missing_bytes == 7
