"""The explorer as a person uses it, in a real browser: sliders, addresses, downloads, themes, the keyboard alone."""

from __future__ import annotations

import csv
import io
import json
import re
import shlex
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from penstock.front.cli.main import main
from penstock.front.explorer import drives
from penstock.front.explorer.library import Library
from penstock.front.explorer.views import VIEWS
from support.browser import Watched, chromium, violations
from support.explore_site import EVIL, EVIL_RUN, bench_runs, hostile_runs, predictions, serving, sweep_run
from support.fake_run import write_fake_run

pytest.importorskip("uvicorn", reason="the explorer's server is not installed: pip install 'penstock[explore]'")

WHATIF = "?view=whatif&workload=bootstrapping"


@pytest.fixture(scope="module")
def browser() -> Iterator[Any]:
    with chromium() as found:
        yield found


@pytest.fixture(scope="module")
def site(tmp_path_factory) -> Iterator[str]:
    runs = tmp_path_factory.mktemp("explore") / "runs"
    runs.mkdir()
    sweep_run(runs / "tiers")
    bench_runs(runs)
    for seed, name in enumerate(("first", "second")):
        write_fake_run(runs / name, seed=seed).close()
    with serving(Library.of(runs, predictions=[predictions(runs.parent / "validated.json")])) as address:
        yield address


@pytest.fixture(scope="module")
def window(browser, site) -> Iterator[Watched]:
    found = Watched(browser, site)
    yield found
    found.close()


@pytest.fixture
def watched(window) -> Iterator[Watched]:
    """One window for all: a new one costs more than a page."""
    yield window
    problems, window.problems = window.problems, []
    assert problems == []
    window.page.evaluate("localStorage.clear()")
    window.page.mouse.move(0, 0)


def number(page: Any, name: str) -> float:
    """A result of the what-if page, unrounded."""
    return float(page.locator(f'.figures [data-name="{name}"]').get_attribute("data-value"))


def slide(watched: Watched, name: str, step: int) -> None:
    """Move a slider as a hand does, and wait for the answer."""
    with watched.page.expect_response(lambda response: "/api/view/" in response.url and response.ok):
        watched.page.locator(f"#set-{name}").evaluate(
            "(slider, step) => { slider.value = step; slider.dispatchEvent(new Event('input', { bubbles: true }));"
            " slider.dispatchEvent(new Event('change', { bubbles: true })); }",
            str(step),
        )
    watched.ready()


def until(holds: Callable[[], bool]) -> None:
    """Wait until it holds. The page's policy forbids to let it wait by itself, with a script of ours."""
    end = time.monotonic() + 20
    while not holds():
        assert time.monotonic() < end, "it never held"
        time.sleep(0.02)


def printed(capsys, command: str) -> list[dict[str, Any]]:
    words = shlex.split(command)
    assert main([*words[1:], "--format", "json"]) == 0
    return json.loads(capsys.readouterr().out)


@pytest.mark.smoke
def test_a_slider_changes_the_number_to_that_of_the_command(watched, capsys):
    page = watched.open(WHATIF)
    before = number(page, "total_s")
    slide(watched, "hit_ratio", 90)
    after = number(page, "total_s")
    assert after < before
    row = printed(capsys, page.inner_text("#command"))[0]
    assert row["hit_ratio"] == 0.9
    for name in ("total_s", "slowdown", "compute_s", "io_s", "io_bytes"):
        assert number(page, name) == row[name]
    slide(watched, "hosts", 3)
    row = printed(capsys, page.inner_text("#command"))[0]
    assert row["hosts"] == 8
    assert number(page, "communication_s") == row["communication_s"] > 0


def test_a_word_without_a_control_of_its_own_is_a_field_with_its_known_values(watched, capsys):
    page = watched.open(f"{WHATIF}&hosts=8")
    before = number(page, "communication_s")
    field = page.get_by_label("Topology", exact=True)
    assert page.locator("#known-topology option").count() > 3
    with page.expect_response(lambda response: "/api/view/" in response.url and "topology=ring" in response.url):
        field.fill("ring")
        field.press("Enter")
    until(lambda: number(page, "communication_s") != before)
    assert "topology=ring" in page.url
    assert "--topology ring" in page.inner_text("#command")
    assert number(page, "communication_s") == printed(capsys, page.inner_text("#command"))[0]["communication_s"]
    assert page.get_by_label("Write back", exact=True).locator("option").all_inner_texts() == ["no", "yes"]
    assert not page.get_by_label("Pin", exact=True).is_visible()
    page = watched.open("?view=levels&workload=bootstrapping")
    assert page.get_by_label("Pin", exact=True).is_visible()
    assert not page.get_by_label("Topology", exact=True).is_visible()


