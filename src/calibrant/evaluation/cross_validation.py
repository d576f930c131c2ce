"""Methods fitted on some rows, each of which gives probabilities to rows held out from its fit.

There are two ways to have held-out rows: test rows of their own, or one set of rows of which each
fold is held out in turn (cross-validation), so that nobody need choose a method on the test rows.
"""

from __future__ import annotations

import re
import time
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from reprlib import repr as shown
from typing import Any

import numpy as np
from numpy.typing import NDArray

from calibrant.calibrators import REGISTRY, Calibrator, acronym, calibrator, load_plugins
from calibrant.common.arrays import to_numpy
from calibrant.common.errors import noted, warn
from calibrant.common.memory import lacks_memory
from calibrant.common.types import InputKind, Report
from calibrant.data import likely_mistakes
from calibrant.data.binning import check_count
from calibrant.data.checks import as_numpy
from calibrant.data.folds import Folds
from calibrant.data.rows import Rows
from calibrant.metrics._labelled import labelled_rows

DEFAULT_FOLDS = 5
_NUMBERS_OF_FIRST = "; the numbers are those of the first"  # of the folds that gave a warning

Method = str | Calibrator
Methods = Method | Iterable[Method] | Mapping[str, Method]
Given = tuple[Any, Any, Any, Any]  # scores, labels, weights and covariates, as users give them


@dataclass(frozen=True)
class HeldOutPredictions:
    """One method, and the held-out rows with the probabilities that it gives them."""

    method: str
    rows: Rows
    calibrator: Calibrator | None  # None under cross-validation, where each fold has its own
    accuracy_preserving: bool
    fit_seconds: float  # under cross-validation the mean of the folds
    warnings: tuple[str, ...]


@dataclass(frozen=True)
class Experiment:
    """Unfitted methods by name, the rows to fit them on and the held-out rows, all of it checked.

    Under cross-validation both are the same rows, and ``n_rows`` is their number before rows whose
    weight lies in several folds were split.

    >>> logits, labels = [[3.0, 0.0], [0.0, 3.0], [2.0, 0.0], [0.0, 1.0]], [0, 1, 1, 0]
    >>> given = logits, labels, None, None
    >>> experiment = Experiment.of(given, given, ["base", "ts"])
    >>> [(one.method, one.rows.scores.shape) for one in experiment.run()]
    [('base', (4, 2)), ('ts', (4, 2))]
    """

    methods: dict[str, Calibrator]
    train: Rows
    held_out: Rows
    folds: Folds | None = None
    n_rows: int | None = None

    @classmethod
    def of(
        cls,
        val: Given,
        test: Given = (None, None, None, None),
        methods: Methods | None = None,
        *,
        input: InputKind = "logits",  # noqa: A002 - the word of the whole public interface
        ignore_index: int | None = None,
        cv: int = DEFAULT_FOLDS,
    ) -> Experiment:
        """Check everything before the first fit; without test scores, rows are cross-validated."""
        checked = partial(Rows.of, input=input, ignore_index=ignore_index)
        train = checked(*val[:3], covariates=val[3])
        if test[0] is None:
            names = ("test_labels", "test_weight", "test_covariates")
            for name, given in zip(names, test[1:], strict=True):
                if given is not None:
                    raise TypeError(
                        f"{name} needs test_scores; without them, rows are cross-validated"
                    )
            return cls.cross_validation(train, methods, cv)
        if test[1] is None:
            raise TypeError("test_scores need test_labels; without both, rows are cross-validated")
        classes = train.n_classes
        held_out = checked(*test[:3], n_classes=classes, covariates=test[3])
        if held_out.n_classes != classes:
            raise ValueError(
                "validation and test scores must have the same classes, got "
                f"{classes} and {held_out.n_classes}"
            )
        if input == "logits":  # one warning is enough
            first = likely_mistakes.looks_like_probabilities(train.scores)
            likely_mistakes.warn_if_probabilities((train if first else held_out).scores)
        return cls(unfitted(methods, input, len(train), classes), train, held_out)

    @classmethod
    def cross_validation(
        cls, rows: Rows, methods: Methods | None, cv: int = DEFAULT_FOLDS
    ) -> Experiment:
        """Hold out each fold of the rows of positive weight in turn.

        A row whose weight lies in several folds is in each of them, with its weight there.
        """
        check_count(cv, "cv")
        if cv < 2:
            raise ValueError(f"cv must be at least 2, got {cv}")
        labelled_rows(rows)  # checks values
        data = rows.with_scores(to_numpy(rows.scores), rows.input).of_some_weight()
        folds = data.folds(cv)
        if len(folds.parts) < 2:
            raise ValueError(f"there must be rows to leave out, got {len(data)} in all")
        models = unfitted(methods, rows.input, len(rows), rows.n_classes)
        split = folds.rows(data)
        return cls(models, split, split, folds, len(data))

    def run(self, report: Report = lambda done, total: None) -> Iterator[HeldOutPredictions]:
        """Fit one method after the other; only the one at hand is held in memory."""
        done, total = 0, len(self.methods) * (1 if self.folds is None else len(self.folds.parts))
        for name, model in self.methods.items():
            seconds, messages, keeps_arg_max = [], [], True
            probs: Any = None
            part: Any = None
            everything = [(slice(None), self.train, self.held_out)]
            for fold, train, held_out in (
                everything if self.folds is None else splits(self.train, self.folds)
            ):
                report(done, total)
                done += 1
                with noted() as told:
                    started = time.perf_counter()
                    model.fit(train.only(model.uses))
                    seconds.append(time.perf_counter() - started)
                    part = model.predict_proba(held_out.only(model.uses))
                # that logits look like probabilities is a matter of the data, and told before
                likely = likely_mistakes.LIKE_PROBABILITIES
                every = dict.fromkeys(one for one in told if not one.startswith(likely))
                messages.append(tuple(every))
                keeps_arg_max = keeps_arg_max and bool(model.accuracy_preserving)
                if self.folds is None:
                    probs = part
                    continue
                part = as_numpy(part)
                if probs is None:
                    probs = np.empty((len(self.held_out), part.shape[1]), part.dtype)
                probs[fold] = part
            yield HeldOutPredictions(
                method=name,
                rows=self.held_out.with_scores(probs, "probs"),
                calibrator=model if self.folds is None else None,
                accuracy_preserving=keeps_arg_max,
                fit_seconds=float(np.mean(seconds)),
                warnings=messages[0] if self.folds is None else warnings_of_folds(messages),
            )
        report(total, total)


