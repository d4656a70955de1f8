"""Maps in frames that cannot be read to their end."""

from collections.abc import Iterable

from wiredecode.fields.maps import Map
from wiredecode.frames.frame import MALFORMED, Frame


def report_maps(frame: Frame, kinds: Iterable[Map]) -> None:
    """Add a finding for each of these fields of a decoded frame that is no map."""
    shown = frame.layers[frame.layer.filter_name] if frame.layers and frame.layer is not None else {}
    for kind in kinds:
        raw = frame.values.get(kind.name)
        if raw and not isinstance(shown.get(kind.name), dict) and (problem := kind.problem(raw)):
            frame.status = MALFORMED if not frame.is_partial else frame.status
            frame.find("error", "malformed", "table-unfit", f"{kind.name}: {problem}", kind.name)
