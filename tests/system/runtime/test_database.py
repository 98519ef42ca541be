"""Databases that are encrypted for real, on disk, and queried by reading them: right answers, or none."""

from __future__ import annotations

import json
import os
import re
import signal
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from click.testing import CliRunner

from penstock.base.system.files import TEMPORARY_PREFIX
from penstock.errors import CheckFailed, ParamsError, PenstockError, UsageError
from penstock.front.cli.main import main
from penstock.front.cli.verbs.database import command
from penstock.program.database.description import CIPHERTEXTS, MATCH, PIR, RECORDS, SSC
from penstock.runtime.keystore.pairs import PAIRS
from penstock.runtime.scanning.query import trace_scan
from penstock.runtime.scanning.store import Database, DatabaseError
from penstock.scheme.machines.written import write_machine
from penstock.scheme.traces.inspect import differences

pytestmark = pytest.mark.usefixtures("encrypting")
SET = "insecure-database"


def penstock(*arguments: object) -> dict[str, Any]:
    """The JSON that `penstock database …` prints; its errors are raised."""
    texts = [str(each) for each in arguments]
    done = CliRunner(mix_stderr=False) if "mix_stderr" in CliRunner.__init__.__code__.co_varnames else CliRunner()
    result = done.invoke(command, [*texts, "--format", "json"], catch_exceptions=False, standalone_mode=False)
    found: dict[str, Any] = json.loads(result.stdout)
    return found


@pytest.mark.parametrize(
    ("width", "bits", "folds", "stored"),
    [(96, 24, "", RECORDS), (96, 16, "3", RECORDS), (288, 24, "2", RECORDS), (96, 24, "2", CIPHERTEXTS)],
)
def test_records_come_back_byte_for_byte(tmp_path: Path, width: int, bits: int, folds: str, stored: str) -> None:
    records = 5 * 2048 - 7
    penstock(
        "make",
        tmp_path / "db",
        "--kind",
        PIR,
        "--params",
        SET,
        "--records",
        records,
        "--record-bytes",
        width,
        "--bits-per-slot",
        bits,
        "--segment",
        "1 MiB",
        *(["--encrypted"] if stored == CIPHERTEXTS else []),
    )
    found = penstock(
        "query",
        tmp_path / "db",
        "--index",
        0,
        "--index",
        records - 1,
        "--index",
        4096,
        "--check",
        *(["--folds", folds] if folds else []),
    )
    assert found["checked"] is True
    assert [len(bytes.fromhex(each)) for each in found["records_hex"]] == [width] * 3
    assert found["chunk_error"] < 0.25
    assert found["read_bytes"] == Database.open(tmp_path / "db").layout.total_bytes


def test_scores_are_those_in_the_clear_and_so_are_the_best(tmp_path: Path) -> None:
    penstock("make", tmp_path / "db", "--kind", SSC, "--params", SET, "--records", 4096, "--features", 64)
    one = penstock("query", tmp_path / "db", "--check", "--top", 3)
    assert one["checked"] is True
    assert len(one["top"]) == 3
    np.save(tmp_path / "query.npy", np.eye(64)[5])
    two = penstock("query", tmp_path / "db", "--check", "--vector", tmp_path / "query.npy", "--prefetch", 0)
    assert two["checked"] is True
    assert two["top"] != one["top"]
    for bad in (np.full(64, np.nan), np.ones(64, dtype=complex)):
        np.save(tmp_path / "query.npy", bad)
        with pytest.raises(UsageError, match="a query is finite real numbers"):
            penstock("query", tmp_path / "db", "--vector", tmp_path / "query.npy")


