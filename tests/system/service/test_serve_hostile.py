"""Bad input to a running service: wrong tokens, replays, bodies, floods, packages that lie, a full disk, an outage.

Each ends with a clear status and a problem document, is counted in /metrics, and the service goes on.
"""

from __future__ import annotations

import asyncio
import http.client
import json
import re
import socket
import ssl
import subprocess
import threading
import time
from collections.abc import Iterator
from contextlib import ExitStack, suppress
from pathlib import Path
from typing import Any

import pytest

pytest.importorskip("fastapi")
pytest.importorskip("sqlalchemy")

from support.postgres import cluster, missing
from support.serve_site import Caller, Site, eventually, package_bytes, random_bytes
from support.small_disk import needs_mounts, on_a_small_disk

OPEN = {"/v1/health", "/v1/ready", "/openapi.json"}
FORMS: dict[str, Any] = {
    "/v1/uploads": {"kind": "input", "bytes": 3, "sha256": "0" * 64},
    "/v1/programs": {"name": "small", "package": "0" * 64},
    "/v1/jobs": {"job": "mine", "program": "small", "inputs": {"x": "0" * 64}},
    "/v1/tenants": {"tenant": "new"},
    "/v1/tenants/{tenant}/tokens": {"scopes": ["read"]},
    "/v1/tenants/{tenant}/tokens/{identity}/rotate": {"overlap_s": 0.0},
}
WINDOW_S, SLOW_S = 3.0, 18.0


class Dribble(threading.Thread):
    """A body at one byte a second, from the start of these tests on."""

    def __init__(self, site: Site, token: str | None) -> None:
        super().__init__(daemon=True)
        self._port, self._token, self.answer, self.took_s = site.ports[0], token, b"", 0.0

    def run(self) -> None:
        begun = time.monotonic()
        with socket.create_connection(("127.0.0.1", self._port), timeout=1) as slow, suppress(OSError):
            head = f"POST /v1/jobs HTTP/1.1\r\nHost: x\r\nAuthorization: Bearer {self._token}\r\n"
            slow.sendall(f"{head}Content-Length: 500\r\n\r\n".encode())
            while not self.answer and time.monotonic() - begun < SLOW_S:
                slow.sendall(b" ")
                with suppress(TimeoutError):
                    self.answer = slow.recv(65536)
        self.took_s = time.monotonic() - begun


@pytest.fixture(scope="module")
def site(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Site]:
    settings = "[limits]\nrequests_per_s = 100000.0\n"
    found = Site(tmp_path_factory.mktemp("hostile"), settings=settings, window_s=WINDOW_S)
    yield found
    assert found.stop() == 0


@pytest.fixture(scope="module")
def alice(site: Site) -> Caller:
    found = site.tenant("alice")
    assert found.deploy(site.folder).status == 201
    return found


@pytest.fixture(scope="module", autouse=True)
def dribble(site: Site, alice: Caller) -> Dribble:
    found = Dribble(site, alice.token)
    found.start()
    return found


def routes(caller: Caller) -> list[tuple[str, str]]:
    """Every route that the application has, but the open ones."""
    described = caller("GET", "/openapi.json").json["paths"]
    found = [(method.upper(), path) for path, methods in described.items() for method in methods if path not in OPEN]
    assert len(found) > 5
    return found


def filled(path: str, **names: str) -> str:
    """The path with these names."""
    return re.sub(r"{(\w+)}", lambda found: names[found[1]], path)


def refused(answer: Any, *statuses: int) -> None:
    """It is one of these refusals, as a problem document."""
    assert answer.status in statuses, answer
    assert answer.headers["content-type"] == "application/problem+json"
    assert answer.json["remedy"]
    assert answer.json["status"] == answer.status


def refusals(site: Site, status: int) -> float:
    """How many the metrics count."""
    text = site.operator("GET", "/metrics").body.decode()
    lines = [line for line in text.splitlines() if line.startswith("penstock_requests_total") and f'"{status}"' in line]
    return sum(float(line.rpartition(" ")[2]) for line in lines)


