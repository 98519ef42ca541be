"""A GPU from a file of measured kernels: JSON or CSV, one timing a row, to a machine with `measured` rates.

| column | meaning |
|---|---|
| `kernel` | a name of `NAMES`, such as transform or base-conversion |
| `limbs` | limbs that the launch makes, of all ciphertexts together |
| `ring_dim` | N |
| `word_bits` | bits of a coefficient's word, 32 or 64 |
| `seconds` | of one launch, or of all passes of a transform |
| `sources` | limbs that a base conversion starts from; digits that a key product sums, for both polynomials |

Each kernel gets a rate and a start: seconds = start + work / rate, fitted to relative errors. JSON is a list of such
objects, or an object with the list as `kernels` and, if it likes, `name`, `title` and `batch`.
"""

from __future__ import annotations

import csv
import io
import math
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path

from penstock.base.system import outside
from penstock.base.types import Rows, RowView
from penstock.errors import MachineError, UnknownName
from penstock.scheme.machines.architecture import Architecture
from penstock.scheme.machines.figure import Evidence, Figure
from penstock.scheme.machines.gpu.launches import (
    AUTOMORPHISMS,
    CONVERSIONS,
    KERNELS,
    KEY_PRODUCTS,
    PRODUCTS,
    SUMS,
    TRANSFORMS,
)
from penstock.scheme.machines.gpu.model import Gpu, KernelRate
from penstock.scheme.machines.schema import Machine, Overlap
from penstock.scheme.work.graph import KernelName

NAMES = {
    KernelName.TRANSFORM: TRANSFORMS,
    KernelName.INVERSE: TRANSFORMS,
    KernelName.CONVERSION: CONVERSIONS,
    KernelName.KEY_PRODUCT: KEY_PRODUCTS,
    KernelName.PRODUCT: PRODUCTS,
    KernelName.SCALING: PRODUCTS,
    KernelName.SUM: SUMS,
    KernelName.AUTOMORPHISM: AUTOMORPHISMS,
}
"""Name in the file -> kernel of a machine."""
COLUMNS = ("kernel", "limbs", "ring_dim", "word_bits", "seconds")
OPTIONAL = ("sources",)
WORDS = (32, 64)
MOST = {"limbs": 1 << 20, "ring_dim": 1 << 20, "sources": 1 << 10}
SLOWEST_S = 1e4
WITH_SOURCES = (KernelName.CONVERSION, KernelName.KEY_PRODUCT)


@dataclass(frozen=True, slots=True, kw_only=True)
class KernelTiming:
    """One measured launch."""

    kernel: KernelName
    limbs: int
    ring_dim: int
    word_bits: int
    seconds: float
    sources: int = 1

    @property
    def work(self) -> float:
        """In the measure of the kernel's rate."""
        points = float(self.limbs * self.ring_dim)
        if NAMES[self.kernel] == TRANSFORMS:
            return points / 2 * math.log2(self.ring_dim)
        if self.kernel is KernelName.KEY_PRODUCT:
            return 2 * self.sources * points
        return self.sources * points


@dataclass(frozen=True, slots=True, kw_only=True)
class Line:
    """What the timings of one kernel say."""

    kernel: str
    timings: int
    limbs_from: int
    limbs_to: int
    rate_per_s: float
    measure: str
    """What the rate counts."""
    start_s: float
    worst_error: float
    """Largest relative error of the line on its own timings."""


@dataclass(frozen=True, slots=True, kw_only=True)
class KernelFile:
    """A file of timings, read and checked."""

    name: str | None
    title: str | None
    batch: int
    timings: tuple[KernelTiming, ...]


def read_kernels(path: Path) -> KernelFile:
    """The timings in a file.

    Raises: MachineError: it is neither JSON nor CSV, a column is missing or unknown, or a row breaks a rule; the
            message names the row and the column. FileError: it cannot be read. TooLarge: it is.
    """
    content = outside.content_of(path, outside.MOST_SETTINGS_BYTES)
    try:
        text = outside.decoded(content)
        written = outside.json_of(text) if text.lstrip()[:1] in ("[", "{") else _csv_rows(text, path)
    except ValueError as error:
        raise MachineError(f"{path}: not a file of kernels: {error}") from error
    head: RowView = {}
    if isinstance(written, Mapping):
        head = written
        unknown = sorted(set(head) - {"kernels", "name", "title", "batch"})
        if unknown:
            raise MachineError(f"{path}: {UnknownName('key', unknown[0], ('kernels', 'name', 'title', 'batch'))}")
        written = head.get("kernels")
    if not isinstance(written, list) or not written:
        raise MachineError(f"{path}: no timings; write a list of rows with {', '.join(COLUMNS)}")
    timings = tuple(_timing(row, f"{path}, timing {number}") for number, row in enumerate(written, 1))
    return KernelFile(
        name=_text(head, "name", path),
        title=_text(head, "title", path),
        batch=_whole(head.get("batch", 1), f"{path}: batch", 1 << 20),
        timings=timings,
    )


