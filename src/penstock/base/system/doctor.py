"""What works on this machine: one function a check, each asking a `Host` that the tests replace."""

from __future__ import annotations

import csv
import platform
import re
from collections.abc import Callable, Collection
from dataclasses import asdict, dataclass, replace
from enum import Enum
from pathlib import Path
from typing import TYPE_CHECKING

from penstock.base.system import probe, remedy
from penstock.base.system.host import Host, Printed, field_of
from penstock.base.units import format_bytes
from penstock.errors import UnknownName

if TYPE_CHECKING:
    from penstock.base.types import Row

SUPPORTED_PYTHON = ((3, 10), (3, 13))
"""First and last CPython that penstock is tested on."""
ENOUGH_MEMORY_BYTES = 2 * 2**30
"""The demo (N=2^15, 23 keys) peaks at 1.1 GB measured; twice that leaves room for other processes."""
ENOUGH_DISK_BYTES = 2 * 10**9
"""`.venv` takes 0.8 GB and the Rust build 0.2 GB measured; the rest is for run folders."""
SIMGRID_PYTHON = "PENSTOCK_SIMGRID_PYTHON"
"""Environment variable that names the interpreter of the SimGrid worker."""


class Status(str, Enum):
    """`limited` works with less than it could; `missing` does not work."""

    OK = "ok"
    LIMITED = "limited"
    MISSING = "missing"


@dataclass(frozen=True, slots=True, kw_only=True)
class Finding:
    """One check's answer. `costs` says what does not work without it, `remedy` how to get it; empty where ok."""

    check: str = ""
    status: Status
    detail: str
    costs: str = ""
    remedy: str = ""

    def to_row(self) -> Row:
        """The flat row that `penstock doctor --format json` prints."""
        return {**asdict(self), "status": self.status.value}


def _ok(detail: str) -> Finding:
    return Finding(status=Status.OK, detail=detail)


def _limited(detail: str, costs: str, remedy: str) -> Finding:
    return Finding(status=Status.LIMITED, detail=detail, costs=costs, remedy=remedy)


def _missing(detail: str, costs: str, remedy: str) -> Finding:
    return Finding(status=Status.MISSING, detail=detail, costs=costs, remedy=remedy)


CHECKS: dict[str, Callable[[Host], Finding]] = {}
"""Name -> check, shown in the order of this file."""


def _check(examine: Callable[[Host], Finding]) -> Callable[[Host], Finding]:
    """A check, whose findings have its name."""
    name = examine.__name__.removeprefix("check_")
    CHECKS[name] = lambda host: replace(examine(host), check=name)
    return CHECKS[name]


# --- The core: without these nothing works ---------------------------------------------------------------------------


@_check
def check_python(host: Host) -> Finding:
    version = "{}.{}.{}".format(*host.python_version)
    first, last = SUPPORTED_PYTHON
    detail = f"{host.implementation} {version}, {host.python}"
    supported = "CPython {}.{} to {}.{}".format(*first, *last)
    if host.implementation != "CPython" or host.python_version[:2] < first:
        return _missing(detail, f"everything: penstock needs {supported}", probe.get_python())
    if host.python_version[:2] > last:
        return _limited(
            detail,
            f"certainty: penstock is tested on {supported}; no OpenFHE wheel is known for this version",
            probe.get_python(),
        )
    return _ok(detail)


@_check
def check_packages(host: Host) -> Finding:
    """The packages without which no command runs."""
    names = ["numpy", "scipy", "pyarrow", "pydantic", "click", "rich"]
    imported: list[str] = []
    broken: list[str] = []
    for name in names:
        try:
            module = host.import_module(name)
        except Exception as error:  # a package built for another numpy raises anything
            broken.append(f"{name} ({error})")
        else:
            imported.append(f"{name} {host.version(name) or getattr(module, '__version__', '')}".strip())
    if broken:
        return _missing(
            f"cannot be imported: {', '.join(broken)}",
            "everything",
            remedy.install(anew=True),
        )
    return _ok(", ".join(imported))


