"""Draw the one picture of the README and of the site's first page, in light and in dark.

    python docs/figures/picture.py

writes docs/_static/reliability.png and docs/_static/reliability-dark.png.
"""

from __future__ import annotations

from pathlib import Path

import matplotlib

matplotlib.use("Agg")

import matplotlib.pyplot as plt

import calibrant
from calibrant import diagrams, plots

STATIC = Path(__file__).resolve().parents[1] / "_static"
STYLES = {"reliability.png": "default", "reliability-dark.png": "dark_background"}


def draw() -> plt.Figure:
    """Reliability of a network before and after PTS, in the style in use."""
    data = calibrant.datasets.load("cifar100-vgg19")
    pts = calibrant.PTS().fit(data.val_logits, data.val_labels)
    before = diagrams.reliability(data.test_logits, data.test_labels, input="logits", n_bins=10)
    after = diagrams.reliability(pts.predict_proba(data.test_logits), data.test_labels, n_bins=10)
    figure, (left, right) = plt.subplots(1, 2, figsize=(8.0, 4.2), layout="constrained")
    plots.reliability(before, ax=left).set_title("A network as it is")
    plots.reliability(after, ax=right).set_title("The same, calibrated by PTS")
    return figure


if __name__ == "__main__":
    for name, style in STYLES.items():
        with plt.style.context(style):
            draw().savefig(STATIC / name, dpi=130, transparent=True, metadata={"Software": None})
