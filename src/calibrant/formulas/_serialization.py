"""Parts that a file can hold: frozen dataclasses with a name, a version and invariants.

A part is plain data: numbers, words, arrays, other parts, and tuples of these. It checks itself
where it is made, so that whatever has been made can be computed with, from a file too. ``to_state``
and ``from_state`` take it apart into a JSON document with arrays beside it, and put it together.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import fields
from reprlib import repr as shown
from typing import Any, ClassVar

import numpy as np
from numpy.typing import NDArray

KINDS: dict[str, type[Part]] = {}


class Part:
    """A frozen dataclass that a file can hold, registered by its ``kind``.

    A subclass is a frozen dataclass of numbers, words, arrays, other parts and tuples of these,
    with a class variable ``kind``, its name in files. ``version`` counts the changes of its
    meaning: a change that would give old files other outputs is a new version, and ``upgraded``
    translates the fields of an older one.
    """

    kind: ClassVar[str]
    version: ClassVar[int] = 1
    #: True for a part that others read as a whole, and not field by field.
    whole: ClassVar[bool] = False
    #: What fields that the version before this one lacks are for its files.
    added: ClassVar[dict[str, Any]] = {}

    def __init_subclass__(cls) -> None:
        super().__init_subclass__()
        kind = cls.__dict__.get("kind")
        if kind is None:
            return  # abstract
        taken = KINDS.get(kind)
        if taken is not None and (taken.__module__, taken.__qualname__) != (
            cls.__module__,
            cls.__qualname__,
        ):
            raise ValueError(f"the kind {kind!r} is {taken.__qualname__}'s already")
        KINDS[kind] = cls

    def __setstate__(self, state: dict[str, Any]) -> None:
        """What comes out of a pickle, or of another process, cannot be written to either."""
        for value in state.values():
            for array in value if isinstance(value, tuple) else (value,):
                if isinstance(array, np.ndarray):
                    array.flags.writeable = False
        self.__dict__.update(state)

    @classmethod
    def upgraded(cls, version: int, values: dict[str, Any]) -> dict[str, Any]:
        """Translate the fields of an older version; ValueError where that one cannot be read."""
        if cls.added and version == cls.version - 1:
            return {**values, **cls.added}
        raise ValueError(f"{cls.kind} has version {version}, this calibrant reads {cls.version}")


# --- invariants ---------------------------------------------------------------------------------

# Every number of a part is one of float32, too, in which most formulas are computed: none becomes
# infinite there, and none that must be positive becomes 0. No sensible fit comes near.
LARGEST = 1e37
SMALLEST = 1e-37  # of what must be positive
MOST_CLASSES = 2**22


def require(holds: bool, rule: str) -> None:
    """Refuse what breaks a rule."""
    if not holds:
        raise ValueError(rule)


def checked_number(part: Part, name: str, low: float = -LARGEST, high: float = LARGEST) -> float:
    """A field as a float within its bounds, stored as such."""
    value = getattr(part, name)
    value = value.item() if isinstance(value, np.generic) else value
    if isinstance(value, bool) or not isinstance(value, int | float):
        raise TypeError(f"{name} must be a number, got {shown(value)}")
    if not low <= value <= high:  # true of NaN; before the float, which not every int has
        raise ValueError(f"{name} must be a number from {low:g} to {high:g}, got {shown(value)}")
    object.__setattr__(part, name, float(value))
    return float(value)


def checked_array(part: Part, name: str, **rules: Any) -> NDArray[Any]:
    """A field as a read-only array that obeys the rules of ``_array``, stored as such."""
    array = _array(getattr(part, name), name, **rules)
    object.__setattr__(part, name, array)
    return array


def checked_arrays(part: Part, name: str, ndim: int) -> tuple[NDArray[Any], ...]:
    """A field as a tuple of such arrays."""
    values = getattr(part, name)
    if not isinstance(values, tuple | list):
        raise TypeError(f"{name} must be a tuple of arrays, got {shown(values)}")
    arrays = tuple(_array(value, f"{name}[{i}]", ndim=ndim) for i, value in enumerate(values))
    object.__setattr__(part, name, arrays)
    return arrays


def _array(
    value: Any,
    name: str,
    *,
    ndim: int,
    shape: tuple[int, ...] | None = None,
    kind: str = "float64",
    low: float = -LARGEST,
    high: float = LARGEST,
) -> NDArray[Any]:
    """A read-only copy of the right type and shape, its numbers within bounds."""
    array = np.array(value, order="C")
    if array.dtype.kind not in {"float64": "fiu", "int64": "iu", "bool": "b"}[kind]:
        raise TypeError(f"{name} must be an array of {kind}, got dtype {array.dtype}")
    array = array.astype(kind, copy=False)
    require(array.ndim == ndim, f"{name} must have {ndim} dimensions, got shape {array.shape}")
    array.flags.writeable = False
    if shape is not None:
        require(array.shape == shape, f"{name} must have shape {shape}, got {array.shape}")
    if kind == "float64":
        inside = (array >= low) & (array <= high)  # False for NaN
        if not inside.all():
            value = array[~inside].flat[0]
            raise ValueError(f"{name} must be numbers from {low:g} to {high:g}, got {value}")
    return array


def checked_flag(part: Part, name: str) -> None:
    """Refuse a field that is neither True nor False."""
    if not isinstance(getattr(part, name), bool):
        raise TypeError(f"{name} must be True or False, got {shown(getattr(part, name))}")


def checked_count(part: Part, name: str, low: int = 1, high: int = MOST_CLASSES) -> int:
    """A field as a whole number within bounds."""
    value = getattr(part, name)
    if isinstance(value, bool) or not isinstance(value, int | np.integer):
        raise TypeError(f"{name} must be a whole number, got {shown(value)}")
    require(
        low <= int(value) <= high,
        f"{name} must be a whole number from {low} to {high}, got {shown(value)}",
    )
    object.__setattr__(part, name, int(value))
    return int(value)


def checked_part(part: Part, name: str, kind: type[Any]) -> None:
    """Refuse a field that is no part of this kind."""
    value = getattr(part, name)
    if not isinstance(value, kind):
        raise TypeError(f"{name} must be a {kind.__name__}, got {type(value).__name__}")


# --- to documents and back ------------------------------------------------------------------------


def map_fields(value: Any, change: Callable[[str, Any], Any], path: str = "") -> Any:
    """A copy of a part, unchecked, in which ``change`` gives numbers, arrays and whole parts anew.

    For those who keep a part's numbers in another form: it still has all of its methods.
    """
    if isinstance(value, Part) and not value.whole:
        copy = object.__new__(type(value))
        for field in fields(value):  # type: ignore[arg-type]
            inner = f"{path}.{field.name}" if path else field.name
            changed = map_fields(getattr(value, field.name), change, inner)
            object.__setattr__(copy, field.name, changed)
        return copy
    if isinstance(value, tuple):
        return tuple(map_fields(one, change, f"{path}.{i}") for i, one in enumerate(value))
    return change(path, value) if isinstance(value, Part | np.ndarray | float) else value


def to_state(part: Part, path: str = "formula") -> tuple[dict[str, Any], dict[str, NDArray[Any]]]:
    """A part as JSON values, and its arrays by their paths."""
    arrays: dict[str, NDArray[Any]] = {}
    return _stored(part, path, arrays)["part"], arrays


def _stored(value: Any, path: str, arrays: dict[str, NDArray[Any]]) -> dict[str, Any]:
    if isinstance(value, Part):
        values = {
            field.name: _stored(getattr(value, field.name), f"{path}.{field.name}", arrays)
            for field in fields(value)  # type: ignore[arg-type]
        }
        return {"part": {"kind": value.kind, "version": value.version, "values": values}}
    if isinstance(value, np.ndarray):
        arrays[path] = value
        return {"array": path}
    if isinstance(value, tuple):
        return {"tuple": [_stored(one, f"{path}.{i}", arrays) for i, one in enumerate(value)]}
    if value is None or isinstance(value, bool | int | float | str):
        return {"value": value}
    raise TypeError(f"a part cannot hold a {type(value).__name__} ({path})")


MOST_NESTED = 16  # parts within parts that a file may hold


def from_state(document: Any, arrays: Mapping[str, NDArray[Any]]) -> Part:
    """The part of ``to_state``; ValueError or TypeError for anything else.

    Every array belongs to one field, so that a small file cannot make a large part.
    """
    unused = dict(arrays)
    part = _part(document, unused, 0)
    require(not unused, f"no part has the arrays {shown(sorted(unused))}")
    return part


def _part(document: Any, arrays: dict[str, NDArray[Any]], depth: int) -> Part:
    if depth > MOST_NESTED:
        raise ValueError(f"parts must not be nested deeper than {MOST_NESTED}")
    if not isinstance(document, dict) or document.keys() != {"kind", "version", "values"}:
        raise ValueError("a part must have a kind, a version and values")
    kind, version, stored = document["kind"], document["version"], document["values"]
    if not isinstance(kind, str) or kind not in KINDS:
        raise ValueError(f"there is no part {shown(kind)} in this calibrant")
    if not isinstance(stored, dict) or not isinstance(version, int) or isinstance(version, bool):
        raise TypeError(f"the version and values of a {kind} are no such things")
    cls = KINDS[kind]
    values = {name: _restored(value, arrays, depth) for name, value in stored.items()}
    if version != cls.version:
        values = cls.upgraded(version, values)
    known = {field.name for field in fields(cls)}  # type: ignore[arg-type]
    if values.keys() != known:
        raise ValueError(f"a {kind} has the fields {sorted(known)}, got {shown(sorted(values))}")
    return cls(**values)


def _restored(value: Any, arrays: dict[str, NDArray[Any]], depth: int) -> Any:
    if not isinstance(value, dict) or len(value) != 1:
        raise ValueError("a stored value must be a value, an array, a part or a tuple")
    ((form, content),) = value.items()
    if form == "array":
        if not isinstance(content, str) or content not in arrays:
            raise ValueError(f"there is no array {shown(content)}, or another field has it")
        return arrays.pop(content)
    if form == "part":
        return _part(content, arrays, depth + 1)
    if form == "tuple" and isinstance(content, list) and depth < MOST_NESTED:
        return tuple(_restored(one, arrays, depth + 1) for one in content)
    if form == "value" and (content is None or isinstance(content, bool | int | float | str)):
        return content
    raise ValueError(f"a stored value must not be a {shown(form)}")
