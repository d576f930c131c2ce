"""Parameterized temperature scaling (Tomani, Cremers and Buettner, ECCV 2022), and its variant."""

from __future__ import annotations

from abc import ABC
from collections.abc import Sequence
from typing import Any, ClassVar, Literal, Self, final

import numpy as np
from array_api_compat import array_namespace

from calibrant.calibrators._base import Fitted, ProfileCalibrator
from calibrant.calibrators._fit_info import FitInfo
from calibrant.calibrators._parameters import (
    Choice,
    Count,
    NonNegative,
    Positive,
    Widths,
    constraints,
)
from calibrant.calibrators.profile.losses import LOSSES
from calibrant.calibrators.profile.temperature_profile import DEFAULT_TOP_K, TemperatureProfile
from calibrant.calibrators.temperature._default_recipe import (
    DEFAULT_LOSS,
    DEFAULT_MEMBERS,
    NetworkSettings,
    fit_default,
    taken_apart,
)
from calibrant.calibrators.temperature._paper_recipe import (
    INPUT_CLIP,
    fit_published,
    published_formula,
)
from calibrant.common.types import Floats, InputKind, Progress, RandomState
from calibrant.data.rows import Rows
from calibrant.formulas import LogGaps, NetworkTemperature, Reading, TopLogits

SMALLEST_GAP = 0.3  # temperatures: gaps below this are all alike to the logarithm
RECIPE_LOSS = {"auto": DEFAULT_LOSS, "paper": "brier"}


class NetworkCalibrator(ProfileCalibrator, ABC):
    """A network on a row's largest logits: what PTS and its linear variant share."""

    _gives = NetworkTemperature
    _constraints = constraints(
        recipe=Choice(*RECIPE_LOSS),
        inputs=Choice("auto", "logits", "log-gaps"),
        penalty=NonNegative(or_auto=True),
        hidden=Widths(),
        members=Count(),
        top_k=Count(),
        batch_size=Count(),
        steps=Count(),
        learning_rate=Positive(),
    )
    #: Whether the network has no ReLU, and so is one linear layer in effect.
    _linear: ClassVar[bool]
    #: What the default recipe reads where ``inputs`` is "auto".
    _default_inputs: ClassVar[str]

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
        random_state: RandomState = None,
        progress: Progress = False,
        input: InputKind = "logits",  # noqa: A002
    ) -> None:
        self.recipe = recipe
        self.hidden = hidden
        self.top_k = top_k
        self.inputs = inputs
        self.loss = loss
        self.penalty = penalty
        self.members = members
        self.learning_rate = learning_rate
        self.batch_size = batch_size
        self.steps = steps
        self.clip_logits = clip_logits
        self.random_state = random_state
        self.progress = progress
        self.input = input

    # --- the fitted network ---

    @classmethod
    @final
    def from_weights(cls, weights: Sequence[Any], **parameters: Any) -> Self:
        """Make a fitted calibrator with the weights of the published code.

        Parameters
        ----------
        weights : sequence of arrays
            W1 (k, h1), b1 (h1,), W2, b2, .., W (h, 1), b (1,).
        **parameters : dict
            Further parameters of the calibrator.

        Returns
        -------
        Calibrator
            The calibrator, for any number of classes of at least k.

        Raises
        ------
        ValueError
            Where the shapes are not these, or a weight is not finite.

        Examples
        --------
        >>> import numpy as np
        >>> weights = [np.zeros((10, 1)), np.array([2.0])]
        >>> pts = ParameterizedTemperatureScaling.from_weights(weights)
        >>> pts.temperature(np.zeros((1, 10)))
        array([2.])
        """
        arrays = [np.asarray(part, np.float64) for part in weights]
        _check_weights(arrays)
        made = cls(
            recipe="paper",
            hidden=tuple(len(bias) for bias in arrays[1:-2:2]),
            top_k=len(arrays[0]),
            **parameters,
        )
        formula = published_formula(arrays, made._linear, made._clip)
        return made._restored(formula, FitInfo(True, "given weights"), None)

    @property
    def weights_(self) -> list[Floats]:
        """W1, b1, W2, b2, .., each with a leading axis over the averaged networks."""
        return taken_apart(self._own_formula(NetworkTemperature))

    @final
    def _will_keep_arg_max(self) -> bool:
        return not self.clip_logits

    @property
    def _clip(self) -> float | None:
        return INPUT_CLIP if self.clip_logits else None

    # --- fitting ---

    @property
    def _top_k(self) -> int:  # type: ignore[override]
        return self.top_k

    @final
    def _read(self, rows: Rows) -> Rows:
        if self._clip is None:
            return rows
        clipped = array_namespace(rows.scores).clip(rows.scores, -self._clip, self._clip)
        return rows.with_scores(clipped, rows.input)

    @final
    def _fit_profile(self, profile: TemperatureProfile) -> Fitted:
        k = min(self.top_k, profile.n_classes)
        published = self.recipe == "paper"
        settings = NetworkSettings(
            type(self).__name__,
            hidden=() if self._linear and not published else self.hidden,
            members=self.members,
            loss=RECIPE_LOSS[self.recipe] if self.loss == "auto" else self.loss,
            penalty=self.penalty,
            random_state=self.random_state,
            clip=self._clip,
            progress=self.progress,
        )
        if published:
            return fit_published(
                profile,
                k,
                settings,
                linear=self._linear,
                learning_rate=self.learning_rate,
                batch_size=self.batch_size,
                steps=self.steps,
            )

        def reading(best_temperature: float, origin: float) -> Reading:
            inputs = self._default_inputs if self.inputs == "auto" else self.inputs
            if inputs == "logits":
                return TopLogits(k, origin)
            return LogGaps(k, best_temperature, SMALLEST_GAP, origin)

        formula, info, _ = fit_default(profile, reading, settings)
        return formula, info

    @final
    def _check_parameters(self) -> None:
        super()._check_parameters()
        if self.recipe == "paper" and self.inputs == "log-gaps":
            raise ValueError("recipe='paper' reads the logits themselves, got inputs='log-gaps'")
        if self.loss != "auto":
            Choice(*sorted(LOSSES)).check("loss", self.loss)


