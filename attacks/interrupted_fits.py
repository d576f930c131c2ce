"""Interrupts in the middle of fits: the object is wholly as it was before, or wholly fitted anew.

An interrupt comes after so many lines of calibrant's own code, which finds the spots between two
assignments, or after so much time, as Ctrl-C does, which finds everything else.
"""

from __future__ import annotations

import ast
import signal
import sys
import time
from collections.abc import Callable, Iterator
from contextvars import copy_context
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from types import FrameType
from typing import Any

import numpy as np
from sklearn.naive_bayes import GaussianNB

import calibrant
from calibrant.calibrators import REGISTRY
from calibrant.metrics import CalibrationMeter
from calibrant.sklearn import CalibratedClassifier
from process_state import ProcessState
from tally import Tally

SOURCE = str(Path(calibrant.__file__).parent)
# A signal never comes between taking a lock and the block that gives it back; a trace might.
NOT_TRACED = "_threads.py"
ROWS = 150

Call = Callable[[], Any]
Interrupt = Callable[[Call], None]


# --- interrupting a call ----------------------------------------------------------------------


@cache
def _with_lines(file: str) -> frozenset[int]:
    """The first lines of all ``with`` statements of a file.

    Python shows such a line once more when the block is left, before its cleanup. No signal arrives
    there (they do after calls and at jumps back), and what a trace raises would skip the cleanup.
    """
    tree = ast.parse(Path(file).read_text())
    blocks = [node for node in ast.walk(tree) if isinstance(node, ast.With)]
    return frozenset(at for node in blocks for at in range(node.lineno, node.body[0].lineno))


class Lines:
    """Counts the lines of calibrant that a call runs; raises ``KeyboardInterrupt`` at one."""

    def __init__(self, at: int | None = None) -> None:
        self.count, self.at = 0, at

    def __call__(self, frame: FrameType, event: str, argument: Any) -> Any:
        """Python calls this for every line of every function."""
        file = frame.f_code.co_filename
        if not file.startswith(SOURCE) or file.endswith(NOT_TRACED):
            return None
        if event == "line" and frame.f_lineno not in _with_lines(file):
            self.count += 1
            if self.count == self.at:
                raise KeyboardInterrupt
        return self

    def run(self, call: Call) -> None:
        """Run a call on this thread, line by line."""
        sys.settrace(self)
        try:
            call()
        except KeyboardInterrupt:
            pass
        finally:
            sys.settrace(None)


def run_for(seconds: float, call: Call) -> None:
    """Run a call, and interrupt it when the time is up."""
    armed = [True]

    def interrupt(number: int, frame: FrameType | None) -> None:
        if armed[0]:
            armed[0] = False
            raise KeyboardInterrupt

    before = signal.signal(signal.SIGALRM, interrupt)
    try:
        try:
            signal.setitimer(signal.ITIMER_REAL, max(seconds, 1e-6))
            call()
        finally:
            armed[0] = False
    except KeyboardInterrupt:
        pass
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0.0)
        signal.signal(signal.SIGALRM, before)


def interrupts(call: Call, points: int, rng: np.random.Generator) -> Iterator[Interrupt]:
    """Ways to interrupt a call: near its end, anywhere in it, and by the clock."""
    lines = Lines()
    lines.run(call)
    started = time.perf_counter()
    call()
    seconds = time.perf_counter() - started
    late, timed = (points + 2) // 3, points // 3
    for back in range(late):
        yield Lines(max(lines.count - back, 1)).run
    for at in rng.integers(1, lines.count + 1, points - late - timed):
        yield Lines(int(at)).run
    for part in rng.uniform(0.0, 1.0, timed):
        yield lambda attacked, limit=seconds * part: run_for(limit, attacked)


# --- what is interrupted ----------------------------------------------------------------------


@dataclass(frozen=True)
class Subject:
    """A call that changes an object, and what the object answers before and after it."""

    name: str
    make: Callable[[], Any]
    change: Callable[[Any], Any]
    ask: Callable[[Any], Any]

    def answer(self, thing: Any) -> Any:
        """What it answers; an error, as that it is not fitted, is an answer, too."""
        try:
            return np.asarray(self.ask(thing))
        except Exception as error:
            return f"{type(error).__name__}: {error}"


def rows_for(seed: int, classes: int = 4) -> tuple[np.ndarray, np.ndarray]:
    """Over-confident logits with labels."""
    rng = np.random.default_rng(seed)
    logits = 3.0 * rng.normal(size=(ROWS, classes))
    return logits, (0.5 * logits + rng.gumbel(size=logits.shape)).argmax(axis=1)


