"""Connections that carry credentials in every spelling; whole, truncated and with a late start.

Every secret is :data:`SECRET`, which repeats a core: a piece of it that is long enough to matter holds the core, and
so do its hex digits and, at each of three alignments, its base64.
"""

from __future__ import annotations

import base64
import gzip
import json
import struct
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from tests.protocols.test_amqp091_parity import message as message_of
from tests.protocols.test_amqp091_parity import method
from wiredecode.protocols.amqp091.names import GREETING
from wiredecode.protocols.kafka.layers import layer_of
from wiredecode.protocols.kafka.layers_records import Batch, Header, Record
from wiredecode.protocols.kafka.layers_table import MESSAGES
from wiredecode.testing import Talk, build

CORE = "Qx7Zk9"
SECRET = CORE * 5
JWT = "eyJ0eXAiOiJKV1QiLCJhbGciOiJlZDI1NTE5LW5rZXkifQ.eyJq" + SECRET + "." + SECRET


def late(case: int) -> tuple[int, int]:
    """Numbers of bytes missing at the start of a case's connection: a few, and enough to begin inside a field."""
    return 1 + case % 8, 9 + 5 * case % 48


def snaplens(case: int) -> tuple[int, int]:
    """Snapshot lengths of a case: a usual one, and any."""
    return 96, 60 + 7 * case % 64


def forms() -> list[str]:
    """The forms of the core in outputs: plain, hex digits in both cases and spaced, base64."""
    raw = CORE.encode()
    pairs = [f"{byte:02x}" for byte in raw]
    found = [CORE, "".join(pairs), " ".join(pairs), ":".join(pairs), "\\x" + "\\x".join(pairs)]
    for shift in range(3):
        text = base64.b64encode(b"\0" * shift + raw * 3).decode()
        found.append(text[4 : 4 + 8])  # a part of the repetition that excludes the bytes before it
    return [*found, *(form.upper() for form in found[1:5])]


@dataclass(frozen=True)
class Case:
    """Bytes of the client, then of the server, on one connection; ``before`` holds no secret."""

    name: str
    port: int
    client: tuple[bytes, ...]
    server: tuple[bytes, ...] = ()
    opening: bytes = b""
    """First bytes of the server."""


def _nats(name: str, *client: bytes | str, server: tuple[bytes | str, ...] = (), plain: bool = False) -> Case:
    said = tuple(line.encode() if isinstance(line, str) else line for line in client)
    answers = tuple(line.encode() if isinstance(line, str) else line for line in server)
    first = () if plain else (b'CONNECT {"verbose":false,"name":"shop"}\r\n', b"PING\r\n")
    opening = b'INFO {"server_id":"NA","version":"2.9.10","headers":true,"max_payload":1048576}\r\n'
    return Case(name, 4222, (*first, *said), (*answers, b"PONG\r\n"), opening)


def connect(**options: object) -> str:
    return "CONNECT " + json.dumps({"verbose": False, **options}) + "\r\nPING\r\n"


def message(operation: str, payload: str, *headers: str) -> str:
    """``HPUB``, ``HMSG``, ``PUB`` or ``MSG`` and its subject, with sizes filled in."""
    if not headers:
        return f"{operation} {len(payload)}\r\n{payload}\r\n"
    block = "NATS/1.0\r\n" + "".join(f"{header}\r\n" for header in headers) + "\r\n"
    return f"{operation} {len(block)} {len(block) + len(payload)}\r\n{block}{payload}\r\n"


