"""What ``calibrant plot`` can draw: which numbers a picture needs, and who draws them."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Literal

if TYPE_CHECKING:
    from matplotlib.figure import Figure

    from calibrant.calibrators import Calibrator
    from calibrant.data.scorefiles import ScoreFile

What = Literal["reliability", "risk-coverage", "temperatures", "gaps", "bins"]
Kind = Literal["equal-width", "equal-mass", "isotonic", "smooth"]
Against = Literal["confidence", "margin", "entropy"]
UNCALIBRATED = "uncalibrated"


@dataclass(frozen=True)
class Subject:
    """Scores with all that was said about them, and the calibrators to draw beside them."""

    data: ScoreFile
    ignore_index: int | None
    methods: Mapping[str, Calibrator]

    def every(self) -> dict[str, dict[str, Any]]:
        """The arguments of a diagram by name: of the scores as they were, and calibrated."""
        data = self.data
        rows = {"sample_weight": data.weights, "ignore_index": self.ignore_index}
        given = {UNCALIBRATED: (data.scores, data.input)}
        for name, method in self.methods.items():
            given[name] = method.predict_proba(data.scores), "probs"
        return {
            name: {"probs": scores, "labels": data.labels, "input": kind, **rows}
            for name, (scores, kind) in given.items()
        }

    def only(self, what: str) -> tuple[str, dict[str, Any]]:
        """What the one calibrator makes of the scores; without any, the scores."""
        if len(self.methods) > 1:
            names = ", ".join(self.methods)
            raise ValueError(f"{what} is drawn of one calibrator, got {names}")
        return list(self.every().items())[-1]


@dataclass(frozen=True)
class Picture:
    """What was asked for; combinations without a meaning are refused."""

    what: What
    kind: Kind | None
    n_bins: int | None
    by_class: bool
    by_segment: bool
    against: Against | None
    notion: Literal["class-1", "confidence"] | None = None

    def __post_init__(self) -> None:
        if self.by_class and self.by_segment:
            raise ValueError("--by class and --segment-key are two ways to divide: leave one out")
        if self.in_panels and self.what != "reliability":
            raise ValueError("--by and --segment-key go with --what reliability")
        if self.notion is not None and (self.by_class or self.what not in ("reliability", "bins")):
            raise ValueError("--notion goes with --what reliability or bins, without --by class")
        if self.against is not None and self.what != "temperatures":
            raise ValueError("--against goes with --what temperatures")
        if self.kind is not None and self.what not in ("reliability", "bins"):
            raise ValueError("--kind goes with --what reliability or bins")
        if self.what == "bins" and self.kind in ("isotonic", "smooth"):
            raise ValueError(f"--what bins takes --kind equal-width or equal-mass, got {self.kind}")
        if self.n_bins is not None and self.what not in ("reliability", "gaps"):
            raise ValueError("--n-bins goes with --what reliability or gaps")

    @property
    def in_panels(self) -> bool:
        """Whether it is small multiples."""
        return self.by_class or self.by_segment

    @property
    def of_one(self) -> bool:
        """Whether it shows a single set of probabilities."""
        return self.in_panels or self.what == "gaps"

    # --- numbers ------------------------------------------------------------------------------

    def numbers(self, subject: Subject) -> dict[str, Any]:
        """The diagrams by name."""
        from calibrant.evaluation import diagrams

        if self.what == "temperatures":
            return self._temperatures(subject)
        bins: dict[str, Any] = {} if self.n_bins is None else {"n_bins": self.n_bins}
        if self.in_panels:
            return self._panels(subject, bins)
        if self.what == "gaps":
            name, rows = subject.only("--what gaps")
            return {name: diagrams.class_gaps(**rows, **bins)}
        kind_of_bins, notion = self.kind or "equal-width", {"notion": self.notion}
        ways: dict[str, tuple[Callable[..., Any], dict[str, Any]]] = {
            "reliability": (diagrams.reliability, {"kind": kind_of_bins, **bins, **notion}),
            "risk-coverage": (diagrams.risk_coverage, {}),
            "bins": (diagrams.ece_by_bins, {"scheme": kind_of_bins, **notion}),
        }
        compute, options = ways[self.what]
        return {name: compute(**rows, **options) for name, rows in subject.every().items()}

    def _panels(self, subject: Subject, bins: dict[str, Any]) -> dict[str, Any]:
        from calibrant.evaluation import diagrams

        flag = "--by class" if self.by_class else "--segment-key"
        _, rows = subject.only(flag)
        options = {"kind": self.kind or "equal-width", **bins, **rows}
        if self.by_class:
            found = diagrams.reliability_by_class(**options)
        else:
            segments: Any = subject.data.segments
            # tables hold floats: those without a fraction are whole numbers
            if segments.dtype.kind == "f" and (segments == segments.round()).all():
                segments = segments.astype("int64")
            found = diagrams.reliability_by_segment(
                segments=segments, notion=self.notion, **options
            )
        return {str(key): diagram for key, diagram in found.items()}

    def _temperatures(self, subject: Subject) -> dict[str, Any]:
        """Those of the one calibrator that is no TS; TS is what it is compared with."""
        from calibrant.calibrators import TemperatureScaling
        from calibrant.evaluation import diagrams

        scalings = {n: m for n, m in subject.methods.items() if isinstance(m, TemperatureScaling)}
        others = {name: m for name, m in subject.methods.items() if name not in scalings}
        drawn = others or scalings
        if len(drawn) != 1 or len(scalings) > 1:
            raise ValueError(
                "--what temperatures takes one --calibrator, such as PTS, and TS to compare with, "
                f"got {', '.join(subject.methods) or 'none'}"
            )
        ((name, method),) = drawn.items()
        reference = next(iter(scalings.values()), None)
        return {name: diagrams.temperatures(method, subject.data.scores, reference=reference)}

    # --- drawing ------------------------------------------------------------------------------

    def size(self, shown: Mapping[str, Any]) -> tuple[float, float]:
        """The inches of the picture, where none were asked for."""
        from calibrant.evaluation.plots import _drawing, _errors, _reliability

        if self.in_panels:
            return _reliability.grid_size(min(len(shown), _reliability.MOST_PANELS))
        if self.what == "gaps":
            return _errors.class_gaps_size(len(next(iter(shown.values())).gap))
        return _reliability.SIZE if self.what == "reliability" else _drawing.SIZE

    def draw(self, figure: Figure, shown: Mapping[str, Any]) -> None:
        """Fill a figure."""
        from calibrant.evaluation import plots

        named = {name.replace("$", r"\$"): one for name, one in shown.items()}  # no formulas
        if self.in_panels:
            plots.reliability_grid(named, figure=figure)
            return
        ax = figure.add_subplot()
        one = next(iter(named.values()))
        several = named if len(named) > 1 else one
        if self.what == "reliability":
            plots.reliability(several, ax=ax)
        elif self.what == "risk-coverage":
            plots.risk_coverage(several, ax=ax)
        elif self.what == "bins":
            plots.ece_by_bins(several, ax=ax)
        elif self.what == "gaps":
            plots.class_gaps(one, ax=ax)
        else:
            plots.temperatures(one, against=self.against, ax=ax)
