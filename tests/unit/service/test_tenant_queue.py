"""The queue of several tenants: files, order of jobs, and the simulated queue, without cryptography."""

from __future__ import annotations

from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from penstock.errors import MachineError, UnknownName, UsageError
from penstock.runtime.keystore import KeyRefused
from penstock.runtime.native.play import ReadRates
from penstock.runtime.native.store import client_folder
from penstock.runtime.scanning.disk import read_disk
from penstock.scheme.params import catalogue
from penstock.service.tenants import Tenants, parse_jobs, parse_tenants
from penstock.service.work.order import Order, OrderRule
from penstock.service.work.simulated import JobArrival, Key, ProgramCost, Residents, play, time_of

TENANTS = 'store = "keys"\nbudget = "{budget}"\ntenants = ["alice", "bob"]\n'
STORED_QUEUE = Path(__file__).parents[3] / "benchmarks" / "data" / "tenants_zipf.toml"


def parsed(path: Path) -> Tenants:
    return parse_tenants(path, str(path), path.parent)


def test_a_tenants_file_names_its_store_from_its_own_folder(tmp_path: Path) -> None:
    (tmp_path / "t.toml").write_text(TENANTS.format(budget="1 GiB"))
    tenants = parsed(tmp_path / "t.toml")
    assert tenants.store == str(tmp_path / "keys")
    assert tenants.budget_bytes(all_keys=5) == 1 << 30
    assert (tenants.policy, tenants.scheduling) == ("future", "locality")


@pytest.mark.parametrize("budget", ["0%", "101%", "x%", "5", "-1 GiB", "nan%", "1e30 GB"])
def test_a_budget_that_is_none_is_refused(budget: str) -> None:
    with pytest.raises(UsageError, match="budget"):
        parse_tenants(TENANTS.format(budget=budget), "t.toml")


def test_an_order_that_is_none_is_refused() -> None:
    with pytest.raises(UsageError, match=r"t\.toml: 'scheduling' is 'lifo': input should be 'fifo' or 'locality'"):
        parse_tenants(f'{TENANTS.format(budget="1 GiB")}scheduling = "lifo"\n', "t.toml")


@pytest.mark.parametrize("name", ["../../evil", "/tmp/evil", "..", "a/b", "", ".hidden"])
def test_a_tenants_name_is_that_of_a_folder(name: str) -> None:
    text = TENANTS.format(budget="1 GiB").replace("bob", name)
    with pytest.raises(KeyRefused, match=r"t.toml: tenants: tenant is '.*': letters, digits"):
        parse_tenants(text, "t.toml")
    with pytest.raises(KeyRefused, match="letters, digits"):
        client_folder(Path("keys"), name, catalogue.get("insecure-ci"))


@pytest.mark.parametrize("store", ["", "s3://bucket/keys"])
def test_a_store_that_is_no_folder_is_refused(store: str) -> None:
    text = TENANTS.format(budget="1 GiB").replace('"keys"', f'"{store}"')
    with pytest.raises(UsageError, match=r"t.toml: store '.*': name a folder of this machine"):
        parse_tenants(text, "t.toml")


def test_the_clients_keys_are_beside_the_store_however_it_is_named(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    store = tmp_path / "keys"
    (store / "inside").mkdir(parents=True)
    (tmp_path / "link").symlink_to(store)
    monkeypatch.chdir(store / "inside")
    params = catalogue.get("insecure-ci")
    for name in ("..", "../.", "../inside/..", str(tmp_path / "link"), str(store)):
        assert client_folder(Path(name), "alice", params).parent == tmp_path / "keys.client"
    assert client_folder(Path(), "alice", params).parent == store / "inside.client"
    with pytest.raises(UsageError, match="name a folder below it"):
        client_folder(Path("/"), "alice", params)


def test_files_that_are_no_text_are_no_toml(tmp_path: Path) -> None:
    path = tmp_path / "t.toml"
    path.write_bytes(b"store = '\xff\xfe'\n")
    with pytest.raises(
        UsageError, match=r"t.toml: a tenants file is TOML, and this is not: byte 9, 0xff, is not UTF-8"
    ):
        parsed(path)
    with pytest.raises(UsageError, match=r"t.toml: a jobs file is TOML, and this is not: byte 9, 0xff, is not UTF-8"):
        parse_jobs(path, str(path), ["alice"])
    with pytest.raises(MachineError, match=r"t.toml: a disk file is TOML, and this is not: byte 9, 0xff, is not UTF-8"):
        read_disk(path)


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("", "no jobs"),
        ("job = 3", "no jobs"),
        ("[[jobs]]\ntenant = 'alice'", "did you mean 'job'"),
        ("[[job]]\ntenant = 'alice'", "workload"),
        ("[[job]]\ntenant = 'alice'\nworklod = 'pir'", "did you mean 'workload'"),
        ("[[job]]\ntenant = 'alcie'\nworkload = 'pir'", "did you mean 'alice'"),
        ("[[job]]\ntenant = 'alice'\nworkload = 'pir'\nsise = 'ci'", "did you mean 'size'"),
        ("[[job]]\ntenant = 'alice'\nworkload = 'pir'\nseed = -1", "seed"),
        ("[[job]", "is TOML, and this is not"),
    ],
)
def test_a_wrong_jobs_file_names_what_is_wrong(text: str, message: str) -> None:
    with pytest.raises(UsageError, match=message):
        parse_jobs(text, "jobs.toml", ["alice", "bob"])


