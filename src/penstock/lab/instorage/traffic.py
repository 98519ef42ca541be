"""Bytes that an in-storage query moves besides the database: over the drive's DRAM, and from flash.

All counts are for one object of the database. Each rule is a formula of limbs and bytes, with the schedule it rests on.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

from penstock.base.units import format_bytes
from penstock.errors import UsageError
from penstock.lab.instorage.drive import DriveRates
from penstock.lab.instorage.machine import UnitAccelerator
from penstock.lab.instorage.policies import Contention, Switches
from penstock.lab.instorage.query import Query
from penstock.scheme.params.ckks import CkksParameters
from penstock.scheme.params.rlwe import KeyForm

WORKING_LIMBS = 3
"""Of a scratchpad: a limb that is made, and the two of a key that it meets."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Traffic:
    """What one object asks for besides itself."""

    flash_bytes: float
    """From flash: keys and twiddle factors that are kept nowhere else."""
    dram_bytes: float
    """Over the DRAM, for one query."""
    queries_at_once: int
    """Queries that the DRAM and the scratchpads hold; more take further passes over the database."""


def traffic(
    query: Query, drive: DriveRates, accelerator: UnitAccelerator, switches: Switches, contention: Contention
) -> Traffic:
    """Traffic for one object of the database.

    Raises: UsageError: keys and one query do not fit in the drive's DRAM; the channels do not divide into groups.
    """
    accelerators = accelerator.on(drive.channels)
    shared = accelerators if switches.broadcast else 1
    flash = flash_bytes(query, switches)
    if contention is Contention.FREE:
        return Traffic(flash_bytes=flash, dram_bytes=0.0, queries_at_once=_UNBOUND)
    if query.one_for_all:
        dram = query.work.query_bytes / shared
    else:
        # The columns of a block, dealt over the accelerators, share its selection.
        dram = query.params.ciphertext_bytes(query.work.object_limbs) / query.columns
        dram *= 1 if switches.broadcast else min(accelerators, query.columns)
    dram += key_bytes(query, switches) / shared + waiting_bytes(query, switches)
    at_once = queries_resident(query, drive, switches)
    if contention is Contention.SPILL:
        dram += sum(n * spilled_bytes(query.params, limbs, accelerator) for limbs, n in query.key_switches().items())
        at_once = min(at_once, queries_at_once(query, accelerator, accelerators))
    return Traffic(flash_bytes=flash, dram_bytes=dram, queries_at_once=at_once)


_UNBOUND = 1 << 30


def queries_resident(query: Query, drive: DriveRates, switches: Switches) -> int:
    """Queries whose ciphertexts fit in the drive's DRAM next to the keys.

    Raises: UsageError: not even one; the message has the sizes.
    """
    form = KeyForm.SEEDED if switches.seeded_keys else KeyForm.FULL
    keys = sum(query.params.key_bytes(limbs, form) for limbs in query.work.keys.values()) * switches.keys_in_dram
    room = drive.dram_capacity_bytes - keys
    if room >= 0 and not query.work.query_bytes:  # nothing that stays
        return _UNBOUND
    if room < query.work.query_bytes:
        raise UsageError(
            f"the DRAM of drive '{drive.name}' ({format_bytes(drive.dram_capacity_bytes)}) does not hold the keys "
            f"({format_bytes(keys)}) and one query ({format_bytes(query.work.query_bytes)}): take a larger drive, "
            "seeded keys, or a query of fewer keys and ciphertexts"
        )
    return room // query.work.query_bytes


def flash_bytes(query: Query, switches: Switches) -> float:
    """Keys and twiddle factors that come from flash for each object.

    A set of twiddle factors is N words for each prime of Q and P (FHEIns, section III-D: "N-1 twiddle factors").
    """
    switched = query.key_switches()
    if not switched:
        return 0.0
    params, limbs = query.params, max(switched)
    total = 0.0
    if not switches.twiddles_on_the_fly:
        total += params.polynomial_bytes(limbs + params.num_p)
    if not switches.keys_in_dram:
        form = KeyForm.SEEDED if switches.seeded_keys else KeyForm.FULL
        keys = [params.key_bytes(n, form) for n, count in switched.items() for _ in range(count)]
        read = sorted(keys, reverse=True)[: len(keys) if switches.keys_read is None else switches.keys_read]
        total += sum(read) / _group(query, switches)
    return total


def key_bytes(query: Query, switches: Switches) -> float:
    """Keys over the DRAM for one object: every operation reads its key again, for a group in key-stationary order."""
    if not switches.keys_in_dram:
        return 0.0
    form = KeyForm.SEEDED if switches.seeded_keys else KeyForm.FULL
    total = sum(n * query.params.key_bytes(limbs, form) for limbs, n in query.key_switches().items())
    return total / _group(query, switches)


def waiting_bytes(query: Query, switches: Switches) -> int:
    """Over the DRAM in key-stationary order, for one object, wherever the keys are.

    A ciphertext leaves for the DRAM and comes back between two operations with a key, since no scratchpad holds a group
    of them. It is one accelerator's: a broadcast serves no other.
    """
    if _group(query, switches) == 1:
        return 0
    return sum(2 * n * query.params.ciphertext_bytes(limbs) for limbs, n in query.key_switches().items())


def _group(query: Query, switches: Switches) -> int:
    """Ciphertexts that pass one key before the next, at most all."""
    return min(switches.key_stationary, query.num_objects)


def spilled_bytes(params: CkksParameters, limbs: int, accelerator: UnitAccelerator) -> int:
    """Limbs of one key switch that pass the DRAM because the scratchpad does not hold them.

    Schedule: the n limbs are written once as coefficients. Blocks of T limbs of the product are accumulated on chip (2T
    limbs), and for each block every digit (alpha limbs at a time) is read once. The product (2(n+k) limbs) goes out and
    comes back for ModDown. The two polynomials come in and go out (4n). Bytes: one limb x (n (1 + ceil((n+k)/T)) +
    4(n+k) + 4n), nothing where all of it fits.
    """
    limb = params.polynomial_bytes(1)
    room = int(accelerator.scratchpad.value // limb)
    n, k = limbs, params.num_p
    if room >= n + 2 * (n + k) + WORKING_LIMBS:
        return 0
    block = max(1, (room - min(params.digit_limbs, n) - WORKING_LIMBS) // 2)
    return limb * (n * (1 + math.ceil((n + k) / block)) + 4 * (n + k) + 4 * n)


def queries_at_once(query: Query, accelerator: UnitAccelerator, accelerators: int) -> int:
    """Queries whose sums fit in the scratchpads, columns dealt over the accelerators; at least one.

    Beside them each accelerator holds the selection ciphertext in use and an encoded plaintext.
    """
    if query.one_for_all:
        return _UNBOUND
    limbs = query.work.object_limbs
    sum_bytes = query.params.ciphertext_bytes(limbs)
    room = accelerator.scratchpad.value - sum_bytes - query.params.polynomial_bytes(limbs)
    return max(1, int(room // (-(-query.columns // accelerators) * sum_bytes)))
