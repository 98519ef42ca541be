"""Searches every package that a test makes for what its program encrypted; tests/conftest.py installs it.

What is encrypted is noted where a program is captured or a script recorded. A package is searched when its builder
gives it out, and its file when it is finished. Numbers of few bits, short decimals and simple fractions are not looked
for: they are constants of many programs. How many bits must agree grows with how many numbers are compared, so that
coarse forms count as several in a row, and what may be there by chance is not found.
"""

from __future__ import annotations

import math
import threading
from collections import deque
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any
from weakref import WeakKeyDictionary

import numpy as np
import numpy.typing as npt

from penstock.program.package.content import Package
from penstock.program.package.file import ConstantsInFile, PackageFile, open_package

Floats = npt.NDArray[np.float64]
Words = npt.NDArray[np.uint64]
Part = tuple[list[str], Words, Floats]
"""Forms of a vector: their names, and for each a row of words, and the bits that tell each word from others."""

SIGNIFICANT = 40
"""Bits of a number that is looked for."""
DECIMALS, SCALES = range(2, 13), range(20, 60)
ROWS = (1, 2, 4, 8)
"""Numbers in a row that are compared as one."""
MARGIN, FEWEST = 12, 20
"""Bits over those that chance explains, and the fewest that count."""
MOST_VALUES = 256
"""Of one vector."""
RECENT = 32
"""Vectors encrypted last in a test: they are looked for in each file."""
INT32 = 11
"""Scales from the smallest on whose integers may have 4 bytes."""
BATCH, FEW = 1 << 22, 1 << 12
KINDS = {
    "double": "np.array(x)",
    "float": "np.array(x).astype(np.float32).astype(float)",
    "rounding": "np.round(x, 4)",
    "scaled integer": "np.rint(np.array(x) * 2.0**30)",
}
"""Leaks that tests plant in programs, as expressions of the vector that is encrypted."""
MANTISSA = np.uint64((1 << 52) - 1)
FACTORS = np.random.default_rng(53).integers(0, 1 << 63, max(ROWS), dtype=np.uint64) * np.uint64(2) + np.uint64(1)


def canaries(values: Any) -> list[Floats]:
    """Real and imaginary parts of a vector, from the first number on that is looked for; none: an empty list."""
    array = np.asarray(values).ravel()
    if array.dtype.kind not in "fc":
        return []
    parts = (array.real, array.imag) if array.dtype.kind == "c" else (array,)
    found = []
    for part in parts:
        part = np.asarray(part[: 4 * MOST_VALUES], dtype=np.float64)
        (at,) = np.nonzero(telling(part))
        if len(at):
            found.append(part[at[0] : at[0] + MOST_VALUES].copy())
    return found


def telling(values: Floats) -> npt.NDArray[np.bool_]:
    """Which numbers have at least 40 significant bits, and are near no short decimal and no simple fraction."""
    with np.errstate(all="ignore"):
        used = np.isfinite(values) & (np.abs(values) < 1e100) & (np.abs(values) > 1e-100)
        x = np.where(used, np.abs(values), 0.0)
        used &= _bits(x) >= SIGNIFICANT
        used &= np.abs(x * 1e4 - np.rint(x * 1e4)) > 1e-6
        # A fraction so near is among the first of the continued fraction.
        rest, near = x.copy(), np.zeros(len(x), dtype=bool)
        p, q, p_before, q_before = np.ones_like(x), np.zeros_like(x), np.zeros_like(x), np.ones_like(x)
        for _ in range(12):
            whole = np.floor(rest)
            p, p_before, q, q_before = whole * p + p_before, p, whole * q + q_before, q
            near |= (q <= 1024) & (np.abs(x - p / q) <= 1e-10)
            rest = 1.0 / (rest - whole)
            rest[~np.isfinite(rest)] = 0.0
    return np.asarray(used & ~near)


def _bits(values: Floats) -> Floats:
    """The significant bits of each number."""
    words = values.view(np.uint64) & MANTISSA | np.uint64(1 << 52)
    lowest = words & (~words + np.uint64(1))
    return np.where(values == 0, 0.0, 53.0 - np.log2(lowest.astype(np.float64)))


def _digits_as_bits(integers: Floats) -> Floats:
    """The bits of decimals, given as integers, without the zeros at their ends."""
    left = np.abs(integers)
    while np.any(even := (left > 0) & (left % 10 == 0)):
        left = np.where(even, left / 10, left)
    return np.log2(np.maximum(left, 1.0))


