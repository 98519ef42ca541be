"""A queue of tenants: the process that computes holds no secret key, and not even the library that makes them."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

MAIN = "import sys; from penstock.cli.main import main; sys.exit(main())"
SPY = '''
"""A job that looks through its own process for secret keys, wherever it is run."""

import json
import subprocess
import sys
from pathlib import Path

import numpy as np

PARAMS = "insecure-small"
FOLDER = Path(__file__).parent
WORDS = """
import pathlib, sys
import numpy as np

folder = pathlib.Path(sys.argv[1])
for path in sorted(folder.glob("keys.client/*/secret.key")):
    content = path.read_bytes()
    middle = len(content) // 2
    reads = [np.frombuffer(content, "<u8", 64, middle + shift) for shift in range(8)]
    print(*min(reads, key=max)[:4])  # coefficients are below their modulus where they begin
for path in sorted(folder.glob("keys.client/*/secret.pskey")):
    packed = path.read_bytes()[72:-32]  # four coefficients a byte
    middle = len(packed) // 16 * 8
    four = np.frombuffer(packed, np.uint8, 8, middle)[:, None] >> np.array([0, 2, 4, 6], np.uint8) & 3
    print(*(four.reshape(-1).astype(np.int8) - 1).view("<u8"))  # a byte each, as the client holds them
"""


def in_memory(sought):
    """Whether the words of each follow each other in this process. None of it holds them so: Python's have digits."""
    seen = [False] * len(sought)
    with open("/proc/self/mem", "rb", buffering=0) as memory:
        for line in Path("/proc/self/maps").read_text().splitlines():
            span, rights = line.split()[:2]
            begin, end = (int(each, 16) for each in span.split("-"))
            if not rights.startswith("rw") or line.endswith("[vvar]"):
                continue
            for at in range(begin, end, 1 << 22):
                memory.seek(at)
                try:
                    found = np.frombuffer(memory.read(min(end - at, 1 << 22)), np.uint64)
                except OSError:
                    break
                for number, words in enumerate(sought):
                    for place in np.flatnonzero(found == np.uint64(words[0])).tolist():
                        seen[number] |= [int(each) for each in found[place : place + 4]] == words
    return seen


def data(size, slots, seed):
    return np.full(slots, 0.5)


def program(ev, data, size):
    there = type(ev).__name__
    maps = Path("/proc/self/maps").read_text()
    library = "OPENFHE" in maps or "penstock_client" in maps
    imported = bool({"openfhe", "penstock_client"} & sys.modules.keys())
    seen = {"reading": there, "imported": imported, "library": library, "words": []}
    if there == "NativeEvaluator":
        lines = subprocess.run([sys.executable, "-c", WORDS, FOLDER], capture_output=True, text=True, check=True).stdout
        seen["words"] = in_memory([[int(each) for each in line.split()] for line in lines.splitlines()])
    with (FOLDER / "seen.jsonl").open("a") as file:
        print(json.dumps(seen), file=file)
    a = ev.encrypt(data)
    return ev.decrypt(ev.rescale(ev.mult(a, a)))
'''


def test_a_job_that_searches_its_process_finds_no_secret_key_of_anybody(tmp_path: Path, library: str) -> None:
    (tmp_path / "spy.py").write_text(SPY)
    (tmp_path / "tenants.toml").write_text('store = "keys"\nbudget = "100%"\ntenants = ["alice", "bob"]\n')
    row = '[[job]]\ntenant = "{}"\nworkload = "spy.py"\n'
    (tmp_path / "jobs.toml").write_text("".join(row.format(tenant) for tenant in ("bob", "alice", "bob")))
    command = [sys.executable, "-c", MAIN, "run", "--tenants", "tenants.toml", "--jobs", "jobs.toml", "-q"]
    command += ["--client-library", library]
    source = str(Path(__file__).parents[2] / "src")
    made = subprocess.run(
        [*command, "--threads", "1", "--scheduling", "fifo", "--format", "json"],
        cwd=tmp_path, env={**os.environ, "PYTHONPATH": source}, capture_output=True, text=True, check=False,
    )  # fmt: skip
    assert made.returncode == 0, made.stderr
    assert [(each["tenant"], each["passed"]) for each in json.loads(made.stdout)["jobs"]] == [
        ("bob", True),
        ("alice", True),
        ("bob", True),
    ]
    seen = [json.loads(line) for line in (tmp_path / "seen.jsonl").read_text().splitlines()]
    assert {"InputsOf", "NativeEvaluator", "ResultsOf"} <= {each["reading"] for each in seen}
    assert not any(each["imported"] or each["library"] for each in seen)
    # Both tenants' keys were looked for while each of the jobs computed.
    assert [each["words"] for each in seen if each["reading"] == "NativeEvaluator"] == [[False, False]] * 3
