"""Risk-coverage curves as a picture."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from calibrant.evaluation.diagrams import RiskCoverage
from calibrant.evaluation.plots._drawing import (
    axes_for,
    by_name,
    in_percent,
    legend,
    muted,
    named,
    strokes,
)

if TYPE_CHECKING:
    from matplotlib.axes import Axes


def risk_coverage(
    curves: RiskCoverage | Mapping[Any, RiskCoverage],
    *,
    ax: Axes | None = None,
    optimal: bool | None = None,
    **kwargs: Any,
) -> Axes:
    """Draw the error rate among the surest rows against their share.

    Parameters
    ----------
    curves : RiskCoverage or mapping of object to RiskCoverage
        What ``calibrant.diagrams.risk_coverage`` returns, or several of these by name.
    ax : matplotlib.axes.Axes, optional
        Where to draw; a new figure by default.
    optimal : bool, optional
        Whether the best possible curve is shown, too; by default for a single curve.
    **kwargs : object
        Passed on to the lines (``Axes.plot``).

    Returns
    -------
    matplotlib.axes.Axes
        The axes.

    Raises
    ------
    TypeError
        Where something is no ``RiskCoverage``.
    ImportError
        Where matplotlib is not installed.

    See Also
    --------
    calibrant.diagrams.risk_coverage : The numbers.

    Examples
    --------
    >>> from calibrant import diagrams, plots
    >>> curve = diagrams.risk_coverage([[0.9, 0.1], [0.8, 0.2], [0.6, 0.4]], [0, 0, 1])
    >>> plots.risk_coverage(curve).get_xlabel()
    'coverage'
    """
    shown = by_name(curves, RiskCoverage)
    ax = axes_for(ax)
    for (name, curve), stroke in zip(shown.items(), strokes(ax), strict=False):
        options = {"color": stroke.color, "linestyle": stroke.linestyle, "linewidth": 1.6, **kwargs}
        ax.plot(curve.coverage, curve.risk, label=named(name, f"AURC {curve.aurc:.2%}"), **options)
        if len(shown) == 1 if optimal is None else optimal:
            label = named(f"{name} optimum".strip(), f"{curve.aurc - curve.excess_aurc:.2%}")
            ax.plot(curve.coverage, curve.optimal, label=label, **muted(ax), linestyle=":")
    ax.set(xlabel="coverage", ylabel="error rate", xlim=(0.0, 1.0))
    ax.set_ylim(bottom=0.0)
    in_percent(ax.xaxis)
    in_percent(ax.yaxis)
    legend(ax, loc="upper left")
    return ax
