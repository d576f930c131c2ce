"""Containers: the bytes of a file are what its header says, or the file is refused.

``tests/test_io.py`` has what is in them, ``attacks/attack_files.py`` the cases nobody thought of.
"""

from __future__ import annotations

import json
import os
import tracemalloc
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra import numpy as numpy_strategies
from safetensors.numpy import load_file, save_file

from calibrant import FileError
from calibrant.formulas import _safetensors as _container
from file_crafting import joined, split, with_document

ARRAYS = {"a": np.arange(6.0).reshape(2, 3), "b": np.arange(4, dtype=np.int32)}


def written(path: Path, arrays: dict[str, Any] = ARRAYS) -> bytes:
    _container.write(path, "thing", {"n": 1}, arrays)
    return path.read_bytes()


@given(
    arrays=st.dictionaries(
        st.text(st.characters(codec="utf-8"), max_size=5).filter(lambda name: name != "empty"),
        numpy_strategies.arrays(
            st.sampled_from([np.dtype(code) for code in _container.DTYPES.values()]),
            numpy_strategies.array_shapes(min_dims=1, max_dims=3, min_side=0, max_side=4),
        ),
        max_size=4,
    )
)
def test_what_is_written_is_read(arrays, tmp_path_factory):
    arrays.pop("__metadata__", None)
    path = tmp_path_factory.mktemp("container") / "file"
    written(path, arrays)
    document, read = _container.read(path)
    assert (document["kind"], document["n"]) == ("thing", 1)
    assert read.keys() == arrays.keys()
    for name, array in arrays.items():
        assert read[name].dtype == array.dtype
        np.testing.assert_array_equal(read[name], array)
    if arrays:  # another reader agrees
        for name, array in load_file(path).items():
            np.testing.assert_array_equal(array, arrays[name])


def changed(path: Path, change: Callable[[dict[str, Any]], Any], more: bytes = b"") -> None:
    """Another header for the same data."""
    header, data = split(written(path))
    result = change(header)
    text = json.dumps(header) if result is None else result
    path.write_bytes(joined(text.encode(), data + more))


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (lambda h: h["b"].update(data_offsets=[0, 16]), "overlap, or leave room"),
        (lambda h: h["b"].update(data_offsets=[56, 72]), "overlap, or leave room|lies outside"),
        (lambda h: h["b"].update(data_offsets=[48, 2**40]), "an array lies outside"),
        (lambda h: h["b"].update(data_offsets=[-16, 0]), "an array lies outside"),
        (lambda h: h["b"].update(data_offsets=[True, 16]), "an array lies outside"),
        (lambda h: h["b"].update(data_offsets=[48, 64, 64]), "an array lies outside"),
        (lambda h: h["b"].update(data_offsets=None), "an array lies outside"),
        (lambda h: h["b"].update(shape=[5]), "not as large as its shape says"),
        (lambda h: h["b"].update(shape=[2**62, 4]), "no possible shape"),
        (lambda h: h["b"].update(shape=[4.0]), "no possible shape"),
        (lambda h: h["b"].update(shape=[1] * 9), "no possible shape"),
        (lambda h: h["b"].update(dtype="BF16"), "has the dtype 'BF16'"),
        (lambda h: h["b"].update(dtype=["I32"]), "has the dtype"),
        (lambda h: h["b"].update(dtypes=h["b"].pop("dtype")), "no dtype, shape and data_offsets"),
        (lambda h: h.update(b=[]), "no dtype, shape and data_offsets"),
        (lambda h: h.update(c=h.pop("b") | {"dtype": "I16"}), "not as large as its shape"),
        (lambda h: h.update(__metadata__=[]), "its metadata are no texts"),
        (lambda h: h["__metadata__"].update(calibrant=3), "its metadata are no texts"),
        (lambda h: "[]", "its header is no object"),
        (lambda h: json.dumps(h)[:-1] + ', "a": {}}', "the same key twice"),
        (lambda h: json.dumps(h)[:-1] + ', "c": NaN}', "NaN is no number"),
        (lambda h: json.dumps(h)[:-1] + ', "c": ' + "[" * 9999 + "]" * 9999 + "}", "nested deeper"),
        (lambda h: json.dumps(h) + " " * _container.MOST_HEADER, "more than any file of calibrant"),
    ],
)
def test_a_header_that_lies(change, message, tmp_path):
    changed(tmp_path / "file", change)
    with pytest.raises(FileError, match=f"file is not a whole safetensors file: .*({message})"):
        _container.read(tmp_path / "file")


def test_bytes_that_nobody_owns(tmp_path):
    changed(tmp_path / "file", lambda header: None, more=b"\0" * 8)
    with pytest.raises(FileError, match="and its arrays end at"):
        _container.read(tmp_path / "file")


