"""Scripts for `penstock record --package --verify` whose later calls depend on decrypted values, and clean ones.

An even seed gives a dependent script: it must be refused, with its line. An odd seed gives a clean one, and two of five
clean ones compare or print after the last call: it must become a package, which holds no digit of an input.

    python tests/faults leaks --count 1 --seed 137        # one script again, by its seed
"""

from __future__ import annotations

import os
import subprocess
import sys
import time
from collections.abc import Callable
from functools import partial
from pathlib import Path

import numpy as np

from faults.frame import Result, over, reported
from support.package_canaries import drawn, found_in

MOST_SECONDS = 120
SLOTS = 8
PREAMBLE = """
import bisect, decimal, fractions, json, math, pickle, statistics, struct, sys
from array import array
from math import sqrt
from pathlib import Path
import numpy as np
from numpy import asarray as as_array
from openfhe import *

HERE = Path(__file__).parent
p = CCParamsCKKSRNS()
p.SetMultiplicativeDepth(6)
p.SetScalingModSize(50)
p.SetSecurityLevel(HEStd_NotSet)
p.SetRingDim(1024)
p.SetBatchSize(8)
cc = GenCryptoContext(p)
for feature in (PKE, KEYSWITCH, LEVELEDSHE, ADVANCEDSHE):
    cc.Enable(feature)
k = cc.KeyGen()
cc.EvalMultKeyGen(k.secretKey)
cc.EvalRotateKeyGen(k.secretKey, list(range(-8, 9)))
"""
HELPERS = """
def plain(values):
    return cc.MakeCKKSPackedPlaintext(values)

def encrypt(values):
    return cc.Encrypt(k.publicKey, plain(values))

def opened(c):
    r = cc.Decrypt(c, k.secretKey)
    r.SetLength(8)
    return r

fixed = [0.5, -0.25, 1.0, 0.75, -1.0, 0.125, 0.5, 0.25]
"""

READS = [
    "v = opened(y).GetRealPackedValue()",
    "v = np.array(opened(y).GetRealPackedValue())",
    "v = opened(y).GetRealPackedValueArray()",
    "v = [each.real for each in opened(y).GetCKKSPackedValue()]",
    "v = opened(y).GetCKKSPackedValueArray().real",
]
"""Ways to read what `y` holds: 8 values."""

