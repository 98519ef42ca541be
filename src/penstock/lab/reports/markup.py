"""HTML that is escaped unless it was built here."""

from __future__ import annotations

import html
from collections.abc import Iterable, Sequence
from dataclasses import dataclass


class Markup(str):
    """Text that is HTML already. Everything else is escaped by `tag`."""

    __slots__ = ()


Content = str | Iterable["Content"] | None

_VOID = frozenset({"br", "img", "meta", "link", "hr"})


def tag(name: str, /, *content: Content, **attributes: str | bool | None) -> Markup:
    """An element. Plain strings are escaped, in the content and in the attributes.

    Attribute names: `class_` is `class`, other underscores are dashes; `None` and `False` leave it out.
    >>> tag("p", "a < b", class_="note")
    '<p class="note">a &lt; b</p>'
    """
    shown = "".join(
        f" {key.rstrip('_').replace('_', '-')}" + ("" if value is True else f'="{html.escape(str(value))}"')
        for key, value in attributes.items()
        if value is not None and value is not False
    )
    if name in _VOID:
        return Markup(f"<{name}{shown}>")
    return Markup(f"<{name}{shown}>{join(content)}</{name}>")


def join(content: Content) -> Markup:
    """The pieces one after the other, each escaped unless it is `Markup`."""
    if content is None:
        return Markup("")
    if isinstance(content, Markup):
        return content
    if isinstance(content, str):
        return Markup(html.escape(content, quote=False))
    return Markup("".join(join(piece) for piece in content))


PROVENANCE_MEANING = {
    "measured": "timed or counted in this run, on the host named below",
    "predicted": "computed from the parameters, a fitted model or a closed formula; not run",
    "simulated": "the recorded operations played through a model of a machine and a memory tier",
    "published": "taken from a paper or a datasheet; not checked here",
}
_MARKS = {"measured": "●", "predicted": "◆", "simulated": "▲", "published": "■"}


def badge(provenance: str) -> Markup:
    """The mark of one provenance: a word, with a shape and a colour."""
    return tag(
        "span",
        tag("span", _MARKS.get(provenance, "○"), aria_hidden="true"),
        f" {provenance}",
        class_=f"badge {provenance}" if provenance in _MARKS else "badge",
        title=PROVENANCE_MEANING.get(provenance),
    )


def badges(provenances: Iterable[str]) -> Markup:
    """The marks of several, in the order of the legend."""
    present = set(provenances)
    ordered = [p for p in _MARKS if p in present] + sorted(present - set(_MARKS))
    return join([(" ", badge(p)) for p in ordered])


LONG = 30
"""Rows from which a table scrolls on a screen."""


@dataclass(frozen=True, slots=True)
class Heading:
    """A column of a table: its heading, with its unit if there is one, and its values."""

    heading: str
    holds: str = "num"
    """`num`: right-aligned numbers; `text`: short words that stay on one line; `prose`: text that wraps."""


def columns_of(headings: str) -> list[Heading]:
    """Columns of headings that are parted by ` | `; `>` starts one of numbers, `~` one of prose."""
    holds = {">": "num", "~": "prose"}
    return [Heading(heading.lstrip(">~"), holds.get(heading[0], "text")) for heading in headings.split(" | ")]


def table(
    caption: str,
    columns: Sequence[Heading],
    rows: Iterable[Sequence[Content]],
    *,
    provenance: Iterable[str] = (),
    note: str = "",
) -> Markup:
    """A table with its caption and provenance; the first column heads each row. Long ones scroll on a screen."""
    body = [
        tag(
            "tr",
            [
                tag("th", cell, scope="row", class_=_holds(column, cell))
                if i == 0
                else tag("td", cell, class_=_holds(column, cell))
                for i, (column, cell) in enumerate(zip(columns, row, strict=True))
            ],
        )
        for row in rows
    ]
    head = tag("tr", [tag("th", c.heading, scope="col", class_=c.holds) for c in columns])
    return tag(
        "figure",
        tag("figcaption", caption, badges(provenance)),
        tag(
            "div",
            tag("table", tag("thead", head), tag("tbody", body), aria_label=caption),
            class_="table long" if len(body) > LONG else "table",
            tabindex="0",
            role="region",
            aria_label=caption,
        ),
        tag("p", note, class_="note") if note else None,
    )


def _holds(column: Heading, cell: Content) -> str:
    """A long text wraps, whatever its column promises, so that it does not push the others out of sight."""
    return "prose" if isinstance(cell, str) and len(cell) > 40 else column.holds
