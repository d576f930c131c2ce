"""The reliability diagram: what was promised against what came."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from reprlib import repr as shown
from typing import Any, get_args

import numpy as np

from calibrant.common.documents import PlainDocument
from calibrant.common.random import generator
from calibrant.common.tables import counted
from calibrant.common.types import Floats, InputKind, RandomState, RowRule
from calibrant.data.binning import BinStats, check_count
from calibrant.data.checks import as_numpy
from calibrant.data.weights import weighted_mean
from calibrant.evaluation.diagrams._curves import Curve, Ranges, curve_of
from calibrant.evaluation.diagrams._curves import Kind as Kind
from calibrant.metrics._intervals import check_level, check_resamples
from calibrant.metrics._labelled import Labelled, labelled
from calibrant.metrics._notions import RowNotion
from calibrant.metrics._outcomes import Outcomes, class_outcomes, judged_outcomes
from calibrant.metrics._readings import DEFAULT_BINS

DEFAULT_RESAMPLES = 500


@dataclass(frozen=True, repr=False)
class Reliability(PlainDocument):
    """A reliability diagram as numbers: the curve, its interval and a calibrated model's band.

    Parameters
    ----------
    kind : {"equal-width", "equal-mass", "isotonic", "smooth"}
        How the curve was found.
    of : str
        Whose scores and events: "confidence", or "class 1".
    confidence : ndarray of shape (n_points,)
        The promised chance: the mean score of a bin, or where the curve is given. NaN for empty
        bins.
    accuracy : ndarray of shape (n_points,)
        The share of predictions that were right, or of rows of the class; NaN for empty bins.
    weight : ndarray of shape (n_points,)
        The rows of a bin, of a piece of an isotonic curve, or nearest to a point of a smooth one.
    low : ndarray of shape (n_points,)
        The low end of the interval of the accuracy.
    high : ndarray of shape (n_points,)
        The high end of the interval of the accuracy.
    band_low : ndarray of shape (n_points,)
        Where the accuracy of a calibrated model would begin.
    band_high : ndarray of shape (n_points,)
        Where the accuracy of a calibrated model would end.
    edges : ndarray of shape (n_points + 1,) or None
        The edges of the bins; None for curves without.
    error : float
        The mean distance of curve and diagonal; of bins, their ECE.
    mean_confidence : float
        The mean score.
    mean_accuracy : float
        The share of events.
    histogram : BinStats
        The scores in bins of equal width.
    n_rows : int
        The number of rows.
    level : float
        The level of interval and band.
    """

    kind: Kind
    of: str
    confidence: Floats
    accuracy: Floats
    weight: Floats
    low: Floats
    high: Floats
    band_low: Floats
    band_high: Floats
    edges: Floats | None
    error: float
    mean_confidence: float
    mean_accuracy: float
    histogram: BinStats
    n_rows: int
    level: float

    def __repr__(self) -> str:
        sizes = f"{counted(len(self.confidence), 'point')}, {counted(self.n_rows, 'row')}"
        of = "the confidence" if self.of == "confidence" else self.of
        return f"Reliability of {of} ({self.kind}): {sizes}, error {self.error:.4f}"

    @property
    def score_label(self) -> str:
        """What the promised chance is called: "confidence", or "probability of class 1"."""
        return self.of if self.of == "confidence" else f"probability of {self.of}"

    @property
    def share_label(self) -> str:
        """What the share of events is called: "accuracy", or "share of class 1"."""
        return "accuracy" if self.of == "confidence" else f"share of {self.of}"

    @property
    def gap(self) -> Floats:
        """Accuracy minus confidence: negative where over-confident; NaN for empty bins."""
        return np.asarray(self.accuracy - self.confidence)

    @property
    def outside(self) -> Any:
        """Which points lie outside the band: a calibrated model would seldom show them."""
        return (self.accuracy < self.band_low) | (self.accuracy > self.band_high)


def reliability(
    probs: Any,
    labels: Any,
    *,
    kind: Kind = "equal-width",
    n_bins: int = DEFAULT_BINS,
    class_index: int | None = None,
    level: float = 0.95,
    n_resamples: int = DEFAULT_RESAMPLES,
    random_state: RandomState = None,
    notion: RowNotion | None = None,
    sample_weight: Any = None,
    row_sums: RowRule = "strict",
    input: InputKind = "probs",  # noqa: A002 - the word of the whole public interface
    ignore_index: int | None = None,
) -> Reliability:
    """Compute a reliability diagram.

    Parameters
    ----------
    probs : array of shape (n_rows, n_classes) or (n_rows,)
        Probabilities, or logits with ``input="logits"``; 1-D for class 1 of two.
    labels : array of shape (n_rows,)
        The true classes as integers from 0, or one-hot rows.
    kind : {"equal-width", "equal-mass", "isotonic", "smooth"}, default "equal-width"
        Bins of equal width or with equally many rows; isotonic regression, which needs no bins
        (CORP); or a kernel, wide where rows are few.
    n_bins : int, default 15
        The number of bins, also of the histogram.
    class_index : int, optional
        The class whose probability is shown, in place of ``notion``.
    level : float, default 0.95
        The level of interval and band.
    n_resamples : int, default 500
        How often events are drawn for the band, and for the interval of curves without bins. 0
        leaves them out: they are NaN.
    random_state : int, numpy.random.Generator or None, optional
        The seed of the draws; None is 0.
    notion : {"class-1", "confidence"}, optional
        Whose calibration: class 1's of two classes, or that of the confidence, the largest
        probability of a row. By default class 1's with two classes, and the confidence's with
        more.
    sample_weight : array of shape (n_rows,), optional
        The weight of each row; all 1 by default.
    row_sums : {"strict", "normalize", "raw"}, default "strict"
        Rows that do not sum to 1 are refused, divided by their sum, or taken as they are.
    input : {"probs", "logits"}, default "probs"
        What the scores are.
    ignore_index : int, optional
        Rows with this label are left out.

    Returns
    -------
    Reliability
        The curve with its interval, the band, and the histogram.

    Raises
    ------
    ValueError
        Where an argument is refused: the message names the rule, the value and the row.

    Notes
    -----
    The interval of a bin, or of a piece of an isotonic curve, is Clopper and Pearson's, of its
    effective rows; a smooth curve's is where curves of events drawn from it scatter. The band
    holds, at every point by itself, the middle 95% of what the same scores show where every event
    comes with its promised chance: one point in twenty of a calibrated model lies outside. (The
    ends of isotonic pieces are where the curve has just jumped: of these, one in ten.)

    References
    ----------
    Broecker and Smith, "Increasing the Reliability of Reliability Diagrams", Weather and
    Forecasting 22, 2007. Dimitriadis, Gneiting and Jordan, "Stable reliability diagrams for
    probabilistic classifiers", PNAS 118, 2021. Fan and Gijbels, "Local Polynomial Modelling
    and Its Applications", 1996, for the smooth one.

    Examples
    --------
    >>> diagram = reliability([[0.8, 0.2]] * 50, [0, 1] * 25, n_bins=5)
    >>> diagram
    Reliability of class 1 (equal-width): 5 points, 50 rows, error 0.3000
    >>> diagram.outside.tolist()
    [True, False, False, False, False]
    """
    ranges = _checked(kind, n_bins, level, n_resamples, random_state)
    data = labelled(probs, labels, sample_weight, row_sums, input, ignore_index, notion)
    if class_index is None:
        return _diagram(judged_outcomes(data), _judged_score(data), kind, n_bins, ranges)
    return _of_class(data, _valid_class(class_index, data), kind, n_bins, ranges)


def reliability_by_class(
    probs: Any,
    labels: Any,
    *,
    classes: Iterable[int] | None = None,
    kind: Kind = "equal-width",
    n_bins: int = DEFAULT_BINS,
    level: float = 0.95,
    n_resamples: int = DEFAULT_RESAMPLES,
    random_state: RandomState = None,
    sample_weight: Any = None,
    row_sums: RowRule = "strict",
    input: InputKind = "probs",  # noqa: A002 - the word of the whole public interface
    ignore_index: int | None = None,
) -> dict[int, Reliability]:
    """Compute the reliability diagram of every class' probability.

    Parameters
    ----------
    probs : array of shape (n_rows, n_classes) or (n_rows,)
        Probabilities, or logits with ``input="logits"``; 1-D for class 1 of two.
    labels : array of shape (n_rows,)
        The true classes as integers from 0, or one-hot rows.
    classes : iterable of int, optional
        The classes; all by default.
    kind : {"equal-width", "equal-mass", "isotonic", "smooth"}, default "equal-width"
        How the curve is found, as in ``reliability``.
    n_bins : int, default 15
        The number of bins, also of the histogram.
    level : float, default 0.95
        The level of interval and band.
    n_resamples : int, default 500
        How often events are drawn.
    random_state : int, numpy.random.Generator or None, optional
        The seed of the draws; None is 0.
    sample_weight : array of shape (n_rows,), optional
        The weight of each row; all 1 by default.
    row_sums : {"strict", "normalize", "raw"}, default "strict"
        Rows that do not sum to 1 are refused, divided by their sum, or taken as they are.
    input : {"probs", "logits"}, default "probs"
        What the scores are.
    ignore_index : int, optional
        Rows with this label are left out.

    Returns
    -------
    dict of int to Reliability
        The diagrams by class.

    Raises
    ------
    ValueError
        Where an argument is refused: the message names the rule, the value and the row.

    Examples
    --------
    >>> diagrams = reliability_by_class([[0.8, 0.2]] * 50, [0, 1] * 25, n_resamples=0)
    >>> [round(diagram.error, 2) for diagram in diagrams.values()]
    [0.3, 0.3]
    """
    ranges = _checked(kind, n_bins, level, n_resamples, random_state)
    data = labelled(probs, labels, sample_weight, row_sums, input, ignore_index)
    chosen = range(data.n_classes) if classes is None else classes
    return {
        index: _of_class(data, _valid_class(index, data), kind, n_bins, ranges) for index in chosen
    }


def reliability_by_segment(
    probs: Any,
    labels: Any,
    segments: Any,
    *,
    kind: Kind = "equal-width",
    n_bins: int = DEFAULT_BINS,
    level: float = 0.95,
    n_resamples: int = DEFAULT_RESAMPLES,
    random_state: RandomState = None,
    notion: RowNotion | None = None,
    sample_weight: Any = None,
    row_sums: RowRule = "strict",
    input: InputKind = "probs",  # noqa: A002 - the word of the whole public interface
    ignore_index: int | None = None,
) -> dict[Any, Reliability]:
    """Compute a reliability diagram for every segment of the rows.

    Parameters
    ----------
    probs : array of shape (n_rows, n_classes) or (n_rows,)
        Probabilities, or logits with ``input="logits"``; 1-D for class 1 of two.
    labels : array of shape (n_rows,)
        The true classes as integers from 0, or one-hot rows.
    segments : array of shape (n_rows,)
        The segment of each row: texts or whole numbers, such as a country or a camera.
    kind : {"equal-width", "equal-mass", "isotonic", "smooth"}, default "equal-width"
        How the curve is found, as in ``reliability``.
    n_bins : int, default 15
        The number of bins, also of the histogram.
    level : float, default 0.95
        The level of interval and band.
    n_resamples : int, default 500
        How often events are drawn.
    random_state : int, numpy.random.Generator or None, optional
        The seed of the draws; None is 0.
    notion : {"class-1", "confidence"}, optional
        Whose calibration: class 1's of two classes, or that of the confidence, the largest
        probability of a row. By default class 1's with two classes, and the confidence's with
        more.
    sample_weight : array of shape (n_rows,), optional
        The weight of each row; all 1 by default.
    row_sums : {"strict", "normalize", "raw"}, default "strict"
        Rows that do not sum to 1 are refused, divided by their sum, or taken as they are.
    input : {"probs", "logits"}, default "probs"
        What the scores are.
    ignore_index : int, optional
        Rows with this label are left out.

    Returns
    -------
    dict of object to Reliability
        The diagrams by segment, in the order of the segments' values.

    Raises
    ------
    ValueError
        Where an argument is refused: the message names the rule, the value and the row.

    Examples
    --------
    >>> diagrams = reliability_by_segment([[0.8, 0.2]] * 4, [0, 1, 0, 0], ["a", "a", "b", "b"])
    >>> {segment: diagram.mean_accuracy for segment, diagram in diagrams.items()}
    {'a': 0.5, 'b': 0.0}
    """
    ranges = _checked(kind, n_bins, level, n_resamples, random_state)
    data = labelled(probs, labels, sample_weight, row_sums, input, ignore_index, notion)
    names = _valid_segments(segments, len(probs))
    if data.n_rows < len(names):
        names = names[np.ravel(as_numpy(labels)) != ignore_index]
    judged, of = judged_outcomes(data), _judged_score(data)
    counts = data.weight > 0.0
    return {
        value.item(): _diagram(judged.of_rows((names == value) & counts), of, kind, n_bins, ranges)
        for value in np.unique(names[counts])
    }


def _checked(
    kind: str, n_bins: int, level: float, n_resamples: int, random_state: RandomState
) -> Ranges:
    if kind not in get_args(Kind):
        known = ", ".join(f'"{one}"' for one in get_args(Kind))
        raise ValueError(f"kind must be one of {known}, got {shown(kind)}")
    check_count(n_bins, "n_bins")
    check_level(level)
    check_resamples(n_resamples, 0)
    return Ranges(level, n_resamples, generator(random_state))


def _valid_class(index: int, data: Labelled) -> int:
    if not isinstance(index, int | np.integer) or not 0 <= index < data.n_classes:
        raise ValueError(
            f"a class must be a whole number from 0 to {data.n_classes - 1}, got {shown(index)}"
        )
    return int(index)


def _valid_segments(segments: Any, n_rows: int) -> Any:
    names = np.asarray(segments) if isinstance(segments, list | tuple) else as_numpy(segments)
    if names.dtype == object:
        names = names.astype(str)
    if names.shape != (n_rows,) or names.dtype.kind not in "iubUT":
        raise ValueError(
            f"segments must be texts or whole numbers of shape ({n_rows},), "
            f"got shape {names.shape} of dtype {names.dtype}"
        )
    return names


def _judged_score(data: Labelled) -> str:
    """What the notion's score is called."""
    return "class 1" if data.notion == "class-1" else "confidence"


def _of_class(data: Labelled, index: int, kind: Kind, n_bins: int, ranges: Ranges) -> Reliability:
    return _diagram(class_outcomes(data, index), f"class {index}", kind, n_bins, ranges)


def _diagram(part: Outcomes, of: str, kind: Kind, n_bins: int, ranges: Ranges) -> Reliability:
    curve: Curve = curve_of(part, kind, n_bins, ranges)
    return Reliability(
        kind=kind,
        of=of,
        **curve._asdict(),
        mean_confidence=weighted_mean(part.score, part.weight),
        mean_accuracy=weighted_mean(part.hit, part.weight),
        histogram=part.bins(n_bins, "equal-width"),
        n_rows=len(part.score),
        level=ranges.level,
    )
