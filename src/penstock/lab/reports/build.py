"""Builds `report.html` from a run folder: everything in one file, nothing fetched from anywhere."""

from __future__ import annotations

import base64
import hashlib
import json
import os
from collections.abc import Sequence
from dataclasses import asdict
from importlib import resources
from pathlib import Path

from penstock.base.runs.folder import RunFolder, folder_around
from penstock.base.system.files import os_errors, readable, write_atomic
from penstock.base.types import RowView
from penstock.errors import UsageError
from penstock.lab.measure.bench.history import histories
from penstock.lab.measure.bench.results import load_results
from penstock.lab.reports.bench import bench_headline, bench_sections
from penstock.lab.reports.budgets import budget_sections, is_budgets
from penstock.lab.reports.budgets import headline as budgets_headline
from penstock.lab.reports.data import ReportData, load
from penstock.lab.reports.figures import overview
from penstock.lab.reports.head import headline, legend, tiles, title
from penstock.lab.reports.markup import Content, Markup, badges, join, tag
from penstock.lab.reports.page import Plots, Section
from penstock.lab.reports.sections import sections
from penstock.lab.reports.space import Space
from penstock.lab.reports.space import script as space_script
from penstock.lab.reports.sweep import headline as sweep_headline
from penstock.lab.reports.sweep import is_sweep, sweep_rows, sweep_sections, sweep_space

DEFAULT_BENCH = Path("benchmarks.html")
MOST_BENCHES = 12
"""Runs whose trends one table can show."""
SPACE = "points"
"""The section of the drawing of many points."""


def build_report(run: RunFolder, output: Path | None = None, *, force: bool = False) -> Path:
    """Write the report of a run, finished or not, with the picture `report/overview.svg`; sweeps and studies of key
    budgets have no picture.

    Args:   run: an open run folder. output: another file to write to (the picture stays in the run folder);
            force: replace `output` where it exists. The run's own report is always replaced.
    Returns: the path of the report.
    Raises: UsageError: as `check_output`; WouldOverwrite, FileError: the report cannot be written; DamagedResults: of
            a sweep.
    """
    if output is not None and os.path.realpath(output) != os.path.realpath(run.report_path):
        check_output(output)
    if is_sweep(run):
        page = page_bytes(render_sweep(run))
    elif is_budgets(run):
        page = page_bytes(render_budgets(load(run)))
    else:
        data = load(run)
        _overview(run, data)
        page = page_bytes(render(data))
    target = output or run.report_path
    write_atomic(target, page, force=force or output is None)
    return target


def build_bench(runs: Sequence[RunFolder], output: Path | None = None, *, force: bool = False) -> Path:
    """Write the page of benchmark runs, the oldest first: of one into its folder, of several to `DEFAULT_BENCH`.

    Raises: UsageError: no results, one run named twice, too many, or as `check_output`; WouldOverwrite, FileError.
    """
    if output is not None and (len(runs) > 1 or os.path.realpath(output) != os.path.realpath(runs[0].report_path)):
        check_output(output)
    page = page_bytes(render_bench(runs))
    target = output or (runs[0].report_path if len(runs) == 1 else DEFAULT_BENCH)
    write_atomic(target, page, force=force or (output is None and len(runs) == 1))
    return target


def render_bench(runs: Sequence[RunFolder]) -> str:
    """The page of benchmark runs."""
    names = names_of(runs, MOST_BENCHES, one=True)
    dated = sorted(zip(names, runs, strict=True), key=lambda pair: str(pair[1].record.get("started") or ""))
    points = histories([(name, load_results(run.path)) for name, run in dated])
    records = [(name, run.record) for name, run in dated]
    title_of = "Benchmarks: " + (names[0] if len(names) == 1 else f"{dated[0][0]} to {dated[-1][0]}")
    header = [tag("h1", title_of), bench_headline(points, names)]
    return whole_page(title_of, records[-1][1], header, None, bench_sections(points, records), Plots())


def names_of(runs: Sequence[RunFolder], most: int, *, one: bool = False) -> list[str]:
    """Short names that differ: the folder's, and its parent's where two have the same.

    Raises: UsageError: fewer than two runs (or one, with `one`), more than `most`, or one named twice.
    """
    if not 2 - one <= len(runs) <= most:
        raise UsageError(f"a comparison of {len(runs)} runs: name {2 - one} to {most}")
    paths = [run.path.resolve() for run in runs]
    for path in paths:
        if paths.count(path) > 1:
            raise UsageError(f"{path} is named twice: name each run once")
    names = [path.name for path in paths]
    return [f"{path.parent.name}/{path.name}" if names.count(path.name) > 1 else path.name for path in paths]


def check_output(path: Path) -> None:
    """Before a page is written to a file that somebody named. Raises: UsageError: it lies in a run folder."""
    folder = folder_around(path)
    if folder is not None:
        raise UsageError(
            f"{path} lies in the run folder {folder}, which holds what its run wrote; name a file elsewhere with -o, "
            "or leave -o out"
        )


