"""Joules and dollars of the study's headline rows: each accelerator over each tier, and on 32 hosts.

Energy is what accelerators, tiers and links take; hosts around them are left out. A cost is the rent of the hosts for a
run's time and the bytes of its answer, by a price list with its date.
"""

from __future__ import annotations

from collections.abc import Iterator

from penstock.base.types import Row
from penstock.scheme.machines.prices import PriceList
from penstock.scheme.play.hierarchy import PlayedPoint
from penstock_studies.io_study import data
from penstock_studies.io_study.model import Study, StudyProgram
from penstock_studies.io_study.rows import row

THOUSAND = 1000
"""Runs that a cost is of."""


def energy_rows(study: Study) -> Iterator[Row]:
    """Joules of an inference or an iteration: on one host over each tier, and on the most hosts over each network."""
    for name, program, result, _, where in _results(study):
        assert result.energy_j is not None, f"{name}: machine, tier and network state their energies"
        note = f"{where}; computing, loads and messages; every energy a byte is assumed (their files say from what)"
        joules = result.energy_j / program.runs
        yield row(f"energy.{name}", "energy", "energy", joules, note, unit="J", policy="energy")


def cost_rows(study: Study, prices: PriceList) -> Iterator[Row]:
    """Dollars of a thousand runs: rented, and for the electricity of the energy rows alone."""
    for name, program, result, hosts, where in _results(study):
        seconds = result.total_s / program.runs
        sent = answer_bytes(program) / program.runs
        is_gpu = program.accelerator == "tensorfhe"
        dollars = THOUSAND * prices.run_usd(seconds, sent, is_gpu=is_gpu, hosts=hosts)
        note = f"{where}; rent for {seconds:.3g} s and the answer's bytes, by '{prices.name}' of {prices.date}"
        yield row(f"cost.{name}.rent", "cost", "cost", dollars, note, unit="USD/1000 runs", policy="cost")
        assert result.energy_j is not None
        electricity = THOUSAND * result.energy_j / program.runs * prices.electricity.value
        note = f"{where}; the electricity of row energy.{name} alone, by '{prices.name}' of {prices.date}"
        yield row(f"cost.{name}.electricity", "cost", "cost", electricity, note, unit="USD/1000 runs", policy="cost")


def answer_bytes(program: StudyProgram) -> int:
    """Bytes of all ciphertexts that the client decrypts."""
    return sum(program.params.ciphertext_bytes(limbs) for limbs in program.client_limbs["decrypt"])


def _results(study: Study) -> Iterator[tuple[str, StudyProgram, PlayedPoint, int, str]]:
    """(name of the row, program, its result, hosts, where it ran)."""
    for accelerator in ("sharp", "tensorfhe"):
        for program in study.both(accelerator):
            base = f"{accelerator}.{program.application}"
            for tier in data.TIERS:
                one = program.result(tier, data.NETWORKS[0], 1)
                yield f"{base}.{tier}", program, one, 1, f"one host, every key from '{tier}'"
                for network in data.NETWORKS:
                    many = program.result(tier, network, data.MOST_HOSTS)
                    where = f"{data.MOST_HOSTS} hosts on '{network}', every key from '{tier}'"
                    yield f"{base}.{tier}.{network}.hosts{data.MOST_HOSTS}", program, many, data.MOST_HOSTS, where
