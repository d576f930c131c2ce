"""Train every network for a few steps on random images, and print how long a step takes.

A trial before a long training on a lent GPU: it goes the whole way of a training, checkpoint and
evaluation included. Run it from the repository root; it needs torch, NumPy and Pillow alone:

    python tools/time_training.py --networks resnet50 densenet169 --device cuda
"""

from __future__ import annotations

import argparse
import sys
import tempfile
import time
from dataclasses import replace
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[1] / "papers" / "src"))
sys.path.insert(0, str(Path(__file__).resolve().parents[1] / "src"))

import numpy as np
import torch

from calibrant_papers import training
from calibrant_papers.images import TEST, TRAIN, VALIDATION, ImageSet
from calibrant_papers.recipes import RECIPES, STAND_INS

EPOCHS = 4  # two to get ready; the third is timed; the fourth also writes the checkpoint
IMAGES_PER_EPOCH = 37_500  # of CIFAR-100 with 12,500 rows held out


def random_images(n_train: int, n_held_out: int) -> ImageSet:
    """Noise with labels, in the form of CIFAR-100."""
    rng = np.random.default_rng(0)
    split = np.repeat([TRAIN, VALIDATION, TEST], [n_train, n_held_out, n_held_out]).astype(np.uint8)
    images = rng.integers(0, 256, (len(split), 32, 32, 3), dtype=np.uint8)
    return ImageSet("cifar100", images, rng.integers(0, 100, len(split)), split, "noise")


def time_network(network: str, options: argparse.Namespace) -> str:
    """One line: seconds to get ready, milliseconds per step, seconds per epoch of CIFAR-100."""
    recipe = replace(RECIPES["cifar100", network], epochs=EPOCHS)
    recipe = replace(recipe, batch=options.batch or recipe.batch)
    times = [time.monotonic()]
    with tempfile.TemporaryDirectory() as folder:
        trained = training.train(
            random_images(options.steps * recipe.batch, options.rows),
            network,
            recipe,
            seed=0,
            device=options.device,
            checkpoint=Path(folder) / "checkpoint.pt",
            report=lambda epoch: times.append(time.monotonic()),
        )
    step = (times[3] - times[2]) / options.steps
    memory = ""
    if options.device == "cuda":
        memory = f"  {torch.cuda.max_memory_reserved() / 2**30:.1f} GiB"
        torch.cuda.empty_cache()
        torch.cuda.reset_peak_memory_stats()
    finite = np.isfinite(trained.held_out.test_logits).all()
    return (
        f"{network:12} batch {recipe.batch}  tuning {torch.backends.cudnn.benchmark}  "
        f"ready after {times[1] - times[0]:.1f} s  step {1000 * step:.1f} ms  "
        f"epoch {step * IMAGES_PER_EPOCH / recipe.batch:.2f} s{memory}"
        f"{'' if finite else '  LOGITS NOT FINITE'}"
    )


def main() -> None:
    """Time all wanted networks, one after the other."""
    parser = argparse.ArgumentParser(description="Time a few training steps of every network.")
    parser.add_argument("--networks", nargs="+", default=list(STAND_INS))
    parser.add_argument("--device", default="cuda")
    parser.add_argument("--batch", type=int, help="instead of the recipes'")
    parser.add_argument("--steps", type=int, default=10, help="of an epoch; there are four")
    parser.add_argument("--rows", type=int, default=500, help="validation rows, and test rows")
    parser.add_argument("--tuning", action="store_true", help="let cuDNN try its algorithms")
    options = parser.parse_args()
    torch.backends.cudnn.benchmark = options.tuning
    for network in options.networks:
        print(time_network(network, options), flush=True)


if __name__ == "__main__":
    main()
