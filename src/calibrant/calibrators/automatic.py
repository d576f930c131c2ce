"""The best method for some rows, or an average of several, by the log loss of held-out rows."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from functools import cached_property, partial

import numpy as np
from numpy.typing import NDArray

from calibrant.calibrators import _choosing as choosing
from calibrant.calibrators import temperature
from calibrant.calibrators._base import (
    Calibrator,
    Fitted,
    Judgement,
    LogitCalibrator,
    ProfileCalibrator,
)
from calibrant.calibrators._best_temperature import scaled_profile
from calibrant.calibrators._class_frequencies import SeenPart
from calibrant.calibrators._fit_info import EXACT, FitInfo
from calibrant.calibrators._parameters import Flag, MethodNames, constraints
from calibrant.calibrators._pooling import Judged
from calibrant.calibrators.joint.structured import StructuredPTS
from calibrant.calibrators.profile.temperature_profile import TemperatureProfile
from calibrant.common.errors import noted, warn
from calibrant.common.types import InputKind, Progress, RandomState
from calibrant.data.folds import Folds, folds_of
from calibrant.data.rows import Rows
from calibrant.data.weights import copies, shares, weighted_mean
from calibrant.formulas import ClassShares, Formula, Mixture, Pool

SMALL = 200_000  # logits up to which class maps are tried without the joint method, too
# Fewer rows than these cannot tell the worth of anything; of more than one number; of networks.
FEWEST_ROWS, FAMILY_ROWS, NETWORK_ROWS = 10, 20, 100
FEW_CLASSES = 10  # up to which a matrix by itself is tried: beyond, the joint method tries one
BIAS_ROWS = 1000  # from which on slopes are worth what they cost
UNSTABLE = 0.75  # share of halvings whose halves agree, below which the choice is said to vary
JOINT = ("mpts", "spts")  # judge their own held-out rows
SHARES, UNIFORM = "class-shares", "uniform"  # names of the members that ignore the scores


class AutoCalibrator(LogitCalibrator):
    """The best method, or an average of several, by held-out log loss.

    Many methods are fitted and judged by rows that they were not fitted on. With many rows the best
    one is kept. With few rows the rows cannot tell good methods apart, and their probabilities are
    averaged: better methods count more, and the scores as they are always take part, so that the
    result is rarely worse than no calibration.

    Parameters
    ----------
    preserve_accuracy : bool, default False
        Use only methods that never change the predicted class.
    methods : sequence of str, optional
        The methods to try, keys of ``calibrators.REGISTRY``; beside them only the scores as they
        are and the class frequencies take part. By default all that suit the rows.
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
        The acronym of the chosen method, or "pool" for an average of several.
    members_ : list of str
        The methods that are averaged; a single one where one method was chosen. "class-shares"
        are the class frequencies of the fitting rows, "uniform" is the uniform distribution.
    weights_ : array of shape (members,)
        Their weights.
    formula_ : Formula
        The formula of the method, or a ``Pool``.
    fit_info_ : FitInfo
        The report of the fit. In ``details``, ``held_out_loss`` is the mean held-out log loss of
        the result, corrected for the choice, with its standard error; ``agreement`` is the share of
        random halvings of the rows in which both halves prefer the same method; ``tried`` lists all
        methods with their held-out losses and weights.

    Notes
    -----
    Held-out losses are leave-one-out where the method gives them and from cross-validation
    elsewhere. A method whose mean held-out loss is d above the lowest one has a weight proportional
    to exp(-n d / 2) with n rows; the scores as they are count twice. Weights below 0.02 are
    dropped, and so are members that change the held-out loss by less than 0.0005.

    The average is linear: p = sum_k w_k p_k. "class-shares" takes part so that scores that say
    nothing are recognised; with ``preserve_accuracy`` the uniform distribution does.

    Below 10 rows the scores stay as they are. From 20 rows on all families compete but the
    networks, which need 100. Structured vector and matrix scaling by themselves are tried up to
    200,000 logits. With more than 20,000 rows a sample of them chooses, and the chosen methods are
    fitted on all.

    References
    ----------
    Yao, Vehtari, Simpson and Gelman, "Using Stacking to Average Bayesian Predictive Distributions",
    Bayesian Analysis 2018, compare such weights. The public benchmark CalArena (2026) shows that no
    calibration method wins everywhere.

    Examples
    --------
    >>> import calibrant
    >>> data = calibrant.datasets.load("fashion-mnist-lenet5")
    >>> auto = AutoCalibrator().fit(data.val_logits[:300], data.val_labels[:300])
    >>> auto.method_ == "pool", len(auto.members_) == len(auto.weights_) > 1
    (True, True)
    """

    _amplifies_rounding = True
    _constraints = constraints(preserve_accuracy=Flag(), methods=MethodNames())

    def __init__(
        self,
        preserve_accuracy: bool = False,
        methods: Sequence[str] | None = None,
        random_state: RandomState = None,
        progress: Progress = False,
        input: InputKind = "logits",  # noqa: A002
    ) -> None:
        self.preserve_accuracy = preserve_accuracy
        self.methods = methods
        self.random_state = random_state
        self.progress = progress
        self.input = input

    @property
    def method_(self) -> str:
        """The acronym of the chosen method, or "pool"."""
        return str(self.fit_info_.details["method"])

    @property
    def members_(self) -> list[str]:
        """The methods that are averaged."""
        return list(self.fit_info_.details.get("pool_members", [self.method_]))

    @property
    def weights_(self) -> NDArray[np.float64]:
        """The weights of the members."""
        return np.asarray(self.fit_info_.details.get("pool_weights", [1.0]), np.float64)

    def _will_keep_arg_max(self) -> bool:
        return self.preserve_accuracy

    def _fit_seen(self, data: Rows) -> Fitted:
        return self._fit_logits(data)  # every candidate takes care of classes without rows

    def _fit_logits(self, data: Rows) -> Fitted:
        few = choosing.sampled(data, choosing.sample_of_logits(data))
        folds, names = folds_of(few, by_place=True), ["base"]
        if few.effective_rows < FEWEST_ROWS:
            rows = f"{few.effective_rows:.0f} rows are"
            warn(f"{rows} too few to calibrate with: the scores stay as they are")
        elif (few.labels == few.labels[0]).all():
            names.append("ts")  # which is all that one class can tell
        else:
            names.append(UNIFORM if self.preserve_accuracy else SHARES)
            names += _suitable(few) if self.methods is None else self._wanted(few)
        with noted():  # a fold may lack a class, of which the methods would warn
            candidates = list(self._candidates(names, data, few, folds))
        judged = Judged(
            [candidate.name for candidate in candidates],
            np.stack([candidate.held_out for candidate in candidates]),
            folds.weight,
            None if few.groups is None else folds.of(_codes(few.groups)),
        )
        weights = judged.chosen()
        members = [candidates[at] for at in np.argsort(-weights, kind="stable") if weights[at]]
        fits = [member.fit() for member in members]
        chosen = -np.sort(-weights[weights > 0.0], kind="stable")
        formula = fits[0][0]
        if len(fits) > 1:
            formula = Pool(chosen, tuple(of_member for of_member, _ in fits))
        return formula, _report(data, formula, members, fits, judged, weights)

    # --- candidates ---

    def _candidates(
        self, names: Sequence[str], data: Rows, few: Rows, folds: Folds
    ) -> Iterator[choosing.Candidate]:
        """The methods of these names, judged by the folds of a sample, or leaving one row out."""
        whole = _Fitting(data)
        some = whole if few is data else _Fitting(few)
        joint: tuple[str, ...] = ()  # with groups these are judged by folds, as all others
        if set(JOINT) & set(names) and data.groups is None:
            joint = ("monotone", *JOINT) if "mpts" in names else JOINT
        for name in names:
            model = self._model(name)
            if name in joint or (self.preserve_accuracy and not model.accuracy_preserving):
                continue
            judged = some.judged(model, folds)
            fit = judged.fit if some is whole else _later(whole, model)
            yield choosing.Candidate(name, judged.held_out, fit)
        if joint:
            yield from _wanted_of(list(self._joint(data, folds)), set(joint) & set(names))

    def _wanted(self, data: Rows) -> Iterator[str]:
        """The methods that the caller asks for."""
        from calibrant.calibrators import acronym

        for name in dict.fromkeys(map(acronym, () if self.methods is None else self.methods)):
            model = self._model(name)
            if model.two_classes_only and data.n_classes != 2:
                raise ValueError(f"{name} is for two classes, got {data.n_classes}")
            if self.preserve_accuracy and not model.accuracy_preserving:
                raise ValueError(
                    f"{name} may change the predicted class: leave it out of methods, or "
                    "preserve_accuracy"
                )
            if name != "base":
                yield name

    def _model(self, name: str) -> Calibrator:
        from calibrant.calibrators import calibrator

        if name in (SHARES, UNIFORM):
            return _ClassFrequencies(uniform=name == UNIFORM)
        if name == "ts":
            return temperature.TemperatureScaling(prior_rows="auto")
        if name in JOINT:
            return calibrator(name, random_state=self.random_state)
        return calibrator(name)

    def _joint(self, data: Rows, folds: Folds) -> Iterator[choosing.Candidate]:
        """The joint methods and their first part, which know their own held-out losses."""
        model = StructuredPTS(random_state=self.random_state, progress=self.progress)
        part = None if self.preserve_accuracy else SeenPart.of(data)
        class_map = not self.preserve_accuracy and part is None
        sample = choosing.sample_of_logits(data)  # that of all candidates
        yield from model._candidates(data, folds, class_map, sample)
        if part is not None and len(part.seen) > 1:
            beside = part.loss_beside if sample is None else part.loss_beside[sample.index]
            for name, held_out, fit in model._candidates(part.data, folds, True, sample):
                if name == "spts":
                    all_classes = partial(lambda fit: part.fitted(*fit()), fit)
                    yield choosing.Candidate(name, held_out + folds.of(beside), all_classes)


def _suitable(data: Rows) -> Iterator[str]:
    """The methods for which there are rows enough, from simple to rich."""
    rows, classes = data.effective_rows, data.n_classes
    yield "ts"
    if rows < FAMILY_ROWS:
        return
    few_logits = data.logits.size <= SMALL
    if few_logits and rows < BIAS_ROWS:
        yield "bias"
    if few_logits:
        yield "svs"
    if few_logits and 2 < classes <= FEW_CLASSES:
        yield "sms"
    if classes == 2:
        yield from ("platt", "beta", "quadratic", "odds-spline")
    if rows < NETWORK_ROWS:
        yield "monotone"
        return
    yield from ("ets", "monotone", *JOINT)


# --- judging ---


class _Fitting:
    """Rows that methods are fitted on, with one profile for the temperature family."""

    def __init__(self, rows: Rows) -> None:
        self.rows = rows

    @cached_property
    def profile(self) -> TemperatureProfile:
        """The profile, made where the first method asks for it."""
        return scaled_profile(self.rows)

    def fit(self, model: Calibrator) -> Fitted:
        """The formula and the report of a method, fitted on all rows."""
        if isinstance(model, ProfileCalibrator):
            return model._fit_profile(self.profile)
        assert isinstance(model, LogitCalibrator)
        return model._fit_seen(self.rows)

    def judged(self, model: Calibrator, folds: Folds) -> Judgement:
        """The loss of each row of the folds had it not been fitted on, and the fit on all rows."""
        if isinstance(model, LogitCalibrator):
            return model._judged(self.rows, folds)
        assert isinstance(model, ProfileCalibrator)
        rows, profile = folds.rows(self.rows), self.profile
        if not model._adjusts:
            return Judgement(choosing.row_nll(None, rows), _later(self, model))
        if folds.index is not None:
            profile = profile.take(folds.index)._weighted(folds.weight)
        losses = choosing.held_out_nll(
            lambda kept: model._fit_profile(profile.take(kept))[0], rows, folds.parts
        )
        return Judgement(losses, _later(self, model))


def _wanted_of(
    found: Sequence[choosing.Candidate], wanted: set[str]
) -> Iterator[choosing.Candidate]:
    """The candidates of the joint method that are wanted.

    Without a class map the method "spts" is "mpts", whose name it then has alone.
    """
    kept = [one for one in found if one.name in wanted]
    if wanted == {"spts"} and not kept:
        kept = [one._replace(name="spts") for one in found if one.name == "mpts"]
    yield from kept


def _codes(groups: object) -> NDArray[np.intp]:
    return np.unique(np.asarray(groups), return_inverse=True)[1]


def _later(fitting: _Fitting, model: Calibrator) -> Callable[[], Fitted]:
    return lambda: fitting.fit(model)


class _ClassFrequencies(LogitCalibrator):
    """The class frequencies of the fitting rows, or the uniform distribution; no public method."""

    def __init__(self, uniform: bool = False) -> None:
        self.uniform = uniform

    def _will_keep_arg_max(self) -> bool:
        return self.uniform

    def _fit_logits(self, data: Rows) -> Fitted:
        if self.uniform:
            return Mixture(1.0, np.array([0.0, 0.0, 1.0])), FitInfo(True, EXACT)
        counts = 1.0 + self._counts(data)
        return ClassShares(counts / counts.sum()), FitInfo(True, EXACT)

    def _judged(self, data: Rows, folds: Folds) -> Judgement:
        part = None if self.uniform else SeenPart.of(data)
        if self.uniform or data.groups is not None or (part is not None and len(part.seen) == 1):
            return super()._judged(data, folds)
        own = data if part is None else part.data
        counts, number = self._counts(own), own.effective_rows
        one = number * shares(own.weight) / copies(own.weight)  # what a copy of each row counts
        losses = -np.log((counts[own.labels] - one + 1.0) / (number - one + own.n_classes))
        losses += 0.0 if part is None else part.loss_beside
        return Judgement(folds.of(losses), lambda: self._fit_seen(data))

    def _counts(self, data: Rows) -> NDArray[np.float64]:
        """How many rows each class has, of as many as the weights are worth."""
        share = np.bincount(data.labels, shares(data.weight), data.n_classes)
        return np.asarray(data.effective_rows * share)


# --- the report ---


def _report(
    data: Rows,
    formula: Formula,
    members: Sequence[choosing.Candidate],
    fits: Sequence[Fitted],
    judged: Judged,
    weights: NDArray[np.float64],
) -> FitInfo:
    """What was chosen and why, how good it is on held-out rows, and what was tried."""
    names, first = [member.name for member in members], fits[0][1]
    losses = judged.pooled(weights)
    optimism, agreement = judged.optimism(), judged.agreement()
    means, best = judged.means, int(np.argmin(judged.means))
    tried = [
        {
            "candidate": name,
            "left_out_loss": float(means[at]),
            "error_of_difference": choosing.error_of_difference(
                judged.losses[at], judged.losses[best], judged.weight
            ),
            "weight": float(weights[at]),
        }
        for at, name in enumerate(judged.names)
    ]
    single = len(names) == 1
    details = {
        **(first.details if single else {}),
        "method": names[0] if single else "pool",
        "pool_members": names,
        "pool_weights": sorted(weights[weights > 0.0].tolist(), reverse=True),
        "why": _why(names, judged.names[best], agreement),
        "held_out_loss": float(shares(judged.weight) @ losses) + optimism,
        "held_out_error": judged.error(losses),
        "optimism": optimism,
        "agreement": agreement,
        "tried": tried,
    }
    if single:
        return replace(first, details=details)
    reports = zip(names, fits, strict=True)
    settled = [info.converged for _, info in fits]
    told = [f"{n}: {info.message}" for n, (_, info) in zip(names, fits, strict=True)]
    return FitInfo(
        bool(np.sum(np.array(details["pool_weights"])[settled]) >= 0.5),
        "; ".join(t for t, ok in zip(told, settled, strict=True) if not ok) or "converged",
        loss="nll",
        before=weighted_mean(choosing.row_nll(None, data), data.weight),
        after=weighted_mean(choosing.row_nll(formula, data), data.weight),
        details={
            **details,
            "member_details": {name: dict(info.details) for name, (_, info) in reports},
        },
    )


def _why(names: Sequence[str], best: str, agreement: float) -> str:
    """Why this was chosen, in words."""
    if len(names) > 1:
        told = f"held-out rows do not single out one method, so {len(names)} are averaged"
    elif names[0] == best:
        told = "lowest held-out log loss"
    else:
        told = f"as good as {best} on held-out rows"
    if agreement < UNSTABLE:
        told += (
            f"; two halves of the rows prefer different methods in {1.0 - agreement:.0%} of random "
            "splits"
        )
    return told
