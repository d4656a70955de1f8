"""The user that a SASL payload names, without the password."""

from wiredecode.fields import text


def user_name(mechanism: str, data: bytes) -> str | None:
    """User name of a client's first SASL payload (RFC 4616; AMQP 0-9-1 table for AMQPLAIN); None if it has none."""
    if mechanism == "PLAIN":
        parts = data.split(b"\0")  # authorisation id, name, password: of another form each could be the password
        return text(parts[1]) if len(parts) == 3 and parts[1] and parts[2] else None
    if mechanism == "AMQPLAIN":
        return _amqplain_login(data)
    return None


def _amqplain_login(data: bytes) -> str | None:
    """LOGIN of ``name length uint8 | name | 'S' | value length uint32 | value``...; None if truncated."""
    position, table = 0, dict[bytes, bytes]()
    while position < len(data):
        name_end = position + 1 + data[position]
        name = data[position + 1 : name_end]
        value_start = name_end + 5
        if data[name_end : name_end + 1] != b"S" or value_start > len(data):
            return None
        value_end = value_start + int.from_bytes(data[name_end + 1 : value_start], "big")
        table[name] = data[value_start:value_end]
        position = value_end
    whole = position == len(data) and b"PASSWORD" in table
    return text(table[b"LOGIN"]) if whole and b"LOGIN" in table else None
