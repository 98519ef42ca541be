"""A package on penstock's evaluator: from the same ciphertexts and keys, every word of its program's results."""

from __future__ import annotations

import numpy as np
import pytest

from penstock.program import workloads
from penstock.program.package.file import open_package, write_package
from penstock.program.package.replay import run_package
from penstock.program.running.packaging import package_workload
from penstock.program.running.readings import READINGS
from penstock.program.running.trace import trace_workload
from penstock.runtime.native.evaluator import NativeEvaluator


class Kept:
    """Ends that keep what goes through them, and give the same ciphertexts again."""

    def __init__(self, inner, given=None):
        self.inner, self.encrypted, self.results = inner, [], []
        self._given = None if given is None else iter(given)

    def encrypt(self, values):
        self.encrypted.append(self.inner.encrypt(values) if self._given is None else next(self._given))
        return self.encrypted[-1]

    def decrypt(self, content, *, is_complex=False):
        self.results.append(content)
        return self.inner.decrypt(content, is_complex=is_complex)


SMALL = (
    "cnn", "logistic-function", "filter-aggregate", "cryptoracle-matrix-multiplication", "bootstrapping",
    "string-match",
)  # fmt: skip


@pytest.mark.parametrize("name", SMALL)
def test_a_package_has_its_programs_words_natively(name, tmp_path):
    workload = workloads.get(name)
    size = next(iter(workload.SIZES))
    write_package(package_workload(name, size=size), tmp_path / "model.pkg")
    package, chosen = open_package(tmp_path / "model.pkg"), workload.SIZES[size]
    data = workload.data(chosen, package.params.slots, 0)
    trace = trace_workload(name, size=size)
    with READINGS["native"].evaluator(package.params, trace) as ev:
        client = ev.ends
        program = ev.ends = Kept(client)
        workload.program(ev, data, chosen)
        replayed = Kept(client, program.encrypted)
        again = NativeEvaluator(ev.engine, replayed)
        outputs = run_package(again, package, {each.name: np.zeros(each.length) for each in package.inputs})
    assert replayed.results == program.results
    assert len(outputs) == len(program.results) > 0
    kinds = [evaluator.builder.kinds() for evaluator in (ev, again)]
    assert kinds[0] == kinds[1]
