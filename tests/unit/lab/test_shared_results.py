"""Results for others: bound to the program, with the noise that its package states, and counted with the pair.

The attack is Li and Micciancio's (EUROCRYPT 2021, ePrint 2020/1533): two results of known inputs give two linear
equations in the secret and its mirror image, at each root of unity. It runs on what `decrypt` hands out.
"""

from __future__ import annotations

import json
import math
import os
import re
import shutil
import struct
import threading
from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import penstock as ps
from penstock._engine import CkksWriter
from penstock.errors import KeyPairDamaged, KeyPairRefused, ParamsError, PenstockError, UsageError
from penstock.program.package.builder import PackageBuilder
from penstock.program.package.capture import capture
from penstock.program.package.content import ConstantsInMemory, Input, Output, Package, PackageError
from penstock.program.package.derive import derive
from penstock.program.package.file import open_package, write_package
from penstock.program.package.noise import bounded, stated_noise
from penstock.runtime.keystore import KeyStore
from penstock.runtime.native.engine import make_context
from penstock.scheme.params import catalogue
from penstock.scheme.params.ckks import CkksParameters
from support import witness
from support.engine_calls import Calls
from support.forked import in_child
from support.key_recovery import LIMBS, SCALE, SLOTS, Attack, N

pytest.importorskip("penstock_client", reason="penstock's client is not installed")

from penstock.program.evaluator.flooding import advantage_bits
from penstock.runtime.client import KeyPair
from penstock.runtime.client.results import ProgramResults
from penstock.runtime.client.shared_count import MOST_REFUSED

SET = """
source = "penstock: a set of these tests"
ring_dim = "2^10"
slots = "2^9"
depth = 2
first_mod_bits = 60
scale_bits = 46
dnum = 2
scaling = "fixed-manual"
secret = "uniform-ternary"
security = "none"
library = "openfhe"
"""
CI = catalogue.get("insecure-ci")


@pytest.fixture(scope="module")
def params(tmp_path_factory: pytest.TempPathFactory) -> CkksParameters:
    file = tmp_path_factory.mktemp("sets") / "shared.toml"
    file.write_text(SET)
    return catalogue.get(str(file))


@pytest.fixture(scope="module")
def values() -> np.ndarray:
    return np.random.default_rng(1).uniform(-1, 1, SLOTS)


@pytest.fixture(scope="module")
def package(params: CkksParameters, values: np.ndarray) -> Package:
    """The identity at two limbs: of a wrong result everything else is right."""
    builder = PackageBuilder(ConstantsInMemory())
    builder.output(builder.encrypt(Input("x", SLOTS, LIMBS)), Output("y", SLOTS))
    made = builder.finish("identity", params, ConstantsInMemory())
    return with_noise(made, {"x": values})


def with_noise(package: Package, inputs: dict[str, np.ndarray]) -> Package:
    return replace(package, noise=stated_noise(package, inputs))


@pytest.fixture
def attack(params: CkksParameters, package: Package, values: np.ndarray) -> Attack:
    pair = KeyPair.generate(params, threads=1)
    return Attack(pair, package, values, {"result_for": "shared", "package": package, "inputs": {"x": values}})


def test_the_attack_finds_the_secret_of_results_that_were_the_owners(attack: Attack) -> None:
    attack.shared = {"result_for": "owner", "package": attack.package}
    assert attack.recovered([(attack.fresh(), SCALE), (attack.fresh(), SCALE)]) > 0.99


def _restated(content: bytes, scale: float) -> bytes:
    old = struct.pack("<d", SCALE)
    assert content.count(old) >= 1
    return content.replace(old, struct.pack("<d", scale))


def _degree(attack: Attack, content: bytes, degree: int, scale: float) -> bytes:
    """Another degree: written by the evaluator's own writer."""
    engine = make_context(attack.pair.params, 1)
    made = engine.import_ciphertext(content)
    if degree == 2:
        made = Calls(engine).mult_scalar(made, 1.0)
    return engine.export_ciphertext(made.with_scale(scale), CkksWriter(content))


