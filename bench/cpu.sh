#!/usr/bin/env bash
# Compares the processor time that two builds of Daruma spend on the same statements: cpu.sh BEFORE AFTER [ROUNDS]
#
# Each round runs one server of each, in turn, and has it insert 200,000 rows in one transaction, 200,000 in one each, and update as many
# in one each, by loops in T-SQL and with delayed durability, so that neither a client nor a disk counts. What is compared is the
# least of all rounds (5 by default): others on the machine can only add to it.
set -euo pipefail

[ $# -ge 2 ] || { sed -n '2,7s/^# \{0,1\}//p' "$0" >&2; exit 2; }
scratch=$(mktemp -d)
server=
trap '[ -z "$server" ] || kill -TERM "$server" 2> /dev/null || true; rm -rf "$scratch"' EXIT
export MSSQL_SA_PASSWORD="Cpu-$RANDOM-seconds"

free_port() {
    python3 -c 'import socket; s = socket.socket(); s.bind(("127.0.0.1", 0)); print(s.getsockname()[1])'
}

# Clock ticks of the server so far.
ticks() {
    awk '{ print $14 + $15 }' "/proc/$server/stat"
}

query() { # BINARY PORT TEXT
    "$scratch/sqlcmd" -S "127.0.0.1,$2" -U sa -P "$MSSQL_SA_PASSWORD" -C -b -Q "$3" > "$scratch/out" || { cat "$scratch/out" >&2; return 1; }
}

loop() { # TEXT
    echo "USE b; SET NOCOUNT ON; DECLARE @i int = 0; WHILE @i < 200000 BEGIN $1; SET @i += 1 END"
}

# One server's life: a line of ticks for each workload.
measure() { # BINARY
    local port before
    port=$(free_port)
    rm -rf "$scratch/data" && mkdir "$scratch/data"
    ln -sf "$(realpath "$1")" "$scratch/sqlcmd"
    "$1" serve --data "$scratch/data" --listen "127.0.0.1:$port" > "$scratch/log" 2>&1 &
    server=$!
    until grep -q '^ready' "$scratch/log"; do
        kill -0 "$server" || { cat "$scratch/log" >&2; return 1; }
        sleep 0.1
    done
    query "$1" "$port" "CREATE DATABASE b; ALTER DATABASE b SET RECOVERY SIMPLE; ALTER DATABASE b SET DELAYED_DURABILITY = FORCED"
    query "$1" "$port" "USE b; CREATE TABLE t (id int PRIMARY KEY, v int, p char(100)); CREATE TABLE u (id int PRIMARY KEY, v int, p char(100))"
    for text in "BEGIN TRAN; $(loop "INSERT t VALUES (@i, @i, 'x')"); COMMIT" "$(loop "INSERT u VALUES (@i, @i, 'x')")" \
        "$(loop 'UPDATE t SET v += 1 WHERE id = @i')"; do
        before=$(ticks)
        query "$1" "$port" "USE b; $text"
        echo "$(($(ticks) - before))"
    done | paste -sd ' '
    kill -TERM "$server"
    wait "$server" || true
    server=
}

for ((round = 0; round < ${3:-5}; round++)); do
    measure "$1" >> "$scratch/before"
    measure "$2" >> "$scratch/after"
done
least() { # FILE COLUMN
    cut -d ' ' -f "$2" "$1" | sort -n | head -1
}
hz=$(getconf CLK_TCK)
printf '%-28s %10s %10s %8s\n' 'processor seconds' before after ratio
column=0
for name in 'inserts, one transaction' 'inserts, one each' 'updates, one each'; do
    column=$((column + 1))
    awk -v n="$name" -v b="$(least "$scratch/before" $column)" -v a="$(least "$scratch/after" $column)" -v hz="$hz" \
        'BEGIN { printf "%-28s %10.2f %10.2f %8.3f\n", n, b / hz, a / hz, a / b }'
done
