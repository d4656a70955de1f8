"""The messages of TANK, in the order of their ids; of each id the request, then the response.

Source: TANK's tank_protocol.md and, where it and the broker disagree, the broker: see docs/protocols/tank.md. All
integers are little-endian. Every message, in both directions::

    message_id u8 | payload_length u32 | payload

Nothing tells a request from a response but the side that sends it.
"""

from __future__ import annotations

from wiredecode.protocols.tank import layers_admin, layers_data, names
from wiredecode.protocols.tank.layers_base import HEADER, TankFrame, Unknown

__all__ = ["HEADER", "REQUESTS", "RESPONSES", "TankFrame", "Unknown"]

REQUESTS: dict[int, type[TankFrame]] = {
    names.PRODUCE: layers_data.Produce,
    names.CONSUME: layers_data.Consume,
    names.PING: layers_admin.Ping,
    names.REGISTER_REPLICA: layers_admin.RegisterReplica,
    names.PRODUCE_WITH_BASE: layers_data.ProduceWithBaseSequenceNumber,
    names.DISCOVER_PARTITIONS: layers_admin.DiscoverPartitions,
    names.CREATE_TOPIC: layers_admin.CreateTopic,
    names.RELOAD_CONFIGURATION: layers_admin.ReloadPartitionConfiguration,
    names.CONSUME_AS_PEER: layers_data.ConsumeAsPeer,
    names.STATUS: layers_admin.Status,
    names.DISCOVER_TOPICS: layers_admin.DiscoverTopics,
    names.DISCOVER_TOPOLOGY: layers_admin.DiscoverTopology,
}
"""What clients send, by id; brokers send PING of these."""

RESPONSES: dict[int, type[TankFrame]] = {
    names.PRODUCE: layers_data.ProduceResponse,
    names.CONSUME: layers_data.ConsumeResponse,
    names.PING: layers_admin.Ping,
    names.DISCOVER_PARTITIONS: layers_admin.DiscoverPartitionsResponse,
    names.CREATE_TOPIC: layers_admin.CreateTopicResponse,
    names.RELOAD_CONFIGURATION: layers_admin.ReloadPartitionConfigurationResponse,
    names.CONSUME_AS_PEER: layers_data.ConsumeAsPeerResponse,
    names.STATUS: layers_admin.StatusResponse,
    names.DISCOVER_TOPICS: layers_admin.DiscoverTopicsResponse,
    names.DISCOVER_TOPOLOGY: layers_admin.DiscoverTopologyResponse,
}
"""What brokers send, by id."""
