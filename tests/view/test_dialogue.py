"""One connection as a dialogue: the order of lines, and hidden values."""

from __future__ import annotations

import io

import pytest

from tests.net import craft
from tests.view.frames import CLIENT, SERVER, dissected, packets
from wiredecode.dissect.dissector import Demand, Dissector
from wiredecode.fields.layer import Layer
from wiredecode.frames.frame import Frame
from wiredecode.frames.message import Messages
from wiredecode.protocols.rabbitmq_stream import layers
from wiredecode.view import theme
from wiredecode.view.dialogue import Dialogue, DialogueExchanges
from wiredecode.view.theme import TreeOptions
from wiredecode.view.times import Times


class Sink(io.StringIO):
    encoding = "utf-8"

    def text(self, text: str) -> None:
        self.write(text)


def shown(*messages: tuple[int, Layer | bytes], options: TreeOptions = theme.DEFAULT, color: bool = False) -> list[str]:
    bodies, sink = Messages(), Sink()
    frames = Dissector(Demand(messages=bodies)).frames(craft.batches(packets(messages)))
    Dialogue(sink, options, color=color, messages=bodies).show(frames)
    return sink.getvalue().splitlines()


def create(number: int, stream: str = "s") -> tuple[int, Layer]:
    return CLIENT, layers.Create(correlation_id=number, stream=stream)


def created(number: int) -> tuple[int, Layer]:
    return SERVER, layers.LAYERS[0x800D, 1](correlation_id=number)


def exchanges(frames: list[Frame]) -> list[list[int]]:
    pairs, found = DialogueExchanges(), []
    for frame in frames:
        found += [[each.frame.number, *(answer.number for answer in each.answers)] for each in pairs.frame(frame)]
    return found + [[each.frame.number, *(answer.number for answer in each.answers)] for each in pairs.rest()]


def test_responses_out_of_order_are_below_their_requests() -> None:
    frames = dissected(
        [create(2), create(3), create(4), created(4), created(2), (SERVER, layers.Heartbeat()), created(3)]
    )
    assert [frame.number for frame in frames] == [3, 4, 5, 6, 7, 8, 9]
    assert exchanges(frames) == [[3, 7], [4, 9], [5, 6], [8]]


def test_a_request_without_response_delays_nothing() -> None:
    assert exchanges(dissected([create(2), create(3), created(3)])) == [[3], [4, 5]]


def test_a_response_outside_the_frames_is_not_waited_for() -> None:
    asked, heartbeat, _, last = dissected(
        [create(2), (CLIENT, layers.Heartbeat()), created(2), (CLIENT, layers.Heartbeat())]
    )
    pairs = DialogueExchanges()
    assert not list(pairs.frame(asked))
    assert not list(pairs.frame(heartbeat))
    assert [each.frame.number for each in pairs.frame(last)] == [3, 4, 6]


def test_a_response_without_its_request_names_the_request() -> None:
    _, answer = dissected([create(2), created(2)])
    sink = Sink()
    Dialogue(sink, theme.DEFAULT).show([answer])
    assert "← CreateResponse  frame 4  answers frame 3  after 1.000 ms" in sink.getvalue()


def test_a_heading_wider_than_the_terminal_is_two_lines(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("COLUMNS", "60")
    name, ends = "Connection #1  rabbitmq_stream", "client 10.0.0.1:40000 →  server 10.0.0.2:5552 ←"
    assert shown(create(2, "orders"), created(2))[:2] == [name, f"  {ends}"]


def test_a_block_per_message_with_times_arrows_facts_and_indented_answers() -> None:
    lines = shown(create(2, "orders"), created(2))
    assert lines[0] == "Connection #1  rabbitmq_stream  client 10.0.0.1:40000 →  server 10.0.0.2:5552 ←"
    assert lines[-4:] == [
        "   0.005000  → Create  frame 3",
        "               stream=orders",
        "   0.006000      ← CreateResponse  frame 4  after 1.000 ms",
        "                   response_code=OK",
    ]


def test_a_few_bodies_are_shown_and_all_on_request() -> None:
    many = [layers.PublishedMessage(publishing_id=n, data=b"body %d" % n) for n in range(5)]
    publish = (CLIENT, layers.Publish(publisher_id=7, messages=many))
    assert [line.strip() for line in shown(publish) if "| " in line] == [
        *(f'| "body {n}" (6 bytes)' for n in range(3)),
        "| and 2 more messages (--full shows all)",
    ]
    assert any(line.endswith("| body 4 (6 bytes)") for line in shown(publish, options=TreeOptions("text", full=True)))


def test_nothing_from_the_wire_reaches_the_terminal_raw_nor_breaks_a_line() -> None:
    evil = "\x1b[2J\x07\u202e\r\n" + "x" * 400
    body = layers.Publish(publisher_id=7, messages=[layers.PublishedMessage(publishing_id=1, data=evil.encode())])
    for options in (TreeOptions("text"), TreeOptions("text", full=True), TreeOptions(hexdump=True)):
        assert all(line.isprintable() for line in shown(create(2, evil), (CLIENT, body), options=options))


def test_passwords_are_hidden_in_text_and_hex() -> None:
    login = (CLIENT, layers.SaslAuthenticate(correlation_id=2, mechanism="PLAIN", data=b"\0guest\0hunter22"))
    for options in (theme.DEFAULT, TreeOptions(hexdump=True), TreeOptions("text", full=True)):
        text = "\n".join(shown(login, options=options))
        assert "hunter" not in text
        assert b"hunter".hex(" ") not in text
    assert "67 75 65 73 74" in "\n".join(shown(login, options=TreeOptions(hexdump=True, secrets=True)))


def test_sides_differ_in_colour_and_uncoloured_output_has_none() -> None:
    lines = shown(create(2), created(2), color=True)
    assert "\x1b[36m→ Create\x1b[0m" in "\n".join(lines)
    assert "\x1b[35m← CreateResponse\x1b[0m" in "\n".join(lines)
    assert not any("\x1b" in line for line in shown(create(2), created(2)))


def test_narrow_terminals_fold_below_the_text(monkeypatch: object) -> None:
    import pytest

    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("COLUMNS", "60")
        lines = shown(create(2, "orders " * 8), options=TreeOptions(hexdump=False))
        dump = shown(create(2, "orders"), options=TreeOptions(hexdump=True))
    assert max(map(len, lines[-3:])) <= 60
    assert all(line.startswith(" " * 15) for line in lines[-2:])
    assert any(line.startswith("  000000  ") for line in dump), "a dump takes the room that there is"


def test_times_have_the_requested_form() -> None:
    lines = shown(create(2), created(2), options=TreeOptions(times=Times("absolute", utc=True)))
    assert any(line.startswith("2023-11-14T22:13:20.007000Z      ← CreateResponse") for line in lines)


def test_only_colours_readable_on_every_background() -> None:
    used = {*theme.SEVERITY.values(), *theme.STATUS.values(), *theme.SIDE.values(), theme.GENERATED, theme.VALUE}
    used |= {theme.RANGE, theme.HEAD}
    assert used - {""} <= set(theme.ANSI)
    assert not {30, 34, 37} & set(theme.ANSI.values()), "black, blue and white vanish on some background"
