"""A page as a browser would see it."""

from __future__ import annotations

import json
from html.parser import HTMLParser


class Page(HTMLParser):
    """Collects what a browser would see: elements, attributes, the text outside scripts and styles."""

    def __init__(self, text: str) -> None:
        super().__init__(convert_charrefs=True)
        self.elements: list[tuple[str, dict[str, str | None]]] = []
        self.open: list[str] = []
        self.scripts: list[tuple[dict[str, str | None], str]] = []
        self.text = ""
        self.tables: list[list[list[str]]] = []
        self.badged: list[str] = []
        self.captions: list[str] = []
        self.feed(text)
        self.close()

    def handle_starttag(self, name: str, attrs: list[tuple[str, str | None]]) -> None:
        attributes = dict(attrs)
        self.elements.append((name, attributes))
        if name not in ("meta", "br", "img", "link"):
            self.open.append(name)
        if name == "script":
            self.scripts.append((attributes, ""))
        if name == "table":
            self.tables.append([])
        if name == "tr":
            self.tables[-1].append([])
        if name in ("td", "th"):
            self.tables[-1][-1].append("")
        if name == "figcaption":
            self.captions.append("")

    def handle_endtag(self, name: str) -> None:
        assert self.open.pop() == name

    def handle_data(self, text: str) -> None:
        if "script" in self.open:
            self.scripts[-1] = (self.scripts[-1][0], self.scripts[-1][1] + text)
        elif "style" not in self.open:
            self.text += text
            if "td" in self.open or "th" in self.open:
                self.tables[-1][-1][-1] += text
            if "figcaption" in self.open:
                self.captions[-1] += text

    @property
    def figures(self) -> dict[str, dict[str, object]]:
        return {a["id"]: json.loads(text) for a, text in self.scripts if a.get("type") == "application/json"}

    def table(self, heading: str) -> list[list[str]]:
        """The first table whose head row has `heading`."""
        return next(t for t in self.tables if heading in t[0])
