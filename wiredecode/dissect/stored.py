"""State of a dissection as data: what waits between two runs, stored as JSON and bytes.

A state is a graph of objects: dissector, connections, conversations, open requests. Each becomes a node with its kind
and contents; nodes refer to each other by number. :func:`load` creates objects of wiredecode's own packages and sets
their attributes; it calls no function of the state's choice but those that are marked as
:func:`wiredecode.data.storable`, and no ``__init__``. Which packages may be named: :func:`is_permitted`.
"""

from __future__ import annotations

import json
from array import array
from collections import Counter, OrderedDict, defaultdict, deque
from collections.abc import Callable, Iterable, Mapping
from functools import cache
from importlib import import_module
from operator import attrgetter
from types import MethodDescriptorType, MethodType
from typing import Any

import numpy as np

from wiredecode.protocols import registry

PACKAGES = ("capture.batch", "dissect", "fields", "frames", "net", "protocols", "tls")
"""The packages and modules of wiredecode whose classes and functions a state may name."""
HASHES = "cryptography.hazmat.primitives.hashes"
"""Its classes are named by cipher suites."""
STYLES = {"bytes": bytes, "bytes.hex": bytes.hex}
"""Built-in functions that styles of records name."""
PLAIN = (bool, int, str, float, type(None))
SEQUENCES: dict[type, str] = {list: "list", tuple: "tuple", set: "set", frozenset: "frozenset", deque: "deque"}
VALUES = (str, int, bytes)
"""Of these there are subclasses, as a text that is encoded otherwise."""
MAPPINGS = (OrderedDict, Counter, defaultdict, dict)
Fill = Callable[[Any, int], Any]


class NotStorable(TypeError):
    """An object that a state cannot hold, or a name that it must not have; ``str()`` is one line."""


@cache
def packages() -> frozenset[str]:
    """Packages outside of wiredecode that have protocols."""
    added = (entry.load() for entry in registry.protocol_entries()) if registry.has_added() else ()
    return frozenset(type(each).__module__.partition(".")[0] for each in (*added, *registry.carried_protocols()))


def is_permitted(module: str) -> bool:
    """Whether a state may name something in a module."""
    if module == HASHES:
        return True
    first, _, rest = module.partition(".")
    if first == "wiredecode":
        return any(rest == each or rest.startswith(f"{each}.") for each in PACKAGES)
    return first in packages()


def name_of(item: Any) -> str:
    """The name of a class, of a function, or of an object that a module has under the name."""
    path: str = item.__qualname__
    module = getattr(item, "__module__", "")
    if STYLES.get(path) is item:
        return path
    if not is_permitted(module):
        raise NotStorable(f"a state cannot name {path} of {module}")
    return f"{module}:{path}"


@cache
def named(name: str) -> Any:
    """The class, function or object of a name that :func:`name_of` gave. Raises NotStorable."""
    if name in STYLES:
        return STYLES[name]
    module, _, path = name.partition(":")
    try:
        if is_permitted(module):
            found = attrgetter(path)(import_module(module))
            if (getattr(found, "__module__", None), getattr(found, "__qualname__", path)) == (module, path):
                return found
    except (ImportError, AttributeError, ValueError):
        pass
    raise NotStorable(f"there is no {path} in {module} that a state may name")


def marked(function: Any) -> Any:
    """A function, if a state may name it. Raises NotStorable."""
    if not getattr(function, "storable", False):
        raise NotStorable(f"{function!r} is not marked as storable")
    return function


def dump(state: Any) -> tuple[bytes, bytes]:
    """The nodes of a state as JSON, and the bytes that they refer to. Raises NotStorable."""
    writer = StateWriter()
    root = writer.value(state)
    return json.dumps([root, writer.names, writer.nodes], separators=(",", ":")).encode(), b"".join(writer.blobs)


def load(nodes: bytes, blobs: bytes) -> Any:
    """The state of :func:`dump`. Raises NotStorable, and ValueError and the like if it is damaged."""
    root, names, kinds = json.loads(nodes)
    return StateReader(names, kinds, blobs).value(root)


