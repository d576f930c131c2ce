"""Check the docstrings of the public interface: numpydoc's rules, and plain English.

Walks the names of ``calibrant.__all__`` and of its public modules (their ``__all__``, or else what
they define), with the public methods and properties of their classes. Classes and functions must
have examples, formulas must have notes, and calibrators notes and references. What formulas and
their parts compute is called by interpreters, and not by users: one line documents such a method,
and the class says what its arguments are. Run it from the repository root:

    python tools/check_docstrings.py
"""

from __future__ import annotations

import dataclasses
import functools
import importlib
import inspect
import re
import sys
from collections.abc import Iterator
from pathlib import Path
from types import ModuleType
from typing import Any, Protocol

sys.path.insert(0, str(Path(__file__).resolve().parents[1] / "src"))

from numpydoc.docscrape import get_doc_object
from numpydoc.validate import Validator, validate

from calibrant.calibrators import REGISTRY
from calibrant.data.rows import Rows
from calibrant.formulas import Formula, FormulaRows, Ops, Part

MODULES = (
    "calibrant",
    "calibrant.metrics",
    "calibrant.calibrators",
    "calibrant.diagrams",
    "calibrant.report",
    "calibrant.formulas",
    "calibrant.torch",
    "calibrant.onnx",
    "calibrant.plots",
    "calibrant.scorefiles",
    "calibrant.streams",
    "calibrant.monitoring",
    "calibrant.ray",
    "calibrant.datasets",
    "calibrant.sklearn",
    "calibrant.io",
    "calibrant.profile",
    "calibrant.evaluation",
    "calibrant.comparison",
    "calibrant.files",
    "calibrant.plugins",
)

CODES = {
    "GL08",  # no docstring
    "PR01",  # a parameter is missing,
    "PR02",  # unknown,
    "PR03",  # out of order,
    "PR04",  # without a type,
    "PR07",  # without a description
    "RT01",  # no Returns section,
    "RT03",  # or one without a description
    "SS01",  # no summary,
    "SS02",  # without a capital letter,
    "SS03",  # without a full stop,
    "SS05",  # in the third person
}

# Of these, what asks for sections.
SECTIONS = {"PR01", "RT01"}

# Classes without an Examples section, for no user makes them: they are what functions return, what
# calibrators are given, or a base.
NO_EXAMPLES = frozenset(
    {
        "AppliedShards",
        "Batch",
        "BinSweep",
        "BrierDecomposition",
        "CalibratedPair",
        "CalibrationIndices",
        "CalibrationTest",
        "ClassGaps",
        "Comparison",
        "CoxTest",
        "CumulativeTest",
        "Estimate",
        "Evaluation",
        "GraphNames",
        "HosmerLemeshowTest",
        "Interval",
        "LearningCurves",
        "MeterReport",
        "MethodResult",
        "OmnibusTest",
        "PairedComparison",
        "Part",
        "Provenance",
        "Reliability",
        "Report",
        "RiskCoverage",
        "SKCETest",
        "ScoreFile",
        "ScoreReader",
        "ScoreStream",
        "Temperatures",
        "WindowReport",
        "ZTest",
    }
)

# "One number a row" must read "one number per row". After these words "a row" is a real article.
UNITS = "row|class|bin|fold|network|penalty|batch|file|seed|octave|node|setting|column|epoch|step"
PER = re.compile(rf"(\w+)(,?) an? ({UNITS})\b(?! of\b)")
ARTICLE_WORDS = (
    "about above after and are as at be because before below between but by contains for from gets "
    "give gives has have holds if in inside into is it leaves like makes mean means name names not "
    "of on or over rather reads seen so such takes than that then through to under unless until "
    "was what whatever when where whether which while with within without"
)
BEFORE_AN_ARTICLE = frozenset(ARTICLE_WORDS.split())


class PublicValidator(Validator):  # type: ignore[misc]
    """numpydoc's view of one object, which may inherit its docstring.

    Parameters
    ----------
    obj_name : str
        The full name; numpydoc passes it.
    obj : object
        The object itself.
    doc : str
        Its docstring, its own or that of a base class.
    """

    def __init__(self, obj_name: str, obj: Any, doc: str) -> None:
        members = {"show_class_members": False, "show_inherited_class_members": False}
        super().__init__(get_doc_object(obj, doc=doc, config=members))
        self.raw_doc = doc

    @property
    def source_file_def_line(self) -> int | None:
        """The line of the definition; of a module the first."""
        return 1 if self.is_mod else super().source_file_def_line

    @property
    def signature_parameters(self) -> tuple[str, ...]:
        """The parameters of the signature; none for classes that no user calls."""
        is_class = inspect.isclass(self.obj)
        if is_class and (Protocol in self.obj.__bases__ or issubclass(self.obj, BaseException)):
            return ()
        return super().signature_parameters

    @property
    def doc_all_parameters(self) -> dict[str, Any]:
        """The documented parameters; the fields of a dataclass may stand under Attributes."""
        documented = dict(super().doc_all_parameters)
        if dataclasses.is_dataclass(self.obj):
            fields = self._doc_parameters(["Attributes"])
            known = self.signature_parameters
            documented |= {name: field for name, field in fields.items() if name in known}
        return documented


