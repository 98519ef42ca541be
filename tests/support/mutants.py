"""Change the source in one place at a time, and see whether the tests find it.

python tests/support.mutants.py                                # five mutants in each of eight rooms, seed 43
python tests/support.mutants.py client service --seed 7        # of some rooms, another draw
python tests/support.mutants.py --list                         # what would be tried
python tests/support.mutants.py --summary                      # what build/mutants.jsonl holds

Mutants are drawn by `random.Random` from all places of a room where code can be changed. One that does not compile,
or that only changes a hint, is drawn again. Each is tried on the nearest tests, and where those pass on all of
`make test`; a test that also fails without the mutant has not found it. What is tried stands in build/mutants.jsonl and
is not repeated. The tree is as it was after every mutant, also after Ctrl-C.
"""

from __future__ import annotations

import argparse
import json
import os
import random
import re
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import asdict, dataclass, replace
from itertools import islice
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parents[1]))
from support.mutant_places import Place, changed, equivalent_by_text, line_of, places
from support.nearest_tests import nearest

ROOT = Path(__file__).parents[2]
ROOMS = {
    "recorder": ("src/penstock/program/openfhe/recorder",),
    "package": ("src/penstock/program/package", "crates/penstock-package/src"),
    "service": ("src/penstock/service",),
    "client": ("src/penstock/runtime/client", "crates/penstock-client/src"),
    "drive": ("src/penstock/lab/instorage/flash", "crates/penstock-sim/src/ssd"),
    "cache": (
        "crates/penstock-sim/src/cache.rs", "crates/penstock-sim/src/policy", "crates/penstock-sim/src/replay.rs",
        "crates/penstock-store/src/cache",
    ),
    "store": ("crates/penstock-store/src", "crates/penstock-segment/src"),
    "kernels": (
        "crates/penstock-ckks/src/kernels",
        *(f"crates/penstock-ckks/src/{name}.rs" for name in (
            "automorphism", "extended", "keyswitch", "levels", "modulus", "products", "raise", "sums")),
    ),
}  # fmt: skip
"""Room -> its files and folders. What stands in two rooms belongs to the first."""
APART = re.compile(r"/tests(/|\.rs$)|/backend/(s3|object)\.rs$|/logs\.py$")
"""Not drawn from: tests, object stores (a feature that the engine is not built with), logging."""
CARGO = ["cargo", "test", "--release", "--locked", "--quiet"]
WORKSPACE = ["--workspace", "--exclude", "penstock-py", "--exclude", "penstock-client-py"]
PYTEST = [sys.executable, "-m", "pytest", "-q", "-x", "-n", "2", "--dist", "loadscope", "--no-loadscope-reorder",
          "--tier", "core", "-p", "no:cacheprovider"]  # fmt: skip
LIMIT_S = {"nearest": 400, "crate": 900, "workspace": 1200, "core": 2400}


@dataclass(frozen=True)
class Mutant:
    seed: int
    room: str
    file: str
    line: int
    before: str
    after: str
    kind: str
    start: int
    verdict: str = ""
    """found, survived, or redrawn"""
    by: str = ""
    """What found it, or why it was drawn again."""
    seconds: float = 0.0

    @property
    def key(self) -> tuple[object, ...]:
        return (self.seed, self.room, self.file, self.start, self.before, self.after)

    def __str__(self) -> str:
        return f"{self.room}: {self.file}:{self.line}: {self.before!r} -> {self.after!r}"


def files(room: str, root: Path = ROOT) -> list[Path]:
    """The sources of a room."""
    found = []
    for name in ROOMS[room]:
        path = root / name
        found += [path] if path.is_file() else sorted([*path.rglob("*.py"), *path.rglob("*.rs")])
    inside = [path for path in found if not APART.search(str(path.relative_to(root)))]
    return [path for path in inside if room != "store" or "/cache/" not in str(path)]


def drawn(room: str, seed: int, root: Path = ROOT) -> Iterator[tuple[Mutant, Place]]:
    """The mutants of a room in the order of drawing, each place as likely as any other."""
    every = [(path, place) for path in files(room, root) for place in places(path.read_bytes(), path.suffix)]
    random.Random(f"{seed} {room}").shuffle(every)
    for path, place in every:
        source = path.read_bytes()
        before = source[place.start : place.end].decode()
        name, line = str(path.relative_to(root)), line_of(source, place)
        mutant = Mutant(seed, room, name, line, before, place.after, place.kind, place.start)
        if equivalent_by_text(source, place):
            mutant = replace(mutant, verdict="redrawn", by="only a hint")
        yield mutant, place


