"""Compute by other packages what our tests compare with: tests/golden/peers.json.

    pip install probmetrics numba venn-abers cir-model splinecalib
    python tools/make_peer_goldens.py tests/golden/peers.json

The tests need none of these packages. Probabilities are of class 1 where there are two classes.
"""

from __future__ import annotations

import json
import sys
import warnings
from importlib.metadata import version
from pathlib import Path
from typing import Any

import numpy as np
from cir_model import CenteredIsotonicRegression
from probmetrics.calibrators import (
    BinaryLogisticCalibrator,
    CenteredIsotonicRegressionCalibrator,
    MulticlassOneVsRestCalibrator,
)
from splinecalib import SplineCalib
from splinecalib.calib_utils import get_stratified_foldnums
from venn_abers import VennAbers, VennAbersCalibrator
from venn_abers.venn_abers import geo_mean

PACKAGES = ("probmetrics", "scikit-learn", "venn-abers", "cir-model", "splinecalib")
ENDS = (0.01, 0.99)  # no probability lies outside
KNOTS = [ENDS[0], 0.2, 0.5, 0.8, ENDS[1]]
FOLDS = 5


def two_classes(rows: int, decimals: int, seed: int) -> dict[str, Any]:
    """Over-confident probabilities with labels, and others to predict within their range."""
    rng = np.random.default_rng(seed)
    score = 2.0 * rng.normal(size=rows)
    labels = rng.random(rows) < 1.0 / (1.0 + np.exp(-0.6 * score - 0.05 * score**2 + 0.3))
    probs = np.clip(np.round(1.0 / (1.0 + np.exp(-score)), decimals), *ENDS)
    test = rng.uniform(probs.min(), probs.max(), 40)
    test[:20] = rng.choice(probs, 20)  # known ones, and others
    return {"probs": probs, "labels": labels.astype(int), "test": np.round(test, decimals + 1)}


def three_classes(rows: int, seed: int) -> dict[str, Any]:
    """The same with three classes."""
    rng = np.random.default_rng(seed)

    def softmax(logits: np.ndarray) -> np.ndarray:
        weight = np.exp(logits)
        return np.asarray(weight / weight.sum(axis=1, keepdims=True))

    logits = 2.0 * rng.normal(size=(rows, 3))
    labels = (0.6 * logits + rng.gumbel(size=logits.shape)).argmax(axis=1)
    return {
        "probs": softmax(logits),
        "labels": labels,
        "test": softmax(1.5 * rng.normal(size=(40, 3))),
    }


def columns(probs: np.ndarray) -> np.ndarray:
    """Probabilities of class 1 as rows of two."""
    return np.column_stack([1.0 - probs, probs])


def of_two_classes(data: dict[str, Any]) -> dict[str, Any]:
    """What the peers make of two classes."""
    probs, labels, test = data["probs"], data["labels"], data["test"]
    quadratic = BinaryLogisticCalibrator("quadratic").fit(columns(probs), labels)
    centered = CenteredIsotonicRegression(out_of_bounds="clip").fit(probs, labels)
    abers = VennAbers().fit(columns(probs), labels)
    point, bounds = abers.predict_proba(columns(test))
    default = SplineCalib()
    default.fit(probs.copy(), labels)
    return {
        "quadratic": quadratic.predict_proba(columns(test))[:, 1],
        "cir": centered.predict(test),
        "venn-abers": point[:, 1],
        "venn-abers bounds": bounds,
        "cross venn-abers": cross_venn_abers(probs, labels, test),
        "splinecalib": default.calibrate(test.copy()),
        **plain_spline(probs, labels, test),
    }


def cross_venn_abers(probs: np.ndarray, labels: np.ndarray, test: np.ndarray) -> np.ndarray:
    """Of three folds, every third row each, merged as the package's cross-validation does."""
    folds = [VennAbers().fit(columns(probs[k::3]), labels[k::3]) for k in range(3)]
    bounds = np.stack([fold.predict_proba(columns(test))[1] for fold in folds], axis=1)
    miss, hit = geo_mean(1.0 - bounds[:, :, 0]), geo_mean(bounds[:, :, 1])
    return np.asarray(hit / (miss + hit))


def plain_spline(probs: np.ndarray, labels: np.ndarray, test: np.ndarray) -> dict[str, Any]:
    """A spline without penalty or prior, which splinecalib fits to all folds but the first."""
    plain = SplineCalib(
        knot_sample_size=0,
        add_knots=KNOTS,
        reg_param_vec=[0.0],
        unity_prior=False,
        cv_spline=FOLDS,
        logodds_eps=1e-9,
        tol=1e-10,
        max_iter=10_000,
    )
    plain.fit(probs.copy(), labels)
    rows = np.flatnonzero(get_stratified_foldnums(labels, FOLDS) != 0)
    return {"plain spline": plain.calibrate(test.copy()), "plain spline rows": rows}


def of_three_classes(data: dict[str, Any]) -> dict[str, Any]:
    """What the peers make of three."""
    probs, labels, test = data["probs"], data["labels"], data["test"]
    centered = MulticlassOneVsRestCalibrator(CenteredIsotonicRegressionCalibrator())
    abers = VennAbersCalibrator().predict_proba(
        p_cal=probs, y_cal=labels, p_test=test, p0_p1_output=False, va_type="one_vs_all"
    )
    return {"cir": centered.fit(probs, labels).predict_proba(test), "venn-abers": abers}


def plain(value: Any) -> Any:
    """Arrays as lists."""
    if isinstance(value, dict):
        return {key: plain(one) for key, one in value.items()}
    return value.tolist() if isinstance(value, np.ndarray) else value


def main(path: Path) -> None:
    """Write the file."""
    warnings.simplefilter("ignore")
    sets = {"ties": two_classes(120, 2, 0), "many": two_classes(1500, 4, 1)}
    document: dict[str, Any] = {
        "made by": "tools/make_peer_goldens.py",
        "versions": {name: version(name) for name in PACKAGES},
        "knots": KNOTS,
    }
    for name, data in sets.items():
        document[name] = data | {"expected": of_two_classes(data)}
    three = three_classes(300, 2)
    document["three"] = three | {"expected": of_three_classes(three)}
    path.write_text(json.dumps(plain(document)) + "\n")


if __name__ == "__main__":
    main(Path(sys.argv[1]))
