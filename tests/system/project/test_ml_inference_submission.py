"""The submission to the official benchmark of encrypted inference: built, and its steps called as the harness does."""

from __future__ import annotations

import os
import shutil
import struct
import subprocess
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest

pytest.importorskip("penstock_client")

SUBMISSION = Path(__file__).parents[3] / "submissions" / "ml-inference"
IMAGES, SIDE, SMALL = 1200, 28, 15


def made_digits(rng: Any) -> tuple[Any, Any]:
    """(IMAGES, 784) bytes and their labels: ten shapes with noise."""
    shapes = rng.integers(0, 2, (10, SIDE // 4, SIDE // 4)).repeat(4, axis=1).repeat(4, axis=2) * 160
    labels = rng.integers(0, 10, IMAGES)
    return (shapes[labels] + rng.integers(0, 90, (IMAGES, SIDE, SIDE))).astype(np.uint8), labels.astype(np.uint8)


def write_idx(path: Path, values: Any) -> None:
    path.write_bytes(
        b"\0\0\x08" + bytes([values.ndim]) + struct.pack(f">{values.ndim}I", *values.shape) + values.tobytes()
    )


@pytest.fixture(scope="module")
def place(tmp_path_factory) -> Path:
    """The harness's folder with a built submission, and the digits as its data."""
    folder = tmp_path_factory.mktemp("inference")
    for name in ("submission", "scripts"):
        shutil.copytree(SUBMISSION / name, folder / name, ignore=shutil.ignore_patterns("__pycache__"))
    raw = folder / "harness" / "mnist" / "data" / "MNIST" / "raw"
    raw.mkdir(parents=True)
    images, labels = made_digits(np.random.default_rng(5))
    write_idx(raw / "train-images-idx3-ubyte", images)
    write_idx(raw / "train-labels-idx1-ubyte", labels)
    ran = called(folder / "scripts" / "build_task.sh", folder, "./submission")
    assert ran.returncode == 0, ran.stderr
    pixels = folder / "datasets" / "small" / "intermediate" / "test_pixels.txt"
    pixels.parent.mkdir(parents=True)
    np.savetxt(pixels, images[:SMALL].reshape(SMALL, -1) / 255, fmt="%.6f")
    (folder / "datasets" / "small" / "labels.txt").write_text("\n".join(map(str, labels[:SMALL])))
    return folder


def called(program: Path, folder: Path, *words: str, **more: str) -> subprocess.CompletedProcess[str]:
    """A step in the folder of the harness."""
    environment = {**os.environ, "PENSTOCK_PYTHON": sys.executable, **more}
    return subprocess.run(
        [program, *words], cwd=folder, capture_output=True, text=True, timeout=300, env=environment, check=False
    )


def test_the_steps_give_the_digits_of_the_network_with_the_secret_away_from_the_server(place, tmp_path):
    steps = place / "submission" / "build"
    secret = str(tmp_path / "secret")
    for name, number in [
        ("client_key_generation", "1"),
        ("server_preprocess_model", ""),
        ("client_preprocess_input", "1"),
        ("client_encode_encrypt_input", "1"),
        ("server_encrypted_compute", "1"),
        ("client_decrypt_decode", "1"),
        ("client_postprocess", "1"),
    ]:
        client = {"ML_INFERENCE_SECRET": secret} if name.startswith("client") else {}
        ran = called(steps / name, place, *number, **client)
        assert ran.returncode == 0, (name, ran.stderr)
    io = place / "io" / "small"
    digits = [int(line) for line in (io / "encrypted_model_predictions.txt").read_text().split()]
    labels = [int(line) for line in (place / "datasets" / "small" / "labels.txt").read_text().split()]
    assert digits == labels
    assert not (io / "secret").exists()
    assert len(list((io / "ciphertexts_upload").iterdir())) == 4

    sys.path.insert(0, str(place / "submission"))
    try:
        import network
    finally:
        sys.path.remove(str(place / "submission"))
    with np.load(place / "model" / "mnist.npz") as model:
        wanted = network.logits(
            dict(model), np.loadtxt(place / "datasets" / "small" / "intermediate" / "test_pixels.txt")
        )
    np.testing.assert_allclose(np.load(io / "scores.npy"), wanted, atol=network.TOLERANCE * np.abs(wanted).max())


@pytest.mark.parametrize(
    ("damage", "words"),
    [(lambda content: content[:-5], "is not whole"), (lambda content: b"PNG" + content, "is no IDX file of bytes")],
)
def test_training_names_a_file_that_is_no_mnist(place, tmp_path, damage, words):
    raw = place / "harness" / "mnist" / "data" / "MNIST" / "raw"
    for file in raw.iterdir():
        (tmp_path / file.name).write_bytes(damage(file.read_bytes()))
    ran = called(Path(sys.executable), place, str(place / "submission" / "train.py"), str(tmp_path), "model.npz")
    assert ran.returncode == 1
    assert words in ran.stderr
    assert not (place / "model.npz").exists()
