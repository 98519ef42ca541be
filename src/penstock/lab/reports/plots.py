"""The panels of reports, pictures and figures for papers: which rows each one shows, along which axes."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace

from penstock.base.system.drawing import SYMBOLS, Axis, Panel, Rule, Series
from penstock.base.system.palette import NAMES, tier_colours
from penstock.base.types import Row, Rows
from penstock.lab.reports.data import ReportData, is_cached, is_forced, is_streamed, last_by, ordered, sum_by
from penstock.lab.reports.numbers import percent, ratio, seconds, short_size, shortened

IDEAL_80 = 1.25
"""Slowdown at 80 % of the ideal speed."""
POLICIES = ("lru", "belady", "optimal")
_DASHES = ("solid", "dash", "dot", "dashdot")
_SECONDS = Axis("Total time (s)", "s")


def colour(index: int) -> str:
    """The name of a colour of the palette."""
    return NAMES[index % len(NAMES)]


def symbol(index: int) -> str:
    """A mark of points, another one for each of the first seven series."""
    return SYMBOLS[index % len(SYMBOLS)]


def tier_colour(tiers: Iterable[str]) -> dict[str, str]:
    """The colour of each tier, the same in every picture."""
    return {name: colour(index) for name, index in tier_colours(tiers).items()}


def differs(panel: Panel) -> bool:
    """Whether a panel of slowdowns has something to show: values that are one percent apart or more."""
    across = [] if panel.x.is_named else [series.x for series in panel.series]
    sides = across if panel.y.is_named else [side for s in panel.series for side in (s.y, s.low, s.high)]
    values = [value for side in sides for value in side if value is not None]
    return bool(values) and max(values) > 1.01 * min(values)


def label(text: object) -> str:
    """Text of a label; a long one is cut."""
    return shortened(str(text), 32)


def flat_bars(
    places: Sequence[str],
    series: Sequence[tuple[str, Sequence[float | None]]],
    axis: Axis = _SECONDS,
    texts: Sequence[Sequence[str]] = (),
) -> Panel:
    """Horizontal bars, a group for each place, a bar for each series; `texts` stand at their ends."""
    at = list(range(len(places)))
    bars = [
        Series(values, at, label(name), colour(i), "bar", texts=texts[i] if texts else ())
        for i, (name, values) in enumerate(series)
    ]
    return Panel(bars, axis, Axis(names=[label(place) for place in places]))


def time_by_kind(rows: Sequence[Row], most: int | None = None) -> Panel:
    """Horizontal bars: total measured seconds of each kind, the largest on top, at most `most` of them."""
    totals = sorted(sum_by(rows, lambda r: r["kind"]).items(), key=lambda item: -item[1])[:most]
    values = [value for _, value in totals]
    return flat_bars([kind for kind, _ in totals], [("", values)], texts=[[seconds(value) for value in values]])


def time_by_limbs(rows: Sequence[Row]) -> Panel:
    """Stacked bars: total measured seconds at each number of limbs, by the kinds that take most."""
    by_kind = sorted(sum_by(rows, lambda r: r["kind"]).items(), key=lambda item: -item[1])
    named = [kind for kind, _ in by_kind[: len(NAMES) if len(by_kind) <= len(NAMES) else len(NAMES) - 1]]
    groups: list[tuple[str, set[str]]] = [(kind, {kind}) for kind in named]
    rest = {kind for kind, _ in by_kind} - set(named)
    if rest:
        groups.append((f"{len(rest)} other kinds", rest))
    limbs = sorted({row["limbs"] for row in rows})
    bars = []
    for i, (name, kinds) in enumerate(groups):
        at = sum_by((r for r in rows if r["kind"] in kinds), lambda r: r["limbs"])
        values = [at.get(n, 0.0) for n in limbs]
        bars.append(Series(limbs, values, label(name), colour(i), "bar"))
    step = max(1, len(limbs) // 12)
    x = Axis("Limbs of the ciphertext", ticks=[n for n in range(limbs[0], limbs[-1] + 1) if n % step == 0])
    return Panel(bars, x, _SECONDS, stack=True)


def bytes_by_class(touched: dict[str, float], unique: dict[str, float]) -> Panel:
    """Grouped bars: bytes that all accesses add up to, and bytes of the distinct objects."""
    classes = ordered({*touched, *unique}, ("key", "ciphertext", "plaintext"))
    values = [[of.get(name) for name in classes] for of in (touched, unique)]
    texts = [[short_size(value) if value is not None else "" for value in side] for side in values]
    series = list(zip(("touched, every access", "distinct objects"), values, strict=True))
    return flat_bars(classes, series, Axis("Bytes (B)", "B"), texts)


def _slowdown(title: str = "Slowdown (×, log)") -> Axis:
    """A logarithmic axis from 1, the ideal."""
    return Axis(title, "x", True, (0.93, None))


def _dots(
    places: Sequence[str], series: Sequence[tuple[str, Sequence[float | None]]], title: str, text: str = ""
) -> Panel:
    """Dots on a logarithmic axis of slowdowns: a row for each place, a symbol for each series."""
    at = list(range(len(places)))
    dots = [
        Series(values, at, label(name), colour(i), symbol(i), size=12)
        for i, (name, values) in enumerate(series)
        if any(value is not None for value in values)
    ]
    y = Axis(title, names=[label(place) for place in places])
    return Panel(dots, _slowdown("Slowdown against ideal memory (×, log)"), y, rules=[Rule("x", IDEAL_80, text)])


def slowdown_by_tier(data: ReportData, mode: str) -> Panel | None:
    """Dots on a logarithmic axis: every key access from the tier, one symbol a machine."""
    rows = [r for r in data.slowdowns() if r["mode"] in (mode, None) and r["tier"] and is_streamed(r)]
    if not rows:
        return None
    tiers = [t for t in data.tiers() if t in {r["tier"] for r in rows}]
    series = []
    for machine in data.machines():
        at = last_by((r for r in rows if r["machine"] == machine), lambda r: r["tier"])
        series.append((machine, [at.get(tier) for tier in tiers]))
    return _dots(tiers, series, "Tier that holds the keys", "80 % of the ideal")


def forced(data: ReportData, mode: str) -> Rows:
    """Slowdowns at a stated hit ratio, of one mode."""
    return [r for r in data.slowdowns() if r["mode"] in (mode, None) and r["tier"] and r["machine"] and is_forced(r)]


def slowdown_by_hit_ratio(data: ReportData, machine: str, mode: str) -> Panel | None:
    """Lines by tier over the forced hit ratio, with a star where 80 % of the ideal is reached."""
    rows = [r for r in forced(data, mode) if r["machine"] == machine]
    if len({r["hit_ratio"] or 0.0 for r in rows}) < 2:
        return None
    needed = last_by((r for r in required_rows(data, mode) if r["machine"] == machine), lambda r: r["tier"])
    lines: list[Series] = []
    paint = tier_colour(data.tiers())
    for i, tier in enumerate(data.tiers()):
        at = dict(sorted(last_by((r for r in rows if r["tier"] == tier), lambda r: r["hit_ratio"] or 0.0).items()))
        if not at:
            continue
        name, own = label(tier), paint[tier]
        lines.append(Series(list(at), list(at.values()), name, own, symbol(i), "solid"))
        if 0.0 < needed.get(tier, 0.0) <= 1.0:
            lines.append(Series([needed[tier]], [IDEAL_80], name, own, "star", size=14))
    x = Axis("Hit ratio of evaluation keys (%); stars: 80 % of the ideal", "%", ends=(-0.02, 1.02))
    return Panel(lines, x, _slowdown(), rules=[Rule("y", IDEAL_80)])


def slowdown_by_cache(data: ReportData, machine: str, mode: str) -> Panel | None:
    """Lines by tier over the cache size: LRU solid, Belady dashed, the optimum in bytes dotted."""
    rows = [
        r
        for r in data.slowdowns()
        if r["machine"] == machine and r["mode"] in (mode, None) and is_cached(r) and r["cache_bytes"] > 0
    ]
    if not rows:
        return None
    lines: list[Series] = []
    paint = tier_colour(data.tiers())
    for i, tier in enumerate(data.tiers()):
        for j, policy in enumerate(ordered((r["policy"] for r in rows), POLICIES)):
            own = (r for r in rows if r["tier"] == tier and r["policy"] == policy)
            at = dict(sorted(last_by(own, lambda r: r["cache_bytes"]).items()))
            if at:
                mark = symbol(i) + ("-open" if j else "")
                lines.append(Series(list(at), list(at.values()), label(tier), paint[tier], mark, _DASHES[j % 4]))
    return Panel(lines, Axis("Cache for evaluation keys (B, log)", "B", True), _slowdown())


def spread(heading: str, values: Sequence[tuple[str, float, float, float, int]]) -> Panel:
    """For each value of an axis a dot at the median, with a line from the least to the largest slowdown.

    Args:   values: (value, least, median, largest, points) of each value, in their order.
    """
    names, low, middles, high, _ = ([*side] for side in zip(*values, strict=True))
    dots = Series(range(len(names)), middles, mark="circle", size=9, low=low, high=high, texts=names)
    return Panel([dots], Axis(heading, names=[label(name) for name in names]), _slowdown())


def required_rows(data: ReportData, mode: str) -> Rows:
    """Rows of the hit ratio needed for 80 % of the ideal, of one mode where rows name their mode."""
    rows = [r for r in data.of("hit_ratio_for_80_percent") if r["tier"]]
    return [r for r in rows if r["mode"] == mode] or [r for r in rows if r["mode"] is None] or rows


def key_working_set(data: ReportData) -> list[Panel]:
    """Over the program: distinct keys a window, bytes touched a window, distinct bytes in a window and so far."""
    windows = data.windows
    span = windows[0].num_operations
    middles = [w.first_operation + w.num_operations / 2 for w in windows]
    ends = [0, *(w.first_operation + w.num_operations for w in windows)]
    held = [0, *(w.cumulative_unique_bytes for w in windows)]
    so_far = Series(ends, held, "distinct so far", "c2", "area", "solid", low=[0] * len(held), high=held)
    keys, touched, distinct = (
        [getattr(w, name) for w in windows] for name in ("distinct_keys", "touched_bytes", "unique_bytes")
    )
    x = Axis("Operation (number in program order)", ends=(0, ends[-1]))
    y, bar = Axis(f"Distinct keys in each window of {span} operations"), Series(middles, keys, mark="bar")
    in_bytes = Axis("Key bytes touched in each window (B)", "B")
    return [
        Panel([bar], x, y),
        Panel([replace(bar, y=touched, colour="c1")], x, in_bytes),
        Panel([so_far, replace(bar, y=distinct, name="distinct in each window")], x, Axis("Distinct bytes (B)", "B")),
    ]


def fit_quality(measured: dict[tuple[str, int], float], predicted: dict[tuple[str, int], float]) -> Panel:
    """Predicted against measured seconds of every (kind, limbs), with the line where both are equal."""
    both = [key for key in measured if key in predicted and measured[key] > 0 and predicted[key] > 0]
    values = [side[key] for side in (measured, predicted) for key in both]
    ends = [min(values) / 1.5, max(values) * 1.5]
    series = [Series(ends, ends, "equal", "muted", dash="dash")]
    for i, kind in enumerate(ordered((kind for kind, _ in both), ())):
        points = sorted(key for key in both if key[0] == kind)
        x, y = ([side[key] for key in points] for side in (measured, predicted))
        mark, texts = symbol(i + i // len(NAMES)), [f"{n} limbs" for _, n in points]
        series.append(Series(x, y, label(kind), colour(i), mark, size=9, texts=texts))
    across, up = (Axis(f"{name} total (s, log)", "s", True, (ends[0], ends[1])) for name in ("Measured", "Predicted"))
    return Panel(series, across, up)


def runs_bars(values: Sequence[tuple[str, float]], title: str) -> Panel:
    """Horizontal bars of seconds, one a run in the run's colour, the first on top."""
    at = range(len(values))
    texts = [seconds(value) for _, value in values]
    bars = Series([v for _, v in values], at, "", [colour(i) for i in at], "bar", texts=texts)
    return Panel([bars], Axis(title, "s"), Axis(names=[label(name) for name, _ in values]))


def runs_dots(points: Sequence[tuple[str, str]], runs: Sequence[tuple[str, Mapping[tuple[str, str], float]]]) -> Panel:
    """Dots on a logarithmic axis: a row for each (machine, tier), a symbol for each run."""
    places = [f"{machine}, {tier}" for machine, tier in points]
    return _dots(places, [(name, [values.get(point) for point in points]) for name, values in runs], "")


def ideal_share(slowdown: float) -> str:
    """A slowdown with the share of the ideal speed that it leaves."""
    return f"{ratio(slowdown)} ({percent(1 / slowdown, 0)})" if slowdown > 0 else ratio(slowdown)
