#!/usr/bin/env bash
# Builds the container image from an empty base: build.sh [BINARY] [NAME]   (target/dist/daruma, daruma:latest)
#
# With buildah or podman; without them the same tree goes into an archive that `docker import` or `podman import` takes with the
# settings that are printed.
set -euo pipefail

here=$(cd "$(dirname "$0")" && pwd)
binary="${1:-$here/../../target/dist/daruma}" name="${2:-daruma:latest}"
if ldd "$binary" 2> /dev/null | grep -q '/ld-'; then
    echo "$binary is not static; an image is made of the program that 'cargo xtask dist' makes" >&2
    exit 1
fi
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
"$here/tree.sh" "$binary" "$work/tree"
# As an archive, which keeps owners and hard links. Times are those of the commit.
epoch="${SOURCE_DATE_EPOCH:-$(git -C "$here" log -1 --format=%ct)}"
tar --create --sort=name --numeric-owner --mtime="@$epoch" --directory "$work/tree" --file "$work/tree.tar" .

# The same for every way to make the image.
environment=(PATH=/opt/mssql-tools18/bin:/opt/mssql/bin:/usr/bin:/bin)
command='["/opt/mssql/bin/sqlservr"]'

if command -v buildah > /dev/null; then
    container=$(buildah from scratch)
    buildah add --quiet "$container" "$work/tree.tar" / > /dev/null
    settings=()
    for variable in "${environment[@]}"; do settings+=(--env "$variable"); done
    buildah config "${settings[@]}" --user 10001 --port 1433 --volume /var/opt/mssql --cmd "$command" --stop-signal SIGTERM "$container"
    buildah commit --quiet --rm --timestamp "$epoch" "$container" "$name"
    exit
fi
archive="$(dirname "$binary")/daruma-image.tar"
mv "$work/tree.tar" "$archive"
changes=()
for variable in "${environment[@]}"; do changes+=("--change 'ENV $variable'"); done
echo "buildah is missing (apt-get install buildah). Import the tree instead:"
echo "docker import ${changes[*]} --change 'USER 10001' --change 'EXPOSE 1433' --change 'VOLUME /var/opt/mssql' --change 'CMD $command' $archive $name"
