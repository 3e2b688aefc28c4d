#!/usr/bin/env bash
# Backup and restore beside pg_basebackup, pgBackRest and mariadb-backup: backup.sh [--quick] [--rows N] [--server BINARY] [--no-install]
#
# The same rows go into a private Daruma, PostgreSQL and MariaDB: an order table with three indexes, made by the servers themselves.
# MB/s is the size of the database over the seconds a command took, a final sync included. Processor time is that of the
# server, its tools and whatever they start. A restore ends when the files are there: recovery is part of Daruma's RESTORE and
# of mariadb-backup's --prepare, PostgreSQL does it at its next start. Nothing is dropped from the page cache: compare within a
# run, on a machine that does nothing else. Then a load of commits is measured with and without a backup beside it.
#
# Default 30,000,000 rows, about 4 GB; --quick a quarter of it. Installs what is missing from Debian's packages, unless told not to.
# Writes target/bench/backup.md: all rows, then Daruma's ratios to each peer.
set -euo pipefail

here=$(cd "$(dirname "$0")" && pwd)
root=$(cd "$here/.." && pwd)
source "$root/tests/interop/server.sh"

rows=30000000
install=yes
while [ $# -gt 0 ]; do
    case "$1" in
        --quick) rows=7500000 ;;
        --rows) rows="$2"; shift ;;
        --server) DARUMA_BIN="$2"; shift ;;
        --no-install) install=no ;;
        *) echo "usage: backup.sh [--quick] [--rows N] [--server BINARY] [--no-install]" >&2; exit 2 ;;
    esac
    shift
done

as_root() { if [ "$(id -u)" -eq 0 ]; then "$@"; else sudo "$@"; fi; }

