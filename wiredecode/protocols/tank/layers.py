"""The messages of TANK, in the order of their ids; of each id the request, then the response.

Source: TANK's tank_protocol.md and, where it and the broker disagree, the broker: see docs/protocols/tank.md. All
integers are little-endian. Every message, in both directions::

    message_id u8 | payload_length u32 | payload

Nothing tells a request from a response but the side that sends it.
"""

from __future__ import annotations

from wiredecode.protocols.tank import admin, data, names
from wiredecode.protocols.tank.base import HEADER, TankFrame, Unknown

__all__ = ["HEADER", "REQUESTS", "RESPONSES", "TankFrame", "Unknown"]

REQUESTS: dict[int, type[TankFrame]] = {
    names.PRODUCE: data.Produce,
    names.CONSUME: data.Consume,
    names.PING: admin.Ping,
    names.REGISTER_REPLICA: admin.RegisterReplica,
    names.PRODUCE_WITH_BASE: data.ProduceWithBaseSequenceNumber,
    names.DISCOVER_PARTITIONS: admin.DiscoverPartitions,
    names.CREATE_TOPIC: admin.CreateTopic,
    names.RELOAD_CONFIGURATION: admin.ReloadPartitionConfiguration,
    names.CONSUME_AS_PEER: data.ConsumeAsPeer,
    names.STATUS: admin.Status,
    names.DISCOVER_TOPICS: admin.DiscoverTopics,
    names.DISCOVER_TOPOLOGY: admin.DiscoverTopology,
}
"""What clients send, by id; brokers send PING of these."""

RESPONSES: dict[int, type[TankFrame]] = {
    names.PRODUCE: data.ProduceResponse,
    names.CONSUME: data.ConsumeResponse,
    names.PING: admin.Ping,
    names.DISCOVER_PARTITIONS: admin.DiscoverPartitionsResponse,
    names.CREATE_TOPIC: admin.CreateTopicResponse,
    names.RELOAD_CONFIGURATION: admin.ReloadPartitionConfigurationResponse,
    names.CONSUME_AS_PEER: data.ConsumeAsPeerResponse,
    names.STATUS: admin.StatusResponse,
    names.DISCOVER_TOPICS: admin.DiscoverTopicsResponse,
    names.DISCOVER_TOPOLOGY: admin.DiscoverTopologyResponse,
}
"""What brokers send, by id."""
