"""`penstock simulate`: play a trace on a machine whose keys do not fit in fast memory."""

from __future__ import annotations

import csv
import io
import json
from collections.abc import Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click
from rich.console import Console
from rich.table import Table

from penstock.cli.assumed import draw_assumed
from penstock.cli.cluster_options import Hosts, cluster_options
from penstock.cli.cluster_play import draw_hosts, play_hosts
from penstock.cli.memory_options import Memory, memory_options
from penstock.cli.memory_play import (
    draw_levels,
    draw_locality,
    draw_tenants,
    mode_of,
    on_chip_of,
    play_levels_of,
    play_written_back,
)
from penstock.cli.options import params_option, seed_option, size_option
from penstock.cli.output import emit, format_option, plain, progress_console
from penstock.cli.timeline_play import Wanted, draw_point, timeline_options
from penstock.errors import UnknownName, UsageError
from penstock.machines import STUDY_TIERS, Machine, Tier, load_machines, load_tiers, machine_names
from penstock.params.ckks import KeyForm
from penstock.simulation.memory.locality import locality_table
from penstock.simulation.memory.prefetch import Prefetch
from penstock.simulation.memory.slowdowns import required_hit_ratio, simulate
from penstock.simulation.memory.tenants import interleave
from penstock.simulation.price import price_trace
from penstock.system.files import check_target, write_atomic
from penstock.traces import is_trace_file
from penstock.units import format_bytes, format_seconds, parse_bytes, parse_rate

if TYPE_CHECKING:
    from penstock.simulation.memory.hierarchy import Cache
    from penstock.simulation.memory.levels import Hierarchy
    from penstock.simulation.memory.tenants import Tenants
    from penstock.traces.schema import Trace

CLASSES = {"keys": "key", "plaintexts": "plaintext", "ciphertexts": "ciphertext"}
ON_CHIP = "on-chip"
WIDTH = 150
"""Columns that the table may take."""


@click.command("simulate")
@click.argument("target", metavar="TRACE|WORKLOAD")
@params_option
@size_option
@seed_option
@click.option("--machine", "machines", multiple=True, help="A machine's name or .toml file; may be repeated.")
@click.option(
    "--tier",
    "tiers",
    multiple=True,
    default=STUDY_TIERS,
    show_default=True,
    help="Where data comes from: a name, a .toml file or a bandwidth ('3.5 GB/s'); may be repeated.",
)
@click.option(
    "--mode",
    "modes",
    multiple=True,
    default=("serial",),
    show_default=True,
    help="serial: transfer, then compute (the study's law); overlap: load ahead; bound: the slower of the two.",
)
@click.option(
    "--hit-ratio",
    "hit_ratios",
    multiple=True,
    type=float,
    help="Share of the bytes that is on chip; may be repeated.",
)
@click.option(
    "--cache",
    "caches",
    multiple=True,
    metavar="SIZE|on-chip",
    help="A cache of this size ('1 GiB'), or of the machine's own on-chip memory.",
)
@click.option(
    "--policy",
    "policies",
    multiple=True,
    help="Replacement of the cache: lru (default), belady, optimal, …; an unknown name lists all.",
)
@click.option(
    "--classes",
    default="keys",
    show_default=True,
    help="What is not resident: keys, plaintexts, ciphertexts, separated by commas.",
)
@click.option("--key-form", help="How keys are stored and moved: full, seeded. Default: as the parameter set says.")
@click.option("--decode", metavar="RATE", help="Loaded bytes are decoded at this rate ('0.27 GB/s') before use.")
@click.option("--prefetch-depth", type=click.IntRange(min=0), default=1, show_default=True,
              help="Operations that --mode overlap loads ahead.")  # fmt: skip