@pytest.mark.parametrize("width", [360, 1280])
def test_a_click_on_what_would_help_gives_the_promised_figure(browser, site, width):
    watched = Watched(browser, site, width=width)
    page = watched.open(WHATIF + "&tier=rdma")
    until(lambda: page.locator("#advice li").count() > 2)
    before = number(page, "total_s")
    first = page.locator("#advice li").first
    gain = float(first.locator("[data-name=gain]").get_attribute("data-value"))
    command = first.locator("code").text_content()
    assert command.startswith("penstock simulate bootstrapping --params sharp --machine sharp --tier ")
    assert page.evaluate("document.documentElement.scrollWidth <= document.documentElement.clientWidth")
    first.get_by_role("button").click()
    until(lambda: "tier=rdma" not in page.url)
    watched.ready()
    assert before / number(page, "total_s") == pytest.approx(gain, rel=1e-9)
    until(lambda: page.locator("#advice li").first.locator("code").text_content() != command)
    watched.close()


def test_selects_change_machine_tier_and_policy(watched, capsys):
    page = watched.open(WHATIF)
    for name, value in (("machine", "ark"), ("tier", "rdma"), ("mode", "overlap"), ("prefetch", "next-4")):
        page.select_option(f"#set-{name}", value)
        watched.ready()
    page.check("#set-hold-cache")
    watched.ready()
    page.select_option("#set-policy", "belady")
    page.fill("#set-cache-text", "300 MB")
    page.press("#set-cache-text", "Enter")
    until(lambda: "300 MB" in page.inner_text("#command"))
    row = printed(capsys, page.inner_text("#command"))[0]
    assert (row["machine"], row["tier"], row["mode"], row["policy"], row["prefetch"]) == (
        "ark",
        "rdma",
        "overlap",
        "belady",
        "next-4",
    )
    assert row["cache_bytes"] == 300_000_000
    assert number(page, "total_s") == row["total_s"]


def test_a_drive_takes_the_place_of_the_tier(watched, capsys):
    page = watched.open(WHATIF)
    assert page.locator("#set-tier").is_visible()
    page.select_option("#set-drive", drives.names()[-1])
    until(lambda: "GB/s" in page.inner_text("#command"))
    watched.ready()
    assert page.locator("#set-tier").is_hidden()
    slide(watched, "queue_depth", 2)
    row = printed(capsys, page.inner_text("#command"))[0]
    assert number(page, "total_s") == row["total_s"]
    page.click('nav a:has-text("SSD")')
    until(lambda: page.inner_text("#title").startswith("Occupancy of drive"))
    assert f"drive={drives.names()[-1]}" in page.url


def test_an_address_restores_the_view(browser, watched, site):
    page = watched.open(WHATIF)
    slide(watched, "hit_ratio", 75)
    page.select_option("#set-tier", "rdma")
    watched.ready()
    address, total = page.url, number(page, "total_s")
    assert "hit_ratio=0.75" in address
    other = Watched(browser, site)
    again = other.open(address.removeprefix(f"{site}/"))
    assert number(again, "total_s") == total
    assert again.input_value("#set-hit_ratio") == "75"
    assert again.input_value("#set-tier") == "rdma"
    other.close()
    page.go_back()
    until(lambda: page.input_value("#set-tier") == "pcie5")
    watched.ready()
    assert number(page, "total_s") < total


@pytest.mark.parametrize("view", sorted(VIEWS))
def test_every_view_is_drawn_and_saved(watched, view):
    page = watched.open(f"?view={view}&workload=bootstrapping&hosts=2")
    assert page.locator("#error").inner_text() == ""
    assert page.locator("figure svg").count() == 1
    marks = page.locator("figure svg [data-tip]").count()
    assert marks > 0
    picture = page.locator("figure svg")
    assert picture.get_attribute("role") == "img"
    assert len(picture.get_attribute("aria-label")) > 10
    words = page.locator(f"#{picture.get_attribute('aria-describedby')}").text_content()
    shown = page.locator(f"#{picture.get_attribute('aria-details')} tbody tr").count()
    with page.expect_download() as download:
        page.click("#save-csv")
    rows = list(csv.DictReader(io.StringIO(Path(download.value.path()).read_text())))
    with page.expect_download() as download:
        page.click("#save-json")
    found = json.loads(Path(download.value.path()).read_text())
    assert len(found["rows"]) == len(rows) > 0
    assert shown == min(len(rows), 100)
    assert words.endswith(f"holds all of them: {len(rows)} row{'s' if len(rows) > 1 else ''}.")
    with page.expect_download() as download:
        page.click("#save-svg")
    drawing = Path(download.value.path()).read_text()
    assert drawing.startswith("<svg")
    assert "http" not in drawing.replace("http://www.w3.org/2000/svg", "")
    with page.expect_download() as download:
        page.click("#save-png")
    picture = Path(download.value.path()).read_bytes()
    assert picture.startswith(b"\x89PNG")
    assert len(picture) > 2000
    assert page.inner_text("#command").startswith("penstock ")


