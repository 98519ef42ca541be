"""Makers of golden key pairs, ciphertexts, evaluation keys and databases: see `make.py`.

The client draws its randomness from the operating system and takes none from outside. So each call makes other bytes,
and notes the values in them in `expected.json`, by the readers of `tests/support/witness.py` and of this module.

The secret keys are toys: rings of 64 coefficients, which anybody breaks. They guard nothing.
"""

from __future__ import annotations

import hashlib
import json
import shutil
import sqlite3
import struct
from collections.abc import Callable
from contextlib import closing
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from faults.xxh3 import xxh3_64
from golden.fixtures import (
    PAIR_PARAMS,
    PASSPHRASE,
    WHOLE,
    copied,
    cut,
    flipped,
    folder_of,
    note,
    params_of,
    replaced,
    twin,
)
from golden.make import Maker, small_pages
from penstock.program.database.content import Generated
from penstock.program.database.description import CIPHERTEXTS, PIR, RECORDS, SSC, Description
from penstock.runtime.keystore import KeyStore
from penstock.runtime.scanning.load import make as make_database
from support import witness

if TYPE_CHECKING:
    from penstock.runtime.client import KeyPair
    from penstock.scheme.params.ckks import CkksParameters

TENANT = "alice"
SECRET, PUBLIC = "secret.pskey", "public.ppkey"
COST = (8 << 10, 1, 1)
"""Of Argon2id: the least memory (KiB) that the client opens, one pass, one lane."""
KEYS = {1: "relin", 2: "rot:5", 3: "to-sparse", 4: "from-small"}
"""Number of a key's file -> a key that has it."""
SMALL_DIM = 64
"""n of the small ring."""


def values_of(params: CkksParameters) -> np.ndarray:
    """What every input of these files encrypts."""
    return np.linspace(-1, 1, params.slots)


# Pairs.


def _make_pair(number: int) -> Maker:
    def make(folder: Path) -> None:
        """The pair, the same sealed at the least cost, and an input under it."""
        from penstock.runtime.client import KeyPair

        pair = KeyPair.generate(PAIR_PARAMS[number], threads=1)
        whole = folder / WHOLE
        whole.rmdir()
        pair.save(whole)
        content = (whole / SECRET).read_bytes()
        twin(folder, "sealed", SECRET, lambda _: witness.sealed(content, PASSPHRASE, COST, bytes(16), bytes(24)))
        sealed = (folder / "sealed" / SECRET).read_bytes()
        secrets = ["".join("-0+"[value + 1] for value in found) for found in witness.secrets_of(content)]
        note(folder, {"tag": pair.tag, "input": pair.encrypt_seeded(values_of(pair.params)).hex(), "secrets": secrets})
        twin(folder, "damaged-secret", SECRET, flipped(80))
        twin(folder, "damaged-public", PUBLIC, flipped(200))
        twin(folder, "damaged-sealed", SECRET, lambda _: witness.with_checksum(flipped(-40)(sealed)[:-32]))
        twin(folder, "cut-secret", SECRET, cut(90))
        twin(folder, "cut-public", PUBLIC, cut(300))

    return make


def pair_of(number: int, to: Path) -> KeyPair:
    """The golden pair of a number, by way of a copy in `to` that is its owner's alone."""
    from penstock.runtime.client import KeyPair

    return KeyPair.load(copied("pair", number, to), PAIR_PARAMS[number], threads=1)


def _with_pair(number: int, use: Callable[[KeyPair, Path], None]) -> Maker:
    """Makes something with the golden pair of a number."""

    def make(folder: Path) -> None:
        there = folder / "pair"
        use(pair_of(number, there), folder)
        shutil.rmtree(there)

    return make


# Ciphertexts and seeds.


@dataclass(frozen=True)
class Seeded:
    """A seeded ciphertext, read as docs/guides/client.md has it."""

    ring_dim: int
    scale: float
    seed: bytes
    moduli: list[int]
    c0: np.ndarray

    @classmethod
    def read(cls, content: bytes) -> Seeded:
        magic, version, prefix, ring_dim, limbs, _, _, scale = struct.unpack_from("<8s6Id", content)
        assert (magic, version, xxh3_64(content[:-8])) == (b"PSTKSCT\n", 1, int.from_bytes(content[-8:], "little"))
        at = 72 + 8 * limbs + prefix
        rows = np.frombuffer(content, "<u8", limbs * ring_dim, at + -at % 8)
        moduli = list(struct.unpack_from(f"<{limbs}Q", content, 72))
        return cls(ring_dim, scale, content[40:72], moduli, rows.reshape(limbs, ring_dim))


def digest_of(words: Any) -> str:
    """Of words in little-endian bytes."""
    return hashlib.sha256(np.asarray(words, dtype="<u8").tobytes()).hexdigest()


