"""Capture filters: libpcap compiles the expression (pcap-filter(7)), the kernel runs the program on its socket."""

import ctypes
import socket
import struct

from wiredecode.capture.live.interfaces import LiveError

_LIBRARIES = ("libpcap.so.1", "libpcap.so.0.8", "libpcap.so", "libpcap.dylib")
_DLT_ETHERNET, _DLT_RAW = 1, 12
_NETMASK_UNKNOWN = 0xFFFFFFFF
_SO_ATTACH_FILTER = 26
_INSTRUCTION = struct.Struct("=HBBI")
_RETURN = 0x06


class _Program(ctypes.Structure):
    _fields_ = (("length", ctypes.c_uint), ("instructions", ctypes.c_void_p))


def accept(snaplen: int) -> bytes:
    """The program that takes the first ``snaplen`` bytes of every packet; 0: no packet at all."""
    return _INSTRUCTION.pack(_RETURN, 0, 0, snaplen)


def compile_filter(expression: str, *, ethernet: bool, snaplen: int) -> bytes:
    """The program of a filter expression, 8 bytes per instruction; what it lets through is cut at ``snaplen``.

    ethernet: packets begin with an Ethernet header, else with the IP header. Raises LiveError for a wrong expression,
    or where libpcap is missing.
    """
    library = _load()
    handle = library.pcap_open_dead(_DLT_ETHERNET if ethernet else _DLT_RAW, snaplen)
    program = _Program()
    try:
        if library.pcap_compile(handle, ctypes.byref(program), expression.encode(), 1, _NETMASK_UNKNOWN):
            reason = ctypes.string_at(library.pcap_geterr(handle)).decode("utf-8", "replace")
            raise LiveError(f"-f {expression!r}: {reason}", "the syntax is that of tcpdump: man pcap-filter")
        size = program.length * _INSTRUCTION.size
        instructions = ctypes.string_at(program.instructions, size) if program.instructions else b""
        library.pcap_freecode(ctypes.byref(program))
    finally:
        library.pcap_close(handle)
    return instructions


def attach(packets: socket.socket, program: bytes) -> None:
    """Let the kernel run ``program`` on what comes to this socket, from now on."""
    instructions = ctypes.create_string_buffer(program, len(program))
    count = len(program) // _INSTRUCTION.size
    packets.setsockopt(socket.SOL_SOCKET, _SO_ATTACH_FILTER, struct.pack("@HP", count, ctypes.addressof(instructions)))


def _load() -> ctypes.CDLL:
    for name in _LIBRARIES:
        try:
            library = ctypes.CDLL(name)
        except OSError:
            continue
        library.pcap_open_dead.restype = ctypes.c_void_p
        library.pcap_open_dead.argtypes = (ctypes.c_int, ctypes.c_int)
        library.pcap_compile.argtypes = (
            ctypes.c_void_p,
            ctypes.c_void_p,
            ctypes.c_char_p,
            ctypes.c_int,
            ctypes.c_uint32,
        )
        library.pcap_geterr.restype = ctypes.c_void_p
        for function in (library.pcap_geterr, library.pcap_close, library.pcap_freecode):
            function.argtypes = (ctypes.c_void_p,)
        return library
    raise LiveError("-f needs libpcap, which is not installed", "apt install libpcap0.8, or leave the filter to --via")