class StateWriter:
    """Turns objects into nodes: lists of a kind and its contents, which are plain values or ``[number of a node]``."""

    def __init__(self) -> None:
        self.nodes: list[Any] = []
        self.names: list[str] = []
        self.blobs: list[bytes] = []
        self._size = 0
        self._numbers: dict[int, int] = {}
        self._names: dict[str, int] = {}
        self._kept: list[Any] = []
        """So that no other object gets the id of one that was written."""

    def value(self, item: Any) -> Any:
        """A plain value, or the reference to its node."""
        if type(item) in PLAIN:
            return item
        if type(item) is MethodType:
            return None  # a callback: the process that continues has its own
        number = self._numbers.get(id(item))
        if number is None:
            number = self._numbers[id(item)] = len(self.nodes)
            self._kept.append(item)
            self.nodes.append(None)
            self.nodes[number] = self._node(item)
        return [number]

    def _values(self, items: Iterable[Any]) -> list[Any]:
        return [self.value(item) for item in items]

    def _name(self, item: Any) -> int:
        name = name_of(item)
        number = self._names.get(name)
        if number is None:
            number = self._names[name] = len(self.names)
            self.names.append(name)
        return number

    def _blob(self, data: bytes) -> tuple[int, int]:
        start, self._size = self._size, self._size + len(data)
        self.blobs.append(data)
        return start, self._size

    def _node(self, item: Any) -> list[Any]:
        kind = type(item)
        if kind is bytes or kind is bytearray:
            return [kind.__name__, *self._blob(bytes(item))]
        if kind in SEQUENCES:
            most = [item.maxlen] if kind is deque else []
            return [SEQUENCES[kind], *most, *self._values(item)]
        if kind is array:
            return ["array", item.typecode, *self._blob(item.tobytes())]
        if kind is np.ndarray:
            return ["ndarray", item.dtype.str, item.ndim, *item.shape, *self._blob(item.tobytes())]
        if kind is range:
            return ["range", item.start, item.stop, item.step]
        if isinstance(item, type):
            return self._class(item)
        if kind is MethodDescriptorType or hasattr(item, "storable"):
            return ["name", self._name(item)]
        return self._object(item)

    def _class(self, item: type) -> list[Any]:
        made = item.__dict__.get("remade")
        return ["name", self._name(item)] if made is None else self._call(*made)

    def _call(self, function: Any, arguments: Iterable[Any], state: Any = None) -> list[Any]:
        """A node for the result of a function of the program."""
        if isinstance(function, type):
            raise NotStorable(f"{function.__qualname__} is made by its class: a state needs a storable function")
        return ["call", self._name(marked(function)), self.value(state), *self._values(arguments)]

    def _object(self, item: Any) -> list[Any]:
        reduced = item.__reduce_ex__(4)
        if isinstance(reduced, str):
            return ["name", self._name_in(type(item).__module__, reduced)]
        function, arguments, state, _, pairs = (*reduced, None, None, None)[:5]
        if getattr(function, "__name__", "") != "__newobj__" and not isinstance(item, MAPPINGS):
            return self._call(function, arguments, state)
        attributes = attributes_of(state)
        name = None if type(item) in MAPPINGS else self._name(type(item))
        if isinstance(item, tuple):
            return ["named tuple", name, *self._values(item)]
        if isinstance(item, VALUES):
            plain: Any = next(each for each in VALUES if isinstance(item, each))
            return ["value", name, self.value(plain(item)), self.value(attributes or None)]
        if isinstance(item, MAPPINGS):
            base = next(each.__name__ for each in MAPPINGS if isinstance(item, each))
            factory = self.value(item.default_factory) if isinstance(item, defaultdict) else None
            keys_and_values = self._values(each for pair in pairs or item.items() for each in pair)
            return [base, name, factory, self.value(attributes or None), *keys_and_values]
        return ["object", name, *self._values(each for pair in attributes.items() for each in pair)]

    def _name_in(self, module: str, name: str) -> int:
        """The number of the name of an object of which a module has one."""
        key = f"{module}:{name}"
        named(key)
        self._names.setdefault(key, len(self._names))
        if self._names[key] == len(self.names):
            self.names.append(key)
        return self._names[key]


def attributes_of(state: Any) -> dict[str, Any]:
    """The attributes in the state that ``__reduce_ex__`` gives: of a dictionary, slots, or both."""
    parts = state if isinstance(state, tuple) and len(state) == 2 else (state,)
    return {name: value for part in parts if part for name, value in part.items()}


