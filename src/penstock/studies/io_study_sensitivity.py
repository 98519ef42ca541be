"""How the main quantities of the storage-I/O study move with each assumption: the rows of a tornado chart.

One assumption is changed at a time; the machine stays as it is calibrated. Reads and messages are counted again from
the same traces where that is exact, and new traces are made where an assumption changes the program.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from typing import Any

from penstock.machines import load_tiers
from penstock.machines.networks import load_network
from penstock.machines.schema import Machine, Overlap
from penstock.operations import OpKind
from penstock.params import catalogue
from penstock.program import trace_workload
from penstock.simulate.cluster import Cluster, play_clusters
from penstock.simulate.cluster_law import rplp_star_seconds
from penstock.simulate.hierarchy import Point
from penstock.simulate.price import PricedTrace, price_trace
from penstock.studies import io_study_data as data
from penstock.studies.io_study_calibrated import SHARP
from penstock.studies.io_study_model import FULL, PARAMS, WORKLOADS, Program, Study
from penstock.studies.io_study_reads import Reads
from penstock.studies.io_study_rows import row

UTILISATION_STEP = 0.1
"""Share by which the utilisation is moved either way."""
SHOWN_TIER = "pcie5"
"""Of the slowdowns in other time modes: the study's "common setup in the field"."""


@dataclass(frozen=True, slots=True)
class Variant:
    """Bytes of keys and seconds of a whole program under another assumption."""

    name: str
    says: str
    key_bytes: float
    ideal_s: float


def sensitivity_rows(study: Study) -> Iterator[dict[str, Any]]:
    """The whole tornado."""
    for accelerator in ("sharp", "tensorfhe"):
        for application in data.APPLICATIONS:
            program = study.program(accelerator, application)
            yield from _program_rows(program, list(variants(program)))
            yield from _mode_rows(program)
            yield from _communication_rows(program)


def variants(program: Program) -> Iterator[Variant]:
    """Assumptions about reads, the program and the machine, the one that is made first."""
    priced, reads = program.priced, Reads(program)
    base_bytes, base_s = float(priced.accessed_bytes), priced.ideal_s
    yield Variant("base", "as computed", base_bytes, base_s)
    yield Variant("keys-whole", "every key is read whole, not cut to the limbs in use", reads.whole(), base_s)
    yield Variant("digits-whole", "limbs are cut, digits that are not active are read too", reads.all_digits(), base_s)
    yield Variant("keys-seeded", "half of each key is made from a seed and not read", base_bytes / 2, base_s)
    yield Variant("two-keys-kept", "the two keys used last stay on chip", reads.kept(2), base_s)
    yield Variant("with-plaintexts", "plaintexts are read too", base_bytes + priced.bytes_by_class["plaintext"], base_s)
    for sign, word in ((1, "more"), (-1, "less")):
        share = 1 + sign * UTILISATION_STEP
        yield Variant(
            f"utilisation-10-percent-{word}", f"the units reach {share:.1f} times as much", base_bytes, base_s / share
        )
    other = Overlap.PIPELINED if program.machine.overlap is Overlap.IN_TURN else Overlap.IN_TURN
    yield Variant(
        f"units-{other}", f"functional units work {other} instead of {program.machine.overlap}",
        base_bytes, _seconds(program, replace(program.machine, overlap=other)),
    )  # fmt: skip
    yield from _refresh_variants(program, reads)
    yield from _traced_variants(program)


def _seconds(program: Program, machine: Machine) -> float:
    return price_trace(program.trace, machine, key_form=FULL).ideal_s


def _refresh_variants(program: Program, reads: Reads) -> Iterator[Variant]:
    """Bootstrapping of all slots instead of by period; weights and momentum refreshed apart."""
    priced = program.priced
    inside_bytes, inside_s = reads.in_refresh
    alone = _alone(program)
    count = reads.refreshes
    yield Variant(
        "refresh-all-slots", "every bootstrapping is of all slots, not by the period of the values",
        priced.accessed_bytes - inside_bytes + count * alone.accessed_bytes,
        priced.ideal_s - inside_s + count * alone.ideal_s,
    )  # fmt: skip
    if program.application == "helr":
        yield Variant(
            "refresh-not-merged", "weights and momentum are bootstrapped apart, twice as often",
            priced.accessed_bytes + inside_bytes, priced.ideal_s + inside_s,
        )  # fmt: skip


def _alone(program: Program) -> PricedTrace:
    trace = trace_workload("bootstrapping", PARAMS[program.accelerator, program.application], "accelerator", 0)
    return price_trace(trace, program.machine, key_form=FULL)


