"""One calibrator a fold, or one for all folds? ``CalibratedClassifier`` with few rows.

    python benchmarks/few_rows_sklearn.py [--quick] [--methods ts,auto] [--sizes 60,120] [--folds 5]

scikit-learn's data sets and generated ones, five classifiers. Each repetition draws training rows
at random (the classes in proportion), fits every method on them in three ways, and judges on the
other rows, at most 2,000. All see the same folds. The ways are those of ``ensemble``:

    shared    a classifier for each fold, one calibrator for the held-out scores of all folds;
              the probabilities of the folds' classifiers are averaged
    averaged  (True) a classifier and a calibrator for each fold, averaged likewise
    pooled    (False) one calibrator as with "shared", for one classifier, fitted on all rows

The method "base" leaves the scores as they are. "sigmoid" is scikit-learn's own
``CalibratedClassifierCV``, which has no shared calibrator.

Printed are log loss and Brier score (the sum over classes), times 100. The mean and its standard
error are those over the pairs of a data set and a classifier; a pair's own value is the mean over
its repetitions. * marks a difference of more than two standard errors. Log losses are cut at
2.2e-16, as in ``sklearn.metrics.log_loss``.
"""

from __future__ import annotations

import argparse
import csv
import os
import warnings
from collections.abc import Callable, Iterator, Sequence
from dataclasses import asdict, dataclass, fields
from functools import partial
from pathlib import Path
from typing import Any, Self

# One core a process: the processes are the parallelism here. Before NumPy is imported.
os.environ.setdefault("OMP_NUM_THREADS", "1")
os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")

import numpy as np
from joblib import Parallel, delayed
from rich.console import Console
from rich.progress import track
from rich.table import Table
from sklearn.base import BaseEstimator, ClassifierMixin, clone
from sklearn.calibration import CalibratedClassifierCV
from sklearn.datasets import load_breast_cancer, load_digits, load_wine, make_moons
from sklearn.ensemble import HistGradientBoostingClassifier, RandomForestClassifier
from sklearn.linear_model import LogisticRegression
from sklearn.metrics import log_loss
from sklearn.model_selection import train_test_split
from sklearn.naive_bayes import GaussianNB
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler
from sklearn.svm import SVC

import tabular
from calibrant.metrics import brier
from calibrant.sklearn import CalibratedClassifier

TEST_ROWS = 2000  # at most, to judge on
FEWEST_TEST_ROWS = 50
SIGMOID = "sigmoid"  # scikit-learn's own
WAYS: dict[str, bool | str] = {"shared": "shared", "averaged": True, "pooled": False}
MEASURES = ("nll", "brier")
HEADS = {"nll": "log loss", "brier": "Brier"}


generated = partial(tabular.generated, n_samples=6000)

DATA: dict[str, Callable[[], tuple[np.ndarray, np.ndarray]]] = {
    "breast_cancer": lambda: load_breast_cancer(return_X_y=True),
    "digits": lambda: load_digits(return_X_y=True),
    "wine": lambda: load_wine(return_X_y=True),
    "moons": lambda: make_moons(6000, noise=0.35, random_state=0),
    "two-classes": generated(n_informative=8, flip_y=0.1, class_sep=0.8),
    "two-easy": generated(n_informative=8, flip_y=0.01, class_sep=2.0),
    "two-uneven": generated(n_informative=6, weights=[0.85], flip_y=0.02),
    "three-classes": generated(n_classes=3, n_informative=8, flip_y=0.1),
    "five-uneven": generated(n_classes=5, n_informative=10, weights=[0.5, 0.2, 0.1, 0.1]),
}
CLASSIFIERS: dict[str, Any] = {
    "naive-bayes": GaussianNB(),
    "svc": make_pipeline(StandardScaler(), SVC()),
    "forest": RandomForestClassifier(100, random_state=0),
    "boosting": HistGradientBoostingClassifier(max_iter=30, max_leaf_nodes=8, random_state=0),
    "logistic": make_pipeline(StandardScaler(), LogisticRegression()),
}
QUICK = {
    "data": ("breast_cancer", "wine", "three-classes"),
    "classifiers": ("naive-bayes", "svc", "logistic"),
    "sizes": (60, 300),
    "repeats": 2,
}


@dataclass(frozen=True)
class Settings:
    """What is compared, and how."""

    methods: tuple[str, ...]
    sizes: tuple[int, ...]
    repeats: int
    folds: int


@dataclass(frozen=True)
class Row:
    """One method on one draw of training rows; the measures times 100."""

    data: str
    classifier: str
    size: int
    repeat: int
    method: str
    way: str
    nll: float
    brier: float
    choice: str  # the methods that ``auto`` chose


