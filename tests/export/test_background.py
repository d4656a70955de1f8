"""The thread that writes: order, room, failures, and an end at any moment."""

from __future__ import annotations

from threading import Event, Thread

import pytest

from wiredecode.export.background import ROOM, Background


class Slow:
    """Writes nothing until it is let go."""

    def __init__(self) -> None:
        self.written: list[int] = []
        self.go = Event()
        self.begun = Event()

    def write(self, item: int) -> None:
        self.begun.set()
        assert self.go.wait(20)
        self.written.append(item)


def test_items_are_written_in_order_and_all_before_the_end() -> None:
    slow = Slow()
    background = Background(slow.write, lambda item: 1)
    for item in range(ROOM):
        background.put(item)
    slow.go.set()
    for item in range(ROOM, 3 * ROOM):
        background.put(item)
    background.finish()
    assert slow.written == [*range(3 * ROOM)]


@pytest.mark.parametrize(("sizes", "fit"), [([1] * 9, ROOM), ([ROOM - 1, 1, 1], 2), ([99, 1], 1)])
def test_no_more_waits_than_there_is_room_for(sizes: list[int], fit: int) -> None:
    slow, put = Slow(), []
    background = Background(slow.write, lambda item: sizes[item])

    def produce() -> None:
        for item in range(len(sizes)):
            background.put(item)
            put.append(item)

    producer = Thread(target=produce)
    producer.start()
    assert slow.begun.wait(20)
    producer.join(0.05)
    assert put == [*range(fit)]
    slow.go.set()
    producer.join()
    background.finish()
    assert slow.written == [*range(len(sizes))]


@pytest.mark.parametrize("later", [0, 3 * ROOM])
def test_what_goes_wrong_is_raised_where_the_items_come_from(later: int) -> None:
    written = []

    def write(item: int) -> None:
        if item == 1:
            raise OSError(28, "full")
        written.append(item)

    background = Background(write, lambda item: 1)
    with pytest.raises(OSError, match="full"):
        for item in range(2 + later):
            background.put(item)
        assert not later
        background.finish()
    assert written == [0]
    background.give_up()


def test_what_waits_is_dropped_and_nothing_is_written_afterwards() -> None:
    slow = Slow()
    background = Background(slow.write, lambda item: 1)
    for item in range(ROOM):
        background.put(item)
    assert slow.begun.wait(20)
    end = Thread(target=background.give_up)
    end.start()
    end.join(0.05)
    assert end.is_alive()  # the file must not be closed under the one that is being written
    slow.go.set()
    end.join()
    assert slow.written == [0]
    background.give_up()
