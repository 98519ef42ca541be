"""Files of vectors: what is read and written, and what is refused."""

from __future__ import annotations

import numpy as np
import pytest

from penstock.base.system.files import FileError, WouldOverwrite
from penstock.base.system.vectors import read_real, read_vectors, write_vectors
from penstock.errors import UsageError

HUGE = b"\x93NUMPY\x01\x00v\x00{'descr': '<f8', 'fortran_order': False, 'shape': (99999999999999,), }" + b" " * 43
"""A file that says it has more numbers than it holds."""


@pytest.mark.parametrize("name", ["x.npy", "x.csv", "x.json"])
def test_one_vector_is_read_as_it_was_written(tmp_path, name):
    x = np.array([0.1, -2.5, 1e-300])
    write_vectors({"x": x}, tmp_path / name)
    assert list(read_vectors(tmp_path / name)) == [None]
    assert np.array_equal(read_vectors(tmp_path / name)[None], x)


@pytest.mark.parametrize("name", ["x.npz", "x.json"])
def test_several_vectors_keep_their_names(tmp_path, name):
    given = {"file": np.array([1.0]), "output[0]": np.arange(3.0)}
    write_vectors(given, tmp_path / name)
    found = read_vectors(tmp_path / name)
    assert list(found) == list(given)
    assert all(np.array_equal(found[key], given[key]) for key in given)


def test_numpy_reads_what_is_written(tmp_path):
    write_vectors({"a": np.array([1 + 2j]), "b": np.arange(4.0)}, tmp_path / "x.npz")
    with np.load(tmp_path / "x.npz") as file:
        assert file["a"][0] == 1 + 2j
        assert np.array_equal(file["b"], np.arange(4.0))


def test_a_file_of_one_vector_takes_no_second(tmp_path):
    with pytest.raises(UsageError, match="there are 2: a, b"):
        write_vectors({"a": np.zeros(1), "b": np.zeros(1)}, tmp_path / "x.npy")
    assert not list(tmp_path.iterdir())


def test_complex_numbers_are_not_written_as_real_ones(tmp_path):
    with pytest.raises(UsageError, match="'a' is complex"):
        write_vectors({"a": np.array([1j])}, tmp_path / "x.csv")


def test_an_existing_file_stays_unless_forced(tmp_path):
    path = tmp_path / "x.npy"
    write_vectors({"a": np.zeros(1)}, path)
    with pytest.raises(WouldOverwrite):
        write_vectors({"a": np.ones(1)}, path)
    assert read_vectors(path)[None][0] == 0
    write_vectors({"a": np.ones(1)}, path, force=True)
    assert read_vectors(path)[None][0] == 1


@pytest.mark.parametrize(
    ("name", "content"),
    [
        ("x.npy", HUGE),
        ("x.npy", b"not numpy"),
        ("x.npz", b"PK\x03\x04"),
        ("x.csv", b"1,two\n"),
        ("x.json", b'{"x": ["a"]}'),
        ("x.json", b"\xff"),
    ],
)  # fmt: skip
def test_a_file_that_holds_no_vectors_is_refused(tmp_path, name, content):
    (tmp_path / name).write_bytes(content)
    with pytest.raises(UsageError, match="no vectors of numbers"):
        read_vectors(tmp_path / name)


@pytest.mark.parametrize(
    ("name", "content"),
    [("x.csv", b"1,2\n# a remark\n3\n"), ("x.csv", b"1, 2 # two\n\n3,\n"), ("x.json", b"[1, 2, 3]")],
)
def test_the_values_of_a_ciphertext_are_one_list_of_real_numbers(tmp_path, name, content):
    (tmp_path / name).write_bytes(content)
    found = read_real(tmp_path / name, 3)
    assert (found.tolist(), found.dtype) == ([1.0, 2.0, 3.0], np.float64)


@pytest.mark.parametrize(
    ("values", "why"),
    [
        (np.zeros(4), "4 values; a ciphertext takes one list of 1 to 3"),
        (np.zeros(0), "0 values"),
        (np.zeros((2, 1)), "2 x 1 values"),
        (np.array([1.0, np.inf]), "value 1 is not finite"),
        (np.array([1j]), "something else than one list of real numbers"),
    ],
)
def test_values_that_are_no_ciphertext_are_refused(tmp_path, values, why):
    np.save(tmp_path / "x.npy", values)
    with pytest.raises(UsageError, match=why):
        read_real(tmp_path / "x.npy", 3)


def test_several_vectors_are_no_ciphertext(tmp_path):
    (tmp_path / "x.json").write_text('{"a": [1], "b": [2]}')
    with pytest.raises(UsageError, match="something else than one list"):
        read_real(tmp_path / "x.json", 3)


def test_pickled_objects_are_not_loaded(tmp_path):
    np.save(tmp_path / "x.npy", np.array([{}], dtype=object), allow_pickle=True)
    with pytest.raises(UsageError, match="no vectors of numbers"):
        read_vectors(tmp_path / "x.npy")


def test_another_kind_of_file_and_a_missing_one_are_named(tmp_path):
    with pytest.raises(UsageError, match="vectors are in"):
        read_vectors(tmp_path / "x.txt")
    with pytest.raises(FileError, match="does not exist"):
        read_vectors(tmp_path / "x.npy")


@pytest.mark.filterwarnings("error")
@pytest.mark.parametrize("content", ["", "\n\n", "# only a remark\n"])
def test_a_file_without_numbers_has_no_values_and_no_warning(tmp_path, content):
    (tmp_path / "x.csv").write_text(content)
    assert read_vectors(tmp_path / "x.csv")[None].shape == (0,)
