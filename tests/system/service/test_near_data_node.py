"""The key node: the same words as here, and what it refuses."""

from __future__ import annotations

import json
import os
import shutil
import signal
import socket
import stat
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from contextlib import ExitStack, suppress
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import penstock as ps
from penstock import _engine
from penstock.errors import PenstockError, UsageError
from penstock.front.cli.main import main
from penstock.program.running.reading import resolve
from penstock.runtime.keystore import BudgetTooSmall, KeyStore, parameter_digest
from penstock.runtime.native.engine import EngineHere, make_context
from penstock.service.near.frames import MAGIC, MAX_HEADER_BYTES, PREFIX, VERSION, Kind, encode_prefix
from penstock.service.near.link import Link, LinkClosed, TokenBucket, connect, parse_address
from penstock.service.near.node import KeyNode, NodeOptions
from penstock.service.near.remote import NodeEngine, NodeRefused, PulledKeys, RemoteNode
from penstock.service.near.tokens import read_secret, token_of
from penstock.service.owners import Owners, PreparedJob
from penstock.service.tenants import Job
from support.prepared_jobs import inputs_of, outputs, outputs_here

pytestmark = pytest.mark.usefixtures("encrypting")
SECRET = "a-secret-of-many-bytes"
PARAMS = resolve("inner-product", None, "ci")[2]
# One that hoists, multiplies, squares and rotates.
PROGRAMS = ("inner-product", "matrix-multiplication", "filter-aggregate")


@pytest.fixture(scope="module")
def made(tmp_path_factory: pytest.TempPathFactory, encrypting: str) -> Iterator[tuple[Path, dict[str, PreparedJob]]]:
    folder = tmp_path_factory.mktemp("near") / "keys"
    clients = Owners(folder)
    jobs = {name: Job(tenant="alice", workload=name, size="ci", params=PARAMS.name) for name in PROGRAMS}
    yield folder, dict(zip(jobs, clients.prepare(list(jobs.values())), strict=True))
    clients.release()


@pytest.fixture(scope="module")
def expected(made: Any) -> dict[str, list[bytes]]:
    """The results of a run here."""
    folder, jobs = made
    return {name: outputs_here(folder, job) for name, job in jobs.items()}


def options(**changes: Any) -> NodeOptions:
    return NodeOptions(**{"budget_bytes": 8 * PARAMS.key_bytes(), "hello_timeout_s": 0.5, **changes})


@pytest.fixture(params=["unix", "loopback"])
def node(made: Any, tmp_path: Path, request: pytest.FixtureRequest) -> Iterator[KeyNode]:
    address = f"unix:{tmp_path}/n" if request.param == "unix" else "127.0.0.1:0"
    with KeyNode(PARAMS, KeyStore(made[0]), SECRET, address, options()) as made_node:
        made_node.start()
        yield made_node


def remote(node: KeyNode, job: PreparedJob, **changes: Any) -> RemoteNode:
    given = {"tenant": "alice", "key_tag": job.spec.secret_tag, "timeout_s": 20.0, **changes}
    return RemoteNode(node.address, PARAMS, **{"token": token_for(given["tenant"], given["key_tag"]), **given})


def token_for(tenant: str, key_tag: str, digest: str = parameter_digest(PARAMS)) -> str:
    return token_of(SECRET, tenant, digest, key_tag)


@pytest.mark.parametrize("name", PROGRAMS)
def test_near_and_pulled_results_are_the_local_ones_word_for_word(
    made: Any, expected: dict[str, list[bytes]], node: KeyNode, name: str
) -> None:
    job, engine = made[1][name], make_context(PARAMS, 1)
    with remote(node, job) as there:
        assert outputs(NodeEngine(PARAMS, engine, there), job) == expected[name]
    with remote(node, job) as there:
        pulled = PulledKeys(there, engine)
        assert outputs(EngineHere(PARAMS, engine, pulled), job) == expected[name]
        assert there.link.received_bytes == job.key_bytes
        assert pulled.traffic().misses == len(job.program.uses)
    assert node.served.failures == 0
    assert node.served.operations == len(job.program.uses)


