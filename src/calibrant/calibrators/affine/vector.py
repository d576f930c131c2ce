"""Vector scaling (Guo et al. 2017)."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from functools import partial
from typing import Any

import numpy as np
from numpy.typing import NDArray

from calibrant.calibrators import _choosing as choosing
from calibrant.calibrators._base import Fitted
from calibrant.calibrators._best_temperature import best_temperature, scaled_profile
from calibrant.calibrators._parameters import Count, NonNegative, constraints
from calibrant.calibrators.affine._affine_calibrator import (
    AffineCalibrator,
    Strength,
    diagonal_penalty,
)
from calibrant.calibrators.affine._affine_loss import Penalty
from calibrant.calibrators.profile.temperature_profile import TemperatureProfile
from calibrant.common.docstrings import documented
from calibrant.common.types import Floats, InputKind, Progress
from calibrant.data.rows import Rows
from calibrant.data.weights import effective_rows, shares

EASES = (1.0, 0.3, 0.1, 0.03)  # times which the automatic penalties are tried, strongest first
PATIENCE = 0.5  # standard errors by which stronger ones may be worse and still be taken ..
IMPATIENT_ROWS = 1000.0  # .. with many rows; with these twice as many, with fewer still more


@documented
class VectorScaling(AffineCalibrator):
    """A slope and an intercept for each class: softmax(v * z + b). Does not preserve accuracy.

    Parameters
    ----------
    slope_penalty : float or "auto", default "auto"
        What multiplies the mean over the classes of the squares of T v - 1; 0 is the published
        method. "auto" is 2 C^2 / n times the mean square of z / T (C classes, n rows), enough not
        to lose to temperature scaling on unseen rows, or as much less as left-out rows show to be
        better.
    intercept_penalty : float or "auto", default "auto"
        The same for the intercepts; "auto" is 3 C^2 / n, eased with that of the slopes.
    {max_iter}
    {fit_progress}
    {input_log_probs}

    Attributes
    ----------
    slopes_ : array of shape (classes,)
        The slopes v.
    intercept_ : array of shape (classes,)
        The intercepts b.
    temperature_ : float
        The temperature from which the fit started.

    Notes
    -----
    The probabilities are softmax(v * z + b). The fit minimises the mean NLL by L-BFGS. It starts at
    temperature scaling (v = 1/T, b = 0), and its penalties pull back there: on the relative change
    of the slopes, T v - 1, and on b.

    "auto" tries its penalties times 1, 0.3, 0.1 and 0.03, until the NLL of left-out rows rises
    (five folds; two from 2,000,000 logits on), and keeps the strongest that is within
    (1 + 1000/n)/2 standard errors of the best one: few rows keep the full ones.
    ``fit_info_.details`` has what was tried. With more than 20,000 rows a sample of them chooses.

    References
    ----------
    Guo, Pleiss, Sun and Weinberger, "On Calibration of Modern Neural Networks", ICML 2017.

    Examples
    --------
    >>> import calibrant
    >>> data = calibrant.datasets.load("fashion-mnist-lenet5")
    >>> VectorScaling().fit(data.val_logits, data.val_labels).slopes_.shape
    (10,)
    """

    _constraints = constraints(
        slope_penalty=NonNegative(or_auto=True),
        intercept_penalty=NonNegative(or_auto=True),
        max_iter=Count(),
    )

    def __init__(
        self,
        slope_penalty: Strength = "auto",
        intercept_penalty: Strength = "auto",
        max_iter: int = 500,
        progress: Progress = False,
        input: InputKind = "logits",  # noqa: A002
    ) -> None:
        super().__init__(max_iter, progress, input)
        self.slope_penalty = slope_penalty
        self.intercept_penalty = intercept_penalty

    def _penalty(self, features: Rows, ease: float = 1.0) -> Penalty:
        return diagonal_penalty(features, self.slope_penalty, self.intercept_penalty, ease)

    def _fit_logits(self, data: Rows) -> Fitted:
        profile = scaled_profile(data)
        ease, details = EASES[0], dict[str, Any]()
        if "auto" in (self.slope_penalty, self.intercept_penalty):
            sample, few = choosing.sample_of_logits(data), profile
            if sample is not None:
                few = profile.take(sample.index)._weighted(sample.weight)
            ease, details["tried"] = self._choose(choosing.sampled(data, sample), few)
        start, penalty_of = best_temperature(profile), partial(self._penalty, ease=ease)
        formula, info, _ = self._fit_from(start, data, penalty_of, self.progress)
        return formula, replace(info, details={**info.details, **details})

    def _choose(
        self, data: Rows, profile: TemperatureProfile
    ) -> tuple[float, list[dict[str, Any]]]:
        """By what the automatic penalties are multiplied, and what was tried."""
        folds = data.folds()
        if not folds.parts:
            return EASES[0], []
        if folds.index is not None:
            data, profile = folds.rows(data), profile.take(folds.index)._weighted(folds.weight)
        order, share = np.concatenate(folds.parts), shares(data.weight)
        losses: list[Floats] = []
        for parts in zip(
            *(self._held_out_nll(data, profile, fold) for fold in folds.parts), strict=True
        ):
            losses.append(np.empty(len(order)))
            losses[-1][order] = np.concatenate(parts)
            if len(losses) > 1 and share @ losses[-1] > share @ losses[-2]:
                break
        names = [f"{ease:g}" for ease in EASES[: len(losses)]]
        patience = PATIENCE * (1.0 + IMPATIENT_ROWS / effective_rows(data.weight))
        chosen, tried = choosing.simplest_of_the_best(names, losses, data.weight, patience)
        return EASES[chosen], tried

    def _held_out_nll(
        self, data: Rows, profile: TemperatureProfile, fold: NDArray[np.intp]
    ) -> Iterator[Floats]:
        """The NLL of a fold's rows under fits on the others, each from the last one's solution."""
        kept = np.setdiff1d(np.arange(len(data)), fold)
        start, solution = best_temperature(profile.take(kept)), None
        for ease in EASES:
            penalty_of = partial(self._penalty, ease=ease)
            formula, _, fit = self._fit_from(
                start, data.take(kept), penalty_of, progress=False, first=solution
            )
            solution = fit.minimum.x
            yield choosing.row_nll(formula, data.take(fold))
