# SPDX-License-Identifier: GPL-2.0-only
"""What the command needs from a system: bpffs, BTF, struct_ops, the JIT, libbpf. Whatever is missing is named."""

from __future__ import annotations

import json
import os
import shlex
import shutil
import struct
import subprocess
from pathlib import Path

import pytest

from tests.functional import kernel
from tests.functional.conftest import CCBPF, Cli

pytestmark = pytest.mark.usefixtures("registry_lock")


def test_a_root_that_is_not_on_bpffs(tmp_path: Path) -> None:
    elsewhere = Cli(tmp_path / "a/b")
    result = elsewhere("enable", "tcp_lp", code=1)
    assert "does not lie on a BPF file system" in result.err
    assert list(tmp_path.iterdir()) == []
    assert "BPF file system" in Cli(tmp_path)("status", code=1).err
    for root, says in (("relative/root", "absolute"), ("/sys/fs/bpf/a.b", "dot"), ("/sys/fs/bpf/" + "x" * 300, "256")):
        for words in (["enable", "tcp_lp"], ["status"]):
            assert says in Cli(Path(root))(*words, code=2).err


def lacking(script: str, words: str) -> subprocess.CompletedProcess[str]:
    """A command, after a script has hidden something that the kernel has."""
    return in_mount_namespace(f"{script}; exec $CCBPF {words}")


def hide(what: str, content: Path) -> str:
    return f"mount --bind {content} {what}"


def test_a_kernel_without_btf(bpffs: Path) -> None:
    script = "mount -t tmpfs none /sys/kernel/btf; mount -t tmpfs none /boot"
    done = lacking(script, "enable tcp_lp")
    assert done.returncode == 3, done
    assert "no BTF" in done.stderr and "CONFIG_DEBUG_INFO_BTF" in done.stderr
    done = lacking(script, "-j check")
    assert done.returncode == 3, done
    rows = rows_of(done)
    assert rows["BTF"]["verdict"] == rows["struct_ops"]["verdict"] == "missing"
    assert rows["BTF"]["found"] == "none"


def rows_of(done: subprocess.CompletedProcess[str]) -> dict[str, dict[str, str | None]]:
    return {row["name"]: row for row in json.loads(done.stdout)["rows"]}


@pytest.mark.parametrize("place", ["/boot/vmlinux-$(uname -r)", "/lib/modules/$(uname -r)/build/vmlinux"])
def test_check_names_the_file_that_btf_was_read_from(bpffs: Path, tmp_path: Path, place: str) -> None:
    """Where the kernel does not show its BTF, libbpf reads that of a vmlinux on the disk. The command works with it."""
    assert rows_of(lacking("true", "-j check"))["BTF"]["found"] == "/sys/kernel/btf/vmlinux"
    copy = tmp_path / "vmlinux"
    shutil.copy("/sys/kernel/btf/vmlinux", copy)
    script = "mkdir -p /lib/modules; for d in /sys/kernel/btf /boot /lib/modules; do mount -t tmpfs none $d; done"
    script += f'; mkdir -p "$(dirname {place})"; cp {copy} {place}'
    done = lacking(script, "-j check")
    row = rows_of(done)["BTF"]
    release = kernel.run("uname", "-r").stdout.strip()
    assert (done.returncode, row["verdict"], row["found"]) == (0, "ok", place.replace("$(uname -r)", release)), done
    done = lacking(script, "enable tcp_lp && $CCBPF disable tcp_lp")
    assert done.returncode == 0, done


def btf_of(path: Path) -> bytes:
    """The section .BTF of an ELF file of 64 bits."""
    data = path.read_bytes()
    (table,), (size, count, names) = struct.unpack_from("=Q", data, 40), struct.unpack_from("=HHH", data, 58)
    headers = [struct.unpack_from("=IIQQQQ", data, table + i * size) for i in range(count)]
    for name, _, _, _, offset, length in headers:
        if data[headers[names][4] + name :].startswith(b".BTF\0"):
            return data[offset : offset + length]
    raise AssertionError(f"{path} has no BTF")


def test_a_kernel_without_struct_ops_for_tcp(bpffs: Path, tmp_path: Path) -> None:
    """Its BTF is that of our own object: it has the members, but nothing else of a kernel."""
    blob = tmp_path / "btf"
    blob.write_bytes(btf_of(kernel.ROOT / "build/bpf/tcp_lp.bpf.o"))
    script = hide("/sys/kernel/btf/vmlinux", blob)
    done = lacking(script, "enable tcp_lp")
    assert done.returncode == 3, done
    assert "struct_ops" in done.stderr and "Linux 6.1" in done.stderr
    done = lacking(script, "-j check")
    assert done.returncode == 3, done
    rows = {row["name"]: row["verdict"] for row in json.loads(done.stdout)["rows"]}
    assert (rows["BTF"], rows["struct_ops"], rows["struct_ops links"]) == ("ok", "missing", "note")
    assert (rows["kernel members"], rows["kernel functions"]) == ("ok", "ok")


