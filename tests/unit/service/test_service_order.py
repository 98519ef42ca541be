"""The order of waiting jobs: a slow twin, nobody waits without end, priorities, deadlines, shares, admission."""

from __future__ import annotations

import importlib
import json
import socket
from dataclasses import replace
from pathlib import Path
from types import ModuleType

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from penstock.errors import UsageError
from penstock.service.work.admission import Limits
from penstock.service.work.messages import AdmissionRefused, Channel, JobFigures, JobSpec, Message, WorkerSettings
from penstock.service.work.order import Order, OrderRule, Shares, WaitingJob, choose
from penstock.service.work.simulated import JobArrival, ProgramCost, play
from penstock.service.work.waiting import Queue
from support.examples import at_most

RULE = OrderRule()
MB = 10**6


def comes_before(a: WaitingJob, b: WaitingJob, ahead_s: dict[str, float]) -> bool:
    """The rule once more, as a person would say it."""

    def seconds(each: WaitingJob) -> float:
        return each.missing_bytes / RULE.read_bytes_per_s

    def spare(each: WaitingJob) -> float | None:
        if each.left_s is None:
            return None
        service = each.compute_s if each.compute_s > seconds(each) else seconds(each)
        return each.left_s - service if 0 <= each.left_s - service <= max(1.0, service) else None

    def cost(each: WaitingJob) -> float:
        pays = 8 * each.key_bytes / RULE.read_bytes_per_s
        lead = ahead_s.get(each.tenant, 0.0)
        aged = 0.2 * each.waited_s
        # A lead takes back two thirds of the waiting at most.
        return seconds(each) - aged + min(lead - pays if lead > pays else 0.0, aged * (1 - 1 / 3))

    if a.priority != b.priority:
        return a.priority > b.priority
    spare_a, spare_b = spare(a), spare(b)
    if (spare_a is None) != (spare_b is None):
        return spare_a is not None
    if spare_a is not None and spare_b is not None and spare_a != spare_b:
        return spare_a < spare_b
    if spare_a is None and cost(a) != cost(b):
        return cost(a) < cost(b)
    return a.number < b.number


def slow(candidates: list[WaitingJob], ahead_s: dict[str, float], since_overdue: int) -> int:
    overdue = [each for each in candidates if each.overtaken >= 64]
    if overdue and since_overdue >= 3:
        return candidates.index(min(overdue, key=lambda each: each.number))
    (first,) = [
        at
        for at, each in enumerate(candidates)
        if not any(comes_before(other, each, ahead_s) for other in candidates if other is not each)
    ]
    return first


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


@given(
    st.lists(some_job, min_size=1, max_size=12),
    st.dictionaries(st.sampled_from("abc"), st.integers(0, 30).map(float)),
    st.integers(0, 5),
)
def test_the_choice_is_the_one_that_no_other_comes_before(
    jobs: list[WaitingJob], ahead_s: dict[str, float], since: int
) -> None:
    numbered = [replace(each, number=number) for number, each in enumerate(jobs)]
    assert choose(numbered, ahead_s, RULE, since_overdue=since) == slow(numbered, ahead_s, since)


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
        queue.remove(entry.spec.job)
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
    for job in order:
        overtaken = sum(1 for later in range(job + 1, len(jobs)) if place[later] < place[job])
        # Once overdue, each job before it in the order of arrival goes at most `overdue_every` choices earlier.
        assert overtaken <= rule.max_overtaken + rule.overdue_every * (job + 1)


@at_most(40)
@given(st.lists(st.tuples(st.sampled_from("abcd"), st.integers(0, 9)), min_size=1, max_size=40))
def test_a_higher_priority_goes_first(jobs: list[tuple[str, int]]) -> None:
    rule = replace(RULE, max_overtaken=10**9)
    order = run_queue([spec(n, tenant, priority=priority) for n, (tenant, priority) in enumerate(jobs)], rule)
    assert [jobs[each][1] for each in order] == sorted((priority for _, priority in jobs), reverse=True)


def test_a_job_that_just_meets_its_deadline_goes_first() -> None:
    queue = Queue(Order.WEIGHED, RULE)
    queue.learn("p.pkg", {"k": 300 * MB})
    for number in range(5):
        queue.add(spec(number), 0.0)
    queue.add(spec(5, "b", deadline_s=10.0), 0.0)
    residents = {"a": {"k": 300 * MB}}

    def first(now: float) -> str:
        entry = queue.next(residents, lambda each: True, now)
        assert entry is not None
        return entry.spec.job

    assert first(5.0) == "0"
    assert first(9.2) == "5"
    assert first(9.99) == "0", "too late: it would not meet it"


def test_a_tenant_with_many_jobs_leaves_the_machine_to_another() -> None:
    order = run_queue([spec(n, "a") for n in range(40)] + [spec(40, "b")], RULE)
    # Keys of 0.2 s pay for 1.6 s ahead; then each second of waiting counts three times as much for the other.
    assert 1 <= order.index(40) <= 4


def test_a_tenant_that_comes_back_has_saved_nothing_up() -> None:
    shares = Shares()
    shares.waits(["a", "b"])
    shares.had("a", 100.0)
    assert shares.ahead_s() == {"a": 100.0, "b": 0.0}
    shares.waits(["a"])
    shares.had("a", 50.0)
    shares.waits(["a", "b", "c"])
    assert shares.ahead_s() == {"a": 0.0, "b": 0.0, "c": 0.0}
    shares.forget("a")
    assert "a" not in shares.ahead_s()


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


def test_a_busy_tenant_waits_a_few_times_as_long_as_the_median_one(drawn_jobs: ModuleType) -> None:
    arrivals = drawn_jobs.draw(np.random.default_rng(2), 1500, 30, 1.0, list(KINDS), 21.0)

    def worst(rule: OrderRule) -> float:
        played = play(arrivals, KINDS, 800 * MB, order=Order.WEIGHED, known_plan=True, rule=rule)
        waits: dict[str, list[float]] = {}
        for each, latency_s in zip(arrivals, played.latencies_s, strict=True):
            waits.setdefault(each.tenant, []).append(latency_s)
        means = [float(np.mean(each)) for each in waits.values()]
        return max(means) / float(np.median(means))

    assert worst(RULE) <= RULE.most_slowed < worst(replace(RULE, most_slowed=1e9))


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


@given(st.integers(0, 30), st.integers(0, 100).map(float), st.integers(0, 100).map(float))
def test_a_refusal_says_when_to_come_back(jobs: int, backlog_s: float, job_s: float) -> None:
    limits, backlog_s = Limits(jobs=20, backlog_s=60.0), backlog_s if jobs else 0.0
    fits = jobs == 0 or (jobs < 20 and backlog_s + job_s <= 60.0)
    if fits:
        limits.admit(jobs, backlog_s, job_s, 0)
        return
    with pytest.raises(AdmissionRefused, match="come again in") as refused:
        limits.admit(jobs, backlog_s, job_s, 0)
    assert refused.value.retry_after_s > 0
    if jobs < 20:
        later_s = max(0.0, backlog_s - refused.value.retry_after_s)
        if later_s:
            limits.admit(jobs, later_s, job_s, 0)
    with pytest.raises(UsageError, match="take a smaller program"):
        replace(limits, memory_bytes=10).admit(jobs, backlog_s, job_s, 11)


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
