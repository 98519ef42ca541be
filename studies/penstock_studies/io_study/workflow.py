"""Figure 2 as a report: the five steps of one run between client and server, with bytes, seconds and joules of each.

The client encodes and encrypts, uploads, the server computes and reads its keys from the tier, the client downloads,
decrypts and decodes. Evaluation keys go up once for all runs of a user; that step is not in the sum.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from penstock.base.types import Row
from penstock.scheme.machines import load_tier
from penstock_studies.io_study import data
from penstock_studies.io_study.client_place import ClientSite
from penstock_studies.io_study.model import FULL, Study, StudyProgram
from penstock_studies.io_study.rows import row

STEPS = ("encode-encrypt", "upload", "compute", "key-loads", "download", "decrypt-decode")
"""In order; the server's step has two parts."""
ONCE = "key-upload"
GROUP = "workflow"


@dataclass(frozen=True, slots=True, kw_only=True)
class RunStep:
    """One step of a run."""

    name: str
    seconds: float
    num_bytes: float
    """That it makes, moves or reads."""
    joules: float
    says: str


def steps(program: StudyProgram, place: ClientSite, tier: str) -> list[RunStep]:
    """The steps of one inference or iteration, then the upload of the keys, which is once for a user."""
    params, runs = program.params, program.runs
    sent, answered = (sum(program.client_limbs[kind]) / runs for kind in ("encrypt", "decrypt"))
    up, down = (limbs * params.ciphertext_bytes(1) for limbs in (sent, answered))
    disk = load_tier(tier)
    watts = program.machine.watts
    assert watts is not None, f"machine '{program.machine.name}' states its power"
    assert disk.energy_j_per_byte is not None, f"tier '{tier}' states its energy"
    line_j = place.line_energy.value
    encrypt_s, decrypt_s = place.encrypt_s(params, 1) * sent, place.decrypt_s(params, 1) * answered
    io_s = program.key_bytes / disk.bandwidth_bytes_per_s
    keys = params.total_key_bytes(program.trace.view(composites=False).key_limbs(), FULL)

    def at_client(name: str, seconds: float, num_bytes: float, says: str) -> RunStep:
        return RunStep(name=name, seconds=seconds, num_bytes=num_bytes, joules=seconds * place.power.value, says=says)

    def over_line(name: str, num_bytes: float, runs: int, says: str) -> RunStep:
        seconds = place.transfer_s(num_bytes * runs) / runs
        return RunStep(name=name, seconds=seconds, num_bytes=num_bytes, joules=num_bytes * line_j, says=says)

    line = f"over {place.line.text} (assumed)"
    once = "every evaluation key once, in full form: for all runs of a user, and not in the sum"
    encrypts = f"{sent:.4g} limbs of ciphertexts on the client '{place.name}', measured a limb"
    return [
        at_client("encode-encrypt", encrypt_s, up, encrypts),
        over_line("upload", up, runs, line),
        RunStep(
            name="compute",
            seconds=program.ideal_s,
            num_bytes=0.0,
            joules=program.ideal_s * watts,
            says=f"{watts:.4g} W while machine '{program.machine.name}' computes, every byte at hand",
        ),
        RunStep(
            name="key-loads",
            seconds=io_s,
            num_bytes=program.key_bytes,
            joules=program.key_bytes * disk.energy_j_per_byte,
            says=f"every key from tier '{tier}', as the study has it",
        ),
        over_line("download", down, runs, line),
        at_client("decrypt-decode", decrypt_s, down, f"{answered:.4g} limbs, measured a limb"),
        over_line(ONCE, float(keys), 1, once),
    ]


def workflow_rows(study: Study, place: ClientSite) -> Iterator[Row]:
    """Bytes, seconds and joules of each step of each application, keys from the tier of figure 7; and their sum."""
    for accelerator in ("sharp", "tensorfhe"):
        for program in study.both(accelerator):
            of_run = steps(program, place, data.SHOWN_TIER)
            name = f"workflow.{accelerator}.{program.application}"
            each_run = "an iteration" if program.runs > 1 else "an inference"
            for step in of_run:
                for quantity, unit, value in (
                    ("time", "s", step.seconds),
                    ("bytes", "B", step.num_bytes),
                    ("energy", "J", step.joules),
                ):
                    yield row(
                        f"{name}.{step.name}.{quantity}",
                        GROUP,
                        quantity,
                        value,
                        f"{each_run}: {step.says}",
                        unit=unit,
                        policy=GROUP,
                    )
            summed = [step for step in of_run if step.name != ONCE]
            server = sum(step.seconds for step in summed if step.name in ("compute", "key-loads"))
            total = sum(step.seconds for step in summed)
            note = f"{each_run}, one step after another; the server's part is {server / total:.1%}"
            yield row(f"{name}.total.time", GROUP, "time", total, note, unit="s", policy=GROUP)
            joules = sum(step.joules for step in summed)
            yield row(f"{name}.total.energy", GROUP, "energy", joules, each_run, unit="J", policy=GROUP)
