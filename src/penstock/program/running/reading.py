"""The common part of all readings: their description, the meaning of a user's words, and the output of an encrypted
run."""

from __future__ import annotations

import inspect
import platform
from collections.abc import Callable
from contextlib import AbstractContextManager
from dataclasses import dataclass, field
from typing import Any

from penstock.base.types import Row
from penstock.base.version import __version__
from penstock.program import workloads
from penstock.program.evaluator.protocol import Evaluator
from penstock.scheme.params import catalogue
from penstock.scheme.params.ckks import CkksParameters
from penstock.scheme.traces.schema import Trace, TraceMeta


@dataclass(frozen=True, slots=True, kw_only=True)
class Reading:
    """One meaning of a program: the treatment of its calls, its needs, and its name on the command line."""

    name: str
    meaning: str
    """What a call does, in a few words."""
    returns: str
    """What `read` returns, in a few words."""
    library: bool = False
    """Whether it needs OpenFHE."""
    keys: bool = False
    """Whether it encrypts, and needs evaluation keys."""
    computes: bool = True
    """Whether decryption gives the program's values; else zeros."""
    records: bool = True
    """Whether its evaluator writes a trace."""
    expands: bool = False
    """Whether composites are only the operations of their circuits; else each also has a call."""
    verb: str
    """The verb of the command line that reads so."""
    read: Callable[..., Any]
    """`read(name, params=None, size=None, seed=0, data=None, **options)`, as of `trace_workload`."""
    evaluator: Callable[[CkksParameters, Trace], AbstractContextManager[Evaluator]]
    """An evaluator for one run of a program with the keys that its trace, by the `trace` reading, uses."""

    prepared: Callable[..., AbstractContextManager[Callable[..., Run]]] | None = None
    """`prepared(name, params, size, seed, data, threads=None)`: a program with its keys made, which each call runs.
    `None`: it encrypts nothing."""

    @property
    def options(self) -> frozenset[str]:
        """The keyword arguments of `read`."""
        taken = inspect.signature(self.read).parameters.values()
        return frozenset(parameter.name for parameter in taken if parameter.kind is inspect.Parameter.KEYWORD_ONLY)


@dataclass(frozen=True, slots=True, kw_only=True)
class Run:
    """One encrypted run: its results, its trace, and its cost."""

    result: Any
    trace: Trace
    wall_s: float
    """Seconds from the first encryption to the last decryption."""
    setup_s: dict[str, float] = field(default_factory=dict)
    encode_s: float = 0.0
    """Seconds spent on encoding vectors, including the encrypted ones."""
    key_load_s: float = 0.0
    """Seconds spent on loading rotation keys from disk, where they are paged."""
    num_key_loads: int = 0

    @property
    def server_s(self) -> float:
        """Seconds that the calls of the server's operations took, one after another: no encryption, no encoding, no
        loading of keys, nothing of the program between the calls."""
        table = self.trace.server_operations()
        starts, ends = table["start_s"].to_pylist(), table["end_s"].to_pylist()
        return sum(end - start for start, end in zip(starts, ends, strict=True) if start is not None)

    def own_numbers(self) -> Row:
        """What only this reading measures, as columns."""
        return {}


def describe(name: str, params: CkksParameters, reading: str, size: str, seed: int | None) -> TraceMeta:
    """The metadata of a trace that this process makes."""
    versions = {"penstock": __version__, "python": platform.python_version()}
    return TraceMeta(workload=name, params=params.to_dict(), reading=reading, size=size, seed=seed, versions=versions)


def resolve(name: str, params: str | CkksParameters | None, size: str | None) -> tuple[Any, str, CkksParameters]:
    """The workload, the name of its size and the parameters that a user's words mean."""
    workload = workloads.get(name)
    checked = catalogue.get(params) if isinstance(params, str) else params
    size_name = size or (workloads.implied_size(workload, checked) if checked is not None else workload.DEFAULT_SIZE)
    chosen = workloads.size_of(workload, size_name)
    asked = checked if checked is not None else catalogue.get(chosen.params)
    return workload, size_name, workloads.params_at(workload, asked)


def report_to(report: Callable[[int, int], None], total: int) -> Callable[[int], None]:
    """What a builder calls for each operation, to report `(done, total)`."""
    return lambda op_id: report(op_id + 1, total)
