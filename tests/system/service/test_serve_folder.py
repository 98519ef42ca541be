"""Two servers on one folder or one database, folders of earlier versions, and damaged ones: real processes."""

from __future__ import annotations

import os
import re
import signal
import socket
import subprocess
import time
from pathlib import Path

import pytest

pytest.importorskip("fastapi")
pytest.importorskip("sqlalchemy")

from penstock.service.state.tables import metadata
from support.live_service import LiveService
from support.own_process import COMMAND
from support.postgres import cluster, missing
from support.serve_site import Caller, Site, eventually, random_bytes


def served(folder: Path, *words: str, **variables: str) -> subprocess.CompletedProcess[str]:
    """`penstock serve` that ends by itself."""
    command = [*COMMAND, "serve", "--port", "0", "--admin-port", "0", "--folder", str(folder), *words]
    environment = {**os.environ, **variables}
    return subprocess.run(command, capture_output=True, text=True, timeout=60, env=environment, check=False)


def refusal(ended: subprocess.CompletedProcess[str]) -> str:
    """The one line of a refused start."""
    assert ended.returncode == 2, ended
    assert ended.stdout == ""
    lines = ended.stderr.strip().splitlines()
    assert len(lines) == 1, ended.stderr
    return lines[0]


def test_a_second_server_is_refused_at_once_and_changes_nothing(tmp_path):
    site = Site(tmp_path, hold=True)
    tenant = site.tenant("alice")
    assert tenant.deploy(tmp_path).status == 201
    blob = tenant.upload(random_bytes(100)).json["blob"]
    assert tenant("POST", "/v1/jobs", {"job": "j", "program": "small", "inputs": {"x": blob}}).status == 202
    begun = time.monotonic()
    said = refusal(served(tmp_path / "state"))
    assert time.monotonic() - begun < 20
    assert f"in use by another server (process {site.process.pid} on {socket.gethostname()}, since " in said
    database = f"sqlite:///{tmp_path / 'state' / 'state.sqlite'}"
    said = refusal(served(tmp_path / "other", PENSTOCK_DATABASE=database))
    assert f"the database {tmp_path}/state/state.sqlite is in use by another server (process {site.process.pid}" in said
    assert tenant("GET", "/v1/jobs/j").json["state"] == "queued"
    site.stop()


def test_after_a_kill_the_next_server_starts_though_a_worker_is_left(tmp_path):
    first = LiveService(tmp_path, "[work]\nabreast = 1\n")
    worker = _child(first.process.pid, "penstock.service.work.worker")
    os.kill(worker, signal.SIGSTOP)  # it does not hear that its server is gone
    try:
        first.process.kill()
        assert f"/{worker}/" not in _holders(tmp_path / "state")
        second = LiveService(tmp_path, "[work]\nabreast = 1\n")
        second.stop()
    finally:
        os.kill(worker, signal.SIGKILL)
        first.process.communicate()


def _child(parent: int, words: str) -> int:
    found = subprocess.run(["pgrep", "-P", str(parent), "-f", words], capture_output=True, text=True, check=True)
    return int(found.stdout.split()[0])


def _holders(folder: Path) -> str:
    """Descriptors of processes that have a lock file or the folder open."""
    found = []
    for entry in Path("/proc").glob("[0-9]*/fd/*"):
        try:
            target = entry.readlink()
        except OSError:
            continue
        if (target.suffix == ".lock" and target.is_relative_to(folder)) or target == folder:
            found.append(str(entry))
    return " ".join(found)


