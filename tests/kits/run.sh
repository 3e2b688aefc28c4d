#!/usr/bin/env bash
# The kits that administrators bring along, unmodified but for a switch of one's own (no jobs), against a private server: run.sh [--from DIR] [--server BINARY]
#
# Installs Ola Hallengren's maintenance solution, sp_WhoIsActive and the First Responder Kit from below DIR with `daruma sql`, runs
# them on a scratch database, and looks at what they did: backups that restore to the same rows, a CommandLog without an error, a
# check that was noted, a statement that runs and the one it waits for. Nothing of them is part of this repository; without --from it
# says where they come from. It is no part of the checks of every change, which fetch nothing.
set -euo pipefail

here=$(cd "$(dirname "$0")" && pwd)
root=$(cd "$here/../.." && pwd)
source "$root/tests/interop/server.sh"

from=
while [ $# -gt 0 ]; do
    case "$1" in
        --from) from="$2"; shift ;;
        --server) DARUMA_BIN="$2"; shift ;;
        *) echo "usage: run.sh [--from DIR] [--server BINARY]" >&2; exit 2 ;;
    esac
    shift
done
if [ -z "$from" ]; then
    cat << 'END'
Fetch these into one folder and name it with --from:
  MaintenanceSolution.sql                https://github.com/olahallengren/sql-server-maintenance-solution
  sp_WhoIsActive.sql                     https://github.com/amachanic/sp_whoisactive
  sp_Blitz.sql and the others beside it  https://github.com/BrentOzarULTD/SQL-Server-First-Responder-Kit
END
    exit 2
fi

binary=$(daruma_binary "$root")
export DARUMA_PASSWORD='Kits-of-others-1'
scratch=$(mktemp -d)
SERVER_PID=
waiter=
holder=
cleanup() {
    for one in $waiter $holder; do kill "$one" 2> /dev/null || true; done
    stop_server
    rm -rf "$scratch"
}
trap cleanup EXIT
trap 'exit 130' INT TERM
port=$(free_port)
start_server "$binary" "$scratch/data" "$port" "$scratch/log"

passed=0
failed=0
verdict() { # verdict NAME PROBLEM: empty is none
    if [ -z "$2" ]; then
        passed=$((passed + 1))
        echo "PASS $1"
    else
        failed=$((failed + 1))
        echo "FAIL $1: $2"
    fi
}

sql() { "$binary" sql -C -S "127.0.0.1,$port" -U sa -P "$DARUMA_PASSWORD" "$@" 2>&1; }
value() { sql -h -1 -W -d "${2:-master}" -Q "SET NOCOUNT ON; $1" | sed -n 1p || true; }
errors() { grep -aE -A1 '^Msg [0-9]+, Level (1[1-9]|2[0-9])|^daruma: ' | head -4 | tr '\n' ' ' | cut -c1-400 || true; }
kit() { find "$from" -name "$1" -type f | head -1; }

installed() { # installed FILE: runs a script; true where it is there and ran
    local file
    file=$(kit "$1")
    if [ -z "$file" ]; then
        verdict "install $1" "it is not below $from"
        return 1
    fi
    # The solution's jobs need an agent; its own switch leaves them out.
    sed "s/^\(DECLARE @CreateJobs nvarchar(max) *= \)'Y'/\1'N'/" "$file" > "$scratch/install.sql"
    verdict "install $1" "$(sql -i "$scratch/install.sql" | errors)"
}

runs() { # runs NAME BATCH [DATABASE]: no error, and the client came to its end
    local out told code=0
    out=$(sql -d "${3:-master}" -Q "$2") || code=$?
    told=$(errors <<< "$out")
    [ -n "$told" ] || [ "$code" = 0 ] || told="exit $code: ${out: -200}"
    verdict "$1" "$told"
}

is() { # is NAME QUERY EXPECTED
    local found
    found=$(value "$2" "${4:-master}")
    if [ "$found" = "$3" ]; then verdict "$1" ""; else verdict "$1" "$found where $3 is right"; fi
}

sql -Q "CREATE DATABASE Shop" > /dev/null
sql -d Shop -Q "CREATE TABLE dbo.item (id int IDENTITY PRIMARY KEY, name varchar(200) NOT NULL, amount int NOT NULL)
CREATE INDEX ix_amount ON dbo.item (amount)
INSERT dbo.item (name, amount) SELECT REPLICATE('x', 150), value % 97 FROM GENERATE_SERIES(1, 20000)
CREATE TABLE dbo.empty (id int)" > /dev/null

# ----------------------------------------------------------------------------------------------- maintenance solution

