"""A comparison in a real browser: drawn without an error or a request, printable, readable without JavaScript."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from penstock.lab.reports.compare import build_comparison
from support.browser import chromium
from support.fake_run import write_fake_run


@pytest.fixture(scope="module")
def page_file(tmp_path_factory: pytest.TempPathFactory) -> Path:
    root = tmp_path_factory.mktemp("runs")
    runs = []
    for name, seed in (("before", 7), ("after", 8)):
        with write_fake_run(root / name, seed=seed) as run:
            run.warn("<script>document.title = 'hit'</script>", "<img src=x onerror=\"document.title = 'hit'\">")
            runs.append(run)
    return build_comparison(runs, root / "comparison.html")


@pytest.fixture(scope="module")
def browser() -> Iterator[Any]:
    with chromium() as found:
        yield found


@pytest.mark.parametrize("width", [1280, 400])
def test_every_plot_is_drawn_and_nothing_leaves_the_page(browser: Any, page_file: Path, width: int) -> None:
    context = browser.new_context(viewport={"width": width, "height": 900})
    page = context.new_page()
    problems: list[str] = []
    requests: list[str] = []
    page.on("console", lambda message: problems.append(message.text) if message.type in ("error", "warning") else None)
    page.on("pageerror", lambda error: problems.append(str(error)))
    page.on("request", lambda request: requests.append(request.url))
    page.goto(page_file.as_uri())
    assert page.title() == "before against after · penstock"
    assert page.locator(".plot").count() == page.locator(".plot svg").count() >= 3
    page.locator("#host").scroll_into_view_if_needed()
    assert page.locator("nav").bounding_box()["y"] < 60
    assert page.locator("nav a[aria-current]").count() == 1
    assert page.evaluate("document.documentElement.scrollWidth <= innerWidth")
    assert problems == []
    assert [url for url in requests if not url.startswith(("file:", "data:", "blob:"))] == []
    context.close()


def test_it_prints_and_reads_without_javascript(browser: Any, page_file: Path) -> None:
    context = browser.new_context(java_script_enabled=False)
    page = context.new_page()
    page.goto(page_file.as_uri())
    tables = page.locator("table")
    assert tables.count() >= 7
    assert "rotate" in page.locator("table[aria-label='Time by operation kind']").inner_text()
    assert page.locator(".plot svg").first.is_visible()
    assert page.pdf(format="A4").startswith(b"%PDF")
    context.close()
