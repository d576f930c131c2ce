"""The figure of docs/guide/rows-needed.md: what more validation rows gain."""

from __future__ import annotations

from collections.abc import Callable

import matplotlib.pyplot as plt
import numpy as np

from studies import COLORS, records, tidy

FOUND = {
    (record["network"], record["rows"], record["method"]): record
    for record in records("rows_needed")
}
TEN = ("cifar10-lenet5", "cifar10-vgg19", "fashion-mnist-lenet5", "fashion-mnist-vgg19")
HUNDRED = tuple(sorted({network for network, _, _ in FOUND if network.startswith("cifar100")}))


def log_loss(network: str, rows: int, method: str) -> float:
    """Log loss over that of the uncalibrated scores; nan where it is infinite."""
    base = FOUND[network, rows, "base"]["nll"]
    return 100.0 * ((FOUND[network, rows, method]["nll"] or np.nan) / base - 1.0)


def error(network: str, rows: int, method: str) -> float:
    """ECE beyond chance, in points."""
    return float(FOUND[network, rows, method]["excess"])


def lines(axes: plt.Axes, networks: tuple[str, ...], value: Callable[..., float]) -> None:
    """One line per method: the mean over these networks."""
    of_each = [{rows for name, rows, _ in FOUND if name == network} for network in networks]
    sizes = sorted(set.intersection(*of_each))
    for method, color in COLORS.items():
        means = [np.mean([value(network, rows, method) for network in networks]) for rows in sizes]
        axes.plot(sizes, means, "o-", color=color, label=method, markersize=4)
    axes.set_xscale("log")
    axes.set_xticks(sizes, [f"{size:,}" for size in sizes])
    axes.minorticks_off()
    tidy(axes)


figure, panels = plt.subplots(2, 2, figsize=(9.0, 6.8), sharex="col", layout="constrained")
for column, (title, networks) in enumerate({"10 classes": TEN, "100 classes": HUNDRED}.items()):
    top, bottom = panels[:, column]
    lines(top, networks, log_loss)
    lines(bottom, networks, error)
    top.set_title(f"{title}, {len(networks)} networks")
    top.set_ylim(-25.0, 2.0)
    top.axhline(0.0, color="black", linewidth=0.8)
    bottom.set_ylim(-0.2, 6.0)
    bottom.set_xlabel("validation rows")
panels[0, 0].set_ylabel("log loss against\nno calibration (%)")
panels[1, 0].set_ylabel("ECE beyond chance (points)")
figure.legend(*panels[0, 0].get_legend_handles_labels(), loc="outside lower center", ncols=8)
