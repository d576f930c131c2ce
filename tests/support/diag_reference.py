"""DIAG as its authors fit it, in torch: the slow yardstick of our fit.

    python tests/support/diag_reference.py cifar100-vgg19

prints the cross-entropy that the authors' procedure reaches on the validation rows, and ours
without and with the default penalty. It uses a GPU where there is one.
"""

from __future__ import annotations

import sys
import time

import numpy as np

import calibrant
from calibrant.calibrators import DiagonalOrderPreserving
from calibrant.calibrators.increasing._fit import clenshaw_curtis


def torch_reference(logits, labels, nodes=50, iterations=200):
    """Their fit, with gradients zeroed: [10, 10], torch's L-BFGS with strong Wolfe; final NLL."""
    import torch

    device = "cuda" if torch.cuda.is_available() else "cpu"
    torch.manual_seed(1357)
    net = torch.nn.Sequential(
        torch.nn.Linear(2, 10),
        torch.nn.ReLU(),
        torch.nn.Linear(10, 10),
        torch.nn.ReLU(),
        torch.nn.Linear(10, 1),
        torch.nn.ELU(),
    ).to(device)
    rule, cosines = (
        torch.asarray(part, dtype=torch.float32, device=device) for part in clenshaw_curtis(nodes)
    )
    scores = torch.asarray(logits, dtype=torch.float32, device=device)
    target = torch.asarray(labels, device=device)
    optimiser = torch.optim.LBFGS(
        net.parameters(), lr=0.1, max_iter=iterations, line_search_fn="strong_wolfe"
    )

    def closure():
        optimiser.zero_grad()
        total = 0.0
        for part, true in zip(scores.split(500), target.split(500), strict=True):
            points = part.reshape(-1, 1) * (1.0 + cosines) / 2.0
            both = torch.stack([points.ravel(), torch.zeros_like(points.ravel())], dim=1)
            values = net(both).reshape(points.shape) + 1.0 + 1e-8
            m = (part.ravel() / 2.0 * (values @ rule)).reshape(part.shape)
            loss = torch.nn.functional.cross_entropy(m, true, reduction="sum") / len(target)
            loss.backward()
            total += loss.item()
        return torch.tensor(total)

    optimiser.step(closure)
    return float(closure())


def final_losses(name):
    """Losses on the fitting rows: the authors' procedure, ours without the penalty, ours."""
    data = calibrant.datasets.load(name)
    logits, labels = data.val_logits.astype(np.float64), data.val_labels.astype(np.int64)
    fits = [DiagonalOrderPreserving(penalty=0.0), DiagonalOrderPreserving()]
    ours = [fit.fit(logits, labels).fit_info_.after for fit in fits]
    return torch_reference(logits, labels), *ours


if __name__ == "__main__":
    for chosen in sys.argv[1:]:
        began = time.perf_counter()
        reached, unpenalised, default = final_losses(chosen)
        print(
            f"{chosen}: authors' procedure {reached:.6f}, ours without penalty {unpenalised:.6f}, "
            f"default {default:.6f} ({time.perf_counter() - began:.0f} s)",
            flush=True,
        )
