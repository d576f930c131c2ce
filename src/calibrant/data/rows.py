"""Rows: what users have, checked once and passed on whole.

Everything that fits, predicts, judges or streams takes one ``Rows`` instead of loose arrays, so
that whatever belongs to a row stays with it when rows are sliced, reordered or split into folds.
To give rows one more column, add a field here; ``take`` and slices carry it along.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any, Self

import numpy as np
from array_api_compat import array_namespace
from numpy.typing import NDArray

from calibrant.common.arrays import as_working_float, laid_out, like, place_of, row_max, row_tiles
from calibrant.common.types import Array, Floats, InputKind, Labels, WeightMeaning
from calibrant.data import checks
from calibrant.data.copies import canonical_rows
from calibrant.data.folds import Folds, folds_of
from calibrant.data.weights import are_counts, effective_rows
from calibrant.formulas import Formula, FormulaRows
from calibrant.formulas._array_operations import NUMPY, ops_of
from calibrant.formulas._row_functions import keep_arg_max_of_scores, log_odds, ordered_log_odds


@dataclass(frozen=True)
class Rows:
    """Scores of some rows, and whatever else is known of each row.

    ``Rows.of`` checks what a user gives; the constructor trusts its caller.

    Parameters
    ----------
    scores : array of shape (rows, classes)
        Scores of the kind that ``input`` names, in any array library. Their values are checked
        where they are read, tile by tile.
    labels : array of shape (rows,)
        Class indices in main memory; None for rows that are only predicted.
    sample_weight : array of shape (rows,), optional
        The weight of each row; None where all rows count the same.
    input : {"logits", "probs"}, default "logits"
        What the scores are.
    weights : {"auto", "importance", "counts"}, default "auto"
        What weights mean: how much each row matters, or how often it is repeated; "auto" takes
        whole weights as counts.
    classes : tuple of str, optional
        The names of the classes, in the order of the columns.
    groups : array of shape (rows,), optional
        Rows of one group depend on each other: a fold holds out whole groups.
    segments : array of shape (rows,), optional
        A partition to report by, without any effect on fits.
    covariates : dict of str to array of shape (rows,), optional
        What a calibrator may condition on.

    Examples
    --------
    >>> rows = Rows.of([[2.0, 0.0], [0.0, 1.0], [3.0, 1.0]], [0, 1, 1], groups=["a", "b", "a"])
    >>> rows.take([0, 2]).groups
    array(['a', 'a'], dtype='<U1')
    """

    scores: Array
    # Typed as if they were always there: code that fits or judges has checked that they are.
    labels: Labels = None  # type: ignore[assignment]
    sample_weight: Floats | None = None
    input: InputKind = "logits"
    weights: WeightMeaning = "auto"
    classes: tuple[str, ...] | None = None
    groups: NDArray[Any] | None = None
    segments: NDArray[Any] | None = None
    covariates: Mapping[str, NDArray[Any]] | None = None

    @classmethod
    def of(
        cls,
        scores: Any,
        labels: Any = None,
        sample_weight: Any = None,
        *,
        input: InputKind = "logits",  # noqa: A002 - the word of the whole public interface
        ignore_index: int | None = None,
        n_classes: int | None = None,
        may_be_empty: bool = False,
        weights: WeightMeaning = "auto",
        classes: Sequence[str] | None = None,
        groups: Any = None,
        segments: Any = None,
        covariates: Any = None,
    ) -> Rows:
        """Check what a user gives; rows whose label is ``ignore_index`` are left out.

        Shapes, labels and weights are checked here, values of the scores where they are read.
        ``n_classes`` is the number of classes that is expected, if one is.
        """
        array = checks.as_scores(scores, input, n_classes, may_be_empty=may_be_empty)
        rows, columns = array.shape
        kept = None
        if ignore_index is not None and labels is not None:
            labels, kept = checks.ignored_as_class_0(labels, rows, ignore_index)
            if kept is not None and not (kept.any() or may_be_empty):
                raise ValueError(f"every label is the ignore_index {ignore_index}: no row is left")
        result = cls(
            array,
            sample_weight=None if sample_weight is None else checks.as_weights(sample_weight, rows),
            input=input,
            weights=weights,
            classes=None if classes is None else tuple(classes),
            groups=None if groups is None else checks.as_column(groups, "groups", rows),
            segments=None if segments is None else checks.as_column(segments, "segments", rows),
            covariates=None if covariates is None else checks.as_covariates(covariates, rows),
        )
        if kept is not None:
            result, labels = result.take(kept), labels[kept]
            rows = len(result)
            if result.sample_weight is not None:
                checks.as_weights(result.sample_weight, rows)  # which may all be zero
        if labels is None:
            return result
        return replace(result, labels=checks.as_labels(labels, rows, columns, result.classes))

    @classmethod
    def unlabelled(
        cls, scores: Array, kind: InputKind, covariates: Mapping[str, NDArray[Any]] | None
    ) -> Rows:
        """Checked rows to predict: made without the cost of setting nine frozen fields."""
        rows = object.__new__(cls)
        rows.__dict__.update(scores=scores, input=kind, covariates=covariates)
        return rows

    # --- reading ---

    def __len__(self) -> int:
        return int(self.scores.shape[0])

    @property
    def n_classes(self) -> int:
        """The number of classes."""
        return int(self.scores.shape[1])

    @property
    def logits(self) -> Array:
        """The scores of rows that hold logits."""
        assert self.input == "logits"
        return self.scores

    @cached_property
    def weight(self) -> Floats:
        """The weight of each row; ones where no weights were given."""
        return np.ones(len(self)) if self.sample_weight is None else self.sample_weight

    @cached_property
    def counted(self) -> bool:
        """Whether weights count repeated rows."""
        return are_counts(self.weight) if self.weights == "auto" else self.weights == "counts"

    @cached_property
    def effective_rows(self) -> float:
        """How many rows of equal weight tell as much."""
        return effective_rows(self.weight, self.counted)

    # --- choosing rows ---

    def take(self, index: Any) -> Self:
        """Choose rows by their numbers, by a mask, or by a slice, which copies nothing."""
        if not isinstance(index, slice):
            index = np.asarray(index)
            index = np.flatnonzero(index) if index.dtype == bool else index
        if isinstance(index, slice) or isinstance(self.scores, np.ndarray):
            scores = self.scores[index]
        else:
            xp = array_namespace(self.scores)
            places = xp.asarray(index, **place_of(self.scores))
            scores = xp.take(self.scores, places, axis=0)
        columns: dict[str, Any] = {}
        for name in ("labels", "sample_weight", "groups", "segments"):
            column = getattr(self, name)
            columns[name] = None if column is None else column[index]
        if self.covariates is not None:
            named = self.covariates.items()
            columns["covariates"] = {name: column[index] for name, column in named}
        return replace(self, scores=scores, **columns)

    __getitem__ = take

    @classmethod
    def concat(cls, parts: Sequence[Rows]) -> Rows:
        """The rows of parts in main memory, which have the same columns, one behind the other."""
        first = parts[0]
        columns: dict[str, Any] = {
            name: None
            if getattr(first, name) is None
            else np.concatenate([getattr(part, name) for part in parts])
            for name in ("scores", "labels", "sample_weight", "groups", "segments")
        }
        if first.covariates is not None:
            columns["covariates"] = {
                name: np.concatenate([(part.covariates or {})[name] for part in parts])
                for name in first.covariates
            }
        return replace(first, **columns)

    def only(self, columns: tuple[str, ...]) -> Rows:
        """The rows without covariates, unless they are among the columns that somebody uses."""
        if self.covariates is None or "covariates" in columns:
            return self
        return replace(self, covariates=None)

    def of_some_weight(self) -> Self:
        """The rows of positive weight: those of weight 0 are as good as absent."""
        if self.sample_weight is None or self.sample_weight.all():
            return self
        return self.take(self.sample_weight > 0.0)

    def tiles(self, elements: int) -> Iterator[tuple[slice, Self]]:
        """Consecutive rows of about so many scores each, and where they are."""
        for tile in row_tiles(self.scores, elements):
            yield tile, self[tile]

    def in_canonical_order(self) -> Rows:
        """The rows in an order of their own; copies of a row are one row with their weight."""
        index, weight = canonical_rows(self.logits, self.labels, self.weight)
        return replace(self.take(index), sample_weight=weight)

    def folds(self, most: int | None = None) -> Folds:
        """Split into at most so many folds; rows of a group are held out together."""
        return folds_of(self, most)

    # --- for formulas ---

    def with_scores(self, scores: Array, input: InputKind = "logits") -> Rows:  # noqa: A002
        """The same rows with other scores."""
        return replace(self, scores=scores, input=input)

    def with_weight(self, weight: Floats) -> Rows:
        """The same rows with other weights."""
        return replace(self, sample_weight=weight)

    def as_logits(self, first_row: int = 0) -> Array:
        """Valid logits in the working precision; bad values are refused by their row's number."""
        tile = as_working_float(self.scores)
        if isinstance(tile, np.ndarray):
            tile = laid_out(tile)
        if self.input == "logits":
            checks.check_logits(tile, first_row)
            return tile
        checks.check_probabilities(tile, first_row=first_row)
        if not isinstance(tile, np.ndarray):
            return ordered_log_odds(tile, ops_of(tile))
        logits = log_odds(tile, NUMPY)
        ties = np.count_nonzero(logits == row_max(logits)[:, None]) > len(tile)
        return keep_arg_max_of_scores(logits, tile, NUMPY) if ties else logits

    def for_formula(self, formula: Formula, logits: Array, first_row: int = 0) -> FormulaRows:
        """What a formula reads of these rows, in the arrays of the given logits."""
        if "covariates" not in formula.needs:
            return FormulaRows(logits)
        matrix = checks.covariate_matrix(self.covariates, formula.covariate_names, first_row)
        return FormulaRows(logits, like(matrix.astype(str(logits.dtype).split(".")[-1]), logits))
