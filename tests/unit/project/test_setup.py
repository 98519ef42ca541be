"""The set-up script's choices, on interpreters and compilers that are small shell scripts."""

from __future__ import annotations

import importlib.util
import re
import sys
from pathlib import Path

import pytest

from penstock.base.system import probe, toml

ROOT = Path(__file__).resolve().parents[3]


@pytest.fixture(scope="module")
def bootstrap():
    spec = importlib.util.spec_from_file_location("penstock_bootstrap", ROOT / "scripts/bootstrap.py")
    module = importlib.util.module_from_spec(spec)
    sys.modules[spec.name] = module
    spec.loader.exec_module(module)
    return module


@pytest.fixture
def no_other_python(bootstrap, monkeypatch, tmp_path):
    """Only the interpreters that a test puts into `tmp_path / "bin"`."""
    everything = bootstrap.candidates
    inside = f"{tmp_path}/"
    monkeypatch.setattr(
        bootstrap, "candidates", lambda environ, home: [p for p in everything(environ, home) if p.startswith(inside)]
    )
    monkeypatch.delenv("PENSTOCK_PYTHON", raising=False)
    monkeypatch.setenv("PATH", f"{tmp_path / 'bin'}:/usr/bin:/bin")
    monkeypatch.setenv("HOME", str(tmp_path / "home"))
    for name in ("PYENV_ROOT", "UV_PYTHON_INSTALL_DIR", "XDG_DATA_HOME"):
        monkeypatch.delenv(name, raising=False)


def script(path: Path, text: str) -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(f"#!/bin/sh\n{text}\n")
    path.chmod(0o755)
    return path


def python(path: Path, version: tuple[int, int, int], implementation: str = "CPython", has_venv: str = "true") -> Path:
    answer = f'["{path}", [{version[0]}, {version[1]}, {version[2]}], "{implementation}", {has_venv}]'
    return script(path, f"echo '{answer}'")


@pytest.mark.usefixtures("no_other_python")
class TestWhichPython:
    def test_a_shim_that_only_prints_an_error_is_passed_over_for_the_one_in_pyenvs_folder(self, bootstrap, tmp_path):
        shim = script(tmp_path / "bin/python3.10", "echo 'pyenv: python3.10: command not found' >&2; exit 127")
        real = python(tmp_path / "home/.pyenv/versions/3.10.13/bin/python3.10", (3, 10, 13))
        refused: dict[str, str] = {}
        found = bootstrap.interpreters(True, refused)
        assert [interpreter.path for interpreter in found] == [str(real)]
        assert refused == {str(shim): "is no Python: pyenv: python3.10: command not found"}

    def test_one_that_uv_manages_is_found(self, bootstrap, tmp_path):
        path = tmp_path / "home/.local/share/uv/python/cpython-3.12.9-linux-x86_64-gnu/bin/python3.12"
        python(path, (3, 12, 9))
        assert [interpreter.path for interpreter in bootstrap.interpreters(True, {})] == [str(path)]

    def test_with_openfhe_only_versions_with_a_wheel_are_tried_and_3_10_first(self, bootstrap, tmp_path):
        for minor in (9, 10, 11, 12, 13, 14):
            python(tmp_path / f"bin/python3.{minor}", (3, minor, 1))
        python(tmp_path / "bin/python3", (3, 14, 1))
        refused: dict[str, str] = {}
        assert [i.minor for i in bootstrap.interpreters(True, refused)] == [(3, 10), (3, 12)]
        assert "OpenFHE's wheels hold the extension module for CPython 3.10, 3.12 only" in "".join(refused.values())

    def test_without_openfhe_every_supported_version_serves_and_the_newest_first(self, bootstrap, tmp_path):
        for minor in (10, 11, 12, 13):
            python(tmp_path / f"bin/python3.{minor}", (3, minor, 1))
        assert [i.minor[1] for i in bootstrap.interpreters(False, {})] == [13, 12, 11, 10]

    def test_the_same_interpreter_under_two_names_is_tried_once(self, bootstrap, tmp_path):
        real = python(tmp_path / "bin/python3.10", (3, 10, 13))
        (tmp_path / "bin/python3").symlink_to(real)
        assert len(bootstrap.interpreters(True, {})) == 1

    def test_a_named_interpreter_is_the_only_one_tried(self, bootstrap, tmp_path, monkeypatch):
        python(tmp_path / "bin/python3.10", (3, 10, 13))
        monkeypatch.setenv("PENSTOCK_PYTHON", str(python(tmp_path / "other/python3.11", (3, 11, 7))))
        refused: dict[str, str] = {}
        assert bootstrap.interpreters(True, refused) == []
        error = bootstrap.no_python(refused, True)
        assert "PENSTOCK_PYTHON=" in str(error)
        assert "is CPython 3.11: OpenFHE's wheels" in str(error)
        assert "WITHOUT_OPENFHE=1" in error.remedy
        assert error.exit_code == 3

    @pytest.mark.parametrize(
        ("implementation", "has_venv", "reason"),
        [("PyPy", "true", "needs CPython"), ("CPython", "false", "apt install python3.10-venv")],
    )
    def test_one_that_cannot_serve_says_why(self, bootstrap, tmp_path, implementation, has_venv, reason):
        path = python(tmp_path / "bin/python3.10", (3, 10, 13), implementation, has_venv)
        refused: dict[str, str] = {}
        assert bootstrap.interpreters(True, refused) == []
        assert reason in refused[str(path)]

    def test_on_a_machine_without_python_the_remedies_are_all_named(self, bootstrap):
        error = bootstrap.no_python({}, True)
        assert all(word in error.remedy for word in ("uv python install 3.10", "pyenv install 3.10", "apt install"))


