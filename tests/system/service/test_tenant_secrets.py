"""A queue of tenants: no process that computes or runs a program holds a secret key, or the library that makes them."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

SPY = '''
"""A job that looks for secret keys wherever it is run, and in the worker while another one computes."""

import json
import os
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


def in_memory(process, sought):
    """Whether the words of each follow each other in a process. None of it holds them so: Python's have digits."""
    seen = [False] * len(sought)
    with open(f"/proc/{process}/mem", "rb", buffering=0) as memory:
        for line in Path(f"/proc/{process}/maps").read_text().splitlines():
            span, rights = line.split()[:2]
            begin, end = (int(each, 16) for each in span.split("-"))
            if not rights.startswith("rw") or line.endswith("[vvar]"):
                continue
            for at in range(begin, end, 1 << 22):
                try:
                    memory.seek(at)
                    found = np.frombuffer(memory.read(min(end - at, 1 << 22)), np.uint64)
                except (OSError, ValueError):
                    break
                for number, words in enumerate(sought):
                    for place in np.flatnonzero(found == np.uint64(words[0])).tolist():
                        seen[number] |= [int(each) for each in found[place : place + 4]] == words
    return seen


def look(where, process="self"):
    """Note the libraries in a process, and whether a secret key of anybody is in its memory."""
    try:
        maps = Path(f"/proc/{process}/maps").read_text()
    except PermissionError:
        # The kernel hides a worker's memory from every user but root, and so from this one: it has to be a process
        # that cannot be dumped, whose files in /proc are root's.
        assert process != "self" and Path(f"/proc/{process}/mem").stat().st_uid == 0 != os.getuid()
        maps, process = "", None
    lines = subprocess.run([sys.executable, "-c", WORDS, FOLDER], capture_output=True, text=True, check=True).stdout
    sought = [[int(each) for each in line.split()] for line in lines.splitlines()]
    seen = {
        "where": where,
        "imported": process == "self" and bool({"openfhe", "penstock_client"} & sys.modules.keys()),
        "library": "OPENFHE" in maps or "penstock_client" in maps,
        "keys": [False] * len(sought) if process is None else in_memory(process, sought),
    }
    with (FOLDER / "seen.jsonl").open("a") as file:
        print(json.dumps(seen), file=file)


def data(size, slots, seed):
    return np.full(slots, 0.5)


def program(ev, data, size):
    look(type(ev).__name__)
    a = ev.encrypt(data)
    return ev.decrypt(ev.rescale(ev.mult(a, a)))
'''
WATCHED = """
import sys
sys.path.insert(0, {folder!r})
import spy
from penstock.front.cli.main import main
from penstock.service.work.pool import WorkerPool

ended = WorkerPool._ended

def watched(self, worker, *rest):
    spy.look("worker", worker.pid)
    return ended(self, worker, *rest)

WorkerPool._ended = watched
sys.exit(main())
"""


def test_neither_the_front_nor_the_worker_of_a_queue_holds_a_secret_key_of_anybody(
    tmp_path: Path, library: str
) -> None:
    (tmp_path / "spy.py").write_text(SPY)
    (tmp_path / "tenants.toml").write_text('store = "keys"\nbudget = "100%"\ntenants = ["alice", "bob"]\n')
    row = '[[job]]\ntenant = "{}"\nworkload = "spy.py"\n'
    (tmp_path / "jobs.toml").write_text("".join(row.format(tenant) for tenant in ("bob", "alice", "bob")))
    command = [sys.executable, "-c", WATCHED.format(folder=str(tmp_path))]
    command += ["run", "--tenants", "tenants.toml", "--jobs", "jobs.toml", "-q", "--client-library", library]
    source = str(Path(__file__).parents[3] / "src")
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
    assert {"CaptureEvaluator", "worker"} <= {each["where"] for each in seen}
    assert not any(each["imported"] or each["library"] or any(each["keys"]) for each in seen)
    # Both tenants' keys were looked for in the worker, with the memory of each job still there.
    assert [each["keys"] for each in seen if each["where"] == "worker"] == [[False, False]] * 3
