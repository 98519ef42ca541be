"""Pages of benchmark runs and of design spaces: what changed and what is chance, in names that a person reads."""

from __future__ import annotations

import json
import re
import shlex
from pathlib import Path
from typing import Any

import pytest

from penstock.front.cli.main import main
from penstock.lab.measure.bench.history import histories
from penstock.lab.measure.bench.results import load_results
from penstock.lab.measure.bench.verdict import headline
from support.bench_rows import SWEEP, folder_of, points_of, rows_of

RUNS = SWEEP.replace("runs = 3", "runs = 8")


def made(path: Path, factor: float, points: int | None = None, **config: Any) -> Path:
    """A benchmark run whose times are `factor` milliseconds and a little more in each run."""
    chosen = points_of(RUNS)[:points]
    return folder_of(path, rows_of(chosen, lambda point, run: factor * 1e-3 * (1 + 0.002 * run)), **config)


def text_of(page: str) -> str:
    bare = re.sub(r"<(script|style).*?</\1>", "", page, flags=re.DOTALL)
    return re.sub(r"\s+", " ", re.sub(r"<[^>]+>", " ", bare))


def test_a_run_gets_a_page_in_its_folder(tmp_path: Path, capsys: Any) -> None:
    folder = made(tmp_path / "today", 1.0)
    assert main(["report", str(folder)]) == 0
    assert capsys.readouterr().out == f"{folder / 'report.html'}\n"
    page = (folder / "report.html").read_text()
    seen = text_of(page)
    assert "Times and how they spread" in seen
    assert "N = 2^11, depth 6, dnum" in seen
    assert not re.search(r"bench-n\d+", seen)
    assert page.count('class="strip"') == len(points_of(RUNS))
    assert len(page) < 2_000_000


def test_several_runs_show_trends_and_what_is_no_chance(tmp_path: Path, capsys: Any, monkeypatch: Any) -> None:
    monkeypatch.chdir(tmp_path)
    folders = [made(tmp_path / name, factor) for name, factor in (("a", 1.0), ("b", 1.001), ("c", 1.4))]
    assert main(["report", *map(str, folders)]) == 0
    assert capsys.readouterr().out == "benchmarks.html\n"
    seen = text_of((tmp_path / "benchmarks.html").read_text())
    assert "changed: of 52 points 52 slower" in seen
    for heading in ("What changed", "Trends over the runs", "The runs"):
        assert heading in seen
    assert main(["report", *map(str, folders)]) == 2
    assert "it is not overwritten" in capsys.readouterr().err


def test_a_point_that_is_new_or_gone_is_no_change(tmp_path: Path) -> None:
    first = load_results(made(tmp_path / "a", 1.0, 3))
    second = load_results(made(tmp_path / "b", 1.0, 5))
    found = histories([("a", first), ("b", second)])
    assert [each.verdict for each in found] == ["no difference seen"] * 3 + ["measured once"] * 2
    assert [list(each.samples) for each in found] == [["a", "b"]] * 3 + [["b"]] * 2
    assert headline(found).startswith("nothing changed: of 3 points none is faster or slower beyond chance and noise")
    assert histories([("b", second)])[0].against is None


def test_a_design_space_is_a_page_whose_commands_give_the_design(tmp_path: Path, capsys: Any) -> None:
    page = tmp_path / "designs.html"
    axes = ["--drive", "ssd-s", "--lanes", "64", "--lanes", "128", "--scratchpad", "7 MB", "--scratchpad", "42 MB"]
    rest = ["--channels-per-accelerator", "4", "--dram-size", "4 GB", "--pcie", "8 GB/s", "--contention", "dram"]
    command = ["ssd", "space", "ssc", *axes, *rest, "--quiet", "--format", "json"]
    assert main([*command, "--page", str(page), "-o", str(tmp_path / "all.json")]) == 0
    capsys.readouterr()
    text = page.read_text()
    data = json.loads(re.search(r'id="space-data">(.*?)</script>', text, re.S).group(1))  # type: ignore[union-attr]
    every = json.loads((tmp_path / "all.json").read_text())
    assert data["count"] == len(every)
    assert {axis["name"] for axis in data["axes"]} >= {"lanes", "scratchpad_bytes", "dram_bytes_per_s"}
    point = next(i for i, row in enumerate(every) if row["pareto"])
    words = [axis["words"][axis["codes"][point]] for axis in data["axes"]]
    words = shlex.split(" ".join([data["command"], *filter(None, words)]))
    assert main([*words[1:], "--quiet", "--format", "json"]) == 0
    (row,) = json.loads(capsys.readouterr().out)
    for name in ("lanes", "scratchpad_bytes", "dram_bytes_per_s", "query_s", "watts"):
        assert row[name] == pytest.approx(every[point][name], rel=1e-12)
    assert main([*command, "--page", str(page)]) == 2
    assert main([*command, "--page", str(tmp_path / "designs.txt")]) == 2
