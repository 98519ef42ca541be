"""Parameter sets for a program: each carries it, holds its security, and is priced as any prediction is."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from penstock.errors import MachineError, ParamsError, UsageError
from penstock.front.cli.main import main
from penstock.lab.prediction.prediction import predict
from penstock.lab.prediction.suggest import ORDERS, suggest
from penstock.lab.prediction.whatif import Workload
from penstock.program import workloads
from penstock.program.running import run_clear, trace_workload
from penstock.program.running.reading import resolve
from penstock.runtime.native.prepared import ClientPlace
from penstock.scheme.machines import load_machine
from penstock.scheme.params import catalogue
from penstock.scheme.params.variation import varied
from support.native_runs import record_native

SHARP = load_machine("sharp")
RINGS = (2**13, 2**14, 2**15)


def program(name: str = "inner-product", size: str | None = "ci", params: str | None = None) -> Workload:
    _, size_name, checked = resolve(name, params, size)
    return Workload(name=name, size=size_name, params=checked)


def test_every_set_carries_the_program_at_the_least_depth_and_is_secure() -> None:
    asked = program("logistic-regression", "demo")
    found = suggest(asked, SHARP, ring_dims=(2**14, 2**15, 2**16))
    assert {row["ring_dim"] for row in found.rows} == {2**15, 2**16}
    assert "security does not hold" in found.left_out[2**14]
    assert set(found.least_depth) == {2**14, 2**15, 2**16}
    for row in found.rows:
        assert row["security_bits"] >= 128
        params = found.params(row, asked.params)
        assert (params.ring_dim, params.depth, params.dnum) == (row["ring_dim"], row["depth"], row["dnum"])
        single = predict(asked.count([params])[0], SHARP)
        assert (row["predicted_s"], row["key_bytes"]) == (single.predicted_s, single.key_bytes)
        assert row["s_per_slot"] == row["predicted_s"] / params.slots
        assert row["slots"] == params.slots
        with pytest.raises(ParamsError):
            trace_workload(asked.name, varied(params, depth=row["depth"] - 1, security=0), asked.size)


@pytest.mark.parametrize("by", sorted(ORDERS))
def test_sets_are_in_the_order_that_is_asked_for(by: str) -> None:
    found = suggest(program(), SHARP, ring_dims=RINGS, by=by).rows
    values = [row[ORDERS[by]] for row in found]
    assert len(found) > 3
    assert values == sorted(values)
    other = suggest(program(), SHARP, ring_dims=RINGS[::-1], digits=(3, 2, 1), by=by).rows
    assert other[0] in found


def encapsulated_ark(folder: Path) -> str:
    """A file with set `ark` under an encapsulated secret, so that it states a level."""
    file = folder / "ark-encapsulated.toml"
    changes = {"name": file.stem, "secret": "uniform-encapsulated", "security": 128}
    file.write_text(catalogue.spec("ark").model_copy(update=changes).to_toml())
    return str(file)


def test_a_set_that_states_no_level_has_none_to_suggest() -> None:
    with pytest.raises(UsageError, match=r"no level stated.*presupposes a sparse or an encapsulated secret"):
        suggest(program("resnet20", "full", "ark"), SHARP, ring_dims=(2**16,), digits=(4,))
    short = suggest(program("inner-product", "demo", "ark"), SHARP, ring_dims=(2**15,), digits=(1,)).rows
    assert all(row["security_bits"] >= 128 for row in short)  # too few levels for a refresh


def test_a_program_that_refreshes_is_tried_at_every_secure_depth(tmp_path: Path) -> None:
    asked = program("resnet20", "full", encapsulated_ark(tmp_path))
    found = suggest(asked, SHARP, ring_dims=(2**16,), digits=(4,))
    depths = sorted(row["depth"] for row in found.rows)
    least = found.least_depth[2**16]
    assert depths == list(range(least, least + len(depths)))
    assert len(depths) > 1
    refreshes = {row["depth"]: row["bootstraps"] for row in found.rows}
    assert refreshes[depths[0]] > refreshes[depths[-1]] > 0
    sparse = program("resnet20", "ci")
    with pytest.raises(UsageError, match="Use secret uniform-encapsulated or uniform-ternary"):
        suggest(sparse, SHARP, ring_dims=(2**16,), digits=(3,))
    assert suggest(sparse, SHARP, ring_dims=(2**16,), digits=(3,), security=0).rows
    encapsulated = suggest(program("resnet20", "full"), SHARP, ring_dims=(2**16,), digits=(4,)).rows
    assert {row["security_bits"] for row in encapsulated} == {128}
    with pytest.raises(ParamsError):
        varied(asked.params, ring_dim=2**16, depth=depths[-1] + 1, dnum=4, security=128)


@pytest.mark.parametrize(
    ("name", "size", "params", "ring_dim"),
    [("matrix-multiplication", "demo", None, 2**15), ("logistic-regression", "demo", "poseidon", 2**15),
     ("inner-product", "demo", "tensorfhe-resnet20", 2**15), ("inner-product", "ci", "sharp", 2**14)],
)  # fmt: skip
def test_the_least_depth_does_not_depend_on_the_digits_of_the_base(
    name: str, size: str, params: str | None, ring_dim: int
) -> None:
    asked = program(name, size, params)

    def carries(depth: int) -> bool:
        for dnum in range(1, 9):
            try:
                asked.count([varied(asked.params, ring_dim=ring_dim, depth=depth, dnum=dnum, security=0)])
            except ParamsError:
                continue
            return True
        return False

    least = suggest(asked, SHARP, ring_dims=(ring_dim,), security=0).least_depth[ring_dim]
    assert least == next(depth for depth in range(40) if carries(depth))


def test_holes_of_a_number_of_digits_do_not_end_the_search(tmp_path: Path) -> None:
    asked = program("resnet20", "full", encapsulated_ark(tmp_path))
    bts = load_machine("bts")  # its transform units take 2^17 points
    depths = {row["depth"] for row in suggest(asked, bts, ring_dims=(2**17,), digits=(8,)).rows}
    every = {row["depth"] for row in suggest(asked, bts, ring_dims=(2**17,), digits=(2, 8)).rows}  # 2: no holes
    assert depths < every
    assert max(depths) - min(depths) + 1 > len(depths)
    last = max(every)
    for dnum in range(1, 9):
        with pytest.raises(ParamsError):
            varied(asked.params, ring_dim=2**17, depth=last + 1, dnum=dnum, security=128)


OWN = """
import numpy as np
PARAMS = "insecure-ci"

