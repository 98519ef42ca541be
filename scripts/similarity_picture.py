"""The picture of docs/similarity.md: where the time and the bytes of searches go.

python scripts/similarity_picture.py toy=WHERE.json small=… medium=…   writes docs/images/similarity.svg

The files are those that the server's step writes where SIMILARITY_WHERE names one.
"""

from __future__ import annotations

import json
import sys
from pathlib import Path

from matplotlib import rc_context
from matplotlib.backends.backend_svg import FigureCanvasSVG
from matplotlib.figure import Figure

from penstock.system.palette import STYLE

PATH = Path(__file__).parents[1] / "docs" / "images" / "similarity.svg"
COLOURS = ("#0072b2", "#3f9fd6", "#009e73", "#d55e00", "#c98700", "#b5609a", "#6b7280", "#9aa3af")
BYTES = ("keys", "database", "result")


def main(arguments: list[str]) -> None:
    measured = {name: json.loads(Path(path).read_text()) for name, path in (each.split("=", 1) for each in arguments)}
    if not measured:
        sys.exit(__doc__)
    with rc_context(STYLE):
        figure = Figure(figsize=(9.6, 0.9 + 1.5 * len(measured)), layout="constrained")
        FigureCanvasSVG(figure)
        axes = figure.subplots(len(measured), 2, squeeze=False, width_ratios=(2, 1))
        parts = list(dict.fromkeys(part for each in measured.values() for part in each["seconds"]))
        for (name, each), (time, size) in zip(measured.items(), axes, strict=True):
            left, total = 0.0, sum(each["seconds"].values())
            for part, colour in zip(parts, COLOURS, strict=False):
                value = each["seconds"].get(part, 0.0)
                time.barh([0], [value], left=left, color=colour, height=0.6, label=part)
                left += value
            time.set_title(f"{name}: {total:.1f} s, measured")
            time.set_yticks([])
            time.set_xlim(0, total)
            present = [kind for kind in BYTES if kind in each["bytes"]]
            values = [each["bytes"][kind] / 1e6 for kind in present]
            size.barh(present, values, color=COLOURS[0], height=0.6)
            for at, value in enumerate(values):
                size.text(value, at, f" {value:,.3g} MB", va="center")
            size.set_xlim(0, 1.4 * max(values))
            size.set_title("bytes")
            size.set_xticks([])
        axes[-1, 0].set_xlabel("seconds")
        handles, labels = axes[0, 0].get_legend_handles_labels()
        figure.legend(handles, labels, loc="outside lower center", ncols=4, frameon=False)
        figure.savefig(PATH, format="svg", metadata={"Date": None, "Creator": "penstock"})
    print(f"{PATH}: {PATH.stat().st_size} bytes")


if __name__ == "__main__":
    main(sys.argv[1:])
