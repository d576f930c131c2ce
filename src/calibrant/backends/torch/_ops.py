"""The operations of formulas in PyTorch: traceable, differentiable, for any leading dimensions."""

from __future__ import annotations

from collections.abc import Sequence
from functools import cache
from typing import Any, Literal

import torch
from torch import Tensor

from calibrant.common.types import Array
from calibrant.formulas._array_operations import ArrayOps
from calibrant.formulas._curves import PaddedCurves


class BufferName:
    """Stands in a formula for an array or a number that a module keeps as a buffer."""

    def __init__(self, name: str, shape: tuple[int, ...]) -> None:
        self.name, self.shape = name, shape


class ModuleCurves:
    """Stands in a formula for curves that a module keeps, padded, as buffers."""

    def __init__(self, name: str, padded: PaddedCurves) -> None:
        self.name, self.count, self.inclusive = name, len(padded.edges), padded.inclusive
        self.cubic = padded.cube is not None


class TorchOps(ArrayOps):
    """Native PyTorch; a formula's numbers come from the buffers of a module."""

    def __init__(self, buffers: dict[str, Tensor | None]) -> None:
        super().__init__(torch)
        self.buffers = buffers

    def maximum(self, x: Tensor, y: Tensor | float) -> Tensor:
        return x.maximum(y) if isinstance(y, Tensor) else x.clamp(min=y)

    def minimum(self, x: Tensor, y: Tensor | float) -> Tensor:
        return x.minimum(y) if isinstance(y, Tensor) else x.clamp(max=y)

    def clip(self, x: Tensor, low: Any, high: Any) -> Tensor:
        return x.clamp(low, high)

    def where(self, condition: Tensor, yes: Tensor | float, no: Tensor | float) -> Tensor:
        return torch.where(condition, yes, no)

    def any(self, condition: Tensor) -> bool:
        return True  # a traced graph cannot depend on values

    def max(self, x: Tensor) -> Tensor:
        return x.amax(-1, keepdim=True)

    def min(self, x: Tensor) -> Tensor:
        return x.amin(-1, keepdim=True)

    def sum(self, x: Tensor) -> Tensor:
        return x.sum(-1, keepdim=True)

    def mean(self, x: Tensor) -> Tensor:
        return x.mean(-1, keepdim=True)

    def gaps(self, x: Tensor, temperature: Tensor | float = 1.0) -> Tensor:
        gaps = x - x.amax(-1, keepdim=True)
        if isinstance(temperature, float) and temperature == 1.0:
            return gaps
        return self.divide(gaps, temperature)

    def divide(self, x: Tensor, y: Tensor | float) -> Tensor:
        """-inf stays -inf, and sends no NaN back to a temperature."""
        if not (x.requires_grad or (isinstance(y, Tensor) and y.requires_grad)):
            return x / y
        masked = x == -torch.inf
        return (x.masked_fill(masked, 0.0) / y).masked_fill(masked, -torch.inf)

    def softmax(self, gaps: Tensor) -> Tensor:
        return gaps.softmax(-1)

    def log_softmax(self, gaps: Tensor) -> Tensor:
        return gaps.log_softmax(-1)

    def top(self, x: Tensor, k: int) -> Tensor:
        return x.topk(k, dim=-1).values

    def arg_max(self, x: Tensor) -> Tensor:
        return x.argmax(-1, keepdim=True)

    def take(self, x: Tensor, index: Tensor) -> Tensor:
        return x.gather(-1, index)

    def first_largest(self, x: Tensor) -> Tensor:
        return torch.zeros_like(x).scatter(-1, x.argmax(-1, keepdim=True), 1.0) > 0.0

    def columns(self, x: Tensor, index: Any) -> Tensor:
        return x.index_select(-1, self.fitted(index.name))

    def concat(self, parts: Sequence[Tensor]) -> Tensor:
        return torch.cat(list(parts), dim=-1)

    def constant(self, values: Any, like: Tensor) -> Tensor:
        buffer = self.fitted(values.name)
        return buffer if buffer.dtype == torch.bool else buffer.to(like.dtype)

    def cast(self, x: Tensor, kind: Literal["float64"] | Array) -> Tensor:
        return x.to(torch.float64 if isinstance(kind, str) else kind.dtype)

    def look_up(self, x: Tensor, curves: Any) -> Tensor:
        edges, known = self.fitted(f"{curves.name}.edges"), x.detach()
        if curves.count == 1:
            place = torch.searchsorted(edges[0], known.contiguous(), right=curves.inclusive)
        else:  # each class' values in its own row of edges, as places of the flattened tables
            columns = known.movedim(-1, 0)
            flat = columns.reshape(curves.count, -1).contiguous()
            place = torch.searchsorted(edges, flat, right=curves.inclusive)
            start = torch.arange(curves.count, device=x.device)[:, None] * (edges.shape[1] + 1)
            place = (place + start).reshape(columns.shape).movedim(0, -1)

        def found(part: str) -> Tensor:
            return self.fitted(f"{curves.name}.{part}").reshape(-1)[place]

        if not curves.inclusive:
            return found("value")
        run, slope = x - found("anchor"), found("slope")
        if curves.cubic:
            slope = slope + (found("square") + found("cube") * run) * run
        return found("value") + slope * run

    def interpolate(self, table: Tensor, position: Tensor) -> Tensor:
        cell = position.detach().long().clamp(max=table.shape[0] - 2)
        left, right = table[cell], table[cell + 1]
        return torch.minimum(left + (position - cell) * (right - left), right)

    def fitted(self, name: str) -> Tensor:
        """The buffer of a field, by its path."""
        buffer = self.buffers[buffer_name(name)]
        assert buffer is not None
        return buffer


@cache
def buffer_name(path: str) -> str:
    """A field's path as the name of a buffer, in which PyTorch allows no dot; no method has it."""
    return "fitted_" + path.replace(".", "_")
