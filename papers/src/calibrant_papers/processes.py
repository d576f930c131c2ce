"""Work on several processes, which end when this one does: in whatever way, and at once."""

from __future__ import annotations

import os
import signal
from collections.abc import Callable, Generator, Iterator, Mapping
from concurrent.futures import ProcessPoolExecutor, as_completed
from concurrent.futures.process import BrokenProcessPool
from contextlib import contextmanager, suppress
from multiprocessing import get_context
from multiprocessing.connection import Connection
from threading import Thread
from typing import Any, TypeVar

from threadpoolctl import threadpool_limits

Key = TypeVar("Key")
Result = TypeVar("Result")


def in_processes(
    function: Callable[..., Result], calls: Mapping[Key, tuple[Any, ...]], workers: int
) -> Generator[tuple[Key, Result], None, None]:
    """The results of calls with these arguments, as they get ready, each with its key.

    When the iterator is closed, or this process ends, so do the others, whatever they are at.
    """
    context = get_context("spawn")
    theirs, ours = context.Pipe(duplex=False)
    try:
        with ProcessPoolExecutor(workers, context, _begin, (theirs,)) as pool:
            try:
                with _signals_for_this_process_alone():
                    jobs = {pool.submit(function, *calls[key]): key for key in calls}
                for job in as_completed(jobs):
                    yield jobs[job], job.result()
            except BaseException:
                ours.close()  # or the pool would wait for what they are at
                pool.shutdown(wait=False, cancel_futures=True)
                raise
    except BrokenProcessPool:
        raise ChildProcessError(
            "a process ended before its work was done, for want of memory perhaps: what others "
            "finished is kept, and fewer workers need less"
        ) from None
    finally:
        ours.close()
        theirs.close()


@contextmanager
def _signals_for_this_process_alone() -> Iterator[None]:
    """Processes that start now never see the signals that ask a program to end.

    Ctrl-C, ``timeout`` and a closed terminal send them to all processes; this one alone acts.
    """
    if not hasattr(signal, "pthread_sigmask"):  # not on this system
        yield
        return
    asking = {signal.SIGINT, signal.SIGTERM, signal.SIGHUP}
    before = signal.pthread_sigmask(signal.SIG_BLOCK, asking)
    try:
        yield
    finally:
        signal.pthread_sigmask(signal.SIG_SETMASK, before)


def _begin(theirs: Connection) -> None:
    """Prepare a new process; its part of linear algebra is one thread."""
    Thread(target=_end_with_parent, args=(theirs,), daemon=True).start()
    threadpool_limits(1)


def _end_with_parent(theirs: Connection) -> None:
    """Wait until the pipe's other end is closed, by the parent or by its death; then end."""
    with suppress(EOFError, OSError):
        theirs.recv_bytes()
    os._exit(1)
