"""``wiredecode fields``"""
from __future__ import annotations
EXAMPLES = ""
def fields() -> None:
    """Every field."""
