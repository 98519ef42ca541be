"""Writes the golden files again: `python tests/golden/make.py [NAME…]`. A name is a folder next to this file.

A format that moves on purpose gets its new number first. Its old fixture stays as it is, and a maker is added for the
new number. Makers here are for formats that hold no secret; `make_secret.py` has the others.

Two old numbers have no writer in penstock any more. `bench/1` is written here from the columns of commit 98c4c172, and
that commit's own code writes the same bytes of these rows. `key-index/1` is written from the table of commit f9f22d55.
All other numbers are still written: those of keys' files and of pairs follow from what the file holds.
"""

from __future__ import annotations

import json
import shutil
import sqlite3
import sys
from collections.abc import Callable, Iterator, Mapping
from contextlib import closing, contextmanager
from pathlib import Path
from typing import Any

if __name__ == "__main__":
    sys.path.insert(0, str(Path(__file__).parents[1]))

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from golden.fixtures import ROOT, WHOLE, cut, flipped, params_of, replaced, twin
from penstock.base.runs.folder import RunFolder
from penstock.base.runs.record import json_bytes
from penstock.base.system.tables import parquet
from penstock.lab.measure.bench.results import BENCH_SCHEMA, table_of
from penstock.lab.sweeps.plan import plan
from penstock.lab.sweeps.run import config_of, run_sweep
from penstock.lab.sweeps.spec import parse_sweep
from penstock.program.evaluator.symbolic import SymbolicEvaluator
from penstock.program.package.builder import PackageBuilder
from penstock.program.package.content import Input, Output, Verb
from penstock.program.package.file import PackageFile
from penstock.program.running.trace_pack import write_pack
from penstock.scheme.params.ckks import Scaling
from penstock.scheme.traces.export import export
from penstock.scheme.traces.io import write_trace
from penstock.scheme.traces.schema import Trace, TraceMeta
from penstock.service.near.frames import Kind, encode_prefix
from support.toy import toy_bootstrap

Maker = Callable[[Path], None]
"""Writes a fixture and its twins into a folder, which exists and is empty."""


# Traces.


def trace() -> Trace:
    """Every column in use: plaintexts, rotations, hoisting, implied rescales, scopes, a composite and its expansion."""
    ev = SymbolicEvaluator(toy_bootstrap(Scaling.FLEXIBLE_AUTO))
    a, b = ev.encrypt(np.zeros(256), name="a"), ev.encrypt(np.zeros(256), name="b")
    with ev.scope("body"):
        product = ev.mult(ev.mult(a, b), ev.encode(np.ones(256), name="mask"))
        left, right = ev.rotate_many(product, [1, -2])
        total = ev.add(ev.conjugate(left), right)
    with ev.scope("series"):
        total = ev.chebyshev_series(total, [1.0, 0.5, 0.25], -1, 1)
    ev.decrypt(ev.sub(total, 1.0))
    return ev.builder.finish(TraceMeta(workload="golden", params=ev.params.to_dict(), reading="trace", seed=0))


def make_trace(folder: Path) -> None:
    export(trace(), folder / WHOLE / "trace.jsonl", "jsonl")
    write_trace(trace(), folder / WHOLE / "trace.parquet")
    twin(folder, "cut", "trace.parquet", cut(2000))
    twin(folder, "cut", "trace.jsonl", cut(2000))


# Run folders. The machine, the versions and the times are invented.

WHEN = "2026-01-02T03:04:05+00:00"
ELSEWHERE = {
    "id": "0123456789abcdef", "penstock_version": "0.1.0", "commit": None, "openfhe_version": "1.6.1",
    "python_version": "3.10.0", "started": WHEN,
    "host": {
        "cpu_model": "an imagined CPU", "cores": 4, "memory_bytes": 16 * 2**30, "kernel": "Linux",
        "architecture": "x86_64", "governor": "performance",
    },
}  # fmt: skip
ROWS: dict[str, list[dict[str, Any]]] = {
    "measured": [{"quantity": "wall_s", "value": 1.5, "unit": "s", "provenance": "measured"}],
    "bytes": [{"quantity": "bytes_touched", "value": 3e9, "unit": "B", "provenance": "measured", "kind": "key"}],
}
"""Stage -> its rows."""
SWEEP = """
workload = "inner-product"
params = "sharp"
machine = "sharp"
tier = ["hbm", "pcie5"]
"""


@contextmanager
def _run_elsewhere(path: Path, config: Mapping[str, Any]) -> Iterator[RunFolder]:
    """A run folder to write, of an imagined machine."""
    with RunFolder.create(path, config) as run:
        run.record.update(ELSEWHERE)
        yield run
        ended = json.loads((path / ".complete").read_text())
        (path / ".complete").write_bytes(json_bytes({**ended, "finished": WHEN}))
    (path / ".lock").unlink()


def make_run(folder: Path) -> None:
    with _run_elsewhere(folder / WHOLE, {"workload": "golden", "params": "insecure-golden", "seed": 7}) as run:
        for stage, rows in ROWS.items():
            run.append_rows(stage, rows)
        run.warn("the golden run was never run", "read its rows")
        run.finish()
    twin(folder, "damaged", "stages/bytes.parquet", flipped(200))
    twin(folder, "cut", "run.json", cut(300))