class TestRust:
    @pytest.fixture
    def only(self, tmp_path, monkeypatch):
        monkeypatch.setenv("PATH", str(tmp_path / "bin"))
        monkeypatch.setenv("CARGO_HOME", str(tmp_path / "cargo"))
        return tmp_path / "bin"

    def test_without_cargo_the_remedy_is_rustup(self, bootstrap, only):
        with pytest.raises(bootstrap.SetupError, match="needs cargo") as error:
            bootstrap.rust_environment()
        assert "rustup" in error.value.remedy

    def test_1_88_is_too_old_and_1_89_is_not(self, bootstrap, only):
        script(only / "cargo", "true")
        script(only / "cc", "true")
        script(only / "rustc", "echo 'rustc 1.88.0 (abc 2025-06-23)'")
        with pytest.raises(bootstrap.SetupError, match=r"1\.89 or newer; rustc 1\.88\.0"):
            bootstrap.rust_environment()
        script(only / "rustc", "echo 'rustc 1.89.0 (abc 2025-08-04)'")
        assert bootstrap.rust_environment()["PATH"].startswith(str(only))

    def test_rustups_folder_is_searched_where_a_shell_does_not_have_it_on_its_path(self, bootstrap, only, tmp_path):
        script(only / "cc", "true")
        for name in ("cargo", "rustc"):
            script(tmp_path / "cargo/bin" / name, "echo 'rustc 1.95.0 (abc 2026-03-21)'")
        assert bootstrap.rust_environment()["PATH"].endswith(str(tmp_path / "cargo/bin"))

    def test_without_a_linker_the_remedy_is_a_compiler(self, bootstrap, only):
        script(only / "cargo", "true")
        script(only / "rustc", "echo 'rustc 1.95.0 (abc 2026-03-21)'")
        with pytest.raises(bootstrap.SetupError, match="no cc") as error:
            bootstrap.rust_environment()
        assert "build-essential" in error.value.remedy


