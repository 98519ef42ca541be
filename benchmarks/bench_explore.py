"""The explorer: its first page, and the time from a moved slider to the new number, for a ResNet-20 trace.

1. Answers over HTTP: each view at settings that were not asked for before, the trace and its prices kept.
2. In a headless Chromium: from opening the address of a fresh server to the first drawing and to the first answer; and
   from the event of a slider to the frame that shows its new number.

    .venv/bin/python benchmarks/bench_explore.py [--answers 200] [--workload resnet20-multiplexed] [--format json]

CPU seconds, of server and client together, say how far a busy machine has stretched the wall times.

Without a browser the second part says so and is left out. Exit 1: a bound is missed.
"""

from __future__ import annotations

import argparse
import json
import os
import random
import shutil
import statistics
import sys
import tempfile
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any
from urllib.parse import urlencode
from urllib.request import urlopen

from penstock.front.explorer.library import Library
from penstock.front.explorer.serve import bound, serve
from penstock.front.explorer.state import State
from penstock.scheme.machines import tier_names

ANSWER_BOUND_S = 0.050
"""95th percentile of answers."""
PAGE_BOUND_S = 1.0
VIEWS = ("whatif", "slowdown", "roofline", "residency", "hosts", "machines", "drive", "tenants", "levels")
NAMES = ("chromium", "chromium-browser", "google-chrome-stable", "google-chrome")
FLAGS = (
    "--no-sandbox", "--disable-gpu", "--disable-quic", "--no-first-run", "--disable-background-networking",
    "--disable-component-update", "--disable-sync", "--disable-dev-shm-usage",
)  # fmt: skip
SLIDE = """([name, step]) => new Promise((done) => {
  const slider = document.getElementById(`set-${name}`);
  const content = document.getElementById('content');
  const started = performance.now();
  const watch = new MutationObserver(() => {
    if (!content.querySelector('.figures')) return;
    watch.disconnect();
    requestAnimationFrame(() => done(performance.now() - started));
  });
  watch.observe(content, { childList: true });
  slider.value = step;
  slider.dispatchEvent(new Event('input', { bubbles: true }));
})"""


ANSWERED = """new MutationObserver(() => {
  if (window.answered || !document.querySelector('.figures')) return;
  window.answered = true;
  requestAnimationFrame(() => { window.answeredAt = performance.now(); });
}).observe(document, { childList: true, subtree: true })"""
"""Notes when the first answer is drawn."""


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--answers", type=int, default=200)
    parser.add_argument("--workload", default="resnet20-multiplexed")
    parser.add_argument("--format", choices=("text", "json"), default="text")
    asked = parser.parse_args()
    state = State(workload=asked.workload)
    rows = answers(state, asked.answers)
    browser = os.environ.get("PENSTOCK_CHROMIUM") or next(filter(None, map(shutil.which, NAMES)), None)
    if browser is None:
        print("part 2 is left out: Chromium is not installed ('make chromium')", file=sys.stderr)
    else:
        rows += in_browser(browser, state, asked.answers)
    if asked.format == "json":
        print(json.dumps(rows, indent=2))
    else:
        for row in rows:
            bound_ms = f"{1e3 * row['bound_s']:.0f} ms"
            cpu = "" if row["cpu_p95_s"] is None else f"CPU p95 {1e3 * row['cpu_p95_s']:6.1f} ms  "
            print(
                f"{row['what']:<34} n {row['n']:>4}  median {1e3 * row['median_s']:7.1f} ms  "
                f"p95 {1e3 * row['p95_s']:7.1f} ms  {cpu:<20}  bound {bound_ms:>8}  {'met' if row['met'] else 'MISSED'}"
            )
    return 0 if all(row["met"] for row in rows) else 1


@contextmanager
def serving(state: State) -> Iterator[str]:
    """The address of a fresh explorer without runs."""
    listening, stop, said = bound(0), threading.Event(), list[str]()
    with tempfile.TemporaryDirectory() as folder:
        arguments = {"browser": False, "stop": stop, "say": said.append}
        thread = threading.Thread(target=serve, args=(Library(runs=Path(folder)), listening, state), kwargs=arguments)
        thread.start()
        while not said:
            time.sleep(0.01)
        try:
            yield said[0].rstrip("/")
        finally:
            stop.set()
            thread.join()


