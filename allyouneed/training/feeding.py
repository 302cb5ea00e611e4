"""Batches made ready in a thread of their own while the device computes."""

import queue
import threading
from collections.abc import Generator, Iterator
from typing import TypeVar

Item = TypeVar("Item")


def ahead(items: Iterator[Item], n_ready: int = 16) -> Generator[Item, None, None]:
    """The same items; up to `n_ready` of them are made before they are asked for.

    What goes wrong in the thread is raised here. Closing the iterator ends the thread.
    """
    ready: queue.Queue[Item | BaseException] = queue.Queue(maxsize=n_ready)
    closed = threading.Event()

    def put(item: Item | BaseException) -> bool:
        while not closed.is_set():
            try:
                ready.put(item, timeout=0.1)
                return True
            except queue.Full:
                continue
        return False

    def work() -> None:
        try:
            for item in items:
                if not put(item):
                    return
            put(StopIteration())
        except BaseException as error:  # handed over, not handled
            put(error)

    thread = threading.Thread(target=work, daemon=True, name="batches")
    thread.start()
    try:
        while not isinstance(item := ready.get(), BaseException):
            yield item
        if not isinstance(item, StopIteration):
            raise item
    finally:
        closed.set()
        thread.join()
