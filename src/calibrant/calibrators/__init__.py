"""The calibrators, a family per folder, and their registry by the paper's acronyms."""

from __future__ import annotations

from inspect import isabstract
from typing import Any

from calibrant import plugins
from calibrant.calibrators._base import Calibrator, Fitted, LogitCalibrator, ProfileCalibrator
from calibrant.calibrators._fit_info import FitInfo
from calibrant.calibrators.affine import (
    BiasCorrection,
    DirichletCalibration,
    MatrixScaling,
    StructuredMatrixScaling,
    StructuredVectorScaling,
    VectorScaling,
)
from calibrant.calibrators.automatic import AutoCalibrator
from calibrant.calibrators.binning import BayesianBinning, HistogramBinning, PlattBinner
from calibrant.calibrators.increasing import DiagonalOrderPreserving, MonotoneScaling
from calibrant.calibrators.isotonic import (
    CenteredIsotonic,
    IsotonicOneVsAll,
    IsotonicOneVsAllTS,
    MultiClassIsotonic,
    SplineCalibration,
    VennAbers,
)
from calibrant.calibrators.joint import MonotonePTS, StructuredPTS
from calibrant.calibrators.odds import (
    BetaCalibration,
    PlattScaling,
    QuadraticScaling,
    SmoothingSpline,
)
from calibrant.calibrators.temperature import (
    EnsembleTemperatureScaling,
    EntropyTemperatureScaling,
    LinearPTS,
    MarginTemperatureScaling,
    ParameterizedTemperatureScaling,
    TemperatureScaling,
    Uncalibrated,
)
from calibrant.common.errors import did_you_mean
from calibrant.data.rows import Rows

REGISTRY: dict[str, type[Calibrator]] = {
    "auto": AutoCalibrator,
    "base": Uncalibrated,
    "ts": TemperatureScaling,
    "ets": EnsembleTemperatureScaling,
    "pts": ParameterizedTemperatureScaling,
    "pts-linear": LinearPTS,
    "mpts": MonotonePTS,
    "spts": StructuredPTS,
    "hts": EntropyTemperatureScaling,
    "smart": MarginTemperatureScaling,
    "irova": IsotonicOneVsAll,
    "irova-ts": IsotonicOneVsAllTS,
    "irm": MultiClassIsotonic,
    "pbmc": PlattBinner,
    "histogram": HistogramBinning,
    "bbq": BayesianBinning,
    "spline": SplineCalibration,
    "bias": BiasCorrection,
    "vector": VectorScaling,
    "matrix": MatrixScaling,
    "dirichlet": DirichletCalibration,
    "svs": StructuredVectorScaling,
    "sms": StructuredMatrixScaling,
    "monotone": MonotoneScaling,
    "diag": DiagonalOrderPreserving,
    "platt": PlattScaling,
    "beta": BetaCalibration,
    "quadratic": QuadraticScaling,
    "odds-spline": SmoothingSpline,
    "cir": CenteredIsotonic,
    "venn-abers": VennAbers,
}

#: Other names for methods, as scikit-learn and its users call them.
ALIASES: dict[str, str] = {
    "temperature": "ts",
    "sigmoid": "platt",
    "isotonic": "irova",
    "splinecalib": "odds-spline",
}


def acronym(name: str) -> str:
    """Give the key of ``REGISTRY`` that a name stands for.

    Parameters
    ----------
    name : str
        A key of ``REGISTRY`` or of ``ALIASES``, in either case. Plugins are loaded if it is
        neither.

    Returns
    -------
    str
        The key.

    Raises
    ------
    ValueError
        Where no calibrator has that name.

    Examples
    --------
    >>> acronym("PTS"), acronym("sigmoid")
    ('pts', 'platt')
    """
    key = ALIASES.get(name.lower(), name.lower())
    if key not in REGISTRY:
        load_plugins()
    if key not in REGISTRY:
        raise ValueError(
            f"method must be one of {', '.join(REGISTRY)}, got {name!r}{_suggestion(key)}"
        )
    return key


def _suggestion(name: str) -> str:
    """The method that an unknown name probably means: a slip, or the name of its class."""
    letters = name.replace("-", "").replace("_", "").replace(" ", "")
    for key, cls in REGISTRY.items():
        if letters == cls.__name__.lower():
            return f". Did you mean {key!r}?"
    return did_you_mean(name, [*REGISTRY, *ALIASES])


