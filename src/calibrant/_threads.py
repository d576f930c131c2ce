"""Cores and threads: how many there are, and matrix products that use one."""

from __future__ import annotations

import os
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from threadpoolctl import threadpool_limits


def available_cores() -> int:
    """The cores that this process may use."""
    try:
        return max(1, len(os.sched_getaffinity(0)))
    except AttributeError:  # not on this system
        return max(1, os.cpu_count() or 1)


class _OneThread:
    """BLAS at one thread while any caller wants it: the first one sets it, the last one resets it.

    The setting belongs to the whole process. Were every caller to restore what it found, callers
    on several threads would restore each other's.
    """

    def __init__(self) -> None:
        self.lock, self.users = threading.Lock(), 0
        self.limits: Any = None

    def enter(self) -> None:
        with self.lock:
            self.users += 1
            if self.users == 1:
                self.limits = threadpool_limits(limits=1, user_api="blas")

    def leave(self) -> None:
        with self.lock:
            self.users -= 1
            if self.users == 0:
                self.limits.restore_original_limits()
                self.limits = None


_one_thread = _OneThread()


@contextmanager
def one_blas_thread(wanted: bool = True) -> Iterator[None]:
    """Matrix products on one thread; ``wanted=False`` leaves them as they are.

    Threads that wait for each other over small products cost far more than they save, and one
    thread rounds the same way on every machine.
    """
    if not wanted:
        yield
        return
    _one_thread.enter()
    try:
        yield
    finally:
        _one_thread.leave()
