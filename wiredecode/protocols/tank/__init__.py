"""TANK: the message broker of phaistos-networks/TANK."""

from wiredecode.protocols.tank.protocol import Tank

__all__ = ["Tank"]
