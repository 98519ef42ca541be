from __future__ import annotations

import sys
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

from penstock.errors import CapabilityMissing, ParamsError, UsageError
from penstock.program import workloads
from penstock.program.evaluator.circuits import convolution, multiplexed
from penstock.program.evaluator.circuits.convolution import ImageLayout
from penstock.program.evaluator.circuits.multiplexed import Multiplexed
from penstock.program.evaluator.clear import ClearEvaluator
from penstock.program.running.clear import run_clear
from penstock.program.running.reading import resolve
from penstock.program.running.trace import trace_workload
from penstock.program.workloads import cnn, resnet20
from penstock.program.workloads.parts import networks
from support.toy import toy

RNG = np.random.default_rng(7)


def clear(slots: int) -> ClearEvaluator:
    return ClearEvaluator(toy(ring_dim=2 * slots, slots=slots))


# Circuits.
@pytest.mark.parametrize(("channels", "side", "gap", "slots"), [(4, 4, 1, 64), (4, 4, 1, 256), (2, 4, 2, 256)])
def test_a_convolution_equals_the_plain_one_whatever_the_gaps_and_copies(
    channels: int, side: int, gap: int, slots: int
) -> None:
    layout, ev = ImageLayout(channels, side, slots, gap), clear(slots)
    x, weight = RNG.normal(size=(channels, side, side)), RNG.normal(size=(channels, channels, 3, 3))
    expected = networks.convolve(x[None], weight, np.zeros(channels))[0]
    a = ev.encrypt(layout.vector(x))
    got = convolution.convolve(ev, convolution.neighbours(ev, a, layout), layout, weight)
    assert np.allclose(layout.read(got), expected)
    assert np.allclose(got, layout.vector(expected)), "every copy holds the result, and the gaps hold zeros"


def test_garbage_in_the_gaps_does_not_reach_a_convolution() -> None:
    layout, ev = ImageLayout(2, 4, 256, 2), clear(256)
    x, weight = RNG.normal(size=(2, 4, 4)), RNG.normal(size=(2, 2, 3, 3))
    slots = layout.vector(x)
    dirty = np.where(layout.vector(np.ones((2, 4, 4))) == 0, 1e3, slots)
    for a in (slots, dirty):
        got = convolution.convolve(ev, convolution.neighbours(ev, a, layout), layout, weight)
        assert np.allclose(layout.read(got), networks.convolve(x[None], weight, np.zeros(2))[0])


