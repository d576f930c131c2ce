"""Cores and threads: how many there are, and matrix products that use one."""

from __future__ import annotations

import _thread
import os
import threading
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager, suppress
from queue import Empty, SimpleQueue
from typing import Any
from weakref import WeakSet

from threadpoolctl import ThreadpoolController


class OwnLock:
    """A lock for the attributes of one object, which a thread may enter more than once.

    Copies and pickles of the object get a new lock. So does the object in a forked process: the
    thread that held the lock does not exist there and could never release it.
    """

    def __init__(self) -> None:
        self._lock = threading.RLock()
        _own_locks.add(self)

    def __enter__(self) -> None:
        self._lock.acquire()

    def __exit__(self, *error: object) -> None:
        self._lock.release()

    def __reduce__(self) -> tuple[type[OwnLock], tuple[()]]:
        return OwnLock, ()

    @staticmethod
    def renew_all() -> None:
        """Open all locks, in a new process after a fork."""
        for own in _own_locks:
            own._lock = threading.RLock()


_own_locks: WeakSet[OwnLock] = WeakSet()
if hasattr(os, "register_at_fork"):  # not on every system
    os.register_at_fork(after_in_child=OwnLock.renew_all)


def available_cores() -> int:
    """The cores that this process may use."""
    try:
        return max(1, len(os.sched_getaffinity(0)))
    except AttributeError:  # not on this system
        return max(1, os.cpu_count() or 1)


@contextmanager
def mapping(threads: int) -> Iterator[Callable[[Callable[[Any], Any], Iterable[Any]], Any]]:
    """A ``map`` on so many threads, ordered as its items; on one thread, Python's own.

    Threads hand over work and results by ``SimpleQueue``, whose steps no Ctrl-C can cut in two.
    A ``ThreadPoolExecutor`` waits for ever where one arrives while a future's lock is taken.
    """
    if threads == 1:
        yield map
        return
    todo: SimpleQueue[Any] = SimpleQueue()
    ended: SimpleQueue[None] = SimpleQueue()

    def work() -> None:
        while (task := todo.get()) is not None:
            function, place, item, done = task
            try:
                done.put((place, function(item), None))
            except BaseException as error:
                done.put((place, None, error))
        ended.put(None)

    def on_threads(function: Callable[[Any], Any], items: Iterable[Any]) -> Iterator[Any]:
        done: SimpleQueue[tuple[int, Any, BaseException | None]] = SimpleQueue()
        count = 0
        for item in items:
            todo.put((function, count, item, done))
            count += 1
        return _in_order(done, count)

    started = 0
    try:
        for _ in range(threads):
            _thread.start_new_thread(work, ())  # a Thread's start takes locks, too
            started += 1
        yield on_threads
    finally:
        with suppress(Empty):
            while True:  # work that nobody waits for any more
                todo.get_nowait()
        for _ in range(started):
            todo.put(None)
        for _ in range(started):
            ended.get()


def _in_order(
    done: SimpleQueue[tuple[int, Any, BaseException | None]], count: int
) -> Iterator[Any]:
    """Results as soon as all before them are there; an error is raised in its place."""
    early: dict[int, tuple[Any, BaseException | None]] = {}
    for place in range(count):
        while place not in early:
            number, result, error = done.get()
            early[number] = result, error
        result, error = early.pop(place)
        if error is not None:
            raise error
        yield result


class _OneThread:
    """BLAS at one thread while the first caller is inside, who then puts back what it found.

    The setting belongs to the whole process: were every caller to put back what it found, callers
    on several threads would put back each other's. And it is the first caller that does, not the
    last one, for OpenBLAS heeds only one thread. Callers that are still inside go on with more
    threads, which costs time and nothing else.

    What there was is kept before anything is changed, and a caller may leave twice: an interrupt at
    any point loses nothing. One that was interrupted while leaving leaves for good when it is
    collected, maybe by a thread that is in here: the lock lets a thread in twice.
    """

    def __init__(self) -> None:
        self.lock = threading.RLock()
        self.first: object | None = None  # the caller that set it
        self.thread = 0  # that it is on
        self.before: list[tuple[Any, int]] = []  # the libraries and their threads

    def enter(self, caller: object) -> None:
        with self.lock:
            if self.first is None:
                libraries = ThreadpoolController().select(user_api="blas").lib_controllers
                self.before = [(library, library.get_num_threads()) for library in libraries]
                self.thread, self.first = threading.get_ident(), caller
                for library in libraries:
                    library.set_num_threads(1)

    def leave(self, caller: object) -> None:
        with self.lock:
            if self.first is caller:
                self._put_back()

    def forget_other_threads(self) -> None:
        """In a new process after a fork, which has the thread that forked and no other."""
        self.lock = threading.RLock()
        if self.first is not None and self.thread != threading.get_ident():
            self._put_back()

    def _put_back(self) -> None:
        for library, threads in self.before:
            library.set_num_threads(threads)
        self.first = None


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
    caller = object()
    try:
        _one_thread.enter(caller)
        yield
    finally:
        try:
            _one_thread.leave(caller)
        except BaseException:  # interrupted on the way out: leave all the same
            _one_thread.leave(caller)
            raise
