"""What a report tells: every number of its page, computed once."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from calibrant.calibrators import AutoCalibrator
from calibrant.common.arrays import to_numpy
from calibrant.common.types import Floats, InputKind, RandomState, Report
from calibrant.data.checks import as_numpy
from calibrant.evaluation.comparison import Comparison, compare, compared
from calibrant.evaluation.cross_validation import Judged, Methods, Trial
from calibrant.evaluation.diagrams import (
    BinSweep,
    ClassGaps,
    Kind,
    Reliability,
    RiskCoverage,
    Temperatures,
    class_gaps,
    ece_by_bins,
    reliability,
    risk_coverage,
    temperatures,
)
from calibrant.metrics._labelled import Labelled
from calibrant.metrics._notions import RowNotion
from calibrant.metrics._registry import metrics_named

KINDS: tuple[Kind, ...] = ("equal-width", "equal-mass", "isotonic", "smooth")
METHODS = ("base", "ts", "ets", "svs", "irm", "diag", "pts", "mpts", "auto")
METRICS = ("accuracy", "ece", "classwise_ece", "brier", "nll")
BEFORE = "base"
MOST_MISTAKES = 20


@dataclass(frozen=True)
class Shown:
    """The diagrams of one method."""

    method: str
    reliability: dict[Kind, Reliability]
    risk: RiskCoverage
    bins: BinSweep
    gaps: ClassGaps
    temperatures: Temperatures | None


@dataclass(frozen=True)
class Mistake:
    """A row that the model was sure of, and wrong."""

    row: int
    predicted: int
    true: int
    before: float
    after: float


@dataclass(frozen=True)
class Recommendation:
    """A method, and why it: chosen without a look at the rows that judge it."""

    method: str
    why: str


@dataclass(frozen=True)
class Contents:
    """All that the page shows."""

    comparison: Comparison
    shown: dict[str, Shown]
    recommendation: Recommendation
    mistakes: tuple[Mistake, ...]
    n_classes: int
    input: InputKind
    one_temperature: float | None  # that of temperature scaling, where it was fitted
    class_names: tuple[str, ...]


def gather(
    scores: Sequence[Any],
    *,
    methods: Methods | None,
    input: InputKind,  # noqa: A002 - the word of the whole public interface
    weights: tuple[Any, Any],
    ignore_index: int | None,
    class_names: Sequence[str] | None,
    n_bins: int,
    level: float,
    n_resamples: int,
    random_state: RandomState,
    notion: RowNotion | None,
    report: Report,
) -> Contents:
    """Fit, judge and draw: ``scores`` are validation scores and labels, and test ones or None."""
    trial = Trial.of(
        *scores,
        methods=with_before(methods),
        input=input,
        val_weight=weights[0],
        test_weight=weights[1],
        ignore_index=ignore_index,
    )
    n_classes = int(trial.fitted.scores.shape[1])
    names = _checked_names(class_names, n_classes)
    shown: dict[str, Shown] = {}
    models: dict[str, Any] = {}
    answers: dict[str, _Answers] = {}
    total = len(trial.methods) + 1

    def drawn() -> Iterator[Judged]:
        for done, one in enumerate(trial.outcomes()):
            report(done, total)
            shown[one.method] = _diagrams(trial, one, n_bins, level, random_state, notion)
            answers[one.method] = _Answers.of(trial.labelled(one))
            models[one.method] = one.calibrator
            yield one

    comparison = compared(
        trial,
        drawn(),
        metrics_named(METRICS, weighted=trial.judged.weight is not None),
        n_bins=n_bins,
        level=level,
        n_resamples=n_resamples,
        random_state=random_state,
        notion=notion,
    )
    report(total - 1, total)
    recommendation = recommended(trial, models, comparison)
    mistakes = _mistakes(answers[BEFORE], answers[recommendation.method])
    numbers = _row_numbers(scores, weights, ignore_index)
    report(total, total)
    return Contents(
        comparison=comparison,
        shown=shown,
        recommendation=recommendation,
        mistakes=tuple(replace(one, row=int(numbers[one.row])) for one in mistakes),
        n_classes=n_classes,
        input=input,
        one_temperature=getattr(models.get("ts"), "temperature_", None),
        class_names=names,
    )


def _checked_names(class_names: Sequence[str] | None, n_classes: int) -> tuple[str, ...]:
    """What the classes are called; refused before the first fit where there are too few or many."""
    if class_names is None:
        return tuple(map(str, range(n_classes)))
    names = tuple(map(str, class_names))
    if len(names) != n_classes:
        raise ValueError(
            f"class_names must have one name per class, got {len(names)} for {n_classes} classes"
        )
    return names


def with_before(methods: Methods | None) -> Methods:
    """The methods, the scores as they are among them: a report shows before and after."""
    if methods is None:
        return METHODS
    if isinstance(methods, str):
        return dict.fromkeys((BEFORE, methods)).keys()
    if isinstance(methods, dict):
        return {BEFORE: BEFORE, **methods}
    if isinstance(methods, Iterable):
        named = list(methods)
        return named if BEFORE in named else [BEFORE, *named]
    return [BEFORE, methods]


def _diagrams(
    trial: Trial,
    one: Judged,
    n_bins: int,
    level: float,
    random_state: RandomState,
    notion: RowNotion | None,
) -> Shown:
    rows: tuple[Any, Any] = one.probs, trial.judged.labels
    weight = trial.judged.weight
    judged: dict[str, Any] = {"random_state": random_state, "notion": notion}
    return Shown(
        method=one.method,
        reliability={
            kind: reliability(
                *rows,
                kind=kind,
                n_bins=n_bins,
                level=level,
                sample_weight=weight,
                **judged,
            )
            for kind in KINDS
        },
        risk=risk_coverage(*rows, sample_weight=weight),
        bins=ece_by_bins(*rows, n_resamples=50, sample_weight=weight, **judged),
        gaps=class_gaps(*rows, sample_weight=weight),
        temperatures=_temperatures(trial, one),
    )


def _temperatures(trial: Trial, one: Judged) -> Temperatures | None:
    """Those of a calibrator that has some, and not the same for all rows."""
    model = one.calibrator
    if model is None or not hasattr(model, "temperature"):
        return None
    found = temperatures(model, trial.judged.scores)
    return found if np.ptp(found.temperature) > 0.0 else None


# --- which method -----------------------------------------------------------------------------


def recommended(trial: Trial, models: dict[str, Any], comparison: Comparison) -> Recommendation:
    """A method that validation rows choose; the judged rows have no say where there are others."""
    auto = models.get("auto")
    if isinstance(auto, AutoCalibrator):
        why = auto.fit_info_.details["why"]
        return Recommendation(
            "auto", f"it chose {auto.method_} by validation rows that each fit leaves out ({why})"
        )
    if not trial.folds:
        fitted = trial.fitted
        comparison = compare(
            fitted.scores,
            fitted.labels,
            methods=trial.methods,
            metrics=["nll"],
            input=next(iter(trial.methods.values())).input,
            n_resamples=0,
            val_weight=fitted.weight,
        )
    folds = f"{comparison.n_folds}-fold cross-validation of the validation rows"
    chosen, best = comparison.recommended("nll"), comparison.best("nll")
    if chosen is best:
        return Recommendation(chosen.method, f"its log loss is the lowest in a {folds}")
    return Recommendation(
        chosen.method,
        f"it is the first whose log loss cannot be told from the lowest, that of {best.method}, in "
        f"a {folds}",
    )


# --- mistakes ---------------------------------------------------------------------------------


class _Answers(NamedTuple):
    """What a method says of each row, and what is true."""

    predicted: NDArray[np.intp]
    confidence: Floats
    true: NDArray[np.int64]

    @classmethod
    def of(cls, data: Labelled) -> _Answers:
        probs = to_numpy(data.probs)
        return cls(probs.argmax(axis=1), probs.max(axis=1).astype(np.float64), data.labels)


def _mistakes(before: _Answers, after: _Answers) -> Iterator[Mistake]:
    """The surest wrong predictions before calibration, the surest first."""
    wrong = np.flatnonzero(before.predicted != before.true)
    for row in wrong[np.argsort(-before.confidence[wrong], kind="stable")[:MOST_MISTAKES]]:
        yield Mistake(
            row=int(row),
            predicted=int(before.predicted[row]),
            true=int(before.true[row]),
            before=float(before.confidence[row]),
            after=float(after.confidence[row]),
        )


def _row_numbers(
    scores: Sequence[Any], weights: tuple[Any, Any], ignore_index: int | None
) -> NDArray[np.intp]:
    """The numbers that the judged rows have in what the caller gave."""
    crossed = scores[2] is None
    labels = as_numpy(scores[1] if crossed else scores[3])
    used = np.ones(len(labels), bool)
    if ignore_index is not None and labels.size == len(labels):  # one-hot rows ignore nothing
        used = labels.ravel() != ignore_index
    if crossed and weights[0] is not None:  # cross-validation leaves out rows of weight 0
        used &= as_numpy(weights[0]) > 0.0
    return np.flatnonzero(used)
