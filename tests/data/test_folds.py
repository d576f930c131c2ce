"""Folds of rows: random, whatever the order of the rows, and as good for weights as for copies."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import calibrant
from calibrant.data import copies
from calibrant.data.folds import folds_of
from calibrant.data.rows import Rows


def tied(rows: int, values: int, seed: int = 0) -> Rows:
    """Two classes and few different scores."""
    rng = np.random.default_rng(seed)
    at = rng.integers(values, size=rows)
    logits = np.column_stack([np.zeros(rows), rng.normal(size=values)[at]])
    labels = (rng.random(rows) < rng.random(values)[at]).astype(np.int64)
    return Rows(logits, labels, np.ones(rows))


def contents(data: Rows, most: int | None = None) -> list[dict[tuple, float]]:
    """For each fold the weight of every (scores, label) that it holds out."""
    folds = folds_of(data, most)
    rows, found = folds.rows(data), []
    for part in folds.parts:
        held_out: dict[tuple, float] = {}
        for row in part:
            value = (*rows.logits[row], rows.labels[row])
            held_out[value] = held_out.get(value, 0.0) + rows.weight[row]
        found.append(held_out)
    return found


@given(
    st.lists(st.tuples(st.integers(0, 4), st.integers(0, 1)), min_size=2, max_size=60),
    st.integers(0, 2**32),
)
@settings(max_examples=60, deadline=None)
def test_order_and_weights_as_copies_do_not_matter(rows, seed):
    scores, labels = (np.array(column) for column in zip(*rows, strict=True))
    logits = np.column_stack([np.zeros(len(rows)), scores.astype(float)])
    labels = labels.astype(np.int64)
    plain = contents(Rows(logits, labels, np.ones(len(rows))))
    order = np.random.default_rng(seed).permutation(len(rows))
    assert contents(Rows(logits[order], labels[order], np.ones(len(rows)))) == plain
    values, count = np.unique(np.column_stack([logits, labels]), axis=0, return_counts=True)
    weighted = Rows(values[:, :2], values[:, 2].astype(np.int64), count.astype(float))
    assert contents(weighted) == plain


def test_every_row_is_held_out_once():
    data = tied(300, 7)
    folds = folds_of(data)
    assert folds.index is None
    assert sorted(np.concatenate(folds.parts)) == list(range(300))
    assert [len(part) for part in folds.parts] == [60] * 5


def test_rows_without_ties_follow_their_content():
    rng = np.random.default_rng(0)
    logits, labels = rng.normal(size=(60, 4)), rng.integers(4, size=60)
    folds = folds_of(Rows(logits, labels, np.ones(60))).parts
    order = rng.permutation(60)
    moved = folds_of(Rows(logits[order], labels[order], np.ones(60))).parts
    assert [set(order[fold]) for fold in moved] == [set(fold) for fold in folds]


def test_copies_are_split_at_random():
    """Not all in one fold, and not evenly: as many in each as chance has it."""
    shares = np.array(
        [
            max(fold.values()) / 100.0
            for seed in range(60)
            for fold in contents(
                Rows(np.full((500, 2), [0.0, seed]), np.arange(500) % 5 // 4, np.ones(500)), 5
            )
        ]
    )
    # 400 of 500 rows have label 0: a fold of 100 rows holds 80, with the spread of a random draw
    assert shares.mean() == pytest.approx(0.8, abs=0.01)
    assert shares.std() == pytest.approx(np.sqrt(0.8 * 0.2 / 100 * 4 / 5), rel=0.2)


def test_large_whole_weights_are_split_by_a_draw(monkeypatch):
    monkeypatch.setattr(copies, "MOST_COPIES", 100)
    data = tied(3000, 6)
    plain = contents(data)
    values, count = np.unique(
        np.column_stack([data.logits, data.labels]), axis=0, return_counts=True
    )
    weighted = Rows(values[:, :2], values[:, 2].astype(np.int64), count.astype(float))
    assert contents(weighted) == plain
    assert sum(sum(fold.values()) for fold in plain) == 3000
    sizes = [sum(fold.values()) for fold in plain]
    assert np.abs(np.array(sizes) - 600).max() < 5 * np.sqrt(480)


def test_weights_that_are_no_counts_stay_whole():
    data = tied(200, 5)
    weight = np.random.default_rng(0).uniform(0.5, 1.5, 200)
    folds = folds_of(Rows(data.logits, data.labels, weight))
    assert folds.index is None
    sums = [weight[part].sum() for part in folds.parts]
    np.testing.assert_allclose(sums, weight.sum() / 5, atol=1.5)


def test_a_value_that_all_rows_share_is_split_as_well():
    data = Rows(np.ones((20, 3)), np.zeros(20, np.int64), np.ones(20))
    assert [len(part) for part in folds_of(data).parts] == [5, 5, 5, 5]


def test_few_scores_are_cross_validated_as_scores_with_jitter_are():
    data = tied(3000, 12)
    jitter = np.random.default_rng(0).normal(0.0, 1e-7, 3000)
    methods = ["platt", "odds-spline"]
    tied_scores, jittered = (
        calibrant.compare(logits, data.labels, methods=methods, n_resamples=0)
        for logits in (data.logits[:, 1], data.logits[:, 1] + jitter)
    )
    for one, other in zip(tied_scores.results, jittered.results, strict=True):
        assert one.nll == pytest.approx(other.nll, abs=0.005)
        assert one.accuracy > 0.5


@pytest.mark.parametrize("method", ["auto", "vector", "spts"])
def test_methods_that_choose_by_folds_take_weights_as_copies(method):
    data = tied(600, 9)
    three = np.column_stack([data.logits, np.full(600, -0.5)])
    labels = np.where(np.arange(600) % 7 == 0, 2, data.labels)
    values, first, count = np.unique(
        np.column_stack([three, labels]), axis=0, return_index=True, return_counts=True
    )
    written = calibrant.calibrator(method).fit(three, labels)
    weighted = calibrant.calibrator(method).fit(
        three[first], labels[first], sample_weight=count.astype(float)
    )
    np.testing.assert_allclose(
        weighted.predict_proba(values[:, :3]), written.predict_proba(values[:, :3]), atol=2e-4
    )


def test_compare_counts_rows_and_takes_weights_as_copies():
    data = tied(400, 8)
    values, first, count = np.unique(
        np.column_stack([data.logits, data.labels]), axis=0, return_index=True, return_counts=True
    )
    written = calibrant.compare(data.logits, data.labels, methods=["platt"], n_resamples=0)
    weighted = calibrant.compare(
        data.logits[first],
        data.labels[first],
        val_weight=count.astype(float),
        methods=["platt"],
        n_resamples=0,
    )
    assert weighted.n_test == len(values)
    assert weighted.results[0].nll == pytest.approx(written.results[0].nll, rel=1e-6)
