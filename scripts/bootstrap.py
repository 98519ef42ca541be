"""Set-up from a fresh clone: find a Python, make .venv, install the locked packages, build the Rust core.

Standard library only, any Python from 3.8 on. Each step is skipped when what it depends on has not changed (stamps in
`.venv/.penstock/`). A step that fails says why and what to do, and the next run goes on from there.

Exit codes: 0 done, 1 a step failed, 3 something is missing on this machine.
"""

from __future__ import annotations

import argparse
import hashlib
import importlib.util
import json
import os
import re
import shutil
import subprocess
import sys
import time
from collections.abc import Iterable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any, NamedTuple

ROOT = Path(__file__).resolve().parent.parent
SUPPORTED = ((3, 10), (3, 11), (3, 12), (3, 13))
"""CPython versions that penstock runs on; OpenFHE has wheels for some of them (penstock.base.system.probe.WHEELS)."""
CLIENT = ROOT / "crates/penstock-client-py"
"""The project of the client's extension module: a distribution of its own, which nothing that serves needs."""
STUDIES = ROOT / "studies"
"""The project of the three papers' studies: plain Python, installed so that edits count at once."""
PACKAGES_LOCK = ROOT / "requirements/dev.txt"
BUILDER = "maturin|tomli"
OPENFHE_LOCK = ROOT / "requirements/openfhe.txt"
MIN_RUST = (1, 89)
"""AVX-512 intrinsics are stable from this version on."""
RUST_LINE = "curl --proto '=https' --tlsv1.2 -sSf https://sh.rustup.rs | sh    (or, where rustup is: rustup update)"

_spec = importlib.util.spec_from_file_location("penstock_probe", ROOT / "src/penstock/base/system/probe.py")
assert _spec is not None
assert _spec.loader is not None
probe: Any = importlib.util.module_from_spec(_spec)
sys.modules["penstock_probe"] = probe
_spec.loader.exec_module(probe)


class SetupError(Exception):
    """A step that cannot be done; `remedy` says what to do about it."""

    def __init__(self, message: str, remedy: str, exit_code: int = 3) -> None:
        super().__init__(message)
        self.remedy = remedy
        self.exit_code = exit_code


class Interpreter(NamedTuple):
    """A Python that ran and said what it is."""

    path: str
    version: tuple[int, int, int]
    implementation: str
    has_venv: bool

    @property
    def minor(self) -> tuple[int, int]:
        return self.version[:2]

    def __str__(self) -> str:
        return "{} (CPython {}.{}.{})".format(self.path, *self.version)


# --- Which Python ------------------------------------------------------------------------------------------------


def candidates(environ: dict[str, str], home: Path) -> list[str]:
    """Paths that may be a Python, in the order in which they are tried: PATH, pyenv, uv, the system's."""
    names = ["python{}.{}".format(*version) for version in preferred(True)] + ["python3"]
    folders = [Path(folder) for folder in environ.get("PATH", "").split(os.pathsep) if folder]
    folders += sorted(Path(environ.get("PYENV_ROOT", home / ".pyenv")).glob("versions/*/bin"))
    data = Path(environ.get("XDG_DATA_HOME", home / ".local/share"))
    folders += sorted(Path(environ.get("UV_PYTHON_INSTALL_DIR", data / "uv/python")).glob("*/bin"))
    folders += [Path("/usr/local/bin"), Path("/usr/bin")]
    inside = str(ROOT / ".venv")
    found = [str(folder / name) for name in names for folder in folders if os.access(folder / name, os.X_OK)]
    return list(dict.fromkeys(path for path in found if not path.startswith(inside)))


def preferred(openfhe: bool) -> list[tuple[int, int]]:
    """Versions in order of preference: with OpenFHE its wheels' first; without it the newest first."""
    if openfhe:
        return sorted(SUPPORTED, key=lambda version: (version not in probe.WHEELS, version))
    return sorted(SUPPORTED, reverse=True)


