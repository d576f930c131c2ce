"""A row's confidence: its class, that class' probability, and nothing of the size of the row."""

from __future__ import annotations

from typing import NamedTuple

from calibrant.common.types import Array
from calibrant.formulas._base import Formula, FormulaRows, TemperatureFormula
from calibrant.formulas._operations import Ops
from calibrant.formulas.composition import Smoothed


class Confidence(NamedTuple):
    """What is predicted of each row, and how surely.

    Parameters
    ----------
    label : array of shape (..)
        The predicted class.
    probability : array of shape (..)
        Its calibrated probability.
    temperature : array of shape (..), or None
        What the logits were divided by; None for methods that are no such division.

    Examples
    --------
    >>> import calibrant
    >>> ts = calibrant.TS().fit([[4.0, 0.0], [3.0, 0.0], [5.0, 0.0]], [0, 0, 1])
    >>> ts.predict_confidence([[0.0, 9.0]]).label
    array([1])
    """

    label: Array
    probability: Array
    temperature: Array | None


def confidence_of(formula: Formula, rows: FormulaRows, ops: Ops, keeps_arg_max: bool) -> Confidence:
    """Compute the predicted class of each row and its probability.

    Parameters
    ----------
    formula : Formula
        Any formula.
    rows : FormulaRows
        The logits, and what else the formula needs.
    ops : Ops
        What computes: NumPy, an array namespace or PyTorch.
    keeps_arg_max : bool
        What the formula says of itself; the class is then read off the logits, so that none passes
        it where probabilities tie after rounding.

    Returns
    -------
    Confidence
        One class and probability per row, and its temperature where there is one.

    Examples
    --------
    >>> import numpy as np
    >>> from calibrant.formulas._array_operations import NUMPY
    >>> from calibrant.formulas import ConstantTemperature
    >>> label, probability, temperature = confidence_of(
    ...     ConstantTemperature(2.0), FormulaRows(np.array([[0.0, 2.0]])), NUMPY, True
    ... )
    >>> label, probability.round(3), temperature
    (array([1]), array([0.731]), array([2.]))
    """
    if isinstance(formula, Smoothed):
        return confidence_of(formula.formula, formula.read(rows, ops), ops, keeps_arg_max)
    if not isinstance(formula, TemperatureFormula):
        probs = formula.probabilities(rows, ops)
        label = ops.arg_max(rows.logits if keeps_arg_max else probs)
        return Confidence(ops.drop(label), ops.drop(ops.take(probs, label)), None)
    read = formula.read(rows, ops)
    temperature = formula.temperature(read, ops)
    gaps = ops.gaps(read.logits, temperature)
    label = ops.arg_max(rows.logits if keeps_arg_max else gaps)
    probability = ops.exp(ops.take(gaps, label)) / ops.sum(ops.exp(gaps))
    each = ops.full_like(probability, 1.0) * temperature
    return Confidence(ops.drop(label), ops.drop(probability), ops.drop(each))
