"""The outputs of a package that may be complex: whoever decrypts them keeps their imaginary parts."""

from __future__ import annotations

import numpy as np

from penstock.program.package.content import SHAPES, Package, Verb
from penstock.program.package.file import ConstantsInFile


def complex_outputs(package: Package) -> set[str]:
    """The names of outputs that depend on a complex input, constant or number, or on an operation with such results."""
    complex_constants = _complex_constants(package)
    values: list[bool] = []
    names = set()
    for call in package.instructions:
        own = SHAPES[call.verb].is_complex or bool(call.number.imag)
        own = own or (call.verb is Verb.ENCRYPT and package.inputs[call.argument].is_complex)
        own = own or not complex_constants.isdisjoint(call.constants)
        is_complex = own or any(values[operand] for operand in call.operands)
        if call.verb is Verb.OUTPUT and is_complex:
            names.add(package.outputs[call.argument].name)
        values += [is_complex] * call.results
    return names


def _complex_constants(package: Package) -> set[int]:
    constants = package.constants
    if isinstance(constants, ConstantsInFile):
        return {number for number, (_, _, kind, _) in enumerate(constants.reader.entries()) if kind == "complex"}
    return {number for number in range(len(constants)) if np.iscomplexobj(constants.values(number))}
