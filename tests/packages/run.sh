#!/usr/bin/env bash
# Packages from the outside: run.sh [program|container|debian|examples ...]; without arguments all.
#
# Takes the program of `cargo xtask dist` where there is one that is newer than the release build, and the release build otherwise
# (PACKAGES_BIN names another). Needs root, for namespaces and chroot. Installs what is missing with apt.
set -uo pipefail

if [ "$(id -u)" != 0 ]; then
    command -v sudo > /dev/null || { echo "root is needed, for namespaces and chroot" >&2; exit 1; }
    exec sudo -n -E "$0" "$@"
fi
here=$(cd "$(dirname "$0")" && pwd)
root=$(cd "$here/../.." && pwd)
target="${CARGO_TARGET_DIR:-$root/target}"
binary="${PACKAGES_BIN:-}"
if [ -z "$binary" ]; then
    binary="$target/release/daruma"
    if [ ! -x "$binary" ] || [ "$target/dist/daruma" -nt "$binary" ]; then binary="$target/dist/daruma"; fi
fi
if [ ! -x "$binary" ]; then
    echo "no program: run 'cargo xtask dist' or 'cargo build --release' first" >&2
    exit 1
fi
stripped=$(mktemp -d)
trap 'rm -rf "$stripped"' EXIT
for file in LICENCES.txt sbom.cdx.json; do
    [ ! -f "$(dirname "$binary")/$file" ] || cp "$(dirname "$binary")/$file" "$stripped/"
done
needed=()
command -v objcopy > /dev/null || needed+=(binutils)
[ -x /bin/busybox ] && ! ldd /bin/busybox 2> /dev/null | grep -q '/ld-' || needed+=(busybox-static)
[ -f /usr/share/zoneinfo/UTC ] || needed+=(tzdata)
[ -f /etc/ssl/certs/ca-certificates.crt ] || needed+=(ca-certificates)
command -v pgrep > /dev/null || needed+=(procps)
if [ ${#needed[@]} -gt 0 ]; then
    apt-get update -qq > /dev/null
    DEBIAN_FRONTEND=noninteractive apt-get install -y -qq --no-install-recommends "${needed[@]}" > /dev/null \
        || { echo "cannot install ${needed[*]}" >&2; exit 1; }
fi
tests=("$@")
[ ${#tests[@]} -gt 0 ] || tests=(program container debian examples)
objcopy=objcopy
if [ "$(od -An -tx2 -j18 -N2 "$binary" | tr -d ' ')" = 00b7 ] && [ "$(uname -m)" != aarch64 ]; then
    # A program for Arm64 runs here by an emulator, and nothing of what the others start beside it would.
    objcopy=aarch64-linux-gnu-objcopy tests=(program)
fi
# Symbols would be most of what is packed and compressed.
"$objcopy" --strip-debug "$binary" "$stripped/daruma" || exit 1

# Any build may be tested; what is handed on is made of `cargo xtask dist` alone.
export DARUMA_UNRELEASED=1
failed=()
for name in "${tests[@]}"; do
    if [ ! -f "$here/$name.sh" ]; then echo "unknown test $name" >&2; exit 2; fi
    printf '== %s, %s\n' "$name" "$binary"
    "$here/$name.sh" "$stripped/daruma" || failed+=("$name")
done
[ ${#failed[@]} -eq 0 ] || { echo "failed: ${failed[*]}"; exit 1; }
