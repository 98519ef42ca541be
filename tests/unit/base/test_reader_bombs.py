"""Every reader of CSV, JSON, YAML and the rest names a file that nobody writes, and does so at once."""

from __future__ import annotations

import gzip
import zipfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from penstock.base.runs.record import read_record
from penstock.base.units import RATE_UNITS, parse_quantity
from penstock.errors import ParamsError, PenstockError, UnitError, UsageError
from penstock.front.explorer.library import Library
from penstock.lab.measure.bench.results import stored_parameters
from penstock.lab.measure.bench.spec import load_suite, plan
from penstock.lab.prediction.importers import ImportLog, load
from penstock.lab.prediction.importers.yaml import loads
from penstock.lab.prediction.operation_counts import read_operation_counts
from penstock.lab.simulation.cluster.topology import build
from penstock.program.running.trace_pack import MANIFEST, check_pack
from penstock.program.workloads.chi_square import read_genotypes
from penstock.program.workloads.parts import images, networks
from penstock.program.workloads.parts.images import read_idx
from penstock.program.workloads.parts.networks import read_cifar10, read_weights
from penstock.runtime.scanning.store import HEADER, Database
from penstock_studies.importers.columns import header_of

Reader = Callable[[Path], Any]


def in_a_folder(name: str, read: Reader) -> tuple[str, Reader]:
    """A reader of the folder that holds a file of that name."""
    return name, lambda path: read(path.parent)


READERS: dict[str, tuple[str, Reader]] = {
    "counts.csv": ("counts.csv", read_operation_counts),
    "counts.json": ("counts.json", read_operation_counts),
    "counts.yaml": ("counts.yaml", read_operation_counts),
    "timings.json": ("timings.json", load),
    "timings.csv": ("timings.csv", load),
    "application.yaml": ("application.yaml", load),
    "genotypes.csv": ("genotypes.csv", lambda path: read_genotypes(path, 64)),
    "topology.toml": ("topology.toml", lambda path: build(str(path), 4)),
    "run.json": in_a_folder("run.json", read_record),
    HEADER: in_a_folder(HEADER, Database.open),
    MANIFEST: in_a_folder(MANIFEST, lambda path: list(check_pack(path))),
    "predictions.json": ("predictions.json", lambda path: Library(prediction_files={"p": path}).predictions("p")),
    "images-idx": ("images-idx", read_idx),
    "test_batch.bin": ("test_batch.bin", read_cifar10),
}
JSON = ["counts.json", "timings.json", "run.json", HEADER, MANIFEST, "predictions.json"]
TEXTS = [name for name in READERS if name not in ("images-idx", "test_batch.bin")]


@pytest.mark.parametrize("name", READERS)
def test_a_file_is_refused_by_its_size(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, name: str) -> None:
    named, read = READERS[name]
    (tmp_path / named).write_bytes(b" " * 100)
    monkeypatch.setenv("PENSTOCK_MOST_BYTES", "99")
    with pytest.raises(PenstockError, match=rf"{named} has 100 bytes; at most 99 are read.*PENSTOCK_MOST_BYTES=100"):
        read(tmp_path / named)


@pytest.mark.parametrize("name", TEXTS)
@pytest.mark.parametrize("content", [b"a\xffb: 1\n", "a: 1".encode("utf-16"), gzip.compress(b"a", mtime=0)])
def test_what_is_no_text_is_named(tmp_path: Path, name: str, content: bytes) -> None:
    named, read = READERS[name]
    (tmp_path / named).write_bytes(content)
    with pytest.raises(PenstockError, match=rf"{named}.*(UTF-8|UTF-16|gzip)|header is damaged"):
        read(tmp_path / named)


@pytest.mark.parametrize("name", JSON)
@pytest.mark.parametrize(
    "text",
    [
        "[" * 3000 + "]" * 3000,
        '{"a":' * 900 + "1" + "}" * 900,
        "[" + "9" * 5000 + "]",
        '{"benchmarks": ' + "9" * 5000 + "}",
    ],
)
def test_json_that_nobody_writes_is_named(tmp_path: Path, name: str, text: str) -> None:
    named, read = READERS[name]
    (tmp_path / named).write_text(text)
    with pytest.raises(PenstockError, match=rf"{named}.*(64 levels|more than 40 digits)|header is damaged"):
        read(tmp_path / named)


# Counts.


@pytest.mark.parametrize(
    ("name", "text"),
    [
        *(("counts.csv", f"operation,count\nmult,{count}\n") for count in ("1e308", "inf", "nan", "9" * 5000, "1e17")),
        *(("counts.json", f'{{"mult": {count}}}') for count in ("1e308", "Infinity", "NaN", "1e999", "1" + "0" * 30)),
        *(("counts.yaml", f"mult: {count}") for count in ("1e308", "9" * 5000, "1.0e17")),
    ],
)
def test_a_count_that_no_program_has_is_named(tmp_path: Path, name: str, text: str) -> None:
    (path := tmp_path / name).write_text(text)
    with pytest.raises(UsageError, match=rf"{name}.*(mult|more than 40 digits)") as caught:
        read_operation_counts(path)
    assert len(str(caught.value)) < 400


