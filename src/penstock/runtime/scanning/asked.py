"""Encrypted databases made of options: how large they are, and under which budget of memory they load."""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping
from dataclasses import asdict, replace
from pathlib import Path

from penstock.base.types import Row
from penstock.errors import UsageError
from penstock.program.database.content import Content, FromFile, Generated
from penstock.program.database.description import CIPHERTEXTS, MATCH, PIR, RECORDS, SSC, Description
from penstock.runtime.native.memory import peak_resident_bytes
from penstock.runtime.native.sharing import MemoryPlan
from penstock.runtime.scanning.load import check_vectors, make, planned_entry_bytes, planned_memory
from penstock.runtime.scanning.store import Database, DatabaseLayout
from penstock.scheme.params import catalogue

DEFAULT_PARAMS = {PIR: "openfhe-pir", SSC: "openfhe-ssc", MATCH: "openfhe-pir"}
MAKES = {
    "record_bytes": (PIR, MATCH), "bits_per_slot": (PIR, MATCH), "features": (SSC,), "batch": (SSC,),
    "encrypted": (PIR,),
}  # fmt: skip
"""Options of `make` that some kinds alone have."""


def made(
    folder: Path,
    given: Collection[str],
    *,
    kind: str,
    params: str | None,
    records: int | None,
    size: int | None,
    record_bytes: int,
    bits_per_slot: int,
    features: int,
    batch: int | None,
    encrypted: bool,
    data: Path | None,
    segment: int,
    memory: int | None,
    client_library: str | None,
    dry_run: bool,
    force: bool,
    seed: int,
    on_segment: Callable[[int, int], None],
) -> Row:
    """Make a database in a folder, or go on with a load; with `dry_run` only say how large it would be.

    Args:   given: names of the options that somebody stated; others as of `penstock database make`, sizes in bytes.
    Returns: its description and times as one row.
    Raises: UsageError: options of another kind, or none or several that say how large; as
            `penstock.runtime.scanning.load.make`.
    """
    refuse_of_other_kinds(kind, MAKES, given)
    checked = catalogue.get(params or DEFAULT_PARAMS[kind])
    if sum(stated is not None for stated in (records, size, data)) != 1:
        raise UsageError("say how large: one of --records, --size or --data")
    scored = kind == SSC
    width = features if scored else record_bytes
    file = FromFile(data, kind, width) if data is not None else None
    one = Description(
        kind=kind,
        params=checked,
        stored=CIPHERTEXTS if kind != PIR or encrypted else RECORDS,
        records=file.records if file else records or 1,
        **_packing_of(kind, record_bytes, bits_per_slot, features, batch),
    )
    count = one.records if size is None else _records_in(one, size, planned_entry_bytes(one, client_library))
    content: Content = file if file is not None else Generated(kind, count, width, seed)
    description = replace(one, records=count, source=content.identity)
    segment, planned = _segment_of(description, client_library, segment, memory, given)
    layout = DatabaseLayout.of(description, segment, planned_entry_bytes(description, client_library))
    result = _without_packing(_described(folder, description, layout))
    result["raw_bytes"] = count * (width * 4 if scored else width)
    if dry_run:
        check_vectors(description, content)
    else:
        how: Row = {"force": force, "library": client_library, "on_segment": on_segment}
        database, times = make(folder, description, content, segment_bytes=segment, **how)
        # Of the folder: a ciphertext's size is the library's, and a load that goes on keeps its segments.
        result |= _without_packing(described(database))
        result |= {"provenance": "measured", **asdict(times)}
    return result | _of_load(planned, dry_run)


def _packing_of(kind: str, record_bytes: int, bits_per_slot: int, features: int, batch: int | None) -> Row:
    """The packing that a kind has, as fields of a description."""
    if kind == SSC:
        return {"features": features, "batch": batch or 0}
    return {"record_bytes": record_bytes, "bits_per_slot": bits_per_slot}


def _segment_of(
    description: Description, library: str | None, segment: int, memory: int | None, given: Collection[str]
) -> tuple[int, MemoryPlan | None]:
    """The bytes of a segment, and the plan of a budget that decides them. Raises: UsageError: both are stated."""
    if memory is None:
        return segment, None
    if "segment" in given:
        raise UsageError("--memory decides --segment: leave one of them out")
    planned = planned_memory(description, library, memory)
    return planned.given("segment"), planned


def _of_load(planned: MemoryPlan | None, dry_run: bool) -> Row:
    """The columns of a budget of memory."""
    if planned is None:
        return {}
    return {
        "memory_bytes": planned.memory_bytes,
        "predicted_peak_bytes": planned.total_bytes,
        "memory_plan": planned.words(),
        **({} if dry_run else {"peak_bytes": peak_resident_bytes()}),
    }


def refuse_of_other_kinds(kind: str, options: Mapping[str, tuple[str, ...]], given: Collection[str]) -> None:
    """Raises: UsageError: an option stands on the command line that this kind of database does not have."""
    for name, kinds in options.items():
        if name in given and kind not in kinds:
            raise UsageError(
                f"--{name.replace('_', '-')} is for {' and '.join(kinds)} databases, and this is for {kind}: leave it "
                "out"
            )


def _records_in(one: Description, size: int, entry_bytes: int) -> int:
    """Records of a database of about `size` bytes: whole entries."""
    plan = one.plan()
    stride = DatabaseLayout.of(one, size, entry_bytes).stride
    if one.kind == PIR:
        of_block = 1 if one.stored == RECORDS else one.packing.columns
        return max(1, size // (stride * of_block)) * one.params.slots
    assert not hasattr(plan, "blocks")
    return max(1, size // stride) * int(plan.per_object)


def described(database: Database) -> Row:
    """Kind, parameters, packing and size of a database, as one row; bytes on disk."""
    return _described(database.path, database.description, database.layout)


def _described(folder: Path, of: Description, layout: DatabaseLayout) -> Row:
    return {
        "folder": str(folder), "kind": of.kind, "params": of.params.name,
        "security_bits": of.params.security_bits, "stored": of.stored, "records": of.records,
        "record_bytes": of.record_bytes or None, "bits_per_slot": of.bits_per_slot or None,
        "features": of.features or None, "entries": layout.num_entries, "entry_bytes": layout.entry_bytes,
        "segments": layout.num_segments, "database_bytes": layout.total_bytes,
    }  # fmt: skip


def _without_packing(row: Row) -> Row:
    return {name: value for name, value in row.items() if name not in ("record_bytes", "bits_per_slot", "features")}
