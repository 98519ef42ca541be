from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow.parquet as pq
import pytest

from penstock.errors import LONGEST_NAME, PenstockError, UsageError
from penstock.front.cli.main import main
from penstock.lab.measure.bench.compare import compare, ratio_interval, statistics_of
from penstock.lab.measure.bench.results import (
    BENCH_SCHEMA,
    by_point,
    from_json,
    google_context,
    load_results,
    summary_rows,
    table_of,
    to_google_benchmark,
)
from penstock.scheme.params.ckks import BootstrapPlan
from support.bench_rows import points_of, rows_of


def rows(item: str, seconds: list[float], **more: Any) -> list[dict[str, Any]]:
    return [
        {
            "point": f"{item}-0123",
            "suite": "s",
            "group": "primitives",
            "item": item,
            "kind": item,
            "params": "toy-insecure",
            "ring_dim": 2048,
            "num_q": 5,
            "limbs": 5,
            "threads": 1,
            "across": 1,
            "condition": "warm",
            "run": number,
            "calls": 10,
            "seconds_per_call": value,
            "total_s": 10 * value,
            "wall_s": 10 * value,
            "cpu_s": 9 * value,
            "calls_per_s": 1 / value,
            "samples_s": [value] * 3,
            "provenance": "measured",
            **more,
        }
        for number, value in enumerate(seconds)
    ]


def draws(scale: float, seed: int, runs: int = 5) -> list[float]:
    return [scale * float(v) for v in np.random.default_rng(seed).normal(1.0, 0.01, runs)]


def test_the_ratio_is_that_of_the_medians() -> None:
    found = statistics_of([1.0, 2.0, 9.0], [3.0, 4.0, 4.5])
    assert found["ratio"] == 2.0
    assert (found["first_s"], found["second_s"]) == (2.0, 4.0)


