"""CryptOracle's CSV and YAML: what a row is of, repeats, and what is wrong with a file, named by file and row."""

from __future__ import annotations

import csv
import io
import os
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from penstock.errors import UnknownName, UsageError
from penstock.lab.fit.measurements import Measurement
from penstock.lab.prediction.importers import BadTiming, ImportLog, load
from penstock.scheme.params import catalogue
from penstock.scheme.params.ckks import CkksParameters
from penstock.scheme.work.shapes import Shape
from penstock_studies.importers.applications import files_of
from penstock_studies.importers.reading import csv_files
from penstock_studies.importers.settings import parameters

ABOUT = {
    "Date and Time of Benchmark": "2026-11-01 10:00:00", "CPU Vendor": "AuthenticAMD", "CPU Model Name": "AMD Imagined",
    "CPU Cores": "8", "security_standard_level": "none", "n": "13", "batch_size": "12", "depth": "10",
    "num_threads": "1", "build": "False", "cold_caching": "True",
}  # fmt: skip
Row = dict[str, str]


def row(second: int, **more: Any) -> Row:
    """One run; keyword `CKKS_Add__Time` is the column 'CKKS_Add Time'."""
    stamp = f"2026-11-01 10:00:{second:02}"
    cells = {name.replace("__", " "): str(value) for name, value in more.items()}
    return {**ABOUT, "Date and Time of Benchmark": stamp, **cells}


def mult(second: int, seconds: float = 0.01, joules: float = 0.7, **more: Any) -> Row:
    power = more.pop("power", joules / seconds)
    return row(second, CKKS_Mult__Time=seconds, CKKS_Mult__Energy=joules, CKKS_Mult__Power=power, **more)


def text_of(rows: list[Row]) -> str:
    out = io.StringIO()
    writer = csv.DictWriter(out, fieldnames=list(rows[0]))
    writer.writeheader()
    writer.writerows(rows)
    return out.getvalue()


def file_of(folder: Path, rows: list[Row], name: str = "a.csv") -> Path:
    folder.mkdir(exist_ok=True)
    (folder / name).write_text(text_of(rows), newline="")
    return folder / name


def test_repeats_of_a_configuration_are_one_measurement(tmp_path: Path) -> None:
    rows = [mult(1, 0.010, 0.8), mult(2, 0.012, 0.6), mult(3, 0.011, 0.7), mult(4, 0.02, 1.4, num_threads=2)]
    found = load(file_of(tmp_path, rows))
    assert [(each.seconds, each.joules, each.runs, each.threads) for each in found] == [
        (0.011, 0.7, 3, 1),
        (0.02, 1.4, 1, 2),
    ]
    assert found[0].spread == pytest.approx(0.002 / 0.011)
    assert found[1].spread is None
    assert found[0].source == f"{tmp_path / 'a.csv'}:2"
    assert found[0].shape == Shape("mult", 11, 11, 0, 0, 2)


def test_the_set_is_that_of_the_file_generator() -> None:
    named, made = catalogue.get("cryptoracle"), parameters(0, 16, 12, 10, False)
    for field in ("ring_dim", "slots", "q_bits", "p_bits", "dnum", "scale_bits", "scaling", "secret", "first_mod_bits"):
        assert getattr(made, field) == getattr(named, field), field


def test_all_threads_are_the_cores(tmp_path: Path) -> None:
    assert load(file_of(tmp_path, [mult(1, num_threads=0)]))[0].threads == 8


def test_a_context_that_bootstraps_has_the_longer_chain(tmp_path: Path) -> None:
    rows = [mult(1, n=16, CKKS_Bootstrap__Time=13.0)]
    found = {each.item: each for each in load(file_of(tmp_path, rows))}
    assert found["mult"].params.depth == 10 + 8 + 2 * 4
    assert found["mult"].shape == Shape("mult", 27, 27, 0, 0, 2)
    assert found["bootstrap"].shape is None