def number_forms(values: Floats) -> Iterator[Part]:
    """A vector as packages may hold it in numbers. Signs and powers of two are left out."""
    numbers, bits = _forms(values)
    yield FORMS, numbers.view(np.uint64) & MANTISSA, bits


def byte_forms(values: Floats) -> Iterator[Part]:
    """A vector as bytes, in words of 8; both signs."""
    integers = np.rint(values * 2.0 ** np.array(SCALES)[:, None])
    fits = np.abs(integers) < 2.0**62
    words, bits = np.where(fits, integers, 0.0).astype(np.int64), np.where(fits & telling(values), _bits(integers), 0.0)
    small = np.abs(integers[:INT32]).max(initial=0.0) < 2.0**31
    for sign in (1, -1):
        numbers, known = _forms(sign * values)
        yield [f"{form}, bytes" for form in FORMS], numbers.view(np.uint64), known
        yield ["double, big-endian"], numbers[:1].view(np.uint64).byteswap(), known[:1]
        for order in "<>":
            yield from _pairs([f"float ({order})"], numbers[1:2].astype(f"{order}f4"), known[1:2])
        yield [f"integer, scaled by 2^{scale}" for scale in SCALES], (sign * words).view(np.uint64), bits
        if small:
            names = [f"int32, scaled by 2^{scale}" for scale in SCALES[:INT32]]
            yield from _pairs(names, (sign * words[:INT32]).astype(np.int32), bits[:INT32])


def _pairs(names: list[str], numbers: npt.NDArray[Any], bits: Floats) -> Iterator[Part]:
    """Numbers of 4 bytes, two to a word, from the first on and from the second on."""
    for begin in range(2):
        end = begin + (numbers.shape[1] - begin) // 2 * 2
        words = np.ascontiguousarray(numbers[:, begin:end]).view(np.uint64)
        yield names, words, bits[:, begin:end:2] + bits[:, begin + 1 : end : 2]


FORMS = ["double", "float", *(f"rounded to {d} digits" for d in DECIMALS), *(f"scaled by 2^{b}" for b in SCALES)]


def _forms(values: Floats) -> tuple[Floats, Floats]:
    """A row for each of FORMS: the numbers, and their bits."""
    with np.errstate(over="ignore"):
        short = values.astype(np.float32).astype(np.float64)
    rounded = np.stack([np.round(values, digits) for digits in DECIMALS])
    exact = np.stack([values, short, *np.rint(values * 2.0 ** np.array(SCALES)[:, None])])
    decimal = _digits_as_bits(np.rint(values * 10.0 ** np.array(DECIMALS)[:, None]))
    bits = _bits(exact)
    bits = np.concatenate([bits[:2], decimal, bits[2:]])
    return np.concatenate([exact[:2], rounded, exact[2:]]), np.where(telling(values), bits, 0.0)


class Wanted:
    """The forms of vectors, to be looked for among so many numbers."""

    def __init__(
        self, vectors: Sequence[Floats], forms: Callable[[Floats], Iterator[Part]], among: int, rows: tuple[int, ...]
    ) -> None:
        count = sum(map(len, vectors))
        self.least = max(FEWEST, math.log2(max(1, count) * max(1, among)) + MARGIN)
        self._names: list[str] = []
        found: dict[int, list[tuple[Words, npt.NDArray[np.intp]]]] = {each: [] for each in rows}
        for number, vector in enumerate(vectors):
            for names, words, bits in forms(vector):
                self._take(found, words, bits)
                self._names += [f"input {number} as {name}" for name in names]
        self._rows = {}
        for row, parts in found.items():
            if parts:
                hashes, places = (np.concatenate(each) for each in zip(*parts, strict=True))
                hashes, first = np.unique(hashes, return_index=True)
                self._rows[row] = hashes, places[first]
        self._tables: dict[int, npt.NDArray[np.bool_]] = {}

    def _take(self, found: dict[int, Any], words: Words, bits: Floats) -> None:
        """The shortest row from each place on that has enough bits."""
        count, bits = words.shape[1], bits.copy()
        for lag in range(1, min(5, count)):  # what is repeated tells nothing new
            bits[:, lag:][words[:, lag:] == words[:, :-lag]] = 0.0
        sums, left = np.pad(np.cumsum(bits, axis=1), ((0, 0), (1, 0))), bits > 0
        for row in found:
            if row > count:
                return
            begins = left[:, : count - row + 1]
            chosen = begins & (sums[:, row:] - sums[:, :-row] >= self.least)
            if chosen.any():
                found[row].append((row_hashes(words, row)[chosen], np.nonzero(chosen)[0] + len(self._names)))
                begins[chosen] = False

    def __bool__(self) -> bool:
        return bool(self._rows)

    def found_in(self, words: Words) -> list[str]:
        """The forms that are among some words."""
        found: set[int] = set()
        for row, (hashes, places) in self._rows.items():
            if len(words) < row:
                continue
            content = row_hashes(words, row)
            if len(content) > FEW:
                content = content[self._table(row)[_short(content)]]
            at = np.minimum(np.searchsorted(hashes, content), len(hashes) - 1)
            found |= set(places[at[hashes[at] == content]].tolist())
        return [self._names[each] for each in sorted(found)]

    def _table(self, row: int) -> npt.NDArray[np.bool_]:
        """Which words may be there, by a part of theirs: most of a large content is not."""
        if row not in self._tables:
            self._tables[row] = np.zeros(1 << 20, dtype=bool)
            self._tables[row][_short(self._rows[row][0])] = True
        return self._tables[row]


