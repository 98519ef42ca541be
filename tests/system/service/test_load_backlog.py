"""Many jobs in flight at the real front, over few connections. They end when all of them are there."""

from __future__ import annotations

from collections import Counter
from pathlib import Path

import pytest

pytest.importorskip("fastapi")
pytest.importorskip("sqlalchemy")

from penstock.base.system.web import Token
from penstock.service.load.arrivals import Arrival
from penstock.service.load.drive import ServiceLoad
from penstock.service.load.report import summary
from penstock.service.load.tenants import Tenant
from support.serve_site import Site, package_bytes

JOBS = 120
SETTINGS = "[limits]\nrequests_per_s = 100000.0\ntenant_requests = 4\nunfinished_jobs = 10000\n"


def test_many_jobs_are_in_flight_over_three_connections(tmp_path: Path) -> None:
    site = Site(tmp_path, settings=SETTINGS, batch=JOBS)
    try:
        caller = site.tenant("alice")
        blob = caller.upload(package_bytes(tmp_path), "package").json["blob"]
        assert caller("POST", "/v1/programs", {"name": "small", "package": blob}).status == 201
        sent = caller.upload(b"a ciphertext, for all that the front knows").json["blob"]
        tenant = Tenant(name="alice", token=Token(str(caller.token)), program="small", inputs={"x": tmp_path})
        load = ServiceLoad(f"http://127.0.0.1:{site.ports[0]}", [tenant], senders=2)
        load._blobs, load._outputs = [{"x": sent}], [["y/1"]]
        took_s = load.play([Arrival(0.0, 0)] * JOBS)
        load.close()
        not_done = [row for row in load.rows if row.outcome != "done"]
        assert Counter(row.outcome for row in load.rows) == {"done": JOBS}, not_done
        assert all(row.result_bytes > 0 for row in load.rows)
        # The service's own times are shorter than the client's, and both know that the first job waited for the last.
        for row in load.rows:
            assert 0 <= (row.server_queue_s or 0) <= (row.server_s or 0) <= (row.latency_s or 0) + 0.01
        found = summary(load.rows, took_s, None)
        assert found["server_p99_s"] > 0.5 * (max(row.accepted_s or 0 for row in load.rows))
        polls = [line for line in site.log().splitlines() if '"GET"' in line and '"/v1/jobs"' in line]
        # Each answer tells of one ended job at least, and of all that ended with it.
        assert len(polls) <= JOBS + 2
    finally:
        assert site.stop() == 0
