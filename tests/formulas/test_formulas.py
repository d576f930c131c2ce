"""Every formula: the same numbers from all interpreters, its own invariants, files and back."""

from __future__ import annotations

import json
import pickle
import tracemalloc
from collections.abc import Callable
from dataclasses import FrozenInstanceError, fields, replace
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np
import onnxruntime
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

import calibrant
from calibrant.formulas import (
    AbsoluteLink,
    AffineMap,
    BetaOdds,
    Chain,
    ClassShares,
    ClassSigmoids,
    ColumnMap,
    ConstantTemperature,
    ExponentialLink,
    Formula,
    FormulaRows,
    IncreasingTable,
    LinearOdds,
    LogEntropy,
    LogGaps,
    LogitMap,
    LogProbabilities,
    Margin,
    Mixture,
    NetworkTemperature,
    OddsMap,
    PlainLogits,
    Pool,
    QuadratureMap,
    SeenClasses,
    Smoothed,
    SmoothedLogProbabilities,
    TemperatureFormula,
    TopLabelMap,
    TopLogits,
    VennAbersMap,
)
from calibrant.formulas._array_operations import NUMPY
from calibrant.formulas._curves import Cubics, Lines, Steps
from calibrant.formulas._serialization import KINDS, from_state, to_state
from calibrant.onnx import export
from calibrant.torch import to_module
from crafting import with_formula
from file_laws import check_calibrator
from hard_logits import adversarial

CLASSES = 6


def network(reading: Any, *, link: Any = None, clip: float | None = None) -> NetworkTemperature:
    rng = np.random.default_rng(3)
    width = reading.width
    outputs = 1 if isinstance(link, AbsoluteLink) else 2
    return NetworkTemperature(
        reading,
        np.full(width, -4.0),
        np.full(width, 9.0),
        (rng.normal(size=(width, 4)), rng.normal(size=(4, outputs))),
        (rng.normal(size=4), rng.normal(size=outputs)),
        linear=False,
        link=link or ExponentialLink(1.4, 3.0),
        clip=clip,
    )


def lines(count: int) -> Lines:
    rng = np.random.default_rng(0)
    points = [(np.sort(rng.random(5)), np.sort(rng.random(5))) for _ in range(count)]
    return Lines.join(points)


def steps(count: int, sizes: tuple[int, ...] = (3,)) -> Steps:
    rng = np.random.default_rng(1)
    widths = [sizes[index % len(sizes)] for index in range(count)]
    return Steps.join([(np.sort(rng.random(w - 1)), np.sort(rng.random(w))) for w in widths])


def cubics(count: int) -> Cubics:
    """Of one point, of two, .., of four in turn."""
    rng = np.random.default_rng(5)
    sizes = [1 + index % 4 for index in range(count)]
    return Cubics.join(
        [(np.sort(3.0 * rng.normal(size=n)), *rng.normal(size=(2, n))) for n in sizes]
    )


def bounds(count: int) -> VennAbersMap:
    rng = np.random.default_rng(6)
    lower = [
        (np.sort(rng.random(n)), np.sort(0.9 * rng.random(n + 1))) for n in range(1, count + 1)
    ]
    upper = [(edges, 0.1 + levels) for edges, levels in lower]
    return VennAbersMap(Steps.join(lower), Steps.join(upper), count)


def columns(curves: Any, **change: Any) -> ColumnMap:
    values: dict[str, Any] = {
        "classes": CLASSES,
        "temperature": 1.3,
        "sigmoids": None,
        "kept": None,
        "tie_break": 1e-9,
        "normalize": True,
        "keep_arg_max": False,
    }
    return ColumnMap(curves, **(values | change))


def affine(features: Any, full: bool) -> AffineMap:
    rng = np.random.default_rng(2)
    slopes = np.eye(CLASSES) + 0.1 * rng.normal(size=(CLASSES, CLASSES))
    return AffineMap(features, slopes if full else np.diag(slopes), rng.normal(size=CLASSES), 1e15)


def quadrature() -> QuadratureMap:
    rng = np.random.default_rng(4)
    shapes = ((1, 3), (3, 1))
    kernels = tuple(0.3 * rng.normal(size=shape) for shape in shapes)
    nodes = np.linspace(0.0, 1.0, 9)
    return QuadratureMap(kernels, (rng.normal(size=3), np.ones(1)), nodes, np.full(9, 2 / 9), 1e-8)


TABLE = IncreasingTable(-5.0, 8.0, np.cumsum(np.linspace(0.0, 1.0, 14)), 0.7)
SIGMOIDS = ClassSigmoids(np.linspace(0.5, 2.0, CLASSES), np.linspace(-1.0, 1.0, CLASSES), 1e-12)
KEPT = np.arange(CLASSES) == 2
SEEN = (0, 2, 3, 5)
SHARES = np.array([0.3, 0.25, 0.2, 0.15, 0.07, 0.03])
EQUAL = np.full(CLASSES, 1.0 / CLASSES)


