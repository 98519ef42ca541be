"""The reads of evaluation keys of a program, counted by other rules than ours: at the limbs in use, in full form."""

from __future__ import annotations

from functools import cached_property, lru_cache

import numpy as np

from penstock.lab.simulation.cluster.partitions import Together, partition_named
from penstock.program.running import trace_workload
from penstock.scheme.params.ckks import CkksParameters
from penstock.scheme.play.accesses import Accesses
from penstock.scheme.play.caches import Lru
from penstock.scheme.play.hierarchy import replay
from penstock.scheme.play.price import price_trace
from penstock.scheme.traces.schema import Trace, text_codes
from penstock.scheme.work.shapes import Ints
from penstock_studies.io_study import data
from penstock_studies.io_study.model import FULL, PARAMS, PARTITION, StudyProgram


class Reads:
    """The reads of evaluation keys of a program."""

    def __init__(self, program: StudyProgram) -> None:
        self.program = program
        self.limbs: Ints = program.on_hosts.shapes.limbs_in[program.on_hosts.access_row]
        codes, names = text_codes(program.trace.view(composites=False).server_operations()["scope"])
        # A null has the code -1, the last one.
        self.refreshing = np.asarray([*("bootstrap" in (name or "") for name in names), False], dtype=bool)[codes]

    @cached_property
    def in_refresh(self) -> tuple[float, float]:
        """Bytes and seconds of all bootstrappings."""
        priced = self.program.priced
        reads = self.refreshing[self.program.on_hosts.access_row]
        return float(priced.access_bytes[reads].sum()), float(priced.compute_s[self.refreshing].sum())

    @property
    def refreshes(self) -> int:
        """Bootstrappings of the program."""
        return self.program.trace.view(composites=True).count_by_kind().get("bootstrap", 0)

    @cached_property
    def all_slots(self) -> tuple[float, float]:
        """Bytes and seconds of the program where every bootstrapping is of all slots, not by the values' period."""
        program, (inside_bytes, inside_s) = self.program, self.in_refresh
        params = PARAMS[program.accelerator, program.application]
        alone = price_trace(refresh_trace(params), program.machine, key_form=FULL)
        return (
            program.priced.accessed_bytes - inside_bytes + self.refreshes * alone.accessed_bytes,
            program.priced.ideal_s - inside_s + self.refreshes * alone.ideal_s,
        )

    def whole(self) -> float:
        """Bytes where every read is of the key at the top level."""
        return float(len(self.limbs) * self.program.params.key_bytes(key_form=FULL))

    def all_digits(self) -> float:
        """Bytes if limbs are cut and digits are not: inactive digits are read too."""
        params = self.program.params
        return float(sum(2 * params.dnum * params.polynomial_bytes(int(n) + params.num_p) for n in self.limbs))

    def kept(self, keys: int) -> float:
        """Bytes where the keys used last stay on chip."""
        priced = self.program.priced
        accesses = Accesses(priced.access_start, priced.access_object, priced.access_bytes)
        room = keys * self.program.params.key_bytes(key_form=FULL)
        return float(replay(accesses, Lru(room)).miss_bytes)

    def whole_in_runs(self) -> float:
        """Bytes where keys are read whole, and one that is used several times in a row is read once."""
        used = self.program.priced.access_object
        runs = 1 + int(np.count_nonzero(np.diff(used))) if len(used) else 0
        return float(runs * self.program.params.key_bytes(key_form=FULL))

    def divisor(self, *, cut: bool, active_only: bool) -> float:
        """By how much rPLP on 32 hosts divides the bytes of all reads.

        Args:   cut: to the limbs in use; active_only: without the digits that are not active.
        """
        params = self.program.params
        limbs = self.limbs if cut else np.full_like(self.limbs, params.num_q)
        digits = -(-limbs // params.digit_limbs) if active_only else params.dnum
        read = digits * (limbs + params.num_p)
        partition = partition_named(PARTITION)
        assert isinstance(partition, Together), "rPLP runs each operation on all hosts"
        own, whole = partition.held("key", limbs, params, data.MOST_HOSTS)
        return float(read.sum() / (read * own / whole).sum())

    def peak(self) -> float:
        """Bytes of keys a second if nothing but its key switches were computed and transforms never waited."""
        params, read = self.program.params, self.program.priced.access_bytes
        digits = -(-self.limbs // params.digit_limbs)
        peaks = np.asarray([peak_demand(self.program, count) for count in range(1, params.dnum + 1)])
        return float(read.sum() / (read / peaks[digits - 1]).sum())

    def steepest(self, refreshing: bool) -> float:
        """The most bytes of a key over seconds [bytes/s] of one operation, inside bootstrapping or outside of it."""
        priced, rows = self.program.priced, self.program.on_hosts.access_row
        here = self.refreshing[rows] == refreshing
        return float((priced.access_bytes[here] / priced.compute_s[rows[here]]).max())


@lru_cache(maxsize=16)
def refresh_trace(params: str | CkksParameters) -> Trace:
    """A bootstrapping alone, traced once for all that price it."""
    return trace_workload("bootstrapping", params, "accelerator", 0)


@lru_cache(maxsize=32)
def reads_of(program: StudyProgram) -> Reads:
    """The reads of a program, counted once."""
    return Reads(program)


def all_slots_bytes(program: StudyProgram) -> float:
    """Of an inference or an iteration in which every bootstrapping is of all slots."""
    return reads_of(program).all_slots[0] / program.runs


def peak_demand(program: StudyProgram, digits: int) -> float:
    """Bytes of a key a second that a key switch of so many active digits asks for where transforms never wait.

    It reads 2 b (n + k) limbs and takes (b + 2)(n + k) transforms, so the limbs do not matter.
    """
    rate = program.machine.units["transforms"]
    assert rate.per_cycle, "SHARP states its transforms by the cycle"
    limbs_per_s = rate.figure.value * program.clock_hz / program.params.ring_dim
    return 2 * digits / (digits + 2) * program.params.polynomial_bytes(1) * limbs_per_s
