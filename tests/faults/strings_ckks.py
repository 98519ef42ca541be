"""Mutated bytes of OpenFHE's ciphertexts and evaluation keys, for the native evaluator."""

from __future__ import annotations

import math
import struct
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from functools import cached_property
from pathlib import Path
from typing import Any

import numpy as np

from faults.fields import Field, set_some
from faults.frame import mutated
from penstock import _engine
from penstock.errors import PenstockError
from penstock.program.openfhe.evaluator import OpenFheContext, load_openfhe
from penstock.runtime.native.engine import make_context
from penstock.runtime.native.openfhe_client import OpenFheClient, make_keys
from penstock.scheme.operations import CONJ_KEY, RELIN_KEY
from penstock.scheme.params.ckks import CkksParameters, Scaling
from penstock.scheme.params.primes import openfhe_primes
from penstock.scheme.params.spec import CkksSpec
from support.engine_calls import Calls

RING_DIM, SLOTS, STEP = 64, 8, 1
ELEMENT = 5
"""The Galois element of a rotation by `STEP`."""
ROTATION_KEY = f"rot:{ELEMENT}"
NEW, PLAIN_POINTER = 0x8000_0000, 0x4000_0000


class Wrong(Exception):
    """Bytes were taken for what they are not."""


@dataclass(frozen=True)
class Mutant:
    """Mutated bytes, how they came about, and whether their checksums were made anew."""

    content: bytes
    how: str
    forged: bool = False


# The layout of OpenFHE's bytes, as far as it is mutated on purpose.
@dataclass
class Layout:
    """Where numbers are, and rows: (where the words begin, where their modulus is)."""

    content: bytes
    fields: list[Field] = field(default_factory=list)
    rows: list[tuple[int, int]] = field(default_factory=list)
    at: int = 0

    def take(self, name: str, size: int = 4, *, real: bool = False) -> int:
        self.fields.append(Field(name, self.at, size, real))
        found = int.from_bytes(self.content[self.at : self.at + size], "little")
        self.at += size
        return found

    def polynomials(self, first: bool) -> None:
        for p in range(self.take("polynomials", 8)):
            if first and p == 0:
                self.take("version")
            for limb in range(self.take("limbs", 8)):
                versions = first and p == limb == 0
                if versions:
                    self.take("version")
                self.take("mark")
                self.take("row there", 1)
                if versions:
                    self.take("version")
                words = self.take("words of a row", 8)
                self.rows.append((self.at, self.at + 8 * words))
                self.at += 8 * words
                self.take("modulus", 8)
                self.take("format")
                self.pointer(self.limb_parameters)
            self.take("format")
            self.pointer(self.rns_parameters)

    def pointer(self, content: Any) -> None:
        self.take("mark")
        if self.take("id") & NEW:
            content()

    def limb_parameters(self) -> None:
        for name in ("cyclotomic order", "ring dimension"):
            self.take(name)
        for name in ("modulus again", "root", "big modulus", "big root"):
            self.take(name, 8)

    def rns_parameters(self) -> None:
        for name in ("cyclotomic order", "ring dimension"):
            self.take(name)
        for _ in range(4):
            for _ in range(self.take("words of a number", 8)):
                self.take("word of a number", 8)
            self.take("bits")
        for _ in range(self.take("limb parameters", 8)):
            self.pointer(self.limb_parameters)


def _start(content: bytes) -> int:
    """Where the first polynomials are counted."""
    return content.index(struct.pack("<IIBIQ", 0, PLAIN_POINTER, 1, 0, RING_DIM)) - 20


def ciphertext_layout(content: bytes) -> Layout:
    """Of a serialized ciphertext."""
    found = Layout(content, at=_start(content))
    found.polynomials(first=True)
    for name in ("slots", "level", "hops", "degree"):
        found.take(name)
    found.take("scale", 8, real=True)
    return found


def key_layout(content: bytes) -> Layout:
    """Of a serialized key, a map of keys, or what a context keeps of either."""
    found = Layout(content)
    found.take("order of bytes", 1)
    while found.at < 80:
        found.take("entries", 8 if found.at % 3 else 4)
    found.at = _start(content)
    found.polynomials(first=True)
    found.polynomials(first=False)
    while found.at + 60 < len(content):
        for name in ("element", "class", "id", "mark", "context"):
            found.take(name)
        found.take("length of a tag", 8)
        found.at += 32
        found.polynomials(first=False)
        found.polynomials(first=False)
    return found


