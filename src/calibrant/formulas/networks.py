"""Small networks: what they read of a row, the same from logits and a profile, and their layers."""

from __future__ import annotations

from abc import ABC, abstractmethod
from dataclasses import dataclass
from typing import Any, ClassVar, NamedTuple, Protocol

import numpy as np

from calibrant.common.types import Array, Floats
from calibrant.formulas._operations import Ops
from calibrant.formulas._row_functions import entropy_share, top_k
from calibrant.formulas._serialization import (
    LARGEST,
    SMALLEST,
    Part,
    checked_arrays,
    checked_count,
    checked_number,
    require,
)

MOST_LAYERS = 32

# --- inputs ---------------------------------------------------------------------------------------


class RowSource(Protocol):
    """Rows of scores, as far as a network reads them."""

    @property
    def ops(self) -> Ops:
        """What computes with them."""

    @property
    def covariates(self) -> Array | None:
        """Other numbers of each row, (.., columns), where there are some."""

    def top(self, k: int) -> Array:
        """The k largest logits of each row in decreasing order."""

    def entropy_share(self) -> Array:
        """The entropy of softmax(z) over the largest possible one, (.., 1)."""


class LogitRows(NamedTuple):
    """Rows that are logits."""

    logits: Array
    ops: Ops
    covariates: Array | None = None

    def top(self, k: int) -> Array:
        """The k largest logits of each row in decreasing order."""
        return top_k(self.logits, k, self.ops)

    def entropy_share(self) -> Array:
        """The entropy of softmax(z) over the largest possible one, (.., 1)."""
        return entropy_share(self.logits, self.ops)


class Reading(Part, ABC):
    """The inputs of a small network: a few numbers per row."""

    #: What it reads beside the logits: names of fields of ``FormulaRows``.
    needs: ClassVar[tuple[str, ...]] = ()
    #: The columns of the covariates, in their order, for a reading that needs them.
    covariate_names: ClassVar[tuple[str, ...]] = ()

    @property
    @abstractmethod
    def width(self) -> int:
        """The number of inputs."""

    @property
    @abstractmethod
    def fewest_classes(self) -> int:
        """The fewest classes from which they can be read."""

    @abstractmethod
    def read(self, rows: RowSource) -> Array:
        """Compute the inputs (.., width) of each row."""


class TopReading(Reading, ABC):
    """As many inputs as logits that are read, the k largest."""

    k: int

    @property
    def width(self) -> int:
        return self.k

    @property
    def fewest_classes(self) -> int:
        return self.k


@dataclass(frozen=True, eq=False)
class TopLogits(TopReading):
    """The k largest logits in decreasing order, as in the PTS paper.

    Parameters
    ----------
    k : int
        How many.
    origin : float, default 0
        What is subtracted from them: about where the logits lie, if that is far from 0. A float32
        number is subtracted without rounding, so that float32 logits lose no digits.

    Examples
    --------
    >>> import numpy as np
    >>> from calibrant.formulas._array_operations import NUMPY
    >>> rows = LogitRows(np.array([[1.0, 4.0, 2.0]]), NUMPY)
    >>> TopLogits(2).read(rows)
    array([[4., 2.]])
    """

    kind: ClassVar[str] = "top-logits"
    version: ClassVar[int] = 2
    added: ClassVar[dict[str, Any]] = {"origin": 0.0}

    k: int
    origin: float = 0.0

    def __post_init__(self) -> None:
        checked_count(self, "k")
        checked_number(self, "origin")

    def read(self, rows: RowSource) -> Array:
        top = rows.top(self.k)
        return top - rows.ops.constant(self.origin, top)


@dataclass(frozen=True, eq=False)
class LogGaps(TopReading):
    """The largest logit, and the logarithms of its gaps to the next ones.

    Parameters
    ----------
    k : int
        How many logits are read.
    unit : float
        What the gaps are measured in: the best single temperature.
    smallest : float
        What is added before the logarithm: smaller gaps are all alike to it.
    origin : float, default 0
        What is subtracted from the largest logit, see ``TopLogits``.

    Notes
    -----
    z_1 - origin and log(smallest + (z_1 - z_i) / unit) for i = 2 .. k, z_1 >= z_2 >= .. being the
    sorted logits.

    Examples
    --------
    >>> import numpy as np
    >>> from calibrant.formulas._array_operations import NUMPY
    >>> rows = LogitRows(np.array([[3.0, 2.0, 0.0]]), NUMPY)
    >>> LogGaps(3, unit=1.0, smallest=1.0).read(rows).round(3)
    array([[3.   , 0.693, 1.386]])
    """

    kind: ClassVar[str] = "log-gaps"
    version: ClassVar[int] = 2
    added: ClassVar[dict[str, Any]] = {"origin": 0.0}

    k: int
    unit: float
    smallest: float
    origin: float = 0.0

    def __post_init__(self) -> None:
        checked_count(self, "k")
        checked_number(self, "unit", SMALLEST)
        checked_number(self, "smallest", SMALLEST)
        checked_number(self, "origin")

    def read(self, rows: RowSource) -> Array:
        top, ops = rows.top(self.k), rows.ops
        first = top[..., :1]
        place = first - ops.constant(self.origin, top)
        if self.k == 1:
            return place
        unit, smallest = ops.constant(self.unit, top), ops.constant(self.smallest, top)
        gaps = first - top[..., 1 : self.k]
        return ops.concat([place, ops.log(gaps / unit + smallest)])


