"""The keys to and from an ephemeral sparse secret: OpenFHE's in our hands, ours in OpenFHE's, word for word."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from types import ModuleType
from typing import Any

import numpy as np
import pytest

from penstock import _engine
from penstock.errors import KeyRefused, ParamsError, PenstockError
from penstock.program.evaluator.call import Call, Cipher
from penstock.program.evaluator.scaling import ScaleState
from penstock.program.openfhe.evaluator import OpenFheContext
from penstock.program.openfhe.key_pair import loaded, read_files
from penstock.runtime.client import KeyPair
from penstock.runtime.keystore import KeyCache, KeyStore, parameter_digest
from penstock.runtime.keystore.export import RELINEARIZATION, ROTATIONS, export_openfhe
from penstock.runtime.native.client import open_client
from penstock.runtime.native.engine import EngineHere, make_context
from penstock.runtime.native.keys import KeysOnDisk
from penstock.runtime.native.openfhe_client import encapsulation_keys
from penstock.runtime.native.store import add_missing_keys, keys_in_memory
from penstock.scheme.operations import OpKind
from penstock.scheme.params import catalogue
from penstock.scheme.params.ckks import CkksParameters
from penstock.scheme.params.spec import BootstrapSpec, CkksSpec
from support.engine_calls import Calls
from support.openfhe_sparse_switch import key_of, switched_to_sparse, words_of

BOTH = ("to-sparse", "to-dense")
SLOTS = (8, 32)


def parameters(secret: str, *, dnum: int = 3, scaling: str = "flexible-auto") -> CkksParameters:
    written = {
        "name": f"insecure-{secret}",
        "library": "openfhe",
        "ring_dim": 1 << 11,
        "slots": SLOTS[-1],
        "depth": 14,
        "scale_bits": 50,
        "first_mod_bits": 60,
        "dnum": dnum,
        "scaling": scaling,
        "secret": secret,
        "security": "none",
        "source": "tests/differential/test_encapsulated_openfhe.py",
    }
    plan = BootstrapSpec(cts_stages=1, stc_stages=1, chebyshev_degree=27, double_angles=3)
    return CkksSpec.model_validate(written | {"bootstrap": plan}).build()


SPARSE, UNIFORM = parameters("sparse-encapsulated"), parameters("uniform-encapsulated")
ELEMENTS = dict(zip(BOTH, (2 * SPARSE.ring_dim - 4, 2 * SPARSE.ring_dim - 2), strict=True))


@pytest.fixture(scope="module")
def context(openfhe: ModuleType) -> Iterator[OpenFheContext]:
    """OpenFHE's context with its keys of bootstrapping, for two numbers of slots."""
    made = OpenFheContext.create(SPARSE, bootstrap=SLOTS, conjugate=True)
    yield made
    made.release()


