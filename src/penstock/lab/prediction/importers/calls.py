"""The names that other projects' files have for operations, and for the arguments of a benchmark: `calls.toml`."""

from __future__ import annotations

from penstock.base.system import toml

_WRITTEN = toml.packaged("penstock.lab.prediction.importers", "calls.toml")
OPENFHE_CALLS: dict[str, str] = _WRITTEN["openfhe"]
"""Calls of OpenFHE, in lower case without `_`, and our primitives; our own names are understood too."""
OPENFHE_NAMES: list[str] = _WRITTEN["openfhe_names"]
"""Known calls of OpenFHE, with their operands if OpenFHE has one name for several."""
COUNTED: dict[str, str] = _WRITTEN["counted"]
"""Calls that are counted, and that no primitive times by themselves."""
ARGUMENTS: dict[str, str] = _WRITTEN["arguments"]
"""Arguments that are understood in the name of a benchmark."""
CRYPTORACLE_CALLS: dict[str, tuple[str, int | None]] = {
    column: (call["item"], call.get("degree")) for column, call in _WRITTEN["cryptoracle"].items()
}
"""Column -> our primitive, and the degree of the series that it evaluates."""