MEMBERS = (
    *("pass", "auth_token", "jwt", "sig", "nkey", "proxy_sig", "Password", "PASS", "apikey", "api_key", "bearer"),
    *("whatever", "account_seed", "creds"),
)
HEADERS = (
    *("Password", "apikey", "Authorization ", "authorization", "X-Api-Key", "X-Auth", "Auth-Token", "JWT", "Bearer"),
    *("Proxy-Authorization", "Cookie", "Session-Id", "Client-Secret", "PASSWD", "x-amz-security-token", "Signature"),
    *("AccessKey", "private_key", "credentials", "X-Nkey", "Nats-Secret", "pswd", "pw", "AccountKey", "dsn", "hmac"),
    *("Ocp-Apim-Subscription-Key", "x-functions-key", "connection-string", "SSH-Key", "X-CSRF", "mfa", "ticket"),
    *("userPw", "client_assertion", "sasl.jaas.config", "recovery-code"),
)
VALUES = (
    *("ApiKey {}", "Bearer: {}", 'Bearer "{}"', "password={}", "user=u;Password={};Server=x", '{{"password":"{}"}}'),
    *("https://h/x?access_token={}", "https://h/x?sv=1&sig={}", "amqp://u:p/{}@h/", "amqp://u:p@{}@h/"),
    *("amqp://u:p#{}@h/", "amqp://u:p?{}@h/", "amqp://u:p'{}@h/", "//u:{}@h", "u:{}@h:5672", "Basic\t{}"),
    *("-----BEGIN PRIVATE KEY-----{}-----END PRIVATE KEY-----", "ghp_{}", "xoxb-1-{}", "AKIA{}", "token {}"),
    *("AWS4-HMAC-SHA256 Credential=AKIA/x, Signature={}", "password is {}", "password -> {}", "password({})"),
    *(r"{{\"password\":\"{}\"}}", "<password>{}</password>", "password%3D{}", "hf_{}", "Authorization: x {}"),
    *("PHPSESSID={}", "PWD={{{}}};", "pin={}", "mysql -u root -p{}", "redis-cli -a {}", "login -u u -p {}", "x -p {}"),
    *(
        "contraseña: {}",
        "пароль={}",
        "密码\uff1a{}",
        "Das Passwort lautet {}",
        "client-key-data: {}",
        "curl --user u:{}",
    ),
    *('{{"pass\\u0077ord":"{}"}}', '{{"name":"Authorization","value":"{}"}}', '<entry key="db.password">{}</entry>'),
    *("%22password%22%3A%22{}%22", "&quot;password&quot;:&quot;{}&quot;", "**Password:** {}", "GOCSPX-{}"),
)
"""Values that are credentials by their form."""


def protobuf(number: int, value: str) -> str:
    return chr(number << 3 | 2) + chr(len(value)) + value


def envelope(content: str) -> bytes:
    """A publish on NATS that carries one of Liftbridge."""
    payload = b"\xb9\x0e\x43\xb4\0\x08\0\0" + protobuf(5, "orders").encode() + content.encode()
    return b"PUB orders %d\r\n%s\r\n" % (len(payload), payload)


