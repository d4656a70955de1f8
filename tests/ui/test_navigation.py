"""Searches, jumps to similar frames, times and copies; the sequence diagram and the path of messages."""

from __future__ import annotations

from array import array
from bisect import insort
from collections.abc import Callable, Iterator
from threading import Event
from unittest.mock import patch

from tests.ui.support import CAPTURES, Driver, drive
from wiredecode import read
from wiredecode.capture import PacketBatch
from wiredecode.settings import Settings
from wiredecode.ui import jobs, reports
from wiredecode.ui.screens import Listing
from wiredecode.view import theme

BASIC = CAPTURES / "rabbitmq-stream/c43_basic.pcap"
COPIES = CAPTURES / "nats/03-pubsub.pcap"


def test_the_same_stream_or_field_is_found_forward_and_backward() -> None:
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


def test_bytes_are_searched_forward_and_backward_as_hex_and_text() -> None:
    async def test(ui: Driver) -> None:
        await ui.loaded()
        frames = {frame.number: frame.data for frame in read(BASIC)}
        holding = [number for number, data in frames.items() if b"xxx" in data]
        await ui.press("X")
        await ui.write("78 78:78")
        for number in holding[:3]:
            await ui.until(lambda number=number: ui.number == number)
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


def test_jumping_to_a_time_finds_the_first_later_frame() -> None:
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
        await ui.until(lambda: len(listing.report) > 4)
        lines: list[reports.ReportLine] = list(listing.report)
        assert "client 127.0.0.1" in lines[0].text.plain and "server 127" in lines[0].text.plain
        assert "── PeerProperties " in lines[2].text.plain and "▶│" in lines[2].text.plain
        assert "│◀─" in lines[3].text.plain and "PeerPropertiesResponse" in lines[3].text.plain
        assert len({line.text.cell_len for line in lines[1:]}) == 1
        listing.move_to(5)
        await ui.press("enter")
        assert ui.number == lines[5].frames[0]

    drive(BASIC, test)


def test_path_of_the_messages_of_a_frame() -> None:
    async def test(ui: Driver) -> None:
        await ui.loaded()
        publishes = [number for number in range(1, 143) if ui.main.model.rows[number].type == "Publish"]
        ui.main.go_to(publishes[0])
        await ui.press("M")
        listing = ui.app.screen.query_one(Listing)
        await ui.until(lambda: len(listing.report) > 4)
        lines: list[reports.ReportLine] = list(listing.report)
        hops = [line for line in lines if line.frames and line.text.style == theme.HEAD]
        assert "published: " in hops[0].text.plain and hops[0].frames == (publishes[0],)
        assert any("confirmed: PublishConfirm" in line.text.plain for line in hops)
        await ui.press("escape", "g", "M")
        await ui.until(lambda: "carries no message" in ui.text())

    drive(BASIC, test)


def test_a_jump_keeps_the_filter_and_shows_its_frame() -> None:
    async def test(ui: Driver) -> None:
        await ui.loaded()
        frames = ui.main.frames
        await ui.press("slash")
        await ui.write('frame.type == "Publish"')
        await ui.found()
        count, number = frames.count, ui.number
        await ui.press("r")
        assert ui.main.model.rows[ui.number].type == "PublishConfirm" and frames.outside == {ui.number}
        assert frames.count == count + 1 and list(frames.numbers or ()) == sorted(frames.numbers or ())
        assert ui.main.entry.value == 'frame.type == "Publish"' and f" {count} match, +1 that do not " in ui.lines()[0]
        assert any(line.startswith(f"+{ui.number:>7}") for line in ui.lines())
        await ui.press("b")
        assert ui.number == number and frames.count == count + 1

    drive(BASIC, test)


def test_a_recent_filter_is_offered_once() -> None:
    async def test(ui: Driver) -> None:
        await ui.loaded()
        for text in ('frame.type == "Publish"', "frame.number > 140", ""):
            await ui.press("slash")
            await ui.write(text)
            if text:
                await ui.found()
        assert ui.main.frames.count == 142
        before = [*ui.main._jobs]
        await ui.press("r", "slash")
        recent = ui.lines()[2]
        assert recent.startswith('recent  frame.number > 140 │ frame.type == "Publish"')
        await ui.pilot.click(offset=(recent.index("frame.type"), 2))
        await ui.still()
        assert {ui.main.model.rows[number].type for number in ui.main.frames.numbers or ()} == {"Publish"}
        assert ui.main._jobs == before and ui.main.frames.has_focus
        assert "recent" not in ui.lines()[2]

    drive(BASIC, test)


