#!/bin/sh
# SPDX-License-Identifier: GPL-2.0-only
# Install what ccbpf needs to build, run and test itself. Asks nothing; run again, it does nothing.
#
#   packaging/deps.sh [VENV [lab|sweep|deb|rpm|hard|cluster]]
#       VENV: where the tests' Python packages go (default .cache/venv)
#       lab: also what the virtual-time lab needs (QEMU, about 200 MB)
#       sweep: that, and the workflow engine of `make sweep` (90 MB in VENV)
#       deb: also what builds and checks the packages (about 100 MB)
#       rpm: also what builds and checks the RPM (about 20 MB)
#       hard: these two, and the programs that `make test-hard` runs in the background class, Prometheus, shells, and what builds
#           an image and checks manifests of Kubernetes (about 360 MB)
#       cluster: beside that of hard, a cluster of one node, built from the modules of Kubernetes (half an hour of a core, 3 GB meanwhile)
#
# Debian 12's libbpf 1.1 knows no struct_ops links, so there bookworm-backports is enabled; Ubuntu 24.04's 1.3
# refuses an ops table with a member that the kernel lacks, so libbpf (and bpftool) come from Ubuntu 26.04, and
# nothing else does. The address of the archive is the one this machine's apt already uses.
set -eu

top=$(cd "$(dirname "$0")/.." && pwd)
venv=${1:-$top/.cache/venv}
with=${2:-}
requirements=$top/tests/requirements.txt
workflow=$top/tests/lab/workflow/requirements.txt
export DEBIAN_FRONTEND=noninteractive

say()  { printf 'deps: %s\n' "$*"; }
die()  { printf 'deps: %s\n' "$*" >&2; exit 1; }
have() { dpkg-query -W -f '${db:Status-Status}\n' "$1" 2>/dev/null | grep -qx installed; }
apt()  { apt-get -q -y -o Dpkg::Use-Pty=0 -o DPkg::Lock::Timeout=300 -o Acquire::Retries=3 "$@" >"$log" 2>&1 || {
             cat "$log" >&2; die "apt-get $* failed on this machine (its words are above); mend that and run 'make deps' again"; }; }

[ -r /etc/os-release ] || die "no /etc/os-release: install the packages of packaging/deps.sh by hand"
# shellcheck source=/dev/null
. /etc/os-release
command -v apt-get >/dev/null || die "$PRETTY_NAME has no apt: install clang >= 16, libbpf >= 1.4, bpftool, libelf, json-c, libcap, libmnl, ncursesw, libmicrohttpd, toml++, g++, iperf3 and python3-venv by hand, then 'make all'"

log=$(mktemp)
trap 'rm -f "$log"' EXIT
trap 'exit 1' HUP INT PIPE TERM # or dash does not run the EXIT trap

packages="make gcc g++ libc6-dev pkg-config libbpf-dev libelf-dev libjson-c-dev libcap-dev libmnl-dev libncurses-dev libtomlplusplus-dev
          libmicrohttpd-dev iproute2 iputils-ping procps kmod iperf3 tcpdump ethtool curl rsync tmux libcap2-bin util-linux systemd python3 python3-venv ca-certificates git mandoc"
release="$ID ${VERSION_ID:-}"
if [ "$release" = "ubuntu 24.04" ] && have linux-tools-common; then # it would have to go for the package bpftool
    bpftool version >/dev/null 2>&1 || packages="$packages linux-tools-$(uname -r)"
else
    packages="$packages bpftool"
fi

again='make deps'
deb="build-essential debhelper lintian"
rpm="rpm rpmlint"
case $with in
lab | sweep)
    again="packaging/deps.sh ${venv#"$top"/} $with"
    packages="$packages qemu-system-x86 zstd lz4 xz-utils binutils debian-archive-keyring"
    [ "$ID" = debian ] || packages="$packages python-apt-common" # knows where Debian's archive is
    ;;
deb)
    again="packaging/deps.sh ${venv#"$top"/} $with"
    packages="$packages $deb"
    ;;
rpm)
    again="packaging/deps.sh ${venv#"$top"/} $with"
    packages="$packages $rpm"
    ;;
cluster) again="packaging/deps.sh ${venv#"$top"/} $with" ;;
esac

if [ "$with" = hard ]; then
    again="packaging/deps.sh ${venv#"$top"/} $with"
    packages="$packages $deb $rpm restic rclone openssh-client sudo mmdebstrap zsh fish
              aria2 skopeo openssl buildah podman runc"
    command -v go >/dev/null || packages="$packages golang-go"
