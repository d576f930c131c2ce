"""Averages of formulas: their values, what they keep, and every way of computing them."""

from __future__ import annotations

import copy
import pickle
import tempfile
from collections.abc import Callable
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np
import onnxruntime
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

import calibrant
from calibrant.backends.cuda import dispatch as cuda
from calibrant.backends.numba import dispatch as numba
from calibrant.formulas import (
    AbsoluteLink,
    AffineMap,
    Chain,
    ClassShares,
    ColumnMap,
    ConstantTemperature,
    Formula,
    FormulaRows,
    IncreasingTable,
    LinearOdds,
    Lines,
    Margin,
    Mixture,
    NetworkTemperature,
    PlainLogits,
    Pool,
    SeenClasses,
    Smoothed,
    TopLabelMap,
    TopLogits,
)
from calibrant.formulas._array_operations import NUMPY
from calibrant.onnx import export
from calibrant.torch import to_module
from crafting import with_formula
from hard_logits import adversarial

CLASSES = 5
SHARES = np.array([0.4, 0.3, 0.15, 0.1, 0.05])
SLOPES, INTERCEPT = np.linspace(0.4, 1.6, CLASSES), np.linspace(-1.0, 1.0, CLASSES)
WEIGHTS = np.array([0.5, 0.3, 0.2])
COLD = ConstantTemperature(0.5)
WARM = ConstantTemperature(3.0)


def vector(classes: int = CLASSES) -> AffineMap:
    return AffineMap(PlainLogits(), SLOPES[:classes], INTERCEPT[:classes], 1e15)


def equal() -> Mixture:
    """The uniform distribution."""
    return Mixture(1.0, np.array([0.0, 0.0, 1.0]))


def even_shares(classes: int) -> ClassShares:
    return ClassShares(np.full(classes, 1.0 / classes))


def usual() -> Pool:
    """What moves the arg max: temperature scaling, an affine map, and shares."""
    return Pool(WEIGHTS, (ConstantTemperature(2.0), vector(), ClassShares(SHARES)))


def network(top: int = 2) -> NetworkTemperature:
    kernels, biases = (np.ones((top, 3)), np.ones((3, 1))), (np.zeros(3), np.ones(1))
    high, link = np.full(top, 9.0), AbsoluteLink(0.1, 10.0)
    return NetworkTemperature(TopLogits(top), -high, high, kernels, biases, False, link, None)


def keeping(classes: int) -> Pool:
    """One of formulas that keep the arg max, and hardly tell nearly tied classes apart."""
    table = IncreasingTable(-3.0, 3.0, np.array([0.0, 0.1, 0.1, 4.0]), 0.7)
    members = (COLD, network(), Mixture(2.0, [0.2, 0.5, 0.3]), table, equal())
    return Pool([0.4, 0.05, 0.2, 0.15, 0.2], members)


def keeping_top_label(classes: int) -> Pool:
    """One that is computed in float64 throughout, whose ties a member breaks."""
    top = TopLabelMap(Lines.join([([0.0, 1.0], [0.3, 0.9])]), classes, 0.99)
    return Pool([0.4, 0.2, 0.4], (COLD, top, equal()))


def rows(classes: int = CLASSES, dtype: Any = np.float64) -> np.ndarray:
    """Ordinary, tied, nearly tied and masked rows, without the hugest."""
    logits = adversarial(classes, np.float64)
    logits = logits[np.abs(np.where(np.isfinite(logits), logits, 0.0)).max(axis=1) < 1e4]
    return logits.astype(dtype)


def logs_of(formula: Formula, logits: np.ndarray) -> np.ndarray:
    return formula.log_probabilities(FormulaRows(logits), NUMPY)


def calibrator(formula: Formula, classes: int = CLASSES) -> Any:
    return with_formula(calibrant.Uncalibrated(), formula, classes)


def softmax(scores: np.ndarray) -> np.ndarray:
    wide = scores.astype(np.longdouble)
    weight = np.exp(wide - wide.max(axis=1, keepdims=True))
    return weight / weight.sum(axis=1, keepdims=True)


