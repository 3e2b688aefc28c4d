#!/usr/bin/env bash
# Backup and restore: size, seconds, MB/s and processor time, beside pg_basebackup: backup.sh [--rows N] [--server BINARY]
#
# The same rows go into a private Daruma and, when PostgreSQL is installed, a private PostgreSQL: an order table with three
# indexes, made by the servers themselves. MB/s is the size of the database's used pages over the seconds the command took, a
# final sync included. Processor time is that of the server and, for pg_basebackup, of its client. Nothing is dropped from the
# page cache: compare within a run, on a machine that does nothing else. Writes target/bench/backup.md.
set -euo pipefail

here=$(cd "$(dirname "$0")" && pwd)
root=$(cd "$here/.." && pwd)
source "$root/tests/interop/server.sh"

rows=2000000
while [ $# -gt 0 ]; do
    case "$1" in
        --rows) rows="$2"; shift ;;
        --server) DARUMA_BIN="$2"; shift ;;
        *) echo "usage: backup.sh [--rows N] [--server BINARY]" >&2; exit 2 ;;
    esac
    shift
done

binary=$(daruma_binary "$root")
out="$root/target/bench"
mkdir -p "$out"
scratch=$(mktemp -d "${TMPDIR:-/tmp}/daruma-backup-bench.XXXXXX")
postgres=
as_postgres=()
SERVER_PID=
cleanup() {
    stop_server
    [ -z "$postgres" ] || "${as_postgres[@]}" "$postgres/pg_ctl" -D "$scratch/pg" -m immediate stop > /dev/null 2>&1 || true
    rm -rf "$scratch"
}
trap cleanup EXIT
trap 'exit 130' INT TERM

report="$out/backup.md"
printf '| what | MB in | MB out | s | MB/s | processor s |\n|---|---|---|---|---|---|\n' > "$report"

seconds() { python3 -c 'import time; print(time.monotonic())'; }
megabytes() { du -scm --apparent-size "$@" | tail -1 | cut -f1; }
# Processor seconds of a process and its children so far.
processor() { awk -v hz="$(getconf CLK_TCK)" '{ print ($14 + $15 + $16 + $17) / hz }' "/proc/$1/stat"; }

row() { # NAME MB-IN MB-OUT SECONDS PROCESSOR
    awk -v n="$1" -v i="$2" -v o="$3" -v s="$4" -v p="$5" \
        'BEGIN { printf "| %s | %d | %d | %.2f | %.0f | %.2f |\n", n, i, o, s, i / s, p }' | tee -a "$report"
}

# --- Daruma

export DARUMA_PASSWORD='Backup-Bench-1!'
port=$(free_port)
start_server "$binary" "$scratch/daruma" "$port" "$scratch/daruma.log"
sql() { "$binary" sql -C -b -S "127.0.0.1,$port" -U sa -P "$DARUMA_PASSWORD" -W -h -1 -Q "$1"; }

sql "CREATE DATABASE b; ALTER DATABASE b SET RECOVERY SIMPLE" > /dev/null
sql "SET NOCOUNT ON
CREATE TABLE b.dbo.seed (n int NOT NULL PRIMARY KEY)
INSERT b.dbo.seed VALUES (0)
DECLARE @k int = 1
WHILE @k < $rows BEGIN
    INSERT b.dbo.seed SELECT n + @k FROM b.dbo.seed WHERE n + @k < $rows
    SET @k = @k * 2
END
CREATE TABLE b.dbo.detail (order_id int NOT NULL, line int NOT NULL, tracking nvarchar(25), qty smallint, product int, price money,
    guid uniqueidentifier NOT NULL, modified datetime, PRIMARY KEY (order_id, line))
INSERT b.dbo.detail SELECT n / 4, n % 4, CONCAT(N'4911-', n % 9973, N'-98'), n % 40, 707 + n % 290, n % 3578, NEWID(), DATEADD(minute, n % 500000, '2011-05-31')
    FROM b.dbo.seed
CREATE UNIQUE INDEX g ON b.dbo.detail (guid)
CREATE INDEX p ON b.dbo.detail (product)
DROP TABLE b.dbo.seed" > /dev/null
sql "USE b CHECKPOINT" > /dev/null

