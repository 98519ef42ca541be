"""Packages for tests."""

from __future__ import annotations

import numpy as np

from penstock.program.evaluator.scaling import ScaleState
from penstock.program.package.builder import PackageBuilder
from penstock.program.package.content import ConstantsInMemory, Input, Output, Package, PackageSeries, Verb
from penstock.program.package.file import FIRST_SET
from penstock.scheme.operations import operations
from penstock.scheme.params import catalogue

PARAMS = catalogue.get("openfhe-demo")


def every_verb() -> Package:
    """A program that has each verb, two inputs, two outputs, scopes, series and constants of three kinds."""
    constants = ConstantsInMemory()
    builder = PackageBuilder(constants)
    x = builder.encrypt(Input("x", 8), ScaleState(PARAMS.num_q))
    z = builder.encrypt(Input("z", 5, limbs=6, is_complex=True))
    ramp, complex_one = builder.constant(np.arange(8.0)), builder.constant(np.sin(np.arange(9.0)) + 1j)
    with builder.open_scope("all"):
        for verb in (Verb.ADD, Verb.SUB, Verb.MULT):
            builder.add(verb, [x, z], state=ScaleState(6, 2))
        builder.add(Verb.RELINEARIZE, [builder.add(Verb.MULT_NO_RELIN, [x, x])])
        for verb in (Verb.ADD_PLAIN, Verb.SUB_PLAIN, Verb.MULT_PLAIN):
            builder.add(verb, [x], constants=[complex_one])
        for verb in (Verb.ADD_SCALAR, Verb.SUB_SCALAR, Verb.SCALAR_SUB, Verb.MULT_SCALAR, Verb.SCALED):
            builder.add(verb, [x], number=0.1)
        builder.add(Verb.MULT_SCALAR, [x], number=0.5 - 2j)
        for verb in (Verb.NEGATE, Verb.SQUARE, Verb.CONJUGATE, Verb.RESCALE, Verb.MULT_BY_I):
            builder.add(verb, [x])
        with builder.open_scope("turns"):
            builder.add(Verb.ROTATE, [x], argument=-3)
            builder.add(Verb.ROTATE_HOISTED, [x, builder.add(Verb.DECOMPOSE, [x])], argument=2)
    builder.add(Verb.MOD_DROP, [x], argument=2)
    for row in operations().values():  # later operations
        if row.code is not None and row.code >= FIRST_SET:
            operands, uses = [x] * max(row.operands, 1), [ramp] * max(row.constants, 0)
            builder.add(
                Verb(row.name),
                operands,
                constants=uses,
                number=0.5 if row.numbers else 0.0,
                argument=int(row.argument != "none"),
            )
    builder.add(Verb.BOOTSTRAP, [x, z], results=2, argument=8)
    builder.series(Verb.CHEBYSHEV, x, PackageSeries((1.0, 0.25, 1 / 3), -2.0, 3.0))
    builder.series(Verb.POLYNOMIAL, x, PackageSeries((0.5, 2.0)))
    total = builder.add(Verb.WEIGHTED_SUM, [x, z, x], constants=[ramp, complex_one, ramp])
    builder.output(total, Output("sum", 8))
    builder.output(x, Output("same", 3))
    return Package(
        name="every verb",
        params=PARAMS,
        inputs=tuple(builder._inputs),
        outputs=tuple(builder._outputs),
        instructions=builder._instructions,
        scopes=tuple(builder._scopes),
        series=tuple(builder._series),
        constants=constants,
        keys={"relin": 14, "rot:5": 6},
        description="two\nlines, größer",
        provenance={"penstock": "0.1.0", "openfhe": "1.6.1"},
    )
