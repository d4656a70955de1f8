"""Interface of all live sources, and the source that reads a packet socket."""

import re
import signal
import subprocess
import tempfile
from collections.abc import Iterator
from contextlib import suppress
from threading import Event
from typing import BinaryIO, Protocol, cast

from wiredecode.capture.batch import PacketBatch
from wiredecode.capture.errors import CaptureError
from wiredecode.capture.info import FileInfo, Interface
from wiredecode.capture.live import bpf
from wiredecode.capture.live.interfaces import LINKTYPE_ETHERNET, LiveError, device, on_linux
from wiredecode.capture.live.privileges import how_to_grant
from wiredecode.capture.live.ring import MIB, PacketRing
from wiredecode.capture.reader import IDLE_SECONDS, NOTHING, open_capture
from wiredecode.dataclasses import dataclass

MAX_SNAPLEN = 262_144


@dataclass(frozen=True, slots=True)
class LiveOptions:
    """Options of a live capture."""

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
        nic, expression = device(wanted.interface), wanted.expression
        described = Interface(nic.linktype, wanted.snaplen, tsresol=9, name=nic.name, filter=expression)
        self.info = FileInfo(nic.name, format="live", interfaces=[described])
        self._name = nic.name
        self._ended = Event()
        self._final: tuple[int, int] | None = None
        program = bpf.accept(wanted.snaplen)
        if expression:
            if re.search(r"\bvlan\b", expression):
                problem = "-f with vlan: VLAN tags are taken out of packets before the filter sees them"
                raise LiveError(problem, "--via tcpdump knows where the kernel keeps them")
            ethernet = nic.linktype == LINKTYPE_ETHERNET
            program = bpf.compile_filter(expression, ethernet=ethernet, snaplen=wanted.snaplen)
        if not on_linux():
            raise LiveError(f"cannot capture on {nic.name}: packet sockets need Linux", "elsewhere use --via tcpdump")
        try:
            self._ring = PacketRing(nic, program, promiscuous=wanted.promiscuous, buffer_bytes=wanted.buffer_mib * MIB)
        except PermissionError:
            raise LiveError(f"cannot capture on {nic.name}: CAP_NET_RAW is missing", *how_to_grant()) from None
        except OSError as error:
            raise LiveError(f"cannot capture on {nic.name}: {error.strerror}") from None

    def batches(self) -> Iterator[PacketBatch]:
        try:
            while True:
                ended = self._ended.is_set()
                batch = self._ring.read(IDLE_SECONDS)
                if batch is None and ended:
                    return
                yield NOTHING if batch is None else batch
        except OSError as error:
            raise CaptureError(self._name, f"can no longer be captured on: {error.strerror}") from None

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


END_SECONDS = 5.0
"""The program has this long for its last packets and messages."""
_WATCH = ["sh", "-c", 'read -r _ || kill "$1" 2>/dev/null', "sh"]
"""Ends a process if this one is killed. prctl(2) would forget it when it changes its user, as tcpdump does."""
_DUMPCAP = re.compile(r"received/dropped on interface .*: (\d+)/(\d+)")
_TCPDUMP = re.compile(r"(\d+) packets? (captured|dropped by kernel)")


def command(program: str, wanted: LiveOptions) -> list[str]:
    """The command line of a program that captures to its standard output."""
    common = ["-i", wanted.interface, "-s", str(wanted.snaplen), *([] if wanted.promiscuous else ["-p"])]
    if program == "dumpcap":
        chosen = ["-f", wanted.expression] if wanted.expression else []
        return [program, "-q", *common, "-B", str(wanted.buffer_mib), *chosen, "-w", "-"]
    chosen = ["--", wanted.expression] if wanted.expression else []
    precise = ["--time-stamp-precision=nano", "-n", "-U"]
    return [program, *precise, *common, "-B", str(wanted.buffer_mib * 1024), "-w", "-", *chosen]


class HelperSource:
    """The packets that ``program`` writes, as a `LiveSource`. Raises LiveError if it is not there.

    Its error message, if it cannot capture, becomes the message of the CaptureError.
    """

    def __init__(self, program: str, wanted: LiveOptions) -> None:
        self._stderr = tempfile.TemporaryFile()  # noqa: SIM115 - a pipe without reader could fill up
        try:
            self._process = subprocess.Popen(
                command(program, wanted),
                stdin=subprocess.DEVNULL,
                stdout=subprocess.PIPE,
                stderr=self._stderr,
                bufsize=0,
                start_new_session=True,  # Ctrl-C is for this program, which then ends the other one
            )
            watch = [*_WATCH, str(self._process.pid)]
            self._watcher = subprocess.Popen(watch, stdin=subprocess.PIPE, start_new_session=True)
        except OSError as error:
            self._stderr.close()
            raise LiveError(f"--via {program}: it cannot be started: {error.strerror}") from None
        pipe = cast(BinaryIO, self._process.stdout)
        self._capture = open_capture([pipe], idle_seconds=IDLE_SECONDS)
        self.info = self._capture.info.files[0]
        self.info.path = wanted.interface
        self._name = f"{wanted.interface} (via {program})"
        self._stopped = False
        self._error_text = ""

    def batches(self) -> Iterator[PacketBatch]:
        any_packets = False
        try:
            for batch in self._capture:
                any_packets = any_packets or len(batch) > 0
                yield batch
        except CaptureError as error:
            if self._stopped and not any_packets:  # it may not even have begun its file
                return
            self._wait()
            what = self._complaint() if not any_packets else error.what
            raise CaptureError(self._name, what, advice="") from None
        self._wait()
        if self._process.returncode and not self._stopped:
            raise CaptureError(self._name, self._complaint())

    def stop(self) -> None:
        self._stopped = True
        if self._process.poll() is None:
            self._process.send_signal(signal.SIGINT)

    def counts(self) -> tuple[int, int]:
        """Known when the program has ended."""
        words = self._error_text
        if match := _DUMPCAP.search(words):
            received, dropped = int(match[1]), int(match[2])
            return received + dropped, dropped
        numbers = {name: int(number) for number, name in _TCPDUMP.findall(words)}
        dropped = numbers.get("dropped by kernel", 0)
        return numbers.get("captured", 0) + dropped, dropped

    def close(self) -> None:
        self.stop()
        self._wait()
        if self._process.stdout is not None:
            self._process.stdout.close()
        self._stderr.close()

    def _wait(self) -> None:
        if self._stderr.closed:
            return
        try:
            self._process.wait(END_SECONDS)
        except subprocess.TimeoutExpired:
            self._process.kill()
            self._process.wait()
        if self._watcher.poll() is None:
            self._watcher.communicate(b"\n")
        self._stderr.seek(0)
        self._error_text = self._stderr.read().decode("utf-8", "replace")

    def _complaint(self) -> str:
        words = [line.strip() for line in self._error_text.splitlines() if line.strip()]
        words = [line for line in words if not line.startswith(("Capturing on", "File:", "Packets "))]
        return " ".join(words) or f"ended with exit code {self._process.returncode}"