class TestCore:
    def test_a_missing_compiler_is_told_before_anything_is_downloaded(self, bootstrap, tmp_path, monkeypatch):
        def missing():
            raise bootstrap.SetupError("the Rust core needs cargo", bootstrap.RUST_LINE)

        steps = []
        monkeypatch.setattr(bootstrap, "rust_environment", missing)
        monkeypatch.setattr(bootstrap.Setup, "make_venv", lambda self: steps.append("venv"))
        setup = bootstrap.Setup(openfhe=False, docs=False, verbose=False)
        setup.stamps = tmp_path
        with pytest.raises(bootstrap.SetupError, match="needs cargo"):
            setup.run()
        assert steps == []

    def test_object_stores_are_built_in_on_request_and_out_without_it(self, bootstrap, tmp_path, monkeypatch):
        builds = []
        monkeypatch.setattr(bootstrap.Setup, "command", lambda self, argv, *rest: builds.append(argv))
        monkeypatch.setattr(bootstrap.Setup, "_engine_is_there", lambda self: True)
        monkeypatch.setattr(bootstrap, "rust_environment", lambda: {"PATH": ""})
        with_s3 = []
        for s3 in (False, False, True, True, False):
            setup = bootstrap.Setup(openfhe=False, docs=False, verbose=False, s3=s3)
            setup.stamps = tmp_path
            builds.clear()
            setup.build_core()
            with_s3.append([argument for argv in builds for argument in argv if "s3" in argument] if builds else None)
        assert with_s3 == [[], None, ["build-args=--features=s3"], None, []]

    def test_without_a_python_for_openfhe_the_set_up_goes_on_without_it(self, bootstrap, tmp_path, monkeypatch, capsys):
        """And the next one keeps what was made, instead of beginning anew."""
        newest = bootstrap.Interpreter("/usr/bin/python3.13", (3, 13, 1), "CPython", True)

        def interpreters(openfhe, refused):
            if openfhe:
                refused["/usr/bin/python3.13"] = "is CPython 3.13"
            return [] if openfhe else [newest]

        def make(self, argv, *rest):
            self.venv.joinpath("pyvenv.cfg").touch()
            self.venv.joinpath("bin").mkdir()
            script(self.venv / "bin/python", "")

        monkeypatch.setattr(bootstrap, "interpreters", interpreters)
        monkeypatch.setattr(bootstrap, "ask", lambda path: newest)
        monkeypatch.setattr(bootstrap.Setup, "command", make)
        monkeypatch.delenv("PENSTOCK_PYTHON", raising=False)
        for made in (True, False):
            setup = bootstrap.Setup(openfhe=True, docs=False, verbose=False)
            setup.venv, setup.stamps, setup.python = tmp_path / "v", tmp_path / "v/s", str(tmp_path / "v/bin/python")
            setup.make_venv()
            assert (setup.openfhe, setup.worked) == (False, made)
        said = capsys.readouterr().err
        assert "set-up goes on without it: penstock's own client encrypts" in said
        assert "is CPython 3.13" in said

    def test_the_client_is_built_once_and_again_when_a_crate_changes(self, bootstrap, tmp_path, monkeypatch):
        builds = []
        monkeypatch.setattr(bootstrap, "CLIENT", tmp_path)
        (tmp_path / "pyproject.toml").touch()
        (tmp_path / "lib/python3.10/site-packages/penstock_client").mkdir(parents=True)
        monkeypatch.setattr(bootstrap.Setup, "command", lambda self, argv, *rest: builds.append(argv[-1]))
        monkeypatch.setattr(bootstrap, "rust_environment", lambda: {"PATH": ""})
        for digest in ("one", "one", "two"):
            monkeypatch.setattr(bootstrap.Setup, "_core_digest", lambda self, digest=digest: digest)
            setup = bootstrap.Setup(openfhe=False, docs=False, verbose=False)
            setup.venv = setup.stamps = tmp_path
            setup.build_client()
        assert builds == [str(tmp_path)] * 2

    def test_the_studies_are_installed_once_and_again_when_their_project_changes(
        self, bootstrap, tmp_path, monkeypatch
    ):
        builds = []
        monkeypatch.setattr(bootstrap, "STUDIES", tmp_path)
        monkeypatch.setattr(bootstrap, "ROOT", tmp_path)
        monkeypatch.setattr(bootstrap.Setup, "command", lambda self, argv, *rest: builds.append(argv[-2:]))
        monkeypatch.setattr(bootstrap, "rust_environment", lambda: {"PATH": ""})
        (tmp_path / "lib/python3.10/site-packages/penstock_studies").mkdir(parents=True)
        for text in ("one", "one", "two"):
            (tmp_path / "pyproject.toml").write_text(text)
            setup = bootstrap.Setup(openfhe=False, docs=False, verbose=False)
            setup.venv = setup.stamps = tmp_path
            setup.install_studies()
        assert builds == [["-e", str(tmp_path)]] * 2

    def test_what_was_built_is_imported_once_and_built_again_where_that_fails(self, bootstrap, tmp_path, monkeypatch):
        setup = bootstrap.Setup(openfhe=False, docs=False, verbose=False)
        setup.stamps, tried = tmp_path, []
        monkeypatch.setattr(setup, "command", lambda argv, *rest: tried.append(argv[-1]))
        (tmp_path / "core.stamp").write_text("digest")
        for _ in range(2):
            setup.try_import("core", "penstock._engine")
        assert tried == ["import penstock._engine"]

        def fails(*_):
            raise bootstrap.SetupError("no", "remedy")

        monkeypatch.setattr(setup, "command", fails)
        (tmp_path / "core.stamp").write_text("other")
        with pytest.raises(bootstrap.SetupError, match="no"):
            setup.try_import("core", "penstock._engine")
        assert not (tmp_path / "core.stamp").exists()

    def test_the_builder_is_a_part_of_the_locked_packages(self, bootstrap, tmp_path, monkeypatch):
        setup, locks = bootstrap.Setup(openfhe=False, docs=False, verbose=False), []
        setup.stamps = tmp_path
        monkeypatch.setattr(setup, "pip_install", lambda name, lock, what: locks.append(lock.read_text()))
        setup.install_builder()
        lines = locks[0].splitlines()
        assert [line.split("==")[0] for line in lines if not line.startswith(" ")] == ["maturin", "tomli"]
        assert sum("--hash=sha256:" in line for line in lines) > 10
        assert set(lines) <= set(bootstrap.PACKAGES_LOCK.read_text().splitlines())


