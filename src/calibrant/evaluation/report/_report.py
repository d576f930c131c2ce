"""The report as an object: made from scores, saved as one file."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from calibrant.common.docstrings import documented
from calibrant.common.files import check_output, replacing
from calibrant.common.progress import reporter
from calibrant.common.types import InputKind, Progress, RandomState
from calibrant.data.checks import as_numpy
from calibrant.evaluation.comparison import Comparison, MetricOptions
from calibrant.evaluation.cross_validation import Experiment, Methods
from calibrant.evaluation.report._contents import gather, summary, with_uncalibrated
from calibrant.evaluation.report._page import Provenance as Provenance
from calibrant.evaluation.report._page import need_extra as need_extra
from calibrant.evaluation.report._page import page
from calibrant.metrics._bins import DEFAULT_BINS
from calibrant.metrics._intervals import (
    DEFAULT_LEVEL,
    DEFAULT_RESAMPLES,
)
from calibrant.metrics._notions import RowNotion

SUFFIXES = (".html",)


@dataclass(frozen=True, repr=False)
class Report:
    """A report: its words, its numbers and its page.

    Parameters
    ----------
    title : str
        What stands above it.
    summary : tuple of str
        What it says in words.
    recommended : str
        The method that validation rows choose.
    comparison : Comparison
        All methods side by side.
    html : str
        The page, which needs nothing else.
    """

    title: str
    summary: tuple[str, ...]
    recommended: str
    comparison: Comparison
    html: str

    def __repr__(self) -> str:
        return f"Report({self.title!r}: {len(self.html) / 1e6:.1f} MB, {self.recommended})"

    def __str__(self) -> str:
        return "\n".join(self.summary)

    def save(self, path: str | Path) -> None:
        """Write the page into a file, whole or not at all.

        Parameters
        ----------
        path : str or Path
            The file, which ends in .html.
        """
        check_output(Path(path), SUFFIXES)
        with replacing(Path(path)) as file:
            file.write(self.html.encode())


@documented
def make_report(
    val_scores: Any,
    val_labels: Any,
    test_scores: Any = None,
    test_labels: Any = None,
    *,
    methods: Methods | None = None,
    input: InputKind = "logits",  # noqa: A002 - the word of the whole public interface
    title: str = "Calibration report",
    class_names: Sequence[str] | None = None,
    n_bins: int = DEFAULT_BINS,
    level: float = DEFAULT_LEVEL,
    n_resamples: int = DEFAULT_RESAMPLES,
    random_state: RandomState = None,
    notion: RowNotion | None = None,
    val_weight: Any = None,
    test_weight: Any = None,
    ignore_index: int | None = None,
    provenance: Provenance | None = None,
    progress: Progress = False,
) -> Report:
    """Fit methods, judge them, and make one self-contained HTML page of it.

    Parameters
    ----------
    {val_scores}
    {val_labels}
    test_scores : array of shape (n_test, n_classes) or (n_test,), optional
        The scores to judge on; left out, the validation rows are cross-validated.
    test_labels : array of shape (n_test,), optional
        Their true classes.
    methods : str, Calibrator, iterable or mapping of them, optional
        What ``compare`` takes; by default nine methods, "auto" among them. The scores as they are
        ("base") are always there.
    {input_logits}
    title : str, default "Calibration report"
        What stands above the page.
    class_names : sequence of str, optional
        What the classes are called; by default their numbers.
    {n_bins}
    level : float, default 0.95
        The level of the intervals, bands and tests.
    n_resamples : int, default 200
        How often rows and labels are drawn.
    {random_state}
    {notion}
    {val_weight}
    {test_weight}
    ignore_index : int, optional
        Rows with this label are left out; the others keep their numbers.
    provenance : Provenance, optional
        Files and commands to show, so that others can repeat it.
    {progress}

    Returns
    -------
    Report
        Its words, its numbers and its page; ``save`` writes it.

    Raises
    ------
    ValueError
        Where a name or an array is refused.
    ImportError
        Where the extra ``report`` is not installed.

    Notes
    -----
    The method that is recommended is chosen on validation rows alone: by "auto" where it is among
    the methods, else by the log loss in a cross-validation. The page loads nothing from anywhere,
    and its own security policy forbids it to.

    Examples
    --------
    >>> import calibrant
    >>> data = calibrant.datasets.load("fashion-mnist-lenet5")
    >>> report = make_report(
    ...     data.val_logits[:500], data.val_labels[:500], data.test_logits[:500],
    ...     data.test_labels[:500], methods=["ts", "ets"], n_resamples=20,
    ... )
    >>> report.recommended in ("ts", "ets")
    True
    """
    need_extra()
    options = MetricOptions(n_bins, level, n_resamples, random_state, notion)
    experiment = Experiment.of(
        val_scores,
        val_labels,
        test_scores,
        test_labels,
        methods=with_uncalibrated(methods),
        input=input,
        val_weight=val_weight,
        test_weight=test_weight,
        ignore_index=ignore_index,
    )
    # The numbers that held-out rows have in what was given. Ignored rows are missing; so are, from
    # a cross-validation, those of weight 0, and rows whose weight lies in several folds are split.
    folds = experiment.folds
    given = as_numpy(test_labels if folds is None else val_labels)
    used = np.ones(len(given), bool)
    if ignore_index is not None and given.size == len(given):  # one-hot rows ignore nothing
        used = given.ravel() != ignore_index
    if folds is not None and val_weight is not None:
        used &= as_numpy(val_weight) > 0.0
    row_numbers = np.flatnonzero(used)
    if folds is not None:
        row_numbers = folds.of(row_numbers)
    with reporter("reporting", progress) as tell:
        contents = gather(
            experiment,
            row_numbers=row_numbers,
            class_names=class_names,
            options=options,
            report=tell,
        )
    return Report(
        title=title,
        summary=tuple(summary(contents)),
        recommended=contents.recommended,
        comparison=contents.comparison,
        html=page(contents, title, provenance or Provenance()),
    )
