"""The reader of messages: bytes to plain values in one pass, and to nodes with byte ranges when asked.

One function per format code, derived from ``CONSTRUCTORS`` and called through a 256-entry table, reads a payload and
returns its value and the next position. Ends are checked once per compound value, not once per item: positions only
grow, so an item that overshoots cannot end where its list must end, nor can the message. Nodes are made afterwards.
"""

import struct
from collections.abc import Callable, Sequence

from wiredecode.dataclasses import dataclass
from wiredecode.protocols.shared.amqp.constructors import (
    BY_DESCRIPTOR,
    CONSTRUCTORS,
    MAX_DEPTH,
    MAX_ELEMENTS,
    MAX_ZERO_WIDTH_ELEMENTS,
    Category,
    Constructor,
    Json,
    NotAmqpError,
    Scalar,
    Section,
    Show,
    field_name,
    key_text,
    unused_key,
)

State = list[int]
"""Elements left, and of them those without width."""
_Reader = Callable[[bytes, int, Show, int, State], tuple[Json, int]]
"""(message, position of the payload, show, levels left, state) -> (value, position after it)."""
LEFT, ZERO_WIDTH_LEFT = range(2)
DAMAGE = (NotAmqpError, IndexError, struct.error)


@dataclass(slots=True)
class AmqpNode:
    """One value. ``data[start:end]`` are its bytes, constructor included (array elements have none of their
    own).

    ``children``: items of a list; key, value, key, value ... of a map; descriptor and value of a described
    value; constructor and then elements of an array (a constructor that is described has descriptor and
    constructor). Values of maps are named after their key, items of header and properties after their field.
    """

    name: str
    code: int
    value: Scalar = None
    """Value of a scalar, else None. Timestamps are integers (ms), uuids and chars text."""
    start: int = 0
    end: int = 0
    children: "Sequence[AmqpNode]" = ()

    @property
    def constructor(self) -> Constructor:
        """The row of ``CONSTRUCTORS`` for the code. ValueError for a code that does not exist."""
        constructor = CONSTRUCTORS[self.code]
        if constructor is None:
            raise ValueError(f"no AMQP constructor {self.code:#04x}")
        return constructor

    @property
    def type(self) -> str:
        """AMQP type, e.g. "ulong"."""
        return self.constructor.type

    @property
    def encoding(self) -> str:
        """The standard's name of the encoding, e.g. "smallulong", "str8-utf8", "map8"."""
        return self.constructor.encoding

    @property
    def is_scalar(self) -> bool:
        """Fixed or variable width: a value and no children."""
        return self.constructor.category in (Category.FIXED, Category.VARIABLE)


def record(data: bytes, show: Show) -> dict[str, Json] | None:
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
        return _sections(data, show, MAX_DEPTH, [MAX_ELEMENTS, MAX_ZERO_WIDTH_ELEMENTS])
    except DAMAGE:
        return None


def message(data: bytes) -> list[AmqpNode] | None:
    """The sections of an AMQP 1.0 message, in order, or None; children of a section: descriptor and value."""
    if record(data, bytes.hex) is None:
        return None
    nodes: list[AmqpNode] = []
    while not nodes or nodes[-1].end < len(data):
        node = _node("", data, nodes[-1].end if nodes else 0)
        descriptor, value = node.children
        section = BY_DESCRIPTOR[descriptor.value]  # type: ignore[index]
        node.name = value.name = section.name
        for index, child in enumerate(value.children if section.fields else ()):
            child.name = field_name(section, index)
        nodes.append(node)
    return nodes


def plain(node: AmqpNode, show: Show) -> Json:
    """The value of a scalar as ``record`` gives it."""
    row = node.constructor
    return row.plain(node.value, show) if row.plain else node.value


def _sections(data: bytes, show: Show, depth: int, state: State) -> dict[str, Json]:
    result: dict[str, Json] = {}
    previous: Section | None = None
    position, rank, size = 0, -1, len(data)
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
        state[LEFT] -= 1
        if code not in section.codes or state[LEFT] < 0:
            raise NotAmqpError
        if section.fields:
            result[section.name], position = _fields(data, position, section, show, depth, state)
            continue
        value, position = VALUES[code](data, position + 1, show, depth, state)
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
        key, end = VALUES[code](data, position + 1, bytes.hex, 0, [0, 0])
    else:
        raise NotAmqpError
    return BY_DESCRIPTOR.get(key), end


