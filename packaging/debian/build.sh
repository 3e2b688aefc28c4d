#!/usr/bin/env bash
# Builds the Debian package, as `cargo xtask dist` does: build.sh [BINARY] [FOLDER] [REVISION]   (target/dist/daruma, target/dist, 1)
#
# Man pages and completion come from the program itself, so it must run on this machine; RUNNER names an emulator for one of another
# kind. The same program and the same
# SOURCE_DATE_EPOCH (the commit's time without it) give the same bytes.
set -euo pipefail

here=$(cd "$(dirname "$0")" && pwd)
root=$(cd "$here/../.." && pwd)
binary="${1:-$root/target/dist/daruma}" out="${2:-$root/target/dist}" revision="${3:-1}"
[ -x "$binary" ] || { echo "no program at $binary: run 'cargo xtask dist'" >&2; exit 1; }
for tool in dpkg-deb gzip; do
    command -v "$tool" > /dev/null || { echo "$tool is missing: apt-get install dpkg gzip" >&2; exit 1; }
done
SOURCE_DATE_EPOCH="${SOURCE_DATE_EPOCH:-$(git -C "$root" log -1 --format=%ct)}"
export SOURCE_DATE_EPOCH

run() { ${RUNNER:-} "$binary" "$@"; }
version=$(run --version | cut -d' ' -f2)-$revision
# The machine that the program's header names.
case $(od -An -tx2 -j18 -N2 "$binary" | tr -d ' ') in
    003e) architecture=amd64 ;;
    00b7) architecture=arm64 ;;
    *) architecture=$(dpkg --print-architecture) ;;
esac
tree=$(mktemp -d)
trap 'rm -rf "$tree"' EXIT
chmod 0755 "$tree"

install -D -m 0755 "$binary" "$tree/usr/bin/daruma"
install -D -m 0644 "$here/daruma.service" "$tree/lib/systemd/system/daruma.service"
install -D -m 0644 "$here/daruma.conf" "$tree/etc/daruma/daruma.conf"
for shell in bash:bash-completion/completions/daruma zsh:zsh/vendor-completions/_daruma fish:fish/vendor_completions.d/daruma.fish; do
    install -d "$(dirname "$tree/usr/share/${shell#*:}")"
    run completion "${shell%%:*}" > "$tree/usr/share/${shell#*:}"
done
run manual "$tree/usr/share/man/man1"
rm -f "$tree/usr/share/man/man1/sqlcmd.1"
gzip -n -9 "$tree"/usr/share/man/man1/*.1
doc="$tree/usr/share/doc/daruma"
install -d "$doc"
{
    cat "$root/NOTICE"
    printf '\n'
    cat "$root/LICENSE-MIT"
    printf '\nThe Apache License 2.0 is in /usr/share/common-licenses/Apache-2.0.\n'
} > "$doc/copyright"
gzip -n -9 < "$root/CHANGELOG.md" > "$doc/changelog.gz"
beside=$(dirname "$binary")
for file in LICENCES.txt sbom.cdx.json; do
    # A package that is handed on says what is in it; one that tests make of any build need not.
    [ -f "$beside/$file" ] || [ -n "${DARUMA_UNRELEASED:-}" ] \
        || { echo "$beside/$file is missing: take the program of 'cargo xtask dist'" >&2; exit 1; }
    [ ! -f "$beside/$file" ] || gzip -n -9 < "$beside/$file" > "$doc/$file.gz"
done

# A static program needs nothing but adduser for its scripts.
depends=adduser
if ldd "$binary" 2> /dev/null | grep -q '/ld-'; then depends="adduser, libc6"; fi
install -d "$tree/DEBIAN"
cat > "$tree/DEBIAN/control" << CONTROL
Package: daruma
Version: $version
Architecture: $architecture
Maintainer: The Daruma authors <daruma@localhost>
Installed-Size: $(du -sk --exclude=DEBIAN "$tree" | cut -f1)
Depends: $depends
Section: database
Priority: optional
Description: SQL Server-compatible database server
 Clients of SQL Server connect to it over TDS and speak T-SQL. Rollback and crash
 recovery take constant time, whatever was open.
CONTROL
echo /etc/daruma/daruma.conf > "$tree/DEBIAN/conffiles"
for script in postinst prerm postrm; do install -m 0755 "$here/$script" "$tree/DEBIAN/$script"; done
find "$tree" -type d -exec chmod 0755 {} +
find "$tree" -type f -not -perm /111 -exec chmod 0644 {} +
find "$tree" -exec touch --no-dereference --date="@$SOURCE_DATE_EPOCH" {} +
mkdir -p "$out"
dpkg-deb --root-owner-group -Zxz --build "$tree" "$out/daruma_${version}_$architecture.deb" > /dev/null
echo "$out/daruma_${version}_$architecture.deb"
