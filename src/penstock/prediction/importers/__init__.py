"""Measurements from files; the content of a file decides its kind.

Understood are run folders of `penstock bench run` and their `bench.parquet`; Google Benchmark's JSON; CryptOracle's CSV
files, a folder of them, and its YAML configurations, which name CSV files.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from pathlib import Path

from penstock.errors import UsageError
from penstock.fit.measurements import Measurement
from penstock.measure.bench.results import FILE
from penstock.prediction.importers import applications, bench, cryptoracle, google
from penstock.prediction.importers.bench import newest_results
from penstock.prediction.importers.cryptoracle.columns import is_header
from penstock.prediction.importers.cryptoracle.settings import BUILDS
from penstock.prediction.importers.plausible import plausible
from penstock.prediction.importers.rows import BadTiming, ImportLog, Origin, read_text
from penstock.system.files import os_errors

__all__ = ["BUILDS", "BadTiming", "ImportLog", "Origin", "load", "load_all", "newest_results"]

UNDERSTOOD = (
    "understood are a run folder of 'penstock bench run', its bench.parquet, Google Benchmark's JSON, and "
    "CryptOracle's CSV and YAML files or a folder of them"
)


def load(
    path: str | Path, *, log: ImportLog | None = None, cpu: str | None = None, build: str = BUILDS[0]
) -> list[Measurement]:
    """The measurements in a file or folder.

    Args:   log: says whether bad rows are left out, and is told about each; cpu: a part of the CPU's name, where
            CryptOracle's files are of several; build: theirs, one of `BUILDS`.
    Raises: BadTiming: a row that no measurement can have, named by file and row, or a file that is empty, cut off or
            not UTF-8; UsageError: no such path, or content that is not understood.
    """
    path, log = Path(path), log or ImportLog()
    if not path.exists():
        raise UsageError(f"{path} does not exist; {UNDERSTOOD}")
    if path.is_dir():
        if (path / FILE).is_file() or (path / "bench").is_dir():
            found = bench.load(path, log)
        elif any(path.rglob("*.csv")):
            found = cryptoracle.load(path, log, cpu=cpu, build=build)
        else:
            raise UsageError(f"{path} holds no timings; {UNDERSTOOD}")
    else:
        found = _load_file(path, log, cpu, build)
    if not found:
        why = "; ".join([*log.bad[:1], *log.left_out])
        raise UsageError(f"{path} holds no timing that can be used{': ' + why if why else ''}; {UNDERSTOOD}")
    return found


def load_all(
    paths: Iterable[str | Path], *, log: ImportLog | None = None, cpu: str | None = None, build: str = BUILDS[0]
) -> list[Measurement]:
    """The measurements of several files and folders of one machine.

    Raises: as `load`; BadTiming: two of them hold the same timing, or a time is far from the others' suggestion;
            UsageError: the files name different CPUs, or another one than `cpu`.
    """
    log = log or ImportLog()
    before = set(log.origins)
    found: list[Measurement] = []
    seen: dict[tuple[object, ...], str] = {}
    for path in paths:
        here: dict[tuple[object, ...], str] = {}
        for each in load(path, log=log, cpu=cpu, build=build):
            same = (
                each.item,
                each.params,
                each.shape,
                each.size,
                each.degree,
                each.threads,
                each.reading,
                each.seconds,
            )
            if same in seen:
                log.refuse(f"{each.source}: the timing of '{each.item}' is in {seen[same]} already: duplicated")
                continue
            here[same] = each.source
            found.append(each)
        seen |= here
    origins = {path: origin for path, origin in log.origins.items() if path not in before}
    for where, origin in origins.items():
        if cpu is not None and origin.cpu is not None and cpu.lower() not in origin.cpu.lower():
            raise UsageError(f"--cpu '{cpu}': {where} is of {origin.cpu}; name that CPU's results, or leave it out")
    _one_cpu(origins)
    return plausible(found, log)


def _one_cpu(origins: Mapping[str, Origin]) -> None:
    of_cpu: dict[str, str] = {}
    for path, origin in origins.items():
        if origin.cpu is not None:
            of_cpu.setdefault(origin.cpu, path)
    if len(of_cpu) > 1:
        raise UsageError(
            f"the results are of {len(of_cpu)} CPUs ({'; '.join(f'{path}: {cpu}' for cpu, path in of_cpu.items())}), "
            "and a machine is one: name the results of one of them (another's go to 'predict validate --other')"
        )


def _load_file(path: Path, log: ImportLog, cpu: str | None, build: str) -> list[Measurement]:
    if path.suffix in applications.SUFFIXES:
        files = applications.read_application(path).files()
        return cryptoracle.load_texts([(file, read_text(file)) for file in files], log, cpu=cpu, build=build)
    with os_errors(path, "read"), path.open("rb") as opened:
        start = opened.read(4)
    if start == b"PAR1" or (start and path.suffix == ".parquet"):
        return bench.load(path, log)
    text = read_text(path)
    if text.lstrip()[:1] in ("{", "["):
        return google.load(text, str(path), log)
    if is_header(text.partition("\n")[0]):
        return cryptoracle.load_texts([(path, text)], log, cpu=cpu, build=build)
    raise UsageError(f"{path}: its content is not known (it begins {text.strip()[:40]!r}); {UNDERSTOOD}")
