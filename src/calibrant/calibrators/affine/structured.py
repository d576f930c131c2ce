"""Structured vector and matrix scaling (SVS and SMS of the probmetrics package)."""

from __future__ import annotations

from abc import ABC
from typing import Any, cast, final

from numpy.typing import NDArray

from calibrant.calibrators._base import Fitted
from calibrant.calibrators._best_temperature import Start
from calibrant.calibrators._parameters import check_counts
from calibrant.calibrators.affine._base import NO_MATRIX, AffineCalibrator
from calibrant.calibrators.affine._fit import AffineMethod, fit_affine_map
from calibrant.calibrators.affine._loss import Penalty
from calibrant.common.types import Floats, InputKind, Progress
from calibrant.data.rows import Rows
from calibrant.data.weights import effective_rows
from calibrant.formulas import AffineMap, Features, SmoothedLogProbabilities


class StructuredCalibrator(AffineCalibrator, ABC):
    """An affine map of smoothed log-probabilities: what SVS and SMS share."""

    def __init__(
        self,
        max_iter: int = 500,
        progress: Progress = False,
        input: InputKind = "logits",  # noqa: A002
    ) -> None:
        self.max_iter = max_iter
        self.progress = progress
        self.input = input

    @property
    def smoothing_(self) -> float:
        """The share e of the uniform distribution in the features."""
        features = self._own_formula(AffineMap).features
        return cast("SmoothedLogProbabilities", features).smoothing

    @final
    def _check_parameters(self) -> None:
        check_counts(self, "max_iter")

    @final
    def _fit_logits(self, data: Rows) -> Fitted:
        method = AffineMethod(_smoothed, lambda start: 1.0, _penalty, self._full)
        return fit_affine_map(
            data,
            method,
            max_iter=self.max_iter,
            title=type(self).__name__,
            progress=self.progress,
        )


def _smoothed(start: Start, data: Rows) -> Features:
    rows = effective_rows(data.weight)
    return SmoothedLogProbabilities(start.temperature, 1.0 / (rows + 1.0))


def _penalty(features: NDArray[Any], weight: Floats) -> Penalty:
    classes, rows = features.shape[1], effective_rows(weight)
    return Penalty(classes / rows, classes * (classes - 1) / rows, classes / rows)


class StructuredVectorScaling(StructuredCalibrator):
    """Vector scaling of smoothed log-probabilities. Does not preserve accuracy.

    softmax(v * u + b) of smoothed log-probabilities u. The fit starts at softmax(u), smoothed
    temperature scaling, and never ends worse than it.

    Parameters
    ----------
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


class StructuredMatrixScaling(StructuredCalibrator):
    """Matrix scaling of smoothed log-probabilities. Does not preserve accuracy.

    softmax(u W + b) of smoothed log-probabilities u. The fit starts at softmax(u), smoothed
    temperature scaling, and never ends worse than it.

    Parameters
    ----------
    max_iter : int, default 500
        The most iterations of L-BFGS.
    progress : bool or callable, default False
        True shows a bar on standard error where a fit takes more than a second; a callable is
        called as ``progress(done, total)``.
    input : {"logits", "probs"}, default "logits"
        What the scores are; probabilities are taken as log p minus its row mean.

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
