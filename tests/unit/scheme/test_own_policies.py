"""Policies, prefetchers and schedules of a user's own: the engine's where they say the same, and blamed for faults."""

from __future__ import annotations

import json
import pickle
import time
from pathlib import Path

import numpy as np
import pytest
from hypothesis import HealthCheck, given
from hypothesis import strategies as st

import penstock
from penstock.errors import UnknownName, UsageError
from penstock.front.cli.main import main
from penstock.lab.simulation.memory.tenants import interleave, order_named
from penstock.lab.simulation.play import simulate
from penstock.lab.simulation.question import parse_prefetch
from penstock.program.running import trace_workload
from penstock.scheme.machines import load_machine
from penstock.scheme.play.accesses import Accesses
from penstock.scheme.play.caches import SizedCache
from penstock.scheme.play.hierarchy import Pace, Rates, play_many, replay
from penstock.scheme.play.price import price_trace
from support.examples import at_most

LRU = "def priority(accesses):\n    return accesses.position\n"
FIFO = (
    "from penstock.scheme.play.own import Priority\ndef priority(a):\n    return Priority(a.position, on_hit=False)\n"
)
BELADY = """
import numpy as np
from penstock.scheme.play.own import Priority

def priority(accesses):
    return Priority(np.where(accesses.never_again, np.nan, -accesses.next_use), bypass=True)
"""
LRU_CLASS = """
class Policy:
    def __init__(self, accesses):
        self.order = {}

    def touch(self, object, at):
        del self.order[object]
        self.order[object] = at

    def make_room(self, object, at, needed, resident):
        victims = []
        for other in self.order:
            if needed <= 0:
                break
            if other != object:
                victims.append(other)
                needed -= resident[other]
        for victim in victims:
            del self.order[victim]
        return victims

    def insert(self, object, at, bytes):
        self.order[object] = at
"""
BELADY_CLASS = """
class Policy:
    def __init__(self, accesses):
        self.accesses, self.next = accesses, {}

    def touch(self, object, at):
        if self.accesses.never_again[at]:
            self.next.pop(object)
            return False
        self.next[object] = int(self.accesses.next_use[at])

    def admits(self, object, at):
        return not self.accesses.never_again[at]

    def make_room(self, object, at, needed, resident):
        own, victims = int(self.accesses.next_use[at]), []
        for other in sorted(self.next, key=self.next.get, reverse=True):
            if needed <= 0:
                break
            if other != object and self.next[other] > own:
                victims.append(other)
                needed -= resident[other]
        if needed > 0:
            return None
        for victim in victims:
            del self.next[victim]
        return victims

    def insert(self, object, at, bytes):
        self.next[object] = int(self.accesses.next_use[at])
"""
SAME = {"lru": (LRU, LRU_CLASS), "fifo": (FIFO,), "belady": (BELADY, BELADY_CLASS)}
"""The engine's policy -> files that say the same."""
ROWS = st.lists(st.lists(st.tuples(st.integers(0, 6), st.integers(1, 30)), max_size=3), max_size=40)


def written(tmp_path: Path, text: str, name: str = "mine.py") -> str:
    path = tmp_path / name
    path.write_text(text)
    return str(path)


def same(one, other) -> None:
    assert (one.access_miss_bytes == 0).tolist() == (other.access_miss_bytes == 0).tolist()
    assert one.operation_bytes.tolist() == other.operation_bytes.tolist()
    facts = ("hits", "misses", "hit_bytes", "miss_bytes", "evictions", "streamed", "peak_resident_bytes")
    assert {name: getattr(one, name) for name in facts} == {name: getattr(other, name) for name in facts}


