"""Hex dumps: fields told apart, secrets hidden, bounded."""

from __future__ import annotations

from tests.view.frames import CLIENT, SERVER, dissected
from wiredecode.frame import Frame
from wiredecode.layer import Layer
from wiredecode.protocols.rabbitmq_stream import layers
from wiredecode.view.hexdump import hexdump
from wiredecode.view.look import SHOWN_DUMP_BYTES, Look

PASSWORD = b"\0guest\0hunter22"
LOGIN = layers.SaslAuthenticate(correlation_id=2, mechanism="PLAIN", data=PASSWORD)


def dump(message: Layer | bytes, look: Look = Look(), side: int = CLIENT) -> str:  # noqa: B008
    (frame,) = dissected([(side, message)], secrets=look.secrets)
    return dumped(frame, look)


def dumped(frame: Frame, look: Look = Look()) -> str:  # noqa: B008
    assert frame.layer is not None
    return hexdump(frame, frame.layer(frame.data), look).plain


def test_a_bar_stands_before_every_field_but_the_first() -> None:
    row = dump(layers.DeletePublisher(correlation_id=5, publisher_id=3))
    assert row == "  000000  00 00 00 09|00 06|00 01|00 00 00 05|03           ............."


def test_the_count_of_an_array_is_told_from_its_elements() -> None:
    messages = [layers.PublishedMessage(publishing_id=1, data=b"ab")]
    rows = dump(layers.Publish(publisher_id=9, messages=messages)).splitlines()
    assert rows[0].startswith("  000000  00 00 00 17|00 02|00 01|09|00 00 00 01|00 00 00  ")
    assert rows[1].startswith("  000010  00 00 00 00 01|00 00 00 02 61 62 ")


def test_neighbouring_fields_differ_in_colour() -> None:
    (frame,) = dissected([(CLIENT, layers.DeletePublisher(correlation_id=5, publisher_id=3))])
    assert frame.layer is not None
    text = hexdump(frame, frame.layer(frame.data), Look())
    styles = [str(span.style) for span in text.spans if text.plain[span.start : span.end] in ("00 06", "00 01")]
    assert len(set(styles)) == 2


def test_the_bytes_of_a_password_are_hidden_and_the_length_is_not() -> None:
    text = dump(LOGIN)
    assert "hunter22" not in text
    assert PASSWORD[1:4].hex(" ") not in text
    assert text.count("**") >= len(PASSWORD)
    assert "00 00 00 0f **" in text.replace("|", " ")


def test_secrets_are_shown_when_asked_for() -> None:
    assert "**" not in dump(LOGIN, Look(secrets=True))
    assert PASSWORD[-6:].hex(" ") in dump(LOGIN, Look(secrets=True))


def test_a_password_that_is_cut_is_hidden_as_well() -> None:
    cut = bytes(LOGIN)[:-4]
    cut = (len(cut) - 4).to_bytes(4, "big") + cut[4:]
    text = dump(cut)
    assert "hunt" not in text
    assert "75 6e 74" not in text


def test_a_long_dump_is_bounded_unless_all_is_wanted() -> None:
    message = layers.Publish(messages=[layers.PublishedMessage(data=b"z" * 10_000)])
    short = dump(message).splitlines()
    assert len(short) == SHOWN_DUMP_BYTES // 16 + 1
    assert "more bytes (--full shows all)" in short[-1]
    assert len(dump(message, Look(full=True)).splitlines()) == -(-len(bytes(message)) // 16)


def test_a_frame_of_an_unknown_command_is_dumped() -> None:
    frames = dissected([(CLIENT, bytes.fromhex("0000000800ff0001deadbeef"))])
    assert dumped(frames[0]).endswith("de ad be ef              ............")


def test_what_follows_a_password_that_is_too_short_is_hidden() -> None:
    message = bytes(layers.SaslAuthenticate(correlation_id=2, mechanism="PLAIN", data=b""))
    lying = (len(message) - 4 + len(PASSWORD)).to_bytes(4, "big") + message[4:] + PASSWORD
    assert "hunt" not in dump(lying)
    assert dump(lying).splitlines()[2].startswith("  000020  ** ** ** ** ** **  ")


def test_undecoded_bytes_may_be_anything_and_are_hidden() -> None:
    (frame,) = dissected([(SERVER, layers.Heartbeat())])
    text = hexdump(frame, None, Look()).plain
    assert "|" not in text
    assert text.count("**") == 8 + 4, "eight bytes, and eight stars as characters"
    assert "00 00 00 04 00 17" in hexdump(frame, None, Look(secrets=True)).plain
