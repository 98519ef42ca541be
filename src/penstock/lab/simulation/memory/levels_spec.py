"""Memory levels as a person writes them: a TOML file, or one line, `on-chip:180 MB,hbm2:40 GB,nvme-gen4`.

```toml
inclusion = "independent"       # or inclusive, exclusive

[[levels]]                      # fastest first
tier = "on-chip"                # a tier's name or file, a bandwidth ("3.5 GB/s"), or on-chip: the machine's own memory,
                                # whole or a part of it by name ("on-chip.register_file")
policy = "belady"               # default: lru
shares = { keys = "40 MB" }     # what a class has for itself; "0 B": it passes by

[[levels]]
tier = "hbm2"
capacity = "40 GB"
reserved = ["opt-13b:4 @ 30 %"] # a resident with its requests, or a size; and the bandwidth that it takes
pinned = ["ciphertexts"]        # live here, whole, from the start

[[levels]]
tier = "nvme-gen4"              # the last has no capacity: it holds everything
decode = "0.27 GB/s"
```
"""

from __future__ import annotations

from pathlib import Path

from pydantic import Field

from penstock.base.system.toml import Strict
from penstock.base.units import parse_bytes, parse_rate
from penstock.errors import MachineError, UsageError
from penstock.lab.simulation.memory.levels import INDEPENDENT, NOT_TIMED, Hierarchy, Level
from penstock.lab.simulation.memory.residents import parse_reservation
from penstock.lab.simulation.names import ON_CHIP, class_named
from penstock.scheme.machines.catalogue import load_tier
from penstock.scheme.machines.files import parse_spec
from penstock.scheme.machines.schema import Machine
from penstock.scheme.play.caches import Cache, ForcedHitRatio, SizedCache
from penstock.scheme.play.hierarchy import BackingTier


class LevelSpec(Strict):
    """One level in the file."""

    tier: str
    name: str | None = None
    capacity: str | None = None
    policy: str | None = None
    hit_ratio: float | None = None
    decode: str | None = None
    reserved: list[str] = Field(default_factory=list)
    shares: dict[str, str] = Field(default_factory=dict)
    pinned: list[str] = Field(default_factory=list)


class HierarchySpec(Strict):
    """All levels, fastest first."""

    levels: list[LevelSpec]
    inclusion: str = INDEPENDENT


def is_file_of_levels(text: str | Path) -> bool:
    """Whether a TOML file is meant; the last level of a line may be one of a tier."""
    return isinstance(text, Path) or (text.endswith(".toml") and ("," not in text or Path(text).is_file()))


def load_hierarchy(text: str | Path, machine: Machine, *, default_policy: str = "lru") -> Hierarchy:
    """The levels in a TOML file or a line of text.

    Args:   machine: whose on-chip memory `on-chip` is; default_policy: of sized levels that name none.
    Raises: MachineError: the file breaks a rule, with its field; UsageError and its kin for a line of text.
    """
    if is_file_of_levels(text):
        where = str(text)
        spec = parse_spec(HierarchySpec, Path(text), where, "a file of levels")
    else:
        where, spec = f"levels '{text}'", _parsed_line(str(text))
    levels: list[Level] = []
    pins: dict[str, str] = {}
    for i, written in enumerate(spec.levels):
        field = f"levels[{i}]"
        try:
            level = _level(written, machine, field, default_policy, is_last=i == len(spec.levels) - 1)
            for text in written.pinned:
                name = class_named(text, f"{field}.pinned: class")
                if name in pins:
                    raise UsageError(f"{field}.pinned: {text} live in '{pins[name]}' already; pin a class once")
                pins[name] = level.name
        except UsageError as error:
            raise MachineError(f"{where}: {error}") from error
        levels.append(level)
    try:
        return Hierarchy(tuple(levels), pins, spec.inclusion)
    except UsageError as error:
        raise MachineError(f"{where}: {error}") from error


def _level(written: LevelSpec, machine: Machine, field: str, default_policy: str, *, is_last: bool) -> Level:
    on_chip = written.tier == ON_CHIP or written.tier.startswith(f"{ON_CHIP}.")
    tier: BackingTier = NOT_TIMED if on_chip else load_tier(written.tier)
    name = written.name or (written.tier if on_chip else load_tier(written.tier).name)
    return Level(
        name=name,
        cache=_cache(written, machine, field, default_policy, name, is_last=is_last),
        tier=tier,
        decode_bytes_per_s=None if written.decode is None else parse_rate(written.decode, f"{field}.decode"),
        reserved=tuple(parse_reservation(text, f"{field}.reserved") for text in written.reserved),
        shares={
            class_named(text, f"{field}.shares: class"): parse_bytes(size, f"{field}.shares.{text}")
            for text, size in written.shares.items()
        },
    )


def _cache(
    written: LevelSpec, machine: Machine, field: str, default_policy: str, name: str, *, is_last: bool
) -> Cache | None:
    if written.hit_ratio is not None:
        if written.capacity is not None or written.policy is not None:
            raise UsageError(f"{field}: hit_ratio states what a cache achieves: leave capacity and policy out")
        return ForcedHitRatio(written.hit_ratio)
    capacity: int | None = None
    if written.capacity is not None:
        capacity = parse_bytes(written.capacity, f"{field}.capacity")
    elif written.tier == ON_CHIP or written.tier.startswith(f"{ON_CHIP}."):
        capacity = _on_chip(written.tier, machine, field)
    if capacity is None:
        if written.policy is not None:
            raise UsageError(f"{field}.policy: '{name}' has no capacity, so nothing is replaced; leave the policy out")
        if not is_last:
            raise UsageError(f"{field}.capacity is missing: only the last level holds everything; give '{name}' a size")
        return None
    return SizedCache(written.policy or default_policy, capacity)


def _on_chip(tier: str, machine: Machine, field: str) -> int:
    """Bytes of the machine's own memory, or of a part of it."""
    if not machine.on_chip_bytes:
        raise UsageError(f"{field}.capacity is missing: machine '{machine.name}' states no on-chip memory; give a size")
    part = tier.removeprefix(ON_CHIP).removeprefix(".")
    if not part:
        return machine.on_chip_bytes
    if part not in machine.on_chip:
        raise UsageError(
            f"{field}.tier: machine '{machine.name}' states no on-chip memory '{part}'; it has "
            f"{', '.join(sorted(machine.on_chip))}"
        )
    return int(machine.on_chip[part].value)


def _parsed_line(text: str) -> HierarchySpec:
    """`NAME[:SIZE[:POLICY]]`, or `NAME:hit=RATIO`, separated by commas."""
    specs = []
    for part in text.split(","):
        name, *rest = (piece.strip() for piece in part.split(":"))
        if not name or len(rest) > 2 or not all(rest):
            raise UsageError(
                f"levels '{text}': '{part.strip()}' is not a level; write NAME:SIZE, NAME:SIZE:POLICY or "
                f"NAME:hit=RATIO, "
                "and the last level without a size, for example 'on-chip:180 MB,hbm2:40 GB,nvme-gen4'"
            )
        if rest and rest[0].startswith("hit="):
            try:
                ratio = float(rest[0].removeprefix("hit="))
            except ValueError:
                raise UsageError(
                    f"levels '{text}': '{rest[0]}' is not a hit ratio; write for example 'hit=0.9'"
                ) from None
            specs.append(LevelSpec(tier=name, hit_ratio=ratio))
            continue
        specs.append(LevelSpec(tier=name, capacity=rest[0] if rest else None, policy=rest[1] if rest[1:] else None))
    return HierarchySpec(levels=specs)
