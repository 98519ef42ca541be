from __future__ import annotations

import csv
import io
import json
from pathlib import Path
from typing import Any

import pytest

from penstock.front.cli.main import main
from penstock.scheme.params import catalogue
from penstock.scheme.params.sizes import size_report


def run(capsys: pytest.CaptureFixture[str], *args: str) -> tuple[int, str, str]:
    code = main(["params", *args])
    out, err = capsys.readouterr()
    return code, out, err


def as_json(capsys: pytest.CaptureFixture[str], *args: str) -> Any:
    code, out, err = run(capsys, *args, "--format", "json")
    assert (code, err) == (0, "")
    return json.loads(out)


def test_list_has_one_row_a_set(capsys: pytest.CaptureFixture[str]) -> None:
    rows = as_json(capsys, "list")
    assert [row["name"] for row in rows] == catalogue.names()
    sharp = next(row for row in rows if row["name"] == "sharp")
    assert (sharp["ring_dim"], sharp["num_q"], sharp["security_bits"]) == (65536, 35, 0)


def test_list_and_size_mean_the_same_bytes_and_the_level_is_found_by_the_bits_shown(
    capsys: pytest.CaptureFixture[str],
) -> None:
    for row in as_json(capsys, "list"):
        params = catalogue.get(row["name"])
        report = size_report(params)
        for name in ("rotation_key_bytes", "ciphertext_bytes"):
            assert row[name] == report[name], row["name"]
        assert f"logQP {row['log_qp']} at" in params.security_note
        assert as_json(capsys, "show", row["name"])["log_qp"] == row["log_qp"]
    bench = as_json(capsys, "show", "openfhe-bench")
    assert (bench["log_q"], bench["log_qp"], sum(bench["q_bits"] + bench["p_bits"])) == (561, 801, 800)


def test_list_fits_a_narrow_terminal_and_marks_what_is_insecure(capsys: pytest.CaptureFixture[str]) -> None:
    code, out, _ = run(capsys, "list")
    assert code == 0
    line = next(line for line in out.splitlines() if line.startswith("insecure-ci"))
    assert "insecure " in line.removeprefix("insecure-ci")
    assert "3.545 MB (3.381 MiB)" in line
    assert "…" not in out


def test_show_prints_every_field_and_marks_the_assumed_ones(capsys: pytest.CaptureFixture[str]) -> None:
    shown = as_json(capsys, "show", "sharp")
    assert shown["q_bits"] == [36] * 35
    assert shown["bootstrap"]["cts_stages"] == 3
    assert (shown["depth"], shown["log_qp"]) == (34, 1692)
    _, out, _ = run(capsys, "show", "sharp")
    assert "35 x 36" in out
    assert next(line for line in out.splitlines() if line.startswith("secret")).rstrip().endswith("assumed")
    assert "ePrint 2024/463" in out


