"""A TLS conversation made by OpenSSL decodes with its secrets to the frames of the same conversation in clear."""

from __future__ import annotations

import random
import ssl
import subprocess
from functools import cache
from pathlib import Path
from typing import Any

import pytest

pytest.importorskip("cryptography")

from wiredecode.testing.packets import Talk, batches
from wiredecode.tls.keylog import KeyLog

SUITES_1_2 = [
    "ECDHE-RSA-AES128-GCM-SHA256",
    "ECDHE-RSA-AES256-GCM-SHA384",
    "AES128-GCM-SHA256",
    "ECDHE-RSA-CHACHA20-POLY1305",
    "AES128-CCM",
    "AES256-CCM",
    "AES128-CCM8",
    "AES256-CCM8",
    "ECDHE-RSA-AES128-SHA",
    "ECDHE-RSA-AES256-SHA",
    "ECDHE-RSA-AES128-SHA256",
    "ECDHE-RSA-AES256-SHA384",
    "AES256-SHA256",
    "AES128-SHA",
]
Said = list[tuple[int, bytes]]
"""(side, bytes) in order; 0 is the client."""


@cache
def certificate(folder: Path) -> tuple[Path, Path]:
    key, cert = folder / "key.pem", folder / "cert.pem"
    subject = ["-subj", "/CN=broker.example", "-days", "2"]
    command = ["openssl", "req", "-x509", "-newkey", "rsa:2048", "-nodes", "-keyout", str(key), "-out", str(cert)]
    subprocess.run([*command, *subject], check=True, capture_output=True, timeout=60)
    return cert, key


@pytest.fixture(scope="session")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("tls")


def nats() -> Said:
    said: Said = [(0, b'CONNECT {"verbose":false}\r\nPING\r\n'), (1, b"PONG\r\n"), (0, b"SUB orders.> 17\r\n")]
    for number in range(30):
        body = bytes((number * 7 + at) % 251 for at in range(1 + number * 91))
        head = b"orders.%d %d\r\n" % (number, len(body))
        said += [(0, b"PUB " + head + body + b"\r\n")]
        said += [(1, b"MSG orders.%d 17 %d\r\n" % (number, len(body)) + body + b"\r\n")]
    return said


INFO = b'INFO {"server_id":"ABC","version":"2.10.0","max_payload":1048576}\r\n'


class Pair:
    """A client and a server connected through memory, and the bytes that each wrote."""

    def __init__(self, folder: Path, suite: str | None, options: int = 0, trusts: bool = True) -> None:
        self.log = folder / f"keys-{suite}.log"
        self.client_context = client = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
        server = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        client.check_hostname, client.verify_mode = False, ssl.CERT_NONE if trusts else ssl.CERT_REQUIRED
        server.load_cert_chain(*certificate(folder))
        if suite is None:
            client.minimum_version = ssl.TLSVersion.TLSv1_3
        else:
            client.maximum_version = ssl.TLSVersion.TLSv1_2
            for each in (client, server):
                each.set_ciphers(suite + ":@SECLEVEL=0")
        client.options |= options
        client.keylog_filename = str(self.log)
        self.refused = False
        """Whether the handshake failed, as it must where the client does not trust the server."""
        try:
            self._connect(client, server)
        except ssl.SSLError:
            if trusts:
                raise
            self.refused = True

    def _connect(self, client: ssl.SSLContext, server: ssl.SSLContext, session: Any = None) -> None:
        self.memory = [(ssl.MemoryBIO(), ssl.MemoryBIO()) for _ in (0, 1)]
        self.ends = [
            client.wrap_bio(*self.memory[0], server_hostname="broker.example", session=session),
            server.wrap_bio(*self.memory[1], server_side=True),
        ]
        self.wire: Said = []
        self.servers = server
        done = [False, False]
        while not all(done):
            for side in (0, 1):
                try:
                    self.ends[side].do_handshake()
                    done[side] = True
                except ssl.SSLWantReadError:
                    pass
                self.carry(side)

    def carry(self, side: int) -> None:
        data = self.memory[side][1].read()
        if data:
            self.wire.append((side, data))
            self.memory[1 - side][0].write(data)

    def random(self) -> str:
        """The client's random, as in key logs."""
        return self.wire[0][1][11:43].hex()

    def say(self, side: int, data: bytes) -> None:
        self.ends[side].write(data)
        self.carry(side)
        assert self.ends[1 - side].read(1 << 20) == data


