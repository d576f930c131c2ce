"""Formulas as modules: one class computes them all."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Self, cast

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor, nn

from calibrant._curves import Curves
from calibrant._fused import Output, fused_by_tensors, plan_of
from calibrant._parts import map_fields
from calibrant._rows import log_odds
from calibrant._types import InputKind
from calibrant.formulas import Confidence, Formula, TemperatureFormula, confidence_of
from calibrant.torch._ops import BufferName, ModuleCurves, TorchOps, buffer_name

LARGE = 65_536  # elements from which on float32 is kept: another float would be cast on every call


class CalibratorModule(nn.Module):
    """A fitted calibrator as a module: scores in, calibrated probabilities of the same shape out.

    Made by ``to_module``. The scores are what the calibrator was fitted on: logits, where masked
    classes are -inf, or probabilities. It computes in float32 at least, under autocast too, and
    returns that float. All fitted numbers are buffers; ``.half()`` and the like move them but do
    not round them. Matrices of 65,536 elements and more are kept in float32, in which such maps
    are fitted.

    Parameters
    ----------
    formula : Formula
        What the fitted calibrator computes.
    kind : {"logits", "probs"}
        What the scores are.
    method : str
        The name of the calibrator's class, for printing.

    Examples
    --------
    >>> import torch
    >>> from calibrant.formulas import ConstantTemperature
    >>> module = CalibratorModule(ConstantTemperature(2.0), "logits", "TemperatureScaling")
    >>> module(torch.tensor([[2.0, 0.0]])).numpy().round(3)
    array([[0.731, 0.269]], dtype=float32)
    """

    def __init__(self, formula: Formula, kind: InputKind, method: str) -> None:
        super().__init__()
        self.method, self.input = method, kind
        self._fewest, self._classes = formula.fewest_classes, formula.n_classes
        self._keeps_arg_max = formula.keeps_arg_max
        self._plan = plan_of(formula)
        self._formula = cast("Formula", map_fields(formula, self._kept))

    def forward(self, scores: Tensor) -> Tensor:
        """Compute calibrated probabilities.

        Parameters
        ----------
        scores : Tensor of shape (.., classes)
            What the calibrator was fitted on: logits or probabilities.

        Returns
        -------
        Tensor of shape (.., classes)
            The probabilities, in float32 or float64.

        Raises
        ------
        ValueError
            Where the number of classes is not that of the fit.
        """
        kernel = self._by_kernel(scores, "probabilities")
        if kernel is not None:
            return kernel[0]
        with _full_precision(scores):
            logits = self._logits(scores)
            return cast("Tensor", self._formula.probabilities(logits, self._ops))

    def log_proba(self, scores: Tensor) -> Tensor:
        """Compute the logarithms of the calibrated probabilities.

        Parameters
        ----------
        scores : Tensor of shape (.., classes)
            What the calibrator was fitted on: logits or probabilities.

        Returns
        -------
        Tensor of shape (.., classes)
            The logarithms in float32 or float64, finite where a probability is too small for its
            own float.
        """
        kernel = self._by_kernel(scores, "log_probabilities")
        if kernel is not None:
            return kernel[0]
        with _full_precision(scores):
            logits = self._logits(scores)
            return cast("Tensor", self._formula.log_probabilities(logits, self._ops))

    def confidence(self, scores: Tensor) -> Confidence:
        """Compute the predicted class of each row and its probability alone.

        Parameters
        ----------
        scores : Tensor of shape (.., classes)
            What the calibrator was fitted on: logits or probabilities.

        Returns
        -------
        label : Tensor of shape (..)
            The class.
        probability : Tensor of shape (..)
            Its calibrated probability.
        temperature : Tensor of shape (..), or None
            The row's temperature, where the method has one.
        """
        kernel = self._by_kernel(scores, "confidence")
        if kernel is not None:
            label, probability, temperature = kernel
            has_temperature = isinstance(self._formula, TemperatureFormula)
            return Confidence(label, probability, temperature if has_temperature else None)
        with _full_precision(scores):
            logits = self._logits(scores)
            return confidence_of(self._formula, logits, self._ops, self._keeps_arg_max)

    def _by_kernel(self, scores: Tensor, output: Output) -> tuple[Tensor, ...] | None:
        """The result of one fused kernel, where there is one for this method and this tensor."""
        if self._plan is None or self.input != "logits" or torch.compiler.is_compiling():
            return None
        self._check_classes(scores.shape[-1])
        return fused_by_tensors(self._plan, self._ops.fitted, scores, output)

    @property
    def _ops(self) -> TorchOps:
        """Made anew for every call: a replica of the module has buffers of its own."""
        return TorchOps(self._buffers)

    def extra_repr(self) -> str:
        """Describe the module for ``print``.

        Returns
        -------
        str
            The method and what it takes.
        """
        return f"{self.method}, input={self.input!r}"

    def _logits(self, scores: Tensor) -> Tensor:
        self._check_classes(scores.shape[-1])
        if not scores.dtype.is_floating_point:
            scores = scores.double()
        elif scores.dtype not in (torch.float32, torch.float64):
            scores = scores.float()
        return cast("Tensor", log_odds(scores, self._ops)) if self.input == "probs" else scores

    def _check_classes(self, classes: int) -> None:
        if classes < self._fewest:
            raise ValueError(
                f"the calibrator reads the top {self._fewest} logits, got {classes} classes"
            )
        if self._classes is not None and classes != self._classes:
            raise ValueError(f"fitted with {self._classes} classes, got {classes}")

    # --- the formula's numbers as buffers ---

    def _kept(self, path: str, value: Any) -> Any:
        """Store a field of the formula as a buffer."""
        if isinstance(value, Curves):
            padded = value.padded
            for name, array in vars(padded).items():
                if array is not None:
                    self._store(f"{path}.{name}", array)
            return ModuleCurves(path, padded)
        array = np.asarray(value)
        large = array.size >= LARGE and array.ndim == 2
        self._store(path, array.astype(np.float32) if large else array)
        return BufferName(path, array.shape)

    def _store(self, path: str, values: NDArray[Any]) -> None:
        self.register_buffer(buffer_name(path), torch.from_numpy(np.array(values)))

    def _load_from_state_dict(self, *args: Any, **kwargs: Any) -> None:
        super()._load_from_state_dict(*args, **kwargs)
        if self._plan is not None:
            ops = self._ops
            numbers = [ops.fitted(path).cpu().numpy() for path in self._plan.numbers]
            self._plan = self._plan if self._plan.fits(numbers) else None

    def _apply(self, fn: Callable[[Tensor], Tensor], recurse: bool = True) -> Self:
        """Move buffers, but leave their floats: a calibrator in float16 is another calibrator."""
        for name, buffer in self._buffers.items():
            if buffer is not None:
                moved = fn(buffer)
                same = moved.dtype == buffer.dtype
                self._buffers[name] = moved if same else buffer.to(moved.device)
        return self


class TemperatureModule(CalibratorModule):
    """A module of a method that divides logits by temperatures: softmax(z / T).

    Parameters
    ----------
    formula : TemperatureFormula
        What the fitted calibrator computes.
    kind : {"logits", "probs"}
        What the scores are.
    method : str
        The name of the calibrator's class, for printing.
    """

    def temperature(self, scores: Tensor) -> Tensor:
        """Compute the temperature of each row.

        Parameters
        ----------
        scores : Tensor of shape (.., classes)
            What the calibrator was fitted on: logits or probabilities.

        Returns
        -------
        Tensor
            One temperature per row: the shape of the scores without their last dimension.
        """
        kernel = self._by_kernel(scores, "confidence")
        if kernel is not None:
            return kernel[2]
        with _full_precision(scores):
            logits = self._logits(scores)
            formula = cast("TemperatureFormula", self._formula)
            return cast("Tensor", formula.row_temperatures(logits, self._ops))


def _full_precision(scores: Tensor) -> torch.autocast:
    return torch.autocast(scores.device.type, enabled=False)
