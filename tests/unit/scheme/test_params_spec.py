from __future__ import annotations

import hashlib
import json
from dataclasses import dataclass, fields, replace
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from penstock.errors import ParamsError, UnknownName
from penstock.runtime.keystore.store import parameter_digest
from penstock.scheme.params import catalogue
from penstock.scheme.params.ckks import BootstrapPlan, CkksParameters, Scaling
from penstock.scheme.params.primes import primes_of
from penstock.scheme.params.rlwe import KeyForm, RlweParameters
from penstock.scheme.params.sizes import size_report
from penstock.scheme.params.spec import CkksSpec, default_dnum, modulus_bits, spec_of
from penstock.scheme.params.variation import varied
from penstock.scheme.work.stages import key_switch
from support.examples import at_most

OPENFHE: dict[str, Any] = {
    "name": "mine-insecure", "ring_dim": 4096, "depth": 6, "scale_bits": 50, "dnum": 3, "security": "none",
}  # fmt: skip
ACCELERATOR: dict[str, Any] = {
    "name": "chip", "ring_dim": 2**16, "scale_bits": 36, "dnum": 3, "word_bits": 36, "key_form": "seeded",
    "library": "accelerator", "q_bits": "35 x 36", "p_bits": "12 x 36",
}  # fmt: skip


PLAN = {"cts_stages": 3, "stc_stages": 3, "chebyshev_degree": 59, "double_angles": 2}


def openfhe(**changes: Any) -> CkksSpec:
    return CkksSpec(**{**OPENFHE, **changes})


def accelerator(**changes: Any) -> CkksSpec:
    return CkksSpec(**{**ACCELERATOR, **changes})


def test_openfhe_chain_has_one_limb_more_than_its_depth_and_special_limbs_for_its_longest_digit() -> None:
    params = openfhe().build()
    # 7 limbs in digits of 3: the longest holds 60 + 50 + 50 bits and 4 more, which takes three 60-bit primes.
    assert (params.q_bits, params.p_bits) == ((60, *[50] * 6), (60, 60, 60))
    assert (params.num_q, params.depth, params.digit_limbs) == (7, 6, 3)
    assert params.slots == 2048
    assert params.security_note.startswith("insecure: logQP 540 at N=4096 exceeds 106")


def test_the_extended_rule_carries_one_small_limb_more() -> None:
    plain, extended = openfhe(scaling="flexible-auto").build(), openfhe(scaling="flexible-auto-ext").build()
    assert (extended.num_q, extended.depth) == (plain.num_q + 1, plain.depth)
    assert extended.q_bits[-1] == 19


@pytest.mark.parametrize(("scale_bits", "special"), [(55, 2), (56, 3), (57, 3)])
def test_special_limbs_leave_four_bits_over_the_longest_digit(scale_bits: int, special: int) -> None:
    # One digit of two limbs: 60 + 55 = 115 bits and 4 more fit in 120; 60 + 56 and 4 more do too, but for a prime
    # just above 2^56 the product has 117 bits.
    assert openfhe(depth=1, dnum=1, scale_bits=scale_bits).build().num_p == special


@pytest.mark.parametrize(("depth", "dnum"), [(0, 1), (1, 2), (3, 2), (4, 3), (12, 3)])
def test_digits_default_to_those_of_openfhe(depth: int, dnum: int) -> None:
    assert default_dnum(depth) == dnum
    assert openfhe(depth=depth, dnum=None).build().dnum == dnum


def test_sizes_may_be_written_as_powers_of_two_and_runs() -> None:
    assert openfhe(ring_dim="2^12", slots="2**11").build() == openfhe(ring_dim=4096, slots=2048).build()
    assert accelerator(q_bits="1 x 36, 34 x 36").build() == accelerator(q_bits=[36] * 35).build()


def test_an_accelerator_states_its_own_primes() -> None:
    params = accelerator().build()
    assert (params.num_q, params.num_p, params.log_qp, params.key_form) == (35, 12, 1692, KeyForm.SEEDED)
    assert params.security_bits == 128


def test_bootstrapping_is_written_as_a_table(tmp_path: Path) -> None:
    file = tmp_path / "chip.toml"
    file.write_text(accelerator(bootstrap=PLAN, security="none").to_toml())
    assert CkksSpec.from_toml(file).build().bootstrap == BootstrapPlan(**PLAN)


