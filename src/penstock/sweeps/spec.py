"""Sweep files as a person writes them: axes with one value or a list, for the whole file and for tables of it.

>>> sweep = parse_sweep('''
... workload = "logistic-regression"
... machine = ["sharp", "ark"]
... [[sweep]]
... tier = ["hbm", "3.5 GB/s"]
... ''', "example")
>>> sweep.tables[0].machine, sweep.tables[0].tier
(('sharp', 'ark'), ('hbm', '3.5 GB/s'))
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Any

from pydantic import BaseModel, BeforeValidator, ConfigDict, Field, StrictBool, StrictFloat, StrictInt, StrictStr

from penstock.errors import UsageError
from penstock.simulation.own import placed
from penstock.simulation.spelling import KEYS, check_together, check_used
from penstock.system import toml

TABLES = "sweep"
"""Name of the tables of a file: `[[sweep]]`."""
_ABOUT = ("name", "description")
_PLURALS = {
    "workloads": "workload", "sizes": "size", "parameters": "params", "machines": "machine", "tiers": "tier",
    "modes": "mode", "networks": "network", "topologies": "topology", "partitions": "partition", "caches": "cache",
    "policies": "policy", "hit_ratios": "hit_ratio", "key_forms": "key_form", "prefetches": "prefetch",
    "inclusions": "inclusion", "engines": "engine",
}  # fmt: skip


def _several(value: Any) -> Any:
    """One value stands for a list of one."""
    return value if isinstance(value, list | tuple) else [value]


Words = Annotated[tuple[StrictStr, ...], BeforeValidator(_several), Field(min_length=1)]
Counts = Annotated[tuple[Annotated[StrictInt, Field(ge=1)], ...], BeforeValidator(_several), Field(min_length=1)]
Ratios = Annotated[
    tuple[Annotated[StrictInt | StrictFloat, Field(ge=0, le=1)], ...], BeforeValidator(_several), Field(min_length=1)
]


class TableSpec(BaseModel):
    """A cross product: every field that is a list is an axis, one value is an axis of one."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    workload: Words | None = None
    """Workloads, or trace files (.parquet)."""
    size: Words | None = None
    """Default: the one that the parameters imply."""
    params: Words | None = None
    """Parameter sets; "native" is the machine's own. Default: the size's own."""
    seed: Annotated[int, Field(ge=0, strict=True)] = 0
    machine: Words | None = None
    key_form: Words | None = None
    """The form of stored and moved keys. Default: as the parameter set says."""
    classes: Words = ("keys",)
    """The classes that are not resident. No axis: the classes go together."""
    tier: Words | None = None
    """Default: the study's four."""
    decode: StrictStr | None = None
    """Rate of a decode stage behind the tier."""
    cache: Words | None = None
    """Sizes, or "on-chip"."""
    policy: Words | None = None
    """Of the caches. Default: lru."""
    hit_ratio: Ratios | None = None
    """A stated ratio instead of a cache; with caches too, it makes separate points."""
    levels: Words | None = None
    """Several memory levels instead of tier and cache, each a line or a file as in `simulate --levels`."""
    inclusion: Words | None = None
    """What levels know of each other. Default: as they say themselves."""
    beside: Words | None = Field(default=None, alias="with")
    """Programs that run on the machine at the same time. No axis: they run together."""
    interleave: StrictStr = "round-robin"
    write_back: StrictBool = False
    """Whether results that are read again from below are written there first. No axis."""
    mode: Words = ("serial",)
    prefetch: Words = ("next-1",)
    """Of mode overlap."""
    prefetch_buffer: StrictStr | None = None
    hosts: Counts = (1,)
    network: Words | None = None
    topology: Words = ("star",)
    partition: Words = ("rplp",)
    all_gather: StrictStr = "direct"
    broadcast: StrictStr = "scatter"
    engine: Words | None = None
    """What plays the messages between hosts. Default: penstock's own."""


