"""A trace made ready for clusters: its operations by shape, and which part of each access goes with which limbs."""

from __future__ import annotations

from collections.abc import Callable, Hashable
from dataclasses import dataclass, field
from typing import Any, TypeVar, cast, get_args

import numpy as np
import numpy.typing as npt

from penstock.base.arrays import Ints
from penstock.base.system.kept import Kept
from penstock.errors import UsageError
from penstock.lab.simulation.cluster.partitions import AccessClass, Together
from penstock.scheme.machines.schema import Machine
from penstock.scheme.operations import SMALL_KINDS
from penstock.scheme.params.ckks import CkksParameters
from penstock.scheme.params.rlwe import KeyForm
from penstock.scheme.play.accesses import Accesses
from penstock.scheme.play.price import PricedTrace
from penstock.scheme.traces.schema import Trace
from penstock.scheme.work.shapes import Objects, Shapes, codes, server_rows, shapes_of

T = TypeVar("T")
CLASSES: tuple[AccessClass, ...] = get_args(AccessClass)
MOST_KEPT_BYTES = 64 * 2**20
"""Kept results of a program: for each number of hosts, the work and the messages."""


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class ClusterProgram:
    """A trace priced on one host's machine, with what its parts on several hosts need. Built by `prepare`."""

    priced: PricedTrace
    machine: Machine
    params: CkksParameters
    key_form: KeyForm | None
    shapes: Shapes
    access_row: Ints
    """(m,) operation of each access."""
    access_class: npt.NDArray[np.int8]
    """(m,) index into `CLASSES`."""
    access_limbs: Ints
    """(m,) limbs of Q that the access is about."""
    output: Ints
    """(n,) object that each operation makes, or -1."""
    object_bytes: Ints
    """(objects,) whole size of each object."""
    kept: Kept[Any] = field(default_factory=lambda: Kept(MOST_KEPT_BYTES), repr=False)
    """Results that depend on neither cache nor tier: see `keep`."""

    def keep(self, key: Hashable, make: Callable[[], T]) -> T:
        """The result of `make`, made once for a key as long as it is among the most recent ones.

        `cluster` keeps here what hosts compute and exchange, so that another cache, tier or time mode
        costs its own work only. Threads may share a program; what two of them make at the same time is the same.
        """
        return cast(T, self.kept.get(key, make))

    @property
    def num_operations(self) -> int:
        return len(self.shapes.of_row)

    def replicates(self, partition: Together, what: AccessClass) -> bool:
        """Whether every host loads the whole of such an object; of a plaintext also the one limb that others are made
        from on chip."""
        return partition.replicates(what) or (what == "plaintext" and self.machine.extends_plaintexts)

    def copies(self, partition: Together, hosts: int) -> Ints:
        """(m,) the number of times that all hosts together load the data of each access."""
        loads = np.ones(len(self.access_class), dtype=np.int64)
        for code, what in enumerate(CLASSES):
            rows = self.access_class == code
            if self.replicates(partition, what):
                loads[rows] = hosts
            else:
                loads[rows] = partition.copies(what, self.access_limbs[rows], self.params, hosts)
        return loads

    def accesses(self, partition: Together | None = None, hosts: int = 1) -> Accesses:
        """Loads of the busiest host: the accesses of the trace, each cut to the host's own part."""
        priced, size = self.priced, self.priced.access_bytes
        if partition is not None and hosts > 1:
            size = size.copy()
            for code, what in enumerate(CLASSES):
                if self.replicates(partition, what):
                    continue
                rows = self.access_class == code
                own, whole = partition.held(what, self.access_limbs[rows], self.params, hosts)
                size[rows] = np.maximum(1, size[rows] * own // np.maximum(whole, 1))
        return Accesses(priced.access_start, priced.access_object, size, priced.access_is_result)


def prepare(trace: Trace, machine: Machine, priced: PricedTrace, key_form: KeyForm | None = None) -> ClusterProgram:
    """A trace ready to be played on clusters of this machine.

    Args:   priced: the trace as `price_trace` prices it on this machine, with `key_form`.
    Raises: UsageError: `priced` is of another trace, or the trace has operations of a small ring.
    """
    params = trace.parameters()
    small = sorted(SMALL_KINDS & set(trace.count_by_kind()))
    if small:
        raise UsageError(
            f"trace '{trace.meta.workload}' has operations of a small ring ({', '.join(small)}), which are not dealt "
            "to several hosts: simulate it on one host"
        )
    table = server_rows(trace.view().operations)
    objects = Objects(trace, params)
    shapes = shapes_of(table, objects)
    if len(priced) != len(shapes.of_row):
        raise UsageError(
            f"the priced trace has {len(priced)} operations, the trace {len(shapes.of_row)}: price this trace"
        )
    row = np.repeat(np.arange(len(priced), dtype=np.int64), np.diff(priced.access_start))
    access_rows = priced.access_object.astype(np.int64)
    class_code, names = codes(trace.objects["class"])
    # A ciphertext over Q and P is dealt as digits are.
    named = ["digits" if name == "extended" else name for name in names]
    known = np.asarray([CLASSES.index(name) if name in CLASSES else 0 for name in named], dtype=np.int8)
    access_class = known[class_code[access_rows]] if len(access_rows) else np.zeros(0, dtype=np.int8)
    # Keys, plaintexts and digits have the limbs of the operation; the moved bytes tell the limbs of a ciphertext.
    limbs = shapes.limbs_in[row]
    ciphertext = access_class == CLASSES.index("ciphertext")
    moved = priced.access_bytes * objects.limbs[access_rows] // np.maximum(objects.bytes[access_rows], 1)
    output = np.full(len(priced), -1, dtype=np.int64)
    made = np.asarray(table["output"].is_valid().to_numpy(), dtype=bool)
    output[made] = objects.rows(np.asarray(table["output"].drop_null().to_numpy(), dtype=np.int64), "output")
    return ClusterProgram(
        priced=priced,
        machine=machine,
        params=params,
        key_form=key_form,
        shapes=shapes,
        access_row=row,
        access_class=access_class,
        access_limbs=np.where(ciphertext, np.maximum(moved, 1), limbs),
        output=output,
        object_bytes=objects.bytes,
    )
