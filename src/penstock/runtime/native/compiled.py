"""A program compiled for the native evaluator: all calls of a run as one list of tasks, before anything is computed.

The program runs once on an engine that only notes its calls. States of ciphertexts follow the scaling rules, so that
a run that computes has the same circuits, plans of refreshes and rotations.
"""

from __future__ import annotations

from array import array
from bisect import bisect_left, insort
from collections import Counter, OrderedDict
from collections.abc import Callable, Iterable, Iterator, MutableSequence, Sequence
from dataclasses import dataclass, field
from typing import TypeAlias, TypeVar

import numpy as np

from penstock import _engine
from penstock.program.evaluator.call import Call, Cipher, Executed
from penstock.program.evaluator.imaginary import ComplexValues
from penstock.program.evaluator.protocol import Plain, Values
from penstock.program.evaluator.scaling import ScaleState
from penstock.runtime.native.evaluator import ExecutingEvaluator
from penstock.runtime.native.work import VectorEncoding, Work, WorkExecutor
from penstock.scheme.operations import RELIN_KEY, TRAITS, OpKind
from penstock.scheme.params.ckks import CkksParameters
from penstock.scheme.traces.builder import TraceBuilder

MOST_LARGER = 4
KEPT_AUTOMORPHISMS = 128
"""Permutations that the engine keeps."""


class ArenaModel:
    """The engine's memory for rows, as a model: how much a program holds in use and kept, by capacity in bytes.

    The twin of `penstock_ckks::buffer::Arena`, without the memory: a row goes into the smallest kept one that holds it
    and is at most four times as large; of too many kept rows the oldest leaves.
    """

    def __init__(self, keep_bytes: int) -> None:
        self.held_bytes = 0
        """In use and kept."""
        self.most_bytes = 0
        self._keep_bytes = keep_bytes
        self._kept_bytes = 0
        self._by_size: list[tuple[int, int]] = []
        """Capacity and number of each kept row, sorted."""
        self._by_age: OrderedDict[int, int] = OrderedDict()
        """Number -> capacity of each kept row, the oldest first."""
        self._count = 0

    def take(self, sizes: Iterable[int]) -> list[int]:
        """Rows of these bytes; their capacities."""
        taken = []
        for size in sizes:
            place = bisect_left(self._by_size, (size, 0))
            if place < len(self._by_size) and self._by_size[place][0] <= MOST_LARGER * size:
                capacity, number = self._by_size.pop(place)
                del self._by_age[number]
                self._kept_bytes -= capacity
            else:
                capacity = size
                self.held_bytes += size
            taken.append(capacity)
        self.most_bytes = max(self.most_bytes, self.held_bytes)
        return taken

    def give(self, capacities: Iterable[int]) -> None:
        """Rows that are dropped."""
        for capacity in capacities:
            if capacity > self._keep_bytes:
                self.held_bytes -= capacity
                continue
            self._count += 1
            insort(self._by_size, (capacity, self._count))
            self._by_age[self._count] = capacity
            self._kept_bytes += capacity
            while self._kept_bytes > self._keep_bytes:
                number, oldest = self._by_age.popitem(last=False)
                del self._by_size[bisect_left(self._by_size, (oldest, number))]
                self._kept_bytes -= oldest
                self.held_bytes -= oldest


Returned = TypeVar("Returned")
Encoded: TypeAlias = tuple[int, int, int, bool]
"""An encoded vector: its number, limbs, degree, and whether it is over Q and P."""


