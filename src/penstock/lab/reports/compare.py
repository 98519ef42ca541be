"""Several runs side by side in one self-contained file: results, plots, assumptions, machines, versions, warnings.

Tables with the numbers need no JavaScript; a ratio is against the first run named. Runs that differ in more than one
thing are shown unchanged. A section lists their differences, so that a reader knows the meaning of a ratio.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path

from penstock.base.runs.folder import RunFolder
from penstock.base.system.files import write_atomic
from penstock.base.types import Row
from penstock.errors import UsageError
from penstock.lab.reports import build, plots
from penstock.lab.reports.budgets import is_budgets
from penstock.lab.reports.data import ReportData, is_streamed, last_by, load, ordered, provenances, sum_by
from penstock.lab.reports.facts import ASSUMED, assumed, command_of, host_facts
from penstock.lab.reports.head import legend, main_mode, title, verdict
from penstock.lab.reports.markup import Content, Heading, badges, columns_of, join, tag
from penstock.lab.reports.numbers import UNKNOWN, count, free, ratio, seconds, short_size
from penstock.lab.reports.page import PROSE, TEXT, Plots, Section, remedies
from penstock.lab.reports.sweep import is_sweep

DEFAULT_OUTPUT = Path("comparison.html")
MOST_RUNS = 12
"""Columns of a table that can still be read."""


@dataclass(frozen=True, slots=True)
class Compared:
    """A run under the name that it has in the comparison."""

    name: str
    data: ReportData


def build_comparison(runs: Sequence[RunFolder], output: Path | None = None, *, force: bool = False) -> Path:
    """Write the comparison of two or more runs to `output` (by default `DEFAULT_OUTPUT`), and return it. The run
    folders are only read.

    Raises: UsageError: fewer than two or too many runs, one named twice, a sweep, or as `build.check_output`;
            WouldOverwrite, FileError.
    """
    if output is not None:
        build.check_output(output)
    page = render_comparison(named_runs(runs))
    target = output or DEFAULT_OUTPUT
    write_atomic(target, build.page_bytes(page), force=force)
    return target


def named_runs(runs: Sequence[RunFolder]) -> list[Compared]:
    """The runs with short names that differ: the folder's, and its parent's where two have the same.

    Raises: UsageError: as `build_comparison`.
    """
    full = build.names_of(runs, MOST_RUNS)
    for run in runs:
        if is_sweep(run) or is_budgets(run):
            what = "a sweep" if is_sweep(run) else "a study of key budgets"
            raise UsageError(f"{run.path} is {what}, which has a separate page; 'penstock report {run.path}' writes it")
    return [Compared(name, load(run)) for name, run in zip(full, runs, strict=True)]


def render_comparison(runs: Sequence[Compared]) -> str:
    """The whole page."""
    record: Row = {"penstock_version": runs[0].data.record.get("penstock_version", ""), "warnings": []}
    page = Plots()
    makers: Sequence[Callable[[Sequence[Compared], Plots], Section]] = (
        overview, differences, times, slowdowns, memory, warnings, assumptions, hosts, commands,
    )  # fmt: skip
    parts = [make(runs, page) for make in makers]
    heading = " against ".join(dict.fromkeys(run.name for run in runs))
    unfinished = [run.name for run in runs if not run.data.complete]
    state = (
        tag("p", f"Not finished when this was written: {', '.join(unfinished)}.", class_="missing")
        if unfinished
        else None
    )
    lead = tag(
        "p", f"{len(runs)} runs; ratios are against the first, ", tag("strong", runs[0].name), ".", class_="headline"
    )
    return build.whole_page(heading, record, [tag("h1", heading), lead, state], legend(), parts, page)


def _against(first: float | None, value: float | None) -> str:
    """A ratio to the first run, in brackets; nothing where one is unknown or the first is 0."""
    return "" if first is None or value is None or first == 0 else f" ({ratio(value / first)})"


def _columns(first: str, runs: Sequence[Compared]) -> list[Heading]:
    return [Heading(first, TEXT), *(Heading(run.name) for run in runs)]


def _values(values: Sequence[float | None], shown: Callable[[float | None], str]) -> list[str]:
    """Values of each run, with the ratio to the first run's."""
    return [shown(v) + ("" if i == 0 else _against(values[0], v)) for i, v in enumerate(values)]