def _csv_rows(text: str, path: Path) -> Rows:
    rows = csv.reader(io.StringIO(text), strict=True)
    try:
        heading = next(rows, [])
        records = [dict(zip(heading, row, strict=True)) for row in rows if row]
    except (csv.Error, ValueError) as error:
        raise MachineError(
            f"{path}, line {rows.line_num}: {error}; each line has the cells of the first one, {', '.join(COLUMNS)}"
        ) from error
    return [{name.strip(): cell.strip() for name, cell in row.items() if cell.strip()} for row in records]


def _timing(row: object, where: str) -> KernelTiming:
    if not isinstance(row, Mapping):
        raise MachineError(f"{where}: not an object with {', '.join(COLUMNS)}")
    for name in row:
        if name not in (*COLUMNS, *OPTIONAL):
            raise MachineError(f"{where}: {UnknownName('column', str(name), (*COLUMNS, *OPTIONAL))}")
    for name in COLUMNS:
        if name not in row:
            raise MachineError(f"{where}: column '{name}' is missing; a row has {', '.join(COLUMNS)}")
    known = [kernel.value for kernel in NAMES]
    if row["kernel"] not in known:
        raise MachineError(f"{where}: {UnknownName('kernel', str(row['kernel']), known)}")
    kernel = KernelName(row["kernel"])
    if kernel in WITH_SOURCES and "sources" not in row:
        what = "limbs that it starts from" if kernel is KernelName.CONVERSION else "digits that it sums"
        raise MachineError(f"{where}: a {kernel} needs column 'sources', the number of {what}")
    if kernel not in WITH_SOURCES and "sources" in row:
        raise MachineError(f"{where}: a {kernel} has no 'sources'; leave the cell empty")
    ring_dim = _whole(row["ring_dim"], f"{where}: ring_dim", MOST["ring_dim"])
    if ring_dim < 2 or ring_dim & (ring_dim - 1):
        raise MachineError(f"{where}: ring_dim {ring_dim} is not a power of two, 2 or more")
    word_bits = _whole(row["word_bits"], f"{where}: word_bits", max(WORDS))
    if word_bits not in WORDS:
        raise MachineError(f"{where}: word_bits {word_bits}: coefficients are in words of 32 or 64 bits")
    return KernelTiming(
        kernel=kernel,
        limbs=_whole(row["limbs"], f"{where}: limbs", MOST["limbs"]),
        ring_dim=ring_dim,
        word_bits=word_bits,
        seconds=_seconds(row["seconds"], f"{where}: seconds"),
        sources=_whole(row.get("sources", 1), f"{where}: sources", MOST["sources"]),
    )


def _whole(value: object, what: str, most: int) -> int:
    if isinstance(value, str) and value.isascii() and value.isdigit() and len(value) < 20:
        value = int(value)
    if isinstance(value, bool) or not isinstance(value, int) or not 1 <= value <= most:
        raise MachineError(f"{what} {str(value)[:40]!r} is not a whole number from 1 to {most}")
    return value


def _seconds(value: str | float, what: str) -> float:
    try:
        seconds = math.nan if isinstance(value, bool) else float(value)
    except (TypeError, ValueError, OverflowError):
        seconds = math.nan
    if not 0 < seconds <= SLOWEST_S:
        raise MachineError(f"{what} {str(value)[:40]!r} is not a number of seconds above 0, {SLOWEST_S:g} at most")
    return seconds


def _text(head: RowView, name: str, path: Path) -> str | None:
    value = head.get(name)
    if value is not None and not (isinstance(value, str) and value.strip() and value.isprintable()):
        raise MachineError(f"{path}: {name} is not a line of text")
    return value