def data(size, slots, seed):
    return np.zeros(4096)

def program(ev, data, size):
    x = ev.encrypt(data)
    for _ in range(3):
        x = ev.rescale(ev.square(x))
    return ev.decrypt(x)
"""


def test_a_ring_that_a_program_cannot_take_leaves_the_others(tmp_path: Path) -> None:
    (tmp_path / "own.py").write_text(OWN)
    found = suggest(program(str(tmp_path / "own.py"), None), SHARP)
    assert {row["ring_dim"] for row in found.rows} == {2**14, 2**15, 2**16}
    assert found.left_out[2**17] == "the transform units of machine 'sharp' take 65536 points"
    assert {row["depth"] for row in found.rows} == {3}
    assert "does not fit in 512 slots" in found.left_out[2**10]


@pytest.mark.parametrize("name", ["matrix-multiplication", "logistic-function", "inner-product"])
def test_the_least_depth_decrypts_under_automatic_scaling(encrypting: str, tmp_path: Path, name: str) -> None:
    text = catalogue.spec("insecure-ci").to_toml().replace("fixed-manual", "flexible-auto")
    (tmp_path / "flex.toml").write_text(text)
    asked = program(name, "ci", str(tmp_path / "flex.toml"))
    found = suggest(asked, SHARP, ring_dims=(asked.params.ring_dim,), security=0, digits=(1, 2, 3))
    params = found.params(found.rows[0], asked.params)
    done = record_native(name, params, "ci", client=ClientPlace.INSIDE)
    module = workloads.get(name)
    data = module.data(module.SIZES["ci"], params.slots, 0)
    assert module.check(run_clear(name, params, "ci"), done.result, data, module.SIZES["ci"]).passed


def test_the_form_of_keys_is_written_too(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    file = tmp_path / "seeded.toml"
    assert main([*COMMAND, "--key-form", "seeded", "-o", str(file), "--format", "json"]) == 0
    first = json.loads(capsys.readouterr().out)[0]
    assert (
        main(
            [
                "predict",
                "run",
                "inner-product",
                "--size",
                "ci",
                "--machine",
                "sharp",
                "--params",
                str(file),
                "--format",
                "json",
            ]
        )
        == 0
    )
    assert json.loads(capsys.readouterr().out)["key_bytes"] == first["key_bytes"]
    assert "penstock predict suggest inner-product" in file.read_text()


def test_where_nothing_fits_each_ring_dimension_says_why() -> None:
    with pytest.raises(UsageError, match=r"(?s)no parameter set like .* 256-bit security:.*1024: "):
        suggest(program("logistic-regression", "demo"), SHARP, ring_dims=(2**10, 2**11), security=256)
    # Rows of 256 slots do not fit in fewer.
    found = suggest(program(params="insecure-ci"), SHARP, ring_dims=(2**10, 2**14), security=0)
    assert {row["ring_dim"] for row in found.rows} <= {2**10, 2**14}


def test_the_first_set_runs_encrypted(encrypting: str) -> None:
    asked = program()
    found = suggest(asked, SHARP, ring_dims=RINGS)
    params = found.params(found.rows[0], asked.params)
    done = record_native(asked.name, params, asked.size, client=ClientPlace.INSIDE)
    module = workloads.get(asked.name)
    size = module.SIZES[asked.size]
    data = module.data(size, params.slots, 0)
    assert module.check(run_clear(asked.name, params, asked.size), done.result, data, size).passed
    assert params.security_bits >= 128


COMMAND = ["predict", "suggest", "inner-product", "--size", "ci", "--machine", "sharp", "--ring-dim", "2^13,2^14",
           "--params", "insecure-ci"]  # fmt: skip


def test_the_command_prints_and_writes_the_first(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    best = tmp_path / "best.toml"
    assert main([*COMMAND, "--top", "2", "--dnum", "1..3", "-o", str(best), "--format", "json"]) == 0
    captured = capsys.readouterr()
    first, second = json.loads(captured.out)
    assert first["predicted_s"] <= second["predicted_s"]
    assert "the first one is written to" in captured.err
    params = catalogue.get(str(best))
    assert params.name == "best"
    assert (params.ring_dim, params.depth, params.dnum) == (first["ring_dim"], first["depth"], first["dnum"])
    assert (
        main(
            [
                "predict",
                "run",
                "inner-product",
                "--size",
                "ci",
                "--params",
                str(best),
                "--machine",
                "sharp",
                "--format",
                "json",
            ]
        )
        == 0
    )
    assert json.loads(capsys.readouterr().out)["predicted_s"] == first["predicted_s"]
    assert main([*COMMAND, "-o", str(best)]) == 2
    assert "exists" in capsys.readouterr().err
    assert main(COMMAND) == 0
    out = capsys.readouterr().out
    assert "a slot" in out
    assert "warning: parameter set of these does not fit machine 'sharp'" in out


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (["predict", "suggest", "inner-product"], "name a machine"),
        (
            ["predict", "suggest", "mine.parquet", "--machine", "sharp"],
            "cannot read mine.parquet: it does not exist",
        ),
        ([*COMMAND, "-o", "best.json"], "is written as .toml"),
        ([*COMMAND[:-2], "--ring-dim", "5000"], "--ring-dim: 5000 is not a power of two"),
        ([*COMMAND, "--dnum", "0"], "--dnum: 0; key switching has one digit or more"),
        ([*COMMAND, "--key-form", "seedy"], "did you mean 'seeded'"),
    ],
)
def test_slips_are_errors_with_the_remedy(capsys: pytest.CaptureFixture[str], words: list[str], said: str) -> None:
    assert main(words) == 2
    assert said in capsys.readouterr().err


REFRESHING = """
import numpy as np

