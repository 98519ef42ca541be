"""The drawing of all figures: marks stand where their numbers say, every word is there, light and dark can be read."""

from __future__ import annotations

import math
import re
from xml.etree import ElementTree

import numpy as np
import pytest

from penstock.base.system.drawing import Axis, Panel, Picture, Rule, Series, bars, described, inline, standalone
from penstock.base.system.palette import DARK, LIGHT, NAMES
from support.pictures import SVG, marks, texts


def drawn(*panels: Panel, title: str = "", columns: int = 1, same: str = "") -> ElementTree.Element:
    figure = Picture(panels, title, columns=columns, same=same)
    return ElementTree.fromstring(standalone(figure, described(figure)))


def ticks(svg: ElementTree.Element) -> dict[str, float]:
    """Text of each tick of the vertical axis -> where it stands."""
    nodes = [node for node in svg.iter(SVG + "text") if node.get("text-anchor") == "end"]
    return {"".join(node.itertext()): float(node.get("y", "nan")) - 4 for node in nodes}


def test_grouped_bars_end_at_their_values_and_stand_beside_each_other() -> None:
    series = [bars([10, 40], "published"), bars([20, 30], "simulated", "c1")]
    svg = drawn(Panel(series, Axis(names=["hbm", "ddr5"]), Axis("time", "s")))
    found, at = marks(svg, "rect"), ticks(svg)
    per_second = (at["0"] - at["20 s"]) / 20
    for name, value in (
        ("published, hbm", 10),
        ("published, ddr5", 40),
        ("simulated, hbm", 20),
        ("simulated, ddr5", 30),
    ):
        assert found[f"{name}, {value} s"]["height"] == pytest.approx(value * per_second, abs=0.2)
    first, second = found["published, hbm, 10 s"], found["simulated, hbm, 20 s"]
    assert first["x"] + first["width"] == pytest.approx(second["x"], abs=0.2)


def test_stacked_bars_begin_where_the_one_below_ends() -> None:
    svg = drawn(Panel([bars([30, 5], "a"), bars([70, 95], "b", "c1")], Axis(names=["1", "2"]), Axis("%"), stack=True))
    found = marks(svg, "rect")
    for below, above in (("a, 1, 30", "b, 1, 70"), ("a, 2, 5", "b, 2, 95")):
        assert found[above]["y"] + found[above]["height"] == pytest.approx(found[below]["y"], abs=0.2)
    assert found["b, 1, 70"]["y"] == pytest.approx(found["b, 2, 95"]["y"], abs=0.2)


def test_bars_of_a_logarithmic_axis_end_at_the_logarithm_and_begin_at_the_foot() -> None:
    svg = drawn(Panel([bars([1, 10, 1000])], Axis(names=["a", "b", "c"]), Axis("slowdown", "x", log=True)))
    one, ten, thousand = (marks(svg, "rect")[name] for name in ("a, 1×", "b, 10×", "c, 1,000×"))
    assert (ten["y"] - thousand["y"]) == pytest.approx(2 * (one["y"] - ten["y"]), abs=0.3)
    feet = {round(bar["y"] + bar["height"]) for bar in (one, ten, thousand)}
    assert len(feet) == 1
    assert one["height"] > 5


def test_horizontal_bars_may_begin_at_another_value_than_0() -> None:
    series = Series([0.5, 3], [0, 1], "", ["c0", "c4"], "bar", start=1)
    svg = drawn(Panel([series], Axis("times"), Axis(names=["keys whole", "seeded"]), rules=[Rule("x", 1, "now")]))
    less, more = marks(svg, "rect").values()
    assert less["x"] + less["width"] == pytest.approx(more["x"], abs=0.1)
    assert more["width"] == pytest.approx(4 * less["width"], abs=0.3)
    assert less["y"] < more["y"]
    assert {"keys whole", "seeded", "now"} <= set(texts(svg))


