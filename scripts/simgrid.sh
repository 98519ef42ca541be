#!/bin/sh
# Installs SimGrid where it may; elsewhere says how to get it. Done when an interpreter imports it.
worker=$(dirname -- "$0")/../src/penstock/lab/simulation/cluster/simgrid_worker.py

found() {
    for python in "${PENSTOCK_SIMGRID_PYTHON:-/usr/bin/python3}" python3; do
        version=$("$python" -I "$worker" --version 2>/dev/null </dev/null) || continue
        echo "SimGrid $version, $python"
        return 0
    done
    return 1
}

found && exit 0
if command -v apt-get >/dev/null 2>&1; then
    if [ "$(id -u)" = 0 ]; then
        apt-get install -y -q python3-simgrid >/dev/null || { apt-get update -q && apt-get install -y -q python3-simgrid; } >/dev/null
        found && exit 0
    elif sudo -n true 2>/dev/null; then
        sudo -n apt-get install -y -q python3-simgrid >/dev/null
        found && exit 0
    else
        echo "SimGrid is not there, and this user may not install packages" >&2
        echo "remedy: sudo apt-get install python3-simgrid" >&2
        exit 3
    fi
fi
echo "SimGrid could not be installed with the system's packages" >&2
echo "remedy: pip install 'pybind11<3' simgrid (needs cmake, g++ and libboost-dev; half an hour on two cores)," >&2
echo "        then name that interpreter: export PENSTOCK_SIMGRID_PYTHON=/path/to/python" >&2
exit 3