@_check
def check_engine(host: Host) -> Finding:
    """The Rust core, imported in a separate process: a build for another machine may kill the process."""
    code = "import penstock._engine as e; print(getattr(e, '__version__', '')); print(e.__file__)"
    version, path, why = _try_import(host, code)
    if not why:
        expected = host.version("penstock")
        if version and expected and version != expected:
            return _limited(
                f"the Rust core is version {version}, penstock is {expected}",
                "simulations may fail or follow older rules",
                remedy.engine(),
            )
        return _ok(f"penstock._engine {version or ''}, {path}".replace(" ,", ","))
    return _missing(
        f"the Rust core does not load: {why}",
        "simulation, and with it 'analyze' and 'simulate'",
        remedy.engine(),
    )


# --- What commands need ------------------------------------------------------------------------------------------


@_check
def check_client(host: Host) -> Finding:
    """The library that makes keys, encrypts and decrypts unless another is asked for."""
    version, path, why = _try_import(host, "import penstock_client as c; print(c.__version__); print(c.__file__)")
    if not why:
        return _ok(f"penstock's own client {version} makes keys, encrypts and decrypts, {path}")
    if host.try_openfhe().ok:
        return _limited(
            f"OpenFHE makes keys, encrypts and decrypts; penstock's own client does not load: {why}",
            "time and space: OpenFHE makes keys of full size, and takes longer",
            remedy.client(),
        )
    return _missing(
        f"neither penstock's own client nor OpenFHE loads: {why}",
        "all encryption ('analyze', 'run', 'database'); parameters, traces, simulation work",
        remedy.client(),
    )


@_check
def check_openfhe(host: Host) -> Finding:
    outcome = host.try_openfhe()
    if outcome.ok:
        return _ok(f"OpenFHE {outcome.version} imports")
    return _missing(
        outcome.reason,
        "'--reading openfhe', 'record', 'profile' and 'keys bench'; all else works without it",
        outcome.remedy,
    )


@_check
def check_digits(host: Host) -> Finding:
    """scikit-learn's bundled handwritten digits, the training data of the demo."""
    version = host.version("scikit-learn")
    if version and host.package_file("sklearn", "datasets/data/digits.csv.gz"):
        return _ok(f"scikit-learn {version} with its bundled digits")
    return _missing(
        "scikit-learn's bundled handwritten digits are not there",
        "the data of 'logistic-regression', unless you bring MNIST's files with --data",
        f"{remedy.install('data')}, or: pip install scikit-learn",
    )


@_check
def check_simgrid(host: Host) -> Finding:
    """SimGrid, which runs in a worker process of another interpreter."""
    chosen = host.environ.get(SIMGRID_PYTHON)
    python = chosen or "/usr/bin/python3"
    worker = Path(__file__).parents[2] / "lab" / "simulation" / "cluster" / "simgrid_worker.py"
    done = host.run([python, "-I", str(worker), "--version"])
    if done.returncode == 0:
        return _ok(f"SimGrid {done.stdout.strip()}, {python}".replace(" ,", ","))
    return _missing(
        f"{python}: {_why(done.stderr, done)}",
        "only the cross-check of cluster communication; nothing else uses it",
        f"{remedy.simgrid()}, or name an interpreter that imports simgrid with {SIMGRID_PYTHON}",
    )


# --- What measurements need ---------------------------------------------------------------------------------------


@_check
def check_perf(host: Host) -> Finding:
    """Hardware counters through `perf stat`. A virtual machine often shows none."""
    costs = "counts of instructions and cache misses in measurements: they stay unknown, which is not zero"
    done = host.run(["perf", "stat", "-x", ",", "-e", "instructions:u", "true"])
    if done.returncode is None:
        return _missing(
            f"perf does not run: {done.stderr}",
            costs,
            "apt install linux-perf (Debian) or linux-tools-generic (Ubuntu)",
        )
    output = f"{done.stdout}\n{done.stderr}"
    rows = [row for row in csv.reader(done.stderr.splitlines()) if len(row) > 2 and row[2].startswith("instructions")]
    if done.returncode == 0 and rows and rows[0][0].isdigit():
        return _ok(f"hardware counters work ({int(rows[0][0]):,} instructions)")
    if "<not supported>" in output or "not supported" in output:
        return _limited(
            "perf runs, this machine shows no hardware counters (a virtual machine?); software events work",
            costs,
            "measure on hardware, or on a virtual machine that passes its counters through",
        )
    if "perf_event_paranoid" in output or "ermission" in output:
        level = (host.read("/proc/sys/kernel/perf_event_paranoid") or "unknown").strip()
        return _limited(
            f"perf may not count here (perf_event_paranoid is {level})",
            costs,
            "sysctl -w kernel.perf_event_paranoid=1 (as root)",
        )
    return _limited(
        f"perf counted nothing: {_why(output, done)}",
        costs,
        "install the perf that belongs to the running kernel (linux-perf, linux-tools-$(uname -r))",
    )


