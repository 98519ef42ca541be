"""A flame graph as one self-contained SVG: no script, no font, no link; names and shares on hover.

After Brendan Gregg's flame graphs (CACM 59(6), 2016): the width of a box is its share of the time, its children stand
on it, the order from left to right is the alphabet's and means nothing.
"""

from __future__ import annotations

import hashlib
from collections.abc import Mapping
from dataclasses import dataclass, field

from penstock.base.system.drawing import escaped
from penstock.base.units import format_seconds
from penstock.lab.measure.perf_script import Frame
from penstock.lab.measure.stacks import module_name, short_name

WIDTH = 1200
ROW = 18
MARGIN = 12
CHARACTER = 6.6
"""Width of a character of 11 px monospace, with a little room."""

MIN_SHARE = 0.0005
"""Boxes below this share are narrower than a pixel: they are left out, and the subtitle says how many."""

_HUES = {"operation": (258, 18), "openfhe": (28, 14), "kernel": (205, 12), "python": (130, 10), "other": (50, 8)}


@dataclass(slots=True)
class _Node:
    frame: Frame
    seconds: float = 0.0
    own_s: float = 0.0
    children: dict[tuple[str, str], _Node] = field(default_factory=dict)


def flame_graph(stacks: Mapping[tuple[Frame, ...], float], *, title: str, subtitle: str = "") -> str:
    """The SVG of folded stacks (root first, seconds each).

    >>> svg = flame_graph({(Frame("mult", "penstock"), Frame("f<int>", "libx.so")): 0.5}, title="t")
    >>> svg.startswith("<svg") and "f" in svg
    True
    """
    root = _tree(stacks)
    total = root.seconds
    depth, hidden = _depth(root, total), 0
    boxes: list[str] = []
    top = 56
    height = top + ROW * (depth + 1) + MARGIN + 8
    if total > 0:
        hidden = _draw(root, total, MARGIN, WIDTH - 2 * MARGIN, height - MARGIN - ROW, boxes)
    notes = [subtitle] if subtitle else []
    notes.append(f"{format_seconds(total)} sampled" if total > 0 else "no samples: nothing ran on a processor")
    if hidden:
        notes.append(f"{hidden} boxes below {MIN_SHARE:.2%} left out")
    head = (
        f'<svg xmlns="http://www.w3.org/2000/svg" version="1.1" width="{WIDTH}" height="{height}" '
        f'viewBox="0 0 {WIDTH} {height}" role="img" aria-label="{escaped(title)}">\n'
        "<style>text{font:11px ui-monospace,'DejaVu Sans Mono',Menlo,Consolas,monospace;fill:#111}"
        "g:hover>rect{stroke:#000;stroke-width:1}.title{font-size:16px;font-weight:bold}.note{fill:#555}"
        "rect{stroke:#fff;stroke-width:.5}</style>\n"
        f'<rect width="{WIDTH}" height="{height}" fill="#fff"/>\n'
        f'<text class="title" x="{MARGIN}" y="24">{escaped(title)}</text>\n'
        f'<text class="note" x="{MARGIN}" y="42">{escaped("; ".join(notes))}</text>\n'
    )
    return head + "".join(boxes) + "</svg>\n"


def _tree(stacks: Mapping[tuple[Frame, ...], float]) -> _Node:
    root = _Node(Frame("all", "penstock"))
    for stack, seconds in stacks.items():
        node = root
        node.seconds += seconds
        for frame in stack:
            # Template instances of one function share a box: their short names are the same.
            key = (short_name(frame.name), module_name(frame.module))
            node = node.children.setdefault(key, _Node(frame))
            node.seconds += seconds
        node.own_s += seconds
    return root


def _depth(node: _Node, total: float) -> int:
    """Rows above this node. Stacks are at most a few hundred frames deep."""
    deepest, level = 0, [node]
    while level:
        level = [c for n in level for c in n.children.values() if total and c.seconds / total >= MIN_SHARE]
        deepest += bool(level)
    return deepest


def _draw(root: _Node, total: float, x: float, width: float, y: float, boxes: list[str]) -> int:
    hidden = 0
    pending = [(root, x, y, 0)]
    while pending:
        node, left, bottom, level = pending.pop()
        boxes.append(_box(node, total, left, width * node.seconds / total, bottom, level))
        at = left
        for _, child in sorted(node.children.items()):
            if child.seconds / total >= MIN_SHARE:
                pending.append((child, at, bottom - ROW, level + 1))
            else:
                hidden += 1
            at += width * child.seconds / total
    return hidden


def _box(node: _Node, total: float, x: float, width: float, y: float, level: int) -> str:
    name, module = short_name(node.frame.name), module_name(node.frame.module)
    share = node.seconds / total
    full = node.frame.name if node.frame.name != name else ""
    hover = f"{name}\n{format_seconds(node.seconds)}, {share:.1%} of the samples"
    if node.own_s > 0 and node.children:
        hover += f"; {node.own_s / total:.1%} in itself"
    if module not in ("penstock", name):
        hover += f"\n{module}"
    if full:
        hover += f"\n{full}"
    room = int((width - 6) / CHARACTER)
    label = name if len(name) <= room else name[: room - 1] + "…" if room >= 4 else ""
    text = f'<text x="{x + 3:.1f}" y="{y + 13:.1f}">{escaped(label)}</text>' if label else ""
    return (
        f"<g><title>{escaped(hover)}</title>"
        f'<rect x="{x:.2f}" y="{y:.1f}" width="{max(width, 0.1):.2f}" height="{ROW - 1}" rx="1" '
        f'fill="{_colour(node.frame, name, level)}"/>{text}</g>\n'
    )


def _colour(frame: Frame, name: str, level: int) -> str:
    """One hue for each kind of code, with a shade that belongs to the name: the same in every graph."""
    module = module_name(frame.module)
    kinds = {
        "operation": module == "penstock", "openfhe": "openfhe" in module.lower(),
        "kernel": module.startswith("[kernel"), "python": "python" in module, "other": True,
    }  # fmt: skip
    kind = next(name for name, is_so in kinds.items() if is_so)
    hue, spread = _HUES[kind]
    digest = hashlib.sha256(name.encode(errors="replace")).digest()
    if level == 0:
        return "#dddddd"
    return f"hsl({hue + digest[0] % (2 * spread) - spread},{60 + digest[1] % 25}%,{70 + digest[2] % 12}%)"
