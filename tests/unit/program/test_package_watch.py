"""What a program encrypts is in no package of it; what is planted is found, on each way to a package."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from penstock.front.cli.main import main
from penstock.program.package.builder import PackageBuilder
from penstock.program.package.capture import capture
from penstock.program.package.content import ConstantsInMemory, Input, Output, Package, PackageSeries, Verb
from penstock.program.package.file import PackageFile, write_package
from penstock.program.running.packaging import package_workload
from penstock.scheme.params import catalogue
from support.package_canaries import drawn
from support.package_watch import KINDS, WATCH, canaries, found_in_bytes, found_in_numbers, searched, telling

PARAMS = catalogue.get("insecure-ci")
X = drawn(np.random.default_rng(7), 8)
OTHERS = np.concatenate([drawn(np.random.default_rng(8), 500), np.round(drawn(np.random.default_rng(9), 500), 2)])


def leaked(kind: str, x: Any = X) -> Any:
    return eval(KINDS[kind], {"np": np, "x": x})


@contextmanager
def counted(packages: int = 0, files: int = 0) -> Iterator[None]:
    """So many packages and files are searched inside, and nothing is found."""
    before = WATCH.packages, WATCH.files
    with WATCH.planted() as found:
        yield
    assert found == []
    assert (WATCH.packages - before[0], WATCH.files - before[1]) == (packages, files)


def package_with(constant: Any = (), number: complex = 0.0, series: Any = (0.5, 1.0), text: str = "") -> Package:
    held = ConstantsInMemory()
    builder = PackageBuilder(held)
    x = builder.encrypt(Input("x", 8))
    x = builder.add(Verb.ADD_PLAIN, [x], constants=[builder.constant(np.concatenate([OTHERS, constant, OTHERS[:5]]))])
    x = builder.series(Verb.POLYNOMIAL, builder.add(Verb.ADD_SCALAR, [x], number=number), PackageSeries(tuple(series)))
    builder.output(x, Output("y", 8))
    return builder.finish("p", PARAMS, held, description=text)


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize(
    "held",
    [
        lambda x: package_with(x),
        lambda x: package_with(-x),
        lambda x: package_with(1j * x),
        lambda x: package_with(np.tile(x, 3)),
        lambda x: package_with(series=tuple(x)),
    ],
    ids=["constant", "negated", "imaginary", "repeated", "series"],
)
def test_a_planted_input_is_found(tmp_path: Path, kind: str, held: Callable[[Any], Package]) -> None:
    package = held(leaked(kind))
    assert found_in_numbers(package, canaries(X))
    write_package(package, tmp_path / "p.pkg")
    assert searched(tmp_path / "p.pkg", X)


@pytest.mark.parametrize("digits", range(2, 13))
def test_roundings_are_found(digits: int) -> None:
    assert found_in_numbers(package_with(np.round(X, digits)), canaries(X))


@pytest.mark.parametrize("bits", range(20, 60))
def test_scaled_integers_are_found(bits: int) -> None:
    scaled = np.rint(X * 2.0**bits)
    assert found_in_numbers(package_with(scaled), canaries(X))
    assert found_in_numbers(package_with(scaled / 2.0**bits), canaries(X))


@pytest.mark.parametrize(
    "number", [X[3], -X[3], 1j * X[3], np.round(X[3], 12), np.rint(X[3] * 2.0**50)],
)  # fmt: skip
def test_one_number_is_found(number: complex) -> None:
    assert found_in_numbers(package_with(number=number), canaries(X))


def test_one_number_in_a_text_is_found() -> None:
    assert found_in_numbers(package_with(text=f"of {float(X[2])!r}"), canaries(X)) == ["input 0 as text"]


@pytest.mark.parametrize(
    "planted",
    [
        X[:1].tobytes(),
        X[:1].astype(">f8").tobytes(),
        X.astype("<f4").tobytes(),
        X.astype(">f4").tobytes(),
        np.round(X, 3).tobytes(),
        np.rint(X * 2.0**20).astype(np.int32).tobytes(),
        np.rint(-X * 2.0**20).astype(np.int64).tobytes(),
        np.rint(X[:1] * 2.0**59).astype(np.int64).tobytes(),
        repr(float(abs(X[1]))).encode(),
    ],
)
@pytest.mark.parametrize("offset", [0, 3, 4001])
def test_bytes_are_found_at_any_place(planted: bytes, offset: int) -> None:
    content = OTHERS.tobytes()
    assert not found_in_bytes(content, canaries(X))
    assert found_in_bytes(content[:offset] + planted + content[offset:], canaries(X))


def test_other_numbers_are_not_found(tmp_path: Path) -> None:
    package = package_with(np.round(OTHERS, 1), number=0.1, series=(1 / 3, 0.5))
    assert found_in_numbers(package, canaries(X)) == []
    write_package(package, tmp_path / "p.pkg")
    assert searched(tmp_path / "p.pkg", X, drawn(np.random.default_rng(10), 5000)) == []


def test_only_numbers_of_many_bits_are_looked_for() -> None:
    assert np.all(telling(X))
    assert np.all(telling(np.array([np.pi, -1e-9 * np.e, 1e9 * np.sqrt(2)])))
    assert not np.any(telling(np.array([0.0, 0.5, 0.1, 0.1 + 0.2, 1 / 3, -5 / 7, np.float32(0.7), np.inf, np.nan])))
    assert not np.any(telling(np.linspace(-0.5, 0.5, 100)))
    assert canaries(np.arange(8)) == canaries([0.5, 0.25]) == []


# Ways to a package.

PROGRAM = """import numpy as np
PARAMS = "insecure-ci"
def data(size, slots, seed):
    return {"x": %s + seed, "w": np.random.default_rng(seed).uniform(-1, 1, 8)}
