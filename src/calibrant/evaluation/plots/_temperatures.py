"""The temperatures of rows as a picture."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Literal, get_args

import numpy as np

from calibrant.calibrators import REGISTRY
from calibrant.evaluation.diagrams import Temperatures
from calibrant.evaluation.plots._drawing import axes_for, by_name, in_percent, ink, legend, strokes

if TYPE_CHECKING:
    from matplotlib.axes import Axes

Followed = Literal["confidence", "margin", "entropy"]
_MOST_POINTS = 20_000
_LABELS = {"confidence": "confidence", "margin": "margin (of logits)", "entropy": "entropy (share)"}


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
    ax : matplotlib.axes.Axes, optional
        Where to draw; a new figure by default.
    **kwargs : object
        Passed on to the histogram (``Axes.hist``) or the points (``Axes.plot``).

    Returns
    -------
    matplotlib.axes.Axes
        The axes.

    Raises
    ------
    ValueError
        Where ``against`` is unknown.
    TypeError
        Where something is no ``Temperatures``.
    ImportError
        Where matplotlib is not installed.

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
    stroke = next(strokes(ax))
    if against is None:
        _draw_histogram(ax, found, stroke.color, kwargs)
    else:
        _draw_points(ax, found, against, stroke.color, kwargs)
    legend(ax)
    return ax


def _draw_histogram(ax: Axes, found: Temperatures, color: str, kwargs: dict[str, Any]) -> None:
    options = {"bins": _bins(found.temperature), "color": (color, 0.4), "edgecolor": color}
    share = np.full(len(found.temperature), 1.0 / len(found.temperature))
    options |= {"histtype": "stepfilled", "label": _method(found), "weights": share, **kwargs}
    ax.hist(found.temperature, **options)
    if found.reference is not None:
        ax.axvline(found.reference, **_reference(ax, found.reference))
    ax.set(xlabel="temperature", ylabel="rows")
    ax.set_ylim(top=1.3 * ax.get_ylim()[1])  # room for the legend
    in_percent(ax.yaxis)


def _bins(temperature: Any) -> Any:
    """The edges of 50 bins; of one around temperatures that are all the same."""
    low, high = temperature.min(), temperature.max()
    if high - low > 1e-6 * high:
        return np.linspace(low, high, 51)
    return np.array([0.95, 1.05]) * low


def _draw_points(
    ax: Axes, found: Temperatures, against: Followed, color: str, kwargs: dict[str, Any]
) -> None:
    rows = len(found.temperature)
    at = np.linspace(0, rows - 1, min(rows, _MOST_POINTS)).round().astype(np.intp)
    # Many points make a large file of curves and hide one another: they are a picture, and pale.
    pale = float(np.clip(30.0 / np.sqrt(len(at)), 0.15, 1.0))
    options: dict[str, Any] = {
        "linestyle": "none",
        "marker": ".",
        "color": color,
        "alpha": pale,
        "markersize": 3,
    }
    options |= {"markeredgewidth": 0, "rasterized": True, **kwargs}
    ax.plot(getattr(found, against)[at], found.temperature[at], label="_points", **options)
    ax.plot([], [], linestyle="none", marker="o", markersize=4, color=color, label=_method(found))
    if found.reference is not None:
        ax.axhline(found.reference, **_reference(ax, found.reference))
    ax.set(xlabel=_LABELS[against], ylabel="temperature")


def _method(found: Temperatures) -> str:
    """The method's name in the registry: those of classes are long."""
    names = (name for name, cls in REGISTRY.items() if cls.__name__ == found.method)
    return next(names, found.method)


def _reference(ax: Axes, value: float) -> dict[str, Any]:
    return {"color": ink(ax), "linestyle": "--", "linewidth": 1.2, "label": f"ts ({value:.3g})"}