def test_several_clients_at_once_get_their_own_results(
    made: Any, expected: dict[str, list[bytes]], node: KeyNode
) -> None:
    job = made[1]["inner-product"]
    results: list[list[bytes]] = []

    def client() -> None:
        with remote(node, job) as there:
            results.append(outputs(NodeEngine(PARAMS, make_context(PARAMS, 1), there), job))

    threads = [threading.Thread(target=client) for _ in range(3)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert results == [expected["inner-product"]] * 3


def test_a_wrong_token_is_refused(made: Any, node: KeyNode) -> None:
    job = made[1]["inner-product"]
    right = token_for("alice", job.spec.secret_tag)
    for token in (right[:-1], right + "x", right.upper(), "é" * 64, "\ud800", SECRET):
        with pytest.raises(NodeRefused, match="penstock keys token"):
            remote(node, job, token=token)
    assert node.served.clients == 0
    assert node.served.refused == 6


def test_a_token_admits_no_other_tenant_key_pair_or_parameters(made: Any, node: KeyNode) -> None:
    tag = made[1]["inner-product"].spec.secret_tag
    wrongs = [token_for("bob", tag), token_for("alice", "0" * 32), token_for("alice", tag, "0" * 32)]
    # The same letters, cut elsewhere.
    wrongs += [token_for("alic", parameter_digest(PARAMS)[1:] + tag, "e" + parameter_digest(PARAMS)[:1])]
    for token in wrongs:
        with pytest.raises(NodeRefused, match="not that of this tenant"):
            remote(node, made[1]["inner-product"], token=token)
    # Whoever saw a ciphertext of alice's knows her tag.
    with pytest.raises(NodeRefused, match="not that of this tenant"):
        remote(node, made[1]["inner-product"], token=token_for("bob", "1" * 32), tenant="alice")
    assert node.served.clients == 0


def test_a_client_reads_its_token_from_the_environment(
    made: Any, node: KeyNode, monkeypatch: pytest.MonkeyPatch
) -> None:
    job = made[1]["inner-product"]
    monkeypatch.setenv("PENSTOCK_KEYS_TOKEN", token_for("alice", job.spec.secret_tag))
    with RemoteNode(node.address, PARAMS, tenant="alice", key_tag=job.spec.secret_tag, timeout_s=20.0):
        pass
    monkeypatch.delenv("PENSTOCK_KEYS_TOKEN")
    with pytest.raises(UsageError, match="PENSTOCK_KEYS_TOKEN"):
        RemoteNode(node.address, PARAMS, tenant="alice", key_tag=job.spec.secret_tag)


def test_another_tenants_keys_and_another_key_pairs_are_refused(made: Any, node: KeyNode) -> None:
    job = made[1]["inner-product"]
    engine = make_context(PARAMS, 1)
    a = engine.import_ciphertext(inputs_of(job)[0])
    with remote(node, job, tenant="bob") as there, pytest.raises(NodeRefused, match="bob"):
        there.rotate(engine, a, engine.rotation_galois_element(1))
    with remote(node, job, key_tag="0" * 32) as there, pytest.raises(NodeRefused, match="another secret key"):
        there.rotate(engine, a, engine.rotation_galois_element(1))
    with remote(node, job) as there:
        for element in (0, 2, -1, 1 << 70):
            with pytest.raises(NodeRefused, match="odd"):
                there.rotate(engine, a, element)
        with pytest.raises(NodeRefused, match="limbs"):
            there.pull(engine, "relin", PARAMS.num_q + 1)
        for key in ("rot:3", "../relin", "\0", "\ud800", ""):
            with pytest.raises(NodeRefused):
                there.pull(engine, key, 1)
        # The connection goes on after an operation that failed.
        assert there.rotate(engine, a, engine.rotation_galois_element(1)).limbs == a.limbs


def test_a_key_that_was_replaced_on_disk_is_not_served_from_memory(made: Any, tmp_path: Path) -> None:
    folder, job, engine = tmp_path / "keys", made[1]["inner-product"], make_context(PARAMS, 1)
    shutil.copytree(made[0], folder)
    others = Owners(tmp_path / "others")
    other = others.prepare([job.job])[0]
    with KeyNode(PARAMS, KeyStore(folder), SECRET, f"unix:{tmp_path}/n", options()) as node:
        node.start()
        key, limbs = job.program.uses[0]
        with remote(node, job) as there:
            there.pull(engine, key, limbs)
            # Another process removes the tenant's keys, and imports those of another pair.
            KeyStore(folder).gc(tenant="alice")
            with pytest.raises(NodeRefused, match="has no key"):
                there.pull(engine, key, limbs)
            shutil.copytree(tmp_path / "others" / "alice", folder / "alice", dirs_exist_ok=True)
            assert KeyStore(folder).opening.adopted
            with pytest.raises(NodeRefused, match="another secret key"):
                there.pull(engine, key, limbs)
        with remote(node, other) as there:
            assert outputs(NodeEngine(PARAMS, engine, there), other) == outputs_here(folder, other)
    others.release()


def test_words_beyond_their_modulus_are_refused(made: Any, node: KeyNode) -> None:
    job = made[1]["inner-product"]
    engine = make_context(PARAMS, 1)
    a = engine.import_ciphertext(inputs_of(job)[0])
    rows = [a.words(0), a.words(1)]
    rows[1][0, 5] = np.uint64(2**64 - 1)
    header = {"polynomials": 2, "limbs": a.limbs, "degree": 1, "scale": a.scale, "slots": a.slots}
    with remote(node, job) as there:
        wrongs: list[dict[str, Any]] = [
            {},
            {"limbs": a.limbs + 1},
            {"polynomials": 4},
            {"slots": 3},
            {"scale": float("nan")},
            *({name: number} for name in ("limbs", "polynomials", "degree", "slots") for number in (-1, 1 << 70)),
        ]
        for wrong in wrongs:
            sent = {**header, **wrong, "element": 5}
            there.link.send(Kind.ROTATE, sent, rows)
            prefix, content = there.link.receive_prefix(0)
            assert prefix.kind is Kind.ERROR, wrong
            assert "refuses" in json.loads(content)["message"]


def hello(job: PreparedJob) -> bytes:
    token = token_for("alice", job.spec.secret_tag)
    header = {"token": token, "tenant": "alice", "digest": parameter_digest(PARAMS), "key_tag": job.spec.secret_tag}
    return encode_prefix(Kind.HELLO, header, 0)


def prefix(
    kind: int = Kind.ROTATE, header: int = 0, body: int = 0, magic: bytes = MAGIC, version: int = VERSION
) -> bytes:
    return PREFIX.pack(magic, version, kind, header, body)


@pytest.mark.parametrize(
    "content",
    [
        b"GET / HTTP/1.1\r\nHost: x\r\n\r\n",
        prefix(magic=b"PSNX"),
        prefix(version=9),
        prefix(kind=77),
        prefix(header=MAX_HEADER_BYTES + 1),
        prefix(header=2**32 - 1),
        prefix(body=2**64 - 1),
        prefix(body=4 * 8 * PARAMS.num_q * PARAMS.ring_dim),
        prefix(body=7),
        prefix(header=2) + b"[]",
        prefix(header=3) + b"{}}",
        prefix(header=4) + b"\xff\xfe\x00\x01",
        encode_prefix(Kind.ROTATE, {"element": 5}, 0),
        encode_prefix(Kind.PULL, {"key": 5, "limbs": 1}, 0),
        encode_prefix(Kind.PULL, {"key": "relin", "limbs": True}, 0),
        encode_prefix(Kind.PULL, {"key": "relin", "limbs": 1}, 8) + bytes(8),
        # As before, where nothing was sent before.
        encode_prefix(
            Kind.ROTATE_HOISTED, {"polynomials": 2, "limbs": 1, "degree": 1, "scale": 1.0, "slots": 1, "element": 5}, 0
        ),
        encode_prefix(Kind.RESULT, {}, 0),
        prefix(header=4000) + b"[" * 4000,
    ],
)
def test_malformed_and_oversized_frames_end_the_connection(made: Any, node: KeyNode, content: bytes) -> None:
    job = made[1]["inner-product"]
    for before in (b"", hello(job)):
        link = connect(node.address, timeout_s=5)
        raw: socket.socket = link._socket
        raw.sendall(before)
        if before:
            assert link.receive_prefix(0)[0].kind is Kind.WELCOME
        raw.sendall(content)
        answer, _ = link.receive_prefix(0)
        assert answer.kind is Kind.ERROR
        # Not a timeout of ours: the node hangs up.
        with pytest.raises(LinkClosed, match=r"closed|broke"):
            link.receive_prefix(0)
        link.close()
    # The node still serves.
    with remote(node, job):
        pass


def test_nothing_is_read_for_one_who_has_not_said_the_token(made: Any, node: KeyNode) -> None:
    link = connect(node.address, timeout_s=5)
    link._socket.sendall(encode_prefix(Kind.HELLO, {}, 8))
    assert link.receive_prefix(0)[0].kind is Kind.ERROR
    link.close()


def test_silent_and_slow_clients_are_hung_up_on(made: Any, tmp_path: Path) -> None:
    job = made[1]["inner-product"]
    given = options(idle_timeout_s=0.4, max_clients=1)
    with KeyNode(PARAMS, KeyStore(made[0]), SECRET, f"unix:{tmp_path}/n", given) as node:
        node.start()
        slow = connect(node.address, timeout_s=5)
        started = time.monotonic()
        # A byte at a time never meets the timeout of one receive.
        with suppress(OSError):
            for byte in hello(job):
                slow._socket.sendall(bytes([byte]))
                time.sleep(0.1)
        with pytest.raises(LinkClosed):
            slow.receive_prefix(0)
        assert time.monotonic() - started < 3
        slow.close()
        with remote(node, job) as there:
            # No room for a second client meanwhile; it hears why once it has shown its token.
            for _ in range(5):
                with pytest.raises(NodeRefused, match="serves 1 clients already"):
                    remote(node, job)
            with pytest.raises(NodeRefused, match="not that of this tenant"):
                remote(node, job, token="0" * 64)
            time.sleep(0.8)
            with pytest.raises(LinkClosed):
                there.pull(make_context(PARAMS, 1), "relin", 1)


def test_connections_without_a_hello_take_no_clients_place(made: Any, tmp_path: Path) -> None:
    job = made[1]["inner-product"]
    given = options(hello_timeout_s=60, max_clients=8, max_per_tenant=8)
    with KeyNode(PARAMS, KeyStore(made[0]), SECRET, f"unix:{tmp_path}/n", given) as node, ExitStack() as open_links:
        node.start()
        silent = [connect(node.address, timeout_s=5) for _ in range(8)]
        for link in silent:
            open_links.callback(link.close)
        for _ in range(8):
            open_links.enter_context(remote(node, job))
        with pytest.raises(NodeRefused, match="serves 8 clients already"):
            remote(node, job)
        assert node.served.clients == 8
        # They may still say theirs, and hear that there is no room.
        silent[0]._socket.sendall(hello(job))
        assert silent[0].receive_prefix(0)[0].kind is Kind.ERROR


def test_of_too_many_connections_without_a_hello_the_oldest_is_hung_up_on(made: Any, tmp_path: Path) -> None:
    job = made[1]["inner-product"]
    given = options(hello_timeout_s=60, max_waiting=2)
    with KeyNode(PARAMS, KeyStore(made[0]), SECRET, f"unix:{tmp_path}/n", given) as node:
        node.start()
        with remote(node, job):
            links = [connect(node.address, timeout_s=5) for _ in range(4)]
            for link in links[:2]:
                with pytest.raises(LinkClosed, match=r"closed|broke"):
                    link.receive_prefix(0)
            for link in links[2:]:
                link._socket.sendall(hello(job))
                assert link.receive_prefix(0)[0].kind is Kind.WELCOME
            for link in links:
                link.close()
        assert (node.served.clients, node.served.refused) == (3, 2)


def test_a_secret_file_is_for_its_owner_only(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = tmp_path / "secret"
    path.write_text(SECRET + "\n")
    path.chmod(0o644)
    with pytest.raises(UsageError, match="chmod 600"):
        read_secret(path)
    path.chmod(0o600)
    assert read_secret(path) == SECRET
    path.write_bytes(b"\xff\xfe" + os.urandom(30))
    with pytest.raises(UsageError, match="openssl rand"):
        read_secret(path)
    monkeypatch.setenv("PENSTOCK_NODE_SECRET", "from-the-environment")
    assert read_secret(None) == "from-the-environment"
    monkeypatch.setenv("PENSTOCK_NODE_SECRET", "\udcff" * 20)
    with pytest.raises(UsageError, match="openssl rand"):
        read_secret(None)
    monkeypatch.delenv("PENSTOCK_NODE_SECRET")
    with pytest.raises(UsageError, match="secret-file"):
        read_secret(None)


def test_short_secrets_and_addresses_of_other_machines_are_refused(made: Any, tmp_path: Path) -> None:
    with pytest.raises(UsageError, match="at least 16"):
        KeyNode(PARAMS, KeyStore(made[0]), "short", f"unix:{tmp_path}/n", options())
    for address in ("0.0.0.0:7000", "example.org:80", "unix:", "127.0.0.1:99999", "7000"):
        with pytest.raises(UsageError, match="this machine"):
            parse_address(address)


def test_a_budget_that_holds_no_key_is_refused(made: Any, tmp_path: Path) -> None:
    for budget in (0, PARAMS.key_bytes() - 1):
        with pytest.raises(BudgetTooSmall, match="raise it"):
            KeyNode(PARAMS, KeyStore(made[0]), SECRET, f"unix:{tmp_path}/n", options(budget_bytes=budget))
    assert not (tmp_path / "n").exists()


def test_the_socket_is_its_owners_and_goes_with_the_node(made: Any, tmp_path: Path) -> None:
    path = tmp_path / "n"
    with socket.socket(socket.AF_UNIX) as killed:
        killed.bind(str(path))
    with KeyNode(PARAMS, KeyStore(made[0]), SECRET, f"unix:{path}", options()):
        assert stat.S_IMODE(path.stat().st_mode) == 0o600
        with pytest.raises(PenstockError, match="another node listens there"):
            KeyNode(PARAMS, KeyStore(made[0]), SECRET, f"unix:{path}", options())
    assert not path.exists()
    with pytest.raises(LinkClosed, match="no key node"):
        connect(f"unix:{path}")


def test_a_token_bucket_lets_bytes_leave_at_its_rate() -> None:
    clock = [0.0]

    def sleep(seconds: float) -> None:
        clock[0] += seconds

    bucket = TokenBucket(1000.0, burst_bytes=100, now=lambda: clock[0], sleep=sleep)
    bucket.take(100)
    assert clock[0] == 0
    for _ in range(10):
        bucket.take(100)
    assert clock[0] == pytest.approx(1.0)
    clock[0] += 60
    bucket.take(100)
    bucket.take(100)
    # A minute of silence is worth one burst.
    assert clock[0] == pytest.approx(61.1)


def test_a_token_bucket_makes_up_for_sleeps_that_are_too_long() -> None:
    clock = [0.0]

    def late(seconds: float) -> None:
        clock[0] += seconds + 0.5

    bucket = TokenBucket(1000.0, burst_bytes=100, now=lambda: clock[0], sleep=late)
    for _ in range(101):
        bucket.take(100)
    # Ten seconds of bytes behind the first burst, and not half a second more for each of them.
    assert 10.0 <= clock[0] < 10.6
    clock[0] += 60
    left = clock[0]
    for _ in range(12):
        bucket.take(100)
    assert clock[0] - left >= 0.5


def test_a_throttled_link_takes_the_time_of_its_bytes() -> None:
    ours, theirs = socket.socketpair()
    sender, receiver = Link(ours, bytes_per_s=20e6), Link(theirs)
    words = np.arange(500_000, dtype=np.uint64)
    found: list[Any] = []

    def receive() -> None:
        head, _ = receiver.receive_prefix(words.nbytes)
        found.append(receiver.receive_body(head).copy())

    thread = threading.Thread(target=receive)
    started = time.perf_counter()
    thread.start()
    sender.send(Kind.KEY_ROWS, {"limbs": 1}, [words])
    thread.join()
    assert 0.18 <= time.perf_counter() - started < 1.0
    np.testing.assert_array_equal(found[0], words)
    sender.close()
    receiver.close()


def test_the_command_serves_until_it_is_interrupted(made: Any, tmp_path: Path) -> None:
    secret = tmp_path / "secret"
    secret.write_text(SECRET)
    secret.chmod(0o600)
    address = f"unix:{tmp_path}/n"
    command = [
        sys.executable,
        "-c",
        "import sys; from penstock.front.cli.main import main; sys.exit(main())",
        "keys",
        "node",
        "--store",
        str(made[0]),
        "--params",
        PARAMS.name,
        "--listen",
        address,
        "--secret-file",
        str(secret),
        "--threads",
        "1",
        "--format",
        "json",
    ]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as process:
        deadline = time.monotonic() + 30
        while not (tmp_path / "n").exists():
            assert time.monotonic() < deadline
            time.sleep(0.05)
        job, engine = made[1]["inner-product"], make_context(PARAMS, 1)
        token = token_for("alice", job.spec.secret_tag)
        with RemoteNode(address, PARAMS, token=token, tenant="alice", key_tag=job.spec.secret_tag) as there:
            a: _engine.CkksCiphertext = engine.import_ciphertext(inputs_of(job)[0])
            there.rotate(engine, a, engine.rotation_galois_element(1))
        process.send_signal(signal.SIGINT)
        printed, _ = process.communicate(timeout=30)
    assert process.returncode == 0
    assert json.loads(printed)["operations"] == 1


def test_the_operator_prints_the_token_of_one_tenants_key_pair(
    made: Any, node: KeyNode, tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    job = made[1]["inner-product"]
    monkeypatch.setenv("PENSTOCK_NODE_SECRET", SECRET)

    def run(*words: str, store: Path = made[0], params: str = PARAMS.name) -> tuple[int, str, str]:
        code = main(["keys", "token", "--store", str(store), "--params", params, *words])
        return code, *capsys.readouterr()

    code, printed, _ = run("--tenant", "alice")
    assert code == 0
    with remote(node, job, token=printed.strip()):
        pass
    assert SECRET not in printed
    row = json.loads(run("--tenant", "alice", "--key-tag", job.spec.secret_tag, "--format", "json")[1])
    assert row == {
        "tenant": "alice",
        "digest": parameter_digest(PARAMS),
        "key_tag": job.spec.secret_tag,
        "token": printed.strip(),
    }
    for words, said in (
        (("--tenant", "bob"), "bob"),
        (("--tenant", "alice", "--key-tag", "0" * 32), "key pair"),
        (("--tenant", "alice", "--params", "openfhe-bench"), "no keys for set"),
    ):
        code, printed, messages = run(*words)
        assert (code, printed) == (2, ""), words
        assert said in messages
    code, _, messages = run("--tenant", "alice", store=tmp_path / "nothing")
    assert code == 2
    assert "no key store" in messages


def test_a_tenant_with_keys_of_two_pairs_names_the_one_that_a_token_is_for(
    made: Any, tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("PENSTOCK_NODE_SECRET", SECRET)
    job, folder = made[1]["inner-product"], tmp_path / "keys"
    others = Owners(folder)
    other = others.prepare([job.job])[0]
    others.release()
    # Of the first pair the relinearization key only.
    (relin,) = made[0].glob("alice/*/relin.pkey")
    shutil.copy(relin, folder / relin.relative_to(made[0]))
    (folder / "index.sqlite").unlink()
    command = ["keys", "token", "--store", str(folder), "--params", PARAMS.name, "--tenant", "alice"]
    assert main(command) == 2
    said = capsys.readouterr().err
    assert "--key-tag" in said
    for each in (job, other):
        assert each.spec.secret_tag in said
        assert main([*command, "--key-tag", each.spec.secret_tag]) == 0
        assert capsys.readouterr().out.strip() == token_for("alice", each.spec.secret_tag)


@pytest.mark.parametrize("program", ["inner-product", "matrix-multiplication"])
def test_a_run_sends_its_ciphertexts_to_the_keys(
    made: Any, node: KeyNode, program: str, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("PENSTOCK_KEYS", str(made[0]))
    monkeypatch.setenv("PENSTOCK_KEYS_TOKEN", token_for("alice", made[1][program].spec.secret_tag))
    command = ["run", program, "--size", "ci", "--params", PARAMS.name, "--threads", "1", "-q", "--format", "json"]
    at_node = [*command, "--keys", f"node:{node.address}"]
    assert main([*at_node, "--tenant", "alice"]) == 0
    numbers = json.loads(capsys.readouterr().out)
    assert (numbers["passed"], numbers["key_bytes"], numbers["num_keys_made"]) == (True, 0, 0)
    assert node.served.operations == len(made[1][program].program.uses)
    assert node.served.pulls == 0
    # Each operation sends a ciphertext at least, and one comes back.
    assert min(numbers["link_sent_bytes"], numbers["link_received_bytes"]) > node.served.operations * 2**15
    assert main([*at_node, "--tenant", "alice", "--format", "table"]) == 0
    shown = capsys.readouterr().out
    assert "keys stay at their node: " in shown
    assert "all in memory" not in shown
    # The node admits the pair of the token alone, and a tenant without a pair makes none.
    monkeypatch.setenv("PENSTOCK_KEYS_TOKEN", "f" * 64)
    assert main([*at_node, "--tenant", "alice"]) == 1
    assert "token is not that of this tenant" in capsys.readouterr().err
    assert main([*at_node, "--tenant", "bob"]) == 1
    assert "there is no key pair of tenant 'bob'" in capsys.readouterr().err
    assert not list(made[0].with_name("keys.client").glob("bob-*"))
    assert main([*at_node, "--tenant", "alice", "--key-budget", "1 GiB"]) == 2
    assert "keys at a node take no memory here" in capsys.readouterr().err


def test_a_package_runs_with_its_keys_at_a_node(
    made: Any, node: KeyNode, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("PENSTOCK_KEYS", str(made[0]))
    job = made[1]["inner-product"]
    monkeypatch.setenv("PENSTOCK_KEYS_TOKEN", token_for("alice", job.spec.secret_tag))
    done = ps.run(job.program.path, keys=f"node:{node.address}", tenant="alice", threads=1)
    assert done.passed
    assert node.served.operations == len(job.program.uses)
