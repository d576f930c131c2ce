"""JSON text from anywhere: standard JSON of a bounded depth, or a ValueError."""

from __future__ import annotations

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from calibrant.common import json as _json

VALUES = st.recursive(
    st.none()
    | st.booleans()
    | st.integers()
    | st.floats(allow_nan=False, allow_infinity=False)
    | st.text(),
    lambda inner: st.lists(inner) | st.dictionaries(st.text(), inner),
)


@given(VALUES)
def test_standard_json_is_read_as_python_reads_it(value):
    text = json.dumps(value)
    assert _json.loads(text) == json.loads(text)


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("NaN", "NaN is no number of JSON"),
        ('{"a": -Infinity}', "-Infinity is no number of JSON"),
        ('{"a": 1, "b": 2, "a": 3}', "must not have the same key twice"),
        ('[{"a": {"b": 1, "b": 1}}]', "must not have the same key twice"),
        ("[" * 200 + "]" * 200, "must not be nested deeper than 128"),
        ('{"a":' * 129 + "1" + "}" * 129, "must not be nested deeper than 128"),
        ("[" * 100_000 + "]" * 100_000, "must not be nested deeper than 128"),
        ("[1, 2", "Expecting ',' delimiter"),
        ("", "Expecting value"),
        ("9" * 5000, "4300 digits"),
    ],
)
def test_what_is_not_standard_is_refused(text, message):
    with pytest.raises(ValueError, match=message):
        _json.loads(text)


def test_depth_is_that_of_lists_and_objects_alone():
    _json.loads("[" * 128 + "]" * 128)
    brackets = json.dumps("[{" * 500)
    assert _json.loads(brackets) == "[{" * 500
    assert _json.loads(f"[{brackets}]") == ["[{" * 500]
    assert len(_json.loads("[" + ",".join(["[]"] * 500) + "]")) == 500
