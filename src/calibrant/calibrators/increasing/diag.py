"""DIAG, the diagonal intra-order-preserving map (Rahimi et al. 2020)."""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial
from typing import Any, Literal, Self

import numpy as np

from calibrant.calibrators import _network as network
from calibrant.calibrators._base import Fitted, LogitCalibrator
from calibrant.calibrators._best_temperature import scaling_start
from calibrant.calibrators._fit_info import FitInfo
from calibrant.calibrators._optimizers import Minimum
from calibrant.calibrators._parameters import Choice, Count, NonNegative, Widths, constraints
from calibrant.calibrators.increasing import _fit
from calibrant.common.arrays import TILE_ELEMENTS
from calibrant.common.progress import reporter
from calibrant.common.threads import one_blas_thread
from calibrant.common.types import Floats, InputKind, Progress, RandomState, generator
from calibrant.data.rows import Rows
from calibrant.data.weights import shares
from calibrant.formulas import FormulaRows, IncreasingTable, LogitMap, QuadratureMap
from calibrant.formulas._array_operations import NUMPY
from calibrant.formulas.increasing import MOST_NODES

TABLE_CELLS = 4096
NEAR = 4.0  # widths of a table: from 0 farther away its values would lose digits in float32
SLACK = 1e-7  # by how much rounding may lift the loss above that of temperature scaling