def packets(said: Said, size: int = 1000) -> list[bytes]:
    talk = Talk(server=("10.0.0.2", 4222))
    found = talk.handshake()
    for side, data in said:
        found += talk.send(side, data, size)
    return found


def meaning(found: Any) -> list[tuple[Any, ...]]:
    """The contents of frames outside handshakes; ``copy_of`` counts these frames only."""
    frames = [f for f in found.frames if f.protocol != "tls"]
    places = {f.number: place for place, f in enumerate(frames)}
    handshakes = [{**f.layers, "copy_of": places.get(f.generated.get("copy_of"))} for f in frames]
    for layers in handshakes:
        layers["nats"] = {name: value for name, value in layers.get("nats", {}).items() if name != "copy_of"}
    return [(f.side, f.type, f.status, f.data, layers, f.sender) for f, layers in zip(frames, handshakes, strict=True)]


def decode(sent: list[bytes], keys: KeyLog | None = None, size: int | None = None) -> Any:
    from wiredecode.dissect.dissector import Demand, Dissector
    from wiredecode.testing.dissection import STYLE, Result

    dissector = Dissector(Demand(style=STYLE, keys=keys))
    frames = list(dissector.frames(batches(sent, size)))
    return Result(frames, dissector.totals)


@cache
def meaning_in_clear() -> list[tuple[Any, ...]]:
    return meaning(decode(packets([(1, INFO), *nats()])))


@pytest.mark.parametrize("suite", [None, *SUITES_1_2], ids=str)
def test_frames_are_those_in_clear(suite: str | None, folder: Path) -> None:
    pair = Pair(folder, suite)
    for side, data in nats():
        pair.say(side, data)
    if suite is not None:
        assert pair.ends[0].cipher()[0] == suite
    clear = meaning_in_clear()
    assert len(clear) == 65
    for size, segment in ((None, 7), (3, 1000), (None, 1000)) if suite in (None, SUITES_1_2[0]) else ((3, 1000),):
        sent = packets([(1, INFO), *pair.wire], segment)
        found = decode(sent, KeyLog([pair.log]), size)
        assert meaning(found) == clear
        totals = found.totals
        assert totals.captured == totals.framed + totals.undecoded + totals.ignored
        assert totals.undecoded == 0
    assert meaning(decode(sent)) == meaning(decode(sent, KeyLog()))  # without keys nothing changes
    assert not decode(sent).of("PUB", "MSG")


def test_mac_before_encryption(folder: Path) -> None:
    pair = Pair(folder, "AES128-SHA256", options=1 << 19)  # SSL_OP_NO_ENCRYPT_THEN_MAC
    for side, data in nats():
        pair.say(side, data)
    found = decode(packets([(1, INFO), *pair.wire]), KeyLog([pair.log]))
    assert meaning(found) == meaning_in_clear()


@pytest.mark.parametrize("version", ["1.2", "1.3"])
def test_a_resumed_session(folder: Path, version: str) -> None:
    pair = Pair(folder, "AES128-GCM-SHA256" if version == "1.2" else None)
    pair.say(1, b"x")
    pair._connect(pair.client_context, pair.servers, pair.ends[0].session)
    for side, data in nats():
        pair.say(side, data)
    assert pair.ends[0].session_reused
    found = decode(packets([(1, INFO), *pair.wire]), KeyLog([pair.log]))
    assert meaning(found) == meaning_in_clear()


@pytest.mark.parametrize("suite", [None, "AES128-GCM-SHA256", "ECDHE-RSA-CHACHA20-POLY1305", "AES128-SHA"], ids=str)
def test_decryption_continues_at_the_next_record_after_a_gap(suite: str | None, folder: Path) -> None:
    pair = Pair(folder, suite)
    handshake = len(pair.wire) + 4  # packets of TCP's handshake, and INFO
    for side, data in nats():
        pair.say(side, data)
    sent = packets([(1, INFO), *pair.wire], 1000)
    whole = [f.data for f in decode(sent, KeyLog([pair.log])).frames]
    chosen = random.Random(17)
    for _ in range(8):
        lost = set(chosen.sample(range(handshake + 12, len(sent)), 3))
        found = decode([data for at, data in enumerate(sent) if at not in lost], KeyLog([pair.log]))
        kept = [f.data for f in found.frames if f.status == "ok"]
        assert len(kept) >= len(whole) - 12
        assert set(kept) <= set(whole)  # nothing is invented
        totals = found.totals
        assert totals.captured == totals.framed + totals.undecoded + totals.ignored


