"""Tries a key pair without a digest in a separate process: `python -m penstock.program.openfhe.pair_trial`.

Over some damaged bytes OpenFHE ends its process by a signal, or asks for all memory. The standard input gives the
parameters and the folder as JSON; the standard output gets the digest of the tried files, or an error.
"""

from __future__ import annotations

import json
import os
import resource
import sys
from functools import partial
from pathlib import Path

from penstock.base.system.workers import no_core_files
from penstock.errors import KeyPairDamaged
from penstock.program.openfhe.evaluator import OpenFheContext, set_threads
from penstock.program.openfhe.key_pair import digest_of, loaded, prove, read_files
from penstock.program.openfhe.types import CryptoContext, Key
from penstock.scheme.params.ckks import CkksParameters

_SPARE_BYTES = 1 << 30
_SPARE_SHARE = 16
"""Memory of a trial beyond the files, for ciphertexts and copies of keys: many times the need of whole ones."""


def main() -> None:
    """Answer one request."""
    request = json.load(sys.stdin)
    no_core_files()
    set_threads(1)  # each thread has memory of its own
    params, tried = CkksParameters.from_dict(request["params"]), list[str]()
    try:
        OpenFheContext.create(params, relinearize=False, client_keys=partial(_tried, Path(request["folder"]), tried))
        print(json.dumps({"tried": tried[0]}))
    except KeyPairDamaged as error:
        print(json.dumps({"error": str(error)}))


def _tried(folder: Path, tried: list[str], context: CryptoContext) -> tuple[Key, Key]:
    contents = read_files(folder)
    _limit_memory(_SPARE_BYTES + _SPARE_SHARE * sum(map(len, contents.values())))
    public, secret = loaded(folder, contents)
    prove(folder, context, public, secret)
    tried.append(digest_of(contents).decode())
    return public, secret


def _limit_memory(spare_bytes: int) -> None:
    """From now on this process gets so much more than it has."""
    has_bytes = int(Path("/proc/self/statm").read_text().split()[0]) * os.sysconf("SC_PAGESIZE")
    limits = [limit for limit in resource.getrlimit(resource.RLIMIT_AS) if limit != resource.RLIM_INFINITY]
    least = min([has_bytes + spare_bytes, *limits])
    resource.setrlimit(resource.RLIMIT_AS, (least, least))


if __name__ == "__main__":
    main()
