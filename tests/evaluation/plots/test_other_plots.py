"""The other pictures by what is drawn."""

from __future__ import annotations

from contextlib import nullcontext
from itertools import pairwise
from typing import Any

import numpy as np
import pytest

import calibrant
from calibrant import diagrams, plots
from calibrant.diagrams import LearningCurves, Temperatures
from calibrant.evaluation.plots._drawing import luminance, spaced

pytest.importorskip("matplotlib")

import matplotlib as mpl
import matplotlib.pyplot as plt


@pytest.fixture(scope="module")
def data() -> tuple[np.ndarray, np.ndarray]:
    rng = np.random.default_rng(1)
    probs = rng.dirichlet(np.full(5, 0.4), 400)
    probs[:, 4] *= 0.05  # hardly ever predicted
    probs /= probs.sum(axis=1, keepdims=True)
    labels = (rng.random(400)[:, None] > probs.cumsum(axis=1)).sum(axis=1).clip(0, 4)
    return probs, labels


def labels_of(ax: Any) -> list[str]:
    return [text.get_text() for text in ax.get_legend().get_texts()]


def some_temperatures(rows: int = 50, reference: float | None = 1.5) -> Temperatures:
    rng = np.random.default_rng(0)
    columns = rng.random((4, rows))
    return Temperatures(
        1.0 + columns[0], *columns[1:], reference, "ParameterizedTemperatureScaling"
    )


# --- temperatures -----------------------------------------------------------------------------


def test_the_histogram_of_temperatures():
    found = some_temperatures()
    ax = plots.temperatures(found, bins=5, density=False)
    expected = np.histogram(found.temperature, 5)[0] / 50
    vertices = ax.patches[0].get_path().vertices if hasattr(ax.patches[0], "get_path") else None
    assert set(expected.round(12)) <= set(vertices[:, 1].round(12))
    (line,) = ax.lines
    assert line.get_xdata() == [1.5, 1.5]
    assert labels_of(ax) == ["pts", "ts (1.5)"]
    assert ax.get_ylim()[1] > expected.max()


def test_equal_temperatures_are_one_bar():
    found = some_temperatures()
    one = Temperatures(np.full(50, 2.0), *[found.margin] * 3, None, "Mine")
    ax = plots.temperatures(one)
    assert ax.patches[0].get_path().vertices[:, 1].max() == pytest.approx(1.0)
    assert labels_of(ax) == ["Mine"]


@pytest.mark.parametrize("against", ["confidence", "margin", "entropy"])
def test_temperatures_against_what_they_follow(against):
    found = some_temperatures()
    ax = plots.temperatures(found, against=against, markersize=7.0)
    points = ax.lines[0]
    np.testing.assert_array_equal(points.get_xdata(), getattr(found, against))
    np.testing.assert_array_equal(points.get_ydata(), found.temperature)
    assert points.get_markersize() == 7.0
    assert ax.lines[-1].get_ydata() == [1.5, 1.5]
    assert against in ax.get_xlabel()
    assert labels_of(ax) == ["pts", "ts (1.5)"]


def test_many_temperatures_are_thinned():
    found = some_temperatures(70_001, None)
    x = plots.temperatures(found, against="margin").lines[0].get_xdata()
    assert len(x) == 20_000
    assert (x[0], x[-1]) == (found.margin[0], found.margin[-1])


def test_temperatures_refuse_what_they_do_not_know():
    with pytest.raises(ValueError, match=r"against must be \"confidence\", .* got 'size'"):
        plots.temperatures(some_temperatures(), against="size")
    with pytest.raises(TypeError, match="expected Temperatures"):
        plots.temperatures([1.0])


# --- curves -----------------------------------------------------------------------------------


