"""The search of packages for inputs finds what is planted, and nothing else."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from penstock.program.package.builder import PackageBuilder
from penstock.program.package.content import ConstantsInMemory, Input, Output, Verb
from penstock.program.package.file import write_package
from penstock.scheme.params import catalogue
from support.package_canaries import drawn, found_in, is_canary, search

INPUTS = drawn(np.random.default_rng(5), 6)
FIXED = np.array([0.5, 0.25, 1.0, -1.0, 0.1, 0.7])


def written(folder: Path, constant: Any) -> Path:
    """A small package with one constant."""
    path, held = folder / "p.pkg", ConstantsInMemory()
    builder = PackageBuilder(held)
    x = builder.encrypt(Input("x", 6))
    builder.output(builder.add(Verb.ADD_PLAIN, [x], constants=[builder.constant(np.asarray(constant))]), Output("y", 6))
    write_package(builder.finish("p", catalogue.get("insecure-ci"), held), path)
    return path


PLANTED: dict[str, Callable[[Any], Any]] = {
    "as it is": lambda x: x,
    "one of them": lambda x: np.array([0.5, x[3], 0.25]),
    "repeated": lambda x: np.tile(x, 3),
    "float32": lambda x: x.astype(np.float32).astype(np.float64),
    "1 digit": lambda x: np.round(x, 1),
    "2 digits": lambda x: np.round(x, 2),
    "6 digits": lambda x: np.round(x, 6),
    "one of 6 digits": lambda x: np.round(x[2:3], 6),
    "scaled": lambda x: np.rint(x * 2.0**50),
    "scaled, few bits": lambda x: np.rint(x * 2.0**20),
    "of 40 bits": lambda x: np.rint(x * 2.0**40) / 2.0**40,
    "complex": lambda x: x[:3] + 1j * x[3:],
}


@pytest.mark.parametrize("name", PLANTED)
def test_a_planted_input_is_found(tmp_path: Path, name: str) -> None:
    assert found_in(written(tmp_path, PLANTED[name](INPUTS)), INPUTS), name
    assert found_in(tmp_path / "p.pkg", INPUTS[:3] + 1j * INPUTS[3:]), name


def test_a_clean_package_holds_none(tmp_path: Path) -> None:
    constants = np.concatenate([FIXED, drawn(np.random.default_rng(6), 2000)])
    assert not found_in(written(tmp_path, constants), INPUTS)


@pytest.mark.parametrize(
    "planted",
    [
        repr(float(INPUTS[1])).encode(),
        f"{abs(INPUTS[1]):.8f}".encode(),
        INPUTS.astype(">f8").tobytes(),
        INPUTS.astype(np.float32).tobytes(),
        np.rint(INPUTS * 2.0**45).astype(np.int64).tobytes(),
        np.rint(INPUTS * 2.0**16).astype(np.int32).tobytes(),
    ],
)
def test_other_encodings_are_found(planted: bytes) -> None:
    assert search(b"before" + planted + b"after", INPUTS)


def test_canaries_have_53_bits() -> None:
    assert all(map(is_canary, INPUTS))
    assert not any(map(is_canary, (0.0, 0.5, -0.25, 1.0, 3.0, 1024.0)))
    assert np.all(np.abs(INPUTS) < 1)
