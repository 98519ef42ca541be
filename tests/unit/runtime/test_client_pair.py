"""Key pairs of penstock's client: whole or refused, never printed, and nothing is made from a wrong one."""

from __future__ import annotations

import copy
import hashlib
import os
import pickle
import random
import stat
import struct
import subprocess
import sys
from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from penstock.base.system.files import FileError
from penstock.errors import (
    EvaluationRefused,
    KeyPairDamaged,
    KeyPairRefused,
    ParamsError,
    PenstockError,
    UsageError,
)
from penstock.runtime.native.engine import make_context
from penstock.scheme.params import catalogue
from penstock.scheme.params.ckks import CkksParameters
from support.small_disk import needs_mounts, on_a_small_disk

pytest.importorskip("penstock_client", reason="penstock's client is not installed")

from penstock.runtime.client import KeyPair, PublicKey
from penstock.runtime.client.pair import FILES, is_sealed
from penstock.runtime.client.passphrase import passphrase_in, passphrase_of

PHRASE = b"correct horse"
SET = """
source = "penstock: a set of these tests"
ring_dim = "2^{log}"
slots = "2^{slots}"
depth = {depth}
first_mod_bits = 60
scale_bits = 50
dnum = 2
scaling = "fixed-manual"
secret = "{secret}"
security = "none"
library = "openfhe"
"""
HEAD, CHECKSUM = 72, 32
"""Bytes of a secret file before its coefficients, and of its checksum (docs/guides/client.md)."""


def small(folder: Path, log: int = 10, depth: int = 2, secret: str = "uniform-ternary") -> CkksParameters:
    """A set of which every bit of a file can be tried."""
    file = folder / f"small-{log}-{depth}-{secret}.toml"
    file.write_text(SET.format(log=log, slots=log - 1, depth=depth, secret=secret))
    return catalogue.get(str(file))


@pytest.fixture(scope="module")
def params(tmp_path_factory: pytest.TempPathFactory) -> CkksParameters:
    return small(tmp_path_factory.mktemp("sets"))


@pytest.fixture(scope="module")
def pair(params: CkksParameters) -> KeyPair:
    return KeyPair.generate(params, threads=1)


@pytest.fixture
def folder(pair: KeyPair, tmp_path: Path) -> Path:
    assert pair.save(tmp_path / "alice")
    return tmp_path / "alice"


def checked(content: bytes) -> bytes:
    """A file with a checksum that fits, as whoever changes it on purpose would write."""
    return content + hashlib.sha256(content).digest()


def rewritten(file: Path, change: Callable[[bytearray], Any]) -> None:
    """Change a file, and its checksum with it."""
    content = bytearray(file.read_bytes()[:-CHECKSUM])
    change(content)
    file.write_bytes(checked(bytes(content)))


