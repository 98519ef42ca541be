"""Damaged files: every format that penstock reads, with faults of disks and attackers in it, through the command line.

Each verb must end in bounds with an answer or an error that has words. Where checksums cover a file, an answer must be
that of the intact file; elsewhere another number is another question.
"""

from __future__ import annotations

import importlib
import os
import pkgutil
import re
import shutil
import sys
from collections.abc import Iterator
from contextlib import suppress
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path

import numpy as np

import penstock
from faults.frame import Ended, Result, command, mutated, over, reported
from penstock.base.system.probe import try_openfhe
from penstock.scheme.params.catalogue import get
from support.fhetch_writer import Writer

DATA = Path(penstock.__file__).parent


@dataclass(frozen=True)
class Target:
    """A file or folder to damage, the files in it, and the command lines that read it.

    In a command line `{}` is the damaged copy, `{file}` a file that is left as it was, `{new}` a path to write to.
    """

    kind: str
    original: Path
    asks: tuple[str, ...]
    weight: float = 1.0
    """How often it is drawn."""
    whole: bool = False
    """Whether checksums cover every byte that the answers come from."""
    left_out: tuple[str, ...] = ()
    """Ends of names of files that are not damaged: no verb reads them."""

    @property
    def files(self) -> list[Path]:
        """What may be damaged, relative to the original."""
        if self.original.is_file():
            return [Path()]
        found = (each.relative_to(self.original) for each in sorted(self.original.rglob("*")) if each.is_file())
        return [each for each in found if not each.name.endswith(("lock", *self.left_out))]


def made(folder: Path, openfhe: bool) -> Iterator[Target]:
    """The targets, made by penstock's own verbs in `folder`."""

    def penstock_makes(line: str) -> Path:
        ended = command(line.format(folder).split(), folder, seconds=120)
        if ended.code or ended.faults:
            raise RuntimeError(f"penstock {line}: {ended.faults or ended.errors}")
        return folder

    def text(name: str, content: str) -> Path:
        (folder / name).write_text(content, encoding="utf-8")
        return folder / name

    def data(of: str) -> Path:
        return Path(shutil.copy(DATA / of, folder / of.replace("/", "-")))

    penstock_makes("trace inner-product --size ci -o {}/t.parquet")
    reads = ("trace info {} --format json", "trace validate {}", "simulate {} --machine sharp --format json")
    yield Target(
        "trace (Parquet)", folder / "t.parquet", (*reads, "trace diff {} {file}", "trace expand {} -o {new}"), 3
    )
    penstock_makes("trace export {0}/t.parquet --to jsonl -o {0}/t.jsonl")
    yield Target("trace (JSON lines)", folder / "t.jsonl", ("trace import {} --from jsonl -o {new}",), 2)
    penstock_makes("trace export {0}/t.parquet --to heracles -o {0}/t.bin")
    imported = "trace import {} --from %s --params insecure-ci -o {new}"
    yield Target("trace (HERACLES)", folder / "t.bin", (imported % "heracles",), 2)
    yield Target("trace (FHETCH)", text("t.fhetch", _instructions()), (imported % "fhetch",), 2)
    machine = ("machines check {}", "simulate {file} --machine {} --cache on-chip", "predict run {file} --machine {}")
    yield Target("machine", data("scheme/machines/data/machines/sharp.toml"), machine, 2)
    yield Target("GPU", data("scheme/machines/data/machines/a100-cheddar.toml"), machine[:1])
    kernels = (
        "kernel,limbs,ring_dim,word_bits,seconds,sources\ntransform,24,65536,32,2e-5,\nkey-product,9,512,32,1e-5,4\n"
    )
    yield Target("measured kernels", text("kernels.csv", kernels), ("machines import-kernels {} -o {new}",))
    yield Target("parameters", data("scheme/params/data/sharp.toml"), ("params show {}", "params size {}"), 2)
    levels = '[[levels]]\ntier = "on-chip"\n[[levels]]\ntier = "hbm2"\ncapacity = "8 MiB"\n[[levels]]\ntier = "pcie5"\n'
    yield Target("levels", text("levels.toml", levels), ("simulate {file} --machine sharp --levels {}",))
    yield Target("sweep file", text("sweep.toml", SWEEP), ("sweep {} --dry-run", "sweep {} -o {new} -q --workers 1"), 2)
    yield Target("suite file", data("lab/measure/suites/quick.toml"), ("bench run --suite {} --dry-run",))
    yield Target(
        "drive", data("scheme/machines/data/drives/" + DRIVE), ("ssd drives {}", "ssd scan --drive {} --size 1MB")
    )
    counts = "operation,count\nEvalMult,10\nEvalRotate,20\n"
    predicts = "predict run --op-counts {} --params insecure-ci --machine sharp"
    yield Target("operation counts", text("counts.csv", counts), (predicts,))
    google = (
        '{"context": {}, "benchmarks": [{"name": "BM_Add/1", "iterations": 9, "real_time": 1.5, "time_unit": "us"}]}'
    )
    yield Target("Google Benchmark", text("g.json", google), ("bench compare {} {file}", "bench compare {file} {}"))
    yield from _runs(folder, penstock_makes, openfhe)
    if openfhe:
        yield from _secret(folder, penstock_makes)


