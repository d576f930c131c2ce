"""Methods on trial: fitted on some rows, each gives probabilities to the rows it is judged on.

There are two ways to have such rows: test rows of their own, or one set of rows of which a part is
left out in turn (cross-validation), so that nobody need choose a method on the test rows.
"""

from __future__ import annotations

import re
import time
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
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
from calibrant.common.types import Array, InputKind, Report
from calibrant.data.binning import check_count
from calibrant.data.checks import as_numpy
from calibrant.data.likely_mistakes import (
    LIKE_PROBABILITIES,
    looks_like_probabilities,
    warn_if_probabilities,
)
from calibrant.data.rows import Rows
from calibrant.metrics._labelled import Labelled, labelled
from calibrant.metrics._notions import RowNotion

DEFAULT_FOLDS = 5
_OF_THE_FIRST = "; the numbers are those of the first"  # of the folds that gave a warning

Method = str | Calibrator
Methods = Method | Iterable[Method] | Mapping[str, Method]


@dataclass(frozen=True)
class Judged:
    """One method, and what it gives the judged rows.

    Parameters
    ----------
    method : str
        What the method is called.
    probs : array of shape (n_test, n_classes)
        The probabilities of the judged rows, in their order.
    calibrator : Calibrator or None
        The fitted calibrator; None under cross-validation, where there is one for each fold.
    accuracy_preserving : bool
        Whether no class can pass the one that the classifier chose.
    fit_seconds : float
        How long the fit took; under cross-validation the mean of the folds.
    notes : tuple of str
        What the fits warned of; under cross-validation each warning once, with the number of folds.
    """

    method: str
    probs: Array
    calibrator: Calibrator | None
    accuracy_preserving: bool
    fit_seconds: float
    notes: tuple[str, ...]


@dataclass(frozen=True)
class Trial:
    """Methods, the rows to fit them on and the rows to judge them on, all of it checked.

    Parameters
    ----------
    methods : dict of str to Calibrator
        Unfitted calibrators of this trial alone, by what they are called.
    fitted : Rows
        The rows to fit on.
    judged : Rows
        The rows to judge on; under cross-validation those to fit on.
    folds : list of arrays
        The rows that each fold leaves out; empty where there are test rows.
    n_used : int or None
        How many rows there are, before those whose weight lies in several folds were split; None
        where there are test rows.

    Examples
    --------
    >>> logits, labels = [[3.0, 0.0], [0.0, 3.0], [2.0, 0.0], [0.0, 1.0]], [0, 1, 1, 0]
    >>> trial = Trial.of(logits, labels, logits, labels, methods=["base", "ts"])
    >>> [(one.method, one.probs.shape) for one in trial.outcomes()]
    [('base', (4, 2)), ('ts', (4, 2))]
    """

    methods: dict[str, Calibrator]
    fitted: Rows
    judged: Rows
    folds: Sequence[NDArray[np.intp]] = ()
    n_used: int | None = None

    @classmethod
    def of(
        cls,
        val_scores: Any,
        val_labels: Any,
        test_scores: Any = None,
        test_labels: Any = None,
        *,
        methods: Methods | None = None,
        input: InputKind = "logits",  # noqa: A002 - the word of the whole public interface
        val_weight: Any = None,
        test_weight: Any = None,
        ignore_index: int | None = None,
        covariates: Any = None,
        test_covariates: Any = None,
        cv: int = DEFAULT_FOLDS,
    ) -> Trial:
        """Check everything before the first fit; the arguments are those of ``compare``."""
        given = partial(Rows.of, input=input, ignore_index=ignore_index)
        fitted = given(val_scores, val_labels, val_weight, covariates=covariates)
        n_rows, n_classes = fitted.scores.shape
        if test_scores is None:
            _refuse_test_rows(test_labels, test_weight)
            rows, folds, n_used = _folded(fitted, cv)
            named = _methods_named(methods, input, n_rows, n_classes)
            return cls(named, rows, rows, folds, n_used)
        if test_labels is None:
            raise TypeError("test_scores need test_labels; without both, rows are cross-validated")
        judged = given(
            test_scores,
            test_labels,
            test_weight,
            n_classes=n_classes,
            covariates=test_covariates,
        )
        if judged.n_classes != n_classes:
            raise ValueError(
                "validation and test scores must have the same classes, got "
                f"{n_classes} and {judged.n_classes}"
            )
        if input == "logits":
            _warn_once_if_probabilities(fitted.scores, judged.scores)
        return cls(_methods_named(methods, input, n_rows, n_classes), fitted, judged)

    @property
    def n_val(self) -> int:
        """The rows to fit on; under cross-validation all of them, of which each fit sees most."""
        return len(self.fitted) if self.n_used is None else self.n_used

    @property
    def n_test(self) -> int:
        """The rows to judge on."""
        return len(self.judged) if self.n_used is None else self.n_used

    def labelled(self, one: Judged, notion: RowNotion | None = None) -> Labelled:
        """The probabilities of a method beside the labels and weights of the judged rows."""
        return labelled(one.probs, self.judged.labels, self.judged.sample_weight, notion=notion)

    def outcomes(self, report: Report = lambda done, total: None) -> Iterator[Judged]:
        """Fit one method after the other; only the one at hand is held in memory."""
        fits, total = 0, len(self.methods) * max(len(self.folds), 1)

        def before_a_fit() -> None:
            nonlocal fits
            report(fits, total)
            fits += 1

        for name, model in self.methods.items():
            if self.folds:
                yield self._cross_validated(name, model, before_a_fit)
                continue
            before_a_fit()
            probs, seconds, notes = _tried(model, self.fitted, self.judged)
            kept = bool(model.accuracy_preserving)
            yield Judged(name, probs, model, kept, seconds, notes)
        report(total, total)

    def _cross_validated(
        self, name: str, model: Calibrator, before_a_fit: Callable[[], None]
    ) -> Judged:
        """The rows of each fold by a fit on the other folds."""
        parts, times, kept = [], [], True
        notes: list[tuple[str, ...]] = []
        everyone = np.arange(len(self.fitted.labels))
        for fold in self.folds:
            before_a_fit()
            others = self.fitted.take(np.setdiff1d(everyone, fold))
            part, seconds, told = _tried(model, others, self.judged.take(fold))
            parts.append(as_numpy(part))
            times.append(seconds)
            notes.append(told)
            kept = kept and bool(model.accuracy_preserving)
        probs = np.empty((len(everyone), parts[0].shape[1]), parts[0].dtype)
        for fold, part in zip(self.folds, parts, strict=True):
            probs[fold] = part
        return Judged(name, probs, None, kept, float(np.mean(times)), notes_of_folds(notes))


