"""Compares all readers that are made of one declaration: they return the same for the same bytes, valid or not.

The reference is Scapy's reader, by itself and inside a buffer. Compared with it are the compiled decoders ``head``,
``walk``, ``values``, ``record`` and ``both``. Well-formed frames are built again to their bytes.
"""

from collections.abc import Iterable, Mapping
from typing import Any

from wiredecode.fields import Array, Kind, Number, Struct, compiler, plain
from wiredecode.fields.layer import Layer
from wiredecode.testing.dissection import STYLE

Places = Mapping[str, int]
FRONT, BACK = b"\xfe\xff~", b"~\xff\xfe"
"""Bytes before and after a frame in its buffer."""


def same(got: object, expected: object, aspect: str, layer: type[Layer], raw: bytes) -> None:
    """Raise ``AssertionError`` that names the reader, the layer and the bytes."""
    difference = f"{layer.__name__}: {aspect}: {got!r} is not {expected!r}, of {raw.hex()}" if got != expected else ""
    assert not difference or repr(got) == repr(expected), difference  # NaN is not equal to itself


def readers_agree(
    layer: type[Layer], raw: bytes, *, leaves: bool = False, steps: bool = False, damaged: bool = False
) -> bool:
    """Compare all readers of single frames; return whether the bytes are well-formed.

    ``leaves``: the fast decoders may leave unusual spellings, as of text, to the careful one.
    ``steps``: decoders that skip elements do so by their sizes alone, and do not notice errors inside.
    ``damaged``: numbers may have more bytes than they need, as a varint can: built again they are shorter.
    """
    packet = layer(raw) if raw and not damaged else layer.within(raw, 0, len(raw))  # a Scapy packet takes long
    decoded = compiler.careful(layer, FRONT + raw + BACK, len(FRONT), len(FRONT) + len(raw))
    same(decoded.values, packet.values(), "careful values", layer, raw)
    same(decoded.ranges, packet.flat_ranges(), "careful ranges", layer, raw)
    shown = layer.present(decoded.values, STYLE)
    problem, expected = decoded.problem, packet.problem
    same(problem and problem.args, expected and expected.args, "the problem found", layer, raw)
    if problem is not None:
        _all_fail(layer, raw, ("record", "values") if steps else ("record", "values", "walk"))
        return False
    same(decoded.stop, packet.stop, "where careful stops", layer, raw)
    if packet.stop == len(raw):
        built = bytes(packet)
        if not damaged or len(built) >= len(raw) or layer(built).values() != packet.values():
            same(built, raw, "what is built again", layer, raw)
    _fast_agree(layer, raw, decoded, shown, leaves)
    return True


def _all_fail(layer: type[Layer], raw: bytes, modes: Iterable[str]) -> None:
    """Also where bytes of other frames follow."""
    decoders = {compiler.decoder(layer, mode, STYLE if mode == "record" else None): mode for mode in modes}
    decoders[compiler.both(layer, STYLE)] = "both"
    for decode, mode in decoders.items():
        try:
            decode(raw, 0, len(raw))
        except compiler.FAILED:
            try:
                decode(raw + BACK * 8, 0, len(raw))
            except compiler.FAILED:
                continue
        raise AssertionError(f"{layer.__name__}: {mode} reads what is malformed: {raw.hex()}")


def _fast_agree(
    layer: type[Layer], raw: bytes, decoded: compiler.Decoded, shown: Mapping[str, Any], leaves: bool
) -> None:
    """The fast decoders on a well-formed frame; text that is not UTF-8 they leave to the careful one."""
    buffer, start, stop = FRONT + raw + BACK, len(FRONT), len(FRONT) + len(raw)
    try:
        record, reached = compiler.record(layer, buffer, start, stop, STYLE)
        walked = compiler.walk(layer, buffer, start, stop)
        values = compiler.decoder(layer, "values")(buffer, start, stop)
    except UnicodeDecodeError:
        return
    except compiler.FAILED:
        if leaves:
            return
        raise
    end = start + decoded.stop
    places = {path: start + first for path, (first, _) in decoded.ranges.items()}
    same((record, list(record), reached), (shown, list(shown), end), "the record", layer, raw)
    written = decoded.without_defaults()
    same(values, (written, end), "the values", layer, raw)
    *both, reached = compiler.both(layer, STYLE)(buffer, start, stop)
    same((both, reached), ([compiler.head(layer, buffer, start, stop), shown], end), "both", layer, raw)
    if compiler.decoder(layer, "head") is compiler.decoder(layer, "walk") is compiler.decoder(layer, "values"):
        return
    _notes_agree(layer, written, walked[0], places)
    same(walked, (count_bulk(layer, written, walked[0]), end), "walk", layer, raw)
    head = compiler.head(layer, buffer, start, stop)
    same(head, common(head, count_bulk(layer, written, head, head=True)), "head", layer, raw)


