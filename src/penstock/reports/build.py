"""Builds `report.html` from a run folder: everything in one file, nothing fetched from anywhere."""

from __future__ import annotations

import base64
import hashlib
import json
import os
from collections.abc import Mapping
from importlib import resources
from pathlib import Path
from typing import Any

from penstock.errors import UsageError
from penstock.reports.budgets import budget_sections, is_budgets
from penstock.reports.budgets import headline as budgets_headline
from penstock.reports.data import ReportData, load
from penstock.reports.head import headline, legend, tiles, title
from penstock.reports.markup import Content, Markup, join, tag
from penstock.reports.page import Plots, Section
from penstock.reports.sections import sections
from penstock.reports.sweep import headline as sweep_headline
from penstock.reports.sweep import is_sweep, sweep_rows, sweep_sections
from penstock.runs.folder import RunFolder, folder_around
from penstock.system.files import os_errors, readable, write_atomic


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
        page = page_bytes(render(data, _overview(run, data)))
    target = output or run.report_path
    write_atomic(target, page, force=force or output is None)
    return target


def check_output(path: Path) -> None:
    """Before a page is written to a file that somebody named. Raises: UsageError: it lies in a run folder."""
    folder = folder_around(path)
    if folder is not None:
        raise UsageError(
            f"{path} lies in the run folder {folder}, which holds what its run wrote; name a file elsewhere with -o, "
            "or leave -o out"
        )


def render(data: ReportData, picture: bytes | None) -> str:
    """The whole page. `picture` is shown where JavaScript is switched off."""
    script = page_script(data.record)
    page = Plots(enabled=script is not None)
    parts = sections(data, page)
    header = [tag("h1", title(data)), headline(data), _state(data), tiles(data), navigation(parts)]
    still = _still(picture, always=script is None)
    return whole_page(title(data), data.record, header, [legend(), still], parts, page, script)


def render_sweep(run: RunFolder) -> str:
    """The page of a sweep.

    Raises: DamagedResults: its results have changed since they were written.
    """
    record, rows = dict(run.record), sweep_rows(run.path)
    script = page_script(record)
    page = Plots(enabled=script is not None)
    parts = sweep_sections(record, rows, page)
    name = str(record.get("config", {}).get("name") or "sweep")
    unfinished = (
        None if run.complete else tag("p", "This sweep was not finished when the report was written.", class_="missing")
    )
    header = [tag("h1", name), sweep_headline(record, rows), unfinished, navigation(parts)]
    return whole_page(name, record, header, [legend()], parts, page, script)


def render_budgets(data: ReportData) -> str:
    """The page of a study of key budgets."""
    script = page_script(data.record)
    page = Plots(enabled=script is not None)
    parts = budget_sections(data, page)
    header = [tag("h1", title(data)), budgets_headline(data), _state(data), navigation(parts)]
    return whole_page(title(data), data.record, header, [legend()], parts, page, script)


def page_script(record: dict[str, Any]) -> str | None:
    """plotly's code; where it is missing, a warning in the record."""
    script = plotly_script()
    if script is None:
        record.setdefault("warnings", []).append(
            {
                "what": "plotly is not installed: the plots are left out, the tables hold all numbers",
                "remedy": "pip install plotly, then 'penstock report' on this folder",
            }
        )
    return script


def whole_page(
    name: str,
    record: Mapping[str, Any],
    header: Content,
    before: Content,
    parts: list[Section],
    page: Plots,
    script: str | None,
) -> str:
    """The whole document."""
    scripts = [script, _resource("report.js")] if script is not None else []
    body = [
        tag("header", header),
        tag("main", before, [_section(part) for part in parts]),
        tag(
            "footer",
            tag("p", "Written by penstock ", str(record.get("penstock_version", "")), ". This file needs no network."),
        ),
        [_figure_data(ident, figure) for ident, figure in page.figures.items()],
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


def plotly_script() -> str | None:
    """plotly.js as its Python package bundles it; `None` where that is not installed."""
    try:
        from plotly.offline import get_plotlyjs
    except ImportError:
        return None
    script: str = get_plotlyjs()
    # Inside a page, a closing tag in a string of the script would end the script.
    return script.replace("</script", "<\\/script")


def _policy(scripts: list[str]) -> str:
    """No request leaves the page, and no script runs but ours, whatever a name in the run contains."""
    hashes = " ".join(
        f"'sha256-{base64.b64encode(hashlib.sha256(code.encode()).digest()).decode()}'" for code in scripts
    )
    return (
        f"default-src 'none'; script-src {hashes or chr(39) + 'none' + chr(39)}; style-src 'unsafe-inline'; "
        "img-src data: blob:; font-src data:; base-uri 'none'; form-action 'none'"
    )


def _figure_data(ident: str, figure: object) -> Markup:
    text = json.dumps(figure, separators=(",", ":"), allow_nan=False)
    return tag("script", Markup(text.replace("<", "\\u003c")), type="application/json", id=ident)


def _resource(name: str) -> str:
    return resources.files(__package__).joinpath(name).read_text(encoding="utf-8")


def _overview(run: RunFolder, data: ReportData) -> bytes | None:
    """Write the still picture into the run folder and return it; a warning where matplotlib is missing."""
    from penstock.reports.overview import write_overview

    path = run.overview_path
    with os_errors(path.parent, "create"):
        path.parent.mkdir(exist_ok=True)
    try:
        write_atomic(path, lambda target: write_overview(data, target), force=True)
    except ImportError:
        data.record.setdefault("warnings", []).append(
            {
                "what": "matplotlib is not installed: the still picture report/overview.svg is missing",
                "remedy": "pip install matplotlib, then 'penstock report' on this folder",
            }
        )
        return None
    with os_errors(path, "read"):
        return path.read_bytes()


def _still(picture: bytes | None, *, always: bool) -> Markup:
    """The still picture; where the page can draw its plots, only for a reader without JavaScript."""
    if picture is None:
        return Markup("")
    source = f"data:image/svg+xml;base64,{base64.b64encode(picture).decode()}"
    image = tag("img", src=source, alt="Overview of the run; the tables hold the numbers.", class_="still")
    return tag("section" if always else "noscript", tag("h2", "Overview"), image)


def _state(data: ReportData) -> Content:
    if data.complete:
        return None
    done = ", ".join(data.stages) or "none"
    return tag("p", f"This run was not finished when the report was written. Stages done: {done}.", class_="missing")


def navigation(parts: list[Section]) -> Markup:
    links = [tag("li", tag("a", part.title, href=f"#{part.ident}")) for part in parts if not part.missing]
    return tag("nav", tag("ul", links), aria_label="Sections")


def _section(part: Section) -> Markup:
    content = tag("p", f"Left out: {part.missing}.", class_="missing") if part.missing else join(part.content)
    return tag("section", tag("h2", part.title), content, id=part.ident)