WEIGHTS = {
    "numpy": [
        "w = np.round(np.array(v), 2).tolist()",
        "w = np.array(v) / np.linalg.norm(v)",
        "w = np.clip(v, -0.5, 0.5)",
        "w = np.cumsum(v)[::-1]",
        "w = np.fft.fft(v).real",
        "w = np.asarray(v, dtype=np.float32).astype(float)",
        "w = np.where(np.arange(8) < 4, v, 0.0)",
        "w = [float(each) for each in np.sort(v)]",
        "w = np.zeros(8)\nw[:] = np.array(v)",
        "w = np.zeros(8)\nw[:4] = v[:4]",
        "w = [each * np.mean(v) for each in fixed]",
        "w = np.full(8, np.median(v))",
        "w = np.outer(v, fixed)[2]",
        "w = as_array(v) * 2",
        "w = np.polyfit(np.arange(8.0), np.array(v), 7)",
        "w = np.exp(v) - 1",
        "w = np.add.outer(v, fixed).mean(axis=0)",
        "w = np.array(fixed)\nw += v",
        "w = np.convolve(v, [0.5, 0.5])[:8]",
        "w = np.interp(fixed, np.linspace(-1, 1, 8), v)",
    ],
    "comparison": [
        "w = [1.0 if each > 0.25 else 0.0 for each in v]",
        "w = (np.array(v) > np.mean(v)).astype(float)",
        "w = np.where(np.array(v) > 0.1, 1.0, -1.0)",
        "w = [float(each == max(v)) for each in v]",
        "w = np.ones(8)\nif v[0] > v[1]:\n    w[0] = 2.0",
        "w = fixed if np.any(np.array(v) > 0.5) else fixed[::-1]",
        "w = [float(len([each for each in v if each > 0.3]))] * 8",
        "w = [float(bisect.bisect([-0.5, 0.0, 0.25, 0.5], each)) for each in v]",
        "w = np.digitize(v, [-0.5, 0.0, 0.25, 0.5]).astype(float)",
        "w = [1.0 * (a < b) for a, b in zip(v, fixed)]",
        "w = np.sign(np.array(v) - 0.2)",
        "w = np.heaviside(v, 0.5)",
        "w = np.select([np.array(v) > 0.4], [np.ones(8)], 0.5)",
        "w = np.maximum(v, 0.0)",
    ],
    "argsort": [
        "w = np.array(fixed)[np.argsort(v)]",
        "w = np.argsort(np.argsort(v)) / 8.0",
        "w = [fixed[i] for i in sorted(range(8), key=lambda i: v[i])]",
        "w = [float(i) for _, i in sorted(zip(v, range(8)))]",
        "w = np.eye(8)[np.argmax(v)]",
        "w = np.roll(fixed, int(np.argmin(v)))",
        "w = [0.0] * 8\nw[max(range(8), key=lambda i: v[i])] = 1.0",
        "w = np.take(fixed, np.lexsort([np.array(v)]))",
        "w = np.eye(8)[list(v).index(max(v))]",
        "w = np.array(fixed)[np.argpartition(v, 3)]",
    ],
    "min": [
        "w = [each / max(v) for each in fixed]",
        "w = [min(v)] * 8",
        "w = [min(each, 0.5) for each in v]",
        "w = sorted(v)",
        "w = [sum(v) / 8] * 8",
        "w = [max(each, 0.0) for each in v]",
        "w = [np.min(v), np.max(v)] * 4",
        "w = [math.fsum(v)] * 8",
        "w = [statistics.median(v)] * 8",
        "w = [statistics.fmean(v)] * 8",
    ],
    "cast": [
        "w = [float(int(each * 1000)) for each in v]",
        "w = [float(str(each)) for each in v]",
        "w = [float(f'{each:.3f}') for each in v]",
        "w = list(struct.unpack('8d', struct.pack('8d', *v)))",
        "w = json.loads(json.dumps(list(map(float, v))))",
        "w = [float(decimal.Decimal(repr(float(each)))) for each in v]",
        "w = [float(fractions.Fraction(each).limit_denominator(1000)) for each in v]",
        "w = np.frombuffer(np.array(v).tobytes())",
        "w = list(array('d', v))",
        "w = np.array(pickle.loads(pickle.dumps(v)))",
        "w = [round(each, 3) for each in v]",
        "w = [float(round(10 * each)) for each in v]",
        "w = [(1j * each).imag for each in v]",
        "w = [sqrt(abs(each)) for each in v]",
        "w = [math.exp(each) for each in v]",
        "w = [float('%.4f' % each) for each in v]",
        "w = np.array(list(map(str, v))).astype(float)",
        "w = np.fromstring(', '.join(f'{each:.6f}' for each in v), sep=',')",
        "w = [complex(each).real for each in v]",
        "w = np.fromiter((each for each in v), float)",
        "w = [float(each.hex() if False else float.fromhex(float(each).hex())) for each in v]",
        "w = np.rint(np.array(v) * 16).astype(int) / 16",
        "w = [float(each) for each in str(list(map(float, v)))[1:-1].split(',')]",
        "w = eval(repr([float(each) for each in v]))",
    ],
    "file": [
        "np.save(HERE / 'w.npy', v)\nw = np.load(HERE / 'w.npy')",
        "(HERE / 'w.json').write_text(json.dumps([float(f'{each:.4f}') for each in v]))\n"
        "w = json.loads((HERE / 'w.json').read_text())",
        "(HERE / 'w.txt').write_text('\\n'.join(f'{each:.5f}' for each in v))\nw = np.loadtxt(HERE / 'w.txt')",
        "np.array(v).tofile(HERE / 'w.bin')\nw = np.fromfile(HERE / 'w.bin')",
        "with open(HERE / 'w.txt', 'w') as f:\n    print(*v, file=f)\n"
        "w = [float(each) for each in open(HERE / 'w.txt').read().split()]",
        "np.savetxt(HERE / 'w.txt', v)\nw = np.loadtxt(HERE / 'w.txt')",
        "with open(HERE / 'w.pkl', 'wb') as f:\n    pickle.dump(v, f)\nw = pickle.load(open(HERE / 'w.pkl', 'rb'))",
        "(HERE / 'w.bin').write_bytes(struct.pack('8f', *v))\nw = struct.unpack('8f', (HERE / 'w.bin').read_bytes())",
        "(HERE / 'w.csv').write_text(','.join(map(str, np.array(v) > 0.2)))\n"
        "w = [float(x == 'True') for x in (HERE / 'w.csv').read_text().split(',')]",
    ],
}
"""Kind -> ways to compute 8 weights `w` from the decrypted values `v`."""

