"""The report of a sweep: its axes, the best and the worst point of each program, and the effect of each axis."""

from __future__ import annotations

import math
import shlex
from collections.abc import Callable, Sequence
from pathlib import Path
from statistics import median
from typing import Any

from penstock.base.runs.folder import RunFolder
from penstock.base.types import Rows, RowView
from penstock.lab.advice.words import options
from penstock.lab.reports import plots
from penstock.lab.reports.data import entries_of
from penstock.lab.reports.facts import assumption_section
from penstock.lab.reports.markup import Content, Heading, Markup, columns_of, tag
from penstock.lab.reports.numbers import UNKNOWN, count, ratio, seconds, short_size
from penstock.lab.reports.page import TEXT, Plots, Section
from penstock.lab.reports.space import TARGETS, Space, space_of
from penstock.lab.simulation.names import CLASSES
from penstock.lab.simulation.question import SIMGRID
from penstock.lab.simulation.words import WORDS
from penstock.scheme.machines import machine_names, tier_names
from penstock.scheme.play.rows import FORCED_POLICY, felt_slowdown
from penstock.scheme.unpriced import UNPRICED, reason

KIND = "sweep"
"""What `kind` says in the configuration of a sweep's run folder."""
PROGRAM = {"workload": "Workload", "size": "Size", "params": "Parameters", "machine": "Machine", "key_form": "Keys",
           "beside": "Beside it", "classes": "Not resident", "trace": "Trace", "seed": "Seed",
           "interleave": "Turns"}  # fmt: skip
PLACE = {"tier": "Tier", "cache_bytes": "Cache", "policy": "Policy", "hit_ratio": "Hit ratio", "mode": "Mode",
         "prefetch": "Prefetch", "hosts": "Hosts", "network": "Network", "topology": "Topology",
         "partition": "Partition", "engine": "Engine",
         "write_back": "Written back", "decode_bytes_per_s": "Decoding"}  # fmt: skip
"""Columns that may be axes, in the order of the page; those with one value are none."""
MOST_VALUES = 12
"""Values of an axis that are listed and drawn; the others are counted."""
MOST_LINES = 200


def is_sweep(run: RunFolder) -> bool:
    """Whether a run folder is a sweep's."""
    return run.config.get("kind") == KIND


def sweep_rows(path: Path) -> Rows:
    """The rows that are there; none of a sweep that has played nothing yet.

    Raises: DamagedResults: the file is not the one that was written.
    """
    from penstock.lab.sweeps.store import read_results, unpacked

    rows = unpacked(path, read_results(path)) if (path / "results.parquet").is_file() else []
    return [{**row, "write_back": "no" if row.get("written_bytes") is None else "yes"} for row in rows]


def axes(rows: Sequence[RowView]) -> dict[str, list[object]]:
    """Column -> its distinct values, of those with several, in their order; a forced hit ratio only where stated."""
    values_of = {}
    for name in (*PROGRAM, *PLACE):
        stated = [row for row in rows if name != "hit_ratio" or row["cache_bytes"] is None]
        values = {row.get(name) for row in stated}
        if len(values) > 1:
            values_of[name] = sorted(
                values, key=lambda v: (v is not None, isinstance(v, str), v if v is not None else 0)
            )
    return values_of


def sweep_sections(record: RowView, rows: Sequence[RowView], page: Plots) -> list[Section]:
    """All sections, in the order of the page."""
    assumed = assumption_section(entries_of(record, "assumptions"))
    return [_axes(rows), _extremes(rows), *_moves(rows, page), _skipped(record), _warnings(record), assumed]


def headline(record: RowView, rows: Sequence[RowView]) -> Markup:
    """The number of points, and of how many."""
    planned = record.get("config", {}).get("num_points")
    programs = {tuple(row.get(name) for name in PROGRAM) for row in rows}
    sentence = f"{count(len(rows))} points of {count(len(programs))} programs"
    if planned is not None and planned != len(rows):
        sentence += f"; the file names {count(planned)}"
    return tag("p", f"A sweep of {sentence}. Every row is simulated.", class_="headline")


def value_text(name: str, value: Any) -> str:
    """A value of an axis, for people."""
    if value is None:
        return "none"
    return short_size(value) if name == "cache_bytes" else f"{value:g}" if isinstance(value, float) else str(value)


