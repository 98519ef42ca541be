"""The command line as a user meets it: real processes, exit codes, messages, nothing half-written."""

from __future__ import annotations

import json
import os
import signal
import stat
import subprocess
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest

from penstock.front.cli.main import main
from support.own_process import COMMAND

ANALYZE = ["analyze", "inner-product", "--size", "ci", "--threads", "1"]


def penstock(*arguments: str, cwd: Path | None = None, **environment: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [*COMMAND, *arguments],
        capture_output=True,
        text=True,
        cwd=cwd,
        env={**os.environ, **environment},
        timeout=120,
        check=False,
    )


def refused(arguments: Sequence[str], code: int, *reasons: str, cwd: Path | None = None, **environment: str) -> None:
    done = penstock(*arguments, cwd=cwd, **environment)
    assert done.returncode == code, done.stderr
    assert "Traceback" not in done.stderr
    for reason in reasons:
        assert reason in done.stderr, done.stderr


def refused_here(capsys: pytest.CaptureFixture[str], arguments: Sequence[str], code: int, *reasons: str) -> None:
    """As `refused`, in this process: a process of its own costs a second, and the words are the same."""
    capsys.readouterr()
    assert main(list(arguments)) == code
    said = capsys.readouterr().err
    assert "Traceback" not in said
    for reason in reasons:
        assert reason in said, said


def found_here(capsys: pytest.CaptureFixture[str], *arguments: str) -> Any:
    """The JSON that a command prints, in this process."""
    capsys.readouterr()
    code = main([*arguments, "--format", "json"])
    said = capsys.readouterr()
    assert code == 0, said.err
    return json.loads(said.out)


def test_a_refusal_is_the_exit_code_of_a_process_and_its_one_line() -> None:
    done = penstock("simulate", "inner-product", "--machine", "shap")
    assert (done.returncode, done.stdout) == (2, "")
    assert done.stderr.startswith("penstock: ")
    assert "did you mean 'sharp'" in done.stderr
    assert "Traceback" not in done.stderr


@pytest.mark.parametrize(
    ("arguments", "reason"),
    [
        (["analyse"], "did you mean 'analyze'"),
        (["run", "inner-produkt"], "did you mean 'inner-product'"),
        (["run", "inner-product", "--size", "cii"], "did you mean 'ci'"),
        (["trace", "inner-product", "--params", "shrp"], "did you mean 'sharp'"),
        (["params", "show", "openfhe-demos"], "did you mean 'openfhe-demo'"),
        (["simulate", "inner-product", "--machine", "shap"], "did you mean 'sharp'"),
        (["simulate", "inner-product", "--machine", "sharp", "--tier", "pcie"], "did you mean 'pcie5'"),
        (["simulate", "inner-product", "--machine", "sharp", "--tier", "3.5"], "no unit"),
        (["simulate", "inner-product", "--machine", "sharp", "--tier", "3.5 GX/s"], "unknown unit"),
        (["simulate", "inner-product", "--machine", "sharp", "--cache", "64", "--policy", "lru"], "no unit"),
        (["simulate", "inner-product", "--machine", "sharp", "--hit-ratio", "1.5"], "1.5"),
        (["simulate", "inner-product", "--machine", "sharp", "--tier", "nan GB/s"], "not a number"),
        (["analyze", "inner-product", "--tier", "hbn"], "did you mean 'hbm'"),
        (["analyze", "inner-product", "--machine", "sharpe"], "did you mean 'sharp'"),
        (["run", "matrix-multiplication", "--size", "ci", "--data", "/nowhere"], "takes no --data"),
        (["run", "logistic-regression", "--size", "ci", "--data", "/nowhere"], "not a folder"),
    ],
)
def test_wrong_words_exit_2_with_the_remedy(
    capsys: pytest.CaptureFixture[str], arguments: list[str], reason: str
) -> None:
    refused_here(capsys, arguments, 2, reason)


