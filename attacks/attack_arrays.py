"""Attack the calibrators with odd arrays: hard values in all forms, odd labels, odd weights.

    python attacks/attack_arrays.py --cases 20000

Every case is one call: a prediction of a fitted calibrator or, one in ten, a fit. It ends in one of
three ways: it is refused, with a clear error of the library; or it is served well, by all the laws
of ``array_laws``; or something misbehaves, and the exit code is 1. Misbehaving is a broken law, an
exception or a warning that is not the library's own, bad input that is served and good input that
is refused.

A case is made from its own number alone: place i of a run with ``--seed S`` is the case of
``--seed S+i --cases 1``.
"""

from __future__ import annotations

import argparse
import sys
import time
import warnings
from collections import Counter
from dataclasses import dataclass, field
from functools import cache
from typing import Any

import numpy as np
from numpy.random import Generator

from array_laws import MisbehavedError, RefusedError, fits_hold, predictions_hold
from calibrant import calibrator
from calibrant.calibrators import REGISTRY, Calibrator
from calibrant.common.arrays import TILE_ELEMENTS
from odd_scores import BAD_FORMS, GOOD_FORMS, VALUES, are_valid, meaning
from odd_targets import BAD_LABELS, BAD_WEIGHTS, GOOD_LABELS, GOOD_WEIGHTS

METHODS = tuple(REGISTRY)
SHOWN = 5  # offenders of a method
MANY, MANY_TO_FIT = 40, 70  # classes from which on other ways of computing begin


def example(rows: int, classes: int, rng: Generator) -> tuple[np.ndarray, np.ndarray]:
    """Overconfident logits and their labels."""
    logits = 3.0 * rng.normal(size=(rows, classes))
    return logits, (0.5 * logits + rng.gumbel(size=logits.shape)).argmax(axis=1)


@cache
def fitted(method: str, classes: int, kind: str) -> Calibrator:
    """A calibrator fitted on ordinary rows."""
    logits, labels = example(300, classes, np.random.default_rng(classes))
    scores = (
        VALUES["probabilities"](logits, np.random.default_rng(0)) if kind == "probs" else logits
    )
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        return calibrator(method, input=kind).fit(scores, labels)


@dataclass(frozen=True)
class Case:
    """One call: what is done, with what, and whether it must be refused."""

    method: str
    odd: tuple[str, ...]  # what of it is: values, forms, labels or weights
    act: Any
    bad: bool

    def outcome(self) -> str:
        """What happened: "refused" or "served"; raises where something misbehaves."""
        try:
            self.act()
        except RefusedError as error:
            if not self.bad:
                raise MisbehavedError(f"good input is refused: {error}") from None
            return "refused"
        if self.bad:
            raise MisbehavedError("bad input is served")
        return "served"


def make(number: int) -> Case:
    """The case of a number."""
    rng = np.random.default_rng(number)
    method = METHODS[number % len(METHODS)]
    fits, many, few = rng.random() < 0.1, rng.random() < 0.1, int(rng.choice([2, 3, 5]))
    classes = (MANY_TO_FIT if fits else MANY) if many else few
    if REGISTRY[method].two_classes_only:
        classes = 2
    return _fit(method, classes, rng) if fits else _prediction(method, classes, rng)


def _pick(rng: Generator, table: dict[str, Any]) -> tuple[str, Any]:
    name = str(rng.choice(list(table)))
    return name, table[name]


def _scores(rng: Generator, rows: int, classes: int, kind: str) -> tuple[str, np.ndarray]:
    """Hard values: logits, or the softmax of such."""
    name, values = _pick(rng, VALUES)
    array = values(example(rows, classes, rng)[0], rng)
    if kind == "logits":
        return name, array
    with np.errstate(all="ignore"):
        return name, VALUES["probabilities"](array, rng)


