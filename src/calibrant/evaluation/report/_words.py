"""The report's summary in words: what was promised, what came, and how sure that is."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from calibrant.common.tables import counted
from calibrant.evaluation.comparison import Comparison, MethodResult
from calibrant.evaluation.diagrams import Reliability
from calibrant.evaluation.report._contents import BEFORE, Contents
from calibrant.metrics._tables import p_text

_HIGH = (0.5, 0.6, 0.7, 0.8, 0.9, 0.95, 0.99)  # of a confidence
_LEVELS = (0.01, 0.05, 0.1, 0.2, 0.3, 0.4, *_HIGH)  # of a class
_NEAR = 0.025  # how far from a level rows may be to speak for it
_ENOUGH = 0.01  # of all rows near it


def summary(contents: Contents) -> list[str]:
    """The sentences, the most important first."""
    return list(_sentences(contents))


def _sentences(contents: Contents) -> Iterator[str]:
    comparison, chosen = contents.comparison, contents.recommendation.method
    before, after = comparison[BEFORE], comparison[chosen]
    curves = [contents.shown[name].reliability["smooth"] for name in (BEFORE, chosen)]
    yield _promise(curves[0], curves[1], chosen)
    yield f"{_error(before, 'before calibration', comparison)}."
    if chosen != BEFORE:
        yield f"{_error(after, f'after {chosen}', comparison)}."
        yield _score(before, after, comparison)
        yield _accuracy(before, after)
    yield f"Recommended: {chosen}, because {contents.recommendation.why}."


def _promise(before: Reliability, after: Reliability, chosen: str) -> str:
    """'Where the model said 95%, it was right 83% of the time; after PTS 94%.'"""
    level = telling_level(before)
    if level is None:
        said = f"{before.mean_confidence:.0%} on average"
        return f"The model {_said(before, said)}, and {_came(before, before.mean_accuracy)}."
    found = f"Where the model {_said(before, f'{level:.0%}')}, {_came(before, _at(before, level))}"
    if chosen == BEFORE:
        return f"{found}."
    later = telling(after, level)
    if later is None:
        return f"{found}; after {chosen} it no longer says so."
    return f"{found}; after {chosen}, {later:.0%}."


def _said(curve: Reliability, chance: str) -> str:
    """'said 95%', or 'gave class 1 a probability of 95%'."""
    if curve.of == "confidence":
        return f"said {chance}"
    return f"gave {curve.of} a probability of {chance}"


def _came(curve: Reliability, share: float) -> str:
    """'it was right 83% of the time', or '83% of the rows were of class 1'."""
    if curve.of == "confidence":
        return f"it was right {share:.0%} of the time"
    return f"{share:.0%} of the rows were of {curve.of}"


def telling_level(curve: Reliability) -> float | None:
    """The round chance, said often enough, at which promise and truth lie furthest apart."""
    levels = _HIGH if curve.of == "confidence" else _LEVELS
    known = [level for level in levels if telling(curve, level) is not None]
    return max(known, key=lambda level: abs(_at(curve, level) - level), default=None)


def telling(curve: Reliability, level: float) -> float | None:
    """How often what rows of about this score promise came; None where there are too few."""
    near = np.abs(curve.confidence - level) <= _NEAR
    if curve.weight[near].sum() < _ENOUGH * curve.weight.sum():
        return None
    return _at(curve, level)


def _at(curve: Reliability, level: float) -> float:
    return float(np.interp(level, curve.confidence, curve.accuracy))


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
    said = (
        f"The log loss {_moves(before.nll, after.nll)} from {before.nll:.3f} to {after.nll:.3f} "
        f"nats, the Brier score {_moves(before.brier, after.brier)} from {before.brier:.3f} to "
        f"{after.brier:.3f}"
    )
    gap = after.differences["nll"]
    if best.method == after.method or gap.same:
        return f"{said}; no other method has a lower log loss."
    told = "beyond noise" if gap.adjusted_p_value < 0.05 else "which noise may explain"
    return f"{said}; {best.method} has {gap.value:.4f} less, {told} (p {_p(gap.adjusted_p_value)})."


def _moves(before: float, after: float) -> str:
    return "falls" if after < before else "rises"


def _accuracy(before: MethodResult, after: MethodResult) -> str:
    if after.accuracy_preserving:
        return f"The accuracy stays at {before.accuracy:.1%}: no prediction is changed."
    return (
        f"The accuracy goes from {before.accuracy:.1%} to {after.accuracy:.1%}: this method may "
        "change predictions."
    )


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
