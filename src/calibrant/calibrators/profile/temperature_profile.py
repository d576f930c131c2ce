"""TemperatureProfile: all that temperatures can do to a set of logits, from one pass over them.

A profile is a few numbers per row, however many classes there are. Every calibrator of the
temperature family is fitted from it alone; profiles of parts are joined by concatenation.
"""

from __future__ import annotations

import threading
from collections.abc import Iterable, Mapping
from contextlib import nullcontext, suppress
from dataclasses import dataclass, fields, replace
from reprlib import repr as shown
from typing import Any, Self, get_args

import numpy as np
from array_api_compat import array_namespace, is_jax_array
from numpy.typing import NDArray

from calibrant.calibrators.profile import log_partition as tables
from calibrant.calibrators.profile.checks import check_arrays, check_rows, check_settings
from calibrant.calibrators.profile.log_partition import GapRows, NodeRows, Psi, PsiPair
from calibrant.common.arrays import (
    DEVICE_TILE_ELEMENTS,
    TILE_ELEMENTS,
    as_working_float,
    has_kernels,
    on_host,
    row_max,
    row_tiles,
    to_numpy,
)
from calibrant.common.progress import reporter
from calibrant.common.threads import OwnLock, available_cores, mapping
from calibrant.common.types import Array, Floats, InputKind, Progress, Report
from calibrant.data.checks import check_label_logits, check_peaks, check_probabilities
from calibrant.data.copies import sorted_with_ties
from calibrant.data.likely_mistakes import (
    MOST_ROWS,
    Association,
    association,
    refuse_label_column,
    warn_if_probabilities,
)
from calibrant.data.rows import Rows
from calibrant.data.weights import are_counts
from calibrant.formulas._array_operations import NUMPY, ops_of
from calibrant.formulas._row_functions import log_odds, top_k
from calibrant.formulas._serialization import LARGEST, SMALLEST

EXACT_CLASSES = 64  # up to here the gaps themselves are the smaller and exact summary
DEFAULT_TOP_K = 10
DEEPEST_GAP = -3e38  # of a finite logit: almost float32's largest


@dataclass(frozen=True)
class _Block:
    """The summary of consecutive rows; one that a GPU has made stays there until it is read."""

    rows: GapRows | NodeRows
    peak: NDArray[np.float64]  # the largest logit
    label_gap: NDArray[np.float32]  # (z_y - peak) / scale
    weight: NDArray[np.float64]
    on_device: bool = False


def _joined(blocks: list[_Block]) -> _Block:
    """The rows of all blocks, in order and in main memory."""
    peak, label_gap, weight = (
        np.concatenate([getattr(block, name) for block in blocks])
        for name in ("peak", "label_gap", "weight")
    )
    return _Block(tables.joined([block.rows for block in blocks]), peak, label_gap, weight)


