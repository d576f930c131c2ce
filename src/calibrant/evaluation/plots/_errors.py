"""Where a model errs, as pictures: calibration errors by bins and by class, risk by coverage."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any, Literal

import numpy as np

from calibrant.common.docstrings import documented
from calibrant.common.types import Floats
from calibrant.evaluation.diagrams import BinSweep, ClassGaps, RiskCoverage
from calibrant.evaluation.plots import _drawing as drawing

if TYPE_CHECKING:
    from matplotlib.axes import Axes

Measure = Literal["gap", "z"]
_ROOM = (22.0, 10.0)  # points: the least width and height of a cell with a number in it
_HEIGHTS = (2.6, 8.0)


@documented
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
    {ax}
    null : bool, optional
        Whether it is shown what a calibrated model would have; by default for a single sweep.
    {line_options}

    Returns
    -------
    {drawn_axes}

    Raises
    ------
    TypeError
        Where something is no ``BinSweep``.
    {needs_matplotlib}

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
    shown = drawing.by_name(sweeps, BinSweep)
    ax = drawing.axes_for(ax)
    for (name, sweep), stroke in zip(shown.items(), drawing.strokes(ax), strict=False):
        options = {**stroke._asdict(), "markersize": 4.5, "linewidth": 1.4, **kwargs}
        ax.plot(sweep.n_bins, sweep.ece, label=name or "ECE", **options)
        drawn = len(shown) == 1 if null is None else null
        if drawn and not np.isnan(sweep.null).all():
            color = stroke.color if name else drawing.ink(ax)
            label = f"{name}, if calibrated" if name else f"calibrated (mean, {sweep.level:.0%})"
            look = {**drawing.muted(ax), "color": color, "linestyle": ":"}
            ax.plot(sweep.n_bins, sweep.null, label=label, **look)
            shade: dict[str, Any] = {"color": color, "alpha": 0.15, "linewidth": 0.0}
            ax.fill_between(sweep.n_bins, 0.0, sweep.null_high, **shade)
    drawing.plain_log(ax, np.concatenate([sweep.n_bins for sweep in shown.values()]))
    kinds = {sweep.scheme for sweep in shown.values()}
    ax.set_xlabel(f"{kinds.pop()} bins" if len(kinds) == 1 else "bins")
    ax.set_ylabel("ECE")
    ax.set_ylim(bottom=0.0)
    drawing.in_percent(ax.yaxis)
    drawing.legend(ax)
    return ax


@documented
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
    {ax}
    optimal : bool, optional
        Whether the best possible curve is shown, too; by default for a single curve.
    {line_options}

    Returns
    -------
    {drawn_axes}

    Raises
    ------
    TypeError
        Where something is no ``RiskCoverage``.
    {needs_matplotlib}

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
    shown = drawing.by_name(curves, RiskCoverage)
    ax = drawing.axes_for(ax)
    for (name, curve), stroke in zip(shown.items(), drawing.strokes(ax), strict=False):
        options = {"color": stroke.color, "linestyle": stroke.linestyle, "linewidth": 1.6, **kwargs}
        ax.plot(
            curve.coverage,
            curve.risk,
            label=drawing.named(name, f"AURC {curve.aurc:.2%}"),
            **options,
        )
        if len(shown) == 1 if optimal is None else optimal:
            label = drawing.named(
                f"{name} optimum".strip(), f"{curve.aurc - curve.excess_aurc:.2%}"
            )
            ax.plot(curve.coverage, curve.optimal, label=label, **drawing.muted(ax), linestyle=":")
    ax.set(xlabel="coverage", ylabel="error rate", xlim=(0.0, 1.0))
    ax.set_ylim(bottom=0.0)
    drawing.in_percent(ax.xaxis)
    drawing.in_percent(ax.yaxis)
    drawing.legend(ax, loc="upper left")
    return ax


@documented
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
    {ax}
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
    {drawn_axes}

    Raises
    ------
    ValueError
        Where ``measure`` is unknown, or names and classes differ in number.
    TypeError
        Where something is no ``ClassGaps``.
    {needs_matplotlib}

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
    drawing.by_name(gaps, ClassGaps)
    if measure not in ("gap", "z"):
        raise ValueError(f'measure must be "gap" or "z", got {measure!r}')
    classes = len(gaps.gap)
    if names is not None and len(names) != classes:
        raise ValueError(f"names must be those of {classes} classes, got {len(names)}")
    # from the most over-confident class to the most under-confident one; empty ones (NaN) last
    order = np.argsort(gaps.by_class, kind="stable") if sort else np.arange(classes)
    cells = (gaps.gap if measure == "gap" else gaps.z)[order]
    ax = drawing.axes_for(ax, class_gaps_size(classes))
    limit = _limit(cells, gaps.bins.weight[order]) if limit is None else limit
    edges = (float(gaps.bins.edges[0]), float(gaps.bins.edges[-1]))
    place = {"extent": (*edges, classes - 0.5, -0.5), "aspect": "auto", "interpolation": "nearest"}
    options = {"cmap": "PuOr", "vmin": -limit, "vmax": limit, **place, **kwargs}
    image = ax.imshow(np.ma.array(cells, mask=np.isnan(cells)), **options)
    ax.patch.set(hatch="////", edgecolor=drawing.ink(ax), linewidth=0.0, alpha=0.3)
    (width, height), (_, columns) = drawing.size_of(ax), cells.shape
    if width / columns >= _ROOM[0] and height / classes >= _ROOM[1]:
        _write_numbers(ax, image, cells, gaps.bins.edges, measure)
    # as many labels as there is room for, always that of the first row among them
    at = range(0, classes, max(1, int(np.ceil(classes * 12.0 / height))))
    labels = [str(i) if names is None else str(names[i]) for i in order.tolist()]
    ax.set_yticks(list(at), [labels[row] for row in at])
    predicted = gaps.notion == "top-label"
    ax.set(
        xlabel="confidence" if predicted else "probability of the class",
        ylabel="predicted class" if predicted else "class",
    )
    if colorbar:
        _draw_colorbar(ax, image, cells, measure)
    return ax


def class_gaps_size(classes: int) -> tuple[float, float]:
    """The inches of a new figure: a quarter for each class, within limits."""
    return 5.2, float(np.clip(0.25 * classes + 1.0, *_HEIGHTS))


def _limit(cells: Floats, weight: Floats) -> float:
    """Beyond which a fiftieth of the rows lie: single rows in odd cells would take all colours."""
    known = np.isfinite(cells) & (weight > 0.0)
    if not known.any():
        return 1.0
    size, rows = np.abs(cells[known]), weight[known]
    order = np.argsort(size)
    share = np.cumsum(rows[order]) / rows.sum()
    return float(size[order][np.searchsorted(share, 0.98)]) or 1.0


def _write_numbers(ax: Axes, image: Any, cells: Floats, edges: Floats, measure: Measure) -> None:
    middle = (edges[1:] + edges[:-1]) / 2.0
    look: dict[str, Any] = {"ha": "center", "va": "center", "fontsize": "x-small", "clip_on": True}
    for row, column in np.argwhere(~np.isnan(cells)):
        value = cells[row, column]
        text = f"{100.0 * value:+.0f}" if measure == "gap" else f"{value:+.1f}"
        is_light = drawing.luminance(image.cmap(image.norm(value))) > 0.18
        ax.text(middle[column], row, text, color="black" if is_light else "white", **look)


def _draw_colorbar(ax: Axes, image: Any, cells: Floats, measure: Measure) -> None:
    known = cells[~np.isnan(cells)]
    beyond = (known < image.norm.vmin).any(), (known > image.norm.vmax).any()
    extend = {(0, 0): "neither", (1, 0): "min", (0, 1): "max", (1, 1): "both"}[beyond]
    bar = ax.figure.colorbar(image, ax=ax, extend=extend)
    what = "accuracy - confidence" if measure == "gap" else "gap / standard error"
    bar.set_label(what, color=drawing.ink(ax))
    bar.ax.tick_params(color=drawing.ink(ax), labelcolor=drawing.ink(ax))
    bar.outline.set_edgecolor(ax.spines["left"].get_edgecolor())
    if measure == "gap":
        drawing.in_percent(bar.ax.yaxis)
