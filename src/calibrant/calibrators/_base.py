"""What all calibrators share: rows are checked, fitted to a formula, and computed by it."""

from __future__ import annotations

import time
from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping
from dataclasses import replace
from typing import Any, ClassVar, NamedTuple, Self, TypeVar, cast, final

import numpy as np
from array_api_compat import array_namespace

from calibrant.calibrators._best_temperature import scaled_profile
from calibrant.calibrators._choosing import held_out_nll
from calibrant.calibrators._class_frequencies import (
    fit_seen,
    warn_if_shares_are_off,
    warn_of_unseen,
)
from calibrant.calibrators._estimator import Estimator, check_is_fitted, offered_if
from calibrant.calibrators._exact_zeros import SHARES, has_zeros, mixed, uniform_share
from calibrant.calibrators._fit_info import FitInfo
from calibrant.calibrators._parameters import Constraint
from calibrant.calibrators._prediction import map_rows
from calibrant.calibrators.profile.temperature_profile import DEFAULT_TOP_K, TemperatureProfile
from calibrant.common.arrays import as_working_float, to_numpy
from calibrant.common.docstrings import documented
from calibrant.common.errors import warn
from calibrant.common.memory import require_memory
from calibrant.common.types import Array, Floats, InputKind
from calibrant.data.checks import as_covariates, as_scores, check_label_logits, check_probabilities
from calibrant.data.folds import Folds
from calibrant.data.likely_mistakes import (
    association,
    refuse_label_column,
    warn_if_probabilities,
    warn_if_unrelated,
)
from calibrant.data.rows import Rows
from calibrant.formulas import (
    Confidence,
    Formula,
    FormulaRows,
    LogitMap,
    Ops,
    SeenClasses,
    Smoothed,
    TemperatureFormula,
    confidence_of,
)
from calibrant.formulas.composition import unsmoothed

Fitted = tuple[Formula, FitInfo]  # what a method's fit gives


class Judgement(NamedTuple):
    """The NLL of each row had it not been fitted on, and how to get the fit on all rows."""

    held_out: Floats
    fit: Callable[[], Fitted]


F = TypeVar("F", bound=Formula)


