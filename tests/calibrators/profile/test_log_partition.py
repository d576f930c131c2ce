"""The log-partition function psi of a row: both summaries against direct sums in float64."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pytest

from calibrant.calibrators.profile.log_partition import (
    B_MAX,
    B_MIN,
    FEW_CLASSES,
    GRID,
    GapRows,
    NodeRows,
    Psi,
    Workspace,
    joined,
    tabulate_tile,
)
from row_functions import top_k

Rows = GapRows | NodeRows


def gaps_of(logits: np.ndarray) -> np.ndarray:
    return (logits - logits.max(axis=1, keepdims=True)).astype(np.float32)


def gap_rows(logits: np.ndarray) -> GapRows:
    return GapRows(np.ascontiguousarray(np.sort(gaps_of(logits), axis=1)[:, ::-1].T))


def node_rows(logits: np.ndarray, k: int = 10) -> NodeRows:
    gaps = gaps_of(logits)
    finite = np.isfinite(gaps)
    return NodeRows(
        tabulate_tile(gaps, Workspace(*gaps.shape)),
        top_k(gaps, min(k, gaps.shape[1])),
        finite.sum(axis=1, dtype=np.int32),
        (gaps == 0.0).sum(axis=1, dtype=np.int32),
        np.where(finite, gaps, 0.0).sum(axis=1, dtype=np.float64).astype(np.float32)
        / finite.sum(axis=1, dtype=np.float32),
    )


def direct(logits: np.ndarray, b: np.ndarray | float) -> Psi:
    """psi and its derivatives with respect to log b by their definitions, of the float32 gaps."""
    exponent = np.broadcast_to(b, len(logits))[:, None] * gaps_of(logits).astype(np.float64)
    weight = np.exp(exponent)
    exponent = np.where(weight > 0.0, exponent, 0.0)
    total = weight.sum(axis=1)
    mean = (weight * exponent).sum(axis=1) / total
    second = (weight * exponent**2).sum(axis=1) / total
    return Psi(np.log(total), mean, mean + second - mean**2)


def read(rows: Rows, b: np.ndarray | float, count: int) -> Psi:
    return rows.psi(np.broadcast_to(np.asarray(b, np.float64), count), np.arange(count))


def masked_rows(rng: np.random.Generator) -> np.ndarray:
    logits = 5.0 * rng.standard_normal((40, 300))
    logits[rng.random(logits.shape) < 0.7] = -np.inf
    logits[:, 3] = 0.0
    return logits


def near_ties(rng: np.random.Generator, width: float) -> np.ndarray:
    """30 classes within ``width`` of the top one: more than the ten that are stored."""
    logits = rng.standard_normal((40, 300))
    logits[:, :30] = logits.max(axis=1, keepdims=True) + width * np.linspace(1.0, 2.0, 30)
    return logits


FAMILIES: dict[str, Callable[[np.random.Generator], np.ndarray]] = {
    "gaussian": lambda rng: 3.0 * rng.standard_normal((40, 300)),
    "wide": lambda rng: 1e4 * rng.standard_normal((40, 300)),
    "narrow": lambda rng: 1e-3 * rng.standard_normal((40, 300)),
    "near ties 1e-6": lambda rng: near_ties(rng, 1e-6),
    "near ties 1e-3": lambda rng: near_ties(rng, 1e-3),
    "near ties 0.1": lambda rng: near_ties(rng, 0.1),
    "ties": lambda rng: rng.integers(-8, 8, (40, 300)).astype(float),
    "constant": lambda rng: np.full((40, 300), 3.7),
    "masked": masked_rows,
    "one finite class": lambda rng: np.where(np.arange(300) == 7, 0.0, -np.inf) * np.ones((40, 1)),
    "student t3": lambda rng: rng.standard_t(3, (40, 300)),
    "cauchy": lambda rng: rng.standard_cauchy((40, 300)),
}


@pytest.fixture(params=FAMILIES)
def logits(request: pytest.FixtureRequest) -> np.ndarray:
    # an offset that the gaps must not see
    return FAMILIES[request.param](np.random.default_rng(5)) + 2.5


SUMMARIES = {"nodes": node_rows, "gaps": gap_rows}


@pytest.fixture(params=SUMMARIES)
def summary(request: pytest.FixtureRequest) -> Callable[[np.ndarray], Rows]:
    return SUMMARIES[request.param]


def random_b(rng: np.random.Generator, low: float, high: float, count: int) -> np.ndarray:
    """Drawn, not on a regular grid: that could keep step with the nodes and miss all errors."""
    return np.exp(rng.uniform(np.log(low), np.log(high), count))


# --- on the grid ------------------------------------------------------------------------------


def test_psi_and_its_derivatives_inside_the_grid(logits, summary):
    rng = np.random.default_rng(0)
    rows, count = summary(logits), len(logits)
    # the curvature is what is left of much larger second moments in float32
    for b in (B_MIN, B_MAX, *(random_b(rng, B_MIN, B_MAX, count) for _ in range(30))):
        psi, truth = read(rows, b, count), direct(logits, b)
        scale = np.maximum(1.0, np.abs(truth.value))
        assert np.all(np.abs(psi.value - truth.value) < 2e-5 * scale)
        assert np.all(np.abs(psi.slope - truth.slope) < 2e-4 * np.maximum(1, np.abs(truth.slope)))
        bound = 5e-3 * np.maximum(1.0, np.abs(truth.curvature))
        assert np.all(np.abs(psi.curvature - truth.curvature) < bound)


def test_the_derivatives_are_those_of_the_value_that_is_read(logits, summary):
    """Optimisers walk on what psi returns: slope and curvature must belong to its own value."""
    rng = np.random.default_rng(1)
    rows, count, step = summary(logits), len(logits), 1e-4
    for low, high in ((1e-9, B_MIN), (B_MIN, B_MAX), (B_MAX, 1e9)):
        b = random_b(rng, 1.01 * low, 0.99 * high, count)
        before, here, after = (read(rows, b * np.exp(s), count) for s in (-step, 0.0, step))
        slope = (after.value - before.value) / (2.0 * step)
        curvature = (after.slope - before.slope) / (2.0 * step)
        np.testing.assert_allclose(here.slope, slope, rtol=2e-5, atol=1e-7)
        # a quintic piece has a jump of its third derivative at the nodes
        np.testing.assert_allclose(here.curvature, curvature, rtol=2e-3, atol=2e-4)


def test_nodes_are_tabulated_exactly_and_read_as_they_are():
    logits = FAMILIES["gaussian"](np.random.default_rng(2))
    rows = node_rows(logits)
    for node in (0, 1, 17, 30, len(GRID) - 1):
        table = rows.nodes[:, node]
        psi, truth = read(rows, GRID[node], len(logits)), direct(logits, GRID[node])
        np.testing.assert_allclose(np.stack(psi, axis=1), table, rtol=0, atol=1e-6)
        np.testing.assert_allclose(table, np.stack(truth, axis=1), rtol=3e-5, atol=3e-5)


def test_scratch_memory_may_be_used_again():
    rng = np.random.default_rng(3)
    work = Workspace(8, 100)
    wide, small = gaps_of(1e4 * rng.standard_normal((8, 100))), gaps_of(rng.random((3, 100)))
    tabulate_tile(wide, work)
    np.testing.assert_array_equal(
        tabulate_tile(small, work), tabulate_tile(small, Workspace(3, 100))
    )


# --- beyond the grid --------------------------------------------------------------------------


@pytest.mark.parametrize("b", [1e-12, 1e-11, 1e-10])
def test_limit_of_small_b_is_all_finite_classes_alike(logits, summary, b):
    psi, truth = read(summary(logits), b, len(logits)), direct(logits, b)
    np.testing.assert_allclose(psi.value, truth.value, rtol=0, atol=1e-5)
    # d psi / d b is the mean gap
    np.testing.assert_allclose(psi.slope / b, truth.slope / b, rtol=1e-5, atol=1e-12)
    np.testing.assert_allclose(psi.curvature / b, truth.curvature / b, rtol=1e-3, atol=1e-12)


@pytest.mark.parametrize("b", [1e10, 1e11, 1e12])
def test_limit_of_large_b_is_the_tied_top_classes(logits, summary, b):
    psi, truth = read(summary(logits), b, len(logits)), direct(logits, b)
    ties = (gaps_of(logits) == 0.0).sum(axis=1)
    np.testing.assert_allclose(truth.value, np.log(ties), atol=1e-12)  # the limit is reached
    np.testing.assert_allclose(psi.value, np.log(ties), rtol=0, atol=1e-3)
    np.testing.assert_allclose(psi.slope, 0.0, atol=1e-3)
    np.testing.assert_allclose(psi.curvature, 0.0, atol=1e-3)


def test_large_b_with_ties_and_near_ties_beyond_the_stored_classes():
    """Twelve ties fill the ten stored places; forty classes lie just below, unseen."""
    rng = np.random.default_rng(4)
    logits = rng.standard_normal((20, 200)) - 10.0
    logits[:, :12] = 1.0
    logits[:, 12:52] = 1.0 - 1e-3 * (0.5 + rng.random((20, 40)))
    rows = node_rows(logits)
    np.testing.assert_allclose(read(rows, 1e12, 20).value, np.log(12.0), atol=1e-3)
    np.testing.assert_allclose(read(rows, B_MAX, 20).value, direct(logits, B_MAX).value, atol=1e-5)


@pytest.mark.parametrize("b", [41.0, 50.0, 80.0])
def test_just_beyond_the_grid_psi_is_still_right(logits, summary, b):
    """The Brier score at T in [0.025, 0.05] needs psi here."""
    psi, truth = read(summary(logits), b, len(logits)), direct(logits, b)
    assert np.all(np.abs(psi.value - truth.value) < 5e-3)
    assert np.all(np.abs(psi.slope - truth.slope) < 2e-2 * np.maximum(1, np.abs(truth.slope)))


def test_everywhere_finite_falling_and_between_its_limits(logits, summary):
    rows, count = summary(logits), len(logits)
    low, high = direct(logits, 1e-300).value, np.log((gaps_of(logits) == 0.0).sum(axis=1))
    before = low
    for b in np.geomspace(1e-12, 1e12, 700):
        psi = read(rows, b, count)
        assert all(np.isfinite(part).all() for part in psi)
        assert np.all(psi.slope <= 1e-6)
        assert np.all(psi.value <= before + 2e-6)
        assert np.all(psi.value >= high - 2e-6)
        before = psi.value


@pytest.mark.parametrize("edge", [B_MIN, B_MAX])
def test_no_jump_where_the_limits_take_over(logits, edge):
    rows, count = node_rows(logits), len(logits)
    inside, outside = (read(rows, edge * (1.0 + s), count) for s in (1e-9, -1e-9))
    np.testing.assert_allclose(inside.value, outside.value, atol=2e-5)
    np.testing.assert_allclose(inside.slope, outside.slope, rtol=1e-3, atol=1e-3)


# --- joining and choosing ---------------------------------------------------------------------


def test_joined_parts_are_one_pass(summary):
    logits = FAMILIES["gaussian"](np.random.default_rng(6))
    whole, parts = summary(logits), joined([summary(logits[:7]), summary(logits[7:])])
    b = random_b(np.random.default_rng(7), 1e-3, 1e3, len(logits))
    for one, other in zip(read(whole, b, 40), read(parts, b, 40), strict=True):
        np.testing.assert_array_equal(one, other)


def test_rows_are_chosen_by_index_and_may_repeat(summary):
    logits = FAMILIES["gaussian"](np.random.default_rng(8))
    rows, index = summary(logits), np.array([5, 0, 5, 39])
    b = np.array([0.001, 0.5, 2.0, 300.0])
    for one, other in zip(rows.psi(b, index), rows.take(index).psi(b, np.arange(4)), strict=True):
        np.testing.assert_array_equal(one, other)
    np.testing.assert_allclose(rows.psi(b, index).value, direct(logits[index], b).value, atol=1e-4)


def test_a_pair_is_psi_at_b_and_at_twice_b(logits, summary):
    rng = np.random.default_rng(3)
    rows = summary(logits)
    b = random_b(rng, 1e-4, 1e3, len(logits))
    index = rng.permutation(len(logits))
    pair = rows.psi_pair(b, index)
    one, two = rows.psi(b, index), rows.psi(2.0 * b, index)
    for got, expected in zip(pair, (one.value, one.slope, two.value, two.slope), strict=True):
        # of many gaps in float32: the error of an exponent is that of b d
        tolerance = 1e-6 if isinstance(rows, GapRows) and len(rows.gaps) > FEW_CLASSES else 1e-9
        np.testing.assert_allclose(got, expected, rtol=tolerance, atol=tolerance)
