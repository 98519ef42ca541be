"""A process that examines one package: it may take as much memory as its limit, and no more.

The front starts it at each deployment, so that a package that lies costs the front nothing. It prints one JSON line.
"""

from __future__ import annotations

import json
import resource
import sys
from pathlib import Path
from typing import Any

from penstock.errors import PenstockError
from penstock.machines import load_machine
from penstock.package.content import Package
from penstock.package.file import check_package
from penstock.package.replay import trace_package
from penstock.prediction.prediction import predict
from penstock.program.tally import Tally, tally_of
from penstock.system.workers import no_core_files
from penstock.units import WORD_BYTES

KEY_BYTES_PER_S = 1.5e9
"""Of keys that key switches of one core take in. Assumed; a fitted machine (`work.machine`) replaces it."""
DATA_BYTES_PER_S = 2e9
"""Of ciphertexts that other operations go through. Assumed."""
PROCESS_BYTES = 150_000_000
"""A worker before it has a program."""


def describe(package: Package, machine: str = "") -> dict[str, Any]:
    """The description of a program: inputs, outputs, parameters, keys and predictions.

    Args:   machine: a fitted machine's name or file; without it, seconds are a rough estimate.
    """
    params, tally = package.params, tally_of(trace_package(package))
    keys = [{"key": key, "limbs": n, "bytes": params.key_bytes(n, key=key)} for key, n in tally.keys.items()]
    tables = 4 * params.ring_dim * WORD_BYTES * (params.num_q + params.num_p)
    return {
        "program": package.name,
        "description": package.description,
        "inputs": [
            {"name": each.name, "length": each.length, "limbs": each.limbs or params.num_q, "complex": each.is_complex}
            for each in package.inputs
        ],
        "outputs": [{"name": each.name, "length": each.length} for each in package.outputs],
        "params": params.to_dict(),
        "keys": keys,
        "predicted": {
            "seconds": predict(tally, load_machine(machine)).predicted_s if machine else _rough_s(tally),
            "basis": f"machine {machine}" if machine else "assumed rates of one core",
            "memory_bytes": PROCESS_BYTES + tables + tally.live_bytes * 9 // 8,
            "key_bytes": sum(params.key_bytes(n, key=key) for key, n in tally.keys.items()),
            "key_bytes_read": tally.key_bytes_touched(),
            "operations": tally.num_operations,
        },
    }


def _rough_s(tally: Tally) -> float:
    data = sum(count * tally.params.ciphertext_bytes(shape.limbs_in) for shape, count in tally.counts.items())
    return tally.key_bytes_touched() / KEY_BYTES_PER_S + data / DATA_BYTES_PER_S


def main(path: str, most_bytes: str, machine: str = "") -> int:
    """Print the description of a package, or why it is refused."""
    no_core_files()
    resource.setrlimit(resource.RLIMIT_AS, (int(most_bytes), int(most_bytes)))
    try:
        found: dict[str, Any] = {"found": describe(check_package(Path(path)), machine)}
    except PenstockError as error:
        found = {"refused": str(error).replace(f"{path}: ", "").replace(path, "the package")}
    except MemoryError:
        found = {"refused": "it takes more memory than this server gives to examine a package"}
    print(json.dumps(found))
    return 0


if __name__ == "__main__":
    sys.exit(main(*sys.argv[1:]))
