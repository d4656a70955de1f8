"""Names that are not UTF-8 in statistics."""

from __future__ import annotations

from pathlib import Path

from typer.testing import CliRunner

from tests.pcap import write_pcap
from tests.view.frames import CLIENT, SERVER, packets
from wiredecode.cli.app import app
from wiredecode.protocols.rabbitmq_stream import layers


def test_a_stream_name_that_is_not_utf8(tmp_path: Path) -> None:
    asked = layers.Subscribe(correlation_id=5, subscription_id=7, stream="orders\udca1", credit=10, properties=[])
    answer = layers.LAYERS[0x8007, 1](correlation_id=5, response_code=1)
    sent = packets([(CLIENT, asked), (SERVER, answer), (CLIENT, layers.Credit(subscription_id=7, credit=3))])
    write_pcap(tmp_path / "a.pcap", [(at * 1000, data) for at, data in enumerate(sent)])
    result = CliRunner().invoke(app, ["stats", str(tmp_path / "a.pcap"), "--json"])
    assert result.exit_code == 0, result.output
    assert r"orders\\xa1" in result.stdout
