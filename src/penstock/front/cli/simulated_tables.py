"""Tables of simulated rows on the command line."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence

from rich.console import Console

from penstock.base.types import Row, RowView
from penstock.base.units import format_seconds
from penstock.front.cli.output import Own, draw_rows, short_bytes
from penstock.lab.simulation.crowd import Crowd, verdict
from penstock.scheme.play.rows import each_once
from penstock.scheme.play.schedule import Schedule
from penstock.scheme.unpriced import AT_LEAST, UNKNOWN, bounded, reason, shown_total


def draw_points(
    console: Console,
    rows: Sequence[RowView],
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
    columns = "machine=marked | tier | mode=paced | on chip=held | >compute=compute_s | >I/O=io_s | >total=total_s"
    columns += " | >of first=of_first" * several
    columns += f" | >{'total/compute' if shared else 'slowdown'}=slowdown:{{:.4g}}x"
    columns += " | >worst tenant=tenant_slowdown:{:.4g}x" * shared + " | >80 % needs=needs"
    ratio = {(machine, tier): value for machine, tier, value in needed}

    def needs(row: RowView) -> str:
        share = ratio.get((row["machine"], row["tier"])) if row["mode"] == "serial" else None
        return "-" if share is None else f"{share:.2%} hits"

    own: Own = {
        **_HELD, "marked": lambda row: row["machine"] + " *" * (row["machine"] in uncalibrated), "needs": needs,
        "of_first": lambda row: _x(row["total_s"] and row["total_s"] / first["total_s"], 3),
    }  # fmt: skip
    draw_rows(console, rows, columns + " | >written back=written_bytes" * written, own, wide=True)
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


def draw_crowd(console: Console, rows: Sequence[RowView], crowd: Crowd) -> None:
    """A line for each number of tenants, and how many of them keep to the limit."""
    first = rows[0]
    program = first["workload"].split("+")[0]
    console.print(f"{program} at {_sets(rows)}, simulated; each tenant has its own keys", highlight=False)
    points: dict[tuple[str, ...], list[RowView]] = {}
    for row in rows:
        points.setdefault((row["machine"], row["tier"], _mode_of(row), _held(row)), []).append(row)
    draw_rows(
        console,
        [row for mine in points.values() for row in mine],
        "machine | memory=tier | mode=paced | on chip=held | >tenants=num_tenants | >compute=compute_s | >I/O=io_s "
        "| >last end=total_s | >times its compute=tenant_slowdown:{:.4g}x | >times alone=times_alone:{:.4g}x",
        {**_HELD, "held": _held},
        wide=True,
    )
    console.print("'times its compute': last end over a tenant's own compute time, every key at hand", highlight=False)
    console.print("'times alone': last end over the end of a tenant alone in the same memory", highlight=False)
    for point, mine in points.items():
        if crowd.is_limited:
            console.print(f"{', '.join(dict.fromkeys(point))}: {verdict(mine, crowd)}", highlight=False, markup=False)


def _held(row: RowView) -> str:
    """The memory on chip, by size: the hit ratio differs between the rows of a point."""
    if row["cache_bytes"] is None:
        return _on_chip_of(row)
    return f"{short_bytes(row['cache_bytes'])} {row['policy']}"


def draw_hosts(console: Console, rows: Sequence[RowView]) -> None:
    """A table of cluster rows."""
    first = rows[0]
    console.print(f"{first['workload']} at {_sets(rows)}, simulated, {first['topology'].split(':')[0]}")
    apart = len({_on_chip_of(row) for row in rows}) > 1
    columns = (
        f"machine | tier | mode=paced{' | on chip=held' * apart} | network | partition | >hosts | >compute=compute_s"
    )
    columns += " | >I/O=io_s | >communication=communication_s | >total=total_s | >speedup=speedup:{:.3g}x"
    draw_rows(console, rows, columns, _HELD, wide=True)
    if any(row["programs"] > 1 for row in rows):
        console.print("by-tenant: a program on every host; 'speedup' is programs a second")


def _sets(rows: Sequence[RowView]) -> str:
    """The parameter sets, with their machines where each has its own."""
    sets = {row["params"]: row["machine"] for row in reversed(rows)}
    if len(sets) == 1:
        return str(next(iter(sets)))
    return ", ".join(f"{params} ({machine})" for params, machine in reversed(sets.items()))


def _mode_of(row: RowView) -> str:
    """The time mode, and how far it loads ahead where that is not the usual."""
    return str(row["mode"]) if row["prefetch"] in (None, "next-1") else f"{row['mode']}, {row['prefetch']}"


def _on_chip_of(row: RowView) -> str:
    """The data kept on chip."""
    if row["cache_bytes"] is None:
        return "nothing" if row["hit_ratio"] == 0 else f"{row['hit_ratio']:.4g} of the bytes"
    achieved = "" if row["hit_ratio"] is None else f", {row['hit_ratio']:.2%} hit"
    return f"{short_bytes(row['cache_bytes'])} {row['policy']}{achieved}"


def draw_levels(console: Console, rows: Sequence[RowView]) -> None:
    """A line for each row, and a table of its levels below."""
    first = rows[0]
    console.print(f"{each_once(first['workload'])} at {first['params']}, simulated", highlight=False)
    for row in rows:
        ahead = "" if row["prefetch"] is None else f", prefetch {row['prefetch']}"
        slower = (
            ""
            if row["slowdown"] is None
            else f", {_x(row['slowdown'])} {_whose(row)} {format_seconds(row['compute_s'])}"
        )
        if row.get("tenant_slowdown") is not None:
            slower += f"; the worst tenant ends at {_x(row['tenant_slowdown'])} its own"
        console.print(
            f"\n{row['machine']}, {row['mode']}{ahead}: {_t(row, 'total_s')}{slower}", highlight=False, markup=False
        )
        draw_rows(
            console,
            [_level(level, written="written_bytes" in row) for level in row["levels"]],
            "level | holds | policy | >taken=taken_bytes | >accesses hit=hit:{:.2%} | >served=served_bytes "
            "| >channel=channel_bytes | >written=written_bytes | >busy=busy_s | >decoding=decode_s "
            "| >energy=energy_j:{:.4g} J",
            wide=True,
        )
    draw_tenants(console, rows)


def draw_tenants(console: Console, rows: Sequence[RowView]) -> None:
    """The end of each program that shares the machine, and the time that it waited for others."""
    if not any(row.get("tenants") for row in rows):
        return
    tenants = [{**tenant, **{name: row[name] for name in _WHERE}} for row in rows for tenant in row["tenants"]]
    console.print()
    draw_rows(
        console,
        tenants,
        "machine | tier | mode | program=tenant | >operations=num_operations | >compute=compute_s | >loaded=io_bytes "
        "| >ends=finish_s | >slowdown=slowdown:{:.4g}x",
        wide=True,
    )


def _level(level: RowView, *, written: bool) -> Row:
    """A level of memory as a row; an operation without a price may read and write there."""
    row = {**level, "holds": "everything" if level["policy"] is None else short_bytes(level["capacity_bytes"])}
    if level["hits"] is None:
        unknown = ["hit", "taken_bytes", "written_bytes", *_SUMS]
        return row | dict.fromkeys(unknown) | {AT_LEAST: dict.fromkeys(unknown)}
    asked = level["hits"] + level["misses"]
    return row | {
        "taken_bytes": level["reserved_bytes"] + level["pinned_bytes"] or None,
        "hit": level["hits"] / asked if asked else None,
        "written_bytes": level["written_bytes"] if written else None,
        "decode_s": level["decode_s"] or None,
    }


def draw_locality(console: Console, rows: Sequence[RowView]) -> None:
    """The bytes that each runtime loads and its time, against LRU on demand."""
    first = rows[0]
    console.print(
        f"{first['workload']} at {first['params']}, simulated; prefetching takes its buffer from the same memory",
        highlight=False,
    )
    draw_rows(
        console,
        rows,
        "machine | tier | runtime | >memory=memory_bytes | >buffer=prefetch_buffer_bytes | >bytes hit=hit_ratio:{:.2%} "
        "| >loaded=io_bytes | >saved=saved_bytes_share:{:.1%} | >total=total_s | >saved =saved_s_share:{:.1%} "
        "| >slowdown=slowdown:{:.4g}x",
        wide=True,
    )


def _t(row: RowView, name: str) -> str:
    """A time that may miss parts."""
    return shown_total(row, name, format_seconds)


def _x(value: float | None, digits: int = 4) -> str:
    return "-" if value is None else f"{value:.{digits}g}x"


def _whose(row: RowView) -> str:
    """Whose computing a slowdown is against."""
    return "its compute" if row.get("tenants") is None else "the compute of all programs,"


_HELD: Own = {"paced": _mode_of, "held": _on_chip_of}
"""Columns of simulated rows that are made of several."""
_WHERE = ("machine", "tier", "mode")
_SUMS = ("served_bytes", "channel_bytes", "busy_s", "decode_s", "energy_j")
"""Of a level of memory."""


def schedule_facts(schedule: Schedule, off_chip_s: float | None, unpriced: Mapping[str, int]) -> Row:
    """What the schedule of a program came to. Its bounds and shares are of all operations, or unknown."""
    facts = {"total_s": schedule.total_s, "bounds_s": schedule.bounds_s, "busy": schedule.busy_shares}
    facts["off_chip_s"] = off_chip_s
    return bounded(facts, unpriced, ("total_s", "off_chip_s"), ("bounds_s", "busy")) if unpriced else facts


def draw_schedule(
    console: Console, machine: str, schedule: Schedule, off_chip_s: float | None, unpriced: Mapping[str, int]
) -> None:
    """What the schedule of a program came to, every byte on chip: its length, its lower bounds, and busy units."""
    facts = schedule_facts(schedule, off_chip_s, unpriced)
    bounds = sorted(schedule.bounds_s.items(), key=lambda bound: -bound[1])
    bounds_text = ", ".join(f"{name} {format_seconds(seconds)}" for name, seconds in bounds)
    busy = ", ".join(f"{unit} {share:.0%}" for unit, share in schedule.busy_shares.items())
    rest = f", as {reason(unpriced)}" if unpriced else f"; not shorter than {bounds_text}"
    lines = [f"scheduled, every byte on chip: {_t(facts, 'total_s')}{rest}"]
    lines.append(f"share of the time in which units work: {UNKNOWN if unpriced else busy}")
    if off_chip_s is not None:
        lines.append(f"its own memory moves all keys and plaintexts that are read in {_t(facts, 'off_chip_s')}")
    for line in lines:
        console.print(f"{machine}, {line}", highlight=False)