def nats() -> Iterator[Case]:
    yield from (_nats(f"CONNECT {name}", connect(**{name: SECRET}), plain=True) for name in MEMBERS)
    yield _nats("CONNECT other type", connect(tls_required=SECRET), plain=True)
    status = f"NATS/1.0 401 token {SECRET}\r\n\r\n"
    yield _nats("status", server=(f"HMSG orders 1 {len(status)} {len(status)}\r\n{status}\r\n",))
    yield _nats("CONNECT nested", connect(remote={"inner": [{"password": SECRET}], "x": SECRET}), plain=True)
    yield _nats("CONNECT twice", f'CONNECT {{"pass":"{SECRET}","pass":"x"}}\r\nPING\r\n', plain=True)
    yield _nats("CONNECT broken", f'CONNECT {{"user":"u","pass:"{SECRET}"}}\r\nPING\r\n', plain=True)
    yield _nats("CONNECT no JSON", f"CONNECT {SECRET}\r\nPING\r\n", plain=True)
    yield _nats("CONNECT lower", f'connect {{"pass":"{SECRET}"}}\r\nPING\r\n', plain=True)
    yield _nats("CONNECT surplus", f'CONNECT {{"verbose":false}} {SECRET}\r\nPING\r\n', plain=True)
    yield _nats("CONNECT late", f'ONNECT {{"pass":"{SECRET}"}}\r\nPING\r\n', plain=True)
    yield _nats("CONNECT in pieces", 'CONNECT {"pa', f'ss":"{SECRET}"}}\r\nPING\r\n', plain=True)
    yield _nats("CONNECT name is a URL", connect(name=f"nats://u:{SECRET}@h:4222"), plain=True)
    yield _nats("CONNECT user is a token", connect(user=f"eyJ0eXAiOiJKV1QifQ.{SECRET}.{SECRET}"), plain=True)
    yield _nats("PING surplus", f"PING {SECRET}\r\nPONG {SECRET}\r\n")
    yield _nats("no operation", f"WHAT {SECRET}\r\n", connect(**{"pass": SECRET}))
    yield _nats("INFO URL", server=(f'INFO {{"connect_urls":["nats://u:{SECRET}@h:1"],"x":1}}\r\n',))
    yield _nats("INFO unknown", server=(f'INFO {{"secret_thing":"{SECRET}","token":"{SECRET}"}}\r\n',))
    yield _nats("ERR URL", server=(f"-ERR 'cannot reach nats://u:{SECRET}@h:1'\r\n",))
    for name in HEADERS:
        yield _nats(f"header {name}", message("HPUB orders", "body", f"{name}: {SECRET}", "Nats-Msg-Id: a1"))
    for value in VALUES:
        yield _nats(f"value {value}", message("HPUB orders", "body", f"X-Mine: {value.format(SECRET)}"))
    yield _nats("header value Bearer", message("HPUB orders", "body", f"X-Mine: Bearer {SECRET}"))
    yield _nats("header value JWT", message("HPUB orders", "body", f"X-Mine: {JWT}"))
    yield _nats("header value URL", message("HPUB orders", "body", f"X-Mine: amqp://me:{SECRET}@h/"))
    yield _nats("header without blank", message("HPUB orders", "body", f"Password:{SECRET}"))
    yield _nats("block of another form", f"HPUB orders 30 {34}\r\n{SECRET}body\r\n")
    yield _nats("claims update", message("PUB $SYS.REQ.CLAIMS.UPDATE _INBOX.a.1", JWT))
    yield _nats("account claims", message("PUB $SYS.REQ.ACCOUNT.ABC.CLAIMS.UPDATE _INBOX.a.2", JWT))
    yield _nats("claims as they were", message("PUB $SYS.ACCOUNT.ABC.CLAIMS.UPDATE", JWT))
    for number, member in enumerate(('"metadata":{{"api_key":"{}"}}', '"description":"has password={}"')):
        stored = f'{{"name":"A",{member.format(SECRET)}}}'
        yield _nats(f"stream {number}", message("PUB $JS.API.STREAM.CREATE.A _INBOX.a.4", stored))
    answer = f'{{"type":"io.nats.jetstream.api.v1.x","error":{{"description":"token={SECRET}"}}}}'
    yield _nats("API error", server=(message("MSG _INBOX.zz.4 1", answer),))
    for name, secret in (("password", SECRET), ("note", f"Bearer {SECRET}")):
        yield _nats(f"Liftbridge header {name}", envelope(protobuf(9, protobuf(1, name) + protobuf(2, secret))))
    yield _nats("Liftbridge unknown field", envelope(protobuf(13, SECRET)))
    yield _nats("any request", message("PUB $SYS.REQ.SOMETHING.NEW", SECRET))
    yield _nats("connect event", server=(message("MSG $SYS.ACCOUNT.ABC.CONNECT 1", f'{{"jwt":"{SECRET}"}}'),))
    lookup = message("PUB $SYS.REQ.ACCOUNT.ABC.CLAIMS.LOOKUP _INBOX.b.3", "")
    yield _nats("lookup answered", lookup, server=(message("MSG _INBOX.b.3 1", SECRET),))
    yield _nats("claims to an inbox", server=(message("MSG _INBOX.zz.3 1", JWT),))
    yield _nats("auth callout", server=(message("MSG $SYS.REQ.USER.AUTH 1 _INBOX.q", JWT),))
    yield _nats(
        "WebSocket", f"GET /x?jwt={SECRET} HTTP/1.1\r\nUpgrade: websocket\r\nCookie: {SECRET}\r\n\r\n", plain=True
    )


