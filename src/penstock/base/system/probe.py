"""The reason why OpenFHE does not import, found in a separate process, with the remedy; and its installation.

Standard library only, and no other module of penstock: the set-up script loads this file before anything is
installed, on whatever Python starts it (3.8 or newer).
"""

from __future__ import annotations

from pathlib import Path
from typing import NamedTuple

WHEELS = {(3, 10): "1.6.1.0.22.4", (3, 12): "1.6.1.0.24.4"}
"""CPython version -> the OpenFHE wheel that holds its extension module (the pins of requirements/openfhe.in)."""

_IMPORT = (
    "import sys; print('%d.%d.%d' % sys.version_info[:3]); sys.stdout.flush(); import openfhe; "
    "from importlib import metadata; print(metadata.version('openfhe')); print(openfhe.__file__); "
    "assert hasattr(openfhe, 'GenCryptoContext'), 'the module openfhe holds no GenCryptoContext'"
)

ROOT = Path(__file__).resolve().parents[4]
"""The source tree, where penstock runs from one."""


def in_source_tree() -> bool:
    """Whether a Makefile is there to install with; an installed wheel has none."""
    return (ROOT / "Makefile").is_file() and (ROOT / "pyproject.toml").is_file()


def install(extra: str = "", *, anew: bool = False) -> str:
    """The command that installs penstock with the packages of an extra; `anew` also where they are there already."""
    if in_source_tree():
        return "'make clean-venv setup'" if anew else "'make setup'"
    return f"pip install {'--force-reinstall ' if anew else ''}" + (f"'penstock[{extra}]'" if extra else "penstock")


def get_python() -> str:
    """The way to an interpreter that OpenFHE has a wheel for."""
    return (
        "get a CPython 3.10 ('uv python install 3.10', or 'pyenv install 3.10', or 'apt install python3.10-venv' on "
        "Ubuntu 22.04), or 3.12 on Ubuntu 24.04 or newer ('apt install python3-venv'), then " + install("openfhe")
    )


class ImportOutcome(NamedTuple):
    """What importing OpenFHE came to. `reason` and `remedy` are empty where it works."""

    ok: bool
    python: str | None
    version: str | None
    reason: str
    remedy: str


def try_openfhe(python: str, timeout_s: float = 60.0) -> ImportOutcome:
    """Import OpenFHE with this interpreter in a separate process: a bad extension may kill the process."""
    import subprocess  # at use: messages of every command read this file

    try:
        done = subprocess.run(
            [python, "-c", _IMPORT],
            stdin=subprocess.DEVNULL,
            capture_output=True,
            timeout=timeout_s,
            text=True,
            check=False,
        )
    except subprocess.TimeoutExpired:
        return ImportOutcome(False, None, None, f"the import took longer than {timeout_s:.0f} s", "try again")
    except OSError as error:
        return ImportOutcome(False, None, None, f"{python} cannot be started ({error.strerror or error})", get_python())
    return explain(done.returncode, done.stdout, done.stderr)


def explain(returncode: int, stdout: str, stderr: str) -> ImportOutcome:
    """What the output of an import attempt means.

    >>> explain(1, "3.11.7", "ModuleNotFoundError: No module named 'openfhe'").reason
    'no OpenFHE wheel holds an extension module for CPython 3.11: they exist for 3.10 and 3.12'
    """
    lines = stdout.split()
    python = lines[0] if lines else None
    if returncode == 0 and len(lines) >= 2:
        return ImportOutcome(True, python, lines[1], "", "")
    errors = [line.strip() for line in stderr.splitlines() if line.strip()]
    if python is None:  # no interpreter at all: a shim that only prints an error, say
        reason = errors[0] if errors else f"it ended with exit status {returncode}"
        return ImportOutcome(False, None, None, reason, get_python())
    reason, remedy = _explained(returncode, python, errors[-1] if errors else "")
    return ImportOutcome(False, python, None, reason, remedy)


def _explained(returncode: int, python: str, last: str) -> tuple[str, str]:
    if returncode < 0:
        return (
            f"the import killed the process (signal {-returncode}): the wheel does not fit this machine",
            f"the wheels are built for x86-64 Linux; there, {install('openfhe', anew=True)} installs it anew",
        )
    major_minor = (int(python.split(".")[0]), int(python.split(".")[1]))
    name = "{}.{}".format(*major_minor)
    if major_minor not in WHEELS:
        known = " and ".join("{}.{}".format(*version) for version in sorted(WHEELS))
        return f"no OpenFHE wheel holds an extension module for CPython {name}: they exist for {known}", get_python()
    wheel = WHEELS[major_minor]
    if "GLIBCXX_" in last or "GLIBC_" in last:
        symbol = next((word.strip("`'\"") for word in last.split() if "GLIBC" in word), "a newer C++ library")
        return (
            f"the wheel for CPython {name} needs {symbol}, which this system's C or C++ library does not have",
            "use CPython 3.10, whose wheel runs on older systems ('uv python install 3.10' or 'pyenv install 3.10'), "
            f"then {install('openfhe')}; or a newer system (Ubuntu 24.04)",
        )
    if "libgomp" in last:
        return "the OpenMP library libgomp.so.1 is not installed", f"'apt install libgomp1', then {install('openfhe')}"
    if "cannot open shared object file" in last:
        library = last.split(":")[-3].split()[-1] if last.count(":") >= 2 else last
        return f"a shared library is not installed: {library}", f"install its package, then {install('openfhe')}"
    if "wrong ELF class" in last or "invalid ELF header" in last or "Exec format" in last:
        return (
            "the wheel holds code for another kind of processor (x86-64 Linux)",
            "build OpenFHE and openfhe-python from source, or use an x86-64 Linux machine",
        )
    if "requires numpy" in last:
        return "OpenFHE's import asks for numpy, which is not installed", f"{install()}, or: pip install numpy"
    if "No module named 'openfhe'" in last:
        return "OpenFHE is not installed", f"{install('openfhe')}, or: pip install openfhe=={wheel}"
    if "No module named 'openfhe.openfhe'" in last or "No module named" in last or "GenCryptoContext" in last:
        return (
            f"the installed wheel holds the extension module of another interpreter than CPython {name} ({last})",
            f"{install('openfhe')}, or: pip install --force-reinstall openfhe=={wheel}",
        )
    reason = last or f"the import ended with exit status {returncode}"
    return reason, f"{install('openfhe', anew=True)} installs it anew"