def test_keys_of_other_connections_change_nothing(folder: Path, tmp_path: Path) -> None:
    pair = Pair(folder, None)
    for side, data in nats():
        pair.say(side, data)
    sent = packets([(1, INFO), *pair.wire])
    log = tmp_path / "other.log"
    log.write_text("# a comment\nCLIENT_RANDOM 00 11\nCLIENT_RANDOM zz 11\n" + f"CLIENT_RANDOM {'00' * 32} 1122\n")
    found = decode(sent, KeyLog([log]))
    assert meaning(found) == meaning(decode(sent))
    assert "1122" not in repr(KeyLog([log]))


def test_key_logs_come_from_options_and_captures(folder: Path, tmp_path: Path) -> None:
    from typer.testing import CliRunner

    from tests.pcap import write_pcap
    from wiredecode.cli.app import app

    pair = Pair(folder, None)
    for side, data in nats():
        pair.say(side, data)
    capture = tmp_path / "tls.pcap"
    write_pcap(capture, [(at * 1000, data) for at, data in enumerate(packets([(1, INFO), *pair.wire]))])
    keys = tmp_path / "keys"
    keys.mkdir()
    (keys / "a.log").write_bytes(pair.log.read_bytes())
    inside = tmp_path / "tls.pcapng"
    tool = ["editcap", "--inject-secrets", f"tls,{pair.log}", str(capture), str(inside)]
    subprocess.run(tool, check=True, capture_output=True, timeout=60)

    def shown(*words: str) -> str:
        result = CliRunner().invoke(app, ["pcap", "--summary", "-q", "-Y", 'frame.type == "PUB"', *words])
        assert result.exit_code == 0, result.output
        return str(result.stdout)

    expected = shown(str(capture), "--keylog", str(pair.log))
    assert expected.count("\n") == 30
    assert shown(str(capture), "--keylog-dir", str(keys)) == expected
    assert shown(str(inside)) == expected
    assert shown(str(capture)) == ""


@pytest.mark.parametrize("words", [["anonymize", "{}", "-o", "out.pcapng"]], ids=["anonymize"])
@pytest.mark.parametrize("option", ["--keylog", "--keylog-dir"])
def test_a_key_log_that_decrypts_nothing_is_reported(words: list[str], option: str, tmp_path: Path) -> None:
    from typer.testing import CliRunner

    from tests.support import RABBITMQ
    from wiredecode.cli.app import app

    capture = str(RABBITMQ / "c43_tls.pcap")
    result = CliRunner().invoke(app, [*(word.format(capture) for word in words), option, str(tmp_path)])
    assert result.exit_code == 2
    assert not Path("out.pcapng").exists()


def test_a_real_broker_in_tls() -> None:
    """The frames that rstream and RabbitMQ exchanged in TLS, from their truth file."""
    import json

    from tests.support import RABBITMQ
    from tests.support import packets as of_file
    from wiredecode.capture import PacketBatch
    from wiredecode.dissect.dissector import Demand, Dissector

    demand = Demand(keys=KeyLog([RABBITMQ / "c43_tls.keylog"]))
    frames = list(Dissector(demand).frames([PacketBatch.from_packets(of_file(RABBITMQ / "c43_tls.pcap"))]))
    truth = json.loads((RABBITMQ / "c43_tls.truth.json").read_bytes())
    said = [each for connection in truth["connections"] for each in connection["frames"]]
    assert sorted(frame.code & 0x7FFF for frame in frames if frame.code is not None) == sorted(
        each["key"] & 0x7FFF for each in said
    )
    assert {frame.status for frame in frames} == {"ok"}


@pytest.mark.parametrize(("first", "count"), [(9, 62), (30, 41), (61, 24)])
def test_a_capture_that_begins_inside_a_connection(first: int, count: int, folder: Path) -> None:
    pairs = [Pair(folder, None) for _ in range(3)]  # their secrets are in one file
    for side, data in nats():
        pairs[1].say(side, data)
    sent = packets(pairs[1].wire, 1000)
    keys = KeyLog([pairs[1].log])
    assert len(keys.traffic()) >= 6
    whole = meaning(decode(sent, keys))
    for size in (None, 1):
        found = decode(sent[first:], keys, size)
        for sender in ("client", "server"):
            kept, all_of_it = ([f[3] for f in frames if f[5] == sender] for frames in (meaning(found), whole))
            assert kept == all_of_it[-len(kept) :]
        assert len(meaning(found)) == count
        totals = found.totals
        assert totals.captured == totals.framed + totals.undecoded + totals.ignored
    assert not decode(sent[first:], KeyLog([])).of("PUB", "MSG")


