#!/usr/bin/env bash
# Kills and fails over a group of two servers under load, and looks for every acknowledged commit after each: run.sh [--rounds N] [--seed N]
# A run prints its seed; the same seed gives the same kills and failovers.
set -euo pipefail

root=$(cd "$(dirname "$0")/../.." && pwd)
rounds=100
seed=$RANDOM
while [ $# -gt 0 ]; do
    case "$1" in
        --rounds) rounds="$2"; shift ;;
        --seed) seed="$2"; shift ;;
        --help | -h) sed -n '2,3s/^# //p' "$0"; exit 0 ;;
        *) echo "unknown option $1" >&2; exit 2 ;;
    esac
    shift
done
echo "seed $seed, $rounds rounds"
cd "$root"
export DARUMA_GROUP_ROUNDS="$rounds" DARUMA_GROUP_SEED="$seed"
exec cargo test -p daruma --test group rounds:: -- --nocapture
