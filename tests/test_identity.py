"""Names of connections from the protocols, equal in every command."""

from __future__ import annotations

import ssl
from contextlib import suppress
from pathlib import Path
from typing import Any

import pytest

import wiredecode
from wiredecode.capture import open_capture
from wiredecode.dissect.dissector import Demand, Dissector
from wiredecode.fields.layer import Style
from wiredecode.frames.identity import MAX_CHARACTERS, began, describe, end_text, remember, short
from wiredecode.frames.record import BYTES
from wiredecode.net.types import Connection
from wiredecode.protocols.shared import tls

CAPTURES = Path(__file__).parent.parent / "captures"


def connections(name: str, **demand: Any) -> list[Connection]:
    found: list[Connection] = []
    dissector = Dissector(
        Demand(analyse=True, **demand),
        on_end=lambda connection, _: found.append(connection),
    )
    for _ in dissector.frames(open_capture([CAPTURES / name])):
        pass
    return sorted(found, key=lambda connection: connection.number)


def test_names_of_rabbitmq_stream_clients() -> None:
    admin, producer, *_ = connections("rabbitmq-stream/c43_basic.pcap")
    assert admin.identity["user"] == "guest"
    assert admin.identity["virtual_host"] == "/"
    assert admin.identity["broker"].startswith("RabbitMQ 4.")
    assert end_text(admin) == "server FIN, client said: OK"
    assert describe(producer).endswith("127.0.0.3:5552, wd-producer, user guest, virtual host /, RabbitMQ Stream 1.1.1")


def test_names_of_clients_that_nats_refuses() -> None:
    ends = {one.identity.get("name"): end_text(one) for one in connections("nats/02-auth.pcap")}
    assert ends["alice ok"] == "client FIN"
    assert ends["alice bad"] == "server FIN: Authorization Violation"
    assert ends["node-client"] == "server RST: Authorization Violation"


def test_names_of_liftbridge_servers_and_their_connections() -> None:
    roles = {one.identity.get("role") for one in connections("liftbridge/31-lb-all-types.pcap")}
    assert {f"server server-{one}, purpose raft" for one in "ab"} <= roles


@pytest.mark.parametrize(
    ("name", "who"),
    [
        ("tank/tank_03_produce_single.pcap", {"name": "c++"}),
        ("cursus/group.pcap", {"group": "workers"}),
        ("nats/17-tls.pcap", {"server_name": "localhost"}),
    ],
)
def test_names_of_other_protocols(name: str, who: dict[str, str]) -> None:
    assert any(who.items() <= one.identity.items() for one in connections(name))


def test_names_of_pravega_writers() -> None:
    first = connections("pravega/append_basic.pcap")[0].identity["name"]
    assert first.startswith("writer ")


def test_names_do_not_depend_on_the_way_of_reading() -> None:
    for name in (
        "rabbitmq-stream/c43_basic.pcap",
        "nats/02-auth.pcap",
        "cursus/group.pcap",
        "pravega/append_basic.pcap",
    ):
        plain = [one.identity for one in connections(name)]
        style = Style(BYTES["hex"])
        assert [one.identity for one in connections(name, style=style)] == plain


def test_a_frame_of_the_api_has_its_connection() -> None:
    frame = list(wiredecode.read(CAPTURES / "rabbitmq-stream/c43_basic.pcap"))[40]
    assert short(frame.connection) == f"wd-producer (#{frame.connection.number})"


def test_connections_that_failed_to_open() -> None:
    refused = connections("stories/advertised-refused.pcap")[-1]
    assert (began(refused), end_text(refused)) == ("refused", "refused")
    assert began(connections("tank/tank_d4_midconnection.pcap")[0]) == "before the capture"


def test_a_name_of_a_megabyte() -> None:
    connection = Connection(1, ("a:1", "b:2"), (1, 2))
    remember(connection, {"name": "x" * 0x100000, "user": None, "role": ""})
    assert len(connection.identity["name"]) == MAX_CHARACTERS
    assert connection.identity.keys() == {"name"}


def client_hello(host: str) -> bytes:
    incoming, outgoing = ssl.MemoryBIO(), ssl.MemoryBIO()
    client = ssl.create_default_context().wrap_bio(incoming, outgoing, server_hostname=host)
    with pytest.raises(ssl.SSLWantReadError):
        client.do_handshake()
    return outgoing.read()


def test_server_name_in_a_tls_client_hello() -> None:
    hello = client_hello("broker-7.example.org")[9:]
    assert tls.client_hello(hello)["server_name"] == "broker-7.example.org"
    for size in range(len(hello)):
        with suppress(ValueError):
            assert tls.client_hello(hello[:size])["server_name"] is None
    for place in range(len(hello)):
        with suppress(ValueError):
            name = tls.client_hello(hello[:place] + b"\xff" + hello[place + 1 :])["server_name"]
            assert (name or "").isascii()
