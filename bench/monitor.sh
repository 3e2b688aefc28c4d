#!/usr/bin/env bash
# What watching costs point queries: monitor.sh [--server BINARY] [--rounds N] [--queries N]
#
# Processor time of the server for the same point queries, turn by turn: alone (system_health stopped); as it is by default; with an
# event session that keeps completed batches and statements over a threshold; with the monitor in the same process. Prints each
# ratio to the first as the median of the rounds. Processor time and not time on a clock: others may work on the machine.
#
# Two kinds of queries: one batch each over the network, and statements of one loop inside the server, where a statement is
# cheapest and what is done for each weighs most.
set -euo pipefail

root=$(cd "$(dirname "$0")/.." && pwd)
binary="${DARUMA_BIN:-${CARGO_TARGET_DIR:-$root/target}/release/daruma}"
rounds=7
queries=20000
while [ $# -gt 0 ]; do
    case "$1" in
        --server) binary="$2"; shift ;;
        --rounds) rounds="$2"; shift ;;
        --queries) queries="$2"; shift ;;
        --help | -h) sed -n '2,10s/^# \{0,1\}//p' "$0"; exit 0 ;;
        *) echo "unknown option $1" >&2; exit 2 ;;
    esac
    shift
done
[ -x "$binary" ] || { echo "there is no $binary: cargo build --release" >&2; exit 2; }

scratch=$(mktemp -d)
servers=()
end() {
    for server in "${servers[@]}"; do kill "$server" 2> /dev/null || true; wait "$server" 2> /dev/null || true; done
    rm -rf "$scratch"
}
trap end EXIT
export MSSQL_SA_PASSWORD='What-watching-costs-1' SQLCMDPASSWORD='What-watching-costs-1'

# start NAME [OPTION..]: a server; its process is ${pid[NAME]}, its address ${address[NAME]}.
declare -A pid address
start() {
    local name=$1
    shift
    "$binary" serve --data "$scratch/$name" --listen 127.0.0.1:0 --memory 300M "$@" 2> "$scratch/$name.log" &
    pid[$name]=$!
    servers+=("$!")
    for _ in $(seq 300); do
        grep -q '^ready ' "$scratch/$name.log" && break
        kill -0 "${pid[$name]}" 2> /dev/null || { cat "$scratch/$name.log" >&2; exit 1; }
        sleep 0.1
    done
    local at
    at=$(sed -n 's/^ready \([^ ]*\).*/\1/p' "$scratch/$name.log")
    address[$name]="${at%:*},${at##*:}"
}
run() { "$binary" sql -S "${address[$1]}" -U sa -C -b -i "$2" > /dev/null; }
cpu_ms() { awk -v hz="$(getconf CLK_TCK)" '{ print ($14 + $15) * 1000 / hz }' "/proc/$1/stat"; }

kinds=(alone default session monitor)
cat > "$scratch/make.sql" << 'SQL'
CREATE DATABASE Points
GO
USE Points
GO
CREATE TABLE p (a int NOT NULL PRIMARY KEY, b varchar(60) NOT NULL)
INSERT p SELECT TOP (20000) ROW_NUMBER() OVER (ORDER BY (SELECT 1)), 'a row of some length' FROM sys.all_columns AS l CROSS JOIN sys.all_columns AS r
GO
SQL
cat > "$scratch/session.sql" << 'SQL'
CREATE EVENT SESSION slow ON SERVER ADD EVENT sqlserver.sql_batch_completed (WHERE duration > 100000),
    ADD EVENT sqlserver.rpc_completed (WHERE duration > 100000), ADD EVENT sqlserver.sql_statement_completed (WHERE duration > 100000)
    ADD TARGET package0.ring_buffer
ALTER EVENT SESSION slow ON SERVER STATE = START
GO
SQL
echo "ALTER EVENT SESSION system_health ON SERVER STATE = STOP" > "$scratch/alone.sql"
cat > "$scratch/batch.sql" << SQL
USE Points
GO
DECLARE @b varchar(60); SELECT @b = b FROM p WHERE a = 4711
GO $queries
SQL
cat > "$scratch/loop.sql" << SQL
USE Points
GO
DECLARE @n int = 0, @b varchar(60)
WHILE @n < $((queries * 10)) BEGIN SELECT @b = b FROM p WHERE a = @n % 20000 + 1; SET @n += 1 END
GO
SQL
for kind in "${kinds[@]}"; do
    options=()
    [ "$kind" != monitor ] || options=(--monitor 127.0.0.1:0)
    start "$kind" "${options[@]}"
    run "$kind" "$scratch/make.sql"
    case "$kind" in alone | session) run "$kind" "$scratch/$kind.sql" ;; esac
done
# What the monitor costs by itself is time on the clock, not processor time for a query: it is measured while nothing else runs.
idle() { local before; before=$(cpu_ms "${pid[$1]}"); sleep 10; awk -v a="$before" -v b="$(cpu_ms "${pid[$1]}")" 'BEGIN { printf "%.2f", (b - a) / 100 }'; }

for work in batch loop; do
    for kind in "${kinds[@]}"; do run "$kind" "$scratch/$work.sql"; : > "$scratch/$work.$kind"; done
    for round in $(seq "$rounds"); do
        for n in 0 1 2 3; do
            kind=${kinds[(n + round) % 4]}
            before=$(cpu_ms "${pid[$kind]}")
            run "$kind" "$scratch/$work.sql"
            awk -v a="$before" -v b="$(cpu_ms "${pid[$kind]}")" 'BEGIN { print b - a }' >> "$scratch/$work.$kind"
        done
    done
done
echo "processor time of the server, against alone: median of $rounds rounds (least .. most)"
for work in batch loop; do
    for kind in default session monitor; do
        paste "$scratch/$work.alone" "$scratch/$work.$kind" | awk '{ print $2 / $1 }' | sort -n \
            | awk -v work="$work" -v kind="$kind" '{ r[NR] = $1 } END { printf "%-6s %-8s %.3f (%.3f .. %.3f)\n", work, kind, r[int((NR + 1) / 2)], r[1], r[NR] }'
    done
done
echo "at rest, % of a core: alone $(idle alone), with the monitor $(idle monitor)"
