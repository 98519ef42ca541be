"""The explorer's server: whom it answers, what it lets a browser do, and what hostile files do to it."""

from __future__ import annotations

import http.client
import json
import logging
import os
import socket
import time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from urllib.parse import quote, urlsplit

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pytest

from penstock.errors import MachineError, TraceError, UsageError
from penstock.front.explorer import app
from penstock.front.explorer.engine import Engine
from penstock.front.explorer.library import MAX_MACHINE_BYTES, Library, TooLarge
from penstock.front.explorer.serve import bound
from penstock.front.explorer.state import State
from penstock.program.running import trace_workload
from penstock.scheme.machines import load_machine
from penstock.scheme.machines.written import write_machine
from penstock.scheme.traces.io import write_trace
from penstock.scheme.traces.schema import Trace
from support.explore_site import EVIL, EVIL_RUN, SMALL, hostile_runs, serving
from support.fake_run import write_fake_run

pytest.importorskip("uvicorn", reason="the explorer's server is not installed: pip install 'penstock[explore]'")


@pytest.fixture(scope="module")
def runs(tmp_path_factory) -> Path:
    return hostile_runs(tmp_path_factory.mktemp("explore") / "runs")


@pytest.fixture(scope="module")
def site(runs):
    with serving(Library(runs=runs)) as address:
        yield address


def ask(site: str, path: str, method: str = "GET", **headers: str) -> tuple[int, dict[str, str], bytes]:
    where = urlsplit(site)
    connection = http.client.HTTPConnection(where.hostname, where.port, timeout=60)
    connection.putrequest(method, path, skip_host="Host" in headers)
    for name, value in headers.items():
        connection.putheader(name.replace("_", "-"), value)
    connection.endheaders()
    response = connection.getresponse()
    found = response.status, {k.lower(): v for k, v in response.getheaders()}, response.read()
    connection.close()
    return found


def test_only_this_machine_is_listened_to(site):
    port = urlsplit(site).port
    others = {info[4][0] for info in socket.getaddrinfo(socket.gethostname(), None, socket.AF_INET)} - {"127.0.0.1"}
    for address in others:
        if address.startswith("127."):
            continue
        with pytest.raises(OSError):  # noqa: PT011
            socket.create_connection((address, port), timeout=2)


@pytest.mark.parametrize("host", ["evil.example", "evil.example:{port}", "127.0.0.1.evil.example", "127.0.0.1:1", ""])
def test_a_name_that_was_rebound_to_this_machine_is_refused(site, host):
    port = urlsplit(site).port
    status, headers, body = ask(site, "/api/catalogue", Host=host.format(port=port))
    assert status in (400, 403)
    assert b"workloads" not in body
    if status == 403:
        assert "default-src 'none'" in headers["content-security-policy"]


def test_this_machine_is_answered_by_each_of_its_names(site):
    port = urlsplit(site).port
    for host in (f"127.0.0.1:{port}", f"localhost:{port}", f"[::1]:{port}"):
        assert ask(site, "/", Host=host)[0] == 200


def test_requests_of_other_sites_and_changes_are_refused(site):
    assert ask(site, "/api/catalogue", Sec_Fetch_Site="cross-site")[0] == 403
    assert ask(site, "/api/catalogue", Sec_Fetch_Site="cross-site", Sec_Fetch_Mode="navigate")[0] == 403
    assert ask(site, "/api/catalogue", Sec_Fetch_Site="same-site")[0] == 403
    assert ask(site, "/api/catalogue", Sec_Fetch_Site="same-origin")[0] == 200
    assert ask(site, "/", Sec_Fetch_Site="cross-site", Sec_Fetch_Mode="navigate")[0] == 200  # a link in a mail
    for method in ("POST", "PUT", "DELETE", "OPTIONS"):
        assert ask(site, "/api/catalogue", method)[0] == 405
    assert ask(site, "/?" + "x" * 9000)[0] == 414