@dataclass(slots=True)
class Compiled:
    """The tasks of one program at one parameter set."""

    params: CkksParameters
    tasks: _engine.CkksProgram = field(default_factory=_engine.CkksProgram)
    keys: list[str] = field(default_factory=list)
    """Names of the evaluation keys, by number."""
    key_uses: list[tuple[str, int]] = field(default_factory=list)
    """Key and limbs of each key switch, in order."""
    vectors: list[Plain] = field(default_factory=list)
    inputs: list[Values] = field(default_factory=list)
    """(slots,) each, in the order in which they are encrypted."""
    outputs: list[Values] = field(default_factory=list)
    """(slots,) each: zeros, which the run replaces in place."""
    row_tasks: list[int] = field(default_factory=list)
    """The task of each row of the trace; of an input's or output's, any."""
    key_tasks: MutableSequence[int] = field(default_factory=list)
    """The task of each key switch."""
    input_rows: list[int] = field(default_factory=list)
    """The row of each input's encryption."""
    output_rows: list[int] = field(default_factory=list)
    """The row of each output's decryption."""
    complex_values: ComplexValues = field(default_factory=ComplexValues)
    encoded: dict[Encoded, int] = field(default_factory=dict)
    """Encoded vector -> its uses."""

    def encoded_bytes(self, name: Encoded) -> int:
        """Of an encoded vector in memory."""
        _, limbs, _, is_coefficients = name
        return 8 * self.params.ring_dim * (1 if is_coefficients else limbs)

    most_vector_bytes: int = 0
    """Of the encoded vectors of one task."""
    scratch_rows: list[list[int]] = field(default_factory=list)
    """Of each task, bytes of each block of memory besides its operands and results."""
    value_rows: list[list[int]] = field(default_factory=list)
    """Of each value, bytes of each of its polynomials, or of its digits."""
    is_input: list[bool] = field(default_factory=list)
    """Of each task, whether it takes an input."""
    operands: list[tuple[int, ...]] = field(default_factory=list)
    """Of each task, the values that it takes."""
    makers: list[int] = field(default_factory=list)
    """Of each value, the task that makes it."""

    def graph(self) -> tuple[list[list[int]], list[int]]:
        """Of each task: the tasks that take its results, and the number of tasks that it waits for."""
        consumers: list[list[int]] = [[] for _ in self.operands]
        missing = []
        for task, values in enumerate(self.operands):
            makers = {self.makers[value] for value in values}
            missing.append(len(makers))
            for maker in makers:
                consumers[maker].append(task)
        return consumers, missing

    def held_bytes(self, keep_bytes: int) -> tuple[int, int, int]:
        """As `played_bytes`, where values end at their last use.

        Args:   keep_bytes: of dropped values, which the engine keeps for new ones.
        """
        return self.played_bytes(self._events(), keep_bytes)

    def _events(self) -> Iterator[int]:
        """Tasks, and the ends of values at their last uses: as `MeteredEngine.events`."""
        uses = Counter(value for values in self.operands for value in values)
        for task, values in enumerate(self.operands):
            yield task
            for value in values:
                uses[value] -= 1
                if not uses[value]:
                    yield ~value

    def played_bytes(self, events: Iterable[int], keep_bytes: int) -> tuple[int, int, int]:
        """The most bytes at one time: of values; of values, scratch and memory that waits for new ones together; and of
        all that with the inputs that wait for their use.

        Args:   events: the number of a task where it runs, the complement of a value's number where it ends.
        """
        most_all = waiting = self.params.ciphertext_bytes(self.params.num_q) * len(self.inputs)
        arena = ArenaModel(keep_bytes)
        rows: dict[int, list[int]] = {}
        live = most_live = made = 0
        for event in events:
            if event < 0:
                arena.give(rows.pop(~event))
                live -= sum(self.value_rows[~event])
                continue
            while made < len(self.makers) and self.makers[made] == event:
                rows[made] = arena.take(self.value_rows[made])
                live += sum(self.value_rows[made])
                made += 1
            most_live = max(most_live, live)
            scratch = arena.take(self.scratch_rows[event])
            most_all = max(most_all, arena.held_bytes + waiting)
            if self.is_input[event]:
                waiting -= sum(self.value_rows[made - 1])
            arena.give(scratch)
        return most_live, arena.most_bytes, most_all

    def slimmed(self) -> Compiled:
        """What a run takes of it, without what chooses lanes and budgets. Its results are not replaced in place."""
        uses = {use: use for use in self.key_uses}
        blank = np.zeros(0, dtype=np.complex128)
        return Compiled(
            self.params,
            tasks=self.tasks,
            keys=self.keys,
            key_uses=[uses[use] for use in self.key_uses],
            vectors=self.vectors,
            outputs=[blank] * len(self.outputs),
            # Numbers on their own would hold memory far and wide.
            key_tasks=array("q", self.key_tasks),
            encoded=self.encoded,
        )

    @property
    def table_bytes(self) -> int:
        """Of the permutations of its rotations, which the engine makes at their first use: 4 bytes a coefficient."""
        rotations = {key for key, _ in self.key_uses if key.startswith("rot")}
        return 4 * self.params.ring_dim * min(len(rotations), KEPT_AUTOMORPHISMS)

    @property
    def repeated_bytes(self) -> int:
        """Of all encoded vectors that are used more than once, and so are worth keeping."""
        return sum(self.encoded_bytes(name) for name, uses in self.encoded.items() if uses > 1)


