"""Entropy-based temperature scaling (HTS, Balanya, Maronas and Ramos 2024)."""

from __future__ import annotations

from calibrant.calibrators._base import Fitted, ProfileCalibrator
from calibrant.calibrators._parameters import Choice, NonNegative, constraints
from calibrant.calibrators.profile.losses import LOSSES
from calibrant.calibrators.profile.temperature_profile import TemperatureProfile
from calibrant.calibrators.temperature._default_recipe import (
    DEFAULT_LOSS,
    NetworkSettings,
    fit_default,
)
from calibrant.common.types import InputKind, Progress, RandomState
from calibrant.formulas import LogEntropy, NetworkTemperature

SMALLEST_ENTROPY = 1e-6  # of log(classes): smaller ones count as this, for the logarithm's sake


class EntropyTemperatureScaling(ProfileCalibrator):
    """A temperature that depends on the entropy of the prediction. Preserves accuracy.

    Two parameters, so it is robust with little data.

    Parameters
    ----------
    loss : {"mixed", "nll", "brier"}, default "mixed"
        What is minimised; "mixed" is Brier + 0.2 NLL.
    penalty : float or "auto", default "auto"
        The pull towards temperature scaling, as a number of rows; "auto" chooses it by the
        leave-one-out loss.
    random_state : int, numpy.random.Generator or None, default None
        Where the fit starts; None is the seed 0, so that it can be repeated.
    progress : bool or callable, default False
        True shows a bar on standard error where a fit takes more than a second; a callable is
        called as ``progress(done, total)``.
    input : {"logits", "probs"}, default "logits"
        What the scores are; probabilities are taken as log p minus its row mean.

    Notes
    -----
    log T = log T0 + 3 tanh(r / 3), r = w log(h) + b, where h is the entropy of softmax(z) divided
    by the logarithm of the number of finite logits, and T0 the best single temperature.

    References
    ----------
    Balanya, Maronas and Ramos, "Adaptive temperature scaling for robust calibration of deep neural
    networks", Neural Computing and Applications 2024.

    Examples
    --------
    >>> import calibrant
    >>> data = calibrant.datasets.load("fashion-mnist-lenet5")
    >>> hts = EntropyTemperatureScaling().fit(data.val_logits[:500], data.val_labels[:500])
    >>> hts.temperature(data.test_logits[:2]).shape
    (2,)
    """

    _keeps_arg_max = True
    _gives = NetworkTemperature
    _constraints = constraints(loss=Choice(*sorted(LOSSES)), penalty=NonNegative(or_auto=True))

    def __init__(
        self,
        loss: str = DEFAULT_LOSS,
        penalty: float | str = "auto",
        random_state: RandomState = None,
        progress: Progress = False,
        input: InputKind = "logits",  # noqa: A002
    ) -> None:
        self.loss = loss
        self.penalty = penalty
        self.random_state = random_state
        self.progress = progress
        self.input = input

    def _fit_profile(self, profile: TemperatureProfile) -> Fitted:
        settings = NetworkSettings(
            type(self).__name__,
            loss=self.loss,
            penalty=self.penalty,
            random_state=self.random_state,
            progress=self.progress,
        )
        reading = LogEntropy(SMALLEST_ENTROPY)
        formula, info, _ = fit_default(profile, lambda best, origin: reading, settings)
        return formula, info
