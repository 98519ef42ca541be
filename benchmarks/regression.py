"""Is this tree slower than an earlier revision? Old and new by turns, with an interval for each ratio.

    .venv/bin/python benchmarks/regression.py BASE [--pairs 15] [--bound 1.10] [--format json]

    regression.py v0.1.0                            against a release
    regression.py HEAD~20 --pairs 30                more pairs: narrower intervals
    regression.py main --kernels rotate encode      some kernels only
    regression.py HEAD --bound 1.05                 noise alone, where nothing has changed since HEAD

BASE is checked out into a temporary worktree and built into build/regression/COMMIT, which is kept. A pair is a process
of BASE and one of this tree, in the order old, new, new, old: a machine that slows down meets both alike. Times are of
the processor, so waiting does not count. Each ratio, new over old, is a median over pairs with its 90 % interval
(bootstrap). Exit status: 1 where an interval lies wholly above the bound, 2 where nothing could be measured, else 0. A
kernel that BASE lacks is named and left out.
"""

from __future__ import annotations

import argparse
import importlib.util
import json
import os
import shutil
import subprocess
import sys
import tempfile
import time
import zipfile
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import numpy as np

sys.path.insert(0, str(Path(__file__).parent))
from regression_kernels import KERNELS, make_inputs

ROOT = Path(__file__).resolve().parents[1]
BUILT = ROOT / "build/regression"
WORKER = Path(__file__).with_name("regression_kernels.py")
OLD, NEW = "old", "new"
RESAMPLES, INTERVAL = 10_000, (5, 95)
FEWEST_PAIRS = 5

Samples = dict[str, list[dict[str, Any]]]
"""Side -> the lines that its processes printed."""


class Unmeasured(Exception):
    """Nothing can be compared; the message says why and what to do."""


@dataclass(frozen=True, kw_only=True)
class Compared:
    """One kernel on both sides."""

    kernel: str
    pairs: int
    old_s: float
    new_s: float
    ratio: float
    """Median over pairs of new over old."""
    low: float
    high: float
    verdict: str
    """`slower`: the interval lies above the bound; `unclear`: the bound lies in it; `faster`; `same`."""
    same_result: bool


def judge(low: float, high: float, bound: float) -> str:
    if low > bound:
        return "slower"
    if high > bound:
        return "unclear"
    return "faster" if high < 1 / bound else "same"


def compare(kernel: str, old: Sequence[float], new: Sequence[float], bound: float, same_result: bool) -> Compared:
    """The median ratio with its interval, from seconds in the order of the pairs."""
    ratios = np.asarray(new) / np.asarray(old)
    drawn = np.random.default_rng(0).choice(ratios, (RESAMPLES, len(ratios)))
    low, high = (float(each) for each in np.percentile(np.median(drawn, axis=1), INTERVAL))
    return Compared(
        kernel=kernel, pairs=len(ratios), old_s=float(np.median(old)), new_s=float(np.median(new)),
        ratio=float(np.median(ratios)), low=low, high=high, verdict=judge(low, high, bound), same_result=same_result,
    )  # fmt: skip


def judged(samples: Samples, bound: float) -> tuple[list[Compared], dict[str, str]]:
    """A row for each kernel of both sides, and why BASE lacks the others.

    Raises: Unmeasured: this tree cannot run a kernel, or BASE can run none.
    """
    sides = {
        side: {name: [row for row in rows if row["kernel"] == name] for name in KERNELS}
        for side, rows in samples.items()
    }
    found, lacking = [], {}
    for name in KERNELS:
        old, new = sides[OLD][name], sides[NEW][name]
        for row in new:
            if "lacks" in row:
                raise Unmeasured(f"this tree cannot run '{name}': {row['lacks']}")
        if reason := next((row["lacks"] for row in old if "lacks" in row), None):
            lacking[name] = reason
        elif old:
            same = {row["result"] for row in old} == {row["result"] for row in new}
            old_s, new_s = ([row["seconds"] for row in side] for side in (old, new))
            found.append(compare(name, old_s, new_s, bound, same))
    if not found:
        raise Unmeasured("BASE can run none of the kernels: " + "; ".join(f"{k}: {why}" for k, why in lacking.items()))
    return found, lacking


