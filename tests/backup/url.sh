#!/usr/bin/env bash
# Backups to object storage against real emulators: url.sh [--no-install] [--server BINARY]
#
# Starts a private server, moto (S3) and Azurite (Azure blobs) on loopback ports, backs a database up to several URLs of
# each, plain and encrypted, restores it from them, and checks that both hold the same rows; then once more through a
# proxy that cuts connections, so that parts have to be sent and read again. At last two servers are a cluster with a
# witness in each, one of them is killed, and the other leads on. Installs the emulators, pinned, into
# target/emulators. Ends with "N passed, N failed".
set -euo pipefail

here=$(cd "$(dirname "$0")" && pwd)
root=$(cd "$here/../.." && pwd)
source "$root/tests/interop/server.sh"

install=yes
while [ $# -gt 0 ]; do
    case "$1" in
        --no-install) install=no ;;
        --server) DARUMA_BIN="$2"; shift ;;
        *) echo "usage: url.sh [--no-install] [--server BINARY]" >&2; exit 2 ;;
    esac
    shift
done

binary=$(daruma_binary "$root")
built="${EMULATORS:-$root/target/emulators}"
scratch=$(mktemp -d)
emulators=()
declare -A node_pid=() node_port=() node_address=()
SERVER_PID=
cleanup() {
    stop_server
    for pid in "${node_pid[@]}"; do kill -KILL "$pid" 2> /dev/null || true; done
    for pid in "${emulators[@]}"; do kill "$pid" 2> /dev/null || true; done
    rm -rf "$scratch"
}
trap cleanup EXIT
trap 'exit 130' INT TERM

if [ "$install" = yes ]; then
    mkdir -p "$built/npm"
    [ -d "$built/venv" ] || python3 -m venv "$built/venv"
    "$built/venv/bin/pip" -q install 'moto[server,s3]==5.2.5' boto3 azure-storage-blob
    (cd "$built/npm" && npm install --silent --no-audit --no-fund azurite@3.35.0 > /dev/null)
fi

s3_port=$(free_port)
azure_port=$(free_port)
"$built/venv/bin/moto_server" -H 127.0.0.1 -p "$s3_port" > "$scratch/moto.log" 2>&1 &
emulators+=($!)
"$built/npm/node_modules/.bin/azurite-blob" --inMemoryPersistence --silent --disableTelemetry --skipApiVersionCheck \
    --blobHost 127.0.0.1 --blobPort "$azure_port" > "$scratch/azurite.log" 2>&1 &
emulators+=($!)

# Cuts every third connection after 200,000 bytes from the client, or at its first answer.
proxy_port=$(free_port)
"$built/venv/bin/python" - "$proxy_port" "$s3_port" << 'PYTHON' &
import socket, sys, threading
proxy_port, s3_port = map(int, sys.argv[1:])
listener = socket.create_server(("127.0.0.1", proxy_port))

def copy(source, target, limit):
    sent = 0
    try:
        while (data := source.recv(65536)):
            target.sendall(data)
            sent += len(data)
            if limit is not None and sent > limit:
                break
    except OSError:
        pass
    for end in (source, target):
        try:
            end.shutdown(socket.SHUT_RDWR)
        except OSError:
            pass

number = 0
while True:
    client, _ = listener.accept()
    number += 1
    server = socket.create_connection(("127.0.0.1", s3_port))
    cut = number % 3 == 0
    threading.Thread(target=copy, args=(client, server, 200_000 if cut else None), daemon=True).start()
    threading.Thread(target=copy, args=(server, client, 0 if cut and number % 2 == 0 else None), daemon=True).start()
PYTHON
emulators+=($!)

# Account and key are the ones that every copy of the emulator has; they open nothing else.
azure_key='Eby8vdM02xNOcqFlqUwJPLlmEtlCDXJ1OUzFT50uSRZ6IFsuFq2UVErCz4I6tq/K1SZFPTOtr/KBHBeksoGMGw=='
"$built/venv/bin/python" - "$s3_port" "$azure_port" "$azure_key" << 'PYTHON'
import sys, time
import boto3
from azure.storage.blob import BlobServiceClient

s3_port, azure_port, azure_key = sys.argv[1:]

def patiently(work):
    for attempt in range(300):
        try:
            return work()
        except Exception as error:
            last = error
            time.sleep(0.1)
    raise last

s3 = boto3.client("s3", endpoint_url=f"http://127.0.0.1:{s3_port}", aws_access_key_id="key",
                  aws_secret_access_key="secret", region_name="us-east-1")
patiently(lambda: s3.create_bucket(Bucket="backups"))
azure = BlobServiceClient(f"http://127.0.0.1:{azure_port}/devstoreaccount1", credential={
    "account_name": "devstoreaccount1", "account_key": azure_key})
patiently(lambda: azure.create_container("backups"))
PYTHON