class TemperatureProfile:
    """A summary of labelled logits from which every question about temperatures is answered.

    Built in one pass over the logits, which may be larger than memory; every calibrator of the
    temperature family is fitted from it (``calibrator.fit(profile)``).

    Parameters
    ----------
    top_k : int, default 10
        How many of the largest logits are kept as inputs of PTS; at most the number of classes.
    scale : float, default 1
        The size of the logits. Temperatures between ``0.05 * scale`` and ``50 * scale`` are read
        accurately, others by their exact limits: another scale is for logits of an unusual size.

    Attributes
    ----------
    top_k : int
        As given.
    scale : float
        As given.
    n_classes : int
        The number of classes; 0 before the first rows.
    input : {"logits", "probs"}
        What the rows were made from.

    Raises
    ------
    ValueError
        Where ``top_k`` is below 1, or ``scale`` is no number from 1e-37 to 1e37.

    See Also
    --------
    calibrant.save : Write a profile to a file; ``calibrant.load`` reads it.
    calibrant.torch.collect_logits : Build a profile from a PyTorch model and a data loader.

    Notes
    -----
    With b = 1 / T and gaps d_c = z_c - max z, the profile keeps for every row what is needed to
    compute psi(b) = log sum_c exp(b d_c). The largest probability is exp(-psi(b)), and the NLL is
    psi(b) - b d_y, y being the label. Up to 64 classes it keeps the gaps themselves; beyond, 612
    bytes per row (with ``top_k=10``), however many classes there are.

    Threads may call ``update`` at the same time; the order of their batches is not determined.
    Read the profile when they are done.

    Examples
    --------
    >>> profile = TemperatureProfile.from_logits([[2.0, 0.0, 1.0], [0.0, 3.0, 0.5]], [0, 2])
    >>> profile
    TemperatureProfile(2 rows, 3 classes, top_k=10, scale=1)
    >>> round(profile.nll(1.0), 6)
    1.515739
    """

    def __init__(self, *, top_k: int = DEFAULT_TOP_K, scale: float = 1.0) -> None:
        if top_k < 1:
            raise ValueError(f"top_k must be at least 1, got {top_k}")
        if not SMALLEST <= scale <= LARGEST:
            raise ValueError(
                f"scale must be a number from {SMALLEST:g} to {LARGEST:g}, got {shown(scale)}"
            )
        self.top_k = top_k
        self.scale = float(scale)
        self.n_classes = 0
        self.input: InputKind = "logits"
        self._blocks: list[_Block] = []
        self._association = Association()  # of the first rows
        self._lock = OwnLock()  # held while rows are added or joined

    # --- building ---

    @classmethod
    def from_logits(
        cls,
        logits: Any,
        labels: Any,
        *,
        sample_weight: Any = None,
        ignore_index: int | None = None,
        top_k: int = DEFAULT_TOP_K,
        scale: float = 1.0,
        n_jobs: int | None = None,
        progress: Progress = False,
    ) -> Self:
        """Build the profile of an array of logits.

        Parameters
        ----------
        logits : array of shape (rows, classes), or (rows,) for two classes
            The logits; it may be memory-mapped or on a GPU.
        labels : array of shape (rows,)
            Class indices.
        sample_weight : array of shape (rows,), optional
            Weights; whole ones count repeated rows.
        ignore_index : int, optional
            Rows with this label are left out.
        top_k : int, default 10
            How many of the largest logits are kept.
        scale : float, default 1
            The size of the logits, see the class.
        n_jobs : int, optional
            Threads; None or -1 are the cores that this process may use.
        progress : bool or callable, default False
            True shows a bar on standard error; a callable is called as ``progress(done, total)``.

        Returns
        -------
        TemperatureProfile
            The profile.

        Raises
        ------
        ValueError
            Where logits, labels or weights are refused: the message names the rule and the value.
        """
        rows = Rows.of(logits, labels, sample_weight, ignore_index=ignore_index)
        return cls(top_k=top_k, scale=scale)._add(rows, n_jobs, progress)

    @classmethod
    def from_probs(
        cls,
        probs: Any,
        labels: Any,
        *,
        sample_weight: Any = None,
        ignore_index: int | None = None,
        top_k: int = DEFAULT_TOP_K,
        scale: float = 1.0,
        n_jobs: int | None = None,
        progress: Progress = False,
    ) -> Self:
        """Build the profile of probabilities, taken as the logits log p minus their row mean.

        Parameters
        ----------
        probs : array of shape (rows, classes), or (rows,) for two classes
            The probabilities; of one dimension those of class 1.
        labels : array of shape (rows,)
            Class indices.
        sample_weight : array of shape (rows,), optional
            Weights; whole ones count repeated rows.
        ignore_index : int, optional
            Rows with this label are left out.
        top_k : int, default 10
            How many of the largest logits are kept.
        scale : float, default 1
            The size of the logits, see the class.
        n_jobs : int, optional
            Threads; None or -1 are the cores that this process may use.
        progress : bool or callable, default False
            True shows a bar on standard error; a callable is called as ``progress(done, total)``.

        Returns
        -------
        TemperatureProfile
            The profile.

        Raises
        ------
        ValueError
            Where logits, labels or weights are refused: the message names the rule and the value.
        """
        rows = Rows.of(probs, labels, sample_weight, input="probs", ignore_index=ignore_index)
        return cls(top_k=top_k, scale=scale)._add(rows, n_jobs, progress)

    def update(
        self,
        scores: Any,
        labels: Any,
        *,
        sample_weight: Any = None,
        input: InputKind = "logits",  # noqa: A002 - the word of the whole public interface
        ignore_index: int | None = None,
        n_jobs: int | None = None,
        progress: Progress = False,
    ) -> Self:
        """Add rows; a batch without any changes nothing.

        Where it fails or is interrupted, the profile stays as it was.

        The array is read once, a block of rows at a time; it may be memory-mapped or on a GPU,
        where the summary then stays until it is first read.

        Parameters
        ----------
        scores : array of shape (rows, classes), or (rows,) for two classes
            Scores of the kind that ``input`` names.
        labels : array of shape (rows,)
            Class indices.
        sample_weight : array of shape (rows,), optional
            Weights; whole ones count repeated rows.
        input : {"logits", "probs"}, default "logits"
            What the scores are; all rows of a profile must be of one kind.
        ignore_index : int, optional
            Rows with this label are left out.
        n_jobs : int, optional
            Threads; None or -1 are the cores that this process may use.
        progress : bool or callable, default False
            True shows a bar on standard error; a callable is called as ``progress(done, total)``.

        Returns
        -------
        TemperatureProfile
            The profile itself.

        Raises
        ------
        ValueError
            Where scores, labels or weights are refused, or do not fit the rows that are there.

        Examples
        --------
        >>> profile = TemperatureProfile()
        >>> for logits, labels in [([[2.0, 0.0]], [0]), ([[1.0, 0.5]], [1])]:
        ...     profile = profile.update(logits, labels)
        >>> len(profile)
        2
        """
        rows = Rows.of(
            scores,
            labels,
            sample_weight,
            input=input,
            ignore_index=ignore_index,
            n_classes=self.n_classes if self._blocks else None,
            may_be_empty=True,
        )
        return self._add(rows, n_jobs, progress)

    def _add(
        self,
        rows: Rows,
        n_jobs: int | None = None,
        progress: Progress = False,
        *,
        associate: bool = True,
    ) -> Self:
        """Add the summary of rows; ``associate``: see whether labels belong to them."""
        self._check_alike(rows)
        if not len(rows):
            return self
        if rows.input == "logits":
            warn_if_probabilities(rows.scores)
            refuse_label_column(rows.scores, rows.labels)
        builder = _Builder(rows, min(self.top_k, rows.n_classes), self.scale)
        with reporter("building the profile", progress) if progress else nullcontext() as report:
            block = builder.block(n_jobs, report)
        found = Association()
        if associate and self._association.rows < MOST_ROWS:
            found = association(rows)
        with self._lock:
            self._check_alike(rows)  # another thread may have added the first rows
            seen = self._association + found
            if self._blocks:
                self._association = seen
                self._blocks.append(block)
            else:  # all at once, so that an interrupt leaves nothing half done
                self.__dict__.update(
                    n_classes=rows.n_classes, input=rows.input, _association=seen, _blocks=[block]
                )
        return self

    def _check_alike(self, rows: Rows) -> None:
        """Refuse rows that differ from those that are there."""
        if not self._blocks:
            return
        if self.n_classes != rows.n_classes:
            raise ValueError(
                f"the profile has {self.n_classes} classes, got rows with {rows.n_classes}"
            )
        if self.input != rows.input:
            raise ValueError(f"the profile is made of {self.input}, got rows of {rows.input}")

    @classmethod
    def concat(cls, profiles: Iterable[TemperatureProfile]) -> Self:
        """Join profiles into one with the rows of all, in order.

        Parameters
        ----------
        profiles : iterable of TemperatureProfile
            The profiles; those without rows are left out.

        Returns
        -------
        TemperatureProfile
            The joined profile.

        Raises
        ------
        ValueError
            Where there are no rows, or the profiles differ in classes, ``top_k``, ``scale`` or
            ``input``.

        Examples
        --------
        >>> profile = TemperatureProfile.from_logits([[2.0, 0.0]], [0])
        >>> len(TemperatureProfile.concat([profile, profile]))
        2
        """
        parts = [profile for profile in profiles if len(profile)]
        if not parts:
            raise ValueError("concat needs at least one profile with rows")
        settings = {(p.n_classes, p.top_k, p.scale, p.input) for p in parts}
        if len(settings) > 1:
            raise ValueError(
                f"profiles must agree in (classes, top_k, scale, input), got {sorted(settings)}"
            )
        result = cls._like(parts[0], [block for part in parts for block in part._blocks])
        result._association = sum((part._association for part in parts), Association())
        return result

    def take(self, index: Any) -> Self:
        """Choose rows.

        Parameters
        ----------
        index : array of int or of bool
            The indices of the rows, or a mask with one entry per row.

        Returns
        -------
        TemperatureProfile
            The profile of these rows.

        Examples
        --------
        >>> profile = TemperatureProfile.from_logits([[2.0, 0.0], [1.0, 0.5]], [0, 1])
        >>> len(profile.take([True, False]))
        1
        """
        index = np.asarray(index)
        if index.dtype == bool:
            index = np.flatnonzero(index)
        block = self._block
        peak, label_gap, weight = block.peak[index], block.label_gap[index], block.weight[index]
        return self._like(self, [_Block(block.rows.take(index), peak, label_gap, weight)])

    def _weighted(self, weight: Floats) -> Self:
        """The same rows with other weights."""
        result = self._like(self, [replace(self._block, weight=weight)])
        result._association = self._association
        return result

    def _in_canonical_order(self) -> tuple[Self, NDArray[np.intp]]:
        """The rows in an order of their own, and where each row went.

        It follows from their content (see ``data.copies``); the NLL decides ties. Rows with the
        same largest logits, label and NLL are copies: whole weights make them one row.
        """
        own = self.top_logits(1)[:, 0] + self.scale * self.label_gap
        order, tied = sorted_with_ties(own)
        some = self.take(order[tied])
        nll = some.row_nll(1.0)
        inner = np.lexsort((some.weight, nll, own[order[tied]]))
        order[tied] = order[tied][inner]
        starts = np.ones(len(order), bool)
        if are_counts(self.weight):
            top = some.top_logits()[inner]
            same = (np.diff(nll[inner]) == 0.0) & (top[1:] == top[:-1]).all(axis=1)
            starts[tied] = np.append(True, (np.diff(own[order[tied]]) > 0) | ~same)
        first = np.flatnonzero(starts)
        place = np.empty(len(order), np.intp)
        place[order] = np.cumsum(starts) - 1
        weight = np.add.reduceat(self.weight[order], first)
        return self.take(order[first])._weighted(weight), place

    @classmethod
    def _like(cls, other: TemperatureProfile, blocks: list[_Block]) -> Self:
        """A profile with the settings of another one, and other rows."""
        result = cls(top_k=other.top_k, scale=other.scale)
        result.n_classes, result.input, result._blocks = other.n_classes, other.input, blocks
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
        """All rows, in main memory."""
        blocks = self._blocks
        if not blocks:
            raise ValueError("the profile has no rows yet: call update first")
        if len(blocks) == 1 and not blocks[0].on_device:
            return blocks[0]
        with self._lock:  # what another thread adds meanwhile must not be lost
            whole = _joined(self._blocks)
            self._blocks = [whole]
        return whole

    @property
    def weight(self) -> NDArray[np.float64]:
        """The weight of each row."""
        return self._block.weight

    @property
    def label_gap(self) -> Floats:
        """The true class' logit minus the largest one, for each row."""
        return self._block.label_gap.astype(np.float64) * self.scale

    @property
    def finite_classes(self) -> NDArray[np.int32]:
        """The number of classes with a finite logit, for each row."""
        rows = self._block.rows
        if isinstance(rows, NodeRows):
            return rows.finite
        return np.isfinite(rows.gaps).sum(axis=0, dtype=np.int32)

    @property
    def nbytes(self) -> int:
        """The number of bytes that the summary takes."""
        block = self._block
        arrays = [*vars(block.rows).values(), block.peak, block.label_gap, block.weight]
        return sum(int(array.nbytes) for array in arrays)

    def top_logits(self, k: int | None = None) -> NDArray[np.float64]:
        """Give the largest logits of each row in decreasing order: the inputs of PTS.

        Parameters
        ----------
        k : int, optional
            How many; None is all that the profile keeps.

        Returns
        -------
        array of shape (rows, k)
            The logits. Where a row has fewer than k finite ones, its smallest finite one fills up.

        Raises
        ------
        ValueError
            Where k is larger than what the profile keeps.
        """
        block = self._block
        available = min(self.top_k, self.n_classes)
        k = available if k is None else min(k, self.n_classes)
        if k > available:
            raise ValueError(f"the profile keeps the top {available} logits, {k} were asked for")
        if isinstance(block.rows, NodeRows):
            gaps = block.rows.top[:, :k]
        else:
            gaps = top_k(block.rows.gaps.T, k, NUMPY)
        return block.peak[:, None] + gaps.astype(np.float64) * self.scale

    def psi(self, b: Any, index: NDArray[np.intp] | None = None) -> Psi:
        """Compute psi(b) = log sum_c exp(b (z_c - max z)) of each row, with two derivatives.

        Parameters
        ----------
        b : float or array of shape (rows,)
            The inverse temperature, one for all rows or one per row.
        index : array of int, optional
            The rows, all by default; one may be named more than once. ``b`` then has one entry
            for each of them.

        Returns
        -------
        value : array of shape (rows,)
            psi.
        slope : array of shape (rows,)
            Its derivative with respect to log b.
        curvature : array of shape (rows,)
            Its second derivative with respect to log b.
        """
        index = np.arange(len(self)) if index is None else index
        b = np.broadcast_to(np.asarray(b, np.float64) * self.scale, index.shape)
        return self._block.rows.psi(b, index)

    def psi_pair(self, b: Floats, index: NDArray[np.intp]) -> PsiPair:
        """Compute psi and its slope at b and 2 b: faster than two calls of ``psi``.

        Parameters
        ----------
        b : array of shape (rows,)
            The inverse temperature of each of these rows.
        index : array of int
            The rows; one may be named more than once.

        Returns
        -------
        value, slope : array of shape (rows,)
            psi at b and its derivative with respect to log b.
        value_at_double, slope_at_double : array of shape (rows,)
            The same at 2 b.
        """
        return self._block.rows.psi_pair(b * self.scale, index)

    def row_nll(self, temperature: Any) -> Floats:
        """Compute the negative log-likelihood of each row.

        Parameters
        ----------
        temperature : float or array of shape (rows,)
            The temperature, one for all rows or one per row.

        Returns
        -------
        array of shape (rows,)
            Minus the log-probability of the true class.
        """
        b = 1.0 / np.asarray(temperature, np.float64)
        return self.psi(b).value - b * self.label_gap

    def row_brier(self, temperature: Any) -> Floats:
        """Compute the Brier score of each row.

        Parameters
        ----------
        temperature : float or array of shape (rows,)
            The temperature, one for all rows or one per row.

        Returns
        -------
        array of shape (rows,)
            The sum over the classes of (probability - one-hot label)^2: between 0 and 2.
        """
        b = 1.0 / np.asarray(temperature, np.float64)
        psi, psi2 = self.psi(b).value, self.psi(2.0 * b).value
        return np.exp(psi2 - 2.0 * psi) - 2.0 * np.exp(b * self.label_gap - psi) + 1.0

    def confidence(self, temperature: Any) -> Floats:
        """Compute the largest probability of each row.

        Parameters
        ----------
        temperature : float or array of shape (rows,)
            The temperature, one for all rows or one per row.

        Returns
        -------
        array of shape (rows,)
            The largest probabilities.
        """
        return np.exp(-self.psi(1.0 / np.asarray(temperature, np.float64)).value)

    def entropy(self, temperature: Any) -> Floats:
        """Compute the entropy of each row.

        Parameters
        ----------
        temperature : float or array of shape (rows,)
            The temperature, one for all rows or one per row.

        Returns
        -------
        array of shape (rows,)
            The entropies in nats.
        """
        psi = self.psi(1.0 / np.asarray(temperature, np.float64))
        return psi.value - psi.slope

    def nll(self, temperature: Any) -> float:
        """Compute the weighted mean of ``row_nll``.

        Parameters
        ----------
        temperature : float or array of shape (rows,)
            The temperature, one for all rows or one per row.

        Returns
        -------
        float
            The mean negative log-likelihood.
        """
        return float(np.average(self.row_nll(temperature), weights=self.weight))

    def brier(self, temperature: Any) -> float:
        """Compute the weighted mean of ``row_brier``.

        Parameters
        ----------
        temperature : float or array of shape (rows,)
            The temperature, one for all rows or one per row.

        Returns
        -------
        float
            The mean Brier score.
        """
        return float(np.average(self.row_brier(temperature), weights=self.weight))

    # --- for ``calibrant.save`` and ``calibrant.load`` ---

    def to_state(self) -> tuple[dict[str, Any], dict[str, NDArray[Any]]]:
        """Take the profile apart into JSON values and arrays by name.

        Returns
        -------
        document : dict
            Settings, as plain values.
        arrays : dict of arrays
            The rows.
        """
        block = self._block
        document = {
            "rows": "nodes" if isinstance(block.rows, NodeRows) else "gaps",
            "n_classes": self.n_classes,
            "top_k": self.top_k,
            "scale": self.scale,
            "input": self.input,
        }
        arrays = {f"rows.{name}": array for name, array in vars(block.rows).items()}
        arrays |= {"peak": block.peak, "label_gap": block.label_gap, "weight": block.weight}
        return document, arrays

    @classmethod
    def from_state(cls, document: Mapping[str, Any], arrays: Mapping[str, NDArray[Any]]) -> Self:
        """Put together the profile that ``to_state`` took apart.

        Parameters
        ----------
        document : dict
            Settings, as plain values.
        arrays : dict of arrays
            The rows.

        Returns
        -------
        TemperatureProfile
            The profile.

        Raises
        ------
        ValueError, TypeError, KeyError
            Where something is missing or breaks an invariant.
        """
        n_classes, top_k, scale = (document[name] for name in ("n_classes", "top_k", "scale"))
        check_settings(n_classes, top_k, scale)
        result = cls(top_k=top_k, scale=scale)
        result.n_classes, result.input = n_classes, document["input"]
        if result.input not in get_args(InputKind):
            raise ValueError(f'input must be "logits" or "probs", got {shown(result.input)}')
        kind = {"nodes": NodeRows, "gaps": GapRows}[document["rows"]]
        check_arrays(kind, arrays, n_classes, min(top_k, n_classes))
        rows = kind(*(arrays[f"rows.{field.name}"] for field in fields(kind)))
        block = _Block(rows, arrays["peak"], arrays["label_gap"], arrays["weight"])
        check_rows(rows, block.peak, block.label_gap, block.weight, n_classes)
        result._blocks = [block]
        return result


