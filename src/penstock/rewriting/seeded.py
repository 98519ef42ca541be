"""`seeded`: the uniform half of every evaluation key is a seed that a generator on chip expands.

Half of each key's bytes is stored, moved and cached; the other half, as many bytes, is made on chip each time that the
key is read. Source: the usual form of keys, for example Kim et al., "ARK", MICRO 2022 (arXiv 2205.00922).
"""

from __future__ import annotations

from dataclasses import replace

from penstock.params.ckks import KeyForm
from penstock.rewriting.options import RewriteOptions
from penstock.rewriting.program import Program


def seeded(program: Program, options: RewriteOptions) -> str:
    """State the seeded form in the parameters and halve the keys' objects. Seeded keys stay unchanged."""
    if program.params.key_form is KeyForm.SEEDED:
        return "keys were seeded already"
    program.params = replace(program.params, key_form=KeyForm.SEEDED)
    keys = [each for each in program.objects if each.cls == "key"]
    for key in keys:
        key.num_bytes = program.params.key_bytes(key.limbs)
    return f"{len(keys)} keys are half as large; the other half is expanded on chip"
