"""The sweep counts invented, wrong and missed frames of a broken reading."""

from __future__ import annotations

import pytest

from tests import damage, sweep
from tests.conftest import CAPTURES
from wiredecode.capture import PacketBatch

CAPTURE = CAPTURES / "rabbitmq-stream" / "c43_basic.pcap"


def rows(text: str) -> dict[str, list[str]]:
    """By kind the counts of the table: variants, frames, invented, wrong, missed."""
    table = text[text.index("kind ") :].splitlines()[1:]
    return {line[:20].strip(): line[20:].split() for line in table}


def test_a_valid_capture_has_nothing_invented_or_wrong_in_any_kind(capsys: pytest.CaptureFixture[str]) -> None:
    assert sweep.main([str(CAPTURE), "--turns", "1", "--packets", "40"]) == 0
    found = rows(capsys.readouterr().out)
    assert [*found] == [*sweep.DAMAGE, *sweep.TRUNCATED, *sweep.READINGS, sweep.TRUTH]
    assert all(counts[2:4] == ["0", "0"] for counts in found.values())
    assert int(found["5 % lost"][1]) > 10


def test_a_moved_frame_is_invented_and_a_changed_type_is_wrong(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    dissect, calls = damage.dissect, []

    def broken(packets: PacketBatch) -> damage.Dissected:
        found = dissect(packets)
        if calls:
            (place, frame), (_, other) = [*found.frames.items()][:2]
            found.frames[*place[:2], place[2] + 1, *place[3:]] = found.frames.pop(place)
            other.type = "Credit"
        calls.append(frame if calls else None)
        return found

    monkeypatch.setattr(damage, "dissect", broken)
    assert sweep.main([str(CAPTURE), "--turns", "1", "--packets", "40", "--kind", "duplicated"]) == 1
    _, _, invented, wrong, missed = rows(capsys.readouterr().out)["duplicated"]
    assert (invented, missed) == ("1", "1") and int(wrong) >= 1


def test_help_names_the_kinds(capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit, match="0"):
        sweep.main(["--help"])
    assert "0.1 % lost" in " ".join(capsys.readouterr().out.split())
