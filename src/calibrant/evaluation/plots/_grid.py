"""Small multiples: a reliability diagram for every class or segment."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

import numpy as np

from calibrant.data.binning import check_count
from calibrant.evaluation.diagrams import Reliability
from calibrant.evaluation.plots._drawing import by_name, ink, matplotlib
from calibrant.evaluation.plots._reliability import reliability

if TYPE_CHECKING:
    from matplotlib.figure import FigureBase
    from numpy.typing import NDArray

MOST = 12
_COLUMNS = 4


def reliability_grid(
    diagrams: Mapping[Any, Reliability],
    *,
    figure: FigureBase | None = None,
    n_columns: int | None = None,
    most: int = MOST,
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
    ImportError
        Where matplotlib is not installed.

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
    panels = _panels(figure, number, columns)
    for ax, (key, diagram) in zip(panels, shown, strict=False):
        reliability(diagram, ax=ax, histogram=histogram, **kwargs)
        ax.set_title(f"{diagram.of if by_class else key}: {diagram.error:.2%}", fontsize="medium")
        ax.get_legend().remove()
    _label(panels, columns, shown[0][1], by_class)
    if len(shown) > most:
        which = "with the largest errors" if sort else "that come first"
        text = f"the {most} of {len(shown)} {which}"
        panels[0].figure.suptitle(text, fontsize="medium", color=ink(panels[0]))
    return panels


def _columns(panels: int) -> int:
    """At most four, in rows that are as equal as can be."""
    rows = -(-panels // _COLUMNS)
    return -(-panels // rows)


def size_for(number: int, columns: int | None = None) -> tuple[float, float]:
    """The inches of a new figure with so many panels."""
    columns = columns or _columns(number)
    return 2.0 * columns + 0.6, 2.1 * -(-number // columns) + 0.4


def _panels(figure: FigureBase | None, number: int, columns: int) -> NDArray[Any]:
    rows = -(-number // columns)
    if figure is None:
        size = size_for(number, columns)
        figure = matplotlib(".pyplot").figure(figsize=size, layout="constrained")
    grid = figure.subplots(rows, columns, sharex=True, sharey=True, squeeze=False)
    for ax in grid.flat[number:]:
        ax.remove()
    return np.array(list(grid.flat[:number]), dtype=object)


def _label(panels: NDArray[Any], columns: int, diagram: Reliability, by_class: bool) -> None:
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