@pytest.mark.parametrize(("side", "slots"), [(4, 64), (4, 256), (8, 256)])
def test_a_halved_layer_is_compacted_with_its_channels_interleaved(side: int, slots: int) -> None:
    channels = 4
    layout, ev = ImageLayout(channels, side, slots), clear(slots)
    x, weight = RNG.normal(size=(channels, side, side)), RNG.normal(size=(2 * channels, channels, 3, 3))
    shifted = convolution.neighbours(ev, layout.vector(x), layout)
    even, odd = (convolution.convolve(ev, shifted, layout, weight[i::2], stride=2) for i in (0, 1))
    out = ImageLayout(2 * channels, side // 2, slots)
    got = convolution.compact(ev, even, odd, layout)
    expected = networks.convolve(x[None], weight, np.zeros(2 * channels), 2)[0]
    assert np.allclose(got, out.vector(expected))


def test_a_compacted_shortcut_leaves_the_odd_channels_empty_and_carries_its_factor() -> None:
    layout, ev = ImageLayout(4, 8, 256), clear(256)
    x = RNG.normal(size=(4, 8, 8))
    expected = np.zeros((8, 4, 4))
    expected[0::2] = 0.5 * x[:, ::2, ::2]
    got = convolution.compact(ev, layout.vector(x), None, layout, 0.5)
    assert np.allclose(got, ImageLayout(8, 4, 256).vector(expected))


@pytest.mark.parametrize(("channels", "side", "outputs"), [(16, 2, 10), (8, 4, 5), (16, 4, 16)])
def test_pool_and_linear_layer_equal_the_plain_ones(channels: int, side: int, outputs: int) -> None:
    layout, ev = ImageLayout(channels, side, 512), clear(512)
    x, weight = RNG.normal(size=(channels, side, side)), RNG.normal(size=(outputs, channels))
    got = convolution.pooled_linear(ev, layout.vector(x), layout, weight)
    assert np.allclose(got[: outputs * layout.block : layout.block], weight @ x.mean(axis=(1, 2)))


def test_channels_that_do_not_fit_are_refused_with_the_slots_they_take() -> None:
    with pytest.raises(ParamsError, match="take 128 slots, and the set has 64"):
        ImageLayout(8, 4, 64).vector(np.zeros((8, 4, 4)))


# The committed networks.
@pytest.mark.parametrize(("workload", "size"), [(w, s) for w in (resnet20, cnn) for s in w.SIZES])
def test_a_committed_network_reads_95_percent_of_its_test_digits(workload: Any, size: str) -> None:
    chosen = workload.SIZES[size]
    test = networks.digits_in_colour(chosen.side)[1]
    network = workload.stored_network(chosen.weights)
    # At 32 x 32 a tenth of the images, for time; the training script prints the accuracy on all of them.
    each = slice(None, None, 1 if chosen.side < 32 else 9)
    readings = network.readings(networks.normalized(test.images[each]))
    accuracies = {words: float(np.mean(v.argmax(1) == test.labels[each])) for words, v in readings.items()}
    assert min(accuracies.values()) >= 0.95, accuracies
    assert (networks.WEIGHTS / f"{chosen.weights}.npz").stat().st_size < 1_000_000


@pytest.mark.parametrize("size", resnet20.SIZES)
def test_inputs_of_the_polynomials_stay_inside_their_intervals_on_the_test_digits(size: str) -> None:
    chosen = resnet20.SIZES[size]
    network = resnet20.stored_network(chosen.weights)
    test = networks.digits_in_colour(chosen.side)[1]
    seen = np.zeros(resnet20.ACTIVATIONS)

    def watch(x: np.ndarray, index: int) -> np.ndarray:
        seen[index] = max(seen[index], float(np.abs(x).max()) / network.bounds[index])
        return network.polynomial(x, index)

    network.logits(networks.normalized(test.images[:40]), watch)
    assert 0.3 < seen.min() <= seen.max() < 1


@pytest.mark.parametrize(("name", "size"), [("resnet20", "ci"), ("resnet20", "full"), ("cnn", "ci"), ("cnn", "full")])
def test_the_clear_reading_equals_the_plain_network(name: str, size: str) -> None:
    workload, size, params = resolve(name, None, size)
    chosen = workload.SIZES[size]
    data = workload.data(chosen, params.slots, 5)
    got = run_clear(name, params, size, 5, data)
    check = workload.check(got, got, data, chosen)
    assert check.passed, check.rules
    assert check.numbers["max_abs_error_of_clear_reading"] < 1e-9
    wrong = np.roll(got, 1)
    assert not workload.check(got, wrong, data, chosen).passed
    assert not workload.check(wrong, wrong, data, chosen).passed


def test_training_and_test_digits_do_not_overlap_and_are_split_80_to_20() -> None:
    training, test = networks.digits_in_colour(8)
    assert (len(training.labels), len(test.labels)) == (1438, 359)
    assert not {i.tobytes() for i in training.images} & {i.tobytes() for i in test.images}


# The graph.
def test_resnet20_is_one_graph_at_both_sizes_and_on_accelerators() -> None:
    counts = {}
    for params, size in ((None, "ci"), (None, "full"), ("sharp", None)):
        kinds = trace_workload("resnet20", params, size).view(composites=True).count_by_kind()
        counts[size] = {k: kinds[k] for k in ("bootstrap", "chebyshev", "decompose", "rotate_hoisted", "mult_scalar")}
    assert counts["ci"] == counts["full"] == counts[None]
    assert counts["ci"] == {
        "bootstrap": 20,
        "chebyshev": 19,
        "decompose": 19,
        "rotate_hoisted": 152,
        "mult_scalar": 7,
    }


def test_resnet20_uses_few_rotation_keys() -> None:
    called = trace_workload("resnet20", size="full").view(composites=True)
    assert len({s for s in called.operations["step"].to_pylist() if s}) <= 36


def test_a_padded_shortcut_of_the_network_lands_in_the_even_channels() -> None:
    order = resnet20._wider(np.arange(4))
    assert order.tolist() == [2, 0, 3, 1, 4, 6, 5, 7]
    x = RNG.normal(size=(1, 4, 4, 4))
    wide = resnet20.shortcut(x, 2)[0][order]
    assert np.array_equal(wide[0::2], x[0, :, ::2, ::2])
    assert not wide[1::2].any()


# A user's weights.
def state_dict(bounds: bool = True) -> dict[str, np.ndarray]:
    """Arrays of a ResNet-20 as a PyTorch model with batch normalization names them."""
    arrays: dict[str, np.ndarray] = {}

    def layer(conv: str, norm: str, outputs: int, inputs: int) -> None:
        arrays[f"{conv}.weight"] = RNG.normal(size=(outputs, inputs, 3, 3)) * (2 / (9 * inputs)) ** 0.5
        arrays[f"{norm}.weight"], arrays[f"{norm}.bias"] = RNG.uniform(0.5, 1, outputs), RNG.normal(size=outputs)
        arrays[f"{norm}.running_mean"] = RNG.normal(size=outputs)
        arrays[f"{norm}.running_var"] = RNG.uniform(0.5, 1, outputs)

    layer("conv1", "bn1", 16, 3)
    width_in = 16
    for stage, width in enumerate(resnet20.WIDTHS):
        for block in range(3):
            for i in (1, 2):
                layer(f"layer{stage + 1}.{block}.conv{i}", f"layer{stage + 1}.{block}.bn{i}", width, width_in)
                width_in = width
    arrays["linear.weight"], arrays["linear.bias"] = RNG.normal(size=(10, 64)), RNG.normal(size=10)
    if bounds:
        arrays["bounds"] = np.full(resnet20.ACTIVATIONS, 50.0)
    return arrays


def cifar(path: Path, count: int = 12, label: int = 3) -> Path:
    records = RNG.integers(0, 256, (count, networks.CIFAR_RECORD)).astype(np.uint8)
    records[:, 0] = label
    path.write_bytes(records.tobytes())
    return path


def test_batch_normalization_is_folded_into_the_convolution() -> None:
    arrays = state_dict()
    weight, bias = networks.folded(arrays, "conv1", "bn1", (16, 3, 3, 3), "here")
    x = RNG.normal(size=(2, 3, 5, 5))
    plain = networks.convolve(x, arrays["conv1.weight"], np.zeros(16))
    mean, variance, gain, shift = (
        arrays[f"bn1.{p}"][:, None, None] for p in ("running_mean", "running_var", "weight", "bias")
    )
    assert np.allclose(networks.convolve(x, weight, bias), (plain - mean) / np.sqrt(variance + 1e-5) * gain + shift)


def test_a_network_without_bounds_takes_them_from_images_and_says_so_otherwise() -> None:
    arrays = state_dict(bounds=False)
    with pytest.raises(UsageError, match="no 'bounds'"):
        resnet20.ResNet20.from_arrays(arrays, "here")
    network = resnet20.ResNet20.from_arrays(arrays, "here", RNG.uniform(size=(2, 3, 8, 8)))
    assert network.bounds.min() > 0
    again = resnet20.ResNet20.from_arrays(network.stored(), "stored")
    assert all(np.allclose(a, b, atol=2e-3) for a, b in zip(network.weights, again.weights, strict=True))


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (lambda a: a.pop("layer2.1.conv2.weight"), "no 'layer2.1.conv2.weight' of shape"),
        (lambda a: a.update({"linear.bias": np.zeros(100)}), "'linear.bias' has shape"),
        (lambda a: a.update({"linear.bias": np.full(10, np.nan)}), "not finite"),
    ],
)
def test_weights_of_another_network_are_refused_by_array(change: Any, message: str) -> None:
    arrays = state_dict()
    change(arrays)
    with pytest.raises(UsageError, match=message):
        resnet20.ResNet20.from_arrays(arrays, "mine.npz")


