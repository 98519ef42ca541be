"""Configuration, limits and metrics of the service."""

from __future__ import annotations

import asyncio
import io
import json
import threading
from collections.abc import Iterable
from pathlib import Path
from types import SimpleNamespace

import pytest

pytest.importorskip("sqlalchemy")

from penstock.base.system import connections
from penstock.base.system.connections import Bounds, ConnectionPlace, Notices, Places
from penstock.errors import UsageError
from penstock.service.http import limits
from penstock.service.http.config import ServeSpec, config_of, embedded, read_config
from penstock.service.http.feed import MOST_KEPT, Feed
from penstock.service.http.limits import Body, Buckets, Gate
from penstock.service.http.logs import SAMPLED, WINDOW_S, Log
from penstock.service.http.metrics import MOST_PROGRAMS_OF_ONE, Metrics, by_tenant, work_gauges
from penstock.service.http.threads import AHEAD_SHARE, SHARE, ThreadShares, in_thread
from penstock.service.state.state import ServiceState
from penstock.service.state.tokens import Caller, is_right, new_token, parse_token


def written(folder: Path, text: str) -> Path:
    path = folder / "serve.toml"
    path.write_text(text)
    return path


@pytest.mark.parametrize("name", ["listen", "admin"])
@pytest.mark.parametrize("host", ["0.0.0.0", "192.168.1.1", "[::]", "example.org"])
def test_another_address_than_this_machine_needs_tls(tmp_path, name, host):
    with pytest.raises(UsageError, match="name a certificate and a key"):
        read_config(written(tmp_path, f'folder = "state"\n{name} = "{host}:1"\n'))


@pytest.mark.parametrize("host", ["127.0.0.1", "localhost", "[::1]", "127.9.9.9"])
def test_this_machine_needs_no_tls(tmp_path, host):
    found = read_config(written(tmp_path, f'folder = "state"\nlisten = "{host}:1"\n'))
    assert found.listen[1] == 1
    assert found.folder == tmp_path / "state"
    assert found.database == f"sqlite:///{tmp_path / 'state' / 'state.sqlite'}"


def test_a_key_that_others_may_read_is_refused(tmp_path):
    (tmp_path / "cert.pem").write_text("x")
    key = tmp_path / "key.pem"
    key.write_text("x")
    key.chmod(0o644)
    text = 'folder = "s"\nlisten = "0.0.0.0:1"\n[tls]\ncertificate = "cert.pem"\nkey = "key.pem"\n'
    with pytest.raises(UsageError, match="chmod 600"):
        read_config(written(tmp_path, text))
    key.chmod(0o600)
    assert read_config(written(tmp_path, text)).scheme == "https"


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("", "'folder' is missing"),
        ('folder = "s"\nfoldr = "t"\n', "foldr"),
        ('folder = "s"\nlisten = "127.0.0.1"\n', "an address and a port"),
        ('folder = "s"\nlisten = "127.0.0.1:99999"\n', "an address and a port"),
        ('folder = "s"\ndatabase = "mysql://x"\n', "postgresql://"),
        ('folder = "s"\n[limits]\ntenant_bytes = "80"\n', "tenant_bytes"),
        ('folder = "s"\n[work]\nisolation = "none"\n', "isolation"),
        ('folder = "s"\n[tls]\ncertificate = "a"\nkey = "b"\n', "there is no file"),
    ],
)
def test_a_wrong_configuration_names_its_field(tmp_path, text, said):
    with pytest.raises(UsageError, match=said):
        read_config(written(tmp_path, text))


def test_the_database_is_one_line_or_a_variable(tmp_path, monkeypatch):
    path = written(tmp_path, 'folder = "s"\ndatabase = "postgresql://user@host/name"\n')
    assert read_config(path).database == "postgresql+pg8000://user@host/name"
    monkeypatch.setenv("PENSTOCK_DATABASE", "postgresql://other@host/name")
    assert read_config(path).database == "postgresql+pg8000://other@host/name"


