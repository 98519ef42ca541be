"""penstock: run, record, price and play fully homomorphic encryption where its keys do not fit in fast memory.

>>> import penstock as ps
>>> result = ps.simulate("inner-product", "sharp", tiers=["hbm", "pcie5"], params="sharp", cache="on-chip")
>>> [row["tier"] for row in result]
['hbm', 'pcie5']

`docs/api.md` describes the functions. Each is imported when it is first used: `import penstock` stays quick, and works
without OpenFHE.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from penstock.errors import PenstockError as PenstockError
from penstock.version import __version__ as __version__

if TYPE_CHECKING:
    from penstock.hall.catalogues import catalogue as catalogue
    from penstock.hall.catalogues import machine as machine
    from penstock.hall.catalogues import parameters as parameters
    from penstock.hall.catalogues import sizes as sizes
    from penstock.hall.computing import package_keys as package_keys
    from penstock.hall.computing import package_server as package_server
    from penstock.hall.fitting import fit_machine as fit_machine
    from penstock.hall.predicting import precision as precision
    from penstock.hall.predicting import predict as predict
    from penstock.hall.predicting import suggest as suggest
    from penstock.hall.predicting import what_if as what_if
    from penstock.hall.programs import trace as trace
    from penstock.hall.running import run as run
    from penstock.hall.simulating import simulate as simulate
    from penstock.hall.sweeping import sweep as sweep
    from penstock.openfhe.recorder.context import record as record

_PLACES = {
    "catalogue": "penstock.hall.catalogues",
    "fit_machine": "penstock.hall.fitting",
    "machine": "penstock.hall.catalogues",
    "package_keys": "penstock.hall.computing",
    "package_server": "penstock.hall.computing",
    "parameters": "penstock.hall.catalogues",
    "precision": "penstock.hall.predicting",
    "predict": "penstock.hall.predicting",
    "record": "penstock.openfhe.recorder.context",
    "run": "penstock.hall.running",
    "simulate": "penstock.hall.simulating",
    "sizes": "penstock.hall.catalogues",
    "suggest": "penstock.hall.predicting",
    "sweep": "penstock.hall.sweeping",
    "trace": "penstock.hall.programs",
    "what_if": "penstock.hall.predicting",
}
"""Function -> the module that has it."""
__all__ = ["PenstockError", "__version__", *sorted(_PLACES)]

if not TYPE_CHECKING:  # for a type checker the names above are all that there is

    def __getattr__(name):
        if name not in _PLACES:
            raise AttributeError(f"module 'penstock' has no attribute '{name}'")
        from importlib import import_module

        found = getattr(import_module(_PLACES[name]), name)
        globals()[name] = found
        return found

    def __dir__():
        return sorted(__all__)
