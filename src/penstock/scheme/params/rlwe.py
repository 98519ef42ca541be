"""Parameters that every RLWE scheme has: the ring, the chain of primes, the digits of hybrid key switching, the keys.

A scheme's parameters extend `RlweParameters` with its own fields, as `penstock.scheme.params.ckks` does. Sizes and
forms of keys, security, and reading and writing a set need no more than this layer.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import asdict, dataclass, fields, is_dataclass
from typing import TYPE_CHECKING, ClassVar, TypeAlias, TypeVar, cast

from penstock.base.types import Row, RowView
from penstock.errors import ParamsError, UnknownName, UsageError
from penstock.scheme.operations import EPHEMERAL_KEYS, SMALL_ROTATION, Word
from penstock.scheme.params.secrets import AUXILIARY_PRIMES

if TYPE_CHECKING:
    from _typeshed import DataclassInstance

Primes = tuple[int, ...]
"""Moduli themselves, not their sizes."""
Readers: TypeAlias = Mapping[str, Callable[..., object]]
"""Field -> what makes it from its plain form."""
Record = TypeVar("Record")
Set = TypeVar("Set", bound="RlweParameters")


class KeyForm(Word):
    """The form in which the evaluation keys of a program are made, stored and uploaded.

    >>> KeyForm.named("seeded+truncated").is_truncated
    True
    """

    FULL = "full"
    SEEDED = "seeded"
    """The uniform half of each key is a seed that is expanded on reading."""
    TRUNCATED = "truncated"
    """Each key has only the rows up to the most limbs at which the program uses it."""
    SEEDED_TRUNCATED = "seeded+truncated"

    @property
    def is_seeded(self) -> bool:
        return self in (KeyForm.SEEDED, KeyForm.SEEDED_TRUNCATED)

    @property
    def is_truncated(self) -> bool:
        return self in (KeyForm.TRUNCATED, KeyForm.SEEDED_TRUNCATED)

    @classmethod
    def of(cls, *, seeded: bool, truncated: bool) -> KeyForm:
        """Return the form with these two properties."""
        return next(form for form in cls if (form.is_seeded, form.is_truncated) == (seeded, truncated))

    @classmethod
    def named(cls, text: str) -> KeyForm:
        """Return the form as a person writes it.

        Raises: UnknownName: no such form, with the nearest; UsageError: its two words in the other order.
        """
        known = [form.value for form in cls]
        if text in known:
            return cls(text)
        ordered = "+".join(sorted(text.split("+")))
        if ordered in known:
            raise UsageError(f"key form '{text}': a form is written in one way; write '{ordered}'")
        raise UnknownName("key form", text, known)


def form_of(text: str | KeyForm | None) -> KeyForm | None:
    """Return the form that a person names; `None`: as the parameter set says.

    Raises: as `KeyForm.named`.
    """
    return text if text is None or isinstance(text, KeyForm) else KeyForm.named(text)


@dataclass(frozen=True, slots=True, kw_only=True, repr=False)
class RlweParameters:
    """A checked parameter set, as far as all schemes have it. A spec's `build()` makes it.

    Limbs are counted from the bottom of the chain: a ciphertext with `l` limbs lives modulo `q_0 … q_{l-1}`.
    """

    name: str
    ring_dim: int
    q_bits: tuple[int, ...]
    """Bits of each prime of Q, q_0 first; its length is the number of limbs of a fresh ciphertext."""
    p_bits: tuple[int, ...]
    """Bits of each special prime of hybrid key switching."""
    dnum: int
    """Digits asked for. At `l` limbs `ceil(l / digit_limbs)` of them are active."""
    secret: str
    """Distribution of the secret key: a name of `penstock.scheme.params.secrets`."""
    word_bits: int
    """Bits that one stored coefficient of one limb takes: 64 in OpenFHE, 36 in SHARP."""
    key_form: KeyForm
    """Form in which evaluation keys are stored and moved, where nobody names another."""
    library: str
    """`openfhe`: can be run here; `accelerator`: sizes and traces only."""
    security_bits: int
    """128, 192 or 256 by the named tables; 0 is `insecure`."""
    security_note: str
    """The derivation of `security_bits`: edition of the tables, logQP against the bound."""
    source: str = ""
    """The source of the set."""
    assumed: tuple[str, ...] = ()
    """Fields for which no source states the value; sizes that rest on them are estimates."""
    security_asked: int = 0
    """The level that the set asks for and was checked against; 0 asks for none."""
    small_ring_dim: int = 0
    """Of the smaller ring whose ciphertexts, of the one limb q_0, are packed into this one; 0: there is none."""
    q_primes: Primes = ()
    """The primes of Q, where the set states them; `penstock.scheme.params.primes.primes_of` also derives OpenFHE's."""
    p_primes: Primes = ()
    """The special primes, where the set states them."""

    _ORDER: ClassVar[tuple[str, ...]] = ()
    """The fields as they are written; empty: as they are declared."""
    _READERS: ClassVar[Readers] = {"key_form": KeyForm}
    """Field that is not a plain type -> what makes it from its plain form."""

    def __repr__(self) -> str:
        values = {name: getattr(self, name) for name in self._names()}
        shown = (f"{k}={v!r}" for k, v in values.items() if v or not k.endswith("_primes"))
        return f"{type(self).__name__}({', '.join(shown)})"

    @property
    def num_q(self) -> int:
        """Limbs of a fresh ciphertext."""
        return len(self.q_bits)

    @property
    def num_p(self) -> int:
        """Special limbs."""
        return len(self.p_bits)

    @property
    def digit_limbs(self) -> int:
        """Limbs of a full digit, alpha = ceil(num_q / dnum)."""
        return -(-self.num_q // self.dnum)

    @property
    def log_q(self) -> int:
        """Sum of the bits of Q."""
        return sum(self.q_bits)

    @property
    def log_qp(self) -> int:
        """Sum of the bits of Q and P: what security depends on."""
        return self.log_q + sum(self.p_bits)

    def active_digits(self, limbs: int) -> int:
        """Digits that a key switch at `limbs` limbs decomposes into."""
        return -(-limbs // self.digit_limbs)

    # Sizes of stored and moved data. Serialization headers are in `penstock.scheme.params.sizes`.
    def polynomial_bytes(self, limbs: int) -> int:
        """One polynomial with `limbs` limbs of `ring_dim` coefficients of `word_bits` bits."""
        return limbs * self.ring_dim * self.word_bits // 8

    def ciphertext_bytes(self, limbs: int, polynomials: int = 2) -> int:
        """A ciphertext of `polynomials` polynomials (3 before relinearization)."""
        return polynomials * self.polynomial_bytes(limbs)

    def plaintext_bytes(self, limbs: int) -> int:
        """An encoded plaintext."""
        return self.polynomial_bytes(limbs)

    def small_bytes(self, polynomials: int) -> int:
        """So many polynomials of one limb in the small ring."""
        return polynomials * self.small_ring_dim * self.word_bits // 8

    def key_bytes(self, limbs: int | None = None, key_form: KeyForm | None = None, *, key: str | None = None) -> int:
        """What a key switch at `limbs` limbs (full chain if omitted) reads of one evaluation key.

        `digits x 2 polynomials x (limbs + num_p)` limbs, half of it where the uniform part is a seed. A truncated key
        has every row that its program reads, so truncation does not change this. Keys to the ephemeral secret have one
        digit over q_0 and two auxiliary primes, those of the small ring one over q_0 and one special prime.
        Source: Han & Ki, CT-RSA 2020 (ePrint 2019/688); Bossuat et al., ePrint 2022/024.
        """
        limbs = self.num_q if limbs is None else limbs
        halves = 1 if (key_form or self.key_form).is_seeded else 2
        if key in EPHEMERAL_KEYS:
            return halves * self.polynomial_bytes(1 + AUXILIARY_PRIMES)
        if key is not None and key.startswith(SMALL_ROTATION):
            return halves * self.small_bytes(2)
        return halves * self.active_digits(limbs) * self.polynomial_bytes(limbs + self.num_p)

    def stored_key_bytes(
        self, limbs: int | None = None, key_form: KeyForm | None = None, *, key: str | None = None
    ) -> int:
        """One evaluation key as stored and uploaded for a program that uses it at `limbs` limbs at most.

        A key that is not truncated, or whose use is not known, has the rows of the full chain.
        """
        form = key_form or self.key_form
        return self.key_bytes(limbs if form.is_truncated else None, form, key=key)

    def total_key_bytes(self, key_limbs: Mapping[str, int], key_form: KeyForm | None = None) -> int:
        """All keys of a program as stored, each once; `key_limbs` has the most limbs at which each is used."""
        return sum(self.stored_key_bytes(limbs, key_form, key=key) for key, limbs in key_limbs.items())

    def to_dict(self) -> Row:
        """Every field, in plain types: what trace files and run folders store.

        The small ring and the primes are left out where there are none, so that a set is stored as versions without
        them stored it.
        """
        record = {name: _plain(getattr(self, name)) for name in self._names()}
        return {name: value for name, value in record.items() if value or name not in _LEFT_OUT}

    @classmethod
    def from_dict(cls: type[Set], record: RowView) -> Set:
        """The set that `to_dict` stored. Fields that this version does not know are left out.

        Raises: ParamsError: a field is missing or malformed.
        """
        try:
            params = read(cls, record, cls._READERS)
            primes, bits = params.q_primes + params.p_primes, params.q_bits + params.p_bits
            counts = len(params.q_primes), len(params.p_primes)
            if primes and counts != (params.num_q, params.num_p):
                raise ValueError(
                    f"q_primes and p_primes are {counts[0]} and {counts[1]}; a set that states primes states all of "
                    f"its {params.num_q} and {params.num_p}"
                )
            if primes and any(abs(prime.bit_length() - size) > 1 for prime, size in zip(primes, bits, strict=True)):
                raise ValueError("q_primes and p_primes do not have the sizes of q_bits and p_bits")
        except (AttributeError, KeyError, TypeError, ValueError) as error:
            raise ParamsError(f"a stored parameter set is malformed ({error}); make the file again") from error
        return params

    @classmethod
    def _names(cls) -> tuple[str, ...]:
        return cls._ORDER or tuple(field.name for field in fields(cls))


_LEFT_OUT = ("small_ring_dim", "q_primes", "p_primes")


def _plain(value: object) -> object:
    if isinstance(value, tuple):
        return list(value)
    if isinstance(value, Word):
        return value.value
    return asdict(value) if is_dataclass(value) and not isinstance(value, type) else value


def _all(a_type: str) -> Callable[[object], bool]:
    return lambda value: isinstance(value, tuple) and all(map(_STORED[a_type], value))


_STORED: dict[str, Callable[[object], bool]] = {
    "int": lambda value: isinstance(value, int) and 0 <= value < 2**31,
    "prime": lambda value: isinstance(value, int) and 0 < value < 2**64,
    "str": lambda value: isinstance(value, str),
    "tuple[int, ...]": _all("int"),
    "tuple[str, ...]": _all("str"),
    "Primes": _all("prime"),
}
"""Type of a field -> whether a value of a file can be one."""


def read(cls: type[Record], record: RowView, readers: Readers) -> Record:
    """Return a dataclass from the plain types of a file, without the fields that this version does not know.

    Raises: AttributeError, KeyError, TypeError, ValueError: a field is missing or malformed.
    """
    known = fields(cast("type[DataclassInstance]", cls))
    values = {field.name: record[field.name] for field in known if field.name in record}
    values = {name: tuple(value) if isinstance(value, list) else value for name, value in values.items()}
    stored = cls(**values | {name: make(values[name]) for name, make in readers.items() if name in values})
    for field in known:
        _check(field.name, str(field.type), getattr(stored, field.name))
    return stored


def _check(name: str, a_type: str, value: object) -> None:
    if a_type in _STORED and not _STORED[a_type](value):
        raise ValueError(f"{name} is {str(value)[:40]!r}")
    if name in ("ring_dim", "q_bits", "dnum", "word_bits") and not value:
        raise ValueError(f"{name} is {value!r}; a set has one")
    if name == "ring_dim" and isinstance(value, int) and value & (value - 1):
        raise ValueError(f"ring_dim is {value}; it is a power of 2")
