#!/usr/bin/env bash
# The Debian package on a clean root: debian.sh BINARY
#
# Installed, served, configured, upgraded, removed and purged; data stays through all of it. The root is made by mmdebstrap. No service
# manager runs in it: the server is started as the unit says, and the unit is verified by systemd-analyze.
set -euo pipefail

here=$(cd "$(dirname "$0")" && pwd)
root=$(cd "$here/../.." && pwd)
binary="$1"
needed=()
command -v mmdebstrap > /dev/null || needed+=(mmdebstrap)
command -v systemd-analyze > /dev/null || needed+=(systemd)
if [ ${#needed[@]} -gt 0 ]; then
    apt-get update -qq > /dev/null
    DEBIAN_FRONTEND=noninteractive apt-get install -y -qq --no-install-recommends "${needed[@]}" > /dev/null
fi
work=$(mktemp -d)
clean="$work/root"
server=
cleanup() {
    [ -z "$server" ] || kill -KILL "$server" 2> /dev/null || true
    rm -rf --one-file-system "$work"
}
trap cleanup EXIT
fail() { echo "debian: $*" >&2; [ ! -f "$work/log" ] || tail -20 "$work/log" >&2; exit 1; }
password='In-a-clean-root-1'
given="$password" known="$password"

first=$("$root/packaging/debian/build.sh" "$binary" "$work" 1)
again=$(mkdir -p "$work/again" && "$root/packaging/debian/build.sh" "$binary" "$work/again" 1)
cmp "$first" "$again" || fail "two packages of one program differ"
second=$("$root/packaging/debian/build.sh" "$binary" "$work" 2)
suite=$(sed -n 's/^VERSION_CODENAME=//p' /etc/os-release)
mmdebstrap --quiet --variant=minbase --mode=root --include=adduser "$suite" "$clean" > "$work/bootstrap" 2>&1 \
    || { tail -5 "$work/bootstrap" >&2; fail "no clean root"; }
cp "$first" "$second" "$clean/tmp/"
inside() { env -i PATH=/usr/sbin:/usr/bin:/sbin:/bin DEBIAN_FRONTEND=noninteractive MSSQL_SA_PASSWORD="$password" \
    SQLCMDPASSWORD="$password" unshare --net --fork chroot "$clean" "$@"; }

started=$(date +%s%N)
inside dpkg --install "/tmp/$(basename "$first")" > "$work/dpkg" 2>&1 || { cat "$work/dpkg" >&2; fail "dpkg failed"; }
[ "$(inside stat -c '%U %a' /var/lib/daruma)" = 'daruma 750' ] || fail "the data folder is not the user's alone"
[ -L "$clean/etc/systemd/system/multi-user.target.wants/daruma.service" ] || fail "the unit is not enabled"
[ "$(inside stat -c '%U %a' /etc/daruma/environment)" = 'root 600' ] || fail "the password's file is not root's alone"
for file in usr/share/man/man1/daruma-serve.1.gz usr/share/bash-completion/completions/daruma usr/share/doc/daruma/copyright; do
    [ -s "$clean/$file" ] || fail "$file is missing"
done
grep -q 'daruma' <<< "$(inside bash -c '. /usr/share/bash-completion/completions/daruma; complete -p daruma')" || fail "no completion in bash"
# The units that it depends on are those of this machine, the program that of the clean root.
sed "s,^ExecStart=/,ExecStart=$clean/," "$clean/lib/systemd/system/daruma.service" > "$work/daruma.service"
systemd-analyze verify --man=no "$work/daruma.service" 2> "$work/verify" || { cat "$work/verify" >&2; fail "systemd does not take the unit"; }
[ ! -s "$work/verify" ] || ! grep -q daruma "$work/verify" || { cat "$work/verify" >&2; fail "systemd has something to say of the unit"; }

# The server as the unit starts it, in a network of its own; `told` is the socket of the service manager.
serve() {
    rm -f "$clean/tmp/ready" "$work/log"
    local command
    command=$(sed -n 's/^ExecStart=//p' "$clean/lib/systemd/system/daruma.service")
    env -i PATH=/usr/sbin:/usr/bin:/sbin:/bin MSSQL_SA_PASSWORD="$given" unshare --net --pid --fork --kill-child bash -c '
        "$0/usr/bin/true"; ip link set lo up 2> /dev/null || busybox ip link set lo up
        exec chroot --userspec=daruma:daruma "$0" $1' "$clean" "$command" > "$work/log" 2>&1 &
    server=$!
    for _ in $(seq 400); do
        ! grep -q '^ready ' "$work/log" || return 0
        kill -0 "$server" 2> /dev/null || fail "the server ended"
        sleep 0.05
    done
    fail "the server is not ready"
}
ask() { # SQL
    nsenter --target "$(pgrep -P "$server" | head -1)" --net -- env -i PATH=/usr/sbin:/usr/bin:/sbin:/bin SQLCMDPASSWORD="$known" \
        chroot "$clean" daruma sql -C -h -1 -W -b -S "127.0.0.1,${port:-1433}" -Q "SET NOCOUNT ON; $1"
}
stop() {
    kill -TERM "$(pgrep -P "$server" | head -1)"
    wait "$server" || fail "the server ended with $?"
    server=
}

# What a first start says goes to the journal: the password that it makes is in a file instead.
given='' serve
[ "$(inside stat -c '%U %a' /var/lib/daruma/sa-password)" = 'daruma 600' ] || fail "the made password is not the server's alone"
known=$(cat "$clean/var/lib/daruma/sa-password")
! grep -qF "$known" "$work/log" "$clean/var/lib/daruma/log/errorlog" || fail "the made password is told"
ask 'select @@version' > /dev/null || fail "no answer"
echo "from dpkg --install to 'select @@version': $((($(date +%s%N) - started) / 1000000)) ms"
stop
given="$password" known="$password"
serve
[ ! -e "$clean/var/lib/daruma/sa-password" ] || fail "a password that is none any more stays"
ask 'select @@version' > /dev/null || fail "no answer"
ask "create database shop; exec ('create table shop.dbo.t (a int); insert shop.dbo.t values (1), (2)')" || fail "no database"
stop

inside daruma conf set network.tcpport 15433 > /dev/null || fail "conf set"
[ "$(inside daruma conf get network.tcpport)" = 'network.tcpport = 15433' ] || fail "conf get"
if said=$(inside daruma conf set network.tcpprot 1 2>&1); then fail "an unknown setting is taken"; fi
grep -q 'daruma conf list' <<< "$said" || fail "an unknown setting is refused without help: $said"

inside dpkg --install --force-confold "/tmp/$(basename "$second")" > "$work/dpkg" 2>&1 || { cat "$work/dpkg" >&2; fail "the upgrade failed"; }
port=15433
serve
[ "$(ask 'select count(*) from shop.dbo.t')" = 2 ] || fail "rows are lost by an upgrade, or the setting is"
stop

inside dpkg --remove daruma > "$work/dpkg" 2>&1 || { cat "$work/dpkg" >&2; fail "remove failed"; }
[ ! -e "$clean/usr/bin/daruma" ] && [ -f "$clean/etc/daruma/daruma.conf" ] || fail "remove took too little or too much"
[ -f "$clean/var/lib/daruma/master.mdf" ] || fail "remove took the data"
inside dpkg --install --force-confold "/tmp/$(basename "$second")" > "$work/dpkg" 2>&1 || { cat "$work/dpkg" >&2; fail "the second installation failed"; }
[ -L "$clean/etc/systemd/system/multi-user.target.wants/daruma.service" ] || fail "the unit is not enabled after remove and install"
inside dpkg --purge daruma > "$work/dpkg" 2>&1 || { cat "$work/dpkg" >&2; fail "purge failed"; }
[ ! -e "$clean/etc/daruma" ] || fail "purge left the configuration"
[ -f "$clean/var/lib/daruma/master.mdf" ] || fail "purge took the data"
grep -q 'databases stay' "$work/dpkg" || fail "purge does not say that data stays"
left=$(find "$clean"/{usr,etc,lib,bin,sbin}/ -iname '*daruma*' -not -path '*/passwd*' | head)
[ -z "$left" ] || fail "purge left $left"
echo "debian: passed; the package has $(du -m "$first" | cut -f1) MB"
