"""What everything that comes out of a file must do, whatever the file was.

A law that does not hold raises ``MisbehaviourError`` with what went wrong. Warnings are errors,
but for those with which a fit tells of its data.
"""

from __future__ import annotations

import io
import warnings
from collections.abc import Iterator
from contextlib import contextmanager
from functools import cache
from typing import Any

import numpy as np
from numpy.typing import NDArray

import calibrant

LARGEST_BATCH = 400_000  # numbers; rows of more classes than fit are only looked at
SUM_SLACK = 1e-4  # of float32 rows


class MisbehaviourError(Exception):
    """Something that must not happen."""


def require(holds: Any, what: str) -> None:
    """Tell of a law that does not hold."""
    if not bool(holds):
        raise MisbehaviourError(what)


@contextmanager
def strictly() -> Iterator[None]:
    """Warnings are errors; those about the data of a fit are what they should be."""
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        warnings.simplefilter("ignore", calibrant.CalibrationWarning)
        yield


def warm_up() -> None:
    """Import what takes long to import, so that no case pays for it."""
    import onnxruntime  # noqa: F401

    import calibrant.onnx
    import calibrant.torch  # noqa: F401


# --- scores -----------------------------------------------------------------------------------


@cache
def hard_logits(classes: int, dtype: str) -> NDArray[Any]:
    """Ordinary rows, ties, near ties, masks, and the smallest and largest floats there are."""
    rng = np.random.default_rng(classes)
    rows = 40 if 40 * classes <= LARGEST_BATCH else 2
    logits = 3.0 * rng.standard_normal((rows, classes))
    limit = float(np.finfo(dtype).max)
    logits[1::8] = np.round(logits[1::8])
    logits[2::8] = 1.0 + 1e-7 * logits[2::8]
    logits[3::8] *= 10.0 ** rng.uniform(-45.0, 37.0, (len(logits[3::8]), 1))
    hidden = rng.random(logits[4::8].shape) < 0.5
    hidden[:, rng.integers(classes)] = False
    logits[4::8] = np.where(hidden, -np.inf, logits[4::8])
    logits[5::8, 1:] = -np.inf
    logits[6::8] = rng.choice((limit, -limit, 0.0, 1.0), logits[6::8].shape)
    logits[7::8] = 0.0
    return logits.astype(dtype)


@cache
def hard_probabilities(classes: int, dtype: str) -> NDArray[Any]:
    """Distributions, certain ones among them."""
    logits = hard_logits(classes, "float32").astype(np.float64)
    with np.errstate(all="ignore"):
        weight = np.exp(logits - logits.max(axis=1, keepdims=True))
    return np.asarray(weight / weight.sum(axis=1, keepdims=True)).astype(dtype)


def scores_for(calibrator: Any, classes: int, dtype: str) -> NDArray[Any]:
    """Scores of the kind that a calibrator reads."""
    kind = getattr(calibrator, "input_", calibrator.input)
    return (hard_logits if kind == "logits" else hard_probabilities)(classes, dtype)


# --- calibrators ------------------------------------------------------------------------------


def check_calibrator(calibrator: Any, *, torch: bool = False, onnx: bool = False) -> None:
    """A calibrator gives distributions for all valid scores, by every way of computing."""
    with strictly():
        repr(calibrator)
        calibrator.get_params()
        _check_attributes(calibrator)
        classes = _classes(calibrator)
        if classes > LARGEST_BATCH:
            return
        for dtype in ("float32", "float64"):
            _check_numpy(calibrator, scores_for(calibrator, classes, dtype))
        if torch:
            _check_torch(calibrator, classes)
        if onnx:
            _check_onnx(calibrator, classes)


def _classes(calibrator: Any) -> int:
    formula = calibrator.formula_
    if formula.n_classes is not None:
        return int(formula.n_classes)
    fitted = calibrator.n_classes_
    usual = 4 if fitted is None or fitted > 1000 else fitted
    return max(int(usual), formula.fewest_classes)