def _make_seeded(pair: KeyPair, folder: Path) -> None:
    content = pair.encrypt_seeded(values_of(pair.params))
    (folder / WHOLE / "input.ct").write_bytes(content)
    found = Seeded.read(content)
    c1 = [witness.expanded(found.seed, 0, k, q, found.ring_dim) for k, q in enumerate(found.moduli)]
    note(folder, {"tag": pair.tag, "c0": digest_of(found.c0), "c1": digest_of(c1)})
    twin(folder, "damaged", "input.ct", flipped(600))
    twin(folder, "later", "input.ct", lambda content: _later_seeded(content))
    twin(folder, "cut", "input.ct", cut(600))


def _later_seeded(content: bytes) -> bytes:
    body = content[:8] + struct.pack("<I", 2) + content[12:-8]
    return body + xxh3_64(body).to_bytes(8, "little")


SEED, Q_0 = bytes(range(32)), 1125899906844161
EXPANDED = ((0, 0, Q_0, 64), (0, 1, 1152921504606844417, 1000), (1, 0, 97, 1000), (2, 5, 1152921504606844417, 1000))
"""Digit, limb, modulus and words of rows of `SEED`; the first is of the set of pair 1."""


def make_seeds(folder: Path) -> None:
    """Rows of one seed, by the witness."""
    rows = []
    for digit, limb, modulus, count in EXPANDED:
        words = witness.expanded(SEED, digit, limb, modulus, count)
        place = {"digit": digit, "limb": limb, "modulus": modulus, "count": count}
        rows.append({**place, "first": words[:2], "sha256": digest_of(words)})
    (folder / WHOLE / "seeds.json").write_text(json.dumps({"seed": SEED.hex(), "rows": rows}, indent=1) + "\n")
    # A seed lies in a key or a ciphertext, whose checksum covers it: a changed one comes with a new checksum.
    key = (folder_of("key", 2) / WHOLE / "key.pkey").read_bytes()
    (folder / "later").mkdir()
    (folder / "later" / "key.pkey").write_bytes(resealed(flipped(204, 3)(key))[:4096])


def resealed(content: bytes) -> bytes:
    """The file of a key with a header that fits its checksum."""
    (size,) = struct.unpack_from("<I", content, 12)
    return content[: size - 8] + xxh3_64(content[: size - 8]).to_bytes(8, "little") + content[size:]


# Evaluation keys and their index.