def test_every_answer_forbids_what_the_page_does_not_need(site):
    for path in ("/", "/static/main.js", "/api/catalogue", "/api/view/whatif", "/nothing", "/static/nothing.js"):
        _, headers, _ = ask(site, path)
        policy = headers["content-security-policy"]
        assert "default-src 'none'" in policy
        assert "unsafe" not in policy
        assert "http" not in policy
        assert headers["x-content-type-options"] == "nosniff"
        assert headers["referrer-policy"] == "no-referrer"
        assert "access-control-allow-origin" not in headers


def test_a_report_is_shown_without_its_scripts(site, runs):
    (runs / "plain" / "report.html").write_text("<script>parent.document.title='hit'</script>tables")
    status, headers, body = ask(site, "/report/plain")
    assert status == 200
    assert b"tables" in body
    assert headers["content-security-policy"].startswith("sandbox;")
    assert "script" not in headers["content-security-policy"]


def test_a_report_is_not_read_to_its_end_for_a_reader_that_has_gone(tmp_path, monkeypatch):
    write_fake_run(tmp_path / "one").close()
    size, parts, read = 60 * 2**20, [], app._parts
    with (tmp_path / "one" / "report.html").open("wb") as file:
        file.truncate(size)

    def counted(path):
        for part in read(path):
            parts.append(len(part))
            yield part

    monkeypatch.setattr(app, "_parts", counted)
    with serving(Library(runs=tmp_path)) as site:
        where = urlsplit(site)
        with socket.create_connection((where.hostname, where.port), timeout=10) as connection:
            connection.sendall(f"GET /report/one HTTP/1.1\r\nHost: {where.netloc}\r\n\r\n".encode())
            assert connection.recv(12) == b"HTTP/1.1 200"
        assert ask(site, "/")[0] == 200
    assert 0 < sum(parts) < size


@pytest.mark.parametrize(
    "path",
    [
        "/static/..%2Fapp.py", "/static/../app.py", "/static/%2e%2e/app.py", "/report/..%2Foutside",
        "/report/../outside", "/report/link", "/report/half", "/report/%2Fetc", "/api/view/run?run=../outside",
        "/api/view/run?run=link",
        "/api/view/run?run=%2Fetc", "/api/view/whatif?workload=run:../outside",
        "/api/view/whatif?workload=%2Fetc%2Fpasswd",
        "/api/view/whatif?machine=run:link", "/api/view/whatif?tier=..%2Ftier.toml", "/api/view/../../etc/passwd",
    ],
)  # fmt: skip
def test_no_path_leads_out_of_the_folder(site, path):
    status, _, body = ask(site, path)
    found = json.loads(body)
    assert status in (200, 404, 422)
    assert "error" in found or "detail" in found
    assert set(found) <= {"error", "detail"}


@pytest.mark.parametrize("setting", ["params", "drive", "machine", "tier", "network", "workload", "predictions",
                                     "policy", "prefetch", "topology", "interleave", "levels"])  # fmt: skip
def test_an_address_reads_no_file(site, tmp_path, setting):
    secret = tmp_path / "secret.toml"
    secret.write_text('secret_key = "in clear"\n')
    os.mkfifo(tmp_path / "pipe.toml")
    view = {"drive": "drive", "predictions": "validation", "network": "hosts", "levels": "levels"}.get(
        setting, "whatif"
    )
    for path in (secret, tmp_path / "pipe.toml"):
        status, _, body = ask(site, f"/api/view/{view}?{setting}={quote(str(path), safe='')}")
        assert status == 200
        error = json.loads(body)["error"]
        assert error.startswith("unknown ")
        assert "secret_key" not in error


def test_what_is_no_regular_file_is_refused_without_opening_it(tmp_path):
    write_fake_run(tmp_path / "one").close()
    for name in ("report.html", "trace.parquet", "bench.parquet"):
        (tmp_path / "one" / name).unlink(missing_ok=True)
        os.mkfifo(tmp_path / "one" / name)
    with serving(Library(runs=tmp_path)) as site:
        for path in (
            "/report/one",
            "/api/view/whatif?workload=run:one&format=csv",
            "/api/view/measured?run=one&format=csv",
        ):
            status, _, body = ask(site, path)
            assert status == 422, path
            assert "not a regular file" in json.loads(body)["error"]


