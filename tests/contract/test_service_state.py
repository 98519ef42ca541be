"""The state of the service: SQLite and PostgreSQL keep the same promises."""

from __future__ import annotations

import errno
import os
import threading
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

pytest.importorskip("sqlalchemy")

from sqlalchemy import create_engine, text
from sqlalchemy.exc import IntegrityError

from penstock.service.state.folder import DatabaseLock, FolderRefused, StateUnusable
from penstock.service.state.problems import Problem
from penstock.service.state.state import ServiceState
from penstock.service.state.tokens import Caller, new_token
from support.postgres import Postgres, cluster, missing

CALLER = Caller(tenant="a", token="t", scopes=frozenset())


@pytest.fixture(scope="module")
def postgres() -> Iterator[Postgres]:
    if why := missing():
        pytest.skip(why)
    pytest.importorskip("pg8000")
    with cluster() as found:
        yield found


@pytest.fixture(params=["sqlite", "postgresql"])
def url(request: pytest.FixtureRequest, tmp_path: Path) -> str:
    if request.param == "sqlite":
        return f"sqlite:///{tmp_path / 'state.sqlite'}"
    return emptied(request.getfixturevalue("postgres").url)


def emptied(url: str) -> str:
    """A database without tables."""
    engine = create_engine(url)
    with engine.begin() as connection:
        connection.execute(text("drop schema public cascade"))
        connection.execute(text("create schema public"))
    engine.dispose()
    return url


@pytest.fixture
def state(url: str) -> Iterator[ServiceState]:
    found = ServiceState(url)
    yield found
    found.close()


def job_row(job: str, client_job: str = "j", tenant: str = "a", **more: object) -> dict[str, object]:
    row = {"job": job, "tenant": tenant, "client_job": client_job, "digest": "d", "request": '{"inputs": {}}'}
    return {
        **row, "program": "p", "package": "k", "state": "queued", "attempts": 1, "submitted_s": 1.0, "output_bytes": 0,
        **more,
    }  # fmt: skip


def blob_row(sha256: str, size: int, tenant: str = "a", expires_s: float | None = None) -> dict[str, object]:
    return {"tenant": tenant, "sha256": sha256, "kind": "input", "bytes": size, "expires_s": expires_s}


def upload_row(upload: str, size: int = 5, tenant: str = "a") -> dict[str, object]:
    return {"upload": upload, "tenant": tenant, "kind": "input", "bytes": size, "sha256": "s", "expires_s": 9e9}


def test_a_token_is_known_until_it_ends_and_never_stored(state, url):
    now = [100.0]
    state.clock = lambda: now[0]
    state.add_tenant("a")
    made = new_token()
    state.add_token(made.identity, made.digest, "a", ("run", "read"), 200.0)
    assert state.caller(made.text) == Caller(tenant="a", token=made.identity, scopes=frozenset({"run", "read"}))
    assert state.caller(made.text[:-1] + ("0" if made.text[-1] != "0" else "1")) is None
    assert state.caller(new_token().text) is None
    now[0] = 199.9
    assert state.caller(made.text)
    now[0] = 200.0
    assert state.caller(made.text) is None
    now[0] = 100.0
    assert state.end_token("a", made.identity, 150.0)
    assert not state.end_token("b", made.identity, 150.0)
    assert state.tokens("a")[0]["expires_s"] == 150.0
    assert "digest" not in state.tokens("a")[0]
    if url.startswith("sqlite"):
        secret = made.text.rpartition("_")[2].encode()
        for file in Path(url.removeprefix("sqlite:///")).parent.iterdir():
            assert secret not in file.read_bytes()


def test_a_change_of_a_token_or_program_is_seen_at_once(state):
    # Both are kept between requests.
    made = new_token()
    state.add_tenant("a")
    state.add_token(made.identity, made.digest, "a", ("run",), None)
    state.put_program("a", "p", "first", {"n": 1})
    for _ in range(2):
        assert state.caller(made.text)
        assert state.program("a", "p")["package"] == "first"
    state.put_program("a", "p", "second", {"n": 2})
    assert state.program("a", "p")["description"] == {"n": 2}
    assert state.remove_program("a", "p")
    assert state.program("a", "p") is None
    assert state.end_token("a", made.identity, 1.0)
    assert state.caller(made.text) is None


