"""What one tenant may hold, and what its tokens may change: bytes, rows, uses of contents, and the tenant's end."""

from __future__ import annotations

import asyncio
import hashlib
import threading
from collections.abc import AsyncIterator, Callable, Iterator
from concurrent.futures import Future
from dataclasses import replace
from pathlib import Path

import pytest

pytest.importorskip("fastapi")
pytest.importorskip("sqlalchemy")

from penstock.errors import PenstockError
from penstock.service.http.config import Config, embedded
from penstock.service.http.logs import Log
from penstock.service.http.service import SERVER, ServiceFront
from penstock.service.state.problems import Problem
from penstock.service.state.tables import blobs
from penstock.service.state.tokens import SCOPES, Caller
from support.fake_computing import FakeComputing
from support.serve_site import PARAMS, eventually

OWNER = Caller(tenant="a", token="t", scopes=frozenset(SCOPES))
RUNS = replace(OWNER, scopes=frozenset({"run"}))
DEPLOYS = replace(OWNER, scopes=frozenset({"deploy"}))
PACKAGE, CONTENT = b"package", b"content"
Front = Callable[..., ServiceFront]


@pytest.fixture
def front(tmp_path: Path) -> Iterator[Front]:
    """Makes servers on one folder, each with its own limits; the last one is closed at the end."""
    made: list[ServiceFront] = []

    def make(**limits: int) -> ServiceFront:
        if made:
            made.pop().close()
        config: Config = embedded(tmp_path / "state")
        config = replace(config, limits=config.limits.model_copy(update=limits))
        found = ServiceFront(config, Log(), lambda _, jobs: FakeComputing(jobs, hold=True))
        made.append(found)
        found.state.add_tenant("a")
        found.start()
        return found

    yield make
    for each in made:
        each.close()


def digest(content: bytes) -> str:
    return hashlib.sha256(content).hexdigest()


def begin(service: ServiceFront, content: bytes, kind: str = "input", caller: Caller = OWNER) -> dict:
    return service.uploads.begin(caller, {"kind": kind, "bytes": len(content), "sha256": digest(content)})


def send(service: ServiceFront, content: bytes, kind: str = "input", caller: Caller = OWNER) -> str:
    """A whole upload; its digest."""
    begun = begin(service, content, kind, caller)
    if "upload" in begun:
        commit(service, begun["upload"], content, caller)
    return digest(content)


def commit(service: ServiceFront, upload: str, content: bytes, caller: Caller = OWNER) -> None:
    async def pieces() -> AsyncIterator[bytes]:
        yield content

    asyncio.run(service.uploads.receive(caller, upload, 0, pieces()))
    service.uploads.commit(caller, upload)


def described(output_bytes: int | None = None) -> dict:
    found = {"inputs": [{"name": "x"}], "outputs": [{"name": "y"}], "keys": [], "params": PARAMS.to_dict()}
    sizes = {} if output_bytes is None else {"output_bytes": output_bytes}
    return {**found, **sizes, "predicted": {"key_bytes": 0, "seconds": 1.0, "memory_bytes": 1}}


def deploy(service: ServiceFront, name: str = "p", output_bytes: int | None = 100, most: int | None = None) -> str:
    """A program whose package is there; no examination."""
    package = send(service, PACKAGE, "package")
    service.state.put_program("a", name, package, described(output_bytes), most=most)
    return package


def submit(service: ServiceFront, job: str, content: bytes = CONTENT) -> dict:
    form = {"program": "p", "inputs": {"x": digest(content)}, "priority": 0, "deadline_s": None}
    return service.jobs.submit(OWNER, {"job": job, **form})[1]


def refusal(action: Callable[[], object]) -> tuple[int, str]:
    with pytest.raises(Problem) as refused:
        action()
    return refused.value.status, refused.value.kind


def files(service: ServiceFront) -> list[str]:
    return sorted(path.name for path in service.files.tenants.rglob("*") if path.is_file())


# Bytes


