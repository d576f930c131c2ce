"""The reliability diagram: how often events came at each promised chance.

The curve is found in bins, by isotonic regression or smoothed, and comes with two ranges. The
interval is that of the frequency: Clopper and Pearson's in bins and pieces, and by events drawn
from the curve itself where it is smooth. The band is where the curve of a calibrated model would
lie: events are drawn with the promised chances, and the curve is found anew.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass
from reprlib import repr as shown
from typing import Any, Literal, NamedTuple, get_args

import numpy as np
from scipy.special import betaincinv

from calibrant.common.docstrings import documented
from calibrant.common.json import PlainDocument
from calibrant.common.tables import counted
from calibrant.common.threads import one_blas_thread
from calibrant.common.types import Floats, InputKind, RandomState, RowRule, generator
from calibrant.data.binning import BinStats, Scheme, check_count, make_edges
from calibrant.data.checks import as_numpy, as_scores
from calibrant.data.rows import Rows
from calibrant.data.weights import weighted_mean
from calibrant.metrics import _labelled
from calibrant.metrics._bins import DEFAULT_BINS
from calibrant.metrics._intervals import check_level, check_resamples
from calibrant.metrics._labelled import Labelled, Outcomes, judged_outcomes, labelled
from calibrant.metrics._notions import RowNotion
from calibrant.metrics._resampling import BinnedRows
from calibrant.metrics.decomposition import IsotonicColumn

Kind = Literal["equal-width", "equal-mass", "isotonic", "smooth"]

DEFAULT_RESAMPLES = 500
_GROUPS = 128  # of equally many rows, at whose means a smooth curve is given
KERNEL_WIDTHS = 2.0 ** np.arange(-6.5, 1.5, 0.5)  # of its kernel, as shares of the rows
_NARROWER = 2


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


@documented
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
    {probs}
    {labels}
    {curve_kind}
    {diagram_bins}
    class_index : int, optional
        The class whose probability is shown, in place of ``notion``.
    {band_level}
    n_resamples : int, default 500
        How often events are drawn for the band, and for the interval of curves without bins. 0
        leaves them out: they are NaN.
    {random_state}
    {notion}
    {sample_weight}
    {row_sums}
    {input_probs}
    {ignore_index}

    Returns
    -------
    Reliability
        The curve with its interval, the band, and the histogram.

    Raises
    ------
    {refused}

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
    if class_index is not None:
        return _class_diagram(data, class_index, kind, n_bins, ranges)
    of = "class 1" if data.notion == "class-1" else "confidence"
    return _diagram(judged_outcomes(data), of, kind, n_bins, ranges)


@documented
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
    {probs}
    {labels}
    classes : iterable of int, optional
        The classes; all by default.
    {curve_kind}
    {diagram_bins}
    {band_level}
    n_resamples : int, default 500
        How often events are drawn.
    {random_state}
    {sample_weight}
    {row_sums}
    {input_probs}
    {ignore_index}

    Returns
    -------
    dict of int to Reliability
        The diagrams by class.

    Raises
    ------
    {refused}

    Examples
    --------
    >>> diagrams = reliability_by_class([[0.8, 0.2]] * 50, [0, 1] * 25, n_resamples=0)
    >>> [round(diagram.error, 2) for diagram in diagrams.values()]
    [0.3, 0.3]
    """
    ranges = _checked(kind, n_bins, level, n_resamples, random_state)
    data = labelled(probs, labels, sample_weight, row_sums, input, ignore_index)
    chosen = range(data.n_classes) if classes is None else classes
    return {index: _class_diagram(data, index, kind, n_bins, ranges) for index in chosen}


