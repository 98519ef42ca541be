"""A headless Chromium of this machine, for tests that use a page as a person does."""

from __future__ import annotations

import json
import os
import shutil
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any
from urllib.parse import urlsplit

import pytest

NAMES = ("chromium", "chromium-browser", "google-chrome-stable", "google-chrome")
FLAGS = (
    "--no-sandbox", "--disable-gpu", "--disable-quic", "--no-first-run", "--disable-background-networking",
    "--disable-component-update", "--disable-sync", "--disable-default-apps", "--disable-dev-shm-usage",
)  # fmt: skip
REQUIRED = "PENSTOCK_REQUIRE_BROWSER"
REMEDY = "'make chromium' (apt-get install chromium, as root), or name one with PENSTOCK_CHROMIUM"


def unavailable(reason: str) -> Any:
    """Skip, or fail where a browser is required (`PENSTOCK_REQUIRE_BROWSER`, set in continuous integration)."""
    if os.environ.get(REQUIRED) or os.environ.get("CI"):
        pytest.fail(f"{reason}, and {REQUIRED} or CI is set: {REMEDY}")
    pytest.skip(f"{reason}: {REMEDY}")


def chromium_path() -> str:
    """Where the browser is; skips or fails where there is none."""
    chosen = os.environ.get("PENSTOCK_CHROMIUM")
    found = next((path for name in ((chosen,) if chosen else NAMES) if (path := shutil.which(name))), None)
    return found or unavailable("Chromium is not installed")


@contextmanager
def chromium() -> Iterator[Any]:
    """A browser with a profile of its own."""
    path = chromium_path()
    try:
        from playwright.sync_api import sync_playwright
    except ImportError:
        unavailable("playwright is not installed ('make setup' does)")
    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=path, headless=True, args=list(FLAGS))
        try:
            yield browser
        finally:
            browser.close()


class Watched:
    """A page whose every request and console message is kept: none may leave the machine, none may be an error."""

    def __init__(self, browser: Any, site: str, *, width: int = 1280, **options: Any) -> None:
        self.site, self.problems, self.requests = site, list[str](), list[str]()
        height = 800 if width < 1000 else 900
        self.context = browser.new_context(
            viewport={"width": width, "height": height},
            accept_downloads=True,
            permissions=["clipboard-read", "clipboard-write"],
            **options,
        )
        self.page = self.context.new_page()
        self.page.set_default_timeout(20_000)
        self.page.on("console", self._said)
        self.page.on("pageerror", lambda error: self.problems.append(f"script: {error}"))
        self.page.on("dialog", self._dialog)
        self.context.route("**/*", self._route)

    def _said(self, message: Any) -> None:
        if message.type in ("error", "warning"):
            self.problems.append(f"console: {message.text}")

    def _dialog(self, dialog: Any) -> None:
        self.problems.append(f"dialog: {dialog.message}")
        dialog.dismiss()

    def _route(self, route: Any) -> None:
        address = route.request.url
        self.requests.append(address)
        if urlsplit(address).netloc == urlsplit(self.site).netloc or urlsplit(address).scheme in ("data", "blob"):
            route.continue_()
        else:
            self.problems.append(f"request to {address}")
            route.abort()

    def open(self, query: str = "") -> Any:
        """Go to an address and wait for its answer."""
        self.page.goto(f"{self.site}/{query}")
        return self.ready()

    def ready(self) -> Any:
        """Wait until the page shows the answer to the last question."""
        self.page.wait_for_selector('body[data-state="ready"]')
        return self.page

    def close(self) -> None:
        self.context.close()
        assert self.problems == []


AS_BEFORE = """() => {
  const looks = (part) => {
    const style = getComputedStyle(part);
    const text = [...part.childNodes].some((node) => node.nodeType === Node.TEXT_NODE && node.textContent.trim());
    return [part.tagName, text, ...%s.map((name) => style[name])].join();
  };
  for (const body of document.querySelectorAll("tbody")) {
    const seen = new Set();
    for (const row of body.rows) {
      const parts = [row, ...row.querySelectorAll("*")];
      const look = parts.map(looks).join(";");
      for (const part of parts) part.toggleAttribute("data-as-before", seen.has(look));
      seen.add(look);
    }
  }
  axe.configure({ rules: [{ id: "color-contrast", selector: "*:not([data-as-before])" }] });
}"""
CONTRAST = (
    "color", "backgroundColor", "backgroundImage", "fontSize", "fontWeight", "fontFamily", "opacity", "textShadow",
    "display", "visibility", "position", "filter", "mixBlendMode", "webkitTextStrokeColor",
)  # fmt: skip
"""What the contrast of a text depends on."""


def violations(page: Any) -> list[tuple[str, str, str]]:
    """The rules of axe-core that a page breaks, each with the first place and the reason.

    The contrast of a table's row is looked at once for all rows that look the same: it is most of the work. Skips
    where axe is not installed.
    """
    axe = pytest.importorskip("axe_playwright_python.sync_playwright", reason="'make setup' installs it")
    if page.evaluate("typeof axe === 'undefined'"):
        page.evaluate(axe.Axe().axe_script)
    page.evaluate(AS_BEFORE % json.dumps(CONTRAST))
    found = page.evaluate("axe.run({ resultTypes: ['violations'] }).then((found) => found.violations)")
    return [(each["id"], each["nodes"][0]["html"][:160], each["nodes"][0]["failureSummary"]) for each in found]
