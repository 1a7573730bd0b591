#!/bin/sh
# SPDX-License-Identifier: GPL-2.0-only
# Prove that a fresh Debian or Ubuntu needs nothing but the README's two commands.
#
#   packaging/chroot.sh SUITE [COMMAND…]      SUITE: bookworm, trixie, noble; COMMAND: default 'make demo' and 'make test'
#
# Makes a minimal SUITE with debootstrap (kept in .cache/chroot/SUITE.tar), unpacks it, clones HEAD into it, and runs the
# commands with that as their root directory, as root, on this kernel. Mounts live in a mount namespace of their own and
# go with it. The archive is the one this machine's apt uses; of another distribution, CCBPF_CHROOT_ARCHIVE names one (its
# signatures are verified).
set -eu

top=$(cd "$(dirname "$0")/.." && pwd)
die() { printf 'chroot: %s\n' "$*" >&2; exit 1; }
say() { printf 'chroot: %s\n' "$*" >&2; }

[ $# -ge 1 ] || die "which suite? packaging/chroot.sh bookworm|trixie|noble [COMMAND…]"
[ "$(id -u)" = 0 ] || die "needs root: run it with sudo"
command -v debootstrap >/dev/null || die "needs debootstrap: apt-get install debootstrap"
suite=$1
shift
tar=$top/.cache/chroot/$suite.tar
root=$top/.cache/chroot/$suite

make_tar() {
    case $suite in
    bookworm | trixie) origin=Debian components=main keyring=debian-archive-keyring script=sid ;;
    noble) origin=Ubuntu components=main,universe keyring=ubuntu-archive-keyring script=gutsy ;;
    *) die "$suite is none of bookworm, trixie, noble" ;;
    esac
    # shellcheck disable=SC2016 # the dollars are apt's
    mirror=${CCBPF_CHROOT_ARCHIVE:-$(apt-get indextargets --format '$(ORIGIN)|$(CODENAME)|$(REPO_URI)' 'Created-By: Packages' |
             awk -F '|' -v o=$origin '$1 == o && $2 !~ /-/ { print $3; exit }')}
    [ -n "$mirror" ] || die "apt on this machine lists no $origin archive to take $suite from: name one in CCBPF_CHROOT_ARCHIVE"
    keyring=/usr/share/keyrings/$keyring.gpg
    [ -r "$keyring" ] || die "$keyring is not there to verify $suite with: apt-get install debian-archive-keyring ubuntu-keyring"
    say "debootstrap $suite"
    rm -rf "$root"
    mkdir -p "$root"
    # make: what every README takes for granted; ca-certificates and git: to have a clone at all
    debootstrap --variant=minbase --components=$components --keyring="$keyring" --include=make,git,ca-certificates \
        "$suite" "$root" "$mirror" "/usr/share/debootstrap/scripts/$script" >"$tar.log" 2>&1 ||
        die "debootstrap failed; its words are in $tar.log"
    tar -C "$root" -cf "$tar" .
}

inside() {
    mount --make-rprivate /
    mount --bind "$root" "$root"
    for d in proc sys dev; do mount --rbind /$d "$root/$d"; done
    mount -t tmpfs tmpfs "$root/run"
    mount -t tmpfs tmpfs "$root/tmp"
    # not chroot: `ip netns` wants / to be a mount, and who enters a mount namespace of ours is to find this root
    cd "$root"
    pivot_root . .
    umount -l .
    cd /root/ccbpf
    "$@"
}

if [ "${CCBPF_CHROOT_INSIDE:-}" ]; then
    unset CCBPF_CHROOT_INSIDE
    inside "$@"
    exit
fi

mkdir -p "$top/.cache/chroot"
[ -f "$tar" ] || make_tar
say "a fresh $suite"
rm -rf "$root"
mkdir -p "$root"
tar -C "$root" -xf "$tar"
cp /etc/resolv.conf "$root/etc/" 2>/dev/null || :
# a machine behind a proxy with its own certificates needs them inside as well
[ -z "${SSL_CERT_FILE:-}" ] || cp "$SSL_CERT_FILE" "$root/etc/ssl/certs/ca-certificates.crt"
git clone -q "$top" "$root/root/ccbpf"
export HOME=/root PATH=/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin LC_ALL=C.UTF-8
[ $# -gt 0 ] || set -- sh -ec 'make demo && make test'
say "$*"
CCBPF_CHROOT_INSIDE=1 exec unshare --mount "$0" "$suite" "$@"
