"""A scikit-learn classifier whose probabilities are calibrated: ``CalibratedClassifier``.

Here ``sklearn`` is always scikit-learn itself: imports are absolute. Nothing in calibrant imports
this module; a user does, by name.
"""
# ruff: noqa: N803 - features are called X, as everywhere in scikit-learn

from __future__ import annotations

from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from functools import reduce
from reprlib import Repr
from typing import Any, Literal, Self, get_args

import numpy as np
from array_api_compat import is_array_api_obj, is_numpy_array
from numpy.typing import NDArray
from scipy.special import softmax
from sklearn import get_config
from sklearn.base import BaseEstimator, ClassifierMixin, MetaEstimatorMixin, clone
from sklearn.exceptions import NotFittedError
from sklearn.frozen import FrozenEstimator
from sklearn.linear_model import LogisticRegression
from sklearn.model_selection import check_cv
from sklearn.utils import (
    Tags,
    _safe_indexing,
    check_random_state,
    column_or_1d,
    get_tags,
    indexable,
)
from sklearn.utils.metadata_routing import MetadataRouter, MethodMapping, process_routing
from sklearn.utils.multiclass import check_classification_targets
from sklearn.utils.parallel import Parallel, delayed
from sklearn.utils.validation import check_is_fitted, has_fit_parameter

from calibrant.calibrators import REGISTRY, Calibrator, Uncalibrated, acronym, calibrator
from calibrant.calibrators._best_temperature import best_temperature, scaled_profile
from calibrant.calibrators._exact_zeros import uniform_share
from calibrant.common.arrays import like, to_numpy
from calibrant.common.errors import warn
from calibrant.common.tables import Table, Tables
from calibrant.common.types import Array, Floats
from calibrant.data.checks import as_weights
from calibrant.data.rows import Rows

ResponseMethod = Literal["auto", "decision_function", "predict_log_proba", "predict_proba"]
Ensemble = Literal["shared"] | bool
Codes = NDArray[np.int64]  # class indices
Split = tuple[Any, Any]  # the rows to train on and the rows held out

#: Smaller probabilities count as this one. A forest says 0 where it has no vote, naive Bayes 1e-200
#: where it is merely wrong: one temperature serves neither unless the tails are cut (and no
#: temperature explains a label on a logit of -inf). scikit-learn adds the same number.
SMALLEST_PROBABILITY = 1e-12
ROUNDING = 1e-6  # by which a probability may lie below 0; it then counts as 0
LARGE_TEMPERATURE = 4.0  # margins whose best temperature is larger are divided by about it
LARGEST_SCALE = 1e30
FEWEST_ROWS_OF_SCALE = 10  # held-out rows of a fold from which it has a scale of its own
MOST_NAMES = 10  # methods that a repr lists


