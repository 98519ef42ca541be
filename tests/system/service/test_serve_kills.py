"""The service is killed, stopped, and out of disk: nothing that it accepted is lost, and nothing is half there."""

from __future__ import annotations

import hashlib
import http.client
import json
import shutil
import socket
import ssl
import subprocess
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

pytest.importorskip("fastapi")
pytest.importorskip("sqlalchemy")

from penstock.service.state.state import ServiceState
from support.serve_site import Caller, Site, eventually, random_bytes
from support.small_disk import needs_mounts, on_a_small_disk


@pytest.fixture
def held(tmp_path: Path) -> Iterator[Site]:
    """A server whose workers end no job."""
    found = Site(tmp_path, hold=True)
    yield found
    found.stop()


def with_jobs(site: Site, count: int) -> tuple[Caller, dict[str, bytes]]:
    """A tenant with accepted jobs, and what their results will be."""
    tenant = site.tenant("alice")
    assert tenant.deploy(site.folder).status == 201
    contents = {f"job-{at}": random_bytes(5000, at) for at in range(count)}
    for job, content in contents.items():
        blob = tenant.upload(content).json["blob"]
        assert tenant("POST", "/v1/jobs", {"job": job, "program": "small", "inputs": {"x": blob}}).status == 202
    return tenant, contents


@pytest.mark.smoke
def test_accepted_jobs_survive_a_kill_and_run_once(held):
    tenant, contents = with_jobs(held, 5)
    assert {job["state"] for job in tenant("GET", "/v1/jobs").json["jobs"]} == {"queued"}
    held.kill()
    held.hold = False
    begun = time.monotonic()
    held.start()
    assert time.monotonic() - begun < 20
    assert "5 accepted jobs of the last server were submitted again" in held.said
    tenant = held.again(tenant)
    for job, content in contents.items():
        assert tenant.ended(job)["state"] == "done"
        assert tenant("GET", f"/v1/jobs/{job}/outputs/y/1").body == content
    held.kill()
    held.start()
    assert not any("submitted again" in line for line in held.said)
    tenant = held.again(tenant)
    assert {job["state"] for job in tenant("GET", "/v1/jobs").json["jobs"]} == {"done"}
    assert tenant("GET", "/v1/jobs/job-3/outputs/y/1").body == contents["job-3"]


def test_results_that_a_loss_of_power_may_have_taken_are_computed_again(tmp_path):
    site = Site(tmp_path)
    try:
        tenant, contents = with_jobs(site, 2)
        for job in contents:
            assert tenant.ended(job)["state"] == "done"
        database = f"sqlite:///{tmp_path / 'state' / 'state.sqlite'}"
        results = sorted((tmp_path / "state" / "tenants" / "alice" / "results").glob("*/*"))
        site.kill()
        state = ServiceState(database)
        state.note("results synced", "0.0")
        state.close()
        # The machine ran on: the results are there, and are synced now.
        site.start()
        tenant = site.again(tenant)
        assert not any("submitted again" in line for line in site.said)
        eventually(lambda: float(_noted(database, "results synced")) > 0)
        # It started anew, and one result is not whole.
        site.kill()
        results[0].write_bytes(b"")
        state = ServiceState(database)
        state.note("results synced", "0.0")
        state.note("boot", "another")
        state.close()
        site.start()
        assert "2 accepted jobs of the last server were submitted again" in site.said
        tenant = site.again(tenant)
        for job, content in contents.items():
            assert tenant.ended(job)["state"] == "done"
            assert tenant("GET", f"/v1/jobs/{job}/outputs/y/1").body == content
    finally:
        site.stop()


def _noted(database: str, name: str) -> str:
    state = ServiceState(database)
    found = state.noted(name)
    state.close()
    return found or ""