# --- values -------------------------------------------------------------------------------------


def shares_by_hand(logits: np.ndarray, shares: np.ndarray) -> np.ndarray:
    """Row by row: softmax of the log shares, where masked classes are -inf."""
    return softmax(np.where(np.isneginf(logits), -np.inf, np.log(shares.astype(np.longdouble))))


def pool_by_hand(logits: np.ndarray) -> np.ndarray:
    moved = np.where(np.isneginf(logits), -np.inf, logits * SLOPES + INTERCEPT)
    parts = [softmax(logits / 2.0), softmax(moved), shares_by_hand(logits, SHARES)]
    return sum(weight * part for weight, part in zip(WEIGHTS, parts, strict=True))


def test_shares_are_those_of_every_row() -> None:
    formula, logits = ClassShares(SHARES), rows()
    expected = shares_by_hand(logits, SHARES).astype(np.float64)
    np.testing.assert_allclose(formula(logits), expected, rtol=1e-14, atol=0)
    np.testing.assert_allclose(formula(logits.astype(np.float32)), expected, rtol=5e-7, atol=0)
    with np.errstate(divide="ignore"):
        logs = np.log(expected)
    np.testing.assert_allclose(logs_of(formula, logits), logs, rtol=1e-13, atol=1e-15)
    assert formula.n_classes == CLASSES


def test_a_class_alone_gets_all() -> None:
    formula = ClassShares([1e-37, 0.5, 0.5])
    for dtype in (np.float32, np.float64):
        alone = np.array([[0.0, -np.inf, -np.inf], [3.0, 2.0, -np.inf]], dtype)
        probs = formula(alone)
        np.testing.assert_array_equal(probs[0], [1.0, 0.0, 0.0])
        assert 0.0 < probs[1, 0] < 3e-37
        assert np.isfinite(logs_of(formula, alone)[1, :2]).all()


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_a_pool_is_the_weighted_average(dtype: Any) -> None:
    logits, slack = rows(dtype=dtype), 2e-6 if dtype == np.float32 else 1e-14
    expected = pool_by_hand(logits.astype(np.float64)).astype(np.float64)
    probs = usual()(logits)
    assert probs.dtype == dtype
    np.testing.assert_allclose(probs, expected, rtol=0, atol=slack)
    np.testing.assert_allclose(probs.sum(axis=1, dtype=np.float64), 1.0, rtol=0, atol=slack)
    assert not probs[np.isneginf(logits)].any()
    with np.errstate(divide="ignore"):
        logs = np.log(expected)
    np.testing.assert_allclose(logs_of(usual(), logits), logs, rtol=0, atol=4 * slack)


def test_the_same_formula_twice_is_that_formula() -> None:
    logits = rows()
    pool = Pool([0.25, 0.75], (vector(), vector()))
    np.testing.assert_allclose(pool(logits), vector()(logits), rtol=1e-15)
    logs = logs_of(vector(), logits)
    np.testing.assert_allclose(logs_of(pool, logits), logs, rtol=1e-14, atol=1e-15)


