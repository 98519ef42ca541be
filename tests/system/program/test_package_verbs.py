"""A package stands wherever the name of a workload does: every verb takes one, and each reading runs it."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest

import penstock as ps
from penstock.errors import UsageError
from penstock.front.cli.main import main
from penstock.front.explorer.library import Library
from penstock.lab.analysis import request_of
from penstock.program.package.file import open_package
from penstock.program.workloads import identity

SCORE = '''"""Scores of neighbours."""
import numpy as np

PARAMS = "insecure-ci"


def data(size, slots, seed):
    rng = np.random.default_rng(seed)
    return {"x": rng.uniform(-1, 1, 8), "bias": rng.uniform(-1, 1, 4), "weights": rng.uniform(-1, 1, 8)}


def program(ev, data, size):
    x, bias = ev.encrypt(data["x"], name="x"), ev.encrypt(data["bias"], name="bias")
    with ev.scope("layer"):
        y = ev.rescale(ev.mult(x, ev.encode(data["weights"])))
        y = ev.add(y, ev.rotate(y, 1))
    score = ev.add(ev.rescale(ev.square(y)), bias)
    return np.concatenate([ev.decrypt(score)[:4], ev.decrypt(y)[:2]])
'''
WEIGHTS = np.random.default_rng(0).uniform(-1, 1, 20)[12:]
X, BIAS = np.linspace(-1, 1, 8), np.arange(4) / 10


def expected() -> tuple[np.ndarray, np.ndarray]:
    y = X * WEIGHTS
    y = y + np.append(y[1:], 0)
    return (y * y)[:4] + BIAS, y[:2]


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    """A folder with a package of two inputs and outputs, one of one, and vectors."""
    path = tmp_path_factory.mktemp("packages")
    (path / "score.py").write_text(SCORE)
    one = SCORE.replace('ev.encrypt(data["bias"], name="bias")', "0.5")
    one = one.replace("np.concatenate([ev.decrypt(score)[:4], ev.decrypt(y)[:2]])", "ev.decrypt(score)[:4]")
    (path / "one.py").write_text(one)
    assert main(["package", str(path / "score.py"), "-o", str(path / "score.pkg"), "--verify", "-q"]) == 0
    assert main(["package", str(path / "one.py"), "-o", str(path / "one.pkg"), "-q"]) == 0
    np.save(path / "x.npy", X)
    np.save(path / "bias.npy", BIAS)
    np.savez(path / "both.npz", x=X, bias=BIAS)
    return path


@pytest.fixture
def here(folder, monkeypatch):
    monkeypatch.chdir(folder)
    return folder


def said(capsys, *words: str) -> dict:
    assert main([*words, "--format", "json"]) == 0
    return json.loads(capsys.readouterr().out)


def test_what_was_made_is_said(here, capsys):
    found = said(capsys, "package", "score.py", "-o", "score.pkg", "--force", "--verify")
    assert found["inputs"] == [
        {"name": "x", "length": 8, "limbs": 14, "complex": False},
        {"name": "bias", "length": 4, "limbs": 14, "complex": False},
    ]
    assert found["outputs"] == [{"name": "output[0]", "length": 4}, {"name": "output[1]", "length": 2}]
    assert (found["num_constants"], found["num_keys"], found["file_bytes"]) == (1, 2, Path("score.pkg").stat().st_size)
    assert found["from_data"] == [{"part": "data['weights']", "calls": ["call 2 (mult_plain), line 15"]}]
    shown = said(capsys, "package", "score.pkg")
    assert {key: value for key, value in found.items() if key in shown} == shown


@pytest.mark.smoke
@pytest.mark.parametrize("reading", ["clear", "noisy", "native", "openfhe"])
def test_each_reading_computes_the_outputs(here, capsys, reading, request):
    if reading == "openfhe":
        request.getfixturevalue("openfhe")
    assert main(["run", "score.pkg", "--input", "both.npz", "--output", "y.npz", "--force", "--reading", reading]) == 0
    assert "inputs from both.npz" in capsys.readouterr().out
    with np.load("y.npz") as file:
        for values, wanted in zip((file["output[0]"], file["output[1]"]), expected(), strict=True):
            assert values.dtype == np.float64
            assert np.max(np.abs(values - wanted)) < 1e-5


@pytest.mark.parametrize(
    "words",
    [
        ("--input", "x=x.npy", "--input", "bias=bias.npy"),
        ("--input", "both.npz"),
        ("--input", "x=x.npy", "--input", "bias.json"),
        ("--data", "both.npz"),
    ],
)
def test_inputs_come_from_files_in_several_ways(here, words):
    Path("bias.json").write_text(json.dumps({"bias": BIAS.tolist()}))
    outputs = ("--output", "output[0]=score.csv", "--output", "output[1]=y.npy")
    assert main(["run", "score.pkg", "--reading", "clear", "-q", "--force", *words, *outputs]) == 0
    assert np.allclose(np.loadtxt("score.csv"), expected()[0], atol=1e-12)
    assert np.allclose(np.load("y.npy"), expected()[1], atol=1e-12)


def test_one_input_and_one_output_need_no_names(here):
    assert main(["run", "one.pkg", "--reading", "clear", "-q", "--input", "x.npy", "--output", "z.npy"]) == 0
    assert np.load("z.npy").shape == (4,)


def test_programs_of_ones_own_write_what_they_return(here):
    assert main(["run", "score.py", "--reading", "clear", "-q", "--output", "own.npy"]) == 0
    assert np.load("own.npy").shape == (6,)


@pytest.mark.parametrize(
    ("words", "says"),
    [
        (("score.pkg", "--input", "x.npy"), "'score' has 2 inputs: x, bias. Write name=FILE for each"),
        (("score.pkg", "--input", "x=x.npy"), "needs input 'bias', 4 values"),
        (("score.pkg", "--input", "x=bias.npy", "--input", "bias=bias.npy"), "shape (4,); it takes (8,)"),
        (("score.pkg", "--input", "y=x.npy"), "there is no input 'y'; there is x, bias"),
        (("score.pkg", "--input", "both.npz", "--input", "x=x.npy"), "input 'x' is given twice"),
        (("score.pkg", "--input", "x=both.npz"), "has 2 vectors"),
        (("score.pkg", "--input", "none.npy"), "cannot read none.npy"),
        (("score.pkg", "--input", "score.py"), "vectors are in .npy, .npz, .csv or .json files"),
        (("score.pkg", "--input", "both.npz", "--data", "both.npz"), "inputs are given and --data too"),
        (("score.pkg", "--output", "new.npy"), "holds one vector and there are 2: output[0], output[1]"),
        (("score.pkg", "--output", "output[2]=new.npy"), "did you mean 'output[1]'"),
        (("score.pkg", "--output", "y.txt"), "vectors are in"),
        (("one.pkg", "--output", "x.npy"), "x.npy exists"),
        (("score.pkg", "--output", "a.npz", "--output", "output[0]=b.npy"), "is for all outputs"),
        (("score.py", "--input", "x.npy"), "has no inputs by name: a package has"),
        (("none.pkg",), "none.pkg: no such file; 'penstock package' makes a package"),
        (("score.pkg", "--size", "full"), "unknown size of 'score.pkg' 'full'"),
        (("score.pkg", "--params", "insecure-small"), "packs 2048 values in a ciphertext"),
    ],
)
def test_a_wrong_request_is_named(here, capsys, words, says):
    assert main(["run", "--reading", "clear" if "--params" not in words else "noisy", *words]) == 2
    assert says in capsys.readouterr().err


def test_a_damaged_package_and_one_that_is_none_are_refused(here, capsys):
    whole = Path("score.pkg").read_bytes()
    Path("damaged.pkg").write_bytes(whole[:-9])
    Path("text.pkg").write_text("no package")
    for name in ("damaged.pkg", "text.pkg"):
        assert main(["trace", name]) == 1
        assert name in capsys.readouterr().err


def test_without_inputs_they_are_drawn_and_said(here, capsys):
    found = said(capsys, "run", "score.pkg", "--reading", "clear", "--seed", "3")
    assert found["inputs"] == "drawn from [-1, 1], seed 3"
    assert found["result_norm"] != said(capsys, "run", "score.pkg", "--reading", "clear")["result_norm"]


def test_python_has_outputs_by_name(here):
    found = ps.run("score.pkg", inputs={"x": X, "bias": BIAS}, reading="noisy")
    assert list(found.outputs) == ["output[0]", "output[1]"]
    assert np.max(np.abs(found.outputs["output[0]"] - expected()[0])) < 1e-5
    assert 0 < found.check.max_abs_error < 1e-5
    with pytest.raises(UsageError, match="has no input 'z'"):
        ps.run("score.pkg", inputs={"x": X, "bias": BIAS, "z": X})
    with pytest.raises(UsageError, match="imaginary"):
        ps.run("score.pkg", inputs={"x": X * 1j, "bias": BIAS})
    assert ps.run("score.py", reading="clear").outputs["output"].shape == (6,)


@pytest.mark.parametrize(
    "words",
    [
        ("trace", "score.pkg"),
        ("trace", "score.pkg", "--params", "sharp"),
        ("simulate", "score.pkg", "--machine", "sharp", "--tier", "ddr5"),
        ("predict", "run", "score.pkg", "--machine", "sharp"),
        ("predict", "run", "score.pkg", "--machine", "sharp", "--params", "insecure-ci"),
        ("predict", "precision", "score.pkg"),
        ("predict", "suggest", "score.pkg", "--machine", "sharp"),
        ("params", "size", "score.pkg"),
        ("params", "size", "insecure-ci", "--workload", "score.pkg"),
        ("keys", "study", "score.pkg", "--budgets", "100"),
        ("analyze", "score.pkg", "-o", "analyzed"),
    ],
)
def test_every_verb_takes_a_package(here, capsys, words):
    found = json.dumps(said(capsys, *words))
    assert "score.pkg" in found or words[0] in ("params", "keys", "predict")


def test_profiles_take_a_package(here, capsys):
    assert main(["profile", "score.pkg", "--format", "json"]) == 0
    assert json.loads(capsys.readouterr().out)


def test_a_sweep_takes_a_package(here, capsys):
    table = 'workload = ["score.pkg"]\nmachine = ["sharp"]\n[[sweep]]\ntier = ["ddr5", "pcie5"]\n'
    Path("sweep.toml").write_text(table)
    assert main(["sweep", "sweep.toml", "-o", "swept", "--workers", "1"]) == 0
    assert "2 points" in capsys.readouterr().out


def test_tenants_jobs_take_a_package_from_their_own_folder(here, capsys):
    Path("tenants.toml").write_text('store = "keys"\nbudget = "100%"\ntenants = ["alice"]\n')
    Path("jobs.toml").write_text('[[job]]\ntenant = "alice"\nworkload = "score.pkg"\n')
    assert main(["run", "--tenants", "tenants.toml", "--jobs", "jobs.toml", "--threads", "1"]) == 0
    assert "score.pkg" in capsys.readouterr().out


def test_the_explorer_offers_packages_that_are_named(here, capsys):
    library = Library.of(here / "runs", traces=[here / "score.pkg"])
    assert "file:score.pkg" in library.workloads()
    words = ("explore", "slowdown", "workload=file:score.pkg", "--trace", "score.pkg", "--print", "--format", "csv")
    assert main(list(words)) == 0
    assert "score.pkg,sharp-2048-slots" in capsys.readouterr().out


def test_runs_of_one_name_and_other_content_are_others(here, tmp_path):
    before = identity("score.pkg")
    request = request_of(
        "score.pkg", params=None, size=None, seed=0, threads=1, data=None, machines=["sharp"], tiers=["hbm"]
    )
    assert request.config("analyze")["program"] == before
    copy = tmp_path / "score.pkg"
    assert main(["package", "one.py", "-o", str(copy), "-q"]) == 0
    assert identity(str(copy))["sha256"] != before["sha256"]


def test_a_file_that_changes_is_read_again(here, tmp_path):
    path = tmp_path / "mine.pkg"
    assert main(["package", "score.py", "-o", str(path), "-q"]) == 0
    assert ps.trace(path).trace.meta.workload == "mine.pkg"
    num = ps.trace(path).num_operations
    assert main(["package", "one.py", "-o", str(path), "-q", "--force"]) == 0
    assert ps.trace(path).num_operations == num


def test_a_package_at_another_set_is_a_package(here):
    assert main(["package", "score.pkg", "--params", "sharp", "-o", "sharp.pkg", "-q"]) == 0
    package = open_package("sharp.pkg")
    assert package.params.name == "sharp-2048-slots"
    assert len(package.constants) == 1
    assert [each.name for each in package.inputs] == ["x", "bias"]
    found = ps.run("sharp.pkg", inputs={"x": X, "bias": BIAS}, reading="clear")
    assert np.allclose(found.outputs["output[0]"], expected()[0], atol=1e-12)


def test_a_recorded_trace_goes_to_an_accelerators_set(here, capsys):
    assert main(["trace", "score.pkg", "-o", "score.parquet", "-q"]) == 0
    capsys.readouterr()
    there = said(capsys, "trace", "score.parquet", "--params", "sharp")
    assert there == {**said(capsys, "trace", "score.pkg", "--params", "sharp"), "size": there["size"]}
    assert main(["trace", "score.parquet"]) == 2
    assert "name the parameters to take it to" in capsys.readouterr().err
    assert ps.trace("score.parquet", "sharp").params.name == "sharp-2048-slots"


def test_a_run_with_a_store_keeps_its_keys_there(here, capsys):
    first = said(capsys, "run", "score.pkg", "--keys", "store", "--input", "both.npz")
    second = said(capsys, "run", "score.pkg", "--keys", "store", "--input", "both.npz")
    assert (first["num_keys_made"], second["num_keys_made"]) == (2, 0)
