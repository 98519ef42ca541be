"""`penstock record --package`: the file, what is refused with its line, and that the script and its trace are kept."""

from __future__ import annotations

import os
import subprocess
import sys
import textwrap
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pytest

from penstock.program.evaluator.clear import ClearEvaluator
from penstock.program.package.content import Verb
from penstock.program.package.derive import derive, fitted
from penstock.program.package.file import open_package
from penstock.program.package.replay import run_package, trace_package
from penstock.program.package.retrace import retrace
from penstock.scheme.params import catalogue
from penstock.scheme.traces.io import read_trace
from support.loaded import Record, loaded_record
from support.package_canaries import found_in

pytestmark = pytest.mark.usefixtures("openfhe")
ROOT = Path(__file__).resolve().parents[3]
PREAMBLE = """
    from openfhe import *
    p = CCParamsCKKSRNS()
    p.SetMultiplicativeDepth(3)
    p.SetSecurityLevel(HEStd_NotSet)
    p.SetScalingTechnique(FLEXIBLEAUTO)
    p.SetRingDim(1024)
    p.SetBatchSize(4)
    cc = GenCryptoContext(p)
    for feature in (PKE, KEYSWITCH, LEVELEDSHE, ADVANCEDSHE):
        cc.Enable(feature)
    keys = cc.KeyGen()
    cc.EvalMultKeyGen(keys.secretKey)
    cc.EvalRotateKeyGen(keys.secretKey, [1])
    given = [0.1000000000000037, 0.2000000000000041, 0.3000000000000067]
    x = cc.Encrypt(keys.publicKey, cc.MakeCKKSPackedPlaintext(given))
"""
CANARIES = [0.1000000000000037, 0.2000000000000041, 0.3000000000000067]
"""The values of `x`: digits that no package may hold."""
FIRST = len(PREAMBLE.splitlines()) + 1
"""The line after the preamble."""


@pytest.fixture(autouse=True)
def searched(tmp_path: Path) -> Iterator[None]:
    """No package of a test holds its input."""
    yield
    for path in tmp_path.glob("*.pkg"):
        if path.read_bytes() != b"mine":
            assert found_in(path, CANARIES) == []


@pytest.fixture(scope="module")
def run() -> Iterator[Record]:
    with loaded_record() as record:
        yield record


def written(folder: Path, body: str) -> Path:
    script = folder / "program.py"
    script.write_text(textwrap.dedent(PREAMBLE) + textwrap.dedent(body))
    return script


def test_a_script_becomes_a_file_that_runs(run: Record, tmp_path: Path) -> None:
    script = written(
        tmp_path,
        """
        import numpy as np
        weights = cc.MakeCKKSPackedPlaintext(np.array([1.0, 2.0, 3.0, 4.0]))
        score = cc.EvalMult(cc.EvalAdd(x, cc.EvalRotate(x, 1)), weights)
        secret = cc.Encrypt(keys.publicKey, cc.MakeCKKSPackedPlaintext([0.123456789]))
        score = 2.0 - 0.5 if False else cc.EvalSub(2.0, cc.EvalAdd(score, secret))
        result = cc.Decrypt(score, keys.secretKey)
        result.SetLength(3)
        print("done")
        """,
    )
    done = run(script, "--package", "model.pkg", "--layers", "3", cwd=tmp_path)
    assert (done.returncode, done.stdout) == (0, "done\n"), done.stderr
    assert "package in model.pkg" in done.stderr
    assert "inputs x, secret; outputs score" in done.stderr
    # By hand: two encryptions, rotation, sum, product, sum, difference, output.
    package = open_package(tmp_path / "model.pkg")
    assert [each.verb for each in package.instructions] == [
        Verb.ENCRYPT,
        Verb.ROTATE,
        Verb.ADD,
        Verb.MULT_PLAIN,
        Verb.ENCRYPT,
        Verb.ADD,
        Verb.SCALAR_SUB,
        Verb.OUTPUT,
    ]
    assert package.keys == {"rot:5": 4}
    assert package.name == "program"
    x = np.array(CANARIES)
    found = run_package(ClearEvaluator(package.params), package, {"x": x, "secret": np.array([0.5])})
    assert np.allclose(found["score"], 2 - np.array([0.3, 1.0, 0.9]) - [0.5, 0, 0])
    content = (tmp_path / "model.pkg").read_bytes()
    for kept_out in (np.float64(0.123456789).tobytes(), x.tobytes(), str(tmp_path).encode(), b"--layers"):
        assert kept_out not in content
    assert len(read_trace(tmp_path / "program.trace.parquet")) == 8


