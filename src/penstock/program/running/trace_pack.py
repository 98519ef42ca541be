"""The trace pack: every workload at every accelerator's parameters, as files with checksums and a description.

A pack is made again on any machine in a minute or so; nothing is encrypted, and traces hold no data. An interrupted
pack continues: files that the manifest lists with the right digest are not made again.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path

from penstock.base.system.files import file_sha256, os_errors, write_atomic
from penstock.base.system.outside import content_of, json_of
from penstock.base.version import __version__
from penstock.errors import ParamsError, TraceError, UnknownName
from penstock.program import workloads
from penstock.program.running.reading import resolve
from penstock.program.running.trace import trace_workload
from penstock.scheme.params import catalogue
from penstock.scheme.traces.inspect import problems, summary
from penstock.scheme.traces.io import read_trace, write_trace

MANIFEST, SUMS, README = "manifest.json", "SHA256SUMS", "README.md"
PACK_VERSION = 1
_VERSION = (PACK_VERSION, __version__)
"""Of the packs that are read."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Packed:
    """One trace of a pack."""

    file: str
    """Relative to the pack."""
    workload: str
    size: str
    params: str
    num_operations: int
    """Composites expanded."""
    num_bootstraps: int
    num_keys: int
    key_bytes_touched: int
    file_bytes: int
    sha256: str


@dataclass(frozen=True, slots=True, kw_only=True)
class LeftOut:
    """A workload that a parameter set does not carry, and why."""

    workload: str
    params: str
    reason: str


@dataclass(frozen=True, slots=True)
class Pack:
    """What a pack holds."""

    traces: tuple[Packed, ...]
    left_out: tuple[LeftOut, ...]
    made: int = 0
    """Traces that were written now; the others were there."""

    @property
    def num_bytes(self) -> int:
        """Bytes of all traces."""
        return sum(trace.file_bytes for trace in self.traces)


def accelerator_sets() -> list[str]:
    """Every parameter set for accelerators, by name."""
    return [name for name in catalogue.names() if catalogue.get(name).library == "accelerator"]


def write_pack(
    folder: Path,
    params: Sequence[str] | None = None,
    names: Sequence[str] | None = None,
    *,
    force: bool = False,
    on_trace: Callable[[int, int, str], None] | None = None,
) -> Pack:
    """Write the pack, or its missing files, into `folder`; files that the manifest lists are made again if they are
    gone.

    Args:   params: parameter sets (default: those of accelerators); names: workloads (default: all);
            force: make those again that are there, as after a change to a program;
            on_trace(done, total, file): called before each trace.
    Raises: UnknownName; FileError: the folder cannot be written.
    """
    folder = Path(folder)
    with os_errors(folder):
        folder.mkdir(parents=True, exist_ok=True)
    wanted = [(p, w) for p in (params or accelerator_sets()) for w in (names or workloads.names())]
    for set_name, workload in wanted:
        if workload not in workloads.names():
            raise UnknownName("workload", workload, workloads.names())
        catalogue.get(set_name)
    before = _stored(folder)
    known = {(trace.params, trace.workload): trace for trace in before.traces}
    wanted += [
        key for key, listed in known.items() if key not in wanted and _digest(folder / listed.file) != listed.sha256
    ]
    traces, left_out, made = dict(known), {(o.params, o.workload): o for o in before.left_out}, 0
    for index, (set_name, workload) in enumerate(wanted):
        key = set_name, workload
        file = f"{set_name}/{workload}.parquet"
        if on_trace is not None:
            on_trace(index, len(wanted), file)
        if not force and key in known and _digest(folder / file) == known[key].sha256:
            continue
        traces.pop(key, None)
        left_out.pop(key, None)
        try:
            traces[key] = _written(folder, file, set_name, workload)
        except ParamsError as error:
            left_out[key] = LeftOut(workload=workload, params=set_name, reason=str(error))
        else:
            made += 1
        _store(folder, Pack(tuple(traces.values()), tuple(left_out.values())))
    pack = Pack(tuple(traces.values()), tuple(left_out.values()), made)
    _store(folder, pack)
    write_atomic(folder / README, _readme(pack).encode(), force=True)
    return pack


