"""`penstock run` prints lines for people; JSON has every number as it is."""

from __future__ import annotations

import json
import re

import pytest

from penstock.front.cli.main import main

pytest.importorskip("openfhe", reason="OpenFHE is not installed")
RUN = ["run", "inner-product", "--size", "ci", "--quiet"]


@pytest.mark.parametrize(
    "more", [["--reading", "clear"], ["--reading", "openfhe"], ["--reading", "native", "--key-budget", "64 MiB"]]
)
def test_a_run_is_told_in_words_with_units(capsys: pytest.CaptureFixture[str], more: list[str]) -> None:
    assert main([*RUN, *more, "--no-advice"]) == 0
    lines = capsys.readouterr().out.splitlines()
    assert lines[0].startswith("inner-product (ci) on insecure-ci, insecure, ")
    assert all(line.startswith("  measured ") for line in lines[1:])
    text = "\n".join(lines)
    assert not re.search(r"\w_(s|bytes)\b", text), "names of records are for JSON"
    assert not re.search(r"\d{6,}", text), "sizes have units"
    assert ("check passed: largest error" in text) == ("clear" not in more)
    assert ("keys of 31.85 MB, at most 67.11 MB in memory" in text) == ("native" in more)


def test_json_has_the_records(capsys: pytest.CaptureFixture[str]) -> None:
    assert main([*RUN, "--reading", "native", "--key-budget", "64 MiB", "--format", "json"]) == 0
    row = json.loads(capsys.readouterr().out)
    assert row["key_budget_bytes"] == 64 * 2**20
    assert {"wall_s", "peak_rss_bytes", "key_hits", "passed", "max_abs_error", "best_match"} <= row.keys()