def ask(path: str) -> Interpreter | str:
    """Run `path` and let it say what it is; the reason as text where it is no usable Python."""
    code = (
        "import sys, json, platform, importlib.util as u; print(json.dumps([sys.executable, sys.version_info[:3], "
        "platform.python_implementation(), all(u.find_spec(m) for m in ('venv', 'ensurepip'))]))"
    )
    try:
        done = subprocess.run(
            [path, "-I", "-c", code],
            stdin=subprocess.DEVNULL,
            capture_output=True,
            timeout=30,
            text=True,
            check=False,
        )
        executable, version, implementation, has_venv = json.loads(done.stdout)
        return Interpreter(executable or path, (version[0], version[1], version[2]), implementation, has_venv)
    except OSError as error:
        return f"cannot be started ({error.strerror or error})"
    except subprocess.TimeoutExpired:
        return "did not answer within 30 s"
    except (ValueError, TypeError):
        said = [line.strip() for line in done.stderr.splitlines() if line.strip()]
        return f"is no Python: {said[0]}" if said else f"is no Python: it ended with exit status {done.returncode}"


def unsuitable(interpreter: Interpreter, openfhe: bool) -> str | None:
    """Why this interpreter cannot serve, or `None`; whether OpenFHE's wheel really loads shows only in the import."""
    name = "CPython {}.{}".format(*interpreter.minor)
    if interpreter.implementation != "CPython":
        return f"is {interpreter.implementation}; penstock needs CPython"
    if interpreter.minor not in SUPPORTED:
        return f"is {name}; penstock supports {versions(SUPPORTED)}"
    if openfhe and interpreter.minor not in probe.WHEELS:
        return f"is {name}: OpenFHE's wheels hold the extension module for CPython {versions(probe.WHEELS)} only"
    if not interpreter.has_venv:
        return f"is {name} without the modules venv and ensurepip ('apt install python{name[8:]}-venv')"
    return None


def versions(which: Iterable[tuple[int, int]]) -> str:
    return ", ".join("{}.{}".format(*version) for version in sorted(which))


def interpreters(openfhe: bool, refused: dict[str, str]) -> Iterable[Interpreter]:
    """Interpreters worth trying, each once; those that are not go to `refused` with the reason."""
    chosen = os.environ.get("PENSTOCK_PYTHON")
    paths = [shutil.which(chosen) or chosen] if chosen else candidates(dict(os.environ), Path.home())
    found: list[Interpreter] = []
    seen: set[str] = set()
    for path in paths:
        answer = ask(path)
        if isinstance(answer, str):
            refused[path] = answer
            continue
        if os.path.realpath(answer.path) in seen:
            continue
        seen.add(os.path.realpath(answer.path))
        reason = unsuitable(answer, openfhe)
        if reason:
            refused[answer.path] = reason
        else:
            found.append(answer)
    order = preferred(openfhe)
    return sorted(found, key=lambda interpreter: order.index(interpreter.minor))


def no_python(refused: dict[str, str], openfhe: bool) -> SetupError:
    what = "that can import OpenFHE's wheel" if openfhe else "that penstock supports"
    chosen = os.environ.get("PENSTOCK_PYTHON")
    lines = [f"PENSTOCK_PYTHON={chosen} cannot serve:"] if chosen else [f"no Python was found {what}; tried:"]
    lines += [f"  {path} {reason}" for path, reason in refused.items()] or ["  (no python3 at all)"]
    remedies = [probe.get_python()]
    if any("libgomp" in reason for reason in refused.values()):
        remedies.insert(0, "'apt install libgomp1', then 'make setup'")
    if chosen:
        remedies.append("name another interpreter with PENSTOCK_PYTHON, or unset it to have one found")
    if openfhe:
        remedies.append("or 'make setup WITHOUT_OPENFHE=1', on CPython 3.10 to 3.13: penstock's own client encrypts")
    return SetupError("\n".join(lines), "\n        ".join(remedies))


# --- Steps ---------------------------------------------------------------------------------------------------------