class CalibratedClassifier(ClassifierMixin, MetaEstimatorMixin, BaseEstimator):
    """A scikit-learn classifier with calibrated probabilities.

    Parameters
    ----------
    estimator : classifier, optional
        The classifier; None is ``LogisticRegression(max_iter=1000)``. As everywhere in
        scikit-learn it is cloned and the clones are fitted, even where it is fitted already; a
        warning tells so. To keep a fitted one as it is, wrap it yourself in scikit-learn's
        ``FrozenEstimator``: then all rows given to ``fit`` calibrate it (they must not be its
        training rows), and ``cv`` and ``ensemble`` do not matter.
    method : str or Calibrator, default "auto"
        The calibrator: its acronym (``"pts"``, ``"ts"``, ``"ets"``, ..: the keys of
        ``calibrant.calibrators.REGISTRY``) or an unfitted one that reads logits, which is cloned.
        The default chooses a method by left-out rows and may move the arg max, as is needed where
        classes were weighted; ``AutoCalibrator(preserve_accuracy=True)`` never does.
    cv : int, splitter, iterable or "prefit", default 5
        The folds: a number, a splitter, or an iterable of (train, test) indices, as everywhere in
        scikit-learn. ``"prefit"`` is short for a ``FrozenEstimator``; only the latter survives
        ``clone``, and so ``GridSearchCV``.
    ensemble : {"shared", True, False}, default "shared"
        How many classifiers and calibrators there are. ``"shared"``: every fold gives a
        classifier, fitted on the other folds; one calibrator is fitted on the scores that all rows
        get while they are held out; the calibrated probabilities of the classifiers are averaged.
        True: the same, but every fold has a calibrator of its own, fitted on its rows alone.
        False: one calibrator as with ``"shared"``, for one classifier, fitted on all rows.
    response_method : {"auto", "decision_function", "predict_log_proba", "predict_proba"}
        Where the logits come from: ``"decision_function"`` (a binary margin s means the logits
        (0, s)), ``"predict_log_proba"``, or the logarithm of ``"predict_proba"``, these two less
        their row means. ``"auto"``, the default, is the decision function where it gives one score
        per class or a binary margin, else ``"predict_proba"``.
    n_jobs : int, optional
        How many folds are fitted at once, by joblib.
    random_state : int, numpy.random.RandomState or None, default None
        A seed for everything inside, classifier or calibrator, whose own ``random_state`` is None.
        None leaves all of them as they are.

    Attributes
    ----------
    classes_ : array of shape (classes,)
        The labels, in the order of the columns. Those of a frozen classifier are its own.
    response_method_ : str
        The response method in use.
    calibrated_classifiers_ : list of CalibratedPair
        The fitted pairs, each with an ``estimator`` and a ``calibrator``. There is one for each
        fold; with ``ensemble=False`` or a frozen classifier there is one in all.
    calibrators_ : tuple of Calibrator
        The different calibrators of the pairs: one for each fold with ``ensemble=True``, else one.
        ``calibrant.save`` writes them to one file, without pickle.
    method_ : tuple of str
        The acronym of the method of each of the ``calibrators_``: what ``"auto"`` chose.
    n_features_in_ : int
        The number of features, where the first pair's classifier has it.
    feature_names_in_ : array of shape (features,)
        The names of the features, where the first pair's classifier has them.

    Notes
    -----
    Probabilities below 1e-12 count as 1e-12, so that a label may lie on a probability of 0. Where
    ``predict_proba`` gives such probabilities, as forests, trees and nearest neighbours do, they
    are mixed with a share of the uniform distribution that is chosen by cross-validated log loss
    (``reader.uniform_share`` of each pair), as the calibrators do with ``input="probs"``. From
    ``predict_log_proba`` and ``decision_function`` only -inf is raised: to the row's largest score
    plus log(1e-12), or to its smallest finite one where that is lower. A class that a fold's
    classifier has never seen is scored as far below the row's smallest score as that is below the
    largest, and at least 1 below it.

    Margins have no unit: those of a linear model of features that were not scaled may be millions,
    whose softmax is 0 or 1 and tells no two rows apart. Where the best temperature of a decision
    function (or of ``predict_log_proba``) is above 4, its logits are divided by the power of two
    next to it (``reader.scale`` of each pair) before the calibrator reads them. With
    ``ensemble="shared"`` the classifier of every fold has a scale of its own, where each fold holds
    out at least 10 rows. The method ``"base"`` reads all scores as they are.

    Examples
    --------
    >>> from sklearn.datasets import load_digits
    >>> from sklearn.metrics import log_loss
    >>> from sklearn.naive_bayes import GaussianNB
    >>> X, y = load_digits(return_X_y=True)
    >>> plain = GaussianNB().fit(X[:900], y[:900])
    >>> model = CalibratedClassifier(GaussianNB(), cv=3).fit(X[:900], y[:900])
    >>> model.response_method_
    'predict_proba'
    >>> log_loss(y[900:], model.predict_proba(X[900:])) < 1.0
    True
    >>> log_loss(y[900:], plain.predict_proba(X[900:])) > 3.0
    True
    """

    def __init__(
        self,
        estimator: Any = None,
        method: str | Calibrator = "auto",
        *,
        cv: Any = 5,
        ensemble: Ensemble = "shared",
        response_method: ResponseMethod = "auto",
        n_jobs: int | None = None,
        random_state: int | np.random.RandomState | None = None,
    ) -> None:
        self.estimator = estimator
        self.method = method
        self.cv = cv
        self.ensemble = ensemble
        self.response_method = response_method
        self.n_jobs = n_jobs
        self.random_state = random_state

    # --- fitting ---

    def fit(self, X: Any, y: Any, sample_weight: Any = None, **fit_params: Any) -> Self:
        """Fit the classifiers and their calibrators.

        Parameters
        ----------
        X : array-like of shape (rows, features)
            The features, in any form that the classifier takes; tensors, too, where scikit-learn
            dispatches by them (``array_api_dispatch``).
        y : array-like of shape (rows,)
            The labels.
        sample_weight : array-like of shape (rows,), optional
            Weights of the rows for the calibrators and, if it takes weights, for the classifier.
        **fit_params : dict
            Parameters of the classifier's ``fit``; those with one entry per row are split with the
            rows.

        Returns
        -------
        CalibratedClassifier
            The classifier itself.

        Raises
        ------
        ValueError
            Where a parameter is refused, there are fewer than two classes, or more than two for a
            method that is for two, or where the classifier gives negative probabilities.
        TypeError
            Where the classifier has no method to take scores from.

        Warns
        -----
        CalibrationWarning
            Where the classifier is fitted already and not frozen: it is fitted anew.
        """
        method = self._checked_method()
        check_classification_targets(y)
        X, y = indexable(X, y)
        labels = to_numpy(column_or_1d(y, warn=True))
        estimator = self._resolved_estimator()
        frozen = isinstance(estimator, FrozenEstimator)
        if sample_weight is not None:
            if not np.asarray(sample_weight).any():
                raise ValueError("sample_weight must not be zero everywhere")
            sample_weight = as_weights(sample_weight, len(labels))
        fit_params, split_params = self._route(estimator, X, sample_weight, fit_params)
        if frozen:
            check_is_fitted(estimator)
        classes = to_numpy(estimator.classes_) if frozen else np.unique(labels)
        if len(classes) < 2:
            raise ValueError(f"y must hold at least two classes, got {len(classes)} class")
        if len(classes) > 2 and method.two_classes_only:
            # its first sentence is what scikit-learn's own checks look for
            raise ValueError(
                "Only binary classification is supported. "
                f"method={self.method!r} is for two classes, got {len(classes)}"
            )
        codes = _positions(labels, classes)
        by_code = labels.dtype.kind not in "biuf" and _dispatches(X)  # no tensor holds texts
        own_labels = _as_kind_of(X, codes if by_code else labels)
        own_classes = np.arange(len(classes)) if by_code and not frozen else classes
        reader = ScoreReader(self.response_method, own_classes)
        given = _Training(X, own_labels, fit_params, codes, sample_weight, reader)
        splits = None
        if not frozen:
            _warn_if_fitted(estimator)
            cv = check_cv(self.cv, labels, classifier=True)
            splits = list(cv.split(X, labels, **split_params))
        pairs = self._fit_pairs(estimator, method, given, splits)
        # everything at once: a fit that fails or is interrupted leaves the object as it was
        self.__dict__.update(
            classes_=classes, response_method_=_same_response(pairs), calibrated_classifiers_=pairs
        )
        return self

    def _checked_method(self) -> Calibrator:
        """The calibrator to copy; parameters that make no sense are refused."""
        allowed = get_args(ResponseMethod)
        if self.response_method not in allowed:
            raise ValueError(f"response_method must be in {allowed}, got {self.response_method!r}")
        if not (isinstance(self.ensemble, bool | np.bool_) or self._is_shared()):
            raise ValueError(f'ensemble must be "shared", True or False, got {self.ensemble!r}')
        if self._is_prefit() and self.estimator is None:
            raise ValueError('cv="prefit" needs a fitted estimator, got estimator=None')
        if not isinstance(self.method, str | Calibrator):
            raise TypeError(f"method must be an acronym or a calibrator, got {self.method!r}")
        method = calibrator(self.method) if isinstance(self.method, str) else self.method
        if method.input != "logits":
            raise ValueError(
                "method must read logits, which every score is turned into: "
                f"input='logits', got input={method.input!r}"
            )
        return method

    def _is_prefit(self) -> bool:
        return isinstance(self.cv, str) and self.cv == "prefit"

    def _is_shared(self) -> bool:
        return isinstance(self.ensemble, str) and self.ensemble == "shared"

    def _resolved_estimator(self) -> Any:
        if self.estimator is None:
            default = LogisticRegression(max_iter=1000)
            routing = get_config()["enable_metadata_routing"]
            return default.set_fit_request(sample_weight=True) if routing else default
        if self._is_prefit() and not isinstance(self.estimator, FrozenEstimator):
            return FrozenEstimator(self.estimator)
        return self.estimator

    def _fit_pairs(
        self, estimator: Any, method: Calibrator, given: _Training, splits: list[Split] | None
    ) -> list[CalibratedPair]:
        """A pair for every split, or one for all; no splits: the classifier is frozen."""
        seeds = None if self.random_state is None else check_random_state(self.random_state)
        if splits is None:
            return [given.pair(estimator, _fresh(method, seeds))]
        parallel = Parallel(n_jobs=self.n_jobs)
        if not self.ensemble or self._is_shared():
            folds = parallel(
                delayed(given.held_out)(_fresh(estimator, seeds), split) for split in splits
            )
            _same_response(folds)
            if self._is_shared():
                folds = _each_scaled(folds, method)
                return _calibrated(folds, _pooled(folds), _fresh(method, seeds))
            classifier = _fresh(estimator, seeds).fit(given.X, given.y, **given.fit_params)
            pooled = _scaled(_pooled(folds), method)
            on_all = replace(pooled, estimator=classifier)
            return _calibrated([on_all], pooled, _fresh(method, seeds))
        smallest = min(len(test) for _, test in splits)
        if smallest < 2:
            raise ValueError(
                "ensemble=True fits a calibrator on the held-out rows of each fold: they must be "
                f'at least 2, got {smallest}. Use fewer folds or ensemble="shared"'
            )
        return list(
            parallel(
                delayed(given.pair)(_fresh(estimator, seeds), _fresh(method, seeds), split)
                for split in splits
            )
        )

    # --- what was chosen ---

    @property
    def calibrators_(self) -> tuple[Calibrator, ...]:
        """The different calibrators of the pairs, in their order."""
        found = [pair.calibrator for pair in self.calibrated_classifiers_]
        return tuple({id(one): one for one in found}.values())

    @property
    def method_(self) -> tuple[str, ...]:
        """The acronym of the method that each calibrator uses."""
        return tuple(_method_of(one) for one in self.calibrators_)

    def __repr__(self, N_CHAR_MAX: int = 700) -> str:
        parameters = super().__repr__(N_CHAR_MAX)
        if not self._is_fitted():
            return parameters
        brief = Repr()
        brief.maxtuple = MOST_NAMES
        return f"{parameters}\n# method_ = {brief.repr(self.method_)}"

    @property
    def _repr_html_(self) -> Any:  # scikit-learn's: there is none where it displays text
        diagram = super()._repr_html_
        return lambda: diagram() + self._methods_html()

    def _repr_mimebundle_(self, **kwargs: Any) -> dict[str, str]:
        bundle = dict(super()._repr_mimebundle_(**kwargs))
        if "text/html" in bundle:
            bundle["text/html"] += self._methods_html()
        return bundle

    def _methods_html(self) -> str:
        """A table for below the diagram of scikit-learn."""
        if not self._is_fitted():
            return ""
        rows = [(str(n), _in_words(one)) for n, one in enumerate(self.calibrators_, 1)]
        return Tables([Table(["calibrator", "method"], rows, "Chosen methods")])._repr_html_()

    def _is_fitted(self) -> bool:
        return "calibrated_classifiers_" in vars(self)

    # --- metadata and tags ---

    def _route(
        self, estimator: Any, X: Any, weight: Floats | None, fit_params: dict[str, Any]
    ) -> tuple[dict[str, Any], dict[str, Any]]:
        """What goes to the classifier's ``fit`` and to the splitter's ``split``."""
        own_weight = None if weight is None else _as_kind_of(X, weight)
        if get_config()["enable_metadata_routing"]:
            routed = process_routing(self, "fit", sample_weight=own_weight, **fit_params)
            return dict(routed.estimator.fit), dict(routed.splitter.split)
        if weight is None or isinstance(estimator, FrozenEstimator):
            return fit_params, {}
        if has_fit_parameter(estimator, "sample_weight"):
            return fit_params | {"sample_weight": own_weight}, {}
        warn(
            f"{type(estimator).__name__}.fit takes no sample_weight: only the calibration is "
            "weighted, and the classifier is not"
        )
        return fit_params, {}

    def get_metadata_routing(self) -> MetadataRouter:
        """Say who gets which metadata: the classifier's ``fit`` and the splitter's ``split``.

        Returns
        -------
        sklearn.utils.metadata_routing.MetadataRouter
            The routing, for scikit-learn.
        """
        to_fit = MethodMapping().add(caller="fit", callee="fit")
        to_split = MethodMapping().add(caller="fit", callee="split")
        return (
            MetadataRouter(owner=self)
            .add_self_request(self)
            .add(estimator=self._resolved_estimator(), method_mapping=to_fit)
            .add(splitter=self.cv, method_mapping=to_split)
        )

    def __sklearn_tags__(self) -> Tags:
        tags = super().__sklearn_tags__()
        inner = get_tags(LogisticRegression() if self.estimator is None else self.estimator)
        tags.input_tags = inner.input_tags
        tags.input_tags.pairwise = False  # each fold's classifier would need its own columns
        tags.non_deterministic = inner.non_deterministic
        tags.array_api_support = inner.array_api_support
        classes = inner.classifier_tags
        only_two = getattr(self.method, "two_classes_only", False)
        if isinstance(self.method, str):
            with suppress(ValueError):  # an unknown method is refused by ``fit``
                only_two = REGISTRY[acronym(self.method)].two_classes_only
        if only_two or (classes is not None and not classes.multi_class):
            tags.classifier_tags.multi_class = False
        return tags

    @property
    def n_features_in_(self) -> int:
        """The number of features, where the classifier tells it."""
        return int(self.calibrated_classifiers_[0].estimator.n_features_in_)

    @property
    def feature_names_in_(self) -> NDArray[Any]:
        """The names of the features, where the classifier saw any."""
        return np.asarray(self.calibrated_classifiers_[0].estimator.feature_names_in_)

    # --- predicting ---

    def predict_proba(self, X: Any) -> Array:
        """Compute calibrated probabilities, averaged over the pairs.

        Parameters
        ----------
        X : array-like of shape (rows, features)
            The features.

        Returns
        -------
        array of shape (rows, classes)
            The probabilities, in the order of ``classes_``.
        """
        check_is_fitted(self)
        return _as_kind_of(X, self._mean_probabilities(X))

    def predict_log_proba(self, X: Any) -> Array:
        """Compute the logarithms of the calibrated probabilities.

        Parameters
        ----------
        X : array-like of shape (rows, features)
            The features.

        Returns
        -------
        array of shape (rows, classes)
            The logarithms, finite where a probability is too small for a float.
        """
        check_is_fitted(self)
        parts = (pair.predict_log_proba(X) for pair in self.calibrated_classifiers_)
        mean = reduce(np.logaddexp, parts) - np.log(len(self.calibrated_classifiers_))
        return _as_kind_of(X, mean)

    def predict(self, X: Any) -> Array:
        """Predict labels.

        Parameters
        ----------
        X : array-like of shape (rows, features)
            The features.

        Returns
        -------
        array of shape (rows,)
            The labels of the largest calibrated probabilities. With one pair and a method that
            preserves accuracy: of the classifier's largest scores, even where the probabilities
            tie after rounding.
        """
        check_is_fitted(self)
        if len(self.calibrated_classifiers_) == 1:
            chosen = self.calibrated_classifiers_[0].predict(X)
        else:
            chosen = self._mean_probabilities(X).argmax(axis=1)
        return _as_kind_of(X, self.classes_[chosen])

    def _mean_probabilities(self, X: Any) -> Floats:
        parts = (pair.predict_proba(X) for pair in self.calibrated_classifiers_)
        return reduce(np.add, parts) / len(self.calibrated_classifiers_)


