"""Sequences of keys."""

from __future__ import annotations

from pathlib import Path
from threading import Event

import orjson
import pyarrow.parquet as pq
import pytest

from tests.ui.support import CAPTURES, Driver, drive
from wiredecode.capture import open_capture
from wiredecode.filter import compile_filter
from wiredecode.filter.names import completions
from wiredecode.settings import Settings
from wiredecode.ui import entry, keys, reports
from wiredecode.ui.entry import InputLine
from wiredecode.ui.screens import Listing

BASIC = CAPTURES / "rabbitmq-stream/c43_basic.pcap"
LOSSY = CAPTURES / "nats/08-pipelined-small.drop1pct.pcap"


def test_moving_shows_the_tree_and_the_bytes_of_each_frame() -> None:
    async def test(ui: Driver) -> None:
        await ui.loaded()
        assert "Frame 1 " in ui.text() and "PeerProperties" in ui.text()
        await ui.press("down", "j", "full_stop")
        await ui.shown()
        assert ui.number == 4 and "Frame 4 " in ui.text() and "SaslHandshakeResponse" in ui.text()
        await ui.press("up", "k", "comma")
        assert ui.number == 1
        await ui.press("G")
        assert ui.number == 142
        await ui.press("g")
        assert ui.number == 1
        await ui.press("pagedown")
        assert 5 < ui.number < 20
        await ui.press("pageup", "end", "home")
        assert ui.number == 1

    drive(BASIC, test)


def test_a_field_is_marked_in_the_bytes_and_a_byte_finds_its_field() -> None:
    async def test(ui: Driver) -> None:
        await ui.loaded()
        await ui.press("tab", "G", "up", "up")
        branch, octets = ui.main.fields.branch, ui.main.octets
        assert (
            branch is not None
            and branch.line.span is not None
            and branch.line.span == octets.marked
            and branch.line.span[0] > 8
        )
        await ui.press("tab", *["right"] * 4)
        marked = octets.marked
        await ui.press("home", *["left"] * 3)
        ui.main.octets.go(5)
        await ui.pilot.pause()
        branch = ui.main.fields.branch
        assert branch is not None and branch.path == "rabbitmq_stream.key" and branch.line.span == (4, 6)
        assert octets.marked == (4, 6) != marked
        await ui.press("tab")
        assert ui.main.frames.has_focus
        await ui.press("shift+tab")
        assert octets.has_focus

    drive(BASIC, test)


