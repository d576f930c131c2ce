"""Many methods side by side: fitted on the same validation rows, judged on the same test rows."""

from __future__ import annotations

import time
import warnings
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import Any

from calibrant._arrays import InputKind, as_scores
from calibrant._errors import CalibrationWarning
from calibrant.calibrators import REGISTRY, calibrator
from calibrant.metrics import accuracy, brier, classwise_ece, ece, nll

TWO_CLASS_METHODS = ("platt", "beta")

Progress = Callable[[int, int, str], None]  # (methods done, in all, the one that is next)


@dataclass(frozen=True)
class MethodResult:
    """How one method did on the test rows. All measures are fractions."""

    method: str
    preserves_accuracy: bool
    accuracy: float
    ece: float
    classwise_ece: float
    brier: float
    nll: float
    fit_seconds: float
    notes: tuple[str, ...]  # what the fit warned of


def compare(
    val_scores: Any,
    val_labels: Any,
    test_scores: Any,
    test_labels: Any,
    *,
    methods: Iterable[str] | None = None,
    input: InputKind = "logits",  # noqa: A002 - the word of the whole public interface
    bins: int = 15,
    progress: Progress | None = None,
) -> list[MethodResult]:
    """Fit every method (or those named) on validation rows and judge it on test rows.

    Methods for two classes are left out where there are more, unless they are named.
    """
    names = list(methods) if methods is not None else _fitting(as_scores(val_scores, input))
    results = []
    for done, name in enumerate(names):
        if progress is not None:
            progress(done, len(names), name)
        model = calibrator(name, input=input)
        seconds, notes = timed_fit(model, val_scores, val_labels)
        probs = model.predict_proba(test_scores)
        results.append(
            MethodResult(
                name,
                model.accuracy_preserving,
                accuracy(probs, test_labels),
                ece(probs, test_labels, bins=bins),
                classwise_ece(probs, test_labels, bins=bins),
                brier(probs, test_labels),
                nll(probs, test_labels),
                seconds,
                notes,
            )
        )
    return results


def _fitting(scores: Any) -> list[str]:
    """The methods that take scores with so many classes."""
    two = scores.shape[1] == 2
    return [name for name in REGISTRY if two or name not in TWO_CLASS_METHODS]


def timed_fit(model: Any, scores: Any, labels: Any) -> tuple[float, tuple[str, ...]]:
    """Fit; returns the seconds that it took and what it warned of."""
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always", CalibrationWarning)
        started = time.perf_counter()
        model.fit(scores, labels)
        seconds = time.perf_counter() - started
    return seconds, tuple(str(warning.message) for warning in caught)