class Setup:
    """The steps, in order; each leaves a stamp with the digest of what it was made from."""

    def __init__(self, *, openfhe: bool, docs: bool, verbose: bool, s3: bool = False) -> None:
        self.openfhe, self.docs, self.verbose = openfhe, docs, verbose
        self.wanted_openfhe = openfhe
        self.features = ["s3"] if s3 else []
        self.venv = ROOT / ".venv"
        self.stamps = self.venv / ".penstock"
        self.log = self.stamps / "setup.log"
        self.python = str(self.venv / "bin/python")
        self.worked = False

    def run(self) -> None:
        if not self._core_is_built():
            rust_environment()  # a compiler that is missing is told before minutes of downloads
        self.make_venv()
        self.install_builder()
        # pip takes one core and waits for the network: the compiler has the other.
        with ThreadPoolExecutor(1) as other:
            packages = other.submit(self.install_packages)
            self.build_core()
            self.build_client()
            packages.result()
        self.install_studies()
        for name, module in (("core", "penstock._engine"), ("client", "penstock_client")):
            self.try_import(name, module)
        started = json.loads((self.stamps / "python.json").read_text())
        with_openfhe = f", OpenFHE {started['openfhe']}" if started.get("openfhe") else ", without OpenFHE"
        state = "done" if self.worked else "up to date"
        say(f"set-up {state}: .venv has CPython {started['version']}{with_openfhe}")

    def make_venv(self) -> None:
        """`.venv` with an interpreter that really imports OpenFHE: the wheel goes in first, and is tried."""
        if self._venv_serves():
            return
        if self.venv.exists() and any(self.venv.iterdir()) and not self.stamps.exists():
            raise SetupError(
                f"{self.venv} exists, was not made by this script, and cannot serve: "
                f"it holds no CPython {versions(probe.WHEELS if self.openfhe else SUPPORTED)} with pip",
                "move it away or delete it, then again",
                exit_code=1,
            )
        refused: dict[str, str] = {}
        if self._made_with_one_of(refused):
            return
        if self.openfhe:
            self.openfhe = False
            if self._made_with_one_of({}):
                say("no Python here imports OpenFHE:")
                for path, reason in refused.items():
                    say(f"  {path} {reason}")
                say("set-up goes on without it: penstock's own client encrypts, and its evaluator computes;")
                say("the openfhe reading, 'record', 'bench' and 'profile' need OpenFHE")
                say(f"to have it: {probe.get_python()}")
                return
            self.openfhe = True
        raise no_python(refused, self.openfhe)

    def _made_with_one_of(self, refused: dict[str, str]) -> bool:
        """Make `.venv` with the first interpreter that serves; those that do not go to `refused` with the reason."""
        for interpreter in interpreters(self.openfhe, refused):
            say(f"making .venv with {interpreter}")
            self.worked = True
            shutil.rmtree(self.venv, ignore_errors=True)
            self.stamps.mkdir(parents=True)
            try:
                self.command([interpreter.path, "-m", "venv", str(self.venv)], "making .venv", venv_remedy)
            except SetupError as error:
                refused[interpreter.path] = f"makes no virtual environment: {error}"
                continue
            reason = self._accept(interpreter.path)
            if reason is None:
                return True
            say(f"  {interpreter.path} {reason}")
            refused[interpreter.path] = reason
            shutil.rmtree(self.venv, ignore_errors=True)
        return False

    def _venv_serves(self) -> bool:
        """Whether the `.venv` that is there can be kept; one that somebody else made is taken over if it fits."""
        if not (self.venv / "pyvenv.cfg").exists():
            return False
        state = self.stamps / "python.json"
        chosen = os.environ.get("PENSTOCK_PYTHON")
        known = json.loads(state.read_text()) if state.exists() else {}
        if self.openfhe and known.get("wanted_openfhe") and not known["openfhe"]:
            self.openfhe = False  # no Python imported it when this was made; `make clean-venv setup` looks again
        if chosen:
            answer = ask(shutil.which(chosen) or chosen)
            reason = answer if isinstance(answer, str) else unsuitable(answer, self.openfhe)
            if reason:
                raise no_python({chosen: str(reason)}, self.openfhe)
            assert isinstance(answer, Interpreter)
            base = ask(self.python)
            if isinstance(base, str) or self._base(self.python) != self._base(answer.path):
                return False
        # A removed interpreter leaves a dangling link, which os.access excludes.
        if known and os.access(self.python, os.X_OK) and (not self.openfhe or self._is_done("openfhe", OPENFHE_LOCK)):
            return True
        answer = ask(self.python)
        if isinstance(answer, str) or unsuitable(answer._replace(has_venv=True), self.openfhe):
            return False
        if subprocess.run([self.python, "-m", "pip", "--version"], capture_output=True, check=False).returncode:
            return False
        self.stamps.mkdir(exist_ok=True)
        return self._accept(self.python) is None

    @staticmethod
    def _base(python: str) -> str:
        code = "import os, sys; print(os.path.realpath(sys.base_prefix), sys.version_info[:3])"
        return subprocess.run([python, "-I", "-c", code], capture_output=True, text=True, check=False).stdout

    def _accept(self, base: str) -> str | None:
        """Install OpenFHE and import it; the reason as text where that does not work."""
        answer = ask(self.python)
        if isinstance(answer, str):
            return answer
        openfhe = None
        if self.openfhe:
            self.pip_install("openfhe", OPENFHE_LOCK, "OpenFHE")
            outcome = probe.try_openfhe(self.python)
            if not outcome.ok:
                self._stamp("openfhe").unlink()
                return f"does not import OpenFHE: {outcome.reason}"
            openfhe = outcome.version
        record = {"base": base, "version": "{}.{}.{}".format(*answer.version), "openfhe": openfhe}
        record["wanted_openfhe"] = self.wanted_openfhe
        (self.stamps / "python.json").write_text(json.dumps(record))
        return None

    def install_builder(self) -> None:
        """Install what builds the core, ahead of the other packages."""
        lock = self.stamps / "builder.txt"
        blocks = re.findall(rf"^(?:{BUILDER})==.*(?:\n[ \t].*)*", PACKAGES_LOCK.read_text(), re.M)
        lock.write_text("\n".join(blocks) + "\n")
        self.pip_install("builder", lock, "what builds the Rust core")

    def install_packages(self) -> None:
        self.pip_install("packages", PACKAGES_LOCK, "the locked packages (about a minute)")
        if self.docs:
            self.pip_install("docs", ROOT / "requirements/docs.txt", "what builds the documentation")

    def build_core(self) -> None:
        """Build the Rust core in release mode and install penstock so that edits of `src/` count at once."""
        if self._core_is_built():
            return
        what = "the Rust core (release mode" + "".join(f", with {feature}" for feature in self.features) + ")"
        features = ["--config-settings", "build-args=--features=" + ",".join(self.features)] if self.features else []
        self.build("core", [*features, "-e", str(ROOT)], what, self._core_digest())

    def build_client(self) -> None:
        """Build and install the client's extension module, in the core's profile and cargo target."""
        if not self._is_installed("client", self._core_digest()):
            self.build("client", ["--force-reinstall", str(CLIENT)], "penstock's client", self._core_digest())

    def install_studies(self) -> None:
        """Install penstock-studies, whose build backend is a locked package."""
        digest = digest_of([STUDIES / "pyproject.toml"])
        if not self._is_installed("studies", digest):
            self.build("studies", ["-e", str(STUDIES)], "the studies", digest)

    def build(self, name: str, options: Sequence[str], what: str, digest: str) -> None:
        """Let pip build and install a project of this tree, by what is installed already."""
        environ = rust_environment()
        # Without an isolated environment, pip leaves it to us that the build backend's program is found.
        environ["PATH"] = str(self.venv / "bin") + os.pathsep + environ["PATH"]
        environ.setdefault("CARGO_TARGET_DIR", str(ROOT / "target"))
        say(f"building {what}")
        self.worked = True
        pip = [self.python, "-m", "pip", "install", "-v", *PIP_OPTIONS, "--no-build-isolation", "--no-deps"]
        self.command([*pip, *options], f"building {what.split(' (')[0]}", build_remedy, environ)
        self._stamp(name).write_text(digest)

    def try_import(self, name: str, module: str) -> None:
        """Import what was built, once; where that fails, the next set-up builds it again."""
        tried = self._stamp(f"{name}-import")
        if tried.exists() and tried.read_text() == self._stamp(name).read_text():
            return
        try:
            self.command(
                [self.python, "-c", f"import {module}"],
                f"loading {module}",
                lambda output: "'make clean setup' builds it anew; if it fails again, report it with the lines above",
            )
        except SetupError:
            self._stamp(name).unlink()
            raise
        tried.write_text(self._stamp(name).read_text())

    def _is_installed(self, name: str, digest: str) -> bool:
        """Whether penstock-client or penstock-studies is there, of these sources."""
        stamp = self._stamp(name)
        there = any(self.venv.glob(f"lib/python3*/site-packages/penstock_{name}*"))
        return there and stamp.exists() and stamp.read_text() == digest

    def _core_digest(self) -> str:
        sources = [ROOT / "Cargo.toml", ROOT / "Cargo.lock", ROOT / "pyproject.toml", *rust_sources(ROOT / "crates")]
        return " ".join([digest_of(sources), *self.features])

    def _core_is_built(self) -> bool:
        """Whether the Rust core in the tree is that of the sources, and the command is there."""
        stamp = self._stamp("core")
        return stamp.exists() and stamp.read_text() == self._core_digest() and self._engine_is_there()

    def _engine_is_there(self) -> bool:
        return any((ROOT / "src/penstock").glob("_engine*.so")) and (self.venv / "bin/penstock").exists()

    def pip_install(self, name: str, lock: Path, what: str) -> None:
        if self._is_done(name, lock):
            return
        say(f"installing {what}")
        self.worked = True
        options = [*PIP_OPTIONS, "--require-hashes", "--no-deps", "--only-binary=:all:"]
        self.command(
            [self.python, "-m", "pip", "install", *options, "-r", str(lock)],
            f"installing {what.split(' (')[0]}",
            pip_remedy,
        )
        self._stamp(name).write_text(digest_of([lock]))

    def _is_done(self, name: str, lock: Path) -> bool:
        return self._stamp(name).exists() and self._stamp(name).read_text() == digest_of([lock])

    def command(self, argv: Sequence[str], what: str, remedy: Any, environ: dict[str, str] | None = None) -> None:
        """Run one command; its output goes to the log, and its end to the message where it fails."""
        started = time.monotonic()
        with self.log.open("a") as log:
            log.write("$ " + " ".join(argv) + "\n")
        lines: list[str] = []
        with (
            subprocess.Popen(
                argv,
                stdin=subprocess.DEVNULL,
                stdout=subprocess.PIPE,
                stderr=subprocess.STDOUT,
                text=True,
                errors="replace",
                cwd=ROOT,
                env=environ,
            ) as process,
            self.log.open("a") as log,
        ):
            assert process.stdout is not None
            for line in process.stdout if self.verbose else told(process.stdout):
                lines.append(line)
                log.write(line)
                if self.verbose:
                    sys.stderr.write(line)
        if process.returncode:
            tail = [] if self.verbose else telling_lines(lines)
            output = "".join(lines)
            raise SetupError(
                f"{what} failed (exit status {process.returncode}):\n"
                + "".join(f"  | {line.rstrip()}\n" for line in tail)
                + f"  the whole output: {self.log.relative_to(ROOT)}",
                remedy(output),
                exit_code=1,
            )
        if self.verbose:
            say(f"  {what}: {time.monotonic() - started:.1f} s")

    def _stamp(self, name: str) -> Path:
        return self.stamps / f"{name}.stamp"


