"""GPUs in machine files: launches of an operation, their times by hand, and files that break a rule."""

from __future__ import annotations

import math
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from penstock.errors import MachineError
from penstock.program.running import trace_workload
from penstock.scheme.machines import Evidence, Machine, load_machine
from penstock.scheme.machines.figure import Figure
from penstock.scheme.machines.gpu.launches import FUSIONS, KERNELS, launches_of
from penstock.scheme.machines.gpu.model import LAUNCHES
from penstock.scheme.machines.missing import missing
from penstock.scheme.machines.written import machine_toml
from penstock.scheme.operations import OpKind
from penstock.scheme.params import catalogue
from penstock.scheme.play.price import depths, price_trace
from penstock.scheme.play.schedule import ProgramShapes
from penstock.scheme.work.kernel_work import KernelWork
from penstock.scheme.work.kernels import kernel_work

CHEDDAR = catalogue.get("cheddar-30")
N, WORD = CHEDDAR.ring_dim, 4
MEMORY, LATENCY, LAUNCH = 1555e9, 600 / 1.41e9, 0.9e-6
INTEGERS = 108 * 64 * 1.41e9
FULL = 108 * 256 * 8
"""Points that fill an A100: 8 on each of 256 threads of 108 multiprocessors."""


def at_peak(name: str = "a100-cheddar") -> Machine:
    machine = load_machine(name)
    return replace(machine, utilisation=Figure(value=1.0, text="100 %", source="a test", kind=Evidence.ASSUMED))


def transforms(limbs: int) -> KernelWork:
    return KernelWork(ring_dim=N, limb_transforms=limbs, transform_loops=((limbs, 1),))


def test_a_sum_reads_two_ciphertexts_and_writes_one_in_one_launch() -> None:
    cost = at_peak().price(kernel_work(OpKind.ADD, CHEDDAR, 48))
    moved = 3 * 2 * 48 * N * WORD / MEMORY
    assert cost.per_unit["additions"] == pytest.approx(moved)
    assert cost.per_unit[LAUNCHES] == LAUNCH
    assert cost.seconds == pytest.approx(moved + LAUNCH)
    assert cost.bound_by == "additions"


@pytest.mark.parametrize("limbs", [1, 2, 3, 4, 12, 48])
def test_a_transform_is_bound_by_latency_memory_or_integers(limbs: int) -> None:
    """Two passes; eight instructions a butterfly; integers are full from 3.4 limbs on."""
    cost = at_peak().price(transforms(limbs))
    memory = 2 * 2 * limbs * N * WORD / MEMORY
    integers = 8 * max(limbs, FULL / N) * N / 2 * 16 / INTEGERS
    assert cost.per_unit["transforms"] == pytest.approx(max(2 * LATENCY, memory, integers))
    assert cost.per_unit[LAUNCHES] == pytest.approx(2 * LAUNCH)


def test_few_limbs_take_as_long_as_one_until_the_gpu_is_full() -> None:
    machine = at_peak()
    assert machine.gpu is not None
    assert machine.gpu.least_limbs(N) == pytest.approx(FULL / N)
    times = [machine.price(transforms(limbs)).seconds for limbs in range(1, 49)]
    assert times[0] == times[1]
    assert times == sorted(times)
    assert times[47] / times[0] < 48 / 2
    assert times[47] - times[46] == pytest.approx(2 * 2 * N * WORD / MEMORY)


def test_operations_that_are_ready_together_share_launches_as_far_as_the_batch_goes() -> None:
    machine = at_peak("a100-tensorfhe")
    alone, four, many = (machine.price(transforms(1), together).seconds for together in (1, 4, 1000))
    assert alone > four > many
    assert many == machine.price(transforms(1), 128).seconds
    assert machine.price(transforms(1), 2).per_unit[LAUNCHES] == pytest.approx(5 * LAUNCH / 2)
    one = at_peak("a100-cheddar")
    assert one.price(transforms(1), 4).seconds == one.price(transforms(1)).seconds