@dataclasses.dataclass(frozen=True)
class Public:
    """A public object.

    Parameters
    ----------
    name : str
        The full name.
    obj : object
        The object: a module, a class, a function or a property.
    doc : str
        Its docstring, its own or that of a base class.
    source : object
        What the module or the class holds under that name.
    owner : type, optional
        The class of a method or a property.
    """

    name: str
    obj: Any
    doc: str
    source: Any
    owner: type | None = None


def public_objects() -> Iterator[Public]:
    """All that is public and can have a docstring, each object once."""
    seen: set[int] = set()
    for module_name in MODULES:
        module = importlib.import_module(module_name)
        names = {f"{module_name}.{name}": getattr(module, name) for name in names_of(module)}
        for name, value in {module_name: module, **names}.items():
            for found in with_members(name, value):
                if id(found.source) not in seen:
                    seen.add(id(found.source))
                    yield found


def names_of(module: ModuleType) -> list[str]:
    """The public names of a module: its ``__all__``, or else what it defines itself."""
    if hasattr(module, "__all__"):
        return list(module.__all__)
    return [
        name
        for name, value in vars(module).items()
        if not name.startswith("_") and getattr(value, "__module__", None) == module.__name__
    ]


def with_members(name: str, value: Any) -> Iterator[Public]:
    """An object and, of a class, its public methods and properties; nothing for a constant."""
    if isinstance(value, type | ModuleType) or inspect.isfunction(value):
        yield Public(name, value, value.__doc__ or "", value)
    if isinstance(value, type):
        yield from members(name, value)


def members(name: str, cls: type) -> Iterator[Public]:
    """The public methods and properties that calibrant's own classes define."""
    sources: dict[str, Any] = {}
    for base in cls.__mro__:
        if is_ours(base.__module__):
            for member, source in vars(base).items():
                if not member.startswith("_"):
                    sources.setdefault(member, source)
    for member, source in sources.items():
        if isinstance(source, property | functools.cached_property):
            obj = source
        else:
            obj = getattr(cls, member)
            obj = getattr(obj, "__func__", obj)  # of a class method
            if not (inspect.isfunction(obj) and is_ours(obj.__module__)):
                continue
        yield Public(f"{name}.{member}", obj, inherited_doc(cls, member), source, cls)


def inherited_doc(cls: type, name: str) -> str:
    """The docstring of a member, or of the nearest base class' that has one."""
    for base in cls.__mro__:
        value = vars(base).get(name)
        value = getattr(value, "fn", value)  # of scikit-learn's available_if
        if value is not None and value.__doc__:
            return inspect.cleandoc(value.__doc__)
    return ""


def is_ours(module: str) -> bool:
    """Whether a module is part of calibrant."""
    return module.partition(".")[0] == "calibrant"


def wording(doc: str) -> Iterator[str]:
    """Phrases in which "a row" means "per row"."""
    for match in PER.finditer(" ".join(doc.split())):
        if match[2] or match[1].lower() not in BEFORE_AN_ARTICLE:
            yield match[0]


def sections(public: Public) -> Iterator[str]:
    """The sections that a docstring must have: a member of a class or a module none."""
    obj = public.obj
    if needs_examples(public):
        yield "Examples"
    if inspect.isclass(obj) and obj in REGISTRY.values():
        yield from ("Notes", "References")
    elif inspect.isclass(obj) and issubclass(obj, Formula) and is_concrete(obj):
        yield "Notes"


def needs_examples(public: Public) -> bool:
    """Whether it is a function or a class that users make."""
    obj = public.obj
    if inspect.isclass(obj):
        made = is_concrete(obj) and not issubclass(obj, BaseException)
    else:
        made = inspect.isfunction(obj) and public.name.rpartition(".")[0] in MODULES
    return made and obj.__name__ not in NO_EXAMPLES


def is_concrete(cls: type) -> bool:
    """Whether a class can be made: neither a protocol nor abstract."""
    return Protocol not in cls.__bases__ and not inspect.isabstract(cls)


def is_for_interpreters(public: Public) -> bool:
    """Whether it is a method of a formula, a part of one, its rows or its operations."""
    if public.owner is None:
        return False
    return public.owner is Ops or issubclass(public.owner, Part | FormulaRows | Rows)


def problems(public: Public) -> Iterator[str]:
    """All that is wrong with one docstring, a line for each."""
    report = validate(public.name, PublicValidator, obj=public.obj, doc=public.doc)
    where = f"{report['file']}:{report['file_line']}: {public.name}"
    codes = CODES - SECTIONS if is_for_interpreters(public) else CODES
    yield from (f"{where}: {code} {text}" for code, text in report["errors"] if code in codes)
    headings = set(re.findall(r"^ *(\w+)\n *-{3,}$", public.doc, re.MULTILINE))
    yield from (f"{where}: no {name} section" for name in sections(public) if name not in headings)
    yield from (f'{where}: "{phrase}": say "per"' for phrase in wording(public.doc))


def main() -> int:
    """Print all problems; the exit status says whether there are any."""
    objects = list(public_objects())
    found = [problem for public in objects for problem in problems(public)]
    unknown = NO_EXAMPLES - {getattr(public.obj, "__name__", "") for public in objects}
    found += [f"NO_EXAMPLES: {name} is not public" for name in sorted(unknown)]
    print(*found, sep="\n", end="\n" if found else "")
    print(f"{len(objects)} public names, {len(found)} problems in their docstrings")
    return 1 if found else 0


if __name__ == "__main__":
    sys.exit(main())
