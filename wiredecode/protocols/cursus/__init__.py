"""Cursus: the length-prefixed protocol of the Cursus broker, text commands and binary batches."""

NAME = "cursus"
PORTS = (9000, 19000, 8000)
