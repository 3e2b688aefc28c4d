#!/usr/bin/env bash
# Runs the tests: test.sh [unit|build|book|interop|backup|packages|differential|crash ...]; without arguments all, in this order.
#
#   unit     cargo test of the whole workspace
#   build    the release build that the next ones use
#   book     the documentation as a book, its links followed (target/book/html)
#   interop  ten unmodified drivers against a private server (tests/interop)
#   backup   backups to object storage, against emulators of S3 and Azure (tests/backup)
#   packages container image and Debian package on roots that have nothing else (tests/packages)
#   differential  random statements compared with PostgreSQL, 20,000 results and some over large tables (tests/differential; DIFFERENTIAL_MINUTES for longer)
#   crash    kill -9 under load for a minute, every acknowledged commit checked (tests/crash; CRASH_SECONDS for longer)
#
# Installs what is missing (Debian packages, Python, npm, Go and Maven packages). Ends non-zero when anything failed.
set -uo pipefail

cd "$(dirname "$0")"
steps=("$@")
[ ${#steps[@]} -gt 0 ] || steps=(unit build book interop backup packages differential crash)
failed=()
# Properties are tested from the same seed everywhere; another one is for runs on demand.
export PROPTEST_RNG_SEED="${PROPTEST_RNG_SEED:-1}"

step() { # NAME COMMAND...
    local name="$1" started
    shift
    started=$(date +%s)
    printf '\n######## %s\n' "$name"
    if "$@"; then
        printf '######## %s: ok, %d s\n' "$name" "$(($(date +%s) - started))"
    else
        printf '######## %s: FAILED, %d s\n' "$name" "$(($(date +%s) - started))"
        failed+=("$name")
    fi
}

# First that a planted fault is noticed, then that there is none: small tables, then large ones in little memory.
compare_with_postgresql() {
    local seed="${DIFFERENTIAL_SEED:-5000}" length=(--results 20000)
    [ -z "${DIFFERENTIAL_MINUTES:-}" ] || length=(--minutes "$DIFFERENTIAL_MINUTES")
    tests/differential/run.sh --plant --minutes 1 --seed "$seed" > /dev/null \
        && tests/differential/run.sh "${length[@]}" --seed "$seed" \
        && tests/differential/run.sh --large --plant --rows 10000 --results 60 --minutes 0.5 --seed "$seed" > /dev/null \
        && tests/differential/run.sh --large --rows 20000 --results 80 --minutes 0.5 --seed "$seed"
}

# mdBook is built once, into target/tools.
make_book() {
    local target="${CARGO_TARGET_DIR:-target}"
    [ -x "$target/tools/bin/mdbook" ] || cargo install mdbook --locked --quiet --version 0.5.4 --root "$target/tools" || return 1
    cargo xtask docs --program "$target/release/daruma"
}

if ! command -v cargo > /dev/null; then
    echo "cargo is missing: install the Rust toolchain that rust-toolchain.toml names" >&2
    exit 1
fi

for name in "${steps[@]}"; do
    case "$name" in
        unit) step unit cargo test --workspace --locked --quiet --no-fail-fast ;;
        build) step build cargo build --release --locked --quiet ;;
        book) step book make_book ;;
        interop) step interop tests/interop/run.sh ;;
        backup) step backup tests/backup/url.sh ;;
        packages) step packages tests/packages/run.sh ;;
        differential) step differential compare_with_postgresql ;;
        crash) step crash tests/crash/run.sh --seconds "${CRASH_SECONDS:-60}" ;;
        *) echo "unknown step $name" >&2; exit 2 ;;
    esac
done

echo
if [ ${#failed[@]} -gt 0 ]; then
    echo "failed: ${failed[*]}"
    exit 1
fi
echo "all of ${steps[*]} passed"
