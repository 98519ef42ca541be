"""Parameter sets near another one: the same set with another ring dimension, depth, digits, scale or security."""

from __future__ import annotations

from functools import lru_cache

from penstock.base.types import Row
from penstock.errors import ParamsError
from penstock.scheme.params.ckks import CkksParameters
from penstock.scheme.params.primes import MAX_PRIME_BITS
from penstock.scheme.params.spec import CkksSpec, spec_of


@lru_cache(maxsize=4096)
def varied(
    base: CkksParameters,
    *,
    ring_dim: int | None = None,
    depth: int | None = None,
    dnum: int | None = None,
    security: int | None = None,
    scale_bits: int | None = None,
) -> CkksParameters:
    """`base` with replacements for values other than `None`, checked as any other set; `security` 0 requires none.

    With another scale the first prime stays as much wider than it, as far as a word holds it. A set that packs all
    slots still does. An accelerator's chain grows by primes of the scale's size or shrinks from the top, and has as
    many special primes as its longest digit needs. With another ring or chain, it states sizes alone.
    Raises: ParamsError: the set breaks a rule, or has fewer slots than `base` needs.
    """
    changes: Row = {}
    names = [base.name]
    if ring_dim is not None and ring_dim != base.ring_dim:
        full = base.slots == base.ring_dim // 2
        changes |= {"ring_dim": ring_dim, "slots": max(1, ring_dim // 2) if full else base.slots}
        names.append(f"n{ring_dim.bit_length() - 1}")
    if depth is not None and depth != base.depth:
        changes["depth"] = depth
        names.append(f"d{depth}")
    if dnum is not None and dnum != base.dnum:
        changes["dnum"] = dnum
        names.append(f"k{dnum}")
    if security is not None and security != base.security_asked:
        changes["security"] = security or "none"
        names.append(f"s{security}")
    if scale_bits is not None and scale_bits != base.scale_bits:
        if base.library == "accelerator":
            raise ParamsError(
                f"parameter set '{base.name}': an accelerator's primes are those of its words; another scale is for "
                "OpenFHE's sets"
            )
        wider = (base.first_mod_bits or base.q_bits[0]) - base.scale_bits
        changes |= {
            "scale_bits": scale_bits,
            "first_mod_bits": max(scale_bits, min(scale_bits + wider, MAX_PRIME_BITS)),
        }
        names.append(f"b{scale_bits}")
    if not changes:
        return base
    spec = spec_of(base)
    if base.library == "accelerator":
        if base.q_primes and changes.keys() & {"ring_dim", "depth", "dnum"}:
            changes |= {"q_primes": None, "p_primes": None, "q_bits": base.q_bits, "p_bits": base.p_bits}
        changes |= _chain(base, changes.pop("depth", None), dnum)
    return CkksSpec(**{**spec.model_dump(), **changes, "name": "-".join(names)}).build()


def _chain(base: CkksParameters, depth: int | None, dnum: int | None) -> dict[str, tuple[int, ...]]:
    q = base.q_bits
    if depth is not None:
        num_q = depth + 1 + (base.num_q - 1 - base.depth)
        if num_q < 1:
            raise ParamsError(f"parameter set '{base.name}': depth {depth} leaves no limb; use 0 or more")
        q = q[:num_q] + (q[-1],) * (num_q - len(q))
    if depth is None and dnum is None:
        return {}
    digit = -(-len(q) // (dnum or base.dnum))
    longest = max(sum(q[i : i + digit]) for i in range(0, len(q), digit))
    special = base.p_bits[0]
    return {"q_bits": q, "p_bits": (special,) * -(-longest // special)}
