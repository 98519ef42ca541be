"""The rules of the trace format, held against whole columns at once; only broken rows are looked at one by one."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping

import numpy as np

from penstock.base.arrays import Bools
from penstock.scheme.operations import MANY, SINGLE_KEYS, SMALL_KINDS, SMALL_ROTATION, TRAITS, OpKind, rotation_key
from penstock.scheme.params.ckks import CkksParameters
from penstock.scheme.traces.columns import ObjectColumns, OperationColumns, ints_of
from penstock.scheme.traces.schema import (
    OBJECT_CLASSES,
    ORIGIN_CALLED,
    ORIGIN_COMPOSITE,
    ORIGIN_MODELLED,
    Trace,
    place_in,
    text_codes,
)

Broken = Iterator[tuple[int, str]]
"""Row -> its fault, and the rule."""

_NEVER = np.iinfo(np.int64).max


def object_problems(trace: Trace, params: CkksParameters) -> Iterator[str]:
    """The faults of the table of objects."""
    objects = ObjectColumns(trace)
    used = trace.key_limbs() if params.key_form.is_truncated else None
    broken = [*_object_rows(objects), *_sizes(objects, params), *_key_objects(objects, params, used)]
    for row, fault in sorted(broken, key=lambda problem: problem[0]):
        yield f"object {row}: {fault}"


def operation_problems(trace: Trace, params: CkksParameters) -> Iterator[str]:
    """The faults of the table of operations."""
    objects, ops = ObjectColumns(trace), OperationColumns(trace)
    broken = [
        *_operation_rows(ops, params),
        *_operands(ops, objects),
        *_results(ops, objects),
        *_plaintexts(ops, objects),
        *_keys(ops, objects, params),
        *_steps(ops, params.ring_dim),
        *_times(ops),
        *_composites(ops),
    ]
    for row, fault in sorted(broken, key=lambda problem: problem[0]):
        yield f"operation {row} ({ops.kind(row)}): {fault}"


def _rows(broken: Bools, text_of: Callable[[int], str]) -> Broken:
    for row in np.flatnonzero(broken).tolist():
        yield row, text_of(row)


def _is_any_number(kind: OpKind) -> bool:
    """A library's composite takes any operands; shares of several parties are decrypted together."""
    return TRAITS[kind].operands == MANY or TRAITS[kind].composite


def _is_loose(kind: OpKind | None) -> bool:
    """Whether the operands are of any class that holds ciphertexts."""
    return kind is None or (_is_any_number(kind) and TRAITS[kind].takes == ("ciphertext",))


# Objects.


def _object_rows(objects: ObjectColumns) -> Broken:
    yield from _rows(
        objects.id != np.arange(len(objects)), lambda row: f"id {objects.id[row]}; ids are 0, 1, 2, … in their order"
    )
    yield from _rows(
        objects.of_class < 0,
        lambda row: f"class '{objects.cls(row)}' is unknown; there are {', '.join(OBJECT_CLASSES)}",
    )


