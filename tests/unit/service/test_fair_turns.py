"""TenantTurns, labels and records that tenants share: none of them takes all."""

from __future__ import annotations

import threading
from pathlib import Path

import pytest

pytest.importorskip("fastapi")
pytest.importorskip("sqlalchemy")

from penstock.service.http.keys import TenantTurns
from penstock.service.work.messages import JobSpec
from penstock.service.work.record import MOST_READS, JobRecord, ReadRecord, Record
from support.serve_site import eventually


def test_imports_of_keys_take_turns_that_go_round_the_tenants() -> None:
    turns, order, threads = TenantTurns(), list[str](), list[threading.Thread]()

    def imports(tenant: str) -> None:
        with turns.of(tenant):
            order.append(tenant)

    with turns.of("hostile"):
        for tenant in ("hostile",) * 32 + ("alice", "bob", "alice"):
            threads.append(threading.Thread(target=imports, args=(tenant,)))
            threads[-1].start()
        eventually(lambda: sum(map(len, turns._waiting.values())) == len(threads))
        assert not order
    for thread in threads:
        thread.join(10)
    assert {*order[:3]} == {"hostile", "alice", "bob"}
    assert order[3:5] in (["hostile", "alice"], ["alice", "hostile"])
    assert len(order) == len(threads)


def test_a_turn_that_fails_is_over() -> None:
    turns = TenantTurns()
    with pytest.raises(KeyError), turns.of("a"):
        raise KeyError
    with turns.of("b"):
        pass


def test_the_record_loses_jobs_and_reads_of_the_tenant_that_has_most_of_them(tmp_path: Path) -> None:
    record = Record(most_jobs=100)
    for number in range(1000):
        tenant = "alice" if number < 10 else "hostile"
        spec = JobSpec(
            job=str(number), tenant=tenant, program="p", package=tmp_path, store=tmp_path, secret_tag=None,
            inputs={}, outputs={},
        )  # fmt: skip
        record.add_job(JobRecord(spec=spec, worker="", submitted_s=0, started_s=0, ended_s=0, times=None, figures={}))
    left = [job.spec.job for job in record.jobs]
    assert left == [*map(str, range(10)), *map(str, range(910, 1000))]
    for number in range(MOST_READS + 50):
        record.add_read(ReadRecord("", "alice" if number < 10 else "hostile", "k", 1, 0, False, 0.0, 1.0))
    assert len(record.reads) == MOST_READS
    assert sum(read.tenant == "alice" for read in record.reads) == 10
    record.forget("hostile")
    assert len(record.jobs) == len(record.reads) == 10
    assert len(record.copy().jobs) == 10
