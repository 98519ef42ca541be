"""Tables of simulated rows on the command line."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from typing import Any

from rich.console import Console

from penstock.cli.output import table_of
from penstock.cli.terminal import print_wide
from penstock.simulation.crowd import Crowd, verdict
from penstock.simulation.inside.schedule import Schedule
from penstock.simulation.rows import each_once
from penstock.units import format_bytes, format_seconds
from penstock.unpriced import UNKNOWN, bounded, reason, shown_total


def draw_points(
    console: Console,
    rows: Sequence[Mapping[str, Any]],
    needed: Sequence[tuple[str, str, float]],
    uncalibrated: Collection[str] = (),
) -> None:
    """A line for each row, with its time against the first one's.

    Args:   needed: the hit ratio that each machine and tier ask for; uncalibrated: machines whose times rest on no
            published run; they get a mark.
    """
    first = rows[0]
    console.print(f"{each_once(first['workload'])} at {_sets(rows)}, simulated", highlight=False)
    written, shared = "written_bytes" in first, first.get("tenants") is not None
    several = len(rows) > 1 and bool(first["total_s"])
    headings = "machine | tier | mode | on chip | >compute | >I/O | >total | >slowdown | >80 % needs"
    if several:
        headings = headings.replace(">total |", ">total | >of first |")
    if shared:
        headings = headings.replace(">slowdown", ">total/compute | >worst tenant")
    table = table_of(headings + " | >written back" * written, no_wrap=True)
    ratio = {(machine, tier): value for machine, tier, value in needed}
    for row in rows:
        table.add_row(
            row["machine"] + " *" * (row["machine"] in uncalibrated),
            row["tier"],
            _mode_of(row),
            _on_chip_of(row),
            *(_t(row, name) for name in ("compute_s", "io_s", "total_s")),
            *([_x(row["total_s"] and row["total_s"] / first["total_s"], 3)] if several else []),
            _x(row["slowdown"]),
            *([_x(row["tenant_slowdown"])] if shared else []),
            f"{needs:.2%} hits"
            if (needs := ratio.get((row["machine"], row["tier"]))) is not None and row["mode"] == "serial"
            else "-",
            *([_b(row["written_bytes"])] if written else []),
        )
    print_wide(console, table)
    if any(row["machine"] in uncalibrated for row in rows):
        console.print("*: no published run of this machine was used; its share of the peak rates is assumed")
    if several:
        console.print("'of first': total over the first row's; 'slowdown': total over the row's own compute")
    if needed and any(row["mode"] == "serial" for row in rows):
        console.print("'80 % needs': share of the bytes on chip at which the machine runs at 80 % of its ideal speed")
    if shared:
        console.print("'worst tenant': end of the program that is worst off over its own compute time, alone")
    if any(row["decode_s"] for row in rows):
        most = max(row["decode_s"] for row in rows if row["decode_s"] is not None)
        console.print(f"decoding takes up to {format_seconds(most)}", highlight=False)
    draw_tenants(console, rows)


def draw_crowd(console: Console, rows: Sequence[Mapping[str, Any]], crowd: Crowd) -> None:
    """A line for each number of tenants, and how many of them keep to the limit."""
    first = rows[0]
    program = first["workload"].split("+")[0]
    console.print(f"{program} at {_sets(rows)}, simulated; each tenant has its own keys", highlight=False)
    table = table_of(
        "machine | memory | mode | on chip | >tenants | >compute | >I/O | >last end | >times its compute "
        "| >times alone",
        no_wrap=True,
    )
    points: dict[tuple[str, ...], list[Mapping[str, Any]]] = {}
    for row in rows:
        points.setdefault((row["machine"], row["tier"], _mode_of(row), _held(row)), []).append(row)
    for point, mine in points.items():
        for row in mine:
            table.add_row(
                *point,
                str(row["num_tenants"]),
                *(_t(row, name) for name in ("compute_s", "io_s", "total_s")),
                _x(row["tenant_slowdown"]),
                _x(row["times_alone"]),
            )
    print_wide(console, table)
    console.print("'times its compute': last end over a tenant's own compute time, every key at hand", highlight=False)
    console.print("'times alone': last end over the end of a tenant alone in the same memory", highlight=False)
    for point, mine in points.items():
        if crowd.is_limited:
            console.print(f"{', '.join(dict.fromkeys(point))}: {verdict(mine, crowd)}", highlight=False, markup=False)


def _held(row: Mapping[str, Any]) -> str:
    """The memory on chip, by size: the hit ratio differs between the rows of a point."""
    if row["cache_bytes"] is None:
        return _on_chip_of(row)
    return f"{format_bytes(row['cache_bytes']).split(' (')[0]} {row['policy']}"


def draw_hosts(console: Console, rows: Sequence[Mapping[str, Any]]) -> None:
    """A table of cluster rows."""
    first = rows[0]
    console.print(f"{first['workload']} at {_sets(rows)}, simulated, {first['topology'].split(':')[0]}")
    # Only where it tells rows apart.
    kept = len({_on_chip_of(row) for row in rows}) > 1
    left = f"machine | tier | mode{' | on chip' * kept} | network | partition"
    table = table_of(f"{left} | >hosts | >compute | >I/O | >communication | >total | >speedup", no_wrap=True)
    for row in rows:
        table.add_row(
            row["machine"],
            row["tier"],
            _mode_of(row),
            *((_on_chip_of(row),) if kept else ()),
            row["network"] or "-",
            row["partition"],
            str(row["hosts"]),
            *(_t(row, name) for name in ("compute_s", "io_s", "communication_s", "total_s")),
            _x(row["speedup"], 3),
        )
    print_wide(console, table)
    if any(row["programs"] > 1 for row in rows):
        console.print("by-tenant: a program on every host; 'speedup' is programs a second")


def _sets(rows: Sequence[Mapping[str, Any]]) -> str:
    """The parameter sets, with their machines where each has its own."""
    sets = {row["params"]: row["machine"] for row in reversed(rows)}
    if len(sets) == 1:
        return str(next(iter(sets)))
    return ", ".join(f"{params} ({machine})" for params, machine in reversed(sets.items()))


def _mode_of(row: Mapping[str, Any]) -> str:
    """The time mode, and how far it loads ahead where that is not the usual."""
    return str(row["mode"]) if row["prefetch"] in (None, "next-1") else f"{row['mode']}, {row['prefetch']}"


def _on_chip_of(row: Mapping[str, Any]) -> str:
    """The data kept on chip."""
    if row["cache_bytes"] is None:
        return "nothing" if row["hit_ratio"] == 0 else f"{row['hit_ratio']:.4g} of the bytes"
    achieved = "" if row["hit_ratio"] is None else f", {row['hit_ratio']:.2%} hit"
    return f"{format_bytes(row['cache_bytes']).split(' (')[0]} {row['policy']}{achieved}"


def draw_levels(console: Console, rows: Sequence[Mapping[str, Any]]) -> None:
    """A line for each row, and a table of its levels below."""
    first = rows[0]
    console.print(f"{each_once(first['workload'])} at {first['params']}, simulated", highlight=False)
    for row in rows:
        ahead = "" if row["prefetch"] is None else f", prefetch {row['prefetch']}"
        slower = "" if row["slowdown"] is None else f", {_x(row['slowdown'])} {_whose(row)} {_s(row['compute_s'])}"
        if row.get("tenant_slowdown") is not None:
            slower += f"; the worst tenant ends at {_x(row['tenant_slowdown'])} its own"
        console.print(
            f"\n{row['machine']}, {row['mode']}{ahead}: {_t(row, 'total_s')}{slower}", highlight=False, markup=False
        )
        table = table_of(
            "level | holds | policy | >taken | >accesses hit | >served | >channel | >written | >busy | >decoding "
            "| >energy",
            no_wrap=True,
        )
        for level in row["levels"]:
            if level["hits"] is None:  # an operation without a price may read and write there
                held = "everything" if level["policy"] is None else _b(level["capacity_bytes"])
                table.add_row(level["level"], held, level["policy"] or "-", *[UNKNOWN] * 8)
                continue
            taken = level["reserved_bytes"] + level["pinned_bytes"]
            found = level["hits"] + level["misses"]
            table.add_row(
                level["level"],
                "everything" if level["policy"] is None else _b(level["capacity_bytes"]),
                level["policy"] or "-",
                _b(taken) if taken else "-",
                f"{level['hits'] / found:.2%}" if found else "-",
                _b(level["served_bytes"]),
                _b(level["channel_bytes"]),
                _b(level["written_bytes"]) if "written_bytes" in row else "-",
                _s(level["busy_s"]),
                _s(level["decode_s"]) if level["decode_s"] else "-",
                "-" if level["energy_j"] is None else f"{level['energy_j']:.4g} J",
            )
        print_wide(console, table)
    draw_tenants(console, rows)


def draw_tenants(console: Console, rows: Sequence[Mapping[str, Any]]) -> None:
    """The end of each program that shares the machine, and the time that it waited for others."""
    if not any(row.get("tenants") for row in rows):
        return
    table = table_of(
        "machine | tier | mode | program | >operations | >compute | >loaded | >ends | >slowdown", no_wrap=True
    )
    for row in rows:
        for tenant in row["tenants"]:
            table.add_row(
                row["machine"],
                row["tier"],
                row["mode"],
                tenant["tenant"],
                str(tenant["num_operations"]),
                _t(tenant, "compute_s"),
                shown_total(tenant, "io_bytes", _b),
                _t(tenant, "finish_s"),
                _x(tenant["slowdown"]),
            )
    console.print()
    print_wide(console, table)


def draw_locality(console: Console, rows: Sequence[Mapping[str, Any]]) -> None:
    """The bytes that each runtime loads and its time, against LRU on demand."""
    first = rows[0]
    console.print(
        f"{first['workload']} at {first['params']}, simulated; prefetching takes its buffer from the same memory",
        highlight=False,
    )
    table = table_of(
        "machine | tier | runtime | >memory | >buffer | >bytes hit | >loaded | >saved | >total | >saved  | >slowdown",
        no_wrap=True,
    )
    for row in rows:
        table.add_row(
            row["machine"],
            row["tier"],
            row["runtime"],
            _b(row["memory_bytes"]),
            _b(row["prefetch_buffer_bytes"]),
            "-" if row["hit_ratio"] is None else f"{row['hit_ratio']:.2%}",
            _b(row["io_bytes"]),
            _share(row["saved_bytes_share"]),
            _s(row["total_s"]),
            _share(row["saved_s_share"]),
            _x(row["slowdown"]),
        )
    print_wide(console, table)


def _b(value: float | None) -> str:
    return "-" if value is None else format_bytes(value).split(" (")[0]


def _s(value: float) -> str:
    return format_seconds(value)


def _t(row: Mapping[str, Any], name: str) -> str:
    """A time that may miss parts."""
    return shown_total(row, name, format_seconds)


def _x(value: float | None, digits: int = 4) -> str:
    return "-" if value is None else f"{value:.{digits}g}x"


def _whose(row: Mapping[str, Any]) -> str:
    """Whose computing a slowdown is against."""
    return "its compute" if row.get("tenants") is None else "the compute of all programs,"


def _share(value: float | None) -> str:
    return "-" if value is None else f"{value:.1%}"


def schedule_facts(schedule: Schedule, off_chip_s: float | None, unpriced: Mapping[str, int]) -> dict[str, Any]:
    """What the schedule of a program came to. Its bounds and shares are of all operations, or unknown."""
    facts = {"total_s": schedule.total_s, "bounds_s": schedule.bounds_s, "busy": schedule.busy_shares}
    facts["off_chip_s"] = off_chip_s
    return bounded(facts, unpriced, ("total_s", "off_chip_s"), ("bounds_s", "busy")) if unpriced else facts


def draw_schedule(
    console: Console, machine: str, schedule: Schedule, off_chip_s: float | None, unpriced: Mapping[str, int]
) -> None:
    """What the schedule of a program came to, every byte on chip: its length, its lower bounds, and busy units."""
    facts = schedule_facts(schedule, off_chip_s, unpriced)
    bounds = sorted(schedule.bounds_s.items(), key=lambda each: -each[1])
    said = ", ".join(f"{name} {format_seconds(seconds)}" for name, seconds in bounds)
    busy = ", ".join(f"{unit} {share:.0%}" for unit, share in schedule.busy_shares.items())
    rest = f", as {reason(unpriced)}" if unpriced else f"; not shorter than {said}"
    lines = [f"scheduled, every byte on chip: {_t(facts, 'total_s')}{rest}"]
    lines.append(f"share of the time in which units work: {UNKNOWN if unpriced else busy}")
    if off_chip_s is not None:
        lines.append(f"its own memory moves all keys and plaintexts that are read in {_t(facts, 'off_chip_s')}")
    for line in lines:
        console.print(f"{machine}, {line}", highlight=False)