USES = [
    "z = cc.EvalMult(y, plain(list(w)))",
    "z = cc.EvalAdd(x, plain(np.array(w, dtype=float)))",
    "z = cc.EvalSub(cc.EvalMult(y, plain([float(each) for each in w])), x)",
    "z = cc.EvalMult(x, encrypt([float(each) for each in w]))",
    "z = cc.EvalAdd(cc.EvalMult(x, float(w[0])), float(w[5]))",
    "z = cc.EvalLinearWSum([x, y], [float(w[1]), float(w[2])])",
]

CONTROL = {
    "while": [
        "z = x\nwhile v[0] > 0.05:\n    z = cc.EvalAdd(z, x)\n    v = [each - 0.1 for each in v]\nz = cc.EvalAdd(z, y)",
        "z, left = x, np.sum(np.abs(v))\nwhile left > 0.3:\n    z = cc.EvalAdd(z, 0.5)\n    left = left / 2\n"
        "z = cc.EvalAdd(z, y)",
        "z = y\nfor each in v:\n    if each > 0.2:\n        z = cc.EvalAdd(z, x)\nz = cc.EvalMult(z, z)",
        "z, times = x, 0\nwhile max(opened(z).GetRealPackedValue()) < 3 and times < 40:\n    z = cc.EvalAdd(z, x)\n"
        "    times += 1",
        "z = x\nfor _ in range(int(20 * abs(v[1]))):\n    z = cc.EvalAdd(z, y)\nz = cc.EvalAdd(z, 1.0)",
        "z = x\nfor _ in range(round(30 * abs(np.max(v)))):\n    z = cc.EvalAdd(z, y)\nz = cc.EvalAdd(z, 1.0)",
    ],
    "branch": [
        "z = cc.EvalMult(x, y) if v[0] > v[7] else cc.EvalAdd(x, y)\nz = cc.EvalAdd(z, 1.0)",
        "z = cc.EvalRotate(x, 1 + int(np.argmax(v)) % 8)",
        "z = cc.EvalRotate(x, 1 + list(v).index(min(v)) % 8)",
        "z = {True: cc.EvalAdd, False: cc.EvalSub}[bool(v[2] > 0)](x, y)",
        "z = cc.EvalAdd(x, y)\nassert max(v) < 10\nz = cc.EvalMult(z, x)",
        "try:\n    z = [x, y][int(v[3] > 0.1)]\nexcept IndexError:\n    z = x\nz = cc.EvalAdd(z, x)",
        "z = cc.EvalAdd(x, y) if sum(each > 0.2 for each in v) % 2 else cc.EvalSub(x, y)",
        "match = sorted(range(8), key=v.__getitem__)\nz = cc.EvalRotate(x, match[0] or 8)",
        "z = cc.EvalMult(x, cc.GetRingDimension() * 0 + float(f'{v[0]:.3f}'))",
        "z = cc.EvalMult(x, len({round(each, 1) for each in v}))",
    ],
}
"""Kind -> later calls `z` that depend on the decrypted values `v`."""

