"""One extension of each kind that docs/house.md names, built in a copy of the sources from the files that it lists.

`EXTENSIONS` writes or changes files; the page must list exactly these. The Rust ones are compiled together, once.
"""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import NamedTuple

import pytest

ROOT = Path(__file__).parents[3]
PAGE = ROOT / "docs" / "house.md"


class Change(NamedTuple):
    """An insertion beside a line, named by its beginning, of a file that is there."""

    line: str
    text: str
    """It follows the line that begins so."""
    before: bool = False
    replaces: bool = False


class Extension(NamedTuple):
    write: Mapping[str, str]
    """New file -> its text; `file:OTHER` copies one, with `sharp` or `fifo` named `mine`."""
    change: Mapping[str, tuple[Change, ...]]
    check: str
    """Python that runs in the copy."""


WORKLOAD = '''"""Twice a vector."""

from dataclasses import dataclass

import numpy as np

from penstock.program.workloads.parts.check import Check

NAME, DESCRIPTION, SOURCE, TOLERANCE = "mine", "twice a vector", "the tests", 1e-4


@dataclass(frozen=True)
class Size:
    params: str
    length: int


SIZES = {"ci": Size("insecure-ci", 8)}
DEFAULT_SIZE = ACCELERATOR_SIZE = "ci"


def data(size, slots, seed, path=None):
    return np.random.default_rng(seed).uniform(-1, 1, size.length)


def blank(size, slots):
    return np.zeros(size.length)


def program(ev, data, size):
    x = ev.encrypt(data)
    return ev.decrypt(ev.add(x, x))[: size.length]


def check(clear, got, data, size):
    error = float(np.max(np.abs(got - 2 * data)))
    return Check(passed=error < TOLERANCE, max_abs_error=error, tolerance=TOLERANCE)
'''
DOUBLED = """
import numpy as np
PARAMS = "insecure-ci"

def data(size, slots, seed):
    return np.linspace(-1, 1, 8)

def program(ev, data, size):
    return ev.decrypt(ev.double(ev.encrypt(data)))[:8]
"""
KEY_SOURCE = '''"""Keys of another source, each use counted."""

from penstock.runtime.native.keys import KeySource


class CountedKeys:
    def __init__(self, keys: KeySource) -> None:
        self._keys, self.waits_s, self.uses = keys, keys.waits_s, 0

    def get(self, key, limbs):
        self.uses += 1
        return self._keys.get(key, limbs)

    def traffic(self):
        return self._keys.traffic()

    def close(self):
        self._keys.close()
'''
USES_KEYS = """
import sys
sys.path.insert(0, {tests!r})
from pathlib import Path
from tempfile import TemporaryDirectory

from penstock.program.evaluator.symbolic import SymbolicEvaluator
from penstock.runtime.keystore import KeyStore
from penstock.runtime.native.client import PreparedEnds, open_client
from penstock.runtime.native.engine import EngineHere, make_context
from penstock.runtime.native.evaluator import NativeEvaluator
from penstock.runtime.native.keys import KeysHeld
from penstock.runtime.native.mine import CountedKeys
from penstock.runtime.native.store import add_missing_keys
from support.readings import X, read
from support.toy import toy

params = toy()
def program(ev):
    return [ev.rotate(ev.encrypt(X), 1)]
limbs = read(SymbolicEvaluator(params), program)[1].view().key_limbs()
with TemporaryDirectory() as folder:
    client, store = open_client(params, library="penstock"), KeyStore(Path(folder) / "store")
    add_missing_keys(client, store, "alice", limbs)
    content, outputs = client.encrypt(X).content, []
    sources = [KeysHeld(params, store, "alice", limbs), CountedKeys(KeysHeld(params, store, "alice", limbs))]
    for keys in sources:
        ends = PreparedEnds(params, [content])
        read(NativeEvaluator(EngineHere(params, make_context(params), keys), ends), program)
        outputs.append(ends.outputs)
        keys.close()
    client.release()
assert outputs[0] == outputs[1] and outputs[0], "the words are those of the source below"
assert sources[1].uses == 1
"""
DEVICE = """//! The processor under another name.

use penstock_ckks as ckks;

use crate::cpu::{Cpu, Encoded, Value};
use crate::device::Device;
use crate::program::{Form, Task};

pub struct Mine<'a>(pub Cpu<'a>);

impl Device for Mine<'_> {
    type Value = Value;
    type Vector = Encoded;

    fn host(&self) -> &ckks::Context {
        self.0.host()
    }

    fn import(&self, task: &Task, ciphertext: ckks::Ciphertext) -> Result<Value, ckks::Error> {
        self.0.import(task, ciphertext)
    }

    fn export(&self, task: &Task, value: &Value) -> Result<ckks::Ciphertext, ckks::Error> {
        self.0.export(task, value)
    }

    fn encode(&self, form: Form, coefficients: Vec<ckks::Coefficients>) -> Result<Vec<Encoded>, ckks::Error> {
        self.0.encode(form, coefficients)
    }

    fn vector_bytes(&self, vector: &Encoded) -> u64 {
        self.0.vector_bytes(vector)
    }

    fn perform(
        &self,
        task: &Task,
        operands: &[&Value],
        key: Option<&dyn ckks::KeyView>,
        vectors: &[&Encoded],
    ) -> Result<Vec<Value>, ckks::Error> {
        self.0.perform(task, operands, key, vectors)
    }

    fn scale(&self, value: &Value) -> Result<f64, ckks::Error> {
        self.0.scale(value)
    }

    fn bytes(&self, value: &Value) -> u64 {
        self.0.bytes(value)
    }

    fn free(&self, value: Value) {
        self.0.free(value);
    }
}
"""
SCHEME = '''"""BFV: a plaintext modulus beside what all schemes have."""

from dataclasses import dataclass

from penstock.scheme.params.rlwe import RlweParameters


@dataclass(frozen=True, slots=True, kw_only=True, repr=False)
class MineParameters(RlweParameters):
    plaintext_modulus: int
'''
SPEC = '''"""A set of BFV as a person writes it."""

from typing import ClassVar

from penstock.scheme.params import rules, security
from penstock.scheme.params.mine import MineParameters
from penstock.scheme.params.rlwe import KeyForm
from penstock.scheme.params.written import BitSizes, Whole, Written


class MineSpec(Written):
    _what: ClassVar[str] = "a BFV set"
    name: str
    ring_dim: Whole
    plaintext_modulus: Whole
    q_bits: BitSizes
    p_bits: BitSizes
    dnum: int
    word_bits: int = 64

    def build(self) -> MineParameters:
        rules.check_ring(f"parameter set '{self.name}'", self.name, self.ring_dim, self.word_bits)
        return MineParameters(
            **self.model_dump(), secret="uniform-ternary", key_form=KeyForm.FULL, library="accelerator",
            security_bits=0, security_note="insecure: a toy",
        )
'''
SET = """ring_dim = 4096
plaintext_modulus = 65537
q_bits = "2 x 36"
p_bits = "1 x 37"
dnum = 2
"""
SIZES = """
from penstock.scheme.params import catalogue

params = catalogue.spec("mine-insecure").build()
assert params.plaintext_modulus == 65537
assert params.key_bytes() == 2 * 2 * 3 * 4096 * 8, "digits * polynomials * limbs * coefficients * bytes"
"""