def test_a_users_images_and_weights_give_the_plain_networks_logits(tmp_path: Path) -> None:
    cifar(tmp_path / "test_batch.bin")
    np.savez(tmp_path / "mine.npz", **state_dict(bounds=False))  # type: ignore[arg-type]
    workload, size, params = resolve("resnet20", None, "ci")
    chosen = workload.SIZES[size]
    data = workload.data(chosen, params.slots, 3, tmp_path)
    assert data.label == 3
    got = run_clear("resnet20", params, size, 3, data)
    assert workload.check(got, got, data, chosen).passed


def test_cifar_images_are_read_plane_by_plane(tmp_path: Path) -> None:
    path = cifar(tmp_path / "data_batch_1.bin", 3, 7)
    raw = path.read_bytes()
    read = networks.read_cifar10(path)
    assert read.labels.tolist() == [7, 7, 7]
    assert read.images[1, 2, 3, 4] == raw[networks.CIFAR_RECORD + 1 + 2 * 1024 + 3 * 32 + 4] / 255
    assert np.allclose(networks.read_cifar10(path, 8).images[0, 0, 0, 0], read.images[0, 0, :4, :4].mean())


@pytest.mark.parametrize(
    ("content", "message"),
    [
        (b"", "0 bytes; a binary file"),
        (b"\1" * (networks.CIFAR_RECORD - 1), "whole number of records"),
        (b"\1" * networks.CIFAR_RECORD + b"\x0a" + b"\0" * 3072, "record 1 has label 10"),
        (None, "does not exist"),
    ],
)
def test_a_malformed_cifar_file_is_refused_by_name_and_rule(
    tmp_path: Path, content: bytes | None, message: str
) -> None:
    path = tmp_path / "data_batch_1.bin"
    if content is not None:
        path.write_bytes(content)
    with pytest.raises(UsageError, match=f"data_batch_1.bin.*{message}"):
        networks.read_cifar10(path)


