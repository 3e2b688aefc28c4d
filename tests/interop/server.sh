# Functions that start and stop a private server; sourced by the runners, not run.
#
# A server belongs to the script that started it and is ended by its process id alone. It gets a scratch folder and a free
# loopback port, so several runs can go on side by side.

# The binary to test: --server, DARUMA_BIN, or the release build of this work tree.
daruma_binary() {
    local root="$1"
    local found="${DARUMA_BIN:-${CARGO_TARGET_DIR:-$root/target}/release/daruma}"
    if [ ! -x "$found" ]; then
        echo "no server at $found: run 'cargo build --release' or set DARUMA_BIN" >&2
        return 1
    fi
    echo "$found"
}

free_port() {
    python3 -c 'import socket; s = socket.socket(); s.bind(("127.0.0.1", 0)); print(s.getsockname()[1])'
}

# start_server BINARY DATA PORT LOG: starts the server and waits until it says it is ready. Sets SERVER_PID.
start_server() {
    local binary="$1" data="$2" port="$3" log="$4"
    mkdir -p "$data"
    : > "$log"
    MSSQL_SA_PASSWORD="$DARUMA_PASSWORD" "$binary" serve --data "$data" --listen "127.0.0.1:$port" 2>> "$log" >> "$log.out" &
    SERVER_PID=$!
    local waited=0
    until grep -q '^ready' "$log"; do
        if ! kill -0 "$SERVER_PID" 2> /dev/null; then
            echo "the server ended before it was ready; its last lines:" >&2
            tail -20 "$log" >&2
            SERVER_PID=
            return 1
        fi
        waited=$((waited + 1))
        if [ "$waited" -gt 1200 ]; then
            echo "the server was not ready after 60 seconds" >&2
            stop_server
            return 1
        fi
        sleep 0.05
    done
}

# Asks the server to stop, and ends it after 20 seconds of patience.
stop_server() {
    [ -n "${SERVER_PID:-}" ] || return 0
    kill -TERM "$SERVER_PID" 2> /dev/null || true
    local waited=0
    while kill -0 "$SERVER_PID" 2> /dev/null; do
        waited=$((waited + 1))
        if [ "$waited" -gt 400 ]; then
            kill -KILL "$SERVER_PID" 2> /dev/null || true
            break
        fi
        sleep 0.05
    done
    wait "$SERVER_PID" 2> /dev/null || true
    SERVER_PID=
}

# The certificate that the server made for itself, if one lies in its folder.
server_certificate() {
    grep -rlE --include='*.pem' --include='*.crt' 'BEGIN CERTIFICATE' "$1" 2> /dev/null | head -1
}
