"""The service over HTTP: tokens and scopes on every route, uploads, jobs, kills, fuzzed requests."""

from __future__ import annotations

import hashlib
import http.client
import json
import shutil
import socket
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path

import pytest

pytest.importorskip("fastapi")
pytest.importorskip("sqlalchemy")

from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from support.serve_site import Caller, Site, eventually, package_bytes, random_bytes

TENANT_ROUTES = {
    ("POST", "/v1/uploads"): None,
    ("GET", "/v1/uploads"): None,
    ("PUT", "/v1/uploads/{id}?offset=0"): None,
    ("GET", "/v1/uploads/{id}"): None,
    ("POST", "/v1/uploads/{id}/commit"): None,
    ("DELETE", "/v1/uploads/{id}"): None,
    ("POST", "/v1/programs"): "deploy",
    ("GET", "/v1/programs"): "read",
    ("GET", "/v1/programs/small"): "read",
    ("DELETE", "/v1/programs/small"): "deploy",
    ("GET", "/v1/programs/small/keys"): "read",
    ("GET", "/v1/keys"): "read",
    ("DELETE", "/v1/keys"): "keys",
    ("POST", "/v1/jobs"): "run",
    ("GET", "/v1/jobs"): "read",
    ("GET", "/v1/jobs/j"): "read",
    ("DELETE", "/v1/jobs/j"): "run",
    ("GET", "/v1/jobs/j/outputs/y/1"): "read",
    ("GET", "/v1/jobs/j/trace"): "read",
    ("DELETE", "/v1/tenant"): "keys",
}
"""Route -> the scope that it needs; `None`: that of the upload's kind."""
ADMIN_ROUTES = [
    ("GET", "/metrics"),
    ("GET", "/v1/work"),
    ("POST", "/v1/work"),
    ("GET", "/v1/trace"),
    ("GET", "/v1/audit"),
    ("POST", "/v1/drain"),
    ("POST", "/v1/tenants"),
    ("GET", "/v1/tenants"),
    ("DELETE", "/v1/tenants/alice"),
    ("POST", "/v1/tenants/alice/tokens"),
    ("GET", "/v1/tenants/alice/tokens"),
    ("POST", "/v1/tenants/alice/tokens/0123456789abcdef/rotate"),
    ("DELETE", "/v1/tenants/alice/tokens/0123456789abcdef"),
]
FORMS = {
    "/v1/uploads": {"kind": "input", "bytes": 3, "sha256": "0" * 64},
    "/v1/programs": {"name": "small", "package": "0" * 64},
    "/v1/jobs": {"job": "j", "program": "small", "inputs": {"x": "0" * 64}},
}
CHECKS = list(HealthCheck)
OPEN = {"/v1/health", "/v1/ready", "/openapi.json"}
QUICK = "[limits]\nrequests_per_s = 100000.0\ntenant_requests = 64\ntenant_bytes = '20 MB'\n"


@pytest.fixture(scope="module")
def site(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Site]:
    found = Site(tmp_path_factory.mktemp("serve"), settings=QUICK)
    yield found
    assert found.stop() == 0


@pytest.fixture(scope="module")
def alice(site: Site) -> Caller:
    found = site.tenant("alice")
    assert found.deploy(site.folder).status == 201
    return found


def send(caller: Caller, method: str, path: str, upload: str = "0" * 32) -> object:
    form = FORMS.get(path) if method == "POST" else None
    return caller(method, path.replace("{id}", upload), form)


def test_the_lists_of_routes_are_complete(site, alice):
    """The tests below see every route."""
    described = site.operator("GET", "/openapi.json").json["paths"]
    assert {path for path in described if path not in OPEN} >= {"/metrics", "/v1/drain"}
    assert sum(len(methods) for path, methods in described.items() if path not in OPEN) == len(ADMIN_ROUTES)
    described = alice("GET", "/openapi.json").json["paths"]
    assert sum(len(methods) for path, methods in described.items() if path not in OPEN) == len(TENANT_ROUTES)


def unlike(token: str) -> str:
    """A token that differs in its last character."""
    return token[:-1] + ("0" if token[-1] != "0" else "1")


