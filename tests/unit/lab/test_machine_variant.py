"""A machine file with a `base`: what it states, what it leaves to the base, and what it refuses."""

from __future__ import annotations

from pathlib import Path

import pytest

from penstock.errors import MachineError
from penstock.scheme.machines import load_machine
from penstock.scheme.machines.catalogue import machine_names
from penstock.scheme.machines.figure import Evidence

TWIN = """
name = "twin"
base = "sharp"
[units.transforms]
value = "2048 points/cycle"
[on_chip.register_file]
value = "90 MB"
source = "half of SHARP's"
kind = "assumed"
"""


def written(tmp_path: Path, text: str) -> Path:
    path = tmp_path / "mine.toml"
    path.write_text(text)
    return path


def test_a_variant_has_its_own_values_and_the_others_of_its_base(tmp_path):
    twin, sharp = load_machine(written(tmp_path, TWIN)), load_machine("sharp")
    assert (twin.name, twin.title) == ("twin", "twin, a variant of sharp")
    own, theirs = twin.units["transforms"].figure, sharp.units["transforms"].figure
    assert own.value == 2 * theirs.value
    assert (own.kind, own.source) == (Evidence.ASSUMED, "of this file, where machine 'sharp' has 1024 points/cycle")
    assert twin.units["base_conversion"] == sharp.units["base_conversion"]
    assert twin.on_chip_bytes == sharp.on_chip_bytes - 90 * 10**6
    assert twin.plaintext_transforms == sharp.plaintext_transforms
    assert not twin.disputed
    assert twin.utilisation.value == sharp.utilisation.value
    assert twin.utilisation.kind is Evidence.ASSUMED
    assert twin.utilisation.source.startswith("as calibrated for machine 'sharp': ")


@pytest.mark.parametrize("name", machine_names())
def test_every_shipped_machine_is_a_base(tmp_path, name):
    twin = load_machine(written(tmp_path, f'name = "twin"\nbase = "{name}"\n'))
    assert twin.units == load_machine(name).units


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ('name = "a"\nbase = "shark"\n', r"mine.toml: base: .*shark.*did you mean .*sharp"),
        (
            'name = "a"\nbase = "sharp"\n[unit.transforms]\nvalue = "1 GHz"\n',
            r"mine.toml: .*did you mean 'units'",
        ),
        ('name = "a"\nbase = "sharp"\n[units.transforms]\nvalue = "2 lanes"\n', r"units.transforms"),
        ('base = "sharp"\n', r"mine.toml: .*name"),
    ],
)
def test_a_wrong_variant_is_refused_with_the_place(tmp_path, text, said):
    with pytest.raises(MachineError, match=said):
        load_machine(written(tmp_path, text))