def test_bytes_of_several_packets_are_distinguished() -> None:
    path = CAPTURES / "tank/tank_05_keys_timestamps.pcap"
    carried = {
        int(number): bytes(batch.buffer[start : start + size])
        for batch in open_capture([path])
        for number, start, size in zip(batch.number, batch.start, batch.captured, strict=True)
    }

    async def test(ui: Driver) -> None:
        await ui.loaded()
        await ui.press("G", "tab", "tab")
        await ui.shown()
        frame = ui.main.frame
        assert frame is not None and [packet for _, packet in frame.pieces] == frame.packets == [20, 21]
        cut = frame.pieces[1][0]
        assert frame.data[:cut] in carried[20] and frame.data[cut:] in carried[21] and len(frame.data) > cut
        assert "byte 0 of packet 20 (1 of 2)" in ui.main.status()
        await ui.press("G")
        assert f"byte {len(frame.data) - 1:,} of packet 21 (2 of 2)" in ui.text()
        assert ui.main.octets.line(cut // 16).plain[7 + 3 * (cut % 16)] == "║"
        await ui.press("pageup", "g", "left")
        assert "byte 0 of packet 20" in ui.text()

    drive(path, test)


def test_space_folds_the_subtree_and_other_frames_stay_folded() -> None:
    async def test(ui: Driver) -> None:
        await ui.loaded()
        await ui.press("tab", "down", "down")
        whole = ui.main.fields.count
        await ui.press("space")
        assert ui.main.fields.count < whole and ui.main.fields.cursor == 2
        await ui.press("space")
        assert ui.main.fields.count == whole

    drive(BASIC, test)


def test_jumps_to_responses_connection_findings_and_back() -> None:
    async def test(ui: Driver) -> None:
        await ui.loaded()
        await ui.press("r")
        assert ui.number == 2
        await ui.press("r")
        assert ui.number == 1
        await ui.press("colon")
        await ui.write("141")
        assert ui.number == 141
        connection = ui.main.model.rows[141].connection
        await ui.press("left_square_bracket")
        assert ui.number < 141 and ui.main.model.rows[ui.number].connection == connection
        await ui.press("right_square_bracket")
        assert ui.number == 141
        await ui.press("b", "b")
        assert ui.number == 1 or ui.number == 141
        await ui.press("colon")
        await ui.write("4711")
        assert "there is no frame 4,711" in ui.text()

    drive(BASIC, test)


def test_the_next_finding() -> None:
    async def test(ui: Driver) -> None:
        await ui.loaded()
        await ui.press("exclamation_mark")
        assert ui.main.model.rows[ui.number].severity
        assert all(not ui.main.model.rows[number].severity for number in range(2, ui.number))

    drive(LOSSY, test)


def test_marks_and_the_time_since_a_frame() -> None:
    async def test(ui: Driver) -> None:
        await ui.loaded()
        await ui.press("down", "m", *["down"] * 5, "m", "g", "apostrophe")
        assert ui.number == 2 and "2 marked" in ui.text()
        await ui.press("apostrophe")
        assert ui.number == 7
        await ui.press("apostrophe")
        assert ui.number == 2
        await ui.press("t")
        assert any(" 2    0.000000 " in line for line in ui.lines())
        await ui.press("t", "m")
        assert "1 marked" in ui.text()

    drive(BASIC, test)


def test_a_filter_shows_matching_frames_and_an_empty_one_all() -> None:
    async def test(ui: Driver) -> None:
        await ui.loaded()
        await ui.press("slash")
        await ui.write('frame.type == "Publish"')
        await ui.found()
        kinds = {ui.main.model.rows[number].type for number in ui.main.frames.numbers or ()}
        assert kinds == {"Publish"} and 0 < ui.main.frames.count < 142
        await ui.press("f")
        await ui.write("")
        assert ui.main.frames.count == 142

    drive(BASIC, test)


def test_an_invalid_filter_is_explained_and_names_are_completed() -> None:
    async def test(ui: Driver) -> None:
        await ui.loaded()
        await ui.press("slash")
        ui.main.entry.value = "frame.typ == 1"
        await ui.pilot.pause()
        text = ui.text()
        assert "^^^^^^^^^ no field is called 'frame.typ'; did you mean 'frame.type'?" in text
        await ui.press("enter")
        assert ui.main.select is None, "a wrong filter is not taken"
        ui.main.entry.value = "frame.num"
        await ui.press("tab")
        assert ui.main.entry.value == "frame.number"
        await ui.press("escape")
        assert ui.main.frames.has_focus and "no field" not in ui.text()

    drive(BASIC, test)


def test_letters_appear_while_the_names_of_the_first_filter_are_loaded(monkeypatch: pytest.MonkeyPatch) -> None:
    """They took 1.4 s, in which keys did nothing."""
    ready = Event()

    def judge(text: str, settings: Settings) -> InputLine.Judged:
        assert ready.wait(20)
        return InputLine.Judged(f"judged {text}")

    monkeypatch.setattr(entry, "judge", judge)

    async def test(ui: Driver) -> None:
        await ui.loaded()
        ui.holds_jobs = True
        await ui.press("slash", "f", "r")
        try:
            assert ui.main.entry.value == "fr" and "judged" not in ui.text()
            assert "filter  fr" in ui.text()
        finally:
            ready.set()
        await ui.until(lambda: "judged fr" in ui.text())

    drive(BASIC, test)


def test_nothing_is_completed_after_a_number_or_in_quotes() -> None:
    for text in ("frame.number == 3", "frame.number == 3 ", 'frame.type == "fr', "frame.number == ", "3fr"):
        assert completions(text) == [], text
    for text in ("", "frame.number == 3 && ", "!(", "not ", "(fr"):
        assert f"{text.removesuffix('fr')}frame.number" in completions(text), text


def test_a_field_becomes_a_filter_or_its_negation() -> None:
    async def test(ui: Driver) -> None:
        await ui.loaded()
        await ui.press("tab", "home", *["down"] * 5)
        branch = ui.main.fields.branch
        assert branch is not None
        await ui.press("a")
        await ui.found()
        assert ui.main.select is not None and ui.main.select.text.startswith(branch.path + " == ")
        assert ui.main.frames.holds(1)
        first = ui.main.frames.count
        await ui.press("x")
        await ui.found()
        assert ui.main.frames.count == 142 - first

    drive(BASIC, test)


def test_search_continues_from_frame_to_frame() -> None:
    async def test(ui: Driver) -> None:
        await ui.loaded()
        await ui.press("s")
        await ui.write("peerprop")
        assert ui.number == 2
        await ui.press("n")
        later = ui.number
        assert later > 2 and ui.main.model.rows[later].type.startswith("PeerProp")
        await ui.press("s")
        await ui.write("nowhere in this capture")
        assert ui.number == later and "is not further on" in ui.text()

    drive(BASIC, test)


SCREENS = {"c": "client → server", "F": "to do", "S": "Latency", "T": "clients", "p": "delivered", "w": "connection #"}
"""Text on each screen."""


def test_screens_show_their_lines_and_lead_to_a_frame() -> None:
    async def test(ui: Driver) -> None:
        await ui.loaded()
        for key, words in SCREENS.items():
            await ui.press(key)
            listing = ui.app.screen.query_one(Listing)
            await ui.until(lambda listing=listing: len(listing.report) > 1)
            lines: list[reports.ReportLine] = list(listing.report)
            assert any(words.lower() in line.text.plain.lower() for line in lines), [line.text.plain for line in lines]
            leading = [at for at, line in enumerate(lines) if line.frames]
            listing.move_to(leading[-1])
            await ui.press("enter")
            assert ui.app.screen is ui.main and ui.number == lines[leading[-1]].frames[0]
            if key == "S":
                counted = next(line for line in lines if line.text.plain.startswith("UNSUB "))
                kinds = [ui.main.model.rows[number].type for number in range(1, counted.frames[0] + 1)]
                assert kinds.count("UNSUB") == 1 and kinds[-1] == "UNSUB"

    drive(LOSSY, test)


def test_help_names_every_key_and_every_key_is_bound() -> None:
    shown = "\n".join(f"{key} {what}" for key, what in keys.text())
    assert all(key.description in shown for key in keys.KEYS)
    assert len(keys.bottom()) <= 80

    async def test(ui: Driver) -> None:
        await ui.loaded()
        for key in keys.KEYS:
            assert hasattr(ui.main, f"action_{key.action.partition('(')[0]}"), key
        await ui.press("question_mark")
        await ui.until(lambda: "next frame" in ui.text())
        await ui.press("q")
        assert ui.app.screen is ui.main
        await ui.press("q")

    drive(BASIC, test)


def test_copies_go_to_the_clipboard() -> None:
    async def test(ui: Driver) -> None:
        await ui.loaded()
        await ui.press("R")
        assert orjson.loads(ui.app.clipboard)["frame"] == 1
        await ui.press("C")
        assert ui.app.clipboard == f"wiredecode pcap {BASIC} --summary"
        await ui.press("Y")
        assert "there is no filter" in ui.text()
        await ui.press("tab", *["down"] * 3, "y")
        assert ui.app.clipboard.startswith("size: ")

    drive(BASIC, test)


def test_shown_frames_are_saved_as_packets_records_and_a_picture(tmp_path: Path) -> None:
    async def test(ui: Driver) -> None:
        await ui.loaded()
        ui.main.filter_by(compile_filter("frame.number in {3, 7..9}"))
        await ui.found()
        for name in ("out.pcapng", "out.json", "out.parquet", "out.svg"):
            await ui.press("W")
            await ui.write(str(tmp_path / name))
            await ui.until(lambda: "saved: " in ui.main.message)
            ui.main.message = ""
        await ui.press("W")
        await ui.write(str(tmp_path / "out.json"))
        await ui.until(lambda: "exists already" in ui.main.message)

    drive(BASIC, test)
    records = [orjson.loads(line) for line in (tmp_path / "out.json").read_bytes().splitlines()]
    assert [record["frame"] for record in records] == [3, 7, 8, 9]
    wanted = {packet for record in records for packet in record["packets"]}
    assert sum(map(len, open_capture([tmp_path / "out.pcapng"]))) == len(wanted)
    assert pq.read_table(tmp_path / "out.parquet").column("frame").to_pylist() == [3, 7, 8, 9]
    assert (tmp_path / "out.svg").read_text().startswith("<svg")


def test_secrets_are_shown_only_after_a_second_key() -> None:
    async def test(ui: Driver) -> None:
        await ui.loaded()
        await ui.press("colon")
        await ui.write("5")
        await ui.shown()
        assert "67 75 65 73 74" not in ui.text()  # guest
        await ui.press("Z")
        assert not ui.main.model.secrets
        await ui.press("Z")
        await ui.until(lambda: ui.main.octets._dump is not None and not ui.main.octets._dump.hidden)
        assert ui.main.model.secrets
        await ui.press("Z")
        await ui.until(lambda: ui.main.octets._dump is not None and ui.main.octets._dump.hidden)

    drive(BASIC, test, size=(170, 40))


def test_changing_the_theme() -> None:
    async def test(ui: Driver) -> None:
        await ui.loaded()
        seen = {ui.app.theme}
        for _ in range(5):
            await ui.press("L")
            seen.add(ui.app.theme)
        assert len(seen) == 5 and ui.app.theme == "textual-dark"

    drive(BASIC, test)
