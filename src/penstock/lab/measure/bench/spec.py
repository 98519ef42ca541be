"""Suites: which primitives, microbenchmarks and workloads run, over which axes, and the points that follow.

`SuiteSpec` is the TOML as a person writes it; `plan` checks it and gives the points in ascending complexity.
"""

from __future__ import annotations

import hashlib
import itertools
import json
import math
from collections.abc import Sequence
from dataclasses import dataclass, field, fields, replace
from functools import lru_cache
from importlib import resources
from pathlib import Path
from typing import Annotated, Literal

from pydantic import BaseModel, BeforeValidator, ConfigDict, Field

from penstock.base.system import toml
from penstock.base.system.host import available_cores
from penstock.base.types import Row, RowView
from penstock.base.units import parse_seconds
from penstock.errors import ParamsError, UnknownName, UsageError, check_known
from penstock.lab.fit.measurements import OPENFHE, READINGS
from penstock.lab.measure.bench.catalogue import PRIMITIVES, Primitive
from penstock.scheme.params import catalogue
from penstock.scheme.params.ckks import BootstrapPlan, CkksParameters
from penstock.scheme.params.rules import MAX_RING_DIM, MIN_RING_DIM
from penstock.scheme.params.spec import CkksSpec

GROUPS = ("primitives", "micro", "workloads")
"""In ascending order of complexity."""
CONDITIONS = ("warm", "cold", "cold-keys")
IN_TURNS = "turns"
MAX_THREADS = 4096
SMALLEST = "smallest"


def _several(value: object) -> object:
    """One value stands for a list of one."""
    return value if isinstance(value, list | tuple) else [value]


def _duration(value: object) -> float:
    if not isinstance(value, str):
        raise ValueError(f"{value!r} is not a time with a unit: '500 ms'")
    return parse_seconds(value, "time")


Seconds = Annotated[float, BeforeValidator(_duration)]
Positive = Annotated[int, Field(ge=1, le=MAX_THREADS)]
Words = Annotated[tuple[str, ...], BeforeValidator(_several), Field(min_length=1)]
Counts = Annotated[tuple[Positive, ...], BeforeValidator(_several), Field(min_length=1)]
Numbers = Annotated[tuple[int | str, ...], BeforeValidator(_several), Field(min_length=1)]
Conditions = Annotated[tuple[Literal["warm", "cold", "cold-keys"], ...], BeforeValidator(_several), Field(min_length=1)]


class _SuiteTable(BaseModel):
    model_config = ConfigDict(extra="forbid", frozen=True)


class TimingSpec(_SuiteTable):
    """The repetitions of each point."""

    min_time: Seconds = 0.5
    """Cumulative time of the calls of one run."""
    runs: Positive = 5
    max_samples: Annotated[int, Field(ge=0, le=1_000_000)] = 1000
    """Times of single calls that are kept of each run."""


class PrimitivesSpec(_SuiteTable):
    """Primitives over the cross product of the axes, or at named parameter sets."""

    items: Words = ("all",)
    exclude: tuple[str, ...] = ()
    params: Words | None = None
    """Named sets or TOML files; then no axis of parameters may be given."""
    ring_dim: Numbers | None = ("2^13",)
    """Ring dimensions; "smallest" is the smallest at which the security level holds."""
    depth: Numbers | None = (10,)
    dnum: Numbers | None = None
    security: Numbers | None = ("none",)
    scale_bits: Numbers | None = (50,)
    first_mod_bits: Numbers | None = None
    slots: Numbers | None = None
    scaling: Words | None = ("fixed-manual",)
    secret: Words | None = None
    limbs: Numbers = ("fresh",)
    """Limbs left: numbers, "fresh", "last" (2) or "all"."""
    threads: Counts = (1,)
    across_operations: Counts = (1,)
    conditions: Conditions = ("warm",)
    chebyshev_degree: Annotated[int, Field(ge=1, le=200)] = 13
    timing: TimingSpec | None = None


class ProgramSpec(_SuiteTable):
    """A microbenchmark or a workload, at its named sizes."""

    workload: str
    sizes: Words = ("ci",)
    params: Words | None = None
    threads: Counts | None = None
    """Default: all cores of this process."""
    runs: Positive = 1
    optional: bool = False
    """Left out, with a note, where no such workload is registered."""