def pool(classes: int = CLASSES) -> Pool:
    """Of temperature scaling, an affine map and the shares of the classes."""
    vector = AffineMap(PlainLogits(), np.linspace(0.5, 2.0, classes), -SHARES[:classes], 1e15)
    shares = SHARES[:classes] / SHARES[:classes].sum()
    return Pool([0.5, 0.3, 0.2], (ConstantTemperature(2.0), vector, ClassShares(shares)))


FORMULAS: dict[str, Callable[[], Formula]] = {
    "constant": lambda: ConstantTemperature(1.7),
    "network of logits": lambda: network(TopLogits(4)),
    "network, published": lambda: network(TopLogits(3), link=AbsoluteLink(1e-12, 1e12), clip=100.0),
    "network of log gaps": lambda: network(LogGaps(4, 1.2, 0.3)),
    "network of one gap": lambda: network(LogGaps(1, 1.2, 0.3)),
    "network of the margin": lambda: network(Margin()),
    "network of the entropy": lambda: network(LogEntropy(1e-6)),
    "mixture": lambda: Mixture(2.0, np.array([0.6, 0.3, 0.1])),
    "mixture at a corner": lambda: Mixture(2.0, np.array([0.0, 1.0, 0.0])),
    "vector": lambda: affine(PlainLogits(), full=False),
    "matrix": lambda: affine(PlainLogits(), full=True),
    "dirichlet": lambda: affine(LogProbabilities(), full=True),
    "smoothed": lambda: affine(SmoothedLogProbabilities(1.5, 0.01), full=False),
    "table": lambda: TABLE,
    "quadrature": quadrature,
    "lines per class": lambda: columns(lines(CLASSES)),
    "one line": lambda: columns(lines(1), keep_arg_max=True),
    "raw lines": lambda: columns(lines(CLASSES), normalize=False, tie_break=0.0),
    "steps per class": lambda: columns(steps(CLASSES)),
    "ragged steps": lambda: columns(steps(CLASSES, (1, 4, 70))),
    "sigmoids, then steps": lambda: columns(steps(CLASSES), sigmoids=SIGMOIDS, kept=KEPT),
    "odds by cubics": lambda: OddsMap(cubics(CLASSES), CLASSES),
    "both bounds by steps": lambda: bounds(CLASSES),
    "top label by a line": lambda: TopLabelMap(lines(1), CLASSES, 1.0 - 1e-9),
    "top label by steps": lambda: TopLabelMap(steps(1), CLASSES, 1.0 - 1e-9),
    "chain: increasing, then adaptive": lambda: Chain((TABLE,), network(LogGaps(4, 1.2, 0.3))),
    "chain: adaptive, then affine": lambda: Chain(
        (network(TopLogits(4)),), affine(PlainLogits(), full=True)
    ),
    "chain of three": lambda: Chain(
        (ConstantTemperature(2.0), TABLE), Mixture(1.5, np.array([0.5, 0.25, 0.25]))
    ),
    "some classes by cubics": lambda: SeenClasses.of(CLASSES, SEEN, 1.3, OddsMap(cubics(4), 4)),
    "some classes by their top label": lambda: SeenClasses.of(
        CLASSES, SEEN, 1.3, TopLabelMap(lines(1), 4, 1.0 - 1e-9)
    ),
    "zeros, then adaptive": lambda: Smoothed(0.03, CLASSES, network(TopLogits(4))),
    "zeros, then some classes": lambda: Smoothed(
        0.2, CLASSES, SeenClasses.of(CLASSES, SEEN, 1.3, Mixture(2.0, np.array([0.6, 0.3, 0.1])))
    ),
    "chain, then steps": lambda: Chain(
        (affine(PlainLogits(), full=False),), columns(steps(CLASSES))
    ),
    "shares": lambda: ClassShares(SHARES),
    "equal shares": lambda: ClassShares(EQUAL),
    "pool": pool,
    "pool that keeps the arg max": lambda: Pool(
        [0.6, 0.1, 0.2, 0.1],
        (network(TopLogits(4)), TABLE, ConstantTemperature(0.1), Mixture(1.0, [0.0, 0.0, 1.0])),
    ),
    "pool of steps and the top label": lambda: Pool(
        [0.3, 0.7], (columns(steps(CLASSES)), TopLabelMap(lines(1), CLASSES, 1.0 - 1e-9))
    ),
    "pool of a chain and some classes": lambda: Pool(
        [0.7, 0.3],
        (
            Chain((TABLE,), network(LogGaps(4, 1.2, 0.3))),
            SeenClasses.of(CLASSES, SEEN, 1.3, OddsMap(cubics(4), 4)),
        ),
    ),
    "zeros, then a pool": lambda: Smoothed(0.03, CLASSES, pool()),
    "some classes by a pool": lambda: SeenClasses.of(CLASSES, SEEN, 1.3, pool(4)),
    "chain, then a pool": lambda: Chain((TABLE, affine(PlainLogits(), full=True)), pool()),
}
TWO_CLASSES: dict[str, Callable[[], Formula]] = {
    "two classes, cubics": lambda: OddsMap(cubics(2), 2),
    "two classes": lambda: BetaOdds(1.5, 0.7, -0.4),
    "two classes, linear": lambda: LinearOdds(1.5, -0.4),
    "zeros, then two classes": lambda: Smoothed(0.1, 2, LinearOdds(1.5, -0.4)),
    "two classes, then a temperature": lambda: Chain(
        (BetaOdds(1.5, 0.7, -0.4),), ConstantTemperature(2.0)
    ),
    "pool of two classes": lambda: Pool(
        [0.5, 0.4, 0.1],
        (BetaOdds(1.5, 0.7, -0.4), ConstantTemperature(3.0), ClassShares([0.8, 0.2])),
    ),
}
ALL = FORMULAS | TWO_CLASSES


