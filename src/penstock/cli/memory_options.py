"""Options of verbs that play a program through memory levels, with prefetching, and beside other programs."""

from __future__ import annotations

import functools
from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import click

from penstock.errors import UsageError
from penstock.simulation.memory.prefetch import Prefetch, parse_prefetch
from penstock.units import parse_bytes

if TYPE_CHECKING:
    from penstock.machines import Machine
    from penstock.simulation.memory.levels import Hierarchy

ORDERS = ("round-robin", "time")
INCLUSIONS = ("independent", "inclusive", "exclusive")


@dataclass(frozen=True, slots=True, kw_only=True)
class Memory:
    """What the command line asks of the memory, and of who else uses it."""

    levels: tuple[str, ...]
    inclusion: str | None
    pins: tuple[str, ...]
    shares: tuple[str, ...]
    reserves: tuple[str, ...]
    prefetches: tuple[Prefetch, ...]
    buffer_bytes: int | None
    beside: tuple[str, ...]
    order: str
    compare: bool
    write_back: bool

    def hierarchies(self, machine: Machine, policies: tuple[str, ...], decode_bytes_per_s: float | None) -> list[Any]:
        """The levels of each `--levels`, with every policy (`penstock.simulation.memory.levels.Hierarchy`).

        Raises: UsageError: a pin, share or reservation that is no such thing; MachineError: of a file of levels.
        """
        from penstock.simulation.memory.levels_spec import load_hierarchy

        return [
            self._changed(load_hierarchy(text, machine, default_policy=policy), decode_bytes_per_s)
            for text in self.levels
            for policy in dict.fromkeys(policies or ("lru",))
        ]

    def _changed(self, hierarchy: Hierarchy, decode_bytes_per_s: float | None) -> Hierarchy:
        from penstock.simulation.memory.levels import changed
        from penstock.simulation.memory.levels_spec import class_named
        from penstock.simulation.memory.residents import parse_reservation

        pins: dict[str, str] = {}
        for text in self.pins:
            name, level = _pair(text, "--pin", "CLASS=LEVEL", "ciphertexts=hbm2")
            pinned = class_named(name, "class")
            if pinned in pins:
                raise UsageError(f"--pin '{text}': {name} live in '{pins[pinned]}' already; pin a class once")
            pins[pinned] = level
        shares: list[tuple[str, str, int]] = []
        for text in self.shares:
            name, where = _pair(text, "--share", "CLASS=LEVEL:SIZE", "keys=on-chip:40 MB")
            level, _, size = where.partition(":")
            shared = level.strip(), class_named(name, "class")
            if shared in {each[:2] for each in shares}:
                raise UsageError(f"--share '{text}': {name} have a share of '{level.strip()}' already; state it once")
            shares.append((*shared, parse_bytes(size, "--share")))
        reserves = []
        for text in self.reserves:
            level, what = _pair(text, "--reserve", "LEVEL=WHAT", "hbm2=opt-13b:4")
            reserves.append((level, parse_reservation(what, "--reserve")))
        return changed(
            hierarchy, pins=pins, shares=shares, reserves=reserves, decode_bytes_per_s=decode_bytes_per_s,
            inclusion=self.inclusion,
        )  # fmt: skip


def _pair(text: str, option: str, form: str, example: str) -> tuple[str, str]:
    left, equals, right = (part.strip() for part in text.partition("="))
    if not (left and equals and right):
        raise UsageError(f"{option} '{text}': write {form}, for example '{example}'")
    return left, right


