"""Secrets x outputs: no output shows a possible credential in any form, unless requested."""

from __future__ import annotations

from itertools import chain
from pathlib import Path
from typing import Any

import pytest

from tests.cli.conftest import Run
from tests.secrets.cases import CORE, PROTOCOLS, forms, write
from wiredecode.capture import open_capture
from wiredecode.fields.layer import Style
from wiredecode.filter.names import Names
from wiredecode.testing import dissect
from wiredecode.ui.detail import BytePane
from wiredecode.ui.store import RowStore
from wiredecode.view.values import Raw

FIELDS = ("frame.number", "frame.type", "_ws.col.info")
LAYERS = {
    "nats": (
        "nats.options",
        "nats.line",
        "nats.headers",
        "nats.headers.value",
        "nats.data",
        "nats.error",
        "nats.description",
        "nats.junk",
        "nats.options.pass",
    ),
    "rabbitmq": (
        "rabbitmq_stream.data",
        "rabbitmq_stream.body",
        "rabbitmq_stream.properties",
        "rabbitmq_stream.properties.value",
        "rabbitmq_stream.user",
        "rabbitmq_stream.virtual_host",
        "rabbitmq_stream.closing_reason",
    ),
    "cursus": ("cursus.token", "cursus.other_fields", "cursus.ignored_words", "cursus.text", "cursus.data"),
    "pravega": ("pravega.delegation_token", "pravega.server_stack_trace"),
    "amqp091": (
        *("amqp091.headers", "amqp091.client_properties", "amqp091.response", "amqp091.new_secret"),
        *("amqp091.arguments", "amqp091.challenge", "amqp091.undecided", "amqp091.reply_text", "amqp091.user"),
    ),
    "kafka": (
        "kafka.client_id",
        "kafka.topic_data.partition_data.batches.records.headers.value",
        "kafka.unknown_tags.data",
    ),
}
PCAP = (
    ("--summary",),
    (),
    ("--full", "--hex"),
    ("--full", "--bytes", "text"),
    ("--json", "--ranges", "--bytes", "base64"),
    ("--json", "--bytes", "text"),
)
EXPORTS = (
    *(("frames", form, way) for form, way in (("ndjson", "text"), ("csv", "base64"))),
    *(("messages", form, way) for form, way in (("ndjson", "text"), ("csv", "hex"), ("json", "base64"))),
    *((level, "ndjson", "text") for level in ("packets", "connections")),
    *(("frames", "parquet", ""), ("messages", "arrow", "")),
)
SLOW = pytest.mark.slow
STEP = 41
"""One connection of this many is followed; each form follows another one."""
FOLLOW = ((), ("--full",), ("--hex",), ("--json", "--bytes", "text"), ("--messages",))


def sampled(cases: tuple[tuple[str, ...], ...]) -> list[Any]:
    """The first and the last case; the others are slow tests."""
    few = (cases[0], cases[-1])
    return [pytest.param(*([case] if cases is PCAP else case), marks=() if case in few else SLOW) for case in cases]


