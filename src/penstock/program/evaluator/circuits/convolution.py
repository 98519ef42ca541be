"""Convolutional layers on one ciphertext that holds all channels, one after the other.

Slot `c * grid^2 + y * grid + x` holds pixel (y, x) of channel c; the whole is repeated until the slots are full, so
that rotations are cyclic in the channels. After a pool without compaction the pixels stand `gap` apart.
The products of a convolution are summed by Horner's rule in the channels: one rotation key for all of them.

Source: the packing of Rovida & Leporati, "Encrypted image classification with low memory footprint using fully
homomorphic encryption" (ePrint 2024/460); diagonals as in Juvekar et al., USENIX Security 2018 (GAZELLE).
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from functools import partial, reduce

import numpy as np
import numpy.typing as npt

from penstock.base.arrays import Floats
from penstock.errors import ParamsError
from penstock.program.evaluator.circuits.sums import fold
from penstock.program.evaluator.protocol import Ciphertext, Evaluator, Plain

SHIFTS = tuple((dy, dx) for dy in (-1, 0, 1) for dx in (-1, 0, 1))
COMPACT_LEVELS = 3
"""Levels that `compact` takes."""


@dataclass(frozen=True, slots=True)
class ImageLayout:
    """The places of the pixels of each channel.

    >>> ImageLayout(channels=16, side=32, slots=2**14).copies
    1
    """

    channels: int
    side: int
    """Pixels of a row."""
    slots: int
    gap: int = 1
    """Slots between neighbouring pixels, and rows between neighbouring rows."""

    @property
    def grid(self) -> int:
        """Slots of a row."""
        return self.side * self.gap

    @property
    def block(self) -> int:
        """Slots of a channel."""
        return self.grid**2

    @property
    def period(self) -> int:
        """Slots of all channels."""
        return self.channels * self.block

    @property
    def copies(self) -> int:
        """The number of copies of the channels.

        Raises: ParamsError: they do not fit, or not a whole number of times.
        """
        if self.slots % self.period:
            raise ParamsError(
                f"{self.channels} channels of {self.grid} x {self.grid} slots take {self.period} slots, and the set "
                f"has {self.slots}: take one with {self.period} slots or a multiple"
            )
        return self.slots // self.period

    def vector(self, values: Floats) -> Floats:
        """Slots that hold `values`, (channels, side, side), or (channels, 1, 1) for all pixels, in each copy."""
        grid = np.zeros((self.channels, self.grid, self.grid))
        grid[:, :: self.gap, :: self.gap] = values
        return np.tile(grid.reshape(-1), self.copies)

    def read(self, slots: Floats) -> Floats:
        """The values (channels, side, side) of the first copy."""
        grid = slots[: self.period].reshape(self.channels, self.grid, self.grid)
        return grid[:, :: self.gap, :: self.gap]


def horner(ev: Evaluator, terms: Iterable[Ciphertext], step: int) -> Ciphertext:
    """Sum of rotate(term_k, k * step), terms from the last to the first: every rotation uses one key."""
    return reduce(lambda total, term: ev.add(ev.rotate(total, step), term), terms)


def neighbours(ev: Evaluator, a: Ciphertext, layout: ImageLayout) -> list[Ciphertext]:
    """The nine shifts of an image by one pixel, in the order of `SHIFTS`; hoisted."""
    return ev.rotate_many(settled(ev, a), [layout.gap * (dy * layout.grid + dx) for dy, dx in SHIFTS])


def settled(ev: Evaluator, a: Ciphertext) -> Ciphertext:
    """`a` as a factor of several products: under an automatic rule, rescaled once and not in each of them."""
    return ev.mod_drop(a, ev.levels(a) + 1)


def inside(side: int, dy: int, dx: int) -> npt.NDArray[np.bool_]:
    """Pixels (side, side) whose neighbour at (dy, dx) is in the image."""
    at = np.arange(side)
    rows, columns = ((at + d >= 0) & (at + d < side) for d in (dy, dx))
    return rows[:, None] & columns[None, :]


def convolve(
    ev: Evaluator, shifted: list[Ciphertext], layout: ImageLayout, weight: Floats, stride: int = 1
) -> Ciphertext:
    """3 x 3 convolution with as many outputs as the layout has channels; a product, not rescaled.

    Args:   shifted: `neighbours` of the input; weight: (channels, channels, 3, 3), outputs first; stride: 2 leaves
            every second pixel of every second row and zeros between.
    """
    side, channels = layout.side, layout.channels
    kept = np.zeros((side, side), dtype=bool)
    kept[::stride, ::stride] = True
    masks = [(kept & inside(side, dy, dx)).astype(np.float64) for dy, dx in SHIFTS]
    channel = np.arange(channels)

    def taps(k: int, shift: int) -> Floats:
        # Channel c holds the part of output c - k that comes from input c; the rotation by k channels brings it home.
        dy, dx = SHIFTS[shift]
        taken = weight[(channel - k) % channels, channel, dy + 1, dx + 1]
        return layout.vector(taken[:, None, None] * masks[shift])

    def diagonal(k: int) -> Ciphertext:
        return ev.weighted_sum(shifted, [partial(taps, k, shift) for shift in range(len(shifted))])

    return horner(ev, (diagonal(k) for k in reversed(range(channels))), layout.block)


def biases(ev: Evaluator, layout: ImageLayout, bias: Floats) -> Plain:
    """A bias a channel, on every pixel."""
    return ev.encode(layout.vector(np.broadcast_to(bias[:, None, None], (len(bias), 1, 1))))


def compact(
    ev: Evaluator, even: Ciphertext, odd: Ciphertext | None, layout: ImageLayout, factor: float = 1.0
) -> Ciphertext:
    """Every second pixel of every second row, as an image of twice the channels and half the side; not rescaled.

    Channel 2c of the result is channel c of `even`, channel 2c + 1 is channel c of `odd`. Other pixels of `odd` must be
    zero (all zeros if `odd` is omitted). Columns, rows, then channels move together, with a mask and a rotation each;
    the masks carry `factor`. Takes `COMPACT_LEVELS` levels, the last one without its rescale.
    """
    side, channels, slots = layout.side, layout.channels, layout.slots
    half, block = side // 2, layout.block
    out = ImageLayout(2 * channels, half, slots)
    # The odd channels wait in the odd rows.
    a = settled(ev, even if odd is None else ev.add(even, ev.rotate(odd, -side)))
    rows = slice(None, None, 2 if odd is None else 1)

    def column_mask(u: int) -> Floats:
        mask = np.zeros((channels, side, side))
        mask[:, rows, 2 * u] = factor
        return layout.vector(mask)

    def columns(u: int) -> Ciphertext:
        return ev.mult(a, ev.encode(partial(column_mask, u)))

    with ev.scope("columns"):
        a = settled(ev, ev.rescale(horner(ev, (columns(u) for u in reversed(range(half))), 1)))

    def row_mask(v: int, parity: int) -> Floats:
        mask = np.zeros((channels, side, side))
        mask[:, 2 * v + parity, :half] = 1.0
        return layout.vector(mask)

    def row(v: int, parity: int) -> Ciphertext:
        return ev.mult(a, ev.encode(partial(row_mask, v, parity)))

    with ev.scope("rows"):
        chains = [
            horner(ev, (row(v, parity) for v in reversed(range(half))), 2 * side - half)
            for parity in range(1 if odd is None else 2)
        ]
        a = chains[0] if odd is None else ev.add(chains[0], ev.rotate(chains[1], side - out.block))
        a = settled(ev, ev.rescale(a))

    def channel_mask(c: int) -> Floats:
        # Of the first copy only: the copies of the result have another period.
        mask = np.zeros(slots)
        mask[c * block : c * block + 2 * out.block] = 1.0
        return mask

    def channel(c: int) -> Ciphertext:
        return ev.mult(a, ev.encode(partial(channel_mask, c)))

    with ev.scope("channels"):
        a = horner(ev, (channel(c) for c in reversed(range(channels))), block - 2 * out.block)
        return fold(ev, a, out.copies, -out.period)


def pooled_linear(ev: Evaluator, a: Ciphertext, layout: ImageLayout, weight: Floats) -> Ciphertext:
    """Mean over the pixels of each channel, then a matrix; a product, not rescaled. Takes one level.

    Output o is in slot o * block; the other slots hold parts of sums. `weight`: (outputs, channels).
    """
    outputs, channels = weight.shape
    rows = 1 << (outputs - 1).bit_length()
    padded = np.zeros((rows, channels))
    padded[:outputs] = weight / layout.side**2
    channel = np.arange(channels)
    first = np.zeros((layout.side, layout.side))
    first[0, 0] = 1.0
    a = settled(ev, fold(ev, a, layout.block))

    def taken(k: int) -> Floats:
        return layout.vector(padded[(channel - k) % rows, channel][:, None, None] * first)

    def diagonal(k: int) -> Ciphertext:
        return ev.mult(a, ev.encode(partial(taken, k)))

    a = horner(ev, (diagonal(k) for k in reversed(range(rows))), layout.block)
    return fold(ev, a, channels // rows, rows * layout.block)