def test_an_upload_goes_on_after_a_kill_in_its_midst(held):
    tenant = held.tenant("alice")
    content = random_bytes(3_000_000)
    upload = tenant.begin(content).json["upload"]
    path = f"/v1/uploads/{upload}"
    assert tenant("PUT", f"{path}?offset=0", content[:1_000_000]).status == 200
    head = (
        f"PUT {path}?offset=1000000 HTTP/1.1\r\nHost: x\r\nAuthorization: Bearer {tenant.token}\r\n"
        f"Content-Length: 2000000\r\n\r\n"
    )
    with socket.create_connection(("127.0.0.1", held.ports[0])) as connection:
        connection.sendall(head.encode() + content[1_000_000:2_500_000])
        eventually(lambda: tenant("GET", path).json["offset"] > 1_000_000)
        held.kill()
    held.start()
    tenant = held.again(tenant)
    offset = tenant("GET", path).json["offset"]
    assert 1_000_000 < offset <= 2_500_000
    assert tenant("PUT", f"{path}?offset={offset}", content[offset:]).json["offset"] == len(content)
    assert tenant("POST", f"{path}/commit").json["blob"] == hashlib.sha256(content).hexdigest()


def test_a_drained_server_refuses_jobs_says_so_and_ends_well(held):
    tenant, _ = with_jobs(held, 1)
    assert held.operator("POST", "/v1/drain").status == 202
    assert held.process.wait(20) == 0
    held.stop()
    assert held.said[-1] == "stopped"
    held.hold = False
    held.start()
    assert held.again(tenant).ended("job-0")["state"] == "done"


def test_a_waiting_client_is_answered_when_its_job_ends(tmp_path):
    site = Site(tmp_path)
    tenant, _ = with_jobs(site, 1)
    begun = time.monotonic()
    assert tenant.ended("job-0", 50)["state"] == "done"
    assert time.monotonic() - begun < 10
    assert site.stop() == 0


@needs_mounts
def test_a_full_disk_refuses_the_upload_and_the_service_goes_on(tmp_path):
    code = f"""
    import asyncio, hashlib, sys
    from pathlib import Path
    from penstock.service.http.config import embedded
    from penstock.service.http.keys import Keys
    from penstock.service.http.metrics import Metrics
    from penstock.service.state.problems import problem_of
    from penstock.service.state.state import ServiceState
    from penstock.service.state.tokens import Caller
    from penstock.service.http.uploads import Files, UnfinishedUploads
    from penstock.runtime.keystore import KeyStore

    elsewhere, disk = Path({str(tmp_path / "elsewhere")!r}), Path(sys.argv[1])
    elsewhere.mkdir()
    config = embedded(elsewhere)
    state = ServiceState(f"sqlite:///{{elsewhere / 'state.sqlite'}}")
    uploads = UnfinishedUploads(config, state, Files(disk), Keys(KeyStore(elsewhere / "keys"), state), Metrics())
    caller = Caller(tenant="a", token="t", scopes=frozenset({{"run"}}))

    def begin(content):
        digest = hashlib.sha256(content).hexdigest()
        return uploads.begin(caller, {{"kind": "input", "bytes": len(content), "sha256": digest}})["upload"]

    async def pieces(content):
        yield content

    def send(upload, offset, content):
        return asyncio.run(uploads.receive(caller, upload, offset, pieces(content)))["offset"]

    large, small = bytes(range(256)) * 800, b"small" * 100
    upload = begin(large)
    try:
        send(upload, 0, large)
    except OSError as error:
        problem = problem_of(error)
        print(problem.status, problem.kind)
    there = uploads.look(caller, upload)["offset"]
    print(0 < there < len(large))
    try:
        send(upload, there, large[there:])
    except OSError:
        pass
    uploads.drop(caller, upload)
    again = begin(small)
    send(again, 0, small)
    print(uploads.commit(caller, again)["blob"] == hashlib.sha256(small).hexdigest())
    """
    disk = tmp_path / "disk"
    disk.mkdir()
    ended = on_a_small_disk(disk, code)
    assert ended.stdout.split("\n")[:3] == ["507 disk-full", "True", "True"], ended.stderr


