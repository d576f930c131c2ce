"""MAPIE's tests of its calibration metrics: KS, Kuiper, Spiegelhalter and errors over bins."""

from __future__ import annotations

from typing import Any

import numpy as np
from scipy.special import ndtr

from calibrant import metrics
from calibrant.metrics._labelled import Outcomes
from calibrant.metrics.cumulative import cumulative_differences, ks_p_value, kuiper_p_value
from peer_sources import from_sdist
from peer_suite import Suite

KUIPER = (
    "MAPIE leaves the 0 before the first row out of the range; Arrieta-Ibarra et al. (JMLR 2022) "
    "and Tygert (2023) have it in, and so has the distribution of the p-value"
)
TOP_LABEL = (
    "MAPIE averages the predicted classes as if each had equally many rows; calibrant weighs them "
    "by their rows, and has bins of equal mass"
)
ONE_COLUMN = "one column is the probability of class 1 of two, whose classes have an error"
NO_LABELS = "labels that are None are a TypeError, not a ValueError"


def _outcomes(events: Any, chances: Any) -> Outcomes:
    chances = np.asarray(chances)
    return Outcomes.of_columns(chances, np.asarray(events) == 1)


def _path(events: Any, chances: Any) -> np.ndarray:
    path, _ = cumulative_differences(_outcomes(events, chances))
    return path / len(path)


def _length_scale(chances: Any) -> float:
    _, deviation = cumulative_differences(_outcomes(np.zeros(len(chances)), chances))
    return deviation / len(chances)


def _ks(events: Any, chances: Any) -> metrics.CumulativeTest:
    return metrics.ks_test(chances, np.asarray(events, int))


def _kuiper(events: Any, chances: Any) -> metrics.CumulativeTest:
    return metrics.kuiper_test(chances, np.asarray(events, int))


def _z(events: Any, chances: Any) -> float:
    return metrics.spiegelhalter_test(chances, np.asarray(events, int)).z


def _one_sided(events: Any, chances: Any) -> float:
    """Theirs is the p-value of a Brier score worse than promised; calibrant's is two-sided."""
    return float(ndtr(-_z(events, chances)))


def expected_calibration_error(
    correct: Any, scores: Any, num_bins: int = 50, classwise: bool = False, class_labels: Any = None
) -> float:
    """Stand for the function of this name, whose ``num_bins`` counts the edges."""
    if classwise:
        return metrics.classwise_ece(scores, class_labels, num_bins - 1)
    top = scores if np.ndim(scores) == 1 else np.max(scores, axis=1)
    return metrics.BinStats.from_confidence(top, np.asarray(correct), num_bins - 1).error()


def top_label_ece(labels: Any, scores: Any, predicted: Any = None, **options: Any) -> float:
    """Stand for the function of this name, which takes labels of any kind."""
    predicted = options.get("y_score_arg", predicted)
    if predicted is None:
        names = options.get("classes", np.arange(scores.shape[1]))
        return metrics.top_label_ece(scores, np.searchsorted(names, labels), row_sums="raw")
    names = np.unique(np.concatenate([labels, predicted]))
    rows = np.where(predicted[:, None] == names, scores[:, None], 0.0)
    return metrics.top_label_ece(rows, np.searchsorted(names, labels), row_sums="raw")


SUITE = Suite(
    package="mapie",
    author="theirs",
    find=lambda: from_sdist(
        "mapie==1.6.0",
        "471631634184c4cc22641b8a72572df5b5e281e237b0c00ec6c1c668b78767c2",
        "mapie/tests/test_metrics.py",
    ),
    replaced={
        "cumulative_differences": _path,
        "length_scale": _length_scale,
        "kolmogorov_smirnov_statistic": lambda *given: _ks(*given).statistic,
        "kolmogorov_smirnov_p_value": lambda *given: _ks(*given).p_value,
        "kolmogorov_smirnov_cdf": lambda x: 1.0 - ks_p_value(x),
        "kuiper_statistic": lambda *given: _kuiper(*given).statistic,
        "kuiper_p_value": lambda *given: _kuiper(*given).p_value,
        "kuiper_cdf": lambda x: 1.0 - kuiper_p_value(x),
        "spiegelhalter_statistic": _z,
        "spiegelhalter_p_value": _one_sided,
        "expected_calibration_error": expected_calibration_error,
        "top_label_ece": top_label_ece,
    },
    expected={
        r"test_kuiper_statistic": KUIPER,
        r"test_top_label_ece": TOP_LABEL,
        r"test_ece_classwise_1d_raises_error": ONE_COLUMN,
        r"test_ece_classwise_requires_class_labels": NO_LABELS,
    },
)
