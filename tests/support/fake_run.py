"""A run folder with random but plausible content, for the tests of the report; run it as a script to look at one."""

from __future__ import annotations

import random
import sys
from dataclasses import asdict
from pathlib import Path
from typing import Any

from penstock.base.runs.folder import RunFolder
from penstock.scheme.operations import RELIN_KEY, OpKind, rotation_key
from penstock.scheme.params.ckks import CkksParameters, Scaling
from penstock.scheme.params.rlwe import KeyForm
from penstock.scheme.traces.builder import TraceBuilder
from penstock.scheme.traces.io import write_trace
from penstock.scheme.traces.schema import Trace, TraceMeta

PARAMS = CkksParameters(
    name="openfhe-demo",
    ring_dim=2**15,
    slots=2**14,
    q_bits=(60, *[40] * 15),
    p_bits=(60, 60, 60),
    dnum=3,
    scale_bits=40,
    scaling=Scaling.FIXED_MANUAL,
    secret="uniform-ternary",
    word_bits=64,
    key_form=KeyForm.FULL,
    library="openfhe",
    security_bits=128,
    security_note="2024 guidelines, classical: log QP 840 of at most 881",
    source="made up for tests",
)

MACHINES = {"this-cpu": 3.1e9, "sharp": 1.6e12, "a100-tensorfhe": 9.0e10}
"""Machine -> key bytes that it wants a second of ideal time."""
TIERS = {"hbm": 1e12, "ddr5": 358.4e9, "pcie5": 64e9, "rdma": 12.5e9}
COST = {"rotate": 60e-3, "rotate_hoisted": 35e-3, "decompose": 24e-3, "mult": 66e-3, "square": 61e-3,
        "mult_plain": 2.5e-3, "add": 1.6e-3, "add_plain": 1.2e-3, "rescale": 9e-3, "sub": 1.6e-3,
        "mult_scalar": 1.9e-3, "mod_drop": 1e-4}  # fmt: skip


def fake_trace(iterations: int = 3) -> Trace:
    """Mini-batch gradient descent in shape: inner sums, a polynomial, hoisted rotations, fewer limbs each time."""
    builder, params = TraceBuilder(PARAMS), PARAMS
    weights = builder.ciphertext(params.num_q, name="weights")
    data = builder.ciphertext(params.num_q, name="data")
    limbs = params.num_q

    def op(kind: OpKind, a: int, b: int | None = None, *, step: int | None = None, drop: int = 0) -> int:
        nonlocal limbs
        key = None
        if kind in (OpKind.MULT, OpKind.SQUARE):
            key = RELIN_KEY
        if step is not None:
            key = rotation_key(step, params.ring_dim)
        out = builder.digits(limbs) if kind is OpKind.DECOMPOSE else builder.ciphertext(limbs - drop)
        operands = [a] if b is None else [a, b]
        builder.add(kind, limbs_in=limbs, limbs_out=limbs - drop, operands=operands, output=out, key=key, step=step)
        limbs -= drop
        return out

    for _ in range(iterations):
        with builder.open_scope("iteration"):
            x = op(OpKind.MULT, data, weights)
            x = op(OpKind.RESCALE, x, drop=1)
            for i in range(8):
                x = op(OpKind.ADD, x, op(OpKind.ROTATE, x, step=2**i))
            with builder.open_scope("sigmoid"):
                y = op(OpKind.RESCALE, op(OpKind.SQUARE, x), drop=1)
                y = op(OpKind.RESCALE, op(OpKind.MULT, y, x), drop=1)
            digits = op(OpKind.DECOMPOSE, y)
            for i in range(1, 12):
                y = op(OpKind.ADD, y, op(OpKind.ROTATE_HOISTED, y, digits, step=-i))
            weights = op(OpKind.RESCALE, op(OpKind.MULT, y, data), drop=1)
    return builder.finish(
        TraceMeta(workload="logistic-regression", params=asdict(PARAMS), reading="openfhe", size="demo", seed=1)
    )


