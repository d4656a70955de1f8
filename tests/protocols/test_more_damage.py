"""The kit's tests of damaged frames, three times as often, and with frames truncated at every byte."""

from __future__ import annotations

from typing import Any

import pytest

from tests.protocols import (
    test_cursus_parity,
    test_nats_parity,
    test_pravega_parity,
    test_rabbitmq_parity,
    test_tank_parity,
)
from wiredecode.testing import ProtocolTests
from wiredecode.testing.samples import MUTATIONS

pytestmark = pytest.mark.slow
KITS: list[Any] = [
    test_cursus_parity.TestCursus,
    test_nats_parity.TestNats,
    test_pravega_parity.TestPravega,
    test_rabbitmq_parity.TestRabbitMQStream,
    test_tank_parity.TestTank,
]


@pytest.mark.parametrize("mutate", MUTATIONS, ids=lambda mutate: mutate.__name__)
@pytest.mark.parametrize("kit", KITS)
def test_readers_agree_on_many_damaged_frames(kit: type[ProtocolTests], mutate: Any) -> None:
    kit.check_damaged(mutate, rounds=3)


@pytest.mark.parametrize("kit", KITS)
def test_readers_agree_on_frames_truncated_at_every_byte(kit: type[ProtocolTests]) -> None:
    kit.check_ends(130, 24)
