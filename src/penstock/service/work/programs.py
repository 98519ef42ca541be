"""Packages as workers run them: parameter set, keys, and the compiled tasks.

The front examines packages with `plan_program` too, so that clients make the keys that the workers will use.
"""

from __future__ import annotations

from collections.abc import Hashable
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path

import numpy as np

from penstock import _engine
from penstock.errors import KeyMissing, KeyRefused, UsageError
from penstock.program.package.content import Package, Verb
from penstock.program.package.derive import derive
from penstock.program.package.file import open_package
from penstock.program.package.replay import run_package, trace_package
from penstock.runtime.keystore import KeyName, KeyStore, parameter_digest
from penstock.runtime.native.compiled import Compiled, compile_program
from penstock.runtime.native.lanes import Lanes, choose_lanes
from penstock.runtime.native.plans import choose_plan, nominal_s
from penstock.scheme.params.ckks import CkksParameters
from penstock.scheme.traces.schema import Trace, TraceMeta
from penstock.scheme.work.shapes import Objects, server_rows, shape_work, shapes_of


@dataclass(frozen=True, kw_only=True)
class Planned:
    """A package with the plan of its refreshes."""

    package: Package
    trace: Trace

    @property
    def params(self) -> CkksParameters:
        """The set that it runs on."""
        return self.package.params

    @cached_property
    def digest(self) -> str:
        """Of its parameters, as the key store names keys."""
        return parameter_digest(self.params)

    @cached_property
    def inputs(self) -> tuple[str, ...]:
        """Names in the order in which the program encrypts."""
        return self._named(Verb.ENCRYPT, [vector.name for vector in self.package.inputs])

    @cached_property
    def outputs(self) -> tuple[str, ...]:
        """Names in the order in which the program decrypts."""
        return self._named(Verb.OUTPUT, [vector.name for vector in self.package.outputs])

    def _named(self, verb: Verb, names: list[str]) -> tuple[str, ...]:
        return tuple(names[call.argument] for call in self.package.instructions if call.verb is verb)

    @cached_property
    def keys(self) -> dict[str, int]:
        """Evaluation key -> limbs of its highest use."""
        return dict(self.trace.view().key_limbs())

    @cached_property
    def needs(self) -> dict[str, int]:
        """Evaluation key -> the bytes of it that a job has in memory at most."""
        return {key: self.params.key_bytes(limbs, key=key) for key, limbs in self.keys.items()}

    @property
    def key_bytes(self) -> int:
        """Of all keys, up to their highest use."""
        return sum(self.needs.values())

    @cached_property
    def compute_s(self) -> float:
        """On one nominal core, keys in memory."""
        rows = shapes_of(server_rows(self.trace.view().operations), Objects(self.trace, self.params))
        counted = zip(rows.distinct, rows.counts.tolist(), strict=True)
        return sum(nominal_s(shape_work(shape, self.params)) * count for shape, count in counted)


def plan_program(path: Path, key_budget_bytes: int) -> Planned:
    """A package file, with the plan of refreshes that costs least under a budget of keys.

    Raises: PackageError: no package, or a damaged one. UsageError: the budget does not hold one key of it.
    """
    package = open_package(path)
    choice = choose_plan(
        package.params, lambda params: trace_package(derive(package, params)), budget_bytes=key_budget_bytes
    )
    return Planned(package=derive(package, choice.plan.params), trace=choice.plan.trace)


@dataclass(frozen=True, kw_only=True)
class WorkerProgram(Planned):
    """A compiled package. Many jobs may run it at once."""

    compiled: Compiled
    lanes: Lanes


def parameter_name(params: CkksParameters) -> Hashable:
    """The name of a set's evaluator. Sets of one digest may share keys, and yet scale otherwise."""
    return parameter_digest(params), params.scaling, params.scale_bits


def compile_planned(planned: Planned, context: _engine.CkksContext, threads: int) -> WorkerProgram:
    """The tasks of a planned package. Raises: UsageError: it makes an output twice."""
    package, params = planned.package, planned.params
    blank = {vector.name: np.zeros(vector.length) for vector in package.inputs}
    compiled, _, builder = compile_program(lambda ev: run_package(ev, package, blank), params, context)
    trace = builder.finish(TraceMeta(workload=package.name, params=params.to_dict(), reading="native"))
    if len(set(planned.outputs)) < len(planned.outputs):
        raise UsageError(f"'{package.name}' makes an output twice: a service gives each once")
    lanes = choose_lanes(compiled, trace, threads, keys_in_order=True)
    return WorkerProgram(package=package, trace=planned.trace, compiled=compiled, lanes=lanes)


def names_of(
    store: KeyStore, tenant: str, program: WorkerProgram, secret_tag: str | None
) -> tuple[dict[str, KeyName], list[str]]:
    """The names of a program's keys in a store, and in words the keys that are lacking or have too few limbs.

    Raises: KeyRefused: a key is of another secret key than `secret_tag`.
    """
    keys = {*program.keys, *program.compiled.keys}
    names = {key: store.name_for(tenant, program.digest, key, secret_tag=secret_tag) for key in keys}
    lacking = []
    for key, wanted in sorted(program.keys.items()):
        try:
            stored = store.key(names[key])
        except KeyMissing:
            lacking.append(key)
            continue
        if secret_tag is not None and stored.secret_tag != secret_tag:
            raise KeyRefused(
                f"key {key} of tenant '{tenant}' is of another secret key ({stored.secret_tag}) than the "
                f"job ({secret_tag}): upload the keys of that pair, or encrypt with the other one"
            )
        if stored.limbs < wanted:
            lacking.append(f"{key} (it has {stored.limbs} limbs, and {wanted} are needed)")
    return names, lacking
