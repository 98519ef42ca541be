"""What many waiting jobs, and jobs with many inputs, cost the others: starts, submissions, lists and removals."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

pytest.importorskip("fastapi")
pytest.importorskip("sqlalchemy")

from penstock.service.http.config import embedded
from penstock.service.http.jobs import Jobs
from penstock.service.http.logs import Log
from penstock.service.http.service import SERVER, ServiceFront
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
