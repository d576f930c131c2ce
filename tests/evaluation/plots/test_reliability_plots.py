"""Reliability diagrams as pictures, by what is drawn: bars, lines, bands, limits and colours."""

from __future__ import annotations

import pickle
from contextlib import nullcontext
from typing import Any, get_args

import numpy as np
import pytest

import calibrant
from calibrant import diagrams, plots
from calibrant.diagrams import Kind, Reliability
from calibrant.evaluation.plots._drawing import luminance

pytest.importorskip("matplotlib")

import matplotlib as mpl
import matplotlib.pyplot as plt
from matplotlib.container import BarContainer, ErrorbarContainer

KINDS = get_args(Kind)


def sample(rows: int = 600, seed: int = 0) -> tuple[np.ndarray, np.ndarray]:
    """Over-confident probabilities, none of them at low confidence, and labels."""
    rng = np.random.default_rng(seed)
    logits = rng.normal(size=(rows, 4)) * 2.0
    labels = (logits + rng.gumbel(size=logits.shape)).argmax(axis=1)
    weight = np.exp(2.0 * logits)
    return weight / weight.sum(axis=1, keepdims=True), labels


@pytest.fixture(scope="module")
def by_kind() -> dict[str, Reliability]:
    probs, labels = sample()
    return {kind: diagrams.reliability(probs, labels, kind=kind, n_resamples=60) for kind in KINDS}


def bars_of(ax: Any) -> list[BarContainer]:
    return [one for one in ax.containers if isinstance(one, BarContainer)]


def lines_of(ax: Any) -> list[Any]:
    return [line for line in ax.lines if line.get_label() not in ("_diagonal", "_nolegend_")]


def named_collection(ax: Any, name: str) -> Any:
    (found,) = [one for one in ax.collections if one.get_label() == name]
    return found


def legend_of(ax: Any) -> list[str]:
    return [text.get_text() for text in ax.get_legend().get_texts()]


# --- what is drawn ----------------------------------------------------------------------------


def test_bars_have_the_heights_of_the_bins(by_kind):
    diagram = by_kind["equal-width"]
    ax = plots.reliability(diagram)
    bars, gaps = bars_of(ax)
    full = diagram.weight > 0.0
    assert 0 < full.sum() < len(full), "the sample must leave bins empty"
    assert len(bars) == len(gaps) == full.sum(), "empty bins are left empty"
    np.testing.assert_array_equal([bar.get_height() for bar in bars], diagram.accuracy[full])
    np.testing.assert_allclose([bar.get_x() for bar in bars], diagram.edges[:-1][full])
    np.testing.assert_allclose([bar.get_width() for bar in bars], 1 / 15)
    np.testing.assert_allclose([g.get_height() for g in gaps], np.abs(diagram.gap[full]))
    ends = [(gap.get_y(), gap.get_y() + gap.get_height()) for gap in gaps]
    both = np.sort([diagram.accuracy[full], diagram.confidence[full]], axis=0).T
    np.testing.assert_allclose(ends, both)
    assert ax.get_xlim() == ax.get_ylim() == (0.0, 1.0)
    assert (ax.get_ylabel(), ax.child_axes[0].get_xlabel()) == ("accuracy", "confidence")
    assert legend_of(ax) == ["calibrated (95%)", f"ECE {diagram.error:.2%}", "gap", "95% interval"]


def test_the_intervals_of_bins(by_kind):
    diagram = by_kind["equal-width"]
    ax = plots.reliability(diagram)
    (errors,) = [one for one in ax.containers if isinstance(one, ErrorbarContainer)]
    full = diagram.weight > 0.0
    segments = np.array(errors.lines[2][0].get_segments())
    np.testing.assert_allclose(segments[:, :, 0], np.tile(diagram.confidence[full], (2, 1)).T)
    np.testing.assert_allclose(segments[:, :, 1], np.stack([diagram.low, diagram.high], 1)[full])


def test_the_band_of_bins_covers_each_bin(by_kind):
    diagram = by_kind["equal-width"]
    band = named_collection(plots.reliability(diagram), "calibrated (95%)")
    vertices = {tuple(v) for path in band.get_paths() for v in path.vertices.round(12).tolist()}
    for bin_ in np.flatnonzero(diagram.weight > 0.0):
        for x in diagram.edges[bin_ : bin_ + 2]:
            for y in (diagram.band_low[bin_], diagram.band_high[bin_]):
                assert (round(x, 12), round(y, 12)) in vertices
    left = min(x for x, _ in vertices)
    assert left == round(diagram.edges[np.argmax(diagram.weight > 0.0)], 12)


