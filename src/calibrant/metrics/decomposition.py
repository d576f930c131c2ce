"""The Brier score in two parts that add up to it: calibration and refinement.

Calibration is what the score would lose if each class' probability were replaced by the frequency
of its class at that probability; refinement is what remains. The frequency is estimated by
isotonic regression, without bins (CORP), or by shifting bins. Both follow the noise of the labels,
too: what they save a calibrated model is found as well, and taken off.

``calibrant.decompose`` has the parts of the log loss, and those that a calibrator saves on rows
that it has not seen.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from calibrant.common.docstrings import documented
from calibrant.common.types import Floats, InputKind, RandomState, RowRule, generator
from calibrant.data.binning import BinStats
from calibrant.data.weights import copy_squares, row_counts, weighted_mean
from calibrant.metrics._bins import bins_of, row_scores
from calibrant.metrics._labelled import Labelled, Outcomes, class_outcomes, labelled
from calibrant.metrics.binned import debiased_squares
from calibrant.metrics.scores import brier_rows

_DRAWS = 500  # of events of one class, over all classes


@dataclass(frozen=True)
class BrierDecomposition:
    """The Brier score in parts.

    score = calibration + refinement, and refinement = uncertainty - resolution.

    Parameters
    ----------
    score : float
        The Brier score.
    calibration : float
        What recalibrating every class would save; less ``noise`` where that was asked for, and
        then a little below 0 as often as above it for a calibrated model.
    refinement : float
        What would remain.
    uncertainty : float
        The Brier score of the frequencies of the classes.
    noise : float
        What recalibrating on the very rows that are judged seems to save a calibrated model: its
        value of ``calibration`` where the noise is not taken off.
    """

    score: float
    calibration: float
    refinement: float
    uncertainty: float
    noise: float

    @property
    def resolution(self) -> float:
        """What knowing the probabilities takes off the score of the class frequencies."""
        return self.uncertainty - self.refinement


@documented
def brier_decomposition(
    probs: Any,
    labels: Any,
    n_bins: int | None = None,
    *,
    debiased: bool = True,
    random_state: RandomState = None,
    sample_weight: Any = None,
    row_sums: RowRule = "strict",
    input: InputKind = "probs",  # noqa: A002 - the word of the whole public interface
    ignore_index: int | None = None,
) -> BrierDecomposition:
    """Split the Brier score, summed over the classes, into calibration and refinement.

    Parameters
    ----------
    {probs}
    {labels}
    n_bins : int, optional
        Shift each of so many equal-width bins to its frequency; by default every class is
        recalibrated by isotonic regression.
    debiased : bool, default True
        Whether the noise of the labels is taken off the calibration part. Without it the part is
        CORP's "miscalibration", which is never below 0.
    random_state : int, numpy.random.Generator or None, optional
        The seed of the draws that the noise of isotonic regression is found by; None is 0.
    {sample_weight}
    {row_sums}
    {input_probs}
    {ignore_index}

    Returns
    -------
    BrierDecomposition
        The parts.

    Raises
    ------
    {refused}

    Notes
    -----
    With isotonic regression the noise is the mean of what it saves where every class' events are
    drawn with its probabilities as their chances: twice with many classes, up to 20 times with
    few. In bins it is Kumar's unbiased estimate from the bins' frequencies. Neither sees what a
    recalibration of all classes together could save.

    References
    ----------
    Murphy, "A New Vector Partition of the Probability Score", Journal of Applied Meteorology 12,
    1973. Ferro and Fricker, "A bias-corrected decomposition of the Brier score", Quarterly Journal
    of the Royal Meteorological Society 138, 2012. Kumar, Liang and Ma, "Verified Uncertainty
    Calibration", NeurIPS 2019. Dimitriadis, Gneiting and Jordan, "Stable reliability diagrams for
    probabilistic classifiers", PNAS 118, 2021.

    Examples
    --------
    >>> parts = brier_decomposition([[0.8, 0.2]] * 50, [0, 1] * 25)
    >>> round(parts.calibration, 2), round(parts.refinement, 2), round(parts.noise, 2)
    (0.17, 0.51, 0.01)
    """
    data = labelled(probs, labels, sample_weight, row_sums, input, ignore_index)
    return split_brier(data, generator(random_state), n_bins, debiased)


def split_brier(
    data: Labelled, rng: np.random.Generator, n_bins: int | None = None, debiased: bool = True
) -> BrierDecomposition:
    """The parts of the Brier score."""
    score = weighted_mean(row_scores(brier_rows, data), data.weight)
    if n_bins is not None:
        saved = binned_saving(bins_of("classes", data, n_bins))
    else:  # sums over classes of the squared error that isotonic recalibration saves
        found, noise, total = 0.0, 0.0, float(data.weight.sum())
        n_draws = int(np.clip(_DRAWS // data.n_classes, 2, 20))
        for index in range(data.n_classes):
            column = IsotonicColumn.of(class_outcomes(data, index))
            draws = (column.drawn(rng, column.chance) for _ in range(n_draws))
            found += column.saved(column.events)
            noise += float(np.mean([column.saved(events) for events in draws]))
        saved = found / total, noise / total
    shares = np.bincount(data.labels, data.weight, data.n_classes) / data.weight.sum()
    return decomposed(score, saved, shares, debiased)


def decomposed(
    score: float, saved: tuple[float, float], shares: Floats, debiased: bool = True
) -> BrierDecomposition:
    """The parts, by what recalibration saves, that by chance, and the classes' label shares."""
    found, noise = saved
    calibration = found - noise if debiased else found
    uncertainty = float((shares * (1.0 - shares)).sum())
    return BrierDecomposition(score, calibration, score - calibration, uncertainty, noise)


