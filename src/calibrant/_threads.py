"""Cores and threads: how many there are, and matrix products that use one."""

from __future__ import annotations

import os
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from threadpoolctl import ThreadpoolController


def available_cores() -> int:
    """The cores that this process may use."""
    try:
        return max(1, len(os.sched_getaffinity(0)))
    except AttributeError:  # not on this system
        return max(1, os.cpu_count() or 1)


class _OneThread:
    """BLAS at one thread while any caller wants it: the first one sets it, the last one resets it.

    The setting belongs to the whole process. Were every caller to restore what it found, callers
    on several threads would restore each other's. What there was before is kept before anything is
    changed, and a caller may leave twice: an interrupt at any point loses nothing.
    """

    def __init__(self) -> None:
        self.lock = threading.Lock()
        self.users: dict[object, int] = {}  # and the threads they are on
        self.before: list[tuple[Any, int]] | None = None  # the libraries and their threads

    def enter(self, user: object) -> None:
        with self.lock:
            self.users[user] = threading.get_ident()
            if self.before is None:
                libraries = ThreadpoolController().select(user_api="blas").lib_controllers
                self.before = [(library, library.get_num_threads()) for library in libraries]
                for library in libraries:
                    library.set_num_threads(1)

    def leave(self, user: object) -> None:
        with self.lock:
            self.users.pop(user, None)
            self._reset_if_unused()

    def forget_other_threads(self) -> None:
        """In a new process after a fork, which has the thread that forked and no other."""
        here = threading.get_ident()
        self.lock = threading.Lock()
        self.users = {user: thread for user, thread in self.users.items() if thread == here}
        self._reset_if_unused()

    def _reset_if_unused(self) -> None:
        if self.before is not None and not self.users:
            for library, threads in self.before:
                library.set_num_threads(threads)
            self.before = None


_one_thread = _OneThread()
if hasattr(os, "register_at_fork"):  # not on every system
    os.register_at_fork(after_in_child=_one_thread.forget_other_threads)


@contextmanager
def one_blas_thread(wanted: bool = True) -> Iterator[None]:
    """Matrix products on one thread; ``wanted=False`` leaves them as they are.

    Threads that wait for each other over small products cost far more than they save, and one
    thread rounds the same way on every machine.
    """
    if not wanted:
        yield
        return
    user = object()
    try:
        _one_thread.enter(user)
        yield
    finally:
        try:
            _one_thread.leave(user)
        except BaseException:  # interrupted on the way out: leave all the same
            _one_thread.leave(user)
            raise
