"""The same rows give the same probabilities, however they lie in memory, alone or in a batch."""

from __future__ import annotations

import numpy as np
import pandas as pd
import pytest
import torch

import calibrant
from calibrant.calibrators import REGISTRY
from calibrant.common.arrays import TILE_ELEMENTS
from calibrant.torch import to_module

pytestmark = pytest.mark.filterwarnings(
    "ignore::calibrant.CalibrationWarning", "ignore:the matrix subclass:PendingDeprecationWarning"
)

CLASSES = 5
TOLERANCE = {"float32": 1e-6, "float64": 1e-12}


def example(classes: int, rows: int = 300) -> tuple[np.ndarray, np.ndarray]:
    rng = np.random.default_rng(4)
    logits = 2.0 * rng.normal(size=(rows, classes))
    noisy = logits + rng.gumbel(size=logits.shape)
    return logits, noisy.argmax(axis=1)


def fitted(method: str) -> tuple[calibrant.calibrators.Calibrator, np.ndarray]:
    logits, labels = example(2 if method == "beta" else CLASSES)
    return calibrant.calibrator(method).fit(logits, labels), logits


@pytest.mark.parametrize("kind", ["float32", "float64"])
@pytest.mark.parametrize("method", REGISTRY)
def test_layout_does_not_matter(method: str, kind: str) -> None:
    model, logits = fitted(method)
    rows = logits.astype(kind)
    whole = model.predict_proba(rows)
    assert not np.isnan(whole).any()
    transposed = torch.from_numpy(np.ascontiguousarray(rows.T)).T
    others = {
        "alone": np.vstack([model.predict_proba(row[None]) for row in rows[:40]]),
        "Fortran order": model.predict_proba(np.asfortranarray(rows)),
        "data frame": model.predict_proba(pd.DataFrame(rows)),
        "transposed tensor": model.predict_proba(transposed).numpy(),
        "every second row": model.predict_proba(np.repeat(rows, 2, axis=0)[::2]),
        "matrix": model.predict_proba(np.asmatrix(rows)),
        "other byte order": model.predict_proba(rows.astype(rows.dtype.newbyteorder())),
    }
    for layout, probs in others.items():
        np.testing.assert_allclose(
            probs, whole[: len(probs)], rtol=0, atol=TOLERANCE[kind], err_msg=layout
        )


@pytest.mark.parametrize("method", REGISTRY)
def test_a_last_tile_of_one_row(method: str) -> None:
    model, logits = fitted(method)
    rows = TILE_ELEMENTS // logits.shape[1] + 1
    tall = logits[np.arange(rows) % len(logits)]
    last = model.predict_proba(tall)[-1]
    np.testing.assert_allclose(
        last, model.predict_proba(tall[-5:])[-1], rtol=0, atol=TOLERANCE["float64"]
    )


def test_one_row_of_equal_scores_is_no_nan() -> None:
    logits = [[0, 0.1, -9], [0, -9, 0.1], [-9, 0, 0.1], [0.1, 0, -9], [0.1, -9, 0], [-9, 0.1, 0]]
    irova = calibrant.calibrator("irova").fit(logits, [1, 2, 2, 0, 0, 1])
    expected = [[0.332, 0.332, 0.336]]
    np.testing.assert_allclose(irova.predict_proba([[0.0, 0, 0.01]]), expected, atol=5e-4)


def test_matrix_scaling_of_float32_probabilities_fits_no_rounding_noise() -> None:
    logits, labels = example(CLASSES, 2000)
    probs = np.exp(logits) / np.exp(logits).sum(axis=1, keepdims=True)
    wide, narrow = (
        calibrant.calibrator("matrix", input="probs").fit(part, labels).predict_proba(part)
        for part in (probs, probs.astype(np.float32))
    )
    np.testing.assert_allclose(narrow, wide, rtol=0, atol=1e-4)


def test_masked_arrays_are_refused() -> None:
    logits, labels = example(CLASSES)
    masked = np.ma.masked_greater(logits, 3.0)
    with pytest.raises(TypeError, match=r"logits must not have masked entries .*filled"):
        calibrant.TS().fit(masked, labels)
    with pytest.raises(TypeError, match="labels must not have masked entries"):
        calibrant.TS().fit(logits, np.ma.masked_equal(labels, 1))
    with pytest.raises(TypeError, match="sample_weight must not have masked entries"):
        calibrant.TS().fit(logits, labels, np.ma.masked_equal(labels + 1.0, 1.0))
    unmasked = calibrant.TS().fit(np.ma.array(logits), np.ma.array(labels)).temperature_
    assert unmasked == calibrant.TS().fit(logits, labels).temperature_


def test_the_other_byte_order_keeps_its_precision() -> None:
    model, logits = fitted("ts")
    for kind, working in ((">f2", "f4"), (">f4", "f4"), (">f8", "f8"), (">i4", "f8")):
        assert model.predict_proba(logits.astype(kind)).dtype == np.dtype(working)


def test_columns_that_may_have_missing_values() -> None:
    logits, labels = example(CLASSES)
    table, target = pd.DataFrame(logits).astype("Float64"), pd.Series(labels, dtype="Int64")
    weight = pd.Series(np.ones(len(labels)), dtype="Float64")
    model = calibrant.TS().fit(table, target, weight)
    assert model.temperature_ == calibrant.TS().fit(logits, labels).temperature_
    table.iloc[3, 1] = None
    with pytest.raises(TypeError, match=r"logits must not have missing values \(NA\): leave such"):
        model.predict_proba(table)
    with pytest.raises(TypeError, match="logits must be an array of numbers, got dtype object"):
        model.predict_proba(table.assign(name="a"))


@pytest.mark.parametrize("kind", ["float32", "float64"])
@pytest.mark.parametrize("method", REGISTRY)
def test_neighbouring_probabilities_keep_their_order(method: str, kind: str) -> None:
    """Their logarithms are the same float: the arg max must not move to the first of them."""
    classes = 2 if method == "beta" else 4
    logits, labels = example(classes)
    probs = np.exp(logits) / np.exp(logits).sum(axis=1, keepdims=True)
    model = calibrant.calibrator(method, input="probs").fit(probs, labels)
    near = np.full((1, classes), 1.0 / classes, kind)
    near[0, -1] = np.nextafter(near[0, 0], near.dtype.type(1.0))
    if not model.accuracy_preserving:
        return
    for scores in (near, torch.from_numpy(near)):
        assert int(model.predict(scores)[0]) == classes - 1
        assert int(model.predict_proba(scores)[0].argmax()) in (0, classes - 1)
        assert float(model.predict_proba(scores)[0, -1]) == model.predict_proba(near).max()
    module = to_module(model)(torch.from_numpy(near))
    assert module[0, -1] == module.max()
