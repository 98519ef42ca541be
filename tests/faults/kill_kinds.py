"""What `kills.py` kills: a command of each verb that writes, what it needs, and what must be the same in every run."""

from __future__ import annotations

import csv
import hashlib
import json
import os
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from faults.frame import Ended, forked

ROOT = Path(__file__).parents[2]
INNER = ("inner-product", "--size", "ci")
ONE = ("--threads", "1")
JSON = ("--format", "json")
SECRET = "0123456789abcdef0123456789abcdef"
SUITE = """
[timing]
min_time = "1 ms"
runs = 2
[[primitives]]
items = ["add", "rotate", "mult"]
ring_dim = "2^11"
depth = 3
"""
SWEEP = """
name = "tiny"
workload = ["inner-product", "matrix-multiplication"]
size = "ci"
machine = ["sharp"]
tier = ["hbm", "pcie5"]
cache = ["8 MB", "64 MB"]
policy = ["lru", "optimal"]
"""
TENANTS = 'store = "keys"\nbudget = "50%"\ntenants = ["alice", "bob"]\n'
JOBS = "\n".join(
    f'[[job]]\ntenant = "{name}"\nworkload = "inner-product"\nsize = "ci"\n' for name in ("alice", "bob", "alice")
)


class Place:
    """The folders of one case: where the command works, its temporary files, and what it said."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.work, self.tmp, self.said = folder / "work", folder / "tmp", folder / "said"

    def make(self) -> Place:
        for each in (self.work, self.tmp, self.said):
            each.mkdir(parents=True, exist_ok=True)
        return self

    def environment(self) -> dict[str, str]:
        """Of the processes of this case: nothing that they write lies elsewhere."""
        paths = [str(Path(each).absolute()) for each in os.environ.get("PYTHONPATH", "").split(os.pathsep) if each]
        own = {"TMPDIR": str(self.tmp), "HOME": str(self.folder), "PYTHONPATH": os.pathsep.join(paths)}
        fixed = {"OMP_NUM_THREADS": "1", "OMP_WAIT_POLICY": "passive", "PYTHONUNBUFFERED": "1"}
        return {**os.environ, **own, **fixed}

    forks = False
    """Whether commands that read run in forks of this process: faster, and nothing for one that has threads."""

    def command(self, *words: str) -> Ended:
        """`penstock words…` from beginning to end."""
        if self.forks:
            return self.call(lambda: _main(words))
        code = "import sys; from penstock.front.cli.main import main; sys.exit(main())"
        done = subprocess.run(
            [sys.executable, "-c", code, *words], capture_output=True, text=True, check=False, timeout=120,
            cwd=self.work, env=self.environment(), stdin=subprocess.DEVNULL,
        )  # fmt: skip
        return Ended(done.returncode, 0.0, 0, done.stdout, done.stderr)

    def call(self, function: Callable[[], int]) -> Ended:
        """`function` in a fork of this process, in this case's folders."""
        environment = self.environment()

        def inside() -> int:
            os.chdir(self.work)
            os.environ.update(environment)
            tempfile.tempdir = None
            return function()

        return forked(inside, self.said, seconds=120)

    def read(self, *words: str) -> Any:
        """What a command prints as JSON. Raises: AssertionError: it fails."""
        done = self.command(*words, *JSON)
        if done.code:
            raise AssertionError(f"penstock {' '.join(words)}: exit code {done.code}: {done.errors.strip()[-300:]}")
        return json.loads(done.output)

    def digests(self, *names: str) -> dict[str, str]:
        """Of files, those below folders too."""
        found = {}
        for name in names:
            path = self.work / name
            below = sorted(path.rglob("*")) if path.is_dir() else [path]
            for each in below:
                if each.is_file():
                    found[str(each.relative_to(self.work))] = hashlib.sha256(each.read_bytes()).hexdigest()[:16]
        return found


def _main(words: Sequence[str]) -> int:
    from penstock.base.system.frames import pandas_left_out
    from penstock.front.cli.main import main

    with pandas_left_out():
        return main(list(words))


Result = Callable[[Place, str], Any]
"""From what a command has written, and printed, to what is the same in every run."""


