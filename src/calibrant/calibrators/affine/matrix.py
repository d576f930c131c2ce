"""Matrix scaling (Guo et al. 2017) and Dirichlet calibration (Kull et al. 2019), regularised."""

from __future__ import annotations

from abc import ABC
from dataclasses import replace
from typing import final

from calibrant.calibrators._best_temperature import Start
from calibrant.calibrators._parameters import Count, NonNegative, constraints
from calibrant.calibrators.affine._affine_calibrator import (
    NO_MATRIX,
    AffineCalibrator,
    Strength,
    diagonal_penalty,
    slope_pull,
)
from calibrant.calibrators.affine._affine_loss import Penalty, row_means
from calibrant.common.docstrings import documented
from calibrant.common.types import InputKind, Progress
from calibrant.data.rows import Rows
from calibrant.formulas import Features, LogProbabilities


class FullMatrixCalibrator(AffineCalibrator, ABC):
    """A full matrix with the penalties of its parts: what matrix and Dirichlet scaling share."""

    _full = True
    _memory_remedy = NO_MATRIX
    _constraints = constraints(
        slope_penalty=NonNegative(or_auto=True),
        off_diagonal_penalty=NonNegative(or_auto=True),
        intercept_penalty=NonNegative(or_auto=True),
        max_iter=Count(),
    )

    def __init__(
        self,
        slope_penalty: Strength = "auto",
        off_diagonal_penalty: Strength = "auto",
        intercept_penalty: Strength = "auto",
        max_iter: int = 500,
        progress: Progress = False,
        input: InputKind = "logits",  # noqa: A002
    ) -> None:
        super().__init__(max_iter, progress, input)
        self.slope_penalty = slope_penalty
        self.off_diagonal_penalty = off_diagonal_penalty
        self.intercept_penalty = intercept_penalty

    @final
    def _penalty(self, features: Rows) -> Penalty:
        strengths = self.slope_penalty, self.intercept_penalty
        classes = features.n_classes
        if self.off_diagonal_penalty != "auto":  # ODIR to the letter
            given = float(self.off_diagonal_penalty) / (classes * (classes - 1))
            return replace(diagonal_penalty(features, *strengths), off_diagonal=given)
        mean = row_means(features.scores)
        deviations = features.with_scores(features.scores - mean)
        return replace(
            diagonal_penalty(deviations, *strengths),
            off_diagonal=None,
            common=slope_pull(features.with_scores(mean), classes),
        )


@documented
class MatrixScaling(FullMatrixCalibrator):
    """Every class reads every logit: softmax(z W + b). Does not preserve accuracy.

    Parameters
    ----------
    slope_penalty : float or "auto", default "auto"
        What multiplies the mean of the squares of the diagonal of T W - I; 0 frees it. "auto"
        is 2 C^2 / n times the mean square of the scaled features (C classes, n rows).
    off_diagonal_penalty : float or "auto", default "auto"
        The same for the other entries (with ``intercept_penalty`` this is ODIR of Kull et al.
        2019). "auto" is estimated from the data: where they show nothing but noise, the map stays
        vector scaling. See docs/methods-affine.md.
    intercept_penalty : float or "auto", default "auto"
        The same for the intercepts; "auto" is 3 C^2 / n.
    {max_iter}
    {fit_progress}
    {input_log_probs}

    Attributes
    ----------
    slopes_ : array of shape (classes, classes)
        W: the entry (c, k) is what class k reads from the logit of class c.
    intercept_ : array of shape (classes,)
        The intercepts b.
    temperature_ : float
        The temperature from which the fit started.

    Notes
    -----
    The probabilities are softmax(z W + b). The fit minimises the mean NLL by L-BFGS. It starts at
    temperature scaling (W = I/T, b = 0). Without penalties the C^2 parameters overfit badly for
    more than a few classes, so three parts are pulled back to the start: the diagonal of T W - I,
    its other entries, and b.

    References
    ----------
    Guo, Pleiss, Sun and Weinberger, "On Calibration of Modern Neural Networks", ICML 2017.

    Examples
    --------
    >>> import calibrant
    >>> data = calibrant.datasets.load("fashion-mnist-lenet5")
    >>> MatrixScaling().fit(data.val_logits, data.val_labels).slopes_.shape
    (10, 10)
    """


@documented
class DirichletCalibration(FullMatrixCalibrator):
    """Matrix scaling of log-probabilities: softmax(log p W + b). Does not preserve accuracy.

    Parameters
    ----------
    slope_penalty : float or "auto", default "auto"
        What multiplies the mean of the squares of the diagonal of T W - I; 0 frees it. "auto"
        is 2 C^2 / n times the mean square of the scaled features (C classes, n rows).
    off_diagonal_penalty : float or "auto", default "auto"
        The same for the other entries. "auto" is estimated from the data, see ``MatrixScaling``.
    intercept_penalty : float or "auto", default "auto"
        The same for the intercepts; "auto" is 3 C^2 / n.
    {max_iter}
    {fit_progress}
    {input_log_probs}

    Attributes
    ----------
    slopes_ : array of shape (classes, classes)
        W: the entry (c, k) is what class k reads from log p of class c.
    intercept_ : array of shape (classes,)
        The intercepts b.
    temperature_ : float
        The temperature from which the fit started.

    Notes
    -----
    The probabilities are softmax(log p W + b), p = softmax(z).

    This is the linear form of Dirichlet calibration: the class posteriors that follow when the
    predicted probabilities of each true class have a Dirichlet distribution. Log-probabilities do
    not change when a constant is added to a row of logits, so neither does the result; that is its
    only difference from ``MatrixScaling``.

    The paper's ODIR penalises the off-diagonal entries and the intercepts alone: that is
    ``slope_penalty=0``. W is measured in units of the start I/T here: an off-diagonal strength l is
    l T^2 in the paper's units.

    References
    ----------
    Kull et al., "Beyond temperature scaling: Obtaining well-calibrated multi-class probabilities
    with Dirichlet calibration", NeurIPS 2019.

    Examples
    --------
    >>> import calibrant
    >>> data = calibrant.datasets.load("fashion-mnist-lenet5")
    >>> DirichletCalibration().fit(data.val_logits, data.val_labels).slopes_.shape
    (10, 10)
    """

    def _features(self, start: Start, data: Rows) -> tuple[Features, float]:
        return LogProbabilities(), 1.0 / start.temperature
