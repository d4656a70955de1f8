"""An anonymized capture decodes to the same structure, and holds no removed text."""

from __future__ import annotations

import re
import struct
import subprocess
from pathlib import Path
from typing import Any

import pytest

import wiredecode
from tests.capture.build import pcap, record
from tests.conftest import sampled
from tests.support import needs_tshark
from wiredecode.anonymize import disguises
from wiredecode.capture import open_capture
from wiredecode.capture.errors import CaptureError
from wiredecode.cli.app import run
from wiredecode.dissect.dissector import Dissector
from wiredecode.frames.frame import Frame
from wiredecode.protocols.liftbridge.names import MAGIC
from wiredecode.testing import Talk

CAPTURES = Path(__file__).parents[2] / "captures"
KEY = bytes(range(1, 33))
PLAIN = (
    *("rabbitmq-stream/c43_basic.pcap", "rabbitmq-stream/c43_superstream.pcap", "rabbitmq-stream/d_shuffled_dups.pcap"),
    *("rabbitmq-stream/d_drop1pct.pcap", "rabbitmq-stream/d_snap96.pcap", "rabbitmq-stream/c43_amqplain.pcap"),
    *("rabbitmq-stream/c43_tracking.pcap", "rabbitmq-stream/c43_filter.pcap", "rabbitmq-stream/d_basic.pcap.gz"),
    *("nats/02-auth.pcap", "nats/06-headers.pcap", "nats/13-jetstream.pcap", "nats/12-grammar-variants.pcap"),
    *("nats/10-split-writes.midconn.pcap", "nats/14-cluster-routes.pcap", "nats/17-tls.pcap"),
    *("liftbridge/30-lb-publish-ack.pcap", "liftbridge/31-lb-all-types.pcap", "liftbridge/34-lb-replication.pcap.zst"),
    *("tank/tank_02_create_discover.pcap", "tank/tank_05_keys_timestamps.pcap", "tank/tank_08_consume_positions.pcap"),
    *("tank/tank_d1_snaplen96.pcap", "tank/tank_d4_midconnection.pcap", "cursus/group.ooo-dup.pcap"),
    *("cursus/txn.pcap", "cursus/produce.pcap", "cursus/negotiate.pcap", "cursus/stream.pcap"),
    *("amqp091/basic.pcap.zst", "amqp091/tables.pcap.zst", "amqp091/errors.pcap.zst", "amqp091/requeue.pcap.zst"),
    *("pravega/append_basic.pcap", "pravega/segment_admin.pcap", "pravega/tables.pcap", "pravega/errors.pcap"),
)
"""Captures without compressed contents."""


@pytest.fixture
def key(tmp_path: Path) -> Path:
    path = tmp_path / "key"
    path.write_bytes(KEY)
    return path


def anonymized(source: Path, key: Path, *options: str) -> Path:
    out = key.with_name("out.pcapng")
    assert run(["anonymize", str(source), "-o", str(out), "--key", str(key), "-q", *options]) == 0
    return out


def frames(path: Path) -> list[Frame]:
    return list(Dissector().frames(open_capture([path])))


def structure(frame: Frame) -> tuple[Any, ...]:
    """The structure of frames, except links of JetStream deliveries, which depend on bodies."""
    findings = tuple((finding.severity, finding.group, finding.code, finding.range) for finding in frame.findings)
    where = frame.connection.number, frame.side, frame.offset, frame.length, frame.packets, frame.time_ns
    kind = frame.type if frame.protocol != "tls" else "tls"  # only the length of a handshake is kept
    what = frame.protocol, frame.dialect, kind, frame.code, frame.status, frame.sender
    stored = str(frame.values.get("reply", "")).startswith("$JS.ACK.") and frame.outcome != "ok"
    return (*where, *what, frame.request, frame.response, None if stored else frame.outcome, findings)


@pytest.mark.parametrize("options", [(), ("--names", "--bodies")], ids=["plain", "names and bodies"])
@pytest.mark.parametrize("name", sampled(PLAIN, 6))
def test_decodes_to_the_same_structure(name: str, options: tuple[str, ...], key: Path) -> None:
    source = CAPTURES / name
    before, after = frames(source), frames(anonymized(source, key, *options))
    assert [structure(frame) for frame in after] == [structure(frame) for frame in before]


SECRETS = {
    "nats/02-auth.pcap": (b"s3cr3t-pass", b"wrong-pass", b"BLtT/GDDP0kXvYs71fp6S8eiBzG2JzZWYV8r0mjBlEXotKa"),
    "rabbitmq-stream/c43_basic.pcap": (b"\0guest\0guest", b"guest"),
}


@pytest.mark.parametrize("name", SECRETS)
def test_no_secret_is_kept(name: str, key: Path) -> None:
    before, after = (CAPTURES / name).read_bytes(), anonymized(CAPTURES / name, key).read_bytes()
    for secret in SECRETS[name]:
        assert secret in before
        assert secret not in after


@pytest.mark.parametrize("name", ["nats/14-cluster-routes.pcap", "liftbridge/31-lb-all-types.pcap", *SECRETS])
def test_no_address_is_kept_in_headers_or_texts(name: str, key: Path) -> None:
    before, after = (CAPTURES / name).read_bytes(), anonymized(CAPTURES / name, key).read_bytes()
    addresses = set(re.findall(rb"(?:\d+\.){3}\d+", before)) & {b"127.0.0.1", b"127.0.0.2", b"127.0.0.3", b"10.0.0.2"}
    for address in addresses:
        assert address not in after
    ends = {end for frame in frames(key.with_name("out.pcapng")) for end in (frame.source, frame.destination)}
    assert not ends & {end for frame in frames(CAPTURES / name) for end in (frame.source, frame.destination)}