def config(**changes: Any) -> dict[str, Any]:
    return {
        "workload": "logistic-regression",
        "size": "demo",
        "params": "openfhe-demo",
        "seed": 1,
        "threads": 2,
        "machines": list(MACHINES),
        "tiers": list(TIERS),
        "command": "penstock analyze logistic-regression --seed 1",
        **changes,
    }


def measured_rows(trace: Trace, rng: random.Random) -> list[dict[str, Any]]:
    seconds: dict[tuple[str, int], float] = {}
    counts: dict[tuple[str, int], int] = {}
    ops = trace.operations
    for kind, limbs in zip(ops["kind"].to_pylist(), ops["limbs_in"].to_pylist(), strict=True):
        key = (kind, limbs)
        counts[key] = counts.get(key, 0) + 1
        seconds[key] = seconds.get(key, 0.0) + COST[kind] * (0.2 + 0.8 * limbs / 16) * rng.uniform(0.95, 1.1)
    rows = [
        {"quantity": "op_seconds", "value": v, "unit": "s", "provenance": "measured", "kind": k, "limbs": n}
        for (k, n), v in seconds.items()
    ] + [
        {"quantity": "op_count", "value": v, "unit": "1", "provenance": "measured", "kind": k, "limbs": n}
        for (k, n), v in counts.items()
    ]
    total = sum(seconds.values())
    for quantity, value, unit in (
        ("wall_s", total * 1.06, "s"),
        ("setup_s", 6.4, "s"),
        ("peak_rss_bytes", 3.1e9, "B"),
    ):
        rows.append({"quantity": quantity, "value": value, "unit": unit, "provenance": "measured"})
    return rows


def bytes_rows(trace: Trace) -> list[dict[str, Any]]:
    keys = trace.operations["key"].to_pylist()
    full = PARAMS.key_bytes()
    values = {
        ("bytes_touched", "key"): sum(k is not None for k in keys) * full * 0.7,
        ("bytes_unique", "key"): len(trace.key_ids()) * full,
        ("bytes_touched", "ciphertext"): len(keys) * PARAMS.ciphertext_bytes(9),
        ("bytes_unique", "ciphertext"): 40 * PARAMS.ciphertext_bytes(9),
        ("bytes_touched", "plaintext"): 12 * PARAMS.plaintext_bytes(9),
        ("bytes_unique", "plaintext"): 4 * PARAMS.plaintext_bytes(9),
    }
    return [
        {"quantity": q, "value": v, "unit": "B", "provenance": "measured", "kind": c} for (q, c), v in values.items()
    ]


def fit_rows(measured: list[dict[str, Any]], rng: random.Random) -> list[dict[str, Any]]:
    rows: list[dict[str, Any]] = []
    for row in measured:
        if row["quantity"] == "op_seconds":
            rows.append(
                {
                    **row,
                    "quantity": "predicted_op_seconds",
                    "provenance": "predicted",
                    "machine": "this-cpu",
                    "value": row["value"] * rng.lognormvariate(0, 0.08),
                }
            )
    kinds = sorted({r["kind"] for r in rows})
    for kind in kinds:
        for statistic, scale in (("mean_abs", 0.05), ("median_abs", 0.04), ("p90_abs", 0.11), ("bias", 0.01)):
            rows.append({"quantity": "fit_error", "value": scale * rng.uniform(0.5, 1.6), "unit": "1", "kind": kind,
                         "provenance": "predicted", "machine": "this-cpu", "note": statistic})  # fmt: skip
    return rows


