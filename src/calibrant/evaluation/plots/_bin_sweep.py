"""The ECE against the number of bins as a picture."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

import numpy as np

from calibrant.evaluation.diagrams import BinSweep
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

if TYPE_CHECKING:
    from matplotlib.axes import Axes


def ece_by_bins(
    sweeps: BinSweep | Mapping[Any, BinSweep],
    *,
    ax: Axes | None = None,
    null: bool | None = None,
    **kwargs: Any,
) -> Axes:
    """Draw the ECE against the number of bins, beside that of a calibrated model.

    Parameters
    ----------
    sweeps : BinSweep or mapping of object to BinSweep
        What ``calibrant.diagrams.ece_by_bins`` returns, or several of these by name.
    ax : matplotlib.axes.Axes, optional
        Where to draw; a new figure by default.
    null : bool, optional
        Whether it is shown what a calibrated model would have; by default for a single sweep.
    **kwargs : object
        Passed on to the lines (``Axes.plot``).

    Returns
    -------
    matplotlib.axes.Axes
        The axes.

    Raises
    ------
    TypeError
        Where something is no ``BinSweep``.
    ImportError
        Where matplotlib is not installed.

    See Also
    --------
    calibrant.diagrams.ece_by_bins : The numbers.

    Examples
    --------
    >>> from calibrant import diagrams, plots
    >>> sweep = diagrams.ece_by_bins([[0.9, 0.1], [0.6, 0.4]], [0, 1], n_bins=[1, 10])
    >>> plots.ece_by_bins(sweep).get_ylabel()
    'ECE'
    """
    shown = by_name(sweeps, BinSweep)
    ax = axes_for(ax)
    for (name, sweep), stroke in zip(shown.items(), strokes(ax), strict=False):
        options = {**stroke._asdict(), "markersize": 4.5, "linewidth": 1.4, **kwargs}
        ax.plot(sweep.n_bins, sweep.ece, label=name or "ECE", **options)
        if len(shown) == 1 if null is None else null:
            _draw_null(ax, sweep, stroke.color if name else ink(ax), name)
    plain_log(ax, np.concatenate([sweep.n_bins for sweep in shown.values()]))
    kinds = {sweep.scheme for sweep in shown.values()}
    ax.set_xlabel(f"{kinds.pop()} bins" if len(kinds) == 1 else "bins")
    ax.set_ylabel("ECE")
    ax.set_ylim(bottom=0.0)
    in_percent(ax.yaxis)
    legend(ax)
    return ax


def _draw_null(ax: Axes, sweep: BinSweep, color: Any, name: str) -> None:
    if np.isnan(sweep.null).all():
        return
    label = f"{name}, if calibrated" if name else f"calibrated (mean, {sweep.level:.0%})"
    ax.plot(sweep.n_bins, sweep.null, label=label, **{**muted(ax), "color": color}, linestyle=":")
    ax.fill_between(sweep.n_bins, 0.0, sweep.null_high, color=color, alpha=0.15, linewidth=0.0)
