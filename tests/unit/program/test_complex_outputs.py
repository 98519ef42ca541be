"""The outputs of a package that may be complex, by its instructions, in memory and in its file."""

from __future__ import annotations

from pathlib import Path

import numpy as np

from penstock.program.evaluator.scaling import ScaleState
from penstock.program.package.builder import PackageBuilder
from penstock.program.package.content import ConstantsInMemory, Input, Output, Verb
from penstock.program.package.file import complex_outputs, open_package, write_package
from support.small_packages import PARAMS


def test_outputs_that_depend_on_something_complex_are_told(tmp_path: Path) -> None:
    constants = ConstantsInMemory()
    builder = PackageBuilder(constants)
    x, z = builder.encrypt(Input("x", 8), ScaleState(PARAMS.num_q)), builder.encrypt(Input("z", 8, is_complex=True))
    real, turning = builder.constant(np.arange(1.0, 9.0)), builder.constant(np.arange(8) * 1j)
    turned = builder.add(Verb.MULT_BY_I, [x])
    made = {
        "x": x,
        "real constant": builder.add(Verb.MULT_PLAIN, [x], constants=[real]),
        "number": builder.add(Verb.MULT_SCALAR, [x], number=0.5),
        "times i": turned,
        "sum": builder.add(Verb.ADD, [turned, x]),
        "complex constant": builder.add(Verb.ADD_PLAIN, [x], constants=[turning]),
        "complex input": builder.add(Verb.ROTATE, [z], argument=1),
        "turned": builder.add(Verb.MULT_SCALAR, [x], number=2j),
    }
    for name, value in made.items():
        builder.output(value, Output(name, 8))
    package = builder.finish("parts", PARAMS, constants, keyed=False)
    expected = {"times i", "sum", "complex constant", "complex input", "turned"}
    assert complex_outputs(package) == expected
    write_package(package, tmp_path / "parts.pkg")
    assert complex_outputs(open_package(tmp_path / "parts.pkg")) == expected