class StateReader:
    """Turns nodes into objects."""

    def __init__(self, names: list[str], nodes: list[Any], blobs: bytes) -> None:
        self._names, self._nodes, self._blobs = names, nodes, blobs
        self._made: dict[int, Any] = {}

    def value(self, item: Any) -> Any:
        """The object of a plain value or reference."""
        if type(item) is not list:
            return item
        (number,) = item
        if number in self._made:
            return self._made[number]
        kind, *content = self._nodes[number]
        made: Any = getattr(self, f"_{kind.replace(' ', '_')}")(number, *content)
        return self._made.setdefault(number, made)

    def _values(self, items: Iterable[Any]) -> list[Any]:
        return [self.value(item) for item in items]

    def _bytes(self, _: int, start: int, stop: int) -> bytes:
        return self._blobs[start:stop]

    def _bytearray(self, _: int, start: int, stop: int) -> bytearray:
        return bytearray(self._blobs[start:stop])

    def _array(self, _: int, code: str, start: int, stop: int) -> array[Any]:
        return array(code, self._blobs[start:stop])

    def _ndarray(self, _: int, dtype: str, dimensions: int, *content: int) -> Any:
        *shape, start, stop = content
        kind = np.dtype(dtype)
        if kind.hasobject or dimensions != len(shape):
            raise NotStorable("an array of a state has numbers only")
        return np.frombuffer(self._blobs[start:stop], kind).reshape(shape).copy()

    def _range(self, _: int, *content: int) -> range:
        return range(*content)

    def _list(self, number: int, *content: Any) -> list[Any]:
        made = self._made[number] = []
        made.extend(self._values(content))
        return made

    def _deque(self, number: int, most: int | None, *content: Any) -> deque[Any]:
        made = self._made[number] = deque[Any](maxlen=most)
        made.extend(self._values(content))
        return made

    def _set(self, number: int, *content: Any) -> set[Any]:
        made = self._made[number] = set()
        made.update(self._values(content))
        return made

    def _tuple(self, _: int, *content: Any) -> tuple[Any, ...]:
        return tuple(self._values(content))

    def _frozenset(self, _: int, *content: Any) -> frozenset[Any]:
        return frozenset(self._values(content))

    def _named_tuple(self, _: int, name: int, *content: Any) -> Any:
        return tuple.__new__(self._class_named(name, tuple), self._values(content))

    def _value(self, _: int, name: int, value: Any, attributes: Any) -> Any:
        plain = self.value(value)
        made = type(plain).__new__(self._class_named(name, type(plain)), plain)
        self._set_attributes(made, self.value(attributes) or {})
        return made

    def _dict(self, number: int, *content: Any) -> Any:
        return self._mapping(number, dict, *content)

    def _OrderedDict(self, number: int, *content: Any) -> Any:  # noqa: N802 - the kind
        return self._mapping(number, OrderedDict, *content)

    def _Counter(self, number: int, *content: Any) -> Any:  # noqa: N802
        return self._mapping(number, Counter, *content)

    def _defaultdict(self, number: int, *content: Any) -> Any:
        return self._mapping(number, defaultdict, *content)

    def _mapping(self, number: int, base: Any, name: int | None, factory: Any, attributes: Any, *items: Any) -> Any:
        kind = base if name is None else self._class_named(name, base)
        made = self._made[number] = base.__new__(kind)
        if base is defaultdict:
            made.default_factory = self.value(factory)
        for key, value in zip(items[::2], items[1::2], strict=True):
            base.__setitem__(made, self.value(key), self.value(value))
        self._set_attributes(made, self.value(attributes) or {})
        return made

    def _object(self, number: int, name: int, *content: Any) -> Any:
        made = self._made[number] = object.__new__(self._class_named(name, object))
        names, values = content[::2], self._values(content[1::2])
        self._set_attributes(made, dict(zip(names, values, strict=True)))
        return made

    @staticmethod
    def _set_attributes(made: Any, attributes: Mapping[str, Any]) -> None:
        for name, value in attributes.items():
            object.__setattr__(made, name, value)

    def _name(self, _: int, name: int) -> Any:
        found = named(self._names[name])
        return found if isinstance(found, type | MethodDescriptorType) or not callable(found) else marked(found)

    def _call(self, number: int, name: int, state: Any, *arguments: Any) -> Any:
        made = self._made[number] = marked(named(self._names[name]))(*self._values(arguments))
        self._set_attributes(made, self.value(state) or {})
        return made

    def _class_named(self, name: int, base: type) -> Any:
        found = named(self._names[name])
        if not (isinstance(found, type) and issubclass(found, base)):
            raise NotStorable(f"{self._names[name]} is no class of that kind")
        return found
