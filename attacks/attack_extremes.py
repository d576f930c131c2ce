"""Attack all methods and metrics with weights and logits at the limits of floats.

    python attacks/attack_extremes.py --cases 2000

Every case is a few labelled rows, of weights or of logits that no honest program writes, given to
a method or to a metric. It ends in one of three ways: it is refused at the door, with a message of
calibrant; or it is served, with probabilities that are ones; or something misbehaves, and the exit
code is 1. Misbehaving is any other exception, any warning but a ``CalibrationWarning``, a number
that is NaN, a row of probabilities that does not sum to 1, or an arg max that moves where it must
not.

A case is made from its own number alone: place i of a run with ``--seed S`` is the case of
``--seed S+i --cases 1``.
"""

from __future__ import annotations

import inspect
import sys
import warnings
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from typing import Any

import numpy as np
from numpy.random import Generator

import calibrant
import outcomes
from calibrant import metrics
from calibrant.calibrators import REGISTRY
from outcomes import Outcomes

ROWS = 40
SPECIAL = (0.0, 5e-324, 1e-310, 1e-300, 1e-50, 1e-45, 1.0, 2.0, 1e15, 1e17, 1e50, 1e300, 1.7e308)
FUNCTIONS = (
    *("accuracy", "brier", "nll", "ece", "rms_ece", "mce", "adaptive_ece", "debiased_ece"),
    *("classwise_ece", "smooth_ece", "kde_ece", "skce", "skce_test", "spiegelhalter_test"),
    *(
        "brier_decomposition",
        "bin_stats",
        "calibration_test",
        "ks_test",
        "kuiper_test",
        "cox_test",
        "omnibus_test",
    ),
)


@dataclass(frozen=True)
class Rows:
    """What a case is about."""

    logits: np.ndarray
    labels: np.ndarray
    weight: np.ndarray | None


Maker = Callable[[Generator, int], Rows]  # of so many classes


class MisbehaviourError(AssertionError):
    """A law that does not hold."""


def honest(rng: Generator, classes: int) -> tuple[np.ndarray, np.ndarray]:
    """Overconfident logits and their labels."""
    logits = 3.0 * rng.normal(size=(ROWS, classes))
    return logits, (0.5 * logits + rng.gumbel(size=logits.shape)).argmax(axis=1)


def extreme_weights(rng: Generator, classes: int) -> Rows:
    """Weights of any size that a float can have: all alike, one apart, or spread over a range."""
    logits, labels = honest(rng, classes)
    shape = rng.integers(4)
    if shape == 0:
        weight = np.full(ROWS, rng.choice(SPECIAL))
    elif shape == 1:
        weight = np.full(ROWS, rng.choice(SPECIAL))
        weight[: rng.integers(1, 4)] = rng.choice(SPECIAL)
    elif shape == 2:
        reach = rng.choice([1.0, 20.0, 49.0, 300.0])
        weight = 10.0 ** rng.uniform(-reach, reach, ROWS)
    else:
        weight = rng.choice(SPECIAL, ROWS)
    return Rows(logits, labels, weight)


def extreme_logits(rng: Generator, classes: int) -> Rows:
    """Logits near the largest or the smallest floats: all, some rows, one class, or an offset."""
    logits, labels = honest(rng, classes)
    dtype = (np.float64, np.float32, np.float16)[rng.integers(3)]
    limits = np.finfo(dtype)
    sizes = (limits.max, 0.4 * limits.max, limits.tiny, 8.0 * limits.smallest_subnormal)
    size = float((*sizes, 1e39, 1e30, 1e18)[rng.integers(7 if dtype is np.float64 else 4)])
    unit = logits / np.abs(logits).max()
    shape = rng.integers(4)
    if shape == 0:
        logits = unit * size
    elif shape == 1:
        some = rng.random(ROWS) < 0.3
        logits[some] = unit[some] * size
    elif shape == 2:  # a mask in numbers, which now and then lies on a label
        masked = rng.integers(classes)
        logits[:, masked] = -size
        labels = np.where(
            (labels == masked) & (rng.random(ROWS) < 0.9), (masked + 1) % classes, labels
        )
    else:
        logits += 0.4 * size
    return Rows(logits.astype(dtype), labels, None)