def order(pairs: int) -> Iterator[tuple[str, str]]:
    """Old first, then new first, and so on."""
    for pair in range(pairs):
        yield (OLD, NEW) if pair % 2 == 0 else (NEW, OLD)


def git(*words: str) -> str:
    done = subprocess.run(["git", "-C", str(ROOT), *words], capture_output=True, text=True, check=False)
    if done.returncode:
        raise Unmeasured(f"git {' '.join(words)}: {done.stderr.strip() or 'failed'}")
    return done.stdout.strip()


def commit_of(base: str) -> str:
    try:
        return git("rev-parse", "--verify", f"{base}^{{commit}}")
    except Unmeasured as error:
        raise Unmeasured(
            f"'{base}' is not a revision of this repository: name a commit, a branch or a tag. A shallow clone has "
            "few: 'git fetch --unshallow --tags'"
        ) from error


def check_engine() -> None:
    """Raises: Unmeasured: the engine in src/ was built from other sources."""
    spec = importlib.util.spec_from_file_location("penstock_bootstrap", ROOT / "scripts/bootstrap.py")
    assert spec is not None
    assert spec.loader is not None
    bootstrap = sys.modules[spec.name] = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(bootstrap)
    if not bootstrap.Setup(openfhe=False, docs=False, verbose=False)._core_is_built():
        raise Unmeasured("the engine in src/ was not built from the sources in crates/: 'make setup' builds it again")


@contextmanager
def worktree(commit: str) -> Iterator[Path]:
    with tempfile.TemporaryDirectory(prefix="penstock-base-") as place:
        tree = Path(place) / "tree"
        git("worktree", "add", "--detach", str(tree), commit)
        try:
            yield tree
        finally:
            git("worktree", "remove", "--force", str(tree))


def build(commit: str) -> Path:
    """The folder with the penstock of a commit, built as `make setup` builds it unless it is there."""
    folder = BUILT / commit
    if folder.exists():
        return folder
    maturin = shutil.which("maturin", path=str(Path(sys.executable).parent))
    if maturin is None:
        raise Unmeasured("maturin is not installed next to this Python: 'make setup' installs it")
    say(f"building {commit[:12]} (minutes the first time)")
    with worktree(commit) as tree:
        wheels = tree / "build/wheels"
        command = [
            maturin,
            "build",
            "--release",
            "--compatibility",
            "linux",
            "--out",
            str(wheels),
            "-i",
            sys.executable,
        ]
        environ = os.environ | {"CARGO_TARGET_DIR": str(BUILT / "target")}
        done = subprocess.run(command, cwd=tree, env=environ, capture_output=True, text=True, check=False)
        if done.returncode:
            raise Unmeasured(f"{commit[:12]} cannot be built:\n" + "\n".join(done.stderr.splitlines()[-20:]))
        unpacked = BUILT / f"{commit}.unfinished"
        shutil.rmtree(unpacked, ignore_errors=True)
        with zipfile.ZipFile(next(wheels.glob("*.whl"))) as wheel:
            wheel.extractall(unpacked)
        unpacked.rename(folder)
    return folder


def say(text: str) -> None:
    print(f"regression: {text}", file=sys.stderr, flush=True)


def run_side(folder: Path, inputs: Path, kernels: Sequence[str], repeats: int) -> list[dict[str, Any]]:
    """One process of the penstock in `folder`."""
    command = [sys.executable, str(WORKER), str(inputs), str(folder), *kernels, "--repeats", str(repeats)]
    environ = os.environ | {"PYTHONPATH": str(folder)}
    done = subprocess.run(command, env=environ, capture_output=True, text=True, check=False)
    if done.returncode:
        raise Unmeasured(f"the process of {folder} ended with {done.returncode}:\n{done.stderr.strip()}")
    return [json.loads(line) for line in done.stdout.splitlines()]


