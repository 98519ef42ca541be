"""What a script encrypts with OpenFHE is in no package of it; what is planted is found, on each way to a package."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from types import ModuleType
from typing import Any

import numpy as np
import pytest

import penstock.program.openfhe.recorder as recorder
from penstock.front.cli.main import main
from penstock.program.openfhe.recorder.tap import TAP
from penstock.program.package.file import write_package
from support.package_canaries import drawn
from support.package_watch import KINDS, WATCH
from support.recorded_natively import packagings_of, recorded

X = drawn(np.random.default_rng(12), 8).tolist()
SCRIPT = """
import numpy as np
from openfhe import *
p = CCParamsCKKSRNS()
p.SetMultiplicativeDepth(3)
p.SetSecurityLevel(HEStd_NotSet)
p.SetRingDim(1024)
p.SetBatchSize(8)
cc = GenCryptoContext(p)
for feature in (PKE, KEYSWITCH, LEVELEDSHE, ADVANCEDSHE):
    cc.Enable(feature)
keys = cc.KeyGen()
cc.EvalMultKeyGen(keys.secretKey)
"""
PROGRAM = """
x = {x}
a = cc.Encrypt(keys.publicKey, cc.MakeCKKSPackedPlaintext(x))
b = cc.Encrypt(keys.publicKey, cc.MakeCKKSPackedPlaintext(np.array(x)))
y = cc.EvalAdd(cc.EvalMult(a, cc.MakeCKKSPackedPlaintext([0.1, 0.7, 3.0])), b)
for each in {planted}:
    y = {call}
r = cc.Decrypt(y, keys.secretKey)
"""
CALLS = {
    "constant": ("cc.EvalAdd(y, cc.MakeCKKSPackedPlaintext(each))", "[({kind}).tolist()]"),
    "number": ("cc.EvalAdd(y, float(each))", "{kind}"),
}


@pytest.fixture(autouse=True)
def fhe(openfhe: ModuleType) -> Iterator[ModuleType]:
    """OpenFHE with no key registered and no class changed, before and after."""
    for step in ("before", "after"):
        openfhe.CryptoContext.ClearEvalAutomorphismKeys()
        openfhe.ClearEvalMultKeys()
        openfhe.ReleaseAllContexts()
        assert not TAP.is_open, step
        if step == "before":
            yield openfhe


def program(kind: str | None, place: str) -> str:
    call, planted = CALLS[place]
    # Of 2^30 as a plaintext there is no room under the scale.
    expression = KINDS[kind or "double"].replace("2.0**30", "2.0**20")
    return PROGRAM.format(x=X, call=call, planted=planted.format(kind=expression) if kind else "[]")


def written(folder: Path, kind: str | None = None, place: str = "constant") -> Path:
    script = folder / "script.py"
    script.write_text(SCRIPT + program(kind, place))
    return script


def in_memory(fhe: ModuleType, folder: Path, *leak: Any) -> None:
    found = recorded(fhe, written(folder, *leak))
    assert found.run.exit_code == 0, found.run.shown
    (package,) = found.packages
    write_package(package, folder / "p.pkg")


def by_the_verb(fhe: ModuleType, folder: Path, *leak: Any) -> None:
    words = ["record", "-o", str(folder / "t.parquet"), "--package", str(folder / "p.pkg"), "--quiet"]
    assert main([*words, str(written(folder, *leak))]) == 0


def by_the_script(fhe: ModuleType, folder: Path, *leak: Any) -> None:
    names: dict[str, Any] = {}
    exec(SCRIPT, names)
    cc = recorder.record(names["cc"], folder / "t.parquet", constants=True)
    try:
        exec(program(*(leak or (None, "constant"))), names)
        cc.save_package(folder / "p.pkg")
    finally:
        recorder.stop(cc)


def inside(fhe: ModuleType, folder: Path, *leak: Any) -> None:
    names: dict[str, Any] = {}
    exec(SCRIPT, names)
    with recorder.recorded(names["cc"], constants=True) as recording:
        exec(program(*(leak or (None, "constant"))), names)
        (packaging,) = packagings_of(recording)
        write_package(packaging.package(), folder / "p.pkg")


WAYS = {each.__name__: each for each in (in_memory, by_the_verb, by_the_script, inside)}


@pytest.mark.parametrize("way", WAYS)
def test_a_recorded_package_is_searched(fhe: ModuleType, tmp_path: Path, way: str) -> None:
    before, values = WATCH.files, WATCH.looked_for
    with WATCH.planted() as found:
        WAYS[way](fhe, tmp_path)
    assert found == []
    assert WATCH.files == before + 1
    assert WATCH.looked_for >= values + len(X)


@pytest.mark.parametrize("way", WAYS)
@pytest.mark.parametrize("place", CALLS)
@pytest.mark.parametrize("kind", KINDS)
def test_a_leak_of_a_recorded_script_is_found(fhe: ModuleType, tmp_path: Path, way: str, place: str, kind: str) -> None:
    with WATCH.planted() as found:
        WAYS[way](fhe, tmp_path, kind, place)
    assert "p.pkg holds input 0 as " in found[-1]
