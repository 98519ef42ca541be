"""The first page: its picture and its table are of one run."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from penstock.base.units import format_seconds
from penstock.lab.analysis import TIERS, accelerator_trace, request_of, simulated_rows, tidy_rows
from penstock.scheme.play.price import price_trace

ROOT = Path(__file__).parents[3]
README = (ROOT / "README.md").read_text()


def pictured() -> str:
    """The numbers of the picture, which it carries as text."""
    found = re.search("(?:<desc>|<dc:description>)(.*?)</", (ROOT / "docs/images/report-overview.svg").read_text())
    assert found is not None
    return found[1]


def test_the_picture_and_the_table_are_of_the_same_run() -> None:
    measured = re.search(r"measured +([0-9.]+) s encrypted", README)
    assert measured is not None
    assert f"measured {measured[1]} s encrypted" in pictured()
    rows = re.findall(r"^(this-cpu|sharp|a100-tensorfhe) +\S+ +(\S+) .* ([0-9.]+)x +[0-9.]+%$", README, re.M)
    assert len(rows) == 12
    for machine, tier, slowdown in rows:
        assert f"slowdown of {machine} over {tier} {slowdown}x" in pictured()


@pytest.mark.parametrize("machine", ["sharp", "a100-tensorfhe"])
def test_the_rows_of_an_accelerator_are_what_the_demo_simulates(machine: str) -> None:
    words = {"params": None, "size": "demo", "seed": 0, "threads": None, "data": None}
    request = request_of("logistic-regression", **words, machines=(machine,), tiers=TIERS)
    (simulated,) = request.machines
    assert simulated is not None
    trace = accelerator_trace(request, simulated)
    priced = price_trace(trace, simulated)
    values: dict[tuple[str, str], float] = {}
    for row in tidy_rows(simulated_rows(trace, request.tiers, priced), trace, request.tiers, priced):
        values.setdefault((row["tier"], row["quantity"]), row["value"])
    shown = re.findall(rf"^{machine} +\S+ +(\S+) +(\S+ \S+) +(\S+ \S+) +(\S+)x +(\S+)%$", README, re.M)
    assert len(shown) == 4
    for tier, compute, total, slowdown, needed in shown:
        assert compute == format_seconds(values[tier, "compute_s"])
        assert total == format_seconds(values[tier, "total_s"])
        assert slowdown == f"{values[tier, 'slowdown']:.3g}"
        assert needed == f"{values[tier, 'hit_ratio_for_80_percent']:.2%}"[:-1]


def test_no_number_of_tests_grows_old_here() -> None:
    assert not re.search(r"\d+ passed", README)


def test_the_example_of_a_program_is_that_of_its_page() -> None:
    page = (ROOT / "docs/guides/own-programs.md").read_text()
    shown = page.partition("```python\n# score.py\n")[2].partition("```")[0]
    assert (ROOT / "examples/score.py").read_text() == shown


def test_every_file_that_a_line_names_is_here_or_made_by_a_line_before() -> None:
    block = README.partition("## Questions it answers")[2].partition("```\n")[2].partition("```")[0]
    made = {"people", "helr.parquet", "runs/helr"}
    for line in block.splitlines():
        for word in re.findall(r"\b[\w/]+\.(?:py|toml|parquet|bin)\b|\bruns/\w+|\bpeople\b", line):
            assert word in made or (ROOT / word).exists(), line
