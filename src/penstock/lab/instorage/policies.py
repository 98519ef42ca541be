"""The named assumptions of an in-storage study: the drive's optimisations, the traffic of its DRAM, and the host's
part.

Published comparisons rest on such choices; each is a value here, so that a result always says which it rests on.
"""

from __future__ import annotations

from dataclasses import dataclass

from penstock.errors import UsageError
from penstock.scheme.operations import Word


class Encoding(Word):
    """When raw records become plaintexts (a transform a limb)."""

    QUERY = "query"
    """Each time that a plaintext is multiplied: once for every query of a batch."""
    BATCH = "batch"
    """Once for all queries of a batch; the plaintext waits in the scratchpad."""


class Contention(Word):
    """Users of time in the drive's DRAM."""

    FREE = "free"
    """Nothing: queries, keys and intermediate results are at hand. What FHEIns' numbers need."""
    DRAM = "dram"
    """The query's ciphertexts and the keys come over the DRAM; intermediate results stay in the scratchpads."""
    SPILL = "spill"
    """So do the limbs of intermediate results that a scratchpad does not hold."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Switches:
    """FHEIns' optimisations, each on or off."""

    twiddles_on_the_fly: bool = True
    """Off: the twiddle factors of a key switch's primes come from flash for each ciphertext of the database."""
    keys_in_dram: bool = True
    """Off: keys come from flash for each ciphertext, as many as `keys_read`."""
    keys_read: int | None = 1
    """Keys that are read again for each ciphertext where they are not in DRAM; `None`: all. One is what FHEIns'
    ablation fits; the others are then thought to serve several ciphertexts."""
    seeded_keys: bool = True
    """On: a key's uniform half is a seed, and a generator on chip (PRNG) expands it."""
    key_stationary: int = 1
    """Ciphertexts that pass one key before the next is loaded (key-stationary order); 1 is ciphertext by ciphertext."""
    broadcast: bool = True
    """On: what all accelerators need is read once and broadcast to them, which then work in lock step."""
    encoding: Encoding = Encoding.QUERY

    def __post_init__(self) -> None:
        if self.key_stationary < 1:
            raise UsageError(f"key_stationary {self.key_stationary}: at least one ciphertext passes a key")
        if self.keys_read is not None and self.keys_read < 0:
            raise UsageError(f"keys_read {self.keys_read}: a number of keys is not negative")


BASE = Switches(twiddles_on_the_fly=False, keys_in_dram=False, seeded_keys=False)
"""FHEIns_base of the ablation: no memory optimisation."""


class Passes(Word):
    """How often a host reads the database for a batch of queries."""

    RESTREAM = "restream"
    """Once for each query."""
    BATCH = "batch"
    """Once for all queries of the batch."""


@dataclass(frozen=True, slots=True, kw_only=True)
class HostPolicy:
    """What an accelerator behind PCIe does about I/O."""

    passes: Passes
    overlapped: bool
    """Reading and computing at once, or one after the other."""
    cached_bytes: int = 0
    """Of the database in the accelerator's own memory, from the second pass on."""
    encoding: Encoding = Encoding.QUERY

    @property
    def name(self) -> str:
        cached = "" if not self.cached_bytes else f"-cached-{self.cached_bytes / 1e9:g}GB"
        once = "-encode-once" if self.encoding is Encoding.BATCH else ""
        return f"{self.passes}-{'overlap' if self.overlapped else 'serial'}{cached}{once}"


HOST_POLICIES: dict[str, HostPolicy] = {
    policy.name: policy
    for policy in (
        HostPolicy(passes=passes, overlapped=overlapped) for passes in Passes for overlapped in (True, False)
    )
}
"""The four without a cache, by name: `restream-overlap`, `restream-serial`, `batch-overlap`, `batch-serial`."""
