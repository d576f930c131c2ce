"""Tied scores: few different values, as of verbalised confidences, trees and rounded scores."""

from __future__ import annotations

import tempfile
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np

import calibrant
from calibrant import streams
from ordinary_measures import measure

ITEM = "1 tied scores"
CANDIDATES = ("base", "ts", "svs", "platt", "quadratic", "odds-spline", "beta", "ets", "mpts")


class Problem:
    """Two classes; a score has few values, and class 1 its own frequency at each of them."""

    def __init__(self, seed: int, values: int) -> None:
        self.rng = np.random.default_rng(seed)
        self.scores = np.sort(self.rng.choice(np.arange(3, 98) / 100, values, replace=False))
        self.shares = self.rng.dirichlet(np.full(values, 2.0))
        odds = np.log(self.scores / (1.0 - self.scores))
        self.truth = 1.0 / (1.0 + np.exp(0.3 - 0.6 * odds - self.rng.normal(0.0, 0.2, values)))

    def rows(self, count: int) -> tuple[np.ndarray, np.ndarray]:
        """Scores and labels of fresh rows."""
        at = self.rng.choice(len(self.scores), count, p=self.shares)
        return self.scores[at], (self.rng.random(count) < self.truth[at]).astype(int)


def logits_of(probs: np.ndarray) -> np.ndarray:
    """The log-odds of class 1."""
    return np.log(probs / (1.0 - probs))


def held_out_nll(name: str, fit: tuple[Any, Any], test: tuple[Any, Any]) -> float:
    """The NLL of fresh rows after a fit."""
    model = calibrant.calibrator(name).fit(logits_of(fit[0]), fit[1])
    return float(calibrant.metrics.nll(model.predict_proba(logits_of(test[0])), test[1]))


@cache
def compared() -> Any:
    """The comparison of methods on 12 confidences, with and without jitter."""
    rows, labels = Problem(0, 12).rows(3000)
    jitter = np.random.default_rng(1).normal(0.0, 1e-7, 3000)
    methods = ["platt", "odds-spline", "quadratic"]
    return [
        calibrant.compare(logits_of(scores), labels, methods=methods, n_resamples=0)
        for scores in (rows, rows + jitter)
    ]


def value(comparison: Any, method: str, metric: str) -> float:
    """One number of a comparison."""
    (result,) = [one for one in comparison.results if one.method == method]
    return float(getattr(result, metric))


@measure(
    ITEM, "12 confidences, 3,000 rows: accuracy of odds-spline", "above 0.5", lambda x: x > 0.5
)
def accuracy_of_spline() -> float:
    return value(compared()[0], "odds-spline", "accuracy")


for _method in ("odds-spline", "platt"):

    @measure(
        ITEM,
        f"12 confidences: cross-validated NLL of {_method}, less that with a jitter of 1e-7",
        "within 0.005 of 0",
        lambda x: abs(x) < 0.005,
    )
    def nll_beside_jitter(method: str = _method) -> float:
        tied, jittered = compared()
        return value(tied, method, "nll") - value(jittered, method, "nll")


