"""The machine and the versions that a measurement was made with. Names neither host nor user."""

from __future__ import annotations

import functools
import os
import platform
import subprocess
from importlib import metadata
from pathlib import Path
from typing import TYPE_CHECKING

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
    frequency = Path("/sys/devices/system/cpu/cpu0/cpufreq/scaling_governor")
    return {
        "cpu_model": _field(Path("/proc/cpuinfo"), "model name") or platform.processor() or None,
        "cores": available_cores(),
        "memory_bytes": installed_memory_bytes(),
        "kernel": f"{platform.system()} {platform.release()}",
        "architecture": platform.machine(),
        "governor": _text(frequency),
    }


def _text(path: Path) -> str | None:
    try:
        return path.read_text().strip() or None
    except OSError:
        return None


def _field(path: Path, name: str) -> str | None:
    for line in (_text(path) or "").splitlines():
        key, _, value = line.partition(":")
        if key.strip() == name:
            return value.strip() or None
    return None


def installed_memory_bytes() -> int | None:
    """Memory of this machine; `None`: it does not say."""
    try:
        return os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")
    except (OSError, ValueError):
        return None
