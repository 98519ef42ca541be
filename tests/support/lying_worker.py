"""A worker that a package has taken over: what it says of a job is the lie that the job's program names.

Run as `penstock.service.work.worker` is: `python tests/support/lying_worker.py FD PARENT`. Jobs of `honest` end well.
"""

from __future__ import annotations

import json
import socket
import struct
import sys
import time
from pathlib import Path
from typing import Any

FIGURES = {"queue_s": 0, "key_wait_s": 0, "compute_s": 0.5, "read_bytes": 1, "hits": 1, "misses": 1, "peak_bytes": 1}
LIES: dict[str, list[Any]] = {
    "no-job": [{"kind": "done"}],
    "no-object": [[1, 2]],
    "no-json": ["{"],
    "no-kind": [{"job": "JOB"}],
    "other-kind": [{"kind": "mischief", "job": "JOB"}],
    "deep": ["[" * 200_000],
    "wrong-type": [{"kind": "figures", "progress": 3, "kept": {}}],
    "nan": [{"kind": "done", "job": "JOB", "figures": {**FIGURES, "compute_s": float("nan")}, "times": "TIMES"}],
    "negative": [{"kind": "done", "job": "JOB", "figures": {**FIGURES, "hits": -1}, "times": "TIMES"}],
    "huge": [{"kind": "done", "job": "JOB", "figures": {**FIGURES, "compute_s": 1e300}, "times": "TIMES"}],
    "short-times": [{"kind": "done", "job": "JOB", "figures": FIGURES, "times": {"slot": 1}}],
    "other-job": [{"kind": "failed", "job": "another", "reason": "", "retry": False}],
    "computing-twice": [{"kind": "computing", "job": "JOB"}] * 2,
    "residents": [{"kind": "computing", "job": "JOB", "cache": {"residents": {"victim": {"k": 1 << 40}}}}],
    "other-program": [{"kind": "program", "package": "/victim.pkg", "needs": {"k": 1}, "compute_s": 1.0}],
    "reads": [{"kind": "computing", "job": "JOB", "reads": [["victim", "k", 1, 1, True, 0.0, 1.0]]}],
    "flood": [{"kind": "figures", "progress": {}, "kept": {}}] * 5000,
    "long": [b"\x7f\xff\xff\xff"],
    "half": [b"\x00\x00\x10\x00{"],
}
"""Program -> what is said: objects, text that is no JSON, or bytes without a length."""


def main() -> None:
    end = socket.socket(fileno=int(sys.argv[1]))

    def read(size: int) -> bytes:
        content = b""
        while len(content) < size:
            piece = end.recv(size - len(content))
            if not piece:
                sys.exit()
            content += piece
        return content

    def say(lie: object) -> None:
        content = lie if isinstance(lie, bytes) else (lie if isinstance(lie, str) else json.dumps(lie)).encode()
        end.sendall(content if isinstance(lie, bytes) else struct.pack("!i", len(content)) + content)

    say({"kind": "ready", "isolation": {}})
    while True:
        told = json.loads(read(struct.unpack("!i", read(4))[0]))
        if told["kind"] != "run":
            continue
        job, began_s = told["job"], time.monotonic()
        if job["program"] == "deaf":
            time.sleep(3600)
        times = {"slot": 0, "begun_s": began_s, "run_s": began_s, "ran_s": began_s, "ended_s": began_s, "key_waits": []}
        for lie in LIES.get(job["program"], []):
            filled = lie if isinstance(lie, bytes | str) else json.dumps(lie).replace("JOB", job["job"])
            say(filled.replace('"TIMES"', json.dumps(times)) if isinstance(filled, str) else filled)
        if job["program"] not in ("hasty", "honest"):
            continue
        for path in job["outputs"].values():
            Path(path).write_bytes(b"result")
        figures = {**FIGURES, "compute_s": time.monotonic() - began_s}
        if job["program"] == "hasty":  # as if it had been long ago, and had taken for ever
            time.sleep(0.3)
            times, figures = (
                {**times, "begun_s": 0, "run_s": 0, "ran_s": 0, "ended_s": 0},
                {**FIGURES, "compute_s": 9e9},
            )
        say({"kind": "done", "job": job["job"], "figures": figures, "times": times})


if __name__ == "__main__":
    main()
