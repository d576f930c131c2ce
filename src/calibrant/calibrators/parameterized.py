"""Parameterized temperature scaling (Tomani, Cremers and Buettner, ECCV 2022)."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, ClassVar, Literal, Self

import numpy as np
from array_api_compat import array_namespace, is_numpy_array
from numpy.typing import NDArray

from calibrant._arrays import Array, InputKind
from calibrant._losses import LOSSES, ProfileLoss
from calibrant._numerics import top_k as largest
from calibrant._progress import reporter
from calibrant.calibrators import _network as network
from calibrant.calibrators import _newton_recipe, _paper_recipe
from calibrant.calibrators._base import TEMPERATURE_BOUNDS, TemperatureMap, best_temperature
from calibrant.profile import DEFAULT_TOP_K, TemperatureProfile

INPUT_CLIP = 100.0  # of the published code
DEFAULT_LOSS = {"auto": "mixed", "paper": "brier"}
DEFAULT_PENALTY = {"auto": 0.2, "paper": 0.0}


class ParameterizedTemperatureScaling(TemperatureMap):
    """A temperature for each row, from a small network on its largest logits. Preserves accuracy.

    Parameters
    ----------
    recipe
        ``"auto"`` fits all rows at once by damped Newton steps, started at temperature scaling
        and pulled towards it; ``"paper"`` is the published algorithm (Adam, 100,000 steps).
    hidden
        Widths of the hidden layers.
    top_k
        How many of the largest logits the network reads; at most the number of classes.
    loss
        ``"brier"``, ``"nll"`` or ``"mixed"`` (Brier + 0.2 NLL). ``"auto"``: ``"mixed"`` for the
        default recipe, ``"brier"`` for the paper's.
    penalty
        The pull towards temperature scaling. ``"auto"``: 0.2 for the default recipe (the sum of
        squares of the kernels for standardised inputs, over twice the number of rows), 0 for the
        paper's (there: the authors' weight decay).
    learning_rate, batch_size, steps
        Of the paper's recipe.
    clip_logits
        Follow the authors' code to the letter: clip the logits themselves to +-100, not only the
        network's inputs. Larger logits then tie, and accuracy may be lost.
    random_state
        A seed or a ``numpy.random.Generator``; None is the seed 0, so that a fit can be repeated.
    verbose
        Show progress on standard error where a fit takes more than a second.
    input
        What the scores are: ``"logits"`` or ``"probs"``.
    """

    _state = ("weights_", "link_", "base_temperature_", "input_range_")
    _linear: ClassVar[bool] = False

    def __init__(
        self,
        recipe: Literal["auto", "paper"] = "auto",
        hidden: Sequence[int] = (5, 5),
        top_k: int = DEFAULT_TOP_K,
        loss: str = "auto",
        penalty: float | str = "auto",
        learning_rate: float = 5e-5,
        batch_size: int = 1000,
        steps: int = 100_000,
        clip_logits: bool = False,
        random_state: int | np.random.Generator | None = None,
        verbose: bool = False,
        input: InputKind = "logits",  # noqa: A002
    ) -> None:
        self.recipe = recipe
        self.hidden = hidden
        self.top_k = top_k
        self.loss = loss
        self.penalty = penalty
        self.learning_rate = learning_rate
        self.batch_size = batch_size
        self.steps = steps
        self.clip_logits = clip_logits
        self.random_state = random_state
        self.verbose = verbose
        self.input = input

    @classmethod
    def from_weights(cls, weights: Sequence[Any], **parameters: Any) -> Self:
        """A fitted calibrator with the weights of the published code: W1, b1, W2, b2, W3, b3."""
        arrays = [np.asarray(part, np.float64) for part in weights]
        _check_weights(arrays)
        pts = cls(
            recipe="paper",
            hidden=tuple(len(bias) for bias in arrays[1:-2:2]),
            top_k=len(arrays[0]),
            **parameters,
        )
        pts.weights_, pts.link_, pts.base_temperature_ = arrays, "absolute", 1.0
        pts.input_range_ = _published_range(len(arrays[0]))
        pts.n_classes_ = len(arrays[0])
        pts.fit_info_ = {"converged": True, "message": "given weights"}
        return pts

    # --- fitting ---

    def _profile(self, scores: Any, labels: Any, sample_weight: Any) -> TemperatureProfile:
        self._check_parameters()
        if self.clip_logits:
            scores = array_namespace(scores).clip(scores, -INPUT_CLIP, INPUT_CLIP)
        return super()._profile(scores, labels, sample_weight)

    def _fit_profile(self, profile: TemperatureProfile) -> None:
        self._check_parameters()
        loss = DEFAULT_LOSS[self.recipe] if self.loss == "auto" else self.loss
        penalty = DEFAULT_PENALTY[self.recipe] if self.penalty == "auto" else float(self.penalty)
        rng = np.random.default_rng(0 if self.random_state is None else self.random_state)
        inputs = profile.top_logits(min(self.top_k, profile.n_classes))
        base = best_temperature(profile, loss, TEMPERATURE_BOUNDS).x
        with reporter(f"fitting {type(self).__name__}", self.verbose) as report:
            common = {"loss": loss, "penalty": penalty, "rng": rng, "linear": self._linear}
            if self.recipe == "paper":
                info = self._fit_paper(profile, inputs, common | {"report": report})
            else:
                info = self._fit_newton(profile, inputs, base, common | {"report": report})
        self._tell(profile, inputs, base, loss, info | {"penalty": penalty})

    def _fit_paper(
        self, profile: TemperatureProfile, inputs: NDArray[np.float64], common: dict[str, Any]
    ) -> dict[str, Any]:
        inputs = np.clip(inputs, -INPUT_CLIP, INPUT_CLIP)
        start, draws = _paper_recipe.draw_start(inputs, self.hidden, common["rng"], self._linear)
        self.weights_ = _paper_recipe.fit(
            profile,
            inputs,
            start,
            learning_rate=self.learning_rate,
            batch_size=self.batch_size,
            steps=self.steps,
            **common,
        )
        self.link_, self.base_temperature_ = "absolute", 1.0
        self.input_range_ = _published_range(inputs.shape[1])
        return {
            "converged": True,
            "message": f"{self.steps} steps done",
            "iterations": self.steps,
            "draws": draws,
        }

    def _fit_newton(
        self,
        profile: TemperatureProfile,
        inputs: NDArray[np.float64],
        base: float,
        common: dict[str, Any],
    ) -> dict[str, Any]:
        self.weights_, result = _newton_recipe.fit(
            profile, inputs, base, hidden=self.hidden, **common
        )
        self.link_, self.base_temperature_ = "exponential", base
        self.input_range_ = np.stack([inputs.min(axis=0), inputs.max(axis=0)])
        problem = ProfileLoss(profile, common["loss"])
        if problem.mean(-np.log(self._from_inputs(inputs))) > problem.mean(-np.log(base)):
            self.weights_[-2][:], self.weights_[-1][:] = 0.0, 0.0  # temperature scaling itself
        return {
            "converged": result.converged,
            "message": result.message,
            "iterations": result.iterations,
        }

    def _tell(
        self,
        profile: TemperatureProfile,
        inputs: NDArray[np.float64],
        base: float,
        loss: str,
        info: dict[str, Any],
    ) -> None:
        problem = ProfileLoss(profile, loss)
        self.fit_info_ = info | {
            "recipe": self.recipe,
            "loss": loss,
            "loss_before": problem.mean(0.0),
            "loss_temperature_scaling": problem.mean(-np.log(base)),
            "loss_after": problem.mean(-np.log(self._from_inputs(inputs))),
        }

    def _check_parameters(self) -> None:
        if self.recipe not in DEFAULT_LOSS:
            raise ValueError(f"recipe must be 'auto' or 'paper', got {self.recipe!r}")
        if self.loss != "auto" and self.loss not in LOSSES:
            raise ValueError(f"loss must be 'auto' or one of {sorted(LOSSES)}, got {self.loss!r}")
        if self.penalty != "auto" and not (
            isinstance(self.penalty, int | float) and 0.0 <= self.penalty < np.inf
        ):
            raise ValueError(f"penalty must be 'auto' or at least 0, got {self.penalty!r}")
        if any(width < 1 for width in self.hidden):
            raise ValueError(f"hidden widths must be at least 1, got {self.hidden}")
        for name in ("top_k", "batch_size", "steps"):
            if getattr(self, name) < 1:
                raise ValueError(f"{name} must be at least 1, got {getattr(self, name)}")

    # --- predicting ---

    def _check_classes(self, classes: int) -> None:
        inputs = len(self.weights_[0])
        if classes < inputs:
            raise ValueError(f"the network reads the top {inputs} logits, got {classes} classes")

    def _prepare(self, tile: Array, first_row: int = 0) -> Array:
        tile = super()._prepare(tile, first_row)
        if self.clip_logits:
            tile = array_namespace(tile).clip(tile, -INPUT_CLIP, INPUT_CLIP)
        return tile

    def _temperature(self, logits: Array) -> Array:
        return self._from_inputs(largest(logits, len(self.weights_[0])))

    def _from_inputs(self, inputs: Array) -> Array:
        """The temperatures of rows given by their largest logits, in any array namespace."""
        xp = array_namespace(inputs)
        if is_numpy_array(inputs):
            weights: Sequence[Array] = [w.astype(inputs.dtype) for w in self.weights_]
            low, high = self.input_range_.astype(inputs.dtype)
        else:
            place = {"dtype": inputs.dtype, "device": inputs.device}
            weights = [xp.asarray(w, **place) for w in self.weights_]
            low, high = xp.asarray(self.input_range_, **place)
        inputs = xp.minimum(xp.maximum(inputs, low), high)
        raw = network.forward(weights, inputs, self._linear)
        if self.link_ == "absolute":
            return _paper_recipe.absolute_temperature(raw, xp)
        return _newton_recipe.exponential_temperature(raw, self.base_temperature_, xp)


def _published_range(inputs: int) -> NDArray[np.float64]:
    return np.repeat([[-INPUT_CLIP], [INPUT_CLIP]], inputs, axis=1)


def _check_weights(arrays: list[NDArray[np.float64]]) -> None:
    shapes = [array.shape for array in arrays]
    rule = "weights must be W1 (k, h1), b1 (h1,), .., W (h, 1), b (1,)"
    if len(arrays) < 2 or len(arrays) % 2:
        raise ValueError(f"{rule}, got {len(arrays)} arrays")
    width = arrays[0].shape[0] if arrays[0].ndim == 2 else 0
    for kernel, bias in zip(arrays[::2], arrays[1::2], strict=True):
        if kernel.ndim != 2 or kernel.shape[0] != width or bias.shape != (kernel.shape[1],):
            raise ValueError(f"{rule}, got shapes {shapes}")
        width = kernel.shape[1]
    if width != 1:
        raise ValueError(f"{rule}, got shapes {shapes}")
