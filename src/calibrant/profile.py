"""TemperatureProfile: all that temperatures can do to a set of logits, from one pass over them.

A profile is a few numbers a row, however many classes there are. Every calibrator of the
temperature family is fitted from it alone; profiles of parts are joined by concatenation.
"""

from __future__ import annotations

import os
import threading
from collections.abc import Callable, Iterable
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, fields
from typing import Any, Self

import numpy as np
from array_api_compat import array_namespace, is_jax_array
from numpy.typing import NDArray

from calibrant import _container
from calibrant._arrays import (
    DEVICE_TILE_ELEMENTS,
    TILE_ELEMENTS,
    Array,
    InputKind,
    as_labels,
    as_scores,
    as_weights,
    as_working_float,
    check_label_logits,
    check_peaks,
    check_probabilities,
    log_odds,
    on_host,
    row_tiles,
    to_numpy,
    warn_if_probabilities,
)
from calibrant._errors import FileError
from calibrant._numerics import top_k as largest
from calibrant._partition import (
    Floats,
    GapRows,
    NodeRows,
    Psi,
    PsiPair,
    Workspace,
    joined,
    tabulate,
    tabulate_tile,
)

Progress = Callable[[int, int], None]  # (rows done, rows in all)

EXACT_CLASSES = 64  # up to here the gaps themselves are the smaller and exact summary
DEFAULT_TOP_K = 10


@dataclass(frozen=True)
class _Block:
    """The summary of consecutive rows."""

    rows: GapRows | NodeRows
    peak: NDArray[np.float64]  # the largest logit
    label_gap: NDArray[np.float32]  # (z_y - peak) / scale
    weight: NDArray[np.float64]


