"""What a reader of the documentation has of their own: scripts, data, a context with keys, a finished measurement.

A page names it ahead of a block (`<!-- the reader has: NAME, … -->`); it is made when the first block asks for it.
"""

from __future__ import annotations

import os
import subprocess
from collections.abc import Callable
from contextlib import ExitStack
from functools import partial
from pathlib import Path
from shutil import copytree
from typing import Any

import pytest

from penstock.front.cli.main import main
from support.bench_rows import folder_of, points_of, rows_of
from support.docs_blocks import ROOT
from support.docs_commands import carried_out
from support.own_process import COMMAND

SCRIPT = """
import argparse

from openfhe import *

parser = argparse.ArgumentParser()
parser.add_argument("--layers", type=int, default=1)
layers = parser.parse_args().layers
parameters = CCParamsCKKSRNS()
parameters.SetMultiplicativeDepth(layers)
parameters.SetScalingModSize(50)
parameters.SetSecurityLevel(HEStd_NotSet)
parameters.SetRingDim(1 << 11)
cc = GenCryptoContext(parameters)
for feature in (PKESchemeFeature.PKE, PKESchemeFeature.KEYSWITCH, PKESchemeFeature.LEVELEDSHE):
    cc.Enable(feature)
keys = cc.KeyGen()
cc.EvalMultKeyGen(keys.secretKey)
x = cc.Encrypt(keys.publicKey, cc.MakeCKKSPackedPlaintext([0.5] * 8))
for _ in range(layers):
    x = cc.EvalSquare(x)
print(cc.Decrypt(x, keys.secretKey))
"""
PROGRAM = """

PARAMS = "insecure-ci"

def data(size, slots, seed):
    return np.linspace(0, 1, slots)

def program(ev, data, size):
    return ev.decrypt(ev.square(ev.encrypt(data)))
"""
SUITE = """
[timing]
min_time = "1 ms"
runs = 4
[[primitives]]
items = ["add", "rotate"]
ring_dim = "2^11"
depth = 4
"""
MEASURED = """
[[primitives]]
items = ["add", "mult_plain", "rescale", "decompose", "rotate_hoisted", "rotate", "mult"]
ring_dim = ["2^11", "2^12", "2^13"]
depth = [4, 8]
limbs = ["fresh", 4, "last"]
threads = [1, 2]
"""


class Reader:
    """One reader of one page: a folder, the names of the page's Python, and what ends with the page."""

    def __init__(self, folder: Path, *, thorough: bool) -> None:
        self.folder = folder
        self.thorough = thorough
        """Whether the page is read at its full sizes, as `make docs-check` does."""
        self.names: dict[str, Any] = {}
        self.ending = ExitStack()
        self._there: set[str] = set()

    def has(self, *names: str) -> None:
        """Make what is named and not there yet. Raises: KeyError: nothing has this name."""
        for name in names:
            if name not in self._there:
                self._there.add(name)
                THINGS[name](self)

    def text(self, name: str, content: str) -> Path:
        path = self.folder / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(content)
        return path

    def penstock(self, *words: str) -> None:
        assert main([*words, "--quiet"]) == 0, words


def context(reader: Reader) -> None:
    """An OpenFHE context `cc` with keys for rotations by 1 and 2, and its `secret_key`."""
    from penstock.program.openfhe.evaluator import OpenFheContext, load_openfhe
    from penstock.program.openfhe.recorder.context import stop
    from penstock.scheme.params import catalogue

    params = catalogue.get("openfhe-bench" if reader.thorough else "insecure-ci")
    made = OpenFheContext.create(params, rotation_steps=(1, 2))
    reader.names |= {"openfhe": load_openfhe(), "cc": made.context, "secret_key": made.secret_key}
    reader.ending.callback(made.release)
    reader.ending.callback(partial(stop, made.context))


def stored_keys(reader: Reader) -> None:
    """Tenant alice's keys in the store `keys`; `digest`, and the `trace` of what a program asks for."""
    from penstock.runtime.keystore import KeyStore

    reader.has("context")
    cc, secret_key, openfhe = (reader.names[name] for name in ("cc", "secret_key", "openfhe"))
    params = "openfhe-bench" if reader.thorough else "insecure-ci"
    assert cc.SerializeEvalAutomorphismKey("alice.bin", openfhe.BINARY, secret_key.GetKeyTag())
    reader.penstock("keys", "import", "--tenant", "alice", "--params", params, "alice.bin")
    kept = [each.name for each in KeyStore(Path("keys")).list_keys(tenant="alice")]
    trace = [(name.key, limbs) for limbs in (5, 3, 4) for name in kept]
    reader.names |= {"Path": Path, "digest": kept[0].digest, "trace": trace}


