"""`seeded`: the uniform half of every evaluation key is a seed that a generator on chip expands.

Half of each key's bytes is stored, moved and cached; the other half, as many bytes, is made on chip each time that the
key is read. Source: the usual form of keys, for example Kim et al., "ARK", MICRO 2022 (arXiv 2205.00922).
"""

from __future__ import annotations

from dataclasses import replace

from penstock.lab.rewriting.options import RewriteOptions
from penstock.lab.rewriting.program import Program
from penstock.scheme.params.rlwe import KeyForm


def seeded(program: Program, options: RewriteOptions) -> str:
    """State the seeded form in the parameters, which halves the keys. Seeded keys stay unchanged."""
    form = program.params.key_form
    if form.is_seeded:
        return "keys were seeded already"
    program.params = replace(program.params, key_form=KeyForm.of(seeded=True, truncated=form.is_truncated))
    return f"{program.num_keys()} keys are half as large; the other half is expanded on chip"
