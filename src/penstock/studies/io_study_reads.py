"""The reads of evaluation keys of a program, counted by other rules than ours: at the limbs in use, in full form."""

from __future__ import annotations

from functools import cached_property

import numpy as np

from penstock.machines.shapes import Ints
from penstock.simulate.caches import Lru
from penstock.simulate.hierarchy import Accesses, replay
from penstock.studies.io_study_model import FULL, Program


class Reads:
    """The reads of evaluation keys of a program."""

    def __init__(self, program: Program) -> None:
        self.program = program
        self.limbs: Ints = program.on_hosts.shapes.limbs_in[program.on_hosts.access_row]
        scopes = program.trace.view(composites=False).server_operations()["scope"].to_pylist()
        self.refreshing = np.asarray(["bootstrap" in (scope or "") for scope in scopes], dtype=bool)

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

    def whole(self) -> float:
        """Bytes where every read is of the key at the top level."""
        return float(len(self.limbs) * self.program.params.key_bytes(key_form=FULL))

    def all_digits(self) -> float:
        """Bytes where limbs are cut and digits are not: those that are not active are read too."""
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

    def steepest(self, refreshing: bool) -> float:
        """The most bytes of a key over seconds [bytes/s] of one operation, inside bootstrapping or outside of it."""
        priced, rows = self.program.priced, self.program.on_hosts.access_row
        here = self.refreshing[rows] == refreshing
        return float((priced.access_bytes[here] / priced.compute_s[rows[here]]).max())
