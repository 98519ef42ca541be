"""What an operator and a tenant see of a real service: metrics, the present work, timelines, the feed of ended jobs."""

from __future__ import annotations

import math
import re
import threading
import time
from collections.abc import Iterator
from typing import Any

import pytest

pytest.importorskip("fastapi")
pytest.importorskip("sqlalchemy")
pytest.importorskip("penstock_client", reason="penstock's client is not installed")

from support.live_service import LiveService, W, X, write_score
from support.serve_site import Caller
from support.timeline_format import check_format, lanes_of

JOBS = 6
SAMPLE = re.compile(r'([a-z_]+)(?:\{((?:[a-z]+="(?:[^"\\]|\\.)*",?)*)\})? (\S+)')
LABEL = re.compile(r'([a-z]+)="((?:[^"\\]|\\.)*)"')


def parsed(text: str) -> dict[tuple[str, frozenset[tuple[str, str]]], float]:
    """Prometheus' text format by its rules: each metric has its help and type first, and each sample is there once."""
    found: dict[tuple[str, frozenset[tuple[str, str]]], float] = {}
    kind = name = ""
    for line in text.splitlines():
        if line.startswith("# HELP "):
            name, kind = line.split(" ")[2], ""
            continue
        if line.startswith("# TYPE "):
            assert line.split(" ")[2] == name
            kind = line.split(" ")[3]
            assert kind in ("counter", "gauge", "histogram")
            continue
        sample = SAMPLE.fullmatch(line)
        assert sample, line
        suffixes = ("_bucket", "_sum", "_count") if kind == "histogram" else ("",)
        assert sample[1] in [f"{name}{suffix}" for suffix in suffixes], line
        key = sample[1], frozenset(LABEL.findall(sample[2] or ""))
        assert key not in found, line
        found[key] = float(sample[3])
    assert text.endswith("\n")
    return found


@pytest.fixture(scope="module")
def live(tmp_path_factory: pytest.TempPathFactory) -> Iterator[LiveService]:
    found = LiveService(tmp_path_factory.mktemp("live"), "[work]\nabreast = 2\nkey_floor = '1 kB'\n")
    try:
        yield found
    finally:
        found.stop()


@pytest.fixture(scope="module")
def tenants(live: LiveService) -> dict[str, Caller]:
    """Two tenants, whose jobs have ended."""
    package = write_score(live.folder / "score.pkg")
    callers = {name: live.tenant(name) for name in ("alice", "bob")}
    for name, caller in callers.items():
        with live.client(name, caller) as service:
            service.deploy(package, "score")
            service.run("score", {"x": X, "w": W})
            for number in range(JOBS - 1):
                service.submit("score", {"x": X, "w": W}, f"{name}-{number}")
            for number in range(JOBS - 1):
                assert service.wait(f"{name}-{number}")["state"] == "done"
    return callers


def metrics(live: LiveService) -> dict[tuple[str, frozenset[tuple[str, str]]], float]:
    answer = live.operator("GET", "/metrics")
    assert answer.headers["content-type"].startswith("text/plain; version=0.0.4")
    return parsed(answer.body.decode())