@dataclass(frozen=True)
class Kind:
    """A command, and how to tell that it did its work."""

    name: str
    words: tuple[str, ...]
    result: Result
    needs: tuple[str, ...] = ()
    """Names of `THINGS` that are there before."""
    reads: tuple[tuple[str, ...], ...] = ()
    """Commands that read what lies there after the kill."""
    whole: Result | None = None
    """Of what the command replaces: the same as before, or as after, at any time."""
    file: bool = False
    """It writes one file: where a second run says that it is there, it is the right one."""
    weight: float = 1.0
    ready: str = ""
    """A server: what it prints when it listens."""


# Results.
def files(*names: str) -> Result:
    return lambda place, said: place.digests(*names)


def said_of(*names: str) -> Result:
    """Values of the printed JSON."""
    return lambda place, said: {name: json.loads(said)[name] for name in names}


def rows_of(name: str, *columns: str, valued: Sequence[str] = ()) -> Result:
    """The rows of a CSV file in these columns, each once; with their values where the machine is one of `valued`."""

    def result(place: Place, said: str) -> Any:
        with (place.work / name).open(newline="") as file:
            rows = list(csv.DictReader(file))
        chosen = sorted({(*(r[c] for c in columns), r["value"] if r["machine"] in valued else "") for r in rows})
        return len(chosen), hashlib.sha256(json.dumps(chosen).encode()).hexdigest()

    return result


def both(*results: Result) -> Result:
    return lambda place, said: [each(place, said) for each in results]


def trace_is(name: str, other: str) -> Result:
    """A recorded trace is the one that `trace` makes, but for its times."""

    def result(place: Place, said: str) -> Any:
        done = place.command("trace", "diff", name, other)
        return done.code, done.output

    return result


def keys_of(store: str) -> Result:
    """The names of whole keys, each of them verified."""

    def result(place: Place, said: str) -> Any:
        verified = place.command("keys", "verify", "--store", store)
        rows = place.read("keys", "ls", "--store", store)
        return verified.code, sorted((row["tenant"], row["key"], row["key_bytes"]) for row in rows)

    return result


def database_of(folder: str, *asked: str) -> Result:
    """What a database answers, and that all of it is whole."""

    def result(place: Place, said: str) -> Any:
        verified = place.command("database", "verify", folder)
        answer = place.read("database", "query", folder, *asked, "--check", "--quiet")
        return verified.code, answer["records"], answer.get("records_hex"), answer["checked"]

    return result


def jobs_passed(place: Place, said: str) -> Any:
    return [(row["tenant"], row["passed"]) for row in json.loads(said)["jobs"]]


def record_is(name: str) -> Result:
    """A record's trace, by its counts."""
    return lambda place, said: (place.read("trace", "info", name)["by_kind"], said)


def nothing(place: Place, said: str) -> Any:
    return None


# What is there before: each is made once, in a folder of its own.
def _ours(*words: str) -> Callable[[Place], None]:
    def make(place: Place) -> None:
        done = place.command(*words)
        if done.code:
            raise RuntimeError(f"penstock {' '.join(words)}: exit code {done.code}\n{done.errors}")

    return make


def _text(name: str, content: str, mode: int = 0o644) -> Callable[[Place], None]:
    def make(place: Place) -> None:
        (place.work / name).write_text(content)
        (place.work / name).chmod(mode)

    return make


def _of_reader(*names: str, keep: Sequence[str]) -> Callable[[Place], None]:
    """What readers of the documentation have; `keep` is taken along."""

    def make(place: Place) -> None:
        def read() -> int:
            from support.docs_reader import Reader

            reader = Reader(Path.cwd(), thorough=False)
            with reader.ending:
                reader.has(*names)
            for each in Path.cwd().iterdir():
                if each.name not in keep:
                    shutil.rmtree(each) if each.is_dir() else each.unlink()
            return 0

        done = place.call(read)
        if done.code:
            raise RuntimeError(done.errors)

    return make


def _litter(place: Place) -> None:
    """What a killed import leaves in a store of two tenants."""
    for tenant in ("alice", "bob"):
        _ours("keys", "import", "--tenant", tenant, "--params", "insecure-ci", "--store", "keys", "rotations.bin")(
            place
        )
    for folder in (place.work / "keys").rglob("*.pkey"):
        (folder.parent / ".tmp-penstock-0123456789ab").write_bytes(b"half a key")
    (place.work / "rotations.bin").unlink()


