"""Which formulas there is a kernel for, and what the compiler must know of each."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from calibrant._kernels._networks import as_source, merging_network, sorting_network
from calibrant._kernels._layout import Layout
from calibrant.formulas import (
    AbsoluteLink,
    ConstantTemperature,
    ExponentialLink,
    Formula,
    LogEntropy,
    LogGaps,
    Margin,
    Mixture,
    NetworkTemperature,
    TopLogits,
)

MOST_TOP = 32  # the largest values of a row that a warp keeps: one per lane
MOST_LAYERS = 4
MOST_WEIGHTS = 6_000  # of all networks together: they lie in 48 kB of shared memory

Defines = dict[str, int | str]


@dataclass(frozen=True)
class Plan:
    """How a formula is computed by ``calibrate.cu``.

    Parameters
    ----------
    defines : dict
        The constants of the source that follow from the formula.
    numbers : tuple of str
        The fields with its fitted numbers, as paths, in the order in which the source reads them.
    top : int
        How many of the largest logits are read; 0 for none.
    """

    defines: Defines
    numbers: tuple[str, ...]
    top: int = 0

    def source_constants(self, layout: Layout, dtype: int, output: int) -> Defines:
        """Everything that the source is specialised for."""
        constants: Defines = {**self.defines, **layout.defines(), "INPUT": dtype, "OUTPUT": output}
        if self.top:
            constants["TOP"] = self.top
        if self.top and layout.lanes < 32:
            length = 1 << (self.top - 1).bit_length()
            constants["SORTED"] = length
            constants["SORT"] = as_source(sorting_network(layout.slots))
            constants["MERGE"] = as_source(merging_network(length))
        return constants


def plan_of(formula: Formula) -> Plan | None:
    """The plan for a formula; None where it has no kernel."""
    make = _PLANS.get(type(formula))
    return None if make is None else make(formula)


def _constant(formula: ConstantTemperature) -> Plan:
    return Plan({"FORMULA": 0}, ("value",))


def _mixture(formula: Mixture) -> Plan:
    return Plan({"FORMULA": 2}, ("temperature", "weights"))


def _network(formula: NetworkTemperature) -> Plan | None:
    reading, link = _READINGS.get(type(formula.reading)), _LINKS.get(type(formula.link))
    widths = _member_widths(formula)
    if reading is None or link is None or widths is None or formula.clip is not None:
        return None
    top = 0 if isinstance(formula.reading, LogEntropy) else formula.reading.fewest_classes
    if top > MOST_TOP:
        return None
    layers = len(formula.kernels)
    defines: Defines = {
        "FORMULA": 1,
        "READING": reading[0],
        "INPUTS": formula.reading.width,
        "MEMBERS": len(formula.biases[-1]),
        "LAYERS": layers,
        "WIDTHS": ",".join(map(str, widths)),
        "LINEAR": int(formula.linear),
        "LINK": link[0],
    }
    numbers = [f"reading.{name}" for name in reading[1]] + ["low", "high"]
    for layer in range(layers):
        numbers += [f"kernels.{layer}", f"biases.{layer}"]
    return Plan(defines, (*numbers, *(f"link.{name}" for name in link[1])), top)


def _member_widths(formula: NetworkTemperature) -> list[int] | None:
    """The widths of one of the networks that lie side by side; None where they are not apart."""
    members = len(formula.biases[-1])
    outputs = [len(bias) for bias in formula.biases]
    if len(outputs) > MOST_LAYERS or any(width % members for width in outputs):
        return None
    widths = [formula.reading.width, *(width // members for width in outputs)]
    if members * sum((a + 1) * b for a, b in zip(widths, widths[1:], strict=False)) > MOST_WEIGHTS:
        return None
    for kernel in formula.kernels[1:]:
        rows, columns = (size // members for size in kernel.shape)
        rest = kernel.copy()
        for member in range(members):
            rest[member * rows : (member + 1) * rows, member * columns : (member + 1) * columns] = 0
        if rest.any():
            return None
    return widths


_PLANS: dict[type[Formula], Callable[[Any], Plan | None]] = {
    ConstantTemperature: _constant,
    NetworkTemperature: _network,
    Mixture: _mixture,
}
_READINGS: dict[type, tuple[int, tuple[str, ...]]] = {
    TopLogits: (0, ()),
    LogGaps: (1, ("unit", "smallest")),
    Margin: (2, ()),
    LogEntropy: (3, ("smallest",)),
}
_LINKS: dict[type, tuple[int, tuple[str, ...]]] = {
    ExponentialLink: (0, ("base", "reach")),
    AbsoluteLink: (1, ("smallest", "largest")),
}