@pytest.mark.parametrize(
    ("body", "line", "says"),
    [
        (
            "y = cc.Decrypt(x, keys.secretKey).GetRealPackedValue()\nz = 2 * y[0] + 1\ncc.EvalMult(x, z)",
            2,
            "EvalMult: an operand is a number that was decrypted",
        ),
        (
            "import numpy as np\ny = np.round(np.array(cc.Decrypt(x, keys.secretKey).GetRealPackedValue()), 2)\n"
            "x = cc.EvalMult(x, cc.MakeCKKSPackedPlaintext(y.tolist()))",
            2,
            "EvalMult: an operand is a number that was decrypted",
        ),
        (
            "y = cc.Decrypt(x, keys.secretKey).GetRealPackedValue()\nw = [float(each > 0.15) for each in y]\n"
            "cc.EvalMult(x, cc.MakeCKKSPackedPlaintext(w))",
            2,
            f"EvalMult: line {FIRST + 1} of program.py compares decrypted values before this call",
        ),
        (
            "import numpy as np\ny = np.argsort(cc.Decrypt(x, keys.secretKey).GetRealPackedValueArray())\n"
            "cc.EvalRotate(x, 1 + int(y[0] > 1e9))",
            2,
            f"EvalRotate: line {FIRST + 1} of program.py turns decrypted values into integers or truth values before",
        ),
        (
            "y = cc.Decrypt(x, keys.secretKey).GetCKKSPackedValue()\ncc.EvalAdd(x, cc.MakeCKKSPackedPlaintext(y[:2]))",
            1,
            "EvalAdd: an operand is a number that was decrypted",
        ),
        (
            "y = cc.Decrypt(x, keys.secretKey).GetRealPackedValueArray()\n\n"
            "cc.Encrypt(keys.publicKey, cc.MakeCKKSPackedPlaintext(y / 2))",
            2,
            "Encrypt: what is encrypted is a number that was decrypted",
        ),
        (
            "y = cc.Decrypt(x, keys.secretKey).GetRealPackedValue()\ncc.EvalLinearWSum([x, x], [1.0, y[1]])",
            1,
            "EvalLinearWSum: an operand is a number that was decrypted",
        ),
        ("cc.EvalPowers(x, [1.0, 2.0, 3.0])", 0, "EvalPowers: the inside of EvalPowers is not known"),
        ("cc.EvalPolyLinear(x, [1.0, 0, 0, 0, 0, 0.5])", 0, "EvalPolyLinear: a series of degree 5 by one sum"),
        ("y = x.Clone()\ny.SetScalingFactor(2.0)\ncc.EvalNegate(y)", 2, "EvalNegate: a ciphertext came from outside"),
        ("cc.EvalMultNoCheck(x, 3)", 0, "EvalMultNoCheck: EvalMultNoCheck leaves out"),
        (
            "pair = cc.KeyGen()\ny = cc.Encrypt(pair.publicKey, cc.MakeCKKSPackedPlaintext([1.0]))\n"
            "SetTags = y.SetKeyTag(x.GetKeyTag())\ncc.EvalAdd(x, y)",
            3,
            "EvalAdd: operands are encrypted under several keys",
        ),
    ],
)
def test_a_call_that_a_package_cannot_hold_is_named_with_its_line(
    run: Record, tmp_path: Path, body: str, line: int, says: str
) -> None:
    script = written(tmp_path, body + "\ncc.Decrypt(x, keys.secretKey)\nprint('ran to its end')\n")
    done = run(script, "--package", "model.pkg", "--quiet", cwd=tmp_path)
    assert done.stdout == "ran to its end\n", done.stderr
    assert f"no package: program.py, line {FIRST + line}: {says}" in done.stderr
    assert done.returncode == 1
    assert not (tmp_path / "model.pkg").exists()
    assert len(read_trace(tmp_path / "program.trace.parquet")) > 1
    assert [path.name for path in tmp_path.iterdir() if path.suffix not in (".py", ".parquet")] == []


def test_key_pairs_of_one_context_have_a_package_each(run: Record, tmp_path: Path) -> None:
    script = written(
        tmp_path,
        """
        other = cc.KeyGen()
        y = cc.Encrypt(other.publicKey, cc.MakeCKKSPackedPlaintext([0.5]))
        cc.Decrypt(cc.EvalAdd(x, 1.0), keys.secretKey)
        cc.Decrypt(cc.EvalSub(y, 1.0), other.secretKey)
        """,
    )
    done = run(script, "--package", "model.pkg", "-q", cwd=tmp_path)
    assert (done.returncode, done.stderr) == (0, "")
    assert open_package(tmp_path / "model.pkg").inputs[0].name == "x"
    assert open_package(tmp_path / "model-2.pkg").inputs[0].name == "y"


