"""A slice of the benches of the service (`python tests/faults service service_requests`)."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import ExitStack

import pytest

pytest.importorskip("fastapi")
pytest.importorskip("pg8000")
pytest.importorskip("penstock_client", reason="penstock's client is not installed")

from faults import service, service_requests
from faults.service_requests import wrong
from faults.service_site import Whole
from faults.service_words import Drawn
from support import postgres

REQUESTS = 2000


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
