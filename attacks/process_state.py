"""What belongs to a whole process, and must be after a call as it was before."""

from __future__ import annotations

import os
import signal
import threading
import time
import warnings
from dataclasses import dataclass, fields
from typing import Any

from threadpoolctl import ThreadpoolController, threadpool_info

PATIENCE = 10.0  # seconds for threads that are at their last piece of work


@dataclass(frozen=True)
class ProcessState:
    """The settings that code on any thread shares."""

    blas_threads: tuple[int, ...]
    warning_filters: tuple[Any, ...]
    show_warning: Any
    handlers: tuple[Any, ...]
    folder: str
    threads: int

    @classmethod
    def now(cls) -> ProcessState:
        """The present state."""
        numbers = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)
        return cls(
            tuple(p["num_threads"] for p in threadpool_info() if p["user_api"] == "blas"),
            tuple(warnings.filters),
            warnings.showwarning,
            tuple(map(signal.getsignal, numbers)),
            os.getcwd(),
            threading.active_count(),
        )

    def left_changed(self) -> str | None:
        """What is not as it was then; threads are waited for."""
        until = time.monotonic() + PATIENCE
        while threading.active_count() > self.threads and time.monotonic() < until:
            time.sleep(0.001)
        now = ProcessState.now()
        changed = [f.name for f in fields(self) if getattr(self, f.name) != getattr(now, f.name)]
        return f"left changed: {', '.join(changed)}" if changed else None

    def put_back(self) -> None:
        """Restore what one attack left behind, for the sake of the next one."""
        libraries = ThreadpoolController().select(user_api="blas").lib_controllers
        for library, threads in zip(libraries, self.blas_threads, strict=True):
            library.set_num_threads(threads)
        warnings.filters[:] = self.warning_filters
        warnings.showwarning = self.show_warning
