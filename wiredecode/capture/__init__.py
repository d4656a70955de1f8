"""Reading captures as batches of packets: files, compressed files, standard input, or several files."""

from wiredecode.capture.batch import PacketBatch
from wiredecode.capture.errors import CaptureError
from wiredecode.capture.info import CaptureInfo, Comment, FileInfo, Interface, NameRecord, Section
from wiredecode.capture.reader import DEFAULT_BATCH_BYTES, MAX_BATCH_PACKETS, MAX_RECORD_BYTES, Capture, open_capture

__all__ = [
    "DEFAULT_BATCH_BYTES",
    "MAX_BATCH_PACKETS",
    "MAX_RECORD_BYTES",
    "Capture",
    "CaptureError",
    "CaptureInfo",
    "Comment",
    "FileInfo",
    "Interface",
    "NameRecord",
    "PacketBatch",
    "Section",
    "open_capture",
]