def stream(key: int, body: bytes, version: int = 1) -> bytes:
    return struct.pack(">IHH", len(body) + 4, key, version) + body


def string(text: bytes | str) -> bytes:
    raw = text.encode() if isinstance(text, str) else text
    return struct.pack(">H", len(raw)) + raw


def blob(raw: bytes) -> bytes:
    return struct.pack(">I", len(raw)) + raw


def _rabbit(name: str, *client: bytes, server: tuple[bytes, ...] = ()) -> Case:
    properties = stream(17, struct.pack(">II", 1, 1) + string("product") + string("rstream"))
    handshake = stream(18, struct.pack(">I", 2))
    answers = (
        stream(0x8011, struct.pack(">IHI", 1, 1, 0)),
        stream(0x8012, struct.pack(">IHI", 2, 1, 2) + string("PLAIN") + string("AMQPLAIN")),
    )
    return Case(name, 5552, (properties, handshake, *client), (*answers, *server))


def sasl(mechanism: str, data: bytes, version: int = 1, surplus: bytes = b"") -> bytes:
    return stream(19, struct.pack(">I", 3) + string(mechanism) + blob(data) + surplus, version)


def table(**pairs: bytes) -> bytes:
    return b"".join(bytes([len(key)]) + key.encode() + b"S" + blob(value) for key, value in pairs.items())


def amqp_text(value: str | bytes) -> bytes:
    """A value of AMQP 1.0: a string, or binary."""
    raw = value.encode() if isinstance(value, str) else value
    return bytes([0xA1 if isinstance(value, str) else 0xA0, len(raw)]) + raw


def amqp_map(**pairs: bytes) -> bytes:
    raw = b"".join(amqp_text(key.replace("_", "-")) + value for key, value in pairs.items())
    return bytes([0xC1, len(raw) + 1, 2 * len(pairs)]) + raw


def amqp_array(*values: str) -> bytes:
    raw = b"".join(amqp_text(value)[1:] for value in values)
    return bytes([0xE0, len(raw) + 2, len(values), 0xA1]) + raw


def section(number: int, value: bytes) -> bytes:
    return bytes([0, 0x53, number]) + value


AMQP = {
    "application property": section(0x74, amqp_map(password=amqp_text(SECRET))),
    "binary": section(0x74, amqp_map(x_api_key=amqp_text(SECRET.encode()))),
    "URL": section(0x74, amqp_map(note=amqp_text(f"amqp://u:{SECRET}@h/"))),
    "URL as a name": section(
        0x74, bytes([0xC1, 33, 2]) + amqp_text(f"amqp://u:{SECRET}@h/").ljust(30, b"/") + b"\x56\1"
    ),
    "nested": section(0x72, amqp_map(a=amqp_map(token=amqp_map(x=amqp_text(SECRET))))),
    "array": section(0x71, amqp_map(secret=amqp_array("x", SECRET))),
    "reply-to": section(0x73, bytes([0xC0, 34, 5]) + b"@@@@" + amqp_text(f"amqp://u:{SECRET}@h/").ljust(29, b"/")),
    "malformed": section(0x74, bytes([0xC1, 77, 2]) + amqp_text("password") + amqp_text(SECRET)),
}
BODY = section(0x75, b"\xa0\4body")


def published(*messages: bytes) -> bytes:
    return stream(
        2, b"\7" + struct.pack(">I", len(messages)) + b"".join(struct.pack(">Q", 9) + each for each in messages)
    )