if installed MaintenanceSolution.sql; then
    backup="$scratch/backup"
    mkdir -p "$backup"
    for kind in FULL DIFF LOG; do
        sql -d Shop -Q "INSERT dbo.item (name, amount) VALUES ('$kind', -1)" > /dev/null
        runs "backup $kind" "EXECUTE dbo.DatabaseBackup @Databases = 'Shop', @Directory = '$backup', @BackupType = '$kind', @Verify = 'Y', @CheckSum = 'Y', @CleanupTime = 24, @LogToTable = 'Y'"
    done
    runs "integrity check" "EXECUTE dbo.DatabaseIntegrityCheck @Databases = 'USER_DATABASES', @LogToTable = 'Y'"
    runs "integrity check of tables" "EXECUTE dbo.DatabaseIntegrityCheck @Databases = 'Shop', @CheckCommands = 'CHECKALLOC,CHECKTABLE,CHECKCATALOG', @LogToTable = 'Y'"
    sql -d Shop -Q "DELETE dbo.item WHERE id % 3 <> 0" > /dev/null
    runs "index maintenance" "EXECUTE dbo.IndexOptimize @Databases = 'Shop', @FragmentationMedium = 'INDEX_REORGANIZE', @FragmentationHigh = 'INDEX_REBUILD_OFFLINE', @FragmentationLevel1 = 1, @FragmentationLevel2 = 2, @MinNumberOfPages = 1, @UpdateStatistics = 'ALL', @LogToTable = 'Y'"
    is "no command failed" "SELECT COUNT(*) FROM dbo.CommandLog WHERE ErrorNumber <> 0 OR EndTime IS NULL" 0
    is "commands of backups" "SELECT CONCAT(SUM(CASE CommandType WHEN 'BACKUP_DATABASE' THEN 1 END), ' ', SUM(CASE CommandType WHEN 'BACKUP_LOG' THEN 1 END), ' ', SUM(CASE CommandType WHEN 'RESTORE_VERIFYONLY' THEN 1 END)) FROM dbo.CommandLog" "2 1 3"
    is "commands of checks" "SELECT COUNT(DISTINCT CommandType) FROM dbo.CommandLog WHERE CommandType LIKE 'DBCC%'" 4
    is "commands of indexes" "SELECT CASE WHEN COUNT(*) > 0 THEN 'some' END FROM dbo.CommandLog WHERE CommandType = 'ALTER_INDEX'" some
    is "commands of statistics" "SELECT CASE WHEN COUNT(*) > 0 THEN 'some' END FROM dbo.CommandLog WHERE CommandType = 'UPDATE_STATISTICS'" some
    is "the check is noted" "SELECT CASE WHEN DATEDIFF(second, CAST(DATABASEPROPERTYEX('Shop', 'LastGoodCheckDbTime') AS datetime), GETDATE()) BETWEEN 0 AND 3600 THEN 'now' END" now
    full=$(find "$backup" -path '*FULL*' -name '*.bak')
    diff=$(find "$backup" -path '*DIFF*' -name '*.bak')
    log=$(find "$backup" -path '*LOG*' -name '*.trn')
    runs "restore" "RESTORE DATABASE Again FROM DISK = '$full' WITH NORECOVERY, MOVE 'Shop' TO '$scratch/again.mdf', MOVE 'Shop_log' TO '$scratch/again.ldf'
RESTORE DATABASE Again FROM DISK = '$diff' WITH NORECOVERY
RESTORE LOG Again FROM DISK = '$log' WITH RECOVERY"
    is "rows of the restored database" "SELECT CONCAT(COUNT(*), ' ', SUM(CASE WHEN amount = -1 THEN 1 ELSE 0 END)) FROM dbo.item" "20003 3" Again
    runs "old backups go" "EXECUTE dbo.DatabaseBackup @Databases = 'Shop', @Directory = '$backup', @BackupType = 'FULL', @CleanupTime = 0, @CleanupMode = 'AFTER_BACKUP', @LogToTable = 'Y'"
    left=$(find "$backup" -path '*FULL*' -name '*.bak' | grep -vc "^$full$" || true)
    [ ! -e "$full" ] && [ "$left" = 1 ] && verdict "the new backup alone is left" "" || verdict "the new backup alone is left" "$left others"
    is "nothing failed then" "SELECT COUNT(*) FROM dbo.CommandLog WHERE ErrorNumber <> 0" 0
fi

# ------------------------------------------------------------------------------------------------------ sp_WhoIsActive

if installed sp_WhoIsActive.sql; then
    sql -d Shop -Q "BEGIN TRAN UPDATE dbo.item SET amount = 1 WHERE id = 3 WAITFOR DELAY '00:01:00'" > /dev/null &
    holder=$!
    sleep 2
    sql -d Shop -Q "UPDATE dbo.item SET amount = 2 WHERE id = 3" > /dev/null &
    waiter=$!
    sleep 2
    sql --format csv -Q "EXEC dbo.sp_WhoIsActive" > "$scratch/active"
    verdict "active sessions" "$(errors < "$scratch/active")"
    grep -q 'WAITFOR DELAY' "$scratch/active" && verdict "a statement that runs" "" || verdict "a statement that runs" "it is not shown"
    grep -qE 'LCK_M_' "$scratch/active" && verdict "a statement that waits" "" || verdict "a statement that waits" "its wait is not shown"
    runs "active sessions with everything" "EXEC dbo.sp_WhoIsActive @get_plans = 1, @get_locks = 1, @get_transaction_info = 1, @get_outer_command = 1, @get_task_info = 2, @find_block_leaders = 1, @get_additional_info = 1"
    kill "$waiter" "$holder" 2> /dev/null || true
    waiter=
    holder=
fi

# ------------------------------------------------------------------------------------------------ First Responder Kit

for one in \
    "sp_ineachdb|@command = N'SELECT DB_NAME()'" \
    "sp_Blitz|@CheckServerInfo = 1, @CheckUserDatabaseObjects = 1" \
    "sp_BlitzFirst|@Seconds = 3, @ExpertMode = 1" \
    "sp_BlitzWho|@ExpertMode = 1" \
    "sp_BlitzIndex|@DatabaseName = 'Shop', @Mode = 4" \
    "sp_BlitzCache|@Top = 10" \
    "sp_BlitzLock|" \
    "sp_BlitzBackups|"; do
    name=${one%%|*}
    installed "$name.sql" && runs "$name" "EXEC dbo.$name ${one#*|}"
done
installed sp_DatabaseRestore.sql || true
kill -0 "$SERVER_PID" 2> /dev/null && verdict "the server is there" "" || verdict "the server is there" "it ended"

echo "$passed passed, $failed failed"
[ "$failed" -eq 0 ]
