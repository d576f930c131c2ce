"""Functions of one number, one per class or one for all: lines between points, steps, cubics.

Kept end to end, however many points each has; ``padded`` lays them out as equally wide rows, for
PyTorch and ONNX.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import ClassVar

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

    @property
    def cubic(self) -> bool:
        """Whether the functions are more than lines."""
        return self.cube is not None


class Curves(Part, ABC):
    """Functions of one number: one per class, or one for all classes."""

    whole: ClassVar[bool] = True

    offsets: NDArray[np.int64]

    @property
    def count(self) -> int:
        """How many functions there are."""
        return len(self.offsets) - 1

    @abstractmethod
    def values(self, x: Floats) -> Floats:
        """Compute the functions.

        Parameters
        ----------
        x : array of shape (rows, classes)
            Any numbers; the array is not changed.

        Returns
        -------
        array of shape (rows, classes)
            Each column through its function.
        """

    @property
    @abstractmethod
    def padded(self) -> PaddedCurves:
        """The same functions in rows of one width."""

    def _everywhere(self, holds: NDArray[np.bool_]) -> bool:
        """Whether something holds from each place to the next one of the same function."""
        holds[self.offsets[1:-1] - 1] = True  # from one function's end to the next one's begin
        return bool(holds.all())

    def _check_offsets(self, length: int) -> None:
        offsets = checked_array(self, "offsets", ndim=1, kind="int64")
        require(len(offsets) >= 2, f"offsets must have at least two entries, got {len(offsets)}")
        require(
            offsets[0] == 0 and offsets[-1] == length and bool((np.diff(offsets) >= 0).all()),
            f"offsets must rise from 0 to {length}, got {offsets[:4].tolist()}..",
        )


class ProbabilityCurves(Curves, ABC):
    """Functions whose values are probabilities, as formulas of probabilities need them."""

    @property
    @abstractmethod
    def _heights(self) -> Floats:
        """The values of all functions at their points or steps, end to end."""

    @property
    def lowest(self) -> float:
        """The smallest value of all functions."""
        return float(self._heights.min())

    @property
    def rising(self) -> bool:
        """Whether no function falls anywhere."""
        return self._everywhere(np.diff(self._heights) >= 0.0)


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

    x: Floats
    y: Floats
    offsets: NDArray[np.int64]

    def __post_init__(self) -> None:
        x = checked_array(self, "x", ndim=1, low=0.0, high=1.0)
        y = checked_array(self, "y", ndim=1, low=0.0, high=1.0)
        require(len(x) == len(y), f"x and y must be of one length, got {len(x)} and {len(y)}")
        self._check_offsets(len(x))
        require(bool((np.diff(self.offsets) > 0).all()), "every line must have a point")
        require(self._everywhere(np.diff(x) >= STEEPEST), "x must rise within every line")

    @classmethod
    def join(cls, lines: Sequence[tuple[Floats, Floats]]) -> Lines:
        """Join functions that are given by their points.

        Parameters
        ----------
        lines : sequence of pairs of arrays
            x and y of each function.

        Returns
        -------
        Lines
            All of them.
        """
        x, y = (np.concatenate([line[part] for line in lines]) for part in (0, 1))
        return cls(x, y, np.cumsum([0, *(len(line[0]) for line in lines)], dtype=np.int64))

    @property
    def _heights(self) -> Floats:
        return self.y

    def line(self, index: int) -> tuple[Floats, Floats]:
        """Give the points of one function.

        Parameters
        ----------
        index : int
            Which function.

        Returns
        -------
        x : array of shape (points,)
            Where its points lie.
        y : array of shape (points,)
            The values there.
        """
        part = slice(self.offsets[index], self.offsets[index + 1])
        return self.x[part], self.y[part]

    def values(self, x: Floats) -> Floats:
        if self.count == 1:
            return np.interp(x, self.x, self.y)
        by_class = x.T.copy()  # a view of one row, or of Fortran order, would be overwritten
        for column, (points, heights) in zip(by_class, self._lines, strict=True):
            column[:] = np.interp(column, points, heights)
        return np.ascontiguousarray(by_class.T)

    @cached_property
    def _lines(self) -> list[tuple[Floats, Floats]]:
        return [self.line(index) for index in range(self.count)]

    @cached_property
    def padded(self) -> PaddedCurves:
        lines = [self.line(index) for index in range(self.count)]
        value, slope, anchor = zip(*(_line_places(x, y) for x, y in lines), strict=True)
        edges = _padded([x for x, _ in lines], np.inf)
        return PaddedCurves(edges, _padded(value, 0.0), _padded(slope, 0.0), _padded(anchor, 0.0))


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

    edges: Floats
    levels: Floats
    offsets: NDArray[np.int64]

    def __post_init__(self) -> None:
        levels = checked_array(self, "levels", ndim=1, low=0.0, high=1.0)
        self._check_offsets(len(levels))
        require(bool((np.diff(self.offsets) > 0).all()), "every curve must have a level")
        edges = checked_array(self, "edges", ndim=1, low=-np.inf, high=np.inf)
        expected = len(levels) - self.count
        require(len(edges) == expected, f"there must be {expected} edges, got {len(edges)}")
        kept = np.ones(len(levels), bool)
        kept[self.offsets[:-1]] = False  # an edge before every level but the first ones
        before = np.full(len(levels), -np.inf)
        before[kept] = edges
        rising = before[1:] >= before[:-1]
        require(self._everywhere(rising), "edges must not fall within a curve")

    @classmethod
    def join(cls, steps: Sequence[tuple[Floats, Floats]]) -> Steps:
        """Join step functions that are given by their edges and levels.

        Parameters
        ----------
        steps : sequence of pairs of arrays
            Edges and levels of each function.

        Returns
        -------
        Steps
            All of them.
        """
        edges, levels = (np.concatenate([step[part] for step in steps]) for part in (0, 1))
        return cls(edges, levels, np.cumsum([0, *(len(s[1]) for s in steps)], dtype=np.int64))

    @property
    def _heights(self) -> Floats:
        return self.levels

    def step(self, index: int) -> tuple[Floats, Floats]:
        """Give the edges and levels of one function.

        Parameters
        ----------
        index : int
            Which function.

        Returns
        -------
        edges : array of shape (edges,)
            Its edges.
        levels : array of shape (edges + 1,)
            The values of its steps.
        """
        begin, end = self.offsets[index], self.offsets[index + 1]
        return self.edges[begin - index : end - index - 1], self.levels[begin:end]

    def values(self, x: Floats) -> Floats:
        widths = np.diff(self.offsets)
        if widths[0] <= MANY_EDGES and np.all(widths == widths[0]):
            return self._by_passes(x, int(widths[0]))
        by_class = x.T.copy()  # a view of one row, or of Fortran order, would be overwritten
        steps = self._steps * len(by_class) if self.count == 1 else self._steps
        for column, (edges, levels) in zip(by_class, steps, strict=True):
            column[:] = levels.take(edges.searchsorted(column))
        return np.ascontiguousarray(by_class.T)

    @cached_property
    def _steps(self) -> list[tuple[Floats, Floats]]:
        return [self.step(index) for index in range(self.count)]

    def _by_passes(self, x: Floats, width: int) -> Floats:
        """A few passes over the tile are faster than a search in every column."""
        passed = np.zeros(x.shape, np.int8)  # one byte each: the passes are bound by memory
        for edge in self._edges_by_place:
            passed += (x > edge).view(np.int8)
        place = passed.astype(np.intp)
        place += np.arange(self.count) * width
        return self.levels.take(place)

    @cached_property
    def _edges_by_place(self) -> Floats:
        """Where all curves have equally many edges: (edges per curve, curves)."""
        return np.ascontiguousarray(self.edges.reshape(self.count, -1).T)

    @cached_property
    def padded(self) -> PaddedCurves:
        steps = [self.step(index) for index in range(self.count)]
        edges, levels = ([step[part] for step in steps] for part in (0, 1))
        return PaddedCurves(_padded(edges, np.inf), _padded(levels, 0.0))


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
        self._check_offsets(len(x))
        require(bool((np.diff(self.offsets) > 0).all()), "every cubic must have a point")
        far = self._everywhere(np.diff(x) >= CLOSEST)
        require(far, f"x must rise by at least {CLOSEST} within every cubic")

    @classmethod
    def join(cls, cubics: Sequence[tuple[Floats, Floats, Floats]]) -> Cubics:
        """Join functions that are given by their points.

        Parameters
        ----------
        cubics : sequence of triples of arrays
            x, y and slope of each function.

        Returns
        -------
        Cubics
            All of them.
        """
        x, y, slope = (np.concatenate([cubic[part] for cubic in cubics]) for part in range(3))
        return cls(x, y, slope, np.cumsum([0, *(len(c[0]) for c in cubics)], dtype=np.int64))

    def cubic(self, index: int) -> tuple[Floats, Floats, Floats]:
        """Give the points of one function.

        Parameters
        ----------
        index : int
            Which function.

        Returns
        -------
        x : array of shape (points,)
            Where its points lie.
        y : array of shape (points,)
            The values there.
        slope : array of shape (points,)
            The slopes there.
        """
        part = slice(self.offsets[index], self.offsets[index + 1])
        return self.x[part], self.y[part], self.slope[part]

    def values(self, x: Floats) -> Floats:
        by_class = x.T.copy()  # a view of one row, or of Fortran order, would be overwritten
        curves = self._curves * len(by_class) if self.count == 1 else self._curves
        for column, (edges, (value, slope, anchor, square, cube)) in zip(
            by_class, curves, strict=True
        ):
            place = edges.searchsorted(column, side="right")
            run = column - anchor.take(place)
            rest = square.take(place) + run * cube.take(place)
            column[:] = value.take(place) + run * (slope.take(place) + run * rest)
        return np.ascontiguousarray(by_class.T)

    @cached_property
    def _curves(self) -> list[tuple[Floats, tuple[Floats, ...]]]:
        cubics = [self.cubic(index) for index in range(self.count)]
        return [(cubic[0], _cubic_places(*cubic)) for cubic in cubics]

    @cached_property
    def padded(self) -> PaddedCurves:
        places = zip(*(places for _, places in self._curves), strict=True)
        edges = _padded([edges for edges, _ in self._curves], np.inf)
        return PaddedCurves(edges, *(_padded(part, 0.0) for part in places))


def _line_places(x: Floats, y: Floats) -> tuple[Floats, Floats, Floats]:
    """Value, slope and anchor left of the first point, between the points, right of the last."""
    slope = np.diff(y) / np.diff(x)
    return np.append(y[0], y), np.concatenate([[0.0], slope, [0.0]]), np.append(x[0], x)


def _cubic_places(x: Floats, y: Floats, slope: Floats) -> tuple[Floats, ...]:
    """Value, slope, anchor, square and cube left of the first point, between, right of the last."""
    width = np.diff(x)
    chord = np.diff(y) / width
    square = (3.0 * chord - 2.0 * slope[:-1] - slope[1:]) / width
    cube = (slope[:-1] + slope[1:] - 2.0 * chord) / width**2
    straight = [0.0]
    return (
        np.append(y[0], y),
        np.append(slope[0], slope),
        np.append(x[0], x),
        np.concatenate([straight, square, straight]),
        np.concatenate([straight, cube, straight]),
    )


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
