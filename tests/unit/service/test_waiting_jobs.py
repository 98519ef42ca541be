"""What many waiting jobs, and jobs with many inputs, cost the others: starts, submissions, lists and removals."""

from __future__ import annotations

import json
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

pytest.importorskip("fastapi")
pytest.importorskip("sqlalchemy")

from sqlalchemy import event

from penstock.service.http.app import _written
from penstock.service.http.config import embedded
from penstock.service.http.jobs import Jobs
from penstock.service.http.keys import Quota
from penstock.service.http.logs import Log
from penstock.service.http.results import predicted_output_bytes
from penstock.service.http.service import SERVER, ServiceFront
from penstock.service.state import tables
from penstock.service.state.problems import Problem
from penstock.service.state.tokens import Caller
from penstock.service.work.messages import JobSpec
from support.fake_computing import FakeComputing
from support.serve_site import PARAMS, eventually

WHO = Caller(tenant="a", token="t", scopes=frozenset({"run"}))


class SlowToTake(FakeComputing):
    """Takes jobs of an earlier server once `gate` is open."""

    def __init__(self, jobs: Jobs, gate: threading.Event) -> None:
        super().__init__(jobs, hold=True)
        self.gate = gate

    def submit(self, job: JobSpec, *, is_accepted: bool = False) -> None:
        if is_accepted:
            self.gate.wait(20)
        super().submit(job, is_accepted=is_accepted)


Front = Callable[..., ServiceFront]


@pytest.fixture
def front(tmp_path: Path) -> Iterator[Front]:
    """Makes servers on one folder, each after the end of the last one."""
    made: list[ServiceFront] = []

    def make(gate: threading.Event | None = None) -> ServiceFront:
        if made:
            made.pop().close()
        gate = gate or threading.Event()
        made.append(ServiceFront(embedded(tmp_path / "state"), Log(), lambda _, jobs: SlowToTake(jobs, gate)))
        return made[-1]

    yield make
    for each in made:
        each.close()


def prepare(service: ServiceFront, tenant: str = "a", inputs: int = 1) -> None:
    """A program of a tenant with so many inputs, which are there."""
    names = [f"x{number}" for number in range(inputs)]
    description = {
        "inputs": [{"name": name} for name in names],
        "outputs": [{"name": "y"}],
        "keys": [],
        "predicted": {"key_bytes": 0, "seconds": 1.0, "memory_bytes": 1},
        "params": PARAMS.to_dict(),
    }
    service.state.add_tenant(tenant)
    service.state.put_program(tenant, "p", "k", description)
    for name in names:
        blob = {"tenant": tenant, "sha256": f"s-{name}", "kind": "input", "bytes": 1, "expires_s": None}
        service.state.end_upload(tenant, "none", blob)
        path = service.files.blob(tenant, blob["sha256"])
        service.files.make(path)
        path.write_bytes(b"x")


def form(job: str, inputs: int = 1) -> dict:
    named = {f"x{number}": f"s-x{number}" for number in range(inputs)}
    return {"job": job, "program": "p", "inputs": named, "priority": 0, "deadline_s": None}


def test_a_server_does_not_wait_until_the_workers_have_its_accepted_jobs(front: Front) -> None:
    service, gate = front(), threading.Event()
    prepare(service)
    prepare(service, "b")
    service.start()
    for number in range(20):
        service.jobs.submit(WHO, form(f"j{number}"))
    service.jobs.submit(Caller(tenant="b", token="u", scopes=WHO.scopes), form("other"))
    service.jobs.on_started(service.state.job_of("a", "j0")["job"])
    service = front(gate)
    resumed: list[int] = []
    starting = threading.Thread(target=lambda: resumed.append(service.start()), daemon=True)
    starting.start()
    starting.join(10)
    has_started = not starting.is_alive()
    states = {row["state"] for row in service.state.jobs("a")}
    strays = service.jobs.submit_stray()
    cancelled = [service.jobs.cancel(WHO, f"j{number}")["state"] for number in (0, 7)]
    gone = threading.Thread(target=lambda: service.forget_tenant(SERVER, "b", keep_tokens=True), daemon=True)
    gone.start()
    service.jobs.submit(WHO, form("new"))
    gate.set()
    gone.join(10)
    assert has_started
    assert resumed == [21]
    assert states == {"queued"}
    assert strays == 0
    assert cancelled == ["cancelled"] * 2
    wanted = {service.state.job_of("a", name)["job"] for name in [f"j{n}" for n in range(20)] + ["new"]}
    wanted -= {service.state.job_of("a", name)["job"] for name in ("j0", "j7")}
    eventually(lambda: service.jobs.pool.held.keys() == wanted)
    old = [service.state.job_of("a", f"j{number}")["job"] for number in range(20)]
    seen = [spec.job for spec in service.jobs.pool.seen if spec.job in old]
    assert seen == sorted(seen, key=old.index)
    service.jobs._handing.join(10)
    assert service.jobs.pool.held.keys() == wanted
    assert service.jobs._handed == wanted


@contextmanager
def queries(service: ServiceFront) -> Iterator[list[str]]:
    """The statements that the database gets meanwhile."""
    told, here = list[str](), threading.get_ident()

    def hear(connection: object, cursor: object, statement: str, *_: object) -> None:
        if threading.get_ident() == here and statement.startswith(("SELECT", "UPDATE", "DELETE", "INSERT")):
            told.append(" ".join(statement.split()))

    event.listen(service.state._engine, "before_cursor_execute", hear)
    yield told
    event.remove(service.state._engine, "before_cursor_execute", hear)


