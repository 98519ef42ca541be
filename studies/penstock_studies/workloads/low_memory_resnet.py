"""CryptOracle's ResNet-20, call by call: the low-memory network of Rovida and Leporati, with masks for its weights.

One ciphertext holds all channels of an image, one behind the other. A convolution multiplies nine shifted copies with
masks of each output channel, and collects the channels by one rotation each. All sizes follow from the width of the
image: w^2 slots a channel, 16 channels, then 32 and 64 at half the width each.
Source: github.com/narger-ef/LowMemoryFHEResNet20, src/main.cpp and src/FHEController.cpp, as CryptOracle runs it.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import reduce

import numpy as np

from penstock.program.evaluator.protocol import Ciphertext, Evaluator, Operand, Plain, Values

RELU_DEGREE = 59
CHANNELS = 16
INITIAL = 0.9
Scales = tuple[tuple[float, float], ...]
LAYER1: Scales = ((1.0, 0.52), (0.55, 0.36), (0.63, 0.42))
LAYER2: Scales = ((0.57, 0.40), (0.76, 0.37), (0.63, 0.25))
LAYER3: Scales = ((0.63, 0.40), (0.57, 0.33), (0.69, 0.1))
"""Factors that keep the two activations of each block in [-1, 1]."""


@dataclass(slots=True)
class LowMemoryResnet:
    """The network on one evaluator. mask: (number, values that repeat, bound) -> a drawn mask of so many values."""

    ev: Evaluator
    width: int
    mask: Callable[[int, int, float], Values]
    made: int = 0

    def run(self, image: Ciphertext) -> Ciphertext:
        """The scores of ten classes, in the first ten slots."""
        with self.ev.scope("initial"):
            x = self._relu(self._initial(image), INITIAL)
        with self.ev.scope("layer1"):
            for scales in LAYER1:
                x = self._block(x, self.width, CHANNELS, scales)
        with self.ev.scope("layer2"):
            x = self._layer(x, self.width, 2 * CHANNELS, LAYER2)
        with self.ev.scope("layer3"):
            x = self._layer(x, self.width // 2, 4 * CHANNELS, LAYER3)
        with self.ev.scope("final"):
            return self._final(self._refreshed(x, self._area(4 * CHANNELS)))

    def _layer(self, x: Ciphertext, width: int, channels: int, scales: Scales) -> Ciphertext:
        x = self._first_block(x, width, channels, scales[0])
        for scale in scales[1:]:
            x = self._block(x, width // 2, channels, scale)
        return x

    def _area(self, channels: int) -> int:
        """Slots of a whole image with so many channels."""
        return self.width**2 * CHANNELS * CHANNELS // channels

    def _plain(self, values: Callable[[], Values]) -> Plain:
        """A plaintext whose values repeat."""
        return self.ev.encode(lambda: np.resize(values(), self.ev.params.slots))

    def _drawn(self, period: int, bound: float) -> Plain:
        self.made += 1
        number = self.made
        return self._plain(lambda: self.mask(number, period, bound))

    def _times(self, a: Ciphertext, b: Operand) -> Ciphertext:
        return self.ev.rescale(self.ev.mult(a, b))

    def _refreshed(self, x: Ciphertext, slots: int) -> Ciphertext:
        last = self.ev.mod_drop(x, 2) if self.ev.levels(x) > 1 else x
        return self.ev.bootstrap(last, slots)

    def _relu(self, x: Ciphertext, scale: float) -> Ciphertext:
        return self.ev.chebyshev_function(x, lambda v: np.maximum(v, 0.0) / scale, -1.0, 1.0, RELU_DEGREE)

    def _shifted(self, x: Ciphertext, width: int) -> list[Ciphertext]:
        """The nine neighbours: eight hoisted rotations, four of them rotated once more."""
        ev = self.ev
        up, left, down, right, *more = ev.rotate_many(x, [-width, -1, width, 1, -1, 1, -1, 1])
        corners = [ev.rotate(a, step) for a, step in zip(more, (-width, -width, width, width), strict=True)]
        return [corners[0], up, corners[1], left, x, right, corners[2], down, corners[3]]

    def _summed(self, terms: list[Ciphertext], period: int, bound: float) -> Ciphertext:
        return reduce(self.ev.add, [self._times(term, self._drawn(period, bound)) for term in terms])

    def _initial(self, x: Ciphertext) -> Ciphertext:
        """The first convolution, whose three input channels are added up by rotations."""
        ev, channel, period = self.ev, self.width**2, self._area(CHANNELS)
        shifted, total = self._shifted(x, self.width), None
        for _ in range(CHANNELS):
            one = self._summed(shifted, period, 1 / 27)
            both = ev.add(one, ev.rotate(one, channel))
            all_three = ev.add(both, ev.rotate(ev.rotate(one, channel), channel))
            kept = self._times(all_three, self._plain(lambda: (np.arange(period) < channel).astype(float)))
            total = ev.rotate(kept if total is None else ev.add(total, kept), channel)
        return ev.add(total, self._drawn(period, 0.05))

    def _convolved(self, terms: list[Ciphertext], width: int, channels: int, period: int) -> Ciphertext:
        """A convolution to `channels` channels of width^2 slots."""
        bound, total = 1 / (len(terms) * channels), None
        for _ in range(channels):
            part = self._summed(terms, period, bound)
            total = self.ev.rotate(part if total is None else self.ev.add(total, part), -(width**2))
        return self.ev.add(total, self._drawn(period, 0.05))

    def _block(self, x: Ciphertext, width: int, channels: int, scales: tuple[float, float]) -> Ciphertext:
        """Two convolutions, each refreshed and activated, and the shortcut."""
        period = width**2 * channels
        with self.ev.scope("block"):
            y = self._convolved(self._shifted(x, width), width, channels, period)
            y = self._relu(self._refreshed(y, period), scales[0])
            y = self._convolved(self._shifted(y, width), width, channels, period)
            y = self.ev.add(y, self._times(x, self._plain(lambda: np.full(1, scales[1]))))
            return self._relu(self._refreshed(y, period), scales[1])

    def _first_block(self, x: Ciphertext, width: int, channels: int, scales: tuple[float, float]) -> Ciphertext:
        """A block that halves the width and doubles the channels, in both branches."""
        before = width**2 * channels // 2
        with self.ev.scope("block"):
            x = self._refreshed(x, before)
            shifted = self._shifted(x, width)
            wide = [self._convolved(shifted, width, channels // 2, before) for _ in range(2)]
            short = [self._convolved([x], width, channels // 2, before) for _ in range(2)]
            wide_half, short_half = (self._halved(pair[0], pair[1], width, channels) for pair in (wide, short))
            half, period = width // 2, width**2 * channels // 4
            y = self._relu(self._refreshed(wide_half, period), scales[0])
            y = self._convolved(self._shifted(y, half), half, channels, period)
            return self._relu(self._refreshed(self.ev.add(y, short_half), period), scales[1])

    def _halved(self, first: Ciphertext, second: Ciphertext, width: int, channels: int) -> Ciphertext:
        """Every other pixel of every other row, of both halves of the channels, one channel behind the other."""
        ev, half, area = self.ev, width // 2, width**2
        whole = area * channels
        at = np.arange(whole)

        def kept(condition: Values) -> Plain:
            return self._plain(lambda: condition.astype(float))

        x = ev.add(self._times(first, kept(at < whole // 2)), self._times(second, kept(at >= whole // 2)))
        step = 1
        while step < half:
            moved = ev.rotate(ev.rotate(x, 1), 1) if step == 2 else ev.rotate(x, step)
            x = ev.add(x, moved)
            if 2 * step < half:
                x = self._times(x, kept(at // (2 * step) % 2 == 0))
            step *= 2
        rows = ev.encrypt(np.zeros(1), name="zero")
        # Its code goes on after the last row of an image in the second halving, where nothing is left.
        count = half if channels == 2 * CHANNELS else 4 * half
        for i in range(count):
            rows = ev.add(rows, self._times(x, kept(at % area // half == i)))
            if i < count - 1:
                x = ev.rotate(x, 2 * width - half)
        packed = ev.encrypt(np.zeros(1), name="zero")
        for i in range(channels):
            chosen = (at // area == i) & (at % area < area // 4)
            packed = ev.rotate(ev.add(packed, self._times(rows, kept(chosen))), area // 4 - area)
        packed = ev.rotate(packed, (area - area // 4) * channels)
        quarter = whole // 4
        packed = ev.add(packed, ev.rotate(packed, -quarter))
        return ev.add(packed, ev.rotate(ev.rotate(packed, -quarter), -quarter))

    def _final(self, x: Ciphertext) -> Ciphertext:
        """The mean of each channel, and the linear layer."""
        ev, channels = self.ev, 4 * CHANNELS
        area = (self.width // 4) ** 2
        period = area * channels
        x = self._rotated_sum(x, area, 1)
        x = self._times(x, self._plain(lambda: (np.arange(period) % area == 0) / area))
        x = ev.rotate(self._rotated_sum(x, min(16, area), 1), 1 - min(16, area))
        return self._rotated_sum(self._times(x, self._drawn(period, 1 / channels)), channels, area)

    def _rotated_sum(self, x: Ciphertext, count: int, stride: int) -> Ciphertext:
        step = 1
        while step < count:
            x = self.ev.add(x, self.ev.rotate(x, stride * step))
            step *= 2
        return x