@contextmanager
def applied(path: Path, place: Place, kept: Path) -> Iterator[None]:
    """The source with the change inside. Its own text is kept in a file too, for a process that is killed."""
    source = path.read_bytes()
    kept.write_text(json.dumps({"file": str(path), "source": source.decode()}))
    try:
        _write(path, changed(source, place))
        yield
    finally:
        _write(path, source)
        kept.unlink()


def restore(kept: Path) -> None:
    """What a killed run left changed."""
    if kept.exists():
        left = json.loads(kept.read_text())
        _write(Path(left["file"]), left["source"].encode())
        kept.unlink()


def _write(path: Path, source: bytes) -> None:
    """Python tells a compiled module by size and whole seconds, so an old one is deleted."""
    path.write_bytes(source)
    for compiled in (path.parent / "__pycache__").glob(f"{path.stem}.*.pyc"):
        compiled.unlink()


def run(command: list[str], limit_s: float) -> tuple[int | None, str]:
    """Exit code and output; None where the time limit ended it. What it started ends with it."""
    with subprocess.Popen(
        command,
        cwd=ROOT,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        errors="replace",
        start_new_session=True,
    ) as process:
        try:
            output, _ = process.communicate(timeout=limit_s)
            return process.returncode, output
        except subprocess.TimeoutExpired:
            return None, ""
        finally:
            with suppress(ProcessLookupError):
                os.killpg(process.pid, signal.SIGKILL)


def first_failure(output: str) -> str:
    found = re.search(
        r"^(?:FAILED|ERROR) .*|^test .* FAILED$|^    [\w:]+$(?=\n\n?(?:    |\ntest result))", output, re.MULTILINE
    )
    return (found.group().strip() if found else output.strip()[-300:])[:300]


def stages(mutant: Mutant) -> list[tuple[str, list[str]]]:
    """What is run until something fails."""
    python = [("nearest", [*PYTEST, *nearest(mutant.file, mutant.room)]), ("core", PYTEST)]
    if mutant.file.endswith(".py"):
        return python
    crate = mutant.file.split("/")[1]
    rest = [*CARGO, *WORKSPACE, "--exclude", crate]
    return [("crate", [*CARGO, "-p", crate]), ("workspace", rest), ("setup", ["scripts/setup.sh"]), *python]


def tried(mutant: Mutant, place: Place, kept: Path, near_only: bool) -> Mutant:
    """The mutant with its verdict."""
    path, began = ROOT / mutant.file, time.monotonic()
    steps = stages(mutant)[: 1 if near_only else None]
    if path.suffix == ".py":
        by = next(filter(None, (found_in_python(name, command, path, place, kept) for name, command in steps)), "")
    else:
        with applied(path, place, kept):  # once: what is built is told by the time of the source
            crate = mutant.file.split("/")[1]
            by = "does not compile" if built([*CARGO, "--no-run", "-p", crate]) else ""
            by = by or next(filter(None, (found_in_rust(name, command) for name, command in steps)), "")
    verdict = "redrawn" if by == "does not compile" else "found" if by else "near" if near_only else "survived"
    return replace(mutant, verdict=verdict, by=by, seconds=round(time.monotonic() - began, 1))


def found_in_rust(name: str, command: list[str]) -> str:
    if name == "setup":
        return "does not compile" if built(command) else ""
    return failure(name, *run(command, LIMIT_S[name]))


def found_in_python(name: str, command: list[str], path: Path, place: Place, kept: Path) -> str:
    """What fails with the mutant and passes without it."""
    doubtful: list[str] = []
    while True:
        with applied(path, place, kept):
            said = failure(name, *run([*command, *doubtful], LIMIT_S[name]))
        test = re.search(r"(?:FAILED|ERROR) (\S+::\S+)", said)
        if not test or passes(test.group(1)):
            return said
        doubtful += ["--deselect", test.group(1)]


def failure(name: str, code: int | None, output: str) -> str:
    """What failed, or nothing; pytest's 5 is that no test was chosen."""
    if code is None:
        return f"{name}: hangs"
    return "" if code in (0, 5) else f"{name}: {first_failure(output)}"


def built(command: list[str]) -> int:
    """Exit code of a build, which has no mutant running and so is no hang."""
    code, _ = run(command, 3600)
    if code is None:
        raise SystemExit(f"{' '.join(command)} takes more than an hour")
    return code