def overview(runs: Sequence[Compared], page: Plots) -> Section:
    """The identity of each run, whether its result is right, and its main numbers."""
    section = Section("overview", "The runs")
    quantities: list[tuple[str, str, Callable[[float | None], str]]] = [
        ("wall_s", "encrypted", seconds), ("setup_s", "set-up", seconds), ("encode_s", "encoding", seconds),
        ("peak_rss_bytes", "peak memory", short_size),
    ]  # fmt: skip
    rows: list[tuple[Content, ...]] = [
        ("program", *(title(run.data) for run in runs)),
        ("parameters", *(str(run.data.config.get("params") or UNKNOWN) for run in runs)),
        ("check", *(verdict(run.data)[0] for run in runs)),
    ]
    where: list[str] = []
    for quantity, name, shown in quantities:
        measured = [run.data.one(quantity) for run in runs]
        if any(measured):
            rows.append((name, *_values([None if r is None else r["value"] for r in measured], shown)))
            where += [r["provenance"] for r in measured if r]
    section.table("The runs", _columns("", runs), rows, provenance=dict.fromkeys(where))
    walls = [(run.name, row["value"]) for run in runs if (row := run.data.one("wall_s"))]
    if len(walls) > 1:
        figure = plots.runs_bars(walls, "Encrypted run (s)")
        section.add(page.add("wall", "Time of the encrypted run", figure, ["measured"], height=120 + 34 * len(walls)))
    return section


def _flat(config: Row, above: str = "") -> dict[str, str]:
    flat: dict[str, str] = {}
    for name, value in config.items():
        if isinstance(value, dict):
            flat |= _flat(value, f"{above}{name}.")
        elif name != "command":
            flat[above + name] = free(name, value) if value is not None else "not set"
    return flat


def differences(runs: Sequence[Compared], page: Plots) -> Section:
    """The differences between the runs: configuration, machine, versions."""
    section = Section("differences", "In what they differ")
    facts_of_runs: list[dict[str, str]] = []
    for run in runs:
        record, host = run.data.record, run.data.section("host")
        facts = _flat(run.data.config)
        facts |= {f"host.{name}": str(host.get(name)) for name in ("cpu_model", "cores", "kernel")}
        facts |= {n: str(record.get(n)) for n in ("threads", "penstock_version", "commit", "openfhe_version")}
        facts_of_runs.append(facts)
    names = [
        name
        for name in dict.fromkeys(n for facts in facts_of_runs for n in facts)
        if len({facts.get(name) for facts in facts_of_runs}) > 1
    ]
    if not names:
        return section.say("In nothing that was recorded: same configuration, machine and versions.")
    section.say("Everything else that was recorded is the same in all of them.")
    return section.table(
        "What differs",
        [Heading("", TEXT), *(Heading(run.name, PROSE) for run in runs)],
        [(name, *(facts.get(name, UNKNOWN) for facts in facts_of_runs)) for name in names],
    )


def times(runs: Sequence[Compared], page: Plots) -> Section:
    """Measured time of each kind of operation."""
    section = Section("time", "Parts of the measured time")
    rows = [[r for r in run.data.of("op_seconds") if r["kind"]] for run in runs]
    if sum(map(bool, rows)) < 2:
        return section.leave_out("fewer than two of these runs hold measured operation times")
    totals = [sum_by(own, lambda r: r["kind"]) for own in rows]
    calls = [sum_by((r for r in run.data.of("op_count") if r["kind"]), lambda r: r["kind"]) for run in runs]
    kinds = sorted({k for sums in totals for k in sums}, key=lambda k: -max(sums.get(k, 0.0) for sums in totals))
    where = provenances(r for own in rows for r in own)
    bars = [(run.name, [of.get(kind) for kind in kinds]) for run, of in zip(runs, totals, strict=True)]
    section.add(
        page.add(
            "time-by-kind",
            "Time by operation kind",
            plots.flat_bars(kinds, bars),
            where,
            height=90 + 18 * len(kinds) * len(runs),
        )
    )
    section.table(
        "Time by operation kind",
        _columns("Kind", runs),
        [(kind, *_values([sums.get(kind) for sums in totals], seconds)) for kind in kinds]
        + [("all", *_values([sum(sums.values()) or None for sums in totals], seconds))],
        provenance=where,
    )
    return section.table(
        "Calls",
        _columns("Kind", runs),
        [(kind, *(count(sums.get(kind)) for sums in calls)) for kind in kinds],
        provenance=where,
    )


