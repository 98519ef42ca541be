"""Checked CKKS parameters: the modulus chain, the digits of hybrid key switching, the scaling rule."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import asdict, dataclass, fields
from typing import Any

from penstock.errors import ParamsError, UnknownName, UsageError
from penstock.operations import EPHEMERAL_KEYS, SMALL_ROTATION, Word
from penstock.params.secrets import AUXILIARY_PRIMES


class Scaling(Word):
    """When a ciphertext is rescaled."""

    FIXED_MANUAL = "fixed-manual"
    """The program calls `rescale`."""
    FIXED_AUTO = "fixed-auto"
    FLEXIBLE_AUTO = "flexible-auto"
    """The library rescales at the start of the next multiplication; `rescale` does nothing."""
    FLEXIBLE_AUTO_EXT = "flexible-auto-ext"

    @property
    def automatic(self) -> bool:
        """Whether the library, not the program, decides when to rescale."""
        return self is not Scaling.FIXED_MANUAL


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


@dataclass(frozen=True, slots=True, kw_only=True)
class BootstrapPlan:
    """The shape of bootstrapping as a circuit.

    A stage of CtS, EvalMod or StC may consume more than one limb where its scale is wider than one prime
    (double-prime scaling); `*_limbs` is the limbs consumed by one level of that stage.
    """

    cts_stages: int
    stc_stages: int
    chebyshev_degree: int
    double_angles: int
    cts_limbs: int = 1
    eval_mod_limbs: int = 1
    stc_limbs: int = 1
    extra_limbs: int = 0
    """Limbs spent on scale corrections at the ends."""
    rotations: str = "hoisted"
    """The stages of CtS and StC. With `hoisted`, baby steps share one decomposition and each step has a key. With
    `min-ks`, the same step is repeated, with two keys a stage and a decomposition for each rotation. With `few-keys`,
    for OpenFHE's parameters, there are few baby steps, giant steps use one key, and both transforms share their
    keys."""
    order: str = "stc-last"
    """`stc-first`: SlotsToCoeffs at few limbs before the modulus is raised, for real values only (slim). For OpenFHE's
    parameters it needs `few-keys`."""
    sine_range: int = 16
    """K: the multiples of q_0 that raising the modulus adds lie within -K and K."""
    baby_steps: int = 0
    """Of a stage with few keys, a power of two: a key each, and fewer giant steps. 0: about the root of its
    diagonals."""


@dataclass(frozen=True, slots=True, kw_only=True)
class CkksParameters:
    """A checked CKKS parameter set. Built by `CkksSpec.build()` only; everything else takes it as given.

    Limbs are counted from the bottom of the chain: a ciphertext with `l` limbs lives modulo `q_0 … q_{l-1}`.
    """

    name: str
    ring_dim: int
    slots: int
    q_bits: tuple[int, ...]
    """Bits of each prime of Q, q_0 first; its length is the number of limbs of a fresh ciphertext."""
    p_bits: tuple[int, ...]
    """Bits of each special prime of hybrid key switching."""
    dnum: int
    """Digits asked for. At `l` limbs `ceil(l / digit_limbs)` of them are active."""
    scale_bits: int
    scaling: Scaling
    secret: str
    """Distribution of the secret key: a name of `penstock.params.secrets`."""
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
    bootstrap: BootstrapPlan | None = None
    source: str = ""
    """The source of the set."""
    assumed: tuple[str, ...] = ()
    """Fields for which no source states the value; sizes that rest on them are estimates."""
    first_mod_bits: int = 0
    """Size that was asked for q_0; 0 stands for `q_bits[0]`."""
    security_asked: int = 0
    """The level that the set asks for and was checked against; 0 asks for none."""
    small_ring_dim: int = 0
    """Of the smaller ring whose ciphertexts, of the one limb q_0, are packed into this one; 0: there is none."""

    @property
    def num_q(self) -> int:
        """Limbs of a fresh ciphertext."""
        return len(self.q_bits)

    @property
    def num_p(self) -> int:
        """Special limbs."""
        return len(self.p_bits)

    @property
    def depth(self) -> int:
        """Multiplications in sequence that a fresh ciphertext carries (FLEXIBLEAUTOEXT keeps one more limb)."""
        return self.num_q - 1 - (1 if self.scaling is Scaling.FLEXIBLE_AUTO_EXT else 0)

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

    # Sizes of stored and moved data. Serialization headers are in `penstock.params.sizes`.
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

    def to_dict(self) -> dict[str, Any]:
        """Every field, in plain types: what trace files and run folders store.

        `small_ring_dim` is left out where there is none, so that a set is stored as versions without it stored it.
        """
        record = {each.name: getattr(self, each.name) for each in fields(self)}
        if self.bootstrap is not None:
            record["bootstrap"] = asdict(self.bootstrap)
        if not self.small_ring_dim:
            del record["small_ring_dim"]
        for name in ("scaling", "key_form"):
            record[name] = record[name].value
        return {name: list(value) if isinstance(value, tuple) else value for name, value in record.items()}

    @classmethod
    def from_dict(cls, record: Mapping[str, Any]) -> CkksParameters:
        """The set that `to_dict` stored. Fields that this version does not know are left out.

        Raises: ParamsError: a field is missing or malformed.
        """
        try:
            values: dict[str, Any] = {k: tuple(v) if isinstance(v, list) else v for k, v in _known(cls, record).items()}
            plan = values.get("bootstrap")
            values["bootstrap"] = None if plan is None else BootstrapPlan(**_known(BootstrapPlan, plan))
            values["scaling"], values["key_form"] = Scaling(values["scaling"]), KeyForm(values["key_form"])
            found = cls(**values)
            _check_types(found)
            if found.bootstrap is not None:
                _check_types(found.bootstrap)
        except (AttributeError, KeyError, TypeError, ValueError) as error:
            raise ParamsError(f"a stored parameter set is malformed ({error}); make the file again") from error
        return found


_STORED: dict[str, Callable[[Any], bool]] = {
    "int": lambda value: isinstance(value, int) and 0 <= value < 2**31,
    "str": lambda value: isinstance(value, str),
    "tuple[int, ...]": lambda value: isinstance(value, tuple) and all(map(_STORED["int"], value)),
    "tuple[str, ...]": lambda value: isinstance(value, tuple) and all(map(_STORED["str"], value)),
}
"""Type of a field -> whether a value of a file can be one."""


def _check_types(found: CkksParameters | BootstrapPlan) -> None:
    for each in fields(found):
        value = getattr(found, each.name)
        if not _STORED.get(str(each.type), lambda _: True)(value):
            raise ValueError(f"{each.name} is {str(value)[:40]!r}")
        if each.name in ("ring_dim", "q_bits", "dnum", "word_bits") and not value:
            raise ValueError(f"{each.name} is {value!r}; a set has one")
        if each.name == "ring_dim" and value & (value - 1):
            raise ValueError(f"ring_dim is {value}; it is a power of 2")


def _known(cls: type[Any], record: Mapping[str, Any]) -> dict[str, Any]:
    """What `record` holds of the fields of `cls`."""
    names = {f.name for f in fields(cls)}
    return {name: value for name, value in record.items() if name in names}
