"""Where golden files lie, and what their makers and their tests share.

`FORMAT/NUMBER/whole/` has a file, or a folder, of that format and number. Folders next to it whose names begin with
`damaged`, `cut` or `later` are corrupted twins, and hold only the files that differ. Other folders and `expected.json`
are for the tests. The twin of a large file is cut, and a test changes a byte of the whole file besides.
"""

from __future__ import annotations

import json
import shutil
import struct
from collections.abc import Callable
from pathlib import Path
from typing import Any

from penstock.scheme.params.ckks import CkksParameters
from support.toy import toy

ROOT = Path(__file__).parent
WHOLE = "whole"
MOST_BYTES = 20 << 10
"""Of a file or a folder. A full key at N = 2^6, one limb of Q and one of P, has exactly these: five blocks of 4 KiB."""
PASSPHRASE = b"correct horse"

FORMATS: dict[str, tuple[str, ...]] = {
    "src/penstock/scheme/traces/schema.py": ("trace",),
    "src/penstock/base/runs/record.py": ("run", "sweep"),
    "src/penstock/lab/measure/bench/results.py": ("bench",),
    "src/penstock/runtime/scanning/store.py": ("database-records", "database-ciphertexts"),
    "src/penstock/runtime/similarity/files.py": ("similarity",),
    "crates/penstock-segment/src/header.rs": ("key",),
    "crates/penstock-store/src/index.rs": ("key-index",),
    "crates/penstock-seed/src/lib.rs": ("seeds",),
    "crates/penstock-ckks/src/seeded.rs": ("seeded-ciphertext",),
    "crates/penstock-client/src/file.rs": ("pair",),
    "crates/penstock-package/src/frame.rs": ("package",),
    "src/penstock/service/near/frames.py": ("frames",),
    "src/penstock/service/state/database.py": ("service-state",),
    "src/penstock/program/running/trace_pack.py": ("trace-pack",),
}
"""File that states a format's number (docs/reference/releases.md) -> folders here."""


def params_of(secret: str = "uniform-ternary", limbs: int = 1, ring_dim: int = 64) -> CkksParameters:
    """A set without any security: the smallest ring that the client takes is N = 2^6."""
    return toy(
        name="insecure-golden", ring_dim=ring_dim, slots=ring_dim // 2, q_bits=(50,) * limbs, p_bits=(60,) * limbs,
        dnum=1, secret=secret,
    )  # fmt: skip


PAIR_PARAMS = {1: params_of(), 2: params_of("uniform-encapsulated", ring_dim=128)}
"""Of a key pair of each number. Keys of numbers 1 and 2 are of the first pair, 3 and 4 of the second."""


def folder_of(name: str, number: int) -> Path:
    return ROOT / name / str(number)


def twins_of(name: str, number: int) -> list[str]:
    """The corrupted twins of a fixture."""
    kinds = ("damaged", "cut", "later")
    return sorted(each.name for each in folder_of(name, number).iterdir() if each.name.startswith(kinds))


def copied(name: str, number: int, to: Path, *overlays: str) -> Path:
    """A copy of a fixture in `to`, with the files of these folders over it, and for its owner alone."""
    to.mkdir(parents=True, exist_ok=True)
    for part in (WHOLE, *overlays):
        source = folder_of(name, number) / part
        assert source.is_dir(), source
        shutil.copytree(source, to, dirs_exist_ok=True)
    for each in (to, *to.rglob("*")):
        each.chmod(0o700 if each.is_dir() else 0o600)
    return to


def expected(name: str, number: int) -> dict[str, Any]:
    """The values in a fixture that was made with random bytes, as its maker noted them."""
    found: dict[str, Any] = json.loads((folder_of(name, number) / "expected.json").read_text())
    return found


def note(folder: Path, values: dict[str, Any]) -> None:
    """Note the values in a fixture."""
    (folder / "expected.json").write_text(json.dumps(values, indent=1) + "\n")


def twin(folder: Path, name: str, file: str, change: Callable[[bytes], bytes]) -> None:
    """Write the corrupted twin of a file."""
    path = folder / name / file
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(change((folder / WHOLE / file).read_bytes()))


def flipped(at: int, mask: int = 1) -> Callable[[bytes], bytes]:
    """One byte changed, counted from the end where `at` is negative."""

    def change(content: bytes) -> bytes:
        place = at % len(content)
        return content[:place] + bytes([content[place] ^ mask]) + content[place + 1 :]

    return change


def cut(keep: int) -> Callable[[bytes], bytes]:
    """The first `keep` bytes."""
    return lambda content: content[:keep]


def replaced(old: str, new: str) -> Callable[[bytes], bytes]:
    """A text that occurs once, exchanged."""

    def change(content: bytes) -> bytes:
        assert content.count(old.encode()) == 1, (old, content.count(old.encode()))
        return content.replace(old.encode(), new.encode())

    return change


def number_at(path: Path, at: int, size: str = "<I") -> int:
    """A number in a file."""
    (found,) = struct.unpack_from(size, path.read_bytes(), at)
    return int(found)