def test_a_folder_without_images_or_with_two_weight_files_is_refused(tmp_path: Path) -> None:
    size = resnet20.SIZES["ci"]
    with pytest.raises(UsageError, match=r"no test_batch\.bin"):
        resnet20.data(size, 1024, 0, tmp_path)
    cifar(tmp_path / "test_batch.bin")
    with pytest.raises(UsageError, match="0 weight files"):
        resnet20.data(size, 1024, 0, tmp_path)
    np.savez(tmp_path / "a.npz", **state_dict())  # type: ignore[arg-type]
    assert resnet20.data(size, 1024, 0, tmp_path).label == 3
    np.savez(tmp_path / "b.npz", **state_dict())  # type: ignore[arg-type]
    with pytest.raises(UsageError, match="2 weight files"):
        resnet20.data(size, 1024, 0, tmp_path)


def test_weights_in_no_known_format_are_refused_by_name(tmp_path: Path) -> None:
    broken = tmp_path / "broken.npz"
    broken.write_bytes(b"PK\3\4 and then nothing")
    for path, message in ((broken, "is not an .npz"), (tmp_path / "none.npz", "does not exist")):
        with pytest.raises(UsageError, match=f"{path.name}.*{message}"):
            networks.read_weights(path)
    other = tmp_path / "weights.onnx"
    other.touch()
    with pytest.raises(UsageError, match=r"not '\.onnx'"):
        networks.read_weights(other)


