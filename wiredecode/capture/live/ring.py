"""Packets from a packet socket, through memory shared with the kernel (packet_mmap, TPACKET_V3; Linux 3.2 and later).

The kernel fills one block after the other and hands a block over when it is full or `RETIRE_MS` old: reading costs one
copy and a few numpy calls per block, for any number of packets, and the ring holds packets that come in the meantime.

::

    block  version 4 | offset of private data 4 | status 4 | packets 4 | first packet at 4 | bytes used 4 | ...
    packet next packet at 4 | seconds 4 | ns 4 | captured 4 | original 4 | status 4 | link header at 2 |
           network header at 2 | hash 4 | VLAN tag 4 | VLAN ethertype 2 | 10 | sockaddr_ll 20 | ... packet
"""

import ctypes
import mmap
import os
import select
import socket
import struct
import sys
from contextlib import suppress

import numpy as np
import numpy.typing as npt

from wiredecode.arrays import Int64s
from wiredecode.capture.batch import NS_PER_SECOND, PacketBatch, gather
from wiredecode.capture.live import bpf
from wiredecode.capture.live.interfaces import LINKTYPE_ETHERNET, Device, LiveError

MIB = 1 << 20
BLOCK_BYTES = 512 * 1024
"""A packet must fit into one block."""
RETIRE_MS = 50
"""So old a block may become before it is handed over, full or not."""
COPY_BYTES = MIB
"""Most bytes of a batch."""

_SOL_PACKET = 263
_ADD_MEMBERSHIP, _RX_RING, _STATISTICS, _VERSION, _RESERVE, _IGNORE_OUTGOING = 1, 5, 6, 10, 12, 23
_TPACKET_V3 = 2
_PROMISCUOUS = 1
_ETH_P_ALL = 3
_RESERVED_BYTES = 24
"""Room before every packet, for a VLAN tag or a cooked header."""
_STATUS_AT = 8
_STATUS_USER, _STATUS_KERNEL = 1, 0
_VLAN_VALID, _VLAN_TPID_VALID = 1 << 4, 1 << 6
_LOOPBACK, _OUTGOING = 772, 4
_BLOCK = struct.Struct("=IIIIII")
_SLL = 48
"""Where the sockaddr_ll of a packet is: family 2, protocol 2, interface 4, hardware 2, kind 1, length 1, address 8."""
_SLL2_BYTES = 20
_TAG_AT, _TAG_BYTES = 12, 4
# LINUX_SLL2: protocol 2, reserved 2, interface 4, hardware 2, kind 1, length 1, address 8; big-endian
_SLL2_FROM = (
    [2, 3, 0, 0, 7, 6, 5, 4, 9, 8, *range(10, 20)]
    if sys.byteorder == "little"
    else [2, 3, 0, 0, 4, 5, 6, 7, 8, 9, *range(10, 20)]
)


