"""Calibration of every class' probability, not only of the largest."""

from __future__ import annotations

from typing import Any

from calibrant.common.types import Floats, InputKind, RowRule
from calibrant.data.binning import Norm, calibration_error
from calibrant.metrics._labelled import labelled
from calibrant.metrics._readings import DEFAULT_BINS, bins_of


def classwise_ece(
    probs: Any,
    labels: Any,
    n_bins: int = DEFAULT_BINS,
    norm: Norm = 1,
    *,
    sample_weight: Any = None,
    row_sums: RowRule = "strict",
    input: InputKind = "probs",  # noqa: A002 - the word of the whole public interface
    ignore_index: int | None = None,
) -> float:
    """Compute the mean over all classes of each class' calibration error.

    Parameters
    ----------
    probs : array of shape (n_rows, n_classes) or (n_rows,)
        Probabilities, or logits with ``input="logits"``; 1-D for class 1 of two.
    labels : array of shape (n_rows,)
        The true classes as integers from 0, or one-hot rows.
    n_bins : int, default 15
        The number of bins.
    norm : {1, 2, "max"}, default 1
        The mean gap of the bins, its root mean square, or the largest gap.
    sample_weight : array of shape (n_rows,), optional
        The weight of each row; all 1 by default.
    row_sums : {"strict", "normalize", "raw"}, default "strict"
        Rows that do not sum to 1 are refused, divided by their sum, or taken as they are.
    input : {"probs", "logits"}, default "probs"
        What the scores are.
    ignore_index : int, optional
        Rows with this label are left out.

    Returns
    -------
    float
        The mean error, as a fraction.

    Raises
    ------
    ValueError
        Where an argument is refused: the message names the rule, the value and the row.

    Notes
    -----
    A class without a label counts like any other: its probability should be small, and the error
    says how far it is not. Kull et al. sum over the classes instead: that is n_classes times this.

    References
    ----------
    Kull et al., "Beyond temperature scaling: Obtaining well-calibrated multiclass probabilities
    with Dirichlet calibration", NeurIPS 2019.

    Examples
    --------
    >>> round(classwise_ece([[0.8, 0.2], [0.8, 0.2]], [0, 1]), 3)
    0.3
    """
    data = labelled(probs, labels, sample_weight, row_sums, input, ignore_index)
    return float(calibration_error(bins_of("classes", data, n_bins), norm).mean())


def classwise_ece_per_class(
    probs: Any,
    labels: Any,
    n_bins: int = DEFAULT_BINS,
    norm: Norm = 1,
    *,
    sample_weight: Any = None,
    row_sums: RowRule = "strict",
    input: InputKind = "probs",  # noqa: A002 - the word of the whole public interface
    ignore_index: int | None = None,
) -> Floats:
    """Compute the calibration error of each class' probability against "is it this class".

    Parameters
    ----------
    probs : array of shape (n_rows, n_classes) or (n_rows,)
        Probabilities, or logits with ``input="logits"``; 1-D for class 1 of two.
    labels : array of shape (n_rows,)
        The true classes as integers from 0, or one-hot rows.
    n_bins : int, default 15
        The number of bins.
    norm : {1, 2, "max"}, default 1
        The mean gap of the bins, its root mean square, or the largest gap.
    sample_weight : array of shape (n_rows,), optional
        The weight of each row; all 1 by default.
    row_sums : {"strict", "normalize", "raw"}, default "strict"
        Rows that do not sum to 1 are refused, divided by their sum, or taken as they are.
    input : {"probs", "logits"}, default "probs"
        What the scores are.
    ignore_index : int, optional
        Rows with this label are left out.

    Returns
    -------
    ndarray of shape (n_classes,)
        The error per class, as a fraction.

    Raises
    ------
    ValueError
        Where an argument is refused: the message names the rule, the value and the row.

    Examples
    --------
    >>> classwise_ece_per_class([[0.8, 0.2], [0.8, 0.2]], [0, 0]).round(3)
    array([0.2, 0.2])
    """
    data = labelled(probs, labels, sample_weight, row_sums, input, ignore_index)
    return calibration_error(bins_of("classes", data, n_bins), norm)
