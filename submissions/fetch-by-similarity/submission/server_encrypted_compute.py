"""Step 9: the search. It opens evaluation keys, the encrypted database and the encrypted query, and nothing else."""

import os
import time
from pathlib import Path

from steps import fresh, places, write_json

from penstock.measure.timings import benchmark_of
from penstock.similarity.server import Server
from penstock.similarity.where import where

begun = time.perf_counter()
at = places()
server = Server(at.keys, at.database)
print(f"         [server] opened the database in {time.perf_counter() - begun:.2f} s", flush=True)
answer = server.answer(
    at.query.read_bytes(),
    count_only=at.count_only,
    on_step=lambda name, seconds: print(f"         [server] {name}: {seconds:.2f} s", flush=True),
)
fresh(at.result).write_bytes(answer.content)
if path := os.environ.get("SIMILARITY_WHERE"):
    write_json(Path(path), where(answer))
if path := os.environ.get("SIMILARITY_TIMINGS"):
    write_json(Path(path), benchmark_of(answer.trace, server.threads))
seconds = {name: round(value, 3) for name, value in answer.seconds.items()}
write_json(at.io / "server_reported_steps.json", {**seconds, "Total": round(time.perf_counter() - begun, 3)})
