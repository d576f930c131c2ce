"""Bins of confidence: binned once into a small statistic that adds up.

Bin m of M is (m/M, (m+1)/M]; confidence 0 falls in the first bin, and 1 (or rounding above it) in
the last. ECE, MCE and the reliability diagram all read the same ``BinStats``; so do the kernel
estimates, from many narrow bins, and the resampling tests, from many statistics at once.
"""

from __future__ import annotations

from dataclasses import dataclass
from reprlib import repr as shown
from typing import Any, Literal, Self, get_args

import numpy as np
from numpy.typing import NDArray

from calibrant.common.tables import Backend, Shown, Table, counted, frame_of
from calibrant.common.types import Floats
from calibrant.data.checks import as_numpy, as_weights
from calibrant.data.weights import are_counts, copy_squares

Norm = Literal[1, 2, "max"]
Scheme = Literal["equal-width", "equal-mass"]

MOST_BINS = 10**6
_CHUNK = 32_768  # rows whose temporaries stay in the processor's cache
_SLACK = 1e-6  # rounding allowed beyond [0, 1]


# --- edges ------------------------------------------------------------------------------------


def equal_width_edges(n_bins: int) -> Floats:
    """The edges 0, 1/n, .., 1."""
    check_count(n_bins, "n_bins", MOST_BINS)
    return np.arange(n_bins + 1) / n_bins


def equal_mass_edges(values: Floats, n_bins: int, weight: Floats | None = None) -> Floats:
    """Edges that cut the sorted values into parts of equal weight, half way between neighbours.

    Sizes differ by at most one row, larger parts first. Equal edges are merged: equal values
    never part, so there may be fewer bins than asked for.
    """
    check_count(n_bins, "n_bins", MOST_BINS)
    if weight is not None:
        values, weight = values[weight > 0.0], weight[weight > 0.0]
    if weight is None or (np.all(weight == weight[0]) and not are_counts(weight)):
        ordered = np.sort(values)
        mass = np.arange(1.0, len(values) + 1.0)
    else:
        order = np.argsort(values)
        ordered = values[order]
        mass = np.cumsum(weight[order])
    cuts = equal_cuts(mass, n_bins)
    below = ordered[np.searchsorted(mass, cuts, side="left")]
    above = ordered[np.searchsorted(mass, cuts, side="right")]
    return np.concatenate([[0.0], np.unique([*((below + above) / 2.0), 1.0])])


def equal_cuts(mass: Floats, n_bins: int) -> Floats:
    """Where to cut a cumulative weight into equal parts; whole weights stay whole."""
    total = mass[-1]
    if np.all(mass == np.floor(mass)):
        n_bins = int(min(n_bins, total))
        small, larger = divmod(total, n_bins)
        part = np.arange(1.0, n_bins)
        return part * small + np.minimum(part, larger)
    return np.arange(1.0, n_bins) * (total / n_bins)


def make_edges(values: Floats, n_bins: int, scheme: Scheme, weight: Floats | None = None) -> Floats:
    """The edges of a scheme for these values."""
    check_scheme(scheme)
    if scheme == "equal-width":
        return equal_width_edges(n_bins)
    return equal_mass_edges(values, n_bins, weight)


def check_scheme(scheme: str) -> None:
    """Refuse what is no scheme of bins."""
    if scheme not in get_args(Scheme):
        raise ValueError(f'scheme must be "equal-width" or "equal-mass", got {scheme!r}')


def check_count(value: int, name: str, most: int | None = None) -> None:
    """Refuse what is no whole number of at least 1 and, if there is a limit, at most that."""
    if not isinstance(value, int | np.integer):
        raise ValueError(f"{name} must be a whole number, got {shown(value)}")
    if value < 1:
        raise ValueError(f"{name} must be at least 1, got {value}")
    if most is not None and value > most:
        raise ValueError(f"{name} must be at most {most}, got {shown(value)}")


def bin_index(values: Floats, edges: Floats) -> NDArray[np.intp]:
    """The bin (lo, hi] of each value; what lies outside goes to the first or last bin."""
    size = len(edges) - 1
    if not np.array_equal(edges, np.arange(size + 1) / size):
        return np.searchsorted(edges[1:-1], values, side="left")
    # A multiplication finds the bin to within rounding; comparing with its edges makes it exact.
    index = (values * size).astype(np.intp)
    np.clip(index, 0, size - 1, out=index)
    index += values > edges[index + 1]
    index -= values <= edges[np.minimum(index, size - 1)]
    return np.clip(index, 0, size - 1, out=index)


# --- the statistic ----------------------------------------------------------------------------


