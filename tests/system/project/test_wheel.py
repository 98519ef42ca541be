"""The wheel as a user gets it: what it holds, and what works in an environment that has nothing else."""

from __future__ import annotations

import json
import os
import platform
import re
import shutil
import signal
import subprocess
import sys
import zipfile
from pathlib import Path
from urllib.request import urlopen

import pytest

from penstock.base.version import __version__

ROOT = Path(__file__).resolve().parents[3]
PACKAGE = ROOT / "src/penstock"
MAX_WHEEL_BYTES = 12_000_000
QUIET = ["--disable-pip-version-check", "--no-input", "--progress-bar", "off", "--retries", "1"]
NO_INDEX = re.compile(
    r"NewConnectionError|name resolution|Network is unreachable|Connection refused|ConnectTimeout|ProxyError|"
    r"Max retries exceeded|Read timed out|Could not fetch URL"
)
"""What pip says where it reaches no package index."""


def tools() -> dict[str, str]:
    """The environment of a build: this interpreter's programs (maturin) first, and cargo where rustup puts it."""
    cargo = Path(os.environ.get("CARGO_HOME", Path.home() / ".cargo")) / "bin"
    path = [str(Path(sys.executable).parent), os.environ["PATH"], str(cargo)]
    return {**os.environ, "PATH": os.pathsep.join(path)}


@pytest.fixture(scope="module")
def wheel(tmp_path_factory) -> Path:
    """The wheel of this tree, built by pip with the cargo target of `make setup`."""
    environ = tools()
    for program in ("cargo", "maturin", "cc"):
        if not shutil.which(program, path=environ["PATH"]):
            pytest.skip(f"{program} is not installed: the wheel cannot be built")
    engine = PACKAGE / "_engine.abi3.so"
    before = engine.stat()
    found = built(ROOT, tmp_path_factory.mktemp("wheel"), environ)
    after = engine.stat()
    unchanged = (after.st_ino, after.st_size, after.st_mtime_ns) == (before.st_ino, before.st_size, before.st_mtime_ns)
    assert unchanged, "building a wheel wrote the engine of the source tree"
    return found


@pytest.fixture(scope="module")
def client_wheel(wheel, tmp_path_factory) -> Path:
    """The wheel of the client, a distribution of its own."""
    return built(ROOT / "crates/penstock-client-py", tmp_path_factory.mktemp("client-wheel"), tools())


def built(project: Path, folder: Path, environ: dict[str, str]) -> Path:
    """The wheel that pip builds of a project."""
    done = subprocess.run(
        [sys.executable, "-m", "pip", "wheel", *QUIET, "--no-deps", "--no-build-isolation", "-w", folder, project],
        env=environ,
        cwd=folder,
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        timeout=600,
        check=False,
    )
    assert done.returncode == 0, done.stdout + done.stderr
    (found,) = folder.glob("*.whl")
    return found


class Installed:
    """An environment made from an interpreter: its programs run with nothing else on PATH, in an empty folder."""

    def __init__(self, folder: Path, python: str) -> None:
        done = subprocess.run(
            [python, "-I", "-m", "venv", "--without-pip", folder / "venv"], capture_output=True, text=True, check=False
        )
        assert done.returncode == 0, done.stdout + done.stderr
        self.bin = folder / "venv/bin"
        # The interpreter's own pip: to install another one takes longer than the rest.
        self._pip = [python, "-m", "pip", "--python", self.bin / "python"]
        self.home = folder / "home"
        self.home.mkdir()
        self.environ = {"PATH": str(self.bin), "HOME": str(self.home), "LANG": "C.UTF-8", "PYTHONUNBUFFERED": "1"}

    def install(self, *what: str) -> None:
        """Let pip install; a skip where it reaches no package index, a failure where anything else is wrong."""
        done = subprocess.run(
            [*self._pip, "install", *QUIET, "--no-compile", "--only-binary=:all:", *what],
            env={name: value for name, value in os.environ.items() if not name.startswith("PYTHON")},
            cwd=self.home,
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            timeout=600,
            check=False,
        )
        said = done.stdout + done.stderr
        forbidden = "PIP_NO_INDEX" in os.environ and "No matching distribution" in said
        if done.returncode and (forbidden or NO_INDEX.search(said)):
            pytest.skip("pip reaches no package index: an installed wheel cannot be tried")
        assert done.returncode == 0, said

    def run(self, *argv: str) -> subprocess.CompletedProcess[str]:
        command = [str(self.bin / argv[0]), *argv[1:]]
        return subprocess.run(
            command, env=self.environ, cwd=self.home, stdin=subprocess.DEVNULL, capture_output=True, text=True,
            timeout=120, check=False,
        )  # fmt: skip

    def rows(self, *argv: str) -> list[dict[str, object]]:
        """The rows that a command prints with `--format json`."""
        done = self.run(*argv, "--format", "json")
        assert (done.returncode, done.stderr) == (0, ""), done.stderr
        return json.loads(done.stdout)