def test_an_accelerators_sine_too_narrow_for_its_secret_states_no_level() -> None:
    params = accelerator(bootstrap=PLAN, security="none").build()
    assert params.security_bits == 0
    assert params.security_note.startswith("no level stated: bootstrap.sine_range 16 is too narrow for a uniform")
    assert "128 bit: logQP" in params.security_note
    with pytest.raises(ParamsError, match=r"128-bit security does not hold: no level stated.*Use security none"):
        accelerator(bootstrap=PLAN).build()
    assert accelerator(bootstrap={**PLAN, "sine_range": 640}).build().security_bits == 128
    assert accelerator(bootstrap=PLAN, secret="uniform-encapsulated").build().security_bits == 128
    short = accelerator(bootstrap=PLAN, q_bits="10 x 36", dnum=1).build()
    assert short.security_bits == 256  # no refresh fits in ten limbs, so nothing is presupposed
    assert accelerator().build().security_bits == 128


# Bad input. The message names the set, the rule and what would do.


@pytest.mark.parametrize(
    ("changes", "words"),
    [
        ({"ring_dim": 5000}, r"ring_dim 5000 must be a power of two .* use 8192 \(2\^13\)"),
        ({"ring_dim": 0}, "ring_dim 0 must be a power of two"),
        ({"ring_dim": -4096}, "ring_dim -4096 must be a power of two"),
        ({"ring_dim": 512}, r"ring_dim 512 .* use 1024"),
        ({"ring_dim": 2**18}, r"ring_dim 262144 .* use 131072"),
        ({"slots": 4096}, r"slots 4096 must be a power of two up to N/2 = 2048: use 2048"),
        ({"slots": 3}, "slots 3 .* use 4"),
        ({"slots": 0}, "slots 0 .* use 1"),
        ({"depth": -1}, "depth -1 is negative; a depth counts multiplications: use 0 to 1000"),
        ({"depth": 1001}, "depth 1001 is not feasible"),
        ({"depth": None}, "depth is missing"),
        ({"scale_bits": 60}, "scale_bits 60 must be 14 to 59"),
        ({"scale_bits": 13}, "scale_bits 13 must be 14 to 59"),
        ({"first_mod_bits": 61}, r"first_mod_bits 61 must be at least scale_bits \(50\) and at most 60"),
        ({"first_mod_bits": 49}, "first_mod_bits 49 must be at least scale_bits"),
        ({"dnum": 0}, "dnum 0 must be 1 to 7"),
        ({"dnum": 8}, "dnum 8 must be 1 to 7"),
        ({"dnum": 5}, "dnum 5 leaves a digit empty: 7 limbs in digits of 2 fill only 4; use 3 or 4"),
        ({"word_bits": 36}, "word_bits 36: OpenFHE stores every coefficient in 64 bits"),
        ({"q_bits": "7 x 50"}, "q_bits and p_bits are for library 'accelerator'"),
        ({"scaling": "flexible-auto", "scale_bits": 20, "depth": 30}, "use scaling fixed-manual"),
        ({"ring_dim": 2**17, "scale_bits": 18, "depth": 30, "first_mod_bits": 20}, "raise scale_bits, or lower depth"),
        ({"name": "a b"}, "a name is letters, digits"),
    ],
)  # fmt: skip
def test_a_broken_rule_of_an_openfhe_set_is_named(changes: dict[str, Any], words: str) -> None:
    with pytest.raises(ParamsError, match=words) as caught:
        openfhe(**changes).build()
    assert str(caught.value).startswith("parameter set '")


@pytest.mark.parametrize(
    ("changes", "words"),
    [
        ({"q_bits": None}, "needs q_bits and p_bits"),
        ({"p_bits": None}, "needs q_bits and p_bits"),
        ({"q_bits": []}, "needs q_bits and p_bits"),
        ({"q_bits": "35 x 37"}, "q_bits: 37 bits, but a prime has 2 to word_bits = 36"),
        ({"p_bits": "12 x 1"}, "p_bits: 1 bits, but a prime"),
        ({"q_bits": "35 * 36"}, "is not a list of prime sizes; write for example '1 x 60, 10 x 50'"),
        ({"p_bits": "11 x 36"}, "p_bits sum to 396, but P must be .* the longest digit of Q, 432 bits"),
        ({"depth": 35}, "depth 35 contradicts q_bits: 35 limbs carry depth 34"),
        ({"word_bits": 65}, "word_bits 65 must be 1 to 64"),
        ({"scale_bits": 73}, "scale_bits 73 must be 1 to 72"),
        ({"assumed": ["scalebits"]}, "did you mean 'scale_bits'"),
        ({"bootstrap": {**PLAN, "cts_stages": 0}}, "bootstrap.cts_stages 0 must be at least 1"),
    ],
)  # fmt: skip
def test_a_broken_rule_of_an_accelerator_set_is_named(changes: dict[str, Any], words: str) -> None:
    with pytest.raises((ParamsError, UnknownName), match=words):
        accelerator(**changes).build()


