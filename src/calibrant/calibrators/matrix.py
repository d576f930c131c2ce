"""Matrix scaling (Guo et al. 2017) with off-diagonal and intercept regularisation."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from numpy.typing import NDArray

from calibrant._arrays import InputKind
from calibrant.calibrators._affine import Penalty, row_means
from calibrant.calibrators._affine_map import (
    AffineCalibrator,
    Strength,
    diagonal_penalty,
    slope_pull,
)


class MatrixScaling(AffineCalibrator):
    """softmax(z W + b): every class reads every logit. Does not preserve accuracy.

    Fitted by the mean NLL from temperature scaling (W = I/T, b = 0). Without penalties its C^2
    parameters overfit badly for more than a few classes, so three parts are pulled to the start:
    the diagonal of T W - I, its other entries, and b.

    Parameters
    ----------
    slope_penalty, off_diagonal_penalty, intercept_penalty
        What multiplies the mean of the squares of each part (the last two are ODIR of Kull et al.
        2019); 0 frees it. ``"auto"`` grows with C / n as in ``VectorScaling``, and for the other
        entries as the data speak against them: where they show nothing but noise, the map stays
        vector scaling. See the docs.
    max_iterations
        Of L-BFGS.
    verbose
        Show progress on standard error where a fit takes more than a second.
    input
        What the scores are: ``"logits"`` or ``"probs"``.

    Attributes
    ----------
    slopes_
        W: the entry (c, k) is what class k reads from the logit of class c.
    intercept_
        b, one a class.
    temperature_
        The temperature from which the fit started.
    """

    _full = True
    _method = "matrix scaling"

    def __init__(
        self,
        slope_penalty: Strength = "auto",
        off_diagonal_penalty: Strength = "auto",
        intercept_penalty: Strength = "auto",
        max_iterations: int = 500,
        verbose: bool = False,
        input: InputKind = "logits",  # noqa: A002
    ) -> None:
        self.slope_penalty = slope_penalty
        self.off_diagonal_penalty = off_diagonal_penalty
        self.intercept_penalty = intercept_penalty
        self.max_iterations = max_iterations
        self.verbose = verbose
        self.input = input

    def _centred(self) -> bool:
        return self.off_diagonal_penalty == "auto"  # a given one is ODIR to the letter

    def _penalty(self, features: NDArray[Any], rows: float) -> Penalty:
        classes = features.shape[1]
        if self.off_diagonal_penalty != "auto":
            given = float(self.off_diagonal_penalty) / (classes * (classes - 1))
            diagonal = diagonal_penalty(features, rows, self.slope_penalty, self.intercept_penalty)
            return replace(diagonal, off_diagonal=given)
        mean = row_means(features)
        return replace(
            diagonal_penalty(features - mean, rows, self.slope_penalty, self.intercept_penalty),
            off_diagonal=None,
            common=slope_pull(mean, rows, classes),
        )
