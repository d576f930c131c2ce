"""What a report tells: every number of its page, computed once, and the summary in words."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from calibrant.calibrators import AutoCalibrator, Calibrator
from calibrant.common.arrays import to_numpy
from calibrant.common.tables import counted
from calibrant.common.types import InputKind, Report
from calibrant.evaluation import comparison as comparing
from calibrant.evaluation import diagrams
from calibrant.evaluation.comparison import Comparison, MethodResult, MetricOptions
from calibrant.evaluation.cross_validation import Experiment, HeldOutPredictions, Methods
from calibrant.evaluation.diagrams import Kind, Reliability
from calibrant.metrics._registry import metrics_named
from calibrant.metrics._reports import p_text

KINDS: tuple[Kind, ...] = ("equal-width", "equal-mass", "isotonic", "smooth")
METHODS = ("base", "ts", "ets", "svs", "irm", "diag", "pts", "mpts", "auto")
METRICS = ("accuracy", "ece", "classwise_ece", "brier", "nll")
BEFORE = "base"
MOST_MISTAKES = 20
_HIGH = (0.5, 0.6, 0.7, 0.8, 0.9, 0.95, 0.99)  # chances of a confidence to speak of
_CHANCES = (0.01, 0.05, 0.1, 0.2, 0.3, 0.4, *_HIGH)  # and of a class
_NEAR = 0.025  # how far from a chance rows may be to speak for it
_ENOUGH = 0.01  # of all rows near it


@dataclass(frozen=True)
class MethodDiagrams:
    """The diagrams of one method."""

    reliability: dict[Kind, Reliability]
    risk: diagrams.RiskCoverage
    bins: diagrams.BinSweep
    gaps: diagrams.ClassGaps
    # of a calibrator that has some, not the same for all rows
    temperatures: diagrams.Temperatures | None


@dataclass(frozen=True)
class Mistake:
    """A row that the model was sure of, and wrong: its number, and its confidences."""

    row: int
    predicted: int
    true: int
    before: float
    after: float


@dataclass(frozen=True)
class Contents:
    """All that the page shows."""

    comparison: Comparison
    diagrams: dict[str, MethodDiagrams]
    recommended: str  # a method that is chosen without a look at the rows that judge it
    why: str
    mistakes: tuple[Mistake, ...]
    n_classes: int
    input: InputKind
    one_temperature: float | None  # that of temperature scaling, where it was fitted
    class_names: tuple[str, ...]


def gather(
    experiment: Experiment,
    row_numbers: NDArray[np.intp],
    class_names: Sequence[str] | None,
    options: MetricOptions,
    report: Report,
) -> Contents:
    """Fit, judge and compute the diagrams; ``row_numbers`` are what users call held-out rows."""
    n_classes = experiment.train.n_classes
    names = tuple(map(str, range(n_classes) if class_names is None else class_names))
    if len(names) != n_classes:
        raise ValueError(
            f"class_names must have one name per class, got {len(names)} for {n_classes} classes"
        )
    drawn: dict[str, MethodDiagrams] = {}
    models: dict[str, Calibrator | None] = {}
    predicted: dict[str, NDArray[np.intp]] = {}
    confidence: dict[str, NDArray[Any]] = {}
    total = len(experiment.methods) + 1

    def with_diagrams() -> Iterator[HeldOutPredictions]:
        for done, one in enumerate(experiment.run()):
            report(done, total)
            drawn[one.method] = _diagrams(one, experiment.held_out.scores, options)
            models[one.method] = one.calibrator
            probs = to_numpy(one.rows.scores)
            predicted[one.method] = probs.argmax(axis=1)
            confidence[one.method] = probs.max(axis=1).astype(np.float64)
            yield one

    weighted = experiment.held_out.sample_weight is not None
    metrics = metrics_named(METRICS, weighted=weighted)
    comparison = comparing.compare_predictions(experiment, with_diagrams(), metrics, options)
    report(total - 1, total)
    recommended, why = _recommended(experiment, models, comparison)
    labels, before = experiment.held_out.labels, confidence[BEFORE]
    wrong = np.flatnonzero(predicted[BEFORE] != labels)
    surest = wrong[np.argsort(-before[wrong], kind="stable")]
    _, first = np.unique(row_numbers[surest], return_index=True)  # a split row is told of once
    surest = surest[np.sort(first)[:MOST_MISTAKES]]
    mistakes = tuple(
        Mistake(
            row=int(row_numbers[row]),
            predicted=int(predicted[BEFORE][row]),
            true=int(labels[row]),
            before=float(before[row]),
            after=float(confidence[recommended][row]),
        )
        for row in surest
    )
    report(total, total)
    return Contents(
        comparison=comparison,
        diagrams=drawn,
        recommended=recommended,
        why=why,
        mistakes=mistakes,
        n_classes=n_classes,
        input=experiment.train.input,
        one_temperature=getattr(models.get("ts"), "temperature_", None),
        class_names=names,
    )


def with_uncalibrated(methods: Methods | None) -> Methods:
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


def _diagrams(one: HeldOutPredictions, scores: Any, options: MetricOptions) -> MethodDiagrams:
    """The diagrams of a method's probabilities for rows of these scores."""
    probs, labels, weight = one.rows.scores, one.rows.labels, one.rows.sample_weight
    drawn: dict[str, Any] = {"random_state": options.random_state, "notion": options.notion}
    curves = {}
    for kind in KINDS:
        how = {"kind": kind, "n_bins": options.n_bins, "level": options.level, **drawn}
        curves[kind] = diagrams.reliability(probs, labels, sample_weight=weight, **how)
    found = None
    if one.calibrator is not None and hasattr(one.calibrator, "temperature"):
        found = diagrams.temperatures(one.calibrator, scores)
    return MethodDiagrams(
        reliability=curves,
        risk=diagrams.risk_coverage(probs, labels, sample_weight=weight),
        bins=diagrams.ece_by_bins(probs, labels, n_resamples=50, sample_weight=weight, **drawn),
        gaps=diagrams.class_gaps(probs, labels, sample_weight=weight),
        temperatures=found if found is not None and np.ptp(found.temperature) > 0.0 else None,
    )


