"""Interrupts of a command: Ctrl-C, and SIGTERM, which counts as one."""

from __future__ import annotations

import signal
import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from types import FrameType

AGAIN_S = 0.005
"""Delay after which a lost interrupt is sent again: the code that swallowed it has ended by then."""


@contextmanager
def sigterm_as_interrupt() -> Iterator[None]:
    """SIGTERM (`docker stop`, Slurm) as Ctrl-C, once: the end that it brings is not cut short by another.

    Nothing changes in other threads than the main one, nor where somebody handles the signal already.
    """
    here = threading.current_thread() is threading.main_thread()
    if not here or signal.getsignal(signal.SIGTERM) is not signal.SIG_DFL:
        yield
        return
    signal.signal(signal.SIGTERM, _interrupt)
    try:
        yield
    finally:
        signal.signal(signal.SIGTERM, signal.SIG_DFL)


@contextmanager
def no_interrupt_lost() -> Iterator[None]:
    """An interrupt that comes where Python ignores errors (a weak reference's callback, a `__del__`) comes again.

    Nothing changes in other threads than the main one, nor where somebody uses SIGALRM.
    """
    alarm, hook = signal.getsignal(signal.SIGALRM), sys.unraisablehook
    here = threading.current_thread() is threading.main_thread()
    if not here or alarm is not signal.SIG_DFL:
        yield
        return

    def heard(ignored: sys.UnraisableHookArgs) -> None:
        if not issubclass(ignored.exc_type, KeyboardInterrupt):
            hook(ignored)
            return
        signal.signal(signal.SIGALRM, _interrupt)
        signal.setitimer(signal.ITIMER_REAL, AGAIN_S)

    sys.unraisablehook = heard
    try:
        yield
    finally:
        if sys.unraisablehook is heard:
            sys.unraisablehook = hook
        if signal.getsignal(signal.SIGALRM) is not alarm:
            signal.setitimer(signal.ITIMER_REAL, 0)
            signal.signal(signal.SIGALRM, alarm)


def end_at_interrupts() -> None:
    """From here on Ctrl-C ends the process at once, without a traceback: nothing but the interpreter's own end follows.

    Nothing changes in other threads than the main one, nor where somebody handles the signal already.
    """
    here = threading.current_thread() is threading.main_thread()
    if here and signal.getsignal(signal.SIGINT) is signal.default_int_handler:
        signal.signal(signal.SIGINT, signal.SIG_DFL)


def _interrupt(number: int, frame: FrameType | None) -> None:
    signal.signal(number, signal.SIG_IGN)
    raise KeyboardInterrupt