@pytest.mark.parametrize(
    ("changes", "words"),
    [
        ({"depth": 1.5}, "depth: 1.5 is not a whole number"),
        ({"depth": True}, "depth: True is not a whole number"),
        ({"depth": "6"}, "depth: '6' is not a whole number"),
        ({"security": 100}, "100 is not a security level; known: none, 128, 192, 256"),
        ({"scaling": "flexibleauto"}, "'scaling' is 'flexibleauto': input should be 'fixed-manual'"),
        ({"library": "seal"}, "'library' is 'seal': input should be 'openfhe' or 'accelerator'"),
    ],
)
def test_a_value_of_the_wrong_type_is_named(changes: dict[str, Any], words: str) -> None:
    with pytest.raises(ParamsError, match=words):
        openfhe(**changes)


def test_a_missing_value_is_named() -> None:
    with pytest.raises(ParamsError, match="'scale_bits' is missing"):
        CkksSpec(ring_dim=4096, depth=3)


@pytest.mark.parametrize(("key", "nearest"), [("ringdim", "ring_dim"), ("scalebits", "scale_bits"), ("dnums", "dnum")])
def test_an_unknown_key_is_an_error_that_suggests_the_nearest(key: str, nearest: str) -> None:
    with pytest.raises(UnknownName) as caught:
        openfhe(**{key: 3})
    assert caught.value.nearest == nearest
    assert caught.value.exit_code == 2


def test_an_unknown_key_of_a_file_names_the_file(tmp_path: Path) -> None:
    file = tmp_path / "mine.toml"
    file.write_text("ring_dim = 4096\nscale_bits = 50\ndeepth = 3\n")
    with pytest.raises(
        UnknownName, match=r"mine\.toml: parameter set 'mine': unknown key 'deepth': did you mean 'depth'"
    ):
        CkksSpec.from_toml(file)


@pytest.mark.parametrize("text", ["ring_dim = ", "\x00", "[bootstrap", "ring_dim = 1\nring_dim = 2"])
def test_a_file_that_is_no_toml_is_named(tmp_path: Path, text: str) -> None:
    file = tmp_path / "mine.toml"
    file.write_text(text)
    with pytest.raises(ParamsError, match=r"mine\.toml: a parameter set is TOML, and this is not"):
        CkksSpec.from_toml(file)


def test_a_missing_or_binary_file_is_named(tmp_path: Path) -> None:
    with pytest.raises(ParamsError, match=r"none\.toml: no such file"):
        CkksSpec.from_toml(tmp_path / "none.toml")
    (tmp_path / "binary.toml").write_bytes(b"\xff\xfe\x00")
    with pytest.raises(ParamsError, match=r"binary\.toml: a parameter set is TOML, and this is not"):
        CkksSpec.from_toml(tmp_path / "binary.toml")


# Security


def test_a_depth_that_the_modulus_cannot_carry_is_refused_with_what_would_fit() -> None:
    # 60 + 20 * 50 bits of Q and digits of 7 limbs, 360 bits and a margin, so 7 special primes: 1480 and a little.
    spec = openfhe(name="deep", ring_dim=2**15, depth=20, security=128)
    with pytest.raises(ParamsError) as caught:
        spec.build()
    message = str(caught.value)
    assert "128-bit security does not hold" in message
    assert "logQP 1480" in message or "logQP 1481" in message
    assert "exceeds 868" in message
    assert "ePrint 2024/463" in message
    assert "ring_dim 65536" in message
    assert "depth 11, the deepest that fits with dnum 3" in message
    assert openfhe(ring_dim=2**15, depth=11, security=128).build().security_bits == 128
    assert openfhe(ring_dim=2**16, depth=20, security=128).build().security_bits == 128
    with pytest.raises(ParamsError):
        openfhe(ring_dim=2**15, depth=12, security=128).build()


