"""Step 9: the search. It opens evaluation keys, the encrypted database and the encrypted query, and nothing else."""

import os
import sys
import time
from pathlib import Path

from steps import MEMORY, Places, fresh, places, write_json

from penstock.base.units import format_bytes, parse_bytes
from penstock.errors import PenstockError
from penstock.lab.measure.timings import benchmark_of
from penstock.runtime.similarity.server import SearchAnswer, Server
from penstock.runtime.similarity.where import where


def say(text: str) -> None:
    """One line, at once."""
    print(f"         [server] {text}", flush=True)


def search(at: Places) -> tuple[SearchAnswer, float]:
    """The answer, and the seconds in which the database was opened."""
    begun = time.perf_counter()
    memory = None if at.memory is None else parse_bytes(at.memory, MEMORY)
    server = Server(at.keys, at.database, memory_bytes=memory, option=MEMORY)
    opened_s = time.perf_counter() - begun
    say(f"opened the database in {opened_s:.2f} s")
    say(server.plan(count_only=at.count_only).memory.words())
    answer = server.answer(
        at.query.read_bytes(),
        count_only=at.count_only,
        on_step=lambda name, seconds: say(f"{name}: {seconds:.2f} s"),
    )
    return answer, opened_s


def report(at: Places, answer: SearchAnswer) -> None:
    """The predicted memory beside the measured one."""
    assert answer.plan is not None
    assert answer.traffic is not None
    predicted, measured = answer.plan.memory.total_bytes, answer.peak_bytes
    say(
        f"memory: predicted {format_bytes(predicted)}, measured {format_bytes(measured)}, "
        f"{predicted / measured - 1:+.1%}"
    )
    keys = answer.traffic
    write_json(
        at.io / "server_memory.json",
        {
            "predicted": answer.plan.memory.to_dict(),
            "measured_peak_bytes": measured,
            "measured_key_bytes": keys.read_bytes + keys.expanded_bytes,
            "measured_key_peak_bytes": keys.peak_resident_bytes,
            "measured_database_bytes": answer.database_bytes,
            "measured_constants_encoded": answer.num_encoded,
        },
    )


begun = time.perf_counter()
at = places()
try:
    answer, opened_s = search(at)
except PenstockError as error:
    sys.exit(f"penstock: {error}")
fresh(at.result).write_bytes(answer.content)
report(at, answer)
if path := os.environ.get("SIMILARITY_WHERE"):
    write_json(Path(path), where(answer))
if path := os.environ.get("SIMILARITY_TIMINGS"):
    write_json(Path(path), benchmark_of(answer.trace, len(os.sched_getaffinity(0))))
seconds = {name: round(value, 3) for name, value in answer.seconds.items()}
write_json(at.io / "server_reported_steps.json", {**seconds, "Total": round(time.perf_counter() - begun, 3)})
