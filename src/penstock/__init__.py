"""penstock: run, record, price and play fully homomorphic encryption where its keys do not fit in fast memory."""

from __future__ import annotations

from typing import Any

from penstock.version import __version__ as __version__


def __getattr__(name: str) -> Any:
    # Imported at use: `import penstock` stays quick, and works without OpenFHE.
    if name == "record":
        from penstock.openfhe.recorder import record

        return record
    raise AttributeError(f"module 'penstock' has no attribute '{name}'")
