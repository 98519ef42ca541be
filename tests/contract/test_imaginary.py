"""Imaginary parts that a program makes: decryption keeps them, or says that it would drop them."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import penstock as ps
from penstock.errors import PenstockError
from penstock.program.evaluator.clear import ClearEvaluator
from penstock.program.evaluator.noisy import NoisyEvaluator
from penstock.program.package.file import write_package
from penstock.program.running import READINGS
from penstock.program.running.packaging import package_workload
from penstock.scheme.params import catalogue
from support.readings import keys_of
from support.toy import toy, toy_bootstrap

X = np.linspace(-0.5, 0.5, 8)
TURNED = np.exp(1j * np.arange(8))

COMPLEX: dict[str, Callable[[Any, Any], Any]] = {
    "imaginary": lambda ev, a: ev.mult_by_i(a),
    "both parts": lambda ev, a: ev.add(a, ev.mult_by_i(ev.rotate(a, 1))),
    "a small part": lambda ev, a: ev.add(a, ev.mult_by_i(ev.rescale(ev.mult(a, 1e-4)))),
    "a plaintext": lambda ev, a: ev.rescale(ev.mult(a, ev.encode(TURNED))),
    "a late plaintext": lambda ev, a: ev.rescale(ev.mult(a, ev.encode(lambda: TURNED))),
    "a sum": lambda ev, a: ev.weighted_sum([a, ev.rotate(a, 1)], [lambda: TURNED, ev.encode(X)]),
    "a sum with a plaintext": lambda ev, a: ev.add(a, ev.encode(TURNED)),
    "a product": lambda ev, a: ev.mult(a, ev.mult_by_i(a)),
    "a series": lambda ev, a: ev.polynomial(ev.mult_by_i(a), [0.5, 0.25, 0.125, 1.0]),
}
REAL: dict[str, Callable[[Any, Any], Any]] = {
    "twice": lambda ev, a: ev.mult_by_i(ev.mult_by_i(a)),
    "squared": lambda ev, a: ev.square(ev.mult_by_i(a)),
    "real": lambda ev, a: ev.square(a),
    "a series": lambda ev, a: ev.chebyshev_series(a, [0.5, 0.25, 0.125, 1.0], -1, 1),
}


@pytest.mark.parametrize("name", [*COMPLEX, *REAL])
@pytest.mark.usefixtures("encrypting")
def test_values_that_a_program_made_complex_keep_their_imaginary_parts(name: str) -> None:
    params = toy()

    def program(ev: Any) -> Any:
        return ev.decrypt((COMPLEX | REAL)[name](ev, ev.encrypt(X)))

    expected = program(ClearEvaluator(params))
    with READINGS["native"].evaluator(params, keys_of(params, program)) as ev:
        assert np.max(np.abs(program(ev) - expected)) < 1e-6
    assert np.max(np.abs(program(NoisyEvaluator(params, exact_ratio=True, own_client=True)) - expected)) < 1e-6


@pytest.mark.usefixtures("encrypting")
def test_real_values_are_told_without_the_error_of_their_imaginary_parts() -> None:
    for params, program in (
        (toy(), lambda ev: ev.square(ev.encrypt(X))),
        (toy_bootstrap(toy().scaling), lambda ev: ev.bootstrap(ev.mod_drop(ev.encrypt(X), 2))),
    ):
        with READINGS["native"].evaluator(params, keys_of(params, program)) as ev:
            assert not np.any(ev.decrypt(program(ev)).imag)


@pytest.mark.holds_inputs(reason="its weights are its data times i")
@pytest.mark.parametrize(("used", "client"), [(8, "process"), (64, "inside"), (1023, "inside")])
@pytest.mark.usefixtures("encrypting")
def test_a_package_keeps_imaginary_parts_too(used: int, client: str, tmp_path: Path) -> None:
    file = tmp_path / "turned.py"
    file.write_text(f"""import numpy as np
PARAMS = "insecure-small"
def data(size, slots, seed):
    return np.linspace(-0.5, 0.5, {used})
def program(ev, data, size):
    a = ev.encrypt(data)
    turned = ev.rescale(ev.mult(a, ev.encode(1j * data)))
    return np.concatenate([ev.decrypt(each)[:3] for each in (ev.mult_by_i(a), turned, ev.rescale(ev.square(a)))])
""")
    assert ps.run(file, client=client).passed
    package = tmp_path / "turned.pkg"
    write_package(package_workload(str(file)), package)
    found = ps.run(package, client=client)
    assert found.passed
    parts = list(found.outputs.values())
    assert [bool(np.any(np.imag(part))) for part in parts] == [True, True, False]


@pytest.mark.usefixtures("openfhe", "encrypting")
def test_a_client_that_drops_imaginary_parts_says_so(tmp_path: Path) -> None:
    def program(result: str) -> Path:
        file = tmp_path / f"{len(result)}.py"
        file.write_text(f"""import numpy as np
PARAMS = "insecure-small"
def data(size, slots, seed):
    return np.linspace(-0.5, 0.5, 64)
def program(ev, data, size):
    a = ev.mult_by_i(ev.encrypt(data))
    return ev.decrypt({result})[:64]
""")
        return file

    inside = {"client": "inside", "client_library": "openfhe"}
    for refused, right in ((inside | {"client": "process"}, inside), ({"reading": "noisy"}, {"reading": "noisy"})):
        with pytest.raises(PenstockError, match="values are complex, and OpenFHE's decryption drops"):
            ps.run(program("a"), **refused)
        assert ps.run(program("ev.mult_by_i(a)"), **right).passed


def test_the_noisy_reading_refuses_what_openfhe_would_drop() -> None:
    ev = NoisyEvaluator(catalogue.get("insecure-small"))
    with pytest.raises(PenstockError, match="complex"):
        ev.decrypt(ev.mult_by_i(ev.encrypt(X)))
