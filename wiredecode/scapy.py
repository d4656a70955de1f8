"""The protocols for users of Scapy: ``import wiredecode.scapy`` registers them.

After it, ``rdpcap``, ``sniff`` and ``TCP(...)`` know the frames of all protocols on their ports. The base class of a
protocol (:data:`BASES`) dispatches: ``Command(raw)`` is a ``Publish`` where the bytes say so. What follows a frame in a
segment is its payload. :class:`Session` reads frames from reassembled streams: ``sniff(session=Session, ...)``.
"""

from collections.abc import Iterator, Mapping
from functools import partial, partialmethod
from types import MappingProxyType
from typing import Any

import numpy as np
from scapy.config import conf
from scapy.error import Scapy_Exception
from scapy.layers.inet import TCP
from scapy.packet import Packet, Raw, bind_layers
from scapy.sessions import DefaultSession

from wiredecode.capture import PacketBatch
from wiredecode.dissect.dissector import Demand, Dissector
from wiredecode.fields.layer import Layer
from wiredecode.frames.frame import Frame
from wiredecode.net.types import Connection
from wiredecode.protocols.base import Protocol, Start, Verdict
from wiredecode.protocols.registry import decoding, protocols

__all__ = ["BASES", "Session", "register"]

KEPT_PACKETS = 10_000
"""Headers of packets that are remembered for the frames that end in them."""


def base_of(protocol: Protocol) -> type[Layer] | None:
    """The class that all messages of a protocol have in common; None if there is none."""
    for layer in protocol.layers():
        if layer.filter_name == protocol.name:
            own = [cls for cls in reversed(layer.__mro__) if issubclass(cls, Layer) and not cls.fields_desc]
            return next((cls for cls in own if cls.filter_name == protocol.name), None)
    return None


def first_frame(protocol: Protocol, data: bytes) -> tuple[int, int]:
    """Where the first frame ends and how many bytes of it are missing; ``(0, 0)``: no frame begins here."""
    split = protocol.split_first(data)
    if split.ends:
        return split.ends[0], 0
    if split.bad is not None or len(data) < protocol.header_bytes:
        return 0, 0
    return len(data), max(split.need - len(data), 1) if split.need else 1


def layer_of(protocol: Protocol, data: bytes, client: bool | None = None) -> type[Layer] | None:
    """Message type of the first frame in ``data``. ``client``: whether the client sent it; None: the bytes decide."""
    stop, missing = first_frame(protocol, data)
    if not stop:
        return None
    if client is None:
        verdict = protocol.recognise(data, started=True, final=True, port=True)
        client = verdict.client if isinstance(verdict, Verdict) else None
    ports = (40000, protocol.ports[0])
    connection = Connection(1, (f"192.0.2.1:{ports[0]}", f"192.0.2.2:{ports[1]}"), ports, None if client is None else 0)
    side = int(client is False)
    conversation = protocol.new_session().conversation(Start(connection))
    frame = Frame(connection, side, data, 0, stop, 0, stop + missing, missing, [1], 1, 0, 0, is_partial=missing > 0)
    conversation.decode(frame, None)
    return frame.layer


def _dispatch(protocol: Protocol, base: type[Layer], data: Any = None, **how: Any) -> type[Packet]:
    """The class that Scapy is to make of ``base(data)``.

    In a packet, what would not build to the bytes it was read from stays ``Raw``: a truncated or malformed frame.
    Scapy builds packets anew more often than one thinks, ``sniff(offline=packets)`` does it.
    """
    if not data:
        return base
    under = how.get("_underlayer")
    ports = () if not isinstance(under, TCP) else (under.sport, under.dport)
    sides = [port in protocol.ports for port in ports]
    dispatched["data"] = data
    layer = layer_of(protocol, data, sides[1] if sum(sides) == 1 else None)
    stop = first_frame(protocol, data)[0]
    if layer is None or (under is not None and bytes(layer.within(data, 0, stop)) != data[:stop]):
        return Raw
    return layer


def _end(self: Layer, protocol: Protocol, data: bytes) -> int:
    """Where the frame ends, if Scapy came by a packet or by the base class; a message type takes all it is given."""
    if self.underlayer is None and data is not dispatched["data"]:
        return len(data)
    return first_frame(protocol, data)[0] or len(data)


dispatched: dict[str, bytes] = {"data": b""}
"""Argument of the last call of a base class."""


