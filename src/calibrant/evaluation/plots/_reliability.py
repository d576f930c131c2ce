"""Reliability diagrams as pictures: one, several over one another, or a grid of them."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

import numpy as np

from calibrant.common.docstrings import documented
from calibrant.common.types import InputKind
from calibrant.data.binning import check_count
from calibrant.evaluation.diagrams import Reliability
from calibrant.evaluation.diagrams import reliability as compute
from calibrant.evaluation.plots._drawing import (
    Stroke,
    axes_beneath,
    axes_for,
    by_name,
    in_percent,
    ink,
    legend,
    matplotlib,
    muted,
    named,
    strokes,
)
from calibrant.metrics._notions import RowNotion

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import FigureBase
    from numpy.typing import NDArray

SIZE = (4.2, 4.6)  # of a new figure, in inches
MOST_PANELS = 12
_MOST_COLUMNS = 4
_WITHOUT_LABELS = "call plots.reliability(probs, labels), or plots.reliability(diagram)"


@documented
def reliability(
    diagrams: Any,
    labels: Any = None,
    *,
    input: InputKind = "probs",  # noqa: A002 - the word of the whole public interface
    notion: RowNotion | None = None,
    ax: Axes | None = None,
    bars: bool | None = None,
    interval: bool = True,
    band: bool | None = None,
    gap: bool | None = None,
    histogram: bool = True,
    **kwargs: Any,
) -> Axes:
    """Draw a reliability diagram, or several over one another.

    Parameters
    ----------
    diagrams : Reliability, array, or mapping of object to one of them
        What ``calibrant.diagrams.reliability`` returns, or several of these by name. With
        ``labels``, the probabilities themselves.
    labels : array of shape (n_rows,), optional
        The true classes, where ``diagrams`` are probabilities: their diagrams are computed here, in
        15 bins of equal width. ``calibrant.diagrams.reliability`` has more options.
    input : {"probs", "logits"}, default "probs"
        What the scores are; only with ``labels``.
    notion : {"class-1", "confidence"}, optional
        Whose calibration, as in ``calibrant.diagrams.reliability``; only with ``labels``.
    {ax}
    bars : bool, optional
        Whether bins are bars or else points on a line; by default bars for a single diagram of
        equal width. Isotonic and smooth curves are lines.
    interval : bool, default True
        Whether the interval of each bin, or of a curve, is shown.
    band : bool, optional
        Whether it is shown where a calibrated model would lie; by default for a single diagram.
    gap : bool, optional
        Whether the distance from the diagonal is hatched; by default for a single diagram.
    histogram : bool, default True
        Whether the shares of the rows at each confidence are shown beneath.
    **kwargs : object
        Passed on to the bars (``Axes.bar``) or the lines (``Axes.plot``).

    Returns
    -------
    matplotlib.axes.Axes
        The axes; the one with the histogram is among its ``child_axes``.

    Raises
    ------
    TypeError
        Where something is no ``Reliability`` and there are no labels.
    {needs_matplotlib}

    See Also
    --------
    calibrant.diagrams.reliability : The numbers.
    reliability_grid : A panel for every class or segment.

    Notes
    -----
    Empty bins are left empty. In an overlay the band is left out, since every model has its own:
    ``band=True`` draws all of them.

    Examples
    --------
    >>> from calibrant import diagrams, plots
    >>> diagram = diagrams.reliability([[0.8, 0.2]] * 50, [0, 1] * 25, n_bins=5)
    >>> ax = plots.reliability(diagram)
    >>> ax.get_ylabel()
    'share of class 1'
    """
    if labels is not None:
        if isinstance(diagrams, Reliability):
            raise TypeError("labels go with probabilities, got a Reliability: leave the labels out")
        given = diagrams if isinstance(diagrams, Mapping) else {"": diagrams}
        options: dict[str, Any] = {"input": input, "notion": notion}
        diagrams = {name: compute(probs, labels, **options) for name, probs in given.items()}
    shown = by_name(diagrams, Reliability, _WITHOUT_LABELS)
    single = len(shown) == 1
    ax = axes_for(ax, SIZE)
    if not any(line.get_label() == "_diagonal" for line in ax.lines):
        ax.plot([0.0, 1.0], [0.0, 1.0], linestyle=":", label="_diagonal", **muted(ax))
    below = axes_beneath(ax) if histogram else None
    for (name, diagram), stroke in zip(shown.items(), strokes(ax), strict=False):
        # bins with equally many rows differ too much in width for bars, unless these are asked for
        as_bars = single and diagram.kind == "equal-width" if bars is None else bars
        as_bars = as_bars and diagram.edges is not None
        if single if band is None else band:
            _draw_band(ax, diagram, stroke, as_bars, single)
        error = f"{'error' if diagram.edges is None else 'ECE'} {diagram.error:.2%}"
        _draw_shares(ax, diagram, stroke, as_bars, named(name, error), kwargs)
        if single if gap is None else gap:
            _draw_gap(ax, diagram, stroke, as_bars)
        if interval:
            _draw_interval(ax, diagram, stroke, single)
        if below is not None:
            look = {"edgecolor": stroke.color, "linestyle": stroke.linestyle, "linewidth": 1.0}
            if single:
                look |= {"facecolor": (stroke.color, 0.4), "fill": True}
            below.stairs(diagram.histogram.share, diagram.histogram.edges, **look)
    first = next(iter(shown.values()))
    (ax if below is None else below).set_xlabel(first.score_label)
    ax.set_ylabel(first.share_label)
    ax.set(xlim=(0.0, 1.0), ylim=(0.0, 1.0))
    if below is not None:
        below.set_ylabel("rows")
        below.set_ylim(bottom=0.0)
        below.locator_params(axis="y", nbins=2)
        in_percent(below.yaxis)
    legend(ax, loc="upper left")
    return ax


# --- parts of the picture ---------------------------------------------------------------------


def _draw_band(ax: Axes, diagram: Reliability, stroke: Stroke, as_bars: bool, single: bool) -> None:
    x, low, high = diagram.confidence, diagram.band_low, diagram.band_high
    if np.isnan(low).all():
        return
    if as_bars and diagram.edges is not None:  # over the whole of each bin
        x, low, high = np.repeat(diagram.edges, 2)[1:-1], np.repeat(low, 2), np.repeat(high, 2)
    label = f"calibrated ({diagram.level:.0%})" if single else None
    color = ink(ax) if single else stroke.color
    ax.fill_between(x, low, high, color=color, alpha=0.22, linewidth=0.0, zorder=1.4, label=label)


def _draw_shares(
    ax: Axes,
    diagram: Reliability,
    stroke: Stroke,
    as_bars: bool,
    label: str,
    kwargs: dict[str, Any],
) -> None:
    """The share of events in each bin as bars, or a line through all points."""
    full = diagram.weight > 0.0
    options: dict[str, Any]
    if as_bars and diagram.edges is not None:
        left, width = diagram.edges[:-1], np.diff(diagram.edges)
        options = {"align": "edge", "color": (stroke.color, 0.4), "edgecolor": stroke.color}
        options |= {"linewidth": 0.8, "zorder": 1, **kwargs}
        ax.bar(left[full], diagram.accuracy[full], width[full], label=label, **options)
        return
    options = {**stroke._asdict(), "markersize": 4.5, "linewidth": 1.4, "clip_on": False}
    if diagram.edges is None:
        options["marker"] = None  # a curve has as many points as it needs
    options |= kwargs
    ax.plot(diagram.confidence[full], diagram.accuracy[full], label=label, **options)


def _draw_gap(ax: Axes, diagram: Reliability, stroke: Stroke, as_bars: bool) -> None:
    look: dict[str, Any] = {"facecolor": "none", "edgecolor": stroke.color, "hatch": "/////"}
    look |= {"linewidth": 0.0, "zorder": 1.2, "label": "gap"}
    full = diagram.weight > 0.0
    x, y = diagram.confidence[full], diagram.accuracy[full]
    if as_bars and diagram.edges is not None:
        left, width = diagram.edges[:-1][full], np.diff(diagram.edges)[full]
        ax.bar(left, np.abs(y - x), width, np.minimum(x, y), align="edge", **look)
    else:
        ax.fill_between(x, x, y, **look)


def _draw_interval(ax: Axes, diagram: Reliability, stroke: Stroke, single: bool) -> None:
    if np.isnan(diagram.low).all():
        return
    label = f"{diagram.level:.0%} interval" if single else None
    if diagram.edges is None:
        look: dict[str, Any] = {"color": stroke.color, "alpha": 0.2, "linewidth": 0.0}
        x, low, high = diagram.confidence, diagram.low, diagram.high
        ax.fill_between(x, low, high, zorder=1.3, label=label, **look)
        return
    full = diagram.weight > 0.0
    middle = diagram.accuracy[full]
    around = [middle - diagram.low[full], diagram.high[full] - middle]
    ax.errorbar(
        diagram.confidence[full],
        middle,
        np.maximum(around, 0.0),
        fmt="none",
        ecolor=stroke.color,
        elinewidth=1.0,
        capsize=2.0,
        alpha=1.0 if single else 0.5,
        label=label,
    )


# --- small multiples --------------------------------------------------------------------------


@documented
def reliability_grid(
    diagrams: Mapping[Any, Reliability],
    *,
    figure: FigureBase | None = None,
    n_columns: int | None = None,
    most: int = MOST_PANELS,
    sort: bool = True,
    histogram: bool = False,
    **kwargs: Any,
) -> NDArray[Any]:
    """Draw a panel for every class or segment, those with the largest errors first.

    Parameters
    ----------
    diagrams : mapping of object to Reliability
        What ``calibrant.diagrams.reliability_by_class`` or ``reliability_by_segment`` returns.
    figure : matplotlib.figure.Figure or SubFigure, optional
        Where to draw; a new figure by default.
    n_columns : int, optional
        The number of columns; by default at most 4.
    most : int, default 12
        The most panels; where there are more diagrams the title says how many.
    sort : bool, default True
        Whether the largest errors come first, or else the order of the mapping is kept.
    histogram : bool, default False
        Whether each panel has its histogram beneath.
    **kwargs : object
        Passed on to ``reliability``.

    Returns
    -------
    ndarray of matplotlib.axes.Axes
        The panels in the order of the picture; ``panels[0].figure`` is the figure.

    Raises
    ------
    ValueError
        Where there is no diagram.
    TypeError
        Where something is no ``Reliability``.
    {needs_matplotlib}

    See Also
    --------
    calibrant.diagrams.reliability_by_class : The numbers, by class.
    calibrant.diagrams.reliability_by_segment : The numbers, by segment.

    Examples
    --------
    >>> from calibrant import diagrams, plots
    >>> by_class = diagrams.reliability_by_class([[0.8, 0.2]] * 50, [0, 1] * 25, n_bins=5)
    >>> [ax.get_title() for ax in plots.reliability_grid(by_class)]
    ['class 1: 30.00%', 'class 0: 30.00%']
    """
    by_name(diagrams, Reliability)
    check_count(most, "most")
    shown = list(diagrams.items())
    if sort:
        shown.sort(key=lambda item: -item[1].error)
    by_class = all(diagram.of == f"class {key}" for key, diagram in shown)
    number = min(most, len(shown))
    columns = n_columns or _columns(number)
    if figure is None:
        size = grid_size(number, columns)
        figure = matplotlib(".pyplot").figure(figsize=size, layout="constrained")
    rows = -(-number // columns)
    grid = figure.subplots(rows, columns, sharex=True, sharey=True, squeeze=False)
    for ax in grid.flat[number:]:
        ax.remove()
    panels = np.array(list(grid.flat[:number]), dtype=object)
    for ax, (key, diagram) in zip(panels, shown, strict=False):
        reliability(diagram, ax=ax, histogram=histogram, **kwargs)
        ax.set_title(f"{diagram.of if by_class else key}: {diagram.error:.2%}", fontsize="medium")
        ax.get_legend().remove()
    _label_panels(panels, columns, shown[0][1], by_class)
    if len(shown) > most:
        which = "with the largest errors" if sort else "that come first"
        text = f"the {most} of {len(shown)} {which}"
        panels[0].figure.suptitle(text, fontsize="medium", color=ink(panels[0]))
    return panels


def _columns(panels: int) -> int:
    """At most four, in rows that are as equal as can be."""
    rows = -(-panels // _MOST_COLUMNS)
    return -(-panels // rows)


def grid_size(number: int, columns: int | None = None) -> tuple[float, float]:
    """The inches of a new figure with so many panels."""
    columns = columns or _columns(number)
    return 2.0 * columns + 0.6, 2.1 * -(-number // columns) + 0.4


def _label_panels(panels: NDArray[Any], columns: int, diagram: Reliability, by_class: bool) -> None:
    """Words at the left and at the bottom alone; the titles say which class it is."""
    x, y = diagram.score_label, diagram.share_label
    if by_class:
        x, y = "probability", "share of class"
    panels[0].set(xticks=[0.0, 0.5, 1.0], yticks=[0.0, 0.5, 1.0])  # the others share them
    for index, ax in enumerate(panels):
        is_lowest = index + columns >= len(panels)
        lowest = ax.child_axes[-1] if ax.child_axes else ax
        lowest.tick_params(labelbottom=is_lowest)
        lowest.set_xlabel(x if is_lowest else "")
        if lowest is not ax and index % columns:
            lowest.set_ylabel("")
        ax.set_ylabel("" if index % columns else y)
