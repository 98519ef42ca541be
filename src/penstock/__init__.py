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
from penstock.system.lazy import at_first_use
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
    from penstock.hall.queueing import run_queue as run_queue
    from penstock.hall.running import run as run
    from penstock.hall.simulating import simulate as simulate
    from penstock.hall.sweeping import sweep as sweep
    from penstock.openfhe.recorder.context import record as record

_PLACES = {
    "penstock.hall.catalogues": "catalogue machine parameters sizes",
    "penstock.hall.computing": "package_keys package_server",
    "penstock.hall.fitting": "fit_machine",
    "penstock.hall.predicting": "precision predict suggest what_if",
    "penstock.hall.programs": "trace",
    "penstock.hall.queueing": "run_queue",
    "penstock.hall.running": "run",
    "penstock.hall.simulating": "simulate",
    "penstock.hall.sweeping": "sweep",
    "penstock.openfhe.recorder.context": "record",
}
"""Module -> the functions that it has."""
__all__ = ["PenstockError", "__version__", *sorted(" ".join(_PLACES.values()).split())]

if not TYPE_CHECKING:  # for a type checker the names above are all that there is
    __getattr__, __dir__ = at_first_use(__name__, _PLACES, ("PenstockError", "__version__"))
