"""Sampled call stacks: trimmed to what matters, folded, ranked, and written for speedscope.

Folded stacks are Brendan Gregg's format (github.com/brendangregg/FlameGraph): `root;…;leaf weight` a line, in
microseconds here. Speedscope's is github.com/jlfwong/speedscope, src/lib/file-format-spec.ts.
"""

from __future__ import annotations

import bisect
import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from pathlib import PurePosixPath

from penstock.base.types import Row
from penstock.base.units import SECOND_UNITS
from penstock.base.version import __version__
from penstock.lab.measure.grouping import grouped
from penstock.lab.measure.perf_script import Frame, Sample

PYTHON = Frame("python", "python")
BINDING = Frame("openfhe binding", "openfhe")
OUTSIDE = Frame("outside operations", "penstock")
ENCODE = Frame("encode", "penstock")
"""Encoding of plaintext operands: the library's, but no operation of a trace."""
SPEEDSCOPE_SCHEMA = "https://www.speedscope.app/file-format-schema.json"

_INTERPRETER = re.compile(r"^(lib)?python3?(\.\d+)?[dt]?(\.so.*)?$")
_LIBRARY = re.compile(r"OPENFHE|openfhe")
_START = frozenset({
    "_start", "__libc_start_main", "__libc_start_call_main", "main", "start_thread", "clone", "clone3", "__clone3",
    "gomp_thread_start",
})  # fmt: skip


@dataclass(frozen=True, slots=True)
class Span:
    """One operation of the program on the machine's monotonic clock."""

    kind: str
    limbs: int
    start_s: float
    end_s: float


def module_name(module: str) -> str:
    """The file name of a binary, without its folders.

    >>> module_name("/opt/lib/libOPENFHEcore.so.1"), module_name("[kernel.kallsyms]")
    ('libOPENFHEcore.so.1', '[kernel]')
    """
    return "[kernel]" if module.startswith(("[kernel", "[guest.kernel")) else PurePosixPath(module).name or module


def trim(stack: Sequence[Frame]) -> tuple[Frame, ...]:
    """A stack with the interpreter below the library folded into one frame, and the process's start cut off.

    A dozen frames of the interpreter lie between the program and OpenFHE, the same in every sample. Samples whose
    bottom perf could not reach get the same root.

    >>> interpreter = Frame("_PyEval_EvalFrameDefault", "/usr/lib/libpython3.10.so.1.0")
    >>> [f.name for f in trim([interpreter, interpreter, Frame("EvalRotate", "/x/libOPENFHEpke.so.1")])]
    ['python', 'EvalRotate']
    """
    frames = [f for f in stack if f.name.split("@")[0] not in _START]
    first = next((i for i, f in enumerate(frames) if _is_library(f) and f.name != "[unknown]"), None)
    if first is None:
        above = [f for f in frames if not _is_interpreter(f)]
        kernel = [f for f in above if f.module.startswith("[kernel")]
        bound = any(_is_library(f) for f in frames)
        return (PYTHON, *((BINDING,) if bound else ()), *(kernel or [f for f in above if f.name != "[unknown]"][-2:]))
    below = frames[:first]
    in_python = any(_is_interpreter(f) for f in below)
    # Runs of functions without a name (inlined helpers of the binding) become one frame.
    rest = [
        f
        for previous, f in zip([None, *frames[first:]], frames[first:], strict=False)
        if not (f.name == "[unknown]" and (f.module == "[unknown]" or f == previous))
    ]
    return (*((PYTHON,) if in_python or any(_is_library(f) for f in below) else ()), *rest)


def _is_interpreter(frame: Frame) -> bool:
    name = module_name(frame.module)
    return bool(_INTERPRETER.match(name)) or "/lib-dynload/" in frame.module or "/numpy" in frame.module


def _is_library(frame: Frame) -> bool:
    return bool(_LIBRARY.search(module_name(frame.module)))


def by_operation(samples: Iterable[Sample], spans: Sequence[Span]) -> list[Sample]:
    """Samples whose stacks start with the program's operation that ran at that time, on whichever thread.

    Where no operation ran the first frame says so: `encode`, or the program's own Python `outside operations`.
    """
    ordered = sorted(spans, key=lambda span: span.start_s)
    starts = [span.start_s for span in ordered]
    made = []
    for sample in samples:
        i = bisect.bisect_right(starts, sample.time_s) - 1
        inside = i >= 0 and sample.time_s <= ordered[i].end_s
        encoding = any("MakeCKKSPackedPlaintext" in f.name for f in sample.stack)
        root = Frame(ordered[i].kind, "penstock") if inside else ENCODE if encoding else OUTSIDE
        made.append(replace(sample, stack=(root, *sample.stack)))
    return made


def trimmed(samples: Iterable[Sample]) -> list[Sample]:
    """`trim` on every sample."""
    return [replace(s, stack=trim(s.stack)) for s in samples]


def folded(samples: Iterable[Sample]) -> dict[tuple[Frame, ...], float]:
    """Seconds of each distinct stack, heaviest first, ties by name."""
    totals: dict[tuple[Frame, ...], float] = {}
    for sample in samples:
        totals[sample.stack] = totals.get(sample.stack, 0.0) + sample.weight_s
    return dict(sorted(totals.items(), key=lambda item: (-item[1], [f.name for f in item[0]])))


