"""Make the files that every later release must load to the same probabilities.

    python tools/make_golden_files.py tests/golden/files

Run it after adding a method or a version of a formula: it writes what is not there yet and never
touches what is. Each method has a saved calibrator and, in ``probabilities.npz``, what it made of
the scores in ``scores.npz``.
"""

from __future__ import annotations

import sys
import warnings
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np

import calibrant
from calibrant.calibrators import REGISTRY, Calibrator, FitInfo
from calibrant.common.files import replacing
from calibrant.formulas import (
    AffineMap,
    Chain,
    ClassShares,
    ConstantTemperature,
    IncreasingTable,
    PlainLogits,
    Pool,
)

CLASSES, ROWS = 4, 80
VARIANTS: dict[str, tuple[str, dict[str, Any]]] = {
    "pts-paper": ("pts", {"recipe": "paper", "steps": 50, "learning_rate": 0.01}),
    "pts-clipped": ("pts", {"clip_logits": True, "members": 1}),
    "histogram-top-label": ("histogram", {"mode": "top-label"}),
    "diag-authors": ("diag", {"quadrature": "authors", "hidden": (3,), "nodes": 10}),
    "ts-probs": ("ts", {"input": "probs"}),
    "irova-raw": ("irova", {"normalize": False}),
    "platt-zeros": ("platt", {"input": "probs"}),
    "vector-unseen": ("vector", {}),
}
ORIGINS = {"pts-origin": "pts", "pts-linear-origin": "pts-linear", "vector-origin": "vector"}


def example(classes: int) -> tuple[np.ndarray, np.ndarray]:
    """Over-confident logits with labels, one class masked in some rows."""
    rng = np.random.default_rng(11)
    logits = 3.0 * rng.normal(size=(ROWS, classes))
    labels = (0.5 * logits + rng.gumbel(size=logits.shape)).argmax(axis=1)
    if classes > 2:
        masked = np.arange(0, ROWS, 9)
        logits[masked, (labels[masked] + 1) % classes] = -np.inf
    return logits, labels


def scores(kind: str, classes: int) -> np.ndarray:
    """The scores of the example as logits or probabilities."""
    logits = example(classes)[0]
    if kind == "logits":
        return logits
    weight = np.exp(logits - logits.max(axis=1, keepdims=True))
    return np.asarray(weight / weight.sum(axis=1, keepdims=True))


def chain() -> Calibrator:
    """A calibrator whose formula is a chain."""
    table = IncreasingTable(-8.0, 8.0, np.cumsum(np.linspace(0.1, 1.0, 17)), 0.6)
    formula = Chain((table,), ConstantTemperature(1.5))
    return calibrant.Uncalibrated()._restored(formula, FitInfo(True, "given"), CLASSES)


def pool() -> Calibrator:
    """A calibrator whose formula averages temperature and vector scaling and class shares."""
    vector = AffineMap(PlainLogits(), [0.9, 0.4, 0.6, 0.5], [0.3, -0.2, 0.1, -0.4], 1e15)
    shares = ClassShares([0.4, 0.3, 0.2, 0.1])
    formula = Pool([0.55, 0.3, 0.15], (ConstantTemperature(1.8), vector, shares))
    method = calibrant.HistogramBinning()  # it may move the arg max, and has no fitted attributes
    return method._restored(formula, FitInfo(True, "given"), CLASSES)


MADE = {"chain": chain, "pool": pool}  # without a fit


def with_origin(method: str) -> Calibrator:
    """A fitted calibrator whose formula reads logits from another origin."""
    calibrator = fitted(method)
    part = "features" if method == "vector" else "reading"
    moved = replace(getattr(calibrator.formula_, part), origin=0.5)
    formula = replace(calibrator.formula_, **{part: moved})
    return calibrator._restored(formula, calibrator.fit_info_, CLASSES)


def fitted(name: str) -> Calibrator:
    """A calibrator by its name here, fitted on the example."""
    if name in MADE:
        return MADE[name]()
    if name in ORIGINS:
        return with_origin(ORIGINS[name])
    method, parameters = VARIANTS.get(name, (name, {}))
    calibrator = calibrant.calibrator(method, **parameters)
    classes = 2 if calibrator.two_classes_only else CLASSES
    given, labels = scores(calibrator.input, classes), example(classes)[1]
    if name == "vector-unseen":
        given, labels = given[labels != 1], labels[labels != 1]
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", calibrant.CalibrationWarning)
        return calibrator.fit(given, labels)


def others(folder: Path) -> None:
    """A profile of either kind and a meter, where they are missing."""
    logits, labels = example(CLASSES)
    wide = np.concatenate([logits] * 20, axis=1)
    made = {
        "gaps": lambda: calibrant.TemperatureProfile.from_logits(logits, labels),
        "nodes": lambda: calibrant.TemperatureProfile.from_logits(wide, labels),
        "meter": lambda: calibrant.CalibrationMeter(n_bins=5).update(
            scores("probs", CLASSES), labels
        ),
    }
    for name, make in made.items():
        path = folder / "others" / f"{name}.safetensors"
        if not path.exists():
            calibrant.save(make(), path)
            print(f"wrote {path}")


def main(folder: Path) -> None:
    """Write what is missing."""
    (folder / "others").mkdir(parents=True, exist_ok=True)
    answers = folder / "probabilities.npz"
    known = dict(np.load(answers)) if answers.exists() else {}
    for name in (*REGISTRY, *VARIANTS, *ORIGINS, *MADE):
        path = folder / f"{name}.safetensors"
        if path.exists():
            continue
        calibrator = fitted(name)
        calibrant.save(calibrator, path)
        classes = calibrator.n_classes_ or CLASSES
        known[name] = calibrator.predict_proba(scores(calibrator.input, classes))
        print(f"wrote {path}")
    with replacing(answers) as file:
        np.savez_compressed(file, **known)
    others(folder)
    inputs = {
        f"{kind}-{classes}": scores(kind, classes)
        for kind in ("logits", "probs")
        for classes in (2, CLASSES)
    }
    with replacing(folder / "scores.npz") as file:
        np.savez_compressed(file, **inputs)


if __name__ == "__main__":
    main(Path(sys.argv[1]))
