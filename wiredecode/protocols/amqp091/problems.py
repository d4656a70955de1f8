"""Problems between AMQP 0-9-1 clients and servers."""

from wiredecode.protocols.shared.codes import codes_of
from wiredecode.protocols.shared.problems import Checks

CODES = codes_of("amqp091")
CHECKS = Checks(codes=())
