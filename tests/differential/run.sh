#!/usr/bin/env bash
# Random statements asked of Daruma and of PostgreSQL 15, over the same rows: run.sh [options]
#
#   --minutes N      ends after so many minutes (otherwise one)
#   --results N      ends after so many compared results
#   --seed S         seed of the first round of tables; the next ones follow (otherwise by chance, and printed)
#   --statement N    only this statement of the first round: repeats a difference
#   --differences N  ends after so many differences (otherwise 10)
#   --workers N      that work side by side (otherwise as many as there are processors)
#   --plant          plants a fault in what Daruma is asked; ends well only if it is noticed
#   --large          tables of up to 200,000 rows, a server with little memory (by seed), three sessions at once
#   --rows N         rows of the largest table of --large
#   --session N      the session of --large that --statement is meant for
#   --server BINARY  Daruma's program (otherwise DARUMA_BIN or the release build of this work tree)
#
# PostgreSQL comes from Debian's package, runs as a user who is not root in a scratch folder, listens on a socket there and nowhere
# else, and is stopped by its process id. Ends non-zero when the servers differ.
set -euo pipefail

here=$(cd "$(dirname "$0")" && pwd)
root=$(cd "$here/../.." && pwd)
source "$root/tests/interop/server.sh"

arguments=()
limited=no
while [ $# -gt 0 ]; do
    case "$1" in
        --minutes | --results | --statement) arguments+=("$1" "$2"); limited=yes; shift ;;
        --seed | --differences | --workers | --rows | --session) arguments+=("$1" "$2"); shift ;;
        --plant | --large) arguments+=("$1") ;;
        --server) DARUMA_BIN="$2"; shift ;;
        --help | -h) sed -n '2,17s/^# \{0,1\}//p' "$0"; exit 0 ;;
        *) echo "unknown option $1" >&2; exit 2 ;;
    esac
    shift
done
[ "$limited" = yes ] || arguments+=(--minutes 1)
binary=$(daruma_binary "$root")

as_root() {
    if [ "$(id -u)" -eq 0 ]; then "$@"; else sudo "$@"; fi
}

# initdb and postgres refuse to run as root; the package brings a user for them.
as_nobody_special() {
    if [ "$(id -u)" -eq 0 ]; then setpriv --reuid postgres --regid postgres --clear-groups "$@"; else "$@"; fi
}

programs=/usr/lib/postgresql/15/bin
if [ ! -x "$programs/postgres" ]; then
    echo "installing postgresql-15"
    as_root apt-get update -qq > /dev/null
    # Only the programs are wanted: Debian's package would otherwise make and start a cluster of its own.
    if [ ! -e /etc/postgresql-common/createcluster.conf ]; then
        as_root mkdir -p /etc/postgresql-common
        echo 'create_main_cluster = false' | as_root tee /etc/postgresql-common/createcluster.conf > /dev/null
    fi
    as_root env DEBIAN_FRONTEND=noninteractive apt-get install -y -qq --no-install-recommends -o Dpkg::Options::=--force-confold \
        postgresql-15 > /dev/null
fi

target="${CARGO_TARGET_DIR:-$root/target}"
(cd "$root" && cargo build --release --locked --quiet -p daruma-differential)

scratch=$(mktemp -d)
postgres_pid=
cleanup() {
    if [ -n "$postgres_pid" ]; then
        # SIGINT: a fast shutdown, without waiting for sessions. To the server itself: the shell that started it ignores it.
        kill -INT "$(head -n 1 "$scratch/postgres/data/postmaster.pid")" 2> /dev/null || true
        wait "$postgres_pid" 2> /dev/null || true
    fi
    rm -rf "$scratch"
}
trap cleanup EXIT
trap 'exit 130' INT TERM

mkdir "$scratch/postgres" "$scratch/daruma"
# The owner of the reference's folder has to get there.
chmod 711 "$scratch"
if [ "$(id -u)" -eq 0 ]; then chown postgres: "$scratch/postgres"; fi
as_nobody_special "$programs/initdb" -D "$scratch/postgres/data" -U postgres --auth=trust --locale=C --encoding=UTF8 --no-sync \
    > "$scratch/initdb.log" || { cat "$scratch/initdb.log" >&2; exit 1; }
as_nobody_special "$programs/postgres" -D "$scratch/postgres/data" -k "$scratch/postgres" \
    -c listen_addresses= -c fsync=off -c jit=off -c shared_buffers=64MB -c max_connections=40 -c autovacuum=off \
    > "$scratch/postgres.log" 2>&1 &
postgres_pid=$!
for _ in $(seq 200); do
    [ -S "$scratch/postgres/.s.PGSQL.5432" ] && break
    kill -0 "$postgres_pid" 2> /dev/null || { cat "$scratch/postgres.log" >&2; exit 1; }
    sleep 0.1
done

status=0
"$target/release/daruma-differential" --server "$binary" --postgres "$scratch/postgres" --scratch "$scratch/daruma" "${arguments[@]}" || status=$?
if [ "$status" -ne 0 ]; then
    echo "the last lines of the server under test:" >&2
    tail -n 20 "$scratch"/daruma/{,large*/}{server.log,data/log/errorlog} >&2 2> /dev/null || true
fi
exit "$status"