def _recommended(
    experiment: Experiment, models: dict[str, Any], comparison: Comparison
) -> tuple[str, str]:
    """A method that validation rows choose, and why; test rows have no say."""
    auto = models.get("auto")
    if isinstance(auto, AutoCalibrator):
        why, members = auto.fit_info_.details["why"], " + ".join(auto.members_)
        return ("auto", f"it uses {members}, judged by held-out validation rows ({why})")
    if experiment.folds is None:
        again = Experiment.cross_validation(experiment.train, experiment.methods)
        nll, options = metrics_named(["nll"]), MetricOptions(n_resamples=0)
        comparison = comparing.compare_predictions(again, again.run(), nll, options)
    folds = f"a {comparison.n_folds}-fold cross-validation of the validation rows"
    chosen, best = comparison.recommended("nll"), comparison.best("nll")
    if chosen is best:
        return chosen.method, f"its log loss is the lowest in {folds}"
    return chosen.method, (
        f"it is the first whose log loss cannot be told from the lowest, that of {best.method}, in "
        f"{folds}"
    )


# --- the summary in words ---------------------------------------------------------------------


def summary(contents: Contents) -> list[str]:
    """The sentences, the most important first."""
    comparison, chosen = contents.comparison, contents.recommended
    before, after = comparison[BEFORE], comparison[chosen]
    curves = [contents.diagrams[name].reliability["smooth"] for name in (BEFORE, chosen)]
    sentences = [
        _promise(curves[0], curves[1], chosen),
        f"{_error(before, 'before calibration', comparison)}.",
    ]
    if chosen != BEFORE:
        stays = f"stays at {before.accuracy:.1%}: no prediction is changed"
        goes = (
            f"goes from {before.accuracy:.1%} to {after.accuracy:.1%}: this method may change "
            "predictions"
        )
        sentences += [
            f"{_error(after, f'after {chosen}', comparison)}.",
            _score(before, after, comparison),
            f"The accuracy {stays if after.accuracy_preserving else goes}.",
        ]
    return [*sentences, f"Recommended: {chosen}, because {contents.why}."]