@dataclass(frozen=True, repr=False)
class BinStats(Shown):
    """Sums of weights, confidences and hits per bin; those with the same edges add up.

    The last axis runs over the bins; axes before it hold several statistics at once.

    Parameters
    ----------
    edges : ndarray of shape (n_bins + 1,)
        Bin m is (edges[m], edges[m + 1]]; what lies outside goes to the first or last bin.
    weight : ndarray of shape (..., n_bins)
        The total weight of the rows in each bin.
    confidence_sum : ndarray of shape (..., n_bins)
        The weighted sum of the confidences in each bin.
    correct_sum : ndarray of shape (..., n_bins)
        The weighted sum of the hits in each bin.
    weight_squares : ndarray of shape (..., n_bins)
        The sum of the squared weights in each bin, for the effective number of rows; a whole
        weight w adds w, as so many rows of weight 1 do.

    Examples
    --------
    >>> stats = BinStats.from_confidence([0.9, 0.8, 0.2], [1, 0, 0], n_bins=2)
    >>> print(stats)
    2 bins, confidences and accuracies as fractions
    <BLANKLINE>
    bin             rows  confidence  accuracy      gap
    (0.000, 0.500]     1      0.2000    0.0000  -0.2000
    (0.500, 1.000]     2      0.8500    0.5000  -0.3500
    """

    edges: Floats
    weight: Floats
    confidence_sum: Floats
    correct_sum: Floats
    weight_squares: Floats

    @classmethod
    def from_confidence(
        cls,
        confidence: Any,
        correct: Any,
        n_bins: int = 15,
        sample_weight: Any = None,
        edges: Floats | None = None,
        scheme: Scheme = "equal-width",
    ) -> Self:
        """Bin confidences, and whether each prediction was right.

        Parameters
        ----------
        confidence : array of shape (n_rows,)
            Confidences in [0, 1].
        correct : array of shape (n_rows,)
            Whether each prediction was right: truth values, or numbers in [0, 1].
        n_bins : int, default 15
            The number of bins.
        sample_weight : array of shape (n_rows,), optional
            The weight of each row; all 1 by default.
        edges : ndarray, optional
            Your own edges, in place of ``n_bins`` and ``scheme``.
        scheme : {"equal-width", "equal-mass"}, default "equal-width"
            Bins of equal width, or with equally many rows.

        Returns
        -------
        BinStats
            The sums per bin.

        Raises
        ------
        ValueError
            Where a value lies outside [0, 1], or lengths differ.

        Examples
        --------
        >>> BinStats.from_confidence([0.75, 0.75], [True, False]).error()
        0.25
        """
        confidence, correct = as_numpy(confidence), as_numpy(correct)
        for name, values in (("confidence", confidence), ("correct", correct)):
            if values.ndim != 1 or len(values) == 0 or values.dtype.kind not in "fiub":
                raise ValueError(
                    f"{name} must be numbers of shape (rows,) with at least one row, "
                    f"got shape {values.shape} of dtype {values.dtype}"
                )
        if len(confidence) != len(correct):
            raise ValueError(
                "confidence and correct must have the same rows, "
                f"got {len(confidence)} and {len(correct)}"
            )
        weight = None if sample_weight is None else as_weights(sample_weight, len(confidence))
        if edges is None:
            edges = make_edges(confidence, n_bins, scheme, weight)
        squares = None if weight is None else copy_squares(weight)
        return cls._of_columns(confidence, correct, weight, squares, edges)

    @classmethod
    def _of_columns(
        cls,
        confidence: NDArray[Any],
        correct: NDArray[Any],
        weight: Floats | None,
        squares: Floats | None,
        edges: Floats,
    ) -> Self:
        """The sums of columns; what the weights' squares are is for the caller to say."""
        size = len(edges) - 1
        sums = np.zeros((4, size))
        for start in range(0, len(confidence), _CHUNK):
            part = slice(start, start + _CHUNK)
            values, hits = np.asarray(confidence[part], np.float64), correct[part]
            for name, column in (("confidence", values), ("correct", hits)):
                if column.dtype == np.bool_:
                    continue
                if not (column.min() >= -_SLACK and column.max() <= 1.0 + _SLACK):  # or NaN
                    row = np.flatnonzero(~((column >= -_SLACK) & (column <= 1.0 + _SLACK)))[0]
                    raise ValueError(
                        f"{name} must lie in [0, 1], got {column[row]} at row {start + row}"
                    )
            index = bin_index(values, edges)
            if weight is None or squares is None:
                count = np.bincount(index, minlength=size)
                confident, hit = np.bincount(index, values, size), np.bincount(index, hits, size)
                sums += np.stack([count, confident, hit, count])
            else:
                chunk = weight[part]
                columns = (chunk, chunk * values, chunk * hits, squares[part])
                sums += np.stack([np.bincount(index, column, size) for column in columns])
        return cls(edges, *sums)

    def __add__(self, other: BinStats) -> BinStats:
        if not np.array_equal(self.edges, other.edges):
            raise ValueError("bin statistics add up only where their edges are the same")
        pairs = zip(self.columns, other.columns, strict=True)
        return BinStats(self.edges, *(mine + theirs for mine, theirs in pairs))

    @property
    def columns(self) -> tuple[Floats, Floats, Floats, Floats]:
        """All that adds up: weight, confidence_sum, correct_sum and weight_squares."""
        return self.weight, self.confidence_sum, self.correct_sum, self.weight_squares

    @property
    def residual(self) -> Floats:
        """The weighted sum of hit minus confidence in each bin."""
        return np.asarray(self.correct_sum - self.confidence_sum)

    @property
    def total_weight(self) -> Floats:
        """The weight of all bins together."""
        return np.asarray(self.weight.sum(axis=-1))

    @property
    def share(self) -> Floats:
        """The share of all weight in each bin."""
        return np.asarray(self.weight / self.weight.sum(axis=-1, keepdims=True))

    @property
    def confidence(self) -> Floats:
        """The mean confidence of each bin; NaN where it is empty."""
        return _ratio(self.confidence_sum, self.weight)

    @property
    def accuracy(self) -> Floats:
        """The share of right predictions in each bin; NaN where it is empty."""
        return _ratio(self.correct_sum, self.weight)

    @property
    def gap(self) -> Floats:
        """Accuracy minus confidence: negative where over-confident; NaN where it is empty."""
        return _ratio(self.residual, self.weight)

    @property
    def effective_rows(self) -> Floats:
        """The rows of whole weights, Kish's (sum w)^2 / sum w^2 of others; 0 for empty bins."""
        return _ratio(self.weight**2, self.weight_squares, empty=0.0)

    def error(self, norm: Norm = 1) -> float:
        """Summarize the gaps between accuracy and confidence as one calibration error.

        Parameters
        ----------
        norm : {1, 2, "max"}, default 1
            The mean gap, its root mean square, or the largest gap.

        Returns
        -------
        float
            The calibration error, as a fraction.
        """
        return float(calibration_error(self, norm))

    def __repr__(self) -> str:
        *others, n_bins = self.weight.shape
        if others:
            return f"BinStats({' x '.join(map(str, others))} times {counted(n_bins, 'bin')})"
        rows = f"weight {float(self.total_weight):,.6g}"
        return f"BinStats({counted(n_bins, 'bin')}, {rows}, error {self.error():.4g})"

    def to_frame(self, backend: Backend = "pandas") -> Any:
        """Convert to a data frame: one row per bin.

        Parameters
        ----------
        backend : {"pandas", "polars", "pyarrow"}, default "pandas"
            The library, which must be installed.

        Returns
        -------
        DataFrame
            The columns ``low`` and ``high`` (the bin is (low, high]), ``weight``, ``confidence``,
            ``accuracy`` and ``gap``, the last three as fractions and missing where a bin is empty.
        """
        filled = self.weight > 0.0
        columns = {"low": self.edges[:-1], "high": self.edges[1:], "weight": self.weight}
        lists = {name: column.tolist() for name, column in columns.items()}
        for name in ("confidence", "accuracy", "gap"):
            means = zip(getattr(self, name).tolist(), filled, strict=True)
            lists[name] = [value if some else None for value, some in means]
        return frame_of(lists, backend)

    def _tables(self) -> list[Table]:
        rows = []
        columns = (self.edges[:-1], self.edges[1:], self.weight, self.confidence, self.accuracy)
        for low, high, weight, confidence, accuracy in zip(*columns, strict=True):
            numbers = ["-", "-", "-"]
            if weight > 0.0:
                gap = accuracy - confidence
                numbers = [f"{confidence:.4f}", f"{accuracy:.4f}", f"{gap:+.4f}"]
            rows.append([f"({low:.3f}, {high:.3f}]", f"{weight:.6g}", *numbers])
        title = f"{counted(len(rows), 'bin')}, confidences and accuracies as fractions"
        return [Table(["bin", "rows", "confidence", "accuracy", "gap"], rows, title)]


def calibration_error(stats: BinStats, norm: Norm = 1) -> Floats:
    """The calibration error of each statistic; empty bins count 0."""
    if norm not in get_args(Norm):
        raise ValueError(f'norm must be 1, 2 or "max", got {norm!r}')
    if norm == 1:  # the weights of the single bins cancel
        return np.asarray(np.abs(stats.residual).sum(axis=-1) / stats.total_weight)
    gap = np.abs(_ratio(stats.residual, stats.weight, empty=0.0))
    if norm == "max":
        return np.asarray(gap.max(axis=-1))
    return np.sqrt((stats.share * gap**2).sum(axis=-1))


def _ratio(top: Floats, bottom: Floats, empty: float = np.nan) -> Floats:
    filled = np.broadcast_to(bottom > 0.0, top.shape)
    return np.divide(top, bottom, out=np.full(top.shape, empty), where=filled)
