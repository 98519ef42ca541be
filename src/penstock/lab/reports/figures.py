"""Still pictures of a run: one of its panels together, and figures for a paper, one file a panel.

Colours are the reports', which colour-blind readers can tell apart; symbols differ too, so that a figure can be printed
in grey. A figure for a paper has no title: `captions.txt` has a sentence for each, with the provenance of its numbers.
"""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

from penstock.base.system.drawing import SIZE, Axis, Panel, Picture, described, standalone
from penstock.base.system.files import os_errors, write_atomic
from penstock.errors import UsageError
from penstock.lab.reports import plots
from penstock.lab.reports.data import ReportData, is_streamed, provenances
from penstock.lab.reports.head import main_mode, parameters_in_words, title
from penstock.lab.reports.numbers import shortened

WIDTHS = {"one-column": (241.0, 7.0, 0.72), "two-column": (504.6, 8.0, 0.42)}
"""Points of a column of 85 mm and a page of 178 mm, points of the letters, and the height over the width."""
STYLES = {"sans": "'DejaVu Sans', sans-serif", "serif": "'DejaVu Serif', serif"}


def panels(data: ReportData) -> dict[str, Panel]:
    """The panels that the run has rows for, titled with their provenance: `time`, `slowdown`, `hit-ratio`, `keys`."""
    mode = main_mode(data)
    timed = [r for r in data.of("op_seconds") if r["kind"]]
    streamed = [r for r in data.slowdowns() if r["mode"] in (mode, None) and r["tier"] and is_streamed(r)]
    forced = plots.forced(data, mode)
    worst = str(max(forced, key=lambda r: r["value"])["machine"]) if forced else ""
    forced = [r for r in forced if r["machine"] == worst]
    slowdown = plots.slowdown_by_tier(data, mode)
    if slowdown is not None:
        slowdown = replace(slowdown, x=replace(slowdown.x, title=f"{slowdown.x.title}, {mode}"))
    drawn: dict[str, tuple[Panel | None, str, list[str]]] = {
        "time": (plots.time_by_kind(timed, 10) if timed else None, "Time by operation kind", provenances(timed)),
        "slowdown": (slowdown, "Every key from the tier", provenances(streamed)),
        "hit-ratio": (plots.slowdown_by_hit_ratio(data, worst, mode), f"{shortened(worst, 24)}: keys that hit",
                      provenances(forced)),
        "keys": (plots.key_working_set(data)[-1] if data.windows else None, "Key working set",
                 ["counted in the trace"]),
    }  # fmt: skip
    return {
        name: replace(panel, title=f"{text} ({', '.join(where)})" if where else text)
        for name, (panel, text, where) in drawn.items()
        if panel is not None
    }


def overview(data: ReportData) -> bytes:
    """All panels as one SVG, for a README or a slide; the same run gives the same bytes."""
    drawn = list(panels(data).values()) or [Panel(series=[], x=Axis(), y=Axis(), title="this run holds no results yet")]
    heading = shortened(f"{title(data)} with {parameters_in_words(data)}", 110)
    return standalone(Picture(panels=drawn, title=heading, columns=2, apart=True), numbers_of(data))


def numbers_of(data: ReportData) -> str:
    """The numbers of the picture that a reader compares, as text, for whoever cannot see it."""
    wall = [f"measured {row['value']:.4g} s encrypted" for row in data.of("wall_s")[:1]]
    streamed = [row for row in data.of("slowdown") if row["mode"] == "serial" and is_streamed(row)]
    slowdowns = [f"{row['machine']} over {row['tier']} {row['value']:.3g}x" for row in streamed]
    return "; ".join([*wall, *(f"simulated slowdown of {text}" for text in slowdowns)])


def write_figures(data: ReportData, folder: Path, *, width: str, style: str, force: bool = False) -> list[Path]:
    """Write every panel that the run has rows for as SVG, and `captions.txt`; the same run gives the same bytes.

    Raises: UsageError: no such width or style, or nothing to draw; WouldOverwrite, FileError.
    """
    for value, known, what in ((width, WIDTHS, "width"), (style, STYLES, "style")):
        if value not in known:
            raise UsageError(f"{what} '{value}': known are {', '.join(known)}")
    drawn = panels(data)
    if not drawn:
        raise UsageError("this run holds nothing that a figure could show: no measured times, no simulation, no trace")
    with os_errors(folder, "create"):
        folder.mkdir(parents=True, exist_ok=True)
    points, letters, shape = WIDTHS[width]
    wide = points * SIZE / letters
    files: dict[str, bytes] = {}
    captions: list[str] = []
    for name, panel in drawn.items():
        caption = f"{name}: {panel.title}; {title(data)} with {parameters_in_words(data)}."
        figure = Picture(panels=[replace(panel, title="")], width=wide, height=wide * shape)
        text = ". ".join(filter(None, (caption, described(figure))))
        files[f"{name}.svg"] = standalone(figure, text, font=STYLES[style], points=points, dark=False)
        captions.append(caption)
    files["captions.txt"] = ("\n".join(captions) + "\n").encode()
    for name, content in files.items():
        write_atomic(folder / name, content, force=force)
    return [folder / name for name in files]
