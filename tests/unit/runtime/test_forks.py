"""Objects that a fork copies into a child: they work there, or are refused in words, and the parent's go on."""

from __future__ import annotations

import json
import os
import re
import socket
import threading
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

import numpy as np
import pytest

pytest.importorskip("penstock_client")

import penstock as ps
from penstock.base.system.web import Token, Web
from penstock.errors import PenstockError, StoreUnusable
from penstock.front.explorer.engine import _WORKERS
from penstock.program.package.capture import capture
from penstock.program.package.file import PackageFile
from penstock.runtime.client import KeyPair
from penstock.runtime.keystore import KeyCache, KeyStore, parameter_digest
from penstock.runtime.native.client_process import ClientProcess
from penstock.runtime.native.engine import make_context
from penstock.scheme.params import catalogue
from penstock.scheme.params.primes import openfhe_primes
from penstock.service.near.frames import Kind
from penstock.service.near.link import Link, LinkClosed
from support.engine_calls import Calls
from support.forked import in_child

PARAMS = catalogue.get("insecure-ci")
VALUES = np.linspace(-1, 1, 16)
SMAPS = Path("/proc/self/smaps")
MAPPING = re.compile(r"^([0-9a-f]+-[0-9a-f]+) .*?^VmFlags: (.*?)$", re.DOTALL | re.MULTILINE)


def decrypted(pair: KeyPair, content: bytes) -> list[float]:
    return [round(float(value), 4) for value in pair.decrypt(content, result_for="owner")[:16].real]


RIGHT = [round(float(value), 4) for value in VALUES]


@pytest.mark.parametrize("used", [False, True], ids=["unused", "used"])
@pytest.mark.parametrize("threads", [1, 2, 3])
def test_a_key_pair_works_in_a_child_and_still_in_its_parent(threads: int, used: bool) -> None:
    pair = KeyPair.generate(PARAMS, threads=threads)
    if used:
        assert decrypted(pair, pair.encrypt(VALUES)) == RIGHT
    for _ in range(2):
        assert in_child(lambda: decrypted(pair, pair.encrypt(VALUES))) == RIGHT
    assert in_child(lambda: in_child(lambda: decrypted(pair, pair.encrypt_seeded(VALUES)))) == RIGHT
    assert decrypted(pair, in_child(lambda: pair.encrypt(VALUES))) == RIGHT
    assert decrypted(pair, pair.encrypt(VALUES)) == RIGHT


def test_a_child_makes_the_keys_and_files_of_its_parents_secrets(tmp_path: Path) -> None:
    params = catalogue.get("insecure-similarity")
    pair = KeyPair.generate(params, threads=1)
    in_child(lambda: pair.save(tmp_path / "child"))
    pair.save(tmp_path / "parent")
    one, two = ((tmp_path / name / "secret.pskey").read_bytes() for name in ("child", "parent"))
    assert one == two
    assert in_child(lambda: pair.write_key("to-dense", tmp_path / "made.pkey", tenant="local")) > 0


def test_a_secret_that_its_parent_has_dropped_is_refused_in_a_child(tmp_path: Path) -> None:
    pair = KeyPair.generate(PARAMS, threads=1)
    content = pair.encrypt(VALUES)
    ready, gone = os.pipe(), os.pipe()
    child = os.fork()
    if child == 0:
        told = b"nothing was raised"
        try:
            os.read(gone[0], 1)
            decrypted(pair, content)
        except PenstockError as error:
            told = str(error).encode()
        finally:
            os.write(ready[1], told)
            os._exit(0)
    del pair
    os.write(gone[1], b"x")
    told = os.read(ready[0], 10_000).decode()
    os.waitpid(child, 0)
    for each in (*ready, *gone):
        os.close(each)
    assert "was made before a fork" in told
    assert "load the pair again in this process" in told


def test_the_memory_of_a_child_has_no_word_of_the_secret_that_it_does_not_use() -> None:
    """The rows of the secret are in the parent's memory, and in a child's when it has used them."""
    pair = KeyPair.generate(PARAMS, threads=1)
    content = pair.encrypt_seeded(np.zeros(PARAMS.slots))
    read = make_context(PARAMS, 1).import_ciphertext(content)
    q = openfhe_primes(PARAMS)[0][0]
    phase, c0, c1 = pair.phase(content)[0], read.words(0)[0], read.words(1)[0]
    # (c0 + c1 s - c0) / c1, at the first places.
    words = [(int(phase[k]) - int(c0[k])) * pow(int(c1[k]), -1, q) % q for k in range(8)]
    wanted = np.array(words, dtype=np.uint64).tobytes()

    def places() -> int:
        """How often they lie in memory that children do not get; elsewhere are this test's own copies."""
        found = 0
        with Path("/proc/self/mem").open("rb", buffering=0) as memory:
            for head, flags in re.findall(
                r"(?m)^([0-9a-f]+-[0-9a-f]+) .*?^VmFlags: (.*?)$", SMAPS.read_text(), re.DOTALL
            ):
                if "wf" in flags.split():
                    start, end = (int(each, 16) for each in head.split("-"))
                    memory.seek(start)
                    found += memory.read(end - start).count(wanted)
        return found

    def used() -> int:
        pair.decrypt(content, result_for="owner")
        return places()

    assert places() == 1
    assert in_child(places) == 0
    assert in_child(used) == 1
    assert places() == 1