@pytest.fixture(scope="module")
def installed(wheel, tmp_path_factory) -> Installed:
    """The wheel in an environment of the running interpreter, with the extras of notebooks and of the explorer."""
    environment = Installed(tmp_path_factory.mktemp("installed"), sys.executable)
    environment.install(f"{wheel}[explore,notebook]")
    return environment


def names_in(wheel: Path) -> set[str]:
    with zipfile.ZipFile(wheel) as archive:
        return set(archive.namelist())


def test_its_name_says_one_build_for_every_supported_cpython(wheel):
    name = rf"penstock-{re.escape(__version__)}-cp310-abi3-(linux|manylinux\w+)_{platform.machine()}\.whl"
    assert re.fullmatch(name, wheel.name), wheel.name


def test_it_is_small_enough_to_download(wheel):
    assert wheel.stat().st_size <= MAX_WHEEL_BYTES


def test_it_holds_the_engine_and_every_file_of_the_package_and_nothing_else(wheel):
    files = (path for path in PACKAGE.rglob("*") if path.is_file() and "__pycache__" not in path.parts)
    expected = {path.relative_to(PACKAGE.parent).as_posix() for path in files if path.suffix not in (".so", ".pyc")}
    described = {name for name in names_in(wheel) if name.startswith(f"penstock-{__version__}.dist-info/")}
    assert names_in(wheel) - described == expected | {"penstock/_engine.abi3.so"}


@pytest.mark.parametrize(
    "name",
    [
        "penstock/_engine.pyi",
        "penstock/py.typed",
        "penstock/front/cli/commands.json",
        "penstock/front/explorer/static/index.html",
        "penstock/front/explorer/static/main.js",
        "penstock/front/explorer/static/page.css",
        "penstock/scheme/machines/data/machines/sharp.toml",
        "penstock/scheme/machines/data/tiers/pcie5.toml",
        "penstock/scheme/params/data/sharp.toml",
        "penstock/program/workloads/parts/weights/cnn-ci.npz",
        f"penstock-{__version__}.dist-info/licenses/LICENSE",
    ],
)
def test_it_holds_what_the_commands_read(wheel, name):
    assert name in names_in(wheel)


def test_it_holds_no_tests_no_twins_and_no_rust_sources(wheel):
    alien = re.compile(r"(^|/)(tests?|twins|crates|target)/|\.rs$|/Cargo\.|(^|/)test_[^/]*\.py$|__pycache__")
    assert [name for name in names_in(wheel) if alien.search(name)] == []


def test_the_client_is_a_wheel_of_its_own_and_penstocks_holds_none_of_it(wheel, client_wheel):
    name = rf"penstock_client-{re.escape(__version__)}-cp310-abi3-(linux|manylinux\w+)_{platform.machine()}\.whl"
    assert re.fullmatch(name, client_wheel.name), client_wheel.name
    modules = {name for name in names_in(client_wheel) if ".dist-info/" not in name}
    files = ("__init__.py", "_client.abi3.so", "_client.pyi", "py.typed")
    assert modules == {f"penstock_client/{name}" for name in files}
    marks = {
        each: b"PSTKSEC\n" in zipfile.ZipFile(each).read(extension)  # the first bytes of a file of a secret key
        for each, extension in ((wheel, "penstock/_engine.abi3.so"), (client_wheel, "penstock_client/_client.abi3.so"))
    }
    assert marks == {wheel: False, client_wheel: True}


def test_the_studies_are_a_wheel_of_their_own_with_every_file_of_their_package(tmp_path):
    wheel = built(ROOT / "studies", tmp_path, tools())
    assert wheel.name == f"penstock_studies-{__version__}-py3-none-any.whl"
    package = ROOT / "studies/penstock_studies"
    files = (path for path in package.rglob("*") if path.is_file() and path.suffix != ".pyc")
    modules = {name for name in names_in(wheel) if ".dist-info/" not in name}
    assert modules == {path.relative_to(package.parent).as_posix() for path in files}
    assert f"penstock_studies-{__version__}.dist-info/entry_points.txt" in names_in(wheel)