class Remembered(ClassifierMixin, BaseEstimator):
    """A classifier that is fitted once on the same rows, whoever asks: the methods share folds."""

    fits: dict[tuple[str, bytes, bytes], Any] = {}  # noqa: RUF012 - it is shared on purpose

    def __init__(self, estimator: Any) -> None:
        self.estimator = estimator

    def fit(self, features: np.ndarray, labels: np.ndarray) -> Self:
        """Fit the classifier, or take the fit that is there."""
        key = (repr(self.estimator), features.tobytes(), labels.tobytes())
        if key not in self.fits:
            self.fits[key] = clone(self.estimator).fit(features, labels)
        self.fitted_ = self.fits[key]
        self.classes_ = self.fitted_.classes_
        return self

    def __getattr__(self, name: str) -> Any:
        if name not in ("decision_function", "predict_proba"):
            raise AttributeError(name)
        return getattr(self.__dict__.get("fitted_", self.__dict__.get("estimator")), name)

    def predict(self, features: np.ndarray) -> np.ndarray:
        """The labels that the classifier predicts."""
        return self.fitted_.predict(features)


def cases(data: str, settings: Settings) -> Iterator[tuple[int, int, list[np.ndarray]]]:
    """Every size and repetition for which a data set has rows, with the rows of its parts."""
    features, labels = DATA[data]()
    for size in settings.sizes:
        if size + FEWEST_TEST_ROWS > len(labels):
            continue
        for repeat in range(settings.repeats):
            parts = train_test_split(
                features, labels, train_size=size, stratify=labels, random_state=repeat
            )
            yield size, repeat, parts


def run(data: str, classifier: str, settings: Settings) -> list[Row]:
    """All methods, both ways, on all draws from one data set."""
    rows = []
    for size, repeat, (train, test, train_labels, test_labels) in cases(data, settings):
        test, test_labels = test[:TEST_ROWS], test_labels[:TEST_ROWS]
        Remembered.fits.clear()
        for method in settings.methods:
            for way in ways_of(method):
                model = made(method, CLASSIFIERS[classifier], WAYS[way], settings.folds)
                with warnings.catch_warnings():
                    warnings.simplefilter("ignore")  # few rows are separable, and methods say so
                    probs = model.fit(train, train_labels).predict_proba(test)
                loss = 100.0 * log_loss(test_labels, probs, labels=model.classes_)
                codes = np.searchsorted(model.classes_, test_labels)
                squares = 100.0 * brier(probs, codes, row_sums="normalize")
                named = (data, classifier, size, repeat, method, way)
                rows.append(Row(*named, loss, float(squares), chosen(model)))
    return rows


def ways_of(method: str) -> list[str]:
    """The ways in which a method is fitted."""
    return [way for way in WAYS if method != SIGMOID or way != "shared"]


def made(method: str, classifier: Any, ensemble: bool | str, folds: int) -> Any:
    """An unfitted model; the name says whose."""
    shared = {"cv": folds, "ensemble": ensemble}
    if method == SIGMOID:
        return CalibratedClassifierCV(Remembered(classifier), method="sigmoid", **shared)
    return CalibratedClassifier(Remembered(classifier), method, **shared)


def chosen(model: Any) -> str:
    """What ``auto`` chose, calibrator by calibrator."""
    return " ".join(model.method_) if isinstance(model, CalibratedClassifier) else ""


# --- tables -----------------------------------------------------------------------------------

Means = dict[tuple[str, str], float]  # of a data set and a classifier


def means(rows: Sequence[Row], method: str, way: str, measure: str) -> Means:
    """A method's mean over the repetitions, by data set and classifier."""
    found: dict[tuple[str, str], list[float]] = {}
    for row in rows:
        if (row.method, row.way) == (method, way):
            found.setdefault((row.data, row.classifier), []).append(getattr(row, measure))
    return {pair: float(np.mean(values)) for pair, values in found.items()}


def with_error(gaps: Sequence[float]) -> str:
    """A mean difference and its standard error, and a mark where it is more than two of them."""
    mean = np.mean(gaps)
    if len(gaps) < 2:
        return f"{mean:+.2f}"
    error = np.std(gaps, ddof=1) / np.sqrt(len(gaps))
    mark = "*" if abs(mean) > 2.0 * error else " "
    return f"{mean:+.2f} ± {error:.2f}{mark}"


def by_size(rows: Sequence[Row], settings: Settings) -> Table:
    """The ways of every method, for every size, and what the shared calibrator gains."""
    table = Table(title="all pairs of a data set and a classifier", title_justify="left")
    for head in ("rows", "pairs"):
        table.add_column(head, justify="right")
    table.add_column("method")
    for measure in MEASURES:
        for way in WAYS:
            table.add_column(f"{HEADS[measure]}\n{way}", justify="right")
        for way in ("averaged", "pooled"):
            table.add_column(f"shared -\n{way}", justify="right")
    for size in settings.sizes:
        some = [row for row in rows if row.size == size]
        if not some:
            continue
        table.add_section()
        for method in settings.methods:
            cells, count = [], 0
            for measure in MEASURES:
                values = {way: means(some, method, way, measure) for way in WAYS}
                count = len(values["averaged"])
                cells += [f"{np.mean(list(v.values())):.2f}" if v else "" for v in values.values()]
                for way in ("averaged", "pooled"):
                    cells.append(gap(values["shared"], values[way]))
            table.add_row(str(size), str(count), method, *cells)
    return table


