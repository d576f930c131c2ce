"""Structured vector and matrix scaling (SVS and SMS of the probmetrics package)."""

from __future__ import annotations

from abc import ABC
from typing import cast, final

from calibrant.calibrators._best_temperature import Start
from calibrant.calibrators.affine._affine_calibrator import NO_MATRIX, AffineCalibrator
from calibrant.calibrators.affine._affine_loss import Penalty
from calibrant.common.docstrings import documented
from calibrant.data.rows import Rows
from calibrant.data.weights import effective_rows
from calibrant.formulas import AffineMap, Features, SmoothedLogProbabilities


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

    @final
    def _penalty(self, features: Rows) -> Penalty:
        classes, rows = features.n_classes, effective_rows(features.weight)
        return Penalty(classes / rows, classes * (classes - 1) / rows, classes / rows)


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
