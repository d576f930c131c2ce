"""What all calibrators share: arrays are checked, fitted to a formula, and computed by it."""

from __future__ import annotations

import threading
import time
from abc import ABC, abstractmethod
from collections.abc import Callable
from dataclasses import replace
from typing import Any, ClassVar, Self, TypeVar, cast, final

import numpy as np
from array_api_compat import array_namespace, is_numpy_array
from numpy.typing import NDArray

from calibrant.backends.cuda.dispatch import Output, fused
from calibrant.backends.numba.dispatch import compiled_probabilities
from calibrant.calibrators._best_temperature import scaled
from calibrant.calibrators._class_shares import some_rows, warn_if_shares_are_off
from calibrant.calibrators._estimator import Estimator, check_is_fitted, offered_if
from calibrant.calibrators._exact_zeros import SHARES, has_zeros, mixed, smoothed, uniform_share
from calibrant.calibrators._fit_info import FitInfo
from calibrant.calibrators._unseen import fit_seen, warn_of_unseen
from calibrant.calibrators.profile.temperature_profile import TemperatureProfile
from calibrant.common.arrays import (
    DEVICE_TILE_ELEMENTS,
    TILE_ELEMENTS,
    as_working_float,
    even_tiles,
    laid_out,
    like,
    on_host,
    place_of,
    row_max,
    row_tiles,
    to_numpy,
)
from calibrant.common.errors import warn
from calibrant.common.memory import require_memory
from calibrant.common.threads import available_cores, mapping, one_blas_thread
from calibrant.common.types import Array, InputKind
from calibrant.data.checks import (
    as_labels,
    as_scores,
    as_weights,
    check_label_logits,
    check_logits,
    check_probabilities,
    without_ignored,
)
from calibrant.data.labelled_logits import LabelledLogits
from calibrant.data.likely_mistakes import (
    association,
    refuse_label_column,
    warn_if_probabilities,
    warn_if_unrelated,
)
from calibrant.formulas import (
    Confidence,
    Formula,
    LogitMap,
    SeenClasses,
    TemperatureFormula,
    confidence_of,
)
from calibrant.formulas._array_operations import FAST_NUMPY, NUMPY, numpy_flags_ignored, ops_of
from calibrant.formulas._operations import Ops
from calibrant.formulas._row_functions import keep_arg_max_of_scores, log_odds, ordered_log_odds
from calibrant.formulas.smoothed import unsmoothed

