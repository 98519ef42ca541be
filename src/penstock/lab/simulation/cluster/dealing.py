"""Limbs dealt over hosts: the limbs and the work of each host under residue-polynomial-level parallelism (rPLP).

Limb j of Q lives at host j mod h for ever, and limb j of P at host j mod h, or, dealt from the other end, at host
h - 1 - (j mod h). So the busiest host holds ceil(n/h) + ceil(k/h) of n + k limbs, and nothing moves when limbs are
dropped. An operation is a few stages; between two stages hosts exchange limbs:

| operation | stages, each on the limbs that a host holds | exchanged in between |
|---|---|---|
| key switch | INTT of its limbs of Q | ModUp all-gather: the n limbs of one polynomial, as coefficients |
| | every digit converted to its limbs of Q and P, NTT, product with its limbs of the key, INTT of its limbs of P | |
| | | ModDown all-gather: the k limbs of P of two polynomials, 2k in all |
| | converted to its limbs of Q, NTT, subtract and scale | |
| decompose | the first two of these, without product | ModUp all-gather |
| hoisted rotation | the rest, on digits that are there: ModUp is shared | ModDown all-gather |
| ModDown | INTT of its limbs of P; converted to its limbs of Q, NTT, subtract and scale | ModDown all-gather |
| decompose over Q and P | ModDown of one polynomial, then as decompose | k limbs, then n limbs |
| rotation over Q and P | product of the digits with its limbs of the key | nothing |
| rescale | INTT of the last limb where it lives; its share of the rest | broadcast of one limb of each polynomial |
| ModRaise | INTT of its limbs; conversion to its new limbs, NTT | all-gather of the limbs of each polynomial |
| all others | everything | nothing |

Notation as in `kernels`: n limbs, k special limbs, b active digits of alpha_d limbs, N the ring dimension.
Source: rPLP as the storage-I/O study has it (section 3.2), after HEAX-style FPGAs (HPCA 2019) and F1 (MICRO 2021).
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import lru_cache
from operator import sub
from typing import Literal

import numpy as np

from penstock.base.system.kept import kept
from penstock.errors import PenstockError
from penstock.lab.simulation.cluster import dealt_stages as on_host
from penstock.lab.simulation.cluster.collectives import AllGather, Broadcast, Collective
from penstock.scheme.operations import TRAITS, OpKind
from penstock.scheme.params.ckks import CkksParameters
from penstock.scheme.params.rlwe import KeyForm
from penstock.scheme.work.kernel_work import AMOUNTS, KernelWork, Loops, add_loops, amounts_of
from penstock.scheme.work.kernels import digit_sizes, kernel_work
from penstock.scheme.work.shapes import Shape, shape_work

SpecialLimbs = Literal["same", "opposed"]
"""The end from which the limbs of P are dealt: Q's, or the other."""

KEY_PRODUCTS = frozenset(kind for kind, row in TRAITS.items() if row.key in ("relin", "rot", "conj", "to-dense"))
"""Kinds that multiply digits with a key over all of P."""
HOISTED = frozenset(kind for kind in KEY_PRODUCTS if "digits" in TRAITS[kind].takes)
"""Kinds that read digits."""
MOD_UPS = KEY_PRODUCTS - HOISTED | {kind for kind, row in TRAITS.items() if row.makes == "digits"}
"""Kinds that decompose a polynomial."""
MOD_DOWNS = frozenset(
    kind
    for kind, row in TRAITS.items()
    if row.makes == "ciphertext" and (kind in KEY_PRODUCTS or "extended" in row.takes)
)
"""Kinds that end with a ModDown of two polynomials."""
MOST_KEPT_BYTES = 64 * 2**20
"""Of what hosts hold that is kept, for each number of hosts and of limbs."""
MOST_KEPT = 8192
"""Shapes of operations whose work on hosts is kept."""
REPLICATED = frozenset({"digit_steps", "base_conversions", "mapped_indices"})
"""Work independent of limbs: calls, which every host makes on its own limbs, and the index map of an automorphism."""