def test_a_set_shown_as_toml_is_a_file_that_size_accepts(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    code, out, _ = run(capsys, "show", "cryptoracle", "--toml")
    assert code == 0
    file = tmp_path / "mine.toml"
    file.write_text(out)
    assert as_json(capsys, "size", str(file)) == as_json(capsys, "size", "cryptoracle")


def test_size_as_json_is_the_report(capsys: pytest.CaptureFixture[str]) -> None:
    report = as_json(capsys, "size", "openfhe-bench", "--rotations", "1,2,-1")
    assert report == size_report(catalogue.get("openfhe-bench"), rotations=[1, 2, -1])
    assert report["num_keys"] == 4


def test_size_as_csv_is_one_row(capsys: pytest.CaptureFixture[str]) -> None:
    code, out, _ = run(capsys, "size", "sharp", "--format", "csv")
    rows = list(csv.DictReader(io.StringIO(out)))
    assert code == 0
    assert [row["rotation_key_bytes"] for row in rows] == ["83165184"]
    assert rows[0]["rotation_key_coefficient_bytes"] == rows[0]["rotation_key_bytes"]


def test_size_for_people_has_both_units_and_says_what_is_exact(capsys: pytest.CaptureFixture[str]) -> None:
    _, out, _ = run(capsys, "size", "sharp")
    assert "83.17 MB (79.31 MiB)  exact" in out
    _, out, _ = run(capsys, "size", "tensorfhe-helr")
    assert "817.9 MB (780 MiB)  estimated" in out
    assert "assumed, no source states them: secret" in out
    assert "…" not in out


def test_size_of_a_workload_counts_the_keys_of_its_trace(capsys: pytest.CaptureFixture[str]) -> None:
    from penstock.program.running import trace_workload

    report = as_json(capsys, "size", "insecure-ci", "--workload", "inner-product")
    keys = trace_workload("inner-product", catalogue.get("insecure-ci")).key_ids()
    assert report["keys"] == keys
    rotations = (len(keys) - 1) * report["rotation_key_bytes"]
    assert report["total_key_bytes"] == rotations + report["relinearization_key_bytes"]


def test_size_of_a_workload_shows_every_form_and_where_truncated_keys_end(capsys: pytest.CaptureFixture[str]) -> None:
    words = ("size", "insecure-resnet20", "--workload", "bootstrapping", "--size", "ci", "--key-form")
    report = as_json(capsys, *words, "seeded+truncated")
    rows = {row["key_form"]: row for row in report["key_forms"]}
    assert list(rows) == ["full", "seeded", "truncated", "seeded+truncated"]
    assert report["total_key_bytes"] == rows["seeded+truncated"]["stored_key_bytes"]
    assert rows["seeded"]["ratio_to_full"] == 0.5
    assert 2 * rows["seeded+truncated"]["stored_key_bytes"] == rows["truncated"]["stored_key_bytes"]
    assert list(report["key_limbs"]) == report["keys"]
    code, out, _ = run(capsys, *words, "truncated")
    ends = ", ".join(
        f"{list(report['key_limbs'].values()).count(limbs)} at {limbs}"
        for limbs in sorted(set(report["key_limbs"].values()), reverse=True)
    )
    assert code == 0
    assert f"truncated keys end at their most limbs in use: {ends}\n" in out
    assert f"{report['num_keys']} keys as stored (truncated)" in out
    assert next(line for line in out.splitlines() if line.startswith("seeded+truncated")).endswith(
        f"{rows['seeded+truncated']['ratio_to_full']:.3f}"
    )


@pytest.mark.parametrize(
    ("args", "words"),
    [
        (["size", "sharp", "--key-form", "truncated"], "a program says how far each key is used; add a workload"),
        (["show", "shrap"], "unknown parameter set 'shrap': did you mean 'sharp'?"),
        (["size", "openfhe-bnch"], "did you mean 'openfhe-bench'?"),
        (["siz", "sharp"], "did you mean 'size'?"),
        (["size", "none.toml"], "none.toml: no such file"),
        (["size", "sharp", "--rotations", "1,two"], "rotations '1,two' are not whole numbers"),
        (["size", "sharp", "--rotations", "0"], "rotation 0 moves nothing"),
        (["size", "sharp", "--size", "helr"], "--size names the size of a workload: add --workload"),
        (["size", "insecure-ci", "--workload", "inner-produkt"], "did you mean 'inner-product'?"),
        (["size", "insecure-ci", "--workload", "inner-product", "--rotations", "1"], "not both"),
        (["list", "--format", "yaml"], "yaml"),
    ],
)
def test_a_wrong_request_exits_with_2_and_says_what_is_wrong(
    capsys: pytest.CaptureFixture[str], args: list[str], words: str
) -> None:
    code, out, err = run(capsys, *args)
    assert (code, out) == (2, "")
    assert words in err
    assert "Traceback" not in err


@pytest.mark.parametrize("args", [[], ["list"], ["show"], ["size"]])
def test_help_shows_an_example(capsys: pytest.CaptureFixture[str], args: list[str]) -> None:
    code, out, _ = run(capsys, *args, "--help")
    assert code == 0
    assert "penstock params" in out.partition("Example")[2]
