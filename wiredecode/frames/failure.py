"""A bug of wiredecode itself while it read or showed one frame: the frame keeps its bytes, decoding continues."""

import traceback
from pathlib import Path

from wiredecode.frames.frame import NOTHING, Finding, Frame

GROUP = CODE = "internal"
ROOM = str(Path(__file__).parents[1])


def failure(error: Exception, doing: str = "read") -> Finding:
    """Describe an exception and its place, without bytes of the wire. Raises ``error`` if no memory is left."""
    if isinstance(error, MemoryError):
        raise error
    passed = traceback.extract_tb(error.__traceback__)
    ours = [each for each in passed if each.filename.startswith(ROOM)]
    places = [f"{Path(each.filename).relative_to(ROOM)}:{each.lineno}" for each in ours[-1:]]
    if (last := passed[-1]) not in ours:  # of another package, which may have added the protocol
        places.append(f"{'/'.join(Path(last.filename).parts[-2:])}:{last.lineno}")
    place = f" ({', '.join(places)})"
    message = f"wiredecode could not {doing} this: {type(error).__name__}{place}; please report it"
    return Finding("error", GROUP, CODE, message)


def strip(frame: Frame, error: Exception, doing: str = "read") -> Finding:
    """Take back what was read of ``frame``, so that only its bytes are shown; add and return the finding."""
    found = failure(error, doing)
    frame.layer, frame.inner = None, ()
    frame.values = frame.generated = NOTHING
    frame.layers = None if frame.layers is None else {}
    frame.findings = [*frame.findings, found]
    return found