@cache
def regrets() -> np.ndarray:
    """By how much auto is behind the best of its candidates, in 20 problems."""
    found = []
    for seed in range(20):
        problem = Problem(seed, 5 + (25 * seed) // 19)
        fit, test = problem.rows(3000), problem.rows(100_000)
        best = min(held_out_nll(name, fit, test) for name in (*CANDIDATES, "spts"))
        found.append(held_out_nll("auto", fit, test) - best)
    return np.array(found)


@measure(
    ITEM,
    "20 problems, 5 to 30 scores, 3,000 rows: auto less its best candidate on fresh rows, mean",
    "at most 0.002",
    lambda x: x <= 0.002,
    slow=True,
)
def mean_regret() -> float:
    return float(regrets().mean())


@measure(
    ITEM,
    "20 problems, 5 to 30 scores, 3,000 rows: auto less its best candidate on fresh rows, worst",
    "at most 0.006",
    lambda x: x <= 0.006,
    slow=True,
)
def worst_regret() -> float:
    return float(regrets().max())


@measure(
    ITEM,
    "200 problems, 30 scores, 300 rows: cross-validated NLL of histogram less that of fresh rows",
    "within 0.01 of 0",
    lambda x: abs(x) <= 0.01,
)
def histogram_optimism() -> float:
    """The mean; that of 20 problems would have a standard error of 0.013, beyond the limit."""
    found = []
    for seed in range(200):
        problem = Problem(100 + seed, 30)
        fit, test = problem.rows(300), problem.rows(20_000)
        told = calibrant.compare(logits_of(fit[0]), fit[1], methods=["histogram"], n_resamples=0)
        found.append(value(told, "histogram", "nll") - held_out_nll("histogram", fit, test))
    return float(np.mean(found))


def streamed(method: str) -> float:
    """The worst NLL over six seeds of fits on 20,000 of 100,000 rows, less that in memory.

    Half of the rows lie on three values.
    """
    rng = np.random.default_rng(5)
    scores = np.where(
        rng.random(100_000) < 0.5,
        rng.choice([0.2, 0.6, 0.9], 100_000),
        rng.uniform(0.02, 0.98, 100_000),
    )
    labels = (rng.random(100_000) < 0.15 + 0.7 * scores**1.5).astype(int)
    logits = logits_of(scores)
    whole = calibrant.calibrator(method).fit(logits, labels)

    def nll(model: Any) -> float:
        return float(calibrant.metrics.nll(model.predict_proba(logits), labels))

    with tempfile.TemporaryDirectory() as folder:
        for part in range(4):
            rows = slice(25_000 * part, 25_000 * (part + 1))
            np.save(Path(folder) / f"{part}.logits.npy", logits[rows])
            np.save(Path(folder) / f"{part}.label.npy", labels[rows])
        stream = streams.open_stream(folder)
        fits = [
            nll(streams.fit_stream(stream, method, max_rows=20_000, random_state=seed))
            for seed in range(6)
        ]
    return max(fits) - nll(whole)


for _method in ("platt", "auto"):

    @measure(
        ITEM,
        f"stream of 100,000 rows, half on three values, 20,000 kept: {_method} less that in memory",
        "at most 0.002",
        lambda x: x <= 0.002,
        slow=True,
    )
    def streamed_nll(method: str = _method) -> float:
        return streamed(method)


@cache
def wrapped_nll(name: str) -> float:
    """Log loss of the default CalibratedClassifier less that of its best simple method."""
    from sklearn.datasets import make_classification
    from sklearn.ensemble import RandomForestClassifier
    from sklearn.metrics import log_loss
    from sklearn.neighbors import KNeighborsClassifier
    from sklearn.tree import DecisionTreeClassifier

    from calibrant.sklearn import CalibratedClassifier

    model = {
        "decision tree": DecisionTreeClassifier(max_depth=4, random_state=0),
        "k-NN": KNeighborsClassifier(10),
        "50-tree forest": RandomForestClassifier(50, random_state=0),
    }[name]
    found = []
    for seed in range(4):
        rows, labels = make_classification(
            12_000, 20, n_informative=8, flip_y=0.1, class_sep=0.7, random_state=seed
        )
        losses = []
        for method in ("auto", "platt", "quadratic", "odds-spline"):
            wrapped = CalibratedClassifier(model, method=method).fit(rows[:2000], labels[:2000])
            losses.append(log_loss(labels[2000:], wrapped.predict_proba(rows[2000:])))
        found.append(losses[0] - min(losses[1:]))
    return float(np.mean(found))


for _model in ("decision tree", "k-NN", "50-tree forest"):

    @measure(
        ITEM,
        f"CalibratedClassifier on a {_model}: log loss less that of its best simple method",
        "at most 0.003",
        lambda x: x <= 0.003,
        slow=True,
    )
    def wrapped_classifier(name: str = _model) -> float:
        return wrapped_nll(name)
