"""Trees: all values of the record with ranges, and no raw bytes."""

from __future__ import annotations

import io

import pytest
from rich.console import Console

from tests.conftest import CAPTURES
from tests.view.frames import CLIENT, SERVER, dissected
from wiredecode.api import read
from wiredecode.fields.layer import Layer
from wiredecode.frames.frame import Frame
from wiredecode.protocols.rabbitmq_stream import layers
from wiredecode.protocols.rabbitmq_stream.layers import Property
from wiredecode.protocols.rabbitmq_stream.layers_chunk import Chunk, ChunkEntry, SubBatch
from wiredecode.view.theme import SHOWN_ELEMENTS, TreeOptions
from wiredecode.view.tree import frame_tree

AMQP = bytes.fromhex("005373c00904a101314040a10173") + bytes.fromhex("005375a00568656c6c6f")


def rendered(frame: Frame, options: TreeOptions = TreeOptions(), *, width: int = 10_000, color: bool = False) -> str:  # noqa: B008
    console = Console(
        file=io.StringIO(), width=width, force_terminal=color, color_system="standard" if color else None, markup=False
    )
    console.print(frame_tree(frame, options))
    output = console.file
    assert isinstance(output, io.StringIO)
    return output.getvalue()


def tree(message: Layer | bytes, options: TreeOptions = TreeOptions(), side: int = CLIENT) -> str:  # noqa: B008
    (frame,) = dissected([(side, message)], secrets=options.secrets)
    return rendered(frame, options)


def publish(*bodies: bytes) -> Layer:
    return layers.Publish(messages=[layers.PublishedMessage(publishing_id=n, data=b) for n, b in enumerate(bodies)])


def test_fields_have_values_names_units_and_ranges() -> None:
    shown = tree(layers.Tune(frame_max=1048576, heartbeat=60), side=SERVER)
    for line in (
        "size: 12 bytes  @0:4",
        "key: Tune (20)  @4:6",
        "frame_max: 1048576 bytes  @8:12",
        "heartbeat: 60 s  @12:16",
    ):
        assert line in shown


def test_requests_and_responses_name_each_other() -> None:
    asked, answered = dissected(
        [(CLIENT, layers.Delete(correlation_id=5, stream="s")), (SERVER, layers.LAYERS[0x800E, 1](correlation_id=5))]
    )
    assert f"[response in frame {answered.number}]" in rendered(asked)
    assert f"[request in frame {asked.number}]" in rendered(answered)
    assert "[latency: 1.000 ms]" in rendered(answered)


def test_a_password_is_redacted_unless_requested() -> None:
    login = layers.SaslAuthenticate(correlation_id=2, mechanism="PLAIN", data=b"\0guest\0hunter22")
    hidden, shown = tree(login, TreeOptions(hexdump=True)), tree(login, TreeOptions(secrets=True, bytes="text"))
    assert "data: <redacted 15 bytes>" in hidden
    assert "hunter22" not in hidden
    assert "hunter22" in shown


@pytest.mark.parametrize("form", ["hex", "base64", "text", "sha256", "length"])
def test_no_form_of_bytes_shows_a_password(form: str) -> None:
    shown = tree(
        layers.SaslAuthenticate(mechanism="PLAIN", data=b"\0guest\0hunter22"), TreeOptions(bytes=form, full=True)
    )
    assert "data: <redacted 15 bytes>" in shown


def test_a_password_in_a_frame_with_wrong_lengths_is_redacted() -> None:
    message = bytes(layers.SaslAuthenticate(correlation_id=2, mechanism="PLAIN", data=b"\0guest\0hunter22"))
    surplus = message[:19] + bytes(4) + message[23:]
    cut = message[:19] + b"\0\0\xff\xff" + message[23:]
    for lying in (surplus, cut):
        shown = tree(lying, TreeOptions(bytes="text", full=True, hexdump=True))
        assert "<redacted 15 bytes>" in shown
        assert "hunt" not in shown
        assert b"hunt".hex(" ") not in shown


def test_an_amqp_message_has_its_sections_with_types_and_ranges() -> None:
    shown = tree(publish(AMQP))
    assert "amqp properties: 2 items  list8" in shown
    assert 'message_id: "1"  str8-utf8' in shown
    assert 'amqp data: "hello" 68656c6c6f (5 bytes)  vbin8' in shown
    assert f"section @{25 + 14}:{25 + len(AMQP)}" in shown