@dataclass(slots=True)
class Awaited:
    """An input that is not in memory yet."""

    input: int
    rows: list[int]
    number: int | None = None
    """Of the value, once it is used."""


class CompilingEngine(WorkExecutor):
    """An engine that notes calls. A ciphertext's value is its number."""

    def __init__(self, params: CkksParameters, scale_at: Callable[[int], float]) -> None:
        super().__init__(params)
        self.compiled = Compiled(params)
        self.task = -1
        """The last task."""
        self._scale_at, self._automatic = scale_at, params.scaling.automatic
        self._key_numbers: dict[str, int] = {}
        self._vector_numbers: dict[int, int] = {}

    def scale_at(self, limbs: int) -> float:
        return self._scale_at(limbs)

    def perform(self, work: Work, calls: Sequence[Call]) -> list[Executed]:
        call = calls[0]
        key = None if call.key is None else (self._key_number(call.key), call.state.limbs)
        operands = [self.number_of(operand.value) for call in calls for operand in call.operands]
        vectors = [self._encoded(encoding) for encoding in work.vectors]
        sizes = [self._rows(call) for call in calls]
        number = self._add(work, operands, sizes, vectors, key)
        # In the order in which they are taken: operands and the product come before the switch of its key.
        for part in calls:
            self.compiled.scratch_rows[-1] += self._adjusted_rows(part)
        if call.key is not None:
            self._switched(call.key, call.state.limbs)
        return [Executed(call.state, number + at) for at, call in enumerate(calls)]

    # Tasks.
    def _key_number(self, key: str) -> int:
        number = self._key_numbers.get(key)
        if number is None:
            number = self._key_numbers[key] = len(self.compiled.keys)
            self.compiled.keys.append(key)
        return number

    def _switched(self, key: str, limbs: int) -> None:
        """The last task switches a key."""
        compiled, params = self.compiled, self.params
        compiled.key_uses.append((key, limbs))
        compiled.key_tasks.append(self.task)
        over_p = params.polynomial_bytes(limbs + params.num_p)
        compiled.scratch_rows[-1] += [
            params.active_digits(limbs) * over_p, over_p, over_p, params.polynomial_bytes(limbs)
        ]  # fmt: skip

    def _add(
        self,
        work: Work,
        operands: Sequence[int],
        sizes: Sequence[list[int]],
        vectors: Sequence[Encoded] = (),
        key: tuple[int, int] | None = None,
    ) -> int:
        """The next task; the number of its first result. `key`: its number, and the limbs of its use."""
        self.task += 1
        compiled = self.compiled
        own = sum(map(compiled.encoded_bytes, vectors))
        compiled.most_vector_bytes = max(compiled.most_vector_bytes, own)
        compiled.operands.append(tuple(operands))
        compiled.makers.extend([self.task] * len(sizes))
        compiled.value_rows.extend(sizes)
        compiled.scratch_rows.append([])
        compiled.is_input.append(work.name == "input")
        return compiled.tasks.add(
            work.name,
            operands,
            [sum(rows) for rows in sizes],
            argument=work.argument,
            numbers=work.numbers,
            key=key,
            vectors=vectors,
        )

    def input(self, values: Values, state: ScaleState) -> int | Awaited:
        """An encrypted input: it comes into memory when it is first used."""
        self.compiled.inputs.append(values)
        return Awaited(len(self.compiled.inputs) - 1, [self.params.polynomial_bytes(state.limbs)] * 2)

    def number_of(self, value: int | Awaited) -> int:
        """The number of an operand."""
        if not isinstance(value, Awaited):
            return int(value)
        if value.number is None:
            value.number = self._add(Work("input", value.input), [], [value.rows])
        return value.number

    def output(self, a: Cipher) -> Values:
        """A result: zeros, until the program has run."""
        place = np.zeros(self.params.slots, dtype=np.complex128)
        self.compiled.outputs.append(place)
        self._add(Work("output", len(self.compiled.outputs) - 1), [self.number_of(a.value)], [])
        return place

    def _encoded(self, vector: VectorEncoding) -> Encoded:
        compiled, plain = self.compiled, vector.plain
        number = self._vector_numbers.get(id(plain))
        if number is None:
            number = self._vector_numbers[id(plain)] = len(compiled.vectors)
            compiled.vectors.append(plain)
        name = (number, *vector[1:])
        compiled.encoded[name] = compiled.encoded.get(name, 0) + 1
        return name

    def _rows(self, call: Call) -> list[int]:
        """Bytes of the blocks of the result in memory."""
        params, kind, limbs = self.params, call.kind, call.state.limbs
        made, over_p = TRAITS[kind].makes, params.polynomial_bytes(limbs + params.num_p)
        if made == "digits":
            return [params.active_digits(limbs) * over_p]
        if made == "extended":
            return [over_p] * 2
        polynomials = 2
        if kind is OpKind.MULT_NO_RELIN:
            polynomials = 3
        elif TRAITS[kind].key != RELIN_KEY:
            polynomials = min(max(operand.polynomials for operand in call.operands), 3)
        return [params.polynomial_bytes(limbs)] * polynomials

    def _adjusted_rows(self, call: Call) -> list[int]:
        """Blocks of operands that an automatic rule brings to another state first."""
        limbs = self.params.polynomial_bytes(call.state.limbs)
        is_product, key = TRAITS[call.kind].is_product, TRAITS[call.kind].key
        moved = [
            operand
            for operand in call.operands
            if operand.state.limbs > call.state.limbs or (is_product and operand.state.degree > 1)
        ]
        rows = [limbs] * (2 * len(moved)) if self._automatic else []
        return rows + [limbs] * 3 if is_product and key == RELIN_KEY else rows