# scikit-learn wraps the lines of a repr only for classes whose ``__repr__`` it knows. Without this,
# a long CalibratedClassifier would be one line, in the repr of a pipeline, too.
with suppress(ImportError, AttributeError):  # these names are private
    from sklearn.utils._pprint import _EstimatorPrettyPrinter as _Printer

    _Printer._dispatch[CalibratedClassifier.__repr__] = _Printer._pprint_estimator


def _method_of(calibrator: Calibrator) -> str:
    """The acronym of a fitted calibrator's method; the name of a class that has none."""
    chosen = getattr(calibrator, "method_", None)  # of one that chooses
    if isinstance(chosen, str):
        return chosen
    cls = type(calibrator)
    return next((name for name, known in REGISTRY.items() if known is cls), cls.__name__)


def _in_words(calibrator: Calibrator) -> str:
    """The method, and of a pool of methods their weights."""
    name = _method_of(calibrator)
    members, weights = (getattr(calibrator, what, None) for what in ("members_", "weights_"))
    if members is None or weights is None:
        return name
    parts = zip(members, np.asarray(weights, np.float64).tolist(), strict=True)
    if list(members) == [name]:
        return name
    return f"{name}: " + " + ".join(f"{weight:.0%} {member}" for member, weight in parts)


@dataclass(frozen=True)
class CalibratedPair:
    """A fitted classifier and the fitted calibrator of its scores.

    Parameters
    ----------
    estimator : classifier
        The fitted classifier.
    calibrator : Calibrator
        The fitted calibrator.
    reader : ScoreReader
        How the logits are read off the classifier.
    """

    estimator: Any
    calibrator: Calibrator
    reader: ScoreReader

    def logits(self, X: Any) -> Floats:
        """Give what the calibrator reads: one score per class, for each row.

        Parameters
        ----------
        X : array of shape (n_rows, n_features)
            The rows, as the classifier takes them.

        Returns
        -------
        array of shape (n_rows, n_classes)
            The logits.
        """
        return self.reader.logits(self.estimator, X)

    def predict_proba(self, X: Any) -> Floats:
        """Calibrated probabilities.

        Parameters
        ----------
        X : array of shape (n_rows, n_features)
            The rows, as the classifier takes them.

        Returns
        -------
        array of shape (n_rows, n_classes)
            The probabilities.
        """
        return self.calibrator.predict_proba(self.logits(X))

    def predict_log_proba(self, X: Any) -> Floats:
        """Their logarithms.

        Parameters
        ----------
        X : array of shape (n_rows, n_features)
            The rows, as the classifier takes them.

        Returns
        -------
        array of shape (n_rows, n_classes)
            The logarithms of the probabilities.
        """
        return self.calibrator.predict_log_proba(self.logits(X))

    def predict(self, X: Any) -> Codes:
        """The predicted classes, as indices.

        Parameters
        ----------
        X : array of shape (n_rows, n_features)
            The rows, as the classifier takes them.

        Returns
        -------
        array of shape (n_rows,)
            The index of the chosen class of each row.
        """
        return self.calibrator.predict(self.logits(X))