def test_a_job_of_many_inputs_asks_the_database_as_often_as_one_of_few(front: Front) -> None:
    def asked(inputs: int) -> int:
        service = front()
        prepare(service, inputs=inputs)
        service.start()
        with queries(service) as told:
            service.jobs.submit(WHO, form(f"of-{inputs}", inputs))
        return len(told)

    few = asked(1)
    assert asked(1500) <= few


def test_an_input_that_is_not_there_is_named(front: Front) -> None:
    service = front()
    prepare(service, inputs=3)
    lacks = {**form("j", 3), "inputs": {"x0": "s-x0", "x1": "another", "x2": "s-x2"}}
    with pytest.raises(Problem, match="input 'x1': this tenant has no ciphertext another") as refused:
        service.jobs.submit(WHO, lacks)
    assert (refused.value.status, refused.value.kind, refused.value.more) == (422, "inputs", {"input": "x1"})


def test_nobody_but_the_workers_reads_the_inputs_of_jobs(front: Front) -> None:
    service = front()
    prepare(service, inputs=50)
    prepare(service, "b")
    service.start()
    for number in range(3):
        service.jobs.submit(WHO, form(f"j{number}", 50))
    done = service.state.job_of("a", "j1")["job"]
    eventually(lambda: done in service.jobs.pool.held)
    service.jobs.pool.release(done)
    with queries(service) as told:
        listed = service.jobs.listed("a")
        service.jobs.show("a", "j2")
        service.jobs.cancel(WHO, "j2")
        service.jobs.submit_stray()
        service.sweep()
        service.forget_tenant(SERVER, "b", keep_tokens=True)
        service.forget_tenant(SERVER, "a", keep_tokens=True)
    assert [statement for statement in told if "jobs.request" in statement.partition("FROM")[0]] == []
    assert [row["job"] for row in listed] == ["j2", "j1", "j0"]
    written = [json.loads(_written(row)) for row in listed]
    assert written[1]["outputs"] == {"y": 1}
    assert written[1]["figures"]["read_bytes"] == 7
    assert (written[0]["outputs"], written[0]["figures"]) == (None, None)
    assert written[0].keys() == written[1].keys() > {"submitted_s", "started_s", "ended_s", "expires_s", "reason"}


def test_keys_are_refused_to_be_removed_without_a_look_at_any_job(front: Front) -> None:
    service = front()
    for tenant in "ab":
        prepare(service, tenant)
    service.start()
    service.jobs.submit(WHO, form("j"))
    with queries(service) as told:
        assert service.state.has_open_jobs("a")
        assert not service.state.has_open_jobs("b")
    assert [statement for statement in told if "SELECT count(*)" not in statement] == []


def test_lists_of_one_tenant_come_one_after_another_and_let_others_pass(
    front: Front, monkeypatch: pytest.MonkeyPatch
) -> None:
    service, gate, inside = front(), threading.Event(), list[str]()
    rows = service.state.jobs

    def slow(tenant: str, most: int = 1000) -> list:
        inside.append(tenant)
        if tenant == "a":
            gate.wait(20)
        return rows(tenant, most)

    monkeypatch.setattr(service.state, "jobs", slow)
    threads = [threading.Thread(target=service.jobs.listed, args=("a",), daemon=True) for _ in range(4)]
    for each in threads:
        each.start()
    eventually(lambda: inside)
    assert service.jobs.listed("b") == []
    assert sorted(inside) == ["a", "b"]
    gate.set()
    for each in threads:
        each.join(10)
    assert sorted(inside) == ["a"] * 4 + ["b"]


def test_a_long_request_counts_towards_the_quota_as_long_as_it_is_kept(front: Front) -> None:
    service = front()
    prepare(service, inputs=400)
    service.start()
    used = service.state.used_bytes("a")
    reserved = predicted_output_bytes(service.state.program("a", "p")["description"])
    for name in ("ends", "cancelled"):
        service.jobs.submit(WHO, form(name, 400))
    length = len(json.dumps({key: value for key, value in form("", 400).items() if key != "job"}))
    assert service.state.used_bytes("a") == used + 2 * (reserved + length - 4096)
    service.jobs.cancel(WHO, "cancelled")
    assert service.state.used_bytes("a") == used + reserved + length - 4096
    service.jobs.pool.release(service.state.job_of("a", "ends")["job"])
    assert service.state.used_bytes("a") == used + 1 + length - 4096
    service.jobs.cancel(WHO, "ends")
    assert service.state.used_bytes("a") == used
    kept = [service.state.job(service.state.job_of("a", name)["job"])["request"] for name in ("ends", "cancelled")]
    assert kept == [{}, {}]
    service.jobs._quota = Quota(used + reserved + length - 4097, service.keys)
    with pytest.raises(Problem, match="do not fit"):
        service.jobs.submit(WHO, form("more", 400))


def test_no_tenants_entries_fill_the_audit_trail(front: Front, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(tables, "MOST_ENTRIES", 20)
    monkeypatch.setattr(tables, "TRIMMED", 5)
    service = front()
    service.state.record(Caller(tenant="b", token="u", scopes=frozenset()), "deploy", "of b")
    for number in range(101):
        service.state.record(WHO, "cancel", f"j{number}")
    trail = service.state.trail()
    assert [row["subject"] for row in trail if row["tenant"] == "b"] == ["of b"]
    assert [row["subject"] for row in trail if row["tenant"] == "a"] == [f"j{number}" for number in range(81, 101)]
