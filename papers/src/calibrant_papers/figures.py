"""The paper's figures, one panel per network, as SVG and PNG."""

from __future__ import annotations

from collections.abc import Callable, Collection, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from calibrant.files import replacing
from calibrant_papers import captions
from calibrant_papers._extras import need
from calibrant_papers.captions import BESIDE_NON_PARAMETRIC, TEMPERATURE_FAMILY
from calibrant_papers.experiments import BIN_SWEEP, FRACTIONS, METHODS, parameter_count
from calibrant_papers.logit_sets import FIGURE_3C, ON_CIFAR, PAPER_ROWS, STAND_INS, of_the_paper
from calibrant_papers.plan import RECIPES
from calibrant_papers.summary import PERCENT, Cell, Results, published


class Stroke(NamedTuple):
    """How a method is drawn: by colour and, for grey print, by marker and dashes."""

    color: str
    marker: str
    linestyle: str


# Okabe and Ito's colours, which colour-blind readers can tell apart, the same in every figure;
# markers and dashes tell methods apart in grey print.
STROKES = {
    "ts": Stroke("#E69F00", "s", "-"),
    "ets": Stroke("#009E73", "^", "-."),
    "pts-paper": Stroke("#222222", "D", "--"),
    "pts": Stroke("#0072B2", "o", "-"),
    "irova-raw": Stroke("#D55E00", "v", "-"),
    "irova-ts-raw": Stroke("#CC79A7", "X", "-."),
    "irm-raw": Stroke("#8c6d31", "P", ":"),
}
OTHER = Stroke("#7f7f7f", "o", "-")
PANEL = (2.9, 2.5)  # inches
MOST_COLUMNS = 4
PARAMETERS_SHOWN = (0.6, 1500.0)  # figure 1a, from edge to edge
SIZES_SHOWN = (3.0, 107.0)  # percent of the validation rows, likewise
SHIFT = 0.013  # of an axis: how far methods lie apart that have the same place
BAR = {"marker": "|", "ms": 11.0, "mew": 3.0, "linestyle": "none"}  # figure 1b: our mean
CROSS = {"marker": "x", "ms": 5.0, "color": "black", "linestyle": "none"}  # and the paper's
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
    texts = captions.captions(results, group, real)
    written = []
    with _style():
        canvases = _canvases(results, group)
        for file, title in captions.TITLES.items():
            if file not in canvases:
                continue
            for suffix in SUFFIXES:
                with replacing(folder / f"{file}.{suffix}") as image:
                    canvases[file].savefig(image, format=suffix, dpi=150, metadata=_undated(suffix))
            written.append(Figure(file, title, texts[file]))
    return written


def _canvases(results: Results, group: Sequence[str]) -> dict[str, Any]:
    """The figures by the names of their files."""
    with_lenet = [*group, *({FIGURE_3C} & set(results.names) - set(group))]
    grids: dict[str, tuple[Sequence[str], Panel, Sequence[str]]] = {
        "fig1a": (group, _expressive_power, group),
        "fig2": (group, _temperatures, ()),
        "fig3bc": (with_lenet, _by_size(), group),
        "fig4a": (group, _by_size(BESIDE_NON_PARAMETRIC, log=True), group),
        "fig4b": (group, _accuracy_gained, group),
    }
    canvases = {file: _grid(results, *grid) for file, grid in grids.items() if grid[0]}
    canvases["fig1b"] = _means(results)
    if group:
        canvases["fig3a"] = _bins(results, group)
    return canvases


def files(folder: Path) -> list[Path]:
    """What ``draw_all`` writes."""
    return [folder / f"{file}.{suffix}" for file in captions.TITLES for suffix in SUFFIXES]


def _undated(suffix: str) -> dict[str, None]:
    """The same rows give the same file, byte by byte."""
    return {"Date": None} if suffix == "svg" else {"Software": None}


STYLE = {
    "font.size": 8,
    "axes.titlesize": 8.5,
    "axes.spines.top": False,
    "axes.spines.right": False,
    "axes.grid": True,
    "axes.axisbelow": True,
    "grid.alpha": 0.25,
    "legend.frameon": False,
    "legend.handlelength": 2.8,
    "lines.markersize": 4.0,
    "svg.hashsalt": "calibrant",
}
SMALL = 7.0  # points


def _style() -> Any:
    """The figures' look, for as long as they are drawn: no setting of the caller's is touched."""
    return need("matplotlib").rc_context(STYLE)