def test_no_route_takes_a_wrong_expired_or_ended_token_or_one_of_the_other_listener(site: Site, alice: Caller) -> None:
    brief, ended = site.tenant("alice", lasts_s=0.001), site.tenant("alice")
    identity = str(ended.token).split("_")[1]
    assert site.operator("DELETE", f"/v1/tenants/alice/tokens/{identity}").status == 200
    wrong = str(alice.token)[:-1] + ("0" if str(alice.token)[-1] != "0" else "1")
    names = {"upload": "0" * 32, "name": "small", "job": "mine", "tenant": "alice", "identity": identity}
    before = refusals(site, 401) + refusals(site, 429)
    count = 0
    for port, other in ((site.ports[0], site.operator_token), (site.ports[1], alice.token)):
        for method, path in routes(Caller(port, None)):
            body = FORMS.get(path) if method == "POST" else None
            for token in (None, wrong, "pst_x", brief.token, ended.token):
                refused(Caller(port, token)(method, filled(path, **names), body), 401, 429)
                count += 1
            refused(Caller(port, other)(method, filled(path, **names), body), 403)
    assert refusals(site, 401) + refusals(site, 429) - before == count
    assert alice("GET", "/v1/programs").json["programs"][0]["name"] == "small"


def test_no_route_shows_or_changes_anything_of_another_tenant(site: Site, alice: Caller) -> None:
    mallory = site.tenant("mallory")
    blob = alice.upload(random_bytes(500, 1)).json["blob"]
    form = {"job": "mine", "program": "small", "inputs": {"x": blob}}
    assert alice("POST", "/v1/jobs", form).status == 202
    assert alice.ended("mine")["state"] == "done"
    upload = alice.begin(random_bytes(500, 2)).json["upload"]
    package = alice("GET", "/v1/programs/small").json["package"]

    def state() -> list[Any]:
        return [alice("GET", f"/v1/{what}").json for what in ("programs", "keys", "jobs", "uploads")]

    before = state()
    names = {"upload": upload, "name": "small", "job": "mine"}
    bodies = {"/v1/programs": {"name": "small", "package": package}, "/v1/jobs": form}
    for method, path in routes(mallory):
        target = filled(path, **{**names, **({"name": "y/1"} if "outputs" in path else {})})
        body = bodies.get(path, FORMS.get(path)) if method == "POST" else b"x" if method == "PUT" else None
        answer = mallory(method, f"{target}?offset=0" if method == "PUT" else target, body)
        if "{" in path or path in bodies:
            if method == "POST" or path not in bodies:
                refused(answer, 404)
        else:
            assert answer.status in (200, 201), (method, path, answer)
        told = answer.body.decode() if method == "GET" or answer.status < 400 else ""
        # A refusal repeats the name that was asked for, and tells nothing more.
        assert blob not in told
        assert package not in told
    assert state() == before
    assert alice("GET", "/v1/jobs/mine/outputs/y/1").body == random_bytes(500, 1)


def test_a_replayed_request_has_no_second_effect(site: Site, alice: Caller) -> None:
    content = random_bytes(900, 3)
    begun = alice.begin(content)
    piece, commit = f"/v1/uploads/{begun.json['upload']}?offset=0", f"/v1/uploads/{begun.json['upload']}/commit"
    assert alice("PUT", piece, content).status == 200
    again = alice("PUT", piece, content)
    refused(again, 409)
    assert again.json["offset"] == 900
    blob = alice("POST", commit).json["blob"]
    refused(alice("POST", commit), 404)
    refused(alice("PUT", piece, content), 404)
    assert alice.begin(content).json == {"blob": blob}
    form = {"job": "again", "program": "small", "inputs": {"x": blob}}
    assert [alice("POST", "/v1/jobs", form).status for _ in range(3)] == [202, 200, 200]
    ended = alice.ended("again")
    assert alice("POST", "/v1/jobs", form).json == ended
    assert [row["job"] for row in alice("GET", "/v1/jobs").json["jobs"]].count("again") == 1
    rotated = site.tenant("alice")
    identity = str(rotated.token).split("_")[1]
    path = f"/v1/tenants/alice/tokens/{identity}/rotate"
    assert site.operator("POST", path, {}).status == 201
    refused(site.operator("POST", path, {}), 409)


