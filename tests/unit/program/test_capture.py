"""Programs of one's own as packages: what they hold, and programs that are none."""

from __future__ import annotations

import pytest

from penstock.errors import CheckFailed, PenstockError, UsageError
from penstock.program.package.capture import NotOblivious
from penstock.program.package.content import Package, Verb
from penstock.program.running.packaging import describe_package, package_workload, verify_inputs
from penstock.scheme.params import catalogue


def captured(tmp_path, body: str, data: str = "{'x': np.linspace(0, 1, 4)}") -> Package:
    return package_workload(str(written(tmp_path, body, data)))


def written(tmp_path, body: str, data: str = "{'x': np.linspace(0, 1, 4)}"):
    path = tmp_path / "score.py"
    lines = "\n".join(f"    {line}" for line in body.splitlines())
    path.write_text(
        "import numpy as np\nPARAMS = 'insecure-ci'\n"
        f"def data(size, slots, seed):\n    rng = np.random.default_rng(seed)\n    return {data}\n"
        f"def program(ev, data, size):\n{lines}\n"
    )
    return path


def test_inputs_constants_and_outputs_have_their_lengths(tmp_path):
    package = captured(
        tmp_path, "x = ev.encrypt(data['x'])\nreturn ev.decrypt(ev.rescale(ev.mult(x, ev.encode(np.ones(3)))))[:2]"
    )
    assert package.name == "score"
    assert [(each.name, each.length) for each in package.inputs] == [("input[0]", 4)]
    assert [(each.name, each.length) for each in package.outputs] == [("output[0]", 2)]
    said = describe_package(package)
    assert said["instructions"] == {"encrypt": 1, "mult_plain": 1, "rescale": 1, "output": 1}
    assert (said["num_constants"], said["constant_bytes"]) == (1, 24)


def test_names_that_come_again_are_numbered(tmp_path):
    package = captured(
        tmp_path, "a, b = (ev.encrypt(data['x'], name='x') for _ in 'ab')\nreturn ev.decrypt(ev.add(a, b))"
    )
    assert [each.name for each in package.inputs] == ["x", "x[1]"]


@pytest.mark.parametrize(
    ("body", "says"),
    [
        (
            "x = ev.encrypt(data['x'])\nm = ev.decrypt(x).max()\nreturn ev.decrypt(ev.mult(x, m))",
            r"line 9.*call 2 \(mult_scalar\).*number depends",
        ),
        (
            "x = ev.encrypt(data['x'])\nv = ev.decrypt(x)\nreturn ev.decrypt(ev.add(x, ev.encode(v)))",
            r"line 9.*call 2 \(add_plain\).*constant depends",
        ),
        (
            "x = ev.encrypt(data['x'])\nif ev.decrypt(x)[0]:\n    x = ev.negate(x)\nreturn ev.decrypt(x)",
            r"line 9.*call 2 \(negate\).*kind \(output in another run\)",
        ),
        (
            "x = ev.encrypt(data['x'])\nif not ev.decrypt(x)[0]:\n    ev.decrypt(x)\nreturn 0",
            r"call 2 \(output\), line 9: its presence",
        ),
        (
            "x = ev.encrypt(data['x'])\nif ev.decrypt(x)[0]:\n    ev.negate(x)\nreturn 0",
            r"line 9.*call 2 \(negate\).*presence",
        ),
        (
            "x = ev.encrypt(data['x'])\ny = ev.encrypt(ev.decrypt(x), name='y')\nreturn ev.decrypt(y)",
            "input 'y' depends on values that the program decrypted",
        ),
        (
            "x = ev.encrypt(data['x'])\nr = ev.rotate(x, 1 + int(ev.decrypt(x)[0] != 0))\nreturn ev.decrypt(r)",
            r"line 8.*call 2 \(rotate\).*argument",
        ),
        (
            "x = ev.encrypt(data['x'])\ny = ev.polynomial(x, [1.0, ev.decrypt(x)[0], 2.0])\nreturn ev.decrypt(y)",
            r"line 8.*call 2 \(polynomial\).*series",
        ),
        ("ev.encrypt(data['x'])\nreturn 0", "decrypts nothing"),
    ],
)
def test_a_program_that_goes_on_by_decrypted_values_is_refused_with_its_line(tmp_path, body, says):
    with pytest.raises(UsageError, match=says) as error:
        captured(tmp_path, body)
    assert "nothing" in says or isinstance(error.value, NotOblivious)


