"""Structured vector and matrix scaling (SVS and SMS of the probmetrics package)."""

from __future__ import annotations

from typing import Any, ClassVar

from array_api_compat import array_namespace
from numpy.typing import NDArray

from calibrant._arrays import Array, InputKind
from calibrant._numerics import softmax
from calibrant.calibrators._affine import Penalty
from calibrant.calibrators._affine_map import AffineCalibrator


class StructuredVectorScaling(AffineCalibrator):
    """softmax(v * u + b) of smoothed log-probabilities u. Does not preserve accuracy.

    u = log((1 - e) softmax(z / T) + e / C), with T of temperature scaling, e = 1 / (n + 1) and
    n rows to fit on: never below log(e / C), however wrong a single row is. The mean NLL is
    penalised by C/n |v - 1|^2 and C/n |b|^2, which is the method's definition: there is nothing to
    choose. The fit starts at softmax(u), smoothed temperature scaling, and never ends worse than
    it. C counts the finite classes of a row where u is formed.

    Parameters
    ----------
    max_iterations
        Of L-BFGS.
    verbose
        Show progress on standard error where a fit takes more than a second.
    input
        What the scores are: ``"logits"`` or ``"probs"``.

    Attributes
    ----------
    slopes_, intercept_
        v and b, one a class.
    temperature_, smoothing_
        T and e.
    """

    _state = (*AffineCalibrator._state, "smoothing_")
    _full: ClassVar[bool] = False
    _method = "structured vector scaling"

    smoothing_: float

    def __init__(
        self,
        max_iterations: int = 500,
        verbose: bool = False,
        input: InputKind = "logits",  # noqa: A002
    ) -> None:
        self.max_iterations = max_iterations
        self.verbose = verbose
        self.input = input

    def _before_features(self, rows: float) -> None:
        self.smoothing_ = 1.0 / (rows + 1.0)

    def _features(self, logits: Array, finite: Array) -> Array:
        xp = array_namespace(logits)
        present = xp.astype(finite, logits.dtype)
        uniform = present / xp.sum(present, axis=1, keepdims=True)
        smooth = (1.0 - self.smoothing_) * softmax(logits, self.temperature_)
        smooth = smooth + self.smoothing_ * uniform
        return xp.log(xp.where(smooth > 0.0, smooth, xp.ones_like(smooth)))

    def _unit(self) -> float:
        return 1.0

    def _penalty(self, features: NDArray[Any], rows: float) -> Penalty:
        classes = features.shape[1]
        return Penalty(classes / rows, classes * (classes - 1) / rows, classes / rows)


class StructuredMatrixScaling(StructuredVectorScaling):
    """softmax(u W + b) of smoothed log-probabilities u. Does not preserve accuracy.

    ``StructuredVectorScaling`` with a full matrix, whose off-diagonal entries are penalised by
    C (C - 1) / n; see there for u, the other penalties and the parameters. The entry (c, k) of
    ``slopes_`` is what class k reads from u of class c.
    """

    _full = True
    _method = "structured matrix scaling"
