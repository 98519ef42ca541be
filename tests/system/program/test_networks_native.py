"""ResNet-20 on the native reading, its keys on disk: twenty bootstrappings and all layers, at the smallest size."""

from __future__ import annotations

import numpy as np
import pytest

from penstock.program.evaluator.circuits.bootstrap import with_few_keys
from penstock.program.running.clear import run_clear
from penstock.program.running.reading import resolve
from penstock.program.running.trace import trace_workload
from penstock.runtime.native.prepared import ClientPlace, KeyPlace, key_uses
from penstock.scheme.traces.inspect import differences, problems
from support.native_runs import record_native


@pytest.mark.usefixtures("encrypting")
def test_resnet20_natively_reads_the_image_and_leaves_the_trace_readings_trace() -> None:
    workload, size, params = resolve("resnet20", None, "ci")
    data = workload.data(workload.SIZES[size], params.slots, 2)
    expected = trace_workload("resnet20", with_few_keys(params), size)
    keys, uses = expected.view().key_ids(), key_uses(expected)
    # A quarter of the keys in memory.
    budget = len(keys) * params.key_bytes() // 4
    place, inside = KeyPlace(budget_bytes=budget), ClientPlace.INSIDE
    done = record_native("resnet20", params, size, 2, data, threads=1, keys=place, client=inside)
    check = workload.check(run_clear("resnet20", params, size, 2, data), done.result, data, workload.SIZES[size])
    assert check.passed, check.rules
    assert int(np.argmax(done.result)) == data.label
    assert check.max_abs_error < 1e-5
    assert list(differences(done.trace, expected.view())) == []
    assert list(problems(done.trace)) == []
    traffic = done.traffic
    assert done.made_keys == len(keys)
    assert traffic.hits + traffic.misses == len(uses)
    assert traffic.requested_bytes == sum(params.key_bytes(limbs) for _, limbs in uses)
    assert traffic.peak_resident_bytes <= budget < traffic.key_bytes < traffic.read_bytes
