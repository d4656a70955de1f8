"""Hex dumps: fields are distinguished, secrets hidden, length bounded."""

from __future__ import annotations

import pytest

from tests.net.craft import batches
from tests.support import Part, craft, dissect, every
from tests.view.frames import CLIENT, HANDSHAKE, SERVER, dissected
from wiredecode.fields import Rest, UInt8
from wiredecode.fields.layer import Layer, Style
from wiredecode.frames.frame import Frame, Inner
from wiredecode.protocols.pravega import layers as pravega
from wiredecode.protocols.rabbitmq_stream import layers
from wiredecode.view.hexdump import HIDDEN, hexdump
from wiredecode.view.theme import SHOWN_DUMP_BYTES, TreeOptions
from wiredecode.view.values import Raw

Case = tuple[int, list[tuple[int, bytes]]]
"""Server port, and what both sides say; the last frame is looked at."""

PASSWORD = b"\0guest\0hunter22"
LOGIN = layers.SaslAuthenticate(correlation_id=2, mechanism="PLAIN", data=PASSWORD)


def dump(message: Layer | bytes, options: TreeOptions = TreeOptions(), side: int = CLIENT) -> str:  # noqa: B008
    (frame,) = dissected([(side, message)], secrets=options.secrets)
    return dumped(frame, options)


def dumped(frame: Frame, options: TreeOptions = TreeOptions()) -> str:  # noqa: B008
    assert frame.layer is not None
    return hexdump(frame, frame.layer(frame.data), options).plain


def test_every_field_but_the_first_begins_with_a_bar() -> None:
    row = dump(layers.DeletePublisher(correlation_id=5, publisher_id=3))
    assert row == "  000000  00 00 00 09|00 06|00 01|00 00 00 05|03           ............."


def test_the_count_of_an_array_is_distinguished_from_its_elements() -> None:
    messages = [layers.PublishedMessage(publishing_id=1, data=b"ab")]
    rows = dump(layers.Publish(publisher_id=9, messages=messages)).splitlines()
    assert rows[0].startswith("  000000  00 00 00 17|00 02|00 01|09|00 00 00 01|00 00 00  ")
    assert rows[1].startswith("  000010  00 00 00 00 01|00 00 00 02 61 62 ")


def test_neighbouring_fields_differ_in_colour() -> None:
    (frame,) = dissected([(CLIENT, layers.DeletePublisher(correlation_id=5, publisher_id=3))])
    assert frame.layer is not None
    text = hexdump(frame, frame.layer(frame.data), TreeOptions())
    styles = [str(span.style) for span in text.spans if text.plain[span.start : span.end] in ("00 06", "00 01")]
    assert len(set(styles)) == 2


def test_the_bytes_of_a_password_are_hidden_and_the_length_is_not() -> None:
    text = dump(LOGIN)
    assert "hunter22" not in text
    assert PASSWORD[1:4].hex(" ") not in text
    assert text.count("**") >= len(PASSWORD)
    assert "00 00 00 0f **" in text.replace("|", " ")


def test_secrets_are_shown_on_request() -> None:
    assert "**" not in dump(LOGIN, TreeOptions(secrets=True))
    assert PASSWORD[-6:].hex(" ") in dump(LOGIN, TreeOptions(secrets=True))


def test_a_truncated_password_is_hidden() -> None:
    cut = bytes(LOGIN)[:-4]
    cut = (len(cut) - 4).to_bytes(4, "big") + cut[4:]
    text = dump(cut)
    assert "hunt" not in text
    assert "75 6e 74" not in text


