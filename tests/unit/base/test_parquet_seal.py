"""A Parquet file with a seal is checked before a decoder sees it; one without is decoded apart first."""

import shutil
import subprocess

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from penstock.base.system.tables import parquet
from penstock.base.system.tables.parquet import Bounds, read_table
from penstock.base.system.tables.seal import KEY, SealBroken, check_seal
from penstock.errors import PenstockError

TABLE = pa.table({"x": list(range(1000)), "name": ["a", "b"] * 500})
BOUNDS = Bounds(schema=TABLE.schema, what="table of tests", remedy="make it again", error=PenstockError)


@pytest.fixture
def sealed(tmp_path):
    path = tmp_path / "sealed.parquet"
    parquet.write_table(TABLE, path, compression="zstd")
    return path


@pytest.fixture
def foreign(tmp_path):
    path = tmp_path / "foreign.parquet"
    pq.write_table(TABLE, path)
    return path


def test_a_sealed_file_reads_back_here_and_in_any_reader(sealed):
    assert check_seal(sealed)
    assert read_table(sealed, BOUNDS).equals(TABLE)
    assert pq.read_table(sealed).equals(TABLE)


def test_each_byte_of_a_sealed_file_is_checked(sealed, tmp_path):
    whole = sealed.read_bytes()
    damaged = tmp_path / "damaged.parquet"
    at_seal = whole.rfind(KEY)
    unsealed = 0
    for at in range(0, len(whole), 7):
        damaged.write_bytes(whole[:at] + bytes([whole[at] ^ 0x10]) + whole[at + 1 :])
        try:
            assert not check_seal(damaged)  # the change made it a file without a seal
        except SealBroken:
            continue
        assert at_seal <= at < at_seal + len(KEY) + 2 or at >= len(whole) - 8
        unsealed += 1
    assert unsealed <= (len(KEY) + 10) // 7 + 2


def test_a_file_without_a_seal_is_read_too(foreign):
    assert not check_seal(foreign)
    assert read_table(foreign, BOUNDS).equals(TABLE)


@pytest.mark.parametrize(
    ("ending", "says"),
    [("import os; os.kill(os.getpid(), 11)", "status -11"), ("raise SystemExit(3)", "more memory than its footer")],
)
def test_a_decoder_that_ends_by_itself_is_an_error_of_the_file(foreign, monkeypatch, ending, says):
    monkeypatch.setattr(parquet, "python_module", lambda name: [shutil.which("python3"), "-c", ending])
    with pytest.raises(PenstockError, match=rf"foreign\.parquet is damaged: .*{says}.*; make it again"):
        read_table(foreign, BOUNDS)


def test_a_damaged_page_header_does_not_end_the_process_that_asks(foreign, tmp_path):
    """Every bit of the first page's header: an error, or the values."""
    whole = foreign.read_bytes()
    damaged = tmp_path / "damaged.parquet"
    said = []
    for bit in range(4 * 8, 4 * 8 + 60, 6):
        at, mask = bit // 8, 1 << bit % 8
        damaged.write_bytes(whole[:at] + bytes([whole[at] ^ mask]) + whole[at + 1 :])
        try:
            assert read_table(damaged, BOUNDS).num_rows == len(TABLE)
        except PenstockError as error:
            said.append(str(error))
    assert said
    assert all(each.endswith("make it again") for each in said)


def test_the_trial_reads_a_whole_file(foreign):
    command = [*parquet.python_module("penstock.base.system.tables.trial"), str(foreign), str(1 << 30), "x"]
    assert subprocess.run(command, capture_output=True, check=True).stdout == b""