@cluster_options
@memory_options
@click.option("-o", "--output", type=click.Path(path_type=Path), help="Write the rows to this .json or .csv file.")
@timeline_options
@click.option("--force", is_flag=True, help="Replace an existing file.")
@format_option
def command(
    target: str,
    params: str | None,
    size: str | None,
    seed: int,
    machines: tuple[str, ...],
    tiers: tuple[str, ...],
    modes: tuple[str, ...],
    hit_ratios: tuple[float, ...],
    caches: tuple[str, ...],
    policies: tuple[str, ...],
    classes: str,
    key_form: str | None,
    decode: str | None,
    prefetch_depth: int,
    memory: Memory,
    hosts: Hosts,
    output: Path | None,
    timeline: Wanted | None,
    force: bool,
    output_format: str,
) -> None:
    """Play a trace, or a workload's, on a machine and over tiers: one row for each machine, cache, tier and mode.

    Without --hit-ratio and --cache every access comes from the tier. --levels plays several levels of memory instead
    of one cache and one tier; --with adds programs that compete for them. Times are simulated; what a machine assumes
    is in 'docs/machines.md' and below the table, the rules of levels and prefetching are in 'docs/memory.md'.

    \b
    Examples:
      penstock simulate logistic-regression --params sharp --machine sharp
      penstock simulate run.parquet --machine a100-tensorfhe --tier pcie5 --tier "3.5 GB/s" --hit-ratio 0.9
      penstock simulate logistic-regression --params sharp --machine sharp --cache on-chip --cache "1 GiB" \\
          --policy lru --policy belady --mode overlap --format csv
      penstock simulate logistic-regression --params sharp --machine sharp --compare-policies
      penstock simulate logistic-regression --params tensorfhe-helr --machine a100-tensorfhe \\
          --levels "on-chip,hbm2:40 GB,nvme-gen4" --reserve hbm2=opt-13b:4 --policy lru --policy optimal \\
          --mode overlap --prefetch perfect --prefetch-buffer "1 GB"
      penstock simulate logistic-regression --params sharp --machine sharp --with logistic-regression \\
          --levels "on-chip,hbm:4 GB,nvme-gen5" --classes keys,ciphertexts --pin ciphertexts=hbm
      penstock simulate logistic-regression --params sharp --machine sharp --cache on-chip --tier nvme-gen5 \\
          --classes keys,ciphertexts --write-back
      penstock simulate resnet20-multiplexed --params sharp --machine sharp --tier pcie5 --hosts 1,2,4,8,16,32 \\
          --network ethernet-400 --network fastfabric-300
      penstock simulate logistic-regression --params sharp --machine sharp --tier pcie5 --cache on-chip \\
          --timeline helr.json.gz
    """
    if not machines:
        raise UsageError(f"name a machine: --machine {'|'.join(machine_names())}, or a .toml file of your own")
    if output is not None:
        if output.suffix not in (".json", ".csv"):
            raise UsageError(f"-o {output}: rows are written as .json or .csv; name the file so")
        check_target(output, force=force)
    if timeline is not None:
        timeline.check(
            alone=not (memory.beside or memory.compare or memory.write_back), machine=machines,
            tier=() if memory.levels else tiers, mode=modes, cache=caches, policy=policies, hit_ratio=hit_ratios,
            levels=memory.levels, prefetch=memory.prefetches, hosts=hosts.counts, network=hosts.networks,
            partition=hosts.partitions,
        )  # fmt: skip
    chosen = load_machines(machines)
    behind = load_tiers(tiers)
    absent = _classes(classes)
    form = _key_form(key_form)
    rate = parse_rate(decode, "--decode") if decode is not None else None
    levels = {machine.name: memory.hierarchies(machine, policies, rate) for machine in chosen}
    named = [name for found in levels.values() for each in found for name in each.classes]
    absent = tuple(dict.fromkeys((*absent, *named)))
    if memory.write_back and "ciphertext" not in absent:
        raise UsageError("--write-back is of ciphertexts, which are resident unless named: add --classes ciphertexts")
    for machine in chosen:
        _on_chip_caches(machine, memory, hit_ratios, caches, policies)
    trace = _trace(target, params, size, seed)
    if params is None and not is_trace_file(target):
        _say_whose_parameters(trace, chosen)
    beside = [_beside(text, params, size, seed) for text in memory.beside]

    rows: list[dict[str, Any]] = []
    needed: list[tuple[str, str, float]] = []
    for machine in chosen:
        priced = price_trace(trace, machine, key_form=form, classes=absent)
        tenants: Tenants | None = None
        if beside:
            others = [price_trace(other, machine, key_form=form, classes=absent) for other in beside]
            tenants = interleave([priced, *others], "time" if memory.order == "time" else "round-robin")
            priced = tenants.together
        for warning in priced.warnings:
            progress_console.print(f"warning: {warning}", highlight=False)
        if memory.compare:
            for memory_bytes in _capacities(machine, caches or (ON_CHIP,)):
                said: list[str] = []
                rows += locality_table(
                    None, machine, behind, memory_bytes=memory_bytes, prefetch_buffer_bytes=memory.buffer_bytes,
                    decode_bytes_per_s=rate, priced=priced, warnings=said,
                )  # fmt: skip
                for warning in said:
                    progress_console.print(f"warning: {warning}", highlight=False)
            continue
        if timeline is not None:
            here = () if memory.levels else _caches(machine, hit_ratios, caches, policies)
            draw_point(
                timeline, trace, machine, priced, tier=behind[0], cache=here[0] if here else None, mode=modes[0],
                ahead=(memory.prefetches or (Prefetch(prefetch_depth),))[0], decode_bytes_per_s=rate,
                hierarchy=levels[machine.name][0] if memory.levels else None, hosts=hosts, key_form=form,
            )  # fmt: skip
        if memory.levels:
            rows += play_levels_of(priced, machine, levels[machine.name], memory, modes, prefetch_depth, tenants)
            continue
        caches_here = _caches(machine, hit_ratios, caches, policies)
        if not hosts.single:
            ahead = memory.prefetches or (Prefetch(prefetch_depth),)
            rows += play_hosts(trace, machine, priced, hosts, behind, caches_here, modes, form, absent, rate, ahead)
            continue
        if memory.write_back:
            rows += play_written_back(
                priced, machine, caches_here, behind, memory, modes, prefetch_depth, rate, tenants
            )
            continue
        warnings: list[str] = []
        rows += simulate(
            trace, machine, behind, caches=caches_here, warnings=warnings,
            modes=tuple(dict.fromkeys(modes)),
            decode_bytes_per_s=rate, prefetch_depth=prefetch_depth, prefetches=memory.prefetches or None,
            priced=priced, tenants=tenants,
        )  # fmt: skip
        for warning in warnings:
            progress_console.print(f"warning: {warning}", highlight=False)
        for tier in behind:
            # Serial: a byte takes its transfer and its decoding, a read the latency of the tier.
            per_byte = 1 / tier.bandwidth_bytes_per_s + (0.0 if rate is None else 1 / rate)
            share = required_hit_ratio(
                priced.demand_bytes_per_s, 1 / per_byte,
                reads_per_ideal_s=priced.demand_reads_per_s, latency_s=tier.latency_s,
            )  # fmt: skip
            needed.append((machine.name, tier.name, share))
    if output is not None:
        write_atomic(output, _encoded(rows, output.suffix), force=force)
        progress_console.print(f"{len(rows)} rows written to {output}", highlight=False)
    else:
        draw = partial(_draw, rows=rows, needed=needed)
        if not hosts.single:
            draw = partial(draw_hosts, rows=rows)
        elif memory.compare:
            draw = partial(draw_locality, rows=rows)
        elif memory.levels:
            draw = partial(draw_levels, rows=rows)

        def drawn(console: Console) -> None:
            draw(console)
            draw_assumed(console, chosen, _tiers_of(behind, levels), hosts.networks)

        emit(rows, output_format, table=drawn)


