"""What every drive file promises: it loads, its values have sources, it can be scanned and written."""

from __future__ import annotations

import pytest

from penstock.lab.instorage.flash import closed_form as law
from penstock.lab.instorage.flash.scan import scan_drive
from penstock.lab.instorage.flash.spec import HostTraffic, NandMapping, Scan, ScanEngine, ScanTarget
from penstock.scheme.machines.drives import drive_names, load_drive
from twins import laws


@pytest.mark.parametrize("name", drive_names())
def test_a_drive_has_a_source_for_every_value(name: str) -> None:
    drive = load_drive(name)
    assert drive.title
    assert all(each.source for each in drive.figures.values())
    stated = drive.stated_bytes
    assert stated is not None
    assert drive.notes() or 0.9 < drive.capacity_bytes / stated < 1.1


@pytest.mark.parametrize("name", drive_names())
def test_a_drive_meets_its_closed_forms(name: str) -> None:
    drive = load_drive(name)
    inside = scan_drive(drive, Scan(size_bytes=16 * 2**30, queue_depth=4096), engine=ScanEngine.JUMP)
    assert inside.bytes_per_s == pytest.approx(law.scan_rate(drive), rel=1e-3)
    outside = scan_drive(
        drive, Scan(size_bytes=16 * 2**30, queue_depth=4096), host=ScanTarget.PCIE, engine=ScanEngine.JUMP
    )
    assert outside.bytes_per_s == pytest.approx(min(drive.host_link_bytes_per_s, law.scan_rate(drive)), rel=1e-3)
    one = scan_drive(drive, Scan(size_bytes=10**6, queue_depth=1))
    assert one.latency.mean_s == pytest.approx(laws.single_read_s(drive), rel=1e-6)


@pytest.mark.parametrize("name", drive_names())
def test_a_drive_plays_everything_at_once_and_the_same_each_time(name: str) -> None:
    drive = load_drive(name, {"retry": "1 %"})
    runs = [
        scan_drive(
            drive,
            Scan(size_bytes=2 * 10**8),
            host=ScanTarget.PCIE,
            mapping=NandMapping(),
            reads=HostTraffic(bytes_per_s=1e8),
            writes=HostTraffic(bytes_per_s=1e8, span_bytes=10**9, seed=2),
        )
        for _ in range(2)
    ]
    first, second = ({f: getattr(run, f) for f in run.__slots__ if f not in ("cpu_s", "run")} for run in runs)
    assert first == second
    assert runs[0].retries > 0
    assert runs[0].mapping_reads > 0
    assert runs[0].wear.host_pages > 0