def test_messages_of_a_sub_batch_are_shown_with_their_offsets() -> None:
    inner = b"".join(len(body).to_bytes(4, "big") + body for body in (AMQP, b"plain"))
    batch = SubBatch(record_count=2, uncompressed_length=len(inner), data=inner)
    chunk = Chunk(chunk_id=40, entries=[ChunkEntry(sub_batch=batch), ChunkEntry(data=b"simple")])
    shown = tree(layers.Deliver(subscription_id=1, chunk=chunk), side=SERVER)
    assert "codec: none (128)" in shown
    assert "messages: 2 elements  put together" in shown
    assert 'amqp data: "hello" 68656c6c6f' in shown
    assert 'data: "plain" 706c61696e (5 bytes)' in shown
    assert [f"[offset: {offset}]" in shown for offset in (39, 40, 41, 42, 43)] == [False, True, True, True, False]
    assert "[crc_status: good]" in shown


def test_arrays_and_structures_that_are_null_are_shown_as_null() -> None:
    names = {"FetchResponse": "aborted_transactions", "ConsumerGroupHeartbeatResponse": "assignment"}
    shown = dict.fromkeys(names, "")
    for frame in read(CAPTURES / "kafka" / "coordinators.pcap.zst"):
        if frame.type in names and f"'{names[frame.type]}': None" in str(frame.values):
            shown[frame.type] = shown[frame.type] or rendered(frame)
    for name, field in names.items():
        assert f"{field}: null" in shown[name]


def test_records_inside_of_bytes_are_trees_with_their_keys_and_values() -> None:
    (frame,) = read(CAPTURES / "kafka" / "coordinators.pcap.zst", filter="frame.number == 463")
    lines = [line.lstrip("│├└─ ") for line in rendered(frame).splitlines()]
    for line in ("records: 4 elements", "offset: 0", 'key: "k0" 6b30 (2 bytes)', "headers: []"):
        assert line in lines


def test_long_arrays_and_bytes_are_shortened_and_say_so() -> None:
    message = publish(*[b"x" * 1000] * (SHOWN_ELEMENTS + 5))
    shown, full = tree(message), tree(message, TreeOptions(full=True))
    assert "... 5 more (--full shows all)" in shown
    assert "… (1000 bytes)" in shown
    assert shown.count("publishing_id") == SHOWN_ELEMENTS
    assert full.count("publishing_id") == SHOWN_ELEMENTS + 5
    assert "78" * 1000 in full


def test_text_comes_before_hex_and_is_never_split_inside_a_character() -> None:
    shown = tree(publish("ö".encode() * 100, b"\x00\xff" * 50))
    assert f'data: "{"ö" * 30}…" c3b6' in shown
    assert f'data: "a{"ö" * 29}…" 61c3' in tree(publish(b"a" + "ö".encode() * 100))
    assert "data: 00ff00ff" in shown


def test_hostile_names_cannot_steer_the_terminal() -> None:
    evil = "\x1b[2J[bold red]x[/]\u202e\x07"
    (frame,) = dissected([(CLIENT, layers.Create(stream=evil, arguments=[Property(key=evil, value=evil)]))])
    plain, painted = rendered(frame), rendered(frame, color=True)
    assert "\x1b" not in plain
    assert plain.count("\\x1b[2J[bold red]x[/]\\u202e\\x07") == 4, "title, stream, key and value, markup untouched"
    assert "\x1b[2J" not in painted
    assert not {"\u202e", "\x07"} & set(painted)


def test_findings_are_shown_with_their_range() -> None:
    cut = bytes.fromhex("0000000a000e00010000000200ff")
    shown = tree(cut)
    assert "stream: needs 255 bytes, 0 are there  @14:14" in shown
    assert "error: stream needs 255 bytes, the frame has 0 left (malformed, field-cut, field stream)" in shown


def test_bytes_after_the_last_field_are_counted() -> None:
    shown = tree(bytes.fromhex("0000000600170001abcd"))
    assert "after the last field: <redacted 2 bytes>  @8:10" in shown


def test_eighty_columns_are_enough() -> None:
    (frame,) = dissected([(CLIENT, publish(AMQP, b"\0" * 300))])
    assert max(map(len, rendered(frame, TreeOptions(hexdump=True), width=80).splitlines())) <= 80


def test_a_tree_in_python_counts_from_the_start_of_the_capture_as_lines_do() -> None:
    frame = [*read(CAPTURES / "nats" / "03-pubsub.pcap")][1]
    seconds = (frame.time_ns - frame.connection.capture_ns) / 1e9
    assert 0 < seconds < 1000
    assert frame.tree().startswith(f"Frame 2  {seconds:.6f} s  ")
