"""A protocol as another package would add it: what docs/add-a-protocol.md builds, step by step."""
