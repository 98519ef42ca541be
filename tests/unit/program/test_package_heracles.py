"""HERACLES' traces with their file of values as packages."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from penstock.errors import TraceError
from penstock.front.cli.main import main
from penstock.program.evaluator.clear import ClearEvaluator
from penstock.program.package.file import PackageFile, open_package
from penstock.program.package.heracles import integers, package_of_heracles, polynomials
from penstock.program.package.replay import run_package
from penstock.scheme.params import catalogue
from penstock.scheme.traces import wire
from penstock.scheme.traces.heracles import HeraclesCall, HeraclesTrace, Operand, encode
from support.package_canaries import drawn
from support.package_watch import KINDS, searched

PARAMS = catalogue.get("insecure-small")
PRIMES = (4294955009, 4294950913)
"""Of a file of values: its words have 32 bits."""


def cipher(symbol: str, limbs: int, order: int = 2) -> Operand:
    return Operand(symbol, limbs, order)


def trace(*instructions: HeraclesCall) -> bytes:
    params = PARAMS
    return encode(
        HeraclesTrace(list(instructions), 4, params.ring_dim, params.num_q + params.num_p, params.num_q, params.dnum)
    )


def program(limbs: int = 7) -> bytes:
    """(x * w, rescaled) and its rotation by one, added; times 0.5."""
    low = limbs - 1
    return trace(
        HeraclesCall("mul_plain", [cipher("p", limbs)], [cipher("x", limbs), cipher("w", limbs, 1)]),
        HeraclesCall("rescale", [cipher("q", low)], [cipher("p", limbs)]),
        HeraclesCall("rotate", [cipher("r", low)], [cipher("q", low)], {"galois_elt": "5"}),
        HeraclesCall("add", [cipher("s", low)], [cipher("q", low), cipher("r", low)]),
        HeraclesCall("bk_free", [], []),
        HeraclesCall("muli", [cipher("y", low)], [cipher("s", low)], {"scalar": "0.5"}),
    )


def encoded(values: np.ndarray) -> np.ndarray:
    """(N,) coefficients of a real vector at the set's scale, by the definition of the embedding."""
    n, slots = PARAMS.ring_dim, len(values)
    powers = np.ones(slots, dtype=object)
    for j in range(1, slots):
        powers[j] = powers[j - 1] * 5 % (2 * n)
    found = np.zeros(n)
    for k in range(n):
        found[k] = 2 / n * np.sum(values * np.cos(np.pi * ((powers * k) % (2 * n)).astype(float) / n))
    return np.rint(found * 2.0**PARAMS.scale_bits).astype(np.int64)


def values_file(
    coefficients: np.ndarray, symbol: str = "w", *, evaluated: bool = False, primes: tuple[int, ...] = PRIMES
) -> bytes:
    rows = b""
    for prime in primes:
        packed = b"".join(wire.varint(int(each) % prime) for each in coefficients)
        rows += wire.bytes_field(1, wire.bytes_field(1, packed) + wire.number_field(2, prime))
    data = wire.bytes_field(1, wire.bytes_field(1, rows) + wire.number_field(2, int(evaluated)))
    return wire.bytes_field(1, wire.text_field(1, symbol) + wire.bytes_field(2, data))


WEIGHTS = np.linspace(-1, 1, PARAMS.slots)


def test_a_trace_with_its_values_is_a_package_that_computes(tmp_path: Path) -> None:
    with PackageFile(tmp_path / "p.pkg") as file:
        file.finish(package_of_heracles(program(), values_file(encoded(WEIGHTS)), file, PARAMS, name="p"))
    package = open_package(tmp_path / "p.pkg")
    assert [each.name for each in package.inputs] == ["x"]
    assert [each.name for each in package.outputs] == ["y"]
    assert package.keys == {"rot:5": 6}
    x = np.random.default_rng(1).uniform(-1, 1, PARAMS.slots)
    found = run_package(ClearEvaluator(PARAMS), package, {"x": x})["y"]
    product = x * WEIGHTS
    assert np.allclose(found, 0.5 * (product + np.roll(product, -1)), atol=1e-6)


