"""What OpenFHE's composites really do, counted from outside by a debugger, against our expansions of them.

gdb stops at the entry of the functions that switch keys, decompose, divide by P and rescale; the process marks the
calls between which it counts with a signal. Nothing inside the library is changed or trusted.
"""

from __future__ import annotations

import json
import re
import shutil
import subprocess
import sys
from collections.abc import Callable
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from penstock.program.evaluator.circuits.openfhe.extended import Extended
from penstock.program.evaluator.circuits.openfhe.sums import sum_slots
from penstock.program.evaluator.protocol import chebyshev_coefficients
from penstock.program.evaluator.symbolic import SymbolicEvaluator
from penstock.scheme.machines.catalogue import load_machine
from penstock.scheme.operations import OpKind
from penstock.scheme.params.ckks import CkksParameters, Scaling
from penstock.scheme.play.price import price_trace
from penstock.scheme.traces.inspect import problems
from penstock.scheme.traces.schema import TraceMeta
from penstock.scheme.work.shapes import Objects, shape_work, shapes_of
from support.toy import toy, toy_bootstrap

_POLY = "NS_12DCRTPolyImplIN9bigintdyn9mubintvecINS{}_5ubintImEEEEEE"
_DIGITS = f"ESt10shared_ptrISt6vectorI{_POLY.format(4)}SaIS9_EEES1_INS_11EvalKeyImplIS9_EEES1_INS_12ILDCRTParamsIS7_EEE"
SYMBOLS = {
    # Every key switch, hoisted or not, ends in one inner product with a key.
    "key_switches": "_ZNK8lbcrypto15KeySwitchHYBRID24EvalFastKeySwitchCoreExt" + _DIGITS,
    "decompositions": "_ZNK8lbcrypto15KeySwitchHYBRID27EvalKeySwitchPrecomputeCoreERK"
    + _POLY.format(2)
    + "St10shared_ptrINS_20CryptoParametersBaseIS7_EEE",
    "rescales": "_ZNK8lbcrypto17LeveledSHECKKSRNS24ModReduceInternalInPlaceERSt10shared_ptrINS_14CiphertextImplI"
    + _POLY.format(4)
    + "EEEm",
    "mod_downs": "_ZNK8lbcrypto12DCRTPolyImplIN9bigintdyn9mubintvecINS1_5ubintImEEEEE13ApproxModDownERKSt10shared_ptr"
    "INS_12ILDCRTParamsIS4_EEESC_RKSt6vectorIN6intnat14NativeIntegerTImEESaISG_EESK_SK_SK_RKSD_ISI_SaISI_EERKSD_IoSaIo"
    "EESK_SK_RKSG_SK_",
}
EXTENDED = (OpKind.ROTATE_HOISTED_EXTENDED, OpKind.ROTATE_EXTENDED)

CHILD = """
import json, os, signal, sys
import numpy as np
from penstock.scheme.params.ckks import CkksParameters
from penstock.program.openfhe.evaluator import OpenFheContext

job = json.load(open(sys.argv[1]))
params = CkksParameters.from_dict(job["params"])
made = OpenFheContext.create(params, bootstrap=[params.slots] if params.bootstrap is not None else [])
cc = made.context
if any(name == "EvalSum" for name, _ in job["calls"]):
    cc.EvalSumKeyGen(made.secret_key)
plain = cc.MakeCKKSPackedPlaintext([0.1] * params.slots, 1, job["level"], None, params.slots)
a = cc.Encrypt(made.public_key, plain)
mark = lambda: os.kill(os.getpid(), signal.SIGUSR1)
mark()
for name, arguments in job["calls"]:
    getattr(cc, name)(a, *arguments)
    mark()
"""


@dataclass(frozen=True)
class Counts:
    key_switches: int
    decompositions: int
    rescales: int
    mod_downs: int
    """Of one polynomial each."""


Call = tuple[str, list[Any]]


