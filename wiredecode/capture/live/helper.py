"""Another program as the privileged part: dumpcap or tcpdump captures, and its file is read from a pipe."""

from __future__ import annotations

import re
import signal
import subprocess
import tempfile
from collections.abc import Iterator
from typing import BinaryIO, cast

from wiredecode.capture.batch import PacketBatch
from wiredecode.capture.errors import CaptureError
from wiredecode.capture.file import IDLE_SECONDS
from wiredecode.capture.live.errors import LiveError
from wiredecode.capture.live.source import LiveOptions
from wiredecode.capture.reader import open_capture

END_SECONDS = 5.0
"""So long the program has for its last packets and words."""
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

    What it has to say when it cannot capture becomes the message of the CaptureError.
    """

    def __init__(self, program: str, wanted: LiveOptions) -> None:
        self._said = tempfile.TemporaryFile()  # noqa: SIM115 - a pipe nobody reads could fill up
        try:
            self._process = subprocess.Popen(
                command(program, wanted),
                stdin=subprocess.DEVNULL,
                stdout=subprocess.PIPE,
                stderr=self._said,
                bufsize=0,
                start_new_session=True,  # Ctrl-C is for this program, which then ends the other one
            )
        except OSError as error:
            self._said.close()
            raise LiveError(f"--via {program}: it cannot be started: {error.strerror}") from None
        pipe = cast(BinaryIO, self._process.stdout)
        self._capture = open_capture([pipe], idle_seconds=IDLE_SECONDS)
        self.info = self._capture.info.files[0]
        self.info.path = wanted.interface
        self._name = f"{wanted.interface} (via {program})"
        self._stopped = False
        self._words = ""

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
        words = self._words
        if found := _DUMPCAP.search(words):
            received, dropped = int(found[1]), int(found[2])
            return received + dropped, dropped
        numbers = {what: int(number) for number, what in _TCPDUMP.findall(words)}
        dropped = numbers.get("dropped by kernel", 0)
        return numbers.get("captured", 0) + dropped, dropped

    def close(self) -> None:
        self.stop()
        self._wait()
        if self._process.stdout is not None:
            self._process.stdout.close()
        self._said.close()

    def _wait(self) -> None:
        """Let the program end, and hear what it said."""
        if self._said.closed:
            return
        try:
            self._process.wait(END_SECONDS)
        except subprocess.TimeoutExpired:
            self._process.kill()
            self._process.wait()
        self._said.seek(0)
        self._words = self._said.read().decode("utf-8", "replace")

    def _complaint(self) -> str:
        """Why it ended, in its own words."""
        words = [line.strip() for line in self._words.splitlines() if line.strip()]
        words = [line for line in words if not line.startswith(("Capturing on", "File:", "Packets "))]
        return " ".join(words) or f"ended with exit code {self._process.returncode}"
