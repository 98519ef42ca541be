"""The module that holds the secret links no store: neither SQLite, nor io_uring, nor an object store.

`Cargo.lock` names what each crate needs, in all its features and for all systems: more than a build takes.
"""

from __future__ import annotations

from typing import Any

from penstock.base.system import toml
from support.docs_blocks import ROOT

OF_STORES = {"io-uring", "libsqlite3-sys", "object_store", "penstock-store", "rusqlite", "tokio"}


def closure(lock: dict[str, Any], crate: str) -> set[str]:
    """A crate and all that it needs. Versions of one name count as one."""
    needs: dict[str, set[str]] = {}
    for package in lock["package"]:
        needs.setdefault(package["name"], set()).update(each.split()[0] for each in package.get("dependencies", []))
    found, new = set(), {crate}
    while new:
        found |= new
        new = set().union(*(needs[name] for name in new)) - found
    return found


def test_the_client_links_no_store() -> None:
    lock = toml.loads((ROOT / "Cargo.lock").read_text())
    client = closure(lock, "penstock-client-py")
    assert client & OF_STORES == set()
    # The names are right: it has the format, and the engine has both.
    assert {"penstock-client", "penstock-segment"} <= client
    assert OF_STORES | {"penstock-segment"} <= closure(lock, "penstock-py")


def test_a_crate_that_is_needed_by_another_one_is_found() -> None:
    package = [{"name": "a", "dependencies": ["b", "c 1.0.0"]}, {"name": "b", "dependencies": ["d 2.0.0 (registry)"]}]
    lock = {"package": [*package, *({"name": name} for name in "cde"), {"name": "d", "dependencies": ["a", "e"]}]}
    assert [closure(lock, crate) for crate in "abe"] == [set("abcde"), set("abcde"), {"e"}]