def check_pack(folder: Path) -> Iterator[str]:
    """The faults of a pack: a missing or changed file, or a trace that breaks the format.

    Raises: TraceError: the folder holds no manifest, or one of another version of penstock.
    """
    folder = Path(folder)
    path = folder / MANIFEST
    if not path.is_file():
        raise TraceError(
            f"{folder} holds no {MANIFEST}: it is not a trace pack; 'penstock trace pack -o DIR' makes one"
        )
    pack, version = _listed(path)
    if version != _VERSION:
        number, release = (str(part)[:40] for part in version)
        raise TraceError(
            f"{path} is of format {number} and penstock {release}, and only lists of format {PACK_VERSION} and "
            f"penstock {__version__} are checked: make the pack again, or try each trace with 'penstock trace validate'"
        )
    for trace in pack.traces:
        digest = _digest(folder / trace.file)
        if digest is None:
            yield f"{trace.file}: missing"
        elif digest != trace.sha256:
            yield f"{trace.file}: its SHA-256 is {digest}, the manifest says {trace.sha256}"
        else:
            yield from (f"{trace.file}: {problem}" for problem in problems(read_trace(folder / trace.file)))


def _written(folder: Path, file: str, set_name: str, workload: str) -> Packed:
    _, size, checked = resolve(workload, set_name, None)
    trace = trace_workload(workload, checked, size)
    path = folder / file
    with os_errors(path.parent):
        path.parent.mkdir(exist_ok=True)
    write_trace(trace, path, force=True)
    totals, called = summary(trace), trace.view(composites=True).count_by_kind()
    digest = _digest(path)
    assert digest is not None
    return Packed(
        file=file,
        workload=workload,
        size=size,
        params=set_name,
        num_operations=int(totals["num_operations"]),
        num_bootstraps=called.get("bootstrap", 0),
        num_keys=int(totals["num_keys"]),
        key_bytes_touched=int(totals["key_bytes_touched"]),
        file_bytes=path.stat().st_size,
        sha256=digest,
    )


def _digest(path: Path) -> str | None:
    """SHA-256 of a file; `None` if there is none."""
    return file_sha256(path) if path.is_file() else None


def _stored(folder: Path) -> Pack:
    """The pack that the manifest lists; an empty one if there is none, or if another version of penstock made it."""
    path = folder / MANIFEST
    return _listed(path)[0] if path.is_file() else Pack((), ())


def _listed(path: Path) -> tuple[Pack, tuple[object, object]]:
    """The pack in a manifest, empty where its version is another; and that version.

    Raises: TraceError: it is none.
    """
    try:
        record = json_of(content_of(path))
        version = record["pack_version"], record["penstock"]
        if version != _VERSION:
            return Pack((), ()), version
        traces = tuple(Packed(**row) for row in record["traces"])
        return Pack(traces, tuple(LeftOut(**row) for row in record["left_out"])), version
    except (ValueError, KeyError, TypeError) as error:
        raise TraceError(
            f"{path} is not a manifest of a trace pack ({error}); delete it and make the pack again"
        ) from error


def _store(folder: Path, pack: Pack) -> None:
    record = {
        "pack_version": PACK_VERSION,
        "penstock": __version__,
        "traces": [asdict(trace) for trace in pack.traces],
        "left_out": [asdict(gap) for gap in pack.left_out],
    }
    write_atomic(folder / MANIFEST, (json.dumps(record, indent=1) + "\n").encode(), force=True)
    sums = "".join(f"{trace.sha256}  {trace.file}\n" for trace in pack.traces)
    write_atomic(folder / SUMS, sums.encode(), force=True)


def _readme(pack: Pack) -> str:
    rows = [
        f"| `{t.file}` | {t.size} | {t.num_operations:,} | {t.num_bootstraps} | {t.num_keys} "
        f"| {t.key_bytes_touched / 1e9:.2f} |"
        for t in pack.traces
    ]
    missing = [f"- {gap.workload} at `{gap.params}`: {gap.reason}" for gap in pack.left_out]
    return "\n".join(_sections(rows, missing)) + "\n"


def _sections(rows: Iterable[str], missing: Iterable[str]) -> Iterator[str]:
    head = Path(__file__).with_suffix(".md").read_text(encoding="utf-8").removesuffix("\n")
    yield head.format(version=__version__, sums=SUMS, manifest=MANIFEST)
    yield from rows
    missing = list(missing)
    if missing:
        yield "\n## What a set does not carry\n"
        yield from missing