@documented
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
    {probs}
    {labels}
    segments : array of shape (n_rows,)
        The segment of each row: texts or whole numbers, such as a country or a camera.
    {curve_kind}
    {diagram_bins}
    {band_level}
    n_resamples : int, default 500
        How often events are drawn.
    {random_state}
    {notion}
    {sample_weight}
    {row_sums}
    {input_probs}
    {ignore_index}

    Returns
    -------
    dict of object to Reliability
        The diagrams by segment, in the order of the segments' values.

    Raises
    ------
    {refused}

    Examples
    --------
    >>> diagrams = reliability_by_segment([[0.8, 0.2]] * 4, [0, 1, 0, 0], ["a", "a", "b", "b"])
    >>> {segment: diagram.mean_accuracy for segment, diagram in diagrams.items()}
    {'a': 0.5, 'b': 0.0}
    """
    ranges = _checked(kind, n_bins, level, n_resamples, random_state)
    scores = as_scores(probs, input)
    names = np.asarray(segments) if isinstance(segments, list | tuple) else as_numpy(segments)
    if names.dtype == object:
        names = names.astype(str)
    if names.shape != scores.shape[:1] or names.dtype.kind not in "iubUT":
        raise ValueError(
            f"segments must be texts or whole numbers of shape ({scores.shape[0]},), "
            f"got shape {names.shape} of dtype {names.dtype}"
        )
    rows = Rows.of(
        scores, labels, sample_weight, input=input, ignore_index=ignore_index, segments=names
    )
    data = labelled(rows.scores, rows.labels, rows.sample_weight, row_sums, input, notion=notion)
    of = "class 1" if data.notion == "class-1" else "confidence"
    judged, counts = judged_outcomes(data), data.weight > 0.0
    diagrams = {}
    names = np.asarray(rows.segments)  # without those of ignored rows
    for value in np.unique(names[counts]):
        part = judged.take((names == value) & counts)
        diagrams[value.item()] = _diagram(part, of, kind, n_bins, ranges)
    return diagrams


# --- curves -------------------------------------------------------------------------------------


class Ranges(NamedTuple):
    """How ranges are found: their level, how often events are drawn, and by what."""

    level: float
    n_resamples: int
    rng: np.random.Generator

    def around(self, draws: Floats) -> tuple[Floats, Floats]:
        """Where the middle of the draws lies, column by column; of columns of NaN, NaN."""
        tail = (1.0 - self.level) / 2.0
        low, high = np.full((2, draws.shape[1]), np.nan)
        known = ~np.isnan(draws).any(axis=0)
        low[known], high[known] = np.quantile(draws[:, known], [tail, 1.0 - tail], axis=0)
        return low, high


class Curve(NamedTuple):
    """Frequencies at promised chances, with the interval and the band of each point."""

    confidence: Floats
    accuracy: Floats
    weight: Floats
    low: Floats
    high: Floats
    band_low: Floats
    band_high: Floats
    edges: Floats | None
    error: float


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


def _class_diagram(
    data: Labelled, index: int, kind: Kind, n_bins: int, ranges: Ranges
) -> Reliability:
    if not isinstance(index, int | np.integer) or not 0 <= index < data.n_classes:
        raise ValueError(
            f"a class must be a whole number from 0 to {data.n_classes - 1}, got {shown(index)}"
        )
    return _diagram(
        _labelled.class_outcomes(data, int(index)), f"class {index}", kind, n_bins, ranges
    )


def _diagram(part: Outcomes, of: str, kind: Kind, n_bins: int, ranges: Ranges) -> Reliability:
    if kind == "isotonic":
        curve = _isotonic(part, ranges)
    elif kind == "smooth":
        with one_blas_thread():  # its products are small: threads would wait for one another
            curve = _smooth(part, ranges)
    else:
        curve = _binned(part, kind, n_bins, ranges)
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


def _binned(part: Outcomes, scheme: Scheme, n_bins: int, ranges: Ranges) -> Curve:
    edges = make_edges(part.score, n_bins, scheme, part.weight)
    rows = BinnedRows.of(part, edges)
    stats = rows.stats()
    low, high = clopper_pearson(stats.accuracy, stats.effective_rows, ranges.level)
    draws = [batch.accuracy for batch in rows.null(ranges.n_resamples, ranges.rng)]
    band = ranges.around(np.concatenate(draws)) if draws else _unknown(stats.weight)
    return Curve(
        stats.confidence, stats.accuracy, stats.weight, low, high, *band, edges, stats.error()
    )


def clopper_pearson(share: Floats, rows: Floats, level: float) -> tuple[Floats, Floats]:
    """The interval of a share of so many rows, which covers at least as often as it says."""
    tail = (1.0 - level) / 2.0
    hits = np.clip(share * rows, 0.0, rows)
    misses = rows - hits
    with np.errstate(invalid="ignore"):  # of empty bins: NaN
        low = np.where(hits > 0.0, betaincinv(np.maximum(hits, 1e-12), misses + 1.0, tail), 0.0)
        high = np.where(
            misses > 0.0, betaincinv(hits + 1.0, np.maximum(misses, 1e-12), 1.0 - tail), 1.0
        )
    empty = ~(rows > 0.0)
    return np.where(empty, np.nan, low), np.where(empty, np.nan, high)


def _unknown(like: Floats) -> tuple[Floats, Floats]:
    return np.full_like(like, np.nan), np.full_like(like, np.nan)


def _isotonic(part: Outcomes, ranges: Ranges) -> Curve:
    """CORP: constant pieces, each given by its two ends."""
    column = IsotonicColumn.of(part)
    fitted = column.fitted(column.events)
    first = np.r_[True, np.diff(fitted) > 0.0]
    piece = np.cumsum(first) - 1
    ends = np.unique(np.r_[np.flatnonzero(first), np.flatnonzero(np.r_[first[1:], True])])
    sums = [np.bincount(piece, one).astype(np.float64) for one in (column.weight, column.squares)]
    # no interval begins below one before it, or ends above one behind
    low, high = clopper_pearson(fitted[first], sums[0] ** 2 / sums[1], ranges.level)
    low, high = np.maximum.accumulate(low), np.minimum.accumulate(high[::-1])[::-1]
    times, chance = ranges.n_resamples, column.chance
    draws = [column.fitted(column.drawn(ranges.rng, chance))[ends] for _ in range(times)]
    return Curve(
        chance[ends],
        fitted[ends],
        sums[0][piece[ends]],
        low[piece[ends]],
        high[piece[ends]],
        *(ranges.around(np.array(draws)) if draws else _unknown(chance[ends])),
        None,
        float(column.weight @ np.abs(fitted - chance) / column.weight.sum()),
    )


def _smooth(part: Outcomes, ranges: Ranges) -> Curve:
    """A local line through the residuals of neighbouring rows, plus the chance itself."""
    edges = make_edges(part.score, _GROUPS, "equal-mass", part.weight)
    filled = BinStats.from_confidence(part.score, part.hit, sample_weight=part.weight, edges=edges)
    edges = np.r_[0.0, edges[1:][filled.weight > 0.0]]  # no group is empty
    rows = BinnedRows.of(part, edges)
    stats = rows.stats()
    # Distances are shares of the rows between two groups, so that the kernel is narrow where rows
    # crowd.
    place = np.cumsum(stats.share) - stats.share / 2.0
    lines = np.stack([local_lines(place, stats.weight, width) for width in KERNEL_WIDTHS])

    def heights(batch: BinStats) -> Floats:
        return np.asarray(stats.confidence + _smoothed(batch.gap, lines, stats.share))

    def drawn(chance_at: Callable[[Floats], Floats] | None) -> Floats:
        batches = rows.null(ranges.n_resamples, ranges.rng, chance_at)
        return np.concatenate([heights(batch) for batch in batches])

    curve = np.clip(heights(stats), 0.0, 1.0)
    band = interval = _unknown(curve)
    if ranges.n_resamples:
        band = ranges.around(drawn(None))
        own = drawn(lambda score: np.interp(score, stats.confidence, curve))
        # A smoothed smooth curve is flatter: only how far the draws scatter is of interest.
        below, above = ranges.around(own - own.mean(axis=0))
        interval = curve + below, curve + above
    error = float(stats.share @ np.abs(curve - stats.confidence))
    low, high, band_low, band_high = np.clip([*interval, *band], 0.0, 1.0)
    return Curve(stats.confidence, curve, stats.weight, low, high, band_low, band_high, None, error)


def _smoothed(gaps: Floats, lines: Floats, share: Floats) -> Floats:
    """The curves of gaps (.., groups), each by the kernel that predicts held-out groups best.

    By a narrower one, to be exact: it has less bias than noise, which intervals can show. ``lines``
    are the matrices of ``local_lines``, the narrowest kernel first.
    """
    flat = np.atleast_2d(gaps)
    curves = flat @ lines.transpose(0, 2, 1)  # (widths, curves, groups)
    own = np.minimum(np.diagonal(lines, axis1=1, axis2=2), 0.999)[:, None]
    losses = ((flat - curves) / (1.0 - own)) ** 2 @ share
    chosen = np.maximum(np.argmin(losses, axis=0) - _NARROWER, 0)
    return np.asarray(curves[chosen, np.arange(len(flat))].reshape(gaps.shape))


def local_lines(place: Floats, weight: Floats, width: float) -> Floats:
    """A matrix from gaps to the heights, at their places, of lines through their neighbours."""
    distance = place - place[:, None]
    kernel = weight * np.exp(-((distance / width) ** 2) / 2.0)
    total, first, second = (
        (kernel * distance**power).sum(axis=1, keepdims=True) for power in (0, 1, 2)
    )
    least = 1e-9 * total * width**2  # where all weight lies in one place, the line is level
    return np.asarray(
        kernel * (second + least - first * distance) / (total * (second + least) - first**2)
    )
