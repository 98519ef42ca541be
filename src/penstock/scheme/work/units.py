"""The load of each unit of a machine for a piece of kernel work."""

from __future__ import annotations

from collections.abc import Collection

from penstock.scheme.work.kernel_work import KernelWork

MULTIPLICATIONS = "multiplications"
ARITHMETIC = ("base_conversion", MULTIPLICATIONS, "additions", "automorphisms")
"""Units of arithmetic whose work is nobody else's; the work of other optional ones falls to the multiplications."""
APART = ("key_products", "constant_products")
"""Units that take their share of the multiplications, where a machine has them."""

UNIT_MEASURES: dict[str, tuple[str, ...]] = {
    "transforms": ("points", "butterflies", "products"),
    "base_conversion": ("MAC",),
    "conversions": ("coeff",),
    "multiplications": ("mult",),
    "key_products": ("mult",),
    "constant_products": ("mult",),
    "additions": ("add",),
    "automorphisms": ("coeff",),
    "index_maps": ("index",),
    "results": ("B",),
    "memory": ("B",),
}
"""Unit -> measures in which its rate may be given, each per second or per cycle. `conversions` reduce the sums of base
conversions; `results` are the ciphertexts and digits that operations allocate and write."""


def unit_amounts(work: KernelWork) -> dict[str, float]:
    """Unit -> amount in its measure, of every unit but the transforms; `multiplications` are all of them."""
    return {
        "base_conversion": float(work.bconv_macs),
        "conversions": float(work.converted_coefficients),
        "multiplications": float(work.elementwise_mults),
        "key_products": float(work.key_mults),
        "constant_products": float(work.constant_mults),
        "additions": float(work.elementwise_adds),
        "automorphisms": float(work.automorphism_coefficients),
        "index_maps": float(work.mapped_indices),
        "results": float(work.ciphertext_write_bytes),
        "memory": float(
            work.key_bytes + work.plaintext_bytes + work.ciphertext_read_bytes + work.ciphertext_write_bytes
        ),
    }


def apart(units: Collection[str]) -> list[str]:
    """The units whose amounts are not among the multiplications of a machine with these units."""
    return [unit for unit in APART if unit in units]
