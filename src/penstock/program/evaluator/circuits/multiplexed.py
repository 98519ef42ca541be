"""Convolutional layers with channels multiplexed in the gaps that strides leave, and copies that work in parallel.

`gap^2` channels share a block of `grid x grid` slots: pixel (y, x) of channel c is in row `y * gap + c % gap^2 // gap`
and column `x * gap + c % gap` of block `c // gap^2`. The blocks are repeated until the slots are full, and each copy
computes another output channel. A convolution takes two levels: weights, then masks that place the outputs.

Source: Lee et al., "Low-complexity deep convolutional neural networks on fully homomorphic encryption using multiplexed
parallel convolutions", ICML 2022 (ePrint 2021/1688).
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import partial, reduce

import numpy as np

from penstock.base.arrays import Floats
from penstock.errors import ParamsError
from penstock.program.evaluator.circuits.convolution import SHIFTS, inside
from penstock.program.evaluator.circuits.sums import fold
from penstock.program.evaluator.protocol import Ciphertext, Evaluator, Plain

LEVELS = 2
"""Levels that a convolution takes."""


@dataclass(frozen=True, slots=True)
class Multiplexed:
    """The places of the pixels of each channel.

    >>> stage3 = Multiplexed(channels=64, side=8, gap=4, slots=2**15)
    >>> stage3.blocks, stage3.copies, stage3.offset(21)
    (4, 8, 1057)
    """

    channels: int
    side: int
    gap: int
    slots: int

    @property
    def grid(self) -> int:
        """Slots of a row."""
        return self.side * self.gap

    @property
    def block(self) -> int:
        """Slots of `gap^2` channels."""
        return self.grid**2

    @property
    def blocks(self) -> int:
        """Blocks that hold all channels."""
        return -(-self.channels // self.gap**2)

    @property
    def period(self) -> int:
        """Slots of all channels."""
        return self.blocks * self.block

    @property
    def copies(self) -> int:
        """The number of copies of the channels.

        Raises: ParamsError: they do not fit, or not a whole number of times.
        """
        if self.slots % self.period:
            raise ParamsError(
                f"{self.channels} channels in {self.blocks} blocks of {self.grid} x {self.grid} slots take "
                f"{self.period} slots, and the set has {self.slots}: take one with {self.period} slots or a multiple"
            )
        return self.slots // self.period

    def offset(self, channel: int) -> int:
        """The slot of pixel (0, 0) of a channel, in the first copy."""
        block, inner = divmod(channel, self.gap**2)
        row, column = divmod(inner, self.gap)
        return block * self.block + row * self.grid + column

    def pixels(self, values: Floats) -> Floats:
        """(period,) slots of one copy that holds `values`, (channels, side, side) or broadcast to it."""
        full = np.zeros((self.blocks * self.gap**2, self.side, self.side))
        full[: self.channels] = values
        split = full.reshape(self.blocks, self.gap, self.gap, self.side, self.side)
        return split.transpose(0, 3, 1, 4, 2).reshape(self.period)

    def vector(self, values: Floats) -> Floats:
        """(slots,) with `values` in each copy."""
        return np.tile(self.pixels(values), self.copies)

    def read(self, slots: Floats) -> Floats:
        """The values (channels, side, side) of the first copy."""
        split = slots[: self.period].reshape(self.blocks, self.side, self.gap, self.side, self.gap)
        return split.transpose(0, 2, 4, 1, 3).reshape(-1, self.side, self.side)[: self.channels]

    def strided(self, channels: int, stride: int) -> Multiplexed:
        """The layout of `channels` outputs of which every `stride`-th pixel is kept."""
        return Multiplexed(channels, self.side // stride, self.gap * stride, self.slots)


def convolve(ev: Evaluator, a: Ciphertext, layout: Multiplexed, weight: Floats, stride: int = 1) -> Ciphertext:
    """3 x 3 convolution, in the layout `layout.strided(outputs, stride)`; a product, not rescaled.

    Args:   weight: (outputs, channels, 3, 3).
    """
    side, gap, copies = layout.side, layout.gap, layout.copies
    outputs = len(weight)
    out = layout.strided(outputs, stride)
    masks = [inside(side, dy, dx).astype(np.float64) for dy, dx in SHIFTS]
    shifted = ev.rotate_many(a, [gap * (dy * layout.grid + dx) for dy, dx in SHIFTS])
    placed = None

    def taps(group: range, shift: int) -> Floats:
        dy, dx = SHIFTS[shift]
        slots = np.zeros((copies, layout.period))
        for j, o in enumerate(group):
            slots[j] = layout.pixels(weight[o, :, dy + 1, dx + 1, None, None] * masks[shift])
        return slots.reshape(-1)

    for first in range(0, outputs, copies):
        group = range(first, min(first + copies, outputs))
        with ev.scope("products"):
            total = ev.weighted_sum(shifted, [partial(taps, group, shift) for shift in range(len(shifted))])
            total = sum_channels(ev, ev.rescale(total), layout)
        with ev.scope("placement"):
            steps = [j * layout.period - out.offset(o) for j, o in enumerate(group)]
            for o, moved in zip(group, ev.rotate_many(total, steps), strict=True):
                term = ev.mult(moved, ev.encode(partial(_channel, out, o)))
                placed = term if placed is None else ev.add(placed, term)
    return fold(ev, placed, out.copies, -out.period)


def downsample(ev: Evaluator, a: Ciphertext, layout: Multiplexed, factor: float) -> Ciphertext:
    """Every second pixel, in the middle of twice the channels, times `factor`; a product, not rescaled. One level."""
    channels = layout.channels
    out = layout.strided(2 * channels, 2)
    kept = np.zeros((layout.side, layout.side))
    kept[::2, ::2] = factor

    def mask_of(c: int) -> Floats:
        chosen = np.zeros((channels, 1, 1))
        chosen[c] = 1.0
        mask = np.zeros(layout.slots)
        mask[: layout.period] = layout.pixels(chosen * kept)
        return mask

    def moved(c: int) -> Ciphertext:
        channel = ev.mult(a, ev.encode(partial(mask_of, c)))
        return ev.rotate(channel, layout.offset(c) - out.offset(channels // 2 + c))

    total = reduce(ev.add, map(moved, range(channels)))
    return fold(ev, total, out.copies, -out.period)


def biases(ev: Evaluator, layout: Multiplexed, bias: Floats) -> Plain:
    """A bias a channel, on every pixel."""
    return ev.encode(layout.vector(bias[:, None, None]))


def sum_channels(ev: Evaluator, a: Ciphertext, layout: Multiplexed) -> Ciphertext:
    """The sum over the channels of each copy, in the slots of its channel 0."""
    a = fold(ev, fold(ev, a, layout.gap), layout.gap, layout.grid)
    return fold(ev, a, layout.blocks, layout.block)


def pooled_linear(ev: Evaluator, a: Ciphertext, layout: Multiplexed, weight: Floats) -> list[Ciphertext]:
    """Mean over the pixels, then a matrix (outputs, channels): products, not rescaled. One level.

    Output o is in slot `o % copies * period` of ciphertext `o // copies`.
    """
    side, copies = layout.side, layout.copies
    a = fold(ev, fold(ev, a, side, layout.gap), side, layout.gap * layout.grid)
    first = np.zeros((side, side))
    first[0, 0] = 1.0 / side**2

    def rows(start: int) -> Floats:
        slots = np.zeros((copies, layout.period))
        for j, row in enumerate(weight[start : start + copies]):
            slots[j] = layout.pixels(row[:, None, None] * first)
        return slots.reshape(-1)

    starts = range(0, len(weight), copies)
    return [sum_channels(ev, ev.mult(a, ev.encode(partial(rows, start))), layout) for start in starts]


def _channel(layout: Multiplexed, channel: int) -> Floats:
    """Ones on the pixels of one channel of the first copy."""
    mask = np.zeros(layout.slots)
    rows = layout.offset(channel) + layout.gap * layout.grid * np.arange(layout.side)
    mask[(rows[:, None] + layout.gap * np.arange(layout.side)).reshape(-1)] = 1.0
    return mask
