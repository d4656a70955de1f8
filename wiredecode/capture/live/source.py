"""What every live source offers, and the one that reads a packet socket."""

from __future__ import annotations

import re
from collections.abc import Iterator
from contextlib import suppress
from dataclasses import dataclass
from threading import Event
from typing import Protocol

from wiredecode.capture.batch import PacketBatch
from wiredecode.capture.errors import CaptureError
from wiredecode.capture.file import IDLE_SECONDS, NOTHING
from wiredecode.capture.info import FileInfo, Interface
from wiredecode.capture.live import bpf
from wiredecode.capture.live.errors import LiveError
from wiredecode.capture.live.interfaces import LINKTYPE_ETHERNET, Device, device, on_linux
from wiredecode.capture.live.privileges import how_to_grant
from wiredecode.capture.live.ring import MIB, PacketRing

MAX_SNAPLEN = 262_144


@dataclass(frozen=True, slots=True)
class LiveOptions:
    """What is to be captured."""

    interface: str
    expression: str = ""
    """Capture filter, see pcap-filter(7)."""
    promiscuous: bool = True
    snaplen: int = MAX_SNAPLEN
    buffer_mib: int = 32


class LiveSource(Protocol):
    """An open live capture."""

    info: FileInfo

    def batches(self) -> Iterator[PacketBatch]:
        """Packets as they come, and an empty batch whenever none came for `IDLE_SECONDS`; ends after `stop`."""
        ...

    def stop(self) -> None:
        """Let nothing more in; from any thread. What came before still comes out."""
        ...

    def counts(self) -> tuple[int, int]:
        """(packets that passed the filter, those of them lost before they could be read)."""
        ...

    def close(self) -> None: ...


class RingSource:
    """The packets of an interface, from a packet socket.

    Raises LiveError where that cannot be opened: what is missing, and what to do about it.
    """

    def __init__(self, wanted: LiveOptions) -> None:
        one, expression = device(wanted.interface), wanted.expression
        described = Interface(one.linktype, wanted.snaplen, tsresol=9, name=one.name, filter=expression)
        self.info = FileInfo(one.name, format="live", interfaces=[described])
        self._name = one.name
        self._ended = Event()
        self._final: tuple[int, int] | None = None
        program = bpf.accept(wanted.snaplen)
        if expression:
            if re.search(r"\bvlan\b", expression):
                what = "-f with vlan: VLAN tags are taken out of packets before the filter sees them"
                raise LiveError(what, "--via tcpdump knows where the kernel keeps them")
            ethernet = one.linktype == LINKTYPE_ETHERNET
            program = bpf.compile_filter(expression, ethernet=ethernet, snaplen=wanted.snaplen)
        self._ring = _open(one, program, wanted)

    def batches(self) -> Iterator[PacketBatch]:
        try:
            while True:
                ended = self._ended.is_set()
                batch = self._ring.read(IDLE_SECONDS)
                if batch is None and ended:
                    return
                yield NOTHING if batch is None else batch
        except OSError as error:
            raise CaptureError(self._name, f"cannot be captured on any more: {error.strerror}") from None

    def stop(self) -> None:
        if not self._ended.is_set():
            with suppress(OSError):  # it is over already
                self._ring.stop()
            self._ended.set()

    def counts(self) -> tuple[int, int]:
        return self._final or self._ring.counts()

    def close(self) -> None:
        if self._final is None:
            self._final = self._ring.counts()
            self._ring.close()


def _open(one: Device, program: bytes, wanted: LiveOptions) -> PacketRing:
    if not on_linux():
        raise LiveError(f"cannot capture on {one.name}: packet sockets need Linux", "elsewhere use --via tcpdump")
    try:
        return PacketRing(one, program, promiscuous=wanted.promiscuous, buffer_bytes=wanted.buffer_mib * MIB)
    except PermissionError:
        raise LiveError(f"cannot capture on {one.name}: CAP_NET_RAW is missing", *how_to_grant()) from None
    except OSError as error:
        raise LiveError(f"cannot capture on {one.name}: {error.strerror}") from None