def test_scores_are_right_up_to_what_an_answer_carries_and_refused_beyond(tmp_path: Path) -> None:
    """Every slot of the answer holds the largest score: a coefficient comes as close to the modulus as it can."""
    np.save(tmp_path / "v.npy", np.full((2048, 1), 2.82))
    np.save(tmp_path / "q.npy", np.full(1, 2.82))
    common = ("--kind", SSC, "--params", SET, "--features", 1, "--data", tmp_path / "v.npy")
    penstock("make", tmp_path / "db", *common)
    found = penstock("query", tmp_path / "db", "--vector", tmp_path / "q.npy", "--top", 2048)
    assert {round(each["score"], 6) for each in found["top"]} == {round(2.82**2, 6)}
    np.save(tmp_path / "q.npy", np.full(1, 2.83))
    with pytest.raises(ParamsError, match=r"the query has a length .* of 2\.83: .* carries scores below 8"):
        penstock("query", tmp_path / "db", "--vector", tmp_path / "q.npy")
    np.save(tmp_path / "v.npy", np.full((2048, 1), 2.83))
    for dry in ([], ["--dry-run"]):
        with pytest.raises(ParamsError, match="vector 0 has a length"):
            penstock("make", tmp_path / "other", *common, *dry)


def test_patterns_are_found_where_they_stand(tmp_path: Path) -> None:
    text = tmp_path / "notes.txt"
    lines = [f"line {i:05d} of this" for i in range(300)]
    text.write_text("\n".join(lines))
    penstock("make", tmp_path / "db", "--kind", MATCH, "--params", SET, "--data", text, "--record-bytes", 32)
    assert penstock("query", tmp_path / "db", "--pattern", "00123 of")["matches"] == []  # at an odd byte
    assert penstock("query", tmp_path / "db", "--pattern", " 00123 o")["matches"] == [{"record": 123, "byte": 4}]
    assert len(penstock("query", tmp_path / "db", "--pattern", " of ")["matches"]) == 300


@pytest.mark.parametrize(("bits", "said"), [(16, True), (8, False)])
def test_a_pattern_between_words_is_not_looked_for_and_a_note_says_so(
    tmp_path: Path, bits: int, said: bool, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "letters.txt").write_text("alpha\ngamma\n")
    make = ["--kind", MATCH, "--params", SET, "--data", tmp_path / "letters.txt", "--record-bytes", 8]
    penstock("make", tmp_path / "db", *make, "--bits-per-slot", bits)
    assert main(["database", "query", str(tmp_path / "db"), "--pattern", "am", "--format", "json"]) == 0
    shown = capsys.readouterr()
    assert (json.loads(shown.out)["matches"] == []) is said
    assert ("at every 2 bytes of a record" in shown.err) is said


def test_a_scan_from_disk_has_the_trace_of_its_plan(tmp_path: Path) -> None:
    from penstock.runtime.scanning.query import answer

    penstock("make", tmp_path / "db", "--kind", SSC, "--params", SET, "--records", 300, "--features", 16)
    database = Database.open(tmp_path / "db")
    plan = database.description.plan()
    found = answer(database, np.ones(16) / 4, plan=plan)
    expected = trace_scan(plan)
    assert list(differences(found.trace, expected)) == []
    classes = found.trace.objects.to_pylist()
    stored = [each for each in classes if (each["name"] or "").startswith("database")]
    assert len(stored) == database.layout.num_entries
    assert {(each["class"], each["bytes"]) for each in stored} == {("ciphertext", 3 * 2 * 4096 * 8)}


@pytest.mark.usefixtures("openfhe")
def test_a_ciphertext_that_openfhe_read_is_the_one_that_it_wrote_word_by_word() -> None:
    from penstock.program.evaluator.call import Cipher
    from penstock.program.openfhe.evaluator import OpenFheContext, OpenFheEvaluator
    from penstock.program.openfhe.stored import adopt, ciphertext_bytes, ciphertext_reader, library_ciphertext
    from penstock.scheme.params import catalogue

    context = OpenFheContext.create(catalogue.get(SET), relinearize=False)
    try:
        ev = OpenFheEvaluator(context)
        fresh = ev.encrypt(np.linspace(-1, 1, 2048))
        read = ciphertext_reader(ev)
        for written in (fresh, ev.mod_drop(fresh, 2), ev.mult(fresh, 0.5)):
            adopted = adopt(ev, read(ciphertext_bytes(written)), "again")
            assert adopted.state == written.state
            assert np.allclose(ev.decrypt(adopted), ev.decrypt(written), atol=1e-8)
        assert ciphertext_bytes(Cipher(0, fresh.state, value=read(ciphertext_bytes(fresh)))) == ciphertext_bytes(fresh)
        with pytest.raises(PenstockError, match="not a ciphertext"):
            library_ciphertext(b"x" * 100)
    finally:
        context.release()