def simulate_rows(wall_s: float, unique_bytes: float) -> list[dict[str, Any]]:
    rows: list[dict[str, Any]] = []

    def play(machine: str, tier: str, mode: str, hits: float, **where: Any) -> None:
        rate, bandwidth = MACHINES[machine], TIERS[tier]
        compute = wall_s * MACHINES["this-cpu"] / rate
        moved = compute * rate * (1 - hits)
        io = moved / bandwidth
        total = {
            "serial": compute + io,
            "overlap": max(compute, io) + 0.05 * min(compute, io),
            "bound": max(compute, io),
        }[mode]
        shared = {"provenance": "simulated", "machine": machine, "tier": tier, "mode": mode, **where}
        for quantity, value, unit in (
            ("compute_s", compute, "s"),
            ("io_s", io, "s"),
            ("total_s", total, "s"),
            ("slowdown", total / compute, "1"),
            ("io_bytes", moved, "B"),
            ("key_bytes", compute * rate, "B"),
            ("energy_j", 94.7 * total, "J"),
        ):
            rows.append({"quantity": quantity, "value": value, "unit": unit, **shared})

    for machine in MACHINES:
        for tier in TIERS:
            for mode in ("serial", "overlap", "bound"):
                for step in range(11):
                    play(machine, tier, mode, step / 10, hit_ratio=step / 10)
                for share in (0.05, 0.1, 0.2, 0.4, 0.6, 0.8, 1.0):
                    for policy, hits in (("lru", 0.9 * share**2), ("belady", 0.9 * share**0.8)):
                        play(
                            machine,
                            tier,
                            mode,
                            hits,
                            cache_bytes=round(share * unique_bytes),
                            policy=policy,
                            hit_ratio=hits,
                        )
    return rows


def required_rows() -> list[dict[str, Any]]:
    return [
        {
            "quantity": "hit_ratio_for_80_percent",
            "value": max(0.0, 1 - 0.25 * bandwidth / rate),
            "unit": "1",
            "provenance": "predicted",
            "machine": machine,
            "tier": tier,
            "mode": "serial",
        }
        for machine, rate in MACHINES.items()
        for tier, bandwidth in TIERS.items()
    ]


def write_fake_run(path: Path, *, seed: int = 7, finish: bool = True, **changes: Any) -> RunFolder:
    """A whole run; `changes` replace entries of the configuration."""
    rng = random.Random(seed)
    run = RunFolder.create(path, config(**changes))
    trace = fake_trace()
    write_trace(trace, run.trace_path, force=True)
    measured = measured_rows(trace, rng)
    wall_s = next(r["value"] for r in measured if r["quantity"] == "wall_s")
    run.append_rows("measured", measured)
    run.append_rows("bytes", bytes_rows(trace))
    run.append_rows("fit", fit_rows(measured, rng))
    run.append_rows("simulate", simulate_rows(wall_s, len(trace.key_ids()) * PARAMS.key_bytes()))
    run.append_rows("required", required_rows())
    run.update(
        params=asdict(PARAMS),
        check={
            "max_abs_error": 3.2e-5,
            "tolerance": 1e-3,
            "accuracy_clear": 0.9644,
            "accuracy_encrypted": 0.9644,
            "chance_accuracy": 0.5044,
            "passed": True,
            "num_weights": 196,
            "rules": ["weights differ by at most 0.001: holds"],
        },
        assumptions=[
            {
                "machine": "sharp",
                "field": "transform utilisation",
                "value": 0.56,
                "kind": "calibrated",
                "source": "bootstrapping takes 3.12 ms; SHARP, ISCA 2023",
            },
            {
                "machine": "a100-tensorfhe",
                "field": "special limbs",
                "value": 1,
                "kind": "assumed",
                "source": "TensorFHE does not state it",
            },
            {
                "machine": "this-cpu",
                "field": "seconds a limb transform",
                "value": "0.41 ms",
                "kind": "calibrated",
                "source": "fitted to this run",
            },
        ],
        warnings=[
            {
                "what": "the processor's load was 1.9 when the run started, so times may be too long",
                "remedy": "repeat on an idle machine",
            }
        ],
    )
    run.write_timeline({"traceEvents": []})
    if finish:
        run.finish()
    return run


if __name__ == "__main__":
    from penstock.lab.reports import build_report

    with write_fake_run(Path(sys.argv[1])) as shown:
        print(build_report(shown))