def _limbs(attack: Attack, content: bytes, limbs: int) -> bytes:
    engine = make_context(attack.pair.params, 1)
    if limbs < LIMBS:
        return engine.export_ciphertext(
            Calls(engine).mod_drop(engine.import_ciphertext(content), limbs), CkksWriter(content)
        )
    return attack.pair.encrypt(attack.values, limbs=limbs)


def _key_oracle(attack: Attack, power: int, place: int = 0) -> bytes:
    """(0, 2^power X^place), whose phase is a multiple of the secret."""
    monomial = np.zeros(N, dtype=object)
    monomial[place] = 1 << power

    def change(polynomial: int, modulus: int, row: np.ndarray) -> np.ndarray:
        return row * 0 if polynomial == 0 else witness.evaluations(monomial, modulus)

    return attack.with_rows(attack.fresh(), change)


def _added(attack: Attack, power: int) -> bytes:
    """An honest result, with 2^power times the secret added."""

    def change(polynomial: int, modulus: int, row: np.ndarray) -> np.ndarray:
        return row if polynomial == 0 else row + (1 << power)

    return attack.with_rows(attack.fresh(), change)


Results = list[tuple[bytes, float]]
VARIATIONS: dict[str, Callable[[Attack], Results]] = {
    "honest results": lambda a: [(a.fresh(), SCALE)] * 1 + [(a.fresh(), SCALE)],
    **{
        f"2^{k} times the words, and the scale": lambda a, k=k: [
            (_restated(a.times(a.fresh(), 1 << k), SCALE * 2.0**k), SCALE) for _ in range(2)
        ]
        for k in (1, 8, 20, 30, 38)
    },
    **{
        f"2^{k} times the words, with the right scale": lambda a, k=k: [
            (a.times(a.fresh(), 1 << k), SCALE) for _ in range(2)
        ]
        for k in (1, 10, 20)
    },
    "a scale that is a little off": lambda a: [(_restated(a.fresh(), SCALE * (1 + 2.0**-20)), SCALE)] * 2,
    "degree 2, and its scale": lambda a: [(_degree(a, a.fresh(), 2, SCALE**2), SCALE) for _ in range(2)],
    "degree 2, and the scale of degree 1": lambda a: [(_degree(a, a.fresh(), 2, SCALE), SCALE) for _ in range(2)],
    "one limb": lambda a: [(_limbs(a, a.fresh(), 1), SCALE) for _ in range(2)],
    "three limbs": lambda a: [(_limbs(a, a.fresh(), 3), SCALE) for _ in range(2)],
    **{
        f"2^{k} times the secret": lambda a, k=k: [(_key_oracle(a, k), SCALE), (_key_oracle(a, k, 1), SCALE)]
        for k in (0, 20, 40, 42)
    },
    **{
        f"2^{k} times the secret, added": lambda a, k=k: [(_added(a, k), SCALE) for _ in range(2)] for k in (20, 36, 41)
    },
}


def test_there_are_twenty_variations() -> None:
    assert len(VARIATIONS) >= 20


@pytest.mark.parametrize("name", VARIATIONS)
def test_no_variation_of_the_attack_finds_the_secret_of_shared_results(attack: Attack, name: str) -> None:
    assert handed_on(attack, VARIATIONS[name](attack)) < 0.02
    # And without the inputs, unless the evaluator forges a result within the range: then it is trusted.
    attack.shared.pop("inputs")
    if "times the secret" not in name or "2^0" in name or "2^20" in name:
        assert handed_on(attack, VARIATIONS[name](attack)) < 0.02


def handed_on(attack: Attack, results: Results) -> float:
    """The share of the secret that results give; 0 where they are refused for what they are."""
    try:
        return attack.recovered(results)
    except PenstockError as error:
        told = str(error)
    assert re.search("is given to nobody|where its program states|decryption failed", told), told
    return 0.0


