"""What a capture says in Liftbridge: it has no connections of its own, NATS carries it."""

from __future__ import annotations

from collections.abc import Container, Mapping
from typing import TYPE_CHECKING

from wiredecode.fields.layer import Style
from wiredecode.frames.frame import Frame
from wiredecode.protocols.liftbridge import conversation_envelopes, conversation_rpcs, names
from wiredecode.protocols.liftbridge.conversation_memory import Memory
from wiredecode.protocols.shared.carried import CarriedMessage

if TYPE_CHECKING:
    from wiredecode.frames.message import Messages


class Session(Memory):
    """Decodes the messages of one capture."""

    @property
    def subjects(self) -> Container[str]:  # type: ignore[override]
        return self.raft.dials

    def decode(self, frame: Frame, message: CarriedMessage, style: Style | None) -> int | None:
        if message.payload[:4] == names.MAGIC:
            return conversation_envelopes.decode(frame, message, style, self)
        return None if message.subject is None else conversation_rpcs.decode(frame, message, style, self)

    def client_named(self, name: str) -> Mapping[str, str]:
        """``LIFT.<namespace>.<server>.<purpose>`` of Liftbridge's servers."""
        parts = name.split(".")
        if len(parts) < 4:
            return {}
        namespace = ".".join(parts[1:-2])
        self.learn_namespace(namespace)
        return {"namespace": namespace, "server": parts[-2], "purpose": parts[-1]}

    def interrupt(self, connection: int, side: int) -> None:
        self.lossy = True
        self.raft.interrupt(connection, side)

    def messages(self, frame: Frame, operation: str, subject: str, out: Messages) -> bool:
        from wiredecode.protocols.liftbridge.messages import add_messages

        return bool(frame.inner) and add_messages(frame, operation, subject, out)
