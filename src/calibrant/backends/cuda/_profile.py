"""The summary of a CUDA tensor of logits that a ``TemperatureProfile`` keeps, in one launch."""

from __future__ import annotations

import ctypes
from dataclasses import dataclass, fields

import torch
from torch import Tensor

from calibrant.backends.cuda._calibrate import INPUTS, Defines, in_one_piece
from calibrant.backends.cuda._driver import Flags, Kernel, kernel, on_device, per_device
from calibrant.backends.cuda._layout import Layout, profile_layout

MOST_TOP = 32


@dataclass(frozen=True)
class Grid:
    """The inverse temperatures at which psi is kept."""

    nodes: int
    first_octave: tuple[float, ...]  # the others are these times powers of two
    deepest_gap: float

    def constants(self, layout: Layout, logits: torch.dtype, top: int) -> Defines:
        """Everything that the source is specialised for."""
        rates = ",".join(f"{rate!r}f" for rate in self.first_octave)
        own: Defines = {"NODES": self.nodes, "FIRST_RATES": rates}
        own |= {"DEEPEST": f"({self.deepest_gap!r}f)", "TOP": top, "INPUT": INPUTS[logits]}
        return {**layout.defines(), **own}


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


class _Out(ctypes.Structure):
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
        function, rows_per_block = _specialised(grid, classes, logits.dtype, top)
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
            _Out(*places, flags.place),
            ctypes.c_longlong(rows),
            ctypes.c_float(scale),
        )
        return None if flags.read()[0] else summary


@per_device
def _specialised(
    grid: Grid, classes: int, dtype: torch.dtype, top: int
) -> tuple[Kernel | None, int]:
    """The kernel of a grid, and how many rows a block of it works on at a time."""
    layout = profile_layout(classes)
    return kernel("profile", grid.constants(layout, dtype, top)), layout.rows_per_block