def render(data: ReportData) -> str:
    """The whole page."""
    page = Plots()
    parts = sections(data, page)
    header = [tag("h1", title(data)), headline(data), _state(data), tiles(data)]
    return whole_page(title(data), data.record, header, legend(), parts, page)


def render_sweep(run: RunFolder) -> str:
    """The page of a sweep.

    Raises: DamagedResults: its results have changed since they were written.
    """
    record, rows = dict(run.record), sweep_rows(run.path)
    page = Plots()
    parts = sweep_sections(record, rows, page)
    name = str(record.get("config", {}).get("name") or "sweep")
    unfinished = (
        None if run.complete else tag("p", "This sweep was not finished when the report was written.", class_="missing")
    )
    header = [tag("h1", name), sweep_headline(record, rows), unfinished]
    space = sweep_space(rows) if rows else None
    return whole_page(name, record, header, [space_section(space), legend()], parts, page, space=space)


def render_budgets(data: ReportData) -> str:
    """The page of a study of key budgets."""
    page = Plots()
    parts = budget_sections(data, page)
    header = [tag("h1", title(data)), budgets_headline(data), _state(data)]
    return whole_page(title(data), data.record, header, legend(), parts, page)


def whole_page(
    name: str,
    record: RowView,
    header: Content,
    before: Content,
    parts: list[Section],
    page: Plots,
    *,
    space: Space | None = None,
) -> str:
    """The whole document.

    Args:   space: points to explore; `before` has their place (`space_section`).
    """
    scripts = [_resource("report.js"), *([] if space is None else [space_script(), _resource("space_page.js")])]
    held = {
        ident: json.dumps(asdict(figure), separators=(",", ":"), allow_nan=False)
        for ident, figure in page.figures.items()
    }
    if space is not None:
        held["space-data"] = space.to_json()
    main = tag("main", before, [_section(part) for part in parts])
    body = [
        tag("header", header),
        tag("div", navigation(parts, space=space), main, class_="page"),
        tag(
            "footer",
            tag("p", "Written by penstock ", str(record.get("penstock_version", "")), ". This file needs no network."),
        ),
        [_held(ident, text) for ident, text in held.items()],
        [tag("script", Markup(code)) for code in scripts],
    ]
    head = [
        tag("meta", charset="utf-8"),
        tag("meta", http_equiv="Content-Security-Policy", content=_policy(scripts)),
        tag("meta", name="viewport", content="width=device-width, initial-scale=1"),
        tag("meta", name="color-scheme", content="light dark"),
        tag("title", f"{name} · penstock"),
        tag("style", Markup(_resource("report.css"))),
    ]
    return f"<!doctype html>\n{tag('html', tag('head', head), tag('body', body), lang='en')}\n"


def page_bytes(page: str) -> bytes:
    """The content of a page's file; names that are not UTF-8 are escaped."""
    return readable(page).encode()


def _policy(scripts: list[str]) -> str:
    """No request leaves the page, and no script runs but ours, whatever a name in the run contains."""
    hashes = " ".join(
        f"'sha256-{base64.b64encode(hashlib.sha256(code.encode()).digest()).decode()}'" for code in scripts
    )
    return (
        f"default-src 'none'; script-src {hashes or chr(39) + 'none' + chr(39)}; style-src 'unsafe-inline'; "
        "img-src data: blob:; font-src data:; base-uri 'none'; form-action 'none'"
    )


def _held(ident: str, text: str) -> Markup:
    """Data of the page; a closing tag in a string of it would end the script."""
    return tag("script", Markup(text.replace("<", "\\u003c")), type="application/json", id=ident)


def _resource(name: str) -> str:
    return resources.files(__package__).joinpath(name).read_text(encoding="utf-8")


def _overview(run: RunFolder, data: ReportData) -> None:
    """Write the still picture into the run folder."""
    path = run.overview_path
    with os_errors(path.parent, "create"):
        path.parent.mkdir(exist_ok=True)
    write_atomic(path, overview(data), force=True)


def _state(data: ReportData) -> Content:
    if data.complete:
        return None
    done = ", ".join(data.stages) or "none"
    return tag("p", f"This run was not finished when the report was written. Stages done: {done}.", class_="missing")


def navigation(parts: list[Section], *, space: Space | None = None) -> Markup:
    """The list of contents."""
    first = [] if space is None else [("Explore the points", SPACE)]
    links = [*first, *((part.title, part.ident) for part in parts if not part.missing)]
    items = [tag("li", tag("a", text, href=f"#{ident}")) for text, ident in links]
    return tag("nav", tag("ul", items), aria_label="Sections")


def space_section(space: Space | None) -> Markup:
    """The place of the drawing of many points."""
    if space is None:
        return Markup("")
    without = tag("noscript", tag("p", "The drawing needs JavaScript; the tables below do not.", class_="missing"))
    where = tag("div", id="space", class_="space")
    heading = tag("h2", "Explore the points", badges([space.provenance]))
    return tag("section", heading, without, where, id=SPACE)


def _section(part: Section) -> Markup:
    content = tag("p", f"Left out: {part.missing}.", class_="missing") if part.missing else join(part.content)
    return tag("section", tag("h2", part.title), content, id=part.ident)