MIDDLES = [
    "",
    "r = opened(y)\nprint(r)",
    "v = opened(y).GetRealPackedValue()\nprint(v)\nprint([round(each, 4) for each in v])",
    "v = np.array(opened(y).GetRealPackedValue())\nprint('error', np.max(np.abs(v - np.array(fixed))))",
    "v = opened(y).GetRealPackedValueArray()\nprint(f'{v.mean():.4f}', v.round(3), v[:2].tolist())",
    "print('error %.3g' % max(abs(a - b) for a, b in zip(opened(y).GetRealPackedValue(), fixed)))",
    "v = opened(y).GetRealPackedValue()\nprint(*[f'{each:.3f}' for each in v], sum(v) / len(v), math.sqrt(abs(v[0])))",
    "print(opened(y).GetFormattedValues(5))",
    "for each in opened(y).GetCKKSPackedValue():\n    print(each.real, abs(each))",
]
"""What a clean script may do between calls: it shows decrypted values."""

CALLS = [
    "z = cc.EvalMult(y, plain(fixed))",
    "z = cc.EvalAdd(cc.EvalMult(x, y), plain(np.round(np.array(fixed), 2).tolist()))",
    "z = cc.EvalMult(y, plain(np.array(fixed)[np.argsort(fixed)]))",
    "z = cc.EvalMult(x, plain([1.0 if each > 0.25 else 0.0 for each in fixed]))",
    "z, steps = x, 0\nwhile steps < 3:\n    z = cc.EvalAdd(z, cc.EvalRotate(z, 1 << steps))\n    steps += 1",
    "z = cc.EvalRotate(cc.EvalMult(x, max(fixed)), 1 + int(np.argmax(fixed)))",
    "z = cc.EvalAdd(x, encrypt(np.linspace(-1, 1, 8)))",
    "np.save(HERE / 'w.npy', np.array(fixed))\nz = cc.EvalMult(y, plain(np.load(HERE / 'w.npy')))",
    "z = cc.EvalMult(x, plain(np.random.default_rng(7).uniform(-1, 1, 8)))",
    "z = cc.EvalLinearWSum([x, y], [float(each) for each in json.loads('[0.5, 2]')])",
    "z = cc.EvalPoly(x, [0.5, 0.25, 1.0])",
    "z = cc.EvalSub(1.0, cc.EvalMult(x, math.sqrt(min(2.0, 3.0))))",
    "z = cc.EvalMult(y, plain(list(struct.unpack('8d', struct.pack('8d', *fixed)))))",
]

AFTERS = [
    "v = opened(z).GetRealPackedValue()\nprint(v[0] > 0.5, np.argsort(v), max(v), [each for each in v if each > 0])",
    "v = np.array(opened(z).GetRealPackedValue())\nassert np.all(np.isfinite(v))\n"
    "print(np.allclose(v, fixed, atol=1e-3))",
    "v = opened(z).GetRealPackedValue()\nif v[0] > v[1]:\n    print('first')\nelse:\n    print('second')",
    "v = opened(z).GetRealPackedValue()\nwhile max(v) > 0.1:\n    v = [each / 2 for each in v]\n"
    "print(int(1000 * v[0]))",
    "v = opened(z).GetRealPackedValue()\n(HERE / 'out.json').write_text(json.dumps([float(each) for each in v]))",
    "v = opened(z).GetRealPackedValueArray()\nnp.save(HERE / 'out.npy', v)\nprint(np.load(HERE / 'out.npy').max() > 0)",
    "a, b = opened(z).GetRealPackedValue(), opened(y).GetRealPackedValue()\n"
    "print(sorted(range(8), key=lambda i: a[i]))\n"
    "print(sum(p > q for p, q in zip(a, b)))",
    "v = opened(z).GetRealPackedValue()\nassert abs(v[0]) < 1e6\nw = opened(y).GetRealPackedValue()\n"
    "assert any(abs(p - q) > 0 for p, q in zip(v, w))\nprint(opened(x).GetLogPrecision() > 3)",
    "v = opened(z).GetRealPackedValue()\nassert np.allclose(v, opened(z).GetRealPackedValue(), atol=1e-3)\n"
    "assert np.allclose(opened(x).GetRealPackedValue(), given, atol=1e-3)\nprint(opened(y).GetRealPackedValue())",
]
"""What a clean script may do after its last call. The last one fails where other values are encrypted."""
ENDS = ["opened(z)", "print(opened(z))", "print(opened(z).GetRealPackedValue())", "r = opened(z)\nprint(r.GetLength())"]


