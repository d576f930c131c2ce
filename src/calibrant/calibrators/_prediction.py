"""A formula applied to rows: one loop over tiles, on threads in main memory or on the device."""

from __future__ import annotations

import threading
from collections.abc import Callable
from typing import Any

import numpy as np
from array_api_compat import array_namespace
from numpy.typing import NDArray

from calibrant.backends.cuda.dispatch import Output, fused
from calibrant.backends.numba.dispatch import SMALLEST, compiled_probabilities
from calibrant.common.arrays import (
    DEVICE_TILE_ELEMENTS,
    TILE_ELEMENTS,
    even_tiles,
    like,
    on_host,
    to_numpy,
)
from calibrant.common.memory import SMALL, require_memory
from calibrant.common.threads import available_cores, mapping, one_blas_thread
from calibrant.common.types import Array
from calibrant.data.likely_mistakes import warn_if_probabilities
from calibrant.data.rows import Rows
from calibrant.formulas import Formula, FormulaRows, Ops
from calibrant.formulas._array_operations import FAST_NUMPY, numpy_flags_ignored, ops_of

USUAL_WIDTH = 16  # numbers per logit that a tile has room for; for more of them it is smaller
TileFunction = Callable[[FormulaRows, Ops], tuple[Array, ...]]


def map_rows(
    formula: Formula,
    rows: Rows,
    function: TileFunction,
    output: Output | None = None,
    *,
    per_row: bool = False,
) -> tuple[Array, ...]:
    """Apply a function of a formula's rows to all rows, in the arrays of the scores.

    ``output`` says which output of the formula it computes, for which there may be a kernel or
    machine code; ``per_row`` that it gives numbers per row and none per class.
    """
    if not (formula.host_only or on_host(rows.scores)):
        return _map_on_device(formula, rows, function, output)
    given = rows.scores
    values = given if isinstance(given, np.ndarray) else to_numpy(given)
    if values is not given:
        rows = rows.with_scores(values, rows.input)
    if rows.input == "logits":
        warn_if_probabilities(values, fitted=True)
    if not per_row and 4 * values.size > SMALL:
        require_memory(4 * values.size, "the result", "give the rows in parts")
    results: tuple[Array, ...] | None = None
    if output == "probabilities" and rows.input == "logits" and values.size >= SMALLEST:
        compiled = compiled_probabilities(formula, values)
        results = None if compiled is None else (compiled,)
    if results is None:
        # the rows of a tile: what a network holds must stay in the caches
        widest = formula.widest
        room = values.shape[1] * min(max(1, widest // USUAL_WIDTH), TILE_ELEMENTS)
        at_once = max(1, TILE_ELEMENTS // max(room, 2 * widest))
        if len(values) <= at_once and not formula.large_product:
            results = tuple(
                [np.ascontiguousarray(one) for one in _on_host(formula, rows, function)]
            )
        else:
            results = _on_threads(formula, rows, function, even_tiles(len(values), at_once))
    return results if values is given else tuple(like(one, given) for one in results)


@numpy_flags_ignored
def _on_host(
    formula: Formula, tile: Rows, function: TileFunction, first_row: int = 0
) -> tuple[NDArray[Any], ...]:
    return function(tile.for_formula(formula, tile.as_logits(first_row), first_row), FAST_NUMPY)


def _on_threads(
    formula: Formula, rows: Rows, function: TileFunction, tiles: list[slice]
) -> tuple[NDArray[Any], ...]:
    lock = threading.Lock()
    results: list[NDArray[Any]] = []

    def fill(tile: slice) -> None:
        parts = _on_host(formula, rows[tile], function, tile.start)
        with lock:
            if not results:  # the first tile shows what they are
                results.extend(np.empty((len(rows), *p.shape[1:]), p.dtype) for p in parts)
        for array, part in zip(results, parts, strict=True):
            array[tile] = part

    # tiles run on threads, in which large matrix products must not start their own
    threads = min(available_cores(), len(tiles))
    with one_blas_thread(formula.large_product), mapping(threads) as on_threads:
        list(on_threads(fill, tiles))
    return tuple(results)


def _map_on_device(
    formula: Formula, rows: Rows, function: TileFunction, output: Output | None
) -> tuple[Array, ...]:
    answer = None
    if rows.input == "logits":
        answer = None if output is None else fused(formula, rows.scores, output)
        if answer is None or answer.may_be_probabilities:
            warn_if_probabilities(rows.scores, fitted=True)
        if answer is not None:
            return answer.results
    ops, parts = ops_of(rows.scores), []
    room = min(max(1, formula.widest // USUAL_WIDTH), TILE_ELEMENTS)
    for place, tile in rows.tiles(DEVICE_TILE_ELEMENTS // room):
        logits = tile.as_logits(place.start)
        answer = None if output is None else fused(formula, logits, output)
        with np.errstate(over="ignore"):  # -inf is what a gap too large for its float means
            read = tile.for_formula(formula, logits, place.start)
            parts.append(function(read, ops) if answer is None else answer.results)
    xp = array_namespace(rows.scores)
    return tuple(xp.concat(list(part), axis=0) for part in zip(*parts, strict=True))