def test_with_a_security_level_openfhe_chooses_the_ring_dimension() -> None:
    def bits_left(params: CkksParameters, bound: int) -> int:
        return bound - params.log_qp

    params = parameters(128, 12, 12, 26, False)
    assert params.ring_dim == 2**17
    assert bits_left(params, 3523) > 0 > bits_left(params, 1747)


def test_applications_composites_and_columns_without_meaning(tmp_path: Path) -> None:
    cells = {"CKKS_Chebyshev_Series Time": "0.2", "CKKS_Logistic Time": "0.3", "CKKS_Rescale Time": "1e-6",
             "CKKS_Add_Many Time": "0.01", "matrix_multiplication Time": "2.5", "matrix_multiplication Energy": "150",
             "matrix_multiplication cache-misses": "NaN", "low_memory_resnet20 Time": "700"}  # fmt: skip
    log = ImportLog()
    found = load(file_of(tmp_path, [row(1) | cells]), log=log)
    assert [(each.group, each.item, each.degree, each.shape, each.size) for each in found] == [
        ("primitives", "chebyshev_series", 57, None, None),
        ("primitives", "chebyshev_function", 59, None, None),
        ("micro", "cryptoracle-matrix-multiplication", None, None, "order32"),
        ("workloads", "cryptoracle-resnet20", None, None, "full"),
    ]
    assert found[2].joules == 150
    assert sum(log.left_out.values()) == 2
    assert any("does nothing" in reason for reason in log.left_out)


def test_an_energy_that_is_missing_is_not_zero(tmp_path: Path) -> None:
    for energy in ("", "N/A", "0.0"):
        assert (
            load(file_of(tmp_path, [mult(1) | {"CKKS_Mult Energy": energy, "CKKS_Mult Power": ""}]))[0].joules is None
        )


@pytest.mark.parametrize(
    ("changed", "said"),
    [
        ({"CKKS_Mult Time": "-0.01"}, "more than zero"),
        ({"CKKS_Mult Time": "0"}, "more than zero"),
        ({"CKKS_Mult Time": ""}, "'CKKS_Mult Time' is missing"),
        ({"CKKS_Mult Time": "N/A"}, "is missing"),
        ({"CKKS_Mult Time": "nan"}, "finite"),
        ({"CKKS_Mult Time": "inf"}, "finite"),
        ({"CKKS_Mult Time": "fast"}, "not a number"),
        ({"CKKS_Mult Time": "10 ms"}, "not a number"),
        ({"CKKS_Mult Time": "10.0"}, "another unit"),  # milliseconds
        ({"CKKS_Mult Energy": "-1"}, "not negative"),
        ({"CKKS_Mult Energy": "700"}, "another unit"),  # millijoules
        ({"n": "40"}, "n, log2 of the ring dimension, is 40"),
        ({"n": "8192"}, "from 10 to 17"),
        ({"n": "13.5"}, "whole number"),
        ({"batch_size": "13"}, "slots 8192"),
        ({"depth": "0"}, "depth is 0"),
        ({"depth": "-3"}, "depth is -3"),
        ({"num_threads": "-1"}, "num_threads is -1"),
        ({"num_threads": "two"}, "not a number"),
        ({"security_standard_level": "100"}, "known: none, 128c"),
        ({"Date and Time of Benchmark": "2026-11-01 10:00:01"}, r"is in .*a\.csv:2 already: a duplicated row"),
    ],
)
def test_a_bad_row_is_named_and_can_be_skipped(tmp_path: Path, changed: Row, said: str) -> None:
    path = file_of(tmp_path, [mult(1), mult(2) | changed, mult(3)])
    with pytest.raises(BadTiming, match=rf"a\.csv:3: .*{said}"):
        load(path)
    log = ImportLog(skip_bad=True)
    assert load(path, log=log)[0].runs == 2
    assert len(log.bad) == 1


