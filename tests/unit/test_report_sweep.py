"""The report of a sweep: what its axes are, which points are best and worst, what was left out."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import pytest

from penstock.cli.main import main
from penstock.reports.build import build_report
from penstock.reports.page import Plots
from penstock.reports.plots import spread
from penstock.reports.sweep import axes, is_sweep, sweep_rows, sweep_sections
from penstock.runs.folder import RunFolder
from penstock.sweeps.plan import plan
from penstock.sweeps.run import config_of, run_sweep
from penstock.sweeps.spec import parse_sweep

SWEEP = """
name = "tiers <and> hosts"
workload = "inner-product"
params = "sharp"
machine = "sharp"
[[sweep]]
tier = ["hbm", "pcie5"]
cache = ["on-chip", "1 GiB"]
[[sweep]]
tier = "pcie5"
hosts = [1, 2]
network = "ethernet-400"
[[sweep]]
hosts = 2
"""


@pytest.fixture(scope="module")
def run(tmp_path_factory: pytest.TempPathFactory) -> RunFolder:
    sweep = parse_sweep(SWEEP, "test")
    planned = plan(sweep)
    path = tmp_path_factory.mktemp("sweep") / "run"
    with RunFolder.open_or_resume(path, config_of(sweep, planned)) as folder:
        run_sweep(planned, folder, workers=1)
    return RunFolder.open(path)


def text_of(page: str) -> str:
    """What a reader sees."""
    bare = re.sub(r"<(script|style).*?</\1>", "", page, flags=re.DOTALL)
    return re.sub(r"\s+", " ", re.sub(r"<[^>]+>", " ", bare))


def test_a_sweep_gets_its_own_page(run: RunFolder) -> None:
    page = build_report(run).read_text(encoding="utf-8")
    seen = text_of(page)
    assert "tiers &lt;and&gt; hosts" in seen
    assert "6 points of 1 programs" in seen
    for heading in ("Axes", "Best and worst", "What each axis moves", "Points that cannot be"):
        assert f"<h2>{heading}</h2>" in page
    # The third table names hosts without a network.
    assert "network" in seen
    assert 'data-figure="figure-1-by-tier"' in page
    bare = re.sub(r"<script.*?</script>", "", page, flags=re.DOTALL)
    assert not re.search(r'(src|href)="https?:', bare), "nothing is fetched"


def test_axes_are_the_columns_with_several_values(run: RunFolder) -> None:
    found = axes(sweep_rows(run.path))
    assert found["tier"] == ["hbm", "pcie5"]
    assert found["cache_bytes"] == [None, 198_000_000, 2**30]
    assert found["hosts"] == [1, 2]
    assert "machine" not in found
    assert "mode" not in found


def test_best_and_worst_are_the_ends_of_the_rows(run: RunFolder) -> None:
    rows = sweep_rows(run.path)
    parts = {part.ident: part for part in sweep_sections(run.record, rows, Plots(enabled=False))}
    shown = text_of("".join(str(each) for each in parts["extremes"].content))
    best, worst = (pick(rows, key=lambda row: row["total_s"]) for pick in (min, max))
    for word, row in (("best", best), ("worst", worst)):
        assert re.search(rf"{word} .*tier {row['tier']}", shown)


def test_a_sweep_that_played_nothing_says_so(tmp_path: Path) -> None:
    sweep = parse_sweep(SWEEP, "test")
    with RunFolder.open_or_resume(tmp_path / "run", config_of(sweep, plan(sweep))):
        pass
    opened = RunFolder.open(tmp_path / "run")
    assert is_sweep(opened)
    seen = text_of(build_report(opened).read_text(encoding="utf-8"))
    assert "not finished" in seen
    assert "no point has been played yet" in seen


def test_the_command_writes_it(run: RunFolder, capsys: Any, tmp_path: Path) -> None:
    assert main(["report", str(run.path), "-o", str(tmp_path / "page.html")]) == 0
    assert (tmp_path / "page.html").is_file()


def test_values_with_the_same_beginning_are_places_of_their_own() -> None:
    long = "on-chip.buffer+on-chip.register_file+hbm+nvme-gen5"
    figure = spread("Tier", [(long, 1.0, 2.0, 3.0, 4), (f"{long} (exclusive)", 2.0, 3.0, 5.0, 4)])
    assert figure["data"][0]["x"] == [0, 1]
    assert [each[0] for each in figure["data"][0]["customdata"]] == [long, f"{long} (exclusive)"]
    assert figure["data"][0]["error_y"]["array"] == [1.0, 2.0]