def test_no_wrong_expired_and_ended_tokens_are_refused_on_every_route(site, alice):
    brief = site.tenant("alice", lasts_s=0.001)
    wrong = unlike(alice.token)
    time.sleep(0.01)
    for token in (None, wrong, "x", brief.token, unlike(site.operator_token)):
        for port, routes in ((site.ports[0], TENANT_ROUTES), (site.ports[1], ADMIN_ROUTES)):
            for method, path in routes:
                answer = send(Caller(port, token), method, path)
                assert answer.status in (401, 429), (method, path, answer)
                assert answer.headers["content-type"] == "application/problem+json"
                assert answer.json["remedy"]
            time.sleep(0.1)  # strangers are limited, too
    assert alice("GET", "/v1/programs").json["programs"][0]["name"] == "small"


def test_tokens_of_tenants_are_refused_where_operators_are_and_the_reverse(site, alice):
    for method, path in ADMIN_ROUTES:
        assert send(Caller(site.ports[1], alice.token), method, path).status == 403
    for method, path in TENANT_ROUTES:
        assert send(Caller(site.ports[0], site.operator_token), method, path).status == 403


@pytest.mark.parametrize("scope", ["deploy", "keys", "run", "read"])
def test_a_token_without_the_scope_is_refused_on_every_route(site, alice, scope):
    others = {"deploy", "keys", "run", "read"} - {scope}
    caller = site.tenant("alice", *others)
    for (method, path), needed in TENANT_ROUTES.items():
        if needed == scope:
            answer = send(caller, method, path)
            assert (answer.status, answer.json["type"]) == (403, "urn:penstock:scope"), (method, path)
    kinds = {"deploy": ["package"], "keys": ["key"], "run": ["input", "ciphertext"], "read": []}[scope]
    for kind in kinds:
        assert caller.begin(b"abc", kind).status == 403
        begun = alice.begin(kind.encode(), kind).json["upload"]
        for method, path in TENANT_ROUTES:
            if "{id}" in path:
                assert send(caller, method, path, begun).status == 403
        assert alice("DELETE", f"/v1/uploads/{begun}").status == 200


def test_nothing_of_another_tenant_is_seen_used_or_changed(site, alice):
    bob = site.tenant("bob")
    secret = random_bytes(1000, 5)
    blob = alice.upload(secret).json["blob"]
    started = alice.begin(random_bytes(10, 6)).json["upload"]
    for method in ("GET", "DELETE"):
        assert bob(method, f"/v1/uploads/{started}").status == 404
    assert bob("PUT", f"/v1/uploads/{started}?offset=0", b"x").status == 404
    assert bob("POST", f"/v1/uploads/{started}/commit").status == 404
    assert alice("GET", f"/v1/uploads/{started}").json["offset"] == 0
    assert "upload" in bob.begin(secret).json  # not a word that somebody has it
    assert bob("GET", "/v1/programs/small").status == 404
    assert bob("POST", "/v1/jobs", {"job": "b", "program": "small", "inputs": {"x": blob}}).status == 404
    assert bob.deploy(site.folder).status == 201
    stolen = bob("POST", "/v1/jobs", {"job": "b", "program": "small", "inputs": {"x": blob}})
    assert (stolen.status, stolen.json["type"]) == (422, "urn:penstock:inputs")
    assert alice("POST", "/v1/jobs", {"job": "a", "program": "small", "inputs": {"x": blob}}).status == 202
    assert alice.ended("a")["state"] == "done"
    assert bob("GET", "/v1/jobs/a/outputs/y/1").status == bob("GET", "/v1/jobs/a").status == 404
    assert bob("GET", "/v1/jobs").json["jobs"] == []
    assert bob("DELETE", "/v1/tenant").status == 200
    assert alice("GET", "/v1/jobs/a/outputs/y/1").body == secret


@pytest.mark.parametrize("size", [1, 4 << 20, (4 << 20) + 1, 6 << 20])
def test_a_result_is_the_same_bytes_whether_it_is_sent_at_once_or_in_pieces(site, size):
    content, dave = random_bytes(size, 3), site.tenant(f"dave-{size}")
    assert dave.deploy(site.folder).status == 201
    blob = dave.upload(content).json["blob"]
    assert dave("POST", "/v1/jobs", {"job": "j", "program": "small", "inputs": {"x": blob}}).status == 202
    assert dave.ended("j")["state"] == "done"
    answer = dave("GET", "/v1/jobs/j/outputs/y/1")
    assert (answer.status, answer.body) == (200, content)
    headers = {name.lower(): value for name, value in answer.headers.items()}
    assert (headers["content-type"], headers["content-length"]) == ("application/octet-stream", str(size))


