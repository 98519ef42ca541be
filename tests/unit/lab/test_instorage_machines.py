"""In-storage accelerators: their files, their units, what they refuse, and the arithmetic of their table of powers."""

from __future__ import annotations

from dataclasses import replace
from importlib import resources

import pytest

from penstock.errors import MachineError, UnknownName, UsageError
from penstock.lab.instorage.machine import (
    ArrayAdders,
    Automorphism,
    InStorage,
    LaneWork,
    PublishedScan,
    UnitAccelerator,
    with_options,
)
from penstock.lab.instorage.machine_power import Multiplicity, footprint
from penstock.lab.instorage.machine_spec import accelerators, from_toml, load_instorage
from penstock.scheme.machines import assumed
from penstock.scheme.operations import OpKind
from penstock.scheme.params import catalogue
from penstock.scheme.work.kernels import Hoisting, kernel_work


def fheins() -> UnitAccelerator:
    found = load_instorage("fheins")
    assert isinstance(found, UnitAccelerator)
    return found


def written(name: str = "fheins") -> str:
    folder = resources.files("penstock.scheme.machines").joinpath("data").joinpath("instorage")
    return folder.joinpath(f"{name}.toml").read_text(encoding="utf-8")


def assumed_of(accelerator: InStorage) -> list[dict[str, str]]:
    return assumed("accelerator", accelerator.name, accelerator.figures())


def test_the_three_architectures_are_told_apart_by_type() -> None:
    assert list(accelerators()) == ["ciphermatch", "fheins", "inspire"]
    assert isinstance(load_instorage("inspire"), PublishedScan)
    assert isinstance(load_instorage("ciphermatch"), ArrayAdders)


def test_a_transform_takes_n_log_n_over_all_lanes() -> None:
    """4 engines x 128 lanes, a butterfly each: 2^11 x 12 / 512 cycles of a nanosecond, three limbs."""
    params = catalogue.get("fheins-pir")
    cost = fheins().price(kernel_work(OpKind.MULT_PLAIN, params, 3))
    assert cost.seconds == pytest.approx(3 * 2**11 * 12 / 512 * 1e-9, rel=1e-12)
    assert cost.bound_by == "transforms"
    words = with_options(fheins(), lane=LaneWork.WORD).price(kernel_work(OpKind.MULT_PLAIN, params, 3))
    assert words.seconds == pytest.approx(2 * cost.seconds, rel=1e-12)


def test_an_automorphism_is_an_inverse_transform_and_a_transform_of_each_limb() -> None:
    """A rotation at n limbs moves 2n limbs: (b+2)(n+k) + 4n transforms; by a network (b+2)(n+k)."""
    params = catalogue.get("fheins-ssc")
    n, k, b = 38, params.num_p, 4
    work = kernel_work(OpKind.ROTATE, params, n)
    assert fheins().work(work).limb_transforms == (b + 2) * (n + k) + 4 * n
    network = with_options(fheins(), automorphism=Automorphism.PERMUTATION)
    assert network.work(work).limb_transforms == (b + 2) * (n + k)
    assert network.price(work).seconds < fheins().price(work).seconds


def test_a_hoisted_rotation_permutes_digits_or_results_as_the_file_says() -> None:
    """Two transforms for each limb that moves: b(n+k) + n limbs, or 2n; 2(n+k) more for ModDown."""
    params = catalogue.get("fheins-ssc")
    n, k, b = 38, params.num_p, 4
    assert fheins().hoisting is Hoisting.DIGITS
    assert "hoisting" in {row["field"] for row in assumed_of(fheins())}
    for accelerator, moved in (
        (fheins(), b * (n + k) + n),
        (with_options(fheins(), hoisting=Hoisting.RESULTS), 2 * n),
    ):
        work = kernel_work(OpKind.ROTATE_HOISTED, params, n, hoisting=accelerator.hoisting)
        assert accelerator.work(work).limb_transforms == 2 * (n + k) + 2 * moved


def test_a_file_without_hoisting_permutes_results() -> None:
    content = "".join(line for line in written().splitlines(keepends=True) if not line.startswith("hoisting"))
    found = from_toml(content.encode(), "mine.toml")
    assert isinstance(found, UnitAccelerator)
    assert found.hoisting is Hoisting.RESULTS
    with pytest.raises(MachineError, match=r"mine.toml: unknown hoisting 'sideways'"):
        from_toml(written().replace('hoisting = "digits"', 'hoisting = "sideways"').encode(), "mine.toml")


