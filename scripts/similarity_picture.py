"""The picture of docs/guides/similarity.md: where the time and the bytes of searches go.

python scripts/similarity_picture.py toy=WHERE.json small=… medium=…   writes docs/images/similarity.svg

The files are those that the server's step writes where SIMILARITY_WHERE names one.
"""

from __future__ import annotations

import json
import sys
from pathlib import Path

from penstock.base.system.drawing import Axis, Panel, Picture, Series, write_figure, written
from penstock.base.system.palette import NAMES

PATH = Path(__file__).parents[1] / "docs" / "images" / "similarity.svg"
BYTES = ("keys", "database", "result")


def panels_of(name: str, measured: dict[str, dict[str, float]], parts: list[str]) -> list[Panel]:
    """Seconds of the parts of a search as one stacked bar, and its bytes by class."""
    seconds = measured["seconds"]
    bars = [Series([seconds.get(part, 0.0)], [0], part, NAMES[i % len(NAMES)], "bar") for i, part in enumerate(parts)]
    title = f"{name}: {written(sum(seconds.values()), 's')}, measured"
    time = Panel(bars, Axis("seconds", "s"), Axis(names=[name]), title, stack=True)
    present = [kind for kind in BYTES if kind in measured["bytes"]]
    values = [measured["bytes"][kind] for kind in present]
    sizes = Series(values, range(len(values)), "", "c0", "bar", texts=[written(value, "B") for value in values])
    return [time, Panel([sizes], Axis("bytes", "B"), Axis(names=present), f"{name}: bytes")]


def main(arguments: list[str]) -> None:
    measured = {name: json.loads(Path(path).read_text()) for name, path in (each.split("=", 1) for each in arguments)}
    if not measured:
        sys.exit(__doc__)
    parts = list(dict.fromkeys(part for each in measured.values() for part in each["seconds"]))
    panels = [panel for name, each in measured.items() for panel in panels_of(name, each, parts)]
    title = "Seconds by part and bytes by class of searches, measured"
    write_figure(Picture(panels, title, columns=2, height=190), PATH)
    print(f"{PATH}: {PATH.stat().st_size} bytes")


if __name__ == "__main__":
    main(sys.argv[1:])