def test_bars_at_numbers_are_as_wide_as_the_closest_two_allow_and_one_alone_is_no_line() -> None:
    for places in ([4], [4, 5, 9]):
        panel = Panel(
            [Series(places, [1] * len(places), "", "c0", "bar")], Axis("limbs", ticks=places), Axis("time", "s")
        )
        svg = drawn(panel)
        stands = {text: float(node.get("x", "nan")) for node in svg.iter(SVG + "text") if (text := node.text)}
        found = marks(svg, "rect")
        assert all(mark["width"] > 30 for mark in found.values())
        assert {name: mark["x"] + mark["width"] / 2 for name, mark in found.items()} == pytest.approx(
            {f"{place}, 1 s": stands[str(place)] for place in places}, abs=0.2
        )


def test_a_bar_without_a_value_says_why() -> None:
    svg = drawn(Panel([bars([None, 2.0], "published", absent="not published")], Axis(names=["a", "b"]), Axis("x", "x")))
    assert texts(svg).count("not published") == 1
    assert list(marks(svg, "rect")) == ["published, b, 2×"]


def test_points_stand_where_both_logarithms_do_and_gaps_stay_gaps() -> None:
    x, y = [1, 4, 16, 64], [1e-3, None, 1e-1, 1.0]
    panel = Panel(
        [Series(x, y, "mult", "c2", "circle", "dash")], Axis("threads", log=True, ticks=x), Axis("t", "s", True)
    )
    found = marks(drawn(panel), "circle")
    assert list(found) == ["mult, 1, 1 ms", "mult, 16, 100 ms", "mult, 64, 1 s"]
    across = [mark["cx"] for mark in found.values()]
    down = [mark["cy"] for mark in found.values()]
    for places, values in ((across, [1, 16, 64]), (down, [1e-3, 1e-1, 1.0])):
        logs = np.log10(values)
        assert places == pytest.approx(list(np.polyval(np.polyfit(logs, places, 1), logs)), abs=0.2)


def test_lines_through_a_point_reach_from_its_low_to_its_high_end() -> None:
    series = Series([0], [20], "penstock", "c0", "circle", low=[10], high=[40], texts=["unseen-depth"])
    svg = drawn(Panel([series], Axis(names=["unseen-depth"]), Axis("error")))
    at = ticks(svg)
    (path,) = [node.get("d", "") for node in svg.iter(SVG + "path") if "h8" in node.get("d", "")]
    low, high = (float(number) for number in re.findall(r"M[\d.]+ ([\d.]+)V([\d.]+)", path)[0])
    assert (low, high) == pytest.approx((at["10"], at["40"]), abs=0.2)


def test_every_name_of_a_place_is_there_however_long() -> None:
    names = [f"unseen-application-of-a-kind-{i}" for i in range(12)]
    svg = drawn(Panel([bars(range(1, 13))], Axis(names=names), Axis("n")))
    assert {text.replace(" ", "") for text in texts(svg)} >= set(names)


def test_the_legend_has_each_name_and_reference_line_once() -> None:
    lines = [Series([1, 2], [1, 2], "HBM", "c0", dash=dash) for dash in ("solid", "dash")]
    panels = [Panel(lines, Axis("x"), Axis("y"), rules=[Rule("y", 1.5, "budget"), Rule("y", 1.2)])] * 2
    shown = texts(drawn(*panels, columns=2))
    assert shown.count("HBM") == shown.count("budget") == 1


def test_panels_share_ends_where_they_are_compared() -> None:
    panels = [Panel([bars([value])], Axis(names=["a"]), Axis("time", "s")) for value in (1, 10)]
    for same, factor in (("y", 10), ("", 1)):
        heights = [node["height"] for node in marks(drawn(*panels, columns=2, same=same), "rect").values()]
        assert heights[1] == pytest.approx(factor * heights[0], rel=0.02)


