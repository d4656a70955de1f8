"""Publish frames and what answers them: PublishConfirm and PublishError name publishing ids of a publisher."""

from __future__ import annotations

from typing import Any

from wiredecode.frames.frame import OK, Frame
from wiredecode.protocols.rabbitmq_stream import names
from wiredecode.protocols.shared.publications import Numbers, Publications, runs_of


class Publishing:
    """What one connection published and nobody confirmed or refused so far."""

    def __init__(self) -> None:
        self._waiting = Publications()

    def publish(self, frame: Frame) -> None:
        runs = published(frame)
        if runs:
            self._waiting.publish(frame, frame.values["publisher_id"], runs, whole=frame.status == OK)

    def confirm(self, frame: Frame) -> None:
        runs = confirmed(frame)
        if runs:
            self._waiting.confirm(frame, frame.values["publisher_id"], runs)

    def refuse(self, frame: Frame) -> None:
        """A PublishError."""
        by_code: dict[int, list[int]] = {}
        for error in frame.values.get("errors") or ():
            if len(error) == 2:
                by_code.setdefault(error["response_code"], []).append(error["publishing_id"])
        for code, numbers in by_code.items():
            self._waiting.confirm(frame, frame.values["publisher_id"], runs_of(numbers), refusal_of(code))
        if by_code:
            count = sum(map(len, by_code.values()))
            message = f"{count} messages were not published: {', '.join(sorted(map(refusal_of, by_code)))}"
            frame.find("warning", "response", "publish-error", message, "errors")

    def end(self, publisher: int) -> None:
        """A publisher was deleted."""
        self._waiting.end(publisher)


def refusal_of(code: int) -> str:
    return names.RESPONSE_CODES.get(code, f"code {code}")


def published(frame: Frame) -> list[Numbers]:
    """The publishing ids of a Publish that were captured."""
    values: Any = frame.values
    jumps = values.pop("numbers", None)
    if jumps is None:
        return runs_of(_listed(frame, "messages"))
    if not jumps:
        return []  # a publish of no messages
    messages = values["messages"]
    ends = [*(index for index, _ in jumps[1:]), messages if isinstance(messages, int) else len(messages)]
    return [(low, low + end - index) for (index, low), end in zip(jumps, ends, strict=True)]


def confirmed(frame: Frame) -> list[Numbers]:
    """The publishing ids of a PublishConfirm that were captured."""
    numbers: Any = frame.values.pop("numbers", None)  # type: ignore[attr-defined]
    return runs_of(_listed(frame, "publishing_ids") if numbers is None else numbers)


def _listed(frame: Frame, name: str) -> list[int]:
    """Those of a frame that was not read for its numbers: out of its record, or what is whole of a damaged one."""
    found: Any = frame.values.get(name)
    if isinstance(found, int) and frame.layers:
        found = next(iter(frame.layers.values())).get(name)
    if not isinstance(found, list) or "publisher_id" not in frame.values:
        return []
    numbers = (each.get("publishing_id") if isinstance(each, dict) else each for each in found)
    return [number for number in numbers if number is not None]