@cache
def made(name: str) -> Formula:
    return ALL[name]()


def rows(name: str, dtype: Any = np.float32) -> np.ndarray:
    logits = adversarial(2 if name in TWO_CLASSES else CLASSES, np.float64)
    return logits[np.abs(np.where(np.isfinite(logits), logits, 0.0)).max(axis=1) < 1e4].astype(
        dtype
    )


def calibrator(name: str) -> Any:
    """A calibrator with that formula: all that torch and ONNX are given."""
    return with_formula(calibrant.Uncalibrated(), made(name), rows(name).shape[1])


def reference(name: str, logits: np.ndarray) -> np.ndarray:
    with np.errstate(over="ignore"):
        return made(name)(logits.astype(np.float64))


# --- interpreters -----------------------------------------------------------------------------


@pytest.mark.parametrize("name", ALL)
def test_distributions_and_their_logarithms(name: str) -> None:
    formula, logits = made(name), rows(name, np.float64)
    probs, logs = formula(logits), formula.log_probabilities(FormulaRows(logits), NUMPY)
    assert not np.isnan(probs).any()
    assert not np.isnan(logs).any()
    assert (probs >= 0.0).all()
    # the published code clips masked classes, and smoothing takes them for small probabilities
    if name != "network, published" and not name.startswith("zeros"):
        assert (probs[np.isneginf(logits)] == 0.0).all()
    if name != "raw lines":
        np.testing.assert_allclose(probs.sum(axis=1), 1.0, atol=1e-9)
    np.testing.assert_allclose(np.exp(logs), probs, atol=1e-12)
    if formula.keeps_arg_max:
        top = logits.argmax(axis=1)[:, None]
        assert (probs <= np.take_along_axis(probs, top, axis=1)).all()
        assert (logs <= np.take_along_axis(logs, top, axis=1)).all()


@pytest.mark.parametrize("name", ALL)
def test_array_api_agrees(name: str) -> None:
    """The generic operations, here by torch's namespace in float64: what a GPU computes."""
    formula, logits = made(name), rows(name, np.float64)
    tensor = torch.from_numpy(logits)
    probs = formula(tensor).numpy()
    np.testing.assert_allclose(probs, reference(name, logits), rtol=0, atol=1e-12)


@pytest.mark.parametrize("name", ALL)
def test_module_agrees(name: str) -> None:
    logits = rows(name, np.float64)
    module, expected = to_module(calibrator(name)), reference(name, logits)
    np.testing.assert_allclose(module(torch.from_numpy(logits)), expected, rtol=0, atol=1e-12)
    logs = made(name).log_probabilities(FormulaRows(logits), NUMPY)
    close = module.log_proba(torch.from_numpy(logits)).numpy()
    np.testing.assert_allclose(close, logs, rtol=1e-9, atol=1e-9)


@pytest.mark.parametrize("opset", [13, 17, 21])
@pytest.mark.parametrize("name", ALL)
def test_graph_agrees(name: str, opset: int, tmp_path: Path) -> None:
    logits = rows(name, np.float64)
    names = export(calibrator(name), tmp_path / "f.onnx", dtype="float64", opset=opset)
    options = onnxruntime.SessionOptions()
    options.intra_op_num_threads = 1
    session = onnxruntime.InferenceSession(tmp_path / "f.onnx", options)
    probs = session.run([names.probabilities], {names.input: logits})[0]
    np.testing.assert_allclose(probs, reference(name, logits), rtol=0, atol=1e-9)


@pytest.mark.parametrize("name", ALL)
def test_half_the_precision_is_close(name: str) -> None:
    if "step" in name or "line" in name or "top label" in name:
        pytest.skip("a rounded logit may fall into the next bin")
    narrow = rows(name, np.float32)
    narrow = narrow[np.abs(np.where(np.isfinite(narrow), narrow, 0.0)).max(axis=1) < 50.0]
    probs = made(name)(narrow)
    assert probs.dtype == np.float32
    np.testing.assert_allclose(probs, reference(name, narrow), rtol=0, atol=2e-5)


def test_a_chain_is_one_map_after_another() -> None:
    chain = made("chain of three")
    assert isinstance(chain, Chain)
    scores = rows("chain of three", np.float64)
    expected = scores / 2.0
    expected = TABLE.scores(FormulaRows(expected), NUMPY)
    expected = chain.last(expected)
    np.testing.assert_array_equal(reference("chain of three", scores), expected)
    assert chain.keeps_arg_max
    assert not made("chain: adaptive, then affine").keeps_arg_max
    assert made("chain: adaptive, then affine").n_classes == CLASSES
    assert made("chain: increasing, then adaptive").fewest_classes == 4
    with pytest.raises(ValueError, match="same classes"):
        Chain((affine(PlainLogits(), full=True),), LinearOdds(1.0, 0.0))
    with pytest.raises(TypeError, match="maps of logits"):
        Chain((made("mixture"),), ConstantTemperature(1.0))  # type: ignore[arg-type]