def register(name: str, cls: type[Calibrator]) -> None:
    """Make a calibrator of your own known by name: it can then be saved, loaded and compared.

    Files never name a class to import; a file of a registered class is loaded where the class has
    been registered before. A package that is installed can have its methods registered by itself:
    ``calibrant.plugins``.

    Parameters
    ----------
    name : str
        The acronym, in lower case; taken ones are refused.
    cls : type
        A subclass of ``ProfileCalibrator`` or ``LogitCalibrator`` whose formula is made of
        registered parts (``calibrant.formulas``, or subclasses of ``Part`` with a kind).

    Raises
    ------
    TypeError
        Where the class is no calibrator.
    ValueError
        Where the name or the class' name is taken.

    Examples
    --------
    >>> class MyScaling(TemperatureScaling):
    ...     pass
    >>> register("my-scaling", MyScaling)
    >>> calibrator("my-scaling")
    MyScaling()
    >>> del REGISTRY["my-scaling"]
    """
    if not (isinstance(cls, type) and issubclass(cls, Calibrator)) or isabstract(cls):
        raise TypeError(f"register takes a concrete class of calibrators, got {cls!r}")
    if name != name.lower() or not name:
        raise ValueError(f"a name must be in lower case, got {name!r}")
    taken = {known.__name__ for key, known in REGISTRY.items() if key != name}
    if name in ALIASES or REGISTRY.get(name, cls) is not cls or cls.__name__ in taken:
        raise ValueError(f"{name!r} or {cls.__name__} is another calibrator's already")
    REGISTRY[name] = cls


_loaded_plugins: set[str] = set()


def load_plugins() -> None:
    """Register the methods of all installed plugins (``calibrant.plugins``).

    There is seldom a reason to call it. A name that is not in ``REGISTRY``, a file of an unknown
    class, and whatever lists or compares all methods load the plugins first. The second call does
    nothing.

    A method that cannot be registered is left out with a ``CalibrationWarning``.

    Examples
    --------
    >>> load_plugins()
    >>> "ts" in REGISTRY
    True
    """
    for name, _, plugin in plugins.installed():
        if name in _loaded_plugins or plugin.methods is None:
            continue
        _loaded_plugins.add(name)  # before its code runs, which may ask for a method by name
        try:
            methods = dict(plugin.methods())
        except Exception as error:  # it is other people's code
            plugins.left_out(name, "the methods", error)
            continue
        for key, cls in methods.items():
            try:
                cls()  # methods are listed and compared with their defaults
                register(key, cls)
            except Exception as error:
                plugins.left_out(name, f"the method {key!r}", error)


def calibrator(name: str, **parameters: Any) -> Calibrator:
    """Make a calibrator by its acronym.

    Parameters
    ----------
    name : str
        A key of ``REGISTRY``, in either case, or another name of one (``ALIASES``).
    **parameters : dict
        Parameters of the calibrator.

    Returns
    -------
    Calibrator
        An unfitted calibrator.

    Raises
    ------
    ValueError
        Where no calibrator has that name.
    TypeError
        Where the calibrator has no such parameter.

    Examples
    --------
    >>> calibrator("ts", loss="brier")
    TemperatureScaling(loss='brier')
    >>> calibrator("isotonic")
    IsotonicOneVsAll()
    """
    return REGISTRY[acronym(name)](**parameters)


LabelledLogits = Rows  # its former name, for methods of other packages

__all__ = [
    "ALIASES",
    "REGISTRY",
    "AutoCalibrator",
    "BayesianBinning",
    "BetaCalibration",
    "BiasCorrection",
    "Calibrator",
    "CenteredIsotonic",
    "DiagonalOrderPreserving",
    "DirichletCalibration",
    "EnsembleTemperatureScaling",
    "EntropyTemperatureScaling",
    "FitInfo",
    "Fitted",
    "HistogramBinning",
    "IsotonicOneVsAll",
    "IsotonicOneVsAllTS",
    "LinearPTS",
    "LogitCalibrator",
    "MarginTemperatureScaling",
    "MatrixScaling",
    "MonotonePTS",
    "MonotoneScaling",
    "MultiClassIsotonic",
    "ParameterizedTemperatureScaling",
    "PlattBinner",
    "PlattScaling",
    "ProfileCalibrator",
    "QuadraticScaling",
    "Rows",
    "SmoothingSpline",
    "SplineCalibration",
    "StructuredMatrixScaling",
    "StructuredPTS",
    "StructuredVectorScaling",
    "TemperatureScaling",
    "Uncalibrated",
    "VectorScaling",
    "VennAbers",
    "acronym",
    "calibrator",
    "load_plugins",
    "register",
]
