"""Processes of the reproduction: they end with their parent, whatever ends it."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from calibrant_papers.processes import in_processes
from cli_support import SOURCE

# Work for an hour on two processes, each of which says its number first.
BUSY = """
import os, sys, time
from calibrant_papers._system import unwind_when_asked_to_end
from calibrant_papers.processes import in_processes
def work(number):
    print(os.getpid(), flush=True)
    time.sleep(3600.0)
if __name__ == "__main__":
    unwind_when_asked_to_end()
    list(in_processes(work, {n: (n,) for n in range(4)}, 2))
"""


def is_running(process: int) -> bool:
    try:
        state = Path(f"/proc/{process}/stat").read_text().rpartition(")")[2].split()[0]
    except OSError:
        return False
    return state not in "ZX"


@pytest.mark.skipif(not os.path.exists("/proc/self/stat"), reason="looks processes up in /proc")
@pytest.mark.parametrize(
    ("number", "to_all"),
    [
        (signal.SIGKILL, False),
        (signal.SIGINT, True),
        pytest.param(signal.SIGTERM, False, marks=pytest.mark.slow),
        pytest.param(signal.SIGTERM, True, marks=pytest.mark.slow),
    ],
)
def test_workers_end_with_their_parent(tmp_path: Path, number: int, to_all: bool) -> None:
    script = tmp_path / "busy.py"
    script.write_text(BUSY)
    environment = {**os.environ, "PYTHONPATH": str(SOURCE)}
    command = [sys.executable, str(script)]
    with subprocess.Popen(
        command, env=environment, stdout=subprocess.PIPE, text=True, start_new_session=True
    ) as parent:
        assert parent.stdout is not None
        workers = [int(parent.stdout.readline()) for _ in range(2)]
        assert all(map(is_running, workers))
        sent = time.monotonic()
        (os.killpg if to_all else os.kill)(parent.pid, number)
        parent.communicate(timeout=60)
    while any(map(is_running, workers)) and time.monotonic() - sent < 5.0:
        time.sleep(0.01)
    assert not any(map(is_running, workers))


def test_a_process_that_dies_is_told() -> None:
    with pytest.raises(ChildProcessError, match="ended before its work was done"):
        list(in_processes(os._exit, {"one": (3,), "other": (3,)}, 2))


def test_results_have_their_keys() -> None:
    assert dict(in_processes(abs, {"one": (-1,), "other": (-2,)}, 2)) == {"one": 1, "other": 2}