OWN = {b"server", b"missing seq"}
"""Texts that protocols define: ``server_id``, a reason."""
PARTS = re.compile(rb"[0-9A-Za-z]{6,}")


def texts_on_wire(path: Path, words: frozenset[str]) -> set[bytes]:
    """Parts of stream names, and keys and bodies of messages, as bytes on the wire."""
    found: set[bytes] = set()
    try:
        for row in wiredecode.read(path, level="messages", bytes="raw"):
            found |= {part for part in PARTS.findall((row["topic"] or "").encode()) if part.decode() not in words}
            found |= {row[name] for name in ("key", "body") if len(row[name] or b"") >= 6 and row[name][:4] != MAGIC}
    except CaptureError:
        pass
    return found


@pytest.mark.parametrize("name", sampled(PLAIN))
def test_names_and_bodies_are_removed_on_request(name: str, key: Path) -> None:
    words = frozenset(word for rules in disguises().values() for word in rules.words)
    after = anonymized(CAPTURES / name, key, "--names", "--bodies").read_bytes()
    for each in texts_on_wire(CAPTURES / name, words) - OWN:
        assert each not in after, each


PLANTED = "CustomerIban-DE4412345"
STRANGE_LINES = (
    *(
        f"-ERR '{PLANTED}'",
        f"-ERR 'Authorization Violation {PLANTED}'",
        f"WHAT {PLANTED}",
        f"PUB {PLANTED} x 9{PLANTED}",
    ),
    *(f"SUB a {PLANTED}", f'CONNECT {{"lang":"{PLANTED}","version":"{PLANTED}","name":{{"{PLANTED}":"{PLANTED}"}}}}'),
    f'INFO {{"version":"{PLANTED}","go":"{PLANTED}","git_commit":"{PLANTED}","zz":["{PLANTED}"],"{PLANTED}":1}}',
    f"HPUB a 42 42\r\nNATS/1.0 503 {PLANTED}\r\n{PLANTED[:3]}:\r\n\r\n",
    f"HPUB a 51 51\r\nNATS/1.0\r\n{PLANTED}:{PLANTED[:10]}\r\n\r\n{PLANTED[:3]}",
)


def test_texts_in_protocol_fields_are_replaced_unless_the_protocol_defines_them(tmp_path: Path, key: Path) -> None:
    talk = Talk(client=("10.0.0.1", 50_000), server=("10.0.0.2", 4222))
    packets = talk.handshake()
    for line in STRANGE_LINES:
        packets += talk.send(int(line.startswith(("-ERR", "INFO"))), f"{line}\r\n".encode())
    source = tmp_path / "in.pcap"
    source.write_bytes(pcap(*map(record, packets)))
    out = anonymized(source, key, "--names", "--bodies")
    assert b"-ERR 'Authorization Violation " in out.read_bytes(), "what nats-server says stays"
    assert PLANTED.encode() not in out.read_bytes()
    assert len(frames(out)) == len(frames(source)) >= len(STRANGE_LINES)


@needs_tshark
@pytest.mark.parametrize("name", ["rabbitmq-stream/c43_basic.pcap", "nats/02-auth.pcap"])
def test_checksums_of_ip_and_tcp_are_valid(name: str, key: Path) -> None:
    out = anonymized(CAPTURES / name, key, "--names", "--bodies")
    checks = ("-o", "tcp.check_checksum:TRUE", "-o", "ip.check_checksum:TRUE")
    bad = "tcp.checksum.status != 1 or ip.checksum.status != 1"
    texts_on_wire = subprocess.run(
        ["tshark", "-r", out, *checks, "-Y", bad], capture_output=True, text=True, check=True
    )
    assert texts_on_wire.stdout == ""


def test_the_same_key_gives_the_same_file_and_another_key_does_not(key: Path) -> None:
    source = CAPTURES / "nats/06-headers.pcap"
    first, second = (anonymized(source, key, "--names").read_bytes() for _ in range(2))
    key.write_bytes(KEY[::-1])
    assert first == second != anonymized(source, key, "--names").read_bytes()


def framed(kind: int, body: bytes) -> bytes:
    return struct.pack(">iI", kind, len(body)) + body


HELLO = struct.pack(">iIii", -127, 8, 17, 5)
TEXT = struct.pack(">H", len(PLANTED)) + PLANTED.encode()
KAFKA = struct.pack(">hhih", 16, 5, 77, 3) + b"app" + b"\0\3\x17" + PLANTED.encode() + b"\x17" + PLANTED[:9].encode()
MISREAD = {
    "text as two lengths": (12345, HELLO, framed(84, bytes(8) + TEXT + b"\0\0\0\1" + PLANTED.encode())),
    "text as a request id": (12345, HELLO, framed(35, PLANTED.encode())),
    "first of a list that is cut": (9092, b"", struct.pack(">I", len(KAFKA)) + KAFKA),
}


@pytest.mark.parametrize("name", MISREAD)
def test_text_that_a_malformed_frame_reads_as_numbers_or_cut_lists_is_removed(
    name: str, tmp_path: Path, key: Path
) -> None:
    port, greeting, damaged = MISREAD[name]
    talk = Talk(client=("10.0.0.1", 50_000), server=("10.0.0.2", port))
    packets = [*talk.handshake(), *talk.send(0, greeting), *talk.send(1, greeting), *talk.send(0, damaged)]
    source = tmp_path / "in.pcap"
    source.write_bytes(pcap(*map(record, packets)))
    assert PLANTED.encode() in source.read_bytes()
    out = anonymized(source, key, "--names", "--bodies")
    assert not any(PLANTED[at : at + 6].encode() in out.read_bytes() for at in range(len(PLANTED) - 5))
    assert [structure(frame) for frame in frames(out)] == [structure(frame) for frame in frames(source)]
