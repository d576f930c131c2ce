"""What a window of rows says against calibration: a p-value, and a bet of mean 1 at most."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from scipy.special import chdtrc, log_expit, logit, logsumexp

from calibrant.data.binning import BinStats

# The bets: true chances whose log-odds are a + b (log-odds of the confidence), (a, b - 1) at these
# distances in eight directions. Small ones pay for windows of many rows, large ones for few.
_DISTANCES = (0.02, 0.05, 0.1, 0.2, 0.4, 0.8)
_ANGLES = np.pi * np.arange(8) / 4.0
_FURTHEST = 15.0  # log-odds of a confidence that nobody can check: 1 - 3e-7


class Evidence(NamedTuple):
    """What the cells of one window say against calibration."""

    p_value: float
    log_e_value: float

    @classmethod
    def of(cls, cells: BinStats) -> Evidence:
        """A score test in the directions of the bets, and the mean of the bets."""
        used = cells.weight > 0.0
        chance = np.clip(cells.confidence[used], np.exp(-_FURTHEST), 1.0 - np.exp(-_FURTHEST))
        rows, hits = cells.weight[used], cells.correct_sum[used]
        odds = np.asarray(logit(chance))
        # Two sums of residuals, plain and times the log-odds, are 0 but for noise: chi-squared.
        directions = np.stack([np.ones_like(odds), odds])
        scores = directions @ (hits - rows * chance)
        spread = (directions * (rows * chance * (1.0 - chance))) @ directions.T
        statistic = float(scores @ np.linalg.pinv(spread, rcond=1e-9, hermitian=True) @ scores)
        smallest = 1e-9 * max(spread.max(), 1e-300)
        if np.linalg.matrix_rank(spread, tol=smallest, hermitian=True) == 2:
            p_value = float(np.exp(-statistic / 2.0))  # of two degrees of freedom
        else:
            p_value = float(chdtrc(1.0, statistic))
        # The logarithm of the mean likelihood ratio of all bets.
        angle, distance = np.meshgrid(_ANGLES, _DISTANCES)
        a, b = ((distance * one(angle)).reshape(-1, 1) for one in (np.cos, np.sin))
        bet = a + (1.0 + b) * odds
        gains = (log_expit(bet) - log_expit(odds)) @ hits
        losses = (log_expit(-bet) - log_expit(-odds)) @ (rows - hits)
        return cls(p_value, float(logsumexp(gains + losses) - np.log(len(bet))))
