"""Mutated bytes for the key store: imports, segments, headers whose checksum is made anew, and the index."""

from __future__ import annotations

import shutil
import sqlite3
from contextlib import closing, suppress
from pathlib import Path
from typing import Any

import numpy as np

from faults.fields import LIMITS, Field, number, set_some
from faults.frame import mutated
from faults.strings_ckks import RING_DIM, ROTATION_KEY, Mutant, Scheme, Wrong, check_works, mutant_of, named
from faults.xxh3 import xxh3_64
from penstock import _engine
from penstock.errors import PenstockError
from penstock.runtime.keystore import KeyCache, KeyName, KeyStore, KeyUse, parameter_digest
from penstock.scheme.operations import CONJ_KEY, RELIN_KEY

TENANT, BUDGET = "alice", 1 << 22
HEADER_BYTES = 4096
KEYS = (RELIN_KEY, CONJ_KEY, ROTATION_KEY)
READERS = ("auto", "pread", "pread", "uring")
_INDEX = "index.sqlite"


def made_store(scheme: Scheme, folder: Path) -> Path:
    """A store with the scheme's keys."""
    store = KeyStore(folder)
    for key in KEYS:
        store.import_openfhe(TENANT, scheme.key_bytes[key], params=scheme.params, key=key)
    return folder


def rows(scheme: Scheme, key: Any) -> np.ndarray:
    """(words,) of a key at the full chain, from wherever it is."""
    params = scheme.params
    room = np.empty(2 * params.dnum * (params.num_q + params.num_p) * RING_DIM, dtype=np.uint64)
    return room[: _engine.ckks_key_words(scheme.context, key, params.num_q, room)]


class Store:
    """A store that is made anew for each case from the files of one that is whole."""

    def __init__(self, scheme: Scheme, whole: Path) -> None:
        self.scheme, self.whole = scheme, whole
        self.digest = parameter_digest(scheme.params)
        self.files = {path.relative_to(whole): path.read_bytes() for path in whole.rglob("*") if path.is_file()}
        self.segments = {path: content for path, content in self.files.items() if path.suffix == ".pkey"}
        self.words = {key: rows(scheme, handle) for key, handle in scheme.keys.items()}

    def laid_out(self, folder: Path, changed: dict[Path, bytes]) -> Path:
        """The folder of a store with these files changed; files are written only where others are there."""
        root = folder / "store"
        there = {path.relative_to(root) for path in root.rglob("*") if path.is_file()}
        for path in there - self.files.keys() - changed.keys():
            (root / path).unlink()
        for path, content in (self.files | changed).items():
            target = root / path
            if path in there and target.read_bytes() == content:
                continue
            target.parent.mkdir(parents=True, exist_ok=True)
            target.write_bytes(content)
        return root

    def opened(self, root: Path, rng: Any) -> KeyStore:
        return KeyStore(root, reader=str(rng.choice(READERS)), direct=bool(rng.random() < 0.5))

    def check(self, store: KeyStore, rng: Any) -> tuple[int, int]:
        """Each key is handed out as it was imported, or not at all: how many were, and how many of the store's."""
        ahead = 2 if rng.random() < 0.2 else 0
        cache = KeyCache(store, BUDGET, policy=str(rng.choice(["future", "lru"])), prefetch_uses=ahead)
        listed = [each.name for each in store.list_keys()]
        own = [KeyName(TENANT, self.digest, key) for key in KEYS]
        given = 0
        plan = cache.plan([KeyUse(name, self.scheme.params.num_q) for name in own]) if ahead else None
        for name in {*listed, *own}:
            with suppress(PenstockError):
                store.verify(name)
            limbs = self.scheme.params.num_q if name.digest == self.digest else 1
            try:
                tag = self.scheme.key_tag if rng.random() < 0.5 else None
                key = cache.session(name.tenant, name.digest, plan, secret_tag=tag).get(name.key, limbs)
            except PenstockError as error:
                named(error)
                continue
            with key:
                if name not in own:
                    raise Wrong(f"a key that was never imported is handed out: {name}")
                if not np.array_equal(rows(self.scheme, key), self.words[name.key]):
                    raise Wrong(f"{name.key} is handed out with other words")
            given += 1
        if plan is not None:
            plan.close()
        return given, len(own)