def fit_of(method: str, *, again: bool) -> Subject:
    """A first fit of a method, or a second one on other rows."""
    classes = 2 if getattr(REGISTRY[method], "two_classes_only", False) else 4
    first, second = rows_for(1, classes), rows_for(2, classes)

    def make() -> Any:
        unfitted = calibrant.calibrator(method)
        return unfitted.fit(*first) if again else unfitted

    return Subject(
        method, make, lambda model: model.fit(*second), lambda model: model.predict_proba(first[0])
    )


def classifier(*, again: bool, ensemble: bool = True) -> Subject:
    """A first or a second fit of scikit-learn's kind of classifier."""
    first, second = rows_for(1), rows_for(2)

    def make() -> Any:
        unfitted = CalibratedClassifier(GaussianNB(), "ts", cv=2, ensemble=ensemble)
        return unfitted.fit(*first) if again else unfitted

    name = f"CalibratedClassifier, ensemble={ensemble}"
    return Subject(
        name, make, lambda model: model.fit(*second), lambda model: model.predict_proba(first[0])
    )


def meter(*, again: bool) -> Subject:
    """A first or a second update of a meter."""
    first, second = rows_for(1), rows_for(2)

    def make() -> Any:
        empty = CalibrationMeter(input="logits")
        return empty.update(*first) if again else empty

    def ask(thing: Any) -> Any:
        return [thing.compute().n_rows, thing.compute().ece, thing.sums.sum()]

    return Subject("CalibrationMeter.update", make, lambda thing: thing.update(*second), ask)


def profile(*, again: bool) -> Subject:
    """A first or a second update of a profile."""
    first, second = rows_for(1), rows_for(2)

    def make() -> Any:
        empty = calibrant.TemperatureProfile()
        return empty.update(*first) if again else empty

    def ask(thing: Any) -> Any:
        return [len(thing), thing.n_classes, thing.nll(1.5) if len(thing) else 0.0]

    return Subject("TemperatureProfile.update", make, lambda thing: thing.update(*second), ask)


# --- the attack -------------------------------------------------------------------------------


def attack(subject: Subject, points: int, rng: np.random.Generator, tally: Tally) -> None:
    """Interrupt the change of an object at so many points."""
    old, changed = subject.make(), subject.make()
    subject.change(changed)
    known = subject.answer(old), subject.answer(changed)
    for interrupt in interrupts(lambda: subject.change(subject.make()), points, rng):
        state, thing = ProcessState.now(), subject.make()
        before = dict(vars(thing))
        # How NumPy treats overflows belongs to a context. Where a signal comes inside NumPy's own
        # errstate it may stay changed, which no caller can prevent: each case has its own context.
        copy_context().run(interrupt, lambda thing=thing: subject.change(thing))
        left = state.left_changed()
        if left:
            state.put_back()
        problem = _mixture(before, vars(thing), subject.answer(thing), known) or left
        tally.count(problem and f"{subject.name}: {problem}")


def _mixture(
    before: dict[str, Any], now: dict[str, Any], answer: Any, known: tuple[Any, Any]
) -> str | None:
    """What is wrong with an object after an interrupt, where anything is."""
    names = sorted(before.keys() | now.keys())
    changed = [name for name in names if now.get(name) is not before.get(name)]
    is_old, is_new = (np.array_equal(answer, one) for one in known)
    if (is_old and not changed) or (is_new and before.keys() <= now.keys()):
        return None
    said = "" if isinstance(answer, np.ndarray) else f"; it says {answer[:60]!r}"
    return f"neither the old fit nor the new one, {', '.join(changed) or 'nothing'} replaced{said}"


def attack_all(methods: list[str], points: int, rng: np.random.Generator) -> list[Tally]:
    """Interrupt fits of methods, and of what is made of them."""
    refits, firsts = Tally("interrupted refits, all methods"), Tally("interrupted first fits")
    for method in methods:
        attack(fit_of(method, again=True), points, rng, refits)
        attack(fit_of(method, again=False), points, rng, firsts)
    others = Tally("interrupted CalibratedClassifier.fit, first and again")
    updates = Tally("interrupted updates of meters and profiles")
    for again in (False, True):
        for ensemble in (False, True):
            attack(classifier(again=again, ensemble=ensemble), points, rng, others)
        attack(meter(again=again), points, rng, updates)
        attack(profile(again=again), points, rng, updates)
    return [refits, firsts, others, updates]
