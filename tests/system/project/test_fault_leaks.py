"""Some scripts whose later calls depend on decrypted values, and some clean ones; `make faults` has 200 of each."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from faults import leaks
from support.loaded import Loaded, loaded

pytestmark = pytest.mark.usefixtures("openfhe")
DEPENDENT = [18 * k for k in range(12)]
CLEAN = [14 * k + 1 for k in range(12)]


@pytest.fixture(scope="module")
def command() -> Iterator[Loaded]:
    with loaded("numpy", "penstock.front.cli.verbs.record") as process:
        yield process


@pytest.mark.timeout(120)
@pytest.mark.parametrize("seed", DEPENDENT + CLEAN)
def test_a_script_is_packaged_only_if_no_call_depends_on_decrypted_values(
    command: Loaded, tmp_path: Path, seed: int
) -> None:
    result = leaks.case(seed, tmp_path, command.run)
    assert not result.faults, result
    assert (result.ended == "packaged") == (seed in CLEAN)


def test_the_seeds_have_all_kinds() -> None:
    kinds = {leaks.script(seed)[1] for seed in DEPENDENT}
    assert len(kinds) >= 6
    of_400 = [leaks.script(seed)[1] for seed in range(400)]
    assert {each.partition(": ")[2] for each in of_400 if each.startswith("dependent")} == {
        *leaks.WEIGHTS,
        *leaks.CONTROL,
    }
    assert of_400.count("clean: looks after the last call") == 80
    assert of_400.count("clean") == 120