def rabbit() -> Iterator[Case]:
    secret = SECRET.encode()
    for name, front in AMQP.items():
        yield _rabbit(f"AMQP {name}", published(blob(front + BODY), blob(BODY)))
    footer = BODY + section(0x78, amqp_map(token=amqp_text(SECRET)))
    yield _rabbit("AMQP footer", published(blob(BODY), blob(footer)))
    inside = blob(BODY) + blob(AMQP["application property"] + BODY)
    batch = struct.pack(">BHII", 0x80, 2, len(inside), len(inside)) + inside
    yield _rabbit("AMQP in a sub-batch", published(batch))
    yield _rabbit("virtual host", stream(21, struct.pack(">I", 5) + string(f"amqp://u:{SECRET}@h/")))
    yield _rabbit("closing reason", stream(22, struct.pack(">IH", 7, 1) + string(f"bad token={SECRET}")))
    yield _rabbit("PLAIN", sasl("PLAIN", b"\0guest\0" + secret))
    yield _rabbit("PLAIN without authcid", sasl("PLAIN", b"guest\0" + secret))
    yield _rabbit("PLAIN begins with the secret", sasl("PLAIN", secret))
    yield _rabbit("PLAIN with a NUL too few", sasl("PLAIN", b"guest\0" + secret + b"\0"))
    yield _rabbit("PLAIN twice", sasl("PLAIN", b"\0" + secret + b"\0"))
    yield _rabbit("AMQPLAIN", sasl("AMQPLAIN", table(LOGIN=b"guest", PASSWORD=secret)))
    yield _rabbit("AMQPLAIN cut", sasl("AMQPLAIN", table(LOGIN=b"guest", PASSWORD=secret)[:-3]))
    yield _rabbit("unknown mechanism", sasl("EXTERNAL-X", secret))
    yield _rabbit("secret as mechanism", sasl(SECRET, b"x"))
    yield _rabbit("PLAIN with surplus", sasl("PLAIN", b"\0a\0b", surplus=secret))
    yield _rabbit("another version", sasl("PLAIN", b"\0guest\0" + secret, 2))
    lying = struct.pack(">I", 3) + string("PLAIN") + struct.pack(">I", 7) + b"\0guest\0" + secret
    yield _rabbit("length too small", stream(19, lying))
    lying = struct.pack(">I", 3) + string("PLAIN") + struct.pack(">I", 700) + b"\0guest\0" + secret
    yield _rabbit("length too large", stream(19, lying))
    yield _rabbit("correlation id is missing", stream(19, string("PLAIN") + blob(b"\0guest\0" + secret)))
    yield _rabbit("unknown command", sasl("PLAIN", b"\0a\0b"), stream(0x77, secret))
    yield _rabbit("surplus", stream(18, struct.pack(">I", 9) + secret))
    yield _rabbit("challenge", server=(stream(0x8013, struct.pack(">IHI", 3, 1, len(secret)) + secret),))
    pairs = struct.pack(">II", 5, 2) + string("password") + string(SECRET) + string("product") + string("x")
    yield _rabbit("peer property", stream(17, pairs))
    for value in VALUES:
        pairs = struct.pack(">II", 5, 1) + string("note") + string(value.format(SECRET))
        yield _rabbit(f"peer property {value}", stream(17, pairs))
    pairs = struct.pack(">II", 5, 1) + string("uri") + string(f"rabbitmq-stream://u:{SECRET}@h:5552")
    yield _rabbit("peer property with a URL", stream(17, pairs))
    yield _rabbit("stray", sasl("PLAIN", b"\0a\0b"), b"\xff\xff\xff\xff" + secret)


def frame(body: str | bytes) -> bytes:
    raw = body.encode() if isinstance(body, str) else body
    return struct.pack(">I", len(raw)) + raw


def command(text: str, topic: str = "") -> bytes:
    return frame(struct.pack(">H", len(topic)) + topic.encode() + text.encode())


def _cursus(name: str, *client: bytes, server: tuple[bytes, ...] = ()) -> Case:
    first = (command("LIST"),)
    return Case(name, 9000, (*first, *client), (frame("OK topics=a,b"), *server))