def program(ev, data, size):
    x = data["x"]
    y = ev.rescale(ev.mult(ev.encrypt(x, name="x"), ev.encode(data["w"])))
    return ev.decrypt(%s)[:8]
"""
PLACES = {"constant": "ev.add(y, ev.encode({}))", "series": "ev.polynomial(y, [0.5, *{}])"}


def written(folder: Path, result: str = "y") -> Path:
    path = folder / "score.py"
    path.write_text(PROGRAM % (f"np.array({X.tolist()})", result))
    return path


def test_a_captured_program_is_searched(tmp_path: Path) -> None:
    with counted(packages=1):
        package = package_workload(str(written(tmp_path)))
    with counted(files=1):
        write_package(package, tmp_path / "p.pkg")
    with counted(files=1), PackageFile(tmp_path / "q.pkg") as file:
        file.finish(capture(lambda ev: ev.decrypt(ev.negate(ev.encrypt(X))), PARAMS, file, "q"))


@pytest.mark.parametrize("place", PLACES)
@pytest.mark.parametrize("kind", KINDS)
def test_a_leak_of_a_captured_program_is_found(tmp_path: Path, kind: str, place: str) -> None:
    program = written(tmp_path, PLACES[place].format(KINDS[kind]))
    with WATCH.planted() as found:
        package = package_workload(str(program))
    assert re.match("package 'score' holds input 0 as ", found[0])
    with WATCH.planted() as found:
        write_package(package, tmp_path / "p.pkg")
    assert "p.pkg holds input 0 as " in found[0]


def test_the_verb_is_searched(tmp_path: Path) -> None:
    program, package = written(tmp_path), str(tmp_path / "score.pkg")
    with counted(files=1):
        assert main(["package", str(program), "-o", package, "--verify", "-q"]) == 0
    with counted(packages=1):
        assert main(["package", str(program), "-q"]) == 0
    with counted(files=1):
        assert main(["package", package, "--params", "sharp", "-o", str(tmp_path / "sharp.pkg"), "-q"]) == 0


@pytest.mark.parametrize("kind", KINDS)
def test_a_leak_through_the_verb_is_found(tmp_path: Path, kind: str) -> None:
    program, package = written(tmp_path, PLACES["constant"].format(KINDS[kind])), str(tmp_path / "score.pkg")
    with WATCH.planted() as found:
        assert main(["package", str(program), "-o", package, "-q"]) == 0
        assert main(["package", package, "--params", "sharp", "-o", str(tmp_path / "sharp.pkg"), "-q"]) == 0
    assert ["score.pkg holds" in found[0], "sharp.pkg holds" in found[1]] == [True, True]


@pytest.mark.parametrize(
    "workload", ["inner-product", "matrix-multiplication", "logistic-regression", "logistic-function", "sorting"]
)
def test_workloads_of_drawn_data_are_searched(tmp_path: Path, workload: str) -> None:
    with counted(files=1):
        assert main(["package", workload, "--size", "ci", "-o", str(tmp_path / "w.pkg"), "-q"]) == 0


def test_a_search_that_fails_is_a_finding() -> None:
    with WATCH.planted() as found:
        WATCH.note(PackageBuilder(ConstantsInMemory()), X)
        assert WATCH.taken() == []
        PackageBuilder(ConstantsInMemory()).finish("p", PARAMS, [], keyed=False)  # type: ignore[arg-type]  # no weak reference
    assert "the search failed: TypeError" in found[0]


def test_a_test_is_watched_without_asking(request: pytest.FixtureRequest) -> None:
    assert {"watching", "no_package_holds_its_inputs"} <= set(request.fixturenames)
    assert all(hasattr(each, "__wrapped__") for each in (PackageFile.finish, PackageBuilder.finish))
