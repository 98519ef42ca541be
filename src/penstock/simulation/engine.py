"""The engine, loaded with a remedy where it cannot be, and its errors as penstock's own."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import TypeAlias

import numpy as np
import numpy.typing as npt

from penstock.errors import CapabilityMissing, PenstockError, UsageError

try:
    from penstock import _engine as native
except ImportError as error:
    raise CapabilityMissing(
        f"the engine penstock._engine cannot be loaded ({error}); build it with `make demo`, or with "
        "`maturin develop --release` in the environment that runs penstock"
    ) from error

__all__ = [
    "INT64_MAX", "Bools", "ClockOverflow", "ConservationError", "Floats", "Ints", "SimulationInputError",
    "engine_errors", "native",
]  # fmt: skip

Ints: TypeAlias = npt.NDArray[np.int64]
Floats: TypeAlias = npt.NDArray[np.float64]
Bools: TypeAlias = npt.NDArray[np.bool_]

INT64_MAX = 2**63 - 1


class SimulationInputError(UsageError):
    """Accesses, costs, a cache or a tier that break a rule; the message names it."""


class ClockOverflow(PenstockError):
    """The simulated time passes the end of the clock, 2^63 picoseconds or about 106 days."""


class ConservationError(PenstockError):
    """The accounts of a simulation do not add up: a defect of penstock."""


@contextmanager
def engine_errors() -> Iterator[None]:
    """Turns what the engine raises into penstock's errors."""
    try:
        yield
    except (ValueError, TypeError) as error:
        raise SimulationInputError(str(error)) from error
    except OverflowError as error:
        raise ClockOverflow(str(error)) from error
    except RuntimeError as error:
        raise ConservationError(str(error)) from error