def test_the_mean_of_repeated_decryptions_finds_no_more(attack: Attack) -> None:
    assert attack.recovered([(attack.fresh(), SCALE), (attack.fresh(), SCALE)], repeats=12) < 0.02
    assert attack.pair.shared.results == 24


def test_an_honest_shared_result_is_right_and_its_noise_is_the_stated_one(attack: Attack) -> None:
    program = ProgramResults.of(attack.package)
    std = program.flooding_std(program.one(None), queries=1000, statistical_bits=30)
    got = attack.pair.decrypt(attack.fresh(), **attack.shared).real
    # A value sums the noise of N coefficients; its real part has half of the variance.
    expected = std * math.sqrt(N / 2) / SCALE
    assert 0.8 < float(np.std(got - attack.values)) / expected < 1.6
    less = attack.pair.decrypt(attack.fresh(), queries=2000, **attack.shared)
    assert less.shape == (SLOTS,)


def test_the_noise_does_not_follow_the_ciphertext(attack: Attack) -> None:
    exact = [attack.pair.decrypt(attack.fresh(), **attack.shared).real for _ in range(2)]
    large = attack.times(attack.fresh(), 3)
    attack.shared.pop("inputs")
    noisy = attack.pair.decrypt(large, **attack.shared).real
    assert 0.5 < np.std(noisy - 3 * attack.values) / np.std(exact[0] - attack.values) < 2


def test_complex_results_get_noise_too(attack: Attack) -> None:
    def program(ev: Any) -> Any:
        return ev.decrypt(ev.mult_by_i(ev.encrypt(attack.values, name="x")))

    turned = capture(program, attack.pair.params, ConstantsInMemory(), "turned")
    results = ProgramResults.of(turned)
    std = results.flooding_std(results.one(None), queries=1000, statistical_bits=30) * math.sqrt(N / 2) / SCALE
    content = attack.pair.encrypt_complex(1j * attack.values, limbs=attack.pair.params.num_q)
    got = attack.pair.decrypt_complex(content, **{**attack.shared, "package": turned})
    assert 0.8 < np.std(got.real) / std < 1.6
    assert 0.8 < np.std(got.imag - attack.values) / std < 1.6


def test_values_outside_the_stated_range_are_given_to_nobody(attack: Attack, package: Package) -> None:
    assert package.noise is not None
    assert 1 <= package.noise.largest_input / np.max(np.abs(attack.values)) < 2 ** (1 / 8)
    attack.shared.pop("inputs")
    with pytest.raises(ParamsError, match=r"larger than the values that its package states noise for \(2\^1\)"):
        attack.pair.decrypt(attack.times(attack.fresh(), 16), **attack.shared)
    big = 5 * attack.values
    with pytest.raises(ParamsError, match="inputs of 'identity' have values up to"):
        attack.pair.decrypt(
            attack.pair.encrypt(big, limbs=LIMBS), result_for="shared", package=package, inputs={"x": big}
        )


def test_a_result_of_other_inputs_is_given_to_nobody(attack: Attack) -> None:
    other = attack.pair.encrypt(-attack.values, limbs=LIMBS)
    with pytest.raises(ParamsError, match="is not what 'identity' makes of these inputs"):
        attack.pair.decrypt(other, **attack.shared)


def test_the_owner_gets_the_values_without_noise(attack: Attack) -> None:
    for given in ({}, {"package": attack.package}):
        got = attack.pair.decrypt(attack.fresh(), result_for="owner", **given)
        assert np.max(np.abs(got - attack.values)) < 1e-6
    assert attack.pair.shared.results == 0
    assert math.isinf(attack.pair.shared.advantage_bits)


