#!/usr/bin/env bash
# Runs unmodified SQL Server drivers against a private server: run.sh [--no-install] [--verbose] [--server BINARY] [DRIVER ...]
#
# Installs what the drivers need (Debian packages, a Python environment, npm, Go and Maven packages, all pinned), starts the
# server on a scratch folder and a free loopback port, runs every driver's client program, prints a table, and ends with
# "N passed, N failed". Built things go to target/interop; nothing is written into the source folders.
set -euo pipefail

here=$(cd "$(dirname "$0")" && pwd)
root=$(cd "$here/../.." && pwd)
source "$here/server.sh"

all_drivers=(sql go tedious pymssql pytds pyodbc mssql-python freetds-odbc freetds-tools mssql-jdbc jtds)
more_drivers=(orm-pymssql orm-pyodbc) # run only when named
install=yes
shown='^(FAIL|SKIP) '
drivers=()
while [ $# -gt 0 ]; do
    case "$1" in
        --no-install) install=no ;;
        --verbose) shown='^(PASS|FAIL|SKIP) ' ;;
        --server) DARUMA_BIN="$2"; shift ;;
        --help | -h)
            echo "usage: run.sh [--no-install] [--verbose] [--server BINARY] [DRIVER ...]"
            echo "drivers: ${all_drivers[*]}; only when named: ${more_drivers[*]}"
            exit 0 ;;
        -*) echo "unknown option $1" >&2; exit 2 ;;
        *)
            case " ${all_drivers[*]} ${more_drivers[*]} " in
                *" $1 "*) drivers+=("$1") ;;
                *) echo "unknown driver $1; known: ${all_drivers[*]} ${more_drivers[*]}" >&2; exit 2 ;;
            esac ;;
    esac
    shift
done
[ ${#drivers[@]} -gt 0 ] || drivers=("${all_drivers[@]}")

binary=$(daruma_binary "$root")
built="$root/target/interop"
mkdir -p "$built"
scratch=$(mktemp -d)
SERVER_PID=
cleanup() {
    stop_server
    rm -rf "$scratch"
}
trap cleanup EXIT
trap 'exit 130' INT TERM

wanted() { # whether one of the named drivers was asked for
    local name
    for name in "$@"; do
        case " ${drivers[*]} " in *" $name "*) return 0 ;; esac
    done
    return 1
}

# ---------------------------------------------------------------------------------------------- installing

as_root() {
    if [ "$(id -u)" -eq 0 ]; then "$@"; else sudo "$@"; fi
}

apt_install() { # packages that are not there yet
    local missing=() package
    for package in "$@"; do
        dpkg-query -W -f '${Status}' "$package" 2> /dev/null | grep -q 'ok installed' || missing+=("$package")
    done
    [ ${#missing[@]} -gt 0 ] || return 0
    as_root apt-get update -qq > /dev/null
    as_root env DEBIAN_FRONTEND=noninteractive apt-get install -y -qq --no-install-recommends "${missing[@]}" > "$built/apt.log" 2>&1 \
        || { tail -20 "$built/apt.log" >&2; return 1; }
}

needs_command() { # COMMAND PACKAGE
    command -v "$1" > /dev/null || apt_install "$2"
}

install_needs() {
    needs_command python3 python3
    if wanted sql pymssql pytds pyodbc mssql-python freetds-odbc orm-pymssql orm-pyodbc; then
        python3 -c 'import ensurepip, venv' 2> /dev/null || apt_install python3-venv
        local stamp="$built/venv/requirements.txt"
        if ! cmp -s "$here/python/requirements.txt" "$stamp"; then
            rm -rf "$built/venv"
            python3 -m venv "$built/venv"
            "$built/venv/bin/pip" install -q -r "$here/python/requirements.txt"
            cp "$here/python/requirements.txt" "$stamp"
        fi
    fi
    if wanted pyodbc mssql-python freetds-odbc orm-pyodbc; then apt_install unixodbc libltdl7; fi
    if wanted freetds-odbc; then apt_install tdsodbc; fi
    if wanted freetds-tools; then apt_install freetds-bin; fi
    if wanted tedious; then
        needs_command node nodejs
        needs_command npm npm
        mkdir -p "$built/node"
        if ! cmp -s "$here/node/package-lock.json" "$built/node/package-lock.json"; then
            cp "$here/node/package.json" "$here/node/package-lock.json" "$built/node/"
            (cd "$built/node" && npm ci --silent --no-audit --no-fund) || { rm -f "$built/node/package-lock.json"; return 1; }
        fi
    fi
    if wanted go; then
        needs_command go golang
        (cd "$here/go" && go build -mod=readonly -o "$built/interop-go" .)
    fi
    if wanted mssql-jdbc jtds; then
        needs_command java default-jdk-headless
        needs_command mvn maven
        mkdir -p "$built/java"
        cp -r "$here/java/pom.xml" "$here/java/src" "$built/java/"
        (cd "$built/java" && mvn -q -B package > "$built/mvn.log" 2>&1) || { tail -20 "$built/mvn.log" >&2; return 1; }
    fi
}

# Runs in a subshell of its own and becomes the client program, so that its process id is the program's.
run_driver() {
    case "$1" in
        go) exec "$built/interop-go" ;;
        tedious) NODE_PATH="$built/node/node_modules" exec node "$here/node/client.js" ;;
        pymssql | pytds | pyodbc | mssql-python | freetds-odbc)
            PYTHONDONTWRITEBYTECODE=1 exec "$built/venv/bin/python" "$here/python/client.py" "$1" ;;
        sql) PYTHONDONTWRITEBYTECODE=1 exec "$built/venv/bin/python" "$here/python/sql.py" ;;
        orm-*) PYTHONDONTWRITEBYTECODE=1 exec "$built/venv/bin/python" "$here/python/orm.py" "${1#orm-}" ;;
        freetds-tools) exec bash "$here/tools.sh" ;;
        mssql-jdbc | jtds) exec java -cp "$built/java/target/interop.jar:$built/java/target/lib/*" Interop "$1" ;;
    esac
}