def test_a_chain_keeps_the_arg_max_through_ties_and_overflow() -> None:
    close = np.array([[1.6, 1.6000001, 0.0]], np.float32)
    last = TopLabelMap(Lines.join([(np.array([0.0, 1.0]), np.array([0.8, 0.8]))]), 3, 0.999)
    chain = Chain((ConstantTemperature(1.5),), last)
    assert chain.keeps_arg_max
    assert chain(close).argmax() == close.argmax() == 1
    huge = np.array([[1e37, -1e37, 0.0]], np.float32)
    chain = Chain((ConstantTemperature(0.01),), ConstantTemperature(1.0))
    np.testing.assert_allclose(chain(huge), [[1.0, 0.0, 0.0]])


@pytest.mark.parametrize("name", sorted(ALL))
def test_a_formula_out_of_a_pickle_is_as_frozen(name: str) -> None:
    again = pickle.loads(pickle.dumps(made(name)))
    logits = rows(name, np.float64)
    np.testing.assert_array_equal(again(logits), reference(name, logits))
    for array in to_state(again)[1].values():
        assert not array.flags.writeable


@pytest.mark.parametrize("name", [name for name in ALL if isinstance(ALL[name](), LogitMap)])
def test_scores_are_logits_of_the_probabilities(name: str) -> None:
    formula, logits = made(name), rows(name, np.float64)
    assert isinstance(formula, LogitMap)
    scores = formula.scores(FormulaRows(logits), NUMPY)
    assert np.isneginf(scores[np.isneginf(logits)]).all() or isinstance(formula, NetworkTemperature)
    probs = ConstantTemperature(1.0)(scores)
    np.testing.assert_allclose(probs, reference(name, logits), atol=1e-9)
    if isinstance(formula, TemperatureFormula):
        assert (formula.row_temperatures(FormulaRows(logits), NUMPY) > 0.0).all()


# --- data -------------------------------------------------------------------------------------


@pytest.mark.parametrize("name", ALL)
def test_state_keeps_every_bit(name: str) -> None:
    document, arrays = to_state(made(name))
    again = from_state(json.loads(json.dumps(document)), arrays)
    logits = rows(name, np.float64)
    assert isinstance(again, Formula)
    np.testing.assert_array_equal(again(logits), reference(name, logits))


def test_every_kind_is_tried_here() -> None:
    def kinds(part: Any) -> set[str]:
        found = {part.kind}
        for field in fields(part):
            value = getattr(part, field.name)
            for one in value if isinstance(value, tuple) else (value,):
                found |= kinds(one) if hasattr(one, "kind") else set()
        return found

    tried = set().union(*(kinds(made(name)) for name in ALL))
    ours = {kind for kind, cls in KINDS.items() if cls.__module__.startswith("calibrant.")}
    assert tried == ours


@pytest.mark.parametrize("name", ALL)
def test_a_formula_cannot_be_changed(name: str) -> None:
    formula = made(name)
    with pytest.raises(FrozenInstanceError):
        formula.anything = 1  # type: ignore[attr-defined]
    for array in to_state(formula)[1].values():
        with pytest.raises(ValueError, match="read-only"):
            array[...] = 0


