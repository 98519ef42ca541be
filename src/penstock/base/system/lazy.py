"""Names of a package that are imported when they are first used."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from importlib import import_module
from sys import modules
from typing import Any


def at_first_use(
    package: str, places: Mapping[str, str], known: tuple[str, ...] = ()
) -> tuple[Callable[[str], Any], Callable[[], list[str]]]:
    """`__getattr__` and `__dir__` of a package.

    Args:   places: module -> its names that the package has, parted by spaces. known: names that it has besides.
    """
    place_of = {name: module for module, names in places.items() for name in names.split()}

    def get(name: str) -> Any:
        if name not in place_of:
            raise AttributeError(f"module '{package}' has no attribute '{name}'")
        member = getattr(import_module(place_of[name]), name)
        setattr(modules[package], name, member)
        return member

    return get, lambda: sorted([*known, *place_of])
