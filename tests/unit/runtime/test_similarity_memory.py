"""The one byte budget of a similarity search: its plan, what it reads, and that answers stay the same."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
import tempfile
import textwrap
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

pytest.importorskip("penstock_client")

from penstock.errors import BudgetTooSmall
from penstock.runtime.keystore import KeyStore
from penstock.runtime.native.keys import KeysOnDisk
from penstock.runtime.similarity.files import block_bytes, payload_bytes, record_bytes
from penstock.runtime.similarity.memory import PROCESS_STEP_BYTES
from penstock.runtime.similarity.reading import ReadAhead
from penstock.runtime.similarity.server import TENANT, Server
from support.similarity_search import Searched

NOBODY = 65534


@pytest.fixture(scope="module")
def many(tmp_path_factory: pytest.TempPathFactory) -> Searched:
    """20 blocks of records, two packed ciphertexts, four score ciphertexts."""
    return Searched(tmp_path_factory.mktemp("many"), 2**11, 2500)


def server(many: Searched, **more: Any) -> Server:
    return Server(many.folder / "keys", many.folder / "database", params=many.server.params, **more)


def check(many: Searched, content: bytes) -> None:
    """All matches are counted, and what is shown is theirs. In so small a ring two may hide each other."""
    found = many.owner.decrypt(content, many.layout)
    assert found.count == len(many.expected) > 2
    shown = set(map(tuple, found.payloads.tolist()))
    assert shown <= set(map(tuple, many.expected.tolist()))
    assert len(found.payloads) >= found.count - 2


@pytest.fixture(scope="module")
def least(many: Searched) -> int:
    """The least budget, as the refusal of a smaller one says it."""
    with pytest.raises(BudgetTooSmall) as refused:
        server(many, memory_bytes=10**6, option="SIMILARITY_MEMORY").plan()
    said = str(refused.value)
    assert re.search(r"in the phase 'comparison' the class 'process' needs .* at least, and 1 MB", said)
    wanted = re.search(r"raise SIMILARITY_MEMORY to (\d+) B or more", said)
    assert wanted is not None
    return int(wanted[1])


def test_the_least_budget_gives_the_same_answer(many, least):
    """Two blocks in memory, one key at a time, payloads read at their use, constants encoded again and again."""
    small = server(many, memory_bytes=least + PROCESS_STEP_BYTES, threads=1)
    plan = small.plan()
    assert plan.memory.total_bytes <= least + PROCESS_STEP_BYTES
    answer = small.answer(many.owner.encrypt_query(many.query))
    check(many, answer.content)
    assert answer.plan is plan
    # Each byte of the database once, whatever the budget.
    assert answer.database_bytes == record_bytes(many.layout) + payload_bytes(many.server.described)


def test_the_plan_names_each_class_with_its_least(many):
    plan = many.server.plan().memory
    shares = {share.name: share for share in plan.shares}
    assert set(shares) == {
        "process", "keys", "query", "packing", "scores", "records", "values", "memory kept for new values", "tables",
        "constants", "payloads",
    }  # fmt: skip
    for share in plan.shares:
        assert 0 < share.wanted.least_bytes <= share.given_bytes == share.wanted.all_bytes
    assert shares["records"].wanted.least_bytes == 2 * block_bytes(many.layout)
    assert shares["payloads"].wanted.least_bytes == many.server.described.payload_bytes
    assert plan.total_bytes >= plan.least_bytes
    counting = {share.name for share in many.server.plan(count_only=True).memory.shares}
    assert "payloads" not in counting


def test_keys_are_read_once_where_the_budget_holds_them_and_the_scan_takes_none_away(many):
    whole = server(many).plan().memory.total_bytes
    roomy = server(many, memory_bytes=whole + 2 * PROCESS_STEP_BYTES)
    answer = roomy.answer(many.owner.encrypt_query(many.query))
    keys = answer.traffic
    assert answer.plan.key_bytes == answer.plan.memory.given("keys")
    assert keys.read_bytes + keys.expanded_bytes == answer.plan.key_bytes
    assert keys.evictions == 0
    assert keys.requested_bytes > 3 * answer.plan.key_bytes


def test_a_scan_causes_no_key_to_be_read_again(many):
    """With room for a few keys, a search reads as many bytes of keys as its key switches do without any scan."""
    probe = server(many)
    sizes = [probe.params.key_bytes(limbs, key=key) for key, limbs in probe.plan(count_only=True).key_uses]
    budget = 3 * max(sizes)
    small = server(many, key_budget_bytes=budget)
    answer = small.answer(many.owner.encrypt_query(many.query), count_only=True)
    searched = answer.traffic
    assert answer.plan.key_bytes == budget
    assert searched.evictions > 0
    assert searched.peak_resident_bytes <= budget
    alone = KeysOnDisk(small.params, KeyStore(many.folder / "keys"), TENANT, budget, answer.plan.key_uses)
    for key, limbs in answer.plan.key_uses:
        with alone.get(key, limbs):
            pass
    read = alone.traffic()
    alone.close()
    assert searched.requested_bytes == read.requested_bytes
    # Rows that are read ahead may be given up for others of the same program; the order of two threads decides a few.
    assert searched.read_bytes + searched.expanded_bytes <= 1.1 * (read.read_bytes + read.expanded_bytes)


def test_constants_beyond_the_budget_are_encoded_again(many):
    query = many.owner.encrypt_query(many.query)
    all_kept = server(many).answer(query, count_only=True)
    small = server(many)
    small._plans[True] = replace(small.plan(count_only=True), vector_bytes=0)
    again = small.answer(query, count_only=True)
    assert many.owner.decrypt_count(again.content, many.layout) == len(many.expected)
    # Two packed ciphertexts are refreshed.
    assert again.num_encoded == 2 * all_kept.num_encoded > 0


def test_the_predicted_memory_of_ciphertexts_is_what_the_engine_takes(many, monkeypatch):
    """Nothing that is dropped leaves, so that at the end all that was ever held is kept."""
    monkeypatch.setattr("penstock.runtime.similarity.memory.KEPT_CIPHERTEXTS", (1000,))
    fresh = server(many, threads=1)
    plan = fresh.plan()
    fresh._context.release_memory()
    fresh.answer(many.owner.encrypt_query(many.query))
    predicted = plan.memory.given("values") + plan.memory.given("memory kept for new values")
    # Scratch of key switches is rounded up.
    assert 1.0 <= predicted / fresh._context.kept_bytes <= 1.2


def test_items_are_read_in_order_and_no_more_ahead_than_asked():
    begun: list[int] = []

    def read(item: int) -> int:
        begun.append(item)
        if item == 7:
            raise OSError("a broken disk")
        return item * item

    with ThreadPoolExecutor(1) as pool:
        for ahead in (0, 1, 3):
            begun.clear()
            items = ReadAhead(pool, read, range(9), ahead)
            for item in range(7):
                assert items.next == item
                assert items.take() == item * item
                items.wait()
                assert begun == list(range(min(9, item + 1 + ahead)))
            with pytest.raises(OSError, match="a broken disk"):
                items.take()


@pytest.mark.skipif(os.geteuid() != 0, reason="another user's rights need root")
def test_the_server_answers_as_another_user_who_cannot_read_the_secret(many):
    code = textwrap.dedent(
        """
        import os, sys
        from pathlib import Path
        from penstock.program.database.similarity.scheme import large_parameters
        from penstock.runtime.similarity.server import Server
        params = large_parameters(2**11, security=0)
        os.setgroups([]); os.setgid(int(sys.argv[2])); os.setuid(int(sys.argv[2]))
        folder = Path(sys.argv[1])
        for path in ("away/secret/small.key", "keys/written"):
            try:
                (folder / path).open("rb" if "secret" in path else "wb")
                sys.exit(f"{path} was opened")
            except PermissionError:
                pass
        server = Server(folder / "keys", folder / "database", params=params)
        (folder / "out" / "result").write_bytes(server.answer((folder / "query").read_bytes()).content)
        """
    )
    folder = Path(tempfile.mkdtemp(prefix="penstock-other-user-"))  # pytest's own folders are of its user alone
    try:
        folder.chmod(0o755)
        for name in ("keys", "database"):
            shutil.copytree(many.folder / name, folder / name)
        (folder / "query").write_bytes(many.owner.encrypt_query(many.query))
        many.owner.save(folder / "secret")
        (folder / "away").mkdir(mode=0o700)
        (folder / "secret").rename(folder / "away" / "secret")
        (folder / "out").mkdir()
        (folder / "out").chmod(0o777)
        ran = subprocess.run(
            [sys.executable, "-c", code, str(folder), str(NOBODY)], capture_output=True, text=True, timeout=120
        )
        assert ran.returncode == 0, ran.stderr
        assert (folder / "out" / "result").stat().st_uid == NOBODY
        check(many, (folder / "out" / "result").read_bytes())
    finally:
        shutil.rmtree(folder)
