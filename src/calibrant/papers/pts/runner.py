"""Runs experiments over all cores; a finished row is kept in a file and never computed again."""

from __future__ import annotations

import hashlib
import json
import sys
import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from concurrent.futures import Future, ProcessPoolExecutor, as_completed
from dataclasses import astuple
from functools import cache, lru_cache
from importlib.resources import files
from multiprocessing import get_context
from pathlib import Path
from typing import Any

import numpy as np
import scipy
from threadpoolctl import threadpool_limits

from calibrant._files import replacing
from calibrant._threads import available_cores
from calibrant.papers.pts.experiments import METHODS, Setting, run
from calibrant.papers.pts.logit_sets import LogitSet, Source

Row = dict[str, Any]
Report = Callable[[int, int, float], None]  # (rows done, rows in all, seconds left)
# The sources that a row depends on; a test holds the list to what `experiments` imports.
CODE = (
    *("_*.py", "profile.py", "comparison.py"),
    *("formulas/*.py", "calibrators/**/*.py", "metrics/*.py"),
    *("papers/pts/experiments.py", "papers/pts/logit_sets.py"),
)
SLOW_COST = 60.0  # how many quick fits one of the published recipe takes


def run_all(
    settings: Sequence[Setting],
    sources: Iterable[Source],
    folder: Path,
    *,
    workers: int | None = None,
    report: Report = lambda done, total, left: None,
) -> list[Row]:
    """The rows of all settings, in their order; those that ``folder`` holds are read."""
    by_name = {source.name: source for source in sources}
    digests = {name: by_name[name].load().digest() for name in {one.data for one in settings}}
    folder.mkdir(parents=True, exist_ok=True)
    paths = {one: folder / f"{row_key(one, digests[one.data])}.json" for one in settings}
    missing = [one for one in settings if _kept(paths[one]) is None]
    pace = _Pace(missing, len(settings), report)
    if missing:
        _compute(missing, by_name, paths, workers or available_cores(), pace)
    # A row is known by its content: a set of another name may have left it.
    return [json.loads(paths[one].read_text()) | {"data": one.data} for one in settings]


def row_key(setting: Setting, digest: str) -> str:
    """A hash of everything that the row depends on."""
    versions = (np.__version__, scipy.__version__)
    what = [*astuple(setting)[1:], repr(METHODS[setting.method]), digest, _code_digest(), versions]
    return hashlib.sha256(json.dumps(what).encode()).hexdigest()[:32]


@cache
def _code_digest() -> str:
    whole = hashlib.sha256()
    for file in code_files():
        whole.update(file.read_bytes())
    return whole.hexdigest()


def code_files() -> list[Path]:
    """The files of ``CODE``."""
    package = Path(str(files("calibrant")))
    return sorted({file for pattern in CODE for file in package.glob(pattern)})


def _compute(
    missing: Sequence[Setting],
    sources: Mapping[str, Source],
    paths: Mapping[Setting, Path],
    workers: int,
    pace: _Pace,
) -> None:
    if workers == 1:
        for one in missing:
            _keep(paths[one], _work(one, sources[one.data]))
            pace.done(one)
        return
    # Fresh processes, each with one thread of linear algebra: the experiments are the parallel part
    with ProcessPoolExecutor(workers, get_context("spawn"), _one_thread) as pool:
        jobs: dict[Future[Row], Setting] = {
            pool.submit(_work, one, sources[one.data]): one for one in missing
        }
        try:
            for job in as_completed(jobs):
                _keep(paths[jobs[job]], job.result())
                pace.done(jobs[job])
        except BaseException:
            pool.shutdown(wait=False, cancel_futures=True)
            raise


def _one_thread() -> None:
    """Runs in a new process, which has loaded NumPy and SciPy by then, for this module's sake."""
    threadpool_limits(1)


def _work(setting: Setting, source: Source) -> Row:
    try:
        return run(setting, _loaded(source))
    except Exception as error:
        raise RuntimeError(f"{setting} failed: {type(error).__name__}: {error}") from error


@lru_cache(maxsize=3)
def _loaded(source: Source) -> LogitSet:
    return source.load()


def _keep(path: Path, row: Row) -> None:
    with replacing(path) as file:
        file.write(json.dumps(row, allow_nan=False).encode())


def _kept(path: Path) -> Row | None:
    """A row from its file; None where there is none, or none that can be read."""
    try:
        row = json.loads(path.read_bytes())
    except (FileNotFoundError, ValueError):
        return None
    return row if isinstance(row, dict) and row.keys() >= {"data", "ece", "brier"} else None


class _Pace:
    """Rows done and the time left, a slow row counting as many quick ones."""

    def __init__(self, missing: Sequence[Setting], total: int, report: Report) -> None:
        self.started, self.report, self.total = time.monotonic(), report, total
        self.count = total - len(missing)
        self.cost, self.whole = 0.0, sum(map(_cost, missing))

    def done(self, setting: Setting) -> None:
        """Tell that one more is done."""
        self.count += 1
        self.cost += _cost(setting)
        passed = time.monotonic() - self.started
        self.report(self.count, self.total, passed * (self.whole / self.cost - 1.0))


def _cost(setting: Setting) -> float:
    return SLOW_COST if METHODS[setting.method].slow else 1.0


def lines_of_progress(every: float = 20.0) -> Report:
    """Progress as lines on standard error, one each ``every`` seconds: for logs."""
    last = [time.monotonic()]

    def report(done: int, total: int, left: float) -> None:
        if time.monotonic() - last[0] >= every:
            last[0] = time.monotonic()
            text = f"{done}/{total} experiments, about {left / 60.0:.0f} min left"
            print(text, file=sys.stderr, flush=True)

    return report
