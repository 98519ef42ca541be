"""Rows that `analyze` keeps of a simulation."""

from __future__ import annotations

import pytest

from penstock.analyze import simulated_rows, tidy_rows
from penstock.machines import load_machine
from penstock.machines.catalogue import load_tier
from penstock.program.reading import trace_workload
from penstock.simulate.hierarchy import ForcedHitRatio
from penstock.simulate.price import price_trace
from penstock.simulate.study import simulate


def test_the_hit_ratio_that_80_percent_needs_counts_the_latency_of_each_read() -> None:
    machine, tier = load_machine("heap"), load_tier("nvme-gen5")
    assert tier.latency_s > 0
    trace = trace_workload("inner-product", "heap", "ci")
    priced = price_trace(trace, machine)
    rows = list(tidy_rows(simulated_rows(trace, machine, [tier], priced), trace, [tier], priced))
    (needed,) = (row["value"] for row in rows if row["quantity"] == "hit_ratio_for_80_percent")
    assert 0 < needed < 1
    (played,) = simulate(trace, machine, [tier], caches=[ForcedHitRatio(needed)], modes=("serial",), priced=priced)
    assert played["slowdown"] == pytest.approx(1.25, rel=1e-3)