def test_metrics_count_what_the_jobs_did(live: LiveService, tenants: dict[str, Caller]) -> None:
    for _ in range(3):
        assert tenants["alice"]("GET", "/v1/jobs/nobody").status == 404
    found = metrics(live)

    def one(name: str, **labels: str) -> float:
        return found[name, frozenset(labels.items())]

    rows = [each for caller in tenants.values() for each in caller("GET", "/v1/jobs").json["jobs"]]
    assert len(rows) == 2 * JOBS
    assert one("penstock_jobs", state="done") == one("penstock_jobs_ended_total", state="done") == 2 * JOBS
    for part, seconds in (
        ("queue", [each["figures"]["queue_s"] for each in rows]),
        ("key_wait", [each["figures"]["key_wait_s"] for each in rows]),
        ("compute", [each["figures"]["compute_s"] for each in rows]),
        ("", [each["ended_s"] - each["submitted_s"] for each in rows]),
    ):
        name = f"penstock_job_{part}_seconds" if part else "penstock_job_seconds"
        assert one(f"{name}_count", program="score") == 2 * JOBS
        assert one(f"{name}_sum", program="score") == pytest.approx(math.fsum(seconds), abs=1e-6)
        buckets = {dict(labels)["le"]: value for (each, labels), value in found.items() if each == f"{name}_bucket"}
        assert {float(bound) for bound in buckets} >= {0.001, 3600.0, math.inf}
        for bound, value in buckets.items():
            assert value == sum(each <= float(bound) for each in seconds)
    assert 0 < one("penstock_worker_memory_bytes") < one("penstock_worker_stated_memory_bytes")
    assert one("penstock_workers_killed_total") == one("penstock_running_over_predicted") == 0
    gets = {outcome: one("penstock_key_gets_total", outcome=outcome) for outcome in ("hit", "late_hit", "miss")}
    assert sum(gets.values()) == sum(each["figures"]["hits"] + each["figures"]["misses"] for each in rows)
    assert one("penstock_key_hit_ratio") == 1 - gets["miss"] / sum(gets.values())
    assert one("penstock_key_bytes_total", source="cache") > 0
    read = one("penstock_key_bytes_total", source="disk") + one("penstock_key_bytes_total", source="seed")
    # Nothing was given up, so that memory holds whatever was read.
    assert read == one("penstock_key_resident_bytes") > 0
    assert one("penstock_key_evictions_total") == 0
    assert one("penstock_key_budget_bytes") == 2e9
    assert one("penstock_key_floor_bytes") == 1000
    held = [one("penstock_tenant_key_bytes", tenant=tenant, place="memory") for tenant in tenants]
    assert sum(held) == read
    disk = {row["tenant"]: row["key_bytes"] for row in live.operator("GET", "/v1/tenants").json["tenants"]}
    assert all(one("penstock_tenant_key_bytes", tenant=name, place="disk") == disk[name] > 0 for name in tenants)
    assert one("penstock_refused_total", reason="no-job") == 3
    assert one("penstock_queue_jobs") == one("penstock_running_jobs") == 0
    assert one("penstock_upload_bytes_total", kind="package") > 0
    assert one("penstock_upload_bytes_total", kind="key") > sum(disk.values()) / 2
    assert one("penstock_upload_bytes_total", kind="input") > 0


def test_a_wrong_token_and_a_wrong_address_are_counted_by_reason(live: LiveService) -> None:
    assert Caller(live.ports[0], "wrong")("GET", "/v1/keys").status == 401
    assert live.operator("GET", "/nowhere").status == 404
    found = metrics(live)
    assert found["penstock_refused_total", frozenset({("reason", "token")})] >= 1
    assert found["penstock_refused_total", frozenset({("reason", "route")})] >= 1


def slices(drawn: dict[str, Any], category: str) -> list[dict[str, Any]]:
    return [each for each in drawn["traceEvents"] if each["ph"] == "X" and each["cat"] == category]


def test_the_timeline_of_the_service_has_its_parts(live: LiveService, tenants: dict[str, Caller]) -> None:
    drawn = live.operator("GET", "/v1/trace?last=100").json
    check_format(drawn)
    assert drawn["otherData"]["provenance"] == "measured"
    assert drawn["otherData"]["jobs"] == 2 * JOBS
    assert {"waits 1", "job slot 1", "job slot 2"} <= lanes_of(drawn)
    assert len(slices(drawn, "queue")) == len(slices(drawn, "write")) == 2 * JOBS
    rows = [each for caller in tenants.values() for each in caller("GET", "/v1/jobs").json["jobs"]]
    # Preparing, computing and writing are the whole of each job's seconds.
    spans = sum(each["dur"] for each in [*slices(drawn, "compute"), *slices(drawn, "write")]) / 1e6
    assert spans == pytest.approx(sum(each["figures"]["compute_s"] for each in rows), abs=1e-3)
    queued = sum(each["dur"] for each in slices(drawn, "queue")) / 1e6
    assert queued == pytest.approx(sum(each["figures"]["queue_s"] for each in rows), abs=1e-3)
    reads = slices(drawn, "key read")
    assert {each["args"]["tenant"] for each in reads} == set(tenants)
    found = metrics(live)
    for source, name in (("disk", "read_bytes"), ("seed", "expanded_bytes")):
        counted = found["penstock_key_bytes_total", frozenset({("source", source)})]
        assert sum(each["args"][name] for each in reads) == counted
    counters = {each["name"] for each in drawn["traceEvents"] if each["ph"] == "C"}
    assert counters == {"key bytes in memory", "jobs", "key bytes read"}
    assert drawn["otherData"]["begins_unix_s"] == pytest.approx(min(each["submitted_s"] for each in rows), abs=1.0)
    assert live.operator("GET", "/v1/trace?last=3").json["otherData"]["jobs"] == 3