def test_a_kernel_whose_structures_lack_members(bpffs: Path, tmp_path: Path) -> None:
    """The same, where a member of tcp_sock and a function have other names."""
    blob = tmp_path / "btf"
    data = btf_of(kernel.ROOT / "build/bpf/tcp_lp.bpf.o")
    for name in (b"\0mss_cache\0", b"\0tcp_slow_start\0"):
        assert data.count(name) == 1
        data = data.replace(name, name.upper())
    blob.write_bytes(data)
    done = lacking(hide("/sys/kernel/btf/vmlinux", blob), "-j check")
    assert done.returncode == 3, done
    rows = {row["name"]: row["found"] for row in json.loads(done.stdout)["rows"]}
    assert rows["kernel members"] == "tcp_sock.mss_cache"
    assert rows["kernel functions"] == "tcp_slow_start"


def test_a_kernel_whose_jit_is_off(bpffs: Path, tmp_path: Path) -> None:
    off = tmp_path / "jit"
    off.write_text("0\n")
    script = hide("/proc/sys/net/core/bpf_jit_enable", off)
    done = lacking(script, "enable tcp_lp")
    assert done.returncode == 3, done
    assert "sysctl net.core.bpf_jit_enable=1" in done.stderr
    assert lacking(script, "check").returncode == 3


# A /sys/kernel of the test's own: BTF, and what it writes into security/.
SECURITY = """
mkdir {room}/btf; mount --bind /sys/kernel/btf {room}/btf; mount -t tmpfs none /sys/kernel
mkdir /sys/kernel/btf /sys/kernel/security; mount --bind {room}/btf /sys/kernel/btf
"""


@pytest.mark.parametrize(
    ("mode", "verdict", "found"),
    [
        ("[none] integrity confidentiality", "ok", "does not forbid BPF"),
        ("none [integrity] confidentiality", "ok", "does not forbid BPF"),
        ("none integrity [confidentiality]", "note", "confidentiality"),
    ],
)
def test_check_says_what_lockdown_forbids(bpffs: Path, tmp_path: Path, mode: str, verdict: str, found: str) -> None:
    """In its strictest mode it forbids programs to read kernel memory."""
    script = SECURITY.format(room=tmp_path) + f"echo '{mode}' >/sys/kernel/security/lockdown"
    row = rows_of(lacking(script, "-j check"))["lockdown"]
    assert (row["verdict"], row["found"]) == (verdict, found)
    assert ("boot with lockdown=integrity" in (row["remedy"] or "")) == (verdict == "note")


def test_check_does_not_know_lockdown_without_securityfs(bpffs: Path, tmp_path: Path) -> None:
    row = rows_of(lacking(SECURITY.format(room=tmp_path) + "true", "-j check"))["lockdown"]
    assert (row["verdict"], row["found"]) == ("note", "unknown: securityfs is not mounted")
    assert row["remedy"] == "`mount -t securityfs securityfs /sys/kernel/security`"


# The file system of the test's /sys/kernel/security is taken for securityfs: the kernel's own may have a file of lockdown.
SECURITYFS = """
#define _GNU_SOURCE
#include <linux/magic.h>
#include <string.h>
#include <sys/syscall.h>
#include <sys/vfs.h>
#include <unistd.h>
int statfs(const char *path, struct statfs *fs)
{
	int err = syscall(SYS_statfs, path, fs);
	if (!err && !strcmp(path, "/sys/kernel/security"))
		fs->f_type = SECURITYFS_MAGIC;
	return err;
}
"""


def test_check_of_a_kernel_without_lockdown(bpffs: Path, tmp_path: Path) -> None:
    """Its securityfs is mounted and has no such file."""
    (tmp_path / "statfs.c").write_text(SECURITYFS)
    kernel.run("gcc", "-shared", "-fPIC", "-o", tmp_path / "statfs.so", tmp_path / "statfs.c")
    script = SECURITY.format(room=tmp_path) + f"export LD_PRELOAD={tmp_path / 'statfs.so'}"
    row = rows_of(lacking(script, "-j check"))["lockdown"]
    assert (row["verdict"], row["found"], row["remedy"]) == ("ok", "does not forbid BPF", None)