def test_a_header_that_is_no_text(tmp_path):
    path = tmp_path / "file"
    header, data = split(written(path))
    path.write_bytes(joined(json.dumps(header).encode().replace(b"thing", b"th\xffng"), data))
    with pytest.raises(FileError, match="not a whole safetensors file"):
        _container.read(path)


@pytest.mark.parametrize(
    "document",
    ["[1]", "3", '{"kind": "x", "kind": "y"}', '{"a": NaN}', '{"\ud800": 1}', "[" * 9999],
)
def test_documents_that_are_none(document, tmp_path):
    (tmp_path / "file").write_bytes(with_document({}, document))
    with pytest.raises(FileError, match="file has a damaged header"):
        _container.read(tmp_path / "file")


@pytest.mark.parametrize(
    ("document", "message"),
    [
        ('{"kind": "thing"}', "format version None"),
        ('{"kind": "thing", "version": true}', "format version True"),
        ('{"kind": "thing", "version": [2]}', r"format version \[2\]"),
        ('{"version": 2}', "does not say what it holds"),
        ('{"kind": 3, "version": 2}', "does not say what it holds"),
    ],
)
def test_documents_of_no_kind(document, message, tmp_path):
    (tmp_path / "file").write_bytes(with_document({}, document))
    with pytest.raises(FileError, match=message):
        _container.read(tmp_path / "file")


def test_a_truth_value_is_0_or_1(tmp_path):
    """NumPy computes nonsense with a byte of 2."""
    path = tmp_path / "file"
    arrays = {"flags": np.array([0, 1, 2, 255], np.uint8).view(np.bool_)}
    path.write_bytes(with_document(arrays, '{"kind": "thing", "version": 2}'))
    flags = _container.read(path)[1]["flags"]
    assert flags.view(np.uint8).tolist() == [0, 1, 1, 1]


def test_an_array_named_empty_may_have_content(tmp_path):
    written(tmp_path / "file", {"empty": np.ones(2)})
    assert _container.read(tmp_path / "file")[1]["empty"].tolist() == [1.0, 1.0]


def test_a_damaged_file_is_refused_without_its_arrays_in_memory(tmp_path):
    """64 MB of zeros that take no room on the disk, and a checksum of something else."""
    path, size = tmp_path / "file", 2**26
    header, _ = split(written(path, {"a": np.zeros(1, np.uint8)}))
    header["a"].update(shape=[size], data_offsets=[0, size])
    path.write_bytes(joined(json.dumps(header).encode(), b""))
    os.truncate(path, path.stat().st_size + size)
    tracemalloc.start()
    with pytest.raises(FileError, match="SHA-256 does not match"):
        _container.read(path)
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert peak < 8e6


def test_a_header_of_gigabytes_is_not_read(tmp_path):
    path = tmp_path / "file"
    path.write_bytes((2**31).to_bytes(8, "little") + b"{")
    os.truncate(path, 8 + 2**31)  # as large as it says, and empty
    tracemalloc.start()
    with pytest.raises(FileError, match="its header has 2147483648 bytes, more than any file"):
        _container.read(path)
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert peak < 1e6


def test_a_file_that_shrinks_while_it_is_read(tmp_path, monkeypatch):
    path = tmp_path / "file"
    written(path)
    hashed = _container._digest

    def then_cut(*args):
        result = hashed(*args)
        os.truncate(path, path.stat().st_size - 8)
        return result

    monkeypatch.setattr(_container, "_digest", then_cut)
    with pytest.raises(FileError, match="was changed while it was read"):
        _container.read(path)


def test_what_could_not_be_read_again_is_not_written(tmp_path):
    with pytest.raises(ValueError, match="all but arrays must fit into 4194304 bytes"):
        _container.write(tmp_path / "file", "thing", {"text": "x" * 2**22}, {})
    assert list(tmp_path.iterdir()) == []


def test_what_json_does_not_have_is_not_written(tmp_path):
    with pytest.raises(TypeError, match="a file cannot hold a set"):
        _container.write(tmp_path / "file", "thing", {"names": {"a"}}, {})
    with pytest.raises(ValueError, match="not JSON compliant"):
        _container.write(tmp_path / "file", "thing", {"number": np.nan}, {})
    _container.write(tmp_path / "file", "thing", {"n": np.int64(3), "v": np.arange(2)}, {})
    assert _container.read(tmp_path / "file")[0] | {"kind": 0} == {
        "kind": 0,
        "version": 2,
        "n": 3,
        "v": [0, 1],
    }


def test_safetensors_of_others_with_any_arrays(tmp_path):
    save_file({"empty": np.zeros(0, np.float32)}, tmp_path / "file", metadata={"a": "b"})
    with pytest.raises(FileError, match="calibrant did not write it"):
        _container.read(tmp_path / "file")
