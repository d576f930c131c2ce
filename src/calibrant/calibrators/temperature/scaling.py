"""Temperature scaling (Guo et al. 2017)."""

from __future__ import annotations

from calibrant.calibrators._base import Fitted, ProfileCalibrator
from calibrant.calibrators._best_temperature import TEMPERATURE_BOUNDS, best_temperature
from calibrant.calibrators._fit_info import FitInfo
from calibrant.calibrators._parameters import Bounds, Choice, NonNegative, constraints
from calibrant.calibrators.profile.losses import LOSSES
from calibrant.calibrators.profile.temperature_profile import TemperatureProfile
from calibrant.common.types import InputKind
from calibrant.formulas import ConstantTemperature


class TemperatureScaling(ProfileCalibrator):
    """One temperature for all rows: softmax(z / T). Preserves accuracy.

    Parameters
    ----------
    loss : {"nll", "brier", "mixed"}, default "nll"
        What T minimises; "mixed" is Brier + 0.2 NLL. The NLL is convex in 1/T: its minimiser is
        exact, by a bracketed root.
    bounds : tuple of two floats, default (0.01, 10000)
        The smallest and the largest temperature allowed; ending at one is a warning.
    prior_rows : float or "auto", default 0
        The weight, in rows, of a prior that keeps T near 1 where few rows, hardly one of them
        wrong, would take it to its bounds: (log T)^2 / 2 up to a factor e, ``|log T| - 1/2``
        beyond.
        0 is the published method; "auto" is 10 rows that fade to none at 1,000 rows.
    input : {"logits", "probs"}, default "logits"
        What the scores are; probabilities are taken as log p minus its row mean.

    Attributes
    ----------
    temperature_ : float
        The fitted T.

    Notes
    -----
    The probabilities are p = softmax(z / T). For the NLL a T inside the bounds solves
    mean(z_y) = mean(sum_c p_c z_c), y being the true class: the logits of the true classes are on
    average what p expects them to be.

    References
    ----------
    Guo, Pleiss, Sun and Weinberger, "On Calibration of Modern Neural Networks", ICML 2017.

    Examples
    --------
    >>> ts = TemperatureScaling().fit([[4.0, 0.0], [3.0, 0.0], [5.0, 0.0]], [0, 0, 1])
    >>> round(ts.temperature_, 2)
    12.37
    """

    _keeps_arg_max = True
    _gives = ConstantTemperature
    _constraints = constraints(
        loss=Choice(*sorted(LOSSES)), bounds=Bounds(), prior_rows=NonNegative(or_auto=True)
    )

    def __init__(
        self,
        loss: str = "nll",
        bounds: tuple[float, float] = TEMPERATURE_BOUNDS,
        prior_rows: float | str = 0.0,
        input: InputKind = "logits",  # noqa: A002
    ) -> None:
        self.loss = loss
        self.bounds = bounds
        self.prior_rows = prior_rows
        self.input = input

    @property
    def temperature_(self) -> float:
        """The fitted temperature."""
        return self._own_formula(ConstantTemperature).value

    def _fit_profile(self, profile: TemperatureProfile) -> Fitted:
        best = best_temperature(profile, self.loss, self.bounds, self.prior_rows)
        return ConstantTemperature(best.temperature), FitInfo(
            best.converged, best.message, loss=self.loss, before=best.loss_before, after=best.loss
        )