def test_the_owners_result_is_held_to_the_set_or_to_the_package(attack: Attack) -> None:
    content = attack.fresh()
    with pytest.raises(PenstockError, match=r"states scale 2\^66.00, where the parameter set has 2\^46.00"):
        attack.pair.decrypt(_restated(content, 2.0**66), result_for="owner")
    for given, told in (
        (_restated(content, SCALE * 1.5), r"scale 2\^46.58, where its program states 2\^46.00"),
        (_limbs(attack, content, 1), "limbs 1, where its program states 2"),
        (_degree(attack, content, 2, SCALE**2), "degree 2, where its program states 1"),
    ):
        attack.pair.decrypt(given, result_for="owner")
        with pytest.raises(PenstockError, match=told):
            attack.pair.decrypt(given, result_for="owner", package=attack.package)


def test_who_the_result_is_for_is_always_said(attack: Attack, tmp_path: Path) -> None:
    content = attack.fresh()
    for decrypt in (attack.pair.decrypt, attack.pair.decrypt_complex):
        with pytest.raises(TypeError, match="result_for"):
            decrypt(content)  # type: ignore[call-arg]
        with pytest.raises(UsageError, match="'everybody': a result is for its 'owner', or 'shared'"):
            decrypt(content, result_for="everybody")
        with pytest.raises(UsageError, match=r"needs its program's package.*--package FILE"):
            decrypt(content, result_for="shared")


def test_a_package_without_noise_and_one_of_another_set_are_refused(attack: Attack, values: np.ndarray) -> None:
    bare = replace(attack.package, noise=None)
    with pytest.raises(ParamsError, match=r"states no noise of its results.*made without inputs"):
        attack.pair.decrypt(attack.fresh(), result_for="shared", package=bare)
    other = capture(lambda ev: ev.decrypt(ev.encrypt(values)), catalogue.get("insecure-ci"), ConstantsInMemory(), "y")
    with pytest.raises(UsageError, match="is a program for set 'insecure-ci'"):
        attack.pair.decrypt(attack.fresh(), result_for="owner", package=other)
    assert attack.pair.shared.results == 0


def test_a_program_that_refreshes_states_no_noise() -> None:
    params = catalogue.get("insecure-resnet20")

    def program(ev: Any) -> Any:
        return ev.decrypt(ev.bootstrap(ev.encrypt(np.linspace(-1, 1, 16))))

    made = capture(program, params, ConstantsInMemory(), "refresh")
    assert made.noise is None
    assert ProgramResults.of(made).refreshes
    program_of = ProgramResults.of(made)
    with pytest.raises(ParamsError, match="no worst-case bound of a refresh"):
        program_of.flooding_std(program_of.one(None), queries=1, statistical_bits=30)


def test_one_of_several_results_is_named(attack: Attack, params: CkksParameters, values: np.ndarray) -> None:
    def program(ev: Any) -> Any:
        x = ev.encrypt(values, name="x")
        return np.concatenate([ev.decrypt(ev.negate(x)), ev.decrypt(ev.add(x, x))])

    two = capture(program, params, ConstantsInMemory(), "two")
    content = attack.pair.encrypt(-values)
    with pytest.raises(UsageError, match=r"several results: name one of them \(output\[0\], output\[1\]\)"):
        attack.pair.decrypt(content, result_for="owner", package=two)
    with pytest.raises(UsageError, match="no result 'z'"):
        attack.pair.decrypt(content, result_for="owner", package=two, result="z")
    shared = {"result_for": "shared", "package": two, "inputs": {"x": values}}
    assert attack.pair.decrypt(content, result="output[0]", **shared).shape == (SLOTS,)
    with pytest.raises(ParamsError, match="is not what 'two' makes"):
        attack.pair.decrypt(content, result="output[1]", **shared)


# The count.
def test_shared_results_are_counted_and_bound_the_advantage(attack: Attack, tmp_path: Path) -> None:
    shared, content = dict(attack.shared, queries=4), attack.fresh()
    assert attack.pair.save(tmp_path / "alice")
    pair = KeyPair.load(tmp_path / "alice", attack.pair.params, threads=1)
    for count in range(1, 5):
        pair.decrypt(content, **shared)
        assert pair.shared.results == count
        # The divergences of `count` results of four.
        assert pair.shared.advantage_bits == pytest.approx(advantage_bits(30) + math.log2(4 / count) / 2)
    with pytest.raises(KeyPairRefused, match=r"has counted 4 results for others.*make a new pair"):
        pair.decrypt(content, **shared)
    # More noise hides more results; fewer bits are hidden than was asked for at first.
    again = KeyPair.load(tmp_path / "alice", attack.pair.params, threads=1)
    assert again.shared.results == 4
    again.decrypt(content, **dict(shared, statistical_bits=29, queries=1000))
    assert attack.pair.shared.results == again.shared.results == 5


