"""Other libraries' versions of our methods, each as a pair of functions to time.

A job takes (logits, probs, labels) and gives (fit, predict of what fit gave). What a peer is given
and gives back is said in its note where that differs from ours.
"""

from __future__ import annotations

import importlib
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np

Job = Callable[[np.ndarray, np.ndarray, np.ndarray], tuple[Callable[[], Any], Callable[[Any], Any]]]


@dataclass(frozen=True)
class Peer:
    """Another library's version of a method."""

    package: str
    note: str
    job: Job


def _sklearn_isotonic(logits: np.ndarray, probs: np.ndarray, labels: np.ndarray) -> Any:
    from sklearn.isotonic import IsotonicRegression

    def fit() -> Any:
        classes = range(probs.shape[1])
        return [
            IsotonicRegression(out_of_bounds="clip").fit(probs[:, c], labels == c) for c in classes
        ]

    return fit, lambda models: [m.predict(probs[:, c]) for c, m in enumerate(models)]


def _sklearn_pooled(logits: np.ndarray, probs: np.ndarray, labels: np.ndarray) -> Any:
    from sklearn.isotonic import IsotonicRegression

    target = (labels[:, None] == np.arange(probs.shape[1])).ravel().astype(float)

    def fit() -> Any:
        return IsotonicRegression(out_of_bounds="clip").fit(probs.ravel(), target)

    return fit, lambda model: model.predict(probs.ravel())


def _sklearn_temperature(logits: np.ndarray, probs: np.ndarray, labels: np.ndarray) -> Any:
    from sklearn.calibration import _TemperatureScaling

    return (
        lambda: _TemperatureScaling().fit(logits.astype(np.float64), labels),
        lambda model: model.predict(logits.astype(np.float64)),
    )


def _sklearn_sigmoid(logits: np.ndarray, probs: np.ndarray, labels: np.ndarray) -> Any:
    from sklearn.calibration import _SigmoidCalibration

    score = (logits[:, 1] - logits[:, 0]).astype(np.float64)
    return lambda: _SigmoidCalibration().fit(score, labels), lambda model: model.predict(score)


def _uncertainty(name: str) -> Job:
    def job(logits: np.ndarray, probs: np.ndarray, labels: np.ndarray) -> Any:
        import calibration

        def fit() -> Any:
            model = getattr(calibration, name)(len(labels), num_bins=10)
            model.train_calibration(probs, labels)
            return model

        return fit, lambda model: model.calibrate(probs)

    return job


def _netcal(module: str, name: str) -> Job:
    def job(logits: np.ndarray, probs: np.ndarray, labels: np.ndarray) -> Any:
        cls = getattr(importlib.import_module(f"netcal.{module}"), name)
        # With two classes it takes the probability of the second one.
        given = probs.astype(np.float64)[:, 1] if probs.shape[1] == 2 else probs.astype(np.float64)

        def fit() -> Any:
            model = cls()
            model.fit(given, labels)
            return model

        return fit, lambda model: model.transform(given)

    return job


def _splinecalib(logits: np.ndarray, probs: np.ndarray, labels: np.ndarray) -> Any:
    import splinecalib

    top, hit = probs.max(axis=1), (probs.argmax(axis=1) == labels).astype(int)

    def fit() -> Any:
        model = splinecalib.SplineCalib()
        model.fit(top, hit)
        return model

    return fit, lambda model: model.calibrate(top)


def _probmetrics(module: str, name: str, **options: Any) -> Job:
    def job(logits: np.ndarray, probs: np.ndarray, labels: np.ndarray) -> Any:
        cls = getattr(importlib.import_module(f"probmetrics.calibrators.{module}"), name)
        return (
            lambda: cls(**options).fit(probs, labels),
            lambda model: model.predict_proba(probs),
        )

    return job


def _probmetrics_spline(logits: np.ndarray, probs: np.ndarray, labels: np.ndarray) -> Any:
    from probmetrics.calibrators.splines import CDFSplineCalibrator

    top, hit = probs.max(axis=1), (probs.argmax(axis=1) == labels).astype(int)
    return lambda: CDFSplineCalibrator().fit(top, hit), lambda model: model.predict_proba(top)


