"""What reports of metrics share: values by name, plain documents, JSON."""

from __future__ import annotations

import json
from collections.abc import Iterable
from dataclasses import asdict, dataclass
from typing import Any, cast

import numpy as np

from calibrant._binning import BinStats
from calibrant._frames import Backend, frame_of
from calibrant._tables import Shown, counted
from calibrant.metrics._intervals import Estimate
from calibrant.metrics._tables import estimate_columns
from calibrant.metrics.decomposition import BrierDecomposition


def missing(owner: object, name: str, computed: Iterable[str]) -> AttributeError:
    """The error for a name that is no attribute and was not computed."""
    return AttributeError(
        f"{type(owner).__name__} has no {name!r}; computed were {', '.join(computed)}"
    )


def plain(value: Any) -> Any:
    """Tuples and arrays as lists, in nested dicts and lists."""
    if isinstance(value, dict):
        return {name: plain(part) for name, part in value.items()}
    if isinstance(value, list | tuple):
        return [plain(part) for part in value]
    return value.tolist() if isinstance(value, np.ndarray) else value


def _finite(value: Any) -> Any:
    """A plain document for JSON, which has no infinity: null stands for it."""
    if isinstance(value, dict):
        return {name: _finite(part) for name, part in value.items()}
    if isinstance(value, list):
        return [_finite(part) for part in value]
    return None if isinstance(value, float) and not np.isfinite(value) else value


class PlainDocument:
    """A dataclass that can be turned into a plain document and into JSON."""

    def to_dict(self) -> dict[str, Any]:
        """Convert to plain numbers, lists and dicts.

        Returns
        -------
        dict
            The fields by their names.
        """
        fields: dict[str, Any] = plain(asdict(cast(Any, self)))
        return fields

    def to_json(self, indent: int | None = None) -> str:
        """Convert to JSON text; an infinite number (the NLL of an impossible label) becomes null.

        Parameters
        ----------
        indent : int, optional
            Spaces per level; all on one line by default.

        Returns
        -------
        str
            The text.
        """
        return json.dumps(_finite(self.to_dict()), indent=indent, allow_nan=False)


@dataclass(frozen=True, repr=False)
class MetricReport(Shown, PlainDocument):
    """Metrics of one set of probabilities; the base of ``Evaluation`` and ``MeterReport``."""

    n_rows: int
    n_classes: int
    metrics: dict[str, Estimate]
    brier_decomposition: BrierDecomposition | None
    bins: BinStats

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