def test_results_count_from_the_submission_of_their_job(front: Front) -> None:
    service = front(tenant_bytes=250)
    deploy(service)
    send(service, CONTENT)
    used = service.state.used_bytes("a")
    submit(service, "one")
    submit(service, "two")
    assert service.state.used_bytes("a") == used + 200
    assert refusal(lambda: submit(service, "three")) == (507, "quota")
    assert service.state.job_of("a", "three") is None
    service.jobs.cancel(OWNER, "one")
    submit(service, "three")
    for spec in list(service.jobs.pool.held):
        service.jobs.pool.release(spec)
    eventually(lambda: service.jobs.show("a", "three")["state"] == "done")
    # A result counts as it is.
    assert service.state.used_bytes("a") == used + 2 * len(CONTENT)


def test_a_job_that_the_queue_refuses_leaves_the_database_alone(front: Front) -> None:
    service = front()
    deploy(service)
    send(service, CONTENT)
    service.jobs.pool.most = 0
    found: list[tuple[int, str]] = []
    submits = threading.Thread(target=lambda: found.append(refusal(lambda: submit(service, "one"))))
    with service.state._turn:  # nobody writes
        submits.start()
        submits.join(20)
        assert found == [(429, "admission")]
    assert service.state.job_of("a", "one") is None
    assert not list(service.files.results("a", "x").parent.glob("*"))
    service.jobs.pool.most = 1
    assert submit(service, "one")["state"] == "queued"


def test_a_program_that_was_deployed_before_reserves_fresh_ciphertexts(front: Front) -> None:
    service = front()
    deploy(service, output_bytes=None)
    send(service, CONTENT)
    used = service.state.used_bytes("a")
    submit(service, "one")
    assert service.state.used_bytes("a") - used >= PARAMS.ciphertext_bytes(PARAMS.num_q)


