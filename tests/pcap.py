"""Writes a pcap file, packet by packet."""

from collections.abc import Iterable
from contextlib import ExitStack
from pathlib import Path
from struct import Struct
from typing import BinaryIO, Literal

from wiredecode.capture.batch import NS_PER_SECOND

SNAPLEN = 262_144


def write_pcap(
    target: str | Path | BinaryIO,
    packets: Iterable[tuple[int, bytes]],
    linktype: int = 1,
    nanoseconds: bool = True,
    byteorder: Literal["little", "big"] = "little",
    snaplen: int = SNAPLEN,
) -> int:
    """Write ``(time_ns, bytes)`` pairs in the given order; return their number.

    Microsecond files round times down. Packets longer than ``snaplen`` are truncated, their original length is
    kept. Raises OverflowError for a time before 1970 or after 2106, which pcap cannot express.
    """
    order = "<" if byteorder == "little" else ">"
    unit, magic = (1, 0xA1B23C4D) if nanoseconds else (1000, 0xA1B2C3D4)
    record = Struct(order + "IIII")
    count = 0
    with ExitStack() as stack:
        file = stack.enter_context(Path(target).open("wb")) if isinstance(target, str | Path) else target
        file.write(Struct(order + "IHHiIII").pack(magic, 2, 4, 0, 0, snaplen, linktype))
        for time_ns, data in packets:
            seconds, fraction = divmod(time_ns, NS_PER_SECOND)
            if not 0 <= seconds < 2**32:
                raise OverflowError(f"pcap cannot express the time {time_ns} ns")
            captured = min(len(data), snaplen)
            file.write(record.pack(seconds, fraction // unit, captured, len(data)) + data[:captured])
            count += 1
    return count
