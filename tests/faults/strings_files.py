"""Mutated bytes of databases on disk and of traces in the wire format of other tools."""

from __future__ import annotations

import copy
import hashlib
import json
import shutil
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np

from faults.fields import LIMITS, set_leaf
from faults.frame import mutated
from faults.strings_ckks import Mutant, Wrong, named
from penstock.errors import PenstockError
from penstock.program.database.content import Generated
from penstock.program.database.description import PIR, RECORDS, Description
from penstock.program.evaluator.symbolic import SymbolicEvaluator
from penstock.runtime.scanning.load import make
from penstock.runtime.scanning.store import HEADER, SEGMENTS, Database
from penstock.runtime.scanning.stream import EntryStream, verify_segment
from penstock.scheme.params import catalogue
from penstock.scheme.params.ckks import CkksParameters
from penstock.scheme.traces.heracles import HeraclesTrace, decode, encode, from_heracles, to_heracles
from penstock.scheme.traces.inspect import problems
from penstock.scheme.traces.schema import TraceMeta

_MAGIC = b"penstock database segment\n"
_DIGEST_BYTES = 32


class Databases:
    """Header and segments: damaged ones, and records whose checksum is made anew."""

    name = "database"

    def __init__(self, folder: Path) -> None:
        whole = replace(catalogue.get("insecure-database"), slots=64)
        records, width = 5 * whole.slots - 3, 6
        description = Description(
            kind=PIR, params=whole, stored=RECORDS, records=records, record_bytes=width, bits_per_slot=24,
            source={"generated": True, "seed": 3},
        )  # fmt: skip
        self.folder = folder
        self.whole = make(folder, description, Generated(PIR, records, width, 3), segment_bytes=2 * 4096)[0]
        self.files = {path.relative_to(folder): path.read_bytes() for path in folder.rglob("*") if path.is_file()}
        self.entries = self._entries(self.whole)

    @staticmethod
    def _entries(database: Database, prefetch: int = 0, direct: bool = False) -> list[bytes]:
        stream = EntryStream(database, lambda number, content: content, prefetch=prefetch, direct=direct)
        return list(stream)

    def check(self, rng: Any, folder: Path) -> tuple[Mutant, str]:
        how = rng.random()
        segment = int(rng.integers(self.whole.layout.num_segments))
        path = Path(HEADER) if how < 0.4 else Path(SEGMENTS) / f"{segment:06d}.seg"
        content = self.files[path]
        if rng.random() < 0.4:
            mutant = Mutant(*mutated(content, rng))
        else:
            mutant = self._header(content, rng) if path == Path(HEADER) else self._segment(content, rng)
        root = folder / "database"
        shutil.rmtree(root, ignore_errors=True)
        for name, whole in (self.files | {path: mutant.content}).items():
            (root / name).parent.mkdir(parents=True, exist_ok=True)
            (root / name).write_bytes(whole)
        prefetch, direct = int(rng.integers(3)), bool(rng.random() < 0.5)
        try:
            database = Database.open(root)
            database.require_complete()
            database.check_keys()
            found = self._entries(database, prefetch, direct)
        except PenstockError as error:
            named(error)
            self._verified(root, segment)
            return mutant, "refused"
        if not mutant.forged and (found != self.entries or replace(database, path=self.folder) != self.whole):
            raise Wrong("a damaged database is read as another one")
        if database.layout.num_entries != database.description.num_entries:
            raise Wrong(f"{database.layout.num_entries} entries of {database.description.num_entries}")
        return mutant, "accepted"

    def _verified(self, root: Path, segment: int) -> None:
        """As a load that goes on looks at what is there."""
        try:
            verify_segment(Database.open(root), segment)
        except PenstockError as error:
            named(error)

    def _header(self, content: bytes, rng: Any) -> Mutant:
        record = json.loads(content)
        record, how = set_leaf(record, rng)
        if rng.random() < 0.2:
            return Mutant(json.dumps(record).encode(), how)
        record.pop("checksum", None)
        if rng.random() < 0.5 and isinstance(params := _at(record, "description", "params"), dict):
            text = json.dumps(params, sort_keys=True, separators=(",", ":"))
            record["params_digest"] = hashlib.sha256(text.encode()).hexdigest()[:16]
            how += ", own digest"
        text = json.dumps(record, sort_keys=True, separators=(",", ":"))
        record["checksum"] = hashlib.sha256(text.encode()).hexdigest()
        return Mutant(json.dumps(record, indent=1).encode(), f"{how}, own checksum", forged=True)

    def _segment(self, content: bytes, rng: Any) -> Mutant:
        size = self.whole.layout.header_bytes
        header, entries = content[:size], content[size:]
        record, how = set_leaf(json.loads(header[len(_MAGIC) : -_DIGEST_BYTES].rstrip(b"\0")), rng)
        text = _MAGIC + json.dumps(record, sort_keys=True, separators=(",", ":")).encode()
        text = text[: size - _DIGEST_BYTES]
        text += bytes(size - _DIGEST_BYTES - len(text))
        return Mutant(text + hashlib.sha256(text).digest() + entries, f"{how}, own checksum", forged=True)


