"""What every source of evaluation keys promises: the same words as any other, keys that it has, and honest accounts."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from penstock import _engine
from penstock.errors import CapabilityMissing, KeyRefused, PenstockError
from penstock.program.evaluator.protocol import Evaluator
from penstock.program.evaluator.symbolic import SymbolicEvaluator
from penstock.runtime.keystore import KeyCache, KeyStore, parameter_digest
from penstock.runtime.native.client import LIBRARIES, PreparedEnds, open_client, require_library
from penstock.runtime.native.engine import EngineHere, make_context
from penstock.runtime.native.evaluator import NativeEvaluator
from penstock.runtime.native.keys import KeysHeld, KeysInMemory, KeysOnDisk, KeySource
from penstock.runtime.native.store import add_missing_keys
from penstock.scheme.operations import RELIN_KEY
from support.readings import X, read
from support.toy import toy

PARAMS = toy()
Uses = list[tuple[str, int]]


def program(ev: Evaluator) -> list[Any]:
    a = ev.encrypt(X)
    b = ev.rescale(ev.mult(a, ev.rotate(a, 1)))
    return [ev.rotate(b, -2), ev.add(b, ev.rotate(b, 1)), ev.rescale(ev.square(b))]


class Made:
    """One client's keys in a store, an input of it, and the uses that the program has of the keys."""

    def __init__(self, folder: Path, library: str) -> None:
        self.context, self.client = make_context(PARAMS), open_client(PARAMS, library=library)
        trace = read(SymbolicEvaluator(PARAMS), program)[1]
        assert trace is not None
        rows = trace.view().operations.to_pylist()
        self.uses: Uses = [(row["key"], row["limbs_out"]) for row in rows if row["key"] is not None]
        self.limbs = trace.view().key_limbs()
        self.store = KeyStore(folder / "store")
        self.contents: dict[str, bytes] = {}
        """The keys as files of OpenFHE's, where the library makes such."""
        if library == "openfhe":
            self.client.make_keys(self.limbs, folder, "alice", self._keep)
        else:
            add_missing_keys(self.client, self.store, "alice", self.limbs)
        self.encrypted = self.client.encrypt(X).content

    def _keep(self, key: str, made: Path) -> None:
        self.contents[key] = made.read_bytes()
        self.store.import_openfhe("alice", made, params=PARAMS, key=key)

    def words(self, keys: KeySource) -> list[bytes]:
        """What the program gives with keys from this source, limb words in OpenFHE's bytes."""
        ends = PreparedEnds(PARAMS, [self.encrypted])
        read(NativeEvaluator(EngineHere(PARAMS, self.context, keys), ends), program)
        return ends.outputs


def in_memory(made: Made) -> KeySource:
    if LIBRARIES[made.client.library].makes_segments:
        return held(made)  # as `keys_in_memory` has it
    keys = KeysInMemory(PARAMS, made.context)
    for key, content in made.contents.items():
        keys.put(key, content)
    return keys


def on_disk(made: Made) -> KeySource:
    return KeysOnDisk(PARAMS, made.store, "alice", 2 * PARAMS.key_bytes(), made.uses)


def held(made: Made) -> KeySource:
    return KeysHeld(PARAMS, made.store, "alice", made.limbs)


SOURCES: dict[str, Callable[[Made], KeySource]] = {"memory": in_memory, "disk": on_disk, "held": held}
"""Name -> the source with the keys of a client. A new one is a function and a line here."""


@pytest.fixture(scope="module", params=list(LIBRARIES))
def made(request, tmp_path_factory) -> Iterator[Made]:
    try:
        require_library("native", request.param)
    except CapabilityMissing as error:
        pytest.skip(str(error))
    found = Made(tmp_path_factory.mktemp("keys"), request.param)
    yield found
    found.client.release()


@pytest.fixture(params=SOURCES)
def keys(request, made) -> Iterator[KeySource]:
    found = SOURCES[request.param](made)
    yield found
    found.close()


def test_the_words_are_those_of_keys_in_memory(made, keys):
    expected = made.words(held(made))
    assert len(expected) == 3
    assert made.words(keys) == expected


def test_every_use_is_counted(made, keys):
    made.words(keys)
    traffic = keys.traffic()
    assert len(keys.waits_s) == traffic.hits + traffic.misses == len(made.uses)
    assert traffic.requested_bytes == sum(PARAMS.key_bytes(limbs) for _, limbs in made.uses)
    assert traffic.key_bytes == len(made.limbs) * PARAMS.key_bytes()


def test_a_key_that_is_not_there_is_refused_by_name(keys):
    with pytest.raises(PenstockError, match="rot:77"):
        keys.get("rot:77", 2)


def test_held_keys_are_refused_above_the_limbs_that_were_read(made):
    keys = held(made)
    with pytest.raises(PenstockError, match=r"was read up to .* limbs, and is asked for at 99"):
        keys.get(RELIN_KEY, 99)


def test_a_key_is_of_one_class_wherever_its_rows_are(made):
    limbs, limbs_in_all = PARAMS.num_q, PARAMS.num_q + PARAMS.num_p
    room = np.empty(2 * PARAMS.dnum * limbs_in_all * PARAMS.ring_dim, dtype=np.uint64)
    with KeyCache(made.store, 1 << 28).session("alice", parameter_digest(PARAMS)).get(RELIN_KEY, limbs) as pinned:
        assert _engine.ckks_key_words(made.context, pinned, limbs, room) == len(room)
        keys = [pinned, _engine.ckks_key_rows(made.context, room, limbs)]
        if made.contents:
            keys.append(made.context.import_key(made.contents[RELIN_KEY]))
        for row in np.ndindex(2, PARAMS.dnum, limbs_in_all):
            assert len({key.row(*row).tobytes() for key in keys}) == 1, row
        assert all(key.row(2, 0, 0) is None and key.row(0, 0, limbs_in_all) is None for key in keys)
    for key in keys:
        key.release()
        with pytest.raises(KeyRefused, match="the key was released; get it again"):
            key.row(0, 0, 0)
        with pytest.raises(KeyRefused, match="the key was released; get it again"):
            _engine.ckks_key_words(made.context, key, limbs, room)