def test_an_average_in_an_average_is_a_part_of_another_formula() -> None:
    """Of some classes alone, at the end of a chain, and behind smoothing."""
    logits = rows()
    some = SeenClasses.of(CLASSES, [0, 2, 4], 1.3, Pool([0.9, 0.1], (COLD, vector(3))))
    every = Pool([0.6, 0.4], (some, Chain((vector(),), usual())))
    smoothed = Smoothed(0.1, CLASSES, every)
    expected = 0.6 * some(logits) + 0.4 * usual()(vector().scores(FormulaRows(logits), NUMPY))
    np.testing.assert_allclose(every(logits), expected, rtol=0, atol=1e-15)
    mixed = np.log(0.9 * softmax(logits).astype(np.float64) + 0.1 / CLASSES)
    mixed -= mixed.mean(axis=1, keepdims=True)
    np.testing.assert_allclose(smoothed(logits), every(mixed), rtol=0, atol=1e-12)
    for formula in (every, smoothed):
        np.testing.assert_allclose(
            np.exp(logs_of(formula, logits)), formula(logits), rtol=0, atol=1e-12
        )


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_logarithms_stay_finite_where_probabilities_do_not(dtype: Any) -> None:
    gap = 1e3 if dtype == np.float32 else 1e4
    logits = np.array([[0.0, -gap, -3.0 * gap, -np.inf, 1.0]], dtype)
    pool = Pool([1.0 - 1e-30, 1e-30], (ConstantTemperature(1.0), ConstantTemperature(2.0)))
    assert pool(logits)[0, 2] == 0.0
    logs = logs_of(pool, logits)
    norm = np.log1p(np.exp(0.5))
    wide = np.log(1e-30) + np.array([-gap, -3.0 * gap]) / 2.0 - norm  # the second term alone
    np.testing.assert_allclose(logs[0, 1:3], wide, rtol=0, atol=1e-6 * gap)
    np.testing.assert_array_equal(np.isneginf(logs), np.isneginf(logits))
    module = to_module(calibrator(pool))
    by_torch = module.log_proba(torch.from_numpy(logits)).numpy()
    np.testing.assert_allclose(by_torch, logs, rtol=1e-6)


# --- the arg max --------------------------------------------------------------------------------


def test_what_keeps_the_arg_max() -> None:
    assert equal().keeps_arg_max
    assert not ClassShares(SHARES).keeps_arg_max
    assert Pool([0.5, 0.5], (COLD, equal())).keeps_arg_max
    assert not Pool([0.5, 0.5], (COLD, ClassShares(SHARES))).keeps_arg_max
    assert not usual().keeps_arg_max
    for around in (Smoothed(0.1, CLASSES, keeping(CLASSES)), Chain((COLD,), keeping(CLASSES))):
        assert around.keeps_arg_max


KEEPING = {"plain": keeping, "top label": keeping_top_label}


@cache
def interpreters(
    name: str, classes: int, dtype: str
) -> dict[str, Callable[[np.ndarray], np.ndarray]]:
    """All ways to the probabilities of such a pool."""
    model = calibrator(KEEPING[name](classes), classes)
    module, options = to_module(model), onnxruntime.SessionOptions()
    options.intra_op_num_threads = 1
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder, "pool.onnx")
        names = export(model, path, dtype=dtype)  # type: ignore[arg-type]
        session = onnxruntime.InferenceSession(path, options)
    return {
        "formula": model.formula_,
        "predict_proba": model.predict_proba,
        "array API": lambda rows: model.formula_(torch.from_numpy(rows)).numpy(),
        "torch": lambda rows: module(torch.from_numpy(rows)).numpy(),
        "onnx": lambda rows: session.run([names.probabilities], {names.input: rows})[0],
        "logarithms": lambda rows: model.predict_log_proba(rows),
        "logarithms by torch": lambda rows: module.log_proba(torch.from_numpy(rows)).numpy(),
    }


@st.composite
def hard_rows(draw: Any) -> np.ndarray:
    """Rows of a few values, their neighbours, huge ones and masks, in either float."""
    dtype = draw(st.sampled_from([np.float32, np.float64]))
    classes = draw(st.sampled_from([2, 5]))
    limit = float(np.finfo(dtype).max)
    usual = st.floats(-30.0, 30.0).map(dtype)
    some = [*draw(st.lists(usual, min_size=1, max_size=3)), dtype(0.0), dtype(0.3)]
    near = [np.nextafter(one, dtype(np.inf)) for one in some]
    far = [dtype(limit), dtype(-limit), dtype(-1e9), dtype(-np.inf)]
    value = st.sampled_from([*some, *near, *near, *far])
    row = st.lists(value, min_size=classes, max_size=classes)
    found = [one for one in draw(st.lists(row, min_size=1, max_size=20)) if max(one) > -np.inf]
    return np.array(found, dtype).reshape(-1, classes)


