"""Calibrators as modules: one class computes all formulas, one joins a model and its calibrator."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, Literal, Self, cast

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor, nn

from calibrant.backends.cuda.dispatch import Output, fused_by_tensors, plan_of
from calibrant.backends.torch._ops import BufferName, ModuleCurves, TorchOps, buffer_name
from calibrant.calibrators import Calibrator
from calibrant.calibrators._base import check_is_calibrator
from calibrant.common.docstrings import documented
from calibrant.common.errors import warn
from calibrant.common.types import InputKind
from calibrant.data.checks import class_axis_of
from calibrant.data.likely_mistakes import warn_if_probabilities
from calibrant.formulas import Confidence, Formula, FormulaRows, TemperatureFormula, confidence_of
from calibrant.formulas._curves import Curves
from calibrant.formulas._row_functions import ordered_log_odds
from calibrant.formulas._serialization import map_fields
from calibrant.formulas.composition import unsmoothed

ModuleOutput = Output | Literal["row_temperatures"]
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
        reads_covariates = "covariates" in formula.needs
        self._covariate_names = formula.covariate_names if reads_covariates else None
        self._unseen = kind == "logits"  # what kind of scores come has not been looked at
        self._plan = plan_of(formula)
        self._formula: Formula = map_fields(formula, self._kept)

    @documented
    def forward(self, scores: Tensor, covariates: Tensor | None = None) -> Tensor:
        """Compute calibrated probabilities.

        Parameters
        ----------
        {module_scores}
        {module_covariates}

        Returns
        -------
        Tensor of the same shape
            The probabilities, in float32 or float64.

        Raises
        ------
        ValueError
            Where the number of classes is not that of the fit, another dimension than the last
            one of an image may be the classes, or the covariates are not those of the fit.
        """
        return cast("Tensor", self._computed(scores, covariates, "probabilities"))

    @documented
    def log_proba(self, scores: Tensor, covariates: Tensor | None = None) -> Tensor:
        """Compute the logarithms of the calibrated probabilities.

        Parameters
        ----------
        {module_scores}
        {module_covariates}

        Returns
        -------
        Tensor of the same shape
            The logarithms in float32 or float64, finite where a probability is too small for its
            own float.
        """
        return cast("Tensor", self._computed(scores, covariates, "log_probabilities"))

    @documented
    def confidence(self, scores: Tensor, covariates: Tensor | None = None) -> Confidence:
        """Compute the predicted class of each row and its probability alone.

        Parameters
        ----------
        {module_scores}
        {module_covariates}

        Returns
        -------
        label : Tensor of shape (..)
            The class.
        probability : Tensor of shape (..)
            Its calibrated probability.
        temperature : Tensor of shape (..), or None
            The row's temperature, where the method has one.
        """
        return cast("Confidence", self._computed(scores, covariates, "confidence"))

    def _computed(self, scores: Tensor, covariates: Tensor | None, output: ModuleOutput) -> Any:
        """An output of the formula: by one fused kernel where there is one, else by operations."""
        scores, axis = self._accepted(scores, covariates)
        kernel = None
        readable = self.input == "logits" and not torch.compiler.is_compiling()
        if self._plan is not None and readable:
            wanted: Output = "confidence" if output == "row_temperatures" else output
            kernel = fused_by_tensors(self._plan, self._ops.fitted, scores, wanted)
        if kernel is not None and output == "confidence":
            label, probability, temperature = kernel
            has_temperature = isinstance(self._formula, TemperatureFormula)
            return Confidence(label, probability, temperature if has_temperature else None)
        if kernel is not None:
            values = kernel[2 if output == "row_temperatures" else 0]
        else:
            with torch.autocast(scores.device.type, enabled=False):
                rows, ops = self._rows(scores, covariates), self._ops
                if output == "confidence":
                    return confidence_of(self._formula, rows, ops, self._keeps_arg_max)
                values = getattr(self._formula, output)(rows, ops)
        # temperatures have no classes to put back
        return values if axis == -1 or output == "row_temperatures" else values.movedim(-1, axis)

    def _accepted(self, scores: Tensor, covariates: Tensor | None) -> tuple[Tensor, int]:
        """The scores with the classes last, and where they have been; other shapes are refused."""
        axis = class_axis_of(scores.shape, self.n_classes, self.class_axis)
        if scores.shape[axis] < self._fewest:
            raise ValueError(
                f"the calibrator reads the top {self._fewest} logits, got {scores.shape[axis]} "
                "classes"
            )
        scores = scores if axis == -1 else scores.movedim(axis, -1)
        names = self._covariate_names
        if (covariates is None) != (names is None):
            rule = "was fitted without" if names is None else "needs"
            raise ValueError(f"the calibrator {rule} covariates")
        if covariates is not None and names is not None:
            expected = (*scores.shape[:-1], len(names))
            if tuple(covariates.shape) != expected:
                raise ValueError(
                    f"the covariates {', '.join(names)} of these scores must have shape "
                    f"{expected}, got {tuple(covariates.shape)}"
                )
        return scores, axis

    def _rows(self, scores: Tensor, covariates: Tensor | None) -> FormulaRows:
        """What the formula reads: the logits of scores with the classes last, and covariates."""
        if self._unseen and not torch.compiler.is_compiling():
            self._look_at(scores)
        if not scores.dtype.is_floating_point:
            scores = scores.double()
        elif scores.dtype not in (torch.float32, torch.float64):
            scores = scores.float()
        if self.input == "probs":
            scores = cast("Tensor", ordered_log_odds(scores, self._ops))
        return FormulaRows(scores, None if covariates is None else covariates.to(scores.dtype))

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
    """A module of a method that divides logits by temperatures: softmax(z / T)."""

    @documented
    def temperature(self, scores: Tensor, covariates: Tensor | None = None) -> Tensor:
        """Compute the temperature of each row.

        Parameters
        ----------
        {module_scores}
        {module_covariates}

        Returns
        -------
        Tensor
            One temperature per row: the shape of the scores without the classes.
        """
        return cast("Tensor", self._computed(scores, covariates, "row_temperatures"))


def to_module(calibrator: Calibrator, class_axis: int | None = None) -> CalibratorModule:
    """Turn a fitted calibrator into a PyTorch module.

    Parameters
    ----------
    calibrator : Calibrator
        A fitted calibrator of any method.
    class_axis : int, optional
        The dimension of the classes: 1 for the scores (batch, classes, height, width) of a
        segmentation model. None is the last one.

    Returns
    -------
    CalibratorModule
        Scores (.., classes) in, probabilities of the same shape out. ``log_proba`` gives the
        logarithms and, where the method has one, ``temperature`` the temperature of each row.
        The number of classes must be that of the fit.

    Raises
    ------
    TypeError
        Where it is no calibrator of calibrant.
    sklearn.exceptions.NotFittedError
        Where it is not fitted.

    Examples
    --------
    >>> import calibrant, torch
    >>> ts = calibrant.TS().fit([[4.0, 0.0], [3.0, 0.0], [5.0, 0.0]], [0, 0, 1])
    >>> module = to_module(ts)
    >>> round(module.temperature(torch.zeros(1, 2)).item(), 2)
    12.37
    >>> to_module(ts, class_axis=1)(torch.zeros(1, 2, 16, 16)).shape
    torch.Size([1, 2, 16, 16])
    """
    check_is_calibrator(calibrator)
    formula, name = calibrator.formula_, type(calibrator).__name__
    has_temperature = isinstance(unsmoothed(formula), TemperatureFormula)
    kind = TemperatureModule if has_temperature else CalibratorModule
    return kind(formula, calibrator.input_, name, calibrator.n_classes_, class_axis)


class CalibratedModule(nn.Module):
    """A model and its calibrator: what the model takes in, calibrated probabilities out.

    Parameters
    ----------
    model : torch.nn.Module
        It may return logits, or anything with a ``logits`` attribute or key, as the models of
        transformers do.
    calibrator : Calibrator or CalibratorModule
        A fitted calibrator, or its module.
    logits : callable, optional
        A function that takes the logits from any other output of the model.

    Raises
    ------
    TypeError
        Where ``calibrator`` is neither.

    Warns
    -----
    CalibrationWarning
        Where the calibrator reads logits and the model is a sequence that ends in a softmax.

    Examples
    --------
    >>> import calibrant, torch
    >>> ts = calibrant.TS().fit([[4.0, 0.0], [3.0, 0.0], [5.0, 0.0]], [0, 0, 1])
    >>> model = CalibratedModule(torch.nn.Linear(3, 2), ts)
    >>> model(torch.zeros(4, 3)).shape
    torch.Size([4, 2])
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
        last: nn.Module = model
        while isinstance(last, nn.Sequential) and len(last):  # which tells what comes last
            last = last[-1]
        ends_in_softmax = isinstance(last, nn.Softmax | nn.Softmax2d)
        if calibrator.input == "logits" and logits is None and ends_in_softmax:
            warn(
                "the calibrator reads logits, but the model ends in a softmax: leave that out, as "
                'in model[:-1], or fit with input="probs"'
            )
        self.calibrator = calibrator
        self.logits = logits_of if logits is None else logits

    def forward(self, *args: Any, **kwargs: Any) -> Tensor:
        """Compute calibrated probabilities.

        Parameters
        ----------
        *args : tuple
            What the model takes.
        **kwargs : dict
            What the model takes by keyword. Where the calibrator was fitted with covariates,
            ``covariates`` goes to it, and not to the model.

        Returns
        -------
        Tensor of shape (.., classes)
            The probabilities.
        """
        own = {}
        if self.calibrator._covariate_names is not None:
            own["covariates"] = kwargs.pop("covariates", None)
        return cast("Tensor", self.calibrator(self.logits(self.model(*args, **kwargs)), **own))


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
