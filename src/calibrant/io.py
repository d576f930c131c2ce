"""Calibrators, profiles and meters as files: safetensors with a JSON header, no pickle."""

from __future__ import annotations

import dataclasses
import os
from collections.abc import Mapping, Sequence
from math import inf, isfinite
from reprlib import repr as shown
from typing import Any, get_args

import numpy as np
from numpy.typing import NDArray

from calibrant.calibrators import REGISTRY, Calibrator, LogitCalibrator, load_plugins
from calibrant.calibrators._estimator import check_is_fitted
from calibrant.calibrators._fit_info import FitInfo
from calibrant.calibrators.profile.temperature_profile import TemperatureProfile
from calibrant.common.errors import FileError
from calibrant.common.files import check_output
from calibrant.common.tables import counted
from calibrant.common.types import InputKind
from calibrant.formulas import ConstantTemperature, Formula
from calibrant.formulas import _safetensors as _container
from calibrant.formulas._serialization import MOST_CLASSES, from_state, to_state
from calibrant.formulas.composition import unsmoothed
from calibrant.metrics import CalibrationMeter

Saved = Calibrator | Sequence[Calibrator] | TemperatureProfile | CalibrationMeter
SUFFIXES = (".safetensors",)  # of what is written; what is read may have any name
Document = dict[str, Any]
Arrays = dict[str, NDArray[Any]]


def save(thing: Saved, path: str | os.PathLike[str]) -> None:
    """Write fitted calibrators, a profile or a meter; the file appears whole or not at all.

    A calibrator is saved as its formula, which holds all that its output depends on, beside its
    parameters and the report of its fit: the file gives the same probabilities in every release.

    Parameters
    ----------
    thing : Calibrator, list or tuple of Calibrator, TemperatureProfile or CalibrationMeter
        What to write. Several calibrators, such as the ``calibrators_`` of a
        ``CalibratedClassifier``, go to one file. Calibrators of your own are registered first
        (``calibrant.calibrators.register``).
    path : path-like
        The file; its name ends in ``.safetensors``. A file that is there is replaced and keeps its
        mode and owner; a link stays, and what it points to is written.

    Raises
    ------
    TypeError
        Where it is none of these, or an unregistered class. A ``CalibratedClassifier`` is none:
        its classifier may be anything.
    sklearn.exceptions.NotFittedError
        Where a calibrator is not fitted.
    ValueError
        Where the name ends otherwise, or the list is empty.
    OSError
        Where the file cannot be written, or a folder, a device, a FIFO or a socket is in its place;
        the error has the file's name.

    Examples
    --------
    >>> import calibrant, tempfile, pathlib
    >>> file = pathlib.Path(tempfile.mkdtemp(), "ts.safetensors")
    >>> calibrant.save(calibrant.TS().fit([[4.0, 0.0], [0.0, 1.0], [2.0, 0.0]], [0, 1, 1]), file)
    >>> calibrant.load(file)
    TemperatureScaling()
    """
    check_output(path, SUFFIXES)
    if isinstance(thing, Calibrator):
        _container.write(path, "calibrator", *_calibrator_state(thing))
    elif isinstance(thing, TemperatureProfile):
        _container.write(path, "profile", *thing.to_state())
    elif isinstance(thing, CalibrationMeter):
        _container.write(path, "meter", *thing.to_state())
    elif isinstance(thing, list | tuple) and all(isinstance(one, Calibrator) for one in thing):
        _container.write(path, "calibrators", *_state_of_several(thing))
    else:
        raise TypeError(_refusal(thing))


def _refusal(thing: object) -> str:
    """Why something is not written."""
    parts = thing if isinstance(thing, list | tuple) else [thing]
    odd = next(one for one in parts if not isinstance(one, Calibrator))
    name = type(odd).__name__
    if any(cls.__module__ == "calibrant.sklearn" for cls in type(odd).__mro__):
        return (
            f"save writes no {name}: the classifier in it may be anything and would need pickle. "
            "save(model.calibrators_, path) writes the calibrators of a CalibratedClassifier; "
            "docs/sklearn.md shows how to write all of it with skops"
        )
    return (
        "save takes a calibrator of calibrant, a TemperatureProfile or a CalibrationMeter, or a "
        f"list of calibrators, got {name if parts is not thing else f'{name} in a list'}"
    )