class CompilingEvaluator(ExecutingEvaluator):
    """The evaluator of an engine that notes calls, inputs and outputs; its rows have no times."""

    engine: CompilingEngine

    def __init__(self, engine: CompilingEngine) -> None:
        super().__init__(engine)
        rows = engine.compiled.row_tasks
        self.builder.on_add = lambda op_id: rows.append(engine.task)

    def _encrypt(self, values: Values) -> Executed:
        state = ScaleState.encrypted(self.params, self.params.num_q)
        self.engine.compiled.input_rows.append(self.builder.num_operations)
        return Executed(state, self.engine.input(values, state))

    def _decrypt(self, a: Cipher) -> tuple[Values, Executed]:
        self.engine.compiled.output_rows.append(self.builder.num_operations)
        return self.engine.output(a), Executed(a.state)


def compile_program(
    program: Callable[[CompilingEvaluator], Returned], params: CkksParameters, context: _engine.CkksContext
) -> tuple[Compiled, Returned, TraceBuilder]:
    """The tasks of a program, its return value, and the rows of its trace, without times.

    Args:   program: no decrypted value changes what it encrypts, encodes or decides; its result holds views of the
            decrypted vectors. context: its scales are asked for.
    """
    engine = CompilingEngine(params, context.scale_at)
    ev = CompilingEvaluator(engine)
    result = program(ev)
    ev.builder.on_add = None
    engine.compiled.complex_values = ComplexValues.of(ev.builder)
    return engine.compiled, result, ev.builder