# --- a classifier's scores --------------------------------------------------------------------


@dataclass(frozen=True)
class ScoreReader:
    """How logits are read off a fitted classifier: by which of its methods, and of which classes.

    Parameters
    ----------
    method : {"auto", "decision_function", "predict_log_proba", "predict_proba"}
        The method of the classifier that gives its scores.
    classes : array of shape (n_classes,)
        The classes as the classifier is given them; one that it does not know gets a low score.
    uniform_share : float, default 0
        The share of the uniform distribution that is mixed into the probabilities.
    scale : float, default 1
        What the logits are divided by.
    """

    method: ResponseMethod
    classes: NDArray[Any]
    uniform_share: float = 0.0
    scale: float = 1.0

    def resolved(self, estimator: Any, X: Any) -> ScoreReader:
        """Decide what ``"auto"`` is, by what the classifier says of the first rows.

        Parameters
        ----------
        estimator : classifier
            The fitted classifier.
        X : array of shape (n_rows, n_features)
            The rows, as the classifier takes them.

        Returns
        -------
        ScoreReader
            A reader whose method is not "auto".

        Raises
        ------
        TypeError
            Where the classifier lacks the method.
        ValueError
            Where its scores are those of pairs of classes.
        """
        method = self.method
        if method == "auto":
            method = "predict_proba"
            if hasattr(estimator, "decision_function") and not _is_one_vs_one(estimator):
                shape = np.shape(estimator.decision_function(_safe_indexing(X, [0])))
                count = len(estimator.classes_)
                if shape == (1, count) or (count == 2 and shape in {(1,), (1, 1)}):
                    method = "decision_function"
        if not hasattr(estimator, method):
            raise TypeError(
                f"{type(estimator).__name__} has no {method}: a classifier needs predict_proba, "
                "or a decision_function with one score per class or a binary margin"
            )
        if method == "decision_function" and _is_one_vs_one(estimator):
            raise ValueError(
                "decision_function must give one score per class, got the pairwise scores of "
                'decision_function_shape="ovo"'
            )
        return ScoreReader(method, self.classes)

    def logits(self, estimator: Any, X: Any) -> Floats:
        """Read logits, finite wherever the classifier's scores are not NaN.

        Parameters
        ----------
        estimator : classifier
            The fitted classifier.
        X : array of shape (n_rows, n_features)
            The rows, as the classifier takes them.

        Returns
        -------
        array of shape (n_rows, n_classes)
            The logits.
        """
        return self._read(estimator, X)[0]

    def _read(self, estimator: Any, X: Any) -> tuple[Floats, NDArray[np.bool_]]:
        """The logits, and in which rows ``predict_proba`` gives a class no probability at all."""
        columns = _positions(estimator.classes_, self.classes)
        count = len(columns)
        with np.errstate(divide="ignore"):  # predict_log_proba of a forest takes the logarithm of 0
            logits = to_numpy(getattr(estimator, self.method)(X)).astype(np.float64)
        if self.method == "decision_function" and count == 2 and logits.size == len(logits):
            margin = logits.reshape(-1)
            logits = np.stack([np.zeros_like(margin), margin], axis=1)
        if logits.ndim != 2 or logits.shape[1] != count:
            raise ValueError(
                f"{self.method} must give one score per class or a binary margin: "
                f"shape (rows, {count}), got shape {logits.shape}"
            )
        if self.method == "predict_proba":
            negative = np.argwhere(logits < -ROUNDING)
            if len(negative):
                row, column = negative[0]
                raise ValueError(
                    "predict_proba must give probabilities of at least 0, got "
                    f"{logits[row, column]:.6g} at row {row}, class "
                    f"{np.asarray(estimator.classes_)[column]}. "
                    "If these are scores, return them from decision_function"
                )
            with np.errstate(divide="ignore"):
                logits = np.log(np.maximum(logits, 0.0))
        masked = np.isneginf(logits)
        if self.method == "predict_proba":
            logits = np.maximum(logits, np.log(SMALLEST_PROBABILITY))
        elif masked.any():  # raised to a value that no finite one of the row lies below
            smallest = np.where(masked, np.inf, logits).min(axis=1)
            floor = np.minimum(smallest, logits.max(axis=1) + np.log(SMALLEST_PROBABILITY))
            logits = np.where(masked, floor[:, None], logits)
        return self.completed(logits, columns), np.asarray(masked.any(axis=1))

    def completed(self, logits: Floats, columns: NDArray[np.intp]) -> Floats:
        """Mix, centre and scale logits, and add the classes that the classifier does not know.

        Parameters
        ----------
        logits : array of shape (n_rows, n_known)
            The finite logits of the classes that the classifier knows.
        columns : array of shape (n_known,)
            Where these classes are among all.

        Returns
        -------
        array of shape (n_rows, n_classes)
            The logits of all classes.
        """
        if self.uniform_share:
            probs = softmax(logits, axis=1)
            logits = np.log((1.0 - self.uniform_share) * probs + self.uniform_share / len(columns))
        if self.method != "decision_function":
            logits = logits - logits.mean(axis=1, keepdims=True)
        smallest = logits.min(axis=1)
        unseen = smallest - np.maximum(logits.max(axis=1) - smallest, 1.0)
        result = np.repeat(unseen[:, None], len(self.classes), axis=1)
        result[:, columns] = logits
        return result / self.scale


