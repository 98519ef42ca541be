"""The workload's own process: `python -m penstock.lab.measure.child`, so that perf attaches to nothing else.

Requests come on stdin and answers go to the file descriptor given, one JSON object a line. A switch is a pair of
perf's control pipes, which this process writes itself: the region's borders are where the program is.
"""

from __future__ import annotations

import json
import os
import sys
from dataclasses import asdict
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, TextIO

from penstock.base.types import Row
from penstock.errors import PenstockError

if TYPE_CHECKING:
    from penstock.program.openfhe.evaluator import OpenFheContext
    from penstock.scheme.traces.schema import Trace


class ParentChannel:
    """Answers to the parent, and questions that it answers."""

    def __init__(self, answers: TextIO, requests: TextIO) -> None:
        self._answers, self._requests = answers, requests

    def say(self, message: Row) -> None:
        self._answers.write(json.dumps(message) + "\n")
        self._answers.flush()

    def hear(self) -> Row:
        """The next request; the end of the parent is the request to end."""
        line = self._requests.readline()
        request: Row = json.loads(line) if line else {"do": "end"}
        return request


class PipeSwitch:
    """perf's control pipes as a switch."""

    def __init__(self, control: str, acknowledge: str) -> None:
        from penstock.lab.measure.perf import Control

        self._control = Control(Path(control), Path(acknowledge))
        self.failed = False
        """perf did not answer: the run goes on, and the parent marks what perf counted as unavailable."""

    def __call__(self, on: bool) -> None:
        if not self.failed:
            self.failed = not self._control.send("enable" if on else "disable")

    def close(self) -> None:
        self._control.close()


def parent_switch(channel: ParentChannel, on: bool) -> None:
    """A switch that only the parent can throw (valgrind's); it answers when it is done."""
    channel.say({"switch": "on" if on else "off"})
    channel.hear()


def serve(channel: ParentChannel, job: Row) -> None:
    """Make the workload's keys once, then run it as often as the parent asks."""
    from penstock.lab.measure.energy import EnergyMeter, packages
    from penstock.lab.measure.region import Region, RegionEvaluator, RegionSwitch
    from penstock.program.running.clear import run_clear
    from penstock.program.running.openfhe import prepared_openfhe
    from penstock.program.running.reading import resolve

    name, params, size, seed = job["workload"], job["params"], job["size"], job["seed"]
    module, size_name, checked = resolve(name, params, size)
    data_path = Path(job["data"]) if job["data"] else None
    data = module.data(module.SIZES[size_name], checked.slots, seed, data_path)
    clear = run_clear(name, checked, size_name, seed, data) if job["check"] else None
    with prepared_openfhe(name, checked, size_name, seed, data, threads=job["threads"]) as run:
        channel.say({"ready": True, "pid": os.getpid()})
        while (request := channel.hear())["do"] == "run":
            pipes = [PipeSwitch(*paths) for paths in request["controls"]]
            switches: list[RegionSwitch] = [*pipes]
            counters = packages() if request["energy"] else None
            energy = EnergyMeter(counters) if isinstance(counters, list) else None
            if request["parent_switch"]:
                switches.append(partial(parent_switch, channel))
            if energy:
                switches.append(energy.switch)
            region = Region(switches)
            try:
                made: list[RegionEvaluator] = []

                def evaluator(
                    context: OpenFheContext, region: Region = region, made: list[RegionEvaluator] = made
                ) -> RegionEvaluator:
                    made.append(RegionEvaluator(context, region))
                    return made[0]

                done = run(evaluator)
            finally:
                region.off()
                for pipe in pipes:
                    pipe.close()
            answer: Row = {
                "wall_s": region.wall_s, "program_s": done.wall_s, "setup_s": sum(done.setup_s.values()),
                "intervals": region.intervals, **asdict(region.used),
                "energy_j": energy.joules if energy else None,
                "num_operations": len(done.trace.view().server_operations()),
                "failed_controls": [i for i, pipe in enumerate(pipes) if pipe.failed],
            }  # fmt: skip
            if request["spans"]:
                answer["spans"] = _spans(done.trace, made[0].origin)
            if clear is not None:
                check = module.check(clear, done.result, data, module.SIZES[size_name])
                answer |= {name: getattr(check, name) for name in ("passed", "max_abs_error", "tolerance", "rules")}
            channel.say(answer)


def _spans(trace: Trace, origin_s: float) -> list[tuple[str, int, float, float]]:
    """Kind, limbs, start and end of each operation as the library was called, on the monotonic clock."""
    operations = trace.view(composites=True).operations
    columns = [operations[name].to_pylist() for name in ("kind", "limbs_in", "start_s", "end_s")]
    return [
        (kind, limbs, start + origin_s, end + origin_s)
        for kind, limbs, start, end in zip(*columns, strict=True)
        if start is not None and end is not None
    ]


def main() -> int:
    """Answer on the file descriptor named by the first argument until stdin ends."""
    with os.fdopen(int(sys.argv[1]), "w", encoding="utf-8") as answers:
        channel = ParentChannel(answers, sys.stdin)
        try:
            serve(channel, channel.hear())
        except PenstockError as error:
            channel.say({"error": str(error), "exit_code": error.exit_code})
            return error.exit_code
        except MemoryError:
            channel.say({"error": "the workload ran out of memory; take a smaller --size", "exit_code": 1})
            return 1
    return 0


if __name__ == "__main__":
    sys.exit(main())
