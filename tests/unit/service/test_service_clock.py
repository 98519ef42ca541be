"""The service's clock: no jump of the machine's deletes anything, and what time has passed over goes."""

from __future__ import annotations

import time
from collections.abc import Iterator
from pathlib import Path

import pytest

pytest.importorskip("sqlalchemy")

from penstock.scheme.params import catalogue
from penstock.service.http.config import embedded
from penstock.service.http.logs import Log
from penstock.service.http.service import SERVER, ServiceFront
from penstock.service.state import clock as clocks
from penstock.service.state import tables
from penstock.service.state.clock import GRACE_S, ServiceClock
from penstock.service.state.tokens import NewToken
from support.fake_computing import FakeComputing

SET = catalogue.get("openfhe-demo").to_dict()
YEAR_S = 365 * 86400.0


class Machine:
    """A machine whose clock may jump."""

    def __init__(self) -> None:
        self.wall_s, self.up_s, self.boot = 1.8e9, 1000.0, "first"

    def passes(self, seconds: float) -> None:
        self.wall_s += seconds
        self.up_s += seconds

    def clock(self, noted: str | None = None, last_s: float = 0.0) -> ServiceClock:
        return ServiceClock(noted, last_s, wall=lambda: self.wall_s, since_boot=lambda: self.up_s, boot=self.boot)


@pytest.fixture
def machine(monkeypatch: pytest.MonkeyPatch) -> Machine:
    found = Machine()
    monkeypatch.setattr(clocks, "_since_boot", lambda: found.up_s)
    monkeypatch.setattr(clocks, "boot_identity", lambda: found.boot)
    monkeypatch.setattr(time, "time", lambda: found.wall_s)
    return found


INPUT = "5" * 64


class Site:
    """A service with content of a tenant, and its next ones."""

    def __init__(self, folder: Path) -> None:
        self.folder, self.log = folder, (folder / "log").open("w")
        self.start()
        state = self.service.state
        self.service.add_tenant(SERVER, "a")
        self.short = self.token(7200.0)
        self.ended, self.lasting = self.token(7200.0), self.token(None)
        state.end_token("a", self.ended.identity, state.clock())
        blob = {"tenant": "a", "sha256": INPUT, "kind": "input", "bytes": 1, "expires_s": state.clock() + 86400.0}
        state.end_upload("a", "none", blob)
        upload = {"upload": "u", "tenant": "a", "kind": "input", "bytes": 1, "sha256": "t"}
        state.add_upload({**upload, "expires_s": state.clock() + 86400}, most=9)
        predicted = {"key_bytes": 0, "seconds": 1.0, "memory_bytes": 1}
        described = {"inputs": [], "outputs": [], "keys": [], "predicted": predicted, "params": SET}
        state.put_program("a", "p", "k", described)
        for job, kind, more in (("1", "done", {"expires_s": state.clock() + 86400}), ("2", "queued", {})):
            row = {
                "job": job, "tenant": "a", "client_job": job, "digest": "d", "program": "p", "package": "k",
                "request": {"inputs": {}, "deadline_s": 5000.0}, "state": kind, "attempts": 1,
                "submitted_s": state.clock(), "output_bytes": 0, **more,
            }  # fmt: skip
            state.add_job(row, most=9)

    def token(self, lasts_s: float | None) -> NewToken:
        return self.service.make_token(SERVER, "a", ("run",), lasts_s)

    def start(self) -> None:
        self.service = ServiceFront(
            embedded(self.folder / "state"), Log(self.log), lambda _, jobs: FakeComputing(jobs, hold=True)
        )

    def stop(self, *, killed: bool = False) -> None:
        """End it. A killed one notes nothing at its end."""
        if killed:
            self.service.state.note = lambda *_, **__: None  # type: ignore[method-assign]
        self.service.close()

    def input_ends(self, left_s: float) -> None:
        """Let the input expire in so many seconds."""
        state = self.service.state
        state._update(tables.blobs, {"tenant": "a", "sha256": INPUT}, expires_s=state.clock() + left_s)

    def there(self) -> list[bool]:
        """Whether input, upload and result are there still, after a sweep."""
        self.service.sweep()
        state = self.service.state
        rows = state.blob("a", INPUT), state.upload("a", "u"), state.job("1")
        return [rows[0] is not None, rows[1] is not None, rows[2] is not None and rows[2]["state"] == "done"]

    def knows(self) -> list[bool]:
        """Whether the token of two hours, the ended one and the lasting one are valid."""
        return [self.service.state.caller(made.text) is not None for made in (self.short, self.ended, self.lasting)]

    def waits(self) -> bool:
        """Whether the job with a deadline is not over it."""
        self.service.jobs._submit_again("2")
        row = self.service.state.job("2")
        return row is not None and row["state"] == "queued"