MEASURES: tuple[tuple[str, str, str | None, bool], ...] = (
    ("total_s", "Time", "s", False), ("cache", "Cache size", "B", False), ("num_hosts", "Number of hosts", "1", False),
    ("energy_j", "Energy", "J", False), ("slowdown", "Slowdown", "x", False),
    ("io_bytes", "Loaded bytes", "B", False), ("compute_s", "Compute time", "s", False),
    ("io_s", "I/O time", "s", False), ("communication_s", "Communication time", "s", False),
    ("hit", "Hit ratio", "share", True),
    ("speedup", "Speed-up", "x", True), ("sent_bytes", "Sent bytes", "B", False),
)  # fmt: skip
"""Name, label and unit of each measure, and whether more is better."""
_ALGORITHMS = ("all_gather", "broadcast")
_CLASSES = {trace: name for name, trace in CLASSES.items()}
_SAID: dict[str, Callable[[Any], tuple[str, object]]] = {
    "cache_bytes": lambda value: ("cache", f"{value} B"),
    "decode_bytes_per_s": lambda value: ("decode", f"{value:.17g} B/s"),
    "hit_ratio": lambda value: ("hit_ratio", (value,) if value else ()),
    "policy": lambda value: ("policy", () if value == FORCED_POLICY else (value,)),
    "classes": lambda value: ("classes", ",".join(_CLASSES.get(cls, cls) for cls in value.split(","))),
    "beside": lambda value: ("beside", tuple(value.split(","))),
    "write_back": lambda value: ("write_back", value == "yes"),
    "engine": lambda value: ("simgrid", value == SIMGRID),
}
"""Column -> the word of a question that it is, and the value; where they are not the column itself."""


def sweep_space(rows: Sequence[RowView]) -> Space:
    """The points of a sweep, to be drawn, narrowed and printed again."""
    shown = [
        {**row, "held": row["hit_ratio"], "hit_ratio": None if row["cache_bytes"] is not None else row["hit_ratio"]}
        for row in rows
    ]
    varied = {name: values for name, values in axes(rows).items() if name != "hit_ratio"}
    if "tier" in varied:  # from fast to slow, as far as the points tell
        pace = {tier: min(_seconds_a_byte(row) for row in rows if row["tier"] == tier) for tier in varied["tier"]}
        varied["tier"] = sorted(varied["tier"], key=lambda tier: (pace[tier], tier))
    stated = sorted({row["hit_ratio"] for row in shown}, key=lambda value: (value is not None, value or 0.0))
    if len(stated) > 1:
        varied["hit_ratio"] = stated
    heading = {**PROGRAM, **PLACE}
    return space_of(
        shown,
        axes={name: (heading[name], values) for name, values in varied.items()},
        measures=[(name, label, unit, _measure(name, varied), more) for name, label, unit, more in MEASURES],
        text=lambda name, value: "of the cache" if name == "hit_ratio" and value is None else value_text(name, value),
        word=command_word,
        command=_command(shown, varied) if all(map(_is_named, shown)) else None,
        apart=("workload", "size", "params", "trace", "seed", "beside"),
    )


def _seconds_a_byte(row: RowView) -> float:
    return float(row["io_s"] / row["io_bytes"]) if row["io_bytes"] else math.inf


def _measure(name: str, varied: RowView) -> Callable[[RowView], float | None]:
    """The value of a measure in a row; none if the measure needs an axis and the sweep lacks it."""
    if name == "slowdown":
        return felt_slowdown
    needs = {"cache": "cache_bytes", "num_hosts": "hosts", "speedup": "hosts", "communication_s": "hosts",
             "sent_bytes": "hosts"}  # fmt: skip
    column = {"cache": "cache_bytes", "num_hosts": "hosts", "hit": "held"}.get(name, name)
    if name in needs and needs[name] not in varied:
        return lambda row: None
    return lambda row: float(row[column] or 0) if column in ("cache_bytes", "hosts") else row[column]


def _is_named(row: RowView) -> bool:
    """Whether a command can name the machine and the memory of a row. Files of a user and levels are not in a row."""
    tier = str(row["tier"])
    own = row["machine"] in machine_names() and (tier in tier_names() or tier[:1].isdigit())
    return own and not row.get("levels") and not str(row.get("prefetch")).startswith("perfect")


def _command(rows: Sequence[RowView], varied: RowView) -> str:
    """The words that all rows share; `{target}` where they differ in their program."""
    first = rows[0]
    target = "{target}"
    if not {"workload", "trace"} & set(varied):
        target = shlex.quote(str(first.get("trace") or first["workload"]))
    names = [name for name in (*PROGRAM, *PLACE, *_ALGORITHMS) if name not in (*varied, *TARGETS)]
    words = [command_word(name, first.get(name)) for name in names]
    return " ".join(filter(None, ["penstock simulate", target, *words]))


def command_word(name: str, value: object) -> str:
    """The words for a value of an axis in `penstock simulate`; none for the default."""
    if value is None or value == "":
        return ""
    if name in TARGETS:
        return shlex.quote(str(value))
    word, text = _SAID[name](value) if name in _SAID else (name, str(value))
    usual = WORDS[word].usual if word in WORDS else "0"
    return "" if text == usual or (text,) == usual else shlex.join(options(word, text))


