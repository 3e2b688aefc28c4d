#!/usr/bin/env bash
# The monitor's page in a browser: run.sh [--no-install] [--server BINARY] [--out DIR]
#
# Installs Debian's chromium and playwright-core (pinned) where they are missing, starts `daruma serve --monitor` on a scratch
# folder and free loopback ports, and drives the page: login, selection by dragging, baseline, quick report, comparison, a
# blocked session that comes and goes, plans, events, keyboard, axe, light and dark at 1280 and 390 pixels. Then, on servers of its
# own, what the page shows while a server is frozen, killed, started again or away (outage.mjs). Screenshots go to target/monitor.
set -euo pipefail

here=$(cd "$(dirname "$0")" && pwd)
root=$(cd "$here/../.." && pwd)
install=yes
binary="$root/target/release/daruma"
out="$root/target/monitor"
while [ $# -gt 0 ]; do
    case "$1" in
        --no-install) install=no ;;
        --server) binary="$2"; shift ;;
        --out) out="$2"; shift ;;
        *) echo "unknown option $1" >&2; exit 2 ;;
    esac
    shift
done
[ -x "$binary" ] || { echo "there is no $binary: cargo build --release" >&2; exit 2; }
mkdir -p "$out"
if [ "$install" = yes ]; then
    if ! command -v chromium > /dev/null; then
        apt-get update -qq
        DEBIAN_FRONTEND=noninteractive apt-get install -y -qq --no-install-recommends chromium fonts-dejavu-core > /dev/null
    fi
    (cd "$out" && [ -d node_modules/playwright-core ] && [ -d node_modules/axe-core ] \
        || npm install --prefix "$out" --silent --no-save playwright-core@1.65.1 axe-core@4.14.1)
fi
scratch=$(mktemp -d)
server=
end() {
    [ -z "$server" ] || kill "$server" 2> /dev/null || true
    [ -z "$server" ] || wait "$server" 2> /dev/null || true
    rm -rf "$scratch"
}
trap end EXIT
export MSSQL_SA_PASSWORD='Monitor-in-a-browser-1'
"$binary" serve --data "$scratch/data" --listen 127.0.0.1:0 --monitor 127.0.0.1:0 2> "$scratch/log" &
server=$!
for _ in $(seq 200); do
    grep -q '^ready ' "$scratch/log" && break
    kill -0 "$server" 2> /dev/null || { cat "$scratch/log" >&2; exit 1; }
    sleep 0.1
done
page=$(sed -n 's/^monitor //p' "$scratch/log")
address=$(sed -n 's/^ready \([^ ]*\).*/\1/p' "$scratch/log")
cp "$here/page.mjs" "$here/outage.mjs" "$out/"
failed=0
node "$out/page.mjs" "$page" "${address%:*},${address##*:}" "$binary" "$out" || failed=1
node "$out/outage.mjs" "$binary" "$scratch/outage" "$out" || failed=1
exit "$failed"
