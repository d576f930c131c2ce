"""What reports of metrics share: values by name, sizes, frames."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any

from calibrant.common.documents import PlainDocument
from calibrant.common.frames import Backend, frame_of
from calibrant.common.tables import Shown, counted
from calibrant.data.binning import BinStats
from calibrant.metrics._intervals import Estimate
from calibrant.metrics._notions import RowNotion
from calibrant.metrics._tables import estimate_columns
from calibrant.metrics.decomposition import BrierDecomposition


def missing(owner: object, name: str, computed: Iterable[str]) -> AttributeError:
    """The error for a name that is no attribute and was not computed."""
    return AttributeError(
        f"{type(owner).__name__} has no {name!r}; computed were {', '.join(computed)}"
    )


@dataclass(frozen=True, repr=False)
class MetricReport(Shown, PlainDocument):
    """Metrics of one set of probabilities; the base of ``Evaluation`` and ``MeterReport``."""

    n_rows: int
    n_classes: int
    metrics: dict[str, Estimate]
    brier_decomposition: BrierDecomposition | None
    bins: BinStats
    notion: RowNotion

    def __repr__(self) -> str:
        found = (f"{name}={known.value:.4g}" for name, known in self.metrics.items())
        return f"{type(self).__name__}({self._sizes()}: {', '.join(found)})"

    def to_frame(self, backend: Backend = "pandas") -> Any:
        """Convert to a data frame: one row per metric, every number as a fraction.

        Parameters
        ----------
        backend : {"pandas", "polars", "pyarrow"}, default "pandas"
            The library, which must be installed.

        Returns
        -------
        DataFrame
            The columns ``metric``, ``value``, ``low``, ``high``, ``null``, ``p_value`` and
            ``std_error``; what is not known is missing.
        """
        return frame_of(self._columns(), backend)

    def _columns(self) -> dict[str, list[Any]]:
        return estimate_columns(self.metrics)

    def _sizes(self) -> str:
        return f"{counted(self.n_rows, 'row')}, {counted(self.n_classes, 'class')}"

    def _headline(self) -> str:
        return f"{self._sizes()}, {counted(len(self.bins.weight), 'bin')}"