def _axes(rows: Sequence[RowView]) -> Section:
    section = Section("axes", "Axes")
    varied = axes(rows)
    if not varied:
        return section.leave_out("no column has more than one value" if rows else "no point has been played yet")
    lines = []
    for name, values in varied.items():
        shown = ", ".join(value_text(name, value) for value in values[:MOST_VALUES])
        more = f" and {len(values) - MOST_VALUES} more" if len(values) > MOST_VALUES else ""
        lines.append(({**PROGRAM, **PLACE}[name], count(len(values)), shown + more))
    columns = columns_of("Axis | >Values | ~Which")
    return section.table("Axes of the sweep", columns, lines, provenance=["simulated"])


def _extremes(rows: Sequence[RowView]) -> Section:
    """The fastest and the slowest point of each program."""
    section = Section("extremes", "Best and worst")
    programs: dict[tuple[object, ...], list[RowView]] = {}
    for row in rows:
        programs.setdefault(tuple(row.get(name) for name in PROGRAM), []).append(row)
    if not programs:
        return section.leave_out("no point has been played yet")
    moving = [name for name in axes(rows) if name in PLACE]
    lines = []
    for key, mine in list(programs.items())[:MOST_LINES]:
        known = [row for row in mine if row["total_s"] is not None]
        if not known:  # the least bound is not a best point
            lines.append((_program(key), UNKNOWN, UNKNOWN, UNKNOWN, UNKNOWN, reason(mine[0][UNPRICED])))
            continue
        for word, row in (("best", min(known, key=_time)), ("worst", max(known, key=_time))):
            where = ", ".join(f"{PLACE[name].lower()} {value_text(name, row.get(name))}" for name in moving)
            lines.append(
                (
                    _program(key),
                    word,
                    seconds(row["total_s"]),
                    ratio(felt_slowdown(row)),
                    UNKNOWN if row["energy_j"] is None else f"{row['energy_j']:.4g} J",
                    where,
                )
            )
    columns = columns_of("~Program | Point | >Time | >Slowdown | >Energy | ~Where")
    cut = len(programs) - MOST_LINES
    return section.table(
        "The fastest and the slowest point of each program",
        columns,
        lines,
        provenance=["simulated"],
        note=f"{cut} more programs are in results.parquet." if cut > 0 else "",
    )


def _program(key: Sequence[object]) -> str:
    return " ".join(str(part) for part in key if part is not None)


def _time(row: RowView) -> float:
    return float(row["total_s"])


def _moves(rows: Sequence[RowView], page: Plots) -> list[Section]:
    """What each axis moves: least, median and largest slowdown at each of its values."""
    section = Section("moves", "What each axis moves")
    varied = {name: values for name, values in axes(rows).items() if len(values) <= 4 * MOST_VALUES}
    drawn: list[Content] = []
    for name, values in varied.items():
        heading = {**PROGRAM, **PLACE}[name]
        spread = []
        for value in values[:MOST_VALUES]:
            here = [felt for row in rows if row.get(name) == value and (felt := felt_slowdown(row)) is not None]
            if here:
                spread.append((value_text(name, value), min(here), median(here), max(here), len(here)))
        if not spread:
            continue
        caption = f"Slowdown by {heading.lower()}"
        figure = plots.spread(heading, spread)
        if plots.differs(figure):
            drawn.append(page.add(f"by-{name}", caption, figure, ["simulated"]))
        section.table(
            caption,
            [
                Heading(heading, TEXT),
                Heading("Least"),
                Heading("Median"),
                Heading("Largest"),
                Heading("Points"),
            ],
            [(value, ratio(low), ratio(middle), ratio(high), count(n)) for value, low, middle, high, n in spread],
            provenance=["simulated"],
        )
    if not section.content:
        section.missing = "no axis has several values"
        return [section]
    section.content.insert(0, tag("div", drawn, class_="panels"))
    explanation = (
        "Slowdown is the time over the compute time, of the host that ends last. Dots are medians over all other axes, "
        "lines reach from the least to the largest."
    )
    section.content.insert(0, tag("p", explanation))
    return [section]


def _skipped(record: RowView) -> Section:
    section = Section("skipped", "Points that cannot be")
    listed = entries_of(record, "skipped")
    if not listed:
        return section.leave_out("every point that the axes name was played, or the sweep is not finished")
    columns = columns_of("~What | ~Why | >Points")
    lines = [
        (str(combination.get("what")), str(combination.get("why")), count(combination.get("points")))
        for combination in listed[:MOST_LINES]
    ]
    return section.table("Combinations that were left out", columns, lines)


def _warnings(record: RowView) -> Section:
    section = Section("warnings", "Warnings")
    listed = entries_of(record, "warnings")
    if not listed:
        return section.leave_out("there are none")
    columns = columns_of("~What | ~Remedy")
    lines = [(str(warning.get("what")), str(warning.get("remedy"))) for warning in listed]
    return section.table("What makes results less than they seem", columns, lines)