def test_a_csv_holds_the_number_that_is_shown(watched):
    page = watched.open(WHATIF + "&tier=rdma&hit_ratio=0.5")
    with page.expect_download() as download:
        page.click("#save-csv")
    assert download.value.suggested_filename == "penstock-whatif.csv"
    row = next(csv.DictReader(io.StringIO(Path(download.value.path()).read_text())))
    assert float(row["total_s"]) == number(page, "total_s")
    assert row["provenance"] == "simulated"


def test_numbers_say_what_they_are_on_hover_and_on_focus(watched):
    page = watched.open(WHATIF)
    figure = page.locator('.figures [data-name="compute_s"]')
    figure.hover()
    assert page.locator("#tip").is_visible()
    said = page.inner_text("#tip")
    assert said.startswith("simulated: penstock")
    assert "SHARP" in said
    page.mouse.move(0, 0)
    assert page.locator("#tip").is_hidden()
    figure.focus()
    assert page.inner_text("#tip") == said
    assert figure.get_attribute("aria-describedby") == "tip"
    page.keyboard.press("Escape")
    assert page.locator("#tip").is_hidden()
    page = watched.open("?view=measured")
    for name in ("measured", "predicted"):
        page.locator(f'td[data-name="{name}_s"]').first.hover()
        assert page.inner_text("#tip").startswith(f"{name}: run ")
    page = watched.open("?view=machines")
    page.locator("td.published").first.hover()
    assert page.inner_text("#tip").startswith("published (datasheet)")


def test_the_theme_switches_and_is_kept(watched):
    page = watched.open(WHATIF)
    ground = "getComputedStyle(document.body).backgroundColor"
    assert page.evaluate(ground) == "rgb(255, 255, 255)"
    assert page.inner_text("#theme") == "Dark"
    page.click("#theme")
    dark = page.evaluate(ground)
    assert dark != "rgb(255, 255, 255)"
    assert page.inner_text("#theme") == "Light"
    watched.open(WHATIF)
    assert page.evaluate(ground) == dark


def test_the_keyboard_alone_is_enough(watched):
    page = watched.open(WHATIF)
    page.keyboard.press("Tab")
    assert page.evaluate("document.activeElement.textContent") == "Skip to the view"
    reached = []
    for _ in range(60):
        page.keyboard.press("Tab")
        reached.append(page.evaluate("document.activeElement.id || document.activeElement.textContent"))
        if reached[-1] == "set-hit_ratio":
            break
    assert "theme" in reached
    before = number(page, "total_s")
    for _ in range(5):
        with page.expect_response(lambda response: "/api/view/" in response.url):
            page.keyboard.press("ArrowRight")
    watched.ready()
    assert page.evaluate("document.activeElement.id") == "set-hit_ratio"
    assert page.input_value("#set-hit_ratio") == "5"
    assert number(page, "total_s") < before
    for _ in range(40):
        page.keyboard.press("Tab")
        if page.evaluate("document.activeElement.matches('td.num')"):
            break
    first = page.evaluate("document.activeElement.dataset.name")
    page.keyboard.press("ArrowRight")
    assert page.evaluate("document.activeElement.dataset.name") != first
    page.locator("#tip").wait_for(state="visible", timeout=10_000)


def test_the_residency_zooms_to_the_operation_by_buttons(watched):
    page = watched.open("?view=residency&workload=bootstrapping&cache=256%20MB")
    spans = []
    for _ in range(5):
        page.locator('button[aria-label="Zoom in"]').focus()
        with page.expect_response(lambda response: "/api/view/" in response.url):
            page.keyboard.press("Enter")
        watched.ready()
        assert page.evaluate("document.activeElement.getAttribute('aria-label')") == "Zoom in"
        spans.append(page.url)
    assert len(set(spans)) == 5
    page.click("details.operations summary")
    cells = page.locator("details.operations tbody tr").first.locator("td").all_inner_texts()
    first = int(re.search(r"first=(\d+)", page.url).group(1))
    assert cells[0] == str(first)
    page.click('button[aria-label="All operations"]')
    watched.ready()
    assert "first=" not in page.url


