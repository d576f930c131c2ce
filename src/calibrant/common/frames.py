"""Results as data frames of whichever library the reader has."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from importlib import import_module
from typing import Any, Literal, get_args

Backend = Literal["pandas", "polars", "pyarrow"]


def frame_of(columns: Mapping[str, Sequence[Any]], backend: Backend) -> Any:
    """A data frame with these columns; None is a missing value.

    A column is one of words, truth values, whole numbers, or else of float64.
    """
    if backend not in get_args(Backend):
        known = ", ".join(map(repr, get_args(Backend)))
        raise ValueError(f"backend must be one of {known}, got {backend!r}")
    try:
        import_module(backend)
    except ImportError as error:
        raise ImportError(
            f"to_frame(backend={backend!r}) needs {backend}: pip install {backend}"
        ) from error
    import narwhals

    kinds: dict[type | None, Any] = {
        bool: narwhals.Boolean(),
        int: narwhals.Int64(),
        str: narwhals.String(),
    }
    schema = {
        name: kinds.get(_type_of(values), narwhals.Float64()) for name, values in columns.items()
    }
    data = {name: list(values) for name, values in columns.items()}
    return narwhals.from_dict(data, schema, backend=backend).to_native()


def _type_of(values: Sequence[Any]) -> type | None:
    """The one type of all values; words alone may be missing."""
    types = set(map(type, values))
    if types == {str, type(None)}:
        return str
    return types.pop() if len(types) == 1 else None
