"""``wiredecode ui -i`` with a real server on loopback."""

from __future__ import annotations

import re
import socket
from pathlib import Path

import pytest

from tests.ui.support import Driver, drive
from wiredecode.capture.live.pcapng_writer import Rotation
from wiredecode.capture.live.sniffer import Sniffer
from wiredecode.capture.live.source import LiveOptions, RingSource
from wiredecode.ui.live import Live
from wiredecode.ui.packets import Growing

RING_BYTES = 4_000
SUBJECT = re.compile(r"subject=(orders\.\d+)")

pytestmark = pytest.mark.usefixtures("rights")


def publish(client: socket.socket, numbers: range) -> None:
    """One message each, which the server delivers to the same client; then its PONG has come."""
    client.sendall(b"".join(b"PUB orders.%d 9\r\nmessage 1\r\n" % number for number in numbers) + b"PING\r\n")
    got = b""
    while b"PONG\r\n" not in got:
        got += client.recv(65536)


def delivered(ui: Driver) -> list[str]:
    rows = ui.main.model.rows
    found = (SUBJECT.search(rows[number].details) for number in range(1, rows.count + 1) if rows[number].type == "MSG")
    return [each[1] for each in found if each is not None]


def test_pausing_and_filtering_a_live_capture_loses_no_message(nats: int, tmp_path: Path) -> None:
    sniffer = Sniffer(RingSource(LiveOptions("lo", f"tcp port {nats}")))
    sniffer.save(tmp_path / "live.pcapng", Rotation(RING_BYTES))
    live = Live(sniffer)
    expected = [f"orders.{number}" for number in range(300)]

    async def test(ui: Driver) -> None:
        with socket.create_connection(("127.0.0.1", nats)) as client:
            client.sendall(b'CONNECT {"verbose":false}\r\nSUB orders.* 1\r\n')
            publish(client, range(100))
            await ui.until(lambda: len(delivered(ui)) == 100)
            await ui.until(lambda: ui.number == ui.main.model.rows.count)
            await ui.press("P")
            held = ui.main.frames.count
            publish(client, range(100, 200))
            await ui.until(lambda: len(delivered(ui)) == 200)
            assert ui.main.frames.count == held and "held: P continues" in ui.text()
            await ui.press("P", "slash")
            await ui.write('nats.type == "MSG" && nats.subject matches "77$"')
            publish(client, range(200, 300))
            await ui.until(lambda: ui.main.frames.count == 3)
        assert delivered(ui) == expected
        await ui.press("g", "slash")
        await ui.write("")
        await ui.shown()
        assert ui.main.frames.count == ui.main.model.rows.count > 600 and "orders.77" in ui.text()
        assert len(live.files) > 3, "what is shown was read from several files"
        assert re.search(r"live: [\d,]+ packets, [\d,]+/s, none lost", ui.main.status())

    drive(Growing(lambda: live.files, lambda: live.over), test, size=(140, 40), live=live)
