#!/bin/bash
# The harness calls this to build the submission, whose steps are Python: it only looks whether they can run.
set -euo pipefail
python=${PENSTOCK_PYTHON:-python3}
"$python" -c 'import penstock.runtime.similarity.server, penstock_client' || {
    echo "the submission needs penstock and its client in the Python that runs the harness: pip install penstock penstock-client" >&2
    exit 1
}