fi

# The newest clang of this distribution, 16 at the least (-mcpu=v4 wants 18; v3 is what we build for).
newest_clang() {
    for v in 20 19 18 17 16; do
        if have clang-$v || [ -n "$(apt-cache policy clang-$v 2>/dev/null | sed -n 's/ *Candidate: \([^(]\)/\1/p')" ]; then
            echo clang-$v
            return
        fi
    done
}

# The sanitizers' and the fuzzer's runtime of a clang.
runtime_of() { echo "libclang-rt-${1#clang-}-dev"; }

new_enough() { pkg-config --atleast-version=1.4 libbpf 2>/dev/null; }

missing() { for p in $packages; do have "$p" || printf ' %s' "$p"; done; }

# Adds SUITE of the archive that apt already uses for this release: add_suite SUITE ORIGIN FIELD KEYRING, where FIELD of
# apt's indextargets names the release.
add_suite() {
    list=/etc/apt/sources.list.d/ccbpf-$1.list
    [ ! -e "$list" ] || return 0
    uri=$(apt-get indextargets --format "\$(ORIGIN)|\$($3)|\$(REPO_URI)" 'Created-By: Packages' |
          awk -F '|' -v o="$2" -v n="$VERSION_CODENAME" '$1 == o && $2 == n { print $3; exit }')
    [ -n "$uri" ] || die "apt on this machine lists no archive of $VERSION_CODENAME main: add one to /etc/apt/sources.list.d"
    if [ -r "$4" ]; then signed="[signed-by=$4] "; else signed=; fi
    printf '# made by ccbpf: packaging/deps.sh (libbpf >= 1.4)\ndeb %s%s %s main\n' "$signed" "$uri" "$1" >"$list"
    say "enabled $1 (libbpf >= 1.4)"
    apt update
}

add_backports() {
    suite=$VERSION_CODENAME-backports
    apt-cache policy | grep -q "n=$suite" || add_suite "$suite" Debian CODENAME /usr/share/keyrings/debian-archive-keyring.gpg
    say "installing libbpf-dev and bpftool from $suite"
    apt install --no-install-recommends -t "$suite" libbpf-dev bpftool
}

# The next release has what backports would: these packages may come from it, all others never.
add_next_release() {
    printf '# made by ccbpf: packaging/deps.sh\n%s\n%s\n%s\n\n%s\n%s\n%s\n' \
        'Package: *' 'Pin: release n=resolute' 'Pin-Priority: -1' \
        'Package: libbpf1 libbpf-dev bpftool' 'Pin: release n=resolute' 'Pin-Priority: 500' >/etc/apt/preferences.d/ccbpf
    add_suite resolute Ubuntu SUITE /usr/share/keyrings/ubuntu-archive-keyring.gpg
}

system_packages() {
    clang=$(newest_clang)
    if [ -n "$clang" ] && have "$clang" && have "$(runtime_of "$clang")" && new_enough && [ -z "$(missing)" ]; then
        say "packages: nothing to install"
        return
    fi
    [ "$(id -u)" = 0 ] || die "installing packages needs root: run 'sudo $again' once (missing:$(missing))"
    say "refreshing the package lists"
    apt update
    clang=$(newest_clang)
    [ -n "$clang" ] || die "$PRETTY_NAME offers no clang >= 16; supported are Debian 12, Debian 13 and Ubuntu 24.04"
    packages="$packages $clang $(runtime_of "$clang")"
    case $release in
    "debian 12") add_backports ;;
    "ubuntu 24.04") add_next_release ;;
    esac
    say "installing:$(missing)"
    # shellcheck disable=SC2086 # a list of words is meant
    apt install --no-install-recommends $packages
    new_enough || die "libbpf $(pkg-config --modversion libbpf) is older than 1.4: take Debian 12 with backports, Debian 13 or Ubuntu 24.04"
}

# Their packages would start a service, now and at each boot: they are unpacked beside VENV, and only the libraries that they
# need are installed.
servers="nginx haproxy openssh-server prometheus prometheus-node-exporter docker-registry"
runtime="containerd runc containernetworking-plugins"

