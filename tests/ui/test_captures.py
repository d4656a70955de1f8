"""Damaged, empty, encrypted and hostile captures."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.conftest import sampled
from tests.ui.support import CAPTURES, Driver, drive
from wiredecode.frames.escape import escape
from wiredecode.ui.screens import Listing


def test_a_truncated_capture_shows_its_frames_and_an_error(tmp_path: Path) -> None:
    cut = tmp_path / "cut.pcap"
    cut.write_bytes((CAPTURES / "rabbitmq-stream/c43_basic.pcap").read_bytes()[:-33])

    async def test(ui: Driver) -> None:
        await ui.loaded()
        await ui.press("G")
        await ui.until(lambda: "is truncated in the middle of a packet record" in ui.main.message or ui.number > 100)
        assert ui.main.model.problem is not None and "is truncated in the middle" in ui.main.model.problem
        await ui.shown()

    drive(cut, test)


def test_every_key_works_on_a_capture_without_packets(tmp_path: Path) -> None:
    async def test(ui: Driver) -> None:
        await ui.until(lambda: ui.main.model.finished)
        keys = ("down", "r", "m", "t", "a", "x", "y", "R", "w", "exclamation_mark", "right_square_bracket", "n", "G")
        for key in keys:
            await ui.press(key)
        assert "no frames" in ui.text() or ui.main.frames.count == 0
        assert ui.app.screen is ui.main
        await ui.press("c")
        await ui.press("escape")
        assert ui.app.screen is ui.main

    header = bytes.fromhex("d4c3b2a1020004000000000000000000ffff000001000000")
    path = tmp_path / "no-packets.pcap"
    path.write_bytes(header)
    drive(path, test)


def test_an_encrypted_connection_is_listed() -> None:
    async def test(ui: Driver) -> None:
        await ui.until(lambda: ui.main.model.finished)
        await ui.press("c")
        listing = ui.app.screen.query_one(Listing)
        await ui.until(lambda: len(listing.report) > 1)
        assert any("tls" in line.text.plain.lower() for line in listing.report)

    drive(CAPTURES / "rabbitmq-stream/c43_tls.pcap", test)


HOSTILE = sorted(path.name for path in (CAPTURES / "hostile").glob("*.pcap"))


@pytest.mark.parametrize("name", sampled(HOSTILE, 4))
def test_only_escaped_text_reaches_the_terminal(name: str) -> None:
    async def test(ui: Driver) -> None:
        await ui.loaded()
        for number in range(1, min(ui.main.frames.count, 3) + 1):
            ui.main.go_to(number)
            await ui.shown()
            for key in ("tab", "G", "tab", "tab"):
                await ui.press(key)
                assert [line for line in ui.lines() if line != escape(line)] == []
        for key in ("c", "w", "F", "M"):
            await ui.press(key)
            listing = ui.app.screen.query_one(Listing)
            await ui.until(lambda listing=listing: listing.count)
            await ui.pilot.pause()
            assert [line for line in ui.lines() if line != escape(line)] == []
            await ui.press("escape")

    drive(CAPTURES / "hostile" / name, test, size=(160, 40))
