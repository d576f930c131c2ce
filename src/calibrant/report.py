"""One self-contained page about a model and its calibrators, for a model review."""

from calibrant.evaluation.report import Provenance, Report, make_report

__all__ = ["Provenance", "Report", "make_report"]
