"""Near-data processing of evaluation keys: operations with a key run at the drive, and keys never leave it.

The storage-I/O study calls this its most promising direction. A trace can run in two ways when keys are in storage.
**Pull** every key that an operation reads through the link to the accelerator on the host. Or run operations **near**
the keys, and let only ciphertexts travel: either the operations that read keys (HMult, HRot, …) or all of them.

A ciphertext crosses the link when it is used on the other side from where it was made, once. Fresh ciphertexts start
at the host; results are wanted there. With a link of b bytes a second and a drive that reads keys at r, serially:
  pull(b) = C_host + K / min(b, r)  C: seconds of computing, K: key bytes, X: ciphertext bytes that cross
  near(b) = C_near + X / b          C_near: other operations on the host, those with a key at the drive, each no
                                    sooner than its key comes out of flash or DRAM
so pulling wins above b* = (K - X) / (C_near - C_host), unless that is above r, and never where C_near <= C_host.
A link faster than r speeds near alone, which may be sooner again far above b*.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import pyarrow as pa

from penstock.base.arrays import Bools, Ints
from penstock.base.types import Row, Rows
from penstock.base.units import format_bytes
from penstock.errors import UsageError
from penstock.lab.instorage.drive import drive_rates
from penstock.lab.instorage.machine import UnitAccelerator
from penstock.scheme.machines.schema import Machine, Tier
from penstock.scheme.operations import TRAITS, OpKind, Word
from penstock.scheme.params.rlwe import KeyForm
from penstock.scheme.traces.schema import Trace
from penstock.scheme.unpriced import refuse
from penstock.scheme.work.shapes import Objects, server_rows, shape_work, shapes_of


class Partition(Word):
    """Which operations run at the drive."""

    KEYED = "keyed"
    """Those that read an evaluation key."""
    ALL = "all"
    """Every one: only inputs and results travel."""


@dataclass(frozen=True, slots=True, kw_only=True)
class NearData:
    """Both ways of running a trace whose keys are in storage."""

    workload: str
    params: str
    host: str
    architecture: str
    partition: Partition
    operations: int
    key_operations: int
    host_compute_s: float
    """All operations on the host."""
    near_host_s: float
    """Those that stay on the host."""
    near_drive_s: float
    """Those at the drive."""
    key_bytes: int
    """Every read of a key that the host's cache does not serve."""
    stored_key_bytes: int
    """Every key once, in the form that the drive holds."""
    crossing_bytes: int
    """Ciphertexts that travel where keys stay."""
    crossings: int
    key_bytes_per_s: float = float("inf")
    """The rate of reading keys in place, for the link and for operations in the drive."""

    def pull_s(self, link_bytes_per_s: float) -> float:
        """Seconds with keys pulled through the link, one thing after another."""
        return self.host_compute_s + self.key_bytes / min(link_bytes_per_s, self.key_bytes_per_s)

    def near_s(self, link_bytes_per_s: float) -> float:
        """Seconds with operations run at the keys."""
        return self.near_host_s + self.near_drive_s + self.crossing_bytes / link_bytes_per_s

    @property
    def crossover_bytes_per_s(self) -> float | None:
        """Bandwidth of the link above which pulling keys is sooner; 0: at every bandwidth; `None`: above none.

        `None`, too, where it is above the rate at which keys are read, which no link speeds. If ciphertexts have more
        bytes than keys and the drive computes faster, pulling is sooner only below a bandwidth: `None` again.
        """
        slower = self.near_host_s + self.near_drive_s - self.host_compute_s
        saved = self.key_bytes - self.crossing_bytes
        if saved <= 0:
            return 0.0 if slower >= 0 else None
        if slower <= 0 or saved / slower > self.key_bytes_per_s:
            return None
        return saved / slower

    def row(self, link: str, link_bytes_per_s: float) -> Row:
        """A flat row for one link."""
        pull, near = self.pull_s(link_bytes_per_s), self.near_s(link_bytes_per_s)
        return {
            "workload": self.workload, "params": self.params, "machine": self.host, "architecture": self.architecture,
            "partition": self.partition.value, "link": link, "link_bytes_per_s": link_bytes_per_s,
            "key_bytes_per_s": self.key_bytes_per_s,
            "operations": self.operations, "key_operations": self.key_operations,
            "pull_s": pull, "near_s": near, "speedup": pull / near if near else None,
            "host_compute_s": self.host_compute_s, "near_host_s": self.near_host_s, "near_drive_s": self.near_drive_s,
            "key_bytes": self.key_bytes, "stored_key_bytes": self.stored_key_bytes,
            "crossing_bytes": self.crossing_bytes, "crossings": self.crossings,
            "crossover_bytes_per_s": self.crossover_bytes_per_s, "provenance": "simulated",
        }  # fmt: skip