def _traced_variants(program: Program) -> Iterator[Variant]:
    """Assumptions that change the program: traced and priced again."""
    spec = catalogue.spec(PARAMS[program.accelerator, program.application])
    assert spec.bootstrap is not None, "accelerator sets state their bootstrapping"
    hoisted = spec.bootstrap.rotations == "hoisted"
    other = "min-ks" if hoisted else "hoisted"
    changes: list[tuple[str, str, dict[str, Any]]] = [
        (
            other, f"rotations of bootstrapping by {other} instead of {spec.bootstrap.rotations}",
            {"bootstrap": spec.bootstrap.model_copy(update={"rotations": other})},
        )
    ]  # fmt: skip
    if program.accelerator == "tensorfhe":
        digit = 3
        changes.append(
            (
                "digits-of-3-limbs", "digits of 3 limbs and 3 special limbs instead of 1 and 1",
                {"dnum": program.params.num_q // digit, "p_bits": (28,) * digit},
            )
        )  # fmt: skip
    for name, says, update in changes:
        workload, size = WORKLOADS[program.application]
        trace = trace_workload(workload, spec.model_copy(update=update).build(), size, 0)
        priced = price_trace(trace, program.machine, key_form=FULL)
        yield Variant(name, says, float(priced.accessed_bytes), priced.ideal_s)


def _program_rows(program: Program, found: list[Variant]) -> Iterator[dict[str, Any]]:
    """Demand, bytes and time of each variant."""
    base, sharp = found[0], program.accelerator == "sharp"
    name = f"{program.accelerator}.{program.application}"
    demand = (SHARP.demand if sharp else data.GPU_DEMAND)[program.application]
    quantities: list[tuple[str, str, float | None, Callable[[Variant], float]]] = [
        ("demand", "B/s", demand, lambda v: v.key_bytes / v.ideal_s),
        ("key_bytes", "B", None, lambda v: v.key_bytes / program.runs),
        ("ideal_time", "s", data.IDEAL_S[program.application] if sharp else None, lambda v: v.ideal_s / program.runs),
    ]
    for quantity, unit, theirs, value in quantities:
        for variant in found:
            if variant is not base and value(variant) == value(base):
                continue  # an assumption that this quantity does not know
            yield row(
                f"sensitivity.{name}.{quantity}.{variant.name}", "sensitivity", quantity, unit, None, theirs,
                value(variant), f"{variant.says}: {value(variant) / value(base) - 1:+.1%}", policy=variant.name,
            )  # fmt: skip


def _mode_rows(program: Program) -> Iterator[dict[str, Any]]:
    """Slowdown over PCIe in each time mode: loads before compute, one operation ahead, or fully hidden."""
    from penstock.simulate.study import simulate

    rows = simulate(
        program.trace, program.machine, load_tiers([SHOWN_TIER]), modes=("serial", "overlap", "bound"),
        priced=program.priced,
    )  # fmt: skip
    base = rows[0]["slowdown"]
    for played in rows:
        yield row(
            f"sensitivity.{program.accelerator}.{program.application}.{SHOWN_TIER}.slowdown.{played['mode']}",
            "sensitivity", "slowdown", "1", None, None, played["slowdown"],
            f"loads and compute in mode {played['mode']}: {played['slowdown'] / base - 1:+.1%}", policy=played["mode"],
        )  # fmt: skip


def _communication_rows(program: Program) -> Iterator[dict[str, Any]]:
    """Seconds of messages on Ethernet at 32 hosts, in ideal times of one host: what decides SHARP's cluster rows."""
    name, hosts, network = f"{program.accelerator}.{program.application}", data.MOST_HOSTS, load_network("ethernet-400")
    prepared = program.on_hosts
    shapes = list(zip(prepared.shapes.distinct, prepared.shapes.counts.tolist(), strict=True))
    ideal = program.priced.ideal_s
    tier = load_tiers([SHOWN_TIER])
    places = {
        "base": ("as computed", Cluster(hosts=hosts, network=network)),
        "holders-only": (
            "hosts that hold no limb of an operation stay out of its exchanges",
            Cluster(hosts=hosts, network=network, partition="rplp-holders"),
        ),
        "ring": ("all-gathers go round a ring", Cluster(hosts=hosts, network=network, algorithm="ring")),
        "by-digit": ("digits over hosts instead of limbs", Cluster(hosts=hosts, network=network, partition="by-digit")),
    }
    played = play_clusters(prepared, [each for _, each in places.values()], [Point(tier=tier[0], mode="serial")])
    found = {
        key: (says, result.communication_s / ideal)
        for (key, (says, _)), result in zip(places.items(), played, strict=True)
    }
    no_rescale = [(shape, count) for shape, count in shapes if OpKind(shape.kind) is not OpKind.RESCALE]
    found["rescale-free"] = (
        "the limb that a rescale drops costs no message",
        rplp_star_seconds(no_rescale, program.params, hosts, network) / ideal,
    )
    found["one-moddown-polynomial"] = ("of ModDown one polynomial moves, not two", _gathers(program, 1) / ideal)
    found["no-moddown"] = ("ModDown moves nothing: special limbs are at every host", _gathers(program, 0) / ideal)
    base = found["base"][1]
    constant = SHARP.communication[program.application] if program.accelerator == "sharp" else None
    for key, (says, value) in found.items():
        yield row(
            f"sensitivity.{name}.communication.{key}", "sensitivity", "communication_time", "ideal times", None,
            constant, value, f"{says}: {value / base - 1:+.1%}", policy=key,
        )  # fmt: skip


def _gathers(program: Program, polynomials: int) -> float:
    """Seconds of all messages with so many polynomials of each ModDown."""
    from penstock.simulate.dealing import KEY_SWITCHES

    hosts, network, params = data.MOST_HOSTS, load_network("ethernet-400"), program.params
    shapes = program.on_hosts.shapes
    all_s = rplp_star_seconds(
        list(zip(shapes.distinct, shapes.counts.tolist(), strict=True)), params, hosts, network
    )  # fmt: skip
    switches = sum(
        int(count)
        for shape, count in zip(shapes.distinct, shapes.counts, strict=True)
        if OpKind(shape.kind) in KEY_SWITCHES or OpKind(shape.kind) is OpKind.ROTATE_HOISTED
    )
    one = (hosts - 1) * -(-params.num_p // hosts) * params.polynomial_bytes(1) / network.bandwidth_bytes_per_s
    return all_s - switches * (2 - polynomials) * one