def told(lines: Iterable[str]) -> Iterator[str]:
    """Pass the lines of a command on, and say the step that it is at: on one line of a terminal, else every 20 s."""
    started, due, terminal = time.monotonic(), 20.0, sys.stderr.isatty()
    for line in lines:
        yield line
        found = re.match(r"\s*(Collecting|Downloading|Compiling) (\S{1,60})", line)
        passed = time.monotonic() - started
        if found and (terminal or passed > due):
            due = passed + 20.0
            text = f"penstock:   {passed:3.0f} s: {found[1].lower()} {found[2]}"
            sys.stderr.write(f"\r\x1b[K{text}" if terminal else f"{text}\n")
            sys.stderr.flush()
    if terminal:
        sys.stderr.write("\r\x1b[K")


def telling_lines(lines: list[str]) -> list[str]:
    """The last lines of an output; of a failed build those of the compiler, without pip's and maturin's after them."""
    end = next((number for number, line in enumerate(lines) if "maturin failed" in line), len(lines))
    return lines[max(0, end - 25) : end]


PIP_OPTIONS = ["--disable-pip-version-check", "--no-input", "--progress-bar", "off", "--no-warn-script-location"]


def rust_sources(crates: Path) -> list[Path]:
    return sorted(path for path in crates.rglob("*") if path.suffix in (".rs", ".toml") and "target" not in path.parts)