def row_hashes(words: Words, row: int) -> Words:
    """A word for each so many neighbours."""
    if row == 1:
        return words
    count = words.shape[-1] - row + 1
    found = words[..., :count] * FACTORS[0]
    for k in range(1, row):
        found += words[..., k : k + count] * FACTORS[k]
    return found


def _short(words: Words) -> npt.NDArray[np.int64]:
    return ((words * FACTORS[0]) >> np.uint64(44)).view(np.int64)


def numbers_of(package: Package) -> Iterator[Floats]:
    """All numbers that a package computes with."""
    told = np.array([complex(each.number) for each in package.instructions])
    yield told.real[told.real != 0].copy()
    yield told.imag[told.imag != 0].copy()
    for series in package.series:
        yield np.array([*series.coefficients, series.lower, series.upper], dtype=np.float64)
    for number in range(len(package.constants)):
        if isinstance(package.constants, ConstantsInFile) and (held := package.constants.reader.coefficients(number)):
            yield held[0].astype(np.float64)
        values = np.asarray(package.constants.values(number))
        for part in (values.real, values.imag) if values.dtype.kind == "c" else (values,):
            yield np.asarray(part, dtype=np.float64)


def found_in_numbers(package: Package, vectors: Sequence[Floats]) -> list[str]:
    """The forms of vectors that are numbers of a package, or stand in its texts."""
    parts = [each for each in numbers_of(package) if len(each)]
    wanted = Wanted(vectors, number_forms, sum(map(len, parts)), ROWS)
    found: dict[str, None] = {}
    batch: list[Floats] = []
    for at, part in enumerate(parts):
        batch.append(part)
        if at == len(parts) - 1 or sum(map(len, batch)) >= BATCH:
            joined = np.concatenate(batch)
            found |= dict.fromkeys(wanted.found_in(joined.view(np.uint64) & MANTISSA))
            batch = []
    texts = [package.name, package.description, *package.provenance, *package.provenance.values()]
    texts += [each.name for each in (*package.scopes, *package.inputs, *package.outputs)]
    return [*found, *found_in_text("\n".join(map(str, texts)).encode(), vectors)]


def found_in_text(text: bytes, vectors: Sequence[Floats]) -> list[str]:
    """The vectors of which a number is written out."""
    found = []
    for number, vector in enumerate(vectors):
        told = vector[telling(vector)].tolist()
        if any(repr(abs(each)).encode() in text or f"{abs(each):.8f}".encode() in text for each in told):
            found.append(f"input {number} as text")
    return found


def found_in_bytes(content: bytes, vectors: Sequence[Floats]) -> list[str]:
    """The forms of vectors that bytes hold, at any place."""
    wanted, found = Wanted(vectors, byte_forms, len(content), ROWS[:-1]), dict[str, None]()
    for offset in range(8 if wanted else 0):
        count = (len(content) - offset) // 8
        for begin in range(0, count, BATCH):
            size = min(count - begin, BATCH + max(ROWS))
            found |= dict.fromkeys(wanted.found_in(np.frombuffer(content, "<u8", size, offset + 8 * begin)))
    return [*found, *found_in_text(content[-(1 << 16) :], vectors)]


