"""Sweep files as a person writes them: axes with one value or a list, for the whole file and for tables of it.

>>> sweep = parse_sweep('''
... workload = "logistic-regression"
... machine = ["sharp", "ark"]
... [[sweep]]
... tier = ["hbm", "3.5 GB/s"]
... ''', "example")
>>> sweep.tables[0].words.machine, sweep.tables[0].words.tier
(('sharp', 'ark'), ('hbm', '3.5 GB/s'))
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Any

from pydantic import (
    BaseModel,
    BeforeValidator,
    ConfigDict,
    Field,
    StrictBool,
    StrictFloat,
    StrictInt,
    StrictStr,
    create_model,
)

from penstock.base.system import toml
from penstock.base.types import Row, RowView
from penstock.errors import UsageError
from penstock.lab.simulation.words import KEYS, WORDS, QuestionWord, Words, check_together, check_used
from penstock.scheme.play.own import placed

TABLES = "sweep"
"""Name of the tables of a file: `[[sweep]]`."""
_ABOUT = ("name", "description")


def _several(value: object) -> Sequence[object]:
    """One value stands for a list of one."""
    return value if isinstance(value, list | tuple) else [value]


Texts = Annotated[tuple[StrictStr, ...], BeforeValidator(_several), Field(min_length=1)]
Counts = Annotated[tuple[Annotated[StrictInt, Field(ge=1)], ...], BeforeValidator(_several), Field(min_length=1)]
Ratios = Annotated[
    tuple[Annotated[StrictInt | StrictFloat, Field(ge=0, le=1)], ...], BeforeValidator(_several), Field(min_length=1)
]
_ONE = {"flag": StrictBool, "text": StrictStr}
_MANY = {"text": Texts, "list": Texts, "counts": Counts, "number": Ratios}
_USUAL = {"prefetch": ("next-1",), "hosts": (1,), "tier": None}
"""Words whose usual value a file has otherwise."""


def _field(word: QuestionWord) -> Any:
    """The type of a word in a file, and its usual value there."""
    usual = _USUAL.get(word.name, word.usual)
    if word.axis or word.swept or word.several or word.takes == "list":
        usual = tuple(_several(usual)) if usual else None
        return _MANY[word.takes] | None, Field(default=usual, alias=KEYS(word.name))
    return _ONE[word.takes] | None, Field(default=usual, alias=KEYS(word.name))


_Written = create_model(
    "_Written",
    __config__=ConfigDict(extra="forbid", frozen=True),
    workload=(Texts | None, None),
    size=(Texts | None, None),
    params=(Texts | None, None),
    seed=(Annotated[int, Field(ge=0, strict=True)], 0),
    **{word.name: _field(word) for word in KEYS.taken()},
)
"""A table of a file: the program, and every word that a sweep takes."""
_PROGRAM = ("workload", "size", "params", "seed")
_OWN = (*_PROGRAM, *_ABOUT, TABLES)
"""The keys besides the words of a question."""
_PLURALS = {
    "workloads": "workload", "sizes": "size", "parameters": "params", "policies": "policy", "topologies": "topology",
    "prefetches": "prefetch", **{f"{word.name}s": word.name for word in KEYS.taken() if word.axis or word.swept},
}  # fmt: skip


@dataclass(frozen=True, slots=True, kw_only=True)
class SweepTable:
    """A cross product: every word with several values is an axis."""

    workload: tuple[str, ...]
    """Workloads, or trace files (.parquet)."""
    size: tuple[str, ...]
    """Empty: the one that the parameters imply."""
    params: tuple[str, ...]
    """Parameter sets; "native" is the machine's own. Empty: the size's own."""
    seed: int
    words: Words
    hosts: tuple[int, ...]
    given: frozenset[str]
    """Words whose values are not the usual ones."""
    stated: frozenset[str]
    """Words that the file says, also where the value is the usual one."""
    written: RowView
    """What the file says, with usual values, for the configuration of a run folder."""

    @classmethod
    def of(cls, model: BaseModel) -> SweepTable:
        """The table of a checked one."""
        stated_keys = {name: value for name, value in model if value is not None}
        hosts = stated_keys["hosts"]
        words = {name: value for name, value in stated_keys.items() if name in WORDS}
        usual = type(model).model_fields
        return cls(
            **{name: stated_keys.get(name, ()) for name in _PROGRAM},
            words=Words(**words | {"hosts": ",".join(map(str, hosts))}),
            hosts=hosts,
            given=frozenset(name for name, value in words.items() if value != usual[name].default),
            stated=frozenset(model.model_fields_set),
            written=model.model_dump(mode="json", exclude_none=True),
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class SweepSpec:
    """A sweep file: each table with the file's own values where it states none."""

    name: str
    description: str
    tables: tuple[SweepTable, ...]