def test_a_long_dump_is_bounded_unless_full_is_requested() -> None:
    message = layers.Publish(messages=[layers.PublishedMessage(data=b"z" * 10_000)])
    short = dump(message).splitlines()
    assert len(short) == SHOWN_DUMP_BYTES // 16 + 1
    assert "more bytes (--full shows all)" in short[-1]
    assert len(dump(message, TreeOptions(full=True)).splitlines()) == -(-len(bytes(message)) // 16)


def test_only_the_header_of_an_unknown_command_is_dumped() -> None:
    frames = dissected([(CLIENT, bytes.fromhex("0000000800ff0001deadbeef"))])
    assert dumped(frames[0]).endswith("** ** ** **              ........****")


def test_bytes_after_a_too_short_password_are_hidden() -> None:
    message = bytes(layers.SaslAuthenticate(correlation_id=2, mechanism="PLAIN", data=b""))
    lying = (len(message) - 4 + len(PASSWORD)).to_bytes(4, "big") + message[4:] + PASSWORD
    assert "hunt" not in dump(lying)
    assert dump(lying).splitlines()[2].startswith("  000020  ** ** ** ** ** **  ")


def test_undecoded_bytes_are_hidden() -> None:
    (frame,) = dissected([(SERVER, layers.Heartbeat())])
    text = hexdump(frame, None, TreeOptions()).plain
    assert "|" not in text
    assert text.count("**") == 8 + 4, "eight bytes, and eight stars as characters"
    assert "00 00 00 04 00 17" in hexdump(frame, None, TreeOptions(secrets=True)).plain


# Secrets of all protocols: exactly their bytes are hidden, at any place.

TOKEN = "s3cret-töken"
RAW = TOKEN.encode()
NATS_INFO = b'INFO {"server_id":"NA","version":"2.12.2","proto":1,"max_payload":1048576,"headers":true}\r\n'
QUIET = b'CONNECT {"verbose":false,"lang":"go","headers":true}\r\n'
BLOCK = b"NATS/1.0\r\nAuthorization: %s\r\nKey: value\r\n\r\n" % RAW
HPUB = b"HPUB a %d %d\r\n%sbody\r\n" % (len(BLOCK), len(BLOCK) + 4, BLOCK)
ODD_BLOCK = b"Authorization = %s\r\n" % RAW
ODD_HPUB = b"HPUB a %d %d\r\n%sbody\r\n" % (len(ODD_BLOCK), len(ODD_BLOCK) + 4, ODD_BLOCK)
CURSUS = b"\0\0AUTH principal=a token=%s x=1" % RAW
SETUP = pravega.SetupAppend(request_id=7, segment="a/b/0.#epoch.0", delegation_token=TOKEN)
HELLO = bytes(pravega.Hello(high_version=17, low_version=5))
PLAIN = RAW.replace(b"-", b"\0")


def connect(members: bytes) -> bytes:
    return b'CONNECT {"verbose":false,"lang":"go",%s,"echo":true}\r\n' % members


def nats(operation: bytes) -> Case:
    return 4222, [(SERVER, NATS_INFO), (CLIENT, operation)]


SECRETS: dict[str, tuple[Case, list[bytes]]] = {
    "NATS password": (nats(connect(b'"user":"alice","pass":"%s"' % RAW)), [RAW]),
    "NATS password with escapes": (nats(connect(rb'"pass":"s\"3\u0063ret"')), [rb"s\"3\u0063ret"]),
    "NATS token between blanks": (nats(connect(b'"auth_token" : "%s"' % RAW)), [RAW]),
    "undeclared member": (nats(connect(b'"my_secret":"%s"' % RAW)), [RAW]),
    "inside an undeclared member": (nats(connect(b'"more":{"token":"%s"}' % RAW)), [b'{"token":"%s"}' % RAW]),
    "password said twice": (nats(connect(b'"pass":"%s","pass":"later"' % RAW)), [RAW, b"later"]),
    "NATS header": ((4222, [(SERVER, NATS_INFO), (CLIENT, QUIET), (CLIENT, HPUB)]), [RAW]),
    "odd header block": ((4222, [(SERVER, NATS_INFO), (CLIENT, QUIET), (CLIENT, ODD_HPUB)]), [ODD_BLOCK]),
    "Cursus token": ((9000, [(CLIENT, len(CURSUS).to_bytes(4, "big") + CURSUS)]), [RAW, b"1"]),
    "Pravega delegation token": ((12345, [(CLIENT, HELLO), (SERVER, HELLO), (CLIENT, bytes(SETUP))]), [RAW]),
    "RabbitMQ PLAIN": (
        (
            5552,
            [
                *[(side, bytes(message)) for side, message in HANDSHAKE],
                (CLIENT, bytes(layers.SaslAuthenticate(correlation_id=2, mechanism="PLAIN", data=PLAIN))),
            ],
        ),
        [PLAIN],
    ),
}


def last(case: Case) -> Frame:
    port, said = case
    run = dissect(batches(craft([Part(1, side, data) for side, data in said], every(1460), port)), style=Style(Raw))
    return run.frames[-1]


def shown(frame: Frame, options: TreeOptions = TreeOptions(full=True)) -> list[str]:  # noqa: B008
    """The cells of a dump."""
    layer = frame.layer(frame.data) if frame.layer is not None else None
    rows = hexdump(frame, layer, options).plain.splitlines()
    return [cell for row in rows for cell in row[9:57].replace("|", " ").split()]


@pytest.mark.parametrize("name", SECRETS)
def test_exactly_the_bytes_of_secrets_are_hidden(name: str) -> None:
    case, secrets = SECRETS[name]
    frame = last(case)
    assert frame.status == "ok"
    expected = [f"{byte:02x}" for byte in frame.data]
    reached = 0
    for secret in secrets:
        reached = frame.data.index(secret, reached)
        expected[reached : reached + len(secret)] = [HIDDEN] * len(secret)
        reached += len(secret)
    assert shown(frame) == expected
    assert HIDDEN not in shown(frame, TreeOptions(full=True, secrets=True))


@pytest.mark.parametrize("name", SECRETS)
def test_secrets_in_frames_truncated_anywhere_are_hidden(name: str) -> None:
    case, secrets = SECRETS[name]
    frame = last(case)
    assert frame.layer is not None
    whole = frame.data
    first = whole.index(secrets[-1])
    for stop in range(first + 1, len(whole)):
        frame.buffer, frame.start, frame.stop = whole[:stop], 0, stop
        cells = shown(frame)
        assert len(cells) == stop
        assert set(cells[first : first + len(secrets[-1])]) == {HIDDEN}


def test_bytes_after_the_headers_of_a_truncated_frame_are_shown() -> None:
    frame = last(SECRETS["NATS header"][0])
    frame.buffer, frame.start, frame.stop = frame.data[:-4], 0, frame.length - 4
    assert shown(frame)[-2:] == ["62", "6f"]


def test_json_is_hidden_from_the_place_of_a_syntax_error() -> None:
    frame = last(nats(b'CONNECT {"lang":"go",!"pass":"%s"}\r\n' % RAW))
    assert frame.status == "malformed"
    assert shown(frame)[10] == "6c"
    place = frame.data.index(RAW)
    assert set(shown(frame)[place : place + len(RAW)]) == {HIDDEN}


def test_secrets_of_an_inner_layer_are_hidden() -> None:
    frame = last((4222, [(SERVER, NATS_INFO), (CLIENT, QUIET), (CLIENT, b"PUB a 4\r\nabcd\r\n")]))
    assert HIDDEN not in shown(frame)
    frame.inner = [Inner(Secretive, b"abcd", 9)]
    assert shown(frame)[8:14] == ["0a", "61", HIDDEN, HIDDEN, HIDDEN, "0d"]
    frame.inner = [Inner(Secretive, b"abcd", None)]
    assert HIDDEN not in shown(frame)


class Secretive(Layer):
    """One byte, then a secret."""

    fields_desc = [UInt8("first"), Rest("rest", secret=True)]  # noqa: RUF012 - Scapy wants a list on the class