@pytest.mark.parametrize("policy", sorted(SAME))
@at_most(60, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(rows=ROWS, capacity=st.integers(0, 90))
def test_a_file_that_says_the_same_is_the_engine_s_policy(tmp_path, policy, rows, capacity):
    accesses = Accesses.of(rows)
    expected = replay(accesses, SizedCache(policy, capacity), detail=True)
    for i, text in enumerate(SAME[policy]):
        same(replay(accesses, SizedCache(written(tmp_path, text, f"{policy}{i}.py"), capacity), detail=True), expected)


@at_most(60, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(rows=ROWS, capacity=st.integers(0, 90), values=st.lists(st.floats(-9, 9), min_size=120, max_size=120))
def test_any_priorities_keep_the_accounts(tmp_path, rows, capacity, values):
    accesses = Accesses.of(rows)
    flags = f"on_hit={values[0] > 0}, bypass={values[1] > 0}, aging={values[2] > 0}"
    text = f"""
import numpy as np
from penstock.scheme.play.own import Priority
def priority(a):
    values = np.array({values})[:len(a)]
    return Priority(np.where(values < -8, np.nan, values), {flags})
"""
    got = replay(accesses, SizedCache(written(tmp_path, text), capacity), detail=True)
    assert got.hits + got.misses == len(accesses)
    assert got.hit_bytes + got.miss_bytes == int(accesses.access_bytes.sum())
    assert got.peak_resident_bytes <= capacity
    assert got.miss_bytes >= replay(accesses, SizedCache("optimal", capacity)).miss_bytes


def test_it_sees_every_access_with_its_uses(tmp_path):
    text = """
seen = {}
def priority(accesses):
    names = ("object", "bytes", "operation", "position", "next_use", "last_use", "uses", "reload_bytes")
    seen.update({name: getattr(accesses, name).tolist() for name in names})
    seen.update(never=accesses.never_again.tolist(), objects=accesses.num_objects, room=accesses.capacity_bytes)
    try:
        accesses.bytes[0] = 1
    except ValueError:
        seen["locked"] = True
    return 0
"""
    cache = SizedCache(written(tmp_path, text), 50)
    replay(Accesses.of([[(70_000_000_000, 5), (3, 7)], [], [(3, 9)], [(70_000_000_000, 2)]]), cache)
    assert cache.own is not None
    assert cache.own.part("priority").__globals__["seen"] == {
        "object": [1, 0, 0, 1], "bytes": [5, 7, 9, 2], "operation": [0, 0, 2, 3], "position": [0, 1, 2, 3],
        "next_use": [3, 2, 4, 4], "last_use": [-1, -1, 1, 0], "uses": [1, 1, 2, 2], "reload_bytes": [2, 9, 0, 0],
        "never": [False, False, True, True], "objects": 2, "room": 50, "locked": True,
    }  # fmt: skip


CLASS = (
    "class Policy:\n    def __init__(self, accesses):\n        pass\n\n"
    "    def make_room(self, object, at, needed, resident):\n"
)


@pytest.mark.parametrize(
    ("text", "reason"),
    [
        ("def priority(accesses):\n    return accesses.next\n", "mine.py, line 2, in priority: AttributeError"),
        ("def priority(a):\n    return [0, 0]\n", "mine.py, line 1, in priority: it returned shape (2,)"),
        ("def priority(a):\n    return 'much'\n", "mine.py, line 1, in priority: it returned str, no numbers"),
        ("def priority(a)\n", "mine.py, line 1: no Python"),
        ("x = 1 / 0\ndef priority(a): ...\n", "mine.py, line 1, while it is read: ZeroDivisionError"),
        ("priority = 3\n", "mine.py: priority is a function or a class, not 3"),
        ("def evict(a): ...\n", "policy takes a file that defines priority or Policy; it has no part of a policy"),
        ("def prefetch(a): ...\n", "policy takes a file that defines priority or Policy; it has a part for prefetch"),
        ("class Policy:\n    def __init__(self, a):\n        pass\n", "it has no method make_room"),
        (CLASS + "        return [77]\n", "line 5, in make_room: it returned object 77, which is not in the cache"),
        (CLASS + "        return [object]\n", "is the object that comes in"),
        (CLASS + "        return []\n", "mine.py, line 5, in make_room: the objects that it returned free 0 bytes of"),
        (CLASS + "        return resident.none\n", "mine.py, line 6, in Policy: AttributeError"),
        (CLASS + "        return 5\n", "in Policy: TypeError"),
    ],
)  # fmt: skip
def test_a_fault_of_the_file_is_named_with_its_line(tmp_path, text, reason):
    with pytest.raises(UsageError) as error:
        replay(Accesses.of([[(1, 6)], [(2, 6)], [(1, 6)]]), SizedCache(written(tmp_path, text), 10))
    assert reason in str(error.value)


def test_no_file_and_no_policy(tmp_path):
    with pytest.raises(UsageError, match=r"nothing.py: no such file"):
        SizedCache(str(tmp_path / "nothing.py"), 1)
    with pytest.raises(UnknownName, match="did you mean 'lru'"):
        SizedCache("lruu", 1)


def test_it_travels_with_its_text_and_is_told_from_another_state(tmp_path):
    path = Path(written(tmp_path, LRU))
    cache = SizedCache(str(path), 20)
    accesses = Accesses.of([[(i % 4, 9)] for i in range(30)])
    expected = replay(accesses, SizedCache("lru", 20), detail=True)
    path.write_text(BELADY)
    other = SizedCache(str(path), 20)
    assert cache != other
    assert (cache.policy, other.policy) == ("mine.py", "mine.py")
    path.unlink()
    same(replay(accesses, pickle.loads(pickle.dumps(cache)), detail=True), expected)
    assert replay(accesses, other).hits > expected.hits


# Everywhere -----------------------------------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def priced():
    trace = trace_workload("logistic-regression", "sharp", "helr")
    return trace, price_trace(trace, load_machine("sharp"))


def test_helr_under_three_own_policies_takes_at_most_three_seconds(tmp_path, priced):
    _, program = priced
    files = {"belady": BELADY, "lru": LRU_CLASS, "fifo": FIFO}
    caches = {name: SizedCache(written(tmp_path, text, f"{name}.py"), 300_000_000) for name, text in files.items()}
    started = time.process_time()
    got = {name: replay(program.accesses, cache) for name, cache in caches.items()}
    assert time.process_time() - started < 3
    for name, each in got.items():
        expected = replay(program.accesses, SizedCache(name, 300_000_000))
        assert (each.miss_bytes, each.evictions) == (expected.miss_bytes, expected.evictions) != (0, 0)


def test_simulate_takes_files_like_names(tmp_path):
    mine, ahead = written(tmp_path, BELADY), written(tmp_path, "def prefetch(loads):\n    return 2\n", "ahead.py")
    asked = {"params": "insecure-ci", "cache": "2 MB", "mode": "overlap"}
    own = penstock.simulate("inner-product", "sharp", "pcie5", policy=[Path(mine)], prefetch=[ahead], **asked)
    engine = penstock.simulate("inner-product", "sharp", "pcie5", policy="belady", prefetch="next-2", **asked)
    for one, other in zip(own.rows, engine.rows, strict=True):
        assert (one["policy"], one["prefetch"]) == ("mine.py", "ahead.py")
        assert one | {"policy": "belady", "prefetch": "next-2"} == other


def test_levels_take_files_too(tmp_path):
    mine = written(tmp_path, BELADY)
    asked = {"params": "insecure-ci"}
    own, engine = (
        penstock.simulate("inner-product", "sharp", levels=f"on-chip:2 MB:{policy},hbm", **asked)
        for policy in (mine, "belady")
    )
    (one,), (other,) = own.rows, engine.rows
    assert one["levels"][0]["policy"] == "mine.py"
    assert one["levels"][0] | {"policy": "belady"} == other["levels"][0]
    assert one["total_s"] == other["total_s"]
    with pytest.raises(UsageError, match="take lru or fifo"):
        penstock.simulate("inner-product", "sharp", levels=f"on-chip:2 MB:{mine},hbm", inclusion="inclusive", **asked)


def test_two_files_of_one_name_are_refused(tmp_path):
    (tmp_path / "other").mkdir()
    both = [written(tmp_path, LRU), written(tmp_path / "other", FIFO)]
    with pytest.raises(UsageError, match=r"two policies are named 'mine.py'"):
        penstock.simulate("inner-product", "sharp", policy=both, cache="2 MB", params="insecure-ci")


@pytest.mark.parametrize(("depth", "same_as"), [("0", "none"), ("1", "next-1"), ("len(loads)", "perfect")])
def test_a_prefetcher_of_one_depth_is_the_engine_s(tmp_path, depth, same_as):
    text = f"def prefetch(loads):\n    assert len(loads) == len(loads.load_s) == 40\n    return {depth}\n"
    buffer = 10**9 if same_as == "perfect" else None
    own = parse_prefetch(written(tmp_path, text), buffer)
    expected = parse_prefetch(same_as, buffer)
    kept = replay(Accesses.of([[(i % 5, 100 * i + 1)] for i in range(40)]), SizedCache("lru", 900))
    tier = Rates(bandwidth_bytes_per_s=1e9, latency_s=1e-8)
    paces = [
        Pace(
            tier=tier,
            mode="overlap",
            prefetch=each,
        )
        for each in (own, expected)
    ]
    mine, engine = play_many(np.linspace(1e-7, 4e-6, 40), kept, paces)
    assert (mine.total_s, mine.io_s) == (engine.total_s, engine.io_s)
    assert paces[0].prefetch is not None
    assert str(paces[0].prefetch).startswith("mine.py")


@pytest.mark.parametrize(
    ("text", "reason"),
    [
        ("def prefetch(loads):\n    return -1\n", "line 1, in prefetch: depth -1 of operation 0"),
        ("def prefetch(loads):\n    return 0.5\n", "depth 0.5 of operation 0: it is a whole number"),
        ("def prefetch(loads):\n    return [1, 2]\n", r"it returned shape \(2,\): return \(3,\), a depth"),
        ("def prefetch(loads):\n    return loads.of\n", "line 2, in prefetch: AttributeError"),
    ],
)
def test_a_fault_of_a_prefetcher(tmp_path, text, reason):
    ahead = parse_prefetch(written(tmp_path, text))
    kept = replay(Accesses.of([[(1, 5)], [(2, 5)], [(1, 5)]]), SizedCache("lru", 9))
    with pytest.raises(UsageError, match=reason):
        play_many([1e-6] * 3, kept, [Pace(tier=Rates(bandwidth_bytes_per_s=1e9), mode="overlap", prefetch=ahead)])
    assert play_many([1e-6] * 3, kept, [Pace(tier=Rates(bandwidth_bytes_per_s=1e9))])[0].total_s > 0


def test_a_schedule_gives_programs_their_turns(tmp_path, priced):
    _, program = priced
    turns = "import numpy as np\ndef schedule(jobs):\n    return [np.arange(len(job)) for job in jobs]\n"
    own = interleave([program, program], order_named(written(tmp_path, turns)))
    expected = interleave([program, program])
    assert own.tenants.tenant.tolist() == expected.tenants.tenant.tolist()
    first = (
        "import numpy as np\ndef schedule(jobs):\n    return [np.full(len(job), -i) for i, job in enumerate(jobs)]\n"
    )
    in_turn = interleave([program, program], order_named(written(tmp_path, first))).tenants.tenant
    assert in_turn.tolist() == [1] * len(program) + [0] * len(program)


@pytest.mark.parametrize(
    ("body", "reason"),
    [
        ("return [np.zeros(len(jobs[0]))]", "it returned 1 arrays: return one for each of 2"),
        ("return [-np.arange(len(job)) for job in jobs]", "turn -1 of operation 1 of logistic-regression 1: turns"),
        ("return [np.full(len(job), np.nan) for job in jobs]", "turn nan of operation 0"),
        ("return jobs.nothing", "line 3, in schedule: AttributeError"),
    ],
)
def test_a_fault_of_a_schedule(tmp_path, priced, body, reason):
    _, program = priced
    text = f"import numpy as np\ndef schedule(jobs):\n    {body}\n"
    with pytest.raises(UsageError, match=reason):
        interleave([program, program], order_named(written(tmp_path, text)))


def rows(capsys, *words: str) -> list[dict[str, object]]:
    assert (
        main(["simulate", "inner-product", "--params", "insecure-ci", "--machine", "sharp", *words, "--format", "json"])
        == 0
    )
    found = json.loads(capsys.readouterr().out)
    return found if isinstance(found, list) else [found]


def test_policy_takes_whatever_part_the_file_has(tmp_path, capsys):
    ahead = written(tmp_path, "def prefetch(loads):\n    return 2\n", "ahead.py")
    tier = ("--tier", "pcie5")
    (own,) = rows(capsys, *tier, "--mode", "overlap", "--policy", ahead)
    (engine,) = rows(capsys, *tier, "--mode", "overlap", "--prefetch", "next-2")
    assert own["prefetch"] == "ahead.py"
    assert own["total_s"] == engine["total_s"]
    turns = written(
        tmp_path, "import numpy as np\ndef schedule(jobs):\n    return [np.arange(len(j)) for j in jobs]\n", "turns.py"
    )
    beside = ("--cache", "2 MB", "--with", "inner-product")
    (own,) = rows(capsys, *tier, *beside, "--policy", turns)
    (engine,) = rows(capsys, *tier, *beside)
    assert own == engine
    assert main(["simulate", "inner-product", "--machine", "sharp", "--policy", turns]) == 2
    assert "says how programs take turns" in capsys.readouterr().err
    assert main(["simulate", "inner-product", "--machine", "sharp", "--policy", ahead]) == 2
    assert "is of mode overlap" in capsys.readouterr().err


def test_a_timeline_of_an_own_policy(tmp_path, capsys):
    drawn = {}
    for name, policy in (("own", written(tmp_path, BELADY)), ("engine", "belady")):
        path = tmp_path / f"{name}.json"
        words = ("--tier", "pcie5", "--cache", "2 MB", "--mode", "overlap", "--policy", policy, "--timeline", str(path))
        rows(capsys, *words)
        drawn[name] = json.loads(path.read_text())["traceEvents"]
    assert drawn["own"] == drawn["engine"]


def test_a_sweep_plays_files_and_plays_a_changed_one_anew(tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    mine = Path(written(tmp_path, BELADY))
    Path("own.toml").write_text(
        'workload = "inner-product"\nparams = "insecure-ci"\nmachine = "sharp"\ntier = "pcie5"\ncache = "2 MB"\n'
        'policy = ["lru", "belady", "mine.py"]\n'
    )
    assert main(["sweep", "own.toml", "-o", "runs/own", "--quiet", "--workers", "2"]) == 0
    from penstock.lab.sweeps.store import read_results

    found = {row["policy"]: row for row in read_results(Path("runs/own")).to_pylist()}
    assert found["mine.py"]["io_bytes"] == found["belady"]["io_bytes"]
    ids = {row["point_id"] for row in found.values()}
    mine.write_text(LRU)
    assert main(["sweep", "own.toml", "-o", "runs/changed", "--quiet"]) == 0
    again = {row["policy"]: row for row in read_results(Path("runs/changed")).to_pylist()}
    assert again["mine.py"]["io_bytes"] == again["lru"]["io_bytes"]
    assert again["mine.py"]["point_id"] not in ids
    assert {again["lru"]["point_id"], again["belady"]["point_id"]} < ids
    capsys.readouterr()


def test_points_of_checked_values_take_a_file(tmp_path):
    trace = trace_workload("inner-product", "insecure-ci")
    machine = load_machine("sharp")
    (row,) = simulate(
        price_trace(trace, machine),
        [Rates(bandwidth_bytes_per_s=1000000000.0)],
        caches=[SizedCache(written(tmp_path, LRU), 10**6)],
    )
    assert row["policy"] == "mine.py"
