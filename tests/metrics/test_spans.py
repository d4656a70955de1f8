"""``trace -o`` and ``--otlp``: the hops of a message as spans, in the trace of the client that published it."""

from __future__ import annotations

import json
import threading
from http.server import BaseHTTPRequestHandler, HTTPServer
from pathlib import Path
from typing import Any

import pytest

pytest.importorskip("opentelemetry.sdk")

from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import ExportTraceServiceRequest

from tests.cli.conftest import Run
from tests.cli.conftest import run as run
from tests.view.frames import write
from wiredecode.testing.segments import Part, craft, every
from wiredecode.trace.sighting import traceparent_of

NATS = Path(__file__).parents[1] / "trace" / "traceparent.pcap"
CAPTURES = Path(__file__).parents[2] / "captures"
TRACE, PARENT = "0af7651916cd43dd8448eb211c80319c", "b7ad6b7169203331"
CONTEXT = f"00-{TRACE}-{PARENT}-01".encode()


def spans_of(text: str) -> list[dict[str, Any]]:
    """Spans with their service and plain attributes."""
    found = []
    for resource in json.loads(text)["resourceSpans"]:
        service = resource["resource"]["attributes"][0]["value"]["stringValue"]
        for span in resource["scopeSpans"][0]["spans"]:
            attributes = {each["key"]: next(iter(each["value"].values())) for each in span["attributes"]}
            found.append({**span, "attributes": attributes, "service": service})
    return found


def test_hops_join_the_trace_in_the_header(run: Run, tmp_path: Path) -> None:
    result = run("trace", NATS, "--text", "4711", "-o", tmp_path / "spans.json")
    assert result.code == 0
    published, delivered = spans_of((tmp_path / "spans.json").read_text())
    assert published["traceId"] == delivered["traceId"] == TRACE
    assert published["parentSpanId"] == PARENT and delivered["parentSpanId"] == published["spanId"]
    assert (published["service"], delivered["service"]) == ("billing", "invoices")
    assert (published["name"], delivered["name"]) == ("publish orders.eu", "deliver orders.eu")
    confirm, ack = published["events"][0], delivered["events"][0]
    assert confirm["timeUnixNano"] == published["endTimeUnixNano"] and confirm["name"] == "confirmed"
    assert ack["timeUnixNano"] == delivered["endTimeUnixNano"]
    latency = int(published["endTimeUnixNano"]) - int(published["startTimeUnixNano"])
    assert latency == json.loads(run("trace", NATS, "--text", "4711", "--json").out)["hops"][2]["since_first_ns"]


def test_a_message_without_context_has_a_reproducible_trace_id(run: Run, tmp_path: Path) -> None:
    first, again = (tmp_path / name for name in ("first.json", "again.json"))
    for out in (first, again):
        run("trace", NATS, "--text", "4712", "-o", out)
    assert first.read_bytes() == again.read_bytes()
    spans = spans_of(first.read_text())
    assert len({span["traceId"] for span in spans}) == 1 and spans[0]["traceId"] != TRACE
    assert "parentSpanId" not in spans[0]


def test_a_refused_publish_is_an_error(run: Run, tmp_path: Path) -> None:
    capture = CAPTURES / "stories" / "publishes-refused.pcap"
    frames = run("pcap", capture, "--json", "-q", "-Y", 'frame.outcome == "refused"').out
    number = json.loads(frames.splitlines()[0])["frame"]
    assert run("trace", capture, "--frame", number, "--message", "1", "-o", tmp_path / "s.json").code == 0
    published = spans_of((tmp_path / "s.json").read_text())[0]
    assert published["status"]["code"] == 2
    assert published["attributes"]["error.type"] == published["status"]["message"] != ""


