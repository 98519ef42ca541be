"""The first page: its picture and its table are of one run."""

from __future__ import annotations

import re
from pathlib import Path

ROOT = Path(__file__).parents[2]
README = (ROOT / "README.md").read_text()


def pictured() -> str:
    """The numbers of the picture, which it carries as text."""
    found = re.search("<dc:description>(.*?)</dc:description>", (ROOT / "docs/images/report-overview.svg").read_text())
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
