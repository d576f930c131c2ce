"""Is CalibratedClassifier no worse than scikit-learn's own temperature scaling?

    python benchmarks/bench_sklearn.py [--seeds 10] [--methods ts,pts] [--pooled] [--jobs 1]

Three of scikit-learn's data sets, four classifiers. Each seed cuts a data set into halves: five
folds of one fit and calibrate the classifier, the other judges. Both sides see the same folds.
The table has log loss and 15-bin ECE of ``CalibratedClassifierCV(method="temperature")``, times
100, and for every method here the mean difference to it with that mean's standard error over the
seeds: negative is better. A mark (+ better, ! worse) stands where the difference is more than two
standard errors and 0.05.
"""

from __future__ import annotations

import argparse
import os
import warnings
from collections.abc import Sequence
from typing import Any

os.environ.setdefault("OMP_NUM_THREADS", "1")

import numpy as np
from joblib import Parallel, delayed
from rich.console import Console
from rich.table import Table
from sklearn.calibration import CalibratedClassifierCV
from sklearn.datasets import load_breast_cancer, load_digits, load_wine
from sklearn.ensemble import RandomForestClassifier
from sklearn.linear_model import LogisticRegression
from sklearn.metrics import log_loss
from sklearn.model_selection import train_test_split
from sklearn.naive_bayes import GaussianNB
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler
from sklearn.svm import SVC

from calibrant.metrics import ece
from calibrant.sklearn import CalibratedClassifier

DATA = {"digits": load_digits, "breast_cancer": load_breast_cancer, "wine": load_wine}
CLASSIFIERS = {
    "GaussianNB": GaussianNB(),
    "RandomForest": RandomForestClassifier(random_state=0),
    "SVC": make_pipeline(StandardScaler(), SVC()),
    "LogisticRegression": make_pipeline(StandardScaler(), LogisticRegression()),
}
REFERENCE = "scikit-learn"
MEASURES = ("log loss", "ECE")


def scores_of_seed(
    data: str, classifier: str, seed: int, methods: Sequence[str], ensemble: bool
) -> dict[str, tuple[float, float]]:
    """Log loss and ECE of every method on one cut of a data set."""
    features, labels = DATA[data](return_X_y=True)
    train, test, train_labels, test_labels = train_test_split(
        features, labels, test_size=0.5, stratify=labels, random_state=seed
    )
    estimator = CLASSIFIERS[classifier]
    models: dict[str, Any] = {
        REFERENCE: CalibratedClassifierCV(estimator, method="temperature", ensemble=ensemble)
    }
    models |= {name: CalibratedClassifier(estimator, name, ensemble=ensemble) for name in methods}
    result = {}
    with warnings.catch_warnings():
        warnings.simplefilter(
            "ignore"
        )  # folds of 18 rows are separable, and temperature scaling says so
        for name, model in models.items():
            probs = model.fit(train, train_labels).predict_proba(test)
            result[name] = (log_loss(test_labels, probs), ece(probs, test_labels))
    return result


def compare(
    seeds: int, methods: Sequence[str], ensemble: bool, jobs: int
) -> dict[tuple[str, str], dict[str, np.ndarray]]:
    """(seeds, measures) values of every method, by data set and classifier; times 100."""
    cases = [(data, classifier) for data in DATA for classifier in CLASSIFIERS]
    work = [(*case, seed, methods, ensemble) for case in cases for seed in range(seeds)]
    flat = Parallel(n_jobs=jobs)(delayed(scores_of_seed)(*item) for item in work)
    names = (REFERENCE, *methods)
    return {
        case: {
            name: 100.0 * np.array([row[name] for row in flat[at * seeds : (at + 1) * seeds]])
            for name in names
        }
        for at, case in enumerate(cases)
    }


def difference(values: np.ndarray, reference: np.ndarray) -> str:
    """Mean paired difference, its standard error, and a mark where it is more than noise."""
    gap = values - reference
    error = gap.std(ddof=1) / np.sqrt(len(gap))
    limit = max(2.0 * error, 0.05)
    mark = "+" if gap.mean() < -limit else "!" if gap.mean() > limit else " "
    return f"{gap.mean():+.2f} ± {error:.2f} {mark}"


def table(results: dict[tuple[str, str], dict[str, np.ndarray]], methods: Sequence[str]) -> Table:
    """One line a data set and classifier."""
    view = Table(
        title="CalibratedClassifier minus CalibratedClassifierCV('temperature'), times 100"
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
            cells += [difference(values[method][:, at], reference) for method in methods]
        view.add_row(data, classifier, *cells)
    view.add_section()
    view.add_row("mean", "", *average(results, methods))
    return view


def average(
    results: dict[tuple[str, str], dict[str, np.ndarray]], methods: Sequence[str]
) -> list[str]:
    """The last line: each seed's mean over data sets and classifiers."""
    cells = []
    for at in range(len(MEASURES)):
        reference = np.mean([values[REFERENCE][:, at] for values in results.values()], axis=0)
        cells.append(f"{reference.mean():.2f}")
        for method in methods:
            own = np.mean([values[method][:, at] for values in results.values()], axis=0)
            cells.append(difference(own, reference))
    return cells


def main() -> None:
    """Run the comparison and print its table."""
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--seeds", type=int, default=10)
    parser.add_argument("--methods", default="ts,pts")
    parser.add_argument("--pooled", action="store_true", help="ensemble=False, on both sides")
    parser.add_argument("--jobs", type=int, default=1)
    options = parser.parse_args()
    methods = options.methods.split(",")
    results = compare(options.seeds, methods, not options.pooled, options.jobs)
    Console(width=150).print(table(results, methods))


if __name__ == "__main__":
    main()
