"""The report of a study of key budgets."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import pytest

from penstock.base.runs.folder import RunFolder
from penstock.errors import UsageError
from penstock.lab.reports.budgets import KIND, rows_of
from penstock.lab.reports.build import build_report
from penstock.lab.reports.compare import build_comparison

CONFIG = {"kind": KIND, "workload": "inner-product", "size": "ci", "params": "insecure-ci", "machine": None}


def row(share: float, measured_s: float, simulated_s: float) -> dict[str, Any]:
    return {
        "budget_bytes": int(share * 1e9), "key_bytes": 10**9, "machine": None, "measured_s": measured_s,
        "simulated_s": simulated_s, "belady_s": 0.8 * measured_s, "measured_wait_s": 0.25, "simulated_wait_s": 0.125,
        "measured_read_bytes": 3 * 10**9, "simulated_read_bytes": 2 * 10**9, "belady_read_bytes": 10**9,
        "read_bytes_per_s": 1.5e9, "read_cpu_s_per_byte": 0.25e-9, "peak_resident_bytes": 10**8,
        "computing_share": 0.8, "reading_share": 0.9,
    }  # fmt: skip


def run_of(path: Path, rows: list[dict[str, Any]]) -> RunFolder:
    with RunFolder.create(path, CONFIG) as run:
        if rows:
            run.append_rows("budgets", rows_of(rows))
        run.finish()
    return RunFolder.open(path)


def text_of(page: str) -> str:
    bare = re.sub(r"<(script|style).*?</\1>", "", page, flags=re.DOTALL)
    return re.sub(r"\s+", " ", re.sub(r"<[^>]+>", " ", bare))


def test_measured_and_simulated_stand_side_by_side_with_their_error(tmp_path: Path) -> None:
    run = run_of(tmp_path / "run", [row(0.25, 10.0, 9.0), row(1.0, 8.0, 8.4)])
    page = build_report(run).read_text(encoding="utf-8")
    seen = text_of(page)
    assert "off by -10.0% at the worst, within the 15%" in seen
    # The largest first.
    assert seen.index("100 % (1 GB)") < seen.index("25 % (250 MB)")
    assert "25 % (250 MB) 10 s 9 s -10.0 % 8 s -20.0 % 250 ms 125 ms" in seen
    assert "25 % (250 MB) 3 GB 2 GB 1 GB" in seen
    assert "1.5 GB/s 0.25 s/GB 90 % 80 %" in seen
    assert 'data-figure="figure-1-budgets"' in page


def test_an_error_beyond_the_bound_is_said(tmp_path: Path) -> None:
    run = run_of(tmp_path / "run", [row(0.1, 10.0, 8.0)])
    assert "-20.0% at the worst, beyond the 15%" in text_of(build_report(run).read_text(encoding="utf-8"))


def test_a_study_without_rows_says_so_and_is_not_compared(tmp_path: Path) -> None:
    run = run_of(tmp_path / "run", [])
    assert "No budget was measured yet." in text_of(build_report(run).read_text(encoding="utf-8"))
    with pytest.raises(UsageError, match="separate page"):
        build_comparison([run, run_of(tmp_path / "other", [])], tmp_path / "c.html")