def _dirichletcal(module: str, name: str, **options: Any) -> Job:
    def job(logits: np.ndarray, probs: np.ndarray, labels: np.ndarray) -> Any:
        cls = getattr(importlib.import_module(f"dirichletcal.calib.{module}"), name)
        given = probs.astype(np.float64)

        def fit() -> Any:
            model = cls(**options)
            model.fit(given, labels)
            return model

        return fit, lambda model: np.asarray(model.predict_proba(given))

    return job


def _betacal(logits: np.ndarray, probs: np.ndarray, labels: np.ndarray) -> Any:
    from betacal import BetaCalibration

    given = probs.astype(np.float64)[:, 1:]
    return (
        lambda: BetaCalibration(parameters="abm").fit(given, labels),
        lambda model: model.predict(given),
    )


_QUIET = {"print_init_info": False}

PEERS: dict[str, list[Peer]] = {
    "ts": [
        Peer("sklearn", "", _sklearn_temperature),
        Peer(
            "probmetrics", "", _probmetrics("temperature_scaling", "TemperatureScalingCalibrator")
        ),
        Peer("netcal", "", _netcal("scaling", "TemperatureScaling")),
    ],
    "ets": [Peer("probmetrics", "", _probmetrics("temperature_scaling", "ETSCalibrator"))],
    "irova": [
        Peer("sklearn", "from probabilities, rows not normalised", _sklearn_isotonic),
        Peer("netcal", "", _netcal("binning", "IsotonicRegression")),
    ],
    "irm": [Peer("sklearn", "pooled, from probabilities, rows not normalised", _sklearn_pooled)],
    "pbmc": [
        Peer("calibration", "rows not normalised", _uncertainty("PlattBinnerMarginalCalibrator"))
    ],
    "histogram": [
        Peer("calibration", "rows not normalised", _uncertainty("HistogramMarginalCalibrator")),
        Peer("netcal", "equal width", _netcal("binning", "HistogramBinning")),
    ],
    "bbq": [Peer("netcal", "", _netcal("binning", "BBQ"))],
    "spline": [
        Peer("splinecalib", "takes and gives one confidence a row", _splinecalib),
        Peer("probmetrics", "takes and gives one confidence a row", _probmetrics_spline),
    ],
    "vector": [
        Peer("probmetrics", "", _probmetrics("logistic", "VectorScalingCalibrator")),
        Peer("dirichletcal", "", _dirichletcal("vectorscaling", "VectorScaling")),
    ],
    "matrix": [
        Peer("probmetrics", "no penalty", _probmetrics("logistic", "MatrixScalingCalibrator")),
        Peer("dirichletcal", "no penalty", _dirichletcal("matrixscaling", "MatrixScaling")),
    ],
    "dirichlet": [
        Peer(
            "dirichletcal",
            "ODIR 0.001, 0.001",
            _dirichletcal("fulldirichlet", "FullDirichletCalibrator", reg_lambda=1e-3, reg_mu=1e-3),
        )
    ],
    "svs": [Peer("probmetrics", "", _probmetrics("logistic", "SVSCalibrator", **_QUIET))],
    "sms": [Peer("probmetrics", "", _probmetrics("logistic", "SMSCalibrator", **_QUIET))],
    "diag": [
        Peer(
            "probmetrics",
            "a network of the same family, 40 epochs",
            _probmetrics("orderpreserving", "IntraOrderPreservingCalibrator"),
        )
    ],
    "platt": [
        Peer("sklearn", "gives one number a row", _sklearn_sigmoid),
        Peer("netcal", "gives one number a row", _netcal("scaling", "LogisticCalibration")),
    ],
    "beta": [
        Peer("betacal", "gives one number a row", _betacal),
        Peer("netcal", "gives one number a row", _netcal("scaling", "BetaCalibration")),
    ],
}