def _promise(before: Reliability, after: Reliability, chosen: str) -> str:
    """'Where the model said 95%, it was right 83% of the time; after PTS, 94%.'"""
    said, came = "said {}", "it was right {:.0%} of the time"
    if before.of != "confidence":
        said = f"gave {before.of} a probability of {{}}"
        came = f"{{:.0%}} of the rows were of {before.of}"
    chance = worst_chance(before)
    if chance is None:
        mean = said.format(f"{before.mean_confidence:.0%} on average")
        return f"The model {mean}, and {came.format(before.mean_accuracy)}."
    share = came.format(share_near(before, chance))
    found = f"Where the model {said.format(f'{chance:.0%}')}, {share}"
    if chosen == BEFORE:
        return f"{found}."
    later = share_near(after, chance)
    if later is None:
        return f"{found}; after {chosen} it no longer says so."
    return f"{found}; after {chosen}, {later:.0%}."


def worst_chance(curve: Reliability) -> float | None:
    """The round chance, said often enough, at which promise and truth lie furthest apart."""
    chances = _HIGH if curve.of == "confidence" else _CHANCES
    gaps = {}
    for chance in chances:
        share = share_near(curve, chance)
        if share is not None:
            gaps[chance] = abs(share - chance)
    return max(gaps, key=gaps.__getitem__, default=None)


def share_near(curve: Reliability, chance: float) -> float | None:
    """How often what rows of about this score promise came; None where there are too few."""
    near = np.abs(curve.confidence - chance) <= _NEAR
    if curve.weight[near].sum() < _ENOUGH * curve.weight.sum():
        return None
    return float(np.interp(chance, curve.confidence, curve.accuracy))


def _error(result: MethodResult, when: str, comparison: Comparison) -> str:
    """'The ECE is 15.2% before calibration (1.0% would be chance)'."""
    estimate = result.estimates["ece"]
    which = "ECE of class 1" if comparison.notion == "class-1" else "ECE"
    start = f"The {which} is {estimate.value:.1%} {when}"
    if estimate.null is None or estimate.p_value is None:
        return start
    verdict = (
        "noise alone may explain it" if estimate.p_value >= 0.05 else "more than noise explains"
    )
    return (
        f"{start}, where a calibrated model would show {estimate.null:.1%} by chance: {verdict} "
        f"(p {_p(estimate.p_value, comparison.n_resamples)})"
    )


def _score(before: MethodResult, after: MethodResult, comparison: Comparison) -> str:
    best = comparison.best("nll")
    nll, brier = (
        f"{'falls' if new < old else 'rises'} from {old:.3f} to {new:.3f}"
        for old, new in ((before.nll, after.nll), (before.brier, after.brier))
    )
    said = f"The log loss {nll} nats, the Brier score {brier}"
    gap = after.differences["nll"]
    if best.method == after.method or gap.same:
        return f"{said}; no other method has a lower log loss."
    told = "beyond noise" if gap.adjusted_p_value < 0.05 else "which noise may explain"
    return f"{said}; {best.method} has {gap.value:.4f} less, {told} (p {_p(gap.adjusted_p_value)})."


def _p(value: float, n_resamples: int | None = None) -> str:
    text = p_text(value, n_resamples)
    return text if text.startswith("<") else f"= {text}"


def sizes(contents: Contents) -> str:
    """'Fitted on 5,000 rows, judged on 10,000 others, 100 classes.'"""
    comparison, classes = contents.comparison, counted(contents.n_classes, "class")
    if comparison.n_folds is not None:
        return (
            f"{comparison.n_folds}-fold cross-validation of {counted(comparison.n_val, 'row')}, "
            f"{classes}."
        )
    fitted, judged = counted(comparison.n_val, "row"), counted(comparison.n_test, "other row")
    return f"Fitted on {fitted}, judged on {judged}, {classes}."
