"""User arrays are checked here, once: all other code may trust what it gets.

Structure (rank, size, kind of number) is checked without touching the values, so that a
memory-mapped file stays on the disk; values are checked a block of rows at a time (a tile), where
they are used, by ``check_peaks``: a NaN or +inf anywhere in a row shows in that row's maximum.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import Any, get_args

import numpy as np
from array_api_compat import array_namespace, is_numpy_array
from numpy.typing import NDArray

from calibrant.common import arrays
from calibrant.common.arrays import as_working_float, row_sums, to_numpy
from calibrant.common.types import Array, InputKind, Labels, RowRule

SMALLEST_WEIGHT, LARGEST_WEIGHT = 1e-50, 1e50  # fourth powers and their sums stay ordinary
_KINDS = get_args(InputKind)
ROUNDING = 1e-4  # how far above 1 a probability may be: sums of float32 end there
ROUNDED = 0.11  # how far rounding to one or two digits may take the sum of a row from 1
_SAY_LOGITS = '. If they are logits, say input="logits"'
SUM_TOLERANCE = 1e-3  # how far a row of probabilities may be from 1: float16 loses that much


def as_scores(
    scores: Any, name: str = "logits", n_classes: int | None = None, *, may_be_empty: bool = False
) -> Array:
    """A real (rows, classes) array with two classes at least; values not looked at.

    A 1-D array is that of a binary model: a score s means the logits (0, s), and a probability p
    of class 1 means the probabilities (1 - p, p). Where more classes are expected (``n_classes``)
    it is refused. Without rows there must be leave.
    """
    if name not in _KINDS:
        raise ValueError(f'input must be "logits" or "probs", got {name!r}')
    array = scores
    if not (type(scores) is np.ndarray and scores.dtype.kind in "fiu"):  # else nothing to find out
        array = _as_array(scores, name)
    if array.ndim == 1 and n_classes not in (None, 2):
        raise ValueError(
            f"{name} must have shape (rows, {n_classes}), got the 1-D shape {tuple(array.shape)}: "
            f"one row alone is {name}.reshape(1, -1)"
        )
    if array.ndim == 1:
        array = array if name == "logits" else as_working_float(array)
        xp = array_namespace(array)
        other = xp.zeros_like(array) if name == "logits" else 1.0 - array
        if name == "probs":  # 1.00001 is a rounded 1
            other = xp.where((other < 0.0) & (other >= -ROUNDING), xp.zeros_like(other), other)
        array = xp.stack([other, array], axis=1)
    shape = tuple(array.shape)
    if array.ndim != 2:
        message = f"{name} must have shape (rows, classes), got shape {shape}"
        if array.ndim > 2:  # scores of pixels or tokens: the exact way to put it right
            message += (
                f". Where the classes are the last axis, give {name}.reshape(-1, {shape[-1]}) and "
                f"labels.reshape(-1); where they are axis 1, give np.moveaxis({name}, 1, -1)"
                f".reshape(-1, {shape[1]}) and labels.reshape(-1)"
            )
        raise ValueError(message)
    if shape[0] == 0 and not may_be_empty:
        raise ValueError(f"{name} must have at least one row, got shape {shape}")
    if shape[1] < 2:
        raise ValueError(f"{name} must have at least two classes, got shape {shape}")
    return array


def class_axis_of(
    shape: Sequence[Any], n_classes: int | None, class_axis: int | None = None
) -> int:
    """Which axis of an array of any rank holds the classes, counted from the end.

    It is the last one unless said otherwise. Sizes may be unknown (anything but integers). What
    cannot be right is refused, and so is what could as well be meant otherwise: images whose last
    axis and axis 1 both look like the classes.
    """
    rank = len(shape)
    if class_axis is None and rank in (1, 2, 3) and n_classes in (None, shape[-1]):
        return -1
    axis = -1 if class_axis is None else class_axis
    if not -rank <= axis < rank:
        raise ValueError(
            f"class_axis must be an axis of scores of shape {tuple(shape)}, got {axis}"
        )
    axis = axis - rank if axis >= 0 else axis
    size = shape[axis]
    known = isinstance(size, int)
    remedy = "where the classes are axis 1, say class_axis=1"
    if known and n_classes not in (None, size):
        hint = f": {remedy}" if rank > 2 and shape[1] == n_classes else ""
        raise ValueError(
            f"fitted with {n_classes} classes, got {size} along axis {axis} of scores of shape "
            f"{tuple(shape)}{hint}"
        )
    if class_axis is None and rank > (3 if known else 2) and shape[1] == n_classes:
        raise ValueError(
            f"both the last axis and axis 1 of scores of shape {tuple(shape)} may be the "
            f"{n_classes} classes: {remedy}; where they are the last one, class_axis=-1"
        )
    return axis


def _as_array(values: Any, name: str) -> Array:
    refuse_masked(values, name)
    try:
        array_namespace(values)
    except TypeError:  # a list, a data frame, ...
        try:
            values = _from_other(values, name)
        except ValueError as error:
            raise ValueError(f"{name} must be a rectangular array: {error}") from None
    if isinstance(values, np.ndarray):
        values = np.asarray(values)  # no numpy.matrix, whose rows never lose a dimension
    if is_numpy_array(values) and not (
        values.dtype.kind in "fiu" or values.dtype.name == "bfloat16"
    ):
        raise TypeError(f"{name} must be an array of numbers, got dtype {values.dtype}")
    if any(kind in str(values.dtype) for kind in ("complex", "bool")):
        raise TypeError(f"{name} must be real numbers, got dtype {values.dtype}")
    return values


def _from_other(values: Any, name: str) -> NDArray[Any]:
    """What is no array as NumPy; columns of numbers that may be missing are still numbers."""
    array = np.asarray(values)
    if array.dtype != object or not hasattr(values, "dtypes"):
        return array
    kinds = {getattr(dtype, "kind", "O") for dtype in np.atleast_1d(np.asarray(values.dtypes))}
    if not kinds <= set("fiu"):
        return array
    try:
        return np.asarray(values, np.float64)
    except (TypeError, ValueError):
        raise TypeError(f"{name} must not have missing values (NA): leave such rows out") from None


def refuse_masked(values: Any, name: str) -> None:
    """Refuse a ``numpy.ma`` array with masked entries: what lies under a mask is no value."""
    if np.ma.is_masked(values):
        raise TypeError(
            f"{name} must not have masked entries (numpy.ma): leave such rows out, or give "
            f"{name}.filled(value); a class that cannot be chosen has the logit -inf"
        )


# --- values -----------------------------------------------------------------------------------


@np.errstate(invalid="ignore", over="ignore")
def check_logits(tile: Array, first_row: int = 0) -> None:
    """Refuse NaN, +inf and rows without a finite value.

    Where the sum of all is finite, so is each, which is quickly seen.
    """
    if isinstance(tile, np.ndarray):
        sums = tile if len(tile) <= arrays.FEW_ROWS else row_sums(tile)
        if math.isfinite(np.add.reduce(sums, axis=None)):
            return
    check_peaks(tile, arrays.row_max(tile), first_row)


def check_peaks(tile: Array, peaks: Array, first_row: int = 0, name: str = "logits") -> None:
    """Refuse NaN, +inf and rows without a finite value, by their rows' maxima."""
    finite = to_numpy(array_namespace(peaks).isfinite(peaks))
    if bool(finite.all()):
        return
    row = int(np.flatnonzero(~finite)[0])
    values = to_numpy(tile[row]).astype(np.float64)
    where = first_row + row
    bad = np.flatnonzero(np.isnan(values) | (values == np.inf))
    if bad.size == 0:
        raise ValueError(f"{name} must have a finite value in every row, row {where} is all -inf")
    value = values[bad[0]]
    raise ValueError(f"{name} must be finite or -inf, got {value} at row {where}, class {bad[0]}")