export DARUMA_PASSWORD='Backup-Test-1!'
port=$(free_port)
start_server "$binary" "$scratch/data" "$port" "$scratch/server.log"
sql() { "$binary" sql -C -S "127.0.0.1,$port" -U sa -P "$DARUMA_PASSWORD" -W -h -1 -Q "$1"; }

passed=0
failed=0
check() { # NAME FOUND PATTERN
    if grep -q -- "$3" <<< "$2"; then
        passed=$((passed + 1))
    else
        failed=$((failed + 1))
        printf 'FAIL %s\n%s\n' "$1" "$2"
    fi
}

sql "CREATE DATABASE d" > /dev/null
sql "SET NOCOUNT ON
CREATE TABLE d.dbo.t (id int IDENTITY PRIMARY KEY, a nvarchar(200), b varbinary(300))
INSERT d.dbo.t (a, b) VALUES (N'first', 0x00)
DECLARE @n int = 0
WHILE @n < 17 BEGIN INSERT d.dbo.t (a, b) SELECT a + N'.', HASHBYTES('SHA2_256', CAST(id AS varchar(12))) FROM d.dbo.t SET @n += 1 END" > /dev/null
sum="SELECT COUNT(*), CHECKSUM_AGG(CHECKSUM(a, b)) FROM"
before=$(sql "SET NOCOUNT ON $sum d.dbo.t")

s3="s3://127.0.0.1:$s3_port/backups"
flaky="s3://127.0.0.1:$proxy_port/backups"
azure="http://127.0.0.1:$azure_port/devstoreaccount1/backups"
check 'no credential' "$(sql "BACKUP DATABASE d TO URL = '$s3/x.bak'" 2>&1 || true)" 'Msg 3201'
sql "CREATE CREDENTIAL [$s3] WITH IDENTITY = 'S3 Access Key', SECRET = 'key:secret'
CREATE CREDENTIAL [$flaky] WITH IDENTITY = 'S3 Access Key', SECRET = 'key:secret'
CREATE CREDENTIAL [$azure] WITH IDENTITY = 'devstoreaccount1', SECRET = '$azure_key'" > /dev/null
check 'credentials are listed' "$(sql "SELECT name, credential_identity FROM sys.credentials")" "$azure devstoreaccount1"

for kind in s3 azure; do
    base=${!kind}
    stripes="URL = '$base/d1.bak', URL = '$base/d2.bak', URL = '$base/d3.bak'"
    check "$kind backup" "$(sql "BACKUP DATABASE d TO $stripes WITH FORMAT, STATS = 25" 2>&1)" 'BACKUP DATABASE successfully processed'
    check "$kind again" "$(sql "BACKUP DATABASE d TO $stripes WITH FORMAT, NO_COMPRESSION" 2>&1)" 'BACKUP DATABASE successfully processed'
    check "$kind append" "$(sql "BACKUP DATABASE d TO $stripes" 2>&1 || true)" 'cannot be appended to'
    check "$kind verify" "$(sql "RESTORE VERIFYONLY FROM $stripes" 2>&1)" 'is valid'
    check "$kind header" "$(sql "RESTORE HEADERONLY FROM URL = '$base/d2.bak'" 2>&1)" 'Database'
    check "$kind restore" "$(sql "RESTORE DATABASE r FROM $stripes WITH REPLACE, MOVE 'd' TO 'r.mdf', MOVE 'd_log' TO 'r.ldf'" 2>&1)" 'RESTORE DATABASE successfully processed'
    check "$kind rows" "$(sql "SET NOCOUNT ON $sum r.dbo.t")" "^$before\$"
    check "$kind checked" "$(sql "DBCC CHECKDB (r)" 2>&1)" '0 allocation errors and 0 consistency errors'
    key="ENCRYPTION (ALGORITHM = AES_256, PASSWORD = N'Ein langer Satz 1')"
    check "$kind encrypted" "$(sql "BACKUP DATABASE d TO $stripes WITH FORMAT, $key" 2>&1)" 'BACKUP DATABASE successfully processed'
    check "$kind no key" "$(sql "RESTORE VERIFYONLY FROM $stripes" 2>&1 || true)" 'Msg 3279'
    check "$kind key" "$(sql "RESTORE HEADERONLY FROM URL = '$base/d2.bak'" 2>&1)" 'AES_256'
    check "$kind decrypted" "$(sql "RESTORE DATABASE r FROM $stripes WITH REPLACE, $key, MOVE 'd' TO 'r.mdf', MOVE 'd_log' TO 'r.ldf'" 2>&1)" 'RESTORE DATABASE successfully processed'
    check "$kind decrypted rows" "$(sql "SET NOCOUNT ON $sum r.dbo.t")" "^$before\$"
    check "$kind absent" "$(sql "RESTORE VERIFYONLY FROM URL = '$base/none.bak'" 2>&1 || true)" 'Msg 3201'