def cursus() -> Iterator[Case]:
    secret = SECRET
    yield _cursus("AUTH", command(f"AUTH token={secret}"))
    yield _cursus("AUTH bare", command(f"AUTH {secret}"))
    yield _cursus("AUTH password", command(f"AUTH user=u password={secret}"))
    yield _cursus("AUTH unknown", command(f"AUTH what={secret} {secret}"))
    yield _cursus("AUTH in lower case", command(f"auth key={secret}"))
    yield _cursus("AUTH discovery", command(f'AUTH {secret} JOIN {{"id":"a"}}', "cluster"))
    yield _cursus("JOIN", command(f'JOIN {{"id":"a","auth_token":"{secret}","Token":"{secret}"}}', "cluster"))
    yield _cursus("nested", command(f'JOIN {{"id":"a","more":[{{"password":"{secret}"}}]}}', "cluster"))
    yield _cursus("PRODUCE", command(f"PUBLISH topic=a auth_token={secret} message=hello"))
    yield _cursus("API key", command(f"PUBLISH topic=a apikey={secret} password={secret} message=hello"))
    yield _cursus("upper", command(f"PUBLISH topic=a TOKEN={secret} Password={secret} message=hello"))
    yield _cursus("error", server=(frame(f"ERROR: bad_token token={secret} secret={secret}"),))
    yield _cursus("topic", command("LIST", f"token={secret}"))
    yield _cursus("AUTH comma", command(f"AUTH principal=u,password={secret}"))
    yield _cursus("AUTH colon", command(f"AUTH user=u:{secret}@h"), command(f"AUTH mechanism={secret}"))
    yield _cursus("log in", *(command(f"{verb} {secret}") for verb in ("LOGIN u", "PASS", "AUTHENTICATE")))
    yield _cursus("short names", command(f"PUBLISH topic=a pw={secret} auth={secret} message=hello"))
    yield _cursus("JSON escaped", command(f'JOIN {{"id":"a","\\u0074oken":"{secret}","pw":"{secret}"}}', "cluster"))
    yield _cursus("error JSON", server=(frame(f'ERROR: {{"token":"{secret}"}}'),))
    for number, value in enumerate(VALUES):
        if value.startswith("u:"):
            continue  # truncated before the @ it could be any word
        yield _cursus(f"error {number}", server=(frame(f"ERROR: {value.format(secret)}"),))
    yield _cursus("error quoted", server=(frame(f'ERROR: bad password="{secret}"'),))
    yield _cursus("text", server=(frame(f"the token {secret} is not known, token: {secret}"),))
    yield _cursus("text URL", server=(frame(f"see http://u:{secret}@h:9000/"),))
    yield _cursus("JSON", server=(frame(f'{{"success":false,"token":"{secret}","password":"{secret}"}}'),))
    yield _cursus("unknown", command(f"AUTH token={secret}"), frame(b"\x01\x02\x03" + secret.encode()))
    yield _cursus("OK", server=(frame(f"OK token={secret} password={secret}"),))


def pravega() -> Iterator[Case]:
    secret = SECRET.encode()

    def said(kind: int, body: bytes) -> bytes:
        return struct.pack(">iI", kind, len(body)) + body

    hello = said(-127, struct.pack(">ii", 17, 5))
    writer = struct.pack(">q", 1) + bytes(range(16)) + string("scope/stream/0")
    yield Case("SetupAppend", 12345, (hello, said(1, writer + string(secret))), (hello,))
    yield Case("surplus", 12345, (hello, said(1, writer + string(b"tok") + secret)), (hello,))
    cut = writer + struct.pack(">H", 700) + secret
    yield Case("token too long", 12345, (hello, said(1, cut)), (hello,))
    create = struct.pack(">q", 2) + string("scope/stream/1") + b"\0" + struct.pack(">i", 0) + string(secret)
    yield Case("CreateSegment", 12345, (hello, said(20, create)), (hello,))
    refused = struct.pack(">q", 1) + string(b"token " + secret) + struct.pack(">i", 1)
    yield Case("stack trace", 12345, (hello,), (hello, said(60, refused)))
    yield Case("unknown type", 12345, (hello, said(1, writer + string(secret)), said(99, secret)), (hello,))