def test_a_state_dict_without_pytorch_names_the_remedy(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = tmp_path / "model.pt"
    path.touch()
    monkeypatch.setitem(sys.modules, "torch", None)
    with pytest.raises(CapabilityMissing, match="pip install torch, or save the weights as"):
        networks.read_weights(path)


def test_a_state_dict_is_loaded_as_weights_only(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = tmp_path / "model.pth"
    path.touch()

    class Tensor:
        def double(self) -> Tensor:
            return self

        def numpy(self) -> np.ndarray:
            return np.ones(2)

    def load(file: Path, *, map_location: str, weights_only: bool) -> Any:
        assert weights_only
        assert map_location == "cpu"
        if stored is None:
            raise RuntimeError("Weights only load failed")
        return stored

    monkeypatch.setitem(sys.modules, "torch", SimpleNamespace(load=load))
    stored: Any = {"state_dict": {"module.conv1.weight": Tensor(), "epoch": 3}}
    assert list(networks.read_weights(path)) == ["conv1.weight"]
    stored = None
    with pytest.raises(UsageError, match="weights_only=True"):
        networks.read_weights(path)
    stored = [1, 2]
    with pytest.raises(UsageError, match="holds no state dict"):
        networks.read_weights(path)


def test_both_networks_are_registered() -> None:
    assert {"resnet20", "cnn"} <= set(workloads.names())


# Multiplexed packing.
@pytest.mark.parametrize(("channels", "side", "gap", "outputs", "stride"), [
    (4, 4, 1, 4, 1), (4, 4, 1, 8, 2), (8, 4, 2, 8, 1), (8, 4, 2, 16, 2), (16, 2, 4, 16, 1), (2, 4, 1, 2, 1),
])  # fmt: skip
def test_a_multiplexed_convolution_equals_the_plain_one(
    channels: int, side: int, gap: int, outputs: int, stride: int
) -> None:
    layout, ev = Multiplexed(channels, side, gap, 512), clear(512)
    x, weight = RNG.normal(size=(channels, side, side)), RNG.normal(size=(outputs, channels, 3, 3))
    got = multiplexed.convolve(ev, layout.vector(x), layout, weight, stride)
    expected = networks.convolve(x[None], weight, np.zeros(outputs), stride)[0]
    out = layout.strided(outputs, stride)
    assert np.allclose(out.read(got), expected)
    assert np.allclose(got, out.vector(expected)), "every copy holds the result"


def test_a_multiplexed_shortcut_is_that_of_the_network() -> None:
    layout, ev = Multiplexed(8, 4, 2, 512), clear(512)
    x = RNG.normal(size=(8, 4, 4))
    got = multiplexed.downsample(ev, layout.vector(x), layout, 0.25)
    assert np.allclose(got, layout.strided(16, 2).vector(0.25 * resnet20.shortcut(x[None], 2)[0]))


@pytest.mark.parametrize("size", ["ci", "full"])
def test_the_multiplexed_clear_reading_equals_the_plain_network(size: str) -> None:
    workload, size, params = resolve("resnet20-multiplexed", None, size)
    data = workload.data(workload.SIZES[size], params.slots, 6)
    got = run_clear("resnet20-multiplexed", params, size, 6, data)
    assert workload.check(got, got, data, workload.SIZES[size]).passed


def test_the_multiplexed_packing_takes_fewer_bootstrappings_and_more_keys_than_the_low_memory_one() -> None:
    counts = {}
    for name in ("resnet20", "resnet20-multiplexed"):
        called = trace_workload(name, "sharp", "full").view(composites=True)
        steps = {s for s in called.operations["step"].to_pylist() if s}
        counts[name] = called.count_by_kind()["bootstrap"], len(steps)
    assert counts == {"resnet20": (20, 35), "resnet20-multiplexed": (18, 208)}


def test_multiplexed_channels_that_do_not_fit_are_refused() -> None:
    with pytest.raises(ParamsError, match="take 512 slots, and the set has 256"):
        Multiplexed(8, 4, 2, 256).strided(32, 1).vector(np.zeros((32, 4, 4)))