def test_objects_that_were_written_and_read_are_the_same(run: Record, tmp_path: Path) -> None:
    script = written(
        tmp_path,
        """
        twice = cc.EvalAdd(x, x)
        SerializeToFile("c.bin", twice, BINARY)
        text = Serialize(x, JSON)
        SerializeToFile("context.bin", cc, BINARY)
        SerializeToFile("secret.bin", keys.secretKey, BINARY)
        cc.SerializeEvalMultKey("mult.bin", BINARY)
        tag = keys.secretKey.GetKeyTag()
        ClearEvalMultKeys()
        del cc, keys, x, twice
        CryptoContext.ClearEvalAutomorphismKeys()
        ReleaseAllContexts()
        again, _ = DeserializeCryptoContext("context.bin", BINARY)
        secret, _ = DeserializePrivateKey("secret.bin", BINARY)
        again.DeserializeEvalMultKey("mult.bin", BINARY)
        twice, _ = DeserializeCiphertext("c.bin", BINARY)
        once = DeserializeCiphertextString(text, JSON)
        square = again.EvalMult(twice, once)
        result = again.Decrypt(square, secret)
        result.SetLength(3)
        print([round(each, 3) for each in result.GetRealPackedValue()])
        """,
    )
    done = run(script, "--package", "model.pkg", "-q", cwd=tmp_path)
    assert (done.returncode, done.stderr) == (0, "")
    assert done.stdout == "[0.02, 0.08, 0.18]\n"
    package = open_package(tmp_path / "model.pkg")
    assert [each.verb for each in package.instructions] == [Verb.ENCRYPT, Verb.ADD, Verb.MULT, Verb.OUTPUT]
    found = run_package(ClearEvaluator(package.params), package, {"x": np.array([0.1, 0.2, 0.3])})
    assert np.allclose(found["square"], [0.02, 0.08, 0.18])


def test_a_ciphertext_from_outside_is_refused(run: Record, tmp_path: Path) -> None:
    script = written(
        tmp_path, "y = DeserializeCiphertextString(open('c.bin', 'rb').read(), BINARY)\ncc.EvalNegate(y)\n"
    )
    (tmp_path / "maker.py").write_text(
        textwrap.dedent(PREAMBLE) + "open('c.bin', 'wb').write(Serialize(x, BINARY))\ncc.EvalAdd(x, x)\n"
    )
    subprocess.run([sys.executable, "maker.py"], cwd=tmp_path, check=True, timeout=60)
    done = run(script, "--package", "model.pkg", cwd=tmp_path)
    assert f"no package: program.py, line {FIRST + 1}: EvalNegate: a ciphertext came from outside" in done.stderr
    assert done.returncode == 1


def test_a_context_with_bv_keys_is_refused(run: Record, tmp_path: Path) -> None:
    script = written(tmp_path, "cc.Decrypt(cc.EvalAdd(x, x), keys.secretKey)\n")
    script.write_text(
        script.read_text().replace("p.SetRingDim(1024)", "p.SetRingDim(1024)\np.SetKeySwitchTechnique(BV)")
    )
    done = run(script, "--package", "model.pkg", cwd=tmp_path)
    assert "no package: program: key switching is BV, which packages do not have: take HYBRID" in done.stderr
    assert done.returncode == 1
    assert (tmp_path / "program.trace.parquet").exists()


def test_an_oblivious_script_is_verified(run: Record, tmp_path: Path) -> None:
    body = """
    import random, sys
    random.seed(7)
    data = cc.Encrypt(keys.publicKey, cc.MakeCKKSPackedPlaintext([random.SystemRandom().random()]))
    y = cc.EvalMult(cc.EvalAdd(x, data), cc.MakeCKKSPackedPlaintext([random.random() for _ in range(4)]))
    y = cc.EvalAdd(y, len(sys.argv))
    print(cc.Decrypt(y, keys.secretKey).GetRealPackedValue()[0])
    """
    done = run(written(tmp_path, body), "--package", "model.pkg", "--verify", "one", "two", cwd=tmp_path)
    assert done.returncode == 0, done.stderr
    assert len(done.stdout.splitlines()) == 1
    assert open_package(tmp_path / "model.pkg").instructions[-2].number == 3


