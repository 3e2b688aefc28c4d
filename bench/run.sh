#!/usr/bin/env bash
# Compares Daruma with PostgreSQL, MariaDB and SQLite in one run: run.sh [--quick] [--only NAME[,NAME]] [options]
#
#   --quick          some minutes instead of about half an hour
#   --only NAMES     startup, bulk_load, point, scan, join, commits, lean, loop, delayed, update_pair, update_sessions (parts of names, commas between)
#   --engines NAMES  of daruma,postgresql,mariadb,sqlite
#   --server BINARY  Daruma's binary (otherwise DARUMA_BIN or the release build of this work tree)
#   --before BINARY  another build of Daruma, in turn with the first, as the engine `before`
#   --lean-rounds N  turns of each lean workload (9; many short turns tell builds apart on a machine whose speed changes)
#   --peers          measure the peers alone
#   --build-time     also time a clean release build
#   --out FOLDER     where results.json and results.md go (otherwise target/bench)
#
# The peers come from Debian's packages and run on scratch folders and free loopback ports with the same durable settings.
set -euo pipefail

here=$(cd "$(dirname "$0")" && pwd)
root=$(cd "$here/.." && pwd)
out="$root/target/bench"
server="${DARUMA_BIN:-${CARGO_TARGET_DIR:-$root/target}/release/daruma}"
arguments=()
build_time=no
while [ $# -gt 0 ]; do
    case "$1" in
        --quick) arguments+=(-quick) ;;
        --only) arguments+=(-only "$2"); shift ;;
        --engines) arguments+=(-engines "$2"); shift ;;
        --daruma-args) arguments+=(-daruma-args "$2"); shift ;;
        --server) server="$2"; shift ;;
        --before) arguments+=(-before "$2"); shift ;;
        --lean-rounds) arguments+=(-lean-rounds "$2"); shift ;;
        --peers) server= ;;
        --build-time) build_time=yes ;;
        --out) out="$2"; shift ;;
        --help | -h) sed -n '2,15s/^# \{0,1\}//p' "$0"; exit 0 ;;
        *) echo "unknown option $1" >&2; exit 2 ;;
    esac
    shift
done

as_root() {
    if [ "$(id -u)" -eq 0 ]; then "$@"; else sudo "$@"; fi
}

missing=()
for package in postgresql-15 sysbench mariadb-server-core mariadb-client-core libsqlite3-dev gcc libc6-dev; do
    dpkg-query -W -f '${Status}' "$package" 2> /dev/null | grep -q 'ok installed' || missing+=("$package")
done
command -v go > /dev/null || missing+=(golang)
if [ ${#missing[@]} -gt 0 ]; then
    echo "installing ${missing[*]}"
    as_root apt-get update -qq > /dev/null
    # Only the programs are wanted: Debian's package would otherwise make and start a cluster of its own.
    if [ ! -e /etc/postgresql-common/createcluster.conf ]; then
        as_root mkdir -p /etc/postgresql-common
        echo 'create_main_cluster = false' | as_root tee /etc/postgresql-common/createcluster.conf > /dev/null
    fi
    as_root env DEBIAN_FRONTEND=noninteractive apt-get install -y -qq --no-install-recommends -o Dpkg::Options::=--force-confold \
        "${missing[@]}" > /dev/null
fi

if [ -n "$server" ] && [ ! -x "$server" ]; then
    echo "no server at $server: run 'cargo build --release', name one with --server, or measure the peers alone with --peers" >&2
    exit 1
fi

load="$(dirname "${server:-.}")/examples/load"
if [ -n "$server" ] && [ ! -x "$load" ]; then
    (cd "$root" && cargo build --release --locked --quiet -p daruma-lab --example load)
    [ -x "$load" ] || install -D "${CARGO_TARGET_DIR:-$root/target}/release/examples/load" "$load"
fi

mkdir -p "$out"
(cd "$here" && go build -mod=readonly -tags libsqlite3 -o "$out/bench" .)
[ -z "$server" ] || arguments+=(-daruma "$server")
"$out/bench" -root "$root" -out "$out" "${arguments[@]}"

if [ "$build_time" = yes ]; then
    scratch=$(mktemp -d)
    trap 'rm -rf "$scratch"' EXIT
    (cd "$root" && cargo fetch --locked)
    started=$(date +%s)
    (cd "$root" && CARGO_TARGET_DIR="$scratch" cargo build --release --locked --quiet)
    seconds=$(($(date +%s) - started))
    size=$(stat -c %s "$scratch/release/daruma")
    echo "clean release build: $seconds s on $(nproc) cores, binary $((size / 1048576)) MiB" | tee -a "$out/results.md"
fi
