"""Databases on disk: what is damaged, cut short, unfinished or foreign is named, and nothing of it is used."""

from __future__ import annotations

import hashlib
import json
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

from penstock.base.system.files import TEMPORARY_PREFIX, WouldOverwrite
from penstock.errors import ParamsError, PenstockError, UsageError
from penstock.program.database.content import FromFile, Generated
from penstock.program.database.description import CIPHERTEXTS, PIR, RECORDS, SSC, Description
from penstock.runtime.scanning.load import make
from penstock.runtime.scanning.query import _decoder
from penstock.runtime.scanning.store import BLOCK_BYTES, COMPLETE, HEADER, Database, DatabaseError, DatabaseLayout
from penstock.runtime.scanning.stream import EntryStream, verify_segment
from penstock.scheme.params import catalogue

WIDTH, BLOCKS = 6, 7
SET = catalogue.get("insecure-database")


def description(records: int = BLOCKS * 2048 - 3, **changes: object) -> Description:
    fields = {"kind": PIR, "params": SET, "stored": RECORDS, "records": records, "record_bytes": WIDTH,
              "bits_per_slot": 24, "source": {"generated": True, "seed": 3}}  # fmt: skip
    return Description(**{**fields, **changes})  # type: ignore[arg-type]


def made(path: Path, **changes: object) -> Database:
    of = description()
    content = Generated(PIR, of.records, WIDTH, 3)
    return make(path, of, content, segment_bytes=2 * 12288, **changes)[0]  # type: ignore[arg-type]


def entries(database: Database, prefetch: int = 2, direct: bool = True) -> list[bytes]:
    return list(EntryStream(database, lambda number, content: content, prefetch=prefetch, direct=direct))


@pytest.mark.parametrize(("prefetch", "direct"), [(0, True), (1, True), (3, False), (100, True)])
def test_entries_come_back_in_order_as_they_were_written(tmp_path: Path, prefetch: int, direct: bool) -> None:
    database = made(tmp_path / "db")
    assert (database.layout.num_segments, database.layout.per_segment) == (4, 2)
    read = b"".join(entries(database, prefetch, direct))
    rows = Generated(PIR, BLOCKS * 2048 - 3, WIDTH, 3).rows(0, 10**6)
    assert read.rstrip(b"\0") == rows.tobytes().rstrip(b"\0")
    assert len(read) == BLOCKS * 2048 * WIDTH


def test_the_header_comes_back_and_sizes_add_up(tmp_path: Path) -> None:
    database = made(tmp_path / "db")
    again = Database.open(tmp_path / "db")
    assert again == database
    assert again.complete
    on_disk = sum(f.stat().st_size for f in (tmp_path / "db" / "segments").iterdir())
    assert on_disk == database.layout.total_bytes
    assert database.layout.header_bytes % BLOCK_BYTES == 0


def test_generated_records_do_not_depend_on_where_a_load_begins() -> None:
    content = Generated(SSC, 5000, 16, 9)
    whole = content.rows(0, 5000)
    assert whole.shape == (5000, 16)
    assert np.allclose(np.linalg.norm(whole, axis=1), 1)
    assert np.array_equal(content.rows(1500, 1000), whole[1500:2500])
    assert np.array_equal(content.rows(4990, 100), whole[4990:])
    assert not np.array_equal(Generated(SSC, 5000, 16, 8).rows(0, 10), whole[:10])


def damage(path: Path, at: int) -> None:
    content = bytearray(path.read_bytes())
    content[at] ^= 1
    path.write_bytes(content)


def test_a_damaged_entry_stops_the_scan_and_is_named(tmp_path: Path) -> None:
    database = made(tmp_path / "db")
    damage(database.segment_path(2), database.layout.header_bytes + database.layout.stride + 100)
    for prefetch in (0, 2):
        with pytest.raises(DatabaseError, match=r"000002.seg: entry 5 is damaged .*nothing is answered"):
            entries(database, prefetch)
    verify_segment(database, 1)
    with pytest.raises(DatabaseError, match="entry 5"):
        verify_segment(database, 2)