USUAL_WIDTH = 16  # numbers per logit that a tile has room for; for more of them it is smaller
Fitted = tuple[Formula, FitInfo]  # what a method's fit gives
F = TypeVar("F", bound=Formula)
TileFunction = Callable[[Array, Ops], Array]
TileFunctions = Callable[[Array, Ops], tuple[Array, ...]]


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
    #: What kind of formula a fit gives: whether there are temperatures, or new logits.
    _gives: ClassVar[type[Formula]] = Formula  # type: ignore[type-abstract]

    input: InputKind
    formula_: Formula
    fit_info_: FitInfo
    n_classes_: int | None
    input_: InputKind

    # --- what a method says of itself ---

    @abstractmethod
    def fit(
        self,
        logits: Any,
        labels: Any = None,
        sample_weight: Any = None,
        *,
        ignore_index: int | None = None,
    ) -> Self:
        """Fit on labelled scores.

        Parameters
        ----------
        logits : array of shape (rows, classes), or (rows,) for two classes
            Scores of the kind that ``input`` names; for the temperature family, also a
            ``TemperatureProfile``.
        labels : array of shape (rows,)
            Class indices.
        sample_weight : array of shape (rows,), optional
            Weights; whole ones count repeated rows.
        ignore_index : int, optional
            Rows with this label are left out, as PyTorch does with -100.

        Returns
        -------
        Calibrator
            The calibrator itself.
        """

    @property
    def accuracy_preserving(self) -> bool:
        """Whether no class ever gets a higher probability than the arg max of the scores."""
        if "formula_" in vars(self):
            return self.formula_.keeps_arg_max
        return self._will_keep_arg_max()

    @abstractmethod
    def _check_parameters(self) -> None:
        """Refuse parameters that make no sense, before any work is done."""

    @abstractmethod
    def _will_keep_arg_max(self) -> bool:
        """Whether the formula of a fit with these parameters keeps the arg max."""

    def _memory_needed(self, rows: int, classes: int) -> int:
        """The bytes that a fit allocates at the least; 0 where it reads the scores in parts."""
        return 0

    # --- fitting ---

    @final
    def _mixed(
        self, scores: Any, labels: Any, sample_weight: Any
    ) -> tuple[tuple[Any, Any, Any], float]:
        """The rows and 0; of probabilities with exact zeros a mixture and its uniform share."""
        rows_as_given = (scores, labels, sample_weight)
        if self.input != "probs":
            return rows_as_given, 0.0
        probs = as_scores(scores, "probs")
        if not has_zeros(probs):  # looked at in parts: a memory-mapped file stays on the disk
            return rows_as_given, 0.0
        rows, classes = probs.shape
        check_probabilities(probs)
        target, weight = as_labels(labels, rows, classes), as_weights(sample_weight, rows)
        probs = array_namespace(probs).clip(as_working_float(probs), 0.0, 1.0)
        if not weight.all():  # rows of weight 0 are as good as absent
            used = np.flatnonzero(weight)
            xp = array_namespace(probs)
            probs = xp.take(probs, xp.asarray(used, **place_of(probs)), axis=0)
            target, weight = target[used], weight[used]
            rows_as_given = (probs, target, weight)
            if not has_zeros(probs):
                return rows_as_given, 0.0
        require_memory(
            8 * rows * classes,
            "the mixture of probabilities of 0 with the uniform distribution",
            "give logits, or probabilities above 0",
        )
        if not self._adjusts:  # nothing is fitted: the rows are only looked at
            return (mixed(probs, SHARES[0]), target, weight), 0.0
        share = uniform_share(to_numpy(probs).astype(np.float64), target, weight)
        return ((mixed(probs, share), target, weight) if share else rows_as_given), share

    @final
    def _keep(self, formula: Formula, info: FitInfo, n_classes: int | None) -> Self:
        """The end of a fit: everything at once, or nothing."""
        if not info.converged:
            warn(f"{type(self).__name__}: {info.message}")
        return self._restored(formula, info, n_classes)

    @final
    def _restored(self, formula: Formula, info: FitInfo, n_classes: int | None) -> Self:
        """The state of a fitted calibrator, in one step that no interrupt can cut in two."""
        self.__dict__.update(
            formula_=formula, fit_info_=info, n_classes_=n_classes, input_=self.input
        )
        return self

    # --- predicting ---

    @final
    def predict_proba(self, logits: Any) -> Array:
        """Compute calibrated probabilities.

        Parameters
        ----------
        logits : array of shape (rows, classes), or (rows,) for two classes
            Scores of the kind that ``input`` names; masked classes are -inf (probability 0).

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
        formula = self._formula()
        return self._mapped(formula, logits, formula.probabilities, "probabilities")

    @final
    def predict_log_proba(self, logits: Any) -> Array:
        """Compute the logarithms of the calibrated probabilities.

        Parameters
        ----------
        logits : array of shape (rows, classes), or (rows,) for two classes
            Scores of the kind that ``input`` names.

        Returns
        -------
        array of shape (rows, classes)
            The logarithms, finite where a probability is too small for its own float.
        """
        formula = self._formula()
        return self._mapped(formula, logits, formula.log_probabilities, "log_probabilities")

    @final
    def predict_confidence(self, logits: Any) -> Confidence:
        """Compute the predicted class of each row and its calibrated probability alone.

        Nothing of the size of the scores is written: where the other probabilities are not needed,
        this takes half the memory traffic of ``predict_proba`` and none of its memory.

        Parameters
        ----------
        logits : array of shape (rows, classes), or (rows,) for two classes
            Scores of the kind that ``input`` names.

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
        formula = self._formula()

        def confidence(tile: Array, ops: Ops) -> tuple[Array, ...]:
            found = confidence_of(formula, tile, ops, formula.keeps_arg_max)
            return tuple(part for part in found if part is not None)

        label, probability, *temperature = self._map_rows(
            formula, logits, confidence, "confidence", per_row=True
        )
        has_temperature = isinstance(unsmoothed(formula), TemperatureFormula)
        return Confidence(label, probability, temperature[0] if has_temperature else None)

    @final
    def predict(self, logits: Any) -> Array:
        """Predict classes.

        Parameters
        ----------
        logits : array of shape (rows, classes), or (rows,) for two classes
            Scores of the kind that ``input`` names.

        Returns
        -------
        array of shape (rows,)
            Class indices: the arg max of the scores where the method preserves accuracy, even if
            probabilities tie after rounding, else that of the probabilities.
        """
        formula = self._formula()

        def arg_max(tile: Array, ops: Ops) -> Array:
            values = tile if formula.keeps_arg_max else formula.probabilities(tile, ops)
            return ops.arg_max(values)[:, 0]

        return self._mapped(formula, logits, arg_max, per_row=True)

    @offered_if(lambda self: issubclass(self._formula_type(), TemperatureFormula))
    def temperature(self, logits: Any) -> Array:
        """Compute the temperature of each row, for methods that divide logits by one.

        Parameters
        ----------
        logits : array of shape (rows, classes), or (rows,) for two classes
            Scores of the kind that ``input`` names.

        Returns
        -------
        array of shape (rows,)
            The temperatures.
        """
        formula = cast("TemperatureFormula", self._formula())

        def temperatures(tile: Array, ops: Ops) -> tuple[Array]:
            return (formula.row_temperatures(tile, ops),)

        # the last part of a confidence
        return self._map_rows(formula, logits, temperatures, "confidence", per_row=True)[-1]

    @offered_if(lambda self: issubclass(self._formula_type(), LogitMap))
    def transform(self, logits: Any) -> Array:
        """Compute new logits, whose softmax is ``predict_proba``, for methods that are such a map.

        Parameters
        ----------
        logits : array of shape (rows, classes), or (rows,) for two classes
            Scores of the kind that ``input`` names.

        Returns
        -------
        array of shape (rows, classes)
            The new logits; masked classes stay -inf.
        """
        formula = cast("LogitMap", self._formula())
        return self._mapped(formula, logits, formula.scores)

    @final
    def _formula_type(self) -> type[Formula]:
        """That of the fitted formula, or what a fit will give."""
        return type(unsmoothed(self.formula_)) if "formula_" in vars(self) else self._gives

    @final
    def _formula(self) -> Formula:
        check_is_fitted(self)
        return self.formula_

    @final
    def _own_formula(self, *kinds: type[F]) -> F:
        """The formula of the method itself, from which its fitted attributes are read.

        Around it may stand what serves exact probabilities of 0 and 1, and classes without rows.
        """
        formula = unsmoothed(self._formula())
        if isinstance(formula, SeenClasses):
            formula = formula.formula
        if not isinstance(formula, kinds):
            raise AttributeError(
                f"the formula of this {type(self).__name__} is a {type(formula).__name__}, which "
                "has no such attribute (a fit on rows of one class gives temperature scaling)"
            )
        return formula

    @final
    def _check_classes(self, formula: Formula, classes: int) -> None:
        """Refuse another number of classes than that of the fit, even where a formula could do."""
        if self.n_classes_ in (None, classes) or formula.n_classes is not None:
            formula.check_classes(classes)
            return
        raise ValueError(
            f"fitted with {self.n_classes_} classes, got {classes}. A class that cannot be chosen "
            "keeps its column, with the logit -inf (the probability 0); where other classes are "
            "meant indeed, formula_(logits) takes any number of them"
        )

    @final
    def _mapped(
        self,
        formula: Formula,
        scores: Any,
        function: TileFunction,
        output: Output | None = None,
        per_row: bool = False,
    ) -> Array:
        """Apply a function of logits that gives one array."""
        one = lambda tile, ops: (function(tile, ops),)  # noqa: E731
        return self._map_rows(formula, scores, one, output, per_row)[0]

    @final
    def _map_rows(
        self,
        formula: Formula,
        scores: Any,
        function: TileFunctions,
        output: Output | None = None,
        per_row: bool = False,
    ) -> tuple[Array, ...]:
        """Apply a formula's function of logits tile by tile: on threads, or on the device.

        ``output`` says which output of the formula it is, for which there may be a kernel.
        ``per_row``: it gives numbers per row, none per class.
        """
        scores = as_scores(scores, self.input_, self.n_classes_, may_be_empty=True)
        self._check_classes(formula, scores.shape[1])
        on_device = not (formula.host_only or on_host(scores))
        if on_device:
            return self._map_rows_on_device(formula, scores, function, output)
        values = scores if isinstance(scores, np.ndarray) else to_numpy(scores)
        if self.input_ == "logits":
            warn_if_probabilities(values, fitted=True)
        if not per_row:
            require_memory(4 * values.size, "the result", "give the rows in parts")
        kernel = output == "probabilities" and self.input_ == "logits"
        found = compiled_probabilities(formula, values) if kernel else None
        if found is not None:
            return (like(found, scores),)
        results = self._map_rows_on_host(formula, values, function)
        return results if values is scores else tuple(like(one, scores) for one in results)

    @final
    def _map_rows_on_device(
        self, formula: Formula, scores: Array, function: TileFunctions, output: Output | None
    ) -> tuple[Array, ...]:
        if self.input_ == "logits":
            answer = None if output is None else fused(formula, scores, output)
            if answer is None or answer.may_be_probabilities:
                warn_if_probabilities(scores, fitted=True)
            if answer is not None:
                return answer.results
        ops, parts = ops_of(scores), []
        for tile in row_tiles(scores, DEVICE_TILE_ELEMENTS // _room(formula)):
            logits = as_logits(scores[tile], self.input_, tile.start)
            answer = None if output is None else fused(formula, logits, output)
            with np.errstate(over="ignore"):  # -inf is what a gap too large for its float means
                parts.append(function(logits, ops) if answer is None else answer.results)
        xp = array_namespace(scores)
        return tuple(xp.concat(list(part), axis=0) for part in zip(*parts, strict=True))

    @final
    def _map_rows_on_host(
        self, formula: Formula, scores: NDArray[Any], function: TileFunctions
    ) -> tuple[NDArray[Any], ...]:
        rows_at_once = _rows_at_once(formula, scores.shape[1])
        if len(scores) <= rows_at_once and not formula.large_product:
            parts = self._computed(scores, 0, function)
            return tuple([np.ascontiguousarray(part) for part in parts])
        tiles, results = even_tiles(len(scores), rows_at_once), Gathered(len(scores))

        def fill(tile: slice) -> None:
            results.put(tile, self._computed(scores[tile], tile.start, function))

        # tiles run on threads, in which large matrix products must not start their own
        with (
            one_blas_thread(formula.large_product),
            mapping(min(available_cores(), len(tiles))) as on_threads,
        ):
            list(on_threads(fill, tiles))
        return results.arrays

    @final
    @numpy_flags_ignored
    def _computed(
        self, tile: NDArray[Any], first_row: int, function: TileFunctions
    ) -> tuple[NDArray[Any], ...]:
        return function(as_logits(tile, self.input_, first_row), FAST_NUMPY)


def _room(formula: Formula) -> int:
    """How many times the usual memory a tile takes."""
    return min(max(1, formula.widest // USUAL_WIDTH), TILE_ELEMENTS)


def _rows_at_once(formula: Formula, classes: int) -> int:
    """The rows of a tile in main memory, where what a network holds must stay in the caches."""
    return max(1, TILE_ELEMENTS // max(classes * _room(formula), 2 * formula.widest))


class Gathered:
    """The results of all rows, filled by tiles as they come, on several threads."""

    def __init__(self, rows: int) -> None:
        self.rows, self.lock = rows, threading.Lock()
        self.arrays: tuple[NDArray[Any], ...] = ()

    def put(self, tile: slice, parts: tuple[NDArray[Any], ...]) -> None:
        """Keep the results of a tile; the first one shows what they are."""
        with self.lock:
            if not self.arrays:
                self.arrays = tuple(np.empty((self.rows, *p.shape[1:]), p.dtype) for p in parts)
        for array, part in zip(self.arrays, parts, strict=True):
            array[tile] = part


def check_is_calibrator(thing: object) -> None:
    """Refuse what is no fitted calibrator."""
    if not isinstance(thing, Calibrator):
        name = type(thing).__name__
        raise TypeError(f"a fitted calibrator of calibrant is needed, got {name}")
    check_is_fitted(thing)


def as_logits(tile: Array, kind: InputKind, first_row: int = 0) -> Array:
    """A tile of scores as valid logits in the working precision; bad values are refused."""
    tile = as_working_float(tile)
    if isinstance(tile, np.ndarray):
        tile = laid_out(tile)
    if kind == "probs":
        check_probabilities(tile, first_row=first_row)
        if not is_numpy_array(tile):
            return ordered_log_odds(tile, ops_of(tile))
        logits = log_odds(tile, NUMPY)
        ties = np.count_nonzero(logits == row_max(logits)[:, None]) > len(tile)
        return keep_arg_max_of_scores(logits, tile, NUMPY) if ties else logits
    check_logits(tile, first_row)
    return tile


class LogitCalibrator(Calibrator, ABC):
    """A calibrator that is fitted on the logits themselves.

    A base class for methods of your own. A subclass sets its parameters, ``input`` among them, in
    ``__init__`` and defines three methods: ``_check_parameters()``, which raises ValueError for
    parameters that make no sense; ``_will_keep_arg_max()``, whether no class can pass the arg max;
    and ``_fit_logits(data)``, which returns a formula and a ``FitInfo`` for a ``LabelledLogits``.

    See Also
    --------
    ProfileCalibrator : The same for methods that divide logits by temperatures.
    register : Make a calibrator known by name, so that it can be saved and compared.
    """

    @final
    def fit(
        self,
        logits: Any,
        labels: Any = None,
        sample_weight: Any = None,
        *,
        ignore_index: int | None = None,
    ) -> Self:
        """Fit on labelled scores.

        Parameters
        ----------
        logits : array of shape (rows, classes), or (rows,) for two classes
            Scores of the kind that ``input`` names.
        labels : array of shape (rows,)
            Class indices.
        sample_weight : array of shape (rows,), optional
            Weights; whole ones count repeated rows.
        ignore_index : int, optional
            Rows with this label are left out, as PyTorch does with -100.

        Returns
        -------
        Calibrator
            The calibrator itself.

        Raises
        ------
        TypeError
            Where there are no labels, or a ``TemperatureProfile`` in place of logits.
        ValueError
            Where a parameter, the scores, the labels or the weights are refused.
        """
        started = time.perf_counter()
        if isinstance(logits, TemperatureProfile):
            raise TypeError(
                f"{type(self).__name__} is fitted on logits: a TemperatureProfile serves only the "
                "temperature family"
            )
        if labels is None:
            raise TypeError("fit needs labels")
        self._check_parameters()
        given = without_ignored(logits, labels, sample_weight, ignore_index)
        rows, share = self._mixed(*given)
        data = self._entered(*rows)
        warn_if_unrelated(association(data.logits, data.labels, None, "logits"))
        if self._amplifies_rounding:
            data = data.in_canonical_order()
        formula, info = self._fit_seen(data)
        some = some_rows(len(data.labels))
        if self._will_keep_arg_max():
            warn_if_shares_are_off(formula, data.logits[some], data.labels[some], data.weight[some])
        else:
            warn_of_unseen(data.labels, data.weight, data.logits[some], some)
        info = replace(info, seconds=time.perf_counter() - started)
        return self._keep(*smoothed(formula, info, share, data.n_classes), data.n_classes)

    def _fit_seen(self, data: LabelledLogits) -> Fitted:
        """Fit on the classes that have rows; a method that treats all alike needs no such care."""
        if self._will_keep_arg_max():
            return self._fit_logits(data)
        return fit_seen(self._fit_logits, data)

    @final
    def _entered(self, logits: Any, labels: Any, sample_weight: Any) -> LabelledLogits:
        scores = as_scores(logits, self.input)
        rows, classes = scores.shape
        require_memory(
            self._memory_needed(rows, classes),
            f"{type(self).__name__} of {rows:,} rows and {classes:,} classes",
            self._memory_remedy,
        )
        target = as_labels(labels, rows, classes)
        weight = as_weights(sample_weight, rows)
        if self.input == "logits":
            warn_if_probabilities(scores)
            refuse_label_column(scores, target)
        values = np.ascontiguousarray(as_logits(to_numpy(scores), self.input), np.float64)
        check_label_logits(values[np.arange(rows), target], target)
        if self.two_classes_only and classes != 2:
            raise ValueError(f"{type(self).__name__} is for two classes, got {classes}")
        used = weight > 0.0  # rows of weight 0 are as good as absent
        if not used.all():
            values, target, weight = values[used], target[used], weight[used]
        return LabelledLogits(values, target, weight)

    #: Whether differences in the last digits grow in the fit. Rows are then put into an order of
    #: their own first, so that the order in which they were given does not matter.
    _amplifies_rounding: ClassVar[bool] = False

    #: What to do where a fit needs too much memory.
    _memory_remedy: ClassVar[str] = (
        "ts, ets, pts and the others of the temperature family read the scores in parts"
    )

    def _memory_needed(self, rows: int, classes: int) -> int:
        return 2 * 8 * rows * classes  # the logits, and at least one array of their size

    @abstractmethod
    def _fit_logits(self, data: LabelledLogits) -> Fitted:
        """The formula of labelled logits, and how it was found. Sets nothing."""


class ProfileCalibrator(Calibrator, ABC):
    """A calibrator that is fitted from a ``TemperatureProfile`` alone.

    A base class for methods of your own. A subclass sets its parameters, ``input`` among them, in
    ``__init__`` and defines three methods: ``_check_parameters()``, which raises ValueError for
    parameters that make no sense; ``_will_keep_arg_max()``, whether no class can pass the arg max;
    and ``_fit_profile(profile)``, which returns a formula and a ``FitInfo``.

    See Also
    --------
    LogitCalibrator : The same for methods that need the logits themselves.
    register : Make a calibrator known by name, so that it can be saved and compared.

    Examples
    --------
    >>> from calibrant.calibrators import FitInfo
    >>> from calibrant.formulas import ConstantTemperature
    >>> class Halved(ProfileCalibrator):
    ...     def __init__(self, input="logits"):
    ...         self.input = input
    ...     def _check_parameters(self):
    ...         pass
    ...     def _will_keep_arg_max(self):
    ...         return True
    ...     def _fit_profile(self, profile):
    ...         return ConstantTemperature(2.0), FitInfo(True, "nothing to fit")
    >>> Halved().fit([[2.0, 0.0]], [0]).predict_proba([[2.0, 0.0]]).round(3)
    array([[0.731, 0.269]])
    """

    @final
    def fit(
        self,
        logits: Any,
        labels: Any = None,
        sample_weight: Any = None,
        *,
        ignore_index: int | None = None,
    ) -> Self:
        """Fit on labelled scores, or on a profile of them.

        Parameters
        ----------
        logits : array of shape (rows, classes) or (rows,), or TemperatureProfile
            Scores of the kind that ``input`` names. A profile holds labels and weights, too, and
            must have been made from scores of that kind.
        labels : array of shape (rows,)
            Class indices; not with a profile.
        sample_weight : array of shape (rows,), optional
            Weights; whole ones count repeated rows.
        ignore_index : int, optional
            Rows with this label are left out, as PyTorch does with -100.

        Returns
        -------
        Calibrator
            The calibrator itself.

        Raises
        ------
        TypeError
            Where there are no labels, or labels beside a profile.
        ValueError
            Where a parameter, the scores, the labels or the weights are refused, or a profile was
            made from scores of another kind.
        """
        started = time.perf_counter()
        self._check_parameters()
        if isinstance(logits, TemperatureProfile):
            if not (labels is None and sample_weight is None and ignore_index is None):
                raise TypeError("a profile holds labels and weights: fit(profile) takes no others")
            profile, scores, share = logits, None, 0.0
            self._check_kind(profile)
        else:
            if labels is None:
                raise TypeError("fit needs labels, unless it is given a TemperatureProfile")
            given = without_ignored(logits, labels, sample_weight, ignore_index)
            scores, share = self._mixed(*given)
            profile = self._profile(*scores)
        warn_if_unrelated(profile._association)
        if len(profile) and not profile.weight.all():  # rows of weight 0 are as good as absent
            profile = profile.take(np.flatnonzero(profile.weight))
        formula, info = self._fit_profile(profile)
        if scores is not None and self._adjusts:
            self._check_shares(formula, *scores)
        info = replace(info, seconds=time.perf_counter() - started)
        if profile.n_classes is not None:
            formula, info = smoothed(formula, info, share, profile.n_classes)
        return self._keep(formula, info, profile.n_classes)

    @final
    def _check_shares(self, formula: Formula, scores: Any, labels: Any, sample_weight: Any) -> None:
        """Warn of a wrong prior, which no temperature repairs; the rows have been checked."""
        scores = as_scores(scores, self.input)
        some, rows = some_rows(scores.shape[0]), scores.shape[0]
        logits = as_logits(to_numpy(scores[some]), self.input)
        target = as_labels(labels, rows, scores.shape[1])[some]
        warn_if_shares_are_off(formula, logits, target, as_weights(sample_weight, rows)[some])

    @final
    def _check_kind(self, profile: TemperatureProfile) -> None:
        if len(profile) and profile.input != self.input:
            raise ValueError(
                f"the profile was made from {profile.input}, but {type(self).__name__} has "
                f"input={self.input!r}: predictions would read other scores than the fit did"
            )

    def _profile(self, scores: Any, labels: Any, sample_weight: Any) -> TemperatureProfile:
        """The profile from which the method is fitted; a method may refine it."""
        return scaled(lambda scale: self._profile_at(scale, scores, labels, sample_weight))

    def _profile_at(
        self,
        scale: float,
        scores: Any,
        labels: Any,
        sample_weight: Any,
        *,
        associate: bool = True,
    ) -> TemperatureProfile:
        """The profile of some rows of all, by a scale that is known; a method may refine it."""
        rows = (scores, labels, sample_weight, self.input)
        return TemperatureProfile(scale=scale)._add(*rows, associate=associate)

    @abstractmethod
    def _fit_profile(self, profile: TemperatureProfile) -> Fitted:
        """The formula of a profile, and how it was found. Sets nothing."""
