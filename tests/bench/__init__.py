"""Benchmark: wiredecode, tshark and Scapy on large captures multiplied from small real ones."""
