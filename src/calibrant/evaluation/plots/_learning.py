"""Curves over fits as a picture."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from calibrant.evaluation.diagrams import LearningCurves
from calibrant.evaluation.plots._drawing import (
    axes_for,
    by_name,
    in_percent,
    legend,
    muted,
    plain_log,
    strokes,
)
from calibrant.metrics import METRICS

if TYPE_CHECKING:
    from matplotlib.axes import Axes

_OVER = {"rows": "validation rows", "parameters": "parameters"}
_LOG_FROM = 8.0  # times as many at the last place as at the first


def learning_curves(
    curves: LearningCurves, *, ax: Axes | None = None, spread: bool = True, **kwargs: Any
) -> Axes:
    """Draw a metric against the rows that methods were fitted on, or against their parameters.

    Parameters
    ----------
    curves : LearningCurves
        What ``calibrant.diagrams.learning_curves`` or ``capacity_curves`` returns.
    ax : matplotlib.axes.Axes, optional
        Where to draw; a new figure by default.
    spread : bool, default True
        Whether one standard deviation over the seeds is shaded, above and below the mean.
    **kwargs : object
        Passed on to the lines (``Axes.plot``).

    Returns
    -------
    matplotlib.axes.Axes
        The axes.

    Raises
    ------
    TypeError
        Where something is no ``LearningCurves``.
    ImportError
        Where matplotlib is not installed.

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
        if spread and not np.isnan(around).all():
            _draw_spread(ax, at, mean, around, stroke.color)
    ax.axhline(curves.uncalibrated, label="uncalibrated", linestyle=":", **muted(ax))
    places = np.concatenate(list(curves.at.values()))
    if places.max() >= _LOG_FROM * places.min():
        plain_log(ax, places)
    ax.set(xlabel=_OVER.get(curves.over, curves.over), ylabel=metric.heading)
    if metric.unit == "percent":
        in_percent(ax.yaxis)
    legend(ax)
    return ax


def _draw_spread(ax: Axes, at: Any, mean: Any, around: Any, color: str) -> None:
    """A shade; of a single place, a bar."""
    if len(at) == 1:
        ax.errorbar(at, mean, around, fmt="none", ecolor=color, capsize=2.0)
        return
    ax.fill_between(at, mean - around, mean + around, color=color, alpha=0.15, linewidth=0.0)
