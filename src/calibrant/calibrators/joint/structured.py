"""An increasing map, a temperature for each row, then a class map."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Literal

from calibrant.calibrators._base import Fitted
from calibrant.calibrators._choosing import (
    Candidate,
    Sample,
    row_nll,
    sample_of_logits,
    sampled,
)
from calibrant.calibrators._fit_info import FitInfo
from calibrant.calibrators._parameters import Choice, constraints
from calibrant.calibrators.increasing._smooth import DEFAULT_KNOTS
from calibrant.calibrators.joint._stages import CLASS_MAPS, JointCalibrator, with_class_map
from calibrant.calibrators.profile.temperature_profile import DEFAULT_TOP_K
from calibrant.calibrators.temperature._default_recipe import DEFAULT_MEMBERS
from calibrant.common.types import InputKind, Progress, RandomState
from calibrant.data.folds import Folds, folds_of
from calibrant.data.rows import Rows


class StructuredPTS(JointCalibrator):
    """``MonotonePTS``, then a structured class map of its scores. Does not preserve accuracy.

    What a row's temperature cannot repair, wrong priors and confused classes, the class map does:
    structured vector or matrix scaling of the scaled logits. Every part is left out where left-out
    rows show no gain from it, so that the method falls back to ``MonotonePTS``, PTS, structured
    scaling or temperature scaling by itself.

    Parameters
    ----------
    class_map : {"auto", "none", "vector", "matrix"}, default "auto"
        The last part: structured vector or matrix scaling, or nothing. "auto" chooses by the NLL
        of left-out folds; the matrix is tried with up to 256 classes.
    knots : int, default 16
        The number of points between which the logarithm of the map's slope is linear.
    hidden : sequence of int, default (5, 5)
        Widths of the network's hidden layers.
    top_k : int, default 10
        How many of the largest mapped logits the networks read; at most the number of classes.
    members : int, default 4
        How many networks are averaged.
    random_state : int, numpy.random.Generator or None, default None
        Where the networks start; None is the seed 0, so that a fit can be repeated.
    progress : bool or callable, default False
        True shows a bar on standard error where a fit takes more than a second; a callable is
        called as ``progress(done, total)``.
    input : {"logits", "probs"}, default "logits"
        What the scores are; probabilities are taken as log p minus its row mean.

    Attributes
    ----------
    formula_ : Chain or NetworkTemperature
        The parts that are left, one after the other.
    fit_info_ : FitInfo
        How the fit went; ``details`` holds the choice and what was tried for each part.

    See Also
    --------
    MonotonePTS : Without the class map: the arg max never moves.
    StructuredMatrixScaling : The class map alone.

    Notes
    -----
    softmax(u W + b), u being the smoothed logarithms of the probabilities that ``MonotonePTS``
    gives; see ``StructuredVectorScaling``.

    References
    ----------
    Tomani, Cremers and Buettner, "Parameterized Temperature Scaling for Boosting the Expressive
    Power in Post-Hoc Uncertainty Calibration", ECCV 2022; Berta, Holzmüller, Jordan and Bach,
    "Structured Matrix Scaling for Multi-Class Calibration", 2025. Their combination is ours.

    Examples
    --------
    >>> import calibrant
    >>> data = calibrant.datasets.load("fashion-mnist-lenet5")
    >>> spts = StructuredPTS().fit(data.val_logits[:1000], data.val_labels[:1000])
    >>> spts.fit_info_.details["class_map"]["choice"] in ("none", "vector", "matrix")
    True
    """

    _constraints = constraints(
        **JointCalibrator._constraints, class_map=Choice("auto", "none", *CLASS_MAPS)
    )

    def __init__(
        self,
        class_map: Literal["auto", "none", "vector", "matrix"] = "auto",
        knots: int = DEFAULT_KNOTS,
        hidden: Sequence[int] = (5, 5),
        top_k: int = DEFAULT_TOP_K,
        members: int = DEFAULT_MEMBERS,
        random_state: RandomState = None,
        progress: Progress = False,
        input: InputKind = "logits",  # noqa: A002
    ) -> None:
        super().__init__(knots, hidden, top_k, members, random_state, progress, input)
        self.class_map = class_map

    def _will_keep_arg_max(self) -> bool:
        return self.class_map == "none"

    def _fit_logits(self, data: Rows) -> Fitted:
        stages = self._fit_ordered(data, sample_of_logits(data))
        folds = folds_of(sampled(data, stages.sample))
        return with_class_map(stages, data, self.class_map, folds)[0]

    def _candidates(
        self, data: Rows, folds: Folds, class_map: bool, sample: Sample | None
    ) -> Iterator[Candidate]:
        """The parts that give new candidates, on request this method too, with held-out losses.

        These are ``MonotonePTS`` and its map by itself, where both of its parts are used.

        The rows are those of ``folds``, which are the folds of the sample of the data. The first
        parts have seen the rows that the class map holds out: its held-out losses are raised by
        what leaving a row out adds to theirs.
        """
        stages = self._fit_ordered(data, sample)
        if stages.maps and stages.info.details["choice"] != "increasing map":
            (own,) = stages.maps
            of_map = row_nll(own, sampled(data, stages.sample)) + stages.map_optimism
            details = {"choice": stages.info.details["map"]["choice"]}
            info = FitInfo(True, "converged", loss="nll", details=details)
            yield Candidate("monotone", folds.of(of_map), lambda: (own, info))
        yield Candidate("mpts", folds.of(stages.held_out), lambda: (stages.formula, stages.info))
        if class_map:
            fitted, held_out = with_class_map(stages, data, self.class_map, folds)
            if held_out is not None:
                yield Candidate("spts", held_out + folds.of(stages.optimism), lambda: fitted)
