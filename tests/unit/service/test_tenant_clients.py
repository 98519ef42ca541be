"""The processes of a queue's tenants: few at one time, and none that was left in the midst of an answer."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from penstock.errors import PenstockError
from penstock.runtime.native.client import Decrypted, Encrypted
from penstock.service import owners as owners_module
from penstock.service.owners import Owners
from penstock.service.tenants import Job


class FakeProcess:
    """A client without OpenFHE, which counts the processes that are there."""

    there: list[FakeProcess]
    started: list[str]

    def __init__(self, params: Any, folder: Path, **_: Any) -> None:
        self.params, self.tenant, self.key_tag = params, folder.name.partition("-")[0], "tag"
        self._open()

    @property
    def pid(self) -> int | None:
        return 1 if self in FakeProcess.there else None

    def make_keys(self, keys: Mapping[str, int], folder: Path, tenant: str, take: Callable[[str, Path], None]) -> None:
        self._open()

    def encrypt(self, values: Any) -> Encrypted:
        self._open()
        return Encrypted(content=b"", begun_s=0, encoded_s=0, ended_s=0)

    def decrypt(self, content: bytes, *, is_complex: bool = False) -> Decrypted:
        self._open()
        if not content:
            raise PenstockError("it holds no ciphertext")
        return Decrypted(values=np.zeros(self.params.slots), begun_s=0, ended_s=0)

    def release(self) -> None:
        if self in FakeProcess.there:
            FakeProcess.there.remove(self)

    def _open(self) -> None:
        if self not in FakeProcess.there:
            FakeProcess.there.append(self)
            FakeProcess.started.append(self.tenant)


@pytest.fixture
def started(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """Whose processes were started."""
    FakeProcess.there, FakeProcess.started = [], []
    monkeypatch.setattr(owners_module, "ClientProcess", FakeProcess)
    return FakeProcess.started


@pytest.fixture
def owners(tmp_path: Path, started: list[str]) -> Iterator[Owners]:
    found = Owners(tmp_path / "keys")
    yield found
    found.release()


def jobs(*tenants: str) -> list[Job]:
    return [Job(tenant=tenant, workload="inner-product", size="ci", seed=at) for at, tenant in enumerate(tenants)]


def test_jobs_of_one_key_pair_are_prepared_together_and_no_process_is_left(owners: Owners, started: list[str]) -> None:
    queue, ended = jobs("alice", "bob", "alice", "bob"), []
    prepared = owners.prepare(queue, on_job=lambda: ended.append(len(FakeProcess.there)))
    assert [each.job for each in prepared] == queue
    assert started == ["alice", "bob"]
    assert ended == [1] * 4
    assert FakeProcess.there == []
    assert len({each.key_pair for each in prepared}) == 2
    # All of them run one package, of no tenant's values.
    assert len({each.spec.package for each in prepared}) == 1


def test_one_process_is_there_in_whatever_order_tenants_are_asked(owners: Owners) -> None:
    for job in jobs("alice", "bob", "carol", "bob", "alice"):
        (made,) = owners.prepare([job])
        for path in made.spec.outputs.values():
            path.write_bytes(b"a result")
        owners.check(made)
        assert [each.tenant for each in FakeProcess.there] == [job.tenant]
    owners.release()
    assert FakeProcess.there == []
    assert not owners.folder.exists()


def test_a_process_that_was_left_in_the_midst_of_an_answer_is_ended(owners: Owners, started: list[str]) -> None:
    (made,) = owners.prepare(jobs("alice"))
    for path in made.spec.outputs.values():
        path.write_bytes(b"")
    with pytest.raises(PenstockError, match="result of tenant 'alice' does not decrypt: it holds no ciphertext"):
        owners.check(made)
    assert FakeProcess.there == []
    owners.prepare(jobs("alice"))
    assert started == ["alice", "alice", "alice"]