def test_what_is_refused_before_it_is_decrypted_is_not_counted(attack: Attack) -> None:
    other = KeyPair.generate(attack.pair.params, threads=1)
    for content, more in (
        (_restated(attack.fresh(), 2.0**60), {}),
        (other.encrypt([0.5], limbs=LIMBS), {}),
        (attack.fresh(), {"inputs": {"y": attack.values}}),
        (attack.fresh(), {"inputs": {"x": attack.values[:5]}}),
        (attack.fresh(), {"inputs": {"x": ["a"] * SLOTS}}),
        (attack.fresh(), {"queries": 0}),
        (attack.fresh(), {"queries": float("nan")}),
        (attack.fresh(), {"queries": 1.5}),
        (attack.fresh(), {"statistical_bits": 129}),
    ):
        with pytest.raises(PenstockError):
            attack.pair.decrypt(content, **{**attack.shared, **more})
    with pytest.raises(UsageError, match="is real: its imaginary parts are error"):
        attack.pair.decrypt_complex(attack.fresh(), **attack.shared)
    assert attack.pair.shared.results == 0


def test_two_results_that_are_not_the_programs_end_the_sharing_of_a_pair(attack: Attack, tmp_path: Path) -> None:
    """Each refusal compares a multiple of the secret with a bound, exactly: a thousand of them would tell the key."""
    attack.pair.save(tmp_path / "alice")
    for count in range(1, MOST_REFUSED + 1):
        attack.pair.decrypt(attack.fresh(), **attack.shared)
        with pytest.raises(ParamsError, match="is not what 'identity' makes"):
            attack.pair.decrypt(_added(attack, 40), **attack.shared)
        assert attack.pair.shared.results == 2 * count
    again = KeyPair.load(tmp_path / "alice", attack.pair.params, threads=1)
    for pair in (attack.pair, again):
        with pytest.raises(KeyPairRefused, match=r"has refused 2 results.*nothing more is shared. Make a new pair"):
            pair.decrypt(attack.fresh(), **attack.shared)
    assert np.max(np.abs(again.decrypt(attack.fresh(), result_for="owner") - attack.values)) < 1e-6


def test_a_decryption_that_is_cut_off_counts_as_refused(attack: Attack, tmp_path: Path) -> None:
    attack.pair.save(tmp_path / "alice")
    for _ in range(MOST_REFUSED):
        child = os.fork()
        if child == 0:
            with attack.pair.shared.sharing(1000, 30):
                os._exit(9)  # as if killed
        os.waitpid(child, 0)
    assert attack.pair.shared.results == MOST_REFUSED
    with pytest.raises(KeyPairRefused, match="nothing more is shared"):
        attack.pair.decrypt(attack.fresh(), **attack.shared)


def test_a_child_shares_no_result_of_a_pair_in_memory(attack: Attack) -> None:
    content = attack.fresh()
    with pytest.raises(PenstockError, match="save the pair first"):
        in_child(lambda: attack.pair.decrypt(content, **attack.shared))


def test_threads_count_all_their_results(attack: Attack) -> None:
    def count() -> None:
        for _ in range(200):
            with attack.pair.shared.sharing(10_000, 30):
                pass

    threads = [threading.Thread(target=count) for _ in range(4)]
    for each in threads:
        each.start()
    for each in threads:
        each.join()
    assert attack.pair.shared.results == 800


def _lost(file: Path) -> None:
    file.unlink()


def _cut(file: Path) -> None:
    file.write_bytes(file.read_bytes()[:20])


