"""Trace-to-trace passes: the same program, other operations, less traffic.

A pass takes a trace apart into operations (`penstock.lab.rewriting.program`), changes them, and puts it together again.
It keeps the program's clear results, the objects of its results, and the rules of the trace format;
`penstock.lab.rewriting.interpret` computes both traces and compares. A pass is one module and one line in `PASSES`.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

from penstock.errors import UsageError, check_known
from penstock.lab.rewriting.additions import additions
from penstock.lab.rewriting.forms import seeded, truncated
from penstock.lab.rewriting.hoist import hoist
from penstock.lab.rewriting.min_ks import min_ks
from penstock.lab.rewriting.options import RewriteOptions
from penstock.lab.rewriting.program import Program
from penstock.lab.rewriting.reorder import reorder
from penstock.scheme.traces.schema import Trace

__all__ = ["PASSES", "RewriteOptions", "RewritePass", "passes_named", "rewrite"]


@dataclass(frozen=True, slots=True, kw_only=True)
class RewritePass:
    """A way to rewrite a program in place."""

    name: str
    description: str
    run: Callable[[Program, RewriteOptions], str]
    """Changes the program and describes its changes in words, for the trace's notes."""


PASSES: dict[str, RewritePass] = {
    rewriting.name: rewriting
    for rewriting in (
        RewritePass(name="hoist", description="rotations of one ciphertext share one decomposition", run=hoist),
        RewritePass(name="min-ks", description="rotations by many steps become repeated rotations by few", run=min_ks),
        RewritePass(name="reorder", description="operations that share a key follow each other", run=reorder),
        RewritePass(
            name="additions", description="sums first, then one key switch for all that need the same", run=additions
        ),
        RewritePass(name="seeded", description="half of each key is a seed that is expanded on chip", run=seeded),
        RewritePass(name="truncated", description="a key ends at the most limbs at which it is used", run=truncated),
    )
}


def passes_named(names: Sequence[str]) -> list[RewritePass]:
    """The passes of these names, in this order.

    Raises: UnknownName; UsageError: none are named.
    """
    if not names:
        raise UsageError(f"name at least one pass: {', '.join(PASSES)}")
    for name in names:
        check_known("pass", name, PASSES)
    return [PASSES[name] for name in names]


def rewrite(trace: Trace, names: Sequence[str], options: RewriteOptions | None = None) -> Trace:
    """`trace` after these passes, one after the other.

    Returns: a trace of primitive operations (composites are expanded) without times, since it was not run; objects keep
            their ids, new ones follow; its notes name the passes and the changes of each.
    Raises: UnknownName: no such pass; UsageError: none named; TraceError: a row that no program can have.
    """
    chosen, settings = passes_named(names), options or RewriteOptions()
    program = Program.of(trace)
    notes = [f"rewrite {rewriting.name}: {rewriting.run(program, settings)}" for rewriting in chosen]
    return program.trace(notes)
