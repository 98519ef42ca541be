"""The client of the service, against a strict fake of its HTTP interface with faults."""

from __future__ import annotations

import json
import os
import re
import shutil
import signal
import stat
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pytest

from penstock.base.system import web
from penstock.base.system.web import ServiceError, ServiceRefused, ServiceUnreachable
from penstock.errors import CheckFailed, ParamsError, PenstockError, UsageError
from penstock.front.cli.main import main
from penstock.program.package.builder import PackageBuilder
from penstock.program.package.content import ConstantsInMemory, Input, Output, Verb
from penstock.program.package.file import write_package
from penstock.runtime.client import Service
from penstock.runtime.client.uploads import digest_of
from penstock.scheme.params import catalogue
from support.fake_service import EXPIRED, TOKEN, FakeService, fake_service

PARAMS = catalogue.get("insecure-small")
X = np.linspace(-1.0, 1.0, 8)
COMMAND = [sys.executable, "-c", "import sys; from penstock.front.cli.main import main; sys.exit(main())"]


@pytest.fixture(scope="module")
def package(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A program whose output is its input, and that needs two keys at different limbs."""
    constants = ConstantsInMemory()
    builder = PackageBuilder(constants)
    x = builder.encrypt(Input("x", 8))
    square = builder.add(Verb.RESCALE, [builder.add(Verb.SQUARE, [x])])
    builder.add(Verb.ROTATE, [square], argument=1)
    builder.output(x, Output("y", 8))
    path = tmp_path_factory.mktemp("package") / "echo.pkg"
    write_package(builder.finish("echo", PARAMS, constants), path)
    return path


@pytest.fixture
def fake(tmp_path: Path, package: Path) -> Iterator[FakeService]:
    with fake_service(tmp_path) as service:
        sha256 = digest_of(package)[0]
        service.blobs[sha256] = package.read_bytes()
        service.deploy("echo", sha256)
        yield service


@pytest.fixture(autouse=True)
def small_pieces(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("penstock.runtime.client.uploads.PIECE_BYTES", 64 << 10)
    monkeypatch.setattr(web, "_FIRST_PAUSE_S", 0.01)
    monkeypatch.setenv("PENSTOCK_TOKEN", TOKEN)


def client(fake: FakeService, folder: Path, **options: object) -> Service:
    return Service(fake.url, token=TOKEN, folder=folder, allow_insecure=True, **options)  # type: ignore[arg-type]


def test_a_program_runs_from_deployment_to_decryption(fake: FakeService, package: Path, tmp_path: Path) -> None:
    fake.blobs.clear()
    fake.programs.clear()
    with client(fake, tmp_path / "alice") as service:
        service.deploy(package, "echo")
        assert [each["name"] for each in service.programs()] == ["echo"]
        assert service.program("echo").params == PARAMS
        found = service.run("echo", {"x": X})
    assert found.keys() == {"y"}
    assert np.max(np.abs(found["y"] - X)) < 1e-4
    assert fake.keys == fake.programs["echo"]["package"].keys
    assert set(fake.statuses) <= {200, 201, 202}


def test_an_output_that_may_be_complex_keeps_its_imaginary_parts(fake: FakeService, tmp_path: Path) -> None:
    with client(fake, tmp_path / "alice") as service:
        service.make_keys("echo")
        assert service.result(_submitted(service), result_for="owner")["y"].dtype == np.float64
        fake.programs["echo"]["outputs"][0]["complex"] = True
        found = service.result(_submitted(service), result_for="owner")["y"]
    assert found.dtype == np.complex128
    assert np.max(np.abs(found - X)) < 1e-4


def test_keys_are_seeded_and_as_long_as_their_highest_use(fake: FakeService, tmp_path: Path) -> None:
    with client(fake, tmp_path / "alice") as service:
        rows = {row["key"]: row for row in service.make_keys("echo")}
        assert {key: row["limbs"] for key, row in rows.items()} == {"relin": PARAMS.num_q, "rot:5": PARAMS.num_q - 1}
        for row in rows.values():
            whole = PARAMS.stored_key_bytes(row["limbs"])
            assert row["bytes"] < 0.6 * whole
        again = service.make_keys("echo")
    assert [row["made"] for row in rows.values()] == [True, True]
    assert [row["made"] for row in again] == [False, False]


def test_the_pair_and_its_keys_are_the_owners_alone(fake: FakeService, tmp_path: Path) -> None:
    folder = tmp_path / "alice"
    with client(fake, folder) as service:
        service.make_keys("echo")
        service.result(_submitted(service), result_for="owner")
    assert stat.S_IMODE(folder.stat().st_mode) == 0o700
    assert stat.S_IMODE((folder / "secret.pskey").stat().st_mode) == 0o600
    assert stat.S_IMODE((folder / "journal.jsonl").stat().st_mode) == 0o600
    assert stat.S_IMODE((folder / "evaluation").stat().st_mode) == 0o700


def _submitted(service: Service, **options: object) -> str:
    service.upload_keys("echo")
    return service.submit("echo", {"x": X}, **options)  # type: ignore[arg-type]


def test_a_cut_upload_goes_on_from_the_services_offset(fake: FakeService, tmp_path: Path) -> None:
    with client(fake, tmp_path / "alice") as service:
        made = sum(row["bytes"] for row in service.make_keys("echo"))
        fake.cut_after = [100_000, 300_000, 300_001]
        fake.still_writing = 4
        seen: list[tuple[int, int]] = []
        assert service.upload_keys("echo", on_bytes=lambda done, total: seen.append((done, total))) == [
            "relin",
            "rot:5",
        ]
    assert (fake.cut_after, fake.still_writing) == ([], 0)
    assert made == seen[-1][0] == seen[-1][1]
    # What arrived before a cut is not sent again.
    assert fake.received == made
    assert fake.keys.keys() == {"relin", "rot:5"}


def test_an_upload_whose_commit_was_not_answered_is_not_sent_again(fake: FakeService, tmp_path: Path) -> None:
    with client(fake, tmp_path / "alice") as service:
        made = sum(row["bytes"] for row in service.make_keys("echo"))
        fake.lost = [("POST", "/v1/uploads/[^/]+/commit")]
        service.upload_keys("echo")
    assert fake.received == made
    assert fake.keys.keys() == {"relin", "rot:5"}


def test_keys_that_are_there_are_not_sent_again(fake: FakeService, tmp_path: Path) -> None:
    with client(fake, tmp_path / "alice") as service:
        service.make_keys("echo")
        service.upload_keys("echo")
        before = fake.received
        assert service.upload_keys("echo") == []
    assert fake.received == before


def test_the_time_that_a_busy_service_names_is_waited_for(fake: FakeService, tmp_path: Path) -> None:
    with client(fake, tmp_path / "alice") as service:
        fake.busy = ["1", "0"]
        begun = time.monotonic()
        service.programs()
        assert 1.0 <= time.monotonic() - begun < 3.0
        fake.busy = ["Wed, 21 Oct 2015 07:28:00 GMT"]  # a date that has passed
        service.programs()
    assert fake.statuses[503] == 3
    with client(fake, tmp_path / "alice", patience_s=5.0) as service:
        fake.busy = ["3600"]
        begun = time.monotonic()
        with pytest.raises(ServiceRefused, match="Come back in 3600 s") as caught:
            service.programs()
        assert caught.value.retry_after_s == 3600
        assert time.monotonic() - begun < 1.0


def test_a_job_whose_answer_was_lost_is_there_once(fake: FakeService, tmp_path: Path) -> None:
    with client(fake, tmp_path / "alice") as service:
        service.make_keys("echo")
        fake.lost = [("POST", "/v1/jobs")]
        job = _submitted(service)
        assert service.submit("echo", {"x": X}, job) == job
    assert list(fake.jobs) == [job]


def test_a_submission_that_was_cut_off_goes_on_with_its_ciphertexts(fake: FakeService, tmp_path: Path) -> None:
    with client(fake, tmp_path / "alice", patience_s=0.0) as service:
        service.make_keys("echo")
        service.upload_keys("echo")
        fake.lost = [("POST", "/v1/jobs")] * 2  # the client itself asks once more
        with pytest.raises(ServiceUnreachable):
            service.submit("echo", {"x": X})
    (job,) = fake.jobs
    with client(fake, tmp_path / "alice") as service:
        # Other inputs are another job; the same ones go on.
        other = service.submit("echo", {"x": -X})
        assert service.submit("echo", {"x": X}) == job
        assert len(fake.jobs) == 2
        assert np.max(np.abs(service.result(other, result_for="owner")["y"] + X)) < 1e-4
        assert service.submit("echo", {"x": X}) not in (job, other)


def test_a_job_has_one_program_and_one_set_of_inputs(fake: FakeService, tmp_path: Path) -> None:
    with client(fake, tmp_path / "alice", patience_s=0.0) as service:
        service.make_keys("echo")
        service.upload_keys("echo")
        fake.lost = [("POST", "/v1/jobs")] * 2  # the client itself asks once more
        with pytest.raises(ServiceUnreachable):
            service.submit("echo", {"x": X}, "may-7")
        with pytest.raises(UsageError, match="other inputs"):
            service.submit("echo", {"x": X + 1}, "may-7")
        for bad in ("../x", "", "a" * 65, ".hidden"):
            with pytest.raises(UsageError, match="identity"):
                service.submit("echo", {"x": X}, bad)
        with pytest.raises(UsageError, match="shape"):
            service.submit("echo", {"x": X[:3]})


def test_a_lacking_key_is_named_and_a_foreign_pair_refused(fake: FakeService, tmp_path: Path) -> None:
    with client(fake, tmp_path / "alice") as service:
        service.make_keys("echo")
        with pytest.raises(ServiceRefused, match="relin") as caught:
            service.submit("echo", {"x": X})
        assert caught.value.status == 424
        service.upload_keys("echo")
    with client(fake, tmp_path / "second") as service, pytest.raises(UsageError, match="another pair"):
        service.make_keys("echo")


def test_a_key_file_that_changed_is_refused_by_its_digest(fake: FakeService, tmp_path: Path) -> None:
    with client(fake, tmp_path / "alice") as service:
        service.make_keys("echo")
        path = tmp_path / "alice" / "evaluation" / "relin.pkey"
        content = bytearray(path.read_bytes())
        content[-1] ^= 1
        path.write_bytes(content)
        with pytest.raises(ServiceRefused, match=r"wrong digest\. Send the file again"):
            service.upload_keys("echo")
    assert "relin" not in fake.keys


def test_an_expired_token_is_refused_and_shown_nowhere(
    fake: FakeService, tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    with Service(fake.url, token=EXPIRED) as service, pytest.raises(ServiceRefused) as caught:
        service.programs()
    assert caught.value.status == 401
    assert EXPIRED not in str(caught.value) + repr(service) + repr(service.__dict__)
    monkeypatch.setenv("PENSTOCK_TOKEN", EXPIRED)
    words = ["client", "upload", str(tmp_path), "--service", fake.url, "--program", "echo", "--debug"]
    assert main(words) != 0
    assert main(["--debug", *words[:-1]]) != 0
    said = capsys.readouterr()
    assert "401" in said.err
    assert EXPIRED not in said.out + said.err


def test_a_failed_decryption_is_not_told_to_the_service(fake: FakeService, tmp_path: Path) -> None:
    fake.garbage = b"no ciphertext"
    with client(fake, tmp_path / "alice") as service:
        service.make_keys("echo")
        job = _submitted(service)
        for _ in range(2):
            with pytest.raises(PenstockError):
                service.result(job, result_for="owner")
            asked = list(fake.requests)
        assert fake.requests == asked
    outputs = [each for each in fake.requests if "/outputs/" in each[1]]
    assert len(outputs) == 1
    assert fake.requests[-1] == outputs[0], "nothing is sent after the results"


def test_a_job_that_failed_is_an_error_with_its_state(fake: FakeService, tmp_path: Path) -> None:
    fake.end_state = "expired"
    with client(fake, tmp_path / "alice") as service:
        service.make_keys("echo")
        job = _submitted(service)
        with pytest.raises(CheckFailed, match="expired"):
            service.result(job, result_for="owner")


def test_parameters_without_a_level_of_security_need_a_word(fake: FakeService, tmp_path: Path) -> None:
    fake.programs["echo"]["params"]["security_bits"] = 128
    fake.programs["echo"]["params"]["name"] = "fine"
    strict = Service(fake.url, token=TOKEN, folder=tmp_path / "alice")
    with strict, pytest.raises(ParamsError, match="without a level of security"):
        strict.make_keys("echo")
    assert not (tmp_path / "alice").exists()
    fake.programs["echo"]["params"]["q_bits"] = [60] * 40
    with client(fake, tmp_path / "alice") as service, pytest.raises(PenstockError, match="q_bits"):
        service.make_keys("echo")


def test_a_service_that_lies_writes_no_file_outside_and_fills_no_disk(fake: FakeService, tmp_path: Path) -> None:
    with client(fake, tmp_path / "alice") as service:
        service.make_keys("echo")
        job = _submitted(service)
        fake.garbage = bytes(64 << 20)
        with pytest.raises(ServiceUnreachable, match="cannot be a ciphertext"):
            service.result(job, result_for="owner")
        assert sum(path.stat().st_size for path in (tmp_path / "alice").rglob("*") if path.is_file()) < 8 << 20
        for key in ("../../relin", "rot:5/../x", "rot:-1", "secret", "rot:"):
            fake.programs["echo"]["keys"] = [{"key": key, "limbs": 3, "bytes": 0}]
            with pytest.raises(ServiceError, match="is no key"):
                service.make_keys("echo")
        fake.programs["echo"]["keys"] = [{"key": "rot:25", "limbs": PARAMS.num_q + 1, "bytes": 0}]
        with pytest.raises(ServiceError, match="the set has"):
            service.make_keys("echo")
        fake.programs["echo"]["name"] = "other"
        with pytest.raises(ServiceError, match="was asked for"):
            service.program("echo")
    names = {path.name for path in tmp_path.rglob("*.pkey") if "store" not in path.parts}
    assert names == {"relin.pkey", "rot-5.pkey", "one.pkey"}


@pytest.mark.parametrize(
    ("url", "says"),
    [
        ("http://example.org", "for this machine only"),
        ("ftp://127.0.0.1", "not the URL"),
        ("https://me:secret@127.0.0.1", "leave it out"),
        ("http://127.0.0.1:x", "cannot be read"),
    ],
)
def test_a_url_that_would_show_a_secret_is_refused(url: str, says: str) -> None:
    with pytest.raises(UsageError, match=says) as caught:
        Service(url, token=TOKEN)
    assert "me:secret" not in str(caught.value)


def test_a_service_that_is_not_there_is_said_so_in_time(tmp_path: Path) -> None:
    begun = time.monotonic()
    service = Service("http://127.0.0.1:9", token=TOKEN, patience_s=0.3)
    with service, pytest.raises(ServiceUnreachable, match="refused"):
        service.programs()
    assert time.monotonic() - begun < 2.0


def test_a_certificate_is_checked_before_the_token_is_shown(tmp_path: Path) -> None:
    openssl = shutil.which("openssl")
    if openssl is None:
        pytest.skip("openssl is not there to make a certificate")
    files = tmp_path / "certificate.pem", tmp_path / "key.pem"
    subprocess.run(
        [openssl, "req", "-x509", "-newkey", "rsa:2048", "-nodes", "-days", "1", "-subj", "/CN=localhost",
         "-addext", "subjectAltName=IP:127.0.0.1", "-out", files[0], "-keyout", files[1]],
        check=True, capture_output=True,
    )  # fmt: skip
    with fake_service(tmp_path, files) as fake:
        with Service(fake.url, token=TOKEN, ca=files[0]) as service:
            assert service.programs() == []
        begun = time.monotonic()
        strict = Service(fake.url, token=TOKEN)
        with strict, pytest.raises(ServiceUnreachable, match="not trusted") as caught:
            strict.programs()
        assert not caught.value.passing
        assert time.monotonic() - begun < 2.0
        assert len(fake.requests) == 1
    with pytest.raises(UsageError, match="no certificate"):
        Service("https://127.0.0.1", token=TOKEN, ca=Path(__file__))


# The verbs


def said(capsys: pytest.CaptureFixture[str], *words: str) -> list[dict[str, object]]:
    capsys.readouterr()
    code = main([*words, "--format", "json", "-q"])
    shown = capsys.readouterr()
    assert code == 0, shown.err
    found = json.loads(shown.out)
    return found if isinstance(found, list) else [found]


def test_the_verbs_do_what_the_page_says(
    fake: FakeService,
    tmp_path: Path,
    package: Path,
    capsys: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.delenv("PENSTOCK_TOKEN")
    (tmp_path / "token").write_text(TOKEN + "\n")
    access = ["--service", fake.url, "--token-file", "token"]
    (tmp_path / "token").chmod(0o644)
    assert main(["client", "upload", "alice", "--program", "echo", *access]) == 2
    assert "chmod 600" in capsys.readouterr().err
    (tmp_path / "token").chmod(0o600)
    np.save("x.npy", X)
    assert said(capsys, "client", "deploy", str(package), "--name", "second", *access)[0]["name"] == "second"
    keygen = ["client", "keygen", "alice", "--program", "echo", *access]
    assert main(keygen) == 2
    assert "--allow-insecure" in capsys.readouterr().err
    assert {row["key"] for row in said(capsys, *keygen, "--allow-insecure")} == {"relin", "rot:5"}
    (sent,) = said(capsys, "client", "upload", "alice", "--program", "echo", *access)
    assert (sent["keys"], sent["bytes"]) == (2, fake.received)
    submit = ["client", "submit", "alice", "--program", "echo", "--input", "x.npy", "--allow-insecure", *access]
    assert said(capsys, *submit, "--job", "may-7") == said(capsys, *submit, "--job", "may-7")
    assert said(capsys, "client", "wait", "alice", "may-7", *access)[0]["state"] == "done"
    rows = said(capsys, "client", "result", "alice", "may-7", "--for", "owner", *access)
    assert np.allclose([row["value"] for row in rows], X, atol=1e-4)
    said(capsys, "client", "result", "alice", "may-7", "--for", "owner", "-o", "y.npy", *access)
    assert np.allclose(np.load("y.npy"), X, atol=1e-4)
    assert list(fake.jobs) == ["may-7"]
    assert main(["client", "keygen", "bob", "--params", "insecure-ci", "--program", "echo", *access]) == 2
    assert main(["client", "keygen", "bob"]) == 2


def test_a_client_that_is_killed_in_mid_upload_goes_on_with_the_same_command(fake: FakeService, tmp_path: Path) -> None:
    with client(fake, tmp_path / "alice") as service:
        made = sum(row["bytes"] for row in service.make_keys("echo"))
    fake.slow_s = 0.02
    words = [*COMMAND, "client", "upload", "alice", "--service", fake.url, "--program", "echo", "--format", "json"]
    environment = {**os.environ, "PENSTOCK_TOKEN": TOKEN}
    with subprocess.Popen(words, cwd=tmp_path, env=environment, stdout=subprocess.DEVNULL) as process:
        deadline = time.monotonic() + 30
        while fake.received < made // 4:
            assert time.monotonic() < deadline
            assert process.poll() is None
            time.sleep(0.005)
        os.kill(process.pid, signal.SIGKILL)
    assert process.returncode == -signal.SIGKILL
    assert fake.keys == {}
    time.sleep(0.2)
    before, fake.slow_s = fake.received, 0.0
    assert before < made
    done = subprocess.run(words, cwd=tmp_path, env=environment, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    assert fake.keys.keys() == {"relin", "rot:5"}
    assert fake.received == made, "what had arrived was sent again"
    assert TOKEN not in done.stdout + done.stderr
    assert not [path for path in (tmp_path / "alice").rglob("*") if path.is_file() and TOKEN in _text(path)]


def _text(path: Path) -> str:
    return path.read_bytes().decode("latin-1")


def test_uploads_take_no_memory_of_the_size_of_the_keys(fake: FakeService, tmp_path: Path) -> None:
    import tracemalloc

    path = tmp_path / "big"
    with path.open("wb") as file:
        for number in range(48):
            file.write(bytes([number]) * (1 << 20))
    with client(fake, tmp_path / "alice") as service:
        from penstock.runtime.client.journal import Journal
        from penstock.runtime.client.uploads import Uploads

        fake.begin = lambda asked: (201, {"upload": "big", "offset": 0})  # type: ignore[method-assign]
        fake.uploads["big"] = {"content": _Counted(), "bytes": 48 << 20, "kind": "input", "sha256": ""}
        fake.commit = lambda name: {"blob": "", "kind": "input"}  # type: ignore[method-assign]
        tracemalloc.start()
        try:
            Uploads(service._web, Journal(None)).send(path, "input")
            peak = tracemalloc.get_traced_memory()[1]
        finally:
            tracemalloc.stop()
    assert fake.received == 48 << 20
    assert peak < 16 << 20


class _Counted:
    """Content that is counted and dropped."""

    def __init__(self) -> None:
        self.size = 0

    def __iadd__(self, piece: bytes) -> _Counted:
        self.size += len(piece)
        return self

    def __len__(self) -> int:
        return self.size


def test_no_verb_takes_a_token_as_an_argument() -> None:
    from penstock.front.cli.verbs.client import command

    for verb in command.commands.values():
        for option in verb.params:
            assert not re.fullmatch("--token", option.opts[0])


def test_keys_are_listed_and_removed_only_with_a_yes(
    fake: FakeService, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    with client(fake, tmp_path / "alice") as service:
        service.make_keys("echo")
        service.upload_keys("echo")
    words = ["--service", fake.url, "--format", "json", "-q"]
    capsys.readouterr()
    assert main(["client", "uploaded", *words]) == 0
    assert {row["key"] for row in json.loads(capsys.readouterr().out)} == fake.keys.keys()
    for what in ("keys", "everything"):
        assert main(["client", "remove", what, *words]) == 2
        said = capsys.readouterr().err
        assert "2 keys of 2 kB" in said
        assert "--yes" in said
    assert not [method for method, _ in fake.requests if method == "DELETE"]
    assert main(["client", "remove", "keys", "--yes", *words]) == 0
    assert json.loads(capsys.readouterr().out)["removed"]["keys"] == 2
    assert not fake.keys
    # The folder's keys go up again.
    assert main(["client", "upload", str(tmp_path / "alice"), "--program", "echo", *words]) == 0
    assert len(fake.keys) == 2
    capsys.readouterr()
    assert main(["client", "remove", "everything", "--yes", *words]) == 0
    found = json.loads(capsys.readouterr().out)
    assert (found["removed"]["keys"], found["remains"]) == (2, "backups")
    assert not fake.programs