def runs(*words: str) -> str:
    """A command line that succeeds."""
    return f"from penstock.front.cli.main import main\nassert main({list(words)!r}) == 0\n"


EVALUATOR = "src/penstock/program/evaluator"
EXTENSIONS = {
    "a machine": Extension(
        {"src/penstock/scheme/machines/data/machines/mine.toml": "file:sharp.toml"},
        {},
        runs("machines", "check", "mine")
        + runs("simulate", "inner-product", "--params", "sharp", "--machine", "mine", "--tier", "pcie5"),
    ),
    "a policy": Extension(
        {"crates/penstock-sim/src/policy/mine.rs": "file:fifo.rs"},
        {},
        runs(
            "simulate",
            "inner-product",
            "--params",
            "sharp",
            "--machine",
            "sharp",
            "--tier",
            "pcie5",
            "--cache",
            "on-chip",
            "--policy",
            "mine",
        ),
    ),
    "a workload": Extension(
        {"src/penstock/program/workloads/mine.py": WORKLOAD}, {}, runs("run", "mine", "--reading", "native", "--quiet")
    ),
    "a reading": Extension(
        {"src/penstock/program/running/mine.py": "file:clear.py"},
        {
            "src/penstock/program/running/readings.py": (
                Change(
                    '    "clear": "penstock.program.running.clear",', '    "mine": "penstock.program.running.mine",'
                ),
            )
        },
        "from penstock.program.running import READINGS\nassert READINGS['mine'].name == 'mine'\n"
        + runs("run", "inner-product", "--size", "ci", "--reading", "mine", "--quiet"),
    ),
    "a key source": Extension({"src/penstock/runtime/native/mine.py": KEY_SOURCE}, {}, USES_KEYS),
    "an operation": Extension(
        {},
        {
            "crates/penstock-operations/src/lib.rs": (
                Change(
                    '    Output "output" Row::takes(C).makes_nothing()',
                    '    Double "double" Row::takes(C).code(28).work().traced("sum of a ciphertext with itself");',
                    before=True,
                ),
            ),
            "crates/penstock-run/src/cpu.rs": (
                Change(
                    "            Op::Negate =>",
                    "            Op::Double => context.add(given.cipher(0)?, given.cipher(0)?),",
                ),
            ),
            "src/penstock/scheme/operations.py": (
                Change('    COMPOSITE = "composite"', '    DOUBLE = "double"'),
                Change('    WEIGHTED_SUM = "weighted_sum"', '    DOUBLE = "double"'),
            ),
            "src/penstock/scheme/work/kernels.py": (
                Change("_element_wise(OpKind.MULT_SCALAR, scalings=1)", "_element_wise(OpKind.DOUBLE, sums=1)"),
            ),
            f"{EVALUATOR}/protocol.py": (
                Change(
                    "    def square(self, a: Ciphertext)",
                    '    def double(self, a: Ciphertext) -> Ciphertext:\n        """a + a."""\n'
                    '        return self.plain_call("double", a)\n',
                    before=True,
                ),
            ),
            f"{EVALUATOR}/clear.py": (
                Change(
                    "    def square(self, a: Values)",
                    '    def double(self, a: Values) -> Values:\n        return 2 * self._vector("double", a)\n',
                    before=True,
                ),
            ),
            f"{EVALUATOR}/noisy.py": (
                Change(
                    "@NOISE.of(_K.MULT, _K.MULT_NO_RELIN, _K.SQUARE)",
                    "NOISE.of(_K.DOUBLE)(lambda ev, call, a: ev._sum_of(a, a))\n",
                    before=True,
                ),
            ),
        },
        f"from pathlib import Path\nPath('doubled.py').write_text({DOUBLED!r})\n"
        + "".join(runs("run", "doubled.py", "--reading", reading, "--quiet") for reading in ("noisy", "native"))
        + "import sys\nsys.path.insert(0, {tests!r})\nfrom penstock.scheme.operations import operations\n"
        + "sys.path.insert(0, {tests!r} + '/unit/scheme')\nfrom test_operation_rules import lacking\n"
        + "assert lacking(operations()) == []\n",
    ),
    "a device": Extension(
        {"crates/penstock-run/src/mine.rs": DEVICE},
        {
            "crates/penstock-run/src/lib.rs": (
                Change("mod lanes;", "mod mine;"),
                Change("pub use lanes::", "pub use mine::Mine;"),
            ),
            "crates/penstock-py/src/program.rs": (
                Change(
                    '            "cpu" =>',
                    '            "mine" => py.detach(|| {\n                let mine = runs::Mine(cpu);\n'
                    "                runs::run(&mine, &program, &supply, options, watch)\n            }),",
                ),
            ),
        },
        "import sys\nsys.path.insert(0, {tests!r})\nsys.path.insert(0, {tests!r} + '/differential')\n"
        "import test_whole_programs as whole\nwith whole.opened('matrix-multiplication', 'ci') as pair:\n"
        "    pair.client.begin()\n    made = whole.compile_whole(pair.prepared, pair.program, pair.meta, 1)\n"
        "    whole.run_whole(pair.prepared, made, device='mine')\n    words = pair.client.decrypted\n"
        "    pair.whole(lanes=1)\n    assert words and pair.client.decrypted == words\n",
    ),
    "a scheme": Extension(
        {
            "src/penstock/scheme/params/mine.py": SCHEME,
            "src/penstock/scheme/params/mine_spec.py": SPEC,
            "src/penstock/scheme/params/data/mine-insecure.toml": SET,
        },
        {
            "src/penstock/scheme/params/catalogue.py": (
                Change(
                    "            _add(specs, CkksSpec.from_mapping(written, file.name))",
                    "            kind = MineSpec if 'plaintext_modulus' in written else CkksSpec\n"
                    "            _add(specs, kind.from_mapping(written, file.name))",
                    replaces=True,
                ),
                Change(
                    "from penstock.scheme.params.spec import", "from penstock.scheme.params.mine_spec import MineSpec"
                ),
            )
        },
        SIZES,
    ),
}


