"""What-if studies: axes, sets near a set, rows that are impossible."""

from __future__ import annotations

import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

import penstock as ps
from penstock.base.system.workers import Workers
from penstock.errors import ParamsError, UnknownName, UsageError
from penstock.lab.prediction import whatif
from penstock.lab.prediction.prediction import predict
from penstock.lab.prediction.whatif import Recorded, WhatIfAxes, Workload, what_if
from penstock.lab.prediction.whatif_axes import read_axes
from penstock.program.evaluator.tally import tally_of
from penstock.program.running import trace_workload
from penstock.program.running.counting import count_workload
from penstock.scheme.machines import load_machine
from penstock.scheme.machines.written import write_machine
from penstock.scheme.params import catalogue
from penstock.scheme.params.rlwe import KeyForm
from penstock.scheme.params.variation import varied

SHARP = load_machine("sharp")
SET = catalogue.get("insecure-resnet20")
PROGRAM = Workload(name="resnet20", size="ci", params=SET)


# Sets near a set.
def test_a_set_with_nothing_changed_is_the_set_itself() -> None:
    assert varied(SET) is SET
    assert varied(SET, ring_dim=SET.ring_dim, depth=SET.depth, dnum=SET.dnum) is SET


def test_changes_are_built_as_any_other_set() -> None:
    changed = varied(SET, ring_dim=2**13, depth=26, dnum=9)
    assert (changed.ring_dim, changed.slots, changed.depth, changed.dnum) == (2**13, SET.slots, 26, 9)
    assert changed.name == "insecure-resnet20-n13-d26-k9"
    full = catalogue.get("openfhe-demo")
    assert full.slots == full.ring_dim // 2
    assert varied(full, ring_dim=2**16).slots == 2**15
    with pytest.raises(ParamsError, match="128-bit security does not hold"):
        varied(full, ring_dim=2**13)
    assert varied(full, ring_dim=2**13, security=0).security_bits == 0


def test_the_chain_of_an_accelerator_follows_depth_and_digits() -> None:
    sharp = catalogue.get("sharp")
    assert varied(sharp, dnum=sharp.dnum) == sharp
    shorter = varied(sharp, depth=20)
    assert (shorter.num_q, shorter.q_bits) == (21, sharp.q_bits[:21])
    longest = max(sum(shorter.q_bits[i : i + shorter.digit_limbs]) for i in range(0, 21, shorter.digit_limbs))
    assert sum(shorter.p_bits) >= longest > sum(shorter.p_bits[1:])
    assert varied(sharp, dnum=5).num_p < sharp.num_p


# Studies.
def test_rows_are_predictions_of_each_combination_the_last_axis_fastest() -> None:
    axes = WhatIfAxes(dnum=(3, 5), key_form=(KeyForm.FULL, KeyForm.SEEDED), threads=(1, 2))
    rows = what_if(PROGRAM, axes, [SHARP])
    assert len(rows) == len(axes) == 8
    assert [(r["dnum"], r["key_form"], r["threads"]) for r in rows[:3]] == [
        (3, "full", 1),
        (3, "full", 2),
        (3, "seeded", 1),
    ]
    for row in rows:
        params = varied(SET, dnum=row["dnum"])
        one = predict(count_workload("resnet20", params, "ci"), SHARP, key_form=KeyForm(row["key_form"]))
        assert (row["predicted_s"], row["predicted_j"]) == (one.predicted_s, one.predicted_j)
        assert (row["key_bytes"], row["peak_bytes"]) == (one.key_bytes, one.peak_bytes)
        assert row["reason"] is None
        assert row["provenance"] == "predicted"


def test_depth_moves_bootstraps() -> None:
    rows = what_if(PROGRAM, WhatIfAxes(depth=(24, 31, 36)), [SHARP])
    assert [row["bootstraps"] for row in rows] == sorted((r["bootstraps"] for r in rows), reverse=True)
    assert rows[0]["bootstraps"] > rows[-1]["bootstraps"] > 0


def test_impossible_combinations_are_rows_with_the_reason() -> None:
    rows = what_if(PROGRAM, WhatIfAxes(depth=(5, 24), dnum=(3, 13)), [SHARP])
    reasons = {(r["depth"], r["dnum"]): r["reason"] for r in rows}
    assert reasons[24, 3] is None
    assert "dnum 13" in reasons[5, 13]
    assert "bootstrapping consumes" in reasons[5, 3]
    for row in rows:
        if row["reason"] is not None:
            assert all(row[name] is None for name in ("predicted_s", "predicted_j", "peak_bytes", "key_bytes", "low_s"))
            assert (row["machine"], row["ring_dim"]) == ("sharp", SET.ring_dim)