def test_values_that_are_encrypted_are_not_in_a_package(tmp_path):
    secret = 0.8414709848078965
    package = captured(
        tmp_path, "return ev.decrypt(ev.mult(ev.encrypt(data['x']), 2.0))", f"{{'x': np.full(4, {secret!r})}}"
    )
    assert repr(secret) not in repr(package)
    assert len(package.constants) == 0


WEIGHED = "return ev.decrypt(ev.mult(ev.encrypt(data['x']), ev.encode(data['w'])))"


def test_a_model_may_differ_where_inputs_do_not(tmp_path):
    path = written(tmp_path, WEIGHED, "{'x': rng.uniform(size=4), 'w': rng.uniform(size=4)}")
    (found,) = verify_inputs(str(path))
    assert found.part == "data['w']"
    assert found.inputs == ()
    assert found.changed == ("call 1 (mult_plain), line 7",)


def test_a_constant_that_holds_an_input_is_named(tmp_path):
    path = written(tmp_path, WEIGHED.replace("['w']", "['x'] + 1"), "{'x': rng.uniform(size=4)}")
    with pytest.raises(CheckFailed, match=r"data\['x'\] is encrypted as input 'input\[0\]'.*mult_plain.*line 7"):
        verify_inputs(str(path))


def test_a_program_without_other_constants_is_the_same_for_all_inputs(tmp_path):
    body = "return ev.decrypt(ev.mult(ev.encrypt(data['x']), 2.0))"
    assert verify_inputs(str(written(tmp_path, body, "{'x': rng.uniform(size=4)}"))) == []


def test_rotations_of_one_ciphertext_share_a_decomposition(tmp_path):
    package = captured(
        tmp_path,
        "x = ev.encrypt(data['x'])\na, b, c = ev.rotate_many(x, [1, 0, -1])\n"
        "weights = [lambda: np.ones(2), ev.encode(np.ones(2)), lambda: np.ones(3)]\n"
        "return ev.decrypt(ev.weighted_sum([a, b, c], weights))",
    )
    verbs = [each.verb for each in package.instructions]
    assert verbs == [
        Verb.ENCRYPT, Verb.DECOMPOSE, Verb.ROTATE_HOISTED, Verb.ROTATE_HOISTED, Verb.WEIGHTED_SUM, Verb.OUTPUT,
    ]  # fmt: skip
    assert package.instructions[4].operands == (2, 0, 3)
    assert package.instructions[4].constants == (0, 0, 1)
    assert package.params == catalogue.get("insecure-ci")


@pytest.mark.parametrize(
    "call", ["ev.mult(x, 1j)", "ev.mult(2 - 1j, x)", "ev.add(x, 1j)", "ev.sub(x, 1j)", "ev.sub(1j, x)"]
)
def test_a_number_that_no_encrypted_run_takes_is_in_no_package(tmp_path, call):
    with pytest.raises(PenstockError, match="real numbers only"):
        captured(tmp_path, f"x = ev.encrypt(data['x'])\nreturn ev.decrypt({call})")


def test_inputs_that_no_encrypted_run_takes_are_in_no_package(tmp_path):
    with pytest.raises(PenstockError, match="imaginary parts of a vector"):
        captured(tmp_path, "return ev.decrypt(ev.encrypt(data['x']))", "{'x': np.ones(4) * 1j}")