def test_a_connection_of_another_session_is_not_decrypted(folder: Path) -> None:
    pair, other = Pair(folder, None), Pair(folder, None)
    for side, data in nats()[:9]:
        pair.say(side, data)
    log = folder / "another.log"
    log.write_text("\n".join(line for line in pair.log.read_text().splitlines() if other.random() in line))
    inside = packets(pair.wire)[9:]
    assert meaning(decode(inside, KeyLog([log]))) == meaning(decode(inside))
    clear = packets(nats())[6:]  # nor does it change unencrypted connections
    found, expected = meaning(decode(clear, KeyLog([log]))), meaning(decode(clear))
    assert sorted(each[:4] for each in found) == sorted(each[:4] for each in expected)


def facts(found: Any, *names: str) -> list[Any]:
    """Type, side and fields of handshake frames."""
    handshakes = [frame for frame in found.frames if frame.protocol == "tls"]
    return [(each.type, each.side, *(each.layers["tls"].get(name) for name in names)) for each in handshakes]


@pytest.mark.parametrize("version", ["1.2", "1.3"])
def test_the_handshake_in_clear_and_decrypted(version: str, folder: Path) -> None:
    pair = Pair(folder, "ECDHE-RSA-AES128-GCM-SHA256" if version == "1.2" else None)
    for side, data in nats():
        pair.say(side, data)
    for size in (1000, 7):
        sent = packets(pair.wire, size)
        bare = facts(decode(sent), "server_name", "version_chosen", "alpn", "certificate_subject", "decrypted")
        assert bare[:2] == [
            ("ClientHello", 0, "broker.example", None, None, None, None),
            ("ServerHello", 1, None, f"TLS {version}", None, None, None),
        ]
        known = facts(decode(sent, KeyLog([pair.log])), "certificate_subject", "decrypted", "certificate_names")
        decrypted = True if version == "1.3" else None
        assert ("Certificate", 1, "CN=broker.example", decrypted, None) in known
        assert [kind for kind, *_ in known].count("Finished") == 2
        if version == "1.2":
            assert ("Certificate", 1, None, None, None, "CN=broker.example", None) in bare
        else:
            assert len(bare) == 2
        totals = decode(sent).totals
        assert not totals.framed  # the bytes of records count with those of their connection
        assert sum(totals.other.values()) == totals.captured


@pytest.mark.parametrize("keyed", [False, True])
@pytest.mark.parametrize("version", ["1.2", "1.3"])
def test_a_client_that_does_not_trust_the_server(version: str, keyed: bool, folder: Path) -> None:
    pair = Pair(folder, "AES128-GCM-SHA256" if version == "1.2" else None, trusts=False)
    assert pair.refused
    pair.carry(0)
    found = decode(packets(pair.wire), KeyLog([pair.log]) if keyed else None)
    alerts = [frame for frame in found.frames if frame.type == "Alert"]
    assert [(frame.side, frame.layers["tls"]["alert"]) for frame in alerts] == [(0, "unknown_ca")]
    assert alerts[0].connection.identity["reason"] == "unknown_ca"
    assert [(each.severity, each.code) for each in alerts[0].findings] == [("error", "alert")]


def test_secrets_of_a_wrong_size_decrypt_nothing(folder: Path, tmp_path: Path) -> None:
    pair = Pair(folder, None)
    for side, data in nats():
        pair.say(side, data)
    log = tmp_path / "cut.log"
    log.write_text("".join(line[:-20] + "\n" for line in pair.log.read_text().splitlines() if line[:1] != "#"))
    found = decode(packets([(1, INFO), *pair.wire]), KeyLog([log]))
    assert [frame.type for frame in found.frames] == ["INFO", "ClientHello", "ServerHello"]


def test_stable_ids_of_decrypted_frames_differ_and_packets_have_times() -> None:
    import wiredecode
    from tests.support import RABBITMQ

    found = [*wiredecode.read(RABBITMQ / "c43_tls.pcap", keylog=RABBITMQ / "c43_tls.keylog", ids="stable")]
    assert len({frame.id for frame in found}) == 65
    assert all(frame.packets[-1] == frame.time_ns for frame in found if frame.type == "ClientHello")


def test_python_accepts_a_key_log() -> None:
    import wiredecode
    from tests.support import RABBITMQ

    found = wiredecode.read(RABBITMQ / "c43_tls.pcap", keylog=RABBITMQ / "c43_tls.keylog")
    assert [frame.status for frame in found] == ["ok"] * 65
    assert found.table().num_rows == 65
