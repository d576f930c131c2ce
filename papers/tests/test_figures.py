"""The paper's figures, by what they hold: places, labels, limits, titles and captions."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from itertools import combinations, pairwise
from typing import Any

import matplotlib as mpl
import numpy as np
import pytest
from matplotlib.collections import LineCollection
from matplotlib.colors import to_hex

from calibrant.calibrators import calibrator
from calibrant.evaluation.plots._drawing import luminance
from calibrant_papers import captions, figures
from calibrant_papers.captions import BESIDE_NON_PARAMETRIC, TEMPERATURE_FAMILY
from calibrant_papers.experiments import BIN_SWEEP, FRACTIONS, METHODS, WIDTHS, parameter_count
from calibrant_papers.logit_sets import FIGURE_3C, IMAGENET, ON_CIFAR, PAPER_ROWS, STAND_INS
from calibrant_papers.plan import PAPER_WIDTHS, RECIPES, TABLE_METHODS
from calibrant_papers.summary import STAND_IN, Results, published
from reproduction_support import tiny_set

GROUP = list(STAND_INS)
NINE = [*ON_CIFAR, *GROUP]
KEEPING = ("irm-raw", *RECIPES)  # whose accuracy is the network's own
SHARED = ("fig1a", "fig4a", "fig4b")
Row = dict[str, Any]


def row(data: str, method: str, seed: int = 0, fraction: float = 1.0, **more: Any) -> Row:
    """Made-up results: every method, set, size and seed has an ECE of its own."""
    place = NINE.index(data) if data in NINE else 0
    ece = 0.01 * (1 + list(METHODS).index(method)) * (1 + 0.1 * place + 0.05 * seed) / fraction
    lost = 0.0 if method in (*KEEPING, "base") else 0.01 * (2.0 + seed - fraction)
    found = {"data": data, "method": method, "seed": seed, "fraction": fraction, "width": None}
    found |= {"classes": 100, "ece": 0.3 * ece, "accuracy": 0.7 + 0.01 * seed - lost, "brier": ece}
    found |= {"ece_by_bins": [ece * (1.0 + 0.01 * bins) for bins in BIN_SWEEP]}
    if method in RECIPES:
        found["temperatures"] = np.linspace(1.0, 2.0 + 0.1 * place, 200).tolist()
    if method in ("ts", "ts-brier"):
        found["temperatures"] = [1.4 if method == "ts" else 1.6]
    return found | more


def rows_of(names: Iterable[str], seeds: int = 2) -> Iterator[Row]:
    for name in names:
        for seed in range(seeds):
            yield from (row(name, method, seed) for method in TABLE_METHODS)
            for method in (*TEMPERATURE_FAMILY, *BESIDE_NON_PARAMETRIC):
                yield from (row(name, method, seed, size) for size in FRACTIONS[:-1])
            for method, widths in (("pts-paper", PAPER_WIDTHS), ("pts", WIDTHS)):
                yield from (row(name, method, seed, width=w) for w in widths if w != 5)


@pytest.fixture(scope="module")
def results() -> Results:
    return Results(rows_of(NINE))


@pytest.fixture(scope="module")
def drawn(results: Results) -> dict[str, Any]:
    """The figures by their names, laid out."""
    return laid_out(results, GROUP)


def laid_out(results: Results, group: Sequence[str]) -> dict[str, Any]:
    with figures._style():
        canvases = figures._canvases(results, group)
        for canvas in canvases.values():
            canvas.draw_without_rendering()
    return canvases


def panels(canvas: Any) -> list[Any]:
    """The axes that show something."""
    return [axes for axes in canvas.axes if axes.axison]


def curve(axes: Any, method: str) -> Any:
    """The errorbar container of a method."""
    [found] = [one for one in axes.containers if one.get_label() == METHODS[method].label]
    return found


def places(axes: Any, method: str) -> Any:
    return np.array(curve(axes, method).lines[0].get_xdata(), float)


def legend_of(canvas: Any) -> list[str]:
    [legend] = [*canvas.legends, *(a.get_legend() for a in canvas.axes if a.get_legend())]
    return [text.get_text() for text in legend.get_texts()]


def ticks(axis: Any) -> list[str]:
    """The numbers at an axis that can be seen."""
    low, high = sorted(axis.get_view_interval())
    text = axis.get_major_formatter()
    return [text(at, i) for i, at in enumerate(axis.get_ticklocs()) if low <= at <= high]


# --- methods side by side ---------------------------------------------------------------------


@pytest.mark.parametrize(
    ("file", "methods"),
    [
        ("fig3bc", TEMPERATURE_FAMILY),
        ("fig4a", BESIDE_NON_PARAMETRIC),
        ("fig4b", ("irova-raw", "irova-ts-raw")),
    ],
)
def test_methods_lie_beside_each_other_at_every_size(drawn, file, methods):
    sizes = 100.0 * np.array(FRACTIONS)
    for axes in panels(drawn[file]):
        low, high = axes.get_xlim()
        shifts = [places(axes, method) - sizes for method in methods]
        for shift in shifts:
            np.testing.assert_allclose(shift, shift[0])
            assert low < sizes[0] + shift[0]
            assert sizes[-1] + shift[0] < high
        assert np.mean(shifts) == pytest.approx(0.0, abs=1e-9)
        for one, two in pairwise(shifts):
            assert 0.01 <= (two[0] - one[0]) / (high - low) <= 0.02
        assert ticks(axes.xaxis) == ["10", "20", "40", "60", "80", "100"]


def test_bars_of_methods_lie_at_their_points(drawn):
    for axes in panels(drawn["fig3bc"]):
        bars = [x for method in TEMPERATURE_FAMILY for x in bar_ends(axes, method)[:, 0]]
        assert len({round(float(x), 6) for x in bars}) == len(TEMPERATURE_FAMILY) * len(FRACTIONS)


def bar_ends(axes: Any, method: str) -> Any:
    """(points, 3): place, lower and upper end of the bars."""
    [bars] = curve(axes, method).lines[2]
    assert isinstance(bars, LineCollection)
    return np.array([[part[0, 0], part[0, 1], part[1, 1]] for part in bars.get_segments()])


def test_recipes_lie_beside_each_other_at_every_width(drawn):
    for axes in panels(drawn["fig1a"]):
        decades = np.log10(axes.get_xlim()[1] / axes.get_xlim()[0])
        shifts = []
        for method, widths in (("pts-paper", sorted((*PAPER_WIDTHS, 5))), ("pts", WIDTHS)):
            true = [parameter_count(method, width, 100) for width in widths]
            shift = np.log10(places(axes, method) / true) / decades
            np.testing.assert_allclose(shift, shift[0])
            shifts.append(shift[0])
        assert shifts[0] == pytest.approx(-shifts[1])
        assert 0.01 <= shifts[1] - shifts[0] <= 0.02
        for method, count in (("ts", 1), ("ets", 4)):
            assert places(axes, method) == [count]
            assert curve(axes, method).lines[0].get_linestyle() == "None"
        assert ticks(axes.xaxis) == ["1", "10", "100", "1,000"]


def test_bins_have_bars_beside_each_other(drawn):
    [axes] = panels(drawn["fig3a"])
    starts = [places(axes, method)[0] for method in TEMPERATURE_FAMILY]
    assert np.mean(starts) == pytest.approx(BIN_SWEEP[0])
    assert all(0.01 <= step / np.ptp(axes.get_xlim()) <= 0.02 for step in np.diff(starts))
    assert ticks(axes.xaxis) == [str(bins) for bins in BIN_SWEEP]
    assert axes.get_ylim()[0] == 0.0


def test_bars_end_at_an_ece_of_0():
    far = [row("cifar100-resnet50", "ts", seed, ece=ece) for seed, ece in enumerate((0.0, 0.0, 1))]
    canvas = laid_out(Results(far), ["cifar100-resnet50"])["fig3bc"]
    [axes] = panels(canvas)
    [[_, low, high]] = bar_ends(axes, "ts")
    assert (low, high) == (0.0, pytest.approx(100.0 / 3.0 + np.std([0, 0, 100], ddof=1)))


# --- axes -------------------------------------------------------------------------------------


@pytest.mark.parametrize("file", SHARED)
def test_panels_to_compare_share_the_vertical_axis(drawn, file):
    first, *others = panels(drawn[file])
    assert len(others) == 4
    for axes in others:
        assert axes.get_ylim() == first.get_ylim()
    assert [bool(axes.get_ylabel()) for axes in (first, *others)] == [
        True,
        False,
        False,
        True,
        False,
    ]
    shown = [any(label.get_visible() for label in axes.get_yticklabels()) for axes in others]
    assert shown == [False, False, True, False]


def test_lenet_alone_has_an_axis_of_its_own_in_figure_3(drawn):
    *five, lenet = panels(drawn["fig3bc"])
    assert len({axes.get_ylim() for axes in five}) == 1
    assert lenet.get_ylim() != five[0].get_ylim()
    assert lenet.get_ylabel() == "ECE (%)"
    assert lenet.get_title() == FIGURE_3C


@pytest.mark.parametrize("file", ["fig1a", "fig2", "fig3a", "fig3bc", "fig4a", "fig4b"])
def test_nothing_is_cut(drawn, file):
    for axes in panels(drawn[file]):
        low, high = axes.get_ylim()
        for held in axes.containers:
            if hasattr(held, "lines"):
                ends = bar_ends(axes, key_of(held.get_label()))
                assert low <= ends[:, 1].min()
                assert ends[:, 2].max() <= high
        if file in ("fig1a", "fig2", "fig3bc"):
            assert low == 0.0


def key_of(label: str) -> str:
    return next(key for key, method in METHODS.items() if method.label == label)


def test_figure_4a_is_logarithmic_with_plain_numbers(drawn):
    for axes in panels(drawn["fig4a"]):
        assert axes.get_yscale() == "log"
        assert set(ticks(axes.yaxis)) <= {
            "0.1",
            "0.2",
            "0.5",
            "1",
            "2",
            "5",
            "10",
            "20",
            "50",
            "100",
        }
        assert len(ticks(axes.yaxis)) > 2


# --- legends and titles -----------------------------------------------------------------------


@pytest.mark.parametrize(
    ("file", "labels"),
    [
        ("fig1a", ["TS", "ETS", "PTS (paper)", "PTS"]),
        ("fig2", ["PTS (paper)", "PTS", "TS", "ETS"]),
        ("fig4a", ["IROvA", "IROvA-TS", "IRM", "PTS (paper)", "PTS"]),
        ("fig4b", ["IRM, PTS (paper), PTS: exactly 0", "IROvA", "IROvA-TS"]),
    ],
)
def test_the_empty_sixth_place_has_the_legend(drawn, file, labels):
    canvas = drawn[file]
    assert len(canvas.axes) == 6
    empty = canvas.axes[-1]
    assert not empty.axison
    assert legend_of(canvas) == labels
    box = empty.get_legend().get_window_extent()
    assert all(not box.overlaps(axes.get_tightbbox()) for axes in canvas.axes[:-1])


@pytest.mark.parametrize(("file", "count"), [("fig3bc", 6), ("fig3a", 1)])
def test_without_an_empty_place_the_legend_is_beneath(drawn, file, count):
    canvas = drawn[file]
    assert len(canvas.axes) == count
    assert legend_of(canvas) == ["TS", "ETS", "PTS (paper)", "PTS"]
    box = canvas.legends[0].get_window_extent()
    assert all(box.y1 <= axes.get_tightbbox().y0 for axes in canvas.axes)


@pytest.mark.parametrize("file", ["fig1a", "fig2", "fig3bc", "fig4a", "fig4b"])
def test_a_panel_says_what_its_network_is(drawn, file):
    for axes, name in zip(panels(drawn[file]), [*GROUP, FIGURE_3C], strict=False):
        [below] = axes.texts
        title, room = axes.title.get_window_extent(), axes.get_window_extent()
        assert axes.get_title().startswith(name)
        assert below.get_text() == (STAND_IN if name in GROUP else "one of the paper's networks")
        assert below.get_fontsize() < axes.title.get_fontsize()
        for box in (title, below.get_window_extent()):
            assert room.x0 <= box.x0
            assert box.x1 <= room.x1
        assert room.y1 <= below.get_window_extent().y0
        assert below.get_window_extent().y1 <= title.y0 + 1.0


def test_other_sets_have_their_name_alone():
    with figures._style():
        canvas = figures._grid(Results(rows_of(["mine"])), ["mine"], figures._expressive_power)
    assert canvas.axes[0].get_title() == "mine"
    assert not canvas.axes[0].texts


# --- colours ----------------------------------------------------------------------------------


@pytest.mark.parametrize("methods", [TEMPERATURE_FAMILY, BESIDE_NON_PARAMETRIC])
def test_methods_have_their_own_colour_and_marker(methods):
    strokes = [figures.STROKES[method] for method in methods]
    assert len({stroke.color for stroke in strokes}) == len(methods)
    assert len({stroke.marker for stroke in strokes}) == len(methods)


def test_no_two_strokes_are_the_same_in_grey_print():
    for one, two in combinations(figures.STROKES.values(), 2):
        assert one.marker != two.marker


def test_the_published_recipe_is_dark_and_dashed():
    paper, default = (figures.STROKES[method] for method in RECIPES)
    light, dark = luminance(default.color), luminance(paper.color)
    assert (light + 0.05) / (dark + 0.05) >= 3.0
    assert paper.linestyle != default.linestyle


# --- figures of their own ---------------------------------------------------------------------


def test_methods_that_keep_the_accuracy_are_one_line(drawn):
    for axes in panels(drawn["fig4b"]):
        [line] = [one for one in axes.lines if one.get_label().endswith(": exactly 0")]
        assert list(line.get_ydata()) == [0.0, 0.0]
        assert [one.get_label() for one in axes.containers] == ["IROvA", "IROvA-TS"]


def test_a_method_that_loses_accuracy_once_has_a_curve():
    changed = [
        one | {"accuracy": 0.6} if one["method"] == "irm-raw" and one["fraction"] == 0.1 else one
        for one in rows_of(["cifar100-resnet50"])
    ]
    canvas = laid_out(Results(changed), ["cifar100-resnet50"])["fig4b"]
    assert legend_of(canvas) == ["PTS (paper), PTS: exactly 0", "IROvA", "IROvA-TS", "IRM"]
    assert canvas.axes[0].get_title() == "cifar100-resnet50 (70.5%)"


def test_figure_2_marks_the_temperatures_of_ts_and_ets(drawn):
    for axes in panels(drawn["fig2"]):
        lines = {line.get_label(): line for line in axes.lines}
        assert lines["TS"].get_xdata()[0] == 1.4
        assert lines["ETS"].get_xdata()[0] == 1.6
        assert lines["TS"].get_linestyle() != lines["ETS"].get_linestyle()
        outline, filled = axes.patches
        assert outline.get_edgecolor()[:3] == mpl.colors.to_rgb(figures.STROKES["pts-paper"].color)
        assert not outline.get_fill()
        assert filled.get_fill()
        assert filled.get_zorder() < outline.get_zorder() < lines["TS"].get_zorder()


def test_the_temperature_of_ets_is_that_of_ts_by_brier():
    """Rows of ETS hold none: its temperature is not all that it does."""
    data = tiny_set()
    ets, ts = (METHODS[key].make(0, None, "logits") for key in ("ets", captions.OF_ETS))
    for model in (ets, ts):
        model.fit(data.val_scores, data.val_labels)
    assert ets.temperature_ == ts.temperature_
    assert ets.temperature_ != calibrator("ts").fit(data.val_scores, data.val_labels).temperature_


def marks(axes: Any, marker: str) -> dict[str, list[tuple[float, float]]]:
    """Places of marks by the label of the strip that they lie in."""
    found: dict[str, list[tuple[float, float]]] = {}
    labels = ticks(axes.yaxis)
    for line in axes.lines:
        if line.get_marker() == marker:
            [x], [y] = line.get_data()
            found.setdefault(labels[round(y)], []).append((x, y))
    return found


def test_figure_1b_has_a_strip_for_every_method(drawn, results):
    left, right = panels(drawn["fig1b"])
    labels = ticks(left.yaxis)
    assert labels == [
        METHODS[m].label for m in METHODS if METHODS[m].published not in ("", "Linear")
    ]
    for axes, names in ((left, ON_CIFAR), (right, NINE)):
        dots, bars, crosses = (marks(axes, marker) for marker in "o|x")
        for key in ("pts", "pbmc-raw"):
            label = METHODS[key].label
            values = [results.mean("ece", name, key) for name in names]
            assert sorted(x for x, _ in dots[label]) == pytest.approx(sorted(values))
            [(mean, height)], [(theirs, below)] = bars[label], crosses[label]
            assert mean == pytest.approx(np.mean(values))
            rows = [published()["ece"][PAPER_ROWS[n]] for n in names if n in PAPER_ROWS]
            if axes is right:
                rows = list(published()["ece"].values())
            assert theirs == pytest.approx(np.mean([one[METHODS[key].published] for one in rows]))
            assert below - height > 0.3  # a cross covers no dot and no bar


def test_figure_1b_is_logarithmic_so_that_small_errors_have_room(drawn):
    left, right = panels(drawn["fig1b"])
    assert left.get_xscale() == right.get_xscale() == "log"
    assert left.get_xlim() == right.get_xlim()
    assert {"1", "2", "5"} <= set(ticks(left.xaxis))
    assert not any("10^" in text for text in ticks(left.xaxis))
    low, high = left.get_xlim()
    every = [x for axes in (left, right) for marker in "o|x" for x in xs(axes, marker)]
    assert low < min(every) < max(every) < high


def xs(axes: Any, marker: str) -> list[float]:
    return [x for found in marks(axes, marker).values() for x, _ in found]


def test_figure_1b_says_whose_means_it_shows(drawn):
    left, right = panels(drawn["fig1b"])
    assert left.get_title() == "the paper's four networks on CIFAR"
    assert left.texts[0].get_text() == "crosses: the same networks in the paper"
    assert (
        right.get_title() == "4 of the paper's networks and 5 architecture stand-ins on CIFAR-100"
    )
    assert right.texts[0].get_text() == (
        "crosses: the paper's nine networks, 5 of them on ImageNet"
    )
    titles = [axes.title.get_window_extent() for axes in (left, right)]
    assert titles[0].x1 < titles[1].x0
    assert titles[1].x1 <= drawn["fig1b"].bbox.x1
    assert legend_of(drawn["fig1b"]) == [
        "one of the paper's networks",
        STAND_IN,
        "our mean",
        "the paper's mean",
    ]


def test_stand_ins_are_hollow(drawn):
    left, right = panels(drawn["fig1b"])
    for axes, hollow in ((left, 0), (right, len(GROUP))):
        faces = [
            to_hex(line.get_markerfacecolor()) for line in axes.lines if line.get_marker() == "o"
        ]
        strips = len(axes.get_yticks())
        assert faces.count("#ffffff") == hollow * strips
        assert len(faces) == (len(ON_CIFAR) + hollow) * strips


@pytest.mark.parametrize(
    ("names", "title", "crosses"),
    [
        (ON_CIFAR[:1], "1 of the paper's four networks on CIFAR", "the same networks in the paper"),
        (list(PAPER_ROWS), "the paper's nine networks", "the same networks in the paper"),
        (
            GROUP[:1],
            "1 architecture stand-in on CIFAR-100",
            "the paper's nine networks, 5 of them ",
        ),
        (["mine", "yours"], "all 2 sets", "the paper's nine networks, 5 of them on ImageNet"),
        (["mine"], "one set", "the paper's nine networks, 5 of them on ImageNet"),
    ],
)
def test_titles_count_what_is_there(names, title, crosses):
    assert captions.title_of_means(names) == title
    assert captions.crosses(names).startswith(crosses)


def test_figure_1b_of_one_kind_has_one_panel():
    for names in (list(ON_CIFAR), GROUP, ["mine"]):
        canvas = laid_out(Results(rows_of(names)), [])["fig1b"]
        assert len(canvas.axes) == 1


# --- captions ---------------------------------------------------------------------------------


def test_captions_say_what_networks_are(results):
    texts = captions.captions(results, GROUP, real=False)
    for file in ("fig1a", "fig2", "fig3a", "fig3bc", "fig4a", "fig4b"):
        assert texts[file].startswith("Architecture stand-ins on CIFAR-100")
    lenet = "cifar100-lenet5, one of the paper's networks (3c), with a vertical axis of its own."
    assert lenet in texts["fig3bc"]
    assert "(hollow: architecture stand-ins on CIFAR-100)" in texts["fig1b"]
    assert "(left) and over its nine, of which 5 are on ImageNet (right)" in texts["fig1b"]
    assert "the dotted one that of ETS" in texts["fig2"]


def test_captions_of_other_networks():
    real = captions.captions(Results(rows_of([*ON_CIFAR, *IMAGENET])), IMAGENET, real=True)
    assert real["fig1a"].startswith("ImageNet networks.")
    assert "Crosses: the paper's mean over the same networks." in real["fig1b"]
    mine = captions.captions(Results(rows_of(["mine"])), ["mine"], real=False)
    assert mine["fig4a"].startswith("Sets of your own;")
    assert "hollow" not in mine["fig1b"]
    assert "3c)," not in mine["fig3bc"]
    lenet = captions.captions(Results(rows_of([FIGURE_3C])), [], real=False)
    assert lenet["fig3bc"].startswith("cifar100-lenet5, one of the paper's networks (3c). Bars")


def test_the_caption_of_figure_1a_counts_seeds_widths_and_networks(results):
    text = captions.captions(results, GROUP, real=False)["fig1a"]
    assert "Bars: one standard deviation over 2 seeds." in text
    assert "PTS (paper): hidden widths 1, 2, 5, 10 and 20 on all 5 networks." in text
    assert "PTS: hidden widths 1, 2, 3, 5, 8, 12 and 20 on all 5 networks." in text
    assert "the parameters of one network; PTS averages 4 of them." in text
    assert METHODS["pts"].make(0, None, "logits").get_params()["members"] == 4


def test_the_caption_of_figure_1a_is_about_the_rows_that_are_there():
    def there(one: Row) -> bool:
        swept = one["method"] == "pts-paper" and one["width"] is not None
        return not swept or (one["data"] == GROUP[4] and one["seed"] == 0)

    kept = Results(one for one in rows_of(GROUP, seeds=3) if there(one))
    text = captions.captions(kept, GROUP, real=False)["fig1a"]
    assert "over 1 to 3 seeds" in text
    assert (
        "PTS (paper): hidden width 5 on cifar100-resnet50, cifar100-resnet152, "
        "cifar100-densenet169 and cifar100-xception; hidden widths 1, 2, 5, 10 and 20 on "
        "cifar100-mobilenetv2." in text
    )
    single = captions.captions(Results(rows_of(GROUP[:1], seeds=1)), GROUP[:1], real=False)
    assert "One seed." in single["fig1a"]
    assert "10 and 20 on cifar100-resnet50." in single["fig1a"]


# --- files ------------------------------------------------------------------------------------


def test_the_same_rows_give_the_same_files(tmp_path):
    before = dict(mpl.rcParams)
    found = []
    for folder in (tmp_path / "one", tmp_path / "two"):
        written = figures.draw_all(Results(rows_of(GROUP[:2])), GROUP[:2], False, folder)
        assert sorted(figures.files(folder)) == sorted(folder.iterdir())
        assert [one.title for one in written] == list(captions.TITLES.values())
        found.append({file.name: file.read_bytes() for file in folder.iterdir()})
    assert found[0] == found[1]
    assert dict(mpl.rcParams) == before


def of_methods(*methods: str) -> Callable[[Row], bool]:
    return lambda one: one["method"] in methods


@pytest.mark.parametrize(
    "there",
    [
        of_methods("base"),
        of_methods("pts-paper"),
        of_methods("base", "ts", "irova-raw"),
        lambda one: one["data"] in GROUP[:2],
        lambda one: one["data"] in ON_CIFAR or one["method"] == "pts",
    ],
)
def test_what_is_there_so_far_is_drawn(there):
    some = Results(one for one in rows_of(NINE, seeds=1) if there(one))
    assert set(laid_out(some, GROUP)) == set(captions.captions(some, GROUP, real=False))