def library_counts(folder: Path, params: CkksParameters, calls: list[Call], level: int = 0) -> list[Counts]:
    """What each call does in the library, by breakpoints."""
    gdb = shutil.which("gdb")
    if gdb is None:
        pytest.skip("gdb is not installed: OpenFHE's key switches cannot be counted from outside")
    (folder / "child.py").write_text(CHILD)
    job = {"params": params.to_dict(), "calls": calls, "level": level}
    (folder / "job.json").write_text(json.dumps(job))
    commands = [
        "set pagination off",
        "set confirm off",
        "set breakpoint pending off",
        "handle SIGUSR1 stop nopass",
        # Reading the symbols of all libraries takes longer than the calls.
        "set auto-solib-add off",
        "run",
        "sharedlibrary libOPENFHE",
    ]
    for number, symbol in enumerate(SYMBOLS.values(), 1):
        commands += [f"break *{symbol}", f"ignore {number} 10000000"]
    for _ in calls:
        commands += ["continue", "info breakpoints", "echo ----\\n"]
    commands.append("kill")
    (folder / "commands.gdb").write_text("\n".join(commands))
    done = subprocess.run(
        [
            gdb,
            "-nx",
            "-batch",
            "-iex",
            "set auto-load no",
            "-x",
            str(folder / "commands.gdb"),
            "--args",
            sys.executable,
            str(folder / "child.py"),
            str(folder / "job.json"),
        ],
        capture_output=True,
        text=True,
        timeout=300,
        stdin=subprocess.DEVNULL,
    )
    said = done.stdout + done.stderr
    if "ptrace" in said and "not permitted" in said:
        pytest.skip("this machine does not let gdb trace a process: run with the SYS_PTRACE capability")
    parts = done.stdout.split("----\n")[:-1]
    assert len(parts) == len(calls), said[-3000:]
    totals = [_hits(part[part.rindex("Num ") :]) for part in parts]
    return [
        Counts(**{name: now.get(name, 0) - before.get(name, 0) for name in SYMBOLS})
        for before, now in zip([{}, *totals], totals, strict=False)
    ]


def _hits(table: str) -> dict[str, int]:
    """Hit counts from gdb's table of breakpoints, by the names of SYMBOLS."""
    names, found = list(SYMBOLS), {}
    for row in re.split(r"\n(?=\d+ )", table):
        number = re.match(r"(\d+) ", row)
        hits = re.search(r"already hit (\d+) time", row)
        if number and hits:
            found[names[int(number.group(1)) - 1]] = int(hits.group(1))
    return found


def our_counts(params: CkksParameters, call: Callable[[SymbolicEvaluator, Any], Any], limbs: int) -> Counts:
    """The same four counts from our expansion."""
    ev = SymbolicEvaluator(params)
    call(ev, ev.fresh(limbs))
    trace = ev.builder.finish(TraceMeta(workload="test", params=params.to_dict(), reading="trace"))
    view = trace.view()
    kinds = view.count_by_kind()
    extended = sum(kinds.get(kind, 0) for kind in EXTENDED)
    hoisted = kinds.get(OpKind.ROTATE_HOISTED, 0) + extended
    lowered = kinds.get(OpKind.DECOMPOSE_EXTENDED, 0)
    shared = kinds.get(OpKind.DECOMPOSE, 0) + lowered
    with_key = sum(key is not None for key in view.operations["key"].to_pylist())
    implied = sum(view.operations["implied_rescales"].to_pylist())
    return Counts(
        key_switches=with_key,
        decompositions=with_key - hoisted + shared,
        rescales=kinds.get(OpKind.RESCALE, 0) + implied,
        mod_downs=2 * (with_key - extended + kinds.get(OpKind.MOD_DOWN, 0)) + lowered,
    )


def series(degree: int) -> list[float]:
    return [1.0 / (k + 2) for k in range(degree + 1)]


def logistic(x: Any) -> Any:
    return 1 / (1 + np.exp(-x))


DEGREES = (3, 5, 13, 27, 44, 59, 119)


@pytest.mark.usefixtures("openfhe")
def test_series_and_sums_switch_keys_as_often_as_the_library(tmp_path: Path) -> None:
    params = toy(q_bits=(60,) + (50,) * 12, scaling=Scaling.FLEXIBLE_AUTO)
    calls: list[Call] = [("EvalChebyshevSeries", [series(d), -1.0, 1.0]) for d in DEGREES]
    calls += [
        ("EvalChebyshevSeries", [series(27), -4.0, 4.0]),
        ("EvalLogistic", [-8.0, 8.0, 32]),
        ("EvalSum", [8]),
        ("EvalSum", [32]),
    ]
    real = library_counts(tmp_path, params, calls)

    def chebyshev(degree: int, bound: float = 1.0) -> Counts:
        return our_counts(params, lambda ev, a: ev.chebyshev_series(a, series(degree), -bound, bound), params.num_q)

    fit = chebyshev_coefficients(logistic, -8.0, 8.0, 32)
    ours = [chebyshev(d) for d in DEGREES]
    ours += [chebyshev(27, 4.0)]
    ours += [our_counts(params, lambda ev, a: ev.chebyshev_series(a, fit, -8.0, 8.0), params.num_q)]
    ours += [our_counts(params, lambda ev, a, n=n: sum_slots(ev, a, n), params.num_q) for n in (8, 32)]
    assert dict(zip(map(str, calls), ours, strict=True)) == dict(zip(map(str, calls), real, strict=True))
    # Counted by hand once: degree 44 switches keys 13 times, the sum of 32 slots 7 times.
    assert real[DEGREES.index(44)].key_switches == 13
    assert real[-1].key_switches == 7


