"""Test vectors of NATS: bytes from the wire or from upstream tests, and their values."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from wiredecode.fields.layer import Layer
from wiredecode.protocols.nats import layers


@dataclass(frozen=True)
class Vector:
    """One operation."""

    name: str
    layer: type[Layer]
    raw: bytes
    values: dict[str, Any]
    """Every field that a record shows; member fields of JSON objects as they are on the wire."""
    link: str = "client"
    sender: str = "client"
    problem: str | None = None
    """The field that does not fit, if one does not."""


VECTORS = [
    Vector(
        "N01",
        layers.Info,
        b'INFO {"server_id":"NDKQB6BKXFQAXBIU2KNGBMXDJWGPSWSBROUYPR5AJ5VLHIWA4LYDNFRY","server_name":"wd-n1",'
        b'"version":"2.9.10","proto":1,"go":"go1.19.8","host":"127.0.0.1","port":4222,"headers":true,'
        b'"max_payload":1048576,"client_id":4,"client_ip":"127.0.0.1"} \r\n',
        {
            "operation": "INFO",
            "options": {
                "server_id": "NDKQB6BKXFQAXBIU2KNGBMXDJWGPSWSBROUYPR5AJ5VLHIWA4LYDNFRY",
                "server_name": "wd-n1",
                "version": "2.9.10",
                "proto": 1,
                "go": "go1.19.8",
                "host": "127.0.0.1",
                "port": 4222,
                "headers": True,
                "max_payload": 1048576,
                "client_id": 4,
                "client_ip": "127.0.0.1",
            },
        },
        sender="server",
    ),
    Vector(
        "N02",
        layers.Connect,
        b"CONNECT {}\r\n",
        {"operation": "CONNECT", "options": {}},
    ),
    Vector(
        "N03",
        layers.Connect,
        b'CONNECT{"verbose":false,"headers":true,"protocol":1}\r\n',
        {"operation": "CONNECT", "options": {"verbose": False, "headers": True, "protocol": 1}},
    ),
    Vector(
        "N04",
        layers.Connect,
        b'CONNECT {"verbose":false,"pedantic":false,"tls_required":false,"name":"LIFT.liftbridge-default.'
        b'server-a.raft","lang":"go","version":"1.22.1","protocol":1,"echo":true,"headers":true,'
        b'"no_responders":true}\r\n',
        {
            "operation": "CONNECT",
            "options": {
                "verbose": False,
                "pedantic": False,
                "tls_required": False,
                "name": "LIFT.liftbridge-default.server-a.raft",
                "lang": "go",
                "version": "1.22.1",
                "protocol": 1,
                "echo": True,
                "headers": True,
                "no_responders": True,
            },
        },
    ),
    Vector(
        "N05",
        layers.Sub,
        b"SUB liftbridge-default.raft.metadata.server-a.accept  1\r\n",
        {"operation": "SUB", "subject": "liftbridge-default.raft.metadata.server-a.accept", "sid": "1"},
    ),
    Vector(
        "N06",
        layers.Sub,
        b"SUB jobs workers 1\r\n",
        {"operation": "SUB", "subject": "jobs", "queue": "workers", "sid": "1"},
    ),
    Vector(
        "N07",
        layers.Unsub,
        b"UNSUB 5 \r\n",
        {"operation": "UNSUB", "sid": "5"},
    ),
    Vector(
        "N08",
        layers.Unsub,
        b"UNSUB 3 3\r\n",
        {"operation": "UNSUB", "sid": "3", "max_messages": 3},
    ),
    Vector(
        "N09",
        layers.Pub,
        b"PUB foo 5\r\nhello\r\n",
        {"operation": "PUB", "subject": "foo", "size": 5, "data": b"hello"},
    ),
    Vector(
        "N10",
        layers.Pub,
        b"PUB foo.bar INBOX.22 11\r\nhello world\r\n",
        {"operation": "PUB", "subject": "foo.bar", "reply": "INBOX.22", "size": 11, "data": b"hello world"},
    ),
    Vector(
        "N11",
        layers.Pub,
        b"PUB plain  23\r\nPUB evil 3\r\nabc\r\nPING\r\n\r\n",
        {"operation": "PUB", "subject": "plain", "size": 23, "data": b"PUB evil 3\r\nabc\r\nPING\r\n"},
    ),
    Vector(
        "N12",
        layers.Pub,
        b"PUB plain 0\r\n\r\n",
        {"operation": "PUB", "subject": "plain", "size": 0, "data": b""},
    ),
    Vector(
        "N13",
        layers.Msg,
        b"MSG g.zeros 1 003\r\nabc\r\n",
        {"operation": "MSG", "subject": "g.zeros", "sid": "1", "size": 3, "data": b"abc"},
        sender="server",
    ),
    Vector(
        "N14",
        layers.Msg,
        b"MSG x.plain 1 y.r 10\r\nwith reply\r\n",
        {"operation": "MSG", "subject": "x.plain", "sid": "1", "reply": "y.r", "size": 10, "data": b"with reply"},
        sender="server",
    ),
    Vector(
        "N15",
        layers.HPub,
        b"HPUB MORNING.MENU 47 51\r\nNATS/1.0\r\nBREAKFAST: donut\r\nBREAKFAST: eggs\r\n\r\nYum!\r\n",
        {
            "operation": "HPUB",
            "subject": "MORNING.MENU",
            "header_size": 47,
            "size": 51,
            "version": "NATS/1.0",
            "headers": [{"key": "BREAKFAST", "value": "donut"}, {"key": "BREAKFAST", "value": "eggs"}],
            "data": b"Yum!",
        },
    ),
    Vector(
        "N16",
        layers.HPub,
        b"HPUB foo INBOX.22 0 5\r\nHELLO\r\n",
        {"operation": "HPUB", "subject": "foo", "reply": "INBOX.22", "header_size": 0, "size": 5, "data": b"HELLO"},
    ),
    Vector(
        "N17",
        layers.HPub,
        b"HPUB foo 12 17\r\nname:derek\r\nHELLO\r\n",
        {
            "operation": "HPUB",
            "subject": "foo",
            "header_size": 12,
            "size": 17,
            "header_block": b"name:derek\r\n",
            "data": b"HELLO",
        },
    ),
    Vector(
        "N18",
        layers.HMsg,
        b"HMSG h.status3 1 75 75\r\nNATS/1.0 100 Idle Heartbeat\r\nNats-Last-Consumer: 1\r\nNats-Last-Stream: "
        b"2\r\n\r\n\r\n",
        {
            "operation": "HMSG",
            "subject": "h.status3",
            "sid": "1",
            "header_size": 75,
            "size": 75,
            "version": "NATS/1.0",
            "status": 100,
            "description": "Idle Heartbeat",
            "headers": [{"key": "Nats-Last-Consumer", "value": "1"}, {"key": "Nats-Last-Stream", "value": "2"}],
            "data": b"",
        },
        sender="server",
    ),
    Vector(
        "N19",
        layers.HMsg,
        b"HMSG h.nospace 1 39 40\r\nNATS/1.0\r\nKey:value\r\nKey2:   spaced\r\n\r\nx\r\n",
        {
            "operation": "HMSG",
            "subject": "h.nospace",
            "sid": "1",
            "header_size": 39,
            "size": 40,
            "version": "NATS/1.0",
            "headers": [{"key": "Key", "value": "value"}, {"key": "Key2", "value": "spaced"}],
            "data": b"x",
        },
        sender="server",
    ),
    Vector(
        "N20",
        layers.HMsg,
        b"HMSG _INBOX.1SDRdHmg5ew42fBHwwOpXD.1SDRdHmg5ew42fBHwwOptH11fb 1 16 16\r\nNATS/1.0 503\r\n\r\n\r\n",
        {
            "operation": "HMSG",
            "subject": "_INBOX.1SDRdHmg5ew42fBHwwOpXD.1SDRdHmg5ew42fBHwwOptH11fb",
            "sid": "1",
            "header_size": 16,
            "size": 16,
            "version": "NATS/1.0",
            "status": 503,
            "headers": [],
            "data": b"",
        },
        sender="server",
    ),
    Vector(
        "N21",
        layers.HMsg,
        b"HMSG _INBOX.XjETGmURW36j3bpfKyINJq.XjETGmURW36j3bpfKyINLd10db 2 38 38\r\nNATS/1.0 "
        b"503\r\nNats-Subject: nobody\r\n\r\n\r\n",
        {
            "operation": "HMSG",
            "subject": "_INBOX.XjETGmURW36j3bpfKyINJq.XjETGmURW36j3bpfKyINLd10db",
            "sid": "2",
            "header_size": 38,
            "size": 38,
            "version": "NATS/1.0",
            "status": 503,
            "headers": [{"key": "Nats-Subject", "value": "nobody"}],
            "data": b"",
        },
        sender="server",
    ),
    Vector(
        "N22",
        layers.Ping,
        b"PING  \r  \n",
        {"operation": "PING"},
    ),
    Vector(
        "N23",
        layers.Ping,
        b"pInG\r\n",
        {"operation": "PING"},
    ),
    Vector(
        "N24",
        layers.Ok,
        b"+OK\r\n",
        {"operation": "+OK"},
        sender="server",
    ),
    Vector(
        "N25",
        layers.Err,
        b'-ERR \'Permissions Violation for Subscription to "no.way" using queue "q"\'\r\n',
        {"operation": "-ERR", "error": 'Permissions Violation for Subscription to "no.way" using queue "q"'},
        sender="server",
    ),
    Vector(
        "N26",
        layers.Pub,
        b"PUB foo 2\r\nab",
        {"operation": "PUB", "subject": "foo", "size": 2, "data": b"ab"},
        problem="end",
    ),
    Vector(
        "N27",
        layers.RouteSub,
        b"RS+ $G x.q grp 2\r\n",
        {"operation": "RS+", "account": "$G", "subject": "x.q", "queue": "grp", "weight": 2},
        link="route",
    ),
    Vector(
        "N28",
        layers.RouteMsg,
        b"RMSG $G x.q | grp 2\r\nq1\r\n",
        {
            "operation": "RMSG",
            "account": "$G",
            "subject": "x.q",
            "marker": "|",
            "queues": ["grp"],
            "size": 2,
            "data": b"q1",
        },
        link="route",
    ),
    Vector(
        "N29",
        layers.RouteMsg,
        b"RMSG $G x.q + y.q grp 9\r\nreply too\r\n",
        {
            "operation": "RMSG",
            "account": "$G",
            "subject": "x.q",
            "marker": "+",
            "reply": "y.q",
            "queues": ["grp"],
            "size": 9,
            "data": b"reply too",
        },
        link="route",
    ),
    Vector(
        "N30",
        layers.RouteHMsg,
        b"HMSG $G rt.q + re.ply qq 12 15\r\nNATS/1.0\r\n\r\nabc\r\n",
        {
            "operation": "HMSG",
            "account": "$G",
            "subject": "rt.q",
            "marker": "+",
            "reply": "re.ply",
            "queues": ["qq"],
            "header_size": 12,
            "size": 15,
            "version": "NATS/1.0",
            "headers": [],
            "data": b"abc",
        },
        link="route",
    ),
    Vector(
        "N31",
        layers.DedicatedMsg,
        b"RMSG x.plain 14\r\nover the route\r\n",
        {"operation": "RMSG", "subject": "x.plain", "size": 14, "data": b"over the route"},
        link="route",
    ),
    Vector(
        "N32",
        layers.OriginMsg,
        b"LMSG leafcl $G lo.q + lo.b.q g 0 1\r\nq\r\n",
        {
            "operation": "LMSG",
            "origin": "leafcl",
            "account": "$G",
            "subject": "lo.q",
            "marker": "+",
            "reply": "lo.b.q",
            "queues": ["g"],
            "header_size": 0,
            "size": 1,
            "data": b"q",
        },
        link="route",
    ),
    Vector(
        "N33",
        layers.DedicatedHMsg,
        b"HMSG lo.q | g 18 20\r\nNATS/1.0\r\nL: 2\r\n\r\nq2\r\n",
        {
            "operation": "HMSG",
            "subject": "lo.q",
            "marker": "|",
            "queues": ["g"],
            "header_size": 18,
            "size": 20,
            "version": "NATS/1.0",
            "headers": [{"key": "L", "value": "2"}],
            "data": b"q2",
        },
        link="leaf",
    ),
    Vector(
        "N34",
        layers.LeafSub,
        b"LS+ $LDS.50xgENsU4GSuyzbGaITnDf\r\n",
        {"operation": "LS+", "subject": "$LDS.50xgENsU4GSuyzbGaITnDf"},
        link="leaf",
    ),
    Vector(
        "N35",
        layers.Info,
        b'INFO {"server_id":"","server_name":"","version":"","proto":0,"go":"","host":"","port":0,'
        b'"headers":false,"max_payload":0,"gateway":"B","gateway_cmd":3,"gateway_cmd_payload":"JFNZUw=="}\r\n',
        {
            "operation": "INFO",
            "options": {
                "server_id": "",
                "server_name": "",
                "version": "",
                "proto": 0,
                "go": "",
                "host": "",
                "port": 0,
                "headers": False,
                "max_payload": 0,
                "gateway": "B",
                "gateway_cmd": 3,
                "gateway_cmd_payload": "JFNZUw==",
            },
        },
        link="gateway",
    ),
    Vector(
        "N36",
        layers.AccountUnsub,
        b"A- $G\r\n",
        {"operation": "A-", "account": "$G"},
        link="gateway",
    ),
]

BY_NAME = {vector.name: vector for vector in VECTORS}

S2_STREAM = b"\xff\x06\x00\x00S2sTwO\x01\n\x00\x00\xab\x90\xcc$PING\r\n"
"""N37: the head of an S2 stream, then an uncompressed chunk that holds PING."""
