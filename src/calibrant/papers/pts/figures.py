"""The paper's figures, one panel per network, as SVG and PNG."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np

from calibrant._files import replacing
from calibrant.papers.pts._extras import need
from calibrant.papers.pts.experiments import (
    BIN_SWEEP,
    FRACTIONS,
    METHODS,
    PUBLISHED_WIDTH,
    WIDTHS,
    parameter_count,
)
from calibrant.papers.pts.logit_sets import FIGURE_3C, ON_CIFAR, PAPER_ROWS, of_the_paper
from calibrant.papers.pts.plan import NON_PARAMETRIC, PAPER_WIDTHS, RECIPES
from calibrant.papers.pts.summary import PERCENT, Cell, Results, published

# Colours that colour-blind readers can tell apart (Okabe and Ito), the same in every figure.
COLOURS = {
    "base": "#7f7f7f",
    "ts": "#e69f00",
    "ets": "#009e73",
    "pts-paper": "#56b4e9",
    "pts": "#0072b2",
    "irova-raw": "#d55e00",
    "irova-ts-raw": "#cc79a7",
    "irm-raw": "#8c6d31",
}
MARKERS = {"ts": "s", "ets": "^", "pts-paper": "D", "pts": "o", "irova-raw": "v", "irm-raw": "P"}
TEMPERATURE_FAMILY = ("ts", "ets", *RECIPES)
BESIDE_NON_PARAMETRIC = (*NON_PARAMETRIC, *RECIPES)
PANEL = (2.9, 2.4)  # inches
SUFFIXES = ("svg", "png")


@dataclass(frozen=True)
class Figure:
    """A figure that was written: FILE.svg and FILE.png."""

    file: str
    title: str
    caption: str


def draw_all(results: Results, group: Sequence[str], real: bool, folder: Path) -> list[Figure]:
    """Write every figure that there are networks for into ``folder``."""
    folder.mkdir(parents=True, exist_ok=True)
    with_lenet = [*group, *({FIGURE_3C} & set(results.names) - set(group))]
    grids: dict[str, tuple[Sequence[str], Panel]] = {
        "fig1a": (group, _expressive_power),
        "fig2": (group, _temperatures),
        "fig3bc": (with_lenet, _by_size()),
        "fig4a": (group, _by_size(BESIDE_NON_PARAMETRIC, log=True)),
        "fig4b": (group, _accuracy_gained),
    }
    written = []
    with _style():
        canvases = {file: _grid(results, *grid) for file, grid in grids.items() if grid[0]}
        canvases["fig1b"] = _mean_bars(results)
        if group:
            canvases["fig3a"] = _bins(results, group)
        for figure in captions("ImageNet networks" if real else "Architecture stand-ins"):
            if figure.file not in canvases:
                continue
            for suffix in SUFFIXES:
                with replacing(folder / f"{figure.file}.{suffix}") as image:
                    canvases[figure.file].savefig(
                        image, format=suffix, dpi=150, metadata=_undated(suffix)
                    )
            written.append(figure)
    return written


def files(folder: Path) -> list[Path]:
    """What ``draw_all`` writes."""
    return [folder / f"{figure.file}.{suffix}" for figure in captions("") for suffix in SUFFIXES]


def captions(whose: str) -> list[Figure]:
    """What the figures show; ``whose`` networks those of ImageNet alone are."""
    bars = "Bars: one standard deviation over seeds."
    return [
        Figure(
            "fig1a",
            "Figure 1a: ECE against the number of parameters",
            f"{whose}. Hidden widths from {WIDTHS[0]} to {WIDTHS[-1]}. {bars} The paper shows "
            "MobileNetV2 on ImageNet.",
        ),
        Figure(
            "fig1b",
            "Figure 1b: mean ECE of every method",
            "The mean over networks; lines: one standard deviation over them. Crosses: the paper's "
            "mean over the same networks on CIFAR (left) and over its nine, of which five are on "
            "ImageNet (right).",
        ),
        Figure(
            "fig2",
            "Figure 2: temperatures of PTS on the test rows",
            f"{whose}; seed 0. The dashed line is the one temperature of TS. The outer 0.5% on "
            "either side are left out.",
        ),
        Figure(
            "fig3a",
            "Figure 3a: ECE against the number of bins",
            f"{whose}: the mean over them; bands: one standard deviation over them.",
        ),
        Figure(
            "fig3bc",
            "Figures 3b and 3c: ECE against the size of the validation set",
            f"{whose}. {bars} The paper shows MobileNetV2 on ImageNet (3b) and LeNet5 on CIFAR-100 "
            "(3c).",
        ),
        Figure(
            "fig4a",
            "Figure 4a: ECE of non-parametric methods against the size of the validation set",
            f"{whose}; raw outputs, as the authors' code gives them; the vertical axis is "
            f"logarithmic. {bars}",
        ),
        Figure(
            "fig4b",
            "Figure 4b: accuracy of non-parametric methods against the size of the validation set",
            f"{whose}. Points above or below the network's own accuracy, which is in the title; "
            f"PTS and IRM keep it. {bars}",
        ),
    ]


def _undated(suffix: str) -> dict[str, None]:
    """The same rows give the same file, byte by byte."""
    return {"Date": None} if suffix == "svg" else {"Software": None}


STYLE = {
    "font.size": 8,
    "axes.titlesize": 8.5,
    "axes.spines.top": False,
    "axes.spines.right": False,
    "axes.grid": True,
    "grid.alpha": 0.25,
    "legend.frameon": False,
    "lines.markersize": 3.5,
    "svg.hashsalt": "calibrant",
}


def _style() -> Any:
    """The figures' look, for as long as they are drawn: no setting of the caller's is touched."""
    return need("matplotlib").rc_context(STYLE)


def _canvas(size: tuple[float, float], rows: int = 1, columns: int = 1) -> tuple[Any, Any]:
    """A figure of its own, which pyplot does not know, and its axes."""
    figure = need("matplotlib.figure").Figure(figsize=size, layout="constrained")
    need("matplotlib.backends.backend_agg").FigureCanvasAgg(figure)
    return figure, figure.subplots(rows, columns, squeeze=False)


# --- grids of panels --------------------------------------------------------------------------

Panel = Callable[[Any, Results, str], None]


def _grid(results: Results, names: Sequence[str], panel: Panel) -> Any:
    """One panel per set, and the legend in a place of its own."""
    columns = min(4, len(names))
    rows = -(-len(names) // columns)
    size = (PANEL[0] * max(columns, 2), PANEL[1] * rows + 0.5)
    figure, axes = _canvas(size, rows, columns)
    for axis, name in zip(axes.flat, names, strict=False):
        axis.set_title(name)
        panel(axis, results, name)
    for axis in axes.flat[len(names) :]:
        axis.remove()
    for axis in axes[:, 1:].flat:
        axis.set_ylabel("")
    shown: dict[str, Any] = {}
    for axis in axes.flat[: len(names)]:
        handles, labels = axis.get_legend_handles_labels()
        shown |= {label: handle for handle, label in zip(handles, labels, strict=True)}
    figure.legend(
        list(shown.values()), list(shown), loc="outside lower center", ncols=max(len(shown), 1)
    )
    return figure


def _expressive_power(axis: Any, results: Results, name: str) -> None:
    for method in ("ts", "ets"):
        cell = Cell(results.values("ece", name, method))
        _errorbar(axis, method, [parameter_count(method, None, 0)], [cell], "none")
    classes = next(iter(results.by_seed(name, "ts").values()))["classes"]
    for method, widths in (("pts-paper", (*PAPER_WIDTHS, PUBLISHED_WIDTH)), ("pts", WIDTHS)):
        points = []
        for width in sorted(widths):
            chosen = None if width == PUBLISHED_WIDTH else width
            cell = Cell(results.values("ece", name, method, width=chosen))
            if cell.values:
                points.append((parameter_count(method, width, classes), cell))
        if points:
            _errorbar(axis, method, [x for x, _ in points], [cell for _, cell in points], "-")
    axis.set(xscale="log", xlabel="parameters of one network", ylabel="ECE (%)")
    axis.margins(x=0.08)  # the marker of TS lies whole within the axis
    axis.set_ylim(bottom=0.0)


def _by_size(methods: Sequence[str] = TEMPERATURE_FAMILY, log: bool = False) -> Panel:
    def panel(axis: Any, results: Results, name: str) -> None:
        for method in methods:
            _curve(axis, method, partial(_ece_at, results, name, method))
        axis.set(xlabel="validation rows used (%)", ylabel="ECE (%)")
        if log:
            axis.set_yscale("log")
            _plain_log_ticks(axis.yaxis)
        else:
            axis.set_ylim(bottom=0.0)

    return panel


def _ece_at(results: Results, name: str, method: str, fraction: float) -> tuple[float, ...]:
    return results.values("ece", name, method, fraction=fraction)


def _accuracy_gained(axis: Any, results: Results, name: str) -> None:
    """Against the same seed's own accuracy: seeds have different test rows."""
    for method in BESIDE_NON_PARAMETRIC:
        _curve(axis, method, partial(_gained_at, results, name, method))
    axis.set(xlabel="validation rows used (%)", ylabel="accuracy gained (points)")
    axis.set_title(f"{name} ({results.mean('accuracy', name, 'base'):.1f}%)")