def _tiers_of(behind: Sequence[Tier], levels: Mapping[str, Sequence[Hierarchy]]) -> list[Tier]:
    """The tiers that data come from."""
    stacked = [level.tier for found in levels.values() for each in found for level in each.levels]
    return list(dict.fromkeys(tier for tier in stacked if isinstance(tier, Tier)) if stacked else behind)


def _say_whose_parameters(trace: Trace, machines: Sequence[Machine]) -> None:
    """Without --params a workload takes its size's own set: says which, and which set each machine was built for."""
    taken = trace.parameters().name
    for machine in machines:
        own = machine.native_params
        if own not in (None, taken):
            progress_console.print(
                f"note: parameter set '{taken}' is the workload's own; machine '{machine.name}' was built for '{own}': "
                f"add --params {own}",
                highlight=False,
            )


def _trace(target: str, params: str | None, size: str | None, seed: int) -> Trace:
    """The trace in a file, or of a workload."""
    if is_trace_file(target):
        from penstock.traces.io import read_trace

        if params is not None or size is not None:
            raise UsageError(f"{target} is a trace and has its parameters and size: leave --params and --size out")
        return read_trace(Path(target))
    from penstock.running import trace_workload

    return trace_workload(target, params, size, seed)


def _beside(text: str, params: str | None, size: str | None, seed: int) -> Trace:
    """The trace of another program: a file has its own parameters, a workload takes those of the first."""
    return _trace(text, None, None, seed) if is_trace_file(text) else _trace(text, params, size, seed)


def _classes(text: str) -> tuple[str, ...]:
    names = [name.strip() for name in text.split(",") if name.strip()]
    if not names:
        raise UsageError(f"--classes '{text}': name at least one of {', '.join(CLASSES)}")
    for name in names:
        if name not in CLASSES:
            raise UnknownName("class", name, CLASSES)
    return tuple(dict.fromkeys(CLASSES[name] for name in names))


