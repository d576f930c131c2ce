"""What scikit-learn asks of an estimator, without importing it: that alone takes a second.

``clone``, pipelines, searches and nested parameters need ``get_params``, ``set_params`` and tags,
whatever an object derives from.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from inspect import signature
from types import MethodType
from typing import Any, Self

from calibrant.common.tables import Table, Tables


class Estimator:
    """Parameters that are the arguments of ``__init__`` and attributes of the same names."""

    @classmethod
    def _defaults(cls) -> dict[str, Any]:
        """The parameters in alphabetical order, with their defaults."""
        arguments = signature(cls).parameters.values()
        return {one.name: one.default for one in sorted(arguments, key=lambda one: one.name)}

    def get_params(self, deep: bool = True) -> dict[str, Any]:
        """Give the parameters.

        Parameters
        ----------
        deep : bool, default True
            Also those of parameters that have some themselves, as ``name__parameter``.

        Returns
        -------
        dict
            The parameters by name.
        """
        result = {name: getattr(self, name) for name in self._defaults()}
        if deep:
            inner = {n: v for n, v in result.items() if hasattr(v, "get_params")}
            for name, value in inner.items():
                if not isinstance(value, type):
                    result |= {f"{name}__{key}": part for key, part in value.get_params().items()}
        return result

    def set_params(self, **params: Any) -> Self:
        """Change parameters.

        Parameters
        ----------
        **params : dict
            Values by name; ``name__parameter`` is a parameter of a parameter.

        Returns
        -------
        Calibrator
            The calibrator itself.

        Raises
        ------
        ValueError
            Where there is no parameter of that name.
        """
        known = list(self._defaults())
        for name, value in params.items():
            own, _, inner = name.partition("__")
            if own not in known:
                raise ValueError(
                    f"Invalid parameter {own!r} for estimator {self}. "
                    f"Valid parameters are: {known}."
                )
            if inner:
                getattr(self, own).set_params(**{inner: value})
            else:
                setattr(self, own, value)
        return self

    def __repr__(self) -> str:
        default = self._defaults()
        changed = (
            f"{name}={value!r}"
            for name, value in self.get_params(deep=False).items()
            if repr(value) != repr(default[name])
        )
        return f"{type(self).__name__}({', '.join(changed)})"

    def _repr_html_(self) -> str:
        return Tables(self._tables())._repr_html_()

    def _tables(self) -> list[Table]:
        """The parameters, and what a fit found where there was one."""
        fitted = "formula_" in vars(self)
        title = f"{type(self).__name__}, {'fitted' if fitted else 'not fitted yet'}"
        given = self.get_params(deep=False)
        parameters = [(key, _in_brief(value)) for key, value in given.items()]
        tables = [Table(["parameter", ""], parameters, title)]
        if fitted:  # those read off the formula included
            names = [name for name in dir(type(self)) if name.endswith("_") and name[0] != "_"]
            values = {**vars(self), **{name: getattr(self, name, None) for name in names}}
            info = values.pop("fit_info_")
            found = [(key, _in_brief(one)) for key, one in values.items() if key.endswith("_")]
            tables += [Table(["attribute", ""], found), *info._tables()]
        return tables

    def __sklearn_tags__(self) -> Any:
        from sklearn.base import BaseEstimator

        return BaseEstimator.__sklearn_tags__(self)


def _in_brief(value: Any) -> str:
    """A value on part of one line; of an array of several numbers its shape."""
    if getattr(value, "ndim", 0) and value.size > 6:
        return f"array of shape {value.shape}"
    if isinstance(value, list) and value and hasattr(value[0], "shape"):
        return f"arrays of shapes {', '.join(str(part.shape) for part in value)}"
    if hasattr(value, "kind") and hasattr(value, "probabilities"):
        return type(value).__name__  # a formula, whose numbers have attributes of their own
    text = " ".join(repr(value).split())
    return text if len(text) <= 70 else f"{text[:67]}..."


def check_is_fitted(estimator: Estimator) -> None:
    """Refuse an estimator that is not fitted, by scikit-learn's own exception."""
    if "formula_" in vars(estimator):
        return
    from sklearn.exceptions import NotFittedError

    raise NotFittedError(
        f"This {type(estimator).__name__} instance is not fitted yet. Call 'fit' with appropriate "
        "arguments before using this estimator."
    )


def offered_if(condition: Callable[[Any], bool]) -> Callable[[Callable[..., Any]], Any]:
    """A decorator: the method is there only where a condition of its object holds."""
    return partial(_Offered, condition)


class _Offered:
    def __init__(self, condition: Callable[[Any], bool], method: Callable[..., Any]) -> None:
        self.condition, self.method, self.__doc__ = condition, method, method.__doc__

    def __get__(self, instance: Any, owner: type) -> Any:
        if instance is None:
            return self.method
        if not self.condition(instance):
            name = self.method.__name__
            raise AttributeError(f"this {owner.__name__!r} has no attribute {name!r}")
        return MethodType(self.method, instance)