@pytest.mark.parametrize("name", KEEPING)
@given(logits=hard_rows())
def test_no_class_passes_the_arg_max(name: str, logits: np.ndarray) -> None:
    """A class of a smaller score does not even reach it; in graphs it may."""
    best_score = logits.max(axis=1, keepdims=True)
    for way, compute in interpreters(name, logits.shape[1], logits.dtype.name).items():
        values = compute(logits)
        best = np.take_along_axis(values, logits.argmax(axis=1)[:, None], axis=1)
        assert (values <= best).all(), way
        assert way == "onnx" or (values < best)[logits < best_score].all(), way
        probs = np.exp(values) if "logarithms" in way else values
        np.testing.assert_allclose(probs.sum(axis=1), 1.0, rtol=0, atol=2e-6, err_msg=way)


def test_predictions_are_read_off_the_scores() -> None:
    model = calibrator(keeping(2), 2)
    close = np.array([[1.0, np.nextafter(1.0, 2.0)], [0.5, 0.5], [9.0, -np.inf]])
    np.testing.assert_array_equal(model.predict(close), [1, 0, 0])
    found = model.predict_confidence(close)
    np.testing.assert_array_equal(found.label, [1, 0, 0])
    np.testing.assert_array_equal(found.probability, model.predict_proba(close).max(axis=1))
    assert found.temperature is None
    moving = calibrator(usual())
    logits = rows()
    label = usual()(logits).argmax(axis=1)
    assert (label != logits.argmax(axis=1)).any()
    found = moving.predict_confidence(logits)
    np.testing.assert_array_equal(moving.predict(logits), label)
    np.testing.assert_array_equal(found.label, label)
    np.testing.assert_array_equal(found.probability, usual()(logits).max(axis=1))
    smoothed = calibrator(Smoothed(0.1, CLASSES, usual())).predict_confidence(logits)
    assert smoothed.temperature is None


# --- properties of the members ------------------------------------------------------------------


def column(classes: int) -> ColumnMap:
    return ColumnMap(Lines.join([([0.0, 1.0], [0.1, 1.0])]), classes)


def test_properties_follow_from_the_members() -> None:
    pool = Pool([0.5, 0.25, 0.25], (network(4), COLD, even_shares(7)))
    assert (pool.n_classes, pool.fewest_classes, pool.widest) == (7, 4, 3 + 3)
    assert not pool.host_only
    assert not pool.large_product
    assert (pool.needs, pool.covariate_names) == ((), ())
    assert Pool([0.5, 0.5], (column(3), COLD)).host_only
    assert Pool([0.5, 0.5], (COLD, WARM)).n_classes is None
    large = AffineMap(PlainLogits(), np.eye(256), np.zeros(256), 1.0)
    assert Pool([0.5, 0.5], (COLD, large)).large_product
    with pytest.raises(ValueError, match="fitted with 7 classes, got 5"):
        pool.check_classes(5)


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_a_pool_on_the_host_keeps_kind_and_float(dtype: Any) -> None:
    """Float64 throughout where a member wants it, and the array of the scores all the same."""
    model = calibrator(Pool([0.5, 0.5], (column(CLASSES), COLD)))
    logits = rows(dtype=dtype)
    found = model.predict_proba(torch.from_numpy(logits))
    assert isinstance(found, torch.Tensor)
    np.testing.assert_array_equal(found.numpy(), model.predict_proba(logits))
    assert model.predict_proba(logits).dtype == dtype


def test_there_is_no_kernel_and_no_machine_code() -> None:
    large = np.zeros((numba.SMALLEST, CLASSES), np.float32)
    for formula in (usual(), Pool([0.5, 0.5], (COLD, WARM)), even_shares(CLASSES)):
        assert cuda.plan_of(formula) is None
        assert cuda.fused(formula, torch.zeros(2, CLASSES), "probabilities") is None
        assert numba.compiled_probabilities(formula, large) is None


def test_empty_batches(tmp_path: Path) -> None:
    model = calibrator(keeping(CLASSES))
    empty = np.zeros((0, CLASSES), np.float32)
    assert model.predict_proba(empty).shape == (0, CLASSES)
    assert to_module(model)(torch.zeros(3, 0, CLASSES)).shape == (3, 0, CLASSES)
    names = export(model, tmp_path / "pool.onnx")
    session = onnxruntime.InferenceSession(tmp_path / "pool.onnx")
    assert session.run([names.probabilities], {names.input: empty})[0].shape == (0, CLASSES)


