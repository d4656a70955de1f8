"""Codes of what goes wrong between NATS clients and servers."""

from __future__ import annotations

from wiredecode.protocols.shared.problems import CAUSE, DEED, Code

SLOW_CONSUMER = Code(
    "nats.slow-consumer",
    "error",
    "a slow consumer was cut off",
    "The client did not read what the server sent: its window closed, the server's buffer for it filled up, and the "
    "server ended the connection. Messages to it are lost (at most once), or are sent again by JetStream. It is a "
    "warning while the server has not ended the connection.",
    (
        "the callback of a subscription does slow work, or blocks",
        "a subscription gets more than one process can take",
        "the process was stopped, or its machine is overloaded",
    ),
    "Do slow work outside the callback; share the load by a queue group; subscribe to less; raise the pending limits "
    "only for bursts.",
    "stories/slow-consumer.pcap",
    CAUSE,
)
STALE = Code(
    "nats.stale",
    "error",
    "a connection was closed as stale",
    "The server sent PINGs that the client did not answer.",
    ("the process is stopped or blocked", "the network path is gone", "a client library without PONG"),
    "Look at what the client did at that time; a client that reads its socket answers PING by itself.",
    "stories/slow-consumer.pcap",
    CAUSE,
)
MISSED_PING = Code(
    "nats.missed-ping",
    "warning",
    "PINGs were not answered",
    "One side sent PINGs that the other did not answer in time. A server closes such a connection as stale after "
    "ping_max of them (2), a client connects anew.",
    ("the process is stopped, blocked or overloaded", "the network path is gone", "a client library without PONG"),
    "Look at what that side did at that time; compare with its other connections.",
    "nats/50-server-links.pcap",
    CAUSE,
)
REDELIVERED = Code(
    "nats.redelivered",
    "warning",
    "messages of JetStream are delivered again and again",
    "The consumer did not acknowledge these messages within its ack wait, or refused them (-NAK), and the server sent "
    "them again; it tells how often in the subject for the ack. Once is usual after a reconnection: it is a warning "
    "from the third delivery of a message on. Messages behind them wait when max_ack_pending is reached.",
    (
        "the application does not acknowledge, or fails before it does",
        "it takes longer for a message than the ack wait of the consumer",
        "one message that cannot be processed, and no limit of deliveries (max_deliver)",
    ),
    "Acknowledge what was processed; raise ack_wait or say in progress (+WPI); limit max_deliver, and look at the "
    "messages that are named.",
    "stories/never-acknowledged.pcap",
    CAUSE,
)
AUTHENTICATION = Code(
    "nats.authentication",
    "error",
    "a client was not let in",
    "The server refused the credentials of CONNECT.",
    ("wrong user, password, token or key", "credentials that expired or were revoked", "CONNECT came too late"),
    "Check the credentials of the client against the server's configuration.",
    "nats/02-auth.pcap",
    CAUSE,
)
PERMISSIONS = Code(
    "nats.permissions",
    "warning",
    "a client may not use a subject",
    "The server refused a publish or a subscription; the connection goes on, the message is dropped.",
    ("the permissions of the user lack the subject", "a typing error in the subject"),
    "Add the subject to the permissions of the user, or correct the client.",
    "stories/slow-consumer.pcap",
    DEED,
)
MAX_PAYLOAD = Code(
    "nats.max-payload",
    "error",
    "a message is larger than the server takes",
    "The server said in INFO how large a payload may be (max_payload). Larger ones are not delivered: it reports "
    "Maximum Payload Violation and closes the connection.",
    ("a message grew beyond 1 MB, the default", "a client that does not look at INFO"),
    "Make messages smaller, use an object store or chunks, or raise max_payload on all servers.",
    "nats/60-limits.pcap",
    DEED,
)
LIMIT = Code(
    "nats.limit",
    "error",
    "a limit of the server was reached",
    "The server refuses more connections, subscriptions or longer lines than its configuration or account allows.",
    ("connections or subscriptions that are never given back", "limits that are too low for the number of clients"),
    "Find out who holds so many (the names of connections tell); raise max_connections or max_subscriptions.",
    "nats/60-limits.pcap",
    DEED,
)
NO_RESPONDERS = Code(
    "nats.no-responders",
    "note",
    "requests found nobody who answers",
    "Nobody subscribed to the subject of the request: the server says so at once (503). It is a warning from the third "
    "time on.",
    ("the service is not running, or not connected to this account or cluster", "a typing error in the subject"),
    "See whether the service is up, and what subject it subscribes to.",
    "nats/60-limits.pcap",
    DEED,
)
SERVER_ERROR = Code(
    "nats.server-error",
    "error",
    "the server reported an error",
    "The server sent -ERR.",
    ("a limit was exceeded", "something that is not the protocol was sent"),
    "Read the text; the client's frames just before show what it is about.",
    "nats/60-limits.pcap",
    DEED,
)