def test_an_upload_in_pieces_goes_on_where_it_stopped(alice):
    content = random_bytes(900_000, 1)
    upload = alice.begin(content).json["upload"]
    path = f"/v1/uploads/{upload}"
    assert alice("PUT", f"{path}?offset=0", content[:300_000]).json["offset"] == 300_000
    for offset in (0, 299_999, 300_001):
        refused = alice("PUT", f"{path}?offset={offset}", b"abc")
        assert (refused.status, refused.json["offset"]) == (409, 300_000)
    assert alice("POST", f"{path}/commit").status == 409
    assert alice("PUT", f"{path}?offset=300000", content[300_000:]).json["offset"] == 900_000
    assert alice("PUT", f"{path}?offset=900000", b"x").status == 413
    assert alice("POST", f"{path}/commit").json["blob"] == hashlib.sha256(content).hexdigest()
    assert alice.begin(content).json == {"blob": hashlib.sha256(content).hexdigest()}
    assert alice("GET", path).status == 404


def test_a_damaged_upload_is_refused_and_gone(alice):
    content = random_bytes(1000, 2)
    upload = alice.begin(content).json["upload"]
    alice("PUT", f"/v1/uploads/{upload}?offset=0", content[:-1] + bytes([content[-1] ^ 1]))
    refused = alice("POST", f"/v1/uploads/{upload}/commit")
    assert (refused.status, refused.json["type"]) == (422, "urn:penstock:digest")
    assert alice("GET", f"/v1/uploads/{upload}").status == 404


def test_a_broken_connection_leaves_what_arrived(site, alice):
    content = random_bytes(1_000_000, 3)
    upload = alice.begin(content).json["upload"]
    head = (
        f"PUT /v1/uploads/{upload}?offset=0 HTTP/1.1\r\nHost: x\r\nAuthorization: Bearer {alice.token}\r\n"
        f"Content-Length: {len(content)}\r\n\r\n"
    )
    with socket.create_connection(("127.0.0.1", site.ports[0])) as connection:
        connection.sendall(head.encode() + content[:600_000])
        eventually(lambda: alice("GET", f"/v1/uploads/{upload}").json["offset"] > 0)
    offset = 0

    def settled() -> bool:
        nonlocal offset
        answer = alice("PUT", f"/v1/uploads/{upload}?offset={offset}", content[offset:])
        offset = answer.json.get("offset", offset)
        return bool(answer.status == 200)

    eventually(settled)
    assert alice("POST", f"/v1/uploads/{upload}/commit").status == 200


def test_quotas_count_unfinished_uploads(site):
    carol = site.tenant("carol")
    begun = [carol.begin(random_bytes(10, n) + bytes(6_000_000)) for n in range(3)]
    assert [answer.status for answer in begun] == [201, 201, 201]
    refused = carol.begin(random_bytes(11) + bytes(6_000_000))
    assert (refused.status, refused.json["type"]) == (507, "urn:penstock:quota")
    assert carol("DELETE", f"/v1/uploads/{begun[0].json['upload']}").status == 200
    assert carol.begin(random_bytes(11) + bytes(6_000_000)).status == 201


def test_bytes_that_are_no_package_or_key_are_refused_with_the_reason(site, alice):
    blob = alice.upload(b"PSTKPKG?" + random_bytes(2000), "package").json["blob"]
    refused = alice("POST", "/v1/programs", {"name": "bad", "package": blob})
    assert (refused.status, refused.json["type"]) == (422, "urn:penstock:package-refused")
    assert str(site.folder) not in refused.body.decode()
    truncated = package_bytes(site.folder)[:-40]
    blob = alice.upload(truncated, "package").json["blob"]
    assert alice("POST", "/v1/programs", {"name": "bad", "package": blob}).status == 422
    refused = alice.upload(random_bytes(3000), "key", params="small")
    assert (refused.status, refused.json["type"]) == (422, "urn:penstock:key-refused")
    assert str(site.folder) not in refused.body.decode()
    assert alice("GET", "/v1/keys").json["keys"] == []
    assert alice.upload(random_bytes(3000), "key", params="nothing").status == 404


def test_a_job_is_the_same_by_its_identity_and_another_content_is_refused(alice):
    blob = alice.upload(random_bytes(100, 8)).json["blob"]
    form = {"job": "same", "program": "small", "inputs": {"x": blob}, "priority": 3}
    assert alice("POST", "/v1/jobs", form).status == 202
    assert alice("POST", "/v1/jobs", form).status == 200
    assert alice("POST", "/v1/jobs", {**form, "priority": 4}).status == 409
    assert alice.ended("same")["figures"]["read_bytes"] == 7
    assert alice("POST", "/v1/jobs", form).json["state"] == "done"
    assert alice("GET", "/v1/jobs/same/outputs/z").status == 404
    gone = alice("DELETE", "/v1/jobs/same")
    assert gone.json["state"] == "expired"
    assert alice("GET", "/v1/jobs/same/outputs/y/1").status == 409


