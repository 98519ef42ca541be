"""CryptOracle's figures 9 and 10, drawn from its data: errors, correlation and contributions of all models.

Figure 11 is not drawn: it cannot be reproduced, and its rows say why.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from penstock.studies.cryptoracle.data import PredictedApplication, Priced
from penstock.studies.cryptoracle.errors import errors
from penstock.studies.cryptoracle.predictions import of_additive, of_ours, of_regression, pairs
from penstock.studies.cryptoracle.tables import is_default
from penstock.system.figures import drawing, readable, write_svg
from penstock.system.palette import GREY

MODELS = {"additive": of_additive, "penstock": of_ours, "log-quadratic": of_regression}
MARKERS = ("o", "s", "^", "D", "v")


def draw_predictions(found: Sequence[PredictedApplication], folder: Path) -> list[Path]:
    """SVG files: errors against threads, predicted against measured time, and shares of operations.

    Raises: CapabilityMissing: matplotlib is not installed.
    """
    pyplot = drawing()
    folder.mkdir(parents=True, exist_ok=True)
    drawn = {
        "figure9-errors": _errors(pyplot, found),
        "figure9-correlation": _correlation(pyplot, found),
        "figure10": _shares(pyplot, [p for p in found if is_default(p)]),
    }
    written = []
    for name, figure in drawn.items():
        if figure is not None:
            written.append(write_svg(figure, folder / f"{name}.svg"))
    return written


def _names(found: Sequence[PredictedApplication]) -> list[str]:
    return sorted({p.name for p in found})


def _errors(pyplot: Any, found: Sequence[PredictedApplication]) -> Any:
    """Figure 9(a): mean |error| against threads, a panel for each model."""
    threads = sorted({p.threads for p in found})
    if not threads:
        return None
    figure, panels = pyplot.subplots(1, len(MODELS), figsize=(12, 4), sharey=True, layout="constrained")
    for panel, (model, which) in zip(panels, MODELS.items(), strict=True):
        for name, marker in zip(_names(found), MARKERS, strict=False):
            each = [
                errors(pairs([p for p in found if (p.name, p.threads) == (name, t)], which, "runtime")) for t in threads
            ]
            known = [(t, 100 * e.mean_abs_error) for t, e in zip(threads, each, strict=True) if e is not None]
            if known:
                panel.plot([str(t) for t, _ in known], [e for _, e in known], marker=marker, label=name)
        panel.set_title(model)
        panel.set_xlabel("threads inside one operation")
        panel.grid(visible=False, axis="x")
    panels[0].set_ylim(bottom=0)
    panels[0].set_ylabel("mean |error| of the runtime [%]")
    panels[0].legend(fontsize="small")
    figure.suptitle("CryptOracle's figure 9(a), from its data")
    return figure


def _correlation(pyplot: Any, found: Sequence[PredictedApplication]) -> Any:
    """Figure 9(b) as points: predicted against measured."""
    figure, panels = pyplot.subplots(1, len(MODELS), figsize=(12, 4), sharex=True, sharey=True, layout="constrained")
    everything: list[float] = []
    for panel, (model, which) in zip(panels, MODELS.items(), strict=True):
        for name, marker in zip(_names(found), MARKERS, strict=False):
            both = pairs([p for p in found if p.name == name], which, "runtime")
            everything += [value for pair in both for value in pair]
            panel.scatter([m for _, m in both], [p for p, _ in both], marker=marker, s=18, label=name)
        panel.set_title(model)
        panel.set_xlabel("measured (the paper's data)")
        panel.set_xscale("log")
        panel.set_yscale("log")
    if not everything:
        pyplot.close(figure)
        return None
    for panel in panels:
        ends = (min(everything), max(everything))
        panel.plot(ends, ends, color=GREY, linewidth=0.8)
        readable(panel.xaxis, "s")
        readable(panel.yaxis, "s")
    panels[0].set_ylabel("predicted")
    panels[0].legend(fontsize="small")
    figure.suptitle("CryptOracle's figure 9(b), from its data")
    return figure


def _shares(pyplot: Any, found: Sequence[PredictedApplication]) -> Any:
    """Figure 10: the contribution of each operation to the predicted time."""
    bars: dict[str, Mapping[str, float]] = {}
    for p in found:
        for model, which in MODELS.items():
            priced = which(p)
            if isinstance(priced, Priced):
                label = p.name.replace("-", "\n", 1)
                bars[f"{label}\n{model}"] = priced.by_operation
    if not bars:
        return None
    figure, axes = pyplot.subplots(figsize=(9, 5), layout="constrained")
    bottom = dict.fromkeys(bars, 0.0)
    for operation in dict.fromkeys(name for parts in bars.values() for name in parts):
        shares = {label: 100 * parts.get(operation, 0.0) / sum(parts.values()) for label, parts in bars.items()}
        axes.bar(list(bars), list(shares.values()), bottom=[bottom[label] for label in bars], label=operation)
        for label, share in shares.items():
            bottom[label] += share
    axes.set_ylabel("share of the predicted time [%]")
    axes.set_title("CryptOracle's figure 10, 8 threads, N = 2^16, depth 10")
    axes.tick_params(axis="x", labelsize="small")
    axes.legend(fontsize="small", bbox_to_anchor=(1.0, 1.0), loc="upper left")
    return figure