@pytest.fixture(scope="module", params=PROTOCOLS)
def capture(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> tuple[str, Path]:
    path = tmp_path_factory.mktemp("secrets") / f"{request.param}.pcap"
    write(path, PROTOCOLS[request.param]())
    return request.param, path


@pytest.fixture(scope="module", params=["all", *(pytest.param(name, marks=SLOW) for name in PROTOCOLS)])
def some(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A capture for other forms of records and lines: fewer variants of all cases; slow: all of one protocol."""
    name = request.param
    path = tmp_path_factory.mktemp("some") / f"{name}.pcap"
    cases = PROTOCOLS[name]() if name in PROTOCOLS else chain(*(make() for make in PROTOCOLS.values()))
    write(path, cases, every=name in PROTOCOLS)
    return path


def leaks(said: str | bytes) -> list[str]:
    """The places of secrets in an output, with the text around them."""
    text = said if isinstance(said, str) else said.decode("utf-8", "replace")
    found = []
    for form in forms():
        at = text.find(form)
        while at >= 0 and len(found) < 40:
            start = text.rfind("\n", 0, at) + 1
            found.append(f"{text[start : start + 60]!r} ... {text[max(0, at - 90) : at + 30]!r}")
            at = text.find(form, text.find("\n", at) if text.find("\n", at) > 0 else len(text))
    return found


@pytest.mark.parametrize("words", sampled(PCAP))
def test_lines_trees_dumps_and_records(run: Run, capture: tuple[str, Path], words: tuple[str, ...]) -> None:
    found = run("pcap", capture[1], *words, "--summary-json", capture[1].with_suffix(".totals"))
    assert leaks(found.out + found.err + capture[1].with_suffix(".totals").read_text()) == []


def test_fields_and_filters(run: Run, capture: tuple[str, Path]) -> None:
    name, path = capture
    names = Names()
    words = [word for field in (*FIELDS, *(f for f in LAYERS[name] if names.find(f))) for word in ("-e", field)]
    found = run("pcap", path, "-T", "fields", *words, "--bytes", "text")
    assert found.code == 0
    assert leaks(found.out + found.err) == []


@pytest.mark.slow
@pytest.mark.parametrize("words", FOLLOW, ids=" ".join)
def test_dialogues(run: Run, capture: tuple[str, Path], words: tuple[str, ...]) -> None:
    path = capture[1]
    count = len(run("export", path, "--level", "connections", "-o", "-", "--format", "ndjson", "-q").lines)
    said = [run("follow", path, "-n", number, *words) for number in range(1 + FOLLOW.index(words), count + 1, STEP)]
    assert said
    assert leaks("\n".join(found.out + found.err for found in said)) == []


@pytest.mark.parametrize(("level", "form", "way"), sampled(EXPORTS))
def test_exports(run: Run, capture: tuple[str, Path], tmp_path: Path, level: str, form: str, way: str) -> None:
    out = tmp_path / f"out.{form}"
    given = ("--bytes", way) if way else ("--compression", "none")
    found = run("export", capture[1], "--level", level, "-o", out, *given)
    assert found.code == 0
    assert leaks(out.read_bytes() + found.err.encode()) == []


@pytest.mark.parametrize(
    "level", ["frames", "messages", *(pytest.param(each, marks=SLOW) for each in ("packets", "connections"))]
)
def test_sql(run: Run, some: Path, level: str) -> None:
    found = run("sql", some, f"from {level}", "--bytes", "text")
    assert found.code == 0
    assert leaks(found.out + found.err) == []


@pytest.mark.parametrize(
    "words",
    [
        ("check",),
        pytest.param(("check", "--json"), marks=SLOW),
        pytest.param(("check", "-v"), marks=SLOW),
        ("stats",),
        pytest.param(("stats", "--json"), marks=SLOW),
        ("trace", "--text", "body"),
        ("protocols",),
    ],
    ids=" ".join,
)
def test_answers(run: Run, some: Path, words: tuple[str, ...]) -> None:
    found = run(words[0], *([] if words[0] == "protocols" else [some]), *words[1:])
    assert leaks(found.out + found.err) == []


def test_reports(run: Run, some: Path, tmp_path: Path) -> None:
    found = run("report", some, "-o", tmp_path / "r.html")
    assert found.code in (0, 1)
    assert leaks((tmp_path / "r.html").read_text() + found.err) == []


def test_anonymized_captures(run: Run, some: Path, tmp_path: Path) -> None:
    found = run("anonymize", some, "-o", tmp_path / "a.pcapng")
    assert found.code == 0
    assert leaks((tmp_path / "a.pcapng").read_bytes() + found.err.encode()) == []


def test_the_full_screen(some: Path, tmp_path: Path) -> None:
    """Rows of the list, as they are kept in files, and dumps; its trees are those of ``pcap``."""
    frames = dissect(open_capture([some]), style=Style(Raw)).frames
    rows, pane = RowStore(tmp_path), BytePane()
    rows.add(frames)
    rows.close()
    text = []
    for frame in frames:
        pane.show(frame, secrets=False)
        text += [pane.line(at).plain for at in range(pane.count)]
    assert len(text) > len(frames) > 0
    assert leaks((tmp_path / "texts").read_bytes() + (tmp_path / "rows").read_bytes() + "\n".join(text).encode()) == []


def test_secrets_are_shown_on_request(run: Run, some: Path) -> None:
    """This also shows that the search finds secrets."""
    for words in (("--full", "--hex"), ("--json", "--bytes", "base64"), ("--json", "--bytes", "text")):
        found = run("pcap", some, *words, "-c", 99, "--show-secrets")
        assert len(leaks(found.out)) > 3
    assert CORE in found.out
