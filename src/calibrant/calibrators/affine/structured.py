"""Structured vector and matrix scaling (SVS and SMS of the probmetrics package)."""

from __future__ import annotations

from abc import ABC
from typing import cast, final

import numpy as np
from numpy.typing import NDArray

from calibrant.calibrators._base import Judgement
from calibrant.calibrators._best_temperature import Start, scaling_start
from calibrant.calibrators._choosing import held_out_nll
from calibrant.calibrators._class_frequencies import SeenPart, fit_seen
from calibrant.calibrators._fit_info import FitInfo
from calibrant.calibrators.affine._affine_calibrator import NO_MATRIX, AffineCalibrator
from calibrant.calibrators.affine._affine_loss import AffineFit, Penalty
from calibrant.calibrators.affine._left_out import left_out_losses
from calibrant.common.docstrings import documented
from calibrant.data.folds import Folds
from calibrant.data.rows import Rows
from calibrant.data.weights import effective_rows
from calibrant.formulas import AffineMap, Features, Formula, SmoothedLogProbabilities

NEWTON_ROWS = 100.0  # from which on one Newton step tells what leaving a row out does
FIXED = 1e6  # the penalty of slopes that are not fitted


class StructuredCalibrator(AffineCalibrator, ABC):
    """An affine map of smoothed log-probabilities: what SVS and SMS share."""

    @property
    def smoothing_(self) -> float:
        """The share e of the uniform distribution in the features."""
        features = self._own_formula(AffineMap).features
        return cast("SmoothedLogProbabilities", features).smoothing

    @final
    def _features(self, start: Start, data: Rows) -> tuple[Features, float]:
        smoothing = 1.0 / (effective_rows(data.weight) + 1.0)
        return SmoothedLogProbabilities(start.temperature, smoothing), 1.0

    def _penalty(self, features: Rows) -> Penalty:
        classes, rows = features.n_classes, effective_rows(features.weight)
        return Penalty(classes / rows, classes * (classes - 1) / rows, classes / rows)

    @final
    def _judged(self, data: Rows, folds: Folds) -> Judgement:
        """Leave single rows out by a Newton step where that is cheap and accurate, else folds."""
        part = SeenPart.of(data)
        if part is not None and len(part.seen) == 1:
            return super()._judged(data, folds)
        own = data if part is None else part.data
        formula, info, fit = self._fit_from(scaling_start(own), own, self._penalty, self.progress)
        fitted = (formula, info) if part is None else part.fitted(formula, info)
        newton = data.groups is None and data.effective_rows >= NEWTON_ROWS
        losses = left_out_losses(fit) if newton else None
        if losses is not None:
            beside = 0.0 if part is None else part.loss_beside
            return Judgement(folds.of(losses + beside), lambda: fitted)
        rows = folds.rows(data)

        def refit(kept: NDArray[np.intp]) -> Formula:
            """Fit on some rows, from the solution of all where these have the same classes."""
            some = rows.take(kept)
            if len(np.unique(some.labels)) < own.n_classes:
                return self._fit_seen(some)[0]
            return fit_seen(lambda own: self._refitted(own, fit), some)[0]

        return Judgement(held_out_nll(refit, rows, folds.parts), lambda: fitted)

    @final
    def _refitted(self, some: Rows, fit: AffineFit) -> tuple[Formula, FitInfo]:
        start = scaling_start(some)
        return self._fit_from(start, some, self._penalty, False, first=fit.minimum.x)[:2]


@documented
class StructuredVectorScaling(StructuredCalibrator):
    """Vector scaling of smoothed log-probabilities. Does not preserve accuracy.

    softmax(v * u + b) of smoothed log-probabilities u. The fit starts at softmax(u), smoothed
    temperature scaling, and never ends worse than it.

    Parameters
    ----------
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
        The temperature T of u.
    smoothing_ : float
        The share e of the uniform distribution in u.

    Notes
    -----
    u = log((1 - e) softmax(z / T) + e / C), with T of temperature scaling, e = 1 / (n + 1), n rows
    to fit on and C classes (those that are not masked): never below log(e / C), however wrong a
    single row is. The mean NLL is penalised by ``C/n |v - 1|^2`` and ``C/n |b|^2``, the method's
    definition: there is nothing to choose.

    References
    ----------
    SVS of the package probmetrics (Berta, Holzmüller, Jordan and Bach, "Structured Matrix Scaling
    for Multi-Class Calibration", 2025).

    Examples
    --------
    >>> import calibrant
    >>> data = calibrant.datasets.load("fashion-mnist-lenet5")
    >>> StructuredVectorScaling().fit(data.val_logits, data.val_labels).slopes_.shape
    (10,)
    """


@documented
class StructuredMatrixScaling(StructuredCalibrator):
    """Matrix scaling of smoothed log-probabilities. Does not preserve accuracy.

    softmax(u W + b) of smoothed log-probabilities u. The fit starts at softmax(u), smoothed
    temperature scaling, and never ends worse than it.

    Parameters
    ----------
    {max_iter}
    {fit_progress}
    {input_log_probs}

    Attributes
    ----------
    slopes_ : array of shape (classes, classes)
        W: the entry (c, k) is what class k reads from u of class c.
    intercept_ : array of shape (classes,)
        The intercepts b.
    temperature_ : float
        The temperature T of u.
    smoothing_ : float
        The share e of the uniform distribution in u.

    Notes
    -----
    u is that of ``StructuredVectorScaling``. The mean NLL is penalised by C/n times the squares of
    the diagonal of W - I, C (C - 1)/n times those of its other entries, and ``C/n |b|^2``.

    References
    ----------
    SMS of the package probmetrics (Berta, Holzmüller, Jordan and Bach, "Structured Matrix Scaling
    for Multi-Class Calibration", 2025).

    Examples
    --------
    >>> import calibrant
    >>> data = calibrant.datasets.load("fashion-mnist-lenet5")
    >>> StructuredMatrixScaling().fit(data.val_logits, data.val_labels).slopes_.shape
    (10, 10)
    """

    _full = True
    _memory_remedy = NO_MATRIX


@documented
class BiasCorrection(StructuredCalibrator):
    """Temperature scaling, then one number added to each class. Does not preserve accuracy.

    softmax(u + b) of smoothed log-probabilities u. It corrects class frequencies that differ from
    those that the model was trained for, with one parameter per class.

    Parameters
    ----------
    {max_iter}
    {fit_progress}
    {input_log_probs}

    Attributes
    ----------
    slopes_ : array of shape (classes,)
        The slopes, all of them 1.
    intercept_ : array of shape (classes,)
        The numbers b.
    temperature_ : float
        The temperature T of u.
    smoothing_ : float
        The share e of the uniform distribution in u.

    See Also
    --------
    StructuredVectorScaling : The same with a slope for each class.

    Notes
    -----
    u is that of ``StructuredVectorScaling``, and so is the penalty of b, ``C/n |b|^2``.

    References
    ----------
    Alexandari, Kundaje and Shrikumar, "Maximum Likelihood with Bias-Corrected Calibration is
    Hard-To-Beat at Label Shift Adaptation", ICML 2020. They fit T and b together and without a
    penalty.

    Examples
    --------
    >>> import calibrant
    >>> data = calibrant.datasets.load("fashion-mnist-lenet5")
    >>> BiasCorrection().fit(data.val_logits, data.val_labels).intercept_.shape
    (10,)
    """

    def _penalty(self, features: Rows) -> Penalty:
        return Penalty(FIXED, None, features.n_classes / effective_rows(features.weight))
