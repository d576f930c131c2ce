"""Vector scaling (Guo et al. 2017)."""

from __future__ import annotations

from typing import Any

from numpy.typing import NDArray

from calibrant._arrays import InputKind
from calibrant.calibrators._affine import Penalty
from calibrant.calibrators._affine_map import AffineCalibrator, Strength, diagonal_penalty


class VectorScaling(AffineCalibrator):
    """softmax(v * z + b): a slope and an intercept for each class. Does not preserve accuracy.

    Fitted by the mean NLL from temperature scaling (v = 1/T, b = 0), with penalties on the
    relative change of the slopes, T v - 1, and on the intercepts.

    Parameters
    ----------
    slope_penalty, intercept_penalty
        What multiplies the mean over the classes of the squares; 0 is the published method.
        ``"auto"`` is 2 C^2 / n times the mean square of z / T for the slopes and 3 C^2 / n for the
        intercepts (C classes, n rows): enough not to lose to temperature scaling on unseen rows.
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
    temperature_
        The temperature from which the fit started.
    """

    _full = False
    _method = "vector scaling"

    def __init__(
        self,
        slope_penalty: Strength = "auto",
        intercept_penalty: Strength = "auto",
        max_iterations: int = 500,
        verbose: bool = False,
        input: InputKind = "logits",  # noqa: A002
    ) -> None:
        self.slope_penalty = slope_penalty
        self.intercept_penalty = intercept_penalty
        self.max_iterations = max_iterations
        self.verbose = verbose
        self.input = input

    def _penalty(self, features: NDArray[Any], rows: float) -> Penalty:
        return diagonal_penalty(features, rows, self.slope_penalty, self.intercept_penalty)
