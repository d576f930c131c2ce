"""Fit and predict time of every method at two sizes, beside peers where they are installed.

    python benchmarks/bench_methods.py [--sizes 5000x100,12500x1000] [--methods irova,irm]

Peers are timed in the same run on the same data; the last column is their time over ours (fit and
predict together), so above 1 we are ahead. What a peer is given and gives back is said beside it.
"""

from __future__ import annotations

import argparse
import time
import warnings
from collections.abc import Callable
from dataclasses import dataclass
from importlib.util import find_spec
from typing import Any

import numpy as np

import calibrant
from calibrant.calibrators import REGISTRY
from calibrant.comparison import TWO_CLASS_METHODS

Job = Callable[[np.ndarray, np.ndarray, np.ndarray], tuple[Callable[[], Any], Callable[[Any], Any]]]


@dataclass(frozen=True)
class Peer:
    """Another library's version of a method."""

    package: str
    note: str
    job: Job  # (logits, probs, labels) -> (fit, predict of what fit gave)


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
        import importlib

        cls = getattr(importlib.import_module(f"netcal.{module}"), name)

        def fit() -> Any:
            model = cls()
            model.fit(probs.astype(np.float64), labels)
            return model

        return fit, lambda model: model.transform(probs.astype(np.float64))

    return job


def _splinecalib(logits: np.ndarray, probs: np.ndarray, labels: np.ndarray) -> Any:
    import splinecalib

    top, hit = probs.max(axis=1), (probs.argmax(axis=1) == labels).astype(int)

    def fit() -> Any:
        model = splinecalib.SplineCalib()
        model.fit(top, hit)
        return model

    return fit, lambda model: model.calibrate(top)


def _probmetrics(name: str) -> Job:
    def job(logits: np.ndarray, probs: np.ndarray, labels: np.ndarray) -> Any:
        from probmetrics.calibrators import get_calibrator

        return (
            lambda: get_calibrator(name).fit(probs, labels),
            lambda model: model.predict_proba(probs),
        )

    return job


PEERS: dict[str, list[Peer]] = {
    "ts": [
        Peer("sklearn", "", _sklearn_temperature),
        Peer("probmetrics", "", _probmetrics("temp-scaling")),
        Peer("netcal", "", _netcal("scaling", "TemperatureScaling")),
    ],
    "irova": [
        Peer("sklearn", "from probabilities, rows not normalised", _sklearn_isotonic),
        Peer("netcal", "", _netcal("binning", "IsotonicRegression")),
    ],
    "irm": [Peer("sklearn", "pooled, from probabilities, rows not normalised", _sklearn_pooled)],
    "pbmc": [Peer("calibration", "", _uncertainty("PlattBinnerMarginalCalibrator"))],
    "histogram": [
        Peer("calibration", "", _uncertainty("HistogramMarginalCalibrator")),
        Peer("netcal", "equal width", _netcal("binning", "HistogramBinning")),
    ],
    "bbq": [Peer("netcal", "", _netcal("binning", "BBQ"))],
    "spline": [Peer("splinecalib", "takes and gives one confidence a row", _splinecalib)],
    "svs": [Peer("probmetrics", "", _probmetrics("svs"))],
    "sms": [Peer("probmetrics", "", _probmetrics("sms"))],
}
# Peers that take minutes at the larger size are timed at the smaller one only.
SMALL_ONLY = {("netcal", "bbq"), ("probmetrics", "sms"), ("netcal", "ts")}


def data(rows: int, classes: int) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Over-confident logits, their softmax, and labels that follow softmax(z / 1.7)."""
    rng = np.random.default_rng(0)
    logits = (rng.standard_normal((rows, classes)) * 2.5).astype(np.float32)
    labels = np.argmax(logits / 1.7 + rng.gumbel(size=logits.shape), axis=1)
    labels[:classes] = np.arange(classes)  # some peers need every class
    weight = np.exp(logits - logits.max(axis=1, keepdims=True))
    return logits, weight / weight.sum(axis=1, keepdims=True), labels


def timed(fit: Callable[[], Any], predict: Callable[[Any], Any]) -> tuple[float, float]:
    """Seconds to fit and to predict."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        started = time.perf_counter()
        model = fit()
        fitted = time.perf_counter()
        predict(model)
        return fitted - started, time.perf_counter() - fitted


def ours(name: str, logits: np.ndarray, labels: np.ndarray) -> tuple[float, float]:
    """The better of two runs; only one where a run takes long."""
    model = calibrant.calibrator(name)
    job = (lambda: model.fit(logits, labels), lambda fitted: fitted.predict_proba(logits))
    first = timed(*job)
    return first if sum(first) > 5.0 else min(first, timed(*job), key=sum)


def show(name: str, logits: np.ndarray, probs: np.ndarray, labels: np.ndarray) -> None:
    """One line for us and one a peer."""
    fit, predict = ours(name, logits, labels)
    print(f"  {name:<12} {fit:>9.3f} {predict:>9.3f}", flush=True)
    for peer in PEERS.get(name, []):
        big = logits.shape[1] > 500
        if find_spec(peer.package) is None or (big and (peer.package, name) in SMALL_ONLY):
            continue
        try:
            peer_fit, peer_predict = timed(*peer.job(logits, probs, labels))
        except Exception as error:  # a peer's trouble is its own, and worth a line
            print(f"    {peer.package}: failed ({type(error).__name__}: {error})"[:100], flush=True)
            continue
        ratio = (peer_fit + peer_predict) / (fit + predict)
        note = f"  ({peer.note})" if peer.note else ""
        label = f"  {peer.package}"
        print(
            f"  {label:<12} {peer_fit:>9.3f} {peer_predict:>9.3f} {ratio:>8.1f}x{note}", flush=True
        )


def main(arguments: list[str] | None = None) -> None:
    """Time everything."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--sizes", default="5000x100,12500x1000")
    parser.add_argument("--methods", help="comma-separated; left out: all")
    chosen = parser.parse_args(arguments)
    names = chosen.methods.split(",") if chosen.methods else list(REGISTRY)
    for size in chosen.sizes.split(","):
        rows, classes = (int(part) for part in size.split("x"))
        logits, probs, labels = data(rows, classes)
        print(f"{rows} x {classes}: seconds to fit and to predict, peer's total over ours")
        for name in names:
            if name not in TWO_CLASS_METHODS:
                show(name, logits, probs, labels)
    logits, probs, labels = data(5000, 2)
    print("5000 x 2")
    for name in TWO_CLASS_METHODS:
        show(name, logits, probs, labels)


if __name__ == "__main__":
    main()