def flips(content: bytes, places: Iterator[int] | range) -> Iterator[tuple[int, bytes]]:
    """The content with one bit changed, for each place in bits."""
    for place in places:
        changed = bytearray(content)
        changed[place // 8] ^= 1 << place % 8
        yield place, bytes(changed)


def largest_error(found: Any, values: Any) -> float:
    return float(np.max(np.abs(found[: len(values)] - values)))


@pytest.mark.parametrize("secret", ["uniform-ternary", "sparse-ternary"])
@pytest.mark.parametrize("phrase", [None, PHRASE])
def test_a_saved_pair_is_the_pair(tmp_path: Path, secret: str, phrase: bytes | None) -> None:
    params = small(tmp_path, secret=secret)
    made = KeyPair.generate(params, threads=1)
    values = np.linspace(-1, 1, params.slots)
    contents = [made.encrypt(values), made.encrypt_seeded(values)]
    assert made.save(tmp_path / "pair", passphrase=phrase)
    assert is_sealed(tmp_path / "pair") == (phrase is not None)
    kept = KeyPair.load(tmp_path / "pair", params, passphrase=phrase, threads=1)
    assert kept.tag == made.tag
    contents.append(PublicKey.load(tmp_path / "pair", params, threads=1).encrypt(values))
    for content in contents:
        assert largest_error(kept.decrypt(content, result_for="owner"), values) < 1e-6
        assert largest_error(made.decrypt(content, result_for="owner"), values) < 1e-6
    assert len(contents[1]) < 0.52 * len(contents[0])


def test_only_the_owner_reads_it_whatever_the_mask(pair: KeyPair, tmp_path: Path) -> None:
    mask = os.umask(0)
    try:
        pair.save(tmp_path / "alice")
        pair.to_openfhe(tmp_path / "theirs")
    finally:
        os.umask(mask)
    for folder, secret in ((tmp_path / "alice", FILES.secret), (tmp_path / "theirs", "secret.key")):
        assert stat.S_IMODE(folder.stat().st_mode) == 0o700
        assert stat.S_IMODE((folder / secret).stat().st_mode) == 0o600


def test_a_folder_with_files_is_left_alone(pair: KeyPair, folder: Path, params: CkksParameters) -> None:
    before = {each.name: each.read_bytes() for each in folder.iterdir()}
    other = KeyPair.generate(params, threads=1)
    assert not other.save(folder)
    assert not other.to_openfhe(folder)
    assert {each.name: each.read_bytes() for each in folder.iterdir()} == before
    assert list(folder.parent.iterdir()) == [folder]
    assert KeyPair.load(folder, params, threads=1).tag == pair.tag


def test_a_sealed_pair_needs_its_passphrase(pair: KeyPair, params: CkksParameters, tmp_path: Path) -> None:
    folder = tmp_path / "sealed"
    pair.save(folder, passphrase=PHRASE)
    with pytest.raises(KeyPairRefused, match=r"secret\.pskey: it is sealed.*PENSTOCK_PASSPHRASE_FILE"):
        KeyPair.load(folder, params, threads=1)
    for wrong in (b"correct hors", PHRASE + b"\n", b""):
        with pytest.raises(KeyPairRefused, match="passphrase is wrong, or the file was changed"):
            KeyPair.load(folder, params, passphrase=wrong, threads=1)
    # Two seals of one key under one passphrase have nothing in common behind the header but their lengths.
    pair.save(tmp_path / "again", passphrase=PHRASE)
    one, two = ((each / FILES.secret).read_bytes()[HEAD + 12 :] for each in (folder, tmp_path / "again"))
    assert len(one) == len(two)
    assert not any(one[at : at + 4] == two[at : at + 4] for at in range(0, len(one) - 4, 4))


@pytest.mark.parametrize(
    ("change", "rule"),
    [
        ({"log": 11}, "the ring dimension is 1024, not 2048"),
        ({"depth": 3}, "the digest of the parameters is"),
        ({"secret": "sparse-ternary"}, "the distribution of the secret is 1, not 2"),
    ],
)
def test_a_secret_of_other_parameters_is_refused(
    folder: Path, tmp_path: Path, change: dict[str, Any], rule: str
) -> None:
    with pytest.raises(KeyPairRefused, match=f"{FILES.secret}: {rule}.*other parameters"):
        KeyPair.load(folder, small(tmp_path, **change), threads=1)
    if "secret" not in change:
        with pytest.raises(KeyPairRefused, match=f"{FILES.public}: .*other parameters"):
            PublicKey.load(folder, small(tmp_path, **change), threads=1)


def test_accelerators_have_no_pairs() -> None:
    with pytest.raises(ParamsError, match="not primes"):
        KeyPair.generate(catalogue.get("sharp"))


@pytest.mark.parametrize("phrase", [None, PHRASE])
def test_every_flipped_bit_of_a_secret_file_is_found(pair: KeyPair, tmp_path: Path, phrase: bytes | None) -> None:
    pair.save(tmp_path / "pair", passphrase=phrase)
    content = (tmp_path / "pair" / FILES.secret).read_bytes()
    file = tmp_path / "flipped"
    file.touch(mode=0o600)
    client = pytest.importorskip("penstock_client")
    for place, changed in flips(content, range(8 * len(content))):
        file.write_bytes(changed)
        with pytest.raises(client.Damaged) as refused:
            pair._ring.read_secret(str(file), phrase)
        assert "flipped: " in str(refused.value), place


def test_flipped_bits_of_a_public_file_are_found(pair: KeyPair, folder: Path, tmp_path: Path) -> None:
    content = (folder / FILES.public).read_bytes()
    file = tmp_path / "flipped"
    client = pytest.importorskip("penstock_client")
    head = range(8 * 100)
    sample = sorted(random.Random(24).sample(range(8 * 100, 8 * len(content)), 1000))
    for place, changed in flips(content, iter([*head, *sample])):
        file.write_bytes(changed)
        with pytest.raises(client.Damaged) as refused:
            pair._ring.read_public(str(file))
        assert "flipped: " in str(refused.value), place


def test_a_changed_coefficient_with_a_new_checksum_is_no_pair(folder: Path, params: CkksParameters) -> None:
    def change(content: bytearray) -> None:
        packed = content[HEAD]
        first = packed & 3
        content[HEAD] = (packed & ~3) | (first + 1) % 3

    rewritten(folder / FILES.secret, change)
    with pytest.raises(KeyPairDamaged, match=r"does not belong to the secret key.*put the right file back"):
        KeyPair.load(folder, params, threads=1)


def test_a_coefficient_that_is_none_is_refused(folder: Path, params: CkksParameters) -> None:
    rewritten(folder / FILES.secret, lambda content: content.__setitem__(HEAD, content[HEAD] | 3))
    with pytest.raises(KeyPairDamaged, match="not -1, 0 or 1"):
        KeyPair.load(folder, params, threads=1)


def test_a_sealed_file_that_was_changed_with_its_checksum_does_not_open(
    pair: KeyPair, params: CkksParameters, tmp_path: Path
) -> None:
    folder = tmp_path / "sealed"
    pair.save(folder, passphrase=PHRASE)
    file = folder / FILES.secret
    whole = file.read_bytes()
    # The tag, the salt, the nonce, the sealed coefficients, the authentication: all of it is authenticated.
    rewritten(file, lambda content: content.__setitem__(HEAD - 32, ord("1" if content[HEAD - 32] == ord("0") else "0")))
    with pytest.raises(KeyPairRefused, match="passphrase is wrong, or the file was changed"):
        KeyPair.load(folder, params, passphrase=PHRASE, threads=1)
    for at in (HEAD + 12, HEAD + 28, HEAD + 60, len(whole) - CHECKSUM - 1):
        file.write_bytes(whole)
        rewritten(file, lambda content, at=at: content.__setitem__(at, content[at] ^ 1))  # type: ignore[misc]
        with pytest.raises(KeyPairRefused, match="passphrase is wrong, or the file was changed"):
            KeyPair.load(folder, params, passphrase=PHRASE, threads=1)
    for at in (HEAD + 3, HEAD + 7, HEAD + 11):  # the costs of Argon2id: terabytes, years
        file.write_bytes(whole)
        rewritten(file, lambda content, at=at: content.__setitem__(at, 0x7F))  # type: ignore[misc]
        with pytest.raises(KeyPairDamaged, match="more memory or time than penstock ever does"):
            KeyPair.load(folder, params, passphrase=PHRASE, threads=1)


@pytest.mark.parametrize(
    ("memory_kib", "passes", "lanes", "rule"),
    [
        (1 << 20, 5, 4, "more"),
        (64 << 10, 65, 4, "more"),
        (64 << 10, 3, 65, "more"),
        ((8 << 10) - 1, 3, 4, "less"),
        (8, 3, 1, "less"),
        (64 << 10, 0, 4, "less"),
        (64 << 10, 3, 0, "less"),
    ],
)
def test_a_seal_of_absurd_cost_is_not_tried(
    pair: KeyPair, params: CkksParameters, tmp_path: Path, memory_kib: int, passes: int, lanes: int, rule: str
) -> None:
    folder = tmp_path / "sealed"
    pair.save(folder, passphrase=PHRASE)
    rewritten(folder / FILES.secret, lambda content: struct.pack_into("<3I", content, 72, memory_kib, passes, lanes))
    with pytest.raises(KeyPairDamaged, match=f"its seal asks for {rule} memory or time than penstock ever does"):
        KeyPair.load(folder, params, passphrase=PHRASE, threads=1)


def test_an_empty_passphrase_seals_nothing(pair: KeyPair, tmp_path: Path) -> None:
    with pytest.raises(PenstockError, match="an empty passphrase: it seals nothing: give one of at least a byte"):
        pair.save(tmp_path / "sealed", passphrase=b"")
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize("mode", [0o640, 0o604, 0o620, 0o602, 0o601])
def test_a_secret_file_that_others_may_read_or_change_is_refused(
    folder: Path, params: CkksParameters, mode: int
) -> None:
    file = folder / FILES.secret
    file.chmod(mode)
    with pytest.raises(KeyPairRefused, match=rf"others may read or change it \(mode 0{mode:o}\).*'chmod 600'"):
        KeyPair.load(folder, params, threads=1)
    file.chmod(0o400)
    assert KeyPair.load(folder, params, threads=1).tag


@pytest.mark.parametrize("mode", [0o770, 0o707, 0o777])
def test_a_folder_that_others_may_change_is_refused(folder: Path, params: CkksParameters, mode: int) -> None:
    folder.chmod(mode)
    with pytest.raises(KeyPairRefused, match=rf"others may put files into it \(mode 0{mode:o}\).*chmod 700"):
        KeyPair.load(folder, params, threads=1)
    folder.chmod(0o755)
    assert KeyPair.load(folder, params, threads=1).tag


def test_a_process_of_secrets_leaves_no_core_and_is_read_by_nobody() -> None:
    asked = (
        "import ctypes, resource\nfrom penstock.base.system.workers import no_core_files\nno_core_files()\n"
        "print(resource.getrlimit(resource.RLIMIT_CORE), ctypes.CDLL(None).prctl(3, 0, 0, 0, 0))"
    )
    found = subprocess.run([sys.executable, "-c", asked], capture_output=True, text=True, check=True)
    assert found.stdout == "(0, 0) 0\n"


@pytest.mark.parametrize("name", FILES.names)
@pytest.mark.parametrize("with_checksum", [False, True])
def test_files_of_a_wrong_length_are_refused(
    folder: Path, params: CkksParameters, name: str, with_checksum: bool
) -> None:
    file = folder / name
    whole = file.read_bytes()
    lengths = [0, 1, 7, 8, 11, 12, 39, 71, 72, 99, 100, 103, 104, len(whole) - 33, len(whole) - 32, len(whole) - 1]
    for length in lengths:
        content = whole[:length]
        file.write_bytes(checked(content) if with_checksum and length < len(whole) - 32 else content)
        with pytest.raises((KeyPairDamaged, KeyPairRefused), match=name.replace(".", r"\.")):
            KeyPair.load(folder, params, threads=1)
    for longer in (whole + b"\0", checked(whole[:-CHECKSUM] + b"\0"), whole + whole):
        file.write_bytes(longer)
        with pytest.raises(KeyPairDamaged, match=name.replace(".", r"\.")):
            KeyPair.load(folder, params, threads=1)


@pytest.mark.parametrize("name", FILES.names)
def test_a_newer_version_is_named(folder: Path, params: CkksParameters, name: str) -> None:
    known = 2 if name == FILES.secret else 1
    rewritten(folder / name, lambda content: content.__setitem__(8, known + 1))
    newer = f"{name}: it is of version {known + 1}, and this program reads {known}.*newer penstock"
    with pytest.raises(KeyPairDamaged, match=newer):
        KeyPair.load(folder, params, threads=1)
    rewritten(folder / name, lambda content: content.__setitem__(8, 0))
    with pytest.raises(KeyPairDamaged, match="its version is 0"):
        KeyPair.load(folder, params, threads=1)


@pytest.mark.parametrize("same_tag", [False, True])
def test_halves_of_two_pairs_are_no_pair(folder: Path, params: CkksParameters, tmp_path: Path, same_tag: bool) -> None:
    other = KeyPair.generate(params, threads=1)
    other.save(tmp_path / "bob")
    (folder / FILES.public).write_bytes((tmp_path / "bob" / FILES.public).read_bytes())
    if same_tag:
        tag = (folder / FILES.secret).read_bytes()[40:72]
        rewritten(folder / FILES.public, lambda content: content.__setitem__(slice(36, 68), tag))
    with pytest.raises(KeyPairDamaged, match="the public key does not belong to the secret key"):
        KeyPair.load(folder, params, threads=1)


@pytest.mark.parametrize("name", FILES.names)
def test_half_a_pair_is_refused(folder: Path, params: CkksParameters, name: str) -> None:
    (folder / name).unlink()
    with pytest.raises(KeyPairDamaged, match=f"{name} is missing, and half a key pair is of no use.*put the right"):
        KeyPair.load(folder, params, threads=1)


@needs_mounts
def test_a_full_disk_leaves_no_half_of_a_pair(tmp_path: Path) -> None:
    disk = tmp_path / "disk"
    disk.mkdir()
    done = on_a_small_disk(
        disk,
        """
        import sys
        from pathlib import Path
        from penstock.runtime.client import KeyPair
        from penstock.scheme.params import catalogue
        from penstock.base.system.files import FileError
        pair = KeyPair.generate(catalogue.get("insecure-small"), threads=1)
        for save in (pair.save, pair.to_openfhe):
            try:
                save(Path(sys.argv[1]) / "alice")
            except FileError as error:
                print(error)
        print([each.name for each in Path(sys.argv[1]).iterdir()])
    """,
    )
    assert done.returncode == 0, done.stderr
    lines = done.stdout.splitlines()
    assert len(lines) == 3
    assert all("the disk is full" in line and "free some space" in line for line in lines[:2])
    assert lines[2] == "[]"


def test_a_folder_that_takes_no_files_is_named(pair: KeyPair, tmp_path: Path) -> None:
    (tmp_path / "file").write_text("mine")
    with pytest.raises(FileError, match=r"cannot write .*/file: it exists already"):
        pair.save(tmp_path / "file" / "alice")


def test_a_pair_is_neither_printed_nor_pickled_nor_copied(pair: KeyPair, folder: Path) -> None:
    words = secret_words(folder)
    for text in (repr(pair), str(pair), repr(vars(pair)), repr(pair._secret), repr(pair._public)):
        assert not found_in(text.encode(), words)
    for thing in (pair, pair._secret, pair._public, pair._ring):
        for refuse in (pickle.dumps, copy.copy, copy.deepcopy):
            with pytest.raises(TypeError):
                refuse(thing)
    assert [name for name in dir(pair._secret) if not name.startswith("__")] == ["is_locked", "tag"]


def secret_words(folder: Path) -> list[bytes]:
    """Parts of a pair's packed coefficients."""
    packed = (folder / FILES.secret).read_bytes()[HEAD:-CHECKSUM]
    return [packed[at : at + 16] for at in range(0, len(packed) - 16, 8)]


def found_in(content: bytes, words: list[bytes]) -> bool:
    return any(word in content or word.hex().encode() in content for word in words)


def test_results_of_another_pair_are_refused(pair: KeyPair, params: CkksParameters) -> None:
    other = KeyPair.generate(params, threads=1)
    for content in (other.encrypt([0.5]), other.encrypt_seeded([0.5])):
        with pytest.raises(PenstockError, match=f"of key pair {other.tag}: decrypt it with its own"):
            pair.decrypt(content, result_for="owner")


def test_a_seeded_ciphertext_is_whole_or_refused_by_the_evaluator(
    pair: KeyPair, params: CkksParameters, tmp_path: Path
) -> None:
    context = make_context(params)
    content = pair.encrypt_seeded([0.5])
    assert context.import_ciphertext(content).limbs == params.num_q
    places = [*range(8 * 104), *random.Random(24).sample(range(8 * 104, 8 * len(content)), 500)]
    for place, changed in flips(content, iter(places)):
        with pytest.raises(EvaluationRefused):
            context.import_ciphertext(changed)
        with pytest.raises(PenstockError):
            pair.decrypt(changed, result_for="owner")
        assert changed != content, place
    for length in (0, 1, 7, 8, 71, 72, 80, 104, 4096, len(content) - 8, len(content) - 1):
        with pytest.raises(EvaluationRefused):
            context.import_ciphertext(content[:length])
    with pytest.raises(EvaluationRefused):
        context.import_ciphertext(content + b"\0")
    newer = content[:8] + (2).to_bytes(4, "little") + content[12:]
    with pytest.raises(EvaluationRefused, match="version 2, where this program reads 1: take a newer penstock"):
        context.import_ciphertext(newer)
    for other in (small(tmp_path, log=11), small(tmp_path, depth=1)):
        with pytest.raises(EvaluationRefused):
            make_context(other).import_ciphertext(content)


@pytest.mark.parametrize(
    ("values", "rule"),
    [
        ([1j], "imaginary"),
        ([0.0] * 513, "513"),
        ([float("nan")], "finite"),
        ([1.0, float("-inf")], "-inf at place 1"),
        ([1.0, np.longdouble("1e4000")], "finite"),
        ([2**400], "bits at 3 limbs"),
        ([2**1100], "no double holds"),
        ([1.0, 2.0, 1e150], "bits at 3 limbs"),
        ([1.0, 2.0, 1.7e293, 1e300], "bits at 3 limbs"),
        ([1.7e308, 1.7e308, 1.7e308], "bits at 3 limbs"),
    ],
)
def test_values_that_cannot_be_encrypted_are_refused(pair: KeyPair, values: list[Any], rule: str) -> None:
    for encrypt in (pair.encrypt, pair.encrypt_seeded, lambda given: pair.encrypt(given, limbs=3, degree=2)):
        with pytest.raises(PenstockError, match=rule):
            encrypt(values)


def test_imaginary_values_are_refused_as_such_and_decrypted_as_complex_ones(pair: KeyPair) -> None:
    def clients(values: Any) -> tuple[Any, str]:
        content = pair.encrypt_complex(np.asarray(values) + 0j, limbs=3)
        try:
            return pair.decrypt_complex(content, result_for="owner"), str(
                np.abs(pair.decrypt(content, result_for="owner")).max()
            )
        except PenstockError as error:
            return pair.decrypt_complex(content, result_for="owner"), str(error)

    for count in (1, 8, 512):
        values = 0.5j * np.cos(np.arange(count))
        found, said = clients(values)
        assert np.max(np.abs(found[:count] - values)) < 1e-9
        assert "the values are complex" in said or np.sqrt(np.mean(np.abs(found) ** 2)) < 2**-5, said
    # Real values and zeros, with all their error, are no complex ones.
    for values in (np.zeros(1), np.full(512, 1e-3), [100.0]):
        assert float(clients(values)[1]) <= 101


def test_a_passphrase_is_one_line_of_a_file(tmp_path: Path) -> None:
    file = tmp_path / "phrase"
    for content in (b"open sesame", b"open sesame\n", b"open sesame\r\n"):
        file.write_bytes(content)
        file.chmod(0o600)
        assert passphrase_in(file) == b"open sesame"
    assert passphrase_of({}) is None
    assert passphrase_of({"PENSTOCK_PASSPHRASE_FILE": str(file)}) == b"open sesame"
    for mode in (0o640, 0o604, 0o620):
        file.chmod(mode)
        with pytest.raises(UsageError, match=rf"others may read or change it \(mode 0{mode:o}\); run 'chmod 600"):
            passphrase_in(file)
    file.chmod(0o600)
    for content, rule in (
        (b"", "no passphrase"),
        (b"\n", "no passphrase"),
        (b"a\nb", "more than one"),
        (b"x" * 5000, "4096"),
    ):
        file.write_bytes(content)
        with pytest.raises(UsageError, match=rule):
            passphrase_in(file)
    with pytest.raises(FileError, match="does not exist"):
        passphrase_in(tmp_path / "absent")


NO_VECTORS = [
    np.zeros((2, 2)),
    lambda: 1,
    {1: 2},
    "abc",
    [1, [2]],
    None,
    ["1"],
    [],
    [None],
    0.5,
    np.ones(513),
    [10**400],
]


@pytest.mark.parametrize("given", NO_VECTORS, ids=lambda given: repr(given)[:12])
def test_what_is_no_vector_of_the_set_is_refused_by_every_encryption(params: CkksParameters, given: Any) -> None:
    pair = KeyPair.generate(params)
    for encrypt in (pair.encrypt, pair.encrypt_seeded, lambda values: pair.encrypt_complex(values, limbs=1)):
        with pytest.raises(UsageError, match="a vector"):
            encrypt(given)


@pytest.mark.parametrize("given", [None, 5, "abc", [1.0], np.ones(4)], ids=lambda given: repr(given)[:12])
def test_what_is_no_ciphertext_is_refused_by_every_decryption(params: CkksParameters, given: Any) -> None:
    pair = KeyPair.generate(params)
    ours = [partial(decrypt, result_for="owner") for decrypt in (pair.decrypt, pair.decrypt_complex)]
    for decrypt in (*ours, pair.phase):
        with pytest.raises(UsageError, match="give its bytes"):
            decrypt(given)
    assert abs(pair.decrypt(memoryview(pair.encrypt([0.5])), result_for="owner")[0] - 0.5) < 1e-6
