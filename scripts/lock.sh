#!/bin/bash
# Writes requirements/*.txt: exact versions with hashes, one file for CPython 3.10 to 3.13 (markers where they differ).
# Pins that still fit are kept; `--upgrade` takes the newest. The files name no index: pip's own settings decide.
set -euo pipefail
cd "$(dirname -- "$0")/.."
tool=$(mktemp -d)
trap 'rm -rf "$tool"' EXIT
python=.venv/bin/python
[ -x "$python" ] || python=python3
"$python" -m venv "$tool"
"$tool/bin/pip" install --quiet --disable-pip-version-check 'uv>=0.8'

compile() {
    "$tool/bin/uv" pip compile --quiet --universal --fork-strategy fewest --python-version 3.10 --generate-hashes \
        --no-emit-index-url --no-header --no-annotate "$@"
}
compile "$@" --extra data --extra notebook --extra dask --extra explore --extra serve --extra dev pyproject.toml -o requirements/dev.txt
compile "$@" --constraint requirements/dev.txt requirements/docs.in -o requirements/docs.txt
compile "$@" --no-deps --constraint requirements/dev.txt requirements/openfhe.in -o requirements/openfhe.txt
