"""Writes constants while the script goes on: a second thread computes digests and compresses."""

from __future__ import annotations

import os
from queue import Queue
from threading import Thread

from penstock.errors import PenstockError
from penstock.program.evaluator.protocol import Values
from penstock.program.package.content import ConstantSink

_MOST_WAITING = 64
"""Constants that wait. One more waits for room: memory is bounded."""


class Behind:
    """A sink that hands vectors to another one. `add` returns provisional numbers, and `settled` the final ones."""

    def __init__(self, sink: ConstantSink) -> None:
        self.sink = sink
        self._waiting: Queue[Values | None] = Queue(_MOST_WAITING)
        self._numbers: list[int] = []
        self._added = 0
        self._error: PenstockError | None = None
        self._process = os.getpid()
        self._writer = Thread(target=self._write, name="penstock-constants", daemon=True)
        self._writer.start()

    def add(self, values: Values) -> int:
        """Take a vector, which must not change from now on.

        Raises: PenstockError: an earlier one could not be written.
        """
        if self._error is not None:
            raise self._error
        # A process that the script forked has no writer, and makes no package.
        if os.getpid() == self._process:
            self._waiting.put(values)
        self._added += 1
        return self._added - 1

    def settled(self) -> list[int]:
        """The number of each vector, in the order of `add`; all of them are written.

        Raises: PenstockError: one could not be written.
        """
        self._waiting.join()
        if self._error is not None:
            raise self._error
        return self._numbers

    def __enter__(self) -> Behind:
        return self

    def __exit__(self, *_: object) -> None:
        if os.getpid() == self._process:
            self._waiting.put(None)
            self._writer.join()

    def _write(self) -> None:
        while (values := self._waiting.get()) is not None:
            try:
                if self._error is None:
                    self._numbers.append(self.sink.add(values))
            except PenstockError as error:
                self._error = error
            except Exception as error:
                self._error = PenstockError(f"a constant is not written: {type(error).__name__}: {error}")
            finally:
                self._waiting.task_done()
        self._waiting.task_done()