def load(path: str | os.PathLike[str]) -> Any:
    """Read what ``save`` wrote.

    Parameters
    ----------
    path : path-like
        The file, of any name: what it is, its content says.

    Returns
    -------
    Calibrator, tuple of Calibrator, TemperatureProfile or CalibrationMeter
        What the file holds; several calibrators in the order in which they were given.

    Raises
    ------
    FileError
        Where the file is anything else, or was changed after it was written.
    FileNotFoundError
        Where there is no such file.

    Examples
    --------
    >>> import calibrant, tempfile, pathlib
    >>> file = pathlib.Path(tempfile.mkdtemp(), "profile.safetensors")
    >>> profile = calibrant.TemperatureProfile.from_logits([[2.0, 0.0], [0.0, 1.0]], [0, 1])
    >>> calibrant.save(profile, file)
    >>> calibrant.load(file)
    TemperatureProfile(2 rows, 2 classes, top_k=10, scale=1)
    """
    document, arrays = _container.read(path)
    kind = document["kind"]
    reader = {
        "calibrator": _calibrator_from,
        "calibrators": _several_from,
        "profile": TemperatureProfile.from_state,
        "meter": CalibrationMeter.from_state,
    }.get(kind)
    if reader is None:
        raise FileError(
            f"{os.fspath(path)} holds a {shown(kind)}, which this calibrant does not know"
        )
    try:
        return reader(document, arrays)
    except FileError as error:
        raise FileError(f"{os.fspath(path)} {error}") from None
    except (LookupError, TypeError, ValueError, AttributeError, ArithmeticError) as error:
        what = "list of calibrators" if kind == "calibrators" else kind
        raise FileError(f"{os.fspath(path)} does not fit a {what}: {error!r:.300}") from None


def load_calibrator(path: str | os.PathLike[str]) -> Calibrator:
    """Read a calibrator; a file of anything else is refused.

    Parameters
    ----------
    path : path-like
        The file.

    Returns
    -------
    Calibrator
        The fitted calibrator.

    Raises
    ------
    FileError
        Where the file holds anything else, or was changed after it was written.
    FileNotFoundError
        Where there is no such file.

    Examples
    --------
    >>> import calibrant, pathlib, tempfile
    >>> file = pathlib.Path(tempfile.mkdtemp(), "ts.safetensors")
    >>> ts = calibrant.TS().fit([[4.0, 0.0], [3.0, 0.0], [5.0, 0.0]], [0, 0, 1])
    >>> save(ts, file)
    >>> load_calibrator(file).temperature_ == ts.temperature_
    True
    """
    thing = load(path)
    if not isinstance(thing, Calibrator):
        several = isinstance(thing, tuple)
        held = counted(len(thing), "calibrator") if several else f"a {type(thing).__name__}"
        told = "one: calibrant.load reads them" if several else "a calibrator"
        raise FileError(f"{os.fspath(path)} holds {held}, not {told}")
    return thing


# --- calibrators ----------------------------------------------------------------------------------


def _state_of_several(calibrators: Sequence[Calibrator]) -> tuple[Document, Arrays]:
    """The documents of all of them; the arrays of each begin with its number."""
    if not calibrators:
        raise ValueError("save takes at least one calibrator, got an empty list")
    documents: list[Document] = []
    arrays: Arrays = {}
    for number, calibrator in enumerate(calibrators):
        document, own = _calibrator_state(calibrator, f"{number}.formula")
        documents.append(document)
        arrays |= own
    return {"calibrators": documents}, arrays


def _several_from(
    document: Mapping[str, Any], arrays: Mapping[str, NDArray[Any]]
) -> tuple[Calibrator, ...]:
    documents = document["calibrators"]
    if not isinstance(documents, list) or not documents:
        raise TypeError(f"calibrators must be a list of at least one, got {shown(documents)}")
    parts: list[Arrays] = [{} for _ in documents]
    for name, array in arrays.items():
        number = name.partition(".")[0]
        if not (number.isdecimal() and number.isascii() and int(number) < len(parts)):
            raise ValueError(f"no calibrator has the array {shown(name)}")
        parts[int(number)][name] = array
    return tuple(map(_calibrator_from, documents, parts))