@pytest.mark.parametrize("kind", ["equal-mass", "isotonic", "smooth"])
def test_curves_are_lines_with_their_ranges(by_kind, kind):
    diagram = by_kind[kind]
    full = diagram.weight > 0.0
    ax = plots.reliability(diagram)
    assert not bars_of(ax)
    line = next(one for one in lines_of(ax) if "%" in one.get_label())
    np.testing.assert_array_equal(line.get_xdata(), diagram.confidence[full])
    np.testing.assert_array_equal(line.get_ydata(), diagram.accuracy[full])
    for name, low, high in (
        ("calibrated (95%)", diagram.band_low, diagram.band_high),
        *([("95% interval", diagram.low, diagram.high)] if diagram.edges is None else []),
    ):
        (path,) = named_collection(ax, name).get_paths()
        corners = {tuple(v) for v in path.vertices.tolist()}
        assert corners >= set(zip(diagram.confidence[full], low[full], strict=True))
        assert corners >= set(zip(diagram.confidence[full], high[full], strict=True))


@pytest.mark.parametrize("kind", KINDS)
def test_the_histogram_lies_beneath(by_kind, kind):
    diagram = by_kind[kind]
    ax = plots.reliability(diagram)
    (below,) = ax.child_axes
    (steps,) = below.patches
    np.testing.assert_array_equal(steps.get_data().values, diagram.histogram.share)
    np.testing.assert_array_equal(steps.get_data().edges, diagram.histogram.edges)
    ax.figure.canvas.draw()
    upper, lower = ax.get_position(), below.get_position()
    assert lower.y1 < upper.y0
    np.testing.assert_allclose([lower.x0, lower.x1], [upper.x0, upper.x1])
    assert below.get_tightbbox().y0 >= 0.0, "no label is cut off"
    assert below.get_xlim() == (0.0, 1.0)


def test_parts_can_be_left_out(by_kind):
    ax = plots.reliability(
        by_kind["equal-width"], band=False, gap=False, interval=False, histogram=False
    )
    assert (len(ax.containers), len(ax.collections), len(ax.child_axes)) == (1, 0, 0)
    assert ax.get_xlabel() == "confidence"
    without = diagrams.reliability(*sample(50), kind="smooth", n_resamples=0)
    assert not plots.reliability(without, gap=False).collections, "ranges that are NaN"


def test_keywords_go_to_the_main_artist(by_kind):
    bars = bars_of(plots.reliability(by_kind["equal-width"], facecolor="red", hatch="x"))[0]
    assert bars[0].get_hatch() == "x"
    assert bars[0].get_facecolor()[:3] == (1.0, 0.0, 0.0)
    (line,) = lines_of(plots.reliability(by_kind["smooth"], color="red", linewidth=3.0))
    assert (line.get_color(), line.get_linewidth()) == ("red", 3.0)


def test_bars_for_an_overlay_and_points_for_one(by_kind):
    ax = plots.reliability(by_kind["equal-width"], bars=False)
    assert not bars_of(ax)
    two = {"a": by_kind["equal-width"], "b": by_kind["equal-mass"]}
    assert len(bars_of(plots.reliability(two, bars=True))) == 2


def test_probabilities_of_a_class_are_told(by_kind):
    probs, labels = sample()
    ax = plots.reliability(diagrams.reliability(probs, labels, class_index=2, n_resamples=0))
    assert ax.get_ylabel() == "share of class 2"
    assert ax.child_axes[0].get_xlabel() == "probability of class 2"


# --- several ----------------------------------------------------------------------------------


@pytest.mark.parametrize("kind", KINDS)
def test_an_overlay_differs_by_colour_and_by_what_print_can_show(by_kind, kind):
    names = [f"m{i}" for i in range(12)]
    ax = plots.reliability(dict.fromkeys(names, by_kind[kind]))
    lines = [line for line in lines_of(ax) if line.get_label().startswith("m")]
    assert legend_of(ax) == [line.get_label() for line in lines]
    assert [label.split()[0] for label in legend_of(ax)] == names
    looks = [(line.get_color(), line.get_marker(), line._dash_pattern[1]) for line in lines]
    looks = [(color, marker, str(dashes)) for color, marker, dashes in looks]
    assert len(set(looks)) == 12
    assert len({look[0] for look in looks[:5]}) == 5
    assert len({look[2] for look in looks[:5]}) == 5
    if by_kind[kind].edges is not None:
        assert len({look[1] for look in looks[:5]}) == 5
    assert len(ax.child_axes) == 1
    assert len(ax.child_axes[0].patches) == 12


