"""Programs and their readings: one computation, several meanings."""

from __future__ import annotations

from penstock.program.running.clear import run_clear
from penstock.program.running.openfhe import record_openfhe
from penstock.program.running.reading import Reading, Run
from penstock.program.running.readings import READINGS
from penstock.program.running.trace import trace_workload

__all__ = ["READINGS", "Reading", "Run", "record_openfhe", "run_clear", "trace_workload"]
