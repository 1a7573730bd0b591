# shellcheck shell=sh
# SPDX-License-Identifier: GPL-2.0-only
# For deb.sh and rpm.sh: what a package is built from, and which version it is.
#
# The files that git tracks are copied, so that nothing else gets in. The version is the Makefile's; between two releases the time and
# the id of the commit are behind it. All times are those of the commit. Its author is the maintainer.

# shellcheck disable=SC2034 # who sources this reads them
top=$(cd "$(dirname "$0")/.." && pwd)
die() { printf '%s: %s\n' "$(basename "$0" .sh)" "$*" >&2; exit 1; }

cd "$top" || exit
version=$(sed -n 's/^VERSION := //p' Makefile)
commit=$(git log -1 --format=%ct) || die "$top is no git clone: the packages are built from the files that git tracks"
maintainer=$(git log -1 --format='%an <%ae>')
snapshot= # empty: a release
git describe --exact-match --match "v$version" >/dev/null 2>&1 ||
    snapshot=git$(date -u -d "@$commit" +%Y%m%d%H%M%S).$(git log -1 --format=%h --abbrev=12)

# copy_source DIRECTORY
copy_source() {
    mkdir -p "$1"
    git -C "$top" ls-files -z | tar -C "$top" --null -T - --mtime="@$commit" -cf - | tar -C "$1" -xf -
}
