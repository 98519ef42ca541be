"""Packages as workers run them: parameter set, keys, and the compiled tasks.

The front examines packages with `plan_program` too, so that clients make the keys that the workers will use.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path

from penstock import _engine
from penstock.base.units import WORD_BYTES
from penstock.errors import KeyMissing, KeyRefused, UsageError
from penstock.program.package.content import Package, Verb
from penstock.program.package.derive import derive
from penstock.program.package.file import open_package
from penstock.program.package.replay import blank_inputs, run_package, trace_package
from penstock.runtime.keystore import KeyName, KeyStore, parameter_digest
from penstock.runtime.native.compiled import KEPT_AUTOMORPHISMS, Compiled, CompilingEvaluator, compile_program
from penstock.runtime.native.lanes import Lanes, choose_lanes
from penstock.runtime.native.plans import choose_plan, nominal_s
from penstock.scheme.params.ckks import CkksParameters
from penstock.scheme.traces.schema import Trace, TraceMeta
from penstock.scheme.work.shapes import Objects, server_rows, shape_work, shapes_of

COMPILED_BYTES = 1600
"""Of an operation of a package while it is planned and compiled. Measured."""
VECTOR_BYTES = 150_000_000
"""Of a job's encoded vectors that are kept for their next use."""
_TASK_BYTES = 320
"""Of a task that waits for its next run: its own 88, its operands, its value's size, its use of a key. Measured."""
_ROWS = 64
"""Between two questions whether to go on: about a millisecond."""

GoOn = Callable[[], object]
"""Asked now and then; an error that it raises ends the work."""


def _nobody_asks() -> None:
    pass


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


def plan_program(path: Path, key_budget_bytes: int, go_on: GoOn = _nobody_asks) -> Planned:
    """A package file, with the plan of refreshes that costs least under a budget of keys.

    Raises: PackageError: no package, or a damaged one. UsageError: the budget does not hold one key of it. As `go_on`.
    """
    package = open_package(path)

    def asked(row: int) -> None:
        if not row % _ROWS:
            go_on()

    def traced(params: CkksParameters) -> Trace:
        go_on()
        return trace_package(derive(package, params), on_add=asked)

    choice = choose_plan(package.params, traced, budget_bytes=key_budget_bytes)
    return Planned(package=derive(package, choice.plan.params), trace=choice.plan.trace)


@dataclass(frozen=True, kw_only=True)
class WorkerProgram:
    """A compiled package without its instructions. Many jobs may run it at once."""

    name: str
    params: CkksParameters
    digest: str
    inputs: tuple[str, ...]
    outputs: tuple[str, ...]
    keys: dict[str, int]
    compiled: Compiled
    lanes: Lanes

    @cached_property
    def bytes(self) -> int:
        """In memory, between runs."""
        compiled = self.compiled
        vectors = 1000 * len(compiled.vectors) + 200 * len(compiled.encoded)
        return 100_000 + _TASK_BYTES * len(compiled.tasks) + vectors + 500 * len(self.keys)


def evaluator_bytes(params: CkksParameters, threads: int = 1, keys: int = 0) -> int:
    """Of an evaluator that has run jobs with so many keys, its dropped results aside.

    Measured: up to 8 words for each prime and coefficient, which are roots, their inverses and their factors. Of each
    coefficient 72 bytes are for encoding, and 5 for each permutation.
    """
    primes = 8 * WORD_BYTES * (params.num_q + params.num_p)
    per_coefficient = primes + 72 + 5 * min(keys, KEPT_AUTOMORPHISMS)
    return 400_000 + 100_000 * threads + params.ring_dim * per_coefficient


def job_bytes(planned: Planned, live_bytes: int) -> int:
    """The memory of a job, keys aside: values, evaluator, encoded vectors that it keeps, and compiling.

    Args:   live_bytes: of its ciphertexts at their most.
    """
    values = live_bytes * 9 // 8 + VECTOR_BYTES
    return values + evaluator_bytes(planned.params, keys=len(planned.keys)) + COMPILED_BYTES * len(planned.trace)


def parameter_name(params: CkksParameters) -> Hashable:
    """The name of a set's evaluator. Sets of one digest may share keys, and yet scale otherwise."""
    return parameter_digest(params), params.scaling, params.scale_bits


def check_runs(planned: Planned) -> None:
    """Raises: UsageError: it makes an output twice or not at all, or leaves an input unused. ParamsError: no keys can
    be of its set."""
    package = planned.package
    if len(set(planned.outputs)) < len(planned.outputs):
        raise UsageError(f"'{package.name}' makes an output twice: a service gives each once")
    for what, used, stated in (
        ("uses the inputs", planned.inputs, package.inputs),
        ("makes the outputs", planned.outputs, package.outputs),
    ):
        if set(used) != {vector.name for vector in stated}:
            raise UsageError(f"'{package.name}' {what} {list(used)}, and states {[vector.name for vector in stated]}")
    parameter_digest(planned.params)


def compile_planned(
    planned: Planned, context: _engine.CkksContext, threads: int, go_on: GoOn = _nobody_asks
) -> WorkerProgram:
    """The tasks of a planned package. Raises: UsageError: it makes an output twice. As `go_on`."""
    package, params, inputs, outputs = planned.package, planned.params, planned.inputs, planned.outputs
    check_runs(planned)

    def program(ev: CompilingEvaluator) -> None:
        note = ev.builder.on_add
        assert note is not None

        def noted(row: int) -> None:
            note(row)
            if not row % _ROWS:
                go_on()

        ev.builder.on_add = noted
        run_package(ev, package, blank_inputs(package.inputs))

    compiled, _, builder = compile_program(program, params, context)
    trace = builder.finish(TraceMeta(workload=package.name, params=params.to_dict(), reading="native"))
    lanes = choose_lanes(compiled, trace, threads, keys_in_order=True)
    return WorkerProgram(
        name=package.name,
        params=params,
        digest=planned.digest,
        inputs=inputs,
        outputs=outputs,
        keys=planned.keys,
        compiled=compiled.slimmed(),
        lanes=lanes,
    )


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
