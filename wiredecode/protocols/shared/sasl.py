"""The user that a SASL payload names, without the password."""

from wiredecode.fields import text
from wiredecode.protocols.shared.amqp.tables import TableForm, read_table


def user_name(mechanism: str, data: bytes) -> str | None:
    """User name of a client's first SASL payload (RFC 4616; AMQP 0-9-1 table for AMQPLAIN); None if it has none."""
    if mechanism == "PLAIN":
        parts = data.split(b"\0")  # authorisation id, name, password: of another form each could be the password
        return text(parts[1]) if len(parts) == 3 and parts[1] and parts[2] else None
    if mechanism == "AMQPLAIN":
        table = read_table(data, TableForm(spell=str))
        name = table.get("LOGIN")
        return name if isinstance(name, str) and "PASSWORD" in table else None
    return None
