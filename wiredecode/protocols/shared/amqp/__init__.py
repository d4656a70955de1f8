"""AMQP 1.0 messages (OASIS AMQP 1.0 parts 1 and 3): bare sections, as brokers store them, without AMQP
frames.

``record`` reads a message into plain values, fast; ``message`` reads it into nodes with byte ranges. Bytes that are
no AMQP message give None, never an exception. Deviations of real encoders (string keys in annotations, symbolic or long
descriptors, surplus fields, a missing body) are read; sizes and counts must agree to the byte.
"""

from wiredecode.protocols.shared.amqp.constructors import SECTIONS
from wiredecode.protocols.shared.amqp.reader import AmqpNode, message, plain, record

__all__ = ["SECTIONS", "AmqpNode", "message", "plain", "record"]
