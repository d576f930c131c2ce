"""The parameters of a method from words: ``--param NAME=VALUE``."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

from calibrant.common.errors import did_you_mean

if TYPE_CHECKING:
    from calibrant.calibrators import Calibrator

_PYTHON = {"True": True, "False": False, "None": None}  # as in the documentation of the methods
_OWN = ("input", "progress")  # what the command line decides itself


def make(method: str, params: list[str], random_state: int | None) -> Calibrator:
    """An unfitted calibrator with the given parameters."""
    from calibrant.calibrators import calibrator

    made = calibrator(method)
    defaults = {
        name: value for name, value in made.get_params(deep=False).items() if name not in _OWN
    }
    words = dict(_split(text) for text in params)
    if "input" in words:
        raise ValueError("--param: say what the scores are with --input")
    for name in words:
        if name not in defaults:
            known = ", ".join(defaults) or "none"
            hint = did_you_mean(name, defaults)
            if method == "auto":
                hint = ". For those of another method, name it with --method"
            raise ValueError(f"{method} has no parameter {name!r}; it has {known}{hint}")
    values = {name: _fitting(parse(text), defaults[name]) for name, text in words.items()}
    if random_state is not None and "random_state" in defaults:
        if "random_state" in values:
            raise ValueError("say the seed once: --random-state or --param random_state")
        values["random_state"] = random_state
    return made.set_params(**values)


def _split(text: str) -> tuple[str, str]:
    name, equals, value = text.partition("=")
    if not (name and equals):
        raise ValueError(f"--param must be NAME=VALUE without spaces, got {text!r}")
    return name.strip(), value


def parse(text: str) -> Any:
    """A value: JSON, or words and numbers with commas between them, or else a string.

    >>> parse("8,8"), parse("[8, 8]"), parse("0.05"), parse("brier"), parse('"a,b"')
    ((8, 8), (8, 8), 0.05, 'brier', 'a,b')
    """
    try:
        value = json.loads(text)
    except json.JSONDecodeError:
        if "," in text:
            return tuple(parse(part.strip()) for part in text.split(",") if part.strip())
        return _PYTHON.get(text, text)
    return tuple(value) if isinstance(value, list) else value


def _fitting(value: Any, default: Any) -> Any:
    """A single number as a tuple of one, where the parameter is a tuple."""
    is_number = isinstance(value, int | float) and not isinstance(value, bool)
    return (value,) if is_number and isinstance(default, tuple) else value
