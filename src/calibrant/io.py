"""Calibrators to files and back: safetensors with a JSON header, no pickle anywhere."""

from __future__ import annotations

import os
from typing import Any

import numpy as np

from calibrant import _container
from calibrant._errors import FileError
from calibrant.calibrators import REGISTRY, Calibrator

_CLASSES = {cls.__name__: cls for cls in REGISTRY.values()}
_COMMON = ("n_classes_", "fit_info_")


def save(calibrator: Calibrator, path: str | os.PathLike[str]) -> None:
    """Write a fitted calibrator; the file appears whole or not at all."""
    from sklearn.utils.validation import check_is_fitted

    if type(calibrator).__name__ not in _CLASSES:
        raise TypeError(f"save takes a calibrator of calibrant, got {type(calibrator).__name__}")
    check_is_fitted(calibrator)
    values: dict[str, Any] = {}
    arrays: dict[str, Any] = {}
    for name in (*calibrator._state, *_COMMON):
        value = getattr(calibrator, name)
        if isinstance(value, np.ndarray):
            arrays[name] = value
        elif isinstance(value, list):
            values[name] = {"arrays": len(value)}
            arrays |= {f"{name}.{i}": np.asarray(part) for i, part in enumerate(value)}
        else:
            values[name] = value
    document = {
        "class": type(calibrator).__name__,
        "parameters": {k: _plain(v) for k, v in calibrator.get_params(deep=False).items()},
        "fitted": values,
    }
    _container.write(path, "calibrator", document, arrays)


def load(path: str | os.PathLike[str]) -> Calibrator:
    """Read what ``save`` wrote. Raises ``FileError`` for anything else."""
    document, arrays = _container.read(path, "calibrator")
    name = document.get("class")
    if not isinstance(name, str) or name not in _CLASSES:
        raise FileError(f"{os.fspath(path)} holds a {name!r}, which this calibrant does not know")
    cls = _CLASSES[name]
    try:
        parameters = {k: _frozen(v) for k, v in document["parameters"].items()}
        calibrator = cls(**parameters)
        for attribute in (*cls._state, *_COMMON):
            setattr(calibrator, attribute, _fitted(attribute, document["fitted"], arrays))
    except (KeyError, TypeError, AttributeError) as error:
        raise FileError(f"{os.fspath(path)} does not fit a {name}: {error!r}") from None
    return calibrator


def _fitted(attribute: str, values: dict[str, Any], arrays: dict[str, Any]) -> Any:
    if attribute in arrays:
        return arrays[attribute]
    value = values[attribute]
    if isinstance(value, dict) and value.keys() == {"arrays"}:
        return [arrays[f"{attribute}.{i}"] for i in range(value["arrays"])]
    return value


def _plain(value: Any) -> Any:
    """A parameter as a JSON value; a random generator cannot be one and is left out."""
    if isinstance(value, np.random.Generator):
        return None
    if isinstance(value, np.generic):
        return value.item()
    return list(value) if isinstance(value, tuple) else value


def _frozen(value: Any) -> Any:
    return tuple(value) if isinstance(value, list) else value
