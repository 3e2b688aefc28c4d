#!/usr/bin/env bash
# The examples of packaging/container: examples.sh BINARY
#
# compose.yaml and compose-group.yaml are started as they stand there, with podman-compose, and the commands that the second one gives
# in its comment are run; only the ports of the machine are other ones. The StatefulSet is checked against the schemas of Kubernetes, and
# its container is started with what it asks for: no rights, a root that cannot be written, a volume of another owner, its probes.
#
# Where podman runs no containers (EXAMPLES=required makes that a failure) this says so, and the StatefulSet's schema is all that is tried.
set -euo pipefail

here=$(cd "$(dirname "$0")" && pwd)
root=$(cd "$here/../.." && pwd)
binary="$1"
needed=()
for tool in podman runc conmon iptables podman-compose; do command -v "$tool" > /dev/null || needed+=("$tool"); done
for package in netavark aardvark-dns; do [ -x "/usr/lib/podman/$package" ] || needed+=("$package"); done
if [ ${#needed[@]} -gt 0 ]; then
    apt-get update -qq > /dev/null
    DEBIAN_FRONTEND=noninteractive apt-get install -y -qq --no-install-recommends "${needed[@]}" > /dev/null
fi

# Images, volumes and networks of our own, away from those of the machine.
work=$(mktemp -d)
export CONTAINERS_CONF="$work/containers.conf" CONTAINERS_STORAGE_CONF="$work/storage.conf"
cat > "$CONTAINERS_CONF" << CONF
[containers]
# Podman's own are higher than a user may have who may not raise limits.
default_ulimits = ["nofile=$(ulimit -Hn):$(ulimit -Hn)", "nproc=9000:9000"]
[engine]
runtime = "runc"
cgroup_manager = "cgroupfs"
events_logger = "file"
[network]
network_backend = "netavark"
network_config_dir = "$work/networks"
CONF
printf '[storage]\ndriver = "overlay"\ngraphroot = "%s/images"\nrunroot = "%s/run"\n' "$work" "$work" > "$CONTAINERS_STORAGE_CONF"
cleanup() {
    podman rm --all --force --time 0 > /dev/null 2>&1 || true
    podman network prune --force > /dev/null 2>&1 || true
    ! mountpoint --quiet "$work/images/overlay" || umount "$work/images/overlay" || true
    rm -rf --one-file-system "$work"
}
trap cleanup EXIT
trap 'exit 1' INT TERM
fail() {
    echo "examples: $*" >&2
    for container in $(podman ps --all --quiet 2> /dev/null); do podman logs --tail 10 "$container" >&2 || true; done
    exit 1
}

statefulset="$root/packaging/container/statefulset.yaml"
# The schemas that the package ships are those of Kubernetes 1.37.
python3 -m venv "$work/python"
"$work/python/bin/pip" install --quiet --disable-pip-version-check kubernetes-validate==1.37.0 PyYAML==6.0.4
"$work/python/bin/kubernetes-validate" --strict "$statefulset" > "$work/said" 2>&1 || fail "Kubernetes does not take it: $(cat "$work/said")"
sed 's/replicas: 1/replicas: one/' "$statefulset" > "$work/wrong.yaml"
! "$work/python/bin/kubernetes-validate" --strict "$work/wrong.yaml" > /dev/null 2>&1 || fail "the schemas refuse nothing"
echo "ok: StatefulSet, schemas"

"$root/packaging/container/tree.sh" "$binary" "$work/tree"
tar --create --numeric-owner --directory "$work/tree" --file "$work/tree.tar" .
rm -rf "$work/tree"
podman import --quiet --change 'ENV PATH=/opt/mssql-tools18/bin:/opt/mssql/bin:/usr/bin:/bin' --change 'USER 10001' --change 'EXPOSE 1433' \
    --change 'VOLUME /var/opt/mssql' --change 'CMD ["/opt/mssql/bin/sqlservr"]' "$work/tree.tar" daruma:latest > "$work/said" 2>&1 \
    && podman run --rm daruma:latest true > "$work/said" 2>&1 || {
    echo "examples: podman runs no containers here: $(tail -1 "$work/said")"
    [ "${EXAMPLES:-}" != required ] || exit 1
    exit 0
}
rm "$work/tree.tar"

export MSSQL_SA_PASSWORD='yourStrong(!)Password'
healthy() { # CONTAINER
    for _ in $(seq 300); do
        ! podman healthcheck run "$1" > /dev/null 2>&1 || return 0
        [ "$(podman inspect --format '{{.State.Running}}' "$1")" = true ] || fail "$1 ended"
        sleep 0.2
    done
    fail "$1 is not healthy"
}
# What follows "docker compose", by podman-compose, which ends what a command says with a line of its own.
docker() {
    [ "$1 $2 $3" = "compose -f packaging/container/$file" ] || fail "the comment names another file: $*"
    (cd "$work/$project" && podman-compose -f "$file" "${@:4}" 2>> "$work/said") | { grep -v '^exit code: ' || true; }
}
# The file in a folder that gives its containers their names, with any free ports of this machine.
bring_up() { # FILE PROJECT CONTAINER...
    file="$1" project="$2"
    mkdir "$work/$project"
    sed -E 's/"[0-9]+:1433"/"127.0.0.1::1433"/' "$root/packaging/container/$file" > "$work/$project/$file"
    grep -q '127.0.0.1::1433' "$work/$project/$file" || fail "$file has no ports"
    docker compose -f "packaging/container/$file" up -d > /dev/null
    for container in "${@:3}"; do healthy "${project}_${container}_1"; done
}
take_down() { docker compose -f "packaging/container/$file" down -v > /dev/null; }

started=$(date +%s%N)
bring_up compose.yaml one sql
echo "ok: compose.yaml, healthy after $((($(date +%s%N) - started) / 1000000)) ms"
port=$(podman port one_sql_1 1433/tcp)
# From outside, through the port of this machine.
SQLCMDPASSWORD="$MSSQL_SA_PASSWORD" "$binary" sql -C -b -S "${port/:/,}" -U sa -Q 'CREATE DATABASE kept' || fail "no answer at $port"
podman stop --time 60 one_sql_1 > /dev/null 2>> "$work/said"
[ "$(podman inspect --format '{{.State.ExitCode}}' one_sql_1)" = 0 ] || fail "a stop ends with $(podman inspect --format '{{.State.ExitCode}}' one_sql_1)"
podman start one_sql_1 > /dev/null 2>> "$work/said"
healthy one_sql_1
podman exec --env SQLCMDPASSWORD="$MSSQL_SA_PASSWORD" one_sql_1 sqlcmd -C -b -U sa -d kept -Q 'SELECT 1' > /dev/null || fail "the volume is not kept"
take_down
echo "ok: compose.yaml, stopped and started"

bring_up compose-group.yaml three sql1 sql2 sql3
# The commands of the comment, from the definition of `run` on.
sed -n '/^#   run() /,/^#$/s/^#   //p' "$root/packaging/container/compose-group.yaml" > "$work/commands"
[ "$(wc -l < "$work/commands")" -ge 6 ] || fail "the comment of compose-group.yaml has other commands"
# shellcheck source=/dev/null
. "$work/commands" > "$work/status" || fail "the comment's commands: $(cat "$work/said")"
synchronized() { # SERVER that says it
    for _ in $(seq 300); do
        [ "$(run "$1" daruma group status -S "$1" -C | grep -cE 'Shop +SYNCHRONIZED')" != 3 ] || return 0
        sleep 0.2
    done
    fail "three replicas are not synchronized: $(run "$1" daruma group status -S "$1" -C)"
}
synchronized sql1
run sql1 sqlcmd -C -b -U sa -d Shop -Q 'CREATE TABLE items (id int); INSERT items VALUES (1), (2)' > /dev/null
failover=$(sed -n 's/^# Failover is by hand: //p' "$root/packaging/container/compose-group.yaml")
[ -n "$failover" ] || fail "the comment has no failover"
# shellcheck disable=SC2086 # a command with its arguments
run sql2 $failover > /dev/null || fail "failover: $(cat "$work/said")"
synchronized sql2
[[ $(run sql2 sqlcmd -C -b -U sa -d Shop -h -1 -W -Q 'SET NOCOUNT ON; INSERT items VALUES (3); SELECT COUNT(*) FROM items') == *3* ]] || fail "the new primary has other rows"
take_down
echo "ok: compose-group.yaml, a group of three and a failover"

# What a kubelet makes of the StatefulSet, as arguments of podman; the claim is a folder of root that the group of the pod may write.
install -d -o 0 -g 10001 -m 2770 "$work/claim"
mapfile -d '' -t arguments < <("$work/python/bin/python" "$here/statefulset.py" arguments "$statefulset" "$work/claim")
mapfile -d '' -t probe < <("$work/python/bin/python" "$here/statefulset.py" probe "$statefulset")
[ ${#arguments[@]} -gt 10 ] && [ ${#probe[@]} -gt 2 ] || fail "the StatefulSet is not understood"
podman run --detach --name pod --env MSSQL_SA_PASSWORD --publish 127.0.0.1::1433 "${arguments[@]}" > /dev/null 2>> "$work/said" || fail "the pod does not start: $(cat "$work/said")"
ready=
for _ in $(seq 300); do
    ! podman exec pod "${probe[@]}" > /dev/null 2>&1 || { ready=1; break; }
    sleep 0.2
done
[ -n "$ready" ] || fail "the readiness probe never succeeds"
port=$(podman port pod 1433/tcp)
(exec 3<> "/dev/tcp/${port/:/\/}") || fail "the port that the other probes ask is closed"
! podman exec pod sh -c 'echo > /etc/written' 2> /dev/null || fail "the root can be written"
podman exec --env SQLCMDPASSWORD="$MSSQL_SA_PASSWORD" pod sqlcmd -C -b -U sa -Q 'CREATE DATABASE kept; BACKUP DATABASE kept TO DISK = N'"'kept.bak'" > /dev/null \
    || fail "the pod cannot write its volume"
podman stop --time 60 pod > /dev/null 2>> "$work/said"
[ "$(podman inspect --format '{{.State.ExitCode}}' pod)" = 0 ] || fail "a stop of the pod ends with $(podman inspect --format '{{.State.ExitCode}}' pod)"
echo "ok: StatefulSet, its container with its rights and probes"
echo "examples: passed"
