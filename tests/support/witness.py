"""An independent reader of what the client writes, in Python's integers: no line of it is penstock's or OpenFHE's.

It knows RFC 8439, RFC 9106, the draft of XChaCha20, the formats of `docs/guides/client.md`, and two conventions of
OpenFHE. A row is N, its words and its modulus. Word j of a row is the polynomial's value at r^(2 b(j) + 1), for the
least primitive 2N-th root of unity r and the reversal b of log2(N) bits.
"""

from __future__ import annotations

import hashlib
import struct
from collections.abc import Callable, Iterator
from decimal import Decimal, localcontext
from functools import cache, lru_cache
from itertools import pairwise

import numpy as np

Row = tuple[int, np.ndarray]
"""Modulus, and N words as Python integers."""
WORD = (1 << 32) - 1


def _chacha_start(key: bytes, last: bytes) -> list[int]:
    return [*struct.unpack("<4I", b"expand 32-byte k"), *struct.unpack("<8I", key), *struct.unpack("<4I", last)]


def _chacha_rounds(start: list[int], rounds: int) -> list[int]:
    w = list(start)

    def add_rotate(a: int, b: int, c: int, by: int) -> None:
        w[a] = (w[a] + w[b]) & WORD
        x = w[c] ^ w[a]
        w[c] = ((x << by) | (x >> (32 - by))) & WORD

    columns = [(k, 4 + k, 8 + k, 12 + k) for k in range(4)]
    diagonals = [(k, 4 + (k + 1) % 4, 8 + (k + 2) % 4, 12 + (k + 3) % 4) for k in range(4)]
    for _ in range(rounds // 2):
        for a, b, c, d in (*columns, *diagonals):
            add_rotate(a, b, d, 16)
            add_rotate(c, d, b, 12)
            add_rotate(a, b, d, 8)
            add_rotate(c, d, b, 7)
    return w


def chacha_block(key: bytes, nonce: bytes, counter: int, rounds: int) -> bytes:
    """Section 2.3 of RFC 8439, for any number of rounds."""
    start = _chacha_start(key, struct.pack("<I", counter) + nonce)
    return struct.pack("<16I", *((x + y) & WORD for x, y in zip(_chacha_rounds(start, rounds), start, strict=True)))


def hchacha20(key: bytes, nonce: bytes) -> bytes:
    """The key of XChaCha20 for the first 16 bytes of its nonce (draft-irtf-cfrg-xchacha-03, 2.2)."""
    w = _chacha_rounds(_chacha_start(key, nonce), 20)
    return struct.pack("<8I", *w[:4], *w[12:])


def poly1305(key: bytes, message: bytes) -> bytes:
    """Section 2.5 of RFC 8439."""
    r = int.from_bytes(key[:16], "little") & 0x0FFFFFFC0FFFFFFC0FFFFFFC0FFFFFFF
    total = 0
    for at in range(0, len(message), 16):
        total = (total + int.from_bytes(message[at : at + 16] + b"\1", "little")) * r % (2**130 - 5)
    return ((total + int.from_bytes(key[16:], "little")) % 2**128).to_bytes(16, "little")


def _xchacha20(key: bytes, nonce: bytes, header: bytes) -> tuple[Callable[[bytes], bytes], Callable[[bytes], bytes]]:
    """How bytes are encrypted or decrypted, and the tag of the encrypted ones."""
    inner, rest = hchacha20(key, nonce[:16]), bytes(4) + nonce[16:]

    def crypted(content: bytes) -> bytes:
        blocks = range(1, 1 + -(-len(content) // 64))
        stream = b"".join(chacha_block(inner, rest, block, 20) for block in blocks)
        return bytes(a ^ b for a, b in zip(content, stream, strict=False))

    def tag(encrypted: bytes) -> bytes:
        padded = b"".join(each + bytes(-len(each) % 16) for each in (header, encrypted))
        lengths = struct.pack("<2Q", len(header), len(encrypted))
        return poly1305(chacha_block(inner, rest, 0, 20)[:32], padded + lengths)

    return crypted, tag


def aead_seal(key: bytes, nonce: bytes, header: bytes, content: bytes) -> bytes:
    """XChaCha20-Poly1305; the tag is last."""
    crypted, tag = _xchacha20(key, nonce, header)
    encrypted = crypted(content)
    return encrypted + tag(encrypted)


def aead_open(key: bytes, nonce: bytes, header: bytes, sealed: bytes) -> bytes:
    """As `aead_seal`, the other way. Raises: ValueError: the tag differs."""
    crypted, tag = _xchacha20(key, nonce, header)
    if tag(sealed[:-16]) != sealed[-16:]:
        raise ValueError("the tag differs")
    return crypted(sealed[:-16])


def _long_hash(content: bytes, length: int) -> bytes:
    """Section 3.3 of RFC 9106."""
    content = struct.pack("<I", length) + content
    found = b""
    while length - len(found) > 64:
        content = hashlib.blake2b(content).digest()
        found += content[:32]
    return found + hashlib.blake2b(content, digest_size=length - len(found)).digest()


def _compression(lanes: int) -> Callable[[np.ndarray], np.ndarray]:
    """The function G of RFC 9106 (3.5 and 3.6) of X ^ Y, for `lanes` blocks of 128 words at once."""
    half, eight = np.arange(16), np.arange(8)[:, None]
    rows, columns = 16 * eight + half, 2 * eight + 16 * (half // 2) + half % 2
    diagonals = np.array([4 * p + (k + p) % 4 for p in range(4) for k in range(4)])
    # Words in the order in which a step takes them: all of v0 to v3 first, of each permutation and block.
    orders = [
        (each.reshape(8, 4, 4).transpose(1, 0, 2).reshape(-1, 1) + 128 * np.arange(lanes)).ravel()
        for each in (rows, rows[:, diagonals], columns, columns[:, diagonals])
    ]
    moves = [orders[0], *(np.argsort(a)[b] for a, b in pairwise(orders)), np.argsort(orders[-1])]
    low, other = np.empty(32 * lanes, np.uint64), np.empty(32 * lanes, np.uint64)
    mask = np.uint64(WORD)

    def add_rotate(x: np.ndarray, y: np.ndarray, z: np.ndarray, by: int) -> None:
        """x += y + 2 lo(x) lo(y), then z = (z ^ x) >>> by; in place, since new arrays take more time than the sums."""
        np.bitwise_and(x, mask, low)
        np.bitwise_and(y, mask, other)
        np.multiply(low, other, low)
        np.add(low, low, low)
        np.add(x, y, x)
        np.add(x, low, x)
        np.bitwise_xor(z, x, z)
        np.left_shift(z, np.uint64(64 - by), low)
        np.right_shift(z, np.uint64(by), z)
        np.bitwise_or(z, low, z)

    def compress(mixed: np.ndarray) -> np.ndarray:
        words = mixed.ravel()
        for move in moves[:4]:
            words = words[move]
            a, b, c, d = words.reshape(4, -1)
            add_rotate(a, b, d, 32)
            add_rotate(c, d, b, 24)
            add_rotate(a, b, d, 16)
            add_rotate(c, d, b, 63)
        found: np.ndarray = words[moves[4]].reshape(lanes, 128) ^ mixed
        return found

    return compress


@lru_cache(maxsize=4)
def argon2id(
    password: bytes, salt: bytes, cost: tuple[int, int, int], length: int = 32, secret: bytes = b"", data: bytes = b""
) -> bytes:
    """RFC 9106, version 0x13. `cost`: memory (KiB), passes, lanes. All lanes go one block further at a time."""
    memory_kib, passes, lanes = cost
    head = struct.pack("<6I", lanes, length, memory_kib, passes, 0x13, 2)
    given = b"".join(struct.pack("<I", len(each)) + each for each in (password, salt, secret, data))
    first = hashlib.blake2b(head + given).digest()
    segment = memory_kib // (4 * lanes)
    columns = 4 * segment
    memory = np.zeros((columns, lanes, 128), np.uint64)
    for column in range(2):
        for lane in range(lanes):
            block = _long_hash(first + struct.pack("<2I", column, lane), 1024)
            memory[column, lane] = np.frombuffer(block, "<u8")
    compress = _compression(lanes)
    addresses = np.zeros((lanes, 128), np.uint64)
    for number in range(4 * passes):
        at_pass, part = divmod(number, 4)
        begun = part * segment
        for place in range(0 if number else 2, segment):
            column = begun + place
            before = memory[column - 1]
            words = before[:, 0]
            if number < 2:  # places that do not depend on the password
                if place % 128 == 0 or place == 2:
                    asked = np.zeros((lanes, 128), np.uint64)
                    asked[:, 1] = np.arange(lanes)
                    asked[:, 2:7] = part, columns * lanes, passes, 2, place // 128 + 1
                    addresses = compress(compress(asked))
                words = addresses[:, place % 128]
            done, start = (columns - segment, (begun + segment) % columns) if at_pass else (begun, 0)
            places = []
            for lane, word in enumerate(words.tolist()):
                of = (word >> 32) % lanes if number else lane
                area = done + place - 1 if of == lane else done - (place == 0)
                back = area * ((word & WORD) ** 2 >> 32) >> 32
                places.append(((start + area - 1 - back) % columns, of))
            made = compress(before ^ memory[tuple(zip(*places, strict=True))])
            memory[column] = made ^ memory[column] if at_pass else made
    return _long_hash(np.bitwise_xor.reduce(memory[-1], axis=0).astype("<u8").tobytes(), length)


def expanded(seed: bytes, digit: int, limb: int, modulus: int, count: int) -> list[int]:
    """Version 1 of the expansion of a seed."""
    found: list[int] = []
    block = 0
    while len(found) < count:
        stream = chacha_block(seed, struct.pack("<3I", digit, limb, 0), block, 12)
        products = [word * modulus for word in struct.unpack("<8Q", stream)]
        found += [each >> 64 for each in products if each % 2**64 >= 2**64 % modulus]
        block += 1
    return found[:count]


def gaussian_table(deviation: str, bits: int, entries: int) -> list[int]:
    """2^bits times the probability that |x| <= k, for k below `entries`; rounded to the nearest."""
    with localcontext() as context:
        context.prec = 120
        two_variances = 2 * Decimal(deviation) ** 2
        weights = [(-Decimal(k * k) / two_variances).exp() for k in range(3000)]
        whole = weights[0] + 2 * sum(weights[1:])
        found, total = [], -weights[0]
        for weight in weights[:entries]:
            total += 2 * weight
            found.append(int((total / whole * 2**bits).to_integral_value()))
        return found


def whole_file(content: bytes) -> bytes:
    """A file without its checksum, which fits."""
    assert hashlib.sha256(content[:-32]).digest() == content[-32:]
    return content[:-32]


def with_checksum(body: bytes) -> bytes:
    """The other way."""
    return body + hashlib.sha256(body).digest()


def opened(content: bytes, passphrase: bytes) -> bytes:
    """A sealed `secret.pskey` as the unsealed one that it was. Raises: ValueError: it does not open."""
    body = whole_file(content)
    assert body[12:16] == struct.pack("<I", 1)
    key = argon2id(passphrase, body[84:100], struct.unpack("<3I", body[72:84]))
    packed = aead_open(key, body[100:124], body[:124], body[124:])
    return with_checksum(body[:12] + bytes(4) + body[16:72] + packed)


def sealed(content: bytes, passphrase: bytes, cost: tuple[int, int, int], salt: bytes, nonce: bytes) -> bytes:
    """An unsealed `secret.pskey` as a sealed one, of any cost."""
    body = whole_file(content)
    assert body[12:16] == bytes(4)
    head = body[:12] + struct.pack("<I", 1) + body[16:72] + struct.pack("<3I", *cost) + salt + nonce
    return with_checksum(head + aead_seal(argon2id(passphrase, salt, cost), nonce, head, body[72:]))


def secrets_of(content: bytes) -> list[np.ndarray]:
    """The coefficients of an unsealed `secret.pskey`: the secret, and the ephemeral one where there is one."""
    body = whole_file(content)
    magic, version, is_sealed, ring_dim, _ = struct.unpack("<8s4I", body[:24])
    assert (magic, is_sealed) == (b"PSTKSEC\n", 0)
    packed = np.frombuffer(body[72:], np.uint8)
    values = np.stack([packed >> 2 * k & 3 for k in range(4)], axis=1).ravel().astype(int) - 1
    assert len(values) == ring_dim * version
    assert set(values.tolist()) <= {-1, 0, 1}
    return [values[k * ring_dim : (k + 1) * ring_dim] for k in range(version)]


def public_rows(content: bytes, moduli: list[int]) -> tuple[list[Row], list[Row]]:
    """`b` and the expanded `a` of a `public.ppkey`."""
    body = whole_file(content)
    magic, version, ring_dim, limbs = struct.unpack("<8s3I", body[:20])
    assert (magic, version) == (b"PSTKPUB\n", 1)
    words = np.frombuffer(body[100:], "<u8").reshape(limbs, ring_dim).astype(object)
    seed = body[68:100]
    a = [np.array(expanded(seed, 0, k, q, ring_dim), dtype=object) for k, q in enumerate(moduli[:limbs])]
    return list(zip(moduli, words, strict=False)), list(zip(moduli, a, strict=False))


def is_prime(n: int) -> bool:
    """Miller and Rabin, with bases that decide below 2^64."""
    if n < 2 or n % 2 == 0:
        return n == 2
    twos = ((n - 1) & (1 - n)).bit_length() - 1
    for base in (2, 3, 5, 7, 11, 13, 17, 19, 23, 29, 31, 37):
        if base % n == 0:
            continue
        x = pow(base, (n - 1) >> twos, n)
        seen = [x, *(x := x * x % n for _ in range(twos - 1))]
        if seen[0] != 1 and n - 1 not in seen:
            return False
    return True


def rows_of(content: bytes, ring_dim: int) -> list[Row]:
    """The rows in OpenFHE's bytes: N, N words, and behind them a prime of 1 modulo 2N that is above each word."""

    def found() -> Iterator[Row]:
        at, size = 0, 8 * ring_dim
        while (at := content.find(ring_dim.to_bytes(8, "little"), at)) >= 0:
            part = content[at + 8 : at + 8 + size]
            words = np.frombuffer(part if len(part) == size else b"", "<u8")
            modulus = int.from_bytes(content[at + 8 + size : at + 16 + size], "little")
            if modulus % (2 * ring_dim) == 1 and len(words) == ring_dim and words.max() < modulus and is_prime(modulus):
                yield modulus, words.astype(object)
                at += 8 + size
            else:
                at += 1

    return list(found())


@cache
def least_root(ring_dim: int, modulus: int) -> int:
    """The least primitive 2N-th root of unity."""
    powers = (pow(g, (modulus - 1) // (2 * ring_dim), modulus) for g in range(2, modulus))
    root = next(each for each in powers if pow(each, ring_dim, modulus) == modulus - 1)
    return min(pow(root, k, modulus) for k in range(1, 2 * ring_dim, 2))


@cache
def _reversed(ring_dim: int) -> list[int]:
    bits = ring_dim.bit_length() - 1
    return [int(f"{k:0{bits}b}"[::-1], 2) for k in range(ring_dim)]


@lru_cache(maxsize=4096)
def _powers(base: int, count: int, modulus: int) -> np.ndarray:
    found = np.empty(count, dtype=object)
    power = 1
    for k in range(count):
        found[k] = power
        power = power * base % modulus
    found.flags.writeable = False
    return found


def _transform(values: np.ndarray, root: int, modulus: int) -> np.ndarray:
    """sum v_k root^(jk), for each j."""
    return _transforms(values[None, :], root, modulus)[0]


def _transforms(values: np.ndarray, root: int, modulus: int) -> np.ndarray:
    """The same of each row."""
    rows, n = values.shape
    if n == 1:
        return values
    halves = _transforms(np.concatenate([values[:, 0::2], values[:, 1::2]]), root * root % modulus, modulus)
    even, turned = halves[:rows], halves[rows:] * _powers(root, n // 2, modulus) % modulus
    return np.concatenate([(even + turned) % modulus, (even - turned) % modulus], axis=1)


def evaluations(coefficients: np.ndarray, modulus: int) -> np.ndarray:
    """The row of a polynomial."""
    return _evaluations(tuple(coefficients.tolist()), modulus)


@lru_cache(maxsize=256)
def _evaluations(coefficients: tuple[int, ...], modulus: int) -> np.ndarray:
    n = len(coefficients)
    root = least_root(n, modulus)
    values = np.array(coefficients, dtype=object) * _powers(root, n, modulus) % modulus
    found: np.ndarray = _transform(values, root * root % modulus, modulus)[_reversed(n)]
    found.flags.writeable = False
    return found


def coefficients(row: Row) -> np.ndarray:
    """The polynomial of a row, with coefficients nearest to 0."""
    modulus, words = row
    n = len(words)
    inverse = pow(least_root(n, modulus), -1, modulus)
    values = _transform(words[_reversed(n)], inverse * inverse % modulus, modulus)
    values = values * pow(n, -1, modulus) % modulus * _powers(inverse, n, modulus) % modulus
    return np.where(values > modulus // 2, values - modulus, values)


def turned(polynomial: np.ndarray, galois_element: int) -> np.ndarray:
    """p(X^g) of p(X), modulo X^N + 1."""
    n = len(polynomial)
    places = np.arange(n) * galois_element % (2 * n)
    found = np.empty(n, dtype=polynomial.dtype)
    found[places % n] = np.where(places < n, polynomial, -polynomial)
    return found


def phase(rows: list[Row], secret: np.ndarray) -> np.ndarray:
    """Coefficients of `c0 + c1 s (+ c2 s^2 …)`, the same at all limbs: so below half of the first modulus."""
    limbs = len({modulus for modulus, _ in rows})
    assert len(rows) % limbs == 0
    found = []
    for limb in range(limbs):
        modulus = rows[limb][0]
        s = evaluations(secret, modulus)
        total, power = np.zeros(len(secret), dtype=object), np.ones(len(secret), dtype=object)
        for at, words in rows[limb::limbs]:
            assert at == modulus
            total, power = (total + words * power) % modulus, power * s % modulus
        found.append(coefficients((modulus, total)))
    assert all((each == found[0]).all() for each in found)
    return found[0]


def slots_of(polynomial: np.ndarray, scale: float, slots: int) -> np.ndarray:
    """Values at the 5^j-th powers of exp(i pi / N), divided by the scale; fewer slots use powers of X^(N / 2 slots)."""
    ring_dim = 2 * slots
    dense = (polynomial[:: len(polynomial) // ring_dim] / scale).astype(float)
    found: np.ndarray = _embedding(slots) @ dense
    return found


@lru_cache(maxsize=2)
def _embedding(slots: int) -> np.ndarray:
    ring_dim = 2 * slots
    exponents = np.array([pow(5, j, 2 * ring_dim) for j in range(slots)])
    angles = exponents[:, None] * np.arange(ring_dim)[None, :] % (2 * ring_dim) * np.pi / ring_dim
    found: np.ndarray = np.exp(1j * angles)
    found.flags.writeable = False
    return found