def _prediction(method: str, classes: int, rng: Generator) -> Case:
    kind = "probs" if rng.random() < 0.2 else "logits"
    model = fitted(method, classes, kind)
    if rng.random() < 0.01:  # a last tile of one row
        name, array = _scores(rng, TILE_ELEMENTS // classes + 1, classes, kind)
    else:
        name, array = _scores(rng, int(rng.integers(2, 40)), classes, kind)
    if rng.random() < 0.15:
        odd, form = _pick(rng, BAD_FORMS)
        scores = form(array, rng)
        return Case(
            method, (f"form: {odd}",), lambda: predictions_hold(model, scores, array), bad=True
        )
    if rng.random() < 0.03:
        line = array[0] if classes > 2 else array[:, 1]
        return _one_dimensional(method, model, line, classes > 2)
    odd, form = _pick(rng, GOOD_FORMS)
    scores = form(array, rng)
    numbers = meaning(scores)
    bad = not are_valid(numbers, kind)
    labels = f"values: {name}", f"form: {odd}"
    return Case(method, labels, lambda: predictions_hold(model, scores, numbers), bad)


def _one_dimensional(method: str, model: Calibrator, line: np.ndarray, bad: bool) -> Case:
    """The scores of class 1 of two, or one row of more, which must be refused."""
    if model.input == "probs":
        pairs = np.stack([1.0 - line, line], axis=1)
    else:
        pairs = np.stack([np.zeros_like(line), line], axis=1)
    bad = bad or not are_valid(pairs, model.input)
    return Case(method, ("form: 1-d",), lambda: predictions_hold(model, line, pairs), bad)


def _fit(method: str, classes: int, rng: Generator) -> Case:
    rows = int(rng.integers(1, 60))
    logits, labels = example(rows, classes, rng)
    given: dict[str, Any] = {"logits": logits, "labels": labels, "sample_weight": None}
    which = str(rng.choice(["scores", "labels", "weights"]))
    bad, numbers = bool(rng.random() < 0.3), logits
    if which == "labels":
        odd, form = _pick(rng, BAD_LABELS if bad else GOOD_LABELS)
        given["labels"] = form(labels, classes, rng)
        told: tuple[str, ...] = (f"labels: {odd}",)
    elif which == "weights":
        odd, form = _pick(rng, BAD_WEIGHTS if bad else GOOD_WEIGHTS)
        given["sample_weight"] = form(rows, rng)
        told = (f"weights: {odd}",)
    elif bad:
        odd, form = _pick(rng, BAD_FORMS)
        given["logits"] = form(logits, rng)
        bad = odd != "one class more" or REGISTRY[method].two_classes_only
        numbers = given["logits"] if odd == "one class more" else logits
        told = (f"fitted form: {odd}",)
    else:
        told, numbers, bad = _odd_scores(given, rng)
    model = calibrator(method)
    return Case(method, told, lambda: fits_hold(model, given, numbers), bad)


def _odd_scores(given: dict[str, Any], rng: Generator) -> tuple[tuple[str, ...], np.ndarray, bool]:
    """Hard values or an odd form to fit on, labels never on a masked class."""
    name, values = _pick(rng, VALUES)
    odd, form = _pick(rng, GOOD_FORMS)
    array = values(given["logits"].copy(), rng)
    scores = given["logits"] = form(array, rng)
    numbers = meaning(scores)
    known = np.where(np.isfinite(numbers), numbers, -np.inf)
    wrong = np.where(np.isfinite(numbers), rng.random(numbers.shape), -np.inf)
    share = rng.choice([0.0, 0.3, 1.0])  # of rows whose label has nothing to do with the scores
    rows_wrong = rng.random((len(numbers), 1)) < share
    given["labels"] = np.where(rows_wrong, wrong, known).argmax(axis=1)
    bad = len(numbers) == 0 or not are_valid(numbers, "logits")
    return (f"fitted values: {name}", f"fitted form: {odd}"), numbers, bad


# --- the table --------------------------------------------------------------------------------


@dataclass
class Tally:
    """How the cases of one method, or with one odd thing, ended."""

    ends: Counter[str] = field(default_factory=Counter)
    offenders: list[str] = field(default_factory=list)

    def row(self, name: str) -> str:
        """A line of a table."""
        counts = [sum(self.ends.values()), *(self.ends[end] for end in ENDS)]
        return f"{name:<36}" + "".join(f"{count:>12,}" for count in counts)


ENDS = ("refused", "served", "misbehaved")


def attack(seed: int, cases: int) -> tuple[dict[str, Tally], dict[str, Tally]]:
    """Run cases; the tallies by method and by what is odd, which may be two things."""
    methods: dict[str, Tally] = {}
    kinds: dict[str, Tally] = {}
    for number in range(seed, seed + cases):
        case = make(number)
        try:
            end, problem = case.outcome(), ""
        except MisbehavedError as error:
            end, problem = "misbehaved", str(error)
        tally = methods.setdefault(case.method, Tally())
        for one in (tally, *(kinds.setdefault(odd, Tally()) for odd in case.odd)):
            one.ends[end] += 1
        if problem:
            words = " ".join(problem.split())[:200]
            told = f"{case.method}; {'; '.join(case.odd)}: {words}"
            tally.offenders.append(f"{told} (--seed {number} --cases 1)")
    return methods, kinds


def show(title: str, tallies: dict[str, Tally]) -> None:
    """Print a table."""
    heading = "".join(f"{word:>12}" for word in ("cases", *ENDS))
    print(f"\n{title:<36}{heading}")
    for name, tally in tallies.items():
        print(tally.row(name))


def main(arguments: list[str] | None = None) -> int:
    """Attack, print the tables, and return 1 where anything misbehaved."""
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--cases", type=int, default=20_000)
    parser.add_argument("--seed", type=int, default=0)
    options = parser.parse_args(arguments)
    started = time.perf_counter()
    methods, kinds = attack(options.seed, options.cases)
    total = Tally(sum((tally.ends for tally in methods.values()), Counter()))
    show("method", methods | {"total": total})
    show("what is odd", dict(sorted(kinds.items())))
    print(f"\n{time.perf_counter() - started:.0f} s")
    offenders = [tally.offenders for tally in methods.values() if tally.offenders]
    for one in offenders:
        print("\n".join(one[:SHOWN]))
    return 1 if offenders else 0


if __name__ == "__main__":
    sys.exit(main())
