"""No calibration: the baseline."""

from __future__ import annotations

from calibrant.calibrators._base import Fitted, ProfileCalibrator
from calibrant.calibrators._fit_info import FitInfo
from calibrant.calibrators.profile.temperature_profile import TemperatureProfile
from calibrant.common.types import InputKind
from calibrant.formulas import ConstantTemperature


class Uncalibrated(ProfileCalibrator):
    """No calibration: softmax(z), as the classifier gives it. Preserves accuracy.

    "Base" in the tables of the PTS paper.

    Parameters
    ----------
    input : {"logits", "probs"}, default "logits"
        What the scores are; probabilities are taken as log p minus its row mean.

    Notes
    -----
    The probabilities are softmax(z): temperature scaling with T = 1.

    References
    ----------
    Tomani, Cremers and Buettner, "Parameterized Temperature Scaling for Boosting the Expressive
    Power in Post-Hoc Uncertainty Calibration", ECCV 2022.

    Examples
    --------
    >>> Uncalibrated().fit([[2.0, 0.0]], [0]).predict_proba([[2.0, 0.0]]).round(3)
    array([[0.881, 0.119]])
    """

    _adjusts = False
    _keeps_arg_max = True
    _gives = ConstantTemperature

    def __init__(self, input: InputKind = "logits") -> None:  # noqa: A002
        self.input = input

    def _fit_profile(self, profile: TemperatureProfile) -> Fitted:
        return ConstantTemperature(1.0), FitInfo(True, "nothing to fit")