def test_more_digits_are_suggested_where_they_help() -> None:
    with pytest.raises(ParamsError, match="or dnum 3"):
        openfhe(ring_dim=2**15, depth=13, scale_bits=42, dnum=2, security=128).build()
    assert openfhe(ring_dim=2**15, depth=13, scale_bits=42, dnum=3, security=128).build().security_bits == 128


def test_a_set_that_no_ring_carries_says_so() -> None:
    with pytest.raises(ParamsError, match="no ring_dim up to 131072 carries depth 100 with dnum 3"):
        openfhe(depth=100, security=128).build()


def test_a_set_over_openfhes_own_bound_is_refused_though_the_guidelines_admit_it() -> None:
    # A digit of 60 + 4 * 44 = 236 bits and 4 more fits four special primes; OpenFHE's estimate takes five.
    sizes = {"ring_dim": 2**15, "depth": 12, "scale_bits": 44, "dnum": 3}
    assert openfhe(**sizes, security="none").build().security_bits == 128
    with pytest.raises(ParamsError, match="OpenFHE refuses it at 128 bit: it counts logQP as 889, over 881"):
        openfhe(**sizes, security=128).build()


def test_a_sparse_secret_keeps_no_level_that_the_ternary_table_grants() -> None:
    params = openfhe(ring_dim=2**16, secret="sparse-ternary").build()
    assert params.security_bits == 0
    assert "covers uniform-ternary secrets, not sparse-ternary" in params.security_note
    with pytest.raises(ParamsError, match="Use secret uniform-encapsulated or uniform-ternary, or security none"):
        openfhe(ring_dim=2**16, secret="sparse-ternary", security=128).build()


def test_an_accelerator_set_that_is_too_long_is_told_the_ring_that_would_do() -> None:
    with pytest.raises(ParamsError, match=r"logQP 1692 at N=32768 exceeds 868.*Use ring_dim 65536"):
        accelerator(ring_dim=2**15).build()


def test_a_set_that_asks_for_nothing_still_says_its_level() -> None:
    params = openfhe(ring_dim=2**16).build()
    assert (params.security_asked, params.security_bits) == (0, 256)


# Round trips

openfhe_specs = st.builds(
    openfhe,
    ring_dim=st.sampled_from([2**k for k in range(10, 16)]),
    depth=st.integers(0, 12),
    scale_bits=st.integers(26, 59),
    first_mod_bits=st.just(60),
    dnum=st.sampled_from([None, 1]),
    scaling=st.sampled_from(Scaling),
    secret=st.sampled_from(["uniform-ternary", "sparse-ternary"]),
    key_form=st.sampled_from(KeyForm),
    source=st.text(max_size=30).map(lambda s: "".join(c for c in s if c.isprintable())),
)
accelerator_specs = st.builds(
    accelerator,
    ring_dim=st.just(2**17),
    q_bits=st.lists(st.integers(30, 36), min_size=1, max_size=12),
    p_bits=st.just([36] * 12),
    dnum=st.just(1),
    scaling=st.sampled_from(Scaling),
    assumed=st.lists(st.sampled_from(["dnum", "scale_bits", "secret"]), unique=True).map(tuple),
    security=st.just("none"),
    bootstrap=st.none()
    | st.fixed_dictionaries(
        {
            "cts_stages": st.integers(1, 4),
            "stc_stages": st.integers(1, 4),
            "chebyshev_degree": st.integers(1, 200),
            "double_angles": st.integers(0, 6),
        }
    ),
)


@at_most(60)
@given(openfhe_specs | accelerator_specs)
def test_parameters_written_as_a_spec_build_to_the_same_parameters(spec: CkksSpec) -> None:
    params = spec.build()
    assert spec_of(params).build() == params
    assert spec_of(spec_of(params).build()) == spec_of(params)


@at_most(60)
@given(openfhe_specs | accelerator_specs)
def test_a_spec_written_as_toml_reads_back_the_same(tmp_path_factory: pytest.TempPathFactory, spec: CkksSpec) -> None:
    file = tmp_path_factory.mktemp("spec") / "mine.toml"
    file.write_text(spec.to_toml(), encoding="utf-8")
    assert CkksSpec.from_toml(file) == spec


