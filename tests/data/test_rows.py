"""Rows: checked once, sliced, reordered and split whole."""

from __future__ import annotations

from typing import Any

import numpy as np
import pandas as pd
import polars as pl
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

import calibrant
from calibrant.common.arrays import to_numpy
from calibrant.data.checks import covariate_matrix
from calibrant.data.rows import Rows

N = 24


def example(**options: Any) -> Rows:
    rng = np.random.default_rng(0)
    given: dict[str, Any] = {
        "sample_weight": rng.uniform(0.5, 2.0, N),
        "groups": np.arange(N) // 3,
        "segments": np.where(np.arange(N) % 2, "odd", "even"),
        "covariates": {"length": np.arange(N), "country": np.array(["de", "fr", "it"] * 8)},
    }
    return Rows.of(rng.normal(size=(N, 3)), rng.integers(3, size=N), **{**given, **options})


def columns(rows: Rows) -> list[tuple[Any, ...]]:
    """All that is known of each row."""
    covariates = rows.covariates or {}
    parts = (rows.labels, rows.weight, rows.groups, rows.segments, *covariates.values())
    return [
        (*map(float, score), *row)
        for score, *row in zip(to_numpy(rows.scores), *parts, strict=True)
    ]


# --- choosing rows ------------------------------------------------------------------------------


@given(st.lists(st.integers(0, N - 1), max_size=2 * N))
def test_everything_of_a_row_stays_with_it(index: list[int]) -> None:
    rows = example()
    every = columns(rows)
    assert columns(rows.take(np.array(index, int))) == [every[at] for at in index]


def test_slices_masks_and_tiles() -> None:
    rows = example()
    every = columns(rows)
    assert columns(rows[3:20:2]) == every[3:20:2]
    assert np.shares_memory(rows[3:20].scores, rows.scores)
    mask = np.arange(N) % 5 == 0
    assert columns(rows.take(mask)) == [row for row, kept in zip(every, mask, strict=True) if kept]
    tiles = list(rows.tiles(12))
    assert [row for _, tile in tiles for row in columns(tile)] == every
    assert [place.start for place, _ in tiles] == list(range(0, N, 4))


def test_rows_of_a_device_are_taken_where_they_lie() -> None:
    rows = example()
    other = rows.with_scores(torch.from_numpy(rows.scores))
    chosen = other.take([5, 2])
    assert isinstance(chosen.scores, torch.Tensor)
    assert columns(chosen) == columns(rows.take([5, 2]))


def test_ignored_rows_take_everything_with_them() -> None:
    rng = np.random.default_rng(0)
    labels = rng.integers(3, size=N)
    labels[::4] = -100
    rows = example()
    kept = Rows.of(
        rows.scores,
        labels,
        rows.weight,
        ignore_index=-100,
        groups=rows.groups,
        segments=rows.segments,
        covariates=rows.covariates,
    )
    index = np.flatnonzero(labels != -100)
    expected = rows.take(index)
    assert [row[4:] for row in columns(kept)] == [row[4:] for row in columns(expected)]
    np.testing.assert_array_equal(kept.labels, labels[index])


def test_rows_without_weight_are_left_out() -> None:
    weight = np.ones(N)
    weight[[2, 7]] = 0.0
    rows = example(sample_weight=weight)
    assert len(rows.of_some_weight()) == N - 2
    assert rows.of_some_weight().of_some_weight() is not rows
    assert example().of_some_weight() is not None


# --- the canonical order and folds ----------------------------------------------------------------


@given(st.integers(0, 2**16))
def test_the_canonical_order_does_not_depend_on_the_given_one(seed: int) -> None:
    rows = example()
    shuffled = rows.take(np.random.default_rng(seed).permutation(N))
    assert columns(shuffled.in_canonical_order()) == columns(rows.in_canonical_order())


@given(st.integers(2, 8), st.integers(0, 2**16))
def test_a_group_is_held_out_as_a_whole(groups: int, seed: int) -> None:
    rng = np.random.default_rng(seed)
    names = np.append(rng.integers(groups, size=N - 2), [0, 1])
    rows = example(groups=names)
    folds = rows.folds(5)
    held = [set(names[part]) for part in folds.parts]
    assert sum(len(one) for one in held) == len(set(names))
    assert sorted(np.concatenate(folds.parts)) == list(range(N))
    order = rng.permutation(N)
    again = rows.take(order).folds(5)
    assert [set(names[order][part]) for part in again.parts] == held


def test_groups_make_folds_of_about_equal_weight() -> None:
    rng = np.random.default_rng(0)
    rows = Rows(
        rng.normal(size=(2000, 2)), np.zeros(2000, int), groups=rng.integers(100, size=2000)
    )
    sizes = [len(part) for part in rows.folds(5).parts]
    assert len(sizes) == 5
    assert max(sizes) - min(sizes) < 120


def test_one_group_cannot_be_cross_validated() -> None:
    with pytest.raises(ValueError, match="at least two groups, got one group"):
        example(groups=np.zeros(N)).folds()


# --- weights ------------------------------------------------------------------------------------