def alternate(base: Path, inputs: Path, kernels: Sequence[str], pairs: int, repeats: int) -> Samples:
    """Both sides in pairs; a kernel that BASE lacks is left out after the first pair."""
    folders, found, began = {OLD: base, NEW: ROOT / "src"}, Samples({OLD: [], NEW: []}), time.monotonic()
    for done, both in enumerate(order(pairs), start=1):
        for side in both:
            found[side] += run_side(folders[side], inputs, kernels, repeats)
        spent = time.monotonic() - began
        say(f"pair {done} of {pairs}, {spent:.0f} s, about {spent / done * (pairs - done):.0f} s to go")
        lacking = {row["kernel"] for row in found[OLD] if "lacks" in row}
        kernels = [name for name in kernels if name not in lacking]
        if not kernels:
            break
    return found


def show(rows: Sequence[Compared], lacking: dict[str, str], bound: float) -> None:
    print(f"{'kernel':18} {'old':>10} {'new':>10} {'new/old':>8}  90 % interval")
    for row in rows:
        note = "" if row.same_result else "; the results differ"
        print(
            f"{row.kernel:18} {row.old_s * 1e3:7.2f} ms {row.new_s * 1e3:7.2f} ms {row.ratio:8.3f}  "
            f"{row.low:.3f} to {row.high:.3f}  {row.verdict}{note}"
        )
    for name, reason in lacking.items():
        print(f"{name:18} left out: BASE cannot run it ({reason})")
    count = {verdict: sum(row.verdict == verdict for row in rows) for verdict in ("slower", "unclear")}
    print(
        f"{rows[0].pairs} pairs, medians of the least processor time of each process. "
        f"Above {bound:g}: {count['slower']}; unclear: {count['unclear']}"
        + " (more --pairs narrow the intervals)"
        * bool(count["unclear"])
    )


def main(argv: Sequence[str] | None = None) -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("base", metavar="BASE", help="a commit, a branch or a tag")
    parser.add_argument("--pairs", type=int, default=15, help=f"at least {FEWEST_PAIRS}; default: 15")
    parser.add_argument("--bound", type=float, default=1.10, help="ratio that may not be exceeded; default: 1.10")
    parser.add_argument("--repeats", type=int, default=5, help="calls of a kernel in a process; default: 5")
    parser.add_argument("--kernels", nargs="+", choices=KERNELS, metavar="KERNEL", help=", ".join(KERNELS))
    parser.add_argument("--format", choices=("table", "json"), default="table", help="json: with all samples")
    given = parser.parse_args(argv)
    if given.pairs < FEWEST_PAIRS or given.repeats < 1:
        parser.error(f"--pairs is at least {FEWEST_PAIRS}, and --repeats at least 1")
    if not given.bound > 1:
        parser.error("--bound is above 1: it is the ratio of new to old that is still allowed")
    try:
        commit = commit_of(given.base)
        check_engine()
        base = build(commit)
        with tempfile.TemporaryDirectory(prefix="penstock-inputs-") as place:
            make_inputs(Path(place))
            samples = alternate(base, Path(place), given.kernels or list(KERNELS), given.pairs, given.repeats)
        rows, lacking = judged(samples, given.bound)
    except Unmeasured as error:
        say(str(error))
        return 2
    if given.format == "json":
        print(json.dumps({"base": commit, "bound": given.bound, "rows": [asdict(row) for row in rows],
                          "lacking": lacking, "samples": samples}))  # fmt: skip
    else:
        show(rows, lacking, given.bound)
    return 1 if any(row.verdict == "slower" for row in rows) else 0


if __name__ == "__main__":
    sys.exit(main())
