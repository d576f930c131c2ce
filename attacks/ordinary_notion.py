"""Two classes: the default metrics, plots, reports and monitors must see P(y = 1 | q) = q^2."""

from __future__ import annotations

import numpy as np

import calibrant
from calibrant import diagrams, metrics, plots
from ordinary_measures import measure

ITEM = "two classes"
ROWS = 10_000


def squared() -> tuple[np.ndarray, np.ndarray]:
    """Scores q, and class 1 with the chance q^2: the true ECE of class 1 is 1/6."""
    rng = np.random.default_rng(3)
    score = rng.random(ROWS)
    return score, (rng.random(ROWS) < score**2).astype(int)


def is_seen(error: float) -> bool:
    """Whether an error is about 1/6, and not that of max(q, 1 - q)."""
    return 0.15 < error < 0.18


@measure(ITEM, "metrics.ece of q with P(y = 1) = q^2", "about 0.165", is_seen)
def plain_ece() -> float:
    """The function."""
    return metrics.ece(*squared())


@measure(ITEM, "evaluate(..).ece.p_value of the same", "at most 0.005", lambda p: p <= 0.005)
def p_value() -> float:
    """The test beside the value."""
    return float(calibrant.evaluate(*squared(), metrics=["ece"]).ece.p_value or 0.0)


@measure(ITEM, "CalibrationMeter ECE of the same", "about 0.165", is_seen)
def meter() -> float:
    """The same from sums."""
    return calibrant.CalibrationMeter().update(*squared()).compute().ece


@measure(ITEM, "compare(..)['base'].ece of the same", "about 0.165", is_seen)
def comparison() -> float:
    """A column of a comparison."""
    rows = squared()
    found = calibrant.compare(*rows, *rows, methods=["base"], metrics=["ece"], input="probs")
    return found["base"].ece


@measure(ITEM, "mean distance of the reliability curve from the diagonal", "about 0.165", is_seen)
def curve() -> float:
    """What a plot shows."""
    return diagrams.reliability(*squared(), n_resamples=0).error


@measure(ITEM, "windows of 1,000 rows with an alarm, of 10", "10", lambda number: number == 10)
def alarms() -> float:
    """What a monitor says."""
    monitor = calibrant.CalibrationMonitor(window=1000)
    monitor.update(*squared())
    return float(sum(window.alarm for window in monitor.windows))


@measure(ITEM, "what the report says of it", "more than noise", lambda text: "more" in text)
def report() -> str:
    """The verdict in words."""
    rows = squared()
    made = calibrant.report.make_report(*rows, *rows, methods=["base"], input="probs")
    return "more than noise" if "more than noise explains" in made.summary[1] else "noise"


@measure(ITEM, "plots.reliability(probs, labels)", "drawn", lambda text: text == "drawn")
def picture() -> str:
    """A plot without a diagram made before."""
    from matplotlib.figure import Figure

    plots.reliability(*squared(), ax=Figure().add_subplot())
    return "drawn"


@measure(ITEM, "a p-value of 1 / 201 in evaluate's table", "<= 0.005", lambda p: p == "<= 0.005")
def printed() -> str:
    """The smallest p-value that 200 draws can give."""
    lines = str(calibrant.evaluate(*squared(), metrics=["class1_ece"])).splitlines()
    return next(line for line in lines if line.startswith("Class-1 ECE")).split("  ")[-1].strip()


@measure(ITEM, "the heading of debiased_ece", "says RMS", lambda text: "RMS" in text)
def heading() -> str:
    """A root mean square, which may exceed the ECE."""
    return metrics.METRICS["debiased_ece"].heading