def test_a_folder_that_an_earlier_version_left_opens_and_is_narrowed(tmp_path):
    """With the tables as they were first, and modes as `mkdir` gives them."""
    import sqlalchemy as sa

    place = tmp_path / "state"
    for name in ("tenants/alice/blobs", "keys"):
        (place / name).mkdir(parents=True)
    engine = sa.create_engine(f"sqlite:///{place / 'state.sqlite'}")
    metadata.create_all(engine)
    with engine.begin() as connection:
        connection.execute(sa.text("INSERT INTO about VALUES ('version', '1')"))
        connection.execute(sa.text("INSERT INTO tenants VALUES ('alice', 1.0)"))
    engine.dispose()
    for path in (place, *place.rglob("*")):
        path.chmod(0o755 if path.is_dir() else 0o644)
    site = Site(tmp_path)
    assert [row["tenant"] for row in site.operator("GET", "/v1/tenants").json["tenants"]] == ["alice"]
    for name in ("", "/tenants", "/keys", "/state.sqlite"):
        assert any(line.startswith(f"{place}{name} had mode 0") for line in site.said), (name, site.said)
    for path in (place, *place.iterdir()):
        assert path.stat().st_mode & 0o077 == 0, path
    site.stop()


@pytest.mark.parametrize("kind", ["half", "no database", "folder is a file"])
def test_a_state_that_cannot_be_used_is_one_line(tmp_path, kind):
    place = tmp_path / "state"
    site = Site(tmp_path)
    site.stop()
    path = place / "state.sqlite"
    if kind == "folder is a file":
        place = path
    else:
        path.write_bytes(path.read_bytes()[:7000] if kind == "half" else b"x" * 5000)
    before = path.read_bytes()
    said = refusal(served(place))
    assert re.search("cannot be used|is a file", said)
    assert path.read_bytes() == before


def test_the_log_is_narrowed_and_umask_zero_does_not_matter(tmp_path):
    (tmp_path / "serve.log").write_text("")
    (tmp_path / "serve.log").chmod(0o666)
    before = os.umask(0)
    try:
        service = LiveService(tmp_path)
    finally:
        os.umask(before)
    for path in (tmp_path / "serve.log", tmp_path / "state", *(tmp_path / "state").rglob("*")):
        assert path.stat().st_mode & 0o077 == 0, path
    service.stop()


def test_readiness_and_the_end_of_a_token_are_told_by_the_routes(tmp_path):
    site = Site(tmp_path)
    tenant = site.tenant("alice")
    identity = site.operator("GET", "/v1/tenants/alice/tokens").json["tokens"][0]["token"]
    assert Caller(site.ports[0], None)("GET", "/v1/ready").status == 200
    ended = site.operator("DELETE", f"/v1/tenants/alice/tokens/{identity}")
    assert (ended.status, ended.json["state"], ended.json["saved"]) == (200, "ended", True)
    assert tenant("GET", "/v1/jobs").status == 401
    site.kill()
    site.start()
    assert site.again(tenant)("GET", "/v1/jobs").status == 401
    site.stop()


@pytest.mark.skipif(bool(missing()), reason=missing())
def test_servers_of_one_postgresql_take_turns_and_one_that_lost_it_stops(tmp_path):
    pytest.importorskip("pg8000")
    with cluster() as database:
        (tmp_path / "one").mkdir()
        (tmp_path / "two").mkdir()
        first = Site(tmp_path / "one", database=database.url)
        said = refusal(served(tmp_path / "three", PENSTOCK_DATABASE=database.url))
        assert f"the database is in use by another server (process {first.process.pid} on " in said
        # The database starts again: the same server goes on.
        database.kill()
        database.start()
        eventually(lambda: first.operator("POST", "/v1/tenants", {"tenant": "after"}).status in (201, 409), 20)
        assert first.process.poll() is None
        assert "in use" in refusal(served(tmp_path / "three", PENSTOCK_DATABASE=database.url))
        # Killed, it lets the next one in at once.
        first.kill()
        second = Site(tmp_path / "two", database=database.url)
        # It is stopped for a while, and another one takes the database meanwhile: it stops.
        second.process.send_signal(signal.SIGSTOP)
        database.kill()
        database.start()
        first.start()
        second.process.send_signal(signal.SIGCONT)
        assert second.process.wait(30) != 0
        second.stop()
        assert "another server uses the database now" in second.log()
        assert first.operator("GET", "/v1/work").status in (200, 401)
        assert first.process.poll() is None
        first.stop()