def test_bands_of_an_overlay_are_drawn_on_request(by_kind):
    two = {"a": by_kind["smooth"], "b": by_kind["isotonic"]}
    assert len(plots.reliability(two).collections) == 2
    assert len(plots.reliability(two, band=True, gap=True).collections) == 6


def test_names_that_begin_with_an_underscore_are_shown(by_kind):
    ax = plots.reliability({"_a": by_kind["smooth"], 3: by_kind["smooth"]})
    assert [label.split()[0] for label in legend_of(ax)] == ["_a", "3"]


def test_a_second_call_goes_on_with_the_next_colour(by_kind):
    ax = plots.reliability({"a": by_kind["smooth"]}, gap=False)
    again = plots.reliability({"b": by_kind["smooth"]}, ax=ax, gap=False)
    assert again is ax
    first, second = lines_of(ax)
    assert first.get_color() != second.get_color()
    assert sum(line.get_label() == "_diagonal" for line in ax.lines) == 1
    assert len(ax.child_axes) == 1


def test_small_multiples(by_kind):
    probs, labels = sample()
    by_class = diagrams.reliability_by_class(probs, labels, n_resamples=20)
    panels = plots.reliability_grid(by_class)
    errors = [by_class[i].error for i in range(4)]
    order = np.argsort(-np.array(errors), kind="stable")
    assert [ax.get_title() for ax in panels] == [f"class {i}: {errors[i]:.2%}" for i in order]
    for ax, index in zip(panels, order, strict=True):
        full = by_class[index].weight > 0.0
        heights = [bar.get_height() for bar in bars_of(ax)[0]]
        np.testing.assert_array_equal(heights, by_class[index].accuracy[full])
        assert (ax.get_xlim(), ax.get_ylim(), ax.get_legend()) == ((0.0, 1.0), (0.0, 1.0), None)
    kept = plots.reliability_grid(by_class, sort=False, n_columns=2)
    assert [ax.get_title().split(":")[0] for ax in kept] == [f"class {i}" for i in range(4)]
    assert [bool(ax.get_ylabel()) for ax in kept] == [True, False, True, False]
    assert [bool(ax.get_xlabel()) for ax in kept] == [False, False, True, True]


def test_many_multiples_are_capped_with_a_word(by_kind):
    segments = {f"s{i}": by_kind["equal-width"] for i in range(14)}
    panels = plots.reliability_grid(segments)
    assert len(panels) == len(panels[0].figure.axes) == 12
    assert panels[0].figure.get_suptitle() == "the 12 of 14 with the largest errors"
    panels = plots.reliability_grid(segments, most=5, sort=False, histogram=True)
    assert panels[0].figure.get_suptitle() == "the 5 of 14 that come first"
    assert [ax.child_axes[0].get_ylabel() for ax in panels] == ["rows", "", "", "rows", ""]
    with plt.style.context("default"):
        figure = plt.figure()
        assert plots.reliability_grid(segments, figure=figure, most=2)[1].figure is figure


# --- manners ----------------------------------------------------------------------------------


@pytest.mark.parametrize("layout", [None, "constrained", "tight"])
def test_inside_a_users_grid(by_kind, layout):
    figure, axes = plt.subplots(2, 2, layout=layout, figsize=(8, 8))
    for ax, kind in zip(axes.flat, KINDS, strict=True):
        assert plots.reliability(by_kind[kind], ax=ax) is ax
    figure.canvas.draw()
    boxes = [[ax.get_tightbbox(), ax.get_window_extent()] for ax in axes.flat]
    assert len(figure.axes) == 4
    assert boxes[2][0].y0 >= 0.0
    if layout is not None:
        assert boxes[0][0].y0 >= boxes[2][0].y1, "a histogram lies on the picture below"
    for ax in axes.flat:
        assert ax.child_axes[0].get_window_extent().y1 < ax.get_window_extent().y0


def test_no_setting_is_touched_and_figures_can_be_pickled(by_kind):
    before, backend = dict(mpl.rcParams), mpl.get_backend()
    ax = plots.reliability(by_kind["equal-width"])
    plots.reliability_grid({"a": by_kind["smooth"]})
    assert dict(mpl.rcParams) == before
    assert mpl.get_backend() == backend
    pickle.loads(pickle.dumps(ax.figure)).canvas.draw()


def contrast(color: Any, page: Any) -> float:
    low, high = sorted([luminance(color), luminance(page)])
    return (high + 0.05) / (low + 0.05)