def make_sweep(folder: Path) -> None:
    sweep = parse_sweep(SWEEP, "golden")
    points = plan(sweep)
    with _run_elsewhere(folder / WHOLE, config_of(sweep, points)) as run:
        run_sweep(points, run, workers=1)
    twin(folder, "damaged", ".complete", replaced('"sha256": "', '"sha256": "0'))
    twin(folder, "cut", "results.parquet", cut(2000))


# Benchmark results.

SINCE_2 = ("first_mod_bits", "q_bits", "p_bits", "digit_limbs", "parameters", "joules_per_call", "started_s")
"""Columns that results of number 1 lack."""


def bench_rows() -> list[dict[str, Any]]:
    """Three runs of one point, with invented times."""
    params = params_of(limbs=2)
    point = {
        "point": "add/golden", "suite": "golden", "group": "primitives", "item": "add", "kind": "add",
        "params": params.name, "ring_dim": params.ring_dim, "slots": params.slots, "depth": params.depth,
        "num_q": params.num_q, "num_p": params.num_p, "dnum": params.dnum, "scale_bits": params.scale_bits,
        "scaling": params.scaling.value, "secret": params.secret, "security_asked": 0, "security_bits": 0,
        "first_mod_bits": 50, "q_bits": list(params.q_bits), "p_bits": list(params.p_bits),
        "digit_limbs": params.digit_limbs, "parameters": json.dumps(params.to_dict()), "limbs": 2, "threads": 1,
        "across": 1, "condition": "warm", "reading": "openfhe", "provenance": "measured", "passed": True,
    }  # fmt: skip
    return [
        {
            **point, "run": run, "calls": 2, "seconds_per_call": 1e-3 * (1 + run), "total_s": 2e-3 * (1 + run),
            "wall_s": 2e-3 * (1 + run), "samples_s": [1e-3 * (1 + run)] * 2, "started_s": 1e9 + run,
        }
        for run in range(3)
    ]  # fmt: skip


def make_bench(folder: Path) -> None:
    parquet.write_table(table_of(bench_rows()), folder / WHOLE / "bench.parquet", compression="zstd")
    twin(folder, "cut", "bench.parquet", cut(1000))


def make_bench_2(folder: Path) -> None:
    """Without the reading."""
    table = table_of(bench_rows()).drop_columns(["reading"])
    table = table.replace_schema_metadata({b"penstock_bench_schema": b"2"})
    parquet.write_table(table, folder / WHOLE / "bench.parquet", compression="zstd")
    twin(folder, "cut", "bench.parquet", cut(1000))


def make_bench_1(folder: Path) -> None:
    """Eight columns fewer, no number, no seal and no checksum of pages: a reader only sees that such a file is cut."""
    newer = {*SINCE_2, "reading"}
    columns = [column for column in BENCH_SCHEMA if column.name not in newer]
    rows = [{name: row[name] for name in row if name not in newer} for row in bench_rows()]
    pq.write_table(
        pa.Table.from_pylist(rows, schema=pa.schema(columns)), folder / WHOLE / "bench.parquet", compression="zstd"
    )
    twin(folder, "cut", "bench.parquet", cut(1000))


# Packages.


def make_package(folder: Path) -> None:
    with PackageFile(folder / WHOLE / "score.pkg") as file:
        builder = PackageBuilder(file)
        x = builder.encrypt(Input("x", length=4))
        weighted = builder.add(Verb.MULT_PLAIN, [x], constants=[builder.constant([0.5, 1.0, -2.0, 0.25])])
        turned = builder.add(Verb.ROTATE, [builder.add(Verb.RESCALE, [weighted])], argument=1)
        builder.output(builder.add(Verb.ADD_SCALAR, [turned], number=0.125), Output("score", length=4))
        made = builder.finish("score", params_of(limbs=2), file, description="a golden file", provenance={"by": "hand"})
        file.finish(made)
    twin(folder, "damaged-constant", "score.pkg", flipped(20))
    twin(folder, "damaged-tables", "score.pkg", flipped(-100))
    twin(folder, "cut", "score.pkg", cut(200))


# Frames.

_CIPHERTEXT = {"polynomials": 2, "limbs": 1, "degree": 1, "scale": 2.0**50, "slots": 8}
FRAMES: list[tuple[Kind, dict[str, Any], int]] = [
    (Kind.HELLO, {"token": "00ff", "tenant": "alice", "digest": "0" * 32, "key_tag": "f" * 32}, 0),
    (Kind.WELCOME, {"max_body_bytes": 4096}, 0),
    (Kind.ROTATE, {**_CIPHERTEXT, "element": 5}, 8),
    (Kind.RESULT, _CIPHERTEXT, 8),
    (Kind.ROTATE_HOISTED, {**_CIPHERTEXT, "element": 25}, 0),
    (Kind.RELINEARIZE, {**_CIPHERTEXT, "polynomials": 3}, 12),
    (Kind.PULL, {"key": "relin", "limbs": 1}, 0),
    (Kind.KEY_ROWS, {"limbs": 1}, 16),
    (Kind.ERROR, {"message": "no such key"}, 0),
]
"""Kind, header and words of the body of each frame. Word k of a body is k times the constant below, modulo 2^64."""
STRIDE = 0x9E3779B97F4A7C15


