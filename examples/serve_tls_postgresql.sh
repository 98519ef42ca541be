#!/bin/sh
# One encrypted job through a service with TLS and PostgreSQL: sh examples/serve_tls_postgresql.sh
#
# It needs penstock with its service and OpenFHE (or .venv beside this folder), openssl, and PostgreSQL's initdb and
# pg_ctl. Everything lies in a temporary folder and ends with the script.
set -eu

here=$(cd "$(dirname "$0")/.." && pwd)
[ -x "$here/.venv/bin/penstock" ] && PATH="$here/.venv/bin:$PATH"
# Debian keeps PostgreSQL's programs out of PATH.
PATH="$PATH:$(ls -d /usr/lib/postgresql/*/bin 2>/dev/null | tail -n 1)"
for program in penstock python openssl initdb pg_ctl; do
    command -v "$program" >/dev/null || { echo "$program is not on PATH: install it" >&2; exit 3; }
done

work=$(mktemp -d)
server=""
# PostgreSQL refuses root.
as_user() { if [ "$(id -u)" = 0 ]; then runuser -u nobody -- "$@"; else "$@"; fi; }
finish() {
    [ -z "$server" ] || { kill "$server" 2>/dev/null; wait "$server" 2>/dev/null; } || true
    [ ! -f "$work/postgresql/data/postmaster.pid" ] \
        || (cd / && as_user pg_ctl -D "$work/postgresql/data" -m immediate -w stop >/dev/null) || true
    rm -rf "$work"
}
trap finish EXIT
trap 'exit 130' INT TERM
chmod 711 "$work"
cd "$work"
free_port() { python -c 'import socket; s = socket.socket(); s.bind(("127.0.0.1", 0)); print(s.getsockname()[1])'; }

echo "== a certificate for this machine"
openssl req -x509 -newkey rsa:2048 -nodes -days 1 -subj /CN=localhost -addext subjectAltName=IP:127.0.0.1 \
    -keyout key.pem -out certificate.pem 2>openssl.log || { cat openssl.log >&2; exit 1; }
chmod 600 key.pem

echo "== a PostgreSQL cluster"
mkdir postgresql
[ "$(id -u)" != 0 ] || chown nobody postgresql
database=$(free_port)
options="-p $database -c listen_addresses=127.0.0.1 -c unix_socket_directories="
(cd / && as_user initdb -D "$work/postgresql/data" -U penstock --auth=trust >"$work/initdb.log" 2>&1) \
    || { cat initdb.log >&2; exit 1; }
(cd / && as_user pg_ctl -D "$work/postgresql/data" -w -l "$work/postgresql/log" -o "$options" start >/dev/null)

echo "== the server"
port=$(free_port)
admin=$(free_port)
cat >serve.toml <<EOF
folder = "service"
listen = "127.0.0.1:$port"
admin = "127.0.0.1:$admin"
database = "postgresql://penstock@127.0.0.1:$database/postgres"

[tls]
certificate = "certificate.pem"
key = "key.pem"
EOF
: >said
PYTHONUNBUFFERED=1 penstock serve --config serve.toml --log serve.log >said 2>&1 &
server=$!
tries=0
until grep -q '^operators: ' said; do
    tries=$((tries + 1))
    { [ "$tries" -lt 300 ] && kill -0 "$server" 2>/dev/null; } || { cat said >&2; exit 1; }
    sleep 0.1
done
operator=$(sed -n 's/^token of the operator, shown once: //p' said)

echo "== a tenant and its token"
# The header comes from standard input: others see arguments in the list of processes.
administer() {
    printf 'Authorization: Bearer %s' "$operator" | curl --silent --show-error --fail --cacert certificate.pem \
        -H @- -H 'Content-Type: application/json' -d "$2" "https://127.0.0.1:$admin$1"
}
administer /v1/tenants '{"tenant": "alice"}' >/dev/null
PENSTOCK_TOKEN=$(administer /v1/tenants/alice/tokens '{"scopes": ["deploy", "keys", "run", "read"]}' \
    | python -c 'import json, sys; print(json.load(sys.stdin)["token"])')
export PENSTOCK_TOKEN PENSTOCK_SERVICE="https://127.0.0.1:$port" PENSTOCK_CA="$work/certificate.pem"

echo "== deploy, make and upload keys, submit, wait, decrypt"
penstock record "$here/examples/openfhe_script.py" --package model.pkg >record.log 2>&1 || { cat record.log >&2; exit 1; }
penstock client deploy model.pkg --name demo -q >/dev/null
penstock client keygen alice --program demo --allow-insecure -q >/dev/null
penstock client upload alice --program demo -q >/dev/null
python - <<'EOF'
import numpy as np
np.savez("inputs.npz", **{"input[0]": np.linspace(0, 1, 8), "input[1]": np.ones(8)})
EOF
penstock client submit alice --program demo --input inputs.npz --job first --allow-insecure -q >/dev/null
penstock client wait alice first -q >/dev/null
penstock client result alice first --for owner -o results.npz -q >/dev/null

echo "== compare with the same program in the clear"
python - <<'EOF'
import numpy as np

x, y = np.linspace(0, 1, 8), np.ones(8)
constant = np.array([5.0, 4.0, 3.0, 2.0, 1.0, 0.75, 0.5, 0.25])
clear = [x + y, x - y, 4 * x, x * y, x**3 + constant, np.roll(x, -1) + np.roll(x, 2)]
found = np.load("results.npz")
assert len(found.files) == len(clear), found.files
worst = max(float(np.abs(found[name] - right).max()) for name, right in zip(found.files, clear))
print(f"{len(clear)} outputs, largest difference {worst:.1e} (measured)")
assert worst < 1e-6
EOF
