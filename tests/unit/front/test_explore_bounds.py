"""The explorer's bounds: what would cost too much is refused at once, and what is kept is bounded in bytes."""

from __future__ import annotations

import json
import pickle
import threading
import time
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import pyarrow as pa
import pytest

from penstock.base.system.kept import Kept, kept, size_of
from penstock.front.cli.main import main
from penstock.front.explorer.bounds import MOST_HOSTS, Busy, TooMuch, Turns
from penstock.front.explorer.engine import Engine
from penstock.front.explorer.library import Library
from penstock.front.explorer.memo import Memo
from penstock.front.explorer.state import State
from penstock.front.explorer.views import show
from penstock.lab.simulation.cluster import collectives, dealing, topology
from penstock.lab.simulation.cluster.collectives import AllGather, Broadcast, pattern_of


def test_more_hosts_than_the_explorer_plays_are_refused_at_once_with_the_command_that_plays_them(capsys):
    started = time.perf_counter()
    for hosts in (MOST_HOSTS + 1, 1024):
        with pytest.raises(TooMuch, match=rf"plays 1 to {MOST_HOSTS}.*square.*penstock simulate --hosts {hosts}"):
            State.from_query({"hosts": str(hosts)})
    assert main(["explore", "whatif", "hosts=1024", "--print"]) == 2
    assert "penstock simulate --hosts 1024" in capsys.readouterr().err
    assert time.perf_counter() - started < 1


def test_the_most_hosts_take_little_time_and_memory_and_other_numbers_do_not_add_up():
    engine = Engine(Library(runs=Path("no-such-folder")))
    show(engine, "whatif", State(hosts=2))
    started = time.perf_counter()
    for hosts in range(MOST_HOSTS - 4, MOST_HOSTS + 1):
        show(engine, "whatif", State(hosts=hosts))
    assert (time.perf_counter() - started) / 5 < 5
    found = engine.ready(State(hosts=2), "sharp", clusters=True)
    assert found.kept.num_bytes <= found.kept.most_bytes


@pytest.mark.parametrize("function", [collectives.pattern_of, dealing.holdings, dealing.busiest, topology._named])
def test_what_hosts_hold_and_exchange_is_kept_up_to_a_number_of_bytes(function):
    assert function.results.most_bytes <= 256 * 2**20


def test_messages_of_many_numbers_of_hosts_do_not_add_up(monkeypatch):
    monkeypatch.setattr(pattern_of.results, "most_bytes", 2**20)
    pattern_of.cache_clear()
    for hosts in range(60, 100):
        members = tuple(range(hosts))
        assert len(pattern_of(Broadcast(members, 0, 10**6)).source) == (hosts - 1) ** 2 + hosts - 1
        assert len(pattern_of(AllGather(members, (5,) * hosts)).source) == hosts * (hosts - 1)
        assert pattern_of.results.num_bytes <= 2**20
    assert 0 < len(pattern_of.results) < 10
    pattern_of.cache_clear()
    assert pattern_of.results.num_bytes == len(pattern_of.results) == 0


def test_the_results_that_were_asked_for_last_are_kept():
    results = Kept[bytes](10_000, most=3)
    for name in "abc":
        results.put(name, name.encode())
    assert results.find("a") == (b"a",)
    results.put("d", b"d")
    assert results.find("b") is None
    results.put("large", bytes(9_000))
    assert results.find("a") is results.find("c") is None
    assert results.num_bytes <= 10_000
    results.put("larger", bytes(11_000))
    assert results.find("larger") is None
    assert results.find("large") == (bytes(9_000),)
    results.put("large", b"")
    assert results.num_bytes < 2_000
    assert len(pickle.loads(pickle.dumps(results))) == 0


def test_a_function_keeps_what_it_made_and_no_error():
    made = []

    @kept(10**6)
    def half(n: int, *, digits: int = 1) -> float:
        """Half of it."""
        made.append(n)
        return round(10 / n, digits)

    assert (half.__name__, half.__doc__) == ("half", "Half of it.")
    assert [half(3), half(3), half(3, digits=2), half(3, digits=2)] == [3.3, 3.3, 3.33, 3.33]
    for _ in range(2):
        with pytest.raises(ZeroDivisionError):
            half(0)
    assert made == [3, 3, 0, 0]


def test_a_size_is_that_of_the_buffers_behind_a_value():
    @dataclass(frozen=True, slots=True)
    class Held:
        array: np.ndarray
        table: pa.Table
        names: dict[str, tuple[int, ...]]

    array = np.zeros(1000)
    held = Held(array, pa.table({"a": range(500)}), {"x": tuple(range(1000))})
    assert 8_000 + 4_000 + 8_000 < size_of(held) < 80_000
    assert size_of([array, array]) < 9_000
    nested: list[object] = []
    nested.append(nested)
    assert size_of(nested) < 200
    deep: list[object] = []
    for _ in range(100_000):
        deep = [deep]
    assert size_of(deep) > 100_000


def test_a_result_that_is_larger_than_its_memo_is_made_again():
    memo, made = Memo[bytes](5, most_bytes=10_000), []

    def make() -> bytes:
        made.append(1)
        return bytes(20_000)

    assert len(memo.get("a", make)) == len(memo.get("a", make)) == 20_000
    assert len(made) == 2
    assert memo.num_bytes == 0


def test_answers_wait_for_their_turn_and_are_refused_when_none_comes():
    turns, held, done = Turns(most=1, wait_s=0.05), threading.Event(), threading.Event()

    def hold() -> None:
        with turns.one():
            held.set()
            done.wait(10)

    working = threading.Thread(target=hold)
    working.start()
    assert held.wait(10)
    with pytest.raises(Busy, match=r"1 other answers.*0\.05 s: ask again"), turns.one():
        pass
    done.set()
    working.join()
    with turns.one():
        pass
    with pytest.raises(ZeroDivisionError), turns.one():
        raise ZeroDivisionError
    with turns.one():
        pass


def test_a_busy_explorer_answers_so_with_the_status_of_one():
    pytest.importorskip("fastapi", reason="the explorer's server is not installed: pip install 'penstock[explore]'")
    from penstock.front.explorer.app import _answer

    engine = Engine(Library(runs=Path("no-such-folder")))
    engine.turns = Turns(most=1, wait_s=0.01)
    with engine.turns.one():
        refused = _answer(engine, "whatif", [])
    assert refused.status_code == 503
    assert "ask again later" in json.loads(refused.body)["error"]
    assert _answer(engine, "whatif", []).status_code == 200


def test_a_lack_of_memory_is_one_line_and_an_answer(monkeypatch):
    def lacks(*_):
        raise MemoryError("malloc of size 64 failed")

    pytest.importorskip("fastapi", reason="the explorer's server is not installed: pip install 'penstock[explore]'")
    from penstock.front.explorer import serve
    from penstock.front.explorer.app import _answer

    engine, said, done = Engine(Library(runs=Path("no-such-folder"))), [], threading.Event()
    monkeypatch.setattr(engine, "warm", lacks)
    serve._warm(engine, State(), done, threading.Event(), said.append)
    assert done.is_set()
    (line,) = said
    assert line.startswith("explore: out of memory (malloc of size 64 failed): ")
    monkeypatch.setattr("penstock.front.explorer.app.show", lacks)
    answer = _answer(engine, "whatif", [])
    assert answer.status_code == 500
    assert json.loads(answer.body)["error"].startswith("out of memory (malloc of size 64 failed): ")