def test_yaml_that_nobody_writes_is_named() -> None:
    deep = "\n".join(" " * level + "a:" for level in range(70))
    with pytest.raises(UsageError, match=r"x\.yaml:65: .*nested deeper than 64 levels"):
        loads(deep, "x.yaml")
    with pytest.raises(UsageError, match=r"x\.yaml:1: .*a whole number of more than 40 digits"):
        loads("a: " + "9" * 5000, "x.yaml")
    spaces = "a" + " " * 20_000 + "b"
    assert loads(f"{spaces}: 1", "x.yaml") == {spaces: 1}


def test_a_header_of_many_columns_is_not_looked_through_for_each(tmp_path: Path) -> None:
    class Header(list[str]):
        def count(self, name: object) -> int:
            return pytest.fail("all columns are compared with each column")

    with pytest.raises(UsageError, match=r"t\.csv:1: column 'n' is there twice"):
        header_of(tmp_path / "t.csv", Header(["n", "depth", "n"]), ImportLog())


def test_a_quantity_is_short() -> None:
    for text in ("1" * 200_000 + " a\nb", "1 a" + " " * 200_000 + "b\nc", "1" * 300 + " GB/s"):
        with pytest.raises(UnitError, match=r"bandwidth is a text of \d+ characters; .* '4 GB/s'") as caught:
            parse_quantity(text, RATE_UNITS, "bandwidth")
        assert len(str(caught.value)) < 200


def test_a_suite_of_very_many_points_is_refused_before_they_are_made(tmp_path: Path) -> None:
    many = "[" + ", ".join(map(str, range(1, 300))) + "]"
    (path := tmp_path / "suite.toml").write_text(
        f"[[primitives]]\nring_dim = {many}\ndepth = {many}\nscale_bits = {many}\n"
    )
    with pytest.raises(UsageError, match=r"primitives: the axes have 26,730,899 combinations; at most 100,000"):
        plan(load_suite(str(path)))


# What workloads compute on.


def idx(shape: tuple[int, ...], content: bytes) -> bytes:
    return bytes([0, 0, 8, len(shape)]) + np.array(shape, ">u4").tobytes() + content


def test_packed_images_are_unpacked_up_to_a_bound(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = tmp_path / "images-idx"
    path.write_bytes(gzip.compress(idx((2, 3), bytes(6))))
    assert read_idx(path).shape == (2, 3)
    path.write_bytes(gzip.compress(bytes(100_000)))
    monkeypatch.setenv("PENSTOCK_MOST_BYTES", "1000")
    with pytest.raises(PenstockError, match=r"images-idx, unpacked, has 1,001 bytes; at most 1,000 are read"):
        read_idx(path)


def test_an_image_file_whose_header_overflows_is_named(tmp_path: Path) -> None:
    for shape in ((2**32 - 1,) * 4, (2**31, 2**31, 4), (1,) * 200):
        (path := tmp_path / "images-idx").write_bytes(idx(shape, b""))
        with pytest.raises(UsageError, match="images-idx"):
            read_idx(path)


def test_packed_weights_are_unpacked_up_to_a_bound(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    np.savez_compressed(path := tmp_path / "w.npz", a=np.zeros(10_000))
    assert read_weights(path)["a"].shape == (10_000,)
    monkeypatch.setenv("PENSTOCK_MOST_BYTES", "20000")
    with pytest.raises(PenstockError, match=r"w\.npz, unpacked, has 80,\d+ bytes; at most 20,000 are read"):
        read_weights(path)


@pytest.mark.parametrize("shape", ["(10000000000000000,)", "(" + "1, " * 100 + ")", "(99999999999999999999999,)"])
def test_weights_whose_header_states_more_than_the_file_are_named(tmp_path: Path, shape: str) -> None:
    head = f"{{'descr': '<f8', 'fortran_order': False, 'shape': {shape}, }}"
    head += " " * (-(len(head) + 11) % 64) + "\n"
    with zipfile.ZipFile(path := tmp_path / "w.npz", "w") as stored:
        stored.writestr("a.npy", b"\x93NUMPY\x01\x00" + len(head).to_bytes(2, "little") + head.encode() + bytes(8))
    with pytest.raises(UsageError, match=r"w\.npz is not an \.npz file of numbers"):
        read_weights(path)


def test_limits_are_those_of_honest_files() -> None:
    assert images.MOST_IMAGE_BYTES > 60_000 * 28 * 28 + 16
    assert networks.MOST_WEIGHT_BYTES >= 500_000_000  # VGG-16 in 32 bits


def test_a_long_value_is_not_repeated_whole(tmp_path: Path) -> None:
    (path := tmp_path / "suite.toml").write_text('order = "' + "x" * 100_000 + '"')
    with pytest.raises(UsageError, match=r"'order' is 'xxx") as caught:
        load_suite(str(path))
    assert len(str(caught.value)) < 500


def test_the_parameters_of_a_row_may_be_anything() -> None:
    for text in ("[" * 3000, "[]", "5", "9" * 5000, '{"q_bits": 5}'):
        with pytest.raises(ParamsError, match=r"holds no parameter set|malformed"):
            stored_parameters(text)
