#!/usr/bin/env bash
# The image's tree as a container: container.sh BINARY
#
# The tree alone is the root file system of a process in namespaces of its own, without rights, as a container engine would start it.
# Then what people run against SQL Server's image is run in it, unchanged: health checks of compose files, and what Testcontainers'
# modules execute.
set -euo pipefail

here=$(cd "$(dirname "$0")" && pwd)
binary="$1"
work=$(mktemp -d)
tree="$work/tree"
password='yourStrong(!)Password'
holder=
cleanup() {
    # The first process of a PID namespace takes the others with it.
    [ -z "$holder" ] || kill -KILL "$holder" 2> /dev/null || true
    [ -z "$holder" ] || wait "$holder" 2> /dev/null || true
    rm -rf "$work"
}
trap cleanup EXIT
fail() { echo "container: $*" >&2; [ ! -f "$work/log" ] || tail -20 "$work/log" >&2; exit 1; }

"$here/../../packaging/container/tree.sh" "$binary" "$tree"
printf "CREATE DATABASE shop\nGO\nUSE shop\nCREATE TABLE items (id int)\nINSERT items VALUES (1), (2)\nGO\n" \
    > "$tree/docker-entrypoint-initdb.d/1.sql"

# What people mount beside their data; a setting that cannot be kept, or is unknown, ends the start and says what to do.
conf="$tree/var/opt/mssql/mssql.conf"
refused() { # LINES WORDS
    local said
    printf '%s\n' "$1" > "$conf"
    if said=$(timeout 60 env -i "$(command -v chroot)" --userspec=10001:10001 --groups= "$tree" /opt/mssql/bin/sqlservr 2>&1); then
        fail "mssql.conf is taken: $1"
    fi
    [[ $said == *"$2"* ]] || fail "mssql.conf is refused, but not with '$2': $said"
    [ ! -e "$tree/var/opt/mssql/data/master.mdf" ] || fail "a start that is refused made a database"
    echo "ok: mssql.conf, $2"
}
refused $'[network]\ntcpprot = 1433' 'daruma conf list'
refused $'[network]\ntlscert = /cert.pem' 'set both or neither'
refused $'[filelocation]\nmasterdatafile = /m.mdf' 'set filelocation.defaultdatadir'
printf '[EULA]\naccepteula = Y\n\n[traceflag]\ntraceflag0 = 1222\n\n[sqlagent]\nenabled = false\n' > "$conf"

# As the image's settings say. The process outside is the namespaces' first one.
started=$(date +%s%N)
unshare --mount --uts --ipc --net --pid --fork --kill-child bash -c '
    set -e
    ip link set lo up 2> /dev/null || "$0/bin/busybox" ip link set lo up
    mount -t proc proc "$0/proc"
    mount -t tmpfs tmpfs "$0/dev"
    for device in null zero random urandom; do touch "$0/dev/$device"; mount --bind "/dev/$device" "$0/dev/$device"; done
    hostname sql1
    exec env -i PATH=/opt/mssql-tools18/bin:/opt/mssql/bin:/usr/bin:/bin ACCEPT_EULA=Y MSSQL_SA_PASSWORD="$1" TZ=Europe/Berlin MSSQL_PID=Developer MSSQL_MEMORY_LIMIT_MB=512 \
        "$2" --userspec=10001:10001 --groups= "$0" /opt/mssql/bin/sqlservr' "$tree" "$password" "$(command -v chroot)" > "$work/log" 2>&1 &
holder=$!

# What `docker exec` does: the namespaces and the root of the server, its user and its variables.
within() { # COMMAND...
    local server
    server=$(pgrep -P "$holder" | head -1)
    [ -n "$server" ] || return 125
    nsenter --target "$server" --mount --uts --ipc --net --pid --root --wd=/ -- env -i \
        PATH=/opt/mssql-tools18/bin:/opt/mssql/bin:/usr/bin:/bin MSSQL_SA_PASSWORD="$password" SA_PASSWORD="$password" \
        SQLCMDUSER="${SQLCMDUSER:-}" SQLCMDPASSWORD="${SQLCMDPASSWORD:-}" SQLCMDDBNAME="${SQLCMDDBNAME:-}" "$@"
}

for _ in $(seq 600); do
    kill -0 "$holder" 2> /dev/null || fail "the server ended"
    grep -q '^ready ' "$work/log" && break
    sleep 0.05
done
grep -q '^ready ' "$work/log" || fail "the server is not ready"
version=$(within /opt/mssql-tools18/bin/sqlcmd -C -S localhost -U sa -P "$password" -h -1 -W -Q 'SET NOCOUNT ON; select @@version') \
    || fail "no answer: $version"
echo "from start to 'select @@version', with a new data folder and a script: $((($(date +%s%N) - started) / 1000000)) ms"
[[ $version == *Daruma* || $version == *SQL*Server* ]] || fail "@@version is '$version'"