class TestInstalled:
    def test_the_environment_has_no_compiler_and_no_openfhe(self, installed):
        assert [shutil.which(program, path=str(installed.bin)) for program in ("cargo", "cc", "maturin")] == [None] * 3
        asked = installed.run("python", "-c", "import importlib.util as u; print(u.find_spec('openfhe'))")
        assert asked.stdout == "None\n", asked.stderr

    def test_without_the_studies_reproduce_says_how_to_get_them(self, installed):
        asked = installed.run("penstock", "reproduce", "io-study")
        assert asked.returncode == 3
        assert "pip install ./studies" in asked.stderr

    def test_python_takes_penstock_from_the_wheel(self, installed):
        asked = installed.run("python", "-c", "import penstock._engine as e; print(e.__file__)")
        assert Path(asked.stdout.strip()).is_relative_to(installed.bin.parent), asked.stderr

    def test_the_doctor_names_no_makefile(self, installed):
        rows = installed.rows("penstock", "doctor")
        remedies = {row["check"]: row["remedy"] for row in rows if row["status"] == "missing"}
        assert "pip install 'penstock[openfhe]'" in remedies["openfhe"]
        assert [remedy for remedy in remedies.values() if "make " in remedy] == []

    def test_a_simulation_gives_a_row(self, installed):
        sharp = ["--params", "sharp", "--machine", "sharp", "--tier", "pcie5"]
        (row,) = installed.rows("penstock", "simulate", "inner-product", *sharp)
        assert (row["machine"], row["tier"]) == ("sharp", "pcie5")
        assert row["total_s"] > row["compute_s"] > 0

    def test_a_prediction_gives_the_same_row_as_the_source_tree(self, installed):
        asked = ["predict", "run", "inner-product", "--params", "sharp", "--machine", "sharp"]
        rows = installed.rows("penstock", *asked)
        here = "import sys; from penstock.front.cli.main import main; sys.exit(main())"
        done = subprocess.run(
            [sys.executable, "-c", here, *asked, "--format", "json"],
            cwd=installed.home, capture_output=True, text=True, timeout=120, check=True,
        )  # fmt: skip
        assert rows == json.loads(done.stdout)

    def test_the_python_interface_gives_a_table_of_one_row(self, installed):
        program = (
            "import penstock as ps; "
            "print(ps.simulate('inner-product', 'sharp', 'pcie5', params='sharp').to_pandas().shape)"
        )
        done = installed.run("python", "-W", "error", "-c", program)
        assert re.fullmatch(r"\(1, \d+\)\n", done.stdout), done.stderr

    def test_the_explorer_serves_its_page_and_its_views(self, installed):
        command = [str(installed.bin / "penstock"), "explore", "--port", "0", "--no-browser"]
        with subprocess.Popen(
            command, env=installed.environ, cwd=installed.home, stdin=subprocess.DEVNULL, text=True,
            stdout=subprocess.PIPE, stderr=subprocess.PIPE,
        ) as server:  # fmt: skip
            try:
                address = server.stdout.readline().strip()
                assert re.fullmatch(r"http://127\.0\.0\.1:\d+/", address), server.stderr.read()
                with urlopen(address, timeout=30) as page:
                    assert b"penstock" in page.read()
                with urlopen(f"{address}api/view/whatif?workload=inner-product", timeout=60) as view:
                    assert json.load(view)["name"] == "whatif"
                server.send_signal(signal.SIGINT)
                out, err = server.communicate(timeout=30)
            finally:
                server.kill()
        assert (server.returncode, out, err) == (0, "", "")


def test_the_newest_other_cpython_of_this_machine_runs_the_same_wheels_and_encrypts(wheel, client_wheel, tmp_path):
    root = Path(os.environ.get("PYENV_ROOT", Path.home() / ".pyenv"))
    found = [re.fullmatch(r"3\.(1[0-3])\.(\d+)", path.name) for path in root.glob("versions/3.1[0-3]*")]
    others = [(int(version[1]), version[0]) for version in found if version and int(version[1]) != sys.version_info[1]]
    if not others:
        pytest.skip(f"{root} has no other CPython from 3.10 to 3.13")
    environment = Installed(tmp_path, str(root / "versions" / max(others)[1] / "bin/python3"))
    environment.install(str(wheel), str(client_wheel))
    sharp = ["--params", "sharp", "--machine", "sharp", "--tier", "pcie5"]
    (row,) = environment.rows("penstock", "simulate", "inner-product", *sharp)
    assert row["total_s"] > row["compute_s"] > 0
    done = environment.run("penstock", "run", "matrix-multiplication", "--size", "ci", "-q", "--format", "json")
    assert done.returncode == 0, done.stderr
    found = json.loads(done.stdout)
    assert (found["passed"], found["client_library"]) == (True, "penstock")