class Watch:
    """What the tests of this process encrypted and packaged."""

    def __init__(self) -> None:
        self.packages = self.files = self.looked_for = 0
        """Searched packages and files, with numbers to look for; numbers."""
        self.findings: list[str] = []
        self._known: WeakKeyDictionary[Any, list[Floats]] = WeakKeyDictionary()
        """By builder, and by what holds the constants of a package."""
        self._recent: deque[Floats] = deque(maxlen=RECENT)
        self._lock = threading.Lock()

    def begin(self) -> None:
        """A test begins: other tests' inputs are no longer looked for in files."""
        self._recent.clear()

    def note(self, builder: Any, values: Any) -> None:
        """Values that are encrypted."""
        made = canaries(values)
        with self._lock:
            self._known.setdefault(builder, []).extend(made)
            self._recent.extend(made)

    def given_out(self, builder: Any, package: Package) -> None:
        """A package is given out by its builder; its file is searched when it is finished."""
        with self._lock:
            vectors = self._known.get(builder, [])
            self._known.setdefault(package.constants, []).extend(vectors)
        if vectors and not isinstance(package.constants, PackageFile):
            self.packages += 1
            self._found(f"package '{package.name}'", vectors, found_in_numbers(package, vectors))

    def finished(self, file: PackageFile, package: Package) -> None:
        """The file of a package is there."""
        with self._lock:
            vectors = list(self._recent)
            for holder in (file, package.constants):
                vectors += self._known.get(holder, [])
        vectors = list({each.tobytes(): each for each in vectors}.values())
        if vectors:
            self.files += 1
            found = found_in_numbers(open_package(file.path), vectors)
            self._found(str(file.path), vectors, [*found, *found_in_bytes(file.path.read_bytes(), vectors)])

    def _found(self, what: str, vectors: Sequence[Floats], found: list[str]) -> None:
        self.looked_for += sum(int(np.sum(telling(each))) for each in vectors)
        if found:
            self.findings.append(f"{what} holds {'; '.join(found[:8])}")

    def taken(self) -> list[str]:
        """The findings so far, which are then forgotten."""
        found, self.findings = self.findings, []
        return found

    @contextmanager
    def planted(self) -> Iterator[list[str]]:
        """Inside, findings are given to the test."""
        before, found = self.taken(), list[str]()
        try:
            yield found
        finally:
            found += self.taken()
            self.findings = before


WATCH = Watch()


def install() -> None:
    """Note and search from now on, in this process."""
    from penstock.program.openfhe.recorder import packaging
    from penstock.program.package.builder import PackageBuilder
    from penstock.program.package.capture import CaptureEvaluator

    after(CaptureEvaluator, "encrypt", lambda self, made, values, **_: WATCH.note(self.package, values))
    after(PackageBuilder, "finish", lambda self, made, *_, **__: WATCH.given_out(self, made))
    after(PackageFile, "finish", lambda self, made, package: WATCH.finished(self, package))
    encrypt: Any = packaging.Packaging._encrypt

    def encrypted(self: Any, done: Any, before: Any) -> None:
        encrypt(self, done, before)
        known = self._plaintexts.get(done.args[1])
        told = known is not None and known.values is not None
        WATCH.note(self.builder, np.asarray(known.values if told else done.args[1].GetCKKSPackedValue()))

    packaging.Packaging._encrypt = encrypted  # type: ignore[method-assign]


def after(of: type, name: str, seen: Callable[..., None]) -> None:
    """Call `seen` with the object, the result and the arguments after each call of a method."""
    method = getattr(of, name)

    def called(self: Any, *args: Any, **more: Any) -> Any:
        made = method(self, *args, **more)
        try:
            seen(self, made, *args, **more)
        except Exception as error:  # what is watched goes on as if it were not
            WATCH.findings.append(f"{of.__name__}.{name}: the search failed: {type(error).__name__}: {error}")
        return made

    called.__name__, called.__doc__ = name, method.__doc__
    called.__wrapped__ = method  # type: ignore[attr-defined]
    setattr(of, name, called)


def searched(path: Path, *values: Any) -> list[str]:
    """What a file holds of some vectors; for packages of other processes."""
    vectors = [each for one in values for each in canaries(one)]
    return [*found_in_numbers(open_package(path), vectors), *found_in_bytes(path.read_bytes(), vectors)]
