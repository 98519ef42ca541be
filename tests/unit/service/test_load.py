"""The load generator: arrivals, percentiles, and a fake service that refuses, fails and is slow."""

from __future__ import annotations

import json
import math
from collections import Counter
from pathlib import Path

import numpy as np
import pytest

from penstock.errors import UnknownName, UsageError
from penstock.front.cli.main import main
from penstock.lab.simulation.servers.stream import shares
from penstock.program.package.builder import PackageBuilder
from penstock.program.package.content import ConstantsInMemory, Input, Output
from penstock.program.package.file import write_package
from penstock.scheme.params import catalogue
from penstock.service.load.arrivals import Arrival, bursts, drawn, poisson, read_arrivals
from penstock.service.load.report import JobRow, by, summary
from penstock.service.load.tenants import read_tenants
from penstock.service.work.record import percentiles
from support.fake_service import TOKEN, fake_service


def test_gaps_of_poisson_arrivals_are_exponential() -> None:
    times = np.array(poisson(200.0, 100.0, np.random.default_rng(3)))
    gaps = np.diff(times)
    assert abs(gaps.mean() - 1 / 200) < 3 * (1 / 200) / math.sqrt(len(gaps))
    # Of an exponential distribution, as much lies above the mean as 1/e.
    assert abs(np.mean(gaps > 1 / 200) - math.exp(-1)) < 0.02
    assert times[-1] < 100.0


def test_bursts_keep_the_mean_rate() -> None:
    times = bursts(200.0, 100.0, 10, np.random.default_rng(3))
    assert set(Counter(times).values()) == {10}
    assert abs(len(times) / 100.0 - 200.0) < 15


def test_tenants_are_drawn_by_zipfs_law() -> None:
    found = drawn([0.0] * 20_000, 10, 1.0, np.random.default_rng(5))
    counts = Counter(each.tenant for each in found)
    for rank, share in enumerate(shares(10, 1.0)):
        assert abs(counts[rank] / 20_000 - share) < 0.015
    assert shares(4, 0.0).tolist() == [0.25] * 4


def test_percentiles_are_values_of_jobs_that_computed() -> None:
    rows = [_row(number, "done", ended_s=number + 0.01 * (number + 1)) for number in range(100)]
    rows += [_row(200, "refused", status=503), _row(201, "unsent"), _row(202, "failed", ended_s=203.0)]
    found = summary(rows, 50.0, within_s=0.25)
    assert (found["p50_s"], found["p99_s"]) == (pytest.approx(0.50), pytest.approx(0.99))
    assert (found["done"], found["refused"], found["failed"], found["unsent"], found["jobs"]) == (100, 1, 1, 1, 103)
    assert found["goodput_per_s"] == pytest.approx(25 / 50, abs=0.021)
    assert found["done_per_s"] == 2.0
    (tenant,) = by("tenant", rows, 50.0, 0.25)
    (program,) = by("program", rows, 50.0, None)
    assert (program["program"], program["goodput_per_s"]) == ("p", 2.0)
    assert tenant["goodput_per_s"] == found["goodput_per_s"]
    assert (tenant["jobs"], tenant["done"], tenant["mean_s"]) == (103, 100, pytest.approx(0.505))
    nothing = summary([_row(0, "refused", status=429)], 1.0, None)
    assert nothing["p99_s"] is None
    assert percentiles([], (50,)) == {"p50_s": None}


def test_a_late_generator_does_not_hide_waiting() -> None:
    row = JobRow(tenant="a", program="p", job="j", due_s=1.0, sent_s=5.0, accepted_s=5.1, ended_s=6.0, outcome="done")
    assert row.latency_s == 5.0
    assert summary([row], 6.0, None)["generator_late_p99_s"] == 4.0


def _row(due_s: float, outcome: str, **more: object) -> JobRow:
    fields = {"accepted_s": None, "ended_s": None, **more}
    return JobRow(tenant="a", program="p", job="j", due_s=due_s, sent_s=due_s, outcome=outcome, **fields)  # type: ignore[arg-type]


def test_a_file_of_arrivals_is_read_in_order_of_time(tmp_path: Path) -> None:
    path = tmp_path / "a.csv"
    path.write_text("at_s,tenant\n2.5,bob\n1,alice\n")
    assert read_arrivals(path, ["alice", "bob"]) == [Arrival(1.0, 0), Arrival(2.5, 1)]
    path.write_text("at_s,tenant\n1,carol\n")
    with pytest.raises(UnknownName, match="line 2"):
        read_arrivals(path, ["alice"])
    for content in ("at_s,tenant\nsoon,alice\n", "at_s,tenant\n-1,alice\n", "at_s,tenant\nnan,alice\n", "a,b\n", ""):
        path.write_text(content)
        with pytest.raises(UsageError, match=r"a\.csv"):
            read_arrivals(path, ["alice"])


TENANTS = """
[[tenant]]
name = "alice"
token_file = "token"
program = "echo"
inputs = {x = "x.ct"}

[[tenant]]
name = "bob"
token_file = "token"
program = "echo"
inputs = {x = "x.ct"}
"""


@pytest.fixture
def here(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "token").write_text(TOKEN)
    (tmp_path / "token").chmod(0o600)
    (tmp_path / "x.ct").write_bytes(b"a ciphertext, for all that a fake knows")
    (tmp_path / "tenants.toml").write_text(TENANTS)
    return tmp_path


