"""Topics as statistics count them: those made for one reply together, and not more than :data:`MAX_TOPICS`."""

import re
from functools import cache
from typing import Any

from wiredecode.protocols.registry import protocol_entries

MAX_TOPICS = 20_000
OTHERS = "(others)"
"""Topic of all further topics."""


def topic_group(topic: str) -> str:
    """The topic; of topics made for one reply only the prefix: ``"_INBOX.*"``."""
    match = _for_replies().search(topic)
    return topic if match is None else f"{topic[: match.end()]}*"


def within_limit(topics: set[Any], key: Any, topic: str | None) -> str | None:
    """Add the key of a topic to ``topics``, and return the topic; :data:`OTHERS` if ``topics`` is full."""
    if key not in topics and len(topics) >= MAX_TOPICS:
        return OTHERS
    topics.add(key)
    return topic


@cache
def _for_replies() -> re.Pattern[str]:
    """Prefixes of topics that are made for one reply, of all protocols, also after other tokens of the topic."""
    begins = dict.fromkeys(begin for each in protocol_entries() for begin in each.reply_topics)
    return re.compile(rf"(?<![^.])(?:{'|'.join(map(re.escape, begins))})")
