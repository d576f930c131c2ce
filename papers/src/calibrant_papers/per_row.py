"""Numbers of every test row as text, so that a row of results can hold them."""

from __future__ import annotations

import zlib
from base64 import b64decode, b64encode
from typing import Any

import numpy as np
from numpy.typing import NDArray

from calibrant.metrics import brier_per_row, nll_per_row


def packed(probs: Any, labels: Any, row_sums: Any, *, losses: bool) -> dict[str, str]:
    """Confidence and hit of every row, and its Brier score and NLL where ``losses`` are wanted.

    Of rows that need not sum to 1 also the confidence over the sum, which KDE-ECE reads.
    """
    whole = np.asarray(probs)
    numbers: dict[str, NDArray[Any]] = {
        "confidence": whole.max(axis=1).astype(np.float32),
        "hit": np.packbits(whole.argmax(axis=1) == labels),
    }
    if row_sums == "raw":
        numbers["share"] = (whole.max(axis=1) / whole.sum(axis=1)).astype(np.float32)
    if losses:  # half precision: means over all rows are in the row of results themselves
        brier = brier_per_row(whole, labels, row_sums=row_sums)
        numbers["brier"] = np.asarray(brier, np.float16)
        with np.errstate(over="ignore"):
            numbers["nll"] = np.asarray(nll_per_row(whole, labels, row_sums=row_sums), np.float16)
    return {name: _text(values) for name, values in numbers.items()}


def unpacked(texts: dict[str, str], name: str, rows: int) -> NDArray[np.float64]:
    """One of the numbers that ``packed`` took.

    >>> probs = np.array([[0.75, 0.25], [0.5, 0.5]])
    >>> texts = packed(probs, np.array([0, 1]), "strict", losses=True)
    >>> unpacked(texts, "hit", 2).tolist(), unpacked(texts, "brier", 2).tolist()
    ([1.0, 0.0], [0.125, 0.5])
    """
    raw = zlib.decompress(b64decode(texts[name]))
    if name == "hit":
        return np.unpackbits(np.frombuffer(raw, np.uint8))[:rows].astype(np.float64)
    kind = np.float32 if name in ("confidence", "share") else np.float16
    return np.frombuffer(raw, kind).astype(np.float64)


def _text(values: NDArray[Any]) -> str:
    return b64encode(zlib.compress(values.tobytes(), 6)).decode("ascii")
