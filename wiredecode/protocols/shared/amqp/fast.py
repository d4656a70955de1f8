"""The record reader: message bytes to plain values in one pass, no object per value.

One function per format code, derived from ``CONSTRUCTORS`` and called through a 256-entry table, reads a
payload and returns its value and the next position. Ends are checked once per compound value, not once per
item: positions only grow, so an item that overshoots cannot end where its list must end, nor can the message.
"""

from __future__ import annotations

import struct
from collections.abc import Callable

from wiredecode.protocols.shared.amqp.constructors import (
    CONSTRUCTORS,
    MAX_DEPTH,
    MAX_ELEMENTS,
    MAX_ZERO_WIDTH_ELEMENTS,
    Category,
    Constructor,
    Json,
    NotAmqpError,
    Show,
    key_text,
    unused_key,
)
from wiredecode.protocols.shared.amqp.sections import BY_DESCRIPTOR, Section, field_name

_Reader = Callable[[bytes, int, Show, int, list[int]], tuple[Json, int]]
"""(message, position of the payload, show, levels left, [elements left, of them without width])
-> (value, position after it)."""


def record(
    data: bytes,
    show: Show,
    max_depth: int = MAX_DEPTH,
    max_elements: int = MAX_ELEMENTS,
    max_zero_width: int = MAX_ZERO_WIDTH_ELEMENTS,
) -> dict[str, Json] | None:
    """The message as JSON-ready values, or None if the bytes are no AMQP 1.0 message.

    Only the sections that are there: header, delivery_annotations, message_annotations, properties,
    application_properties, data (list of shown bytes), sequence (list of lists), value, footer. Unset fields
    of header and properties are left out. Binary goes through ``show``, times are RFC 3339, descriptors are
    ``{"descriptor", "value"}``, NaN and infinities are text.
    """
    size = len(data)
    if size > 4 and data[:4] == b"\x00\x53\x75\xa0" and data[4] == size - 5:
        return {"data": [show(data[5:])]}
    if size < 4 or data[0]:
        return None
    try:
        return _sections(data, size, show, max_depth, [max_elements, max_zero_width])
    except (NotAmqpError, IndexError, struct.error):
        return None


def _sections(data: bytes, size: int, show: Show, depth: int, budget: list[int]) -> dict[str, Json]:
    result: dict[str, Json] = {}
    previous: Section | None = None
    position, rank = 0, -1
    while position < size:
        if data[position]:
            raise NotAmqpError
        if data[position + 1] == 0x53:
            section = BY_DESCRIPTOR.get(data[position + 2])
            position += 3
        else:
            section, position = _section(data, position + 1)
        if section is None or (section.rank <= rank and not section.follows(previous)):
            raise NotAmqpError
        previous, rank = section, section.rank
        code = data[position]
        budget[0] -= 1
        if code not in section.codes or budget[0] < 0:
            raise NotAmqpError
        if section.fields:
            result[section.name], position = _fields(data, position, section, show, depth, budget)
            continue
        value, position = _READERS[code](data, position + 1, show, depth, budget)
        if section.repeats:
            result.setdefault(section.name, []).append(value)
        else:
            result[section.name] = value
    if position != size:
        raise NotAmqpError
    return result


def _section(data: bytes, position: int) -> tuple[Section | None, int]:
    """The section whose descriptor, spelled in one of the less usual ways, is at the position."""
    code = data[position]
    key: int | str
    if code == 0x80:
        end = position + 9
        key = int.from_bytes(data[position + 1 : end], "big")
    elif code == 0xA3 or code == 0xB3:
        key, end = _READERS[code](data, position + 1, bytes.hex, 0, [0, 0])
    else:
        raise NotAmqpError
    return BY_DESCRIPTOR.get(key), end