def _at(record: Any, *path: str) -> Any:
    for step in path:
        record = record.get(step) if isinstance(record, dict) else None
    return record


class Wires:
    """HERACLES' traces: mutated bytes, and messages with other numbers and texts."""

    name = "wire trace"

    def __init__(self, params: CkksParameters) -> None:
        ev = SymbolicEvaluator(params)
        a, b = ev.encrypt(np.zeros(params.slots), name="a"), ev.encrypt(np.zeros(params.slots), name="b")
        c = ev.add(ev.conjugate(ev.mult(a, b)), ev.rotate(a, 3))
        ev.decrypt(ev.mult(ev.sub(c, ev.encode(np.ones(params.slots), name="mask")), 0.5))
        trace = ev.builder.finish(TraceMeta(workload="all", params=params.to_dict(), reading="trace"))
        self.params = params
        self.content, _ = to_heracles(trace)
        self.message = decode(self.content)

    def check(self, rng: Any, folder: Path) -> tuple[Mutant, str]:
        mutant = self._message(rng) if rng.random() < 0.5 else Mutant(*mutated(self.content, rng))
        try:
            found = decode(mutant.content)
            if decode(encode(found)) != found:
                raise Wrong("written and read again it is another message")
            trace = from_heracles(mutant.content, self.params if rng.random() < 0.5 else None)
        except PenstockError as error:
            named(error)
            return mutant, "refused"
        broken = list(problems(trace))
        return mutant, "accepted" if not broken else "accepted, its trace refused"

    def _message(self, rng: Any) -> Mutant:
        """A number or a text of the message is another."""
        changed: HeraclesTrace = copy.deepcopy(self.message)
        if rng.random() < 0.4:
            holder: Any = changed
            names = ["scheme", "ring_dim", "key_rns_num", "q_size", "dnum", "alpha"]
        else:
            each = changed.instructions[int(rng.integers(len(changed.instructions)))]
            operands = [*each.dests, *each.srcs]
            holder, names = (each, ["op", "evalop", "params"])
            if operands and rng.random() < 0.6:
                holder, names = operands[int(rng.integers(len(operands)))], ["symbol", "limbs", "order"]
        name = names[int(rng.integers(len(names)))]
        was = getattr(holder, name)
        texts = ("", "x", "bk_", "bk_add", "relin", "rotate", "mul", "ntt", "-1", "²", "1" * 5000, "nan", was)
        if name == "params":
            key = str(rng.choice(["galois_elt", "implied_rescales", "implied_scalar_mults"]))
            numbers = (*texts[:-1], "0", "3", "40000", str(1 << 31), str(1 << 70), "9" * 20)
            holder.params[key] = numbers[int(rng.integers(len(numbers)))]
            return Mutant(encode(changed), f"params {key} = {holder.params[key][:20]}")
        if isinstance(was, str):
            value: Any = texts[int(rng.integers(len(texts)))]
        else:
            value = (*LIMITS, (1 << 64) - 1, was + 1, max(was - 1, 0))[int(rng.integers(len(LIMITS) + 3))]
        setattr(holder, name, value)
        return Mutant(encode(changed), f"{name} {str(was)[:20]} -> {str(value)[:20]}")
