"""Comparisons and figures: right numbers, offline, escaped, reproducible, and apart for colour-blind readers."""

from __future__ import annotations

import re
from itertools import combinations
from pathlib import Path
from xml.etree import ElementTree

import numpy as np
import pytest

from penstock.base.runs.folder import RunFolder
from penstock.base.system.palette import COLOURS, tier_colours
from penstock.errors import UsageError
from penstock.front.cli.main import main
from penstock.lab.reports.compare import build_comparison, named_runs, render_comparison
from penstock.lab.reports.data import load
from penstock.lab.reports.figures import write_figures
from support.fake_run import write_fake_run

EVIL = """<script>alert(1)</script><img src=x onerror=alert(2)>"""


@pytest.fixture(scope="module")
def runs(tmp_path_factory: pytest.TempPathFactory) -> list[RunFolder]:
    root = tmp_path_factory.mktemp("runs")
    made = []
    for name, seed, changes in (("before", 7, {}), ("after", 8, {"size": "ci"})):
        with write_fake_run(root / name, seed=seed, **changes) as run:
            made.append(run)
    return made


def cells(page: str, caption: str) -> list[list[str]]:
    """The rows of the table of that caption."""
    body = page.split(f'aria-label="{caption}"><thead>')[1].split("</table>")[0]
    return [re.findall(r"<t[hd][^>]*>(.*?)</t[hd]>", row) for row in re.findall(r"<tr>(.*?)</tr>", body)]


def test_tables_hold_each_runs_numbers_and_their_ratio(runs: list[RunFolder]) -> None:
    page = render_comparison(named_runs(runs))
    table = {row[0]: row[1:] for row in cells(page, "The runs")}
    assert table[""] == ["before", "after"]
    walls = [load(run).one("wall_s")["value"] for run in runs]  # type: ignore[index]
    assert table["encrypted"][0] == f"{walls[0]:.4g} s"
    assert table["encrypted"][1].startswith(f"{walls[1]:.4g} s ({walls[1] / walls[0]:.2f}")
    totals = {row[0]: row[1:] for row in cells(page, "Time by operation kind")}
    assert set(totals) >= {"rotate", "mult", "all"}
    slow = {(row[0], row[1]): row[2:] for row in cells(page, "Slowdown")}
    assert slow["sharp", "rdma"][0].startswith("129")


def test_a_comparison_says_in_what_the_runs_differ(runs: list[RunFolder]) -> None:
    table = cells(render_comparison(named_runs(runs)), "What differs")
    assert [row[0] for row in table] == ["", "size"]
    assert table[1][2] == "ci"


def test_a_comparison_is_one_offline_file_that_escapes_what_runs_say(tmp_path: Path) -> None:
    made = []
    for name in ("a", "b"):
        with write_fake_run(tmp_path / name, workload=EVIL) as run:
            run.warn(EVIL, EVIL)
            made.append(run)
    page = build_comparison(made, tmp_path / "c.html").read_text()
    outside = re.sub(r"<script.*?</script>", "", page, flags=re.S)
    assert "alert(1)" in outside
    assert "<img src=x" not in outside
    assert not re.search(r"""(?:src|href)=["']?(?:https?:)?//""", outside)
    assert "default-src &#x27;none&#x27;" in page
    assert outside.count("Remedy: &lt;script&gt;") == 1
    assert "Runs: a, b" in outside


def test_an_unfinished_run_is_compared_as_far_as_it_came(tmp_path: Path, runs: list[RunFolder]) -> None:
    with RunFolder.create(tmp_path / "begun", {"workload": "w"}) as run:
        page = render_comparison(named_runs([runs[0], run]))
    assert "Not finished when this was written: begun." in page
    assert "Left out: fewer than two of these runs hold measured operation times." in page


def test_what_cannot_be_compared_is_refused(tmp_path: Path, runs: list[RunFolder]) -> None:
    with pytest.raises(UsageError, match="name 2 to 12"):
        named_runs(runs[:1])
    with pytest.raises(UsageError, match="named twice"):
        named_runs([runs[0], runs[0]])
    assert main(["report", str(runs[0].path), str(tmp_path)]) == 2


