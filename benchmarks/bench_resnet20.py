"""ResNet-20 on 20 encrypted test digits: how many get the class that the clear network gives them.

    .venv/bin/python benchmarks/bench_resnet20.py [--images 20] [--size ci] [--threads 2] [--format json]

Keys are made once. The clear network is the plain one with ReLU: what the encrypted run loses to the polynomial counts
against it. Exits with 4 where fewer than 95 % of the images agree.
"""

from __future__ import annotations

import argparse
import json
import statistics
import sys
from typing import Any

import numpy as np

from penstock.program import workloads
from penstock.program.running.clear import run_clear
from penstock.program.running.openfhe import prepared_openfhe
from penstock.scheme.params import catalogue

NAME = "resnet20"
SHARE = 0.95


def main() -> None:
    arguments = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    arguments.add_argument("--images", type=int, default=20)
    arguments.add_argument("--size", default="ci")
    arguments.add_argument("--threads", type=int, default=2)
    arguments.add_argument("--format", choices=("table", "json"), default="table")
    options = arguments.parse_args()

    workload = workloads.get(NAME)
    size = workload.SIZES[options.size]
    params = catalogue.get(size.params)
    rows: list[dict[str, Any]] = []
    with prepared_openfhe(NAME, params, options.size, threads=options.threads) as run:
        for index in range(options.images):
            data = workload.data(size, params.slots, index)
            clear = run_clear(NAME, params, options.size, index, data)
            done = run(other=data)
            check = workload.check(clear, done.result, data, size)
            row = {
                "image": index, "label": data.label, "class_clear": int(check.numbers["class_relu"]),
                "class_encrypted": int(np.argmax(done.result)), "max_abs_error": check.max_abs_error,
                "tolerance": check.tolerance, "measured_s": done.wall_s,
            }  # fmt: skip
            rows.append(row)
            if options.format == "table":
                print(
                    f"image {index:2}: label {row['label']}, clear {row['class_clear']}, "
                    f"encrypted {row['class_encrypted']}, logits within {check.max_abs_error:.1e} of clear, "
                    f"{done.wall_s:.1f} s",
                    flush=True,
                )
    agree = sum(row["class_clear"] == row["class_encrypted"] for row in rows)
    if options.format == "json":
        print(json.dumps({"workload": NAME, "size": options.size, "agree": agree, "images": len(rows), "rows": rows}))
    else:
        median = statistics.median(row["measured_s"] for row in rows)
        print(f"measured: {agree} of {len(rows)} classified as by the clear network; median {median:.1f} s an image")
    if agree < SHARE * len(rows):
        sys.exit(4)


if __name__ == "__main__":
    main()