def test_words_about_the_state_are_kept_and_settled_by_many_at_once(state, url):
    assert state.noted("boot") is None
    state.note("boot", "one")
    state.note("boot", "two", soon=True)
    threads = [threading.Thread(target=state.settle) for _ in range(8)]
    for each in threads:
        each.start()
    for each in threads:
        each.join(30)
        assert not each.is_alive()
    again = ServiceState(url)
    assert again.noted("boot") == "two"
    again.close()


def test_settling_syncs_the_log_once_for_all_that_wait(tmp_path, monkeypatch):
    state = ServiceState(f"sqlite:///{tmp_path / 'state.sqlite'}")
    synced, begun = [], threading.Barrier(4)
    real = os.fdatasync

    def slow(descriptor: int) -> None:
        synced.append(str(Path(f"/proc/self/fd/{descriptor}").readlink()) if Path("/proc/self/fd").exists() else "-wal")
        time.sleep(0.2)
        real(descriptor)

    monkeypatch.setattr(os, "fdatasync", slow)

    def settle() -> None:
        begun.wait(10)
        state.note("a", "b", soon=True)
        state.settle()

    threads = [threading.Thread(target=settle) for _ in range(4)]
    for each in threads:
        each.start()
    for each in threads:
        each.join(30)
    state.close()
    assert 1 <= len(synced) <= 3
    assert all(path.endswith("-wal") for path in synced)


def test_no_writer_waits_for_the_disk_of_another(tmp_path, monkeypatch):
    state = ServiceState(f"sqlite:///{tmp_path / 'state.sqlite'}")
    asked, goes_on = threading.Event(), threading.Event()
    real = os.fdatasync

    def held(descriptor: int) -> None:
        asked.set()
        goes_on.wait(30)
        real(descriptor)

    monkeypatch.setattr(os, "fdatasync", held)
    first = threading.Thread(target=state.note, args=("a", "b"))
    first.start()
    assert asked.wait(30)
    second = threading.Thread(target=state.note, args=("c", "d"), kwargs={"soon": True})
    second.start()
    second.join(20)
    assert not second.is_alive()
    assert first.is_alive(), "it returns when its words are on the disk"
    goes_on.set()
    first.join(30)
    assert not first.is_alive()
    assert (state.noted("a"), state.noted("c")) == ("b", "d")
    state.close()


def test_a_disk_that_fails_at_the_sync_is_said(tmp_path, monkeypatch):
    state = ServiceState(f"sqlite:///{tmp_path / 'state.sqlite'}")

    def fails(descriptor: int) -> None:
        raise OSError(errno.EIO, "Input/output error")

    with monkeypatch.context() as broken:
        broken.setattr(os, "fdatasync", fails)
        with pytest.raises(Problem) as refused:
            state.note("a", "b")
        assert refused.value.status == 503
    state.note("a", "c")
    assert state.noted("a") == "c"
    state.close()


def test_a_refusal_for_the_quota_takes_no_turn_of_a_writer(tmp_path):
    state = ServiceState(f"sqlite:///{tmp_path / 'state.sqlite'}")
    refused: list[str] = []

    def fits(used: int) -> None:
        raise Problem(507, f"{used} bytes are used", remedy="none")

    def add() -> None:
        for action in (
            lambda: state.add_job(job_row("1"), most=9, fits=fits),
            lambda: state.add_upload(upload_row("1"), most=9, fits=fits),
        ):
            with pytest.raises(Problem):
                action()
            refused.append("refused")

    state.add_tenant("a")
    add()  # from now on the tenant is known to be full
    assert refused == ["refused"] * 2
    refused.clear()
    with state._turn:
        adding = threading.Thread(target=add)
        adding.start()
        adding.join(20)
        assert refused == ["refused"] * 2
    adding.join(20)
    assert state.add_upload(upload_row("1"), most=9), "there is room now"
    assert not state._full
    state.close()


def test_jobs_that_were_done_since_a_time(state):
    for at, name in enumerate("xyz"):
        state.add_job(job_row(name, client_job=name), most=10)
        state.move_job(name, "failed" if name == "y" else "done", ended_s=float(at))
    assert [row["job"] for row in state.done_since(0.0)] == ["x", "z"]
    assert [row["job"] for row in state.done_since(1.0)] == ["z"]