if [ "$install" = yes ]; then
    echo "installing what ${drivers[*]} need"
    install_needs
fi

# ------------------------------------------------------------------------------------------------- running

export DARUMA_HOST=127.0.0.1
export DARUMA_PASSWORD="Interop-$(od -An -N6 -tx1 /dev/urandom | tr -d ' \n')!"
DARUMA_PORT=$(free_port)
export DARUMA_PORT
start_server "$binary" "$scratch/data" "$DARUMA_PORT" "$scratch/server.log"
DARUMA_CERT=$(server_certificate "$scratch/data" || true)
export DARUMA_CERT
echo "server ready on 127.0.0.1:$DARUMA_PORT, certificate ${DARUMA_CERT:-not found}"

total_passed=0
total_failed=0
total_skipped=0
table=()
for driver in "${drivers[@]}"; do
    echo "== $driver"
    output="$scratch/$driver.txt"
    status=0
    run_driver "$driver" > "$output" 2>&1 < /dev/null &
    client=$!
    waited=0
    while kill -0 "$client" 2> /dev/null; do
        if [ "$waited" -ge 3000 ]; then
            kill -KILL "$client" 2> /dev/null || true
            echo "FAIL time: the client program was still running after 300 seconds" >> "$output"
            break
        fi
        waited=$((waited + 1))
        sleep 0.1
    done
    wait "$client" || status=$?
    grep -E "$shown" "$output" || true
    passed=$(grep -c '^PASS ' "$output" || true)
    failed=$(grep -c '^FAIL ' "$output" || true)
    skipped=$(grep -c '^SKIP ' "$output" || true)
    if [ "$status" -ne 0 ] && [ "$failed" -eq 0 ]; then
        echo "FAIL program: exit code $status; its last lines:"
        tail -15 "$output"
        failed=1
    fi
    if ! kill -0 "$SERVER_PID" 2> /dev/null; then
        echo "FAIL server: it ended during $driver; its last lines:"
        tail -30 "$scratch/server.log"
        failed=$((failed + 1))
        start_server "$binary" "$scratch/data" "$DARUMA_PORT" "$scratch/server.log"
    fi
    table+=("$(printf '%-14s %7d %7d %8d' "$driver" "$passed" "$failed" "$skipped")")
    total_passed=$((total_passed + passed))
    total_failed=$((total_failed + failed))
    total_skipped=$((total_skipped + skipped))
done

if grep -q 'panicked' "$scratch/server.log"; then
    echo "FAIL server: it panicked"
    grep -A3 'panicked' "$scratch/server.log" | head -20
    total_failed=$((total_failed + 1))
fi

echo
printf '%-14s %7s %7s %8s\n' driver passed failed skipped
printf '%s\n' "${table[@]}"
echo
echo "$total_passed passed, $total_failed failed, $total_skipped skipped"
[ "$total_failed" -eq 0 ]