def _tried(model: Calibrator, rows: Rows, judged: Rows) -> tuple[Array, float, tuple[str, ...]]:
    """Fit on some rows: the probabilities of others, the seconds of the fit, and its warnings.

    That logits look like probabilities is a matter of the data: ``Trial.of`` has told it once.
    """
    with noted() as told:
        seconds, notes = timed_fit(model, rows.only(model.uses))
        probs = model.predict_proba(judged.only(model.uses))
    every = dict.fromkeys((*notes, *told))
    return probs, seconds, tuple(note for note in every if not note.startswith(LIKE_PROBABILITIES))


def notes_of_folds(folds: Sequence[Sequence[str]]) -> tuple[str, ...]:
    """The warnings of all folds, each once, with the number of folds that gave it.

    Warnings that differ in their numbers alone are one: the numbers shown are those of the first.

    >>> notes_of_folds([["the loss is 0.51"], ["the loss is 0.48"], []])
    ('the loss is 0.51 (in 2 of 3 folds; the numbers are those of the first)',)
    """
    alike: dict[str, list[str]] = {}
    for fold in folds:
        for kind, note in {without_numbers(note): note for note in fold}.items():
            alike.setdefault(kind, []).append(note)
    return tuple(
        f"{notes[0]} (in {len(notes)} of {len(folds)} folds"
        f"{_OF_THE_FIRST if len(set(notes)) > 1 else ''})"
        for notes in alike.values()
    )


def without_numbers(note: str) -> str:
    """What warnings about different rows have in common."""
    return re.sub(r"\d[\d.,]*(?:e[+-]?\d+)?", "#", note.replace(_OF_THE_FIRST, ""))


def _warn_once_if_probabilities(*scores: Array) -> None:
    """Warn of the first array that was given as logits and looks otherwise."""
    for array in scores:
        if looks_like_probabilities(array):
            warn_if_probabilities(array)
            return


