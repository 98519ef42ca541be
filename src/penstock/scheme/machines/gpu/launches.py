"""The launches of an operation on a GPU: what each kernel reads, writes and computes, and over how many limbs.

A loop over limbs of the kernel algebra is one launch, and a transform is one for each of its passes. A launch works on
the same limbs of all ciphertexts of a batch. What a library does inside of another kernel (`FUSIONS`) is not a
launch of its own and moves no bytes.
"""

from __future__ import annotations

import math
from collections.abc import Collection, Iterator, Sequence
from dataclasses import dataclass

from penstock.scheme.work.kernel_work import KernelWork, Loops

TRANSFORMS, CONVERSIONS, KEY_PRODUCTS = "transforms", "base_conversion", "key_products"
PRODUCTS, SUMS, AUTOMORPHISMS = "multiplications", "additions", "automorphisms"
KERNELS = {
    TRANSFORMS: "butterflies",
    CONVERSIONS: "MAC",
    KEY_PRODUCTS: "mult",
    PRODUCTS: "mult",
    SUMS: "add",
    AUTOMORPHISMS: "coeff",
}
"""Kernel -> the measure of its work, in which a rate may be stated."""
SCALING, INNER_SUMS, SUMMED_KEYS, TENSOR = "scaling", "sums", "key-sums", "tensor"
FUSIONS = {
    SCALING: "products with constants are done by the transform next to them",
    INNER_SUMS: "sums inside of an operation are done by the kernel that makes an addend",
    SUMMED_KEYS: "one kernel sums the products of all digits with a key, for both polynomials",
    TENSOR: "one kernel makes the three polynomials of a product",
}
"""Fusion -> its meaning."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Launch:
    """Launches of one kernel over equally many limbs of one ciphertext."""

    kernel: str
    count: float
    """So many launches; a share of one where loops of several kernels are not told apart."""
    points: float
    """Points that one launch makes."""
    own: float
    """Words that it reads and writes, of one ciphertext."""
    shared: float = 0.0
    """Words of keys and plaintexts that it reads."""
    amount: float
    """Its work in the measure of the kernel."""
    products: float = 0.0
    """Products with their reduction."""
    multiply_adds: float = 0.0
    """Products that are summed before they are reduced."""
    sums: float = 0.0
    """Sums, and coefficients that are moved."""


def launches_of(
    work: KernelWork, *, fused: Collection[str] = (), joined: bool = False, word_bytes: int = 4, plaintexts: float = 0.0
) -> Iterator[Launch]:
    """The launches of one operation.

    Args:   fused: names of `FUSIONS`; joined: loops over equally many limbs share a launch, such as those of the digits
            of a decomposition; word_bytes: of a coefficient in memory; plaintexts: transforms to make one plaintext
            limb from another.
    """
    if not work.ring_dim:
        return
    yield from _transforms(work, joined, plaintexts)
    yield from _conversions(work, joined)
    elements = dict(work.element_loops)
    if work.key_mults:
        yield from _key_products(work, SUMMED_KEYS in fused, joined, elements)
    if work.limb_transforms or work.key_mults:
        yield from _inner(work, fused, joined, elements)
    else:
        yield from _alone(work, word_bytes)


def _transforms(work: KernelWork, joined: bool, plaintexts: float) -> Iterator[Launch]:
    inside = sum(width * count for width, count in work.transform_loops)
    loops: list[tuple[float, int]] = list(_together(work.transform_loops, joined))
    loops.append((work.limb_transforms - inside, 1))
    loops.append((plaintexts * work.plaintext_limbs, 1))
    for width, count in loops:
        if width > 0:
            points = width * work.ring_dim
            butterflies = points / 2 * math.log2(work.ring_dim)
            yield Launch(kernel=TRANSFORMS, count=count, points=points, own=2 * points, amount=butterflies)


def _conversions(work: KernelWork, joined: bool) -> Iterator[Launch]:
    """From as many limbs as there are products to one coefficient. Those inside of a loop of transforms are theirs."""
    count = work.base_conversions
    if not (count and work.bconv_macs):
        return
    made = work.converted_coefficients or work.bconv_macs
    sources = work.bconv_macs / made
    times, points = (1, float(made)) if joined else (count, made / count)
    yield Launch(
        kernel=CONVERSIONS,
        count=times,
        points=points,
        own=points + sources * work.ring_dim * count / times,
        amount=work.bconv_macs / times,
        products=points,
        multiply_adds=work.bconv_macs / times,
    )


def _key_products(work: KernelWork, summed: bool, joined: bool, elements: dict[int, int]) -> Iterator[Launch]:
    """Two products of every limb of every digit, by words of the key, and their sums. Takes their loops away."""
    digits = max(1, work.digit_steps)
    points = work.key_mults / (2 * digits)
    wide = round(points / work.ring_dim)
    for width in sorted(elements, key=lambda width: abs(width - wide))[:1]:
        elements[width] = max(0, elements[width] - 2 * digits)
    if summed:
        yield Launch(
            kernel=KEY_PRODUCTS,
            count=1,
            points=points,
            own=(digits + 2) * points,
            shared=2 * digits * points,
            amount=work.key_mults,
            products=2 * points,
            multiply_adds=work.key_mults,
        )
        return
    # Each product is added to its sum by a kernel of its own.
    count = 1 if joined else 2 * digits
    size = points * 2 * digits / count
    yield Launch(kernel=KEY_PRODUCTS, count=count, points=size, own=2 * size, shared=size, amount=size, products=size)
    yield Launch(kernel=SUMS, count=count, points=size, own=3 * size, amount=size, sums=size)


def _inner(work: KernelWork, fused: Collection[str], joined: bool, elements: dict[int, int]) -> Iterator[Launch]:
    """Element-wise passes between the other kernels of an operation, by the loops that are left."""
    others = work.elementwise_mults - work.key_mults - work.constant_mults
    passes: list[tuple[str, int, float]] = [
        (PRODUCTS, others, 7 / 4 if TENSOR in fused else 3.0),
        (PRODUCTS, 0 if SCALING in fused else work.constant_mults, 2.0),
        (SUMS, 0 if INNER_SUMS in fused else work.elementwise_adds, 3.0),
        (AUTOMORPHISMS, work.automorphism_coefficients, 2.0),
    ]
    total = others + work.constant_mults + work.elementwise_adds + work.automorphism_coefficients
    loops = _together(tuple((width, count) for width, count in elements.items() if width and count), joined)
    inside = sum(width * count for width, count in loops) * work.ring_dim
    if inside <= 0:
        loops, inside = ((-(-total // work.ring_dim), 1),) if total else (), total
    for kernel, amount, words in passes:
        for width, count in loops if amount else ():
            # Loops do not say which kernel they run: each takes its share of all.
            points = width * work.ring_dim
            yield Launch(
                kernel=kernel,
                count=count * amount / inside,
                points=points,
                own=words * points,
                amount=points,
                products=points if kernel == PRODUCTS else 0.0,
                sums=0.0 if kernel == PRODUCTS else points,
            )


def _alone(work: KernelWork, word_bytes: int) -> Iterator[Launch]:
    """An operation without transforms and keys: one kernel that reads its operands and writes its result."""
    moved, sums = work.automorphism_coefficients, work.elementwise_adds
    points = float(work.elementwise_mults + sums + moved)
    if not points:
        return
    kernel = PRODUCTS if work.elementwise_mults else SUMS if sums else AUTOMORPHISMS
    yield Launch(
        kernel=kernel,
        count=1,
        points=points,
        own=(work.ciphertext_read_bytes + work.ciphertext_write_bytes) / word_bytes,
        shared=work.plaintext_bytes / word_bytes,
        amount=points,
        products=work.elementwise_mults,
        sums=sums + moved,
    )


def _together(loops: Loops, joined: bool) -> Sequence[tuple[int, int]]:
    return tuple((width * count, 1) for width, count in loops) if joined else loops