BAD: list[tuple[Callable[[], Any], str]] = [
    (lambda: Smoothed(0.0, 3, ConstantTemperature(1.0)), "share must be a number from 1e-37 to 1"),
    (lambda: Smoothed(1.0, 3, ConstantTemperature(1.0)), "share must be below 1"),
    (lambda: Smoothed(0.1, 3, LinearOdds(1.0, 0.0)), "fitted with 2 classes, got 3"),
    (lambda: Smoothed(0.1, 2, Smoothed(0.1, 2, LinearOdds(1.0, 0.0))), "not be smoothed itself"),
    (lambda: SeenClasses.of(3, [0, 1, 2], 1.0, made("constant")), "two classes at least, and not"),
    (lambda: SeenClasses.of(3, [1], 1.0, made("constant")), "two classes at least, and not all"),
    (lambda: SeenClasses.of(4, [2, 1], 1.0, made("constant")), "seen must be in increasing order"),
    (lambda: SeenClasses.of(4, [0, 1, 2], 1.0, LinearOdds(1.0, 0.0)), "fitted with 2 classes"),
    (lambda: SeenClasses([0, 1], [0, 1, 3], 1.0, made("constant")), "place must follow from seen"),
    (lambda: SeenClasses([0, 9], [0, 1, 4], 1.0, made("constant")), "seen must lie in 0"),
    (lambda: ConstantTemperature(0.0), "value must be a number from 1e-37"),
    (lambda: ConstantTemperature(-1.0), "value must be a number from 1e-37"),
    (lambda: ConstantTemperature(np.nan), "value must be a number from 1e-37"),
    (lambda: ConstantTemperature("1"), "value must be a number, got '1'"),  # type: ignore[arg-type]
    (lambda: Mixture(1.0, np.array([0.5, 0.6, 0.1])), "weights must sum to 1"),
    (lambda: Mixture(1.0, np.array([1.2, -0.2, 0.0])), "weights must be numbers from 0 to 1"),
    (lambda: Mixture(1.0, np.ones(2) / 2), "weights must have shape"),
    (lambda: LogGaps(0, 1.0, 0.3), "k must be a whole number from 1 to"),
    (lambda: replace(network(TopLogits(4)), low=np.full(4, 10.0)), "low must not lie above high"),
    (lambda: replace(network(TopLogits(4)), kernels=()), "every kernel must have a bias"),
    (lambda: network(TopLogits(3), link=ExponentialLink(1.0, -1.0)), "reach must be"),
    (lambda: AffineMap(PlainLogits(), np.eye(3), np.zeros(2), 1.0), "slopes must have shape"),
    (
        lambda: AffineMap(PlainLogits(), np.full((2, 2), np.inf), np.zeros(2), 1.0),
        "must be numbers",
    ),
    (lambda: IncreasingTable(1.0, 1.0, np.arange(3.0), 1.0), "low must lie below high"),
    (lambda: IncreasingTable(0.0, 1.0, np.array([1.0, 0.0]), 1.0), "table must not fall"),
    (lambda: Lines(np.array([0.2, 0.1]), np.ones(2), np.array([0, 2])), "x must rise"),
    (
        lambda: Lines(np.array([0.1]), np.array([1.1]), np.array([0, 1])),
        "y must be numbers from 0 to 1",
    ),
    (lambda: Lines(np.array([0.1]), np.ones(1), np.array([0, 2])), "offsets must rise from 0"),
    (lambda: Steps(np.array([0.5, 0.4]), np.ones(3), np.array([0, 3])), "edges must not fall"),
    (lambda: Steps(np.zeros(3), np.ones(3), np.array([0, 3])), "there must be 2 edges"),
    (lambda: Cubics(np.array([0.0, 1e-13]), *np.zeros((2, 2)), np.array([0, 2])), "x must rise"),
    (
        lambda: Cubics(np.zeros(1), np.full(1, 1e31), np.zeros(1), np.array([0, 1])),
        "y must be numbers",
    ),
    (lambda: Cubics(np.zeros(1), np.zeros(1), np.zeros(2), np.array([0, 1])), "slope must have"),
    (lambda: Cubics(np.zeros(1), np.zeros(1), np.zeros(1), np.array([0, 0, 1])), "have a point"),
    (lambda: OddsMap(cubics(2), CLASSES), "there must be 6 curves, got 2"),
    (lambda: columns(cubics(CLASSES)), "curves must be a ProbabilityCurves, got Cubics"),
    (lambda: VennAbersMap(steps(2), steps(3), 3), "lower must have 3 curves, got 2"),
    (lambda: replace(bounds(2), lower=Steps.join([([], [1.0])] * 2)), "lower must lie below 1"),
    (lambda: replace(bounds(2), upper=Steps.join([([], [0.0])] * 2)), "upper must lie above 0"),
    (lambda: columns(lines(2)), "one curve or 6, got 2"),
    (lambda: columns(lines(1), kept=np.ones(2, bool)), "kept must have shape"),
    (lambda: TopLabelMap(lines(2), CLASSES, 0.9), "there must be one curve"),
    (lambda: BetaOdds(np.inf, 1.0, 0.0), "a must be a number from 0 to 1e"),
]


@pytest.mark.parametrize(("make", "message"), BAD)
def test_invariants(make: Callable[[], Any], message: str) -> None:
    with pytest.raises((ValueError, TypeError), match=message):
        make()


# --- numbers at their limits ------------------------------------------------------------------


def wide_network(low: float, high: float, kernel: float, link: Any) -> NetworkTemperature:
    return NetworkTemperature(
        TopLogits(1), [low], [high], ([[kernel]],), ([kernel],), linear=True, link=link, clip=None
    )


def two_steps(low: float, high: float) -> Steps:
    return Steps.join([(np.array([0.5]), np.array([low, high]))])