def _sizes(objects: ObjectColumns, params: CkksParameters) -> Broken:
    most, wide = params.num_q, params.num_p
    inside = (objects.limbs >= 1) & (objects.limbs <= most)
    yield from _rows(~inside, lambda row: f"{objects.limbs[row]} limbs; the set has 1 to {most}")
    limbs = np.where(inside, objects.limbs, 1)
    one = limbs * params.polynomial_bytes(1)
    both = (limbs + wide) * params.polynomial_bytes(1)
    digits = -(-limbs // params.digit_limbs)
    key = np.asarray([params.stored_key_bytes(n) for n in range(most + 1)], dtype=np.int64)[limbs]
    for row, name in objects.keys.items():
        if name in SINGLE_KEYS or _rotates_small(name, params.small_ring_dim):
            key[row] = params.stored_key_bytes(int(limbs[row]), key=name)
    size = objects.bytes
    tiny = np.full(len(objects), max(params.small_bytes(1), 1))
    whole_small = (size > 0) & (size % tiny == 0) & (params.small_ring_dim > 0)
    for cls, right, whole in (
        ("ciphertext", (size > 0) & (size % one == 0), one),
        ("plaintext", (size == one) | (size == both), one),
        ("digits", size == digits * both, digits * both),
        ("extended", size == 2 * both, 2 * both),
        ("key", size == key, key),
        ("small", whole_small, tiny),
        ("stored", whole_small, tiny),
    ):
        polynomial = " a polynomial"
        also = {
            "ciphertext": polynomial, "plaintext": ", with those of P more", "small": polynomial, "stored": polynomial
        }.get(cls, "")  # fmt: skip
        for row in np.flatnonzero(objects.is_class(cls) & inside & ~right).tolist():
            yield row, f"{size[row]} bytes; {cls} at {limbs[row]} limbs has {whole[row]}{also}"


def _key_objects(objects: ObjectColumns, params: CkksParameters, used: Mapping[str, int] | None) -> Broken:
    """`used`: of truncated keys, the most limbs at which each is used."""
    seen: dict[str, int] = {}
    for row, name in objects.keys.items():
        small = _rotates_small(name, params.small_ring_dim)
        if name is None or not (name in SINGLE_KEYS or small or _rotates(name, params.ring_dim)):
            yield row, f"key '{name}'; keys are {', '.join(SINGLE_KEYS)} and {_rotation_rule(params.ring_dim)}"
        elif seen.setdefault(name, row) != row:
            yield row, f"key '{name}' is object {seen[name]} already; a key is one object"
        limbs = objects.limbs[row]
        if used is None and limbs != params.num_q:
            yield row, f"key at {limbs} limbs; a key is stored at all {params.num_q}"
        if used is not None and limbs < used.get(name or "", 0):
            yield row, f"key truncated to {limbs} limbs; an operation uses it at {used[name or '']}"


def _rotates(key: str, ring_dim: int) -> bool:
    """Whether a key's name is `rot:` and a power of 5 modulo 2N: a number that is 1 modulo 4."""
    element = key.removeprefix("rot:")
    return key != element and element.isdecimal() and len(element) < 12 and _turns(int(element), ring_dim)


def _rotates_small(key: str | None, small_ring_dim: int) -> bool:
    """Whether a key's name is `rot-small:` and an odd number below 2n."""
    element = (key or "").removeprefix(f"{SMALL_ROTATION}:")
    if key == element or not element.isdecimal() or len(element) > 11:
        return False
    return int(element) % 2 == 1 and int(element) < 2 * small_ring_dim


def _turns(element: int, ring_dim: int) -> bool:
    return element % 4 == 1 and element < 2 * ring_dim


def _rotation_rule(ring_dim: int) -> str:
    return f"rot:<galois_element>, a power of 5 modulo {2 * ring_dim}"


# Operations.


def _operation_rows(ops: OperationColumns, params: CkksParameters) -> Broken:
    ids = ints_of(ops.table, "id")
    yield from _rows(ids != np.arange(len(ops)), lambda row: f"id {ids[row]}; ids are 0, 1, 2, … in their order")
    yield from _rows(
        ops.per_kind(lambda _: 0, 1) > 0, lambda row: "unknown kind; 'docs/reference/trace-format.md' has the list"
    )
    composite = ops.of_kinds(lambda kind: TRAITS[kind].composite)
    asked, whole, inside = (ops.of_origin(name) for name in (ORIGIN_CALLED, ORIGIN_COMPOSITE, ORIGIN_MODELLED))
    yield from _rows(
        ~(asked | whole | inside),
        lambda row: (
            f"unknown origin '{ops.origin(row)}'; it is {ORIGIN_CALLED}, {ORIGIN_COMPOSITE} or {ORIGIN_MODELLED}"
        ),
    )
    yield from _rows(
        whole & ~composite, lambda row: f"origin '{ORIGIN_COMPOSITE}'; only calls of {_listed(_composite_names())} are"
    )
    yield from _rows(
        composite & ~whole, lambda row: f"origin '{ops.origin(row)}'; a call of a composite is '{ORIGIN_COMPOSITE}'"
    )
    for name, limbs in (("limbs_in", ops.limbs_in), ("limbs_out", ops.limbs_out)):
        for row in np.flatnonzero((limbs < 1) | (limbs > params.num_q)).tolist():
            yield row, f"{name} is {limbs[row]}; the set has 1 to {params.num_q} limbs"
    yield from _rows(
        (ops.limbs_out > ops.limbs_in) & ~ops.of_kinds(lambda kind: kind is OpKind.MOD_RAISE or TRAITS[kind].composite),
        lambda row: f"{ops.limbs_in[row]} limbs become {ops.limbs_out[row]}; only mod_raise and composites add limbs",
    )
    yield from _rows(
        ops.of_kinds(lambda kind: kind is OpKind.TO_SPARSE) & (ops.limbs_in > 1),
        lambda row: f"computes at {ops.limbs_in[row]} limbs; the sparse secret is safe at one limb only",
    )
    small = ops.of_kinds(lambda kind: kind in SMALL_KINDS)
    yield from _rows(
        small & (ops.limbs_in > 1),
        lambda row: f"computes at {ops.limbs_in[row]} limbs; the small ring has the first limb only",
    )
    yield from _rows(
        small & (params.small_ring_dim == 0),
        lambda row: f"set '{params.name}' has no small ring; take one with small_ring_dim",
    )
    for name in ("implied_rescales", "implied_scalar_mults"):
        implied = ints_of(ops.table, name)
        for row in np.flatnonzero(implied < 0).tolist():
            yield row, f"{name} is {implied[row]}; it is not negative"


def _composite_names() -> list[str]:
    return [kind.value for kind in OpKind if TRAITS[kind].composite]


def _listed(names: Iterable[str]) -> str:
    return ", ".join(names) or "none"


def _operands(ops: OperationColumns, objects: ObjectColumns) -> Broken:
    any_number = ops.of_kinds(_is_any_number)
    wanted = ops.per_kind(lambda kind: len(TRAITS[kind].takes), -1)
    wrong = (ops.counts != wanted) & (wanted >= 0) & ~any_number
    wrong |= (ops.counts == 0) & ops.of_kinds(lambda kind: TRAITS[kind].operands == MANY and not TRAITS[kind].composite)
    yield from _rows(
        wrong, lambda row: f"{ops.counts[row]} operands; this kind takes {wanted[row]} ({_takes(ops, row)})"
    )
    row_of, operands = ops.row_of, ops.operands
    there = (operands >= 0) & (operands < len(objects))
    for at in np.flatnonzero(~there).tolist():
        yield int(row_of[at]), f"operand {operands[at]} is not an object; ids of objects are below {len(objects)}"
    row_of, operands, place = row_of[there], operands[there], ops.place_of[there]
    # The class that each place of each kind takes; -2: any that holds ciphertexts.
    last = max(len(row.takes) for row in TRAITS.values())
    table = np.full((len(ops.known) + 1, last), -2, dtype=np.int64)
    for code, kind in enumerate(ops.known):
        if kind is not None and not _is_loose(kind):
            takes = TRAITS[kind].takes * (last if _is_any_number(kind) else 1)
            table[code, : len(takes)] = [OBJECT_CLASSES.index(cls) for cls in takes]
    wanted_class = table[ops.kinds[row_of], np.minimum(place, last - 1)]
    classes = objects.of_class[operands]
    loose = np.isin(classes, [OBJECT_CLASSES.index(cls) for cls in ("ciphertext", "digits", "extended")])
    fits = np.where(wanted_class == -2, loose, classes == wanted_class)
    for at in np.flatnonzero(~fits & ~wrong[row_of]).tolist():
        row, operand = int(row_of[at]), operands[at]
        yield row, f"operand {operand} is of class {objects.cls(operand)}; this kind takes {_takes(ops, row)}"
    for at in np.flatnonzero(fits & (ops.limbs_in[row_of] > objects.limbs[operands])).tolist():
        row, operand = int(row_of[at]), operands[at]
        fault = f"computes at {ops.limbs_in[row]} limbs, operand {operand} has {objects.limbs[operand]}"
        yield row, f"{fault}; operands have as many limbs or more"


def _takes(ops: OperationColumns, row: int) -> str:
    kind = ops.known[ops.kinds[row]]
    return _listed(("ciphertext",) if kind is None else TRAITS[kind].takes)


def _results(ops: OperationColumns, objects: ObjectColumns) -> Broken:
    decrypts = ops.of_kinds(lambda kind: kind is OpKind.DECRYPT)
    output = ops.output
    none = np.asarray(ops.table["output"].is_null().to_numpy(), dtype=bool)
    yield from _rows(none & ~decrypts, lambda row: "no output; only decrypt makes none")
    yield from _rows(~none & decrypts, lambda row: f"output {output[row]}; decrypt makes none")
    there = ~none & (output >= 0) & (output < len(objects))
    yield from _rows(
        ~none & ~there, lambda row: f"output {output[row]} is not an object; ids of objects are below {len(objects)}"
    )
    rows = np.flatnonzero(there & ~decrypts)
    made = output[rows]
    first_made = np.full(len(objects), _NEVER)
    np.minimum.at(first_made, made, rows)
    first_used = np.full(len(objects), _NEVER)
    read = (ops.operands >= 0) & (ops.operands < len(objects))
    np.minimum.at(first_used, ops.operands[read], ops.row_of[read])
    again = (first_made[made] < rows) & ~ops.of_origin(ORIGIN_COMPOSITE)[rows]
    for row in rows[again].tolist():
        yield row, f"output {output[row]} was made by operation {first_made[output[row]]} already; each is made once"
    for row in rows[(first_made[made] == rows) & (first_used[made] <= rows)].tolist():
        yield row, f"output {output[row]} was used by operation {first_used[output[row]]} before it was made"
    for row in rows[objects.limbs[made] != ops.limbs_out[rows]].tolist():
        yield row, f"output has {objects.limbs[output[row]]} limbs, the row says {ops.limbs_out[row]}; they are equal"
    makes = ops.per_kind(lambda kind: place_in(TRAITS[kind].makes, OBJECT_CLASSES), -1)
    for row in rows[(objects.of_class[made] != makes[rows]) & (makes[rows] >= 0)].tolist():
        fault = f"output {output[row]} is of class {objects.cls(output[row])}"
        yield row, f"{fault}; this kind makes {OBJECT_CLASSES[makes[row]]}"


def _plaintexts(ops: OperationColumns, objects: ObjectColumns) -> Broken:
    encoded = ops.of_kinds(lambda kind: TRAITS[kind].constants == 1)
    none = np.asarray(ops.table["plaintext"].is_null().to_numpy(), dtype=bool)
    plaintext = ints_of(ops.table, "plaintext")
    # A composite may name its arguments.
    yield from _rows(
        ~none & ~encoded & ~ops.of_kinds(lambda kind: TRAITS[kind].composite),
        lambda row: f"plaintext {plaintext[row]}; this kind takes none",
    )
    yield from _rows(none & encoded, lambda row: "no plaintext; this kind takes one")
    there = (plaintext >= 0) & (plaintext < len(objects))
    right = np.zeros(len(ops), dtype=bool)
    right[there] = objects.is_class("plaintext")[plaintext[there]]
    yield from _rows(~none & ~right, lambda row: f"plaintext {plaintext[row]} is not a plaintext object")
    limbs = np.full(len(ops), _NEVER)
    limbs[right] = objects.limbs[plaintext[right]]
    yield from _rows(
        limbs < ops.limbs_in,
        lambda row: f"computes at {ops.limbs_in[row]} limbs, plaintext {plaintext[row]} has {limbs[row]}",
    )


def _keys(ops: OperationColumns, objects: ObjectColumns, params: CkksParameters) -> Broken:
    ring_dim = params.ring_dim
    codes, names = text_codes(ops.table["key"])
    stored = set(objects.keys.values())
    which = ("", "rot", *SINGLE_KEYS, "rot-small")
    wanted = ops.per_kind(lambda kind: which.index(TRAITS[kind].key or ""), -1)
    read = codes >= 0

    def name_of(row: int) -> str:
        return names[codes[row]]

    yield from _rows(read & (wanted == 0), lambda row: f"reads key '{name_of(row)}'; this kind reads none")
    yield from _rows(~read & (wanted > 0), lambda row: f"names no key; this kind reads one ({which[wanted[row]]})")
    # The possible readings of each name, then whether there is such an object; the last entry means no key.
    small = params.small_ring_dim
    known = [
        which.index(n) if n in SINGLE_KEYS
        else which.index("rot-small") if _rotates_small(n, small)
        else 1 if _rotates(n, ring_dim) else 0
        for n in names
    ]  # fmt: skip
    reading_of = np.asarray([*known, -1], dtype=np.int64)[codes]
    yield from _rows(
        read & (wanted == 1) & (reading_of != 1),
        lambda row: f"key '{name_of(row)}'; a rotation reads {_rotation_rule(ring_dim)}",
    )
    yield from _rows(
        read & (wanted > 1) & (reading_of != wanted),
        lambda row: f"key '{name_of(row)}'; this kind reads '{which[wanted[row]]}'",
    )
    absent = np.asarray([*(name not in stored for name in names), False])[codes]
    yield from _rows(
        absent & (reading_of == wanted),
        lambda row: f"key '{name_of(row)}' is not an object of class key; every key is one",
    )


def _steps(ops: OperationColumns, ring_dim: int) -> Broken:
    none = np.asarray(ops.table["step"].is_null().to_numpy(), dtype=bool)
    steps = np.asarray(ops.table["step"].fill_null(0).to_numpy(), dtype=np.int64)
    turns = ops.of_kinds(lambda kind: TRAITS[kind].key == "rot")
    half = ring_dim // 2
    yield from _rows(~none & ~turns, lambda row: f"step {steps[row]}; only rotations have one")
    outside = turns & (abs(steps) > half)
    yield from _rows(outside, lambda row: f"step {steps[row]}; a ring of {ring_dim} has {half} slots to turn by")
    codes, names = text_codes(ops.table["key"])
    right = np.asarray([*(_rotates(name, ring_dim) for name in names), False])[codes]
    rows = np.flatnonzero(turns & ~none & ~outside & right)
    width = ring_dim + 1
    distinct, of_row = np.unique(codes[rows] * width + steps[rows] + half, return_inverse=True)
    agree = [names[pair // width] == rotation_key(pair % width - half, ring_dim) for pair in distinct.tolist()]
    for row in rows[~np.asarray(agree, dtype=bool)[of_row]].tolist():
        right_key = rotation_key(int(steps[row]), ring_dim)
        yield row, f"key '{names[codes[row]]}' does not rotate by {steps[row]}; {right_key} does"


def _times(ops: OperationColumns) -> Broken:
    start, end = (ops.table[name] for name in ("start_s", "end_s"))
    missing = [np.asarray(column.is_null().to_numpy(), dtype=bool) for column in (start, end)]
    a, b = (np.asarray(column.fill_null(0.0).to_numpy(), dtype=np.float64) for column in (start, end))
    # Written so that a time that is not a number is wrong too.
    right = (a >= 0) & (b >= a) & np.isfinite(b)

    def shown(row: int) -> str:
        return " to ".join("none" if no[row] else f"{at[row]:g}" for no, at in zip(missing, (a, b), strict=True))

    yield from _rows(
        ~right | (missing[0] != missing[1]),
        lambda row: f"times {shown(row)}; both or neither, in seconds from 0 on, the end not before the start",
    )


def _composites(ops: OperationColumns) -> Broken:
    """A composite's result is that of the last row of its expansion; n in one scope have those of the last n."""
    codes, names = text_codes(ops.table["scope"])
    inside, whole = ops.of_origin(ORIGIN_MODELLED), ops.of_origin(ORIGIN_COMPOSITE)
    last_in: dict[str, int] = {}
    calls = Counter(codes[whole].tolist())
    ends = np.flatnonzero(inside)
    rows = np.flatnonzero(inside & (codes >= 0))
    last_of = np.full(len(names), -1)
    np.maximum.at(last_of, codes[rows], rows)
    for code in np.flatnonzero(last_of >= 0).tolist():
        parts = names[code].split("/")
        for end in range(1, len(parts) + 1):
            path = "/".join(parts[:end])
            last_in[path] = max(last_in.get(path, -1), int(last_of[code]))
    for row in np.flatnonzero(whole & (codes >= 0)).tolist():
        last = last_in.get(names[codes[row]])
        if last is None:
            continue
        place = int(np.searchsorted(ends, last)) + 1
        results = ops.output[ends[max(0, place - calls[codes[row]]) : place]]
        if ops.output[row] not in results:
            made = ", ".join(str(result) for result in results)
            yield row, f"output {ops.output[row]}; its expansion ends with operation {last}, which makes {made}"