def test_a_run_that_cannot_be_read_says_why_and_the_others_are_listed(site):
    started = time.perf_counter()
    status, _, body = ask(site, "/api/view/runs")
    assert status == 200
    assert time.perf_counter() - started < 5
    rows = {row["run"]: row for row in json.loads(body)["rows"]}
    assert set(rows) == {"plain", EVIL_RUN, "huge", "no-json", "deep", "half"}
    assert rows["plain"]["state"] == "complete"
    assert "at most" in rows["huge"]["state"]
    assert "leads out" in rows["half"]["state"]
    for name in ("no-json", "deep"):
        assert "cannot be read" in rows[name]["state"]


def test_hostile_values_come_through_as_plain_json(site):
    status, headers, body = ask(site, f"/api/view/run?run={quote(EVIL_RUN)}")
    assert status == 200
    assert headers["content-type"].startswith("application/json")
    found = json.loads(body, parse_constant=lambda text: pytest.fail(f"{text} in JSON"))
    assert any(row["quantity"] == EVIL and row["value"] is None for row in found["rows"])
    status, headers, body = ask(site, f"/api/view/run?format=csv&run={quote(EVIL_RUN)}")
    assert headers["content-disposition"] == 'attachment; filename="penstock-run.csv"'
    assert status == 200


@pytest.mark.parametrize(
    "query",
    ["hit_ratio=nan", "hosts=99999999999", "first=-1", "cache=1e999%20GB", "queue_depth=0", "tier=nan%20GB/s", "zz=1",
     "tier=hbm&tier=ddr5", "buffer=%00&prefetch=perfect", "workload=" + "a" * 400, "format=xml"],
)  # fmt: skip
def test_impossible_settings_are_answered_with_the_rule(site, query):
    status, _, body = ask(site, f"/api/view/whatif?{query}")
    assert status == (404 if query == "format=xml" else 200)
    assert json.loads(body)["error"]
    if not query.startswith("format"):
        assert ask(site, f"/api/view/whatif?{query}&format=csv")[0] in (404, 422)