def test_no_child_repeats_the_random_numbers_of_its_parent_or_of_another_child() -> None:
    pair = KeyPair.generate(PARAMS, threads=2)
    pair.encrypt(VALUES)

    def made() -> tuple[bytes, bytes, str]:
        return pair.encrypt(VALUES), pair.encrypt_seeded(VALUES), KeyPair.generate(PARAMS, threads=1).tag

    found = [in_child(made), in_child(made), made()]
    for kind in zip(*found, strict=True):
        assert len(set(kind)) == 3
    # Nor the error, which the seeds of the uniform half do not show.
    phases = {pair.phase(content).tobytes() for contents in found for content in contents[:2]}
    assert len(phases) == 6


def test_a_childs_secret_is_not_said_to_be_kept_out_of_the_swap() -> None:
    pair = KeyPair.generate(PARAMS, threads=1)
    assert in_child(lambda: pair.is_locked) is False


@pytest.mark.parametrize("threads", [1, 2])
def test_an_evaluator_computes_in_a_child(threads: int) -> None:
    pair, engine = KeyPair.generate(PARAMS, threads=1), make_context(PARAMS, threads)
    content = pair.encrypt(VALUES)

    def doubled() -> Any:
        a = engine.import_ciphertext(content)
        return Calls(engine).add(a, a).words(0)

    expected = doubled()
    assert np.array_equal(in_child(doubled), expected)
    assert np.array_equal(doubled(), expected)


@pytest.fixture(scope="module")
def package(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, Path, KeyPair]:
    folder = tmp_path_factory.mktemp("forks")

    def program(ev: Any) -> Any:
        x = ev.encrypt(np.zeros(16), name="x")
        return ev.decrypt(ev.rescale(ev.square(ev.add(x, ev.rotate(x, 1)))))

    with PackageFile(folder / "p.pkg") as file:
        file.finish(capture(program, PARAMS, file, "p"))
    pair = KeyPair.generate(PARAMS, threads=1)
    pair.add_keys(KeyStore(folder / "keys"), ps.package_keys(folder / "p.pkg"))
    return folder / "p.pkg", folder / "keys", pair


@pytest.mark.parametrize("used", [False, True], ids=["unused", "used"])
@pytest.mark.parametrize("threads", [1, 2])
def test_a_package_server_works_in_a_child_and_still_in_its_parent(package: Any, threads: int, used: bool) -> None:
    path, keys, pair = package
    whole = np.zeros(PARAMS.slots)
    whole[:16] = VALUES
    right = (whole + np.roll(whole, -1))[:16] ** 2

    def answered() -> Any:
        return pair.decrypt(server.run({"x": pair.encrypt_seeded(VALUES)})["output[0]"], result_for="owner")[:16].real

    with ps.package_server(path, keys, threads=threads, key_budget="8 MiB") as server:
        if used:
            answered()
        np.testing.assert_allclose(in_child(answered), right, atol=1e-3)
        np.testing.assert_allclose(answered(), right, atol=1e-3)


def test_a_key_store_is_opened_anew_in_a_child(tmp_path: Path) -> None:
    store, pair = KeyStore(tmp_path / "keys"), KeyPair.generate(PARAMS, threads=1)
    pair.add_keys(store, {"relin": 2})

    def added() -> list[str]:
        pair.add_keys(store, {"rot:5": 2})
        return [key.name.key for key in store.list_keys()]

    assert in_child(added) == ["relin", "rot:5"]
    assert [key.name.key for key in store.list_keys()] == ["relin", "rot:5"]


