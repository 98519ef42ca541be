"""The key store's cache against the simulation engine: the same uses, the same bytes."""

from __future__ import annotations

import random
from pathlib import Path

import numpy as np
import pytest

from penstock import _engine
from penstock.keystore import KeyCache, KeyStore, KeyUse

# Written by OpenFHE at N = 16: the rotations by 1 and 2, and the relinearization key, of 3 limbs of Q and 2 digits.
DATA = Path(__file__).parents[2] / "crates" / "penstock-store" / "tests" / "data"
NUM_Q = 3


@pytest.fixture(scope="module")
def store(tmp_path_factory: pytest.TempPathFactory) -> KeyStore:
    made = KeyStore(tmp_path_factory.mktemp("keys"))
    made.import_openfhe("alice", DATA / "openfhe-n16-rotations.bin", num_q=NUM_Q)
    made.import_openfhe("alice", DATA / "openfhe-n16-relin.bin", num_q=NUM_Q, key="relin")
    return made


def simulated_bytes(accesses: list[tuple[int, int]], policy: str, capacity: int) -> int:
    """What the engine loads: one operation an access."""
    start = np.arange(len(accesses) + 1, dtype=np.int64)
    objects = np.array([key for key, _ in accesses], dtype=np.int32)
    sizes = np.array([size for _, size in accesses], dtype=np.int64)
    return _engine.replay(start, objects, sizes, policy, capacity).total_miss_bytes


@pytest.mark.parametrize("seed", range(4))
def test_the_store_reads_what_the_engine_says(store: KeyStore, seed: int) -> None:
    keys = store.list_keys()
    sizes = keys[0].bytes_needed
    chosen = random.Random(seed)
    turns = [(chosen.randrange(len(keys)), chosen.randint(1, NUM_Q)) for _ in range(100)]
    accesses = [(key, sizes[limbs - 1]) for key, limbs in turns]
    for budget in (sizes[-1], 3 * sizes[-1] // 2, 2 * sizes[-1], 5 * sizes[-1] // 2, 3 * sizes[-1]):
        read = {}
        for policy in ("lru", "future"):
            cache = KeyCache(store, budget, policy=policy, prefetch_uses=0)
            with cache.plan(KeyUse(keys[key].name, limbs) for key, limbs in turns) as plan:
                session = cache.session("alice", keys[0].name.digest, plan)
                for key, limbs in turns:
                    session.get(keys[key].name.key, limbs).release()
            read[policy] = cache.stats().read_bytes
        assert read["lru"] == simulated_bytes(accesses, "lru", budget)
        # A key in use has to be in memory whole, which the optimum of the simulation does not ask for; and a part of a
        # key is a whole limb.
        assert simulated_bytes(accesses, "optimal", budget) <= read["future"] <= read["lru"]