def test_a_query_is_compared_with_its_simulation(tmp_path: Path) -> None:
    """The disk file is measured here, and the machine is an imagined one: the fields, not the agreement."""
    from penstock.lab.fit.fit import fit_machine
    from penstock.lab.prediction.composites import expanded
    from support.imagined_cpu import sweep

    machine = fit_machine(sweep(), name="imagined", fitted_to="an imagined CPU", expand=expanded)
    write_machine(machine, tmp_path / "cpu.toml")
    penstock("make", tmp_path / "db", "--kind", SSC, "--params", SET, "--records", 640, "--features", 64)
    disk = tmp_path / "disk.toml"
    try:
        measured = penstock("probe", tmp_path, "--params", SET, "--size", "16 MiB", "-o", disk)
    except PenstockError as error:
        pytest.skip(str(error))
    assert measured["read_bytes_per_s"] > 0
    assert not list(tmp_path.glob(f"{TEMPORARY_PREFIX}*"))
    found = penstock("query", tmp_path / "db", "--compare", tmp_path / "cpu.toml", "--disk", disk, "--quiet")
    assert found["simulated_error"] == pytest.approx(found["simulated_s"] / found["total_s"] - 1)
    assert found["simulated_cpu_s"] == pytest.approx(
        sum(found[f"simulated_{part}_s"] or 0.0 for part in ("checksum", "decode", "compute", "encode", "client")),
        rel=0.2,
    )
    # The thread that computes waits or runs; what it had of the processor is no more.
    assert 0 < found["own_cpu_s"] <= found["cpu_s"] * 1.01
    assert found["compute_s"] <= found["wall_s"] <= found["total_s"]


def test_nothing_is_answered_from_a_damaged_database(tmp_path: Path) -> None:
    penstock("make", tmp_path / "db", "--kind", SSC, "--params", SET, "--records", 500, "--segment", "1 MiB")
    database = Database.open(tmp_path / "db")
    path = database.segment_path(database.layout.num_segments - 1)
    content = bytearray(path.read_bytes())
    content[database.layout.header_bytes + 1000] ^= 1
    path.write_bytes(content)
    for verb in ("query", "verify"):
        with pytest.raises(DatabaseError, match="is damaged"):
            penstock(verb, tmp_path / "db")


def test_wrong_questions_are_refused(tmp_path: Path) -> None:
    penstock("make", tmp_path / "db", "--kind", PIR, "--params", SET, "--records", 5000, "--record-bytes", 6)
    for arguments, what in (
        (["--index", 5000], "no record 5000"),
        (["--index", -1], "no record -1"),
        ([], "name the record"),
        (["--pattern", "x"], "for string-match databases"),
        (["--index", 1, "--folds", "x"], "whole numbers"),
        (["--index", 1, "--compare", "sharp"], "needs both"),
        (["--index", 1, "--summation", "bsgs"], "--summation is for ssc databases, and this is for pir"),
        (["--index", 1, "--top", 3], "--top is for ssc"),
    ):
        with pytest.raises(UsageError, match=what):
            penstock("query", tmp_path / "db", *arguments)
    with pytest.raises(ParamsError, match="3 times in sequence"):
        penstock("query", tmp_path / "db", "--index", 1, "--folds", "2,2")