class DiagonalOrderPreserving(LogitCalibrator):
    """One increasing function m of all logits: softmax(m(z)). Preserves accuracy.

    The fit starts at temperature scaling, m(x) = x/T, minimises the NLL and never ends worse than
    it; where it finds nothing better it gives temperature scaling back and says so. Beyond the
    logits that it was fitted on, m goes on with the slope 1/T.

    The authors integrate anew for every logit, by a quadrature; here m is tabulated once, which is
    thousands of times faster and differs by the error of their rule (see docs/diag.md).

    Parameters
    ----------
    hidden : sequence of int, default (10, 10)
        Widths of the hidden layers.
    quadrature : {"grid", "authors"}, default "grid"
        How m is computed: from a table, or by the authors' Clenshaw-Curtis rule to the letter,
        which is slow and preserves the order only up to that rule's error.
    nodes : int, default 50
        The number of intervals of the authors' rule, from 2 to 511.
    penalty : float, default 1
        What multiplies half the sum of squares of the network's kernels (for standardised
        logits), beside the summed NLL of the rows. 0 is the published method, and overfits a
        little.
    starts : int, default 4
        How many random starts make a short run, of which the best one goes on.
    max_iter : int, default 1000
        The most iterations of L-BFGS for the best start.
    random_state : int, numpy.random.Generator or None, default None
        Where the networks start; None is the seed 0, so that a fit can be repeated.
    progress : bool or callable, default False
        True shows a bar on standard error where a fit takes more than a second; a callable is
        called as ``progress(done, total)``.
    input : {"logits", "probs"}, default "logits"
        What the scores are; probabilities are taken as log p minus its row mean.

    Attributes
    ----------
    formula_ : IncreasingTable or QuadratureMap
        m as a table on an even grid, or as the integrand's network with the authors' rule.
    temperature_ : float
        The temperature from which the fit started.

    Notes
    -----
    m(x) is the integral from 0 to x of g = ELU(network) + 1 + 1e-8, a small ReLU network of one
    input.

    References
    ----------
    Rahimi, Shaban, Cheng, Hartley and Boots, "Intra Order-preserving Functions for Calibration of
    Multi-Class Neural Networks", NeurIPS 2020.

    Examples
    --------
    >>> import calibrant
    >>> data = calibrant.datasets.load("fashion-mnist-lenet5")
    >>> diag = DiagonalOrderPreserving().fit(data.val_logits[:1000], data.val_labels[:1000])
    >>> diag.fit_info_.after < diag.fit_info_.before
    True
    """

    _gives = LogitMap
    _amplifies_rounding = True
    _constraints = constraints(
        quadrature=Choice("grid", "authors"),
        hidden=Widths(fewest=1),
        penalty=NonNegative(),
        nodes=Count(range=(2, MOST_NODES - 1)),
        starts=Count(),
        max_iter=Count(),
    )

    def __init__(
        self,
        hidden: Sequence[int] = (10, 10),
        quadrature: Literal["grid", "authors"] = "grid",
        nodes: int = 50,
        penalty: float = 1.0,
        starts: int = 4,
        max_iter: int = 1000,
        random_state: RandomState = None,
        progress: Progress = False,
        input: InputKind = "logits",  # noqa: A002
    ) -> None:
        self.hidden = hidden
        self.quadrature = quadrature
        self.nodes = nodes
        self.penalty = penalty
        self.starts = starts
        self.max_iter = max_iter
        self.random_state = random_state
        self.progress = progress
        self.input = input

    @classmethod
    def from_weights(
        cls,
        weights: Sequence[Any],
        *,
        span: tuple[float, float] = (-50.0, 50.0),
        quadrature: Literal["grid", "authors"] = "authors",
        **parameters: Any,
    ) -> Self:
        """Make a fitted calibrator from the network of the published code.

        Parameters
        ----------
        weights : sequence of arrays
            weight (h1, 2), bias (h1,), .., weight (1, h), bias (1,), as that code keeps them. The
            second input is fixed to 0 there, so its weights do not matter.
        span : tuple of two floats, default (-50, 50)
            The range of the grid's table.
        quadrature : {"grid", "authors"}, default "authors"
            How the integrals are computed.
        **parameters : dict
            Further parameters of the calibrator.

        Returns
        -------
        Calibrator
            The calibrator, for any number of classes.

        Raises
        ------
        ValueError
            Where the shapes are not these.
        """
        arrays = _own_layout([np.asarray(part, np.float64) for part in weights])
        hidden = tuple(len(bias) for bias in arrays[1:-2:2])
        diag = cls(hidden=hidden, quadrature=quadrature, **parameters)
        diag._check_parameters()
        rise = _tabulate(arrays, span)
        slope = float(rise[-1] - rise[0]) / (span[1] - span[0])
        info = FitInfo(True, "given weights", details={"start_temperature": 1.0 / slope})
        return diag._restored(diag._map(arrays, rise, span, slope), info, None)

    @property
    def temperature_(self) -> float:
        """The temperature from which the fit started."""
        return float(self.fit_info_.details["start_temperature"])

    def _will_keep_arg_max(self) -> bool:
        return self.quadrature == "grid"

    # --- fitting ---

    @one_blas_thread()
    def _fit_logits(self, data: Rows) -> Fitted:
        start = scaling_start(data)
        # m(x) = x/T, as a network without slopes or as a table; the slope beyond it is the same
        sizes, span = network.layer_sizes(1, self.hidden), (-1.0, 1.0)
        weights = [np.zeros(shape) for i, o in sizes for shape in ((i, o), (o,))]
        weights[-1][:] = _fit.output_for(1.0 / start.temperature)
        table = np.asarray(span) / start.temperature
        scaling = self._map(weights, table, span, 1.0 / start.temperature)
        before = _mean_nll(scaling, data)
        grid, reason = _fit.make_grid(data, start.temperature), ""
        if not start.converged:
            reason = start.message
        elif grid is None:
            reason = "the logits span too wide a range, or hardly any"
        else:
            formula, minimum = self._fit_network(data, grid, start.temperature)
            after = _mean_nll(formula, data)
            if not after <= before + SLACK:  # NaN among them
                reason = "found nothing better"
        details = {
            "start_temperature": start.temperature,
            "loss_temperature_scaling": before,
            "fallback": bool(reason),
        }
        report = partial(FitInfo, loss="nll", before=start.loss_before, details=details)
        if reason:
            message = f"{reason}: temperature scaling is used"
            return scaling, report(False, message, iterations=0, after=before)
        message = minimum.message
        if not minimum.converged:
            message += " before it converged: a larger max_iter or penalty helps"
        return formula, report(
            minimum.converged, message, iterations=minimum.iterations, after=after
        )

    def _fit_network(
        self, data: Rows, grid: _fit.Grid, temperature: float
    ) -> tuple[LogitMap, Minimum]:
        start = _fit.DiagStart(data, grid, temperature)
        rule: _fit.Rule = _fit.CumulativeRule(grid.nodes)
        if self.quadrature == "authors":
            rule = _fit.ClenshawCurtisRule(grid.nodes, self.nodes)
        objective = _fit.NetworkLoss(
            _fit.GridLoss(data, grid, temperature),
            rule,
            self.hidden,
            self.penalty / data.effective_rows,
            start.centre,
            start.spread,
        )
        with reporter(f"fitting {type(self).__name__}", self.progress) as report:
            weights, minimum = _fit.fit_network(
                objective,
                start,
                starts=self.starts,
                max_iter=self.max_iter,
                rng=generator(self.random_state),
                report=report,
            )
        span = (grid.low, grid.high)
        table = _tabulate(weights, span)
        return self._map(weights, table, span, 1.0 / temperature), minimum

    def _map(
        self, weights: network.Weights, table: Floats, span: tuple[float, float], slope: float
    ) -> LogitMap:
        """m by the authors' rule, or as a table with m(0) = 0; far from there with m(high) = 0."""
        if self.quadrature == "authors":
            rule, cosines = _fit.clenshaw_curtis(self.nodes)
            nodes = np.clip(0.5 * (1.0 + cosines), 0.0, 1.0)
            kernels, biases = tuple(weights[::2]), tuple(weights[1::2])
            return QuadratureMap(kernels, biases, nodes, rule, _fit.SMALLEST_GROWTH)
        table = np.maximum.accumulate(np.where(np.isfinite(table), table, 0.0))
        raw = IncreasingTable(*span, table, slope)
        low, high = span
        near = max(abs(low), abs(high)) <= NEAR * (high - low)
        at_zero = raw.scores(FormulaRows(np.full((1, 1), 0.0 if near else high)), NUMPY)
        return IncreasingTable(low, high, table - at_zero[0, 0], slope)


