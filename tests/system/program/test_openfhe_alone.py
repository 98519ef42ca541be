"""OpenFHE's keys, contexts and random numbers are the whole process's: one thread at a time, and no child of a fork."""

from __future__ import annotations

import subprocess
import sys
import threading
from pathlib import Path
from types import ModuleType
from typing import Any

import numpy as np
import pytest

import penstock as ps
from penstock.errors import PenstockError
from penstock.program.openfhe.evaluator import OpenFheContext
from penstock.runtime.native.client import open_client
from penstock.scheme.params import catalogue
from support.forked import in_child

PARAMS = catalogue.get("insecure-ci")


@pytest.fixture(autouse=True)
def alone(openfhe: ModuleType) -> None:
    """Contexts and keys that other tests of this process left are gone."""
    openfhe.ClearEvalMultKeys()
    openfhe.CryptoContext.ClearEvalAutomorphismKeys()
    openfhe.ReleaseAllContexts()


@pytest.fixture
def program(tmp_path: Path) -> Path:
    path = tmp_path / "p.py"
    path.write_text(
        "import numpy as np\nPARAMS = 'insecure-small'\n"
        "def data(size, slots, seed):\n    return np.random.default_rng(seed).uniform(-1, 1, 16)\n"
        "def program(ev, data, size):\n    x = ev.rotate(ev.encrypt(data), 3)\n"
        "    return ev.decrypt(ev.chebyshev_function(x, np.tanh, -1, 1, degree=3))[:16]\n"
    )
    return path


def test_runs_in_several_threads_and_of_several_sets_all_pass(openfhe: ModuleType, program: Path) -> None:
    found: list[Any] = []
    ways: list[dict[str, Any]] = [
        {"reading": "openfhe"},
        {"reading": "native", "client": "inside", "client_library": "openfhe"},
        {"reading": "openfhe", "threads": 2, "key_budget": "1 MiB"},
    ]

    def work(number: int) -> None:
        for turn in range(2):
            try:
                params = ("insecure-small", "insecure-ci")[(number + turn) % 2]
                found.append(ps.run(program, params=params, seed=number, **ways[number]).passed)
            except BaseException as error:  # the words of a failure
                found.append(error)

    threads = [threading.Thread(target=work, args=(number,)) for number in range(len(ways))]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(120)
    assert found == [True] * 6
    assert registered(openfhe) == ([], [], 0)


def registered(openfhe: ModuleType) -> tuple[list[str], list[str], int]:
    context = openfhe.CryptoContext
    rotations, products = context.GetAllEvalAutomorphismKeys(), context.GetAllEvalMultKeys()
    return sorted(rotations), sorted(products), len(openfhe.GetAllContexts())


@pytest.mark.parametrize(
    "way",
    [
        {"reading": "openfhe"},
        {"reading": "openfhe", "key_budget": "1 MiB"},
        {"reading": "native", "client": "inside", "client_library": "openfhe"},
    ],
    ids=["openfhe", "paged", "client"],
)
def test_a_run_leaves_the_programs_own_contexts_and_keys(
    openfhe: ModuleType, program: Path, way: dict[str, Any]
) -> None:
    wanted = openfhe.CCParamsCKKSRNS()
    wanted.SetMultiplicativeDepth(4)
    wanted.SetRingDim(1024)
    wanted.SetSecurityLevel(openfhe.HEStd_NotSet)
    cc = openfhe.GenCryptoContext(wanted)
    try:
        for feature in (openfhe.PKE, openfhe.KEYSWITCH, openfhe.LEVELEDSHE):
            cc.Enable(feature)
        pair = cc.KeyGen()
        cc.EvalMultKeyGen(pair.secretKey)
        cc.EvalRotateKeyGen(pair.secretKey, [1])
        x = cc.Encrypt(pair.publicKey, cc.MakeCKKSPackedPlaintext([1.0, 2.0, 3.0]))
        before = [openfhe.Serialize(each, openfhe.BINARY) for each in (cc.EvalMult(x, x), cc.EvalRotate(x, 1))]
        for _ in range(2):
            assert ps.run(program, **way).passed
        after = [openfhe.Serialize(each, openfhe.BINARY) for each in (cc.EvalMult(x, x), cc.EvalRotate(x, 1))]
        assert after == before
        tag = pair.secretKey.GetKeyTag()
        assert registered(openfhe)[:2] == ([tag], [tag])
    finally:
        openfhe.ClearEvalMultKeys()
        openfhe.CryptoContext.ClearEvalAutomorphismKeys()
        openfhe.ReleaseAllContexts()


def rotated(context: OpenFheContext) -> Any:
    cc = context.context
    made = cc.EvalRotate(cc.Encrypt(context.public_key, context.plaintext(np.arange(4.0))), 1)
    return context.slots_of(context.decrypt(made, PARAMS.num_q))[0].real


def test_a_release_leaves_the_keys_of_the_same_threads_other_contexts(openfhe: ModuleType) -> None:
    outer = OpenFheContext.create(PARAMS, rotation_steps=(1,))
    try:
        OpenFheContext.create(catalogue.get("insecure-small"), rotation_steps=(1,)).release()
        assert rotated(outer) == pytest.approx(1, abs=1e-3)
    finally:
        outer.release()
    assert registered(openfhe) == ([], [], 0)


def test_a_child_of_a_fork_is_refused_where_it_would_repeat_random_numbers(openfhe: ModuleType, program: Path) -> None:
    client = open_client(PARAMS, library="openfhe")
    try:
        content = client.encrypt(np.ones(4)).content
        for use in (
            lambda: client.encrypt(np.ones(4)),
            lambda: client.decrypt(content),
            lambda: open_client(PARAMS, library="openfhe"),
            lambda: ps.run(program, reading="openfhe"),
        ):
            with pytest.raises(PenstockError, match=r"forked from one that had loaded OpenFHE.*'spawn'"):
                in_child(use)
        # What does not need OpenFHE goes on.
        assert in_child(lambda: ps.run(program, client="inside", client_library="penstock").passed)
        assert client.decrypt(content).values[0].real == pytest.approx(1, abs=1e-3)
    finally:
        client.release()


def test_a_child_of_a_process_without_openfhe_uses_it(openfhe: ModuleType, program: Path) -> None:
    script = (
        "import os, sys, signal\nimport penstock as ps\n"
        "ps.run(sys.argv[1], reading='clear')\n"
        "if not os.fork():\n    signal.alarm(60)\n"
        "    os._exit(0 if ps.run(sys.argv[1], reading='openfhe').passed else 1)\n"
        "print(os.wait()[1])\n"
    )
    done = subprocess.run([sys.executable, "-c", script, str(program)], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "0", done.stderr
