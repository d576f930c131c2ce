"""The operations of formulas as ONNX nodes: a graph is written, and nothing is computed."""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, Literal

import numpy as np
from numpy.typing import DTypeLike

from calibrant.common.extras import need
from calibrant.common.types import Array, Floats
from calibrant.formulas._curves import Curves

OLDEST_OPSET = 13  # of the operators used here
AXES_ARE_INPUTS = 18  # since this opset, for ReduceMax, ReduceMin and ReduceMean
FAR = 2**31 - 1  # the end of a slice that goes on to the end


def need_onnx(module: str = "onnx") -> Any:
    """A module of the onnx package, or an error that says how to install it."""
    return need(module, "onnx", "calibrant.onnx needs")


class GraphBuilder:
    """The nodes and constants of a graph under construction; every name begins with a prefix.

    ``rank`` is the number of dimensions of the scores, None where that is not known. Reductions
    name the last axis by it, for onnxruntime reduces no empty batch along the axis -1.
    """

    def __init__(self, opset: int, prefix: str = "", rank: int | None = 2) -> None:
        self.opset, self.prefix = opset, prefix
        self.last_axis = -1 if rank is None else rank - 1
        self.nodes: list[Any] = []
        self.initializers: list[Any] = []
        self._constants: dict[Any, Tensor] = {}
        self._nodes: dict[Any, str] = {}

    def node(
        self, kind: str, inputs: Sequence[str], output: str | None = None, **attributes: Any
    ) -> str:
        """Append a node and return the name of its (first) output.

        The same node is written once: formulas ask for the same thing wherever they need it.
        """
        key = (kind, *inputs, repr(sorted(attributes.items())))
        if output is None and key in self._nodes:
            return self._nodes[key]
        name = f"{self.prefix}{kind}_{len(self.nodes)}"
        outputs = [output or name, f"{name}_indices"] if kind == "TopK" else [output or name]
        make_node = need_onnx("onnx.helper").make_node
        self.nodes.append(make_node(kind, list(inputs), outputs, name=name, **attributes))
        self._nodes[key] = outputs[0]
        return outputs[0]

    def constant(self, values: Any, dtype: DTypeLike) -> Tensor:
        """A constant number or array; the same one is stored once."""
        array = np.ascontiguousarray(values, dtype)
        array = array.reshape(np.shape(values))  # ascontiguousarray makes numbers 1-D
        key = (array.dtype.str, array.shape, hashlib.sha256(array.tobytes()).digest())
        if key not in self._constants:
            name = f"{self.prefix}constant_{len(self.initializers)}"
            self.initializers.append(need_onnx("onnx.numpy_helper").from_array(array, name))
            length = len(array) if array.ndim else 1
            self._constants[key] = Tensor(self, name, array.dtype, length)
        return self._constants[key]


def _operator(kind: str, **attributes: Any) -> Callable[..., Tensor]:
    """A method of ``Tensor`` that is one operator of ONNX."""

    def method(x: Tensor, *others: Tensor | float) -> Tensor:
        return x.apply(kind, *others, **attributes)

    return method