def _key_form(text: str | None) -> KeyForm | None:
    if text is None:
        return None
    known = [form.value for form in KeyForm]
    if text not in known:
        raise UnknownName("key form", text, known)
    return KeyForm(text)


def _caches(
    machine: Machine, hit_ratios: Sequence[float], sizes: Sequence[str], policies: Sequence[str]
) -> list[Cache]:
    """What holds the data on chip: stated hit ratios, or caches of each size and policy."""
    from penstock.simulation.memory.hierarchy import ForcedHitRatio, SizedCache

    if hit_ratios and sizes:
        raise UsageError("--hit-ratio states what a cache achieves: give either --hit-ratio or --cache")
    if policies and not sizes:
        raise UsageError("--policy is the replacement of a cache: give its size with --cache too")
    if not sizes:
        return [ForcedHitRatio(ratio) for ratio in dict.fromkeys(hit_ratios or (0.0,))]
    return [SizedCache(policy, capacity) for capacity in _capacities(machine, sizes) for policy in policies or ("lru",)]


def _capacities(machine: Machine, sizes: Sequence[str]) -> list[int]:
    capacities = []
    for text in sizes:
        if text != ON_CHIP:
            capacities.append(parse_bytes(text, "--cache"))
        elif machine.on_chip_bytes:
            capacities.append(machine.on_chip_bytes)
        else:
            raise UsageError(f"--cache {ON_CHIP}: machine '{machine.name}' states no on-chip memory; give a size")
    return capacities


def _on_chip_caches(
    machine: Machine, memory: Memory, hit_ratios: Sequence[float], sizes: Sequence[str], policies: Sequence[str]
) -> None:
    """Whether the caches that are asked for can be; before anything is traced."""
    if memory.compare:
        _capacities(machine, sizes or (ON_CHIP,))
    elif not memory.levels:
        _caches(machine, hit_ratios, sizes, policies)


def _encoded(rows: Sequence[dict[str, Any]], suffix: str) -> bytes:
    if suffix == ".json":
        return (json.dumps(plain(list(rows)), indent=2, allow_nan=False) + "\n").encode()
    text = io.StringIO()
    writer = csv.DictWriter(text, fieldnames=list(rows[0]) if rows else [], lineterminator="\n")
    writer.writeheader()
    for row in plain(list(rows)):
        writer.writerow({name: _cell(value) for name, value in row.items()})
    return text.getvalue().encode()


def _cell(value: Any) -> Any:
    """Lists of levels and programs are JSON in their cell."""
    if isinstance(value, dict | list):
        return json.dumps(value)
    return "" if value is None else value


def _draw(
    console: Console,
    rows: Sequence[dict[str, Any]],
    needed: Sequence[tuple[str, str, float]],
) -> None:
    first = rows[0]
    console.print(f"{first['workload']} at {first['params']}, simulated", highlight=False)
    table = Table(box=None, pad_edge=False)
    for column in ("machine", "tier", "mode", "on chip"):
        table.add_column(column, no_wrap=True)
    for column in ("compute", "I/O", "total", "slowdown", "80 % needs"):
        table.add_column(column, justify="right", no_wrap=True)
    if written := "written_bytes" in first:
        table.add_column("written back", justify="right", no_wrap=True)
    ratio = {(machine, tier): value for machine, tier, value in needed}
    for row in rows:
        table.add_row(
            row["machine"], row["tier"], mode_of(row), on_chip_of(row), format_seconds(row["compute_s"]),
            format_seconds(row["io_s"]), format_seconds(row["total_s"]),
            "-" if row["slowdown"] is None else f"{row['slowdown']:.4g}x",
            f"{needs:.2%} hits" if (needs := ratio.get((row["machine"], row["tier"]))) is not None
            and row["mode"] == "serial" else "-",
            *([format_bytes(row["written_bytes"]).split(" (")[0]] if written else []),
        )  # fmt: skip
    # Cut-off numbers mislead: a pipe gets every column whole, and a narrow terminal wraps lines.
    Console(file=console.file, width=max(console.width, WIDTH)).print(table)
    if needed and any(row["mode"] == "serial" for row in rows):
        console.print("'80 % needs': share of the bytes on chip at which the machine runs at 80 % of its ideal speed")
    if any(row["decode_s"] for row in rows):
        console.print(f"decoding takes up to {format_seconds(max(row['decode_s'] for row in rows))}", highlight=False)
    draw_tenants(console, rows)