@pytest.mark.parametrize("style", [None, "dark_background"])
def test_texts_and_lines_stand_out_from_light_and_dark_pages(by_kind, style):
    with plt.style.context(style) if style else nullcontext():
        ax = plt.subplots()[1]
        page = ax.get_facecolor()
    # the style is over: what is drawn now must still suit the page
    plots.reliability({f"m{i}": by_kind["equal-width"] for i in range(5)}, ax=ax)
    below = ax.child_axes[0]
    texts = [*ax.get_legend().get_texts(), below.xaxis.label, below.yaxis.label, ax.yaxis.label]
    texts += [*below.get_xticklabels(), *below.get_yticklabels()]
    assert min(contrast(text.get_color(), page) for text in texts) > 7.0
    assert min(contrast(line.get_color(), page) for line in ax.lines) >= 3.0
    assert below.get_facecolor() == page
    assert ax.get_legend().get_frame().get_facecolor()[:3] == page[:3]


def test_what_is_no_diagram_is_refused(by_kind):
    with pytest.raises(TypeError, match=r"expected Reliability of calibrant.diagrams.*got ndarray"):
        plots.reliability(np.zeros(3))
    with pytest.raises(TypeError, match="or several by name, got float"):
        plots.reliability({"a": by_kind["smooth"], "b": 0.5})
    with pytest.raises(ValueError, match="at least one Reliability, got an empty mapping"):
        plots.reliability_grid({})
    with pytest.raises(ValueError, match="most must be at least 1, got 0"):
        plots.reliability_grid({"a": by_kind["smooth"]}, most=0)


def test_matplotlib_is_missed_with_the_way_to_install_it(by_kind, monkeypatch):
    monkeypatch.setattr("calibrant.common.extras.import_module", _missing)
    with pytest.raises(ImportError, match=r"calibrant.plots needs matplotlib: pip install .*plot"):
        plots.reliability(by_kind["smooth"])


def _missing(name: str) -> Any:
    raise ImportError(name)


# --- displays ---------------------------------------------------------------------------------


def test_a_display_of_predictions():
    probs, labels = sample()
    display = plots.ReliabilityDisplay.from_predictions(labels, probs, n_bins=10, name="net")
    expected = diagrams.reliability(probs, labels, n_bins=10)
    np.testing.assert_array_equal(display.diagram.accuracy, expected.accuracy)
    full = expected.weight > 0.0
    np.testing.assert_array_equal(
        [bar.get_height() for bar in display.line_], expected.accuracy[full]
    )
    assert display.figure_ is display.ax_.figure
    assert legend_of(display.ax_)[1] == f"net (ECE {expected.error:.2%})"


def test_displays_on_the_same_axes():
    probs, labels = sample()
    first = plots.ReliabilityDisplay.from_predictions(labels, probs, kind="smooth", name="a")
    second = plots.ReliabilityDisplay(first.diagram, name="b").plot(ax=first.ax_)
    assert second.ax_ is first.ax_
    assert second.line_ is not first.line_
    assert second.line_.get_label().startswith("b ")
    third = second.plot(name="c")
    assert third is second
    assert third.ax_ is not first.ax_
    assert third.line_.get_label().startswith("c ")


def test_a_display_of_a_classifier_with_names_of_classes():
    from sklearn.linear_model import LogisticRegression

    rng = np.random.default_rng(0)
    X = rng.normal(size=(200, 3))
    y = np.array(["cat", "dog", "owl"])[(X + rng.normal(size=X.shape)).argmax(axis=1)]
    model = LogisticRegression().fit(X, y)
    display = plots.ReliabilityDisplay.from_estimator(model, X, y, kind="isotonic")
    index = np.searchsorted(model.classes_, y)
    expected = diagrams.reliability(model.predict_proba(X), index, kind="isotonic")
    np.testing.assert_array_equal(display.diagram.accuracy, expected.accuracy)
    assert display.name == "LogisticRegression"
    with pytest.raises(ValueError, match="row 1 has the label 'cow', which is none of the"):
        plots.ReliabilityDisplay.from_estimator(model, X[:2], ["cat", "cow"])


def test_a_display_of_a_calibrator(fashion):
    logits, labels = fashion.test_logits[:500], fashion.test_labels[:500]
    ts = calibrant.TS().fit(fashion.val_logits[:500], fashion.val_labels[:500])
    display = plots.ReliabilityDisplay.from_estimator(ts, logits, labels, name="TS", class_index=1)
    expected = diagrams.reliability(ts.predict_proba(logits), labels, class_index=1)
    assert display.diagram.error == expected.error
    with pytest.raises(TypeError, match="list has no predict_proba"):
        plots.ReliabilityDisplay.from_estimator([], logits, labels)