def _script(place: Place) -> None:
    shutil.copy(ROOT / "examples" / "openfhe_script.py", place.work / "script.py")


SMALL_DATABASE = ("--kind", "pir", "--params", "insecure-database", "--records", "16384", "--segment", "256 KiB")
THINGS: dict[str, tuple[tuple[str, ...], Callable[[Place], None]]] = {
    "trace": ((), _ours("trace", *INNER, "-o", "t.parquet")),
    "other trace": ((), _ours("trace", "matrix-multiplication", "--size", "ci", "-o", "out.parquet")),
    "measured": ((), _ours("run", *INNER, *ONE, "--trace", "m.parquet", "--quiet")),
    "jsonl": (("trace",), _ours("trace", "export", "t.parquet", "--to", "jsonl", "-o", "t.jsonl")),
    "pack": ((), _ours("trace", "pack", "-o", "pack", "--params", "sharp", "--workload", "inner-product", "-q")),
    "script": ((), _script),
    "suite": ((), _text("suite.toml", SUITE)),
    "sweep": ((), _text("sweep.toml", SWEEP)),
    "tenants": ((), _text("tenants.toml", TENANTS)),
    "queue": (("tenants",), _text("jobs.toml", JOBS)),
    "fit": ((), _of_reader("runs/fit", keep=("runs",))),
    "key files": ((), _of_reader("key files", keep=("rotations.bin", "relin.bin"))),
    "stored": ((), _ours("run", *INNER, *ONE, "--reading", "native", "--keys", "keys", "--quiet")),
    "two tenants": (("key files",), _litter),
    "run": ((), _ours("analyze", *INNER, *ONE, "-o", "run", "--quiet")),
    "old report": (("run",), _text("old.html", "an old report")),
    "sweep run": (("sweep",), _ours("sweep", "sweep.toml", "--workers", "1", "-o", "run", "--quiet")),
    "old machine": ((), _text("mine.toml", "# an older machine\n")),
    "database": ((), _ours("database", "make", "db", *SMALL_DATABASE, "--quiet")),
    "secret": ((), _text("secret", SECRET, 0o600)),
}
"""Name -> what it is made from, and how."""

COUNTS = ("workload", "size", "params", "reading", "num_operations", "passed", "tolerance")
COLUMNS = ("stage", "quantity", "unit", "provenance", "workload", "params", "machine", "tier", "mode", "kind", "limbs")
STORE_READS = (("keys", "ls", "--store", "keys"), ("keys", "verify", "--store", "keys"))
DATABASE_READS = (("database", "verify", "db"), ("database", "info", "db"))
RUN_READS = (
    ("report", "run", "-o", "again.html", "--force"),
    ("explore", "runs", "--print", "--runs", "."),
    ("explore", "run", "run=run", "--print", "--runs", "."),
)


def _trace_reads(name: str) -> tuple[tuple[str, ...], ...]:
    return (("trace", "info", name), ("trace", "validate", name))


def _running() -> list[Kind]:
    run, native = ("run", *INNER, *ONE, *JSON), ("run", *INNER, *ONE, *JSON, "--reading", "native")
    counts = said_of(*COUNTS)
    return [
        Kind("run clear", ("run", *INNER, "--reading", "clear", *JSON), said_of("result_norm"), weight=0.5),
        Kind("run --trace", (*run, "--trace", "x.parquet"), both(counts, trace_is("x.parquet", "t.parquet")),
             ("trace",), _trace_reads("x.parquet"), file=True),
        Kind("run --timings", (*run, "--timings", "times.json"), counts),
        Kind("run --key-budget", (*run, "--key-budget", "8 MiB"), counts),
        Kind("run native", native, counts),
        Kind("run native --key-budget", (*native, "--key-budget", "8 MiB", "--input-budget", "1 MiB"), counts),
        Kind("run native --client inside", (*native, "--client", "inside"), counts, weight=0.5),
        Kind("run native --keys", (*native, "--keys", "keys"), both(counts, keys_of("keys")), (), STORE_READS,
             weight=2),
        Kind("run native, kept keys", (*native, "--keys", "keys"), both(counts, keys_of("keys")), ("stored",),
             STORE_READS, keys_of("keys")),
        Kind("run --jobs", ("run", "--tenants", "tenants.toml", "--jobs", "jobs.toml", *ONE, *JSON),
             both(jobs_passed, keys_of("keys")), ("queue",), STORE_READS, weight=1.5),
        Kind("record", ("record", "script.py", "-o", "out.parquet"), record_is("out.parquet"), ("script",),
             _trace_reads("out.parquet"), weight=1.5),
        Kind("profile", ("profile", *INNER, *ONE, "--no-overhead", "-o", "run", "-q"),
             rows_of("run/results.csv", "stage", "quantity", "unit"), reads=RUN_READS[1:]),
    ]  # fmt: skip


