"""`--timeline` of `penstock simulate`: plays the one point asked for once more, and writes when what happens."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

import click

from penstock.base.system.files import check_target
from penstock.errors import UsageError
from penstock.front.cli.options import PATH, Values, count_option, together
from penstock.front.cli.output import say
from penstock.scheme.traces.perfetto import DEFAULT_EVENTS, check_timeline_path, write_timeline

if TYPE_CHECKING:
    from penstock.lab.simulation.play import OnMachine
    from penstock.scheme.params.rlwe import KeyForm
    from penstock.scheme.traces.schema import Trace


@dataclass(frozen=True, slots=True, kw_only=True)
class AskedTimeline:
    """A timeline that the command line asks for."""

    path: Path
    max_events: int

    def check(self, axes: Mapping[str, Sequence[object]], *, alone: bool, force: bool) -> None:
        """Raises UsageError where the options name more than one point, or another program; WouldOverwrite."""
        check_timeline_path(self.path)
        if not alone:
            raise UsageError(
                "--timeline draws one program at one point: leave --with, --write-back and --compare-policies out"
            )
        check_target(self.path, force=force)
        for name, values in axes.items():
            if len(values) > 1:
                raise UsageError(
                    f"--timeline draws one point, and --{name.replace('_', '-')} names {len(values)}: name one"
                )


def _asked(values: Values) -> AskedTimeline | None:
    path = values["timeline_path"]
    return None if path is None else AskedTimeline(path=path, max_events=values["timeline_events"])


timeline_options = together(
    "timeline",
    click.option(
        "--timeline",
        "timeline_path",
        type=PATH,
        metavar="FILE",
        help="Write when each unit and channel is busy, for ui.perfetto.dev (.json, .json.gz).",
    ),
    count_option(
        "--timeline-events", DEFAULT_EVENTS, "Events of --timeline at most; whole operations, from the start."
    ),
    make=_asked,
)
"""The command gets one argument `timeline`, an `AskedTimeline` or `None`."""


def draw_point(
    timeline: AskedTimeline, trace: Trace, played: OnMachine, key_form: KeyForm | None, *, force: bool
) -> None:
    """Write the timeline of the one point that was played. Raises: as `point_timeline`."""
    from penstock.lab.simulation.point_timeline import point_timeline

    point, most = played.points[0], timeline.max_events
    drawn = point_timeline(trace, played.ready, point, played.machine, key_form=key_form, max_events=most)
    write_timeline(timeline.path, drawn, force=force)
    other = drawn["otherData"]
    left = other["operations_left_out"]
    note = f"; {left} later ones left out (--timeline-events)" if left else ""
    say(f"timeline of {other['operations']} operations{note} written to {timeline.path}: open it at ui.perfetto.dev")