def folded_text(stacks: dict[tuple[Frame, ...], float]) -> str:
    """The folded-stacks file: `root;…;leaf microseconds`, one distinct stack a line.

    >>> folded_text({(Frame("a;b", ""), Frame("c", "")): 0.0015})
    'a:b;c 1500\\n'
    """
    merged: dict[str, float] = {}
    for stack, seconds in stacks.items():
        line = ";".join(_plain(f.name) for f in stack) or "[no stack]"
        merged[line] = merged.get(line, 0.0) + seconds
    return "".join(f"{line} {round(seconds / SECOND_UNITS['us'])}\n" for line, seconds in merged.items())


def _plain(name: str) -> str:
    return re.sub(r"\s+", " ", name.replace(";", ":"))


def short_name(name: str) -> str:
    """A C++ name as people say it: no template arguments, no namespaces of the library.

    >>> short_name("lbcrypto::DCRTPolyImpl<bigintdyn::mubintvec<bigintdyn::ubint<unsigned long> > >::SwitchFormat")
    'DCRTPoly::SwitchFormat'
    >>> short_name("intnat::NumberTheoreticTransformNat<intnat::V<unsigned long> >::InverseTransformFromBitReverse")
    'NumberTheoreticTransform::InverseTransformFromBitReverse'
    >>> short_name("default_prng::Blake2Engine::operator()"), short_name("std::operator<< <char>")
    ('Blake2Engine::operator()', 'operator<<')
    """
    name, kept = re.sub(r"operator(<<=?|>>=?|<=>?|>=|->\*?|<|>)", lambda m: "operator" + _hide(m[1]), name), []
    depth = 0
    for character in name:
        if character == "<":
            depth += 1
        elif character == ">" and depth:
            depth -= 1
        elif not depth:
            kept.append(character)
    short = "".join(kept).replace("\ue000", "<").replace("\ue001", ">").strip()
    short = re.sub(r"\b(lbcrypto|intnat|bigintdyn|default_prng|std|__gnu_cxx|\(anonymous namespace\))::", "", short)
    short = re.sub(r"\b(DCRTPoly|Poly)Impl\b", r"\1", short)
    short = re.sub(r"\b(NumberTheoreticTransform|ChineseRemainderTransform\w*?)Nat\b", r"\1", short)
    short = re.sub(r" ?\[clone [^\]]*_omp_fn[^\]]*\]|\._omp_fn\.\d+", " (parallel)", short)
    return re.sub(r"\s+", " ", short).strip() or name


def _hide(symbols: str) -> str:
    return symbols.replace("<", "\ue000").replace(">", "\ue001")


@dataclass(frozen=True, slots=True)
class Hotspot:
    """One function: its own seconds, and those including its callees."""

    function: str
    module: str
    self_s: float
    total_s: float


def hotspots(samples: Iterable[Sample], limit: int = 15) -> list[Hotspot]:
    """The functions that most time is spent in, by the time in themselves; recursion counts once."""
    own: dict[tuple[str, str], float] = {}
    total: dict[tuple[str, str], float] = {}
    for sample in samples:
        keys = [(short_name(f.name), module_name(f.module)) for f in sample.stack]
        if keys:
            own[keys[-1]] = own.get(keys[-1], 0.0) + sample.weight_s
        for key in set(keys):
            total[key] = total.get(key, 0.0) + sample.weight_s
    ranked = sorted(own.items(), key=lambda item: (-item[1], item[0]))[:limit]
    return [Hotspot(name, module, seconds, total[name, module]) for (name, module), seconds in ranked]


def first_frames(samples: Iterable[Sample]) -> dict[str, float]:
    """Seconds below each first frame: below each operation, after `by_operation`."""
    totals: dict[str, float] = {}
    for sample in samples:
        name = sample.stack[0].name if sample.stack else "[no stack]"
        totals[name] = totals.get(name, 0.0) + sample.weight_s
    return dict(sorted(totals.items(), key=lambda item: -item[1]))


def speedscope(samples: Iterable[Sample], name: str) -> Row:
    """A speedscope file: one sampled profile a thread, in the order of time, in seconds."""
    index: dict[Frame, int] = {}
    threads = grouped(sorted(samples, key=lambda s: (s.thread, s.time_s)), lambda s: s.thread)
    profiles = []
    for number, members in enumerate(threads.values()):
        weights = [s.weight_s for s in members]
        profiles.append(
            {
                "type": "sampled", "name": f"{members[0].command} {number}", "unit": "seconds", "startValue": 0,
                "endValue": sum(weights),
                "samples": [[index.setdefault(f, len(index)) for f in s.stack] for s in members], "weights": weights,
            }
        )  # fmt: skip
    frames = [{"name": short_name(f.name), "file": module_name(f.module)} for f in index]
    return {
        "$schema": SPEEDSCOPE_SCHEMA, "name": name, "exporter": f"penstock@{__version__}", "activeProfileIndex": 0,
        "version": "0.0.1", "shared": {"frames": frames}, "profiles": profiles,
    }  # fmt: skip