def _is_one_vs_one(estimator: Any) -> bool:
    """Whether an SVC says so: for three classes its pairwise scores have the right shape, too."""
    if len(estimator.classes_) <= 2:
        return False
    model = estimator.estimator if isinstance(estimator, FrozenEstimator) else estimator
    model = getattr(model, "best_estimator_", model)  # of a search
    parameters = model.get_params().items() if hasattr(model, "get_params") else ()
    return any(k.endswith("decision_function_shape") and v == "ovo" for k, v in parameters)


# --- one fold ---------------------------------------------------------------------------------


@dataclass(frozen=True)
class _Training:
    """What ``fit`` was given, as classifiers and calibrators take it."""

    X: Any
    y: Array  # of the kind of X
    fit_params: Mapping[str, Any]
    codes: Codes
    weight: Floats | None
    reader: ScoreReader

    def held_out(self, estimator: Any, split: Split | None) -> _HeldOut:
        """Fit a classifier on some rows, and read its scores of others; no split: all, unfitted."""
        X, codes, weight = self.X, self.codes, self.weight
        if split is not None:
            train, test = split
            params = dict(self.fit_params)
            for name, value in params.items():
                length = len(value) if isinstance(value, list | tuple) else None
                if shape := getattr(value, "shape", None):
                    length = shape[0]
                if length == len(codes):
                    params[name] = _safe_indexing(value, train)
            estimator.fit(_safe_indexing(X, train), _safe_indexing(self.y, train), **params)
            X, codes = _safe_indexing(X, test), codes[test]
            weight = None if weight is None else weight[test]
        reader = self.reader.resolved(estimator, X)
        logits, has_zero = reader._read(estimator, X)
        return _HeldOut(estimator, reader, Rows(logits, codes, weight), has_zero)

    def pair(
        self, estimator: Any, method: Calibrator, split: Split | None = None
    ) -> CalibratedPair:
        """Fit a classifier on some rows and its calibrator on others."""
        held_out = _scaled(self.held_out(estimator, split), method)
        [pair] = _calibrated([held_out], held_out, method)
        return pair


