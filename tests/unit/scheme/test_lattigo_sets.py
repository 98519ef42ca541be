"""Chains of another library: published primes are sized, traced, simulated and priced as any set is."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from penstock.front.cli.main import main
from penstock.scheme.params import catalogue

SETS = ("lattigo-logn14-qp438", "lattigo-logn16-qp1654")


@pytest.fixture(params=[*SETS, "a file"])
def named(request: pytest.FixtureRequest, tmp_path: Path) -> str:
    """A shipped set, or a user's file with the primes of one."""
    if request.param in SETS:
        return str(request.param)
    (tmp_path / "mine.toml").write_text(catalogue.spec(SETS[0]).to_toml().replace(f'name = "{SETS[0]}"\n', ""))
    return str(tmp_path / "mine.toml")


def answer(capsys: pytest.CaptureFixture[str], *args: str) -> Any:
    assert main([*args, "--format", "json"]) == 0
    return json.loads(capsys.readouterr().out)


def test_a_set_of_published_primes_shows_them_and_the_bits_of_their_product(
    capsys: pytest.CaptureFixture[str], named: str
) -> None:
    shown = answer(capsys, "params", "show", named)
    params = catalogue.get(named)
    assert (shown["q_primes"], shown["p_primes"]) == (list(params.q_primes), list(params.p_primes))
    # As the names of the sets and the comments beside the primes have it: 55 + 6 x 45 and 2 x 55; 55 + 31 x 45, 4 x 51.
    assert (params.log_qp, shown["log_qp"]) == ((435, 436) if shown["ring_dim"] == 2**14 else (1654, 1654))
    assert main(["params", "show", named]) == 0
    assert "0x80000000080001, 0x2000000a0001" in capsys.readouterr().out


def test_a_set_of_published_primes_sizes_its_keys_from_the_chain(
    capsys: pytest.CaptureFixture[str], named: str
) -> None:
    sized = answer(capsys, "params", "size", named, "--workload", "inner-product")
    params = catalogue.get(named)
    assert sized["rotation_key_bytes"] == 2 * params.dnum * (params.num_q + params.num_p) * params.ring_dim * 8
    assert sized["exactness"]["rotation_key_bytes"] == "exact"
    assert [row["key_form"] for row in sized["key_forms"]] == ["full", "seeded", "truncated", "seeded+truncated"]


def test_a_set_of_published_primes_is_traced_simulated_and_priced(
    capsys: pytest.CaptureFixture[str], named: str, tmp_path: Path
) -> None:
    file = str(tmp_path / "inner.parquet")
    answer(capsys, "trace", "make", "inner-product", "--params", named, "--output", file)
    whose = ("--machine", "sharp", "--tier", "pcie5")
    (of_file,) = answer(capsys, "simulate", file, *whose)
    (of_name,) = answer(capsys, "simulate", "inner-product", "--params", named, *whose)
    assert of_file["total_s"] == of_name["total_s"] > 0
    priced = answer(capsys, "predict", "run", "inner-product", "--params", named, "--machine", "sharp")
    assert priced["predicted_s"] == pytest.approx(of_name["compute_s"])
    assert priced["key_bytes"] == of_name["stored_key_bytes"]


def test_a_set_of_published_primes_says_that_it_neither_runs_nor_states_noise(
    capsys: pytest.CaptureFixture[str],
) -> None:
    assert main(["predict", "precision", "inner-product", "--params", SETS[0]]) == 2
    assert "which states primes and no rule of scales" in capsys.readouterr().err
    assert main(["run", "inner-product", "--reading", "native", "--params", SETS[0]]) == 2
    assert "library 'accelerator' states its own primes" in capsys.readouterr().err
