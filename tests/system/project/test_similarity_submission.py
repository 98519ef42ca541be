"""The steps of the submission to the official similarity benchmark, called as its harness calls them."""

from __future__ import annotations

import json
import os
import re
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest

pytest.importorskip("penstock_client")

STEPS = Path(__file__).parents[3] / "submissions" / "fetch-by-similarity" / "submission"
RECORDS, DIM, PAYLOAD = 1000, 128, 7


NOBODY = 65534
AS_NOBODY = """
import os, runpy, sys
sys.path.insert(0, os.path.dirname(sys.argv[1]))
# While the files of the interpreter can be read:
import importlib.readers, penstock.runtime.similarity.server, steps
from penstock.program.database.similarity.scheme import large_parameters
large_parameters()
os.setgroups([]); os.setgid(65534); os.setuid(65534)
sys.argv = sys.argv[1:]
runpy.run_path(sys.argv[0], run_name="__main__")
"""
"""A step as another user, whose rights are those of everybody."""


def ran_step(name: str, folder: Path, *more: str, memory: str = "") -> subprocess.CompletedProcess[str]:
    """One step of size `toy`, in the folder of the harness; the server's as another user where that can be."""
    start = ["-c", AS_NOBODY] if name.startswith("server") and os.geteuid() == 0 else []
    return subprocess.run(
        [sys.executable, *start, STEPS / f"{name}.py", "0", *more],
        cwd=folder, capture_output=True, text=True, timeout=600, env={**os.environ, "SIMILARITY_MEMORY": memory},
    )  # fmt: skip


def step(name: str, folder: Path, *more: str, memory: str = "") -> str:
    """A step that succeeds, and what it prints."""
    ran = ran_step(name, folder, *more, memory=memory)
    assert ran.returncode == 0, ran.stderr
    return ran.stdout


@pytest.fixture
def open_folder() -> Iterator[Path]:
    """A folder that other users may enter; those of pytest are of its user alone."""
    folder = Path(tempfile.mkdtemp(prefix="penstock-submission-"))
    folder.chmod(0o755)
    yield folder
    shutil.rmtree(folder)


def made_data(folder: Path) -> tuple[Any, Any, Any]:
    """Records, payloads and a query in the harness's files."""
    rng = np.random.default_rng(4)

    def unit(values: Any) -> Any:
        return (values / np.linalg.norm(values, axis=-1, keepdims=True)).astype(np.float32)

    data = folder / "datasets" / "toy"
    data.mkdir(parents=True)
    centre = unit(rng.standard_normal(DIM))
    records = unit(rng.standard_normal((RECORDS, DIM)))
    records[:20] = unit(centre + 0.3 * records[:20])
    payloads = rng.integers(0, 4095, (RECORDS, PAYLOAD)).astype(np.int16)
    query = unit(centre + 0.3 * unit(rng.standard_normal(DIM)))
    records.tofile(data / "db.bin")
    payloads.tofile(data / "payloads.bin")
    query.tofile(data / "query.bin")
    return records, payloads, query


@pytest.mark.long
def test_the_steps_find_the_payloads_with_the_secret_moved_away_from_the_server(open_folder):
    """The server's step has another user's rights, a byte budget, and no secret."""
    records, payloads, query = made_data(open_folder)
    io = open_folder / "io" / "toy"
    step("client_key_generation", open_folder, "--seed", "7")
    step("client_encode_encrypt_db", open_folder)
    step("client_encode_encrypt_query", open_folder)
    away = open_folder / "away"
    away.mkdir(mode=0o700)
    (io / "secret").rename(away / "secret")
    (io / "ciphertexts_download").mkdir()
    for place in (io, io / "ciphertexts_download"):
        place.chmod(0o777)  # for what the step writes
    refused = ran_step("server_encrypted_compute", open_folder, memory="400 MB")
    assert refused.returncode == 1
    assert "SIMILARITY_MEMORY 400 MB" in refused.stderr
    least = re.search(r"the class '.*' needs .*; raise SIMILARITY_MEMORY to (\d+) B or more", refused.stderr)
    assert least is not None
    said = step("server_encrypted_compute", open_folder, memory=f"{int(least[1]) + (256 << 20)} B")
    (away / "secret").rename(io / "secret")
    step("client_decrypt_decode", open_folder)
    step("client_postprocess", open_folder)
    wanted = payloads[records @ query > 0.8]
    found = np.fromfile(io / "results.bin", dtype=np.int16).reshape(-1, PAYLOAD)
    assert len(wanted) > 10
    np.testing.assert_array_equal(found, wanted[np.lexsort(wanted.T[::-1])])
    assert (io / "server_reported_steps.json").exists()
    memory = json.loads((io / "server_memory.json").read_text())
    predicted, measured = memory["predicted"], memory["measured_peak_bytes"]
    assert predicted["predicted_peak_bytes"] <= predicted["memory_bytes"]
    assert 0.9 <= predicted["predicted_peak_bytes"] / measured <= 1.1
    assert "memory: predicted" in said


@pytest.mark.parametrize(
    ("memory", "said"),
    [("8", "SIMILARITY_MEMORY '8' has no unit"), ("8 GiB", "holds no whole database: make it again")],
)
def test_the_server_s_step_names_what_is_wrong(tmp_path, memory, said):
    ran = subprocess.run(
        [sys.executable, STEPS / "server_encrypted_compute.py", "0"],
        cwd=tmp_path, capture_output=True, text=True, timeout=60, env={**os.environ, "SIMILARITY_MEMORY": memory},
    )  # fmt: skip
    assert ran.returncode == 1
    assert ran.stderr.startswith("penstock: ")
    assert said in ran.stderr
    assert "Traceback" not in ran.stderr


@pytest.mark.parametrize(
    ("words", "said"),
    [(["", "small"], "has no harness/run_submission.py"), (["/nowhere", "small"], "HARNESS='/nowhere'")],
)
def test_without_a_harness_the_command_says_where_to_put_one(words, said):
    script = Path(__file__).parents[3] / "scripts" / "benchmark_suite.sh"
    ran = subprocess.run([script, *words], capture_output=True, text=True, timeout=60)
    assert ran.returncode == 2
    assert said in ran.stderr
    assert "remedy: make benchmark-suite HARNESS=" in ran.stderr


def test_an_unknown_size_is_named(tmp_path):
    (tmp_path / "harness").mkdir()
    (tmp_path / "harness" / "run_submission.py").touch()
    script = Path(__file__).parents[3] / "scripts" / "benchmark_suite.sh"
    ran = subprocess.run([script, tmp_path, "huge"], capture_output=True, text=True, timeout=60)
    assert ran.returncode == 2
    assert "SIZE='huge' is none of toy small medium large" in ran.stderr