@pytest.mark.parametrize(
    ("old", "new", "says"),
    [
        ('"bob"', '"alice"', "twice"),
        ('program = "echo"\n', "", r"'tenant\[0\].program' is missing"),
        ('{x = "x.ct"}', "{}", r"'tenant\[0\].inputs' is {}: .* at least 1 item"),
        ("[[tenant]]", "[[tenants]]", "unknown key 'tenants': did you mean 'tenant'"),
        ("=", "", "TOML"),
    ],
)
def test_a_file_of_tenants_says_what_it_lacks(here: Path, old: str, new: str, says: str) -> None:
    (here / "tenants.toml").write_text(TENANTS.replace(old, new))
    with pytest.raises(UsageError, match=says):
        read_tenants(here / "tenants.toml")


def test_a_load_drives_a_service_and_reports_every_job(here: Path, capsys: pytest.CaptureFixture[str]) -> None:
    constants = ConstantsInMemory()
    builder = PackageBuilder(constants)
    builder.output(builder.encrypt(Input("x", 8)), Output("y", 8))
    write_package(builder.finish("echo", catalogue.get("insecure-ci"), constants), here / "echo.pkg")
    with fake_service(here) as fake:
        fake.blobs["0" * 64] = (here / "echo.pkg").read_bytes()
        fake.deploy("echo", "0" * 64)
        words = ["load", "--service", fake.url, "--tenants", "tenants.toml", "--format", "json", "-q"]
        assert main([*words, "--rate", "60", "--duration", "1 s", "--zipf", "1", "--rows", "jobs.jsonl"]) == 0
        found = json.loads(capsys.readouterr().out)
        assert found["done"] == found["jobs"] == len(fake.jobs) > 30
        assert 0 < found["p50_s"] <= found["p99_s"] <= found["max_s"]
        assert sum(each["jobs"] for each in found["tenants"]) == found["jobs"]
        assert [each["program"] for each in found["programs"]] == ["echo"]
        assert found["server_p99_s"] == found["programs"][0]["server_p50_s"] == 3.5
        rows = [json.loads(line) for line in (here / "jobs.jsonl").read_text().splitlines()]
        assert {row["job"] for row in rows} == fake.jobs.keys()
        assert {row["server_queue_s"] for row in rows} == {1.0}
        assert {row["result_bytes"] for row in rows} == {len((here / "x.ct").read_bytes())}
        # Inputs went up once.
        assert fake.received == len((here / "x.ct").read_bytes())

        (here / "a.csv").write_text("at_s,tenant\n" + "0,alice\n" * 3 + "0.3,bob\n")
        fake.end_state = "expired"
        assert main([*words, "--arrivals", "a.csv"]) == 0
        found = json.loads(capsys.readouterr().out)
        assert (found["expired"], found["done"], found["p50_s"], found["goodput_per_s"]) == (4, 0, None, 0.0)

        (here / "a.csv").write_text("at_s,tenant\n" + "0,alice\n" * 3 + "1.5,bob\n")
        fake.end_state, fake.polls_before_done = "done", 4
        assert main([*words, "--arrivals", "a.csv", "--most-open", "1"]) == 0
        found = json.loads(capsys.readouterr().out)
        assert (found["unsent"], found["done"]) == (2, 2)
        assert TOKEN not in (here / "jobs.jsonl").read_text()


def test_a_refused_job_is_counted_and_not_sent_again(here: Path) -> None:
    from penstock.service.load.drive import ServiceLoad

    with fake_service(here) as fake:
        tenants = read_tenants(here / "tenants.toml")
        load = ServiceLoad(fake.url, tenants)
        load._blobs, load._outputs = [{}, {}], [[], []]
        fake.busy = ["1"]
        load.play([Arrival(0.0, 0)])
        load.play([Arrival(0.0, 1)])  # the program is not there
        load.close()
    assert [(row.outcome, row.status) for row in load.rows] == [("refused", 503), ("error", 404)]
    assert [path for _, path in fake.requests] == ["/v1/jobs", "/v1/jobs"]


@pytest.mark.parametrize("senders", [1, 8])
def test_a_feed_that_misses_jobs_loses_none(here: Path, senders: int) -> None:
    """Jobs in flight are many, and connections few; the feed forgets three times."""
    from penstock.service.load.drive import ServiceLoad

    constants = ConstantsInMemory()
    builder = PackageBuilder(constants)
    builder.output(builder.encrypt(Input("x", 8)), Output("y", 8))
    write_package(builder.finish("echo", catalogue.get("insecure-ci"), constants), here / "echo.pkg")
    with fake_service(here) as fake:
        fake.blobs["0" * 64] = (here / "echo.pkg").read_bytes()
        fake.deploy("echo", "0" * 64)
        load = ServiceLoad(fake.url, read_tenants(here / "tenants.toml"), senders=senders)
        load._blobs, load._outputs = [{"x": "0" * 64}] * 2, [["y"]] * 2
        fake.polls_before_done, fake.forgets = 5, 3
        load.play([Arrival(0.001 * number, number % 2) for number in range(200)])
        load.close()
        assert Counter(row.outcome for row in load.rows) == {"done": 200}
        assert {row.job for row in load.rows} == fake.jobs.keys()
