"""The turn at OpenFHE: one thread at a time, and nobody waits for one that has ended."""

from __future__ import annotations

import _thread
import threading
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from contextlib import AbstractContextManager
from pathlib import Path

import pytest

import penstock
from penstock.base.system import own_file, turns
from penstock.errors import PenstockError
from penstock.program.openfhe.turn import Turn


def ended(work: Callable[[], object]) -> None:
    thread = threading.Thread(target=work)
    thread.start()
    thread.join(10)
    assert not thread.is_alive()


def test_another_thread_waits_until_every_part_is_back() -> None:
    turn, order = Turn(), []
    outer, inner = turn.take(), turn.take()

    def wait() -> None:
        with turn.taken():
            order.append("other")

    other = threading.Thread(target=wait)
    other.start()
    for part in (inner, inner, outer):  # a second time nothing happens
        other.join(0.05)
        assert other.is_alive()
        order.append("here")
        part.give()
    other.join(10)
    assert order == ["here", "here", "here", "other"]


def test_a_block_that_fails_gives_its_part_back() -> None:
    turn = Turn()
    with pytest.raises(ZeroDivisionError), turn.kept():
        raise ZeroDivisionError
    with pytest.raises(ZeroDivisionError), turn.taken():
        raise ZeroDivisionError
    ended(lambda: turn.take().give())


def test_a_part_that_nobody_refers_to_any_more_is_back() -> None:
    turn = Turn()
    part = turn.take()
    del part
    ended(lambda: turn.take().give())


def test_a_thread_that_ended_is_not_waited_for_and_gives_nothing_back_later() -> None:
    turn, left = Turn(), []
    ended(lambda: left.append(turn.take()))
    here = turn.take()
    left[0].give()
    entered = threading.Event()
    other = threading.Thread(target=lambda: (turn.take().give(), entered.set()))
    other.start()
    assert not entered.wait(0.1)
    here.give()
    other.join(10)
    assert entered.is_set()


def test_a_thread_of_the_low_level_module_that_ended_is_not_waited_for() -> None:
    turn, left, done = Turn(), [], threading.Event()
    _thread.start_new_thread(lambda: (left.append(turn.take()), done.set()), ())
    assert done.wait(10)
    ended(lambda: turn.take().give())


def test_threads_that_wait_for_each_others_turns_are_refused_in_words() -> None:
    turn, held, said = Turn(), threading.Event(), []

    def enter(block: AbstractContextManager[None]) -> None:
        try:
            with block:
                pass
        except PenstockError as error:
            said.append(str(error))

    def file_first() -> None:
        with own_file.one_at_a_time():
            held.set()
            enter(turn.taken())

    with turn.taken():
        other = threading.Thread(target=file_first)
        other.start()
        assert held.wait(10)
        enter(own_file.one_at_a_time())
    other.join(10)
    assert not other.is_alive()
    assert said
    assert all("waits for a turn of this thread's" in each for each in said)


def test_a_thread_that_its_turns_owner_waits_for_is_refused_in_words(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(turns, "STILL_S", 0.6)

    def inner() -> None:
        with own_file.one_at_a_time():
            pass

    with own_file.one_at_a_time(), ThreadPoolExecutor(1) as pool, pytest.raises(PenstockError, match="another thread"):
        pool.submit(inner).result()


@pytest.mark.usefixtures("openfhe")
def test_a_clear_program_that_runs_openfhe_and_another_that_runs_with_it_do_not_hang(tmp_path: Path) -> None:
    text = (
        "import numpy as np\nPARAMS = 'insecure-small'\n\ndef data(size, slots, seed):\n    return np.ones(4)\n\n"
        "def program(ev, data, size):\n{inner}    return ev.decrypt(ev.encrypt(data))[:4]\n"
    )
    alone, nested = tmp_path / "alone.py", tmp_path / "nested.py"
    alone.write_text(text.format(inner=""))
    inner = f"    import penstock\n    penstock.run({str(alone)!r}, reading='openfhe')\n"
    nested.write_text(text.format(inner=inner))
    passed = []

    def work(name: Path, reading: str) -> None:
        for _ in range(3):
            passed.append(penstock.run(str(name), reading=reading).passed)

    threads = [
        threading.Thread(target=work, args=each, daemon=True) for each in ((nested, "clear"), (alone, "openfhe"))
    ]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(60)
    assert passed == [True] * 6