def sent(site: Site, content: bytes, *, ends: bool = True) -> bytes:
    """The answer to these bytes. `ends`: the sender says that nothing more will come."""
    found = b""
    with socket.create_connection(("127.0.0.1", site.ports[0]), timeout=15) as connection, suppress(OSError):
        with suppress(OSError):
            connection.sendall(content)
            if ends:
                connection.shutdown(socket.SHUT_WR)
        while piece := connection.recv(65536):
            found += piece
    return found


def test_bodies_that_are_shorter_than_said_or_never_end_have_no_effect(site: Site, alice: Caller) -> None:
    head = f"Host: x\r\nAuthorization: Bearer {alice.token}\r\nContent-Type: application/json\r\n"
    blob = alice.upload(random_bytes(70, 5)).json["blob"]
    whole = json.dumps({"job": "short", "program": "small", "inputs": {"x": blob}})
    short = f"POST /v1/jobs HTTP/1.1\r\n{head}Content-Length: {len(whole) + 10}\r\n\r\n{whole}"
    assert b" 202 " not in sent(site, short.encode())[:30]
    refused(alice("GET", "/v1/jobs/short"), 404)
    # More than said is the next request, and none.
    longer = f"GET /v1/jobs HTTP/1.1\r\n{head}Content-Length: 2\r\n\r\n{{}}{whole}"
    assert sent(site, longer.encode()).count(b"HTTP/1.1 ") <= 2
    refused(alice("GET", "/v1/jobs/short"), 404)
    upload = alice.begin(random_bytes(1000, 6)).json["upload"]
    endless = f"PUT /v1/uploads/{upload}?offset=0 HTTP/1.1\r\n{head}Transfer-Encoding: chunked\r\n\r\n".encode()
    for _ in range(20):  # a reset may take the answer with it
        answer = sent(site, endless + b"8000\r\n" + b"x" * 32768 + b"\r\n", ends=False)
        if answer:
            break
    assert answer.startswith(b"HTTP/1.1 413")
    assert alice("GET", f"/v1/uploads/{upload}").json["offset"] == 0


def test_what_is_not_http_is_counted(site: Site, alice: Caller) -> None:
    sent(site, b"\x16\x03\x01\x02\x00\r\n\r\n")
    text = site.operator("GET", "/metrics").body.decode()
    found = re.search(r'penstock_connections_refused_total{why="malformed"} (\d+)', text)
    assert found is not None
    assert int(found[1]) >= 1
    assert alice("GET", "/v1/ready").status == 200


@pytest.mark.smoke
def test_a_package_that_lies_about_its_sizes_is_refused_and_the_service_goes_on(site: Site, alice: Caller) -> None:
    honest = package_bytes(site.folder)
    before = refusals(site, 422)
    for number, lie in enumerate((b"\xff\xff\xff\x7f", b"\xff" * 8)):
        # The first numbers behind the magic are lengths and counts.
        content = honest[:16] + lie + honest[16 + len(lie) :]
        blob = alice.upload(content, "package").json["blob"]
        answer = alice("POST", "/v1/programs", {"name": f"lie-{number}", "package": blob})
        refused(answer, 422)
        assert answer.json["type"] in ("urn:penstock:package-refused", "urn:penstock:package-size")
    assert refusals(site, 422) - before == 2
    assert alice("GET", "/v1/ready").status == 200


