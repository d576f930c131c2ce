"""Runs experiments over all cores; a finished row is kept in a file and never computed again."""

from __future__ import annotations

import hashlib
import json
import sys
import time
from collections.abc import Callable, Generator, Iterable, Mapping, Sequence
from contextlib import closing
from dataclasses import astuple
from functools import cache, lru_cache
from importlib.resources import files
from pathlib import Path

import numpy as np
import scipy

from calibrant_papers._system import available_cores, numba_version
from calibrant_papers.experiments import ALL_CLASSES, METHODS, PUBLISHED_WIDTH, Setting, run
from calibrant_papers.logit_sets import LogitSet, Source
from calibrant_papers.processes import in_processes
from calibrant_papers.row_files import Row, RowFiles

Report = Callable[[int, int, float], None]  # (rows done, rows in all, seconds left)
# The sources that a row depends on, by package; a test holds them to what `experiments` imports.
CODE = {
    "calibrant": (
        *("common/*.py", "data/*.py", "formulas/*.py", "calibrators/**/*.py", "metrics/*.py"),
        *("backends/numba/*.py", "backends/cuda/*.py", "evaluation/*.py"),
    ),
    "calibrant_papers": ("experiments.py", "logit_sets.py", "per_row.py"),
}


def run_all(
    settings: Sequence[Setting],
    sources: Iterable[Source],
    folder: Path,
    *,
    workers: int | None = None,
    report: Report = lambda done, total, left: None,
    kept_only: bool = False,
) -> list[Row]:
    """The rows of all settings, in their order; those that ``folder`` holds are read.

    With ``kept_only`` nothing is computed, and the rows that are there are given.
    """
    by_name = {source.name: source for source in sources}
    digests = _digests(settings, by_name)
    folder.mkdir(parents=True, exist_ok=True)
    kept = RowFiles(folder)
    keys = {one: row_key(one, digests[_logits_of(one, by_name)]) for one in settings}
    rows = kept.read_all(dict.fromkeys(keys.values()))
    if kept_only:
        settings = [one for one in settings if keys[one] in rows]
    missing = [one for one in settings if keys[one] not in rows]
    pace = _Pace(missing, len(settings), report)
    with closing(_computed(missing, by_name, workers or available_cores())) as computed:
        for one, row in computed:
            rows[keys[one]] = kept.write(keys[one], row)
            pace.done(one)
    # A row is known by its content: a set of another name may have left it.
    return [rows[keys[one]] | {"data": one.data} for one in settings]


def _logits_of(setting: Setting, sources: Mapping[str, Source]) -> tuple[str, int]:
    """The set and the training that a setting takes."""
    return setting.data, sources[setting.data].training(setting.seed)


def _digests(
    settings: Iterable[Setting], sources: Mapping[str, Source]
) -> dict[tuple[str, int], str]:
    wanted = dict.fromkeys(_logits_of(one, sources) for one in settings)
    return {(name, training): sources[name].load(training).digest() for name, training in wanted}


def row_key(setting: Setting, digest: str) -> str:
    """A hash of everything that the row depends on."""
    versions = (np.__version__, scipy.__version__, numba_version())
    what = [*astuple(setting)[1:], repr(METHODS[setting.method]), digest, code_digest(), versions]
    return hashlib.sha256(json.dumps(what).encode()).hexdigest()[:32]


@cache
def code_digest() -> str:
    """A hash of the files of ``CODE``."""
    whole = hashlib.sha256()
    for file in code_files():
        whole.update(file.read_bytes())
    return whole.hexdigest()


def code_files() -> list[Path]:
    """The files of ``CODE``."""
    found = []
    for package, patterns in CODE.items():
        folder = Path(str(files(package)))
        found += sorted({file for pattern in patterns for file in folder.glob(pattern)})
    return found


def _computed(
    missing: Sequence[Setting], sources: Mapping[str, Source], workers: int
) -> Generator[tuple[Setting, Row], None, None]:
    """The rows of settings as they get ready."""
    calls = {one: (one, sources[one.data]) for one in missing}
    if workers > 1 and calls:
        yield from in_processes(_work, calls, workers)
        return
    for one, call in calls.items():
        yield one, _work(*call)


def _work(setting: Setting, source: Source) -> Row:
    try:
        return run(setting, _loaded(source, source.training(setting.seed)))
    except Exception as error:
        raise RuntimeError(f"{setting} failed: {type(error).__name__}: {error}") from error


@lru_cache(maxsize=3)
def _loaded(source: Source, training: int) -> LogitSet:
    return source.load(training)


class _Pace:
    """Rows done and the time left, by what rows of their kind take."""

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
    """About how many seconds a row takes, for telling the time that is left."""
    width, every = setting.width or PUBLISHED_WIDTH, setting.top_k == ALL_CLASSES
    if METHODS[setting.method].slow:
        fit = 14.0 if numba_version() else 40.0
        return fit * (3.2 if every else max(1.0, (width + 3.0) / 8.0))
    if setting.method == "pts":
        return 20.0 if every else max(1.0, (width / 5.0) ** 2)
    return 0.4


def lines_of_progress(every: float = 20.0) -> Report:
    """Progress as lines on standard error, one each ``every`` seconds: for logs."""
    last = [time.monotonic()]

    def report(done: int, total: int, left: float) -> None:
        if time.monotonic() - last[0] >= every:
            last[0] = time.monotonic()
            text = f"{done}/{total} experiments, about {left / 60.0:.0f} min left"
            print(text, file=sys.stderr, flush=True)

    return report
