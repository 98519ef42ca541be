"""A process that examines one package: it may take as much memory as its limit, and no more.

The front starts it at each deployment, so that a package that lies costs the front nothing. It prints one JSON line.
"""

from __future__ import annotations

import json
import resource
import sys
from pathlib import Path

import pyarrow.compute as pc

from penstock.base.system.workers import no_core_files
from penstock.base.types import Row
from penstock.errors import PenstockError
from penstock.lab.prediction.prediction import predict
from penstock.program.evaluator.tally import tally_of
from penstock.program.package.file import check_package, complex_outputs
from penstock.runtime.native.engine import make_context
from penstock.scheme.machines import load_machine
from penstock.scheme.traces.schema import Trace
from penstock.service.work.messages import HEADER_BYTES
from penstock.service.work.programs import check_runs, job_bytes, plan_program


def describe(path: Path, key_bytes: int, machine: str = "") -> Row:
    """The description of a program: inputs, outputs, parameters, keys and predictions.

    Keys, parameters and seconds come from `plan_program`, with which workers compile the program.

    Args:   key_bytes: a worker's budget of keys. machine: a fitted machine's name or file; without it, seconds are of
            one nominal core with all keys in memory.
    Raises: PackageError: no package. UsageError: the budget does not hold one key of it.
    """
    check_package(path)
    planned = plan_program(path, key_bytes)
    make_context(planned.params)  # what a worker and a submission refuse of a set is refused now
    check_runs(planned)
    package, params, tally = planned.package, planned.params, tally_of(planned.trace)
    are_complex = complex_outputs(package)
    keys = [{"key": key, "limbs": limbs, "bytes": planned.needs[key]} for key, limbs in planned.keys.items()]
    return {
        "program": package.name,
        "description": package.description,
        "inputs": [
            {
                "name": vector.name,
                "length": vector.length,
                "limbs": vector.limbs or params.num_q,
                "complex": vector.is_complex,
            }
            for vector in package.inputs
        ],
        "outputs": [
            {"name": vector.name, "length": vector.length, "complex": vector.name in are_complex}
            for vector in package.outputs
        ],
        "output_bytes": _output_bytes(planned.trace),
        "params": params.to_dict(),
        "keys": keys,
        "planned_key_bytes": key_bytes,
        "predicted": {
            "seconds": predict(tally, load_machine(machine)).known_s if machine else planned.compute_s,
            "basis": f"machine {machine}" if machine else "one nominal core, keys in memory",
            "memory_bytes": job_bytes(planned, tally.live_bytes),
            "key_bytes": planned.key_bytes,
            "key_bytes_read": tally.key_bytes_touched(),
            "operations": tally.num_operations,
        },
    }


def _output_bytes(trace: Trace) -> int:
    """Of the files of all results."""
    rows, sizes = trace.operations.filter(pc.equal(trace.operations["kind"].cast("string"), "decrypt")), trace.objects
    size_of = dict(zip(sizes["id"].to_pylist(), sizes["bytes"].to_pylist(), strict=True))
    return sum(HEADER_BYTES + sum(size_of[each] for each in operands) for operands in rows["operands"].to_pylist())


def main(path: str, most_bytes: str, key_bytes: str, machine: str = "") -> int:
    """Print the description of a package, or why it is refused."""
    no_core_files()
    resource.setrlimit(resource.RLIMIT_AS, (int(most_bytes), int(most_bytes)))
    try:
        verdict: Row = {"found": describe(Path(path), int(key_bytes), machine)}
    except PenstockError as error:
        verdict = {"refused": str(error).replace(f"{path}: ", "").replace(path, "the package")}
    except MemoryError:
        verdict = {"refused": "it takes more memory than this server gives to examine a package"}
    print(json.dumps(verdict))
    return 0


if __name__ == "__main__":
    sys.exit(main(*sys.argv[1:]))
