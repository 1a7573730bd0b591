# SPDX-License-Identifier: GPL-2.0-only
"""What leaves a device, with the kernel's own times: a packet socket.

with Wire(namespace, "veth0") as wire:
    …
    for packet in wire.packets():      # those that left since the last call
"""

from __future__ import annotations

import socket
import struct
from typing import NamedTuple

from .kernel import Namespace, inside

LE = 0b000001  # RFC 8622
ETH_P_ALL = 3
PACKET_OUTGOING = 4
SO_TIMESTAMPNS = 35
ARPHRD_ETHER = 1


class Packet(NamedTuple):
    """A TCP packet that left."""

    at_ns: int  # CLOCK_REALTIME
    dscp: int
    ecn: int
    port: int  # its destination's
    seq: int
    flags: int
    length: int  # of its data


class Wire:
    def __init__(self, namespace: Namespace, device: str) -> None:
        with inside(namespace.name):
            self._socket = socket.socket(socket.AF_PACKET, socket.SOCK_DGRAM, socket.htons(ETH_P_ALL))
        self._socket.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUFFORCE if hasattr(socket, "SO_RCVBUFFORCE") else 33, 1 << 26)
        self._socket.setsockopt(socket.SOL_SOCKET, SO_TIMESTAMPNS, 1)
        self._socket.bind((device, ETH_P_ALL))
        self._socket.setblocking(False)

    def __enter__(self) -> Wire:
        return self

    def __exit__(self, *_: object) -> None:
        self._socket.close()

    def packets(self) -> list[Packet]:
        found: list[Packet] = []
        while True:
            try:
                data, ancillary, _, address = self._socket.recvmsg(128, 64)
            except BlockingIOError:
                return found
            if address[2] == PACKET_OUTGOING and (packet := _tcp(data, _time_ns(ancillary))):
                found.append(packet)


def _time_ns(ancillary: list[tuple[int, int, bytes]]) -> int:
    for level, kind, data in ancillary:
        if (level, kind) == (socket.SOL_SOCKET, SO_TIMESTAMPNS):
            seconds, ns = struct.unpack("=qq", data[:16])
            return int(seconds * 10**9 + ns)
    return 0


def _tcp(data: bytes, at_ns: int) -> Packet | None:
    if data[0] >> 4 == 4 and data[9] == 6:
        tos, at, length = data[1], (data[0] & 15) * 4, struct.unpack_from(">H", data, 2)[0]
    elif data[0] >> 4 == 6 and data[6] == 6:
        tos, at = struct.unpack_from(">H", data)[0] >> 4 & 255, 40
        length = struct.unpack_from(">H", data, 4)[0] + 40
    else:
        return None
    port, seq, _, offset, flags = struct.unpack_from(">HIIBB", data, at + 2)
    return Packet(at_ns, tos >> 2, tos & 3, port, seq, flags, length - at - (offset >> 4) * 4)
