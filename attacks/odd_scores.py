"""Odd arrays of scores: hard values in every form that an array comes in.

Values are a plain float64 array; a form makes of it what a user might hand over. What the result
means is read off the result itself (``meaning``), by rules that share nothing with the library's.
"""

from __future__ import annotations

import warnings
from collections.abc import Callable
from typing import Any

import numpy as np
import pandas as pd
import torch
from numpy.random import Generator

Values = Callable[[np.ndarray, Generator], np.ndarray]
Form = Callable[[np.ndarray, Generator], Any]


# --- values: of ordinary logits, hard ones ----------------------------------------------------


def _somewhere(z: np.ndarray, rng: Generator, value: float) -> np.ndarray:
    z[rng.integers(len(z)), rng.integers(z.shape[1])] = value
    return z


def _masked(z: np.ndarray, rng: Generator) -> np.ndarray:
    hidden = rng.random(z.shape) < 0.5
    hidden[np.arange(len(z)), rng.integers(0, z.shape[1], len(z))] = False
    return np.where(hidden, -np.inf, z)


def _one_left(z: np.ndarray, rng: Generator) -> np.ndarray:
    left = rng.integers(0, z.shape[1], (len(z), 1))
    return np.where(np.arange(z.shape[1]) == left, z, -np.inf)


def _limits(z: np.ndarray, rng: Generator, limit: float) -> np.ndarray:
    return np.where(rng.random(z.shape) < 0.4, np.sign(z) * limit, z)


def _softmax(z: np.ndarray, rng: Generator) -> np.ndarray:
    weight = np.exp(z - z.max(axis=1, keepdims=True))
    return weight / weight.sum(axis=1, keepdims=True)


VALUES: dict[str, Values] = {
    "ordinary": lambda z, rng: z,
    "ties": lambda z, rng: np.round(z),
    "near ties": lambda z, rng: 1.0 + 1e-7 * np.round(z),
    "constant rows": lambda z, rng: np.repeat(np.round(z[:, :1], 1), z.shape[1], axis=1),
    "all zero": lambda z, rng: 0.0 * z,
    "negative zeros": lambda z, rng: np.where(z < 0.0, -0.0, 0.0),
    "masked": _masked,
    "one class left": _one_left,
    "huge": lambda z, rng: z * 10.0 ** rng.uniform(3, 28, (len(z), 1)),
    "huge and ordinary": lambda z, rng: np.where(rng.random(z.shape) < 0.2, 1e28 * z, z),
    "at the limit of float64": lambda z, rng: _limits(z, rng, 1.797e308),
    "at the limit of float32": lambda z, rng: _limits(z, rng, 3.402e38),
    "far from zero": lambda z, rng: z + 1e6,
    "certain": lambda z, rng: z * 1e3,
    "tiny": lambda z, rng: z * 10.0 ** rng.uniform(-30, -3, (len(z), 1)),
    "subnormal": lambda z, rng: z * (1e-44 if rng.random() < 0.5 else 1e-320),
    "votes": lambda z, rng: (z == z.max(axis=1, keepdims=True)).astype(float),
    "probabilities": _softmax,
    "a NaN": lambda z, rng: _somewhere(z, rng, np.nan),
    "an inf": lambda z, rng: _somewhere(z, rng, np.inf),
    "a row of -inf": lambda z, rng: np.where(
        np.arange(len(z))[:, None] == rng.integers(len(z)), -np.inf, z
    ),
}


# --- forms ------------------------------------------------------------------------------------


def _strided(z: np.ndarray, axis: int, step: int) -> np.ndarray:
    wide = np.repeat(z, abs(step), axis=axis)
    wide = np.flip(wide, axis) if step < 0 else wide
    return wide[::step] if axis == 0 else wide[:, ::step]


def _read_only(z: np.ndarray, rng: Generator) -> np.ndarray:
    z = z.copy()
    z.setflags(write=False)
    return z


def _unaligned(z: np.ndarray, rng: Generator) -> np.ndarray:
    bytes_ = np.zeros(z.nbytes + 1, np.uint8)
    view = bytes_[1:].view(z.dtype).reshape(z.shape)
    view[:] = z
    return view


def _whole(z: np.ndarray, dtype: Any) -> np.ndarray:
    limit = min(np.iinfo(dtype).max, 2**53)
    low = 0 if np.iinfo(dtype).min == 0 else -limit
    return np.clip(np.nan_to_num(np.round(z)), low, limit).astype(dtype)


def _narrow(z: np.ndarray, dtype: Any) -> np.ndarray:
    with np.errstate(over="ignore"):
        return z.astype(dtype)


def _matrix(z: np.ndarray, rng: Generator) -> Any:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", PendingDeprecationWarning)
        return np.asmatrix(z)


def _nullable(z: np.ndarray, rng: Generator) -> Any:
    return pd.DataFrame(z).astype("Float64")


def _structured(z: np.ndarray, rng: Generator) -> np.ndarray:
    return np.array([tuple(row) for row in z], [(f"c{i}", "f8") for i in range(z.shape[1])])


class Tagged(np.ndarray):
    """A subclass of arrays, as units and the like are."""