@_check
def check_energy(host: Host) -> Finding:
    """RAPL, the energy counters of x86 packages."""
    costs = "measured energy: it stays unknown, which is not zero"
    counter = "/sys/class/powercap/intel-rapl:0/energy_uj"
    if host.read(counter) is not None:
        return _ok("RAPL counts the energy of the package")
    if host.exists(counter):
        return _limited(
            f"{counter} is there and may not be read",
            costs,
            "chmod a+r /sys/class/powercap/intel-rapl:*/energy_uj (as root)",
        )
    return _missing(
        "no RAPL (/sys/class/powercap has no intel-rapl): a virtual machine, or not an x86 processor",
        costs,
        "measure on hardware; 'modprobe intel_rapl_msr' where the kernel has it as a module",
    )


@_check
def check_disk(host: Host) -> Finding:
    free = host.free_disk_bytes()
    detail = f"{format_bytes(free)} free in {host.folder.resolve()}"
    if free >= ENOUGH_DISK_BYTES:
        return _ok(detail)
    return _limited(
        detail,
        "large traces and several run folders do not fit",
        "free some space, or write runs elsewhere (-o FOLDER)",
    )


@_check
def check_memory(host: Host) -> Finding:
    available, limit = _available_memory(host)
    if available is None:
        return _limited(
            "/proc/meminfo does not say how much is available",
            "certainty that an encrypted run fits",
            "run on Linux",
        )
    detail = f"{format_bytes(available)} available{limit}"
    if available >= ENOUGH_MEMORY_BYTES:
        return _ok(detail)
    return _limited(
        detail,
        "encrypted runs at N=2^15 and above may be killed (the demo takes 1.1 GB)",
        "close other programs, or see with 'penstock params size' which set fits",
    )


@_check
def check_cpu(host: Host) -> Finding:
    """Vector units: measured times describe this processor, and say little about others without them."""
    info = host.read("/proc/cpuinfo") or ""
    model = field_of(info, "model name") or platform.machine()
    flags = set((field_of(info, "flags") or field_of(info, "Features") or "").split())
    vectors = [name for flag, name in _VECTOR_UNITS.items() if flag in flags]
    detail = f"{model}: {', '.join(vectors) or 'no vector unit seen'}"
    if {"avx2", "fma"} <= flags or "asimd" in flags:
        return _ok(detail)
    return _limited(
        detail,
        "likeness: times measured here are those of an old or emulated processor",
        "measure on a processor with AVX2 (in a virtual machine: pass the host's processor through)",
    )


_VECTOR_UNITS = {"avx2": "AVX2", "fma": "FMA", "avx512f": "AVX-512", "avx512ifma": "AVX-512 IFMA", "asimd": "NEON"}


@_check
def check_governor(host: Host) -> Finding:
    """Frequency scaling: with a saving governor, a short measurement is one of a slow clock."""
    governor = (host.read("/sys/devices/system/cpu/cpu0/cpufreq/scaling_governor") or "").strip()
    if governor in ("performance", "schedutil"):
        return _ok(f"frequency governor '{governor}'")
    if governor:
        return _limited(
            f"frequency governor '{governor}'",
            "steady times: short measurements may run at a low clock",
            "cpupower frequency-set -g performance (as root)",
        )
    return _limited(
        "this machine does not show its frequency governor (a virtual machine?)",
        "changes of the clock during a measurement cannot be seen",
        "compare medians of repeated runs; measure on hardware for exact times",
    )