@pytest.mark.parametrize(
    ("body", "line", "says"),
    [
        (
            "import random\ny = cc.MakeCKKSPackedPlaintext([random.random()])\nx = cc.EvalMult(x, y)",
            2,
            "EvalMult: not oblivious: its constant differs in a second run",
        ),
        (
            "import time\nx = cc.EvalAdd(x, time.time())",
            1,
            "EvalAdd: not oblivious: its number differs in a second run",
        ),
        (
            "y = [float(str(each)) for each in cc.Decrypt(x, keys.secretKey).GetRealPackedValue()]\n"
            "x = cc.EvalMult(x, cc.MakeCKKSPackedPlaintext(y))",
            1,
            "EvalMult: not oblivious: its constant differs in a second run",
        ),
        (
            "import os\nif os.path.exists('there'):\n    x = cc.EvalAdd(x, x)\nopen('there', 'w').close()",
            3,
            "not oblivious",
        ),
    ],
)
def test_what_differs_between_two_runs_is_named(run: Record, tmp_path: Path, body: str, line: int, says: str) -> None:
    script = written(tmp_path, body + "\ncc.Decrypt(x, keys.secretKey)\n")
    done = run(script, "--package", "model.pkg", "--verify", cwd=tmp_path)
    assert done.returncode == 1
    assert says in done.stderr, done.stderr
    if "differs" in says:
        assert f"program.py, line {FIRST + line}: {says}" in done.stderr
    assert not (tmp_path / "model.pkg").exists()
    assert (tmp_path / "program.trace.parquet").exists()


def test_an_existing_package_is_refused_before_the_script_starts(run: Record, tmp_path: Path) -> None:
    script = written(tmp_path, "print('ran')\ncc.Decrypt(x, keys.secretKey)\n")
    (tmp_path / "model.pkg").write_text("mine")
    done = run(script, "--package", "model.pkg", cwd=tmp_path)
    assert done.stdout == ""
    assert "model.pkg" in done.stderr
    assert done.returncode == 2
    assert (tmp_path / "model.pkg").read_text() == "mine"
    assert run(script, "--package=model.pkg", "--force", cwd=tmp_path).returncode == 0
    assert open_package(tmp_path / "model.pkg").outputs[0].length == 4


def test_verify_without_a_package_is_refused(run: Record, tmp_path: Path) -> None:
    done = run(written(tmp_path, ""), "--verify", cwd=tmp_path)
    assert done.returncode == 2
    assert "give --package FILE" in done.stderr


def test_a_script_saves_its_package_itself(tmp_path: Path) -> None:
    script = written(tmp_path, "")
    text = script.read_text()
    text = "import penstock\n" + text.replace(
        "keys = cc", "cc = penstock.record(cc, 't.parquet', constants=True)\nkeys = cc"
    )
    text += textwrap.dedent(
        """
        y = cc.EvalMult(x, cc.MakeCKKSPackedPlaintext([2.0] * 4))
        cc.Decrypt(y, keys.secretKey)
        cc.save_package("mine.pkg")
        """
    )
    script.write_text(text)
    subprocess.run([sys.executable, str(script)], cwd=tmp_path, check=True, timeout=60, env=dict(os.environ))
    package = open_package(tmp_path / "mine.pkg")
    found = run_package(ClearEvaluator(package.params), package, {"x": np.array([0.1, 0.2, 0.3])})
    assert np.allclose(found["y"], [0.2, 0.4, 0.6, 0])


@pytest.mark.parametrize("name", ["real_numbers", "functions", "refresh"])
def test_a_trace_and_its_package_are_the_same_at_an_accelerators_set(run: Record, tmp_path: Path, name: str) -> None:
    # A refresh makes keys for seconds in a ring of the published size.
    script = tmp_path / f"{name}.py"
    script.write_text((ROOT / "tests" / "scripts" / script.name).read_text().replace("1 << 12", "1 << 10"))
    done = run(script, "-o", str(tmp_path / "t.parquet"), "--package", str(tmp_path / "p.pkg"), cwd=tmp_path)
    assert done.returncode == 0, done.stderr
    package, there = open_package(tmp_path / "p.pkg"), catalogue.get("sharp")
    found = retrace(read_trace(tmp_path / "t.parquet"), there)
    expected = trace_package(derive(package, fitted(package, there)))
    assert not found.notes
    for column in ("kind", "limbs_in", "limbs_out", "key", "step", "scope"):
        assert found.trace.operations[column].equals(expected.operations[column]), column