def test_no_two_of_many_stacked_series_look_the_same() -> None:
    many = [bars([1], f"op{i}", NAMES[i % len(NAMES)]) for i in range(20)]
    svg = drawn(Panel(many, Axis(names=["a"]), Axis("y"), stack=True))
    rects = [node for node in svg.iter(SVG + "rect") if node.get("width") != "100%"]
    looks = []
    for node, after in zip(rects, [*rects[1:], None], strict=True):
        if node.find(SVG + "title") is not None:
            over = after.get("fill", "") if after is not None else ""
            looks.append((node.get("fill"), over if over.startswith("url") else ""))
    assert len(set(looks)) == len(looks) == 20


def test_ten_thousand_points_are_one_small_path_with_each_place() -> None:
    x = [10 ** (i / 2500) for i in range(10_000)]
    text = standalone(
        Picture([Panel([Series(x, x, "designs", "line", "circle", size=3)], Axis(log=True), Axis(log=True))]), ""
    )
    assert len(text) < 200_000
    svg = ElementTree.fromstring(text)
    (cloud,) = [node.get("d", "") for node in svg.iter(SVG + "path") if node.get("stroke-linecap") == "round"]
    assert cloud.count("h0") > 3000
    assert "designs" in texts(svg)


def test_a_file_is_whole_by_itself_and_describes_itself() -> None:
    hostile = "<script>&\x00\ud800 name"
    figure = Picture([Panel([bars([1], hostile), bars([2], "b")], Axis(names=[hostile]), Axis(hostile))], hostile)
    text = standalone(figure, described(figure))
    svg = ElementTree.fromstring(text)
    assert svg.findtext(SVG + "title") == "<script>&\ufffd\ufffd name"
    assert "Series: <script>&" in (svg.findtext(SVG + "desc") or "")
    assert svg.get("role") == "img"
    assert b"var(--" not in text
    assert b"<script" not in text
    assert not re.search(rb"href|url\((?!#)|https?://(?!www\.w3\.org/2000/svg)", text)
    assert text == standalone(figure, described(figure))
    assert "<svg" in inline(figure, "a")
    assert not {"#0072b2", 'id="figure'} & set(inline(figure, "a").split())


def luminance(colour: str) -> float:
    parts = [int(colour[i : i + 2], 16) / 255 for i in (1, 3, 5)]
    red, green, blue = (p / 12.92 if p <= 0.03928 else ((p + 0.055) / 1.055) ** 2.4 for p in parts)
    return 0.2126 * red + 0.7152 * green + 0.0722 * blue


@pytest.mark.parametrize("theme", [LIGHT, DARK], ids=["light", "dark"])
def test_words_and_marks_can_be_read_in_both_themes(theme: dict[str, str]) -> None:
    def contrast(name: str) -> float:
        low, high = sorted((luminance(theme[name]), luminance(theme["bg"])))
        return (high + 0.05) / (low + 0.05)

    assert all(contrast(name) >= 4.5 for name in ("fg", "muted"))
    assert all(contrast(name) >= 2.8 for name in NAMES)
    assert theme.keys() == LIGHT.keys()


def test_a_file_has_the_dark_colour_of_each_light_one_unless_it_is_for_paper() -> None:
    figure = Picture([Panel([bars([1])], Axis(names=["a"]), Axis("y"))])
    screen, paper = (standalone(figure, "", dark=dark).decode() for dark in (True, False))
    for name, colour in LIGHT.items():
        assert f'[fill="{colour}"]{{fill:{DARK[name]}}}' in screen
    assert "prefers-color-scheme" not in paper
    assert len(set(LIGHT.values())) == len(LIGHT), "a dark colour is chosen by the light one"


def test_numbers_that_are_not_finite_are_gaps() -> None:
    series = Series([1, 2, 3], [1.0, math.inf, math.nan], "a", mark="circle")
    assert series.y == (1.0, None, None)
    assert len(marks(drawn(Panel([series], Axis("x"), Axis("y"))), "circle")) == 1


def test_a_panel_without_points_is_an_empty_pair_of_axes() -> None:
    for axis in (Axis("y"), Axis("y", "s", log=True)):
        assert "y" in texts(drawn(Panel([], Axis("x"), axis)))
