"""Temperature from the margin (SMART)."""

from __future__ import annotations

from collections.abc import Sequence

from calibrant.calibrators._base import Fitted, ProfileCalibrator
from calibrant.calibrators._parameters import Choice, Count, NonNegative, Widths, constraints
from calibrant.calibrators.profile.losses import LOSSES
from calibrant.calibrators.profile.temperature_profile import TemperatureProfile
from calibrant.calibrators.temperature._default_recipe import (
    DEFAULT_LOSS,
    DEFAULT_MEMBERS,
    NetworkSettings,
    fit_default,
)
from calibrant.common.types import InputKind, Progress, RandomState
from calibrant.formulas import Margin, NetworkTemperature


class MarginTemperatureScaling(ProfileCalibrator):
    """A temperature that depends on the gap between the two largest logits. Preserves accuracy.

    It reads what SMART reads. The networks are fitted by the losses and penalties of PTS; the
    authors of SMART minimise a soft-binned calibration error.

    Parameters
    ----------
    hidden : sequence of int, default (5, 5)
        Widths of the hidden layers.
    loss : {"mixed", "nll", "brier"}, default "mixed"
        What the networks minimise; "mixed" is Brier + 0.2 NLL.
    penalty : float or "auto", default "auto"
        The pull towards temperature scaling, as a number of rows; "auto" chooses it by the
        leave-one-out loss.
    members : int, default 4
        How many networks are averaged.
    random_state : int, numpy.random.Generator or None, default None
        Where the networks start; None is the seed 0, so that a fit can be repeated.
    progress : bool or callable, default False
        True shows a bar on standard error where a fit takes more than a second; a callable is
        called as ``progress(done, total)``.
    input : {"logits", "probs"}, default "logits"
        What the scores are; probabilities are taken as log p minus its row mean.

    Notes
    -----
    T(z) = T0 exp(mean over networks of 3 tanh(r / 3)), r = network(gap), T0 being the best single
    temperature.

    References
    ----------
    "Sample Margin-Aware Recalibration of Temperature Scaling" (SMART), 2025.

    Examples
    --------
    >>> import calibrant
    >>> data = calibrant.datasets.load("fashion-mnist-lenet5")
    >>> smart = MarginTemperatureScaling().fit(data.val_logits[:500], data.val_labels[:500])
    >>> smart.temperature(data.test_logits[:2]).shape
    (2,)
    """

    _keeps_arg_max = True
    _gives = NetworkTemperature
    _constraints = constraints(
        loss=Choice(*sorted(LOSSES)),
        penalty=NonNegative(or_auto=True),
        hidden=Widths(),
        members=Count(),
    )

    def __init__(
        self,
        hidden: Sequence[int] = (5, 5),
        loss: str = DEFAULT_LOSS,
        penalty: float | str = "auto",
        members: int = DEFAULT_MEMBERS,
        random_state: RandomState = None,
        progress: Progress = False,
        input: InputKind = "logits",  # noqa: A002
    ) -> None:
        self.hidden = hidden
        self.loss = loss
        self.penalty = penalty
        self.members = members
        self.random_state = random_state
        self.progress = progress
        self.input = input

    def _fit_profile(self, profile: TemperatureProfile) -> Fitted:
        settings = NetworkSettings(
            type(self).__name__,
            hidden=self.hidden,
            members=self.members,
            loss=self.loss,
            penalty=self.penalty,
            random_state=self.random_state,
            progress=self.progress,
        )
        formula, info, _ = fit_default(profile, lambda best, origin: Margin(), settings)
        return formula, info