def slowdowns(runs: Sequence[Compared], page: Plots) -> Section:
    """Every key access from the tier: machine by tier."""
    section = Section("slowdown", "Slowdown by tier and machine")
    slowdowns_of = [
        {
            quantity: last_by(
                (r for r in run.data.of(quantity) if is_streamed(r) and r["tier"] and r["mode"] == main_mode(run.data)),
                lambda r: (r["machine"], r["tier"]),
            )
            for quantity in ("slowdown", "total_s")
        }
        for run in runs
    ]
    machines = ordered({m for by_point in slowdowns_of for m, _ in by_point["slowdown"]}, ("this-cpu",))
    tiers = ordered({t for by_point in slowdowns_of for _, t in by_point["slowdown"]}, ("hbm", "ddr5", "pcie5", "rdma"))
    points = [
        (m, t) for m in machines for t in tiers if any((m, t) in by_point["slowdown"] for by_point in slowdowns_of)
    ]
    if not points:
        return section.leave_out("none of these runs holds a simulation in which every key access goes to a tier")
    where = provenances(r for run in runs for r in run.data.slowdowns())
    figure = plots.runs_dots(
        points, [(run.name, by_point["slowdown"]) for run, by_point in zip(runs, slowdowns_of, strict=True)]
    )
    section.add(
        page.add("slowdown", "Slowdown, every key access from the tier", figure, where, height=160 + 30 * len(points))
    )
    for caption, quantity, shown in (("Slowdown", "slowdown", ratio), ("Total time", "total_s", seconds)):
        section.table(
            caption,
            [*columns_of("Machine | Tier"), *(Heading(run.name) for run in runs)],
            [
                (*point, *_values([by_point[quantity].get(point) for by_point in slowdowns_of], shown))
                for point in points
            ],
            provenance=where,
        )
    return section


def memory(runs: Sequence[Compared], page: Plots) -> Section:
    """Bytes of each class: touched, and of distinct objects."""
    section = Section("bytes", "Bytes that the programs move")
    rows: list[tuple[Content, ...]] = []
    where: list[str] = []
    for quantity, name in (("bytes_touched", "touched"), ("bytes_unique", "distinct")):
        sizes_of = [last_by(run.data.of(quantity), lambda r: r["kind"]) for run in runs]
        where += provenances(r for run in runs for r in run.data.of(quantity))
        for cls in ordered({c for sizes in sizes_of for c in sizes}, ("key", "ciphertext", "plaintext")):
            rows.append((f"{cls}, {name}", *_values([sizes.get(cls) for sizes in sizes_of], short_size)))
    if not rows:
        return section.leave_out("none of these runs counted bytes")
    return section.table("Bytes by class", _columns("Class", runs), rows, provenance=dict.fromkeys(where))


def warnings(runs: Sequence[Compared], page: Plots) -> Section:
    """Facts that may mislead a reader, each with a remedy and the runs concerned."""
    section = Section("warnings", "Warnings")
    runs_of: dict[tuple[str, str], list[str]] = {}
    for run in runs:
        for warning in run.data.entries("warnings"):
            key = str(warning.get("what", "unnamed")), str(warning.get("remedy", "none known"))
            runs_of.setdefault(key, []).append(run.name)
    processors = {str(run.data.section("host").get("cpu_model")) for run in runs}
    if len(processors) > 1:
        runs_of["the measured times are of different processors", "compare simulated numbers, or measure on one"] = [
            run.name for run in runs
        ]
    if not runs_of:
        return section.say("None.")
    return section.add(
        remedies((what, remedy, tag("br"), "Runs: ", ", ".join(names)) for (what, remedy), names in runs_of.items())
    )


def assumptions(runs: Sequence[Compared], page: Plots) -> Section:
    """Every value of a machine that no datasheet gives, and which runs rest on it."""
    section = Section("assumptions", "Assumed and calibrated values")
    used: dict[tuple[str, ...], list[str]] = {}
    for run in runs:
        for assumption in run.data.entries("assumptions"):
            used.setdefault(assumed(assumption), []).append(run.name)
    if not used:
        return section.leave_out("these runs name no assumed or calibrated value")
    return section.table(
        "Assumed and calibrated values",
        [*ASSUMED, Heading("Runs", PROSE)],
        [(*key, "all" if len(where) == len(runs) else ", ".join(where)) for key, where in used.items()],
    )


def hosts(runs: Sequence[Compared], page: Plots) -> Section:
    """The place and tools of each run."""
    section = Section("host", "Machines and versions")
    facts = [host_facts(run.data, short_size) for run in runs]
    rows = [
        (name, *(UNKNOWN if value is None else str(value) for value in (own[name] for own in facts)))
        for name in facts[0]
        if name not in ("architecture", "frequency governor")
    ]
    return section.table(
        "Machines and versions",
        [Heading("What", TEXT), *(Heading(run.name, PROSE) for run in runs)],
        rows,
        provenance=["measured"],
    )


def commands(runs: Sequence[Compared], page: Plots) -> Section:
    """The command line of each run."""
    section = Section("reproduce", "How to reproduce")
    for run in runs:
        shown = command_of(run.data) or "its command line was not recorded"
        section.add(join([tag("p", run.name, badges([])), tag("pre", tag("code", shown), tabindex="0")]))
    return section
