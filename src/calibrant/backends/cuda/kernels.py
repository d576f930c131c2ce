"""CUDA kernels, compiled when first needed; importing this needs PyTorch, using it an NVIDIA GPU.

What each does is in its source: ``calibrate.cu`` and ``profile.cu`` on ``rows.cuh``, which says how
threads share rows. ``_layout`` chooses that, ``_driver`` compiles and launches.
"""

from __future__ import annotations

import ctypes
from collections.abc import Sequence
from dataclasses import dataclass, fields
from typing import Literal, NamedTuple

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from calibrant.backends.cuda._driver import Flags, Kernel, kernel, on_device, per_device
from calibrant.backends.cuda._layout import layout_of, profile_layout
from calibrant.formulas._sorting_networks import Network, merging_network, sorting_network

Defines = dict[str, int | str]
Output = Literal["probabilities", "log_probabilities", "confidence"]

INPUTS = {torch.float32: 0, torch.float16: 1, torch.bfloat16: 2}
OUTPUTS = {"probabilities": 0, "log_probabilities": 1, "confidence": 2}
CONSTANT, NETWORK, MIXTURE = 0, 1, 2  # FORMULA of the source
MOST_NUMBERS = 16  # pointers that a kernel takes
MOST_TOP = 32  # of the largest logits that a profile keeps

# --- calibrated probabilities, or the confidence alone, in one launch -----------------------------