def test_every_byte_of_a_segment_is_checked(tmp_path: Path) -> None:
    """The zeros between entries too, which nothing uses."""
    database = made(tmp_path / "db")
    path, layout = database.segment_path(0), database.layout
    database.write_segment(0, [b"short" for _ in layout.entries(0)])
    assert verify_segment(database, 0) == len(layout.entries(0))
    damage(path, layout.header_bytes + layout.stride - 1)
    with pytest.raises(DatabaseError, match=r"entry 0 is damaged \(bytes behind it are not zero\)"):
        verify_segment(database, 0)


def test_a_damaged_or_truncated_segment_is_named(tmp_path: Path) -> None:
    database = made(tmp_path / "db")
    path = database.segment_path(1)
    whole = path.read_bytes()
    for at in (3, 60, database.layout.header_bytes - 1):
        damage(path, at)
        with pytest.raises(DatabaseError, match="header is damaged"):
            entries(database)
        path.write_bytes(whole)
    for length in (0, 100, len(whole) - 1):
        path.write_bytes(whole[:length])
        with pytest.raises(DatabaseError, match="it is truncated"):
            entries(database)
    path.write_bytes(whole + b"x")
    with pytest.raises(DatabaseError, match="it is longer than what was written"):
        entries(database)
    path.write_bytes(database.segment_path(2).read_bytes())
    with pytest.raises(DatabaseError, match="it is segment 2 of database"):
        entries(database)
    path.unlink()
    with pytest.raises(DatabaseError, match="missing"):
        entries(database)


def test_a_segment_of_another_database_is_refused(tmp_path: Path) -> None:
    one, two = made(tmp_path / "one"), made(tmp_path / "two")
    one.segment_path(0).write_bytes(two.segment_path(0).read_bytes())
    with pytest.raises(DatabaseError, match="it is segment 0 of database"):
        entries(one)


def test_a_damaged_header_or_a_newer_version_is_refused(tmp_path: Path) -> None:
    made(tmp_path / "db")
    path = tmp_path / "db" / HEADER
    record = json.loads(path.read_text())
    for content in (b"", b"{", b"[]", b'{"version": 1}', json.dumps(record | {"identity": "0"}).encode()):
        path.write_bytes(content)
        with pytest.raises(DatabaseError, match="header is damaged"):
            Database.open(tmp_path / "db")
    path.write_text(json.dumps(record | {"version": 99}))
    with pytest.raises(DatabaseError, match="version 99"):
        Database.open(tmp_path / "db")
    with pytest.raises(UsageError, match="holds no database"):
        Database.open(tmp_path)


def signed(record: dict[str, Any]) -> str:
    """A header with a checksum that is its own."""
    record = {name: value for name, value in record.items() if name != "checksum"}
    text = json.dumps(record, sort_keys=True, separators=(",", ":"))
    return json.dumps({**record, "checksum": hashlib.sha256(text.encode()).hexdigest()})


@pytest.mark.parametrize(
    ("where", "value"),
    [
        *((("layout", name), value) for name in ("entry_bytes", "num_entries", "per_segment")
          for value in (0, -1, 1 << 40, "7", None, 2.0, True)),
        (("layout",), []),
        (("description",), 3),
        (("description", "params"), "x"),
        (("description", "records"), 1 << 70),
        (("description", "records"), 14333.0),
        (("description", "record_bytes"), "6"),
        (("description", "source"), []),
        (("description", "kind"), []),
        (("identity",), float("nan")),
    ],
)  # fmt: skip
def test_a_header_with_a_checksum_of_its_own_and_values_that_none_has_is_refused(
    tmp_path: Path, where: tuple[str, ...], value: object
) -> None:
    path = tmp_path / HEADER
    layout = DatabaseLayout.of(description(), 1 << 20)
    Database(path=tmp_path, description=description(), layout=layout, identity="0" * 16).write_header()
    record = parent = json.loads(path.read_text())
    for name in where[:-1]:
        parent = parent[name]
    parent[where[-1]] = value
    path.write_text(signed(record))
    with pytest.raises(PenstockError, match=r"damaged|records|of another version|malformed|retrieval"):
        Database.open(tmp_path)