@dataclass(frozen=True, eq=False)
class Margin(Reading):
    """The gap between the two largest logits.

    Examples
    --------
    >>> import numpy as np
    >>> from calibrant.formulas._array_operations import NUMPY
    >>> rows = LogitRows(np.array([[1.0, 4.0, 2.0]]), NUMPY)
    >>> Margin().read(rows)
    array([[2.]])
    """

    kind: ClassVar[str] = "margin"
    width: ClassVar[int] = 1
    fewest_classes: ClassVar[int] = 2

    def read(self, rows: RowSource) -> Array:
        top = rows.top(2)
        return top[..., :1] - top[..., 1:2]


@dataclass(frozen=True, eq=False)
class LogEntropy(Reading):
    """The logarithm of the entropy, relative to the largest possible one.

    Parameters
    ----------
    smallest : float
        A smaller relative entropy counts as this: the logarithm of 0 is not finite.

    Notes
    -----
    log(max(h, smallest)), h being the entropy of softmax(z) divided by log C, C the number of
    classes that are not masked.

    Examples
    --------
    >>> import numpy as np
    >>> from calibrant.formulas._array_operations import NUMPY
    >>> rows = LogitRows(np.array([[1.0, 0.0]]), NUMPY)
    >>> LogEntropy(1e-6).read(rows).round(3)
    array([[-0.174]])
    """

    kind: ClassVar[str] = "log-entropy"
    width: ClassVar[int] = 1
    fewest_classes: ClassVar[int] = 2

    smallest: float

    def __post_init__(self) -> None:
        checked_number(self, "smallest", SMALLEST, 1.0)

    def read(self, rows: RowSource) -> Array:
        share, ops = rows.entropy_share(), rows.ops
        return ops.log(ops.maximum(share, ops.constant(self.smallest, share)))


# --- layers ---------------------------------------------------------------------------------------


class Layered(Protocol):
    """A part with the layers of a network."""

    @property
    def kernels(self) -> tuple[Floats, ...]:
        """Matrices (inputs, outputs)."""

    @property
    def biases(self) -> tuple[Floats, ...]:
        """Vectors (outputs,)."""


def checked_layers(part: Part, reach: Floats) -> Floats:
    """Refuse layers that do not fit each other, or whose numbers could leave those of float32.

    ``reach`` is how large each input can be; returns how large each output can be.
    """
    kernels, biases = checked_arrays(part, "kernels", 2), checked_arrays(part, "biases", 1)
    require(len(kernels) == len(biases) > 0, "every kernel must have a bias")
    require(len(biases) <= MOST_LAYERS, f"the network must have at most {MOST_LAYERS} layers")
    for kernel, bias in zip(kernels, biases, strict=True):
        shape = (len(reach), len(bias))
        require(kernel.shape == shape, f"a kernel must have shape {shape}, got {kernel.shape}")
        require(len(bias) > 0, "every layer of the network must have an output")
        reach = reach @ np.abs(kernel) + np.abs(bias)
        require(
            float(reach.max()) <= LARGEST,
            f"the network must not reach beyond {LARGEST:g}, got {reach.max():g}",
        )
    return reach


def network_output(part: Layered, inputs: Array, ops: Ops, linear: bool = False) -> Array:
    """Inputs (.., inputs) through the layers, with a ReLU between them unless ``linear``."""
    values = inputs
    for index, (kernel, bias) in enumerate(zip(part.kernels, part.biases, strict=True)):
        if index > 0 and not linear:
            values = ops.maximum(values, 0.0)
        values = ops.affine(values, ops.constant(kernel, inputs), ops.constant(bias, inputs))
    return values