def key_files(reader: Reader) -> None:
    """What OpenFHE serialized: `rotations.bin` and `relin.bin` of one context, `one.bin` of one key."""
    reader.has("context")
    cc, secret_key, openfhe = (reader.names[name] for name in ("cc", "secret_key", "openfhe"))
    tag = secret_key.GetKeyTag()
    assert cc.SerializeEvalAutomorphismKey("rotations.bin", openfhe.BINARY, tag)
    assert cc.SerializeEvalMultKey("relin.bin", openfhe.BINARY, tag)
    assert openfhe.SerializeToFile("one.bin", cc.GetEvalMultKeyVector(tag)[0], openfhe.BINARY)


def new_keys(reader: Reader) -> None:
    """A key of tenant carol in the store `keys`, and `new.pkey`, the same key of a new pair of hers."""
    from penstock.runtime.client import KeyPair
    from penstock.scheme.params import catalogue

    params = catalogue.get("openfhe-bench" if reader.thorough else "insecure-ci")
    for name in ("old", "new"):
        KeyPair.generate(params).write_key("rot:5", reader.folder / f"{name}.pkey", tenant="carol")
    reader.penstock("keys", "import", "--tenant", "carol", "old.pkey")


def node(reader: Reader) -> None:
    """A key node at `node.sock` with alice's keys; her `inputs` of an inner product, and `params`, `context`, `tag`."""
    from penstock.program.running.reading import resolve
    from penstock.runtime.keystore import KeyStore, parameter_digest
    from penstock.runtime.native.engine import make_context
    from penstock.service.near.node import KeyNode, NodeOptions
    from penstock.service.near.tokens import read_secret, token_of
    from penstock.service.owners import Owners
    from penstock.service.tenants import Job

    params = resolve("inner-product", None, "ci")[2]
    # Not the folder of the page's own store: it has another key pair of alice's.
    folder = reader.folder / "keys-of-the-node"
    clients = Owners(folder)
    reader.ending.callback(clients.release)
    job = Job(tenant="alice", workload="inner-product", size="ci", params=params.name)
    (made,) = clients.prepare([job])
    secret = read_secret(Path("secret"))
    options = NodeOptions(budget_bytes=8 * params.key_bytes())
    serving = reader.ending.enter_context(KeyNode(params, KeyStore(folder), secret, "unix:node.sock", options))
    serving.start()
    reader.names |= {
        "params": params,
        "context": make_context(params),
        "token": token_of(secret, "alice", parameter_digest(params), made.spec.secret_tag),
        "tag": made.spec.secret_tag,
        "inputs": [path.read_bytes() for path in made.spec.inputs.values()],
    }


def _end(process: subprocess.Popen[str], log: Path) -> None:
    """End a server within a minute. Raises: AssertionError: it has to be killed, with its last lines."""
    process.terminate()
    try:
        process.wait(60)
    except subprocess.TimeoutExpired:
        process.kill()
        raise AssertionError(f"the server did not end in a minute: {log.read_text()[-4000:]}") from None


def service(reader: Reader) -> None:
    """A service with the tenant `default`; its address and token in the environment, and the token in a file."""
    words = ["serve", "--folder", "service", "--port", "0", "--admin-port", "0", "--log", "serve.log"]
    process = reader.ending.enter_context(
        subprocess.Popen(
            [*COMMAND, *words], stdout=subprocess.PIPE, text=True, env={**os.environ, "PYTHONUNBUFFERED": "1"}
        )
    )
    reader.ending.callback(partial(_end, process, reader.folder / "serve.log"))
    assert process.stdout is not None
    found: dict[str, str] = {}
    for line in process.stdout:
        said, _, last = line.strip().rpartition(" ")
        found[said] = last
        if said == "operators:":
            break
    given = {
        "PENSTOCK_SERVICE": found["tenants:"],
        "PENSTOCK_TOKEN": found["token of the tenant 'default', shown once:"],
    }
    reader.ending.enter_context(pytest.MonkeyPatch.context()).setenv("PENSTOCK_SERVICE", given["PENSTOCK_SERVICE"])
    reader.ending.enter_context(pytest.MonkeyPatch.context()).setenv("PENSTOCK_TOKEN", given["PENSTOCK_TOKEN"])
    reader.text("token", given["PENSTOCK_TOKEN"]).chmod(0o600)


