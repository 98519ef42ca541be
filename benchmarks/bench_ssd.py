"""The simulated drive's speed: page reads a CPU-second, beside MQSim's.

    .venv/bin/python benchmarks/bench_ssd.py [--size "288 GiB"] [--runs 3] [--format json]

CPU time of the process, user and system, best of the runs, at the full geometry of both drives of FHEIns. The mode
`events` plays every command, sense, transfer, DRAM and PCIe event; `jump` gives the same result.
"""

from __future__ import annotations

import argparse
import json
import platform
import resource
from collections.abc import Callable
from functools import partial

from penstock.base.units import parse_bytes
from penstock.lab.instorage.flash.scan import ScanResult, scan_drive
from penstock.lab.instorage.flash.spec import (
    Aggregator,
    Consumer,
    HostConsumer,
    Scan,
    ScanEngine,
    ScanPattern,
    ScanTarget,
)
from penstock.scheme.machines.drives import Drive, load_drive

TARGET_PAGES_PER_S = 5e6
TARGET_EVENTS_S, TARGET_JUMP_S, TARGET_BYTES = 2.0, 0.05, 200e6
"""CPU seconds of a scan of 288 GiB in full event mode, and with jumps; memory."""
MQSIM = {"queue depth 1024": 0.08e6, "queue depth 256": 0.25e6}
"""Page reads of 32 KiB a CPU-second that MQSim simulates on a machine of this kind: measured, docs/guides/ssd.md."""


def consumers(drive: Drive, service_us: int) -> list[Consumer]:
    """An accelerator for each four channels, with metadata and outputs."""
    return [
        Consumer(
            channels=tuple(range(first, first + 4)),
            service_ps_per_chunk=service_us * 10**6,
            chunk_pages=12,
            buffer_bytes=7 * 10**6,
            output_bytes_per_chunk=8192,
            dram_bytes_per_chunk=50_000,
            edram_bytes_per_chunk=50_000,
        )
        for first in range(0, drive.channels, 4)
    ]


def cases(drive: Drive, size: int) -> dict[str, Callable[..., ScanResult]]:
    scan = Scan(size_bytes=size)
    host = HostConsumer(service_ps_per_chunk=100_000_000, chunk_pages=64, buffer_bytes=128 * drive.page_bytes)
    return {
        "inside the drive": partial(scan_drive, drive, scan),
        "host, DRAM, PCIe": partial(scan_drive, drive, scan, host=ScanTarget.PCIE),
        "host, DRAM, PCIe, accelerator": partial(scan_drive, drive, scan, host=ScanTarget.PCIE, host_consumer=host),
        "accelerators in the drive": partial(
            scan_drive, drive, scan, consumers=consumers(drive, 40), aggregator=Aggregator(service_ps_per_output=10**5)
        ),
        "accelerators that bind": partial(
            scan_drive, drive, scan, consumers=consumers(drive, 100), aggregator=Aggregator(service_ps_per_output=10**5)
        ),
        "random": partial(scan_drive, drive, Scan(size_bytes=size, pattern=ScanPattern.RANDOM)),
    }


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--size", default="288 GiB")
    parser.add_argument("--runs", type=int, default=3)
    parser.add_argument("--format", choices=["table", "json"], default="table")
    args = parser.parse_args()
    rows = []
    for name in ("ssd-s", "ssd-l"):
        drive = load_drive(name)
        for case, play in cases(drive, parse_bytes(args.size)).items():
            for engine in ScanEngine:
                runs = [play(engine=engine) for _ in range(args.runs)]
                best = min(runs, key=lambda run: run.cpu_s)
                rows.append(
                    {
                        "drive": name, "case": case, "engine": engine.value, "pages": best.pages,
                        "events_per_page": best.events / best.pages, "cpu_s": best.cpu_s,
                        "pages_per_cpu_s": best.pages / best.cpu_s, "simulated_bytes_per_s": best.bytes_per_s,
                    }
                )  # fmt: skip
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024
    if args.format == "json":
        print(json.dumps({"rows": rows, "peak_rss_bytes": peak, "host": platform.platform()}, indent=2))
        return
    for row in rows:
        print(
            f"{row['drive']}  {row['case']:30} {row['engine']:6} {row['cpu_s']:8.4f} CPU s "
            f"{row['pages_per_cpu_s'] / 1e6:10.2f} M pages/CPU s  {row['events_per_page']:.2f} events/page  "
            f"{row['simulated_bytes_per_s'] / 1e9:7.2f} GB/s simulated"
        )
    print(f"peak memory of this process {peak / 1e6:.0f} MB (target {TARGET_BYTES / 1e6:.0f})")
    print(
        f"targets: {TARGET_PAGES_PER_S / 1e6:.0f} M pages/CPU s; 288 GiB in {TARGET_EVENTS_S} s, or {TARGET_JUMP_S} s"
    )
    for depth, pages in MQSIM.items():
        print(f"MQSim, {depth}: {pages / 1e6:.2f} M pages/CPU s (measured, see docs/guides/ssd.md)")


if __name__ == "__main__":
    main()
