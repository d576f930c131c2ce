"""Calibrators as pictures: curves over their fits, and the temperatures that they give to rows."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Literal, get_args

import numpy as np

from calibrant.calibrators import REGISTRY
from calibrant.common.docstrings import documented
from calibrant.common.types import Floats
from calibrant.evaluation.diagrams import LearningCurves, Temperatures
from calibrant.evaluation.plots import _drawing as drawing
from calibrant.metrics import METRICS

if TYPE_CHECKING:
    from matplotlib.axes import Axes

Followed = Literal["confidence", "margin", "entropy"]
_OVER = {"rows": "validation rows", "parameters": "parameters"}
_LOG_FROM = 8.0  # times as many at the last place as at the first
_MOST_POINTS = 20_000
_LABELS = {"confidence": "confidence", "margin": "margin (of logits)", "entropy": "entropy (share)"}


@documented
def learning_curves(
    curves: LearningCurves, *, ax: Axes | None = None, spread: bool = True, **kwargs: Any
) -> Axes:
    """Draw a metric against the rows that methods were fitted on, or against their parameters.

    Parameters
    ----------
    curves : LearningCurves
        What ``calibrant.diagrams.learning_curves`` or ``capacity_curves`` returns.
    {ax}
    spread : bool, default True
        Whether one standard deviation over the seeds is shaded, above and below the mean.
    {line_options}

    Returns
    -------
    {drawn_axes}

    Raises
    ------
    TypeError
        Where something is no ``LearningCurves``.
    {needs_matplotlib}

    See Also
    --------
    calibrant.diagrams.learning_curves : The numbers, over rows.
    calibrant.diagrams.capacity_curves : The numbers, over parameters.

    Examples
    --------
    >>> import numpy as np
    >>> from calibrant import diagrams, plots
    >>> at, values = {"ts": np.array([100, 400])}, {"ts": np.array([[0.02, 0.01], [0.03, 0.01]])}
    >>> curves = diagrams.LearningCurves("ece", "rows", at, values, uncalibrated=0.05)
    >>> plots.learning_curves(curves).get_xlabel()
    'validation rows'
    """
    drawing.by_name(curves, LearningCurves)
    ax = drawing.axes_for(ax)
    metric = METRICS[curves.metric]
    for name, stroke in zip(curves.values, drawing.strokes(ax), strict=False):
        at, mean, around = curves.at[name], curves.mean(name), curves.spread(name)
        options = {**stroke._asdict(), "markersize": 4.5, "linewidth": 1.4, **kwargs}
        ax.plot(at, mean, label=name, **options)
        if not spread or np.isnan(around).all():
            continue
        if len(at) == 1:  # a bar, where there is nothing to shade
            ax.errorbar(at, mean, around, fmt="none", ecolor=stroke.color, capsize=2.0)
        else:
            shade: dict[str, Any] = {"color": stroke.color, "alpha": 0.15, "linewidth": 0.0}
            ax.fill_between(at, mean - around, mean + around, **shade)
    ax.axhline(curves.uncalibrated, label="uncalibrated", linestyle=":", **drawing.muted(ax))
    places = np.concatenate(list(curves.at.values()))
    if places.max() >= _LOG_FROM * places.min():
        drawing.plain_log(ax, places)
    ax.set(xlabel=_OVER.get(curves.over, curves.over), ylabel=metric.heading)
    if metric.unit == "percent":
        drawing.in_percent(ax.yaxis)
    drawing.legend(ax)
    return ax


@documented
def temperatures(
    found: Temperatures, *, against: Followed | None = None, ax: Axes | None = None, **kwargs: Any
) -> Axes:
    """Draw the temperatures of rows: how often each occurs, or what they follow.

    Parameters
    ----------
    found : Temperatures
        What ``calibrant.diagrams.temperatures`` returns.
    against : {"confidence", "margin", "entropy"}, optional
        What the temperatures are drawn against, a point for each row; a histogram by default.
    {ax}
    **kwargs : object
        Passed on to the histogram (``Axes.hist``) or the points (``Axes.plot``).

    Returns
    -------
    {drawn_axes}

    Raises
    ------
    ValueError
        Where ``against`` is unknown.
    TypeError
        Where something is no ``Temperatures``.
    {needs_matplotlib}

    See Also
    --------
    calibrant.diagrams.temperatures : The numbers.

    Notes
    -----
    Of more than 20,000 rows as many are drawn as points, at equal distances from the first to the
    last row.

    Examples
    --------
    >>> import calibrant
    >>> from calibrant import diagrams, plots
    >>> ts = calibrant.TS().fit([[2.0, 0.0], [3.0, 0.0], [0.0, 4.0], [0.0, 1.0]], [0, 1, 1, 0])
    >>> found = diagrams.temperatures(ts, [[2.0, 0.0], [0.0, 1.0]], reference=ts)
    >>> plots.temperatures(found, against="margin").get_ylabel()
    'temperature'
    """
    drawing.by_name(found, Temperatures)
    if against not in (None, *get_args(Followed)):
        raise ValueError(
            f'against must be "confidence", "margin" or "entropy", or None, got {against!r}'
        )
    ax = drawing.axes_for(ax)
    color = next(drawing.strokes(ax)).color
    # the name in the registry: those of classes are long
    names = (name for name, cls in REGISTRY.items() if cls.__name__ == found.method)
    label = next(names, found.method)
    look: dict[str, Any]
    if against is None:
        _draw_histogram(ax, found.temperature, color, {"label": label, **kwargs})
    else:
        rows = len(found.temperature)
        at = np.linspace(0, rows - 1, min(rows, _MOST_POINTS)).round().astype(np.intp)
        # Many points make a large file of curves and hide one another: a picture, and pale.
        alpha = float(np.clip(30.0 / np.sqrt(len(at)), 0.15, 1.0))
        look = {"linestyle": "none", "marker": ".", "markersize": 3, "markeredgewidth": 0}
        look |= {"color": color, "alpha": alpha, "rasterized": True, **kwargs}
        ax.plot(getattr(found, against)[at], found.temperature[at], label="_points", **look)
        ax.plot([], [], linestyle="none", marker="o", markersize=4, color=color, label=label)
        ax.set(xlabel=_LABELS[against], ylabel="temperature")
    if found.reference is not None:
        draw = ax.axvline if against is None else ax.axhline
        look = {"color": drawing.ink(ax), "linestyle": "--", "linewidth": 1.2}
        draw(found.reference, label=f"ts ({found.reference:.3g})", **look)
    drawing.legend(ax)
    return ax


def _draw_histogram(ax: Axes, temperature: Floats, color: str, given: dict[str, Any]) -> None:
    """Fifty bins; a single one around temperatures that are all the same."""
    low, high = temperature.min(), temperature.max()
    differ = high - low > 1e-6 * high
    bins = np.linspace(low, high, 51) if differ else np.array([0.95, 1.05]) * low
    weights = np.full(len(temperature), 1.0 / len(temperature))
    look = {"color": (color, 0.4), "edgecolor": color, "histtype": "stepfilled"}
    ax.hist(temperature, **{"bins": bins, "weights": weights, **look, **given})
    ax.set(xlabel="temperature", ylabel="rows")
    ax.set_ylim(top=1.3 * ax.get_ylim()[1])  # room for the legend
    drawing.in_percent(ax.yaxis)
