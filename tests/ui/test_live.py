"""Live views: a growing file, and an interface whose packets are saved to a ring."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from threading import Event
from typing import NamedTuple

import pytest

from tests.ui.support import CAPTURES, Driver, drive
from wiredecode import read
from wiredecode.capture import PacketBatch, open_capture
from wiredecode.capture.info import FileInfo, Interface
from wiredecode.capture.live.pcapng_writer import Rotation
from wiredecode.capture.live.sniffer import Sniffer
from wiredecode.capture.reader import NOTHING
from wiredecode.filter import compile_filter
from wiredecode.ui import model
from wiredecode.ui import packets as module
from wiredecode.ui.live import Live
from wiredecode.ui.model import CaptureModel
from wiredecode.ui.packets import Growing

BASIC = CAPTURES / "rabbitmq-stream/c43_basic.pcap"
FRAMES = [(frame.number, frame.type) for frame in read(BASIC)]


@pytest.fixture(autouse=True)
def soon(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "POLL_SECONDS", 0.005)


def rows(made: CaptureModel) -> list[tuple[int, str]]:
    return [(number, made.rows[number].type) for number in range(1, made.rows.count + 1)]


def test_a_file_that_grows_is_followed_and_a_filter_loses_nothing(tmp_path: Path) -> None:
    whole, grown = BASIC.read_bytes(), tmp_path / "grown.pcap"
    grown.write_bytes(whole[:3001])  # in the middle of a packet
    over = Event()

    async def test(ui: Driver) -> None:
        async def append(begin: int, end: int) -> None:
            before = ui.main.model.rows.count
            with grown.open("ab") as file:
                file.write(whole[begin:end])
            await ui.until(lambda: ui.main.model.rows.count > before)

        await ui.until(lambda: ui.main.frames.count)
        assert "following the file" in ui.text() and ui.main.model.problem is None
        await ui.until(lambda: ui.number == ui.main.frames.count)
        await append(3001, 9000)
        await ui.until(lambda: ui.number == ui.main.model.rows.count)
        await ui.press("g", "P")
        held = ui.main.frames.count
        await append(9000, 12001)
        ui.main.update()
        assert (ui.number, ui.main.frames.count) == (1, held) and "held" in ui.text()
        await ui.press("P")
        assert ui.number == ui.main.model.rows.count > held
        ui.main.filter_by(compile_filter('frame.type == "PublishConfirm"'))
        await append(12001, len(whole))
        await ui.until(lambda: ui.main.model.rows.count == len(FRAMES))
        confirms = [number for number, kind in FRAMES if kind == "PublishConfirm"]
        await ui.until(lambda: list(ui.main.frames.numbers or ()) == confirms)
        over.set()
        await ui.until(lambda: ui.main.model.finished)
        assert rows(ui.main.model) == FRAMES

    drive(Growing(lambda: [grown], over.is_set), test)


class FakeSource(NamedTuple):
    """A source of packets that a test feeds."""

    info: FileInfo
    parts: list[PacketBatch]
    ended: Event

    def batches(self) -> Iterator[PacketBatch]:
        while self.parts or not self.ended.is_set():
            if not self.parts:
                self.ended.wait(0.005)  # as sources do without packets
            yield self.parts.pop(0) if self.parts else NOTHING

    def stop(self) -> None:
        self.ended.set()

    def counts(self) -> tuple[int, int]:
        return 1234, 56

    def close(self) -> None:
        self.ended.set()


def fake_source() -> FakeSource:
    capture = open_capture([BASIC])
    parts = [batch.part(at, at + 20) for batch in capture for at in range(0, len(batch), 20)]
    interfaces = [Interface(capture.info.interfaces[0].linktype, tsresol=9, name="lo")]
    return FakeSource(FileInfo("lo", format="live", interfaces=interfaces), parts, Event())


def test_an_interface_is_saved_and_shown_with_drop_counts(tmp_path: Path) -> None:
    sniffer = Sniffer(fake_source())
    sniffer.save(tmp_path / "live.pcapng", Rotation(2000))
    live = Live(sniffer)

    async def test(ui: Driver) -> None:
        await ui.until(lambda: ui.main.frames.count == len(FRAMES))
        await ui.until(lambda: "1,234 packets" in ui.text() and "56 lost" in ui.text())
        assert len(live.files) > 5
        await ui.press("colon")
        await ui.write("77")
        await ui.shown()
        await ui.press("F")
        await ui.until(lambda: "Findings" in ui.text() and "reading" not in ui.text())
        await ui.press("escape")
        sniffer.stop()
        await ui.until(lambda: ui.main.model.finished)
        assert "ended" in ui.main.status() and rows(ui.main.model) == FRAMES

    drive(Growing(lambda: live.files, lambda: live.over), test, live=live)


def test_packets_dropped_by_the_ring_are_reported_and_the_rest_is_shown(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(model, "EVERY_SECONDS", 0.0)
    monkeypatch.setattr(model, "COST_SHARE", 0)
    monkeypatch.setattr(model, "PART_PACKETS", 7)
    sniffer = Sniffer(fake_source())
    sniffer.save(tmp_path / "live.pcapng", Rotation(2000))
    live = Live(sniffer)

    async def test(ui: Driver) -> None:
        await ui.until(lambda: ui.main.frames.count == len(FRAMES))
        for path in live.files[:4]:
            path.unlink()
        made = ui.main.model
        made._gone = made.source.gone
        made.states.drop(made._gone)
        assert made._gone == 4
        await ui.press("g")
        await ui.until(lambda: "cannot be shown" in ui.text())
        await ui.press("G")
        await ui.shown()
        ui.main.filter_by(compile_filter("frame.number >= 1"))
        await ui.until(lambda: len(ui.main.frames.numbers or ()) > 50)
        assert ui.main.frames.numbers is not None
        first = ui.main.frames.numbers[0]
        assert first > 10 and list(ui.main.frames.numbers)[:50] == list(range(first, first + 50))
        await ui.press("F")
        await ui.until(lambda: "the ring has dropped" in ui.text())
        await ui.press("escape")

    drive(Growing(lambda: [path for path in live.files if path.exists()], lambda: live.over), test, live=live)
