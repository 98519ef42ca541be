from __future__ import annotations

import gzip
import re
import struct
from pathlib import Path

import numpy as np
import pytest

from penstock.errors import ParamsError, PenstockError, UnknownName, UsageError
from penstock.program import workloads
from penstock.program.evaluator.clear import ClearEvaluator
from penstock.program.running.clear import run_clear
from penstock.program.running.reading import resolve
from penstock.program.running.trace import trace_workload
from penstock.program.workloads.parts.images import mnist_three_eight, read_idx
from penstock.program.workloads.parts.training_size import SIGMOID
from penstock.scheme.params import catalogue
from penstock.scheme.traces.inspect import differences, summary
from support.toy import toy


def idx(values: np.ndarray) -> bytes:
    return bytes([0, 0, 8, values.ndim]) + struct.pack(f">{values.ndim}I", *values.shape) + values.tobytes()


def mnist_folder(folder: Path, count: int = 60) -> Path:
    generator = np.random.default_rng(0)
    labels = np.tile(np.array([3, 8, 1], dtype=np.uint8), count)[:count]
    images = generator.integers(0, 255, (count, 28, 28)).astype(np.uint8)
    (folder / "train-images-idx3-ubyte").write_bytes(idx(images))
    (folder / "train-labels-idx1-ubyte.gz").write_bytes(gzip.compress(idx(labels)))
    return folder


KEYLESS = ("string-match", "cryptoracle-chi-square")
"""Additions, and products that are not relinearized, need no key."""


@pytest.mark.parametrize("name", workloads.names())
def test_every_size_traces_on_its_own_parameters(name: str) -> None:
    workload = workloads.get(name)
    for size_name in workload.SIZES:
        trace = trace_workload(name, size=size_name)
        assert trace.meta.params["name"] == workload.SIZES[size_name].params
        assert summary(trace)["num_keys"] > 0 or name in KEYLESS


@pytest.mark.parametrize("name", workloads.names())
def test_the_clear_reading_passes_its_own_check(name: str) -> None:
    workload, size_name, params = resolve(name, None, "ci")
    size = workload.SIZES[size_name]
    data = workload.data(size, params.slots, 3)
    clear = run_clear(name, params, size_name, 3, data)
    assert workload.check(clear, clear, data, size).passed


@pytest.mark.parametrize("name", workloads.names())
def test_a_workload_is_named_after_its_file(name: str) -> None:
    assert name == workloads.get(name).NAME


def test_unknown_workloads_and_sizes_suggest_the_nearest() -> None:
    with pytest.raises(UnknownName, match="did you mean 'inner-product'"):
        workloads.get("inner-produkt")
    with pytest.raises(UnknownName, match="did you mean 'demo'"):
        resolve("inner-product", None, "dem")


def test_accelerator_parameters_imply_the_papers_size() -> None:
    assert resolve("logistic-regression", "sharp", None)[1] == "helr"
    assert resolve("logistic-regression", None, None)[1] == "demo"
    assert resolve("logistic-regression", "sharp", "demo")[1] == "demo"


def test_seeds_change_the_data_and_not_the_trace() -> None:
    workload, size_name, params = resolve("logistic-regression", None, "ci")
    size = workload.SIZES[size_name]
    one, two = (workload.data(size, params.slots, seed) for seed in (1, 2))
    assert not np.array_equal(one.batches[0][0], two.batches[0][0])
    assert np.array_equal(one.batches[0][0], workload.data(size, params.slots, 1).batches[0][0])
    left, right = (trace_workload("logistic-regression", params, size_name, seed) for seed in (1, 2))
    assert list(differences(left, right)) == []


def test_training_by_program_equals_gradient_descent_by_hand() -> None:
    """The packed program against a plain loop with the same sigmoid, learning rate and momentum."""
    workload, size_name, params = resolve("logistic-regression", None, "ci")
    size = workload.SIZES[size_name]
    data = workload.data(size, params.slots, 0)
    weights = momentum = np.zeros(197)
    constant, linear, cubic = SIGMOID
    for t in range(size.iterations):
        batch = np.concatenate(data.batches[t % size.num_batches]).reshape(-1, 256)[:, :197]
        x = batch @ momentum
        gradient = size.learning_rate / size.batch * (constant + linear * x + cubic * x**3) @ batch
        stepped, eta = momentum + gradient, -t / (t + 3)
        momentum, weights = (1 - eta) * stepped + eta * weights, stepped
    assert np.allclose(run_clear("logistic-regression", params, size_name, 0, data), weights, atol=1e-12)


