"""Data sets of Ray: fitted on, calibrated and judged batch by batch where their blocks are."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any
from zlib import crc32

import numpy as np

from calibrant.calibrators import Calibrator
from calibrant.calibrators._base import check_is_calibrator
from calibrant.common.docstrings import documented
from calibrant.common.types import InputKind, RandomState
from calibrant.data.scorefiles._copied_columns import columns_to_copy
from calibrant.data.scorefiles._names import (
    ColumnNames,
    OpenFile,
    ReadOptions,
    check_numbers,
    choose_names,
    flat_columns,
)
from calibrant.data.scorefiles._reading import covariate_names
from calibrant.metrics import MeterReport
from calibrant.metrics._bins import DEFAULT_BINS
from calibrant.metrics._notions import RowNotion
from calibrant.scale.ray._cluster import (
    merged_states,
    on_workers,
    ray_data,
    ray_module,
    state_table,
)
from calibrant.scale.streams._applying import Only, outputs_of
from calibrant.scale.streams._evaluating import Judge, Measured
from calibrant.scale.streams._fitting import (
    MAX_BYTES,
    MAX_ROWS,
    Collected,
    Collector,
    check_bounds,
    fitted,
    model_for,
    plan_for,
)
from calibrant.scale.streams._sources import Batch, table_batch
from calibrant.scale.streams._stream import BATCH_BYTES, MOST_ROWS

_WHERE = Path("the data set")  # what messages call it


@documented
@on_workers()
def fit(
    dataset: Any,
    method: str | Calibrator = "auto",
    *,
    scores_key: str | None = None,
    labels_key: str | None = None,
    weights_key: str | None = None,
    covariates: Sequence[str] = (),
    input: InputKind | None = None,  # noqa: A002 - the word of the whole public interface
    max_rows: int = MAX_ROWS,
    max_bytes: int = MAX_BYTES,
    stratify: bool = False,
    ignore_index: int | None = None,
    random_state: RandomState = None,
) -> Calibrator:
    """Fit a calibrator on a data set of Ray.

    Every block is read where it is; what travels are the rows that are kept, as in
    ``calibrant.streams.fit_stream``: the same ones that one machine would draw.

    Parameters
    ----------
    dataset : ray.data.Dataset
        Labelled scores: a column of lists or tensors, or numbered columns, beside ``label``.
    method : str or Calibrator, default "auto"
        An acronym, or an unfitted calibrator, which is fitted.
    scores_key : str, optional
        The name of the scores; by default the one called logits or probs.
    labels_key : str, optional
        The name of the labels; by default label or labels.
    weights_key : str, optional
        The name of the rows' weights; there are none by default.
    covariates : sequence of str, default ()
        The names of what else is known of each row: columns of numbers, for methods that use them.
    input : {"logits", "probs"}, optional
        What the scores are, where their name does not say it.
    max_rows : int, default 200_000
        The most rows that are kept.
    max_bytes : int, default 2**28
        The most bytes that rows of scores may take.
    stratify : bool, default False
        Whether every class is drawn by itself.
    {ignore_index}
    random_state : int, numpy.random.Generator or None, default None
        Which rows are drawn; None is the seed 0.

    Returns
    -------
    Calibrator
        The fitted calibrator.

    Raises
    ------
    ValueError
        Where columns are missing or rows are refused.

    Examples
    --------
    >>> import calibrant.ray
    >>> def fitted_on_a_cluster(folder):
    ...     import ray
    ...     return calibrant.ray.fit(ray.data.read_parquet(folder), "pts")
    """
    check_bounds(max_rows, max_bytes)
    options = ReadOptions(
        scores_key, labels_key, weights_key, covariates=covariate_names(covariates), input=input
    )
    columns = _Columns.of(dataset, options)
    model = model_for(method, columns.names.kind)
    plan = plan_for(columns.first, model, max_rows, max_bytes, stratify, random_state)

    def drawn(collector: Collector) -> Collected:
        def states(table: Any) -> Any:
            batch = columns.batch(table)
            part = str(crc32(np.ascontiguousarray(batch.scores).tobytes()))  # a block has no name
            return state_table(collector.collected([batch], part))

        return merged_states(columns.mapped(dataset, states), Collected.merge)

    return fitted(model, plan, ignore_index, dataset.count(), drawn)


@documented
@on_workers()
def evaluate(
    dataset: Any,
    calibrator: Calibrator | None = None,
    *,
    scores_key: str | None = None,
    labels_key: str | None = None,
    weights_key: str | None = None,
    input: InputKind | None = None,  # noqa: A002 - the word of the whole public interface
    n_bins: int = DEFAULT_BINS,
    notion: RowNotion | None = None,
    ignore_index: int | None = None,
) -> MeterReport:
    """Judge the scores of a data set of Ray, or what a calibrator makes of them.

    Parameters
    ----------
    dataset : ray.data.Dataset
        Labelled scores; of ``confidence`` and ``prediction`` alone, the metrics of the predicted
        class are given.
    calibrator : Calibrator, optional
        Judge its probabilities in place of the scores.
    scores_key : str, optional
        The name of the scores; by default the one called logits or probs.
    labels_key : str, optional
        The name of the labels; by default label or labels.
    weights_key : str, optional
        The name of the rows' weights; there are none by default.
    input : {"logits", "probs"}, optional
        What the scores are, where their name does not say it.
    {n_bins}
    {notion}
    {ignore_index}

    Returns
    -------
    MeterReport
        The metrics by name, and the bins.

    Raises
    ------
    ValueError
        Where columns are missing or rows are refused.

    Examples
    --------
    >>> import calibrant.ray
    >>> def ece_on_a_cluster(folder):
    ...     import ray
    ...     return calibrant.ray.evaluate(ray.data.read_parquet(folder)).ece
    """
    options = ReadOptions(scores_key, labels_key, weights_key, input=input)
    if calibrator is not None:
        names = calibrator.formula_.covariate_names
        options = replace(options, default_input=calibrator.input_, covariates=names)
    columns = _Columns.of(dataset, options)
    judge = Judge(columns.names.kind, calibrator, n_bins, ignore_index, notion)

    def states(table: Any) -> Any:
        return state_table(judge.measured([columns.batch(table)]))

    measured = merged_states(columns.mapped(dataset, states), Measured.merge)
    return measured.reports()["scores" if calibrator is None else "calibrated"]


def apply(
    dataset: Any,
    calibrator: Calibrator,
    *,
    only: Only | None = None,
    scores_key: str | None = None,
    input: InputKind | None = None,  # noqa: A002 - the word of the whole public interface
    num_gpus: float | None = None,
) -> Any:
    """Calibrate a data set of Ray; nothing is computed before the result is read or written.

    Parameters
    ----------
    dataset : ray.data.Dataset
        Scores: a column of lists or tensors, or numbered columns.
    calibrator : Calibrator
        A fitted calibrator.
    only : {"confidence"}, optional
        Leave out the probabilities of all classes, ``probs``.
    scores_key : str, optional
        The name of the scores; by default the one called logits or probs.
    input : {"logits", "probs"}, optional
        What the scores are, where their name does not say it.
    num_gpus : float, optional
        GPUs for each worker, which then need PyTorch; 0 for none. By default one where the cluster
        has any.

    Returns
    -------
    ray.data.Dataset
        ``probs``, ``prediction`` and ``confidence`` beside all columns but the scores, whatever
        they hold. A column that has the name of an output is replaced; other scores under a usual
        name (logits, probs) are left out.

    Raises
    ------
    ValueError
        Where the scores are missing or of another kind than the calibrator takes.

    Examples
    --------
    >>> import calibrant, calibrant.ray
    >>> def calibrated_on_a_cluster(folder, out):
    ...     import ray
    ...     pts = calibrant.load("pts.safetensors")
    ...     calibrant.ray.apply(ray.data.read_parquet(folder), pts).write_parquet(out)
    """
    check_is_calibrator(calibrator)
    options = ReadOptions(
        scores_key,
        covariates=calibrator.formula_.covariate_names,
        input=input,
        default_input=calibrator.input_,
        need_labels=False,
    )
    columns = _Columns.of(dataset, options, with_labels=False)
    if columns.names.kind != calibrator.input_:
        raise ValueError(f"the calibrator takes {calibrator.input_}, got {columns.names.kind}")
    gpus = num_gpus
    if gpus is None:  # one for each worker, where there are any and the method can use it
        ray, gpus = ray_module(), 0.0
        if ray.is_initialized() and not calibrator.formula_.host_only:
            gpus = min(1.0, float(ray.cluster_resources().get("GPU", 0.0)))
    wanted = ("prediction", "confidence") if only else ("probs", "prediction", "confidence")
    calibrated = _Calibrated(calibrator, columns, wanted, on_gpu=gpus > 0)
    return dataset.map_batches(
        calibrated,
        batch_format="pyarrow",
        batch_size=columns.batch_rows,
        **({"num_gpus": gpus} if gpus else {}),
    )


@dataclass(frozen=True)
class _Calibrated:
    """What a worker makes of a batch."""

    calibrator: Calibrator
    columns: _Columns
    wanted: tuple[str, ...]
    on_gpu: bool = False

    def __call__(self, table: Any) -> Any:
        from calibrant.scale.streams._shard_files import as_table

        batch = self.columns.batch(table)
        device = "cuda" if self.on_gpu else None
        outputs = outputs_of(self.calibrator, batch, self.wanted, device)
        scores = self.columns.names.scores
        copied = columns_to_copy(table.column_names, scores, None, "", self.wanted)
        rest = table.select([*copied.renamed])
        made = as_table(outputs)
        for name in made.column_names:
            rest = rest.append_column(name, made[name])
        return rest


@dataclass(frozen=True)
class _Columns:
    """Which columns of a data set are read, and how."""

    names: ColumnNames
    first: Batch
    batch_rows: int

    @classmethod
    def of(cls, dataset: Any, options: ReadOptions, *, with_labels: bool = True) -> _Columns:
        """Those of a data set, of which a row is looked at."""
        ray_data()
        with on_workers():
            table = dataset.take_batch(1, batch_format="pyarrow")
        present = list(table.column_names)
        file = OpenFile(_WHERE, present, flat=flat_columns(_WHERE, present))
        names = choose_names(file, options)
        if not with_labels:  # they are copied like any other column
            names = replace(names, labels=None)
        check_numbers(_WHERE, [list(names.scores)])
        first = _batch_of(table, names)
        row_bytes = max(1, int(first.scores.nbytes))
        return cls(names, first, max(1, min(MOST_ROWS, BATCH_BYTES // row_bytes)))

    def batch(self, table: Any) -> Batch:
        """The rows of a table."""
        return _batch_of(table, self.names)

    def mapped(self, dataset: Any, states: Any) -> Any:
        """The states that a function makes of tables of some rows."""
        needed = dataset.select_columns(self.names.columns)
        states_of = needed.map_batches(states, batch_format="pyarrow", batch_size=self.batch_rows)
        states_of.context.raise_original_map_exception = True
        return states_of


def _batch_of(table: Any, names: ColumnNames) -> Batch:
    """The rows of a table, with lists in place of tensors, which is how Arrow stores them."""
    import pyarrow

    for name in names.columns:
        column = table.column(name)
        if isinstance(column.type, pyarrow.BaseExtensionType):
            plain = pyarrow.chunked_array([chunk.storage for chunk in column.chunks])
            table = table.set_column(table.column_names.index(name), name, plain)
    return table_batch(_WHERE, table, names, 0)