def test_a_cache_of_keys_is_refused_in_a_child_and_goes_on_in_its_parent(tmp_path: Path) -> None:
    store, pair = KeyStore(tmp_path / "keys"), KeyPair.generate(PARAMS, threads=1)
    pair.add_keys(store, {"relin": 2})
    cache = KeyCache(store, 1 << 24)
    session = cache.session("local", parameter_digest(PARAMS))
    plan = cache.plan([])
    with session.get("relin", 2):
        for use in (
            lambda: session.get("relin", 2),
            lambda: cache.session("local", parameter_digest(PARAMS)),
            cache.residents,
            cache.stats,
            cache.take_reads,
            lambda: cache.plan([]),
            lambda: cache.forget_tenant("local"),
        ):
            with pytest.raises(StoreUnusable, match=r"opened before a fork.*open it again in this process"):
                in_child(use)
        assert in_child(plan.close) is None

    def dropped() -> None:
        nonlocal cache, session, plan
        del cache, session, plan

    in_child(dropped)
    with session.get("relin", 2) as key:
        assert key.row(0, 0, 0) is not None


def test_the_process_of_a_client_answers_its_parent_alone(tmp_path: Path) -> None:
    client = ClientProcess(PARAMS, tmp_path / "pair")
    try:
        content = client.encrypt(VALUES).content
        for use in (lambda: client.encrypt(VALUES), lambda: client.decrypt(content), client.rest, client.ready):
            with pytest.raises(PenstockError, match=rf"answers process {os.getpid()} alone: open a client"):
                in_child(use)
        in_child(client.release)
        assert np.allclose(client.decrypt(content).values[:16].real, VALUES, atol=1e-4)
    finally:
        client.release()


def test_a_connection_to_a_key_node_is_its_parents() -> None:
    here, there = socket.socketpair()
    with here, there:
        link = Link(here)
        with pytest.raises(LinkClosed, match="opened before a fork"):
            in_child(lambda: link.send(Kind.PULL, {"key": "relin", "limbs": 1}))
        with pytest.raises(LinkClosed, match="opened before a fork"):
            in_child(lambda: link.receive_prefix(100))


@pytest.mark.parametrize("client", ["inside", "process"])
def test_a_program_runs_in_a_child_after_one_in_its_parent(client: str, tmp_path: Path) -> None:
    (tmp_path / "p.py").write_text(
        "import numpy as np\nPARAMS = 'insecure-ci'\n"
        "def data(size, slots, seed):\n    return np.linspace(-1, 1, 8)\n"
        "def program(ev, data, size):\n    x = ev.encrypt(data)\n"
        "    return ev.decrypt(ev.add(ev.rotate(x, 1), ev.rescale(ev.square(x))))[:8]\n"
    )

    def passed() -> bool:
        return ps.run(tmp_path / "p.py", threads=2, client=client).passed

    assert passed()
    assert in_child(passed)
    assert passed()


def test_a_simulation_in_a_child_gives_its_parents_numbers() -> None:
    def rows() -> Any:
        return ps.simulate("logistic-regression", machine="sharp", size="ci").rows

    expected = rows()
    assert in_child(rows) == expected


def test_the_explorers_threads_are_a_childs_own() -> None:
    def found() -> list[int]:
        return list(_WORKERS.pool.map(abs, [-1, -2, -3]))

    assert found() == in_child(found) == found()


class _Counting(BaseHTTPRequestHandler):
    """Answers the path, and how many requests came on this connection."""

    protocol_version = "HTTP/1.1"

    def do_GET(self) -> None:
        self.count = getattr(self, "count", 0) + 1
        content = json.dumps({"path": self.path, "count": self.count}).encode()
        self.send_response(200)
        self.send_header("Content-Length", str(len(content)))
        self.end_headers()
        self.wfile.write(content)

    def log_message(self, *_: object) -> None: ...


def test_a_child_asks_a_service_on_a_connection_of_its_own() -> None:
    server = ThreadingHTTPServer(("127.0.0.1", 0), _Counting)
    serving = threading.Thread(target=server.serve_forever)
    serving.start()
    try:
        web = Web(f"http://127.0.0.1:{server.server_port}", Token("t"))
        assert web.ask("GET", "/one").content == {"path": "/one", "count": 1}
        assert in_child(lambda: web.ask("GET", "/child").content) == {"path": "/child", "count": 1}
        assert web.ask("GET", "/two").content == {"path": "/two", "count": 2}
        web.close()
    finally:
        server.shutdown()
        server.server_close()
        serving.join()


def test_a_sweep_runs_in_a_child_after_one_in_its_parent(tmp_path: Path) -> None:
    asked = {"workload": ["inner-product"], "machine": "sharp", "params": "sharp", "cache": ["256 MiB", "1 GiB"]}

    def rows(name: str) -> Any:
        return [row["total_s"] for row in ps.sweep(asked, output=tmp_path / name).rows]

    assert rows("parent") == in_child(lambda: rows("child"))