@pytest.mark.parametrize(
    "body",
    [
        b"\x00Sr\x00\x00\x00\x17\xa1\x0btraceparent\xa1\x37" + CONTEXT,
        b'{"specversion":"1.0","traceparent": "' + CONTEXT + b'"}',
    ],
    ids=["AMQP property", "CloudEvent"],
)
def test_a_context_inside_the_body_is_found(body: bytes) -> None:
    assert traceparent_of(None, body) == CONTEXT.decode()
    assert traceparent_of([("Traceparent", CONTEXT.replace(b"b7", b"b8"))], body) == CONTEXT.decode().replace(
        "b7", "b8"
    )


@pytest.mark.parametrize("context", [b"", b"00-" + b"0" * 32 + b"-" + b"0" * 16 + b"-01", b"00-xyz"])
def test_an_invalid_context_is_ignored(context: bytes) -> None:
    from wiredecode.metrics.spans import parent_of
    from wiredecode.trace import SightedMessage

    class Passing:
        traceparent = traceparent_of([("traceparent", context)], None)

    assert parent_of(SightedMessage([Passing()])) is None  # type: ignore[list-item]


def test_a_receiver_gets_spans(run: Run) -> None:
    received: list[tuple[str, bytes]] = []

    class Receiver(BaseHTTPRequestHandler):
        def do_POST(self) -> None:
            received.append((self.path, self.rfile.read(int(self.headers["Content-Length"]))))
            self.send_response(200)
            self.end_headers()

        def log_message(self, *said: object) -> None: ...

    with HTTPServer(("127.0.0.1", 0), Receiver) as server:
        threading.Thread(target=server.serve_forever, daemon=True).start()
        result = run("trace", NATS, "--text", "4711", "--otlp", f"http://127.0.0.1:{server.server_port}", "-q")
        server.shutdown()
    assert result.code == 0
    (path, body), *_ = received
    request = ExportTraceServiceRequest.FromString(body)
    assert path == "/v1/traces" and len(request.resource_spans) == 2
    assert request.resource_spans[0].scope_spans[0].spans[0].trace_id.hex() == TRACE


def test_text_that_is_no_unicode_has_one_spelling_in_spans_and_metrics(run: Run, tmp_path: Path) -> None:
    """Receivers of OTLP refuse lone surrogates."""
    said = (
        (1, b'INFO {"server_id":"\\ud800"}\r\n'),
        (0, b'CONNECT {"name":"c\\ud800\x1b[31m"}\r\nSUB _INBOX.a 1\r\nPUB or\xffders _INBOX.a 4\r\n4711\r\n'),
        (1, b"MSG _INBOX.a 1 2\r\nok\r\n"),
    )
    path = write(tmp_path / "no-unicode.pcap", craft([Part(1, *each) for each in said], every(1460), 4222))
    assert run("trace", path, "--text", "4711", "-o", tmp_path / "spans.json").code == 0
    (span,) = spans_of((tmp_path / "spans.json").read_text())
    assert (span["service"], span["name"]) == ("c\\ud800\x1b[31m", r"publish or\xffders")
    shown = run("metrics", path).out
    assert r"or\\xffders" in shown and "udcff" not in shown


def test_an_invalid_address_is_one_line(run: Run) -> None:
    result = run("trace", NATS, "--text", "4711", "--otlp", "grpc://h:4317")
    assert result.code == 2 and "--otlp" in result.err and "Traceback" not in result.err


def test_a_receiver_that_refuses_is_one_line(run: Run) -> None:
    class Refusing(BaseHTTPRequestHandler):
        def do_POST(self) -> None:
            self.send_response(403)
            self.end_headers()

        def log_message(self, *said: object) -> None: ...

    with HTTPServer(("127.0.0.1", 0), Refusing) as server:
        threading.Thread(target=server.serve_forever, daemon=True).start()
        result = run("trace", NATS, "--text", "4711", "--otlp", f"http://127.0.0.1:{server.server_port}/v1/traces")
        server.shutdown()
    assert result.code == 2 and result.err.count("\n") == 1 and "did not accept the spans" in result.err
