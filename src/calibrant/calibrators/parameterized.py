"""Parameterized temperature scaling (Tomani, Cremers and Buettner, ECCV 2022)."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, ClassVar, Literal, Self

import numpy as np
from array_api_compat import array_namespace
from numpy.typing import NDArray

from calibrant._arrays import Array, InputKind, as_scores
from calibrant._numerics import top_k as largest
from calibrant._progress import reporter
from calibrant.calibrators import _network as network
from calibrant.calibrators import _paper_recipe
from calibrant.calibrators._adaptive import (
    DEFAULT_LOSS,
    DEFAULT_MEMBERS,
    AdaptiveTemperature,
    is_number,
)
from calibrant.profile import DEFAULT_TOP_K, TemperatureProfile

INPUT_CLIP = 100.0  # of the published code
SMALLEST_GAP = 0.3  # temperatures: gaps below this are all alike to the logarithm
RECIPE_LOSS = {"auto": DEFAULT_LOSS, "paper": "brier"}


class ParameterizedTemperatureScaling(AdaptiveTemperature):
    """A temperature for each row, from a small network on its largest logits. Preserves accuracy.

    Parameters
    ----------
    recipe
        ``"auto"`` averages a few networks fitted on all rows at once, started at temperature
        scaling and pulled towards it; ``"paper"`` is the published algorithm (one network, Adam,
        100,000 steps).
    hidden
        Widths of the hidden layers.
    top_k
        How many of the largest logits a network reads; at most the number of classes.
    inputs
        What a network reads of them: ``"logits"`` themselves, as in the paper, or ``"log-gaps"``:
        the largest logit and log(0.3 + gap / T) for its gaps to the others, T being the best
        single temperature. ``"auto"``: ``"log-gaps"`` for the default recipe (docs/pts-study.md
        has the evidence), ``"logits"`` for the paper's.
    loss
        ``"brier"``, ``"nll"`` or ``"mixed"`` (Brier + 0.2 NLL). ``"auto"``: ``"mixed"`` for the
        default recipe, ``"brier"`` for the paper's.
    penalty
        The pull towards temperature scaling. ``"auto"`` chooses it by the leave-one-out loss,
        temperature scaling itself and the identity among the candidates; a number is a prior that
        weighs as much as that many rows. With the paper's recipe: the authors' weight decay, and
        ``"auto"`` is 0.
    members
        How many networks the default recipe averages.
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

    Attributes
    ----------
    weights_
        W1, b1, W2, b2, .., each with a leading axis over the averaged networks.
    fit_info_
        How the fit went: the losses, and for the default recipe the path of penalties with their
        leave-one-out losses and the choice.
    """

    _state = (*AdaptiveTemperature._state, "link_", "gap_unit_")
    gap_unit_: float | None  # None where the inputs are the logits themselves
    _linear: ClassVar[bool] = False
    _default_inputs: ClassVar[str] = "log-gaps"

    def __init__(
        self,
        recipe: Literal["auto", "paper"] = "auto",
        hidden: Sequence[int] = (5, 5),
        top_k: int = DEFAULT_TOP_K,
        inputs: str = "auto",
        loss: str = "auto",
        penalty: float | str = "auto",
        members: int = DEFAULT_MEMBERS,
        learning_rate: float = 5e-5,
        batch_size: int = 1000,
        steps: int = 100_000,
        clip_logits: bool = False,
        random_state: int | np.random.Generator | None = None,
        verbose: bool = False,
        input: InputKind = "logits",  # noqa: A002
    ) -> None:
        super().__init__(hidden, loss, penalty, members, random_state, verbose, input)
        self.recipe = recipe
        self.top_k = top_k
        self.inputs = inputs
        self.learning_rate = learning_rate
        self.batch_size = batch_size
        self.steps = steps
        self.clip_logits = clip_logits

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
        pts._set_published(arrays)
        pts.n_classes_ = len(arrays[0])
        pts.fit_info_ = {"converged": True, "message": "given weights"}
        return pts

    def _set_published(self, weights: Sequence[NDArray[np.float64]]) -> None:
        self.weights_ = [part[None] for part in weights]
        self.link_, self.base_temperature_, self.gap_unit_ = "absolute", 1.0, None
        self.input_range_ = np.repeat([[-INPUT_CLIP], [INPUT_CLIP]], len(weights[0]), axis=1)

    # --- fitting ---

    def _profile(self, scores: Any, labels: Any, sample_weight: Any) -> TemperatureProfile:
        self._check_parameters()
        if self.clip_logits:
            scores = as_scores(scores, self.input)
            scores = array_namespace(scores).clip(scores, -INPUT_CLIP, INPUT_CLIP)
        return super()._profile(scores, labels, sample_weight)

    def _fit_profile(self, profile: TemperatureProfile) -> None:
        self._check_parameters()
        if self.recipe == "paper":
            self._fit_paper(profile)
        else:
            self.link_ = "exponential"
            super()._fit_profile(profile)
        self.fit_info_["recipe"] = self.recipe

    def _learn_inputs(self, base_temperature: float) -> None:
        inputs = self._default_inputs if self.inputs == "auto" else self.inputs
        self.gap_unit_ = None if inputs == "logits" else base_temperature

    def _fit_paper(self, profile: TemperatureProfile) -> None:
        top = profile.top_logits(min(self.top_k, profile.n_classes))
        inputs = np.clip(top, -INPUT_CLIP, INPUT_CLIP)
        rng = self._rng()
        start, draws = _paper_recipe.draw_start(inputs, self.hidden, rng, self._linear)
        with reporter(f"fitting {type(self).__name__}", self.verbose) as report:
            weights = _paper_recipe.fit(
                profile,
                inputs,
                start,
                loss=self._loss_name(),
                penalty=0.0 if self.penalty == "auto" else float(self.penalty),
                learning_rate=self.learning_rate,
                batch_size=self.batch_size,
                steps=self.steps,
                rng=rng,
                linear=self._linear,
                report=report,
            )
        self._set_published(weights)
        self.fit_info_ = {
            "converged": True,
            "message": f"{self.steps} steps done",
            "iterations": self.steps,
            "draws": draws,
        }
        self._tell_losses(profile, inputs)

    def _loss_name(self) -> str:
        return RECIPE_LOSS[self.recipe] if self.loss == "auto" else self.loss

    def _check_parameters(self) -> None:
        if self.recipe not in RECIPE_LOSS:
            raise ValueError(f"recipe must be 'auto' or 'paper', got {self.recipe!r}")
        if self.inputs not in ("auto", "logits", "log-gaps"):
            raise ValueError(f"inputs must be 'auto', 'logits' or 'log-gaps', got {self.inputs!r}")
        if self.recipe == "paper" and self.inputs == "log-gaps":
            raise ValueError("recipe='paper' reads the logits themselves, got inputs='log-gaps'")
        super()._check_parameters()
        self._check_counts("top_k", "batch_size", "steps")
        if not (is_number(self.learning_rate) and 0.0 < self.learning_rate < np.inf):
            rule = "learning_rate must be a positive number"
            raise ValueError(f"{rule}, got {self.learning_rate!r}")

    def _profile_inputs(self, profile: TemperatureProfile) -> NDArray[np.float64]:
        return self._features(profile.top_logits(min(self.top_k, profile.n_classes)))

    def _features(self, top: Array) -> Array:
        """What the network reads of a row's largest logits."""
        if self.gap_unit_ is None:
            return top
        xp = array_namespace(top)
        gaps = xp.log((top[:, :1] - top[:, 1:]) / self.gap_unit_ + SMALLEST_GAP)
        return xp.concat([top[:, :1], gaps], axis=1)

    # --- predicting ---

    def _check_classes(self, classes: int) -> None:
        inputs = self.weights_[0].shape[1]
        if classes < inputs:
            raise ValueError(f"the network reads the top {inputs} logits, got {classes} classes")

    def _prepare(self, tile: Array, first_row: int = 0) -> Array:
        tile = super()._prepare(tile, first_row)
        if self.clip_logits:
            tile = array_namespace(tile).clip(tile, -INPUT_CLIP, INPUT_CLIP)
        return tile

    def _inputs(self, logits: Array) -> Array:
        return self._features(largest(logits, self.weights_[0].shape[1]))

    def _network(self, weights: Sequence[Array], inputs: Array) -> Array:
        return network.forward(weights, inputs, self._linear)

    def _link(self, raw: Array, xp: Any) -> Array:
        if self.link_ == "absolute":
            return _paper_recipe.absolute_temperature(raw[0], xp)
        return super()._link(raw, xp)


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
    if not all(np.isfinite(array).all() for array in arrays):
        raise ValueError("weights must be finite")