def _rows_changed(layout: Layout, rng: Any) -> tuple[bytes, str]:
    """Words at or beyond their modulus, rows that changed places, rows of zeros."""
    content, how = bytearray(layout.content), int(rng.integers(5))
    (at, end), (other, other_end) = (layout.rows[int(rng.integers(len(layout.rows)))] for _ in range(2))
    modulus = int.from_bytes(content[end : end + 8], "little")
    if how == 0:
        content[at:end], content[other:other_end] = content[other:other_end], content[at:end]
        return bytes(content), "rows exchanged"
    if how == 1:
        content[end : end + 8] = content[other_end : other_end + 8]
        return bytes(content), "modulus of another row"
    if how == 2:
        content[at:end] = bytes(end - at)
        return bytes(content), "row of zeros"
    word = int(rng.choice(np.array([modulus - 1, modulus, modulus + 1, 2 * modulus, (1 << 64) - 1], dtype=np.uint64)))
    place = at + 8 * int(rng.integers((end - at) // 8))
    content[place : place + 8] = word.to_bytes(8, "little")
    return bytes(content), f"word {word - modulus} beyond its modulus"


def mutant_of(content: bytes, layout: Layout, rng: Any) -> Mutant:
    """Bytes of OpenFHE's, mutated."""
    how = rng.random()
    if how < 0.45:
        return Mutant(*set_some(content, layout.fields, rng))
    if how < 0.6:
        return Mutant(*_rows_changed(layout, rng))
    return Mutant(*mutated(content, rng))


# What they are mutants of.
@dataclass
class Scheme:
    """A small parameter set with its context, keys, and bytes of OpenFHE's for it."""

    params: CkksParameters
    context: _engine.CkksContext
    key_tag: str
    key_bytes: dict[str, bytes] = field(default_factory=dict)
    """By id: a single relinearization key, maps of one automorphism."""
    key_files: dict[str, bytes] = field(default_factory=dict)
    """A map of several keys, and what a context keeps."""
    ciphertexts: dict[str, bytes] = field(default_factory=dict)
    layouts: dict[str, Layout] = field(default_factory=dict)

    def __post_init__(self) -> None:
        q, p = openfhe_primes(self.params)
        self.moduli_q = np.array(q, dtype=np.uint64)[:, None]
        self.moduli = np.array([*q, *p], dtype=np.uint64)[:, None]

    @cached_property
    def keys(self) -> dict[str, Any]:
        """The keys of `key_bytes` for the native evaluator."""
        found = {RELIN_KEY: self.context.import_key(self.key_bytes[RELIN_KEY])}
        for name in (CONJ_KEY, ROTATION_KEY):
            (found[name],) = self.context.import_automorphism_keys(self.key_bytes[name]).values()
        return found

    @cached_property
    def writer(self) -> _engine.CkksWriter:
        return _engine.CkksWriter(self.ciphertexts["fresh"])

    def real(self, name: str) -> _engine.CkksCiphertext:
        """A ciphertext that nothing has changed."""
        return self.context.import_ciphertext(self.ciphertexts[name])


@contextmanager
def scheme_of(scaling: Scaling) -> Iterator[Scheme]:
    """A scheme, and OpenFHE's keys of it for as long."""
    params = CkksSpec(
        name="insecure-strings",
        ring_dim=1024,
        slots=SLOTS,
        depth=3,
        scale_bits=40,
        first_mod_bits=50,
        dnum=2,
        scaling=scaling,
        secret="uniform-ternary",
        security="none",
    ).build()
    # Nobody builds a set this small: most of its bytes are no coefficients.
    params = replace(params, ring_dim=RING_DIM)
    library = OpenFheContext.create(params, relinearize=False)
    try:
        paths = _engine.ckks_paths()
        path = paths[list(Scaling).index(scaling) % len(paths)]
        made = Scheme(params, make_context(params, path=path), str(library.secret_key.GetKeyTag()))
        make_keys(library, (RELIN_KEY, CONJ_KEY, ROTATION_KEY), made.key_bytes.__setitem__)
        made.key_files.update(_key_files(library))
        fresh = OpenFheClient(library).encrypt(np.linspace(-1, 1, SLOTS)).content
        made.ciphertexts["fresh"] = fresh
        engine, a = Calls(made.context), made.real("fresh")
        dropped = engine.rescale_now(engine.mult(a, a, made.keys[RELIN_KEY]))
        shaped = {"product": engine.mult_no_relin(a, a), "squared": engine.square(a, made.keys[RELIN_KEY]),
                  "dropped": dropped, "last": engine.mod_drop(dropped, 1)}  # fmt: skip
        made.ciphertexts |= {name: engine.export_ciphertext(c, made.writer) for name, c in shaped.items()}
        made.layouts = {name: ciphertext_layout(content) for name, content in made.ciphertexts.items()}
        made.layouts |= {name: key_layout(content) for name, content in (made.key_bytes | made.key_files).items()}
        yield made
    finally:
        library.release()


def _key_files(library: OpenFheContext) -> dict[str, bytes]:
    """A map of two automorphisms, and both kinds of files that a context writes of itself."""
    from tempfile import TemporaryDirectory

    fhe, cc, secret = load_openfhe(), library.context, library.secret_key
    tag = secret.GetKeyTag()
    with TemporaryDirectory() as folder:
        cc.EvalMultKeyGen(secret)
        cc.SerializeEvalMultKey(f"{folder}/relin", fhe.BINARY, tag)
        fhe.ClearEvalMultKeys()
        several = cc.EvalAutomorphismKeyGen(secret, [ELEMENT, 2 * RING_DIM - 1])
        cc.InsertEvalAutomorphismKey(several, tag)
        cc.SerializeEvalAutomorphismKey(f"{folder}/rotations", fhe.BINARY, tag)
        found = {"map": fhe.Serialize(several, fhe.BINARY)}
        fhe.CryptoContext.ClearEvalAutomorphismKeys()
        found |= {f"context {name}": (Path(folder) / name).read_bytes() for name in ("relin", "rotations")}
    return found


# Checks.
def same(a: _engine.CkksCiphertext, b: _engine.CkksCiphertext) -> bool:
    """Whether two ciphertexts are alike in everything."""
    if any(getattr(a, n) != getattr(b, n) for n in ("limbs", "degree", "scale", "slots", "polynomials")):
        return False
    return all(np.array_equal(a.words(k), b.words(k)) for k in range(a.polynomials))


def check_ciphertext(scheme: Scheme, a: _engine.CkksCiphertext, what: str, *, given: bool = False) -> None:
    """Raises: Wrong: it is none of the scheme's. `given`: from bytes, whose scale OpenFHE may have lost (0)."""
    limbs, degree, slots = a.limbs, a.degree, a.slots
    if not 1 <= limbs <= scheme.params.num_q or a.polynomials not in (2, 3):
        raise Wrong(f"{what}: {a.polynomials} polynomials of {limbs} limbs")
    if not 0 <= degree <= 2 * scheme.params.num_q or not slots or slots & (slots - 1) or slots > RING_DIM // 2:
        raise Wrong(f"{what}: degree {degree}, {slots} slots")
    if not math.isfinite(a.scale) or a.scale < 0 or (a.scale == 0 and not given):
        raise Wrong(f"{what}: a scale of {a.scale}")
    for k in range(a.polynomials):
        words = a.words(k)
        if words.shape != (limbs, RING_DIM) or np.any(words >= scheme.moduli_q[:limbs]):
            raise Wrong(f"{what}: words beyond their moduli, or {words.shape} of them")


def check_works(scheme: Scheme, a: _engine.CkksCiphertext, keys: dict[str, Any] | None = None) -> int:
    """Every operation on `a` gives a ciphertext, or a refusal; how many gave one."""
    engine, keys = Calls(scheme.context), keys or scheme.keys
    real = scheme.real("dropped" if a.limbs < scheme.params.num_q else "fresh")
    conj = 2 * RING_DIM - 1
    calls = {
        "add": lambda: engine.add(a, real),
        "sub": lambda: engine.sub(real, a),
        "twice": lambda: engine.add(a, a),
        "mult": lambda: engine.mult(a, real, keys[RELIN_KEY]),
        "mult_no_relin": lambda: engine.mult_no_relin(a, a),
        "square": lambda: engine.square(a, keys[RELIN_KEY]),
        "relinearize": lambda: engine.relinearize(a, keys[RELIN_KEY]),
        "rotate": lambda: engine.rotate(a, ELEMENT, keys[ROTATION_KEY]),
        "conjugate": lambda: engine.rotate(a, conj, keys[CONJ_KEY]),
        "rotate_hoisted": lambda: engine.rotate_hoisted(a, engine.decompose(a), ELEMENT, keys[ROTATION_KEY]),
        "rotate_extended": lambda: engine.mod_down(
            engine.rotate_hoisted_extended(a, engine.decompose(a), ELEMENT, keys[ROTATION_KEY])
        ),
        "add_scalar": lambda: engine.add_scalar(a, 0.5),
        "mult_scalar": lambda: engine.mult_scalar(a, -1.5),
        "add_plain": lambda: engine.add_plain(a, engine.encode(np.ones(SLOTS, complex), a.limbs, a.degree, SLOTS)),
        "mult_plain": lambda: engine.mult_plain(a, engine.encode(np.ones(SLOTS, complex), a.limbs, 1, SLOTS)),
        "weighted": lambda: engine.number_sum([a, a], [0.5, 2.0]),
        "rescale": lambda: engine.rescale(a),
        "rescale_and_drop": lambda: engine.rescale_and_drop(a, 1),
        "mod_drop": lambda: engine.mod_drop(a, 1),
        "mod_raise": lambda: engine.mod_raise(engine.mod_drop(a, 1), scheme.params.num_q),
        "align": lambda: engine.align(real, a),
        "negate": lambda: engine.negate(a),
        "monomial": lambda: engine.monomial(a, 5),
    }  # fmt: skip
    done = 0
    for name, call in calls.items():
        try:
            made = call()
        except PenstockError as error:
            named(error)
            continue
        check_ciphertext(scheme, made, name, given=a.scale == 0)
        done += 1
    return done


def named(error: PenstockError) -> None:
    """Raises: Wrong: the refusal is for want of memory, or says nothing."""
    said = str(error)
    if not said.strip() or "no memory" in said or "internal error" in said:
        raise Wrong(f"refused with {type(error).__name__}: {said[:200]!r}") from error


class Ciphertexts:
    """`import_ciphertext`, and the writer that is made of a ciphertext."""

    name = "ciphertext"

    def __init__(self, schemes: list[Scheme]) -> None:
        self.schemes = schemes

    def check(self, rng: Any, folder: Path) -> tuple[Mutant, str]:
        scheme = self.schemes[int(rng.integers(len(self.schemes)))]
        name = list(scheme.ciphertexts)[int(rng.integers(len(scheme.ciphertexts)))]
        mutant = mutant_of(scheme.ciphertexts[name], scheme.layouts[name], rng)
        self._writer(scheme, mutant)
        try:
            a = scheme.context.import_ciphertext(mutant.content)
        except PenstockError as error:
            named(error)
            return mutant, "refused"
        check_ciphertext(scheme, a, "import", given=True)
        written = scheme.context.export_ciphertext(a, scheme.writer)
        again = scheme.context.import_ciphertext(written)
        if not same(a, again) or scheme.context.export_ciphertext(again, scheme.writer) != written:
            raise Wrong("written and read again it is another ciphertext")
        check_works(scheme, a)
        return mutant, "as it was" if same(a, scheme.real(name)) else "another ciphertext"

    def _writer(self, scheme: Scheme, mutant: Mutant) -> None:
        """A writer of mutated bytes writes what is read as what was given to it."""
        try:
            writer = _engine.CkksWriter(mutant.content)
        except PenstockError as error:
            named(error)
            return
        real = scheme.real("fresh")
        try:
            again = scheme.context.import_ciphertext(scheme.context.export_ciphertext(real, writer))
        except PenstockError as error:
            raise Wrong(f"a writer of these bytes writes what is not read: {error}") from error
        if not same(real, again):
            raise Wrong("a writer of these bytes changes what it writes")


class Keys:
    """`import_key`, `import_automorphism_keys` and `ckks_describe_keys`."""

    name = "key"

    def __init__(self, schemes: list[Scheme]) -> None:
        self.schemes = schemes

    def check(self, rng: Any, folder: Path) -> tuple[Mutant, str]:
        scheme = self.schemes[int(rng.integers(len(self.schemes)))]
        files = scheme.key_bytes | scheme.key_files
        name = list(files)[int(rng.integers(len(files)))]
        mutant = mutant_of(files[name], scheme.layouts[name], rng)
        content, taken = mutant.content, dict(scheme.keys)
        try:
            ring_dim, moduli, dnum, keys = _engine.ckks_describe_keys(content)
            least = 16 * ring_dim * len(moduli) * dnum * len(keys)
            if not 0 < least <= len(content):
                raise Wrong(f"{len(keys)} keys of N = {ring_dim}, {len(moduli)} moduli, {dnum} digits")
        except PenstockError as error:
            named(error)
        accepted = 0
        try:
            key = scheme.context.import_key(content)
            taken = dict.fromkeys(taken, key)
            accepted += 1
        except PenstockError as error:
            named(error)
        try:
            found = scheme.context.import_automorphism_keys(content)
            if len(found) != (0 if "relin" in name else 2 if name in scheme.key_files else 1):
                raise Wrong(f"keys of {len(found)} automorphisms")
            if found:
                taken[ROTATION_KEY] = found.get(ELEMENT, next(iter(found.values())))
                taken[CONJ_KEY] = found.get(2 * RING_DIM - 1, taken[ROTATION_KEY])
                accepted += 1
        except PenstockError as error:
            named(error)
        if not accepted:
            return mutant, "refused"
        check_works(scheme, scheme.real("fresh"), taken)
        return mutant, "accepted"