@pytest.mark.parametrize(
    ("change", "said"),
    [
        (lambda text: text.replace("CKKS_Mult Time", "CKKS_Mutl Time"), "did you mean 'CKKS_Mult Time'"),
        (lambda text: text.replace("CKKS_Mult Time", "CKKS_Mult Time (ms)"), "times are in seconds"),
        (lambda text: text.replace("CKKS_Mult Time", "CKKS_Mult Time_ms"), "times are in seconds"),
        (lambda text: text.replace("CKKS_Mult Time", "CKKS_Mult time"), "times are in seconds"),
        (lambda text: text.replace("CKKS_Mult Time", "CKKS_Mult IPC"), "no column 'CKKS_Mult Time'"),
        (lambda text: text.replace("CKKS_Mult Energy", "CKKS_Mult Time"), "is there twice"),
        (lambda text: text.replace("build", "speed"), "unknown column 'speed'"),
        (lambda text: text.replace("batch_size", "cold_caching"), "is there twice"),
        (lambda text: text.replace("CPU Model Name", "CPU Architecture"), "'CPU Model Name' is missing"),
        (lambda text: text[:-12], r"a\.csv:3: .*cut off"),
        (lambda text: text.splitlines()[0], "no row behind the header"),
        (lambda text: text.replace("0.01,", "0.01,,", 1), r"a\.csv:2: .*comma too many"),
    ],
)
def test_a_file_that_is_no_such_table_is_one_error(tmp_path: Path, change: Callable[[str], str], said: str) -> None:
    path = file_of(tmp_path, [mult(1), mult(2)])
    path.write_text(change(path.read_text()))
    with pytest.raises(BadTiming, match=said):
        load(path)


def test_a_folder_is_read_whole_and_one_cpu_is_chosen(tmp_path: Path) -> None:
    file_of(tmp_path, [mult(1)])
    file_of(tmp_path / "intel", [mult(2, **{"CPU Model Name": "Intel Imagined"})])
    file_of(tmp_path, [{"x": "1"}], "other.csv")
    with pytest.raises(UsageError, match=r"2 CPUs .*--cpu"):
        load(tmp_path)
    log = ImportLog()
    assert [each.source for each in load(tmp_path, cpu="intel", log=log)] == [f"{tmp_path / 'intel/a.csv'}:2"]
    assert len(log.left_out) == 2
    with pytest.raises(UsageError, match="give a part of that name"):
        load(tmp_path, cpu="arm")
    (tmp_path / "none").mkdir()
    file_of(tmp_path / "none", [{"x": "1"}], "other.csv")
    with pytest.raises(UsageError, match="holds no CSV file of CryptOracle's"):
        load(tmp_path / "none")


def test_a_run_that_two_files_share_counts_once_and_is_said(tmp_path: Path) -> None:
    file_of(tmp_path, [mult(1)])
    file_of(tmp_path, [mult(1), mult(2)], "b.csv")
    log = ImportLog()
    assert [each.runs for each in load(tmp_path, log=log)] == [2]
    assert log.left_out == {f"{tmp_path / 'b.csv'}: runs that are in {tmp_path / 'a.csv'} too": 1}
    assert log.used == {str(tmp_path / "a.csv"): 1, str(tmp_path / "b.csv"): 1}


def test_a_run_with_two_times_is_refused_and_named(tmp_path: Path) -> None:
    file_of(tmp_path, [mult(1)])
    file_of(tmp_path, [mult(1, 0.011)], "b.csv")
    with pytest.raises(
        BadTiming, match=r"b\.csv:2: 'CKKS_Mult' of the run of .* takes 0\.011 s, and 0\.01 s in .*a\.csv:2"
    ):
        load(tmp_path)


# YAML.

YAML = """### Application ###
name: "matrix_multiplication"   # as in the CSV
description: "sums: and # signs"
title: 'matrix'

primitive_benchmarks: "data/a.csv"
actual_benchmarks: "data/missing.csv"

parameters:
  security_standard_level: none
  n: 16
  depth: 10
  num_threads: sweep
operation_counts:
  CKKS_Add: 178
  CKKS_Rotate: 193
statistic: "median"
"""


