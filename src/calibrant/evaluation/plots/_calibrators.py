"""Calibrators as pictures: curves over their fits, and the temperatures that they give to rows."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Literal, get_args

import numpy as np

from calibrant.calibrators import REGISTRY
from calibrant.common.docstrings import documented
from calibrant.common.types import Floats
from calibrant.evaluation.diagrams import LearningCurves, Temperatures
from calibrant.evaluation.plots._drawing import (
    axes_for,
    by_name,
    in_percent,
    ink,
    legend,
    muted,
    plain_log,
    strokes,
)
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
    by_name(curves, LearningCurves)
    ax = axes_for(ax)
    metric = METRICS[curves.metric]
    for name, stroke in zip(curves.values, strokes(ax), strict=False):
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
    ax.axhline(curves.uncalibrated, label="uncalibrated", linestyle=":", **muted(ax))
    places = np.concatenate(list(curves.at.values()))
    if places.max() >= _LOG_FROM * places.min():
        plain_log(ax, places)
    ax.set(xlabel=_OVER.get(curves.over, curves.over), ylabel=metric.heading)
    if metric.unit == "percent":
        in_percent(ax.yaxis)
    legend(ax)
    return ax


@documented
def temperatures(
    found: Temperatures,
    *,
    against: Followed | None = None,
    ax: Axes | None = None,
    **kwargs: Any,
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
    by_name(found, Temperatures)
    if against not in (None, *get_args(Followed)):
        raise ValueError(
            f'against must be "confidence", "margin" or "entropy", or None, got {against!r}'
        )
    ax = axes_for(ax)
    color = next(strokes(ax)).color
    # the name in the registry: those of classes are long
    names = (name for name, cls in REGISTRY.items() if cls.__name__ == found.method)
    label = next(names, found.method)
    if against is None:
        _draw_histogram(ax, found.temperature, color, label, kwargs)
    else:
        _draw_points(ax, getattr(found, against), found.temperature, color, label, kwargs)
        ax.set(xlabel=_LABELS[against], ylabel="temperature")
    if found.reference is not None:
        draw = ax.axvline if against is None else ax.axhline
        look: dict[str, Any] = {"color": ink(ax), "linestyle": "--", "linewidth": 1.2}
        draw(found.reference, label=f"ts ({found.reference:.3g})", **look)
    legend(ax)
    return ax


def _draw_histogram(
    ax: Axes, temperature: Floats, color: str, label: str, kwargs: dict[str, Any]
) -> None:
    """Fifty bins; a single one around temperatures that are all the same."""
    low, high = temperature.min(), temperature.max()
    differ = high - low > 1e-6 * high
    options: dict[str, Any] = {
        "bins": np.linspace(low, high, 51) if differ else np.array([0.95, 1.05]) * low,
        "color": (color, 0.4),
        "edgecolor": color,
        "histtype": "stepfilled",
        "label": label,
        "weights": np.full(len(temperature), 1.0 / len(temperature)),
    }
    ax.hist(temperature, **(options | kwargs))
    ax.set(xlabel="temperature", ylabel="rows")
    ax.set_ylim(top=1.3 * ax.get_ylim()[1])  # room for the legend
    in_percent(ax.yaxis)


def _draw_points(
    ax: Axes, x: Floats, temperature: Floats, color: str, label: str, kwargs: dict[str, Any]
) -> None:
    at = np.linspace(0, len(x) - 1, min(len(x), _MOST_POINTS)).round().astype(np.intp)
    # Many points make a large file of curves and hide one another: they are a picture, and pale.
    options: dict[str, Any] = {
        "linestyle": "none",
        "marker": ".",
        "color": color,
        "alpha": float(np.clip(30.0 / np.sqrt(len(at)), 0.15, 1.0)),
        "markersize": 3,
        "markeredgewidth": 0,
        "rasterized": True,
    }
    ax.plot(x[at], temperature[at], label="_points", **(options | kwargs))
    ax.plot([], [], linestyle="none", marker="o", markersize=4, color=color, label=label)