@dataclass(frozen=True, slots=True)
class Dealing:
    """The places of the limbs."""

    hosts: int
    special: SpecialLimbs = "same"
    holders_only: bool = False
    """Whether hosts that hold no limb of an operation are left out of its exchanges."""

    def members(self, held: Sequence[int]) -> tuple[int, ...]:
        """The hosts that take part in an exchange, of which each holds so many limbs of the operation."""
        return tuple(host for host in range(self.hosts) if held[host] or not self.holders_only)

    def home(self, limb: int) -> int:
        """The host of a limb of Q."""
        return limb % self.hosts

    def held(self, limbs: int) -> list[int]:
        """(hosts,) limbs of Q below `limbs` at each host."""
        fewest, more = divmod(limbs, self.hosts)
        return [fewest + 1] * more + [fewest] * (self.hosts - more)

    def held_special(self, limbs: int) -> list[int]:
        """(hosts,) limbs of P at each host."""
        held = self.held(limbs)
        return held if self.special == "same" else held[::-1]


def dealt_count(limbs: int, hosts: int, host: int) -> int:
    """Limbs j < `limbs` with j mod hosts = host."""
    return max(0, (limbs - host + hosts - 1) // hosts)


@kept(MOST_KEPT_BYTES)
def holdings(params: CkksParameters, limbs: int, dealing: Dealing) -> tuple[on_host.Holding, ...]:
    """(hosts,) limbs of each host out of this many."""
    hosts = dealing.hosts
    ends = np.cumsum([0, *digit_sizes(params, limbs)])
    # As `dealt_count`, of every host and digit.
    below = np.maximum(0, (ends - np.arange(hosts)[:, None] + hosts - 1) // hosts)
    rows = np.diff(below).tolist()
    special = dealing.held_special(params.num_p)
    return tuple(on_host.Holding(tuple(digits), special[host]) for host, digits in enumerate(rows))


@kept(MOST_KEPT_BYTES)
def busiest(params: CkksParameters, limbs: int, dealing: Dealing) -> tuple[on_host.Holding, ...]:
    """The holdings that no other one exceeds in every respect; most often it is one."""
    others = limbs - np.asarray(digit_sizes(params, limbs), dtype=np.int64)
    all_holdings = holdings(params, limbs, dealing)
    macs = (np.asarray([holding.digits for holding in all_holdings], dtype=np.int64) @ others).tolist()
    best: dict[tuple[int, int, int], on_host.Holding] = {}
    for holding, work in zip(all_holdings, macs, strict=True):
        best.setdefault((holding.own, holding.special, work), holding)
    return tuple(
        holding
        for mine, holding in best.items()
        if not any(other != mine and all(a >= b for a, b in zip(other, mine, strict=True)) for other in best)
    )


# An operation on all hosts -----------------------------------------------------------------------------------------
class DealtOperation:
    """One operation, dealt: its stages on each host, and what hosts exchange in between."""

    def __init__(self, shape: Shape, params: CkksParameters, dealing: Dealing, key_form: KeyForm | None = None) -> None:
        self.shape, self.params, self.dealing, self.key_form = shape, params, dealing, key_form
        self.kind = OpKind(shape.kind)
        self._above = min(shape.limbs_in + 1, params.num_q)
        own = range(shape.limbs_in, shape.limbs_out, -1) if self.kind is OpKind.RESCALE else ()
        self.rescaled = [(self._above, 2)] * shape.implied_rescales + [(limbs, shape.polynomials) for limbs in own]
        """(limbs before, polynomials) of each rescale in it, implied ones first."""

    def stages(self, host: int) -> list[KernelWork]:
        """The work of one host in each stage; element-wise work, which fits any stage, comes last."""
        return [*self.named(host), self._share(host)]

    def path(self) -> KernelWork:
        """The work that its time is made of: in every stage, the most of each kernel that any host has.

        One host most often has the most of all of them; where none does, this is a little more than the busiest has.
        """
        dealing = self.dealing
        if dealing.hosts == 1:
            return shape_work(self.shape, self.params, self.key_form)
        return _path(self.shape, self.params, Dealing(dealing.hosts, dealing.special), self.key_form)

    def longest(self) -> KernelWork:
        """As `path`, of several hosts, worked out anew."""
        dealing, limbs = self.dealing, self.shape.limbs_in
        where = holdings(self.params, limbs, dealing)
        # Host 0 has the most limbs of Q; a dropped limb has one home; the first new limb of ModRaise has another.
        hosts = {0, limbs % dealing.hosts, *(where.index(held) for held in busiest(self.params, limbs, dealing))}
        hosts |= {dealing.home(before - 1) for before, _ in self.rescaled}
        rows = [self.stages(host) for host in sorted(hosts)]
        return sum((most(works) for works in zip(*rows, strict=True)), KernelWork())

    def exchanged(self) -> tuple[Collective, ...]:
        """What hosts exchange, in order."""
        params, limbs, dealing, kind = self.params, self.shape.limbs_in, self.dealing, self.kind
        if dealing.hosts == 1:
            return ()
        one, special = params.polynomial_bytes(1), dealing.held_special(params.num_p)
        of_q, of_raised = dealing.held(limbs), dealing.held(self.shape.limbs_out)
        of_both = [q + p for q, p in zip(of_q, special, strict=True)]

        def gather(held: Sequence[int], needed_by: Sequence[int], polynomials: int) -> Collective:
            members = dealing.members([own + need for own, need in zip(held, needed_by, strict=True)])
            receivers = dealing.members(needed_by)
            blocks = tuple(polynomials * held[host] * one for host in members)
            return AllGather(members, blocks, None if receivers == members else receivers)

        collectives: list[Collective] = [
            Broadcast(dealing.members(dealing.held(before)), dealing.home(before - 1), polynomials * one)
            for before, polynomials in self.rescaled
        ]
        if kind is OpKind.DECOMPOSE_EXTENDED:
            collectives.append(gather(special, of_q, 1))
        if kind in MOD_UPS:
            collectives.append(gather(of_q, of_both, 1))
        if kind in MOD_DOWNS:
            collectives.append(gather(special, of_q, 2))
        if kind is OpKind.MOD_RAISE:
            collectives.append(gather(of_q, of_raised, self.shape.polynomials))
        return tuple(collectives)

    def named(self, host: int) -> list[KernelWork]:
        """The stages of key switching, rescaling and ModRaise on one host."""
        params, limbs, kind, dealing = self.params, self.shape.limbs_in, self.kind, self.dealing
        held = holdings(params, limbs, dealing)[host]
        stages = []
        if self.shape.implied_scalar_mults:
            own = dealt_count(self._above, dealing.hosts, host)
            stages.append(on_host.scalar_products(params, own, 2 * self.shape.implied_scalar_mults))
        for before, polynomials in self.rescaled:
            stages.append(on_host.last_limb(params, polynomials) if dealing.home(before - 1) == host else KernelWork())
            stages.append(on_host.after_last_limb(params, dealt_count(before - 1, dealing.hosts, host), polynomials))
        if kind is OpKind.TO_SPARSE:  # one limb, and so one host
            switch = kernel_work(kind, params, limbs, key_form=self.key_form)
            whole = replace(switch, digit_steps=0, base_conversions=0)
            stages.append(whole if dealing.home(0) == host else KernelWork())
        if kind is OpKind.DECOMPOSE_EXTENDED:
            stages += [on_host.before_mod_down(params, held, 1), on_host.after_mod_down(params, held, 1)]
        if kind in MOD_UPS:
            stages += [on_host.before_mod_up(params, limbs, held), on_host.after_mod_up(params, limbs, held)]
        if kind in (OpKind.DECOMPOSE, OpKind.DECOMPOSE_EXTENDED):
            stages[-1] += on_host.hoisted_digits(params, held, written=True)
        if kind in HOISTED:
            stages.append(on_host.hoisted_digits(params, held, written=False))
        if kind in (OpKind.EXTEND, OpKind.ROTATE_HOISTED_EXTENDED):
            stages.append(on_host.scalar_products(params, held.own, 2 if kind is OpKind.EXTEND else 1))
        if kind in KEY_PRODUCTS:
            stages[-1] += on_host.key_product(params, limbs, held, self.key_form)
        if kind in MOD_DOWNS:
            after_product = stages.pop() if kind in KEY_PRODUCTS else KernelWork()
            stages += [after_product + on_host.before_mod_down(params, held), on_host.after_mod_down(params, held)]
        if kind is OpKind.MOD_RAISE:
            new = dealt_count(self.shape.limbs_out, dealing.hosts, host) - held.own
            stages += on_host.raised(params, limbs, held.own, new, self.shape.polynomials)
        return stages

    def _share(self, host: int) -> KernelWork:
        """A host's share of the element-wise work, in proportion to the limbs of Q, or of Q and P."""
        rest = _rest(self.shape, self.params, self.key_form)
        hosts, special = self.dealing.hosts, self.params.num_p
        limbs = dict.fromkeys(AMOUNTS, self.shape.limbs_in)
        # Amounts that grow with the limbs of both Q and P.
        read, row = {"ciphertext_read_bytes"}, TRAITS[self.kind]
        wide = set(AMOUNTS) - read if row.makes == "extended" else set()
        wide |= read if "extended" in row.takes else set()
        own_special = self.dealing.held_special(special)[host]
        if self.kind in (OpKind.RESCALE, OpKind.MOD_RAISE):
            limbs["ciphertext_write_bytes"] = self.shape.limbs_out
        share = {
            name: value
            if name in REPLICATED
            else value
            * (dealt_count(limbs[name], hosts, host) + own_special * (name in wide))
            // (limbs[name] + special * (name in wide))
            for name in AMOUNTS
            if (value := getattr(rest, name))
        }

        def dealt(loops: Loops) -> Loops:
            both = self.shape.limbs_in + special if wide else None
            own = {width: dealt_count(width, hosts, host) for width, _ in loops}
            if both in own:
                own[both] = dealt_count(self.shape.limbs_in, hosts, host) + own_special
            return add_loops(*(((own[width], count),) for width, count in loops))

        return KernelWork(
            ring_dim=rest.ring_dim,
            transform_loops=dealt(rest.transform_loops),
            element_loops=dealt(rest.element_loops),
            **share,
        )


@lru_cache(maxsize=MOST_KEPT)
def _rest(shape: Shape, params: CkksParameters, key_form: KeyForm | None) -> KernelWork:
    """The element-wise work of an operation: what its named stages leave of it."""
    alone = DealtOperation(shape, params, Dealing(1), key_form)
    return difference(shape_work(shape, params, key_form), sum(alone.named(0), KernelWork()), shape)


@lru_cache(maxsize=MOST_KEPT)
def _path(shape: Shape, params: CkksParameters, dealing: Dealing, key_form: KeyForm | None) -> KernelWork:
    """Of several hosts. Which of them take part in an exchange changes no work, so all kinds of exchange share it."""
    return DealtOperation(shape, params, dealing, key_form).longest()


def most(works: Sequence[KernelWork]) -> KernelWork:
    """The maximum of each kernel over these works; loops come from the work with the most transforms."""
    if len(works) == 1:
        return works[0]
    first = max(works, key=lambda work: (work.limb_transforms, work.elementwise_mults))
    amounts = dict(zip(AMOUNTS, map(max, *map(amounts_of, works)), strict=True))
    return replace(first, ring_dim=max(work.ring_dim for work in works), **amounts)


def difference(whole: KernelWork, part: KernelWork, shape: Shape) -> KernelWork:
    """The work of `whole` beyond `part`.

    Raises: PenstockError: the part has more of a kernel than the whole.
    """
    amounts = dict(zip(AMOUNTS, map(sub, amounts_of(whole), amounts_of(part)), strict=True))
    short = [name for name, value in amounts.items() if value < 0]
    if short:
        raise PenstockError(
            f"'{shape.kind}' at {shape.limbs_in} limbs: its stages on hosts have more {short[0]} than the whole "
            "operation; a defect of penstock, please report it"
        )
    return KernelWork(
        ring_dim=whole.ring_dim,
        transform_loops=_fewer(whole.transform_loops, part.transform_loops),
        element_loops=_fewer(whole.element_loops, part.element_loops),
        **amounts,
    )


def _fewer(whole: Loops, part: Loops) -> Loops:
    taken = dict(part)
    return tuple((width, count - taken.get(width, 0)) for width, count in whole if count > taken.get(width, 0))
