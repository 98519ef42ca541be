"""`penstock predict`: fit a machine to measurements, price programs on it, and check how good that is."""

from __future__ import annotations

import click

from penstock.front.cli.lazy import LazyGroup

VERBS: dict[str, str] = {
    "fit": "Fit a machine to measured primitives.",
    "precision": "Predict how precise a program's result is.",
    "refresh": "Parameter sets for bootstrapping, the best first.",
    "run": "Predict time, energy and memory of a program before it runs.",
    "suggest": "Parameter sets for a program, the best first.",
    "validate": "Hold out configurations and applications, and compare predictions with the measurements.",
}
"""Verb -> one-line help. Each is the click command `command` of `penstock.front.cli.verbs.predict.<verb>`."""


@click.group("predict", cls=LazyGroup, verbs=VERBS, package=__name__, what="command of predict")
def command() -> None:
    """Price any program on any machine, before it runs.

    \b
    Examples:
      penstock predict fit --measure -o mine.toml
      penstock predict run resnet20 --machine mine.toml
      penstock predict precision logistic-regression
      penstock predict suggest logistic-regression --machine mine.toml
      penstock predict refresh --machine mine.toml --precision 22
      penstock predict validate
    """