class Calibrator(Estimator, ABC):
    """A map from a classifier's scores to probabilities, fitted on labelled scores.

    A fitted calibrator is its formula: ``fit`` finds one and keeps it as ``formula_``, at its very
    end, so that a fit that fails leaves the object as it was. All else is read off the formula.
    Calibrators serve as scikit-learn estimators: ``get_params``, ``set_params`` and ``clone`` work.

    A method derives from ``ProfileCalibrator`` or ``LogitCalibrator``, sets its parameters in
    ``__init__``, and gives a formula and a report in ``_fit_profile`` or ``_fit_logits``.

    Attributes
    ----------
    formula_ : Formula
        What the fitted calibrator computes.
    fit_info_ : FitInfo
        How the fit went.
    n_classes_ : int or None
        The number of classes that it was fitted with; None where it was not fitted on any.
    input_ : {"logits", "probs"}
        What it was fitted on and reads: the parameter ``input`` at that time.
    """

    #: True for the methods that are defined for two classes alone.
    two_classes_only: ClassVar[bool] = False
    #: False for the method that leaves the scores as they are, of which nobody expects anything.
    _adjusts: ClassVar[bool] = True
    #: Whether the formulas of all fits keep the arg max, so that accuracy is preserved.
    _keeps_arg_max: ClassVar[bool] = False
    #: What it uses of a row beside scores, label and weight: "covariates", or nothing.
    uses: ClassVar[tuple[str, ...]] = ()
    #: What each parameter must be.
    _constraints: ClassVar[Mapping[str, Constraint]] = {}
    #: What kind of formula a fit gives: whether there are temperatures, or new logits.
    _gives: ClassVar[type[Formula]] = Formula  # type: ignore[type-abstract]

    input: InputKind
    formula_: Formula
    fit_info_: FitInfo
    n_classes_: int | None
    input_: InputKind

    # --- fitting ---

    @final
    @documented
    def fit(
        self,
        logits: Any,
        labels: Any = None,
        sample_weight: Any = None,
        *,
        ignore_index: int | None = None,
        covariates: Any = None,
    ) -> Self:
        """Fit on labelled scores.

        Parameters
        ----------
        logits : array of shape (rows, classes), or (rows,) for two classes
            Scores of the kind that ``input`` names; for the temperature family, also a
            ``TemperatureProfile`` made from scores of that kind, which holds labels and weights.
        labels : array of shape (rows,)
            Class indices.
        sample_weight : array of shape (rows,), optional
            Weights; whole ones count repeated rows.
        ignore_index : int, optional
            Rows with this label are left out, as PyTorch does with -100.
        {covariates}

        Returns
        -------
        Calibrator
            The calibrator itself.

        Raises
        ------
        TypeError
            Where there are no labels, or a profile cannot be used.
        ValueError
            Where a parameter, the scores, the labels or the weights are refused.
        """
        started = time.perf_counter()
        self._check_parameters()
        more = (labels, sample_weight, ignore_index, covariates)
        alone = all(given is None for given in more)
        if isinstance(logits, TemperatureProfile):
            if not alone:
                raise TypeError("a profile holds labels and weights: fit(profile) takes no others")
            formula, info = self._fit_given_profile(logits)
            classes = logits.n_classes
        else:
            rows = logits
            if isinstance(rows, Rows):
                if not alone:
                    raise TypeError("rows hold labels and weights: fit(rows) takes no others")
                if rows.labels is None:
                    raise TypeError("fit needs labels, and these rows have none")
                self._check_kind(rows, self.input)
            else:
                if labels is None:
                    raise TypeError("fit needs labels, unless it is given a TemperatureProfile")
                rows = Rows.of(
                    logits,
                    labels,
                    sample_weight,
                    input=self.input,
                    ignore_index=ignore_index,
                    covariates=covariates,
                )
            if "covariates" in self.uses and rows.covariates is None:
                raise TypeError(f"{type(self).__name__} needs covariates")
            if rows.covariates is not None and "covariates" not in self.uses:
                raise TypeError(
                    f"{type(self).__name__} does not use covariates: leave them out, or take a "
                    "method that does"
                )
            rows, share = self._mixed(rows)
            classes = rows.n_classes
            formula, info = self._fit_rows(rows)
            if share:  # the loss before the fit was that of the mixture, not of the scores given
                formula = Smoothed(share, classes, formula)
                details = {**info.details, "uniform_share": share}
                info = replace(info, before=None, details=details)
        if not info.converged:
            warn(f"{type(self).__name__}: {info.message}")
        return self._restored(
            formula, replace(info, seconds=time.perf_counter() - started), classes
        )

    @abstractmethod
    def _fit_rows(self, rows: Rows) -> Fitted:
        """The formula of labelled rows, and how it was found. Sets nothing."""

    def _fit_given_profile(self, profile: TemperatureProfile) -> Fitted:
        raise TypeError(
            f"{type(self).__name__} is fitted on logits: a TemperatureProfile serves only the "
            "temperature family"
        )

    def _check_parameters(self) -> None:
        """Refuse parameters that make no sense, before any work is done.

        Overridden where a rule concerns several parameters.
        """
        for name, constraint in self._constraints.items():
            constraint.check(name, getattr(self, name))

    def _will_keep_arg_max(self) -> bool:
        """Whether a fit keeps the arg max; overridden where that depends on parameters."""
        return self._keeps_arg_max

    def _memory_needed(self, rows: int, classes: int) -> int:
        """The bytes that a fit allocates at the least; 0 where it reads the scores in parts."""
        return 0

    @final
    def _mixed(self, rows: Rows) -> tuple[Rows, float]:
        """The rows and 0; of probabilities with exact zeros a mixture and its uniform share."""
        if rows.input != "probs" or not has_zeros(rows.scores):  # looked at in parts
            return rows, 0.0
        check_probabilities(rows.scores)
        probs = array_namespace(rows.scores).clip(as_working_float(rows.scores), 0.0, 1.0)
        rows = rows.with_scores(probs, "probs").of_some_weight()
        if not has_zeros(rows.scores):
            return rows, 0.0
        require_memory(
            8 * len(rows) * rows.n_classes,
            "the mixture of probabilities of 0 with the uniform distribution",
            "give logits, or probabilities above 0",
        )
        # where nothing is fitted, the rows are only looked at
        share = uniform_share(rows) if self._adjusts else 0.0
        if share or not self._adjusts:
            rows = rows.with_scores(mixed(rows.scores, share or SHARES[0]), "probs")
        return rows, share

    @final
    def _restored(self, formula: Formula, info: FitInfo, n_classes: int | None) -> Self:
        """The state of a fitted calibrator, in one step that no interrupt can cut in two."""
        self.__dict__.update(
            formula_=formula, fit_info_=info, n_classes_=n_classes, input_=self.input
        )
        return self

    @property
    def accuracy_preserving(self) -> bool:
        """Whether no class ever gets a higher probability than the arg max of the scores."""
        if "formula_" in vars(self):
            return self.formula_.keeps_arg_max
        return self._will_keep_arg_max()

    # --- predicting ---

    @final
    @documented
    def predict_proba(self, logits: Any, *, covariates: Any = None) -> Array:
        """Compute calibrated probabilities.

        Parameters
        ----------
        {scores}
        {covariates}

        Returns
        -------
        array of shape (rows, classes)
            The probabilities, of the same kind of array and on the same device: float64 for
            float64 and integers, else float32.

        Raises
        ------
        sklearn.exceptions.NotFittedError
            Where the calibrator is not fitted.
        ValueError
            Where scores are NaN, +inf or, with ``input="probs"``, no distribution, or where the
            number of classes is not that of the fit.

        Warns
        -----
        CalibrationWarning
            Where what is given as logits looks like probabilities.
        """
        formula, rows = self._accepted(logits, covariates)
        compute = lambda rows, ops: (formula.probabilities(rows, ops),)  # noqa: E731
        return map_rows(formula, rows, compute, "probabilities")[0]

    @final
    @documented
    def predict_log_proba(self, logits: Any, *, covariates: Any = None) -> Array:
        """Compute the logarithms of the calibrated probabilities.

        Parameters
        ----------
        {scores}
        {covariates}

        Returns
        -------
        array of shape (rows, classes)
            The logarithms, finite where a probability is too small for its own float.
        """
        formula, rows = self._accepted(logits, covariates)
        compute = lambda rows, ops: (formula.log_probabilities(rows, ops),)  # noqa: E731
        return map_rows(formula, rows, compute, "log_probabilities")[0]

    @final
    @documented
    def predict_confidence(self, logits: Any, *, covariates: Any = None) -> Confidence:
        """Compute the predicted class of each row and its calibrated probability alone.

        Nothing of the size of the scores is written: where the other probabilities are not needed,
        this takes half the memory traffic of ``predict_proba`` and none of its memory.

        Parameters
        ----------
        {scores}
        {covariates}

        Returns
        -------
        label : array of shape (rows,)
            The class, as ``predict`` gives it.
        probability : array of shape (rows,)
            Its entry in ``predict_proba``: the largest probability of the row.
        temperature : array of shape (rows,), or None
            The row's temperature, for methods that divide logits by one.

        Examples
        --------
        >>> import calibrant
        >>> ts = calibrant.TS().fit([[4.0, 0.0], [3.0, 0.0], [5.0, 0.0]], [0, 0, 1])
        >>> label, probability, temperature = ts.predict_confidence([[0.0, 9.0], [2.0, 0.0]])
        >>> label, probability.round(3), temperature.round(2)
        (array([1, 0]), array([0.674, 0.54 ]), array([12.37, 12.37]))
        """
        formula, rows = self._accepted(logits, covariates)

        def compute(rows: FormulaRows, ops: Ops) -> tuple[Array, ...]:
            found = confidence_of(formula, rows, ops, formula.keeps_arg_max)
            return tuple(part for part in found if part is not None)

        found = map_rows(formula, rows, compute, "confidence", per_row=True)
        has_temperature = isinstance(unsmoothed(formula), TemperatureFormula)
        return Confidence(found[0], found[1], found[2] if has_temperature else None)

    @final
    @documented
    def predict(self, logits: Any, *, covariates: Any = None) -> Array:
        """Predict classes.

        Parameters
        ----------
        {scores}
        {covariates}

        Returns
        -------
        array of shape (rows,)
            Class indices: the arg max of the scores where the method preserves accuracy, even if
            probabilities tie after rounding, else that of the probabilities.
        """
        formula, rows = self._accepted(logits, covariates)

        def compute(rows: FormulaRows, ops: Ops) -> tuple[Array]:
            values = rows.logits if formula.keeps_arg_max else formula.probabilities(rows, ops)
            return (ops.arg_max(values)[:, 0],)

        return map_rows(formula, rows, compute, per_row=True)[0]

    @offered_if(lambda self: issubclass(self._formula_type(), TemperatureFormula))
    @documented
    def temperature(self, logits: Any, *, covariates: Any = None) -> Array:
        """Compute the temperature of each row, for methods that divide logits by one.

        Parameters
        ----------
        {scores}
        {covariates}

        Returns
        -------
        array of shape (rows,)
            The temperatures.
        """
        formula, rows = self._accepted(logits, covariates)
        own = cast("TemperatureFormula", formula)
        compute = lambda rows, ops: (own.row_temperatures(rows, ops),)  # noqa: E731
        return map_rows(formula, rows, compute, "confidence", per_row=True)[-1]

    @offered_if(lambda self: issubclass(self._formula_type(), LogitMap))
    @documented
    def transform(self, logits: Any, *, covariates: Any = None) -> Array:
        """Compute new logits, whose softmax is ``predict_proba``, for methods that are such a map.

        Parameters
        ----------
        {scores}
        {covariates}

        Returns
        -------
        array of shape (rows, classes)
            The new logits; masked classes stay -inf.
        """
        formula, rows = self._accepted(logits, covariates)
        own = cast("LogitMap", formula)
        return map_rows(formula, rows, lambda rows, ops: (own.scores(rows, ops),))[0]

    @final
    def _accepted(self, logits: Any, covariates: Any) -> tuple[Formula, Rows]:
        """The fitted formula, and rows that it can read: of the classes of the fit alone."""
        check_is_fitted(self)
        formula, rows = self.formula_, logits
        if isinstance(rows, Rows):
            if covariates is not None:
                raise TypeError("rows hold covariates: give them there")
            self._check_kind(rows, self.input_)
        else:
            scores = as_scores(logits, self.input_, self.n_classes_, may_be_empty=True)
            if covariates is not None:
                covariates = as_covariates(covariates, scores.shape[0])
            rows = Rows.unlabelled(scores, self.input_, covariates)
        classes = rows.scores.shape[1]
        if self.n_classes_ != classes:
            if self.n_classes_ is not None and formula.n_classes is None:
                raise ValueError(
                    f"fitted with {self.n_classes_} classes, got {classes}. A class that cannot be "
                    "chosen keeps its column, with the logit -inf (the probability 0); where other "
                    "classes are meant indeed, formula_(logits) takes any number of them"
                )
            formula.check_classes(classes)
        if rows.covariates is not None and "covariates" not in formula.needs:
            raise TypeError(f"this {type(self).__name__} was fitted without covariates")
        return formula, rows

    @final
    def _check_kind(self, rows: Rows, kind: InputKind) -> None:
        if rows.input != kind:
            raise ValueError(
                f"the rows hold {rows.input}, but this {type(self).__name__} reads {kind}"
            )

    @final
    def _formula_type(self) -> type[Formula]:
        """That of the fitted formula, or what a fit will give."""
        return type(unsmoothed(self.formula_)) if "formula_" in vars(self) else self._gives

    @final
    def _own_formula(self, *kinds: type[F]) -> F:
        """The formula of the method itself, from which its fitted attributes are read.

        Around it may stand what serves exact probabilities of 0 and 1, and classes without rows.
        """
        check_is_fitted(self)
        formula = unsmoothed(self.formula_)
        if isinstance(formula, SeenClasses):
            formula = formula.formula
        if not isinstance(formula, kinds):
            raise AttributeError(
                f"the formula of this {type(self).__name__} is a {type(formula).__name__}, which "
                "has no such attribute (a fit on rows of one class gives temperature scaling)"
            )
        return formula


