"""`CkksSpec`: a parameter set as a person writes it, and `build()`, the one place where it is checked.

For `library = "openfhe"` the modulus chain is derived exactly as OpenFHE 1.6 derives it; for `library = "accelerator"`
the set states its primes (`q_primes`, `p_primes`) or their sizes (`q_bits`, `p_bits`).
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator
from dataclasses import asdict, fields, replace
from typing import ClassVar, Literal

from penstock.base.types import Row
from penstock.errors import ParamsError, UnknownName
from penstock.scheme.params import primes, rules, security
from penstock.scheme.params.ckks import BootstrapPlan, CkksParameters, Scaling
from penstock.scheme.params.encapsulated_security import encapsulated_level, sparse_bound
from penstock.scheme.params.overflow import REFRESH_FAILURE_LOG2, least_range, needs_another_secret, overflow_log2
from penstock.scheme.params.rlwe import KeyForm, RlweParameters
from penstock.scheme.params.rules import MAX_RING_DIM
from penstock.scheme.params.secrets import (
    AUXILIARY_BITS,
    AUXILIARY_PRIMES,
    SPARSE_ENCAPSULATED,
    SPARSE_TERNARY,
    SPARSE_WEIGHT,
    UNIFORM_ENCAPSULATED,
    is_encapsulated,
    raised_weight,
)
from penstock.scheme.params.small_security import small_refusal, with_small_ring
from penstock.scheme.params.written import BitSizes, Level, Library, Secret, Whole, Written

MAX_DEPTH = 1000
OPENFHE_WORD_BITS = 64


class BootstrapSpec(Written):
    """The shape of bootstrapping; its fields match `BootstrapPlan`."""

    _what: ClassVar[str] = "bootstrap"

    cts_stages: Whole
    stc_stages: Whole
    chebyshev_degree: Whole
    double_angles: Whole
    cts_limbs: Whole = 1
    eval_mod_limbs: Whole = 1
    stc_limbs: Whole = 1
    extra_limbs: Whole = 0
    rotations: Literal["hoisted", "min-ks", "few-keys"] = "hoisted"
    order: Literal["stc-last", "stc-first"] = "stc-last"
    baby_steps: Whole = 0
    sine_range: Whole = 16


class CkksSpec(Written):
    """A CKKS parameter set as written, in Python or TOML. Nothing but types is checked before `build()`.

    >>> CkksSpec(name="mine-insecure", ring_dim="2^12", depth=4, scale_bits=50, security="none").build().num_p
    2
    """

    _what: ClassVar[str] = "parameter set"

    name: str = "unnamed"
    ring_dim: Whole
    """N, the dimension of the ring."""
    slots: Whole | None = None
    """Packed values; N/2 if omitted."""
    depth: Whole | None = None
    """Multiplications in sequence. An accelerator set states `q_bits` instead."""
    first_mod_bits: Whole = 60
    """Size of q_0, which holds the message at the end."""
    scale_bits: Whole
    """Size of the scaling factor and, in OpenFHE, of the other primes of Q."""
    dnum: Whole | None = None
    """Digits of hybrid key switching; OpenFHE's default by depth (3, 2 or 1) if omitted."""
    scaling: Scaling = Scaling.FIXED_MANUAL
    secret: Secret = "uniform-ternary"
    security: Level = 128
    """The level that must hold; `none` asks for none (the set still says which one it has)."""
    word_bits: Whole = OPENFHE_WORD_BITS
    key_form: KeyForm = KeyForm.FULL
    library: Library = "openfhe"
    q_bits: BitSizes | None = None
    """Accelerators: bits of each prime of Q, q_0 first."""
    p_bits: BitSizes | None = None
    """Accelerators: bits of each special prime."""
    q_primes: tuple[Whole, ...] | None = None
    """Accelerators: the primes of Q themselves, instead of `q_bits`."""
    p_primes: tuple[Whole, ...] | None = None
    """Accelerators: the special primes themselves, instead of `p_bits`."""
    bootstrap: BootstrapSpec | None = None
    small_ring_dim: Whole = 0
    """n of a smaller ring, with q_0 and one special prime, whose ciphertexts programs pack into this one; 0: none."""
    source: str = ""
    assumed: tuple[str, ...] = ()
    """Fields whose value no source states."""

    def build(self) -> CkksParameters:
        """Check every rule and derive the modulus chain.

        Raises: ParamsError: a rule is broken; the message names the rule, the value and a remedy.
        """
        self._check_shape()
        if self.library == "openfhe":
            params, exact_log_qp = self._build_openfhe()
        else:
            params, exact_log_qp = self._build_accelerator()
        return self._with_level(params, exact_log_qp)

    @property
    def _who(self) -> str:
        return f"parameter set '{self.name}'"

    @property
    def _asked(self) -> int:
        return 0 if self.security == "none" else self.security

    def _check_shape(self) -> None:
        """Rules that need no modulus chain."""
        who = self._who
        rules.check_ring(who, self.name, n := self.ring_dim, self.word_bits)
        slots = self._slots
        if slots < 1 or slots & (slots - 1) or slots > n // 2:
            raise ParamsError(
                f"{who}: slots {slots} must be a power of two up to N/2 = {n // 2}: "
                f"use {min(n // 2, 1 << max(0, slots - 1).bit_length())}"
            )
        if self.depth is not None and not 0 <= self.depth <= MAX_DEPTH:
            what = "is negative; a depth counts multiplications" if self.depth < 0 else "is not feasible"
            raise ParamsError(f"{who}: depth {self.depth} {what}: use 0 to {MAX_DEPTH}")
        if self.small_ring_dim:
            self._check_small()
        if self.bootstrap is not None:
            for field, value in self.bootstrap.model_dump().items():
                least = 0 if field in ("double_angles", "extra_limbs", "baby_steps") else 1
                if isinstance(value, int) and value < least:
                    raise ParamsError(f"{who}: bootstrap.{field} {value} must be at least {least}")
            few_keys, baby = self.bootstrap.rotations == "few-keys", self.bootstrap.baby_steps
            if baby and (not few_keys or baby & (baby - 1)):
                raise ParamsError(
                    f"{who}: bootstrap.baby_steps {baby}: a power of two, with rotations 'few-keys'; 0 leaves it to "
                    "the stages"
                )
            if few_keys and self.library != "openfhe":
                raise ParamsError(
                    f"{who}: bootstrap.rotations 'few-keys' is for OpenFHE's parameters; an accelerator's take 'min-ks'"
                )
            if self.library == "openfhe" and self.bootstrap.order == "stc-first" and not few_keys:
                raise ParamsError(
                    f"{who}: bootstrap.order 'stc-first' is not in OpenFHE, whose bootstrapping ends with "
                    "SlotsToCoeffs: take rotations 'few-keys', for penstock's evaluator, or order 'stc-last'"
                )
            self._check_range(self.bootstrap)
        unknown = sorted(set(self.assumed) - set(CkksSpec.model_fields))
        if unknown:
            raise UnknownName(f"field in `assumed` of {who}", unknown[0], CkksSpec.model_fields)

    def _check_small(self) -> None:
        """A smaller ring needs an ephemeral secret; its level is checked with the set's (`_with_level`)."""
        small, who = self.small_ring_dim, self._who
        if small < 2 or small & (small - 1) or small >= self.ring_dim:
            raise ParamsError(
                f"{who}: small_ring_dim {small} must be a power of two below ring_dim {self.ring_dim}: 0 leaves it out"
            )
        if not is_encapsulated(self.secret):
            raise ParamsError(
                f"{who}: small_ring_dim {small}: ciphertexts of the small ring are switched to an ephemeral secret: "
                f"take secret '{UNIFORM_ENCAPSULATED}' or '{SPARSE_ENCAPSULATED}'"
            )

    def _check_range(self, plan: BootstrapSpec) -> None:
        """A secure set states a sine that the multiples of q_0 do not leave. The library's own range is its own."""
        weight = raised_weight(self.secret)
        if plan.rotations != "few-keys" or not self._asked or weight is None:
            return
        log2 = overflow_log2(self.ring_dim, weight, plan.sine_range)
        if log2 > REFRESH_FAILURE_LOG2:
            raise ParamsError(
                f"{self._who}: bootstrap.sine_range {plan.sine_range}: a refresh overflows with probability "
                f"2^{log2:.1f}, and 2^{REFRESH_FAILURE_LOG2:g} is allowed: a secret of weight {weight} at ring_dim "
                f"{self.ring_dim} needs sine_range {least_range(self.ring_dim, weight)}"
            )

    @property
    def _slots(self) -> int:
        return self.ring_dim // 2 if self.slots is None else self.slots

    # OpenFHE

    def _build_openfhe(self) -> tuple[CkksParameters, int]:
        who = self._who
        what = "q_primes and p_primes" if self.q_primes or self.p_primes else "q_bits and p_bits"
        if (self.q_bits, self.p_bits, self.q_primes, self.p_primes) != (None,) * 4:
            raise ParamsError(
                f"{who}: {what} are for library 'accelerator'; OpenFHE derives its primes from depth, "
                "first_mod_bits, scale_bits and dnum"
            )
        if self.word_bits != OPENFHE_WORD_BITS:
            raise ParamsError(f"{who}: word_bits {self.word_bits}: OpenFHE stores every coefficient in 64 bits")
        primes.check_openfhe_bits(who, self.first_mod_bits, self.scale_bits)
        depth, dnum = self._openfhe_depth, self._openfhe_dnum
        rules.check_dnum(who, dnum, self._openfhe_num_q(depth))
        q, p = self._openfhe_chain(self.ring_dim, depth, dnum)
        params = self._parameters(
            q_bits=tuple(map(primes.nominal_bits, q)), p_bits=tuple(map(primes.nominal_bits, p)), dnum=dnum
        )
        return params, _bits(q + p)

    @property
    def _openfhe_depth(self) -> int:
        if self.depth is None:
            raise ParamsError(
                f"{self._who}: depth is missing: state how many multiplications in sequence it must carry"
            )
        return self.depth

    @property
    def _openfhe_dnum(self) -> int:
        return default_dnum(self._openfhe_depth) if self.dnum is None else self.dnum

    def _openfhe_num_q(self, depth: int) -> int:
        return depth + 1 + (self.scaling is Scaling.FLEXIBLE_AUTO_EXT)

    def _openfhe_chain(self, ring_dim: int, depth: int, dnum: int) -> tuple[tuple[int, ...], tuple[int, ...]]:
        try:
            q = primes.openfhe_q_primes(ring_dim, depth, self.first_mod_bits, self.scale_bits, self.scaling)
        except ParamsError as error:
            raise ParamsError(f"{self._who}: {error}") from error
        return q, primes.openfhe_p_primes(ring_dim, q, dnum)

    # Accelerators

    def _build_accelerator(self) -> tuple[CkksParameters, int]:
        who = self._who
        chain = "q_primes" if self.q_primes or self.p_primes else "q_bits"
        if chain == "q_primes":
            q_bits, p_bits = self._sizes_of_primes()
        elif self.q_bits and self.p_bits:
            q_bits, p_bits = self.q_bits, self.p_bits
            rules.check_sizes(who, self.ring_dim, self.word_bits, q_bits, p_bits)
        else:
            raise ParamsError(
                f"{who}: library 'accelerator' needs q_bits and p_bits, for example q_bits = \"35 x 36\", or q_primes "
                "and p_primes"
            )
        num_q = len(q_bits)
        extra = self.scaling is Scaling.FLEXIBLE_AUTO_EXT
        if self.depth is not None and self.depth != num_q - 1 - extra:
            raise ParamsError(
                f"{who}: depth {self.depth} contradicts {chain}: {num_q} limbs carry depth {num_q - 1 - extra}; "
                "leave depth out"
            )
        if not 1 <= self.scale_bits <= 2 * self.word_bits:
            raise ParamsError(f"{who}: scale_bits {self.scale_bits} must be 1 to {2 * self.word_bits} (two words)")
        dnum = default_dnum(num_q - 1) if self.dnum is None else self.dnum
        rules.check_dnum(who, dnum, num_q)
        rules.check_special(who, q_bits, p_bits, dnum, chain.replace("q", "p", 1))
        params = self._parameters(q_bits=q_bits, p_bits=p_bits, dnum=dnum)
        return params, modulus_bits(params)[1]

    def _sizes_of_primes(self) -> tuple[tuple[int, ...], tuple[int, ...]]:
        if self.q_bits is not None or self.p_bits is not None:
            raise ParamsError(
                f"{self._who}: q_bits and p_bits follow from q_primes and p_primes: leave q_bits and p_bits out"
            )
        if not self.q_primes or not self.p_primes:
            raise ParamsError(f"{self._who}: q_primes and p_primes state one chain: state both, or q_bits and p_bits")
        return rules.sizes_of(self._who, self.ring_dim, self.word_bits, self.q_primes, self.p_primes)

    def _parameters(self, *, q_bits: tuple[int, ...], p_bits: tuple[int, ...], dnum: int) -> CkksParameters:
        written: Row = {
            field.name: getattr(self, field.name)
            for field in fields(CkksParameters)
            if field.name in CkksSpec.model_fields
        }
        return CkksParameters(**written | {
            "slots": self._slots,
            "q_bits": q_bits,
            "p_bits": p_bits,
            "q_primes": self.q_primes or (),
            "p_primes": self.p_primes or (),
            "dnum": dnum,
            "first_mod_bits": self.first_mod_bits if self.library == "openfhe" else q_bits[0],
            "security_bits": 0,
            "security_note": "",
            "security_asked": self._asked,
            "bootstrap": None if self.bootstrap is None else BootstrapPlan(**self.bootstrap.model_dump()),
        })  # fmt: skip

    # Security

    def _with_level(self, params: CkksParameters, log_qp: int) -> CkksParameters:
        if is_encapsulated(params.secret):
            first = params.q_primes[0].bit_length() if params.q_primes else params.first_mod_bits
            raised = first + AUXILIARY_PRIMES * AUXILIARY_BITS
            level, note = encapsulated_level(params.ring_dim, log_qp, raised, params.secret)
        else:
            level, note = security.security_level(params.ring_dim, log_qp, params.secret)
        presupposed = needs_another_secret(params) if level else ""
        if presupposed:
            level, note = 0, f"{presupposed}; its modulus alone: {note}"
        asked = self._asked
        if asked and level < asked:
            remedy = "Use security none" if presupposed else self._remedy(asked, log_qp)
            raise ParamsError(f"{self._who}: {asked}-bit security does not hold: {note}. {remedy}")
        if asked and self.library == "openfhe":
            self._check_openfhe_accepts(asked, log_qp)
        if params.small_ring_dim:
            level, note = with_small_ring(level, note, params)
            if asked and level < asked:
                raise ParamsError(f"{self._who}: {small_refusal(params, asked)}")
        return replace(params, security_bits=level, security_note=note)

    def _level_of(self, secret: str) -> int:
        """The level with another secret."""
        data = {**self.model_dump(), "secret": secret, "security": "none"}
        return CkksSpec(**data).build().security_bits

    def _check_openfhe_accepts(self, asked: int, log_qp: int) -> None:
        """OpenFHE estimates logQP before it picks primes, a little high, and refuses by its own table."""
        needed = max(log_qp, self._openfhe_estimate(self._openfhe_depth, self._openfhe_dnum))
        bound = security.OPENFHE.max_log_qp(self.ring_dim, asked) or 0
        if needed > bound:
            raise ParamsError(
                f"{self._who}: OpenFHE refuses it at {asked} bit: it counts logQP as {needed}, over {bound} "
                f"({security.OPENFHE.name}). {self._remedy(asked, log_qp)}"
            )

    def _openfhe_estimate(self, depth: int, dnum: int) -> int:
        """log2(QP) as OpenFHE estimates it from the sizes that were asked for.

        Source: OpenFHE, `ParamsGenCKKSRNSInternal` and `EstimateLogP`; one bit for Q, one and the margin for a digit.
        Checked against what 1.6.1 accepts and refuses: 275 sets around the bounds, no difference.
        """
        sizes = [self.first_mod_bits] + [self.scale_bits] * depth
        if self.scaling is Scaling.FLEXIBLE_AUTO_EXT:
            sizes.append(primes.EXTRA_PRIME_BITS)
        digit = -(-len(sizes) // dnum)
        longest = max(sum(sizes[i : i + digit]) for i in range(0, len(sizes), digit))
        longest += 1 + primes.SPECIAL_MARGIN_BITS
        return sum(sizes) + 1 + -(-longest // primes.SPECIAL_PRIME_BITS) * primes.SPECIAL_PRIME_BITS

    def _holds(self, level: int, ring_dim: int, depth: int, dnum: int) -> bool:
        """Whether an OpenFHE set with these values keeps `level` by both tables."""
        num_q = self._openfhe_num_q(depth)
        if not 1 <= dnum <= num_q or not rules.divisible(num_q, dnum):
            return False
        estimate = self._openfhe_estimate(depth, dnum)
        if estimate > (security.OPENFHE.max_log_qp(ring_dim, level) or 0):
            return False
        try:
            q, p = self._openfhe_chain(ring_dim, depth, dnum)
            log_qp = _bits(q + p)
        except ParamsError:
            return False
        return log_qp <= self._bound(ring_dim, level)

    def _bound(self, ring_dim: int, level: int) -> int:
        """Most bits of QP that keep the level, by the main secret."""
        if self.secret == SPARSE_ENCAPSULATED:
            return sparse_bound(ring_dim, SPARSE_WEIGHT, level)
        return security.GUIDELINES_2024.max_log_qp(ring_dim, level) or 0

    def _remedy(self, level: int, log_qp: int) -> str:
        """What would hold: a ring dimension, a depth, a digit count."""
        if self.secret == SPARSE_TERNARY:
            return "Use secret uniform-encapsulated or uniform-ternary, or security none"
        if self.secret == SPARSE_ENCAPSULATED and self._level_of(UNIFORM_ENCAPSULATED) >= level:
            return "Use secret uniform-encapsulated, whose main secret is not sparse, or security none"
        larger = [1 << k for k in range(self.ring_dim.bit_length(), MAX_RING_DIM.bit_length())]
        options: list[str] = []
        if self.library == "accelerator":
            ring_dim = next((n for n in larger if log_qp <= (security.GUIDELINES_2024.max_log_qp(n, level) or 0)), None)
            options.append(f"ring_dim {ring_dim}" if ring_dim else f"fewer limbs (no ring_dim to {MAX_RING_DIM} holds)")
        else:
            options += self._openfhe_options(level, larger)
        return f"Use {', or '.join(options)}, or security none"

    def _openfhe_options(self, level: int, larger: Iterable[int]) -> Iterator[str]:
        depth, dnum = self._openfhe_depth, self._openfhe_dnum
        ring_dim = next((n for n in larger if self._holds(level, n, depth, dnum)), None)
        if ring_dim is None:
            yield f"another chain (no ring_dim up to {MAX_RING_DIM} carries depth {depth} with dnum {dnum})"
        else:
            yield f"ring_dim {ring_dim}"
        digits = range(dnum + 1, self._openfhe_num_q(depth) + 1)
        wider = next((d for d in digits if self._holds(level, self.ring_dim, depth, d)), None)
        if wider is not None:
            yield f"dnum {wider}"
        deepest = next((d for d in range(depth - 1, -1, -1) if self._holds(level, self.ring_dim, d, dnum)), None)
        if deepest is None:
            yield f"another dnum (no depth fits ring_dim {self.ring_dim} with dnum {dnum})"
        else:
            yield f"depth {deepest}, the deepest that fits with dnum {dnum}"


def default_dnum(depth: int) -> int:
    """The digit count that OpenFHE takes where none is asked for.

    >>> [default_dnum(d) for d in (0, 3, 4)]
    [1, 2, 3]
    """
    return 3 if depth > 3 else 2 if depth > 0 else 1


def spec_of(params: CkksParameters) -> CkksSpec:
    """The spec whose `build()` gives `params`. OpenFHE's primes are left out: they are derived again."""
    openfhe = params.library == "openfhe"
    values: Row = {name: getattr(params, name, None) for name in CkksSpec.model_fields} | {
        "depth": params.depth if openfhe else None,
        "first_mod_bits": params.first_mod_bits or params.q_bits[0],
        "security": params.security_asked or "none",
        "q_primes": params.q_primes or None,
        "p_primes": params.p_primes or None,
        "bootstrap": None if params.bootstrap is None else BootstrapSpec(**asdict(params.bootstrap)),
    }
    return CkksSpec(**values | ({"q_bits": None, "p_bits": None} if openfhe or params.q_primes else {}))


def modulus_bits(params: RlweParameters) -> tuple[int, int]:
    """Bits of the products of the primes of Q, and of Q and P, as the security level is found by.

    The sums of rounded sizes (`params.log_q`, `params.log_qp`) may be a bit off; they count where no primes are stated.
    """
    if params.library != "openfhe" and not params.q_primes:
        return params.log_q, params.log_qp
    q, p = primes.primes_of(params)
    return _bits(q), _bits(q + p)


def _bits(moduli: tuple[int, ...]) -> int:
    return math.prod(moduli).bit_length()