def _fields(
    data: bytes, position: int, section: Section, show: Show, depth: int, budget: list[int]
) -> tuple[dict[str, Json], int]:
    """Header and properties: the set items of a list under the names of its fields."""
    code = data[position]
    if code == 0x45:
        if depth <= 0:
            raise NotAmqpError
        return {}, position + 1
    count, position, end = _open(data, position + 1, 4 if code & 0x10 else 1, depth, budget)
    if count > end - position:
        raise NotAmqpError
    depth -= 1
    fields: dict[str, Json] = {}
    names, known = section.fields, len(section.fields)
    for index in range(count):
        code = data[position]
        if code == 0x40:
            position += 1
            continue
        name = names[index] if index < known else field_name(section, index)
        if code == 0xA1 or code == 0xA3:  # most fields: worth the call saved
            start = position + 2
            position = start + data[position + 1]
            fields[name] = data[start:position].decode("utf-8", "backslashreplace")
        else:
            fields[name], position = _READERS[code](data, position + 1, show, depth, budget)
    if position != end:
        raise NotAmqpError
    return fields, end


def _open(data: bytes, position: int, width: int, depth: int, budget: list[int]) -> tuple[int, int, int]:
    """Size and count of a list, map or array: (count, position of what follows, end)."""
    items = position + 2 * width
    if width == 1:
        end, count = position + 1 + data[position], data[position + 1]
    else:
        middle = position + 4
        end = middle + int.from_bytes(data[position:middle], "big")
        count = int.from_bytes(data[middle:items], "big")
    left = budget[0] = budget[0] - count
    if depth <= 0 or left < 0 or items > end or end > len(data):
        raise NotAmqpError
    return count, items, end


def _list_reader(width: int) -> _Reader:
    def read(data: bytes, position: int, show: Show, depth: int, budget: list[int]) -> tuple[Json, int]:
        count, position, end = _open(data, position, width, depth, budget)
        if count > end - position:
            raise NotAmqpError
        depth -= 1
        items = []
        for _ in range(count):
            item, position = _READERS[data[position]](data, position + 1, show, depth, budget)
            items.append(item)
        if position != end:
            raise NotAmqpError
        return items, end

    return read


def _empty_list(data: bytes, position: int, show: Show, depth: int, budget: list[int]) -> tuple[Json, int]:
    if depth <= 0:
        raise NotAmqpError
    return [], position


def _map_reader(width: int) -> _Reader:
    def read(data: bytes, position: int, show: Show, depth: int, budget: list[int]) -> tuple[Json, int]:
        count, position, end = _open(data, position, width, depth, budget)
        if count & 1 or count > end - position:
            raise NotAmqpError
        depth -= 1
        entries: dict[str, Json] = {}
        for index in range(count >> 1):
            code = data[position]
            if code == 0xA1 or code == 0xA3:  # nearly every key: worth the call saved
                start = position + 2
                position = start + data[position + 1]
                key = data[start:position].decode("utf-8", "backslashreplace")
            else:
                start = position
                plain, position = _READERS[code](data, position + 1, show, depth, budget)
                compound = isinstance(plain, list | dict)
                key = show(data[start:position]) if compound else key_text(plain)
            if key in entries:
                key = unused_key(key, index, entries)
            entries[key], position = _READERS[data[position]](data, position + 1, show, depth, budget)
        if position != end:
            raise NotAmqpError
        return entries, end

    return read


def _array_reader(width: int) -> _Reader:
    def read(data: bytes, position: int, show: Show, depth: int, budget: list[int]) -> tuple[Json, int]:
        count, position, end = _open(data, position, width, depth, budget)
        if position == end and not count:  # some encoders leave out the constructor of an empty array
            return [], end
        descriptors = []
        while not (code := data[position]):
            depth -= 1
            if depth <= 0:
                raise NotAmqpError
            descriptor, position = _READERS[data[position + 1]](data, position + 2, show, depth - 1, budget)
            descriptors.append(descriptor)
        constructor = CONSTRUCTORS[code]
        if constructor is None:
            raise NotAmqpError
        position += 1
        item_width = constructor.width
        if not item_width:
            budget[1] -= count
        if budget[1] < 0 or count * item_width > end - position:
            raise NotAmqpError
        reader = _READERS[code]
        value: Json = []
        for _ in range(count):
            item, position = reader(data, position, show, depth - 1, budget)
            value.append(item)
        if position != end:
            raise NotAmqpError
        for descriptor in reversed(descriptors):
            value = {"descriptor": descriptor, "value": value}
        return value, end

    return read