@pytest.mark.parametrize(("q_bits", "said"), [
    ("40 x 8", "40 primes of 8 bits, and 0 are 1 modulo 2 x ring_dim = 131072"),
    ("4 x 20", "4 primes of 20 bits, and 1 are 1 modulo"),
])  # fmt: skip
def test_accelerators_primes_must_be_there(q_bits: str, said: str) -> None:
    with pytest.raises(ParamsError, match=said):
        accelerator(ring_dim=2**16, q_bits=q_bits, p_bits="8 x 36", scale_bits=8).build()


# Stated primes

Q_PRIMES = (0x80000000080001, 0x2000000A0001, 0x2000000E0001, 0x2000001D0001, 0x1FFFFFCF0001)
P_PRIMES = (0x80000000130001, 0x7FFFFFFFE90001)
STATED: dict[str, Any] = {
    "name": "chain", "ring_dim": 2**14, "scale_bits": 45, "dnum": 3, "library": "accelerator", "q_primes": Q_PRIMES,
    "p_primes": P_PRIMES,
}  # fmt: skip


def stated(**changes: Any) -> CkksSpec:
    return CkksSpec(**{**STATED, **changes})


def test_a_set_that_states_its_primes_has_their_sizes_and_the_level_of_their_product() -> None:
    params = stated().build()
    assert (params.q_bits, params.p_bits) == ((55, 45, 45, 45, 45), (55, 55))
    assert primes_of(params) == (Q_PRIMES, P_PRIMES)
    # The product lies just above 2^345, which the sum of the sizes does not say.
    assert (params.log_qp, modulus_bits(params)[1]) == (345, 346)
    assert params.security_note.startswith("128 bit: logQP 346 at N=16384")
    sizes = CkksSpec(**{**STATED, "q_primes": None, "p_primes": None, "q_bits": params.q_bits, "p_bits": params.p_bits})
    assert sizes.build().key_bytes() == params.key_bytes()
    with pytest.raises(ParamsError, match="states prime sizes, not primes"):
        primes_of(sizes.build())


def test_a_set_with_stated_primes_survives_files_and_its_record(tmp_path: Path) -> None:
    spec = stated(secret="uniform-encapsulated", security="none", small_ring_dim=2**12)
    params = spec.build()
    (tmp_path / "chain.toml").write_text(spec.to_toml())
    assert CkksSpec.from_toml(tmp_path / "chain.toml").build() == spec_of(params).build() == params
    record = json.loads(json.dumps(params.to_dict()))
    assert CkksParameters.from_dict(record) == params
    assert len({params, CkksParameters.from_dict(record), replace(params, q_primes=(), p_primes=())}) == 2


def test_primes_in_a_file_may_be_hexadecimal(tmp_path: Path) -> None:
    shown = ", ".join(map(hex, Q_PRIMES)), ", ".join(map(hex, P_PRIMES))
    text = 'ring_dim = "2^14"\nscale_bits = 45\ndnum = 3\nlibrary = "accelerator"\n'
    (tmp_path / "chain.toml").write_text(f"{text}q_primes = [{shown[0]}]\np_primes = [{shown[1]}]\n")
    assert CkksSpec.from_toml(tmp_path / "chain.toml").build() == stated().build()


@pytest.mark.parametrize(
    ("changes", "words"),
    [
        ({"q_primes": (*Q_PRIMES[:4], 0x200000010001)}, "q_primes: 35184372154369 is not a prime: use primes that are"),
        ({"p_primes": (0x80000000130001, 2**55 + 3)}, "p_primes: 36028797018963971 is 3 modulo 2 x ring_dim = 32768"),
        ({"ring_dim": 2**16}, "is 65537 modulo 2 x ring_dim = 131072: there is no number-theoretic transform"),
        ({"q_primes": (*Q_PRIMES, Q_PRIMES[1])}, "35184372744193 stands twice in q_primes and p_primes"),
        ({"p_primes": (Q_PRIMES[0], P_PRIMES[0])}, "36028797019488257 stands twice in q_primes and p_primes"),
        ({"q_primes": (2**61 + 2**15 + 1,)}, "q_primes: 2305843009213726721 has 62 bits; use primes below 2\\^61"),
        ({"word_bits": 50}, "q_primes: 36028797019488257 has 56 bits; use primes below 2\\^50"),
        ({"q_bits": "5 x 45"}, "q_bits and p_bits follow from q_primes and p_primes: leave q_bits and p_bits out"),
        ({"p_primes": None}, "q_primes and p_primes state one chain: state both"),
        ({"library": "openfhe"}, "q_primes and p_primes are for library 'accelerator'; OpenFHE derives its primes"),
        ({"dnum": 4}, "dnum 4 leaves a digit empty: 5 limbs"),
        ({"dnum": 1}, "p_primes sum to 110, but P must be at least as long as the longest digit of Q, 235 bits"),
        ({"depth": 5}, "depth 5 contradicts q_primes: 5 limbs carry depth 4"),
        ({"ring_dim": 2**13}, "128-bit security does not hold: .* logQP 346 .* Use ring_dim 16384, or security none"),
    ],
)  # fmt: skip
def test_a_broken_rule_of_stated_primes_is_named(changes: dict[str, Any], words: str) -> None:
    with pytest.raises(ParamsError, match=words) as caught:
        stated(**changes).build()
    assert str(caught.value).startswith("parameter set 'chain': ")