def test_keys_are_read_once_for_inputs_that_share_them_and_else_by_each_operation() -> None:
    params = catalogue.get("tensorfhe-resnet20")
    machine = at_peak("a100-tensorfhe")
    assert machine.gpu is not None
    work = kernel_work(OpKind.ROTATE, params, 30)
    inputs = Figure(value=16, text="16 inputs", source="a test", kind=Evidence.ASSUMED)
    sharing = replace(machine, gpu=replace(machine.gpu, inputs=inputs))
    apart, shared = machine.price(work, 16), sharing.price(work)
    words = work.key_bytes / MEMORY
    assert apart.per_unit["key_products"] - shared.per_unit["key_products"] == pytest.approx(words * 15 / 16)
    assert apart.per_unit["transforms"] == pytest.approx(shared.per_unit["transforms"])


def test_tensor_cores_do_transforms_as_products_of_bytes() -> None:
    cost = at_peak("a100-tensorfhe").price(transforms(30))
    products = 30 * 2 * N * math.sqrt(N) * 4 * 4
    passes = 5 * 2 * 30 * N * WORD / MEMORY
    assert cost.per_unit["transforms"] == pytest.approx(max(passes, products / (108 * 2048 * 1.41e9)))


def test_wider_words_move_twice_the_bytes() -> None:
    narrow = at_peak()
    word = Figure(value=64, text="64 bit", source="a test", kind=Evidence.ASSUMED)
    wide = replace(narrow, architecture=replace(narrow.architecture, word=word))
    first, second = (machine.price(transforms(48)).per_unit["transforms"] for machine in (narrow, wide))
    assert second == pytest.approx(2 * first)


def test_launches_of_a_rotation_are_the_loops_of_its_kernels() -> None:
    """48 + 12 limbs, four digits: 12 loops of transforms, 6 conversions, and one sum of products with the key."""
    work = kernel_work(OpKind.ROTATE, CHEDDAR, 48)
    found = list(launches_of(work, fused=FUSIONS))
    by_kernel = {kernel: [each for each in found if each.kernel == kernel] for kernel in KERNELS}
    assert sum(each.count for each in by_kernel["transforms"]) == 12
    assert sum(each.count * each.points for each in by_kernel["transforms"]) == (4 + 2) * 60 * N
    (conversion,) = by_kernel["base_conversion"]
    assert (conversion.count, conversion.points, conversion.own) == (6, 48 * N, (48 + 12) * N)
    (key,) = by_kernel["key_products"]
    assert (key.count, key.own, key.shared) == (1, (4 + 2) * 60 * N, 8 * 60 * N)
    assert key.shared * WORD == work.key_bytes
    assert not by_kernel["additions"]
    assert not by_kernel["multiplications"]
    assert sum(each.count * each.points for each in by_kernel["automorphisms"]) == pytest.approx(2 * 48 * N)


@pytest.mark.parametrize("kind", [OpKind.ROTATE, OpKind.MULT, OpKind.ROTATE_HOISTED, OpKind.RESCALE])
def test_without_fusions_every_pass_is_a_launch_and_moves_its_words(kind: OpKind) -> None:
    work = kernel_work(kind, CHEDDAR, 48)
    apart, fused, joined = (
        list(launches_of(work, fused=names, joined=joined))
        for names, joined in (((), False), (FUSIONS, False), ((), True))
    )

    def total(launches: list, what: str) -> float:
        return sum(each.count * getattr(each, what) for each in launches)

    assert sum(each.count for each in fused) < sum(each.count for each in apart)
    assert total(fused, "own") < total(apart, "own") == pytest.approx(total(joined, "own"))
    assert sum(each.count for each in joined) < sum(each.count for each in apart)
    elements = work.elementwise_mults + work.elementwise_adds + work.automorphism_coefficients
    done = sum(each.count * each.points for each in apart if each.kernel not in ("transforms", "base_conversion"))
    assert done == pytest.approx(elements + work.key_mults)


def test_depths_are_the_longest_chains() -> None:
    # 0 and 1 wait for nothing, 2 for both, 3 for 1, 4 for 2 and 3.
    start, source = np.asarray([0, 0, 0, 2, 3, 5]), np.asarray([0, 1, 1, 2, 3])
    program = ProgramShapes([], np.zeros(5, dtype=np.int64), (start, source))
    assert depths(program).tolist() == [0, 0, 1, 1, 2]