def _gained_at(results: Results, name: str, method: str, fraction: float) -> tuple[float, ...]:
    base, rows = results.by_seed(name, "base"), results.by_seed(name, method, fraction)
    return tuple(PERCENT * (rows[s]["accuracy"] - base[s]["accuracy"]) for s in rows)


def _curve(axis: Any, method: str, values: Callable[[float], tuple[float, ...]]) -> None:
    """A method's means over the sizes that were run."""
    cells = {100 * fraction: Cell(values(fraction)) for fraction in FRACTIONS}
    known = {size: cell for size, cell in cells.items() if cell.values}
    if known:
        _errorbar(axis, method, list(known), list(known.values()), "-")


def _errorbar(axis: Any, method: str, x: Sequence[float], cells: Sequence[Cell], line: str) -> None:
    axis.errorbar(
        x,
        [cell.mean for cell in cells],
        yerr=np.nan_to_num([cell.spread for cell in cells]),
        label=METHODS[method].label,
        color=COLOURS[method],
        marker=MARKERS.get(method, "o"),
        linestyle=line,
        linewidth=1.2,
        capsize=1.5,
        elinewidth=0.8,
    )


def _temperatures(axis: Any, results: Results, name: str) -> None:
    """Histograms of both recipes over one range."""
    known = {
        method: np.array(rows[0]["temperatures"])
        for method in RECIPES
        if 0 in (rows := results.by_seed(name, method))
    }
    low, high = np.quantile(np.concatenate(list(known.values())), [0.005, 0.995])
    edges = np.linspace(low, max(high, low + 0.05), 41)
    for method, temperatures in known.items():
        axis.hist(
            temperatures,
            edges,
            weights=np.full(len(temperatures), PERCENT / len(temperatures)),
            histtype="stepfilled" if method == "pts" else "step",
            alpha=0.55 if method == "pts" else 1.0,
            linewidth=1.2,
            color=COLOURS[method],
            label=METHODS[method].label,
        )
    single = results.by_seed(name, "ts")[0]["temperatures"][0]
    axis.axvline(single, color=COLOURS["ts"], linestyle="--", linewidth=1.2, label="TS")
    axis.set(xlabel="temperature", ylabel="test rows (%)")
    axis.margins(x=0.02)