@dataclass(frozen=True)
class KeyFile:
    """The file of a key with one digit, read as docs/guides/keystore.md has it."""

    version: int
    tag: str
    digest: str
    moduli: list[int]
    """Of Q, then of P, of the set."""
    checksum: int
    rows: dict[str, np.ndarray]
    """`part limb`, where part 0 is A and limbs are Q's, then P's -> words; those of a seed too."""

    @classmethod
    def read(cls, content: bytes) -> KeyFile:
        magic, version, header, ring_dim, num_q, num_p, digits = struct.unpack_from("<8s6I", content)
        checksum = int.from_bytes(content[header - 8 : header], "little")
        assert (magic, digits, num_q, xxh3_64(content[: header - 8])) == (b"PSTKKEY\n", 1, 1, checksum)
        (kind,) = struct.unpack_from("<Q", content, 48)
        moduli = list(struct.unpack_from(f"<{num_q + num_p}Q", content, 256))
        # Limbs in the order of the file, with their moduli.
        limbs = [*enumerate(moduli[num_q:], num_q), (0, moduli[0])]
        if kind in (3, 5, 6):
            limbs = [(1, _auxiliary(ring_dim, 0)), (2, _auxiliary(ring_dim, 1)), (0, moduli[0])]
        is_seeded = version > 1 and number_in(content, 204) == 1
        found, at = {}, header
        for limb, modulus in limbs:
            for part in (0, 1):
                if part == 0 and is_seeded:
                    found[f"0 {limb}"] = np.array(witness.expanded(content[208:240], 0, limb, modulus, ring_dim), "<u8")
                    continue
                found[f"{part} {limb}"] = np.frombuffer(content, "<u8", ring_dim, at)
                assert max(found[f"{part} {limb}"]) < modulus
                at += -(-8 * ring_dim // 4096) * 4096
        assert at == len(content)
        return cls(version, content[130 : 130 + content[129]].decode(), content[32:48].hex(), moduli, checksum, found)


def number_in(content: bytes, at: int) -> int:
    (found,) = struct.unpack_from("<I", content, at)
    return int(found)


def _auxiliary(ring_dim: int, place: int) -> int:
    """The largest prime below 2^33 that is 1 modulo 2N, or the next one."""
    found = [q for q in range((1 << 33) - 2 * ring_dim + 1, 1 << 32, -2 * ring_dim)[:2000] if witness.is_prime(q)]
    return found[place]


def _make_key(number: int) -> Maker:
    def make(pair: KeyPair, folder: Path) -> None:
        path, key = folder / WHOLE / "key.pkey", KEYS[number]
        if key == "from-small":
            pair.key_from_small(_small_owner(pair.params)._secret, squared=False).write(TENANT, str(path))
        else:
            pair.write_key(key, path, tenant=TENANT, seeded=number > 1)
        found = KeyFile.read(path.read_bytes())
        rows = {name: digest_of(words) for name, words in found.rows.items()}
        form = "full" if number == 1 else "seeded"
        note(folder, {"key": key, "form": form, "digest": found.digest, "tag": found.tag, "rows": rows})
        twin(folder, "cut", "key.pkey", cut(100))

    return _with_pair(1 if number < 3 else 2, make)


def _small_owner(params: CkksParameters) -> Any:
    from penstock.runtime.similarity.owner import Owner

    return Owner.generate(params, small_dim=SMALL_DIM, threads=1)


TABLE_1 = """
CREATE TABLE keys (
    tenant TEXT NOT NULL, digest TEXT NOT NULL, key TEXT NOT NULL,
    ring_dim INTEGER NOT NULL, num_q INTEGER NOT NULL, digits INTEGER NOT NULL, moduli BLOB NOT NULL,
    secret_tag TEXT NOT NULL, header_checksum INTEGER NOT NULL,
    PRIMARY KEY (tenant, digest, key)
) WITHOUT ROWID;
CREATE INDEX keys_of_secret ON keys (secret_tag);
PRAGMA application_id = 0x7073746b;
PRAGMA user_version = 1;
"""


def make_index(folder: Path) -> None:
    """Of a store with the golden key of number 1."""
    KeyStore(folder / "store").import_segment(folder_of("key", 1) / WHOLE / "key.pkey", tenant=TENANT)
    shutil.copy(folder / "store" / "index.sqlite", folder / WHOLE)
    shutil.rmtree(folder / "store")
    _finish_index(folder)


def make_index_1(folder: Path) -> None:
    """Without forms and pairs."""
    key = KeyFile.read((folder_of("key", 1) / WHOLE / "key.pkey").read_bytes())
    moduli = struct.pack(f"<{len(key.moduli)}Q", *key.moduli)
    (checksum,) = struct.unpack("<q", struct.pack("<Q", key.checksum))
    row = (TENANT, key.digest, "relin", 64, 1, 1, moduli, key.tag, checksum)
    with closing(sqlite3.connect(folder / WHOLE / "index.sqlite", isolation_level=None)) as index:
        index.executescript(TABLE_1)
        index.execute("INSERT INTO keys VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?)", row)
    _finish_index(folder)


def _finish_index(folder: Path) -> None:
    small_pages(folder / WHOLE / "index.sqlite")
    twin(folder, "damaged", "index.sqlite", flipped(3))
    twin(folder, "cut", "index.sqlite", cut(700))


# Databases.


def records_description() -> Description:
    """Records of two bytes, 32 a block."""
    return Description(
        kind=PIR, params=params_of(limbs=2), stored=RECORDS, records=40, record_bytes=2, bits_per_slot=8,
        source={"generated": True, "seed": 3},
    )  # fmt: skip


def vectors_description() -> Description:
    """Vectors of four features, all of them in one ciphertext."""
    return Description(
        kind=SSC, params=params_of(limbs=3), stored=CIPHERTEXTS, records=7, features=4,
        source={"generated": True, "seed": 3},
    )  # fmt: skip


def _make_database(of: Description, width: int) -> Callable[[Path], None]:
    def make(folder: Path) -> None:
        content = Generated(of.kind, of.records, width, 3)
        make_database(folder / WHOLE, of, content, segment_bytes=1 << 20, library="penstock")
        (folder / WHOLE / ".lock").unlink(missing_ok=True)
        twin(folder, "damaged-header", "database.json", replaced('"records": ', '"records": 1'))
        twin(folder, "cut", "segments/000000.seg", cut(500))

    return make


def similarity_params() -> CkksParameters:
    """The smallest ring above the small one, with the three limbs of a payload."""
    return params_of("uniform-encapsulated", 3, 2 * SMALL_DIM)


def similarity_data() -> tuple[np.ndarray, np.ndarray]:
    """Records of length 1 and their payloads."""
    angles = np.linspace(0, 3, 5)
    return np.stack([np.cos(angles), np.sin(angles)], axis=1), np.arange(35).reshape(5, 7) * 100


def make_similarity(folder: Path) -> None:
    """With payloads. `owner` has the secrets."""
    owner = _small_owner(similarity_params())
    owner.encrypt_database(*similarity_data(), folder / WHOLE)
    owner.save(folder / "owner")
    twin(folder, "damaged-records", "records.bin", flipped(100))
    twin(folder, "damaged", "database.json", replaced('"dim"', '"din"'))
    twin(folder, "later", "database.json", replaced('"version":1', '"version":2'))
    twin(folder, "cut", "payloads.bin", cut(500))


MAKERS: dict[tuple[str, int], Maker] = {
    **{("pair", number): _make_pair(number) for number in PAIR_PARAMS},
    ("seeded-ciphertext", 1): _with_pair(1, _make_seeded),
    **{("key", number): _make_key(number) for number in KEYS},
    ("key-index", 1): make_index_1,
    ("key-index", 2): make_index,
    ("seeds", 1): make_seeds,
    ("database-records", 1): _make_database(records_description(), 2),
    ("database-ciphertexts", 1): _make_database(vectors_description(), 4),
    ("similarity", 1): make_similarity,
}
