"""Batches made ahead in a thread."""

import threading
from collections.abc import Iterator

import pytest

from allyouneed.training.feeding import ahead


def test_all_items_come_in_order() -> None:
    assert list(ahead(iter(range(100)), n_ready=3)) == list(range(100))


def test_an_error_in_the_thread_is_raised_where_items_are_taken() -> None:
    def failing() -> Iterator[int]:
        yield 1
        raise ValueError("disk gone")

    items = ahead(failing())
    assert next(items) == 1
    with pytest.raises(ValueError, match="disk gone"):
        next(items)


def test_closing_ends_the_thread_even_when_it_waits_for_room() -> None:
    def endless() -> Iterator[int]:
        while True:
            yield 0

    items = ahead(endless(), n_ready=2)
    next(items)
    items.close()
    assert not [thread for thread in threading.enumerate() if thread.name == "batches"]
