"""Whole programs in the engine beside the same calls one by one: every word of every result, rows and times."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import replace
from typing import Any

import numpy as np
import pytest

from penstock.errors import BudgetTooSmall, EvaluationRefused
from penstock.program.evaluator.protocol import Evaluator, Values
from penstock.program.running import trace_workload
from penstock.program.running.reading import describe, resolve
from penstock.runtime.native.client import Decrypted, Encrypted
from penstock.runtime.native.client_process import ClientProcess
from penstock.runtime.native.engine import make_context
from penstock.runtime.native.prepared import ClientPlace, KeyPlace, Prepared
from penstock.runtime.native.whole import compile_whole, run_whole
from penstock.scheme.params import catalogue
from penstock.scheme.traces.inspect import differences, problems
from penstock.scheme.traces.schema import TraceMeta
from support.narrow_networks import FEW_VALUES, quarter


class Repeating:
    """A client whose encryptions are the same ciphertexts in every run; it keeps the bytes of what it decrypts."""

    def __init__(self, client: Any) -> None:
        self._client, self._encrypted, self._next = client, list[Encrypted](), 0
        self.decrypted: list[bytes] = []

    def begin(self) -> None:
        self._next, self.decrypted = 0, []

    def encrypt(self, values: Values) -> Encrypted:
        self._next += 1
        if self._next > len(self._encrypted):
            self._encrypted.append(self._client.encrypt(values))
        now = time.perf_counter()
        return replace(self._encrypted[self._next - 1], begun_s=now, encoded_s=now, ended_s=now)

    def decrypt(self, content: bytes, *, is_complex: bool = False) -> Decrypted:
        self.decrypted.append(content)
        found: Decrypted = self._client.decrypt(content, is_complex=is_complex)
        return found

    def __getattr__(self, name: str) -> Any:
        return getattr(self._client, name)


class Opened:
    """A workload's keys, and what runs it."""

    def __init__(self, prepared: Prepared, program: Callable[[Evaluator], Any], meta: TraceMeta) -> None:
        self.prepared, self.program, self.meta = prepared, program, meta
        self.client: Any = Repeating(prepared.client)
        prepared.client = self.client

    def one_by_one(self) -> Any:
        self.client.begin()
        return self.prepared.run(self.program, self.meta)

    def whole(self, lanes: int | None = None, **budget: Any) -> Any:
        self.client.begin()
        whole = compile_whole(self.prepared, self.program, self.meta, lanes)
        return run_whole(self.prepared, whole, KeyPlace(**budget))


@contextmanager
def opened(name: str, size: str, key_share: float | None = None) -> Iterator[Opened]:
    workload, size_name, params = resolve(name, None, size)
    if name in FEW_VALUES:
        params = quarter(params)
    chosen = workload.SIZES[size_name]
    data = workload.data(chosen, params.slots, 3)
    trace = trace_workload(name, params, size_name, 3, data)
    whole = params.total_key_bytes(dict.fromkeys(trace.view().key_ids(), params.num_q))
    place = KeyPlace(budget_bytes=None if key_share is None else int(key_share * whole))
    with ExitStack() as stack:
        prepared = Prepared(params, trace, place, (ClientPlace.INSIDE, None), 2, stack)
        yield Opened(
            prepared,
            lambda ev: workload.program(ev, data, chosen),
            describe(workload.NAME, params, "native", size_name, 3),
        )


DEVICES = ("recording",)


@pytest.mark.parametrize("device", DEVICES)
@pytest.mark.parametrize("lanes", [1, 2])
@pytest.mark.parametrize(
    ("name", "size"),
    [("matrix-multiplication", "ci"), ("logistic-regression", "ci"), ("bootstrapping", "ci-4"), ("sorting", "ci")],
)
def test_a_device_gives_the_processors_words(name: str, size: str, lanes: int, device: str) -> None:
    with opened(name, size) as pair:
        pair.client.begin()
        whole = compile_whole(pair.prepared, pair.program, pair.meta, lanes)
        run_whole(pair.prepared, whole, device=device)
        words = pair.client.decrypted
        assert words
        pair.whole(lanes=lanes)
        assert pair.client.decrypted == words
        with pytest.raises(EvaluationRefused, match="there is no device 'abacus': cpu or recording"):
            run_whole(pair.prepared, whole, device="abacus")