@dataclass(frozen=True)
class _HeldOut:
    """A fitted classifier and the logits of rows that it was not fitted on."""

    estimator: Any  # None: the logits are those of several, which know all classes
    reader: ScoreReader
    rows: Rows
    has_zero: NDArray[np.bool_]  # the rows in which a class has no probability at all


def _pooled(folds: Sequence[_HeldOut]) -> _HeldOut:
    """The logits of all folds, as if one classifier had given them."""
    return _HeldOut(
        None,
        folds[0].reader,
        Rows.concat([fold.rows for fold in folds]),
        np.concatenate([fold.has_zero for fold in folds]),
    )


def _scaled(held_out: _HeldOut, method: Calibrator, scale: float | None = None) -> _HeldOut:
    """Large margins divided by their scale; the baseline and probabilities stay as they are."""
    reader, rows = held_out.reader, held_out.rows
    if reader.method == "predict_proba" or isinstance(method, Uncalibrated):
        return held_out
    if scale is None:  # a fold may have no weight at all, which is refused here
        scale = _scale_of(Rows.of(rows.scores, rows.labels, rows.sample_weight))
    rows = rows.with_scores(rows.scores / scale)
    return replace(held_out, reader=replace(reader, scale=scale), rows=rows)


def _each_scaled(folds: Sequence[_HeldOut], method: Calibrator) -> list[_HeldOut]:
    """Folds whose classifiers may have margins of different units, each by its own scale."""
    common, weighted = None, [fold.rows for fold in folds if fold.rows.weight.any()]
    few = any(rows.effective_rows < FEWEST_ROWS_OF_SCALE for rows in weighted)
    if few or len(weighted) < len(folds):
        common = _scaled(_pooled(folds), method).reader.scale
    return [_scaled(fold, method, common) for fold in folds]


