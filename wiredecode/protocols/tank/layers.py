"""The messages of TANK, in the order of their ids; of each id the request, then the response.

Source: TANK's tank_protocol.md and, where it and the broker disagree, the broker: see docs/protocols/tank.md. All
integers are little-endian. Every message, in both directions::

    message_id u8 | payload_length u32 | payload

Nothing tells a request from a response but the side that sends it.
"""

from __future__ import annotations

from wiredecode.protocols.tank.admin import (
    CreateTopic,
    CreateTopicResponse,
    DiscoverPartitions,
    DiscoverPartitionsResponse,
    DiscoverTopics,
    DiscoverTopicsResponse,
    DiscoverTopology,
    DiscoverTopologyResponse,
    Ping,
    RegisterReplica,
    ReloadPartitionConfiguration,
    ReloadPartitionConfigurationResponse,
    Status,
    StatusResponse,
)
from wiredecode.protocols.tank.base import HEADER, Frame, Unknown
from wiredecode.protocols.tank.data import (
    Consume,
    ConsumeAsPeer,
    ConsumeAsPeerResponse,
    ConsumeResponse,
    Produce,
    ProduceResponse,
    ProduceWithBaseSequenceNumber,
)
from wiredecode.protocols.tank.names import (
    CONSUME,
    CONSUME_AS_PEER,
    CREATE_TOPIC,
    DISCOVER_PARTITIONS,
    DISCOVER_TOPICS,
    DISCOVER_TOPOLOGY,
    PING,
    PRODUCE,
    PRODUCE_WITH_BASE,
    REGISTER_REPLICA,
    RELOAD_CONFIGURATION,
    STATUS,
)

__all__ = ["HEADER", "REQUESTS", "RESPONSES", "Frame", "Unknown"]

REQUESTS: dict[int, type[Frame]] = {
    PRODUCE: Produce,
    CONSUME: Consume,
    PING: Ping,
    REGISTER_REPLICA: RegisterReplica,
    PRODUCE_WITH_BASE: ProduceWithBaseSequenceNumber,
    DISCOVER_PARTITIONS: DiscoverPartitions,
    CREATE_TOPIC: CreateTopic,
    RELOAD_CONFIGURATION: ReloadPartitionConfiguration,
    CONSUME_AS_PEER: ConsumeAsPeer,
    STATUS: Status,
    DISCOVER_TOPICS: DiscoverTopics,
    DISCOVER_TOPOLOGY: DiscoverTopology,
}
"""What clients send, by id; brokers send PING of these."""

RESPONSES: dict[int, type[Frame]] = {
    PRODUCE: ProduceResponse,
    CONSUME: ConsumeResponse,
    PING: Ping,
    DISCOVER_PARTITIONS: DiscoverPartitionsResponse,
    CREATE_TOPIC: CreateTopicResponse,
    RELOAD_CONFIGURATION: ReloadPartitionConfigurationResponse,
    CONSUME_AS_PEER: ConsumeAsPeerResponse,
    STATUS: StatusResponse,
    DISCOVER_TOPICS: DiscoverTopicsResponse,
    DISCOVER_TOPOLOGY: DiscoverTopologyResponse,
}
"""What brokers send, by id."""
