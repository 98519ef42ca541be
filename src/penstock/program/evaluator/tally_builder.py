"""Has the interface of a trace builder, and keeps counts and lifetimes instead of rows."""

from __future__ import annotations

from collections.abc import Sequence

from penstock.errors import PenstockError
from penstock.scheme.operations import OpKind
from penstock.scheme.params.ckks import CkksParameters
from penstock.scheme.traces.builder import TraceBuilder
from penstock.scheme.traces.schema import ORIGIN_COMPOSITE, Trace, TraceMeta
from penstock.scheme.work.shapes import Shape


class TallyBuilder(TraceBuilder):
    """Counts by shape, keys, and the steps between which each object is alive. An operation is a step."""

    def __init__(self, params: CkksParameters) -> None:
        super().__init__(params)
        self.counts: dict[Shape, int] = {}
        self.keys: dict[str, int] = {}
        """Key id -> most limbs at which it was used."""
        self.first: list[int] = []
        """Step at which each object appears, by id."""
        self.last: list[int] = []
        self.size: list[int] = []
        self.three: set[int] = set()
        """Ciphertexts of three polynomials."""
        self.small_polynomials: dict[int, int] = {}
        """Object id of ciphertexts of the small ring -> their polynomials."""
        self.digit_limbs: dict[int, int] = {}
        """Object id of each digit decomposition -> limbs of its ciphertext."""
        self.extended_limbs: dict[int, int] = {}
        """Object id of each ciphertext over Q and P -> its limbs of Q."""
        self.plaintexts: dict[int, tuple[str | None, int]] = {}
        """Object id of each plaintext -> name and limbs."""
        self.step = 0
        self.shape: Shape | None = None
        """Of the last operation."""

    def add_object(self, cls: str, limbs: int, num_bytes: int, name: str | None = None) -> int:
        object_id = len(self.first)
        self.first.append(self.step)
        self.last.append(self.step)
        self.size.append(num_bytes)
        if cls == "plaintext":
            self.plaintexts[object_id] = (name, limbs)
        return object_id

    def ciphertext(self, limbs: int, polynomials: int = 2, name: str | None = None) -> int:
        object_id = super().ciphertext(limbs, polynomials, name)
        if polynomials == 3:
            self.three.add(object_id)
        return object_id

    def small(self, polynomials: int, name: str | None = None) -> int:
        object_id = super().small(polynomials, name)
        self.small_polynomials[object_id] = polynomials
        return object_id

    def digits(self, limbs: int) -> int:
        object_id = super().digits(limbs)
        self.digit_limbs[object_id] = limbs
        return object_id

    def extended(self, limbs: int) -> int:
        object_id = super().extended(limbs)
        self.extended_limbs[object_id] = limbs
        return object_id

    def sizes(self, params: CkksParameters) -> list[int]:
        """Bytes of every object at `params`, whose number of digits may differ from that of the counting."""
        size = list(self.size)
        for object_id, limbs in self.digit_limbs.items():
            size[object_id] = params.active_digits(limbs) * params.polynomial_bytes(limbs + params.num_p)
        for object_id, limbs in self.extended_limbs.items():
            size[object_id] = params.ciphertext_bytes(limbs + params.num_p, 2)
        return size

    def add(
        self,
        kind: OpKind,
        *,
        limbs_in: int,
        limbs_out: int,
        operands: Sequence[int] = (),
        output: int | None,
        key: str | None = None,
        plaintext: int | None = None,
        step: int | None = None,
        implied_rescales: int = 0,
        implied_scalar_mults: int = 0,
        origin: str | None = None,
        start_s: float | None = None,
        end_s: float | None = None,
    ) -> int:
        if origin == ORIGIN_COMPOSITE:  # its expansion was counted
            return self.step
        polynomials = 3 if self.three and not self.three.isdisjoint(operands) else 2
        if self.small_polynomials:
            polynomials = sum(self.small_polynomials.get(operand, 0) for operand in operands) or polynomials
        self.shape = shape = Shape(kind.value, limbs_in, limbs_out, implied_rescales, implied_scalar_mults, polynomials)
        self.counts[shape] = self.counts.get(shape, 0) + 1
        if key is not None and self.keys.get(key, 0) < limbs_in:
            self.keys[key] = limbs_in
        for object_id in (*operands, output, plaintext):
            if object_id is not None:
                self.last[object_id] = self.step
        self.step += 1
        return self.step

    def finish(self, meta: TraceMeta) -> Trace:
        raise PenstockError("the counting reading keeps no rows: read the program with the trace reading for a trace")
