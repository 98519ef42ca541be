#!/bin/sh
# Installs Chromium where it may; elsewhere says how to get it. Done when one answers.
found() {
    for browser in "${PENSTOCK_CHROMIUM:-}" chromium chromium-browser google-chrome-stable google-chrome; do
        [ -n "$browser" ] || continue
        version=$("$browser" --version 2>/dev/null </dev/null) || continue
        echo "$version, $(command -v "$browser")"
        return 0
    done
    return 1
}

found && exit 0
remedy="remedy: sudo apt-get install chromium, or name a browser: export PENSTOCK_CHROMIUM=/path/to/chromium"
if command -v apt-get >/dev/null 2>&1; then
    if [ "$(id -u)" = 0 ]; then
        apt-get install -y -q chromium >/dev/null || { apt-get update -q && apt-get install -y -q chromium; } >/dev/null
    elif sudo -n true 2>/dev/null; then
        sudo -n apt-get install -y -q chromium >/dev/null
    else
        echo "Chromium is not there, and this user may not install packages: the explorer's browser tests are skipped" >&2
        echo "$remedy" >&2
        exit 3
    fi
    found && exit 0
fi
echo "Chromium could not be installed with the system's packages: the explorer's browser tests are skipped" >&2
echo "$remedy" >&2
exit 3