# --- what they are given to -------------------------------------------------------------------


def method_case(rng: Generator, make: Maker) -> str:
    """Fit a method and apply it to its own rows and to ordinary ones."""
    name = list(REGISTRY)[rng.integers(len(REGISTRY))]
    few = REGISTRY[name].two_classes_only
    rows = make(rng, 2 if few else int(rng.choice([2, 3, 70])))
    try:
        fitted = calibrant.calibrator(name).fit(rows.logits, rows.labels, rows.weight)
    except ValueError as error:
        return refused(error)
    ordinary = honest(rng, rows.logits.shape[1])[0]
    for logits in (rows.logits, ordinary):
        probs = np.asarray(fitted.predict_proba(logits), np.float64)
        require(bool(np.isfinite(probs).all()), f"{name}: probabilities that are no numbers")
        require(bool(np.abs(probs.sum(axis=1) - 1.0).max() < 1e-3), f"{name}: rows do not sum to 1")
        require(not np.isnan(fitted.predict_log_proba(logits)).any(), f"{name}: log p is NaN")
        if fitted.accuracy_preserving:
            top = probs[np.arange(len(probs)), logits.argmax(axis=1)]
            require(bool((top >= probs.max(axis=1)).all()), f"{name}: the arg max moved")
    return "served"


def metric_case(rng: Generator, make: Maker) -> str:
    """Judge the rows by a metric, by a meter, or by all metrics at once."""
    rows = make(rng, int(rng.choice([2, 3, 70])))
    options: dict[str, Any] = {"sample_weight": rows.weight, "input": "logits"}
    name = (*FUNCTIONS, "evaluate", "meter")[rng.integers(len(FUNCTIONS) + 2)]
    try:
        if name == "evaluate":
            found = calibrant.evaluate(rows.logits, rows.labels, n_resamples=10, **options)
            found.to_json()
        elif name == "meter":
            meter = metrics.CalibrationMeter(input="logits")
            meter.update(rows.logits, rows.labels, sample_weight=rows.weight)
            found = meter.compute()
        else:
            function = getattr(metrics, name)
            known = inspect.signature(function).parameters
            found = function(
                rows.logits, rows.labels, **{k: v for k, v in options.items() if k in known}
            )
    except ValueError as error:
        return refused(error)
    str(found)
    require(not (isinstance(found, float) and np.isnan(found)), f"{name} is NaN")
    return "served"


def refused(error: ValueError) -> str:
    """Only calibrant itself may refuse, and about what it was given."""
    trace = error.__traceback__
    while trace is not None and trace.tb_next is not None:
        trace = trace.tb_next
    module = "" if trace is None else str(trace.tb_frame.f_globals.get("__name__", ""))
    about = ("sample_weight must", "the SKCE test needs at least")
    require(module.startswith("calibrant"), f"refused by {module}: {error}")
    require(str(error).startswith(about), f"refused late: {error}")
    return "refused"


def require(holds: bool, law: str) -> None:
    """Tell of a law that does not hold."""
    if not holds:
        raise MisbehaviourError(law)


KINDS = {
    "weights, methods": (method_case, extreme_weights),
    "weights, metrics": (metric_case, extreme_weights),
    "logits, methods": (method_case, extreme_logits),
    "logits, metrics": (metric_case, extreme_logits),
}


def attack(cases: int, seed: int = 0) -> dict[str, Outcomes]:
    """Run the cases of these numbers."""
    kinds = {kind: partial(_case, given=given, make=make) for kind, (given, make) in KINDS.items()}
    return outcomes.attack(kinds, cases, seed)


def _case(rng: Generator, given: Callable[[Generator, Maker], str], make: Maker) -> str:
    """How a case ends: "refused", "served", or what misbehaved."""
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        warnings.simplefilter("ignore", calibrant.CalibrationWarning)
        try:
            return given(rng, make)
        except Exception as error:  # whatever it is, it was not meant to leave the library
            return f"{type(error).__name__}: {error}"


def main(arguments: list[str] | None = None) -> int:
    """Run the attack; 1 where something misbehaved."""
    return outcomes.run(__doc__, attack, arguments, cases=1000)


if __name__ == "__main__":
    sys.exit(main())