def _plain_log_ticks(axis: Any) -> None:
    """Ticks at 1, 2 and 5 of every decade, as plain numbers."""
    ticker = need("matplotlib.ticker")
    axis.set_major_locator(ticker.LogLocator(subs=(1.0, 2.0, 5.0)))
    axis.set_major_formatter(ticker.FuncFormatter(lambda value, _: f"{value:g}"))
    axis.set_minor_locator(ticker.NullLocator())


# --- single panels ----------------------------------------------------------------------------


def _bins(results: Results, group: Sequence[str]) -> Any:
    figure, [[axis]] = _canvas((5.2, 3.2))
    for method in TEMPERATURE_FAMILY:
        by_set = [
            np.mean([row["ece_by_bins"] for row in results.by_seed(name, method).values()], axis=0)
            for name in group
            if results.by_seed(name, method)
        ]
        curves = PERCENT * np.array(by_set)
        mean, spread = curves.mean(axis=0), curves.std(axis=0, ddof=1 if len(curves) > 1 else 0)
        look = {"color": COLOURS[method], "label": METHODS[method].label}
        axis.plot(BIN_SWEEP, mean, marker=MARKERS[method], linewidth=1.2, **look)
        axis.fill_between(
            BIN_SWEEP, mean - spread, mean + spread, color=COLOURS[method], alpha=0.12, linewidth=0
        )
    axis.set(xlabel="bins", ylabel="ECE (%)", xticks=BIN_SWEEP)
    axis.set_ylim(bottom=0.0)
    figure.legend(loc="outside lower center", ncols=len(TEMPERATURE_FAMILY))
    return figure


