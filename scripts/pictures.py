"""The pictures of the documentation that are photographs of a page: the explorer's views and a report, in Chromium.

make pictures          writes docs/images/*.png again, from runs/demo (`make demo`)
"""

from __future__ import annotations

import io
import shutil
import socket
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from urllib.error import URLError
from urllib.request import urlopen

ROOT = Path(__file__).parents[1]
IMAGES = ROOT / "docs" / "images"
RUN = ROOT / "runs" / "demo"
WIDTH, HEIGHT = 1280, 580
COLOURS = 64  # of a picture's palette: flat drawings lose nothing, and the file is a quarter as large
BROWSERS = ("chromium", "chromium-browser", "google-chrome-stable", "google-chrome")
VIEWS = {
    "explorer-whatif": "?view=whatif&workload=logistic-regression&machine=sharp",
    "explorer-slowdown": "?view=slowdown&workload=logistic-regression&machine=sharp",
    "explorer-residency": "?view=residency&workload=inner-product&machine=sharp&policy=belady",
}


def free_port() -> int:
    with socket.socket() as found:
        found.bind(("127.0.0.1", 0))
        return int(found.getsockname()[1])


def answers(site: str) -> bool:
    try:
        with urlopen(site, timeout=1) as answer:
            return bool(answer.status == 200)
    except (URLError, OSError):
        return False


def keep(name: str, picture: bytes) -> None:
    """Write a screenshot with a small palette."""
    from PIL import Image

    path = IMAGES / f"{name}.png"
    with Image.open(io.BytesIO(picture)) as image:
        image.convert("RGB").quantize(COLOURS).save(path, optimize=True)
    print(f"{path.relative_to(ROOT)}: {path.stat().st_size} bytes")


def photograph(site: str) -> None:
    from playwright.sync_api import sync_playwright

    path = next(found for name in BROWSERS if (found := shutil.which(name)))
    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=path, headless=True, args=["--no-sandbox"])
        page = browser.new_page(viewport={"width": WIDTH, "height": HEIGHT}, color_scheme="light")
        for name, query in VIEWS.items():
            page.goto(f"{site}/{query}")
            page.wait_for_selector('body[data-state="ready"]')
            keep(name, page.screenshot())
        page.goto((RUN / "report.html").as_uri())
        page.wait_for_timeout(1000)  # plotly draws after the page has loaded
        keep("report-page", page.screenshot())
        browser.close()


def main() -> int:
    if not (RUN / "report.html").is_file():
        print(f"{RUN} has no report: run `make demo` first", file=sys.stderr)
        return 2
    with tempfile.TemporaryDirectory() as folder:  # the page names the folder of its runs
        shutil.copytree(RUN, Path(folder) / "runs" / RUN.name)
        return photograph_all(Path(folder) / "runs")


def photograph_all(runs: Path) -> int:
    port = free_port()
    site = f"http://127.0.0.1:{port}"
    command = [str(Path(sys.executable).with_name("penstock")), "explore", "--runs", str(runs), "--port", str(port)]
    server = subprocess.Popen([*command, "--no-browser"], cwd=ROOT)
    try:
        while server.poll() is None and not answers(site):
            time.sleep(0.1)
        photograph(site)
    finally:
        server.terminate()
        server.wait()
    return 0


if __name__ == "__main__":
    sys.exit(main())
