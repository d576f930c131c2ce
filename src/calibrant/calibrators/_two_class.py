"""What the methods for two classes share: one log-odds in, two probabilities out."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy.special import expit, log_expit

from calibrant.calibrators._base import LogitCalibrator
from calibrant.calibrators._columns import Floats, as_counts


class TwoClassCalibrator(LogitCalibrator):
    """A map of the log-odds s = z_1 - z_0 of two classes to new log-odds."""

    accuracy_preserving = False
    _host_only = True

    def _fit_log_odds(self, score: Floats, hit: NDArray[np.bool_], weight: Floats) -> None:
        """Fit on finite log-odds and whether the label is class 1; there may be no rows."""
        raise NotImplementedError

    def _new_log_odds(self, score: Floats) -> Floats:
        raise NotImplementedError

    def _fit_logits(self, logits: Floats, labels: NDArray[np.int64], weight: Floats) -> None:
        classes = logits.shape[1]
        if classes != 2:
            raise ValueError(f"{type(self).__name__} is for two classes, got {classes}")
        used = np.isfinite(logits).all(axis=1) & (weight > 0.0)  # a masked class says nothing
        score = logits[used, 1] - logits[used, 0]
        self._fit_log_odds(score, labels[used] == 1, as_counts(weight[used]))

    def _probabilities(self, logits: NDArray[Any]) -> NDArray[Any]:
        margin = self._margin(logits)
        return np.column_stack([expit(-margin), expit(margin)]).astype(logits.dtype)

    def _log_probabilities(self, logits: NDArray[Any]) -> NDArray[Any]:
        margin = self._margin(logits)
        return np.column_stack([log_expit(-margin), log_expit(margin)]).astype(logits.dtype)

    def _margin(self, logits: NDArray[Any]) -> Floats:
        """The new log-odds; infinite where a class is masked."""
        score = logits[:, 1].astype(np.float64) - logits[:, 0].astype(np.float64)
        finite = np.isfinite(score)
        return np.where(finite, self._new_log_odds(np.where(finite, score, 0.0)), score)