@dataclass(frozen=True, slots=True, kw_only=True)
class SweepSpec:
    """A sweep file: each table with the file's own values where it states none."""

    name: str
    description: str
    tables: tuple[TableSpec, ...]


def load_sweep(path: Path) -> SweepSpec:
    """The sweep in a TOML file.

    Raises: UnknownName: no such key, with the nearest; UsageError: no such file, not TOML, a value that does not fit.
    """
    return parse_sweep(path, path.stem, str(path))


def parse_sweep(written: Path | str, name: str, where: str = "sweep") -> SweepSpec:
    """A sweep from a TOML file or its text; `name` is used where it states none."""
    return sweep_of(toml.table(written, where, "a sweep", missing="see examples/sweep.toml"), name, where)


def sweep_of(written: Mapping[str, Any], name: str, where: str = "sweep") -> SweepSpec:
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
        one = _checked({**common, **_singular(table, where, inside)}, where, inside)
        for axis in ("workload", "machine"):
            if getattr(one, axis) is None:
                raise UsageError(f'{where}: {inside}: name at least one {axis}: {axis} = ["…"]')
        with located(f"{where}: {inside}"):
            one = _placed(one)
            _check_together(one)
            if "sweep" in inside:
                _check_used(_singular(table, where, inside), [one])
        merged.append(one)
    with located(where):
        _check_used({key for table in merged for key in table.model_fields_set}, merged)
    return SweepSpec(name=about.get("name", name), description=about.get("description", ""), tables=tuple(merged))


@contextmanager
def located(where: str) -> Iterator[None]:
    """Errors of the body name the place."""
    try:
        yield
    except UsageError as error:
        raise UsageError(f"{where}: {error}") from error


def _placed(table: TableSpec) -> TableSpec:
    """The table with each file that is named as a policy where its part belongs."""
    found = placed(table.policy or ())
    if len(found["policy"]) == len(table.policy or ()):
        return table
    changed: dict[str, Any] = {"policy": tuple(found["policy"]) or None}
    if found["prefetch"]:
        named = table.prefetch if "prefetch" in table.model_fields_set else ()
        changed["prefetch"] = (*named, *found["prefetch"])
    if found["interleave"]:
        changed["interleave"] = found["interleave"][0]
    return table.model_copy(update=changed)


def _check_used(written: Collection[str], tables: Sequence[TableSpec]) -> None:
    """A key that changes no point of these tables is a slip."""
    overlapping = [table for table in tables if "overlap" in table.mode]
    check_used(
        written,
        KEYS,
        modes=[mode for table in tables for mode in table.mode],
        beside=any(t.beside for t in tables),
        prefetches=[text for table in overlapping for text in table.prefetch],
    )


def _check_together(table: TableSpec) -> None:
    """What does not go together in a table."""
    fields = TableSpec.model_fields.items()
    check_together(
        {name for name, field in fields if getattr(table, name) != field.default},
        KEYS,
        hit_ratio=any(table.hit_ratio or ()),
        ciphertexts="ciphertexts" in table.classes,
    )


def _singular(table: Mapping[str, Any], where: str, inside: str) -> dict[str, Any]:
    """`workloads` and `workload` are the same axis."""
    found: dict[str, Any] = {}
    written: dict[str, str] = {}
    for key, value in table.items():
        if key == "simgrid":
            raise UsageError(f'{where}: {inside}: simgrid is an engine: write engine = ["penstock", "simgrid"]')
        name = _PLURALS.get(key, key)
        if name in found:
            both = f"('{written[name]}' and '{key}')"
            raise UsageError(f"{where}: {inside}: {name} is given twice {both}: keep one")
        found[name], written[name] = value, key
    return found


def _checked(table: Mapping[str, Any], where: str, inside: str) -> TableSpec:
    return toml.checked(TableSpec, table, f"{where}: {inside}", also=(*_ABOUT, TABLES))