def _notes_agree(layer: type[Layer], written: Mapping[str, Any], walked: dict[str, Any], positions: Places) -> None:
    """Remove from values what a walk notes of elements, their numbers and marks, after comparing with the elements."""
    marks, numbers = _take("marked", walked), _take("numbers", walked)
    if marks is not None:
        same(marks, _mark(layer, written, positions), "marks", layer, b"")
    if numbers is not None:
        same(numbers, _numbers(layer, written), "numbers", layer, b"")


def _take(name: str, values: dict[str, Any]) -> Any:
    inner = [value for value in values.values() if isinstance(value, dict)]
    return next((one.pop(name) for one in (values, *inner) if name in one), None)


def _mark(layer: type[Layer], values: Mapping[str, Any], positions: Places, prefix: str = "") -> Any:
    """The expected marks, from the elements: index and place of those that have the field."""
    for kind in map(plain, layer.fields_desc):
        value, path = values.get(kind.name), prefix + kind.name
        if isinstance(kind, Struct) and value is not None:
            mark = _mark(kind.layer, value, positions, f"{path}.")
            if mark is not None:
                return mark
        elif isinstance(kind, Array) and isinstance(kind.element, Struct) and value is not None:
            name = kind.element.layer.marked_by
            if name:
                marked = (index for index, each in enumerate(value) if name in each)
                return [(index, positions[f"{path}[{index}].{name}"]) for index in marked]
    return None


def _numbers(layer: type[Layer], values: Mapping[str, Any]) -> Any:
    """The elements of a bulk array of numbers; of others the numbers that do not go up by one, with the index."""
    for kind in map(plain, layer.fields_desc):
        if not (isinstance(kind, Array) and kind.bulk):
            continue
        if isinstance(kind.element, Struct) and (number := kind.element.layer.numbered_by):
            numbers = [each[number] for each in values[kind.name]]
            return [(at, numbers[at]) for at in range(len(numbers)) if not at or numbers[at] != numbers[at - 1] + 1]
        if isinstance(kind.element, Number):
            return tuple(values[kind.name])
    return None


def common(part: Any, whole: Any) -> Any:
    """Parts of ``whole`` that ``part`` has, in structures and their arrays too."""
    if isinstance(part, dict) and isinstance(whole, dict):
        return {name: common(value, whole[name]) for name, value in part.items() if name in whole}
    if isinstance(part, list) and isinstance(whole, list) and len(part) == len(whole):
        return [common(*pair) for pair in zip(part, whole, strict=True)]
    return whole


def count_bulk(layer: type[Layer], values: Mapping[str, Any], walked: Mapping[str, Any], *, head: bool = False) -> Any:
    """Values as ``walk`` or ``head`` gives them: of bulk arrays the number of elements.

    ``walked``: what was given; arrays that generate code of their own may give the elements or their number.
    """
    counted = dict(values)
    for kind in map(plain, layer.fields_desc):
        value, bulk_value = values.get(kind.name), walked.get(kind.name)
        if value is None:
            continue
        if head and _generates(kind) and isinstance(bulk_value, int):
            counted[kind.name] = bulk_value  # the number announced, of which fewer may be there
            continue
        inner = kind.element.layer if isinstance(kind, Array) and isinstance(kind.element, Struct) else None
        own = _generates(kind)
        if isinstance(kind, Struct) and isinstance(bulk_value, dict):
            counted[kind.name] = count_bulk(kind.layer, value, bulk_value, head=head)
        elif isinstance(kind, Array) and (kind.bulk if not own else not isinstance(bulk_value, list)):
            counted[kind.name] = len(value)
        elif inner is not None and isinstance(bulk_value, list) and len(bulk_value) == len(value):
            pairs = zip(value, bulk_value, strict=True)
            counted[kind.name] = [count_bulk(inner, *pair, head=head) for pair in pairs]
    return counted


def _generates(kind: Kind) -> bool:
    return type(kind).emit not in (Struct.emit, Array.emit) and isinstance(kind, Struct | Array)