@pytest.fixture(scope="module")
def file(openfhe: ModuleType, context: OpenFheContext, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """What OpenFHE writes of its automorphism keys."""
    path = tmp_path_factory.mktemp("openfhe") / "automorphisms.bin"
    tag = context.secret_key.GetKeyTag()
    assert openfhe.CryptoContext.SerializeEvalAutomorphismKey(str(path), openfhe.BINARY, tag)
    return path


@pytest.fixture
def store(file: Path, tmp_path: Path) -> KeyStore:
    made = KeyStore(tmp_path / "keys")
    made.import_openfhe("alice", file, params=SPARSE)
    return made


def low(context: OpenFheContext, limbs: int = 1) -> Any:
    """A ciphertext of few limbs."""
    values = np.linspace(-0.5, 0.5, SPARSE.slots)
    return context.context.Encrypt(context.public_key, context.plaintext(values, 1, SPARSE.num_q - limbs))


def keys_in(store: KeyStore, folder: Path, params: CkksParameters = SPARSE) -> Path:
    """Both keys in a file of OpenFHE's."""
    names = [each.name for each in store.list_keys() if each.name.key in BOTH]
    (path,) = export_openfhe(store, names, params, folder, layout="objects")
    return path


def test_the_two_keys_that_openfhe_wrote_are_imported_and_exported_word_for_word(
    openfhe: ModuleType, store: KeyStore, file: Path, tmp_path: Path
) -> None:
    by_key = {each.name.key: each for each in store.list_keys()}
    assert set(BOTH) <= set(by_key)
    assert by_key["to-sparse"].bytes_needed == (2 * 3 * SPARSE.ring_dim * 8,)
    assert by_key["to-dense"].bytes_needed[-1] == SPARSE.key_bytes()
    assert {each.secret_tag for each in by_key.values()} == {by_key["conj"].secret_tag}
    assert all(store.verify(each.name).fault is None for each in by_key.values())
    (path,) = export_openfhe(store, [each.name for each in by_key.values()], SPARSE, tmp_path / "out", layout="objects")
    again = KeyStore(tmp_path / "again")
    again.import_openfhe("alice", path, params=SPARSE)
    one, two = (KeyCache(each, 1 << 30).session("alice", parameter_digest(SPARSE)) for each in (store, again))
    found = file.read_bytes()
    for key in by_key:
        limbs = 1 if key == "to-sparse" else SPARSE.num_q
        with one.get(key, limbs) as a, two.get(key, limbs) as b:
            rows = (
                [(part, 0, limb) for part in (0, 1) for limb in range(3)]
                if key == "to-sparse"
                else [
                    (part, digit, limb)
                    for part in (0, 1)
                    for digit in range(SPARSE.dnum)
                    for limb in range(SPARSE.num_q + SPARSE.num_p)
                ]
            )
            for row in rows:
                words = a.row(*row)
                assert np.array_equal(words, b.row(*row)), (key, row)
                assert key not in BOTH or words.tobytes() in found
    # OpenFHE reads what was exported.
    read, whole = openfhe.DeserializeEvalKeyMap(str(path), openfhe.BINARY)
    assert whole
    assert read is not None


def switches(
    openfhe: ModuleType, context: OpenFheContext, engine: Any, path: Path, ours: dict[str, Any], limbs: int
) -> None:
    """Both switches by the keys in a file, in OpenFHE and by our form of the same keys: the same words."""
    cc, secret = context.context, context.secret_key
    theirs, whole = openfhe.DeserializeEvalKeyMap(str(path), openfhe.BINARY)
    assert whole
    keys = {key: key_of(theirs, ELEMENTS[key], cc.KeySwitchGen(secret, secret)) for key in BOTH}
    x = low(context)
    expected = words_of(engine, openfhe, switched_to_sparse(x, keys["to-sparse"]))
    found = Calls(engine).to_sparse(engine.import_ciphertext(openfhe.Serialize(x, openfhe.BINARY)), ours["to-sparse"])
    assert all(np.array_equal(found.words(part), expected[part]) for part in (0, 1))
    # The switch back works at any number of limbs: on random words as well as on a raised ciphertext.
    x = low(context, limbs)
    expected = words_of(engine, openfhe, cc.KeySwitch(x, keys["to-dense"]))
    found = Calls(engine).to_dense(engine.import_ciphertext(openfhe.Serialize(x, openfhe.BINARY)), ours["to-dense"])
    assert all(np.array_equal(found.words(part), expected[part]) for part in (0, 1))


def test_the_engine_takes_both_kinds_of_calls_and_counts_their_bytes(
    openfhe: ModuleType, context: OpenFheContext, store: KeyStore
) -> None:
    engine, digest = make_context(SPARSE, 1), parameter_digest(SPARSE)
    uses = [("to-sparse", 1), ("to-dense", 4)]
    keys = KeysOnDisk(SPARSE, store, "alice", 1 << 26, uses)
    runner = EngineHere(SPARSE, engine, keys)
    content = openfhe.Serialize(low(context), openfhe.BINARY)
    taken = runner.take(content)
    sparse = runner.execute(called(OpKind.TO_SPARSE, Cipher(0, taken.state, value=taken.value), taken.state))
    raised = Cipher(1, ScaleState(4, 1), value=Calls(engine).mod_raise(sparse.value, 4))
    dense = runner.execute(called(OpKind.TO_DENSE, raised, raised.state))
    assert (sparse.state.limbs, dense.state.limbs) == (1, 4)
    session = KeyCache(store, 1 << 28).session("alice", digest)
    with session.get("to-sparse", 1) as key:
        twin = Calls(engine).to_sparse(engine.import_ciphertext(content), key)
    assert all(np.array_equal(sparse.value.words(part), twin.words(part)) for part in (0, 1))
    traffic = keys.traffic()
    small = 2 * 3 * SPARSE.ring_dim * 8
    assert traffic.requested_bytes == traffic.read_bytes == small + SPARSE.key_bytes(4)
    assert traffic.key_bytes == small + SPARSE.key_bytes()
    keys.close()


def called(kind: OpKind, operand: Cipher, state: ScaleState) -> Call:
    return Call(kind, [operand], state, key={OpKind.TO_SPARSE: "to-sparse", OpKind.TO_DENSE: "to-dense"}[kind])


@pytest.mark.parametrize("path", ["avx512", "avx2", "portable"])
def test_our_switches_give_openfhes_words_with_its_keys(
    openfhe: ModuleType, context: OpenFheContext, store: KeyStore, tmp_path: Path, path: str
) -> None:
    if path not in _engine.ckks_paths():
        pytest.skip(f"this machine has no {path}")
    engine = make_context(SPARSE, 1, path)
    session = KeyCache(store, 1 << 28).session("alice", parameter_digest(SPARSE))
    file = keys_in(store, tmp_path / "out")
    for limbs in (1, 5, SPARSE.num_q):
        with session.get("to-sparse", 1) as first, session.get("to-dense", limbs) as second:
            switches(openfhe, context, engine, file, {"to-sparse": first, "to-dense": second}, limbs)
    whole = engine.import_automorphism_keys(file.read_bytes())
    switches(openfhe, context, engine, file, {key: whole[ELEMENTS[key]] for key in BOTH}, 3)
    one = export_openfhe(
        store,
        [each.name for each in store.list_keys() if each.name.key == "to-sparse"],
        SPARSE,
        tmp_path,
        layout="objects",
    )
    ours = {"to-sparse": engine.import_key(next(iter(one)).read_bytes()), "to-dense": whole[ELEMENTS["to-dense"]]}
    switches(openfhe, context, engine, file, ours, 2)


@pytest.mark.parametrize(
    "params", [SPARSE, UNIFORM, parameters("sparse-encapsulated", dnum=1)], ids=["sparse", "uniform", "one-digit"]
)
def test_openfhe_bootstraps_with_the_keys_that_our_client_made(
    openfhe: ModuleType, params: CkksParameters, tmp_path: Path
) -> None:
    pair = KeyPair.generate(params, threads=1)
    assert pair.to_openfhe(tmp_path / "pair")
    context = OpenFheContext.create(
        params,
        relinearize=False,
        client_keys=lambda cc: loaded(tmp_path / "pair", read_files(tmp_path / "pair")),
    )
    cc = context.context
    try:
        store = KeyStore(tmp_path / "keys")
        cc.EvalBootstrapSetup([1, 1], [0, 0], SLOTS[0])
        elements = _elements(openfhe, cc, context.secret_key)
        for key in ["relin", *elements]:
            pair.write_key(key, tmp_path / "one.pkey", tenant="alice")
            store.import_segment(tmp_path / "one.pkey")
        names = [each.name for each in store.list_keys()]
        export_openfhe(store, names, params, tmp_path / "out")
        openfhe.ClearEvalMultKeys()
        assert cc.DeserializeEvalAutomorphismKey(str(tmp_path / "out" / ROTATIONS), openfhe.BINARY)
        assert cc.DeserializeEvalMultKey(str(tmp_path / "out" / RELINEARIZATION), openfhe.BINARY)
        values = np.linspace(-0.5, 0.5, SLOTS[0])
        x = cc.Encrypt(
            context.public_key, cc.MakeCKKSPackedPlaintext(values.tolist(), 1, params.num_q - 2, None, SLOTS[0])
        )
        refreshed = cc.EvalBootstrap(x)
        plain = cc.Decrypt(refreshed, context.secret_key)
        plain.SetLength(SLOTS[0])
        assert np.abs(np.asarray(plain.GetRealPackedValue()) - values).max() < 1e-3
        assert params.num_q - refreshed.GetLevel() > 2
    finally:
        context.release()


def _elements(fhe: ModuleType, cc: Any, secret: Any) -> list[str]:
    """The ids of the automorphism keys that a bootstrapping of OpenFHE's reads."""
    cc.EvalBootstrapKeyGen(secret, SLOTS[0])
    elements = cc.GetExistingEvalAutomorphismKeyIndices(secret.GetKeyTag())
    fhe.CryptoContext.ClearEvalAutomorphismKeys()
    n2 = 2 * SPARSE.ring_dim
    assert {n2 - 4, n2 - 2} <= set(elements)
    names = {n2 - 4: "to-sparse", n2 - 2: "to-dense", n2 - 1: "conj"}
    return [names.get(element, f"rot:{element}") for element in elements]


@pytest.mark.parametrize("params", [SPARSE, UNIFORM], ids=["sparse", "uniform"])
def test_openfhes_client_makes_both_keys_of_one_secret_and_leaves_nothing_behind(
    openfhe: ModuleType, params: CkksParameters, tmp_path: Path
) -> None:
    client = open_client(params, library="openfhe")
    try:
        engine = make_context(params, 1)
        store = KeyStore(tmp_path / "keys")
        assert add_missing_keys(client, store, "alice", {"to-sparse": 1, "rot:5": 3}) == 2
        first = {each.name.key: store.key(each.name) for each in store.list_keys()}
        assert set(first) == {"to-sparse", "rot:5"}
        # With the second key the first is made again: they are of one ephemeral secret.
        assert add_missing_keys(client, store, "alice", {"to-sparse": 1, "to-dense": params.num_q, "rot:5": 3}) == 2
        assert add_missing_keys(client, store, "alice", {"to-sparse": 1, "to-dense": params.num_q}) == 0
        session = KeyCache(store, 1 << 28).session("alice", parameter_digest(params), secret_tag=client.key_tag)
        check_message(client, engine, session, params)
        held = keys_in_memory(client, engine, "alice", {"to-sparse": 1, "to-dense": params.num_q}, tmp_path)
        check_message(client, engine, held, params)
        assert held.traffic().key_bytes == params.key_bytes() + 2 * 3 * 8 * params.ring_dim
    finally:
        client.release()


def check_message(client: Any, engine: Any, keys: Any, params: CkksParameters) -> None:
    """Down to the ephemeral secret, up, and back: the message, plus multiples of q_0 that one limb does not show."""
    values = np.linspace(-0.5, 0.5, params.slots)
    content = client.encrypt(values).content
    engine = Calls(engine)
    x = engine.mod_drop(engine.import_ciphertext(content), 1)
    with keys.get("to-sparse", 1) as key:
        sparse = engine.to_sparse(x, key)
    with keys.get("to-dense", params.num_q) as key:
        raised = engine.to_dense(engine.mod_raise(sparse, params.num_q), key)
    back = client.decrypt(engine.export_ciphertext(engine.mod_drop(raised, 1), _engine.CkksWriter(content))).values
    assert np.abs(back - values).max() < 1e-6


@pytest.mark.parametrize("params", [SPARSE, UNIFORM], ids=["sparse", "uniform"])
def test_our_client_makes_a_missing_key_later_of_the_same_secret(params: CkksParameters, tmp_path: Path) -> None:
    client = open_client(params, tmp_path / "pair", library="penstock")
    store = KeyStore(tmp_path / "keys")
    assert add_missing_keys(client, store, "alice", {"to-sparse": 1}) == 1
    client.release()
    again = open_client(params, tmp_path / "pair", library="penstock")
    assert add_missing_keys(again, store, "alice", {"to-sparse": 1, "to-dense": 4}) == 1
    assert add_missing_keys(again, store, "alice", {"to-sparse": 1, "to-dense": params.num_q}) == 1
    by_key = {each.name.key: each for each in store.list_keys()}
    assert (by_key["to-sparse"].form, by_key["to-dense"].form) == ("seeded", "seeded")
    assert by_key["to-sparse"].stored_bytes == (3 * 8 * params.ring_dim,)
    session = KeyCache(store, 1 << 28).session("alice", parameter_digest(params), secret_tag=again.key_tag)
    check_message(again, make_context(params, 1), session, params)
    # Another pair from OpenFHE's file of the secret key draws a new ephemeral secret.
    pair = KeyPair.load(tmp_path / "pair", params)
    pair.to_openfhe(tmp_path / "openfhe")
    other = KeyPair.from_openfhe(tmp_path / "openfhe", params)
    assert other.tag == pair.tag
    for key, limbs in (("to-sparse", 1), ("to-dense", params.num_q)):
        other.write_key(key, tmp_path / "one.pkey", tenant="alice", limbs=limbs)
        store.import_segment(tmp_path / "one.pkey")
        works = key == "to-dense"  # both are of the new one then
        session = KeyCache(store, 1 << 28).session("alice", parameter_digest(params))
        if works:
            check_message(again, make_context(params, 1), session, params)
        else:
            with pytest.raises((AssertionError, PenstockError)):
                check_message(again, make_context(params, 1), session, params)


def test_sets_without_an_ephemeral_secret_have_no_such_keys(openfhe: ModuleType, tmp_path: Path) -> None:
    params = catalogue.get("insecure-ci")
    context = OpenFheContext.create(params, relinearize=False)
    try:
        with pytest.raises(ParamsError, match=r"secret 'uniform-ternary'.*'sparse-encapsulated'"):
            encapsulation_keys(context)
    finally:
        context.release()
    with pytest.raises(PenstockError, match="key 'to-sparse': this pair has no ephemeral secret"):
        KeyPair.generate(params).write_key("to-sparse", tmp_path / "one.pkey", tenant="alice")


def test_a_file_with_the_sparse_key_alone_needs_its_parameters(store: KeyStore, tmp_path: Path) -> None:
    name = next(each.name for each in store.list_keys() if each.name.key == "to-sparse")
    (path,) = export_openfhe(store, [name], SPARSE, tmp_path / "out")
    again = KeyStore(tmp_path / "again")
    with pytest.raises(KeyRefused, match="import it with the name of its parameters"):
        again.import_openfhe("alice", path, num_q=SPARSE.num_q)
    assert [each.name.key for each in again.import_openfhe("alice", path, params=SPARSE)] == ["to-sparse"]
    with pytest.raises(KeyRefused, match="does not hold it"):
        again.import_openfhe("alice", path, params=SPARSE, only=["to-dense"])
    with pytest.raises(KeyRefused, match="limbs is 2"):
        KeyCache(again, 1 << 24).session("alice", name.digest).get("to-sparse", 2)


@pytest.mark.parametrize("paged", [False, True], ids=["in-memory", "paged"])
@pytest.mark.parametrize("params", [SPARSE, UNIFORM], ids=["sparse", "uniform"])
def test_the_openfhe_reading_refreshes_at_several_numbers_of_slots(
    openfhe: ModuleType, params: CkksParameters, paged: bool, tmp_path: Path
) -> None:
    places: dict[str, Any] = {"key_folder": tmp_path, "key_budget_bytes": 1, "rotation_steps": (1,)} if paged else {}
    context = OpenFheContext.create(params, bootstrap=SLOTS, **places)
    try:
        cc, paging = context.context, context.paged
        for slots in SLOTS:
            values = np.linspace(-0.5, 0.5, slots)
            plain = cc.MakeCKKSPackedPlaintext(values.tolist(), 1, params.num_q - 2, None, slots)
            x = cc.Encrypt(context.public_key, plain)
            if paging is not None:
                # A rotation takes the place of the keys of bootstrapping in OpenFHE's registry.
                paging.register(paging.get(cc.FindAutomorphismIndex(1)))
                paging.register_bootstrap()
            refreshed = cc.Decrypt(cc.EvalBootstrap(x), context.secret_key)
            refreshed.SetLength(slots)
            assert np.abs(np.asarray(refreshed.GetRealPackedValue()) - values).max() < 1e-3
    finally:
        context.release()
