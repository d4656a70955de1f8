"""TANK: the message broker of phaistos-networks/TANK."""

NAME = "tank"
PORTS = (11011,)
