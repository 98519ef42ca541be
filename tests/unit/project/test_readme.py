"""The first page: its picture and its table are of one run."""

from __future__ import annotations

import re
from pathlib import Path

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
