"""Work is in proportion to bytes, whatever they are, and memory does not grow with the capture."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import partial

import pytest

from tests.effort import CONTENTS, PROTOCOLS, Content, after_a_loss, doubles, in_websockets, late, own_contents

Reading = Callable[[bytes], Callable[[], object]]
OWN = 4
"""Messages of a protocol that the fast tests make contents of."""
PORTS = {**{name: entry.ports[0] for name, entry in PROTOCOLS.items()}, "any": 9999}


def own(name: str, most: int | None = OWN) -> dict[str, Content]:
    """Contents made of some messages of a protocol, or of all."""
    return dict(own_contents(PROTOCOLS[name].load(), most))


def growing(read: Reading, contents: Mapping[str, Content]) -> list[str]:
    """The contents for which the work does more than double."""

    def make(content: Content, size: int) -> Callable[[], object]:
        return read(content(size))

    return [name for name, content in contents.items() if not doubles(partial(make, content))]


@pytest.mark.parametrize("name", PROTOCOLS)
def test_the_search_after_a_lost_packet_is_linear(name: str) -> None:
    assert not growing(partial(after_a_loss, name), CONTENTS | own(name))


@pytest.mark.parametrize("side", [0, 1], ids=["client", "server"])
def test_the_search_in_websockets_is_linear(side: int) -> None:
    assert not growing(partial(in_websockets, side), CONTENTS)


@pytest.mark.parametrize("where", ["nats", "any"])
def test_a_late_start_is_linear(where: str) -> None:
    assert not growing(partial(late, PORTS[where]), CONTENTS)


@pytest.mark.slow
@pytest.mark.nightly
@pytest.mark.parametrize("of", PROTOCOLS)
@pytest.mark.parametrize("name", PROTOCOLS)
def test_the_search_is_linear_in_messages_of_all_protocols(name: str, of: str) -> None:
    assert not growing(partial(after_a_loss, name), own(of, None if of == name else 5 * OWN))


@pytest.mark.slow
@pytest.mark.nightly
@pytest.mark.parametrize("where", PORTS)
def test_a_late_start_is_linear_in_messages_of_all_protocols(where: str) -> None:
    contents = {f"{name}: {what}": content for name in PROTOCOLS for what, content in own(name).items()}
    assert not growing(partial(late, PORTS[where]), contents)