# unpack DIRECTORY PACKAGES
unpack() {
    there=$(dirname "$venv")/$1
    if [ "$2" = "$(cat "$there/complete" 2>/dev/null)" ]; then
        say "$1: nothing to unpack"
        return
    fi
    [ "$(id -u)" = 0 ] || die "installing the libraries of $2 needs root: run 'sudo $again' once"
    say "unpacking $2 into ${there#"$top"/}"
    rm -rf "$there"
    mkdir -p "$there"
    apt update
    # shellcheck disable=SC2046,SC2086 # lists of words are meant
    apt install --no-install-recommends $(apt-cache depends $2 | sed -n '/libjs-/d; s/^ *Depends: \(lib.*\)/\1/p' | sort -u)
    # shellcheck disable=SC2086 # the same
    (cd "$there" && apt -o APT::Sandbox::User=root download $2)
    for package in "$there"/*.deb; do
        dpkg -x "$package" "$there"
        rm "$package"
    done
    echo "$2" >"$there/complete"
}

# kubeconform, and the schemas of Kubernetes' objects, which it would fetch from elsewhere. The newest that Go of Debian 12 builds.
kubeconform=v0.6.3
schemas=kubernetes-validate==1.37.0

kubernetes_tools() {
    there=$(dirname "$venv")/kubernetes
    if [ "$kubeconform $schemas" = "$(cat "$there/complete" 2>/dev/null)" ]; then
        say "kubernetes: nothing to install"
        return
    fi
    say "installing kubeconform and schemas into ${there#"$top"/}"
    rm -rf "$there"
    mkdir -p "$there"
    there=$(cd "$there" && pwd)
    GOBIN=$there GOFLAGS=-modcacherw GOPATH=$there/go GOCACHE=$there/cache \
        go install "github.com/yannh/kubeconform/cmd/kubeconform@$kubeconform" >"$log" 2>&1 || {
        cat "$log" >&2; die "go could not build kubeconform (its words are above); is the module proxy reachable?"; }
    rm -rf "$there/go" "$there/cache"
    "$venv/bin/python" -m pip download -q --disable-pip-version-check --no-deps -d "$there" "$schemas" >"$log" 2>&1 || {
        cat "$log" >&2; die "pip could not fetch $schemas (its words are above); is the package index reachable?"; }
    echo "$kubeconform $schemas" >"$there/complete"
}

# The parts of a cluster, as they are, in one program.
cluster_components() {
    there=$(dirname "$venv")/cluster
    source=$top/tests/cluster/components
    sum=$(cat "$source"/* | cksum)
    if [ "$sum" = "$(cat "$there/complete" 2>/dev/null)" ]; then
        say "cluster: nothing to build"
        return
    fi
    say "building Kubernetes into ${there#"$top"/}"
    mkdir -p "$there"
    there=$(cd "$there" && pwd)
    (cd "$source" && GOFLAGS=-modcacherw GOPATH=$there/go GOCACHE=$there/cache \
        nice go build -p "${JOBS:-$(nproc)}" -trimpath -ldflags '-s -w' -o "$there/components" .) >"$log" 2>&1 || {
        cat "$log" >&2; die "go could not build Kubernetes (its words are above); it wants Go 1.24 and the module proxy"; }
    rm -rf "$there/go" "$there/cache"
    echo "$sum" >"$there/complete"
}

# A copy of the requirements in the venv, made last, says that all of them is there.
python_packages() {
    if [ -x "$venv/bin/python" ] && cmp -s "$requirements" "$venv/requirements.txt"; then
        say "python: nothing to install"
        return
    fi
    say "installing the tests' Python packages into ${venv#"$top"/}"
    rm -rf "$venv"
    /usr/bin/python3 -m venv "$venv"
    pip_install "$requirements" "$venv/requirements.txt"
}

workflow_engine() {
    cmp -s "$workflow" "$venv/workflow.txt" && return
    say "installing the workflow engine of sweeps into ${venv#"$top"/}"
    pip_install "$workflow" "$venv/workflow.txt"
}

pip_install() {
    "$venv/bin/python" -m pip install -q --disable-pip-version-check --only-binary :all: -r "$1" >"$log" 2>&1 || {
        cat "$log" >&2; die "pip could not install $1 (its words are above); is the package index reachable?"; }
    cp "$1" "$2"
}

system_packages
python_packages
[ "$with" != sweep ] || workflow_engine
[ "$with" != hard ] || unpack servers "$servers"
[ "$with" != hard ] || kubernetes_tools
[ "$with" != cluster ] || unpack cluster/debian "$runtime"
[ "$with" != cluster ] || cluster_components
