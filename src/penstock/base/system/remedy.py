"""Remedies for a missing part, in a source tree and with an installed wheel."""

from __future__ import annotations

from pathlib import Path

from penstock.base.system.probe import in_source_tree, install

__all__ = ["client", "engine", "in_source_tree", "install", "key_pair", "object_stores", "simgrid", "studies"]

_BUILT = "'make setup' builds it (Rust 1.89 or newer: https://rustup.rs)"


def engine() -> str:
    """How to get a Rust core that loads and fits."""
    return _BUILT if in_source_tree() else f"{install(anew=True)} brings one that fits"


def client() -> str:
    """How to get penstock's own client."""
    return _BUILT if in_source_tree() else "pip install penstock-client"


def studies() -> str:
    """How to get the distribution penstock-studies."""
    command = "pip install ./studies"
    if in_source_tree():
        return f"'make setup' installs penstock-studies, and so does '{command}'"
    return f"penstock-studies has them: in a copy of penstock's source tree, '{command}'"


def object_stores() -> str:
    """How to get a build with object stores. No wheel has them."""
    command = "make setup S3=1"
    return command if in_source_tree() else f"in a copy of penstock's source tree: {command}"


def simgrid() -> str:
    """The way to get SimGrid, if no variable names an interpreter that has it."""
    elsewhere = "elsewhere 'pip install simgrid' with cmake, g++ and libboost-dev"
    if in_source_tree():
        return f"'make simgrid' (Debian, Ubuntu: 'apt-get install python3-simgrid' as root; {elsewhere})"
    return f"'apt-get install python3-simgrid' as root (Debian, Ubuntu; {elsewhere})"


def key_pair(folder: Path) -> str:
    """The remedy for a damaged key pair."""
    return f"put the right file back; or remove {folder}, and what was made with that pair, and begin anew"