def test_a_program_says_which_operations_share_launches() -> None:
    machine = at_peak("a100-tensorfhe")
    trace = trace_workload("bootstrapping", "tensorfhe-resnet20", "accelerator", 0)
    priced = price_trace(trace, machine)
    assert priced.together is not None
    assert priced.together.min() >= 1
    assert priced.together.max() > 2
    assert machine.gpu is not None
    alone = price_trace(trace, replace(machine, gpu=replace(machine.gpu, batch=None)))
    assert alone.together is None
    assert priced.ideal_s < alone.ideal_s


def written(folder: Path, *changes: tuple[str, str]) -> Path:
    text = machine_toml(load_machine("a100-tensorfhe"))
    for old, new in changes:
        assert old in text, old
        text = text.replace(old, new, 1)
    path = folder / "gpu.toml"
    path.write_text(text)
    return path


@pytest.mark.parametrize(
    ("old", "new", "message"),
    [
        ('"108 multiprocessors"', '"108.5 multiprocessors"', "roofline.multiprocessors .* is not a whole number"),
        ('"128 ciphertexts"', '"0 ciphertexts"', "gpu.batch .* is zero"),
        ('"128 ciphertexts"', '"128 texts"', "unknown unit 'texts'; known: ciphertexts"),
        ('"600 cycles"', '"600"', "has no unit"),
        ('overlap = "in-turn"', 'overlap = "pipelined"', "kernels of a GPU run 'in-turn'"),
        ("[gpu]\n", '[gpu]\nfused = ["scalings"]\n', "unknown fusion 'scalings': did you mean 'scaling'"),
        ("[gpu]\n", '[gpu]\nfused = ["scaling"]\n', "gpu.fused_source is empty"),
        ("[gpu]\n", '[gpu]\nkernels = { transform = { rate = { value = "1 butterflies/s", source = "a test", kind = '
         '"measured" } } }\n', "unknown kernel 'transform': did you mean 'transforms'"),
        ("[gpu]\n", "[gpu]\nfuse = 1\n", "did you mean 'fused'"),
    ],
)  # fmt: skip
def test_a_table_that_breaks_a_rule_is_refused(tmp_path: Path, old: str, new: str, message: str) -> None:
    with pytest.raises(MachineError, match=message):
        load_machine(written(tmp_path, (old, new)))


def test_a_machine_has_units_or_a_gpu(tmp_path: Path) -> None:
    path = written(tmp_path)
    text = path.read_text()
    rate = 'transforms = { value = "1 butterflies/s", source = "a test", kind = "assumed" }'
    path.write_text(f"{text}\n[units]\n{rate}\n")
    with pytest.raises(MachineError, match="both \\[units\\] and \\[gpu\\]"):
        load_machine(path)
    start, end = text.index("[gpu]"), text.index("[clock]") if "[clock]" in text else len(text)
    path.write_text(text[:start] + (text[end:] if end > start else ""))
    with pytest.raises(MachineError, match="'units' is missing: write a \\[units\\] table, or \\[gpu\\]"):
        load_machine(path)


def test_cycles_need_a_clock(tmp_path: Path) -> None:
    text = machine_toml(replace(load_machine("a100-cheddar"), clock=None))
    path = tmp_path / "gpu.toml"
    path.write_text(text)
    with pytest.raises(MachineError, match="is in cycles: add a \\[clock\\] table"):
        load_machine(path)


def test_two_libraries_on_one_gpu_differ_in_what_a_library_states() -> None:
    tensorfhe, cheddar = (load_machine(f"a100-{name}").gpu for name in ("tensorfhe", "cheddar"))
    assert tensorfhe is not None
    assert cheddar is not None
    hardware = ("multiprocessors", "integers", "memory", "latency", "threads", "launch")
    for name in hardware:
        assert getattr(tensorfhe.roofline, name).value == getattr(cheddar.roofline, name).value, name
    assert (tensorfhe.most_ciphertexts, cheddar.most_ciphertexts) == (128, 1)
    assert not tensorfhe.fused
    assert set(cheddar.fused) == set(FUSIONS)


def test_a_gpu_has_no_missing_units() -> None:
    fields = {each.field for each in missing(load_machine("a100-cheddar"))}
    assert not any(field.startswith(("units.", "gpu.")) for field in fields)