@pytest.mark.parametrize(
    ("name", "size"),
    [
        ("matrix-multiplication", "ci"),  # hoisted rotations
        ("cnn", "ci"),  # many constants
        ("logistic-function", "ci"),  # series
        ("filter-aggregate", "ci"),
        ("equi-join", "ci"),
        ("argmax", "ci"),
        ("bootstrapping", "ci"),  # one refresh
        ("bootstrapping", "ci-4"),  # four together
        ("logistic-regression", "ci"),
        ("chi-square", "ci"),
        ("sorting", "ci"),
    ],
)
def test_a_whole_program_has_the_words_and_rows_of_its_calls_one_by_one(name: str, size: str) -> None:
    with opened(name, size) as pair:
        one = pair.one_by_one()
        words = pair.client.decrypted
        assert words
        for lanes in (1, 2):
            found = pair.whole(lanes=lanes)
            assert pair.client.decrypted == words, lanes
            assert list(differences(one.trace, found.trace)) == []
            assert list(problems(found.trace)) == []
            assert found.lanes == lanes
            times = found.trace.operations
            starts, ends = times["start_s"].to_numpy(), times["end_s"].to_numpy()
            assert (starts >= 0).all()
            assert (ends >= starts).all()
            assert ends.max() <= found.wall_s


@pytest.mark.parametrize("share", [1.0, 0.3])
def test_keys_from_disk_are_waited_for_in_order(share: float) -> None:
    with opened("bootstrapping", "ci", share) as pair:
        words = (pair.one_by_one(), pair.client.decrypted)[1]
        for lanes in (1, 2):
            found = pair.whole(budget_bytes=pair.prepared.place.budget_bytes, lanes=lanes)
            assert pair.client.decrypted == words
            assert len(found.key_waits_s) == len([key for key in found.trace.operations["key"].to_pylist() if key])
            assert found.traffic.peak_resident_bytes <= found.budget_bytes


def test_a_memory_budget_is_shared_predicted_and_held() -> None:
    with opened("hdc-classify", "ci", 1.0) as pair:
        words = (pair.one_by_one(), pair.client.decrypted)[1]
        free = pair.whole()
        assert pair.client.decrypted == words
        assert free.predicted_peak_bytes == pytest.approx(free.peak_bytes, rel=0.15)
        with pytest.raises(
            BudgetTooSmall, match=r"--memory .* is too little: the program needs .* at least"
        ) as refused:
            pair.whole(memory_bytes=1 << 20)
        least = int(str(refused.value).rpartition("raise it to ")[2].partition(" bytes")[0])
        tight = pair.whole(memory_bytes=least + (2 << 20))
        assert pair.client.decrypted == words
        assert tight.traffic.peak_resident_bytes <= tight.budget_bytes < free.budget_bytes
        assert tight.inputs.read_bytes > 0
        assert "in memory (1 GB saves" in tight.memory_why


def test_the_client_rests_while_a_whole_program_computes() -> None:
    workload, size, params = resolve("matrix-multiplication", None, "ci")
    data = workload.data(workload.SIZES[size], params.slots, 3)
    trace = trace_workload("matrix-multiplication", params, size, 3, data)
    with ExitStack() as stack:
        prepared = Prepared(params, trace, KeyPlace(), (ClientPlace.PROCESS, None), 2, stack)
        client: Any = prepared.client
        assert isinstance(client, ClientProcess)
        seen: list[int | None] = []
        chosen = workload.SIZES[size]
        meta = describe(workload.NAME, params, "native", size, 3)
        whole = compile_whole(prepared, lambda ev: workload.program(ev, data, chosen), meta)
        found = run_whole(prepared, whole, on_operation=lambda done, total: seen.append(client.pid))
        assert seen
        assert set(seen) == {None}
        assert found.client_peak_rss_bytes > 0


def test_a_constant_too_large_for_its_modulus_is_refused() -> None:
    context = make_context(catalogue.get("insecure-ci"))
    for limbs, value in ((1, 2.0**21), (2, 2.0**60)):
        with pytest.raises(EvaluationRefused, match=r"values whose coefficients have .* bits at .* limbs of .* bits"):
            context.encode(np.full(4, value, dtype=np.complex128), limbs, 1, 4)
    context.encode(np.full(4, 100.0, dtype=np.complex128), 1, 1, 4)
