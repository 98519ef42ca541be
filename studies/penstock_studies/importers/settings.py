"""The parameter sets of CryptOracle's runs, and the configuration that a row of its files states."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import lru_cache
from types import MappingProxyType
from typing import NamedTuple

from penstock.base.types import Row
from penstock.errors import UsageError
from penstock.lab.prediction.importers.foreign import BUILDS
from penstock.lab.prediction.importers.rows import whole
from penstock.scheme.params import catalogue, security
from penstock.scheme.params.ckks import CkksParameters, Scaling
from penstock.scheme.params.rules import MAX_RING_DIM, MIN_RING_DIM
from penstock.scheme.params.spec import CkksSpec
from penstock_studies.importers import columns

LEVELS = {"none": 0, "128c": 128, "192c": 192, "256c": 256}
BOOTSTRAP_DEPTH = 16
"""Levels that a context with bootstrapping keys has besides `depth`: 8, and 4 for each of the two transforms."""
DEFAULT_ORDER = 32
"""Of the matrices in files without a column for it."""
PLAIN, HEXL, WITHOUT_HEXL = BUILDS
"""Builds of the library: the one of all files, and the two of the comparison with Intel's HEXL."""
PLACEHOLDER = "1"

SETS: Mapping[str, str] = MappingProxyType(
    {
        "cifar10": "cryptoracle-cifar10",
        "chi_square_test": "cryptoracle-chi-square",
        "low_memory_resnet20": "cryptoracle-resnet20",
        "logistic_regression": "cryptoracle-logistic-regression",
    }
)
"""Workload -> its set of the catalogue. Its rows hold placeholders (1): ring dimension and depth are those of Table 5,
bits of primes and digits those of its source."""
_NONE = {"level": 0, "log_n": 0, "log_slots": 0, "depth": 0, "bootstraps": False}
"""Fields of a setting that a workload's set stands for."""


class TimingSetting(NamedTuple):
    """What makes rows repeats of each other."""

    cpu: str
    build: str
    """One of `BUILDS`."""
    workload: str
    """Column of a workload with a set of its own; empty for primitives and microbenchmarks."""
    level: int
    log_n: int
    log_slots: int
    depth: int
    bootstraps: bool
    order: int
    """Of the matrices; 0 for all but their product."""
    threads: int
    condition: str

    def params(self) -> CkksParameters:
        """Raises: ParamsError: a set that cannot be; UsageError: no ring dimension carries its depth."""
        if self.workload:
            return catalogue.get(SETS[self.workload])
        return parameters(self.level, self.log_n, self.log_slots, self.depth, self.bootstraps)


def settings_of(row: Sequence[str], header: columns.TimingsHeader) -> dict[str, TimingSetting]:
    """Column of times -> its setting.

    Raises: ValueError: a value that no run has.
    """
    at, order = header.at, DEFAULT_ORDER
    level = row[at["security_standard_level"]]
    if level not in LEVELS:
        raise ValueError(f"security_standard_level is {level!r}; known: {', '.join(LEVELS)}")
    threads = whole(row[at["num_threads"]], "num_threads", 0, 4096)
    if threads == 0:  # all of them
        cores = row[at[columns.CORES]] if columns.CORES in at else None
        threads = whole(cores, f"'{columns.CORES}' (for num_threads 0)", 1, 4096)
    if columns.ORDER in at:
        order = whole(
            row[at[columns.ORDER]],
            f"{columns.ORDER}, the order of the matrices,",
            2,
            1024,
        )
    placeholder = all(row[at[name]].strip() == PLACEHOLDER for name in ("n", "batch_size", "depth"))
    common: Row = {
        "cpu": row[at[columns.CPU]],
        "build": _build(row, at),
        "threads": threads,
        "condition": row[at[columns.CACHING]] if columns.CACHING in at else "",
    }
    stated: Row = {}
    settings = {}
    for item in header.items:
        if placeholder and item in SETS:
            own: Row = {**_NONE, "workload": item}
        else:
            stated = stated or _stated(row, header, LEVELS[level], placeholder)
            own = stated
        settings[item] = TimingSetting(**common, **own, order=order if item == "matrix_multiplication" else 0)
    return settings


def _build(row: Sequence[str], at: Mapping[str, int]) -> str:
    if columns.HEXL not in at:
        return PLAIN
    text = row[at[columns.HEXL]].strip().lower()
    if text not in ("true", "false"):
        raise ValueError(f"{columns.HEXL} is {text!r}; it is True or False")
    return HEXL if text == "true" else WITHOUT_HEXL


def _stated(row: Sequence[str], header: columns.TimingsHeader, level: int, placeholder: bool) -> Row:
    """The ring dimension, slots and depth that a row states."""
    at = header.at
    least, most = MIN_RING_DIM.bit_length() - 1, MAX_RING_DIM.bit_length() - 1
    if placeholder:
        named = next(item for item in header.items if item not in SETS)
        raise ValueError(
            f"n, batch_size and depth are {PLACEHOLDER}, placeholders, and Table 5 has no setting of '{named}' alone: "
            "write log2 of the ring dimension, log2 of the slots, and the depth of the run"
        )
    bootstrap = at.get("CKKS_Bootstrap Time")
    return {
        "workload": "",
        "level": level,
        "log_n": whole(row[at["n"]], "n, log2 of the ring dimension,", least, most),
        "log_slots": whole(row[at["batch_size"]], "batch_size, log2 of the slots,", 0, most),
        "depth": whole(row[at["depth"]], "depth", 1, 200),
        # The context of such a run was made with bootstrapping keys, and every primitive works on its longer chain.
        "bootstraps": bootstrap is not None and row[bootstrap].strip() not in ("", "N/A", "NaN", "nan"),
    }


@lru_cache(maxsize=1024)
def parameters(level: int, log_n: int, log_slots: int, depth: int, bootstraps: bool) -> CkksParameters:
    """The set that CryptOracle's file generator asks OpenFHE for.

    With a security level OpenFHE chooses the ring dimension itself and `log_n` says nothing.
    Raises: ParamsError: a set that cannot be.
    """
    name = f"cryptoracle-n{log_n}-b{log_slots}-d{depth}{'-bootstrap' if bootstraps else ''}"
    total = depth + (BOOTSTRAP_DEPTH if bootstraps else 0)

    def built(ring_dim: int) -> CkksParameters:
        return CkksSpec(
            name=name if not level else f"{name}-{level}c",
            ring_dim=ring_dim,
            slots=1 << log_slots,
            depth=total,
            first_mod_bits=52,
            scale_bits=48,
            dnum=2,
            scaling=Scaling.FLEXIBLE_AUTO,
            security="none",
            source="CryptOracle, util/cryptocontext-generator/file_generator.cpp",
        ).build()

    if not level:
        return built(1 << log_n)
    for log in range(max(log_slots + 1, MIN_RING_DIM.bit_length() - 1), MAX_RING_DIM.bit_length()):
        params = built(1 << log)
        if params.log_qp < (security.OPENFHE.max_log_qp(params.ring_dim, level) or 0):
            return params
    raise UsageError(f"no ring dimension up to {MAX_RING_DIM} carries depth {total} at {level} bit")
