from __future__ import annotations

from pathlib import Path

import pytest

from penstock.errors import ParamsError, UnknownName
from penstock.scheme.params import catalogue
from penstock.scheme.params.ckks import Scaling
from penstock.scheme.params.rlwe import KeyForm
from penstock.scheme.params.spec import CkksSpec, spec_of

NAMED = {
    "openfhe-demo", "openfhe-bench", "cryptoracle", "sharp", "tensorfhe-resnet20", "tensorfhe-helr", "fheins-ssc",
    "fheins-pir", "insecure-ci", "insecure-small",
}  # fmt: skip


def test_the_sets_of_the_studies_have_names() -> None:
    assert set(catalogue.names()) >= NAMED
    assert catalogue.names() == sorted(catalogue.names())


@pytest.mark.parametrize("name", catalogue.names())
def test_every_set_builds_names_its_source_and_round_trips(name: str) -> None:
    params = catalogue.get(name)
    assert params.name == name
    assert params.source
    assert spec_of(params).build() == params
    assert set(params.assumed) <= set(CkksSpec.model_fields)


@pytest.mark.parametrize("name", [n for n in catalogue.names() if catalogue.get(n).library == "openfhe"])
def test_a_toy_set_that_runs_here_says_in_its_name_that_it_is_insecure(name: str) -> None:
    params = catalogue.get(name)
    toy = params.ring_dim < 2**15 and params.security_bits < 128
    assert toy == ("insecure" in name)
    if toy:
        assert params.security_note.startswith("insecure")


def test_the_demo_set_is_secure_and_deep_enough() -> None:
    demo = catalogue.get("openfhe-demo")
    assert (demo.ring_dim, demo.slots, demo.depth, demo.scaling) == (2**15, 2**14, 13, Scaling.FIXED_MANUAL)
    assert (demo.security_bits, demo.security_asked) == (128, 128)
    assert demo.log_qp <= 868


def test_the_test_set_has_the_chain_of_the_demo_set() -> None:
    demo, ci = catalogue.get("openfhe-demo"), catalogue.get("insecure-ci")
    assert (ci.q_bits, ci.p_bits, ci.dnum, ci.scaling) == (demo.q_bits, demo.p_bits, demo.dnum, demo.scaling)
    assert (ci.ring_dim, ci.security_bits) == (2**12, 0)


def test_the_benchmark_set_is_that_of_the_measurements() -> None:
    bench = catalogue.get("openfhe-bench")
    assert (bench.ring_dim, bench.slots, bench.depth, bench.dnum) == (2**16, 2**12, 10, 3)
    assert (bench.q_bits, bench.p_bits) == ((60, *[50] * 10), (60,) * 4)
    assert (bench.scaling, bench.security_asked) == (Scaling.FLEXIBLE_AUTO, 0)


def test_cryptoracle_is_as_its_public_code_sets_it() -> None:
    params = catalogue.get("cryptoracle")
    assert (params.q_bits, params.dnum, params.scaling) == ((52, *[48] * 10), 2, Scaling.FLEXIBLE_AUTO)
    assert (params.ring_dim, params.slots, params.depth) == (2**16, 2**12, 10)
    assert params.assumed == ()


def test_sharp_has_the_published_chain_and_key() -> None:
    sharp = catalogue.get("sharp")
    assert (sharp.num_q, sharp.num_p, sharp.digit_limbs, sharp.word_bits) == (35, 12, 12, 36)
    assert (sharp.key_form, sharp.security_bits) == (KeyForm.SEEDED, 0)
    assert sharp.key_bytes(key_form=KeyForm.FULL) == 83_165_184


@pytest.mark.parametrize("name", [n for n in catalogue.names() if catalogue.get(n).library == "accelerator"])
def test_no_accelerators_set_states_the_level_of_a_secret_that_its_sine_excludes(name: str) -> None:
    params = catalogue.get(name)
    if params.bootstrap is not None and params.secret == "uniform-ternary":
        assert params.security_bits == 0
        assert params.security_note.startswith(("no level stated: bootstrap.sine_range 16", "insecure"))


@pytest.mark.parametrize(("name", "bits"), [("tensorfhe-resnet20", 840), ("tensorfhe-helr", 1092)])
def test_tensorfhe_has_the_coefficient_length_of_the_study_and_one_limb_a_digit(name: str, bits: int) -> None:
    params = catalogue.get(name)
    assert (params.log_q, params.digit_limbs, params.num_p) == (bits, 1, 1)


def test_fheins_counts_limbs_as_its_paper_does() -> None:
    ssc, pir = catalogue.get("fheins-ssc"), catalogue.get("fheins-pir")
    assert (ssc.ring_dim, ssc.num_q, ssc.dnum) == (2**16, 39, 4)
    assert (pir.ring_dim, pir.num_q, pir.depth) == (2**12, 3, 2)


@pytest.mark.parametrize(
    ("name", "nearest"), [("openfhe-bnch", "openfhe-bench"), ("Sharp", "sharp"), ("fheins_ssc", "fheins-ssc")]
)
def test_an_unknown_set_suggests_the_nearest_name(name: str, nearest: str) -> None:
    with pytest.raises(UnknownName) as caught:
        catalogue.get(name)
    assert caught.value.nearest == nearest
    assert caught.value.exit_code == 2


def test_a_file_is_accepted_wherever_a_name_is(tmp_path: Path) -> None:
    file = tmp_path / "mine.toml"
    file.write_text(catalogue.spec("sharp").to_toml().replace('name = "sharp"\n', ""))
    mine, sharp = catalogue.get(str(file)), catalogue.get("sharp")
    assert mine.name == "mine"
    assert (mine.q_bits, mine.p_bits, mine.bootstrap) == (sharp.q_bits, sharp.p_bits, sharp.bootstrap)


def test_registering_a_name_twice_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(catalogue, "_registered", {})
    spec = CkksSpec(name="mine-insecure", ring_dim=4096, depth=3, scale_bits=50, security="none")
    catalogue.register(spec)
    assert catalogue.get("mine-insecure").depth == 3
    assert "mine-insecure" in catalogue.names()
    with pytest.raises(ParamsError, match="'mine-insecure' exists already"):
        catalogue.register(spec)
    with pytest.raises(ParamsError, match="'sharp' exists already"):
        catalogue.register(catalogue.spec("sharp"))


def test_a_set_that_breaks_a_rule_is_not_registered(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(catalogue, "_registered", {})
    with pytest.raises(ParamsError, match="slots"):
        catalogue.register(CkksSpec(name="bad", ring_dim=4096, slots=4096, depth=3, scale_bits=50, security="none"))
    assert "bad" not in catalogue.names()