def test_the_stored_queue_is_of_eight_tenants_and_mostly_of_the_first() -> None:
    tenants = [f"tenant-{i}" for i in range(8)]
    jobs = parse_jobs(STORED_QUEUE, str(STORED_QUEUE), tenants)
    counts = [sum(job.tenant == tenant for job in jobs) for tenant in tenants]
    assert len(jobs) == 48
    assert all(counts)
    assert counts[0] == max(counts) >= len(jobs) // 4
    with pytest.raises(UnknownName):
        parse_jobs(STORED_QUEUE, str(STORED_QUEUE), tenants[:-1])


Uses = list[tuple[str, int]]


def uses_of(*keys: str, size: int = 4) -> list[Uses]:
    return [[(key, size) for key in job] for job in keys]


def ordered(keys: list[str], budget: int, bound: int, order: Order = Order.LOCALITY) -> list[int]:
    kinds = {job: ProgramCost(compute_s=1.0, key_bytes=dict.fromkeys(job, 4)) for job in keys}
    arrivals = [JobArrival(at_s=0.0, tenant="alice", kind=job) for job in keys]
    return play(
        arrivals, kinds, budget, order=order, known_plan=False, rule=OrderRule(max_overtaken=bound, overdue_every=1)
    ).order


def test_fifo_is_the_queues_own_order() -> None:
    assert ordered(["a", "b", "a"], 4, 9, Order.FCFS) == [0, 1, 2]


def test_locality_runs_jobs_that_share_keys_together() -> None:
    # Memory holds two keys: those of one tenant.
    assert ordered(["ab", "xy", "ab", "xy", "bc"], 8, 9) == [0, 2, 4, 1, 3]


def test_a_job_waits_for_no_more_later_ones_than_the_bound() -> None:
    for bound in (0, 1, 3, 20):
        order = ordered(["x", "a", *["x"] * 10], 4, bound)
        assert order.index(1) == 1 + min(bound, 10)


@given(
    st.lists(st.text("abcde", min_size=1, max_size=4), min_size=1, max_size=12),
    st.integers(1, 24),
    st.integers(0, 12),
)
def test_every_job_runs_once_and_none_is_overtaken_beyond_the_bound(keys: list[str], budget: int, bound: int) -> None:
    order = ordered(keys, budget, bound)
    assert sorted(order) == list(range(len(keys)))
    for place, job in enumerate(order):
        assert sum(other > job for other in order[:place]) <= bound


A, B, C = (("alice", key) for key in "abc")


def test_residents_keep_the_larger_part_and_give_up_the_oldest() -> None:
    held = Residents(10)
    assert held.use({A: 4, B: 4}) == 8
    assert held.missing({A: 6, B: 2}) == 2
    assert held.use({A: 6}) == 2
    assert held.used_bytes == 10
    held.use({C: 3})
    assert held.missing({A: 6, B: 4, C: 3}) == 4


def test_residents_that_know_the_next_uses_give_up_the_last_of_them() -> None:
    held = Residents(8)
    held.use({A: 4, B: 4})
    next_use: dict[Key, int] = {A: 0, B: 1}
    assert held.use({C: 4}, next_use) == 4
    assert (held.missing({A: 4}), held.missing({B: 4})) == (0, 4)


DISK = ReadRates(bytes_per_s=4.0)


def test_lru_waits_for_every_byte_and_the_future_reads_while_it_computes() -> None:
    jobs = [2.0, 2.0, 2.0]
    lru = time_of(uses_of("ab", "cd", "ab"), jobs, "lru", 8, DISK)
    # Six keys of one second each, none of which is there.
    assert (lru.read_bytes, lru.misses, lru.total_s) == (24, 6, 12.0)
    grouped = time_of(uses_of("ab", "ab", "cd"), jobs, "future", 8, DISK)
    assert grouped.read_bytes == 16
    # Nothing computes while the first key is read; the others are there in time.
    assert grouped.total_s == pytest.approx(7.0)
    bound = time_of(uses_of("ab", "ab", "cd"), jobs, "future", 8, DISK, bound=True)
    assert bound.total_s == pytest.approx(6.0)


def test_what_is_read_while_the_machine_computes_takes_its_share() -> None:
    disk = ReadRates(bytes_per_s=8.0, computing_share=0.75, reading_share=0.5)
    jobs = [4.0, 4.0, 4.0]
    # LRU reads while nothing computes: 24 bytes at 8 a second.
    assert time_of(uses_of("ab", "cd", "ab"), jobs, "lru", 8, disk).total_s == pytest.approx(12 + 3)
    # 16 bytes at 4 a second, and a quarter of that time lost; the first key is waited for.
    found = time_of(uses_of("ab", "ab", "cd"), jobs, "future", 8, disk)
    assert (found.compute_s, found.total_s) == pytest.approx((12.0, 12 + 1 + 1))
    bound = time_of(uses_of("ab", "ab", "cd"), jobs, "future", 8, disk, bound=True)
    assert (bound.read_bytes, bound.total_s) == pytest.approx((16, 13.0))


def test_jobs_without_keys_only_compute() -> None:
    assert time_of([*uses_of("a"), []], [1.0, 5.0], "lru", 8, DISK).total_s == pytest.approx(7.0)