def test_check_names_the_security_modules(bpffs: Path, tmp_path: Path) -> None:
    (tmp_path / "without").mkdir()
    script = SECURITY.format(room=tmp_path) + "printf lockdown,yama,bpf >/sys/kernel/security/lsm"
    row = rows_of(lacking(script, "-j check"))["security modules"]
    assert (row["verdict"], row["found"], row["remedy"]) == ("ok", "lockdown,yama,bpf", None)
    assert "security modules" not in rows_of(lacking(SECURITY.format(room=tmp_path / "without") + "true", "-j check"))


def test_check_misses_cgroup_v2(bpffs: Path) -> None:
    """Unmounted, where no process above has it mounted either. The controllers work without."""
    unmount = "mount -t proc proc /proc; umount $(awk '/ - cgroup2 /{ print $5 }' /proc/self/mountinfo); $CCBPF -j check"
    done = in_mount_namespace(f"exec unshare --mount --pid --fork sh -euc {shlex.quote(unmount)}")
    row = rows_of(done)["cgroup v2"]
    assert (done.returncode, row["verdict"], row["found"]) == (0, "note", "not mounted"), done
    assert row["remedy"] and "`mount -t cgroup2 cgroup2 /sys/fs/cgroup/unified`" in row["remedy"]


@pytest.mark.parametrize(
    ("missing", "words", "remedy"),
    [
        ("cap_net_admin", ("--bounding-set=-net_admin",), "root lacks it here, as in a container"),
        ("cap_bpf, cap_perfmon", ("--bounding-set=-bpf,-perfmon",), "root lacks it here, as in a container"),
        ("cap_bpf, cap_perfmon, cap_net_admin", ("--reuid=65534", "--clear-groups"), "run it as root"),
    ],
)
def test_check_names_the_missing_capabilities(ccbpf: Cli, missing: str, words: tuple[str, ...], remedy: str) -> None:
    """The exit code says that nothing but permission is missing."""
    found = ccbpf("-j", "check", code=4, prefix=("setpriv", *words)).json["rows"]
    (row,) = [row for row in found if row["name"] == "capabilities"]
    assert (row["verdict"], row["found"]) == ("missing", f"lacks {missing}")
    assert row["remedy"].startswith(remedy)


def test_without_cap_sys_admin_controllers_work_and_rules_do_not(ccbpf: Cli) -> None:
    """The kernel opens maps by their ids for nobody else. `check` says it before, and the error names it."""
    lacks = ("setpriv", "--bounding-set=-sys_admin")
    (row,) = [row for row in ccbpf("-j", "check", prefix=lacks).json["rows"] if row["name"] == "capabilities"]
    assert (row["verdict"], row["found"]) == ("note", "lacks cap_sys_admin, for rules, `run` and other network namespaces")
    ccbpf("enable", "ltcp", prefix=lacks)
    ccbpf("assign", "ltcp", "--remote", "192.0.2.0/24")
    for words in (["assign", "list"], ["assign", "remove", "--all"], ["metrics"]):
        assert (
            "Operation not permitted: this process lacks cap_sys_admin; root lacks it here"
            in ccbpf(*words, code=4, prefix=lacks).err
        )


def test_an_old_libbpf(ccbpf: Cli, tmp_path: Path) -> None:
    (tmp_path / "old.c").write_text("unsigned libbpf_minor_version(void) { return 1; }")
    kernel.run("gcc", "-shared", "-fPIC", "-o", tmp_path / "old.so", tmp_path / "old.c")
    old = Cli(ccbpf.root, {"LD_PRELOAD": str(tmp_path / "old.so")})
    result = old("enable", "tcp_lp", code=3)
    assert "too old" in result.err and "libbpf 1.4" in result.err
    old("check", code=3)