def _runs(folder: Path, penstock_makes, openfhe: bool) -> Iterator[Target]:  # type: ignore[no-untyped-def]
    shown = ("report {} -o {new}.html", "explore run run={name} --runs {parent} --print --format csv")
    resumed = "sweep {file:sweep.toml} -o {} -q --workers 1"
    penstock_makes("sweep {0}/sweep.toml -o {0}/sweep -q --workers 1")
    yield Target("sweep's folder", folder / "sweep", (*shown, resumed), 2, left_out=("report.html", "results.csv"))
    penstock_makes("database make {0}/db --kind pir --params insecure-database --records 64 -q")
    asks = ("database info {} --format json", "database verify {} --format json")
    if openfhe:
        asks = (*asks, "database query {} --index 3 --check -q --format json")
        penstock_makes("analyze inner-product --size ci -o {0}/analysis -q")
        left_out = ("report.html", "results.csv", ".json.gz", "report")
        yield Target("analysis' folder", folder / "analysis", shown, left_out=left_out)
    yield Target("database", folder / "db", asks, 2, whole=True)


def _secret(folder: Path, penstock_makes) -> Iterator[Target]:  # type: ignore[no-untyped-def]
    run = "run inner-product --size ci --reading native --keys {}/{} -q --format json"
    penstock_makes(run.format("{}", "store"))
    asks = (
        "keys ls --store {} --format json",
        "keys verify --store {} --format json",
        "keys stat --store {} --format json",
    )
    yield Target("key store", folder / "store", asks, 2, whole=True)
    penstock_makes(run.format("{}", "kept/store"))
    kept = "run inner-product --size ci --reading native --keys {}/store -q --format json"
    yield Target("store and key pair in a run", folder / "kept", (kept,), 0.3)


def _instructions() -> str:
    """A product, a rotation and a sum as FHETCH's polynomial instructions."""
    writer = Writer(get("insecure-ci"))
    c = writer.rescale(writer.mult(writer.cipher(), writer.cipher()))
    writer.add(writer.rotate(c, 5), c)
    return writer.text()


SWEEP = """\
name = "files"
workload = ["inner-product"]
size = "ci"
params = "insecure-ci"
machine = ["sharp"]
tier = ["hbm", "pcie5"]
hit_ratio = [0, 0.5]
"""
DRIVE = sorted(each.name for each in (DATA / "scheme/machines/data/drives").glob("*.toml"))[0]


def bench(folder: Path, count: int, seed: int, jobs: int, *, openfhe: bool | None = None) -> list[Result]:
    """`count` damaged files from `seed` on; without `openfhe` only those that are made without it."""
    originals = folder / "originals"
    originals.mkdir()
    _import_all()
    targets = list(made(originals, try_openfhe(sys.executable).ok if openfhe is None else openfhe))
    seeds = range(seed, seed + count)
    drawn = {(target.kind, ask): target for target, ask, _, _ in (draw(each, targets) for each in seeds)}
    answers = {(kind, ask): _answer(target, ask, folder) for (kind, ask), target in drawn.items()}
    check = partial(case, targets=targets, answers=answers, folder=folder)
    return reported(over(check, seeds, jobs), count)