def binned_saving(stats: BinStats) -> tuple[float, float]:
    """Sums over classes and bins of share x squared gap, and of share x its variance."""
    found = float((stats.share * np.nan_to_num(stats.gap) ** 2).sum())
    return found, found - float(debiased_squares(stats).sum())


class IsotonicColumn(NamedTuple):
    """Distinct scores, and the weights and events of the rows at each."""

    chance: Floats
    weight: Floats
    events: Floats
    squares: Floats  # sums of squared weights
    group: NDArray[np.intp]  # the row's place among the scores
    copies: NDArray[np.int64]  # how many rows a row stands for, each of weight ``one``
    one: Floats

    @classmethod
    def of(cls, part: Outcomes) -> IsotonicColumn:
        """The column of the rows that count."""
        part = part.of_some_weight()
        chance, group = np.unique(part.score, return_inverse=True)
        weight = np.bincount(group, part.weight).astype(np.float64)
        events = np.bincount(group, part.weight * part.hit).astype(np.float64)
        squares = np.bincount(group, copy_squares(part.weight)).astype(np.float64)
        return cls(chance, weight, events, squares, group, *row_counts(part.weight))

    def drawn(self, rng: np.random.Generator, chance: Floats) -> Floats:
        """Events that come with these chances, one for each distinct score."""
        hits = rng.binomial(self.copies, chance[self.group])
        return np.bincount(self.group, self.one * hits).astype(np.float64)

    def fitted(self, events: Floats) -> Floats:
        """The frequency at each score, by isotonic regression."""
        from scipy.optimize import isotonic_regression  # takes longer to import than all metrics

        return np.asarray(isotonic_regression(events / self.weight, weights=self.weight).x)

    def saved(self, events: Floats) -> float:
        """The squared error, less that of the isotonic fit; equal probabilities stay equal."""
        frequency = events / self.weight
        # The spread of the labels at one probability is in both errors.
        before, after = ((values - frequency) ** 2 for values in (self.chance, self.fitted(events)))
        return float(self.weight @ (before - after))
