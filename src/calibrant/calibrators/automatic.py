"""The method chosen for you, by the NLL of left-out rows."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from functools import cached_property, partial

import numpy as np
from numpy.typing import NDArray

from calibrant.calibrators import _choosing as choosing
from calibrant.calibrators import affine, odds, temperature
from calibrant.calibrators._base import Calibrator, Fitted, LogitCalibrator, ProfileCalibrator
from calibrant.calibrators._best_temperature import scaled_profile
from calibrant.calibrators._class_frequencies import SeenPart
from calibrant.calibrators._parameters import Flag, constraints
from calibrant.calibrators.joint.structured import StructuredPTS
from calibrant.calibrators.profile.temperature_profile import TemperatureProfile
from calibrant.common.errors import warn
from calibrant.common.types import InputKind, Progress, RandomState
from calibrant.data.folds import Folds, folds_of
from calibrant.data.rows import Rows

PATIENCE = 0.5  # standard errors by which a simpler method may be worse and still be taken ..
IMPATIENT_ROWS = 200.0  # .. with many rows; with these twice as many, with fewer still more
SMALL = 200_000  # logits up to which the class maps are tried without the joint method, too
# Fewer rows than these cannot tell the worth of anything; of networks and matrices; of curves for
# two classes; of what no penalty holds back.
FEWEST_ROWS, NETWORK_ROWS, CURVE_ROWS, FREE_ROWS = 10, 100, 300, 1000


class _Fitting:
    """Rows that methods are fitted on, with one profile for the temperature family."""

    def __init__(self, rows: Rows) -> None:
        self.rows = rows

    @cached_property
    def profile(self) -> TemperatureProfile:
        """The profile, made where the first method asks for it."""
        return scaled_profile(self.rows)

    def fit(self, model: Calibrator, some: NDArray[np.intp] | None = None) -> Fitted:
        """The formula and the report of a method, fitted on all rows or on some."""
        if isinstance(model, ProfileCalibrator):
            return model._fit_profile(self.profile if some is None else self.profile.take(some))
        assert isinstance(model, LogitCalibrator)
        return model._fit_seen(self.rows if some is None else self.rows.take(some))


class AutoCalibrator(LogitCalibrator):
    """The method that left-out rows like best. Preserves accuracy on request.

    Tries, from simple to rich: the scores as they are, temperature scaling, structured vector and
    matrix scaling (for two classes Platt scaling, beta, quadratic and spline calibration), ensemble
    temperature scaling, ``MonotonePTS`` and ``StructuredPTS``. It compares the NLL of rows that
    were not fitted on, leave-one-out where the method gives it and by folds elsewhere, and keeps
    the simplest method that is about as good as the best one.

    Parameters
    ----------
    preserve_accuracy : bool, default False
        Try only methods that never move the arg max.
    random_state : int, numpy.random.Generator or None, default None
        Where the networks start; None is the seed 0, so that a fit can be repeated.
    progress : bool or callable, default False
        True shows a bar on standard error where a fit takes more than a second; a callable is
        called as ``progress(done, total)``.
    input : {"logits", "probs"}, default "logits"
        What the scores are; probabilities are taken as log p minus its row mean.

    Attributes
    ----------
    method_ : str
        The acronym of the chosen method.
    formula_ : Formula
        Its formula.
    fit_info_ : FitInfo
        Its report; ``details`` holds the choice, and what was tried with the left-out losses and
        the standard errors of their differences to the best one.

    Notes
    -----
    A simpler method is kept while its left-out NLL is within (1 + 200/n)/2 standard errors of the
    best one's (the error of the difference on the same n rows): with few rows the best of several
    is often the luckiest. The scores as they are must be within 0.1 of it, too: a few rows that are
    sure and wrong have a loss as uncertain as it is large. Below 10 rows the scores stay as they
    are; below 100 no network and no matrix is tried, below 300 none of the methods for two classes,
    below 1,000 nothing that no penalty holds back (beta calibration, ensemble temperature scaling).
    The class maps by themselves are tried up to 200,000 logits. With more than 20,000 rows a sample
    of them chooses, and the chosen method is fitted on all.

    References
    ----------
    The idea of choosing among families of calibrators by a proper score is old; the public
    benchmark CalArena (2026) shows that none of them wins everywhere.

    Examples
    --------
    >>> import calibrant
    >>> data = calibrant.datasets.load("fashion-mnist-lenet5")
    >>> auto = AutoCalibrator().fit(data.val_logits[:1000], data.val_labels[:1000])
    >>> auto.method_ in ("base", "ts", "svs", "sms", "ets", "mpts", "spts")
    True
    """

    _amplifies_rounding = True
    _constraints = constraints(preserve_accuracy=Flag())

    def __init__(
        self,
        preserve_accuracy: bool = False,
        random_state: RandomState = None,
        progress: Progress = False,
        input: InputKind = "logits",  # noqa: A002
    ) -> None:
        self.preserve_accuracy = preserve_accuracy
        self.random_state = random_state
        self.progress = progress
        self.input = input

    @property
    def method_(self) -> str:
        """The acronym of the chosen method."""
        return str(self.fit_info_.details["method"])

    def _will_keep_arg_max(self) -> bool:
        return self.preserve_accuracy

    def _fit_seen(self, data: Rows) -> Fitted:
        return self._fit_logits(data)  # every candidate takes care of classes without rows

    def _fit_logits(self, data: Rows) -> Fitted:
        few = choosing.sampled(data, choosing.sample_of_logits(data))
        folds = folds_of(few)
        candidates = [*self._simple(data, few, folds), *self._joint(data, folds)]
        chosen, path = choosing.simplest_of_the_best(
            [candidate.name for candidate in candidates],
            [candidate.held_out for candidate in candidates],
            folds.weight,
            PATIENCE * (1.0 + IMPATIENT_ROWS / few.effective_rows),
        )
        formula, info = candidates[chosen].fit()
        name, best = candidates[chosen].name, min(path, key=lambda tried: tried["left_out_loss"])
        why = "lowest left-out NLL"
        if name != best["candidate"]:
            why = f"simpler than {best['candidate']} and about as good"
        details = {**info.details, "method": name, "why": why, "tried": path}
        return formula, replace(info, details=details)

    def _simple(self, data: Rows, few: Rows, folds: Folds) -> Iterator[choosing.Candidate]:
        """The methods that are fitted in no time, judged by the folds of a sample."""
        some = _Fitting(folds.rows(few))
        every = some if some.rows is data else _Fitting(data)
        for name, model in _simple_methods(few):
            if self.preserve_accuracy and not model.accuracy_preserving:
                continue
            if isinstance(model, temperature.Uncalibrated):
                held_out = choosing.row_nll(None, some.rows)
            else:
                fit = lambda kept, model=model: some.fit(model, kept)[0]  # noqa: E731
                held_out = choosing.held_out_nll(fit, some.rows, folds.parts)
            yield choosing.Candidate(name, held_out, partial(every.fit, model))

    def _joint(self, data: Rows, folds: Folds) -> Iterator[choosing.Candidate]:
        """The joint methods, which know their own held-out losses."""
        if data.effective_rows < NETWORK_ROWS:
            return
        model = StructuredPTS(random_state=self.random_state, progress=self.progress)
        part = None if self.preserve_accuracy else SeenPart.of(data)
        yield from model._candidates(data, folds, not self.preserve_accuracy and part is None)
        if part is not None and len(part.seen) > 1:
            sample = choosing.sample_of_logits(data)
            beside = part.loss_beside if sample is None else part.loss_beside[sample.index]
            for name, held_out, fit in model._candidates(part.data, folds, True):
                if name == "spts":
                    all_classes = partial(lambda fit: part.fitted(*fit()), fit)
                    yield choosing.Candidate(name, held_out + folds.of(beside), all_classes)


def _simple_methods(data: Rows) -> Iterator[tuple[str, Calibrator]]:
    rows, small = data.effective_rows, data.logits.size <= SMALL
    yield "base", temperature.Uncalibrated()
    if rows < FEWEST_ROWS:
        warn(
            f"{rows:.0f} rows tell nothing about the scores, which stay as they are: give more rows"
        )
        return
    yield "ts", temperature.TemperatureScaling(prior_rows="auto")
    if small:
        yield "svs", affine.StructuredVectorScaling()
    if rows >= CURVE_ROWS and data.n_classes == 2:
        yield "platt", odds.PlattScaling()
        yield "quadratic", odds.QuadraticScaling()
        yield "odds-spline", odds.SmoothingSpline()
    if rows >= FREE_ROWS and data.n_classes == 2:
        yield "beta", odds.BetaCalibration()
    if rows >= FREE_ROWS:
        yield "ets", temperature.EnsembleTemperatureScaling()
    if rows >= NETWORK_ROWS and small and data.n_classes > 2:
        yield "sms", affine.StructuredMatrixScaling()