def test_a_configuration_gives_its_csv_files(tmp_path: Path) -> None:
    path = tmp_path / "mm.yaml"
    path.write_text(YAML)
    file_of(tmp_path / "data", [mult(1)])
    assert files_of(path) == [tmp_path / "data" / "a.csv"], "the other file that it names is not there"
    measured: list[Measurement] = load(path)
    assert [each.item for each in measured] == ["mult"]


@pytest.mark.parametrize(
    ("change", "error", "said"),
    [
        (("name: \"matrix_multiplication\"", "name: matrix"), UnknownName, "unknown application"),
        (("CKKS_Add: 178", "CKKS_Ad: 178"), UnknownName, "did you mean 'CKKS_Add'"),
        (("CKKS_Add: 178", "CKKS_Add: -178"), BadTiming, "operation_counts.CKKS_Add is -178"),
        (("CKKS_Add: 178", "CKKS_Add: many"), BadTiming, "'many'"),
        (("statistic: \"median\"", "statistic: mode"), BadTiming, "mean or median"),
        (("operation_counts:", "counts:"), BadTiming, "needs name, primitive_benchmarks and operation_counts"),
        (("data/a.csv", "data/b.csv"), UsageError, "does not exist"),
        (("title: 'matrix'", "title: [1, 2]"), BadTiming, r"mm\.yaml:4: .*not understood"),
        (("title: 'matrix'", "title"), BadTiming, r"mm\.yaml:4: .*not 'key: value'"),
        (("  depth: 10", "    depth: 10"), BadTiming, r"mm\.yaml:12: .*indented"),
        (("  depth: 10", "  n: 10"), BadTiming, r"mm\.yaml:12: .*twice"),
    ],
)  # fmt: skip
def test_a_bad_configuration_is_named_with_its_line(
    tmp_path: Path, change: tuple[str, str], error: type[Exception], said: str
) -> None:
    assert change[0] in YAML
    path = tmp_path / "mm.yaml"
    path.write_text(YAML.replace(*change))
    with pytest.raises(error, match=said):
        load(path)


def test_a_list_of_what_to_sweep_holds_no_timings(tmp_path: Path) -> None:
    path = tmp_path / "parameters.yaml"
    path.write_text("n:\n- 13\n- 14\nnum_threads:\n  - 1\n  - 2\n")
    with pytest.raises(BadTiming, match="hold no timings"):
        load(path)


# The public data.


def public_data() -> Path:
    folder = Path(
        os.environ.get("PENSTOCK_CRYPTORACLE_DATA") or Path(__file__).parents[3].parent / "shared/data/cryptoracle"
    )
    if not folder.is_dir():
        pytest.skip(f"CryptOracle's public data is not in {folder}; name its folder in PENSTOCK_CRYPTORACLE_DATA")
    return folder


def test_the_public_data_is_read_whole_and_fast() -> None:
    folder = public_data()
    log = ImportLog()
    started = time.process_time()
    amd = load(folder, cpu="AMD", log=log)
    assert time.process_time() - started < 2
    sweep = [each for each in amd if each.item == "square"]  # timed in the file of the whole sweep only
    assert len(sweep) == 5 * 6 * 6
    assert {each.runs for each in sweep} == {3}
    micro = [each for each in amd if each.group == "micro"]
    assert {each.runs for each in micro} == {5}
    assert len(micro) == 3 * 24
    assert all(each.joules for each in micro)
    assert {each.params.ring_dim for each in micro} == {2**13, 2**14, 2**16}
    assert not log.bad
    assert len({each.threads for each in load(folder, cpu="Intel")}) == 6


def test_what_is_no_text_or_no_file_is_left_out(tmp_path):
    (tmp_path / "zeros.csv").write_bytes(bytes(100))
    os.mkfifo(tmp_path / "pipe.csv")
    with pytest.raises(UsageError, match="no CSV file of CryptOracle's"):
        csv_files(tmp_path, ImportLog())