def many_times(trace: Trace, least: int) -> Trace:
    """The program again and again, with ciphertexts of its own each time, until it has so many operations."""
    ciphertexts = trace.objects.filter(pc.equal(trace.objects["class"].cast(pa.string()), "ciphertext"))
    old, table = ciphertexts["id"].to_numpy(), trace.operations.combine_chunks()
    operands, outputs = table["operands"].combine_chunks(), table["output"].to_numpy(zero_copy_only=False)
    none = np.isnan(outputs)
    outputs = np.where(none, 0, outputs).astype(np.int64)
    operations, objects = [], [trace.objects]
    numbers, free = np.arange(trace.objects.num_rows), trace.objects.num_rows
    scopes = table["scope"].combine_chunks()
    for copy in range(least // len(trace) + 1):
        named = pa.array([f"copy[{copy}]/{each}" if each else each for each in scopes.dictionary.to_pylist()])
        scope = pa.DictionaryArray.from_arrays(scopes.indices, named)
        lists = pa.ListArray.from_arrays(operands.offsets, pa.array(numbers[operands.flatten().to_numpy()]))
        made = pa.array(numbers[outputs], mask=none)
        moved = table
        for name, column in (("operands", lists), ("output", made), ("scope", scope)):
            field = table.schema.field(name)
            moved = moved.set_column(table.schema.get_field_index(name), field, column.cast(field.type))
        operations.append(moved)
        numbers = numbers.copy()
        numbers[old] = np.arange(free, free + len(old))
        objects.append(ciphertexts.set_column(0, ciphertexts.schema.field("id"), pa.array(numbers[old])))
        free += len(old)
    table = pa.concat_tables(operations).combine_chunks()
    ids = pa.array(range(table.num_rows), pa.int64())
    table = table.set_column(table.schema.get_field_index("id"), table.schema.field("id"), ids)
    return Trace(trace.meta, table, pa.concat_tables(objects).combine_chunks())


def test_a_million_operations_are_answered_without_a_hang(tmp_path):
    path = tmp_path / "long.parquet"
    write_trace(many_times(trace_workload("bootstrapping", "sharp"), 1_000_000), path)
    with serving(Library.of(tmp_path / "runs", traces=[path])) as site:
        ask(site, "/api/view/whatif?workload=file:long")
        for name, most in (("whatif", 2.0), ("residency", 5.0)):
            started = time.perf_counter()
            status, _, body = ask(site, f"/api/view/{name}?workload=file:long")
            took = time.perf_counter() - started
            assert status == 200
            assert "error" not in json.loads(body)
            assert len(body) < 2_000_000
            assert took < most, f"{name} took {took:.1f} s"
        # While the slowdown map plays 110 points, the page answers.
        with ThreadPoolExecutor() as pool:
            working = pool.submit(ask, site, "/api/view/slowdown?workload=file:long")
            time.sleep(0.2)
            started = time.perf_counter()
            assert ask(site, "/")[0] == 200
            assert time.perf_counter() - started < 2
            assert working.result()[0] == 200


def test_hostile_machine_and_trace_files_are_refused_at_the_start(tmp_path):
    big = tmp_path / "big.toml"
    with big.open("wb") as file:
        file.truncate(MAX_MACHINE_BYTES + 1)
    with pytest.raises(TooLarge, match="at most"):
        Library.of(tmp_path, [big])
    nan = tmp_path / "nan.toml"
    write_machine(load_machine("sharp"), nan)
    nan.write_text(nan.read_text().replace('"1 GHz"', '"nan GHz"'))
    with pytest.raises(MachineError, match="not a number"):
        Library.of(tmp_path, [nan])
    trace = tmp_path / "trace.parquet"
    trace.write_bytes(b"PAR1" + bytes(1000))
    engine = Engine(Library.of(tmp_path, traces=[trace]))
    with pytest.raises(TraceError):
        engine.trace(State(workload="file:trace"))


def test_small_answers_are_sent_at_once(site):
    """An answer whose body waits until the other side has acknowledged its head takes 40 ms, whatever it holds."""
    where = urlsplit(site)
    connection = http.client.HTTPConnection(where.hostname, where.port, timeout=60)
    took = []
    for _ in range(20):
        started = time.perf_counter()
        connection.request("GET", "/static/icon.svg")
        connection.getresponse().read()
        took.append(time.perf_counter() - started)
    connection.close()
    assert min(took) < 0.03


def test_a_taken_port_is_refused_with_the_remedy():
    with bound(0) as listening, pytest.raises(UsageError, match="--port"):
        bound(listening.getsockname()[1])


def test_the_first_answer_is_warm_when_the_page_asks(tmp_path):
    with serving(Library(runs=tmp_path), SMALL) as site:
        time.sleep(1.5)
        started = time.perf_counter()
        assert ask(site, f"/api/view/whatif?workload={SMALL.workload}")[0] == 200
        assert time.perf_counter() - started < 1.0


def test_a_request_whose_body_is_none_leaves_no_traceback(site, caplog):
    """Its answer is being made when the rest turns out to be no body; a client may send as many as it likes."""
    where, log = urlsplit(site), logging.getLogger("uvicorn.error")
    head = f"GET /static/main.js HTTP/1.1\r\nHost: {where.netloc}\r\nTransfer-Encoding: chunked\r\n\r\n"
    whole = f"GET / HTTP/1.1\r\nHost: {where.netloc}\r\n\r\n"
    log.addHandler(caplog.handler)
    try:
        for sent in (head + "no size\r\n", whole + head + "zz\r\n", head + "1\r\n", "G\0T" + whole):
            with socket.create_connection((where.hostname, where.port), timeout=10) as connection:
                connection.sendall(sent.encode())
                # A part of a body may yet become one.
                answer = connection.recv(1 << 16) if sent.endswith("1\r\n") else connection.makefile("rb").read()
            assert answer.startswith(b"HTTP/1.1 ")
            assert answer.count(b"HTTP/1.1 400") <= 1
            assert b"Internal Server Error" not in answer
        assert ask(site, "/")[0] == 200
    finally:
        log.removeHandler(caplog.handler)
    assert [record.getMessage() for record in caplog.records] == []
