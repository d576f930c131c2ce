"""Reliability diagrams as pictures: one, several over one another, a grid, or a display."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, Self

import numpy as np

from calibrant.calibrators import Calibrator
from calibrant.common.docstrings import documented
from calibrant.common.types import Floats, InputKind
from calibrant.data.binning import check_count
from calibrant.data.checks import as_numpy
from calibrant.evaluation.diagrams import Kind, Reliability
from calibrant.evaluation.diagrams import reliability as compute
from calibrant.evaluation.plots import _drawing as drawing
from calibrant.evaluation.plots._drawing import Stroke
from calibrant.metrics._notions import RowNotion

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import FigureBase
    from numpy.typing import NDArray

SIZE = (4.2, 4.6)  # of a new figure, in inches
MOST_PANELS = 12
_MOST_COLUMNS = 4
_WITHOUT_LABELS = "call plots.reliability(probs, labels), or plots.reliability(diagram)"


@documented
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
    {ax}
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
    {needs_matplotlib}

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
        if isinstance(diagrams, Reliability):
            raise TypeError("labels go with probabilities, got a Reliability: leave the labels out")
        given = diagrams if isinstance(diagrams, Mapping) else {"": diagrams}
        options: dict[str, Any] = {"input": input, "notion": notion}
        diagrams = {name: compute(probs, labels, **options) for name, probs in given.items()}
    shown = drawing.by_name(diagrams, Reliability, _WITHOUT_LABELS)
    single = len(shown) == 1
    ax = drawing.axes_for(ax, SIZE)
    if not any(line.get_label() == "_diagonal" for line in ax.lines):
        ax.plot([0.0, 1.0], [0.0, 1.0], linestyle=":", label="_diagonal", **drawing.muted(ax))
    below = drawing.axes_beneath(ax) if histogram else None
    for (name, diagram), stroke in zip(shown.items(), drawing.strokes(ax), strict=False):
        # bins with equally many rows differ too much in width for bars, unless these are asked for
        as_bars = single and diagram.kind == "equal-width" if bars is None else bars
        edges = diagram.edges if as_bars else None
        if single if band is None else band:
            calibrated = f"calibrated ({diagram.level:.0%})" if single else None
            color = drawing.ink(ax) if single else stroke.color
            _draw_band(ax, diagram, color, edges, calibrated)
        error = f"{'error' if diagram.edges is None else 'ECE'} {diagram.error:.2%}"
        hatched = single if gap is None else gap
        label = drawing.named(name, error)
        _draw_shares(ax, diagram, stroke, edges, hatched, label=label, **kwargs)
        if interval:
            _draw_interval(ax, diagram, stroke.color, single)
        if below is not None:
            look = {"edgecolor": stroke.color, "linestyle": stroke.linestyle, "linewidth": 1.0}
            if single:
                look |= {"facecolor": (stroke.color, 0.4), "fill": True}
            below.stairs(diagram.histogram.share, diagram.histogram.edges, **look)
    first = next(iter(shown.values()))
    (ax if below is None else below).set_xlabel(first.score_label)
    ax.set_ylabel(first.share_label)
    ax.set(xlim=(0.0, 1.0), ylim=(0.0, 1.0))
    if below is not None:
        below.set_ylabel("rows")
        below.set_ylim(bottom=0.0)
        below.locator_params(axis="y", nbins=2)
        drawing.in_percent(below.yaxis)
    drawing.legend(ax, loc="upper left")
    return ax


# --- parts of the picture ---------------------------------------------------------------------


def _draw_band(
    ax: Axes, diagram: Reliability, color: Any, edges: Floats | None, label: str | None
) -> None:
    x, low, high = diagram.confidence, diagram.band_low, diagram.band_high
    if np.isnan(low).all():
        return
    if edges is not None:  # over the whole of each bin
        x, low, high = np.repeat(edges, 2)[1:-1], np.repeat(low, 2), np.repeat(high, 2)
    ax.fill_between(x, low, high, color=color, alpha=0.22, linewidth=0.0, zorder=1.4, label=label)


def _draw_shares(
    ax: Axes, diagram: Reliability, stroke: Stroke, edges: Floats | None, gap: bool, **given: Any
) -> None:
    """The share of events in each bin as bars, or a line through all points; its gap hatched."""
    full = diagram.weight > 0.0
    x, y = diagram.confidence[full], diagram.accuracy[full]
    hatched: dict[str, Any] = {"facecolor": "none", "edgecolor": stroke.color, "hatch": "/////"}
    hatched |= {"linewidth": 0.0, "zorder": 1.2, "label": "gap"}
    look: dict[str, Any]
    if edges is not None:
        left, width = edges[:-1][full], np.diff(edges)[full]
        look = {"align": "edge", "color": (stroke.color, 0.4), "edgecolor": stroke.color}
        ax.bar(left, y, width, **(look | {"linewidth": 0.8, "zorder": 1} | given))
        if gap:
            ax.bar(left, np.abs(y - x), width, np.minimum(x, y), align="edge", **hatched)
        return
    look = {**stroke._asdict(), "markersize": 4.5, "linewidth": 1.4, "clip_on": False}
    if diagram.edges is None:
        look["marker"] = None  # a curve has as many points as it needs
    ax.plot(x, y, **(look | given))
    if gap:
        ax.fill_between(x, x, y, **hatched)


def _draw_interval(ax: Axes, diagram: Reliability, color: str, single: bool) -> None:
    x, low, high = diagram.confidence, diagram.low, diagram.high
    if np.isnan(low).all():
        return
    label = f"{diagram.level:.0%} interval" if single else None
    look: dict[str, Any]
    if diagram.edges is None:
        look = {"color": color, "alpha": 0.2, "linewidth": 0.0, "zorder": 1.3}
        ax.fill_between(x, low, high, label=label, **look)
        return
    full = diagram.weight > 0.0
    middle = diagram.accuracy[full]
    around = np.maximum([middle - low[full], high[full] - middle], 0.0)
    look = {"ecolor": color, "elinewidth": 1.0, "capsize": 2.0, "alpha": 1.0 if single else 0.5}
    ax.errorbar(x[full], middle, around, fmt="none", label=label, **look)


# --- small multiples --------------------------------------------------------------------------


@documented
def reliability_grid(
    diagrams: Mapping[Any, Reliability],
    *,
    figure: FigureBase | None = None,
    n_columns: int | None = None,
    most: int = MOST_PANELS,
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
    {needs_matplotlib}

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
    drawing.by_name(diagrams, Reliability)
    check_count(most, "most")
    shown = list(diagrams.items())
    if sort:
        shown.sort(key=lambda item: -item[1].error)
    by_class = all(diagram.of == f"class {key}" for key, diagram in shown)
    number = min(most, len(shown))
    columns = n_columns or _columns(number)
    if figure is None:
        size = grid_size(number, columns)
        figure = drawing.matplotlib(".pyplot").figure(figsize=size, layout="constrained")
    rows = -(-number // columns)
    grid = figure.subplots(rows, columns, sharex=True, sharey=True, squeeze=False)
    for ax in grid.flat[number:]:
        ax.remove()
    panels = np.array(list(grid.flat[:number]), dtype=object)
    for ax, (key, diagram) in zip(panels, shown, strict=False):
        reliability(diagram, ax=ax, histogram=histogram, **kwargs)
        ax.set_title(f"{diagram.of if by_class else key}: {diagram.error:.2%}", fontsize="medium")
        ax.get_legend().remove()
    _label_panels(panels, columns, shown[0][1], by_class)
    if len(shown) > most:
        which = "with the largest errors" if sort else "that come first"
        text = f"the {most} of {len(shown)} {which}"
        panels[0].figure.suptitle(text, fontsize="medium", color=drawing.ink(panels[0]))
    return panels


def _columns(panels: int) -> int:
    """At most four, in rows that are as equal as can be."""
    rows = -(-panels // _MOST_COLUMNS)
    return -(-panels // rows)


def grid_size(number: int, columns: int | None = None) -> tuple[float, float]:
    """The inches of a new figure with so many panels."""
    columns = columns or _columns(number)
    return 2.0 * columns + 0.6, 2.1 * -(-number // columns) + 0.4


def _label_panels(panels: NDArray[Any], columns: int, diagram: Reliability, by_class: bool) -> None:
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


# --- in the manner of scikit-learn's displays -------------------------------------------------


class ReliabilityDisplay:
    """A reliability diagram with its picture, as scikit-learn's displays are.

    Parameters
    ----------
    diagram : Reliability
        The numbers.
    name : str, optional
        The name of the model, for the legend.

    Attributes
    ----------
    ax_ : matplotlib.axes.Axes
        The axes, once drawn.
    figure_ : matplotlib.figure.Figure
        The figure of the axes.
    line_ : matplotlib.lines.Line2D or matplotlib.container.BarContainer
        The main artist: the bars of a binned diagram, the line of a curve.

    See Also
    --------
    reliability : The function that draws; it takes several diagrams, too.

    Examples
    --------
    >>> from sklearn.datasets import load_iris
    >>> from sklearn.linear_model import LogisticRegression
    >>> from calibrant.plots import ReliabilityDisplay
    >>> X, y = load_iris(return_X_y=True, as_frame=True)
    >>> model = LogisticRegression(max_iter=1000).fit(X, y)
    >>> display = ReliabilityDisplay.from_estimator(model, X, y, kind="isotonic")
    >>> display.diagram.n_rows
    150
    """

    ax_: Axes
    figure_: Any
    line_: Any

    def __init__(self, diagram: Reliability, *, name: str | None = None) -> None:
        self.diagram = diagram
        self.name = name

    @documented
    def plot(self, *, ax: Axes | None = None, name: str | None = None, **kwargs: Any) -> Self:
        """Draw the diagram.

        Parameters
        ----------
        {ax}
        name : str, optional
            The name in the legend; by default that of the display.
        **kwargs : object
            Passed on to ``calibrant.plots.reliability``.

        Returns
        -------
        ReliabilityDisplay
            The display itself, with ``ax_``, ``figure_`` and ``line_``.
        """
        before = set() if ax is None else set(_artists(ax))
        label = name or self.name or ""
        self.ax_ = reliability({label: self.diagram}, ax=ax, **kwargs)
        self.figure_ = self.ax_.figure
        self.line_ = next(
            artist
            for artist in _artists(self.ax_)
            if artist not in before and not artist.get_label().startswith("_")
        )
        return self

    @classmethod
    @documented
    def from_estimator(
        cls,
        estimator: Any,
        X: Any,  # noqa: N803 - scikit-learn's name
        y: Any,
        *,
        sample_weight: Any = None,
        kind: Kind = "equal-width",
        n_bins: int = 15,
        class_index: int | None = None,
        notion: RowNotion | None = None,
        random_state: Any = None,
        name: str | None = None,
        ax: Axes | None = None,
        **kwargs: Any,
    ) -> Self:
        """Draw the diagram of a fitted classifier or calibrator.

        Parameters
        ----------
        estimator : object
            A fitted classifier with ``predict_proba``, or a fitted calibrator of calibrant, whose
            ``X`` are scores.
        X : array
            What its ``predict_proba`` takes.
        y : array of shape (n_rows,)
            The true classes: values of the estimator's ``classes_`` where it has these, and else
            integers from 0.
        {sample_weight}
        {curve_kind}
        {diagram_bins}
        class_index : int, optional
            The column of the class whose probability is shown, in place of ``notion``.
        {notion}
        {random_state}
        name : str, optional
            The name in the legend; by default that of the estimator's class.
        {ax}
        **kwargs : object
            Passed on to ``calibrant.plots.reliability``.

        Returns
        -------
        ReliabilityDisplay
            The display, drawn.

        Raises
        ------
        ValueError
            Where an array is refused, or a label is no class of the estimator.
        TypeError
            Where the estimator has no ``predict_proba``.

        Examples
        --------
        >>> import calibrant
        >>> from calibrant.plots import ReliabilityDisplay
        >>> data = calibrant.datasets.load("fashion-mnist-lenet5")
        >>> ts = calibrant.TS().fit(data.val_logits, data.val_labels)
        >>> display = ReliabilityDisplay.from_estimator(ts, data.test_logits, data.test_labels)
        >>> display.name
        'TemperatureScaling'
        """
        if not hasattr(estimator, "predict_proba"):
            raise TypeError(f"{type(estimator).__name__} has no predict_proba")
        classes = getattr(estimator, "classes_", None)
        if classes is not None and not isinstance(estimator, Calibrator):
            given = as_numpy(y)
            y = np.full(len(given), -1)
            for column, value in enumerate(classes):
                y[given == value] = column
            if (y < 0).any():
                row = int(np.argmax(y < 0))
                label = given[row : row + 1].tolist()[0]
                raise ValueError(
                    f"row {row} has the label {label!r}, which is none of the estimator's classes"
                )
        return cls.from_predictions(
            y,
            estimator.predict_proba(X),
            sample_weight=sample_weight,
            kind=kind,
            n_bins=n_bins,
            class_index=class_index,
            notion=notion,
            random_state=random_state,
            name=type(estimator).__name__ if name is None else name,
            ax=ax,
            **kwargs,
        )

    @classmethod
    @documented
    def from_predictions(
        cls,
        y_true: Any,
        probs: Any,
        *,
        sample_weight: Any = None,
        kind: Kind = "equal-width",
        n_bins: int = 15,
        class_index: int | None = None,
        notion: RowNotion | None = None,
        random_state: Any = None,
        name: str | None = None,
        ax: Axes | None = None,
        **kwargs: Any,
    ) -> Self:
        """Draw the diagram of labels and probabilities, in scikit-learn's order: labels first.

        Parameters
        ----------
        y_true : array of shape (n_rows,)
            The true classes as integers from 0, or one-hot rows.
        probs : array of shape (n_rows, n_classes) or (n_rows,)
            Probabilities; 1-D for class 1 of two.
        {sample_weight}
        {curve_kind}
        {diagram_bins}
        class_index : int, optional
            The class whose probability is shown, in place of ``notion``.
        {notion}
        {random_state}
        name : str, optional
            The name in the legend.
        {ax}
        **kwargs : object
            Passed on to ``calibrant.plots.reliability``.

        Returns
        -------
        ReliabilityDisplay
            The display, drawn.

        Raises
        ------
        ValueError
            Where an array is refused.

        Examples
        --------
        >>> from calibrant.plots import ReliabilityDisplay
        >>> display = ReliabilityDisplay.from_predictions([0, 1, 0], [[0.8, 0.2]] * 3, n_bins=5)
        >>> display.diagram.n_rows
        3
        """
        diagram = compute(
            probs,
            y_true,
            kind=kind,
            n_bins=n_bins,
            class_index=class_index,
            notion=notion,
            random_state=random_state,
            sample_weight=sample_weight,
        )
        return cls(diagram, name=name).plot(ax=ax, **kwargs)


def _artists(ax: Axes) -> list[Any]:
    """What may be the main artist of a diagram: bars come before lines."""
    return [*ax.containers, *ax.lines]
