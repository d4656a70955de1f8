"""Live capture: packets from an interface, as batches, while they pass by.

A source (`source` reads a packet socket or another program) is emptied by a thread of its own in `sniffer`,
which also saves what it reads (`pcapng_writer`, `saving`).
"""