def load_sweep(path: Path) -> SweepSpec:
    """The sweep in a TOML file.

    Raises: UnknownName: no such key, with the nearest; UsageError: no such file, not TOML, a value that does not fit.
    """
    return parse_sweep(path, path.stem, str(path))


def parse_sweep(written: Path | str, name: str, where: str = "sweep") -> SweepSpec:
    """A sweep from a TOML file or its text; `name` is used where it states none."""
    return sweep_of(toml.table(written, where, "a sweep", missing="see examples/sweep.toml"), name, where)


def sweep_of(written: RowView, name: str, where: str = "sweep") -> SweepSpec:
    """A sweep from the keys and values of a file.

    Raises: as `load_sweep`.
    """
    data = dict(written)
    about = {key: data.pop(key) for key in _ABOUT if key in data}
    for key, value in about.items():
        if not isinstance(value, str):
            raise UsageError(f"{where}: {key}: write a text (it is {value!r})")
    tables = data.pop(TABLES, None)
    if tables is None:
        tables = [{}]
    if not isinstance(tables, list) or not tables or not all(isinstance(table, dict) for table in tables):
        raise UsageError(f"{where}: {TABLES}: write tables, each under a line [[{TABLES}]]")
    common = _singular(data, where, "the file")
    _checked(common, where, "the file")
    merged = []
    for i, table in enumerate(tables):
        inside = f"[[{TABLES}]] {i + 1}" if len(tables) > 1 or table else "the file"
        own = _singular(table, where, inside)
        model = _checked({**common, **own}, where, inside)
        for axis in ("workload", "machine"):
            if getattr(model, axis) is None:
                raise UsageError(f'{where}: {inside}: name at least one {axis}: {axis} = ["…"]')
        with located(f"{where}: {inside}"):
            one = _placed(model)
            words = one.words
            check_together(one.given, KEYS, hit_ratio=any(words.hit_ratio), ciphertexts="ciphertexts" in words.classes)
            if "sweep" in inside:
                _check_used({KEYS.field(key, _PROGRAM) for key in own}, [one])
        merged.append(one)
    with located(where):
        _check_used({name for table in merged for name in table.stated}, merged)
    return SweepSpec(name=about.get("name", name), description=about.get("description", ""), tables=tuple(merged))


@contextmanager
def located(where: str) -> Iterator[None]:
    """Errors of the body name the place."""
    try:
        yield
    except UsageError as error:
        raise UsageError(f"{where}: {error}") from error


def _placed(model: BaseModel) -> SweepTable:
    """The table, with each file that is named as a policy where its part belongs."""
    stated: Row = dict(model)
    policies = stated["policy"] or ()
    parts = placed(policies)
    if len(parts["policy"]) == len(policies):
        return SweepTable.of(model)
    changed: Row = {"policy": tuple(parts["policy"]) or None}
    if parts["prefetch"]:
        named = stated["prefetch"] if "prefetch" in model.model_fields_set else ()
        changed["prefetch"] = (*named, *parts["prefetch"])
    if parts["interleave"]:
        changed["interleave"] = parts["interleave"][0]
    return SweepTable.of(model.model_copy(update=changed))


def _check_used(written: Collection[str], tables: Sequence[SweepTable]) -> None:
    """A key that changes no point of these tables is a slip."""
    check_used(
        written,
        KEYS,
        modes=[mode for table in tables for mode in table.words.mode],
        beside=any(table.words.beside for table in tables),
        prefetches=[text for table in tables if "overlap" in table.words.mode for text in table.words.prefetch],
    )


def _singular(table: RowView, where: str, inside: str) -> Row:
    """`workloads` and `workload` are the same axis."""
    singular: Row = {}
    written: dict[str, str] = {}
    for key, value in table.items():
        name = _PLURALS.get(key, key)
        KEYS.field(name, _OWN, where=f"{where}: {inside}")
        if name in singular:
            both = f"('{written[name]}' and '{key}')"
            raise UsageError(f"{where}: {inside}: {name} is given twice {both}: keep one")
        singular[name], written[name] = value, key
    return singular


def _checked(table: RowView, where: str, inside: str) -> BaseModel:
    return toml.checked(_Written, table, f"{where}: {inside}", also=_OWN)
