"""What reports of metrics share: values by name, plain documents, JSON."""

from __future__ import annotations

import json
from collections.abc import Iterable
from dataclasses import asdict, dataclass
from typing import Any, cast

import numpy as np

from calibrant._binning import BinStats
from calibrant.metrics._intervals import Estimate
from calibrant.metrics._tables import counted, unit_note
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


@dataclass(frozen=True)
class MetricReport(PlainDocument):
    """Metrics of one set of probabilities; the base of ``Evaluation`` and ``MeterReport``."""

    n_rows: int
    n_classes: int
    metrics: dict[str, Estimate]
    brier_decomposition: BrierDecomposition | None
    bins: BinStats

    def _headline(self) -> str:
        """The sizes, and how to read the numbers."""
        size = f"{counted(self.n_rows, 'row')}, {counted(self.n_classes, 'class')}"
        return f"{size}, {counted(len(self.bins.weight), 'bin')}; {unit_note(self.metrics)}"