FILES: list[tuple[dict[str, str], str | None]] = [
    ({}, None),
    ({"etc/sysctl.d/10-a.conf": "net.ipv4.tcp_congestion_control = reno\n"}, "reno, by /etc/sysctl.d/10-a.conf"),
    ({"etc/sysctl.d/10-a.conf": "# net.ipv4.tcp_congestion_control = reno\n;net.ipv4.tcp_congestion_control=bbr\n"}, None),
    ({"etc/sysctl.d/10-a.txt": "net.ipv4.tcp_congestion_control = reno\n"}, None),
    (
        {"usr/lib/sysctl.d/10-a.conf": " -net/ipv4/tcp_congestion_control=reno\nnet.ipv4.tcp_congestion_control = bbr"},
        "bbr, by /usr/lib/sysctl.d/10-a.conf",
    ),
    (
        {
            "etc/sysctl.d/10-a.conf": "net.ipv4.tcp_congestion_control = reno\n",
            "usr/lib/sysctl.d/90-b.conf": "net.ipv4.tcp_congestion_control = bbr\n",
        },
        "bbr, by /usr/lib/sysctl.d/90-b.conf",
    ),
    ({"etc/sysctl.d/90-b.conf": "", "usr/lib/sysctl.d/90-b.conf": "net.ipv4.tcp_congestion_control = bbr\n"}, None),
    (
        {
            "etc/sysctl.d/90-b.conf": "net.ipv4.tcp_congestion_control = reno\n",
            "etc/sysctl.conf": "net.ipv4.tcp_congestion_control = bbr\n",
        },
        "bbr, by /etc/sysctl.conf",
    ),
    (
        {
            "etc/sysctl.d/10-a.conf": "net.ipv4.tcp_congestion_control_old = reno\nnet.ipv4.tcp_congestion = reno\nnet.ipv4.tcp_congestion_control\n"
        },
        None,
    ),
    ({"etc/sysctl.d/10-a.conf": "x" * 5000 + "\nnet.ipv4.tcp_congestion_control=" + "y" * 5000}, "y" * 20),
    (
        {
            "etc/sysctl.d/10-a.conf": "net.ipv4.tcp_congestion_control = reno\n",
            "etc/tuned/active_profile": "balanced mine\n",
            "etc/tuned/mine/tuned.conf": "[sysctl]\nnet.ipv4.tcp_congestion_control=htcp\n",
        },
        "reno, by /etc/sysctl.d/10-a.conf",  # tuned applies it after its profile
    ),
    (
        {
            "etc/sysctl.d/10-a.conf": "net.ipv4.tcp_congestion_control = reno\n",
            "etc/tuned/active_profile": "balanced mine\n",
            "etc/tuned/mine/tuned.conf": "[sysctl]\nnet.ipv4.tcp_congestion_control=htcp\n",
            "etc/tuned/tuned-main.conf": "reapply_sysctl = 0\n",
        },
        "htcp, by /etc/tuned/mine/tuned.conf",
    ),
    (
        {
            "usr/lib/sysctl.d/90-b.conf": "net.ipv4.tcp_congestion_control = bbr\n",
            "etc/tuned/active_profile": "mine\n",
            "etc/tuned/mine/tuned.conf": "[sysctl]\nnet.ipv4.tcp_congestion_control=htcp\n",
            "etc/tuned/tuned-main.conf": "reapply_sysctl = 1\n",
        },
        "htcp, by /etc/tuned/mine/tuned.conf",
    ),
    (
        {"proc/cmdline": "quiet sysctl.net.ipv4.tcp_ecn_x=1 sysctl.net/ipv4/tcp_congestion_control=bbr ro\n"},
        "bbr, by /proc/cmdline",
    ),
    (
        {
            "proc/cmdline": "sysctl.net.ipv4.tcp_congestion_control=bbr\n",
            "etc/sysctl.d/10-a.conf": "net.ipv4.tcp_congestion_control = reno\n",
        },
        "reno, by /etc/sysctl.d/10-a.conf",
    ),
    (
        {
            "etc/tuned/active_profile": "mine\n",
            "etc/tuned/mine/tuned.conf": "[main]\ninclude=mine, other\n",
            "etc/tuned/other/tuned.conf": "[sysctl]\nnet.ipv4.tcp_congestion_control=htcp\n",
        },
        "htcp, by /etc/tuned/other/tuned.conf",
    ),
    (
        {
            "etc/tuned/active_profile": "mine\n",
            "etc/tuned/mine/tuned.conf": "[main]\ninclude=other\n[sysctl]\nnet.ipv4.tcp_congestion_control=reno\n",
            "etc/tuned/other/tuned.conf": "[sysctl]\nnet.ipv4.tcp_congestion_control=htcp\n",
        },
        "reno, by /etc/tuned/mine/tuned.conf",
    ),
    (
        {
            "etc/tuned/active_profile": "mine\n",
            "etc/tuned/profiles/mine/tuned.conf": "[main]\ninclude=-mine\n",
            "etc/tuned/mine/tuned.conf": "[sysctl]\nnet.ipv4.tcp_congestion_control=htcp\n",
        },
        "htcp, by /etc/tuned/mine/tuned.conf",  # of two with one name the second is included
    ),
]


