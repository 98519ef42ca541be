"""The outputs of a package that may be complex: whoever decrypts them keeps their imaginary parts."""

from __future__ import annotations

import numpy as np

from penstock.program.package.content import SHAPES, Package, Verb
from penstock.program.package.file import ConstantsInFile


def complex_outputs(package: Package) -> set[str]:
    """The names of outputs that depend on a complex input, constant or number, or on an operation with such results."""
    complex_constants = _complex_constants(package)
    values: list[bool] = []
    found = set()
    for each in package.instructions:
        own = SHAPES[each.verb].is_complex or bool(each.number.imag)
        own = own or (each.verb is Verb.ENCRYPT and package.inputs[each.argument].is_complex)
        own = own or not complex_constants.isdisjoint(each.constants)
        is_complex = own or any(values[operand] for operand in each.operands)
        if each.verb is Verb.OUTPUT and is_complex:
            found.add(package.outputs[each.argument].name)
        values += [is_complex] * each.results
    return found


def _complex_constants(package: Package) -> set[int]:
    constants = package.constants
    if isinstance(constants, ConstantsInFile):
        return {number for number, (_, _, kind, _) in enumerate(constants.reader.entries()) if kind == "complex"}
    return {number for number in range(len(constants)) if np.iscomplexobj(constants.values(number))}
