"""The risk-coverage curve: the error rate among the rows that the model is surest of."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from calibrant.common.documents import PlainDocument
from calibrant.common.tables import counted
from calibrant.common.types import Floats, InputKind, RowRule
from calibrant.metrics._labelled import labelled

_MOST_POINTS = 500


@dataclass(frozen=True, repr=False)
class RiskCoverage(PlainDocument):
    """How the error rate falls where the least confident rows are left to somebody else.

    Parameters
    ----------
    coverage : ndarray of shape (n_points,)
        The share of the rows that are answered, the surest first.
    risk : ndarray of shape (n_points,)
        The share of these whose prediction is wrong.
    confidence : ndarray of shape (n_points,)
        The least confidence of the rows that are answered.
    optimal : ndarray of shape (n_points,)
        The risk where every right prediction came before every wrong one.
    aurc : float
        The area under the curve: the mean risk over all coverages.
    excess_aurc : float
        That area less the optimal one.
    n_rows : int
        The number of rows.
    """

    coverage: Floats
    risk: Floats
    confidence: Floats
    optimal: Floats
    aurc: float
    excess_aurc: float
    n_rows: int

    def __repr__(self) -> str:
        areas = f"AURC {self.aurc:.4f}, {self.excess_aurc:.4f} above the optimum"
        return f"RiskCoverage of {counted(self.n_rows, 'row')}: {areas}"


def risk_coverage(
    probs: Any,
    labels: Any,
    *,
    sample_weight: Any = None,
    row_sums: RowRule = "strict",
    input: InputKind = "probs",  # noqa: A002 - the word of the whole public interface
    ignore_index: int | None = None,
) -> RiskCoverage:
    """Compute the error rate among the surest rows, for every share of them.

    Parameters
    ----------
    probs : array of shape (n_rows, n_classes) or (n_rows,)
        Probabilities, or logits with ``input="logits"``; 1-D for class 1 of two.
    labels : array of shape (n_rows,)
        The true classes as integers from 0, or one-hot rows.
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
    RiskCoverage
        The curve, at 500 coverages at most, and the area under the whole of it.

    Raises
    ------
    ValueError
        Where an argument is refused: the message names the rule, the value and the row.

    Notes
    -----
    Rows of equal confidence are answered together: no order among them is better than another.
    A map that keeps the order of the confidences, such as temperature scaling with two classes,
    leaves the curve as it is; a temperature per row may change it.

    References
    ----------
    Geifman and El-Yaniv, "Selective Classification for Deep Neural Networks", NeurIPS 2017.
    Geifman, Uziel and El-Yaniv, "Bias-Reduced Uncertainty Estimation for Deep Neural
    Classifiers", ICLR 2019.

    Examples
    --------
    >>> curve = risk_coverage([[0.9, 0.1], [0.8, 0.2], [0.6, 0.4]], [0, 0, 1])
    >>> curve.risk.round(2).tolist()
    [0.0, 0.0, 0.33]
    """
    data = labelled(probs, labels, sample_weight, row_sums, input, ignore_index)
    confidence, correct = data.top_label
    counts = data.weight > 0.0
    sure, group = np.unique(-confidence[counts], return_inverse=True)
    weight = np.bincount(group, data.weight[counts])
    wrong = np.bincount(group, data.weight[counts] * ~correct[counts])
    answered, errors = np.cumsum(weight), np.cumsum(wrong)
    coverage, risk = answered / answered[-1], errors / answered
    best = _optimal(coverage, risk[-1])
    area = float(weight @ risk / answered[-1])
    at = np.unique(np.linspace(0, len(sure) - 1, _MOST_POINTS).round().astype(np.intp))
    return RiskCoverage(
        coverage=coverage[at],
        risk=risk[at],
        confidence=-sure[at],
        optimal=best[at],
        aurc=area,
        excess_aurc=area - float(weight @ best / answered[-1]),
        n_rows=data.n_rows,
    )


def _optimal(coverage: Floats, risk: float) -> Floats:
    """No error until all right predictions are answered."""
    return np.maximum(coverage - (1.0 - risk), 0.0) / coverage
