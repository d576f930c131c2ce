"""Files of calibrators, profiles and meters, taken apart, changed, and put together again.

The checksum of a file is no secret: whoever changes a file can make it right again. This is how,
written from the format alone (safetensors, whose metadata hold a JSON document and a SHA-256 over
the document and the arrays), so that it does not follow the library's own ideas of a good file.
"""

from __future__ import annotations

import copy
import hashlib
import json
import struct
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np
import pyarrow
from numpy.random import Generator
from numpy.typing import NDArray

DTYPES = {
    "F64": "<f8",
    "F32": "<f4",
    "F16": "<f2",
    "I64": "<i8",
    "I32": "<i4",
    "I16": "<i2",
    "I8": "|i1",
    "U64": "<u8",
    "U32": "<u4",
    "U16": "<u2",
    "U8": "|u1",
    "BOOL": "|b1",
}
NAMES = {np.dtype(code): name for name, code in DTYPES.items()}


@dataclass
class Contents:
    """What a file holds: a JSON document, and arrays by name."""

    body: dict[str, Any]
    arrays: dict[str, NDArray[Any]]

    def copied(self) -> Contents:
        """A copy that may be changed."""
        return Contents(copy.deepcopy(self.body), {k: a.copy() for k, a in self.arrays.items()})


class Raw:
    """JSON text that stands in a document as it is, whatever it means."""

    def __init__(self, text: str) -> None:
        self.text = text

    def __repr__(self) -> str:
        return self.text if len(self.text) <= 40 else f"{self.text[:37]}.."


# --- apart and together -----------------------------------------------------------------------


def split(content: bytes) -> tuple[dict[str, Any], bytes]:
    """The header of a safetensors file, and its data."""
    (length,) = struct.unpack("<Q", content[:8])
    return json.loads(content[8 : 8 + length]), content[8 + length :]


def joined(header: bytes, data: bytes) -> bytes:
    """A safetensors file."""
    return struct.pack("<Q", len(header)) + header + data


def taken_apart(content: bytes) -> Contents:
    """What a file of calibrant holds."""
    header, data = split(content)
    body = json.loads(json.loads(header.pop("__metadata__")["calibrant"])["body"])
    arrays = {}
    for name, entry in header.items():
        begin, end = entry["data_offsets"]
        values = np.frombuffer(data[begin:end], DTYPES[entry["dtype"]])
        arrays[name] = values.reshape(entry["shape"]).copy()
    arrays.pop("empty", None)
    return Contents(body, arrays)


def put_together(contents: Contents) -> bytes:
    """The file of such contents, its checksum right."""
    return with_document(contents.arrays, json_text(contents.body))


def with_document(arrays: dict[str, NDArray[Any]], body: str) -> bytes:
    """The file of such arrays and of a document that is given as text, its checksum right."""
    inner = json.dumps({"body": body, "sha256": digest(body, arrays)})
    header: dict[str, Any] = {"__metadata__": {"calibrant": inner}}
    parts, begin = [], 0
    for name, array in (arrays or {"empty": np.zeros(0, np.float32)}).items():
        part = np.ascontiguousarray(array).tobytes()
        offsets = [begin, begin + len(part)]
        shape = list(array.shape)
        header[name] = {"dtype": NAMES[array.dtype], "shape": shape, "data_offsets": offsets}
        parts.append(part)
        begin += len(part)
    return joined(json.dumps(header).encode("utf-8", "surrogatepass"), b"".join(parts))


def digest(body: str, arrays: dict[str, NDArray[Any]]) -> str:
    """The checksum of a document and arrays."""
    result = hashlib.sha256(body.encode("utf-8", "surrogatepass"))
    for name in sorted(arrays):
        array = arrays[name]
        result.update(f"\0{name}\0{array.dtype.str}\0{array.shape}\0".encode())
        result.update(np.ascontiguousarray(array).tobytes())
    return result.hexdigest()


def meter_text(contents: Contents) -> bytes:
    """A meter as JSON text: first the checksum of the rest, then the rest."""
    arrays = {name: array.tolist() for name, array in contents.arrays.items()}
    body = json_text({**_meter_settings(contents), **arrays})
    checksum = hashlib.sha256(body.encode()).hexdigest()
    return f'{{"sha256": "{checksum}", {body[1:]}'.encode()