def test_many_small_requests_are_refused_with_a_time_and_others_are_answered(tmp_path: Path) -> None:
    site = Site(tmp_path, settings="[limits]\nrequests_per_s = 5.0\ntenant_requests = 2\n")
    try:
        flood, bob = site.tenant("flood"), site.tenant("bob")
        answers = [flood("GET", "/v1/keys") for _ in range(60)]
        late = [each for each in answers if each.status == 429]
        assert len(late) >= 30
        for each in late:
            refused(each, 429)
            assert int(each.headers["retry-after"]) >= 1
        assert bob("GET", "/v1/keys").status == 200
        assert refusals(site, 429) == len(late)
        time.sleep(0.5)
        assert flood("GET", "/v1/keys").status == 200
    finally:
        site.stop()


class Strangers(threading.Thread):
    """Connections that begin anew whenever they end. `sent` may answer an answer: with keep-alive."""

    def __init__(self, port: int, count: int, sent: bytes) -> None:
        super().__init__(daemon=True)
        self._port, self._count, self._sent = port, count, sent
        self.opened, self._over, self._all = 0, threading.Event(), threading.Event()

    async def _one(self) -> None:
        while not self._over.is_set():
            with suppress(OSError, asyncio.TimeoutError):
                reader, writer = await asyncio.wait_for(asyncio.open_connection("127.0.0.1", self._port), 3)
                self.opened += 1
                if self.opened >= self._count:
                    self._all.set()
                writer.write(self._sent)
                while not self._over.is_set():
                    with suppress(asyncio.TimeoutError):
                        if not await asyncio.wait_for(reader.read(4096), 0.3):
                            break
                        writer.write(self._sent)
                writer.close()
            await asyncio.sleep(0.02)

    async def _many(self) -> None:
        await asyncio.gather(*(self._one() for _ in range(self._count)))

    def run(self) -> None:
        asyncio.run(self._many())

    def __enter__(self) -> Strangers:
        self.start()
        assert self._all.wait(20)
        return self

    def __exit__(self, *_: object) -> None:
        self._over.set()
        self.join(20)


HALF = b"POST /v1/jobs HTTP/1.1\r\nHost: x\r\nContent-Length: 500\r\n\r\nabc"
WRONG = f"GET /v1/jobs HTTP/1.1\r\nHost: x\r\nAuthorization: Bearer pst_{'0' * 16}_{'1' * 64}\r\n\r\n".encode()
READY = b"GET /v1/ready HTTP/1.1\r\nHost: x\r\n\r\n"


@pytest.mark.parametrize("bounds", ["", "connections = 64\naddress_connections = 16\n"], ids=["default", "few"])
@pytest.mark.parametrize("sent", [HALF, WRONG, READY, b"", b"GET /v1/jobs HTTP/1.1\r\nHo", b"\x16\x03\x01\r\n\r\n"])
def test_strangers_neither_refuse_nor_reset_a_tenant(tmp_path: Path, sent: bytes, bounds: str) -> None:
    """A flood from the tenant's own address. Before, three of four honest connections were reset."""
    site = Site(tmp_path, settings=f"[limits]\n{bounds}")
    try:
        alice = site.tenant("alice")
        kept = http.client.HTTPConnection("127.0.0.1", site.ports[0], timeout=20)
        with Strangers(site.ports[0], 100 if bounds else 300, sent) as strangers:
            for _ in range(15):
                assert alice("GET", "/v1/programs").status == 200
                kept.request("GET", "/v1/programs", headers={"Authorization": f"Bearer {alice.token}"})
                answer = kept.getresponse()
                assert (answer.status, answer.read()) == (200, b'{"programs":[]}')
                assert kept.sock is not None
        kept.close()
        assert strangers.opened >= 100
        # What anybody can cause is in the log in samples, and counted whole.
        assert site.log().count("\n") < 60
        if sent == WRONG:
            assert refusals(site, 401) + refusals(site, 429) > 20
    finally:
        site.stop()