def _check_attributes(calibrator: Any) -> None:
    """All fitted attributes can be read."""
    for name in dir(type(calibrator)):
        if isinstance(getattr(type(calibrator), name), property) and name.endswith("_"):
            value = getattr(calibrator, name)
            for part in value if isinstance(value, list | tuple) else [value]:
                if isinstance(part, float | np.ndarray):
                    require(np.all(np.isfinite(part)), f"{name} is not finite: {value!r:.60}")
                if name == "temperature_":
                    require(part > 0.0, f"the temperature is {part}")


def _check_numpy(calibrator: Any, scores: NDArray[Any]) -> None:
    probs = calibrator.predict_proba(scores)
    require(probs.dtype == scores.dtype, f"{scores.dtype} became {probs.dtype}")
    check_rows(calibrator, scores, probs)
    logs = calibrator.predict_log_proba(scores)
    require(not np.isnan(logs).any(), "a log-probability is NaN")
    require((logs <= 1e-3).all(), f"a log-probability is {logs.max()}")
    require(np.allclose(np.exp(logs), probs, atol=1e-3), "log-probabilities are of other ones")
    chosen, top = calibrator.predict(scores), scores.argmax(axis=1)
    if calibrator.accuracy_preserving:
        require((chosen == top).all(), "another class was predicted")
        require((logs <= np.take_along_axis(logs, top[:, None], 1)).all(), "the arg max moved")
    if hasattr(calibrator, "temperature"):
        temperatures = calibrator.temperature(scores)
        require(np.isfinite(temperatures).all() and (temperatures > 0).all(), "no temperature")
    if hasattr(calibrator, "transform"):
        require(not np.isnan(calibrator.transform(scores)).any(), "a new logit is NaN")


def check_rows(calibrator: Any, scores: NDArray[Any], probs: NDArray[Any], by: str = "") -> None:
    """Distributions, in which the arg max stays where the method says so."""
    require(probs.shape == scores.shape, f"{by}shape {scores.shape} became {probs.shape}")
    require(np.isfinite(probs).all(), f"{by}a probability is {probs[~np.isfinite(probs)][:1]}")
    require((probs >= 0.0).all(), f"{by}a probability is {probs.min()}")
    require((probs <= 1.0 + SUM_SLACK).all(), f"{by}a probability is {probs.max()}")
    if _normalized(calibrator.formula_):
        sums = probs.sum(axis=1, dtype=np.float64)
        worst = sums[np.argmax(np.abs(sums - 1.0))]
        require(abs(worst - 1.0) <= SUM_SLACK, f"{by}a row sums to {worst}")
    if calibrator.accuracy_preserving:
        best = np.take_along_axis(probs, scores.argmax(axis=1)[:, None], 1)
        require((probs <= best).all(), f"{by}the arg max moved")


def _normalized(formula: Any) -> bool:
    """False where a formula, or one that it is made of, does not divide by the sum of a row."""
    inner = getattr(formula, "_inner", ())
    return bool(getattr(formula, "normalize", True)) and all(map(_normalized, inner))


def _check_torch(calibrator: Any, classes: int) -> None:
    import torch

    from calibrant.torch import to_module

    module = to_module(calibrator)
    for dtype in ("float32", "float64"):
        scores = scores_for(calibrator, classes, dtype)
        tensor = torch.from_numpy(scores.copy())
        check_rows(calibrator, scores, module(tensor).numpy(), "torch: ")
        require(not module.log_proba(tensor).isnan().any(), "torch: a log-probability is NaN")
        check_rows(calibrator, scores, np.asarray(calibrator.predict_proba(tensor)), "array API: ")


