"""Figures of a report: drawn in the page, true to their numbers, in the colours of every other picture."""

from __future__ import annotations

import re
from pathlib import Path
from xml.etree import ElementTree

import numpy as np
import pytest

from penstock.base.runs.folder import RunFolder
from penstock.base.system.palette import DARK, LIGHT, NAMES, tier_colours
from penstock.lab.reports import build, build_report
from penstock.lab.reports.data import load
from penstock.lab.reports.numbers import ratio
from penstock_studies.io_study import figures
from support.fake_run import TIERS, config, simulate_rows, write_fake_run
from support.report_pages import Page


@pytest.fixture(scope="module")
def fake(tmp_path_factory):
    with write_fake_run(tmp_path_factory.mktemp("runs") / "run") as run:
        build_report(run)
    return run


@pytest.fixture(scope="module")
def page(fake):
    return Page(fake.report_path.read_text())


def drawings(text: str) -> dict[str, ElementTree.Element]:
    """The drawn figures of a page by their names."""
    found = re.findall(r'data-figure="([^"]+)" [^>]*>(<svg .*?</svg>)</div>', text, re.S)
    return {name: ElementTree.fromstring(svg) for name, svg in found}


def test_every_figure_is_drawn_in_the_page_itself(fake, page):
    drawn = drawings(fake.report_path.read_text())
    assert set(drawn) == set(page.figures)
    for name, svg in drawn.items():
        assert len(svg.findall(".//title")) >= 2, name
        assert all("nan" not in str(value) for node in svg.iter() for value in node.attrib.values()), name


def test_a_bar_is_as_long_as_its_value_says(fake, page):
    svg = drawings(fake.report_path.read_text())["figure-1-time-by-kind"]
    values = page.figures["figure-1-time-by-kind"]["panels"][0]["series"][0]["x"]
    wide = [float(node.get("width")) for node in svg.findall(".//rect") if node.find("title") is not None]
    assert len(wide) == len(values)
    assert wide[0] == pytest.approx(wide[1] * values[0] / values[1], abs=0.2)
    assert wide == sorted(wide, reverse=True)


def test_points_of_a_logarithmic_axis_stand_where_their_logarithm_does(fake, page):
    svg = drawings(fake.report_path.read_text())["figure-4-slowdown"]
    figure = page.figures["figure-4-slowdown"]
    (first, *_) = figure["panels"][0]["series"]
    circles = [float(node.get("cx")) for node in svg.findall(".//circle") if node.find("title") is not None]
    assert len(circles) == len(first["x"])
    logs = [np.log10(value) for value in first["x"]]
    line = np.polyval(np.polyfit(logs, circles, 1), logs)
    assert circles == pytest.approx(list(line), abs=0.15)


def test_a_figure_in_which_nothing_differs_is_a_sentence(tmp_path):
    with RunFolder.create(tmp_path / "run", config()) as run:
        level = {"machine": "this-cpu", "quantity": "slowdown"}
        rows = simulate_rows(2.0, 1e9)
        run.append_rows("simulate", [{**r, "value": 1.0} if level.items() <= r.items() else r for r in rows])
        page = Page(build_report(run).read_text())
    assert "Not drawn, because all values lie within one percent: this-cpu." in page.text
    assert "this-cpu: slowdown against hit ratio" not in page.text
    assert "sharp: slowdown against hit ratio" in page.text


def test_a_tier_has_the_same_colour_in_every_picture(page):
    lines = [f for n, f in page.figures.items() if n.endswith(("hit-ratio", "cache"))]
    for figure in lines:
        for series in figure["panels"][0]["series"]:
            assert series["colour"] == f"c{tier_colours(TIERS)[series['name']]}"
    assert len(lines) >= 4
    assert {tier: NAMES[index] for tier, index in tier_colours(TIERS).items()} == figures.TIER_COLOUR
    style = (Path(build.__file__).parent / "report.css").read_text()
    explorer = (Path(build.__file__).parents[2] / "front" / "explorer" / "static" / "page.css").read_text()
    for name, colour in LIGHT.items():
        assert f"--{name}: {colour};" in style.split("@media")[0]
        assert f"--{name}: {DARK[name]};" in style.split("@media")[1]
    for name in NAMES:
        assert f"--{name}: {LIGHT[name]};" in explorer.split("data-theme")[0]


def test_the_headline_is_the_middle_of_the_tiers_and_not_the_worst(page, fake):
    wanted = {"machine": "sharp", "mode": "serial", "hit_ratio": 0, "policy": None}
    slow = sorted(r["value"] for r in load(fake).slowdowns() if wanted.items() <= r.items())
    assert f"{ratio(slow[1])}slower on sharp with every key from ddr5" in page.text
    assert f"; {ratio(slow[0])} from hbm, {ratio(slow[-1])} from rdma" in page.text
