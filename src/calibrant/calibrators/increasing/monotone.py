"""One smooth increasing function of all logits."""

from __future__ import annotations

from calibrant.calibrators._base import Fitted, LogitCalibrator
from calibrant.calibrators._best_temperature import scaling_start
from calibrant.calibrators._choosing import row_nll, sample_of_logits
from calibrant.calibrators._fit_info import FitInfo
from calibrant.calibrators._parameters import Count, constraints
from calibrant.calibrators.increasing._smooth import DEFAULT_KNOTS, fit_smooth_map
from calibrant.common.threads import one_blas_thread
from calibrant.common.types import InputKind
from calibrant.data.rows import Rows
from calibrant.data.weights import weighted_mean
from calibrant.formulas import ConstantTemperature, LogitMap


class MonotoneScaling(LogitCalibrator):
    """One smooth increasing function m of all logits: softmax(m(z)). Preserves accuracy.

    The logarithm of m's slope is linear between a few knots. A penalty pulls m towards temperature
    scaling, and leave-one-out losses choose its strength. Where no strength is better than
    temperature scaling, that is the result. It needs few rows.

    Parameters
    ----------
    knots : int, default 16
        The number of points between which the logarithm of m's slope is linear.
    input : {"logits", "probs"}, default "logits"
        What the scores are; probabilities are taken as log p minus its row mean.

    Attributes
    ----------
    formula_ : IncreasingTable or ConstantTemperature
        m as a table, or temperature scaling.
    fit_info_ : FitInfo
        How the fit went; ``details`` holds the choice and the path of penalties with their
        leave-one-out losses.

    See Also
    --------
    DiagonalOrderPreserving : The same idea with a network and a fixed penalty, as published.
    MonotonePTS : This map, then a temperature for each row.

    Notes
    -----
    m'(x) = exp(s(x)), s piecewise linear and constant beyond the outer knots. The mean NLL plus the
    penalty is minimised by damped Newton steps. With more than 20,000 rows a sample of them chooses
    the penalty, and at most 100,000 rows fit the map.

    References
    ----------
    Rahimi, Shaban, Cheng, Hartley and Boots, "Intra Order-preserving Functions for Calibration of
    Multi-Class Neural Networks", NeurIPS 2020: increasing functions of all logits. The spline and
    its penalty are ours.

    Examples
    --------
    >>> import calibrant
    >>> data = calibrant.datasets.load("fashion-mnist-lenet5")
    >>> monotone = MonotoneScaling().fit(data.val_logits[:300], data.val_labels[:300])
    >>> monotone.fit_info_.after < monotone.fit_info_.before
    True
    """

    _keeps_arg_max = True
    _gives = LogitMap
    _amplifies_rounding = True
    _constraints = constraints(knots=Count())

    def __init__(
        self,
        knots: int = DEFAULT_KNOTS,
        input: InputKind = "logits",  # noqa: A002
    ) -> None:
        self.knots = knots
        self.input = input

    @one_blas_thread()
    def _fit_logits(self, data: Rows) -> Fitted:
        start = scaling_start(data, prior_rows="auto")
        found = fit_smooth_map(data, start, self.knots, sample_of_logits(data))
        if found.formula is None:
            formula: LogitMap = ConstantTemperature(start.temperature)
            after = start.loss
        else:
            formula = found.formula
            after = weighted_mean(row_nll(formula, data), data.weight)
        return formula, FitInfo(
            start.converged,
            start.message,
            loss="nll",
            before=start.loss_before,
            after=after,
            details=dict(found.details),
        )
