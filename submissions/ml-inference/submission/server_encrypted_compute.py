"""Step 7: the network on each ciphertext. It opens the package, evaluation keys and ciphertexts, and nothing else."""

import os
import sys
import time
from concurrent.futures import ThreadPoolExecutor

from steps import PACKAGE, ciphertexts, emptied, places

from penstock.errors import PenstockError
from penstock.front.hall.computing import package_server

TELL_S = 10.0
"""Between two words on how far it is."""


def compute() -> None:
    """All results, and how long they took."""
    at, begun = places(), time.perf_counter()
    given, results = ciphertexts(at.uploaded), emptied(at.downloaded)
    threads = len(os.sched_getaffinity(0))
    abreast = min(threads, len(given))
    # Ciphertexts are independent: one a core, each on one thread, where there are enough of them.
    servers = [package_server(PACKAGE, at.keys, threads=max(1, threads // abreast)) for _ in range(abreast)]
    print(f"         [server] opened the package and its keys in {time.perf_counter() - begun:.2f} s", flush=True)
    started, told = time.perf_counter(), time.perf_counter()

    def share(number: int) -> None:
        nonlocal told
        for path in given[number::abreast]:
            (found,) = servers[number].run({"images": path.read_bytes()}).values()
            (results / path.name).write_bytes(found)
            if number == 0 and time.perf_counter() - told > TELL_S:
                told = time.perf_counter()
                done = len(ciphertexts(results))
                print(f"         [server] {done} of {len(given)} ciphertexts in {told - started:.0f} s", flush=True)

    with ThreadPoolExecutor(abreast) as pool:
        list(pool.map(share, range(abreast)))
    seconds = time.perf_counter() - started
    print(f"         [server] {len(given)} ciphertexts in {seconds:.2f} s, {seconds / len(given) * 1e3:.1f} ms each")


try:
    compute()
except PenstockError as error:
    sys.exit(f"penstock: {error}")