def _mean_nll(formula: LogitMap, data: Rows) -> float:
    total, share = 0.0, shares(data.weight)
    for where, tile in data.tiles(TILE_ELEMENTS):
        with np.errstate(over="ignore"):
            logs = formula.log_probabilities(FormulaRows(tile.logits), NUMPY)
        total -= float(share[where] @ logs[np.arange(len(logs)), tile.labels])
    return total


def _tabulate(weights: network.Weights, span: tuple[float, float]) -> Floats:
    """m at the nodes of a fine grid, up to a constant."""
    rule = _fit.CumulativeRule(_fit.Grid(*span, TABLE_CELLS).nodes)
    values, _ = _fit.growth(network.forward(weights, rule.points[:, None]))
    return rule.integrate(values)


def _own_layout(arrays: list[Floats]) -> network.Weights:
    """From the authors' (out, in) matrices with two inputs to (in, out) with one."""
    shapes = [array.shape for array in arrays]
    rule = "weights must be weight (h1, 2), bias (h1,), .., weight (1, h), bias (1,)"
    inputs = 2
    if len(arrays) < 4 or len(arrays) % 2:
        raise ValueError(f"{rule}, got {len(arrays)} arrays")
    for kernel, bias in zip(arrays[::2], arrays[1::2], strict=True):
        if kernel.ndim != 2 or kernel.shape[1] != inputs or bias.shape != (kernel.shape[0],):
            raise ValueError(f"{rule}, got shapes {shapes}")
        inputs = kernel.shape[0]
    if inputs != 1:
        raise ValueError(f"{rule}, got shapes {shapes}")
    first = arrays[0][:, :1]
    return [part.T.copy() for part in (first, *arrays[1:])]