def secret(reader: Reader) -> None:
    """The file of a node's secret."""
    reader.text("secret", "0123456789abcdef0123456789abcdef").chmod(0o600)


def fit_run(reader: Reader) -> None:
    """A finished run of the suite `fit`, on an imagined CPU."""
    from penstock.lab.fit.measurements import primitive_shape
    from penstock.lab.measure.bench.catalogue import PRIMITIVES
    from support.imagined_cpu import true_seconds

    def seconds(point: Any, run: int) -> float:
        kind = PRIMITIVES[point.item].kind
        assert kind is not None
        shape = primitive_shape(kind, point.params, point.limbs or point.params.num_q)
        return true_seconds(shape, point.params, point.threads) * (0.995 + 0.005 * (run % 3))

    folder_of(reader.folder / "runs" / "fit", rows_of(points_of(MEASURED), seconds), suite="fit")


def machine(reader: Reader) -> None:
    """`mine.toml`: a CPU that was fitted to its primitives."""
    reader.has("runs/fit")
    reader.penstock("predict", "fit", "runs/fit", "-o", "mine.toml")


def genotypes(reader: Reader) -> None:
    """`genotypes.csv`: 40 people, 8 variants, and a disease."""
    lines = ["sample,phenotype," + ",".join(f"rs{n}" for n in range(8))]
    lines += [f"p{i},{i % 2}," + ",".join(str((i * (n + 3) + i // 2) % 3) for n in range(8)) for i in range(40)]
    reader.text("genotypes.csv", "\n".join(lines) + "\n")


def kernels(reader: Reader) -> None:
    """`kernels.csv`: the timings that the page shows."""
    page = (ROOT / "docs" / "guides" / "machines.md").read_text()
    reader.text("kernels.csv", page.split("```csv\n", 1)[1].split("```", 1)[0])


def bench_run(reader: Reader) -> None:
    """`runs/before`: a finished run of a suite, as small as can be, or the one that the page has made."""
    if (reader.folder / "runs" / "today").exists():
        copytree(reader.folder / "runs" / "today", reader.folder / "runs" / "before")
        return
    reader.has("mini.toml")
    code, out, messages = carried_out(["penstock", "bench", "run", "--suite", "mini.toml", "-o", "runs/before"])
    assert code == 0, out + messages


def same_run(reader: Reader) -> None:
    """`runs/after`: the same measurements, so that nothing is slower."""
    reader.has("runs/before")
    copytree(reader.folder / "runs" / "before", reader.folder / "runs" / "after")


def two_runs(reader: Reader) -> None:
    """`runs/before` and `runs/after`: of `penstock analyze`."""
    for name in ("before", "after"):
        words = ["analyze", "inner-product", "--size", "ci", "-o", f"runs/{name}"]
        code, out, messages = carried_out(["penstock", *words])
        assert code == 0, out + messages


def people(reader: Reader) -> None:
    """An encrypted database to ask."""
    words = ["--kind", "pir", "--records", "16384", "--record-bytes", "16"]
    reader.penstock("database", "make", "people", *words)


def program_trace(reader: Reader) -> None:
    """`program_trace.bin`: what HERACLES' tools write."""
    reader.penstock("trace", "inner-product", "--params", "openfhe-bench", "-o", "some.parquet")
    assert main(["trace", "export", "some.parquet", "--to", "heracles", "-o", "program_trace.bin"]) == 0


THINGS: dict[str, Callable[[Reader], object]] = {
    "my_model.py": lambda reader: reader.text("my_model.py", SCRIPT),
    "my_script.py": lambda reader: reader.text("my_script.py", SCRIPT),
    "score.py": lambda reader: reader.text("score.py", PROGRAM),
    "mini.toml": lambda reader: reader.text("mini.toml", SUITE),
    "genotypes.csv": genotypes,
    "kernels.csv": kernels,
    "program_trace.bin": program_trace,
    "runs/fit": fit_run,
    "runs/before": bench_run,
    "runs/after": same_run,
    "two runs": two_runs,
    "mine.toml": machine,
    "people": people,
    "secret": secret,
    "service": service,
    "context": context,
    "key files": key_files,
    "new keys": new_keys,
    "values": lambda reader: reader.text("values.json", "[0.5, -0.25, 1.0, 0.0]"),
    "stored keys": stored_keys,
    "node": node,
    "work": lambda reader: reader.names.update(work=lambda: sum(range(1000))),
}
