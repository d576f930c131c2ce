"""Over- and under-confidence by class as a picture."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, Literal

import numpy as np

from calibrant.common.types import Floats
from calibrant.evaluation.diagrams import ClassGaps
from calibrant.evaluation.plots._drawing import (
    axes_for,
    by_name,
    in_percent,
    ink,
    luminance,
    size_of,
)

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from numpy.typing import NDArray

Measure = Literal["gap", "z"]
_ROOM = (22.0, 10.0)  # points: the least width and height of a cell with a number in it
_HEIGHTS = (2.6, 8.0)


def class_gaps(
    gaps: ClassGaps,
    *,
    ax: Axes | None = None,
    measure: Measure = "gap",
    names: Sequence[str] | None = None,
    sort: bool = True,
    limit: float | None = None,
    colorbar: bool = True,
    **kwargs: Any,
) -> Axes:
    """Draw over- and under-confidence as a heat map: classes down, bins of confidence across.

    Parameters
    ----------
    gaps : ClassGaps
        What ``calibrant.diagrams.class_gaps`` returns.
    ax : matplotlib.axes.Axes, optional
        Where to draw; a new figure by default.
    measure : {"gap", "z"}, default "gap"
        Accuracy minus confidence, or the same in standard errors of a calibrated model.
    names : sequence of str, optional
        The names of the classes; their indices by default.
    sort : bool, default True
        Whether the most over-confident class comes first, or else class 0.
    limit : float, optional
        Where the colours end, above and below 0; by default where 2% of the rows are in stronger
        cells.
    colorbar : bool, default True
        Whether the colours are explained beside the map.
    **kwargs : object
        Passed on to the map (``Axes.imshow``), such as ``cmap``.

    Returns
    -------
    matplotlib.axes.Axes
        The axes.

    Raises
    ------
    ValueError
        Where ``measure`` is unknown, or names and classes differ in number.
    TypeError
        Where something is no ``ClassGaps``.
    ImportError
        Where matplotlib is not installed.

    See Also
    --------
    calibrant.diagrams.class_gaps : The numbers.

    Notes
    -----
    Orange cells promise too much (accuracy below confidence), purple ones too little. Cells without
    rows are hatched. Where there is room, cells hold their numbers, too: gaps in points of percent.

    Examples
    --------
    >>> from calibrant import diagrams, plots
    >>> gaps = diagrams.class_gaps([[0.8, 0.2], [0.8, 0.2], [0.3, 0.7]], [0, 1, 1], n_bins=2)
    >>> ax = plots.class_gaps(gaps, names=["cat", "dog"])
    >>> [label.get_text() for label in ax.get_yticklabels()]
    ['cat', 'dog']
    """
    by_name(gaps, ClassGaps)
    if measure not in ("gap", "z"):
        raise ValueError(f'measure must be "gap" or "z", got {measure!r}')
    classes = len(gaps.gap)
    if names is not None and len(names) != classes:
        raise ValueError(f"names must be those of {classes} classes, got {len(names)}")
    order = _order(gaps) if sort else np.arange(classes)
    cells = (gaps.gap if measure == "gap" else gaps.z)[order]
    ax = axes_for(ax, size_for(classes))
    limit = _limit(cells, gaps.bins.weight[order]) if limit is None else limit
    edges = (float(gaps.bins.edges[0]), float(gaps.bins.edges[-1]))
    place = {"extent": (*edges, classes - 0.5, -0.5), "aspect": "auto", "interpolation": "nearest"}
    options = {"cmap": "PuOr", "vmin": -limit, "vmax": limit, **place, **kwargs}
    image = ax.imshow(np.ma.array(cells, mask=np.isnan(cells)), **options)
    ax.patch.set(hatch="////", edgecolor=ink(ax), linewidth=0.0, alpha=0.3)
    if _has_room(ax, cells):
        _write_numbers(ax, image, cells, gaps.bins.edges, measure)
    _label_classes(ax, [str(i) if names is None else str(names[i]) for i in order.tolist()])
    predicted = gaps.notion == "top-label"
    ax.set(
        xlabel="confidence" if predicted else "probability of the class",
        ylabel="predicted class" if predicted else "class",
    )
    if colorbar:
        _draw_colorbar(ax, image, cells, measure)
    return ax


def size_for(classes: int) -> tuple[float, float]:
    """The inches of a new figure: a quarter for each class, within limits."""
    return 5.2, float(np.clip(0.25 * classes + 1.0, *_HEIGHTS))


def _order(gaps: ClassGaps) -> NDArray[Any]:
    """From the most over-confident class to the most under-confident one; empty ones last."""
    return np.argsort(gaps.by_class, kind="stable")  # NaN sorts last


def _limit(cells: Floats, weight: Floats) -> float:
    """Beyond which a fiftieth of the rows lie: single rows in odd cells would take all colours."""
    known = np.isfinite(cells) & (weight > 0.0)
    if not known.any():
        return 1.0
    size, rows = np.abs(cells[known]), weight[known]
    order = np.argsort(size)
    share = np.cumsum(rows[order]) / rows.sum()
    return float(size[order][np.searchsorted(share, 0.98)]) or 1.0


def _has_room(ax: Axes, cells: Floats) -> bool:
    (width, height), (rows, columns) = size_of(ax), cells.shape
    return width / columns >= _ROOM[0] and height / rows >= _ROOM[1]


def _write_numbers(ax: Axes, image: Any, cells: Floats, edges: Floats, measure: Measure) -> None:
    middle = (edges[1:] + edges[:-1]) / 2.0
    for row, column in np.argwhere(~np.isnan(cells)):
        value = cells[row, column]
        face = image.cmap(image.norm(value))
        ax.text(
            middle[column],
            row,
            f"{100.0 * value:+.0f}" if measure == "gap" else f"{value:+.1f}",
            ha="center",
            va="center",
            fontsize="x-small",
            color="black" if luminance(face) > 0.18 else "white",
            clip_on=True,
        )


def _label_classes(ax: Axes, labels: list[str]) -> None:
    """As many labels as there is room for, always that of the first row among them."""
    step = max(1, int(np.ceil(len(labels) * 12.0 / size_of(ax)[1])))
    at = range(0, len(labels), step)
    ax.set_yticks(list(at), [labels[row] for row in at])


def _draw_colorbar(ax: Axes, image: Any, cells: Floats, measure: Measure) -> None:
    known = cells[~np.isnan(cells)]
    beyond = (known < image.norm.vmin).any(), (known > image.norm.vmax).any()
    extend = {(0, 0): "neither", (1, 0): "min", (0, 1): "max", (1, 1): "both"}[beyond]
    bar = ax.figure.colorbar(image, ax=ax, extend=extend)
    what = "accuracy - confidence" if measure == "gap" else "gap / standard error"
    bar.set_label(what, color=ink(ax))
    bar.ax.tick_params(color=ink(ax), labelcolor=ink(ax))
    bar.outline.set_edgecolor(ax.spines["left"].get_edgecolor())
    if measure == "gap":
        in_percent(bar.ax.yaxis)
