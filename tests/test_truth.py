"""The captures of the repository agree with the accounts of client and broker."""

from __future__ import annotations

import copy
import json
from pathlib import Path
from typing import Any

import pytest

from tests import truth
from tests.protocols import truth_rabbitmq
from tests.support import RABBITMQ, capture_files

PAIRS = list(truth.pairs(RABBITMQ))


def test_every_capture_has_its_truth() -> None:
    """Except those of RabbitMQ 3.10, whose client wrote no account."""
    assert [path for path, _ in PAIRS] == [path for path in capture_files() if not path.name.startswith("c310")]


@pytest.mark.parametrize(("path", "truth_path"), PAIRS, ids=[path.name for path, _ in PAIRS])
def test_rabbitmq_capture(path: Path, truth_path: Path) -> None:
    assert truth.compare(path, truth_path, truth_rabbitmq.check) == []


def spoiled(kind: str) -> dict[str, Any]:
    """The truth of c43_basic with one lie in it."""
    truth: dict[str, Any] = json.loads((RABBITMQ / "c43_basic.truth.json").read_text())
    frames = truth["connections"][0]["frames"]
    if kind == "field":
        frames[0]["fields"]["correlation_id"] += 1
    elif kind == "missing frame":
        frames.append(copy.deepcopy(frames[-1]))
    elif kind == "order":
        both = [index for index, frame in enumerate(frames) if frame["dir"] == "c2s"][:2]
        frames[both[0]], frames[both[1]] = frames[both[1]], frames[both[0]]
    for event in truth["events"]:
        if kind == "body" and event["event"] == "published":
            event["messages"][0]["sha256"] = "0" * 64
        if kind == "offset" and event["event"] == "consumed":
            event["messages"][0]["offset"] += 1
        if kind == "confirm" and event["event"] == "published":
            event["confirmations"][0] = 10**6
    if kind == "error":
        truth["events"].append({"event": "x", "error": "X", "code": 16})
    return truth


@pytest.mark.parametrize("kind", ["field", "missing frame", "order", "body", "offset", "confirm", "error"])
def test_a_changed_truth_is_noticed(kind: str) -> None:
    assert truth_rabbitmq.check(RABBITMQ / "c43_basic.pcap", spoiled(kind))