install_peers() {
    local missing=() package
    for package in postgresql-15 pgbackrest mariadb-server-core mariadb-client-core mariadb-backup zstd bc; do
        dpkg-query -W -f '${Status}' "$package" 2> /dev/null | grep -q 'ok installed' || missing+=("$package")
    done
    [ ${#missing[@]} -gt 0 ] || return 0
    echo "installing ${missing[*]}"
    as_root apt-get update -qq > /dev/null
    # Only the programs are wanted: Debian's package would otherwise make and start a cluster of its own.
    if [ ! -e /etc/postgresql-common/createcluster.conf ]; then
        as_root mkdir -p /etc/postgresql-common
        echo 'create_main_cluster = false' | as_root tee /etc/postgresql-common/createcluster.conf > /dev/null
    fi
    as_root env DEBIAN_FRONTEND=noninteractive apt-get install -y -qq --no-install-recommends "${missing[@]}" > /dev/null
}
[ "$install" = no ] || install_peers

binary=$(daruma_binary "$root")
out="$root/target/bench"
mkdir -p "$out"
scratch=$(mktemp -d "${TMPDIR:-/tmp}/daruma-backup-bench.XXXXXX")
chmod 755 "$scratch"
pg_bin=$(ls -d /usr/lib/postgresql/*/bin 2> /dev/null | tail -1 || true)
as_postgres=()
[ "$(id -u)" != 0 ] || as_postgres=(runuser -u postgres --) # it refuses to run as root
mariadb_pid=
SERVER_PID=
cleanup() {
    stop_server
    stop_postgres
    stop_mariadb
    rm -rf "$scratch"
}
trap cleanup EXIT
trap 'exit 130' INT TERM

report="$out/backup.md"
table="$scratch/table"
: > "$table"
printf '%s rows, %s\n\n| what | MB in | MB out | s | MB/s | processor s |\n|---|---|---|---|---|---|\n' "$rows" "$(date -u +%F)" | tee "$report"

seconds() { python3 -c 'import time; print(time.monotonic())'; }
megabytes() { du -scm --apparent-size "$@" | tail -1 | cut -f1; }
# Processor seconds of a process and of its children that have ended.
processor() { awk -v hz="$(getconf CLK_TCK)" '{ print ($14 + $15 + $16 + $17) / hz }' "/proc/$1/stat"; }
minus() { echo "$1 - $2" | bc; }

# Runs a command; "SECONDS PROCESSOR-SECONDS" of it and all that it started.
measure() {
    python3 - "$@" << 'PYTHON'
import resource, subprocess, sys, time
begun = time.monotonic()
done = subprocess.run(sys.argv[1:], stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True)
if done.returncode != 0:
    sys.exit(f"{sys.argv[1:]} failed:\n{done.stderr[-3000:]}")
used = resource.getrusage(resource.RUSAGE_CHILDREN)
print(time.monotonic() - begun, used.ru_utime + used.ru_stime)
PYTHON
}

row() { # NAME MB-IN MB-OUT SECONDS PROCESSOR
    printf '%s|%s|%s|%s|%s\n' "$@" >> "$table"
    awk -v n="$1" -v i="$2" -v o="$3" -v s="$4" -v p="$5" \
        'BEGIN { printf "| %s | %d | %d | %.2f | %.0f | %.2f |\n", n, i, o, s, i / s, p }' | tee -a "$report"
}

# peer_row NAME MB-IN WHAT-CAME-OUT SERVER-PID COMMAND...: a tool beside its server, or without one (-).
peer_row() {
    local name="$1" used="$2" result="$3" pid="$4" before=0 after=0 measured
    shift 4
    [ "$pid" = - ] || before=$(processor "$pid")
    measured=$(measure "$@")
    sleep 1 # processor time of a server's child counts for its parent once the child has ended
    [ "$pid" = - ] || after=$(processor "$pid")
    row "$name" "$used" "$(megabytes "$result")" "${measured% *}" "$(echo "${measured#* } + $after - $before" | bc)"
}

# --- Daruma

export DARUMA_PASSWORD='Backup-Bench-1!'
sql() { "$binary" sql -C -b -S "127.0.0.1,$port" -U sa -P "$DARUMA_PASSWORD" -W -h -1 -Q "$1"; }

fill_daruma() {
    sql "CREATE DATABASE b; ALTER DATABASE b SET RECOVERY SIMPLE" > /dev/null
    sql "SET NOCOUNT ON
    CREATE TABLE b.dbo.seed (n int NOT NULL PRIMARY KEY)
    INSERT b.dbo.seed VALUES (0)
    DECLARE @k int = 1
    WHILE @k < 500000 BEGIN
        INSERT b.dbo.seed SELECT n + @k FROM b.dbo.seed WHERE n + @k < 500000
        SET @k = @k * 2
    END
    CREATE TABLE b.dbo.detail (order_id int NOT NULL, line int NOT NULL, tracking nvarchar(25), qty smallint, product int, price money,
        guid binary(16) NOT NULL, modified datetime, PRIMARY KEY (order_id, line))" > /dev/null
    local from
    for ((from = 0; from < rows; from += 500000)); do
        sql "INSERT b.dbo.detail SELECT m / 4, m % 4, CONCAT(N'4911-', m % 9973, N'-98'), m % 40, 707 + m % 290, m % 3578,
            HASHBYTES('MD5', CAST(m AS varchar(12))), DATEADD(minute, m % 500000, '2011-05-31')
            FROM (SELECT n + $from AS m FROM b.dbo.seed) s WHERE m < $rows" > /dev/null
    done
    sql "CREATE UNIQUE INDEX g ON b.dbo.detail (guid)
    CREATE INDEX p ON b.dbo.detail (product)
    DROP TABLE b.dbo.seed" > /dev/null
    sql "USE b CHECKPOINT" > /dev/null
}

daruma() { # NAME FILES OPTIONS [RESTORE-OPTIONS]
    local devices="" n start used before end
    rm -f "$scratch"/x*.bak
    for n in $(seq "$2"); do devices="$devices, DISK = '$scratch/x$n.bak'"; done
    devices=${devices#, }
    before=$(processor "$SERVER_PID")
    start=$(seconds)
    used=$(sql "BACKUP DATABASE b TO $devices WITH FORMAT, COPY_ONLY, $3" | sed -n 's/.*processed \([0-9]*\) pages in.*/\1/p')
    end=$(seconds)
    used=$((used * 8 / 1024))
    row "Daruma backup, $1" "$used" "$(megabytes "$scratch"/x*.bak)" "$(minus "$end" "$start")" "$(minus "$(processor "$SERVER_PID")" "$before")"
    before=$(processor "$SERVER_PID")
    start=$(seconds)
    sql "RESTORE DATABASE r FROM $devices WITH REPLACE, MOVE 'b' TO '$scratch/r.mdf', MOVE 'b_log' TO '$scratch/r.ldf'${4:+, $4}" > /dev/null
    end=$(seconds)
    row "Daruma restore, $1" "$used" "$used" "$(minus "$end" "$start")" "$(minus "$(processor "$SERVER_PID")" "$before")"
    rm -f "$scratch"/x*.bak
}

# Commits of four sessions: p50, p99 in milliseconds, and commits a second.
commits() { # NAME
    "$binary" stress -C -S "127.0.0.1,$port" -U sa -P "$DARUMA_PASSWORD" -d b --threads 4 --iterations 4000 --json \
        "INSERT dbo.commits (a) VALUES (1)" | python3 -c '
import json, sys
r = json.load(sys.stdin)
rate = 16000 / r["total_s"]
print("| %s | %.2f | %.2f | %.0f |" % (sys.argv[1], r["p50_s"] * 1e3, r["p99_s"] * 1e3, rate))' "$1" | tee -a "$report"
}

commits_beside_a_backup() {
    sql "CREATE TABLE b.dbo.commits (id int IDENTITY PRIMARY KEY, a int)" > /dev/null
    printf '\n| commits of 4 sessions | p50 ms | p99 ms | commits/s |\n|---|---|---|---|\n' | tee -a "$report"
    commits 'alone'
    while :; do sql "BACKUP DATABASE b TO DISK = '$scratch/y.bak' WITH FORMAT, COPY_ONLY" > /dev/null; done &
    local backups=$!
    commits 'backups beside them'
    kill "$backups" 2> /dev/null || true
    wait "$backups" 2> /dev/null || true
    commits 'alone again'
}

measure_daruma() {
    port=$(free_port)
    start_server "$binary" "$scratch/daruma" "$port" "$scratch/daruma.log"
    fill_daruma
    head -c 32 /dev/urandom > "$scratch/key"
    daruma 'defaults' 1 'STATS = 100'
    daruma 'plain' 1 NO_COMPRESSION
    daruma 'zstd 1' 1 'COMPRESSION (ALGORITHM = ZSTD, LEVEL = LOW)'
    daruma 'zstd 1, 4 files' 4 'COMPRESSION (ALGORITHM = ZSTD, LEVEL = LOW)'
    daruma 'lz4' 1 'COMPRESSION (ALGORITHM = LZ4)'
    daruma 'zstd 1, encrypted' 1 "COMPRESSION (ALGORITHM = ZSTD, LEVEL = LOW), ENCRYPTION (ALGORITHM = AES_256, KEY FILE = '$scratch/key')" \
        "ENCRYPTION (KEY FILE = '$scratch/key')"
    load_report="$scratch/load.md"
    report="$load_report" commits_beside_a_backup
    stop_server
    rm -rf "$scratch/daruma" "$scratch"/r.*
}

# --- PostgreSQL

psql() { "$pg_bin/psql" -U postgres -h 127.0.0.1 -p "$pg_port" -d postgres -qAtc "$1"; }
stop_postgres() { [ ! -d "$scratch/pg" ] || "${as_postgres[@]}" "$pg_bin/pg_ctl" -D "$scratch/pg" -m immediate stop > /dev/null 2>&1 || true; }

start_postgres() {
    mkdir "$scratch/pg" "$scratch/pgwork" "$scratch/repo"
    [ ${#as_postgres[@]} = 0 ] || chown postgres "$scratch/pg" "$scratch/pgwork" "$scratch/repo"
    pg_port=$(free_port)
    cat > "$scratch/pgbackrest.conf" << CONF
[global]
repo1-path=$scratch/repo
log-path=$scratch/pgwork
lock-path=$scratch/pgwork
spool-path=$scratch/pgwork
compress-type=zst
compress-level=1
start-fast=y
log-level-console=warn
repo1-retention-full=1
[b]
pg1-path=$scratch/pg
pg1-port=$pg_port
pg1-socket-path=$scratch/pgwork
pg1-user=postgres
CONF
    "${as_postgres[@]}" "$pg_bin/initdb" -D "$scratch/pg" -U postgres --auth trust > /dev/null
    cat >> "$scratch/pg/postgresql.conf" << CONF
port = $pg_port
unix_socket_directories = '$scratch/pgwork'
listen_addresses = '127.0.0.1'
shared_buffers = 1GB
max_wal_size = 8GB
archive_mode = on
archive_command = 'pgbackrest --config=$scratch/pgbackrest.conf --stanza=b archive-push %p'
CONF
    "${as_postgres[@]}" "$pg_bin/pg_ctl" -D "$scratch/pg" -w -l "$scratch/pgwork/log" start > /dev/null
}

fill_postgres() {
    psql "CREATE TABLE detail AS SELECT n / 4 AS order_id, n % 4 AS line, '4911-' || n % 9973 || '-98' AS tracking,
        (n % 40)::smallint AS qty, 707 + n % 290 AS product, (n % 3578)::numeric(19, 4) AS price, decode(md5(n::text), 'hex') AS guid,
        timestamp '2011-05-31' + (n % 500000) * interval '1 minute' AS modified FROM generate_series(0, $rows - 1) n"
    psql "ALTER TABLE detail ADD PRIMARY KEY (order_id, line)"
    psql "CREATE UNIQUE INDEX g ON detail (guid)"
    psql "CREATE INDEX p ON detail (product)"
    psql CHECKPOINT
}

measure_postgres() {
    local used postmaster compress workers
    [ -n "$pg_bin" ] || { echo "PostgreSQL is not installed: its rows are left out"; return; }
    start_postgres
    pgbackrest() { "${as_postgres[@]}" pgbackrest --config="$scratch/pgbackrest.conf" --stanza=b "$@"; }
    pgbackrest stanza-create > /dev/null
    fill_postgres
    used=$(psql "SELECT sum(pg_database_size(oid))::bigint / 1048576 FROM pg_database")
    postmaster=$(head -1 "$scratch/pg/postmaster.pid")
    for compress in none server-zstd:level=1 server-zstd:level=1,workers=2; do
        rm -rf "$scratch/base"
        peer_row "pg_basebackup $compress" "$used" "$scratch/base" "$postmaster" "$pg_bin/pg_basebackup" -U postgres -h 127.0.0.1 \
            -p "$pg_port" -D "$scratch/base" -Ft -X fetch --checkpoint=fast --compress="$compress"
    done
    mkdir "$scratch/back"
    peer_row 'pg_basebackup restore: zstd, tar' "$used" "$scratch/back" - \
        bash -c "zstd -dcq '$scratch/base/base.tar.zst' | tar xf - -C '$scratch/back' && find '$scratch/back' -type f -print0 | xargs -0 sync"
    rm -rf "$scratch/base" "$scratch/back"
    for workers in 1 2; do
        peer_row "pgBackRest backup, zstd 1, $workers processes" "$used" "$scratch/repo/backup" "$postmaster" \
            "${as_postgres[@]}" pgbackrest --config="$scratch/pgbackrest.conf" --stanza=b --type=full --process-max="$workers" backup
    done
    for workers in 1 2; do
        rm -rf "$scratch/back"
        mkdir -m 700 "$scratch/back"
        [ ${#as_postgres[@]} = 0 ] || chown postgres "$scratch/back"
        peer_row "pgBackRest restore, $workers processes" "$used" "$scratch/back" - \
            "${as_postgres[@]}" pgbackrest --config="$scratch/pgbackrest.conf" --stanza=b --pg1-path="$scratch/back" --process-max="$workers" restore
    done
    stop_postgres
    rm -rf "$scratch/pg" "$scratch/back" "$scratch/repo"
}

# --- MariaDB

stop_mariadb() {
    [ -n "$mariadb_pid" ] || return 0
    kill "$mariadb_pid" 2> /dev/null || true
    wait "$mariadb_pid" 2> /dev/null || true
    mariadb_pid=
}

maria() { mariadb --socket="$scratch/maria.sock" -u root -N -e "$1" b; }

start_mariadb() {
    mariadb-install-db --no-defaults --datadir="$scratch/maria" --auth-root-authentication-method=normal > /dev/null 2>&1
    mariadbd --no-defaults --user="$(id -un)" --datadir="$scratch/maria" --socket="$scratch/maria.sock" --skip-networking \
        --innodb-buffer-pool-size=1G --innodb-log-file-size=1G > "$scratch/maria.log" 2>&1 &
    mariadb_pid=$!
    for _ in $(seq 600); do
        ! mariadb --socket="$scratch/maria.sock" -u root -e 'CREATE DATABASE IF NOT EXISTS b' > /dev/null 2>&1 || return 0
        sleep 0.1
    done
    echo "MariaDB did not start:" >&2
    tail "$scratch/maria.log" >&2
    return 1
}

fill_mariadb() {
    maria "CREATE TABLE detail (order_id int NOT NULL, line int NOT NULL, tracking varchar(25), qty smallint, product int,
        price decimal(19, 4), guid binary(16) NOT NULL, modified datetime, PRIMARY KEY (order_id, line)) ENGINE = InnoDB"
    local from
    for ((from = 0; from < rows; from += 500000)); do
        maria "INSERT detail SELECT seq DIV 4, seq % 4, CONCAT('4911-', seq % 9973, '-98'), seq % 40, 707 + seq % 290, seq % 3578,
            UNHEX(MD5(seq)), '2011-05-31' + INTERVAL seq % 500000 MINUTE FROM seq_${from}_to_$((from + 499999)) WHERE seq < $rows"
    done
    maria "ALTER TABLE detail ADD UNIQUE INDEX g (guid), ADD INDEX p (product)"
}

measure_mariadb() {
    local used workers
    command -v mariadb-backup > /dev/null || { echo "mariadb-backup is not installed: its rows are left out"; return; }
    start_mariadb
    fill_mariadb
    used=$(megabytes "$scratch/maria/b" "$scratch/maria/ibdata1")
    for workers in 1 2; do
        peer_row "mariadb-backup, zstd 1, $workers threads" "$used" "$scratch/maria.zst" "$mariadb_pid" bash -o pipefail -c \
            "mariadb-backup --no-defaults --backup --stream=mbstream --parallel=$workers --user=root --socket='$scratch/maria.sock' \
                --datadir='$scratch/maria' --target-dir='$scratch' | zstd -1 -q -f -T$workers -o '$scratch/maria.zst' && sync '$scratch/maria.zst'"
    done
    stop_mariadb
    mkdir "$scratch/back"
    peer_row 'mariadb-backup restore and prepare' "$used" "$scratch/back" - bash -o pipefail -c \
        "zstd -dcq '$scratch/maria.zst' | mbstream -x -p 2 -C '$scratch/back' && \
         mariadb-backup --no-defaults --prepare --use-memory=1G --target-dir='$scratch/back' && find '$scratch/back' -type f -print0 | xargs -0 sync"
    rm -rf "$scratch/maria" "$scratch/maria.zst" "$scratch/back"
}

# --- Ratios

# What Daruma's rows are to those of the peers: rate, size for each byte of the database, processor time for each byte.
ratios() {
    printf '\n| Daruma | against | rate | size | processor time |\n|---|---|---|---|---|\n'
    awk -F '|' '
        { rate[$1] = $2 / $4; size[$1] = $3 / $2; work[$1] = $5 / $2; names[NR] = $1 }
        function kind(name) { return name ~ /restore/ ? "restore" : "backup" }
        END {
            for (a = 1; a <= NR; a++) if (names[a] ~ /^Daruma .*, (defaults|zstd 1)$/)
                for (b = 1; b <= NR; b++) if (names[b] !~ /^Daruma/ && kind(names[a]) == kind(names[b]))
                    printf "| %s | %s | %.2f | %.2f | %.2f |\n", names[a], names[b], rate[names[a]] / rate[names[b]],
                        size[names[a]] / size[names[b]], work[names[a]] / work[names[b]]
        }' "$table"
}

measure_daruma
measure_postgres
measure_mariadb
ratios | tee -a "$report"
cat "$load_report" >> "$report"
echo "written to $report"
