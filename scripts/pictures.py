"""The pictures of the documentation that are photographs of a page: the explorer's views and a report, in Chromium.

make pictures          writes docs/images/*.png again, from runs/demo (`make demo`) and small runs made for it (minutes)
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
WIDTH, HEIGHT = 1280, 620
MOST_BYTES = 300_000
COLOURS = 64  # of a picture's palette: flat drawings lose nothing, and the file is a quarter as large
BROWSERS = ("chromium", "chromium-browser", "google-chrome-stable", "google-chrome")
HELR = "workload=logistic-regression&machine=sharp"
VIEWS = {
    "explorer-whatif": f"?view=whatif&{HELR}",
    "explorer-slowdown": f"?view=slowdown&{HELR}",
    "explorer-roofline": f"?view=roofline&{HELR}",
    "explorer-residency": "?view=residency&workload=inner-product&machine=sharp&policy=belady",
    "explorer-hosts": f"?view=hosts&{HELR}&hosts=8",
    "explorer-drive": "?view=drive",
    "explorer-machines": f"?view=machines&{HELR}&other=a100-tensorfhe",
    "explorer-predict": f"?view=predict&{HELR}",
    "explorer-suggest": f"?view=suggest&{HELR}",
    "explorer-precision": "?view=precision&workload=inner-product&params=openfhe-demo",
    "explorer-tenants": f"?view=tenants&{HELR}&tier=pcie5&hold=cache&cache=2 GB&mode=overlap",
    "explorer-levels": f"?view=levels&{HELR}&tier=nvme-gen5&mode=overlap",
    "explorer-sweep": "?view=sweep&x=cache",
    "explorer-sweep-map": "?view=sweep&shape=map&x=cache_bytes&y=tier&z=slowdown",
    "explorer-designs": "?view=designs",
    "explorer-bench": "?view=bench",
    "explorer-runs": "?view=runs",
    "explorer-run": "?view=run&run=demo",
    "explorer-compare": "?view=compare&run=one&other_run=two",
    "explorer-measured": "?view=measured&run=demo",
    "explorer-validation": "?view=validation",
}
SWEEP = """
name = "caches-and-tiers"
workload = "logistic-regression"
params = "native"
machine = ["sharp", "ark"]
tier = ["hbm", "ddr5", "pcie5", "rdma"]
cache = ["64 MB", "128 MB", "256 MB", "512 MB", "1 GB"]
policy = ["lru", "belady"]
mode = ["serial", "overlap"]
"""
BENCH = """
[timing]
min_time = "20 ms"
runs = 5
[[primitives]]
items = ["add", "mult", "mult_plain", "rotate", "rescale", "relinearize"]
ring_dim = ["2^12", "2^13"]
depth = 6
threads = 1
"""


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
    size = path.stat().st_size
    print(f"{path.relative_to(ROOT)}: {size} bytes")
    if size > MOST_BYTES:
        sys.exit(f"{path} has {size} bytes, and a picture of the documentation has at most {MOST_BYTES}")


def photograph(site: str, names: list[str]) -> None:
    from playwright.sync_api import sync_playwright

    path = next(found for name in BROWSERS if (found := shutil.which(name)))
    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=path, headless=True, args=["--no-sandbox"])
        page = browser.new_page(viewport={"width": WIDTH, "height": HEIGHT}, color_scheme="light")
        for name, query in VIEWS.items():
            if names and name not in names:
                continue
            page.goto(f"{site}/{query}")
            page.wait_for_selector('body[data-state="ready"]')
            problem = page.locator("#error").inner_text()
            if problem:
                sys.exit(f"{name}: {problem}")
            keep(name, page.screenshot())
        page.goto((RUN / "report.html").as_uri())
        keep("report-page", page.screenshot())
        browser.close()


def main(names: list[str]) -> int:
    if not (RUN / "report.html").is_file():
        print(f"{RUN} has no report: run `make demo` first", file=sys.stderr)
        return 2
    with tempfile.TemporaryDirectory() as folder:  # the page names the folder of its runs
        runs = Path(folder) / "runs"
        make_runs(runs)
        shutil.copytree(RUN, runs / RUN.name)
        return photograph_all(runs, names)


def penstock(*words: str, cwd: Path) -> str:
    """What the command prints."""
    command = [str(Path(sys.executable).with_name("penstock")), *words]
    return subprocess.run(command, cwd=cwd, check=True, stdout=subprocess.PIPE, text=True).stdout


def make_runs(runs: Path) -> None:
    """A sweep, two benchmark runs, two analyses and a validation: all real, all small."""
    runs.mkdir()
    for name, text in (("sweep", SWEEP), ("bench", BENCH)):
        (runs.parent / f"{name}.toml").write_text(text)
    penstock("sweep", "sweep.toml", "-o", "runs/caches-and-tiers", "--quiet", cwd=runs.parent)
    for name in ("bench-monday", "bench-tuesday", "bench-wednesday"):
        penstock("bench", "run", "--suite", "bench.toml", "-o", f"runs/{name}", "--quiet", cwd=runs.parent)
    for name, seed in (("one", "0"), ("two", "1")):
        penstock("analyze", "inner-product", "--size", "ci", "--seed", seed, "-o", f"runs/{name}", cwd=runs.parent)
    found = penstock("predict", "validate", "--skip-bad", "--format", "json", cwd=runs.parent)
    (runs.parent / "validation.json").write_text(found)


def photograph_all(runs: Path, names: list[str]) -> int:
    port = free_port()
    site = f"http://127.0.0.1:{port}"
    command = [str(Path(sys.executable).with_name("penstock")), "explore", "--runs", "runs", "--port", str(port)]
    server = subprocess.Popen([*command, "--predictions", "validation.json", "--no-browser"], cwd=runs.parent)
    try:
        while server.poll() is None and not answers(site):
            time.sleep(0.1)
        photograph(site, names)
    finally:
        server.terminate()
        server.wait()
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