def test_risk_coverage(data):
    curve = diagrams.risk_coverage(*data)
    ax = plots.risk_coverage(curve, linewidth=3.0)
    line, best = ax.lines
    for drawn, y in ((line, curve.risk), (best, curve.optimal)):
        np.testing.assert_array_equal(drawn.get_xdata(), curve.coverage)
        np.testing.assert_array_equal(drawn.get_ydata(), y)
    assert line.get_linewidth() == 3.0
    assert ax.get_xlim() == (0.0, 1.0)
    assert ax.get_ylim()[0] == 0.0
    two = plots.risk_coverage({"a": curve, "b": curve})
    assert labels_of(two) == [f"{name} (AURC {curve.aurc:.2%})" for name in "ab"]
    assert len(plots.risk_coverage({"a": curve, "b": curve}, optimal=True).lines) == 4


def test_ece_by_bins(data):
    sweep = diagrams.ece_by_bins(*data, n_resamples=20)
    ax = plots.ece_by_bins(sweep)
    line, null = ax.lines
    np.testing.assert_array_equal(line.get_xydata(), np.stack([sweep.n_bins, sweep.ece], 1))
    np.testing.assert_array_equal(null.get_ydata(), sweep.null)
    vertices = {tuple(v) for v in ax.collections[0].get_paths()[0].vertices.tolist()}
    assert vertices >= set(zip(sweep.n_bins.tolist(), sweep.null_high.tolist(), strict=True))
    assert ax.get_xscale() == "log"
    assert ax.get_xlabel() == "equal-width bins"
    plain = diagrams.ece_by_bins(*data, n_resamples=0, scheme="equal-mass")
    both = plots.ece_by_bins({"a": sweep, "b": plain}, null=True)
    assert both.get_xlabel() == "bins"
    assert labels_of(both) == ["a", "a, if calibrated", "b"]


def test_learning_curves():
    at = {"ts": np.array([10, 200]), "pts": np.array([10, 200])}
    values = {"ts": np.array([[0.1, 0.3], [0.3, 0.5]]), "pts": np.array([[0.2, 0.1], [0.2, 0.3]])}
    curves = LearningCurves("ece", "rows", at, values, 0.6)
    ax = plots.learning_curves(curves)
    ts, pts, before = ax.lines
    np.testing.assert_allclose(ts.get_xydata(), [[10, 0.2], [200, 0.4]])
    np.testing.assert_allclose(pts.get_ydata(), [0.2, 0.2])
    assert before.get_ydata() == [0.6, 0.6]
    spread = 0.2 / np.sqrt(2.0)
    heights = ax.collections[0].get_paths()[0].vertices[:, 1]
    np.testing.assert_allclose([heights.min(), heights.max()], [0.2 - spread, 0.4 + spread])
    assert (ax.get_xlabel(), ax.get_ylabel(), ax.get_xscale()) == ("validation rows", "ECE", "log")
    assert labels_of(ax) == ["ts", "pts", "uncalibrated"]
    assert not plots.learning_curves(curves, spread=False).collections


def test_capacity_curves_with_families_of_one():
    at = {"ts": np.array([1]), "pts": np.array([2, 6])}
    values = {"ts": np.array([[0.5], [0.7]]), "pts": np.array([[0.4, 0.3]])}
    ax = plots.learning_curves(LearningCurves("nll", "parameters", at, values, 0.9))
    assert (ax.get_xlabel(), ax.get_ylabel(), ax.get_xscale()) == ("parameters", "NLL", "linear")
    (bar,) = ax.containers[0].lines[2][0].get_segments()
    np.testing.assert_allclose(bar[:, 1], [0.6 - 0.2 / np.sqrt(2), 0.6 + 0.2 / np.sqrt(2)])


def test_numbers_on_a_logarithmic_axis_do_not_touch():
    assert spaced([100.0, 200.0, 400.0, 800.0, 1400.0, 2000.0]) == [100, 200, 400, 800, 2000]
    assert spaced([5.0]) == [5.0]


# --- the heat map -----------------------------------------------------------------------------