def test_only_the_embedded_configuration_makes_a_tenant(tmp_path):
    assert embedded(tmp_path).first_tenant == "default"
    assert config_of(ServeSpec(folder="x"), tmp_path, "x").first_tenant is None


def test_tokens_have_256_random_bits_and_nothing_else_passes():
    tokens = [new_token() for _ in range(100)]
    assert len({token.text for token in tokens}) == 100
    for token in tokens:
        identity, secret = parse_token(token.text) or ("", "")
        assert (identity, len(secret)) == (token.identity, 64)
        assert is_right(secret, token.digest)
        assert not is_right(secret[:-1], token.digest)
    for text in ("", "pst_", tokens[0].text + "0", tokens[0].text.upper(), " " + tokens[0].text, tokens[0].text + "\n"):
        assert parse_token(text) is None


def test_a_bucket_gives_its_burst_then_its_rate():
    now = [0.0]
    buckets = Buckets(2.0, 3.0, clock=lambda: now[0])

    def taken(count: int) -> list[float]:
        return [buckets.take("a") for _ in range(count)]

    assert taken(4) == [0, 0, 0, 0.5]
    assert buckets.take("b") == 0
    now[0] = 0.5
    assert taken(2) == [0, 0.5]
    now[0] = 100.0
    assert taken(4) == [0, 0, 0, 0.5]


def test_buckets_of_many_names_are_bounded():
    buckets = Buckets(1.0, 1.0, most=10)
    for name in range(1000):
        assert buckets.take(str(name)) == 0
    assert len(buckets._buckets) == 10


def body_of(messages: Iterable[tuple[float, int, bool]], most: int, slowest: float) -> Body:
    """A body that arrives as (seconds, bytes, more) say."""
    coming = iter(messages)

    async def receive() -> dict[str, object]:
        wait_s, size, more = next(coming)
        await asyncio.sleep(wait_s)
        return {"type": "http.request", "body": b"x" * size, "more_body": more}

    return Body(receive, most, slowest)


@pytest.mark.parametrize(
    ("messages", "status"),
    [
        ([(0.03, 1, True)] * 40, 408),
        ([(9.0, 1, True)], 408),
        ([(0.03, 1000, True)] * 10 + [(0.0, 0, False)], None),
        ([(0.0, 60, True), (0.0, 40, False)], None),
        ([(0.0, 60_000, True), (0.0, 60_001, True)], 413),
    ],
)
def test_a_slow_or_large_body_is_refused_and_others_are_not(monkeypatch, messages, status):
    monkeypatch.setattr(limits, "_WINDOW_S", 0.2)

    async def whole() -> Body:
        body = body_of(messages, 120_000, 1000.0)
        while True:
            message = await body.receive()
            if message["type"] == "http.disconnect" or not message["more_body"]:
                return body

    body = asyncio.run(whole())
    assert (body.refusal.status if body.refusal else None) == status


@pytest.mark.parametrize(
    ("messages", "read"),
    [
        ([(0.0, 1 << 16, True)] * 9, 4),
        ([(0.0, (1 << 18) - 1, True), (0.0, 1, True), (0.0, 1, True)], 2),
        ([(0.0, 10, True), (0.0, 10, False), (0.0, 10, True)], 2),
        ([(0.0, 10, True), (9.0, 10, True)], 1),
    ],
)
def test_of_a_refused_request_a_quarter_of_a_mebibyte_is_read_or_what_comes_in_time(monkeypatch, messages, read):
    monkeypatch.setattr(limits, "_DRAINED_S", 0.2)
    left = iter(messages)

    async def rest() -> Body:
        body = body_of(left, 1, 1000.0)
        await body.drain()
        return body

    body = asyncio.run(rest())
    taken = len(messages) - len(list(left))
    assert taken == read + (messages[-1][0] > 1)  # the last is waited for and does not come
    assert body.whole == (not messages[read - 1][2])


