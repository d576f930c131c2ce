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
ON_LIGHT = ("#0072B2", "#D55E00", "#009E73", "#CC79A7", "#332288")
ON_DARK = ("#56B4E9", "#E69F00", "#009E73", "#CC79A7", "#F0E442")
_MARKERS = ("o", "s", "^", "D", "v", "P", "X")
_DASHES = ("-", "--", "-.", (0, (3, 1, 1, 1, 1, 1)), (0, (6, 1)), (0, (1, 1)))
_NARROW = 200.0  # points
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
    return {_visible(str(name)): one for name, one in found.items()}


def _visible(name: str) -> str:
    """A name for the legend, which would leave out one that begins with an underscore."""
    return f" {name}" if name.startswith("_") else name


# --- colours ----------------------------------------------------------------------------------


class Stroke(NamedTuple):
    """How one of several curves is drawn: by colour and, for print, by marker and dashes."""

    color: str
    marker: str
    linestyle: Any


def ink(ax: Axes) -> Any:
    """The colour of the texts of an axes: light on a dark page."""
    return ax.xaxis.label.get_color()


def is_dark(ax: Axes) -> bool:
    """Whether the page is dark, as its texts tell: faces may be transparent."""
    return luminance(ink(ax)) > 0.4


def luminance(color: Any) -> float:
    """The relative luminance of a colour, from 0 to 1, as the contrast rules of WCAG have it."""
    to_rgb = matplotlib(".colors").to_rgb
    parts = [c / 12.92 if c <= 0.04045 else ((c + 0.055) / 1.055) ** 2.4 for c in to_rgb(color)]
    return float(0.2126 * parts[0] + 0.7152 * parts[1] + 0.0722 * parts[2])


def strokes(ax: Axes) -> Iterator[Stroke]:
    """Strokes without end, from the first colour that no line of the axes has yet."""
    palette = ON_DARK if is_dark(ax) else ON_LIGHT
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