def check_is_calibrator(thing: object) -> None:
    """Refuse what is no fitted calibrator."""
    if not isinstance(thing, Calibrator):
        name = type(thing).__name__
        raise TypeError(f"a fitted calibrator of calibrant is needed, got {name}")
    check_is_fitted(thing)


class LogitCalibrator(Calibrator, ABC):
    """A calibrator that is fitted on the logits themselves.

    A base class for methods of your own. A subclass sets its parameters, ``input`` among them, in
    ``__init__`` and defines ``_fit_logits(data)``, which returns a formula and a ``FitInfo`` for
    ``Rows`` of float64 logits in main memory, with labels and weights above 0. It sets
    ``_keeps_arg_max = True`` where no class can pass the arg max (or defines
    ``_will_keep_arg_max()`` where that depends on parameters), and may define
    ``_check_parameters()``, which raises ValueError for parameters that make no sense. One that
    sets ``uses = ("covariates",)`` finds them in the rows as well.

    See Also
    --------
    ProfileCalibrator : The same for methods that divide logits by temperatures.
    register : Make a calibrator known by name, so that it can be saved and compared.
    """

    #: Whether differences in the last digits grow in the fit. Rows are then put into an order of
    #: their own first, so that the order in which they were given does not matter.
    _amplifies_rounding: ClassVar[bool] = False

    #: What to do where a fit needs too much memory.
    _memory_remedy: ClassVar[str] = (
        "ts, ets, pts and the others of the temperature family read the scores in parts"
    )

    @abstractmethod
    def _fit_logits(self, data: Rows) -> Fitted:
        """The formula of labelled logits, and how it was found. Sets nothing."""

    def _memory_needed(self, rows: int, classes: int) -> int:
        return 2 * 8 * rows * classes  # the logits, and at least one array of their size

    @final
    def _fit_rows(self, rows: Rows) -> Fitted:
        data = self._labelled_logits(rows)
        warn_if_unrelated(association(replace(data, sample_weight=None)))
        if self._amplifies_rounding:
            data = data.in_canonical_order()
        formula, info = self._fit_seen(data)
        if self._will_keep_arg_max():
            warn_if_shares_are_off(formula, data)
        else:
            warn_of_unseen(data)
        return formula, info

    def _fit_seen(self, data: Rows) -> Fitted:
        """Fit on the classes that have rows; a method that treats all alike needs no such care."""
        if self._will_keep_arg_max():
            return self._fit_logits(data)
        return fit_seen(self._fit_logits, data)

    def _judged(self, data: Rows, folds: Folds) -> Judgement:
        """The loss of each row of the folds had it not been fitted on, and the fit on all rows."""
        rows = folds.rows(data)
        losses = held_out_nll(lambda kept: self._fit_seen(rows.take(kept))[0], rows, folds.parts)
        return Judgement(losses, lambda: self._fit_seen(data))

    @final
    def _labelled_logits(self, rows: Rows) -> Rows:
        """The rows of positive weight as float64 logits in main memory."""
        size = (len(rows), rows.n_classes)
        require_memory(
            self._memory_needed(*size),
            f"{type(self).__name__} of {size[0]:,} rows and {size[1]:,} classes",
            self._memory_remedy,
        )
        if rows.input == "logits":
            warn_if_probabilities(rows.scores)
            refuse_label_column(rows.scores, rows.labels)
        on_host = rows.with_scores(to_numpy(rows.scores), rows.input)
        values = np.ascontiguousarray(on_host.as_logits(), np.float64)
        check_label_logits(values[np.arange(len(rows)), rows.labels], rows.labels)
        if self.two_classes_only and rows.n_classes != 2:
            raise ValueError(f"{type(self).__name__} is for two classes, got {rows.n_classes}")
        return on_host.with_scores(values).of_some_weight()


