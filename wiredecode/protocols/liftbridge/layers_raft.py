"""Raft between Liftbridge's metadata servers, carried in plain NATS messages.

Source: liftbridge-io/nats-on-a-log (nats_transport.go) and hashicorp/raft (commands.go, log.go, net_transport.go). A
server dials another with a JSON request; then each side publishes bytes to the other's inbox::

    caller:  type u8 | MessagePack map                  for each RPC; after InstallSnapshot the snapshot's bytes
    callee:  MessagePack string (error) | MessagePack map   for each response, in order

Keys are the names of Go's struct fields, those of the RPC header included.
"""

from collections.abc import Callable
from typing import Any, ClassVar

from wiredecode.fields import Rest, UInt8, UInt32, printable, rfc3339_ns, text
from wiredecode.fields.jsonfields import JsonObject, Member, members
from wiredecode.fields.layer import Layer
from wiredecode.fields.protobuf import Message as Protobuf
from wiredecode.protocols.liftbridge import layers_messagepack as messagepack
from wiredecode.protocols.liftbridge import names
from wiredecode.protocols.liftbridge.layers_messagepack import Integer, Keyed, String, Truth
from wiredecode.protocols.liftbridge.layers_operations import MetadataSnapshot, RaftLog

NAME = "raft"
YEAR_ONE_SECONDS = 62_135_596_800
"""Go counts time from the year 1, this many seconds before the Unix epoch."""


class Line(Rest):
    """Text to the end of the message."""

    column = "string"

    def present(self, value: bytes | None, show: Callable[[bytes], str]) -> str | None:
        return None if value is None else printable(text(value))

    def spell_present(self, em: Any, expression: str) -> str:
        return f"{em.constant(self.present)}({expression}, None)"


class GoTime(messagepack.Raw):
    """A time as Go marshals it: version 1, seconds since the year 1, nanoseconds, minutes east of UTC."""

    def present(self, value: bytes | None, show: Callable[[bytes], str]) -> Any:
        if value is None or len(value) < 15 or value[0] not in (1, 2):
            return super().present(value, show)
        seconds = int.from_bytes(value[1:9], "big", signed=True) - YEAR_ONE_SECONDS
        return rfc3339_ns(seconds * 1_000_000_000 + int.from_bytes(value[9:13], "big"))


# Servers find each other.


class RaftConnectRequest(JsonObject):
    """``{"id": caller, "inbox": where the caller listens}``, sent to ``<namespace>.raft.metadata.<id>.accept``."""

    filter_name = NAME
    facts: ClassVar[tuple[str, ...]] = ("id", "inbox")
    fields_desc = members(Member("id", doc="server that calls"), Member("inbox", doc="subject on which it listens"))


class RaftConnectResponse(JsonObject):
    """``{"inbox": where the callee listens}``"""

    filter_name = NAME
    facts: ClassVar[tuple[str, ...]] = ("inbox",)
    fields_desc = members(Member("inbox", doc="subject on which the callee listens"))


class RaftBootstrap(Layer):
    """A seed server looks for others: its id, in plain text."""

    filter_name = NAME
    facts: ClassVar[tuple[str, ...]] = ("server_id",)
    fields_desc = [Line("server_id", "server that asks or answers")]


class RaftBytes(Layer):
    """Bytes of a stream that are not a whole RPC: a part of one, or of a snapshot."""

    filter_name = NAME
    fields_desc = [Rest("data", "bytes of the stream")]


# The log.


class Server(messagepack.MapLayer):
    fields_desc = messagepack.map_fields(
        Integer("Suffrage", "suffrage", "whether it votes", names=names.SUFFRAGES),
        String("ID", "id", "server"),
        String("Address", "address", "its address: the id again"),
    )


class Configuration(messagepack.MapLayer):
    """The servers of the group."""

    fields_desc = messagepack.map_fields(messagepack.Maps("Servers", "servers", Server, "all servers"))


class LogEntry(messagepack.MapLayer):
    """An entry of the replicated log: its bytes, and their operation."""

    fields_desc = messagepack.map_fields(
        Integer("Index", "index", "position in the log"),
        Integer("Term", "term", "term of the leader that wrote it"),
        Integer("Type", "log_type", "what it is", names=names.LOG_TYPES),
        messagepack.Raw("Data", "data", "protobuf RaftLog of commands, MessagePack of configurations"),
        messagepack.Raw("Extensions", "extensions", "of the application"),
        GoTime("AppendedAt", "appended_at", "when the leader wrote it"),
        messagepack.Interpretation("raft_log", RaftLog, "what a command does"),
        messagepack.Interpretation("configuration", Configuration, "the servers of a configuration"),
    )

    def read_tagged(self, data: bytes, position: int, end: int) -> int:
        stop = super().read_tagged(data, position, end)
        kind, raw = INTERPRETATIONS.get(self.fields.get("log_type", -1)), self.fields.get("data")
        if kind is not None and raw:
            last = self.ranges["data"][1]
            inner = messagepack.whole(kind.layer, data, last - len(raw), last)
            if inner is not None:
                self.fields[kind.name], self.ranges[kind.name] = inner, (last - len(raw), last)
        return stop


INTERPRETATIONS: dict[int, messagepack.Interpretation] = {
    code: next(kind for kind in LogEntry.fields_desc if kind.name == name)
    for code, name in ((names.LOG_COMMAND, "raft_log"), (names.LOG_CONFIGURATION, "configuration"))
}
"""By the type of the entry."""


# The RPCs.


def header() -> list[Keyed]:
    return [
        Integer("ProtocolVersion", "protocol_version", "of Raft"),
        messagepack.Raw("ID", "id", "server that sends"),
        messagepack.Raw("Addr", "addr", "its address"),
    ]


