"""Wireshark has a dissector of Kafka itself, so wiredecode's Lua has none."""
