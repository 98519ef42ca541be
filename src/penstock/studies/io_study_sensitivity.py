"""How the main quantities of the storage-I/O study move with each assumption: the rows of a tornado chart.

One assumption is changed at a time; `penstock.studies.io_study_variants` has those about reads, program and machine.
Where one changes what bootstrapping takes, a row `….recalibrated` has the time with the utilisation calibrated again.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

from penstock.machines import load_tiers
from penstock.machines.networks import load_network
from penstock.operations import OpKind
from penstock.simulate.cluster import Cluster, play_clusters
from penstock.simulate.cluster_law import rplp_star_seconds
from penstock.simulate.hierarchy import Point
from penstock.studies import io_study_data as data
from penstock.studies.io_study_calibrated import SHARP
from penstock.studies.io_study_model import Program, Study
from penstock.studies.io_study_reads import Reads
from penstock.studies.io_study_rows import row
from penstock.studies.io_study_variants import Variant, variants

SHOWN_TIER = "pcie5"
"""Of the slowdowns in other time modes: the study's "common setup in the field"."""


def sensitivity_rows(study: Study) -> Iterator[dict[str, Any]]:
    """The whole tornado."""
    for accelerator in ("sharp", "tensorfhe"):
        for application in data.APPLICATIONS:
            program = study.program(accelerator, application)
            yield from _program_rows(program, list(variants(program)))
            yield from _steepest_rows(program)
            yield from _mode_rows(program)
            yield from _communication_rows(program)


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

    for variant in found:
        if variant.recalibrated_s is None:
            continue
        again = Variant(variant.name, variant.says, variant.key_bytes, variant.recalibrated_s)
        for quantity, unit, theirs, value in (quantities[0], quantities[2]):
            yield row(
                f"sensitivity.{name}.{quantity}.{variant.name}.recalibrated", "sensitivity", quantity, unit, None,
                theirs, value(again), f"{variant.says}, and the utilisation meets the published bootstrapping: "
                f"{value(again) / value(base) - 1:+.1%}", policy=f"{variant.name}-recalibrated",
            )  # fmt: skip


def _steepest_rows(program: Program) -> Iterator[dict[str, Any]]:
    """The most that a key switch of the program asks for in a second: no program of such key switches asks for more."""
    reads, name = Reads(program), f"{program.accelerator}.{program.application}"
    theirs = (SHARP.demand if program.accelerator == "sharp" else data.GPU_DEMAND)[program.application]
    for part, refreshing in (("bootstrapping", True), ("outside-bootstrapping", False)):
        yield row(
            f"sensitivity.{name}.key_switch_demand.{part}", "sensitivity", "demand", "B/s", None, theirs,
            reads.steepest(refreshing), f"of single key switches {part.replace('-', ' ')}, the one that asks for most",
            policy=part,
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
