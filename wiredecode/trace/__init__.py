"""Follows one message from publisher to consumers, as frames show it."""

from wiredecode.trace.sighting import Criteria, SightedMessage
from wiredecode.trace.tracer import Collector, Finder

__all__ = ["Collector", "Criteria", "Finder", "SightedMessage"]
