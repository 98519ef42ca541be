"""What a page is made of: sections, and the plots that they refer to."""

from __future__ import annotations

from dataclasses import dataclass, field

from penstock.reports import plots
from penstock.reports.markup import Content, Markup, badges, tag

TEXT, PROSE = "text", "prose"


@dataclass(slots=True)
class Section:
    """A heading, what stands under it, and the plots that it refers to."""

    ident: str
    title: str
    content: list[Content] = field(default_factory=list)
    missing: str = ""
    """Why there is nothing to show."""


@dataclass(slots=True)
class Plots:
    """Collects the figures of a page; without plotly's code nothing is drawn and the tables stand alone."""

    enabled: bool
    figures: dict[str, plots.Figure] = field(default_factory=dict)

    def add(self, plot: plots.Plot) -> Markup:
        """The place of a plot in the page."""
        if not self.enabled:
            return Markup("")
        ident = f"figure-{len(self.figures) + 1}-{plot.name}"
        self.figures[ident] = plot.figure
        return tag(
            "figure",
            tag("figcaption", plot.caption, badges(plot.provenance)),
            tag(
                "div",
                class_="plot",
                data_figure=ident,
                style=f"height:{plot.height}px",
                role="img",
                aria_label=plots.describe(plot.caption, plot.figure),
            ),
            class_="drawn",
        )


def side_by_side(left: Content, right: Content) -> Markup:
    """Two blocks beside each other where there is room, below each other where there is not."""
    return tag("div", tag("div", left), tag("div", right), class_="pair")