def kafka() -> Iterator[Case]:
    secret = SECRET.encode()

    def ask(name: str, version: int, **values: Any) -> bytes:
        key = MESSAGES[name].key
        values = {"api_key": key, "api_version": version, "correlation_id": 7, "client_id": "app", **values}
        return bytes(build(layer_of(name, version), values))

    def case(name: str, client: bytes, *server: bytes) -> Case:
        about = {"client_software_name": "java", "client_software_version": "4.1"}
        keys = [{"api_key": key, "min_version": 0, "max_version": 1} for key in (0, 3, 18)]
        versions = {"correlation_id": 7, "error": 0, "api_keys": keys, "throttle_time_ms": 0}
        hello = ask("ApiVersionsRequest", 3, **about), bytes(build(layer_of("ApiVersionsResponse", 3), versions))
        return Case(name, 9092, (hello[0], client), (hello[1], *server))

    def produced(key: str, value: bytes, codec: int = 0) -> bytes:
        records = [Record(key=b"k", value=b"v", headers=[Header(key=key, value=value)])]
        packed = {"compression": 1, "compressed": gzip.compress(bytes(records[0]))} if codec else {"records": records}
        batch = bytes(Batch(base_offset=0, record_count=1, base_timestamp=1, max_timestamp=1, **packed))
        data = [{"topic": "t", "partition_data": [{"index": 0, "batches": batch}]}]
        return ask("ProduceRequest", 9, transactional_id=None, acks=1, timeout_ms=9, topic_data=data)

    yield case("header", produced("db.password", secret))
    yield case("header Bearer", produced("note", b"Bearer " + secret))
    yield case("header JSON", produced("note", b'{"auth":{"token":"%s"}}' % secret))
    yield case("header compressed", produced("X-Api-Key", secret, 1))
    for name, more in (
        ("client_id", {"client_id": f"svc password={SECRET}"}),
        ("tag", {"unknown_tags": [UNKNOWN_TAG]}),
    ):
        yield case(name, ask("MetadataRequest", 9, **{"topics": None, **METADATA, **more}))
    setting = {"config_name": "ssl.key.password", "value": SECRET}
    topic = {"topic": "t", "num_partitions": 1, "replication_factor": 1, "assignments": [], "configs": [setting]}
    yield case("new topic", ask("CreateTopicsRequest", 7, topics=[topic], timeout_ms=1, validate_only=False))
    described = {"read_only": False, "config_source": 1, "is_sensitive": False, "config_type": 1, "documentation": None}
    synonym = {"synonym_name": "ssl.key.password", "value": SECRET, "source": 1}
    results = [{"error": 0, "error_message": f"password={SECRET}", "resource_type": 4, "resource_name": "1"}]
    results[0]["configs"] = [setting | described | {"synonyms": [synonym]}]
    answer = build(
        layer_of("DescribeConfigsResponse", 4), {"correlation_id": 7, "throttle_time_ms": 0, "results": results}
    )
    which = [{"resource_type": 4, "resource_name": "1", "configuration_keys": None}]
    asked = ask("DescribeConfigsRequest", 4, resources=which, include_synonyms=True, include_documentation=True)
    yield case("described", asked, bytes(answer))


