"""NATS: the client protocol, and routes, gateways and leaf links between servers."""

NAME = "nats"
PORTS = (4222, 6222, 7222, 7422)
REPLY_TOPICS = ("_INBOX.", "$JS.ACK.", "_R_.", "_GR_.")