@pytest.mark.parametrize("content", [b"[" * 100_000, b'{"version": NaN, "checksum": 1}', b'{"a": 1e999, "version": 1}'])
def test_a_header_of_brackets_or_no_numbers_is_damaged(tmp_path: Path, content: bytes) -> None:
    (tmp_path / HEADER).write_bytes(content)
    with pytest.raises(DatabaseError, match="header is damaged"):
        Database.open(tmp_path)


def test_what_is_missing_of_an_unfinished_database_is_counted_by_its_files(tmp_path: Path) -> None:
    database = made(tmp_path / "db")
    (tmp_path / "db" / COMPLETE).unlink()
    many = replace(database, layout=replace(database.layout, num_entries=1 << 60, per_segment=1))
    with pytest.raises(DatabaseError, match="after 4 of 1152921504606846976 segments"):
        many.require_complete()


SEGMENT_CHANGES: tuple[dict[str, object], ...] = (
    {"sizes": [1]}, {"sizes": 5}, {"sizes": ["1", "2"]}, {"sizes": [-1, 5]}, {"sizes": [1 << 40, 5]},
    {"sizes": None}, {"checksums": ["00", "11"]}, {"checksums": [1, 2]}, {"checksums": ["x" * 64] * 2},
    {"database": None}, {"segment": []}, {"sizes": [True, True]}, {"sizes": [1.0, 2.0]},
)  # fmt: skip


def test_a_segment_with_a_checksum_of_its_own_and_values_that_none_has_is_refused(tmp_path: Path) -> None:
    database = made(tmp_path / "db")
    path, size = database.segment_path(0), database.layout.header_bytes
    content = path.read_bytes()
    magic = content[: content.index(b"{")]
    whole = json.loads(content[len(magic) : size - 32].rstrip(b"\0"))
    for record in (*(whole | change for change in SEGMENT_CHANGES), *SEGMENT_CHANGES, []):
        text = (magic + json.dumps(record).encode()).ljust(size - 32, b"\0")
        path.write_bytes(text + hashlib.sha256(text).digest() + content[size:])
        with pytest.raises(DatabaseError, match=r"damaged|it is segment"):
            verify_segment(database, 0)


def test_a_segment_that_is_much_too_small_takes_no_memory(tmp_path: Path) -> None:
    database = made(tmp_path / "db")
    huge = replace(database, layout=replace(database.layout, num_entries=1 << 50, per_segment=1 << 50))
    with pytest.raises(DatabaseError, match="it is truncated"):
        verify_segment(huge, 0)


def test_records_of_another_size_than_their_place_are_not_answered_from(tmp_path: Path) -> None:
    database = made(tmp_path / "db")
    decode = _decoder(database, database.description.plan(), None)  # type: ignore[arg-type]
    with pytest.raises(DatabaseError, match="entry 3 has 5 bytes"):
        decode(3, b"short")


def test_an_unfinished_load_goes_on_and_is_not_queried(tmp_path: Path) -> None:
    database = made(tmp_path / "db")
    (tmp_path / "db" / COMPLETE).unlink()
    database.segment_path(3).unlink()
    damage(database.segment_path(1), database.layout.header_bytes + 5)
    with pytest.raises(DatabaseError, match="stopped after 3 of 4 segments"):
        database.require_complete()
    kept = database.segment_path(0).stat().st_mtime_ns
    again, times = make(tmp_path / "db", description(), Generated(PIR, description().records, WIDTH, 3))
    assert (times.segments_kept, times.segments_made) == (2, 2)
    assert again.identity == database.identity
    assert database.segment_path(0).stat().st_mtime_ns == kept
    assert len(entries(again)) == BLOCKS


def test_a_finished_or_different_database_is_not_overwritten(tmp_path: Path) -> None:
    database = made(tmp_path / "db")
    with pytest.raises(WouldOverwrite):
        made(tmp_path / "db")
    (tmp_path / "db" / COMPLETE).unlink()
    with pytest.raises(UsageError, match="another description"):
        make(tmp_path / "db", description(records=5), Generated(PIR, 5, WIDTH, 3))
    assert made(tmp_path / "db", force=True).identity != database.identity
    (tmp_path / "other").mkdir()
    (tmp_path / "other" / "thesis.tex").write_text("x")
    with pytest.raises(UsageError, match="other files"):
        made(tmp_path / "other")


