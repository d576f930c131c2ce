"""Vector scaling (Guo et al. 2017)."""

from __future__ import annotations

from calibrant._types import InputKind, Progress
from calibrant.calibrators._base import Fitted, LabelledLogits
from calibrant.calibrators._parameters import check_counts, check_strength
from calibrant.calibrators.affine._base import AffineCalibrator
from calibrant.calibrators.affine._fit import (
    AffineMethod,
    Strength,
    diagonal_penalty,
    fit_affine_map,
)
from calibrant.formulas import PlainLogits


class VectorScaling(AffineCalibrator):
    """A slope and an intercept for each class: softmax(v * z + b). Does not preserve accuracy.

    Parameters
    ----------
    slope_penalty : float or "auto", default "auto"
        What multiplies the mean over the classes of the squares of T v - 1; 0 is the published
        method. "auto" is 2 C^2 / n times the mean square of z / T (C classes, n rows): enough not
        to lose to temperature scaling on unseen rows.
    intercept_penalty : float or "auto", default "auto"
        The same for the intercepts; "auto" is 3 C^2 / n.
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

    def _fit_logits(self, data: LabelledLogits) -> Fitted:
        method = AffineMethod(
            features=lambda start, rows: PlainLogits(),
            unit=lambda start: 1.0 / start.temperature,
            penalty=lambda features, weight: diagonal_penalty(
                features, weight, self.slope_penalty, self.intercept_penalty
            ),
            full=self._full,
        )
        return fit_affine_map(
            data,
            method,
            max_iter=self.max_iter,
            title=type(self).__name__,
            progress=self.progress,
        )