@dataclass(frozen=True)
class Tensor:
    """A value in a graph. Operators append nodes; numbers become constants of its own dtype."""

    graph: GraphBuilder
    name: str
    dtype: np.dtype[Any]
    length: int | None = None  # of the first axis, of a constant

    def apply(
        self, kind: str, *others: Tensor | float, dtype: DTypeLike | None = None, **attributes: Any
    ) -> Tensor:
        """An operator with this tensor as its first input."""
        names = [self.name, *(self.lift(other).name for other in others)]
        result = self.dtype if dtype is None else np.dtype(dtype)
        return Tensor(self.graph, self.graph.node(kind, names, **attributes), result)

    def lift(self, other: Tensor | float) -> Tensor:
        """A number as a constant of this tensor's dtype."""
        return other if isinstance(other, Tensor) else self.graph.constant(other, self.dtype)

    def cast(self, dtype: DTypeLike) -> Tensor:
        """The same values in another type."""
        kind = np.dtype(dtype)
        if kind == self.dtype:
            return self
        code = need_onnx("onnx.helper").np_dtype_to_tensor_dtype(kind)
        return self.apply("Cast", to=code, dtype=kind)

    def reduce(self, kind: str) -> Tensor:
        """Each row as one number, (.., 1)."""
        axis = self.graph.last_axis
        if kind != "ReduceSum" and self.graph.opset < AXES_ARE_INPUTS:
            return self.apply(kind, axes=[axis], keepdims=1)
        return self.apply(kind, self.graph.constant([axis], np.int64), keepdims=1)

    __add__ = __radd__ = _operator("Add")
    __mul__ = __rmul__ = _operator("Mul")
    __sub__ = _operator("Sub")
    __truediv__ = _operator("Div")
    __lt__ = _operator("Less", dtype=bool)
    __le__ = _operator("LessOrEqual", dtype=bool)
    __gt__ = _operator("Greater", dtype=bool)
    __ge__ = _operator("GreaterOrEqual", dtype=bool)
    __matmul__ = _operator("MatMul")
    __neg__ = _operator("Neg")

    def __rsub__(self, other: float) -> Tensor:
        return self.lift(other) - self

    def __rtruediv__(self, other: float) -> Tensor:
        return self.lift(other) / self

    def __getitem__(self, key: Any) -> Tensor:
        """``x[..., start:stop]``, or ``x[start:stop]`` of a constant of one dimension."""
        part = key[1] if isinstance(key, tuple) else key
        if not isinstance(part, slice) or (isinstance(key, tuple) and key[0] is not Ellipsis):
            raise TypeError(f"a tensor of a graph takes slices of its last axis, got {key!r}")
        ends = (part.start or 0, FAR if part.stop is None else part.stop, -1)
        return self.apply("Slice", *(self.graph.constant([end], np.int64) for end in ends))