def _import_all() -> None:
    """Every module of penstock and the libraries that verbs load when they run, so that forks have them."""
    for module in pkgutil.walk_packages(penstock.__path__, "penstock."):
        if not module.name.startswith("penstock.runtime.native.client_worker"):
            with suppress(ImportError):
                importlib.import_module(module.name)
    for name in ("pyarrow.parquet", "pyarrow.compute", "pyarrow.dataset", "numpy.random", "jinja2"):
        with suppress(ImportError):
            importlib.import_module(name)


def _argv(target: Target, ask: str, copy: Path, new: Path) -> list[str]:
    """The words of a command line. Another file in it is the intact original of the target, or a trace."""
    originals = target.original.parent
    file = target.original if target.kind in {"Google Benchmark", "trace (Parquet)"} else originals / "t.parquet"
    words = {"{}": copy, "{file}": file, "{new}": new, "{file:sweep.toml}": originals / "sweep.toml"}
    line = ask.replace("{name}", copy.name).replace("{parent}", str(copy.parent)).replace("{}/store", f"{copy}/store")
    return [str(words.get(word, word)).replace("{new}", str(new)).replace("{name}", copy.name) for word in line.split()]


def _answer(target: Target, ask: str, folder: Path) -> Ended | None:
    """What the intact file is answered with; None where two answers differ, by times or places."""
    answers = []
    for number in range(2):
        place = folder / f"intact-{number}"
        answers.append(_asked(target, ask, place, lambda copy: None))
        shutil.rmtree(place)
        if answers[-1].code or answers[-1].faults:
            raise RuntimeError(f"{target.kind}, intact: {ask}: {answers[-1]}")
    return answers[0] if answers[0].output == answers[1].output else None


def _asked(target: Target, ask: str, place: Path, damage) -> Ended:  # type: ignore[no-untyped-def]
    """The command line on a copy in `place`, after `damage(copy)`. Paths in the answer are those of any place."""
    place.mkdir(parents=True)
    copy = place / target.original.name
    if target.original.is_dir():
        shutil.copytree(target.original, copy, symlinks=True, ignore=shutil.ignore_patterns("report.html"))
    else:
        shutil.copyfile(target.original, copy)
    damage(copy)
    ended = command(_argv(target, ask, copy, place / "new"), place)
    return replace(ended, output=_without_times(ended.output.replace(str(place), "PLACE")))


def _without_times(output: str) -> str:
    """The text without its fractions, which are times here, and the moments of its files."""
    return re.sub(r"\d+\.\d+(e[-+]?\d+)?|\d{4}-\d\d-\d\dT[\d:]+", "#", output)


def draw(seed: int, targets: list[Target]) -> tuple[Target, str, Path, np.random.Generator]:
    """What is damaged, the command line that reads it, the file in it, and the numbers that decide the damage."""
    rng = np.random.default_rng(seed)
    weights = np.array([each.weight for each in targets])
    target = targets[int(rng.choice(len(targets), p=weights / weights.sum()))]
    ask = target.asks[int(rng.integers(len(target.asks)))]
    files = target.files
    return target, ask, files[int(rng.integers(len(files)))], rng


def case(seed: int, targets: list[Target], answers: dict[tuple[str, str], Ended | None], folder: Path) -> Result:
    """One damaged file and one command line that reads it."""
    target, ask, file, rng = draw(seed, targets)
    done = []

    def damage(copy: Path) -> None:
        damaged = copy / file if copy.is_dir() else copy
        content, kind = mutated(damaged.read_bytes(), rng)
        done.append(kind if content != damaged.read_bytes() else "nothing")
        damaged.write_bytes(content)

    place = folder / f"case-{seed}-{os.getpid()}"
    try:
        ended = _asked(target, ask, place, damage)
    finally:
        shutil.rmtree(place, ignore_errors=True)
    faults, answer = ended.faults, answers[target.kind, ask]
    same = answer is not None and ended.output == answer.output
    said = answer is not None and len(ended.errors) > len(answer.errors)
    if ended.code == 0 and target.whole and answer is not None and not same and not said:
        faults += ("silently wrong: an answer that is not the intact file's",)
    how = "refused" if ended.code else "the same answer" if same else "answered with a note" if said else "answered"
    name = "" if file == Path() else f" of {file}"
    notes = f"{ask}; {done[0]}{name}; exit {ended.code}: {ended.errors.strip()[-300:]}" if faults else ""
    return Result("files", target.kind, seed, how, faults, ended.seconds, ended.peak_bytes, notes=notes)
