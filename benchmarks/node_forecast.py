"""The simulator's view of a key node (`simulation.instorage.near_data`); host and node are machines.

The simulator knows computing and a link. This adds the cost of every byte at both ends of the link: rows are gathered
before they are sent, and copied and checked against their moduli on arrival.
"""

from __future__ import annotations

from dataclasses import dataclass

from penstock.lab.instorage.near_data import NearData
from penstock.scheme.machines.schema import Cost, Machine
from penstock.scheme.params.ckks import CkksParameters
from penstock.scheme.work.kernel_work import KernelWork


@dataclass(frozen=True, slots=True)
class NodeProcessor:
    """A processor of a storage node, instead of an accelerator in a drive; its working data is in memory."""

    machine: Machine

    @property
    def name(self) -> str:
        return self.machine.name

    def check_holds(self, params: CkksParameters) -> None:
        """A node's memory holds ciphertexts of any parameters."""

    def price(self, work: KernelWork) -> Cost:
        return self.machine.price(work)


@dataclass(frozen=True, slots=True, kw_only=True)
class NodeForecast:
    """Both ways to run a trace whose keys are at a node (provenance: simulated)."""

    computed: NearData
    key_s_per_byte: float
    """Handling of rows of keys at both ends of the link."""
    ciphertext_s_per_byte: float
    """Handling of rows of ciphertexts at both ends of the link."""
    max_bytes_per_s: float = float("inf")
    """What the sockets of this machine carry at most, whatever the link."""

    def pull_s(self, link_bytes_per_s: float) -> float:
        """Seconds with keys pulled through the link."""
        rate = min(link_bytes_per_s, self.max_bytes_per_s)
        return self.computed.pull_s(rate) + self.computed.key_bytes * self.key_s_per_byte

    def near_s(self, link_bytes_per_s: float) -> float:
        """Seconds with operations at the node."""
        rate = min(link_bytes_per_s, self.max_bytes_per_s)
        return self.computed.near_s(rate) + self.computed.crossing_bytes * self.ciphertext_s_per_byte

    @property
    def crossover_bytes_per_s(self) -> float | None:
        """The link rate above which pulling keys is sooner; `None`: none, or one beyond the sockets' rate."""
        found = self.computed
        handling = found.crossing_bytes * self.ciphertext_s_per_byte - found.key_bytes * self.key_s_per_byte
        slower = found.near_host_s + found.near_drive_s - found.host_compute_s + handling
        saved = found.key_bytes - found.crossing_bytes
        if slower <= 0 or saved <= 0:
            return None
        rate = saved / slower
        return rate if rate <= self.max_bytes_per_s else None
