"""Odd labels and weights, each with whether a fit must take them."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pandas as pd
import torch
from numpy.random import Generator

# (labels, classes) -> what is handed over
Labels = Callable[[np.ndarray, int, Generator], Any]
Weights = Callable[[int, Generator], Any]


def _changed(values: np.ndarray, value: float, rng: Generator) -> np.ndarray:
    values = values.astype(np.float64)
    values[rng.integers(len(values))] = value
    return values


GOOD_LABELS: dict[str, Labels] = {
    "int64": lambda y, c, rng: y,
    "uint8": lambda y, c, rng: y.astype(np.uint8),
    "float32": lambda y, c, rng: y.astype(np.float32),
    "other byte order": lambda y, c, rng: y.astype(">i4"),
    "list": lambda y, c, rng: y.tolist(),
    "column": lambda y, c, rng: y[:, None],
    "one-hot": lambda y, c, rng: np.eye(c)[y],
    "one-hot, bool": lambda y, c, rng: np.eye(c, dtype=bool)[y],
    "Series": lambda y, c, rng: pd.Series(y, index=rng.permutation(len(y))),
    "nullable Series": lambda y, c, rng: pd.Series(y, dtype="Int64"),
    "tensor": lambda y, c, rng: torch.tensor(y),
    "strided": lambda y, c, rng: np.repeat(y, 2)[::2],
    "one class alone": lambda y, c, rng: np.full_like(y, rng.integers(c)),
    "a class missing": lambda y, c, rng: np.where(y == c - 1, 0, y),
}
BAD_LABELS: dict[str, Labels] = {
    "NaN": lambda y, c, rng: _changed(y, np.nan, rng),
    "a fraction": lambda y, c, rng: _changed(y, 0.5, rng),
    "too large": lambda y, c, rng: _changed(y, c, rng),
    "negative": lambda y, c, rng: _changed(y, -1.0, rng),
    "infinite": lambda y, c, rng: _changed(y, np.inf, rng),
    "from 1 on": lambda y, c, rng: np.where(np.arange(len(y)) == 0, c, y + (y < c - 1)),
    "names": lambda y, c, rng: np.array([f"class {label}" for label in y]),
    "objects": lambda y, c, rng: y.astype(object),
    "complex": lambda y, c, rng: y.astype(complex),
    "one too many": lambda y, c, rng: np.r_[y, 0],
    "none": lambda y, c, rng: y[:0],
    "a number": lambda y, c, rng: 0,
    "None": lambda y, c, rng: None,
    "two ones": lambda y, c, rng: np.maximum(np.eye(c)[y], np.eye(c)[(y + 1) % c]),
    "masked": lambda y, c, rng: np.ma.array(y, mask=np.arange(len(y)) == 0),
    "nullable Series with NA": lambda y, c, rng: pd.Series([None, *y[1:]], dtype="Int64"),
    "Categorical of names": lambda y, c, rng: pd.Series(pd.Categorical([f"c{v}" for v in y])),
}

GOOD_WEIGHTS: dict[str, Weights] = {
    "none": lambda n, rng: None,
    "ones": lambda n, rng: np.ones(n),
    "counts": lambda n, rng: np.r_[1, rng.integers(0, 4, n - 1)],
    "list": lambda n, rng: rng.uniform(0.5, 2.0, n).tolist(),
    "float32": lambda n, rng: rng.uniform(0.5, 2.0, n).astype(np.float32),
    "Series": lambda n, rng: pd.Series(rng.uniform(0.5, 2.0, n)),
    "nullable Series": lambda n, rng: pd.Series(np.ones(n), dtype="Float64"),
    "tensor": lambda n, rng: torch.tensor(rng.uniform(0.5, 2.0, n)),
    "bool": lambda n, rng: np.r_[True, rng.random(n - 1) < 0.7],
    "one row alone": lambda n, rng: (np.arange(n) == rng.integers(n)).astype(float),
    "small and large": lambda n, rng: 10.0 ** rng.uniform(-49, 49, n),
    "zeros among": lambda n, rng: np.r_[1.0, np.where(rng.random(n - 1) < 0.5, 0.0, 0.7)],
}
BAD_WEIGHTS: dict[str, Weights] = {
    "all zero": lambda n, rng: np.zeros(n),
    "subnormal": lambda n, rng: np.full(n, 5e-324),
    "at the limit of float64": lambda n, rng: np.full(n, 1.797e308),
    "negative": lambda n, rng: _changed(np.ones(n), -0.5, rng),
    "NaN": lambda n, rng: _changed(np.ones(n), np.nan, rng),
    "infinite": lambda n, rng: _changed(np.ones(n), np.inf, rng),
    "one too few": lambda n, rng: np.ones(n - 1),
    "a column": lambda n, rng: np.ones((n, 1)),
    "strings": lambda n, rng: np.full(n, "1"),
    "complex": lambda n, rng: np.ones(n, complex),
    "masked": lambda n, rng: np.ma.array(np.ones(n), mask=np.arange(n) == 0),
}
