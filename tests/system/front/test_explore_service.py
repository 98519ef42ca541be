"""The explorer shows a running service: what it says, when it goes, and that the operator's token stays outside."""

from __future__ import annotations

import json
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

pytest.importorskip("uvicorn", reason="the explorer's server is not installed: pip install 'penstock[explore]'")
pytest.importorskip("sqlalchemy", reason="the service is not installed: pip install 'penstock[serve]'")
pytest.importorskip("penstock_client", reason="penstock's client is not installed")

from penstock.base.system.web import Token
from penstock.front.explorer.library import Library
from penstock.front.explorer.live import Live
from support.browser import Watched, chromium, violations
from support.explore_site import serving
from support.live_service import LiveService, W, X, write_score

TENANTS, WAITING = 20, 340


@pytest.fixture(scope="module")
def browser() -> Iterator[Any]:
    with chromium() as found:
        yield found


def until(page: Any, holds: Callable[[], bool], seconds: float = 20) -> None:
    """Wait until it holds. Requests of the page pass through this process meanwhile."""
    end = time.monotonic() + seconds
    while not holds():
        assert time.monotonic() < end, "it never held"
        page.wait_for_timeout(50)


class Busy:
    """Figures of a service that has much to do. Its numbers grow with each question."""

    url = "http://127.0.0.1:8701"

    def __init__(self) -> None:
        self.asked = 0
        self.names = [
            *(f"tenant-{number:02}" for number in range(TENANTS - 1)),
            "a-tenant-with-a-very-long-name-of-all",
        ]

    def look(self) -> dict[str, Any]:
        self.asked += 1
        queue = [
            {
                "job": f"{number:032x}", "tenant": self.names[number % TENANTS], "program": "logistic-regression",
                "priority": number % 3, "waited_s": 12.5 + number, "running_s": None, "deaths": 0,
                "waits_for": ("keys", "turn", "memory")[number % 3], "missing_bytes": (number % 3 == 0) * 181_000_000,
            }
            for number in range(50)
        ]  # fmt: skip
        running = [
            {
                "job": "f" * 32, "tenant": self.names[-1], "program": "resnet-20", "priority": 0, "waited_s": 0.2,
                "running_s": 41.0 + self.asked, "deaths": 0, "tasks_ended": 7000 + 40 * self.asked, "tasks": 30_427,
            },
            {
                "job": "e" * 32, "tenant": "tenant-01", "program": "score", "priority": 9, "waited_s": 0.0,
                "running_s": 0.04, "deaths": 0,
            },
        ]  # fmt: skip
        times = {
            f"{part}p{n}_s": 0.02 * n * (1 + len(part)) for part in ("", "queue_", "compute_") for n in (50, 95, 99)
        }
        work = {
            "queue": queue, "waiting": WAITING + 7 * (self.asked % 5), "running": running, "backlog_s": 812.0,
            "budget_bytes": 4_000_000_000, "floor_bytes": 100_000_000, "resident_bytes": 3_912_000_000,
            "hits": 90_000 + self.asked, "late_hits": 210, "misses": 1200, "requested_bytes": 9e12, "miss_bytes": 2e10,
            "read_bytes": 21_400_000_000, "expanded_bytes": 0, "evictions": 18_211, "evicted_bytes": 1e10,
            "worker_deaths": 0, "draining": False, "workers": [], "isolation": "shared", "more_tenants": 3,
            "tenants": [
                {"tenant": name, "memory_bytes": 4e8 - 2e7 * at, "memory_keys": 31, "disk_bytes": 6e8 - 1e7 * at}
                for at, name in enumerate(self.names)
            ],
            "programs": [
                {"tenant": name, "program": "score", "jobs": 400 - at, **times} for at, name in enumerate(self.names)
            ],
        }  # fmt: skip
        return {"service": self.url, "work": work}