def _calibrator_state(calibrator: Calibrator, path: str = "formula") -> tuple[Document, Arrays]:
    """The document of a calibrator, and its arrays, whose names begin with ``path``."""
    name = type(calibrator).__name__
    if _class_called(name) is not type(calibrator):
        raise TypeError(
            f"{name} is not registered: calibrant.calibrators.register makes a calibrator of your "
            "own known by name"
        )
    check_is_fitted(calibrator)
    _check_arg_max(calibrator)  # parameters may have been set since the fit
    parameters = calibrator.get_params(deep=False)
    for key, value in parameters.items():
        if isinstance(value, np.random.Generator) or callable(value):
            parameters[key] = None  # no JSON value
        elif isinstance(value, np.generic):
            parameters[key] = value.item()
    fit_info = dataclasses.asdict(calibrator.fit_info_)
    del fit_info["seconds"]  # the same fit gives the same file, byte for byte
    formula, arrays = to_state(calibrator.formula_, path)
    document = {
        "class": name,
        "parameters": parameters,
        "n_classes": calibrator.n_classes_,
        "input": calibrator.input_,
        "fit_info": fit_info,
        "formula": formula,
    }
    return document, arrays


def _class_called(name: str) -> type[Calibrator] | None:
    """The registered class of a name; plugins are asked where calibrant itself has none."""
    found = [cls for cls in REGISTRY.values() if cls.__name__ == name]
    if not found:
        load_plugins()
        found = [cls for cls in REGISTRY.values() if cls.__name__ == name]
    return found[0] if found else None


def _calibrator_from(document: Mapping[str, Any], arrays: Mapping[str, NDArray[Any]]) -> Calibrator:
    name = document["class"]
    cls = _class_called(name) if isinstance(name, str) else None
    if cls is None:
        raise FileError(
            f"holds a {shown(name)}, which this calibrant does not know: a calibrator of your own "
            "is registered first (calibrant.calibrators.register)"
        )
    parameters = document["parameters"].items()
    calibrator = cls(**{k: tuple(v) if isinstance(v, list) else v for k, v in parameters})
    formula = from_state(document["formula"], arrays)
    if not isinstance(formula, Formula):
        raise TypeError(f"a {name} needs a formula, got a {type(formula).__name__}")
    info = FitInfo(**document["fit_info"], seconds=None)
    if not (
        isinstance(info.converged, bool)
        and isinstance(info.message, str)
        and isinstance(info.iterations, int | None)
        and isinstance(info.loss, str | None)
        and isinstance(info.details, dict)
        and all(
            loss is None or (isinstance(loss, float) and isfinite(loss))
            for loss in (info.before, info.after)
        )
    ):
        raise TypeError("the report of the fit is none")
    classes, kind = document["n_classes"], document["input"]
    if classes is not None:
        if isinstance(classes, bool) or not isinstance(classes, int) or classes > MOST_CLASSES:
            raise TypeError(
                f"n_classes must be a whole number up to {MOST_CLASSES} or None, "
                f"got {shown(classes)}"
            )
        formula.check_classes(classes)
    if kind not in get_args(InputKind):
        raise ValueError(f'input must be "logits" or "probs", got {shown(kind)}')
    restored = calibrator._restored(formula, info, classes)
    restored.input_ = kind
    _check_arg_max(restored)
    _check_attributes(restored)
    return restored


def _check_arg_max(calibrator: Calibrator) -> None:
    """Refuse a formula that moves the arg max where the method with these parameters does not."""
    if calibrator._will_keep_arg_max() and not calibrator.formula_.keeps_arg_max:
        name = type(calibrator).__name__
        raise ValueError(f"a {name} with these parameters keeps the arg max, its formula does not")


def _check_attributes(calibrator: Calibrator) -> None:
    """Refuse a formula, or a report, off which the attributes of the method cannot be read."""
    cls = type(calibrator)
    scales = isinstance(unsmoothed(calibrator.formula_), ConstantTemperature)
    if scales and isinstance(calibrator, LogitCalibrator) and not calibrator._will_keep_arg_max():
        return  # a fit on rows of one class, which has no such attributes
    for name in dir(cls):
        if name.endswith("_") and isinstance(getattr(cls, name), property):
            value = getattr(calibrator, name)
            low = 0.0 if name == "temperature_" else -inf
            if isinstance(value, float) and not low < value < inf:
                raise ValueError(f"{name} must be a finite number above {low}, got {value}")
