"""``check -n`` and ``-Y``: the problems of some connections."""

from __future__ import annotations

import json

from tests.cli.conftest import Run, run
from tests.support import RABBITMQ

__all__ = ["run"]

REFUSED = RABBITMQ.parent / "nats/02-auth.pcap"
"""Connections 2, 4, 5, 6 and 8 are refused."""


def told(run: Run, *words: object) -> list[dict[str, object]]:
    return [json.loads(line) for line in run("check", REFUSED, "--json", "-q", *words).lines]


def test_problems_of_one_connection(run: Run) -> None:
    everything = told(run)[:-1]
    for number in range(1, 9):
        wanted = [each for each in everything if number in reach(each)]
        *found, verdict = told(run, "-n", number)
        assert found == wanted and "verdict" in verdict
    assert run("check", REFUSED, "-n", 2, "-q", "--fail-on", "error").code == 1
    assert run("check", REFUSED, "-n", 1, "-q", "--fail-on", "error").code == 0
    missing = run("check", REFUSED, "-n", 99, "-q")
    assert missing.code == 1 and "no connection matches" in missing.err


def reach(problem: dict[str, object]) -> set[int]:
    connections = problem["connections"]
    assert isinstance(connections, list)
    return {each["connection"] for each in connections}


def test_problems_of_connections_with_a_frame_that_matches(run: Run) -> None:
    *found, _ = told(run, "-Y", 'frame.type == "CONNECT" && nats.options.name == "alice bad"')
    assert found and all(2 in reach(each) for each in found)
    *both, _ = told(run, "-n", 4, "-Y", 'nats.options.name == "alice bad"')
    assert not both and run("check", REFUSED, "-n", 4, "-Y", 'nats.options.name == "alice bad"').code == 1