def test_a_set_near_one_with_stated_primes_keeps_them_unless_its_chain_is_another() -> None:
    params = stated().build()
    assert varied(params, security=0).q_primes == Q_PRIMES
    for near in (varied(params, dnum=5), varied(params, depth=5), varied(params, ring_dim=2**15)):
        assert (near.q_primes, near.p_primes) == ((), ())
        assert near.q_bits[: params.num_q] == params.q_bits


# Stored sets


@pytest.mark.parametrize(("name", "of_record", "of_repr"), [
    ("openfhe-bootstrap", "609303aa01d6de618cee2a41b2772666a1f98495ef0c91af352181d646931ae7",
     "00149c69ea514f4b255a5621609f961ab9cb368db359b0ff03560993b75c970b"),
    ("sharp", "75335de985a8d7517b5b65d9900c2cac758b1bbfa64526766c62845dfbd6c8b4",
     "8aecdef8b930e734c5b7852a3013240df322269c945e3cef039d880910fd1470"),
    ("openfhe-similarity", "15c90a0883f990e5e70537eb5f7cff0f9c895312f45ef0e0788c5c2d26b056b2",
     "4ec9b95a29db56c942f9fa22aaa65199dbbc8671bbbfbc804c18f27dc97fa960"),
])  # fmt: skip
def test_a_set_without_primes_is_stored_byte_for_byte_as_before_the_layers(
    name: str, of_record: str, of_repr: str
) -> None:
    params = catalogue.get(name)
    texts = json.dumps(params.to_dict()), repr(params)
    assert [hashlib.sha256(text.encode()).hexdigest() for text in texts] == [of_record, of_repr]


def test_keys_are_bound_to_the_digest_of_before_the_layers() -> None:
    assert parameter_digest(catalogue.get("openfhe-bootstrap")) == "6aa0e9a01820a63cbf2298dca7fc5141"


@pytest.mark.parametrize(
    ("changes", "words"),
    [
        ({"q_primes": [97] * 5}, "q_primes and p_primes do not have the sizes of q_bits and p_bits"),
        (
            {"q_primes": list(Q_PRIMES[:4])},
            "q_primes and p_primes are 4 and .; a set that states primes states all of its 5 and",
        ),
        ({"p_primes": []}, "q_primes and p_primes are 5 and 0; "),
        ({"q_primes": [2**64, *Q_PRIMES[1:]]}, "q_primes is"),
        ({"q_bits": [2**40] * 5}, "q_bits is"),
    ],
)
def test_a_stored_set_whose_primes_contradict_its_chain_is_refused(changes: dict[str, Any], words: str) -> None:
    with pytest.raises(ParamsError, match=f"a stored parameter set is malformed .*{words}"):
        CkksParameters.from_dict({**stated().build().to_dict(), **changes})


@dataclass(frozen=True, slots=True, kw_only=True, repr=False)
class Exact(RlweParameters):
    """Parameters of an exact scheme: one field more is all that it states."""

    plain_modulus: int


def test_another_schemes_parameters_have_sizes_security_and_a_record_of_their_own() -> None:
    ckks = stated().build()
    shared = {field.name: getattr(ckks, field.name) for field in fields(RlweParameters)}
    exact = Exact(**shared, plain_modulus=65537)
    assert Exact.from_dict(json.loads(json.dumps(exact.to_dict()))) == exact
    assert exact.to_dict()["plain_modulus"] == 65537
    assert size_report(exact) == size_report(ckks)
    assert modulus_bits(exact) == modulus_bits(ckks)
    assert key_switch(exact, 5) == key_switch(ckks, 5)
