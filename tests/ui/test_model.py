"""Frames read again from a saved state equal those of one pass; rows of the list are in files."""

from __future__ import annotations

import gzip
from pathlib import Path

import pytest

from tests.ui.support import CAPTURES
from wiredecode import read
from wiredecode.capture import open_capture
from wiredecode.cli.options import Decoding
from wiredecode.dissect.dissector import Demand, Dissector
from wiredecode.ui import model as module
from wiredecode.ui import store
from wiredecode.ui.jobs import Job
from wiredecode.ui.model import CaptureModel
from wiredecode.ui.reports import ReportLine, connections, statistics
from wiredecode.view.follow import Survey, table
from wiredecode.view.notebook import frame_record

NAMES = (
    *("rabbitmq-stream/c43_basic.pcap", "rabbitmq-stream/d_basic.pcapng"),
    *("nats/08-pipelined-small.drop1pct.pcap", "liftbridge/30-lb-publish-ack.pcap", "cursus/comp-gzip.pcap"),
)


def whole(path: Path | str) -> CaptureModel:
    """A capture that has been read to its end."""
    made = CaptureModel([str(path)])
    made.run()
    return made


@pytest.fixture(autouse=True)
def many_states(monkeypatch: pytest.MonkeyPatch) -> None:
    """States after every few packets, on a machine of any speed."""
    monkeypatch.setattr(module, "EVERY_SECONDS", 0.0)
    monkeypatch.setattr(module, "COST_SHARE", 0)
    monkeypatch.setattr(module, "PART_PACKETS", 7)
    monkeypatch.setattr(module, "AHEAD", 0)


@pytest.mark.parametrize("name", NAMES)
def test_frames_read_from_a_state_are_the_same(name: str) -> None:
    made = whole(CAPTURES / name)
    assert made.problem is None and len(made.states._states) > 3
    expected = list(read(CAPTURES / name))
    assert made.rows.count == len(expected)
    for frame in expected[:: max(1, len(expected) // 25)]:
        found = made.frame(frame.number)
        assert found is not None
        again = frame_record(found, "hex")
        wanted = frame.record()
        for each in (again, wanted):  # later values come from the rows
            each.pop("outcome", None)
            each.pop("response")
        assert again == wanted
        row = made.rows[frame.number]
        assert (row.time_ns, row.connection, row.type) == (frame.time_ns, frame.connection.number, frame.type)
    made.close()


def test_a_compressed_capture_is_skipped_up_to_the_state(tmp_path: Path) -> None:
    plain = CAPTURES / "rabbitmq-stream/c43_basic.pcap"
    packed = tmp_path / "a.pcap.gz"
    packed.write_bytes(gzip.compress(plain.read_bytes()))
    first, second = whole(plain), whole(packed)
    for number in (1, 77, 142):
        one, other = first.frame(number), second.frame(number)
        assert one is not None and other is not None and frame_record(one, "hex") == frame_record(other, "hex")
    first.close()
    second.close()


def test_states_are_bounded_and_their_files_are_removed(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "MAX_STATES", 4)
    made = whole(CAPTURES / "rabbitmq-stream/c43_basic.pcap")
    folder = Path(made._folder.name)
    assert 1 <= len(made.states._states) <= 4
    assert len(list(folder.glob("state-*"))) == len(made.states._states)
    found = made.frame(100)
    assert found is not None and found.number == 100
    made.close()
    assert not folder.exists()


def test_rows_cross_pages_and_are_found_in_both_directions(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(store, "PAGE", 16)
    made = whole(CAPTURES / "rabbitmq-stream/c43_basic.pcap")
    rows = made.rows
    numbers = [number for number in range(1, 143) if rows[number].type == "Publish"]
    assert len(numbers) > 3
    kind = rows.kinds.index(("rabbitmq_stream", "Publish"))
    found, at = [], 0
    while (at := rows.find(at, 1, lambda part: part["kind"] == kind) or 0) > 0:
        found.append(at)
    assert found == numbers
    back, at = [], 143
    while (at := rows.find(at, -1, lambda part: part["kind"] == kind) or 0) > 0:
        back.append(at)
    assert back == numbers[::-1]
    assert rows[1].response == 2 and rows[2].request == 1
    assert rows.find(142, 1, lambda part: part["kind"] == kind) is None
    with pytest.raises(IndexError):
        _ = rows[143]
    made.close()


def test_states_with_decrypted_tls_stay_in_memory(monkeypatch: pytest.MonkeyPatch) -> None:
    folder = CAPTURES / "rabbitmq-stream"
    keys = Decoding(keylog=[folder / "c43_tls.keylog"]).keys
    made = CaptureModel([str(folder / "c43_tls.pcap")], Demand(keys=keys))
    made.run()
    assert made.problem is None and made.rows.count > 20 and len(made.states._states) > 3
    assert list(Path(made._folder.name).glob("state-*")) == [], "they hold secrets and decrypted bytes"
    loaded = []
    before = made.states.before
    monkeypatch.setattr(made.states, "before", lambda number: loaded.append(before(number)) or loaded[-1])
    for number in (made.rows.count // 2, made.rows.count):
        found = made.frame(number)
        assert found is not None and found.protocol == "rabbitmq_stream" and found.type == made.rows[number].type
    assert all(loaded)
    counted, stopped = (
        Job("statistics", lambda job, end=end: (end and job.stop(), statistics(made, job, 0, 80))[1], lambda job: None)
        for end in (False, True)
    )
    counted.wait()
    assert any("rabbitmq_stream" in line.text.plain and "Publish" in line.text.plain for line in counted.result)
    stopped.wait()
    assert (stopped.result, stopped.problem) == (None, None)
    made.close()


def test_a_pcapng_file_is_read_from_the_position_of_a_state() -> None:
    made = whole(CAPTURES / "rabbitmq-stream/d_basic.pcapng")
    assert all(state.position.offset is not None for state in made.states._states)
    made.close()


@pytest.mark.parametrize("name", ["stories/broker-stopped.pcap", "nats/22-port-reuse-abort.pcap", NAMES[0]])
def test_the_list_of_connections_shows_the_same_end_as_follow(name: str) -> None:
    survey = Survey()
    dissector = Dissector(Demand(link_responses=False, analyse=True), on_end=survey.end)
    for frame in dissector.frames(open_capture([CAPTURES / name])):
        survey.frame(frame)
    made, found = whole(CAPTURES / name), list[ReportLine]()
    Job("connections", lambda job: found.extend(connections(made, job, 0, 100)), lambda job: None).wait()
    made.close()
    shown = [line.text.plain for line in found]
    assert shown == table(survey.activities)
    assert any(f"{who} {how}" in line for line in shown for who in ("client", "server") for how in ("FIN", "RST"))
