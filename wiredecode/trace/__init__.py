"""Follows one message from publisher to consumers, as frames show it."""

from wiredecode.trace.sighting import Criteria, Message, drop_answers, group
from wiredecode.trace.tracer import Collector, Finder

__all__ = ["Collector", "Criteria", "Finder", "Message", "drop_answers", "group"]