def check_label_logits(
    label_logits: NDArray[Any],
    labels: NDArray[np.int64],
    first_row: int = 0,
    kind: InputKind = "logits",
) -> None:
    """Refuse a label on a masked class, given the logit of each row's label."""
    masked = np.flatnonzero(np.isneginf(label_logits))
    if masked.size == 0:
        return
    row = int(masked[0])
    who = f"row {first_row + row} has label {labels[row]}"
    if kind == "probs":
        raise ValueError(
            f"a profile needs a probability above 0 for the true class: {who}, whose probability "
            "is 0. Fit on the probabilities themselves, which serves exact zeros, or mix in the "
            "uniform distribution: 0.99 * probs + 0.01 / classes"
        )
    raise ValueError(f"a label must not lie on a masked class: {who}, whose logit is -inf")


def check_probabilities(
    probs: Array, name: str = "probs", rows: RowRule = "strict", first_row: int = 0
) -> None:
    """Refuse values outside [0, 1] and, where rows="strict", rows that do not sum to 1."""
    if rows not in get_args(RowRule):
        raise ValueError(f'rows must be "strict", "normalize" or "raw", got {rows!r}')
    for place in arrays.row_tiles(probs, arrays.DEVICE_TILE_ELEMENTS):
        tile, first = probs[place], first_row + place.start
        inside = (tile >= -1e-6) & (tile <= 1.0 + ROUNDING)  # False for NaN
        if not bool(array_namespace(tile).all(inside)):
            row, column = np.argwhere(~to_numpy(inside))[0]
            values = to_numpy(tile).astype(np.float64)
            hint = _SAY_LOGITS if np.isfinite(values).all() else ""
            if values.min() >= 0.0 and (np.abs(values.sum(axis=1) - 100.0) < 100.0 * ROUNDED).all():
                hint = ". They look like percentages: divide them by 100"
            raise ValueError(
                f"{name} must be probabilities in [0, 1], got {values[row, column]:.6g} "
                f"at row {first + row}, class {column}{hint}"
            )
        if rows != "strict":
            continue
        sums = to_numpy(row_sums(as_working_float(tile)))
        off = np.abs(sums - 1.0) > SUM_TOLERANCE
        if off.any():
            row = int(np.flatnonzero(off)[0])
            rounded = bool((np.abs(sums - 1.0) < ROUNDED).all())
            hint = ". If the values were rounded, divide every row by its sum"
            raise ValueError(
                f"{name} must sum to 1 in every row, row {first + row} sums to "
                f"{sums[row]:.6g}{hint if rounded else _SAY_LOGITS}"
            )


