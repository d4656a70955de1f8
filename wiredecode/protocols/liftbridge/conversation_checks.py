"""Findings about an envelope beyond its fields: near misses, checksums, refusals."""

from __future__ import annotations

import crc32c

from wiredecode.fields import compiler, printable
from wiredecode.frames.frame import MALFORMED, Frame
from wiredecode.protocols.liftbridge import NAME, names
from wiredecode.protocols.liftbridge.layers_reading import CarriedLayer, number_in
from wiredecode.protocols.liftbridge.layers_replication import (
    CHECKED_FROM,
    CRC_FLAG,
    ENTRY_HEADER,
    LONG_HEADER,
    MESSAGE_MAGIC,
    SHORT_HEADER,
    Odd,
    verify,
)

MAX_ODD_MESSAGES = 8
"""Damaged stored messages that one frame names; the rest is counted."""

REPLICATION_HEADER = 16
"""Epoch and high watermark, in front of the entries."""

USUAL_HEADERS = (bytes([0, SHORT_HEADER, 0]), bytes([0, LONG_HEADER, CRC_FLAG]))
"""Version, header length and flags."""


def check_header(frame: Frame, data: bytes, start: int) -> None:
    """Report headers that upstream's servers would reject or ignore; ``data`` has a whole header, which is unusual."""
    version, header_length, flags, message_type = data[4:SHORT_HEADER]
    if version != 0:
        message = f"version {version} is not known: the payload is not decoded"
        frame.find("warning", "protocol", "unknown-version", message, f"{NAME}.version", (start + 4, start + 5))
    elif message_type not in names.MESSAGE_TYPES:
        message = f"message type {message_type} is not known: the payload is not decoded"
        where = (start + 7, start + 8)
        frame.find("warning", "protocol", "unknown-type", message, f"{NAME}.message_type", where)
    if flags & ~CRC_FLAG:
        message = f"flags {flags & ~CRC_FLAG:#04x} are not assigned: servers ignore them"
        frame.find("note", "protocol", "unknown-flags", message, f"{NAME}.flags", (start + 6, start + 7))
    if header_length in (SHORT_HEADER, LONG_HEADER) and (header_length == LONG_HEADER) == bool(flags & CRC_FLAG):
        return
    where = (start + 5, start + 6)
    if header_length < SHORT_HEADER:
        message = f"header length {header_length} is below {SHORT_HEADER}: decoded as if it were {SHORT_HEADER}"
        frame.find("warning", "malformed", "header-length", message, f"{NAME}.header_length", where)
    elif header_length > len(data) and not frame.is_cut:
        message = f"header length {header_length} reaches beyond the {len(data)} bytes of the payload"
        frame.find("error", "malformed", "header-length", message, f"{NAME}.header_length", where)
    elif flags & CRC_FLAG:
        message = f"the CRC flag goes with header length {LONG_HEADER}, not {header_length}: servers reject it"
        frame.find("warning", "malformed", "header-length", message, f"{NAME}.header_length", where)
    else:
        message = f"{header_length - SHORT_HEADER} header bytes of unknown meaning: servers ignore them"
        severity = "note" if header_length == LONG_HEADER else "warning"
        where = (start + SHORT_HEADER, start + header_length)
        frame.find(severity, "protocol", "header-extension", message, f"{NAME}.extension", where)


def check_crc(reading: CarriedLayer, start: int) -> None:
    """Verify the CRC-32C of the envelope, which covers the payload."""
    stored, actual = reading.fields["crc"], crc32c.crc32c(reading.data[reading.data[5] :])
    reading.generate("crc_status", "good" if actual == stored else "bad")
    if actual != stored:
        message = f"CRC-32C of the payload is {actual:#010x}, the header says {stored:#010x}: servers reject it"
        reading.frame.find("error", "checksum", "envelope-crc", message, f"{NAME}.crc", (start + 8, start + 12))