class SuiteSpec(_SuiteTable):
    """A whole sweep."""

    name: Annotated[str, Field(pattern=r"^[A-Za-z0-9][A-Za-z0-9._-]*$")] = "unnamed"
    description: str = ""
    order: Literal["blocks", "turns"] = "blocks"
    """`turns`: every point is run once before any is run again."""
    timing: TimingSpec = TimingSpec()
    primitives: tuple[PrimitivesSpec, ...] = ()
    micro: tuple[ProgramSpec, ...] = ()
    workloads: tuple[ProgramSpec, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class BenchPoint:
    """One thing to be measured. Everything that makes it another point is a field."""

    group: str
    item: str
    params: CkksParameters
    threads: int
    reading: str = OPENFHE
    """Who computes: one of `penstock.lab.fit.measurements.READINGS`."""
    across: int = 1
    condition: str = "warm"
    size: str | None = None
    limbs: int | None = None
    degree: int | None = None
    """Chebyshev degree."""
    runs: int
    min_time_s: float = 0.0
    max_samples: int = 0

    def identity(self) -> Row:
        """Plain types; the parameter set without its texts. OpenFHE, which older results do not name, is left out."""
        plain = {field.name: getattr(self, field.name) for field in fields(self)}
        if self.reading == OPENFHE:
            del plain["reading"]
        return plain | {"params": params_identity(self.params)}

    @property
    def key(self) -> str:
        """Stable name of the point, fit for a file: `rotate-1f0c…`."""
        return _key(self)

    def label(self) -> str:
        """For people: what distinguishes it, shortest first."""
        parts = (
            self.item,
            self.size,
            self.params.name,
            None if self.limbs is None else f"{self.limbs} limbs",
            f"{self.threads} thread{'s' if self.threads > 1 else ''}",
            f"x {self.across} operations" if self.across > 1 else None,
            self.condition if self.condition != "warm" else None,
            self.reading if self.reading != OPENFHE else None,
        )
        return ", ".join(part for part in parts if part is not None)


@lru_cache(maxsize=4096)
def _key(point: BenchPoint) -> str:
    text = json.dumps(point.identity(), sort_keys=True)
    return f"{point.item[:40].replace('_', '-')}-{hashlib.sha256(text.encode()).hexdigest()[:16]}"


@dataclass(slots=True, kw_only=True)
class SuitePlan:
    """The points of a suite, resolved."""

    suite: str
    points: list[BenchPoint]
    order: str = "blocks"
    skipped: list[dict[str, str]] = field(default_factory=list)
    """`{"what", "why"}` of combinations that the axes name and that cannot be."""


def params_identity(params: CkksParameters) -> Row:
    """The fields that make two sets the same for a measurement: not names, sources and notes."""
    record = params.to_dict()
    for name in ("name", "source", "assumed", "security_note", "security_bits"):
        record.pop(name)
    return record


# Reading.


def suite_names() -> list[str]:
    """The suites that come with penstock."""
    folder = resources.files("penstock.lab.measure").joinpath("suites")
    return sorted(f.name.removesuffix(".toml") for f in folder.iterdir() if f.name.endswith(".toml"))


def load_suite(name_or_path: str) -> SuiteSpec:
    """A suite by its name, or from a TOML file.

    Raises: UnknownName: no such suite or key; UsageError: no such file, not TOML, a value that does not fit.
    """
    if not (name_or_path.endswith(".toml") or "/" in name_or_path):
        check_known("suite", name_or_path, suite_names())
        file = resources.files("penstock.lab.measure").joinpath("suites").joinpath(f"{name_or_path}.toml")
        return parse_suite(file.read_text(encoding="utf-8"), name_or_path, f"suite '{name_or_path}'")
    path = Path(name_or_path)
    return parse_suite(path, path.stem, str(path))


def parse_suite(written: Path | str, name: str, where: str) -> SuiteSpec:
    """A suite from a TOML file or its text; `name` is used where it states none."""
    missing = f"suites that come with penstock: {', '.join(suite_names())}"
    data = toml.table(written, where, "a suite", missing=missing)
    return toml.checked(SuiteSpec, {"name": name, **data}, where)


# From a suite to its points.


def plan(
    suite: SuiteSpec,
    *,
    only: Sequence[str] = (),
    threads: Sequence[int] | None = None,
    across: Sequence[int] | None = None,
    reading: str = OPENFHE,
) -> SuitePlan:
    """The points of a suite in ascending complexity, and the omitted ones.

    Args:   only: groups or items to keep; threads, across: replacements for the suite's values; reading: who computes.
    Raises: UnknownName: an item, workload, size, reading or parameter set that does not exist; UsageError: nothing is
            left.
    """
    check_known("reading", reading, READINGS)
    gathered = _Gathered(suite=suite, threads=threads, across=across, reading=reading)
    for table in suite.primitives:
        gathered.add_primitives(table)
    for group, programs in (("micro", suite.micro), ("workloads", suite.workloads)):
        for program in programs:
            gathered.add_program(group, program)
    points, skipped = gathered.points, gathered.skipped
    if only:
        known = {*GROUPS, *PRIMITIVES, *(p.item for p in points)}
        for name in only:
            check_known("group or item", name, known)
        points = [p for p in points if p.group in only or p.item in only]
        skipped = [omitted for omitted in skipped if omitted["what"].partition(" ")[0] in only]
    points = [replace(p, reading=reading) for p in points]
    unique = list({p.key: p for p in points}.values())
    if not unique:
        why = f": {skipped[0]['what']}: {skipped[0]['why']}" if skipped else ""
        raise UsageError(f"suite '{suite.name}' has no point to measure{why}")
    return SuitePlan(suite=suite.name, points=sorted(unique, key=complexity), order=suite.order, skipped=skipped)


def complexity(point: BenchPoint) -> tuple[int | str, ...]:
    """Primitives, microbenchmarks, workloads; small rings and chains first; one parameter set after another."""
    params = point.params
    size = (params.ring_dim * (params.num_q + params.num_p), params.num_q, params.name)
    within = list(PRIMITIVES).index(point.item) if point.item in PRIMITIVES else 0
    return (
        GROUPS.index(point.group),
        *size,
        point.item if point.group != "primitives" else "",
        point.size or "",
        point.threads,
        point.across,
        CONDITIONS.index(point.condition),
        point.limbs or 0,
        within,
    )


MAX_COMBINATIONS = 100_000
"""Parameter sets of one table, before any is put aside."""
_AXES = (
    "ring_dim", "depth", "dnum", "security", "scale_bits", "first_mod_bits", "slots", "scaling", "secret",
)  # fmt: skip


@dataclass(slots=True, kw_only=True)
class _Gathered:
    """The points of a suite while its tables are read."""

    suite: SuiteSpec
    threads: Sequence[int] | None
    across: Sequence[int] | None
    reading: str
    points: list[BenchPoint] = field(default_factory=list)
    skipped: list[dict[str, str]] = field(default_factory=list)

    def _skip(self, what: str, why: str, *, once: bool = False) -> None:
        omitted = {"what": what, "why": why}
        if not (once and omitted in self.skipped):
            self.skipped.append(omitted)

    def add_primitives(self, table: PrimitivesSpec) -> None:
        """The points of one table of primitives."""
        timing = table.timing or self.suite.timing
        asked_for_all = "all" in table.items
        names = [n for n, p in PRIMITIVES.items() if p.records is None] if asked_for_all else list(table.items)
        for name in (*names, *table.exclude):
            if name not in PRIMITIVES:
                raise UnknownName("primitive", name, [*PRIMITIVES, "all"])
        chosen = [PRIMITIVES[name] for name in dict.fromkeys(names) if name not in table.exclude]
        for params in self._sets(table):
            for primitive in chosen:
                why = primitive.unsuitable(params)
                if why is not None:
                    if not asked_for_all:
                        self._skip(f"{primitive.name} at {params.name}", why)
                    continue
                limbs = self._limbs(table, primitive, params)
                conditions = [c for c in table.conditions if c in primitive.conditions]
                for left, count, parallel, condition in itertools.product(
                    limbs, self.threads or table.threads, self.across or table.across_operations, conditions
                ):
                    # Independent operations side by side have one thread each; the interpreter records one at a time.
                    if parallel > 1 and (count > 1 or condition != "warm" or primitive.records is not None):
                        continue
                    lacks = None if self.reading == OPENFHE else primitive.not_native(params, left, parallel, condition)
                    if lacks is not None:
                        self._skip(f"{primitive.name} ({condition}) at {params.name}", lacks, once=True)
                        continue
                    self.points.append(
                        BenchPoint(
                            group="primitives",
                            item=primitive.name,
                            params=params,
                            threads=count,
                            across=parallel,
                            condition=condition,
                            limbs=left,
                            degree=table.chebyshev_degree if primitive.uses_degree else None,
                            runs=timing.runs,
                            min_time_s=timing.min_time,
                            max_samples=timing.max_samples,
                        )
                    )

    def _sets(self, table: PrimitivesSpec) -> list[CkksParameters]:
        given = [name for name in _AXES if name in table.model_fields_set]
        if table.params is not None:
            if given:
                raise UsageError(
                    f"primitives: params names whole sets; leave {', '.join(given)} out, or leave params out"
                )
            sets = [catalogue.get(name) for name in table.params]
            for params in sets:
                if params.library != "openfhe":
                    raise ParamsError(
                        f"set '{params.name}' is for accelerators: it cannot be measured here; take another"
                    )
            return sets
        axes: dict[str, tuple[int | str, ...]] = {
            name: getattr(table, name) for name in _AXES if getattr(table, name) is not None
        }
        combinations = math.prod(len(values) for values in axes.values())
        if combinations > MAX_COMBINATIONS:
            raise UsageError(
                f"primitives: the axes have {combinations:,} combinations; at most {MAX_COMBINATIONS:,} are made: cut "
                "the suite into several"
            )
        of_identity: dict[str, CkksParameters] = {}
        for values in itertools.product(*axes.values()):
            wanted = dict(zip(axes, values, strict=True))
            what = ", ".join(f"{k} {v}" for k, v in wanted.items())
            try:
                params = _built(wanted)
            except UnknownName:
                raise
            except ParamsError as error:
                self._skip(what, str(error))
                continue
            of_identity.setdefault(json.dumps(params_identity(params), sort_keys=True), params)
        return list(of_identity.values())

    def _limbs(self, table: PrimitivesSpec, primitive: Primitive, params: CkksParameters) -> list[int | None]:
        lowest, highest = primitive.limbs(params, table.chebyshev_degree)
        if lowest > highest:
            degree = f" with degree {table.chebyshev_degree}" if primitive.uses_degree else ""
            why = f"it needs {lowest} limbs{degree}, and the set has {params.num_q}"
            self._skip(f"{primitive.name} at {params.name}", why)
            return []
        if primitive.one_level:
            return [highest]
        counts: list[int | None] = []
        for wanted in table.limbs:
            if wanted == "all":
                counts += range(highest, lowest - 1, -1)
            elif wanted in ("fresh", "last"):
                counts.append(highest if wanted == "fresh" else lowest)
            elif isinstance(wanted, str):
                raise UnknownName("limbs", wanted, ["all", "fresh", "last"])
            elif wanted < 1:
                raise UsageError(f"primitives: limbs {wanted}: a ciphertext has at least 1")
            elif lowest <= wanted <= highest:
                counts.append(wanted)
            else:
                why = f"it works with {lowest} to {highest} limbs there"
                self._skip(f"{primitive.name} at {params.name} with {wanted} limbs", why)
        return list(dict.fromkeys(counts))

    def add_program(self, group: str, table: ProgramSpec) -> None:
        """The points of one program."""
        from penstock.program import workloads
        from penstock.program.running.reading import resolve

        if workloads.is_file(table.workload):
            raise UsageError(
                f"{table.workload}: a suite runs penstock's own workloads, so that results can be compared; time a "
                f"program of your own with 'penstock run {table.workload}', or 'penstock analyze'"
            )
        if table.workload not in workloads.names() and table.optional:
            self._skip(table.workload, "no such workload is registered")
            return
        for size in table.sizes:
            for name in table.params or (None,):
                workload, size_name, params = resolve(table.workload, name, size)
                if params.library != "openfhe":
                    raise ParamsError(
                        f"{workload.NAME} at size '{size_name}' runs on accelerator set '{params.name}': it cannot be "
                        "measured here; name another size"
                    )
                for count in self.threads or table.threads or (available_cores(),):
                    self.points.append(
                        BenchPoint(
                            group=group,
                            item=workload.NAME,
                            size=size_name,
                            params=params,
                            threads=count,
                            runs=table.runs,
                        )
                    )


def _built(wanted: RowView) -> CkksParameters:
    values = dict(wanted)
    if values.get("dnum") == "default":
        del values["dnum"]
    if values["ring_dim"] != SMALLEST:
        return named(CkksSpec(name="bench", **values).build())
    if values["security"] == "none":
        raise ParamsError("ring_dim 'smallest' needs a security level: without one every ring dimension holds")
    ring_dim, last = MIN_RING_DIM, ParamsError("no ring dimension")
    while ring_dim <= MAX_RING_DIM:
        try:
            return named(CkksSpec(name="bench", **{**values, "ring_dim": ring_dim}).build())
        except ParamsError as error:
            last = error
        ring_dim *= 2
    raise last


def named(params: CkksParameters) -> CkksParameters:
    """The set under a name that says its axes, and `insecure` where it is."""
    digest = hashlib.sha256(json.dumps(params_identity(params), sort_keys=True).encode()).hexdigest()[:4]
    name = f"bench-n{params.ring_dim.bit_length() - 1}-d{params.depth}-k{params.dnum}-{digest}"
    return replace(params, name=name if params.security_bits else f"{name}-insecure")


def bootstrap_plan(params: CkksParameters) -> BootstrapPlan:
    """The plan of a set that bootstraps.

    Raises: ParamsError: it does not.
    """
    if params.bootstrap is None:
        raise ParamsError(f"set '{params.name}' has no bootstrap plan; take one that has ('penstock params list')")
    return params.bootstrap
