"""The work of the engine as methods, for tests and benchmarks: `Calls(context).rotate(a, element, key)`."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from typing import Any

from penstock import _engine

_VALUES = (_engine.CkksCiphertext, _engine.CkksDigits, _engine.CkksExtended)
_VECTORS = (_engine.CkksPlaintext, _engine.CkksCoefficients)


class Calls:
    """A context; names that it has not are work, whose arguments are told apart by their types.

    Engines before the table of operations had a method for each.
    """

    def __init__(self, context: _engine.CkksContext) -> None:
        self.context = context

    def __getattr__(self, name: str) -> Any:
        return getattr(self.context, name) if hasattr(self.context, name) else self._work(name)

    def weighted_sums_extended(self, terms: list[list[Any]], plains: list[Any], plus: list[Any]) -> list[Any]:
        if hasattr(self.context, "weighted_sums_extended"):
            return list(self.context.weighted_sums_extended(terms, plains, plus))
        assert not plus
        return self.context.perform("weighted_sums", list(_flat(terms)), argument=len(terms), vectors=plains)

    def _work(self, name: str) -> Callable[..., Any]:
        from penstock.scheme.operations import operations

        def call(*given: Any) -> Any:
            flat = list(_flat(given))
            takes_whole = operations()[name].argument != "none"
            numbers = [each for each in flat if isinstance(each, int | float)]
            keys = [each for each in flat if not isinstance(each, (*_VALUES, *_VECTORS, int, float))]
            (made,) = self.context.perform(
                name,
                [each for each in flat if isinstance(each, _VALUES)],
                argument=numbers[0] if takes_whole else None,  # type: ignore[arg-type]
                numbers=[] if takes_whole else numbers,
                key=keys[0] if keys else None,
                vectors=[each for each in flat if isinstance(each, _VECTORS)],
            )
            return made

        return call


def _flat(given: Iterable[Any]) -> Iterator[Any]:
    for each in given:
        if isinstance(each, list | tuple):
            yield from _flat(each)
        else:
            yield each
