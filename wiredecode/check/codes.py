"""The codes of problems that are none of one protocol, and all codes together."""

from __future__ import annotations

from collections.abc import Iterator

from wiredecode.protocols.registry import carried_by, protocols
from wiredecode.protocols.shared.problems import CAUSE, DEED, EFFECT, REMARK, Checks, Code

INTERNAL = Code(
    "check.internal",
    "error",
    "a rule failed",
    "A defect of wiredecode: one of its rules met something that it cannot bear. All others went on: the rest of the "
    "report stands; what this rule would have told is not complete.",
    ("a frame of a form that nobody thought of",),
    "Report the defect, with the frame that is named if it may be shown (wiredecode anonymize).",
    "",
    REMARK,
)
REFUSED_CONNECTION = Code(
    "tcp.refused",
    "error",
    "a connection was refused",
    "The answer to the SYN was a RST: nobody listens on that port, or a firewall refuses. Where the server had "
    "connections before and ended them itself, it went down.",
    ("the server is down", "wrong host or port", "a firewall that rejects"),
    "Check that the server runs and listens on that address (ss -ltn), and what address the client was given.",
    "stories/advertised-refused.pcap",
    CAUSE,
)
NO_ANSWER_TO_SYN = Code(
    "tcp.no-answer",
    "error",
    "nobody answered a connection attempt",
    "SYNs were sent, and nothing came back.",
    ("the host is down or unreachable", "a firewall that drops", "only one direction was captured"),
    "Check the route and the firewalls between both; capture at the other end, too.",
    "",
    CAUSE,
)
NO_ACK = Code(
    "tcp.no-ack",
    "error",
    "nothing came back from the other host",
    "One side sent the same payload again and again, and the kernel of the other one acknowledged nothing of it for "
    "seconds. A process that is stopped or busy does not look so: its kernel goes on acknowledging.",
    (
        "the network between both was cut, or a firewall forgot the connection",
        "the other host is down or frozen",
        "only segments of full size are lost: a tunnel or VPN with a smaller MTU, and ICMP that is filtered",
    ),
    "Look at the path between both hosts at that time (links, firewalls, NAT, MTU); capture at the other end, too.",
    "stories/mtu-black-hole.pcap",
    CAUSE,
)
RESET = Code(
    "tcp.reset",
    "warning",
    "a connection was reset",
    "A RST ended the connection: what was on its way is lost.",
    ("the program ended or was killed", "it closed the socket before it had read everything", "a proxy gave up"),
    "Look at the log of the side that sent the RST, at that time.",
    "nats/22-port-reuse-abort.pcap",
    DEED,
)
LOSS = Code(
    "tcp.loss",
    "warning",
    "many segments had to be sent again",
    "Retransmissions say that segments or their ACKs were lost between the two hosts.",
    ("congestion or a bad link", "a receiver that is too slow to take packets", "a middlebox that drops"),
    "Compare both directions and other connections on the same path; look at interface errors and drops.",
    "rabbitmq-stream/d_shuffled_dups.pcap",
)
ZERO_WINDOW = Code(
    "tcp.zero-window",
    "warning",
    "a receiver closed its window",
    "This side did not read its socket: the other had to stop sending.",
    ("the program is too slow, busy or stopped", "it waits for something else before it reads on"),
    "Find out what the program does instead of reading; give it more threads, or less to read.",
    "stories/slow-consumer.pcap",
)
SLOWED = Code(
    "tcp.slow-response",
    "warning",
    "TCP explains slow responses",
    "While these requests waited for their response, segments of the connection were lost or a window was closed.",
    ("a bad network", "a receiver that does not read"),
    "Repair the network or the slow reader first, then look at latencies again.",
    "",
)
UNANSWERED = Code(
    "request.unanswered",
    "warning",
    "requests were not answered",
    "No response came before the connection or the capture ended, at least one second later.",
    (
        "the server went away, or is stuck",
        "it does not answer such requests in its state",
        "the answer was not captured",
    ),
    "Look at what the server did at that time, and whether other requests of the connection were answered.",
    "stories/leader-killed.pcap.gz",
)
CAPTURE_LOSS = Code(
    "capture.loss",
    "warning",
    "the capture has holes",
    "Bytes that were sent are not in the capture, though the receiver acknowledged them or went on: the capture lost "
    "them, not the network. What stood there cannot be told, and other findings of these connections are less certain.",
    ("the capturing machine was too slow", "a snapshot length that cuts packets", "the capture began late"),
    "Capture with a larger buffer (tcpdump -B), with -s 0, and nearer to the server.",
    "rabbitmq-stream/d_drop1pct.pcap",
    REMARK,
)
LATE_START = Code(
    "capture.late-start",
    "note",
    "connections began before the capture",
    "Logins, declarations and subscriptions of these connections are not in the capture.",
    ("the capture was started while clients were connected",),
    "Start the capture earlier, or let the clients connect anew, when these facts matter.",
    "tank/tank_d4_midconnection.pcap",
    REMARK,
)
CLOCK = Code(
    "capture.clock",
    "warning",
    "the clock of the capture jumped",
    "Times of packets go back, or leap ahead while the clocks of the senders (TCP timestamps) did not. Latencies, "
    "silences and durations across that moment are wrong.",
    ("the clock of the capturing machine was set", "files were joined that do not follow each other"),
    "Judge what lies before and after apart (--from, --to); join files by time (mergecap).",
    "",
    CAUSE,
)
MISMATCH = Code(
    "protocol.mismatch",
    "warning",
    "another protocol is spoken to the port of a broker",
    "What came to this address is none of the protocols that are decoded here, though its port, or what others said to "
    "it, tell that a broker listens there; the broker did not answer, or spoke its own protocol to others.",
    (
        "a client of another protocol has this port (AMQP 0-9-1 is 5672, not 5552)",
        "a load balancer's probe",
        "a scanner",
    ),
    "Give the client the port that its protocol has; TLS goes to the port for TLS.",
    "stories/amqp-at-stream-port.pcap",
    CAUSE,
)
CLEAR_TEXT = Code(
    "security.clear-text",
    "note",
    "secrets in clear text",
    "Passwords or tokens were sent without TLS: who sees the packets has them.",
    ("TLS is not set up",),
    "Use TLS between hosts, and change what went over a network that others see.",
    "rabbitmq-stream/c43_basic.pcap",
    REMARK,
)
UNCONFIRMED = Code(
    "publish.unconfirmed",
    "error",
    "published messages were neither confirmed nor refused",
    "The broker did not answer for these messages before the connection or the capture ended, at least one second "
    "later. They may be stored or lost.",
    (
        "the client closed the connection without waiting for confirms",
        "the leader of the stream went away, or the broker did",
        "the stream has no quorum of replicas",
    ),
    "Wait for confirms before closing; publish again what has none, with the same ids where the broker drops those it "
    "knows (a publisher with a name asks RabbitMQ Stream by QueryPublisherSequence, idempotent producers of Cursus and "
    "writers of Pravega are told their last number).",
    "stories/broker-killed.pcap",
    DEED,
)
PUBLISH_REFUSED = Code(
    "publish.refused",
    "error",
    "published messages were refused",
    "The broker answered that it does not store these messages. It is a warning where later publishes of the same "
    "connection to the same stream were confirmed: clients send again what was refused.",
    (
        "the broker cannot read them: another compression than it is set up for, a message that is too large",
        "the client may not publish there, or another broker leads by now",
        "a producer's sequence numbers or epoch are old",
    ),
    "Read the reason; correct the client or the broker, and publish again what was refused.",
    "stories/publishes-refused.pcap",
    DEED,
)
SLOW_CONFIRM = Code(
    "publish.slow-confirm",
    "warning",
    "publishes were confirmed late",
    "Messages were stored and confirmed, but slowly: publishers that wait for confirms stand still meanwhile. Those "
    "that give up (Liftbridge clients after 5 s) publish again, and messages are stored twice.",
    (
        "the broker was paused or overloaded",
        "its disk or its replicas are slow",
        "a replica in sync was stopped, or the leader was gone",
        "the network: see tcp.slow-response",
    ),
    "Look at the broker's load, disk and replicas at the times named; compare with other brokers and streams.",
    "stories/broker-paused.pcap",
    EFFECT,
)
VERSION = Code(
    "frame.version",
    "warning",
    "a version or a type that is not known",
    "One side speaks a version of the protocol, or a command, that the other side or this tool does not know.",
    ("client and server are of versions that do not fit each other", "the protocol is newer than this tool"),
    "Compare the versions of both sides; look at what the server answers.",
    "rabbitmq-stream/c43_unknown_frame.pcap",
    EFFECT,
)
TOO_LARGE = Code(
    "frame.too-large",
    "warning",
    "larger than negotiated",
    "A frame is larger than both sides agreed on when the connection began: newer brokers close the connection then.",
    ("the client does not heed the limit of the server", "messages or batches are too large"),
    "Make batches smaller, or raise the limit of the broker (frame_max, max_payload).",
    "",
    EFFECT,
)
CODEC_MISSING = Code(
    "frame.codec-missing",
    "warning",
    "compressed messages that were not decoded",
    "The package that decompresses them is not installed here. Nothing is wrong with the traffic, but what is in these "
    "messages was not looked at.",
    ("wiredecode was installed without its extras",),
    "Install what the message names, and ask again.",
    "",
    REMARK,
)
EXACT = {
    "codec-missing": CODEC_MISSING,
    **dict.fromkeys(("unknown-version", "unknown-command", "unknown-message", "unknown-type", "versions"), VERSION),
    **dict.fromkeys(("frame-max", "max-payload"), TOO_LARGE),
}
"""By code of findings, whatever their group."""
GROUPS = {
    "malformed": Code(
        "frame.malformed",
        "error",
        "frames that do not fit their protocol",
        "A frame breaks the rules of its protocol: a length, a count or a value cannot be.",
        ("a defect of the sender", "a version of the protocol that is not known here", "another protocol on that port"),
        "Look at the frames (wiredecode pcap FILE -Y 'frame.number == N'), and at the version of the sender.",
        "cursus/produce.pcap",
        EFFECT,
    ),
    "checksum": Code(
        "frame.checksum",
        "error",
        "checksums that do not fit",
        "What was sent is not what the checksum was made of: data is damaged.",
        ("damaged storage or memory", "a defect of a client that computes it"),
        "Find out whether the same data is damaged at rest; check the disks of the sender.",
        "",
        CAUSE,
    ),
    "sequence": Code(
        "frame.sequence",
        "warning",
        "gaps or repeats of offsets or numbers",
        "Offsets, sequences or event numbers do not follow each other.",
        ("messages were lost or repeated", "a reader went back or skipped on purpose"),
        "Compare with what the other side sent at that offset.",
        "pravega/read_cuts.pcap",
        EFFECT,
    ),
    "response": Code(
        "frame.refused",
        "note",
        "requests were refused",
        "The server answered that it will not do what was asked.",
        ("what was asked for does not exist, or exists already", "no permission", "the server is not the one to ask"),
        "Read the reason; many clients ask first and expect some refusals.",
        "rabbitmq-stream/c43_errors.pcap",
        EFFECT,
    ),
    "security": Code(
        "frame.security",
        "warning",
        "secrets in clear text",
        "Credentials stand where they can be read.",
        ("no TLS", "a token in a message"),
        "Use TLS; change the credentials.",
        "",
        EFFECT,
    ),
    "tls": Code(
        "frame.tls",
        "warning",
        "TLS failed, or will",
        "One side refused the handshake or a record, and said why by an alert; or it sent a certificate that is not "
        "valid at that time. Most clients give up at that.",
        (
            "a certificate that has expired, or is signed by an authority that the other side does not know",
            "a host name that the certificate is not for",
            "versions or ciphers of which both sides have none in common",
            "a client that has to show a certificate and has none",
        ),
        "Look at the certificate (wiredecode pcap -Y tls.certificate_subject, with --keylog in TLS 1.3), at the host "
        "that the client asks for, and at the versions that both sides offer; renew or trust it.",
        "",
        CAUSE,
    ),
    "limit": Code(
        "frame.limit",
        "note",
        "limits were reached",
        "Something is larger than the limits of decoding: part of it is not shown.",
        ("very large messages", "very many open requests"),
        "See the limits of the protocol in docs/protocols.",
        "",
        REMARK,
    ),
    "protocol": Code(
        "frame.protocol",
        "warning",
        "unusual use of the protocol",
        "Something that the protocol does not foresee, or that works only by accident.",
        ("a defect of a client", "versions that do not fit each other"),
        "Look at the frames, and at the versions of both sides.",
        "rabbitmq-stream/c43_puberr.pcap",
        EFFECT,
    ),
}
OTHER = Code(
    "frame.other",
    "note",
    "remarks on frames",
    "What else was noticed about frames.",
    ("see the message",),
    "Look at the frames.",
    "stories/slow-consumer.pcap",
    REMARK,
)
GENERIC = (
    *(
        REFUSED_CONNECTION,
        NO_ANSWER_TO_SYN,
        NO_ACK,
        RESET,
        LOSS,
        ZERO_WINDOW,
        SLOWED,
        UNANSWERED,
        CAPTURE_LOSS,
        LATE_START,
    ),
    *(CLOCK, MISMATCH, CLEAR_TEXT, UNCONFIRMED, PUBLISH_REFUSED, SLOW_CONFIRM, VERSION, TOO_LARGE, INTERNAL),
    *(CODEC_MISSING, *GROUPS.values(), OTHER),
)


def offers() -> Iterator[tuple[str, Checks]]:
    """What every protocol offers, by name; those that another one carries too."""
    for protocol in protocols():
        offered = {protocol.name: protocol.checks()}
        offered |= {one.name: one.checks() for one in carried_by(protocol.name)}
        yield from ((name, checks) for name, checks in offered.items() if checks is not None)


def codes() -> tuple[Code, ...]:
    """All codes."""
    return (*GENERIC, *(code for _, offered in offers() for code in offered.codes))
