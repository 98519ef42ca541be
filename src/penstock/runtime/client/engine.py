"""The module `penstock_client`: its values, and its errors as those of penstock."""

from __future__ import annotations

import importlib
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from types import ModuleType
from typing import TYPE_CHECKING, Any

import numpy as np

from penstock.base.system import remedy
from penstock.base.system.files import FileError
from penstock.base.system.host import available_cores
from penstock.base.version import __version__
from penstock.errors import CapabilityMissing, KeyPairDamaged, KeyPairRefused, ParamsError, PenstockError
from penstock.program.evaluator.protocol import Values, check_real, padded
from penstock.scheme.params.ckks import CkksParameters
from penstock.scheme.params.primes import openfhe_primes

if TYPE_CHECKING:
    from penstock_client import Ring

MODULE = "penstock_client"


def load_client() -> ModuleType:
    """The module of the client.

    Raises: CapabilityMissing: it is not installed, or of another version.
    """
    try:
        module = importlib.import_module(MODULE)
    except ImportError as error:
        raise CapabilityMissing(
            f"penstock's client cannot be imported ({error}): it is a separate distribution; {remedy.client()}"
        ) from error
    if module.__version__ != __version__:
        raise CapabilityMissing(
            f"penstock-client is of version {module.__version__}, penstock of {__version__}: install the same"
        )
    return module


def make_ring(params: CkksParameters, threads: int | None = None) -> Ring:
    """The client's tables of a parameter set. `threads`: of one call; all processors if omitted.

    Raises: CapabilityMissing: as `load_client`. ParamsError: not a set for OpenFHE with ternary secrets.
    """
    client = load_client()
    q, p = openfhe_primes(params)
    try:
        ring: Ring = client.Ring(
            ring_dim=params.ring_dim,
            moduli_q=list(q),
            moduli_p=list(p),
            dnum=params.dnum,
            scaling=params.scaling.value,
            scale_bits=params.scale_bits,
            slots=params.slots,
            depth=params.depth,
            secret=params.secret,
            security=params.security_asked or None,
            threads=threads or available_cores(),
        )
    except client.ClientError as error:
        raise ParamsError(f"set '{params.name}': {error}") from error
    return ring


@contextmanager
def client_errors(path: Path | None = None) -> Iterator[None]:
    """Turn the client's errors inside the block into penstock's. `path`: the file that is being written or read."""
    client = load_client()
    try:
        yield
    except client.Damaged as error:
        raise KeyPairDamaged(str(error)) from error
    except client.Passphrase as error:
        raise KeyPairRefused(f"{error} (--passphrase-file FILE, or PENSTOCK_PASSPHRASE_FILE)") from error
    except client.Other as error:
        raise KeyPairRefused(str(error)) from error
    except client.ClientError as error:
        raise PenstockError(str(error)) from error
    except OSError as error:
        if path is None:
            raise
        raise FileError(path, "read or write", error) from error


def encodable(values: Any, slots: int) -> Values:
    """A contiguous vector of complex numbers without imaginary parts, (slots,), zeros at the end.

    Raises: PenstockError: a vector with imaginary parts; as `padded`.
    """
    given = padded(values, slots)
    check_real(given)
    return np.ascontiguousarray(given, dtype=np.complex128)
