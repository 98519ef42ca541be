"""What the storage-I/O study prints: every number of its text, with the digits that it prints.

Source: "The Future of Fully Homomorphic Encryption System: from a Storage I/O Perspective" (the study), and a digest of
it. Values that are only drawn in figures are not here: reading them off adds an error.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

TIERS = ("hbm", "ddr5", "pcie5", "rdma")
"""The study's tiers: 1000, 358.4, 64 and 12.5 decimal GB/s."""
APPLICATIONS = ("resnet20", "helr")
NETWORKS = ("ethernet-400", "fastfabric-300")
HOST_COUNTS = (1, 2, 4, 8, 16, 32)
MOST_HOSTS = HOST_COUNTS[-1]
IDEAL_SHARE = 0.8
SHOWN_TIER = "pcie5"
"""The tier of figure 7: the study's "common setup in the field"."""


@dataclass(frozen=True, slots=True)
class PrintedNumber:
    """A printed number: its digits tell its precision."""

    text: str
    inverse: bool = False
    """PrintedNumber as a slowdown, of which the row holds the speedup."""
    bound: bool = False
    """More than this, not about this."""
    percent: bool = False

    @property
    def value(self) -> float:
        """In the unit of the row: shares as fractions."""
        return self._at(0.0)

    def agrees(self, other: float) -> bool:
        """Whether `other` rounds to the digits that are printed."""
        ends = sorted((self._at(-0.5), self._at(0.5)))
        return ends[0] <= other <= ends[1]

    def _at(self, last_digits: float) -> float:
        unit = 10.0 ** -len(self.text.partition(".")[2])
        number = (float(self.text) + last_digits * unit) / (100 if self.percent else 1)
        return 1 / number if self.inverse else number


def _by_tier(*texts: str, percent: bool = False) -> dict[str, PrintedNumber]:
    return {tier: PrintedNumber(text, percent=percent) for tier, text in zip(TIERS, texts, strict=True)}


SHARP_SLOWDOWN: Mapping[str, Mapping[str, PrintedNumber]] = {
    "resnet20": _by_tier("2.63", "5.56", "26.5", "131.7"),
    "helr": _by_tier("5.5", "13.4", "70.6", "357.2"),
}
"""Section 4.3: time with every key read from the tier, over the ideal time."""
SHARP_MEAN_SLOWDOWN: Mapping[str, PrintedNumber] = {"hbm": PrintedNumber("4.0"), "rdma": PrintedNumber("244")}
"""Section 4.1 prints the mean for two tiers only."""
GPU_MEAN_SLOWDOWN: Mapping[str, PrintedNumber] = _by_tier("1.2", "1.5", "3.8", "15.2")
GPU_MOST_SLOWDOWN = PrintedNumber("22")
"""Abstract: "by up to 22"; HELR over RDMA."""
HIT_RATIO: Mapping[str, PrintedNumber] = _by_tier("90.2", "96.2", "99.3", "99.9", percent=True)
"""Mean over both applications of the hit ratio that 80 % of the ideal speed asks for."""
BYTES_PER_CYCLE: Mapping[str, PrintedNumber] = {"resnet20": PrintedNumber("1633"), "helr": PrintedNumber("5130")}
MEAN_BYTES_PER_CYCLE = PrintedNumber("3381")
GPU_BYTES_PER_CYCLE = PrintedNumber("101")
BYTES_RATIO = PrintedNumber("3.1")
SHARP_SPEEDUP: Mapping[str, Mapping[str, PrintedNumber]] = {
    "ethernet-400": {
        "hbm": PrintedNumber("6.08", inverse=True),
        "ddr5": PrintedNumber("2.74", inverse=True),
        "pcie5": PrintedNumber("1.72"),
        "rdma": PrintedNumber("5.78"),
    },
    "fastfabric-300": _by_tier("0.94", "1.99", "6.42", "11.96"),
}
"""Section 4.2: mean over both applications, 32 hosts against one."""
GPU_SPEEDUP: Mapping[str, PrintedNumber] = {
    "ethernet-400": PrintedNumber("6.6"),
    "fastfabric-300": PrintedNumber("9.7"),
}
"""Mean over both applications and, as no tier is named, all tiers."""
PARTS = ("compute", "io", "communication")


def _by_part(*texts: str) -> dict[str, PrintedNumber]:
    return {part: PrintedNumber(text, percent=True) for part, text in zip(PARTS, texts, strict=False)}


BREAKDOWN: Mapping[str, Mapping[int, Mapping[str, PrintedNumber]]] = {
    "sharp": {1: _by_part("3.8", "96.2"), 32: _by_part("0.3", "7.2", "92.5")},
    "tensorfhe": {32: _by_part("40.1", "18.1", "41.8")},
}
"""Figure 7, ResNet-20 over PCIe and Ethernet, as the text of section 4.2 prints it."""

COEFFICIENT_BITS: Mapping[str, int] = {"sharp": 1555, "tensorfhe.resnet20": 840, "tensorfhe.helr": 1092}
"""Section 4.3."""
POLYNOMIAL_RATIO = {"resnet20": PrintedNumber("54", percent=True), "helr": PrintedNumber("70", percent=True)}
DIGEST_POLYNOMIAL_RATIO = {"resnet20": PrintedNumber("1.85"), "helr": PrintedNumber("1.43")}
"""The digest turns the two round."""
KEY_RATIO = PrintedNumber("5.5")
IO_RATIO = {"resnet20": PrintedNumber("2.8"), "helr": PrintedNumber("4.5")}
IMAGE_KIB = PrintedNumber("3")
PLAINTEXT_MIB = PrintedNumber("8", bound=True)
CIPHERTEXT_MIB = PrintedNumber("16")
KEYS_GIB = PrintedNumber("5", bound=True)
NUM_KEYS = PrintedNumber("100", bound=True)

IDEAL_S = {"resnet20": 99e-3, "helr": 2.53e-3}
"""SHARP (ISCA 2023): ResNet-20, and one iteration of HELR. The study takes them as its baseline."""
HELR_ITERATIONS = 32

CPU_AGAINST_CLEAR = 1e5
"""The digest's account of figure 1: a CPU computes 10^5 times slower on encrypted than on plain data."""
TENSORFHE_SPEEDUP = PrintedNumber("2800")
SHARP_GAP = PrintedNumber("3")
"""The digest: "only 3x difference" from plain computation."""
DIGEST_ONE_HOST_S, DIGEST_MANY_HOSTS_S = PrintedNumber("3.8"), PrintedNumber("2.2")

# Inputs of the calibrated reading.
SHARP_DEMAND: Mapping[str, float] = {"resnet20": 1633e9, "helr": 4452e9}
"""D [bytes/s of ideal time]. 1633 is printed; the four slowdowns of HELR give 4452 (5130 is printed)."""
GPU_DEMAND: Mapping[str, float] = {"resnet20": 92.5e9, "helr": 262.5e9}
"""D of TensorFHE: the maximum of 22 and the mean of 15.2 over RDMA give one each."""
A100_CLOCK_HZ = 1.41e9
"""NVIDIA A100 datasheet, boost clock."""
CALIBRATED_LIMBS: Mapping[str, tuple[int, int]] = {"resnet20": (25, 12), "helr": (13, 12)}
"""(limbs of Q, special limbs) whose rPLP divisors at 32 hosts lie nearest to the calibrated 18.5 and 12.7."""
FAST_TO_ETHERNET = 6.0
GPU_LIMBS: Mapping[str, tuple[int, int]] = {"resnet20": (30, 1), "helr": (39, 1)}
"""840 and 1092 bits in primes of 28 bits, one special limb (assumed)."""
