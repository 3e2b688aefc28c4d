#!/usr/bin/env bash
# The program alone, as the archive has it: program.sh BINARY
#
# A root file system with the program, what the linker gave it, and an empty folder for data; no time zones, no certificates, no
# /etc, no /tmp, no shell. It serves as a user without rights, answers its own shell, is killed, and stands up again.
set -euo pipefail

binary="$1"
work=$(mktemp -d)
root="$work/root"
server=
cleanup() {
    [ -z "$server" ] || kill -KILL "$server" 2> /dev/null || true
    [ -z "$server" ] || wait "$server" 2> /dev/null || true
    rm -rf "$work"
}
trap cleanup EXIT
fail() { echo "program: $*" >&2; [ ! -f "$work/log" ] || tail -20 "$work/log" >&2; exit 1; }
password='Nothing-else-1'
user=10001

started=$(date +%s%N)
mkdir -p "$root/data"
install -m 0755 "$binary" "$root/daruma"
if ldd "$binary" 2> /dev/null | grep -q '/ld-'; then
    for library in $(ldd "$binary" | grep -o '/[^ ]*'); do install -D "$library" "$root$library"; done
fi
chown "$user:$user" "$root/data"
within=(env -i MSSQL_SA_PASSWORD="$password" SQLCMDPASSWORD="$password" "$(command -v chroot)" --userspec="$user:$user" --groups= "$root")
# A program for Arm64 on another machine: the emulator lies beside it.
if [ "$(od -An -tx2 -j18 -N2 "$binary" | tr -d ' ')" = 00b7 ] && [ "$(uname -m)" != aarch64 ]; then
    install -m 0755 "$(command -v qemu-aarch64-static)" "$root/emulator"
    within+=(/emulator)
fi

serve() {
    : > "$work/log"
    "${within[@]}" /daruma serve --data /data --listen 127.0.0.1:0 --memory 128M 2> "$work/log" &
    server=$!
    address=
    for _ in $(seq 1200); do
        address=$(sed -n 's/^ready \([^ ]*\):\([0-9]*\) .*/\1,\2/p' "$work/log")
        [ -z "$address" ] || return 0
        kill -0 "$server" 2> /dev/null || fail "the server ended"
        sleep 0.05
    done
    fail "the server is not ready"
}
ask() { "${within[@]}" /daruma sql -C -b -h -1 -W -S "$address" -U sa -Q "SET NOCOUNT ON; $1"; }

serve
version=$(ask 'select @@version') || fail "no answer: $version"
[[ $version == *Daruma* || $version == *SQL*Server* ]] || fail "@@version is '$version'"
echo "from the unpacked program to 'select @@version': $((($(date +%s%N) - started) / 1000000)) ms"
ask "create database shop; exec ('create table shop.dbo.t (a int); insert shop.dbo.t values (1), (2)')" || fail "no database"
kill -KILL "$server"
wait "$server" 2> /dev/null || true
server=
# Nothing of program and data is in memory when it stands up again.
sync
find "$root" -type f -exec dd if={} iflag=nocache count=0 status=none \;
started=$(date +%s%N)
serve
[ "$(ask 'select count(*) from shop.dbo.t')" = 2 ] || fail "rows are lost by a kill"
echo "after a kill, cold, to the first answer: $((($(date +%s%N) - started) / 1000000)) ms; resident $(sed -n 's/^VmRSS: *//p' "/proc/$server/status"), of it no file's $(sed -n 's/^RssAnon: *//p' "/proc/$server/status")"
kill -TERM "$server"
wait "$server" || fail "the server ended with $?"
server=

# Beside SQL Server itself: its file is not ours to change unless it is named.
mkdir -p "$root"/{opt/mssql/bin,var/opt/mssql,etc/daruma,proc}
printf 'another program' > "$root/opt/mssql/bin/sqlservr"
theirs="$root/var/opt/mssql/mssql.conf"
printf '[network]\ntcpport = 1433\n' > "$theirs"
chown -R "$user:$user" "$root/var/opt/mssql" "$root/etc"
conf() { unshare --mount bash -c 'mount -t proc proc "$0/proc" && exec "$@"' "$root" "${within[@]}" /daruma conf "$@"; }
conf set network.tcpport 1533 > "$work/log" 2>&1 || fail "conf set"
[ "$(conf get network.tcpport)" = 'network.tcpport = 1533' ] || fail "conf get sees another file than conf set"
grep -q 'tcpport = 1433' "$theirs" || fail "conf set changed the file of SQL Server: $(cat "$work/log")"
conf --config /var/opt/mssql/mssql.conf set network.tcpport 1544 > "$work/log" 2>&1 || fail "conf set of a named file"
grep -q 'tcpport = 1544' "$theirs" || fail "conf set did not change the file that was named"
echo "program: passed; it has $(du -m "$binary" | cut -f1) MB"