def _calibrated(
    classifiers: Sequence[_HeldOut], given: _HeldOut, method: Calibrator
) -> list[CalibratedPair]:
    """One calibrator, fitted on the rows given, for all of the classifiers."""
    rows = Rows.of(given.rows.scores, given.rows.labels, given.rows.sample_weight)
    share = 0.0
    if given.reader.method == "predict_proba" and not isinstance(method, Uncalibrated):
        share, rows = _without_zeros(given, rows)
    readers = [replace(one.reader, uniform_share=share) for one in classifiers]
    calibrator = method.fit(rows)
    # for the calibrator's file: what else is needed to read the scores of these classifiers
    records = [
        {"method": one.method, "uniform_share": one.uniform_share, "scale": one.scale}
        for one in readers
    ]
    info = calibrator.fit_info_
    calibrator.fit_info_ = replace(info, details={**info.details, "readers": records})
    parts = zip(classifiers, readers, strict=True)
    return [CalibratedPair(one.estimator, calibrator, reader) for one, reader in parts]


def _without_zeros(held_out: _HeldOut, rows: Rows) -> tuple[float, Rows]:
    """The share of the uniform distribution for probabilities of 0, and the rows mixed with it."""
    reader, one = held_out.reader, held_out.estimator
    columns = _positions(reader.classes if one is None else one.classes_, reader.classes)
    place = np.full(len(reader.classes), -1)  # of each class among those that the classifier knows
    place[columns] = np.arange(len(columns))
    known = (place[rows.labels] >= 0) & (rows.weight > 0.0)
    if len(columns) < 2 or not held_out.has_zero[known].any():
        return 0.0, rows
    some = rows.take(known)
    probs = softmax(some.scores[:, columns], axis=1)
    share = uniform_share(Rows(probs, place[some.labels], some.weight, "probs"))
    if share:
        reader = replace(reader, uniform_share=share)
        rows = rows.with_scores(reader.completed(rows.scores[:, columns], columns))
    return share, rows


