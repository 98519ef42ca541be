"""Trains the network of `network.py` on MNIST, in numpy: `train.py FOLDER MODEL`. Minutes on two cores.

FOLDER holds the four files of MNIST (`train-images-idx3-ubyte`, also with `.gz`), as torchvision leaves them. The
activation is a square, so that the encrypted network computes what was trained. A tenth of the training images choose
the epoch; the test images are not looked at.
"""

import gzip
import struct
import sys
import time
from pathlib import Path

import numpy as np
from network import CLASSES, HIDDEN, PIXELS, logits

EPOCHS, BATCH, RATE, DECAY = 20, 256, 2e-3, 2e-4


def read_idx(folder: Path, name: str) -> np.ndarray:
    """An array of bytes in the format of MNIST's files."""
    for path, opened in ((folder / name, open), (folder / f"{name}.gz", gzip.open)):
        if path.exists():
            with opened(path, "rb") as file:
                content = file.read()
            break
    else:
        sys.exit(f"train: {folder / name} is missing, and so is {name}.gz: let the harness download MNIST first")
    dims = content[3] if len(content) > 3 else 0
    if content[:3] != b"\0\0\x08" or len(content) < 4 + 4 * dims:
        sys.exit(f"train: {path} is no IDX file of bytes")
    shape = struct.unpack(f">{dims}I", content[4 : 4 + 4 * dims])
    if len(content) != 4 + 4 * dims + int(np.prod(shape)):
        sys.exit(f"train: {path} is not whole: {len(content)} bytes, and its header says {shape}")
    return np.frombuffer(content, np.uint8, offset=4 + 4 * dims).reshape(shape)


def gradients(model: dict[str, np.ndarray], images: np.ndarray, labels: np.ndarray) -> dict[str, np.ndarray]:
    """Of the cross entropy."""
    hidden = images @ model["weight1"].T + model["bias1"]
    out = hidden**2 @ model["weight2"].T + model["bias2"]
    out -= out.max(axis=1, keepdims=True)
    share = np.exp(out)
    share /= share.sum(axis=1, keepdims=True)
    share[np.arange(len(labels)), labels] -= 1
    share /= len(labels)
    back = 2 * hidden * (share @ model["weight2"])
    return {
        "weight1": back.T @ images, "bias1": back.sum(axis=0),
        "weight2": share.T @ hidden**2, "bias2": share.sum(axis=0),
    }  # fmt: skip


def train(images: np.ndarray, labels: np.ndarray, seed: int = 1) -> dict[str, np.ndarray]:
    """The model of the best epoch; (n, PIXELS) float32 in [0, 1]."""
    rng = np.random.default_rng(seed)
    held = len(images) // 10
    (held_images, images), (held_labels, labels) = np.split(images, [held]), np.split(labels, [held])
    # Normalized pixels train better: what they need is folded into the first layer at the end.
    mean, deviation = np.float32(0.1307), np.float32(0.3081)
    model = {
        "weight1": rng.normal(0, PIXELS**-0.5, (HIDDEN, PIXELS)), "bias1": rng.normal(0, 0.1, HIDDEN),
        "weight2": rng.normal(0, HIDDEN**-0.5, (CLASSES, HIDDEN)), "bias2": np.zeros(CLASSES),
    }  # fmt: skip
    model = {name: value.astype(np.float32) for name, value in model.items()}
    first = {name: np.zeros_like(value) for name, value in model.items()}
    second = {name: np.zeros_like(value) for name, value in model.items()}
    best, found, count = 0.0, folded(model, mean, deviation), 0
    per_epoch = len(images) // BATCH
    for epoch in range(EPOCHS):
        begun = time.perf_counter()
        order = rng.permutation(len(images))
        for start in range(0, per_epoch * BATCH, BATCH):
            rows = order[start : start + BATCH]
            batch = (shifted(images[rows], rng) - mean) / deviation
            count += 1
            rate = RATE * 0.5 * (1 + np.cos(np.pi * count / (EPOCHS * per_epoch)))
            for name, gradient in gradients(model, batch, labels[rows]).items():
                first[name] = 0.9 * first[name] + 0.1 * gradient
                second[name] = 0.999 * second[name] + 0.001 * gradient**2
                size = first[name] / (1 - 0.9**count) / (np.sqrt(second[name] / (1 - 0.999**count)) + 1e-8)
                model[name] -= np.float32(rate) * (size + DECAY * model[name]).astype(np.float32)
        made = folded(model, mean, deviation)
        right = float(np.mean(logits(made, held_images).argmax(axis=1) == held_labels))
        if right >= best:
            best, found = right, made
        print(f"epoch {epoch + 1} of {EPOCHS}: {right:.2%} of held-out images, {time.perf_counter() - begun:.1f} s")
    return found


def shifted(images: np.ndarray, rng: np.random.Generator) -> np.ndarray:
    """A batch moved by up to one pixel each way."""
    down, right = rng.integers(-1, 2, 2)
    return np.roll(images.reshape(-1, 28, 28), (down, right), axis=(1, 2)).reshape(len(images), -1)


def folded(model: dict[str, np.ndarray], mean: float, deviation: float) -> dict[str, np.ndarray]:
    """The same network on pixels of [0, 1], with hidden values of about 1: squares then keep their precision."""
    made = {name: value.astype(np.float64) for name, value in model.items()}
    made["weight1"] = made["weight1"] / deviation
    made["bias1"] = made["bias1"] - mean * made["weight1"].sum(axis=1)
    size = np.sqrt(np.mean(made["weight1"] ** 2) * PIXELS)
    made["weight1"], made["bias1"], made["weight2"] = (
        made["weight1"] / size, made["bias1"] / size, made["weight2"] * size**2,
    )  # fmt: skip
    return made


def main() -> None:
    """Train, say how good it is on the held-out images, and write the model whole or not at all."""
    folder, target = Path(sys.argv[1]), Path(sys.argv[2])
    images = read_idx(folder, "train-images-idx3-ubyte").reshape(-1, PIXELS).astype(np.float32) / 255
    model = train(images, read_idx(folder, "train-labels-idx1-ubyte").astype(np.int64))
    target.parent.mkdir(parents=True, exist_ok=True)
    unfinished = target.with_name("unfinished.npz")
    np.savez(unfinished, **model)
    unfinished.replace(target)


if __name__ == "__main__":
    main()
