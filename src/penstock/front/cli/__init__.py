"""The command line: `penstock VERB`. Thin: parse, call, print. One file a verb, registered in `VERBS` of `main.py`."""

from penstock.front.cli.main import main

__all__ = ["main"]