class PacketRing:
    """An open packet socket on ``device``. Nothing that came before the filter was in place gets in.

    program: what the kernel runs on each packet, see `bpf`. Raises PermissionError without CAP_NET_RAW, LiveError where
    the ring cannot be made.
    """

    def __init__(self, device: Device, program: bytes, *, promiscuous: bool, buffer_bytes: int) -> None:
        self.device = device
        self._received = self._dropped = 0
        self._next = 0
        self._count = 0
        kind = socket.SOCK_DGRAM if device.cooked else socket.SOCK_RAW
        self._socket = socket.socket(socket.AF_PACKET, kind, 0)  # 0: nothing comes before bind
        try:
            bpf.attach(self._socket, program)
            self._blocks, self._ring = self._map(buffer_bytes)
            if promiscuous and device.index:
                request = struct.pack("iHH8s", device.index, _PROMISCUOUS, 0, b"")
                self._socket.setsockopt(_SOL_PACKET, _ADD_MEMBERSHIP, request)
            self._bind()
        except BaseException:
            self._socket.close()
            raise
        self._view = memoryview(self._ring)
        self._poll = select.poll()
        self._poll.register(self._socket, select.POLLIN)

    def _map(self, buffer_bytes: int) -> tuple[int, mmap.mmap]:
        option = self._socket.setsockopt
        option(_SOL_PACKET, _VERSION, _TPACKET_V3)
        option(_SOL_PACKET, _RESERVE, _RESERVED_BYTES)
        blocks = max(2, buffer_bytes // BLOCK_BYTES)
        frame = BLOCK_BYTES  # only checked for plausibility: packets lie one after another
        try:
            option(_SOL_PACKET, _RX_RING, struct.pack("7I", BLOCK_BYTES, blocks, frame, blocks, RETIRE_MS, 0, 0))
            return blocks, mmap.mmap(self._socket.fileno(), BLOCK_BYTES * blocks)
        except OSError as error:
            problem = f"no buffer of {BLOCK_BYTES * blocks // MIB} MiB for packets: {error.strerror}"
            raise LiveError(problem, "try a smaller --buffer") from None

    def _bind(self) -> None:
        if self.device.index:
            with suppress(OSError):  # before Linux 4.20 they are only left out when read
                self._socket.setsockopt(_SOL_PACKET, _IGNORE_OUTGOING, int(self.device.name == "lo"))
            self._socket.bind((self.device.name, _ETH_P_ALL))
        else:
            _bind_to_all(self._socket)

    def read(self, wait: float) -> PacketBatch | None:
        """The packets in the ring; None if none came in ``wait`` seconds. Raises OSError if the interface is gone."""
        parts = self._copy_blocks()
        if not parts:
            if self._poll.poll(wait * 1000):
                self._check()
                parts = self._copy_blocks()
            if not parts:
                return None
        return self._batch(parts)

    def stop(self) -> None:
        """Let nothing more in; what is in the ring can still be read."""
        bpf.attach(self._socket, bpf.accept(0))

    def counts(self) -> tuple[int, int]:
        """(packets that passed the filter, those of them dropped because the ring was full), since the start."""
        received, dropped, _ = struct.unpack("3I", self._socket.getsockopt(_SOL_PACKET, _STATISTICS, 12))
        self._received += received  # the kernel counts from zero after each question
        self._dropped += dropped
        return self._received, self._dropped

    def close(self) -> None:
        self._view.release()
        self._ring.close()
        self._socket.close()

    def _check(self) -> None:
        number = self._socket.getsockopt(socket.SOL_SOCKET, socket.SO_ERROR)
        if number:
            raise OSError(number, "the interface is down or gone", self.device.name)

    def _copy_blocks(self) -> list[bytes]:
        """Copies of the blocks that are ready; the kernel has them back."""
        parts: list[bytes] = []
        size = 0
        while size < COPY_BYTES:
            at = self._next * BLOCK_BYTES
            _, _, status, _, _, used = _BLOCK.unpack_from(self._view, at)
            if not status & _STATUS_USER:
                break
            parts.append(bytes(self._view[at : at + used]))
            size += used
            struct.pack_into("=I", self._view, at + _STATUS_AT, _STATUS_KERNEL)
            self._next = (self._next + 1) % self._blocks
        return parts

    def _batch(self, parts: list[bytes]) -> PacketBatch:
        buffer = parts[0] if len(parts) == 1 else b"".join(parts)
        at = _packets(parts)
        kind = gather(buffer, at + _SLL + 10, "u1")
        own = (kind == _OUTGOING) & (gather(buffer, at + _SLL + 8, "=u2") == _LOOPBACK)
        if own.any():  # on loopback every packet passes twice: out, and in again
            at = at[~own]
        start = at + gather(buffer, at + 24, "=u2")
        captured, original = gather(buffer, at + 12, "=u4"), gather(buffer, at + 16, "=u4")
        if self.device.cooked:
            buffer, start = _cook(buffer, at, start)
            captured, original = captured + _SLL2_BYTES, original + _SLL2_BYTES
        elif self.device.linktype == LINKTYPE_ETHERNET:
            status = gather(buffer, at + 20, "=u4")
            tagged = (status & _VLAN_VALID != 0) & (captured >= _TAG_AT)
            if tagged.any():
                buffer = _tag(buffer, at[tagged], start[tagged], status[tagged])
                more = _TAG_BYTES * tagged
                start, captured, original = start - more, captured + more, original + more
        first, count = self._count + 1, len(at)
        self._count += count
        return PacketBatch(
            buffer=buffer,
            start=start,
            captured=captured,
            original=original,
            time_ns=gather(buffer, at + 4, "=u4") * NS_PER_SECOND + gather(buffer, at + 8, "=u4"),
            linktype=np.full(count, self.device.linktype, np.int32),
            interface=np.zeros(count, np.int32),
            number=np.arange(first, first + count, dtype=np.int64),
        )


def _bind_to_all(packets: socket.socket) -> None:
    """Bind to interface 0, all interfaces, for which Python's bind has no name."""
    address = struct.pack("=HHi12x", socket.AF_PACKET, socket.htons(_ETH_P_ALL), 0)
    libc = ctypes.CDLL(None, use_errno=True)
    if libc.bind(packets.fileno(), address, len(address)):
        number = ctypes.get_errno()
        raise OSError(number, os.strerror(number))


def _packets(parts: list[bytes]) -> Int64s:
    """Where the packets of some consecutive blocks begin."""
    begins: list[int] = []
    append = begins.append
    step = struct.Struct("=I").unpack_from
    base = 0
    for part in parts:
        _, _, _, count, at, used = _BLOCK.unpack_from(part)
        for _ in range(count):
            append(base + at)
            at += step(part, at)[0]
        base += used
    return np.array(begins, np.int64)


def _cook(buffer: bytes, at: Int64s, start: Int64s) -> tuple[bytes, Int64s]:
    data: npt.NDArray[np.uint8] = np.frombuffer(bytearray(buffer), np.uint8)
    header = data[(at + _SLL)[:, None] + np.array(_SLL2_FROM)]
    header[:, 2:4] = 0
    data[(start - _SLL2_BYTES)[:, None] + np.arange(_SLL2_BYTES)] = header
    return data.tobytes(), start - _SLL2_BYTES


def _tag(buffer: bytes, at: Int64s, start: Int64s, status: Int64s) -> bytes:
    """Insert VLAN tags where the network card removed them: after both addresses, which move to the front."""
    data: npt.NDArray[np.uint8] = np.frombuffer(bytearray(buffer), np.uint8)
    addresses = start[:, None] + np.arange(_TAG_AT)
    data[addresses - _TAG_BYTES] = data[addresses]
    ethertype = np.where(status & _VLAN_TPID_VALID, gather(buffer, at + 36, "=u2"), 0x8100)
    tag = gather(buffer, at + 32, "=u4") & 0xFFFF
    tag_at = start + _TAG_AT - _TAG_BYTES
    for offset, value in enumerate((ethertype >> 8, ethertype & 0xFF, tag >> 8, tag & 0xFF)):
        data[tag_at + offset] = value
    return data.tobytes()
