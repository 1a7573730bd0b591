#!/bin/sh
# SPDX-License-Identifier: GPL-2.0-only
# Build the Debian packages of this working tree (source.sh), and check them with lintian.
#
#   packaging/deb.sh [DIRECTORY]      DIRECTORY: where they go (default build/deb); what was there is removed
#
# The same commit gives the same bytes.
set -eu
# shellcheck source=packaging/source.sh
. "$(dirname "$0")/source.sh"
out=${1:-$top/build/deb}
version=$version${snapshot:++$snapshot}

rm -rf "$out"
copy_source "$out/ccbpf"
out=$(cd "$out" && pwd)
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