def digest_of(files: Iterable[Path]) -> str:
    digest = hashlib.sha256()
    for path in files:
        content = path.read_bytes() if path.exists() else b""
        digest.update(f"{path.relative_to(ROOT)} {len(content)}\n".encode() + content)
    return digest.hexdigest()


def rust_environment() -> dict[str, str]:
    """The environment with cargo on PATH (rustup's folder is added where a shell has not yet done so).

    Raises: SetupError: there is no Rust, it is too old, or there is no linker for it.
    """
    environ = dict(os.environ)
    rustup = Path(environ.get("CARGO_HOME", Path.home() / ".cargo")) / "bin"
    environ["PATH"] = environ.get("PATH", "") + os.pathsep + str(rustup)
    if not shutil.which("cargo", path=environ["PATH"]):
        raise SetupError(f"the Rust core needs cargo, which is neither on PATH nor in {rustup}", RUST_LINE)
    done = subprocess.run(["rustc", "--version"], capture_output=True, text=True, env=environ, cwd=ROOT, check=False)
    match = re.match(r"rustc (\d+)\.(\d+)", done.stdout)
    if not match:
        raise SetupError(f"rustc does not run: {(done.stderr or done.stdout).strip()}", RUST_LINE)
    if (int(match[1]), int(match[2])) < MIN_RUST:
        raise SetupError(
            f"the Rust core needs Rust {MIN_RUST[0]}.{MIN_RUST[1]} or newer; {done.stdout.strip()} is installed",
            RUST_LINE,
        )
    if not shutil.which("cc", path=environ["PATH"]):
        raise SetupError("Rust links with a C compiler, and no cc is on PATH", "apt install build-essential")
    return environ