def test_what_a_killed_load_leaves_is_no_other_file(tmp_path: Path) -> None:
    """Killed before there is a header, before the end, and after it."""
    path = tmp_path / "db"
    leftover, folder = path / f"{TEMPORARY_PREFIX}0c25.json", path / f"{TEMPORARY_PREFIX}keys"

    def leave() -> None:
        folder.mkdir(parents=True)
        (folder / "secret.key").write_text("half")
        leftover.write_text("half")

    leave()
    made(path)
    assert not list(path.glob(f"{TEMPORARY_PREFIX}*"))
    (path / COMPLETE).unlink()
    leave()
    made(path)
    assert not list(path.glob(f"{TEMPORARY_PREFIX}*"))
    leave()
    made(path, force=True)
    assert not list(path.glob(f"{TEMPORARY_PREFIX}*"))


def test_a_folder_of_keys_that_is_no_databases_is_not_cleared(tmp_path: Path) -> None:
    (tmp_path / "keys" / "alice").mkdir(parents=True)
    for force in (False, True):
        with pytest.raises(UsageError, match="other files \\(keys/alice\\)"):
            made(tmp_path, force=force)
    assert (tmp_path / "keys" / "alice").is_dir()


def test_two_loads_of_one_folder_exclude_each_other(tmp_path: Path) -> None:
    from penstock.runtime.scanning.load import _locked

    (tmp_path / "db").mkdir()
    with _locked(tmp_path / "db"), pytest.raises(PenstockError, match="another process"):
        made(tmp_path / "db")
    assert made(tmp_path / "db").complete


