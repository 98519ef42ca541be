"""The trace pack: complete, checked, resumed, and honest about what does not fit."""

from __future__ import annotations

import hashlib
import json
from pathlib import Path

import pytest

from penstock.errors import TraceError, UnknownName
from penstock.front.cli.main import main
from penstock.program.running.trace_pack import accelerator_sets, check_pack, write_pack
from penstock.scheme.traces.io import read_trace

SETS, NAMES = ["sharp", "fheins-pir"], ["inner-product", "bootstrapping"]


def test_every_file_is_a_valid_trace_with_its_checksum_and_misfits_say_why(tmp_path: Path) -> None:
    seen: list[str] = []
    pack = write_pack(tmp_path, SETS, NAMES, on_trace=lambda done, total, file: seen.append(f"{done}/{total} {file}"))
    assert [trace.file for trace in pack.traces] == [
        "sharp/inner-product.parquet",
        "sharp/bootstrapping.parquet",
        "fheins-pir/inner-product.parquet",
    ]
    assert [(each.params, each.workload) for each in pack.left_out] == [("fheins-pir", "bootstrapping")]
    assert "bootstrap plan" in pack.left_out[0].reason
    assert seen[0] == "0/4 sharp/inner-product.parquet"
    assert list(check_pack(tmp_path)) == []
    sums = dict(line.split("  ")[::-1] for line in (tmp_path / "SHA256SUMS").read_text().splitlines())
    for trace in pack.traces:
        assert hashlib.sha256((tmp_path / trace.file).read_bytes()).hexdigest() == sums[trace.file] == trace.sha256
        assert read_trace(tmp_path / trace.file).meta.workload == trace.workload
    text = (tmp_path / "README.md").read_text()
    assert all(trace.file in text for trace in pack.traces)
    assert "`limbs_in`" in text


def test_an_interrupted_pack_is_finished_and_whole_files_are_left_alone(tmp_path: Path) -> None:
    def stop(done: int, total: int, file: str) -> None:
        if done == 2:
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        write_pack(tmp_path, SETS, NAMES, on_trace=stop)
    first = tmp_path / "sharp/inner-product.parquet"
    written = first.stat().st_mtime_ns
    pack = write_pack(tmp_path, SETS, NAMES)
    assert (pack.made, len(pack.traces)) == (1, 3)
    assert first.stat().st_mtime_ns == written
    assert write_pack(tmp_path, SETS, NAMES).made == 0
    assert write_pack(tmp_path, SETS, NAMES, force=True).made == 3


def test_changed_and_missing_files_are_found_and_made_again(tmp_path: Path) -> None:
    write_pack(tmp_path, ["sharp"], NAMES)
    changed, missing = tmp_path / "sharp/inner-product.parquet", tmp_path / "sharp/bootstrapping.parquet"
    changed.write_bytes(changed.read_bytes()[:-1] + b"x")
    missing.unlink()
    found = list(check_pack(tmp_path))
    assert len(found) == 2
    assert "SHA-256" in found[0]
    assert "missing" in found[1]
    assert write_pack(tmp_path, ["sharp"], NAMES).made == 2
    assert list(check_pack(tmp_path)) == []
    # One that this command does not ask for is part of the pack all the same.
    missing.unlink()
    pack = write_pack(tmp_path, ["sharp"], NAMES[:1])
    assert (pack.made, len(pack.traces)) == (1, 2)
    assert list(check_pack(tmp_path)) == []


def test_a_folder_that_is_no_pack_and_unknown_names_are_refused(tmp_path: Path) -> None:
    with pytest.raises(TraceError, match="not a trace pack"):
        list(check_pack(tmp_path))
    (tmp_path / "manifest.json").write_text("{}")
    with pytest.raises(TraceError, match="delete it"):
        list(check_pack(tmp_path))
    with pytest.raises(UnknownName):
        write_pack(tmp_path / "new", ["sharpp"])


def test_the_command_writes_and_checks_a_pack(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    folder = str(tmp_path / "pack")
    options = ["--params", "sharp", "--workload", "inner-product", "--format", "json"]
    assert main(["trace", "pack", "-o", folder, *options]) == 0
    assert json.loads(capsys.readouterr().out)["num_traces"] == 1
    assert main(["trace", "pack", "--check", folder]) == 0
    assert main(["trace", "pack"]) == 2
    (tmp_path / "file").write_text("")
    capsys.readouterr()
    assert main(["trace", "pack", "-o", str(tmp_path / "file")]) == 2
    assert "is a file; name a folder" in capsys.readouterr().err
    (Path(folder) / "sharp/inner-product.parquet").unlink()
    assert main(["trace", "pack", "--check", folder]) == 1


def test_the_sets_are_those_of_accelerators() -> None:
    assert {"sharp", "ark", "bts-ins2", "tensorfhe-helr"} <= set(accelerator_sets())
    assert not any(name.startswith(("openfhe", "insecure")) for name in accelerator_sets())
