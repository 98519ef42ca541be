"""Sizes of keys, ciphertexts and plaintexts before any is made.

Two sizes of each object. **Coefficients**: `ring_dim` words for each limb, the form that moves through memory and that
an accelerator stores. **Serialized**: the bytes of the file that OpenFHE's binary serialization writes, headers
included. Coefficient sizes are methods of `RlweParameters`; this module adds the serialized ones and the report.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import Protocol

from penstock.base.types import Row, Rows
from penstock.base.units import WORD_BYTES
from penstock.errors import ParamsError, UsageError
from penstock.scheme.operations import RELIN_KEY, rotation_key
from penstock.scheme.params.primes import openfhe_primes
from penstock.scheme.params.rlwe import KeyForm, RlweParameters
from penstock.scheme.unpriced import bounded


class UsedKeys(Protocol):
    """What a program uses of evaluation keys, as a trace says it."""

    def key_limbs(self) -> Mapping[str, int]: ...
    def has_modelled_keys(self) -> bool: ...
    def has_modelled_key_limbs(self) -> bool: ...
    def whole_composites(self) -> Mapping[str, int]: ...


# Header bytes of OpenFHE's binary (cereal) serialization, from its format: every vector has an 8-byte length, every
# shared object a 4-byte type and a 4-byte id, big integers are vectors of 64-bit words. The three fixed parts are read
# off files of OpenFHE 1.6.1 (features PKE, KEYSWITCH, LEVELEDSHE, ADVANCEDSHE; FHE adds 44 bytes, SCHEMESWITCH 94) and
# are the same for every set tried.
_LIMB_HEADER = 33  # type 4, flag 1, length 8, modulus 8, format 4, parameters: type 4, id 4
_POLYNOMIAL_HEADER = 20  # length 8, format 4, parameters: type 4, id 4
_MODULUS_ENTRY = 8  # a modulus that was written before, in a list of moduli: type 4, id 4
_MODULUS = 40  # a modulus with its root, written for the first time
_CHAIN_HEADER = 88  # a modulus chain without its product and its list
_EVALUATION_KEY_MAP = 711
_RELINEARIZATION_KEYS = 751
_CIPHERTEXT = 585


def _product_bytes(primes: Sequence[int]) -> int:
    """Bytes of the product of `primes` as OpenFHE writes a big integer."""
    return -(-math.prod(primes).bit_length() // 64) * WORD_BYTES


def _context_bytes(q: Sequence[int]) -> int:
    """The variable part of the crypto context that every file holds: the chain Q."""
    return len(q) * (_MODULUS + _MODULUS_ENTRY) + _product_bytes(q)


def _polynomials_bytes(params: RlweParameters, polynomials: int, limbs: int) -> int:
    return polynomials * (_POLYNOMIAL_HEADER + limbs * (_LIMB_HEADER + params.ring_dim * WORD_BYTES))


def serialized_key_bytes(params: RlweParameters, *, relinearization: bool = False) -> int:
    """Bytes of a file that holds one evaluation key, as OpenFHE 1.6 writes it.

    A rotation or conjugation key: an `EvalKeyMap` of one. The relinearization key: `SerializeEvalMultKey`.
    Raises: ParamsError: the set is not an OpenFHE set.
    """
    q, p = openfhe_primes(params)
    limbs = len(q) + len(p)
    chain = limbs * (_MODULUS + _MODULUS_ENTRY) + _product_bytes((*q, *p))
    fixed = _RELINEARIZATION_KEYS if relinearization else _EVALUATION_KEY_MAP
    return fixed + _context_bytes(q) + chain + _polynomials_bytes(params, 2 * params.dnum, limbs)


def serialized_ciphertext_bytes(params: RlweParameters, limbs: int | None = None, polynomials: int = 2) -> int:
    """Bytes of a file that holds one ciphertext, as OpenFHE 1.6 writes it; full chain if `limbs` is omitted.

    Some operations (a rotation) make OpenFHE write the modulus chain once more or once less: a few hundred bytes.
    Raises: ParamsError: the set is not an OpenFHE set; `limbs` is not 1 to `num_q`.
    """
    q, _ = openfhe_primes(params)
    limbs = len(q) if limbs is None else limbs
    if not 1 <= limbs <= len(q):
        raise ParamsError(f"limbs {limbs} must be 1 to {len(q)}, the limbs of a fresh ciphertext of '{params.name}'")
    size = _CIPHERTEXT + _context_bytes(q) + _polynomials_bytes(params, polynomials, limbs)
    if limbs < len(q):  # each polynomial brings its own, shorter chain
        size += polynomials * (_CHAIN_HEADER + _product_bytes(q[:limbs]) + limbs * _MODULUS_ENTRY)
    return size


def key_bytes_by_limbs(params: RlweParameters) -> list[dict[str, int]]:
    """What a key switch reads of one key at each number of limbs, from the full chain down: flat rows."""
    return [
        {
            "limbs": limbs,
            "active_digits": params.active_digits(limbs),
            "full_key_bytes": params.key_bytes(limbs, KeyForm.FULL),
            "seeded_key_bytes": params.key_bytes(limbs, KeyForm.SEEDED),
            "ciphertext_bytes": params.ciphertext_bytes(limbs),
            "plaintext_bytes": params.plaintext_bytes(limbs),
        }
        for limbs in range(params.num_q, 0, -1)
    ]


def rotation_keys(params: RlweParameters, rotations: Sequence[int]) -> list[str]:
    """The key ids of `rotations` (slots to the left, negative to the right), without repetition, in order.

    Raises: UsageError: a rotation by a multiple of N/2, which moves nothing and has no key.
    >>> from penstock.scheme.params import catalogue
    >>> rotation_keys(catalogue.get("insecure-ci"), [1, 2, 1])
    ['rot:5', 'rot:25']
    """
    for step in rotations:
        if step % (params.ring_dim // 2) == 0:
            raise UsageError(f"rotation {step} moves nothing at N={params.ring_dim}: leave it out")
    return list(dict.fromkeys(rotation_key(step, params.ring_dim) for step in rotations))


def bytes_by_form(params: RlweParameters, key_limbs: Mapping[str, int], whole: Mapping[str, int] | None = None) -> Rows:
    """Return a row for each form of keys: all keys of a program, each stored once, and that over the full form.

    Args:   key_limbs: the most limbs at which the program uses each key, as `Trace.key_limbs` says; whole: composites
            whose keys nobody knows, as of `Trace.whole_composites`: rows are lower bounds (`penstock.scheme.unpriced`).
    Returns: the rows of the keys alone, which the key store holds behind a header of 4 or 8 KiB for each key.
    """
    full = params.total_key_bytes(key_limbs, KeyForm.FULL)
    totals = {form: params.total_key_bytes(key_limbs, form) for form in KeyForm}
    rows = [
        {"key_form": form.value, "stored_key_bytes": size, "ratio_to_full": size / full if full else None}
        for form, size in totals.items()
    ]
    return [bounded(row, whole, ("stored_key_bytes",), ("ratio_to_full",)) for row in rows] if whole else rows


def size_report(
    params: RlweParameters,
    rotations: Sequence[int] | None = None,
    trace: UsedKeys | None = None,
    key_form: KeyForm | None = None,
) -> Row:
    """Return the sizes of the keys and data of a set before any is made.

    The counted keys are those of `trace`; without a trace, one for each of `rotations` and the relinearization key;
    without both, the relinearization key alone. `key_form` is the form that the total counts (default: the set's); a
    truncated one needs a trace, which says how far each key is used. For OpenFHE full keys and ciphertexts are the
    files that it writes, headers included; for accelerators, for other forms, and in the `*_coefficient_bytes`,
    coefficients alone. Names and meaning: docs/guides/parameters.md. `exactness` says of each number whether it is
    `exact` or
    `estimated` (it rests on an assumed field of the set, or on a modelled part of the trace).
    """
    if rotations is not None and trace is not None:
        raise UsageError("name rotations or a workload, not both: a workload brings its own rotations")
    if trace is None and key_form is not None and key_form.is_truncated:
        raise UsageError(f"key form '{key_form}': a program says how far each key is used; add a workload")
    form = key_form or params.key_form
    named = [RELIN_KEY, *rotation_keys(params, rotations or ())]
    key_limbs = dict(trace.key_limbs()) if trace is not None else dict.fromkeys(named, params.num_q)
    keys, whole = list(key_limbs), trace.whole_composites() if trace is not None else {}
    full, seeded = params.key_bytes(key_form=KeyForm.FULL), params.key_bytes(key_form=KeyForm.SEEDED)
    coefficients = {
        "rotation_key_coefficient_bytes": full,
        "relinearization_key_coefficient_bytes": full,
        "ciphertext_coefficient_bytes": params.ciphertext_bytes(params.num_q),
        "total_key_coefficient_bytes": params.total_key_bytes(key_limbs, form),
    }
    stored = {name.replace("_coefficient", ""): size for name, size in coefficients.items()}
    if params.library == "openfhe":
        stored |= _files(params, keys, form)
    report: Row = {
        "params": params.name,
        "rotation_key_bytes": stored["rotation_key_bytes"],
        "relinearization_key_bytes": stored["relinearization_key_bytes"],
        "seeded_key_bytes": seeded,
        "ciphertext_bytes": stored["ciphertext_bytes"],
        "plaintext_bytes": params.plaintext_bytes(params.num_q),
        "num_keys": len(keys),
        "total_key_bytes": stored["total_key_bytes"],
        "security_bits": params.security_bits,
        "security_note": params.security_note,
        "key_form": form.value,
        **coefficients,
        "keys": keys,
        "key_limbs": key_limbs if trace is not None else None,
        "key_forms": bytes_by_form(params, key_limbs, whole) if trace is not None else None,
        "key_bytes_by_limbs": key_bytes_by_limbs(params),
    }
    report["exactness"] = _exactness(params, report, trace)
    if not whole:
        return report
    totals = ("num_keys", "total_key_bytes", "total_key_coefficient_bytes")
    report["exactness"] |= dict.fromkeys(totals, "unknown")
    return bounded(report, whole, totals)


def _files(params: RlweParameters, keys: Sequence[str], form: KeyForm) -> dict[str, int]:
    """Bytes of the files that OpenFHE writes. It writes full keys only: other forms count coefficients alone."""
    sizes = {
        "rotation_key_bytes": serialized_key_bytes(params),
        "relinearization_key_bytes": serialized_key_bytes(params, relinearization=True),
        "ciphertext_bytes": serialized_ciphertext_bytes(params),
    }
    if form is KeyForm.FULL:
        names = ("relinearization_key_bytes" if key == RELIN_KEY else "rotation_key_bytes" for key in keys)
        sizes["total_key_bytes"] = sum(sizes[name] for name in names)
    return sizes


_DATA_FIELDS = frozenset({"ring_dim", "q_bits", "word_bits"})
_KEY_FIELDS = _DATA_FIELDS | {"p_bits", "dnum"}
_LEVEL_FIELDS = _KEY_FIELDS - {"word_bits"} | {"secret"}
# OpenFHE derives its primes from these.
_CHAIN_FIELDS = frozenset({"depth", "first_mod_bits", "scale_bits", "dnum", "scaling"})
_KEY_SIZES = ("rotation_key_bytes", "relinearization_key_bytes", "seeded_key_bytes", "total_key_bytes")
_DATA_SIZES = ("ciphertext_bytes", "plaintext_bytes")


def _exactness(params: RlweParameters, report: Row, trace: UsedKeys | None) -> dict[str, str]:
    """`exact`, `estimated` or `unknown` for each number of a report; the rows of `key_forms` get their own."""
    assumed = {name.replace("_primes", "_bits") for name in params.assumed}
    if params.library == "openfhe" and assumed & _CHAIN_FIELDS:
        assumed |= {"q_bits", "p_bits"}
    words = dict.fromkeys(_KEY_SIZES, "estimated" if assumed & _KEY_FIELDS else "exact")
    words |= dict.fromkeys(_DATA_SIZES, "estimated" if assumed & _DATA_FIELDS else "exact")
    words["security_bits"] = "estimated" if assumed & _LEVEL_FIELDS else "exact"
    words["num_keys"] = "estimated" if trace is not None and trace.has_modelled_keys() else "exact"
    if words["num_keys"] == "estimated":
        words["total_key_bytes"] = "estimated"
    by_form = dict.fromkeys(KeyForm, words["total_key_bytes"])
    if trace is not None and trace.has_modelled_key_limbs():
        by_form |= {form: "estimated" for form in KeyForm if form.is_truncated}
    words["total_key_bytes"] = by_form[KeyForm(report["key_form"])]
    for row in report["key_forms"] or ():
        row["exactness"] = by_form[KeyForm(row["key_form"])]
    for name in ("rotation_key", "relinearization_key", "ciphertext", "total_key"):
        words[f"{name}_coefficient_bytes"] = words[f"{name}_bytes"]
    return words