def test_the_command_is_copied(watched):
    page = watched.open(WHATIF)
    page.click("#copy-command")
    until(lambda: page.inner_text("#status") == "Command copied")
    assert page.evaluate("navigator.clipboard.readText()") == page.inner_text("#command")


def test_what_is_wrong_is_said_with_its_remedy_and_mended(watched):
    page = watched.open("?view=whatif&workload=bootstrapping&tier=hbn")
    assert "did you mean 'hbm" in page.inner_text("#error")
    page.select_option("#set-tier", "hbm")
    page.wait_for_selector(".figures")
    assert page.inner_text("#error") == ""


def test_the_map_leads_to_its_point_by_mouse_and_by_keyboard(watched):
    page = watched.open("?view=slowdown&workload=bootstrapping")
    said = page.locator("#in-words").text_content()
    slowdowns = [
        float(text)
        for text in page.locator('td[data-name="slowdown"]').evaluate_all(
            "cells => cells.map((cell) => cell.dataset.value)"
        )
    ]
    most = page.locator('td[data-name="slowdown"]').nth(slowdowns.index(max(slowdowns))).inner_text()
    assert said.startswith("slowdown: from 1× (")
    assert f" to {most} (" in said
    page.locator('rect.cell[data-tip^="rdma, 90"]').click()
    page.wait_for_selector(".figures")
    assert page.input_value("#set-tier") == "rdma"
    assert page.input_value("#set-hit_ratio") == "90"
    page = watched.open("?view=slowdown&workload=bootstrapping")
    row = page.locator("#numbers tbody tr").filter(has=page.get_by_text("rdma", exact=True))
    row = row.filter(has=page.get_by_text(re.compile(r"^90\s%$")))
    row.locator('td[data-name="slowdown"]').focus()
    page.keyboard.press("Enter")
    page.wait_for_selector(".figures")
    assert page.input_value("#set-tier") == "rdma"
    assert page.input_value("#set-hit_ratio") == "90"


def test_the_points_of_a_sweep_are_chosen_narrowed_and_printed(watched, capsys):
    page = watched.open("?view=sweep")
    everything = json.loads(page.evaluate("fetch('/api/view/sweep').then((answer) => answer.text())"))
    marks = page.locator("figure svg circle.space-best")
    assert marks.count() == len(everything["rows"])
    marks.first.click(force=True)
    command = page.inner_text("#space-command")
    shown = page.inner_text(".space-chosen dl")
    (row,) = printed(capsys, command)
    assert f"tier\n{row['tier']}" in shown.lower()
    page.select_option("#space-where-tier", label="pcie5")
    until(lambda: "where=tier" in page.url)
    watched.ready()
    assert page.inner_text("#title") == "Sweep tiers: 4 of 12 points"
    page.select_option("#space-shape", "map")
    page.wait_for_selector("figure svg rect.cell")
    assert page.locator("figure svg rect.cell").count() == 2
    page.locator("figure svg rect.cell").first.click()
    assert "--tier pcie5" in page.inner_text("#space-command")
    watched.open(page.url.removeprefix(f"{watched.site}/"))
    assert page.input_value("#space-shape") == "map"
    page = watched.open("?view=runs")
    page.get_by_role("link", name="tiers").click()
    watched.ready()
    assert page.inner_text("#title").startswith("Sweep tiers")


@pytest.mark.parametrize(
    ("view", "heads"),
    [("slowdown", ["tier", "hit ratio", "total", "slowdown"]), ("hosts", ["hosts", "total", "slowdown"])],
)
def test_a_narrow_window_shows_the_answers_and_says_once_what_is_the_same(browser, site, view, heads):
    watched = Watched(browser, site, width=360)
    page = watched.open(f"?view={view}&workload=bootstrapping")
    texts = page.locator("#numbers thead th").all_inner_texts()
    assert [text.lstrip("●◆▲■").strip() for text in texts][: len(heads)] == heads
    box = page.locator("#numbers thead th").nth(len(heads) - 1).bounding_box()
    assert box["x"] + box["width"] <= 360
    assert page.inner_text("#numbers .same").startswith("In every row: machine sharp")
    watched.close()