def normalize_rows(probs: Array, name: str = "probs", first_row: int = 0) -> Array:
    """Non-negative rows divided by their sums."""
    sums = row_sums(probs)
    empty = np.flatnonzero(to_numpy(sums) <= 0.0)
    if empty.size:
        row = first_row + empty[0]
        raise ValueError(f"{name} must have a positive value in every row, row {row} has none")
    return probs / sums[:, None]


# --- labels and weights -----------------------------------------------------------------------


def ignored_as_class_0(
    labels: Any, rows: int, ignore_index: int | None
) -> tuple[Any, NDArray[np.bool_] | None]:
    """Valid labels for the rows to ignore, and which rows count; None where all do.

    The rows keep their places, so that errors about the others give their numbers.
    """
    if ignore_index is None:
        return labels, None
    target = _label_array(labels)
    if target.shape != (rows,):
        return labels, None  # refused where labels are checked
    counts = target != ignore_index
    return (labels, None) if counts.all() else (np.where(counts, target, 0), counts)


def as_numpy(values: Any, name: str = "labels") -> NDArray[Any]:
    """Any array, list or column in main memory as NumPy."""
    if hasattr(values, "dtypes"):
        return _from_other(values, name)
    return to_numpy(values) if hasattr(values, "shape") else np.asarray(values)