def _not_below_zero(values: Sequence[Sequence[float]]) -> Any:
    """Standard deviations as error bars that end at 0."""
    mean = np.nanmean(values, axis=1)
    spread = np.nanstd(values, axis=1, ddof=1 if len(values[0]) > 1 else 0)
    return [np.minimum(spread, mean), spread]


def _mean_bars(results: Results) -> Any:
    """The networks on CIFAR, then all rows of Table 1, each with the paper's mean over as many."""
    names = of_the_paper(results.names)
    panels = [
        ("networks on CIFAR", [n for n in names if n in ON_CIFAR], "paper, the same networks"),
        ("all rows of Table 1", names, "paper, nine networks"),
    ]
    kept = [panel for panel in panels if panel[1]]
    figure, axes = _canvas((6.0 * len(kept), 3.4), columns=len(kept))
    for axis, (title, members, label) in zip(axes.flat, kept, strict=True):
        _bars(axis, results, members, label)
        axis.set_title(f"{title} ({len(members)})")
    return figure


def _bars(axis: Any, results: Results, names: Sequence[str], label: str) -> None:
    methods = [key for key, method in METHODS.items() if method.published not in ("", "Linear")]
    means = {m: [results.mean("ece", name, m) for name in names] for m in methods}
    place = np.arange(len(methods))
    axis.bar(
        place,
        [np.nanmean(means[m]) for m in methods],
        yerr=_not_below_zero(list(means.values())),
        color=[COLOURS.get(m, "#b0b0b0") for m in methods],
        capsize=2.5,
        error_kw={"elinewidth": 0.9},
        width=0.68,
    )
    table = published()["ece"]
    on_cifar = set(names) <= set(ON_CIFAR)
    paper = [table[PAPER_ROWS[name]] for name in names] if on_cifar else list(table.values())
    theirs = [np.mean([x for row in paper if (x := row[METHODS[m].published])]) for m in methods]
    crosses = axis.plot(place, theirs, "kx", markersize=6, label=label)
    axis.set_xticks(place, [METHODS[m].label for m in methods], rotation=30, ha="right")
    axis.set_ylabel("ECE (%)")
    axis.set_ylim(bottom=0.0)
    axis.grid(visible=False, axis="x")
    axis.legend(handles=crosses, loc="upper right")
