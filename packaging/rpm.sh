#!/bin/sh
# SPDX-License-Identifier: GPL-2.0-only
# Build the RPM of this working tree (source.sh), and check it with rpmlint.
#
#   packaging/rpm.sh [DIRECTORY]      DIRECTORY: where it goes (default build/rpm); what was there is removed
#
# The same commit gives the same bytes. On a host whose packages are not RPMs what it is built with is not looked for: `make deps` installed it.
set -eu
# shellcheck source=packaging/source.sh
. "$(dirname "$0")/source.sh"
for tool in rpmbuild rpmlint; do
    command -v "$tool" >/dev/null || die "$tool is missing: \`make deps\` installs it, on Fedora \`dnf install rpm-build rpmlint\`"
done
out=${1:-$top/build/rpm}
version=$version${snapshot:+^$snapshot}

export SOURCE_DATE_EPOCH="$commit" LC_ALL=C.UTF-8 # the changelog's days, and the order of files

rm -rf "$out"
copy_source "$out/ccbpf"
out=$(cd "$out" && pwd)
sed -e "s/@version@/$version/" "$top/packaging/ccbpf.spec.in" >"$out/ccbpf.spec"
printf '\n%%changelog\n* %s %s - %s-1\n- See CHANGELOG.md.\n' "$(date -u -d "@$commit" '+%a %b %d %Y')" "$maintainer" "$version" >>"$out/ccbpf.spec"
rpm -q rpm >/dev/null 2>&1 || foreign=--nodeps
# shellcheck disable=SC2086 # an option or nothing
rpmbuild -bb ${foreign:-} --define "_topdir $out/work" --define "_builddir $out" --define "_tree $out/ccbpf" --define "_rpmdir $out" --define '_rpmfilename %{NVRA}.rpm' \
    --define 'use_source_date_epoch_as_buildtime 1' --define 'clamp_mtime_to_source_date_epoch 1' --define '_buildhost localhost' \
    "$out/ccbpf.spec" >"$out/log" 2>&1 || {
    cat "$out/log" >&2
    die "rpmbuild failed (its words are above)"
}
rm -rf "$out/ccbpf" "$out/work"
rpmlint --rpmlintrc "$top/packaging/ccbpf.rpmlintrc" "$out/ccbpf.spec" "$out"/*.rpm >"$out/rpmlint" || {
    cat "$out/rpmlint" >&2
    die "rpmlint does not accept the package"
}
ls "$out"/*.rpm
