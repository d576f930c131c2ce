"""Writing ONNX nodes as if they were NumPy: tensors with operators, all along the last axis."""

from __future__ import annotations

import hashlib
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import DTypeLike

from calibrant.common.extras import need

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
        self._lengths: dict[str, int] = {}

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
        """A constant array; the same one is stored once."""
        array = np.ascontiguousarray(values, dtype)
        array = array.reshape(np.shape(values))  # ascontiguousarray makes numbers 1-D
        key = (array.dtype.str, array.shape, hashlib.sha256(array.tobytes()).digest())
        if key not in self._constants:
            name = f"{self.prefix}constant_{len(self.initializers)}"
            self.initializers.append(need_onnx("onnx.numpy_helper").from_array(array, name))
            self._lengths[name] = len(array) if array.ndim else 1
            self._constants[key] = Tensor(self, name, array.dtype)
        return self._constants[key]

    def length_of(self, constant: Tensor) -> int:
        """The length of a constant's first axis."""
        return self._lengths[constant.name]

    def number(self, value: float, dtype: DTypeLike) -> Tensor:
        """A constant number."""
        return self.constant(np.array(value, dtype), dtype)

    def numbers(self, value: int) -> Tensor:
        """A constant array of one whole number."""
        return self.constant([value], np.int64)

    def tensor(self, name: str, dtype: DTypeLike) -> Tensor:
        """A tensor that comes from outside."""
        return Tensor(self, name, np.dtype(dtype))