healthy() { # NAME COMMAND...
    local name="$1" said
    shift
    said=$(within "$@" 2>&1) || fail "$name ended with $?: $said"
    echo "ok: $name"
}
ill() { # NAME COMMAND...
    local name="$1" said
    shift
    if said=$(within "$@" 2>&1); then fail "$name found a server that is not there: $said"; fi
    echo "ok: $name fails as it must"
}

# Compose files.
healthy 'compose, CMD-SHELL, version 18' /bin/sh -c '/opt/mssql-tools18/bin/sqlcmd -C -S localhost -U sa -P "$SA_PASSWORD" -Q "SELECT 1" || exit 1'
healthy 'compose, CMD-SHELL, version 17' /bin/sh -c '/opt/mssql-tools/bin/sqlcmd -S localhost -U sa -P "$MSSQL_SA_PASSWORD" -Q "SELECT 1" -b -o /dev/null'
healthy 'compose, CMD' /opt/mssql-tools/bin/sqlcmd -S localhost -U sa -P "$password" -Q 'SELECT 1'
healthy 'compose, -No' /opt/mssql-tools18/bin/sqlcmd -S localhost -U sa -P "$password" -No -Q 'SELECT 1'
healthy 'compose, bash' bash -c '/opt/mssql-tools18/bin/sqlcmd -S . -C -U sa -P "$SA_PASSWORD" -Q "SELECT 1" | grep -q 1'
ill 'a wrong password' /opt/mssql-tools18/bin/sqlcmd -C -S localhost -U sa -P wrong -Q 'SELECT 1'
ill 'a wrong port' /opt/mssql-tools18/bin/sqlcmd -C -S localhost,1434 -U sa -P "$password" -Q 'SELECT 1'
ill 'a certificate that nobody vouches for' /opt/mssql-tools18/bin/sqlcmd -S localhost -U sa -P "$password" -Q 'SELECT 1'

# Testcontainers for .NET: its wait with variables, how it finds sqlcmd, and how it runs a script.
SQLCMDUSER=sa SQLCMDPASSWORD="$password" SQLCMDDBNAME=master healthy 'Testcontainers .NET, wait' /opt/mssql-tools/bin/sqlcmd -Q 'SELECT 1;'
found=$(within /bin/sh -c 'find /opt/mssql-tools*/bin/sqlcmd -type f -print -quit')
[ "$found" = /opt/mssql-tools/bin/sqlcmd ] || fail "find says '$found'"
printf 'SELECT COUNT(*) FROM items\nGO\n' > "$tree/tmp/script.sql"
healthy 'Testcontainers .NET, script' "$found" -C -b -r 1 -U sa -P "$password" -d shop -i /tmp/script.sql
# Testcontainers for Go: a line of the log, a script under the bare name.
grep -q 'Recovery is complete\.' "$work/log" || fail "the log does not say that recovery is complete"
grep -q 'SQL Server is now ready for client connections' "$work/log" || fail "the log does not say that the server is ready"
healthy 'Testcontainers Go, script' sqlcmd -S localhost -U sa -P "$password" -No -d shop -i /tmp/script.sql

rows=$(within sqlcmd -C -U sa -P "$password" -d shop -h -1 -W -Q 'SET NOCOUNT ON; SELECT COUNT(*) FROM items')
[ "$rows" = 2 ] || fail "the script for the first start left '$rows' rows"
flags=$(within sqlcmd -C -U sa -P "$password" -h -1 -W -Q 'SET NOCOUNT ON; DBCC TRACESTATUS(-1)')
[[ $flags == *1222* ]] || fail "mssql.conf is not read: $flags"
[ "$(within daruma conf get traceflag)" = 'traceflag.traceflag0 = 1222' ] || fail "conf does not see mssql.conf"
within daruma conf set memory.memorylimitmb 700 > "$work/said" 2>&1 || fail "conf set: $(cat "$work/said")"
grep -q 'memorylimitmb = 700' "$conf" || fail "conf set wrote elsewhere"
offset=$(within sqlcmd -C -U sa -P "$password" -h -1 -W -Q "SET NOCOUNT ON; SELECT IIF(DATEDIFF(minute, GETUTCDATE(), GETDATE()) IN (60, 120), 'Berlin', CONCAT('', GETDATE()))")
[ "$offset" = Berlin ] || fail "the time zone is not kept: $offset"
owner=$(stat -c %u "$tree/var/opt/mssql/data/master.mdf")
[ "$owner" = 10001 ] || fail "the server ran as user $owner"

# As `docker stop`.
server=$(pgrep -P "$holder" | head -1)
kill -TERM "$server"
wait "$holder" || fail "the server ended with $?"
holder=
# What a registry sends.
bytes=$(tar --create --directory "$tree" --exclude=./var . | gzip -1 | wc -c)
[ "$bytes" -lt 40000000 ] || fail "the image would have $bytes bytes, compressed; less than 40 MB are promised"
echo "container: passed; the tree has $(du -sm --exclude=var "$tree" | cut -f1) MB, $(awk "BEGIN {printf \"%.1f\", $bytes / 1e6}") MB compressed"