class _Builder:
    """One pass over the scores of rows: tiles in, a block out."""

    def __init__(self, rows: Rows, k: int, scale: float) -> None:
        self.rows, self.k, self.scale = rows, k, scale
        self.exact = rows.n_classes <= EXACT_CLASSES
        self.kernels = not self.exact and has_kernels(rows.scores)
        # JAX has no float64 unless told so
        self.host = on_host(rows.scores) or is_jax_array(rows.scores)
        self.local = threading.local()

    def block(self, n_jobs: int | None, report: Report | None) -> _Block:
        """The summary of all rows."""
        scores, whole = self.rows.scores, slice(0, len(self.rows))
        if self.kernels and self.rows.input == "logits":
            block = self.by_kernel(scores, whole)
            if block is not None:
                if report is not None:
                    report(whole.stop, whole.stop)
                return block
        tiles = row_tiles(scores, TILE_ELEMENTS if self.host else DEVICE_TILE_ELEMENTS)
        threads = 1
        if self.host:
            threads = available_cores() if n_jobs is None or n_jobs == -1 else n_jobs
            if isinstance(threads, bool) or not isinstance(threads, int) or threads < 1:
                rule = "must be None, -1 or a whole number of at least 1"
                raise ValueError(f"n_jobs {rule}, got {n_jobs!r}")
        blocks = []
        with mapping(min(threads, len(tiles))) as on_threads:
            for block, tile in zip(on_threads(self.tile, tiles), tiles, strict=True):
                blocks.append(block)
                if report is not None:
                    report(tile.stop, whole.stop)
        return blocks[0] if len(blocks) == 1 else _joined(blocks)

    def tile(self, where: slice) -> _Block:
        """The summary of some rows."""
        tile, labels = self.rows.scores[where], self.rows.labels[where]
        tile = as_working_float(to_numpy(tile) if self.host else tile)
        if self.rows.input == "probs":
            check_probabilities(tile, first_row=where.start)
            tile = log_odds(tile, ops_of(tile))
            block = self.by_kernel(tile, where) if self.kernels else None
            if block is not None:
                return block
        xp, peak, gaps = array_namespace(tile), row_max(tile)[:, None], None
        check_peaks(tile, peak[:, 0], where.start)
        # (z - max z) / scale in float32: only those of masked classes are infinite
        if self.host:
            with suppress(FloatingPointError), np.errstate(over="raise"):
                gaps = ((tile - peak) / self.scale).astype(np.float32, copy=False)
        if gaps is None:
            with np.errstate(over="ignore"):
                gaps = xp.astype((tile - peak) / self.scale, xp.float32)
            gaps = xp.where(tile == -np.inf, gaps, xp.clip(gaps, min=DEEPEST_GAP))
        index = xp.asarray(labels[:, None], device=gaps.device)
        label_gap = to_numpy(xp.take_along_axis(gaps, index, axis=1)[:, 0])
        check_label_logits(label_gap, labels, where.start, self.rows.input)
        rows: GapRows | NodeRows
        if self.exact:
            rows = GapRows(np.ascontiguousarray(np.sort(to_numpy(gaps), axis=1)[:, ::-1].T))
        else:
            rows = self.node_rows(gaps, xp)
        highest = to_numpy(peak[:, 0]).astype(np.float64)
        return _Block(rows, highest, label_gap, self.rows.weight[where])

    def by_kernel(self, tile: Array, where: slice) -> _Block | None:
        """The summary of rows of logits by one kernel; None where there is none for them."""
        from calibrant.backends.cuda.kernels import Grid, profile_of

        first = tuple(float(b) for b in tables.GRID[: tables.NODES_PER_OCTAVE].astype(np.float32))
        labels = array_namespace(tile).asarray(self.rows.labels[where], device=tile.device)
        grid = Grid(tables.NODES, first, tables.NEGLIGIBLE_GAP)
        found = profile_of(tile, labels, self.k, self.scale, grid)
        if found is None:
            return None
        label_gap = to_numpy(found.label_gap)
        check_label_logits(label_gap, self.rows.labels[where], where.start, self.rows.input)
        parts: list[Any] = [found.nodes, found.top, found.finite, found.ties, found.mean]
        peak = to_numpy(found.peak).astype(np.float64)
        weight = self.rows.weight[where]
        return _Block(NodeRows(*parts), peak, label_gap, weight, on_device=True)

    def node_rows(self, gaps: Array, xp: Any) -> NodeRows:
        """psi of rows of gaps at the nodes of the grid, and what its limits are made of."""
        if self.host:
            work = getattr(self.local, "work", None)  # this thread's own memory
            if work is None or work.powers.shape[1] < len(gaps):
                work = self.local.work = tables.Workspace(*gaps.shape)
            nodes = tables.tabulate_tile(gaps, work)
        else:
            nodes = to_numpy(tables.tabulate(gaps, xp))
        finite = xp.isfinite(gaps)
        count = xp.sum(xp.astype(finite, xp.int32), axis=1)
        total = xp.sum(xp.where(finite, gaps, xp.zeros_like(gaps)), axis=1, dtype=xp.float64)
        ties = xp.sum(xp.astype(gaps == 0.0, xp.int32), axis=1)
        return NodeRows(
            nodes,
            np.ascontiguousarray(to_numpy(top_k(gaps, self.k, ops_of(gaps)))),
            to_numpy(count).astype(np.int32),
            to_numpy(ties).astype(np.int32),
            to_numpy(total / count).astype(np.float32),
        )
