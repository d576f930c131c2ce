"""Machine code by Numba: whether there can be any here, and how a function becomes it."""

from __future__ import annotations

import os
from collections.abc import Callable
from functools import cache
from importlib.util import find_spec
from typing import Any

OPTIONS = {"error_model": "numpy", "fastmath": {"contract"}}  # 1 / 0 is inf; a * b + c at once


def has_machine_code() -> bool:
    """Whether functions may be compiled here; ``CALIBRANT_KERNELS=0`` says no."""
    return _has_numba() and os.environ.get("CALIBRANT_KERNELS") != "0"


@cache
def _has_numba() -> bool:
    """Whether there is a Numba that works here: not every one knows every NumPy.

    One that does not may fail in any way: with an ImportError, where its own check finds out, or
    with what the loader of its libraries says.
    """
    if find_spec("numba") is None:
        return False
    try:
        import numba  # noqa: F401
    except Exception:
        return False
    return True


def compiled(signature: Any) -> Callable[[Callable[..., Any]], Callable[..., Any]]:
    """Compile a function of these types at once, or take it from the disk."""
    from numba import njit

    def decorate(function: Callable[..., Any]) -> Callable[..., Any]:
        made: Callable[..., Any]
        try:
            made = njit(signature, nogil=True, cache=True, **OPTIONS)(function)
        except Exception:  # no folder to keep it in, a full disk, a damaged file
            made = njit(signature, nogil=True, **OPTIONS)(function)
        return made

    return decorate


def bitcast(to: Any, of: Any) -> Any:
    """A function for machine code: the number of one type that has the bits of one of another."""
    from numba.extending import intrinsic

    @intrinsic
    def cast(_: Any, value: Any) -> Any:
        return to(of), lambda c, builder, _, a: builder.bitcast(a[0], c.get_value_type(to))

    return cast