@pytest.mark.parametrize("width", [360, 1280, 1920])
def test_headline_numbers_do_not_touch(browser, site, width):
    watched = Watched(browser, site, width=width)
    page = watched.open(WHATIF + "&tier=rdma&hosts=2")
    boxes = [each.bounding_box() for each in page.locator(".figures .figure").all()]
    assert len(boxes) > 5
    for i, one in enumerate(boxes):
        assert one["x"] + one["width"] <= width
        for other in boxes[i + 1 :]:
            apart = one["x"] + one["width"] + 6 <= other["x"] or other["x"] + other["width"] + 6 <= one["x"]
            assert apart or one["y"] + one["height"] <= other["y"]
    watched.close()


def test_menus_and_roofs_have_names(watched):
    page = watched.open("?view=drive")
    assert page.locator("#set-drive option").first.inner_text() == f"{drives.names()[0]}, the first"
    page = watched.open("?view=roofline&workload=bootstrapping")
    named = page.locator("figure svg text[transform]").all_text_contents()
    assert "pcie5" in named
    assert len(named) >= 4


@pytest.mark.parametrize(("theme", "width"), [("light", 1280), ("dark", 400)])
def test_every_view_fits_its_window_and_passes_the_accessibility_rules(browser, site, theme, width):
    """Labels, roles, names, contrast and the others of axe-core, in both themes and both layouts."""
    watched = Watched(browser, site, width=width, color_scheme=theme)
    page = watched.open(WHATIF)
    page.wait_for_selector("#recent")
    in_menu = page.locator("#views a[data-keep]").evaluate_all("links => links.map((link) => link.dataset.keep)")
    views = [each.removeprefix("view-") for each in in_menu]
    assert sorted([*views, "run"]) == sorted(VIEWS)
    for view in [*views, "run"]:
        if view == "run":
            watched.open("?view=run")
        elif view != "whatif":
            page.locator(f"[data-keep=view-{view}]").click()
            watched.ready()
        assert page.url.endswith(f"view={view}")
        assert page.evaluate("document.documentElement.scrollWidth <= document.documentElement.clientWidth"), view
        assert violations(page) == [], view
    watched.close()


def test_a_faint_number_in_the_last_row_of_a_table_breaks_the_rules(watched):
    page = watched.open("?view=slowdown&workload=bootstrapping")
    last = page.locator("#numbers tbody tr").last.locator("td.num").last
    last.evaluate("cell => { cell.style.color = '#bbb'; }")
    (problem,) = violations(page)
    assert problem[0] == "color-contrast"
    assert f'data-name="{last.get_attribute("data-name")}"' in problem[1]


def test_hostile_runs_neither_execute_nor_break_the_page(browser, tmp_path):
    runs = hostile_runs(tmp_path / "runs")
    (runs / "plain" / "report.html").write_text(
        "<title>tables</title><script>document.title='hit'</script><meta http-equiv=refresh content='0;url=http://evil.example'>"
        "<img src='http://evil.example/x.png'>"
    )
    with serving(Library(runs=runs)) as site:
        watched = Watched(browser, site)
        page = watched.open("?view=runs")
        assert page.locator("table tbody tr").count() == 6
        assert EVIL in page.inner_text("table")
        assert page.locator("main script, main img, main [onmouseover]").count() == 0
        page.get_by_role("link", name=EVIL_RUN).click()
        watched.ready()
        assert page.inner_text("#title") == f"Run {EVIL_RUN}"
        assert EVIL in page.inner_text("table")
        for view in ("compare", "measured", "whatif"):
            page = watched.open(f"?view={view}")
            assert page.locator("main script, main img, main [onmouseover]").count() == 0
        page = watched.open(f"?view=<img src=x onerror=alert(1)>&tier={EVIL}")
        assert page.locator("main img").count() == 0
        assert "hit" not in page.title()
        assert watched.problems == []
        page.goto(f"{site}/report/plain")
        page.wait_for_timeout(500)
        assert page.title() == "tables"
        watched.problems = [problem for problem in watched.problems if not problem.startswith("console: ")]
        watched.close()
        assert all(address.startswith((site, "data:", "blob:")) for address in watched.requests)


def test_a_link_cannot_run_a_script(watched):
    page = watched.open(WHATIF)
    page.evaluate("""() => {
        const script = document.createElement('script');
        script.textContent = 'window.hit = true';
        document.body.append(script);
    }""")
    assert page.evaluate("window.hit") is None
    assert any("Content Security Policy" in problem for problem in watched.problems)
    watched.problems.clear()