def test_what_weights_mean() -> None:
    whole = np.repeat([1.0, 2.0, 3.0], N // 3)
    assert example(sample_weight=whole).counted
    assert example(sample_weight=whole).effective_rows == whole.sum()
    importance = example(sample_weight=whole, weights="importance")
    assert not importance.counted
    assert importance.effective_rows == pytest.approx(whole.sum() ** 2 / (whole**2).sum())
    assert example(sample_weight=whole / 7.0, weights="counts").counted
    assert example(sample_weight=None).sample_weight is None
    np.testing.assert_array_equal(example(sample_weight=None).weight, np.ones(N))


# --- names of classes -----------------------------------------------------------------------------


def test_labels_may_be_names_of_classes() -> None:
    names = ("cat", "dog", "owl")
    rows = Rows.of(np.eye(3), ["dog", "cat", "owl"], classes=names)
    np.testing.assert_array_equal(rows.labels, [1, 0, 2])
    assert rows.take([1]).classes == names
    with pytest.raises(ValueError, match=r"names of classes \('cat', 'dog', 'owl'\), got 'cow'"):
        Rows.of(np.eye(3), ["dog", "cow", "owl"], classes=names)
    np.testing.assert_array_equal(Rows.of(np.eye(3), [1, 0, 2], classes=names).labels, [1, 0, 2])


# --- covariates -----------------------------------------------------------------------------------


@pytest.mark.parametrize("frame", [dict, pd.DataFrame, pl.DataFrame])
def test_covariates_come_as_columns(frame: Any) -> None:
    table = frame({"age": [1.0, 2.0, 3.0], "country": ["de", "fr", "de"]})
    rows = Rows.of(np.eye(3), [0, 1, 2], covariates=table)
    assert rows.covariates is not None
    assert list(rows.covariates) == ["age", "country"]
    np.testing.assert_array_equal(rows.take([2, 0]).covariates["age"], [3.0, 1.0])  # type: ignore[index]


def test_covariates_of_an_array_are_numbered() -> None:
    matrix = np.arange(6.0).reshape(3, 2)
    rows = Rows.of(np.eye(3), covariates=matrix)
    assert rows.covariates is not None
    assert list(rows.covariates) == ["x0", "x1"]
    assert list(Rows.of(np.eye(3), covariates=[1, 2, 3]).covariates or {}) == ["x0"]


# --- bad input ------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"groups": [1, 2]}, r"groups must have shape \(3,\), got shape \(2,\)"),
        ({"segments": np.zeros((3, 1))}, r"segments must have shape \(3,\), got shape \(3, 1\)"),
        ({"covariates": {"age": [1]}}, r"covariate age must have shape \(3,\), got shape \(1,\)"),
        ({"covariates": np.zeros((3, 1, 1))}, r"covariates must have shape \(3, columns\)"),
        ({"labels": [0, 1]}, "the same rows, got 2 and 3"),
        ({"labels": [0, 1, 3]}, r"labels must lie in 0\.\.2, got 3 at row 2"),
        ({"sample_weight": [1.0, -1.0, 1.0]}, "sample_weight must be finite and at least 0"),
        ({"input": "scores"}, 'input must be "logits" or "probs"'),
    ],
)
def test_bad_rows_are_refused(options: dict[str, Any], message: str) -> None:
    with pytest.raises(ValueError, match=message):
        Rows.of(np.eye(3), **options)


def test_methods_that_use_no_covariates_refuse_them() -> None:
    scores, labels = [[4.0, 0.0], [3.0, 0.0], [5.0, 0.0]], [0, 0, 1]
    covariates = {"age": [1.0, 2.0, 3.0]}
    with pytest.raises(TypeError, match="TemperatureScaling does not use covariates"):
        calibrant.TS().fit(scores, labels, covariates=covariates)
    ts = calibrant.TS().fit(scores, labels)
    with pytest.raises(TypeError, match="TemperatureScaling was fitted without covariates"):
        ts.predict_proba(scores, covariates=covariates)


def test_calibrators_take_rows_in_place_of_scores() -> None:
    data = calibrant.datasets.load("fashion-mnist-lenet5")
    weight = np.linspace(0.5, 2.0, 300)
    rows = Rows.of(data.val_logits[:300], data.val_labels[:300], weight)
    for method in ("ts", "vector"):
        one = calibrant.calibrator(method).fit(rows)
        other = calibrant.calibrator(method).fit(rows.scores, rows.labels, rows.weight)
        np.testing.assert_array_equal(one.predict_proba(rows), other.predict_proba(rows.scores))


def test_rows_that_a_calibrator_cannot_take_are_refused() -> None:
    scores, labels = [[4.0, 0.0], [3.0, 0.0], [5.0, 0.0]], [0, 0, 1]
    rows, profile = (
        Rows.of(scores, labels),
        calibrant.TemperatureProfile.from_logits(scores, labels),
    )
    ts = calibrant.TS().fit(rows)
    with pytest.raises(TypeError, match=r"fit\(rows\) takes no others"):
        calibrant.TS().fit(rows, labels)
    with pytest.raises(TypeError, match="these rows have none"):
        calibrant.TS().fit(Rows.of(scores))
    with pytest.raises(ValueError, match="the rows hold logits, but this TemperatureScaling reads"):
        calibrant.TS(input="probs").fit(rows)
    with pytest.raises(ValueError, match="the rows hold probs, but this TemperatureScaling reads"):
        ts.predict_proba(Rows.of([[0.5, 0.5]], input="probs"))
    with pytest.raises(TypeError, match="rows hold covariates"):
        ts.predict_proba(rows, covariates={"age": [1.0, 2.0, 3.0]})
    with pytest.raises(TypeError, match=r"fit\(profile\) takes no others"):
        calibrant.TS().fit(profile, covariates={"age": [1.0, 2.0, 3.0]})


def test_the_row_of_a_bad_covariate_is_counted_over_all_rows() -> None:
    columns = {"age": np.array([1.0, np.nan]), "name": np.array(["a", "b"])}
    with pytest.raises(ValueError, match="covariate age must be finite, got nan at row 101"):
        covariate_matrix(columns, ("age",), first_row=100)
    with pytest.raises(TypeError, match="covariate name must be numbers, got dtype <U1"):
        covariate_matrix(columns, ("name",))
    with pytest.raises(ValueError, match="without size it cannot predict, got age, name"):
        covariate_matrix(columns, ("age", "size"))
