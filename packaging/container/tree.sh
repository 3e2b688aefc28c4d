#!/usr/bin/env bash
# Builds the file tree of the container image: tree.sh BINARY FOLDER
#
# What is in it: the program, under the names by which SQL Server's container calls it and its sqlcmd; a shell and find, for health
# checks that are written in shell (busybox); time zones; certificates; the folders that people mount. Nothing else.
#
# The names of sqlcmd are hard links, not symbolic ones: Testcontainers looks for a regular file. A binary that is not static (one of
# `cargo build --release`, in tests) gets the libraries it needs; what `cargo xtask dist` makes needs none.
set -euo pipefail

[ $# -eq 2 ] || { sed -n '2s/^# //p' "$0" >&2; exit 2; }
binary="$1" tree="$2" root=$(cd "$(dirname "$0")/../.." && pwd)

# A static program that may lie anywhere in memory has no loader either, though ldd is content with it.
is_dynamic() { ldd "$1" 2> /dev/null | grep -q '/ld-'; }

missing=()
[ -x "$binary" ] || { echo "no program at $binary: run 'cargo xtask dist'" >&2; exit 1; }
[ -x /bin/busybox ] || missing+=(busybox-static)
[ -f /usr/share/zoneinfo/UTC ] || missing+=(tzdata)
[ -f /etc/ssl/certs/ca-certificates.crt ] || missing+=(ca-certificates)
if [ ${#missing[@]} -gt 0 ]; then
    echo "the tree needs files of packages that are missing: apt-get install ${missing[*]}" >&2
    exit 1
fi
if is_dynamic /bin/busybox; then
    echo "/bin/busybox is not static: apt-get install busybox-static" >&2
    exit 1
fi

# Users of the product's image: mounted folders belong to the same numbers.
user=10001

mkdir -p "$tree"/{bin,dev,etc/ssl/certs,proc,sys,tmp,usr/bin,usr/share/zoneinfo,docker-entrypoint-initdb.d} \
    "$tree"/opt/{mssql,mssql-tools,mssql-tools18}/bin "$tree"/usr/share/doc/busybox "$tree"/var/opt/mssql/data
install -m 0755 "$binary" "$tree/usr/bin/daruma"
for name in opt/mssql/bin/sqlservr opt/mssql-tools/bin/sqlcmd opt/mssql-tools18/bin/sqlcmd; do
    ln -f "$tree/usr/bin/daruma" "$tree/$name"
done
if is_dynamic "$binary"; then
    for library in $(ldd "$binary" | grep -o '/[^ ]*'); do
        install -D "$library" "$tree$library"
    done
fi

install -m 0755 /bin/busybox "$tree/bin/busybox"
for applet in cat chmod chown cp date echo env false find grep head id ls mkdir mv nc printenv printf ps rm sed sh sleep tail test timeout true wc; do
    ln -sf busybox "$tree/bin/$applet"
done
# Some health checks name bash and use nothing of its own.
printf '#!/bin/sh\nexec /bin/sh "$@"\n' > "$tree/bin/bash"
chmod 0755 "$tree/bin/bash"
cp /usr/share/doc/busybox-static/copyright "$tree/usr/share/doc/busybox/copyright"
dpkg-query --show --showformat='Source: ${source:Package} ${source:Version}, from https://snapshot.debian.org\n' busybox-static \
    > "$tree/usr/share/doc/busybox/source"
mkdir -p "$tree/usr/share/common-licenses" "$tree/usr/share/doc/daruma"
cp -L /usr/share/common-licenses/GPL-2 "$tree/usr/share/common-licenses/GPL-2"
cp "$root/NOTICE" "$root"/LICENSE-* "$tree/usr/share/doc/daruma/"
beside=$(dirname "$binary")
[ -f "$beside/LICENCES.txt" ] || [ -n "${DARUMA_UNRELEASED:-}" ] \
    || { echo "$beside/LICENCES.txt is missing: take the program of 'cargo xtask dist'" >&2; exit 1; }
[ ! -f "$beside/LICENCES.txt" ] || cp "$beside/LICENCES.txt" "$tree/usr/share/doc/daruma/"

# The zones under their names; the copies with leap seconds and in POSIX' way are left out.
(cd /usr/share/zoneinfo && tar --create --exclude=./right --exclude=./posix --exclude='*.tab' --exclude='*.zi' .) \
    | tar --extract --directory "$tree/usr/share/zoneinfo"
cp -L /etc/ssl/certs/ca-certificates.crt "$tree/etc/ssl/certs/ca-certificates.crt"

printf 'root:x:0:0:root:/root:/bin/sh\nmssql:x:%s:%s:daruma:/var/opt/mssql:/bin/sh\n' "$user" "$user" > "$tree/etc/passwd"
printf 'root:x:0:\nmssql:x:%s:\n' "$user" > "$tree/etc/group"
printf '127.0.0.1 localhost\n::1 localhost\n' > "$tree/etc/hosts"
chmod 1777 "$tree/tmp"
chmod 0770 "$tree/var/opt/mssql" "$tree/var/opt/mssql/data"
chown -R "$user:$user" "$tree/var/opt/mssql"