class TestRemedies:
    @pytest.mark.parametrize(
        ("output", "remedy"),
        [
            ("Retrying after connection broken by 'NewConnectionError(...)'", "PIP_INDEX_URL"),
            ("THESE PACKAGES DO NOT MATCH THE HASHES FROM THE REQUIREMENTS FILE", "other files"),
            ("ERROR: No matching distribution found for numpy==2.2.6", "no wheel for this Python"),
            ("OSError: [Errno 28] No space left on device", "free about 2 GB"),
            ("[SSL: CERTIFICATE_VERIFY_FAILED]", "ca-certificates"),
        ],
    )
    def test_pip(self, bootstrap, output, remedy):
        assert remedy in bootstrap.pip_remedy(output)

    @pytest.mark.parametrize(
        ("output", "remedy"),
        [
            ("error: failed to download from index\nCould not resolve host: example", ".cargo/config.toml"),
            ("cannot update the lock file Cargo.lock because --locked was passed", "cargo update"),
            ("error: linker `cc` not found", "build-essential"),
            ("process didn't exit successfully (signal: 9, SIGKILL: kill)", "CARGO_BUILD_JOBS=1"),
            ("error[E0425]: cannot find value", "make clean setup"),
        ],
    )
    def test_cargo(self, bootstrap, output, remedy):
        assert remedy in bootstrap.build_remedy(output)


class TestLocks:
    """The files that the set-up installs from."""

    LOCKS = ("dev.txt", "docs.txt", "openfhe.txt")

    @pytest.mark.parametrize("name", LOCKS)
    def test_every_requirement_is_exact_and_has_a_hash(self, name):
        text = (ROOT / "requirements" / name).read_text().replace("\\\n", "")
        requirements = [line for line in text.splitlines() if line.strip() and not line.startswith("#")]
        assert len(requirements) >= 3
        assert [
            line for line in requirements if not re.match(r"[a-z0-9-]+==\S+.*--hash=sha256:[0-9a-f]{64}", line)
        ] == []

    @pytest.mark.parametrize("name", LOCKS)
    def test_no_index_and_no_path_is_named(self, name):
        assert re.findall(r"://|--index|--find-links|\s/\S+", (ROOT / "requirements" / name).read_text()) == []

    def test_the_pins_of_openfhe_agree_wherever_they_stand(self):
        written = (ROOT / "requirements/openfhe.in").read_text()
        pins = dict(re.findall(r"^openfhe==(\S+) ; python_version == '([\d.]+)'$", written, re.MULTILINE))
        locked = set(re.findall(r"^openfhe==(\S+)", (ROOT / "requirements/openfhe.txt").read_text(), re.MULTILINE))
        extra = toml.loads((ROOT / "pyproject.toml").read_text())["project"]["optional-dependencies"]["openfhe"]
        assert {(int(v.split(".")[0]), int(v.split(".")[1])): pin for pin, v in pins.items()} == probe.WHEELS
        assert locked == set(pins)
        assert extra == [line for line in written.splitlines() if line.startswith("openfhe==")]