PARAMS = "insecure-resnet20"


def data(size, slots, seed):
    return np.random.default_rng(seed).uniform(-0.9, 0.9, slots)


def program(ev, data, size):
    x = ev.encrypt(data)
    for _ in range(8):
        if ev.levels(x) < 4:
            x = ev.bootstrap(x)
        for _ in range(4):
            x = ev.rescale(ev.square(x))
    return ev.decrypt(x)
"""


def test_the_least_depth_of_a_program_that_refreshes_where_it_pleases(tmp_path: Path) -> None:
    """A chain that is longer by a level may leave it no level to refresh with: depths that carry it are no run."""
    (tmp_path / "own.py").write_text(REFRESHING)
    asked = program(str(tmp_path / "own.py"), None)

    def carries(depth: int) -> bool:
        try:
            asked.count([varied(asked.params, ring_dim=2**12, depth=depth, dnum=1, security=0)])
        except UsageError:
            return False
        return True

    by_hand = [depth for depth in range(60) if carries(depth)]
    assert by_hand != list(range(by_hand[0], 60))  # not a run
    found = suggest(asked, SHARP, ring_dims=(2**12,), security=0, digits=(1,))
    assert found.least_depth[2**12] == by_hand[0]
    depths = sorted(row["depth"] for row in found.rows)
    assert depths == [depth for depth in by_hand if depth <= depths[-1]]


def test_the_least_depth_of_an_accelerator_s_set_holds_the_scale_of_a_last_product(tmp_path: Path) -> None:
    (tmp_path / "own.py").write_text(
        """