@pytest.mark.parametrize(
    ("kind", "option", "words"),
    [
        (SSC, ["--encrypted"], "--encrypted is for pir databases"),
        (SSC, ["--bits-per-slot", "16"], "--bits-per-slot is for pir and string-match"),
        (SSC, ["--record-bytes", "7"], "--record-bytes is for"),
        (PIR, ["--features", "3"], "--features is for ssc databases, and this is for pir"),
        (MATCH, ["--batch", "7"], "--batch is for ssc"),
    ],
)
def test_options_of_another_kind_are_refused(tmp_path: Path, kind: str, option: list[str], words: str) -> None:
    with pytest.raises(UsageError, match=words):
        penstock("make", tmp_path / "db", "--kind", kind, "--params", SET, "--records", 10, "--dry-run", *option)


def test_a_probe_of_less_than_a_read_is_refused(tmp_path: Path) -> None:
    for size in ("0B", "1B", "8 MB"):
        with pytest.raises(UsageError, match=r"measured by reads of 8\.389 MB"):
            penstock("probe", tmp_path, "--size", size, "-o", tmp_path / "d.toml")
    assert not list(tmp_path.iterdir())


def test_a_load_that_goes_on_prints_the_segments_of_its_folder(tmp_path: Path) -> None:
    begin = ["make", tmp_path / "db", "--kind", PIR, "--params", SET, "--records", 9 * 2048, "--record-bytes", 6]
    first = penstock(*begin, "--segment", "24 KiB")
    (tmp_path / "db" / ".complete").unlink()
    (tmp_path / "db" / "segments" / "000003.seg").unlink()
    again = penstock(*begin, "--segment", "1 MiB")
    assert first["segments"] > 1
    assert (again["segments"], again["entries"]) == (first["segments"], first["entries"])
    assert (again["segments_made"], again["segments_kept"]) == (1, first["segments"] - 1)


def test_a_lost_or_foreign_key_is_noticed(tmp_path: Path, encrypting: str) -> None:
    files = PAIRS[encrypting]
    for name in ("one", "two"):
        penstock("make", tmp_path / name, "--kind", SSC, "--params", SET, "--records", 300, "--features", 16)
    key = tmp_path / "one" / "keys" / files.secret
    assert key.stat().st_mode & 0o777 == 0o600
    assert key.parent.stat().st_mode & 0o777 == 0o700
    for each in (files.secret, files.public):
        (tmp_path / "one" / "keys" / each).write_bytes((tmp_path / "two" / "keys" / each).read_bytes())
    for verb in ("query", "verify"):
        with pytest.raises(DatabaseError, match="not those that the database was encrypted with, or are damaged"):
            penstock(verb, tmp_path / "one")
    public = key.with_name(files.public)
    kept = public.read_bytes()
    public.unlink()
    with pytest.raises(DatabaseError, match=rf"{re.escape(files.public)} is missing: no query is encrypted without it"):
        penstock("verify", tmp_path / "one")
    public.write_bytes(kept)
    key.unlink()
    for verb in ("query", "verify"):
        with pytest.raises(DatabaseError, match=rf"{re.escape(files.secret)} is missing: .* bring it back"):
            penstock(verb, tmp_path / "one")
    assert penstock("verify", tmp_path / "two")["verified_entries"] > 0


def test_a_wrong_answer_fails_the_check(tmp_path: Path) -> None:
    """A database that says that it was drawn from another seed."""
    from dataclasses import replace

    penstock("make", tmp_path / "db", "--kind", PIR, "--params", SET, "--records", 100, "--record-bytes", 6)
    database = Database.open(tmp_path / "db")
    other = replace(database.description, source={"generated": True, "seed": 99})
    replace(database, description=other).write_header()
    with pytest.raises(CheckFailed, match="differs"):
        penstock("query", tmp_path / "db", "--index", 3, "--check")


