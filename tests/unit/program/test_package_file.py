"""The file of a package: round trips, refusals, damage, and that nothing but a whole file appears."""

from __future__ import annotations

import dataclasses
import re
import struct
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from penstock._engine import PackageReader, package_limits
from penstock.base.system.files import FileError, WouldOverwrite
from penstock.program.evaluator.clear import ClearEvaluator
from penstock.program.evaluator.scaling import ScaleState
from penstock.program.package.builder import PackageBuilder
from penstock.program.package.content import (
    SHAPES,
    ConstantsInMemory,
    Input,
    Instruction,
    Output,
    Package,
    PackageError,
    PackageSeries,
    Scope,
    Verb,
)
from penstock.program.package.file import (
    VERBS,
    PackageFile,
    check_package,
    open_package,
    package_info,
    write_package,
)
from penstock.program.package.replay import run_package
from penstock.scheme.operations import operations
from support.docs_blocks import ROOT
from support.small_packages import PARAMS, every_verb

RNG = np.random.default_rng(26)


def equal_but_constants(a: Package, b: Package) -> bool:
    names = [each.name for each in dataclasses.fields(Package) if each.name != "constants"]
    return all(getattr(a, name) == getattr(b, name) for name in names)


def test_a_package_comes_back_as_it_was_written(tmp_path: Path) -> None:
    package, path = every_verb(), tmp_path / "all.pkg"
    assert {each.verb for each in package.instructions} == set(Verb)
    assert write_package(package, path) == path.stat().st_size
    found = open_package(path)
    assert equal_but_constants(found, package)
    assert type(found.instructions[0].number) is float
    for number in range(len(package.constants)):
        before, after = package.constants.values(number), found.constants.values(number)
        assert before.dtype == after.dtype
        assert before.tobytes() == after.tobytes()
    assert [each.name for each in tmp_path.iterdir()] == ["all.pkg"]


def test_the_verbs_of_the_file_are_those_of_packages() -> None:
    calls = {row.code: name for name, row in operations().items() if row.code is not None}
    assert [calls[code] for code in range(len(calls))] == [verb.value for verb in VERBS]


