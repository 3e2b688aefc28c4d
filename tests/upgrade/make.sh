#!/usr/bin/env bash
# Keeps a data folder of this release for the tests of later ones: make.sh BINARY
#
# Fills it with fill.sql, kills the server while a transaction is open, and packs folder and backups into tests/upgrade/VERSION with what
# check.sql says of it. Run once for each release, and for each format before it changes.
set -euo pipefail

here=$(cd "$(dirname "$0")" && pwd)
binary="$1"
version=$("$binary" --version | cut -d' ' -f2)
work=$(mktemp -d)
server= filler=
trap 'kill -KILL $server $filler 2> /dev/null || true; rm -rf "$work"' EXIT
export MSSQL_SA_PASSWORD='Kept-through-1' SQLCMDPASSWORD='Kept-through-1'
mkdir "$work/kept"

serve() { # FOLDER
    "$binary" serve --data "$1" --listen 127.0.0.1:0 --memory 128M 2> "$work/log" &
    server=$!
    for _ in $(seq 200); do
        address=$(sed -n 's/^ready \([^ ]*\):\([0-9]*\) .*/\1,\2/p' "$work/log")
        [ -z "$address" ] || return 0
        sleep 0.05
    done
    cat "$work/log" >&2
    exit 1
}
serve "$work/kept/data"
"$binary" sql -C -b -S "$address" -v FOLDER="$work/kept" -i "$here/fill.sql" > "$work/filled" 2>&1 &
filler=$!
for _ in $(seq 600); do
    ! grep -q filled "$work/filled" || break
    kill -0 "$filler" 2> /dev/null || { cat "$work/filled" >&2; exit 1; }
    sleep 0.1
done
# The log of a killed server is part of what is kept; the open changes must be in it.
"$binary" sql -C -b -S "$address" -Q 'CHECKPOINT' > /dev/null
"$binary" sql -C -b -S "$address" -d upgraded -Q "INSERT heap VALUES (1002, 'last')" > /dev/null
kill -KILL "$server"
wait "$server" 2> /dev/null || true
kill "$filler" 2> /dev/null || true
rm -rf "$work/kept/data"/tempdb* "$work/kept/data"/log

cp -r "$work/kept" "$work/copy"
serve "$work/copy/data"
"$binary" sql -C -b -W -S "$address" -d upgraded -i "$here/check.sql" > "$work/expected.txt" \
    || { cat "$work/expected.txt" "$work/log" >&2; exit 1; }
kill "$server"
wait "$server"
server=
mkdir -p "$here/$version"
cp "$work/expected.txt" "$here/$version/expected.txt"
tar --create --sort=name --owner=0 --group=0 --numeric-owner --mtime=@0 --directory "$work/kept" . | gzip -n -9 > "$here/$version/kept.tar.gz"
ls -l "$here/$version"