@pytest.fixture
def site(machine: Machine, tmp_path: Path) -> Iterator[Site]:
    found = Site(tmp_path)
    yield found
    found.service.close()
    found.log.close()


ALL, NONE = [True] * 3, [False] * 3
TOKENS = [True, False, True]


@pytest.mark.parametrize("jump_s", [YEAR_S, 100 * YEAR_S, -YEAR_S, -1.7e9])
def test_a_jump_while_it_serves_changes_nothing_and_is_logged_once(site, machine, jump_s):
    machine.wall_s += jump_s
    before = site.service.state.clock()
    assert site.there() == ALL
    assert site.knows() == TOKENS
    assert site.waits()
    machine.passes(60)
    assert site.service.state.clock() == before + 60
    assert site.there() == ALL
    lines = [line for line in (site.folder / "log").read_text().splitlines() if "clock jumped" in line]
    assert len(lines) == 1
    assert f'"seconds": {jump_s}' in lines[0]
    machine.passes(5000)
    assert not site.waits()
    machine.passes(2140 + 1)
    assert site.knows() == [False, False, True]
    machine.passes(86400 - 7200)
    assert site.there() == NONE


@pytest.mark.parametrize("killed", [False, True])
@pytest.mark.parametrize("jump_s", [YEAR_S, -YEAR_S])
def test_a_jump_between_two_servers_changes_no_retention(site, machine, jump_s, killed):
    machine.passes(50)
    site.stop(killed=killed)
    site.start()
    assert site.service.notes == []
    machine.wall_s += jump_s
    machine.passes(10)
    before = site.service.state.clock()
    site.stop(killed=killed)
    site.start()
    assert len(site.service.notes) == 1
    assert site.service.state.clock() == before + max(0.0, jump_s)
    assert site.there() == ALL
    assert site.waits()
    # Ended ones stay ended; the machine's clock itself is over the end of the short one.
    assert site.knows() == [jump_s < 0, False, True]
    machine.passes(2 * GRACE_S)
    site.stop()
    site.start()
    assert site.there() == ALL
    machine.passes(86400 - 2 * GRACE_S)
    assert site.there() == NONE


def test_after_a_start_of_the_machine_what_was_there_has_an_hour(site, machine):
    site.input_ends(600)
    site.stop()
    machine.wall_s, machine.up_s, machine.boot = machine.wall_s + YEAR_S, 5.0, "second"
    site.start()
    assert [note for note in site.service.notes if "nothing of then expires within 3600 s" in note]
    assert site.there() == ALL
    machine.passes(601)  # as long as it had left
    assert site.there() == [False, True, True]
    machine.passes(GRACE_S - 602)
    assert site.there() == [False, True, True]
    machine.passes(2)
    assert site.there() == NONE


def test_a_short_time_off_counts_for_nothing_and_is_not_said(site, machine):
    site.input_ends(30)
    site.stop()
    machine.wall_s, machine.up_s, machine.boot = machine.wall_s + 60, 5.0, "second"
    site.start()
    assert site.service.notes == []
    assert site.there() == ALL
    machine.passes(31)
    assert site.there() == [False, True, True]


def test_a_machine_that_comes_back_with_an_old_clock_goes_on_from_the_last_time(site, machine):
    last_s = site.service.state.clock()
    site.stop()
    machine.wall_s, machine.up_s, machine.boot = 0.0, 5.0, "second"
    site.start()
    assert site.service.state.clock() == last_s
    assert site.knows() == TOKENS
    machine.passes(7201)
    assert site.knows() == [False, False, True]
    site.stop()
    site.start()
    assert site.knows() == [False, False, True]


def test_what_had_expired_before_goes_at_once(site, machine):
    machine.passes(90000)
    site.stop(killed=True)
    site.start()
    assert site.there() == NONE


@pytest.mark.parametrize("noted", ["", "x", "{}", "[1]", '["a", 2, "first"]', "null", "[null, null, null]"])
def test_a_word_that_is_none_is_as_none(noted):
    machine = Machine()
    clock = machine.clock(noted, 1.8e9 - 50)
    assert (clock(), clock.jump_s, clock.away_s) == (1.8e9, 0.0, 50.0)