def _described(data: bytes, position: int, show: Show, depth: int, budget: list[int]) -> tuple[Json, int]:
    if depth <= 0:
        raise NotAmqpError
    descriptor, position = _READERS[data[position]](data, position + 1, show, depth - 1, budget)
    value, position = _READERS[data[position]](data, position + 1, show, depth - 1, budget)
    return {"descriptor": descriptor, "value": value}, position


def _no_constructor(data: bytes, position: int, show: Show, depth: int, budget: list[int]) -> tuple[Json, int]:
    raise NotAmqpError


def _number_reader(constructor: Constructor, packer: struct.Struct) -> _Reader:
    width, unpack, plain = constructor.width, packer.unpack_from, constructor.plain

    def read(data: bytes, position: int, show: Show, depth: int, budget: list[int]) -> tuple[Json, int]:
        return unpack(data, position)[0], position + width

    def read_plain(data: bytes, position: int, show: Show, depth: int, budget: list[int]) -> tuple[Json, int]:
        return _plain(unpack(data, position)[0], show), position + width

    if plain is None:
        return read
    _plain = plain
    return read_plain


def _fixed_reader(constructor: Constructor) -> _Reader:
    if constructor.packer:
        return _number_reader(constructor, constructor.packer)
    width, decode, plain = constructor.width, constructor.decode, constructor.plain

    def read(data: bytes, position: int, show: Show, depth: int, budget: list[int]) -> tuple[Json, int]:
        end = position + width
        value = decode(data[position:end])
        return plain(value, show) if plain else value, end

    if width == 0 and plain is None:
        return _constant_reader(decode(b""))
    return read


def _constant_reader(value: Json) -> _Reader:
    def read(data: bytes, position: int, show: Show, depth: int, budget: list[int]) -> tuple[Json, int]:
        return value, position

    return read


def _variable_reader(constructor: Constructor) -> _Reader:
    """Text where the table has no ``plain`` form for it, else bytes."""
    width, text = constructor.width, constructor.plain is None

    def short_text(data: bytes, position: int, show: Show, depth: int, budget: list[int]) -> tuple[Json, int]:
        start = position + 1
        end = start + data[position]
        return data[start:end].decode("utf-8", "backslashreplace"), end

    def short_bytes(data: bytes, position: int, show: Show, depth: int, budget: list[int]) -> tuple[Json, int]:
        start = position + 1
        end = start + data[position]
        return show(data[start:end]), end

    def read(data: bytes, position: int, show: Show, depth: int, budget: list[int]) -> tuple[Json, int]:
        start = position + width
        end = start + int.from_bytes(data[position:start], "big")
        payload = data[start:end]
        return payload.decode("utf-8", "backslashreplace") if text else show(payload), end

    if width == 1:
        return short_text if text else short_bytes
    return read


def _reader(constructor: Constructor | None) -> _Reader:
    if constructor is None:
        return _no_constructor
    match constructor.category:
        case Category.FIXED:
            return _fixed_reader(constructor)
        case Category.VARIABLE:
            return _variable_reader(constructor)
        case Category.LIST:
            return _list_reader(constructor.width) if constructor.width else _empty_list
        case Category.MAP:
            return _map_reader(constructor.width)
        case Category.ARRAY:
            return _array_reader(constructor.width)
    return _described


_READERS: list[_Reader] = [_reader(constructor) for constructor in CONSTRUCTORS]
