"""The collector of cycles is paused while a trace is made, and on again afterwards."""

from __future__ import annotations

import gc
from threading import Thread

import pytest

from penstock.base.system.collector import collector_paused
from penstock.program.evaluator.symbolic import SymbolicEvaluator
from penstock.program.running import trace_workload


def test_the_collector_is_paused_inside_and_on_again_after_the_outermost_pause() -> None:
    with collector_paused():
        with collector_paused():
            assert not gc.isenabled()
        assert not gc.isenabled()
    assert gc.isenabled()


def test_another_threads_pause_is_not_cut_short() -> None:
    seen = []
    outer = collector_paused()
    outer.__enter__()

    def inner() -> None:
        with collector_paused():
            seen.append(gc.isenabled())

    thread = Thread(target=inner)
    thread.start()
    thread.join(timeout=10)
    seen.append(gc.isenabled())
    outer.__exit__(None, None, None)
    assert seen == [False, False]
    assert gc.isenabled()


def test_a_collector_that_was_off_stays_off() -> None:
    gc.disable()
    try:
        with collector_paused():
            pass
        assert not gc.isenabled()
    finally:
        gc.enable()


def test_an_error_inside_ends_the_pause() -> None:
    with pytest.raises(ZeroDivisionError), collector_paused():
        raise ZeroDivisionError
    assert gc.isenabled()


def test_a_trace_is_made_without_the_collector(monkeypatch: pytest.MonkeyPatch) -> None:
    seen: list[bool] = []
    rotate = SymbolicEvaluator.rotate
    monkeypatch.setattr(
        SymbolicEvaluator, "rotate", lambda ev, a, step: (seen.append(gc.isenabled()), rotate(ev, a, step))[1]
    )
    trace_workload("inner-product", size="ci")
    assert seen
    assert not any(seen)
    assert gc.isenabled()