def test_the_verb_writes_it(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (tmp_path / "t.bin").write_bytes(program())
    (tmp_path / "v.bin").write_bytes(values_file(encoded(WEIGHTS)))
    words = ["package", str(tmp_path / "t.bin"), "--values", str(tmp_path / "v.bin"), "--params", PARAMS.name]
    assert main([*words, "-o", str(tmp_path / "t.pkg"), "--quiet"]) == 0
    assert "mult_plain" in capsys.readouterr().out
    assert main(words) == 2
    assert "name the package with -o" in capsys.readouterr().err


SECRET = drawn(np.random.default_rng(11), PARAMS.ring_dim)
POLYNOMIAL = np.rint(SECRET * 2.0**58).astype(np.int64)


def test_no_value_of_a_ciphertext_is_in_the_package(tmp_path: Path) -> None:
    values = values_file(encoded(WEIGHTS)) + values_file(POLYNOMIAL, "x")
    with PackageFile(tmp_path / "p.pkg") as file:
        file.finish(package_of_heracles(program(), values, file, PARAMS))
    assert searched(tmp_path / "p.pkg", SECRET) == []


def test_the_values_of_a_plaintext_are_found_there(tmp_path: Path) -> None:
    with PackageFile(tmp_path / "p.pkg") as file:
        file.finish(package_of_heracles(program(), values_file(POLYNOMIAL), file, PARAMS))
    assert "input 0 as double" in searched(tmp_path / "p.pkg", SECRET)


@pytest.mark.parametrize("kind", KINDS)
def test_a_number_is_found_there(tmp_path: Path, kind: str) -> None:
    numbers = eval(KINDS[kind], {"np": np, "x": SECRET[:8]})
    calls = [
        HeraclesCall("muli", [cipher(f"y{k}", 7)], [cipher("x", 7)], {"scalar": repr(float(each))})
        for k, each in enumerate(numbers)
    ]
    with PackageFile(tmp_path / "p.pkg") as file:
        file.finish(package_of_heracles(trace(*calls), b"", file, PARAMS))
    assert searched(tmp_path / "p.pkg", SECRET)


def test_coefficients_are_what_all_limbs_agree_on() -> None:
    given = np.zeros(PARAMS.ring_dim, dtype=np.int64)
    given[:4] = [5, -7, 1 << 60, -(1 << 60)]
    ((symbol, (found,)),) = polynomials(values_file(given))
    assert symbol == "w"
    assert np.array_equal(integers(found, symbol, PARAMS.ring_dim), given)


@pytest.mark.parametrize("most", [(1 << 62) - 1, -(1 << 62) + 1])
def test_coefficients_have_62_bits_at_most(most: int) -> None:
    given = np.zeros(PARAMS.ring_dim, dtype=np.int64)
    given[9] = most
    ((_, (found,)),) = polynomials(values_file(given))
    assert np.array_equal(integers(found, "w", PARAMS.ring_dim), given)
    given[9] += np.sign(most)
    ((_, (found,)),) = polynomials(values_file(given))
    with pytest.raises(TraceError, match="more than 62 bits"):
        integers(found, "w", PARAMS.ring_dim)


SMALL = np.arange(PARAMS.ring_dim)


@pytest.mark.parametrize(
    ("values", "says"),
    [
        (b"", "plaintext 'w' has no value"),
        (values_file(SMALL, "v"), "plaintext 'w' has no value"),
        (values_file(SMALL, evaluated=True), "in evaluation form"),
        (values_file(SMALL[:-1]), "a limb has 2048 coefficients"),
        (values_file(SMALL)[:-1], "cut off"),
        (values_file(SMALL, primes=(1,)), "it is damaged"),
    ],
)
def test_a_wrong_file_of_values_is_refused(tmp_path: Path, values: bytes, says: str) -> None:
    with PackageFile(tmp_path / "p.pkg") as file, pytest.raises(TraceError, match=says):
        package_of_heracles(program(), values, file, PARAMS)
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize(
    ("instruction", "says"),
    [
        (HeraclesCall("muli", [cipher("y", 7)], [cipher("x", 7)]), "states it as the parameter 'scalar'"),
        (
            HeraclesCall("rotate", [cipher("y", 7)], [cipher("x", 7)], {"galois_elt": "4"}),
            "no rotation of the slots",
        ),
        (HeraclesCall("ntt", [cipher("y", 7)], [cipher("x", 7)]), "no call of a package"),
        (HeraclesCall("add", [], [cipher("x", 7)]), "a call has some and 1"),
    ],
)
def test_an_instruction_that_no_package_has_is_named(tmp_path: Path, instruction: HeraclesCall, says: str) -> None:
    with PackageFile(tmp_path / "p.pkg") as file, pytest.raises(TraceError, match=says):
        package_of_heracles(trace(instruction), b"", file, PARAMS)