def _label_array(labels: Any) -> NDArray[Any]:
    """Labels of any shape in main memory; a single column as a 1-D array."""
    array = labels
    if type(labels) is not np.ndarray:
        refuse_masked(labels, "labels")
        array = as_numpy(labels)
    if array.dtype.kind not in "fiub":
        raise TypeError(
            f"labels must be class indices (integers), got dtype {array.dtype}. From names of "
            "classes: classes, labels = np.unique(names, return_inverse=True), where the order of "
            "classes must be that of the scores' columns"
        )
    return array[:, 0] if array.ndim == 2 and array.shape[1] == 1 else array


def as_labels(labels: Any, rows: int, classes: int, names: tuple[str, ...] | None = None) -> Labels:
    """Class indices (rows,) in main memory; one-hot rows of the right width are accepted.

    With names of the classes, in the order of the columns, labels may be names.
    """
    if names is not None:
        labels = as_numpy(labels)
        if labels.dtype.kind in "OUT":
            numbers = {name: number for number, name in enumerate(names)}
            unknown = [row for row, name in enumerate(labels) if name not in numbers]
            if unknown:
                known = ", ".join(map(repr, names[:10])) + (", .." if len(names) > 10 else "")
                raise ValueError(
                    f"labels must be names of classes ({known}), got "
                    f"{str(labels[unknown[0]])!r} at row {unknown[0]}"
                )
            labels = np.array([numbers[name] for name in labels], np.int64)
    array = _label_array(labels)
    if array.ndim == 2:
        array = _from_one_hot(array, classes)
    if array.ndim != 1:
        raise ValueError(f"labels must have shape (rows,), got shape {array.shape}")
    if len(array) != rows:
        hint = _BINARY_HINT if classes == 2 and len(array) == 1 else ""
        if rows < classes == len(array):
            hint = f". Scores of shape {rows, classes} may have rows for columns: give scores.T"
        raise ValueError(
            f"labels and scores must have the same rows, got {len(array)} and {rows}{hint}"
        )
    if array.dtype.kind == "f" and (fractional := array != np.floor(array)).any():
        hint = ". Leave rows without a label out" if np.isnan(array).any() else ""
        _refuse_first(fractional, array, "labels must be whole numbers", hint)
    outside = (array < 0) | (array >= classes)
    if outside.any():
        rule = f"labels must lie in 0..{classes - 1}"
        _refuse_first(outside, array, rule, _label_hint(array, classes))
    return array.astype(np.int64)


_BINARY_HINT = (
    ". A 1-D array of scores is that of a binary model, one score per row; one row alone is "
    "scores.reshape(1, -1)"
)


def _label_hint(array: NDArray[Any], classes: int) -> str:
    """What labels outside the classes probably are, and what to do about it."""
    if array.min() == -100:
        return ". -100 marks rows to be left out: say ignore_index=-100"
    if array.min() == -1 and set(np.unique(array)) == {-1, 1}:
        return ". For the labels -1 and 1 of two classes give (labels + 1) // 2"
    if array.min() >= 1 and array.max() == classes:
        return ". If they are 1, 2, .., subtract 1 from each (labels - 1)"
    return _BINARY_HINT if classes == 2 else ""


def _from_one_hot(array: NDArray[Any], classes: int) -> NDArray[np.int64]:
    few = array[: arrays.FEW_ROWS]
    soft = array.shape[1] == classes and bool(((few >= 0) & (few <= 1)).all())
    if not soft and not np.isin(few, (0, 1)).all():
        raise ValueError(
            f"labels must be one class index per row, got numbers of shape {array.shape}. Were "
            "scores and labels swapped?"
        )
    if array.shape[1] != classes:
        raise ValueError(
            f"one-hot labels must have as many columns as the scores have classes ({classes}), "
            f"got {array.shape[1]}"
        )
    one_hot = ((array == 0) | (array == 1)).all(axis=1) & (array.sum(axis=1) == 1)
    if not one_hot.all():
        row = int(np.flatnonzero(~one_hot)[0])
        raise ValueError(f"one-hot labels must have exactly one 1 in every row, row {row} has not")
    return np.asarray(array.argmax(axis=1), np.int64)