def _guess(self: Layer, base: type[Layer], payload: bytes) -> type[Packet]:
    """The next frame follows a frame; surplus bytes are nothing."""
    return base if self.frame_end is None or self.stop == self.frame_end(self.original) else Raw


def _show2(self: Layer, base: type[Layer], *args: Any, **how: Any) -> Any:
    """Scapy's, for a frame that others follow: the base class divides them, a message type would not."""
    built = base(bytes(self), _underlayer=self.underlayer)
    return built.show(*args, **how) if type(built) is type(self) else Packet.show2(self, *args, **how)


def _name_layers() -> None:
    """List only messages in ``ls()``, with the name of their layer in front: many have an ``Open``."""
    conf.layers[:] = [each for each in conf.layers if not issubclass(each, Layer) or each.filter_name]
    for layer in conf.layers:
        if issubclass(layer, Layer):
            layer._name = f"{layer.filter_name} {layer.__name__}"  # type: ignore[attr-defined]  # of its metaclass


def register() -> dict[str, type[Layer]]:
    """Register every installed protocol in Scapy; return the base class of each."""
    bases: dict[str, type[Layer]] = {}
    for protocol in protocols():
        base = base_of(protocol)
        if base is None:
            continue
        bases[protocol.name] = base
        hooks: dict[str, Any] = {
            "dispatch_hook": staticmethod(partial(_dispatch, protocol, base)),
            "frame_end": partialmethod(_end, protocol),
            "guess_payload_class": partialmethod(_guess, base),
            "show2": partialmethod(_show2, base),
        }
        for name, hook in hooks.items():
            setattr(base, name, hook)
        for layer in protocol.layers():
            if layer not in conf.layers:
                conf.layers.register(layer)
        for port in protocol.ports:
            bind_layers(TCP, base, dport=port)
            bind_layers(TCP, base, sport=port)
    _name_layers()
    return bases


class Session(DefaultSession):
    """Frames from reassembled streams: ``sniff(session=Session, offline=...)`` or live.

    Segments are put in order, retransmissions dropped, and no byte that was not captured is made up. A frame comes as
    the headers of the packet that completed it with the frame's layer on top; packets without payload come as they are.
    """

    def __init__(self, *args: Any, decode_as: Mapping[int, str] = MappingProxyType({}), **options: Any) -> None:
        """``decode_as``: what is spoken on ports, as in ``wiredecode.read``; ``options``: of :class:`Demand`."""
        super().__init__(*args)
        self.dissector = Dissector(Demand(link_responses=False, decode_as=decoding(decode_as), **options))
        self.count = 0
        self.headers: dict[int, Packet] = {}

    def recv(self, sock: Any) -> Iterator[Packet]:
        try:
            packet = sock.recv()
        except EOFError:
            yield from map(self._packet, self.dissector.finish())
            raise
        if packet is None:
            return
        self.count += 1
        if TCP not in packet or not packet[TCP].payload:
            yield packet
        headers = packet.copy()
        if TCP in headers:
            headers[TCP].remove_payload()
        self.headers[self.count] = headers
        self.headers.pop(self.count - KEPT_PACKETS, None)
        yield from map(self._packet, self.dissector.feed(self._batch(packet)))

    def _batch(self, packet: Packet) -> PacketBatch:
        """The packet as the reassembler takes it."""
        raw = bytes(packet.original or packet)
        try:
            linktype = conf.l2types[type(packet)]
        except (KeyError, Scapy_Exception):
            linktype = 1
        values: dict[str, int] = {
            "start": 0,
            "captured": len(raw),
            "original": packet.wirelen or len(raw),
            "number": self.count,
        }
        columns: dict[str, Any] = {name: np.array([value], np.int64) for name, value in values.items()}
        link: dict[str, Any] = {"linktype": np.array([linktype], np.int32), "interface": np.zeros(1, np.int32)}
        return PacketBatch(buffer=raw, time_ns=np.array([int(packet.time * 10**9)], np.int64), **columns, **link)

    def _packet(self, frame: Frame) -> Packet:
        """The frame on the headers of the packet that completed it."""
        headers = self.headers.get(min(frame.packet_ready, self.count))  # after the last: at the end
        layer = frame.packet()
        if headers is None:
            return layer
        packet = headers.copy() / layer
        packet.time = headers.time
        return packet


BASES = register()
"""The base class of each protocol, by its name: ``BASES["rabbitmq_stream"](raw)``."""