def _changed(file: Path) -> None:
    file.write_text(json.dumps({**json.loads(file.read_text()), "refused": -5}))


def _of_another(file: Path) -> None:
    other = KeyPair.generate(catalogue.get("insecure-small"), threads=1)
    other.save(file.parent.parent / "other")
    file.write_bytes((file.parent.parent / "other" / file.name).read_bytes())


@pytest.mark.parametrize("harm", [_lost, _cut, _changed, _of_another])
def test_a_lost_or_damaged_count_is_refused_for_others_only(
    attack: Attack, tmp_path: Path, harm: Callable[[Path], None]
) -> None:
    assert attack.pair.save(tmp_path / "alice")
    pair = KeyPair.load(tmp_path / "alice", attack.pair.params, threads=1)
    pair.decrypt(attack.fresh(), **attack.shared)
    harm(tmp_path / "alice" / "shared.json")
    with pytest.raises(KeyPairDamaged, match="Put the file back from a copy as new"):
        pair.decrypt(attack.fresh(), **attack.shared)
    assert np.max(np.abs(pair.decrypt(attack.fresh(), result_for="owner") - attack.values)) < 1e-6


def test_a_pair_in_openfhes_folder_shares_nothing_before_it_is_taken_over(attack: Attack, tmp_path: Path) -> None:
    attack.pair.to_openfhe(tmp_path / "theirs")
    theirs = KeyPair.from_openfhe(tmp_path / "theirs", attack.pair.params, threads=1)
    content = attack.fresh()
    with pytest.raises(KeyPairRefused, match=r"no place for the count.*from-openfhe"):
        theirs.decrypt(content, **attack.shared)
    assert np.max(np.abs(theirs.decrypt(content, result_for="owner") - attack.values)) < 1e-6
    ours = theirs.with_new_public()
    assert ours.save(tmp_path / "ours")
    ours.decrypt(content, **attack.shared)
    assert ours.shared.results == 1


def test_an_owner_may_compare_a_result_with_its_inputs(attack: Attack) -> None:
    given = {"result_for": "owner", "package": attack.package}
    attack.pair.decrypt(attack.fresh(), inputs={"x": attack.values}, **given)
    large = 50 * attack.values  # no noise has to cover it
    attack.pair.decrypt(attack.pair.encrypt(large, limbs=LIMBS), inputs={"x": large}, **given)
    with pytest.raises(ParamsError, match="is not what 'identity' makes of these inputs"):
        attack.pair.decrypt(attack.fresh(), inputs={"x": 1.001 * attack.values}, **given)
    assert attack.pair.shared.results == 0


def test_a_package_that_states_too_little_noise_is_found_by_its_inputs(attack: Attack) -> None:
    assert attack.package.noise is not None
    less = replace(attack.package, noise=attack.package.noise._replace(error_bits=-60))
    with pytest.raises(ParamsError, match=r"states an error of at most 2\^-60, and its calls have up to"):
        attack.pair.decrypt(attack.fresh(), **{**attack.shared, "package": less})


def test_a_pair_whose_folder_is_gone_goes_on_with_its_count_in_another(attack: Attack, tmp_path: Path) -> None:
    assert attack.pair.save(tmp_path / "alice")
    attack.pair.decrypt(attack.fresh(), **attack.shared)
    shutil.rmtree(tmp_path / "alice")
    assert attack.pair.save(tmp_path / "again")
    assert KeyPair.load(tmp_path / "again", attack.pair.params, threads=1).shared.results == 1


def test_processes_that_share_results_at_once_count_all(attack: Attack, tmp_path: Path) -> None:
    assert attack.pair.save(tmp_path / "alice")
    children = []
    for _ in range(4):
        child = os.fork()
        if child == 0:
            code = 1
            try:
                for _ in range(10):
                    with attack.pair.shared.sharing(1000, 30):
                        pass
                code = 0
            finally:
                os._exit(code)
        children.append(child)
    assert all(os.waitpid(child, 0)[1] == 0 for child in children)
    assert attack.pair.shared.results == 40