def test_a_tenant_gets_the_timeline_of_its_own_job_only(live: LiveService, tenants: dict[str, Caller]) -> None:
    drawn = tenants["bob"]("GET", "/v1/jobs/bob-0/trace").json
    check_format(drawn)
    assert drawn["otherData"]["jobs"] == 1
    assert {each["args"]["job"] for each in slices(drawn, "queue")} == {"bob-0"}
    assert "alice" not in str(drawn)
    assert not [each for each in drawn["traceEvents"] if each["ph"] == "C"]
    refused = tenants["bob"]("GET", "/v1/jobs/alice-0/trace")
    assert (refused.status, refused.json["type"]) == (404, "urn:penstock:no-job")
    assert tenants["bob"]("GET", "/v1/trace").status == 404


def test_the_present_work_has_keys_by_tenant_and_latencies(live: LiveService, tenants: dict[str, Caller]) -> None:
    found = live.operator("GET", "/v1/work?most=5").json
    held = {row["tenant"]: row for row in found["tenants"]}
    assert held.keys() == set(tenants)
    assert all(row["memory_bytes"] > 0 < row["disk_bytes"] for row in held.values())
    assert all(row["memory_keys"] == 2 for row in held.values())
    programs = {(row["tenant"], row["program"]): row for row in found["programs"]}
    own = sorted(each["ended_s"] - each["submitted_s"] for each in tenants["alice"]("GET", "/v1/jobs").json["jobs"])
    alice = programs["alice", "score"]
    assert alice["jobs"] == JOBS
    # The pool's times and the state's differ by what the front takes for its rows.
    assert alice["p50_s"] == pytest.approx(own[JOBS // 2 - 1], abs=0.25)
    assert alice["p50_s"] <= alice["p95_s"] <= alice["p99_s"]
    assert found["waiting"] == 0


def test_one_question_waits_for_many_jobs(live: LiveService, tenants: dict[str, Caller]) -> None:
    alice, bob = tenants["alice"], tenants["bob"]
    begun = alice("GET", "/v1/jobs?after=start&wait=20").json
    assert (begun["jobs"], begun["missed"]) == ([], True)
    assert alice("GET", f"/v1/jobs?after={begun['after']}&wait=0.05").json["missed"] is False
    heard: list[Any] = []
    asked = threading.Thread(
        target=lambda: heard.append(alice("GET", f"/v1/jobs?after={begun['after']}&wait=20").json), daemon=True
    )
    asked.start()
    first = alice("GET", "/v1/jobs").json["jobs"][0]["job"]
    with live.client("alice", alice) as service:
        for number in range(3):
            service.submit("score", {"x": X, "w": W}, f"fed-{number}")
    asked.join(25)
    found, cursor = list(heard[0]["jobs"]), heard[0]["after"]
    ends = time.monotonic() + 20
    while len(found) < 3 and time.monotonic() < ends:
        answer = alice("GET", f"/v1/jobs?after={cursor}&wait=5").json
        found, cursor = found + answer["jobs"], answer["after"]
    assert sorted(each["job"] for each in found) == ["fed-0", "fed-1", "fed-2"]
    for each in found:
        assert each["state"] == "done"
        assert each["submitted_s"] <= each["started_s"] <= each["ended_s"]
        row = alice("GET", f"/v1/jobs/{each['job']}").json
        assert row["ended_s"] == each["ended_s"]
    assert bob("GET", f"/v1/jobs?after={cursor}").json["jobs"] == []
    assert first not in [each["job"] for each in found]
    assert alice("GET", "/v1/jobs?after=NO!").status == 422
