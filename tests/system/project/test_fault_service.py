"""A slice of the benches of the service (`python tests/faults service service_requests service_tenants …`)."""

from __future__ import annotations

import hashlib
from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import pytest

pytest.importorskip("fastapi")
pytest.importorskip("pg8000")
pytest.importorskip("penstock_client", reason="penstock's client is not installed")

from faults import service, service_packages, service_requests, service_tenants
from faults.service_requests import wrong
from faults.service_site import Whole
from faults.service_words import Drawn
from support import postgres

REQUESTS = 2000
MUTANTS = 24


@pytest.fixture(scope="module")
def site(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Whole]:
    with ExitStack() as stack:
        database = None if postgres.missing() else stack.enter_context(postgres.cluster())
        found = Whole(tmp_path_factory.mktemp("service"), database)
        try:
            yield found
        finally:
            code = found.served.end()
        assert code == 0


def test_hostile_requests_bring_no_failure_and_honest_jobs_go_on(site: Whole) -> None:
    results, said = service_requests.attacked(site, range(REQUESTS), 4)
    assert [str(each) for each in results if each.faults] == [], said
    assert sum(each.cases for each in results) == REQUESTS


@pytest.mark.parametrize("kind", ["worker", "database", pytest.param("server and client", marks=pytest.mark.long)])
def test_a_kill_loses_no_job_and_leaves_no_half_key(site: Whole, kind: str) -> None:
    if kind == "database" and site.served.postgres is None:
        pytest.skip(postgres.missing())
    result = service.case(site, 1, kind)
    # The time until it is ready is the machine's; the bench looks at it.
    assert [each for each in result.faults if not each.startswith("ready only")] == []
    assert result.detail > 0


def test_a_kill_loses_no_job_of_a_backlog(site: Whole) -> None:
    result = service.case_of_backlog(site, 2, 60)
    assert [each for each in result.faults if not each.startswith("ready only")] == []


def test_failures_are_told_from_refusals() -> None:
    """The bench finds what it looks for."""
    json = {"content-type": "application/problem+json"}
    drawn = Drawn("form", b"")
    for status, headers, body, said in (
        (500, json, b"{}", "status 500"),
        (503, json, b'{"type": "urn:penstock:storage", "remedy": "x"}', "status 503"),
        (404, json, b"{}", "without a remedy"),
        (404, {}, b'{"remedy": "x"}', "without a remedy"),
        (200, {}, b"in /hidden/place", "hidden"),
    ):
        assert said in wrong(drawn, status, headers, body, (b"/hidden",))
    assert wrong(drawn, 507, json, b'{"type": "urn:penstock:quota", "remedy": "x"}', ()) == ""
    assert wrong(drawn, 404, json, b'{"remedy": "x"}', ()) == ""


@pytest.mark.parametrize("name", ["kept-alive", "half-uploads"])
def test_honest_tenants_are_measured_beside_an_attack(name: str, tmp_path: Path) -> None:
    with service_tenants.yard(tmp_path / "yard") as site:
        row = site.attacked(name, 2.0)
    assert sum(row["answers"].values()) > 0
    assert row["alone"]["jobs"] > 0
    assert row["alone"]["refusals"] == row["alone"]["errors"] == {}
    assert {"look", "deploy"} <= set(row["alone"]["calls_p95_s"])
    assert name in service_tenants.table([row])


def test_what_honest_tenants_may_not_meet_is_a_fault() -> None:
    """The bench of tenants finds what it looks for."""
    met: dict[str, Any] = {"jobs": 9, "p50_s": 0.1, "p95_s": 0.2, "p99_s": 0.3, "refusals": {}, "errors": {}}
    row: dict[str, Any] = {
        "attack": "silent", "by": "strangers", "seconds": 60.0, "alone": met, "under": met, "front_before": 0,
        "front": 64 << 20, "workers": 0, "log": 0, "answers": {"opened": 400}, "ended": None,
    }  # fmt: skip
    assert service_tenants.faults_of(row) == ()
    for changed, said in (
        ({"under": {**met, "p95_s": 0.41}}, "2.0 times that alone"),
        ({"under": {**met, "refusals": {"429 admission": 3}}}, "3 honest requests were refused with 429 admission"),
        ({"alone": {**met, "errors": {"a job is failed": 1}}}, "alone: 1 x a job is failed"),
        ({"under": {**met, "jobs": 0}}, "no honest job ended"),
        ({"front": (64 << 20) + 1}, "the front held 64 MiB"),
        ({"log": 5 << 20}, "the log grew"),
        ({"ended": -9}, "the server ended with -9"),
        ({"answers": {}}, "nothing attacked"),
    ):
        assert said in " ".join(service_tenants.faults_of({**row, **changed}))


def test_mutated_packages_are_refused_in_words_or_compute_what_they_say(tmp_path: Path) -> None:
    results, said = service_packages.deployed(tmp_path, range(MUTANTS), 4)
    assert [str(each) for each in results if each.faults] == [], said
    assert sum(each.cases for each in results) == MUTANTS


def test_a_mutant_that_computes_something_else_is_found(tmp_path: Path) -> None:
    site = service_packages.Deploying(tmp_path)
    try:
        assert site._ran("same", site.bases[1]) == ("a job done", "")
        site._values = {name: -values for name, values in site._values.items()}
        ended, said = site._ran("other", site.bases[1])
        assert ended == "a job done"
        assert "is off by" in said
        assert site.compared == 2
    finally:
        assert site.served.end() == 0
    assert "KeyError" in site._bad_reason("KeyError: x")
    assert site._bad_reason("the tenant lacks 2 keys") == ""


def test_most_mutants_get_past_the_digest_and_come_again_from_their_seeds(tmp_path: Path) -> None:
    bases = []
    for name, make in service_packages.BASES.items():
        service_packages.write_package(make(), tmp_path / name)
        bases.append((tmp_path / name).read_bytes())
    kinds = set()
    for seed in range(300):
        kind, content = service_packages.mutant(bases, seed)
        assert (kind, content) == service_packages.mutant(bases, seed)
        kinds.add(kind)
        if kind != "damaged":
            _, tables = service_packages.parts(content)
            assert hashlib.sha256(tables).digest() == content[-48:-16]
    assert kinds == {"damaged", "constant", "element", "copied", "exchanged", "resized", "json"}
