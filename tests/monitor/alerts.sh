#!/usr/bin/env bash
# The alert rules for Prometheus: read, and each fired once, by promtool: alerts.sh [--no-install]
#
# promtool comes from Debian's package `prometheus`, unpacked into target/monitor and not installed, where the machine has none.
set -euo pipefail

root=$(cd "$(dirname "$0")/../.." && pwd)
promtool=$(command -v promtool || true)
if [ -z "$promtool" ]; then
    promtool="$root/target/monitor/prometheus/usr/bin/promtool"
    if [ ! -x "$promtool" ]; then
        [ "${1:-}" != --no-install ] || { echo "there is no promtool" >&2; exit 2; }
        mkdir -p "$root/target/monitor/prometheus"
        cd "$root/target/monitor/prometheus"
        apt-get download -qq prometheus
        dpkg -x prometheus_*.deb .
    fi
fi
cd "$root/docs"
"$promtool" check rules monitor-alerts.yml
"$promtool" test rules monitor-alerts-test.yml