def _scale_of(rows: Rows) -> float:
    """The power of two next to the best temperature of large margins; 1 for others."""
    # divided by the widest gap, even margins that tell nothing about the labels are small
    widest = min(float(np.ptp(rows.logits, axis=1).max()), LARGEST_SCALE)
    if not widest > LARGE_TEMPERATURE:
        return 1.0
    best = best_temperature(scaled_profile(rows), "nll", (LARGE_TEMPERATURE, widest))
    at_most_large = best.temperature <= LARGE_TEMPERATURE * (1.0 + 1e-9)
    return 1.0 if at_most_large else float(2.0 ** np.round(np.log2(best.temperature)))


def _same_response(parts: Sequence[_HeldOut | CalibratedPair]) -> ResponseMethod:
    methods = {part.reader.method for part in parts}
    if len(methods) > 1:
        raise ValueError(
            f"response_method='auto' must choose the same in every fold, got {sorted(methods)}: "
            "name one"
        )
    return methods.pop()


# --- small questions --------------------------------------------------------------------------


def _as_kind_of(X: Any, values: NDArray[Any]) -> Array:
    """Values as an array of the kind of X, on its device, where scikit-learn dispatches by it."""
    return like(values, X) if _dispatches(X) and values.dtype.kind in "biuf" else values


def _dispatches(X: Any) -> bool:
    """Whether scikit-learn computes by the library of X, and that is not NumPy."""
    enabled = get_config()["array_api_dispatch"]
    return enabled and is_array_api_obj(X) and not is_numpy_array(X)


def _warn_if_fitted(estimator: Any) -> None:
    """Warn of a classifier that must be fitted and is: clones of it are fitted anew."""
    if not get_tags(estimator).requires_fit:
        return
    try:
        check_is_fitted(estimator)
    except NotFittedError:
        return
    warn(
        f"this {type(estimator).__name__} is fitted already: clones of it are fitted "
        "anew. To calibrate it as it is, give FrozenEstimator(estimator), from "
        "sklearn.frozen; to fit it anew, clone(estimator)"
    )


def _positions(labels: NDArray[Any], classes: NDArray[Any]) -> Codes:
    """Where the labels stand among the classes."""
    index = {label: position for position, label in enumerate(classes.tolist())}
    try:
        return np.array([index[label] for label in to_numpy(labels).tolist()], np.int64)
    except KeyError as error:
        raise ValueError(
            f"labels must be classes of {list(index)}, got {error.args[0]!r}"
        ) from None


def _fresh(prototype: Any, seeds: np.random.RandomState | None) -> Any:
    """An unfitted copy, with a seed wherever it has a ``random_state`` that is None."""
    copy = clone(prototype)
    if seeds is None:
        return copy
    free = sorted(
        name
        for name, value in copy.get_params().items()
        if value is None and name.rpartition("__")[2] == "random_state"
    )
    return copy.set_params(**{name: int(seeds.randint(2**31 - 1)) for name in free})