def test_helr_at_sharp_bootstraps_and_has_its_paper_size() -> None:
    found = summary(trace_workload("logistic-regression", "sharp"), composites=True)
    assert found["size"] == "helr"
    # 11 batches of 1024 x 256 in 2^15 slots are 8 ciphertexts each; with the weights 89 are encrypted.
    assert found["client_operations"] == {"encrypt": 89, "decrypt": 1}
    assert found["by_kind"]["bootstrap"] > 0


@pytest.mark.parametrize("size", ["demo", "deep"])
def test_the_page_of_the_native_reading_counts_the_operations_of_the_server(size: str) -> None:
    page = (Path(__file__).parents[3] / "docs" / "guides" / "native-reading.md").read_text()
    told = re.search(rf"^`{size}` \(N = [^)]*?(\d+) operations\s+of the server\)", page, re.M)
    assert told
    assert len(trace_workload("logistic-regression", size=size).server_operations()) == int(told[1])


def test_too_few_slots_are_refused() -> None:
    with pytest.raises(ParamsError, match="256"):
        trace_workload("logistic-regression", toy(slots=128), "ci")
    with pytest.raises(ParamsError, match="order"):
        trace_workload("matrix-multiplication", toy(slots=32), "ci")


@pytest.mark.parametrize("slots", [1, 2, 4])
@pytest.mark.parametrize("name", workloads.names())
def test_a_workload_in_a_few_slots_runs_or_has_a_rule_of_its_own(name: str, slots: int) -> None:
    workload = workloads.get(name)
    size = workload.SIZES[workload.DEFAULT_SIZE]
    refused = ""
    try:
        values = workload.data(size, slots, 0)
        clear = workload.program(ClearEvaluator(toy(slots=slots)), values, size)
        assert workload.check(clear, clear, values, size).passed
    except PenstockError as error:
        refused = str(error)
    assert "a vector of shape" not in refused


def test_mnist_files_become_threes_and_eights(tmp_path: Path) -> None:
    found = mnist_three_eight(mnist_folder(tmp_path))
    assert found.images.shape == (40, 14, 14)
    assert set(found.labels.tolist()) == {1.0, -1.0}
    workload, size_name, params = resolve("logistic-regression", None, "ci")
    data = workload.data(workload.SIZES[size_name], params.slots, 0, tmp_path)
    assert data.test_samples.shape == (8, 197)
    assert "MNIST" in data.description


def test_broken_idx_files_are_named_with_the_rule(tmp_path: Path) -> None:
    whole = idx(np.zeros((4, 3), dtype=np.uint8))
    cases = {
        b"": "not an IDX file",
        b"\x89PNG": "not an IDX file",
        bytes([0, 0, 13, 1]) + whole[4:]: "type 0x0d",
        whole[:7]: "inside its header",
        whole[:-1]: "truncated or corrupt",
        whole + b"x": "truncated or corrupt",
    }
    for number, (content, reason) in enumerate(cases.items()):
        path = tmp_path / f"file{number}"
        path.write_bytes(content)
        with pytest.raises(UsageError, match=reason):
            read_idx(path)
    (tmp_path / "cut.gz").write_bytes(gzip.compress(whole)[:-9])
    with pytest.raises(PenstockError, match="cannot be read"):
        read_idx(tmp_path / "cut.gz")


def test_a_folder_without_mnist_is_refused(tmp_path: Path) -> None:
    with pytest.raises(UsageError, match="not a folder"):
        mnist_three_eight(tmp_path / "absent")
    with pytest.raises(UsageError, match="train-images"):
        mnist_three_eight(tmp_path)
    mnist_folder(tmp_path)
    (tmp_path / "train-labels-idx1-ubyte.gz").write_bytes(gzip.compress(idx(np.zeros(7, dtype=np.uint8))))
    with pytest.raises(UsageError, match="labels for"):
        mnist_three_eight(tmp_path)


@pytest.mark.parametrize(
    ("name", "params", "size"),
    [
        ("resnet20", "openfhe-resnet20", "full"),
        ("bootstrapping", "openfhe-bootstrap", "full"),
        ("bootstrapping", "insecure-resnet20", "ci"),  # two sizes are on it: the default
        ("logistic-regression", "openfhe-deep", "deep"),
        ("logistic-regression", "openfhe-bench", "demo"),  # none is
        ("logistic-regression", "sharp", "helr"),
    ],
)
def test_a_set_that_one_size_is_on_implies_it(name, params, size):
    assert workloads.implied_size(workloads.get(name), catalogue.get(params)) == size
