"""Energy of a program: the measured power of the machine times the predicted time, or published energies of its parts.

A machine whose energy was measured (RAPL, the whole package) states its power at each number of threads. For any other,
the kernel work is weighed by published energies of arithmetic, of words on chip and of bytes from memory. That is
`assumed`, and bounds nothing: it leaves out instruction fetch, waiting and leakage, and smaller processes than the
table's need less for each operation.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import lru_cache
from importlib import resources

from penstock.base.system import toml
from penstock.base.units import JOULE_PER_BYTE_UNITS, JOULE_UNITS, WORD_BYTES, parse_quantity
from penstock.scheme.machines.figure import Evidence
from penstock.scheme.machines.schema import TRANSFORM_MEASURES, Machine
from penstock.scheme.work.kernel_work import KernelWork

TABLE_BITS = 32
"""Width of the arithmetic in the table."""
PRODUCTS_PER_MODULAR_PRODUCT = 3
"""Integer products of a modular product by Barrett or Montgomery reduction."""
ADDITIONS_PER_MODULAR_ADDITION = 2
"""The addition, and the conditional subtraction of the modulus."""
WORDS_PER_PRODUCT = 3
"""Words on chip that an element-wise product reads and writes."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Energy:
    """Joules of a program, and where they come from."""

    joules: float | None
    """`None`: not known."""
    kind: Evidence | None
    note: str
    """The source, in words."""
    log_sd: float = 0.0
    """Standard deviation of the logarithm of the power."""
    idle_j: float | None = None
    """Part of `joules`: the machine's idle energy in that time; `None` if its idle power is unknown."""


@dataclass(frozen=True, slots=True, kw_only=True)
class PartEnergies:
    """Published energies, in joules."""

    name: str
    title: str
    multiplication: float
    """Of `TABLE_BITS` bits."""
    addition: float
    word: float
    """Of 64 bits on chip."""
    memory: float
    """Of one byte."""


@lru_cache(maxsize=4)
def part_energies(name: str = "horowitz-45nm") -> PartEnergies:
    """The table of this name, from `scheme/machines/data/energy`."""
    file = resources.files("penstock.scheme.machines").joinpath("data").joinpath("energy").joinpath(f"{name}.toml")
    record = toml.loads(file.read_text(encoding="utf-8"))
    values = {
        part: parse_quantity(record[part]["value"], JOULE_PER_BYTE_UNITS if part == "memory" else JOULE_UNITS, part)
        for part in ("multiplication", "addition", "word", "memory")
    }
    return PartEnergies(name=record["name"], title=record["title"], **values)


def energy_of(seconds: float, parts_j: float | None, machine: Machine) -> Energy:
    """The energy of a program that takes `seconds` on a machine (at the number of threads that it stands at).

    Args:   parts_j: what published energies of its parts give, for the note on a machine whose power is not known;
            `None`: a part is not known.
    """
    idle = machine.idle_power.value * seconds if machine.idle_power is not None else None
    watts = machine.watts
    if watts is not None:
        model, stated = machine.thread_power, machine.stated_power
        assert stated is not None
        return Energy(
            joules=watts * seconds,
            kind=stated.kind,
            note=f"{watts:.4g} W while machine '{machine.name}' computes: {stated.source}",
            log_sd=0.0 if model is None else model.log_sd,
            idle_j=idle,
        )
    note = (
        f"energy is unknown: machine '{machine.name}' states no power; fit it to timings with joules, or add a [power] "
        "table"
    )
    if parts_j is not None:
        note += (
            f". Published energies of operations and bytes ({part_energies().title}) come to {parts_j:.2g} J: an order "
            "of magnitude, as neither instructions, waiting and leakage nor the machine's own process are in it"
        )
    return Energy(joules=None, kind=None, note=note, idle_j=idle)


def work_joules(work: KernelWork, word_bits: int, table: PartEnergies) -> float:
    """Joules of one operation's arithmetic, words on chip and bytes from memory.

    A product grows with the square of the word, an addition with the word. Every byte of keys, plaintexts and
    ciphertexts comes from memory.
    """
    width = word_bits / TABLE_BITS
    product = PRODUCTS_PER_MODULAR_PRODUCT * width**2 * table.multiplication
    addition = ADDITIONS_PER_MODULAR_ADDITION * width * table.addition
    word = word_bits / (8 * WORD_BYTES) * table.word
    butterflies = work.limb_transforms * TRANSFORM_MEASURES["butterflies"](work.ring_dim) if work.ring_dim else 0.0
    products = butterflies + work.bconv_macs + work.elementwise_mults
    additions = 2 * butterflies + work.bconv_macs + work.elementwise_adds
    # A butterfly reads and writes two words, a multiply-add reads one and keeps its sum.
    words = 4 * butterflies + work.bconv_macs + WORDS_PER_PRODUCT * (work.elementwise_mults + work.elementwise_adds)
    words += 2 * work.automorphism_coefficients
    num_bytes = work.key_bytes + work.plaintext_bytes + work.ciphertext_read_bytes + work.ciphertext_write_bytes
    return products * product + additions * addition + words * word + num_bytes * table.memory
