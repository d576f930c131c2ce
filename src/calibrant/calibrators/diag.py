"""DIAG, the diagonal intra-order-preserving map (Rahimi et al. 2020)."""

from __future__ import annotations

import warnings
from collections.abc import Sequence
from typing import Any, Literal, Self

import numpy as np
from numpy.typing import NDArray

from calibrant._arrays import Array, InputKind, row_tiles
from calibrant._errors import CalibrationWarning
from calibrant._numerics import log_softmax, softmax
from calibrant._progress import reporter
from calibrant.calibrators import _network as network
from calibrant.calibrators._base import LogitCalibrator
from calibrant.calibrators._diag_fit import (
    Grid,
    GridLoss,
    NetworkLoss,
    fit_network,
    make_grid,
    make_start,
)
from calibrant.calibrators._lbfgs import Minimum, one_thread
from calibrant.calibrators._monotone import (
    ClenshawCurtisRule,
    CumulativeRule,
    IncreasingMap,
    Rule,
    by_authors_rule,
    growth,
    output_for,
)
from calibrant.calibrators._start import effective_rows, fitted_temperature
from calibrant.calibrators.temperature import TemperatureScaling

Floats = NDArray[np.float64]

TABLE_CELLS = 4096
SLACK = 1e-7  # by how much rounding may lift the loss above that of temperature scaling