@pytest.mark.parametrize(("files", "found"), FILES, ids=range(len(FILES)))
def test_check_names_the_file_that_sets_the_default_at_boot(
    ccbpf: Cli, tmp_path: Path, files: dict[str, str], found: str | None
) -> None:
    """The test's own /etc and /usr/lib/sysctl.d, in a mount namespace. A FIFO there sets nothing and does not block the command."""
    for directory in ("etc/sysctl.d", "usr/lib/sysctl.d"):
        (tmp_path / directory).mkdir(parents=True)
    os.mkfifo(tmp_path / "etc/sysctl.d/99-fifo.conf")
    for name, content in {"proc/cmdline": "quiet\n", **files}.items():
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / name).write_text(content)
    script = 'for d in etc usr/lib/sysctl.d; do mount --bind "$1/$d" "/$d"; done; mount --bind "$1/proc/cmdline" /proc/cmdline; shift; exec "$@"'
    prefix = ["unshare", "--mount", "--propagation=private", "sh", "-euc", script, "sh", str(tmp_path)]
    rows = {row["name"]: row for row in ccbpf("-j", "check", prefix=prefix).json["rows"]}
    row = rows["default at boot"]
    assert row["verdict"] == ("note" if found else "ok")
    assert row["found"].startswith(found or "no file sets it")
    assert ("enable --default" in (row["remedy"] or "")) == bool(found)
    assert rows["ECN at boot"]["verdict"] == "ok"


@pytest.mark.parametrize(
    ("setting", "found", "remedy"),
    [
        ("net.ipv4.tcp_timestamps=0", "tcp_timestamps=0: new connections are received as usual", "tcp_timestamps=1"),
        ("net.ipv4.tcp_rmem=4096 131072 67108864", "tcp_rmem of 64 MB or more", "33554432"),
        ("net.ipv4.tcp_rmem=4096 131072 67108863", None, None),
    ],
)
def test_check_says_which_setting_keeps_downloads_out(ccbpf: Cli, setting: str, found: str | None, remedy: str | None) -> None:
    with kernel.Namespace("settings") as namespace:
        namespace.sysctl(setting)
        rows = ccbpf("-j", "check", prefix=("ip", "netns", "exec", namespace.name)).json["rows"]
    (row,) = [row for row in rows if row["name"] == "downloads"]
    assert row["verdict"] == ("note" if found else "ok")
    assert (found or "") in row["found"] and (remedy or "") in (row["remedy"] or "")


def in_mount_namespace(script: str) -> subprocess.CompletedProcess[str]:
    """A script where /sys/fs/bpf is not mounted."""
    environment = {k: v for k, v in os.environ.items() if k != "CCBPF_PIN_ROOT"} | {"CCBPF": str(CCBPF)}
    return subprocess.run(
        ["unshare", "--mount", "--propagation=private", "sh", "-euc", "umount /sys/fs/bpf; " + script],
        capture_output=True,
        text=True,
        timeout=30,
        env=environment,
    )


def test_enable_mounts_bpffs_where_it_is_missing(bpffs: Path) -> None:
    done = in_mount_namespace(
        "$CCBPF check | grep 'bpffs *note'; $CCBPF status; ! mountpoint -q /sys/fs/bpf;"
        "$CCBPF enable tcp_lp; test -e /sys/fs/bpf/ccbpf/tcp_lp/link; $CCBPF disable tcp_lp;"
        "! test -e /sys/fs/bpf/ccbpf; mountpoint /sys/fs/bpf"
    )
    assert done.returncode == 0, done
    assert "is a mountpoint" in done.stdout


def test_without_permission_to_mount_the_capability_is_named(bpffs: Path) -> None:
    done = in_mount_namespace("exec setpriv --bounding-set=-sys_admin $CCBPF enable tcp_lp")
    assert done.returncode == 4, done
    assert "cap_sys_admin" in done.stderr
    assert "mount -t bpf" in done.stderr


def test_what_ip_hides_is_found_above_a_process_of_any_name(bpffs: Path, tmp_path: Path) -> None:
    """`ip netns exec` hides bpffs and the cgroups; they are seen through the processes above. This one has a newline."""
    shell = tmp_path / "a\n(b) c"
    shutil.copy("/bin/sh", shell)
    with kernel.Namespace("above") as namespace:
        said = namespace.run(shell, "-c", f"{CCBPF} -j check; true").stdout
    rows = {row["name"]: row["verdict"] for row in json.loads(said)["rows"]}
    assert rows["bpffs"] == "ok"