def _canvas(size: tuple[float, float], rows: int = 1, columns: int = 1) -> tuple[Any, Any]:
    """A figure of its own, which pyplot does not know, and its axes."""
    figure = need("matplotlib.figure").Figure(figsize=size, layout="constrained")
    need("matplotlib.backends.backend_agg").FigureCanvasAgg(figure)
    return figure, figure.subplots(rows, columns, squeeze=False)


def _name(axis: Any, title: str, below: str) -> None:
    """A title and, in smaller letters, the line beneath it."""
    axis.set_title(title, pad=1.9 * SMALL if below else None)
    if below:
        axis.annotate(
            below,
            (0.5, 1.0),
            (0.0, 0.5 * SMALL),
            xycoords="axes fraction",
            textcoords="offset points",
            ha="center",
            fontsize=SMALL,
        )


def _from_zero(axis: Any) -> None:
    """Let an axis of numbers that are not negative begin at 0."""
    low, high = axis.dataLim.intervaly
    if axis.get_yscale() == "linear" and low >= 0.0 and high > 0.0:
        axis.set_ylim(bottom=0.0)


def _shift(index: int, methods: Collection[str]) -> float:
    """How far a method is moved sideways, as a share of the axis."""
    return SHIFT * (index - (len(methods) - 1) / 2.0)


# --- grids of panels --------------------------------------------------------------------------

Panel = Callable[[Any, Results, str], None]


