"""The report of a sweep: what its axes are, which points are best and worst, what was left out."""

from __future__ import annotations

import json
import re
import shlex
import shutil
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from penstock.base.runs.folder import RunFolder
from penstock.errors import UnknownName, UsageError
from penstock.front.cli.main import main
from penstock.lab.reports.build import build_report
from penstock.lab.reports.page import Plots
from penstock.lab.reports.plots import spread
from penstock.lab.reports.sweep import axes, is_sweep, sweep_rows, sweep_sections, sweep_space
from penstock.lab.sweeps.plan import plan
from penstock.lab.sweeps.run import config_of, run_sweep
from penstock.lab.sweeps.spec import parse_sweep
from penstock.lab.sweeps.store import read_results

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
    assert '<section id="points">' in page
    assert len(page) < 500_000
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
    parts = {part.ident: part for part in sweep_sections(run.record, rows, Plots())}
    shown = text_of("".join(str(each) for each in parts["extremes"].content))
    best, worst = (pick(rows, key=lambda row: row["total_s"]) for pick in (min, max))
    for word, row in (("best", best), ("worst", worst)):
        assert re.search(rf"{word} .*tier {row['tier']}", shown)


def test_the_command_of_each_point_prints_its_row(run: RunFolder, capsys: Any) -> None:
    rows = sweep_rows(run.path)
    space = sweep_space(rows)
    assert space.count == len(rows) == 6
    for point, row in enumerate(rows):
        words = shlex.split(space.command_of(point))
        assert words[0] == "penstock"
        assert main([*words[1:], "--format", "json"]) == 0
        (printed,) = json.loads(capsys.readouterr().out)
        for name in ("tier", "cache_bytes", "hosts", "total_s", "io_bytes", "hit_ratio"):
            assert printed[name] == row[name], (name, words)


def test_no_command_is_shown_for_a_row_that_rests_on_a_file(run: RunFolder) -> None:
    rows = sweep_rows(run.path)
    space = sweep_space([{**row, "machine": "of-my-own"} for row in rows])
    assert space.command is None
    assert space.command_of(0) == ""


def test_the_front_is_what_no_other_point_beats(run: RunFolder) -> None:
    space = sweep_space(sweep_rows(run.path))
    for x, y in (("total_s", "cache"), ("num_hosts", "total_s"), ("speedup", "io_bytes")):
        found = set(space.front(range(space.count), x, y))
        sign = {each.name: -1.0 if each.more else 1.0 for each in space.measures}
        at = [(sign[x] * a, sign[y] * b) for a, b in zip(space.measure(x).values, space.measure(y).values, strict=True)]

        def beaten(i: int, at: list[tuple[float, float]] = at) -> bool:
            return any(a <= at[i][0] and b <= at[i][1] and (a, b) != at[i] for a, b in at)

        assert {at[i] for i in found} == {at[i] for i in range(space.count) if not beaten(i)}


def test_filters_choose_points_and_unknown_ones_are_named(run: RunFolder) -> None:
    rows = sweep_rows(run.path)
    space = sweep_space(rows)
    assert [rows[i]["tier"] for i in space.chosen("tier=hbm")] == ["hbm"] * 2
    assert len(space.chosen("tier=pcie5; hosts=2")) == 1
    for where in ("teir=hbm", "tier=hbn"):
        with pytest.raises(UnknownName, match="did you mean"):
            space.chosen(where)
    with pytest.raises(UsageError, match="AXIS=VALUE"):
        space.chosen("hbm")
    data = json.loads(space.to_json())
    tier = next(axis for axis in data["axes"] if axis["name"] == "tier")
    assert [tier["texts"][code] for code in tier["codes"]] == [row["tier"] for row in rows]
    assert tier["colours"] == [0, 3]
    assert next(m for m in data["measures"] if m["name"] == "total_s")["values"] == pytest.approx(
        [row["total_s"] for row in rows], rel=1e-4
    )


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
    (dots,) = spread("Tier", [(long, 1.0, 2.0, 3.0, 4), (f"{long} (exclusive)", 2.0, 3.0, 5.0, 4)]).series
    assert dots.x == (0, 1)
    assert list(dots.texts) == [long, f"{long} (exclusive)"]
    assert (dots.low, dots.high) == ((1.0, 2.0), (3.0, 5.0))


ENDED = ".complete"
RESULTS = "results.parquet"
HEAD = pa.table({"slowdown": ["1"]})


@pytest.mark.parametrize(
    ("file", "content", "named"),
    [
        (ENDED, b"", ENDED),
        (ENDED, b"\xff\x00", ENDED),
        (ENDED, b"null", ENDED),
        (ENDED, b"[" * 100_000, ENDED),
        (ENDED, b'{"sha256": 1}', ENDED),
        (ENDED, b"{}", ENDED),
        (RESULTS, b"", RESULTS),
        (RESULTS, HEAD, RESULTS),  # unfinished: no checksum says what it should be
    ],
)
def test_a_damaged_file_of_a_sweep_is_named_with_the_remedy(
    run: RunFolder, tmp_path: Path, capsys: Any, file: str, content: bytes | pa.Table, named: str
) -> None:
    shutil.copytree(run.path, tmp_path / "run")
    if file == RESULTS:
        (tmp_path / "run" / ENDED).unlink()
    if isinstance(content, bytes):
        (tmp_path / "run" / file).write_bytes(content)
    else:
        pq.write_table(content, tmp_path / "run" / file)
    assert main(["report", str(tmp_path / "run")]) == 1
    said = capsys.readouterr().err
    assert said.startswith(f"penstock: {tmp_path / 'run' / named}")
    assert "delete it and run the same" in said


def test_results_of_a_release_that_had_fewer_columns_are_read(run: RunFolder, tmp_path: Path) -> None:
    whole = pq.read_table(run.path / RESULTS)
    (tmp_path / "run").mkdir()
    pq.write_table(whole.drop_columns(["tenant_slowdown", "seed"]), tmp_path / "run" / RESULTS)
    (row, *_) = read_results(tmp_path / "run").to_pylist()
    assert row["tenant_slowdown"] is None
    assert row["slowdown"] == whole["slowdown"][0].as_py()