def _ended(given: int, all_keys: int) -> str:
    return "all as they were" if given == all_keys else f"{all_keys - given} refused"


def _header_fields(num_moduli: int, num_rows: int) -> list[Field]:
    names = [("magic", 0, 8), ("version", 8, 4), ("header bytes", 12, 4), ("N", 16, 4), ("limbs of Q", 20, 4),
             ("limbs of P", 24, 4), ("dnum", 28, 4), ("digest", 32, 8), ("kind", 48, 8), ("element", 56, 8),
             ("length of tenant", 64, 1), ("tenant", 65, 4), ("length of tag", 129, 1), ("tag", 130, 4)]  # fmt: skip
    fields = [Field(*each) for each in names]
    fields += [Field("modulus", 256 + 8 * i, 8) for i in range(num_moduli)]
    fields += [Field("checksum of a row", 256 + 8 * (num_moduli + i), 8) for i in range(0, num_rows, 5)]
    return [*fields, Field("padding", HEADER_BYTES - 64, 8), Field("checksum", HEADER_BYTES - 8, 8)]


class Segments:
    """Segment files: damaged ones, and headers with a checksum that fits."""

    name = "segment"

    def __init__(self, store: Store) -> None:
        self.store = store
        params = store.scheme.params
        self.moduli = params.num_q + params.num_p
        self.fields = _header_fields(self.moduli, 2 * params.dnum * self.moduli)

    def check(self, rng: Any, folder: Path) -> tuple[Mutant, str]:
        paths = list(self.store.segments)
        path = paths[int(rng.integers(len(paths)))]
        content = self.store.segments[path]
        how = rng.random()
        if how < 0.55:
            mutant = self._header(content, rng)
        elif how < 0.65:
            mutant = Mutant(*self._exchanged(content, rng))
        else:
            mutant = Mutant(*mutated(content, rng))
        changed = {path: mutant.content}
        if mutant.forged and rng.random() < 0.5:
            changed[self._own_path(mutant.content, path)] = mutant.content
        root = self.store.laid_out(folder, changed)
        if rng.random() < 0.4:
            (root / _INDEX).unlink()  # then every segment is read for the new one
        store = self.store.opened(root, rng)
        given, all_keys = self.store.check(store, rng)
        store.gc(dry_run=True)
        return mutant, _ended(given, all_keys)

    def _header(self, content: bytes, rng: Any) -> Mutant:
        header, rest = content[:HEADER_BYTES], content[HEADER_BYTES:]
        header, how = set_some(header, self.fields, rng)
        if rng.random() < 0.25:
            return Mutant(header + rest, how)
        if rng.random() < 0.5:
            header, how = self._own_digest(header), f"{how}, own digest"
        header = header[:-8] + xxh3_64(header[:-8]).to_bytes(8, "little")
        if rng.random() < 0.3:
            rest += bytes(4096 * int(rng.integers(1, 40)))
        return Mutant(header + rest, f"{how}, own checksum", forged=True)

    def _own_digest(self, header: bytes) -> bytes:
        """With the digest of the parameters that it states, where there is one."""
        ring_dim, num_q, num_p, dnum = (int.from_bytes(header[at : at + 4], "little") for at in (16, 20, 24, 28))
        words = np.frombuffer(header[256 : 256 + 8 * min(num_q + num_p, 300)], dtype="<u8").tolist()
        with suppress(PenstockError, OverflowError):
            digest = _engine.key_digest(ring_dim, words[:num_q], words[num_q : num_q + num_p], dnum)
            return header[:32] + bytes.fromhex(digest) + header[48:]
        return header

    def _own_path(self, content: bytes, path: Path) -> Path:
        """Where a header says that it lies, where that is a place in a store."""
        tenant = content[65 : 65 + min(content[64], 64)].decode("latin-1")
        if not tenant.replace("-", "").isalnum() or not tenant.isascii():
            return path
        kind, element = (int.from_bytes(content[at : at + 8], "little") for at in (48, 56))
        stem = {0: "relin", 1: "conj", 3: "to-sparse", 4: "to-dense", 5: "from-small", 6: "from-small-squared"}.get(
            kind, f"rot-{element}"
        )
        return Path(tenant) / content[32:48].hex() / f"{stem}.pkey"

    def _exchanged(self, content: bytes, rng: Any) -> tuple[bytes, str]:
        """Two rows, or a row with one of another key."""
        other = list(self.store.segments.values())[int(rng.integers(len(self.store.segments)))]
        count = (len(content) - HEADER_BYTES) // 4096
        a, b = (HEADER_BYTES + 4096 * int(rng.integers(count)) for _ in range(2))
        return content[:a] + other[b : b + 4096] + content[a + 4096 :], "row of elsewhere"