class ParameterizedTemperatureScaling(NetworkCalibrator):
    """A temperature for each row, from a small network on its largest logits. Preserves accuracy.

    Parameters
    ----------
    recipe : {"auto", "paper"}, default "auto"
        "auto" averages a few networks fitted on all rows at once, started at temperature scaling
        and pulled towards it; "paper" is the published algorithm (one network, Adam, 100,000
        steps).
    hidden : sequence of int, default (5, 5)
        Widths of the hidden layers.
    top_k : int, default 10
        How many of the largest logits the networks read; at most the number of classes.
    inputs : {"auto", "logits", "log-gaps"}, default "auto"
        What the networks read of them: "logits" themselves, as in the paper, or "log-gaps": the
        largest logit and log(0.3 + gap / T) for its gaps to the others, T being the best single
        temperature. "auto": "log-gaps" for the default recipe (docs/pts-study.md has the
        evidence), "logits" for the paper's.
    loss : {"auto", "mixed", "nll", "brier"}, default "auto"
        "mixed" is Brier + 0.2 NLL. "auto": "mixed" for the default recipe, "brier" for the
        paper's.
    penalty : float or "auto", default "auto"
        The pull towards temperature scaling. "auto" chooses it by the leave-one-out loss,
        temperature scaling itself and the identity among the candidates; a number is a prior that
        weighs as much as that many rows. With the paper's recipe: the authors' weight decay, and
        "auto" is 0.
    members : int, default 4
        How many networks the default recipe averages.
    learning_rate : float, default 5e-5
        The learning rate of the paper's recipe.
    batch_size : int, default 1000
        The batch size of the paper's recipe.
    steps : int, default 100000
        The number of steps of the paper's recipe.
    clip_logits : bool, default False
        Follow the authors' code to the letter: clip the logits themselves to +-100, not only the
        network's inputs. Larger logits then tie, and accuracy may be lost.
    random_state : int, numpy.random.Generator or None, default None
        Where the networks start; None is the seed 0, so that a fit can be repeated.
    progress : bool or callable, default False
        True shows a bar on standard error where a fit takes more than a second; a callable is
        called as ``progress(done, total)``.
    input : {"logits", "probs"}, default "logits"
        What the scores are; probabilities are taken as log p minus its row mean.

    Attributes
    ----------
    weights_ : list of arrays
        W1, b1, W2, b2, .., each with a leading axis over the averaged networks.
    fit_info_ : FitInfo
        How the fit went; ``details`` holds, for the default recipe, the path of penalties with
        their leave-one-out losses and the choice.

    Notes
    -----
    T(z) = T0 exp(mean over networks of R tanh(r / R)), r = network(inputs of z), R = 3, T0 being
    the best single temperature; with the paper's recipe ``T(z) = |r|``. With more than 20,000
    rows a sample of them chooses the penalty, and all rows then move the networks.

    References
    ----------
    Tomani, Cremers and Buettner, "Parameterized Temperature Scaling for Boosting the Expressive
    Power in Post-Hoc Uncertainty Calibration", ECCV 2022.

    Examples
    --------
    >>> import calibrant
    >>> data = calibrant.datasets.load("fashion-mnist-lenet5")
    >>> pts = ParameterizedTemperatureScaling()
    >>> pts = pts.fit(data.val_logits[:500], data.val_labels[:500])
    >>> calibrant.metrics.ece(pts.predict_proba(data.test_logits), data.test_labels) < 0.02
    True
    """

    _linear = False
    _default_inputs = "log-gaps"


