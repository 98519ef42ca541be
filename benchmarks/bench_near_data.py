"""Keys pulled from a node through a throttled link, or operations sent to the node: measured beside the simulator.

    .venv/bin/python benchmarks/bench_near_data.py --folder FOLDER [--node portable avx2] [--format json]

The host computes with every core and its fastest kernels, the node (a process of its own) with one thread and the
kernels named: a storage node's processor is the slower one. Both ways start with the keys in the node's memory. The job
is an inner product at N = 2^16 (one multiplication, eight rotations). The simulator is told what host and node do on
another job, filter-aggregate, how long rows take to be gathered and checked, and what a socket carries; no measured run
of the job enters it.
"""

from __future__ import annotations

import argparse
import json
import multiprocessing
import os
import socket
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, nullcontext
from pathlib import Path
from typing import Any

import numpy as np

from node_forecast import NodeForecast, NodeProcessor
from penstock import _engine
from penstock.base.system.host import available_cores
from penstock.base.units import parse_rate
from penstock.lab.fit.fit import fit_machine, trace_measurements
from penstock.lab.instorage.near_data import near_data
from penstock.program import workloads
from penstock.program.running.reading import describe
from penstock.program.running.trace import trace_workload
from penstock.runtime.keystore import KeyCache, KeyStore, parameter_digest
from penstock.runtime.native.client import PreparedEnds
from penstock.runtime.native.engine import EngineHere, make_context
from penstock.runtime.native.evaluator import NativeEvaluator
from penstock.runtime.native.keys import KeyTraffic
from penstock.scheme.machines.schema import Machine
from penstock.scheme.traces.schema import Trace
from penstock.service.near.frames import Kind
from penstock.service.near.link import Link
from penstock.service.near.remote import NodeEngine, PulledKeys, RemoteNode
from penstock.service.near.tokens import token_of
from penstock.service.near.words import ciphertext_of, header_of, rows_of
from penstock.service.owners import Owners, PreparedJob
from penstock.service.tenants import Job

SECRET = os.urandom(16).hex()
TENANT = "tenant-0"
CALIBRATED_ON, MEASURED = "filter-aggregate", "inner-product"
LINKS = ("1 Gb/s", "2 Gb/s", "4 Gb/s", "6 Gb/s", "10 Gb/s", "16 Gb/s", "25 Gb/s")
SIMULATED_LINKS = ("100 Gb/s",)


class HeldKeys:
    """All keys of a job, pinned: what is timed is computing."""

    def __init__(self, store: KeyStore, job: PreparedJob) -> None:
        self.waits_s: list[float] = []
        cache = KeyCache(
            store, 2 * len(job.program.uses) * job.program.params.key_bytes(), policy="lru", prefetch_uses=0
        )
        session = cache.session(TENANT, parameter_digest(job.program.params))
        self.held = {key: session.get(key, job.program.params.num_q) for key, _ in job.program.uses}

    def get(self, key: str, limbs: int) -> Any:
        self.waits_s.append(0.0)
        return nullcontext(self.held[key])

    def traffic(self) -> KeyTraffic:
        return KeyTraffic(key_bytes=0)

    def close(self) -> None:
        for key in self.held.values():
            key.release()


def run(engine: EngineHere, job: PreparedJob, waits_s: Sequence[float] = ()) -> tuple[Trace, float, list[bytes]]:
    """(trace, seconds of the server's operations and their waits for keys, results)."""
    ends = PreparedEnds(job.program.params, [path.read_bytes() for path in job.spec.inputs.values()])
    ev = NativeEvaluator(engine, ends)
    workload = workloads.get(job.job.workload)
    size = workload.SIZES[job.program.size]
    workload.program(ev, workload.blank(size, job.program.params.slots), size)
    trace = ev.builder.finish(describe(job.job.workload, job.program.params, "native", job.program.size, 0))
    table = trace.server_operations()
    times = np.array(table["end_s"].to_pylist()) - np.array(table["start_s"].to_pylist())
    return trace, float(times.sum()) + sum(waits_s), ends.outputs


def fitted(name: str, context: _engine.CkksContext, store: KeyStore, job: PreparedJob) -> Machine:
    """A machine of the native evaluator, from the timed operations of a job with its keys in memory."""
    keys = HeldKeys(store, job)
    timed = []
    for _ in range(3):
        timed += trace_measurements(run(EngineHere(job.program.params, context, keys), job)[0])
    keys.close()
    return fit_machine(timed, name=name, fewest=1)


