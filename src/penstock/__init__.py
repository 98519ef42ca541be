"""penstock: run, record, price and play fully homomorphic encryption where its keys do not fit in fast memory.

>>> import penstock as ps
>>> result = ps.simulate("inner-product", "sharp", tiers=["hbm", "pcie5"], params="sharp", cache="on-chip")
>>> [row["tier"] for row in result]
['hbm', 'pcie5']

`docs/guides/api.md` describes the functions. Each is imported when it is first used: `import penstock` stays quick, and
works without OpenFHE.
"""

from __future__ import annotations

from sys import meta_path
from typing import TYPE_CHECKING

from penstock.base.moved import Moved
from penstock.base.system.lazy import at_first_use
from penstock.base.version import __version__ as __version__
from penstock.errors import PenstockError as PenstockError

if TYPE_CHECKING:
    from penstock.front.hall.catalogues import catalogue as catalogue
    from penstock.front.hall.catalogues import machine as machine
    from penstock.front.hall.catalogues import parameters as parameters
    from penstock.front.hall.catalogues import sizes as sizes
    from penstock.front.hall.computing import package_keys as package_keys
    from penstock.front.hall.computing import package_server as package_server
    from penstock.front.hall.fitting import fit_machine as fit_machine
    from penstock.front.hall.predicting import precision as precision
    from penstock.front.hall.predicting import predict as predict
    from penstock.front.hall.predicting import what_if as what_if
    from penstock.front.hall.programs import trace as trace
    from penstock.front.hall.queueing import run_queue as run_queue
    from penstock.front.hall.running import run as run
    from penstock.front.hall.simulating import simulate as simulate
    from penstock.front.hall.suggesting import suggest as suggest
    from penstock.front.hall.sweeping import sweep as sweep
    from penstock.program.openfhe.recorder.context import record as record

_PLACES = {
    "penstock.front.hall.catalogues": "catalogue machine parameters sizes",
    "penstock.front.hall.computing": "package_keys package_server",
    "penstock.front.hall.fitting": "fit_machine",
    "penstock.front.hall.predicting": "precision predict what_if",
    "penstock.front.hall.suggesting": "suggest",
    "penstock.front.hall.programs": "trace",
    "penstock.front.hall.queueing": "run_queue",
    "penstock.front.hall.running": "run",
    "penstock.front.hall.simulating": "simulate",
    "penstock.front.hall.sweeping": "sweep",
    "penstock.program.openfhe.recorder.context": "record",
}
"""Module -> the functions that it has."""
__all__ = ["PenstockError", "__version__", *sorted(" ".join(_PLACES.values()).split())]

meta_path.append(Moved())
if not TYPE_CHECKING:  # for a type checker the names above are all that there is
    __getattr__, __dir__ = at_first_use(__name__, _PLACES, ("PenstockError", "__version__"))