def test_what_has_expired_goes_and_inputs_of_waiting_jobs_stay(tmp_path):
    settings = '[retention]\nuploads = "1 ms"\ninputs = "1 ms"\nresults = "1 ms"\n'
    site = Site(tmp_path, hold=True, settings=settings)
    tenant, _ = with_jobs(site, 1)
    stale = random_bytes(10, 99)
    blob, begun = tenant.upload(stale).json["blob"], tenant.begin(b"never").json["upload"]
    site.stop()

    from penstock.service.http.config import read_config
    from penstock.service.http.logs import Log
    from penstock.service.http.service import ServiceFront
    from support.fake_computing import FakeComputing

    with (tmp_path / "log").open("w") as log:
        service = ServiceFront(read_config(site.config), Log(log), lambda _, jobs: FakeComputing(jobs, hold=True))
        assert service.start() == 1
        service.sweep()
        inputs = {row["sha256"] for row in service.state.blobs("alice", "input")}
        assert blob not in inputs
        assert len(inputs) == 1
        assert service.state.upload("alice", begun) is None
        assert not service.files.blob("alice", blob).exists()
        job = service.state.jobs("alice")[0]["job"]
        service.jobs.pool.release(job)
        eventually(lambda: service.state.job(job)["state"] == "done")
        assert list(service.files.results("alice", job).iterdir())
        time.sleep(0.01)
        service.sweep()
        assert service.state.job(job)["state"] == "expired"
        assert not service.files.results("alice", job).exists()
        assert service.state.blobs("alice", "input") == []
        service.close()
    assert json.loads((tmp_path / "log").read_text() or "{}") == {}


def test_a_job_is_tried_again_and_fails_with_the_reason(tmp_path):
    from penstock.service.http.config import embedded
    from penstock.service.http.logs import Log
    from penstock.service.http.service import ServiceFront
    from penstock.service.state.tokens import Caller as Who
    from support.fake_computing import FakeComputing

    service = ServiceFront(embedded(tmp_path / "state"), Log(), lambda _, jobs: FakeComputing(jobs))
    who = Who(tenant="a", token="t", scopes=frozenset({"run"}))
    description = {
        "inputs": [{"name": "x"}],
        "outputs": [{"name": "y"}],
        "keys": [],
        "predicted": {"key_bytes": 0, "seconds": 1.0, "memory_bytes": 1},
    }
    from support.serve_site import PARAMS

    service.state.put_program("a", "p", "k", {**description, "params": PARAMS.to_dict()})
    blob = {"tenant": "a", "sha256": "s", "kind": "input", "bytes": 1, "expires_s": None}
    service.state.end_upload("a", "none", blob)
    path = service.files.blob("a", "s")
    service.files.make(path)
    path.write_bytes(b"x")
    service.start()
    fake = service.jobs.pool
    form = {"program": "p", "inputs": {"x": "s"}, "priority": 0, "deadline_s": None}
    for fails, state in (
        ([("worker died", True)] * 2, "done"),
        ([("worker died", True)] * 3, "failed"),
        ([("the ciphertext is damaged", False)], "failed"),
    ):
        fake.fails = list(fails)
        job = f"{state}-{len(fails)}"
        service.jobs.submit(who, {"job": job, **form})
        eventually(lambda job=job: service.jobs.show("a", job)["state"] in ("done", "failed"))
        assert service.jobs.show("a", job)["state"] == state
    assert service.jobs.show("a", "failed-1")["reason"] == "the ciphertext is damaged"
    fake.hold, fake.most = True, 0
    from penstock.service.state.problems import Problem

    with pytest.raises(Problem) as refused:
        service.jobs.submit(who, {"job": "late", **form})
    assert (refused.value.status, refused.value.retry_after_s) == (429, 7)
    assert service.state.job_of("a", "late") is None
    service.close()


@pytest.mark.skipif(shutil.which("openssl") is None, reason="needs openssl, which makes a certificate")
def test_with_a_certificate_it_speaks_tls_only(tmp_path):
    command = "openssl req -x509 -newkey rsa:2048 -nodes -days 1 -subj /CN=localhost -keyout key.pem -out cert.pem"
    names = ["-addext", "subjectAltName=IP:127.0.0.1"]
    subprocess.run([*command.split(), *names], cwd=tmp_path, check=True, capture_output=True)
    (tmp_path / "key.pem").chmod(0o600)
    site = Site(tmp_path, settings='[tls]\ncertificate = "cert.pem"\nkey = "key.pem"\n')
    trusted = ssl.create_default_context(cafile=str(tmp_path / "cert.pem"))
    connection = http.client.HTTPSConnection("127.0.0.1", site.ports[0], context=trusted, timeout=20)
    connection.request("GET", "/v1/ready")
    assert connection.getresponse().read() == b'{"status":"ready"}'
    connection.close()
    with pytest.raises((http.client.HTTPException, OSError)):
        Caller(site.ports[0], None)("GET", "/v1/ready")
    assert all(":https:" in line.replace(" ", "") for line in site.said if line.startswith(("tenants", "operators")))
    assert site.stop() == 0