def test_a_stranger_reads_its_refusal_though_its_body_is_on_the_way(site: Site, alice: Caller) -> None:
    """Of the body nothing is waited for before the answer, and it does not take the answer back."""
    head = f"PUT /v1/uploads/{'0' * 32}?offset=0 HTTP/1.1\r\nHost: x\r\nContent-Length: 200000\r\n\r\n"
    for _ in range(3):
        answer = sent(site, head.encode() + bytes(150_000), ends=False)
        assert answer.startswith((b"HTTP/1.1 401", b"HTTP/1.1 429")), answer[:100]
        assert b"connection: close" in answer
        assert answer.endswith(b"}")
    begun = time.monotonic()
    with socket.create_connection(("127.0.0.1", site.ports[0]), timeout=15) as connection:
        connection.sendall(head.encode())
        assert connection.recv(65536).startswith(b"HTTP/1.1 4")
    assert time.monotonic() - begun < 0.9


def test_a_tenants_connection_outlasts_retry_after_and_a_strangers_does_not(site: Site, alice: Caller) -> None:
    named = {"Authorization": f"Bearer {alice.token}"}
    found: dict[str, http.client.HTTPConnection] = {}
    for whose in ("alice", "stranger"):
        found[whose] = http.client.HTTPConnection("127.0.0.1", site.ports[0], timeout=20)
        path = "/v1/jobs/none" if whose == "alice" else "/v1/ready"
        found[whose].request("GET", path, headers=named if whose == "alice" else {})
        assert found[whose].getresponse().read()
    time.sleep(5.3)  # above the `Retry-After: 5` of the service itself
    for whose, kept in found.items():
        assert kept.sock is not None
        kept.sock.setblocking(False)
        if whose == "alice":
            with pytest.raises(BlockingIOError):
                kept.sock.recv(1)
            kept.sock.settimeout(20)
            kept.request("GET", "/v1/jobs/none", headers=named)
            assert kept.getresponse().status == 404
        else:
            assert kept.sock.recv(1) == b""
        kept.close()


def test_a_drain_closes_what_is_idle_and_says_so_in_answers(tmp_path: Path) -> None:
    site = Site(tmp_path)
    try:
        alice = site.tenant("alice")
        named = {"Authorization": f"Bearer {alice.token}"}
        idle, asking = (http.client.HTTPConnection("127.0.0.1", site.ports[0], timeout=20) for _ in range(2))
        idle.request("GET", "/v1/programs", headers=named)
        assert idle.getresponse().read()
        asking.request("GET", "/v1/jobs?after=start&wait=0", headers=named)
        cursor = json.loads(asking.getresponse().read())["after"]
        asking.request("GET", f"/v1/jobs?after={cursor}&wait=5", headers=named)
        assert site.operator("POST", "/v1/drain").status == 202
        answer = asking.getresponse()
        assert (answer.status, answer.headers["connection"]) == (200, "close")
        assert idle.sock is not None
        assert idle.sock.recv(1) == b""
        idle.close()
        asking.close()
    finally:
        site.stop()


def test_handshakes_that_never_end_keep_no_tenant_out(tmp_path: Path) -> None:
    """They have places from their accept on, and leave for newcomers."""
    certificate, key = tmp_path / "certificate.pem", tmp_path / "key.pem"
    words = ["openssl", "req", "-x509", "-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:P-256", "-nodes", "-days", "2"]
    words += ["-subj", "/CN=127.0.0.1", "-addext", "subjectAltName=IP:127.0.0.1"]
    subprocess.run([*words, "-out", certificate, "-keyout", key], check=True, capture_output=True)
    key.chmod(0o600)
    tls = '[tls]\ncertificate = "certificate.pem"\nkey = "key.pem"\n'
    site = Site(tmp_path, settings=f"[limits]\nconnections = 32\naddress_connections = 8\n{tls}")
    context = ssl.create_default_context(cafile=str(certificate))

    def asked(kept: http.client.HTTPSConnection) -> int:
        kept.request("GET", "/v1/health")
        answer = kept.getresponse()
        assert answer.read()
        return answer.status

    try:
        with ExitStack() as held:
            for _ in range(60):
                silent = socket.create_connection(("127.0.0.1", site.ports[0]), timeout=15)
                held.callback(silent.close)
            time.sleep(0.7)  # newcomers do not leave at once
            for _ in range(5):
                kept = http.client.HTTPSConnection("127.0.0.1", site.ports[0], timeout=15, context=context)
                assert [asked(kept), asked(kept)] == [200, 200]
                kept.close()
            descriptors = len(list(Path(f"/proc/{site.process.pid}/fd").iterdir()))
            assert descriptors < 60
            begun = time.monotonic()
            assert silent.recv(1) == b""  # its time ends, too
            assert time.monotonic() - begun < 8
    finally:
        site.stop()