@pytest.mark.parametrize(("theme", "width"), [("light", 1280), ("dark", 1920), ("dark", 360)])
def test_a_busy_service_fits_its_window_and_passes_the_accessibility_rules(
    browser: Any, tmp_path: Path, theme: str, width: int
) -> None:
    with serving(Library.of(tmp_path), live=Busy()) as address:  # type: ignore[arg-type]
        watched = Watched(browser, address, width=width, color_scheme=theme)
        watched.page.goto(f"{address}/service")
        watched.ready()
        until(watched.page, lambda: watched.page.locator("#curves svg").count() == 1)
        page = watched.page
        assert page.evaluate("document.documentElement.scrollWidth <= document.documentElement.clientWidth")
        assert page.locator("#queue tbody tr").count() == 50
        assert "The first 50 of 3" in page.inner_text("#queue h2")
        assert "keys: 181" in page.inner_text("#queue tbody")
        assert page.locator("#queue .waits-memory").count() == 16
        assert page.locator("progress").get_attribute("max") == "30427"
        assert page.locator('[data-name="hit_ratio"]').inner_text().startswith("98.7")
        assert page.locator("#keys rect.key-memory").count() == 12 + 1
        assert violations(page) == []
        page.screenshot(path=tmp_path / f"service-{theme}-{width}.png", full_page=True)
        watched.close()


def test_the_page_asks_once_a_second_and_not_while_it_is_paused_or_hidden(browser: Any, tmp_path: Path) -> None:
    busy = Busy()
    with serving(Library.of(tmp_path), live=busy) as address:  # type: ignore[arg-type]
        watched = Watched(browser, address)
        watched.page.goto(f"{address}/service")
        page = watched.ready()
        until(page, lambda: busy.asked >= 3)
        page.locator("#running .scroll").focus()
        before = busy.asked
        until(page, lambda: busy.asked > before)
        # Figures change in place: whoever reads a table is not thrown out of it.
        assert page.evaluate("document.activeElement.parentElement.id") == "running"
        page.click("#pause")
        until(page, lambda: page.inner_text("#state") == "Paused.")
        before = busy.asked
        page.wait_for_timeout(1500)
        assert busy.asked == before
        page.click("#pause")
        until(page, lambda: busy.asked > before)
        page.evaluate("Object.defineProperty(document, 'hidden', { value: true, configurable: true })")
        until(page, lambda: page.inner_text("#state").startswith("Paused while"))
        before = busy.asked
        page.wait_for_timeout(1500)
        assert busy.asked == before
        page.evaluate("delete document.hidden; document.dispatchEvent(new Event('visibilitychange'))")
        until(page, lambda: busy.asked > before)
        watched.close()


def test_a_service_is_shown_as_it_is_goes_and_comes_back(browser: Any, tmp_path: Path) -> None:
    service = LiveService(tmp_path)
    try:
        alice = service.tenant("alice")
        with service.client("alice", alice) as client:
            client.deploy(write_score(tmp_path / "score.pkg"), "score")
            client.run("score", {"x": X, "w": W})
        wrong = service.operator_token[:-1] + ("0" if service.operator_token[-1] != "0" else "1")
        stranger = Live(service.admin_url, Token(wrong))
        assert "401" in stranger.look()["gone"]
        assert wrong not in str(stranger.look())
        stranger.close()
        live = Live(service.admin_url, Token(service.operator_token))
        with serving(Library.of(tmp_path), live=live) as address:
            watched = Watched(browser, address)
            page = watched.open("")
            page.click('nav a:has-text("Service")')
            watched.ready()
            work = service.operator("GET", "/v1/work").json
            assert page.locator('[data-name="evictions"]').inner_text() == "0"
            assert work["programs"][0]["jobs"] == 1
            cells = page.locator("#latency tbody td").all_inner_texts()
            assert cells[:3] == ["score", "alice", "1"]
            assert page.locator("#tenants tbody tr").all_inner_texts()[0].startswith("alice")
            assert page.locator('[data-name="resident_bytes"]').inner_text() != "0 B"
            ports = service.ports
            service.stop()
            until(page, lambda: "The service is gone" in page.inner_text("#state"))
            assert page.locator("#latency tbody td").first.inner_text() == "score"
            service.start(ports)
            until(page, lambda: page.inner_text("#state").startswith("Live"))
            answers = [page.content(), page.evaluate("fetch('/api/service').then((answer) => answer.text())")]
            answers.append(page.evaluate("fetch('/api/catalogue').then((answer) => answer.text())"))
            assert json.loads(answers[1])["work"]["waiting"] == 0
            secret = service.operator_token.rpartition("_")[2]
            assert not any(secret in answer for answer in answers)
            watched.close()
        live.close()
    finally:
        service.stop()
