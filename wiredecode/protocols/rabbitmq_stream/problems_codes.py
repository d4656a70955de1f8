"""Codes of what goes wrong between RabbitMQ Stream clients and brokers."""

from __future__ import annotations

from wiredecode.protocols.shared.problems import CAUSE, DEED, EFFECT, REMARK, Code

GUEST = Code(
    "rabbitmq_stream.guest-not-local",
    "error",
    "guest may only log in over loopback",
    "The broker lets the user guest in from its own machine only (loopback_users), and this client came from another "
    "address: its password may be right all the same.",
    ("the client uses the default user", "the broker is in a container, or on another host than the client"),
    "Create a user for the client, with permissions on its virtual host; do not open guest to the network.",
    "stories/guest-not-local.pcap",
    CAUSE,
)
AUTHENTICATION = Code(
    "rabbitmq_stream.authentication",
    "error",
    "a client was not let in",
    "The broker refused the user, the mechanism or the virtual host.",
    ("wrong password", "unknown user or virtual host", "no permission", "user guest from another host"),
    "Check user, password and permissions of the virtual host; guest may only connect over loopback.",
    "rabbitmq-stream/c43_authfail.pcap",
    CAUSE,
)
NOT_STARTED = Code(
    "rabbitmq_stream.not-started",
    "warning",
    "a publisher or a consumer could not begin, or had no permission",
    "The broker refused to declare a publisher or to subscribe, or told that the user may not do what was asked.",
    (
        "the stream does not exist (yet), or this broker has no leader or replica of it",
        "the user has no permission on the stream: to write, to read, or to configure",
    ),
    "Read the reason; create the stream, ask Metadata for its leader, or give the user the permission it lacks.",
    "rabbitmq-stream/c43_errors.pcap",
    DEED,
)
NO_STREAM = Code(
    "rabbitmq_stream.no-stream",
    "warning",
    "a stream that does not exist, or not any more",
    "Metadata told a client that the stream it asked for does not exist, and it did not appear afterwards: clients "
    "look for the leader of a stream before they publish or consume, and fail here. Or a stream was deleted that "
    "others published to or consumed: a note, until somebody asks for it again.",
    (
        "the name is spelled wrong, or the virtual host is another one",
        "nobody created the stream, or it was deleted",
        "a client only wanted to know whether it exists",
    ),
    "Create the stream, or correct its name or the virtual host in the client.",
    "stories/no-such-stream.pcap",
    DEED,
)
SERVER_CLOSED = Code(
    "rabbitmq_stream.closed-by-server",
    "warning",
    "the broker closed a connection",
    "The broker sent Close and said why.",
    ("a frame that the broker does not understand", "missed heartbeats", "an operator closed the connection"),
    "Read the reason; the frames of the client just before show what it is about.",
    "rabbitmq-stream/c43_unknown_frame.pcap",
    DEED,
)
NO_CLOSE = Code(
    "rabbitmq_stream.no-close",
    "note",
    "a connection ended without Close",
    "TCP ended the connection, but neither side said Close before.",
    ("the program ended or crashed", "the client does not bother to say Close", "a proxy cut the connection"),
    "From a client that was to go on, look at its log at that time; from a broker, look for a crash.",
    "rabbitmq-stream/c310_basic.pcap",
)
HEARTBEAT = Code(
    "rabbitmq_stream.heartbeat",
    "warning",
    "one side was silent for longer than two heartbeats",
    "Both sides agreed on a heartbeat. This side sent nothing for more than twice as long: the other may take it "
    "for dead.",
    ("the process was stopped or too busy", "the network was interrupted"),
    "Look at what the silent process did at that time; raise the heartbeat only when it has a reason to be busy.",
    "stories/heartbeat-missed.pcap",
    DEED,
)
STARVED = Code(
    "rabbitmq_stream.credit-starvation",
    "warning",
    "a consumer is starved of credit",
    "The broker had chunks for this subscription but no credit to send them: each time the consumer gave credit, the "
    "next chunk followed at once. The consumer sets the pace, not the broker and not the network.",
    (
        "the consumer gives credit only after it has processed a chunk, and processes slowly",
        "the initial credit is 1: one chunk is on its way at a time",
        "the consumer blocks the thread that reads the socket",
    ),
    "Raise the initial credit of the subscription (10 is usual), give credit when a chunk arrives instead of when it "
    "has been processed, or make the consumer faster.",
    "stories/credit-starvation.pcap",
    CAUSE,
)
STOPPED = Code(
    "rabbitmq_stream.consumer-stopped",
    "warning",
    "a consumer gave no credit any more",
    "All credit of the subscription was used, and none came afterwards, while the stream went on: the broker may not "
    "send it anything. As long as the connection stays open, nothing else tells.",
    (
        "the consumer's handler hangs, or waits for something else",
        "the handler failed, and the client gives credit only after it returned",
        "the application stopped consuming and kept its subscription",
    ),
    "Look at what the consumer does since then (a stack dump); give credit, or unsubscribe.",
    "stories/consumer-stopped.pcap",
    CAUSE,
)
EARLY = Code(
    "rabbitmq_stream.early-credit",
    "warning",
    "credit is given for chunks that cannot be read yet",
    "The consumer gives credit so early, or so much of it, that the broker may always send; but the client does not "
    "read its socket, and TCP had to stop the broker. Credit holds nothing back then: heartbeats and responses of the "
    "connection wait behind the chunks.",
    (
        "credit is given when a chunk arrives, and the handler blocks the thread that reads the socket",
        "the initial credit is larger than what the consumer can hold",
    ),
    "Process chunks in another thread than the one that reads, and give credit when a chunk has been processed.",
    "stories/early-credit.pcap",
    CAUSE,
)
ONE = Code(
    "rabbitmq_stream.credit-one",
    "note",
    "a consumer has one chunk on its way at a time",
    "The subscription never had more than one credit: for each chunk the broker waits until the consumer has asked "
    "for it, a round trip each.",
    ("the initial credit is 1",),
    "Raise the initial credit (10 is usual), unless the order of messages or memory ask for one chunk at a time.",
    "stories/credit-starvation.pcap",
    REMARK,
)
REFUSED = Code(
    "rabbitmq_stream.publish-error",
    "error",
    "published messages were refused",
    "The broker answered PublishError: these messages are not in the stream.",
    (
        "the publisher was deleted, or its stream was, or the leader of the stream moved (MetadataUpdate)",
        "no permission to write",
        "the broker could not read the messages, or had an internal error",
    ),
    "Declare the publisher again, on the leader that Metadata names, and publish again what was refused; clients must "
    "react to MetadataUpdate.",
    "stories/stream-deleted.pcap",
    DEED,
)
DUPLICATES = Code(
    "rabbitmq_stream.duplicate-ids",
    "note",
    "publishing ids that the broker knows already",
    "A publisher with a name published ids that are not above its last one: the broker drops these messages, and "
    "confirms them all the same. So it is to be after a reconnection; otherwise messages are lost without a word.",
    (
        "the publisher sends again what was not confirmed before it reconnected",
        "the application numbers its messages from the start again, under the same name",
        "two publishers use one name",
    ),
    "Begin behind what QueryPublisherSequence tells; give each publisher a name of its own.",
    "rabbitmq-stream/c43_dedup.pcap",
    REMARK,
)
OFFSET_GAP = Code(
    "rabbitmq_stream.offset-gap",
    "note",
    "delivered chunks do not follow each other",
    "A chunk does not begin where the one before ended. Retention, filters, chunks that hold no messages of users, or "
    "a hole in the capture explain that.",
    ("retention removed chunks before they were read", "the broker keeps offsets of consumers in chunks between"),
    "Compare with the retention of the stream if messages are missed.",
    "rabbitmq-stream/c43_filter.pcap",
)
LAGS = Code(
    "rabbitmq_stream.consumer-lag",
    "warning",
    "a consumer falls behind",
    "Chunks reach this consumer later and later after they were written: it takes more time for them than publishers "
    "need to write them. When retention removes what it has not read yet, messages are lost for it.",
    ("the consumer is too slow for what is published", "it was stopped for a while", "its credit is too small"),
    "Make the consumer faster, divide the stream (super stream) among several, or raise its credit when it is "
    "starved of it; watch its offset against the end of the stream.",
    "stories/consumer-lags.pcap",
    EFFECT,
)
FLAPPING = Code(
    "rabbitmq_stream.active-consumer-flapping",
    "warning",
    "the single active consumer changes again and again",
    "Several consumers of one name take turns: each change stops deliveries until the next one has said where to go "
    "on, and messages without a stored offset are delivered twice.",
    ("consumers crash and come back", "connections are cut by heartbeats or a proxy", "deployments in a loop"),
    "Look at why the consumers' connections end; store offsets more often.",
    "",
    DEED,
)
SMALL_CHUNKS = Code(
    "rabbitmq_stream.small-chunks",
    "note",
    "chunks hold few messages",
    "The broker writes what came in at about the same time as one chunk. Chunks of very few messages cost more on "
    "disk, on the wire and in credit than the messages themselves.",
    ("publishers wait for each confirm before they publish again", "little is published at all"),
    "Publish in batches, without waiting for each confirm, where throughput matters.",
    "stories/consumer-lags.pcap",
    REMARK,
)
SMALL_BATCHES = Code(
    "rabbitmq_stream.small-sub-batches",
    "note",
    "sub-batches hold few messages",
    "Sub-batches are worth their cost when they hold tens of messages that are compressed together; these hold few.",
    ("the size of sub-batches is set too small", "little is published at a time"),
    "Raise the size of sub-batches (100 is usual), or do without them.",
    "",
    REMARK,
)
UNREACHABLE = Code(
    "rabbitmq_stream.advertised-host",
    "error",
    "the broker advertises an address that the client cannot reach",
    "A client asks one broker where a stream is (Metadata), and connects to the host and port of the answer, not to "
    "the address that it was given. Here that connection was refused, got no answer, or never came.",
    (
        "the broker runs in a container or behind a load balancer and advertises its own name",
        "stream.advertised_host or stream.advertised_port is wrong",
        "the client cannot resolve the name",
    ),
    "Set stream.advertised_host and stream.advertised_port in rabbitmq.conf to what clients can reach, or give the "
    "client an address resolver that always takes the load balancer.",
    "stories/advertised-refused.pcap",
    CAUSE,
)
ALL = (
    *(UNREACHABLE, GUEST, STARVED, STOPPED, EARLY, ONE, REFUSED, AUTHENTICATION, SERVER_CLOSED, NO_CLOSE, NO_STREAM),
    *(DUPLICATES, NOT_STARTED, HEARTBEAT, LAGS, FLAPPING, OFFSET_GAP, SMALL_CHUNKS, SMALL_BATCHES),
)
