"""The reliability diagram as a picture."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

import numpy as np

from calibrant.common.types import Floats, InputKind
from calibrant.evaluation.diagrams import Reliability
from calibrant.evaluation.diagrams import reliability as compute
from calibrant.evaluation.plots._beneath import axes_beneath
from calibrant.evaluation.plots._drawing import (
    Stroke,
    axes_for,
    by_name,
    in_percent,
    ink,
    legend,
    muted,
    named,
    strokes,
)
from calibrant.metrics._notions import RowNotion

if TYPE_CHECKING:
    from matplotlib.axes import Axes

SIZE = (4.2, 4.6)  # of a new figure, in inches
_WITHOUT_LABELS = "call plots.reliability(probs, labels), or plots.reliability(diagram)"


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
    ax : matplotlib.axes.Axes, optional
        Where to draw; a new figure by default.
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
    ImportError
        Where matplotlib is not installed.

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
        diagrams = _computed(diagrams, labels, input, notion)
    shown = by_name(diagrams, Reliability, _WITHOUT_LABELS)
    single = len(shown) == 1
    first = next(iter(shown.values()))
    ax = axes_for(ax, SIZE)
    _draw_diagonal(ax)
    below = axes_beneath(ax) if histogram else None
    for (name, diagram), stroke in zip(shown.items(), strokes(ax), strict=False):
        as_bars = _as_bars(diagram, bars, single)
        if single if band is None else band:
            _draw_band(ax, diagram, stroke, as_bars, single)
        draw = _draw_bars if as_bars else _draw_line
        draw(ax, diagram, stroke, named(name, _error(diagram)), kwargs)
        if single if gap is None else gap:
            _draw_gap(ax, diagram, stroke, as_bars)
        if interval:
            _draw_interval(ax, diagram, stroke, single)
        if below is not None:
            _draw_histogram(below, diagram, stroke, single)
    _finish(ax, below, first)
    return ax


def _computed(
    scores: Any, labels: Any, kind: InputKind, notion: RowNotion | None
) -> Reliability | dict[Any, Reliability]:
    """The diagrams of probabilities or logits."""
    if isinstance(scores, Mapping):
        return {
            name: compute(one, labels, input=kind, notion=notion) for name, one in scores.items()
        }
    if isinstance(scores, Reliability):
        raise TypeError("labels go with probabilities, got a Reliability: leave the labels out")
    return compute(scores, labels, input=kind, notion=notion)


def _error(diagram: Reliability) -> str:
    return f"{'error' if diagram.edges is None else 'ECE'} {diagram.error:.2%}"


def _as_bars(diagram: Reliability, bars: bool | None, single: bool) -> bool:
    """Bins with equally many rows differ too much in width for bars, unless these are asked for."""
    if diagram.edges is None:
        return False
    return (single and diagram.kind == "equal-width") if bars is None else bars


# --- parts of the picture ---------------------------------------------------------------------


def _draw_diagonal(ax: Axes) -> None:
    if not any(line.get_label() == "_diagonal" for line in ax.lines):
        ax.plot([0.0, 1.0], [0.0, 1.0], linestyle=":", label="_diagonal", **muted(ax))


def _draw_band(ax: Axes, diagram: Reliability, stroke: Stroke, as_bars: bool, single: bool) -> None:
    x, low, high = diagram.confidence, diagram.band_low, diagram.band_high
    if np.isnan(low).all():
        return
    if as_bars and diagram.edges is not None:  # over the whole of each bin
        x, low, high = np.repeat(diagram.edges, 2)[1:-1], np.repeat(low, 2), np.repeat(high, 2)
    label = f"calibrated ({diagram.level:.0%})" if single else None
    color = ink(ax) if single else stroke.color
    ax.fill_between(x, low, high, color=color, alpha=0.22, linewidth=0.0, zorder=1.4, label=label)


def _draw_bars(
    ax: Axes, diagram: Reliability, stroke: Stroke, label: str, kwargs: dict[str, Any]
) -> None:
    left, width, full = _bins(diagram)
    look = {"color": (stroke.color, 0.4), "edgecolor": stroke.color, "linewidth": 0.8, "zorder": 1}
    options = {"align": "edge", **look, **kwargs}
    ax.bar(left[full], diagram.accuracy[full], width[full], label=label, **options)


def _draw_line(
    ax: Axes, diagram: Reliability, stroke: Stroke, label: str, kwargs: dict[str, Any]
) -> None:
    full = diagram.weight > 0.0
    options = {**stroke._asdict(), "markersize": 4.5, "linewidth": 1.4, "clip_on": False}
    if diagram.edges is None:
        options["marker"] = None  # a curve has as many points as it needs
    options |= kwargs
    ax.plot(diagram.confidence[full], diagram.accuracy[full], label=label, **options)


def _draw_gap(ax: Axes, diagram: Reliability, stroke: Stroke, as_bars: bool) -> None:
    look: dict[str, Any] = {"facecolor": "none", "edgecolor": stroke.color, "hatch": "/////"}
    look |= {"linewidth": 0.0, "zorder": 1.2, "label": "gap"}
    if as_bars:
        left, width, full = _bins(diagram)
        bottom = np.minimum(diagram.accuracy, diagram.confidence)[full]
        ax.bar(
            left[full],
            np.abs(diagram.gap)[full],
            width[full],
            bottom,
            align="edge",
            **look,
        )
    else:
        full = diagram.weight > 0.0
        x, y = diagram.confidence[full], diagram.accuracy[full]
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


def _draw_histogram(below: Axes, diagram: Reliability, stroke: Stroke, single: bool) -> None:
    bins = diagram.histogram
    look = {"edgecolor": stroke.color, "linestyle": stroke.linestyle, "linewidth": 1.0}
    if single:
        look |= {"facecolor": (stroke.color, 0.4), "fill": True}
    below.stairs(bins.share, bins.edges, **look)


def _bins(diagram: Reliability) -> tuple[Floats, Floats, Any]:
    """The left edges, the widths, and which bins have rows."""
    assert diagram.edges is not None
    return diagram.edges[:-1], np.diff(diagram.edges), diagram.weight > 0.0


def _finish(ax: Axes, below: Axes | None, diagram: Reliability) -> None:
    lowest = ax if below is None else below
    lowest.set_xlabel(diagram.score_label)
    ax.set_ylabel(diagram.share_label)
    ax.set(xlim=(0.0, 1.0), ylim=(0.0, 1.0))
    if below is not None:
        below.set_ylabel("rows")
        below.set_ylim(bottom=0.0)
        below.locator_params(axis="y", nbins=2)
        in_percent(below.yaxis)
    legend(ax, loc="upper left")
