"""Train the networks of the workloads `resnet20` and `cnn` on the bundled digits, and write their weights.

    python -m venv /tmp/train && /tmp/train/bin/pip install torch scikit-learn numpy
    PYTHONPATH=src /tmp/train/bin/python scripts/train_networks.py [NETWORK ...] [--epochs N]

PyTorch is needed here only. Takes a few minutes on two cores; prints the accuracy of each network on its test images.
Batch normalization is folded; weights are stored as float16, biases as float32, with the largest input of each
activation over the training images, which fixes the intervals of the polynomials.
"""

from __future__ import annotations

import argparse
import sys
import time
from pathlib import Path
from typing import Any

import numpy as np
import torch  # type: ignore[import-not-found,unused-ignore]
from torch import nn  # type: ignore[import-not-found,unused-ignore]

from penstock.program.workloads import cnn, resnet20
from penstock.program.workloads.parts import networks

WEIGHTS = Path(__file__).resolve().parent.parent / "src" / "penstock" / "program" / "workloads" / "parts" / "weights"
EPOCHS = {"resnet20-ci": 20, "resnet20-full": 8, "cnn-ci": 40, "cnn-full": 12}
BATCH = 32


class Block(nn.Module):  # type: ignore[misc,unused-ignore]
    """Two convolutions and a shortcut without weights: subsampled pixels, zero channels on both sides."""

    def __init__(self, width_in: int, width: int) -> None:
        super().__init__()
        self.stride = width // width_in
        self.conv1 = nn.Conv2d(width_in, width, 3, self.stride, 1, bias=False)
        self.bn1 = nn.BatchNorm2d(width)
        self.conv2 = nn.Conv2d(width, width, 3, 1, 1, bias=False)
        self.bn2 = nn.BatchNorm2d(width)

    def forward(self, x: Any) -> Any:
        y = torch.relu(self.bn1(self.conv1(x)))
        y = self.bn2(self.conv2(y))
        if self.stride == 2:
            pad = x.shape[1] // 2
            x = nn.functional.pad(x[:, :, ::2, ::2], (0, 0, 0, 0, pad, pad))
        return torch.relu(y + x)


class ResNet20(nn.Module):  # type: ignore[misc,unused-ignore]
    """He et al. 2016, section 4.2, n = 3."""

    def __init__(self) -> None:
        super().__init__()
        self.conv1 = nn.Conv2d(networks.COLOURS, 16, 3, 1, 1, bias=False)
        self.bn1 = nn.BatchNorm2d(16)
        width_in = 16
        for stage, width in enumerate(resnet20.WIDTHS):
            blocks = [Block(width_in if i == 0 else width, width) for i in range(3)]
            setattr(self, f"layer{stage + 1}", nn.Sequential(*blocks))
            width_in = width
        self.linear = nn.Linear(64, networks.CLASSES)

    def forward(self, x: Any) -> Any:
        y = torch.relu(self.bn1(self.conv1(x)))
        for stage in range(3):
            y = getattr(self, f"layer{stage + 1}")(y)
        return self.linear(y.mean((2, 3)))


class SmallCnn(nn.Module):  # type: ignore[misc,unused-ignore]
    """Two convolutions with squares for activations, average pools between, one linear layer."""

    def __init__(self, side: int) -> None:
        super().__init__()
        self.conv1 = nn.Conv2d(networks.COLOURS, cnn.CHANNELS, 3, 1, 1, bias=False)
        self.bn1 = nn.BatchNorm2d(cnn.CHANNELS)
        self.conv2 = nn.Conv2d(cnn.CHANNELS, cnn.CHANNELS, 3, 1, 1, bias=False)
        self.bn2 = nn.BatchNorm2d(cnn.CHANNELS)
        self.linear = nn.Linear(cnn.CHANNELS * (side // cnn.POOL**2) ** 2, networks.CLASSES)

    def forward(self, x: Any) -> Any:
        y = nn.functional.avg_pool2d(self.bn1(self.conv1(x)) ** 2, cnn.POOL)
        y = nn.functional.avg_pool2d(self.bn2(self.conv2(y)) ** 2, cnn.POOL)
        return self.linear(y.flatten(1))


def train(model: Any, side: int, epochs: int, rate: float, decay: float) -> None:
    """SGD with a one-cycle rate; images are shifted by up to an eighth of their side."""
    images, labels = _tensors(side, 0)
    steps = epochs * (len(labels) // BATCH)
    optimizer = torch.optim.SGD(model.parameters(), lr=rate, momentum=0.9, weight_decay=decay, nesterov=True)
    schedule = torch.optim.lr_scheduler.OneCycleLR(optimizer, rate, total_steps=steps + 1)
    shift = side // 8
    for epoch in range(epochs):
        model.train()
        started, total = time.perf_counter(), 0.0
        order = torch.randperm(len(labels))
        for i in range(0, len(labels) - BATCH + 1, BATCH):
            chosen = order[i : i + BATCH]
            dy, dx = np.random.randint(-shift, shift + 1, 2)
            x = torch.roll(images[chosen], (int(dy), int(dx)), (2, 3))
            loss = nn.functional.cross_entropy(model(x), labels[chosen], label_smoothing=0.1)
            optimizer.zero_grad()
            loss.backward()
            nn.utils.clip_grad_norm_(model.parameters(), 2.0)
            optimizer.step()
            schedule.step()
            total += float(loss) * BATCH
        print(f"  epoch {epoch + 1}: loss {total / len(labels):.3f}, {time.perf_counter() - started:.1f} s", flush=True)
    model.eval()


def _tensors(side: int, part: int) -> tuple[Any, Any]:
    source = networks.digits_in_colour(side)[part]
    return torch.tensor(networks.normalized(source.images), dtype=torch.float32), torch.tensor(source.labels)


def main() -> None:
    arguments = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    arguments.add_argument("networks", nargs="*", default=list(EPOCHS), help=", ".join(EPOCHS))
    arguments.add_argument("--epochs", type=int)
    arguments.add_argument("--seed", type=int, default=1)
    arguments.add_argument("--output", type=Path, default=WEIGHTS)
    options = arguments.parse_args()
    for name in options.networks:
        if name not in EPOCHS:
            sys.exit(f"no network '{name}'; known: {', '.join(EPOCHS)}")
        torch.manual_seed(options.seed)
        np.random.seed(options.seed)
        small = name.startswith("cnn")
        workload, network_of = (cnn, cnn.ConvNet) if small else (resnet20, resnet20.ResNet20)
        side = workload.SIZES[name.partition("-")[2]].side
        model = SmallCnn(side) if small else ResNet20()
        print(f"{name}: {sum(p.numel() for p in model.parameters())} weights, {side} x {side} images", flush=True)
        train(model, side, options.epochs or EPOCHS[name], 0.02 if small else 0.1, 1e-4 if small else 1e-3)
        arrays = {k: v.double().numpy() for k, v in model.state_dict().items() if v.dtype.is_floating_point}
        training, test = networks.digits_in_colour(side)
        network = network_of.from_arrays(arrays, name, training.images)
        path = options.output / f"{name}.npz"
        np.savez_compressed(path, **network.stored())  # type: ignore[arg-type,unused-ignore]
        network = network_of.from_arrays(networks.read_weights(path), str(path))
        x = networks.normalized(test.images)
        print(f"  {path.name}: {path.stat().st_size} bytes; accuracy on {len(test.labels)} test images:", end=" ")
        for words, logits in network.readings(x).items():
            print(f"{np.mean(logits.argmax(1) == test.labels):.4f} ({words})", end=" ", flush=True)
        print()


if __name__ == "__main__":
    main()
