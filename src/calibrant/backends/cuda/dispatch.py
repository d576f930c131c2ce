"""Formulas by CUDA kernels: one more way of computing, for the formulas that have one.

``kernels`` holds them; this module knows which formula is computed by which, and is the one
place where a choice is made: wherever something is missing (a formula without a kernel, a tensor of
float64 or not on a GPU, gradients that are wanted, a graph that is traced, a machine without
NVIDIA's run-time compiler), the answer is None, and the caller computes as everywhere else.
"""

from __future__ import annotations

from collections.abc import Callable
from itertools import pairwise
from typing import TYPE_CHECKING, Any, Literal
from weakref import WeakKeyDictionary

import numpy as np
from numpy.typing import NDArray

from calibrant.common.arrays import has_kernels
from calibrant.common.types import Array
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

if TYPE_CHECKING:
    from torch import Tensor

    from calibrant.backends.cuda.kernels import Answer, Numbers, Plan

Output = Literal["probabilities", "log_probabilities", "confidence"]

MOST_TOP = 32  # the largest values of a row that a warp keeps: one per lane
MOST_LAYERS = 4
MOST_WEIGHTS = 5_000  # of all networks together: they lie in 48 kB of shared memory

# --- computing ----------------------------------------------------------------------------------


def fused(formula: Formula, logits: Array, output: Output) -> Answer | None:
    """A formula's output for rows of logits, which need not be valid.

    The results are (values,), or (labels, probabilities, temperatures), in float32. None where
    there is no kernel for it, or a row holds NaN or inf or nothing finite.
    """
    if not has_kernels(logits) or type(formula) not in _PLANNED:
        return None
    plan, numbers = _prepared(formula, logits.device)
    if plan is None or numbers is None or not can_compute(plan, logits, output):
        return None
    from calibrant.backends.cuda.kernels import calibrate

    return calibrate(plan, numbers, logits, output, check=True)


def fused_by_tensors(
    plan: Plan, fitted: Callable[[str], Tensor], logits: Tensor, output: Output
) -> tuple[Tensor, ...] | None:
    """The same with fitted numbers that are tensors already, for any leading dimensions.

    Nothing is refused: rows that are not valid give NaN. The host does not wait for the device.
    """
    if not has_kernels(logits) or not can_compute(plan, logits, output):
        return None
    tensors = [fitted(path) for path in plan.numbers]
    if any(one.requires_grad or one.device != logits.device for one in tensors):
        return None
    from calibrant.backends.cuda.kernels import Numbers, calibrate

    rows = logits.reshape(-1, logits.shape[-1])
    answer = calibrate(plan, Numbers(tensors), rows, output, check=False)
    if answer is None:
        return None
    return tuple(one.reshape(*logits.shape[:-1], *one.shape[1:]) for one in answer.results)


def can_compute(plan: Plan, logits: Tensor, output: Output) -> bool:
    """Whether a kernel may take the place of plain operations on this tensor, here and now."""
    import torch

    from calibrant.backends.cuda.kernels import INPUTS, MIXTURE

    return (
        type(logits) is torch.Tensor
        and logits.dtype in INPUTS
        and logits.numel() > 0
        and logits.shape[-1] >= plan.top
        and not (plan.formula == MIXTURE and output == "log_probabilities")
        and not (torch.is_grad_enabled() and logits.requires_grad)
        and not torch.compiler.is_compiling()
        and not torch._C._is_tracing()
        and not torch._C._are_functorch_transforms_active()
        and torch._C._len_torch_dispatch_stack() == 0
    )


Prepared = tuple["Plan", "Numbers"] | tuple[None, None]
_prepared_for: WeakKeyDictionary[Formula, dict[Any, Prepared]] = WeakKeyDictionary()


def _prepared(formula: Formula, device: Any) -> Prepared:
    """The plan of a formula, and its numbers on a device: made once."""
    devices = _prepared_for.setdefault(formula, {})
    if device not in devices:
        import torch

        from calibrant.backends.cuda.kernels import Numbers

        plan = plan_of(formula)
        devices[device] = (None, None)
        if plan is not None:
            tensors = [torch.tensor(one, device=device) for one in _numbers(formula, plan)]
            devices[device] = plan, Numbers(tensors)
    return devices[device]


def _numbers(formula: Formula, plan: Plan) -> list[NDArray[np.float64]]:
    """The fitted numbers that lie at the paths of a plan, as ``map_fields`` writes them."""
    numbers = []
    for path in plan.numbers:
        value: Any = formula
        for name in path.split("."):
            value = value[int(name)] if isinstance(value, tuple) else getattr(value, name)
        numbers.append(np.array(value, np.float64))
    return numbers


# --- plans --------------------------------------------------------------------------------------


def plan_of(formula: Formula) -> Plan | None:
    """The plan for a formula; None where it has no kernel."""
    if type(formula) not in _PLANNED or formula.needs:  # kernels read logits alone
        return None
    from calibrant.backends.cuda.kernels import CONSTANT, MIXTURE, Plan

    if isinstance(formula, NetworkTemperature):
        plan = _network(formula)
        return plan if plan is not None and plan.fits(_numbers(formula, plan)) else None
    if isinstance(formula, Mixture):
        return Plan(MIXTURE, ("temperature", "weights"))
    return Plan(CONSTANT, ("value",))


def _network(formula: NetworkTemperature) -> Plan | None:
    from calibrant.backends.cuda.kernels import NETWORK, Plan

    reading, link = _READINGS.get(type(formula.reading)), _LINKS.get(type(formula.link))
    if reading is None or link is None or formula.clip is not None:
        return None
    top = 0 if isinstance(formula.reading, LogEntropy) else formula.reading.fewest_classes
    # networks side by side, of equal widths
    layers, members = len(formula.kernels), len(formula.biases[-1])
    outputs = [len(bias) for bias in formula.biases]
    if top > MOST_TOP or layers > MOST_LAYERS or any(width % members for width in outputs):
        return None
    widths = [formula.reading.width, *(width // members for width in outputs)]
    if members * sum((a + 8) * b for a, b in pairwise(widths)) > MOST_WEIGHTS:
        return None
    network: dict[str, int | str] = {
        "READING": reading[0],
        "INPUTS": formula.reading.width,
        "MEMBERS": members,
        "LAYERS": layers,
        "WIDTHS": ",".join(map(str, widths)),
        "LINEAR": int(formula.linear),
        "LINK": link[0],
    }
    numbers = [f"reading.{name}" for name in reading[1]] + ["low", "high"]
    for layer in range(layers):
        numbers += [f"kernels.{layer}", f"biases.{layer}"]
    numbers += [f"link.{name}" for name in link[1]]
    return Plan(NETWORK, tuple(numbers), top, tuple(network.items()))


_PLANNED = (ConstantTemperature, Mixture, NetworkTemperature)
_READINGS: dict[type, tuple[int, tuple[str, ...]]] = {
    TopLogits: (0, ("origin",)),
    LogGaps: (1, ("unit", "smallest", "origin")),
    Margin: (2, ()),
    LogEntropy: (3, ("smallest",)),
}
_LINKS: dict[type, tuple[int, tuple[str, ...]]] = {
    ExponentialLink: (0, ("base", "reach")),
    AbsoluteLink: (1, ("smallest", "largest")),
}