@pytest.mark.parametrize(("channels", "watts"), [(16, 41.4157), (32, 74.00122)])
def test_table_ii_read_literally_breaks_the_budget_on_the_large_drive(channels: int, watts: float) -> None:
    """4 x 786.3 + 4 x 276.3 + 8 x 366.1 + 296.6 + 7.4 + 9.6 + 0.18 mW, and 653.4 (channel) or 1337.2 (drive)."""
    each = 4 * 786.3 + 4 * 276.3 + 8 * 366.1 + 296.6 + 7.4 + 9.6 + 0.18
    found = footprint(fheins(), channels, Multiplicity.ENGINE)
    by_hand = (channels // 4 * (each + 653.4) + each + 1337.2) / 1000
    assert found.watts == pytest.approx(by_hand, rel=1e-12)
    assert found.watts == pytest.approx(watts, rel=1e-6)
    assert (found.watts <= fheins().budget.value) == (channels == 16)
    assert footprint(fheins(), channels, Multiplicity.ACCELERATOR).watts <= fheins().budget.value
    printed = footprint(fheins(), channels, Multiplicity.DRIVE)
    assert printed.watts == pytest.approx(3.73308, rel=1e-6)


def test_an_accelerator_without_room_for_one_limb_is_refused_with_the_size() -> None:
    small = with_options(fheins(), scratchpad_bytes=200_000)
    small.check_holds(catalogue.get("fheins-pir"))
    with pytest.raises(UsageError, match=r"200 kB.*no room for one polynomial.*294912 bytes"):
        small.check_holds(catalogue.get("fheins-ssc"))


def test_channels_that_do_not_divide_into_groups_are_refused() -> None:
    assert fheins().on(16) == 4
    with pytest.raises(UsageError, match="18"):
        fheins().on(18)


def test_ciphermatch_refuses_products_and_rotations() -> None:
    adders = load_instorage("ciphermatch")
    assert isinstance(adders, ArrayAdders)
    adders.check_executes({OpKind.ADD}, "a sum")
    with pytest.raises(UsageError, match="only adds, and a query has mult, rotate"):
        adders.check_executes({OpKind.ADD, OpKind.MULT, OpKind.ROTATE}, "a query")


def test_every_assumed_value_is_reported() -> None:
    fields = {each["field"] for each in assumed_of(fheins())}
    assert {"clock", "slot", "plaintext_transforms", "lane", "input_buffer"} <= fields
    assert "scan_channels" in {each["field"] for each in assumed_of(load_instorage("inspire"))}
    changed = with_options(fheins(), scratchpad_bytes=10**6)
    assert "scratchpad" in {each["field"] for each in assumed_of(changed)}


def test_options_that_are_not_given_change_nothing() -> None:
    assert with_options(fheins()) == fheins()
    assert replace(fheins()) == fheins()


@pytest.mark.parametrize(
    ("old", "new", "message"),
    [
        ('value = "1 GHz"', 'value = "1"', "has no unit"),
        ('value = "7 MB"', 'value = "0 MB"', "it must be more than zero"),
        ('lane = "butterfly"', 'lane = "buterfly"', "did you mean 'butterfly'"),
        ("lanes = 128", "lanes = 0", "at least one of each"),
        ('kind = "units"', 'kind = "unit"', "did you mean 'units'"),
        ('value = "4 channels"', 'value = "2.5 channels"', "not a whole number"),
        ('engine = "ntt"', 'engine = "nt"', "did you mean 'ntt'"),
        ('logic_source = "FHEIns, Table II', 'logic_source = "" # "', "logic_source is empty"),
        ("[clock]", "[clok]", "unknown key 'clok': did you mean 'clock'"),
    ],
)
def test_a_file_that_breaks_a_rule_is_refused(old: str, new: str, message: str) -> None:
    text = written()
    assert old in text
    with pytest.raises(MachineError, match=message):
        from_toml(text.replace(old, new, 1).encode(), "mine.toml")


def test_an_unknown_name_suggests_the_nearest() -> None:
    with pytest.raises(UnknownName, match="did you mean 'fheins'"):
        load_instorage("fhein")
    with pytest.raises(MachineError, match="TOML"):
        from_toml(b"\xff", "mine.toml")
