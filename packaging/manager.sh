#!/bin/sh
# A manager for an availability group with CLUSTER_TYPE = EXTERNAL: when no server has been its primary for some rounds, the one with the highest sequence number
# of those that answer is promoted; if it refuses, the next one, until all have. It may be wrong, late, or run twice: servers refuse to lead if they lack something.
#
#   manager.sh GROUP SERVER...     each server as HOST,PORT
#
# SQLCMDUSER, SQLCMDPASSWORD: a login with ALTER ANY AVAILABILITY GROUP and VIEW SERVER STATE on each server.
# FLAGS: of `daruma sql`, e.g. "--ca FILE". DARUMA: the program. ROUNDS: how many (3). PAUSE: seconds between two (2).
set -u
usage() { sed -n '5s/^# *//p' "$0" >&2; exit 2; }
[ $# -ge 2 ] || usage
group=$1
shift
case $group in '' | *[!A-Za-z0-9_-]*) usage ;; esac
rounds=${ROUNDS:-3}
without=0 refused=

look="SET NOCOUNT ON
SELECT CONCAT(r.role_desc, ' ', g.sequence_number) FROM sys.availability_groups g
JOIN sys.dm_hadr_availability_replica_states r ON r.group_id = g.group_id WHERE g.name = N'$group' AND r.is_local = 1"
promote="EXEC sp_set_session_context @key = N'external_cluster', @value = N'yes'
ALTER AVAILABILITY GROUP [$group] FAILOVER"

# ask SERVER SECONDS TEXT
ask() {
    # shellcheck disable=SC2086 # several flags
    "${DARUMA:-daruma}" sql ${FLAGS:-} -S "$1" -l 5 -t "$2" -b -h -1 -W -Q "$3" </dev/null
}

while :; do
    primary= best= highest=0
    for server in "$@"; do
        # "PRIMARY 68719476739"
        answer=$(ask "$server" 10 "$look") || continue
        number=${answer#* }
        case $answer in "PRIMARY "*) primary=$server ;; esac
        case $number in '' | *[!0-9]*) continue ;; esac
        case " $refused " in *" $server "*) continue ;; esac
        if [ "$number" -gt "$highest" ]; then
            best=$server highest=$number
        fi
    done
    without=$((without + 1))
    if [ -n "$primary" ]; then
        without=0 refused=
    elif [ -z "$best" ]; then
        refused=
    elif [ "$without" -ge "$rounds" ]; then
        echo "no primary: $best is promoted, at $highest"
        if ask "$best" 60 "$promote"; then
            without=0 refused=
        else
            refused="$refused $best"
        fi
    fi
    sleep "${PAUSE:-2}"
done
