"""The regression bench: its interval, its verdicts on recorded samples, its refusals, its kernels on this tree."""

from __future__ import annotations

import json
import shutil
import subprocess
import sys
from collections.abc import Sequence
from itertools import cycle
from pathlib import Path
from types import ModuleType
from typing import Any

import numpy as np
import pytest
from scipy.stats import binom

from support.docs_blocks import ROOT

RECORDED = json.loads((ROOT / "tests/data/regression_rows.json").read_text())
"""Kernel -> side -> least seconds of each process: one revision against itself, on a machine with other work."""
KERNELS = list(RECORDED)


@pytest.fixture(scope="module", autouse=True)
def _benchmarks():
    with pytest.MonkeyPatch.context() as patch:
        patch.syspath_prepend(str(ROOT / "benchmarks"))
        yield


@pytest.fixture
def regression() -> ModuleType:
    import regression

    return regression


def samples(slower: str | None = None, factor: float = 1.0) -> dict[str, list[dict[str, Any]]]:
    """The recorded samples as the processes printed them, with one kernel of the new side made slower."""
    return {
        side: [
            {"kernel": name, "seconds": seconds * (factor if (side, name) == ("new", slower) else 1), "result": "r"}
            for name in KERNELS
            for seconds in RECORDED[name][side]
        ]
        for side in ("old", "new")
    }


def verdicts(regression: ModuleType, given: dict[str, list[dict[str, Any]]], bound: float = 1.10) -> dict[str, str]:
    rows, lacking = regression.judged(given, bound)
    assert lacking == {}
    return {row.kernel: row.verdict for row in rows}


def test_every_kernel_is_recorded(regression: ModuleType) -> None:
    assert list(regression.KERNELS) == KERNELS


def test_a_revision_is_not_slower_than_itself(regression: ModuleType) -> None:
    assert "slower" not in verdicts(regression, samples()).values()
    swapped = samples()
    swapped["old"], swapped["new"] = swapped["new"], swapped["old"]
    assert "slower" not in verdicts(regression, swapped).values()


@pytest.mark.parametrize("name", KERNELS)
def test_a_planted_slowdown_of_30_per_cent_is_found_in_its_kernel_alone(regression: ModuleType, name: str) -> None:
    found = verdicts(regression, samples(slower=name, factor=1.3))
    assert [kernel for kernel, verdict in found.items() if verdict == "slower"] == [name]


