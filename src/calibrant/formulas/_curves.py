"""Functions of one number, one per class or one for all: lines between points, steps, cubics.

Kept end to end, however many points each has; ``padded`` lays them out as equally wide rows, for
PyTorch and ONNX.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import ClassVar, Self

import numpy as np
from numpy.typing import NDArray

from calibrant.common.types import Floats
from calibrant.formulas._serialization import Part, checked_array, require

STEEPEST = 1e-30  # the shortest step of a line's x: its slope stays finite
MOST_PADDED = 2**22  # numbers in a table of curves; beyond, no more than so many times what is used
WASTEFUL = 16
MANY_EDGES = 64  # from here on a search in every column is faster than a pass per edge
LARGEST = 1e30  # of the numbers of a cubic: no product on the way leaves the range of floats
CLOSEST = 1e-12  # of the points of a cubic, for the same reason


@dataclass(frozen=True)
class PaddedCurves:
    """Curves in rows of one width: (curves, places), the missing edges at infinity.

    A value's place is the count of edges below it (``inclusive``: or equal to it). It becomes
    ``value + slope * (x - anchor)`` at that place, plus ``square`` and ``cube`` times those powers
    of ``x - anchor`` where there are such; without slopes the functions are steps.
    """

    edges: Floats  # one column fewer than places
    value: Floats
    slope: Floats | None = None
    anchor: Floats | None = None
    square: Floats | None = None
    cube: Floats | None = None

    @property
    def inclusive(self) -> bool:
        """Lines belong to their left end, as in ``numpy.interp``, steps to their right one."""
        return self.slope is not None


class Curves(Part, ABC):
    """Functions of one number: one per class, or one for all classes."""

    whole: ClassVar[bool] = True

    offsets: NDArray[np.int64]

    @classmethod
    def join(cls, functions: Sequence[tuple[Floats, ...]]) -> Self:
        """Join functions that are given by their arrays, in the order of the fields."""
        arrays = [np.concatenate(parts) for parts in zip(*functions, strict=True)]
        lengths = [len(function[-1]) for function in functions]
        return cls(*arrays, np.cumsum([0, *lengths], dtype=np.int64))  # type: ignore[call-arg]

    @property
    def count(self) -> int:
        """How many functions there are."""
        return len(self.offsets) - 1

    @abstractmethod
    def values(self, x: Floats) -> Floats:
        """Put each column of (rows, classes) through its function; the array is not changed."""

    @property
    @abstractmethod
    def _places(self) -> list[tuple[Floats, ...]]:
        """Of each function its edges, and its columns of ``PaddedCurves`` between them."""

    @cached_property
    def padded(self) -> PaddedCurves:
        """The same functions in rows of one width."""
        edges, *parts = zip(*self._places, strict=True)
        return PaddedCurves(_padded(edges, np.inf), *(_padded(part, 0.0) for part in parts))

    def _by_column(
        self, x: Floats, functions: list[tuple[Floats, ...]], compute: Callable[..., Floats]
    ) -> Floats:
        """``compute(column, *function)`` of each column and its function."""
        by_class = x.T.copy()  # a view of one row, or of Fortran order, would be overwritten
        every = functions * len(by_class) if self.count == 1 else functions
        for column, function in zip(by_class, every, strict=True):
            column[:] = compute(column, *function)
        return np.ascontiguousarray(by_class.T)

    def _everywhere(self, holds: NDArray[np.bool_]) -> bool:
        """Whether something holds from each place to the next one of the same function."""
        holds[self.offsets[1:-1] - 1] = True  # from one function's end to the next one's begin
        return bool(holds.all())

    def _check_offsets(self, length: int, not_empty: str) -> None:
        offsets = checked_array(self, "offsets", ndim=1, kind="int64")
        require(len(offsets) >= 2, f"offsets must have at least two entries, got {len(offsets)}")
        require(
            offsets[0] == 0 and offsets[-1] == length and bool((np.diff(offsets) >= 0).all()),
            f"offsets must rise from 0 to {length}, got {offsets[:4].tolist()}..",
        )
        require(bool((np.diff(offsets) > 0).all()), not_empty)


class ProbabilityCurves(Curves, ABC):
    """Functions whose values are probabilities, as formulas of probabilities need them."""

    _heights: ClassVar[str]  # the field of the values at the points or steps of all functions

    @property
    def lowest(self) -> float:
        """The smallest value of all functions."""
        return float(getattr(self, self._heights).min())

    @property
    def rising(self) -> bool:
        """Whether no function falls anywhere."""
        return self._everywhere(np.diff(getattr(self, self._heights)) >= 0.0)


@dataclass(frozen=True, eq=False)
class Lines(ProbabilityCurves):
    """Piecewise linear functions, flat outside their points, as ``numpy.interp`` has them.

    Parameters
    ----------
    x : array of shape (points,)
        Where the points of all functions lie, those of one function after those of the other;
        rising within each.
    y : array of shape (points,)
        The values there, in [0, 1].
    offsets : array of shape (functions + 1,)
        Function c has the points ``offsets[c]`` to ``offsets[c + 1] - 1``.

    Examples
    --------
    >>> import numpy as np
    >>> lines = Lines.join([([0.0, 1.0], [0.2, 0.8])])
    >>> lines.values(np.array([[0.5]]))
    array([[0.5]])
    """

    kind: ClassVar[str] = "lines"
    _heights: ClassVar[str] = "y"

    x: Floats
    y: Floats
    offsets: NDArray[np.int64]

    def __post_init__(self) -> None:
        x = checked_array(self, "x", ndim=1, low=0.0, high=1.0)
        y = checked_array(self, "y", ndim=1, low=0.0, high=1.0)
        require(len(x) == len(y), f"x and y must be of one length, got {len(x)} and {len(y)}")
        self._check_offsets(len(x), "every line must have a point")
        require(self._everywhere(np.diff(x) >= STEEPEST), "x must rise within every line")

    def line(self, index: int) -> tuple[Floats, Floats]:
        """Give x and y of the points of one function."""
        part = slice(self.offsets[index], self.offsets[index + 1])
        return self.x[part], self.y[part]

    @cached_property
    def _lines(self) -> list[tuple[Floats, ...]]:
        return [self.line(index) for index in range(self.count)]

    def values(self, x: Floats) -> Floats:
        if self.count == 1:
            return np.interp(x, self.x, self.y)
        return self._by_column(x, self._lines, np.interp)

    @property
    def _places(self) -> list[tuple[Floats, ...]]:
        """Value, slope and anchor left of the first point, between the points, right of all."""
        return [
            (
                x,
                np.append(y[0], y),
                np.concatenate([[0.0], np.diff(y) / np.diff(x), [0.0]]),
                np.append(x[0], x),
            )
            for x, y in self._lines
        ]


@dataclass(frozen=True, eq=False)
class Steps(ProbabilityCurves):
    """Step functions: a value's step is the count of edges strictly below it.

    So a value equal to an edge goes to the lower step.

    Parameters
    ----------
    edges : array of shape (edges,)
        The edges of all functions, those of one function after those of the other; not falling
        within each. An infinite one makes a step that no value reaches.
    levels : array of shape (levels,)
        The values of the steps, in [0, 1]; a function has one more than edges.
    offsets : array of shape (functions + 1,)
        Function c has the levels ``offsets[c]`` to ``offsets[c + 1] - 1``; its edges begin at
        ``offsets[c] - c``.

    Examples
    --------
    >>> import numpy as np
    >>> steps = Steps.join([([0.5], [0.2, 0.8])])
    >>> steps.values(np.array([[0.5], [0.6]]))
    array([[0.2],
           [0.8]])
    """

    kind: ClassVar[str] = "steps"
    _heights: ClassVar[str] = "levels"

    edges: Floats
    levels: Floats
    offsets: NDArray[np.int64]

    def __post_init__(self) -> None:
        levels = checked_array(self, "levels", ndim=1, low=0.0, high=1.0)
        self._check_offsets(len(levels), "every curve must have a level")
        edges = checked_array(self, "edges", ndim=1, low=-np.inf, high=np.inf)
        expected = len(levels) - self.count
        require(len(edges) == expected, f"there must be {expected} edges, got {len(edges)}")
        kept = np.ones(len(levels), bool)
        kept[self.offsets[:-1]] = False  # an edge before every level but the first ones
        before = np.full(len(levels), -np.inf)
        before[kept] = edges
        rising = before[1:] >= before[:-1]
        require(self._everywhere(rising), "edges must not fall within a curve")

    def step(self, index: int) -> tuple[Floats, Floats]:
        """Give the edges and levels of one function."""
        begin, end = self.offsets[index], self.offsets[index + 1]
        return self.edges[begin - index : end - index - 1], self.levels[begin:end]

    @cached_property
    def _places(self) -> list[tuple[Floats, ...]]:
        return [self.step(index) for index in range(self.count)]

    def values(self, x: Floats) -> Floats:
        widths = np.diff(self.offsets)
        if widths[0] > MANY_EDGES or np.any(widths != widths[0]):
            return self._by_column(
                x, self._places, lambda column, e, y: y.take(e.searchsorted(column))
            )
        # a few passes over the tile are faster than a search in every column
        passed = np.zeros(x.shape, np.int8)  # one byte each: the passes are bound by memory
        for edge in self._edges_by_place:
            passed += (x > edge).view(np.int8)
        place = passed.astype(np.intp)
        place += np.arange(self.count) * int(widths[0])
        return self.levels.take(place)

    @cached_property
    def _edges_by_place(self) -> Floats:
        """Where all curves have equally many edges: (edges per curve, curves)."""
        return np.ascontiguousarray(self.edges.reshape(self.count, -1).T)


@dataclass(frozen=True, eq=False)
class Cubics(Curves):
    """Piecewise cubic functions with given values and slopes, straight outside their points.

    Parameters
    ----------
    x : array of shape (points,)
        Where the points of all functions lie, those of one function after those of the other;
        rising within each.
    y : array of shape (points,)
        The values there.
    slope : array of shape (points,)
        The slopes there.
    offsets : array of shape (functions + 1,)
        Function c has the points ``offsets[c]`` to ``offsets[c + 1] - 1``.

    Notes
    -----
    Between neighbouring points the function is the cubic (Hermite's) with their values and slopes:
    a natural cubic spline and its knots, a parabola and two of its points, or a straight line and
    one point of it are all such functions.

    Examples
    --------
    >>> import numpy as np
    >>> parabola = Cubics.join([([0.0, 2.0], [0.0, 4.0], [0.0, 4.0])])
    >>> parabola.values(np.array([[1.0], [3.0]]))
    array([[1.],
           [8.]])
    """

    kind: ClassVar[str] = "cubics"

    x: Floats
    y: Floats
    slope: Floats
    offsets: NDArray[np.int64]

    def __post_init__(self) -> None:
        x = checked_array(self, "x", ndim=1, low=-LARGEST, high=LARGEST)
        for name in ("y", "slope"):
            checked_array(self, name, ndim=1, shape=x.shape, low=-LARGEST, high=LARGEST)
        self._check_offsets(len(x), "every cubic must have a point")
        far = self._everywhere(np.diff(x) >= CLOSEST)
        require(far, f"x must rise by at least {CLOSEST} within every cubic")

    def cubic(self, index: int) -> tuple[Floats, Floats, Floats]:
        """Give x, y and slope at the points of one function."""
        part = slice(self.offsets[index], self.offsets[index + 1])
        return self.x[part], self.y[part], self.slope[part]

    def values(self, x: Floats) -> Floats:
        return self._by_column(x, self._places, _cubic_values)

    @cached_property
    def _places(self) -> list[tuple[Floats, ...]]:
        """Value, slope, anchor, square and cube left of the first point, between, right of all."""
        functions = []
        for x, y, slope in map(self.cubic, range(self.count)):
            width = np.diff(x)
            chord = np.diff(y) / width
            square = (3.0 * chord - 2.0 * slope[:-1] - slope[1:]) / width
            cube = (slope[:-1] + slope[1:] - 2.0 * chord) / width**2
            ends = (np.append(part[0], part) for part in (y, slope, x))
            straight = (np.concatenate([[0.0], part, [0.0]]) for part in (square, cube))
            functions.append((x, *ends, *straight))
        return functions


def _cubic_values(column: Floats, *function: Floats) -> Floats:
    edges, value, slope, anchor, square, cube = function
    place = edges.searchsorted(column, side="right")
    run = column - anchor.take(place)
    rest = square.take(place) + run * cube.take(place)
    result: Floats = value.take(place) + run * (slope.take(place) + run * rest)
    return result


def _padded(rows: Sequence[Floats], fill: float) -> Floats:
    """Rows of different lengths as one array."""
    width, used = max(len(row) for row in rows), sum(len(row) for row in rows)
    require(
        len(rows) * width <= max(MOST_PADDED, WASTEFUL * used),
        f"{len(rows)} curves of up to {width} points are too different in length for a table",
    )
    result = np.full((len(rows), width), fill)
    for row, values in zip(result, rows, strict=True):
        row[: len(values)] = values
    return result
