"""An operator removes a tenant whose requests are in flight, and gives its name to another one."""

from __future__ import annotations

import threading
import time
from collections import Counter
from pathlib import Path

import pytest

pytest.importorskip("fastapi")
pytest.importorskip("sqlalchemy")

from support.serve_site import Caller, Site, random_bytes

CONTENT = random_bytes(2000)


def busy(caller: Caller, seen: Counter[int], number: int) -> None:
    """Uploads and jobs, until the token is wrong."""
    for count in range(10_000):
        content = random_bytes(500, 1000 * number + count)
        begun = caller.begin(content)
        answers = [begun]
        if begun.status == 201:
            name = begun.json["upload"]
            answers.append(caller("PUT", f"/v1/uploads/{name}?offset=0", content))
            answers.append(caller("POST", f"/v1/uploads/{name}/commit"))
        form = {"job": f"j{number}-{count}", "program": "small", "inputs": {"x": caller.shared}}
        answers.append(caller("POST", "/v1/jobs", form))
        seen.update(answer.status for answer in answers)
        if answers[-1].status == 401:
            return


def test_a_tenant_that_is_removed_amid_its_requests_leaves_nothing_to_the_next_of_its_name(tmp_path: Path) -> None:
    site = Site(tmp_path, hold=True, settings="[limits]\nrequests_per_s = 10000.0\n")
    seen: Counter[int] = Counter()
    for _ in range(3):
        first = site.tenant("v")
        assert first.deploy(tmp_path).status == 201
        first.shared = first.upload(CONTENT).json["blob"]
        threads = [threading.Thread(target=busy, args=(first, seen, number)) for number in range(8)]
        for thread in threads:
            thread.start()
        time.sleep(0.4)
        removed = site.operator("DELETE", "/v1/tenants/v")
        assert removed.status == 200
        next_one = site.tenant("v")
        for thread in threads:
            thread.join()
        for what in ("uploads", "jobs", "programs", "keys"):
            assert next_one("GET", f"/v1/{what}").json[what] == []
        (row,) = site.operator("GET", "/v1/tenants").json["tenants"]
        assert (row["used_bytes"], row["key_bytes"]) == (0, 0)
        assert not [path for path in (tmp_path / "state" / "tenants").rglob("*") if path.is_file()]
        site.operator("DELETE", "/v1/tenants/v")
    # Refusals name the removal, the token, or what the removal took away; nothing fails.
    assert set(seen) <= {200, 201, 202, 401, 404, 409}
    assert {201, 202, 401} <= set(seen)
    assert site.stop() == 0