@dataclass(frozen=True)
class Tensor:
    """A value in a graph. Operators append nodes; numbers become constants of its own dtype."""

    graph: GraphBuilder
    name: str
    dtype: np.dtype[Any]

    def apply(
        self, kind: str, *others: Tensor | float, dtype: DTypeLike | None = None, **attributes: Any
    ) -> Tensor:
        """An operator with this tensor as its first input."""
        names = [self.name, *(self._lift(other).name for other in others)]
        result = self.dtype if dtype is None else np.dtype(dtype)
        return Tensor(self.graph, self.graph.node(kind, names, **attributes), result)

    def _lift(self, other: Tensor | float) -> Tensor:
        return other if isinstance(other, Tensor) else self.graph.number(other, self.dtype)

    def __add__(self, other: Tensor | float) -> Tensor:
        return self.apply("Add", other)

    def __sub__(self, other: Tensor | float) -> Tensor:
        return self.apply("Sub", other)

    def __mul__(self, other: Tensor | float) -> Tensor:
        return self.apply("Mul", other)

    def __truediv__(self, other: Tensor | float) -> Tensor:
        return self.apply("Div", other)

    def __radd__(self, other: float) -> Tensor:
        return self + other

    def __rsub__(self, other: float) -> Tensor:
        return self._lift(other) - self

    def __rmul__(self, other: float) -> Tensor:
        return self * other

    def __rtruediv__(self, other: float) -> Tensor:
        return self._lift(other) / self

    def __neg__(self) -> Tensor:
        return self.apply("Neg")

    def __lt__(self, other: Tensor | float) -> Tensor:
        return self.apply("Less", other, dtype=bool)

    def __le__(self, other: Tensor | float) -> Tensor:
        return self.apply("LessOrEqual", other, dtype=bool)

    def __gt__(self, other: Tensor | float) -> Tensor:
        return self.apply("Greater", other, dtype=bool)

    def __ge__(self, other: Tensor | float) -> Tensor:
        return self.apply("GreaterOrEqual", other, dtype=bool)

    def __matmul__(self, other: Tensor) -> Tensor:
        return self.apply("MatMul", other)

    def same_as(self, other: Tensor | float) -> Tensor:
        """Elementwise equality (``==`` compares the Python objects)."""
        return self.apply("Equal", other, dtype=bool)

    def exp(self) -> Tensor:
        """Elementwise."""
        return self.apply("Exp")

    def log(self) -> Tensor:
        """Elementwise."""
        return self.apply("Log")

    def at_least(self, other: Tensor | float) -> Tensor:
        """The elementwise maximum."""
        return self.apply("Max", other)

    def at_most(self, other: Tensor | float) -> Tensor:
        """The elementwise minimum."""
        return self.apply("Min", other)

    def max(self) -> Tensor:
        """The largest value of each row, (.., 1)."""
        return self._reduce("ReduceMax")

    def min(self) -> Tensor:
        """The smallest value of each row, (.., 1)."""
        return self._reduce("ReduceMin")

    def sum(self) -> Tensor:
        """The sum of each row, (.., 1)."""
        return self.apply("ReduceSum", self.graph.numbers(self.graph.last_axis), keepdims=1)

    def _reduce(self, kind: str) -> Tensor:
        axis = self.graph.last_axis
        if self.graph.opset < AXES_ARE_INPUTS:
            return self.apply(kind, axes=[axis], keepdims=1)
        return self.apply(kind, self.graph.numbers(axis), keepdims=1)

    def arg_max(self) -> Tensor:
        """The first index of each row's largest value, (.., 1)."""
        axis = self.graph.last_axis
        return self.apply("ArgMax", axis=axis, keepdims=1, dtype=np.int64)

    def softmax(self) -> Tensor:
        """Of each row."""
        return self.apply("Softmax", axis=-1)

    def mean(self) -> Tensor:
        """The mean of each row, (.., 1)."""
        return self._reduce("ReduceMean")

    def __getitem__(self, key: Any) -> Tensor:
        """``x[..., start:stop]``, or ``x[start:stop]`` of a constant of one dimension."""
        part = key[1] if isinstance(key, tuple) else key
        if not isinstance(part, slice) or (isinstance(key, tuple) and key[0] is not Ellipsis):
            raise TypeError(f"a tensor of a graph takes slices of its last axis, got {key!r}")
        return self.columns(part.start or 0, FAR if part.stop is None else part.stop)

    def add_axis(self) -> Tensor:
        """(..) -> (.., 1)."""
        return self.apply("Unsqueeze", self.graph.numbers(-1))

    def top(self, k: int) -> Tensor:
        """The k largest values of each row in decreasing order."""
        return self.apply("TopK", self.graph.numbers(k), axis=-1)

    def columns(self, start: int, stop: int) -> Tensor:
        """``x[..., start:stop]``."""
        ends = [self.graph.numbers(value) for value in (start, stop, -1)]
        return self.apply("Slice", *ends)

    def concat(self, *others: Tensor) -> Tensor:
        """Columns side by side."""
        return self.apply("Concat", *others, axis=-1)

    def gather(self, index: Tensor) -> Tensor:
        """Elements of a one-dimensional table by their places."""
        return self.apply("Gather", index, axis=0)

    def pick(self, index: Tensor) -> Tensor:
        """The element of each row at its index (.., 1)."""
        return self.apply("GatherElements", index, axis=-1)

    def cast(self, dtype: DTypeLike) -> Tensor:
        """The same values in another type."""
        kind = np.dtype(dtype)
        if kind == self.dtype:
            return self
        code = need_onnx("onnx.helper").np_dtype_to_tensor_dtype(kind)
        return self.apply("Cast", to=code, dtype=kind)

    def drop_last_axis(self) -> Tensor:
        """(.., 1) -> (..)."""
        return self.apply("Squeeze", self.graph.numbers(-1))

    def transpose(self, order: Sequence[int]) -> Tensor:
        """The axes in another order."""
        return self.apply("Transpose", perm=list(order))

    def filled_like(self, value: float) -> Tensor:
        """The same shape, one number everywhere."""
        shape = self.apply("Shape", dtype=np.int64)
        fill = need_onnx("onnx.numpy_helper").from_array(np.array([value], self.dtype))
        return shape.apply("ConstantOfShape", value=fill, dtype=self.dtype)

    def named(self, name: str) -> None:
        """Give the value its final name, as an output of the graph."""
        self.graph.node("Identity", [self.name], output=name)


def where(condition: Tensor, yes: Tensor | float, no: Tensor | float) -> Tensor:
    """``yes`` where the condition holds, else ``no``; at least one is a tensor."""
    model = yes if isinstance(yes, Tensor) else no
    assert isinstance(model, Tensor)
    return condition.apply("Where", model._lift(yes), model._lift(no), dtype=model.dtype)
