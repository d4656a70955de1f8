"""Benchmark: wiredecode beside tshark and Scapy, on large captures multiplied from the small real ones."""