class ProfileCalibrator(Calibrator, ABC):
    """A calibrator that is fitted from a ``TemperatureProfile`` alone.

    A base class for methods of your own. A subclass sets its parameters, ``input`` among them, in
    ``__init__`` and defines ``_fit_profile(profile)``, which returns a formula and a ``FitInfo``.
    It sets ``_keeps_arg_max = True`` where no class can pass the arg max (or defines
    ``_will_keep_arg_max()`` where that depends on parameters), and may define
    ``_check_parameters()``, which raises ValueError for parameters that make no sense.

    See Also
    --------
    LogitCalibrator : The same for methods that need the logits themselves.
    register : Make a calibrator known by name, so that it can be saved and compared.

    Examples
    --------
    >>> from calibrant.calibrators import FitInfo
    >>> from calibrant.formulas import ConstantTemperature
    >>> class Halved(ProfileCalibrator):
    ...     _keeps_arg_max = True
    ...     def __init__(self, input="logits"):
    ...         self.input = input
    ...     def _fit_profile(self, profile):
    ...         return ConstantTemperature(2.0), FitInfo(True, "nothing to fit")
    >>> Halved().fit([[2.0, 0.0]], [0]).predict_proba([[2.0, 0.0]]).round(3)
    array([[0.731, 0.269]])
    """

    @abstractmethod
    def _fit_profile(self, profile: TemperatureProfile) -> Fitted:
        """The formula of a profile, and how it was found. Sets nothing."""

    @final
    def _fit_rows(self, rows: Rows) -> Fitted:
        rows = self._read(rows)
        if not self._adjusts:  # one pass, for its checks alone: there is nothing to fit
            return self._fit_checked(TemperatureProfile()._add(rows))
        formula, info = self._fit_checked(scaled_profile(rows, self._top_k))
        warn_if_shares_are_off(formula, rows)  # a temperature cannot repair a wrong prior
        return formula, info

    @final
    def _fit_given_profile(self, profile: TemperatureProfile) -> Fitted:
        if len(profile) and profile.input != self.input:
            raise ValueError(
                f"the profile was made from {profile.input}, but {type(self).__name__} has "
                f"input={self.input!r}: predictions would read other scores than the fit did"
            )
        return self._fit_checked(profile)

    @final
    def _fit_checked(self, profile: TemperatureProfile) -> Fitted:
        warn_if_unrelated(profile._association)
        if len(profile) and not profile.weight.all():  # rows of weight 0 are as good as absent
            profile = profile.take(np.flatnonzero(profile.weight))
        return self._fit_profile(profile)

    #: How many of the largest logits the profile keeps.
    _top_k: int = DEFAULT_TOP_K

    def _read(self, rows: Rows) -> Rows:
        """The rows as the formula reads them; a method may clip their scores."""
        return rows
