#!/bin/bash
# Runs the official similarity benchmark with the submission of this project: benchmark_suite.sh HARNESS SIZE. The harness is
# a checkout of fhe-benchmarking/fetch-by-similarity, which this script neither fetches nor changes.
set -euo pipefail
cd "$(dirname -- "$0")/.."

harness=${1:-} size=${2:-}
sizes=(toy small medium large)
number=-1
for k in "${!sizes[@]}"; do [ "${sizes[$k]}" = "$size" ] && number=$k; done
if [ -z "$harness" ] || [ ! -f "$harness/harness/run_submission.py" ]; then
    echo "penstock: HARNESS='$harness' has no harness/run_submission.py: get a checkout of fhe-benchmarking/fetch-by-similarity" >&2
    echo "remedy: make benchmark-suite HARNESS=/path/to/the/checkout SIZE=small" >&2
    exit 2
fi
if [ "$number" -lt 0 ]; then
    echo "penstock: SIZE='$size' is none of ${sizes[*]}: make benchmark-suite HARNESS=$harness SIZE=small" >&2
    exit 2
fi
python=$PWD/.venv/bin/python
place=${PLACE:-target/fetch-by-similarity}
mkdir -p "$place"
place=$(cd "$place" && pwd)
rm -rf "$place/harness" "$place/submission" "$place/scripts"
cp -r "$harness/harness" "$place/harness"
cp -r submissions/fetch-by-similarity/submission submissions/fetch-by-similarity/scripts "$place/"

words=("$number" --num_runs "${RUNS:-1}")
[ -n "${SEED:-}" ] && words+=(--seed "$SEED")
[ "${COUNT_ONLY:-0}" != 0 ] && words+=(--count_only)
[ -n "${MEMORY:-}" ] && export SIMILARITY_MEMORY=$MEMORY
cd "$place"
# The harness may use what a later Python has; its own interpreter runs the steps.
export PENSTOCK_PYTHON=$python PYTHONUNBUFFERED=1
exec "$python" harness/run_submission.py "${words[@]}"
