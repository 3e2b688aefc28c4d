#!/usr/bin/env bash
# Builds Daruma, starts a server with the sample database and asks it a question over TDS.
#
#   run.sh [--once] [--data DIR] [--port PORT]
#
# --once stops the server after the answer; otherwise it keeps serving until Ctrl-C.
set -euo pipefail
cd "$(dirname "$0")"

data=./daruma-data port=1433 once=
while [ $# -gt 0 ]; do
    case "$1" in
        --once) once=1 ;;
        --data) data="$2"; shift ;;
        --port) port="$2"; shift ;;
        *) sed -n '2,6p' "$0"; exit 2 ;;
    esac
    shift
done

if ! command -v cc > /dev/null; then
    apt-get update -qq && apt-get install -y -qq gcc libc6-dev
fi
cargo build --release --locked -p daruma
daruma="${CARGO_TARGET_DIR:-target}/release/daruma"

mkdir -p "$data"
if [ -z "${MSSQL_SA_PASSWORD:-}" ]; then
    [ -f "$data/sa-password" ] || (umask 077; printf 'Da%s!9\n' "$(od -An -N12 -tx1 /dev/urandom | tr -d ' \n')" > "$data/sa-password")
    MSSQL_SA_PASSWORD="$(cat "$data/sa-password")"
    echo "password of sa: in $data/sa-password"
fi
export MSSQL_SA_PASSWORD

"$daruma" serve --data "$data" --listen "127.0.0.1:$port" 2> "$data/serve.log" &
server=$!
trap 'kill "$server" 2> /dev/null || true; wait "$server" 2> /dev/null || true' EXIT
for _ in $(seq 100); do
    grep -q '^ready' "$data/serve.log" && break
    kill -0 "$server" 2> /dev/null || { cat "$data/serve.log" >&2; exit 1; }
    sleep 0.1
done
grep '^ready' "$data/serve.log"

export SQLCMDSERVER="127.0.0.1,$port" SQLCMDUSER=sa SQLCMDPASSWORD="$MSSQL_SA_PASSWORD"
present=$("$daruma" sql -C -h -1 -W -Q "set nocount on; select count(*) from sys.databases where name = 'AdventureWorks2019'")
if [ "$(echo "$present" | tr -dc 0-9)" = 0 ]; then
    "$daruma" sample adventureworks -C
fi
"$daruma" sql -C -d AdventureWorks2019 -Q "
select top 5 p.Name, sum(d.OrderQty) as Sold, sum(d.LineTotal) as Revenue
from Sales.SalesOrderDetail d join Production.Product p on p.ProductID = d.ProductID
group by p.Name order by Sold desc"

if [ -n "$once" ]; then
    exit 0
fi
echo "serving on 127.0.0.1:$port; connect with: SQLCMDPASSWORD=... $daruma sql -C -S 127.0.0.1,$port -U sa"
echo "Ctrl-C stops."
wait "$server"