_CELLS: tuple[Any, ...] = (
    None, "", "x", "0" * 32, "rot:7", "../../x", b"", b"\xff" * 48, b"\0" * (1 << 16), -1, -(1 << 63), (1 << 63) - 1,
    1.5, float("inf"), *(each for each in LIMITS if each < 1 << 63),
)  # fmt: skip
_COLUMNS = ("tenant", "digest", "key", "ring_dim", "num_q", "digits", "moduli", "secret_tag", "header_checksum")
_SCRIPTS = (
    "DROP TABLE keys", "DROP TABLE unsettled", "DELETE FROM keys", "PRAGMA user_version = 2",
    "PRAGMA application_id = 0", "ALTER TABLE keys DROP COLUMN header_checksum", "DROP INDEX keys_of_secret",
    "ALTER TABLE keys ADD COLUMN more INTEGER", "ALTER TABLE keys RENAME TO others", 
    "DROP TABLE keys; CREATE TABLE keys (x)",
    "INSERT INTO unsettled VALUES ('alice/x/relin.pkey', 0)", "INSERT INTO unsettled VALUES (x'ff', 'x')",
    "INSERT INTO unsettled SELECT tenant || '/' || digest || '/relin.pkey', 1 FROM keys LIMIT 1",
    "CREATE TRIGGER t BEFORE INSERT ON keys BEGIN SELECT RAISE(ABORT, 'no'); END",
    "CREATE TRIGGER t AFTER DELETE ON keys BEGIN INSERT INTO keys SELECT * FROM keys; END",
    "CREATE TRIGGER t AFTER INSERT ON unsettled BEGIN DELETE FROM keys; END",
    "ALTER TABLE keys RENAME TO others; CREATE VIEW keys AS SELECT * FROM others",
    "ALTER TABLE keys RENAME TO others; CREATE VIEW keys AS WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i + 1 "
    "FROM n) SELECT others.* FROM others, n",
    "PRAGMA journal_mode = WAL", "PRAGMA page_size = 512; VACUUM", "PRAGMA encoding = 'UTF-16'; VACUUM",
)  # fmt: skip


_FILE_HEADER = ((16, 2), (18, 1), (19, 1), (21, 1), (28, 4), (32, 4), (36, 4), (44, 4), (52, 4), (56, 4))
"""SQLite's: places and sizes of the page size, the format, the number of pages, …"""