def least(call: Any, times: int = 5) -> float:
    found = []
    for _ in range(times):
        started = time.perf_counter()
        call()
        found.append(time.perf_counter() - started)
    return sorted(found)[times // 2]


def handling(
    host: _engine.CkksContext, node: _engine.CkksContext, store: KeyStore, job: PreparedJob
) -> tuple[float, float]:
    """Seconds a byte of rows of (keys, ciphertexts): gathered on one side, copied and checked on the other."""
    keys = HeldKeys(store, job)
    limbs, key = job.program.params.num_q, next(iter(keys.held.values()))
    words = np.empty(job.program.params.key_bytes() // 8, dtype=np.uint64)
    pulled = least(lambda: _engine.ckks_key_words(node, key, limbs, words)) + least(
        lambda: _engine.ckks_key_rows(host, words, limbs)
    )
    a = host.import_ciphertext(next(iter(job.spec.inputs.values())).read_bytes())
    flat = np.concatenate([part.ravel() for part in rows_of(a)])
    gathered = least(lambda: rows_of(a))
    there, here = (least(lambda engine=engine: ciphertext_of(engine, header_of(a), flat)) for engine in (node, host))
    keys.close()
    # Half of the bytes go there, half come back.
    return pulled / words.nbytes, (gathered + (there + here) / 2) / flat.nbytes


def send_frames(connection: socket.socket, body_bytes: int, times: int) -> None:
    """What the other process of `socket_rate` does."""
    link, words = Link(connection), np.zeros(body_bytes // 8, dtype=np.uint64)
    for _ in range(times):
        link.send(Kind.KEY_ROWS, {"limbs": 1}, [words])


def socket_rate(body_bytes: int, times: int = 6) -> float:
    """Bytes a second of frames of that size from a process that does nothing else: the median of all but the first."""
    ours, theirs = socket.socketpair()
    sender = multiprocessing.get_context("spawn").Process(target=send_frames, args=(theirs, body_bytes, times))
    sender.start()
    theirs.close()
    link, ends = Link(ours), []
    for _ in range(times):
        link.receive_body(link.receive_prefix(body_bytes)[0])
        ends.append(time.perf_counter())
    sender.join()
    link.close()
    return body_bytes / float(np.median(np.diff(ends)))


@contextmanager
def serving(folder: Path, params: str, path: str, link: str | None) -> Iterator[str]:
    """A node in a process of its own, with its keys in memory."""
    with tempfile.TemporaryDirectory() as place:
        address = f"unix:{place}/node"
        command = [
            sys.executable,
            "-c",
            "import sys; from penstock.front.cli.main import main; sys.exit(main())",
            "keys",
            "node",
            "-q",
            "--store",
            str(folder),
            "--params",
            params,
            "--listen",
            address,
            "--threads",
            "1",
            "--budget",
            "2 GiB",
            *(["--link", link] if link else []),
            "--format",
            "json",
        ]
        environment = {**os.environ, "PENSTOCK_CPU": path, "PENSTOCK_NODE_SECRET": SECRET}
        with subprocess.Popen(command, env=environment, stdout=subprocess.DEVNULL) as process:
            while not (Path(place) / "node").exists():
                time.sleep(0.02)
            try:
                yield address
            finally:
                process.terminate()


def measure(
    context: _engine.CkksContext, address: str, job: PreparedJob, link: float | None, rounds: int
) -> tuple[float, float, int, bool]:
    """(pull, near) seconds, the least of several, bytes that crossed near, and whether both give the same words."""
    pulls, nears, same, crossed = [], [], True, 0
    params, tag = job.program.params, job.spec.secret_tag or ""
    token = token_of(SECRET, TENANT, parameter_digest(params), tag)
    with RemoteNode(address, params, token=token, tenant=TENANT, key_tag=tag, bytes_per_s=link) as node:
        for turn in range(rounds + 1):
            keys = PulledKeys(node, context)
            _, pull_s, pulled = run(EngineHere(job.program.params, context, keys), job, keys.waits_s)
            before = node.link.sent_bytes + node.link.received_bytes
            _, near_s, near = run(NodeEngine(job.program.params, context, node), job)
            crossed = node.link.sent_bytes + node.link.received_bytes - before
            same = same and pulled == near
            # The first turn brings the keys into the node's memory.
            if turn:
                pulls.append(pull_s)
                nears.append(near_s)
    return min(pulls), min(nears), crossed, same


def crossing(links: Sequence[float], pulls: Sequence[float], nears: Sequence[float]) -> float | None:
    """The link at which both take as long, interpolated in seconds a byte."""
    ahead = np.array(pulls) - np.array(nears)
    for i in range(len(links) - 1):
        if ahead[i] > 0 >= ahead[i + 1]:
            share = ahead[i] / (ahead[i] - ahead[i + 1])
            return float(1 / (1 / links[i] + share * (1 / links[i + 1] - 1 / links[i])))
    return None


def show(each: dict[str, Any]) -> None:
    """Print what was measured with one node."""
    print(f"node with {each['node']} kernels, 1 thread; host {each['host_kernels']}, {each['host_threads']} threads")
    for row in each["links"]:
        got = "" if row["pull_s"] is None else f"{row['pull_s']:8.3f} s  {row['near_s']:8.3f} s"
        print(
            f"{row['link']:>9}  pull, near: {got:22}  simulated {row['simulated_pull_s']:.3f} s  "
            f"{row['simulated_near_s']:.3f} s"
        )
    print(
        f"unthrottled: pull {each['open_pull_s']:.3f} s, near {each['open_near_s']:.3f} s; "
        f"sockets carry {each['socket_bytes_per_s'] * 8e-9:.1f} Gb/s"
    )
    print(
        f"keys {each['key_bytes'] / 1e6:.1f} MB; ciphertexts that cross "
        f"{each['measured_crossing_bytes'] / 1e6:.1f} MB, simulated {each['crossing_bytes'] / 1e6:.1f} MB"
    )
    for name in ("measured_crossover_bytes_per_s", "simulated_crossover_bytes_per_s"):
        print(f"{name}: {'none' if each[name] is None else format(each[name] * 8e-9, '.2f') + ' Gb/s'}")


def arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--folder", type=Path, required=True, help="key store, as bench_tenants.py leaves it")
    parser.add_argument("--node", nargs="+", default=["portable", "avx2"], help="kernels of the node")
    parser.add_argument("--links", nargs="+", default=LINKS)
    parser.add_argument("--rounds", type=int, default=2)
    parser.add_argument("--format", choices=("table", "json"), default="table")
    return parser.parse_args()


def main() -> None:
    options = arguments()
    owners = Owners(options.folder)
    calibration, job = owners.prepare(
        [Job(tenant=TENANT, workload=name, size="ci", params="openfhe-bench") for name in (CALIBRATED_ON, MEASURED)]
    )
    params, store = job.program.params, owners.store
    host = make_context(params, available_cores())
    trace = trace_workload(MEASURED, params, "ci")
    host_machine = fitted("host", host, store, calibration)
    links = [parse_rate(each) for each in options.links]
    sockets = socket_rate(params.key_bytes())
    result: list[dict[str, Any]] = []
    for path in options.node:
        engine = make_context(params, 1, path)
        machine = fitted(f"node-{path}", engine, store, calibration)
        key_cost, ciphertext_cost = handling(host, engine, store, job)
        computed = near_data(trace, host_machine, NodeProcessor(machine), key_bytes_per_s=float("inf"))
        forecast = NodeForecast(
            computed=computed,
            key_s_per_byte=key_cost,
            ciphertext_s_per_byte=ciphertext_cost,
            max_bytes_per_s=sockets,
        )
        with serving(options.folder, params.name, path, None) as address:
            open_pull, open_near, crossed, same = measure(host, address, job, None, options.rounds)
        rows = []
        for name, link in zip(options.links, links, strict=True):
            with serving(options.folder, params.name, path, name) as address:
                pull_s, near_s, _, equal = measure(host, address, job, link, options.rounds)
            rows.append(
                {
                    "link": name, "link_bytes_per_s": link, "pull_s": pull_s, "near_s": near_s,
                    "simulated_pull_s": forecast.pull_s(link), "simulated_near_s": forecast.near_s(link),
                    "bit_identical": equal and same,
                }
            )  # fmt: skip
            print(json.dumps(rows[-1]), file=sys.stderr, flush=True)
        for name in SIMULATED_LINKS:
            link = parse_rate(name)
            bare = NodeForecast(computed=computed, key_s_per_byte=key_cost, ciphertext_s_per_byte=ciphertext_cost)
            rows.append(
                {"link": name, "link_bytes_per_s": link, "pull_s": None, "near_s": None,
                 "simulated_pull_s": bare.pull_s(link), "simulated_near_s": bare.near_s(link), "bit_identical": None}
            )  # fmt: skip
        measured = crossing(
            links, [row["pull_s"] for row in rows[: len(links)]], [row["near_s"] for row in rows[: len(links)]]
        )
        simulated = forecast.crossover_bytes_per_s
        result.append(
            {
                "node": path, "host_threads": host.threads, "host_kernels": host.path,
                "measured_crossover_bytes_per_s": measured,
                "simulated_crossover_bytes_per_s": simulated,
                "error": None if measured is None or simulated is None else simulated / measured - 1,
                "without_handling_bytes_per_s": computed.crossover_bytes_per_s,
                "key_bytes": computed.key_bytes, "crossing_bytes": computed.crossing_bytes,
                "measured_crossing_bytes": crossed,
                "host_compute_s": computed.host_compute_s,
                "near_compute_s": computed.near_host_s + computed.near_drive_s,
                "key_s_per_byte": key_cost, "ciphertext_s_per_byte": ciphertext_cost,
                "socket_bytes_per_s": forecast.max_bytes_per_s, "open_pull_s": open_pull, "open_near_s": open_near,
                "links": rows,
            }
        )  # fmt: skip
    if options.format == "json":
        json.dump(result, sys.stdout, indent=1)
        return
    for each in result:
        show(each)


if __name__ == "__main__":
    main()