def meter_table(contents: Contents) -> bytes:
    """A meter as the bytes of an Arrow table of one row."""
    body = json_text(_meter_settings(contents))
    vectors = {name: array.ravel() for name, array in sorted(contents.arrays.items())}
    checksum = hashlib.sha256(body.encode())
    for name, vector in vectors.items():
        checksum.update(f"\0{name}\0{vector.shape}\0".encode() + vector.tobytes())
    columns = {name: pyarrow.array([vector]) for name, vector in vectors.items()}
    texts = {"settings": [body], "sha256": [checksum.hexdigest()]}
    sink = pyarrow.BufferOutputStream()
    table = pyarrow.table({**texts, **columns})
    with pyarrow.ipc.new_stream(sink, table.schema) as writer:
        writer.write_table(table)
    return bytes(sink.getvalue())


def _meter_settings(contents: Contents) -> dict[str, Any]:
    rest = {key: value for key, value in contents.body.items() if key not in ("kind", "version")}
    return {"format": "calibrant-meter-2", **rest}


def json_text(value: Any) -> str:
    """JSON text, NaN and infinity and raw text included."""
    raws: list[str] = []

    def placeholder(raw: Any) -> str:
        raws.append(raw.text)
        return f"@raw {len(raws) - 1}@"

    text = json.dumps(value, default=placeholder)
    for index, raw in enumerate(raws):
        text = text.replace(f'"@raw {index}@"', raw)
    return text


# --- changes ----------------------------------------------------------------------------------

FLOATS = (
    *(0.0, -0.0, 1.0, -1.0, 0.5, 1.5, np.nan, np.inf, -np.inf),
    *(1e300, -1e300, 1.7e308, 1e38, -1e38, 3.5e38, 1e30, 1.1e30, 1e15, 1e9),
    *(5e-324, -5e-324, 1e-310, 1e-300, 1e-45, 1e-40, 1e-38, 1e-30, 1e-16, 1e-9),
)
OTHERS = (
    *(0, 1, 2, 3, 7, -1, 255, 65_536, 10**9, 2**31, 2**53, 2**63, -(2**63), 2**64, 10**40, 10**400),
    *(True, False, None, "", "1", "1.5", "nan", "logits", "probs", "nll", "network", "\0", "é" * 9),
    *([], {}, [1.0], [[]], {"value": 1.0}, {"array": "formula.table"}, {"tuple": []}, [None] * 9),
)
RAWS = (
    "1e999",
    "-1e999",
    "[" * 500 + "]" * 500,
    "[" * 60_000 + "]" * 60_000,
    '{"a":' * 30_000 + "1" + "}" * 30_000,
    '{"value": 1.0, "value": 2.0}',
    '{"tuple": [' * 300 + "]}" * 300,
    "9" * 5000,
    '"' + "x" * 100_000 + '"',
    '"\\ud800"',
    "[" + ",".join(["0"] * 20_000) + "]",
)
KEYS = ("", "value", "kind", "extra", "__class__", "temperature_", "version", "array")


def number(rng: Generator, old: Any = None) -> float:
    """A float that code may not expect: a well-known one, one of any size, or one near the old."""
    draw = rng.random()
    if draw < 0.4 and isinstance(old, float | np.floating):
        with np.errstate(all="ignore"):
            return float(old * 10.0 ** rng.uniform(-3.0, 3.0)) if draw < 0.3 else -float(old)
    if draw < 0.7:
        return float(rng.choice(FLOATS))
    return float(rng.choice((-1.0, 1.0, 1.0)) * 10.0 ** rng.uniform(-40.0, 40.0))


def anything(rng: Generator) -> Any:
    """A JSON value of any kind."""
    draw = rng.random()
    if draw < 0.6:
        return number(rng)
    if draw < 0.9:
        return copy.deepcopy(OTHERS[rng.integers(len(OTHERS))])
    return Raw(RAWS[rng.integers(len(RAWS))])


Place = tuple[Any, Any, str]  # a holder, a key of it, and the path to what is there