def answers(state: State, number: int) -> list[dict[str, Any]]:
    """Each view's answers over HTTP; the settings are random, seeded, and each is new to the server."""
    rng = random.Random(8)
    rows = []
    with serving(state) as site:
        for view in VIEWS:
            _get(site, view, {"workload": state.workload})
            # The first answer on several hosts prices every shape for them; from then on it is kept.
            _get(site, view, {"workload": state.workload, "hosts": "8"})
            times = [_timed(lambda view=view: _get(site, view, _random(rng, state))) for _ in range(number)]
            rows.append(_row(f"HTTP, {view}", [wall for wall, _ in times], ANSWER_BOUND_S, [cpu for _, cpu in times]))
    return rows


def _random(rng: random.Random, state: State) -> dict[str, str]:
    """Settings within a keystroke of each other: slider positions, tiers, policies and time modes."""
    settings = {
        "workload": state.workload,
        "tier": rng.choice(tier_names()),
        "mode": rng.choice(["serial", "overlap", "bound"]),
        "hosts": rng.choice(["1", "1", "8"]),
        "prefetch": rng.choice(["next-1", "next-4", "none"]),
    }
    if rng.random() < 0.5:
        return settings | {"hit_ratio": f"{rng.random():.6f}"}
    policy = rng.choice(["lru", "belady", "optimal", "s3-fifo", "arc"])
    return settings | {"hold": "cache", "policy": policy, "cache": f"{rng.randrange(10, 4000)} MB"}


def _get(site: str, view: str, settings: dict[str, str]) -> None:
    with urlopen(f"{site}/api/view/{view}?{urlencode(settings)}") as answer:
        found = json.load(answer)
    if "error" in found:
        raise SystemExit(f"{view}: {found['error']}")


def in_browser(path: str, state: State, number: int) -> list[dict[str, Any]]:
    """First pages of fresh servers, and sliders, by the browser's own clock."""
    from playwright.sync_api import sync_playwright

    painted, answered = [], []
    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=path, headless=True, args=list(FLAGS))
        browser.new_page().goto("data:text/html,ready")  # the browser's own start is not the page's
        for _ in range(5):
            with serving(State()) as site:
                page = browser.new_page()
                page.add_init_script(ANSWERED)
                page.goto(f"{site}/")
                page.wait_for_selector(".figures")
                answered.append(page.evaluate("new Promise((r) => requestAnimationFrame(() => r(answeredAt / 1e3)))"))
                paint = "performance.getEntriesByName('first-contentful-paint')[0].startTime / 1e3"
                painted.append(page.evaluate(paint))
                page.close()
        with serving(state) as site:
            page = browser.new_page()
            page.goto(f"{site}/?workload={state.workload}")
            page.wait_for_selector(".figures")
            steps = [1 + i % 99 for i in range(number)]
            ratios = [page.evaluate(SLIDE, ["hit_ratio", str(step)]) / 1e3 for step in steps]
            page.check("#set-hold-cache")
            page.wait_for_selector('body[data-state="ready"]')
            caches = [page.evaluate(SLIDE, ["cache", str(step)]) / 1e3 for step in steps]
        browser.close()
    return [
        _row("browser, first paint", painted, PAGE_BOUND_S),
        _row("browser, first answer", answered, PAGE_BOUND_S),
        _row("browser, hit ratio to number", ratios, ANSWER_BOUND_S),
        _row("browser, cache size to number", caches, ANSWER_BOUND_S),
    ]


def _timed(work: Callable[[], None]) -> tuple[float, float]:
    """Wall and CPU seconds; the server is in this process, so its own are among them."""
    wall, cpu = time.perf_counter(), time.process_time()
    work()
    return time.perf_counter() - wall, time.process_time() - cpu


def _row(what: str, times: list[float], bound_s: float, cpu: list[float] | None = None) -> dict[str, Any]:
    p95 = _p95(times)
    return {
        "what": what, "n": len(times), "median_s": statistics.median(times), "p95_s": p95, "worst_s": max(times),
        "cpu_p95_s": None if cpu is None else _p95(cpu), "bound_s": bound_s, "met": p95 <= bound_s,
    }  # fmt: skip


def _p95(times: list[float]) -> float:
    ordered = sorted(times)
    return ordered[min(len(ordered) - 1, int(0.95 * len(ordered)))]


if __name__ == "__main__":
    sys.exit(main())
