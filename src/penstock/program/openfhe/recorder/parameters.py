"""The checked parameter set of a CryptoContext that a script made itself."""

from __future__ import annotations

import json
import math
from types import ModuleType

from penstock.errors import UsageError
from penstock.program.openfhe.evaluator import SCALING_NAMES
from penstock.program.openfhe.types import CryptoContext, Serialized
from penstock.scheme.params.ckks import CkksParameters
from penstock.scheme.params.primes import nominal_bits, openfhe_p_primes
from penstock.scheme.params.rlwe import KeyForm
from penstock.scheme.params.security import security_level

_SCALING = {name: scaling for scaling, name in SCALING_NAMES.items()}


class NotRecordable(UsageError):
    """A context of a kind that this version does not record."""


def context_parameters(cc: CryptoContext, fhe: ModuleType) -> CkksParameters:
    """The parameter set of `cc`: its real primes, digits and scaling rule.

    The context's own JSON serialization has what its methods do not tell: the primes of Q, the digits, the form of the
    secret. It leaves the special primes out; they follow from Q and the digits.

    Raises: NotRecordable: BGV or BFV, a composite scaling rule, BV key switching with digits inside a limb.
    Source: OpenFHE 1.6.1; checked in tests against the bytes of serialized keys.
    """
    scheme = cc.getSchemeId().name.removesuffix("_SCHEME").removesuffix("RNS")
    if scheme != "CKKS":
        raise NotRecordable(f"a {scheme} context is not recorded: this version records CKKS only")
    rns = _serialized(cc, fhe)
    rlwe, ring = rns["value0"], rns["value0"]["value0"]
    technique = fhe.ScalingTechnique(rns["rs"]).name
    if technique not in _SCALING:
        raise NotRecordable(
            f"a context with scaling technique {technique} is not recorded: this version records {', '.join(_SCALING)}"
        )
    ring_dim = cc.GetRingDimension()
    q = _primes(ring)
    dnum: int = rns["dnum"]
    p: tuple[int, ...] = ()
    if fhe.KeySwitchTechnique(rns["ks"]).name == "HYBRID":
        p = openfhe_p_primes(ring_dim, q, dnum)
    elif rlwe["rw"]:
        raise NotRecordable(
            f"a context with BV key switching and digits of {rlwe['rw']} bits is not recorded: use HYBRID, or digits "
            "of 0 bits (a whole limb)"
        )
    else:
        # BV switches keys limb by limb, without special primes: a key is the same size as this hybrid one.
        dnum = len(q)
    secret = fhe.SecretKeyDist(rlwe["mo"]).name.lower().replace("_", "-")
    asked = fhe.SecurityLevel(rlwe["slv"]).name
    security_bits, note = security_level(ring_dim, math.prod(q + p).bit_length(), secret)
    return CkksParameters(
        name=f"openfhe-n{ring_dim}-q{len(q)}",
        ring_dim=ring_dim,
        slots=cc.GetBatchSize(),
        q_bits=tuple(map(nominal_bits, q)),
        p_bits=tuple(map(nominal_bits, p)),
        dnum=dnum,
        scale_bits=_pointed(ring["enp"])["m"],
        scaling=_SCALING[technique],
        secret=secret,
        word_bits=rns["rws"],
        key_form=KeyForm.FULL,
        library="openfhe",
        security_bits=security_bits,
        security_note=note,
        security_asked=0 if asked == "HEStd_NotSet" else int(asked.split("_")[1]),
        source="the CryptoContext of the recorded script",
    )


def context_primes(cc: CryptoContext, fhe: ModuleType) -> tuple[int, ...]:
    """The primes of Q of a CKKS context, q_0 first."""
    return _primes(_serialized(cc, fhe)["value0"]["value0"])


def _serialized(cc: CryptoContext, fhe: ModuleType) -> Serialized:
    # Not the recorder's own function, which would ask for the recording of the context.
    written = getattr(fhe.Serialize, "__wrapped__", fhe.Serialize)(cc, fhe.JSON)
    return _pointed(_pointed(json.loads(written)["value0"])["cc"])["value0"]


def _primes(ring: Serialized) -> tuple[int, ...]:
    return tuple(_pointed(limb)["value0"]["cm"]["v"] for limb in _pointed(ring["elp"])["p"])


def _pointed(pointer: Serialized) -> Serialized:
    """What a serialized shared pointer points to."""
    return pointer["ptr_wrapper"]["data"]
