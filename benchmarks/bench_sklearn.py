"""Is CalibratedClassifier no worse than scikit-learn's own calibration?

    python benchmarks/bench_sklearn.py [--seeds 10] [--methods ts,pts] [--pooled] [--jobs 1]
    python benchmarks/bench_sklearn.py --reference sigmoid --methods platt --classifiers SGD

Three of scikit-learn's data sets, five classifiers. Each seed cuts a data set into halves: five
folds of one fit and calibrate the classifier, the other judges. Both sides see the same folds.
The table has log loss, Brier score and 15-bin ECE of the confidence of ``CalibratedClassifierCV``,
times 100, and for every method here the mean difference to it: negative is better. A mark
(+ better, ! worse) stands where the difference is more than two standard errors and 0.05. The
standard error of a line is over the seeds, that is over cuts of the same rows; that of the last
line is over the lines.
"""

from __future__ import annotations

import argparse
import os
import warnings
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

os.environ.setdefault("OMP_NUM_THREADS", "1")

import numpy as np
from joblib import Parallel, delayed
from rich.console import Console
from rich.table import Table
from sklearn.calibration import CalibratedClassifierCV
from sklearn.datasets import load_breast_cancer, load_digits, load_wine
from sklearn.ensemble import RandomForestClassifier
from sklearn.linear_model import LogisticRegression, SGDClassifier
from sklearn.metrics import log_loss
from sklearn.model_selection import train_test_split
from sklearn.naive_bayes import GaussianNB
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler
from sklearn.svm import SVC

from calibrant.metrics import brier, ece
from calibrant.sklearn import CalibratedClassifier

DATA = {"digits": load_digits, "breast_cancer": load_breast_cancer, "wine": load_wine}
CLASSIFIERS = {
    "GaussianNB": GaussianNB(),
    "RandomForest": RandomForestClassifier(random_state=0),
    "SVC": make_pipeline(StandardScaler(), SVC()),
    "LogisticRegression": make_pipeline(StandardScaler(), LogisticRegression()),
    "SGD": SGDClassifier(random_state=0),  # features as they are: margins of thousands
}
REFERENCE = "scikit-learn"
MEASURES = ("log loss", "Brier", "ECE")


@dataclass(frozen=True)
class Settings:
    """What is compared, and how."""

    methods: tuple[str, ...]
    reference: str  # scikit-learn's method
    ensemble: bool


def scores_of_seed(
    data: str, classifier: str, seed: int, settings: Settings
) -> dict[str, tuple[float, ...]]:
    """The measures of every method on one cut of a data set."""
    features, labels = DATA[data](return_X_y=True)
    train, test, train_labels, test_labels = train_test_split(
        features, labels, test_size=0.5, stratify=labels, random_state=seed
    )
    estimator = CLASSIFIERS[classifier]
    shared = {"ensemble": settings.ensemble}
    models: dict[str, Any] = {
        REFERENCE: CalibratedClassifierCV(estimator, method=settings.reference, **shared)
    }
    models |= {name: CalibratedClassifier(estimator, name, **shared) for name in settings.methods}
    result = {}
    with warnings.catch_warnings():
        warnings.simplefilter(
            "ignore"
        )  # folds of 18 rows are separable, and temperature scaling says so
        for name, model in models.items():
            probs = model.fit(train, train_labels).predict_proba(test)
            squares = brier(probs, test_labels, row_sums="normalize")
            error = ece(probs, test_labels, row_sums="normalize", notion="confidence")
            result[name] = (log_loss(test_labels, probs), squares, error)
    return result


def compare(
    seeds: int, classifiers: Sequence[str], settings: Settings, jobs: int
) -> dict[tuple[str, str], dict[str, np.ndarray]]:
    """(seeds, measures) values of every method, by data set and classifier; times 100."""
    cases = [(data, classifier) for data in DATA for classifier in classifiers]
    work = [(*case, seed, settings) for case in cases for seed in range(seeds)]
    flat = Parallel(n_jobs=jobs)(delayed(scores_of_seed)(*item) for item in work)
    names = (REFERENCE, *settings.methods)
    return {
        case: {
            name: 100.0 * np.array([row[name] for row in flat[at * seeds : (at + 1) * seeds]])
            for name in names
        }
        for at, case in enumerate(cases)
    }


def difference(gap: np.ndarray) -> str:
    """The mean of paired differences, its error, and a mark where it is more than noise."""
    error = gap.std(ddof=1) / np.sqrt(len(gap))
    limit = max(2.0 * error, 0.05)
    mark = "+" if gap.mean() < -limit else "!" if gap.mean() > limit else " "
    return f"{gap.mean():+.2f} ± {error:.2f} {mark}"


def table(
    results: dict[tuple[str, str], dict[str, np.ndarray]], methods: Sequence[str], reference: str
) -> Table:
    """One line per data set and classifier."""
    view = Table(
        title=f"CalibratedClassifier minus CalibratedClassifierCV({reference!r}), times 100"
    )
    view.add_column("data set")
    view.add_column("classifier")
    for measure in MEASURES:
        view.add_column(f"{measure}\n{REFERENCE}", justify="right")
        for method in methods:
            view.add_column(f"{measure}\n{method}", justify="right")
    for (data, classifier), values in results.items():
        cells = []
        for at in range(len(MEASURES)):
            reference = values[REFERENCE][:, at]
            cells.append(f"{reference.mean():.2f}")
            cells += [difference(values[method][:, at] - reference) for method in methods]
        view.add_row(data, classifier, *cells)
    view.add_section()
    view.add_row("mean", "", *average(results, methods))
    return view


def average(
    results: dict[tuple[str, str], dict[str, np.ndarray]], methods: Sequence[str]
) -> list[str]:
    """The last line: the mean over data sets and classifiers, of each one's mean over the seeds."""
    cells = []
    for at in range(len(MEASURES)):
        reference = np.array([values[REFERENCE][:, at].mean() for values in results.values()])
        cells.append(f"{reference.mean():.2f}")
        for method in methods:
            own = np.array([values[method][:, at].mean() for values in results.values()])
            cells.append(difference(own - reference))
    return cells


def main() -> None:
    """Run the comparison and print its table."""
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--seeds", type=int, default=10)
    parser.add_argument("--methods", default="ts,pts")
    parser.add_argument("--reference", default="temperature", help="scikit-learn's method")
    parser.add_argument("--classifiers", default=",".join(CLASSIFIERS))
    parser.add_argument("--pooled", action="store_true", help="ensemble=False, on both sides")
    parser.add_argument("--jobs", type=int, default=1)
    options = parser.parse_args()
    methods = tuple(options.methods.split(","))
    settings = Settings(methods, options.reference, not options.pooled)
    results = compare(options.seeds, options.classifiers.split(","), settings, options.jobs)
    Console(width=170).print(table(results, methods, options.reference))


if __name__ == "__main__":
    main()