def passes(test: str) -> bool:
    """Whether a test passes without the mutant."""
    return run([sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", test], LIMIT_S["nearest"])[0] == 0


def read(path: Path) -> list[Mutant]:
    """What is recorded; of a mutant that was tried twice the last."""
    lines = path.read_text().splitlines() if path.exists() else []
    mutants = [Mutant(**json.loads(line)) for line in lines]
    return list({mutant.key: mutant for mutant in mutants}.values())


def summary(mutants: list[Mutant]) -> str:
    lines = []
    for room in ROOMS:
        count = {verdict: [each for each in mutants if (each.room, each.verdict) == (room, verdict)]
                 for verdict in ("found", "survived", "near", "redrawn")}  # fmt: skip
        of = len(count["found"]) + len(count["survived"]) + len(count["near"])
        lines.append(f"{room:9} found {len(count['found'])} of {of}, drawn again {len(count['redrawn'])}")
        lines += [f"  survived {str(each).removeprefix(f'{room}: ')}" for each in count["survived"]]
        lines += [f"  not found yet {str(each).removeprefix(f'{room}: ')}" for each in count["near"]]
    found = sum(each.verdict == "found" for each in mutants)
    of = sum(each.verdict in ("found", "survived", "near") for each in mutants)
    return "\n".join([*lines, f"{'together':9} found {found} of {of}" + (f" ({found / of:.0%})" if of else "")])


def baseline() -> bool:
    """Whether the tests pass as the source is."""
    return all(run(command, 3600)[0] == 0 for command in (["scripts/setup.sh"], [*CARGO, *WORKSPACE], PYTEST))


def trial(rooms: list[str], seed: int, count: int, record: Path, near_only: bool, until: float) -> None:
    kept = record.with_suffix(".kept")
    restore(kept)
    done = {mutant.key: mutant for mutant in read(record) if near_only or mutant.verdict != "near"}
    for room in rooms:
        left = count
        for mutant, place in drawn(room, seed):
            if not left or time.time() > until:
                break
            if (told := done.get(mutant.key)) is None:
                told = mutant if mutant.verdict else tried(mutant, place, kept, near_only)
                print(f"{told.verdict} in {told.seconds:.0f} s: {told} {told.by}", flush=True)
                with record.open("a") as file:
                    file.write(json.dumps(asdict(told)) + "\n")
                if mutant.file.endswith(".rs") and not near_only:
                    built(["scripts/setup.sh"])
            left -= told.verdict != "redrawn"


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("rooms", nargs="*", metavar="ROOM", help=f"of {', '.join(ROOMS)} (default: all)")
    parser.add_argument("--seed", type=int, default=43, help="of the draw (default: 43)")
    parser.add_argument("--count", type=int, default=5, help="mutants of a room (default: 5)")
    parser.add_argument("--near", action="store_true", help="only the nearest tests; the next run without it goes on")
    parser.add_argument("--minutes", type=float, default=float("inf"), help="begin no mutant after so long")
    parser.add_argument(
        "--no-baseline", action="store_true", help="do not check first that the tests pass without a mutant"
    )
    parser.add_argument("--record", type=Path, default=ROOT / "build/mutants.jsonl", help="what was tried")
    parser.add_argument("--list", action="store_true", help="only say what is drawn first")
    parser.add_argument("--summary", action="store_true", help="only say what was found")
    asked = parser.parse_args()
    if unknown := set(asked.rooms) - set(ROOMS):
        parser.error(f"no such room: {', '.join(sorted(unknown))}")
    rooms = asked.rooms or list(ROOMS)
    signal.signal(signal.SIGTERM, signal.default_int_handler)
    os.environ["PATH"] += f"{os.pathsep}{Path.home() / '.cargo/bin'}"
    if asked.list:
        for room in rooms:
            for mutant, _ in islice(drawn(room, asked.seed), asked.count):
                print(f"{mutant} {mutant.by}".rstrip())
        return 0
    if not asked.summary:
        until = time.time() + 60 * asked.minutes
        asked.record.parent.mkdir(parents=True, exist_ok=True)
        restore(asked.record.with_suffix(".kept"))
        if not asked.no_baseline and not baseline():
            print("the tests fail without a mutant", file=sys.stderr)
            return 1
        try:
            trial(rooms, asked.seed, asked.count, asked.record, asked.near, until)
        except KeyboardInterrupt:
            return 130
    print(summary([mutant for mutant in read(asked.record) if mutant.seed == asked.seed]))
    return 0


if __name__ == "__main__":
    sys.exit(main())
