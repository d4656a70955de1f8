"""Captures and outputs in an object store: the same bytes as on disk, and no partial output."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.remote import s3_server
from tests.support import RABBITMQ
from wiredecode.cli import main

BASIC = RABBITMQ / "c43_basic.pcap"


@pytest.fixture
def s3(monkeypatch: pytest.MonkeyPatch) -> Iterator[str]:
    with s3_server(monkeypatch) as uri:
        upload(f"{uri}/ring/b.pcap", BASIC.read_bytes())
        yield uri


def upload(uri: str, data: bytes) -> None:
    from wiredecode.capture.remote import NewObject

    made = NewObject(uri)
    made.stream.write(data)
    made.commit()


def stored(uri: str) -> list[str]:
    from wiredecode.capture.remote import location_of

    place = location_of(uri)
    return sorted(place.system.handler.fs.find(place.path))


def test_captures_are_read_and_written_as_on_disk(s3: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    def printed(*names: str) -> str:
        assert main(["pcap", *names, "--json", "-q"]) == 0
        return capsys.readouterr().out

    here = printed(str(BASIC))
    for name in ("ring/b.pcap", "ring/", "r*/?.pcap"):
        assert printed(f"{s3}/{name}") == here
    assert printed(f"{s3.replace('s3:', 's3a:')}/ring/b.pcap") == here
    assert main(["export", f"{s3}/ring/b.pcap", "-o", f"{s3}/out/frames.parquet", "-q"]) == 0
    assert main(["export", str(BASIC), "-o", str(tmp_path / "frames.parquet"), "-q"]) == 0
    from wiredecode.capture.remote import open_file

    with open_file(f"{s3}/out/frames.parquet") as file:
        assert file.read() == (tmp_path / "frames.parquet").read_bytes()


@pytest.mark.parametrize(
    ("name", "error"),
    [
        ("ring/none.pcap", "s3://captures/ring/none.pcap: cannot be read: it does not exist"),
        ("none/", "s3://captures/none: does not exist"),
        ("ring/x*", "s3://captures/ring/x*: fits no file"),
    ],
)
def test_a_missing_object_is_one_line(s3: str, name: str, error: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["pcap", f"{s3}/{name}", "-q"]) == 2
    err = capsys.readouterr().err
    assert error in err
    assert err.count("\n") == 1


def test_a_failed_export_leaves_no_object(
    s3: str, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    from wiredecode.export.writers import ParquetWriter

    def full(*_: object) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(ParquetWriter, "close", full)
    assert main(["export", f"{s3}/ring/b.pcap", "-o", f"{s3}/out/frames.parquet", "-q"]) == 2
    assert "No space left on device" in capsys.readouterr().err
    assert stored(s3) == ["captures/ring/b.pcap"]
