"""The machine and the versions that a measurement was made with, and what checks ask of them."""

from __future__ import annotations

import functools
import importlib
import importlib.util
import os
import platform
import re
import shutil
import subprocess
import sys
from collections.abc import Mapping
from dataclasses import dataclass
from importlib import metadata
from pathlib import Path
from types import ModuleType
from typing import TYPE_CHECKING

from penstock.base.system import probe

if TYPE_CHECKING:
    from penstock.base.types import Row


@functools.cache
def installed_version(package: str) -> str | None:
    """The version of an installed package, or `None`."""
    try:
        return metadata.version(package)
    except metadata.PackageNotFoundError:
        return None


def source_commit() -> str | None:
    """The git commit that this package is checked out at, `+changes` where files differ; `None` if installed."""
    package = Path(__file__).parents[2]

    def git(*arguments: str) -> str | None:
        try:
            done = subprocess.run(
                ["git", "-C", str(package), *arguments], capture_output=True, text=True, timeout=10, check=True
            )
        except (OSError, subprocess.SubprocessError):
            return None
        return done.stdout.strip()

    # Inside site-packages the surrounding repository, if any, is somebody else's.
    if git("ls-files", "--error-unmatch", "__init__.py") is None:
        return None
    commit = git("rev-parse", "HEAD")
    return f"{commit}+changes" if commit and git("status", "--porcelain", "--", ".") else commit


def available_cores() -> int:
    """Cores that this process may use."""
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1


def host_description() -> Row:
    """What the measurements depend on; `None` where this system does not say. Names neither host nor user."""
    frequency = "/sys/devices/system/cpu/cpu0/cpufreq/scaling_governor"
    return {
        "cpu_model": field_of(text_of("/proc/cpuinfo") or "", "model name") or platform.processor() or None,
        "cores": available_cores(),
        "memory_bytes": installed_memory_bytes(),
        "kernel": f"{platform.system()} {platform.release()}",
        "architecture": platform.machine(),
        "governor": (text_of(frequency) or "").strip() or None,
    }


def text_of(path: str) -> str | None:
    """The text of a system file; `None` where there is none or it may not be read."""
    try:
        return Path(path).read_text(encoding="utf-8", errors="replace")
    except OSError:
        return None


def field_of(text: str, name: str) -> str | None:
    """The first field of that name in a file of the system such as /proc/cpuinfo."""
    match = re.search(rf"^{name}\s*:[ \t]*(\S.*)$", text, re.MULTILINE)
    return match[1].strip() if match else None


def installed_memory_bytes() -> int | None:
    """Memory of this machine; `None`: it does not say."""
    try:
        return os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")
    except (OSError, ValueError):
        return None


@dataclass(frozen=True, slots=True)
class Printed:
    """What a command came to. `returncode` is `None` where it could not be started or took too long."""

    returncode: int | None
    stdout: str = ""
    stderr: str = ""


@dataclass(frozen=True, slots=True)
class Host:
    """What the checks may ask of this machine, and nothing else."""

    python: str = sys.executable
    python_version: tuple[int, int, int] = sys.version_info[:3]
    implementation: str = platform.python_implementation()
    folder: Path = Path()

    @property
    def environ(self) -> Mapping[str, str]:
        return os.environ

    def run(self, argv: list[str], timeout_s: float = 60.0) -> Printed:
        """Run a command without input."""
        try:
            done = subprocess.run(
                argv, stdin=subprocess.DEVNULL, capture_output=True, text=True, timeout=timeout_s, check=False
            )
        except OSError as error:
            return Printed(None, stderr=error.strerror or str(error))
        except subprocess.TimeoutExpired:
            return Printed(None, stderr=f"no answer within {timeout_s:.0f} s")
        return Printed(done.returncode, done.stdout, done.stderr)

    def try_openfhe(self) -> probe.ImportOutcome:
        """Import OpenFHE in a separate process."""
        return probe.try_openfhe(self.python)

    def import_module(self, name: str) -> ModuleType:
        """Import a module into this process."""
        return importlib.import_module(name)

    def version(self, distribution: str) -> str | None:
        """The installed version of a distribution; `None` where it is not installed."""
        return installed_version(distribution)

    def package_file(self, package: str, relative: str) -> Path | None:
        """A file that a package brings, found without importing the package; `None` where there is none."""
        spec = importlib.util.find_spec(package)
        for folder in (spec.submodule_search_locations or []) if spec else []:
            if (Path(folder) / relative).is_file():
                return Path(folder) / relative
        return None

    def read(self, path: str) -> str | None:
        """The text of a system file; `None` where there is none or it may not be read."""
        return text_of(path)

    def exists(self, path: str) -> bool:
        return Path(path).exists()

    def free_disk_bytes(self) -> int:
        return shutil.disk_usage(self.folder.resolve()).free

    def cpu_count(self) -> int:
        return os.cpu_count() or 1

    def affinity(self) -> int:
        """Cores that this process may run on."""
        return available_cores()
