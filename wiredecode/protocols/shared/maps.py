"""Maps in frames that cannot be read to their end."""

from wiredecode.fields.maps import Map
from wiredecode.frames.frame import MALFORMED, Frame


def report_map(frame: Frame, kind: Map, raw: bytes) -> None:
    """Add a finding if a field of a decoded frame, with the bytes ``raw``, is no map."""
    shown = frame.layers[frame.layer.filter_name] if frame.layers and frame.layer is not None else {}
    if not isinstance(shown.get(kind.name), dict) and (problem := kind.problem(raw)):
        frame.status = MALFORMED if not frame.is_partial else frame.status
        frame.find("error", "malformed", "table-unfit", f"{kind.name}: {problem}", kind.name)