HUGE, TINY = 1e37, 1e-37
POOLED = ("huge intercepts", "certain top label")
LIMITS: dict[str, Callable[[], Formula]] = {
    "coldest": lambda: ConstantTemperature(TINY),
    "hottest": lambda: ConstantTemperature(HUGE),
    "coldest mixture": lambda: Mixture(TINY, np.array([1.0, 0.0, 0.0])),
    "hottest mixture": lambda: Mixture(HUGE, np.array([1.0 - 1e-40, 1e-40, 0.0])),
    "network of huge inputs": lambda: wide_network(-HUGE, HUGE, 0.49, AbsoluteLink(TINY, HUGE)),
    "network of huge outputs": lambda: wide_network(-1.0, 1.0, 4e36, ExponentialLink(1e-15, 50.0)),
    "network of tiny reach": lambda: wide_network(-1.0, 1.0, 4e36, ExponentialLink(HUGE, TINY)),
    "network of tiny units": lambda: network(LogGaps(4, TINY, HUGE)),
    "network of huge units": lambda: network(LogGaps(4, HUGE, TINY)),
    "clipped to nothing": lambda: network(TopLogits(3), clip=TINY),
    "huge slopes": lambda: AffineMap(PlainLogits(), np.full(CLASSES, 4e36), np.zeros(CLASSES), 1.0),
    "huge logits": lambda: AffineMap(
        LogProbabilities(), np.full((CLASSES, CLASSES), 0.08), np.full(CLASSES, HUGE), HUGE
    ),
    "huge intercepts": lambda: AffineMap(
        PlainLogits(), np.zeros(CLASSES), np.resize([HUGE, -HUGE], CLASSES), TINY
    ),
    "hardly smoothed": lambda: affine(SmoothedLogProbabilities(TINY, TINY), full=False),
    "all smoothed": lambda: affine(SmoothedLogProbabilities(HUGE, 1.0), full=True),
    "widest table": lambda: IncreasingTable(-HUGE, HUGE, np.array([-HUGE, HUGE]), HUGE),
    "narrowest table": lambda: IncreasingTable(1.0, 1.0 + 2e-6, np.array([0.0, HUGE]), TINY, 1.0),
    "flat table": lambda: IncreasingTable(0.0, 3e-37, np.zeros(5), TINY, 1e3),
    "huge integrand": lambda: QuadratureMap(
        ([[1e3]],), ([HUGE / 1e13],), [0.0, 1.0], [1.0, 1.0], 1.0
    ),
    "no integrand": lambda: QuadratureMap(([[-1e3]],), ([0.0],), [0.0, 1.0], [0.0, 0.0], TINY),
    "steps at 0": lambda: columns(two_steps(0.0, 0.0), tie_break=TINY, temperature=TINY),
    "steps at 1": lambda: columns(two_steps(1.0, 1.0), tie_break=1.0, temperature=HUGE),
    "tiny steps": lambda: columns(two_steps(5e-324, 5e-324), tie_break=0.0),
    "steepest line": lambda: columns(
        Lines.join([(np.array([0.0, 1e-30, 1.0]), np.array([0.0, 1.0, 1.0]))]), keep_arg_max=True
    ),
    "steepest sigmoids": lambda: columns(
        two_steps(0.0, 1.0),
        sigmoids=ClassSigmoids(np.full(CLASSES, HUGE), np.full(CLASSES, -HUGE), 1e-15),
    ),
    "certain top label": lambda: TopLabelMap(two_steps(0.0, 1.0), CLASSES, 1.0),
    "undecided top label": lambda: TopLabelMap(two_steps(0.0, 1.0), CLASSES, 0.5),
    "chain of huge ones": lambda: Chain(
        (ConstantTemperature(TINY), TABLE, LIMITS["huge slopes"](), ConstantTemperature(HUGE)),
        LIMITS["steps at 0"](),
    ),
    "steepest odds": lambda: LinearOdds(-HUGE, HUGE),
    "flat odds": lambda: LinearOdds(0.0, -HUGE),
    "steepest beta": lambda: BetaOdds(HUGE, 0.0, HUGE),
    "smallest shares": lambda: ClassShares([TINY] * (CLASSES - 1) + [1.0]),
    "smallest weights": lambda: Pool(
        [TINY, 1.0, TINY],
        (ConstantTemperature(HUGE), ConstantTemperature(TINY), LIMITS["smallest shares"]()),
    ),
    "pool of extremes": lambda: Pool(
        [0.25] * 4, tuple(LIMITS[name]() for name in ("coldest", "hottest mixture", *POOLED))
    ),
}


@pytest.mark.parametrize("name", LIMITS)
def test_numbers_at_their_limits_give_distributions(name: str) -> None:
    """By NumPy, the array API, PyTorch and ONNX, for the largest and smallest logits there are."""
    formula = LIMITS[name]()
    made = with_formula(calibrant.Uncalibrated(), formula, formula.n_classes or CLASSES)
    check_calibrator(made, torch=True, onnx=True)