def memory_options(command: Callable[..., Any]) -> Callable[..., Any]:
    """Adds `--levels` and what goes with it; the command gets one argument `memory`, a `Memory`."""

    @click.option(
        "--levels", multiple=True, metavar="FILE|NAME:SIZE,…",
        help="Memory levels, fastest first, instead of --tier and --cache: a .toml file, or 'on-chip,hbm2:40 GB,"
        "nvme-gen4' (NAME[:SIZE[:POLICY]] or NAME:hit=RATIO; the last holds everything); may be repeated.",
    )  # fmt: skip
    @click.option("--inclusion", type=click.Choice(INCLUSIONS),
                  help="Whether --levels hold what those above hold, or each object in one of them.")  # fmt: skip
    @click.option("--pin", "pins", multiple=True, metavar="CLASS=LEVEL",
                  help="A class lives in this level from the start: 'ciphertexts=hbm2'.")  # fmt: skip
    @click.option("--share", "shares", multiple=True, metavar="CLASS=LEVEL:SIZE",
                  help="What a class has of a level for itself: 'keys=on-chip:40 MB'.")  # fmt: skip
    @click.option(
        "--reserve", "reserves", multiple=True, metavar="LEVEL=WHAT",
        help="What others take of a level: a size, or a resident with its requests ('hbm2=opt-13b:4'); "
        "'@ 30 %' adds a share of the bandwidth.",
    )  # fmt: skip
    @click.option("--prefetch", "prefetch", multiple=True, metavar="none|next-K|perfect",
                  help="How far --mode overlap loads ahead; perfect needs --prefetch-buffer.")  # fmt: skip
    @click.option("--prefetch-buffer", metavar="SIZE", help="Bytes that loads ahead may hold at once ('64 MB').")
    @click.option("--with", "beside", multiple=True, metavar="TRACE|WORKLOAD",
                  help="Another program on the machine at the same time, with keys of its own.")  # fmt: skip
    @click.option("--interleave", "order", type=click.Choice(ORDERS), default=ORDERS[0], show_default=True,
                  help="Turns of programs: operation by operation, or by their own compute time.")  # fmt: skip
    @click.option("--write-back", is_flag=True,
                  help="Ciphertexts that are read again from further down are written there first.")  # fmt: skip
    @click.option("--compare-policies", "compare", is_flag=True,
                  help="What a runtime saves on each tier that knows the program.")  # fmt: skip
    @functools.wraps(command)
    def with_memory(
        *args: Any, levels: tuple[str, ...], inclusion: str | None, pins: tuple[str, ...], shares: tuple[str, ...],
        reserves: tuple[str, ...],
        prefetch: tuple[str, ...], prefetch_buffer: str | None, beside: tuple[str, ...], order: str, write_back: bool,
        compare: bool, **others: Any,
    ) -> Any:  # fmt: skip
        buffer = None if prefetch_buffer is None else parse_bytes(prefetch_buffer, "--prefetch-buffer")
        if buffer is not None and not prefetch and not compare:
            raise UsageError("--prefetch-buffer bounds what --prefetch loads ahead: add --prefetch perfect, or next-K")
        if buffer is not None and prefetch and set(prefetch) == {"none"}:
            raise UsageError("--prefetch none loads nothing ahead and needs no buffer: leave --prefetch-buffer out")
        asked = Memory(
            levels=tuple(dict.fromkeys(levels)),
            inclusion=inclusion,
            pins=pins,
            shares=shares,
            reserves=reserves,
            prefetches=tuple(
                parse_prefetch(text, None if text == "none" else buffer, "--prefetch")
                for text in dict.fromkeys(prefetch)
            ),
            buffer_bytes=buffer,
            beside=beside,
            order=order,
            compare=compare,
            write_back=write_back,
        )
        _check(asked, others)
        return command(*args, memory=asked, **others)

    return with_memory


def _check(memory: Memory, others: dict[str, Any]) -> None:
    """What does not go together."""
    source = click.get_current_context().get_parameter_source
    given = {
        name
        for name in ("tiers", "prefetch_depth", "modes", "order")
        if (found := source(name)) and found.name == "COMMANDLINE"
    }
    if "order" in given and not memory.beside:
        raise UsageError("--interleave says how programs take turns: name another program, --with TRACE|WORKLOAD")
    if memory.levels and ("tiers" in given or others.get("caches") or others.get("hit_ratios")):
        raise UsageError("--levels names caches and tiers itself: leave --tier, --cache and --hit-ratio out")
    if not memory.levels and (memory.inclusion or memory.pins or memory.shares or memory.reserves):
        raise UsageError("--inclusion, --pin, --share and --reserve speak of levels: name them with --levels")
    others_set = memory.levels or memory.prefetches or others.get("hit_ratios") or others.get("policies")
    if memory.compare and (others_set or given & {"prefetch_depth", "modes"}):
        raise UsageError(
            "--compare-policies sets policies, mode and prefetching: give --tier, --cache and --prefetch-buffer only"
        )
    if memory.prefetches and "prefetch_depth" in given:
        raise UsageError("--prefetch next-K is --prefetch-depth K: give one of them")
    ahead = "--prefetch" if memory.prefetches else "--prefetch-depth" if "prefetch_depth" in given else None
    if ahead is not None and "overlap" not in others.get("modes", ()):
        raise UsageError(f"{ahead} loads ahead of compute, which only one mode does: add --mode overlap")
    if memory.write_back and (memory.compare or any(others.get("hit_ratios") or ())):
        raise UsageError("--write-back is of caches of a size: leave --hit-ratio and --compare-policies out")
    if (memory.levels or memory.beside or memory.compare or memory.write_back) and not others["hosts"].single:
        raise UsageError(
            "--levels, --with, --write-back and --compare-policies play one host: leave --hosts and --network out"
        )