def test_a_very_long_name_is_cut_where_it_is_told(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    names = ("mult", "x" * 5000)
    files = [tmp_path / "one.json", tmp_path / "two.json"]
    for file, items in zip(files, (names[:1], names), strict=True):
        entries = [{"name": item, "iterations": 1, "real_time": 5.0, "time_unit": "ns"} for item in items]
        file.write_text(json.dumps({"benchmarks": entries}))
    assert main(["bench", "compare", *map(str, files)]) == 0
    said = "".join(capsys.readouterr().err.split())
    assert f"two.json:{'x' * LONGEST_NAME}…(5000characters)" in said
    assert "x" * (LONGEST_NAME + 1) not in said


def test_a_real_slowdown_is_seen_and_its_interval_holds_it() -> None:
    found = statistics_of(draws(1.0, 1), draws(1.2, 2))
    assert found["verdict"] == "slower"
    assert found["low"] < 1.2 < found["high"]
    assert found["p_value"] == pytest.approx(2 / 252)  # exact: no overlap of 5 and 5


def test_a_real_speed_up_is_seen() -> None:
    assert statistics_of(draws(1.2, 1), draws(1.0, 2))["verdict"] == "faster"


def test_noise_alone_is_no_difference_in_nearly_all_of_many_tries() -> None:
    seen = [statistics_of(draws(1.0, seed), draws(1.0, 1000 + seed))["verdict"] for seed in range(200)]
    assert seen.count("no difference seen") >= 0.93 * 200


def test_one_run_has_neither_spread_nor_test() -> None:
    found = statistics_of([1.0], [1.5])
    assert found["ratio"] == 1.5
    assert found["p_value"] is None
    assert found["low"] is None
    assert found["first_spread"] is None


def test_the_interval_is_the_same_every_time() -> None:
    a, b = draws(1.0, 3), draws(1.1, 4)
    assert ratio_interval(a, b) == ratio_interval(a, b)


def test_points_are_matched_by_what_was_measured_and_the_others_are_named() -> None:
    first = table_of(rows("add", draws(1, 1)) + rows("mult", draws(1, 2)))
    second = table_of(rows("mult", draws(1, 3), point="another-key", params="renamed") + rows("rotate", draws(1, 4)))
    found = compare(first, second)
    assert [row["item"] for row in found.rows] == ["mult"]
    assert found.only_first == ["add, toy-insecure, 5, 1, warm, openfhe"]
    assert found.only_second[0].startswith("rotate")


def test_other_limbs_are_another_point() -> None:
    with pytest.raises(UsageError, match="no point in common"):
        compare(table_of(rows("add", [1.0])), table_of(rows("add", [1.0], limbs=2)))


CHAINS = """
[timing]
min_time = "1 ms"
runs = 2
[[primitives]]
items = "add"
ring_dim = "2^11"
depth = 3
scale_bits = 40
first_mod_bits = [45, 60]
"""


def test_points_of_two_chains_are_never_pooled() -> None:
    listed = rows_of(points_of(CHAINS), lambda point, run: float(point.params.q_bits[0]))
    table = table_of(listed)
    assert [(row["runs"], row["median_s"]) for row in summary_rows(table)] == [(2, 45.0), (2, 60.0)]
    assert [row["ratio"] for row in compare(table, table).rows] == [1.0, 1.0]
    again = from_json(json.dumps(to_google_benchmark(table, {})), Path("ours.json"))
    assert len({entry["family_index"] for entry in to_google_benchmark(again, {})["benchmarks"]}) == 2


def test_a_set_with_another_bootstrap_is_another_point_and_one_with_another_name_is_not() -> None:
    point = points_of(CHAINS)[0]
    plan = BootstrapPlan(cts_stages=1, stc_stages=1, chebyshev_degree=59, double_angles=2)
    first = replace(point, params=replace(point.params, bootstrap=plan))
    second = replace(point, params=replace(point.params, bootstrap=replace(plan, cts_stages=2)))
    renamed = replace(point, params=replace(point.params, name="other", source="a paper"))
    assert len(by_point(table_of(rows_of([point, first, second, renamed])))) == 3


def test_a_damaged_parameter_set_of_a_row_is_named() -> None:
    with pytest.raises(PenstockError, match="column 'parameters' holds no parameter set"):
        by_point(table_of(rows("add", [1.0], parameters="{")))


def test_a_threshold_is_missed_only_by_what_is_slower_and_no_chance() -> None:
    first = rows("add", draws(1, 1)) + rows("mult", draws(1, 2)) + rows("sub", [1.0, 5.0, 1.0, 1.0, 5.0])
    second = rows("add", draws(1.2, 3)) + rows("mult", draws(1, 4)) + rows("sub", [1.1, 1.1, 5.0, 1.1, 5.0])
    found = compare(table_of(first), table_of(second))
    assert [row["item"] for row in found.missed(1.05)] == ["add"]
    assert found.missed(1.3) == []


def test_a_difference_below_the_machines_noise_is_none_and_one_above_it_is_seen() -> None:
    before, after = draws(1.0, 1), draws(1.2, 2)
    assert statistics_of(before, after, 0.3)["verdict"] == "within the noise"
    assert statistics_of(before, after, 0.1)["verdict"] == "slower"
    assert statistics_of(after, before, 0.3)["verdict"] == "within the noise"


def test_a_machine_that_was_slower_as_a_whole_misses_no_threshold() -> None:
    first = table_of(rows("add", draws(1, 1), noise_spread=0.01, calibration_s=1e-3))
    second = table_of(rows("add", draws(1.2, 2), noise_spread=0.02, calibration_s=1.3e-3))
    found = compare(first, second)
    assert found.noise == pytest.approx(0.3)
    assert found.missed(1.05) == []
    steady = table_of(rows("add", draws(1.2, 2), noise_spread=0.02, calibration_s=1.01e-3))
    assert len(compare(first, steady).missed(1.05)) == 1


def saved(tmp_path: Path, name: str, listed: list[dict[str, Any]]) -> str:
    folder = tmp_path / name
    folder.mkdir()
    pq.write_table(table_of(listed), folder / "bench.parquet")
    return str(folder)


def test_compare_exits_with_four_where_the_threshold_is_missed(tmp_path: Path, capsys: Any) -> None:
    a, b = saved(tmp_path, "a", rows("add", draws(1, 1))), saved(tmp_path, "b", rows("add", draws(1.2, 2)))
    assert main(["bench", "compare", a, b]) == 0
    assert main(["bench", "compare", a, b, "--threshold", "1.05", "--format", "json"]) == 4
    out = capsys.readouterr()
    assert "slower by more than 1.05" in out.err
    assert main(["bench", "compare", b, a, "--threshold", "1.05"]) == 0
    assert main(["bench", "compare", a, b, "--threshold", "0"]) == 2
    assert main(["bench", "compare", a, b, "--fail-above", "5%", "--format", "json"]) == 4
    assert "slower by more than 1.05" in capsys.readouterr().err
    assert main(["bench", "compare", b, a, "--fail-above", "5%"]) == 0
    capsys.readouterr()
    for wrong in (["5"], ["-1%"], ["nan%"], ["5%", "--threshold", "2"]):
        assert main(["bench", "compare", a, b, "--fail-above", *wrong]) == 2
        assert "--fail-above" in capsys.readouterr().err


def test_compare_prints_json_rows_with_the_test(tmp_path: Path, capsys: Any) -> None:
    a, b = saved(tmp_path, "a", rows("add", draws(1, 1))), saved(tmp_path, "b", rows("add", draws(1.2, 2)))
    assert main(["bench", "compare", a, b, "--format", "json"]) == 0
    row = json.loads(capsys.readouterr().out)[0]
    assert {"item", "ratio", "low", "high", "p_value", "verdict", "first_s", "second_s"} <= set(row)


def test_google_benchmark_json_gives_the_same_rows_back(tmp_path: Path) -> None:
    table = table_of(rows("add", draws(1e-3, 1)) + rows("mult", draws(2e-3, 2), limbs=None, note='{"a":1}'))
    text = json.dumps(to_google_benchmark(table, google_context({"host": {"cores": 2}})))
    assert from_json(text, Path("theirs")).to_pylist() == table.to_pylist()
    file = tmp_path / "before.json"
    file.write_text(text)
    assert load_results(file).equals(table)


def test_google_benchmark_entries_have_its_own_fields() -> None:
    made = to_google_benchmark(table_of(rows("add", [1e-3, 2e-3])), {})
    entry = made["benchmarks"][1]
    assert (entry["real_time"], entry["time_unit"], entry["iterations"]) == (pytest.approx(2e6), "ns", 10)
    assert (entry["repetition_index"], entry["repetitions"], entry["run_type"]) == (1, 2, "iteration")
    assert entry["cpu_time"] == pytest.approx(1.8e6)


def test_foreign_google_benchmark_json_is_read_and_its_aggregates_are_left_out() -> None:
    text = json.dumps(
        {
            "context": {},
            "benchmarks": [
                {
                    "name": "BM_x",
                    "run_type": "iteration",
                    "iterations": 7,
                    "real_time": 2.0,
                    "cpu_time": 1.0,
                    "time_unit": "ms",
                    "threads": 1,
                },
                {"name": "BM_x_mean", "run_type": "aggregate", "iterations": 7, "real_time": 2.0, "time_unit": "ms"},
            ],
        }
    )
    found = from_json(text, Path("theirs")).to_pylist()
    assert [(row["item"], row["seconds_per_call"], row["calls"]) for row in found] == [("BM_x", 0.002, 7)]


@pytest.mark.parametrize("text", ["", "[]", "{}", '{"benchmarks": [{"name": "x"}]}', '{"benchmarks": [1]}'])
def test_what_is_not_google_benchmark_json_is_refused(text: str) -> None:
    with pytest.raises(UsageError, match=r"not (Google Benchmark )?JSON"):
        from_json(text, Path("theirs"))


@pytest.mark.parametrize(
    ("more", "message"),
    [
        ({"samples_s": [], "seconds_per_call": 0.0}, "seconds_per_call of 'add' is 0"),
        ({"samples_s": [0.0] * 3}, "call in samples_s of 'add' is 0"),
        ({"samples_s": [1.0, float("nan")]}, "call in samples_s of 'add' is nan"),
        ({"samples_s": [1.0, -2.0, 1.0]}, "call in samples_s of 'add' is -2"),
        ({"samples_s": [1.0, None]}, "call in samples_s of 'add' is nan"),
        ({"seconds_per_call": float("nan")}, "seconds_per_call of 'add' is nan"),
        ({"calibration_s": 0.0}, "calibration_s of 'add' is 0"),
        ({"total_s": -1.0}, "total_s of 'add' is -1"),
    ],
)
def test_a_time_of_which_no_ratio_can_be_taken_is_refused(tmp_path: Path, more: dict[str, Any], message: str) -> None:
    good, bad = table_of(rows("add", [1.0, 2.0])), table_of(rows("add", [1.0, 2.0], **more))
    with pytest.raises(UsageError, match=f"the first results: the {message}"):
        compare(bad, good)
    with pytest.raises(UsageError, match=f"the second results: the {message}"):
        compare(good, bad)
    file = tmp_path / "bad.json"
    file.write_text(json.dumps(to_google_benchmark(bad, {})))
    with pytest.raises(UsageError, match=rf"bad\.json: the {message}"):
        load_results(file)


@pytest.mark.parametrize(
    ("more", "message"),
    [
        ({"real_time": 0.0}, "the seconds_per_call of .* is 0, which no"),
        ({"real_time": float("nan")}, "is nan, which no"),
        ({"iterations": float("inf")}, "not Google Benchmark JSON"),
        ({"iterations": 0}, "the calls of 'BM_x' is 0"),
        ({"name": 7}, "not of its column's type"),
        ({"penstock": {}}, "no 'point'"),
        ({"penstock": rows("add", [1.0])[0] | {"threads": "two"}}, "not of its column's type"),
        ({"penstock": rows("add", [1.0])[0] | {"threads": 2**40}}, "not of its column's type"),
        ({"penstock": rows("add", [1.0])[0] | {"total_s": None}}, "the entry of 'add' has no 'total_s'"),
    ],
)
def test_entries_of_google_benchmark_json_that_cannot_be_are_refused(more: dict[str, Any], message: str) -> None:
    entry = {"name": "BM_x", "iterations": 7, "real_time": 2.0, "time_unit": "ms", **more}
    with pytest.raises(UsageError, match=f"theirs: .*{message}"):
        from_json(json.dumps({"benchmarks": [entry]}), Path("theirs"))
    with pytest.raises(UsageError, match="theirs holds no times"):
        from_json(json.dumps({"benchmarks": [entry | {"run_type": "aggregate"}]}), Path("theirs"))


def test_a_folder_without_results_and_a_damaged_file_are_told_apart(tmp_path: Path) -> None:
    with pytest.raises(UsageError, match="holds no benchmark results"):
        load_results(tmp_path)
    with pytest.raises(UsageError, match="does not exist"):
        load_results(tmp_path / "nowhere")
    (tmp_path / "bench.parquet").write_bytes(b"not a table")
    with pytest.raises(PenstockError, match="truncated, corrupt or no Parquet file"):
        load_results(tmp_path)


def test_a_table_with_a_column_of_another_type_is_refused(tmp_path: Path) -> None:
    table = table_of(rows("add", [1.0]))
    index = table.column_names.index("threads")
    pq.write_table(table.set_column(index, "threads", [["two"]]), tmp_path / "bench.parquet")
    with pytest.raises(PenstockError, match=r"bench\.parquet is not a table of .*: column 'threads' has type string"):
        load_results(tmp_path)


def test_parts_of_an_unfinished_run_are_read(tmp_path: Path) -> None:
    (tmp_path / "bench").mkdir()
    pq.write_table(table_of(rows("add", [1.0])), tmp_path / "bench" / "add-0.parquet")
    assert load_results(tmp_path).num_rows == 1


def test_a_row_with_an_unknown_column_is_refused() -> None:
    with pytest.raises(ValueError, match="unknown columns"):
        table_of([{"pointt": "x"}])


def test_a_summary_has_one_row_a_point_with_median_and_spread() -> None:
    found = summary_rows(table_of(rows("add", [1.0, 2.0, 4.0])))
    assert len(found) == 1
    assert (found[0]["median_s"], found[0]["spread"], found[0]["calls"]) == (2.0, 1.5, 30)


@pytest.mark.parametrize("target", ["csv", "json", "google-benchmark"])
def test_export_writes_every_format_and_overwrites_nothing(tmp_path: Path, target: str, capsys: Any) -> None:
    folder, file = saved(tmp_path, "a", rows("add", [1.0, 2.0])), tmp_path / "out.json"
    (Path(folder) / "run.json").write_text('{"schema_version": 1, "config": {}}')
    assert main(["bench", "export", folder, "--to", target, "-o", str(file)]) == 0
    assert "add" in file.read_text()
    assert main(["bench", "export", folder, "--to", target, "-o", str(file)]) == 2
    assert main(["bench", "export", folder, "--to", target]) == 0
    assert capsys.readouterr().out == file.read_text()


def test_the_tables_columns_are_documented() -> None:
    text = (Path(__file__).parents[3] / "docs" / "guides" / "benchmarking.md").read_text()
    assert [name for name in BENCH_SCHEMA.names if f"`{name}`" not in text] == []