def listed() -> dict[str, tuple[set[str], set[str]]]:
    """Extension -> files that the page says to write and to change."""
    rows = re.findall(r"^\| (an? [\w ]+) \|([^|]*)\|([^|]*)\|$", PAGE.read_text(), re.MULTILINE)
    return {name: (_paths(write), _paths(change)) for name, write, change in rows}


def _paths(cell: str) -> set[str]:
    paths = (path.replace("NAME", "mine") for path in re.findall(r"`([^`]+)`", cell))
    return {f"crates/{path}" if path.startswith("penstock-") else f"src/penstock/{path}" for path in paths}


@pytest.mark.parametrize("name", EXTENSIONS)
def test_the_page_lists_the_files_of_an_extension(name):
    written, changed = listed()[name]
    files = set(EXTENSIONS[name].write)
    assert (written, changed) == (files, set(EXTENSIONS[name].change))


def test_every_extension_of_the_page_is_built():
    assert listed().keys() == EXTENSIONS.keys()


@pytest.fixture(scope="module")
def copy(tmp_path_factory):
    """The sources with every extension, compiled."""
    folder = tmp_path_factory.mktemp("house")
    names = subprocess.run(
        ["git", "ls-files", "src", "crates", "Cargo.toml", "Cargo.lock"],
        cwd=ROOT, capture_output=True, text=True, check=True,
    ).stdout.split()  # fmt: skip
    for name in names:
        if (ROOT / name).exists():
            (folder / name).parent.mkdir(parents=True, exist_ok=True)
            shutil.copyfile(ROOT / name, folder / name)
    for extension in EXTENSIONS.values():
        extend(folder, extension)
    own = {**os.environ, "CARGO_TARGET_DIR": str(ROOT / "target" / "extensions")}
    built = subprocess.run(
        ["cargo", "build", "--quiet", "--locked", "--offline", "-p", "penstock-py"],
        cwd=folder, env=own, capture_output=True, text=True, check=False,
    )  # fmt: skip
    assert built.returncode == 0, built.stderr
    shutil.copyfile(ROOT / "target/extensions/debug/lib_engine.so", folder / "src/penstock/_engine.abi3.so")
    return folder