@pytest.mark.parametrize(
    "form",
    [
        {"job": "x", "program": "small", "inputs": {}},
        {"job": "x", "program": "small", "inputs": {"x": "0" * 64, "y": "0" * 64}},
        {"job": "x", "program": "small", "inputs": {"x": "0" * 64}, "priority": 10},
        {"job": "x", "program": "small", "inputs": {"x": "0" * 64}, "deadline_s": 0},
        {"job": "x", "program": "small", "inputs": {"x": "0" * 64}, "more": 1},
        {"job": "../x", "program": "small", "inputs": {"x": "0" * 64}},
        {"job": "x", "program": "small", "inputs": {"x": "0" * 64}},
    ],
)
def test_a_job_that_breaks_a_rule_is_refused(alice, form):
    refused = alice("POST", "/v1/jobs", form)
    assert refused.status == 422
    assert refused.json["remedy"]


def test_a_rotated_token_overlaps_and_then_ends(site):
    old = site.tenant("dora")
    identity = old.token.split("_")[1]
    path = f"/v1/tenants/dora/tokens/{identity}"
    made = site.operator("POST", f"{path}/rotate", {"overlap_s": 0.5})
    new = Caller(site.ports[0], made.json["token"])
    assert old("GET", "/v1/keys").status == new("GET", "/v1/keys").status == 200
    eventually(lambda: old("GET", "/v1/keys").status == 401)
    assert new("GET", "/v1/keys").status == 200
    new_identity = made.json["identity"]
    assert site.operator("DELETE", f"/v1/tenants/dora/tokens/{new_identity}").status == 200
    assert new("GET", "/v1/keys").status == 401


def test_neither_log_nor_answers_nor_files_hold_a_token(site, alice):
    secrets = [alice.token.rpartition("_")[2], site.operator_token.rpartition("_")[2]]
    alice("GET", f"/v1/programs?token={alice.token}")
    held = [site.log()]
    held += [path.read_bytes().decode("latin-1") for path in (site.folder / "state").glob("state.sqlite*")]
    held.append(site.operator("GET", "/v1/audit").body.decode())
    held.append(site.operator("GET", "/metrics").body.decode())
    assert not any(secret in text for secret in secrets for text in held)
    for line in site.log().splitlines():
        json.loads(line)
    actions = {entry["action"] for entry in site.operator("GET", "/v1/audit").json["entries"]}
    assert {"add tenant", "make token", "deploy", "submit"} <= actions


def test_metrics_are_in_prometheus_format(site, alice):
    text = site.operator("GET", "/metrics").body.decode()
    assert 'penstock_key_gets_total{outcome="hit"} 2' in text
    assert "penstock_key_hit_ratio 0.75" in text
    assert (
        'penstock_request_seconds_bucket{le="+Inf",route="/v1/jobs"}' in text
        or "penstock_request_seconds_bucket" in text
    )
    for line in text.splitlines():
        if not line.startswith("#"):
            assert float(line.rpartition(" ")[2]) >= 0


def test_no_evaluator_and_no_client_library_is_in_the_front(site):
    code = (
        "import sys, penstock.service.http.serve, penstock.service.http.programs\n"
        "names = [m for m in sys.modules if m.split('.')[0] in ('openfhe', 'penstock_client')"
        " or m.startswith(('penstock.runtime.client', 'penstock.program.openfhe', 'penstock.runtime.native'))]\n"
        "assert not names, names"
    )
    subprocess.run([sys.executable, "-c", code], check=True)
    maps = Path(f"/proc/{site.process.pid}/maps").read_text().lower()
    assert "openfhe" not in maps
    assert "penstock_client" not in maps


def raw(site: Site, content: bytes, wait_s: float = 5.0) -> bytes:
    """What the server answers to bytes."""
    with socket.create_connection(("127.0.0.1", site.ports[0]), timeout=wait_s) as connection:
        # A server that refuses may close before it has read everything.
        with suppress(OSError):
            connection.sendall(content)
            connection.shutdown(socket.SHUT_WR)
        found = b""
        try:
            while piece := connection.recv(65536):
                found += piece
        except (ConnectionResetError, TimeoutError):
            pass
        return found


