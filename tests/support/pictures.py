"""Pictures as a reader of their SVG sees them: the title of each mark, and every text."""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path
from xml.etree import ElementTree

SVG = "{http://www.w3.org/2000/svg}"


def picture(file: Path) -> ElementTree.Element:
    """The drawing of a file."""
    return ElementTree.parse(file).getroot()


def titled(svg: ElementTree.Element, element: str = "*") -> Iterator[tuple[str, ElementTree.Element]]:
    """Title and node of each mark, or of those drawn as one kind of element."""
    for node in svg.iter() if element == "*" else svg.iter(SVG + element):
        title = node.find(SVG + "title")
        if title is not None and node is not svg:
            yield title.text or "", node


def titles(file: Path) -> list[str]:
    """The title of each mark: its series, its place, its value."""
    return [title for title, _ in titled(picture(file))]


def marks(svg: ElementTree.Element, element: str) -> dict[str, dict[str, float]]:
    """Title of each mark -> its attributes that are numbers."""
    return {
        title: {name: float(value) for name, value in node.attrib.items() if re.fullmatch(r"-?[\d.]+", value)}
        for title, node in titled(svg, element)
    }


def texts(svg: ElementTree.Element) -> list[str]:
    """Every text, its lines joined."""
    return [" ".join(part.strip() for part in node.itertext() if part.strip()) for node in svg.iter(SVG + "text")]
