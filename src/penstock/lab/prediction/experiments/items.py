"""Timed primitives and whole programs as sums of parts, whose logarithm is linear in the unknowns nearby."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from copy import copy
from dataclasses import dataclass

import numpy as np

from penstock.base.arrays import Floats, Ints
from penstock.lab.fit.cpu import UNDIVIDED, UNITS, exclusive_amounts
from penstock.lab.fit.measurements import Measurement, primitive_shape
from penstock.lab.measure.bench.catalogue import PRIMITIVES
from penstock.lab.measure.bench.spec import BenchPoint
from penstock.lab.prediction.composites import expanded
from penstock.lab.prediction.counted import Counted
from penstock.lab.prediction.experiments.prior import COST_SD, COSTS, PLACE, SCALE_SD, SECONDS, Columns
from penstock.program.evaluator.tally import Tally
from penstock.scheme.machines.calibration import KEY_SWITCHING, operation_class
from penstock.scheme.machines.client import ENCODE, TERMS, task_work
from penstock.scheme.machines.cold import operand_bytes
from penstock.scheme.machines.parallel import loop_starts, unit_shares
from penstock.scheme.machines.record_cost import EXPANDED, VALUES
from penstock.scheme.operations import TRAITS, OpKind
from penstock.scheme.params.ckks import CkksParameters
from penstock.scheme.work.kernel_work import KernelWork
from penstock.scheme.work.shapes import shape_work

_DIVIDED = np.asarray([unit not in UNDIVIDED for unit in UNITS])
_SHARED = slice(len(UNITS), len(UNITS) + int(_DIVIDED.sum()))
CLIENT_TASKS = tuple(TERMS)


@dataclass(frozen=True, slots=True)
class ItemPart:
    """Work that runs `count` times: the amount of each cost, and the effects on its time."""

    count: float
    amounts: Floats
    """(costs,)"""
    effects: Mapping[int, float]


class Items:
    """Times of many items, each the sum of its parts, and their slopes.

    Args:   parts: of each item; columns: knows every effect in them.
    """

    def __init__(self, parts: Sequence[Sequence[ItemPart]], columns: Columns) -> None:
        every = [part for item in parts for part in item]
        lengths = [len(item) for item in parts]
        self._starts = np.cumsum([0, *lengths[:-1]], dtype=np.int64)
        self._owner = np.repeat(np.arange(len(parts)), lengths)
        self._single = max(lengths, default=1) == 1
        self._counts = np.asarray([part.count for part in every])
        self._amounts = np.asarray([part.amounts for part in every])
        self._effects: Floats = np.zeros((len(every), columns.num_effects))
        for row, part in enumerate(every):
            self._effects[row, list(part.effects)] = list(part.effects.values())
        self._num = len(parts)

    def __len__(self) -> int:
        return self._num

    def take(self, chosen: Ints) -> Items:
        """Some items of one part each."""
        assert self._single
        items = copy(self)
        items._num, items._owner = len(chosen), np.arange(len(chosen))
        items._starts = items._owner
        items._counts, items._amounts = self._counts[chosen], self._amounts[chosen]
        items._effects = self._effects[chosen]
        return items

    def linear(self, unknowns: Floats) -> tuple[Floats, Floats]:
        """(n,) logarithms of seconds at these unknowns, and their (n, unknowns) slopes."""
        costs = SECONDS * np.exp(SCALE_SD * unknowns[0] + COST_SD * unknowns[1 : 1 + len(COSTS)])
        cost_s = self._amounts * costs
        factor = self._counts * np.exp(self._effects @ unknowns[1 + len(COSTS) :])
        seconds = cost_s.sum(axis=1) * factor
        total = self._summed(seconds)
        of_total = 1 / total[self._owner]
        slopes = np.concatenate(
            [
                np.full((self._num, 1), SCALE_SD),
                COST_SD * self._summed(cost_s * (factor * of_total)[:, None]),
                self._summed(self._effects * (seconds * of_total)[:, None]),
            ],
            axis=1,
        )
        return np.log(total), slopes

    def _summed(self, of_parts: Floats) -> Floats:
        """The sums over each item's parts."""
        return of_parts if self._single else np.add.reduceat(of_parts, self._starts)


def _amounts(**named: float) -> Floats:
    amounts = np.zeros(len(COSTS))
    for name, amount in named.items():
        amounts[PLACE[name.replace("_", " ")]] = amount
    return amounts