class GraphOps:
    """Operations that append nodes to the graph of their first tensor."""

    def __init__(self, n_classes: int) -> None:
        self.n_classes = n_classes

    exp = staticmethod(_operator("Exp"))
    log = staticmethod(_operator("Log"))
    tanh = staticmethod(_operator("Tanh"))
    abs = staticmethod(_operator("Abs"))
    maximum = staticmethod(_operator("Max"))
    minimum = staticmethod(_operator("Min"))
    invert = staticmethod(_operator("Not"))
    divide = staticmethod(_operator("Div"))
    softmax = staticmethod(_operator("Softmax", axis=-1))
    take = staticmethod(_operator("GatherElements", axis=-1))
    matmul = staticmethod(_operator("MatMul"))

    def max(self, x: Tensor) -> Tensor:
        return x.reduce("ReduceMax")

    def min(self, x: Tensor) -> Tensor:
        return x.reduce("ReduceMin")

    def sum(self, x: Tensor) -> Tensor:
        return x.reduce("ReduceSum")

    def mean(self, x: Tensor) -> Tensor:
        return x.reduce("ReduceMean")

    def log1p(self, x: Tensor) -> Tensor:
        """There is no such operator: log(1 + x) in float64 keeps the digits of a small x."""
        return (x.cast(np.float64) + 1.0).apply("Log").cast(x.dtype)

    def clip(self, x: Tensor, low: Tensor | float, high: Tensor | float) -> Tensor:
        return x.apply("Max", low).apply("Min", high)

    def where(self, condition: Tensor, yes: Tensor | float, no: Tensor | float) -> Tensor:
        model = yes if isinstance(yes, Tensor) else no
        assert isinstance(model, Tensor)
        return condition.apply("Where", model.lift(yes), model.lift(no), dtype=model.dtype)

    def any(self, condition: Tensor) -> bool:
        return True  # not known before the graph runs

    def is_masked(self, x: Tensor) -> Tensor:
        return x.apply("Equal", -np.inf, dtype=bool)

    def gaps(self, x: Tensor, temperature: Tensor | float = 1.0) -> Tensor:
        gaps = x - x.reduce("ReduceMax")
        if isinstance(temperature, float) and temperature == 1.0:
            return gaps
        return gaps / temperature

    def log_softmax(self, gaps: Tensor) -> Tensor:
        return gaps - gaps.apply("Exp").reduce("ReduceSum").apply("Log")

    def top(self, x: Tensor, k: int) -> Tensor:
        return x.apply("TopK", x.graph.constant([k], np.int64), axis=-1)

    def arg_max(self, x: Tensor) -> Tensor:
        return x.apply("ArgMax", axis=x.graph.last_axis, keepdims=1, dtype=np.int64)

    def first_largest(self, x: Tensor) -> Tensor:
        classes = x.graph.constant(np.arange(self.n_classes), np.int64)
        return self.arg_max(x).apply("Equal", classes, dtype=bool)

    def columns(self, x: Tensor, index: Any) -> Tensor:
        return x.apply("Gather", x.graph.constant(index, np.int64), axis=-1)

    def for_classes(self, count: int) -> GraphOps:
        return GraphOps(count)

    def concat(self, parts: Sequence[Tensor]) -> Tensor:
        return parts[0].apply("Concat", *parts[1:], axis=-1)

    def expand(self, x: Tensor) -> Tensor:
        return x.apply("Unsqueeze", x.graph.constant([-1], np.int64))

    def drop(self, x: Tensor) -> Tensor:
        return x.apply("Squeeze", x.graph.constant([-1], np.int64))

    def affine(self, x: Tensor, kernel: Tensor, bias: Tensor) -> Tensor:
        return x @ kernel + bias

    def constant(self, values: Any, like: Tensor) -> Tensor | float:
        if isinstance(values, int | float):
            return float(values)
        return like.graph.constant(values, bool if values.dtype == bool else like.dtype)

    def full_like(self, x: Tensor, value: float) -> Tensor:
        shape = x.apply("Shape", dtype=np.int64)
        fill = need_onnx("onnx.numpy_helper").from_array(np.array([value], x.dtype))
        return shape.apply("ConstantOfShape", value=fill, dtype=x.dtype)

    def cast(self, x: Tensor, kind: Literal["float64"] | Array) -> Tensor:
        return x.cast(np.float64 if isinstance(kind, str) else kind.dtype)

    def eps(self, x: Tensor) -> float:
        return float(np.finfo(x.dtype).eps)

    def look_up(self, x: Tensor, curves: Curves) -> Tensor:
        """A binary search, unrolled: every round compares the edge in the middle of what is left.

        The place, in the flattened table of all curves, moves past that edge or stays.
        """
        padded, graph = curves.padded, x.graph
        width = 1 << (padded.value.shape[1] - 1).bit_length()  # places per curve, a power of two
        start = graph.constant(np.arange(len(padded.edges)) * width, np.int64)
        place = self.full_like(x, 0.0).cast(np.int64) + start
        step = width // 2
        edges = _flat(x, padded.edges, width, np.inf) if step else start
        while step:
            probe = edges.apply("Gather", place + graph.constant(step - 1, np.int64), axis=0)
            passed = probe <= x if padded.inclusive else probe < x
            place = place + passed.cast(np.int64) * graph.constant(step, np.int64)
            step //= 2

        def found(part: Floats) -> Tensor:
            return _flat(x, part, width).apply("Gather", place, axis=0)

        value = found(padded.value)
        if padded.slope is None or padded.anchor is None:
            return value
        run, slope = x - found(padded.anchor), found(padded.slope)
        if padded.square is not None and padded.cube is not None:
            slope = slope + (found(padded.square) + found(padded.cube) * run) * run
        return value + slope * run

    def interpolate(self, table: Tensor, position: Tensor) -> Tensor:
        assert table.length is not None
        cell = position.apply("Min", float(table.length - 2)).cast(np.int64)
        left = table.apply("Gather", cell, axis=0)
        right = table.apply("Gather", cell + 1, axis=0)
        fraction = position - cell.cast(position.dtype)
        return (left + fraction * (right - left)).apply("Min", right)


def _flat(x: Tensor, part: Floats, width: int, fill: float = 0.0) -> Tensor:
    """A part of a table of curves, its rows filled up to ``width`` and laid end to end."""
    wide = np.full((len(part), width), fill)
    wide[:, : part.shape[1]] = part
    return x.graph.constant(wide.reshape(-1), np.float64)
