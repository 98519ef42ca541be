"""Arguments by name: a wrong one is refused with the nearest right one, as the command line refuses an option."""

from __future__ import annotations

import functools
import inspect
from collections.abc import Callable, Collection
from typing import ParamSpec, TypeVar

from penstock.errors import UnknownName

Takes = ParamSpec("Takes")
Gives = TypeVar("Gives")


class UnknownArgument(UnknownName, TypeError):
    """An argument that a function does not take."""


def names_arguments(function: Callable[Takes, Gives]) -> Callable[Takes, Gives]:
    """The same function, which refuses an argument that it does not take with the nearest that it does."""
    known = {
        name
        for name, parameter in inspect.signature(function).parameters.items()
        if parameter.kind not in (parameter.POSITIONAL_ONLY, parameter.VAR_POSITIONAL)
    }

    @functools.wraps(function)
    def called(*arguments: Takes.args, **named: Takes.kwargs) -> Gives:
        for name in named:
            if name not in known:
                _check_word(name, known)
                raise UnknownArgument(f"argument of penstock.{function.__name__}", name, known)
        return function(*arguments, **named)

    return called


def _check_word(name: str, known: Collection[str]) -> None:
    """Raises: UsageError: a word of a question that only other front ends take, where the function takes words."""
    from penstock.lab.simulation.words import ARGUMENTS

    if {ARGUMENTS(word.name) for word in ARGUMENTS.taken()} <= set(known):
        ARGUMENTS.check(name)