def test_several_processes_find_the_same_rows(monkeypatch: pytest.MonkeyPatch) -> None:
    small = Workload(name="inner-product", size="ci", params=catalogue.get("insecure-ci"))
    # 33 digits are possible at depth 32 alone: there are rows before, between and behind that are no set.
    axes = WhatIfAxes(depth=tuple(range(2, 36)), dnum=(33, 1, 2), security=(0, 7), threads=(1, 2))
    calls: list[tuple[int, int]] = []
    alone = what_if(small, axes, [SHARP], on_row=lambda done, total: calls.append((done, total)))
    assert calls == [(done, len(axes)) for done in range(2, len(axes) + 1, 2)]
    pools = []
    monkeypatch.setattr(whatif, "WORTH_A_POOL", 34)
    monkeypatch.setattr(whatif, "Workers", {int: lambda *given: pools.append(Workers(*given)) or pools[0]})
    calls.clear()
    assert what_if(small, axes, [SHARP], workers=2, on_row=lambda done, total: calls.append((done, total))) == alone
    assert len(pools) == 1
    assert calls[-1] == (len(axes), len(axes))
    assert len(calls) == 34  # one for each depth
    reasons = {(row["depth"], row["dnum"], row["security_asked"]): row["reason"] for row in alone}
    assert reasons[2, 1, 0] is None
    assert reasons[2, 33, 0] is not None
    assert reasons[32, 33, 0] is None


def test_processes_end_with_the_one_that_is_killed(tmp_path: Path) -> None:
    """As a shell would: nobody tells them."""
    script = tmp_path / "study.py"
    script.write_text(
        "import multiprocessing, os, signal, sys\n"
        "from penstock.lab.prediction import whatif\n"
        "from penstock.scheme.machines import load_machine\n"
        "from penstock.scheme.params import catalogue\n"
        "def on_row(done, total):\n"
        "    print(*(child.pid for child in multiprocessing.active_children()), flush=True)\n"
        "    os.kill(os.getpid(), int(sys.argv[1]))\n"
        "if __name__ == '__main__':\n"
        "    small = whatif.Workload(name='inner-product', size='ci', params=catalogue.get('insecure-ci'))\n"
        "    axes = whatif.WhatIfAxes(depth=tuple(range(2, 70)), security=(0,))\n"
        "    whatif.what_if(small, axes, [load_machine('sharp')], workers=2, on_row=on_row)\n"
    )
    for number in (signal.SIGKILL, signal.SIGTERM):
        done = subprocess.run(
            [sys.executable, str(script), str(int(number))],
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
            text=True,
            timeout=60,
            check=False,
        )
        assert done.returncode == -number
        workers = [int(word) for word in done.stdout.split()]
        assert len(workers) == 2
        until = time.monotonic() + 20
        while (left := [pid for pid in workers if Path(f"/proc/{pid}").exists()]) and time.monotonic() < until:
            time.sleep(0.05)
        assert not left


def test_a_trace_keeps_its_ring_dimension_and_depth() -> None:
    recorded = Recorded(tally=tally_of(trace_workload("inner-product", size="ci")))
    rows = what_if(recorded, WhatIfAxes(threads=(1, 2), dnum=(2, 3)), [SHARP])
    assert len(rows) == 4
    assert all(row["reason"] is None for row in rows)
    with pytest.raises(UsageError, match="name the workload"):
        what_if(recorded, WhatIfAxes(depth=(3,)), [SHARP])


# Axes as they are written.
def test_axes_are_read_from_texts_and_files(tmp_path: Path) -> None:
    found = read_axes(["ring-dim=2^13,16384", "digits=2,3", "security=none,128", "threads=1..3,8", "key-form=seeded"])
    assert found == {
        "ring_dim": (2**13, 2**14), "dnum": (2, 3), "security": (0, 128), "threads": (1, 2, 3, 8),
        "key_form": (KeyForm.SEEDED,),
    }  # fmt: skip
    file = tmp_path / "study.toml"
    file.write_text('ring_dim = ["2^13", 16384]\ndepth = "4..6"\nmachine = ["sharp", "a100-tensorfhe"]\n')
    read = read_axes([str(file), "threads=2"])
    assert (read["ring_dim"], read["depth"], read["threads"]) == ((2**13, 2**14), (4, 5, 6), (2,))
    assert read["machine"] == ("sharp", "a100-tensorfhe")


def test_a_machines_file_is_a_value_of_its_axis(tmp_path: Path) -> None:
    file = tmp_path / "mine.toml"
    write_machine(SHARP, file)
    axes = read_axes([f"machine=a100-tensorfhe,{file}"])
    assert axes == {"machine": ("a100-tensorfhe", str(file))}
    rows = ps.what_if("inner-product", params="sharp", **axes)
    assert [row["machine"] for row in rows] == ["a100-tensorfhe", "sharp"]
    named = tmp_path / "study=1.toml"  # no axis
    named.write_text("depth = 4")
    assert read_axes([str(named)]) == {"depth": (4,)}


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("rings=2^13", "unknown what-if axis 'rings': did you mean 'ring-dim'"),
        ("depth", "write name=value,value"),
        ("depth=", "no value"),
        ("depth=x", "not a whole number"),
        ("depth=9..3", "not a run from a smaller to a larger"),
        ("security=100", "unknown security level"),
        ("key-form=half", "unknown key form"),
    ],
)
def test_axes_that_mean_nothing_are_refused(text: str, message: str) -> None:
    with pytest.raises((UsageError, UnknownName), match=message):
        read_axes([text])


def test_an_axis_given_twice_is_refused() -> None:
    with pytest.raises(UsageError, match="twice"):
        read_axes(["depth=3", "depth=4"])
