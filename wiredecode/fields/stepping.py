"""Small things that the emitter needs to step over arrays fast."""

from __future__ import annotations

import copy
import re
from collections import Counter

from wiredecode.fields import Array, Kind, Number, Sized, Struct

STEP_OVER = re.compile(r"^( +)q = p \+ (\w+)\n\1if q > e: raise Cut\n\1p = q\n", re.MULTILINE)
STEP_ON = re.compile(r"^( +p = q)\n +p \+=( \w+)$", re.MULTILINE)
CHECKED = r"^( +)q = p \+ (\d+)\n\1if q > e: raise Cut\n\1((?:\w+, )*(\w+), = \w+\(b, p\))\n"
LENGTH_ON = re.compile(CHECKED + r"\1p = q \+ \4$", re.MULTILINE)
LENGTH = re.compile(CHECKED + r"\1p = q\n\1q = p \+ \4$", re.MULTILINE)
"""A length that is read and then checked: one check does, for it is never negative."""
ASKED = re.compile(r"^( +)(has_\w+) = (.*)\n\1if \2:$", re.MULTILINE)
"""A field that is there under a condition; others may ask for it, too."""
EITHER = re.compile(
    r"^( +)if .*:  # (\d+) (\d+)\n((?:\1 .*\n)+)\1else:\n\1    ((?:\w+, )*(\w+), = \w+\(b, p\)\n)", re.MULTILINE
)
"""The next byte chooses, and is the first one of a length, as the comment says: reading the length first is faster."""
BIT = re.compile(r"if \(?(\w+) & (\d+)\)? == (\d+):$", re.MULTILINE)


def first_of_length(kind: Kind, mask: int, value: int) -> str:
    """A comment for a condition on the next byte, which ``kind`` begins with: what it means for the length there."""
    length = kind.length if isinstance(kind, Sized) and kind.null is None else None
    if not isinstance(length, Number) or length.order != ">" or len(length.fixed or "") != 1:
        return ""
    bits = 8 * (length.width - 1)
    return f"  # {mask << bits} {value << bits}"


def tightened(code: str) -> str:
    """The same with fewer operations where bytes are stepped over that nothing looks at, and lengths are read.

    A condition that only one field asks for needs no variable. Lengths may be read behind the end of the frame, and
    then the check fails; behind that of the buffer ``error`` does.
    """
    uses = Counter(re.findall(r"\bhas_\w+", code))
    code = ASKED.sub(lambda found: f"{found[1]}if {found[3]}:" if uses[found[2]] == 2 else found[0], code)
    code = STEP_ON.sub(r"\1 +\2", STEP_OVER.sub(r"\1p += \2\n\1if p > e: raise Cut\n", code))
    code = LENGTH.sub(r"\1\3\n\1p += \2\n\1q = p + \4", LENGTH_ON.sub(r"\1\3\n\1p += \2 + \4", code))
    return BIT.sub(_bit, EITHER.sub(r"\1\5\1if \6 & \2 == \3:\n\4\1else:\n", code))


def _bit(found: re.Match[str]) -> str:
    """Whether one bit is set, or none of some, without a comparison."""
    value, mask, wanted = found[1], int(found[2]), int(found[3])
    if not wanted:
        return f"if not {value} & {mask}:"
    return f"if {value} & {mask}:" if wanted == mask and mask.bit_count() == 1 else found[0]


def note_number(index: str, number: str) -> tuple[str, str]:
    """Code that notes the number of an element, where it is not one more than that of the element before."""
    return f"if {number} != following: numbers.append(({index}, {number}))", f"following = {number} + 1"


def note_mark(kind: Array, index: str) -> str:
    """Code that notes that an element of an array is marked, and where; "": its elements have no mark."""
    marked = isinstance(kind.element, Struct) and kind.element.layer.marked_by
    return f"marked.append(({index}, p))" if marked else ""


def unnamed(element: Kind) -> Kind:
    """A copy without a name of its own: the path of an element ends with its index."""
    element = copy.copy(element)
    element.name = ""
    if isinstance(element, Sized) and isinstance(element.length, Number):
        element.length = copy.copy(element.length)
        element.length.name = ""
    return element