def test_a_tenant_is_added_once(state):
    assert state.add_tenant("a")
    assert not state.add_tenant("a")
    assert [row["tenant"] for row in state.tenants()] == ["a"]


def test_uploads_are_bounded_and_count_as_large_as_they_are_announced(state):
    assert state.add_upload(upload_row("u1", 5), most=2)
    assert state.add_upload(upload_row("u2", 7), most=2)
    assert not state.add_upload(upload_row("u3", 1), most=2)
    assert state.add_upload(upload_row("u4", 50, tenant="b"), most=2)
    assert state.used_bytes("a") == 12
    assert state.end_upload("a", "u1", blob_row("s1", 5))
    assert state.used_bytes("a") == 12
    assert state.blob("a", "s1")["bytes"] == 5
    assert state.blob("b", "s1") is None
    assert not state.end_upload("b", "u2")
    assert [row["upload"] for row in state.uploads("a")] == ["u2"]


def test_a_job_is_accepted_once_and_moves_only_from_the_states_that_are_named(state):
    assert state.add_job(job_row("1"), most=2)
    with pytest.raises(IntegrityError):
        state.add_job(job_row("2"), most=2)
    assert state.add_job(job_row("3", "k"), most=2)
    assert not state.add_job(job_row("4", "l"), most=2)
    assert state.add_job(job_row("5", "j", tenant="b"), most=2)
    assert state.move_job("1", "done", figures={"read_bytes": 1}, outputs={"y": 2}, output_bytes=2)
    assert not state.move_job("1", "failed")
    assert state.job_of("a", "j")["figures"] == {"read_bytes": 1}
    assert [row["job"] for row in state.open_jobs()] == ["3", "5"]
    assert state.used_bytes("a") == 2
    assert state.job_counts() == {"done": 1, "queued": 2}


