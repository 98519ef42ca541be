"""The turn at OpenFHE: one thread at a time, and nobody waits for one that has ended."""

from __future__ import annotations

import threading
from collections.abc import Callable

import pytest

from penstock.openfhe.turn import Turn


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