def test_a_package_names_the_operations_that_other_versions_may_lack(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    package = replace(every_verb(), provenance={"operation manual": "see wiki"})
    write_package(package, tmp_path / "first.pkg")
    assert package_info(tmp_path / "first.pkg")["provenance"] == package.provenance
    monkeypatch.setattr("penstock.program.package.file.FIRST_SET", 26)
    write_package(package, tmp_path / "later.pkg")
    named = {"operation 26": "scaled", "operation 27": "weighted_sum"}
    assert package_info(tmp_path / "later.pkg")["provenance"] == package.provenance | named
    assert b'"operation 26": "scaled"' in (tmp_path / "later.pkg").read_bytes()  # as readers look for it
    assert open_package(tmp_path / "later.pkg").provenance == package.provenance
    with pytest.raises(PackageError, match="files keep 'operation 9' for themselves; rename the provenance"):
        write_package(replace(package, provenance={"operation 9": "x"}), tmp_path / "own.pkg")


def test_a_written_package_computes(tmp_path: Path) -> None:
    constants, path = ConstantsInMemory(), tmp_path / "small.pkg"
    builder = PackageBuilder(constants)
    weights = np.linspace(-1, 1, 8) + 1j
    product = builder.add(Verb.MULT_PLAIN, [builder.encrypt(Input("x", 8))], constants=[builder.constant(weights)])
    builder.output(builder.add(Verb.ADD_SCALAR, [product], number=2.0), Output("y", 8))
    write_package(builder.finish("small", PARAMS, constants), path)
    x = np.arange(8.0)
    found = run_package(ClearEvaluator(PARAMS), open_package(path), {"x": x})
    assert np.array_equal(found["y"], x * weights + 2)


def vectors() -> Iterator[np.ndarray]:
    """Vectors that forms suit, and some that none does."""
    for length in (0, 1, 2, 3, 8, 100, 1024):
        for values in (
            np.zeros(length),
            np.full(length, 0.1),
            RNG.standard_normal(length),
            RNG.standard_normal(length).astype(np.float32),
            RNG.integers(-100, 100, length),
            RNG.integers(-(2**52), 2**52, length),
            np.where(RNG.random(length) < 0.1, RNG.standard_normal(length), 0.0),
            np.resize(RNG.standard_normal(7), length),
            np.repeat(RNG.standard_normal(length), 16),
            RNG.choice(RNG.standard_normal(5), length),
            RNG.choice([0.0, -0.0, 5e-324, 1.7976931348623157e308], length),
        ):
            yield np.asarray(values)
            yield values + 1j * RNG.permutation(values)
            yield RNG.random(length) < 0.5


def test_every_constant_comes_back_bit_by_bit(tmp_path: Path) -> None:
    memory = ConstantsInMemory()
    with PackageFile(tmp_path / "a.pkg") as file:
        numbers = {file.add(values): memory.add(values) for values in vectors()}
        assert list(numbers) == list(numbers.values()) == list(range(len(file)))
        assert all(file.values(number).tobytes() == memory.values(number).tobytes() for number in numbers)
        file.finish(replace(every_verb(), constants=file))
    constants = open_package(tmp_path / "a.pkg").constants
    assert {each[3] for each in PackageReader(tmp_path / "a.pkg").entries()} == {
        "float64", "float32", "integers", "period", "sparse", "runs", "dictionary",
    }  # fmt: skip
    with ThreadPoolExecutor(4) as pool:
        found = list(pool.map(constants.values, range(len(constants))))
    for number, values in enumerate(found):
        assert values.dtype == memory.values(number).dtype
        assert values.tobytes() == memory.values(number).tobytes()


def test_coefficients_are_their_values_in_the_slots(tmp_path: Path) -> None:
    path, n = tmp_path / "a.pkg", PARAMS.ring_dim
    few, many = RNG.integers(-500, 500, 16), RNG.integers(-(2**40), 2**40, n)
    with PackageFile(path) as file:
        for integers, exponent in ((few, -9), (many, -42), (few, -9)):
            file.add_coefficients(integers, exponent)
        assert len(file) == 2
        file.finish(replace(every_verb(), constants=file))
    reader = PackageReader(path)
    for number, integers, exponent in ((0, few, -9), (1, many, -42)):
        found = reader.coefficients(number)
        assert found is not None
        assert found[1] == exponent
        assert np.array_equal(found[0], integers)
        values = open_package(path).constants.values(number)
        assert values.shape == (PARAMS.slots,)
        for slot in (0, 1, 5, PARAMS.slots - 1):
            root = np.exp(1j * np.pi * pow(5, slot, 2 * n) / n)
            powers = root ** (np.arange(len(integers)) * (n // len(integers)))
            assert abs(values[slot] - np.sum(integers * powers) * 2.0**exponent) < 1e-9 * np.abs(values).max()
    assert reader.entries()[0][0] < 40  # ten bits each
    assert [each[2] for each in reader.entries()] == ["coefficients"] * 2


@pytest.mark.parametrize(
    ("changed", "says"),
    [
        ({"name": ""}, "the name: it is empty"),
        ({"name": "a\x1b[31m"}, "printable"),
        ({"name": "a\u202egkp"}, "printable"),
        ({"name": "x" * 5000}, "at most 4096 bytes"),
        ({"name": "\udc80"}, "another type"),
        ({"keys": {"relin": 15}}, "key 0: 15 limbs of 14"),
        ({"keys": {"": 1}}, "have names"),
        ({"inputs": (Input("x", 8), Input("x", 8))}, "input 1: another one is named 'x'"),
        ({"inputs": (Input("x", 8), Input("y", 20_000))}, "input 1: 20000 values"),
        ({"inputs": (Input("x", 8), Input("z", 8), Input("w", 8))}, "input 2: no instruction has it"),
        ({"outputs": (Output("a", 8),)}, "output 1 of 1"),
        ({"scopes": (Scope("", 0),)}, r"\(add\): scope 1 of 1"),
        ({"scopes": (Scope("", 0), Scope("a", 1), Scope("b", 0))}, "parents are earlier"),
        ({"series": (PackageSeries((1.0,)),)}, "series 1 of 1"),
        ({"series": (PackageSeries(()), PackageSeries((1.0,)))}, "series 0: 0 coefficients"),
        ({"series": (PackageSeries((float("nan"),)), PackageSeries((1.0,)))}, "not finite"),
        ({"series": (PackageSeries((1.0,), 2.0, 2.0), PackageSeries((1.0,)))}, "interval"),
        ({"provenance": {"made": 3}}, "'made' is not a text"),
    ],
)
def test_content_that_breaks_a_rule_is_not_written(tmp_path: Path, changed: dict[str, object], says: str) -> None:
    with pytest.raises(PackageError, match=says):
        write_package(replace(every_verb(), **changed), tmp_path / "a.pkg")  # type: ignore[arg-type]
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize(
    ("instruction", "says"),
    [
        (Instruction(Verb.ADD, (0,)), r"\(add\) has 1 operands"),
        (Instruction(Verb.ADD, (0, 1), results=2), "2 results"),
        (Instruction(Verb.ADD_PLAIN, (0,)), "0 constants"),
        (Instruction(Verb.ADD_PLAIN, (0,), constants=(99,)), "constant 99 of 2"),
        (Instruction(Verb.WEIGHTED_SUM, ()), "no operands"),
        (Instruction(Verb.NEGATE, (99,)), "value 99, and 2 were made before it"),
        (Instruction(Verb.NEGATE, (2,)), "value 2, and 2 were made before it"),
        (Instruction(Verb.NEGATE, (-1,)), "operand -1"),
        (Instruction(Verb.NEGATE, (0,), number=1.0), "takes no number"),
        (Instruction(Verb.NEGATE, (0,), argument=1), "takes no argument"),
        (Instruction(Verb.ADD_SCALAR, (0,), number=float("inf")), "not finite"),
        (Instruction(Verb.ROTATE, (0,), argument=2**40), "argument 1099511627776"),
        (Instruction(Verb.ROTATE, (0,), argument=2**20), "a step of 1048576"),
        (Instruction(Verb.MOD_DROP, (0,), argument=15), "15 limbs of 14"),
        (Instruction(Verb.BOOTSTRAP, (0,), argument=3), "a period of 3"),
        (Instruction(Verb.ENCRYPT, argument=0), "input 0 again"),
        (Instruction(Verb.OUTPUT, (0,), results=0, argument=9), "output 9 of 2"),
        (Instruction(Verb.NEGATE, (0,), state=ScaleState(15)), "15 limbs and degree 1"),
        (Instruction(Verb.NEGATE, (0,), state=ScaleState(3, 3)), "3 limbs and degree 3"),
        (Instruction(Verb.NEGATE, (0,), scope=9), "scope 9 of 3"),
        (Instruction(Verb.ROTATE_HOISTED, (0, 1), argument=1), "value 1, a ciphertext, stands for digits"),
    ],
)
def test_an_instruction_that_breaks_a_rule_is_named(tmp_path: Path, instruction: Instruction, says: str) -> None:
    package = every_verb()
    calls = [*package.instructions[:2], instruction, *package.instructions[2:]]
    with pytest.raises(PackageError, match=says) as raised:
        write_package(replace(package, instructions=calls), tmp_path / "a.pkg")
    assert "instruction 2 (" in str(raised.value) or "an instruction has" in str(raised.value)
    assert list(tmp_path.iterdir()) == []


def test_digits_go_to_rotations_of_their_ciphertext_only(tmp_path: Path) -> None:
    package = every_verb()
    begin = [*package.instructions[:2], Instruction(Verb.DECOMPOSE, (0,))]
    for call, says in (
        (Instruction(Verb.ROTATE_HOISTED, (1, 2), argument=1), "the digits of value 0 with value 1"),
        (Instruction(Verb.ROTATE_HOISTED, (2, 2), argument=1), "the digits of value 0 with value 2"),
        (Instruction(Verb.ADD, (0, 2)), "digits go to rotate_hoisted only"),
        (Instruction(Verb.OUTPUT, (2,), results=0), "digits go to rotate_hoisted only"),
    ):
        with pytest.raises(PackageError, match=says):
            write_package(replace(package, instructions=[*begin, call]), tmp_path / "a.pkg")


@pytest.mark.parametrize(
    ("values", "says"),
    [
        (np.array([1.0, np.nan]), "not finite"),
        (np.array([1.0, complex(0, np.inf)]), "not finite"),
        (np.zeros((2, 2)), r"shape \(2, 2\)"),
        (np.full(2**17 + 1, 0.5), "at most 2"),
    ],
)
def test_a_constant_that_is_no_vector_of_numbers_is_refused(tmp_path: Path, values: np.ndarray, says: str) -> None:
    with PackageFile(tmp_path / "a.pkg") as file, pytest.raises(PackageError, match=says):
        file.add(values)
    with PackageFile(tmp_path / "a.pkg") as file, pytest.raises(PackageError, match="power of two"):
        file.add_coefficients(np.arange(3), 0)


def test_a_file_is_not_replaced_unasked(tmp_path: Path) -> None:
    path = tmp_path / "a.pkg"
    path.write_bytes(b"mine")
    with pytest.raises(WouldOverwrite):
        PackageFile(path)
    assert path.read_bytes() == b"mine"
    write_package(every_verb(), path, force=True)
    assert open_package(path).name == "every verb"
    with PackageFile(tmp_path / "b.pkg") as file:
        (tmp_path / "b.pkg").write_bytes(b"made meanwhile")
        with pytest.raises(WouldOverwrite):
            file.finish(replace(every_verb(), instructions=[], inputs=(), outputs=()))
    assert (tmp_path / "b.pkg").read_bytes() == b"made meanwhile"
    assert sorted(each.name for each in tmp_path.iterdir()) == ["a.pkg", "b.pkg"]


def test_a_package_that_is_left_unfinished_leaves_nothing(tmp_path: Path) -> None:
    with PackageFile(tmp_path / "a.pkg") as file:
        file.add(RNG.standard_normal(100))
        assert len(list(tmp_path.iterdir())) == 1
    assert list(tmp_path.iterdir()) == []
    with pytest.raises(PackageError, match="is closed"):
        file.add(np.ones(3))


def test_a_file_that_is_not_there_or_no_file_is_said(tmp_path: Path) -> None:
    with pytest.raises(FileError, match="does not exist"):
        open_package(tmp_path / "none.pkg")
    with pytest.raises(FileError, match="folder"):
        open_package(tmp_path)
    with pytest.raises(FileError, match="does not exist"):
        PackageFile(tmp_path / "none" / "a.pkg")
    (tmp_path / "text.pkg").write_text("no package at all, but long enough to be one, at least as far as sizes go")
    with pytest.raises(PackageError, match="does not begin as a program package does"):
        open_package(tmp_path / "text.pkg")


def test_a_file_of_a_later_version_asks_for_an_upgrade(tmp_path: Path) -> None:
    path = tmp_path / "a.pkg"
    write_package(every_verb(), path)
    content = bytearray(path.read_bytes())
    content[8:12] = struct.pack("<I", 2)
    path.write_bytes(content)
    with pytest.raises(PackageError, match="version 2, this program reads versions up to 1: upgrade penstock"):
        open_package(path)


def test_information_counts_what_is_there(tmp_path: Path) -> None:
    package, path = every_verb(), tmp_path / "a.pkg"
    write_package(package, path)
    info = package_info(path)
    assert info["instructions"] == sum(info["verbs"].values()) == len(package.instructions)
    assert info["constants"] == 2
    assert info["float64_bytes"] == 8 * 8 + 9 * 16
    assert info["constant_bytes"] == sum(row["bytes"] for row in info["forms"].values()) < info["float64_bytes"]
    assert info["keys"] == package.keys
    assert info["inputs"][1] == {"name": "z", "length": 5, "limbs": 6, "is_complex": True}
    assert info["provenance"] == package.provenance
    assert len(check_package(path).instructions) == len(package.instructions)


def test_fifty_thousand_instructions_open_in_half_a_second(tmp_path: Path) -> None:
    with PackageFile(tmp_path / "a.pkg") as file:
        for number in range(5000):
            file.add(np.array([number, 0.5]))
        calls = [Instruction(Verb.ENCRYPT)]
        for at in range(0, 50_000, 2):
            calls.append(Instruction(Verb.MULT_PLAIN, (at,), constants=(at // 10,), state=ScaleState(3, 2), scope=1))
            calls.append(Instruction(Verb.ADD, (at, at + 1), state=ScaleState(2)))
        scopes = (Scope("", 0), Scope("a", 0))
        package = replace(
            every_verb(), constants=file, instructions=calls, inputs=(Input("x", 8),), outputs=(), scopes=scopes
        )
        file.finish(package)
    seconds = []
    for _ in range(3):
        begun = time.process_time()
        found = open_package(tmp_path / "a.pkg")
        seconds.append(time.process_time() - begun)
    assert found.instructions == calls
    assert min(seconds) < 0.5


def test_the_page_of_the_format_has_the_limits_and_the_verbs() -> None:
    page = (ROOT / "docs" / "reference" / "package-format.md").read_text()
    limits = re.findall(r"^\| ([^|]+) \| (\d+) \|$", page.split("## Limits")[1].split("##")[0], re.M)
    assert [(what, int(most)) for what, most in limits] == package_limits()
    rows = re.findall(
        r"^\| ([\d, to]+) \| (`.+`) \| (\d|\*n\*)[^|]* \| (\S+) \| (\S+) \| (yes)? ?\| ?([^|]*)\|$",
        page.split("## Verbs")[1].split("##")[0],
        re.M,
    )
    stated = [(name, *row[2:]) for row in rows for name in re.findall("`(.+?)`", row[1])]
    for row, found in zip((SHAPES[verb] for verb in VERBS), stated, strict=True):
        numbers = ["*n*" if each == -1 else str(each) for each in (row.operands, row.results, row.constants)]
        assert list(found[:5]) == [row.name, *numbers, "yes" if row.numbers else ""]
        assert bool(found[5].strip()) == (row.argument != "none")
    codes = [code for row in rows for code in _codes(row[0])]
    assert codes == list(range(len(VERBS)))


def _codes(text: str) -> list[int]:
    """The codes of a row: one, several with commas, or the first and the last."""
    found = [int(each) for each in re.findall(r"\d+", text)]
    return list(range(found[0], found[-1] + 1)) if "to" in text else found