def raw_answer(site: Site, content: bytes) -> bytes:
    """The same, again where the reset of a connection took the answer with it."""
    return next((found for found in (raw(site, content) for _ in range(20)) if found), b"")


def test_a_body_longer_than_allowed_is_refused_before_it_is_read(site, alice):
    head = f"POST /v1/jobs HTTP/1.1\r\nHost: x\r\nAuthorization: Bearer {alice.token}\r\n"
    answer = raw_answer(site, head.encode() + b"Content-Length: 1000000\r\n\r\n" + b"x" * 200_000)
    assert answer.startswith(b"HTTP/1.1 413")
    endless = b"".join(b"8000\r\n" + b"x" * 32768 + b"\r\n" for _ in range(6))
    chunked = head.encode() + b"Transfer-Encoding: chunked\r\n\r\n" + endless
    assert raw_answer(site, chunked).startswith(b"HTTP/1.1 413")


WORDS = st.sampled_from(
    [
        *FORMS,
        "/v1/tenant",
        "/v1/keys",
        "/v1/jobs/j",
        "/v1/uploads/" + "0" * 32,
        "/v1/programs/small/keys",
        "/v1/%00",
        "//",
    ]
)
VALUES = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=20),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=8), inner, max_size=4),
    max_leaves=8,
)


@st.composite
def forms(draw: st.DrawFn) -> bytes:
    """A body near a right one: members missing, of another type, or too many; or any bytes."""
    if draw(st.integers(0, 4)) == 0:
        return draw(st.binary(max_size=200))
    form = dict(draw(st.sampled_from(list(FORMS.values()))))
    for name in draw(st.lists(st.sampled_from(sorted(form)), max_size=2)):
        form[name] = draw(VALUES)
    form.update(draw(st.dictionaries(st.text(max_size=5), VALUES, max_size=1)))
    return json.dumps(form).encode()


def test_fuzzed_requests_get_an_answer_and_never_a_failure(site):
    fuzz = site.tenant("fuzz", "read", "run", "deploy")
    connection = http.client.HTTPConnection("127.0.0.1", site.ports[0], timeout=20)
    counts: dict[int, int] = {}

    def ask(method: str, path: str, body: bytes) -> None:
        headers = {"authorization": f"Bearer {fuzz.token}", "content-type": "application/json"}
        try:
            connection.request(method, path, body, headers)
            answer = connection.getresponse()
            content = answer.read()
        except OSError:
            connection.close()  # so that the next example tells the same
            raise
        counts[answer.status] = counts.get(answer.status, 0) + 1
        assert answer.status < 500, (method, path, body, content)
        if answer.status >= 400:
            assert json.loads(content)["remedy"]

    @settings(max_examples=400, database=None, suppress_health_check=CHECKS, derandomize=True)
    @given(st.sampled_from(["GET", "POST", "PUT", "DELETE", "PATCH"]), WORDS, st.binary(max_size=12), forms())
    def check(method: str, path: str, tail: bytes, body: bytes) -> None:
        ask(method, path + "".join(f"%{byte:02x}" for byte in tail), body)
        for form_path in FORMS:
            ask("POST", form_path, body)
        ask("PUT", f"/v1/uploads/{'0' * 32}?offset={len(tail)}", body)

    check()
    connection.close()
    assert sum(counts.values()) >= 2000
    assert '"event": "failure"' not in site.log()


def test_bytes_that_are_not_http_do_not_disturb(site, alice):
    for seed in range(200):
        raw(site, random_bytes(64, seed) + b"\r\n\r\n")
    assert alice("GET", "/v1/ready").status == 200


def test_large_uploads_take_little_memory(site):
    def peak() -> int:
        status = Path(f"/proc/{site.process.pid}/status").read_text()
        return int(next(line.split()[1] for line in status.splitlines() if line.startswith("VmHWM"))) * 1024

    if shutil.disk_usage(site.folder).free < 2_000_000_000:
        pytest.skip("needs 2 GB of free disk")
    erna = site.tenant("erna")
    piece, before = bytes(1 << 20), peak()
    upload = erna("POST", "/v1/uploads", {"kind": "input", "bytes": 19 << 20, "sha256": "0" * 64}).json["upload"]
    for at in range(19):
        assert erna("PUT", f"/v1/uploads/{upload}?offset={at << 20}", piece).status == 200
    assert erna("POST", f"/v1/uploads/{upload}/commit").status == 422
    assert peak() - before < 64_000_000
