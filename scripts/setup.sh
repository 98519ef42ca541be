#!/bin/sh
# Starts scripts/bootstrap.py with the first Python that really runs (a pyenv shim may only print an error).
# That Python only drives the set-up; which one goes into .venv, bootstrap.py decides.
here=$(dirname -- "$0")
for python in "$here/../.venv/bin/python" "${PENSTOCK_PYTHON:-}" python3 /usr/bin/python3 python3.13 python3.12 python3.11 \
    python3.10 "${PYENV_ROOT:-$HOME/.pyenv}"/versions/*/bin/python3 \
    "${UV_PYTHON_INSTALL_DIR:-${XDG_DATA_HOME:-$HOME/.local/share}/uv/python}"/*/bin/python3; do
    [ -n "$python" ] || continue
    [ "$("$python" -c 'import sys; print(sys.version_info >= (3, 8))' 2>/dev/null </dev/null)" = True ] || continue
    exec "$python" "$here/bootstrap.py" "$@"
done
echo "set-up: no Python found: python3 is not on PATH, nor in /usr/bin, pyenv's folder or uv's" >&2
echo "remedy: 'uv python install 3.10', 'pyenv install 3.10', or 'apt install python3 python3-venv'; then again" >&2
exit 3