#: Forms that hold the same numbers, perhaps rounded: what is in them decides.
GOOD_FORMS: dict[str, Form] = {
    "float64": lambda z, rng: z,
    "float32": lambda z, rng: _narrow(z, np.float32),
    "float16": lambda z, rng: _narrow(z, np.float16),
    "long double": lambda z, rng: z.astype(np.longdouble),
    "other byte order": lambda z, rng: z.astype(">f8"),
    "other byte order, float32": lambda z, rng: _narrow(z, ">f4"),
    "int64": lambda z, rng: _whole(z, np.int64),
    "int8": lambda z, rng: _whole(z, np.int8),
    "uint16": lambda z, rng: _whole(z, np.uint16),
    "Fortran order": lambda z, rng: np.asfortranarray(z),
    "Fortran order, float32": lambda z, rng: np.asfortranarray(_narrow(z, np.float32)),
    "every second row": lambda z, rng: _strided(z, 0, 2),
    "every third column": lambda z, rng: _strided(_narrow(z, np.float32), 1, 3),
    "reversed rows": lambda z, rng: z[::-1],
    "reversed columns": lambda z, rng: _strided(z, 1, -2),
    "transposed": lambda z, rng: np.ascontiguousarray(z.T).T,
    "broadcast": lambda z, rng: np.broadcast_to(z[:1], z.shape),
    "read-only": _read_only,
    "unaligned": _unaligned,
    "subclass": lambda z, rng: z.view(Tagged),
    "matrix": _matrix,
    "unmasked numpy.ma": lambda z, rng: np.ma.array(z),
    "DataFrame": lambda z, rng: pd.DataFrame(z),
    "DataFrame, float32": lambda z, rng: pd.DataFrame(_narrow(z, np.float32)),
    "nullable DataFrame": _nullable,
    "nested lists": lambda z, rng: z.tolist(),
    "tuple of arrays": lambda z, rng: tuple(z),
    "tensor": lambda z, rng: torch.tensor(z),
    "tensor, float32": lambda z, rng: torch.tensor(_narrow(z, np.float32)),
    "tensor, float16": lambda z, rng: torch.tensor(_narrow(z, np.float16)),
    "tensor, bfloat16": lambda z, rng: torch.tensor(z).to(torch.bfloat16),
    "tensor, int32": lambda z, rng: torch.tensor(_whole(z, np.int32)),
    "tensor, transposed": lambda z, rng: torch.tensor(np.ascontiguousarray(z.T)).T,
    "tensor, strided": lambda z, rng: torch.tensor(np.repeat(z, 2, axis=1))[:, ::2],
    "tensor, expanded": lambda z, rng: torch.tensor(z[:1]).expand(z.shape),
    "tensor with gradient": lambda z, rng: torch.tensor(z, requires_grad=True),
    "one row": lambda z, rng: z[:1],
    "one row, float32": lambda z, rng: _narrow(z[:1], np.float32),
    "no rows": lambda z, rng: z[:0],
    "tensor, no rows": lambda z, rng: torch.tensor(z[:0]),
}

#: Forms that are no table of real numbers with the right classes, and must be refused.
BAD_FORMS: dict[str, Form] = {
    "bool": lambda z, rng: z > 0.0,
    "complex": lambda z, rng: z.astype(complex),
    "strings": lambda z, rng: z.astype(str),
    "objects": lambda z, rng: z.astype(object),
    "objects with None": lambda z, rng: np.where(z > 0.0, z.astype(object), None),
    "dates": lambda z, rng: np.full(z.shape, np.datetime64("2020-01-01")),
    "structured": _structured,
    "masked numpy.ma": lambda z, rng: np.ma.array(z, mask=np.eye(*z.shape, dtype=bool)),
    "nullable DataFrame with NA": lambda z, rng: _nullable(z, rng).mask(
        np.eye(*z.shape, dtype=bool)
    ),
    "DataFrame with a column of names": lambda z, rng: pd.DataFrame(z).assign(name="a"),
    "ragged": lambda z, rng: [row[: 1 + i % 2] for i, row in enumerate(z.tolist() * 2)],
    "a number": lambda z, rng: float(z.flat[0]),
    "0-d": lambda z, rng: np.array(1.5),
    "None": lambda z, rng: None,
    "a dict": lambda z, rng: {"logits": z},
    "3-d": lambda z, rng: z[None],
    "4-d": lambda z, rng: z[:, :, None, None],
    "tensor, 3-d": lambda z, rng: torch.tensor(z)[None],
    "tensor, bool": lambda z, rng: torch.tensor(z > 0.0),
    "tensor, complex": lambda z, rng: torch.tensor(z.astype(complex)),
    "one class": lambda z, rng: z[:, :1],
    "no class": lambda z, rng: z[:, :0],
    "no class and no row": lambda z, rng: np.zeros((0, 0)),
    "one class more": lambda z, rng: np.c_[z, z[:, :1]],
}


def meaning(scores: Any) -> np.ndarray:
    """The numbers of a good form, in float64."""
    if isinstance(scores, torch.Tensor):
        return scores.detach().double().numpy().copy()
    if isinstance(scores, pd.DataFrame):
        return scores.to_numpy(np.float64, copy=True, na_value=np.nan)
    return np.array(scores, np.float64)


def are_valid(numbers: np.ndarray, kind: str) -> bool:
    """Whether numbers are logits (finite or -inf, some finite) or probabilities."""
    if kind == "logits":
        good = ~np.isnan(numbers) & (numbers < np.inf)
        return bool(good.all() and np.isfinite(numbers).any(axis=1).all())
    inside = (numbers >= 0.0) & (numbers <= 1.0)
    return bool(inside.all() and (np.abs(numbers.sum(axis=1) - 1.0) < 1e-3).all())