def operation_amounts(work: KernelWork, threads: int) -> Floats:
    """(costs,) of one call whose data are in the caches."""
    whole, shares = np.asarray(exclusive_amounts(work)), unit_shares(work, threads)
    divided = whole * [shares.get(unit, 1.0) for unit in UNITS]
    amounts = _amounts(loops=loop_starts(work, threads), overhead=1.0)
    amounts[: len(UNITS)] = divided
    amounts[_SHARED] = (whole - divided)[_DIVIDED]
    return amounts


def task_amounts(task: str, params: CkksParameters, limbs: int, threads: int) -> Floats:
    """(costs,) of one of the client's tasks."""
    amounts = operation_amounts(task_work(task, params, limbs), threads)
    for name, term in TERMS[task].items():
        amounts[PLACE[f"{task} {name}"]] = term.amount(params, limbs, threads)
    return amounts


def recording_term(kind: str) -> str:
    """Name of the cost of recording a call."""
    of_class = KEY_SWITCHING if TRAITS[OpKind(kind)].composite else operation_class(kind)
    return f"recording {of_class}"


def of_point(point: BenchPoint, columns: Columns) -> list[ItemPart]:
    """The parts of a primitive's time; nothing for a point that only serves to compare another with."""
    params, primitive = point.params, PRIMITIVES[point.item]
    limbs = point.limbs or params.num_q
    if primitive.records is not None:
        return _recorded(point, primitive.records)
    if point.item in CLIENT_TASKS:
        return [ItemPart(1.0, task_amounts(point.item, params, limbs, point.threads), {})]
    kind = primitive.kind
    if kind is None or TRAITS[kind].composite:
        return []
    shape = primitive_shape(kind, params, limbs)
    work = shape_work(shape, params)
    amounts = operation_amounts(work, point.threads)
    if point.condition == "cold":
        amounts = amounts + _amounts(cold_call=1.0, cold_byte=float(operand_bytes(work)))
    return [ItemPart(1.0, amounts, columns.effects(shape.kind, params, limbs, point.threads))]


def _recorded(point: BenchPoint, item: str) -> list[ItemPart]:
    """The record of a call with cold caches is a cost of programs; a warm call is compared with it."""
    if point.condition != "cold":
        return []
    kind = PRIMITIVES[item].kind
    assert kind is not None
    amounts = np.zeros(len(COSTS))
    amounts[PLACE[recording_term(kind.value)]] = 1.0
    if kind is OpKind.DECRYPT:
        amounts[PLACE[f"recording {VALUES}"]] = point.params.slots
    elif TRAITS[kind].composite:
        amounts[PLACE[f"recording {EXPANDED}"]] = sum(expanded(_called(point, item)).values())
    return [ItemPart(1.0, amounts, {})]


def _called(point: BenchPoint, item: str) -> Measurement:
    """The call that a point records, for its expansion."""
    limbs = point.limbs or point.params.num_q
    return Measurement(
        item=item, group=point.group, params=point.params, degree=point.degree, limbs=limbs, seconds=1.0, source=item
    )


def of_program(tally: Tally, threads: int, columns: Columns) -> list[ItemPart]:
    """The parts of a whole run of a program: server, cold caches, client, encoding and the record."""
    params, counted = tally.params, Counted.of_tally(tally)
    parts = []
    for shape, work, count, of_client in zip(
        counted.shapes, counted.batch.works, counted.counts.tolist(), counted.client.tolist(), strict=True
    ):
        if of_client:
            parts.append(ItemPart(count, task_amounts(shape.kind, params, shape.limbs_in, threads), {}))
        else:
            effects = columns.effects(shape.kind, params, shape.limbs_in, threads)
            parts.append(ItemPart(count, operation_amounts(work, threads), effects))
    parts += [
        ItemPart(float(count), task_amounts(ENCODE, params, limbs, threads), {})
        for limbs, count in counted.encodings.items()
    ]
    return [*parts, ItemPart(1.0, _of_calls(tally, counted), {})]


def _of_calls(tally: Tally, counted: Counted) -> Floats:
    """(costs,) of cold caches and of the record, over all calls of a program."""
    calls = counted.calls or {}
    clients = counted.client_calls()
    amounts = _amounts(
        cold_call=float(counted.own_calls().sum())
        + sum(counted.composite_calls().values())
        + sum(clients.values())
        + sum(counted.encodings.values()),
        cold_byte=float(counted.served @ counted.operand_bytes),
    )
    for kind, count in {**calls, **clients}.items():
        amounts[PLACE[recording_term(kind)]] += count
    amounts[PLACE[f"recording {EXPANDED}"]] = max(float(counted.served.sum()) - float(counted.own_calls().sum()), 0.0)
    amounts[PLACE[f"recording {VALUES}"]] = clients[OpKind.DECRYPT.value] * tally.params.slots
    return amounts
