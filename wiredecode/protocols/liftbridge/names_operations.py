"""Operations on the metadata of a cluster in a few words, for lines and problems."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

from wiredecode.fields import printable
from wiredecode.protocols.liftbridge import names

WHO = ("leader", "replica", "replica_to_add", "replica_to_remove", "group_id", "consumer_id")
"""Fields of operations that name servers and members."""
MOST_SPELLED = 4
"""Entries of one message that lines show."""


def spelled(values: Mapping[str, Any]) -> str:
    """``"REPORT_LEADER orders[1], leader lb-c, replica lb-b"``."""
    code = values.get("op", 0)
    op = names.OPS.get(code, f"operation {code}") if isinstance(code, int) else printable(str(code))
    for name, operation in values.items():
        if not name.endswith("_op") or not isinstance(operation, Mapping):
            continue
        stream: Any = operation.get("stream", operation.get("name", ""))
        if isinstance(stream, Mapping):
            stream = stream.get("stream_name", stream.get("name", ""))
        named = "isr" in name or "leader" in name
        partition = f"[{operation.get('partition', 0)}]" if named else ""
        facts = {name: operation[name] for name in WHO if isinstance(operation.get(name), str)}
        found = [f"{name.replace('_', ' ')} {printable(value)}" for name, value in facts.items()]
        return ", ".join([f"{op} {printable(str(stream))}{partition}".rstrip(), *found])
    return op


def entries_spelled(entries: Iterable[Any]) -> str:
    """Operations of entries of the log: ``"CREATE_STREAM orders; LogNoop"``; empty: there are none."""
    known = [each for each in entries if isinstance(each, Mapping)]
    found = [entry_spelled(each) for each in known[:MOST_SPELLED]]
    return "; ".join([*found, f"{len(known) - MOST_SPELLED} more"] if len(known) > MOST_SPELLED else found)


def entry_spelled(entry: Mapping[str, Any]) -> str:
    command, kind = entry.get("raft_log"), entry.get("log_type", "")
    if isinstance(command, Mapping):
        return spelled(command)
    return names.LOG_TYPES.get(kind, f"type {kind}") if isinstance(kind, int) else printable(str(kind))