@dataclass(frozen=True)
class Plan:
    """How a formula is computed by ``calibrate.cu``.

    Parameters
    ----------
    formula : int
        ``FORMULA`` of the source.
    numbers : tuple of str
        The fields with its fitted numbers, as paths, in the order in which the source reads them.
    top : int
        How many of the largest logits are read; 0 for none.
    network : tuple of pairs
        Names and values of the constants that describe a network.
    """

    formula: int
    numbers: tuple[str, ...]
    top: int = 0
    network: tuple[tuple[str, int | str], ...] = ()

    def fits(self, numbers: Sequence[NDArray[np.float64]]) -> bool:
        """Whether the kernels of these numbers are those of networks side by side."""
        members = int(dict(self.network).get("MEMBERS", 1))
        for path, kernel_of_layer in zip(self.numbers, numbers, strict=True):
            if path.startswith("kernels.") and path != "kernels.0":
                rows, columns = (size // members for size in kernel_of_layer.shape)
                own = np.kron(np.eye(members, dtype=bool), np.ones((rows, columns), bool))
                if kernel_of_layer[~own].any():
                    return False
        return True


def _as_source(network: Network) -> str:
    """The comparisons in the words of rows.cuh."""
    return "".join(f"order(list[{i}], list[{j}]);" for i, j in network)


class _Out(ctypes.Structure):
    _fields_ = [
        (name, ctypes.c_void_p)
        for name in ("values", "confidence", "label", "temperature", "noticed")
    ] + [("rows", ctypes.c_longlong)]


class _Fitted(ctypes.Structure):
    _fields_ = [("at", ctypes.c_void_p * MOST_NUMBERS)]


class Numbers:
    """The fitted numbers of a formula, as tensors of float64, in the order of its plan."""

    def __init__(self, tensors: Sequence[Tensor]) -> None:
        self.tensors = tensors  # kept: the device reads their memory
        self.places = _Fitted()
        self.places.at[: len(tensors)] = [tensor.data_ptr() for tensor in tensors]


class Answer(NamedTuple):
    """What a kernel has computed, and noticed on the way."""

    results: tuple[Tensor, ...]
    may_be_probabilities: bool  # whether the largest values of three rows could be some


def calibrate(
    plan: Plan, numbers: Numbers, logits: Tensor, output: Output, check: bool
) -> Answer | None:
    """The results of rows (rows, classes); None where there is no kernel for them.

    ``numbers`` are the formula's, on the same device. Where ``check`` is True, the host
    waits for the device, and the answer is None also where a row holds NaN or inf or nothing
    finite; else such a row gives NaN, and nothing is noticed.
    """
    with on_device(logits.device):
        logits = in_one_piece(logits)
        rows, classes = logits.shape
        function, rows_per_block = _calibrate_kernel(plan, classes, logits.dtype, output)
        if function is None:
            return None
        results: tuple[Tensor, ...]
        if output != "confidence":
            results = (logits.new_empty(logits.shape, dtype=torch.float32),)
            places = [results[0].data_ptr(), None, None, None]
        else:
            kinds = (torch.int64, torch.float32, torch.float32)
            results = tuple(logits.new_empty(rows, dtype=kind) for kind in kinds)
            label, probability, temperature = (one.data_ptr() for one in results)
            places = [None, probability, label, temperature]
        flags = Flags() if check else None
        function.launch(
            -(-rows // rows_per_block),
            ctypes.c_void_p(logits.data_ptr()),
            _Out(*places, None if flags is None else flags.place, rows),
            ctypes.c_longlong(rows),
            numbers.places,
        )
        refused, looks_odd = (False, False) if flags is None else flags.read()
        return None if refused else Answer(results, looks_odd)


@per_device
def _calibrate_kernel(
    plan: Plan, classes: int, dtype: torch.dtype, output: Output
) -> tuple[Kernel | None, int]:
    """The kernel of a plan, and how many rows a block of it works on at a time."""
    copies = 2 if plan.formula == MIXTURE else 1  # numbers that it keeps of each value
    ahead = plan.top > 0 and output == "confidence"
    layout = layout_of(classes, dtype.itemsize, copies, ahead)
    constants: Defines = {"FORMULA": plan.formula, "OUTPUT": OUTPUTS[output]}
    constants |= {**dict(plan.network), **layout.defines(), "INPUT": INPUTS[dtype]}
    if plan.top:
        constants["TOP"] = plan.top
    if plan.top and layout.lanes < 32:
        length = 1 << (plan.top - 1).bit_length()
        constants["SORTED"] = length
        constants["SORT"] = _as_source(sorting_network(layout.slots))
        constants["MERGE"] = _as_source(merging_network(length))
    return kernel("calibrate", constants), layout.rows_per_block


def in_one_piece(logits: Tensor) -> Tensor:
    """Rows that follow one another from an aligned place: sixteen bytes are read at once."""
    logits = logits.contiguous()
    return logits if logits.data_ptr() % 16 == 0 else logits.clone()


# --- the summary that a ``TemperatureProfile`` keeps, in one launch -------------------------------


@dataclass(frozen=True)
class Grid:
    """The inverse temperatures at which psi is kept."""

    nodes: int
    first_octave: tuple[float, ...]  # the others are these times powers of two
    deepest_gap: float


@dataclass(frozen=True)
class Summary:
    """What is kept of each row, on the device; ``_partition.NodeRows`` has the meaning."""

    nodes: Tensor
    top: Tensor
    finite: Tensor
    ties: Tensor
    mean: Tensor
    peak: Tensor
    label_gap: Tensor


class _Places(ctypes.Structure):
    _fields_ = [(field.name, ctypes.c_void_p) for field in fields(Summary)]
    _fields_ += [("noticed", ctypes.c_void_p)]


def profile_of(
    logits: Tensor, labels: Tensor, top: int, scale: float, grid: Grid
) -> Summary | None:
    """The summary of rows (rows, classes); the labels are valid, in int64 on the same device.

    None where there is no kernel, or a row holds NaN or inf, nothing finite, or values whose
    differences overflow.
    """
    if logits.dtype not in INPUTS or top > MOST_TOP:
        return None
    with on_device(logits.device):
        logits = in_one_piece(logits)
        rows, classes = logits.shape
        function, rows_per_block = _profile_kernel(grid, classes, logits.dtype, top)
        if function is None:
            return None

        def room(*shape: int, dtype: torch.dtype = torch.float32) -> Tensor:
            return torch.empty((rows, *shape), dtype=dtype, device=logits.device)

        floats = [room() for _ in range(3)]
        counts = [room(dtype=torch.int32) for _ in range(2)]
        summary = Summary(room(grid.nodes, 3), room(top), *counts, *floats)
        places = [getattr(summary, field.name).data_ptr() for field in fields(Summary)]
        flags = Flags()
        function.launch(
            -(-rows // rows_per_block),
            ctypes.c_void_p(logits.data_ptr()),
            ctypes.c_void_p(labels.data_ptr()),
            _Places(*places, flags.place),
            ctypes.c_longlong(rows),
            ctypes.c_float(scale),
        )
        return None if flags.read()[0] else summary


@per_device
def _profile_kernel(
    grid: Grid, classes: int, dtype: torch.dtype, top: int
) -> tuple[Kernel | None, int]:
    """The kernel of a grid, and how many rows a block of it works on at a time."""
    layout = profile_layout(classes)
    rates = ",".join(f"{rate!r}f" for rate in grid.first_octave)
    own: Defines = {"NODES": grid.nodes, "FIRST_RATES": rates}
    own |= {"DEEPEST": f"({grid.deepest_gap!r}f)", "TOP": top, "INPUT": INPUTS[dtype]}
    return kernel("profile", {**layout.defines(), **own}), layout.rows_per_block