def chosen_words(timings: Sequence[KernelTiming], word_bits: int | None, where: str) -> tuple[int, list[KernelTiming]]:
    """(bits of a word, timings on such words).

    Raises: MachineError: there are several widths and none is chosen, or no timing of the chosen one.
    """
    widths = sorted({timing.word_bits for timing in timings})
    if word_bits is None and len(widths) > 1:
        raise MachineError(
            f"{where}: timings on words of {' and '.join(map(str, widths))} bits; a machine has one width: choose with "
            f"--word-bits {widths[0]}"
        )
    width = widths[0] if word_bits is None else word_bits
    chosen = [timing for timing in timings if timing.word_bits == width]
    if not chosen:
        raise MachineError(f"{where}: no timing on words of {width} bits; it has {', '.join(map(str, widths))}")
    return width, chosen


def line_of(kernel: str, timings: Sequence[KernelTiming], where: str) -> Line:
    """The rate and the start that come nearest to the timings of one kernel, by relative error; neither is negative.

    Raises: MachineError: more work does not take longer.
    """
    work = [timing.work for timing in timings]
    times = [timing.seconds for timing in timings]
    # Least squares of (start + work / rate) / seconds against 1.
    a = [1 / t for t in times]
    b = [w / t for w, t in zip(work, times, strict=True)]
    aa, ab, bb = (sum(x * y for x, y in zip(p, q, strict=True)) for p, q in ((a, a), (a, b), (b, b)))
    start, per_work = 0.0, sum(b) / bb
    if len(set(work)) > 1:
        determinant = aa * bb - ab * ab
        start = (bb * sum(a) - ab * sum(b)) / determinant
        per_work = (aa * sum(b) - ab * sum(a)) / determinant
        if per_work <= 0:
            raise MachineError(
                f"{where}: {kernel} takes no longer for more limbs, so it has no rate: measure it on more limbs"
            )
        if start < 0:
            start, per_work = 0.0, sum(b) / bb
    worst = max(abs((start + w * per_work) / t - 1) for w, t in zip(work, times, strict=True))
    limbs = [timing.limbs for timing in timings]
    return Line(
        kernel=kernel,
        timings=len(timings),
        limbs_from=min(limbs),
        limbs_to=max(limbs),
        rate_per_s=1 / per_work,
        measure=KERNELS[kernel],
        start_s=start,
        worst_error=worst,
    )


def kernel_machine(
    read: KernelFile, where: str, *, name: str, word_bits: int | None = None
) -> tuple[Machine, tuple[Line, ...]]:
    """The machine of a file of timings, and the line of each kernel.

    Args:   where: the file in messages and sources; name: of the machine where the file has none; word_bits: the words
            to take where the file has both.
    Raises: MachineError: no timing of a transform; as `chosen_words` and `line_of`.
    """
    width, timings = chosen_words(read.timings, word_bits, where)
    by_kernel: dict[str, list[KernelTiming]] = {kernel: [] for kernel in KERNELS}
    for timing in timings:
        by_kernel[NAMES[timing.kernel]].append(timing)
    if not by_kernel[TRANSFORMS]:
        raise MachineError(
            f"{where}: no timing of a transform on words of {width} bits; every operation needs its time"
        )
    lines = tuple(line_of(kernel, of_kernel, where) for kernel, of_kernel in by_kernel.items() if of_kernel)

    def measured(value: float, unit: str, line: Line) -> Figure:
        shown = float(f"{value:.6g}")
        first, last = line.limbs_from, line.limbs_to
        limbs = f"{first} limbs" if first == last else f"{first} to {last} limbs"
        source = f"{line.timings} timings of {where}, {limbs}; the line is off by {line.worst_error:.1%} at most"
        return Figure(value=shown, text=f"{shown!r} {unit}", source=source, kind=Evidence.MEASURED)

    kernels = {
        line.kernel: KernelRate(
            rate=measured(line.rate_per_s, f"{line.measure}/s", line),
            start=measured(line.start_s, "s", line) if line.start_s > 0 else None,
        )
        for line in lines
    }
    stated = f"stated by {where}"
    machine = Machine(
        name=read.name or name,
        title=read.title or f"kernels measured in {where}",
        description="Rates and starts of kernels are measured; an operation is its kernels, one after another.",
        overlap=Overlap.IN_TURN,
        overlap_source="one GPU kernel after another, each measured for itself",
        units={},
        gpu=Gpu(
            batch=None
            if read.batch == 1
            else Figure(value=read.batch, text=f"{read.batch} ciphertexts", source=stated, kind=Evidence.MEASURED),
            kernels=kernels,
        ),
        architecture=Architecture(word=Figure(value=width, text=f"{width} bit", source=stated, kind=Evidence.MEASURED)),
    )
    return machine, lines


def line_rows(lines: Sequence[Line]) -> Rows:
    """The lines as flat rows in base units."""
    return [asdict(line) for line in lines]