def near_data(
    trace: Trace,
    host: Machine,
    accelerator: UnitAccelerator,
    *,
    accelerators: int = 1,
    key_bytes_per_s: float,
    partition: Partition = Partition.KEYED,
    hit_ratio: float = 0.0,
    key_form: KeyForm | None = None,
) -> NearData:
    """A trace whose keys are in storage, with keys pulled and with their operations run near them.

    Args:   accelerators: how many share one operation, its limbs dealt evenly (an upper bound on what they give);
            key_bytes_per_s: at which the drive reads keys (flash or DRAM); an operation takes the longer of computing
            and reading its key, and a pull the slower of link and reading. hit_ratio: share of the key bytes that the
            host finds in a cache when it pulls; key_form: how keys are stored and moved; default the parameter set's.
    Raises: UsageError: no accelerator, no rate, a scratchpad that holds no limb, or an operation without a price;
            TraceError: as `price_trace`.
    """
    _check(accelerators, key_bytes_per_s, hit_ratio)
    params = trace.parameters()
    accelerator.check_holds(params)
    table = server_rows(trace.view().operations)
    objects = Objects(trace, params)
    shapes = shapes_of(table, objects)
    n = len(shapes.distinct)
    on_host, at_drive = np.zeros(n), np.zeros(n)
    keys, keyed = np.zeros(n, dtype=np.int64), np.zeros(n, dtype=bool)
    what = f"{trace.meta.workload}: keys near their data are held against keys that are pulled"
    refuse(trace.whole_composites(), what)
    for i, shape in enumerate(shapes.distinct):
        work = shape_work(shape, params, key_form)
        refuse({shape.kind: int(shapes.counts[i])} if host.lacks(work) else {}, f"{what}, on '{host.name}'")
        on_host[i] = host.price(work).seconds
        keyed[i], keys[i] = TRAITS[OpKind(shape.kind)].key is not None, work.key_bytes
        if keyed[i] or partition is Partition.ALL:
            there = shape_work(shape, params, key_form, accelerator.hoisting)
            computing = accelerator.price(there).seconds / accelerators
            at_drive[i] = max(computing, work.key_bytes / key_bytes_per_s)
    of_row = shapes.of_row
    near = keyed[of_row] | (partition is Partition.ALL)
    crossing, count = _crossings(trace, table, objects, near, shapes.operand_row, shapes.operand)
    return NearData(
        workload=trace.meta.workload,
        params=params.name,
        host=host.name,
        architecture=accelerator.name,
        partition=partition,
        operations=len(of_row),
        key_operations=int(keyed[of_row].sum()),
        host_compute_s=float(on_host[of_row].sum()),
        near_host_s=float(on_host[of_row][~near].sum()),
        near_drive_s=float(at_drive[of_row][near].sum()),
        key_bytes=round((1 - hit_ratio) * int(keys[of_row].sum())),
        stored_key_bytes=params.total_key_bytes(trace.view().key_limbs(), key_form),
        crossing_bytes=crossing,
        crossings=count,
        key_bytes_per_s=key_bytes_per_s,
    )


def _check(accelerators: int, key_bytes_per_s: float, hit_ratio: float) -> None:
    if accelerators < 1:
        raise UsageError(f"{accelerators} accelerators: operations with a key need at least one at the drive")
    if not key_bytes_per_s > 0:
        raise UsageError(f"a key rate of {key_bytes_per_s} bytes a second: it is more than zero")
    if not 0 <= hit_ratio <= 1:
        raise UsageError(f"hit ratio {hit_ratio}: it lies between 0 and 1")


def near_rows(
    trace: Trace,
    host: Machine,
    accelerator: UnitAccelerator,
    links: Sequence[Tier],
    *,
    drive: str,
    partitions: Sequence[str],
    keys_in: str,
    hit_ratio: float,
    key_form: KeyForm | None,
    name: str,
) -> Rows:
    """A row for each partition and link, over the accelerators of a drive; the columns of `NearData.row` and `drive`.

    Args:   drive: a name or a .toml file; keys_in: `dram` or `flash` of the drive; name: of the program, for the error.
    Raises: UsageError: the drive's DRAM does not hold the keys.
    """
    rates = drive_rates(drive)
    stored = trace.parameters().total_key_bytes(trace.view().key_limbs(), key_form)
    if keys_in == "dram" and stored > rates.dram_capacity_bytes:
        raise UsageError(
            f"the DRAM of drive '{rates.name}' ({format_bytes(rates.dram_capacity_bytes)}) does not hold the keys of "
            f"'{name}' ({format_bytes(stored)}): take --keys-in flash, --key-form seeded+truncated, or a larger drive"
        )
    rate = rates.dram_bytes_per_s if keys_in == "dram" else rates.flash_bytes_per_s
    made = [
        near_data(
            trace, host, accelerator, accelerators=accelerator.on(rates.channels), key_bytes_per_s=rate,
            partition=Partition(partition_name), hit_ratio=hit_ratio, key_form=key_form,
        )
        for partition_name in dict.fromkeys(partitions)
    ]  # fmt: skip
    return [{**near.row(link.name, link.bandwidth_bytes_per_s), "drive": rates.name} for near in made for link in links]


def _crossings(
    trace: Trace, table: pa.Table, objects: Objects, near: Bools, operand_row: Ints, operand: Ints
) -> tuple[int, int]:
    """(bytes, number) of the objects that are used on the other side from where they were made, results included."""
    outputs = np.asarray(table["output"].to_numpy(zero_copy_only=False), dtype=np.float64)
    made = np.nonzero(~np.isnan(outputs))[0]
    rows = objects.rows(outputs[made].astype(np.int64), "output")
    born_near = np.zeros(len(objects.bytes), dtype=bool)
    born_near[rows] = near[made]
    used_other = np.zeros(len(objects.bytes), dtype=bool)
    used_other[operand[near[operand_row] != born_near[operand]]] = True
    decrypted = trace.view().operations
    kinds = decrypted["kind"].to_pylist()
    wanted = [
        operands[0]
        for kind, operands in zip(kinds, decrypted["operands"].to_pylist(), strict=True)
        if kind == "decrypt"
    ]
    if wanted:
        results = objects.rows(np.asarray(wanted, dtype=np.int64), "result")
        used_other[results[born_near[results]]] = True
    return int(objects.bytes[used_other].sum()), int(used_other.sum())