BEYOND: list[tuple[Callable[[], Any], str]] = [
    (lambda: ConstantTemperature(1e-38), "value must be a number from 1e-37 to 1e"),
    (lambda: ConstantTemperature(1e38), "value must be a number from 1e-37 to 1e"),
    (lambda: ConstantTemperature(10**400), "value must be a number from .* got 1000.*0000$"),
    (lambda: ConstantTemperature(True), "value must be a number, got True"),
    (lambda: LinearOdds(1e38, 0.0), "slope must be a number from -1e"),
    (lambda: BetaOdds(1.0, -1.0, 0.0), "b must be a number from 0 to"),
    (lambda: ExponentialLink(1e-30, 20.0), "temperatures from base / 4.85"),
    (lambda: ExponentialLink(1e30, 20.0), "got the base 1e"),
    (lambda: AbsoluteLink(2.0, 1.0), "largest must be a number from 2 to"),
    (lambda: wide_network(-1.0, 1.0, 1e37, AbsoluteLink(0.1, 1.0)), "must not reach beyond 1e"),
    (lambda: replace(network(TopLogits(4)), kernels=3), "kernels must be a tuple of arrays, got 3"),
    (lambda: replace(network(TopLogits(4)), biases=(np.zeros(0),)), "every kernel must have a"),
    (
        lambda: NetworkTemperature(
            Margin(),
            [0.0],
            [1.0],
            (np.zeros((1, 0)),),
            (np.zeros(0),),
            True,
            AbsoluteLink(1, 2),
            None,
        ),
        "every layer of the network must have an output",
    ),
    (
        lambda: NetworkTemperature(
            Margin(), [0.0], [1.0], ([[1.0]],) * 33, ([0.0],) * 33, True, AbsoluteLink(1, 2), None
        ),
        "must have at most 32 layers",
    ),
    (lambda: AffineMap(PlainLogits(), np.full(3, 1e37), np.zeros(3), 1.0), "must not reach beyond"),
    (lambda: AffineMap(PlainLogits(), np.eye(3), np.zeros(3), 1e37), "of scores up to 1e"),
    (lambda: SmoothedLogProbabilities(1.0, 0.0), "smoothing must be a number from 1e-37 to 1"),
    (lambda: IncreasingTable(1.0, 1.0 + 1e-7, np.arange(2.0), 1.0), "low must lie below high"),
    (lambda: IncreasingTable(0.0, 1.0, np.array([0.0, 1e38]), 1.0), "table must be numbers from"),
    (lambda: replace(quadrature(), weights=-np.ones(9)), "weights must be numbers from 0"),
    (lambda: replace(quadrature(), biases=(np.zeros(3), [1e30])), "integrals must not reach"),
    (
        lambda: replace(quadrature(), nodes=np.zeros(513), weights=np.zeros(513)),
        "the rule must have 2 to 512 nodes, got 513",
    ),
    (lambda: columns(two_steps(0.0, 1.0), tie_break=0.0), "without a tie_break no value may be 0"),
    (lambda: columns(two_steps(0.0, 1.0), tie_break=1e-40), "tie_break must be a number from 1e"),
    (
        lambda: columns(two_steps(0.0, 1.0), tie_break=0.1, normalize=False),
        "tie_break must be a number from 0 to 1e-06",
    ),
    (
        lambda: columns(Lines.join([(np.array([0.0, 1.0]), np.array([1.0, 0.0]))])),
        "the lines must not fall",
    ),
    (lambda: columns(two_steps(1.0, 0.5), keep_arg_max=True), "one curve that does not fall"),
    (lambda: columns(steps(CLASSES), keep_arg_max=True), "one curve that does not fall"),
    (
        lambda: columns(two_steps(0.5, 1.0), keep_arg_max=True, sigmoids=SIGMOIDS),
        "one curve that does not fall",
    ),
    (lambda: columns(two_steps(0.5, 1.0), keep_arg_max=True, kept=KEPT), "one curve that does not"),
    (lambda: columns(two_steps(0.5, 1.0), classes=2**23), "classes must be a whole number from 2"),
    (lambda: ClassSigmoids([1.0], [0.0], 1e-17), "clip must be a number from 1e-15"),
    (lambda: Lines.join([(np.array([0.0, 2.0]), np.ones(2))]), "x must be numbers from 0 to 1"),
    (lambda: Lines.join([(np.array([0.0, 1e-31]), np.ones(2))]), "x must rise within every line"),
    (
        lambda: Steps(np.array([0.1, 0.9, 0.5, 0.4]), np.ones(6), np.array([0, 3, 6])),
        "edges must not fall within a curve",
    ),
    (lambda: Chain((TABLE,) * 9, TABLE), "there must be at most 8 maps"),
    (lambda: Chain((), Chain((), TABLE)), "maps of an inner chain belong to the outer one"),
]


@pytest.mark.parametrize(("make", "message"), BEYOND)
def test_numbers_beyond_their_limits_are_refused(make: Callable[[], Any], message: str) -> None:
    with pytest.raises((ValueError, TypeError), match=message):
        make()


def test_edges_may_fall_from_one_curve_to_the_next() -> None:
    Steps(np.array([0.8, 0.9, 0.1, 0.2]), np.ones(6), np.array([0, 3, 6]))


def test_wide_networks_take_smaller_tiles() -> None:
    """However wide a network is, predicting takes about as much memory."""
    width = 2048
    kernels = (np.zeros((1, width)), np.zeros((width, 1)))
    formula = QuadratureMap(kernels, (np.zeros(width), [0.5]), [0.0, 1.0], [1.0, 1.0], 1e-8)
    assert Chain((formula,), TABLE).widest == formula.widest == width
    assert network(TopLogits(4)).widest == 4
    calibrator = with_formula(calibrant.Uncalibrated(), formula, 4)
    logits = np.random.default_rng(0).normal(size=(4_000, 4))
    tracemalloc.start()
    probs = calibrator.predict_proba(logits)
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert peak < 1.5e8  # all rows at once would take 500 MB
    np.testing.assert_allclose(probs[:50], formula(logits[:50]))


