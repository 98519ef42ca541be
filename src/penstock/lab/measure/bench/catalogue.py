"""The primitives that can be measured: names, inputs, and numbers of limbs."""

from __future__ import annotations

from dataclasses import dataclass, replace

from penstock.base.system import toml
from penstock.base.types import Row
from penstock.scheme.operations import OpKind
from penstock.scheme.params.ckks import CkksParameters

WARM_AND_COLD = ("warm", "cold")


@dataclass(frozen=True, slots=True, kw_only=True)
class Primitive:
    """One row of the list."""

    name: str
    kind: OpKind | None
    """Its kind in traces; `None` where traces have none (encode, key load)."""
    call: str
    """Its name in OpenFHE."""
    operands: tuple[str, ...] = ("a",)
    """Of the evaluator's call, in the words of `penstock.lab.measure.bench.primitives`."""
    library: tuple[str, ...] = ()
    """Of the library's call, where they are others."""
    lowest: int = 1
    """Fewest limbs of its operand."""
    conditions: tuple[str, ...] = WARM_AND_COLD
    one_level: bool = False
    """Measured at one number of limbs only."""
    uses_degree: bool = False
    relinearizes: bool = False
    rotates: bool = False
    records: str | None = None
    """The primitive whose call is recorded; the timing is the record's part of it."""

    def limbs(self, params: CkksParameters, degree: int) -> tuple[int, int]:
        """Fewest and most limbs of its operand at `params`; `degree` belongs to a Chebyshev series."""
        if self.name == "bootstrap":
            return 2, 2
        if self.uses_degree:
            return chebyshev_depth(degree) + 1, params.num_q
        return self.lowest, params.num_q

    def not_native(self, params: CkksParameters, limbs: int | None, across: int, condition: str) -> str | None:
        """Why the native reading does not time it so, or `None`."""
        if self.name == "key_load" or condition == "cold-keys":
            return "a native run reads keys by rows from its store, which 'penstock keys bench' times"
        if across > 1:
            return "native operations are timed one at a time; take --reading openfhe"
        if self.name == "encrypt" and limbs != params.num_q:
            return "the client of a native run encrypts with all limbs"
        return None

    def unsuitable(self, params: CkksParameters) -> str | None:
        """Why it is not measured at sets such as `params`, however many limbs they have, or `None`."""
        if self.name == "bootstrap":
            if params.bootstrap is None:
                return "the set has no bootstrap plan"
            if not params.scaling.automatic:
                return "OpenFHE's bootstrapping is imprecise with fixed-manual scaling; take flexible-auto"
        if self.name == "rescale" and params.scaling.automatic:
            return f"with {params.scaling} scaling OpenFHE's Rescale does nothing; take fixed-manual"
        return None


def chebyshev_depth(degree: int) -> int:
    """Limbs that OpenFHE's EvalChebyshevSeries consumes, the scaling of the range to [-1, 1] included.

    Source: the table in OpenFHE's FUNCTION_EVALUATION.md (Paterson-Stockmeyer above degree 4).
    >>> [chebyshev_depth(d) for d in (5, 6, 13, 14, 27, 28, 59, 60)]
    [4, 5, 5, 6, 6, 7, 7, 8]
    """
    for bound, depth in ((5, 4), (13, 5), (27, 6), (59, 7), (119, 8), (247, 9)):
        if degree <= bound:
            return depth
    return depth + (degree // bound).bit_length()


def _listed(name: str, row: Row) -> Primitive:
    kind = row.pop("kind", None)
    lists = {key: tuple(value) for key, value in row.items() if isinstance(value, list)}
    return Primitive(name=name, kind=kind and OpKind(kind), **(row | lists))


_WRITTEN = toml.packaged("penstock.lab.measure.bench", "primitives.toml")
PRIMITIVES: dict[str, Primitive] = {name: _listed(name, row) for name, row in _WRITTEN["primitives"].items()}
"""All that `primitives.toml` lists, cheap ones first. Then some of them as a recorded program calls them, which "all"
leaves out."""
for _base in [PRIMITIVES[name] for name in _WRITTEN["recorded"]]:
    _name, _call = f"recorded_{_base.name}", f"{_base.call}, recorded"
    PRIMITIVES[_name] = replace(_base, name=_name, kind=None, call=_call, records=_base.name, conditions=WARM_AND_COLD)
