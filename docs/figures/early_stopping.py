"""The figure of docs/guide/early-stopping.md: calibrated on the rows that stopped the training."""

from __future__ import annotations

import matplotlib.pyplot as plt
import numpy as np

from studies import COLORS, records, tidy

WAYS = {"same": "the same rows", "halves": "halves", "training": "training rows"}
FOUND = {
    (record["model"], record["rows"], record["method"], record["way"]): record
    for record in records("early_stopping")
}
MODELS = {"boosting": "Gradient boosting", "network": "A network"}
SIZES = sorted({rows for _, rows, _, _ in FOUND})
METHODS = ("ts", "pts", "auto")

figure, panels = plt.subplots(1, 2, figsize=(9.0, 4.8), sharey=True, layout="constrained")
for axes, (model, title) in zip(panels, MODELS.items(), strict=True):
    for shift, method in zip((-0.22, 0.0, 0.22), METHODS, strict=True):
        for marker, way in zip("os^", WAYS, strict=True):
            found = [FOUND[model, rows, method, way] for rows in SIZES]
            axes.errorbar(
                np.arange(len(SIZES)) + shift + 0.05 * ("os^".index(marker) - 1),
                [record["brier_difference"] for record in found],
                [2.0 * record["brier_error"] for record in found],
                fmt=marker,
                color=COLORS[method],
                markersize=5,
                markerfacecolor=COLORS[method] if way == "same" else "white",
                label=f"{method}: {WAYS[way]}",
            )
    axes.axhline(0.0, color="black", linewidth=0.8)
    axes.set_xticks(range(len(SIZES)), [f"{size:,}" for size in SIZES])
    axes.set_xlabel("held-out rows")
    axes.set_yscale("symlog", linthresh=0.5)
    axes.set_title(title)
    tidy(axes)
panels[0].set_ylabel("Brier score x 100\nover that of fresh rows")
figure.legend(*panels[0].get_legend_handles_labels(), loc="outside lower center", ncols=3)
