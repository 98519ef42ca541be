"""What every source of evaluation keys promises: the same words as any other, keys that it has, and honest accounts."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from penstock.errors import PenstockError
from penstock.keystore import KeyStore
from penstock.native.ends import PreparedEnds
from penstock.native.engine import EngineHere, make_context
from penstock.native.evaluator import NativeEvaluator
from penstock.native.keys import KeysHeld, KeysInMemory, KeysOnDisk, KeySource
from penstock.native.openfhe_client import OpenFheClient, make_keys
from penstock.openfhe.evaluator import OpenFheContext
from penstock.operations import RELIN_KEY
from penstock.program.evaluator import Evaluator
from penstock.program.symbolic import SymbolicEvaluator
from readings import X, read
from toy import toy

pytestmark = pytest.mark.usefixtures("openfhe")
PARAMS = toy()
Uses = list[tuple[str, int]]


def program(ev: Evaluator) -> list[Any]:
    a = ev.encrypt(X)
    b = ev.rescale(ev.mult(a, ev.rotate(a, 1)))
    return [ev.rotate(b, -2), ev.add(b, ev.rotate(b, 1)), ev.rescale(ev.square(b))]


class Made:
    """One client, its keys as OpenFHE's bytes, and the uses that the program has of them."""

    def __init__(self, folder: Path) -> None:
        self.folder, self.context = folder, make_context(PARAMS)
        self.openfhe = OpenFheContext.create(PARAMS, relinearize=False)
        trace = read(SymbolicEvaluator(PARAMS), program)[1]
        assert trace is not None
        rows = trace.view().operations.to_pylist()
        self.uses: Uses = [(row["key"], row["limbs_out"]) for row in rows if row["key"] is not None]
        self.contents: dict[str, bytes] = {}
        make_keys(self.openfhe, trace.view().key_ids(), self.contents.__setitem__)
        self.encrypted = OpenFheClient(self.openfhe).encrypt(X).content

    def words(self, keys: KeySource) -> list[bytes]:
        """What the program gives with keys from this source, limb words in OpenFHE's bytes."""
        ends = PreparedEnds(PARAMS, [self.encrypted])
        read(NativeEvaluator(EngineHere(PARAMS, self.context, keys), ends), program)
        return ends.outputs


def in_memory(made: Made) -> KeySource:
    keys = KeysInMemory(PARAMS, made.context)
    for key, content in made.contents.items():
        keys.put(key, content)
    return keys


def stored(made: Made) -> KeyStore:
    store = KeyStore(made.folder / "store")
    for key, content in made.contents.items():
        store.import_openfhe("alice", content, params=PARAMS, key=key if key == RELIN_KEY else None)
    return store


def on_disk(made: Made) -> KeySource:
    return KeysOnDisk(PARAMS, stored(made), "alice", 2 * PARAMS.key_bytes(), made.uses)


def held(made: Made) -> KeySource:
    most: dict[str, int] = {}
    for key, limbs in made.uses:
        most[key] = max(most.get(key, 1), limbs)
    return KeysHeld(PARAMS, stored(made), "alice", most)


SOURCES: dict[str, Callable[[Made], KeySource]] = {"memory": in_memory, "disk": on_disk, "held": held}
"""Name -> the source with the keys of a client. A new one is a function and a line here."""


@pytest.fixture(scope="module")
def made(tmp_path_factory) -> Iterator[Made]:
    found = Made(tmp_path_factory.mktemp("keys"))
    yield found
    found.openfhe.release()


@pytest.fixture(params=SOURCES)
def keys(request, made, tmp_path) -> Iterator[KeySource]:
    made.folder = tmp_path
    found = SOURCES[request.param](made)
    yield found
    found.close()


def test_the_words_are_those_of_keys_in_memory(made, keys):
    expected = made.words(in_memory(made))
    assert len(expected) == 3
    assert made.words(keys) == expected


def test_every_use_is_counted(made, keys):
    made.words(keys)
    traffic = keys.traffic()
    assert len(keys.waits_s) == traffic.hits + traffic.misses == len(made.uses)
    assert traffic.requested_bytes == sum(PARAMS.key_bytes(limbs) for _, limbs in made.uses)
    assert traffic.key_bytes == len(made.contents) * PARAMS.key_bytes()


def test_a_key_that_is_not_there_is_refused_by_name(keys):
    with pytest.raises(PenstockError, match="rot:77"):
        keys.get("rot:77", 2)


def test_held_keys_are_refused_above_the_limbs_that_were_read(made, tmp_path):
    made.folder = tmp_path
    keys = held(made)
    with pytest.raises(PenstockError, match=r"was read up to .* limbs, and is asked for at 99"):
        keys.get(RELIN_KEY, 99)
