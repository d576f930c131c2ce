"""What every profile obeys, so that one from a file can be computed with: rows, gaps and psi."""

from __future__ import annotations

from collections.abc import Mapping
from reprlib import repr as shown
from typing import Any

import numpy as np
from numpy.typing import NDArray

from calibrant.calibrators.profile.log_partition import GRID, NODES, GapRows, NodeRows
from calibrant.common.types import Floats
from calibrant.data.checks import as_weights
from calibrant.formulas._serialization import MOST_CLASSES, require

HEAVIEST = 1e50  # weight: powers of it are still numbers
CHUNK = 1024  # rows whose psi is looked at together
LARGEST_NODE = 1e4  # beyond psi and its derivatives of any number of classes
# the width of each interval of the grid over b at its left end, and over b at its right end
BACK, AHEAD = (np.float32(np.diff(GRID) / ends) for ends in (GRID[:-1], GRID[1:]))
SLACK = 1e-4  # of psi, whose float32 sums round; relative to 1 + log(classes)


def check_settings(n_classes: Any, top_k: Any, scale: Any) -> None:
    """Refuse numbers that no profile has."""
    for name, value, low in (("n_classes", n_classes, 2), ("top_k", top_k, 1)):
        whole = isinstance(value, int) and not isinstance(value, bool)
        require(
            whole and low <= value <= MOST_CLASSES,
            f"{name} must be a whole number from {low} to {MOST_CLASSES}, got {shown(value)}",
        )
    require(isinstance(scale, float), f"scale must be a number, got {shown(scale)}")


def check_arrays(
    kind: type[GapRows | NodeRows], arrays: Mapping[str, NDArray[Any]], n_classes: int, k: int
) -> None:
    """Refuse arrays that are not of the types and shapes of a profile of such rows."""
    rows = len(arrays["peak"])
    require(rows > 0, "a profile must have at least one row, got none")
    shapes: dict[str, tuple[str, tuple[int, ...]]] = {
        "peak": ("float64", (rows,)),
        "label_gap": ("float32", (rows,)),
        "weight": ("float64", (rows,)),
    }
    if kind is GapRows:
        shapes |= {"rows.gaps": ("float32", (n_classes, rows))}
    else:
        shapes |= {"rows.nodes": ("float32", (rows, NODES, 3)), "rows.top": ("float32", (rows, k))}
        shapes |= {"rows.finite": ("int32", (rows,)), "rows.ties": ("int32", (rows,))}
        shapes |= {"rows.mean": ("float32", (rows,))}
    for name, (dtype, shape) in shapes.items():
        array = arrays[name]
        require(
            array.dtype == dtype and array.shape == shape,
            f"{name.removeprefix('rows.')} of a profile must be {dtype} of shape {shape}, got "
            f"{array.dtype} of shape {array.shape}",
        )


def check_rows(
    rows: GapRows | NodeRows,
    peak: Floats,
    label_gap: NDArray[np.float32],
    weight: Floats,
    n_classes: int,
) -> None:
    """Refuse a summary of rows that no logits have."""
    require(bool(np.isfinite(peak).all()), "peak of a profile must be finite")
    require(
        bool(((label_gap <= 0.0) & (label_gap > -np.inf)).all()),
        "label_gap of a profile must be finite and not above 0",
    )
    as_weights(weight, len(peak))
    used = weight[weight > 0.0]
    require(
        bool(((used >= 1.0 / HEAVIEST) & (used <= HEAVIEST)).all()),
        f"weights of a profile must be 0 or from {1.0 / HEAVIEST:g} to {HEAVIEST:g}",
    )
    if isinstance(rows, NodeRows):
        _check_nodes(rows, label_gap, n_classes)
        return
    _check_order(rows.gaps.T, "gaps")
    known = (rows.gaps == label_gap).any(axis=0)
    require(bool(known.all()), "label_gap of a profile must be one of its row's gaps")


def _check_order(gaps: NDArray[np.float32], name: str) -> None:
    """Gaps of each row: the first one 0, and none larger than the one before; False for NaN."""
    falling = (gaps[:, 1:] <= gaps[:, :-1]).all() and (gaps[:, 0] == 0.0).all()
    require(bool(falling), f"{name} of a profile must begin with 0 and not rise")


def _check_nodes(rows: NodeRows, label_gap: NDArray[np.float32], n_classes: int) -> None:
    _check_order(rows.top, "top")
    require(bool((rows.top > -np.inf).all()), "top of a profile must be finite")
    require(
        bool(((rows.mean <= 0.0) & (rows.mean > -np.inf)).all()),
        "mean of a profile must be finite and not above 0",
    )
    k = rows.top.shape[1]
    stored = np.arange(k) < rows.finite[:, None]
    ties = ((rows.top == 0.0) & stored).sum(axis=1)
    require(
        bool(((rows.finite >= 1) & (rows.finite <= n_classes)).all()),
        f"finite of a profile must be between 1 and {n_classes}",
    )
    counted = (rows.ties >= 1) & (rows.ties <= rows.finite) & (ties == np.minimum(rows.ties, k))
    require(bool(counted.all()), "ties of a profile must be the classes at the top")
    known = (label_gap <= rows.top[:, -1]) | (rows.top == label_gap[:, None]).any(axis=1)
    require(bool(known.all()), "label_gap of a profile must be a gap of its row")
    require(bool((np.abs(rows.nodes) <= LARGEST_NODE).all()), "nodes of a profile must be finite")
    for start in range(0, len(rows.nodes), CHUNK):
        _check_psi(rows.take(np.arange(start, min(start + CHUNK, len(rows.nodes)))))


def _check_psi(rows: NodeRows) -> None:
    """psi falls from log(finite) to log(ties) and is convex; its entropy is that of classes.

    The slope is with respect to log b, and so b times that of psi; curvature minus slope is the
    variance of b d. Classes at b d = -x take part in the mean by x p and in the variance by x^2 p,
    and x is not far from log(classes / p): where the mean is small, so is the variance. All in
    float32, in which psi is kept.
    """
    psi, slope, curvature = (np.ascontiguousarray(rows.nodes[:, :, part]) for part in range(3))
    entropy, variance, rise = psi - slope, curvature - slope, np.diff(psi, axis=1)
    highest, lowest = (np.log(part, dtype=np.float32)[:, None] for part in (rows.finite, rows.ties))
    slack = SLACK * (1.0 + highest)
    widest = (highest + 1.0) * np.abs(slope) + np.sqrt(np.abs(slope))
    laws = {
        "lie between the logarithms of ties and finite": (psi >= lowest - slack)
        & (psi <= highest + slack),
        "fall": slope <= 0.0,
        "have a possible entropy": (entropy >= -slack) & (entropy <= highest + slack),
        "have a possible variance": (variance >= -slack)
        & (variance <= 2.0 * widest + 10.0 * slack),
        "be convex": (rise >= slope[:, :-1] * BACK - slack)
        & (rise <= slope[:, 1:] * AHEAD + slack),
    }
    for law, holds in laws.items():
        require(bool(holds.all()), f"nodes of a profile must {law}")