def _fields(
    data: bytes, position: int, section: Section, show: Show, depth: int, state: State
) -> tuple[dict[str, Json], int]:
    """Header and properties: the set items of a list under the names of its fields."""
    code = data[position]
    if code == 0x45:
        if depth <= 0:
            raise NotAmqpError
        return {}, position + 1
    count, position, end = _open(data, position + 1, 4 if code & 0x10 else 1, depth, state)
    if count > end - position:
        raise NotAmqpError
    depth -= 1
    fields: dict[str, Json] = {}
    names, named = section.fields, len(section.fields)
    for index in range(count):
        code = data[position]
        if code == 0x40:
            position += 1
            continue
        name = names[index] if index < named else field_name(section, index)
        if code == 0xA1 or code == 0xA3:  # most fields: worth the call saved
            start = position + 2
            position = start + data[position + 1]
            fields[name] = data[start:position].decode("utf-8", "backslashreplace")
        else:
            fields[name], position = VALUES[code](data, position + 1, show, depth, state)
    if position != end:
        raise NotAmqpError
    return fields, end


def _open(data: bytes, position: int, width: int, depth: int, state: State) -> tuple[int, int, int]:
    """Size and count of a list, map or array: (count, position of what follows, end)."""
    items = position + 2 * width
    if width == 1:
        end, count = position + 1 + data[position], data[position + 1]
    else:
        middle = position + 4
        end = middle + int.from_bytes(data[position:middle], "big")
        count = int.from_bytes(data[middle:items], "big")
    remaining = state[LEFT] = state[LEFT] - count
    if depth <= 0 or remaining < 0 or items > end or end > len(data):
        raise NotAmqpError
    return count, items, end


def _list_reader(width: int) -> _Reader:
    def read(data: bytes, position: int, show: Show, depth: int, state: State) -> tuple[Json, int]:
        count, position, end = _open(data, position, width, depth, state)
        if count > end - position:
            raise NotAmqpError
        depth -= 1
        items = []
        for _ in range(count):
            item, position = VALUES[data[position]](data, position + 1, show, depth, state)
            items.append(item)
        if position != end:
            raise NotAmqpError
        return items, end

    return read


def _empty_list(data: bytes, position: int, show: Show, depth: int, state: State) -> tuple[Json, int]:
    if depth <= 0:
        raise NotAmqpError
    return [], position


def _map_reader(width: int) -> _Reader:
    def read(data: bytes, position: int, show: Show, depth: int, state: State) -> tuple[Json, int]:
        count, position, end = _open(data, position, width, depth, state)
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
                plain, position = VALUES[code](data, position + 1, show, depth, state)
                compound = isinstance(plain, list | dict)
                key = show(data[start:position]) if compound else key_text(plain)
            if key in entries:
                key = unused_key(key, index, entries)
            entries[key], position = VALUES[data[position]](data, position + 1, show, depth, state)
        if position != end:
            raise NotAmqpError
        return entries, end

    return read


def _array_reader(width: int) -> _Reader:
    def read(data: bytes, position: int, show: Show, depth: int, state: State) -> tuple[Json, int]:
        count, position, end = _open(data, position, width, depth, state)
        if position == end and not count:  # some encoders leave out the constructor of an empty array
            return [], end
        descriptors = []
        while not (code := data[position]):
            depth -= 1
            if depth <= 0:
                raise NotAmqpError
            descriptor, position = VALUES[data[position + 1]](data, position + 2, show, depth - 1, state)
            descriptors.append(descriptor)
        constructor = CONSTRUCTORS[code]
        if constructor is None:
            raise NotAmqpError
        position += 1
        item_width = constructor.width
        if not item_width:
            state[ZERO_WIDTH_LEFT] -= count
        if state[ZERO_WIDTH_LEFT] < 0 or count * item_width > end - position:
            raise NotAmqpError
        reader = VALUES[code]
        value: Json = []
        for _ in range(count):
            item, position = reader(data, position, show, depth - 1, state)
            value.append(item)
        if position != end:
            raise NotAmqpError
        for descriptor in reversed(descriptors):
            value = {"descriptor": descriptor, "value": value}
        return value, end

    return read