@pytest.mark.parametrize(
    ("scaling", "ring_dim", "slots"),
    [
        (Scaling.FLEXIBLE_AUTO, 2048, 512),
        (Scaling.FLEXIBLE_AUTO, 512, 256),  # all slots of the ring
        (Scaling.FIXED_MANUAL, 512, 128),
    ],
)
@pytest.mark.usefixtures("openfhe")
def test_bootstrapping_switches_keys_as_often_as_the_library(
    tmp_path: Path, scaling: Scaling, ring_dim: int, slots: int
) -> None:
    params = replace(toy_bootstrap(scaling, slots), ring_dim=ring_dim)
    limbs = 2
    real = library_counts(tmp_path, params, [("EvalBootstrap", [])], level=params.num_q - limbs)[0]
    ours = our_counts(params, lambda ev, a: ev.bootstrap(a), limbs)
    if scaling is Scaling.FIXED_MANUAL:
        # Our reading ends the refresh with a rescale that EvalBootstrap leaves to the program.
        ours = replace(ours, rescales=ours.rescales - 1)
    assert ours == real
    if slots == 512:
        # Counted by hand once (budget [3, 3], N=2^11).
        assert (real.key_switches, real.decompositions, real.mod_downs) == (69, 33, 58)


@pytest.mark.parametrize("scaling", [Scaling.FLEXIBLE_AUTO, Scaling.FIXED_AUTO, Scaling.FIXED_MANUAL])
def test_expansions_are_valid_traces_that_every_reading_can_price(scaling: Scaling) -> None:
    params = toy_bootstrap(scaling, 512)
    ev = SymbolicEvaluator(params)
    ev.chebyshev_series(ev.bootstrap(ev.encrypt(np.zeros(512))), series(13), -1.0, 1.0)
    trace = ev.builder.finish(TraceMeta(workload="test", params=params.to_dict(), reading="trace"))
    assert list(problems(trace)) == []
    priced = price_trace(trace, load_machine("sharp"), classes=("key", "plaintext", "ciphertext"))
    # The toy set has wider primes than the machine multiplies, which the price says; nothing else is wrong with it.
    assert ["does not fit machine" in each for each in priced.warnings] == [True]
    assert (priced.compute_s > 0).mean() > 0.9
    # Objects over Q and P are as large as the work on them says.
    objects = Objects(trace, params)
    table = trace.view().operations
    shapes = shapes_of(table, objects)
    kinds = [shape.kind for shape in shapes.distinct]
    assert {"rotate_extended", "rotate_hoisted_extended", "mult_plain_extended", "mod_down"} <= set(kinds)
    made = objects.rows(np.asarray(table["output"].fill_null(0)), "output")
    for row, of in enumerate(shapes.of_row.tolist()):
        if "extended" in kinds[of]:
            work = shape_work(shapes.distinct[of], params)
            assert objects.bytes[made[row]] == work.ciphertext_write_bytes


def test_kinds_over_q_and_p_take_ciphertexts_over_q_and_p() -> None:
    params = toy_bootstrap(Scaling.FLEXIBLE_AUTO, 512)
    ev = SymbolicEvaluator(params)
    wide = Extended(ev)
    a = ev.encrypt(np.zeros(512))
    wide.add(wide.extend(a), a)
    said = list(problems(ev.builder.finish(TraceMeta(workload="test", params=params.to_dict(), reading="trace"))))
    assert any("this kind takes extended, extended" in line for line in said)


def test_bootstrapping_without_a_level_left_is_refused_as_the_library_would() -> None:
    from penstock.errors import ParamsError

    ev = SymbolicEvaluator(toy_bootstrap(Scaling.FLEXIBLE_AUTO, 512))
    assert ev.levels(ev.bootstrap(ev.fresh(2))) > 0
    with pytest.raises(ParamsError, match="bootstrap earlier"):
        ev.bootstrap(ev.fresh(1))
