"""Rows of NATS messages, compared with the records of the same frames; secrets stay hidden."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.net.craft import batches
from tests.protocols.test_nats_bulk import CAPTURES, CONNECT, INFO, pub, rows_of
from tests.support import Part, craft, dissect, every
from wiredecode.capture import open_capture
from wiredecode.fields.credentials import is_secret_pair
from wiredecode.fields.layer import Style
from wiredecode.frames.message import Messages
from wiredecode.frames.record import record
from wiredecode.protocols.nats.protocol import Nats

FILES = sorted((CAPTURES / "nats").glob("*.pcap"))
COUNTED = ("PUB", "HPUB", "MSG", "HMSG", "RMSG", "LMSG")


def collected(source: Any, *, secrets: bool = False) -> list[dict[str, Any]]:
    """The rows of a capture, without records."""
    out = Messages(secrets=secrets)
    dissect(source, style=None, known=(Nats(),), messages=out, link_responses=False)
    rows = [row for piece in out.parts for row in rows_of(piece)]
    assert out.count == len(rows)
    return rows


def records(path: Path, *, secrets: bool = False) -> list[dict[str, Any]]:
    style = Style(secrets=secrets)
    return [record(frame) for frame in dissect(open_capture([path]), style=style, known=(Nats(),)).frames]


def expected(record: dict[str, Any]) -> Iterator[dict[str, Any]]:
    """The row that the record of a NATS message implies."""
    fields = record["layers"].get("nats", {})
    if fields.get("operation") not in COUNTED or "subject" not in fields:
        return
    row = dict.fromkeys(("partition", "key", "offset", "sequence", "timestamp", "headers"))
    row |= {"number": record["frame"], "index": 0, "topic": fields["subject"], "body": unhex(fields.get("data"))}
    row["operation"] = "publish" if "PUB" in fields["operation"] else "deliver"
    if fields.get("reply", "").startswith("$JS.ACK.") and row["operation"] == "deliver":
        row["offset"] = int(fields["reply"].split(".")[5])
    if "version" in fields:
        headers = [(header.get("key", ""), header.get("value", "")) for header in fields.get("headers", [])]
        row["headers"] = [(key, value.encode()) for key, value in headers]
    yield row


def unhex(shown: str | None) -> bytes | None:
    return None if shown is None or shown.startswith("<redacted") else bytes.fromhex(shown)


@pytest.mark.parametrize("path", FILES, ids=[path.stem for path in FILES])
def test_rows_equal_records(path: Path) -> None:
    record = records(path)
    rows = [row for each in record if each["protocol"] == "nats" for row in expected(each)]
    assert collected(open_capture([path])) == rows
    assert rows or path.stem in ("02-auth", "17-tls")


def rows_of_client(data: bytes, **options: Any) -> list[dict[str, Any]]:
    parts = [Part(1, 1, INFO), Part(1, 0, CONNECT + data)]
    return collected(batches(craft(parts, every(1460), server_port=4222)), **options)


def test_secrets_are_hidden_unless_requested() -> None:
    block = b"NATS/1.0\r\nCookie: abc\r\nA-TOKEN:x\r\nPlain: y\r\n\r\n"
    data = (
        pub(b"jwt", b"$SYS.REQ.USER.AUTH") + pub(b"body", block=block) + pub(b"claims", b"$SYS.ACCOUNT.A.CLAIMS.UPDATE")
    )
    secret, hidden, claims = rows_of_client(data)
    assert (secret["body"], claims["body"], hidden["body"]) == (None, None, b"body")
    assert hidden["headers"] == [("Cookie", b"<redacted 3 bytes>"), ("A-TOKEN", b"<redacted 1 bytes>"), ("Plain", b"y")]
    assert all(is_secret_pair(key, "") for key, _ in hidden["headers"][:2])
    secret, shown, claims = rows_of_client(data, secrets=True)
    assert (secret["body"], claims["body"]) == (b"jwt", b"claims")
    assert shown["headers"] == [("Cookie", b"abc"), ("A-TOKEN", b"x"), ("Plain", b"y")]


def test_headers_are_null_if_missing_and_empty_if_the_block_is_empty() -> None:
    plain, empty, other = rows_of_client(
        pub(b"x") + pub(b"", block=b"NATS/1.0\r\n\r\n") + pub(b"", block=b"NATS/9\r\n\r\n")
    )
    assert (plain["headers"], empty["headers"], other["headers"]) == (None, [], None)


def test_a_subject_that_is_not_utf8() -> None:
    assert rows_of_client(pub(b"x", b"a\xff"))[0]["topic"] == "a\\xff"


def test_a_truncated_body_is_null() -> None:
    (row,) = rows_of_client(b"PUB a 100\r\nonly this")
    assert (row["topic"], row["body"]) == ("a", None)


def test_other_operations_have_no_rows() -> None:
    assert rows_of_client(b"SUB a 1\r\nUNSUB 1\r\nPING\r\nPUB\r\n") == []