@_check
def check_threads(host: Host) -> Finding:
    """Cores that this process may use, against those of the machine and of OpenMP's settings."""
    total, allowed = host.cpu_count(), host.affinity()
    quota = _cpu_quota(host)
    asked = host.environ.get("OMP_NUM_THREADS")
    usable = min(allowed, int(quota)) if quota and quota >= 1 else allowed
    detail = f"{allowed} of {total} cores may be used"
    if quota is not None:
        detail += f", quota {quota:g} cores"
    detail += f", OMP_NUM_THREADS={asked}" if asked else ", OMP_NUM_THREADS not set"
    first = (asked or "").split(",")[0].strip()
    if asked and (not first.isdigit() or int(first) < 1):
        return _limited(
            detail,
            "OpenMP ignores a value that is not a positive number",
            f"export OMP_NUM_THREADS={usable}",
        )
    if (int(first) if first else allowed) > usable:
        return _limited(
            detail,
            "more threads than cores: encrypted runs are slower, and times scatter",
            f"export OMP_NUM_THREADS={usable}",
        )
    return _ok(detail)


@_check
def check_openmp(host: Host) -> Finding:
    """OpenMP's waiting policy: threads that spin make two threads slower than one on a busy machine."""
    policy = host.environ.get("OMP_WAIT_POLICY")
    if policy is None:
        return _ok("OMP_WAIT_POLICY not set: penstock sets it to passive")
    if policy.strip().lower() == "passive":
        return _ok("OMP_WAIT_POLICY=passive")
    return _limited(
        f"OMP_WAIT_POLICY={policy}",
        "waiting threads spin: on a busy machine two threads are slower than one",
        "export OMP_WAIT_POLICY=passive",
    )


CORE = ("python", "packages", "engine")
"""Checks without which nothing works."""


def examine(host: Host) -> list[Finding]:
    """Run every check."""
    return [check(host) for check in CHECKS.values()]


def unmet(findings: Collection[Finding], required: Collection[str]) -> list[Finding]:
    """Findings that block the work: a core check that is missing, or a required one that is not ok.

    Raises: UnknownName: a required check that does not exist.
    """
    for name in required:
        if name not in CHECKS:
            raise UnknownName("check", name, CHECKS)
    return [
        finding
        for finding in findings
        if (finding.check in CORE and finding.status is Status.MISSING)
        or (finding.check in required and finding.status is not Status.OK)
    ]


def _available_memory(host: Host) -> tuple[int | None, str]:
    """Bytes that this process can still take, and a note where a control group sets the limit."""
    kib = re.search(r"^MemAvailable:\s+(\d+) kB", host.read("/proc/meminfo") or "", re.MULTILINE)
    if not kib:
        return None, ""
    available = int(kib[1]) * 1024
    for limit_file, used_file in (
        ("/sys/fs/cgroup/memory.max", "/sys/fs/cgroup/memory.current"),
        ("/sys/fs/cgroup/memory/memory.limit_in_bytes", "/sys/fs/cgroup/memory/memory.usage_in_bytes"),
    ):
        limit, used = (host.read(file) or "" for file in (limit_file, used_file))
        if limit.strip().isdigit() and used.strip().isdigit():
            left = max(0, int(limit) - int(used))
            if left < available:
                return left, f" (control group limit {format_bytes(int(limit))})"
    return available, ""


def _cpu_quota(host: Host) -> float | None:
    """Cores' worth of time that a control group allows; `None` without a limit."""
    quota, _, period = (host.read("/sys/fs/cgroup/cpu.max") or "").strip().partition(" ")
    if quota.isdigit() and period.isdigit() and int(period) > 0:
        return int(quota) / int(period)
    return None


def _try_import(host: Host, code: str) -> tuple[str, str, str]:
    """Version and path of what a separate process imports, and why it cannot; empty where it can."""
    done = host.run([host.python, "-c", code])
    version, _, path = done.stdout.strip().rpartition("\n")
    return version, path, "" if done.returncode == 0 else _why(done.stderr, done)


def _why(text: str, done: Printed) -> str:
    """The last line of a text, or how its command ended."""
    lines = [line.strip() for line in text.splitlines() if line.strip()]
    return lines[-1] if lines else f"exit status {done.returncode}"
