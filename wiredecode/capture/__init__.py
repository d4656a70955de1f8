"""Reading captures as batches of packets: files, compressed files, standard input, or several files."""

from wiredecode.capture.batch import PacketBatch
from wiredecode.capture.errors import CaptureError, TruncatedCapture
from wiredecode.capture.reader import Capture, open_capture

__all__ = ["Capture", "CaptureError", "PacketBatch", "TruncatedCapture", "open_capture"]
