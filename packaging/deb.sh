#!/bin/sh
# SPDX-License-Identifier: GPL-2.0-only
# Build the Debian packages of this working tree, and check them with lintian.
#
#   packaging/deb.sh [DIRECTORY]      DIRECTORY: where they go (default build/deb); what was there is removed
#
# The files that git tracks are copied, so that nothing else gets in. The version is the Makefile's; between two releases the time and
# the id of the commit are behind it. The same commit gives the same bytes: all times are those of the commit. Its author is the
# maintainer.
set -eu

top=$(cd "$(dirname "$0")/.." && pwd)
out=${1:-$top/build/deb}
die() { printf 'deb: %s\n' "$*" >&2; exit 1; }

cd "$top"
version=$(sed -n 's/^VERSION := //p' Makefile)
commit=$(git log -1 --format=%ct) || die "$top is no git clone: the packages are built from the files that git tracks"
maintainer=$(git log -1 --format='%an <%ae>')
git describe --exact-match --match "v$version" >/dev/null 2>&1 ||
    version=$version+git$(date -u -d "@$commit" +%Y%m%d%H%M%S).$(git log -1 --format=%h --abbrev=12)

rm -rf "$out"
mkdir -p "$out/ccbpf"
out=$(cd "$out" && pwd)
git ls-files -z | tar --null -T - -cf - | tar -C "$out/ccbpf" -xf -
cd "$out/ccbpf"
cp -r packaging/debian .
sed -i "s/@maintainer@/$maintainer/" debian/control
printf 'ccbpf (%s) unstable; urgency=medium\n\n  * See /usr/share/doc/ccbpf/changelog.gz.\n\n -- %s  %s\n' \
    "$version" "$maintainer" "$(date -R -u -d "@$commit")" >debian/changelog
DEB_BUILD_OPTIONS="parallel=$(nproc) ${DEB_BUILD_OPTIONS:-}" dpkg-buildpackage --build=binary -us -uc >"$out/log" 2>&1 || {
    cat "$out/log" >&2
    die "dpkg-buildpackage failed (its words are above)"
}
cd "$out"
rm -r ccbpf
# what it takes for words in a binary is code by chance; codespell reads the source
lintian --display-info --fail-on error,warning,info --suppress-tags spelling-error-in-binary ./*.changes ||
    die "lintian does not accept the packages"
ls "$out"/*.deb