def test_a_database_that_goes_and_comes_back_is_a_refusal_in_between(tmp_path: Path) -> None:
    if why := missing():
        pytest.skip(why)
    pytest.importorskip("pg8000")
    with cluster() as database:
        site = Site(tmp_path, database=database.url)
        try:
            tenant = site.tenant("alice")
            assert tenant.deploy(site.folder).status == 201
            blob = tenant.upload(random_bytes(50, 7)).json["blob"]
            database.stop()
            for method, path in (("GET", "/v1/programs"), ("GET", "/v1/ready"), ("POST", "/v1/jobs")):
                answer = tenant(method, path, {"job": "j", "program": "small", "inputs": {"x": blob}})
                refused(answer, 503)
                assert answer.json["type"] == "urn:penstock:database"
                assert answer.headers["retry-after"]
            assert tenant("GET", "/v1/health").status == 200
            database.start()
            eventually(lambda: tenant("GET", "/v1/ready").status == 200)
            assert tenant("POST", "/v1/jobs", {"job": "j", "program": "small", "inputs": {"x": blob}}).status == 202
            assert tenant.ended("j")["state"] == "done"
            assert refusals(site, 503) >= 3
        finally:
            site.stop()


@needs_mounts
def test_a_full_disk_is_a_refusal_and_the_service_goes_on(tmp_path: Path) -> None:
    code = f"""
    import sys
    from pathlib import Path
    sys.path[:0] = [{str(Path(__file__).parents[3])!r}, {str(Path(__file__).parents[2])!r}]
    from support.serve_site import Site, random_bytes
    site = Site(Path(sys.argv[1]))
    try:
        tenant = site.tenant("alice")
        begun = tenant.begin(random_bytes(1) + bytes(48_000_000)).json["upload"]
        for at in range(200):  # no more at once than a server reads of what it refuses
            answer = tenant("PUT", f"/v1/uploads/{{begun}}?offset={{at * 250_000}}", bytes(250_000))
            if answer.status != 200:
                break
        print(answer.status, answer.json["type"], answer.headers["retry-after"])
        print(tenant("GET", "/v1/health").status)
        print(tenant("DELETE", f"/v1/uploads/{{begun}}").status)
        print(tenant.upload(b"small").status)
        text = site.operator("GET", "/metrics").body.decode()
        print(any('status="507"' in line for line in text.splitlines()))
    finally:
        site.stop()
    """
    disk = tmp_path / "disk"
    disk.mkdir()
    ended = on_a_small_disk(disk, code, size="40m")
    assert ended.stdout.split("\n")[:5] == ["507 urn:penstock:disk-full 30", "200", "200", "200", "True"], ended.stderr


def test_a_body_at_one_byte_a_second_is_refused(site: Site, alice: Caller, dribble: Dribble) -> None:
    dribble.join(SLOW_S + 5)
    assert dribble.answer.startswith(b"HTTP/1.1 408"), dribble.answer
    assert b"application/problem+json" in dribble.answer
    assert dribble.took_s < SLOW_S
    assert refusals(site, 408) >= 1
    assert alice("GET", "/v1/ready").status == 200