def test_a_tenants_turn_ends_with_the_last_byte_of_the_answer_and_not_with_the_route():
    """Who has an answer may ask again at once, whatever the route still does."""
    caller = Caller(tenant="alice", token="1", scopes=frozenset())
    bounds = SimpleNamespace(requests_per_s=1e6, tenant_requests=1, upload_bytes=1000, slowest_bytes_per_s=1.0)
    scope = {"type": "http", "method": "GET", "path": "/v1/jobs", "headers": [(b"authorization", b"Bearer pst_1_x")]}

    async def play() -> list[int]:
        statuses: list[int] = []
        half, rest, leave = asyncio.Event(), asyncio.Event(), asyncio.Event()

        async def app(_scope, receive, send):
            await receive()
            await send({"type": "http.response.start", "status": 200, "headers": []})
            await send({"type": "http.response.body", "body": b"1", "more_body": True})
            half.set()
            await rest.wait()
            await send({"type": "http.response.body", "body": b"2"})
            await leave.wait()

        async def receive():
            return {"type": "http.request", "body": b"", "more_body": False}

        async def send(message):
            statuses.extend([message["status"]] if "status" in message else [])

        state = SimpleNamespace(caller=lambda _: caller, is_known=lambda _: True, is_kept=lambda _: True)
        gate = Gate(app, state, bounds, Metrics(), Log(io.StringIO()))
        first = asyncio.create_task(gate(dict(scope), receive, send))
        await half.wait()
        await gate(dict(scope), receive, send)  # while the answer is under way
        rest.set()
        while gate._active:
            await asyncio.sleep(0)
        second = asyncio.create_task(gate(dict(scope), receive, send))
        while len(statuses) < 3:
            await asyncio.sleep(0)
        leave.set()
        await asyncio.gather(first, second)
        assert not gate._active
        return statuses

    assert asyncio.run(asyncio.wait_for(play(), 20)) == [200, 429, 200]


def test_metrics_count_and_escape():
    metrics = Metrics()
    metrics.count("penstock_refused_total", reason='a"b\n')
    metrics.time("penstock_request_seconds", 0.02, route="/x")
    metrics.time("penstock_request_seconds", 1000.0, route="/x")
    text = metrics.text({})
    assert 'penstock_refused_total{reason="a\\"b\\n"} 1' in text
    assert 'penstock_request_seconds_bucket{route="/x",le="0.01"} 0' in text
    assert 'penstock_request_seconds_bucket{route="/x",le="0.025"} 1' in text
    assert 'penstock_request_seconds_bucket{route="/x",le="+Inf"} 2' in text
    assert 'penstock_request_seconds_count{route="/x"} 2' in text


def test_tenants_in_metrics_are_bounded():
    many = {f"t{at}": at for at in range(1000)}
    found = by_tenant(many, {"t3": 10_000})
    assert len(found) == 2 * 201
    assert found[("place", "memory"), ("tenant", "t999")] == 999
    assert found[("place", "disk"), ("tenant", "t3")] == 10_000
    assert sum(value for (place, _), value in found.items() if place[1] == "memory") == sum(many.values())


def test_figures_that_nobody_said_are_no_metrics():
    assert work_gauges({"waiting": 2}) == {"penstock_queue_jobs": {(): 2.0}}
    assert "penstock_key_hit_ratio" not in work_gauges({"hits": 0, "late_hits": 0, "misses": 0})


