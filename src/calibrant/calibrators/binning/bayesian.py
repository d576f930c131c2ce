"""BBQ: Bayesian binning into quantiles, per class (Naeini, Cooper and Hauskrecht 2015)."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray
from scipy.special import gammaln

from calibrant.calibrators._base import Fitted, LogitCalibrator
from calibrant.calibrators._fit_info import EXACT, FitInfo
from calibrant.calibrators._one_vs_all import TIE_BREAK, ClassColumns, Column
from calibrant.calibrators._parameters import Positive, constraints
from calibrant.calibrators.binning._bins import SortedScores, equal_mass_cuts
from calibrant.common.docstrings import documented
from calibrant.common.types import Floats, InputKind, Progress
from calibrant.data.rows import Rows
from calibrant.formulas import ColumnMap, Steps

SPREAD = 10.0  # models have between n^(1/3) / 10 and 10 n^(1/3) bins (the paper's C)
RESOLUTION = 1e-3  # of the square root of a rate: finer than its error for any n below 250,000
NEGLIGIBLE = 1e-4  # models with a smaller share of the best one's evidence are left out
MOST_BINS = 2**18  # of all models together, unless there are more rows: memory follows the rows
LARGEST_MODEL = MOST_BINS // 8


@documented
class BayesianBinning(LogitCalibrator):
    """Histograms of many sizes, averaged by their evidence. Does not preserve accuracy.

    Parameters
    ----------
    prior_strength : float, default 2
        The weight of the prior in rows, shared by the bins of a model.
    normalize : bool, default True
        Add 1e-9 p, which breaks ties, and divide by the row sum; False gives the averaged rates.
    {fit_progress}
    {input_logits}

    Notes
    -----
    For every class, each number of bins B from n^(1/3) / 10 to 10 n^(1/3) is a model: bins of equal
    mass of p_c, each with its own rate of labels c, whose prior is a beta distribution around the
    bin's midpoint with ``prior_strength`` / B pseudo-rows. A model counts by its marginal
    likelihood (the paper's BDeu score); the calibrated value is the mean of the models' posterior
    rates. Models with less than 1e-4 of the best one's evidence are left out.

    Whole weights that sum to more than about 400,000, on fewer rows than that, would make more
    models than their rows can tell apart: numbers of bins are then spaced by equal ratios, so that
    memory follows the rows and not the weights.

    References
    ----------
    Naeini, Cooper and Hauskrecht, "Obtaining Well Calibrated Probabilities Using Bayesian
    Binning", AAAI 2015.

    Examples
    --------
    >>> logits = [[2.0, 0.0], [1.0, 0.0], [0.0, 1.0], [0.0, 2.0]] * 20
    >>> bbq = BayesianBinning().fit(logits, [0, 0, 1, 1] * 20)
    >>> bbq.predict_proba([[1.5, 0.0]]).round(3)
    array([[0.999, 0.001]])
    """

    _gives = ColumnMap
    _constraints = constraints(prior_strength=Positive())

    def __init__(
        self,
        prior_strength: float = 2.0,
        normalize: bool = True,
        progress: Progress = False,
        input: InputKind = "logits",  # noqa: A002
    ) -> None:
        self.prior_strength = prior_strength
        self.normalize = normalize
        self.progress = progress
        self.input = input

    def _fit_logits(self, data: Rows) -> Fitted:
        columns = ClassColumns.of_probabilities(data)
        models = _Models.of(columns.rows.weight)

        def fit(column: Column) -> tuple[Floats, Floats]:
            if len(column) == 0:
                return np.empty(0), np.zeros(1)
            masked = len(column) != len(data)  # in some rows: the others are cut elsewhere
            own = _Models.of(column.weight) if masked else models
            return own.averaged(column, self.prior_strength)

        steps = Steps.join(columns.fit_each(fit, type(self).__name__, self.progress))
        formula = ColumnMap(
            steps,
            data.n_classes,
            tie_break=TIE_BREAK if self.normalize else 0.0,
            normalize=self.normalize,
        )
        details = {"bins": len(steps.levels), "absent_classes": columns.absent_classes}
        return formula, FitInfo(True, EXACT, details=details)


@dataclass(frozen=True)
class _Models:
    """Where the models of one weighted sample are cut, one model after the other."""

    first: NDArray[np.intp]  # the first bin of each model
    last: NDArray[np.intp]
    bins: Floats  # how many bins the model of each bin has
    cuts: Floats  # the mass at the upper end of each bin

    @classmethod
    def of(cls, weight: Floats) -> _Models:
        """All numbers of bins between two limits, or as many of them as the budget allows."""
        total, budget = float(weight.sum()), max(MOST_BINS, len(weight))
        root = np.cbrt(total)
        fewest = max(1, int(root / SPREAD))
        most = max(fewest, min(int(np.ceil(root * SPREAD)), round(total)))
        if (fewest + most) * (most - fewest + 1) <= 2 * budget:
            sizes = np.arange(fewest, most + 1)
        else:
            fewest, most = min(fewest, LARGEST_MODEL - 1), min(most, LARGEST_MODEL)
            # k numbers at equal ratios sum to about k (most - fewest) / log(most / fewest)
            number = int(budget * np.log(most / fewest) / (most - fewest))
            sizes = np.unique(np.geomspace(fewest, most, number).round().astype(np.intp))
        ends = np.cumsum(sizes)
        cuts = [np.append(equal_mass_cuts(weight, int(size)), total) for size in sizes]
        bins = np.repeat(sizes, sizes).astype(np.float64)
        return cls(ends - sizes, ends - 1, bins, np.concatenate(cuts))

    def averaged(self, column: Column, strength: float) -> tuple[Floats, Floats]:
        """The edges and the rates between them of the averaged models of a column."""
        scores = SortedScores.of(column.score, column.weight)
        upper = scores.edges(self.cuts)
        upper[self.last] = 1.0
        place = np.searchsorted(scores.score, upper, side="right")
        place[self.last] = len(column)
        mass = np.append(0.0, scores.mass)[place]
        hits = np.append(0.0, np.cumsum((column.weight * column.hit)[scores.order]))[place]
        count, hit = self._increases(mass), self._increases(hits)
        middle = np.clip(upper - 0.5 * self._increases(upper), 1e-12, 1.0 - 1e-12)
        prior = strength / self.bins
        # the log marginal likelihood of each bin: beta-binomial with pseudo-rows at the midpoint
        miss = count - hit
        evidence = -_log_rising(prior, hit + miss)
        evidence += _log_rising(prior * middle, hit)
        evidence += _log_rising(prior * (1.0 - middle), miss)
        rates = (hit + prior * middle) / (count + prior)
        return self._mean(upper, rates, np.add.reduceat(evidence, self.first))

    def _increases(self, values: Floats) -> Floats:
        """Over each bin, of values at the bins' upper ends; each model begins at 0."""
        before = np.append(0.0, values[:-1])
        before[self.first] = 0.0
        return np.asarray(values - before)

    def _mean(self, upper: Floats, rates: Floats, log_share: Floats) -> tuple[Floats, Floats]:
        """The mean of the models' step functions: all their jumps, sorted and added up.

        Neighbouring steps are joined where they differ by less than the resolution. The square
        root of a rate has the same sampling error everywhere, 1 / (2 sqrt(n)).
        """
        share = np.exp(log_share - log_share.max())
        share[share < NEGLIGIBLE] = 0.0
        weights = np.repeat(share / share.sum(), self.last - self.first + 1)
        weighted = weights * rates
        jump = np.append(weighted[1:], 0.0) - weighted
        inner = weights > 0.0
        inner[self.last] = False
        at = np.flatnonzero(inner)
        at = at[np.argsort(upper[at])]
        edges = upper[at]
        level = weighted[self.first].sum() + np.append(0.0, np.cumsum(jump[at]))
        reached = np.append(np.diff(edges) > 0.0, True)[: len(edges)]  # not those of width 0
        level = np.clip(np.append(level[:1], level[1:][reached]), 0.0, 1.0)
        group = np.floor(np.sqrt(level) / RESOLUTION)
        new = group[1:] != group[:-1]
        owner = np.append(0, np.cumsum(new))
        return edges[reached][new], np.bincount(owner, level) / np.bincount(owner)


def _log_rising(start: Floats, count: Floats) -> Floats:
    """log Gamma(start + count) / Gamma(start); most bins of a rare class have no hits."""
    result = np.zeros_like(start)
    some = np.flatnonzero(count > 0.0)
    result[some] = gammaln(start[some] + count[some]) - gammaln(start[some])
    return result
