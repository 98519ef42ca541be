"""Programs and their readings: one computation, several meanings."""

from __future__ import annotations

from penstock.running.reading import Run, record_openfhe, run_clear, trace_workload

__all__ = ["Run", "record_openfhe", "run_clear", "trace_workload"]
