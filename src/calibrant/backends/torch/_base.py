"""Formulas as modules: one class computes them all."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Self, cast

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor, nn

from calibrant.backends.cuda.dispatch import Output, fused_by_tensors, plan_of
from calibrant.backends.torch._ops import BufferName, ModuleCurves, TorchOps, buffer_name
from calibrant.common.types import InputKind
from calibrant.data.checks import class_axis_of
from calibrant.data.likely_mistakes import warn_if_probabilities
from calibrant.formulas import Confidence, Formula, FormulaRows, TemperatureFormula, confidence_of
from calibrant.formulas._curves import Curves
from calibrant.formulas._row_functions import ordered_log_odds
from calibrant.formulas._serialization import map_fields

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
    n_classes : int, optional
        The number of classes that it takes; None is any number that the formula takes.
    class_axis : int, optional
        The dimension of the classes; None is the last one.

    Examples
    --------
    >>> import torch
    >>> from calibrant.formulas import ConstantTemperature
    >>> module = CalibratorModule(ConstantTemperature(2.0), "logits", "TemperatureScaling")
    >>> module(torch.tensor([[2.0, 0.0]])).numpy().round(3)
    array([[0.731, 0.269]], dtype=float32)
    """

    def __init__(
        self,
        formula: Formula,
        kind: InputKind,
        method: str,
        n_classes: int | None = None,
        class_axis: int | None = None,
    ) -> None:
        super().__init__()
        self.method, self.input, self.class_axis = method, kind, class_axis
        self.n_classes = formula.n_classes if n_classes is None else n_classes
        self._fewest, self._keeps_arg_max = formula.fewest_classes, formula.keeps_arg_max
        self._needs = formula.needs
        self._unseen = kind == "logits"  # what kind of scores come has not been looked at
        self._plan = plan_of(formula)
        self._formula = cast("Formula", map_fields(formula, self._kept))

    def forward(self, scores: Tensor, covariates: Tensor | None = None) -> Tensor:
        """Compute calibrated probabilities.

        Parameters
        ----------
        scores : Tensor of shape (.., classes)
            What the calibrator was fitted on: logits or probabilities. With ``class_axis`` the
            classes are that dimension.
        covariates : Tensor of shape (.., columns), optional
            For a calibrator that was fitted with covariates, in the order of the fit.

        Returns
        -------
        Tensor of the same shape
            The probabilities, in float32 or float64.

        Raises
        ------
        ValueError
            Where the number of classes is not that of the fit, or another dimension than the last
            one of an image may be the classes.
        """
        scores, axis = self._classes_last(scores)
        kernel = self._by_kernel(scores, "probabilities")
        if kernel is not None:
            return _moved(kernel[0], -1, axis)
        with _full_precision(scores):
            rows = self._rows(scores, covariates)
            probs = cast("Tensor", self._formula.probabilities(rows, self._ops))
            return _moved(probs, -1, axis)

    def log_proba(self, scores: Tensor, covariates: Tensor | None = None) -> Tensor:
        """Compute the logarithms of the calibrated probabilities.

        Parameters
        ----------
        scores : Tensor of shape (.., classes)
            What the calibrator was fitted on: logits or probabilities. With ``class_axis`` the
            classes are that dimension.
        covariates : Tensor of shape (.., columns), optional
            For a calibrator that was fitted with covariates, in the order of the fit.

        Returns
        -------
        Tensor of the same shape
            The logarithms in float32 or float64, finite where a probability is too small for its
            own float.
        """
        scores, axis = self._classes_last(scores)
        kernel = self._by_kernel(scores, "log_probabilities")
        if kernel is not None:
            return _moved(kernel[0], -1, axis)
        with _full_precision(scores):
            rows = self._rows(scores, covariates)
            logs = cast("Tensor", self._formula.log_probabilities(rows, self._ops))
            return _moved(logs, -1, axis)

    def confidence(self, scores: Tensor, covariates: Tensor | None = None) -> Confidence:
        """Compute the predicted class of each row and its probability alone.

        Parameters
        ----------
        scores : Tensor of shape (.., classes)
            What the calibrator was fitted on: logits or probabilities. With ``class_axis`` the
            classes are that dimension.
        covariates : Tensor of shape (.., columns), optional
            For a calibrator that was fitted with covariates, in the order of the fit.

        Returns
        -------
        label : Tensor of shape (..)
            The class.
        probability : Tensor of shape (..)
            Its calibrated probability.
        temperature : Tensor of shape (..), or None
            The row's temperature, where the method has one.
        """
        scores, _ = self._classes_last(scores)
        kernel = self._by_kernel(scores, "confidence")
        if kernel is not None:
            label, probability, temperature = kernel
            has_temperature = isinstance(self._formula, TemperatureFormula)
            return Confidence(label, probability, temperature if has_temperature else None)
        with _full_precision(scores):
            rows = self._rows(scores, covariates)
            return confidence_of(self._formula, rows, self._ops, self._keeps_arg_max)

    def _by_kernel(self, scores: Tensor, output: Output) -> tuple[Tensor, ...] | None:
        """The result of one fused kernel, where there is one for this method and this tensor."""
        if self._plan is None or self.input != "logits" or torch.compiler.is_compiling():
            return None
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
        place = "" if self.class_axis is None else f", class_axis={self.class_axis}"
        return f"{self.method}, input={self.input!r}{place}"

    def _classes_last(self, scores: Tensor) -> tuple[Tensor, int]:
        """The scores with the classes last, and where they have been."""
        axis = class_axis_of(scores.shape, self.n_classes, self.class_axis)
        if scores.shape[axis] < self._fewest:
            raise ValueError(
                f"the calibrator reads the top {self._fewest} logits, got {scores.shape[axis]} "
                "classes"
            )
        return _moved(scores, axis, -1), axis

    def _rows(self, scores: Tensor, covariates: Tensor | None) -> FormulaRows:
        """What the formula reads: the logits of scores with the classes last, and covariates."""
        if (covariates is None) == ("covariates" in self._needs):
            rule = "needs covariates" if covariates is None else "was fitted without covariates"
            raise ValueError(f"the calibrator {rule}")
        if self._unseen and not torch.compiler.is_compiling():
            self._look_at(scores)
        if not scores.dtype.is_floating_point:
            scores = scores.double()
        elif scores.dtype not in (torch.float32, torch.float64):
            scores = scores.float()
        if self.input == "probs":
            scores = cast("Tensor", ordered_log_odds(scores, self._ops))
        return FormulaRows(scores, None if covariates is None else covariates.to(scores.dtype))

    def _look_at(self, scores: Tensor) -> None:
        """Warn of probabilities, once, where their values can be read without waiting."""
        tracing = torch.jit.is_tracing()  # type: ignore[attr-defined, no-untyped-call]
        if tracing or scores.device.type != "cpu" or not scores.numel():
            return
        self._unseen = False
        rows = scores.detach()
        rows = rows[None] if rows.ndim == 1 else rows[(0,) * (rows.ndim - 2)]
        try:
            warn_if_probabilities(rows.numpy(), fitted=True)
        except (RuntimeError, TypeError):  # inside a transform such as vmap there are no values
            return

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
    n_classes : int, optional
        The number of classes that it takes; None is any number that the formula takes.
    class_axis : int, optional
        The dimension of the classes; None is the last one.
    """

    def temperature(self, scores: Tensor, covariates: Tensor | None = None) -> Tensor:
        """Compute the temperature of each row.

        Parameters
        ----------
        scores : Tensor of shape (.., classes)
            What the calibrator was fitted on: logits or probabilities. With ``class_axis`` the
            classes are that dimension.
        covariates : Tensor of shape (.., columns), optional
            For a calibrator that was fitted with covariates, in the order of the fit.

        Returns
        -------
        Tensor
            One temperature per row: the shape of the scores without the classes.
        """
        scores, _ = self._classes_last(scores)
        kernel = self._by_kernel(scores, "confidence")
        if kernel is not None:
            return kernel[2]
        with _full_precision(scores):
            rows = self._rows(scores, covariates)
            formula = cast("TemperatureFormula", self._formula)
            return cast("Tensor", formula.row_temperatures(rows, self._ops))


def _moved(values: Tensor, axis: int, to: int) -> Tensor:
    return values if axis == to else values.movedim(axis, to)


def _full_precision(scores: Tensor) -> torch.autocast:
    return torch.autocast(scores.device.type, enabled=False)
