"""Reliability diagrams in the manner of scikit-learn's displays."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Self

import numpy as np

from calibrant.calibrators import Calibrator
from calibrant.common.docstrings import documented
from calibrant.data.checks import as_numpy
from calibrant.evaluation.diagrams import Kind, Reliability
from calibrant.evaluation.diagrams import reliability as compute
from calibrant.evaluation.plots._reliability import reliability
from calibrant.metrics._notions import RowNotion

if TYPE_CHECKING:
    from matplotlib.axes import Axes


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
        return cls.from_predictions(
            _class_indices(estimator, y),
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


def _class_indices(estimator: Any, y: Any) -> Any:
    """Labels as columns of ``predict_proba``."""
    classes = None if isinstance(estimator, Calibrator) else getattr(estimator, "classes_", None)
    if classes is None:
        return y
    labels = as_numpy(y)
    index = np.full(len(labels), -1)
    for column, value in enumerate(classes):
        index[labels == value] = column
    if (index < 0).any():
        row = int(np.argmax(index < 0))
        label = labels[row : row + 1].tolist()[0]
        raise ValueError(
            f"row {row} has the label {label!r}, which is none of the estimator's classes"
        )
    return index