def own_tier(path: Path, name: str, bandwidth: str) -> str:
    path.write_text(
        f'name = "{name}"\ntitle = "mine"\n[bandwidth]\nvalue = "{bandwidth}"\nsource = "a guess"\nkind = "assumed"\n'
    )
    return str(path)


def test_two_tiers_of_one_name_are_refused_since_no_row_could_tell_them_apart(
    capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    mine = own_tier(tmp_path / "mine.toml", "hbm", "1 GB/s")
    tiers = ["--tier", "hbm", "--tier", mine]
    for words in (["simulate", "inner-product", "--machine", "sharp"], ["analyze", "inner-product", "--size", "ci"]):
        refused_here(capsys, [*words, *tiers], 2, "two tiers are named 'hbm'", "change 'name'")


@pytest.mark.usefixtures("encrypting")
def test_a_run_is_not_resumed_with_an_edited_tier(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    words = [*ANALYZE, "--machine", "sharp", "-o", str(tmp_path / "run"), "--tier"]
    mine = own_tier(tmp_path / "mine.toml", "mine", "1 GB/s")
    assert main([*words, mine]) == 0
    own_tier(tmp_path / "mine.toml", "mine", "2 GB/s")
    refused_here(capsys, [*words, mine], 2, "tiers", "--force")


@pytest.mark.parametrize(
    ("changes", "reason"),
    [
        ({"depth": -1}, "depth"),
        ({"ring_dim": 5000}, "power of two"),
        ({"slots": 4096}, "N/2"),
        ({"security": 128, "depth": 30}, "128"),
    ],
)
def test_parameter_files_that_break_a_rule_exit_2(
    capsys: pytest.CaptureFixture[str], tmp_path: Path, changes: dict[str, object], reason: str
) -> None:
    fields: dict[str, object] = {
        "name": "mine",
        "ring_dim": 4096,
        "slots": 2048,
        "depth": 3,
        "first_mod_bits": 60,
        "scale_bits": 50,
        "dnum": 2,
        "library": "openfhe",
        **changes,
    }
    path = tmp_path / "mine.toml"
    path.write_text("".join(f"{k} = {json.dumps(v)}\n" for k, v in fields.items()))
    refused_here(capsys, ["params", "size", str(path)], 2, reason)


def test_a_program_deeper_than_its_parameters_exits_2(capsys: pytest.CaptureFixture[str]) -> None:
    words = ["trace", "logistic-regression", "--params", "openfhe-cnn", "--size", "demo"]
    refused_here(capsys, words, 2, "bootstrap")


def test_broken_trace_files_exit_1_and_missing_ones_2(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    whole = tmp_path / "t.parquet"
    assert main(["trace", "inner-product", "--size", "ci", "-o", str(whole)]) == 0
    cut = tmp_path / "cut.parquet"
    cut.write_bytes(whole.read_bytes()[:-100])
    refused_here(capsys, ["trace", "info", str(cut)], 1, "cut.parquet", "truncated or corrupt")
    refused_here(capsys, ["simulate", str(cut), "--machine", "sharp"], 1, "truncated or corrupt")
    refused_here(capsys, ["trace", "info", str(tmp_path / "absent.parquet")], 2, "does not exist")
    refused_here(capsys, ["trace", "inner-product", "--size", "ci", "-o", str(whole)], 2, "--force")


def test_two_readings_of_one_program_do_not_differ(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    for name, size in (("a", "ci"), ("b", "ci"), ("c", "demo")):
        assert main(["trace", "inner-product", "--size", size, "-o", str(tmp_path / name)]) == 0
    assert main(["trace", "diff", str(tmp_path / "a"), str(tmp_path / "b")]) == 0
    refused_here(capsys, ["trace", "diff", str(tmp_path / "a"), str(tmp_path / "c")], 1, "number of operations")


def test_a_full_disk_is_named_with_the_remedy(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    # A device of our own that is always full takes the place of the file.
    full = tmp_path / "full"
    try:
        os.mknod(full, stat.S_IFCHR | 0o666, os.makedev(1, 7))
        full.write_bytes(b"")
    except PermissionError:
        pytest.skip("making a device that is always full needs root; tests/unit/base/test_runs.py fakes a full disk")
    words = ["trace", "inner-product", "--size", "ci", "-o", str(full), "--force"]
    refused_here(capsys, words, 1, "disk is full", "free some space")


def test_an_output_below_a_file_is_refused(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    (tmp_path / "file").write_text("mine")
    below = str(tmp_path / "file" / "t.parquet")
    refused_here(capsys, ["trace", "inner-product", "--size", "ci", "-o", below], 1, "not a folder")
    refused_here(capsys, [*ANALYZE, "-o", str(tmp_path / "file")], 2, "is a file")
    assert (tmp_path / "file").read_text() == "mine"


def test_an_openfhe_that_does_not_import_exits_3_with_the_remedy(tmp_path: Path) -> None:
    (tmp_path / "openfhe.py").write_text("raise ImportError('GLIBCXX_3.4.32 not found')")
    path = os.pathsep.join([str(tmp_path), os.environ.get("PYTHONPATH", "")])
    words = ["--reading", "openfhe"]
    refused(["run", "inner-product", "--size", "ci", *words], 3, "GLIBCXX_3.4.32", "penstock doctor", PYTHONPATH=path)
    refused([*ANALYZE, "-o", str(tmp_path / "run"), *words], 3, "penstock doctor", PYTHONPATH=path)
    assert not (tmp_path / "run").exists()
    script = tmp_path / "mine.py"
    script.write_text("import openfhe\n")
    refused(["record", str(script), "-o", str(tmp_path / "t.parquet")], 3, "penstock doctor", PYTHONPATH=path)


def test_debug_shows_the_traceback(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["--debug", "run", "inner-produkt"]) == 2
    assert "Traceback" in capsys.readouterr().err


def test_json_of_trace_info_has_its_documented_names(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    assert main(["trace", "inner-product", "--size", "ci", "-o", str(tmp_path / "t")]) == 0
    found = found_here(capsys, "trace", "info", str(tmp_path / "t"))
    assert {
        "workload",
        "params",
        "num_operations",
        "by_kind",
        "num_keys",
        "key_bytes_touched",
        "key_bytes_unique",
    } <= set(found)
    assert found["by_kind"] == {"add": 16, "mult": 2, "rotate": 16, "rescale": 2}
    assert found["num_operations"] == 36


def test_json_of_params_size_has_its_documented_names(capsys: pytest.CaptureFixture[str]) -> None:
    found = found_here(capsys, "params", "size", "openfhe-bench", "--rotations", "1,2,4")
    assert {
        "rotation_key_bytes",
        "relinearization_key_bytes",
        "seeded_key_bytes",
        "ciphertext_bytes",
        "plaintext_bytes",
        "num_keys",
        "total_key_bytes",
        "security_bits",
    } <= set(found)
    # 3 digits, 2 polynomials, 11 + 4 limbs, 2^16 words of 8 bytes.
    assert found["rotation_key_coefficient_bytes"] == 3 * 2 * 15 * 2**16 * 8
    assert found["rotation_key_bytes"] == pytest.approx(3 * 2 * 15 * 2**16 * 8, rel=1e-3)


def test_json_of_simulate_has_its_documented_names(capsys: pytest.CaptureFixture[str]) -> None:
    rows = found_here(
        capsys,
        "simulate",
        "inner-product",
        "--params",
        "sharp",
        "--machine",
        "sharp",
        "--tier",
        "pcie5",
        "--tier",
        "3.5 GB/s",
        "--hit-ratio",
        "0.5",
    )
    assert len(rows) == 2
    assert {
        "workload",
        "params",
        "machine",
        "tier",
        "mode",
        "cache_bytes",
        "policy",
        "hit_ratio",
        "hosts",
        "network",
        "compute_s",
        "io_s",
        "decode_s",
        "communication_s",
        "total_s",
        "slowdown",
        "energy_j",
        "key_bytes",
        "io_bytes",
    } <= set(rows[0])
    # Half of the key bytes move, and serial time is the sum.
    assert rows[0]["io_bytes"] == pytest.approx(rows[0]["key_bytes"] / 2)
    assert rows[0]["total_s"] == pytest.approx(rows[0]["compute_s"] + rows[0]["io_s"])
    assert rows[0]["slowdown"] == pytest.approx(1 + 0.5 * rows[0]["key_bytes"] / rows[0]["compute_s"] / 64e9)


@pytest.mark.smoke
@pytest.mark.usefixtures("encrypting")
def test_analyze_runs_checks_fits_simulates_and_reports(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    found = found_here(capsys, *ANALYZE, "-o", str(tmp_path / "run"))
    assert found["passed"] is True
    assert found["max_abs_error"] <= found["tolerance"]
    assert {row["machine"] for row in found["simulated"]} == {"this-cpu", "sharp", "a100-tensorfhe"}
    assert {row["tier"] for row in found["simulated"]} == {"hbm", "ddr5", "pcie5", "rdma"}
    assert all(row["slowdown"] > 1 for row in found["simulated"])
    assert found["measured_s"] > 0
    for name in ("run.json", "results.parquet", "results.csv", "trace.parquet", "report.html", ".complete"):
        assert (tmp_path / "run" / name).is_file(), name
    assert found_here(capsys, *ANALYZE, "-o", str(tmp_path / "run")) == found
    refused_here(capsys, [*ANALYZE, "--seed", "5", "-o", str(tmp_path / "run")], 2, "seed", "--force")


def interrupt_when(path: Path, number: signal.Signals, run: Path) -> tuple[int, str]:
    """Start an analysis and send it a signal as soon as `path` is there: its exit code and what it said."""
    with subprocess.Popen(
        [*COMMAND, *ANALYZE, "-o", str(run)], stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True
    ) as process:
        for _ in range(60_000):
            if path.exists() or process.poll() is not None:
                break
            time.sleep(0.001)
        process.send_signal(number)
        _, said = process.communicate(timeout=60)
        return process.returncode, said


@pytest.mark.usefixtures("encrypting")
def test_a_killed_analysis_resumes_without_running_encrypted_again(tmp_path: Path) -> None:
    run = tmp_path / "run"
    code, said = interrupt_when(run / "stages" / "measured.parquet", signal.SIGKILL, run)
    assert code == -signal.SIGKILL, said
    assert not (run / ".complete").exists()
    recorded = (run / "trace.parquet").stat().st_mtime_ns
    assert main([*ANALYZE, "-o", str(run)]) == 0
    assert (run / ".complete").exists()
    assert (run / "trace.parquet").stat().st_mtime_ns == recorded
    assert not list(run.rglob(".tmp-*"))


@pytest.mark.usefixtures("encrypting")
def test_ctrl_c_keeps_what_is_done_and_exits_130(tmp_path: Path) -> None:
    run = tmp_path / "run"
    code, said = interrupt_when(run / "stages" / "bytes.parquet", signal.SIGINT, run)
    assert code == 130, said
    assert "resumes" in said
    assert main([*ANALYZE, "-o", str(run)]) == 0


@pytest.mark.usefixtures("openfhe")
def test_composites_of_openfhe_are_counted_once(capsys: pytest.CaptureFixture[str]) -> None:
    ran = found_here(capsys, "run", "logistic-function", "--size", "ci", "--reading", "openfhe", "-q")
    traced = found_here(capsys, "trace", "logistic-function", "--size", "ci")
    assert ran["num_operations"] == traced["num_operations"]
