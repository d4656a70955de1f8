"""Facts about Liftbridge that wiredecode needs before any of its messages."""

from collections.abc import Iterable

from wiredecode.fields.layer import Layer
from wiredecode.protocols.base import generated_of
from wiredecode.protocols.liftbridge import NAME
from wiredecode.protocols.liftbridge.names import MAGIC, MESSAGE_TYPES, RAFT_MARK, REQUESTS
from wiredecode.protocols.shared.carried import CarriedProtocol, CarriedSession


class Liftbridge(CarriedProtocol):
    """Liftbridge inside messages of NATS."""

    name = NAME
    carrier = "nats"
    prefix = MAGIC
    subject_parts = (RAFT_MARK,)
    client_names = "LIFT."
    requests = {"liftbridge": frozenset(MESSAGE_TYPES[code] for code in REQUESTS)}
    summary_keys = (
        *("op", "stream_name", "stream", "partition", "exists", "is_leader", "term", "leader", "candidate"),
        *("operations", "count(entries)", "success", "granted", "leader_epoch", "replica_id", "offset", "id"),
    )
    generated = generated_of("liftbridge")

    def layers(self) -> tuple[type[Layer], ...]:
        from wiredecode.protocols.liftbridge import layers
        from wiredecode.protocols.liftbridge import layers_operations as operations
        from wiredecode.protocols.liftbridge import layers_raft as raft

        stored = (operations.ActivityStreamEvent, operations.Cursor)
        return (*layers.LAYERS.values(), layers.Unknown, *stored, *raft.LAYERS)

    def type_names(self) -> Iterable[str]:
        return (*super().type_names(), "RaftSnapshot", "RaftEnd")

    def session(self) -> CarriedSession:
        from wiredecode.protocols.liftbridge.conversation import LiftbridgeSession

        return LiftbridgeSession()


PROTOCOL = Liftbridge