class TemperatureProfile:
    """A summary of labelled logits that answers every question about temperatures.

    ``top_k`` is how many of the largest logits are kept as inputs of PTS (at most the number of
    classes). Temperatures between ``0.05 * scale`` and ``50 * scale`` are read accurately, others
    through exact limits: a ``scale`` other than 1 is for logits of an unusual size.

    >>> import numpy as np
    >>> profile = TemperatureProfile.from_logits([[2.0, 0.0, 1.0], [0.0, 3.0, 0.5]], [0, 2])
    >>> round(profile.nll(1.0), 6)
    1.515739
    """

    def __init__(self, *, top_k: int = DEFAULT_TOP_K, scale: float = 1.0) -> None:
        if top_k < 1:
            raise ValueError(f"top_k must be at least 1, got {top_k}")
        if not 0.0 < scale < np.inf:
            raise ValueError(f"scale must be positive and finite, got {scale}")
        self.top_k = top_k
        self.scale = float(scale)
        self.n_classes = 0
        self._blocks: list[_Block] = []

    # --- building ---

    @classmethod
    def from_logits(
        cls,
        logits: Any,
        labels: Any,
        *,
        sample_weight: Any = None,
        top_k: int = DEFAULT_TOP_K,
        scale: float = 1.0,
        threads: int | None = None,
        progress: Progress | None = None,
    ) -> Self:
        """The profile of an array of logits; see ``update``."""
        profile = cls(top_k=top_k, scale=scale)
        return profile.update(
            logits, labels, sample_weight=sample_weight, threads=threads, progress=progress
        )

    @classmethod
    def from_probs(cls, probs: Any, labels: Any, **options: Any) -> Self:
        """The profile of probabilities, taken as the logits log p minus their row mean."""
        profile = cls(top_k=options.pop("top_k", DEFAULT_TOP_K), scale=options.pop("scale", 1.0))
        return profile.update(probs, labels, input="probs", **options)

    def update(
        self,
        scores: Any,
        labels: Any,
        *,
        sample_weight: Any = None,
        input: InputKind = "logits",  # noqa: A002 - the word of the whole public interface
        threads: int | None = None,
        progress: Progress | None = None,
    ) -> Self:
        """Add rows. Reads the array once, tile by tile; it may be memory-mapped or on a GPU.

        ``threads`` defaults to the cores this process may use. ``progress(done, total)`` is called
        as rows are finished.
        """
        scores = as_scores(scores, input)
        rows, classes = scores.shape
        if self.n_classes not in (0, classes):
            raise ValueError(f"the profile has {self.n_classes} classes, got rows with {classes}")
        target = as_labels(labels, rows, classes)
        weight = as_weights(sample_weight, rows)
        if input == "logits":
            warn_if_probabilities(scores)
        builder = _Builder(scores, target, input, min(self.top_k, classes), self.scale)
        parts = builder.run(threads, progress)
        peak = np.concatenate([part.peak for part in parts])
        label_gap = np.concatenate([part.label_gap for part in parts])
        block = _Block(joined([part.rows for part in parts]), peak, label_gap, weight)
        self.n_classes = classes
        self._blocks.append(block)
        return self

    @classmethod
    def concat(cls, profiles: Iterable[TemperatureProfile]) -> Self:
        """One profile with the rows of all, in order."""
        parts = [profile for profile in profiles if len(profile)]
        if not parts:
            raise ValueError("concat needs at least one profile with rows")
        settings = {(p.n_classes, p.top_k, p.scale) for p in parts}
        if len(settings) > 1:
            raise ValueError(
                f"profiles must agree in (classes, top_k, scale), got {sorted(settings)}"
            )
        result = cls(top_k=parts[0].top_k, scale=parts[0].scale)
        result.n_classes = parts[0].n_classes
        result._blocks = [block for part in parts for block in part._blocks]
        return result

    def take(self, index: Any) -> Self:
        """The profile of the chosen rows (an index array or a boolean mask)."""
        index = np.asarray(index)
        if index.dtype == bool:
            index = np.flatnonzero(index)
        block = self._block
        result = type(self)(top_k=self.top_k, scale=self.scale)
        result.n_classes = self.n_classes
        result._blocks = [
            _Block(
                block.rows.take(index),
                block.peak[index],
                block.label_gap[index],
                block.weight[index],
            )
        ]
        return result

    # --- reading ---

    def __len__(self) -> int:
        return sum(len(block.peak) for block in self._blocks)

    def __repr__(self) -> str:
        return (
            f"TemperatureProfile({len(self)} rows, {self.n_classes} classes, "
            f"top_k={self.top_k}, scale={self.scale:g})"
        )

    @property
    def _block(self) -> _Block:
        if not self._blocks:
            raise ValueError("the profile has no rows yet: call update first")
        if len(self._blocks) > 1:
            rows = joined([block.rows for block in self._blocks])
            rest = [
                np.concatenate([getattr(block, field.name) for block in self._blocks])
                for field in fields(_Block)[1:]
            ]
            self._blocks = [_Block(rows, *rest)]
        return self._blocks[0]

    @property
    def weight(self) -> NDArray[np.float64]:
        """One weight a row."""
        return self._block.weight

    @property
    def label_gap(self) -> Floats:
        """The true class' logit minus the largest one, a row."""
        return self._block.label_gap.astype(np.float64) * self.scale

    @property
    def finite_classes(self) -> NDArray[np.int32]:
        """Classes with a finite logit, a row."""
        rows = self._block.rows
        if isinstance(rows, NodeRows):
            return rows.finite
        return np.isfinite(rows.gaps).sum(axis=0, dtype=np.int32)

    @property
    def nbytes(self) -> int:
        """Bytes that the summary takes."""
        block = self._block
        arrays = [*vars(block.rows).values(), block.peak, block.label_gap, block.weight]
        return sum(int(array.nbytes) for array in arrays)

    def top_logits(self, k: int | None = None) -> NDArray[np.float64]:
        """The k largest logits of each row in decreasing order: the inputs of PTS."""
        block = self._block
        available = min(self.top_k, self.n_classes)
        k = available if k is None else min(k, self.n_classes)
        if k > available:
            raise ValueError(f"the profile keeps the top {available} logits, {k} were asked for")
        if isinstance(block.rows, NodeRows):
            gaps = block.rows.top[:, :k]
        else:
            gaps = largest(block.rows.gaps.T, k)
        return block.peak[:, None] + gaps.astype(np.float64) * self.scale

    def psi(self, b: Any, index: NDArray[np.intp] | None = None) -> Psi:
        """log sum_c exp(b (z_c - max z)) with its derivatives with respect to log b, a row.

        ``b`` is an inverse temperature, one for all rows or one a row; ``index`` chooses rows, and
        may name one more than once.
        """
        index = np.arange(len(self)) if index is None else index
        b = np.broadcast_to(np.asarray(b, np.float64) * self.scale, index.shape)
        return self._block.rows.psi(b, index)

    def psi_pair(self, b: Floats, index: NDArray[np.intp]) -> PsiPair:
        """psi and its slope at b and 2 b, of the rows in ``index``: faster than two ``psi``."""
        return self._block.rows.psi_pair(b * self.scale, index)

    def row_nll(self, temperature: Any) -> Floats:
        """Minus the log-probability of the true class at a temperature, a row."""
        b = 1.0 / np.asarray(temperature, np.float64)
        return self.psi(b).value - b * self.label_gap

    def row_brier(self, temperature: Any) -> Floats:
        """The squared distance between probabilities and the one-hot label, a row."""
        b = 1.0 / np.asarray(temperature, np.float64)
        psi, psi2 = self.psi(b).value, self.psi(2.0 * b).value
        return np.exp(psi2 - 2.0 * psi) - 2.0 * np.exp(b * self.label_gap - psi) + 1.0

    def confidence(self, temperature: Any) -> Floats:
        """The largest probability at a temperature, a row."""
        return np.exp(-self.psi(1.0 / np.asarray(temperature, np.float64)).value)

    def entropy(self, temperature: Any) -> Floats:
        """The entropy in nats at a temperature, a row."""
        psi = self.psi(1.0 / np.asarray(temperature, np.float64))
        return psi.value - psi.slope

    def nll(self, temperature: Any) -> float:
        """The weighted mean of ``row_nll``."""
        return float(np.average(self.row_nll(temperature), weights=self.weight))

    def brier(self, temperature: Any) -> float:
        """The weighted mean of ``row_brier``."""
        return float(np.average(self.row_brier(temperature), weights=self.weight))

    # --- files ---

    def save(self, path: str | os.PathLike[str]) -> None:
        """Write a safetensors file."""
        block = self._block
        kind = "nodes" if isinstance(block.rows, NodeRows) else "gaps"
        document = {
            "rows": kind,
            "n_classes": self.n_classes,
            "top_k": self.top_k,
            "scale": self.scale,
        }
        arrays = {f"rows.{name}": array for name, array in vars(block.rows).items()}
        arrays |= {"peak": block.peak, "label_gap": block.label_gap, "weight": block.weight}
        _container.write(path, "profile", document, arrays)

    @classmethod
    def load(cls, path: str | os.PathLike[str]) -> Self:
        """Read what ``save`` wrote."""
        document, arrays = _container.read(path, "profile")
        try:
            result = cls(top_k=document["top_k"], scale=document["scale"])
            result.n_classes = document["n_classes"]
            kind = NodeRows if document["rows"] == "nodes" else GapRows
            rows = kind(*(arrays[f"rows.{field.name}"] for field in fields(kind)))
            rest = (arrays["peak"], arrays["label_gap"], arrays["weight"])
        except (KeyError, TypeError, ValueError) as error:
            raise FileError(f"{os.fspath(path)} does not fit a profile: {error!r}") from None
        result._blocks = [_Block(rows, *rest)]
        return result