def test_a_feed_says_what_was_missed():
    feed = Feed()
    start = feed.after("alice", "start")["after"]
    for at in range(MOST_KEPT + 2500):
        feed.add("alice", {"job": at})
    assert feed.after("alice", start)["missed"] is True
    assert feed.after("bob", start) == {"jobs": [], "after": start, "missed": False}
    cursor = feed.after("alice", "start")["after"]
    for at in range(2500):
        feed.add("alice", {"job": -at})
    found: list[int] = []
    while told := (answer := feed.after("alice", cursor))["jobs"]:
        found, cursor = found + [each["job"] for each in told], answer["after"]
        assert len(told) <= 1000
    assert found == [-at for at in range(2500)]
    feed.forget("alice")
    assert feed.after("alice", cursor) == {"jobs": [], "after": cursor, "missed": False}
    feed.add("alice", {"job": 7})
    assert [each["job"] for each in feed.after("alice", cursor)["jobs"]] == [7]


def test_the_feed_of_all_tenants_is_bounded(monkeypatch):
    monkeypatch.setattr("penstock.service.http.feed.MOST_OF_ALL", 100)
    monkeypatch.setattr("penstock.service.http.feed.MOST_KEPT", 40)
    feed = Feed()
    cursors = {name: feed.after(name, "start")["after"] for name in ("alice", "bob", "carol")}
    for at in range(60):  # the last 40 are kept
        feed.add("alice", {"job": at})
    for at in range(35):
        feed.add("bob", {"job": at})
    assert feed.after("bob", cursors["bob"])["missed"] is False
    for at in range(30):
        feed.add("carol", {"job": at})
    told = {name: feed.after(name, cursor) for name, cursor in cursors.items()}
    assert [told[name]["missed"] for name in cursors] == [True, False, False]
    assert sum(len(each.events) for each in feed._tenants.values()) <= 100
    assert [each["job"] for each in told["carol"]["jobs"]] == list(range(30))
    for at in range(100):
        feed.add("dora", {"job": at})
    assert [len(feed._tenants[name].events) for name in ("alice", "bob", "carol", "dora")] == [25] * 4
    feed.forget("dora")
    feed.add("carol", {"job": 30})
    assert sum(len(each.events) for each in feed._tenants.values()) == 76


def test_no_tenants_jobs_push_those_of_others_out_of_the_feed(monkeypatch):
    monkeypatch.setattr("penstock.service.http.feed.MOST_OF_ALL", 100)
    feed = Feed()
    cursors = {name: feed.after(name, "start")["after"] for name in ("alice", "bob")}
    for at in range(30):
        feed.add("alice", {"job": at})
    for at in range(1000):
        feed.add("hostile", {"job": at})
    for at in range(30):
        feed.add("bob", {"job": at})
    for at in range(1000):
        feed.add("hostile", {"job": at})
    told = [feed.after(name, cursor) for name, cursor in cursors.items()]
    assert [[each["job"] for each in answer["jobs"]] for answer in told] == [list(range(30))] * 2
    assert len(feed._tenants["hostile"].events) == 40


def test_programs_in_metrics_are_bounded():
    metrics = Metrics()
    for at in range(1000):
        metrics.job_ended(f"tenant-{at % 50}", f"p{at}", "done", 1.0)
    assert metrics.text({}).count("penstock_job_seconds_count") == 201


def test_programs_of_one_tenant_leave_labels_to_others():
    metrics = Metrics()
    for at in range(1000):
        metrics.job_ended("hostile", f"p{at}", "done", 1.0)
    metrics.job_ended("alice", "hers", "done", 1.0)
    text = metrics.text({})
    assert text.count("penstock_job_seconds_count") == MOST_PROGRAMS_OF_ONE + 2
    assert 'penstock_job_seconds_count{program="hers"} 1' in text
    assert 'penstock_job_seconds_count{program="others"} 980' in text


def test_a_flood_of_one_kind_is_a_few_lines_that_say_how_many_are_missing():
    now, stream = [0.0], io.StringIO()
    log = Log(stream, clock=lambda: now[0])
    for at in range(10_000):
        now[0] = 100 * at / 10_000
        log.sampled("429 mallory", "request", status=429)
        log.sampled("", "request", tenant="alice") if at % 1000 == 0 else None
    now[0] = 400.0
    log.sampled("", "request", tenant="alice")
    lines = [json.loads(line) for line in stream.getvalue().splitlines()]
    flood = [line for line in lines if line.get("status") == 429]
    assert len(flood) == 2 * SAMPLED
    assert sum(line.get("left_out", 0) for line in lines) == 10_000 - len(flood)
    assert sum(line.get("tenant") == "alice" for line in lines) == 11