def splits(rows: Rows, folds: Folds) -> Iterator[tuple[NDArray[np.intp], Rows, Rows]]:
    """For each fold its rows' numbers, the rows of the other folds to fit on, and its own rows."""
    for fold in folds.parts:
        held_out = np.zeros(len(rows), bool)
        held_out[fold] = True
        yield fold, rows.take(~held_out), rows.take(fold)


def warnings_of_folds(folds: Sequence[Sequence[str]]) -> tuple[str, ...]:
    """The warnings of all folds, each once, with the number of folds that gave it.

    Warnings that differ in their numbers alone are one: the numbers shown are those of the first.

    >>> warnings_of_folds([["the loss is 0.51"], ["the loss is 0.48"], []])
    ('the loss is 0.51 (in 2 of 3 folds; the numbers are those of the first)',)
    """
    alike: dict[str, list[str]] = {}
    for fold in folds:
        for kind, message in {without_numbers(message): message for message in fold}.items():
            alike.setdefault(kind, []).append(message)
    return tuple(
        f"{messages[0]} (in {len(messages)} of {len(folds)} folds"
        f"{_NUMBERS_OF_FIRST if len(set(messages)) > 1 else ''})"
        for messages in alike.values()
    )


def without_numbers(message: str) -> str:
    """What warnings about different rows have in common."""
    return re.sub(r"\d[\d.,]*(?:e[+-]?\d+)?", "#", message.replace(_NUMBERS_OF_FIRST, ""))


# --- methods ----------------------------------------------------------------------------------


def unfitted(
    methods: Methods | None, kind: InputKind, n_rows: int, n_classes: int
) -> dict[str, Calibrator]:
    """Unfitted calibrators by name; None means all that suit the classes and the memory."""
    if methods is None:
        load_plugins()
        suitable = {
            name: calibrator(name, input=kind)
            for name, cls in REGISTRY.items()
            if n_classes == 2 or not cls.two_classes_only
        }
        needed = {name: one._memory_needed(n_rows, n_classes) for name, one in suitable.items()}
        too_large = [name for name in suitable if lacks_memory(needed[name])]
        if too_large:
            warn(f"left out, since they need more memory than is available: {', '.join(too_large)}")
        return {name: one for name, one in suitable.items() if name not in too_large}
    if isinstance(methods, str | Calibrator):
        methods = [methods]
    names = map(str, methods) if isinstance(methods, Mapping) else None
    found: dict[str, Calibrator] = {}
    for method in methods.values() if isinstance(methods, Mapping) else methods:
        default_name, model = _unfitted_copy(method, kind)
        name = default_name if names is None else next(names)
        if model.two_classes_only and n_classes != 2:
            raise ValueError(f"{type(model).__name__} is for two classes, got {n_classes}")
        if name in found and not isinstance(method, str):
            raise ValueError(
                f"two methods are called {name!r}: name them, as in "
                "methods={'first': TS(), 'second': TS(loss='brier')}"
            )
        found.setdefault(name, model)
    if not found:
        raise ValueError(f"methods must name at least one of {', '.join(REGISTRY)}, got none")
    return found


def _unfitted_copy(method: Method, kind: InputKind) -> tuple[str, Calibrator]:
    """An unfitted copy of a calibrator, so that the given one stays as it is, and its name.

    It is called by the acronym, with the parameters that are not the defaults in brackets.
    """
    if isinstance(method, str):
        return acronym(method), calibrator(method, input=kind)
    if not isinstance(method, Calibrator):
        raise TypeError(f"methods must be names such as 'ts' or calibrators, got {shown(method)}")
    if method.input != kind:
        raise ValueError(
            f"{method!r} takes {method.input}, but the scores are {kind}: "
            "both have the parameter input"
        )
    from sklearn.base import clone  # a second to import: only for those who bring their own

    names = {cls: name for name, cls in REGISTRY.items()}
    parameters = repr(method).removeprefix(type(method).__name__)
    name = names.get(type(method), type(method).__name__)
    return name if parameters == "()" else name + parameters, clone(method)