@dataclass
class _Part:
    rows: Any
    peak: NDArray[np.float64]
    label_gap: NDArray[np.float32]


class _Builder:
    """One pass over an array of scores: tiles in, parts of a block out."""

    def __init__(
        self, scores: Array, labels: NDArray[np.int64], kind: InputKind, k: int, scale: float
    ) -> None:
        self.scores, self.labels, self.kind, self.k, self.scale = scores, labels, kind, k, scale
        self.exact = scores.shape[1] <= EXACT_CLASSES
        self.host = on_host(scores) or is_jax_array(scores)  # JAX has no float64 unless told so
        self.local = threading.local()

    def run(self, threads: int | None, progress: Progress | None) -> list[_Part]:
        tiles = row_tiles(self.scores, TILE_ELEMENTS if self.host else DEVICE_TILE_ELEMENTS)
        workers = min(threads or available_cores(), len(tiles)) if self.host else 1
        if workers == 1:
            return self._collect(map(self.tile, tiles), tiles, progress)
        with ThreadPoolExecutor(workers) as pool:
            return self._collect(pool.map(self.tile, tiles), tiles, progress)

    @staticmethod
    def _collect(
        parts: Iterable[_Part], tiles: list[slice], progress: Progress | None
    ) -> list[_Part]:
        result = []
        for part, tile in zip(parts, tiles, strict=True):
            result.append(part)
            if progress is not None:
                progress(tile.stop, tiles[-1].stop)
        return result

    def tile(self, rows: slice) -> _Part:
        tile = self.scores[rows]
        tile = as_working_float(to_numpy(tile) if self.host else tile)
        if self.kind == "probs":
            check_probabilities(tile, first_row=rows.start)
            tile = log_odds(tile)
        xp = array_namespace(tile)
        peak = xp.max(tile, axis=1, keepdims=True)
        check_peaks(tile, peak[:, 0], rows.start)
        gaps = xp.astype((tile - peak) / self.scale, xp.float32, copy=False)
        label_gap = self._label_gap(gaps, rows)
        summary = self._gap_rows(gaps) if self.exact else self._node_rows(gaps, xp)
        return _Part(summary, to_numpy(peak[:, 0]).astype(np.float64), label_gap)

    def _label_gap(self, gaps: Array, rows: slice) -> NDArray[np.float32]:
        labels = self.labels[rows]
        xp = array_namespace(gaps)
        index = xp.asarray(labels[:, None], device=gaps.device)
        label_gap = to_numpy(xp.take_along_axis(gaps, index, axis=1)[:, 0])
        check_label_logits(label_gap, labels, rows.start, self.kind)
        return label_gap

    def _gap_rows(self, gaps: Array) -> GapRows:
        return GapRows(np.ascontiguousarray(np.sort(to_numpy(gaps), axis=1)[:, ::-1].T))

    def _node_rows(self, gaps: Array, xp: Any) -> NodeRows:
        if self.host:
            nodes = tabulate_tile(gaps, self._workspace(*gaps.shape))
        else:
            nodes = to_numpy(tabulate(gaps, xp))
        finite = xp.isfinite(gaps)
        count = xp.sum(xp.astype(finite, xp.int32), axis=1)
        total = xp.sum(xp.where(finite, gaps, xp.zeros_like(gaps)), axis=1, dtype=xp.float64)
        ties = xp.sum(xp.astype(gaps == 0.0, xp.int32), axis=1)
        return NodeRows(
            nodes,
            np.ascontiguousarray(to_numpy(largest(gaps, self.k))),
            to_numpy(count).astype(np.int32),
            to_numpy(ties).astype(np.int32),
            to_numpy(total / count).astype(np.float32),
        )

    def _workspace(self, rows: int, classes: int) -> Workspace:
        """This thread's scratch memory."""
        work: Workspace | None = getattr(self.local, "work", None)
        if work is None or work.powers.shape[1] < rows:
            work = self.local.work = Workspace(rows, classes)
        return work


def available_cores() -> int:
    """Cores that this process may use."""
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1
