"""From a fitted calibrator to a module, and a model with its calibrator."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from torch import Tensor, nn

from calibrant import _plan
from calibrant.calibrators import Calibrator
from calibrant.torch._affine import AffineModule
from calibrant.torch._base import CalibratorModule
from calibrant.torch._increasing import IncreasingModule
from calibrant.torch._tables import SharedMapModule
from calibrant.torch._temperatures import (
    ConstantTemperatureModule,
    MixtureModule,
    NetworkTemperatureModule,
)
from calibrant.torch._top_label import TopLabelModule
from calibrant.torch._two_classes import TwoClassModule


def to_module(calibrator: Calibrator) -> CalibratorModule:
    """The calibrator as a module: scores (.., classes) -> probabilities of the same shape.

    For the methods that preserve accuracy and the affine ones. ``log_proba`` gives the logarithms
    and, where the method has one, ``temperature`` the temperature of each row.
    """
    plan = _plan.plan(calibrator)
    match plan.formula:
        case _plan.ConstantTemperature() as formula:
            return ConstantTemperatureModule(plan, formula)
        case _plan.NetworkTemperature() as formula:
            return NetworkTemperatureModule(plan, formula)
        case _plan.Mixture() as formula:
            return MixtureModule(plan, formula)
        case _plan.AffineMap() as formula:
            return AffineModule(plan, formula)
        case _plan.IncreasingLogits() as formula:
            return IncreasingModule(plan, formula)
        case _plan.ColumnMap(keep_arg_max=True) as formula:
            return SharedMapModule(plan, formula)
        case _plan.TopLabelMap() as formula:
            return TopLabelModule(plan, formula)
        case _plan.TwoClassMap() as formula:
            return TwoClassModule(plan, formula)
    raise TypeError(
        f"{plan.method} has no module: to_module takes the methods that preserve accuracy and the "
        "affine ones. calibrant.onnx.export writes it as a graph"
    )


class CalibratedModule(nn.Module):
    """A model and its calibrator: what the model takes in, calibrated probabilities out.

    ``model`` may return logits, or anything with a ``logits`` attribute or key, as the models of
    transformers do; ``logits=`` is a function that takes them from any other output.
    """

    def __init__(
        self,
        model: nn.Module,
        calibrator: Calibrator | CalibratorModule,
        logits: Callable[[Any], Tensor] | None = None,
    ) -> None:
        super().__init__()
        self.model = model
        if not isinstance(calibrator, CalibratorModule):
            calibrator = to_module(calibrator)
        self.calibrator = calibrator
        self.logits = logits_of if logits is None else logits

    def forward(self, *args: Any, **kwargs: Any) -> Tensor:
        """Calibrated probabilities (.., classes)."""
        return self.calibrator(self.logits(self.model(*args, **kwargs)))


def logits_of(output: Any) -> Tensor:
    """The logits in what a model returned."""
    if isinstance(output, Tensor):
        return output
    logits = output.get("logits") if isinstance(output, Mapping) else None
    logits = getattr(output, "logits", None) if logits is None else logits
    if isinstance(logits, Tensor):
        return logits
    raise TypeError(
        f"a model must return logits, or an output with .logits, got {type(output).__name__}: "
        "say how to take them with logits="
    )
