"""All protocols: those of this package, and those that other packages add.

Another package adds one by an entry point in the group ``wiredecode.protocols`` whose value is its
:class:`~wiredecode.protocols.base.Protocol` class; see docs/add-a-protocol.md. A protocol of this package is imported
when it is first tried on bytes: each costs 20 ms, and most captures have one.
"""

from __future__ import annotations

import traceback
from collections import Counter
from collections.abc import Callable, Mapping
from functools import cache, partial
from importlib import import_module
from importlib.metadata import entry_points
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar

from wiredecode.data import storable
from wiredecode.dataclasses import dataclass
from wiredecode.extras import Unusable
from wiredecode.protocols import amqp091, cursus, kafka, liftbridge, nats, pravega, rabbitmq_stream, tank
from wiredecode.protocols.base import Protocol

if TYPE_CHECKING:
    from wiredecode.protocols.shared.carried import CarriedProtocol

T = TypeVar("T")
GROUP = "wiredecode.protocols"

BUILT_IN = (rabbitmq_stream, pravega, tank, nats, amqp091, cursus, kafka)
"""In the order in which they are tried: the most certain first."""
CARRIED = (liftbridge,)
"""Protocols inside messages of others."""
CARRIED_GROUP = "wiredecode.carried"


@dataclass(frozen=True)
class RegistryEntry:
    """A protocol that may not be imported yet."""

    name: str
    ports: tuple[int, ...]
    load: Callable[[], Protocol]
    reply_topics: tuple[str, ...] = ()
    """:attr:`Protocol.reply_topics`."""

    def __reduce__(self) -> tuple[Any, ...]:
        return entry_named, (self.name,)


@storable
def entry_named(name: str) -> RegistryEntry:
    """The entry of a protocol that is installed. Raises StopIteration."""
    return next(each for each in protocol_entries() if each.name == name)


@dataclass(frozen=True)
class DecodeAs:
    """The user's choice for a port."""

    protocol: Protocol
    dialect: str | None = None


def _load_entry_points(group: str, convert: Callable[[Any], T]) -> list[T]:
    """Protocols of other packages, converted by ``convert``. Raises :class:`Unusable`."""
    loaded = []
    for entry in sorted(entry_points(group=group), key=lambda entry: entry.name):
        try:
            loaded.append(convert(entry.load()()))
        except Exception as error:
            package = entry.dist.name if entry.dist else entry.value
            reason = f"{type(error).__name__}: {error}{_where_raised(error, entry.module.partition('.')[0])}"
            raise Unusable(f"the protocol {entry.name} of the package {package} does not load: {reason}") from error
    return loaded


def _where_raised(error: Exception, package: str) -> str:
    """File and line of a package in the traceback of an error."""
    lines = traceback.extract_tb(error.__traceback__)
    own = [line for line in lines if package in (*Path(line.filename).parts[:-1], Path(line.filename).stem)]
    return f" ({'/'.join(Path(own[-1].filename).parts[-2:])}:{own[-1].lineno})" if own else ""


@cache
def protocol_entries() -> tuple[RegistryEntry, ...]:
    """All protocols, in the order in which they are tried on unknown bytes."""
    built_in = [
        RegistryEntry(each.NAME, each.PORTS, partial(_import, each.NAME), getattr(each, "REPLY_TOPICS", ()))
        for each in BUILT_IN
    ]
    added = _load_entry_points(GROUP, as_entry)
    names = Counter(each.name for each in (*built_in, *added))
    if twice := [name for name, count in names.items() if count > 1]:
        raise Unusable(f"two protocols are called {twice[0]}: pip uninstall the package that adds one of them")
    return (*built_in, *added)


def has_added() -> bool:
    """Whether other packages may add protocols."""
    return any(entry_points(group=group) for group in (GROUP, CARRIED_GROUP))


def carried_by(carrier: str) -> tuple[CarriedProtocol, ...]:
    """The protocols that messages of another one carry."""
    return tuple(each for each in carried_protocols() if each.carrier == carrier)


@cache
def carried_protocols() -> tuple[CarriedProtocol, ...]:
    """All protocols that messages of another one carry."""
    return (*(_import(each.NAME) for each in CARRIED), *_load_entry_points(CARRIED_GROUP, lambda each: each))


def as_entry(protocol: Protocol) -> RegistryEntry:
    """Wrap a protocol that is imported already."""
    return RegistryEntry(protocol.name, tuple(protocol.ports), lambda: protocol, protocol.reply_topics)


def protocols() -> tuple[Protocol, ...]:
    """All protocols, imported."""
    return tuple(entry.load() for entry in protocol_entries())


def by_name(name: str) -> Protocol | None:
    return next((entry.load() for entry in protocol_entries() if entry.name == name), None)


@cache
def protocol_named(name: str) -> Protocol | CarriedProtocol | None:
    """The protocol of that name, also a carried one, imported; or None."""
    return by_name(name) or next((each for each in carried_protocols() if each.name == name), None)


def title_of(name: str) -> str | None:
    protocol = by_name(name)
    return None if protocol is None else protocol.title


@cache
def summary_keys(name: str) -> tuple[str, ...]:
    """:attr:`Protocol.summary_keys` of the protocol of that name, or of the carried one."""
    protocol = protocol_named(name)
    return () if protocol is None else protocol.summary_keys


def requests() -> dict[str, frozenset[str]]:
    """Message types that always ask for a response, by protocol."""
    return {name: types for each in protocols() for name, types in each.requests.items()}


@cache
def requests_of(name: str) -> frozenset[str]:
    """Message types of one protocol that always ask for a response."""
    protocol = protocol_named(name)
    return frozenset() if protocol is None else protocol.requests.get(name, frozenset())


def decoding(names: Mapping[int, str]) -> dict[int, DecodeAs]:
    """Protocols of ports, from names such as ``nats/3``. Raises ``ValueError``."""
    choices = {}
    for port, name in names.items():
        name, _, dialect = name.partition("/")
        protocol = by_name(name)
        if protocol is None:
            raise ValueError(f"no protocol is called {name!r}; there is {', '.join(each.name for each in protocols())}")
        if dialect and dialect not in protocol.dialects:
            raise ValueError(f"{name} has no dialect {dialect!r}; there is {', '.join(protocol.dialects) or 'none'}")
        choices[port] = DecodeAs(protocol, dialect or None)
    return choices


def session_ports(decode_as: Mapping[int, DecodeAs]) -> dict[int, str]:
    """Ports of protocols with a session, whose connections must be decoded in one place; and the protocol."""
    ports = {port: each.name for each in protocol_entries() if each.load().has_session for port in each.ports}
    return ports | {port: choice.protocol.name for port, choice in decode_as.items() if choice.protocol.has_session}


@cache
def _import(name: str) -> Any:
    return import_module(f"wiredecode.protocols.{name}.protocol").PROTOCOL()