def _traces() -> list[Kind]:
    traced = ("trace", *INNER, "-o", "out.parquet")
    return [
        Kind("trace", traced, files("out.parquet"), reads=_trace_reads("out.parquet"), file=True),
        Kind("trace --force", (*traced, "--force"), files("out.parquet"), ("other trace",),
             _trace_reads("out.parquet"), files("out.parquet")),
        Kind("trace import", ("trace", "import", "t.jsonl", "--from", "jsonl", "-o", "out.parquet"),
             files("out.parquet"), ("jsonl",), _trace_reads("out.parquet"), file=True, weight=0.7),
        Kind("trace export jsonl", ("trace", "export", "t.parquet", "--to", "jsonl", "-o", "o.jsonl"), files("o.jsonl"),
             ("trace",), file=True, weight=0.7),
        Kind("trace export chrome", ("trace", "export", "m.parquet", "--to", "chrome", "-o", "o.json.gz"),
             files("o.json.gz"), ("measured",), file=True, weight=0.5),
        Kind("trace expand", ("trace", "expand", "t.parquet", "-o", "out.parquet"), files("out.parquet"), ("trace",),
             _trace_reads("out.parquet"), file=True, weight=0.5),
        Kind("trace rewrite", ("trace", "rewrite", "t.parquet", "--pass", "reorder", "--cache", "8 MB", "-o",
             "out.parquet", "-q"), files("out.parquet"), ("trace",), _trace_reads("out.parquet"), file=True,
             weight=0.7),
        Kind("trace pack", ("trace", "pack", "-o", "pack", "--params", "sharp", "--params", "ark", "--workload",
             "inner-product", "-q"), files("pack"), (), (("trace", "pack", "--check", "pack"),), weight=1.5),
        Kind("trace pack --force", ("trace", "pack", "-o", "pack", "--params", "sharp", "--workload", "inner-product",
             "-q", "--force"), files("pack"), ("pack",), (("trace", "pack", "--check", "pack"),),
             files("pack/sharp"), weight=0.7),
    ]  # fmt: skip