def test_many_rows_are_those_of_few() -> None:
    """On tiles and threads as all at once."""
    logits = np.tile(rows(), (40, 1))
    for formula in (usual(), keeping(CLASSES)):
        np.testing.assert_array_equal(
            calibrator(formula).predict_proba(logits)[-50:], formula(logits[-50:])
        )


# --- PyTorch ------------------------------------------------------------------------------------


def test_a_module_knows_what_its_members_keep() -> None:
    """A module has the shares as buffers: what follows from their values goes with it."""
    inside = SeenClasses.of(CLASSES, [0, 1, 3], 1.0, Pool([0.5, 0.5], (COLD, equal())))
    logits = torch.from_numpy(rows())
    for formula in (inside, keeping(CLASSES), Smoothed(0.1, CLASSES, usual())):
        module = to_module(calibrator(formula))
        probs = module(logits)
        np.testing.assert_allclose(probs, formula(logits.numpy()), rtol=0, atol=1e-12)
        for other in (copy.deepcopy(module), pickle.loads(pickle.dumps(module))):
            assert torch.equal(other(logits), probs)
        other = to_module(calibrator(formula))
        for buffer in other.buffers():
            buffer.zero_()
        other.load_state_dict(module.state_dict())
        assert torch.equal(other(logits), probs)
        assert module.confidence(logits).temperature is None


def test_a_module_is_exported() -> None:
    module, logits = to_module(calibrator(keeping(CLASSES))), torch.from_numpy(rows())
    batch = torch.export.Dim("batch", min=2)
    program = torch.export.export(module, (logits[:20],), dynamic_shapes=({0: batch},))
    torch.testing.assert_close(program.module()(logits), module(logits), rtol=0, atol=1e-12)


@pytest.mark.parametrize("output", ["forward", "log_proba"])
@pytest.mark.parametrize("formula", [usual(), Pool([0.6, 0.4], (WARM, equal()))])
def test_gradients_agree_with_differences(formula: Formula, output: str) -> None:
    rng = np.random.default_rng(3)
    logits = torch.from_numpy(3.0 * rng.standard_normal((6, CLASSES)))
    logits[0, 2:4] = -torch.inf
    seen = torch.isfinite(logits)
    compute, weight = getattr(to_module(calibrator(formula)), output), torch.arange(CLASSES) + 1.0

    def value(z: Any) -> Any:
        return torch.where(seen, compute(z) * weight, 0.0).sum()

    z = logits.clone().requires_grad_()
    value(z).backward()
    assert bool(torch.isfinite(z.grad).all())
    step = 1e-6 * torch.from_numpy(rng.standard_normal((6, CLASSES)))
    difference = value(logits + step) - value(logits - step)
    assert difference.item() == pytest.approx(2.0 * (z.grad * step).sum().item(), rel=1e-4)


# --- files --------------------------------------------------------------------------------------


def deepest() -> Formula:
    """A pool as deep within others as any fit could put it, and a network as deep within it."""
    chain = Chain((WARM, COLD), network())
    some = SeenClasses.of(5, [0, 1, 2, 4], 1.0, Pool([0.5, 0.5], (chain, equal())))
    return Smoothed(0.1, 5, Chain((WARM,), Pool([0.5, 0.5], (some, COLD))))


@pytest.mark.parametrize(
    "formula",
    [
        usual(),
        even_shares(CLASSES),
        deepest(),
        Pool([1.0 / 16] * 16, tuple(map(ConstantTemperature, range(1, 17)))),
    ],
    ids=["usual", "equal shares", "deepest", "16 members"],
)
def test_files_keep_every_bit(formula: Formula, tmp_path: Path) -> None:
    model = with_formula(calibrant.HistogramBinning(), formula, CLASSES)
    calibrant.save(model, tmp_path / "pool.safetensors")
    again = calibrant.load(tmp_path / "pool.safetensors")
    np.testing.assert_array_equal(again.predict_proba(rows()), model.predict_proba(rows()))
    assert again.accuracy_preserving == formula.keeps_arg_max
    assert type(again.formula_) is type(formula)