def amqp091() -> Iterator[Case]:
    secret = SECRET.encode()

    def case(name: str, client: bytes, *server: bytes) -> Case:
        return Case(name, 5672, (GREETING, client), (method("ConnectionStart", 0), *server))

    def login(mechanism: str, response: bytes, properties: bytes = b"") -> bytes:
        return method("ConnectionStartOk", 0, mechanism=mechanism, response=response, client_properties=properties)

    def sent(headers: bytes) -> bytes:
        return method("BasicPublish", routing_key="q") + message_of(b"body", headers=headers)

    def shortstr(raw: bytes) -> bytes:
        return bytes([len(raw)]) + raw

    def longstr(letter: bytes, raw: bytes) -> bytes:
        return letter + struct.pack(">I", len(raw)) + raw

    def entry(name: bytes, value: bytes) -> bytes:
        return shortstr(name) + value

    password = entry(b"password", longstr(b"S", secret))
    yield case("PLAIN", login("PLAIN", b"\0guest\0" + secret))
    yield case("AMQPLAIN", login("AMQPLAIN", table(LOGIN=b"guest", PASSWORD=secret)))
    yield case("challenge", b"", method("ConnectionSecure", 0, challenge=secret))
    yield case("new secret", method("ConnectionUpdateSecret", 0, new_secret=secret, reason="old"))
    yield case("client property", login("PLAIN", b"\0a\0b", password))
    yield case("header", sent(password))
    yield case("header in a table", sent(entry(b"a", longstr(b"F", password))))
    yield case("header in an array", sent(entry(b"a", longstr(b"A", longstr(b"F", password)))))
    yield case("table of credentials", sent(entry(b"credentials", longstr(b"F", entry(b"x", longstr(b"x", secret))))))
    yield case("header value", sent(entry(b"note", longstr(b"S", b"Bearer " + secret))))
    yield case("bytes", sent(entry(b"api_key", longstr(b"x", secret))))
    yield case("table cut", sent(password[:-1]))
    yield case("queue argument", method("QueueDeclare", queue="q", arguments=password))
    yield case("unknown method", bytes.fromhex("01000100000022003c00ff") + secret + b"\xce")
    yield case("text of a close", b"", method("ChannelClose", reply_code=403, reply_text=f"bad token={SECRET}"))


UNKNOWN_TAG = {"tag": 77, "data": SECRET.encode()}
METADATA = dict.fromkeys(
    ["allow_auto_topic_creation", "include_cluster_authorized_operations", "include_topic_authorized_operations"], False
)
PROTOCOLS = {"nats": nats, "rabbitmq": rabbit, "cursus": cursus, "pravega": pravega, "kafka": kafka}
PROTOCOLS["amqp091"] = amqp091


def packets(cases: Iterable[Case], *, every: bool) -> Iterator[tuple[bytes, int]]:
    """Packets and their snapshot lengths: each case whole, begun late in two ways, and cut in two.

    Without ``every`` each whole, and in one of the other ways, in turn.
    """
    port = 20_000
    for number, case in enumerate(cases):
        damages = [(lacking, 65535) for lacking in late(number)] + [(0, snaplen) for snaplen in snaplens(number)]
        for lacking, snaplen in [(0, 65535), *(damages if every else [damages[number % 4]])]:
            port += 1
            talk = Talk(client=("10.0.0.1", port), server=("10.0.0.2", case.port))
            if not lacking:
                yield from ((packet, 65535) for packet in talk.handshake())
            for payload in _parts(talk, case, lacking):
                yield payload, snaplen


def _parts(talk: Talk, case: Case, lacking: int) -> Iterator[bytes]:
    """The captured parts: the part with the secret without its first bytes, and nothing before it."""
    if case.opening:
        yield from talk.send(1, case.opening)
    said = case.client
    if lacking:
        first = next((at for at, part in enumerate(said) if CORE.encode() in part), len(said) - 1)
        said = (said[first][lacking:], *said[first + 1 :])
    for part in said:
        yield from talk.send(0, part)
    for at, part in enumerate(case.server):
        yield from talk.send(1, part[lacking:] if at == 0 else part)


def write(path: Path, cases: Iterable[Case], *, every: bool = True) -> None:
    """Write a pcap with the variants of the cases, each on a separate connection."""
    out = [struct.pack("<IHHiIII", 0xA1B2C3D4, 2, 4, 0, 0, 65535, 1)]
    for index, (packet, snaplen) in enumerate(packets(cases, every=every)):
        kept = packet[:snaplen]
        out.append(struct.pack("<IIII", 1_700_000_000 + index // 1000, index % 1000 * 1000, len(kept), len(packet)))
        out.append(kept)
    path.write_bytes(b"".join(out))