done
stripes="URL = '$flaky/f1.bak', URL = '$flaky/f2.bak'"
check 'cut connections' "$(sql "BACKUP DATABASE d TO $stripes WITH FORMAT, NO_COMPRESSION" 2>&1)" 'BACKUP DATABASE successfully processed'
check 'cut connections, restore' "$(sql "RESTORE DATABASE r FROM $stripes WITH REPLACE, MOVE 'd' TO 'r.mdf', MOVE 'd_log' TO 'r.ldf'" 2>&1)" 'RESTORE DATABASE successfully processed'
check 'cut connections, rows' "$(sql "SET NOCOUNT ON $sum r.dbo.t")" "^$before\$"
check 'history' "$(sql "SELECT COUNT(*) FROM msdb.dbo.backupmediafamily WHERE device_type = 9")" '^20$'

stop_server

# --- witnesses

start_node() { # NAME
    local log="$scratch/$1.log" waited=0
    : > "$log"
    MSSQL_SA_PASSWORD="$DARUMA_PASSWORD" "$binary" serve --data "$scratch/$1" --listen "127.0.0.1:${node_port[$1]}" \
        --server-name "$1" --memory 128M 2>> "$log" >> "$log.out" &
    node_pid[$1]=$!
    until grep -q '^ready' "$log" || [ "$waited" -gt 1200 ]; do waited=$((waited + 1)); sleep 0.05; done
}
kill_node() { # NAME
    kill -KILL "${node_pid[$1]}"
    wait "${node_pid[$1]}" 2> /dev/null || true
    unset "node_pid[$1]"
}
of_node() { # NAME QUERY
    "$binary" sql -C -S "127.0.0.1,${node_port[$1]}" -U sa -P "$DARUMA_PASSWORD" -W -h -1 -s '|' -Q "SET NOCOUNT ON; $2" 2>&1 || true
}
until_node() { # NAME QUERY PATTERN: what it said last
    local found= waited=0
    until found=$(of_node "$1" "$2") && grep -q -- "$3" <<< "$found" || [ "$waited" -gt 150 ]; do waited=$((waited + 1)); sleep 0.2; done
    echo "$found"
}
cluster() { # NAME ARGUMENTS
    local name="$1"
    shift
    "$binary" cluster "$@" --data "$scratch/$name" 2>&1 || true
}

for name in ALFA BRAVO; do node_port[$name]=$(free_port) node_address[$name]="127.0.0.1:$(free_port)"; done
token=$("$binary" cluster create main --address "${node_address[ALFA]}" --node ALFA --data "$scratch/ALFA" 2> /dev/null)
start_node ALFA
cluster BRAVO join "$token" --address "${node_address[BRAVO]}" --node BRAVO > /dev/null
start_node BRAVO
nodes="SELECT COUNT(*) FROM sys.dm_hadr_cluster_members WHERE member_type = 0 AND number_of_quorum_votes + member_state = 2"
lost="SELECT member_name, member_state_desc FROM sys.dm_hadr_cluster_members WHERE member_state = 0"
witness="SELECT member_type_desc, member_state_desc, number_of_quorum_votes FROM sys.dm_hadr_cluster_members WHERE member_type = 3"
known="SELECT COUNT(*) FROM sys.dm_hadr_cluster_members WHERE member_type = 0 AND member_state = 1"
check 'two nodes' "$(until_node ALFA "$known" '^2$') $(until_node BRAVO "$known" '^2$')" '^2 2$'
check 'no credential for a witness' "$(cluster ALFA set-witness "$s3/witness")" 'no credential'
for name in ALFA BRAVO; do
    of_node "$name" "CREATE CREDENTIAL [$s3] WITH IDENTITY = 'S3 Access Key', SECRET = 'key:secret'
CREATE CREDENTIAL [$azure] WITH IDENTITY = 'devstoreaccount1', SECRET = '$azure_key'" > /dev/null
done
for kind in s3 azure; do
    base=${!kind}
    check "$kind witness" "$(cluster ALFA set-witness "$base/witness/main")" '^$'
    check "$kind witness votes" "$(until_node BRAVO "$witness" 'CLOUD_WITNESS|UP|1')" 'CLOUD_WITNESS|UP|1'
    check "$kind witness in show" "$(cluster BRAVO show)" "cloud $base/witness/main (Online)"
    for name in ALFA BRAVO; do
        other=ALFA
        [ "$name" = BRAVO ] || other=BRAVO
        kill_node "$name"
        check "$kind witness, $name killed" "$(until_node "$other" "$lost" "$name|DOWN")" "$name|DOWN"
        check "$kind witness, a change is agreed on" "$(cluster "$other" priority "$name")" '^$'
        start_node "$name"
        check "$kind witness, $name is back" "$(until_node "$name" "$nodes" '^2$')" '^2$'
    done
done
check 'quorum type' "$(of_node ALFA 'SELECT quorum_type, quorum_type_desc FROM sys.dm_hadr_cluster')" '5|CLOUD_WITNESS'

echo "$passed passed, $failed failed"
[ "$failed" -eq 0 ]
