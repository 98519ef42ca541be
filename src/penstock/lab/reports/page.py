"""The parts of a page: sections, and their plots."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field

from penstock.base.system.drawing import Panel, Picture, described, inline
from penstock.lab.reports.markup import Content, Heading, Markup, badges, table, tag

TEXT, PROSE = "text", "prose"


@dataclass(slots=True)
class Section:
    """A heading, what stands under it, and the plots that it refers to."""

    ident: str
    title: str
    content: list[Content] = field(default_factory=list)
    missing: str = ""
    """Why there is nothing to show."""

    def add(self, *content: Content) -> Section:
        """Put something under the heading, after what stands there."""
        self.content.extend(content)
        return self

    def say(self, *texts: Content) -> Section:
        """Put a paragraph under the heading."""
        return self.add(tag("p", *texts))

    def beside(self, left: Content, right: Content) -> Section:
        """Put two blocks under the heading: side by side if there is room, else one below the other."""
        return self.add(tag("div", tag("div", left), tag("div", right), class_="pair"))

    def leave_out(self, why: str) -> Section:
        """Show the reason instead of the content."""
        self.missing = why
        return self

    def table(
        self,
        caption: str,
        columns: Sequence[Heading],
        rows: Iterable[Sequence[Content]],
        *,
        provenance: Iterable[str] = (),
        note: str = "",
    ) -> Section:
        """Put a table under the heading."""
        return self.add(table(caption, columns, rows, provenance=provenance, note=note))


@dataclass(slots=True)
class Plots:
    """The figures of a page, in their order."""

    figures: dict[str, Picture] = field(default_factory=dict)

    def add(
        self, name: str, caption: str, panels: Panel | Sequence[Panel], provenance: Sequence[str], height: int = 340
    ) -> Markup:
        """A drawn figure. Args: provenance: of the rows that it shows; height: of a panel."""
        ident = f"figure-{len(self.figures) + 1}-{name}"
        figure = Picture(panels=[panels] if isinstance(panels, Panel) else panels, height=height)
        self.figures[ident] = figure
        series = described(figure)
        return tag(
            "figure",
            tag("figcaption", caption, badges(provenance)),
            tag(
                "div",
                Markup(inline(figure, ident)),
                class_="plot",
                data_figure=ident,
                role="img",
                aria_label=f"Plot: {caption}.{series and f' {series}.'} The table has the numbers.",
            ),
            class_="drawn",
        )


def remedies(warnings: Iterable[tuple[Content, ...]]) -> Markup:
    """A list of warnings, each with its remedy and what else there is to say."""
    lines = [tag("li", tag("strong", what), tag("br"), "Remedy: ", remedy, *more) for what, remedy, *more in warnings]
    return tag("ul", lines, class_="warnings")
