"""What tests of benchmarks put in the place of a context with keys, and of a signal."""

from __future__ import annotations

from pathlib import Path
from typing import Any


class Killed(BaseException):
    """Stands for a signal: nothing catches it."""


class FakeStore:
    """A context and its keys, without either."""

    setup_s = 0.25

    def __init__(self, root: Path, params: Any, *, warn: Any) -> None:
        self.params = params

    def __enter__(self) -> FakeStore:
        return self

    def __exit__(self, *_: object) -> None:
        pass
