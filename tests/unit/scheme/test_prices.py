"""Price lists and clients' places: their files, their arithmetic, and what is refused."""

from __future__ import annotations

from datetime import date
from importlib import resources
from pathlib import Path

import pytest

from penstock.errors import MachineError, UnknownName
from penstock.front.cli.main import main
from penstock.scheme.machines import load_tiers
from penstock.scheme.machines.figure import Evidence
from penstock.scheme.machines.networks import load_network
from penstock.scheme.machines.prices import load_prices, price_lists
from penstock.scheme.params import catalogue
from penstock_studies.io_study import data
from penstock_studies.io_study.client_place import client_places, load_client_place


def written(folder: str, name: str, package: str = "penstock.scheme.machines") -> str:
    place = resources.files(package).joinpath("data").joinpath(folder)
    return place.joinpath(f"{name}.toml").read_text(encoding="utf-8")


def test_every_price_has_a_date_and_a_source() -> None:
    for name in price_lists():
        found = load_prices(name)
        assert date(2020, 1, 1) < found.date < date(2100, 1, 1)
        assert all(figure.source.strip() for _, figure in found.figures())


def test_a_run_costs_its_hosts_time_and_the_bytes_of_its_answer() -> None:
    """2 hosts x 1800 s at 4.10 USD/h, and 3 GB at 0.09 USD/GB."""
    found = load_prices()
    assert found.run_usd(1800.0, 3e9, is_gpu=True, hosts=2) == pytest.approx(4.10 + 0.27)
    assert found.electricity.value * 3.6e6 == pytest.approx(0.10)


def test_a_client_takes_time_by_limbs_and_its_ring() -> None:
    """14 ms and 6.5 ms at 11 limbs of N = 2^16 are measured; a sixteenth of it at 2^12."""
    place, large, small = load_client_place(), catalogue.get("sharp"), catalogue.get("fheins-pir")
    assert list(client_places()) == ["laptop"]
    assert place.encrypt_s(large, 11) == pytest.approx(14e-3, rel=0.01)
    assert place.decrypt_s(large, 11) == pytest.approx(6.5e-3, rel=0.01)
    assert place.encrypt_s(small, 11) == pytest.approx(place.encrypt_s(large, 11) / 16)
    assert place.transfer_s(125e6) == pytest.approx(1.02)
    assert place.transfer_s(0) == 0
    assert dict(place.figures())["encrypt"].kind is Evidence.MEASURED


@pytest.mark.parametrize(
    ("old", "new", "message"),
    [
        ('date = "2024-06-30"', 'date = "last summer"', "date 'last summer' is not a day"),
        ("4.10 USD/h", "4.10", "has no unit"),
        ("4.10 USD/h", "4.10 EUR/h", "unknown unit 'EUR/h'"),
        ("0.09 USD/GB", "-0.09 USD/GB", "is negative"),
        ('title = "', 'titel = "', "title"),
    ],
)
def test_a_price_list_that_breaks_a_rule_is_refused(tmp_path: Path, old: str, new: str, message: str) -> None:
    path = tmp_path / "mine.toml"
    text = written("prices", "cloud-2024")
    assert old in text
    path.write_text(text.replace(old, new, 1))
    with pytest.raises(MachineError, match=message):
        load_prices(path)


def test_a_client_file_that_breaks_a_rule_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "mine.toml"
    path.write_text(written("clients", "laptop", "penstock_studies").replace('"1 Gb/s"', '"0 Gb/s"'))
    with pytest.raises(MachineError, match="line '0 Gb/s' is zero"):
        load_client_place(str(path))
    path.write_text(
        written("clients", "laptop", "penstock_studies").replace("1 Gb/s", "3 Gb/s").replace('"laptop"', '"mine"')
    )
    assert load_client_place(str(path)).transfer_s(375e6) == pytest.approx(1.02)


def test_unknown_names_have_the_nearest() -> None:
    with pytest.raises(UnknownName, match="did you mean 'cloud-2024'"):
        load_prices("cloud-2042")
    with pytest.raises(UnknownName, match="did you mean 'laptop'"):
        load_client_place("labtop")


@pytest.mark.parametrize("option", [("--prices", "cloud"), ("--client", "desktop"), ("--prices", "none.toml")])
def test_a_bad_list_ends_the_study_before_anything_is_traced(
    option: tuple[str, str], monkeypatch: pytest.MonkeyPatch
) -> None:
    def computed(**_: object) -> None:
        raise AssertionError("rows were computed")

    monkeypatch.setattr("penstock_studies.io_study.reproduction.rows", computed)
    assert main(["reproduce", "io-study", *option]) in (1, 2)


def test_every_tier_and_network_of_the_study_states_its_energy() -> None:
    tiers = load_tiers(data.TIERS)
    joules = [tier.energy_j_per_byte for tier in tiers]
    assert all(joules)
    assert joules == sorted(joules), "further away takes more"
    assert all(load_network(name).energy_j_per_byte for name in data.NETWORKS)