def term() -> Keyed:
    return Integer("Term", "term", "current term of the sender")


def newest() -> list[Keyed]:
    return [
        Integer("LastLogIndex", "last_log_index", "index of the newest entry"),
        Integer("LastLogTerm", "last_log_term", "term of the newest entry"),
    ]


def granted() -> Keyed:
    return Truth("Granted", "granted", "whether the vote is given")


class Rpc(messagepack.MapLayer):
    """Base of all requests."""

    filter_name = NAME
    facts: ClassVar[tuple[str, ...]] = ("term",)


class RpcResponse(messagepack.MapLayer):
    """Base of all responses: the error, then the map."""

    filter_name = NAME
    facts: ClassVar[tuple[str, ...]] = ("error", "term")
    starts_with_error = True


def request(rpc_type: int, *kinds: Keyed, facts: tuple[str, ...] = (), doc: str | None = None) -> type[Rpc]:
    """The layer of a request; lines show ``facts``."""
    front = UInt8("rpc_type", "what it is", names=names.RPC_TYPES, default=rpc_type)
    name, fields = names.RPC_TYPES.get(rpc_type, "UnknownRpc"), messagepack.map_fields(front, *header(), *kinds)
    return Rpc.declare(name, *fields, doc=doc, facts=facts or Rpc.facts)


def response(name: str, *kinds: Keyed, facts: tuple[str, ...] = ()) -> type[RpcResponse]:
    """The layer of a response; lines show its error and ``facts``."""
    error = messagepack.ErrorText("error", "why the RPC failed; empty: it did not")
    return RpcResponse.declare(name, *messagepack.map_fields(error, *header(), *kinds), facts=("error", *facts))


AppendEntries = request(
    0,
    term(),
    String("Leader", "leader", "server that leads"),
    Integer("PrevLogEntry", "prev_log_entry", "index of the entry before"),
    Integer("PrevLogTerm", "prev_log_term", "term of the entry before"),
    messagepack.Maps("Entries", "entries", LogEntry, "entries to append"),
    Integer("LeaderCommitIndex", "leader_commit_index", "what is committed"),
    facts=("term", "leader", "entries", "prev_log_entry", "leader_commit_index"),
    doc="New log entries, or a heartbeat without any.",
)
RequestVote = request(
    1,
    term(),
    String("Candidate", "candidate", "server that wants to lead"),
    *newest(),
    Truth("LeadershipTransfer", "leadership_transfer", "the leader asked for it"),
    facts=("term", "candidate", "last_log_index"),
)
InstallSnapshot = request(
    2,
    term(),
    Integer("SnapshotVersion", "snapshot_version", "of the format"),
    String("Leader", "leader", "server that leads"),
    *newest(),
    messagepack.PackedTexts("Peers", "peers", "addresses of the servers, the old form of the configuration"),
    messagepack.PackedMap("Configuration", "configuration", Configuration, "the servers of the group"),
    Integer("ConfigurationIndex", "configuration_index", "index of that configuration"),
    Integer("Size", "snapshot_size", "bytes that follow", unit="bytes"),
    facts=("term", "leader", "last_log_index", "snapshot_size"),
    doc="Announces ``size`` bytes of snapshot, which follow in the stream.",
)
TimeoutNow = request(3, doc="The leader asks the server to start an election.")
RequestPreVote = request(4, term(), *newest(), facts=("term", "last_log_index"))
UnknownRpc = request(0xFF, term())

AppendEntriesResponse = response(
    "AppendEntriesResponse",
    term(),
    Integer("LastLog", "last_log", "newest index of the follower"),
    Truth("Success", "success", "whether the entries fit"),
    Truth("NoRetryBackoff", "no_retry_backoff", "the leader may continue immediately"),
    facts=("term", "last_log", "success"),
)
RequestVoteResponse = response(
    "RequestVoteResponse",
    term(),
    messagepack.PackedTexts("Peers", "peers", "addresses of the servers"),
    granted(),
    facts=("term", "granted"),
)
InstallSnapshotResponse = response(
    "InstallSnapshotResponse",
    term(),
    Truth("Success", "success", "whether the snapshot was taken"),
    facts=("term", "success"),
)
TimeoutNowResponse = response("TimeoutNowResponse")
RequestPreVoteResponse = response("RequestPreVoteResponse", term(), granted(), facts=("term", "granted"))


class Snapshot(Protobuf):
    """The bytes after InstallSnapshot: a length, then the metadata."""

    filter_name = "raft_snapshot"
    fields_desc = [UInt32("size", "bytes that follow", unit="bytes"), *MetadataSnapshot.fields_desc]


REQUESTS: dict[int, type[Rpc]] = dict(
    enumerate((AppendEntries, RequestVote, InstallSnapshot, TimeoutNow, RequestPreVote))
)

RESPONSES: tuple[tuple[str, type[RpcResponse]], ...] = (
    ("last_log", AppendEntriesResponse),
    ("peers", RequestVoteResponse),
    ("granted", RequestPreVoteResponse),
    ("success", InstallSnapshotResponse),
)
"""The field that identifies each response, in the order in which they are tried."""

LAYERS: tuple[type[Layer], ...] = (
    RaftConnectRequest,
    RaftConnectResponse,
    RaftBootstrap,
    RaftBytes,
    *REQUESTS.values(),
    UnknownRpc,
    *(layer for _, layer in RESPONSES),
    TimeoutNowResponse,
    Snapshot,
)

AnyResponse = response(
    "AnyResponse", *{kind.name: kind for _, layer in RESPONSES for kind in layer.fields_desc[4:-1]}.values()
)
"""All fields of all responses, to distinguish them."""
