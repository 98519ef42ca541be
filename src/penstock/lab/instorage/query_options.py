"""A question to queries inside drives, in the words of a front end, and its rows."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from itertools import product

from penstock.base.types import Row, Rows, RowView
from penstock.base.units import parse_bytes, parse_rate
from penstock.errors import UsageError, check_known
from penstock.lab.instorage.drive import drive_rates
from penstock.lab.instorage.engine import played_in_storage, played_on_host
from penstock.lab.instorage.flash.spec import ScanEngine
from penstock.lab.instorage.machine import Automorphism, LaneWork, UnitAccelerator, with_options
from penstock.lab.instorage.machine_power import Multiplicity
from penstock.lab.instorage.machine_spec import load_instorage
from penstock.lab.instorage.ordinary import Modes, Ordinary, in_storage_under, left_by, on_host_under
from penstock.lab.instorage.policies import HOST_POLICIES, Contention, Encoding, HostPolicy, Passes, Switches
from penstock.lab.instorage.queries import Answered, Inside
from penstock.lab.instorage.query import Query
from penstock.scheme.machines import load_machine
from penstock.scheme.machines.drives import load_drive
from penstock.scheme.work.kernels import Hoisting

HOST = "host"
"""The architecture that is an accelerator behind PCIe."""
CLOSED_FORM = "closed-form"
"""The engine that is a formula."""
_USUAL: dict[str, tuple[str, object]] = {
    "--contention": ("contention", "free"), "--power": ("power", "per-engine"),
    "--automorphism": ("automorphism", None), "--hoisting": ("hoisting", None), "--lane": ("lane", None),
    "--scratchpad": ("scratchpad", None), "--no-twiddles": ("twiddles", True), "--flash-keys": ("dram_keys", True),
    "--keys-read": ("keys_read", "1"), "--whole-keys": ("seeded_keys", True), "--key-stationary": ("key_stationary", 1),
    "--no-broadcast": ("broadcast", True), "--policy": ("policies", ("restream-overlap",)),
    "--machine": ("machine", "sharp"), "--cache": ("cache", None), "--encode": ("encode", "query"),
    "--modes": ("modes", "shared"),
}  # fmt: skip
"""Option that does not apply to every query -> its name, and its usual value."""


def query_rows(query: Query, asked: RowView, tell: Callable[[str], None]) -> Rows:
    """One row for each drive, batch and architecture; hosts for each policy.

    Args:   asked: the options of `penstock ssd pir` and its like, by name; tell: gets a note on an
            architecture that the event engine does not play.
    Raises: UsageError: an option that changes nothing, or breaks a rule; UnknownName; UnitError.
    """
    inside, reads, by_engine = _inside(asked), _reads(asked), asked["engine"] != CLOSED_FORM
    _refuse_idle(query, asked)
    how: Row = {"ordinary_bytes_per_s": reads.bytes_per_s}
    if by_engine:
        how["engine"] = ScanEngine(asked["engine"])
    answers: list[Answered] = []
    for drive in map(load_drive, dict.fromkeys(asked["drives"])):
        rates = drive_rates(drive)
        left_by(rates, reads)  # more reads than the drive serves are refused, by the engine too
        for batch, name in product(dict.fromkeys(asked["batches"]), dict.fromkeys(asked["architectures"])):
            if name == HOST:
                machine = load_machine(asked["machine"])
                for policy in _policies(asked):
                    if by_engine:
                        answers.append(played_on_host(query, drive, machine, policy, batch=batch, **how))
                    else:
                        answers.append(on_host_under(query, rates, machine, policy, reads, batch=batch))
                continue
            accelerator = load_instorage(name)
            if isinstance(accelerator, UnitAccelerator):
                accelerator = _changed(accelerator, asked)
                if by_engine:
                    answers.append(played_in_storage(query, drive, accelerator, batch=batch, inside=inside, **how))
                    continue
            elif by_engine:
                tell(f"'{name}' is known by a rate: its rows are of the closed form")
            answers.append(in_storage_under(query, rates, accelerator, reads, batch=batch, inside=inside))
    return [answer.row() for answer in answers]


def _refuse_idle(query: Query, asked: RowView) -> None:
    """Raises: UsageError: an option that changes nothing of these queries; rows would be named after it."""
    given = {option: asked[name] != usual for option, (name, usual) in _USUAL.items()}
    on_host = HOST in asked["architectures"]
    of_host = ("--policy", "--machine", "--cache")
    units = any(isinstance(load_instorage(name), UnitAccelerator) for name in asked["architectures"] if name != HOST)
    held = asked["contention"] != "free"
    switched = bool(query.key_switches())
    rules = [
        ([option for option in given if option not in (*of_host, "--encode", "--modes")],
         "--architecture fheins, or its like", units),
        (of_host, f"--architecture {HOST}", on_host),
        (("--cache",), "a policy that re-streams", any(name.startswith("restream") for name in asked["policies"])),
        (("--encode",), "raw records, of 'penstock ssd pir'", query.stored == "raw"),
        (("--no-twiddles", "--keys-read", "--key-stationary"), "operations with a key for each object", switched),
        (("--flash-keys", "--whole-keys"), "keys in use, here with --contention dram or spill",
         switched or (held and bool(query.work.keys))),
        (("--keys-read",), "--flash-keys", not asked["dram_keys"]),
        (("--key-stationary", "--whole-keys"), "--flash-keys, or --contention dram or spill",
         held or not asked["dram_keys"]),
        (("--no-broadcast",), "--contention dram or spill", held),
        (("--scratchpad",), "--contention spill", asked["contention"] == "spill"),
        (("--modes",), "--ordinary-reads", asked["ordinary_reads"] is not None),
    ]  # fmt: skip
    for names, needs, holds in rules:
        for name in names:
            if given[name] and not holds:
                raise UsageError(f"{name} changes nothing here: it goes with {needs}; leave it out")


def _inside(asked: RowView) -> Inside:
    count = asked["keys_read"]
    if count != "all" and not count.isdecimal():
        raise UsageError(f"--keys-read '{count}': a number of keys, or 'all'")
    switches = Switches(
        twiddles_on_the_fly=asked["twiddles"],
        keys_in_dram=asked["dram_keys"],
        keys_read=None if count == "all" else int(count),
        encoding=Encoding(asked["encode"]),
        seeded_keys=asked["seeded_keys"],
        key_stationary=asked["key_stationary"],
        broadcast=asked["broadcast"],
    )
    contention, power = Contention(asked["contention"]), Multiplicity(asked["power"])
    return Inside(switches=switches, contention=contention, multiplicity=power)


def _reads(asked: RowView) -> Ordinary:
    modes, engine = Modes(asked["modes"]), asked["engine"]
    if modes is Modes.ALTERNATE and engine != CLOSED_FORM:
        raise UsageError(
            f"--modes alternate is the closed form's: --engine {engine} plays reads and query at once; leave "
            "one of the two out"
        )
    rate = 0.0 if asked["ordinary_reads"] is None else parse_rate(asked["ordinary_reads"], "--ordinary-reads")
    return Ordinary(bytes_per_s=rate, modes=modes)


def _changed(accelerator: UnitAccelerator, asked: RowView) -> UnitAccelerator:
    return with_options(
        accelerator,
        automorphism=None if asked["automorphism"] is None else Automorphism(asked["automorphism"]),
        hoisting=None if asked["hoisting"] is None else Hoisting(asked["hoisting"]),
        lane=None if asked["lane"] is None else LaneWork(asked["lane"]),
        scratchpad_bytes=None if asked["scratchpad"] is None else parse_bytes(asked["scratchpad"], "--scratchpad"),
    )


def _policies(asked: RowView) -> list[HostPolicy]:
    cached = 0 if asked["cache"] is None else parse_bytes(asked["cache"], "--cache")
    policies = []
    for name in dict.fromkeys(asked["policies"]):
        check_known("host policy", name, HOST_POLICIES)
        policy = replace(HOST_POLICIES[name], encoding=Encoding(asked["encode"]))
        # A policy that reads the database once has nothing to keep.
        policies.append(replace(policy, cached_bytes=cached) if policy.passes is Passes.RESTREAM else policy)
    return policies


def slot_bits(architectures: Sequence[str]) -> int:
    """Of the first architecture that says; of 'fheins' otherwise, so that all read the same database."""
    for name in (*(architecture for architecture in architectures if architecture != HOST), "fheins"):
        accelerator = load_instorage(name)
        if isinstance(accelerator, UnitAccelerator):
            return int(accelerator.slot.value)
    raise AssertionError("'fheins' says")