def test_parallel_uploads_and_submissions_share_one_quota(front: Front) -> None:
    service = front(tenant_bytes=1000)
    deploy(service, output_bytes=300)
    send(service, CONTENT)
    accepted, refused = [], []

    def ask(number: int) -> None:
        try:
            if number % 2:
                begin(service, bytes([number]) * 300)
            else:
                submit(service, f"job-{number}")
        except Problem as problem:
            refused.append(problem.kind)
        else:
            accepted.append(number)

    threads = [threading.Thread(target=ask, args=(number,)) for number in range(30)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert (len(accepted), set(refused)) == (3, {"quota"})
    assert service.state.used_bytes("a") <= 1000


def test_keys_that_take_more_room_than_their_upload_are_refused_before_they_are_imported(
    front: Front, monkeypatch: pytest.MonkeyPatch
) -> None:
    content = bytes(1000)
    service = front(tenant_bytes=len(PACKAGE) + len(content) + 100)
    deploy(service)
    imported: list[object] = []
    monkeypatch.setattr(service.keys._store, "import_openfhe", lambda *given, **named: imported.append(given) or [])
    asked = {"kind": "key", "bytes": len(content), "sha256": digest(content), "name": "relin", "params": "p"}
    begun = service.uploads.begin(OWNER, asked)["upload"]
    assert refusal(lambda: commit(service, begun, content)) == (507, "quota")
    assert not imported
    service = front()
    monkeypatch.setattr(service.keys._store, "import_openfhe", lambda *given, **named: imported.append(given) or [])
    service.uploads.commit(OWNER, begun)
    assert len(imported) == 1


def test_a_smaller_quota_refuses_new_work_and_keeps_the_old(front: Front) -> None:
    service = front()
    deploy(service)
    send(service, CONTENT)
    submit(service, "old")
    service = front(tenant_bytes=1)
    service.sweep()
    assert refusal(lambda: submit(service, "new")) == (507, "quota")
    assert refusal(lambda: begin(service, b"new")) == (507, "quota")
    eventually(lambda: service.jobs.pool.held)
    service.jobs.pool.release(next(iter(service.jobs.pool.held)))
    eventually(lambda: service.jobs.show("a", "old")["state"] == "done")
    assert service.jobs.output("a", "old", "y").read_bytes() == CONTENT
    assert service.jobs.cancel(OWNER, "old")["state"] == "expired"
    service.programs.remove("a", "p")
    assert files(service) == [digest(CONTENT)]


def test_rows_are_bounded_as_bytes_are(front: Front) -> None:
    service = front(contents=3, kept_jobs=2, programs=1)
    deploy(service, most=1)
    assert refusal(lambda: service.state.put_program("a", "q", digest(PACKAGE), {}, most=1)) == (507, "quota")
    send(service, CONTENT)
    begin(service, b"unfinished")
    assert refusal(lambda: begin(service, b"one more")) == (507, "quota")
    assert "blob" in begin(service, CONTENT)
    for name in ("one", "two"):
        submit(service, name)
    assert refusal(lambda: submit(service, "three")) == (507, "quota")
    service.jobs.cancel(OWNER, "one")
    submit(service, "three")  # the oldest that has ended is forgotten
    assert [row["job"] for row in service.jobs.listed("a")] == ["three", "two"]


# Uses of contents


def expire(service: ServiceFront) -> None:
    now = service.state.clock() + 1e6
    service.state.clock = lambda: now
    service.sweep()


@pytest.mark.parametrize("kind", ["input", "ciphertext"])
def test_who_announces_a_package_as_something_else_does_not_change_it(front: Front, kind: str) -> None:
    service = front()
    package = deploy(service)
    assert begin(service, PACKAGE, kind, RUNS) == {"blob": package}
    expire(service)
    assert service.files.blob("a", package).read_bytes() == PACKAGE
    service.state.put_program("a", "again", package, described())
    service.programs._check_package("a", package)


def test_a_package_that_an_earlier_release_took_for_an_input_stays_with_its_program(front: Front) -> None:
    service = front()
    package = deploy(service)
    service.state._update(blobs, {"sha256": package}, kind="input", expires_s=1.0)
    service.sweep()
    assert service.state.blob("a", package)["kind"] == "package"
    assert service.files.blob("a", package).exists()


def test_content_of_two_kinds_stays_until_both_uses_end(front: Front) -> None:
    service = front()
    shared = send(service, CONTENT)
    assert begin(service, CONTENT, "package", DEPLOYS) == {"blob": shared}
    deploy(service)
    submit(service, "names it still")
    service.jobs.cancel(OWNER, "names it still")
    service.state.put_program("a", "q", shared, described())
    service.programs.remove("a", "q")
    submit(service, "names it yet")
    expire(service)
    assert service.files.blob("a", shared).exists()  # a job waits for it
    service.jobs.cancel(OWNER, "names it yet")
    expire(service)
    assert service.state.blob("a", shared) is None
    assert not service.files.blob("a", shared).exists()


def test_an_upload_that_ends_with_the_digest_of_another_kind_adds_a_use(front: Front) -> None:
    service = front()
    early = begin(service, PACKAGE, "input", RUNS)["upload"]
    package = deploy(service)
    commit(service, early, PACKAGE, RUNS)
    expire(service)
    assert service.files.blob("a", package).exists()
    late = begin(service, CONTENT, "input", RUNS)["upload"]
    kept = send(service, CONTENT, "ciphertext")
    commit(service, late, CONTENT, RUNS)
    expire(service)
    assert service.state.blob("a", kept)["kind"] == "ciphertext"


def test_a_job_whose_input_goes_while_it_is_submitted_is_refused(front: Front, monkeypatch: pytest.MonkeyPatch) -> None:
    service = front()
    deploy(service)
    send(service, CONTENT)
    needs = service.keys.needs

    def meanwhile(tenant: str, description: dict) -> dict:
        expire(service)
        return needs(tenant, description)

    monkeypatch.setattr(service.keys, "needs", meanwhile)
    assert refusal(lambda: submit(service, "late")) == (409, "inputs")
    assert service.state.job_of("a", "late") is None


# The end of a tenant


def everything(service: ServiceFront) -> None:
    deploy(service)
    send(service, CONTENT)
    begin(service, b"unfinished")
    submit(service, "waits")


def nothing_of(service: ServiceFront, tenant: str = "a") -> bool:
    state = service.state
    rows = state.jobs(tenant) + state.programs(tenant) + state.blobs(tenant) + state.uploads(tenant)
    return not rows and not (service.files.tenants / tenant).exists() and not state.removing


def test_a_removal_refuses_everything_of_the_tenant_until_it_has_ended(
    front: Front, monkeypatch: pytest.MonkeyPatch
) -> None:
    service = front()
    everything(service)
    token = service.make_token(SERVER, "a", SCOPES, None).text
    begun = begin(service, b"begun before")["upload"]
    real, seen = service.files.forget, []

    def meanwhile(tenant: str) -> None:
        requests: list[Callable[[], object]] = [
            lambda: begin(service, b"new"),
            lambda: begin(service, CONTENT),
            lambda: submit(service, "new"),
            lambda: commit(service, begun, b"begun before"),
            lambda: service.state.put_program("a", "q", digest(PACKAGE), {}),
            lambda: service.state.add_job({"tenant": "a"}, most=9),
            lambda: service.make_token(SERVER, "a", SCOPES, None),
            lambda: service.add_tenant(SERVER, "a"),
        ]
        seen.extend(refusal(request) for request in requests)
        seen.append((0, "token" if service.state.caller(token) is None else "served"))
        real(tenant)

    monkeypatch.setattr(service.files, "forget", meanwhile)
    answer = service.forget_tenant(SERVER, "a", keep_tokens=False)
    assert answer["state"] == "removed"
    assert set(seen) == {(409, "removing"), (0, "token")}
    assert nothing_of(service)
    assert service.add_tenant(SERVER, "a")
    # A request that came before the removal is not served to the tenant who has the name now.
    assert refusal(lambda: begin(service, b"new")) == (409, "removing")
    assert refusal(lambda: submit(service, "new")) == (409, "removing")
    assert nothing_of(service)


def test_a_tenant_that_removes_its_data_is_not_served_meanwhile_and_keeps_its_tokens(
    front: Front, monkeypatch: pytest.MonkeyPatch
) -> None:
    service = front()
    everything(service)
    token = service.make_token(SERVER, "a", SCOPES, None).text
    real, seen = service.keys.forget, []

    def meanwhile(tenant: str) -> int:
        seen.append(refusal(lambda: service.state.caller(token)))
        return real(tenant)

    monkeypatch.setattr(service.keys, "forget", meanwhile)
    service.forget_tenant(OWNER, "a", keep_tokens=True)
    assert seen == [(409, "removing")]
    assert nothing_of(service)
    caller = service.state.caller(token)
    assert caller is not None
    begin(service, b"new", caller=caller)


def test_a_removal_that_a_kill_cut_short_ends_at_the_next_start(front: Front) -> None:
    service = front()
    everything(service)
    service.state.bury("a", keep_tokens=False)
    service = front()
    eventually(lambda: nothing_of(service))
    assert [row["tenant"] for row in service.state.tenants()] == []
    assert not service.jobs.pool.seen


def test_what_cannot_be_removed_now_is_removed_by_a_sweep(front: Front, monkeypatch: pytest.MonkeyPatch) -> None:
    service = front()
    everything(service)
    real = service.files.forget

    def stays(tenant: str) -> None:
        raise OSError(39, "Directory not empty")

    monkeypatch.setattr(service.files, "forget", stays)
    assert service.forget_tenant(SERVER, "a", keep_tokens=False)["state"] == "being removed"
    assert refusal(lambda: service.add_tenant(SERVER, "a")) == (409, "removing")
    service.sweep()
    monkeypatch.setattr(service.files, "forget", real)
    service.sweep()
    assert nothing_of(service)
    assert service.add_tenant(SERVER, "a")


def test_a_removal_waits_for_requests_that_add_something(front: Front, monkeypatch: pytest.MonkeyPatch) -> None:
    service = front()
    send(service, CONTENT)
    real, removal = service.state.add_upload, []

    def slow(*arguments: object, **named: object) -> bool:
        removal.append(threading.Thread(target=service.forget_tenant, args=(SERVER, "a"), kwargs={"keep_tokens": True}))
        removal[0].start()
        eventually(lambda: service.state.removing)
        return real(*arguments, **named)

    monkeypatch.setattr(service.state, "add_upload", slow)
    assert refusal(lambda: begin(service, b"in flight")) == (409, "removing")
    removal[0].join()
    assert nothing_of(service)


def test_files_without_a_row_are_swept_and_others_stay(front: Front) -> None:
    service = front()
    everything(service)
    for name in ("first", "second"):
        begun = begin(service, name.encode())["upload"]
        commit(service, begun, name.encode())
        job = submit(service, name, name.encode())["job"]
        service.jobs.pool.release(service.state.job_of("a", job)["job"])
        eventually(lambda job=job: service.jobs.show("a", job)["state"] == "done")
    service.state.remove_job(service.state.job_of("a", "first")["job"])
    stays = files(service)
    stays.remove("0000.ciphertext")
    left = [service.files.blob("a", "f" * 64), service.files.upload("a", "e" * 32), service.files.upload("a", "d.new")]
    for path in (*left, service.files.results("b", "c" * 32) / "0000.ciphertext"):
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(b"left by a kill")
    service = front()
    eventually(lambda: files(service) == stays)


# Names


@pytest.mark.parametrize("name", ["lock", "LOCK", "index.sqlite", "index.sqlite-wal", "Index.sqlite.damaged"])
def test_a_name_of_the_key_stores_own_files_is_refused(front: Front, name: str) -> None:
    service = front()
    assert refusal(lambda: service.add_tenant(SERVER, name)) == (422, "tenant-name")
    assert [row["tenant"] for row in service.state.tenants()] == ["a"]


@pytest.mark.parametrize("name", [".", "..", "-a", ".a", "a/b", "a" * 65, "ä", "a\n", ""])
def test_a_name_that_is_none_of_a_folder_is_refused(front: Front, name: str) -> None:
    with pytest.raises(PenstockError):
        front().add_tenant(SERVER, name)


def test_a_name_that_the_file_system_takes_for_another_tenants_is_refused(
    front: Front, monkeypatch: pytest.MonkeyPatch
) -> None:
    service = front()
    send(service, CONTENT)
    exists = Path.exists
    monkeypatch.setattr(Path, "exists", lambda path: exists(path.with_name(path.name.lower())))
    assert refusal(lambda: service.add_tenant(SERVER, "A")) == (422, "tenant-name")
    assert not service.add_tenant(SERVER, "a")
    assert service.add_tenant(SERVER, "B")


# Programs that no job could be of


@pytest.mark.parametrize(
    ("change", "said"),
    [
        ({"predicted": {"key_bytes": 0, "seconds": 1.0, "memory_bytes": 9 << 30}}, "work.memory"),
        ({"inputs": [{"name": "x" * 201}]}, "201 characters"),
        ({"outputs": [{"name": ""}]}, "0 characters"),
        ({"inputs": [{"name": "x"}, {"name": "x"}]}, "one name"),
        ({"inputs": [{"name": f"x{number}"} for number in range(1000)]}, "too long for the body"),
    ],
)
def test_a_program_that_every_submission_refuses_is_not_deployed(
    front: Front, monkeypatch: pytest.MonkeyPatch, change: dict, said: str
) -> None:
    service = front()
    package = send(service, PACKAGE, "package")

    def deployed(description: dict) -> bool:
        """Whether the program is new, where its examination finds this."""
        said: Future[dict] = Future()
        said.set_result({"found": description})
        monkeypatch.setattr(service.programs.examiner, "examine", lambda tenant, path: said)
        return asyncio.run(service.programs.deploy(OWNER, "p", package))[0]

    with pytest.raises(Problem, match=said) as refused:
        deployed(described(1) | change)
    assert refused.value.status == 422
    assert deployed(described(1))
