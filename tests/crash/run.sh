#!/usr/bin/env bash
# Kills the server under load and checks every acknowledged commit after each restart: run.sh [--seconds N] [--writers N] [--seed N] [--server BINARY]
# The data lies in a scratch folder that is deleted, unless --folder names one.
set -euo pipefail

here=$(cd "$(dirname "$0")" && pwd)
root=$(cd "$here/../.." && pwd)
server="${DARUMA_BIN:-${CARGO_TARGET_DIR:-$root/target}/release/daruma}"
arguments=()
while [ $# -gt 0 ]; do
    case "$1" in
        --seconds | --writers | --seed | --folder) arguments+=("-${1#--}" "$2"); shift ;;
        --server) server="$2"; shift ;;
        --help | -h) sed -n '2,3s/^# //p' "$0"; exit 0 ;;
        *) echo "unknown option $1" >&2; exit 2 ;;
    esac
    shift
done
if [ ! -x "$server" ]; then
    echo "no server at $server: run 'cargo build --release' or name one with --server" >&2
    exit 1
fi
if ! command -v go > /dev/null; then
    apt-get update -qq > /dev/null
    DEBIAN_FRONTEND=noninteractive apt-get install -y -qq --no-install-recommends golang > /dev/null
fi
mkdir -p "$root/target/crash"
(cd "$here" && go build -mod=readonly -o "$root/target/crash/crash" .)
exec "$root/target/crash/crash" -server "$server" "${arguments[@]}"