def extend(folder: Path, extension: Extension) -> None:
    for name, text in extension.write.items():
        path = folder / name
        assert not path.exists()
        if text.startswith("file:"):
            beside = path.with_name(text.removeprefix("file:"))
            text = re.sub(rf'(name ?[:=] ?)"{beside.stem}"', r'\1"mine"', beside.read_text())
            text = re.sub(r"^(description = .*|disputed = \[\n(    .*\n)*\])\n", "", text, flags=re.MULTILINE)
        path.write_text(text)
    for name, changes in extension.change.items():
        path = folder / name
        for change in changes:
            lines = path.read_text().splitlines()
            (at,) = (number for number, line in enumerate(lines) if line.startswith(change.line))
            first = at if change.replaces or change.before else at + 1
            lines[first : first + change.replaces] = change.text.splitlines()
            path.write_text("\n".join(lines) + "\n")


@pytest.mark.long
@pytest.mark.parametrize("name", EXTENSIONS)
def test_an_extension_takes_no_more_files_than_the_page_says(name, copy, tmp_path):
    code = EXTENSIONS[name].check.replace("{tests!r}", repr(str(ROOT / "tests")))
    own = {**os.environ, "PYTHONPATH": str(copy / "src"), "OMP_NUM_THREADS": "1"}
    done = subprocess.run(
        [sys.executable, "-c", code], cwd=tmp_path, env=own, capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stderr[-2000:]