class DiagonalOrderPreserving(LogitCalibrator):
    """softmax(m(z)), one increasing function m of a logit for all classes. Preserves accuracy.

    m(x) is the integral from 0 to x of g = ELU(network) + 1 + 1e-8, a small ReLU network of one
    input. The fit starts at temperature scaling, m(x) = x/T, minimises the NLL and never ends worse
    than it; where it finds nothing better it gives temperature scaling back and says so. Beyond the
    logits that it was fitted on, m goes on with the slope 1/T.

    The authors integrate anew for every logit, by a quadrature; here m is tabulated once, which is
    thousands of times faster and differs by the error of their rule (see the docs).

    Parameters
    ----------
    hidden
        Widths of the hidden layers.
    quadrature
        ``"grid"``, or ``"authors"`` for their Clenshaw-Curtis rule to the letter: slow, and
        order preserving only up to that rule's error.
    nodes
        The number of intervals of the authors' rule.
    penalty
        Times half the sum of squares of the kernels (for standardised logits), as a number of rows.
        0 is the published method, and overfits a little.
    starts, max_iterations
        Of L-BFGS: how many random starts make a short run, and how long the best one may go on.
    random_state
        A seed or a ``numpy.random.Generator``; None is the seed 0, so that a fit can be repeated.
    verbose
        Show progress on standard error where a fit takes more than a second.
    input
        What the scores are: ``"logits"`` or ``"probs"``.

    Attributes
    ----------
    weights_
        The integrand's network: W1 (1, h1), b1, .., W (h, 1), b.
    table_, range_
        m on an even grid from the smallest to the largest logit.
    temperature_
        Temperature scaling's.
    """

    accuracy_preserving = True
    _state = ("weights_", "table_", "range_", "temperature_")

    weights_: network.Weights
    table_: Floats
    range_: Floats
    temperature_: float

    def __init__(
        self,
        hidden: Sequence[int] = (10, 10),
        quadrature: Literal["grid", "authors"] = "grid",
        nodes: int = 50,
        penalty: float = 1.0,
        starts: int = 4,
        max_iterations: int = 1000,
        random_state: int | np.random.Generator | None = None,
        verbose: bool = False,
        input: InputKind = "logits",  # noqa: A002
    ) -> None:
        self.hidden = hidden
        self.quadrature = quadrature
        self.nodes = nodes
        self.penalty = penalty
        self.starts = starts
        self.max_iterations = max_iterations
        self.random_state = random_state
        self.verbose = verbose
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
        """A fitted calibrator with the integrand of the published code, in its order and layout.

        weight (h1, 2), bias (h1,), .., weight (1, h), bias (1,). The second input is fixed to 0
        there, so its weights do not matter. ``span`` is the range of the grid's table.
        """
        arrays = _own_layout([np.asarray(part, np.float64) for part in weights])
        hidden = tuple(len(bias) for bias in arrays[1:-2:2])
        diag = cls(hidden=hidden, quadrature=quadrature, **parameters)
        diag._check_parameters()
        diag.weights_ = arrays
        rise = _tabulate(arrays, Grid(*span, TABLE_CELLS))
        diag._set_table(rise, span, temperature=(span[1] - span[0]) / float(rise[-1] - rise[0]))
        diag.n_classes_ = 0  # any number
        diag.fit_info_ = {"converged": True, "message": "given weights"}
        return diag

    # --- fitting ---

    def _fit_logits(self, logits: Floats, labels: NDArray[np.int64], weight: Floats) -> None:
        self._check_parameters()
        present = weight > 0.0
        if not present.all():
            logits, labels, weight = logits[present], labels[present], weight[present]
        start = fitted_temperature(logits, labels, weight, "DIAG")
        share = weight / weight.sum()
        self._set_temperature_scaling(start.temperature_)
        before = self._mean_nll(logits, labels, share)
        if not start.fit_info_["converged"]:
            return self._tell(start, before, before, None, start.fit_info_["message"])
        grid = make_grid(logits, labels, start.temperature_)
        if grid is None:
            return self._tell(start, before, before, None, "the logits span too wide a range")
        minimum = self._fit_network(logits, labels, weight, grid)
        after = self._mean_nll(logits, labels, share)
        if after <= before + SLACK:  # False for NaN
            return self._tell(start, before, after, minimum, minimum.message)
        self._set_temperature_scaling(start.temperature_)
        return self._tell(start, before, before, None, "found nothing better")

    def _fit_network(
        self, logits: Floats, labels: NDArray[np.int64], weight: Floats, grid: Grid
    ) -> Minimum:
        start = make_start(logits, labels, self.temperature_)
        objective = NetworkLoss(
            GridLoss(logits, labels, weight, grid, self.temperature_),
            self._rule(grid),
            self.hidden,
            self.penalty / effective_rows(weight),
            start.centre,
            start.spread,
        )
        with one_thread(), reporter(f"fitting {type(self).__name__}", self.verbose) as report:
            self.weights_, minimum = fit_network(
                objective,
                start,
                starts=self.starts,
                iterations=self.max_iterations,
                rng=np.random.default_rng(0 if self.random_state is None else self.random_state),
                report=report,
            )
        span = (grid.low, grid.high)
        table = _tabulate(self.weights_, Grid(*span, TABLE_CELLS))
        self._set_table(table, span, self.temperature_)
        return minimum

    def _rule(self, grid: Grid) -> Rule:
        if self.quadrature == "authors":
            return ClenshawCurtisRule(grid.nodes, self.nodes)
        return CumulativeRule(grid.nodes)

    def _set_temperature_scaling(self, temperature: float) -> None:
        """m(x) = x/T, as a network without slopes and as a table."""
        sizes = network.layer_sizes(1, self.hidden)
        self.weights_ = [np.zeros(shape) for i, o in sizes for shape in ((i, o), (o,))]
        self.weights_[-1][:] = output_for(1.0 / temperature)
        span = (-1.0, 1.0)  # the slope beyond is the same
        self._set_table(np.asarray(span) / temperature, span, temperature)

    def _set_table(self, table: Floats, span: tuple[float, float], temperature: float) -> None:
        """Keep m, shifted to m(0) = 0."""
        self.temperature_ = float(temperature)
        self.range_ = np.asarray(span, np.float64)
        at_zero = IncreasingMap(*span, table, 1.0 / temperature).values(np.zeros((1, 1)))
        self.table_ = table - at_zero[0, 0]

    def _mean_nll(self, logits: Floats, labels: NDArray[np.int64], share: Floats) -> float:
        total = 0.0
        for tile in row_tiles(logits):
            logs = self._log_probabilities(logits[tile])
            total -= float(share[tile] @ logs[np.arange(len(logs)), labels[tile]])
        return total

    def _tell(
        self,
        start: TemperatureScaling,
        before: float,
        after: float,
        minimum: Minimum | None,
        message: str,
    ) -> None:
        fallback = minimum is None
        self.fit_info_ = {
            "converged": minimum is not None and minimum.converged,
            "message": f"{message}: temperature scaling is used" if fallback else message,
            "iterations": 0 if minimum is None else minimum.iterations,
            "loss": "nll",
            "loss_before": start.fit_info_["loss_before"],
            "loss_temperature_scaling": before,
            "loss_after": after,
            "fallback": fallback,
        }
        if start.fit_info_["converged"] and not self.fit_info_["converged"]:
            warnings.warn(f"DIAG: {self.fit_info_['message']}", CalibrationWarning, stacklevel=4)

    def _check_parameters(self) -> None:
        if self.quadrature not in ("grid", "authors"):
            raise ValueError(f"quadrature must be 'grid' or 'authors', got {self.quadrature!r}")
        if any(width < 1 for width in self.hidden) or not len(self.hidden):
            raise ValueError(f"hidden must be one or more widths >= 1, got {self.hidden}")
        if not 0.0 <= self.penalty < np.inf:
            raise ValueError(f"penalty must be at least 0, got {self.penalty!r}")
        if self.nodes < 2:
            raise ValueError(f"nodes must be at least 2, got {self.nodes}")
        for name in ("starts", "max_iterations"):
            if getattr(self, name) < 1:
                raise ValueError(f"{name} must be at least 1, got {getattr(self, name)}")

    # --- predicting ---

    def transform(self, logits: Any) -> Array:
        """m(z), whose softmax is ``predict_proba``; m(0) = 0."""
        return self._map_rows(logits, self._transformed, columns=None)

    def _check_classes(self, classes: int) -> None:
        """m serves any number of classes."""

    def _transformed(self, logits: Array) -> Array:
        if self.quadrature == "authors":
            return by_authors_rule(self.weights_, self.nodes, logits)
        return self._map().values(logits)

    def _probabilities(self, logits: Array) -> Array:
        return softmax(self._order_preserved(logits))

    def _log_probabilities(self, logits: Array) -> Array:
        return log_softmax(self._order_preserved(logits))

    def _order_preserved(self, logits: Array) -> Array:
        if self.quadrature == "authors":
            return self._transformed(logits)
        return self._map().gaps(logits)

    def _map(self) -> IncreasingMap:
        low, high = (float(end) for end in self.range_)
        return IncreasingMap(low, high, self.table_, 1.0 / self.temperature_)


def _tabulate(weights: network.Weights, grid: Grid) -> Floats:
    """m at the nodes of a fine grid, up to a constant."""
    rule = CumulativeRule(grid.nodes)
    values, _ = growth(network.forward(weights, rule.points[:, None]))
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
