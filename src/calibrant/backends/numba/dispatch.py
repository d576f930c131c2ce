"""Formulas by machine code that Numba compiles (``predictions``), for large arrays in main memory.

This module knows which formulas have some, and is the one place where a choice is made: wherever
something is missing (Numba, a formula with machine code, rows of float32 that lie in one piece, a
batch that is worth it), the answer is None, and the caller computes as everywhere else. The choice
follows from the formula and the array alone, never from what was computed before.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any
from weakref import WeakKeyDictionary

import numpy as np
from numpy.typing import NDArray

from calibrant.backends.numba.compiler import has_machine_code
from calibrant.common.arrays import even_tiles
from calibrant.common.threads import available_cores, mapping
from calibrant.formulas import (
    AbsoluteLink,
    ConstantTemperature,
    ExponentialLink,
    Formula,
    LogGaps,
    Margin,
    Mixture,
    NetworkTemperature,
    TopLogits,
)

Kernel = Callable[[NDArray[np.float32], NDArray[np.float32]], bool]

SMALLEST = 2**16  # numbers from which on machine code is used ..
MANY = 2**19  # .. and threads, at least two
AT_ONCE = 2**21  # numbers of one call, between which Ctrl-C is heard
MOST_CLASSES = 4096  # a block of rows stays in the cache
MOST_TOP = 32
MOST_WEIGHTS = 5_000


_kernels: WeakKeyDictionary[Formula, Kernel | None] = WeakKeyDictionary()  # with its numbers


def compiled_probabilities(formula: Formula, logits: NDArray[Any]) -> NDArray[np.float32] | None:
    """The probabilities of rows of logits; None where there is no machine code for them.

    Rows need not be valid: where one is not, the answer is None, too.
    """
    rows, classes = logits.shape
    if logits.size < SMALLEST or classes > MOST_CLASSES or logits.dtype != np.float32:
        return None
    if not (logits.flags.c_contiguous and logits.flags.aligned):
        return None
    make = _MAKERS.get(type(formula))
    if make is None or formula.needs or not has_machine_code():  # it reads logits alone
        return None
    if formula not in _kernels:
        _kernels[formula] = make(formula)
    kernel = _kernels[formula]
    if kernel is None:
        return None
    logits, result = np.asarray(logits), np.empty((rows, classes), np.float32)
    tiles = even_tiles(rows, min(AT_ONCE, max(MANY, logits.size // 2)) // classes)
    with mapping(min(available_cores(), len(tiles))) as on_threads:
        valid = all(on_threads(lambda tile: kernel(logits[tile], result[tile]), tiles))
    return result if valid else None


# --- machine code of formulas -------------------------------------------------------------------


def _constant(formula: ConstantTemperature) -> Kernel:
    from calibrant.backends.numba.predictions import scaled

    temperature = np.float32(formula.value)
    return lambda logits, out: scaled(logits, out, temperature)


def _mixture(formula: Mixture) -> Kernel:
    from calibrant.backends.numba.predictions import mixed

    temperature, warm, plain, even = np.array([formula.temperature, *formula.weights], np.float32)
    return lambda logits, out: mixed(logits, out, temperature, warm, plain, even)


def _network(formula: NetworkTemperature) -> Kernel | None:
    from calibrant.backends.numba import predictions as _compiled

    reading, link = formula.reading, formula.link
    readings = {TopLogits: _compiled.TOP, LogGaps: _compiled.LOG_GAPS, Margin: _compiled.MARGIN}
    links = {ExponentialLink: _compiled.EXPONENTIAL, AbsoluteLink: _compiled.ABSOLUTE}
    kinds = readings.get(type(reading)), links.get(type(link))
    weights = sum(np.count_nonzero(kernel) for kernel in formula.kernels)
    large = reading.fewest_classes > MOST_TOP or weights > MOST_WEIGHTS
    if None in kinds or large or formula.clip is not None:
        return None
    of_reading = [getattr(reading, name, 1.0) for name in ("unit", "smallest")]
    origin = getattr(reading, "origin", 0.0)
    numbers = np.array([*of_reading, *vars(link).values(), origin], np.float32)
    # networks side by side have kernels that are mostly 0, which are left out: of each unit there
    # is where in index and weight its own begin
    columns = [column for kernel in formula.kernels for column in kernel.T]
    sources = [np.flatnonzero(column) for column in columns]
    weight = np.concatenate([c[s] for c, s in zip(columns, sources, strict=True)])
    fitted = (
        reading.fewest_classes,
        *kinds,
        formula.linear,
        numbers,
        formula.low.astype(np.float32),
        formula.high.astype(np.float32),
        np.array([len(bias) for bias in formula.biases], np.int64),
        np.concatenate(formula.biases).astype(np.float32),
        np.cumsum([0, *(len(source) for source in sources)], dtype=np.int64),
        np.concatenate(sources).astype(np.int64),
        weight.astype(np.float32),
    )
    return lambda logits, out: _compiled.networked(logits, out, *fitted)


_MAKERS: dict[type[Formula], Callable[[Any], Kernel | None]] = {
    ConstantTemperature: _constant,
    Mixture: _mixture,
    NetworkTemperature: _network,
}
