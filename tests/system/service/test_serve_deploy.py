"""Deployments while others are examined, and while the server stops."""

from __future__ import annotations

import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from support.serve_site import Caller, Site, eventually, long_package


@pytest.fixture
def site(tmp_path: Path) -> Iterator[Site]:
    made = Site(tmp_path)
    yield made
    made.stop()


def examines(site: Site) -> bool:
    """Whether a package is examined: the examining process has a child."""
    parents = {}
    for entry in Path("/proc").iterdir():
        if entry.name.isdigit():
            try:
                parents[int(entry.name)] = int((entry / "stat").read_text().rpartition(")")[2].split()[1])
            except OSError:
                continue
    return any(parents.get(parent) == site.process.pid for parent in parents.values())


def deploy(caller: Caller, name: str, blob: str) -> int:
    return caller("POST", "/v1/programs", {"name": name, "package": blob}).status


def test_a_flood_of_deployments_refuses_and_delays_its_own_tenant_only(site: Site, tmp_path: Path) -> None:
    hostile, honest = site.tenant("hostile"), site.tenant("honest")
    long = hostile.upload(long_package(tmp_path / "long.pkg").read_bytes(), "package").json["blob"]
    with ThreadPoolExecutor(60) as threads:
        flood = [threads.submit(deploy, hostile, f"p{n}", long) for n in range(60)]
        eventually(lambda: examines(site))
        assert honest.deploy(tmp_path, "mine").status == 201
        assert honest("GET", "/v1/programs").status == 200
        assert not all(each.done() for each in flood)
        site.process.terminate()
        statuses = [each.result() for each in flood]
    assert statuses.count(429) >= 57
    assert set(statuses) <= {429, 503, 201, 200}


def test_a_stop_ends_an_examination_and_its_client_gets_a_503(site: Site, tmp_path: Path) -> None:
    alice = site.tenant("alice")
    long = alice.upload(long_package(tmp_path / "long.pkg").read_bytes(), "package").json["blob"]
    with ThreadPoolExecutor(1) as threads:
        answer = threads.submit(alice, "POST", "/v1/programs", {"name": "long", "package": long})
        eventually(lambda: examines(site))
        begun_s = time.monotonic()
        site.process.terminate()
        assert answer.result().status == 503
        assert answer.result().json["type"] == "urn:penstock:draining"
    assert site.process.wait(30) == 0
    assert time.monotonic() - begun_s < 10