def gap(own: Means, other: Means) -> str:
    """The mean difference over the pairs, with its error; nothing where there is none."""
    return with_error([own[pair] - other[pair] for pair in own]) if own else ""


def against(rows: Sequence[Row], settings: Settings, measure: str, reference: str = "ts") -> Table:
    """Every method and way less temperature scaling, averaged over the folds."""
    title = f"{HEADS[measure]} less that of {reference}, averaged"
    table = Table(title=title, title_justify="left")
    table.add_column("rows", justify="right")
    ways = [(method, way) for method in settings.methods for way in ways_of(method)]
    ways.remove((reference, "averaged"))
    for method, way in ways:
        table.add_column(f"{method}\n{way}", justify="right")
    for size in settings.sizes:
        some = [row for row in rows if row.size == size]
        base = means(some, reference, "averaged", measure)
        if base:
            values = (means(some, *way, measure) for way in ways)
            table.add_row(str(size), *(gap(value, base) for value in values))
    return table


def by_part(rows: Sequence[Row], settings: Settings, method: str, other: str) -> Table:
    """The log loss of one method, shared less another way, by classifier and by data set."""
    table = Table(title=f"{method}: log loss, shared - {other}", title_justify="left")
    table.add_column("")
    sizes = [size for size in settings.sizes if any(row.size == size for row in rows)]
    for size in sizes:
        table.add_column(f"{size} rows", justify="right")
    for part in ("classifier", "data"):
        table.add_section()
        for name in dict.fromkeys(getattr(row, part) for row in rows):
            cells = []
            for size in sizes:
                some = [row for row in rows if row.size == size and getattr(row, part) == name]
                own, base = (means(some, method, way, "nll") for way in ("shared", other))
                cells.append(gap(own, base))
            table.add_row(name, *cells)
    return table


def one_data_set(rows: Sequence[Row], settings: Settings, data: str) -> Table:
    """The log loss of every method on one data set, by classifier and size."""
    table = Table(title=f"{data}: log loss", title_justify="left")
    table.add_column("rows", justify="right")
    table.add_column("classifier")
    ways = [(method, way) for method in settings.methods for way in ways_of(method)]
    for method, way in ways:
        table.add_column(f"{method}\n{way}", justify="right")
    for size in settings.sizes:
        some = [row for row in rows if (row.data, row.size) == (data, size)]
        table.add_section()
        for classifier in dict.fromkeys(row.classifier for row in some):
            values = [means(some, *way, "nll")[data, classifier] for way in ways]
            table.add_row(str(size), classifier, *(f"{value:.2f}" for value in values))
    return table


def report(rows: Sequence[Row], settings: Settings, console: Console) -> None:
    """All tables."""
    console.print(by_size(rows, settings))
    if "ts" in settings.methods:
        for measure in MEASURES:
            console.print(against(rows, settings, measure))
    for method in settings.methods:
        if method not in ("base", SIGMOID):
            for other in ("averaged", "pooled"):
                console.print(by_part(rows, settings, method, other))
    if any(row.data == "breast_cancer" for row in rows):
        console.print(one_data_set(rows, settings, "breast_cancer"))


def main() -> None:
    """Draw, fit, judge, compare."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawTextHelpFormatter
    )
    parser.add_argument("--quick", action="store_true", help="a few cases, in half a minute")
    parser.add_argument("--data", default=",".join(DATA))
    parser.add_argument("--classifiers", default=",".join(CLASSIFIERS))
    parser.add_argument("--methods", default=f"base,ts,auto,{SIGMOID}")
    parser.add_argument("--sizes", default="60,120,300,1000")
    parser.add_argument("--repeats", type=int, default=2)
    parser.add_argument("--folds", type=int, default=5)
    parser.add_argument("--jobs", type=int, default=1)
    parser.add_argument("--out", default="", help="a CSV file with all results")
    options = parser.parse_args()
    data, classifiers = options.data.split(","), options.classifiers.split(",")
    sizes = tuple(int(size) for size in options.sizes.split(","))
    repeats = options.repeats
    if options.quick:
        data, classifiers = QUICK["data"], QUICK["classifiers"]
        sizes, repeats = QUICK["sizes"], QUICK["repeats"]
    settings = Settings(tuple(options.methods.split(",")), sizes, repeats, options.folds)
    console = Console(width=170)
    work = [(name, classifier, settings) for name in data for classifier in classifiers]
    jobs = Parallel(options.jobs, return_as="generator")(delayed(run)(*item) for item in work)
    rows = [
        row
        for found in track(jobs, total=len(work), description="data and classifier")
        for row in found
    ]
    if options.out:
        with Path(options.out).open("w", newline="") as file:
            writer = csv.DictWriter(file, [field.name for field in fields(Row)])
            writer.writeheader()
            writer.writerows(asdict(row) for row in rows)
    report(rows, settings, console)


if __name__ == "__main__":
    main()
