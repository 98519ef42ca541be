"""CryptOracle's artifact with its quirks, each also half mended, merged or cut: never silently wrong."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest

from penstock.errors import UsageError
from penstock.lab.fit.measurements import Measurement
from penstock.lab.prediction.importers import BadTiming, ImportLog, load
from penstock_studies.cryptoracle.artifact import breakdowns, count_table, estimates, event_counts
from penstock_studies.cryptoracle.artifact_rows import build_rows, figure11_rows

RYZEN = "AMD Ryzen 9 7950X 16-Core Processor"
WATTS = 63.0
"""Of that processor with one thread."""
PLACEHOLDERS = {"n": 1, "batch_size": 1, "depth": 1}


def cells(
    second: int, times: Mapping[str, float], *, power: float = 1.0, half: bool = False, **more: Any
) -> dict[str, str]:
    """One run: its times [s], with the energy of whole times. power: the stated one over that energy and time."""
    row: dict[str, Any] = {
        "Date and Time of Benchmark": f"2025-06-01 10:00:{second:02}", "CPU Model Name": RYZEN, "CPU Cores": 32,
        "security_standard_level": "none", "n": 13, "batch_size": 12, "depth": 10, "num_threads": 1,
        "runtime_analysis": "True", "cold_caching": "True",
    }  # fmt: skip
    row |= more
    for item, seconds in times.items():
        joules, stated = seconds * WATTS, seconds / 2 if half else seconds
        row |= {f"{item} Time": stated, f"{item} Energy": joules, f"{item} Power": joules / stated * power}
    return {name: str(value) for name, value in row.items()}


def write(path: Path, *rows: Mapping[str, str]) -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    lines = [",".join(rows[0])] + [",".join(row[name] for name in rows[0]) for row in rows]
    path.write_text("\n".join(lines) + "\n")
    return path


def seconds_of(path: Path, log: ImportLog | None = None, **more: Any) -> dict[str, float]:
    return {m.item: m.seconds for m in load(path, log=log or ImportLog(), **more)}


PRIMITIVES = {"CKKS_Mult": 0.02, "CKKS_Rotate": 0.018}


# Halved times.


def test_halved_times_are_recognised_by_their_power_and_doubled(tmp_path: Path) -> None:
    path, log = write(tmp_path / "p.csv", cells(1, PRIMITIVES, half=True)), ImportLog()
    assert seconds_of(path, log) == pytest.approx({"mult": 0.02, "rotate": 0.018})
    assert any("1 rows are half of what passed" in text and "doubled" in text for text in log.warnings)


def test_halved_times_are_left_out_as_bad_where_that_is_asked(tmp_path: Path) -> None:
    write(tmp_path / "p.csv", cells(1, PRIMITIVES, half=True))
    write(tmp_path / "q.csv", cells(2, PRIMITIVES, depth=12))
    log = ImportLog(skip_bad=True)
    assert {m.params.depth for m in load(tmp_path, log=log)} == {12}
    assert any("left out as bad" in reason for reason in log.left_out)


def test_a_file_that_is_mended_in_part_is_judged_row_by_row(tmp_path: Path) -> None:
    rows = [cells(second, PRIMITIVES, half=second % 2 == 0) for second in range(1, 9)]
    found = load(write(tmp_path / "timings-invalid.csv", *rows), log=(log := ImportLog()))
    assert {m.spread for m in found} == {0.0}
    assert any("the times of 4 rows are half" in text for text in log.warnings)
    assert any("in 4 rows energy over time is the processor's power" in text for text in log.warnings)


def test_mended_times_with_the_old_power_are_taken_and_the_power_is_named(tmp_path: Path) -> None:
    path, log = write(tmp_path / "m.csv", cells(1, {"matrix_multiplication": 10.0}, power=2.0)), ImportLog()
    assert seconds_of(path, log) == {"cryptoracle-matrix-multiplication": 10.0}
    assert any("'Power' is twice the energy over the time in 1 rows" in text for text in log.warnings)


def test_halved_times_with_a_mended_power_are_doubled(tmp_path: Path) -> None:
    path = write(tmp_path / "m.csv", cells(1, {"matrix_multiplication": 10.0}, half=True, power=0.5))
    assert seconds_of(path) == {"cryptoracle-matrix-multiplication": 10.0}


def test_a_disturbed_row_of_much_power_is_not_doubled(tmp_path: Path) -> None:
    rows = [cells(second, PRIMITIVES) for second in (1, 2, 3)]
    hot = cells(4, PRIMITIVES)
    hot |= {name: str(float(value) * 2) for name, value in hot.items() if name.endswith(("Energy", "Power"))}
    assert seconds_of(write(tmp_path / "p.csv", *rows, hot)) == pytest.approx({"mult": 0.02, "rotate": 0.018})


def test_of_an_unknown_processor_two_groups_of_powers_tell(tmp_path: Path) -> None:
    other = {"CPU Model Name": "Imagined"}
    write(tmp_path / "a.csv", cells(1, PRIMITIVES, **other), cells(2, PRIMITIVES, **other))
    write(tmp_path / "b.csv", cells(3, PRIMITIVES, half=True, depth=12, **other))
    assert {m.seconds for m in load(tmp_path) if m.item == "mult"} == {0.02}


def test_whole_times_go_before_doubled_ones(tmp_path: Path) -> None:
    write(tmp_path / "a.csv", cells(1, {"CKKS_Mult": 0.022}, half=True))
    write(tmp_path / "b.csv", cells(2, {"CKKS_Mult": 0.020}))
    log = ImportLog()
    assert seconds_of(tmp_path, log) == {"mult": 0.020}
    assert log.left_out == {f"{tmp_path / 'a.csv'}: doubled times of what another file has whole": 1}


# Placeholders, orders, builds.


def test_placeholders_of_workloads_are_table_5s(tmp_path: Path) -> None:
    row = cells(1, {"cifar10": 1.5, "chi_square_test": 2.9}, **PLACEHOLDERS)
    params = {m.item: m.params for m in load(write(tmp_path / "w.csv", row))}
    network, test = params["cryptoracle-cifar10"], params["cryptoracle-chi-square"]
    assert (network.ring_dim, network.depth, network.scale_bits) == (2**16, 5, 25)
    assert (test.ring_dim, test.depth) == (2**17, 3)


def test_placeholders_of_anything_else_are_refused(tmp_path: Path) -> None:
    path = write(tmp_path / "w.csv", cells(1, {"sign_eval": 1.5}, **PLACEHOLDERS))
    with pytest.raises(BadTiming, match=r"w\.csv:2: n, batch_size and depth are 1, placeholders, .* 'sign_eval'"):
        load(path)


@pytest.mark.parametrize(
    ("level", "depth", "log_n"),
    [("128c", 10, 15), ("128c", 15, 16), ("128c", 20, 16), ("192c", 10, 16), ("192c", 15, 16), ("256c", 10, 16),
     ("192c", 20, 17), ("256c", 15, 17), ("256c", 20, 17)],
)  # fmt: skip
def test_a_security_level_chooses_the_ring_dimension(tmp_path: Path, level: str, depth: int, log_n: int) -> None:
    row = cells(1, {"matrix_multiplication": 10.0}, security_standard_level=level, n=12, depth=depth)
    assert load(write(tmp_path / "s.csv", row))[0].params.ring_dim == 1 << log_n


def test_the_order_of_matrices_is_read_and_has_a_default(tmp_path: Path) -> None:
    write(tmp_path / "a.csv", cells(1, {"matrix_multiplication": 1.8}, matrix_size=8))
    write(tmp_path / "b.csv", cells(2, {"matrix_multiplication": 10.0}))
    assert {m.size: m.seconds for m in load(tmp_path)} == {"order8": 1.8, "order32": 10.0}


def test_builds_with_hexl_do_not_mix_with_others(tmp_path: Path) -> None:
    write(tmp_path / "a.csv", cells(1, {"CKKS_Mult": 0.02}))
    write(
        tmp_path / "h.csv",
        cells(2, {"CKKS_Mult": 0.03}, hexl="False"),
        cells(3, {"CKKS_Mult": 0.012}, hexl="True"),
    )
    log = ImportLog()
    assert seconds_of(tmp_path, log) == {"mult": 0.02}
    assert log.left_out == {
        "of the build 'without-hexl' of the library": 1,
        "of the build 'hexl' of the library": 1,
    }
    assert seconds_of(tmp_path, build="hexl") == {"mult": 0.012}
    speedups = [row for row in build_rows(tmp_path) if row["quantity"] == "speedup"]
    assert [row["published"] for row in speedups] == pytest.approx([2.5])


def test_an_unread_column_that_is_there_twice_is_named_and_harmless(tmp_path: Path) -> None:
    path, log = write(tmp_path / "a.csv", cells(1, {"CKKS_Mult": 0.02}, power_latency_analysis="False")), ImportLog()
    path.write_text(path.read_text().replace("power_latency_analysis", "runtime_analysis"))
    assert seconds_of(path, log) == {"mult": 0.02}
    assert log.warnings == [f"{path}:1: column 'runtime_analysis' is there twice; the last one stands"]


# Columns without times, and files that contradict or repeat each other.


def test_a_column_without_times_is_named_once(tmp_path: Path) -> None:
    rows = [cells(s, {"cifar10": 1.5}, **PLACEHOLDERS, **{"low_memory_resnet20 Time": "NaN"}) for s in (1, 2, 3)]
    log = ImportLog()
    assert seconds_of(write(tmp_path / "w.csv", *rows), log) == {"cryptoracle-cifar10": 1.5}
    assert log.left_out == {f"{tmp_path / 'w.csv'}: no row of column 'low_memory_resnet20 Time' has a time": 3}


def test_a_single_cell_without_a_time_is_bad(tmp_path: Path) -> None:
    rows = [cells(s, PRIMITIVES) for s in (1, 2)]
    rows[1]["CKKS_Mult Time"] = "NaN"
    path = write(tmp_path / "p.csv", *rows)
    with pytest.raises(BadTiming, match=r"p\.csv:3: 'CKKS_Mult Time' is 'NaN'"):
        load(path)
    log = ImportLog(skip_bad=True)
    assert {m.item: m.runs for m in load(path, log=log)} == {"mult": 1, "rotate": 2}
    assert len(log.bad) == 1


def test_of_two_files_that_contradict_each_other_the_one_with_more_runs_stands(tmp_path: Path) -> None:
    write(tmp_path / "all.csv", cells(1, {"chi_square_test": 0.4, "cifar10": 1.5}, **PLACEHOLDERS))
    write(tmp_path / "chi.csv", *(cells(s, {"chi_square_test": 2.0 + s / 100}, **PLACEHOLDERS) for s in (2, 3, 4)))
    log = ImportLog()
    assert seconds_of(tmp_path, log) == {"cryptoracle-cifar10": 1.5, "cryptoracle-chi-square": 2.03}
    assert any("'chi_square_test' is 5.1 times off" in text for text in log.warnings)


def test_two_artifacts_that_are_merged_count_once(tmp_path: Path) -> None:
    rows = [cells(s, PRIMITIVES, half=s == 2, num_threads=s) for s in (1, 2)]
    rows[1] = cells(2, PRIMITIVES, half=True)
    for copy in ("one", "two"):
        write(tmp_path / copy / "p.csv", *rows)
    log = ImportLog()
    found = load(tmp_path, log=log)
    assert {m.item: m.runs for m in found} == {"mult": 1, "rotate": 1}, (
        "the whole run, and not the doubled one beside it"
    )
    assert log.left_out[f"{tmp_path / 'two' / 'p.csv'}: runs that are in {tmp_path / 'one' / 'p.csv'} too"] == 4


@pytest.mark.parametrize(
    ("change", "said"),
    [
        (lambda text: text.replace("0.02,", '"0,02",'), r"p\.csv:2: 'CKKS_Mult Time' is '0,02', which is not a number"),
        (lambda text: text.rstrip()[:-30], r"p\.csv:2: \d+ values in \d+ columns: the row is cut off"),
        (lambda text: text.replace("CPU Model Name", "CPU Vendor", 1), r"p\.csv:1: column 'CPU Model Name' is missing"),
        (lambda text: text.replace("Mult Time", "Mult Time [ms]"), r"p\.csv:1: column 'CKKS_Mult Time \[ms\]'"),
        (lambda text: text.replace(",True,True", ",True,maybe").replace("cold_caching", "hexl"), "hexl is 'maybe'"),
    ],
)  # fmt: skip
def test_a_mutated_file_is_named_by_row(tmp_path: Path, change: Any, said: str) -> None:
    path = write(tmp_path / "p.csv", cells(1, PRIMITIVES))
    path.write_text(change(path.read_text()))
    with pytest.raises(BadTiming, match=said):
        load(path)


# The rest of the artifact.

SAMPLES = "Function,Sample Count,Percentage of Time (%)\nEvalMult,300,9.8\nEvalRotate,700,87.3\nother,0,0.0\n"


def estimate(path: Path, add: float = 2e-4, calls: float = 81, rotations: float = 79) -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    lines = [
        "security_standard_level,n,depth,num_threads,CKKS_Add,CKKS_Rotate,"
        "CKKS_Add_contribution,CKKS_Rotate_contribution,estimated_Time"
    ]
    for depth in (3, 6):
        rotate = 0.01 * depth
        values = ["none", 16, depth, 1, add, rotate, add * calls, rotate * rotations, add * calls + rotate * rotations]
        lines.append(",".join(map(str, values)))
    path.write_text("\n".join(lines) + "\n")
    return path


def test_files_without_timings_are_left_out_by_kind(tmp_path: Path) -> None:
    write(tmp_path / "p.csv", cells(1, {"CKKS_Mult": 0.02}))
    (tmp_path / "matmul.csv").write_text(SAMPLES)
    estimate(tmp_path / "amd_estimated_runtime_matmul_new_algo_median.csv")
    log = ImportLog()
    assert seconds_of(tmp_path, log) == {"mult": 0.02}
    assert set(log.left_out) == {
        "a CSV file of CryptOracle's with samples by function, and no timings",
        "a CSV file of CryptOracle's with predictions by its own model, and no timings",
    }


def test_samples_become_shares(tmp_path: Path) -> None:
    (tmp_path / "matmul.csv").write_text(SAMPLES)
    (tmp_path / "unknown.csv").write_text(SAMPLES)
    log = ImportLog()
    assert breakdowns(tmp_path, log) == {"matrix-multiplication": {"EvalMult": 0.3, "EvalRotate": 0.7}}
    assert len(log.left_out) == 1
    (tmp_path / "matmul.csv").write_text(SAMPLES.replace("700", "many"))
    with pytest.raises(BadTiming, match=r"matmul\.csv:3: the sample count is 'many'"):
        breakdowns(tmp_path, ImportLog())


def test_counts_are_contributions_over_unit_costs(tmp_path: Path) -> None:
    estimate(tmp_path / "amd_estimated_runtime_matmul_new_algo_median.csv")
    estimate(tmp_path / "amd_estimated_runtime_matmul_original_algo_median.csv", calls=2339, rotations=386)
    found = estimates(tmp_path, ImportLog())
    assert count_table(found) == {
        "algorithm-5": {"CKKS_Add": 81, "CKKS_Rotate": 79},
        "rectangular-mm": {"CKKS_Add": 2339, "CKKS_Rotate": 386},
    }
    rows = {row["id"]: row for row in figure11_rows(found, {})}
    assert rows["figure11.rectangular-mm.rotate.count"]["first_principles"] == 386
    few, many = 2e-4 * 81 + 0.03 * 79, 2e-4 * 2339 + 0.06 * 386
    assert rows["figure11.gain.amd.d6-over-d3.t1.runtime"]["published"] == pytest.approx(many / few)


def test_a_contribution_that_is_no_whole_number_of_calls_is_refused(tmp_path: Path) -> None:
    estimate(tmp_path / "amd_estimated_runtime_matmul_new_algo_median.csv", calls=81.4)
    with pytest.raises(BadTiming, match=r"csv:2: 'CKKS_Add_contribution' is 81\.4 times 'CKKS_Add'"):
        estimates(tmp_path, ImportLog())


def test_without_the_files_of_figure_11_its_rows_say_so() -> None:
    rows = figure11_rows([], {})
    assert all("has no file of this figure" in row["note"] for row in rows)


def test_counters_are_medians_at_the_nearest_configuration(tmp_path: Path) -> None:
    rows = [
        cells(s, {"CKKS_Mult": 0.02}, n=n, **{"CKKS_Mult instructions": 100 * s})
        for s, n in ((1, 13), (2, 16), (3, 16))
    ]
    rows[2]["CKKS_Mult instructions"] = "NaN"
    found = event_counts(write(tmp_path / "p.csv", *rows).parent, 16, 10)
    assert [(e.item, e.event, e.log_n, e.value, e.runs) for e in found] == [("CKKS_Mult", "instructions", 16, 200.0, 1)]


def test_a_folder_without_timings_is_refused(tmp_path: Path) -> None:
    (tmp_path / "matmul.csv").write_text(SAMPLES)
    with pytest.raises(UsageError, match="holds no CSV file of CryptOracle's"):
        load(tmp_path)


def test_a_measurement_names_its_first_row(tmp_path: Path) -> None:
    found: list[Measurement] = load(
        write(tmp_path / "p.csv", cells(1, {"CKKS_Mult": 0.02}), cells(2, {"CKKS_Mult": 0.03}))
    )
    assert found[0].source.endswith("p.csv:2")