def _check_onnx(calibrator: Any, classes: int) -> None:
    import tempfile
    from pathlib import Path

    import onnxruntime

    from calibrant.onnx import export

    options = onnxruntime.SessionOptions()
    options.intra_op_num_threads = 1
    for dtype in ("float32", "float64"):
        with tempfile.TemporaryDirectory() as folder:
            path = Path(folder, "c.onnx")
            names = export(calibrator, path, classes, dtype=dtype)
            session = onnxruntime.InferenceSession(path, options)
        scores = scores_for(calibrator, classes, dtype)
        probs = session.run([names.probabilities], {names.input: scores})[0]
        check_rows(calibrator, scores, probs, "ONNX: ")


# --- profiles ---------------------------------------------------------------------------------


def check_profile(profile: Any) -> None:
    """A profile can be read at any temperature, and fitted on."""
    with strictly():
        repr(profile)
        for temperature in (0.01, 0.3, 1.0, 17.0, 1e4):
            for read in (profile.row_nll, profile.row_brier, profile.confidence, profile.entropy):
                values = read(temperature)
                require(np.isfinite(values).all(), f"{read.__name__}({temperature}) is not finite")
            confidence = profile.confidence(temperature)
            require(((confidence > 0.0) & (confidence <= 1.001)).all(), "no confidence")
        require(len(profile.concat([profile, profile]).take([0])) == 1, "take or concat")
        for method in _profile_methods():
            method.input = profile.input
            method.fit(profile)
            _check_fit(method, profile)


def _profile_methods() -> list[Any]:
    return [
        calibrant.TS(),
        calibrant.ETS(),
        calibrant.PTS(members=1, hidden=(3,), top_k=2),
    ]


def _check_fit(method: Any, profile: Any) -> None:
    info = method.fit_info_
    for loss in (info.before, info.after):
        require(np.isfinite(loss), f"{type(method).__name__}: a loss is {loss}")
    if profile.n_classes <= 1000:
        scores = scores_for(method, profile.n_classes, "float64")
        check_rows(method, scores, method.predict_proba(scores))


# --- meters -----------------------------------------------------------------------------------


def check_meter(meter: Any) -> None:
    """A meter gives possible numbers, and merges."""
    with strictly():
        if meter.counts.size:
            report, merged = meter.compute(), meter.merge(meter).compute()
            check_report(report)
            check_report(merged)
            require(merged.n_rows == 2 * report.n_rows, "rows were lost in merging")
            for name in {"accuracy", "nll", "brier", "ece", "mce"} & set(report.metrics):
                once, twice = report.metrics[name].value, merged.metrics[name].value
                require(twice == once or np.isclose(twice, once), f"{name} {once} became {twice}")
        else:
            require(meter.merge(meter).counts.size == 0, "an empty meter became another")


def check_report(report: Any) -> None:
    """Numbers that metrics can have."""
    require(report.n_rows > 0, f"{report.n_rows} rows")
    text = io.StringIO()
    print(report, file=text)
    for name, estimate in report.metrics.items():
        largest = {"nll": np.inf, "brier": report.n_classes + 1e-3}.get(name, 1.001)
        value = estimate.value
        require(-1e-3 <= value <= largest, f"{name} is {value}")
        for part in ("std_error", "null", "max_error"):
            number = getattr(estimate, part)
            require(number is None or number >= -1e-9, f"{part} of {name} is {number}")
            require(number != np.inf or value == np.inf, f"{part} of {name} is infinite")
    parts = report.brier_decomposition
    if parts is not None:
        numbers = (parts.calibration, parts.refinement, parts.uncertainty)
        require(np.isfinite(numbers).all(), f"parts of the Brier score are {numbers}")


# --- any --------------------------------------------------------------------------------------


def check(thing: Any, *, torch: bool = False, onnx: bool = False) -> None:
    """All laws of whatever came out of a file."""
    if isinstance(thing, calibrant.TemperatureProfile):
        check_profile(thing)
    elif isinstance(thing, calibrant.CalibrationMeter):
        check_meter(thing)
    else:
        check_calibrator(thing, torch=torch, onnx=onnx)
