"""Machines that price kernel work, accelerators and CPUs, and the tiers of their data, as cited TOML under `data/`."""

from __future__ import annotations

from penstock.scheme.machines.catalogue import (
    FITTED_MACHINE,
    STUDY_TIERS,
    load_machine,
    load_machines,
    load_tier,
    load_tiers,
    machine_names,
    tier_names,
)
from penstock.scheme.machines.figure import Evidence, Figure
from penstock.scheme.machines.missing import assumptions
from penstock.scheme.machines.networks import STUDY_NETWORKS, Network, load_network, load_networks, network_names
from penstock.scheme.machines.schema import Cost, FitError, FitReport, InsideModel, Machine, Overlap, Tier, assumed

__all__ = [
    "FITTED_MACHINE",
    "STUDY_NETWORKS",
    "STUDY_TIERS",
    "Cost",
    "Evidence",
    "Figure",
    "FitError",
    "FitReport",
    "InsideModel",
    "Machine",
    "Network",
    "Overlap",
    "Tier",
    "assumed",
    "assumptions",
    "load_machine",
    "load_machines",
    "load_network",
    "load_networks",
    "load_tier",
    "load_tiers",
    "machine_names",
    "network_names",
    "tier_names",
]
