"""What must hold of a calibrator, whatever array it is given: broken laws are told in words."""

from __future__ import annotations

import copy
import traceback
import warnings
from collections.abc import Callable
from typing import Any

import numpy as np
import pandas as pd
import torch

from calibrant import CalibrationWarning
from calibrant.calibrators import Calibrator

TOLERANCE = {"float32": 1e-6, "float64": 1e-12}  # of a row alone and the same row in a batch
ALONE = 4  # rows that are predicted alone


class MisbehavedError(Exception):
    """A law is broken."""


class RefusedError(Exception):
    """The library's own clear error."""


def require(law: bool, broken: str) -> None:
    """Raise where a law does not hold."""
    if not law:
        raise MisbehavedError(broken)


def guarded(act: Callable[[], Any]) -> Any:
    """What an act returns; its errors and warnings must be the library's own."""
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        try:
            result = act()
        except (ValueError, TypeError) as error:
            where = traceback.extract_tb(error.__traceback__)[-1]
            require("calibrant" in where.filename, f"{type(error).__name__} in {where.filename}")
            require(len(str(error)) > 10, f"an error without words: {error!r}")
            raise RefusedError(str(error)) from None
        except Exception as error:
            raise MisbehavedError(f"{type(error).__name__}: {error}") from error
    foreign = [one for one in caught if not issubclass(one.category, CalibrationWarning)]
    require(not foreign, f"{foreign and foreign[0].category.__name__}: {foreign and foreign[0]}")
    return result


def kept(given: Any) -> Callable[[], bool]:
    """Remember an array; the result says whether it still is the same."""
    before = copy.deepcopy(given.detach() if isinstance(given, torch.Tensor) else given)
    return lambda: _same(given, before)


def _same(one: Any, other: Any) -> bool:
    if isinstance(one, pd.DataFrame | pd.Series):
        return bool(one.equals(other))
    if isinstance(one, torch.Tensor):
        one, other = one.detach().double().numpy(), other.double().numpy()
    if isinstance(one, np.ndarray):
        same = one.dtype == other.dtype and one.shape == other.shape
        return same and bool(np.array_equal(one.astype(str), other.astype(str)))
    return repr(one) == repr(other)


def predictions_hold(model: Calibrator, scores: Any, numbers: np.ndarray) -> None:
    """All laws of predictions, of scores that mean these numbers."""
    unchanged = kept(scores)
    result = guarded(lambda: model.predict_proba(scores))
    again = guarded(lambda: model.predict_proba(scores))
    require(unchanged(), "the array given was changed")
    tensor = isinstance(scores, torch.Tensor)
    require(isinstance(result, torch.Tensor if tensor else np.ndarray), "another kind of array")
    probs = result.numpy() if tensor else result
    require(probs.dtype == _working(scores), f"{probs.dtype} for {_dtype(scores)}")
    require(
        np.array_equal(probs, np.asarray(again), equal_nan=True),
        "a second call gives another result",
    )
    probabilities_hold(probs, numbers, model.accuracy_preserving)
    _other_ways_hold(model, scores, probs)
    if len(numbers) > 1:
        _rows_alone_hold(model, scores, probs)


def _other_ways_hold(model: Calibrator, scores: Any, probs: np.ndarray) -> None:
    """Whatever else a calibrator computes has its shape, and is a number."""
    shapes = {"predict_log_proba": probs.shape, "transform": probs.shape}
    shapes |= {"predict": probs.shape[:1], "temperature": probs.shape[:1]}
    for name, shape in shapes.items():
        if hasattr(model, name):
            values = np.asarray(guarded(lambda name=name: getattr(model, name)(scores)))
            require(values.shape == shape, f"{name} of shape {values.shape} for {shape}")
            require(not np.isnan(values).any(), f"NaN in {name}")
            positive = name != "temperature" or bool((values > 0.0).all())
            require(positive and not np.isposinf(values).any(), f"{name} beyond what it can be")


def probabilities_hold(probs: np.ndarray, numbers: np.ndarray, keeps_arg_max: bool) -> None:
    """Distributions of the right shape, in which no class passes the arg max of the scores."""
    require(probs.shape == numbers.shape, f"shape {probs.shape} for {numbers.shape}")
    require(not np.isnan(probs).any(), "NaN among the probabilities")
    require(bool(((probs >= 0.0) & (probs <= 1.0 + 1e-6)).all()), "probabilities outside [0, 1]")
    tolerance = 1e-5 if probs.dtype == np.float32 else 1e-9
    require(bool((np.abs(probs.sum(axis=1, dtype=np.float64) - 1.0) < tolerance).all()), "row sums")
    if keeps_arg_max and len(numbers):
        top = np.take_along_axis(probs, numbers.argmax(axis=1)[:, None], axis=1)
        require(bool((probs <= top).all()), "the arg max moved")


def _rows_alone_hold(model: Calibrator, scores: Any, probs: np.ndarray) -> None:
    for row in np.linspace(0, len(probs) - 1, ALONE).astype(int):
        alone = np.asarray(guarded(lambda row=row: model.predict_proba(_row(scores, row))))
        difference = float(np.abs(alone[0] - probs[row]).max())
        limit = TOLERANCE[str(probs.dtype)]
        require(difference <= limit, f"row {row} alone differs by {difference:.1e}")


def _row(scores: Any, row: int) -> Any:
    if isinstance(scores, pd.DataFrame):
        return scores.iloc[[row]]
    return scores[row : row + 1]


def _dtype(scores: Any) -> str:
    if isinstance(scores, pd.DataFrame):
        return str(scores.dtypes.iloc[0]).lower()
    if isinstance(scores, list | tuple):
        return "float64"
    return str(scores.dtype).removeprefix("torch.").lstrip("><")


def _working(scores: Any) -> np.dtype[Any]:
    """float64 and integers are computed in float64, all other floats in float32."""
    narrow = ("float32", "float16", "bfloat16", "f4", "f2")
    return np.dtype(np.float32 if _dtype(scores) in narrow else np.float64)


def fits_hold(model: Calibrator, given: dict[str, Any], numbers: np.ndarray) -> None:
    """All laws of a fit: nothing given is changed, twice is the same, predictions hold."""
    unchanged = [kept(array) for array in given.values()]
    fitted = guarded(lambda: model.fit(**given))
    require(all(same() for same in unchanged), "an array given was changed")
    probs = guarded(lambda: fitted.predict_proba(numbers))
    probabilities_hold(probs, numbers, fitted.accuracy_preserving)
    again = guarded(lambda: type(model)(**model.get_params()).fit(**given))
    require(
        np.array_equal(probs, guarded(lambda: again.predict_proba(numbers))),
        "a second fit gives another result",
    )
