"""The axes of a what-if study as a person writes them: `ring-dim=2^13,2^14`, or a TOML file of the same names."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Mapping
from pathlib import Path
from typing import TypeAlias

from penstock.base.system import toml
from penstock.errors import UnknownName, UsageError
from penstock.scheme.params.rlwe import KeyForm

NAMES = ("ring-dim", "depth", "dnum", "security", "key-form", "machine", "threads")
_SYNONYMS = {"digits": "dnum", "n": "ring-dim"}
_NUMBER = re.compile(r"^(?:2\s*(?:\^|\*\*)\s*(\d{1,2})|(\d{1,9}))$")
_RANGE = re.compile(r"^(\d{1,6})\s*\.\.\s*(\d{1,6})$")
MOST_VALUES = 100_000
AxisValue: TypeAlias = str | int | KeyForm | None


def read_axes(texts: Iterable[str]) -> dict[str, tuple[AxisValue, ...]]:
    """The arguments of `penstock.what_if` that `--what-if` names: texts `name=value,value,…`, or paths of TOML files.

    A number may be written `2^14`, a run of numbers `20..30`, a machine by name or as its file: `machine=mine.toml`.
    Raises: UnknownName: no such axis; UsageError: a value that it cannot have, an axis given twice.
    >>> read_axes(["ring-dim=2^13,2^14", "depth=8..10"])
    {'ring_dim': (8192, 16384), 'depth': (8, 9, 10)}
    """
    written: dict[str, list[str]] = {}
    for text in texts:
        of_file = text.endswith(".toml") and _key(text.partition("=")[0]) not in NAMES
        for name, values in (_from_file(Path(text)) if of_file else _from_text(text)).items():
            key = _key(name)
            if key not in NAMES:
                raise UnknownName("what-if axis", name, NAMES)
            if key in written:
                raise UsageError(f"--what-if names '{key}' twice: give all its values at once, '{key}=A,B'")
            if not values:
                raise UsageError(f"--what-if {key}: no value; write '{key}=A,B'")
            written[key] = list(dict.fromkeys(values))
    reads: dict[str, Callable[[str], AxisValue]] = {
        "security": _security,
        "key-form": KeyForm.named,
        "machine": str,
    }
    return {
        key.replace("-", "_"): tuple(map(reads[key], those))
        if key in reads
        else whole_numbers(those, f"--what-if {key}")
        for key, those in written.items()
    }


def _key(name: str) -> str:
    """The axis as `NAMES` has it."""
    plain = name.strip().replace("_", "-").lower()
    return _SYNONYMS.get(plain, plain)


def _from_text(text: str) -> Mapping[str, list[str]]:
    name, equals, values = text.partition("=")
    if not equals:
        raise UsageError(f"--what-if '{text}': write name=value,value (names: {', '.join(NAMES)}), or a .toml file")
    return {name.strip(): [value.strip() for value in values.split(",") if value.strip()]}


def _from_file(path: Path) -> Mapping[str, list[str]]:
    record = toml.table(path, str(path), "a what-if file")
    for name, value in record.items():
        if isinstance(value, Mapping):
            raise UsageError(f"{path}: '{name}' is a table; write a list of values, {name} = [...]")
    return {name: [str(v) for v in (value if isinstance(value, list) else [value])] for name, value in record.items()}


def whole_numbers(written: Iterable[str], option: str) -> tuple[int, ...]:
    """The numbers that `option` was given: `16384`, `2^14` or `8..12` each.

    Raises: UsageError: something else, or a run that goes down or has too many.
    >>> whole_numbers("2^3,10..12,8".split(","), "--dnum")
    (8, 10, 11, 12)
    """
    numbers: list[int] = []
    for text in written:
        run, number = _RANGE.match(text), _NUMBER.match(text)
        if run is not None:
            first, last = int(run.group(1)), int(run.group(2))
            if not first <= last < first + MOST_VALUES:
                raise UsageError(f"{option}: '{text}' is not a run from a smaller to a larger number")
            numbers += range(first, last + 1)
        elif number is not None:
            numbers.append(1 << int(number.group(1)) if number.group(1) else int(number.group(2)))
        else:
            raise UsageError(f"{option}: '{text}' is not a whole number; write 16384, 2^14 or 8..12")
    return tuple(dict.fromkeys(numbers))


def _security(text: str) -> int:
    if text not in ("none", "0", "128", "192", "256"):
        raise UnknownName("security level of --what-if", text, ("none", "128", "192", "256"))
    return 0 if text == "none" else int(text)
