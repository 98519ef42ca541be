"""What other distributions add to penstock, by their entry points: penstock-studies, and any that does the same."""

from __future__ import annotations

from importlib.metadata import EntryPoint

STUDIES = "penstock.studies"
"""Name of a study -> its click command below `penstock reproduce`."""
WORKLOADS = "penstock.workloads"
"""Name of a workload -> its module (`penstock.program.workloads`)."""
IMPORTERS = "penstock.importers"
"""Name of a project -> the module that reads its measurements (`penstock.lab.prediction.importers.foreign`)."""


def registered(group: str) -> dict[str, EntryPoint]:
    """The entry points of a group. Nothing of their distributions is imported."""
    from importlib.metadata import entry_points  # at use: it takes longer than the help of a verb

    return {point.name: point for point in entry_points(group=group)}