def places(value: Any, path: str = "") -> Iterator[Place]:
    """Everything in a document."""
    items = value.items() if isinstance(value, dict) else enumerate(value)
    for key, inner in list(items):
        here = f"{path}.{key}" if path else str(key)
        yield value, key, here
        if isinstance(inner, dict | list):
            yield from places(inner, here)


def _chosen(rng: Generator, body: dict[str, Any], leaf: bool) -> Place:
    """Somewhere in a document; most often where the numbers of a formula are."""
    part = body["formula"] if "formula" in body and rng.random() < 0.75 else body
    if not isinstance(part, dict | list) or not part:
        part = body
    found = list(places(part))
    values = [place for place in found if not isinstance(place[0][place[1]], dict | list)]
    chosen = values if leaf and values else found
    return chosen[rng.integers(len(chosen))]


def change_value(rng: Generator, contents: Contents) -> str:
    """Another value in place of one."""
    holder, key, path = _chosen(rng, contents.body, leaf=True)
    holder[key] = number(rng, holder[key]) if rng.random() < 0.6 else anything(rng)
    return f"{path} = {holder[key]!r:.60}"


def change_node(rng: Generator, contents: Contents) -> str:
    """Another value in place of anything, a whole branch maybe."""
    holder, key, path = _chosen(rng, contents.body, leaf=False)
    holder[key] = anything(rng)
    return f"{path} = {holder[key]!r:.60}"


def drop_or_add(rng: Generator, contents: Contents) -> str:
    """A key less, or one more."""
    holder, key, path = _chosen(rng, contents.body, leaf=False)
    if rng.random() < 0.5:
        holder.pop(key)
        return f"without {path}"
    extra, value = KEYS[rng.integers(len(KEYS))], anything(rng)
    if isinstance(holder, list):
        holder.insert(key, value)
    else:
        holder[extra] = value
    return f"beside {path}: {extra!r} = {value!r:.60}"


def swap(rng: Generator, contents: Contents) -> str:
    """One part of the document in another's place, too: parts within parts."""
    _, _, source = first = _chosen(rng, contents.body, leaf=False)
    holder, key, path = _chosen(rng, contents.body, leaf=False)
    holder[key] = copy.deepcopy(first[0][first[1]]) if first[1] in _keys(first[0]) else None
    return f"{path} = a copy of {source}"


def _keys(holder: Any) -> Any:
    return holder if isinstance(holder, dict) else range(len(holder))


def repeat(rng: Generator, contents: Contents) -> str:
    """A list with the same entries many times."""
    lists = [place for place in places(contents.body) if isinstance(place[0][place[1]], list)]
    if not lists:
        return change_value(rng, contents)
    holder, key, path = lists[rng.integers(len(lists))]
    times = int(rng.choice((2, 3, 50, 5000)))
    holder[key] = holder[key] * times
    return f"{path} {times} times"


def rename_kind(rng: Generator, contents: Contents) -> str:
    """Another kind, class or name from the same vocabulary."""
    found = [place for place in places(contents.body) if place[1] in ("kind", "class", "version")]
    holder, key, path = found[rng.integers(len(found))]
    if key == "version":
        holder[key] = int(rng.integers(-1, 5))
    else:
        names = KINDS_OF_PARTS if key == "kind" else CLASSES
        holder[key] = str(rng.choice(names))
    return f"{path} = {holder[key]!r}"


KINDS_OF_PARTS = ("calibrator", "profile", "meter", "chain", "mixture", "steps", "margin", "lines")
CLASSES = (
    *("TemperatureScaling", "EnsembleTemperatureScaling", "ParameterizedTemperatureScaling"),
    *("MultiClassIsotonic", "VectorScaling", "PlattScaling", "DiagonalOrderPreserving", "Oracle"),
)


def change_array(rng: Generator, contents: Contents) -> str:
    """Other numbers in an array, or another type or shape."""
    if not contents.arrays:
        return change_value(rng, contents)
    name = sorted(contents.arrays)[rng.integers(len(contents.arrays))]
    what, change = ARRAY_CHANGES[rng.integers(len(ARRAY_CHANGES))]
    with np.errstate(all="ignore"):
        contents.arrays[name] = np.ascontiguousarray(change(rng, contents.arrays[name]))
    return f"{name}: {what}"