daruma() { # NAME FILES OPTIONS
    local devices="" n start used before end
    rm -f "$scratch"/x*.bak
    for n in $(seq "$2"); do devices="$devices, DISK = '$scratch/x$n.bak'"; done
    devices=${devices#, }
    before=$(processor "$SERVER_PID")
    start=$(seconds)
    used=$(sql "BACKUP DATABASE b TO $devices WITH FORMAT, COPY_ONLY, $3" | sed -n 's/.*processed \([0-9]*\) pages in.*/\1/p')
    end=$(seconds)
    used=$((used * 8 / 1024))
    row "BACKUP $1" "$used" "$(megabytes "$scratch"/x*.bak)" "$(echo "$end - $start" | bc)" "$(echo "$(processor "$SERVER_PID") - $before" | bc)"
    before=$(processor "$SERVER_PID")
    start=$(seconds)
    sql "RESTORE DATABASE r FROM $devices WITH REPLACE, MOVE 'b' TO '$scratch/r.mdf', MOVE 'b_log' TO '$scratch/r.ldf'" > /dev/null
    end=$(seconds)
    row "RESTORE $1" "$used" "$used" "$(echo "$end - $start" | bc)" "$(echo "$(processor "$SERVER_PID") - $before" | bc)"
}

daruma 'plain, 1 file' 1 NO_COMPRESSION
daruma 'default (zstd 1), 1 file' 1 'STATS = 100'
daruma 'zstd 1, 4 files' 4 COMPRESSION
daruma 'lz4, 1 file' 1 'COMPRESSION (ALGORITHM = LZ4)'
daruma 'zstd medium, 1 file' 1 'COMPRESSION (ALGORITHM = ZSTD, LEVEL = MEDIUM)'
stop_server

# --- PostgreSQL

pg_bin=$(ls -d /usr/lib/postgresql/*/bin 2> /dev/null | tail -1 || true)
if [ "$(id -u)" = 0 ]; then
    as_postgres=(runuser -u postgres --) # it refuses to run as root
    chmod 755 "$scratch"
fi
if [ -n "$pg_bin" ]; then
    postgres="$pg_bin"
    mkdir "$scratch/pg" "$scratch/pgsocket"
    [ ${#as_postgres[@]} = 0 ] || chown postgres "$scratch/pg" "$scratch/pgsocket"
    pg_port=$(free_port)
    "${as_postgres[@]}" "$postgres/initdb" -D "$scratch/pg" -U postgres --auth trust > /dev/null
    "${as_postgres[@]}" "$postgres/pg_ctl" -D "$scratch/pg" -w -o "-p $pg_port -k $scratch/pgsocket -c listen_addresses=127.0.0.1 -c shared_buffers=1GB" \
        -l "$scratch/pgsocket/log" start > /dev/null
    psql() { "$postgres/psql" -U postgres -h 127.0.0.1 -p "$pg_port" -d postgres -qAtc "$1"; }
    psql "CREATE TABLE detail AS SELECT n / 4 AS order_id, n % 4 AS line, '4911-' || n % 9973 || '-98' AS tracking,
        (n % 40)::smallint AS qty, 707 + n % 290 AS product, (n % 3578)::numeric(19, 4) AS price, gen_random_uuid() AS guid,
        timestamp '2011-05-31' + (n % 500000) * interval '1 minute' AS modified FROM generate_series(0, $rows - 1) n"
    psql "ALTER TABLE detail ADD PRIMARY KEY (order_id, line)"
    psql "CREATE UNIQUE INDEX g ON detail (guid)"
    psql "CREATE INDEX p ON detail (product)"
    psql CHECKPOINT
    used=$(psql "SELECT sum(pg_database_size(oid))::bigint / 1048576 FROM pg_database")
    postmaster=$(head -1 "$scratch/pg/postmaster.pid")
    for compress in none server-zstd:1 server-zstd:level=1,workers=2 server-lz4:1; do
        rm -rf "$scratch/base"
        before=$(processor "$postmaster")
        start=$(seconds)
        times=$( { /usr/bin/env time -f '%U %S' "$postgres/pg_basebackup" -U postgres -h 127.0.0.1 -p "$pg_port" -D "$scratch/base" -Ft -X fetch \
            --checkpoint=fast --compress="$compress" > /dev/null; } 2>&1 | tail -1)
        end=$(seconds)
        client=$(awk '{ print $1 + $2 }' <<< "$times")
        sleep 1 # the sender's processor time counts for the postmaster once it has ended
        row "pg_basebackup $compress" "$used" "$(megabytes "$scratch/base")" "$(echo "$end - $start" | bc)" \
            "$(echo "$(processor "$postmaster") - $before + $client" | bc)"
    done
else
    echo "PostgreSQL is not installed: its rows are left out" | tee -a "$report"
fi
echo "written to $report"