def check_entries(reading: CarriedLayer, start: int) -> None:
    """Verify the CRC-32C and the format of each stored message of a ReplicationResponse."""
    frame, data = reading.frame, reading.data
    shown = reading.fields.get("entries") if reading.style is not None else None
    count, odd = verify(data, max(data[5], SHORT_HEADER) + REPLICATION_HEADER, len(data))
    for entry in shown[:count] if shown else ():
        entry["crc_status"] = "good"
    bad = [message for message in odd if message.stored != message.actual]
    if odd and not reading.unusual and shown is None:  # entries were stepped over by their sizes alone
        reading.problem = compiler.careful(reading.layer, data, 0, len(data)).problem
        reading.find_problem()
    for message in bad:
        if shown is not None and message.number < len(shown):
            shown[message.number]["crc_status"] = "bad"
    for message in odd[:MAX_ODD_MESSAGES]:
        _find_odd(frame, message, start)
    if count:
        reading.generate("messages_crc_status", "bad" if bad else "good")
    if len(odd) > MAX_ODD_MESSAGES:
        text = f"{len(bad)} of {count} stored messages have a bad CRC"
        frame.find("error", "checksum", "message-crc", text, f"{NAME}.entries")
    if "surplus" in reading.fields and reading.problem is None:
        text = "bytes after the last entry are too few for another one: followers ignore them"
        frame.find("note", "protocol", "surplus-bytes", text, f"{NAME}.surplus")


def _find_odd(frame: Frame, message: Odd, start: int) -> None:
    field, at = f"{NAME}.entries[{message.number}]", start + message.position + ENTRY_HEADER
    if message.stored != message.actual:
        text = f"CRC-32C of stored message {message.number} is {message.actual:#010x}, it says {message.stored:#010x}"
        frame.find("error", "checksum", "message-crc", text, f"{field}.crc", (at, at + CHECKED_FROM))
    if message.magic_byte != MESSAGE_MAGIC:
        text = f"stored message {message.number} is of format {message.magic_byte}, not {MESSAGE_MAGIC}"
        where = (at + CHECKED_FROM, at + CHECKED_FROM + 1)
        frame.find("warning", "malformed", "message-magic", text, f"{field}.magic_byte", where)


CHECKED_TYPES = (names.ACK, 5, 8, 9)
"""Types whose contents :func:`check_contents` looks at."""


def check_contents(message_type: int, reading: CarriedLayer) -> None:
    """Of :data:`CHECKED_TYPES` and unusual messages: report refusals, operations without message, unknown fields."""
    frame, fields = reading.frame, reading.fields
    if message_type == names.ACK and "ack_error" in fields and reading.number("ack_error"):
        name = names.ACK_ERRORS.get(reading.number("ack_error"), "an unknown error")
        frame.find("note", "response", "refused", f"the message was refused: {name}", f"{NAME}.ack_error")
    elif message_type == 5 and fields.get("error"):
        message = f"the server may not join: {printable(fields['error'])}"
        frame.find("note", "response", "refused", message, f"{NAME}.error")
    elif message_type == 9 and "error" in fields:
        number = number_in(fields["error"], "code")
        code = names.GRPC_CODES.get(number, number)
        message = f"the operation was refused: {code}: {printable(fields['error'].get('msg', ''))}"
        frame.find("note", "response", "refused", message, f"{NAME}.error")
    elif message_type == 8 and reading.problem is None:
        op = reading.number("op")
        if f"{names.OPS.get(op, '').lower()}_op" not in fields:
            name = names.OPS.get(op, f"operation {op}")
            frame.find("warning", "protocol", "op-mismatch", f"{name} comes without its message", f"{NAME}.op")
    whole = reading.problem is None and not frame.is_cut and frame.status != MALFORMED
    if reading.unusual and whole and _holds_unknown(fields):
        message = "fields that are not known, repeated, or of another type"
        frame.find("note", "protocol", "unknown-fields", message, f"{NAME}.unknown_fields")


def _holds_unknown(value: object) -> bool:
    if isinstance(value, dict):
        return "unknown_fields" in value or any(_holds_unknown(inner) for inner in value.values())
    return isinstance(value, list) and any(_holds_unknown(inner) for inner in value)