def _read_described(data: bytes, position: int, show: Show, depth: int, state: State) -> tuple[Json, int]:
    if depth <= 0:
        raise NotAmqpError
    descriptor, position = VALUES[data[position]](data, position + 1, show, depth - 1, state)
    value, position = VALUES[data[position]](data, position + 1, show, depth - 1, state)
    return {"descriptor": descriptor, "value": value}, position


def _no_constructor(data: bytes, position: int, show: Show, depth: int, state: State) -> tuple[Json, int]:
    raise NotAmqpError


def _fixed_reader(constructor: Constructor) -> _Reader:
    width, decode, plain = constructor.width, constructor.decode, constructor.plain

    def read(data: bytes, position: int, show: Show, depth: int, state: State) -> tuple[Json, int]:
        end = position + width
        value = decode(data[position:end])
        return plain(value, show) if plain else value, end

    return read


def _variable_reader(constructor: Constructor) -> _Reader:
    """Text where the table has no ``plain`` form for it, else bytes."""
    width, text = constructor.width, constructor.plain is None

    def short_text(data: bytes, position: int, show: Show, depth: int, state: State) -> tuple[Json, int]:
        start = position + 1
        end = start + data[position]
        return data[start:end].decode("utf-8", "backslashreplace"), end

    def short_bytes(data: bytes, position: int, show: Show, depth: int, state: State) -> tuple[Json, int]:
        start = position + 1
        end = start + data[position]
        return show(data[start:end]), end

    def read(data: bytes, position: int, show: Show, depth: int, state: State) -> tuple[Json, int]:
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
    return _read_described


VALUES: list[_Reader] = [_reader(each) for each in CONSTRUCTORS]


# Nodes, of bytes that were read before: nothing is checked again.


def _node(name: str, data: bytes, position: int) -> AmqpNode:
    """The value whose constructor is at the position."""
    return _payload(name, data[position], data, position, position + 1)


def _payload(name: str, code: int, data: bytes, start: int, position: int) -> AmqpNode:
    """The value of that code whose payload is at the position."""
    node = AmqpNode(name, code, None, start)
    row = node.constructor
    first, width = position + row.width, row.width
    match row.category:
        case Category.FIXED:
            node.value, node.end = row.decode(data[position:first]), first
        case Category.VARIABLE:
            node.end = first + int.from_bytes(data[position:first])
            node.value = row.decode(data[first : node.end])
        case Category.DESCRIBED:
            descriptor = _node("descriptor", data, position)
            node.children = descriptor, _node("value", data, descriptor.end)
            node.end = node.children[1].end
        case _:
            node.end = first + int.from_bytes(data[position:first])
            count, position = int.from_bytes(data[first : first + width]), first + width
            if row.category is Category.ARRAY:
                node.children = _elements(data, position, count) if position < node.end else ()
            else:
                node.children = _items(data, position, count, row.category is Category.MAP)
    return node


def _items(data: bytes, position: int, count: int, is_map: bool) -> Sequence[AmqpNode]:
    """Items of a list, by index; of a map keys and values, both named by the key."""
    nodes: list[AmqpNode] = []
    for index in range(count):
        name = f"[{index}]"
        if is_map:
            name = _key_name(data, nodes[-1]) if index & 1 else "key"
        nodes.append(_node(name, data, position))
        position = nodes[-1].end
    return nodes


def _key_name(data: bytes, key: AmqpNode) -> str:
    return key_text(plain(key, bytes.hex)) if key.is_scalar else data[key.start : key.end].hex()


def _elements(data: bytes, position: int, count: int) -> Sequence[AmqpNode]:
    """The constructor of an array, and its elements, which have none of their own."""
    nodes = [_array_constructor(data, position)]
    code = data[nodes[0].end - 1]
    for index in range(count):
        position = nodes[-1].end
        nodes.append(_payload(f"[{index}]", code, data, position, position))
    return nodes


def _array_constructor(data: bytes, position: int) -> AmqpNode:
    if data[position]:
        return AmqpNode("constructor", data[position], None, position, position + 1)
    descriptor = _node("descriptor", data, position + 1)
    inner = _array_constructor(data, descriptor.end)
    return AmqpNode("constructor", 0, None, position, inner.end, (descriptor, inner))
