"""From a fitted calibrator to a module, and a model with its calibrator."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from torch import Tensor, nn

from calibrant.backends.torch._base import CalibratorModule, TemperatureModule
from calibrant.calibrators import Calibrator
from calibrant.calibrators._base import check_is_calibrator
from calibrant.common.errors import warn
from calibrant.formulas import TemperatureFormula
from calibrant.formulas.smoothed import unsmoothed


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
        if calibrator.input == "logits" and logits is None and _ends_in_softmax(model):
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
            What the model takes by keyword.

        Returns
        -------
        Tensor of shape (.., classes)
            The probabilities.
        """
        return self.calibrator(self.logits(self.model(*args, **kwargs)))


def _ends_in_softmax(model: nn.Module) -> bool:
    """Whether that is plain to see: a sequence tells what comes last."""
    while isinstance(model, nn.Sequential) and len(model):
        model = model[-1]
    return isinstance(model, nn.Softmax | nn.Softmax2d)


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
