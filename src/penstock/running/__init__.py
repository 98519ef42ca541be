"""Programs and their readings: one computation, several meanings."""

from __future__ import annotations

from penstock.running.clear import run_clear
from penstock.running.openfhe import record_openfhe
from penstock.running.reading import Reading, Run
from penstock.running.readings import READINGS
from penstock.running.trace import trace_workload

__all__ = ["READINGS", "Reading", "Run", "record_openfhe", "run_clear", "trace_workload"]
