#!/bin/bash
# Runs an official benchmark of HomomorphicEncryption.org with a submission of this project: benchmark_suite.sh HARNESS SIZE.
# The harness is a checkout of fhe-benchmarking/fetch-by-similarity or of fhe-benchmarking/ml-inference, which this script
# neither fetches nor changes.
set -euo pipefail
cd "$(dirname -- "$0")/.."

harness=${1:-} size=${2:-}
if [ -z "$harness" ] || [ ! -f "$harness/harness/run_submission.py" ]; then
    echo "penstock: HARNESS='$harness' has no harness/run_submission.py: get a checkout of fhe-benchmarking/fetch-by-similarity" \
        "or fhe-benchmarking/ml-inference" >&2
    echo "remedy: make benchmark-suite HARNESS=/path/to/the/checkout SIZE=small" >&2
    exit 2
fi
name=fetch-by-similarity sizes=(toy small medium large)
[ -d "$harness/harness/mnist" ] && name=ml-inference sizes=(single small medium large)
number=-1
for k in "${!sizes[@]}"; do [ "${sizes[$k]}" = "$size" ] && number=$k; done
if [ "$number" -lt 0 ]; then
    echo "penstock: SIZE='$size' is none of ${sizes[*]}: make benchmark-suite HARNESS=$harness SIZE=small" >&2
    exit 2
fi
python=$PWD/.venv/bin/python
place=${PLACE:-target/$name}
mkdir -p "$place"
place=$(cd "$place" && pwd)
# The copy keeps what the harness has downloaded and trained.
mkdir -p "$place/harness"
cp -r "$harness/harness/." "$place/harness/"
rm -rf "$place/submission" "$place/scripts"
cp -r "submissions/$name/submission" "submissions/$name/scripts" "$place/"

words=("$number" --num_runs "${RUNS:-1}")
[ -n "${SEED:-}" ] && words+=(--seed "$SEED")
export PENSTOCK_PYTHON=$python PYTHONUNBUFFERED=1
cd "$place"
if [ "$name" = ml-inference ]; then
    # This harness needs PyTorch, which penstock does not: the python3 of the caller runs it.
    missing=$(python3 -c 'import numpy, torch, torchvision, absl' 2>&1 | tail -1) || true
    if [ -n "$missing" ]; then
        echo "penstock: $(command -v python3) cannot run this harness: $missing" >&2
        echo "remedy: python3 -m venv v && . v/bin/activate && pip install -r $harness/requirements.txt, and again" >&2
        exit 2
    fi
    exec python3 harness/run_submission.py "${words[@]}"
fi
[ "${COUNT_ONLY:-0}" != 0 ] && words+=(--count_only)
[ -n "${MEMORY:-}" ] && export SIMILARITY_MEMORY=$MEMORY
# The harness may use what a later Python has; its own interpreter runs the steps.
exec "$python" harness/run_submission.py "${words[@]}"