# --- Remedies ------------------------------------------------------------------------------------------------------

_NO_NETWORK = re.compile(
    r"NewConnectionError|name resolution|Network is unreachable|Connection refused|ConnectTimeout|ProxyError|"
    r"Max retries exceeded|Read timed out|Could not resolve host|spurious network error|failed to download|"
    r"[Cc]ouldn't connect|Could not connect|Connection reset|download of .* failed"
)
_NETWORK_REMEDY = (
    "the package index cannot be reached: connect this machine, or point {tool} at a mirror that it reaches "
    "({how}); then again: what is done is kept"
)


def venv_remedy(output: str) -> str:
    return disk_remedy(output) or "install the interpreter's venv module ('apt install python3-venv'), then again"


def pip_remedy(output: str) -> str:
    """What to do about pip's failure."""
    if disk := disk_remedy(output):
        return disk
    if "DO NOT MATCH THE HASHES" in output:
        return "the index served other files than requirements/*.txt name: use another mirror, or see what changed"
    if "CERTIFICATE_VERIFY_FAILED" in output or "SSLError" in output:
        return "pip does not trust the index's certificate: 'apt install ca-certificates', or set PIP_CERT"
    if _NO_NETWORK.search(output):
        return _NETWORK_REMEDY.format(
            tool="pip", how="PIP_INDEX_URL; or PIP_NO_INDEX=1 with PIP_FIND_LINKS=a folder of wheels"
        )
    if "No matching distribution" in output or "Could not find a version" in output:
        return (
            "no wheel for this Python and processor: use CPython 3.10 to 3.13 on x86-64 or arm64 Linux; "
            "if the index cannot be reached, connect this machine or set PIP_INDEX_URL"
        )
    return "see the lines above; then again: what is done is kept"


def build_remedy(output: str) -> str:
    """What to do about a failed build of the Rust core."""
    if disk := disk_remedy(output):
        return disk
    if _NO_NETWORK.search(output):
        return _NETWORK_REMEDY.format(tool="cargo", how="[source] in ~/.cargo/config.toml")
    if "--locked" in output and "lock file" in output:
        return "Cargo.lock does not fit the Cargo.toml files: 'cargo update --workspace', then again"
    if re.search(r"linker .* not found", output):
        return "apt install build-essential"
    if "SIGKILL" in output or "signal: 9" in output:
        return "the compiler was killed, most likely for memory: CARGO_BUILD_JOBS=1 needs less; then again"
    return "see the lines above; 'make clean setup' builds from nothing"


def disk_remedy(output: str) -> str | None:
    return "free about 2 GB of disk space, then again" if "No space left" in output else None


def say(text: str) -> None:
    print(f"penstock: {text}", file=sys.stderr, flush=True)


def main() -> int:
    parser = argparse.ArgumentParser(description="Set penstock up in .venv.")
    parser.add_argument("--without-openfhe", action="store_true", help="penstock's own client encrypts")
    parser.add_argument("--s3", action="store_true", help="build key stores in S3 into the Rust core")
    parser.add_argument("--docs", action="store_true", help="also what builds the documentation")
    parser.add_argument("--verbose", action="store_true", help="show the output of every step")
    options = parser.parse_args()
    try:
        Setup(openfhe=not options.without_openfhe, docs=options.docs, verbose=options.verbose, s3=options.s3).run()
    except SetupError as error:
        print(f"set-up stopped: {error}\nremedy: {error.remedy}", file=sys.stderr)
        return error.exit_code
    except OSError as error:
        print(f"set-up stopped: {error}\nremedy: check space and permissions of {ROOT}, then again", file=sys.stderr)
        return 1
    except KeyboardInterrupt:
        print("set-up interrupted; the same command goes on from here", file=sys.stderr)
        return 130
    return 0


if __name__ == "__main__":
    sys.exit(main())
