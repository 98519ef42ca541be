"""The page of benchmark runs: distributions, trends from run to run, and significance."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from statistics import median

from penstock.base.types import RowView
from penstock.lab.measure.bench.history import History
from penstock.lab.measure.bench.verdict import headline
from penstock.lab.reports.markup import Content, Heading, Markup, columns_of, tag
from penstock.lab.reports.numbers import UNKNOWN, count, percent, ratio, seconds
from penstock.lab.reports.page import TEXT, Section

WIDE, HIGH = 190, 22
"""Of a drawing in a table, in pixels."""
LEAST = 0.02
"""Half of the range of a strip at least, so that a quiet point does not look wild."""


def bench_sections(points: Sequence[History], records: Sequence[tuple[str, RowView]]) -> list[Section]:
    """All sections, in the order of the page.

    Args:   records: (name, `run.json`) of each run, the oldest first.
    """
    several = len(records) > 1
    return [*([_changes(points), _trends(points, [name for name, _ in records])] if several else []), _times(points),
            _runs(records)]  # fmt: skip


def bench_headline(points: Sequence[History], names: Sequence[str]) -> Content:
    """A sentence: changed points, the largest change, and whether it is noise."""
    readings = " and ".join(sorted({point.reading for point in points}))
    sentence = f"{count(len(points))} points, reading {readings}." if len(names) < 2 else headline(points)
    return tag("p", sentence, class_="headline")


def _times(points: Sequence[History]) -> Section:
    """Each point: median, spread, and the runs one by one."""
    section = Section("times", "Times and how they spread")
    section.say("A dot is the median of one run of a point. The line is the median of all its runs.")
    columns = columns_of("Point | With | >Median | >Spread | >Runs | Each run")
    rows = [
        (
            point.item,
            point.where,
            seconds(point.median_s),
            percent(point.spread),
            count(len(point.last)),
            strip(point.last),
        )
        for point in points
    ]
    return section.table("Seconds of a call", columns, rows, provenance=["measured"])


def _changes(points: Sequence[History]) -> Section:
    """Each point against the latest earlier run with it. Changed points come first."""
    section = Section("changes", "What changed")
    known = [point for point in points if point.change is not None]
    if not known:
        return section.leave_out("no earlier run has one of these points")
    rank = {"slower": 0, "faster": 1}
    ordered = sorted(known, key=lambda point: (rank.get(point.verdict, 2), -abs(math.log(_ratio(point)))))
    columns = columns_of(
        "Point | With | Verdict | >Before | >Now | >Ratio | >95 % interval | >p | >Noise | Runs before and now"
    )
    rows = []
    for point in ordered:
        change = point.change or {}
        interval = UNKNOWN if change["low"] is None else f"{change['low']:.3f} to {change['high']:.3f}"
        rows.append(
            (
                point.item,
                point.where,
                point.verdict,
                seconds(change["first_s"]),
                seconds(change["second_s"]),
                f"{change['ratio']:.3f}",
                interval,
                UNKNOWN if change["p_value"] is None else f"{change['p_value']:.3f}",
                percent(change["noise"]),
                strip(point.last, point.samples[str(point.against)]),
            )
        )
    return section.table(
        "Each point against the latest earlier run that has it",
        columns,
        rows,
        provenance=["measured"],
        note="Ratio: now over before, above 1 is slower. 'slower' and 'faster' need p < 0.05 (Mann-Whitney U), an "
        "interval without 1, and a ratio outside the noise of the machine. Rings: before; dots: now.",
    )


def _trends(points: Sequence[History], names: Sequence[str]) -> Section:
    """The median of each point in every run."""
    section = Section("trends", "Trends over the runs")
    runs = [Heading(name) for name in names]
    columns = [Heading("Point", TEXT), Heading("With", TEXT), *runs, Heading("Last to first"), Heading("Trend", TEXT)]
    rows = []
    for point in points:
        medians = [_median(point.samples.get(name)) for name in names]
        known = [value for value in medians if value is not None]
        change = ratio(known[-1] / known[0]) if len(known) > 1 else UNKNOWN
        rows.append((point.item, point.where, *map(seconds, medians), change, trend(medians)))
    return section.table(
        "Median seconds of a call in each run, the oldest first", columns, rows, provenance=["measured"]
    )


def _runs(records: Sequence[tuple[str, RowView]]) -> Section:
    """Machine and versions of each run."""
    section = Section("runs", "The runs")
    columns = columns_of("Run | Started (UTC) | ~Processor | penstock | OpenFHE | >Seed")
    rows = []
    for name, record in records:
        host = record.get("host")
        cpu = host.get("cpu_model") if isinstance(host, Mapping) else None
        versions = (record.get(key) for key in ("penstock_version", "openfhe_version", "seed"))
        words = (record.get("started"), cpu, *versions)
        rows.append((name, *(UNKNOWN if word is None else str(word) for word in words)))
    return section.table("Machines and versions", columns, rows, provenance=["measured"])


def _median(samples: Sequence[float] | None) -> float | None:
    return median(samples) if samples else None


def _ratio(point: History) -> float:
    return float(point.change["ratio"]) if point.change is not None else 1.0


def strip(samples: Sequence[float], before: Sequence[float] = ()) -> Markup:
    """Dots of samples around their common centre: the median of those before, else of the samples."""
    centre = _median(before or samples) or 1.0
    parts = [value / centre - 1 for value in (*samples, *before)]
    reach = max(LEAST, *(abs(part) for part in parts)) * 1.1

    def at(value: float) -> float:
        return WIDE / 2 + (value / centre - 1) / reach * (WIDE / 2 - 6)

    drawn = [tag("path", d=f"M{WIDE / 2} 3V{HIGH - 3}", stroke="var(--line)")]
    drawn += [_dot(at(value), HIGH / 2, "none", "var(--c6)") for value in before]
    drawn += [_dot(at(value), HIGH / 2, "var(--c0)", "none") for value in samples]
    summary = f"{len(samples)} runs within {percent(max(parts) - min(parts))} of {seconds(centre)}"
    return _svg(drawn, summary)


def trend(values: Sequence[float | None]) -> Markup:
    """A line over the runs, from zero change in the middle."""
    known = [(i, value) for i, value in enumerate(values) if value is not None]
    if len(known) < 2:
        return Markup("")
    low, high = min(value for _, value in known), max(value for _, value in known)
    centre, reach = (low + high) / 2, max((high - low) / 2, LEAST * (low + high) / 2)

    def place(i: int, value: float) -> tuple[float, float]:
        return 6 + i * (WIDE - 12) / (len(values) - 1), HIGH / 2 - (value - centre) / reach * (HIGH / 2 - 5)

    places = [place(i, value) for i, value in known]
    path = "".join(f"{'L' if k else 'M'}{x:.1f} {y:.1f}" for k, (x, y) in enumerate(places))
    drawn = [tag("path", d=path, fill="none", stroke="var(--c0)", stroke_width="1.5")]
    drawn += [_dot(x, y, "var(--c0)", "none", 2.5) for x, y in places]
    return _svg(drawn, "medians, the oldest run first")


def _dot(x: float, y: float, fill: str, stroke: str, size: float = 4.0) -> Markup:
    opacity = None if fill == "none" else "0.7"
    return tag("circle", cx=f"{x:.1f}", cy=f"{y:.1f}", r=f"{size:g}", fill=fill, stroke=stroke, fill_opacity=opacity)


def _svg(drawn: Sequence[Markup], summary: str) -> Markup:
    size = {"viewBox": f"0 0 {WIDE} {HIGH}", "width": str(WIDE), "height": str(HIGH)}
    return tag("svg", list(drawn), **size, role="img", aria_label=summary, class_="strip")
