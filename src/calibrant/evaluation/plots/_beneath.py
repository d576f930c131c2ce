"""A small axes beneath a larger one, in the place that the larger one had for itself.

It is a child of the larger one, which moves up to make room: wherever a user puts that (a figure
alone, a grid, a layout that keeps labels apart), both stay together.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from calibrant.evaluation.plots._drawing import ink, matplotlib

if TYPE_CHECKING:
    from matplotlib.axes import Axes

_LABEL = "calibrant: beneath"
_SHARE, _SPACE = 0.2, 0.05  # of the height: the small axes, and what lies between


class _UpperPart:
    """Where the larger axes lies. A class and no function, so that figures can be pickled."""

    def __init__(self, ax: Axes) -> None:
        self.ax = ax
        self.before: Any = ax.get_axes_locator()

    def get_subplotspec(self) -> Any:
        """The place in a grid, for which ``tight_layout`` asks here."""
        return self.ax.get_subplotspec()

    def __call__(self, ax: Any, renderer: Any) -> Any:
        place = self.before(ax, renderer) if self.before else ax.get_position(original=True)
        bottom = place.y0 + (_SHARE + _SPACE) * place.height
        return matplotlib(".transforms").Bbox.from_extents(place.x0, bottom, place.x1, place.y1)


def axes_beneath(ax: Axes) -> Axes:
    """The small axes with the same x axis; the one that is there, where there is one."""
    children: list[Any] = ax.child_axes
    for child in children:
        if child.get_label() == _LABEL:
            found: Axes = child
            return found
    upper = 1.0 - _SHARE - _SPACE
    bounds = (0.0, -(_SHARE + _SPACE) / upper, 1.0, _SHARE / upper)
    small = ax.inset_axes(bounds, sharex=ax, label=_LABEL)
    ax.set_axes_locator(_UpperPart(ax))
    ax.tick_params(labelbottom=False)
    _in_colours_of(ax, small)
    return small


def _in_colours_of(ax: Axes, small: Axes) -> None:
    """The style may have changed since the axes were made."""
    small.set_facecolor(ax.get_facecolor())
    small.tick_params(color=ink(ax), labelcolor=ink(ax))
    for axis in (small.xaxis, small.yaxis):
        axis.label.set_color(ink(ax))
    for side, spine in small.spines.items():
        spine.set_edgecolor(ax.spines[side].get_edgecolor())
        spine.set_visible(ax.spines[side].get_visible())
