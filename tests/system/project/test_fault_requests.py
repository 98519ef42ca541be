"""A slice of the bench of hostile requests (`python tests/faults requests`)."""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import ExitStack

import numpy as np
import pytest

from faults import objects, web
from faults.frame import Result
from faults.requests import Sites, prepared

SEEDS = {"explorer": range(40), "key node": range(80)}


def faulty(results: Sequence[Result]) -> str:
    return "\n".join(str(each) for each in results if each.faults)


def asked(sites: Sites, kind: str) -> list[Result]:
    """Hostile requests of one kind, one server of it, and what that did."""
    (case,) = sites.cases[kind]
    results = [case(seed, np.random.default_rng([seed, 4])) for seed in SEEDS[kind]]
    results += sites.look(0, len(results))
    return [*results, *(Result("requests", "the end", 0, "ended", each.end()) for each in sites.servers)]


@pytest.mark.parametrize("kind", ["explorer", "key node"])
def test_a_server_bears_hostile_requests(tmp_path, kind, monkeypatch):
    monkeypatch.setattr(web, "LARGER", web.WORKLOADS[:3])
    monkeypatch.setattr(web, "WORKLOADS", web.WORKLOADS[:3])
    if kind == "explorer":
        pytest.importorskip("uvicorn", reason="the explorer's server is not installed: pip install 'penstock[explore]'")
    with ExitStack() as stack:
        sites = prepared(tmp_path, {kind}, 1, stack, real=False)
        if why := sites.missing.get(kind):
            pytest.skip(why)
        found = asked(sites, kind)
    assert faulty(found) == ""
    assert len({each.ended for each in found}) >= 3


@pytest.mark.skipif(bool(objects.missing()), reason=f"{objects.missing()}")
@pytest.mark.parametrize("name", ["endless", "pages", "deeper", "range", "cut"])
def test_a_store_of_openfhes_keys_that_lies_is_found_out(tmp_path, openfhe, name):
    store = objects.prepared(tmp_path / "objects")
    for seed, lie in enumerate(each for each in objects.LIES if each.name == name):
        result = objects.lied(store, seed, lie, "read", np.random.default_rng(seed))
        assert faulty([result]) == ""


def test_answers_are_told_from_what_is_none():
    """The bench finds what it looks for."""
    site = web.Site(None, 1, {}, [], (b"secret",))  # type: ignore[arg-type]
    whole = web.Asked("view", b"", foreign=True)
    head = (
        b"HTTP/1.1 %d X\r\nContent-Security-Policy: x\r\nContent-Type: application/json\r\nContent-Length: %d\r\n\r\n"
    )
    for sent, said in (
        (b"", "no answer"),
        (b"nonsense", "no answer: "),
        (head % (500, 2) + b"{}", "status 500"),
        (head % (200, 3) + b"NaN", "NaN in JSON"),
        (head % (200, 6) + b"secret", "b'secret'"),
        (head % (200, 2) + b"{}", "a foreign request was answered with 200"),
        (head % (404, 5000) + b" " * 5000, "a refusal of 5000 bytes"),
        (b"HTTP/1.1 200 X\r\n\r\nx", "without the guard's headers"),
    ):
        _, found = web.wrong(site, whole, sent, 0.1)
        assert said in "; ".join(found), sent
    _, found = web.wrong(site, web.Asked("view", b""), head % (200, 2) + b"{}", 0.1)
    assert found == []