def as_weights(sample_weight: Any, rows: int) -> NDArray[np.float64]:
    """Non-negative finite weights (rows,); ones for None."""
    if sample_weight is None:
        return np.ones(rows)
    refuse_masked(sample_weight, "sample_weight")
    array = as_numpy(sample_weight, "sample_weight")
    if array.dtype.kind not in "fiub":
        raise TypeError(f"sample_weight must be numbers, got dtype {array.dtype}")
    if array.shape != (rows,):
        raise ValueError(f"sample_weight must have shape ({rows},), got shape {array.shape}")
    array = array.astype(np.float64)
    bad = ~(np.isfinite(array) & (array >= 0.0))
    _refuse_first(bad, array, "sample_weight must be finite and at least 0")
    if rows and not array.any():
        raise ValueError("sample_weight must not be zero everywhere")
    extreme = (array > 0.0) & ~((array >= SMALLEST_WEIGHT) & (array <= LARGEST_WEIGHT))
    span = f"[{SMALLEST_WEIGHT:g}, {LARGEST_WEIGHT:g}]"
    if extreme.any():
        hint = (
            f". Divide them all by the largest, {array.max():g}: of such weights only the ratios "
            "matter. What is then still too small may as well be 0"
        )
        _refuse_first(extreme, array, f"sample_weight must be 0 or in {span}", hint)
    return array


def as_column(values: Any, name: str, rows: int) -> NDArray[Any]:
    """One value of any type per row, in main memory."""
    array = as_numpy(values, name)
    if array.shape != (rows,):
        raise ValueError(f"{name} must have shape ({rows},), got shape {array.shape}")
    return array


def as_covariates(values: Any, rows: int) -> dict[str, NDArray[Any]] | None:
    """Columns by name, from a dict, a data frame, or an array whose columns are x0, x1, .."""
    if values is None:
        return None
    if not isinstance(values, Mapping):
        if hasattr(values, "columns"):
            values = {name: values[name] for name in values.columns}
        else:
            array = as_numpy(values, "covariates")
            if array.ndim not in (1, 2):
                raise ValueError(
                    f"covariates must have shape ({rows}, columns), got shape {array.shape}"
                )
            matrix = array[:, None] if array.ndim == 1 else array
            values = {f"x{number}": column for number, column in enumerate(matrix.T)}
    return {
        str(name): as_column(column, f"covariate {name}", rows)
        for name, column in values.items()
        if column is not None
    }


def covariate_matrix(
    covariates: Mapping[str, NDArray[Any]] | None, names: tuple[str, ...], first_row: int = 0
) -> NDArray[np.float64]:
    """The columns that a formula reads, as finite numbers (rows, columns)."""
    missing = [name for name in names if covariates is None or name not in covariates]
    if covariates is None or missing:
        given = ", ".join(covariates) if covariates else "none"
        raise ValueError(
            f"the calibrator reads the covariates {', '.join(names)}: without {', '.join(missing)} "
            f"it cannot predict, got {given}. Give them as covariates=, by the names of the fit"
        )
    for name in names:
        if covariates[name].dtype.kind not in "fiub":
            raise TypeError(f"covariate {name} must be numbers, got dtype {covariates[name].dtype}")
        bad = ~np.isfinite(covariates[name].astype(np.float64))
        if bad.any():
            row = int(np.flatnonzero(bad)[0])
            raise ValueError(
                f"covariate {name} must be finite, got {covariates[name][row]} at row "
                f"{first_row + row}"
            )
    return np.column_stack([covariates[name].astype(np.float64) for name in names])


def _refuse_first(bad: NDArray[np.bool_], values: NDArray[Any], rule: str, hint: str = "") -> None:
    if bad.any():
        row = int(np.flatnonzero(bad)[0])
        value = values[row]
        text = f"{value:.15g}" if values.dtype.kind == "f" else value  # labels of tables are floats
        raise ValueError(f"{rule}, got {text} at row {row}{hint}")