def script(seed: int) -> tuple[str, str, np.ndarray]:
    """The script of a seed, its kind, and its input."""
    rng = np.random.default_rng([seed, 1_907])
    values = drawn(rng, SLOTS)
    start = f"{PREAMBLE}given = {values.tolist()}\n{HELPERS}x = encrypt(given)\n"
    calls = _one(rng, ["y = cc.EvalAdd(x, x)", "y = cc.EvalMult(x, plain(fixed))", "y = cc.EvalMult(x, x)", "y = x"])
    number = seed // 2
    if seed % 2 == 0:
        ways = [(kind, way, True) for kind, found in WEIGHTS.items() for way in found]
        ways += [(kind, way, False) for kind, found in CONTROL.items() for way in found]
        kind, way, weights = ways[number % len(ways)]
        body = [calls, _one(rng, READS), way, *([_one(rng, USES)] if weights else []), _one(rng, ENDS)]
        return start + "\n".join(body) + "\n", f"dependent: {kind}", values
    middle, later = MIDDLES[number % len(MIDDLES)], CALLS[number % len(CALLS)]
    after = number % 5 < 2
    end = AFTERS[int(rng.integers(len(AFTERS)))] if after else _one(rng, ENDS)
    kind = "clean: looks after the last call" if after else "clean"
    return start + "\n".join([calls, middle, later, end]) + "\n", kind, values


def _one(rng: np.random.Generator, choices: list[str]) -> str:
    return choices[int(rng.integers(len(choices)))]


def _anew(*words: str, cwd: Path) -> subprocess.CompletedProcess[str]:
    """`penstock words…` as a shell starts it."""
    return subprocess.run(
        [sys.executable, "-c", "import sys; from penstock.front.cli.main import main; sys.exit(main())", *words],
        capture_output=True, text=True, cwd=cwd, timeout=MOST_SECONDS, check=False, env=os.environ | {"PYTHONPATH": ""},
    )  # fmt: skip


def case(seed: int, folder: Path, run: Callable[..., subprocess.CompletedProcess[str]] = _anew) -> Result:
    """The script of a seed, recorded twice by the command, each time in a process of its own."""
    began, own = time.monotonic(), folder / str(seed)
    own.mkdir()
    text, kind, values = script(seed)
    program, package = own / "program.py", own / "program.pkg"
    program.write_text(text)
    options = ["--package", str(package), "-o", str(own / "t.parquet"), "--verify", "-q"]
    done = run("record", str(program), *options, cwd=own)
    faults, said = [], done.stderr.strip().splitlines()[-1:] or [""]
    if "no package: the script ended early" in done.stderr:
        faults.append(f"the script ended early: {said[0]}: {done.stderr[-300:]}")
    if kind.startswith("dependent"):
        ended = "found by --verify" if "second run" in done.stderr or "two runs" in done.stderr else "refused"
        if package.exists() or done.returncode != 1:
            ended = "packaged"
            faults.append(f"packaged, exit code {done.returncode}")
        elif "line " not in done.stderr:
            faults.append(f"refused without a line: {said[0]}")
        elif not any(reason in done.stderr for reason in ("decrypted", "not oblivious", "second run")):
            faults.append(f"refused for another reason: {said[0]}")
    else:
        ended = "packaged"
        if done.returncode or not package.exists():
            ended = "refused"
            faults.append(f"not packaged: {said[0][-300:]}")
        else:
            faults += found_in(package, values)
    calls = text.partition(HELPERS)[2].strip()
    return Result("leaks", kind, seed, ended, tuple(faults), time.monotonic() - began, notes=calls, detail=said[0])


def bench(folder: Path, count: int, seed: int, jobs: int) -> list[Result]:
    """Record the scripts of `count` seeds from `seed` on."""
    return reported(over(partial(case, folder=folder), range(seed, seed + count), jobs), count)
