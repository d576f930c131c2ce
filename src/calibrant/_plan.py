"""What a fitted calibrator computes, as plain numbers: all that the ways out read of one.

``calibrant.torch`` and ``calibrant.onnx`` turn a ``Plan`` into modules and graphs; nothing there
looks inside a calibrator. A method that can leave Python has a ``_formula`` here.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import singledispatch
from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray
from scipy.linalg import block_diag
from sklearn.utils.validation import check_is_fitted

from calibrant._arrays import InputKind
from calibrant.calibrators import Calibrator
from calibrant.calibrators._adaptive import AdaptiveTemperature
from calibrant.calibrators._affine_map import AffineCalibrator
from calibrant.calibrators._base import LogitCalibrator
from calibrant.calibrators._columns import TIE_BREAK
from calibrant.calibrators.bbq import BayesianBinning
from calibrant.calibrators.beta import BetaCalibration
from calibrant.calibrators.diag import DiagonalOrderPreserving
from calibrant.calibrators.dirichlet import DirichletCalibration
from calibrant.calibrators.ensemble import EnsembleTemperatureScaling
from calibrant.calibrators.histogram import HistogramBinning
from calibrant.calibrators.hts import EntropyTemperatureScaling
from calibrant.calibrators.irm import MultiClassIsotonic
from calibrant.calibrators.irova import IsotonicOneVsAll
from calibrant.calibrators.irova_ts import IsotonicOneVsAllTS
from calibrant.calibrators.matrix import MatrixScaling
from calibrant.calibrators.parameterized import INPUT_CLIP, ParameterizedTemperatureScaling
from calibrant.calibrators.pbmc import PlattBinner
from calibrant.calibrators.platt import PlattScaling
from calibrant.calibrators.smart import MarginTemperatureScaling
from calibrant.calibrators.spline import SplineCalibration
from calibrant.calibrators.structured import StructuredVectorScaling
from calibrant.calibrators.temperature import TemperatureScaling
from calibrant.calibrators.uncalibrated import Uncalibrated
from calibrant.calibrators.vector import VectorScaling

Floats = NDArray[np.float64]
Layer = tuple[Floats, Floats]  # kernel (inputs, outputs), bias (outputs,)


@dataclass(frozen=True)
class ConstantTemperature:
    """softmax(z / T)."""

    temperature: float


@dataclass(frozen=True)
class NetworkTemperature:
    """softmax(z / T), T being what a small network reads off the row."""

    reads: Literal["logits", "log-gaps", "margin", "entropy"]
    top: int  # how many of the largest logits it reads
    gap_unit: float  # of "log-gaps"
    low: Floats  # inputs are clipped to what the network was fitted on
    high: Floats
    layers: tuple[Layer, ...]  # all averaged networks as one, with one output each
    linear: bool
    base_temperature: float | None  # None: the published link clip(|r|)
    clip_logits: float | None


@dataclass(frozen=True)
class Mixture:
    """w1 softmax(z / T) + w2 softmax(z) + w3 uniform over the finite classes."""

    temperature: float
    weights: tuple[float, float, float]


@dataclass(frozen=True)
class AffineMap:
    """softmax(u W + b) or softmax(v * u + b) of features u of the logits."""

    slopes: Floats  # W (classes, classes) or v (classes,)
    intercept: Floats
    reads: Literal["logits", "log-probs", "smoothed"]
    temperature: float  # of "smoothed": u = log((1 - e) softmax(z / T) + e / C)
    smoothing: float


@dataclass(frozen=True)
class IncreasingLogits:
    """softmax(m(z)), m being linear between the even nodes of a table and beyond them."""

    low: float
    high: float
    table: Floats
    outer_slope: float


@dataclass(frozen=True)
class Table:
    """Functions of one number, one a column or one for all: (columns, places).

    A value's place is the count of edges below it (``inclusive``: or equal to it). It becomes
    ``value + slope * (x - anchor)`` at that place; without slopes the functions are steps.
    """

    edges: Floats  # one column fewer than places; the missing ones are at infinity
    value: Floats
    slope: Floats | None = None
    anchor: Floats | None = None

    @property
    def inclusive(self) -> bool:
        """Lines belong to their left end, as in ``numpy.interp``, bins to their right one."""
        return self.slope is not None


@dataclass(frozen=True)
class ColumnMap:
    """Every probability softmax(z / T)_c through its own table, computed in float64."""

    table: Table
    temperature: float = 1.0
    sigmoid: Floats | None = None  # (2, classes): slope, intercept on the log-odds, before it
    kept: NDArray[np.bool_] | None = None  # classes whose probability stays as it is
    tie_break: float = TIE_BREAK
    normalize: bool = True
    keep_arg_max: bool = False


@dataclass(frozen=True)
class TopLabelMap:
    """The largest probability through a table; the other classes share the rest."""

    table: Table


@dataclass(frozen=True)
class TwoClassMap:
    """New log-odds a ln p - b ln(1 - p) + c of two classes, p being that of class 1."""

    a: float
    b: float
    c: float


Formula = (
    ConstantTemperature
    | NetworkTemperature
    | Mixture
    | AffineMap
    | IncreasingLogits
    | ColumnMap
    | TopLabelMap
    | TwoClassMap
)


@dataclass(frozen=True)
class Plan:
    """A formula and what it is applied to."""

    method: str
    input: InputKind
    n_classes: int
    any_classes: bool  # False: made for exactly so many classes
    formula: Formula

    def check_classes(self, classes: int) -> None:
        """Refuse scores with a number of classes for which the formula is not made."""
        fewest = self.formula.top if isinstance(self.formula, NetworkTemperature) else 1
        if classes < fewest:
            raise ValueError(f"the network reads the top {fewest} logits, got {classes} classes")
        if not (self.any_classes or classes == self.n_classes):
            raise ValueError(f"fitted with {self.n_classes} classes, got {classes}")


def plan(calibrator: Calibrator, classes: int | None = None) -> Plan:
    """The plan of a fitted calibrator, for its own or another number of classes."""
    name = type(calibrator).__name__
    if not isinstance(calibrator, Calibrator):
        raise TypeError(f"a fitted calibrator of calibrant is needed, got {name}")
    check_is_fitted(calibrator)
    any_classes = type(calibrator)._check_classes is not LogitCalibrator._check_classes
    made = Plan(name, calibrator.input, calibrator.n_classes_, any_classes, _formula(calibrator))
    if classes is None:
        return made
    made.check_classes(classes)
    return replace(made, n_classes=classes)


@singledispatch
def _formula(calibrator: Any) -> Formula:
    raise TypeError(
        f"{type(calibrator).__name__} has no formula that PyTorch or ONNX could compute"
    )


# --- temperatures -----------------------------------------------------------------------------


@_formula.register
def _uncalibrated(calibrator: Uncalibrated) -> Formula:
    return ConstantTemperature(1.0)


@_formula.register
def _temperature(calibrator: TemperatureScaling) -> Formula:
    return ConstantTemperature(calibrator.temperature_)


@_formula.register
def _mixture(calibrator: EnsembleTemperatureScaling) -> Formula:
    scaled, plain, uniform = (float(weight) for weight in calibrator.weights_)
    return Mixture(calibrator.temperature_, (scaled, plain, uniform))


@_formula.register
def _pts(calibrator: ParameterizedTemperatureScaling) -> Formula:
    unit = calibrator.gap_unit_
    return _network(
        calibrator,
        reads="logits" if unit is None else "log-gaps",
        top=calibrator.weights_[0].shape[1],
        gap_unit=1.0 if unit is None else unit,
        linear=calibrator._linear,
        base_temperature=None if calibrator.link_ == "absolute" else calibrator.base_temperature_,
        clip_logits=INPUT_CLIP if calibrator.clip_logits else None,
    )


@_formula.register
def _margin(calibrator: MarginTemperatureScaling) -> Formula:
    return _network(calibrator, reads="margin", top=2)


@_formula.register
def _entropy(calibrator: EntropyTemperatureScaling) -> Formula:
    return _network(calibrator, reads="entropy", top=0)


def _network(calibrator: AdaptiveTemperature, **facts: Any) -> Formula:
    low, high = calibrator.input_range_
    common = {
        "gap_unit": 1.0,
        "linear": False,
        "base_temperature": calibrator.base_temperature_,
        "clip_logits": None,
    }
    layers = _merged(calibrator.weights_)
    return NetworkTemperature(low=low, high=high, layers=layers, **(common | facts))


def _merged(weights: Sequence[Floats]) -> tuple[Layer, ...]:
    """Networks side by side as one: the first kernels joined, the others along the diagonal."""
    kernels = [np.concatenate(list(weights[0]), axis=1)]
    kernels += [block_diag(*members) for members in weights[2::2]]
    return tuple(zip(kernels, (bias.reshape(-1) for bias in weights[1::2]), strict=True))


# --- maps of the logits -----------------------------------------------------------------------


@_formula.register
def _affine(calibrator: AffineCalibrator) -> Formula:
    reads: Literal["logits", "log-probs", "smoothed"] = "logits"
    smoothing = 0.0
    if isinstance(calibrator, DirichletCalibration):
        reads = "log-probs"
    elif isinstance(calibrator, StructuredVectorScaling):
        reads, smoothing = "smoothed", calibrator.smoothing_
    elif not isinstance(calibrator, VectorScaling | MatrixScaling):
        raise TypeError(f"{type(calibrator).__name__} reads features that are not known here")
    slopes, intercept = calibrator.slopes_, calibrator.intercept_
    return AffineMap(slopes, intercept, reads, calibrator.temperature_, smoothing)


@_formula.register
def _diag(calibrator: DiagonalOrderPreserving) -> Formula:
    if calibrator.quadrature == "authors":
        raise TypeError(
            "DiagonalOrderPreserving(quadrature='authors') integrates anew for every logit and has "
            "no formula here: quadrature='grid' has one"
        )
    low, high = (float(end) for end in calibrator.range_)
    return IncreasingLogits(low, high, calibrator.table_, 1.0 / calibrator.temperature_)


# --- tables -----------------------------------------------------------------------------------


@_formula.register
def _isotonic(calibrator: IsotonicOneVsAll) -> Formula:
    cuts = calibrator.offsets_[1:-1]
    lines = list(zip(np.split(calibrator.x_, cuts), np.split(calibrator.y_, cuts), strict=True))
    scaled = isinstance(calibrator, IsotonicOneVsAllTS)
    temperature = calibrator.temperature_ if scaled else 1.0
    return ColumnMap(line_table(lines), temperature=temperature, normalize=calibrator.normalize)


@_formula.register
def _multi_class_isotonic(calibrator: MultiClassIsotonic) -> Formula:
    table = line_table([(calibrator.x_, calibrator.y_)])
    return ColumnMap(table, normalize=calibrator.normalize, keep_arg_max=True)


@_formula.register
def _histogram(calibrator: HistogramBinning) -> Formula:
    table = Table(calibrator.edges_.T, calibrator.means_.T)
    if calibrator.mode == "top-label":
        return TopLabelMap(table)
    return ColumnMap(table, tie_break=_tie_break(calibrator), normalize=calibrator.normalize)


@_formula.register
def _platt_binner(calibrator: PlattBinner) -> Formula:
    return ColumnMap(
        Table(calibrator.edges_.T, calibrator.means_.T),
        sigmoid=calibrator.coefficients_,
        kept=calibrator.kept_,
        tie_break=_tie_break(calibrator),
        normalize=calibrator.normalize,
    )


@_formula.register
def _bayesian_binning(calibrator: BayesianBinning) -> Formula:
    offsets = calibrator.offsets_
    edges = np.split(calibrator.edges_, offsets[1:-1])
    # every class has one rate more than edges
    rates = np.split(calibrator.rates_, offsets[1:-1] + np.arange(1, len(offsets) - 1))
    table = Table(_padded(edges, np.inf), _padded(rates, 0.0))
    return ColumnMap(table, tie_break=_tie_break(calibrator), normalize=calibrator.normalize)


@_formula.register
def _spline(calibrator: SplineCalibration) -> Formula:
    return TopLabelMap(line_table([(calibrator.x_, calibrator.y_)]))


def _tie_break(calibrator: HistogramBinning | PlattBinner | BayesianBinning) -> float:
    return TIE_BREAK if calibrator._breaks_ties else 0.0


@_formula.register
def _beta(calibrator: BetaCalibration) -> Formula:
    return TwoClassMap(*(float(value) for value in calibrator.coefficients_))


@_formula.register
def _platt(calibrator: PlattScaling) -> Formula:
    # ln p - ln(1 - p) is the log-odds itself
    return TwoClassMap(calibrator.slope_, calibrator.slope_, calibrator.intercept_)


def line_table(lines: Sequence[tuple[Floats, Floats]]) -> Table:
    """Piecewise linear functions, flat outside their points, as ``numpy.interp`` has them."""
    places = [_line_places(x, y) for x, y in lines]
    value, slope, anchor = ([place[part] for place in places] for part in range(3))
    edges = _padded([x for x, _ in lines], np.inf)
    return Table(edges, _padded(value, 0.0), _padded(slope, 0.0), _padded(anchor, 0.0))


def _line_places(x: Floats, y: Floats) -> tuple[Floats, Floats, Floats]:
    """Value, slope and anchor left of the first point, between the points, right of the last."""
    slope = np.diff(y) / np.diff(x)
    return np.append(y[0], y), np.concatenate([[0.0], slope, [0.0]]), np.append(x[0], x)


def _padded(rows: Sequence[Floats], fill: float) -> Floats:
    """Rows of different lengths as one array."""
    width = max(len(row) for row in rows)
    result = np.full((len(rows), width), fill)
    for row, values in zip(result, rows, strict=True):
        row[: len(values)] = values
    return result