def test_kinds_of_lines_that_are_remembered_are_bounded_and_nothing_is_lost():
    stream = io.StringIO()
    log = Log(stream, clock=lambda: 0.0)
    for name in range(3000):
        for _ in range(SAMPLED + 1):
            log.sampled(f"404 {name}", "request")
    assert len(log._kinds) <= 1000
    told = sum(json.loads(line).get("left_out", 0) for line in stream.getvalue().splitlines())
    assert told + sum(left for _, _, left in log._kinds.values()) == 3000
    assert WINDOW_S > 0


class Guests:
    """Places for connections that are not real; those that were closed, by name."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch, **bounds: int) -> None:
        monkeypatch.setattr(connections, "_YOUNG_S", 0.0)
        monkeypatch.setattr(connections, "_YOUNG_ROUNDS", 0)
        self.closed: list[str] = []
        self.idle: set[str] = set()
        whole = {"most": 100, "young": 20, "strangers": 50, "address": 50, "tenant": 50, **bounds}
        self.places = Places(Bounds(**whole), Notices(lambda line: None))

    def come(self, name: str, address: str = "1.1.1.1", tenant: str = "") -> ConnectionPlace:
        place = self.places.take(address, lambda: self.closed.append(name), lambda: name in self.idle)
        assert not tenant or place.shows(tenant)
        return place


def test_a_newcomer_takes_the_place_of_the_stranger_that_waits_longest_at_the_fullest_address(monkeypatch):
    guests = Guests(monkeypatch, strangers=4)
    guests.come("honest", "2.2.2.2")
    for name in "abcdef":
        guests.come(name)
    assert guests.closed == ["a", "b", "c"]
    first = guests.come("g")
    guests.places.rest(first)
    assert guests.closed == ["a", "b", "c", "d"]
    guests.come("customer", "2.2.2.2", "alice")
    for name in "hijkl":
        guests.come(name)
    assert not {"honest", "customer"} & set(guests.closed)


def test_an_address_has_a_bound_and_tenants_behind_it_do_not_count(monkeypatch):
    guests = Guests(monkeypatch, address=2)
    for name in "abc":
        guests.come(name, tenant="alice")
    for name in "uvwx":
        guests.come(name)
    assert guests.closed == ["u", "v"]


def test_a_tenant_beyond_its_bound_loses_an_idle_connection_or_is_refused(monkeypatch):
    guests = Guests(monkeypatch, tenant=2)
    for name in "ab":
        guests.come(name, tenant="alice")
    assert not guests.come("c").shows("alice")
    guests.idle = {"b"}
    guests.come("d", tenant="alice")
    guests.come("e", tenant="bob")
    assert guests.closed == ["b"]


def test_tenants_keep_half_of_the_places_and_the_largest_gives_way_where_all_are_taken(monkeypatch):
    guests = Guests(monkeypatch, most=6, strangers=3)
    for name in "uvw":
        guests.come(name)
    for name in ("a1", "a2", "a3"):
        guests.come(name, tenant="alice")
    assert guests.closed == ["u"]
    for name in ("b1", "b2"):
        guests.come(name, tenant="bob")
    assert guests.closed == ["u", "v"]
    guests.come("late", tenant="carol")
    assert guests.closed == ["u", "v", "a1"]


def test_a_newcomer_keeps_its_place_until_its_request_could_be_read(monkeypatch):
    guests = Guests(monkeypatch, strangers=2)
    monkeypatch.setattr(connections, "_YOUNG_S", 60.0)
    for number in range(300):
        guests.come(str(number))
    # A bound holds all the same.
    assert guests.closed == [str(number) for number in range(278)]


def test_strangers_are_answered_in_turns_of_their_addresses_and_those_who_left_take_none(monkeypatch):
    monkeypatch.setattr(connections, "STRANGERS_PER_S", 1000.0)

    async def play() -> list[str]:
        guests, order = Guests(monkeypatch), list[str]()
        alone = guests.come("alone")
        assert alone.my_turn().done()
        guests.places.leave(alone)
        flood = [guests.come(f"flood {at}") for at in range(20)]
        honest = [guests.come(f"honest {at}", "2.2.2.2") for at in range(3)]
        turns = []
        for place, name in [*((place, "flood") for place in flood), *((place, "honest") for place in honest)]:
            turns.append(place.my_turn())
            turns[-1].add_done_callback(lambda turn, name=name: order.append(name) if turn.result() else None)
        assert not any(turn.done() for turn in turns)
        guests.places.leave(flood[-1])
        assert not await turns[19]
        await asyncio.gather(*turns)
        return order

    order = asyncio.run(asyncio.wait_for(play(), 20))
    assert order[:6].count("honest") == 3
    assert order.count("flood") == 19


def test_a_tenant_holds_no_more_than_its_share_of_threads():
    started, go = [], threading.Event()

    async def request(shares: ThreadShares, tenant: str) -> None:
        shares.enter(tenant)
        await in_thread(lambda: (started.append(tenant), go.wait(20)))

    async def play() -> None:
        shares = ThreadShares()
        flood = [asyncio.create_task(request(shares, "mallory")) for _ in range(38)]
        while started.count("mallory") < SHARE:
            await asyncio.sleep(0.01)
        honest = asyncio.create_task(request(shares, "alice"))
        while "alice" not in started:
            await asyncio.sleep(0.01)
        assert started.count("mallory") == SHARE
        go.set()
        await asyncio.gather(honest, *flood)
        assert started.count("mallory") == 38

    asyncio.run(asyncio.wait_for(play(), 20))


def test_a_tenant_that_has_had_much_of_the_processor_has_few_threads_while_another_is_here():
    now_s = 0.0
    shares = ThreadShares(lambda: now_s)
    mallory, alice, stranger = shares.enter("mallory"), shares.enter("alice"), shares.enter("", counts=False)
    assert shares.most_of(mallory) == shares.most_of(alice) == SHARE
    mallory.count(1.0)
    alice.count(0.2)
    stranger.count(0.0)
    assert (shares.most_of(mallory), shares.most_of(alice)) == (AHEAD_SHARE, SHARE)
    alice.count(0.3)  # no more than twice that
    assert shares.most_of(mallory) == SHARE
    mallory.count(1.0)
    now_s = 1.0  # the others have left, and a stranger holds nobody up
    mallory.count(0.0)
    stranger.count(0.0)
    assert shares.most_of(mallory) == SHARE
    alice.count(0.0)
    assert shares.most_of(mallory) == AHEAD_SHARE
    now_s += 20.0  # what was had long ago is forgotten
    alice.count(0.0)
    assert shares.most_of(mallory) == SHARE


def test_a_token_that_nobody_has_is_known_to_be_wrong_without_the_database(tmp_path, monkeypatch):
    state = ServiceState(f"sqlite:///{tmp_path / 'state.sqlite'}")
    token, other = new_token(), new_token()
    state.add_tenant("alice")
    state.add_token(token.identity, token.digest, "alice", ["read"], None)
    again = ServiceState(f"sqlite:///{tmp_path / 'state.sqlite'}")
    for each in (state, again):
        monkeypatch.setattr(each, "_reading", None)
        monkeypatch.setattr(each, "_writing", None)
        assert each.is_known(token.text) is True
        for text in ("", "pst_x", other.text, token.text[:-1] + ("0" if token.text[-1] != "0" else "1")):
            assert each.is_known(text) is False
    state.close()
    again.close()
