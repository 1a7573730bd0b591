# SPDX-License-Identifier: GPL-2.0-only
"""What these tests ask of the kernel itself, without the command under test: BPF maps through bpf(2), with the structs
of include/ccbpf, sockets in namespaces, and TCP_INFO.

    registered_by_bpftool(…), pinned(…)   a controller
    Controller                            its kernel name, flows, statistics, parameters, events
    Namespace                             a network namespace of a unique name, removed at the end
    tcp_info(sock)                        the kernel's own view of a connection
    eventually(…)                         a condition that must hold within a bound
"""

from .command import *
from .controllers import *
from .maps import *
from .network import *
from .structs import *