import numpy as np

PARAMS = "sharp"

def data(size, slots, seed):
    return np.array([0.5])

def program(ev, data, size):
    return ev.decrypt(ev.square(ev.encrypt(data)))
"""
    )
    found = suggest(program(str(tmp_path / "own.py"), None), SHARP, ring_dims=(2**14,), security=0, digits=(1,))
    # One prime of 36 bits does not hold a product of scale 2^72.
    assert found.least_depth[2**14] == 2


def test_a_fault_of_an_option_is_not_taken_for_one_of_the_chain(capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(MachineError, match="at least one thread works"):
        suggest(program(), SHARP, ring_dims=RINGS, threads=0)
    for options, said in (
        (["--ring-dim", "3000"], "--ring-dim: 3000 is not a power of two from 1024 to 131072"),
        (["--dnum", "0"], "--dnum: 0"),
        (["--ring-dim", "2^14.."], "--ring-dim: '2^14..' is not a whole number"),
    ):
        assert main([*COMMAND, *options]) == 2
        assert said in capsys.readouterr().err


def test_a_program_that_would_refresh_says_that_the_set_cannot() -> None:
    with pytest.raises(UsageError, match="has none: take a set with a bootstrap plan"):
        suggest(program("resnet20", "ci", "openfhe-deep"), SHARP, ring_dims=(2**14,))


def test_a_precision_may_need_a_larger_ring_than_the_base_has() -> None:
    """A small ring is not secure at the depth, and larger ones are, each at the scale that 20 bits need there."""
    asked = program("matrix-multiplication", "demo")
    found = suggest(asked, SHARP, ring_dims=(2**13, 2**14, 2**15), precision=20, digits=(2, 3))
    assert {row["ring_dim"] for row in found.rows} == {2**14, 2**15}
    assert len({row["scale_bits"] for row in found.rows}) == 2
    assert "security does not hold" in found.left_out[2**13]
    for row in found.rows:
        params = found.params(row, asked.params)
        assert (params.scale_bits, params.security_bits >= 128) == (row["scale_bits"], True)
        assert (params.ring_dim, params.depth, params.dnum) == (row["ring_dim"], row["depth"], row["dnum"])
