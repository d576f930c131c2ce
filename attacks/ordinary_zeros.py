"""Probabilities of exactly 0 and 1: a language model that says "100%" and is wrong, and votes."""

from __future__ import annotations

import numpy as np

import calibrant
from ordinary_measures import measure

ITEM = "4 exact 0 and 1"
VALUES = np.array([0.0, 0.1, 0.2, 0.3, 0.5, 0.6, 0.7, 0.8, 0.85, 0.9, 0.95, 1.0])
TRUTH = np.array([0.1, 0.15, 0.2, 0.3, 0.4, 0.5, 0.52, 0.6, 0.62, 0.7, 0.78, 0.85])
SHARES = np.array([4, 2, 2, 2, 5, 3, 5, 12, 8, 18, 19, 20]) / 100


def confidences(count: int, seed: int) -> tuple[np.ndarray, np.ndarray]:
    """Verbalised confidences, and whether the answers were right."""
    rng = np.random.default_rng(seed)
    at = rng.choice(len(VALUES), count, p=SHARES)
    return VALUES[at], (rng.random(count) < TRUTH[at]).astype(int)


def fitted(method: str) -> calibrant.Calibrator:
    """A method, fitted on 1,000 confidences."""
    return calibrant.calibrator(method, input="probs").fit(*confidences(1000, 0))


for _method in ("ts", "pts", "platt", "beta", "histogram", "irova", "venn-abers", "auto"):

    @measure(
        ITEM,
        f"12 confidences, 1,000 rows: NLL of {_method} on fresh rows (the best possible is 0.559)",
        "at most 0.57",
        lambda x: x <= 0.57,
    )
    def nll(method: str = _method) -> float:
        probs, labels = confidences(20_000, 1)
        return float(calibrant.metrics.nll(fitted(method).predict_proba(probs), labels))


@measure(
    ITEM,
    "platt: probability of 1.0 less that of 0.999",
    "within 0.01 of 0",
    lambda x: abs(x) < 0.01,
)
def platt_near_1() -> float:
    model = fitted("platt")
    one, near = model.predict_proba(np.array([1.0, 0.999]))[:, 1]
    return float(one - near)


@measure(ITEM, "rows that sum to 1.00001", "served", lambda x: x == "served")
def rounded_sums() -> str:
    model = calibrant.TS(input="probs").fit(np.array([0.2, 0.7, 0.8, 0.6]), [0, 1, 1, 0])
    probs = model.predict_proba(np.array([[1.00001, 0.0], [0.50001, 0.5]]))
    return "served" if np.allclose(probs.sum(axis=1), 1.0) else "no distribution"


@measure(
    ITEM,
    "votes of a forest: NLL through AutoCalibrator less that through CalibratedClassifier",
    "within 0.001 of 0",
    lambda x: abs(x) <= 0.001,
)
def votes() -> float:
    from sklearn.datasets import make_classification
    from sklearn.ensemble import RandomForestClassifier
    from sklearn.frozen import FrozenEstimator
    from sklearn.metrics import log_loss

    from calibrant.sklearn import CalibratedClassifier

    rows, labels = make_classification(
        8000, 20, n_informative=8, n_classes=4, flip_y=0.1, random_state=0
    )
    forest = RandomForestClassifier(20, random_state=0).fit(rows[:1000], labels[:1000])
    wrapped = CalibratedClassifier(FrozenEstimator(forest)).fit(rows[1000:2000], labels[1000:2000])
    scores = forest.predict_proba(rows)
    direct = calibrant.AutoCalibrator(input="probs").fit(scores[1000:2000], labels[1000:2000])
    return float(
        log_loss(labels[2000:], direct.predict_proba(scores[2000:]))
        - log_loss(labels[2000:], wrapped.predict_proba(rows[2000:]))
    )
