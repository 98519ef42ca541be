"""Counted operations as arrays, for repeated pricing in what-if studies."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass, replace

import numpy as np
import numpy.typing as npt

from penstock.base.arrays import Floats, Ints
from penstock.lab.prediction.batch import WorkBatch
from penstock.lab.prediction.energy import part_energies, work_joules
from penstock.program.evaluator.tally import Tally
from penstock.scheme.machines.client import ENCODE, task_work
from penstock.scheme.machines.cold import operand_bytes
from penstock.scheme.operations import TRAITS, OpKind
from penstock.scheme.params.ckks import CkksParameters
from penstock.scheme.params.rlwe import KeyForm
from penstock.scheme.unpriced import added
from penstock.scheme.work.shapes import Shape, shape_work


@dataclass(frozen=True, slots=True, kw_only=True)
class Counted:
    """Counts with their kernel work."""

    params: CkksParameters
    shapes: tuple[Shape, ...]
    counts: Floats
    """(n,)"""
    batch: WorkBatch
    """Kernel work of one of each."""
    client: npt.NDArray[np.bool_]
    """(n,) whether the client runs it."""
    key_bytes: Floats
    """(n,) that one of each reads."""
    operand_bytes: Floats
    """(n,) of operands, plaintexts and keys that one of each reads."""
    parts_j: Floats
    """(n,) joules of one of each by published energies."""
    limbs_in: Floats
    """(n,) limbs of the operands."""
    kind_names: tuple[str, ...]
    kind: Ints
    """(n,) index into `kind_names`."""
    unpriced: Mapping[str, int]
    """Composites without an expansion, and how often they occur."""
    calls: Mapping[str, int] | None
    """Kind -> calls of the library by the server, a composite one call. `None`: these are single operations that find
    their data in the caches, and no program."""
    encodings: Mapping[int, int]
    """Limbs -> vectors that a program encodes, including the encrypted ones."""
    encrypted: Mapping[int, int]
    """The encrypted ones of these."""
    encoding_batch: WorkBatch
    """Kernel work of one encoding at each number of limbs, in the order of `encodings`."""

    @classmethod
    def of(
        cls,
        counts: Mapping[Shape, int],
        params: CkksParameters,
        key_form: KeyForm | None = None,
        *,
        calls: Mapping[str, int] | None = None,
        encodings: Mapping[int, int] | None = None,
    ) -> Counted:
        """Args:   calls: of a program, kind -> calls of the library; encodings: limbs -> plaintexts that it encodes.
        Raises: UsageError: limbs that the parameter set does not have.
        """
        unpriced = Counter[str]()
        shapes = []
        for shape, count in counts.items():
            if count and TRAITS[OpKind(shape.kind)].composite:
                unpriced[shape.kind] += count
            elif count:
                shapes.append(shape)
        names = tuple(dict.fromkeys(shape.kind for shape in shapes))
        works = [shape_work(shape, params, key_form) for shape in shapes]
        table = part_energies()
        encrypted = Counter[int]()
        for shape in shapes if calls is not None else ():
            if shape.kind == OpKind.ENCRYPT.value:
                encrypted[shape.limbs_out] += counts[shape]
        stated = encodings or {}
        encoded = {limbs: stated.get(limbs, 0) + encrypted[limbs] for limbs in (*stated, *encrypted)}
        return cls(
            params=params,
            shapes=tuple(shapes),
            counts=np.asarray([counts[shape] for shape in shapes], dtype=np.float64),
            batch=WorkBatch.of(works),
            key_bytes=np.asarray([work.key_bytes for work in works], dtype=np.float64),
            operand_bytes=np.asarray([operand_bytes(work) for work in works], dtype=np.float64),
            parts_j=np.asarray([work_joules(work, params.word_bits, table) for work in works], dtype=np.float64),
            client=np.asarray([TRAITS[OpKind(shape.kind)].client for shape in shapes], dtype=bool),
            limbs_in=np.asarray([shape.limbs_in for shape in shapes], dtype=np.float64),
            kind_names=names,
            kind=np.asarray([names.index(shape.kind) for shape in shapes], dtype=np.int64),
            unpriced=unpriced,
            calls=None if calls is None else {k: n for k, n in calls.items() if not TRAITS[OpKind(k)].client},
            encodings=encoded,
            encrypted=encrypted,
            encoding_batch=WorkBatch.of([task_work(ENCODE, params, limbs) for limbs in encoded]),
        )

    @classmethod
    def of_tally(cls, tally: Tally, key_form: KeyForm | None = None) -> Counted:
        """A program. Raises: UsageError: limbs that the parameter set does not have."""
        counted = cls.of(tally.counts, tally.params, key_form, calls=tally.calls, encodings=tally.encodings)
        return replace(counted, unpriced=added([counted.unpriced, tally.left_out])) if tally.left_out else counted

    @property
    def served(self) -> Floats:
        """(n,) how often the server runs each."""
        return np.where(self.client, 0.0, self.counts)

    @property
    def limbs(self) -> tuple[int, int] | None:
        """Fewest and most limbs of an operation."""
        limbs = [shape.limbs_in for shape in self.shapes]
        return (min(limbs), max(limbs)) if limbs else None

    def own_calls(self) -> Floats:
        """(n,) calls of the library that are operations of each shape; calls of a kind are divided among its shapes by
        their counts."""
        assert self.calls is not None
        of_kind = np.bincount(self.kind, self.served, minlength=len(self.kind_names))
        called = np.asarray([self.calls.get(name, 0) for name in self.kind_names], dtype=np.float64)
        share = np.divide(called, of_kind, out=np.zeros(len(called)), where=of_kind > 0)
        return np.asarray(self.served * share[self.kind] if len(share) else np.zeros(0), dtype=np.float64)

    def client_calls(self) -> dict[str, int]:
        """Kind -> calls of encryption and decryption."""
        calls = {OpKind.ENCRYPT.value: 0, OpKind.DECRYPT.value: 0}
        for shape, count in zip(self.shapes, self.counts.tolist(), strict=True):
            if shape.kind in calls:
                calls[shape.kind] += round(count)
        return calls

    def composite_calls(self) -> dict[str, int]:
        """Kind -> calls of composites: their operations are in the shapes, the calls themselves are not."""
        return {kind: n for kind, n in (self.calls or {}).items() if n and TRAITS[OpKind(kind)].composite}