def words_of(count: int) -> np.ndarray:
    """The body of a frame."""
    return (np.arange(count, dtype=np.uint64) * np.uint64(STRIDE)).astype("<u8")


def make_frames(folder: Path) -> None:
    content = b"".join(
        encode_prefix(kind, header, 8 * count) + words_of(count).tobytes() for kind, header, count in FRAMES
    )
    (folder / WHOLE / "frames.bin").write_bytes(content)
    twin(folder, "damaged-magic", "frames.bin", flipped(0))
    twin(folder, "damaged-header", "frames.bin", flipped(20))
    twin(folder, "damaged-length", "frames.bin", flipped(12))
    twin(folder, "later", "frames.bin", flipped(4, 3))
    twin(folder, "cut", "frames.bin", cut(len(content) - 10))


# The state of the service.

NOW = 1e9
TOKEN = f"pst_{'01' * 8}_{'23' * 32}"
"""A toy: no service ever took it."""
BLOB = "ab" * 32
UPLOAD = {"upload": "up-1", "tenant": "alice", "kind": "key", "bytes": 5, "sha256": "cd" * 32, "expires_s": NOW + 50}
JOB = {
    "job": "job-1", "tenant": "alice", "client_job": "first", "digest": "0" * 32, "request": '{"inputs": {}}',
    "program": "score", "package": BLOB, "state": "queued", "attempts": 1, "submitted_s": NOW, "output_bytes": 0,
}  # fmt: skip


def make_service_state(folder: Path) -> None:
    """The tables as SQLite dumps them: its file takes three times the room."""
    from penstock.service.state.state import ServiceState
    from penstock.service.state.tokens import Caller, digest_of, parse_token

    path = folder / "state.sqlite"
    state = ServiceState(f"sqlite:///{path}", clock=lambda: NOW)
    parsed = parse_token(TOKEN)
    assert parsed is not None
    state.add_tenant("alice")
    state.add_token(parsed[0], digest_of(parsed[1]), "alice", ("run", "read"), NOW + 100)
    state.add_upload(UPLOAD, most=1)
    state.end_upload("alice", "none", {"tenant": "alice", "sha256": BLOB, "kind": "package", "bytes": 7})
    state.put_program("alice", "score", BLOB, {"inputs": ["x"]})
    state.add_job(JOB, most=1)
    state.record(Caller(tenant="alice", token=parsed[0], scopes=frozenset()), "submit", "job-1")
    state.close()
    with closing(sqlite3.connect(path)) as tables:
        (folder / WHOLE / "state.sql").write_text("\n".join(tables.iterdump()) + "\n")
    path.unlink()
    twin(folder, "later", "state.sql", replaced("VALUES('version','1')", "VALUES('version','2')"))


# Trace packs.


def make_trace_pack(folder: Path) -> None:
    write_pack(folder / WHOLE, ["sharp"], ["inner-product"])
    twin(folder, "cut-trace", "sharp/inner-product.parquet", cut(1000))
    twin(folder, "damaged", "manifest.json", replaced('"num_keys"', '"num_kezs"'))
    twin(folder, "later", "manifest.json", replaced('"pack_version": 1', '"pack_version": 2'))
    twin(folder, "cut", "manifest.json", cut(200))


def small_pages(path: Path) -> None:
    """The same SQLite file with the smallest pages: each table and each index takes one at least."""
    with closing(sqlite3.connect(path, isolation_level=None)) as state:
        for command in ("PRAGMA journal_mode=DELETE", "PRAGMA page_size=512", "VACUUM"):
            state.execute(command)


MAKERS: dict[tuple[str, int], Maker] = {
    ("trace", 1): make_trace,
    ("run", 1): make_run,
    ("sweep", 1): make_sweep,
    ("bench", 1): make_bench_1,
    ("bench", 2): make_bench_2,
    ("bench", 3): make_bench,
    ("package", 1): make_package,
    ("frames", 1): make_frames,
    ("service-state", 1): make_service_state,
    ("trace-pack", 1): make_trace_pack,
}


def made(maker: Maker, folder: Path) -> Path:
    """The folder, with what the maker writes and nothing else."""
    shutil.rmtree(folder, ignore_errors=True)
    (folder / WHOLE).mkdir(parents=True)
    maker(folder)
    return folder


def main(names: list[str]) -> None:
    """Write the golden files of these names, or all."""
    from golden import make_secret

    makers = MAKERS | make_secret.MAKERS
    known = {name for name, _ in makers}
    if unknown := sorted({*names} - known):
        raise SystemExit(f"no golden files of {', '.join(unknown)}: there are {', '.join(sorted(known))}")
    for (name, number), maker in makers.items():
        if not names or name in names:
            print(made(maker, ROOT / name / str(number)))


if __name__ == "__main__":
    main(sys.argv[1:])
