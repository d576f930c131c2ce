"""Vector scaling (Guo et al. 2017)."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from calibrant.calibrators._base import Fitted
from calibrant.calibrators._best_temperature import Start, scaled_profile, start_of_profile
from calibrant.calibrators._choosing import row_nll, simplest_of_the_best
from calibrant.calibrators._fit_info import FitInfo
from calibrant.calibrators._parameters import check_counts, check_strength
from calibrant.calibrators._sampling import sample_of_logits, sampled, sampled_profile
from calibrant.calibrators.affine._base import AffineCalibrator
from calibrant.calibrators.affine._fit import (
    AffineMethod,
    Strength,
    diagonal_penalty,
    fit_from_start,
    plain_logits,
)
from calibrant.calibrators.profile.temperature_profile import TemperatureProfile
from calibrant.common.types import Floats, InputKind, Progress
from calibrant.data.folds import folds_of
from calibrant.data.rows import Rows
from calibrant.data.weights import effective_rows, shares
from calibrant.formulas import AffineMap

EASES = (1.0, 0.3, 0.1, 0.03)  # times which the automatic penalties are tried, strongest first
PATIENCE = 0.5  # standard errors by which stronger ones may be worse and still be taken ..
IMPATIENT_ROWS = 1000.0  # .. with many rows; with these twice as many, with fewer still more


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
    max_iter : int, default 500
        The most iterations of L-BFGS.
    progress : bool or callable, default False
        True shows a bar on standard error where a fit takes more than a second; a callable is
        called as ``progress(done, total)``.
    input : {"logits", "probs"}, default "logits"
        What the scores are; probabilities are taken as log p minus its row mean.

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

    def __init__(
        self,
        slope_penalty: Strength = "auto",
        intercept_penalty: Strength = "auto",
        max_iter: int = 500,
        progress: Progress = False,
        input: InputKind = "logits",  # noqa: A002
    ) -> None:
        self.slope_penalty = slope_penalty
        self.intercept_penalty = intercept_penalty
        self.max_iter = max_iter
        self.progress = progress
        self.input = input

    def _check_parameters(self) -> None:
        check_strength("slope_penalty", self.slope_penalty)
        check_strength("intercept_penalty", self.intercept_penalty)
        check_counts(self, "max_iter")

    def _fit_logits(self, data: Rows) -> Fitted:
        profile = scaled_profile(data)
        ease, details = EASES[0], {}
        if "auto" in (self.slope_penalty, self.intercept_penalty):
            sample = sample_of_logits(data)
            seen = sampled_profile(profile, sample)
            ease, tried = self._choose(sampled(data, sample), seen)
            details = {"tried": tried}
        formula, info, _ = self._fit_eased(data, start_of_profile(profile), ease, self.progress)
        return formula, replace(info, details={**info.details, **details})

    def _choose(
        self, data: Rows, profile: TemperatureProfile
    ) -> tuple[float, list[dict[str, Any]]]:
        """By what the automatic penalties are multiplied, and what was tried."""
        folds = folds_of(data)
        if not folds.parts:
            return EASES[0], []
        if folds.index is not None:
            data, profile = folds.rows(data), profile.take(folds.index)._weighted(folds.weight)
        order, share = np.concatenate(folds.parts), shares(data.weight)
        left_out: list[Floats] = []
        for parts in zip(
            *(self._left_out(data, profile, fold) for fold in folds.parts), strict=True
        ):
            left_out.append(np.empty(len(order)))
            left_out[-1][order] = np.concatenate(parts)
            if len(left_out) > 1 and share @ left_out[-1] > share @ left_out[-2]:
                break
        names = [f"{ease:g}" for ease in EASES[: len(left_out)]]
        patience = PATIENCE * (1.0 + IMPATIENT_ROWS / effective_rows(data.weight))
        chosen, tried = simplest_of_the_best(names, left_out, data.weight, patience)
        return EASES[chosen], tried

    def _left_out(
        self, data: Rows, profile: TemperatureProfile, fold: NDArray[np.intp]
    ) -> Iterator[Floats]:
        """The NLL of a fold's rows under fits on the others, each from the last one's solution."""
        kept = np.setdiff1d(np.arange(len(data.labels)), fold)
        start, solution = start_of_profile(profile.take(kept)), None
        for ease in EASES:
            formula, _, solution = self._fit_eased(
                data.take(kept), start, ease, progress=False, first=solution
            )
            yield row_nll(formula, data.take(fold))

    def _fit_eased(
        self,
        data: Rows,
        start: Start,
        ease: float,
        progress: Progress,
        first: Floats | None = None,
    ) -> tuple[AffineMap, FitInfo, Floats]:
        method = AffineMethod(
            features=plain_logits,
            unit=lambda start: 1.0 / start.temperature,
            penalty=lambda features, weight: diagonal_penalty(
                features, weight, self.slope_penalty, self.intercept_penalty, ease
            ),
            full=self._full,
        )
        return fit_from_start(
            data,
            method,
            start,
            max_iter=self.max_iter,
            title=type(self).__name__,
            progress=progress,
            first=first,
        )
