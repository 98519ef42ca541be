"""A real small disk, where the system lets an ordinary process mount one."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import textwrap
from pathlib import Path

import pytest

_TESTS = str(Path(__file__).parents[1])


def mounts() -> bool:
    """Whether a process may mount a tmpfs in a namespace of its own."""
    if shutil.which("unshare") is None:
        return False
    trial = ["unshare", "-Urm", "sh", "-c", "mount -t tmpfs -o size=64k tmpfs /mnt"]
    return subprocess.run(trial, capture_output=True, check=False).returncode == 0


needs_mounts = pytest.mark.skipif(not mounts(), reason="needs user namespaces that may mount a tmpfs (unshare -Urm)")


def on_a_small_disk(folder: Path, code: str, size: str = "64k") -> subprocess.CompletedProcess[str]:
    """Run Python in which `sys.argv[1]` is `folder`, a disk of this size (as `mount` takes it)."""
    script = f'mount -t tmpfs -o size={size} tmpfs "$1" && exec "{sys.executable}" -c "$2" "$1"'
    return subprocess.run(
        ["unshare", "-Urm", "sh", "-c", script, "sh", str(folder), textwrap.dedent(code)],
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
        env={**os.environ, "PYTHONPATH": os.pathsep.join([_TESTS, os.environ.get("PYTHONPATH", "")])},
    )
