"""Evaluation keys uploaded to `penstock serve` on loopback, next to what the disk and the loopback give.

`python benchmarks/bench_serve_upload.py` makes real keys, starts a real server, and uploads them with penstock's
client: each key is sent, hashed, checked row by row, and on the disk when its commit is answered. In turn with that, it
writes files of the same bytes and syncs them (`disk`), and sends the same bytes to a process that drops them
(`loopback`), in pieces of the same size. Every round uses another tenant. `memory` is that of the front process.

Bounds: 0.8 of the slower of disk and loopback; 64 MB above the idle server.
"""

from __future__ import annotations

import argparse
import multiprocessing
import os
import shutil
import socket
import statistics
import tempfile
import time
from pathlib import Path
from typing import Any

from penstock.base.system.web import Token, Web
from penstock.program.package.file import write_package
from penstock.runtime.client.journal import Journal
from penstock.runtime.client.pair import KeyPair
from penstock.runtime.client.uploads import PIECE_BYTES, Uploads, digest_of
from penstock.scheme.params import catalogue
from serving import Results, Server, progress, rotations, served

SHARE, MORE_BYTES = 0.8, 64 * 10**6


def disk_s(files: list[Path], folder: Path) -> float:
    """Seconds to write copies of files, each synced."""
    begun = time.perf_counter()
    buffer = memoryview(bytearray(PIECE_BYTES))
    for number, file in enumerate(files):
        with file.open("rb", buffering=0) as source, (folder / f"copy-{number}").open("wb", buffering=0) as target:
            while count := source.readinto(buffer):
                target.write(buffer[:count])
            os.fsync(target.fileno())
    took_s = time.perf_counter() - begun
    for number in range(len(files)):
        (folder / f"copy-{number}").unlink()
    return took_s


def _drop(listening: socket.socket) -> None:
    """Receive one connection's bytes, and say at the end how many."""
    connection, _ = listening.accept()
    buffer, read = bytearray(1 << 18), 0
    while count := connection.recv_into(buffer):
        read += count
    connection.sendall(str(read).encode())
    connection.close()


def loopback_s(files: list[Path]) -> float:
    """Seconds to send files to another process."""
    buffer = memoryview(bytearray(PIECE_BYTES))
    with socket.create_server(("127.0.0.1", 0)) as listening:
        other = multiprocessing.get_context("fork").Process(target=_drop, args=(listening,), daemon=True)
        other.start()
        with socket.create_connection(listening.getsockname()) as connection:
            begun = time.perf_counter()
            for file in files:
                with file.open("rb", buffering=0) as source:
                    while count := source.readinto(buffer):
                        connection.sendall(buffer[:count])
            connection.shutdown(socket.SHUT_WR)
            connection.recv(100)
            took_s = time.perf_counter() - begun
        other.join(10)
    return took_s


def upload_s(server: Server, tenant: str, files: list[Path], package: Path) -> float:
    """Seconds from the first key's beginning to the last one's commit, as a new tenant."""
    caller = server.tenant(tenant)
    blob = caller.upload(package.read_bytes(), "package")
    caller("POST", "/v1/programs", {"name": "model", "package": blob})
    digests = [digest_of(file) for file in files]
    web = Web(f"http://127.0.0.1:{server.port}", Token(server.tenant_token(tenant)))
    uploads = Uploads(web, Journal(None))
    begun = time.perf_counter()
    for file, digest in zip(files, digests, strict=True):
        uploads.send(file, "key", digest=digest, params="model")
    took_s = time.perf_counter() - begun
    lacking = caller("GET", "/v1/programs/model/keys")["lacking"]
    web.close()
    if lacking:
        raise SystemExit(f"{len(lacking)} keys are lacking after the upload")
    return took_s


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--params", default="openfhe-bootstrap-50")
    parser.add_argument("--rotations", type=int, default=7, help="keys, less the one of products")
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--folder", type=Path, default=None, help="where the server and the keys lie; else temporary")
    parser.add_argument("--json", type=Path, default=None, help="write the figures to this file")
    options = parser.parse_args()
    params = catalogue.get(options.params)
    package = rotations(params, options.rotations, name="rotations")
    key_bytes = sum(params.key_bytes(limbs, key=key) for key, limbs in package.keys.items())
    free = shutil.disk_usage(options.folder or tempfile.gettempdir()).free
    # The keys, their copies, and what each tenant has of them.
    if free < (needed := int((2.1 + options.rounds) * key_bytes)):
        raise SystemExit(
            f"{needed / 1e9:.1f} GB are needed and {free / 1e9:.1f} GB are free: name another --folder, fewer "
            "--rotations, or a smaller set with --params"
        )
    with tempfile.TemporaryDirectory(dir=options.folder) as place:
        folder = Path(place)
        write_package(package, folder / "model.pkg")
        pair = KeyPair.generate(params)
        settings = '[limits]\nrequests_per_s = 10000.0\nprogram_bytes = "1000 GB"\nprogram_seconds = "100 h"\n'
        rows: dict[str, list[float]] = {"upload": [], "disk": [], "loopback": []}
        with served(folder / "server", settings) as server:
            idle = more = 0
            for number in range(options.rounds):
                files = []
                for at, (key, limbs) in enumerate(package.keys.items()):
                    files.append(folder / f"key-{at}")
                    pair.write_key(key, files[-1], tenant=f"tenant-{number}", limbs=limbs, seeded=False)
                    progress(f"round {number + 1} of {options.rounds}: {at + 1} of {len(package.keys)} keys made")
                sent = sum(file.stat().st_size for file in files)
                rows["disk"].append(sent / disk_s(files, folder))
                rows["loopback"].append(sent / loopback_s(files))
                if not number:
                    server.tenant("nobody")("GET", "/v1/keys")
                    idle = server.memory()["now"]
                server.forget_peak()
                rows["upload"].append(sent / upload_s(server, f"tenant-{number}", files, folder / "model.pkg"))
                more = max(more, server.memory()["peak"] - idle)
                progress(f"round {number + 1} of {options.rounds}: {rows['upload'][-1] / 1e6:.0f} MB/s")
    report(rows, options, sent, len(package.keys), idle, more)


def report(
    rows: dict[str, list[float]], options: argparse.Namespace, sent: int, keys: int, idle: int, more: int
) -> None:
    """Print medians and bounds."""
    rates = {name: statistics.median(each) for name, each in rows.items()}
    shares = [up / min(rest) for up, *rest in zip(rows["upload"], rows["disk"], rows["loopback"], strict=True)]
    share = statistics.median(shares)
    print(f"measured: {options.params}, {keys} keys, {sent / 1e9:.2f} GB a round, {options.rounds} rounds (medians)")
    for name, rate in rates.items():
        print(f"  {name:9} {rate / 1e6:8.0f} MB/s")
    print(f"  upload over the slower of the two: {share:.2f} (wanted {SHARE})")
    print(
        f"  memory of the idle server {idle / 1e6:.0f} MB, at most {more / 1e6:.0f} MB more "
        f"(wanted {MORE_BYTES / 1e6:.0f})"
    )
    found: dict[str, Any] = {"rates_bytes_per_s": rates, "share": share, "idle_bytes": idle, "more_bytes": more}
    Results(options.json).put(**found, rows=rows, bytes=sent, keys=keys)


if __name__ == "__main__":
    main()