def test_the_interval_is_the_exact_one_of_the_resampled_median(regression: ModuleType) -> None:
    n = 15
    ratios = np.sort(np.random.default_rng(5).lognormal(0, 0.1, n))
    # At least eight of fifteen draws are among the k smallest.
    below = [binom.sf(n // 2, n, k / n) for k in range(1, n + 1)]
    low, high = (ratios[int(np.searchsorted(below, quantile))] for quantile in (0.05, 0.95))
    assert min(abs(each - quantile) for each in below for quantile in (0.05, 0.95)) > 0.005
    found = regression.compare("rotate", np.ones(n), ratios, 1.1, True)
    assert (found.low, found.ratio, found.high) == (low, np.median(ratios), high)


def test_the_interval_holds_the_true_ratio_nine_times_in_ten(regression: ModuleType) -> None:
    draw = np.random.default_rng(6)
    hit = 0
    for _ in range(300):
        old, new = draw.lognormal(0, 0.1, 15), 1.2 * draw.lognormal(0, 0.1, 15)
        found = regression.compare("rotate", old, new, 1.1, True)
        hit += found.low <= 1.2 <= found.high
    assert 0.82 <= hit / 300 <= 0.97


@pytest.mark.parametrize(
    ("low", "high", "verdict"),
    [
        (1.11, 1.2, "slower"), (1.10, 1.2, "unclear"), (0.9, 1.11, "unclear"), (1.05, 1.10, "same"),
        (0.8, 0.95, "same"), (0.8, 0.9, "faster"),
    ],
)  # fmt: skip
def test_only_an_interval_above_the_bound_is_slower(
    regression: ModuleType, low: float, high: float, verdict: str
) -> None:
    assert regression.judge(low, high, 1.10) == verdict


def test_sides_take_turns_at_being_first(regression: ModuleType) -> None:
    assert list(regression.order(3)) == [("old", "new"), ("new", "old"), ("old", "new")]


def test_a_kernel_that_base_lacks_is_left_out_with_its_reason(regression: ModuleType) -> None:
    given = samples()
    given["old"] = [row for row in given["old"] if row["kernel"] != "encode"]
    given["old"].append({"kernel": "encode", "lacks": "AttributeError: no encode"})
    rows, lacking = regression.judged(given, 1.1)
    assert lacking == {"encode": "AttributeError: no encode"}
    assert [row.kernel for row in rows] == [name for name in KERNELS if name != "encode"]


def test_a_kernel_that_this_tree_lacks_is_an_error(regression: ModuleType) -> None:
    given = samples()
    given["new"].append({"kernel": "encode", "lacks": "AttributeError: no encode"})
    with pytest.raises(regression.Unmeasured, match="this tree cannot run 'encode': AttributeError"):
        regression.judged(given, 1.1)


def test_a_base_that_lacks_every_kernel_is_an_error(regression: ModuleType) -> None:
    given = samples()
    given["old"] = [{"kernel": name, "lacks": "ImportError: none"} for name in KERNELS]
    with pytest.raises(regression.Unmeasured, match="BASE can run none of the kernels"):
        regression.judged(given, 1.1)


@pytest.fixture
def played(regression: ModuleType, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> dict[str, Any]:
    """Recorded processes instead of real ones. Those of the new side take `factor` times as long."""
    given: dict[str, Any] = {"factor": 1.0, "order": [], "result": "r"}
    places = {side: cycle(range(len(RECORDED["rotate"][side]))) for side in ("old", "new")}

    def run_side(folder: Path, inputs: Path, kernels: Sequence[str], repeats: int) -> list[dict[str, Any]]:
        side = "old" if folder == tmp_path else "new"
        given["order"].append(side)
        place, factor = next(places[side]), given["factor"] if side == "new" else 1.0
        result = given["result"] if side == "new" else "r"
        return [{"kernel": k, "seconds": RECORDED[k][side][place] * factor, "result": result} for k in kernels]

    monkeypatch.setattr(regression, "commit_of", lambda base: "c" * 40)
    monkeypatch.setattr(regression, "check_engine", lambda: None)
    monkeypatch.setattr(regression, "build", lambda commit: tmp_path)
    monkeypatch.setattr(regression, "make_inputs", lambda folder: None)
    monkeypatch.setattr(regression, "run_side", run_side)
    return given


def test_the_exit_status_is_the_verdict(regression: ModuleType, played: dict[str, Any], capsys: Any) -> None:
    assert regression.main(["HEAD", "--pairs", "10"]) == 0
    assert played["order"] == ["old", "new", "new", "old"] * 5
    printed = capsys.readouterr()
    assert "Above 1.1: 0" in printed.out
    assert "pair 10 of 10" in printed.err
    played["factor"] = 1.3
    assert regression.main(["HEAD", "--pairs", "10", "--kernels", "rotate"]) == 1
    assert "slower" in capsys.readouterr().out
    assert regression.main(["HEAD", "--pairs", "10", "--kernels", "rotate", "--bound", "1.6"]) == 0


def test_results_that_differ_are_told(regression: ModuleType, played: dict[str, Any], capsys: Any) -> None:
    played["result"] = "another"
    regression.main(["HEAD", "--pairs", "5", "--kernels", "rotate", "--format", "json"])
    assert [row["same_result"] for row in json.loads(capsys.readouterr().out)["rows"]] == [False]


def test_an_unknown_revision_is_refused(regression: ModuleType, capsys: Any) -> None:
    assert regression.main(["no-such-revision"]) == 2
    assert "'no-such-revision' is not a revision of this repository" in capsys.readouterr().err


def test_an_engine_of_other_sources_is_refused(
    regression: ModuleType, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    for name in (
        "scripts/bootstrap.py",
        "src/penstock/base/system/probe.py",
        "Cargo.toml",
        "Cargo.lock",
        "pyproject.toml",
    ):
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        shutil.copy(ROOT / name, tmp_path / name)
    (tmp_path / "crates").mkdir()
    monkeypatch.setattr(regression, "ROOT", tmp_path)
    with pytest.raises(regression.Unmeasured, match="'make setup' builds it again"):
        regression.check_engine()


@pytest.mark.parametrize("words", [["HEAD", "--pairs", "4"], ["HEAD", "--bound", "1"], ["HEAD", "--kernels", "none"]])
def test_arguments_that_cannot_be_judged_are_refused(regression: ModuleType, words: list[str]) -> None:
    with pytest.raises(SystemExit) as error:
        regression.main(words)
    assert error.value.code == 2


def test_every_kernel_runs_on_this_tree(
    regression: ModuleType, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    kernels = sys.modules["regression_kernels"]
    monkeypatch.setattr(kernels, "SET", "insecure-ci")
    monkeypatch.setattr(kernels, "ACCESSES", 1000)
    kernels.make_inputs(tmp_path)
    for name in KERNELS:
        first, second = (kernels.measure(name, tmp_path, 1) for _ in range(2))
        assert first["seconds"] > 0
        assert first["result"] == second["result"]


def test_a_process_refuses_another_penstock_than_its_own(regression: ModuleType, tmp_path: Path) -> None:
    command = [sys.executable, str(regression.WORKER), str(tmp_path), str(tmp_path)]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert done.returncode == 1
    assert "was imported, and not the penstock in" in done.stderr


def test_a_change_of_one_word_changes_the_digest(regression: ModuleType) -> None:
    digest, words = sys.modules["regression_kernels"].digest, np.arange(4)
    assert digest(words) == digest(np.arange(4))
    assert len({digest(words + np.eye(4, dtype=int)[k]) for k in range(4)} | {digest(words)}) == 5