def test_the_command_line_writes_comparisons_and_figures(
    tmp_path: Path, runs: list[RunFolder], monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    folders = [str(run.path) for run in runs]
    assert main(["report", *folders]) == 0
    assert (tmp_path / "comparison.html").is_file()
    assert main(["report", *folders]) == 2
    assert "it is not overwritten" in capsys.readouterr().err
    assert main(["report", folders[0], "--figures", "figures", "--width", "two-column", "--style", "serif"]) == 0
    shown = capsys.readouterr().out.split()
    names = ("captions.txt", "hit-ratio.svg", "keys.svg", "slowdown.svg", "time.svg")
    assert sorted(shown) == [f"figures/{name}" for name in names]
    assert width_mm(tmp_path / "figures" / "keys.svg") == pytest.approx(178, abs=0.5)
    assert main(["report", *folders, "--figures", "more"]) == 2


def test_the_same_run_gives_the_same_bytes(tmp_path: Path, runs: list[RunFolder]) -> None:
    data = load(runs[0])
    for folder in ("a", "b"):
        write_figures(data, tmp_path / folder, width="one-column", style="sans")
    for path in sorted((tmp_path / "a").iterdir()):
        assert path.read_bytes() == (tmp_path / "b" / path.name).read_bytes(), path.name
    assert width_mm(tmp_path / "a" / "slowdown.svg") == pytest.approx(85, abs=0.5)
    assert "(simulated)" in (tmp_path / "a" / "captions.txt").read_text()


def width_mm(path: Path) -> float:
    return float(ElementTree.parse(path).getroot().attrib["width"].removesuffix("pt")) / 72 * 25.4


def test_a_run_without_rows_has_no_figures(tmp_path: Path) -> None:
    with RunFolder.create(tmp_path / "run", {"workload": "w"}) as run, pytest.raises(UsageError, match="nothing that"):
        write_figures(load(run), tmp_path / "figures", width="one-column", style="sans")


JUST_NOTICEABLE = 2.3
"""A difference in CIE L*a*b* that half of all readers see: Mahy, Van Eycken and Oosterlinck, 1994."""
DEFICIENCIES = {
    "protanopia": [[0.152286, 1.052583, -0.204868], [0.114503, 0.786281, 0.099216], [-0.003882, -0.048116, 1.051998]],
    "deuteranopia": [[0.367322, 0.860646, -0.227968], [0.280085, 0.672501, 0.047413], [-0.011820, 0.042940, 0.968881]],
}
"""Severity 1 in linear RGB: Machado, Oliveira and Fernandes, IEEE TVCG 15(6), 2009, Table 1."""


def lab(colour: str, seen: list[list[float]] | None) -> np.ndarray:
    """CIE L*a*b* of a colour as it is seen."""
    rgb = np.array([int(colour[i : i + 2], 16) / 255 for i in (1, 3, 5)])
    linear = np.where(rgb <= 0.04045, rgb / 12.92, ((rgb + 0.055) / 1.055) ** 2.4)
    if seen is not None:
        linear = np.clip(np.array(seen) @ linear, 0, 1)
    matrix = np.array([[0.4124, 0.3576, 0.1805], [0.2126, 0.7152, 0.0722], [0.0193, 0.1192, 0.9505]])
    xyz = matrix @ linear / np.array([0.9505, 1.0, 1.089])
    f = np.where(xyz > (6 / 29) ** 3, np.cbrt(xyz), xyz / (3 * (6 / 29) ** 2) + 4 / 29)
    return np.array([116 * f[1] - 16, 500 * (f[0] - f[1]), 200 * (f[1] - f[2])])


@pytest.mark.parametrize("deficiency", [None, *DEFICIENCIES])
def test_the_colours_of_a_figure_stay_apart_for_every_reader(deficiency: str | None) -> None:
    seen = DEFICIENCIES[deficiency] if deficiency else None
    tiers = [COLOURS[index] for index in tier_colours(["hbm", "ddr5", "pcie5", "rdma"]).values()]
    for one, other in [*combinations(COLOURS[:4], 2), *combinations(tiers, 2)]:
        assert np.linalg.norm(lab(one, seen) - lab(other, seen)) > 5 * JUST_NOTICEABLE, (one, other)