def _runs() -> list[Kind]:
    analyzed = rows_of("run/results.csv", *COLUMNS, valued=("sharp", "a100-tensorfhe"))
    analyze, swept = ("analyze", *INNER, *ONE, "-o", "run", "-q"), files("run/results.csv", "run/results.parquet")
    sweep = ("sweep", "sweep.toml", "-o", "run", "-q")
    benched = rows_of("run/results.csv", "stage", "quantity", "unit", "kind", "limbs")
    bench = ("bench", "run", "--suite", "suite.toml", *ONE, "-o", "run", "-q")
    bench_reads = (*RUN_READS[1:], ("bench", "export", "run", "--to", "google-benchmark", "-o", "e.json", "--force"))
    scan = ("ssd", "scan", "--size", "10 MB", "--timeline", "o.json.gz", "-q")
    simulate = (
        "simulate",
        "t.parquet",
        "--machine",
        "sharp",
        "--tier",
        "hbm",
        "--timeline",
        "o.json.gz",
        "-o",
        "o.csv",
    )
    return [
        Kind("analyze", analyze, analyzed, (), RUN_READS, weight=2),
        Kind("analyze --force", (*analyze, "--force"), analyzed, ("run",), RUN_READS),
        Kind("sweep, 1 worker", (*sweep, "--workers", "1"), swept, ("sweep",), RUN_READS),
        Kind("sweep, 2 workers", (*sweep, "--workers", "2"), swept, ("sweep",), RUN_READS, weight=2),
        Kind("sweep --force", (*sweep, "--workers", "1", "--force"), swept, ("sweep run",), RUN_READS),
        Kind("bench run", bench, benched, ("suite",), bench_reads),
        Kind("bench run --store", (*bench, "--store", "store"), benched, ("suite",), bench_reads),
        Kind("predict fit", ("predict", "fit", "runs/fit", "-o", "mine.toml", "-q"), files("mine.toml"), ("fit",),
             (("machines", "show", "mine.toml"),), file=True, weight=0.7),
        Kind("predict fit --force", ("predict", "fit", "runs/fit", "-o", "mine.toml", "-q", "--force"),
             files("mine.toml"), ("fit", "old machine"), (), files("mine.toml"), weight=0.7),
        Kind("report", ("report", "run", "-o", "o.html"), files("o.html"), ("run",), file=True, weight=0.7),
        Kind("report --force", ("report", "run", "-o", "old.html", "--force"), files("old.html"), ("old report",), (),
             files("old.html"), weight=0.7),
        Kind("report --figures", ("report", "run", "--figures", "figures"), files("figures"), ("run",), weight=0.7),
        Kind("ssd scan --timeline", scan, files("o.json.gz"), file=True, weight=0.5),
        Kind("simulate --timeline", simulate, files("o.json.gz", "o.csv"), ("trace",)),
        Kind("reproduce fheins --figures", ("reproduce", "fheins", "--figures", "figures", *JSON), files("figures"),
             weight=0.3),
        Kind("reproduce cryptoracle --figures", ("reproduce", "cryptoracle", "--workload", "matrix-multiplication",
             "--results", "runs/fit", "--figures", "figures", *JSON), files("figures"), ("fit",), weight=0.5),
        Kind("explore", ("explore", "roofline", "tier=rdma", "--port", "0", "--no-browser", "--runs", "runs"), nothing,
             ready="http://127.0.0.1:", weight=0.7),
    ]  # fmt: skip


def _stores() -> list[Kind]:
    imported = ("keys", "import", "--tenant", "alice", "--params", "insecure-ci", "--store", "keys", "-q")
    made, answer = ("database", "make", "db", *SMALL_DATABASE, "-q"), database_of("db", "--index", "12345")
    study = ("keys", "study", *INNER, *ONE, "--budgets", "50", "--folder", ".", "-o", "run", "-q")
    return [
        Kind("keys import", (*imported, "rotations.bin"), keys_of("keys"), ("key files",), STORE_READS, weight=1.5),
        Kind("keys import, again", (*imported, "relin.bin"), keys_of("keys"), ("key files", "stored"), STORE_READS),
        Kind("keys gc --tenant", ("keys", "gc", "--tenant", "alice", "--store", "keys"), keys_of("keys"),
             ("two tenants",), STORE_READS),
        Kind("keys bench", ("keys", "bench", "--params", "insecure-small", "--num-keys", "5", "--rounds", "1",
             "--folder", ".", "-q", *JSON), nothing, weight=0.7),
        Kind("keys study", study, rows_of("run/results.csv", "stage", "quantity", "unit", "kind"), (), RUN_READS),
        Kind("keys node", ("keys", "node", "--params", "insecure-ci", "--listen", "unix:node.sock", "--secret-file",
             "secret", "--store", "keys", "--threads", "1"), nothing, ("stored", "secret"), STORE_READS,
             ready="serving '"),
        Kind("database make", made, answer, (), DATABASE_READS, weight=2),
        Kind("database make --encrypted", (*made, "--encrypted"), answer, (), DATABASE_READS),
        Kind("database make ssc", ("database", "make", "db", "--kind", "ssc", "--params", "insecure-database",
             "--records", "4096", "--features", "64", "--segment", "256 KiB", "-q"), database_of("db"), (),
             DATABASE_READS),
        Kind("database make --force", (*made, "--force", "--seed", "5"), answer, ("database",), DATABASE_READS, answer,
             weight=2),
        Kind("database query", ("database", "query", "db", "--index", "12345", "--check", "-q", *JSON),
             said_of("records_hex", "checked"), ("database",), DATABASE_READS, answer),
        Kind("database probe", ("database", "probe", ".", "--params", "insecure-database", "--size", "8 MiB", "-o",
             "disk.toml", "-q"), nothing),
    ]  # fmt: skip


KINDS = {kind.name: kind for kind in (*_running(), *_traces(), *_runs(), *_stores())}
