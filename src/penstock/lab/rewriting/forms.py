"""`seeded` and `truncated`: other forms of the evaluation keys, stated in the parameters.

`seeded`: the uniform half of every key is a seed that a generator on chip expands. Half of each key's bytes is stored,
moved and cached; the other half, as many bytes, is made on chip each time that the key is read. Source: the usual form
of keys, for example Kim et al., "ARK", MICRO 2022 (arXiv 2205.00922).

`truncated`: each key has only the rows up to the most limbs at which the program uses it. Keys are smaller to make,
store and upload. No operation reads less, so times stay the same.
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


def truncated(program: Program, options: RewriteOptions) -> str:
    """State the truncated form in the parameters, which cuts the keys. Truncated keys stay unchanged."""
    form = program.params.key_form
    if form.is_truncated:
        return "keys were truncated already"
    program.params = replace(program.params, key_form=KeyForm.of(seeded=form.is_seeded, truncated=True))
    below = {op.key for op in program.ops if op.limbs_in == program.params.num_q}
    cut = len({op.key for op in program.ops if op.key is not None} - below)
    return f"{cut} of {program.num_keys()} keys end below {program.params.num_q} limbs"
