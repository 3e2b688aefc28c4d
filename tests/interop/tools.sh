#!/usr/bin/env bash
# Interop scenarios over FreeTDS's command-line tools: tsql (the protocol library itself), bsqldb (DB-Library) and freebcp (bulk copy).
# Prints PASS, FAIL or SKIP with the scenario's name; the exit code says whether all passed.
set -u

host="${DARUMA_HOST:-127.0.0.1}"
port="${DARUMA_PORT:-1433}"
user="${DARUMA_USER:-sa}"
scratch=$(mktemp -d)
trap 'rm -rf "$scratch"' EXIT
cat > "$scratch/freetds.conf" <<CONF
[global]
    client charset = UTF-8
    text size = 64512000
[daruma70]
    host = $host
    port = $port
    tds version = 7.1
    encryption = off
[daruma74]
    host = $host
    port = $port
    tds version = 7.4
    encryption = request
[darumatls]
    host = $host
    port = $port
    tds version = 7.4
    encryption = require
CONF
export FREETDSCONF="$scratch/freetds.conf"
passed=0
failed=0

verdict() { # NAME STATUS DETAIL
    if [ "$2" -eq 0 ]; then
        passed=$((passed + 1))
        echo "PASS $1"
    else
        failed=$((failed + 1))
        echo "FAIL $1: $(echo "$3" | tr '\n' '|' | cut -c1-300)"
    fi
}

# wants NAME SERVER PATTERN SQL: tsql's output must hold the pattern (an extended regular expression).
wants() {
    local output
    output=$(printf '%s\nGO\nEXIT\n' "$4" | timeout 60 tsql -S "$2" -U "$user" -P "$DARUMA_PASSWORD" -o q 2>&1)
    echo "$output" | grep -qE -- "$3"
    verdict "$1" $? "$output"
}

wants connect_tds71_plain daruma70 '^42$' 'SELECT 6 * 7'
wants connect_tds74_login_tls daruma74 '^42$' 'SELECT 6 * 7'
wants connect_tds74_tls darumatls '^42$' 'SELECT 6 * 7'
wants text daruma74 'Grüße, 日本語' "SELECT N'Grüße, 日本語'"
wants error_208 daruma74 'Msg 208 \(severity 16, state 1\)' 'SELECT * FROM dbo.no_such_table'
wants error_8134 daruma74 'Msg 8134' 'SELECT 1 / 0'
wants print daruma74 'hello there' "PRINT 'hello there'"

output=$(printf 'SELECT 1\nGO\nEXIT\n' | timeout 60 tsql -S daruma74 -U "$user" -P 'not the password' 2>&1)
echo "$output" | grep -q '18456'
verdict login_failed $? "$output"

bsql() {
    timeout 60 bsqldb -S daruma74 -U "$user" -P "$DARUMA_PASSWORD" -q 2>&1
}
output=$(bsql <<'SQL'
IF DB_ID(N'interop_tools') IS NOT NULL DROP DATABASE interop_tools
CREATE DATABASE interop_tools
GO
USE interop_tools
CREATE TABLE dbo.loaded (id int NOT NULL PRIMARY KEY, name varchar(40) NULL, price decimal(10,2) NULL)
GO
SELECT COUNT(*) FROM interop_tools.sys.tables WHERE name = 'loaded'
GO
SQL
)
echo "$output" | grep -qE '^ *1 *$'
verdict bsqldb $? "$output"

for number in $(seq 1 1000); do
    printf '%s\tname %s\t%s.%02d\n' "$number" "$number" "$((number / 100))" "$((number % 100))"
done > "$scratch/rows.tsv"
output=$(timeout 60 freebcp interop_tools.dbo.loaded in "$scratch/rows.tsv" -c -t '\t' -S daruma74 -U "$user" -P "$DARUMA_PASSWORD" 2>&1)
echo "$output" | grep -q '1000 rows copied'
verdict freebcp_in $? "$output"
wants freebcp_sum daruma74 '^5005\.00$' 'SELECT SUM(price) FROM interop_tools.dbo.loaded'
output=$(timeout 60 freebcp interop_tools.dbo.loaded out "$scratch/out.tsv" -c -t '\t' -S daruma74 -U "$user" -P "$DARUMA_PASSWORD" 2>&1)
cmp -s "$scratch/rows.tsv" "$scratch/out.tsv"
verdict freebcp_out $? "$output $(head -2 "$scratch/out.tsv" 2> /dev/null)"

echo "$passed passed, $failed failed"
[ "$failed" -eq 0 ]