# What a package states.
def test_the_noise_is_kept_in_the_file_and_a_malformed_one_is_refused(package: Package, tmp_path: Path) -> None:
    write_package(package, tmp_path / "a.pkg")
    found = open_package(tmp_path / "a.pkg")
    assert found.noise == package.noise
    assert "noise" not in found.provenance
    for stated in ("", "1 2", "1 2 3 4", "1.5 2 3", "1 2 nan", "9999 1 1"):
        wrong = replace(package, noise=None, provenance={"noise": stated})
        write_package(wrong, tmp_path / "b.pkg", force=True)
        with pytest.raises(PackageError, match="not 3 whole numbers"):
            open_package(tmp_path / "b.pkg")


def programs() -> Iterator[tuple[str, Callable[[Any], Any]]]:
    rng = np.random.default_rng(7)
    x, y = rng.uniform(-1, 1, (2, 64))
    yield "product", lambda ev: ev.decrypt(ev.rescale(ev.mult(ev.encrypt(x), ev.encrypt(y))))
    yield "deferred", lambda ev: ev.decrypt(ev.mult(ev.encrypt(x), ev.encrypt(y)))
    yield "rotated", lambda ev: ev.decrypt(ev.add(ev.encrypt(x), ev.rotate(ev.encrypt(y), 3)))
    yield "plain", lambda ev: ev.decrypt(ev.rescale(ev.mult(ev.encrypt(x), ev.encode(y))))


@pytest.mark.parametrize(("name", "program"), list(programs()))
def test_the_bound_of_a_package_is_above_its_encrypted_error(
    params: CkksParameters, name: str, program: Callable[[Any], Any], tmp_path: Path
) -> None:

    made = capture(program, params, ConstantsInMemory(), name)
    assert made.noise is not None
    write_package(made, tmp_path / "p.pkg")
    pair = KeyPair.generate(params, threads=1)
    pair.add_keys(KeyStore(tmp_path / "keys"), ps.package_keys(str(tmp_path / "p.pkg")))
    rng = np.random.default_rng(8)
    inputs = {each.name: rng.uniform(-1, 1, each.length) for each in made.inputs}
    with ps.package_server(str(tmp_path / "p.pkg"), str(tmp_path / "keys")) as server:
        results = server.run({key: pair.encrypt_seeded(each) for key, each in inputs.items()})
    (content,) = results.values()
    exact = bounded(made, inputs)
    got = pair.decrypt(content, result_for="shared", package=tmp_path / "p.pkg", inputs=inputs)
    owners = pair.decrypt(content, result_for="owner", package=tmp_path / "p.pkg")
    error = float(np.sqrt(np.mean(np.abs(got - owners) ** 2)))
    ((bound, _),) = exact.values()
    assert 0 < bound <= 2.0**made.noise.error_bits
    assert error > bound


def test_a_package_at_another_set_states_no_noise_of_the_old_one() -> None:
    made = capture(
        lambda ev: ev.decrypt(ev.encrypt(np.ones(4))), catalogue.get("insecure-ci"), ConstantsInMemory(), "y"
    )
    assert made.noise is not None
    assert derive(made, replace(made.params, name="other", scale_bits=made.params.scale_bits - 1)).noise is None


def test_zeros_in_a_recording_are_not_told(params: CkksParameters) -> None:
    """Bounds by vector would say which entries of a selection are zero."""

    def noise(at: int) -> Any:
        picks = np.eye(4)[at]
        x = np.linspace(0.5, 1, SLOTS)

        def program(ev: Any) -> Any:
            terms = [ev.mult(ev.encrypt(np.full(SLOTS, pick), name="pick"), ev.encode(x)) for pick in picks]
            return ev.decrypt(ev.rescale(ev.add(ev.add(terms[0], terms[1]), ev.add(terms[2], terms[3]))))

        return capture(program, params, ConstantsInMemory(), "pick").noise

    assert len({noise(at) for at in range(4)}) == 1