def test_frames_found_later_are_inserted_before_a_jump_target() -> None:
    async def test(ui: Driver) -> None:
        await ui.loaded()
        ui.main.filter_as_typed("frame.number > 3 && frame.number < 9")
        await ui.found()
        frames = ui.main.frames
        assert frames.numbers is not None
        frames.show(array("Q", [4, 5]))  # as while it is being filtered
        ui.main.go_to(20)
        assert ui.number == 20
        insort(frames.numbers, 6)
        frames.update()
        assert ui.number == 20 and [*frames.numbers] == [4, 5, 6, 20]

    drive(BASIC, test)


def test_the_top_line_always_shows_the_state() -> None:
    async def test(ui: Driver) -> None:
        await ui.loaded()
        assert ui.lines()[0].startswith(" c43_basic.pcap │ frame 1 of 142 │ time since start │ #1 wd-admin ")
        assert ui.lines()[1].startswith("filter  none; press / to type one")
        await ui.press("j", "t", "m", "Z", "Z")
        assert " │ time since frame 2: t ends │ 1 marked │ secrets shown: Z hides" in ui.lines()[0]
        await ui.press("t")
        assert " │ time since start │" in ui.lines()[0]

    drive(BASIC, test)


def test_a_click_on_a_key_in_the_last_line_presses_it() -> None:
    async def test(ui: Driver) -> None:
        await ui.loaded()
        await ui.pilot.click(offset=(ui.lines()[-1].index("F findings"), 29))
        await ui.until(lambda: "Findings" in ui.lines()[-1])
        await ui.pilot.click(offset=(ui.lines()[-1].index("Esc: back"), 29))
        await ui.until(lambda: ui.app.screen is ui.main)
        await ui.pilot.click(offset=(20, 1))
        assert ui.main.entry.has_focus
        await ui.press("escape")
        assert ui.main.frames.has_focus

    drive(BASIC, test)


def test_partial_results_are_shown_with_a_progress_bar() -> None:
    async def test(ui: Driver) -> None:
        await ui.loaded()
        source, go_on = ui.main.model.source, Event()
        again = source.again

        def slowly(stop: Callable[[], bool], progress: Callable[[float], None]) -> Iterator[PacketBatch]:
            for batch in again(stop, progress):
                half = len(batch) // 2
                yield batch.part(0, half)
                yield batch.part(half, len(batch))
            progress(0.5)
            go_on.wait(10)

        ui.holds_jobs = True
        for key, found in (("F", "so far:"), ("S", "PeerPropertiesResponse"), ("T", "clients ")):
            go_on.clear()
            with patch.object(source, "again", slowly), patch.multiple(jobs, PARTIAL_SECONDS=0, PARTIAL_SHARE=0):
                await ui.press(key)
                await ui.until(lambda found=found: all(each in ui.text() for each in (found, "─ ", " 50%")))
                go_on.set()
                await ui.until(lambda: " 50%" not in ui.text())
            assert "so far" not in ui.text()
            await ui.press("escape")

    drive(BASIC, test)


def test_the_progress_bar_is_ascii_on_ascii_terminals() -> None:
    async def test(ui: Driver) -> None:
        await ui.loaded()
        go_on, ui.holds_jobs = Event(), True
        with patch.object(ui.main.model, "frames", lambda *words, **named: iter([]) if go_on.wait(10) else None):
            await ui.press("F")
            await ui.until(lambda: "-   0%" in ui.text())
            assert ui.text().isascii() and "+-----" in ui.text()
            go_on.set()
            await ui.until(lambda: "-   0%" not in ui.text())

    drive(BASIC, test, settings=Settings(ascii=True))


def test_all_lines_of_a_title_have_the_colour_of_its_severity() -> None:
    async def test(ui: Driver) -> None:
        await ui.loaded()
        await ui.press("F")
        listing = ui.app.screen.query_one(Listing)
        await ui.until(lambda: any("so far" not in line.text.plain for line in listing.report[:1]))
        at = next(at for at, line in enumerate(listing.report) if line.text.plain.startswith("warning["))
        styles = [line.text.style for line in listing.report[at : at + 3]]
        assert listing.report[at + 2].text.plain.startswith("  when")
        assert styles == [theme.SEVERITY["warning"]] * 2 + [""]
        command = next(line.text.plain for line in listing.report[at:] if line.text.plain.startswith("  show"))
        assert f"wiredecode pcap {capture} -Y" in command

    capture = CAPTURES / "stories/credit-starvation.pcap"
    drive(capture, test, size=(120, 36))
