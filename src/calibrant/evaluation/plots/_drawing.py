"""What all plots share: axes, colours for light and dark pages, legends."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from itertools import count
from typing import TYPE_CHECKING, Any, NamedTuple, TypeVar

from calibrant.common.extras import need

if TYPE_CHECKING:
    from matplotlib.axes import Axes

# Okabe and Ito's colours, which colour-blind readers can tell apart, with Tol's indigo: each stands
# out from its page by at least 3 to 1. Where they run out, markers and dashes go on.
_ON_LIGHT = ("#0072B2", "#D55E00", "#009E73", "#CC79A7", "#332288")
_ON_DARK = ("#56B4E9", "#E69F00", "#009E73", "#CC79A7", "#F0E442")
_MARKERS = ("o", "s", "^", "D", "v", "P", "X")
_DASHES = ("-", "--", "-.", (0, (3, 1, 1, 1, 1, 1)), (0, (6, 1)), (0, (1, 1)))
_NARROW = 200.0  # points
_BENEATH = "calibrant: beneath"
_SHARE, _SPACE = 0.2, 0.05  # of the height: the small axes beneath, and what lies between
SIZE = (4.4, 3.3)  # of a new figure, in inches

T = TypeVar("T")


def matplotlib(module: str = "") -> Any:
    """A module of matplotlib, or an error that says how to install it."""
    return need(f"matplotlib{module}", "plot", "calibrant.plots needs")


def axes_for(ax: Axes | None, size: tuple[float, float] = SIZE) -> Axes:
    """The axes themselves, or those of a new figure of so many inches."""
    if ax is not None:
        return ax
    made: Axes = matplotlib(".pyplot").subplots(figsize=size, layout="constrained")[1]
    return made


def by_name(diagrams: T | Mapping[Any, T], kind: type[T], hint: str = "") -> dict[str, T]:
    """Diagrams by their names; a single one has an empty name."""
    found = diagrams if isinstance(diagrams, Mapping) else {"": diagrams}
    for one in found.values():
        if not isinstance(one, kind):
            raise TypeError(
                f"expected {kind.__name__} of calibrant.diagrams, or several by name, "
                f"got {type(one).__name__}" + (f": {hint}" if hint else "")
            )
    if not found:
        raise ValueError(f"expected at least one {kind.__name__}, got an empty mapping")
    # a legend leaves out names that begin with an underscore
    return {
        f" {name}" if str(name).startswith("_") else str(name): one for name, one in found.items()
    }


# --- colours ----------------------------------------------------------------------------------


class Stroke(NamedTuple):
    """How one of several curves is drawn: by colour and, for print, by marker and dashes."""

    color: str
    marker: str
    linestyle: Any


def ink(ax: Axes) -> Any:
    """The colour of the texts of an axes: light on a dark page."""
    return ax.xaxis.label.get_color()


def luminance(color: Any) -> float:
    """The relative luminance of a colour, from 0 to 1, as the contrast rules of WCAG have it."""
    to_rgb = matplotlib(".colors").to_rgb
    parts = [c / 12.92 if c <= 0.04045 else ((c + 0.055) / 1.055) ** 2.4 for c in to_rgb(color)]
    return float(0.2126 * parts[0] + 0.7152 * parts[1] + 0.0722 * parts[2])


def strokes(ax: Axes) -> Iterator[Stroke]:
    """Strokes without end, from the first colour that no line of the axes has yet."""
    dark = luminance(ink(ax)) > 0.4  # as the texts tell: faces may be transparent
    palette = _ON_DARK if dark else _ON_LIGHT
    to_hex = matplotlib(".colors").to_hex
    used = {to_hex(line.get_color()).upper() for line in ax.lines} & set(palette)
    for index in count(len(used)):
        yield Stroke(
            palette[index % len(palette)],
            _MARKERS[index % len(_MARKERS)],
            _DASHES[index % len(_DASHES)],
        )


def muted(ax: Axes) -> dict[str, Any]:
    """How lines are drawn that only guide the eye."""
    return {"color": ink(ax), "alpha": 0.7, "linewidth": 1.0, "zorder": 1.5}


# --- texts ------------------------------------------------------------------------------------


def named(name: str, value: str) -> str:
    """A legend's entry: a name and what was measured, or that alone."""
    return f"{name} ({value})" if name else value


def legend(ax: Axes, **options: Any) -> None:
    """A compact legend in the colours of the axes, through which data beneath can be seen."""
    size = "small" if size_of(ax)[0] >= _NARROW else "x-small"
    spacing: dict[str, Any] = {"handlelength": 1.8, "labelspacing": 0.3, "borderpad": 0.2}
    drawn = ax.legend(fontsize=size, labelcolor=ink(ax), **spacing, **options)
    drawn.get_frame().set(facecolor=ax.get_facecolor(), edgecolor="none", alpha=0.65)


def size_of(ax: Axes) -> tuple[float, float]:
    """Width and height in points, before any layout: near enough to choose sizes of texts by."""
    box, inch = ax.get_window_extent(), ax.figure.dpi
    return 72.0 * box.width / inch, 72.0 * box.height / inch


def in_percent(axis: Any) -> None:
    """Fractions on an axis, told in percent."""
    axis.set_major_formatter(matplotlib(".ticker").PercentFormatter(1.0))


def plain_log(ax: Axes, places: Any) -> None:
    """A logarithmic x axis with plain numbers: those of the places, where they are few."""
    ticker = matplotlib(".ticker")
    ax.set_xscale("log")
    ax.xaxis.set_major_locator(ticker.FixedLocator(spaced(sorted({float(at) for at in places}))))
    ax.xaxis.set_major_formatter(ticker.FuncFormatter(lambda value, _: f"{value:,.6g}"))
    ax.xaxis.set_minor_locator(ticker.NullLocator())


def spaced(places: list[float]) -> list[float]:
    """The places from the last one down whose numbers do not touch on a logarithmic axis."""
    kept, ratio = places[-1:], max(1.05, (places[-1] / places[0]) ** 0.12)
    for place in reversed(places[:-1]):
        if place * ratio <= kept[-1]:
            kept.append(place)
    return kept[::-1]


# --- a small axes beneath a larger one --------------------------------------------------------
#
# It is a child of the larger one, which moves up to make room: wherever a user puts that (a figure
# alone, a grid, a layout that keeps labels apart), both stay together.


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
        if child.get_label() == _BENEATH:
            found: Axes = child
            return found
    upper = 1.0 - _SHARE - _SPACE
    bounds = (0.0, -(_SHARE + _SPACE) / upper, 1.0, _SHARE / upper)
    small = ax.inset_axes(bounds, sharex=ax, label=_BENEATH)
    ax.set_axes_locator(_UpperPart(ax))
    ax.tick_params(labelbottom=False)
    # the style may have changed since the axes were made
    small.set_facecolor(ax.get_facecolor())
    small.tick_params(color=ink(ax), labelcolor=ink(ax))
    for axis in (small.xaxis, small.yaxis):
        axis.label.set_color(ink(ax))
    for side, spine in small.spines.items():
        spine.set_edgecolor(ax.spines[side].get_edgecolor())
        spine.set_visible(ax.spines[side].get_visible())
    return small
