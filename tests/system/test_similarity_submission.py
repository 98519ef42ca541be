"""The steps of the submission to the official similarity benchmark, called as its harness calls them."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

pytest.importorskip("penstock_client")

STEPS = Path(__file__).parents[2] / "submissions" / "fetch-by-similarity" / "submission"
RECORDS, DIM, PAYLOAD = 1000, 128, 7


def step(name: str, folder: Path, *more: str) -> None:
    """One step of size `toy`, in the folder of the harness."""
    ran = subprocess.run(
        [sys.executable, STEPS / f"{name}.py", "0", *more], cwd=folder, capture_output=True, text=True, timeout=600
    )
    assert ran.returncode == 0, ran.stderr


@pytest.mark.long
def test_the_steps_find_the_payloads_with_the_secret_moved_away_from_the_server(tmp_path):
    rng = np.random.default_rng(4)

    def unit(values):
        return (values / np.linalg.norm(values, axis=-1, keepdims=True)).astype(np.float32)

    data = tmp_path / "datasets" / "toy"
    data.mkdir(parents=True)
    centre = unit(rng.standard_normal(DIM))
    records = unit(rng.standard_normal((RECORDS, DIM)))
    records[:20] = unit(centre + 0.3 * records[:20])
    payloads = rng.integers(0, 4095, (RECORDS, PAYLOAD)).astype(np.int16)
    query = unit(centre + 0.3 * unit(rng.standard_normal(DIM)))
    records.tofile(data / "db.bin")
    payloads.tofile(data / "payloads.bin")
    query.tofile(data / "query.bin")
    io = tmp_path / "io" / "toy"
    step("client_key_generation", tmp_path, "--seed", "7")
    step("client_encode_encrypt_db", tmp_path)
    step("client_encode_encrypt_query", tmp_path)
    (io / "secret").rename(tmp_path / "away")
    step("server_encrypted_compute", tmp_path)
    (tmp_path / "away").rename(io / "secret")
    step("client_decrypt_decode", tmp_path)
    step("client_postprocess", tmp_path)
    wanted = payloads[records @ query > 0.8]
    found = np.fromfile(io / "results.bin", dtype=np.int16).reshape(-1, PAYLOAD)
    assert len(wanted) > 10
    np.testing.assert_array_equal(found, wanted[np.lexsort(wanted.T[::-1])])
    assert (io / "server_reported_steps.json").exists()


@pytest.mark.parametrize(
    ("words", "said"),
    [(["", "small"], "has no harness/run_submission.py"), (["/nowhere", "small"], "HARNESS='/nowhere'")],
)
def test_without_a_harness_the_command_says_where_to_put_one(words, said):
    script = Path(__file__).parents[2] / "scripts" / "benchmark_suite.sh"
    ran = subprocess.run([script, *words], capture_output=True, text=True, timeout=60)
    assert ran.returncode == 2
    assert said in ran.stderr
    assert "remedy: make benchmark-suite HARNESS=" in ran.stderr


def test_an_unknown_size_is_named(tmp_path):
    (tmp_path / "harness").mkdir()
    (tmp_path / "harness" / "run_submission.py").touch()
    script = Path(__file__).parents[2] / "scripts" / "benchmark_suite.sh"
    ran = subprocess.run([script, tmp_path, "huge"], capture_output=True, text=True, timeout=60)
    assert ran.returncode == 2
    assert "SIZE='huge' is none of toy small medium large" in ran.stderr
