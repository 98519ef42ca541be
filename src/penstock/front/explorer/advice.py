"""The remedies of the point of a page, as `penstock simulate` ranks them, with the settings that a click changes."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from penstock.base.types import RowView
from penstock.base.version import __version__
from penstock.front.explorer.asked import Asked, setting_of
from penstock.front.explorer.engine import Engine
from penstock.front.explorer.state import State
from penstock.front.explorer.view import View, inputs, results
from penstock.lab.advice.remedy import KINDS, Advice
from penstock.lab.advice.simulated import Plays, advise_setting
from penstock.lab.simulation.play import Ready, ready_for
from penstock.lab.simulation.question import Question
from penstock.lab.simulation.words import SETTINGS
from penstock.scheme.traces.schema import Trace

TITLE = "What would help most"
MOST_HOSTS = 8
"""Hosts of a point whose changes are played for a page."""


def advice(engine: Engine, state: State) -> View:
    """A row for each remedy, the largest gain first. Each is played as the point itself was.

    Raises: as `views.point.whatif`.
    """
    settled = engine.settled(state)
    if settled.hosts > MOST_HOSTS:
        return View(
            name="advice",
            title=TITLE,
            columns=[],
            rows=[],
            command=Asked.of(settled, tier=engine.tier_text(settled)).command(engine.library) + " --advice",
            notes=[f"With more than {MOST_HOSTS} hosts the changes take too long for a page; the command ranks them."],
        )
    point = replace(settled, other="", run="", other_run="", predictions="", first=0, last=0)
    ranked = engine.advised(point, lambda: _advised(engine, point))
    source = f"penstock {__version__}: the same simulation with this change"
    notes = [f"Without gain: {', '.join(KINDS[kind] for kind in ranked.without_gain)}."] if ranked.without_gain else []
    notes += [f"Not tried: {text}." for text in ranked.not_tried]
    return View(
        name="advice",
        title=TITLE,
        columns=[
            *inputs(("kind", "change of"), ("change", "change")),
            *results("simulated", source, ("gain", "gain", "x"), ("after", "then", "s")),
            *inputs(("command", "command")),
        ],
        rows=[
            {**remedy.to_row(), "kind": KINDS[remedy.kind], "opens": _opens(remedy.changes)}
            for remedy in ranked.remedies
        ],
        command=Asked.of(settled, tier=engine.tier_text(settled)).command(engine.library),
        notes=notes,
        drawing={"about": ranked.about, "now": ranked.now},
    )


def _advised(engine: Engine, state: State) -> Advice:
    library = engine.library
    words = Asked.of(state, tier=engine.tier_text(state)).words(library)
    setting = replace(setting_of(library, state, words), machine=engine.machine(state.machine))
    trace = engine.trace(state)

    def ready(question: Question, used: Trace, beside: Sequence[Trace]) -> Ready:
        (form,) = question.key_forms
        if used is not trace:
            return ready_for(question, used, question.machines[0], form, beside)
        priced = replace(state, key_form="" if form is None else form.value)
        return engine.ready(priced, state.machine, clusters=question.on_clusters)

    return advise_setting(setting, engine.plays(state, lambda: Plays(trace=trace, ready=ready)))


def _opens(changes: RowView) -> dict[str, str] | None:
    """The settings of the page after a remedy; `None`: the page has none for it."""
    changed = {name: value for name, value in changes.items() if value is not None}
    if not changed.keys() <= {word.name for word in SETTINGS.taken()}:
        return None
    opens = {SETTINGS(name): value if isinstance(value, str) else str(value[0]) for name, value in changed.items()}
    opens |= {"drive": ""} if "tier" in changed else {}
    return opens | ({"hold": "cache"} if "cache" in changed else {})
