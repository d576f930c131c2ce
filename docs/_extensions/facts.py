"""Directives for the pages of methods and metrics: what the code knows is not typed again.

``{method-facts} pts`` and ``{metric-facts} ece`` become a table of the names, the class or
function, what may be expected of it and, from the references of its docstring, the source.
"""

from __future__ import annotations

import inspect
import re

from docutils import nodes
from sphinx.application import Sphinx
from sphinx.util.docutils import SphinxDirective

from calibrant import metrics
from calibrant.calibrators import ALIASES, REGISTRY, ProfileCalibrator
from calibrant.metrics import METRICS

WHOSE = {
    None: "class 1 of two classes, the confidence of more; `notion` chooses",
    "confidence": "the confidence: the largest probability",
    "top-label": "the confidence, given the predicted class",
    "class-1": "class 1 of two",
    "classwise": "every class",
}


def references(docstring: str | None) -> str:
    """The references of a docstring, as one paragraph."""
    found = re.search(
        r"^References\n-+\n(.*?)(?:\n\n|\Z)", docstring or "", re.DOTALL | re.MULTILINE
    )
    return " ".join(found[1].split()) if found else ""


def method_facts(name: str) -> dict[str, str]:
    """What is known about a method."""
    cls = REGISTRY[name]
    others = [f"`{alias}`" for alias, key in ALIASES.items() if key == name]
    by_profile = issubclass(cls, ProfileCalibrator)
    return {
        "Name": " or ".join([f"`{name}`", *others]),
        "Class": f"{{py:class}}`~calibrant.calibrators.{cls.__name__}`",
        "Accuracy": "kept" if cls().accuracy_preserving else "may change",
        "Classes": "two" if cls.two_classes_only else "any number",
        "Fitted from": "logits, probabilities or a profile"
        if by_profile
        else "logits or probabilities",
        "Source": references(inspect.getdoc(cls)),
    }


def metric_facts(name: str) -> dict[str, str]:
    """What is known about a metric or a test."""
    function = getattr(metrics, name)
    facts = {"Function": f"{{py:func}}`~calibrant.metrics.{name}`"}
    if name in METRICS:
        metric = METRICS[name]
        if metric.is_error:
            facts["Whose calibration"] = WHOSE[metric.notion]
        facts["Better"] = "higher" if metric.higher_is_better else "lower"
        facts["Interval"] = "yes" if metric.has_interval else "no"
        facts["In a meter"] = "yes" if metric.mergeable else "no"
        facts["In `evaluate`"] = "yes" if metric.by_default else "where it is named"
    facts["Source"] = references(inspect.getdoc(function))
    return facts


class Facts(SphinxDirective):
    """A table of what is known about the thing that the argument names."""

    required_arguments = 1
    of = staticmethod(method_facts)

    def run(self) -> list[nodes.Node]:
        """Write the table in the markup of the page."""
        facts = {what: value for what, value in self.of(self.arguments[0]).items() if value}
        lines = ["| | |", "|---|---|", *(f"| {what} | {value} |" for what, value in facts.items())]
        found = self.parse_text_to_nodes("\n".join(lines))
        for table in found:
            table["classes"].append("facts")
        return found


class MetricFacts(Facts):
    """The same of a metric."""

    of = staticmethod(metric_facts)


def setup(app: Sphinx) -> dict[str, bool]:
    """Make the directives known to Sphinx."""
    app.add_directive("method-facts", Facts)
    app.add_directive("metric-facts", MetricFacts)
    return {"parallel_read_safe": True, "parallel_write_safe": True}