def test_the_heat_map_of_gaps(data):
    gaps = diagrams.class_gaps(*data)
    ax = plots.class_gaps(gaps, names=list("abcde"))
    order = np.argsort(gaps.by_class)
    cells = ax.images[0].get_array()
    np.testing.assert_array_equal(cells.filled(np.nan), gaps.gap[order])
    assert cells.mask.any(), "the sample must leave cells empty"
    assert [label.get_text() for label in ax.get_yticklabels()] == ["abcde"[i] for i in order]
    limits = ax.images[0].get_clim()
    assert limits[0] == -limits[1]
    assert sorted(t.get_text() for t in ax.texts) == sorted(
        f"{100 * gap:+.0f}" for gap in gaps.gap[np.isfinite(gaps.gap)]
    )
    for text, value in zip(ax.texts, gaps.gap[order][np.isfinite(gaps.gap[order])], strict=True):
        face = ax.images[0].cmap(ax.images[0].norm(value))
        pair = sorted([luminance(face), luminance(text.get_color())])
        assert (pair[1] + 0.05) / (pair[0] + 0.05) >= 4.5
    assert ax.patch.get_hatch() is not None


def test_limit_measure_and_order_of_the_heat_map(data):
    gaps = diagrams.class_gaps(*data, notion="classwise")
    ax = plots.class_gaps(gaps, measure="z", sort=False, limit=2.0, colorbar=False, cmap="RdBu")
    np.testing.assert_array_equal(ax.images[0].get_array().filled(np.nan), gaps.z)
    assert ax.images[0].get_clim() == (-2.0, 2.0)
    assert ax.images[0].get_cmap().name == "RdBu"
    assert len(ax.figure.axes) == 1
    assert [label.get_text() for label in ax.get_yticklabels()] == list("01234")
    with pytest.raises(ValueError, match='measure must be "gap" or "z", got \'t\''):
        plots.class_gaps(gaps, measure="t")
    with pytest.raises(ValueError, match="names must be those of 5 classes, got 2"):
        plots.class_gaps(gaps, names=["a", "b"])


def test_a_thousand_classes_have_room_for_their_labels():
    rng = np.random.default_rng(0)
    probs = rng.dirichlet(np.full(1000, 0.02), 3000)
    ax = plots.class_gaps(diagrams.class_gaps(probs, probs.argmax(axis=1)))
    ax.figure.canvas.draw()
    boxes = [label.get_window_extent() for label in ax.get_yticklabels()]
    tops = sorted((box.y0, box.y1) for box in boxes)
    assert 10 < len(tops) < 100
    assert all(low[1] <= high[0] for low, high in pairwise(tops))
    assert not ax.texts


# --- manners ----------------------------------------------------------------------------------


@pytest.mark.parametrize("style", [None, "dark_background"])
def test_every_picture_suits_its_page_and_leaves_settings_alone(data, style):
    sweep = diagrams.ece_by_bins(*data, n_resamples=5)
    curves = LearningCurves("ece", "rows", {"a": np.array([1, 9])}, {"a": np.ones((2, 2))}, 0.5)
    calls = {
        plots.risk_coverage: diagrams.risk_coverage(*data),
        plots.ece_by_bins: sweep,
        plots.temperatures: some_temperatures(),
        plots.learning_curves: curves,
        plots.class_gaps: diagrams.class_gaps(*data),
    }
    before = dict(mpl.rcParams)
    for draw, diagram in calls.items():
        with plt.style.context(style) if style else nullcontext():
            figure, ax = plt.subplots()
        assert draw(diagram, ax=ax) is ax
        page = luminance(ax.get_facecolor())
        texts = [axis.label for one in figure.axes for axis in (one.xaxis, one.yaxis)]
        texts += [] if ax.get_legend() is None else ax.get_legend().get_texts()
        for text in filter(lambda text: text.get_text(), texts):
            pair = sorted([page, luminance(text.get_color())])
            assert (pair[1] + 0.05) / (pair[0] + 0.05) > 7.0, (draw, text)
        for line in ax.lines:
            pair = sorted([page, luminance(line.get_color())])
            assert (pair[1] + 0.05) / (pair[0] + 0.05) >= 3.0, (draw, line)
    assert dict(mpl.rcParams) == before


def test_plots_are_reached_through_the_package():
    assert calibrant.plots is plots
    assert "plots" in dir(calibrant)
    assert set(plots.__all__) <= set(vars(plots))
