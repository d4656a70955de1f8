"""Label sets of metrics: bounded in number, with topics cut to what stays the same."""

import re
from collections.abc import Callable, Sequence
from typing import Any

from wiredecode.frames.escape import valid
from wiredecode.stats.topics import topic_group

Labels = tuple[tuple[str, str | int], ...]
"""Names and values of attributes."""
OTHER = "other"
"""All label sets beyond the limit, by messaging system."""
SYSTEM, DESTINATION, OPERATION = "messaging.system", "messaging.destination.name", "messaging.operation.name"
ERROR = "error.type"
UUID = r"[0-9a-fA-F]{8}(?:-[0-9a-fA-F]{4}){3}-[0-9a-fA-F]{12}"
TOKEN = re.compile(rf"(?<![^.\-_/])(?:{UUID}|[A-Za-z0-9]{{20,}}|\d{{4,}})(?![^.\-_/])")
"""Ids inside topics: UUIDs, long random words with a digit, long numbers."""
MAX_MADE = 8192
"""Label sets that are remembered by the arguments of :meth:`LabelSets.labels`."""
Rule = tuple[re.Pattern[str], str]


def rule(text: str) -> Rule:
    """``REGEX=REPLACEMENT``. Raises ValueError."""
    pattern, equals, replacement = text.partition("=")
    if not equals:
        raise ValueError(f"{text!r} has no '=': give REGEX=REPLACEMENT")
    try:
        compiled = re.compile(pattern)
        compiled.sub(replacement, "")
    except (re.error, IndexError) as error:
        raise ValueError(f"{text!r}: {error}") from None
    return compiled, replacement


def topic_label(rules: Sequence[Rule]) -> Callable[[str], str]:
    """Name of a topic in labels: the rules' result, then without inboxes and ids."""

    def called(topic: str) -> str:
        for pattern, replacement in rules:
            topic = pattern.sub(replacement, topic)
        return TOKEN.sub(lambda token: "*" if any(map(str.isdigit, token[0])) else token[0], topic_group(topic))

    return called


class LabelSets:
    """The label sets of all metrics together: at most ``most``, then one more per metric and messaging system."""

    def __init__(self, most: int, rules: Sequence[Rule] = ()) -> None:
        self.most = most
        self._topic, self._rules = topic_label(rules), rules
        self._label_sets: set[tuple[str, Labels]] = set()
        self._cached: dict[tuple[Any, ...], Labels] = {}
        """The newest label sets by arguments: frames ask for the same ones again and again."""
        self._names: dict[str, str] = {}
        self.refused = 0
        """Times that a label set was one too many."""

    def name(self, address: str, name: str) -> None:
        """Use a name in place of an address, from now on."""
        if len(self._names) < self.most:
            self._names[address] = name
            self._cached.clear()

    def labels(
        self,
        metric: str,
        system: str,
        topic: str | None = None,
        operation: str | None = None,
        server: str | None = None,
        more: tuple[str, str] | None = None,
    ) -> Labels:
        """The label set of a metric; ``server``: ``address:port``; ``more``: another attribute."""
        wanted = metric, system, topic, operation, server, more
        if (existing := self._cached.get(wanted)) is not None:
            return existing
        if topic is not None and not self._rules and (group := topic_group(topic)) != topic:
            return self.labels(metric, system, group, operation, server, more)  # inboxes differ all the time
        address, _, port = (server or "").rpartition(":")
        values = {
            SYSTEM: system,
            OPERATION: operation,
            DESTINATION: None if topic is None else self._topic(topic),
            "server.address": self._names.get(address) or address.strip("[]") or None,
            "server.port": int(port) if port.isdigit() else None,
            **dict([more] if more else ()),
        }
        labels: Labels = tuple((name, valid(value)) for name, value in values.items() if value is not None)
        if (metric, labels) not in self._label_sets:
            if len(self._label_sets) >= self.most:
                self.refused += 1
                return tuple(
                    (name, value if name == SYSTEM else OTHER) for name, value in labels if name != "server.port"
                )
            self._label_sets.add((metric, labels))
        if len(self._cached) >= MAX_MADE:
            self._cached.clear()
        self._cached[wanted] = labels
        return labels