def test_a_file_in_the_place_of_the_folder_is_named(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("x")
    (tmp_path / "link").symlink_to(tmp_path / "nowhere")
    for name in ("file", "link"):
        with pytest.raises(UsageError, match=f"{name} is not a folder"):
            made(tmp_path / name, force=True)
    assert (tmp_path / "file").read_text() == "x"


def test_a_database_larger_than_the_disk_is_refused_before_it_is_begun(tmp_path: Path) -> None:
    records = 2**50
    with pytest.raises(PenstockError, match="the disk has"):
        make(tmp_path / "db", description(records=records, bits_per_slot=8), Generated(PIR, records, WIDTH, 3))


@pytest.mark.parametrize("stored", [RECORDS, CIPHERTEXTS])
def test_a_database_that_would_be_replaced_stays_where_the_disk_is_too_small(tmp_path: Path, stored: str) -> None:
    path, records = tmp_path / "db", 2**50
    database = made(path)
    (path / "keys" / "secret.key").write_text("kept")
    with pytest.raises(PenstockError, match="the disk has"):
        make(
            path,
            description(records=records, bits_per_slot=8, stored=stored),
            Generated(PIR, records, WIDTH, 3),
            force=True,
        )
    assert Database.open(path) == database
    assert database.complete
    assert len(entries(database)) == BLOCKS
    assert (path / "keys" / "secret.key").read_text() == "kept"


def test_what_an_unfinished_database_takes_is_free_for_the_one_that_replaces_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    database = made(tmp_path / "db")
    (tmp_path / "db" / COMPLETE).unlink()
    size = database.layout.total_bytes

    def usage(path: Path) -> SimpleNamespace:
        held = sum(file.stat().st_size for file in (tmp_path / "db" / "segments").glob("*.seg"))
        return SimpleNamespace(free=size - held)

    monkeypatch.setattr("penstock.runtime.scanning.load.shutil.disk_usage", usage)
    assert made(tmp_path / "db", force=True).complete


def test_records_of_a_file_wider_than_their_place_are_refused_with_the_line(tmp_path: Path) -> None:
    path = tmp_path / "records.txt"
    path.write_text("short\nlonger than six\n")
    with pytest.raises(UsageError, match="line 2: a record of 15 bytes is wider than its 6"):
        FromFile(path, PIR, WIDTH)
    found = FromFile(path, PIR, 15)
    assert found.rows(0, 1)[0].tobytes() == b"short" + bytes(10)
    np.save(tmp_path / "v.npy", np.ones((3, 9)))
    with pytest.raises(UsageError, match="9 features are wider than 8"):
        FromFile(tmp_path / "v.npy", SSC, 8)
    np.save(tmp_path / "v.npy", np.ones(3))
    with pytest.raises(UsageError, match="shape"):
        FromFile(tmp_path / "v.npy", SSC, 8)
    with pytest.raises(UsageError, match="no such file"):
        FromFile(tmp_path / "absent", PIR, 8)


def test_vectors_of_a_file_that_are_not_finite_are_refused_by_number(tmp_path: Path) -> None:
    vectors = np.ones((7, 8))
    vectors[5, 2] = np.inf
    np.save(tmp_path / "v.npy", vectors)
    found = FromFile(tmp_path / "v.npy", SSC, 8)
    assert found.rows(0, 5).shape == (5, 8)
    with pytest.raises(UsageError, match=r"v.npy: vector 5 has values that are not finite"):
        found.rows(3, 4)


def test_vectors_whose_scores_do_not_fit_are_refused_before_anything_is_made(tmp_path: Path) -> None:
    vectors = np.ones((3000, 128), dtype=np.uint8)
    vectors[2100] = 200  # its squares are more than a byte
    np.save(tmp_path / "v.npy", vectors)
    content = FromFile(tmp_path / "v.npy", SSC, 128)
    of = Description(kind=SSC, params=SET, stored=CIPHERTEXTS, records=3000, features=128, source=content.identity)
    with pytest.raises(ParamsError, match=r"v.npy: vector 0 has a length .* of 11.31: .* shorter than 2\.828"):
        make(tmp_path / "db", of, content)
    np.save(tmp_path / "v.npy", np.where(vectors > 1, 0.3, 0.1))
    content = FromFile(tmp_path / "v.npy", SSC, 128)
    with pytest.raises(ParamsError, match=r"v.npy: vector 2100 has a length .* of 3.394"):
        make(tmp_path / "db", of, content)
    assert not (tmp_path / "db").exists()


@pytest.mark.filterwarnings("error")
def test_vectors_whose_length_overflows_are_too_long(tmp_path: Path) -> None:
    np.save(tmp_path / "v.npy", np.full((3, 8), 1e300))
    content = FromFile(tmp_path / "v.npy", SSC, 8)
    of = Description(kind=SSC, params=SET, stored=CIPHERTEXTS, records=3, features=8, source=content.identity)
    with pytest.raises(ParamsError, match=r"v.npy: vector 0 has a length"):
        make(tmp_path / "db", of, content)


def test_impossible_descriptions_are_refused() -> None:
    with pytest.raises(UsageError, match="stored as ciphertexts"):
        description(kind=SSC, features=64)
    with pytest.raises(ParamsError, match="for accelerators"):
        description(params=catalogue.get("fheins-pir"), bits_per_slot=8)
    with pytest.raises(ParamsError, match="takes 2049 slots"):
        description(record_bytes=3 * 2048 + 1)
    with pytest.raises(UsageError, match="known are"):
        description(kind="graph")
    assert Description.from_dict(description().to_dict()) == description()


def test_a_stream_that_is_left_early_ends_its_thread(tmp_path: Path) -> None:
    import threading

    before = threading.active_count()
    for _ in EntryStream(made(tmp_path / "db"), lambda number, content: content, prefetch=1):
        break
    assert threading.active_count() == before


def test_layouts_hold_at_least_one_entry_a_segment() -> None:
    layout = DatabaseLayout.of(description(stored=CIPHERTEXTS), 1)
    assert layout.per_segment == 1
    assert layout.num_segments == layout.num_entries == BLOCKS * 2
    with pytest.raises(UsageError, match="wider than its place"):
        Database(path=Path("x"), description=description(), layout=layout, identity="0").write_segment(
            0, [bytes(10**6)]
        )