def test_methods_that_keep_the_arg_max_save_no_pool_that_does_not(tmp_path: Path) -> None:
    with pytest.raises(ValueError, match="keeps the arg max, its formula does not"):
        calibrant.save(calibrator(usual()), tmp_path / "pool.safetensors")


# --- bad input ----------------------------------------------------------------------------------

PAIR = (COLD, WARM)
BAD: list[tuple[Callable[[], Any], type[Exception], str]] = [
    (
        lambda: ClassShares([0.5, 0.0, 0.5]),
        ValueError,
        r"^shares must be numbers from 1e-37 to 1, got 0.0$",
    ),
    (
        lambda: ClassShares([0.5, np.nan]),
        ValueError,
        r"^shares must be numbers from 1e-37 to 1, got nan$",
    ),
    (lambda: ClassShares([0.5, 0.4]), ValueError, r"^shares must sum to 1, got 0.9$"),
    (lambda: ClassShares([1.0]), ValueError, r"^there must be at least two classes, got 1$"),
    (
        lambda: ClassShares([[0.5, 0.5]]),
        ValueError,
        r"^shares must have 1 dimensions, got shape \(1, 2\)$",
    ),
    (
        lambda: ClassShares(["a", "b"]),
        TypeError,
        "^shares must be an array of float64, got dtype <U1$",
    ),
    (
        lambda: Pool([1.2, -0.2], PAIR),
        ValueError,
        r"^weights must be numbers from 1e-37 to 1, got 1.2$",
    ),
    (lambda: Pool([1.0, 0.0], PAIR), ValueError, "^weights must be .* to 1, got 0.0$"),
    (lambda: Pool([0.6, 0.5], PAIR), ValueError, r"^weights must sum to 1, got 1.1$"),
    (lambda: Pool([0.5] * 3, PAIR), ValueError, r"^weights must have shape \(2,\), got \(3,\)$"),
    (lambda: Pool([1.0], (COLD,)), ValueError, "^members must be 2 to 16, got 1$"),
    (
        lambda: Pool(np.full(17, 1 / 17), (COLD,) * 17),
        ValueError,
        "^members must be 2 to 16, got 17$",
    ),
    (
        lambda: Pool([0.5, 0.5], list(PAIR)),  # type: ignore[arg-type]
        TypeError,
        r"^members must be a tuple of formulas, got \[Const",
    ),
    (
        lambda: Pool([0.5, 0.5], (COLD, Margin())),  # type: ignore[arg-type]
        TypeError,
        r"^members must be a tuple of formulas, got \(.*Margin\(\)\)$",
    ),
    (
        lambda: Pool([0.5, 0.5], (COLD, Pool([0.5, 0.5], PAIR))),
        ValueError,
        "^no member may be a Pool or a Smoothed, got a Pool$",
    ),
    (
        lambda: Pool([0.5, 0.5], (COLD, Smoothed(0.1, 3, COLD))),
        ValueError,
        "^no member may be a Pool or a Smoothed, got a Smoothed$",
    ),
    (
        lambda: Pool([0.5, 0.5], (LinearOdds(1.0, 0.0), even_shares(3))),
        ValueError,
        r"^all members must be made for the same classes, got \{2, 3\}$",
    ),
    (
        lambda: Pool([0.5, 0.5], (network(4), even_shares(3))),
        ValueError,
        "^the calibrator reads the top 4 logits, got 3 classes$",
    ),
    (
        lambda: Smoothed(0.1, 3, Pool([0.5, 0.5], (COLD, even_shares(2)))),
        ValueError,
        "^fitted with 2 classes, got 3$",
    ),
]


@pytest.mark.parametrize(("make", "error", "message"), BAD)
def test_bad_input(make: Callable[[], Any], error: type[Exception], message: str) -> None:
    with pytest.raises(error, match=message):
        make()