def test_curves_too_different_in_length_have_no_table() -> None:
    edges = np.sort(np.random.default_rng(0).random(2999))
    ragged = [(np.empty(0), np.ones(1))] * 2999 + [(edges, np.ones(3000))]
    formula = ColumnMap(Steps.join(ragged), classes=3000)
    formula(np.zeros((1, 3000)))
    with pytest.raises(ValueError, match="3000 curves of up to 2999 points are too different"):
        to_module(with_formula(calibrant.Uncalibrated(), formula, 3000))


# --- crafted documents ------------------------------------------------------------------------

NUMBERS = st.one_of(
    st.floats(), st.integers(-3, 3), st.booleans(), st.none(), st.sampled_from(["", "logits", "1"])
)


@settings(max_examples=300)
@given(data=st.data())
def test_a_crafted_document_is_refused_or_computes(data: Any) -> None:
    """Any number, word or array of a document changed: refused, or distributions all the same."""
    name = data.draw(st.sampled_from(sorted(ALL)))
    document, arrays = to_state(made(name))
    holder, key = data.draw(st.sampled_from(_places(document)))
    if key == "array":
        path = holder[key]
        array = np.array(arrays[path])
        if array.size and data.draw(st.booleans()):
            wild = st.floats() if array.dtype == np.float64 else st.integers(-1, 9)
            array.flat[data.draw(st.integers(0, array.size - 1))] = data.draw(wild)
        else:
            array = array[..., :-1] if data.draw(st.booleans()) else array[None]
        arrays = arrays | {path: array}
    else:
        holder[key] = data.draw(NUMBERS)
    try:
        formula = from_state(document, arrays)
        assert isinstance(formula, Formula)
        formula.check_classes(2 if name in TWO_CLASSES else CLASSES)
    except (ValueError, TypeError):
        return
    check_calibrator(with_formula(calibrant.Uncalibrated(), formula, None), torch=True)


def test_an_array_belongs_to_one_field() -> None:
    """Else a small file of many references would make a large part."""
    document, arrays = to_state(network(TopLogits(4)))
    document["values"]["low"] = document["values"]["high"]
    with pytest.raises(ValueError, match=r"no array 'formula.high', or another field has it"):
        from_state(document, arrays)
    document, arrays = to_state(network(TopLogits(4)))
    with pytest.raises(ValueError, match=r"no part has the arrays \['more'\]"):
        from_state(document, arrays | {"more": np.zeros(1)})


@pytest.mark.parametrize(
    ("value", "message"),
    [
        ({"value": [1.0]}, "must not be a 'value'"),
        ({"number": 1.0}, "must not be a 'number'"),
        ({"value": 1.0, "array": "a"}, "must be a value, an array, a part or a tuple"),
        (1.5, "must be a value, an array, a part or a tuple"),
        ({"array": ["a"]}, "there is no array"),
        ({"tuple": 3}, "must not be a 'tuple'"),
        ({"part": None}, "a part must have a kind, a version and values"),
        ({"part": {"kind": ["x"], "version": 1, "values": {}}}, r"there is no part \['x'\]"),
        ({"part": {"kind": "margin", "version": True, "values": {}}}, "are no such things"),
        ({"part": {"kind": "margin", "version": 1, "values": []}}, "are no such things"),
        (
            {"part": {"kind": "margin", "version": 1, "values": {"a": {"value": 1}}}},
            "has the fields",
        ),
    ],
)
def test_values_that_no_part_has(value: Any, message: str) -> None:
    document = {"kind": "constant-temperature", "version": 1, "values": {"value": value}}
    with pytest.raises((ValueError, TypeError), match=message):
        from_state(document, {})


def test_what_a_file_cannot_hold_is_no_part() -> None:
    formula = ConstantTemperature(1.0)
    object.__setattr__(formula, "value", {"T": 1.0})
    with pytest.raises(TypeError, match=r"a part cannot hold a dict \(formula.value\)"):
        to_state(formula)


def test_a_formula_knows_its_classes() -> None:
    with pytest.raises(ValueError, match="fitted with 6 classes, got 5"):
        affine(PlainLogits(), full=True).check_classes(5)
    with pytest.raises(ValueError, match="reads the top 4 logits, got 3 classes"):
        network(TopLogits(4)).check_classes(3)


def test_parts_are_not_nested_without_end() -> None:
    value: Any = {"value": 1.0}
    for _ in range(20):
        value = {"part": {"kind": "constant-temperature", "version": 1, "values": {"value": value}}}
    with pytest.raises(ValueError, match="must not be nested deeper than 16"):
        from_state(value["part"], {})
    value = {"value": 1.0}
    for _ in range(20):
        value = {"tuple": [value]}
    document = {"kind": "constant-temperature", "version": 1, "values": {"value": value}}
    with pytest.raises(ValueError, match="must not be a 'tuple'"):
        from_state(document, {})


def _places(value: Any) -> list[tuple[Any, Any]]:
    """All values of a document, as holder and key."""
    found: list[tuple[Any, Any]] = []
    items = value.items() if isinstance(value, dict) else enumerate(value)
    for key, inner in items:
        if isinstance(inner, dict | list):
            found += _places(inner)
        else:
            found.append((value, key))
    return found