def change_entries(rng: Generator, contents: Contents) -> str:
    """Some entries of an array."""
    if not contents.arrays:
        return change_value(rng, contents)
    name = sorted(contents.arrays)[rng.integers(len(contents.arrays))]
    array = contents.arrays[name]
    if not array.size:
        return f"{name} is empty"
    count = int(rng.choice((1, 1, 1, 2, min(array.size, 40))))
    told = []
    for at in rng.integers(array.size, size=count):
        old = array.flat[at]
        value = number(rng, old) if array.dtype.kind == "f" else int(rng.integers(-3, 99))
        with np.errstate(all="ignore"):
            array.flat[at] = np.asarray(value).astype(array.dtype)
        told.append(f"[{at}] = {array.flat[at]}")
    return f"{name}: {', '.join(told[:3])}"


def rename_array(rng: Generator, contents: Contents) -> str:
    """An array less, one more, or two that change places."""
    names = sorted(contents.arrays)
    if not names:
        contents.arrays["extra"] = np.zeros(3)
        return "an array more"
    one, two = (names[rng.integers(len(names))] for _ in range(2))
    draw = rng.random()
    if draw < 0.3:
        del contents.arrays[one]
        return f"without the array {one}"
    if draw < 0.5:
        contents.arrays["extra"] = contents.arrays[one]
        return "an array more"
    contents.arrays[one], contents.arrays[two] = contents.arrays[two], contents.arrays[one]
    return f"{one} and {two} swapped"


ArrayChange = Callable[[Generator, NDArray[Any]], NDArray[Any]]


def _filled(rng: Generator, array: NDArray[Any]) -> NDArray[Any]:
    return np.full(array.shape, number(rng)).astype(array.dtype)


def _scaled(rng: Generator, array: NDArray[Any]) -> NDArray[Any]:
    return (array * 10.0 ** rng.uniform(-45.0, 45.0)).astype(array.dtype)


def _shifted(rng: Generator, array: NDArray[Any]) -> NDArray[Any]:
    return (array + number(rng)).astype(array.dtype)


def _mixed(rng: Generator, array: NDArray[Any]) -> NDArray[Any]:
    return rng.permutation(array.ravel()).reshape(array.shape)


def _retyped(rng: Generator, array: NDArray[Any]) -> NDArray[Any]:
    return array.astype(rng.choice(list(DTYPES.values())))


def _reshaped(rng: Generator, array: NDArray[Any]) -> NDArray[Any]:
    shapes = [(-1,), (1, -1), (-1, 1), (*array.shape, 1), (0,), (0, 3), (3, 0)]
    shape = shapes[rng.integers(len(shapes))]
    return np.zeros(shape, array.dtype) if 0 in shape else array.reshape(shape)


def _resized(rng: Generator, array: NDArray[Any]) -> NDArray[Any]:
    length = int(rng.choice((0, 1, 2, 3, array.size + 1, 1000)))
    return np.resize(array, length) if array.size else np.zeros(length, array.dtype)


ARRAY_CHANGES: tuple[tuple[str, ArrayChange], ...] = (
    ("one number everywhere", _filled),
    ("times a power of ten", _scaled),
    ("plus a number", _shifted),
    ("entries in another order", _mixed),
    ("rows in another order", lambda rng, array: rng.permutation(array)),
    ("negative", lambda rng, array: -array if array.dtype != bool else ~array),
    ("sorted", lambda rng, array: np.sort(array, axis=None).reshape(array.shape)),
    ("another type", _retyped),
    ("another shape", _reshaped),
    ("another length", _resized),
    ("an entry less", lambda rng, array: array[..., :-1] if array.ndim else array),
    ("rounded", lambda rng, array: np.rint(array).astype(array.dtype)),
)
CHANGES = (
    *[change_value] * 5,
    *[change_entries] * 5,
    *[change_array] * 4,
    change_node,
    drop_or_add,
    swap,
    repeat,
    rename_kind,
    rename_array,
)


def crafted(rng: Generator, contents: Contents) -> tuple[Contents, str]:
    """Contents with a few changes, and what they were."""
    result = contents.copied()
    told = []
    for _ in range(int(rng.choice((1, 1, 2, 3)))):
        change = CHANGES[rng.integers(len(CHANGES))]
        told.append(change(rng, result))
        if not result.body:
            break
    return result, "; ".join(told)