class Indexes:
    """`index.sqlite`: damaged, with cells that make no sense, or of another schema."""

    name = "index"

    def __init__(self, store: Store) -> None:
        self.store = store

    def check(self, rng: Any, folder: Path) -> tuple[Mutant, str]:
        whole = self.store.files[Path(_INDEX)]
        how = rng.random()
        if how < 0.45:
            mutant = Mutant(*self._statement(whole, folder, rng))
        elif how < 0.55:
            fields = [Field(f"byte {at} of the file", at, size) for at, size in _FILE_HEADER]
            mutant = Mutant(*set_some(whole, fields, rng))
        else:
            mutant = Mutant(*mutated(whole, rng))
        root = self.store.laid_out(folder, {Path(_INDEX): mutant.content})
        try:
            store = self.store.opened(root, rng)
        except PenstockError as error:
            named(error)
            return mutant, "store refused"
        given, all_keys = self.store.check(store, rng)
        with suppress(PenstockError):
            store.gc(dry_run=bool(rng.random() < 0.5))
        return mutant, _ended(given, all_keys)

    def _statement(self, whole: bytes, folder: Path, rng: Any) -> tuple[bytes, str]:
        path = folder / "changed.sqlite"
        path.write_bytes(whole)
        with closing(sqlite3.connect(path)) as made:
            if rng.random() < 0.3:
                text = _SCRIPTS[int(rng.integers(len(_SCRIPTS)))]
                with suppress(sqlite3.Error):
                    made.executescript(text)
            else:
                column, cell = _COLUMNS[int(rng.integers(len(_COLUMNS)))], _CELLS[int(rng.integers(len(_CELLS)))]
                where = "WHERE key = 'relin'" if rng.random() < 0.7 else ""
                text = f"UPDATE keys SET {column} = {str(cell)[:20]} {where}"
                with suppress(sqlite3.Error):
                    made.execute(f"UPDATE OR REPLACE keys SET {column} = ? {where}", (cell,))
            made.commit()
        content = path.read_bytes()
        path.unlink()
        return content, text


class Imports:
    """OpenFHE's keys, from bytes and from a file."""

    name = "import"

    def __init__(self, store: Store) -> None:
        self.store = store

    def check(self, rng: Any, folder: Path) -> tuple[Mutant, str]:
        scheme = self.store.scheme
        files = scheme.key_bytes | scheme.key_files
        name = list(files)[int(rng.integers(len(files)))]
        mutant = mutant_of(files[name], scheme.layouts[name], rng)
        key = name if name in KEYS and rng.random() < 0.8 else None
        root = folder / "imports"
        shutil.rmtree(root, ignore_errors=True)
        store = KeyStore(root)
        source: Path | bytes = mutant.content
        if rng.random() < 0.5:
            source = folder / "keys.bin"
            source.write_bytes(mutant.content)
        params = scheme.params if rng.random() < 0.5 else None
        num_q = None if params else int(rng.choice([scheme.params.num_q, 1, number(rng, 4, 3)]))
        try:
            made = store.import_openfhe(TENANT, source, params=params, num_q=num_q, key=key)
        except PenstockError as error:
            named(error)
            made = []
        self._held(store, [each.name for each in made])
        return mutant, "imported" if made else "refused"

    def _held(self, store: KeyStore, made: list[KeyName]) -> None:
        """What was imported is whole, and an evaluator takes it."""
        scheme, cache = self.store.scheme, KeyCache(store, BUDGET, prefetch_uses=0)
        for each in store.list_keys():
            if fault := store.verify(each.name).fault:
                raise Wrong(f"an import that is not whole: {fault}")
            taken = dict(scheme.keys)
            with cache.session(TENANT, each.name.digest).get(each.name.key, len(each.moduli_q)) as key:
                if each.name.digest != self.store.digest:
                    continue
                taken |= {CONJ_KEY if each.name.key == CONJ_KEY else ROTATION_KEY: key}
                if each.name.key == RELIN_KEY:
                    taken = {**scheme.keys, RELIN_KEY: key}
                check_works(scheme, scheme.real("fresh"), taken)
        if missing := set(made) - {each.name for each in store.list_keys()}:
            raise Wrong(f"imported and not listed: {missing}")