def timed_fit(
    model: Any, scores: Any, labels: Any = None, sample_weight: Any = None
) -> tuple[float, tuple[str, ...]]:
    """Fit a calibrator, and catch what it warns of; warnings of others pass.

    >>> import calibrant
    >>> seconds, notes = timed_fit(calibrant.TS(), [[2.0, 0.0], [1.0, 0.0]], [0, 1])
    >>> seconds > 0.0, len(notes)
    (True, 0)
    """
    with noted() as notes:
        started = time.perf_counter()
        model.fit(scores, labels, sample_weight=sample_weight)
        seconds = time.perf_counter() - started
    return seconds, tuple(notes)


# --- rows left out in turn --------------------------------------------------------------------


def _refuse_test_rows(labels: Any, weight: Any) -> None:
    for name, given in (("test_labels", labels), ("test_weight", weight)):
        if given is not None:
            raise TypeError(f"{name} needs test_scores; without them, rows are cross-validated")


def _folded(rows: Rows, cv: int) -> tuple[Rows, list[NDArray[np.intp]], int]:
    """The rows of positive weight in main memory, the folds, and how many rows were given.

    A row whose weight lies in several folds is in each of them, with its weight there.
    """
    check_count(cv, "cv")
    if cv < 2:
        raise ValueError(f"cv must be at least 2, got {cv}")
    labelled(rows.scores, rows.labels, rows.sample_weight, input=rows.input)  # checks the scores
    data = rows.with_scores(to_numpy(rows.scores), rows.input).of_some_weight()
    folds = data.folds(cv)
    if len(folds.parts) < 2:
        raise ValueError(f"there must be rows to leave out, got {len(data)} in all")
    return folds.rows(data), folds.parts, len(data)


# --- methods ----------------------------------------------------------------------------------


def _methods_named(
    methods: Methods | None, kind: InputKind, n_rows: int, n_classes: int
) -> dict[str, Calibrator]:
    """Unfitted calibrators by what they are called; None is all that take so many classes."""
    if methods is None:
        return {name: calibrator(name, input=kind) for name in _fitting(n_rows, n_classes)}
    named: dict[str, Calibrator] = {}
    for name, method in _called(methods):
        model = _unfitted(method, kind)
        if model.two_classes_only and n_classes != 2:
            raise ValueError(f"{type(model).__name__} is for two classes, got {n_classes}")
        if name in named and not isinstance(method, str):
            raise ValueError(
                f"two methods are called {name!r}: name them, as in "
                "methods={'first': TS(), 'second': TS(loss='brier')}"
            )
        named.setdefault(name, model)
    if not named:
        raise ValueError(f"methods must name at least one of {', '.join(REGISTRY)}, got none")
    return named


def _called(methods: Methods) -> Iterator[tuple[str, Method]]:
    """Methods with what they are called."""
    if isinstance(methods, Mapping):
        yield from ((str(name), method) for name, method in methods.items())
        return
    for method in [methods] if isinstance(methods, str | Calibrator) else methods:
        if isinstance(method, str):
            yield acronym(method), method  # refuses what is none
        elif isinstance(method, Calibrator):
            yield _short_name(method), method
        else:
            raise _no_method(method)


def _no_method(method: object) -> TypeError:
    return TypeError(f"methods must be names such as 'ts' or calibrators, got {shown(method)}")


def _short_name(model: Calibrator) -> str:
    """The acronym, and in brackets the parameters that are not the defaults."""
    keys = {cls: name for name, cls in REGISTRY.items()}
    name = keys.get(type(model), type(model).__name__)
    parameters = repr(model).removeprefix(type(model).__name__)
    return name if parameters == "()" else name + parameters


def _unfitted(method: Method, kind: InputKind) -> Calibrator:
    """A calibrator of our own: somebody else's stays as it is."""
    if isinstance(method, str):
        return calibrator(method, input=kind)
    if not isinstance(method, Calibrator):
        raise _no_method(method)
    if method.input != kind:
        raise ValueError(
            f"{method!r} takes {method.input}, but the scores are {kind}: "
            "both have the parameter input"
        )
    from sklearn.base import clone  # a second to import: only for those who bring their own

    copy: Calibrator = clone(method)
    return copy


def _fitting(n_rows: int, n_classes: int) -> list[str]:
    """The methods that take scores of this size; that some would need too much memory is told."""
    load_plugins()
    names = [name for name, cls in REGISTRY.items() if n_classes == 2 or not cls.two_classes_only]
    needs = {name: calibrator(name)._memory_needed(n_rows, n_classes) for name in names}
    too_large = [name for name, needed in needs.items() if lacks_memory(needed)]
    if too_large:
        warn(f"left out, since they need more memory than is available: {', '.join(too_large)}")
    return [name for name in names if name not in too_large]