def _grid(
    results: Results, names: Sequence[str], panel: Panel, compared: Collection[str] = ()
) -> Any:
    """One panel per set, and the legend in a place of its own.

    Those that are to be compared have one vertical axis.
    """
    rows = -(-len(names) // MOST_COLUMNS)
    columns = -(-len(names) // rows)
    size = (PANEL[0] * max(columns, 2), PANEL[1] * rows + 0.4)
    figure, axes = _canvas(size, rows, columns)
    shown, spare = axes.flat[: len(names)], axes.flat[len(names) :]
    leader = None  # whose vertical axis the others share
    for index, (axis, name) in enumerate(zip(shown, names, strict=True)):
        same = name in compared and leader is not None
        if same:
            axis.sharey(leader)
        elif name in compared:
            leader = axis
        _name(axis, name, captions.subtitle(name))
        panel(axis, results, name)
        if index % columns and (same or not compared):
            axis.set_ylabel("")
            axis.tick_params(labelleft=not same)
        if index + columns < len(names):  # another one is below
            axis.set_xlabel("")
    for axis in shown:
        _from_zero(axis)
    _legend(figure, shown, spare)
    return figure


def _legend(figure: Any, shown: Sequence[Any], spare: Sequence[Any]) -> None:
    """One legend of all panels: in the first place that is empty, or else beneath them."""
    entries: dict[str, Any] = {}
    for axis in shown:
        handles, labels = axis.get_legend_handles_labels()
        entries |= {label: handle for handle, label in zip(handles, labels, strict=True)}
    texts = (list(entries.values()), list(entries))
    for axis in spare[1:]:
        axis.remove()
    if len(spare):
        spare[0].set_axis_off()
        spare[0].legend(*texts, loc="center", fontsize="medium", labelspacing=0.9)
    else:
        figure.legend(*texts, loc="outside lower center", ncols=max(len(entries), 1))


def _expressive_power(axis: Any, results: Results, name: str) -> None:
    for method in ("ts", "ets"):
        cell = Cell(results.values("ece", name, method))
        _errorbar(axis, method, {parameter_count(method, None, 0): cell}, linestyle="none")
    low, high = PARAMETERS_SHOWN
    for index, method in enumerate(RECIPES):
        moved = (high / low) ** _shift(index, RECIPES)
        points = {}
        for width in captions.widths_run(results, name, method):
            rows = results.by_seed(name, method, width=captions.chosen(width))
            place = moved * parameter_count(method, width, next(iter(rows.values()))["classes"])
            points[place] = Cell(tuple(PERCENT * row["ece"] for row in rows.values()))
        _errorbar(axis, method, points)
    axis.set_xscale("log")
    _plain_log_ticks(axis.xaxis, (1.0,))
    axis.set(xlim=PARAMETERS_SHOWN, xlabel="parameters of one network", ylabel="ECE (%)")


def _by_size(methods: Sequence[str] = TEMPERATURE_FAMILY, log: bool = False) -> Panel:
    def panel(axis: Any, results: Results, name: str) -> None:
        for index, method in enumerate(methods):
            values = partial(_ece_at, results, name, method)
            _errorbar(axis, method, _curve(values, _shift(index, methods)))
        _sizes(axis)
        axis.set_ylabel("ECE (%)")
        if log:
            axis.set_yscale("log")
            _plain_log_ticks(axis.yaxis)

    return panel


def _ece_at(results: Results, name: str, method: str, fraction: float) -> tuple[float, ...]:
    return results.values("ece", name, method, fraction=fraction)


def _accuracy_gained(axis: Any, results: Results, name: str) -> None:
    """Against the same seed's own accuracy: seeds have different test rows."""
    methods = [m for m in BESIDE_NON_PARAMETRIC if _curve(partial(_gained_at, results, name, m))]
    kept = [m for m in methods if not any(_gains(results, name, m))]
    moved = [m for m in methods if m not in kept]
    if kept:
        label = f"{', '.join(METHODS[m].label for m in kept)}: exactly 0"
        axis.axhline(0.0, color=STROKES[kept[-1]].color, linewidth=2.0, label=label)
    for index, method in enumerate(moved):
        values = partial(_gained_at, results, name, method)
        _errorbar(axis, method, _curve(values, _shift(index, moved)), least=-np.inf)
    _sizes(axis)
    axis.set_ylabel("accuracy gained (points)")
    accuracy = results.mean("accuracy", name, "base")
    if not np.isnan(accuracy):
        axis.title.set_text(f"{name} ({accuracy:.1f}%)")


def _gains(results: Results, name: str, method: str) -> list[float]:
    """Of all sizes and seeds."""
    return [gain for size in FRACTIONS for gain in _gained_at(results, name, method, size)]


def _gained_at(results: Results, name: str, method: str, fraction: float) -> tuple[float, ...]:
    base, rows = results.by_seed(name, "base"), results.by_seed(name, method, fraction)
    return tuple(PERCENT * (rows[s]["accuracy"] - base[s]["accuracy"]) for s in rows if s in base)


def _sizes(axis: Any) -> None:
    """The horizontal axis of sizes, with a tick at each of them."""
    places = [PERCENT * fraction for fraction in FRACTIONS]
    axis.set_xticks(places, [f"{place:.0f}" for place in places])
    axis.set(xlim=SIZES_SHOWN, xlabel="validation rows used (%)")


def _curve(values: Callable[[float], tuple[float, ...]], shift: float = 0.0) -> dict[float, Cell]:
    """A method's values by the places of the sizes that were run."""
    moved = shift * (SIZES_SHOWN[1] - SIZES_SHOWN[0])
    cells = {PERCENT * fraction + moved: Cell(values(fraction)) for fraction in FRACTIONS}
    return {place: cell for place, cell in cells.items() if cell.values}


def _errorbar(
    axis: Any, method: str, points: dict[float, Cell], least: float = 0.0, **look: Any
) -> None:
    """Means over seeds, and bars of one standard deviation."""
    points = {place: cell for place, cell in points.items() if cell.values}
    if points:
        means = [cell.mean for cell in points.values()]
        spreads = np.nan_to_num([cell.spread for cell in points.values()])
        _bars(axis, method, list(points), means, spreads, least, **look)


def _bars(
    axis: Any, method: str, x: Any, means: Any, spreads: Any, least: float = 0.0, **look: Any
) -> None:
    """Points with bars, which end at the least value that there can be."""
    axis.errorbar(
        x,
        means,
        yerr=[np.minimum(spreads, np.subtract(means, least)), spreads],
        label=METHODS[method].label,
        **STROKES[method]._asdict() | look,
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
    if known:
        low, high = np.quantile(np.concatenate(list(known.values())), [0.005, 0.995])
        edges = np.linspace(low, max(high, low + 0.05), 41)
        for method, temperatures in known.items():
            axis.hist(
                temperatures,
                edges,
                weights=np.full(len(temperatures), PERCENT / len(temperatures)),
                histtype="stepfilled" if method == "pts" else "step",
                alpha=0.3 if method == "pts" else 1.0,
                linewidth=1.2,
                color=STROKES[method].color,
                label=METHODS[method].label,
                zorder=2.0 if method == "pts" else 2.5,
            )
    for method, label, style in (("ts", "TS", "--"), (captions.OF_ETS, "ETS", ":")):
        if 0 in (rows := results.by_seed(name, method)):
            color = STROKES[label.lower()].color
            place = rows[0]["temperatures"][0]
            axis.axvline(place, color=color, linestyle=style, linewidth=1.8, label=label, zorder=3)
    axis.set(xlabel="temperature", ylabel="test rows (%)")
    axis.margins(x=0.02)


def _plain_log_ticks(axis: Any, places: Sequence[float] = (1.0, 2.0, 5.0)) -> None:
    """Ticks at these places of every decade, as plain numbers."""
    ticker = need("matplotlib.ticker")
    axis.set_major_locator(ticker.LogLocator(subs=places))
    axis.set_major_formatter(ticker.FuncFormatter(lambda value, _: f"{value:,g}"))
    axis.set_minor_locator(ticker.NullLocator())


# --- single panels ----------------------------------------------------------------------------


def _bins(results: Results, group: Sequence[str]) -> Any:
    figure, [[axis]] = _canvas((5.6, 3.3))
    span = 1.1 * (BIN_SWEEP[-1] - BIN_SWEEP[0])
    for index, method in enumerate(TEMPERATURE_FAMILY):
        by_set = [
            np.mean([row["ece_by_bins"] for row in results.by_seed(name, method).values()], axis=0)
            for name in group
            if results.by_seed(name, method)
        ]
        if not by_set:
            continue
        curves = PERCENT * np.array(by_set)
        spread = curves.std(axis=0, ddof=1 if len(curves) > 1 else 0)
        places = np.array(BIN_SWEEP) + span * _shift(index, TEMPERATURE_FAMILY)
        _bars(axis, method, places, curves.mean(axis=0), spread)
    axis.set(xlabel="bins", ylabel="ECE (%)", xticks=BIN_SWEEP)
    _from_zero(axis)
    _legend(figure, [axis], [])
    return figure


def _means(results: Results) -> Any:
    """The networks on CIFAR, then all rows of Table 1, each with the paper's mean over as many."""
    names = of_the_paper(results.names)
    on_cifar = [name for name in names if name in ON_CIFAR]
    panels = [on_cifar, names] if 0 < len(on_cifar) < len(names) else [names]
    methods = [
        key
        for key, method in METHODS.items()
        if method.published not in ("", "Linear")
        and any(results.values("ece", name, key) for name in names)
    ]
    size = (4.6 * len(panels), 0.27 * len(methods) + 1.5)
    figure, [axes] = _canvas(size, columns=len(panels))
    for index, (axis, members) in enumerate(zip(axes, panels, strict=True)):
        if index:
            axis.sharex(axes[0])
            axis.sharey(axes[0])
            axis.tick_params(labelleft=False)
        _strips(axis, results, members, methods)
    axes[0].set_xscale("log")
    _plain_log_ticks(axes[0].xaxis)
    marks = {captions.subtitle(name) or "one set": _dot(name, OTHER.color) for name in names}
    marks |= {"our mean": {"color": OTHER.color, **BAR}, "the paper's mean": CROSS}
    line = need("matplotlib.lines").Line2D
    figure.legend(
        handles=[line([], [], label=label, **mark) for label, mark in marks.items()],
        loc="outside lower center",
        ncols=len(marks),
        handlelength=1.2,
    )
    return figure


def _strips(axis: Any, results: Results, names: Sequence[str], methods: Sequence[str]) -> None:
    """A strip for each method: its networks and their mean; below, the paper's mean."""
    for place, method in enumerate(methods):
        color = STROKES.get(method, OTHER).color
        if place % 2:
            axis.axhspan(place - 0.5, place + 0.5, color="#f4f4f4", linewidth=0, zorder=0)
        known = [name for name in names if results.values("ece", name, method)]
        means = [results.mean("ece", name, method) for name in known]
        for name, mean in zip(known, means, strict=True):
            axis.plot(mean, place - 0.13, **_dot(name, color))
        axis.plot(Cell(tuple(means)).mean, place - 0.13, color=color, **BAR)
        axis.plot(_in_the_paper(names, method), place + 0.3, **CROSS)
    axis.set_yticks(range(len(methods)), [METHODS[m].label for m in methods])
    axis.set_ylim(len(methods) - 0.5, -0.5)
    axis.grid(visible=False, axis="y")
    axis.set_xlabel("ECE (%)")
    _name(axis, captions.title_of_means(names), f"crosses: {captions.crosses(names)}")


def _dot(name: str, color: str) -> dict[str, Any]:
    """A network's dot, which is hollow for a stand-in."""
    face = "white" if name in STAND_INS else color
    return {"marker": "o", "ms": 3.6, "mew": 0.9, "mec": color, "mfc": face, "linestyle": "none"}


def _in_the_paper(names: Sequence[str], method: str) -> float:
    """The paper's mean over these networks, or where not all are the paper's, over its nine."""
    table = published()["ece"]
    same = set(names) <= set(PAPER_ROWS)
    rows = [table[PAPER_ROWS[name]] for name in names] if same else list(table.values())
    column = METHODS[method].published
    return Cell(tuple(value for row in rows if (value := row[column]) is not None)).mean
