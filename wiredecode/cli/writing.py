"""``wiredecode pcap -w``: the packets of the frames that match, as pcapng; two passes over the files."""

from __future__ import annotations

from array import array
from collections.abc import Iterable, Iterator
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np

from wiredecode.capture import CaptureError, PacketBatch, open_capture
from wiredecode.capture.errors import Postponed
from wiredecode.capture.live.pcapng_writer import PcapNgWriter
from wiredecode.capture.private import MODE
from wiredecode.cli.interrupt import INTERRUPTED
from wiredecode.cli.options import UsageError, check_out
from wiredecode.cli.output import complain, say
from wiredecode.export.atomic import NewFile
from wiredecode.frames.escape import escape
from wiredecode.frames.plurals import counted
from wiredecode.net.selection import ConnectionPackets

if TYPE_CHECKING:
    from wiredecode.arrays import Int64s
    from wiredecode.cli.session import Session
    from wiredecode.frames.frame import Frame
    from wiredecode.net.limits import Limits
    from wiredecode.net.types import Connection

NAMED_FRAMES = 20
"""Frames that the comment of one packet names."""
TOLD_FINDINGS, KEPT_FINDINGS = 10, 100_000
"""Findings in the comment of one packet, and those that are remembered in all: each is a text."""


def check(files: list[str], out: Path, *, selects: bool) -> None:
    """Refuse what cannot be written."""
    check_out(out, files, what="-w needs a file", named=f"-w {out}")
    for file in files:
        if selects and not Path(file).is_file():
            what = "standard input" if file == "-" else f"{file} (no regular file)"
            raise UsageError(
                f"-w with a selection reads twice, and {what} can be read once: save it first, as with tee a.pcap"
            )


class ChosenPackets:
    """The packets of the frames that were shown to it: 24 bytes each; ``whole``: of all their connections' packets."""

    def __init__(self, *, whole: bool) -> None:
        self.frames = 0
        self._frames = array("q"), array("q"), array("i")
        """Packet, frame, type: one of each per packet of a frame."""
        self._types: dict[str, int] = {}
        self._findings: dict[int, list[str]] = {}
        """What was found about the frames that a packet ended."""
        self.connections: dict[Connection, None] | None = {} if whole else None

    def select(self, frames: Iterable[Frame]) -> None:
        """Choose the packets of these frames."""
        types, (packets, numbers, kinds) = self._types, self._frames
        for frame in frames:
            self.frames += 1
            kind = types.setdefault(frame.type or frame.status, len(types))
            if frame.findings and len(self._findings) < KEPT_FINDINGS and frame.packets:
                comments = self._findings.setdefault(max(frame.packets), [])
                comments += [f"{one.severity}: {escape(one.message)}" for one in frame.findings][
                    : max(0, TOLD_FINDINGS - len(comments))
                ]
            for packet in frame.packets:
                packets.append(packet)
                numbers.append(frame.number)
                kinds.append(kind)
            if self.connections is not None:
                self.connections[frame.connection] = None

    def finish(self) -> None:
        """All frames came: sort them by packet."""
        packets, numbers, kinds = (np.array(column, np.int64) for column in self._frames)
        order = np.argsort(packets, kind="stable")
        self.packets, self._numbers, self._kinds = packets[order], numbers[order], kinds[order]
        self._names = list(self._types)

    def comments(self, numbers: Int64s) -> dict[int, str]:
        """By place among these packets: which frames each of them carried, and what was found about those it ended."""
        begin = np.searchsorted(self.packets, numbers, "left").tolist()
        end = np.searchsorted(self.packets, numbers, "right").tolist()
        return {at: self._comment(a, b) for at, (a, b) in enumerate(zip(begin, end, strict=True)) if a < b}

    def _comment(self, begin: int, end: int) -> str:
        some = range(begin, min(end, begin + NAMED_FRAMES))
        texts = [f"{self._numbers[at]} ({self._names[self._kinds[at]]})" for at in some]
        more = f" and {end - begin - NAMED_FRAMES} more" if end - begin > NAMED_FRAMES else ""
        named = f"wiredecode frame{'s' if end - begin > 1 else ''} {', '.join(texts)}{more}"
        return "\n".join([named, *self._findings.get(int(self.packets[begin]), ())])


def run(
    session: Session, files: list[str], out: Path, summary_json: Path | None, *, whole: bool, limits: Limits
) -> int:
    """Write the packets of the frames that ``session`` selects, all packets if it selects none; the exit code."""
    try:
        target = NewFile(out, mode=MODE)
    except OSError as error:
        complain(f"{out}: cannot be written: {error.strerror}")
        return 2
    writing = _Writing(session, files, target, ChosenPackets(whole=whole), limits)
    session.reads_on = whole
    try:
        code = session.work(writing.everything if session.shows_all else writing.selected, summary_json)
        if code != INTERRUPTED:
            target.commit()
            if not session.quiet:
                say(f"{out}: {counted(writing.written, 'packet')}, {counted(writing.chosen.frames, 'frame')}")
    finally:
        target.discard()
    return code


@dataclass
class _Writing:
    """What is read, and where it goes."""

    session: Session
    files: list[str]
    target: NewFile
    chosen: ChosenPackets
    limits: Limits
    written: int = 0

    def everything(self) -> None:
        """One pass: nothing is selected."""
        session, writer = self.session, PcapNgWriter(self.target.stream)

        def passed() -> Iterator[PacketBatch]:
            for batch in session.batches():
                writer.write(batch, session.capture.info.interfaces)
                self.written += len(batch)
                yield batch

        assert session.dissector is not None
        for _ in session.dissector.frames(passed()):
            self.chosen.frames += 1

    def selected(self) -> None:
        """The packets of some frames."""
        with Postponed() as damage:
            self.chosen.select(self.session.frames())
        self.chosen.finish()
        self._copy()
        damage.raise_again()

    def _copy(self) -> None:
        """The second pass; what cannot be read was told by the first."""
        capture, writer, chosen = open_capture(self.files), PcapNgWriter(self.target.stream), self.chosen
        flows = None
        if chosen.connections is not None:
            flows = ConnectionPackets(chosen.connections, self.session.totals.packets, self.limits)
        with suppress(CaptureError):
            for batch in capture:
                if not len(batch):
                    continue
                rows = np.flatnonzero(np.isin(batch.number, chosen.packets)) if flows is None else flows.rows(batch)
                part = batch.select(rows)
                writer.write(part, capture.info.interfaces, chosen.comments(part.number))
                self.written += len(part)