class LinearPTS(NetworkCalibrator):
    """PTS without the non-linear activations. Preserves accuracy.

    The variant of Table 5 of the paper.

    Parameters
    ----------
    recipe : {"auto", "paper"}, default "auto"
        "auto" fits one linear layer on all rows at once, started at temperature scaling and pulled
        towards it; "paper" is the published algorithm (Adam, 100,000 steps).
    hidden : sequence of int, default (5, 5)
        Widths of the hidden layers of the paper's recipe.
    top_k : int, default 10
        How many of the largest logits are read; at most the number of classes.
    inputs : {"auto", "logits", "log-gaps"}, default "auto"
        What is read of them, see ``ParameterizedTemperatureScaling``; "auto" is "logits".
    loss : {"auto", "mixed", "nll", "brier"}, default "auto"
        "mixed" is Brier + 0.2 NLL. "auto": "mixed" for the default recipe, "brier" for the
        paper's.
    penalty : float or "auto", default "auto"
        The pull towards temperature scaling, see ``ParameterizedTemperatureScaling``.
    members : int, default 4
        Not used: one linear layer has one best fit.
    learning_rate : float, default 5e-5
        The learning rate of the paper's recipe.
    batch_size : int, default 1000
        The batch size of the paper's recipe.
    steps : int, default 100000
        The number of steps of the paper's recipe.
    clip_logits : bool, default False
        Clip the logits themselves to +-100, as the authors' code does.
    random_state : int, numpy.random.Generator or None, default None
        Where the fit starts; None is the seed 0, so that it can be repeated.
    progress : bool or callable, default False
        True shows a bar on standard error where a fit takes more than a second; a callable is
        called as ``progress(done, total)``.
    input : {"logits", "probs"}, default "logits"
        What the scores are; probabilities are taken as log p minus its row mean.

    Attributes
    ----------
    weights_ : list of arrays
        W1, b1, W2, b2, .., each with a leading axis over the networks, here of length 1.
    fit_info_ : FitInfo
        How the fit went; ``details`` holds, for the default recipe, the path of penalties with
        their leave-one-out losses and the choice.

    Notes
    -----
    log T(z) = log T0 + R tanh(r / R), r linear in the k largest logits, R = 3. The default recipe
    fits the one linear layer to which any number of them collapses. The paper's recipe keeps its
    layers (91 stored parameters, 11 effective ones): ``T(z) = |r|``.

    References
    ----------
    Tomani, Cremers and Buettner, "Parameterized Temperature Scaling for Boosting the Expressive
    Power in Post-Hoc Uncertainty Calibration", ECCV 2022.

    Examples
    --------
    >>> import calibrant
    >>> data = calibrant.datasets.load("fashion-mnist-lenet5")
    >>> linear = LinearPTS().fit(data.val_logits, data.val_labels)
    >>> linear.weights_[0].shape  # one network, ten inputs, one output
    (1, 10, 1)
    """

    _linear = True
    _default_inputs = "logits"


def _check_weights(arrays: list[Floats]) -> None:
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