def test_twenty_threads_that_submit_the_same_job_make_one(state):
    accepted, refused = [], []

    def submit(number: int) -> None:
        try:
            accepted.append(state.add_job(job_row(str(number)), most=100))
        except IntegrityError:
            refused.append(number)

    threads = [threading.Thread(target=submit, args=(number,)) for number in range(20)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert accepted == [True]
    assert len(refused) == 19


def test_what_has_expired_is_found_and_the_rest_is_not(state):
    now = [10.0]
    state.clock = lambda: now[0]
    state.end_upload("a", "none", blob_row("old", 1, expires_s=10.0))
    state.end_upload("a", "none", blob_row("new", 1, expires_s=10.1))
    state.end_upload("a", "none", blob_row("kept", 1))
    uploads, blobs, jobs = state.expired()
    assert ([row["sha256"] for row in blobs], uploads, jobs) == (["old"], [], [])


def test_a_forgotten_tenant_leaves_the_others_alone(state):
    for tenant in ("a", "b"):
        state.add_tenant(tenant)
        made = new_token()
        state.add_token(made.identity, made.digest, tenant, ("run",), None)
        state.add_job(job_row(tenant, tenant=tenant), most=9)
        state.put_program(tenant, "p", "k", {"keys": []})
        state.end_upload(tenant, "none", blob_row("s", 3, tenant=tenant))
    state.forget_tenant("a", keep_tokens=True)
    assert len(state.tokens("a")) == 1
    assert state.jobs("a") == state.programs("a") == state.blobs("a") == []
    state.forget_tenant("a", keep_tokens=False)
    assert state.tokens("a") == []
    assert [row["tenant"] for row in state.tenants()] == ["b"]
    assert len(state.jobs("b")) == len(state.programs("b")) == len(state.blobs("b")) == 1


def test_the_audit_trail_is_in_order(state):
    for number in range(5):
        state.record(CALLER, "submit", f"job {number}")
    entries = state.trail()
    assert [row["subject"] for row in entries] == [f"job {number}" for number in range(5)]
    assert [row["subject"] for row in state.trail(entries[2]["entry"])] == ["job 3", "job 4"]


def test_the_state_is_there_when_it_is_opened_again(state, url):
    state.add_tenant("a")
    state.put_program("a", "p", "k", {"params": {"größe": 1}})
    again = ServiceState(url)
    assert again.program("a", "p")["description"] == {"params": {"größe": 1}}
    again.close()


def test_tables_of_the_release_before_open_as_they_are(state, url):
    # They have no table of removals and fewer indexes, and each content has one use.
    state.add_tenant("a")
    state.end_upload("a", "none", blob_row("s", 3, expires_s=9e9))
    state.add_job(job_row("1", output_bytes=5), most=9)
    state.close()
    engine = create_engine(url)
    with engine.begin() as connection:
        connection.execute(text("drop table removals"))
        for index in ("jobs_of_state", "jobs_bytes", "blobs_bytes"):
            connection.execute(text(f"drop index {index}"))
    engine.dispose()
    again = ServiceState(url)
    assert again.used_bytes("a") == 8
    assert again.add_use("a", "s", "package", None)
    assert again.blob("a", "s")["kind"].split() == ["input", "package"]
    assert again.blob("a", "s")["expires_s"] == 9e9
    again.bury("a", keep_tokens=True)
    again.close()
    again = ServiceState(url)
    assert again.removing == {"a"}
    with pytest.raises(Problem, match="being removed"):
        again.add_upload(upload_row("u", 1), most=9)
    again.forget_tenant("a", keep_tokens=True)
    assert again.add_upload(upload_row("u", 1), most=9)
    again.close()


def test_parallel_writers_of_one_tenant_see_what_the_others_took(state):
    state.add_tenant("a")
    accepted, refused = [], []

    def fits(used: int) -> None:
        time.sleep(0.002)
        if used + 15 > 20:
            raise Problem(507, "full", remedy="remove some", kind="quota")

    def begin(number: int) -> None:
        try:
            accepted.append(state.add_upload(upload_row(f"u{number}", 15), most=99, fits=fits))
        except Problem as problem:
            refused.append(problem.kind)

    threads = [threading.Thread(target=begin, args=(number,)) for number in range(30)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert (accepted, refused) == ([True], ["quota"] * 29)


def test_tables_of_another_version_are_refused(state, url):
    from sqlalchemy import update

    from penstock.service.state.tables import about

    with state._writing() as connection:
        connection.execute(update(about).values(value="99"))
    with pytest.raises(StateUnusable, match="version 99"):
        ServiceState(url)


def test_a_database_that_goes_and_comes_back_refuses_in_between(postgres):
    state = ServiceState(emptied(postgres.url))
    postgres.stop()
    try:
        with pytest.raises(Problem) as refused:
            state.tenants()
        assert (refused.value.status, refused.value.kind) == (503, "database")
        assert refused.value.retry_after_s
    finally:
        postgres.start()
    state.add_tenant("after")
    assert "after" in [row["tenant"] for row in state.tenants()]
    state.close()


# pg8000 leaves the socket of a broken connection to the garbage collector, which warns of it.
@pytest.mark.filterwarnings("ignore::pytest.PytestUnraisableExceptionWarning")
def test_a_lock_whose_connection_broke_is_taken_again_or_lost_for_good(postgres):
    emptied(postgres.url)
    state = ServiceState(postgres.url, lock=(first := DatabaseLock(postgres.url)))
    state.note("server", "process 7")
    with pytest.raises(FolderRefused, match="process 7"):
        DatabaseLock(postgres.url)
    engine = create_engine(postgres.url, isolation_level="AUTOCOMMIT")
    with engine.connect() as other:

        def broken() -> None:
            other.execute(text("select pg_terminate_backend(pid) from pg_locks where locktype = 'advisory'"))
            wait = time.monotonic() + 5
            while other.execute(text("select count(*) from pg_locks where locktype = 'advisory'")).scalar():
                assert time.monotonic() < wait
                time.sleep(0.02)

        broken()
        first.ensure()
        with pytest.raises(FolderRefused):
            DatabaseLock(postgres.url)
        broken()
        second = DatabaseLock(postgres.url)
        for _ in range(2):
            with pytest.raises(Problem, match="another server uses the database"):
                first.ensure()
        assert first.lost == "process 7"
        second.ensure()
        second.release()
        with pytest.raises(Problem):
            first.ensure()
    engine.dispose()
    first.release()
    state.close()