@pytest.mark.smoke
def test_a_killed_load_goes_on_where_it_stopped(tmp_path: Path) -> None:
    folder = tmp_path / "db"
    arguments = [
        "make",
        str(folder),
        "--kind",
        SSC,
        "--params",
        SET,
        "--records",
        "6144",
        "--features",
        "64",
        "--segment",
        "1 MiB",
        "--format",
        "json",
    ]
    start = [sys.executable, "-c", "import sys; from penstock.front.cli.main import main; sys.exit(main())", "database"]
    process = subprocess.Popen([*start, *arguments], stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    segments = folder / "segments"
    deadline = time.monotonic() + 60
    while not segments.is_dir() or len(list(segments.glob("[0-9]*.seg"))) < 2:
        assert process.poll() is None, "the load ended before it could be killed"
        assert time.monotonic() < deadline
        time.sleep(0.002)
    os.kill(process.pid, signal.SIGKILL)
    process.wait()
    with pytest.raises(DatabaseError, match="the load stopped after"):
        penstock("query", folder)
    done = penstock(*arguments[:-2])
    assert done["segments_kept"] >= 2
    assert done["segments_made"] > 0
    assert not list(segments.glob(f"{TEMPORARY_PREFIX}*"))
    assert penstock("verify", folder)["verified_entries"] == done["entries"]
    assert penstock("query", folder, "--check")["checked"] is True


@pytest.mark.parametrize("kind", [SSC, PIR, MATCH])
@pytest.mark.usefixtures("openfhe")
def test_a_scan_by_openfhe_gives_the_native_one_s_answer_and_trace(tmp_path: Path, kind: str) -> None:
    from penstock.runtime.scanning.query import answer

    wide = ("--features", 16) if kind == SSC else ("--record-bytes", 6)
    arguments = ("--kind", kind, "--params", SET, "--records", 300, *wide, "--client-library", "openfhe")
    penstock("make", tmp_path / "db", *arguments)
    database = Database.open(tmp_path / "db")
    plan = database.description.plan()
    question: Any = {SSC: np.ones(16) / 4, PIR: [7, 299], MATCH: b"ab"}[kind]
    native, library = (answer(database, question, plan=plan, reading=each) for each in ("native", "openfhe"))
    assert list(differences(native.trace, library.trace)) == []
    assert (native.records, native.matches) == (library.records, library.matches)
    if kind == SSC:
        assert native.scores == pytest.approx(library.scores, abs=1e-6)


@pytest.mark.parametrize("kind", [SSC, MATCH])
def test_a_size_that_is_asked_for_is_about_the_one_on_disk(tmp_path: Path, kind: str, library: str) -> None:
    arguments = ("--kind", kind, "--params", SET, "--size", "4 MiB", "--segment", "1 MiB", "--client-library", library)
    planned = penstock("make", tmp_path / "db", *arguments, "--dry-run")
    made = penstock("make", tmp_path / "db", *arguments)
    assert planned["entry_bytes"] == pytest.approx(made["entry_bytes"], rel=0.02)
    assert (planned["records"], planned["segments"]) == (made["records"], made["segments"])
    on_disk = sum(each.stat().st_size for each in (tmp_path / "db" / "segments").iterdir())
    assert on_disk == made["database_bytes"] == pytest.approx(4 * 2**20, rel=0.05)


@pytest.mark.usefixtures("openfhe", "encrypting")
def test_a_scan_by_openfhe_takes_no_other_client(tmp_path: Path) -> None:
    for kind, question in ((PIR, ["--index", 1]), (SSC, [])):
        wide = ["--record-bytes", 6] if kind == PIR else ["--features", 16, "--client-library", "penstock"]
        penstock("make", tmp_path / kind, "--kind", kind, "--params", SET, "--records", 300, *wide)
        asked = ["query", tmp_path / kind, *question, "--reading", "openfhe"]
        with pytest.raises(UsageError, match=r"has its own client|and 'openfhe' was asked for|asked for: leave"):
            penstock(*asked, "--client-library", "penstock")
    with pytest.raises(UsageError, match="holds a key pair of penstock's client"):
        penstock("query", tmp_path / SSC, "--reading", "openfhe")
