"""Searches, jumps to what is alike, by time and to copies; the sequence diagram and the way of messages."""

from __future__ import annotations

from tests.ui.support import CAPTURES, Driver, drive
from wiredecode import read
from wiredecode.ui import reports
from wiredecode.ui.screens import Listing
from wiredecode.view import theme

BASIC = CAPTURES / "rabbitmq-stream/c43_basic.pcap"
COPIES = CAPTURES / "nats/03-pubsub.pcap"


def test_the_same_stream_is_found_on_and_back_and_the_same_field_from_the_tree() -> None:
    async def test(ui: Driver) -> None:
        await ui.loaded()
        publishes = [number for number in range(1, 143) if ui.main.model.rows[number].type == "Publish"]
        ui.main.go_to(publishes[0])
        await ui.shown()
        await ui.press("right_curly_bracket")
        await ui.until(lambda: ui.number > publishes[0])
        await ui.shown()
        second = ui.number
        assert 'stream="c43_basic-stream"' in ui.main.model.rows[second].details.replace("stream=c", 'stream="c') + '"'
        await ui.press("left_curly_bracket")
        await ui.until(lambda: ui.number == publishes[0])
        await ui.shown()
        branch = next(at for at, each in enumerate(ui.main.fields.shown) if each.path == "rabbitmq_stream.key")
        await ui.press("tab")
        ui.main.fields.move_to(branch)
        await ui.press("right_curly_bracket")
        await ui.until(lambda: ui.number == publishes[1])
        ui.main.go_to(142)
        await ui.shown()
        await ui.press("right_curly_bracket")
        await ui.until(lambda: "not further on" in ui.text())

    drive(BASIC, test)


def test_bytes_are_searched_on_and_back_as_digits_and_as_text() -> None:
    async def test(ui: Driver) -> None:
        await ui.loaded()
        frames = {frame.number: frame.data for frame in read(BASIC)}
        holding = [number for number, data in frames.items() if b"xxx" in data]
        await ui.press("X")
        await ui.write("78 78:78")
        for number in holding[:3]:
            await ui.until(lambda: ui.number == number)  # noqa: B023
            await ui.press("n")
        await ui.until(lambda: ui.number == holding[3])
        await ui.press("N")
        await ui.until(lambda: ui.number == holding[2])
        await ui.press("X")
        await ui.write('"cafe"')
        await ui.until(lambda: "not further on" in ui.text())
        await ui.press("g", "X")
        await ui.write("PLAIN")
        await ui.until(lambda: ui.number == min(number for number, data in frames.items() if b"PLAIN" in data))
        await ui.press("s")
        await ui.write("peerprop")
        assert ui.main.model.rows[ui.number].type.startswith("PeerProp")
        later = ui.number
        await ui.press("N")
        assert ui.number < later or "not further up" in ui.text()

    drive(BASIC, test)


def test_a_time_leads_to_the_first_frame_from_then_on() -> None:
    async def test(ui: Driver) -> None:
        await ui.loaded()
        rows, first = ui.main.model.rows, ui.main.model.first_ns
        begins = {
            "0.2s": first + 200_000_000,
            "2026-11-20T19:45:00.5Z": 1795203900_500000000,
            "0.2": first + 200_000_000,
            "+0.2s": rows[1].time_ns + 200_000_000,
        }
        for typed, begin in begins.items():
            await ui.press("g", "colon")
            await ui.write(typed)
            assert ui.number == next(number for number in range(1, 143) if rows[number].time_ns >= begin) > 1
        await ui.press("colon")
        await ui.write("when")
        assert "nor a time" in ui.text()

    drive(BASIC, test)


def test_a_copy_leads_to_its_original_and_back() -> None:
    async def test(ui: Driver) -> None:
        await ui.loaded()
        copy = next(frame for frame in read(COPIES) if frame.generated.get("copy_of"))
        ui.main.go_to(copy.number)
        await ui.shown()
        await ui.press("o")
        assert ui.number == copy.generated["copy_of"]
        await ui.shown()
        await ui.press("o")
        await ui.until(lambda: ui.number == copy.number)

    drive(COPIES, test)


def test_a_sequence_diagram_has_both_sides_and_leads_back() -> None:
    async def test(ui: Driver) -> None:
        await ui.loaded()
        await ui.press("D")
        listing = ui.app.screen.query_one(Listing)
        await ui.until(lambda: len(listing.made) > 4)
        lines: list[reports.ReportLine] = list(listing.made)
        assert "client 127.0.0.1" in lines[0].text.plain and "server 127" in lines[0].text.plain
        assert "── PeerProperties " in lines[2].text.plain and "▶│" in lines[2].text.plain
        assert "│◀─" in lines[3].text.plain and "PeerPropertiesResponse" in lines[3].text.plain
        assert len({line.text.cell_len for line in lines[1:]}) == 1
        listing.move_to(5)
        await ui.press("enter")
        assert ui.number == lines[5].frames[0]

    drive(BASIC, test)


def test_what_happened_to_the_messages_of_a_frame() -> None:
    async def test(ui: Driver) -> None:
        await ui.loaded()
        publishes = [number for number in range(1, 143) if ui.main.model.rows[number].type == "Publish"]
        ui.main.go_to(publishes[0])
        await ui.press("M")
        listing = ui.app.screen.query_one(Listing)
        await ui.until(lambda: len(listing.made) > 4)
        lines: list[reports.ReportLine] = list(listing.made)
        hops = [line for line in lines if line.frames and line.text.style == theme.HEAD]
        assert "published: " in hops[0].text.plain and hops[0].frames == (publishes[0],)
        assert any("confirmed: PublishConfirm" in line.text.plain for line in hops)
        await ui.press("escape", "g", "M")
        await ui.until(lambda: "carries no message" in ui.text())

    drive(BASIC, test)


def test_back_brings_the_filter_that_a_jump_took_away_without_reading_again() -> None:
    async def test(ui: Driver) -> None:
        await ui.loaded()
        ui.main.filter_as_typed('frame.type == "Publish"')
        await ui.found()
        count, number, job = ui.main.frames.count, ui.number, ui.main.filtering
        await ui.press("r")
        assert ui.main.select is None and ui.main.frames.count == 142
        assert ui.main.model.rows[ui.number].type == "PublishConfirm"
        await ui.press("b")
        assert ui.main.select is not None and ui.main.select.text == 'frame.type == "Publish"'
        assert (ui.main.frames.count, ui.number, ui.main.filtering) == (count, number, job)

    drive(BASIC, test)


def test_the_status_line_says_that_times_count_from_a_frame() -> None:
    async def test(ui: Driver) -> None:
        await ui.loaded()
        await ui.press("j", "t")
        assert "times since a frame: t ends it" in ui.main.status()
        await ui.press("t")
        assert "times since" not in ui.main.status()

    drive(BASIC, test)
